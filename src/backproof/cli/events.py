"""What a worker says while it works, one line of JSON each."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, get_args

from backproof.records import Judgement
from backproof.report.serial import judgement_from_dict, judgement_to_dict
from backproof.target.place import Place


@dataclass(frozen=True)
class Request:
    """One place to check: everything a worker has to know.

    Attributes:
        place: where the subjects are.
        inputs: input strings.
        inputs_from: the name of a function that gives inputs.
        expect: the name of a soft function whose derivative is meant.
        reference: the name of plain code with the same meaning.
        seed: of inputs and directions.
        laws: codes to check, None for all.
        contexts: the contexts to run in, None for those that suit the subject.
        budget: what a subject may cost, None for anything.
        start: the first subject to check; those before it are done.
        repro: the path of a script that shows what is wrong, empty for none.
        drafts: what the paths of its drafts begin with.
    """

    place: Place
    inputs: tuple[str, ...] = ()
    inputs_from: str | None = None
    expect: str | None = None
    seed: int = 0
    laws: tuple[str, ...] | None = None
    reference: str | None = None
    contexts: str | None = None
    budget: str | None = None
    start: int = 0
    repro: str = ""
    drafts: str = ""


@dataclass(frozen=True)
class Ready:
    """torch is loaded; `torch` is its version."""

    torch: str


@dataclass(frozen=True)
class Broken:
    """No worker can work here."""

    reason: str


@dataclass(frozen=True)
class Forked:
    """The process `pid`, head of its own group, serves the request."""

    pid: int


@dataclass(frozen=True)
class Phase:
    """What runs from now on.

    Attributes:
        name: import, inputs, forward, backward, diagnosis, or "context compile_inductor".
        code: of the law or context that it runs for, empty before there is one.
        patience: how many times as long as usual it may be silent.
    """

    name: str
    code: str = ""
    patience: float = 1.0


@dataclass(frozen=True)
class Begun:
    """Subject `index` of `count` is next."""

    index: int
    count: int
    target: str
    name: str
    file: str
    line: int | None


@dataclass(frozen=True)
class Known:
    """What is known of the subject that runs, should it not come to a verdict."""

    judgement: Judgement


@dataclass(frozen=True)
class Drafted:
    """A script for a finding of the subject that runs, or why there is none.

    Attributes:
        code: of the law.
        subject: its name.
        path: of the draft, empty where there is none.
        needs_backproof: whether the user's own file imports it.
        reason: why there is none.
    """

    code: str
    subject: str
    path: str
    needs_backproof: bool
    reason: str


@dataclass(frozen=True)
class Judged:
    """A verdict."""

    judgement: Judgement


@dataclass(frozen=True)
class Failed:
    """`target` could not be run."""

    target: str
    reason: str


@dataclass(frozen=True)
class Skipped:
    """`target` holds nothing to check."""

    target: str
    reason: str


@dataclass(frozen=True)
class Done:
    """The request is served in full."""


@dataclass(frozen=True)
class Exited:
    """The process that served the request ended; a negative code is a signal."""

    code: int


Event = (
    Ready
    | Broken
    | Forked
    | Phase
    | Begun
    | Known
    | Drafted
    | Judged
    | Failed
    | Skipped
    | Done
    | Exited
)
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (*get_args(Event), Request)
}


def encode(message: Event | Request) -> bytes:
    """One line, with a line break before it as well.

    A process that dies while it writes leaves half a line; the break keeps the next
    line whole.
    """
    fields = {f.name: getattr(message, f.name) for f in dataclasses.fields(message)}
    if isinstance(message, (Known, Judged)):
        fields["judgement"] = judgement_to_dict(message.judgement)
    if isinstance(message, Request):
        fields["place"] = dataclasses.asdict(message.place)
    text = json.dumps({"is": type(message).__name__, **fields}, allow_nan=False)
    return f"\n{text}\n".encode()


def decode(line: bytes) -> Any:
    """The message of one line; None for an empty line or half of one."""
    try:
        read = json.loads(line)
    except ValueError:
        return None
    if not isinstance(read, dict) or read.get("is") not in _KINDS:
        return None
    kind = _KINDS[read.pop("is")]
    fields: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in read.items()
    }
    if kind in (Known, Judged):
        fields["judgement"] = judgement_from_dict(fields["judgement"])
    if kind is Request:
        fields["place"] = Place(**fields["place"])
    return kind(**fields)
