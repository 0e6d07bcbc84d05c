"""The context table: cells of a survey -> the records of a judgement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from backproof.codes import page
from backproof.records import (
    Evidence,
    Number,
    Outcome,
    Status,
    broken,
    held,
    undecided,
)
from backproof.subject import Subject
from backproof.trial import Trial

if TYPE_CHECKING:
    from backproof.battery.survey.context import Context
    from backproof.battery.survey.survey import Cell

_OF_AN_OPERATOR = "fake_tensor_mode,aot_function,make_fx_symbolic_fwd_bwd"


def default_contexts(subject: Subject) -> str:
    """The contexts that are tried where nobody asks for any.

    An operator promises the dispatcher a schema and a fake kernel, and those are what
    torch's own check of an operator looks at.
    """
    return _OF_AN_OPERATOR if subject.operator is not None else "none"


def selected(names: str | Collection[str] | None, subject: Subject) -> list[Context]:
    """The contexts that `names` mean for `subject`.

    Raises:
        BadInput: a name that is not known.
    """
    if names is None:
        names = default_contexts(subject)
    text = names if isinstance(names, str) else ",".join(names)
    if text.strip() in ("", "none"):
        return []  # what the contexts need takes seconds to load
    from backproof.battery.contexts import CONTEXTS
    from backproof.battery.survey.selection import select

    return select(text, CONTEXTS)


def cells_of(
    trial: Trial, contexts: Sequence[Context], on_phase: Callable[[str], None]
) -> Iterator[Cell]:
    """The subject of `trial` in each of `contexts`, one after the other."""
    from backproof.battery.survey.survey import survey

    return survey(trial, contexts, on_phase=on_phase)


def not_run(contexts: Iterable[Context], reason: str) -> list[Cell]:
    """The cells of contexts that were not tried."""
    from backproof.battery.survey.survey import Cell, CellStatus

    return [Cell(c.name, c.code, CellStatus.SKIPPED, reason) for c in contexts]


def as_table(cells: Iterable[Cell]) -> dict[str, dict[str, str]]:
    """What a report keeps of each cell, by the name of its context."""
    return {c.name: {"status": str(c.status), "words": c.words} for c in cells}


def outcomes_of(cells: Sequence[Cell], case: str) -> Iterator[Outcome]:
    """One outcome for each code among `cells`.

    Broken where any context is wrong, held where some are right and none is wrong; a
    refusal breaks nothing, and nor does what is torch's own fault.
    """
    for code in dict.fromkeys(cell.code for cell in cells):
        mine = [cell for cell in cells if cell.code == code]
        right = [cell.name for cell in mine if cell.status == "right"]
        evidence = [*_wrong(mine)]
        status = Status.BROKEN if evidence else Status.NOT_APPLICABLE
        if right:
            evidence.append(held(f"right in {_listed(right)}"))
            status = Status.BROKEN if status is Status.BROKEN else Status.HELD
        evidence += _others(mine)
        yield Outcome(code, page(code).title, case, status, tuple(evidence))


def _wrong(cells: Iterable[Cell]) -> Iterator[Evidence]:
    """Contexts that are wrong in the same words are one piece of evidence."""
    grouped: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.status == "wrong":
            grouped.setdefault(cell.words, []).append(cell)
    for words, group in grouped.items():
        names = _listed([cell.name for cell in group])
        numbers: Mapping[str, Number] = group[0].numbers
        yield broken(f"in context {names}: {words}", numbers)


def _others(cells: Iterable[Cell]) -> Iterator[Evidence]:
    for cell in cells:
        if cell.status not in ("right", "wrong"):
            first = cell.words.partition("\n")[0]
            said = str(cell.status).replace("_", " ")
            yield undecided(f"{said} in {cell.name}: {first}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
