"""One kept call before the laws: what is judged, what is set aside, what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from backproof.audit.ledger import KeptCall, Ledger
from backproof.audit.replay import (
    CannotReplay,
    Replay,
    default_dtype,
    has_objects,
    is_connected_elsewhere,
)
from backproof.battery.budget import Budget
from backproof.battery.check import judge
from backproof.battery.verdict import GRADIENT
from backproof.probe import Domain
from backproof.records import Judgement, Status, Verdict
from backproof.subject import Case
from backproof.trial import Trial

_UNREAD = (
    "`{}` was not judged: forward does not read it, its gradient is that of a tensor "
    "that an argument holds"
)
_SYMMETRIC = (
    "`{}` was symmetric in every recorded call, and its gradient is right along "
    "symmetric directions only"
)
_UNGRADED = (
    "judged on a call that needed no gradient, as if those inputs had to which backward "
    "gives one"
)
_NOT_IMPLEMENTED = "NotImplementedError"


@dataclass
class Known:
    """What is known about one Function.

    Attributes:
        judgements: one for each call, and for each group of laws.
        reasons: why calls were not judged.
        notes: what the verdict rests on, a sentence each.
        domains: inputs that are judged along symmetric directions alone.
        linked: whether objects among the arguments hold others of them, so that laws
            which vary one alone have nothing to say.
    """

    judgements: list[Judgement] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    domains: Mapping[str, Domain] = field(default_factory=dict)
    linked: bool = False

    def note(self, words: str) -> None:
        """Say it once."""
        if words not in self.notes:
            self.notes.append(words)


def judged(
    ledger: Ledger,
    call: KeptCall,
    laws: Sequence[str],
    known: Known,
    *,
    budget: Budget,
    seed: int,
    on_phase: Callable[[str, str], None],
) -> Judgement:
    """The judgement of a call before some laws; what it rests on is noted in `known`.

    Raises:
        BadInput: it cannot be checked.
        CannotReplay: it cannot be made again, or refuses to be differentiated.
    """
    replay = Replay(ledger, call)

    def hear(case: Case) -> Judgement:
        return judge(
            replay.subject,
            [case],
            seed=seed,
            laws=laws,
            contexts="none",
            budget=budget,
            on_phase=on_phase,
        )

    with default_dtype(call.default_dtype):
        trial, case = _prepared(replay, ledger, call, known, seed, on_phase)
        found = hear(case)
        if not _is_right(found) and not known.domains:
            domains = replay.symmetric(trial, case, [call, *ledger.kept])
            along = domains and hear(dataclasses.replace(case, domains=domains))
            if along and along.verdict is Verdict.PASS:
                found, known.domains = along, domains
                for name in domains:
                    known.note(_SYMMETRIC.format(name))
    _refuse(found, call)
    return found


def _prepared(
    replay: Replay,
    ledger: Ledger,
    call: KeptCall,
    known: Known,
    seed: int,
    on_phase: Callable[[str, str], None],
) -> tuple[Trial, Case]:
    """The call with the inputs that can be judged."""
    on_phase("forward", GRADIENT)
    with torch.inference_mode(mode=False):
        trial = Trial(replay.subject, replay.case, seed=seed)
        case, unread = replay.read(trial)
        if call is ledger.ungraded:
            case = replay.given(trial)
            known.note(_UNGRADED)
    for name in unread:
        known.note(_UNREAD.format(name))
    known.linked = replay.is_linked or bool(unread)
    if known.domains:
        case = dataclasses.replace(case, domains=known.domains)
    return trial, case


def _is_right(judgement: Judgement) -> bool:
    """Whether nothing is said against the gradient itself."""
    outcome = judgement.outcome(GRADIENT)
    doubtful = (Status.BROKEN, Status.INCONCLUSIVE)
    return outcome is None or outcome.status not in doubtful


def _refuse(judgement: Judgement, call: KeptCall) -> None:
    """Take nothing for a fault that is a refusal, or comes of the replay.

    Raises:
        CannotReplay: with what it is.
    """
    outcome = judgement.outcome(GRADIENT)
    broken = outcome is not None and outcome.status is Status.BROKEN
    if broken and is_connected_elsewhere(call):
        raise CannotReplay(
            "an argument holds tensors that the program computes from other inputs, and "
            "a replay moves the inputs alone"
        )
    if judgement.verdict is not Verdict.CRASHED:
        return
    words = next(
        (o.words for o in judgement.outcomes if o.status is Status.CRASHED), ""
    )
    what = words.partition("\n")[2] or words
    if _NOT_IMPLEMENTED in words:
        raise CannotReplay(f"it refuses a gradient: {what}")
    if has_objects(call):
        raise CannotReplay(
            "an argument holds tensors that a replay could not connect with the "
            f"others: {what}"
        )
