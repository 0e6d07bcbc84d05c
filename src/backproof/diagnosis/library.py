"""The truth as something known times a function of known tensors.

    truth  =  c * base * f,    base / f,    base * f * h,    base * f / h

with f and h from `Known.factors` and c a constant that the call has a name for. Where
the elements of the truth are known one by one, a sample of them decides, and what it
finds is confirmed on all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.cause import named_constant
from backproof.diagnosis.known import Named, is_constant
from backproof.diagnosis.suspect import Suspect
from backproof.diagnosis.witness import Fit, Gradients

_SAMPLE = 768  # elements at which functions are compared
_TIGHT = 1e-3  # of a typical ratio: the bar of one that is compared
_FEWEST = 5  # elements: fewer would fit too many functions
_ROUNDING = 1e-8
_SLACK = 4.0  # bars of a ratio
_MOST_PAIRED = 120  # functions that are combined with one another


@dataclass(frozen=True)
class Match:
    """Gradients that are true, and how they come from the base.

    Attributes:
        label: the factor, with its constant.
        truth: the gradients.
        divided: whether the base is divided by it.
        quotient: whether one function stands where another belongs.
    """

    label: str
    truth: Sequence[Tensor] = ()
    divided: bool = False
    quotient: bool = False


def multiple(suspect: Suspect, base: Gradients) -> Match | None:
    """The plainest function of known tensors that makes `base` the truth."""
    if suspect.is_complex:
        return None
    if suspect.witness.known is not None:
        return _by_sample(suspect, base)
    factors = suspect.known.factors(suspect.shape)
    for one in itertools.islice(factors, suspect.most_tries):
        values = one.values.reshape(-1)
        if is_constant(values[suspect.mask]):
            continue
        found = _confirmed(suspect, base, Match(one.name), values)
        if found is None and bool((values != 0).all()):
            found = _confirmed(suspect, base, Match(one.name, divided=True), values)
        if found is not None:
            return found
    return None


def with_constant(
    suspect: Suspect, product: Gradients
) -> tuple[str, list[Tensor]] | None:
    """(constant, gradients) if a named constant times the product is the truth."""
    if not suspect.witness.fit_scaled(product[:1]).explains:
        return None
    fit = suspect.witness.fit_scaled(product)
    words = constant_words(suspect, fit) if fit.explains else None
    if words is None:
        return None
    return words, [fit.scale * p for p in product]


def constant_words(suspect: Suspect, fit: Fit) -> str | None:
    """The constant to stand before a name: "", "-", "2 * "; None where it has no name."""
    size, sign = abs(fit.scale), "-" if fit.scale < 0 else ""
    if not size:
        return None
    bar = max(3 * fit.scale_bar, _ROUNDING * size)
    if bar > 0.05 * size:
        return None
    if abs(size - 1) <= bar:
        return sign
    number = named_constant(suspect, size, fit.scale_bar, most_rank=3)
    if number is None:
        return None
    return f"{sign}{number.name.replace('`', '')} * "


def _confirmed(
    suspect: Suspect, base: Gradients, match: Match, values: Tensor
) -> Match | None:
    """The match on all of the evidence, with its constant."""
    first = base[0] / values if match.divided else base[0] * values
    if not suspect.witness.fit_scaled([first]).explains:
        return None
    rest = [b / values if match.divided else b * values for b in base[1:]]
    found = with_constant(suspect, [first, *rest])
    if found is None:
        return None
    constant, truth = found
    label = f"{constant}{match.label}"
    if match.divided and constant:
        label = f"{match.label} / ({constant.rstrip(' *')})"
    return Match(label, truth, match.divided, match.quotient)


def _by_sample(suspect: Suspect, base: Gradients) -> Match | None:
    sample = _sample(suspect, base)
    if sample is None:
        return None
    at, ratio, reach = sample
    library = list(suspect.known.factors(suspect.shape, at))
    if not library:
        return None
    functions = torch.stack([one.values for one in library])
    for match, values in _candidates(suspect, library, functions, ratio, reach):
        found = _confirmed(suspect, base, match, values)
        if found is not None:
            return found
    return None


def _sample(suspect: Suspect, base: Gradients) -> tuple[Tensor, Tensor, Tensor] | None:
    """(flat indices, truth / base there, its bar) of elements where both are clear."""
    known = suspect.witness.known
    assert known is not None
    here = base[0][known]
    truth, bar = suspect.witness.truth[:, 0], suspect.witness.bar[:, 0]
    some = here != 0
    if not bool(some.any()):
        return None
    safe = torch.where(some, here, 1.0)
    ratio, reach = truth / safe, (bar / safe).abs()
    typical = float(ratio[some].abs().median())
    largest = float(ratio[some].abs().max())
    chosen = (some & (reach < _TIGHT * (typical or largest))).nonzero().reshape(-1)
    if chosen.numel() < _FEWEST:
        return None
    chosen = chosen[:: max(1, chosen.numel() // _SAMPLE)]
    at = known.nonzero().reshape(-1)[chosen]
    return at, ratio[chosen], _SLACK * reach[chosen] + _ROUNDING * ratio[chosen].abs()


def _candidates(
    suspect: Suspect,
    library: list[Named],
    functions: Tensor,
    ratio: Tensor,
    reach: Tensor,
) -> Iterator[tuple[Match, Tensor]]:
    """Functions, their inverses and pairs of them that fit the sample."""
    shape, known = suspect.shape, suspect.known

    def whole(k: int) -> Tensor:
        return known.factor(library[k].name, shape).reshape(-1)

    for k in _proportional(functions, ratio, reach):
        yield Match(library[k].name), whole(k)
    usable = (functions != 0).all(1)
    inverse = torch.where(usable[:, None], 1 / functions, 0.0)
    for k in _proportional(inverse, ratio, reach):
        if bool((whole(k) != 0).all()):
            yield Match(library[k].name, divided=True), whole(k)
    few = functions[:_MOST_PAIRED]
    for k in range(len(few)):
        for other in _proportional(few[k] * few[k:], ratio, reach):
            label = f"{library[k].name} * {library[k + other].name}"
            yield Match(label), whole(k) * whole(k + other)
        for other in _proportional(few[k] * inverse[: len(few)], ratio, reach):
            below = whole(other)
            if other != k and bool((below != 0).all()):
                label = f"{library[k].name} / {library[other].name}"
                yield Match(label, quotient=True), whole(k) / below


def _proportional(functions: Tensor, ratio: Tensor, reach: Tensor) -> list[int]:
    """The rows that are a constant times the ratio, within its bars."""
    weights = functions / reach.square()
    square = (weights * functions).sum(1)
    scale = (weights @ ratio) / square.clamp(min=1e-300)
    off = (ratio - scale[:, None] * functions).abs() > reach
    fine = ~off.any(1) & (square > 0) & (scale != 0) & torch.isfinite(scale)
    return [int(k) for k in fine.nonzero().reshape(-1)]
