"""One input of a surrogate -> the shape of its gradient, or the points that were seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.surrogate.curve import Argument, Curve, NotElementwise, itself
from backproof.diagnosis.surrogate.families import smooth
from backproof.diagnosis.surrogate.levels import steps
from backproof.diagnosis.surrogate.plain_number import hints_of
from backproof.diagnosis.surrogate.shape import Shape
from backproof.errors import BadInput
from backproof.probe import ANYWHERE, real_dtype, typical
from backproof.trial import BackwardRaised, Refused, Trial

CALLS = 80  # that one input may take
_FIRST = 32  # of them before anything is known
_STEEPEST = 8  # elements, by the size of their slopes
_OWN = 24  # of the case's own values that are asked
_FAR = 1e3  # times the case's values: where a declaration is compared as well
_FAR_FLOAT16 = 1e2
_PAIRS = 9  # that are shown of a slope without a name
_COARSE = (torch.float16, torch.bfloat16)
_LONG = re.compile(r"\d\.\d{7}")


@dataclass(frozen=True)
class Found:
    """What backward does with one input.

    Attributes:
        name: the input's.
        shape: None where it has none of the known ones.
        why: then why not, in a few words.
        pairs: some (value, slope), in ascending order.
        infinite: the values, of those asked, at which the slope is not finite.
        points: how many values were asked.
    """

    name: str
    shape: Shape | None
    why: str = ""
    pairs: tuple[tuple[float, float], ...] = ()
    infinite: tuple[float, ...] = ()
    points: int = 0


def shape_of(
    trial: Trial,
    index: int,
    named: Mapping[str, str],
    *,
    calls: int = CALLS,
    seed: int = 0,
) -> Found:
    """The shape of the gradient of one input of a subject with one output.

    In float64 where the types are coarse.

    Args:
        trial: the subject on its case.
        index: of the input among the trial's.
        named: how code calls each argument, by its name.
        calls: how many forwards and backwards it may take; half as many again where
            its numbers are plainer beside another argument.
        seed: of cotangents and places.
    """
    name = trial.inputs[index].name
    trial = _fine(trial)
    why = _unsuited(trial, index)
    if why:
        return Found(name, None, why)
    curve = Curve(trial, index, calls, seed)
    try:
        argument = _argument(curve, named)
        if isinstance(argument, Shape):
            return _found(curve, argument)
        shape = _shape(curve, argument)
        if not curve.points:
            return Found(name, None, "no gradient is finite")
    except NotElementwise as reason:
        return _found(curve, None, str(reason))
    if shape is not None and _is_long(shape):
        shape = _in_terms_of_numbers(curve, named, seed) or shape
    return _found(curve, shape, "" if shape else "not one of the known shapes")


def _shape(curve: Curve, argument: Argument) -> Shape | None:
    curve.use(argument)
    hints = [curve.shortest(h) for h in hints_of(_numbers(curve))]
    own = argument.value(curve.here)
    steep = own[_steepest(curve)] if curve.at_case is not None else own[:0]
    curve.ask([*steep.tolist(), *_first(curve, own, hints)])
    return (steps(curve, hints) or smooth(curve, hints)) if curve.points else None


def _steepest(curve: Curve) -> Tensor:
    """Where the case's own slopes are largest: a narrow one shows nowhere else."""
    assert curve.at_case is not None
    size = curve.at_case.abs().nan_to_num(0.0, 0.0, 0.0)
    found = size.topk(min(_STEEPEST, size.numel()))
    return found.indices[found.values > 0]


def _is_long(shape: Shape) -> bool:
    """Whether it holds a number that nobody has written."""
    return bool(shape.gradients) and _LONG.search(shape.gradients[0]) is not None


def _in_terms_of_numbers(
    curve: Curve, named: Mapping[str, str], seed: int
) -> Shape | None:
    """The shape as a function of `x / scale` or the like, if its numbers are plain then."""
    trial, index = curve.trial, curve.index
    mine = _called(named, trial.inputs[index].name)
    for label, value in _single(curve):
        for sign in ("/", "-", "*") if label in named else ():
            argument = _relation(mine, sign, named[label], value)
            if argument is None:
                continue
            other = Curve(trial, index, CALLS // 2, seed)
            try:
                found = _shape(other, argument)
            except NotElementwise:
                continue
            if found is not None and not _is_long(found):
                return found
    return None


def _called(named: Mapping[str, str], name: str) -> str:
    return named.get(name, name)


def _fine(trial: Trial) -> Trial:
    """In float64 where the types are coarse and the subject runs there."""
    if not any(real_dtype(t) in _COARSE for t in trial.dtypes):
        return trial
    wide = trial.in_float64()
    if wide is None:
        return trial
    try:
        graph = wide.record()
        wide.pull(graph, torch.ones_like(graph.values))
    except (BadInput, Refused, BackwardRaised):
        return trial
    return trial if any(real_dtype(t) in _COARSE for t in wide.dtypes) else wide


def _unsuited(trial: Trial, index: int) -> str:
    one = trial.inputs[index]
    if len(trial.outputs) != 1:
        return f"it has {len(trial.outputs)} outputs"
    if one.original.is_complex() or trial.outputs[0].dtype.is_complex:
        return "it is complex"
    if trial.outputs[0].shape != one.original.shape:
        return "its form is not that of the output, so it is not elementwise"
    if one.point.domain != ANYWHERE:
        return "its domain is bounded, so it cannot be moved at will"
    return ""


def _found(curve: Curve, shape: Shape | None, why: str = "") -> Found:
    values, slopes = curve.known
    pairs: list[tuple[float, float]] = []
    if not values.numel() and curve.at_case is not None:
        finite = torch.isfinite(curve.at_case) & torch.isfinite(curve.here)
        values, order = curve.here[finite].sort()
        slopes = curve.at_case[finite][order]
    if values.numel():
        reach = 3 * typical(curve.argument.value(curve.here))
        even = torch.linspace(-reach, reach, _PAIRS, dtype=torch.float64)
        nearest = [int((values - one).abs().argmin()) for one in even]
        pairs = [(float(values[k]), float(slopes[k])) for k in dict.fromkeys(nearest)]
    return Found(
        curve.trial.inputs[curve.index].name,
        shape,
        why,
        tuple(pairs),
        tuple(sorted(curve.infinite)),
        int(values.numel()),
    )


def _numbers(curve: Curve) -> list[float]:
    """The plain numbers among the arguments, and tensors of one element."""
    return [float(value) for _, value in _single(curve) if value.numel()]


def _single(curve: Curve) -> Iterator[tuple[str, Tensor]]:
    """(name, value) of the arguments that are one real number, the input itself aside."""
    trial = curve.trial
    for label, leaf in zip(trial.names, trial.leaves, strict=True):
        if label == trial.inputs[curve.index].name:
            continue
        if type(leaf) in (int, float):
            yield label, torch.tensor(float(leaf), dtype=torch.float64)
        elif isinstance(leaf, Tensor) and leaf.numel() == 1 and not leaf.is_complex():
            yield label, leaf.detach().to("cpu", torch.float64).reshape(())


def _first(curve: Curve, own: Tensor, hints: Sequence[float]) -> Iterator[float]:
    """Values over many decades, the case's own among them."""
    room = max(_FIRST * curve.size, _FIRST)
    size = typical(own)
    far = _FAR_FLOAT16 if curve.trial.outputs[0].dtype == torch.float16 else _FAR
    finite = own[torch.isfinite(own)]
    ordered = finite.sort().values
    stride = max(1, -(-ordered.numel() // _OWN))
    mine = ordered[::stride].tolist()
    decades = [1.07 * 2.0**k for k in range(8, -12, -1)]
    if room < 64:
        mine, decades = mine[:2], decades[::3]
    yield from mine
    yield 0.0
    for one in (*decades, far * size):
        yield one
        yield -one
    for hint in hints[: room // 4]:
        yield hint
        yield hint + 0.13 * abs(hint)
        yield hint - 0.11 * abs(hint)


# ------------------------------------------------------------ what it is a function of


def _argument(curve: Curve, named: Mapping[str, str]) -> Argument | Shape:
    """What the slope is a function of; a shape where another input alone decides.

    Raises:
        NotElementwise: it is a function of none of the candidates.
    """
    here = curve.here
    first = curve.slopes(here)
    again = curve.slopes(here)
    curve.at_case = first
    if not curve.same(first, again):
        raise NotElementwise(
            "it depends on several elements of the cotangent, or on the cotangent's size"
        )
    mine = itself(_called(named, curve.trial.inputs[curve.index].name))
    if curve.size == 1 or _follows(curve, mine, first):
        return _with_moving(curve, named, mine, first)
    for argument in _relations(curve, named):
        if _follows(curve, argument, first):
            return argument
    moved = curve.slopes(here.roll(1) * 1.3 + 0.1)
    if curve.same(first, moved):
        found = _mask(curve, named, first)
        if found is not None:
            return found
        raise NotElementwise("it depends on the place of an element, not on its value")
    raise NotElementwise("it depends on more than the element's own value")


def _with_moving(
    curve: Curve, named: Mapping[str, str], mine: Argument, first: Tensor
) -> Argument:
    """The input, or its relation to another that is differentiated and has one element.

    Those can be moved, which tells the relation.
    """
    trial = curve.trial
    for k, other in enumerate(trial.inputs):
        if k == curve.index or other.point.values.numel() != 1:
            continue
        alone = [p.values for p in trial.points]
        value = alone[k]
        alone[k] = 1.7 * value + 0.37
        if _alike(curve, curve.slopes_where(alone), first):
            continue
        for sign, moved, along in (
            ("-", value + 0.37, curve.here + 0.37),
            ("/", 1.75 * value, 1.75 * curve.here),
            ("*", 2 * value, curve.here / 2),
        ):
            together = list(alone)
            together[k], together[curve.index] = moved, along
            if not _alike(curve, curve.slopes_where(together), first):
                continue
            text = _called(named, other.name)
            found = _relation(mine.text, sign, text, value.reshape(()))
            if found is not None:
                return found
        raise NotElementwise(f"it also depends on `{other.name}`")
    return mine


def _relation(mine: str, sign: str, other: str, y: Tensor) -> Argument | None:
    """`mine sign other`, None where it could not be turned round.

    Shapes: y float64 (n,) or ().
    """
    if sign == "-":
        return Argument(f"{mine} - {other}", lambda x: x - y, lambda z: z + y)
    if not bool((y != 0).all()) or not bool(torch.isfinite(y).all()):
        return None
    if sign == "*":
        return Argument(f"{mine} * {other}", lambda x: x * y, lambda z: z / y)
    return Argument(f"{mine} / {other}", lambda x: x / y, lambda z: z * y)


def _follows(curve: Curve, argument: Argument, first: Tensor) -> bool:
    """Whether slopes travel with the argument's values, whatever stands elsewhere."""
    value = argument.value(curve.here)
    rolled = argument.input(value.roll(1))
    if not _alike(curve, curve.slopes(rolled), first.roll(1)):
        return False
    half = torch.arange(curve.size) % 2 == 0
    other = torch.where(half, value, 2.7 * value.roll(1) + 0.3)
    mixed = curve.slopes(argument.input(other))
    return _alike(curve, mixed[half], first[half])


def _alike(curve: Curve, a: Tensor, b: Tensor) -> bool:
    """Equal up to rounding of an argument, but for a few that may cross a jump."""
    both = torch.isfinite(a) & torch.isfinite(b)
    if not bool(both.any()):
        return False
    size = b.abs().clamp(min=float(b[both].abs().max()) * 1e-2)
    off = (a - b).abs()[both] > 1e3 * curve.eps * size[both]
    return float(off.double().mean()) <= 0.05


def _relations(curve: Curve, named: Mapping[str, str]) -> Iterator[Argument]:
    """The input beside another tensor of the call: their difference, their quotient."""
    mine = curve.trial.inputs[curve.index]
    for label, leaf in _others(curve, named):
        y = leaf.expand(mine.original.shape).reshape(-1)
        for sign in ("-", "/", "*"):
            found = _relation(_called(named, mine.name), sign, label, y)
            if found is not None:
                yield found


def _others(curve: Curve, named: Mapping[str, str]) -> Iterator[tuple[str, Tensor]]:
    """(text, values) of the other tensors that spread over the input's form."""
    trial = curve.trial
    mine = trial.inputs[curve.index]
    shape = mine.original.shape
    for label, leaf in zip(trial.names, trial.leaves, strict=True):
        if not isinstance(leaf, Tensor) or label == mine.name or leaf.numel() < 2:
            continue
        if label not in named or leaf.is_complex():
            continue
        try:
            leaf.expand(shape)
        except RuntimeError:
            continue
        yield named[label], leaf.detach().to("cpu", torch.float64)


def _mask(curve: Curve, named: Mapping[str, str], slopes: Tensor) -> Shape | None:
    """The cotangent times another tensor, or where a condition on that holds."""
    shape = curve.trial.inputs[curve.index].original.shape
    for label, leaf in _others(curve, named):
        y = leaf.expand(shape).reshape(-1)
        if curve.same(slopes, y):
            return Shape(
                "product with another input",
                f"the cotangent times `{label}`",
                {"other": label},
                (f"g * {label}",),
            )
        for text, mask in (
            (f"{label} != 0", y != 0),
            (f"{label} == 0", y == 0),
            (f"{label} > 0", y > 0),
            (f"{label} >= 0", y >= 0),
            (f"{label} < 0", y < 0),
            (f"{label} <= 0", y <= 0),
        ):
            if curve.same(slopes, mask.double()):
                return Shape(
                    "identity under a mask",
                    f"the identity where `{text}`, zero elsewhere",
                    {"other": label},
                    (f"g * ({text})",),
                )
    return None
