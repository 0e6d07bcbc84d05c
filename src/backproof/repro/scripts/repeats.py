"""BP601: the same call twice."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script
from backproof.repro.scripts.recomputation import recomputation

_TEMPLATE = """
$setup

$outputs

def call():
    torch.manual_seed($seed)
    found = outputs()
    torch.manual_seed($seed)
    cotangents = [torch.randn_like(y) for y in found]
    pulled = torch.autograd.grad(found, $inputs, cotangents, materialize_grads=True)
    return [*found, *pulled]

first = call()
for _ in range(20):
    for name, a, b in zip($names, first, call()):
        share = (b - a).abs() / a.abs().clamp(min=a.abs().median())
        apart = share.nan_to_num(0.0, float("inf")).max().item()
        said = f"two equal calls differ by {apart:.2g} of {name}"
        assert apart <= $bar, "$code: " + said
"""


def repeats(conviction: Conviction) -> Script:
    """Equal calls, or one graph's backward from two random states."""
    if "is random" in conviction.title:
        return recomputation(conviction)
    trial = conviction.trial
    names = [o.name for o in trial.outputs]
    names += [f"the gradient of {i.name}" for i in trial.inputs]
    return script(
        conviction,
        conviction.stage(),
        _TEMPLATE,
        seed=trial.seed,
        names=names,
        bar=conviction.allowed(),
    )
