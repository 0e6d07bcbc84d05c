"""A derivative of backward: carried, or refused, never dropped.

`torch.autograd.function.once_differentiable` marks nothing when the cotangent needs no
gradient, and what it marks hangs off detached leaves that `autograd.grad(..., inputs)`
never visits. Here a result that carries no derivative depends on every saved tensor and
every cotangent through a node that raises, so that whoever differentiates it meets the
node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from backproof.definition import private
from backproof.definition.recording.recording import differentiable
from backproof.definition.second_order.seeing import Escapes

Refusal = Callable[..., Any]
Pullback = Callable[[Sequence[Any]], Sequence[Any]]


def guarded(
    pullback: Pullback,
    cotangents: Sequence[Any],
    saved: Sequence[Any],
    *,
    once: bool,
    hidden: bool,
    refuse: Refusal,
) -> Sequence[Any]:
    """What backward returns; differentiating it is right, or raises.

    Args:
        pullback: the author's backward, from cotangents to gradients.
        cotangents: what it is given.
        saved: every tensor that it reads besides.
        once: whether the author said that it has no derivative.
        hidden: whether it reads a tensor that nobody else sees.
        refuse: `(n, *tensors, *depends_on)` gives the first n again, through a node that
            raises when it is differentiated.
    """
    if not torch.is_grad_enabled():
        return pullback(cotangents)
    depends = [*_tracked(cotangents), *_tracked(saved)]
    if once:
        with torch.no_grad():
            result = pullback(cotangents)
        blind = _positions(result, _any)
        return _refusing(result, blind, depends, refuse)
    if not depends:
        return pullback(cotangents)
    probed = cotangents if _transformed() else _marked(cotangents)
    with Escapes() as escapes:
        result = pullback(probed)
    if hidden or escapes.taken is not None:
        return _refusing(result, _positions(result, _any), depends, refuse)
    if _transformed():
        return result
    blind = _positions(result, lambda tensor: not tensor.requires_grad)
    if blind and not any(bool(leaf.any()) for leaf in blind.values()):
        # Zero for these cotangents, or for all of them? Only the first hides a derivative.
        again = pytree.tree_leaves(list(pullback(_marked(cotangents, ones=True))))
        blind = {k: leaf for k, leaf in blind.items() if bool(again[k].any())}
    return _refusing(result, blind, depends, refuse)


def _any(tensor: Tensor) -> bool:
    return True


def _transformed() -> bool:
    """Whether `requires_grad` says nothing here, or nothing for sure."""
    return private.under(private.functorch_active)


def _tracked(tensors: Sequence[Any]) -> list[Tensor]:
    found = [t for t in tensors if isinstance(t, Tensor) and differentiable(t)]
    return found if _transformed() else [t for t in found if t.requires_grad]


def _marked(cotangents: Sequence[Any], *, ones: bool = False) -> list[Any]:
    """Cotangents that leave a trace in whatever torch computes from them."""
    marked = []
    for cotangent in cotangents:
        if not isinstance(cotangent, Tensor) or not differentiable(cotangent):
            marked.append(cotangent)
        elif ones:
            marked.append(torch.ones_like(cotangent).requires_grad_())
        elif cotangent.requires_grad:
            marked.append(cotangent)
        else:
            marked.append(cotangent.detach().requires_grad_().clone())
    return marked


def _positions(
    result: Sequence[Any], wanted: Callable[[Tensor], bool]
) -> dict[int, Tensor]:
    """The differentiable tensors of `result` that are `wanted`, by place."""
    return {
        k: leaf
        for k, leaf in enumerate(pytree.tree_leaves(list(result)))
        if isinstance(leaf, Tensor) and differentiable(leaf) and wanted(leaf)
    }


def _refusing(
    result: Sequence[Any],
    blind: dict[int, Tensor],
    depends: Sequence[Tensor],
    refuse: Refusal,
) -> Sequence[Any]:
    if not blind or not depends:
        return result
    leaves, spec = pytree.tree_flatten(list(result))
    again = refuse(len(blind), *blind.values(), *depends)
    for k, leaf in zip(blind, again, strict=True):
        leaves[k] = leaf
    return tuple(pytree.tree_unflatten(leaves, spec))
