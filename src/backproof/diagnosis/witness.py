"""What is known of the true gradient, as equations that a gradient has to satisfy.

The truth is never known as a whole unless forward works element by element. What is
known are linear forms of it, each with a bar: its product with a direction, for one
cotangent. A hypothesis is a whole gradient for each cotangent; it explains the evidence
if every form of it lies within the bars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Gradients = Sequence[Tensor]
"""The gradient of one input for each cotangent, float64 (n,)."""

_FAR, _MANY_BARS = (
    0.05,
    20.0,
)  # of what is wanted, and of the bars: no rounding is so large
_SIGMAS = 4.0  # standard deviations in a bar: the largest of many may lie beyond it


@dataclass(frozen=True)
class Fit:
    """How well a gradient satisfies the equations.

    Attributes:
        misfit: the largest distance, in bars; at most 1 where it explains them.
        scale: the constant that it was multiplied with.
        scale_bar: of that constant.
    """

    misfit: float
    scale: float = 1.0
    scale_bar: float = 0.0

    @property
    def explains(self) -> bool:
        """Whether all equations hold within their bars."""
        return self.misfit <= 1.0


class Witness:
    """Linear equations for the true gradient of one input, e for each of k cotangents.

    Args:
        truth: right-hand sides, float64 (e, k).
        bar: their error bars.
        form: from a gradient (n,) to the left-hand sides (e,).
        size: likewise, free of luck with signs: what rounding is relative to.
        rounding: relative error that a gradient may have from its own rounding.
        known: the elements that are known one by one, boolean (n,), where they are.
    """

    def __init__(
        self,
        truth: Tensor,
        bar: Tensor,
        form: Callable[[Tensor], Tensor],
        size: Callable[[Tensor], Tensor],
        rounding: float,
        known: Tensor | None = None,
    ) -> None:
        self.truth, self.bar, self.known = truth, bar, known
        self._form, self._size, self._rounding = form, size, rounding

    def forms(self, gradients: Gradients) -> Tensor:
        """The left-hand sides for these gradients, (e, as many as there are)."""
        return torch.stack([self._form(g) for g in gradients], 1)

    def sizes(self, gradients: Gradients) -> Tensor:
        """What an error of each equation is relative to."""
        free = torch.stack([self._size(g) for g in gradients], 1)
        return torch.maximum(free, self.forms(gradients).abs())

    def fit(self, gradients: Gradients) -> Fit:
        """How well these very gradients do; of the first cotangents, if there are fewer."""
        k = len(gradients)
        gap = (self.truth[:, :k] - self.forms(gradients)).abs()
        return Fit(_largest(gap, self._allowed(gradients)))

    def fit_scaled(self, gradients: Gradients, beside: Gradients | None = None) -> Fit:
        """How well `beside` + c times these do, with the best constant c."""
        k = len(gradients)
        here = self.forms(gradients)
        wanted = self.truth[:, :k]
        if beside is not None:
            wanted = wanted - self.forms(beside[:k])
        if self._is_far(here, wanted):
            return Fit(math.inf)
        allowed = self._allowed(gradients)
        rest = torch.zeros_like(allowed)
        if beside is not None:
            rest = self._allowed(beside[:k])
        unit = torch.maximum(allowed, rest).clamp(min=1e-300)
        weights = (here / unit).reshape(-1)
        square = float(weights @ weights)
        if not 0 < square < math.inf:
            return Fit(math.inf)
        scale = float(weights @ (wanted / unit).reshape(-1)) / square
        if not math.isfinite(scale):
            return Fit(math.inf)
        # The rounding of what is multiplied grows with the constant.
        own = self._rounding * self._size_of(gradients) * abs(scale)
        reach = torch.maximum(self.bar[:, :k] + own, rest)
        return Fit(
            _largest((wanted - scale * here).abs(), reach), scale, 3 / math.sqrt(square)
        )

    def _is_far(self, here: Tensor, wanted: Tensor) -> bool:
        """Whether no constant brings `here` anywhere near: most guesses end here."""
        square = float(here.square().sum())
        if not 0 < square < math.inf:
            return True
        scale = float((here * wanted).sum()) / square
        gap = float((wanted - scale * here).norm())
        bar = float(self.bar[:, : here.shape[1]].norm())
        return gap > _FAR * float(wanted.norm()) + _MANY_BARS * bar

    def power(self, gradients: Gradients) -> float:
        """How clearly the equations refute these gradients: the largest, in bars."""
        gap = (self.truth - self.forms(gradients)).abs()
        allowed = self._allowed(gradients).clamp(min=1e-300)
        return float((gap / allowed).max()) if gap.numel() else 0.0

    def minus(self, gradients: Gradients) -> Witness:
        """Equations for what is left of the truth without these gradients."""
        truth = self.truth - self.forms(gradients)
        bar = self._allowed(gradients)
        return Witness(truth, bar, self._form, self._size, self._rounding, self.known)

    def _size_of(self, gradients: Gradients) -> Tensor:
        return torch.stack([self._size(g) for g in gradients], 1)

    def _allowed(self, gradients: Gradients) -> Tensor:
        """How far each equation may be off for these gradients."""
        k = len(gradients)
        return self.bar[:, :k] + self._rounding * self._size_of(gradients)


def along_lines(
    lines: Sequence[Tensor], truth: Tensor, bar: Tensor, rounding: float
) -> Witness:
    """Equations from directions: one a line and cotangent.

    Shapes: lines float64 (n,) each, truth and bar (num_lines, num_cotangents).
    """
    stack = torch.stack(list(lines))
    squares = stack.square()
    return Witness(
        truth,
        bar,
        lambda g: stack @ g,
        lambda g: (squares @ g.square()).sqrt(),
        rounding,
    )


def pointwise(
    truths: Gradients, bars: Gradients, known: Tensor, rounding: float
) -> Witness:
    """Equations from a gradient whose elements are known one by one.

    Args:
        truths: for each cotangent, float64 (n,).
        bars: likewise.
        known: the elements that are, boolean (n,).
        rounding: relative error that a gradient may have from its own rounding.
    """
    truth = torch.stack([t[known] for t in truths], 1)
    bar = torch.stack([b[known] for b in bars], 1)
    return Witness(
        truth, bar, lambda g: g[known], lambda g: g[known].abs(), rounding, known
    )


def narrowed(witness: Witness, mask: Tensor, rounding: float) -> Witness:
    """The equations of a pointwise witness for the elements in `mask` (n,) alone."""
    assert witness.known is not None
    inside = mask[witness.known]
    known = witness.known & mask
    return Witness(
        witness.truth[inside],
        witness.bar[inside],
        lambda g: g[known],
        lambda g: g[known].abs(),
        rounding,
        known,
    )


def _largest(gap: Tensor, allowed: Tensor) -> float:
    ratio = torch.where(gap == 0, 0.0, gap / allowed.clamp(min=1e-300))
    if not ratio.numel() or bool(ratio.isnan().any()):
        return math.inf
    among_many = math.sqrt(2 * math.log(ratio.numel() + 1)) / _SIGMAS
    return float(ratio.max()) / max(1.0, among_many)
