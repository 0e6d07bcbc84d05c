"""The derivative of the gradient, alone and where another path keeps the graph alive."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.known import Known, rounding
from backproof.battery.survey.scene import Scene, contracted, magnitude
from backproof.battery.survey.second_order import SecondOrder, second_backward


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
    loss = second.loss
    leaves = scene.leaves()
    product = _factor(leaves) * loss(scene.function(*leaves))
    found = second_backward(product, leaves, r)
    expected, bar, scale = _by_parts(second, r, d)
    got = contracted(found, d).detach()
    known = Known(
        torch.tensor(expected, dtype=torch.float64),
        scene.coarsest,
        scene.size,
        lambda: 0.0,
        bar=bar + 8 * rounding(scene.coarsest, scene.size) * scale,
    )
    yield Compared("second", "derivative of the gradient penalty", got, known)


def _factor(leaves: list[Tensor]) -> Tensor:
    """c(x) = 1 + mean |x|^2 / 2, over all inputs: smooth, and its derivative known."""
    total = 1.0
    for x in leaves:
        total = total + (x.abs() ** 2).mean() / 2
    assert isinstance(total, Tensor)
    return total


def _by_parts(
    second: SecondOrder, r: list[Tensor], d: list[Tensor]
) -> tuple[float, float, float]:
    """d/dx <r, gradient of c L> along d, a bar and the size of the terms.

        <d, c'' r> L + <c', r> <L', d> + <L', r> <c', d> + c <L'' r, d>

    Only the last needs a second derivative of the subject: eager mode's where it can be
    trusted, a numeric one elsewhere.
    """
    scene, loss = second.scene, second.loss
    x = scene.plain()
    value = float(loss([k.value for k in scene.outputs()]))  # type: ignore[misc]
    cotangents = _cotangents(scene, loss)
    slope = [k.value for k in scene.pulled(cotangents)]
    factor = float(_factor(x))
    c_slope = [t / t.numel() for t in x]
    c_second = [t / t.numel() for t in r]
    if second.trusted:
        hessian_r = [k.value for k in second.product(loss, r)]
        curvature = float(contracted(hessian_r, d))
        curvature_bar, terms = 0.0, magnitude(hessian_r, d)
        curvature_bar = 8 * sum(
            k.movement() * float(t.abs().double().sum())
            for k, t in zip(second.product(loss, r), d, strict=True)
        )
    else:
        numeric = second.numeric(r, d)
        curvature, curvature_bar, terms = numeric.value, numeric.bar, numeric.scale
    parts = (
        float(contracted(c_second, d)) * value,
        float(contracted(c_slope, r)) * float(contracted(slope, d)),
        float(contracted(slope, r)) * float(contracted(c_slope, d)),
        factor * curvature,
    )
    sizes = (
        abs(parts[0]),
        magnitude(c_slope, r) * magnitude(slope, d),
        magnitude(slope, r) * magnitude(c_slope, d),
        factor * terms,
    )
    return sum(parts), 2 * factor * curvature_bar, sum(sizes)


def _cotangents(scene: Scene, loss: object) -> list[Tensor]:
    """The cotangents that the loss sends: u + v y."""
    outputs = [k.value.clone().requires_grad_() for k in scene.outputs()]  # type: ignore[union-attr]
    gradients = torch.autograd.grad(loss(outputs), outputs)  # type: ignore[operator]
    return list(gradients)
