"""Output tangents from backward alone.

Backward is linear in its cotangents u: it is the map u -> u J. Differentiated once more
with respect to u and applied to the input tangents t, it gives J t, which is what
forward mode asks for (the transpose of a transpose).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.recording.recording import Left
from backproof.errors import NoDerivative


def derived(
    pullback: Callable[[Sequence[Any]], Sequence[Any]],
    left: Left,
    outputs: Sequence[Tensor],
    tangents: Sequence[Tensor | None],
    owner: str,
) -> list[Tensor | None]:
    """One tangent a tensor output; None where an output has no derivative.

    Args:
        pullback: from one cotangent a tensor output to one gradient a tensor input.
        left: what forward left, for the outputs that have no derivative.
        outputs: the tensors that forward returned.
        tangents: one a tensor input, or None.
        owner: the name of the class.

    Raises:
        NoDerivative: backward leaves no trace from its cotangents to its results.
    """
    if not _can_require_grad() and private.under(private.functorch_active):
        raise NoDerivative(
            f"{owner}: forward mode under torch.func needs a `jvp` method here: this "
            "torch lacks what backproof derives it with"
        )
    live = [k for k in range(len(outputs)) if k not in left.non_differentiable]
    with torch.enable_grad():
        cotangents = [torch.ones_like(output) for output in outputs]
        with requires_grad_in_place():
            for k in live:
                cotangents[k].requires_grad_()
        gradients = pullback(cotangents)
        pairs = [
            (gradient.sum_to_size(tangent.shape), tangent)
            for gradient, tangent in zip(gradients, tangents, strict=True)
            if gradient is not None and tangent is not None
        ]
        traced = [pair for pair in pairs if pair[0].requires_grad]
        if len(traced) < len(pairs):
            _refuse_opaque([g for g, _ in pairs if not g.requires_grad], owner)
        found: Sequence[Tensor] = [torch.zeros_like(outputs[k]) for k in live]
        if traced and live:
            found = torch.autograd.grad(
                [gradient for gradient, _ in traced],
                [cotangents[k] for k in live],
                [tangent for _, tangent in traced],
                create_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
    result: list[Tensor | None] = [None] * len(outputs)
    for k, tangent in zip(live, found, strict=True):
        result[k] = tangent
    return result


def _refuse_opaque(gradients: Sequence[Tensor], owner: str) -> None:
    """A gradient without a trace must be zero whatever the cotangent is."""
    unseen = private.under(private.functorch_active) or private.under(
        private.dispatch_modes
    )
    if unseen or any(g.is_meta or bool(g.any()) for g in gradients):
        raise NoDerivative(
            f"{owner}: no forward mode, because its backward is not made of torch "
            "operations from its cotangents on; write a `jvp` method, or declare the "
            "computation with `backproof.external(..., jvp=...)`"
        )


def _can_require_grad() -> bool:
    return None not in (private.get_inplace_allowed, private.set_inplace_allowed)


@contextmanager
def requires_grad_in_place() -> Iterator[None]:
    """Allow `requires_grad_` inside a level of torch.func."""
    if not _can_require_grad():
        yield
        return
    before = private.get_inplace_allowed()
    private.set_inplace_allowed(True)
    try:
        yield
    finally:
        private.set_inplace_allowed(before)
