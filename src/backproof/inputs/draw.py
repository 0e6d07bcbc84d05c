"""Input strings -> tensors: seeded standard normal values, moved to where they may be.

Every value is drawn in float64 and rounded to its dtype at the end, so that the same
string in another precision gives the same numbers as nearly as it can hold them.
Bounds and structures are reached by smooth maps that stay well away from the edges:
whoever probes needs room on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from backproof.errors import BadInput
from backproof.inputs.language import DTYPES, Argument, TensorSpec, parse
from backproof.probe.domain import ANYWHERE, Domain
from backproof.subject import Case

_MARGIN = 0.1  # share of an interval that is left free at either end
_SPREAD = 10  # integers: how many different ones, unless the bounds allow fewer
_GAP = 0.2  # the smallest step between sorted neighbours, beside a mean step of 1.3


def draw(text: str, names: Sequence[str] = (), *, seed: int = 0) -> Case:
    """The case that the input string `text` describes.

    Args:
        text: in the language of `language.py`.
        names: the parameters' names, by which the case's domains are found; the last
            may be `*rest`.
        seed: of the values.

    Raises:
        BadInput: the string does not parse, a dtype cannot hold the values that are
            asked for, or there is no such device here.
    """
    arguments = parse(text)
    random = torch.Generator().manual_seed(seed)
    positional: list[object] = []
    keywords: dict[str, object] = {}
    domains: dict[str, Domain] = {}
    for argument in arguments:
        name = argument.keyword or _name(names, len(positional))
        value = _value(argument, random)
        if argument.keyword:
            keywords[name] = value
        else:
            positional.append(value)
        domain = _domain(argument)
        if domain != ANYWHERE:
            domains[name] = domain
    return Case(tuple(positional), keywords, " ".join(map(str, arguments)), domains)


def _name(names: Sequence[str], k: int) -> str:
    """The name of argument `k`, as reports have it."""
    rest = k - (len(names) - 1)
    if names and names[-1].startswith("*") and rest >= 0:
        return f"{names[-1][1:]}[{rest}]"
    return names[k] if k < len(names) else f"argument {k}"


def _domain(argument: Argument) -> Domain:
    spec = argument.spec
    if not isinstance(spec, TensorSpec) or not spec.needs_gradient:
        return ANYWHERE
    return Domain(spec.low, spec.high, spec.structure)


def _value(argument: Argument, random: torch.Generator) -> object:
    spec = argument.spec
    if not isinstance(spec, TensorSpec):
        return spec.value
    try:
        exact = _integers(spec, random) if spec.is_integer else _reals(spec, random)
    except (RuntimeError, TypeError, MemoryError) as error:
        raise BadInput(f"`{spec}` cannot be made: {_first_line(error)}") from error
    tensor = exact.to(getattr(torch, DTYPES[spec.dtype]))
    _refuse_rounded_out(spec, tensor)
    if spec.device is not None:
        try:
            tensor = tensor.to(spec.device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise BadInput(
                f"`{spec}`: no device {spec.device!r} here: {_first_line(error)}"
            ) from error
    return tensor.requires_grad_(spec.needs_gradient)


def _integers(spec: TensorSpec, random: torch.Generator) -> Tensor:
    """Uniform integers: 0 to 9, or the ten that the bounds allow nearest to that."""
    if spec.dtype == "b":
        return torch.randint(0, 2, spec.shape, generator=random)
    limits = torch.iinfo(getattr(torch, DTYPES[spec.dtype]))
    smallest = max(
        math.floor(spec.low) + 1 if spec.low > -math.inf else limits.min, limits.min
    )
    largest = min(
        math.ceil(spec.high) - 1 if spec.high < math.inf else limits.max, limits.max
    )
    if smallest > largest:
        raise BadInput(f"`{spec}`: no {DTYPES[spec.dtype]} lies within these bounds")
    lowest = 0 if largest >= 0 else largest - _SPREAD + 1
    first = max(smallest, lowest)
    last = min(largest, first + _SPREAD - 1)
    values = torch.randint(first, last + 1, spec.shape, generator=random)
    return values.sort(dim=-1).values if spec.structure == "sorted" else values


def _reals(spec: TensorSpec, random: torch.Generator) -> Tensor:
    dtype = torch.complex128 if spec.dtype[0] == "c" else torch.float64
    normal = torch.randn(spec.shape, generator=random, dtype=dtype)
    return _bounded(_structured(normal, spec.structure), spec.low, spec.high)


def _structured(normal: Tensor, structure: str | None) -> Tensor:
    if normal.numel() == 0:
        return normal
    if structure == "spd":
        product = normal @ normal.mT / normal.shape[-1]
        return (product + product.mT) / 2 + torch.eye(normal.shape[-1])
    if structure == "sym":
        return (normal + normal.mT) / math.sqrt(2)
    if structure == "simplex":
        return torch.softmax(normal / 2, dim=-1)
    if structure == "sorted":
        rising = torch.cumsum(_GAP + torch.exp(normal / 2), dim=-1)
        centred = rising - rising.mean(dim=-1, keepdim=True)
        return centred / centred.std(dim=-1, correction=0, keepdim=True).clamp(min=0.1)
    return normal


def _bounded(values: Tensor, low: float, high: float) -> Tensor:
    """`values` between `low` and `high`, in the same order and off both ends."""
    if low > -math.inf and high < math.inf:
        share: Tensor = _MARGIN + (1 - 2 * _MARGIN) * torch.special.ndtr(values)
        return low + (high - low) * share
    if low > -math.inf:
        return low + max(1.0, abs(low)) * torch.exp(values / 2)
    if high < math.inf:
        return high - max(1.0, abs(high)) * torch.exp(-values / 2)
    return values


def _refuse_rounded_out(spec: TensorSpec, tensor: Tensor) -> None:
    """Rounding to a coarse dtype must not put a value on or beyond a bound."""
    if spec.is_integer or tensor.is_complex():
        return
    inside = (tensor.double() > spec.low) & (tensor.double() < spec.high)
    if not bool((inside & tensor.isfinite()).all()):
        raise BadInput(
            f"`{spec}`: {DTYPES[spec.dtype]} is too coarse to hold values within these "
            "bounds; give a wider interval or a finer dtype"
        )


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
