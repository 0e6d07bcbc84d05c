"""check(): laws x cases -> a report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from backproof.probe.domain import Domain
from backproof.records import Judgement
from backproof.report import Report
from backproof.subject import Case, Subject


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
    """Check one subject on one set of arguments."""
    raise NotImplementedError


def judge(
    subject: Subject,
    cases: Sequence[Case],
    *,
    seed: int = 0,
    laws: Collection[str] | None = None,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> Judgement:
    """Hand `subject` and each of `cases` to every law, and fold what they say.

    `on_phase` is told what is about to run ("forward", "backward"), so that a crash of
    the process can be named by whoever watches it.
    """
    raise NotImplementedError
