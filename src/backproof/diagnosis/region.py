"""Which elements of a tensor, in the user's words: `x[:, 1024:]`, where x <= 0.

A region is known either as a whole mask, or by its first and last element and an
experiment that says whether all the rest is right. Both use the same candidates, from
the plainest to the most particular.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

_FEW = 0.02  # of the elements: so many may be right where all are taken for wrong
_SEVERAL = 4  # elements that a scattered region lists by name
_MOST_VALUES = 12  # of an integer tensor, each of which may mark a region
_MOST_AXES = 6


@dataclass(frozen=True)
class Region:
    """Some elements of a tensor.

    Attributes:
        words: how to say it.
        expression: the same in Python, over the names of the call: an index of the
            tensor, or a condition; empty where there is none.
        mask: boolean, in the tensor's shape.
        exact: whether all of it is meant, and not some elements of it.
    """

    words: str
    expression: str
    mask: Tensor
    exact: bool = True

    @property
    def count(self) -> int:
        """How many elements it has."""
        return int(torch.count_nonzero(self.mask))

    @property
    def share(self) -> float:
        """Of the tensor's elements."""
        return self.count / max(1, self.mask.numel())

    @property
    def everywhere(self) -> bool:
        """Whether it is the whole tensor."""
        return self.count == self.mask.numel()


@dataclass(frozen=True)
class Field:
    """A tensor whose elements are to be named, and what may tell them apart.

    Attributes:
        name: of the tensor, as the user has it.
        shape: of the tensor.
        values: of its elements, in its shape; None where they have no order.
        others: further tensors of the call by name, each of a shape that broadcasts.
        scalars: the plain numbers of the call by name.
    """

    name: str
    shape: tuple[int, ...]
    values: Tensor | None = None
    others: Sequence[tuple[str, Tensor]] = ()
    scalars: Sequence[tuple[str, float]] = field(default=())


def name_of(mask: Tensor, here: Field, care: Tensor | None = None) -> Region:
    """The plainest region that is `mask` wherever `care` is true.

    Shapes: both boolean, in the shape of `here`.
    """
    care = torch.ones_like(mask) if care is None else care
    wanted = mask & care
    if torch.equal(wanted, care):
        return everywhere(here)
    for region in (*boxes(here, spans_of(wanted)), *by_value(here)):
        if torch.equal(region.mask & care, wanted):
            return region
    right = int(torch.count_nonzero(care & ~mask))
    if right <= _FEW * int(torch.count_nonzero(care)):
        return everywhere(here)  # some elements are right by chance
    for region in thresholds(here, mask, care):
        if torch.equal(region.mask & care, wanted):
            return region
    return _scattered(here, wanted)


def everywhere(here: Field) -> Region:
    """All of it."""
    return Region("everywhere", "True", torch.ones(here.shape, dtype=torch.bool))


def element(name: str, shape: Sequence[int], at: int) -> str:
    """The element at flat index `at`, such as `x[3, 0]`."""
    if not shape:
        return name
    index = torch.unravel_index(torch.tensor(at), tuple(shape))
    return f"{name}[{', '.join(str(int(i)) for i in index)}]"


# ----------------------------------------------------------------------- by position


@dataclass(frozen=True)
class Span:
    """Indices along one axis: `start`, `start + step`, ..., before `stop`."""

    start: int
    stop: int
    step: int
    size: int

    @property
    def whole(self) -> bool:
        """Whether it is the whole axis."""
        return self.start == 0 and self.step == 1 and self.stop >= self.size

    @property
    def one(self) -> bool:
        """Whether it is a single index."""
        return self.start + self.step >= self.stop

    @property
    def indices(self) -> Tensor:
        """The indices themselves."""
        return torch.arange(self.start, self.stop, self.step)

    @property
    def text(self) -> str:
        """As it stands between brackets."""
        if self.whole:
            return ":"
        if self.one:
            last = self.size > 1 and self.start == self.size - 1
            return "-1" if last else str(self.start)
        start = str(self.start) if self.start else ""
        end = self.stop + self.step > self.size
        stop = "" if end else str(self.stop)
        return f"{start}:{stop}" + (f":{self.step}" if self.step > 1 else "")


def spans_of(mask: Tensor) -> list[Span] | None:
    """The indices that `mask` hits along each axis; None where one has no pattern."""
    spans = []
    for axis, size in enumerate(mask.shape):
        rest = [a for a in range(mask.dim()) if a != axis]
        hit = mask.any(dim=rest) if rest else mask
        found = span_of(hit.nonzero().reshape(-1), size)
        if found is None:
            return None
        spans.append(found)
    return spans


def span_of(indices: Tensor, size: int) -> Span | None:
    """The arithmetic progression that `indices` are, None where they are none."""
    if not indices.numel():
        return None
    start, last = int(indices[0]), int(indices[-1])
    if indices.numel() == 1:
        return Span(start, start + 1, 1, size)
    steps = indices.diff()
    step = int(steps[0])
    if not bool((steps == step).all()):
        return None
    if indices.numel() == 2 and step > 1 and last != size - 1:
        return None  # two indices always are one, and mean nothing
    return Span(start, last + 1, step, size)


def boxes(here: Field, spans: Sequence[Span] | None) -> Iterator[Region]:
    """The box of those spans, and the triangles of the last two axes."""
    if spans:
        yield _box(here, spans)
    if len(here.shape) < 2:
        return
    ones = torch.ones(here.shape, dtype=torch.bool)
    name, square = here.name, here.shape[-1] == here.shape[-2]
    if square:
        diagonal = ones.triu() & ones.tril()
        yield Region(f"the diagonal of {name}", "", diagonal)
        yield Region(f"off the diagonal of {name}", "", ~diagonal)
    for words, mask in (
        ("above the diagonal", ones.triu(1)),
        ("below the diagonal", ones.tril(-1)),
        ("on and above the diagonal", ones.triu()),
        ("on and below the diagonal", ones.tril()),
    ):
        yield Region(f"{words} of {name}", "", mask)


def _box(here: Field, spans: Sequence[Span]) -> Region:
    mask = torch.ones(here.shape, dtype=torch.bool)
    for axis, span in enumerate(spans):
        if span.whole:
            continue
        inside = torch.zeros(span.size, dtype=torch.bool)
        inside[span.indices] = True
        shape = [1] * len(spans)
        shape[axis] = span.size
        mask = mask & inside.reshape(shape)
    if not spans or all(s.whole for s in spans):
        return everywhere(here)
    texts = [s.text for s in spans]
    while len(texts) > 1 and texts[-1] == ":":
        texts.pop()
    expression = f"{here.name}[{', '.join(texts)}]"
    gloss = _gloss(spans)
    words = f"{expression} ({gloss})" if gloss else expression
    return Region(words, expression, mask)


def _gloss(spans: Sequence[Span]) -> str:
    """What people call it, where they have a word."""
    bounded = [(axis, s) for axis, s in enumerate(spans) if not s.whole]
    if len(bounded) != 1:
        return ""
    ((axis, span),) = bounded
    last_axis = axis == len(spans) - 1
    unit = "element" if len(spans) == 1 else "column" if last_axis else "row"
    if axis == 0 and len(spans) > 1:
        unit = "row" if len(spans) == 2 else "batch entry"
    elif not last_axis:
        return ""
    plural = "batch entries" if unit == "batch entry" else f"{unit}s"
    end = span.stop + span.step > span.size
    if span.one:
        place = {0: "first", span.size - 1: "last"}.get(span.start)
        return f"the {place} {unit}" if place else ""
    if span.step == 2 and end and span.start < 2:
        return f"every second {unit}"
    if span.step > 2 and end:
        return f"one {unit} in {span.step}"
    if span.start == 1 and end:
        return f"{plural} after the first"
    if span.start == 0 and span.stop == span.size - 1:
        return f"all {plural} but the last"
    if span.start > 1 and end and span.step == 1:
        return f"{plural} from {span.start} on"
    return ""


# -------------------------------------------------------------------------- by value


def by_value(here: Field) -> Iterator[Region]:
    """Conditions on the tensor's own values, and on those of other tensors."""
    for name, tensor in _ordered(here):
        if tensor.dtype == torch.bool:
            yield _where(here, name, tensor)
            yield _where(here, f"~{name}", ~tensor)
            continue
        if name != here.name:
            yield from _numbers(here, name, tensor)
        yield from _signs(here, name, tensor)
        yield from _bounds(here, name, tensor)
    yield from _named_rows(here)
    if here.values is not None and here.shape:
        yield from _ties(here, here.values)


def _ordered(here: Field) -> Iterator[tuple[str, Tensor]]:
    own = [] if here.values is None else [(here.name, here.values)]
    for name, tensor in (*own, *here.others):
        if not tensor.is_complex() and broadcasts(tensor.shape, here.shape):
            yield name, tensor


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of `shape` can be expanded to exactly `to`."""
    ahead = len(to) - len(shape)
    return ahead >= 0 and all(
        mine in (1, theirs) for mine, theirs in zip(shape, to[ahead:], strict=True)
    )


def _where(here: Field, condition: str, mask: Tensor) -> Region:
    return Region(f"where {condition}", condition, mask.expand(here.shape))


def _signs(here: Field, name: str, x: Tensor) -> Iterator[Region]:
    yield _where(here, f"{name} <= 0", x <= 0)
    yield _where(here, f"{name} < 0", x < 0)
    yield _where(here, f"{name} > 0", x > 0)
    yield _where(here, f"{name} >= 0", x >= 0)
    yield _where(here, f"{name} == 0", x == 0)
    yield _where(here, f"{name} != 0", x != 0)


def _bounds(here: Field, name: str, x: Tensor) -> Iterator[Region]:
    known = [*here.scalars, ("1", 1.0), ("0.5", 0.5)]
    for label, bound in known:
        if bound == 0:
            continue
        yield _where(here, f"{name} > {label}", x > bound)
        yield _where(here, f"{name} >= {label}", x >= bound)
        yield _where(here, f"{name} < {label}", x < bound)
        yield _where(here, f"{name} <= {label}", x <= bound)
        yield _where(here, f"abs({name}) > {label}", x.abs() > bound)
        yield _where(here, f"abs({name}) >= {label}", x.abs() >= bound)
        yield _where(here, f"abs({name}) < {label}", x.abs() < bound)
        yield _where(here, f"abs({name}) <= {label}", x.abs() <= bound)
        yield _where(here, f"{name} < -{label}", x < -bound)
        yield _where(here, f"{name} > -{label}", x > -bound)
        yield _where(here, f"{name} == {label}", x == bound)
    pairs = [
        (a, b)
        for a in here.scalars
        for b in here.scalars
        if a[0] != b[0] and a[1] < b[1]
    ]
    for (low, a), (high, b) in pairs[:_MOST_VALUES]:
        inside = (x >= a) & (x <= b)
        yield _where(here, f"({low} <= {name}) & ({name} <= {high})", inside)
        yield _where(here, f"({name} < {low}) | ({name} > {high})", ~inside)


def _numbers(here: Field, name: str, x: Tensor) -> Iterator[Region]:
    values = torch.unique(x)
    if values.numel() <= _MOST_VALUES:
        for value in values.tolist():
            yield _where(here, f"{name} == {value}", x == value)


def _named_rows(here: Field) -> Iterator[Region]:
    """Rows that an index among the tensors names often, once or never."""
    if not here.shape:
        return
    rows = here.shape[0]
    shape = (rows,) + (1,) * (len(here.shape) - 1)
    for name, index in here.others:
        if index.dtype != torch.int64 or not index.numel():
            continue
        if int(index.min()) < 0 or int(index.max()) >= rows:
            continue
        count = torch.bincount(index.reshape(-1), minlength=rows)
        for words, mask in (
            (f"in rows that {name} names more than once", count > 1),
            (f"in rows that {name} names", count > 0),
            (f"in rows that {name} names once", count == 1),
            (f"in rows that {name} does not name", count == 0),
        ):
            yield Region(words, "", mask.reshape(shape).expand(here.shape))


def _ties(here: Field, x: Tensor) -> Iterator[Region]:
    """Elements that are equal to another one, and those that are the largest."""
    _, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    tied = counts[inverse] > 1
    yield Region(f"ties of {here.name}", "", tied)
    for axis in range(-1, -1 - min(len(here.shape), _MOST_AXES), -1):
        top = x == x.amax(axis, keepdim=True)
        low = x == x.amin(axis, keepdim=True)
        along = f" along axis {len(here.shape) + axis}" if len(here.shape) > 1 else ""
        for word, mask in (("maximum", top), ("minimum", low)):
            several = mask.sum(axis, keepdim=True) > 1
            yield Region(f"at the {word} of {here.name}{along}", "", mask)
            yield Region(f"beside the {word} of {here.name}{along}", "", ~mask)
            yield Region(
                f"ties of the {word} of {here.name}{along}", "", mask & several
            )


def thresholds(here: Field, mask: Tensor, care: Tensor) -> Iterator[Region]:
    """A bound on one tensor's values that nobody has named."""
    wrong, right = mask & care, ~mask & care
    if not bool(wrong.any()) or not bool(right.any()):
        return
    for name, tensor in _ordered(here):
        if tensor.dtype == torch.bool:
            continue
        full = tensor.expand(here.shape).double()
        for label, x in ((name, full), (f"abs({name})", full.abs())):
            a, b = x[wrong], x[right]
            if float(b.max()) < float(a.min()):
                bound = _between(float(b.max()), float(a.min()))
                yield _where(here, f"{label} > {bound:g}", x > bound)
            elif float(a.max()) < float(b.min()):
                bound = _between(float(a.max()), float(b.min()))
                yield _where(here, f"{label} < {bound:g}", x < bound)


def _between(low: float, high: float) -> float:
    """The shortest decimal number strictly between two others."""
    gap = high - low
    digits = max(0, math.ceil(-math.log10(gap))) if gap > 0 else 0
    for places in range(max(0, digits - 1), digits + 3):
        middle = round((low + high) / 2, places)
        if low < middle < high:
            return middle
    return (low + high) / 2


def _scattered(here: Field, mask: Tensor) -> Region:
    flat = mask.reshape(-1).nonzero().reshape(-1)
    names = [element(here.name, here.shape, int(k)) for k in flat[:_SEVERAL]]
    listed = ", ".join(names)
    if flat.numel() > _SEVERAL:
        return Region(f"scattered, the first {listed}", "", mask)
    return Region(listed, "", mask)


def consistent(
    here: Field,
    spans: Sequence[Span] | None,
    agrees: Callable[[Tensor], bool],
) -> list[Region]:
    """Candidates that agree with what is known, the smallest first."""
    found: list[Region] = []
    for region in (*boxes(here, spans), *by_value(here)):
        if not agrees(region.mask):
            continue
        if all(not torch.equal(region.mask, other.mask) for other in found):
            found.append(region)
    return sorted(found, key=lambda r: r.count)
