"""The same call at other sizes.

Which dimensions belong together cannot be asked, so equal ones are taken to: every
dimension of n elements, in any tensor of the arguments, moves to the same new size. One
that a plain argument, a parameter or a buffer also tells stays: native code may trust
that they agree. Values are drawn between those that are there, so an interval that held
them holds the new ones, and whole numbers that could be indices stay in range. Whatever
forward refuses at a new size was no size of this op.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backproof.errors import BadInput
from backproof.probe import ANYWHERE, real_dtype
from backproof.subject import Case
from backproof.trial import Output, Trial
from backproof.trial.captured import captured

_TAILS = (1025, 257, 65, 17)  # one element beyond blocks of any usual size
_MOST_ELEMENTS = 2**18  # of one tensor after it has grown
_SIZES = (0, 1, 2, 3, 5, 8, 17, 65, 257, 1025)  # for a function that takes `size`
_SQUARES = (4, 16)  # all dimensions alike: tiles are square then


@dataclass(frozen=True)
class Resized:
    """A trial at another size.

    Attributes:
        words: "dimension 7 -> 1" and the like.
        trial: to run it; one that `empty` says holds no elements is run by hand.
        empty: whether a dimension is zero.
        near: whether dimensions keep their order: one may pass another that it belongs
            below, which forward does not always refuse.
    """

    words: str
    trial: Trial
    empty: bool = False
    near: bool = True


def sizes(trial: Trial, outputs: Sequence[Output]) -> Iterator[Resized]:
    """No rows, one, odd or even instead, one past 1,024, and all dimensions equal.

    No rows where inputs and outputs both begin with them: an empty batch. Nothing for
    inputs with a declared structure, which new values would not have.

    Args:
        trial: at the given size.
        outputs: what it returns there.
    """
    if trial.case.resized is not None:
        yield from _made(trial, trial.case.resized)
        return
    if any(p.domain.structure != ANYWHERE.structure for p in trial.points):
        return
    dims = _free(trial)
    batch = _leading(trial.leaves) & {o.shape[0] for o in outputs if o.shape}
    for n in dims:
        for new in (0, 1, n + 1) if n in batch else (1, n + 1):
            near = new == 0 or all((n < m) == (new < m) for m in dims if m != n)
            words = f"dimension {n} -> {new}"
            yield from _resized(trial, {n: new}, words, near=near)
        for new in _TAILS:
            words = f"dimension {n} -> {new}"
            longer = list(_resized(trial, {n: new}, words, near=False))
            yield from longer
            if longer or new < n:
                break  # the longest that fits
    if len(dims) > 1:
        for new in _SQUARES:
            words = f"every dimension -> {new}"
            yield from _resized(trial, dict.fromkeys(dims, new), words, near=False)


def _made(trial: Trial, resized: Callable[[int], Case]) -> Iterator[Resized]:
    """The sizes that the user's own function of inputs makes."""
    for size in _SIZES:
        try:
            moved = trial.with_case(resized(size), f"at size {size}")
        except BadInput:
            continue
        tensors = [v for v in moved.leaves if isinstance(v, Tensor)]
        if any(t.numel() > _MOST_ELEMENTS for t in tensors):
            return
        yield Resized(f"size {size}", moved, any(not t.numel() for t in tensors))


def _leading(leaves: Sequence[Any]) -> set[int]:
    return {t.shape[0] for t in leaves if isinstance(t, Tensor) and t.dim()}


def _free(trial: Trial) -> list[int]:
    """Lengths of dimensions of the arguments that nothing else holds.

    A tensor that the code captures is such a holder: its form stays.
    """
    arguments = trial.leaves[: len(trial.leaves) - trial.num_parameters]
    held = {v for v in arguments if type(v) is int}
    module = trial.subject.module
    if module is not None:
        for tensor in (*module.parameters(), *module.buffers()):
            held.update(tensor.shape)
    for _, tensor in captured(trial):
        held.update(tensor.shape)
    tensors = [v for v in arguments if isinstance(v, Tensor)]
    return sorted({n for t in tensors for n in t.shape if n > 1} - held)


def _resized(
    trial: Trial, new: dict[int, int], words: str, *, near: bool = True
) -> Iterator[Resized]:
    leaves = []
    for k, leaf in enumerate(trial.leaves):
        if not isinstance(leaf, Tensor):
            leaves.append(leaf)
            continue
        shape = [new.get(n, n) for n in leaf.shape]
        if math.prod(shape) > _MOST_ELEMENTS:
            return
        drawn = _drawn(leaf, shape, trial.seed + k)
        if not (leaf.is_floating_point() or leaf.is_complex()):
            if 0 in new.values() and drawn.numel():
                return
            drawn = _in_range(drawn, new)
        leaves.append(drawn)
    moved = trial.with_leaves(leaves, f"at {words}")
    yield Resized(words, moved, 0 in new.values(), near)


def _in_range(whole: Tensor, new: dict[int, int]) -> Tensor:
    """Whole numbers, below a dimension's length where they were below the old one."""
    if whole.dtype == torch.bool or not whole.numel():
        return whole
    largest = int(whole.max())
    shrunk = [b for a, b in new.items() if largest < a and b <= largest]
    return whole % min(shrunk) if shrunk else whole


def _drawn(tensor: Tensor, shape: Sequence[int], seed: int) -> Tensor:
    """A tensor of `shape` with values like those of `tensor`."""
    if list(tensor.shape) == list(shape):
        return tensor
    source = tensor.detach().reshape(-1)
    if not source.numel():
        return tensor.new_zeros(list(shape)).requires_grad_(tensor.requires_grad)
    count = math.prod(shape)
    random = torch.Generator().manual_seed(seed)
    first, second = (
        torch.randint(source.numel(), (count,), generator=random).to(source.device)
        for _ in range(2)
    )
    values = source[first]
    if tensor.is_floating_point() or tensor.is_complex():
        between = torch.rand(count, generator=random, dtype=torch.float64)
        between = between.to(source.device, real_dtype(tensor.dtype))
        one, other = values, source[second]
        values = one + (other - one) * between
        if not tensor.is_complex():  # rounding does not leave the interval either
            values = values.clamp(torch.minimum(one, other), torch.maximum(one, other))
    return values.reshape(list(shape)).requires_grad_(tensor.requires_grad)
