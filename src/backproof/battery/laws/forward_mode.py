"""BP103: forward mode and backward are each other's transpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.inquiry.backward_noise import SCALE, pull_nudged
from backproof.battery.inquiry.base import clean
from backproof.battery.law import NotApplicable, law
from backproof.battery.laws.second_order import finest
from backproof.battery.place import Places
from backproof.diagnosis.relation import is_plain, number
from backproof.function_class import class_of_node, is_torchs, own_method
from backproof.probe import coarsest, is_finite, signed, spread, stream, typical
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Refused, Trial
from backproof.trial.custom_nodes import custom_nodes
from backproof.trial.flat import flat
from backproof.trial.vectors import inner, magnitude, minus, overlap

_ROUNDINGS = 64.0  # of the sum of magnitudes, in eps
_SENSITIVE = 32.0  # times the change that a move in the last place makes
_ALONE = 5  # inputs that each get a tangent alone

Tangents = list[Tensor | None]


@law("BP103")
def forward_mode(examination: Examination) -> Iterator[Evidence]:
    """Forward mode (`jvp`) agrees with backward: ⟨u, jvp(v)⟩ = ⟨backward(u), v⟩.

    For tangents with the signs of the gradient, random ones, and each input alone.

    Cost: 2 forwards in forward mode, 1 more an input (up to 5), and 2 backwards.
    Blind to: errors that both modes share (BP101 sees those).
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    for node in custom_nodes(examination.base.graph):
        written = class_of_node(node)
        if written is not None and own_method(written, "jvp") is None:
            why = "is refused" if is_torchs(written) else "is derived from backward"
            raise NotApplicable(f"forward mode {why}: {written.__name__} has no `jvp`")
    if not examination.trial.subject.declared and (
        examination.gradient.kind not in (Kind.RIGHT, Kind.WRONG, Kind.STAIRCASE)
    ):
        raise NotApplicable("the point is no smooth one, where the modes may choose")
    trial = finest(examination)
    graph = trial.record()
    cotangent = trial.represent(examination.base.cotangent)
    try:
        pulled = trial.pull(graph, cotangent)
        if not all(g is None or is_finite(g) for g in pulled):
            cotangent = _where_slopes_are_finite(trial, cotangent, pulled)
            pulled = trial.pull(graph, cotangent)
    except BackwardRaised as error:
        raise NotApplicable("backward raised") from error
    eps, gradient = _grain(examination, trial), clean(pulled)
    for n, (words, tangents) in enumerate(_tangents(trial, pulled)):
        pushed = _push(trial, tangents)
        if pushed is None and n == 0:
            raise NotApplicable("forward mode gives no tangent: see context func_jvp")
        none = torch.zeros_like(graph.values)
        found = none if pushed is None else pushed.masked_fill(cotangent == 0, 0.0)
        sides = _Sides(found, cotangent, graph.values, gradient, tangents)
        evidence = _compare(words, sides, eps)
        if evidence.holds is False and _is_noise(trial, sides):
            evidence = held(f"for {words} both agree to backward's own noise")
        yield evidence if evidence.holds else _placed(examination, evidence)


def _where_slopes_are_finite(
    trial: Trial, cotangent: Tensor, gradient: Sequence[Tensor | None]
) -> Tensor:
    """The cotangent, zero for outputs that forward mode has no finite tangent of.

    At the edge of a domain, such as the square root's at zero, a slope is infinite, and
    times a tangent of zero it is nan.
    """
    _, (_, tangents), *_ = _tangents(trial, gradient)
    pushed = _push(trial, tangents)
    if pushed is None:
        return cotangent
    return cotangent.masked_fill(~torch.isfinite(pushed), 0.0)


def _tangents(
    trial: Trial, gradient: Sequence[Tensor | None]
) -> Iterator[tuple[str, Tangents]]:
    """(words, tangents); zero for elements that are not finite, or get no finite slope."""
    random = stream(trial.seed, 900)
    drawn = []
    for point, slope in zip(trial.points, gradient, strict=True):
        draw = signed(random, point.values.numel())
        signs = torch.sign(draw)
        tangent = spread(draw) * signs * typical(point.values)
        fixed = ~torch.isfinite(point.values)
        if slope is not None:
            fixed |= ~torch.isfinite(slope)
        drawn.append(tangent.masked_fill_(fixed, 0.0))
    yield (
        "a tangent with the signs of the gradient",
        [
            v if g is None else torch.where(g == 0, v, v.abs() * torch.sign(g))
            for v, g in zip(drawn, clean(gradient), strict=True)
        ],
    )
    yield "a random tangent", list(drawn)
    if 1 < len(drawn) <= _ALONE:
        for k, i in enumerate(trial.inputs):
            yield (
                f"a tangent of `{i.name}` alone",
                [v if n == k else None for n, v in enumerate(drawn)],
            )


@dataclass(frozen=True)
class _Sides:
    """What both modes give; float64, (num_outputs,) or one (n_i,) an input.

    Attributes:
        pushed: forward mode's tangents of the outputs.
        cotangent: of the outputs.
        values: the outputs themselves.
        gradient: backward's.
        tangents: of the inputs.
    """

    pushed: Tensor
    cotangent: Tensor
    values: Tensor
    gradient: Sequence[Tensor | None]
    tangents: Tangents


def _compare(words: str, sides: _Sides, eps: float) -> Evidence:
    pushed, cotangent = [sides.pushed], [sides.cotangent]
    gradient, tangents = sides.gradient, sides.tangents
    forward, backward = inner(pushed, cotangent), inner(gradient, tangents)
    # The last keeps a derivative that is nothing but rounding from being compared.
    size = max(
        magnitude(pushed, cotangent),
        magnitude(gradient, tangents),
        magnitude([sides.values.nan_to_num(0.0, 0.0, 0.0)], cotangent),
    )
    allowed = _ROUNDINGS * eps * size
    gap = abs(forward - backward)
    numbers = {"forward": forward, "backward": backward, "allowed": allowed}
    if gap <= allowed:
        return held(f"for {words} forward mode and backward agree", numbers)
    return broken(
        f"forward mode does not agree with backward{_ratio(forward, backward)}\n"
        f"for {words}\n"
        f"forward mode gives ⟨u, jvp(v)⟩      = {forward:.6g}\n"
        f"backward gives     ⟨backward(u), v⟩ = {backward:.6g}, "
        f"{gap / max(size, 1e-300):.2g} away; rounding explains {_ROUNDINGS * eps:.1g}",
        numbers,
    )


def _ratio(forward: float, backward: float) -> str:
    """How the two numbers are related, where that is plain."""
    if not forward:
        return ": `jvp` gives zero"
    if not backward:
        return ": backward gives zero"
    named = number(forward / backward)
    if named == "-1":
        return ": `jvp` has the opposite sign"
    return f": `jvp` is {named} times as large" if is_plain(named) else ""


def _placed(examination: Examination, evidence: Evidence) -> Evidence:
    """The evidence at the return of `jvp`, and who of the two is to blame."""
    places, words = Places(examination.trial), evidence.words
    if not examination.trial.subject.declared:
        if examination.gradient.kind is Kind.RIGHT:
            words += "\nbackward is forward's derivative (BP101), so `jvp` is wrong"
        elif examination.gradient.kind is Kind.WRONG:
            words += "\nbackward is wrong itself (BP101)"
    where = places.jvp_return() or places.returned()
    return dataclasses.replace(evidence, words=words, where=where)


def _is_noise(trial: Trial, sides: _Sides) -> bool:
    """Whether inputs moved in their last place change backward as much.

    Costs 1 forward and 1 backward, before an accusation.
    """
    try:
        moved = pull_nudged(trial, trial.represent(sides.cotangent * SCALE))
    except (Refused, BackwardRaised):
        return False
    back = [None if g is None else g / SCALE for g in moved]
    change = overlap(minus(back, sides.gradient), sides.tangents)
    gap = abs(
        inner([sides.pushed], [sides.cotangent]) - inner(sides.gradient, sides.tangents)
    )
    return gap <= _SENSITIVE * change


def _grain(examination: Examination, trial: Trial) -> float:
    """eps of the coarsest type that the subject computes in."""
    types = list(trial.dtypes)
    if not examination.trial.subject.declared:
        found = examination.gradient
        stages = (found.wide, found.native, found.decided_by)
        types += [c.inside for c in stages if c is not None and c.inside is not None]
    return coarsest(types).eps


def _push(trial: Trial, tangents: Tangents) -> Tensor | None:
    """The outputs' tangents, float64 (num_outputs,); None where there are none at all.

    Raises:
        NotApplicable: forward mode is refused.
    """
    values = [i.at(i.point.values.clone()) for i in trial.inputs]
    try:
        with forward_ad.dual_level():
            duals = [
                x if v is None else forward_ad.make_dual(x, i.at(v))  # type: ignore[no-untyped-call]
                for i, x, v in zip(trial.inputs, values, tangents, strict=True)
            ]
            outputs = trial.call(duals)
            pushed = [forward_ad.unpack_dual(y).tangent for y in outputs]  # type: ignore[no-untyped-call]
            found = [
                torch.zeros(o.shape, dtype=o.dtype) if t is None else t.detach()
                for o, t in zip(trial.outputs, pushed, strict=True)
            ]
            missing = all(t is None for t in pushed)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise NotApplicable(f"forward mode is refused: {first}") from error
    return None if missing else flat(found)
