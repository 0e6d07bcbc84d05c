"""BP203: a change in place between forward and backward."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

inputs = $inputs
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in outputs()]
right = torch.autograd.grad(outputs(), inputs, cotangents, materialize_grads=True)
found = outputs()
with torch.no_grad():
    $changed.mul_(0.5).add_(0.25)  # as an optimiser does
try:
    got = torch.autograd.grad(found, inputs, cotangents, materialize_grads=True)
except RuntimeError as error:
    print("torch refuses, as it should:", str(error).splitlines()[0])
    got = right
apart = max(((g - r).norm() / r.norm()).item() for g, r in zip(got, right))
said = f"after a change of $name in place the gradient is {apart:.2g} off, without an error"
assert apart <= $bar, "$code: " + said
"""


def stale_save(conviction: Conviction) -> Script:
    """Either torch refuses, or the gradient is that of the old values."""
    stage, name = conviction.stage(), str(conviction.numbers["changed"])
    outputs = {o.name: f"found[{k}]" for k, o in enumerate(conviction.trial.outputs)}
    is_output = "reads the output" in conviction.title
    return script(
        conviction,
        stage,
        _TEMPLATE,
        changed=outputs[name] if is_output else stage.expression(name),
        name=name,
        bar=conviction.allowed(),
    )
