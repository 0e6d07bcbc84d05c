"""A sum over the wrong axes, or none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.cause import CLEAR, Explanation, cause
from backproof.diagnosis.suspect import Suspect
from backproof.diagnosis.witness import Gradients
from backproof.trial import Output

_MOST_AXES = 4
_GROUPS = (2, 3, 4, 8)  # sizes of groups of which backward takes one
_ROUNDING = 1e-6  # between two orders of one sum, in the type of the claim


@dataclass(frozen=True)
class _Source:
    """What is summed: its name, and one tensor a cotangent, all of one shape."""

    name: str
    tensors: list[Tensor]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensors[0].shape)


@cause
def summed(suspect: Suspect) -> Explanation | None:
    """It is summed over the wrong axes, or over a part of what it should be."""
    if suspect.is_complex or suspect.power < CLEAR or suspect.truth_is_zero:
        return None
    return (
        _along_axes(suspect)
        or _by_index(suspect)
        or _over_a_part(suspect)
        or _not_at_all(suspect)
    )


def _along_axes(suspect: Suspect) -> Explanation | None:
    for source in _sources(suspect):
        for axes in _axes(source.shape, suspect.shape):
            truth = [t.sum(axes).reshape(-1) for t in source.tensors]
            if not suspect.witness.fit(truth[:1]).explains:
                continue
            if not suspect.witness.fit(truth).explains:
                continue
            how = _as_claimed(suspect, source, axes)
            if how is None:
                continue
            where = _named(axes)
            return Explanation(
                f"{how} {source.name} instead of its sum over {where}",
                f"Sum over {where}, along which `{suspect.name}` was broadcast.",
                truth,
            )
    return None


def _by_index(suspect: Suspect) -> Explanation | None:
    """Rows that an index names several times: their gradients add up."""
    shape = suspect.shape
    for one in suspect.known.tensors:
        if one.values.dtype != torch.int64 or not shape or not one.values.numel():
            continue
        index = one.values.reshape(-1)
        if int(index.min()) < 0 or int(index.max()) >= shape[0]:
            continue
        rows = tuple(one.values.shape) + shape[1:]
        for output in suspect.outputs:
            if tuple(output.shape) != rows:
                continue
            truth = [
                torch.zeros(shape, dtype=torch.float64)
                .index_add_(0, index, u[output.part].reshape(-1, *shape[1:]))
                .reshape(-1)
                for u in suspect.cotangents
            ]
            if not suspect.witness.fit(truth).explains:
                continue
            how = _instead(suspect, truth, index, output)
            if how:
                return Explanation(
                    f"{how} what comes in for rows that `{one.name}` names more than once",
                    "Accumulate: `index_add_`, or `index_put_(…, accumulate=True)`.",
                    truth,
                )
    return None


def _instead(suspect: Suspect, truth: Gradients, index: Tensor, output: Output) -> str:
    """What rows named more than once get instead of the sum; empty where it is else."""
    rows = suspect.shape[0]
    claim = suspect.claims[0].reshape(rows, -1)
    true = truth[0].reshape(rows, -1)
    wrong = ((claim - true).abs() > _ROUNDING * true.abs()).any(-1)
    count = torch.bincount(index, minlength=rows)
    if not bool((count[wrong] > 1).all()):
        return ""
    came = suspect.cotangents[0][output.part].reshape(index.numel(), -1)
    place = torch.arange(index.numel())
    empty = torch.zeros(rows, dtype=torch.int64)
    last = came[empty.scatter_reduce(0, index, place, "amax", include_self=False)]
    first = came[empty.scatter_reduce(0, index, place, "amin", include_self=False)]
    mean = true / count.clamp(min=1)[:, None]
    ways = {
        "keeps the last of": last,
        "keeps the first of": first,
        "is the mean of": mean,
    }
    for words, values in ways.items():
        if torch.allclose(claim[wrong], values[wrong], rtol=_ROUNDING):
            return words
    return ""


def _not_at_all(suspect: Suspect) -> Explanation | None:
    """Each element gets its own part of a sum that all of them should get."""
    shape = suspect.shape
    for count in range(1, min(len(shape), _MOST_AXES) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            if all(shape[a] == 1 for a in axes):
                continue
            truth = [
                c.reshape(shape).sum(axes, keepdim=True).expand(shape).reshape(-1)
                for c in suspect.claims
            ]
            if suspect.witness.fit(truth).explains:
                where = _named(axes)
                return Explanation(
                    f"is not summed over {where}",
                    f"Sum over {where}, and give the sum to all elements along it: what "
                    "forward spreads, backward adds up.",
                    truth,
                )
    return None


def _over_a_part(suspect: Suspect) -> Explanation | None:
    """Backward leaves out a part of the cotangent, and is right for the rest."""
    if not bool(torch.stack(suspect.claims).any(0)[suspect.mask].all()):
        return None  # whole elements are left out, not parts of sums
    for words, left_out in (*_tails(suspect), *_parts(suspect)):
        dropped = [torch.where(left_out, u, 0.0) for u in suspect.cotangents]
        claims = suspect.tried(dropped)
        if claims is None:
            return None
        if any(bool(c[suspect.mask].any()) for c in claims):
            continue
        kept = [torch.where(left_out, 0.0, u) for u in suspect.cotangents]
        if suspect.witness_for(kept).fit(suspect.claims).explains:
            return Explanation(
                f"leaves out a part of the sum: {words} of the cotangent is not read",
                f"Add up what comes from {words} of the cotangent too.",
            )
    return None


def _tails(suspect: Suspect) -> Iterator[tuple[str, Tensor]]:
    """The end of an axis of the outputs that backward does not read, by halving."""
    for output in suspect.outputs:
        for axis, size in enumerate(output.shape):
            if (
                output.dtype.is_complex
                or size < 2
                or _is_read(suspect, output, axis, size - 1)
            ):
                continue
            low, high = 0, size - 1  # the tail from `high` on is not read
            while high - low > 1:
                middle = (low + high) // 2
                if _is_read(suspect, output, axis, middle):
                    low = middle
                else:
                    high = middle
            start = high if _is_read(suspect, output, axis, low) else low
            if start:
                words = f"everything from index {start} on along axis {axis}"
                yield words, _from(suspect, output, axis, start)


def _is_read(suspect: Suspect, output: Output, axis: int, start: int) -> bool:
    """Whether the cotangent from `start` on along an axis has a gradient."""
    mask = _from(suspect, output, axis, start)
    found = suspect.tried([torch.where(mask, suspect.cotangents[0], 0.0)])
    return found is None or bool(found[0][suspect.mask].any())


def _from(suspect: Suspect, output: Output, axis: int, start: int) -> Tensor:
    """The outputs from `start` on along an axis, boolean (num_outputs,)."""
    here = torch.zeros(output.shape, dtype=torch.bool)
    here.narrow(axis, start, output.shape[axis] - start).logical_not_()
    mask = torch.zeros_like(suspect.cotangents[0], dtype=torch.bool)
    mask[output.part] = here.reshape(-1)
    return mask


def _parts(suspect: Suspect) -> Iterator[tuple[str, Tensor]]:
    """Slices of the outputs that a backward which takes one of several leaves out."""
    for output in suspect.outputs:
        shape = tuple(output.shape)
        if output.dtype.is_complex or math.prod(shape) <= math.prod(suspect.shape):
            continue
        for axes in _ends(len(shape)):
            for step in _GROUPS:
                sizes = [shape[a] for a in axes]
                if any(n % step or n < 2 for n in sizes):
                    continue
                for start in (0, step - 1):
                    kept = torch.zeros(shape, dtype=torch.bool)
                    index = [slice(None)] * len(shape)
                    for axis in axes:
                        index[axis] = slice(start, None, step)
                    kept[tuple(index)] = True
                    mask = torch.zeros_like(suspect.cotangents[0], dtype=torch.bool)
                    mask[output.part] = ~kept.reshape(-1)
                    text = f"{start}::{step}"
                    where = _named(axes)
                    yield f"everything but indices {text} along {where}", mask


def _ends(dims: int) -> Iterator[tuple[int, ...]]:
    """Each axis, and the last two together."""
    for axis in range(dims):
        yield (axis,)
    if dims > 1:
        yield dims - 2, dims - 1


def _sources(suspect: Suspect) -> Iterator[_Source]:
    """The cotangents, alone and times known tensors, and the other inputs' gradients."""
    for output in suspect.outputs:
        if output.dtype.is_complex or not output.shape:
            continue
        shape = tuple(output.shape)
        plain = [u[output.part].reshape(shape) for u in suspect.cotangents]
        name = "the cotangent"
        if len(suspect.outputs) > 1:
            name = f"the cotangent of `{output.name}`"
        yield _Source(name, plain)
        for one in suspect.known.factors(shape):
            yield _Source(f"{name} * {one.name}", [u * one.values for u in plain])
    for name, index, claims in suspect.other_claims():
        original = suspect.trial.inputs[index].original
        if not original.is_complex() and original.dim():
            shaped = [c.reshape(original.shape) for c in claims]
            yield _Source(f"the gradient of `{name}`", shaped)


def _axes(shape: Sequence[int], to: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Sets of axes whose sum leaves a tensor of the shape `to`, single ones aside."""
    wanted = [n for n in to if n > 1]
    if math.prod(shape) <= math.prod(to) or len(shape) > _MOST_AXES:
        return
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            left = [n for a, n in enumerate(shape) if a not in axes and n > 1]
            if left == wanted:
                yield axes


def _as_claimed(
    suspect: Suspect, source: _Source, right: tuple[int, ...]
) -> str | None:
    """What the claim does with the source, to stand before its name."""
    for words, parts in _other_ways(source, suspect.shape, right):
        if _equals(suspect, parts):
            return words
    return None


def _other_ways(
    source: _Source, shape: Sequence[int], right: tuple[int, ...]
) -> Iterator[tuple[str, list[Tensor]]]:
    """What people do instead of the sum over `right`."""
    tensors = source.tensors
    for axes in _axes(source.shape, shape):
        if axes != right:
            yield f"is the sum over {_named(axes)} of", [t.sum(axes) for t in tensors]
    yield "is the mean of", [t.mean(right) for t in tensors]
    if math.prod(shape) > 1:
        yield (
            "has in each element the sum over all axes of",
            [t.sum().expand(tuple(shape)) for t in tensors],
        )
    for index, which in ((0, "first"), (-1, "last")):
        yield (
            f"is the {which} slice of",
            [_slice(t, right, index) for t in tensors],
        )
        for axis in right if len(right) > 1 else ():
            rest = tuple(a for a in right if a != axis)
            yield (
                f"is the {which} slice along axis {axis} of",
                [t.sum(rest, keepdim=True).select(axis, index) for t in tensors],
            )
    yield "is the largest element of", [t.amax(right) for t in tensors]


def _slice(tensor: Tensor, axes: Sequence[int], index: int) -> Tensor:
    for axis in sorted(axes, reverse=True):
        tensor = tensor.select(axis, index)
    return tensor


def _equals(suspect: Suspect, expected: list[Tensor]) -> bool:
    for claim, other in zip(suspect.claims, expected, strict=True):
        if claim.numel() != other.numel():
            return False
        a, b = claim[suspect.mask], other.reshape(-1)[suspect.mask]
        if float((a - b).norm()) > _ROUNDING * float(b.norm()) or not bool(a.any()):
            return False
    return True


def _named(axes: Sequence[int]) -> str:
    if len(axes) == 1:
        return f"axis {axes[0]}"
    return "axes " + " and ".join(str(a) for a in axes)
