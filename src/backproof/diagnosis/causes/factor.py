"""A factor that stands in the call already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from backproof.diagnosis.cause import (
    LIBRARY,
    Explanation,
    cause,
    cotangents_like,
    named_constant,
)
from backproof.diagnosis.known import Named
from backproof.diagnosis.suspect import Suspect
from backproof.diagnosis.witness import Fit, Gradients

_SAMPLE = 512  # elements at which pairs of factors are compared
_TIGHT = 1e-4  # of a ratio: its bar, where pairs are tried at all
_FEW = 4  # elements: fewer would fit too many pairs
_MOST_PAIRED = 160  # functions of tensors that are combined with one another
_ROUNDING = 1e-9

Found = tuple[str, str, list[Tensor]]
"""How the factor comes in ("lacks", "extra", "instead"), its name, the true gradients."""


@cause
def factor(suspect: Suspect) -> Explanation | None:
    """A factor is missing, or one too many, that equals a tensor of the call."""
    if suspect.power < LIBRARY or suspect.is_complex:
        return None
    found = _at_the_input(suspect, suspect.claims) or _at_the_output(suspect)
    if found is None:
        return None
    how, label, truth = found
    title, remedy = {
        "lacks": (f"lacks the factor {label}", f"Multiply by {label}."),
        "extra": (
            f"has the factor {label} once too often",
            f"Leave {label} out once.",
        ),
        "instead": (
            f"has the wrong factor: times {label} it would be right",
            f"Multiply by {label}, or see which saved tensor stands for which.",
        ),
    }[how]
    return Explanation(title, remedy, truth)


def local_derivative(
    suspect: Suspect, cotangents: Sequence[Tensor]
) -> tuple[str, list[Tensor]] | None:
    """(name, gradients) of what the cotangents have to be multiplied by."""
    if suspect.power < LIBRARY or suspect.is_complex:
        return None
    found = _at_the_input(suspect, cotangents)
    if found is None:
        return None
    how, label, truth = found
    return (f"1 / {label}" if how == "extra" else label), truth


def _at_the_input(suspect: Suspect, base: Gradients) -> Found | None:
    """`base` times a function of known tensors, element by element."""
    known = suspect.known
    library = [
        Named(one.name, one.values.reshape(-1)) for one in known.factors(suspect.shape)
    ]
    for one in library:
        found = _constant(suspect, [b * one.values for b in base])
        if found is not None:
            return ("lacks", f"{found[0]}{one.name}", found[1])
    for one in library:
        if not bool((one.values != 0).all()):
            continue
        found = _constant(suspect, [b / one.values for b in base])
        if found is not None:
            return ("extra", _inverse(found[0], one.name), found[1])
    return _pair(suspect, base, library[:_MOST_PAIRED])


def _inverse(constant: str, name: str) -> str:
    return name if not constant else f"{name} / ({constant.rstrip(' *')})"


def _constant(suspect: Suspect, product: Gradients) -> tuple[str, list[Tensor]] | None:
    """(constant, gradients) if a named constant times the product is the truth."""
    first = suspect.witness.fit_scaled(product[:1])
    if not first.explains:
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
    name = number.name.split(" = ")[0].split(",")[0].replace("`", "")
    return f"{sign}{name} * "


def _pair(suspect: Suspect, base: Gradients, library: list[Named]) -> Found | None:
    """Products and quotients of two functions, where each element is known."""
    known = suspect.witness.known
    if known is None or not library:
        return None
    here = base[0][known]
    truth, bar = suspect.witness.truth[:, 0], suspect.witness.bar[:, 0]
    clear = (here != 0) & (truth != 0) & (bar < _TIGHT * truth.abs())
    chosen = clear.nonzero().reshape(-1)
    if chosen.numel() < _FEW:
        return None
    chosen = chosen[:: max(1, chosen.numel() // _SAMPLE)]
    ratio = truth[chosen] / here[chosen]
    reach = bar[chosen] / truth[chosen].abs() + 1e-9
    at = known.nonzero().reshape(-1)[chosen]
    functions = torch.stack([one.values[at] for one in library])
    for k, other, how in _matching(functions, ratio, reach):
        a, b = library[k], library[other]
        inverse = how == "/"
        if inverse and not bool((b.values[suspect.mask] != 0).all()):
            continue
        divided = torch.where(b.values != 0, b.values, 1.0)
        product = a.values / divided if inverse else a.values * b.values
        found = _constant(suspect, [g * product for g in base])
        if found is None:
            continue
        label = f"{found[0]}{a.name} {how} {b.name}"
        return ("instead" if inverse else "lacks", label, found[1])
    return None


def _matching(
    functions: Tensor, ratio: Tensor, reach: Tensor
) -> Iterator[tuple[int, int, str]]:
    """Pairs whose product or quotient is a constant times the ratio."""
    for k in range(len(functions)):
        quotient = ratio / functions[k]  # to be c / f, or c f
        for how, product in (("*", quotient / functions), ("/", quotient * functions)):
            first = product[:, :1]
            off = ((product - first).abs() > 4 * reach * first.abs()).any(1)
            bad = off | ~torch.isfinite(first[:, 0]) | (first[:, 0] == 0)
            for other in (~bad).nonzero().reshape(-1).tolist():
                if other != k:
                    yield k, other, how


def _at_the_output(suspect: Suspect) -> Found | None:
    """The same, multiplied to the cotangent before backward goes on with it."""
    if suspect.witness.known is not None and cotangents_like(suspect) is not None:
        return None  # element by element both are one
    for output in suspect.outputs:
        if output.dtype.is_complex:
            continue
        for one in suspect.known.factors(tuple(output.shape)):
            values = torch.ones_like(suspect.cotangents[0])
            values[output.part] = one.values.reshape(-1)
            found = _times(suspect, [u * values for u in suspect.cotangents])
            if found is not None:
                return ("lacks", f"{found[0]}{one.name}", found[1])
            if not bool((values != 0).all()):
                continue
            found = _times(suspect, [u / values for u in suspect.cotangents])
            if found is not None:
                return ("extra", _inverse(found[0], one.name), found[1])
    return None


def _times(
    suspect: Suspect, cotangents: Sequence[Tensor]
) -> tuple[str, list[Tensor]] | None:
    first = suspect.tried(cotangents[:1])
    if first is None or not suspect.witness.fit_scaled(first).explains:
        return None
    rest = suspect.tried(cotangents[1:])
    return None if rest is None else _constant(suspect, [*first, *rest])
