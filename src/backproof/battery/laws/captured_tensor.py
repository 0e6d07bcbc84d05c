"""BP208: what forward depends on, it is handed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import law
from backproof.battery.place import Places
from backproof.records import Evidence, Location, broken, held
from backproof.trial import Refused
from backproof.trial.captured import captured, known_to_autograd
from backproof.trial.elsewhere import elsewhere

_MOST = 12  # captured tensors that are each moved once


@law("BP208")
def captured_tensor(examination: Examination) -> Iterator[Evidence]:
    """No tensor that needs a gradient is captured from a closure or a global.

    Such a tensor is moved for one forward and put back: where the outputs follow it and
    their graph does not lead to it, it never gets its gradient.

    Cost: 1 forward, and 2 for each captured tensor outside of the graph.
    Blind to: tensors that are found through attributes of objects, or by native code.
    """
    trial = examination.trial
    graph = trial.record()  # the user's own functions are reached through its nodes
    known = known_to_autograd(graph)
    outside = [
        (name, tensor)
        for name, tensor in captured(trial, graph)
        if tensor.requires_grad and id(tensor) not in known
    ]
    handed = {id(t): n for n, t in zip(trial.names, graph.handed, strict=True)}
    inputs = handed | trial.parameters
    told = False
    for name, tensor in outside[:_MOST]:
        argument = inputs.get(id(tensor))
        follows = argument is not None and _follows_input(examination, argument)
        if not follows and id(tensor) not in handed:
            follows = _follows(examination, tensor)
        if follows:
            told = True
            yield broken(
                f"`{argument or name}` needs a gradient, moves the outputs, and is "
                "captured\n"
                "autograd sees what a Function is handed, not what it reaches by itself: "
                "this tensor gets no gradient, and nothing says so",
                {"captured": argument or name, "elements": tensor.numel()},
                where=_mentioned(examination, name),
                remedy=f"Give `{name}` to `apply` as an argument, and return its gradient "
                "from backward.",
            )
    if not told:
        yield held("nothing that needs a gradient is captured outside of the graph")


def _mentioned(examination: Examination, name: str) -> Location | None:
    """Where forward names what it captures: the whole of it, or its owner."""
    places, owner = Places(examination.trial), name.partition("[")[0]
    return places.mention(owner) or places.mention(owner.partition(".")[0])


def _follows(examination: Examination, tensor: Tensor) -> bool:
    """Whether the outputs change while `tensor` holds other numbers."""
    trial = examination.trial
    kept = tensor.detach().clone()
    try:
        with torch.no_grad():
            tensor.data.mul_(1.25).add_(0.125)
        return _changes(examination, [p.values for p in trial.points])
    finally:
        tensor.data.copy_(kept)


def _follows_input(examination: Examination, name: str) -> bool:
    """Whether an input that backward knows nothing of moves the outputs."""
    trial = examination.trial
    moved = elsewhere(trial)
    for k, (i, gradient) in enumerate(
        zip(trial.inputs, examination.base.gradient, strict=True)
    ):
        if i.name == name and gradient is None:
            values = [p.values for p in trial.points]
            values[k] = moved[k]
            return _changes(examination, values)
    return False


def _changes(examination: Examination, values: list[Tensor]) -> bool:
    try:
        now = examination.trial.forward(values)
    except Refused:
        return False
    return examination.yardstick.values(now, examination.base.graph.values).is_real
