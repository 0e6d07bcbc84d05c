"""What a context is: a way of running a subject, compared with running it in eager mode.

A context is a function that is given a `Scene` and yields `Compared`; the decorator
makes it a `Context`. To add one: a function under `@context(...)` in a file of
`battery/contexts`, named as the cell of the table, and its place in `CONTEXTS` there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from backproof.battery.survey.known import Known

if TYPE_CHECKING:
    from backproof.battery.survey.scene import Scene

Group = Literal["eager", "func", "vmap", "compile", "export"]
GROUPS: tuple[Group, ...] = ("eager", "func", "vmap", "compile", "export")


class Refusal(Exception):
    """The subject refuses; its own exception is the cause."""


class NotApplicable(Exception):
    """The context has nothing to say about this subject; the text says why."""


class Skipped(Exception):
    """The context could be asked and was not; the text says why."""


@dataclass(frozen=True)
class Compared:
    """One thing that came out of a context, beside what eager mode says.

    Attributes:
        kind: in a word, what it is: `output`, `gradient`, `form`. A control explains a
            fault only where it has the same kind of fault.
        what: what it is in full, as reports name it.
        got: a tensor; None where there is none; or, for a fact that is not a number,
            anything that can be compared.
        expected: what it has to be.
    """

    kind: str
    what: str
    got: Any
    expected: Known | object

    @property
    def alike(self) -> bool:
        """Whether a fact is what it has to be."""
        return bool(self.got == self.expected)


Measure = Callable[["Scene"], Iterator[Compared]]


@dataclass(frozen=True)
class Context:
    """A way of running a subject.

    Attributes:
        name: of its cell in the table.
        code: of the law that a wrong number breaks.
        text: what it does, in one sentence.
        group: by which it can be selected.
        inductor: whether it needs a working Inductor, and so a C++ compiler.
        measure: runs it; yields what came out.
    """

    name: str
    code: str
    text: str
    group: Group
    inductor: bool
    measure: Measure


def context(
    group: Group, *, code: str, inductor: bool = False
) -> Callable[[Measure], Context]:
    """Make a measuring function the context of its name."""

    def wrap(measure: Measure) -> Context:
        text = (inspect.getdoc(measure) or "").splitlines()[0]
        name = getattr(measure, "__name__", "")
        return Context(name, code, text, group, inductor, measure)

    return wrap


def compared(
    kind: str, names: Sequence[str], got: Sequence[Any], expected: Sequence[Known]
) -> Iterator[Compared]:
    """One `Compared` for each of `names`, in order."""
    for name, mine, known in zip(names, got, expected, strict=True):
        tensor, comma, more = name.partition(", ")  # "w, of each sample"
        of = f"{kind} of `{tensor}`{comma}{more}"
        what = name if name.startswith(kind) else of
        yield Compared(kind, what, mine, known)
