"""The gradient that a subject declares, for any cotangent and arguments.

`expect_backward(cotangent, *arguments)` gives one gradient an argument (None where there
is none); with several outputs the cotangent is a tuple. `expect(*arguments)` is a soft
function, whose derivative autograd takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.errors import BadInput
from backproof.trial.random_state import restart
from backproof.trial.trial import Trial


def gradient_of(
    trial: Trial, values: Sequence[Tensor], cotangents: Sequence[Tensor]
) -> list[Tensor | None]:
    """What is declared, float64 (n_i,) an input.

    Args:
        trial: whose subject declares.
        values: of the differentiable inputs, float64 (n_i,).
        cotangents: one an output, in the outputs' shapes.

    Raises:
        BadInput: the declaration raises, or returns the wrong number of gradients.
    """
    subject = trial.subject
    tensors = [
        i.at(v).requires_grad_(subject.expect is not None)
        for i, v in zip(trial.inputs, values, strict=True)
    ]
    restart(trial.seed)
    try:
        if subject.expect is not None:
            positional, keywords = trial.arguments(tensors)
            return _of_soft(subject.expect, tensors, positional, keywords, cotangents)
        with torch.no_grad():
            declared = declared_tensors(trial, tensors, cotangents)
    except BadInput:
        raise
    except Exception as error:
        name = getattr(subject.expect_backward or subject.expect, "__name__", "it")
        raise BadInput(
            f"{subject.name}: the declared gradient `{name}` raises "
            f"{type(error).__name__}: {error}"
        ) from error
    return [None if g is None else _flat(g) for g in declared]


def _of_soft(
    soft: Any,
    tensors: list[Tensor],
    positional: tuple[Any, ...],
    keywords: dict[str, Any],
    cotangents: Sequence[Tensor],
) -> list[Tensor | None]:
    with torch.enable_grad():
        outputs = [
            v
            for _, v in tree.leaves(soft(*positional, **keywords), "output")
            if isinstance(v, Tensor) and v.requires_grad
        ]
        handed = [
            u.to(v.dtype).reshape(v.shape)
            for u, v in zip(cotangents, outputs, strict=True)
        ]
        gradients = torch.autograd.grad(outputs, tensors, handed, allow_unused=True)
    return [None if g is None else _flat(g) for g in gradients]


def declared_tensors(
    trial: Trial, tensors: Sequence[Tensor], cotangents: Sequence[Tensor]
) -> list[Tensor | None]:
    """What `expect_backward` gives for these very tensors, one an input, with its graph.

    Raises:
        BadInput: it returns the wrong number of gradients.
    """
    assert trial.subject.expect_backward is not None
    positional, keywords = trial.arguments(tensors)
    handed = cotangents[0] if len(cotangents) == 1 else tuple(cotangents)
    returned = trial.subject.expect_backward(handed, *positional, **keywords)
    return _by_input(trial, positional, returned)


def _by_input(
    trial: Trial, positional: tuple[Any, ...], returned: Any
) -> list[Tensor | None]:
    gradients = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(gradients) != len(positional):
        raise BadInput(
            f"{trial.subject.name}: the declared gradient returns {len(gradients)} "
            f"values for {len(positional)} arguments; return one an argument, None for "
            "those that have none"
        )
    found: list[Tensor | None] = []
    for argument, gradient in zip(positional, gradients, strict=True):
        held = [v for _, v in tree.leaves(argument, "x")]
        found += (
            [None] * len(held)
            if gradient is None
            else [v for _, v in tree.leaves(gradient, "x")]
        )
    return [
        g
        for g, needed in zip(found, trial.differentiable_leaves, strict=False)
        if needed
    ]


def _flat(gradient: Tensor) -> Tensor:
    real = (
        torch.view_as_real(gradient.resolve_conj())
        if gradient.is_complex()
        else gradient
    )
    return real.detach().reshape(-1).to("cpu", torch.float64)
