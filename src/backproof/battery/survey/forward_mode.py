"""Tangents that came out of a context, beside eager mode's backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from backproof.battery.survey.context import Compared
from backproof.battery.survey.contraction import contracted
from backproof.battery.survey.scene import Scene

_COTANGENTS = 2


def tangents_agree(
    scene: Scene, pushed: Sequence[Any], tangents: Sequence[Tensor], sample: int = 0
) -> Iterator[Compared]:
    """<u, pushed> beside <backward(u), tangents> for a few cotangents u.

    The random cotangents weigh every element of the output tangents, so that a wrong one
    shows whatever the size of the Jacobian.
    """
    for name, tangent, shape in zip(
        scene.output_names, pushed, scene.shapes, strict=True
    ):
        mine = None if tangent is None else tuple(tangent.shape)
        if mine is not None:
            yield Compared(
                "tangent", f"shape of the tangent of {name}", mine, tuple(shape)
            )
            if mine != tuple(shape):
                return
    for k in range(_COTANGENTS):
        cotangents = scene.cotangents(k)
        known = scene.pushed(cotangents, tangents, sample)
        missing = all(t is None for t in pushed)
        got = None if missing else contracted(cotangents, pushed).detach()
        what = f"tangent of {', '.join(scene.output_names)}, against a cotangent"
        yield Compared("tangent", what, got, known)
