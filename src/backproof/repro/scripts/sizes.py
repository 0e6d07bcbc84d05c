"""BP505: the gradient at another size."""

from __future__ import annotations

from backproof.battery.cases import sizes as every_size
from backproof.repro.conviction import Conviction
from backproof.repro.direction import at_other_inputs
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script
from backproof.repro.scripts.raises import raises

_EMPTY = """
$setup

$outputs

inputs, found = $inputs, outputs()
ones = [torch.ones_like(y) for y in found]
gradients = torch.autograd.grad(found, inputs, ones, materialize_grads=True)
for name, g in zip($names, gradients):
    said = f"for an empty batch {name} gets a gradient that is not zero"
    assert not g.any(), "$code: " + said
"""


def sizes(conviction: Conviction) -> Script:
    """Claim and truth, an error, or a gradient out of nothing, at that size."""
    trial, words = conviction.trial, conviction.title
    for resized in every_size(trial, trial.outputs):
        if resized.words != conviction.numbers["size"]:
            continue
        if "raises" in words:
            return raises(conviction, resized.trial)
        if resized.empty:
            names = [i.name for i in trial.inputs]
            stage = conviction.stage(resized.trial)
            return script(conviction, stage, _EMPTY, names=names)
        return at_other_inputs(conviction, resized.trial)
    raise NoScript("this size is not found again")
