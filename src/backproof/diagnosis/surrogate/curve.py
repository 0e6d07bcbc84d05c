"""What backward makes of one element of a cotangent, against the value of its input.

The gradient of an elementwise op is `slope(x) * cotangent`, element by element. One call
tells the slope at as many values as the input has elements; which of the other elements
held what is different in every call, and values that fill more than one place must give
the same everywhere, so that an op which is not elementwise gives itself away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe import PRECISIONS, real_dtype, signed, signs, spread, stream
from backproof.trial import BackwardRaised, Refused, Trial

_ROUNDINGS = 64.0  # of eps, relative to a slope
_ROUNDINGS_COARSE = 8.0  # where 64 would be percents
_NEAR = 4.0  # times the case's largest value
_DUST = 16.0  # of eps, relative to the largest slope


class NotElementwise(Exception):
    """The gradient of an element depends on more than itself; the text says on what."""


@dataclass(frozen=True)
class Argument:
    """What the slope is a function of: the input itself, or a relation to another.

    Attributes:
        text: how it is written, such as `x` or `x - threshold`.
        value: from the input's values, float64 (n,).
        input: back to them.
        exact: whether that is without rounding.
    """

    text: str
    value: Callable[[Tensor], Tensor]
    input: Callable[[Tensor], Tensor]
    exact: bool = False


def itself(name: str) -> Argument:
    """The input as it is."""
    return Argument(name, lambda x: x, lambda x: x, exact=True)


class Curve:
    """The slopes that one input has been asked for so far, by value.

    Args:
        trial: with one output, of the input's own shape.
        index: of the input among the trial's.
        calls: how many forward and backward calls it may take.
        seed: of cotangents and places.

    Attributes:
        points: (value, slope) of finite slopes, in the order of asking.
        at_case: the slopes at the case itself, float64 (n,), None until they are asked.
        infinite: values at which the slope is not finite.
    """

    def __init__(self, trial: Trial, index: int, calls: int, seed: int) -> None:
        self.trial, self.index, self.left = trial, index, calls
        self.points: dict[float, float] = {}
        self.at_case: Tensor | None = None
        self.infinite: list[float] = []
        self._generator = stream(seed, 700 + index)
        point = trial.points[index]
        self.dtype = point.dtype
        types = [self.dtype, *(real_dtype(o.dtype) for o in trial.outputs)]
        self.eps = max(PRECISIONS[t].eps for t in types)
        self.here = point.values
        self.size = point.values.numel()
        self.use(itself(trial.inputs[index].name))

    def use(self, argument: Argument) -> None:
        """Make it a function of another argument, before any value is asked."""
        self.argument = argument
        own = argument.value(self.here).nan_to_num(0.0, 0.0, 0.0)
        self._reach = _NEAR * float(own.abs().max())

    # ---------------------------------------------------------------------- asking

    def slopes(self, values: Tensor) -> Tensor:
        """The slope of each element where the input is `values`; nan where unknown.

        Shapes: float64 (n,) both. Costs 1 forward and 1 backward.
        """
        inputs = [p.values for p in self.trial.points]
        inputs[self.index] = values
        return self.slopes_where(inputs)

    def slopes_where(self, inputs: Sequence[Tensor]) -> Tensor:
        """The same with all inputs given."""
        self.left -= 1
        sizes = spread(signed(self._generator, self.size))
        cotangent = self.trial.represent(sizes * signs(self._generator, self.size))
        unknown = torch.full_like(inputs[self.index], math.nan)
        try:
            graph = self.trial.record(inputs)
            gradient = self.trial.pull(graph, cotangent)[self.index]
        except (Refused, BackwardRaised):
            return unknown
        if gradient is None:
            return torch.zeros_like(unknown)
        return gradient / cotangent

    def ask(self, values: Iterable[float]) -> None:
        """Learn the slopes at these values of the argument, as far as calls are left."""
        wanted = list(dict.fromkeys(map(self.representable, values)))
        wanted = [v for v in wanted if v not in self.points and v not in self.infinite]
        for start in range(0, len(wanted), self.size):
            if self.left <= 0:
                return
            self._ask_once(wanted[start : start + self.size])

    def _ask_once(self, values: list[float]) -> None:
        asked = torch.tensor(values, dtype=torch.float64)
        order = torch.as_tensor(self._generator.permutation(self.size))
        which = torch.empty(self.size, dtype=torch.int64)
        which[order] = torch.arange(self.size) % len(values)
        found = self.slopes(self.argument.input(asked[which]))
        for k, value in enumerate(values):
            mine = found[which == k]
            first = float(mine[0])
            if not math.isfinite(first):
                self.infinite.append(value)
                continue
            if not self.same(mine, mine[:1]):
                raise NotElementwise(
                    "it depends on the place of an element, or on others"
                )
            self.points[value] = first

    # --------------------------------------------------------------------- knowing

    @property
    def known(self) -> tuple[Tensor, Tensor]:
        """(values in ascending order, slopes)."""
        values = sorted(self.points)
        slopes = [self.points[v] for v in values]
        return torch.tensor(values, dtype=torch.float64), torch.tensor(
            slopes, dtype=torch.float64
        )

    @property
    def largest(self) -> float:
        """The largest magnitude of a slope near the case's values, if there is any."""
        near = [abs(s) for v, s in self.points.items() if abs(v) <= self._reach]
        largest = max(near, default=0.0)
        return largest or max(map(abs, self.points.values()), default=0.0)

    def allowed(self, slopes: Tensor) -> Tensor:
        """How much slopes may differ by rounding."""
        relative = max(_ROUNDINGS_COARSE * self.eps, min(_ROUNDINGS * self.eps, 1e-4))
        return relative * slopes.abs() + _DUST * self.eps * self.largest

    def same(self, a: Tensor, b: Tensor) -> bool:
        """Whether slopes are equal up to rounding, as far as both are finite."""
        both = torch.isfinite(a) & torch.isfinite(b)
        size = torch.maximum(a.abs(), b.abs())
        reach = (
            self.allowed(size) + _DUST * self.eps * size[both].max()
            if bool(both.any())
            else size
        )
        return bool(((a - b).abs() <= reach)[both].all())

    # --------------------------------------------------------------------- numbers

    def shortest(self, value: float) -> float:
        """The number of fewest digits that is the same in the input's type."""
        for digits in range(1, 17):
            short = float(f"{value:.{digits}g}")
            if self.representable(short) == value:
                return short
        return value

    def representable(self, value: float) -> float:
        """The nearest number of the input's type, as float64; no minus before a zero."""
        return float(torch.tensor(value, dtype=self.dtype).double()) + 0.0

    def beside(self, value: float) -> tuple[float, float]:
        """The neighbours of a number in the input's type."""
        at = torch.tensor(value, dtype=self.dtype)
        if self.dtype in (torch.float32, torch.float64):
            ends = [torch.nextafter(at, at.new_tensor(s * math.inf)) for s in (-1, 1)]
            return float(ends[0].double()), float(ends[1].double())
        grain = PRECISIONS[self.dtype].eps * max(abs(value), 2.0**-14)
        return self.representable(value - grain), self.representable(value + grain)
