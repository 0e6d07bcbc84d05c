"""BP109: a gradient that is not finite where forward is."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script
from backproof.trial import Trial

_TEMPLATE = """
$setup

$outputs

found, cotangents = outputs(), saved["cotangents"]
gradients = torch.autograd.grad(found, $inputs, cotangents, materialize_grads=True)
print("forward is finite:", all(y.isfinite().all().item() for y in found))
for name, g in zip($names, gradients):
    lost = (~g.isfinite()).sum().item()
    said = f"the gradient of {name} is nan or inf in {lost} of {g.numel()} elements"
    print(said)
    assert not lost, "$code: " + said
"""


def finite_gradient(conviction: Conviction, trial: Trial | None = None) -> Script:
    """Counts what is nan or inf, at the case or another `trial`."""
    own, base = conviction.trial, conviction.examination.base
    stage = conviction.stage(trial, cotangents=own.split(base.cotangent))
    names = [i.name for i in own.inputs]
    return script(conviction, stage, _TEMPLATE, names=names)
