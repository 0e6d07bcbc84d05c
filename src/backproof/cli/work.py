"""Serve one request: load the place, judge its subjects, say what happens.

This runs in a worker process, or in the command's own with `--no-isolate`.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable
from pathlib import Path

from backproof.battery.budget import Budget
from backproof.battery.check import judge
from backproof.battery.examination import Examination
from backproof.cli import crash
from backproof.cli.events import (
    Begun,
    Done,
    Drafted,
    Event,
    Failed,
    Judged,
    Known,
    Phase,
    Request,
    Skipped,
)
from backproof.errors import BadInput
from backproof.records import Judgement, Outcome
from backproof.repro.drafts import Drafts
from backproof.repro.origin import Origin
from backproof.subject import Case
from backproof.target.importing import folder_of, on_path
from backproof.target.loading import Candidate, Options, load
from backproof.trial.random_state import restart

_COMPILED = "BP4"  # codes of compilers and exporters
_PATIENCE = 5.0  # times as long as a call may take

Emit = Callable[[Event], None]


def serve(request: Request, emit: Emit) -> None:
    """Judge every subject of `request`, from number `request.start` on."""
    place = request.place
    options = Options(
        request.inputs,
        request.inputs_from,
        request.expect,
        request.reference,
        request.seed,
    )
    emit(Phase("import"))
    restart(request.seed)  # a file may draw at import what its inputs are made of
    try:
        loaded = load(place, options)
    except BadInput as error:
        emit(Failed(place.text, str(error)))
        emit(Done())
        return
    if request.start == 0:
        for target, reason in loaded.skipped:
            emit(Skipped(target, reason))
    drafts = Drafts(request.drafts) if request.repro else None
    with on_path(folder_of(place)):  # a function may import when it is called
        for index, candidate in enumerate(loaded.candidates):
            if index >= request.start:
                emit(_begun(index, len(loaded.candidates), candidate))
                emit(_judged(candidate, request, emit, drafts))
    emit(Done())


def _judged(
    candidate: Candidate, request: Request, emit: Emit, drafts: Drafts | None
) -> Event:
    phase, known = "inputs", None

    def keep(judgement: Judgement) -> None:
        nonlocal known
        known = judgement
        emit(Known(judgement))

    def enter(name: str, code: str = "") -> None:
        nonlocal phase
        phase = name
        slow = code.startswith(_COMPILED) and name.startswith("context ")
        emit(Phase(name, code, _PATIENCE if slow else 1.0))

    def write(outcome: Outcome, examination: Examination) -> None:
        if drafts is not None:
            origin = _origin(candidate, request)
            for one in drafts.take(outcome, examination, origin):
                emit(Drafted(**dataclasses.asdict(one)))

    try:
        enter("inputs")
        restart(request.seed)
        cases = _cases(candidate)
        judgement = judge(
            candidate.subject,
            cases,
            seed=request.seed,
            laws=request.laws,
            contexts=request.contexts,
            budget=None if request.budget is None else Budget.of(request.budget),
            on_phase=enter,
            on_known=keep,
            on_broken=write,
        )
    except BadInput as error:
        if known is not None and known.verdict.stands:
            emit(Judged(known))  # a later case that cannot run takes nothing back
        return Failed(candidate.target, str(error))
    except Exception:
        return Failed(candidate.target, _our_own_fault(phase))
    return Judged(judgement)


def _origin(candidate: Candidate, request: Request) -> Origin:
    place = request.place
    return Origin(
        place,
        place.name or candidate.target.removeprefix(f"{place.text}::"),
        Path(request.repro),
        request.seed,
        request.expect,
        request.reference,
    )


def _cases(candidate: Candidate) -> list[Case]:
    try:
        return candidate.cases()
    except SystemExit as error:
        how = crash.Death(f"called sys.exit({error.code!r})")
        raise BadInput(crash.failure(Phase("inputs"), how)) from error


def _begun(index: int, count: int, candidate: Candidate) -> Begun:
    where = candidate.subject.where
    return Begun(
        index,
        count,
        candidate.target,
        candidate.subject.name,
        where.file if where else "",
        where.line if where else None,
    )


def _our_own_fault(phase: str) -> str:
    return (
        f"backproof itself failed after the {phase} call; this is a defect of "
        f"backproof, please report it:\n{traceback.format_exc().rstrip()}"
    )
