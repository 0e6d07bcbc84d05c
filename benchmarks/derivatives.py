"""The numbers of one call in eager mode: values, gradients, second derivatives.

Everything is drawn from fixed seeds, so that two calls of one op give the same bits; a
second derivative comes with the difference quotient of the gradient that it belongs to.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from running import seed_everything
from torch import Tensor
from torch.utils import _pytree as pytree

_STEP = {torch.float64: 1e-3, torch.complex128: 1e-3}
_LONG_STEP = 3e-2
_SLACK = 50.0
_ROUGHLY = 0.01


@dataclass
class Call:
    """One call of `function`, with tensors of its own.

    Attributes:
        outputs: its tensors.
        leaves: what they can be differentiated by.
        handed: what forward was given: copies, so that it may work in place.
    """

    function: Callable[..., Any]
    arguments: list[Any]

    def __post_init__(self) -> None:
        found = [*pytree.tree_leaves(self.arguments), *_parameters(self.function)]
        self.leaves = [v for v in found if isinstance(v, Tensor) and v.requires_grad]
        self.handed = pytree.tree_map_only(
            Tensor, lambda t: t.clone() if t.requires_grad else t, self.arguments
        )
        seed_everything(1)
        every = pytree.tree_leaves(self.function(*self.handed))
        self.outputs = [t for t in every if isinstance(t, Tensor)]
        self.live = [t for t in self.outputs if t.requires_grad]

    def gradients(
        self, cotangents: list[Tensor], *, differentiable: bool = False
    ) -> tuple[Tensor | None, ...]:
        """Of `live`, for all leaves."""
        return torch.autograd.grad(
            self.live,
            self.leaves,
            cotangents,
            create_graph=differentiable,
            allow_unused=True,
        )


def first(function: Callable[..., Any], arguments: list[Any]) -> list[str]:
    """The outputs, and the gradients for fixed cotangents."""
    call = Call(function, arguments)
    values = [t.detach().clone() for t in call.outputs]
    gradients = call.gradients([drawn(t) for t in call.live])
    return [bits(t) for t in (*values, *gradients)]


def second(function: Callable[..., Any], arguments: list[Any]) -> list[str]:
    """The derivative of the weighted gradients, by leaves and cotangents.

    Zeros count as none.
    """
    found = _second(function, arguments)[0]
    return [bits(t if t is not None and t.any() else None) for t in found]


def _second(
    function: Callable[..., Any], arguments: list[Any]
) -> tuple[list[Tensor | None], list[Tensor]]:
    call = Call(function, arguments)
    cotangents = [drawn(t).requires_grad_() for t in call.live]
    found = call.gradients(cotangents, differentiable=True)
    again = [g for g in found if g is not None and g.requires_grad]
    by = [*call.leaves, *cotangents]
    weights = [drawn(g, "weight") for g in again]
    return list(torch.autograd.grad(again, by, weights, allow_unused=True)), by


def slope_holds(function: Callable[..., Any], arguments: list[Any]) -> bool:
    """Whether the second derivative is what the gradient itself changes by.

    Along a random direction of the leaves and cotangents, by central differences. A
    gradient that moves in stairs, as one of a table in half precision does, is asked
    with long steps, roughly.
    """
    claimed, by = _second(function, arguments)
    directions = [drawn(t, "direction") * t.detach().abs() for t in by]
    claim = _inner(claimed, directions)
    step = max(_STEP.get(t.dtype, _LONG_STEP) for t in by)

    def quotient(h: float) -> tuple[float, float]:
        up, above = _weighted(function, arguments, directions, h)
        down, below = _weighted(function, arguments, directions, -h)
        return (up - down) / (2 * h), max(above, below)

    (whole, _), (half, _), (quarter, size) = map(quotient, (step, step / 2, step / 4))
    rough, fine = (4 * half - whole) / 3, (4 * quarter - half) / 3
    eps = max(torch.finfo(t.dtype).eps for t in by)
    rounding = _SLACK * eps * size / step
    bar = _SLACK * abs(fine - rough) + rounding
    far, _ = quotient(_LONG_STEP)
    if bar > _ROUGHLY * abs(far) + rounding:
        fine, bar = far, _ROUGHLY * abs(far) + rounding
    return math.isfinite(bar) and abs(claim - fine) <= bar


def _weighted(
    function: Callable[..., Any],
    arguments: list[Any],
    directions: list[Tensor],
    h: float,
) -> tuple[float, float]:
    """The weighted gradients at `leaves + h directions`, and the size of their terms."""
    moves = iter(directions)

    def moved(tensor: Tensor) -> Tensor:
        if not tensor.requires_grad:
            return tensor
        return (tensor.detach() + h * next(moves)).requires_grad_()

    call = Call(function, pytree.tree_map_only(Tensor, moved, arguments))
    moves = iter(
        directions[len(call.leaves) :]
    )  # those of parameters stay where they are
    cotangents = [drawn(t) + h * next(moves) for t in call.live]
    found = [g for g in call.gradients(cotangents) if g is not None]
    weights = [drawn(g, "weight") for g in found]
    sizes = [
        float((w.abs() * g.abs()).sum()) for w, g in zip(weights, found, strict=True)
    ]
    return _inner(found, weights), sum(sizes)


def _inner(these: list[Any], those: list[Tensor]) -> float:
    """The real inner product, in float64."""
    pairs = [(a, b) for a, b in zip(these, those, strict=True) if a is not None]
    wide = [(a.detach().to(torch.complex128), b.to(torch.complex128)) for a, b in pairs]
    return sum(float((a.conj() * b).sum().real) for a, b in wide)


def _parameters(function: Any) -> Iterator[Tensor]:
    if isinstance(function, torch.nn.Module):
        yield from function.parameters()


def drawn(like: Tensor, use: str = "cotangent") -> Tensor:
    """Standard normal values of this form: the same at every call, others a use."""
    random = torch.Generator().manual_seed(1000 * like.numel() + len(use))
    wide = torch.complex128 if like.is_complex() else torch.float64
    values = torch.randn(like.shape, generator=random, dtype=wide)
    return values.to(like.dtype)


def bits(tensor: Tensor | None) -> str:
    """Type, shape and a digest of every bit."""
    if tensor is None:
        return "None"
    plain = tensor.detach().resolve_conj().resolve_neg().to_dense()
    raw = plain.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    digest = hashlib.sha256(raw).hexdigest()[:16]
    return f"{tensor.dtype} {tuple(tensor.shape)} {digest}"
