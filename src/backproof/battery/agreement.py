"""Whether two runs that should give the same numbers do: up to rounding, and no more.

Most laws compare a run with another one: other strides, a second backward, a frozen
input. Both sides are the subject's own, so no truth is needed; what may differ is the
order in which sums are rounded. Eight roundings of an element, or of a typical element
of its tensor, are allowed at once. Beyond that the subject's own sensitivity is
measured: its answers at inputs moved in their last place and for a cotangent that
rounds otherwise, for 2 forwards and 2 backwards.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from backproof.battery.difference import Difference, Sides
from backproof.battery.inquiry.backward_noise import SCALE, nudged
from backproof.diagnosis.region import Field
from backproof.probe import coarsest, typical
from backproof.trial import BackwardRaised, Output, Refused, Trial
from backproof.trial.vectors import Vector

Pair = tuple[
    str, Tensor | None, Tensor | None, Callable[[], Tensor | None], Callable[[], Field]
]
"""A name, what was got, what is expected, what measures its sensitivity, its form."""

_ROUNDINGS = 8.0  # of an element, in eps of the coarsest type
_SENSITIVE = 32.0  # times the change that a move in the last place makes


class Yardstick:
    """How much the answers of one trial may differ between runs.

    Args:
        trial: the plain case.
        cotangent: the one that gradients are compared for.
        num_outputs: kept apart by name, as the trial has them.
    """

    def __init__(self, trial: Trial, cotangent: Tensor) -> None:
        self._trial, self._cotangent = trial, cotangent
        self._eps = coarsest(trial.dtypes).eps

    def gradients(
        self,
        got: Vector,
        expected: Vector,
        names: Sequence[str] | None = None,
        *,
        sensitive: bool = True,
    ) -> Difference:
        """The worst difference of two gradients, None counting as zero.

        Args:
            got: one float64 (n_i,) an input.
            expected: likewise.
            names: of those inputs, all of the trial's by default.
            sensitive: whether what inputs moved in their last place change is allowed;
                not where both are of one graph.
        """
        trial = self._trial
        every = [i.name for i in trial.inputs]

        def moved(name: str) -> Callable[[], Tensor | None]:
            return lambda: self.sensitivity[1].get(name) if sensitive else None

        return self._worst(
            (name, a, b, moved(name), functools.partial(field_of_input, trial, name))
            for name, a, b in zip(names or every, got, expected, strict=True)
        )

    def values(
        self, got: Tensor, expected: Tensor, *, sensitive: bool = True
    ) -> Difference:
        """The worst difference of two vectors of outputs, float64 (num_outputs,)."""
        trial = self._trial

        def moved(part: slice) -> Callable[[], Tensor | None]:
            return lambda: _part(self.sensitivity[0], part) if sensitive else None

        return self._worst(
            (
                o.name,
                got[o.part],
                expected[o.part],
                moved(o.part),
                functools.partial(field_of_output, trial, o),
            )
            for o in trial.outputs
        )

    def _worst(self, pairs: Iterable[Pair]) -> Difference:
        worst = Difference("", 0.0, math.inf)
        for name, got, expected, moved, here in pairs:
            zero = got if expected is None else expected
            if zero is None:
                continue
            none = torch.zeros_like(zero)
            found = self._compare(
                name,
                none if got is None else got,
                none if expected is None else expected,
                moved,
                here,
            )
            if _excess(found) > _excess(worst):
                worst = found
        return worst

    def _compare(
        self,
        name: str,
        a: Tensor,
        b: Tensor,
        moved: Callable[[], Tensor | None],
        here: Callable[[], Field],
    ) -> Difference:
        if a.numel() != b.numel():
            return Difference(name, math.inf, 0.0, total=b.numel())
        gap = (a - b).abs()
        same = (a == b) | (a.isnan() & b.isnan())
        gap = torch.where(same, 0.0, gap.nan_to_num(math.inf, math.inf, math.inf))
        if not bool(gap.any()):
            return Difference(name, 0.0, 0.0, total=b.numel())
        size = b.abs().nan_to_num(0.0, 0.0, 0.0)
        unit = size.clamp(min=typical(size) if bool(size.any()) else self._unit(name))
        share = gap / unit
        allowed = _ROUNDINGS * self._eps
        if float(share.max()) > allowed:
            change = moved()
            if change is not None and change.numel() == unit.numel():
                sensitive = float((change.abs() / unit).nan_to_num(0.0, 0.0, 0.0).max())
                allowed = max(allowed, _SENSITIVE * sensitive)
        at, wrong = int(share.argmax()), share > allowed
        return Difference(
            name,
            float(share[at]),
            allowed,
            at,
            float(a[at]),
            float(b[at]),
            int(torch.count_nonzero(wrong)),
            b.numel(),
            Sides(a, b, wrong, here),
        )

    def _unit(self, name: str) -> float:
        """What a gradient that is zero everywhere is compared with."""
        values = {i.name: i.point.values for i in self._trial.inputs}.get(name)
        if values is None:
            return 1.0
        return typical(self._cotangent) / max(typical(values), 1e-300)

    @functools.cached_property
    def sensitivity(self) -> tuple[Tensor | None, dict[str, Tensor]]:
        """How outputs and gradients change when inputs move in their last place."""
        trial = self._trial
        try:
            graph, gradient = nudged(trial, trial.represent(self._cotangent * SCALE))
            plain = trial.record()
            before = trial.pull(plain, self._cotangent)
        except (Refused, BackwardRaised):
            return None, {}
        changes = {
            i.name: g / SCALE - h
            for i, g, h in zip(trial.inputs, gradient, before, strict=True)
            if g is not None and h is not None
        }
        return graph.values - plain.values, changes


def field_of_input(trial: Trial, name: str) -> Field:
    """What elements of an input, or of its gradient, may be named by."""
    found = next(i for i in trial.inputs if i.name == name)
    values = None if found.original.is_complex() else found.original
    return Field(name, tuple(found.original.shape), values, _others(trial, name))


def field_of_output(trial: Trial, output: Output) -> Field:
    """What elements of an output may be named by."""
    return Field(output.name, tuple(output.shape), None, _others(trial, output.name))


def _others(trial: Trial, name: str) -> list[tuple[str, Tensor]]:
    return [
        (label, leaf.detach().cpu())
        for label, leaf in zip(trial.names, trial.leaves, strict=True)
        if isinstance(leaf, Tensor) and label != name and not leaf.is_complex()
    ]


def _part(values: Tensor | None, part: slice) -> Tensor | None:
    return None if values is None else values[part]


def _excess(found: Difference) -> float:
    if found.allowed == 0:
        return math.inf if found.share > 0 else 0.0
    return found.share / found.allowed
