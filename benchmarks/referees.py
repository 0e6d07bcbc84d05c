"""The referees, asked in the same way: backproof.check, torch's gradcheck and opcheck.

A verdict is a word. backproof's own are pass, wrong, crashed, surrogate and
inconclusive; those of torch are pass and alarm, and opcheck's `not applicable` where
there is no custom operator. Added to all: `refused` (will not check this, and says
why), `raised` (the referee itself failed), `timeout`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from running import Row, TimeLimit, time_limit

import backproof
from backproof import dispatcher
from backproof.errors import BadInput
from backproof.records import Judgement, Severity, Status

GRADIENT_LAWS = (
    *("BP101", "BP104", "BP106", "BP107", "BP108", "BP109", "BP110"),
    *("BP501", "BP502"),
)
"""Of the gradient at the given inputs alone, which is what gradcheck looks at too."""

CONVICTS = ("wrong", "crashed", "surrogate")
"""The verdicts of backproof that say: this gradient is not forward's derivative."""


@dataclass(frozen=True)
class Answer:
    """What a referee said, and what it cost.

    Ours only: `resolution`, the `codes` of errors, and the `judgement` they are from.
    """

    verdict: str
    words: str = ""
    seconds: float = 0.0
    forwards: int = 0
    backwards: int = 0
    resolution: float = math.inf
    codes: tuple[str, ...] = ()
    judgement: Judgement | None = field(default=None, repr=False)

    @property
    def convicts(self) -> bool:
        """Whether a user would go looking for a fault."""
        return self.verdict in CONVICTS or self.verdict == "alarm"

    def row(self, prefix: str) -> Row:
        """The fields under names of their own, for a line of JSON."""
        fields = asdict(replace(self, judgement=None))
        del fields["judgement"]
        return {f"{prefix}_{key}": value for key, value in fields.items()}


def ours(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    laws: Collection[str] | None = GRADIENT_LAWS,
    seed: int = 0,
    limit: float = 60.0,
    **options: Any,
) -> Answer:
    """`backproof.check`, asking the laws that gradcheck asks too; all where None."""
    start = time.process_time()
    try:
        with time_limit(limit):
            report = backproof.check(
                function, *arguments, laws=laws, seed=seed, **options
            )
    except TimeLimit:
        return Answer("timeout", f"over {limit:g} s", time.process_time() - start)
    except BadInput as refusal:
        return Answer("refused", _line(refusal), time.process_time() - start)
    except Exception as failure:  # a referee that raises is a result
        words = f"{type(failure).__name__}: {_line(failure)}"
        return Answer("raised", words, time.process_time() - start)
    seconds = time.process_time() - start
    judgement = report.subjects[0]
    return Answer(
        verdict=str(judgement.verdict),
        words=reason(judgement),
        seconds=seconds,
        forwards=judgement.calls.get("forward", 0),
        backwards=judgement.calls.get("backward", 0),
        resolution=max(judgement.resolution.values(), default=math.inf),
        codes=tuple(
            dict.fromkeys(
                finding.code
                for finding in judgement.findings
                if finding.severity is Severity.ERROR
            )
        ),
        judgement=judgement,
    )


def reason(judgement: Judgement) -> str:
    """The words behind a verdict that is not a pass, on one line."""
    errors = [f for f in judgement.findings if f.severity is Severity.ERROR]
    if errors:
        return _line(f"{errors[0].code} {errors[0].title}: {errors[0].words}")
    undecided = [
        outcome
        for outcome in judgement.outcomes
        if outcome.status in (Status.CRASHED, Status.BROKEN, Status.INCONCLUSIVE)
    ]
    return _line("; ".join(f"{o.code} {o.words}" for o in undecided))


def gradcheck(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    fast: bool,
    limit: float = 60.0,
    nondeterminism: float = 0.0,
    second_order: bool = False,
) -> Answer:
    """`torch.autograd.gradcheck` (or gradgradcheck) at its defaults.

    `nondeterminism` is the `nondet_tol` that PyTorch's own tests allow an operator.
    """
    forwards = 0

    def counted(*tensors: Any) -> Any:
        nonlocal forwards
        forwards += 1
        return function(*tensors)

    check = torch.autograd.gradgradcheck if second_order else torch.autograd.gradcheck
    start = time.process_time()
    verdict, words = "pass", ""
    torch.manual_seed(0)
    try:
        with time_limit(limit):
            check(counted, tuple(arguments), fast_mode=fast, nondet_tol=nondeterminism)
    except TimeLimit:
        verdict, words = "timeout", f"over {limit:g} s"
    except Exception as alarm:  # any failure fails the user's test
        verdict, words = "alarm", f"{type(alarm).__name__}: {_line(alarm)}"
    return Answer(verdict, words, time.process_time() - start, forwards)


def opcheck(operator: Any, arguments: Sequence[Any], *, limit: float = 60.0) -> Answer:
    """`torch.library.opcheck`; its words are the tests that fail."""
    if not dispatcher.is_operator(operator):
        return Answer("not applicable", "no custom operator")
    start = time.process_time()
    verdict, words = "pass", ""
    try:
        with time_limit(limit):
            said = torch.library.opcheck(
                operator, tuple(arguments), raise_exception=False
            )
        words = ", ".join(name for name, result in said.items() if result != "SUCCESS")
        verdict = "alarm" if words else "pass"
    except TimeLimit:
        verdict, words = "timeout", f"over {limit:g} s"
    except Exception as alarm:  # any failure fails the user's test
        verdict, words = "alarm", f"{type(alarm).__name__}: {_line(alarm)}"
    return Answer(verdict, words, time.process_time() - start)


def _line(text: object, limit: int = 240) -> str:
    return " ".join(str(text).split())[:limit]
