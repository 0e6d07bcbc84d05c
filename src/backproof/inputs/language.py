"""The language of input strings: one line that says what a call is given.

    f64[3,10] f32[5,10]@cuda *bf16[8] i64[4]<10 f64[4,4]spd None 0.5 "text" dim=-1

    arguments  = argument, separated by spaces or a comma
    argument   = [name "="] (tensor | value)
    tensor     = ["*"] dtype "[" dimensions "]" {"@" device | bound | structure}
    dtype      = f16 f32 f64 bf16 c64 c128 i8 i16 i32 i64 u8 b
    bound      = ("<" | "<=" | ">" | ">=") number | "in(" number "," number ")"
    structure  = "spd" | "sym" | "sorted" | "simplex"
    value      = None, True, False, a number, a quoted text, a tuple or list of these

`*` says that a tensor needs no gradient; integers never do. A bound holds for every
element; `<` and `<=` are the same for real numbers, which never sit on a bound. For
integers `in(0,5)` is Python's `range(0, 5)`. `spd` is symmetric positive definite,
`sym` symmetric; `sorted` rises along the last axis, and `simplex` is positive and sums
to one along it.

Reading a string needs no torch; `draw.py` turns what was read into tensors.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from backproof.errors import BadInput

if TYPE_CHECKING:
    from backproof.probe.domain import Structure

DTYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "b": "bool",
}
STRUCTURES: tuple[Structure, ...] = ("spd", "sym", "sorted", "simplex")

_LONG_NAMES = {long: short for short, long in DTYPES.items()} | {
    "double": "f64",
    "float": "f32",
    "half": "f16",
    "cfloat": "c64",
    "cdouble": "c128",
    "long": "i64",
    "int": "i32",
}
_ITEM = (
    "a tensor such as `f64[3,10]`, None, True, False, a number, a text in quotes, "
    "or a tuple of these"
)
_NUMBER = r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_WORD = r"[A-Za-z_]\w*"
_SUFFIX = (
    rf"\s*(?:@|[<>]=?|in\s*\(|(?:{'|'.join(STRUCTURES)})\b(?!\s*=))"
    r"|[a-z]\w*\b(?!\s*\[)"  # glued on and no structure: named in the error
)
_SHOWN = 60  # columns of a long string that are shown around the place of an error


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to draw.

    Attributes:
        dtype: its name in this language, a key of `DTYPES`.
        shape: its dimensions, none for a scalar.
        needs_gradient: whether it is to be differentiated; never for integers.
        device: such as `cuda:1`, None for the CPU.
        low: every element is above this, never equal to it.
        high: every element is below this, never equal to it.
        structure: what the whole has to keep.
    """

    dtype: str
    shape: tuple[int, ...]
    needs_gradient: bool = True
    device: str | None = None
    low: float = -math.inf
    high: float = math.inf
    structure: Structure | None = None

    @property
    def is_integer(self) -> bool:
        """Whether its elements are integers or booleans."""
        return self.dtype[0] in "iu" or self.dtype == "b"

    def __str__(self) -> str:
        star = "" if self.needs_gradient or self.is_integer else "*"
        shape = ",".join(map(str, self.shape))
        device = f"@{self.device}" if self.device else ""
        low = f">{_short(self.low)}" if self.low > -math.inf else ""
        high = f"<{_short(self.high)}" if self.high < math.inf else ""
        return f"{star}{self.dtype}[{shape}]{self.structure or ''}{low}{high}{device}"


@dataclass(frozen=True)
class ValueSpec:
    """A plain Python value, given as it is."""

    value: object

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Argument:
    """One argument of the call; `keyword` is None for a positional one."""

    spec: TensorSpec | ValueSpec
    keyword: str | None = None

    def __str__(self) -> str:
        return f"{self.keyword}={self.spec}" if self.keyword else str(self.spec)


def parse(text: str) -> tuple[Argument, ...]:
    """The arguments that `text` describes.

    Raises:
        BadInput: `text` does not parse; the message has a caret under the place.
    """
    return _Reader(re.sub(r"\s", " ", text)).arguments()


class _Reader:
    """Reads one string from left to right; `at` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def arguments(self) -> tuple[Argument, ...]:
        found: list[Argument] = []
        self._skip()
        while self.at < len(self.text):
            start = self.at
            argument = self._argument()
            names = {a.keyword for a in found if a.keyword}
            if argument.keyword is None and names:
                self._fail("a `name=` here: positional arguments come first", start)
            if argument.keyword in names:
                self._fail(f"another name: `{argument.keyword}` is given twice", start)
            found.append(argument)
            self._separator()
        if not found:
            self._fail(f"at least one argument: {_ITEM}")
        return tuple(found)

    def _separator(self) -> None:
        start = self.at
        if self.at < len(self.text) and self.text[self.at] not in " ,":
            self._fail("a space before the next argument")
        self._skip()
        if self._take(","):
            self._skip()
        if self._take(","):
            self._fail("an argument between the commas", start)

    def _argument(self) -> Argument:
        keyword = self._take(rf"({_WORD})\s*=\s*(?!=)", group=1)
        return Argument(self._item(), keyword)

    def _item(self) -> TensorSpec | ValueSpec:
        start = self.at
        starred = self._take(r"\*\s*") is not None
        # A value may stand before a list: `None [1, 2]` is two arguments.
        if self._take(rf"(?!(?:None|True|False)\b)(?={_WORD}\s*\[)") is not None:
            return self._tensor(starred=starred)
        if starred:
            self._fail("a tensor after `*`, such as `*f64[3]`")
        for word, value in [("None", None), ("True", True), ("False", False)]:
            if self._take(rf"{word}\b"):
                return ValueSpec(value)
        if self.text[start : start + 1] in ('"', "'", "(", "["):
            return ValueSpec(self._literal())
        if self._take(rf"(?={_NUMBER}(?![\w.]))") is not None:
            return ValueSpec(self._number())
        return self._fail(self._suggestion() or _ITEM)

    def _suggestion(self) -> str:
        """What was probably meant by a word that is nothing."""
        word = self._take(_WORD)
        if word is None:
            return ""
        self.at -= len(word)
        if word in DTYPES or word in _LONG_NAMES:
            short = _LONG_NAMES.get(word, word)
            return f"a shape: `{short}[3,10]`, or `{short}[]` for a scalar"
        return f'{_ITEM}; a text is written "{word}"'

    def _tensor(self, *, starred: bool) -> TensorSpec:
        start = self.at
        dtype = self._dtype()
        self._take(r"\s*\[\s*")
        spec = TensorSpec(dtype, self._dimensions())
        if starred or spec.is_integer:
            spec = replace(spec, needs_gradient=False)
        while (suffix := self._take(_SUFFIX)) is not None:
            place, suffix = self.at - len(suffix.lstrip()), suffix.strip()
            if suffix == "@":
                spec = replace(spec, device=self._device())
            elif suffix[0] in "<>" or suffix.startswith("in"):
                spec = self._bounded(spec, suffix, place)
            else:
                spec = self._structured(spec, suffix, place)
        self._refuse_nonsense(spec, start)
        return spec

    def _dtype(self) -> str:
        start = self.at
        word = self._take(_WORD) or ""
        if word not in DTYPES:
            hint = f" (write `{_LONG_NAMES[word]}`)" if word in _LONG_NAMES else ""
            self._fail(f"a dtype: {', '.join(DTYPES)}{hint}", start)
        return word

    def _dimensions(self) -> tuple[int, ...]:
        sizes: list[int] = []
        if self._take(r"\]"):
            return ()
        while True:
            size = self._take(r"\d+\s*")
            if size is None:
                self._fail("a dimension, such as 3" + ("" if sizes else ", or `]`"))
            sizes.append(int(size))
            if self._take(r"\]"):
                return tuple(sizes)
            if self._take(r",\s*") is None:
                self._fail("`,` or `]` after the dimension")

    def _device(self) -> str:
        device = self._take(r"[a-z]+(?::\d+)?")
        if device is None:
            self._fail("a device after `@`, such as `cuda` or `cuda:1`")
        return device

    def _bounded(self, spec: TensorSpec, suffix: str, place: int) -> TensorSpec:
        """`spec` with one bound more, or with the two of an interval."""
        low, high = spec.low, spec.high
        self._skip()
        number = float(self._number())
        if suffix[0] == ">":
            low = _just_below(number, spec) if suffix == ">=" else number
        elif suffix[0] == "<":
            high = _just_above(number, spec) if suffix == "<=" else number
        else:
            low, high = _just_below(number, spec), self._end_of_interval()
        if not low < high:
            self._fail("a lower bound that is below the upper one", place)
        return replace(spec, low=low, high=high)

    def _end_of_interval(self) -> float:
        if self._take(r"\s*,\s*") is None:
            self._fail("`,` and the upper bound, as in `in(0,1)`")
        high = float(self._number())
        if self._take(r"\s*\)") is None:
            self._fail("`)` after the upper bound")
        return high

    def _structured(self, spec: TensorSpec, word: str, place: int) -> TensorSpec:
        if word not in STRUCTURES:
            self._fail(f"one of {', '.join(STRUCTURES)}, or a space", place)
        shape = spec.shape
        square = len(shape) >= 2 and shape[-1] == shape[-2]
        if word in ("spd", "sym") and not square:
            self._fail(f"a square matrix for `{word}`, such as f64[4,4]", place)
        if not shape:
            self._fail(f"at least one axis for `{word}`", place)
        return replace(spec, structure=word)

    def _refuse_nonsense(self, spec: TensorSpec, start: int) -> None:
        """Combinations that parse and mean nothing."""
        long_name = DTYPES[spec.dtype]
        bounded = spec.low > -math.inf or spec.high < math.inf
        if bounded and spec.dtype in ("b", "c64", "c128"):
            self._fail(f"no bound: {long_name} has no order", start)
        if bounded and spec.structure in ("spd", "simplex"):
            self._fail(f"no bound beside `{spec.structure}`", start)
        if spec.structure and spec.dtype in ("b", "c64", "c128"):
            self._fail(f"no structure: {long_name} cannot be `{spec.structure}`", start)
        if spec.structure not in (None, "sorted") and spec.is_integer:
            self._fail(f"a real dtype for `{spec.structure}`", start)

    def _number(self) -> float | int:
        word = self._take(rf"{_NUMBER}(?![\w.])")
        if word is None:
            self._fail("a number")
        return int(word) if word.lstrip("+-").isdigit() else float(word)

    def _literal(self) -> object:
        """A quoted text, a tuple or a list, read as Python reads it."""
        start = self.at
        for end in range(start + 1, len(self.text) + 1):
            if self.text[end - 1] not in "\"')]":
                continue
            try:
                value = ast.literal_eval(self.text[start:end])
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            self.at = end
            return value
        closing = {"(": "`)`", "[": "`]`"}.get(self.text[start], "the closing quote")
        return self._fail(f"{closing} of what begins here", start)

    def _skip(self) -> None:
        self._take(r"\s*")

    def _take(self, pattern: str, *, group: int = 0) -> str | None:
        """What `pattern` matches here, stepping past it; None where it does not."""
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[group]

    def _fail(self, expected: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        start = max(0, place - _SHOWN // 2)
        shown = self.text[start : start + _SHOWN]
        before = "…" if start else ""
        after = "…" if start + _SHOWN < len(self.text) else ""
        caret = " " * (len(before) + place - start) + "^"
        raise BadInput(
            f"cannot read these inputs:\n    {before}{shown}{after}\n    {caret}\n"
            f"expected {expected}"
        )


def _just_below(number: float, spec: TensorSpec) -> float:
    """The open lower bound that lets an integer `number` in; reals stay off theirs."""
    return math.ceil(number) - 1.0 if spec.is_integer else number


def _just_above(number: float, spec: TensorSpec) -> float:
    return math.floor(number) + 1.0 if spec.is_integer else number


def _short(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)
