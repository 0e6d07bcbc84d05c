"""Backward as a function of its own: of the inputs and the cotangents.

What a second backward is the derivative of. It runs as a subject like any other, so the
same referee judges it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from backproof.probe import ANYWHERE
from backproof.subject import Case, Subject
from backproof.trial.declaration import declared_tensors
from backproof.trial.trial import Graph, Trial

_WIDEST = 8.0


def pullback(trial: Trial, graph: Graph, cotangent: Tensor) -> Trial:
    """A trial of (inputs, cotangents) -> gradients, at the case and this cotangent.

    Args:
        trial: whose backward it is.
        graph: a record of it, for the outputs' forms.
        cotangent: where the cotangents are, float64 (num_outputs,).
    """
    count = len(trial.inputs)

    def gradients(*tensors: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            given = [t if t.requires_grad else t.requires_grad_() for t in tensors]
            outputs = trial.call(given[:count])
            return torch.autograd.grad(
                outputs,
                given[:count],
                given[count:],
                create_graph=True,
                allow_unused=True,
            )

    return _of_inputs_and_cotangents(trial, gradients, cotangent)


def declared_pullback(trial: Trial, cotangent: Tensor) -> Trial:
    """The same of the gradient that the subject declares by `expect_backward`."""
    count = len(trial.inputs)

    def gradients(*tensors: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            given = [t if t.requires_grad else t.requires_grad_() for t in tensors]
            return tuple(declared_tensors(trial, given[:count], given[count:]))

    return _of_inputs_and_cotangents(trial, gradients, cotangent)


def _of_inputs_and_cotangents(
    trial: Trial, gradients: Callable[..., Any], cotangent: Tensor
) -> Trial:
    names = [i.name for i in trial.inputs]
    names += [f"the cotangent of {o.name}" for o in trial.outputs]
    arguments: list[Any] = [i.original.clone().requires_grad_() for i in trial.inputs]
    arguments += [u.requires_grad_() for u in trial.split(cotangent)]
    domains = {
        i.name: i.point.domain for i in trial.inputs if i.point.domain != ANYWHERE
    }
    other = Trial(
        Subject(function=gradients, name=trial.subject.name),
        Case(tuple(arguments), label=trial.case.label, domains=domains),
        seed=trial.seed,
        names=names,
    )
    # A gradient that is nothing but rounding must not weigh as much as the others.
    other.widest = _WIDEST
    return other
