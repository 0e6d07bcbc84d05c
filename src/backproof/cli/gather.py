"""Requests -> a report: ask for one place after the other and keep what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backproof.cli.events import Begun, Event, Failed, Judged, Known, Request, Skipped
from backproof.errors import BadInput
from backproof.records import Judgement
from backproof.report import Report, Unchecked
from backproof.report.environment import Environment
from backproof.target import Place, places

Serve = Callable[[Request, Callable[[Event], None]], None]


@dataclass
class Gathered:
    """What is known so far; `known` is that of a subject without its verdict yet."""

    subjects: list[Judgement] = field(default_factory=list)
    skipped: list[Unchecked] = field(default_factory=list)
    failed: list[Unchecked] = field(default_factory=list)
    known: Judgement | None = None
    interrupted: bool = False

    def report(self, environment: Environment) -> Report:
        """The report so far, with the paths below the working directory shortened."""
        return Report(
            environment, tuple(self.subjects), tuple(self.skipped), tuple(self.failed)
        ).relative_to(Path.cwd())

    def take(self, event: Event) -> None:
        """Keep what `event` says."""
        if isinstance(event, (Judged, Failed, Begun)):
            self.known = None
        if isinstance(event, Judged):
            self.subjects.append(event.judgement)
        elif isinstance(event, Known):
            self.known = event.judgement
        elif isinstance(event, Failed):
            self.failed.append(Unchecked(event.target, event.reason))
        elif isinstance(event, Skipped):
            self.skipped.append(Unchecked(event.target, event.reason))


def expand(
    targets: Sequence[str], gathered: Gathered, *, gives: str | None
) -> list[Place]:
    """The places that `targets` mean; what cannot be found is kept as failed."""
    found: list[Place] = []
    for target in targets:
        try:
            more, skipped = places(target, gives=gives)
        except BadInput as error:
            gathered.failed.append(Unchecked(target, str(error)))
            continue
        found += more
        gathered.skipped += skipped
    return found


def gather(
    requests: Sequence[Request],
    serve: Serve,
    gathered: Gathered,
    on_event: Callable[[Event], None] = lambda event: None,
) -> None:
    """Serve `requests` in turn; Ctrl-C ends it with what is known by then."""

    def take(event: Event) -> None:
        gathered.take(event)
        on_event(event)

    for k, request in enumerate(requests):
        try:
            serve(request, take)
        except KeyboardInterrupt:
            gathered.interrupted = True
            if gathered.known is not None and gathered.known.verdict.stands:
                gathered.subjects.append(gathered.known)
            left = [one.place.text for one in requests[k:]]
            gathered.failed += [Unchecked(target, "interrupted") for target in left]
            return
