"""One call away from plain eager, without its tensors: what differentiates it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.leaving import within_torch
from backproof.definition.operator import tangents
from backproof.definition.operator.arguments import Form
from backproof.definition.operator.layers import ByEntry, Layer, Path, mapped
from backproof.definition.operator.operator import needs_of, run_forward, run_layers
from backproof.definition.recording.context import Context
from backproof.definition.recording.recording import Left, filled, returned
from backproof.definition.second_order.carrying import Rerun
from backproof.definition.second_order.refusing import Refusal
from backproof.definition.second_order.seeing import Escapes, unwatched
from backproof.definition.written import Written


@dataclass
class Call:
    """One call, without its tensors."""

    written: Written
    layers: tuple[Layer, ...]
    form: Form
    left: ByEntry[Left]
    ints: Sequence[int]
    floats: Sequence[float]
    shapes: list[torch.Size]  # of the inputs
    outputs: int

    def split(self, tensors: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Inputs, outputs and extras, from what was saved."""
        n, m = len(self.shapes), len(self.shapes) + self.outputs
        return list(tensors[:n]), list(tensors[n:m]), list(tensors[m:])

    def restored(
        self, left: Left, saved: Sequence[Any], needs: Sequence[bool]
    ) -> Context:
        """The ctx of one entry: what forward left, with its tensors in place."""
        inputs, outputs, extras = self.split(saved)
        if extras and torch.is_grad_enabled() and not self.written.once:
            given = [t.clone() for t in inputs] if self.written.mutates else inputs
            with unwatched():
                again = Rerun(
                    lambda: run_forward(
                        self.written, self.form, given, self.ints, self.floats
                    ),
                    inputs,
                    self.written.name,
                )
                extras = list(again.lend(dict(enumerate(extras))).values())
        ctx = Context(needs_of(self.form, needs))
        filled(ctx, left, inputs, outputs, extras)
        return ctx

    def pull_back(
        self,
        saved: Sequence[Any],
        cotangents: Sequence[Any],
        needs: Sequence[bool],
    ) -> list[Any]:
        """One gradient a tensor input, by the author's backward."""
        count = len(saved)
        given: list[int] = []

        def entry(every: Sequence[Any], path: Path) -> list[Tensor]:
            left = self.left.at(path)
            ctx = self.restored(left, every[:count], needs)
            with (
                within_torch(self.written.name, "backward"),
                tangents.requires_grad_in_place(),  # backward may replay forward
            ):
                result = self.written.backward(ctx, *left.laid_out(every[count:]))
            gradients = list(self.form.gather(returned(result)))
            given[:] = [k for k, g in enumerate(gradients) if g is not None]
            if not self.layers:
                return [gradients[k] for k in given]
            shapes = self.entry_shapes()
            return [_reduced(gradients[k], shapes[k]) for k in given]

        def unbatched(layer: Layer, gradients: list[Tensor]) -> list[Tensor]:
            pairs = zip(given, gradients, strict=True)
            dims = [(layer.in_dims[k], gradient) for k, gradient in pairs]
            return [g.sum(0) if d is None else g.movedim(0, d) for d, g in dims]

        every = [*saved, *cotangents]
        looped = self.left.looped
        found = mapped(self.layers, entry, every, finish=unbatched, looped=looped)
        result: list[Any] = [None] * len(self.shapes)
        for k, gradient in zip(given, found, strict=True):
            result[k] = gradient
        return result

    def push_forward(
        self, saved: Sequence[Any], tangents_in: Sequence[Any], needs: Sequence[bool]
    ) -> list[Any]:
        """One tangent a tensor output, by the author's jvp."""
        n, count = len(self.shapes), len(saved)
        given: list[int] = []
        assert self.written.jvp is not None
        jvp = self.written.jvp

        def entry(every: Sequence[Any], path: Path) -> list[Tensor]:
            left = self.left.at(path)
            ctx = self.restored(left, [*every[:n], *every[2 * n :]], needs)
            ctx.saved_tensors = ctx.saved_for_forward
            with within_torch(self.written.name, "jvp"):
                result = returned(jvp(ctx, *self.form.spread(every[n : 2 * n])))
            pairs = zip(result, left.absent, strict=True)
            made = [tangent for tangent, absent in pairs if absent is None]
            given[:] = [k for k, t in enumerate(made) if t is not None]
            return [made[k] for k in given]

        # The tangents have their batch dimension where the inputs have theirs.
        doubled = [Layer(layer.in_dims * 2, layer.randomness) for layer in self.layers]
        every = [*saved[:n], *tangents_in, *saved[n:count]]
        found = mapped(doubled, entry, every, looped=self.left.looped)
        result: list[Any] = [None] * self.outputs
        for k, tangent in zip(given, found, strict=True):
            result[k] = tangent
        return result

    def entry_shapes(self) -> list[torch.Size]:
        """The inputs' shapes without the layers' dimensions."""
        shapes = [list(shape) for shape in self.shapes]
        for layer in self.layers:
            for shape, dim in zip(shapes, layer.in_dims, strict=True):
                if dim is not None:
                    shape.pop(dim)
        return [torch.Size(shape) for shape in shapes]


def relearned(
    written: Written, form: str, tensors: Sequence[Tensor], ints: Any, floats: Any
) -> ByEntry[Left]:
    """What forward leaves, where its result was kept from an earlier run."""
    with private.without_modes(), torch.no_grad(), torch.random.fork_rng():
        _, left = run_layers(written, form, tensors, ints, floats)
    return left


def tangents_of(
    call: Call, saved: Sequence[Any], tangents_in: Sequence[Any], refuse: Refusal
) -> list[Any]:
    """One tangent a tensor output, by the author's jvp or from backward."""
    needs = [tangent is not None for tangent in tangents_in]
    if call.written.jvp is not None:
        return call.push_forward(saved, tangents_in, needs)
    _, outputs, _ = call.split(saved)
    with Escapes() as escapes:
        made: list[Any] = tangents.derived(
            lambda given: call.pull_back(saved, given, needs),
            call.left.any,
            outputs,
            tangents_in,
            call.written.name,
        )
    if not (call.written.once or call.left.any.hides or escapes.taken):
        return made
    live = [k for k, tangent in enumerate(made) if tangent is not None]
    depends = [t for t in (*saved, *tangents_in) if t is not None]
    with torch.enable_grad():
        passed = refuse(len(live), *[made[k].detach() for k in live], *depends)
    for k, tangent in zip(live, passed, strict=True):
        made[k] = tangent
    return made


def _reduced(gradient: Tensor, shape: torch.Size) -> Tensor:
    """Summed over what forward broadcast, as the engine does outside of vmap."""
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)
