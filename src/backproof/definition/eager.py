"""The route of a plain eager call: torch's own node, past torch's Python wrapper.

`Function.apply` costs a Python frame before C++ sees the call and the engine another one
before backward; both are skipped. What is added is a look at what forward left on ctx,
so that a derivative of backward is right or refused (carrying.py, second_order.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from backproof.definition import private
from backproof.definition.arguments import Form, pack
from backproof.definition.carrying import Rerun
from backproof.definition.context import Context
from backproof.definition.recording import (
    Place,
    Run,
    left_by,
    refuse_hidden,
    returned,
)
from backproof.definition.second_order import Refusal, guarded
from backproof.definition.written import Written
from backproof.errors import NoDerivative

_SIMPLE = frozenset(
    {bool, int, float, complex, str, bytes, type(None)}
    | {torch.Size, torch.dtype, torch.device}
)


def flat_apply(written: Written, refuse: Refusal) -> Callable[..., Any]:
    """`apply` for arguments of which none holds a tensor inside."""
    user_forward, user_backward = written.forward, written.backward
    enabled = torch.is_grad_enabled

    def forward(ctx: Any, *arguments: Any) -> Any:
        result = user_forward(ctx, *arguments)
        if True in ctx.needs_input_grad:
            _note(ctx, arguments, result, written)
        return result if type(result) is not list else tuple(result)

    def backward(ctx: Any, *cotangents: Any) -> Any:
        if not enabled():
            return user_backward(ctx, *cotangents)
        return tuple(_with_derivative(ctx, cotangents, written, refuse))

    return _bound(written, forward, backward)


def tree_apply(written: Written, refuse: Refusal) -> Callable[..., Any]:
    """`apply` for arguments that hold tensors inside: a list, a dict, a named tuple."""

    def forward(ctx: Any, form: Form, ints: Any, floats: Any, *tensors: Tensor) -> Any:
        ctx._backproof_form = form
        arguments = form.arguments(tensors, ints, floats)
        result = written.forward(ctx, *arguments)
        if any(ctx.needs_input_grad):
            _note(ctx, arguments, result, written)
        return result if type(result) is not list else tuple(result)

    def backward(ctx: Any, *cotangents: Any) -> Any:
        if torch.is_grad_enabled():
            result = _with_derivative(ctx, cotangents, written, refuse)
        else:
            result = returned(written.backward(ctx, *cotangents))
        return (None, None, None, *ctx._backproof_form.gather(result))

    apply = _bound(written, forward, backward, needs=_nested_needs)

    def packed_apply(*arguments: Any) -> Any:
        packed = pack(arguments)
        form = Form(packed.form)
        return apply(form, packed.ints, packed.floats, *packed.tensors)

    return packed_apply


def _nested_needs(ctx: Any) -> tuple[Any, ...]:
    per_tensor = torch._C._FunctionBase.needs_input_grad.__get__(ctx)[3:]
    form = ctx.__dict__.get("_backproof_form")
    if form is None:
        return tuple(per_tensor)
    return tuple(False if n is None else n for n in form.spread(per_tensor))


def _bound(
    written: Written,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    needs: Callable[[Any], Any] | None = None,
) -> Callable[..., Any]:
    """`apply` of a torch Function with these methods, as close to C++ as it goes."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    node = type(
        written.name, (torch.autograd.Function,), {**written.options, **methods}
    )
    node.__module__ = written.owner.__module__
    node.written_as = written.owner
    if needs is not None:
        node._backward_cls.needs_input_grad = property(needs)
    if not private.CAN_BIND:
        return node.apply
    if not written.options.get("boxed_grads_call"):
        node._backward_cls.apply = backward
    bound: Callable[..., Any] = super(torch.autograd.Function, node).apply
    return bound


def _note(ctx: Any, arguments: Sequence[Any], result: Any, written: Written) -> None:
    """Remember the inputs of a call that leaves tensors of its own making on ctx."""
    if type(result) is tuple:
        known = {*map(id, arguments), *map(id, result)}
        if not _TENSORS.issuperset(map(type, result)):
            refuse_hidden(result, written.name)
    else:
        known = {*map(id, arguments), id(result)}
    saved = ctx.to_save
    if saved is not None:
        for tensor in saved:
            if tensor is not None and id(tensor) not in known:
                ctx._backproof_inputs = _Remembered(arguments)
                return
    for value in ctx.__dict__.values():
        if (
            type(value) not in _SIMPLE
            and id(value) not in known
            and any(
                isinstance(leaf, Tensor) and id(leaf) not in known
                for leaf in pytree.tree_leaves(value)
            )
        ):
            ctx._backproof_inputs = _Remembered(arguments)
            return


_TENSORS = frozenset({Tensor, torch.nn.Parameter, type(None)})


class _Remembered:
    """A call's arguments, without keeping its tensors alive.

    Keeping them would undo what a Function that saves less was written for. Those that
    backward saved, parameters, and whatever else somebody holds are still there.
    """

    __slots__ = ("leaves", "spec")

    def __init__(self, arguments: Sequence[Any]) -> None:
        leaves, self.spec = pytree.tree_flatten(tuple(arguments))
        self.leaves = [
            (weakref.ref(leaf), leaf._version)
            if isinstance(leaf, Tensor)
            else (leaf, None)
            for leaf in leaves
        ]

    def again(self, owner: str) -> list[Any]:
        """The arguments.

        Raises:
            NoDerivative: one is gone, or was changed in place since.
        """
        found = []
        for k, (leaf, version) in enumerate(self.leaves):
            if version is None:
                found.append(leaf)
                continue
            tensor = leaf()
            if tensor is None or tensor._version != version:
                what = "is gone" if tensor is None else "was changed in place"
                raise NoDerivative(
                    f"{owner}: a derivative of its backward needs input {k}, from which "
                    f"forward made a tensor that it saved, and the input {what}. Save "
                    "the input with `save_for_backward`"
                )
            found.append(tensor)
        arguments: list[Any] = list(pytree.tree_unflatten(found, self.spec))
        return arguments


def _with_derivative(
    ctx: Any, cotangents: Sequence[Any], written: Written, refuse: Refusal
) -> Sequence[Any]:
    """Backward, where somebody may differentiate its result."""
    boxed = bool(written.options.get("boxed_grads_call"))
    given = list(cotangents[0]) if boxed else list(cotangents)
    standing = Context(ctx.needs_input_grad)
    standing.saved_tensors = ctx.saved_tensors  # once: hooks run, options may clear
    standing.__dict__.update(ctx.__dict__)
    standing.__dict__.pop("_backproof_form", None)
    remembered = standing.__dict__.pop("_backproof_inputs", None)
    if remembered is not None and not written.once:
        _lend(standing, remembered.again(written.name), written)
    left = (standing.saved_tensors, standing.__dict__)
    return guarded(
        lambda every: returned(
            written.backward(standing, list(every))
            if boxed
            else written.backward(standing, *every)
        ),
        given,
        [leaf for leaf in pytree.tree_leaves(left) if isinstance(leaf, Tensor)],
        once=written.once,
        refuse=refuse,
    )


def _lend(ctx: Context, arguments: Sequence[Any], written: Written) -> None:
    """Give the tensors on `ctx` that forward made the derivative that they have."""

    def forward() -> Run:
        fresh = Context(ctx.needs_input_grad)
        result = written.forward(fresh, *arguments)
        tensors = [t for t in pytree.tree_leaves(arguments) if isinstance(t, Tensor)]
        return left_by(fresh, result, tensors, written.name)

    leaves = pytree.tree_leaves(list(arguments))
    again = Rerun(forward, leaves, written.name)
    left = again.run.left
    try:
        places = pytree.tree_map(
            _Pair,
            [left.saved, left.attributes],
            [ctx.saved_tensors, ctx.__dict__],
        )
    except ValueError:  # other attributes than the first time
        every = pytree.tree_map_only(
            Tensor,
            lambda t: again.refused(t, "does not repeat what it saves"),
            [ctx.saved_tensors, ctx.__dict__],
        )
        ctx.saved_tensors, attributes = every
        ctx.__dict__.update(attributes)
        return
    pairs = pytree.tree_leaves(places, is_leaf=_is_pair)
    lent = again.lend({p.index: v for p, v in pairs if _is_extra(p)})
    ctx.saved_tensors, attributes = pytree.tree_map(
        lambda pair: lent[pair[0].index] if _is_extra(pair[0]) else pair[1],
        places,
        is_leaf=_is_pair,
    )
    ctx.__dict__.update(attributes)


class _Pair(NamedTuple):
    place: Any
    value: Any


def _is_pair(item: Any) -> bool:
    return isinstance(item, _Pair)


def _is_extra(place: Any) -> bool:
    return isinstance(place, Place) and place.origin == "extra"
