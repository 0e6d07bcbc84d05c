"""BP506: outputs that nobody uses, and outputs whose gradient goes nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Output, Trial

_MOST = 16  # outputs that are each given a backward of their own


@law("BP506")
def unused_output(examination: Examination) -> Iterator[Evidence]:
    """Unused outputs are handled, and one without a gradient is marked as such.

    An output alone gets its cotangent while the others get None (or zeros, where
    gradients are materialised); then with explicit zeros.

    Cost: 2 backwards for each of up to 16 outputs.
    Blind to: combinations of two used outputs among many.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial, base = examination.trial, examination.base
    if not 1 < len(trial.outputs) <= _MOST:
        raise NotApplicable("there is one differentiable output")
    for k, output in enumerate(trial.outputs):
        if not bool(base.cotangent[output.part].any()):
            continue
        numbers = {"output": output.name}
        try:
            alone = trial.pull(base.graph, base.cotangent, outputs=[k])
            zeros = torch.zeros_like(base.cotangent)
            zeros[output.part] = base.cotangent[output.part]
            beside = trial.pull(base.graph, zeros)
        except BackwardRaised as error:
            yield broken(
                f"backward raises when only `{output.name}` is used\n{raised(error)}\n"
                "the cotangents of the others are then None (or zeros, with "
                "materialised gradients)",
                numbers,
                where=Places(trial).raised(error),
                remedy="Treat a cotangent that is None as zero: test for it before it is "
                "used.",
            )
            return
        found = examination.yardstick.gradients(alone, beside)
        if found.is_real:
            yield broken(
                f"with only `{output.name}` used, None and zeros for the others give "
                "different gradients\n"
                f"`{found.name}` gets {found.words}",
                {**numbers, **found.numbers},
                where=Places(trial).gradient(found.name),
            )
        elif _ignored(examination, output, alone):
            yield _dropped(trial, k)
        else:
            yield held(f"`{output.name}` alone has its gradient", numbers)


def _ignored(
    examination: Examination, output: Output, gradient: list[Tensor | None]
) -> bool:
    """Whether an output moves smoothly with the inputs, and claims not to."""
    if examination.trial.subject.declared:
        return False
    look = examination.gradient.decided_by.look
    if look is None or any(g is not None and bool(g.any()) for g in gradient):
        return False
    response = look.response
    smooth = response.smooth[output.part] & response.moves[output.part]
    return 2 * int(torch.count_nonzero(smooth)) > smooth.numel()


def _dropped(trial: Trial, k: int) -> Evidence:
    """The evidence against a backward that makes nothing of an output's cotangent."""
    places, output = Places(trial), trial.outputs[k]
    name = places.cotangent_name(k) if len(trial.outputs) > k else ""
    called = f": `{name}`" if name else ""
    term = f"the term of `{name}`" if name else "its term"
    return broken(
        f"the cotangent of `{output.name}` is not used{called}\n"
        "forward moves that output with its inputs, so its gradient is dropped in "
        "silence",
        {"output": output.name},
        where=places.returned(),
        remedy=f"Add {term} to the gradient, or call `ctx.mark_non_differentiable` on "
        "that output in forward.",
    )
