"""What an audit is told: by `[tool.backproof]`, by options, by the environment.

Imports no torch: it is read before anything of the program runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from backproof.errors import BadInput

_MEBIBYTE = 2**20


@dataclass(frozen=True)
class Settings:
    """How to watch and how to verify.

    Attributes:
        seconds: of verification, all Functions together.
        calls: kept of each Function for each kind of arguments.
        memory: MiB of arguments that may be kept.
        only: names or patterns of the Functions that are wanted; all where it is empty.
        baseline: the file of accepted findings, empty for none.
        seed: of directions and cotangents.
        stop_after: seconds after which the program is interrupted; None to let it run.
        when: "exit", or "step" to verify after each step of an optimizer.
        rank_timeout: seconds that ranks wait for one another.
    """

    seconds: float = 60.0
    calls: int = 3
    memory: float = 256.0
    only: tuple[str, ...] = ()
    baseline: str = ""
    seed: int = 0
    stop_after: float | None = None
    when: str = "exit"
    rank_timeout: float = 30.0

    @property
    def bytes(self) -> int:
        """The memory in bytes."""
        return int(self.memory * _MEBIBYTE)

    def over(self, given: Mapping[str, Any]) -> Self:
        """These settings with those of `given` that are not None in their place.

        Raises:
            BadInput: a value makes no sense.
        """
        found = {k: v for k, v in given.items() if v is not None and v != ()}
        made = dataclasses.replace(self, **found)
        for name in ("seconds", "calls", "rank_timeout"):
            if not 0 < getattr(made, name) < math.inf:
                raise BadInput(
                    f"{name} must be above 0 and finite, not {getattr(made, name)}"
                )
        if made.stop_after is not None and not 0 < made.stop_after < math.inf:
            raise BadInput(f"--for must be above 0 and finite, not {made.stop_after}")
        if not 0 <= made.memory < math.inf:
            raise BadInput(
                f"memory (MiB) must be 0 or more and finite, not {made.memory}"
            )
        if not all(made.only):
            raise BadInput("only: an empty pattern would match every Function")
        return made

    def to_json(self) -> str:
        """For the environment of a child process."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        data = json.loads(text)
        return cls(**{**data, "only": tuple(data["only"])})


_IN_FILE: dict[str, tuple[type, ...]] = {
    "seconds": (int, float),
    "calls": (int,),
    "memory": (int, float),
    "only": (list,),
    "baseline": (str,),
    "rank_timeout": (int, float),
}


def from_project(folder: Path) -> Settings:
    """The settings of `[tool.backproof]` in `pyproject.toml` of `folder` or above it.

    Raises:
        BadInput: the file cannot be read, or a key or a value is not known.
    """
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            return _read(file)
    return Settings()


def _read(file: Path) -> Settings:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{file}: {error}") from error
    tool = table.get("tool", {})
    mine = tool.get("backproof", {}) if isinstance(tool, dict) else {}
    if not isinstance(mine, dict):
        raise BadInput(f"{file}: tool.backproof is {mine!r}, and must be a table")
    for key, value in mine.items():
        if key not in _IN_FILE:
            raise BadInput(
                f"{file}: [tool.backproof] has no key {key!r}; known: "
                f"{', '.join(_IN_FILE)}"
            )
        kinds = _IN_FILE[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise BadInput(
                f"{file}: [tool.backproof] {key} is {value!r}, and must be of type "
                f"{kinds[-1].__name__}"
            )
    found = dict(mine)
    if not all(isinstance(pattern, str) for pattern in found.get("only", ())):
        raise BadInput(
            f"{file}: [tool.backproof] only is {found['only']!r}, and must be a list of "
            "names or patterns"
        )
    if "only" in found:
        found["only"] = tuple(found["only"])
    if found.get("baseline"):
        found["baseline"] = str(file.parent / found["baseline"])
    try:
        return Settings().over(found)
    except BadInput as error:
        raise BadInput(f"{file}: [tool.backproof] {error}") from error
