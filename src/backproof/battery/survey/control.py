"""Known-right subjects, one in each style: where they come out wrong, torch is at fault.

All are the same op: a staircase, and the gradient of the smooth curve under it. Forward
is piecewise constant, so that wherever the rule is thrown away and forward itself is
differentiated, zeros show.

    hard(x, w) = round(4 soft(x, w)) / 4,    soft(x, w) = w x tanh(x)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from backproof.battery.survey.scene import Scene
from backproof.battery.survey.style import Style
from backproof.battery.survey.watching import Draws
from backproof.definition import function as definition
from backproof.subject import Case, Subject
from backproof.trial import Trial

_STAIRS = 4
_SEED = 11


@functools.cache
def control_of(style: Style) -> Scene:
    """The scene of the known-right subject of this style."""
    x = torch.linspace(-1.3, 1.7, 4, dtype=torch.float64).requires_grad_()
    w = torch.linspace(1.6, 0.7, 4, dtype=torch.float64).requires_grad_()
    subject = Subject(_function(style), f"control: {style}")
    return Scene(Trial(subject, Case((x, w))))


def _function(style: Style) -> Callable[..., Any]:
    if style.kind == "composed":
        return _composed(style)
    operator = style.kind == "operator"
    op = _operator(style.draws) if operator else _definition(style).apply
    if not (style.dirty or style.inside):
        return op

    def among_operations(x: Tensor, w: Tensor) -> Tensor:
        result: Tensor = op(x + x * x / 4, w)
        return result

    return among_operations


def composed(x: Tensor, w: Tensor) -> Tensor:
    """In plain torch: straight through."""
    soft = w * x * torch.tanh(x)
    return soft + (torch.round(soft * _STAIRS) / _STAIRS - soft).detach()


def _composed(style: Style) -> Callable[..., Tensor]:
    factors = _FACTORS[style.draws]
    if factors is None and not style.uninlined:
        return composed  # which can be pickled

    def random_or_whole(x: Tensor, w: Tensor) -> Tensor:
        return composed(x, w) * factors(x) if factors else composed(x, w)

    return _whole(random_or_whole) if style.uninlined else random_or_whole


# ------------------------------------------------------------------- the mathematics


def _own_factors(x: Tensor) -> Tensor:
    """Random, and the same at each call: in [0.5, 1.5), so that others would show."""
    generator = torch.Generator(x.device).manual_seed(_SEED)
    return 0.5 + torch.rand(x.shape, generator=generator, dtype=x.dtype)


def _replayed_factors(x: Tensor) -> Tensor:
    """The same kind of numbers, drawn from the global state after that was set."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(torch.Generator().manual_seed(_SEED).get_state())
        return 0.5 + torch.rand(x.shape, dtype=x.dtype)


_FACTORS: dict[Draws, Callable[[Tensor], Tensor] | None] = {
    "": None,
    "generator": _own_factors,
    "state": _replayed_factors,
}


def _forward(x: Tensor, w: Tensor) -> Tensor:
    return torch.round(w * x * torch.tanh(x) * _STAIRS) / _STAIRS


def _backward(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    t = torch.tanh(x)
    return g * w * (t + x * (1 - t * t)), g * x * t


def _jvp(x_tangent: Any, w_tangent: Any, x: Tensor, w: Tensor) -> Tensor:
    t = torch.tanh(x)
    out = torch.zeros_like(x)
    if x_tangent is not None:
        out = out + x_tangent * w * (t + x * (1 - t * t))
    if w_tangent is not None:
        out = out + w_tangent * x * t
    return out


def _numpy_forward(x: Tensor, w: Tensor) -> Tensor:
    a, b = x.detach().numpy(), w.detach().numpy()
    return torch.from_numpy(np.round(b * a * np.tanh(a) * _STAIRS) / _STAIRS)


def _numpy_backward(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    c, a, b = (v.detach().numpy() for v in (g, x, w))
    t = np.tanh(a)
    return (
        torch.from_numpy(c * b * (t + a * (1 - t * t))),
        torch.from_numpy(np.asarray(c * a * t)),
    )


class _NumpyGradient(Function):
    """The gradient as a Function of its own, so that a second derivative cannot leak."""

    @staticmethod
    def forward(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return _numpy_backward(g, x, w)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise RuntimeError("this control declares no second derivative")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *tensors: Tensor) -> Any:
        return _NumpyGradient.apply(*_aligned(in_dims, tensors)), (0, 0)  # type: ignore[no-untyped-call]


# ------------------------------------------------------------------------- the styles


def _definition(style: Style) -> Any:
    """A Function of this style: its methods are chosen, none of them is new."""
    forward = _forward_for(style)
    members: dict[str, Any] = {"backward": staticmethod(_backward_for(style))}
    save = _save_for_both if style.jvp else _save
    if style.kind == "ctx":

        def forward_and_save(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            save(ctx, (x, w), None)
            return forward(x, w)

        def forward_in_place(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            save(ctx, (x.clone(), w), None)
            x.copy_(forward(x, w))
            ctx.mark_dirty(x)
            return x

        chosen = forward_in_place if style.dirty else forward_and_save
        members["forward"] = staticmethod(chosen)
    else:
        members["forward"] = staticmethod(forward)
        members["setup_context"] = staticmethod(save)
    if style.jvp:
        members["jvp"] = staticmethod(_jvp_for(style))
    if style.vmap == "generated":
        members["generate_vmap_rule"] = True
    if style.vmap == "written":

        def vmap(info: Any, in_dims: Any, x: Tensor, w: Tensor) -> Any:
            return made.apply(*_aligned(in_dims, (x, w))), 0

        members["vmap"] = staticmethod(vmap)
    base = definition.Function if style.ours else Function
    made: Any = type(f"Control{abs(hash(style))}", (base,), members)
    return _whole(made) if style.uninlined else made


def _whole(made: Any) -> Any:
    """`made`, which dynamo does not look into."""
    return torch.compiler.allow_in_graph(made)  # type: ignore[no-untyped-call]


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _save_for_both(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def _forward_for(style: Style) -> Callable[..., Tensor]:
    plain = _numpy_forward if style.opaque else _forward
    factors = _FACTORS[style.draws]

    def forward(x: Tensor, w: Tensor) -> Tensor:
        return plain(x, w) * factors(x) if factors else plain(x, w)

    return forward


def _jvp_for(style: Style) -> Callable[..., Tensor]:
    factors = _FACTORS[style.draws]

    def jvp(ctx: Any, x_tangent: Any, w_tangent: Any) -> Tensor:
        x, w = ctx.saved_tensors
        tangent = _jvp(x_tangent, w_tangent, x, w)
        return tangent * factors(x) if factors else tangent

    return jvp


def _backward_for(style: Style) -> Callable[..., Any]:
    if not style.opaque:
        gradient: Callable[..., Any] = _backward
    elif style.once:
        gradient = _numpy_backward
    else:
        gradient = _NumpyGradient.apply

    factors = _FACTORS[style.draws]

    def backward(ctx: Any, g: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return gradient(g * factors(x) if factors else g, x, w)

    return once_differentiable(backward) if style.once else backward


def _aligned(in_dims: Any, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """All with the batch in front, and with the same number of dimensions after it."""
    moved = [
        t.unsqueeze(0) if d is None else t.movedim(d, 0)
        for t, d in zip(tensors, in_dims, strict=True)
    ]
    rank = max(t.dim() for t in moved)
    full = [
        t.reshape(t.shape[:1] + (1,) * (rank - t.dim()) + t.shape[1:]) for t in moved
    ]
    return list(torch.broadcast_tensors(*full))  # type: ignore[no-untyped-call]


@functools.cache
def _operator(draws: Draws) -> Callable[..., Any]:
    """A registered operator with a fake rule and a gradient."""
    factors = _FACTORS[draws]

    @torch.library.custom_op(f"backproof_control::stairs{draws}", mutates_args=())
    def stairs(x: Tensor, w: Tensor) -> Tensor:
        return _forward(x, w) * factors(x) if factors else _forward(x, w)

    @stairs.register_fake
    def _(x: Tensor, w: Tensor) -> Tensor:
        return torch.empty_like(x)

    def backward(ctx: Any, g: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return _backward(g * factors(x) if factors else g, x, w)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    stairs.register_autograd(backward, setup_context=save)

    def control(x: Tensor, w: Tensor) -> Tensor:
        result: Tensor = stairs(x, w)
        return result

    return control
