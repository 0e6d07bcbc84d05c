"""A term of a sum: missing, or there without a reason."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from backproof.diagnosis.cause import (
    VERY_CLEAR,
    Explanation,
    cause,
    cotangents_like,
    fits,
)
from backproof.diagnosis.known import Named
from backproof.diagnosis.library import constant_words, multiple
from backproof.diagnosis.suspect import Suspect
from backproof.diagnosis.witness import Fit, Gradients

_SUM, _NUMBER = re.compile(r"\bsum\("), re.compile(r"\d+")
_AXES = re.compile(r", axis (-?\d+(?:, -?\d+)*)")
_LARGE = 200_000  # elements, above which fewer terms are tried
_MOST_BASICS, _FEW_BASICS = 14, 3


@cause
def term(suspect: Suspect) -> Explanation | None:
    """A term is missing, or one too many."""
    if suspect.power < VERY_CLEAR or suspect.is_complex:
        return None
    return _without_cotangent(suspect) or _of_an_output(suspect) or _missing(suspect)


def _without_cotangent(suspect: Suspect) -> Explanation | None:
    """What backward adds even when nothing comes in."""
    constant = suspect.tried([torch.zeros_like(suspect.cotangents[0])])
    if constant is None or not bool(constant[0][suspect.mask].any()):
        return None
    truth = [claim - constant[0] for claim in suspect.claims]
    if not fits(suspect, truth, VERY_CLEAR):
        return None
    return Explanation(
        f"has an extra term{_equal_to(suspect, constant[0])} that does not depend on "
        "the cotangent",
        "Leave it out: a penalty belongs into the loss or the optimiser.",
        truth,
    )


def _equal_to(suspect: Suspect, values: Tensor) -> str:
    """The name of what a constant term is a multiple of."""
    for one in suspect.known.fitting(suspect.shape):
        other = one.values.reshape(-1)
        size = float(other @ other)
        if not size:
            continue
        scale = float(values @ other) / size
        if torch.allclose(values, scale * other, rtol=1e-6, atol=0.0):
            return f" ({scale:.4g} * {one.name})"
    return ""


def _of_an_output(suspect: Suspect) -> Explanation | None:
    """One output's cotangent is not read at all."""
    if len(suspect.outputs) < 2:
        return None
    for output in suspect.outputs:
        inside = torch.zeros_like(suspect.cotangents[0], dtype=torch.bool)
        inside[output.part] = True
        alone = suspect.tried([torch.where(inside, u, 0.0) for u in suspect.cotangents])
        if alone is None or any(bool(c[suspect.mask].any()) for c in alone):
            continue
        kept = [torch.where(inside, 0.0, u) for u in suspect.cotangents]
        if suspect.witness_for(kept).fit(suspect.claims).explains:
            return Explanation(
                f"lacks the term of `{output.name}`: its cotangent is not read",
                f"Add what the cotangent of `{output.name}` contributes.",
            )
    return None


def _missing(suspect: Suspect) -> Explanation | None:
    if suspect.witness.known is not None:
        return _product_rule(suspect)
    for label, product in itertools.islice(_terms(suspect), suspect.most_tries):
        if not suspect.witness.fit_scaled(product[:1], suspect.claims).explains:
            continue
        fit = suspect.witness.fit_scaled(product, suspect.claims)
        if not fit.explains:
            continue
        words = _in_words(suspect, fit, label)
        if words is not None:
            return _lacking(suspect, words, [fit.scale * p for p in product])
    return None


def _in_words(suspect: Suspect, fit: Fit, label: str) -> str | None:
    """The term with its constant; a sum over n elements, divided by n, is a mean."""
    summed = _SUM.search(label)
    if summed is not None:
        count = math.prod(suspect.shape[a] for a in _axes_in(suspect, label))
        mean = dataclasses.replace(
            fit, scale=fit.scale * count, scale_bar=fit.scale_bar * count
        )
        words = constant_words(suspect, mean)
        if words in ("", "-"):
            return f"{words}{label.replace('sum(', 'mean(', 1)}"
    words = constant_words(suspect, fit)
    return None if words is None else f"{words}{label}"


def _axes_in(suspect: Suspect, label: str) -> Sequence[int]:
    """The axes that a sum among the terms goes over, as its label says."""
    named = _AXES.search(label)  # names such as `args[3]` have numbers too
    found = [int(a) for a in _NUMBER.findall(named[1])] if named else []
    return found or range(len(suspect.shape))


def _product_rule(suspect: Suspect) -> Explanation | None:
    """Element by element: the rest is the cotangent, or the claim, times something."""
    rest = suspect.beside_claims()
    sources = {
        suspect.cotangent_name: cotangents_like(suspect),
        "claimed": suspect.claims,
    }
    for name, source in sources.items():
        found = multiple(rest, source) if source is not None else None
        if found is not None:
            by = "/" if found.divided else "*"
            label = found.label
            sign = "-" if label.startswith("-") else ""
            return _lacking(
                suspect, f"{sign}{name} {by} {label[len(sign) :]}", found.truth
            )
    return None


def _lacking(suspect: Suspect, label: str, rest: Gradients) -> Explanation:
    truth = [c + r for c, r in zip(suspect.claims, rest, strict=True)]
    signed = f"- {label[1:]}" if label.startswith("-") else f"+ {label}"
    gloss = ", with `claimed` what backward returns now" if "claimed" in label else ""
    return Explanation(
        f"lacks the term {signed}",
        f"Add {signed}{gloss}: one part of a product or chain rule is missing.",
        truth,
    )


def _terms(suspect: Suspect) -> Iterator[tuple[str, Gradients]]:
    """Named gradients that may be missing, the plain ones first."""
    shape = suspect.shape
    sources = [("claimed", suspect.claims)]
    cotangents = cotangents_like(suspect)
    if cotangents is not None:
        sources.insert(0, (suspect.cotangent_name, cotangents))
    for name, _, claims in suspect.other_claims():
        if claims[0].numel() == suspect.claims[0].numel():
            yield f"the gradient of {name}", claims
    yield from sources
    yield from _transposed(suspect)
    basics = list(_basics(suspect))
    for name, source in sources:
        yield from _reduced(name, source, basics, shape)
    yield from _of_normalisations(suspect, basics)
    for name, source in sources:
        for one in suspect.known.factors(shape):
            yield f"{name} * {one.name}", [s * one.values.reshape(-1) for s in source]


def _transposed(suspect: Suspect) -> Iterator[tuple[str, Gradients]]:
    """What backward says of the transposed cotangent, as products with x twice have it."""
    for output in suspect.outputs:
        shape = tuple(output.shape)
        if output.dtype.is_complex or len(shape) < 2 or shape[-1] != shape[-2]:
            continue
        turned = []
        for u in suspect.cotangents:
            other = u.clone()
            other[output.part] = u[output.part].reshape(shape).mT.reshape(-1)
            turned.append(other)
        found = suspect.tried(turned)
        if found is not None:
            yield "the same for the transposed cotangent", found


def _basics(suspect: Suspect) -> Iterator[Named]:
    """Few functions, for products of two of them around a sum."""
    ones = torch.ones(suspect.shape, dtype=torch.float64)
    yield Named("", ones)
    most = _FEW_BASICS if ones.numel() > _LARGE else _MOST_BASICS
    yield from suspect.known.basics(suspect.shape)[:most]


def _reduced(
    name: str, source: Gradients, basics: list[Named], shape: Sequence[int]
) -> Iterator[tuple[str, Gradients]]:
    """f * sum(source * h) over the last axis, each other one, and all."""
    shaped = [s.reshape(tuple(shape)) for s in source]
    for axis in _reductions(shape):
        along = "" if len(axis) == len(shape) else f", axis {_axes(axis)}"
        for inside in basics:
            sums = [(s * inside.values).sum(axis, keepdim=True) for s in shaped]
            product = f"{name} * {inside.name}" if inside.name else name
            for outside in basics:
                before = f"{outside.name} * " if outside.name else ""
                yield (
                    f"{before}sum({product}{along})",
                    [(outside.values * s).reshape(-1) for s in sums],
                )


def _reductions(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Sets of axes that people sum over: one, the last two, all, all but the first."""
    dims = len(shape)
    axes: list[tuple[int, ...]] = [(a,) for a in reversed(range(dims))]
    if dims > 1:
        axes += [tuple(range(dims)), tuple(range(1, dims)), (dims - 2, dims - 1)]
    return list(dict.fromkeys(axes))


def _of_normalisations(
    suspect: Suspect, basics: list[Named]
) -> Iterator[tuple[str, Gradients]]:
    """Both terms that are missing where mean and deviation are taken for constants."""
    shape = suspect.shape
    shaped = [c.reshape(shape) for c in suspect.claims]
    for axis in _reductions(shape):
        along = "" if len(axis) == len(shape) else f", axis {_axes(axis)}"
        for one in basics:
            f = one.values
            if not one.name:
                continue
            both = [
                c.mean(axis, keepdim=True) + f * (c * f).mean(axis, keepdim=True)
                for c in shaped
            ]
            yield (
                f"(mean(claimed{along}) + {one.name} * mean(claimed * {one.name}{along}))",
                [b.reshape(-1) for b in both],
            )


def _axes(axes: Sequence[int]) -> str:
    return str(axes[0]) if len(axes) == 1 else str(tuple(axes))
