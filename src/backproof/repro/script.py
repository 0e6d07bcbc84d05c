"""A template and a stage -> the text of a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.stage import Stage

MOST_LINES = 40
_IMPORTED = ("copy", "gc", "importlib", "random", "sys", "weakref")  # used as `NAME.`


@dataclass(frozen=True)
class Script:
    """A script that is not proven yet.

    Attributes:
        code: of the law, with which its last line has to begin.
        text: the script.
        saved: what it loads from the file beside it, empty for nothing.
        needs_backproof: whether the user's own file imports it.
    """

    code: str
    text: str
    saved: dict[str, Any]
    needs_backproof: bool


Write = Callable[[Conviction], Script]
"""Makes the script of one law; raises `NoScript` where it cannot."""


def script(
    conviction: Conviction, stage: Stage, template: str, **values: object
) -> Script:
    """The script that `template` becomes.

    A template is Python with `$name` for what differs: `$code`, `$setup`, `$inputs`,
    `$call`, `$outputs`, `$run`, `$seeding`, and the given `values`.

    Raises:
        NoScript: it does not fit into 40 lines.
    """
    known = {k: str(v) for k, v in values.items()}
    found = {"code": conviction.outcome.code} | stage.values() | known
    template = template.strip("\n")
    if not found["seeding"]:
        template = re.sub(r"^ *\$seeding\n", "", template, flags=re.MULTILINE)
    text = Template(template).substitute(found)
    head = [*_head(conviction, stage), *_imports(text), ""]
    if len(head) + text.count("\n") >= MOST_LINES:
        text = re.sub(r"\n\n+", "\n", text)  # without its empty lines, if that helps
    whole = "\n".join([*head, text.rstrip()])
    if whole.count("\n") >= MOST_LINES:
        raise NoScript(f"it takes more than {MOST_LINES} lines")
    return Script(
        conviction.outcome.code,
        whole + "\n",
        stage.saved,
        conviction.origin.needs_backproof,
    )


def _head(conviction: Conviction, stage: Stage) -> list[str]:
    origin, where = conviction.origin, conviction.where
    place = origin.file
    if where is not None:
        path = Path(where.file)
        place = (
            origin.seen_from_script(path.resolve()) if path.is_file() else where.file
        )
        place += f":{where.line}" if where.line is not None else ""
    name = conviction.trial.subject.name
    also = "torch, backproof" if origin.needs_backproof else "torch"
    beside = f" with {origin.script.stem}.pt beside it" if stage.saved else ""
    return [
        f'"""{conviction.outcome.code} in {name} at {place}: {conviction.quotable}.',
        "",
        f"Run `python {origin.script.name}`{beside}: an AssertionError means that the",
        f'fault is there. It needs {also} and what {origin.file} needs."""',
    ]


def _imports(text: str) -> list[str]:
    lines = [
        f"import {name}"
        for name in _IMPORTED
        if re.search(rf"(?<![\w.]){name}\.", text)
    ]
    if "importlib.util." in text:
        lines[lines.index("import importlib")] = "import importlib.util"
    if "Path(" in text:
        lines.append("from pathlib import Path")
    numpy = ["import numpy"] if re.search(r"(?<![\w.])numpy\.", text) else []
    return [*lines, *numpy, "import torch"]
