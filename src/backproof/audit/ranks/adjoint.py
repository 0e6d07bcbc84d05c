"""BP801: over all ranks, backward is the adjoint of forward's derivative.

    sum over ranks of <backward(u), v>  =  d/dt sum over ranks of <u, f(x + t v)>

The referee and the inquiry are those of BP101: `stage` shows them one Function of all
ranks. Asked under the likeliest convention first; where that fails, under the others
that what was observed leaves open. Runs on rank 0 alone, and the others serve.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from backproof.audit.ledger import Ledger
from backproof.audit.ranks.circle import Apart, Circle, ranks_in_words
from backproof.audit.ranks.convention import Convention, Possible, Sharing
from backproof.audit.ranks.part import Parts, Side
from backproof.audit.ranks.stage import Stage, parsed
from backproof.battery.code import code_of
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Inquiry
from backproof.battery.inquiry.base import clean
from backproof.battery.inquiry.float64_stage import wide_inquiry
from backproof.battery.inquiry.look import Look, OutsideDomain, Sight
from backproof.battery.laws.gradient import gradient
from backproof.battery.resolution import resolutions
from backproof.codes import page
from backproof.errors import BadInput
from backproof.function_class import own_backward
from backproof.probe import Estimate
from backproof.records import (
    Evidence,
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Verdict,
    broken,
    held,
    undecided,
)
from backproof.source import gradient_place
from backproof.subject import Case, Subject, subject_of
from backproof.trial import BackwardRaised, Refused, Trial

CODE = "BP801"
HOLDS = "holds across {} ranks with {}"
"""What a pass says of the convention."""

_MOST_CLAIMANTS = 8  # ranks whose claim for one tensor is judged, where claims differ
_MOST_ELEMENTS = 2**26  # of all ranks' inputs together: rank 0 has them all
_VERDICTS = {Status.HELD: Verdict.PASS, Status.BROKEN: Verdict.WRONG}


@dataclass(frozen=True)
class _Claim:
    """What one rank claims of one input, or of all, that is not so."""

    ranks: tuple[int, ...]
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class _Mend:
    """What is usually forgotten: how it shows, what to do, and the gradients then."""

    title: str
    remedy: str
    apply: Callable[
        [list[Tensor | None], Sequence[tuple[int, ...]]], list[Tensor | None]
    ]


@dataclass
class _Heard:
    """The law under one convention."""

    convention: Convention
    status: Status
    evidence: tuple[Evidence, ...] = ()
    wrong: dict[str, list[_Claim]] = field(default_factory=dict)
    mend: _Mend | None = None
    resolution: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)


class Adjoint:
    """One call on all ranks before the law.

    Args:
        circle: the ranks.
        parts: this rank's own.
        ledger: the Function.
        label: what reports call the call.
        sides: what each rank says of its part.
        seed: of directions and cotangents.
    """

    def __init__(
        self,
        circle: Circle,
        parts: Parts,
        ledger: Ledger,
        label: str,
        sides: Sequence[Side],
        seed: int,
    ) -> None:
        self._circle, self._parts = circle, parts
        self._ledger, self._label, self._seed = ledger, label, seed
        self._sides = sides
        self._connected: Sharing = ()

    def judgement(self, possible: Possible) -> Judgement:
        """Whether it holds, and in which convention; what is wrong, and what to do.

        Raises:
            Apart: the ranks have lost one another.
            BadInput: the call cannot be judged.
        """
        self._refuse()
        self._connected = possible.parts
        conventions = possible.conventions()
        for convention in conventions:
            if self._rejects(convention) is False:
                heard = self._hear(convention)
                if heard is not None and heard.status is not Status.BROKEN:
                    return self._settled(heard)
        heard = self._hear(conventions[0])
        if heard is None:
            words = "outputs that ranks had in common differ when inputs are moved"
            return self._judgement(Status.INCONCLUSIVE, (undecided(words),))
        if heard.status is not Status.BROKEN:
            return self._settled(heard)
        other = possible.with_own(heard.convention, list(heard.wrong))
        if other not in conventions and self._rejects(other) is False:
            again = self._hear(other)
            if again is not None and again.status is not Status.BROKEN:
                return self._settled(again)
        return self._supposed(possible, heard) or self._broken(
            possible, heard, conventions[1:]
        )

    def _refuse(self) -> None:
        first = self._sides[0]
        if any(
            side.inputs != first.inputs or side.outputs != first.outputs
            for side in self._sides
        ):
            raise BadInput("ranks gave it different arguments to differentiate")
        elements = sum(t.numel() for side in self._sides for t in side.values)
        if elements > _MOST_ELEMENTS:
            raise BadInput(
                f"its inputs on all ranks have {elements:,} elements together, and "
                f"{_MOST_ELEMENTS:,} can be judged; audit it at a smaller size"
            )

    # ------------------------------------------------------------------ hearing

    def _rejects(self, convention: Convention) -> bool | None:
        """Whether one look is against it; None where it does not fit what is seen."""
        stage = self._stage(convention)
        look = self._look(stage)
        if stage.unlike or look is None:
            return None
        return look.sight is Sight.WRONG

    def _look(self, stage: Stage) -> Look | None:
        """One look at one rank's claims, in float64 where that runs."""
        try:
            with torch.inference_mode(mode=False):
                trial = self._trial(stage)
                inquiry = Inquiry(trial, seed=self._seed)
                wide = wide_inquiry(trial, inquiry, seed=self._seed)
                return (wide or inquiry).observer.look()
        except (BackwardRaised, OutsideDomain, Refused):
            return None
        finally:
            self._together()

    def _hear(self, convention: Convention) -> _Heard | None:
        """The law under one convention; None where it does not fit what is seen.

        Where ranks claim different gradients for one tensor, each claim is judged.
        """
        shared = max(len(h) for sharing in convention.inputs.values() for h in sharing)
        heard = _Heard(convention, Status.HELD)
        for claimant in range(min(shared, _MOST_CLAIMANTS)):
            stage = self._stage(convention, claimant)
            if heard.status is Status.BROKEN:
                _note_further(self._look(stage), claimant, convention, heard)
            else:
                self._ask(stage, claimant, heard)
            if stage.unlike:
                return None
            if not stage.claims_differ:
                break
        return heard

    def _stage(self, convention: Convention, claimant: int = 0) -> Stage:
        return Stage(
            self._circle, self._parts, self._sides, convention, claimant=claimant
        )

    def _trial(self, stage: Stage) -> Trial:
        subject = Subject(stage.call, self._ledger.identity.name)
        case = Case((), stage.inputs, label=self._label)
        return Trial(subject, case, seed=self._seed)

    def _ask(self, stage: Stage, claimant: int, heard: _Heard) -> None:
        try:
            with torch.inference_mode(mode=False):
                examination = Examination(self._trial(stage), seed=self._seed)
                outcome = gradient(examination)
                for evidence in outcome.evidence:
                    if evidence.holds is False:
                        _note_claim(evidence, claimant, stage, heard)
                if outcome.status is Status.BROKEN:
                    heard.mend = _mend(examination, stage, heard, self._connected)
        except BadInput as error:
            self._together()
            name = self._ledger.identity.name
            raise BadInput(str(error).removeprefix(f"{name}: ")) from error
        self._together()
        heard.evidence += outcome.evidence
        heard.status = _worse(heard.status, outcome.status)
        for label, seen in resolutions(examination).items():
            name = parsed(label)[0]
            heard.resolution[name] = max(seen, heard.resolution.get(name, 0.0))
        for kind, number in examination.num_calls.items():
            heard.calls[kind] = heard.calls.get(kind, 0) + number

    def _together(self) -> None:
        """What came up while ranks were lost is no evidence."""
        if self._circle.broken:
            raise Apart(self._circle.broken)

    # ----------------------------------------------------------------- judgements

    def _settled(self, heard: _Heard) -> Judgement:
        """That it holds, or why it cannot be said."""
        if heard.status is Status.HELD:
            words = HOLDS.format(self._circle.size, heard.convention)
            numbers = dict(heard.evidence[0].numbers) if heard.evidence else {}
            return self._judgement(Status.HELD, (held(words, numbers),), heard)
        found = [e for e in heard.evidence if e.holds is None] or list(heard.evidence)
        words = f"with {heard.convention}: {found[0].words}"
        if heard.status is Status.CRASHED:
            words = found[0].words.replace("\n", ": ")
        return self._judgement(Status.INCONCLUSIVE, (undecided(words),), heard)

    def _supposed(self, possible: Possible, heard: _Heard) -> Judgement | None:
        """Whether it would be right if inputs were the same on all ranks."""
        loose = [
            name
            for name in heard.wrong
            if name
            and name not in possible.parameters
            and heard.convention.inputs[name] != possible.parts
            and self._fits(name, possible)
        ]
        if not loose:
            return None
        names = ", ".join(f"`{name}`" for name in loose)
        for convention in possible.conventions():
            other = possible.supposing(convention, loose)
            if self._rejects(other) is False:
                words = (
                    f"right with {other}, but {names} was not the same on all ranks in "
                    f"{self._label}: what comes before it went apart"
                )
                return self._judgement(Status.INCONCLUSIVE, (undecided(words),), heard)
        return None

    def _fits(self, name: str, possible: Possible) -> bool:
        """Whether an input has one shape on the ranks that communicate."""
        place = self._sides[0].inputs.index(name)
        return all(
            len({self._sides[rank].values[place].shape for rank in part}) == 1
            for part in possible.parts
        )

    def _broken(
        self, possible: Possible, heard: _Heard, others: Sequence[Convention]
    ) -> Judgement:
        size = max(len(part) for part in possible.parts)
        evidence = []
        for name, claims in heard.wrong.items():
            of = f" of `{name}`" if name else ""
            title = f"the gradient{of} is not that of all ranks together"
            remedy = page(CODE).remedy
            if heard.mend is not None:
                title = heard.mend.title.format(of=of, size=size)
                remedy = heard.mend.remedy.format(of=of)
            lines = [title, *_lines(claims), f"with {heard.convention}"]
            if others:
                lines.append(f"nor does it hold with {'; '.join(map(str, others))}")
            worst = max(claims, key=lambda claim: claim.numbers["relative_error"])
            evidence.append(
                broken(
                    "\n".join(lines),
                    {**worst.numbers, "input": name},
                    where=place_of(self._ledger, name),
                    remedy=remedy,
                )
            )
        return self._judgement(Status.BROKEN, tuple(evidence), heard)

    def _judgement(
        self,
        status: Status,
        evidence: tuple[Evidence, ...],
        heard: _Heard | None = None,
    ) -> Judgement:
        return judgement_of(
            self._ledger,
            Outcome(CODE, page(CODE).title, self._label, status, evidence),
            resolution=heard.resolution if heard is not None else {},
            calls=heard.calls if heard is not None else {},
        )


def judgement_of(
    ledger: Ledger,
    outcome: Outcome,
    *,
    resolution: Mapping[str, float] | None = None,
    calls: Mapping[str, int] | None = None,
) -> Judgement:
    """The judgement that one outcome of the law makes."""
    file, line = ledger.place
    found = []
    for evidence in outcome.evidence:
        if evidence.holds is False:
            title, _, words = evidence.words.partition("\n")
            where, remedy = evidence.where, evidence.remedy
            found.append(
                Finding(outcome.code, Severity.ERROR, title, words, where, remedy)
            )
    return Judgement(
        ledger.identity.name,
        file,
        line,
        _VERDICTS.get(outcome.status, Verdict.INCONCLUSIVE),
        resolution=resolution or {},
        calls=calls or {},
        outcomes=(outcome,),
        findings=tuple(found),
    )


def place_of(ledger: Ledger, name: str) -> Location | None:
    """Where backward makes the gradient of an input, its `def` otherwise."""
    code = code_of(own_backward(ledger.written))
    if code is None:
        return ledger.where
    names = subject_of(ledger.written).parameter_names()
    if name in names:
        place = gradient_place(code.method, names.index(name))
        if place is not None:
            return code.at(place)
    returns = code.method.returns
    return code.at_line(returns[0].line) if len(returns) == 1 else code.head


def _note_claim(evidence: Evidence, claimant: int, stage: Stage, heard: _Heard) -> None:
    """Under the input's own name, with the ranks that claim it."""
    numbers = {
        key: float(value)
        for key, value in evidence.numbers.items()
        if isinstance(value, (int, float))
    }
    given = evidence.numbers.get("input")
    if not isinstance(given, str):
        every = tuple(range(len(stage.sides)))
        heard.wrong.setdefault("", []).append(_Claim(every, numbers))
        return
    name, holders = parsed(given)
    ranks = holders
    if stage.claims_differ and len(holders) > 1:
        ranks = (holders[claimant % len(holders)],)
    claims = heard.wrong.setdefault(name, [])
    if all(claim.ranks != ranks for claim in claims):
        claims.append(_Claim(ranks, numbers))


def _note_further(
    look: Look | None, claimant: int, convention: Convention, heard: _Heard
) -> None:
    """What another rank claims of the inputs that are wrong already."""
    if look is None or not look.rejections:
        return
    worst = max(look.rejections, key=lambda one: abs(one.error) / max(one.bar, 1e-300))
    unit = worst.relative_step
    numbers = {
        "claim": worst.claim.value / unit,
        "truth": worst.truth.value / unit,
        "bar": worst.bar / unit,
        "relative_error": abs(worst.error) / max(worst.size, worst.null, 1e-300),
    }
    for name, claims in heard.wrong.items():
        for holders in convention.inputs.get(name, ()):
            if len(holders) > claimant:
                claims.append(_Claim((holders[claimant],), numbers))


def _lines(claims: Sequence[_Claim]) -> list[str]:
    lines = []
    for claim in sorted(claims, key=lambda one: one.ranks):
        numbers = claim.numbers
        if "claim" not in numbers:
            continue
        truth = Estimate(numbers["truth"], numbers["bar"])
        who = ranks_in_words(list(claim.ranks))
        lines += [
            f"{who}: backward claims {numbers['claim']:.6g}, forward moves by {truth}"
        ]
    return lines


def _worse(one: Status, other: Status) -> Status:
    order = [Status.BROKEN, Status.CRASHED, Status.INCONCLUSIVE, Status.NOT_APPLICABLE]
    found = [status for status in order if status in (one, other)]
    return found[0] if found else one


# ----------------------------------------------------------------------------- mends


def _mend(
    examination: Examination, stage: Stage, heard: _Heard, parts: Sharing
) -> _Mend | None:
    """The first remedy with which no comparison of the look is against the claims.

    Costs two backwards for each.
    """
    found = examination.gradient
    inquiry = examination.inquiry if found.native is not None else examination.wide
    look = found.decided_by.look
    if look is None or inquiry is None:
        return None
    observer = inquiry.observer
    stage.mended = [name for name in heard.wrong if name] or list(stage.sides[0].inputs)
    try:
        for one in _MENDS:
            stage.mend = lambda gradients, one=one: one.apply(gradients, parts)
            gradients = [
                clean(observer.trial.pull(observer.graph, u)) for u in look.cotangents
            ]
            ladders, response = look.ladders, look.response
            compared = observer.compare(ladders, response, look.cotangents, gradients)
            if not any(comparison.rejects for comparison in compared):
                return one
    except BackwardRaised:
        return None
    finally:
        stage.mend = None
    return None


def _summed(
    gradients: list[Tensor | None], parts: Sequence[tuple[int, ...]]
) -> list[Tensor | None]:
    out = list(gradients)
    for part in parts:
        given = [g for rank in part if (g := gradients[rank]) is not None]
        if len(given) == len(part) and len({g.shape for g in given}) == 1:
            for rank in part:
                out[rank] = functools.reduce(torch.add, given)
    return out


def _scaled(
    gradients: list[Tensor | None], parts: Sequence[tuple[int, ...]], power: int
) -> list[Tensor | None]:
    out = list(gradients)
    for part in parts:
        for rank in part:
            one = gradients[rank]
            out[rank] = None if one is None else one * float(len(part)) ** power
    return out


_AVERAGED = "; where gradients are averaged over ranks afterwards, that is done there"
_MENDS = (
    _Mend(
        "the gradient{of} is too small by the number of ranks, {size}",
        f"Leave out the division by the number of ranks{_AVERAGED}.",
        functools.partial(_scaled, power=1),
    ),
    _Mend(
        "the gradient{of} is too large by the number of ranks, {size}",
        f"Leave out an all-reduce, or the multiplication by that number{_AVERAGED}.",
        functools.partial(_scaled, power=-1),
    ),
    _Mend(
        "the gradient{of} lacks what the other ranks have of it",
        "All-reduce (sum) the gradient{of} in backward.",
        _summed,
    ),
)
