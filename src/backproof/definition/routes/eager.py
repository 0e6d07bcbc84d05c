"""The route of a plain eager call: torch's own node, past torch's Python wrapper.

`Function.apply` costs a Python frame before C++ sees the call and the engine another one
before backward; both are skipped. What is added is a look at what forward left on ctx,
so that a derivative of backward is right or refused (second_order/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from backproof.definition import private
from backproof.definition.operator.arguments import Form, Packed, pack
from backproof.definition.recording.context import Context
from backproof.definition.recording.recording import (
    SIMPLE,
    Left,
    Place,
    Run,
    hides_tensor,
    left_by,
    refuse_hidden,
    returned,
)
from backproof.definition.second_order.carrying import Rerun
from backproof.definition.second_order.refusing import Refusal, guarded
from backproof.definition.second_order.seeing import WATCHING, unwatched
from backproof.definition.written import Written
from backproof.errors import NoDerivative


def flat_apply(  # noqa: C901 - a function more costs a tenth of the call
    written: Written, refuse: Refusal
) -> Callable[..., Any]:
    """`apply` for arguments of which none holds a tensor inside."""
    user_forward, user_backward = written.forward, written.backward
    enabled = torch.is_grad_enabled

    def forward(ctx: Any, *arguments: Any) -> Any:
        if WATCHING:  # a call inside another's backward: its rule is its own
            with unwatched():
                result = user_forward(ctx, *arguments)
        else:
            result = user_forward(ctx, *arguments)
        if True in ctx.needs_input_grad:
            for value in ctx.__dict__.values():
                if value.__class__ not in SIMPLE:
                    _note(ctx, arguments, result)
                    break
            for tensor in ctx.to_save or ():
                for argument in arguments:
                    if argument is tensor:
                        break
                else:
                    if tensor is result or tensor is None:
                        continue
                    if result.__class__ is Tensor or not _among(tensor, result):
                        ctx._backproof_inputs = _remember(arguments)
                        break
        return result if result.__class__ is Tensor else _plain(result, written)

    def backward(ctx: Any, *cotangents: Any) -> Any:
        if not enabled():
            return user_backward(ctx, *cotangents)
        return tuple(_with_derivative(ctx, cotangents, written, refuse))

    return _bound(written, forward, backward)


def tree_apply(written: Written, refuse: Refusal) -> Callable[..., Any]:
    """`apply` for arguments that hold tensors inside: a list, a dict, a named tuple."""

    def forward(ctx: Any, call: _Nested, *tensors: Tensor) -> Any:
        ctx._backproof_call = call
        with unwatched():
            result = written.forward(ctx, *call.arguments(tensors))
        if any(ctx.needs_input_grad):
            _note(ctx, tensors, result)
        return _plain(result, written)

    def backward(ctx: Any, *cotangents: Any) -> Any:
        if torch.is_grad_enabled():
            result = _with_derivative(ctx, cotangents, written, refuse)
        else:
            result = returned(written.backward(ctx, *cotangents))
        return (None, *ctx._backproof_call.form.gather(result))

    needs = None if private.FunctionBase is None else _nested_needs
    apply = _bound(written, forward, backward, needs=needs)

    def packed_apply(*arguments: Any) -> Any:
        packed = pack(arguments)
        return apply(_Nested(packed), *packed.tensors)

    return packed_apply


class _Nested:
    """Arguments that hold tensors inside, without the tensors."""

    def __init__(self, packed: Packed) -> None:
        self.form = Form(packed.form)
        self._numbers = (packed.ints, packed.floats)

    def arguments(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The arguments again."""
        return self.form.arguments(tensors, *self._numbers)


def _nested_needs(ctx: Any) -> tuple[Any, ...]:
    """`needs_input_grad`, a container for a container."""
    per_tensor = private.FunctionBase.needs_input_grad.__get__(ctx)[1:]
    call = ctx.__dict__.get("_backproof_call")
    if call is None:
        return tuple(per_tensor)
    return tuple(False if n is None else n for n in call.form.spread(per_tensor))


def _bound(
    written: Written,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    needs: Callable[[Any], Any] | None = None,
) -> Callable[..., Any]:
    """`apply` of a torch Function with these methods, as close to C++ as it goes."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    node: Any = type(
        written.name, (torch.autograd.Function,), {**written.options, **methods}
    )
    node.__module__ = written.owner.__module__
    node.written_as = written.owner
    if needs is not None:
        node._backward_cls.needs_input_grad = property(needs)
    if private.FunctionBase is None or private.SingleLevelFunction is None:
        apply: Callable[..., Any] = node.apply
        return apply
    if not written.options.get("boxed_grads_call"):
        node._backward_cls.apply = backward
    # Past whatever an audit has put on torch's class by now: a bound method stays.
    bound: Callable[..., Any] = super(private.SingleLevelFunction, node).apply
    return bound


def _plain(result: Any, written: Written) -> Any:
    """Outputs as torch wants them: it knows no gradient of what is in a list."""
    if isinstance(result, list):
        result = tuple(result)
    refuse_hidden(returned(result), written.name)
    return result


def _among(tensor: Tensor, result: Any) -> bool:
    return any(output is tensor for output in returned(result))


def _note(ctx: Any, arguments: Sequence[Any], result: Any) -> None:
    """Remember the inputs of a call that leaves tensors of its own making on ctx."""
    known = {*map(id, arguments), *map(id, returned(result))}
    for value in (ctx.to_save, *ctx.__dict__.values()):
        if value.__class__ in SIMPLE:
            continue
        leaves = pytree.tree_leaves(value)
        if any(isinstance(leaf, Tensor) and id(leaf) not in known for leaf in leaves):
            ctx._backproof_inputs = _remember(arguments)
            return


def _remember(values: Sequence[Any]) -> list[Any]:
    """A call's arguments, without keeping its tensors alive.

    Keeping them would undo what a Function that saves less was written for. Those that
    backward saved, parameters, and whatever else somebody holds are still there. A
    tensor becomes a weak reference and its version, anything that is not simple a pair
    of itself and None.
    """
    return [
        (ref(v), v._version)
        if v.__class__ is Tensor
        else v
        if v.__class__ in SIMPLE
        else _remembered(v)
        for v in values
    ]


def _remembered(value: Any) -> tuple[Any, int | None]:
    return (ref(value), value._version) if isinstance(value, Tensor) else (value, None)


def _again(remembered: Sequence[Any], owner: str) -> list[Any]:
    """The arguments.

    Raises:
        NoDerivative: one is gone, or was changed in place since.
    """
    found = []
    for entry in remembered:
        value, version = entry if entry.__class__ is tuple else (entry, None)
        if version is not None:
            value = value()
            if value is None or value._version != version:
                what = "is gone" if value is None else "was changed in place"
                raise NoDerivative(
                    f"{owner}: a derivative of its backward needs an input from which "
                    f"forward made a tensor that it saved, and the input {what}. Save "
                    "the input with `save_for_backward`"
                )
        found.append(value)
    return found


def _with_derivative(
    ctx: Any, cotangents: Sequence[Any], written: Written, refuse: Refusal
) -> Sequence[Any]:
    """Backward, where somebody may differentiate its result."""
    boxed = bool(written.options.get("boxed_grads_call"))
    every = list(cotangents[0]) if boxed else list(cotangents)
    standing = Context(ctx.needs_input_grad)
    standing.saved_tensors = ctx.saved_tensors  # once: hooks run, options may clear
    standing.__dict__.update(ctx.__dict__)
    nested = standing.__dict__.pop("_backproof_call", None)
    remembered = standing.__dict__.pop("_backproof_inputs", None)
    if remembered is not None and not written.once:
        given = _again(remembered, written.name)
        arguments = given if nested is None else nested.arguments(given)
        _lend(standing, arguments, written)
    left = (standing.saved_tensors, standing.__dict__)
    return guarded(
        lambda given: returned(
            written.backward(standing, list(given))
            if boxed
            else written.backward(standing, *given)
        ),
        every,
        [leaf for leaf in pytree.tree_leaves(left) if isinstance(leaf, Tensor)],
        once=written.once,
        hidden=hides_tensor(standing.__dict__),
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
    places = None if again.run is None else _paired(again.run.left, ctx)
    if places is None:
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


def _paired(left: Left, ctx: Context) -> Any:
    """Each place beside what is there now; None where they are not laid out alike."""
    values = [ctx.saved_tensors, ctx.__dict__]
    try:
        return pytree.tree_map(_Pair, [left.saved, left.attributes], values)
    except ValueError:
        return None


class _Pair(NamedTuple):
    place: Any
    value: Any


def _is_pair(item: Any) -> bool:
    return isinstance(item, _Pair)


def _is_extra(place: Any) -> bool:
    return isinstance(place, Place) and place.origin == "extra"
