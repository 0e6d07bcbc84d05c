"""survey(): one subject through many contexts, and who is to blame."""

from __future__ import annotations

import functools
import re
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from backproof.battery.contexts import CONTEXTS
from backproof.battery.survey.context import (
    Compared,
    Context,
    NotApplicable,
    Refusal,
    Skipped,
)
from backproof.battery.survey.control import control_of
from backproof.battery.survey.known import Known, difference
from backproof.battery.survey.manners import surroundings_kept
from backproof.battery.survey.operations import num_operations
from backproof.battery.survey.recording import recording_of
from backproof.battery.survey.scene import NoAnswer, Scene
from backproof.battery.survey.selection import select
from backproof.battery.survey.style import Style, style_of
from backproof.battery.survey.support import support
from backproof.battery.survey.upstream import ISSUES
from backproof.records import Number
from backproof.trial import Trial

_PACKAGE = Path(__file__).resolve().parents[2]
_OPERATIONS = {"compile": 800, "export": 8000}
"""What a group takes a few seconds for; beyond, its time grows faster than the count."""

_MOST_LINES = 6  # of a wrong cell

_WRAPPED = "RuntimeError when making fake tensor call"
_SLIPS = (LookupError, NameError, AttributeError, TypeError, AssertionError)
_RUNS_SUBJECTS = ("call.py", "module_call.py", "loss.py")
"""Files through which a subject's own mistakes pass: what it returned is taken apart."""


class CellStatus(StrEnum):
    """What became of a subject in a context."""

    RIGHT = "right"
    REFUSES = "refuses"
    WRONG = "wrong"
    TORCH = "torch"
    NOT_APPLICABLE = "not_applicable"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Cell:
    """One subject in one context.

    Attributes:
        name: of the context.
        code: of the law that it belongs to.
        status: what came out.
        words: for a wrong cell what is off and by how much; for a refusal its first
            line and how to get support; else a reason.
        numbers: behind the words: `error`, `bar` and `scale` of the first tensor that is
            off.
    """

    name: str
    code: str
    status: CellStatus
    words: str
    numbers: Mapping[str, Number] = field(default_factory=dict)


def survey(
    trial: Trial,
    names: str | Sequence[Context] = "all",
    *,
    on_phase: Callable[[str], None] = lambda phase: None,
    patience: float = 60.0,
) -> Iterator[Cell]:
    """Run the subject in the named contexts; nothing of the caller's is changed.

    Each runs when its cell is asked for, so that a crash of the process inside of one
    leaves the cells before it.

    Args:
        trial: the subject on the case.
        names: what `select` understands, or the contexts themselves.
        on_phase: told `context NAME` before each, so that whoever watches can name what
            a crash or a hang of the process belongs to.
        patience: seconds of CPU time after which the rest of a group is skipped. A
            backward that loops over rows is unrolled by every compiler anew.

    Returns:
        One cell a context, in the contexts' order.

    Raises:
        BadInput: a context that is not known.
    """
    contexts = select(names, CONTEXTS) if isinstance(names, str) else list(names)
    return _cells(trial, contexts, on_phase, patience)


def _cells(
    trial: Trial,
    contexts: Sequence[Context],
    on_phase: Callable[[str], None],
    patience: float,
) -> Iterator[Cell]:
    if not contexts:
        return
    try:
        with surroundings_kept():
            scene = Scene(trial)
            style, operations = style_of(scene), num_operations(scene)
    except NoAnswer as reason:
        yield from (_cell(c, CellStatus.SKIPPED, str(reason)) for c in contexts)
        return
    spent: dict[str, float] = defaultdict(float)
    for context in contexts:
        too_long = _too_long(context, operations, spent[context.group], patience)
        if too_long:
            yield _cell(context, CellStatus.SKIPPED, too_long)
            continue
        on_phase(f"context {context.name}")
        start = time.process_time()
        cell = _blamed(context, scene, style)
        spent[context.group] += time.process_time() - start
        yield cell


def _too_long(context: Context, operations: int, spent: float, patience: float) -> str:
    """Why a context would take minutes, or nothing."""
    if spent > patience:
        group = context.group
        return f"the {group} contexts before it took {spent:.0f} s; ask for it alone"
    if operations > _OPERATIONS.get(context.group, operations):
        return (
            f"forward and backward run {operations} torch operations, which every "
            "compiler unrolls anew; give a smaller input"
        )
    return ""


def _blamed(context: Context, scene: Scene, style: Style) -> Cell:
    """The cell of a subject, torch's where the control has the same kinds of fault."""
    seen = _observe(context, scene)
    if seen.status is CellStatus.REFUSES:
        advice = support(context, style, seen.words)
        return _cell(context, seen.status, f"{seen.words}\n{advice}")
    if seen.status is not CellStatus.WRONG:
        return _cell(context, seen.status, seen.words, seen.numbers)
    excuse = _excuse(context, scene, style, seen)
    if excuse:
        issue = ISSUES.get(context.name)
        words = f"{seen.words}\n{excuse}" + (f" ({issue})" if issue else "")
        return _cell(context, CellStatus.TORCH, words, seen.numbers)
    return _cell(context, CellStatus.WRONG, seen.words, seen.numbers)


def _excuse(context: Context, scene: Scene, style: Style, seen: _Seen) -> str:
    """Why torch and not the subject is at fault, or nothing."""
    for like in dict.fromkeys((replace(style, inside=False), style)):
        control = _control(context, like)
        if control.status is CellStatus.WRONG and seen.kinds <= control.kinds:
            return f"a known-right op in the same style fails alike: {like}"
    if style.kind != "composed" or style.opaque:
        return ""
    with surroundings_kept():
        recorded = recording_of(scene)
    if recorded is None:
        return ""
    again = _observe(context, recorded)
    if again.status is CellStatus.WRONG and seen.kinds <= again.kinds:
        return "the torch operations of its forward, recorded, fail alike"
    return ""


@functools.cache
def _control(context: Context, style: Style) -> _Seen:
    with surroundings_kept():
        scene = control_of(style)
    return _observe(context, scene)


@dataclass(frozen=True)
class _Seen:
    """What a context showed of a scene: a cell without blame."""

    status: CellStatus
    words: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()


def _observe(context: Context, scene: Scene) -> _Seen:
    """What came out; a fault that was seen before the context raised counts."""
    compared: list[Compared] = []
    with surroundings_kept():
        try:
            try:
                compared.extend(context.measure(scene))
            except Exception as error:
                seen = _folded(compared)
                if seen.status is CellStatus.WRONG and not _is_ours(error):
                    return seen
                raise
            return _folded(compared)
        except Exception as error:
            if _is_ours(error):
                raise
            return _broken_off(error)


def _broken_off(reason: Exception) -> _Seen:
    """Of a context that raised before it was through."""
    if isinstance(reason, NotApplicable):
        return _Seen(CellStatus.NOT_APPLICABLE, str(reason))
    if isinstance(reason, Skipped):
        return _Seen(CellStatus.SKIPPED, str(reason))
    cause = reason.__cause__ if isinstance(reason, Refusal) else None
    return _Seen(CellStatus.REFUSES, _first_line(cause or reason))


def _folded(compared: Sequence[Compared]) -> _Seen:
    wrong: dict[str, str] = {}  # the first of each thing: others differ in digits only
    kinds: set[str] = set()
    numbers: Mapping[str, Number] = {}
    for one in compared:
        if isinstance(one.expected, Known):
            found = difference(one.got, one.expected)
            words = found.words
            measured = {"error": found.error, "bar": found.bar, "scale": found.scale}
        else:
            words = _fact(one.got, one.expected)
            measured = {}
        if words:
            wrong.setdefault(one.what, f"{one.what} {words}")
            kinds.add(one.kind)
            numbers = numbers or measured
    if not compared:
        return _Seen(CellStatus.NOT_APPLICABLE, "nothing came out that can be compared")
    if wrong:
        distinct = list(wrong.values())
        lines = distinct[:_MOST_LINES]
        if len(distinct) > _MOST_LINES:
            lines.append(f"and {len(distinct) - _MOST_LINES} more")
        return _Seen(CellStatus.WRONG, "\n".join(lines), numbers, frozenset(kinds))
    return _Seen(CellStatus.RIGHT, "")


def _fact(got: object, expected: object) -> str:
    """What is wrong with a fact; where nothing was expected the fact says it itself."""
    if got == expected:
        return ""
    return f"{got}" if expected == "" else f"is {got} instead of {expected}"


def _cell(
    context: Context,
    status: CellStatus,
    words: str,
    numbers: Mapping[str, Number] | None = None,
) -> Cell:
    return Cell(context.name, context.code, status, words, numbers or {})


def _is_ours(error: BaseException) -> bool:
    """Whether it is a slip of this package: a defect, which is nobody's refusal."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not isinstance(error, _SLIPS):
        return False
    file = Path(frames[-1].filename).resolve()
    return _PACKAGE in file.parents and file.name not in _RUNS_SUBJECTS


def _first_line(error: BaseException) -> str:
    """What was raised, in a line; of dynamo's reports, what it had caught."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else "without a message"
    if first == _WRAPPED:
        caught = re.search(r": got (\w+)\((.*)\)", str(error))
        if caught:
            first = f"{caught[1]}: {caught[2].strip(chr(34) + chr(39))}"
    return f"{type(error).__name__}: {first}"
