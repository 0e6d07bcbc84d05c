"""BP104: backward is linear, and uses every cotangent that it is handed.

Halving commutes with rounding, so a linear backward returns exactly -1/2 times its
gradient; that one call convicts abs(g), clamp(g), sign(g), g**3, a product of two
cotangents and a gradient that ignores them all. Adding two cotangents convicts what is
homogeneous without being linear, such as clipping by norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.inquiry.look import relative
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.diagnosis.relation import number
from backproof.probe import is_finite
from backproof.records import Evidence, Location, broken, held
from backproof.trial import BackwardRaised
from backproof.trial.declaration import gradient_of
from backproof.trial.vectors import Vector, minus, norm

_MOST_OUTPUTS = 16  # outputs that are each given a backward of their own
_ROUNDINGS = 64.0  # of eps: what a sum of two cotangents may differ by
_MOST_ROUNDING = 0.1  # and never more than this
_ROUNDED_AWAY = 1e-2  # of a sum of cotangents, beyond which it is another cotangent
_LARGE = 8.0  # of a cotangent: beyond what a declared clip lets through
_SCALED = -0.5  # not -2, which could leave float16's range


@law("BP104")
def linear_in_cotangent(examination: Examination) -> Iterator[Evidence]:
    """Backward is linear in its cotangents and uses each of them.

    Cost: 2 backwards, and one for each output when there are several.
    Blind to: departures that show only for cotangents of another scale or with zeros.
    """
    if _declared_otherwise(examination):
        raise NotApplicable("the declared gradient is not linear itself: see BP107")
    first, second = examination.cotangents
    one, two = examination.pull(first), examination.pull(second)
    if not all(g is None or is_finite(g) for g in (*one, *two)):
        raise NotApplicable("the gradient is not finite: see BP109")
    scaled = examination.pull(examination.trial.represent(first * _SCALED))
    answer = partial(_answer, scaled, one)
    yield _compare(
        examination,
        "a cotangent of the opposite sign and half the size",
        scaled,
        [_times(g, _SCALED) for g in one],
        beside=one,
        exact=True,
        answer=answer,
    )
    sum_of_both = (first + second) / 4  # smaller, to stay in range
    together = examination.trial.represent(sum_of_both)
    rounding = (together - sum_of_both).abs()
    if not bool((rounding > _ROUNDED_AWAY * sum_of_both.abs()).any()):
        # The outputs' type can hold the sum.
        yield _compare(
            examination,
            "the sum of two cotangents",
            examination.pull(together),
            [_quarter(_sum(a, b)) for a, b in zip(one, two, strict=True)],
            beside=two,
            answer=answer,
        )
    yield from _each_output(examination, first, one)


def _declared_otherwise(examination: Examination) -> bool:
    """Whether what is declared is no linear function of the cotangent, such as a clip."""
    trial = examination.trial
    if trial.subject.expect_backward is None:
        return False
    values = [p.values for p in trial.points]

    def declared(cotangent: Tensor) -> list[Tensor | None]:
        return gradient_of(trial, values, trial.split(cotangent))

    return any(
        norm(minus(declared(u * scale), [_times(g, scale) for g in declared(u)]))
        > _MOST_ROUNDING * norm(declared(u * scale))
        for u in examination.cotangents
        for scale in (_SCALED, _LARGE)
    )


def _times(a: Tensor | None, scale: float) -> Tensor | None:
    return None if a is None else a * scale


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else a + b


def _quarter(a: Tensor | None) -> Tensor | None:
    return None if a is None else a / 4


def _compare(
    examination: Examination,
    what: str,
    got: Vector,
    expected: Vector,
    *,
    beside: Vector,
    exact: bool = False,
    answer: Callable[[], str] = str,
) -> Evidence:
    """Whether two gradients are the same, relative to them and to one `beside` them.

    `exact` says that no correct backward rounds the one otherwise than the other;
    `answer` is added to what is said where they differ.
    """
    gap, size, natural = examination.sizes(minus(got, expected), expected, beside)
    precision = examination.inquiry.precision
    rounding = min(_ROUNDINGS * precision.eps, _MOST_ROUNDING)
    allowed = precision.linear / 100 if exact else max(rounding, precision.linear)
    # Cancellation may leave a gradient that is rounding beside the natural slope.
    dust = min(_ROUNDINGS * precision.eps / allowed, _MOST_ROUNDING)
    floor = max(precision.null, dust) * natural
    share = relative(gap, max(size, floor))
    noise = examination.inquiry.observer.backward_noise
    if noise is not None:
        allowed = max(allowed, 4 * relative(examination.sizes(noise)[0], size))
    numbers = {"departure": share, "allowed": allowed}
    if share > allowed and share < 1:
        # A backward this sensitive to its inputs' last digits rounds anew every time.
        allowed = max(allowed, 32 * examination.conditioning)
    if share <= allowed:
        return held(f"{what} gives the gradient that linearity asks for", numbers)
    return broken(
        f"backward is not linear in its cotangent{answer()}\n"
        f"for {what}\n"
        f"it is {share:.2g} away from what linearity asks for; rounding explains "
        f"{allowed:.1g}",
        numbers,
        where=_place(examination, got, expected),
    )


def _answer(got: Vector, gradient: Vector) -> str:
    """What backward makes of -1/2 times a cotangent, where that is plain."""
    pairs = [
        (a, b)
        for a, b in zip(got, gradient, strict=True)
        if a is not None and b is not None and bool(b.any())
    ]
    if not pairs:
        return ""
    if all(torch.equal(a, _SCALED * b) for a, b in pairs):
        return ""
    mine, plain = (torch.cat(side) for side in zip(*pairs, strict=True))
    if torch.equal(mine, plain):
        return ": it is not used"
    if torch.equal(mine, -_SCALED * plain):
        return ": its sign is lost"
    if torch.equal(mine, -plain):
        return ": its size is lost"
    scale = float(mine @ plain / (plain @ plain))
    if float((mine - scale * plain).abs().max()) > 1e-6 * float(mine.abs().max()):
        return ""
    return f": -1/2 of it gives {number(scale)} of the gradient"


def _place(examination: Examination, got: Vector, expected: Vector) -> Location | None:
    """The gradient of the one input for which it is so, else the return."""
    places = Places(examination.trial)
    off = [
        i.name
        for i, a, b in zip(examination.trial.inputs, got, expected, strict=True)
        if a is not None and b is not None and not torch.allclose(a, b)
    ]
    return places.gradient(off[0]) if len(off) == 1 else places.returned()


def _each_output(
    examination: Examination, cotangent: Tensor, whole: Vector
) -> Iterator[Evidence]:
    """The gradients through single outputs add up to the gradient through all."""
    trial = examination.trial
    if not 1 < len(trial.outputs) <= _MOST_OUTPUTS:
        return
    total: list[Tensor | None] = [None] * len(trial.inputs)
    largest: Vector = whole
    for k in range(len(trial.outputs)):
        try:
            part = trial.pull(examination.base.graph, cotangent, outputs=[k])
        except BackwardRaised:
            return  # see BP506
        total = [_sum(a, b) for a, b in zip(total, part, strict=True)]
        largest = max(largest, part, key=norm)
    evidence = _compare(
        examination, "the sum over single outputs", total, whole, beside=largest
    )
    if evidence.holds:
        yield evidence
        return
    yield broken(
        "the gradients through single outputs do not add up\n"
        "backward for one output at a time, summed, differs from backward for all "
        f"together by {evidence.numbers['departure']:.2g} of the gradient:\n"
        "a cotangent is dropped, or mixed with another",
        evidence.numbers,
        where=Places(trial).returned(),
        remedy="Add the terms of all outputs, each linear in the cotangent of its own.",
    )
