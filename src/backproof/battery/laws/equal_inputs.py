"""BP209: inputs that are equal, or one tensor, keep their gradients."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.another_point import what_is_wrong
from backproof.battery.cases import Twins, twins
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.errors import BadInput
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Refused
from backproof.trial.flat import flat


@law("BP209")
def equal_inputs(examination: Examination) -> Iterator[Evidence]:
    """Two inputs that are equal, or one tensor given twice, get the right gradients.

    Equal values are judged like any other point; one tensor in both places gets the sum
    of what the two would get.

    Cost: about 15 forwards and 4 backwards a pair, and 2 of each; up to 4 pairs.
    Blind to: three equal inputs; inputs that overlap in part.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    if not examination.trial.subject.declared and (
        examination.gradient.kind in (Kind.WRONG, Kind.STAIRCASE)
    ):
        raise NotApplicable("the gradient is wrong, or a surrogate, as it is")
    pairs = list(twins(examination.trial))
    if not pairs:
        raise NotApplicable("no two inputs have the same shape and type")
    for pair in pairs:
        try:
            yield _judged(examination, pair)
        except (BadInput, Refused):
            continue


def _judged(examination: Examination, pair: Twins) -> Evidence:
    names = [examination.trial.inputs[k].name for k in (pair.first, pair.second)]
    both = f"`{names[0]}` and `{names[1]}`"
    numbers = {"inputs": names}
    try:
        # Bounds that meet are a kink, where nothing has to be right.
        wrong = what_is_wrong(pair.equal, examination.seed, at_kinks=False)
        if wrong:  # another line and cotangent have to say so too
            seed = examination.seed + 1
            wrong = what_is_wrong(pair.equal, seed, at_kinks=False) and wrong
        if wrong:
            return broken(
                f"where {both} are equal, {wrong.explained()}",
                numbers,
                where=wrong.where or Places(pair.equal).gradient(wrong.name),
                remedy=f"Compare positions and not values: {both} may be equal, and each "
                "still has its own gradient.",
            )
        return _one_tensor(examination, pair, both)
    except BackwardRaised as error:
        return broken(
            f"where {both} are equal, backward raises\n{raised(error)}",
            numbers,
            where=Places(pair.equal).raised(error),
        )


def _one_tensor(examination: Examination, pair: Twins, both: str) -> Evidence:
    """One tensor in both places."""
    trial, cotangent = pair.equal, examination.base.cotangent
    graph = trial.record()
    apart = trial.pull(graph, cotangent)
    expected = [
        None if g is None else g.clone()
        for g in (apart[pair.first], apart[pair.second])
    ]
    total = sum((g for g in expected if g is not None), torch.zeros(()))
    tensors = [i.at(i.point.values).requires_grad_() for i in trial.inputs]
    tensors[pair.second] = tensors[pair.first]
    try:
        with torch.enable_grad():
            outputs = trial.call(tensors)
    except Exception as error:
        raise Refused(str(error)) from error
    try:
        (gradient,) = torch.autograd.grad(
            outputs, [tensors[pair.first]], trial.split(cotangent), allow_unused=True
        )
    except Exception as error:
        raise BackwardRaised(str(error)) from error
    name = trial.inputs[pair.first].name
    got = [None if gradient is None else flat([gradient])]
    found = examination.yardstick.gradients(got, [total], [name])
    numbers = {"inputs": [name, trial.inputs[pair.second].name], **found.numbers}
    if found.is_real and not examination.is_random:
        return broken(
            f"one tensor given as {both} does not get the sum of both gradients\n"
            f"it gets {found.words}",
            numbers,
            where=Places(trial).gradient(name),
        )
    return held(f"{both} may be equal, and one tensor", numbers)
