"""Drafts of scripts, written while a subject is judged and proven afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backproof.battery.examination import Examination
from backproof.records import Outcome
from backproof.repro.drafting import draft
from backproof.repro.errors import NoScript
from backproof.repro.origin import Origin
from backproof.repro.script import Script

_MOST = 4  # of one subject: each that does not prove costs a process


@dataclass(frozen=True)
class Draft:
    """A script that waits for its proof, or the reason why there is none.

    Attributes:
        code: of the law.
        subject: its name.
        path: of the script, empty where there is none.
        needs_backproof: whether the user's own file imports it.
        reason: why there is none.
    """

    code: str
    subject: str
    path: str = ""
    needs_backproof: bool = False
    reason: str = ""


class Drafts:
    """Writes drafts for the first subject that is wrong, and for no other."""

    def __init__(self, beginning: str) -> None:
        """Drafts go to files whose paths begin with `beginning`."""
        self._beginning = beginning
        self._origin: Origin | None = None
        self._count = 0

    def take(
        self, outcome: Outcome, examination: Examination, origin: Origin
    ) -> Iterator[Draft]:
        """The draft for a broken law, if it is still wanted; nothing is raised."""
        if self._origin not in (None, origin) or self._count >= _MOST:
            return
        self._origin, name = origin, examination.trial.subject.name
        try:
            made = draft(outcome, examination, origin)
        except NoScript as reason:
            yield Draft(outcome.code, name, reason=str(reason))
        except (Exception, SystemExit) as error:  # a check goes on without its script
            first = (str(error).strip() or "without a message").splitlines()[0]
            words = f"it cannot be measured again: {type(error).__name__}: {first}"
            yield Draft(outcome.code, name, reason=words)
        else:
            self._count += 1
            path = self._write(made)
            yield Draft(outcome.code, name, str(path), made.needs_backproof)

    def _write(self, made: Script) -> Path:
        import torch

        path = Path(f"{self._beginning}{os.getpid()}.{self._count}.py")
        if made.saved:
            torch.save(made.saved, path.with_suffix(".pt"))
        path.write_text(made.text, encoding="utf-8")
        return path
