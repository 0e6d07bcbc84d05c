"""The derivative of the gradient, alone and where another path keeps the graph alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.contraction import contracted, magnitude
from backproof.battery.survey.known import MOVEMENTS, Known
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.second_order import (
    SecondOrder,
    pulled_back,
    second_backward,
)


@context("eager", code="BP102")
def double_backward(scene: Scene) -> Iterator[Compared]:
    """A second backward gives the derivative of the first, or refuses."""
    second = SecondOrder(scene)
    r = scene.tangents(1)
    leaves = scene.leaves()
    found = second_backward(scene.loss(scene.function(*leaves)), leaves, r)
    if second.refuted:
        yield Compared("second", "second derivative", second.refuted, "")
        return
    known = second.product(scene.loss, r)
    yield from compared("second", scene.names, found, known)


@context("eager", code="BP102")
def grad_penalty_mixed(scene: Scene) -> Iterator[Compared]:
    """A gradient penalty on a product of the output with a smooth factor loses no term."""
    second = SecondOrder(scene)
    r, d = scene.tangents(1), scene.tangents(2)
    known = _by_parts(second, r, d)
    leaves = scene.leaves()
    product = _factor(leaves) * second.loss(scene.function(*leaves))
    found = second_backward(product, leaves, r)
    got = contracted(found, d).detach()
    yield Compared("second", "derivative of the gradient penalty", got, known)


def _factor(leaves: Sequence[Tensor]) -> Tensor:
    """c(x) = 1 + mean |x|^2 / 2, over all inputs: smooth, and its derivative known."""
    squares = [(x * x.conj()).real if x.is_complex() else x * x for x in leaves]
    means = [square.mean().double() for square in squares if square.numel()]
    return 1.0 + torch.stack(means).sum() / 2


def _by_parts(second: SecondOrder, r: Sequence[Tensor], d: Sequence[Tensor]) -> Known:
    """d/dx <r, gradient of c L> along d.

        <d, c'' r> L + <c', r> <L', d> + <L', r> <c', d> + c <L'' r, d>

    Only the last needs a second derivative of the subject: eager mode's where it can be
    trusted, a numeric one elsewhere.
    """
    scene, loss = second.scene, second.loss
    numeric = None if second.trusted else second.numeric(r, d)

    def compute(leaves: list[Tensor]) -> list[Tensor | None]:
        value = loss(scene.function(*leaves))
        slope = torch.autograd.grad(
            value, leaves, create_graph=numeric is None, allow_unused=True
        )
        if numeric is None:
            bent = pulled_back(slope, leaves, r)
            curvature, terms = contracted(bent, d), magnitude(bent, d)
        else:
            curvature = torch.tensor(numeric.value, dtype=torch.float64)
            terms = numeric.scale
        factor = _factor(leaves)
        c_slope = [x.detach() / max(1, x.numel()) for x in leaves]
        c_bent = [t / max(1, t.numel()) for t in r]
        along_r, along_d = contracted(slope, r), contracted(slope, d)
        c_along_r, c_along_d = contracted(c_slope, r), contracted(c_slope, d)
        parts = [
            contracted(c_bent, d) * value.double(),
            c_along_r * along_d,
            along_r * c_along_d,
            factor * curvature,
        ]
        size = (
            abs(float(parts[0].detach()))
            + magnitude(c_slope, r) * magnitude(slope, d)
            + magnitude(slope, r) * magnitude(c_slope, d)
            + float(factor.detach()) * terms
        )
        return [torch.stack(parts).sum(), torch.tensor(size, dtype=torch.float64)]

    expected, size = scene.know(compute)
    assert size.value is not None
    expected = replace(expected, scale=float(size.value))
    if numeric is None:
        return expected
    factor = float(_factor(scene.plain()))
    bar = 2 * factor * numeric.bar / MOVEMENTS
    return replace(expected, movement=lambda: bar + expected.movement())
