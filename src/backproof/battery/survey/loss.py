"""A number made of all outputs, whose gradient a context is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe import real_dtype, signed, signs, spread, stream


@dataclass(frozen=True)
class Loss:
    """sum Re<u, y> + <v, |y|^2> / 2 over the outputs y; linear where there is no v.

    The curvature makes a lost second-order term show where the subject is linear. Plain
    enough to be traced: two products and a sum an output.

    Attributes:
        weights: u, one an output, in its type.
        curvatures: v, real; empty for a linear loss.
    """

    weights: tuple[Tensor, ...]
    curvatures: tuple[Tensor, ...] = ()

    def __call__(self, outputs: Sequence[Tensor]) -> Tensor:
        """The loss, a real tensor without dimensions."""
        terms = [
            (u.conj() * y).real.sum() if u.is_complex() else (u * y).sum()
            for u, y in zip(self.weights, outputs, strict=True)
        ]
        terms += [
            (v * (y.conj() * y).real).sum() / 2
            if y.is_complex()
            else (v * y * y).sum() / 2
            for v, y in zip(self.curvatures, outputs, strict=False)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    @property
    def linear(self) -> Loss:
        """The same without curvature: its cotangents do not depend on the outputs."""
        return Loss(self.weights)


def mean_square(outputs: Sequence[Tensor]) -> Tensor:
    """A loss for outputs of any size, real: mean y + y^2 / 2, summed over outputs."""
    total = None
    for y in outputs:
        real = torch.view_as_real(y) if y.is_complex() else y
        term = (real + real * real / 2).mean()
        total = term if total is None else total + term
    assert total is not None
    return total


def loss_for(outputs: Sequence[Tensor], seed: int) -> Loss:
    """A loss that weighs each element of these outputs by itself, with random signs."""
    random = stream(seed, 71)
    weights, curvatures = [], []
    for y in outputs:
        size = y.numel()
        u = signs(random, size).mul_(spread(signed(random, size)))
        v = signs(random, size) / (1.0 + _top(y))
        weights.append(u.reshape(y.shape).to(y.device, y.dtype))
        curvatures.append(v.reshape(y.shape).to(y.device, real_dtype(y.dtype)))
    return Loss(tuple(weights), tuple(curvatures))


def _top(output: Tensor) -> float:
    finite = output.detach().abs().double().nan_to_num(0.0, 0.0, 0.0)
    return float(finite.max()) if finite.numel() else 0.0
