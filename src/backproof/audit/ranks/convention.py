"""How a Function's tensors and the loss may be shared between ranks.

An input is *replicated*, one tensor that several ranks hold a copy of and whose whole
gradient each of them needs, or each rank's *own*. The loss is *replicated*, one loss that
every rank computes from the same output, or *summed* over ranks that each have a part.
The two cannot be told from one call's numbers in every case; what was observed leaves a
few conventions, and the law holds if it holds in one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from backproof.audit.ranks.part import Side

Holders = tuple[int, ...]
"""Ranks that hold a copy of one tensor."""

Sharing = tuple[Holders, ...]
"""All ranks, each beside those that hold the same tensor."""


@dataclass(frozen=True)
class Convention:
    """One way of sharing.

    Attributes:
        inputs: who shares each differentiable input.
        outputs: who shares each output, and counts it once.
        supposed: inputs that were not the same on all ranks, and are taken to be.
    """

    inputs: Mapping[str, Sharing]
    outputs: Mapping[str, Sharing]
    supposed: tuple[str, ...] = ()

    def __str__(self) -> str:
        kinds = {name: _kind(sharing) for name, sharing in self.inputs.items()}
        unlike = dict.fromkeys(kinds.values())
        if len(unlike) == 1:
            (kind,) = unlike
            said = f"{kind} input{'s' if len(kinds) > 1 else ''}"
        else:
            said = ", ".join(
                f"{kind} {_names([n for n, k in kinds.items() if k == kind])}"
                for kind in unlike
            )
        losses = {name: _loss(sharing) for name, sharing in self.outputs.items()}
        if len(set(losses.values())) == 1:
            return f"{said}, {next(iter(losses.values()))} loss"
        parts = [f"{loss} in {_names([name])}" for name, loss in losses.items()]
        return f"{said}, loss {', '.join(parts)}"


@dataclass(frozen=True)
class Possible:
    """What was observed of one call, and leaves open.

    Attributes:
        parts: ranks that communicate with one another.
        inputs: who holds the same values of each input.
        surely: inputs of which it is known that they are one tensor.
        parameters: inputs that are parameters of a module.
        outputs: who has the same output and got the same cotangent.
    """

    parts: Sharing
    inputs: Mapping[str, Sharing]
    surely: frozenset[str]
    parameters: frozenset[str]
    outputs: Mapping[str, Sharing]

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return sum(len(part) for part in self.parts)

    def conventions(self) -> list[Convention]:
        """The likeliest first: what can be shared is, then more and more is own."""
        loose = [n for n in self.inputs if n not in self.surely]
        trained = [name for name in loose if name in self.parameters]
        losses = [self.outputs, dict.fromkeys(self.outputs, own(self.size))]
        found = [
            self.with_own(Convention(self.inputs, outputs), names)
            for outputs in losses
            for names in ((), trained, loose)
        ]
        return [one for k, one in enumerate(found) if one not in found[:k]]

    def with_own(self, convention: Convention, names: Sequence[str]) -> Convention:
        """Likewise with those of these inputs for each rank's own that may be."""
        inputs = dict(convention.inputs)
        for name in names:
            if name in inputs and name not in self.surely:
                inputs[name] = own(self.size)
        return replace(convention, inputs=inputs)

    def supposing(self, convention: Convention, names: Sequence[str]) -> Convention:
        """Likewise with these inputs the same on all ranks, which they were not."""
        inputs = {**convention.inputs, **dict.fromkeys(names, self.parts)}
        return replace(convention, inputs=inputs, supposed=tuple(names))


def own(size: int) -> Sharing:
    """Each rank for itself."""
    return tuple((rank,) for rank in range(size))


def possible(
    sides: Sequence[Side],
    parts: Sharing,
    known: Mapping[str, Sharing],
    surely: frozenset[str],
) -> Possible:
    """What the ranks' sides of one call leave open.

    `known` holds who shared an input in an earlier call: a program that is wrong makes
    copies drift apart.
    """
    inputs = {}
    for k, name in enumerate(sides[0].inputs):
        now = shared([side.sketches[k].digest for side in sides], parts)
        inputs[name] = known.get(name, now)
    outputs = {}
    for k, name in enumerate(sides[0].outputs):
        keys = []
        for side in sides:
            arrived = side.cotangents[k]
            told = arrived.digest if arrived is not None else ""
            keys.append(f"{side.results[k].digest} {told}")
        outputs[name] = shared(keys, parts)
    first = sides[0]
    named = zip(first.inputs, first.parameters, strict=True)
    trained = frozenset(name for name, is_trained in named if is_trained)
    return Possible(parts, inputs, surely, trained, outputs)


def shared(digests: Sequence[str], parts: Sharing) -> Sharing:
    """Ranks beside those of their part whose digest is the same."""
    found: dict[tuple[int, str], list[int]] = {}
    for number, part in enumerate(parts):
        for rank in part:
            found.setdefault((number, digests[rank]), []).append(rank)
    return tuple(sorted(tuple(ranks) for ranks in found.values()))


def _is_shared(sharing: Sharing) -> bool:
    return any(len(holders) > 1 for holders in sharing)


def _kind(sharing: Sharing) -> str:
    return "replicated" if _is_shared(sharing) else "own"


def _loss(sharing: Sharing) -> str:
    return "replicated" if _is_shared(sharing) else "summed"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
