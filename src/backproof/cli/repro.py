"""`--repro FILE`: where drafts go, which of them is kept, and what is said of it."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from backproof.cli.events import Drafted, Event, Request
from backproof.cli.gather import Serve
from backproof.errors import BadInput
from backproof.report import Report
from backproof.report.files import require_writable
from backproof.repro.proof import failing, is_ours, keep

_TOLD = 3  # reasons, where there are more


class Repro:
    """The script that was asked for, and the drafts on the way to it.

    A context manager, which leaves no draft behind.
    """

    def __init__(self, script: Path) -> None:
        """Nothing is written yet.

        Raises:
            BadInput: it cannot be written, or would take the place of something else.
        """
        require_writable(script, "--repro")
        if script.suffix != ".py":
            raise BadInput(f"--repro {script}: the name of a script ends in .py")
        for path in (script, script.with_suffix(".pt")):
            if path.exists() and not is_ours(script):
                raise BadInput(
                    f"--repro {script}: there is a {path}, which was not written by "
                    "this option; give another name, or remove it"
                )
        self._script = script
        self._drafts: list[Drafted] = []
        self._folder = script.resolve().parent
        self._prefix = f".{script.stem}.{secrets.token_hex(4)}."

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._folder.glob(f"{self._prefix}*"):
            with suppress(FileNotFoundError):
                path.unlink()

    def around(self, serve: Serve) -> Serve:
        """`serve` with drafts asked for, until there is a subject that is wrong."""

        def serving(request: Request, emit: Callable[[Event], None]) -> None:
            def told(event: Event) -> None:
                if isinstance(event, Drafted):
                    self._take(event)
                emit(event)

            if not self._drafts:
                script = str(self._script.resolve())
                drafts = str(self._folder / self._prefix)
                request = dataclasses.replace(request, repro=script, drafts=drafts)
            serve(request, told)

        return serving

    def settle(self, report: Report) -> str:
        """Prove the drafts in turn, keep the first that fails as stated; what to say."""
        reasons: list[str] = []
        for one in self._drafts:
            reason = one.reason or failing(
                Path(one.path), one.code, needs_backproof=one.needs_backproof
            )
            if not reason:
                kept = " and ".join(str(p) for p in keep(Path(one.path), self._script))
                return f"wrote {kept} (fails as stated): {self._shows(one, reasons)}"
            reasons.append(f"{one.code} of {one.subject}: {reason}")
        if not any(subject.verdict.stands for subject in report.subjects):
            return f"nothing is wrong, so {self._script} was not written"
        told = "; ".join(reasons[:_TOLD]) or "what is wrong was not measured by a law"
        return f"no script shows it, so {self._script} was not written: {told}"

    def _take(self, drafted: Drafted) -> None:
        """Keep it in mind, if it is of the first subject that is wrong."""
        if not self._drafts or self._drafts[0].subject == drafted.subject:
            self._drafts.append(drafted)

    def _shows(self, one: Drafted, reasons: Sequence[str]) -> str:
        if not reasons:
            return f"{one.code} of {one.subject}"
        before = "; ".join(reasons[:_TOLD])
        return f"{one.code} of {one.subject}; no script for {before}"
