"""The second derivative of a subject: eager mode's own, or a numeric one.

An eager double backward can be wrong in silence: a backward in NumPy that nobody marked,
a saved intermediate, `.data`. So it is first held against difference quotients of the
eager gradient, in float64 where the subject runs in it:

    <H r, d>  =  d/dt <r, g(x + t d)>,   g(x) = J(x)^T u for a fixed cotangent u.

The quotient's bar is what two sizes of step differ by, and the rounding of g over the
step. Where the two disagree, forward decides: if g is the derivative of forward along d,
the numeric second derivative is the truth; if it is not, g is a surrogate, which may
depend on forward's stairs in ways that no step shows, and eager mode is believed, unless
it says that g depends on nothing, or `once_differentiable` is known to lose terms.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backproof.battery.survey.contraction import contracted, magnitude
from backproof.battery.survey.graph import nodes_behind
from backproof.battery.survey.known import Known, rounding
from backproof.battery.survey.loss import Loss
from backproof.battery.survey.samples import Sample
from backproof.battery.survey.scene import Scene
from backproof.probe import PRECISIONS, real_dtype

_STEPS = {  # of tangents that are themselves a part of x: eps and truncation balance
    torch.float64: (1e-2, 1e-3, 1e-4, 1e-5),
    torch.float32: (0.5, 0.2, 0.05),
}
Tangents = Sequence[Sequence[Tensor]]

_USELESS = 0.05  # a bar beyond this share of the terms decides nothing
_DIRECTIONS = 3


@dataclass(frozen=True)
class Numeric:
    """A difference quotient, its bar, and the size of the terms that it is made of."""

    value: float
    bar: float
    scale: float

    @property
    def decides(self) -> bool:
        """Whether the bar is small enough to say something."""
        return self.bar <= _USELESS * self.scale


class SecondOrder:
    """What is known about a scene's second derivative."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @functools.cached_property
    def refusal(self) -> str:
        """The first line of what an eager double backward raises; empty if it works."""
        try:
            self.product(self.scene.loss, self.scene.tangents(1))
        except Exception as error:
            lines = str(error).strip().splitlines()
            return f"{type(error).__name__}: {lines[0] if lines else ''}"
        return ""

    @functools.cached_property
    def trusted(self) -> bool:
        """Whether eager mode has a second derivative, and numerics do not refute it."""
        return not self.refusal and not self.refuted

    @functools.cached_property
    def refuted(self) -> str:
        """What numerics say against eager mode's own second derivative, or nothing."""
        r, d = self.scene.tangents(1), self.scene.tangents(2)
        try:
            hessian_r = self.product(self.scene.loss.linear, r)
        except RuntimeError:
            hessian_r = []  # the gradient does not depend on the inputs any more
        claimed = float(contracted([k.value for k in hessian_r], d[: len(hessian_r)]))
        try:
            truth = self.numeric(r, d)
        except Exception:
            return ""  # eager mode does not run beside the case
        slack = 8 * sum(k.movement() for k in hessian_r) * _length(d)
        bar = truth.bar + slack + self._rounding * truth.scale
        lost = claimed == 0 or self._leaks or self._is_smooth(d)
        if abs(claimed - truth.value) <= bar or not truth.decides or not lost:
            return ""
        return (
            f"is {claimed:.6g} in eager mode's own double backward, along a direction in "
            f"which its gradient changes by {truth.value:.6g} ± {bar:.2g}"
        )

    @property
    def loss(self) -> Loss:
        """The loss whose second derivative is known: curved where eager mode has one."""
        return self.scene.loss if self.trusted else self.scene.loss.linear

    def product(self, loss: Loss, r: Sequence[Tensor]) -> list[Known]:
        """H r by eager mode's double backward; raises what it raises."""

        def compute(leaves: list[Tensor]) -> Sequence[Tensor | None]:
            value = loss(self.scene.function(*leaves))
            return second_backward(value, leaves, r)

        return self.scene.know(compute)

    @functools.cached_property
    def tangents(self) -> list[list[Tensor]]:
        """The directions that Hessians are taken along."""
        return [self.scene.tangents(10 + k) for k in range(_DIRECTIONS)]

    def hessian(self, sample: Sample = 0) -> Known:
        """The Hessian of `loss` along `tangents`, float64 (m, m).

        Row j, column i is d/ds_i <g, r_j>, which for a surrogate need not be symmetric.
        """
        return self.along(self.tangents, sample)

    def along(self, tangents: Tangents, sample: Sample = 0) -> Known:
        """The same along other tangents."""
        if self.trusted:
            return self._by_eager(tangents, sample)
        return self._by_steps(tangents, sample)

    def numeric(
        self, r: Sequence[Tensor], d: Sequence[Tensor], sample: Sample = 0
    ) -> Numeric:
        """d/dt <r, g(x + t d)>."""
        scene = self._fine
        precision = max((real_dtype(t) for t in scene.dtypes), key=_eps)
        steps = _STEPS.get(precision, _STEPS[torch.float32])
        along, against = _like(r, scene), _like(d, scene)
        quotients, noise = [], []
        terms = 0.0
        for h in steps:
            high, up = self._slope(along, against, h, sample)
            low, down = self._slope(along, against, -h, sample)
            quotients.append((high - low) / (2 * h))
            rough = rounding(precision, scene.size) * max(up, down)
            noise.append(rough / h)
            terms = max(up, down)
        tried = [
            (abs(a - b) * 2 + e, b)
            for (a, b), e in zip(itertools.pairwise(quotients), noise[1:], strict=True)
        ]
        bar, value = min(tried)
        return Numeric(value, bar, max(terms, abs(value)))

    # ------------------------------------------------------------------- privately

    @property
    def _rounding(self) -> float:
        return rounding(self.scene.coarsest, self.scene.size)

    @functools.cached_property
    def _fine(self) -> Scene:
        """The scene in float64, or as it is where the subject does not run in float64."""
        wide = self.scene.trial.in_float64()
        if wide is None:
            return self.scene
        try:
            return Scene(wide)
        except Exception:
            return self.scene

    def _slope(
        self, r: Sequence[Tensor], d: Sequence[Tensor], h: float, sample: Sample
    ) -> tuple[float, float]:
        """<r, g> at x + h d, and the size of its terms."""
        scene = self._fine
        moved = [
            (x + h * t).detach().requires_grad_()
            for x, t in zip(scene.plain(sample), d, strict=True)
        ]
        value = scene.loss.linear(scene.function(*moved))
        gradients = torch.autograd.grad(value, moved, allow_unused=True)
        return float(contracted(gradients, r)), magnitude(gradients, r)

    @functools.cached_property
    def _leaks(self) -> bool:
        """Whether `once_differentiable` is in the gradient's graph, and lets terms go.

        The node by which it refuses hangs off copies, so that where another path leads
        to the inputs nobody meets it.
        """
        leaves = self.scene.leaves()
        value = self.scene.loss(self.scene.function(*leaves))
        first = torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
        nodes = nodes_behind([g for g in first if g is not None])
        return any(type(node).__name__ == "Error" for node in nodes)

    def _is_smooth(self, d: Sequence[Tensor]) -> bool:
        """Whether the eager gradient is the derivative of forward along tangent `d`."""
        scene = self._fine
        against = _like(d, scene)
        known = [k.value for k in scene.pulled(list(scene.loss.weights))]
        claimed, scale = float(contracted(known, against)), magnitude(known, against)
        h = 1e-4 if scene.dtypes[0] in (torch.float64, torch.complex128) else 0.05
        sides = []
        for side in (h, -h):
            moved = [x + side * t for x, t in zip(scene.plain(), against, strict=True)]
            with torch.no_grad():
                sides.append(float(scene.loss.linear(scene.function(*moved))))
        slope = (sides[0] - sides[1]) / (2 * h)
        return abs(slope - claimed) <= 1e-2 * scale

    def _by_eager(self, tangents: Tangents, sample: Sample) -> Known:
        loss = self.loss

        def compute(leaves: list[Tensor]) -> Sequence[Tensor | None]:
            value = loss(self.scene.function(*leaves))
            rows = []
            first = torch.autograd.grad(
                value, leaves, create_graph=True, allow_unused=True
            )
            for r in tangents:
                found = pulled_back(first, leaves, r)
                rows.append(torch.stack([contracted(found, d) for d in tangents]))
            return [torch.stack(rows), *_sizes(first, tangents)]

        known = self.scene.know(compute, sample)
        scale = max(float(k.value) for k in known[1:] if k.value is not None)
        return replace(known[0], scale=scale)

    def _by_steps(self, tangents: Tangents, sample: Sample) -> Known:
        found = [[self.numeric(r, d, sample) for d in tangents] for r in tangents]
        value = torch.tensor(
            [[n.value for n in row] for row in found], dtype=torch.float64
        )
        bar = max(n.bar for row in found for n in row)
        scale = max(n.scale for row in found for n in row)
        native = self._rounding * scale
        return Known(
            value, torch.float64, self.scene.size, lambda: 0.0, bar=2 * bar + native
        )


def second_backward(
    value: Tensor, leaves: Sequence[Tensor], r: Sequence[Tensor]
) -> list[Tensor | None]:
    """The gradient of <r, gradient of `value`>, by a double backward.

    Raises:
        RuntimeError: among others, torch's, where no part of the gradient is recorded.
    """
    first = torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
    return pulled_back(first, leaves, r)


def pulled_back(
    first: Sequence[Tensor | None], leaves: Sequence[Tensor], r: Sequence[Tensor]
) -> list[Tensor | None]:
    """The gradient of <r, first>, for a gradient `first` that was recorded."""
    pairs = [(g, t) for g, t in zip(first, r, strict=True) if g is not None]
    recorded = [(g, t) for g, t in pairs if g.requires_grad] or pairs

    def pull(*, allow_unused: bool) -> Sequence[Tensor | None]:
        return torch.autograd.grad(
            [g for g, _ in recorded],
            leaves,
            [t for _, t in recorded],
            allow_unused=allow_unused,
            retain_graph=True,
        )

    found = pull(allow_unused=True)
    if all(g is None for g in found):
        pull(allow_unused=False)  # torch says what is missing
    return list(found)


def _sizes(
    first: Sequence[Tensor | None], tangents: Sequence[Sequence[Tensor]]
) -> list[Tensor]:
    return [torch.tensor(magnitude(first, t), dtype=torch.float64) for t in tangents]


def _like(tangents: Sequence[Tensor], scene: Scene) -> list[Tensor]:
    """In the types of this scene's inputs."""
    return [t.to(d) for t, d in zip(tangents, scene.dtypes, strict=True)]


def _length(tangents: Sequence[Tensor]) -> float:
    return float(sum(t.detach().abs().double().sum() for t in tangents))


def _eps(dtype: torch.dtype) -> float:
    return PRECISIONS[dtype].eps
