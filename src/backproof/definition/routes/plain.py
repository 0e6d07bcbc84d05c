"""The route for a torch that lacks a private name: one torch Function for every call.

It is right in eager and under torch.func. What torch itself does wrong with such a
Function (a transform inside compile, export and then training, forward mode inside
forward mode) is refused where it can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.operator.arguments import Form, pack
from backproof.definition.operator.layers import ByEntry
from backproof.definition.operator.operator import run_forward
from backproof.definition.operator.recorded_call import Call, tangents_of
from backproof.definition.recording.recording import Left
from backproof.definition.second_order.refusing import Refusal, guarded
from backproof.definition.written import Written
from backproof.errors import NoDerivative


class _Pending:
    """A call on its way through torch's wrapper: its form, then what forward left."""

    def __init__(self, form: Form, ints: Sequence[Any], floats: Sequence[Any]) -> None:
        self.form = form
        self.ints = ints
        self.floats = floats
        self.left: Left | None = None


def plain_apply(written: Written, refuse: Refusal) -> Callable[..., Any]:
    """`apply`, through `torch.autograd.Function.apply`."""

    class Plain(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(pending: _Pending, *tensors: Tensor) -> Any:
            given = [t.clone() for t in tensors] if written.mutates else tensors
            run = run_forward(
                written, pending.form, given, pending.ints, pending.floats
            )
            pending.left = run.left
            return (*run.outputs, *run.extras)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pending, *tensors = inputs
            left = pending.left
            n = len(output) - left.extras
            entries: ByEntry[Left] = ByEntry(written.name)
            entries.put((), left)
            ctx.call = Call(
                written,
                (),
                pending.form,
                entries,
                pending.ints,
                pending.floats,
                [tensor.shape for tensor in tensors],
                n,
            )
            ctx.save_for_backward(*tensors, *output)
            ctx.save_for_forward(*tensors, *output)
            plain = [output[k] for k in left.non_differentiable]
            ctx.mark_non_differentiable(*plain, *output[n:])
            ctx.set_materialize_grads(left.materialize_grads)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            saved = ctx.saved_tensors
            needs = ctx.needs_input_grad[1:]
            gradients = guarded(
                lambda given: ctx.call.pull_back(saved, given, needs),
                cotangents[: ctx.call.outputs],
                saved,
                once=written.once,
                hidden=ctx.call.left.any.hides,
                refuse=refuse,
            )
            return (None, *gradients)

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            _refuse_nested(written.name)
            made = tangents_of(ctx.call, ctx.saved_tensors, tangents, refuse)
            return (*made, *[None] * ctx.call.left.any.extras)

    Plain.__name__ = Plain.__qualname__ = written.name
    Plain.written_as = written.owner  # type: ignore[attr-defined]

    def apply(*arguments: Any) -> Any:
        if torch.compiler.is_compiling() and (
            torch.compiler.is_exporting() or private.under(private.functorch_active)
        ):
            raise NoDerivative(
                f"{written.name}: this torch lacks what backproof needs to keep a custom "
                "gradient in exported programs and in transforms inside torch.compile"
            )
        packed = pack(arguments)
        pending = _Pending(Form(packed.form), packed.ints, packed.floats)
        given = packed.tensors
        if written.mutates:  # what is saved must not change with the originals
            given = [tensor.clone() for tensor in given]
        result = Plain.apply(pending, *given)  # type: ignore[no-untyped-call]
        left = pending.left
        assert left is not None
        outputs = list(result[: len(result) - left.extras])
        for k, place in left.dirty.items():
            outputs[k] = packed.tensors[place].copy_(outputs[k])
        return left.result(outputs)

    return apply


def _refuse_nested(owner: str) -> None:
    """Torch switches forward mode off on every level while a jvp runs."""
    levels = private.all_interpreters() if private.all_interpreters else None
    if levels is not None and sum("Jvp" in type(i).__name__ for i in levels) < 2:
        return
    raise NoDerivative(
        f"{owner}: forward mode inside forward mode is silently wrong through "
        "`torch.autograd.Function`, and this torch lacks what our own route needs; use "
        "`torch.func.hessian`'s reverse mode, or a torch that backproof supports in full"
    )
