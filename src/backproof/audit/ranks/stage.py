"""The Function of all ranks together, as rank 0 shows it to the referee.

    inputs of all ranks ──hand out──> forward on each ──hand in──> outputs of all ranks

It is one autograd Function like any other: a tensor that several ranks hold in common is
one input, and an output that they have in common and that counts once in the loss is one
output. What its backward returns for such an input is what one of those ranks claims.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from backproof.audit.ranks.circle import Apart, Circle
from backproof.audit.ranks.convention import Convention, Holders
from backproof.audit.ranks.part import Failed, Order, Parts, Side

_LOST = ("timed out", "timeout", "connection", "application timeout", "gloo")
_ROUNDINGS = 64.0  # that gradients of one tensor may differ by between ranks

Mend = Callable[[list[Tensor | None]], list[Tensor | None]]
"""The gradients of one input on all ranks -> what they would be with a remedy."""


class Stage:
    """One call on all ranks, under one convention.

    Attributes:
        sides: what each rank said of its part.
        inputs: name and value of each input of the whole.
        mend: what is done to the gradients of the inputs `mended` on all ranks.
        unlike: whether outputs that should be the same on several ranks were not.
        claims_differ: whether ranks claimed different gradients for one tensor.
    """

    def __init__(
        self,
        circle: Circle,
        parts: Parts,
        sides: Sequence[Side],
        convention: Convention,
        *,
        claimant: int = 0,
    ) -> None:
        self._circle, self._parts, self.sides = circle, parts, sides
        self._claimant = claimant
        self.mend: Mend | None = None
        self.mended: Sequence[str] = ()
        self._names = sides[0].inputs
        self._inputs = [(n, h) for n in self._names for h in convention.inputs[n]]
        self._outputs = [
            (n, h) for n in sides[0].outputs for h in convention.outputs[n]
        ]
        self.inputs = {
            label(name, holders): sides[holders[0]]
            .values[self._names.index(name)]
            .clone()
            .requires_grad_()
            for name, holders in self._inputs
        }
        self.unlike = self.claims_differ = False
        self.keys, self.dropped = itertools.count(1), list[int]()

    def call(self, **inputs: Tensor) -> dict[str, Tensor]:
        """What the referee calls."""
        found = _Together.apply(self, *inputs.values())  # type: ignore[no-untyped-call]
        return {
            label(name, holders): tensor
            for (name, holders), tensor in zip(self._outputs, found, strict=True)
        }

    def forward(self, tensors: Sequence[Tensor], key: int) -> list[Tensor]:
        """Forward on all ranks at once."""
        given: list[list[Tensor]] = [
            [torch.empty(0)] * len(self._names) for _ in self.sides
        ]
        for (name, holders), tensor in zip(self._inputs, tensors, strict=True):
            for rank in holders:
                given[rank][self._names.index(name)] = tensor
        told = self._all("forward", given, key)
        outputs = []
        for name, holders in self._outputs:
            place = self.sides[0].outputs.index(name)
            mine = [told[rank][place] for rank in holders]
            self.unlike |= not all(_close(mine[0], other) for other in mine[1:])
            outputs.append(mine[0])
        return outputs

    def backward(self, cotangents: Sequence[Tensor], key: int) -> list[Tensor | None]:
        """Backward on all ranks at once, and what each input's claimant says."""
        num_outputs = len(self.sides[0].outputs)
        given: list[list[Tensor | None]] = [[None] * num_outputs for _ in self.sides]
        for (name, holders), tensor in zip(self._outputs, cotangents, strict=True):
            for rank in holders:
                given[rank][self.sides[0].outputs.index(name)] = tensor
        told = self._all("backward", given, key)
        for name in self.mended if self.mend is not None else ():
            place = self._names.index(name)
            better = self.mend([gradients[place] for gradients in told])  # type: ignore[misc]
            for gradients, gradient in zip(told, better, strict=True):
                gradients[place] = gradient
        claims = []
        for name, holders in self._inputs:
            mine = [told[rank][self._names.index(name)] for rank in holders]
            self.claims_differ |= not all(_close(mine[0], one) for one in mine[1:])
            claims.append(mine[self._claimant % len(mine)])
        return claims

    def _all(self, what: str, given: Sequence[Sequence[Any]], key: int) -> list[Any]:
        dropped, self.dropped = tuple(self.dropped), []
        orders = [Order(what, None, key, tuple(mine), dropped) for mine in given]
        return together(self._circle, self._parts, orders)


def together(circle: Circle, parts: Parts, orders: list[Order]) -> list[Any]:
    """Have every rank run its order, and return what each says.

    Raises:
        Apart: ranks have lost one another.
        RuntimeError: the Function raised on some rank.
    """
    order = circle.hand_out(orders)
    told = circle.hand_in(parts.obey(order))
    failed = [(r, one.words) for r, one in enumerate(told) if isinstance(one, Failed)]
    if not failed:
        return told
    own = [(r, words) for r, words in failed if not _is_lost(words)]
    rank, words = (own or failed)[0]
    if len(own) < len(failed):  # somebody waited for it
        circle.leave(f"ranks fell out of step in a replay: {words} on rank {rank}")
        raise Apart(circle.broken)
    raise RuntimeError(f"on rank {rank}: {words}")


def _is_lost(words: str) -> bool:
    return any(sign in words.lower() for sign in _LOST)


def label(name: str, holders: Holders) -> str:
    """What the referee calls a tensor of some ranks."""
    return f"{name} on {', '.join(map(str, holders))}"


def parsed(label: str) -> tuple[str, Holders]:
    """The inverse of `label`, also for an element of one."""
    name, _, ranks = label.rpartition(" on ")
    return name, tuple(int(rank) for rank in ranks.split(", "))


class _Graph:
    """Keeps the graphs of all ranks as long as the node that stands for them."""

    def __init__(self, stage: Stage, key: int) -> None:
        self.stage, self.key = stage, key

    def __del__(self) -> None:
        self.stage.dropped.append(self.key)


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stage: Stage, *tensors: Tensor) -> tuple[Tensor, ...]:
        key = next(stage.keys) if any(ctx.needs_input_grad) else 0
        if key:
            ctx.graph = _Graph(stage, key)
        return tuple(stage.forward(tensors, key))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        graph: _Graph = ctx.graph
        return (None, *graph.stage.backward(cotangents, graph.key))


def _close(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two ranks mean the same tensor, but for rounding."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape:
        return False
    eps = torch.finfo(one.dtype).eps
    size = float(one.abs().max()) if one.numel() else 0.0
    gap = (one - other).abs().nan_to_num()
    return bool((gap <= _ROUNDINGS * eps * size).all())
