"""BP106: what is not a derivative says what it is."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.declaring import as_gradient, as_soft, texts
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.diagnosis.surrogate import CALLS, Found, Shape, shape_of
from backproof.records import Evidence, Number, broken

_PLAIN = "backward is not zero, and nothing is declared"
_NO_DERIVATIVE = (
    "its true derivative is zero, so this gradient is a surrogate; whether it is the one "
    "that is meant cannot be checked"
)
_DECLARE = (
    "Declare the gradient that is meant: `EXPECT(cotangent, *inputs)` in the file, or "
    "`expect=` a soft function whose derivative it is."
)
_MOST_INPUTS = 4  # whose shape is looked for
_MOST_NAMED = 3  # values that are named


def _explained(examination: Examination) -> Iterator[Evidence]:
    """What the gradient is as a function of each input, and the line that declares it.

    Cost: 80 forwards and backwards an input at most, and BP107's for each line tried.
    """
    trial = examination.trial
    named = texts(trial)
    seed = examination.seed
    found = [
        shape_of(trial, k, named, calls=CALLS if k == 0 else CALLS // 2, seed=seed)
        for k in range(len(trial.inputs[:_MOST_INPUTS]))
    ]
    shapes = {f.name: f.shape for f in found if f.shape is not None}
    _add_sums(examination, shapes, named)
    lines: list[str] = []
    remedy, numbers = _DECLARE, _numbers(found, shapes)
    stairs = _stairs(examination)
    told = _told([one for one in found if one.name in stairs], shapes)
    sent = _PLAIN
    if told is not None:
        sent = f"backward sends to `{told.name}`: {shapes[told.name].words}"
    title = f"{_constant(examination)}, {sent}"
    for one in found:
        shape = shapes.get(one.name)
        if one.name in stairs or shape is not None:
            lines += _lines(one, shape, told=one is told)
    lines += _beside(examination)
    if len(shapes) == len(trial.inputs):
        gradient = as_gradient(examination, shapes)
        everywhere = not any(one.infinite for one in found)
        soft = as_soft(examination, shapes, everywhere=everywhere)
        if gradient is not None and gradient.holds:
            remedy = f"Declare it, in a file as `EXPECT`: `{gradient.line}`"
            numbers["declaration"] = gradient.line
        elif gradient is not None:
            lines.append(f"declared as that, BP107 would say: {gradient.words}")
        if soft is not None:
            numbers["soft_declaration"] = soft.line
            if gradient is not None and gradient.holds:
                remedy += f", or define it: `{soft.line}`"
            else:
                finite = "" if everywhere else ", which is finite everywhere"
                remedy = f"Define it: `{soft.line}`{finite}"
    elif told is not None:
        lines.append(f"as code, for `{told.name}`: `{shapes[told.name].gradients[0]}`")
    yield broken(
        "\n".join([title, *lines, _NO_DERIVATIVE]),
        numbers,
        where=Places(trial).returned(),
        remedy=remedy,
    )


@law("BP106", explain=_explained)
def surrogate(examination: Examination) -> Iterator[Evidence]:
    """An op whose forward is piecewise constant declares the gradient that it means.

    Cost: none beside BP101's; where it accuses, 80 calls an input to tell the gradient's
    shape.
    Blind to: stairs finer than a few units in the last place of the inputs.
    """
    if examination.trial.subject.declared:
        raise NotApplicable("its gradient is declared: see BP107")
    if examination.gradient.kind is not Kind.STAIRCASE:
        raise NotApplicable("forward is not piecewise constant")
    yield broken(
        f"{_constant(examination)}, {_PLAIN}\n{_NO_DERIVATIVE}",
        where=Places(examination.trial).returned(),
        remedy=_DECLARE,
    )


# ------------------------------------------------------------------------------- words


def _stairs(examination: Examination) -> tuple[str, ...]:
    """The inputs that forward is piecewise constant in."""
    every = tuple(i.name for i in examination.trial.inputs)
    return examination.gradient.stairs or every


def _constant(examination: Examination) -> str:
    stairs = examination.gradient.stairs
    named = ", ".join(f"`{name}`" for name in stairs)
    return f"forward is piecewise constant{f' in {named}' if named else ''}"


def _beside(examination: Examination) -> Iterator[str]:
    """What of the other inputs cannot be told from a mistake."""
    found = examination.gradient
    wrong = found.decided_by.wrong_inputs if found.stairs else ()
    for name in wrong:
        if name not in found.stairs:
            yield (
                f"the gradient of `{name}` is not forward's derivative either: forward "
                "jumps along it too, so it may belong to the surrogate"
            )


def _told(found: list[Found], shapes: dict[str, Shape]) -> Found | None:
    """The first input that backward is known to send something to."""
    known = (f for f in found if f.name in shapes and shapes[f.name].name != "zero")
    return next(known, None)


def _lines(one: Found, shape: Shape | None, *, told: bool) -> Iterator[str]:
    if shape is None:
        yield f"what backward sends to `{one.name}` is not explained: {one.why}"
        yield from _table(one)
    else:
        measured = f", measured at {one.points} values" if one.points else ""
        yield f"`{one.name}`: {shape.name if told else shape.words}{measured}"
    if one.infinite:
        listed = ", ".join(f"{v:.4g}" for v in one.infinite[:_MOST_NAMED])
        more = ", ..." if len(one.infinite) > _MOST_NAMED else ""
        yield f"it is not finite where `{one.name}` is {listed}{more}"


def _table(one: Found) -> Iterator[str]:
    """A small table of values and slopes, as two rows."""
    if not one.pairs:
        return
    columns = [(f"{x:.3g}", f"{y + 0.0:.3g}") for x, y in one.pairs]
    widths = [max(map(len, pair)) for pair in columns]
    heads = (f"`{one.name}`", "gradient")
    head = max(map(len, heads))
    for row in range(2):
        cells = (c[row].rjust(w) for c, w in zip(columns, widths, strict=True))
        yield f"{heads[row]:<{head}}  {'  '.join(cells)}"


def _numbers(found: list[Found], shapes: dict[str, Shape]) -> dict[str, Number]:
    numbers: dict[str, Number] = {}
    for one in found:
        shape = shapes.get(one.name)
        name = "not explained" if shape is None else shape.name
        if numbers:
            numbers[f"shape of {one.name}"] = name
            continue
        numbers = {"input": one.name, "shape": name}
        numbers |= {} if shape is None else shape.numbers
        numbers["values"] = [x for x, _ in one.pairs]
        numbers["gradients"] = [y for _, y in one.pairs]
    return numbers


# -------------------------------------------------------------------------------- sums


def _add_sums(
    examination: Examination, shapes: dict[str, Shape], named: dict[str, str]
) -> None:
    """Inputs whose gradient is the sum of another's: a threshold that is subtracted."""
    trial = examination.trial
    claims = dict(
        zip(
            [i.name for i in trial.inputs],
            examination.pull(examination.cotangents[0]),
            strict=True,
        )
    )
    for one in trial.inputs:
        if one.name in shapes:
            continue
        for other in trial.inputs:
            shape, theirs = shapes.get(other.name), claims[other.name]
            mine = claims[one.name]
            if shape is None or theirs is None or mine is None:
                continue
            sign = _sign_of_sum(mine, theirs, one.original, other.original)
            if sign is None:
                continue
            text, minus = named.get(one.name, one.name), "minus " if sign else ""
            summed = one.original.shape != other.original.shape
            form = f".sum_to_size({text}.shape)" if summed else ""
            shapes[one.name] = Shape(
                "sum of another's" if summed else "as another's",
                f"{minus}{'the sum of ' if summed else ''}what `{other.name}` gets",
                {"other": other.name, "factor": -1 if sign else 1},
                tuple(f"{sign}({g}){form}" for g in shape.gradients),
            )
            break


def _sign_of_sum(
    mine: Tensor, theirs: Tensor, one: Tensor, other: Tensor
) -> str | None:
    """`-` or nothing where one gradient is the other's, summed to its form."""
    try:
        summed = theirs.reshape(other.shape).sum_to_size(one.shape).reshape(-1)
        size = theirs.reshape(other.shape).abs().sum_to_size(one.shape).reshape(-1)
    except RuntimeError:
        return None
    reach = 64 * torch.finfo(one.dtype).eps * size
    if not bool(summed.abs().gt(reach).any()):
        return None
    for sign, text in ((1.0, ""), (-1.0, "-")):
        if bool(((mine - sign * summed).abs() <= reach).all()):
            return text
    return None
