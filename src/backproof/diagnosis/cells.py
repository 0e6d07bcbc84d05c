"""Parts of an input that hang on outputs of their own: rows, channels, single elements.

Where an output depends on no other part, one line tells the error of every part at once.
Which axes of the input go through to the outputs shows when half of their indices move
and only outputs with those indices change.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.suspect import Line, Suspect
from backproof.probe import signs, stream

_SINGLE = 2.0  # on the noise of one part, which nothing averages


@dataclass(frozen=True)
class Cells:
    """A partition of an input and of the outputs that hang on its parts.

    Attributes:
        count: how many parts there are.
        of_element: the part that each element is in, int64 (n,).
        of_output: the part that each output hangs on, int64 (num_outputs,).
        inner: the number of each element within its part, int64 (n,).
        axes: of the input, that tell the part.
    """

    count: int
    of_element: Tensor
    of_output: Tensor
    inner: Tensor
    axes: tuple[int, ...]

    @property
    def single(self) -> bool:
        """Whether each part is one element."""
        return self.count == self.of_element.numel()


def cells_of(suspect: Suspect) -> Cells:
    """The parts of the suspect's input: 2 forwards for each of its axes."""
    shape = suspect.shape
    pairs: dict[int, list[int]] = {}
    for axis, size in enumerate(shape):
        if size > 1 and _may_pass(suspect, size):
            found = _paired(suspect, axis)
            if found is not None:
                pairs[axis] = found
    return _partition(suspect, pairs)


def errors(
    suspect: Suspect, line: Line, cells: Cells, which: int = 0
) -> tuple[Tensor, Tensor]:
    """(truth minus claim, its bar) of each part along a line, both (count,)."""
    u, claim = suspect.cotangents[which], suspect.claims[which]
    product = claim * line.steps
    moved = _sum((line.steps != 0).double(), cells.of_element, cells.count) > 0
    truth = _sum(u * line.slopes, cells.of_output, cells.count)
    said = _sum(product, cells.of_element, cells.count)
    noise = _sum((u * line.noise).square(), cells.of_output, cells.count).sqrt()
    bend = _sum((u * line.bend).abs(), cells.of_output, cells.count)
    size = _sum(product.square(), cells.of_element, cells.count).sqrt()
    precision = suspect.response.precision
    bar = _SINGLE * precision.z * noise + bend + suspect.charge.rounding * size
    nothing = torch.zeros_like(truth)
    return (
        torch.where(moved, truth - said, nothing),
        torch.where(moved, precision.margin * bar, nothing),
    )


def _may_pass(suspect: Suspect, size: int) -> bool:
    return all(size in output.shape for output in suspect.outputs)


def _paired(suspect: Suspect, axis: int) -> list[int] | None:
    """For each output the axis that this one goes through to; None where one has none."""
    size = suspect.shape[axis]
    half = torch.from_numpy(_half(suspect.charge.seed, axis, size))
    possible = [
        {b for b, n in enumerate(output.shape) if n == size}
        for output in suspect.outputs
    ]
    moved_any = [False] * len(possible)
    for chosen in (half, ~half):
        index = [1] * len(suspect.shape)
        index[axis] = size
        mask = chosen.reshape(index).expand(suspect.shape)
        changed = suspect.moved(suspect.flat(mask))
        for k, output in enumerate(suspect.outputs):
            here = changed[output.part]
            if output.dtype.is_complex:
                here = here.reshape(-1, 2).any(-1)
            here = here.reshape(output.shape)
            if not bool(here.any()):
                continue
            moved_any[k] = True
            possible[k] &= {b for b in possible[k] if not _reaches(here, b, ~chosen)}
    paired = []
    for k, axes in enumerate(possible):
        if not moved_any[k]:
            paired.append(-1)
        elif not axes:
            return None
        else:
            paired.append(axis if axis in axes else min(axes))
    return paired if any(b >= 0 for b in paired) else None


def _half(seed: int, axis: int, size: int) -> object:
    drawn = (signs(stream(seed, 820, axis), size) > 0).numpy()
    drawn[0] = not drawn[-1]  # both halves have something
    return drawn


def _reaches(changed: Tensor, axis: int, others: Tensor) -> bool:
    """Whether outputs with other indices along this axis changed as well."""
    return bool(changed.movedim(axis, 0)[others].any())


def _partition(suspect: Suspect, pairs: dict[int, list[int]]) -> Cells:
    axes = tuple(sorted(pairs))
    shape = suspect.shape
    of_element, inner = _numbers(shape, axes)
    count = 1
    for axis in axes:
        count *= shape[axis]
    parts = []
    for k, output in enumerate(suspect.outputs):
        number = torch.zeros(output.shape, dtype=torch.int64)
        for axis in axes:
            paired = pairs[axis][k]
            if paired < 0:
                continue
            index = [1] * len(output.shape)
            index[paired] = shape[axis]
            number = number * shape[axis] + torch.arange(shape[axis]).reshape(index)
        number = number.expand(output.shape).reshape(-1)
        if output.dtype.is_complex:
            number = number.repeat_interleave(2)
        parts.append(number)
    if suspect.is_complex:
        of_element = of_element.repeat_interleave(2)
        # A complex number is one element, and its parts hang on the same outputs.
        inner = inner.repeat_interleave(2)
    return Cells(count, of_element, torch.cat(parts), inner, axes)


def _numbers(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """(number of the part, number within it) of each element, in row-major order."""
    part = torch.zeros(shape, dtype=torch.int64)
    inner = torch.zeros(shape, dtype=torch.int64)
    for axis, size in enumerate(shape):
        index = [1] * len(shape)
        index[axis] = size
        here = torch.arange(size).reshape(index)
        if axis in axes:
            part = part * size + here
        else:
            inner = inner * size + here
    return part.reshape(-1), inner.reshape(-1)


def _sum(values: Tensor, group: Tensor, count: int) -> Tensor:
    if count == 1:
        return values.sum().reshape(1)
    return torch.zeros(count, dtype=torch.float64).index_add_(0, group, values)
