"""Second derivatives by transforms of transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch.func import hessian, jacfwd, jacrev, vmap

from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.known import stacked
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.second_order import SecondOrder


@context("func", code="BP307")
def func_hessian(scene: Scene) -> Iterator[Compared]:
    """`torch.func.hessian` along a few directions."""
    yield from _second(scene, hessian)


@context("func", code="BP307")
def func_jacrev_jacrev(scene: Scene) -> Iterator[Compared]:
    """`jacrev` of `jacrev`."""
    yield from _second(scene, lambda f: jacrev(jacrev(f)))


@context("func", code="BP307")
def jacfwd_jacfwd(scene: Scene) -> Iterator[Compared]:
    """`jacfwd` of `jacfwd`."""
    yield from _second(scene, lambda f: jacfwd(jacfwd(f)))


@context("func", code="BP307")
def vmap_hessian(scene: Scene) -> Iterator[Compared]:
    """`vmap` over `hessian` gives each example its own."""
    second, size = SecondOrder(scene), 2
    loss, tangents = second.loss, second.tangents
    s = scene.coordinates(len(tangents))

    def at(*base: Tensor) -> Any:
        return hessian(scene.along(loss, tangents, base))(s)

    found = vmap(at, randomness="same")(*scene.batch(size))
    known = stacked([second.hessian(k) for k in range(size)])
    yield Compared("second", "hessian", found.double(), known)


def _second(
    scene: Scene, transform: Callable[[Callable[[Tensor], Tensor]], Callable[..., Any]]
) -> Iterator[Compared]:
    second = SecondOrder(scene)
    tangents = second.tangents
    objective = scene.along(second.loss, tangents, scene.plain())
    found = transform(objective)(scene.coordinates(len(tangents)))
    yield Compared("second", "hessian", found.double(), second.hessian())
