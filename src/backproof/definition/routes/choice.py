"""`apply`: which route a call takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from backproof.definition import private
from backproof.definition.operator.arguments import holds_object, not_written_down, pack
from backproof.definition.operator.differentiation import autograd_kernel
from backproof.definition.operator.operator import define, implement_autograd, latest
from backproof.definition.operator.recorded_call import relearned
from backproof.definition.policies import Policies
from backproof.definition.recording.recording import SIMPLE
from backproof.definition.routes.eager import flat_apply, tree_apply
from backproof.definition.routes.plain import plain_apply
from backproof.definition.routes.traced import traced_apply
from backproof.definition.written import Method, Written
from backproof.errors import NoDerivative
from backproof.function_class import OFF_THE_RECORD, WATCHERS

_FLAT = SIMPLE | {Tensor, torch.nn.Parameter}


def apply_of(written: Written, policies: Policies) -> Callable[..., Any]:
    """`apply` of a class.

    Three routes: torch's own node in plain eager, a torch Function that dynamo inlines,
    and everywhere else an operator of torch's dispatcher.
    """
    written = policies.inside(written)
    name = written.name

    def refuse(count: int, *tensors: Tensor) -> Any:
        from backproof.definition.nodes import Refuse

        return Refuse.apply(written.second_order_refusal, count, *tensors)

    if not private.can_dispatch():
        plain = policies.around(plain_apply(written, refuse), name)
        return _with_keywords(plain, written)
    operator = define(written)
    implement_autograd(operator, autograd_kernel(written, operator, refuse))
    return _choosing(
        written,
        flat=policies.around(flat_apply(written, refuse), name),
        tree=policies.around(tree_apply(written, refuse), name),
        traced=policies.around(traced_apply(written, operator), name),
        everywhere=policies.around(_operator_apply(written, operator), name),
    )


def _choosing(  # noqa: C901 - a function more costs a tenth of the call
    written: Written, *, flat: Method, tree: Method, traced: Method, everywhere: Method
) -> Callable[..., Any]:
    """`apply`, whose every line is paid for in each eager call."""
    binds, flat_types = written.binds, _FLAT
    owner, watchers, off = written.owner, WATCHERS, OFF_THE_RECORD
    functorch, modes = private.functorch_active, private.dispatch_modes
    tracing, forward_mode = private.tracing_state, private.forward_mode
    compiling, fx = torch.compiler.is_dynamo_compiling, private.fx_tracing

    def apply(*arguments: Any, **keywords: Any) -> Any:
        if fx is not None and fx._is_fx_tracing_flag:
            proxy = _proxy(arguments, keywords)
            if proxy is not None:
                return _traced_by_fx(proxy, apply, arguments, keywords, written.name)
        if keywords or binds:
            arguments = written.bound(arguments, keywords)
        if compiling():
            return traced(*arguments)
        if watchers and not off:
            for watch in watchers:
                watch(owner, arguments)
        if (
            functorch()
            or modes()
            or forward_mode._current_level >= 0
            or tracing() is not None
        ):
            return everywhere(*arguments)
        for argument in arguments:
            if argument.__class__ not in flat_types and _holds_tensor(argument):
                return tree(*arguments)
        return flat(*arguments)

    return apply


def _with_keywords(apply: Callable[..., Any], written: Written) -> Callable[..., Any]:
    def bound(*arguments: Any, **keywords: Any) -> Any:
        if keywords or written.binds:
            arguments = written.bound(arguments, keywords)
        if not torch.compiler.is_compiling() and not OFF_THE_RECORD:
            for watch in WATCHERS:
                watch(written.owner, arguments)
        return apply(*arguments)

    return bound


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return False
    return any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))


def _operator_apply(
    written: Written, operator: torch._ops.OpOverload
) -> Callable[..., Any]:
    def everywhere(*arguments: Any) -> Any:
        packed = pack(arguments)
        if holds_object(packed.form) and torch.compiler.is_exporting():
            raise not_written_down(written.name)
        originals = packed.tensors
        if written.mutates:  # what is saved must not change with the originals
            packed.tensors = [tensor.clone() for tensor in originals]
        latest.left = None
        result = operator(packed.tensors, packed.ints, packed.floats, packed.form)
        made = latest.left
        if made is None:
            made = relearned(
                written, packed.form, packed.tensors, packed.ints, packed.floats
            )
        left = made.agreed(lambda left: left.absent)
        outputs = list(result[: sum(absent is None for absent in left.absent)])
        for k, place in left.dirty.items():
            outputs[k] = _changed(originals[place], outputs[k], written.name)
        return left.result(outputs)

    return everywhere


def _changed(tensor: Tensor, value: Tensor, name: str) -> Tensor:
    """The input that forward changed in place, changed where everybody sees it."""
    try:
        return tensor.copy_(value)
    except RuntimeError as error:
        raise NoDerivative(
            f"{name}: forward changes an input in place, which cannot be done here "
            f"({error}); write it without `mark_dirty`, returning a new tensor"
        ) from error


def _proxy(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The first of fx's proxies among the arguments, inside of containers too."""
    leaves = pytree.tree_leaves((arguments, keywords))
    return next((leaf for leaf in leaves if isinstance(leaf, torch.fx.Proxy)), None)


def _traced_by_fx(
    proxy: Any,
    apply: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    name: str,
) -> Any:
    """One node for the call in a graph of `torch.fx.symbolic_trace`."""
    try:
        return proxy.tracer.create_proxy("call_function", apply, arguments, keywords)
    except NotImplementedError as error:
        raise not_written_down(name) from error
