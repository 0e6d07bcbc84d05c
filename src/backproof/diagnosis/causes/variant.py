"""Right elsewhere: in another layout, for other inputs, at the first call."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.diagnosis.cause import Explanation, cause, fits
from backproof.diagnosis.suspect import Suspect
from backproof.trial import BackwardRaised, Refused, Trial


@cause
def variant(suspect: Suspect) -> Explanation | None:
    """It is right in another layout, or where other inputs need no gradient."""
    for title, remedy, trial, index in _variants(suspect):
        suspect.budget.need(1)
        try:
            graph = trial.record()
            truth = [_pulled(trial, graph, u, index) for u in suspect.cotangents]
        except (Refused, BackwardRaised):
            continue
        if all(torch.equal(t, c) for t, c in zip(truth, suspect.claims, strict=True)):
            continue
        if fits(suspect, truth):
            return Explanation(title, remedy, truth)
    return None


def _pulled(trial: Trial, graph: object, cotangent: Tensor, index: int) -> Tensor:
    gradient = trial.pull(graph, cotangent)[index]  # type: ignore[arg-type]
    if gradient is None:
        return torch.zeros_like(trial.points[index].values)
    return gradient


def _variants(suspect: Suspect) -> Iterator[tuple[str, str, Trial, int]]:
    trial = suspect.trial
    leaves = list(trial.leaves)
    odd = [
        k
        for k, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor)
        and leaf.layout is torch.strided
        and not leaf.is_contiguous()
    ]
    if odd:
        plain = [
            _contiguous(leaf) if k in odd else leaf for k, leaf in enumerate(leaves)
        ]
        names = ", ".join(f"`{trial.names[k]}`" for k in odd)
        strides = ", ".join(str(tuple(leaves[k].stride())) for k in odd)
        yield (
            f"is right where {names} is contiguous, and wrong for strides {strides}",
            "Call `.contiguous()` on what a kernel reads by address, or use its strides.",
            trial.with_leaves(plain),
            suspect.index,
        )
    if len(trial.inputs) > 1:
        alone = [
            leaf.detach()
            if isinstance(leaf, Tensor)
            and leaf.requires_grad
            and trial.names[k] != suspect.name
            else leaf
            for k, leaf in enumerate(leaves)
        ]
        yield (
            "is right where no other input needs a gradient, and wrong where they do",
            "Compute each gradient by itself, as `ctx.needs_input_grad` asks for it.",
            trial.with_leaves(alone),
            0,
        )


def _contiguous(leaf: Tensor) -> Tensor:
    return leaf.detach().contiguous().requires_grad_(leaf.requires_grad)
