"""BP208: what forward depends on, it is handed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import law
from backproof.battery.trial import Refused
from backproof.battery.trial.captured import captured, known_to_autograd
from backproof.records import Evidence, broken, held

_MOST = 12  # captured tensors that are each moved once


@law("BP208")
def captured_tensor(examination: Examination) -> Iterator[Evidence]:
    """No tensor that needs a gradient is captured from a closure or a global.

    Such a tensor is moved for one forward and put back: where the outputs follow it and
    their graph does not lead to it, it never gets its gradient.

    Cost: 1 forward, and 1 for each captured tensor outside of the graph.
    Blind to: tensors that are found through attributes of objects, or by native code.
    """
    trial, base = examination.trial, examination.base
    graph = base.graph
    known = known_to_autograd(graph)
    outside = [
        (name, tensor)
        for name, tensor in captured(trial, graph)
        if id(tensor) not in known
    ]
    values = [p.values for p in trial.points]
    for name, tensor in outside[:_MOST]:
        if _follows(examination, tensor, values):
            yield broken(
                f"`{name}` needs a gradient, moves the outputs, and is no argument\n"
                "autograd does not see what a Function captures: it gets no gradient, "
                "and nothing says so",
                {"captured": name, "elements": tensor.numel()},
            )
    if not outside:
        yield held("nothing that needs a gradient is captured")


def _follows(examination: Examination, tensor: Tensor, values: list[Tensor]) -> bool:
    """Whether the outputs change while `tensor` holds other numbers."""
    trial = examination.trial
    kept = tensor.detach().clone()
    try:
        with torch.no_grad():
            tensor.data.mul_(1.25).add_(0.125)
        return not torch.equal(
            trial.forward(values).nan_to_num(),
            examination.base.graph.values.nan_to_num(),
        )
    except Refused:
        return False
    finally:
        tensor.data.copy_(kept)
