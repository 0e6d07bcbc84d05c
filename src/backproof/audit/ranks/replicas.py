"""A gradient that ranks must share and do not: a missing all-reduce.

A Function that hands a replicated tensor to what each rank does alone has to sum the
gradients over ranks. Without that it is a right function of one rank, and no law of one
rank, nor the adjoint law, can see it. What gives it away is the program: ranks hold the
same tensor, return different gradients for it, and what it was computed from goes apart.

Never said where no custom Function communicates, or none of those gets different inputs
on the ranks: then ranks are copies of one another, and whoever copies them sums gradients
later. The first in the order of backward is told; what comes after it follows from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from backproof.audit.identity import Identity
from backproof.audit.ledger import KeptCall, Ledger
from backproof.audit.ranks.circle import ranks_in_words
from backproof.audit.ranks.observation import Observed, Sketch, apart, sketch
from backproof.audit.replay import Replay, default_dtype
from backproof.records import Judgement
from backproof.trial import Trial


@dataclass(frozen=True)
class Seen:
    """What one rank saw of one Function; lists have an entry for each input.

    Attributes:
        first: the number of the call that all but `later` is about.
        names: of the inputs.
        inputs: what they were.
        parameters: whether each is an `nn.Parameter`.
        order: which backward of the process it was.
        cotangents: what arrived, for each output.
        gradients: what backward returned.
        roots: of each leaf that an input was computed from: itself then, and its `.grad`
            now.
        later: the inputs of further calls, by their numbers.
    """

    first: int
    names: tuple[str, ...]
    inputs: tuple[Sketch, ...]
    parameters: tuple[bool, ...]
    order: int | None
    cotangents: tuple[Sketch | None, ...]
    gradients: tuple[Sketch | None, ...]
    roots: tuple[tuple[tuple[Sketch, Sketch | None], ...], ...]
    later: Mapping[int, tuple[Sketch, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Suspect:
    """An input of a Function whose gradient ranks do not share.

    Attributes:
        function: which it is.
        call: the number of its call.
        name: of the input.
        ranks: who holds it.
        norms: of the gradient on each of them.
        proof: what shows that it matters.
        order: of its backward.
    """

    function: Identity
    call: int
    name: str
    ranks: tuple[int, ...]
    norms: tuple[float, ...]
    proof: str
    order: int


def seen(ledger: Ledger) -> Seen | None:
    """What this rank saw of a Function; None where nothing of it can be told."""
    calls = sorted(ledger.kept, key=lambda call: call.number)
    if not calls or not calls[0].observed:
        return None
    first, watched = calls[0], calls[0].observed[0]
    names, inputs = _inputs(ledger, first)
    if len(watched.parameters) != len(names):
        return None
    return Seen(
        first.number,
        names,
        inputs,
        tuple(watched.parameters),
        watched.order,
        tuple(watched.cotangents),
        tuple(watched.gradients),
        tuple(_roots(watched)),
        {call.number: _inputs(ledger, call)[1] for call in calls[1:]},
    )


def suspects(
    ranks: Sequence[Mapping[Identity, Seen]], parts: Sequence[tuple[int, ...]]
) -> list[Suspect]:
    """The first of each part of ranks, in the order of backward.

    Args:
        ranks: what each rank saw.
        parts: ranks that communicate, by Functions that get different inputs there.
    """
    found: dict[tuple[int, ...], Suspect] = {}
    for part in parts:
        known = [ranks[rank] for rank in part]
        for function in sorted(set.intersection(*(set(one) for one in known))):
            for one in _of(function, [saw[function] for saw in known], part):
                if part not in found or one.order < found[part].order:
                    found[part] = one
    return list(found.values())


def same_inputs(ranks: Sequence[Seen], part: Sequence[int]) -> bool:
    """Whether all inputs of the first call are the same on these ranks."""
    known = [[one.digest for one in ranks[rank].inputs] for rank in part]
    return all(one == known[0] for one in known[1:])


def with_proof(judgement: Judgement, suspect: Suspect) -> Judgement:
    """What was found wrong, with what showed in the program itself."""
    norms = ", ".join(f"{norm:.3g}" for norm in suspect.norms)
    lines = (
        f"in the program: the same `{suspect.name}` on {ranks_in_words(suspect.ranks)}, "
        f"gradients of norm {norms}; {suspect.proof}"
    )
    findings = [
        dataclasses.replace(one, words=f"{one.words}\n{lines}")
        for one in judgement.findings
    ]
    return dataclasses.replace(judgement, findings=tuple(findings))


def _of(
    function: Identity, saw: Sequence[Seen], part: tuple[int, ...]
) -> Iterator[Suspect]:
    first = saw[0]
    if any(one.first != first.first or one.names != first.names for one in saw):
        return
    if first.order is None or any(one.order is None for one in saw):
        return
    if len({tuple(c and c.digest for c in one.cotangents) for one in saw}) == 1:
        return
    for k, name in enumerate(first.names):
        if any(len(one.gradients) != len(first.names) for one in saw):
            return
        inputs = [one.inputs[k] for one in saw]
        gradients = [g for one in saw if (g := one.gradients[k]) is not None]
        if (
            len({one.digest for one in inputs}) > 1
            or inputs[0].constant
            or any(one.parameters[k] for one in saw)
            or len(gradients) < len(saw)
            or not apart(gradients)
        ):
            continue
        proof = _drift(saw, k, name) or _roots_apart(saw, k, name)
        if proof:
            norms = tuple(one.norm for one in gradients)
            yield Suspect(function, first.first, name, part, norms, proof, first.order)


def _drift(saw: Sequence[Seen], k: int, name: str) -> str:
    for number in sorted(set.intersection(*(set(one.later) for one in saw))):
        if len({one.later[number][k].digest for one in saw}) > 1:
            return (
                f"it goes apart as the program learns: the same in call {saw[0].first}, "
                f"no longer in call {number}"
            )
    return ""


def _roots_apart(saw: Sequence[Seen], k: int, name: str) -> str:
    """Leaves that were the same on all ranks and got gradients that are not."""
    for leaf in zip(*(one.roots[k] for one in saw), strict=False):
        then = {before.digest for before, _ in leaf}
        now = [after for _, after in leaf if after is not None]
        if len(then) == 1 and len(now) == len(leaf) and apart(now):
            return (
                "it is, or comes from, a leaf that was the same on all of them and whose "
                "`.grad` is not"
            )
    return ""


def _inputs(
    ledger: Ledger, call: KeptCall
) -> tuple[tuple[str, ...], tuple[Sketch, ...]]:
    with default_dtype(call.default_dtype), torch.inference_mode(mode=False):
        replay = Replay(ledger, call)
        inputs = Trial(replay.subject, replay.case).inputs
        return (
            tuple(one.name for one in inputs),
            tuple(sketch(one.original) for one in inputs),
        )


def _roots(
    watched: Observed,
) -> Iterator[tuple[tuple[Sketch, Sketch | None], ...]]:
    for leaves in watched.roots:
        found = []
        for where, before in leaves:
            leaf = where()
            grad = leaf.grad if leaf is not None else None
            found.append((before, sketch(grad) if grad is not None else None))
        yield tuple(found)
