"""check(): laws x cases -> a report."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from backproof import codes
from backproof.battery.examination import Examination
from backproof.battery.law import Law
from backproof.battery.laws import LAWS
from backproof.battery.trial import Trial
from backproof.battery.trial.random_state import preserved
from backproof.errors import BadInput
from backproof.probe.domain import Domain
from backproof.records import (
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from backproof.report import Report
from backproof.report.environment import environment
from backproof.subject import Case, Subject, subject_of

_DECIDING = ("BP101", "BP107")
_SURROGATE = "BP106"
_NOTES = ("BP108",)


def check(
    target: Any,
    *arguments: Any,
    expect: Callable[..., Any] | None = None,
    expect_backward: Callable[..., Any] | None = None,
    name: str | None = None,
    seed: int = 0,
    laws: Collection[str] | None = None,
    domains: Mapping[str, Domain] | None = None,
    **keywords: Any,
) -> Report:
    """Check the gradient of one subject on one set of arguments.

    Tensors that require a gradient are the differentiable inputs, and so are the
    parameters of a module. Nothing of the caller's is changed: tensors, `.grad`, random
    states, buffers, grad mode.

    Args:
        target: a `torch.autograd.Function` class, an `nn.Module` or any callable.
        *arguments: what to call it with: tensors, containers of them, anything else.
        expect: a soft function whose derivative is the intended gradient.
        expect_backward: `(cotangent, *arguments) -> one gradient an argument`, the
            intended gradient itself.
        name: what the report calls the subject.
        seed: of the directions and cotangents.
        laws: codes of the laws to ask, all of them by default.
        domains: where inputs may go while they are probed, by name.
        **keywords: keyword arguments of the call.

    Returns:
        A report with one subject.

    Raises:
        BadInput: it cannot be checked; the message says why and what to do.

    Example:
        >>> import backproof, torch
        >>> x = torch.randn(100, requires_grad=True)
        >>> backproof.check(torch.tanh, x).verdict.value
        'pass'
    """
    subject = subject_of(
        target, name=name, expect=expect, expect_backward=expect_backward
    )
    case = Case(arguments, keywords, domains=domains or {})
    judgement = judge(subject, [case], seed=seed, laws=laws)
    return Report(environment(torch=str(torch.__version__), seed=seed), (judgement,))


def judge(
    subject: Subject,
    cases: Sequence[Case],
    *,
    seed: int = 0,
    laws: Collection[str] | None = None,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> Judgement:
    """Hand `subject` and each of `cases` to every law, and fold what they say.

    Args:
        subject: the thing under test.
        cases: at least one.
        seed: of the directions and cotangents.
        laws: codes of the laws to ask, all of them by default.
        on_phase: told what is about to run ("forward", "backward"), so that a crash of
            the process can be named by whoever watches it.

    Raises:
        BadInput: a case cannot be checked, or a code is not known.
    """
    if not cases:
        raise BadInput(f"{subject.name}: there are no inputs to check it on")
    if seed < 0:
        raise BadInput(f"seed must not be negative, and is {seed}")
    asked = _asked(laws)
    outcomes: list[Outcome] = []
    resolution: dict[str, float] = {}
    calls: dict[str, int] = {}
    with preserved(), torch.inference_mode(mode=False):
        for case in cases:
            trial = Trial(subject, case, seed=seed, on_phase=on_phase)
            examination = Examination(trial, seed=seed)
            outcomes += _ask(examination, asked)
            for key, count in examination.num_calls.items():
                calls[key] = calls.get(key, 0) + count
            for key, value in resolutions(examination).items():
                resolution[key] = max(value, resolution.get(key, 0.0))
    where = subject.where
    return Judgement(
        name=subject.name,
        file=where.file if where else "",
        line=where.line if where else None,
        verdict=fold_verdict(outcomes),
        resolution=resolution,
        calls=calls,
        outcomes=tuple(outcomes),
        findings=tuple(_findings(subject, outcomes)),
    )


def fold_verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """The verdict over all laws and cases; notes never count."""
    counted = [o for o in outcomes if o.code not in _NOTES]
    status = [o.status for o in counted]
    if Status.CRASHED in status:
        return Verdict.CRASHED
    broken = {o.code for o in counted if o.status is Status.BROKEN}
    if broken - {_SURROGATE}:
        return Verdict.WRONG
    if broken:
        return Verdict.SURROGATE
    deciding = [o.status for o in counted if o.code in _DECIDING]
    if Status.INCONCLUSIVE in deciding:
        return Verdict.INCONCLUSIVE
    return Verdict.PASS if Status.HELD in status else Verdict.INCONCLUSIVE


def resolutions(examination: Examination) -> dict[str, float]:
    """For each input, the smallest relative error of its gradient that shows."""
    trial = examination.trial
    found = None if trial.subject.declared else examination.concluded
    if found is None:
        return {}
    conclusion, look = found.decided_by, found.decided_by.look
    if look is None:
        return {}
    inquiry = examination.inquiry
    out = {}
    for k, i in enumerate(trial.inputs):
        alone = conclusion.inputs.get(i.name)
        if alone is not None:
            seen = alone.comparison
            out[i.name] = seen.bar / seen.size if seen.size else seen.resolution
        elif len(trial.inputs) == 1:
            out[i.name] = look.resolution
        else:
            out[i.name] = inquiry.resolution_of(k, look)
        if i.name in found.witnessed:
            out[i.name] = found.witnessed[i.name]
        if found.departure is not None:
            out[i.name] = max(out[i.name], found.departure)
    return out


def _asked(laws: Collection[str] | None) -> list[Law]:
    if laws is None:
        return list(LAWS)
    known = {one.code for one in LAWS}
    for code in laws:
        if code not in known:
            raise BadInput(
                f"there is no law {code!r} to ask; known: {', '.join(sorted(known))}"
            )
    return [one for one in LAWS if one.code in laws]


def _ask(examination: Examination, laws: Sequence[Law]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for one in laws:
        outcome = one(examination)
        outcomes.append(outcome)
        if outcome.status is Status.CRASHED:
            break
        if examination.backward_raised() is not None and one.code == "BP502":
            break  # nothing else can be measured without a gradient
    return outcomes


def _findings(subject: Subject, outcomes: Sequence[Outcome]) -> list[Finding]:
    found: list[Finding] = []
    for outcome in outcomes:
        note = outcome.code in _NOTES
        wanted = (Status.HELD,) if note else (Status.BROKEN, Status.CRASHED)
        if outcome.status not in wanted:
            continue
        page = codes.page(outcome.code)
        for evidence in outcome.evidence:
            if evidence.holds is not note:
                continue
            title, _, rest = evidence.words.partition("\n")
            severity = Severity.NOTE if note else Severity.ERROR
            finding = Finding(
                outcome.code, severity, title, rest, _backward_of(subject), page.remedy
            )
            if all(f.title != title or f.code != outcome.code for f in found):
                found.append(finding)
    return found


def _backward_of(subject: Subject) -> Location | None:
    """Where the subject's backward is written, its own place otherwise."""
    if subject.definition is None:
        return subject.where
    try:
        backward = inspect.unwrap(subject.definition.backward)
        file = inspect.getsourcefile(backward)
        line = inspect.getsourcelines(backward)[1]
    except (OSError, TypeError):
        return subject.where
    return Location(file, line) if file else subject.where
