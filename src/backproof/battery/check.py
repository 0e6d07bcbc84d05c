"""check(): laws x cases -> a report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from backproof.battery.budget import Budget
from backproof.battery.hearing import Hearing, OnBroken, OnPhase
from backproof.battery.law import Law
from backproof.battery.laws import LAWS
from backproof.battery.table import selected
from backproof.errors import BadInput
from backproof.function_class import off_the_record
from backproof.probe.domain import Domain
from backproof.records import Judgement
from backproof.report import Report
from backproof.report.environment import environment
from backproof.subject import Case, Subject, subject_of
from backproof.trial.random_state import preserved


def check(
    target: Any,
    *arguments: Any,
    expect: Callable[..., Any] | None = None,
    expect_backward: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    noise: float = 0.0,
    name: str | None = None,
    seed: int = 0,
    laws: Collection[str] | None = None,
    contexts: str | Collection[str] | None = None,
    budget: str | float | None = None,
    domains: Mapping[str, Domain] | None = None,
    **keywords: Any,
) -> Report:
    """Check the gradient of one subject on one set of arguments.

    Tensors that require a gradient are the differentiable inputs, and so are the
    parameters of a module. Nothing of the caller's is changed: tensors, `.grad`, random
    states, buffers, grad mode.

    Args:
        target: a `torch.autograd.Function` or `backproof.Function` class, an
            `nn.Module`, a custom operator or any other callable.
        *arguments: what to call it with: tensors, containers of them, anything else.
        expect: a soft function whose derivative is the intended gradient.
        expect_backward: `(cotangent, *arguments) -> one gradient an argument`, the
            intended gradient itself.
        reference: plain code with the same meaning and the same arguments, which
            forward and the gradient are held against.
        noise: the relative distance between equal calls that the subject owns up to.
        name: what the report calls the subject.
        seed: of the directions and cotangents.
        laws: codes of the laws to ask, all of them by default.
        contexts: names of the ways of running it to try, "all" or "none"; by default
            those that torch's own check of an operator tries, for operators only.
        budget: what it may cost, such as `2` or "2s" for seconds, or "500 calls"; the
            laws that find most for a call are asked first.
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
        target,
        name=name,
        expect=expect,
        expect_backward=expect_backward,
        reference=reference,
        noise=noise,
    )
    judgement = judge(
        subject,
        [Case(arguments, keywords, domains=domains or {})],
        seed=seed,
        laws=laws,
        contexts=contexts,
        budget=None if budget is None else Budget.of(budget),
    )
    return Report(environment(torch=str(torch.__version__), seed=seed), (judgement,))


def judge(
    subject: Subject,
    cases: Sequence[Case],
    *,
    seed: int = 0,
    laws: Collection[str] | None = None,
    contexts: str | Collection[str] | None = None,
    budget: Budget | None = None,
    on_phase: OnPhase = lambda phase, code: None,
    on_known: Callable[[Judgement], None] = lambda known: None,
    on_broken: OnBroken = lambda outcome, examination: None,
) -> Judgement:
    """Hand `subject` and each of `cases` to every law, and fold what they say.

    Args:
        subject: the thing under test.
        cases: at least one.
        seed: of the directions and cotangents.
        laws: codes of the laws to ask, all of them by default.
        contexts: names of contexts to run the first case in; those that suit the
            subject by default.
        budget: what it may cost, without an end by default.
        on_phase: told what is about to run ("forward", "backward"), and for which code,
            so that a crash of the process can be named by whoever watches it.
        on_known: told what is known so far, each time that there is more.
        on_broken: told of each broken law, with the examination that broke it.

    Raises:
        BadInput: a case cannot be checked, or a code or a context is not known.
    """
    if not cases:
        raise BadInput(f"{subject.name}: there are no inputs to check it on")
    if seed < 0:
        raise BadInput(f"seed must not be negative, and is {seed}")
    asked, chosen = _asked(laws), selected(contexts, subject)
    hearing = Hearing(
        subject,
        cases,
        seed=seed,
        budget=budget,
        on_phase=on_phase,
        on_broken=on_broken,
    )
    with (
        off_the_record(),
        preserved(),
        torch.inference_mode(mode=False),
        warnings.catch_warnings(),
    ):
        # Of itself torch warns on ways that only the laws take; where warnings are
        # errors they would pass for the subject's refusals.
        warnings.filterwarnings("ignore", module=r"torch(\.|$)")

        def tell() -> None:
            on_known(hearing.judgement())

        hearing.ask(asked, tell)
        if chosen:
            hearing.survey(chosen, tell)
    return hearing.judgement()


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
