"""The tensors and numbers that a call knows, by the names that the user gave them.

A factor that is missing, or one too many, is nearly always something that stands in the
call already: an input, the output, 1 - y**2, a mask, the size of an axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.region import broadcasts
from backproof.probe import is_finite
from backproof.source import method_of
from backproof.trial import Trial

_SMALL = range(2, 13)
_LEAST_DISTINCT = 1e-9
_EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12)  # of normalisations, where they are no argument
_MOST_EPSILON = 0.1
_SAMPLE = 1024
_LARGE = 200_000  # elements, above which rows are not looked at one by one


@dataclass(frozen=True)
class Named:
    """A tensor and what to call it."""

    name: str
    values: Tensor


@dataclass(frozen=True)
class Number:
    """A positive constant and what to call it.

    Attributes:
        name: a short expression.
        value: the constant.
        rank: of the name; lower is better.
        gloss: what the expression is, where it does not say that itself.
    """

    name: str
    value: float
    rank: int
    gloss: str = ""

    @property
    def words(self) -> str:
        """The name, and what it is."""
        return f"{self.name} ({self.gloss})" if self.gloss else self.name


_FUNCTIONS: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("{}", lambda x: x),
    ("({} > 0)", lambda x: (x > 0).double()),
    ("({} < 0)", lambda x: (x < 0).double()),
    ("sign({})", torch.sign),
    ("abs({})", torch.abs),
    ("{}**2", torch.square),
    ("(1 - {})", lambda x: 1 - x),
    ("(1 + {})", lambda x: 1 + x),
    ("(1 - {}**2)", lambda x: 1 - x * x),
    ("(1 + {}**2)", lambda x: 1 + x * x),
    ("exp({})", torch.exp),
    ("exp(-{})", lambda x: torch.exp(-x)),
    ("(1 - exp({}))", lambda x: -torch.expm1(x)),
    ("(1 + exp({}))", lambda x: 1 + torch.exp(x)),
    ("sigmoid({})", torch.sigmoid),
    ("sigmoid(-{})", lambda x: torch.sigmoid(-x)),
    ("tanh({})", torch.tanh),
    ("(1 - tanh({})**2)", lambda x: 1 - torch.tanh(x).square()),
    ("cos({})", torch.cos),
    ("sin({})", torch.sin),
    ("cosh({})", torch.cosh),
    ("sinh({})", torch.sinh),
    ("log({})", torch.log),
    ("sqrt({})", torch.sqrt),
    ("sqrt(1 - {}**2)", lambda x: (1 - x * x).sqrt()),
    ("sqrt(1 + {}**2)", lambda x: (1 + x * x).sqrt()),
    ("{}**3", lambda x: x**3),
    ("exp(-{}**2)", lambda x: torch.exp(-x * x)),
    ("exp(-{}**2 / 2)", lambda x: torch.exp(-x * x / 2)),
)


class Known:
    """What one call knows.

    Args:
        trial: the call.
        values: its outputs, float64 (num_outputs,).
    """

    def __init__(self, trial: Trial, values: Tensor) -> None:
        self.trial = trial
        self.tensors: list[Named] = []
        self.numbers: list[Named] = []
        for name, leaf in zip(trial.names, trial.leaves, strict=True):
            if isinstance(leaf, Tensor):
                self._add(name, leaf.detach())
            elif type(leaf) in (int, float):
                self.numbers.append(
                    Named(name, torch.tensor(float(leaf), dtype=torch.float64))
                )
        named = output_names(trial)
        for output in trial.outputs:
            if not output.dtype.is_complex:
                name = named.get(output.name, output.name)
                self._add(name, values[output.part].reshape(output.shape))

    def _add(self, name: str, tensor: Tensor) -> None:
        if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized:
            return
        tensor = tensor.to("cpu")
        if tensor.is_floating_point():
            tensor = tensor.double()
        if tensor.dim() == 0 and not tensor.is_complex():
            self.numbers.append(Named(name, tensor.double()))
        self.tensors.append(Named(name, tensor))

    def fitting(self, shape: Sequence[int]) -> Iterator[Named]:
        """The real tensors that broadcast to `shape`, as float64 in that shape.

        A vector may go along any axis of its length, as a channel's gain does.
        """
        for one in self.tensors:
            x = one.values
            if x.is_complex():
                continue
            if broadcasts(x.shape, shape):
                yield Named(one.name, x.double().expand(tuple(shape)))
            if x.dim() != 1 or x.numel() < 2:
                continue
            for axis, size in enumerate(shape[:-1]):
                if size == x.numel():
                    along = x.double().reshape(-1, *[1] * (len(shape) - axis - 1))
                    yield Named(f"{one.name} (axis {axis})", along.expand(tuple(shape)))

    def factors(
        self, shape: Sequence[int], at: Tensor | None = None
    ) -> Iterator[Named]:
        """Functions of those tensors that are finite and not constant.

        Args:
            shape: what they have to broadcast to.
            at: flat indices, to have their values there alone.
        """
        fitting = list(self.fitting(shape))
        here = [
            one.values if at is None else one.values.reshape(-1)[at] for one in fitting
        ]
        for text, function in _FUNCTIONS:  # the plainest first, of whichever tensor
            for one, x in zip(fitting, here, strict=True):
                values = function(x)
                if is_finite(values) and not is_constant(values):
                    yield Named(text.format(one.name), values)
        for one in fitting:
            if at is None or one.values.numel() <= _LARGE:
                for row in self._statistics(one):
                    values = row.values if at is None else row.values.reshape(-1)[at]
                    yield Named(row.name, values)

    def basics(self, shape: Sequence[int]) -> list[Named]:
        """Few of them, the plainest first: what terms of a sum are made of."""
        plain = [one for one in self.fitting(shape) if not is_constant(one.values)]
        powers = [Named(f"exp({one.name})", one.values.exp()) for one in plain]
        rows = [
            row for one in plain for row in self._statistics(one) if " / " in row.name
        ]
        rows.sort(key=lambda row: ("axis" in row.name, len(row.name)))
        return [*plain, *(p for p in powers if is_finite(p.values)), *rows]

    def factor(self, name: str, shape: Sequence[int]) -> Tensor:
        """The values of one of `factors` by its name, in `shape`."""
        for one in self.fitting(shape):
            for text, function in _FUNCTIONS:
                if text.format(one.name) == name:
                    return function(one.values)
            for row in self._statistics(one):
                if row.name == name:
                    return row.values
        raise KeyError(name)

    def _counts(self) -> Iterator[Number]:
        """How many elements a mask of the call marks, or an integer tensor has equal."""
        for one in self.tensors:
            if one.values.dtype == torch.bool:
                yield from _shares(one.name, one.values)
            elif one.values.dtype == torch.int64:
                for number in self.numbers:
                    mask = one.values != number.values
                    yield from _shares(f"{one.name} != {number.name}", mask)

    def _statistics(self, one: Named) -> Iterator[Named]:
        """Sizes of rows, and rows with those taken out, as normalisations have them."""
        dims = one.values.dim()
        for axis in ([-1] if dims else []) + ([0] if dims > 1 else []):
            if one.values.shape[axis] > 1:
                yield from self._along(one, axis)

    def _along(self, one: Named, axis: int) -> Iterator[Named]:
        x, name = one.values, one.name
        over = "" if axis == -1 else f", axis {axis}"
        variance = x.var(axis, keepdim=True, unbiased=False)
        length = x.norm(dim=axis, keepdim=True)
        square = x.square().mean(axis, keepdim=True)
        centred = x - x.mean(axis, keepdim=True)
        for text, values in (
            (f"std({name}{over})", variance.sqrt()),
            (f"norm({name}{over})", length),
            (f"rms({name}{over})", square.sqrt()),
            (f"sum({name}{over})", x.sum(axis, keepdim=True)),
        ):
            if _divides(values):
                yield Named(text, values.expand_as(x))
        if _divides(length):
            yield Named(f"{name} / norm({name}{over})", x / length)
        for label, eps in self._epsilons():
            deviation = (variance + eps).sqrt()
            if _divides(deviation):
                below = f"sqrt(var({name}{over}){label})"
                yield Named(
                    f"({name} - mean({name}{over})) / {below}", centred / deviation
                )

    def _epsilons(self) -> Iterator[tuple[str, float]]:
        """What is added to a variance: nothing, an argument, or what people write."""
        yield "", 0.0
        for one in self.numbers:
            if 0 < float(one.values) < _MOST_EPSILON:
                yield f" + {one.name}", float(one.values)
        for eps in _EPSILONS:
            yield f" + {eps:g}", eps

    def constants(self, of: str, shape: Sequence[int]) -> list[Number]:
        """Numbers that this call gives a name to; positive ones, best names first."""
        found = [Number("2", 2.0, 0), Number("1/2", 0.5, 0)]
        for one in self.numbers:
            found += _functions_of(one.name, float(one.values))
        sizes: dict[int, str] = {}
        total = math.prod(shape)
        if len(shape) == 1:
            sizes[total] = f"the number of elements of `{of}`"
        for axis, size in enumerate(shape):
            sizes.setdefault(size, f"the size of axis {axis} of `{of}`")
        sizes.setdefault(total, f"the number of elements of `{of}`")
        for axis in range(1, len(shape) - 1):
            rest = math.prod(shape[axis:])
            sizes.setdefault(rest, f"the elements of `{of}` from axis {axis} on")
        for one in self.tensors:
            for axis, size in enumerate(one.values.shape):
                sizes.setdefault(size, f"the size of axis {axis} of `{one.name}`")
            sizes.setdefault(one.values.numel(), f"the size of `{one.name}`")
        for size, words in sizes.items():
            if size > 2:
                found += _sizes(size, words)
        found += self._counts()
        found += [Number(str(k), float(k), 3) for k in _SMALL]
        found += [Number(f"1/{k}", 1 / k, 3) for k in _SMALL]
        found += [
            Number("pi", math.pi, 4),
            Number("2 pi", 2 * math.pi, 4),
            Number("1/pi", 1 / math.pi, 4),
            Number("sqrt(2)", math.sqrt(2), 4),
            Number("1/sqrt(2)", math.sqrt(0.5), 4),
            Number("ln 2", math.log(2), 4),
            Number("1/ln 2", 1 / math.log(2), 4),
            Number("2/3", 2 / 3, 4),
            Number("3/2", 1.5, 4),
            Number("4/3", 4 / 3, 4),
            Number("3/4", 0.75, 4),
        ]
        return sorted(found, key=lambda n: n.rank)


def _shares(words: str, mask: Tensor) -> list[Number]:
    """How many elements a mask has, and what share of all."""
    count, total = int(torch.count_nonzero(mask)), mask.numel()
    if not 1 < count < total:
        return []
    some, one = f"the elements where {words}", f"one over the elements where {words}"
    both = f"the share of elements where {words}"
    return [
        Number(str(count), float(count), 2, some),
        Number(f"1/{count}", 1 / count, 2, one),
        Number(f"{count}/{total}", count / total, 2, both),
        Number(f"{total}/{count}", total / count, 2, f"one over {both}"),
    ]


def output_names(trial: Trial) -> dict[str, str]:
    """What forward itself calls its outputs, where it returns plain names."""
    definition = trial.subject.definition
    method = method_of(definition.forward) if definition is not None else None
    if method is None or len(method.returns) != 1:
        return {}
    elements = method.returns[0].elements
    texts = [e.text if e is not None else "" for e in elements]
    labels = (
        ["output"] if len(texts) == 1 else [f"output[{k}]" for k in range(len(texts))]
    )
    taken = set(trial.names)
    return {
        label: text
        for label, text in zip(labels, texts, strict=True)
        if text.isidentifier() and text not in taken
    }


def _divides(values: Tensor) -> bool:
    return bool((values != 0).all()) and bool(torch.isfinite(values).all())


def is_constant(values: Tensor) -> bool:
    """Whether all elements are one number, so that it is no factor of its own."""
    if values.numel() < 2:
        return values.numel() == 0
    flat = values.reshape(-1)
    return _is_constant(flat[:_SAMPLE]) and _is_constant(flat)


def _is_constant(flat: Tensor) -> bool:
    return bool(((flat - flat[0]).abs() <= _LEAST_DISTINCT * flat[0].abs()).all())


def _functions_of(name: str, s: float) -> list[Number]:
    pairs = [
        (f"`{name}`", s),
        (f"1/`{name}`", _inverse(s)),
        (f"`{name}`**2", s * s),
        (f"1/`{name}`**2", _inverse(s * s)),
        (f"2 `{name}`", 2 * s),
        (f"1 - `{name}`", 1 - s),
        (f"1/(1 - `{name}`)", _inverse(1 - s)),
        (f"1 + `{name}`", 1 + s),
        (f"sqrt(`{name}`)", math.sqrt(abs(s))),
        (f"log(`{name}`)", math.log(s) if s > 0 else math.inf),
        (f"1/sqrt(`{name}`)", _inverse(math.sqrt(abs(s)))),
    ]
    usable = [(n, v) for n, v in pairs if math.isfinite(v) and v not in (0, 1, -1)]
    return [
        Number(n if v > 0 else f"-({n})", abs(v), 1 + (k > 0), f"{abs(v):g}")
        for k, (n, v) in enumerate(usable)
    ]


def _sizes(size: int, words: str) -> list[Number]:
    return [
        Number(f"{size}", float(size), 2, words),
        Number(f"1/{size}", 1 / size, 2, f"one over {words}"),
        Number(f"sqrt({size})", math.sqrt(size), 4, f"the root of {words}"),
        Number(f"1/sqrt({size})", size**-0.5, 4, f"one over the root of {words}"),
        Number(f"{size - 1}", float(size - 1), 4, f"one less than {words}"),
        Number(f"{size}/{size - 1}", size / (size - 1), 4, f"n/(n - 1), n {words}"),
        Number(f"{size - 1}/{size}", (size - 1) / size, 4, f"(n - 1)/n, n {words}"),
        Number(f"2/{size}", 2 / size, 3, f"two over {words}"),
    ]


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf
