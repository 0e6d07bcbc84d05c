"""The right numbers in another order."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from backproof.diagnosis.cause import Explanation, cause, fits
from backproof.diagnosis.suspect import Suspect

_MOST_AXES = 4  # tensors with more have too many orders to try
Reorder = Callable[[Tensor], Tensor]


@cause
def transposed(suspect: Suspect) -> Explanation | None:
    """Its elements are those of forward's derivative in another order."""
    for words, reorder in _orders(suspect.shape):
        truth = [_reordered(suspect, claim, reorder) for claim in suspect.claims]
        if fits(suspect, truth):
            return Explanation(
                words, f"Put the gradient of `{suspect.name}` into the order of "
                f"`{suspect.name}` before it is returned.", truth,
            )  # fmt: skip
    return _of_cotangent(suspect) or _of_input(suspect)


def _of_input(suspect: Suspect) -> Explanation | None:
    """Backward reads one of the inputs transposed: `g @ w` where `g @ w.T` is meant."""
    for k, one in enumerate(suspect.trial.inputs):
        shape = one.original.shape
        if len(shape) < 2 or shape[-1] != shape[-2] or one.original.is_complex():
            continue
        turned = one.point.values.reshape(shape).mT.reshape(-1)
        truth = suspect.claims_with(k, turned)
        if fits(suspect, truth):
            return Explanation(
                f"would be right with `{one.name}` transposed",
                f"Use `{one.name}.mT` where backward uses `{one.name}`, or the other way "
                "round.",
                truth,
            )
    return None


def _orders(shape: tuple[int, ...]) -> Iterator[tuple[str, Reorder]]:
    """What turns the claim back, and what it is then called."""
    if not 0 < len(shape) <= _MOST_AXES:
        return
    axes = range(len(shape))
    for order in itertools.permutations(axes):
        if order == tuple(axes):
            continue
        which = " and ".join(str(a) for a in axes if order[a] != a)
        if all(shape[order[a]] == shape[a] for a in axes):
            words = f"is transposed: axes {which} are exchanged"
            yield words, functools.partial(_permuted, order=order)
        yield (
            "is in the memory order of its transpose",
            functools.partial(_laid_out, turned=[shape[a] for a in order], order=order),
        )
    for both in _pairs(len(shape)):
        words = f"is in reverse order along axes {' and '.join(map(str, both))}"
        yield words, functools.partial(_flipped, axis=both)
    for axis in axes:
        if shape[axis] < 2:
            continue
        along = f" along axis {axis}" if len(shape) > 1 else ""
        yield f"is in reverse order{along}", functools.partial(_flipped, axis=axis)
        for step in (1, -1):
            words = f"is shifted by one{along}"
            yield words, functools.partial(_rolled, axis=axis, step=step)
            words = f"{words}, with zero at the end"
            yield words, functools.partial(_shifted, axis=axis, step=step)


def _pairs(dims: int) -> Iterator[tuple[int, ...]]:
    """The last two axes, and all of them, where those are several."""
    if dims > 1:
        yield dims - 2, dims - 1
    if dims > 2:
        yield tuple(range(dims))


def _permuted(gradient: Tensor, order: tuple[int, ...]) -> Tensor:
    return gradient.permute(*order)


def _laid_out(gradient: Tensor, turned: list[int], order: tuple[int, ...]) -> Tensor:
    """Read as what was written in the layout of the transpose."""
    return gradient.reshape(turned).permute(
        *(order.index(a) for a in range(len(order)))
    )


def _flipped(gradient: Tensor, axis: int | tuple[int, ...]) -> Tensor:
    return gradient.flip(axis)


def _rolled(gradient: Tensor, axis: int, step: int) -> Tensor:
    return gradient.roll(step, axis)


def _shifted(gradient: Tensor, axis: int, step: int) -> Tensor:
    """Rolled, without what comes around."""
    rolled = gradient.roll(step, axis)
    rolled.select(axis, 0 if step > 0 else -1).zero_()
    return rolled


def _reordered(suspect: Suspect, claim: Tensor, reorder: Reorder) -> Tensor:
    if suspect.is_complex:
        pairs = torch.view_as_complex(claim.reshape(*suspect.shape, 2))
        return torch.view_as_real(reorder(pairs).contiguous()).reshape(-1)
    return reorder(claim.reshape(suspect.shape)).reshape(-1)


def _of_cotangent(suspect: Suspect) -> Explanation | None:
    """The same for the cotangent: backward reads it in the wrong order."""
    if len(suspect.outputs) != 1 or suspect.outputs[0].dtype.is_complex:
        return None
    shape = tuple(suspect.outputs[0].shape)
    if not 0 < len(shape) <= _MOST_AXES:
        return None
    for words, reorder in _cotangent_orders(shape):
        turned = [reorder(u.reshape(shape)).reshape(-1) for u in suspect.cotangents]
        truth = suspect.tried(turned)
        if truth is None:
            return None
        if fits(suspect, truth):
            return Explanation(
                f"reads its cotangent {words}",
                "Bring the cotangent into the order of forward's output first.",
                truth,
            )
        if shape != suspect.shape or suspect.is_complex:
            continue
        both = [_reordered(suspect, g, reorder) for g in truth]
        if fits(suspect, both):
            return Explanation(
                f"would be right with cotangent and gradient {words}: backward runs "
                "the other way",
                "Turn the cotangent around before backward's own computation, and its "
                "result after it.",
                both,
            )
    return None


def _cotangent_orders(shape: tuple[int, ...]) -> Iterator[tuple[str, Reorder]]:
    """Orders that are their own inverse."""
    for one, two in itertools.combinations(range(len(shape)), 2):
        if shape[one] == shape[two]:
            order = list(range(len(shape)))
            order[one], order[two] = two, one
            yield (
                f"transposed, with axes {one} and {two} exchanged",
                functools.partial(_permuted, order=tuple(order)),
            )
    for axis, size in enumerate(shape):
        if size > 1:
            along = f" along axis {axis}" if len(shape) > 1 else ""
            yield f"in reverse order{along}", functools.partial(_flipped, axis=axis)
