"""The Autograd kernel of a class's operator.

A single-level Function: it differentiates for the level of torch.func that the
dispatcher is at, so that no level sees another's derivative, and hands the rest on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.operator.layers import ByEntry, peeled
from backproof.definition.operator.operator import latest, needs_of
from backproof.definition.operator.recorded_call import Call, relearned, tangents_of
from backproof.definition.recording.context import Context
from backproof.definition.recording.recording import Left, differentiable, left_by
from backproof.definition.second_order.refusing import Refusal, guarded
from backproof.definition.written import Written

_LEADING = 4  # keyset, ints, floats and form come before the tensors


def autograd_kernel(
    written: Written, operator: torch._ops.OpOverload, refuse: Refusal
) -> Any:
    """`(keyset, tensors, ints, floats, form) -> list of tensors`."""
    node = _node(written, operator, refuse)

    def kernel(
        keyset: Any, tensors: Any, ints: Any, floats: Any, form: str
    ) -> list[Tensor]:
        if private.functorch_active():
            with private.single_level():
                return list(node.apply(keyset, ints, floats, form, *tensors))
        if _nothing_to_differentiate(tensors):
            with private.below_autograd():
                keys = keyset & private.after_autograd
                return list(operator.redispatch(keys, tensors, ints, floats, form))
        return list(node.apply(keyset, ints, floats, form, *tensors))

    return kernel


def _nothing_to_differentiate(tensors: Sequence[Tensor]) -> bool:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    # Compiled code enters a level of forward mode without telling torch's Python side.
    return all(private.unpack_dual(t, level=0)[1] is None for t in tensors)


def _node(written: Written, operator: torch._ops.OpOverload, refuse: Refusal) -> Any:
    """The class of the graph's node."""

    class Differentiated(private.SingleLevelFunction):  # type: ignore[misc]
        @staticmethod
        def forward(
            ctx: Any, keyset: Any, ints: Any, floats: Any, form: str, *tensors: Tensor
        ) -> tuple[Tensor, ...]:
            latest.left = None
            keys = keyset & private.after_autograd
            with _Below():
                result = operator.redispatch(keys, list(tensors), ints, floats, form)
            left = latest.left
            if left is None:  # a checkpoint had kept the result
                left = relearned(written, form, tensors, ints, floats)
            if written.sets_up_outside:
                left, result = _set_up(
                    written, form, left.any, result, tensors, ints, floats
                )
            layers, inner = peeled(form)
            shapes = [tensor.shape for tensor in tensors]
            count = len(result) - left.any.extras - 1
            ctx.call = Call(written, layers, inner, left, ints, floats, shapes, count)
            _save(ctx, left.any, tensors, result[:count], result[count:-1])
            plain = [result[k] for k in left.any.non_differentiable]
            ctx.mark_non_differentiable(*plain, *result[count:])
            ctx.set_materialize_grads(left.any.materialize_grads)
            return tuple(result)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
            call, saved = ctx.call, ctx.saved_tensors
            needs = ctx.needs_input_grad[_LEADING:]
            gradients = guarded(
                lambda given: call.pull_back(saved, given, needs),
                cotangents[: call.outputs],
                saved,
                once=written.once,
                hidden=call.left.any.hides,
                refuse=refuse,
            )
            return (*[None] * _LEADING, *gradients)

        @staticmethod
        def jvp(ctx: Any, *every: Any) -> tuple[Any, ...]:
            call, given = ctx.call, every[_LEADING:]
            with _forward_mode_of_other_levels():
                saved = [_primal(t) for t in ctx.saved_tensors]
                made = tangents_of(call, saved, given, refuse)
            latest.left = call.left  # backward may have run other operators
            return (*made, *[None] * (call.left.any.extras + 1))

        @staticmethod
        def _compiled_autograd_key(ctx: Any) -> tuple[Any, ...]:
            return (ctx._autograd_function_id,)

    Differentiated.__name__ = Differentiated.__qualname__ = written.name
    Differentiated.written_as = written.owner
    return Differentiated


def _save(
    ctx: Any,
    left: Left,
    tensors: Sequence[Tensor],
    outputs: Sequence[Tensor],
    extras: Sequence[Tensor],
) -> None:
    """Keep what forward left; the inputs too where extras may have to be made again."""
    wanted = left.used
    inputs = [
        tensor if left.extras or ("input", k) in wanted else None
        for k, tensor in enumerate(tensors)
    ]
    needed = [
        tensor if ("output", k) in wanted else None for k, tensor in enumerate(outputs)
    ]
    ctx.save_for_backward(*inputs, *needed, *extras)
    ctx.save_for_forward(*inputs, *outputs, *extras)


def _set_up(
    written: Written,
    text: str,
    left: Left,
    result: Sequence[Tensor],
    tensors: Sequence[Tensor],
    ints: Any,
    floats: Any,
) -> tuple[ByEntry[Left], list[Tensor]]:
    """Run `setup_context` at this level: under the author's own vmap nothing else can."""
    _, form = peeled(text)
    outputs = list(result[: sum(absent is None for absent in left.absent)])
    ctx = Context(needs_of(form, [differentiable(t) for t in tensors]))
    output = left.result(outputs)
    assert written.setup_context is not None
    written.setup_context(ctx, tuple(form.arguments(tensors, ints, floats)), output)
    run = left_by(ctx, output, tensors, written.name)
    made: ByEntry[Left] = ByEntry(written.name)
    made.put((), run.left)
    return made, [*result[:-1], *run.extras, result[-1]]


class _Below:
    """Where the kernels below autograd run.

    Under torch.func those are the other levels, which differentiate for themselves:
    without gradients and forward mode switched on a Hessian loses its second term.
    """

    def __enter__(self) -> None:
        self._active = bool(private.functorch_active())
        self._guard = private.below_autograd()
        self._guard.__enter__()
        if self._active:
            self._gradients = torch.is_grad_enabled()
            torch._C._set_grad_enabled(True)  # noqa: FBT003
            self._forward = private.set_forward_grad(True)
            self._forward.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._active:
            self._forward.__exit__(*error)
            torch._C._set_grad_enabled(self._gradients)
        self._guard.__exit__(*error)


@contextmanager
def _forward_mode_of_other_levels() -> Iterator[None]:
    """Torch runs a jvp with forward mode off on every level, not only on its own."""
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        if private.functorch_active():
            stack.enter_context(private.set_forward_grad(True))
        yield


def _primal(tensor: Tensor | None) -> Tensor | None:
    """Without the tangent of this level."""
    if tensor is None or not differentiable(tensor) or not private.functorch_active():
        return tensor
    primal: Tensor = private.unpack_dual(tensor, level=0)[0]
    return primal
