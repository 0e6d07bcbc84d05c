"""BP504: only some of the inputs need a gradient."""

from __future__ import annotations

from backproof.battery.cases import subsets as every_subset
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

inputs, needed = $inputs, $needed
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in outputs()]

def backward():
    found = outputs()
    kept = [inputs[k] for k in needed]
    return [*found, *torch.autograd.grad(found, kept, cotangents, materialize_grads=True)]

every = backward()
for k, x in enumerate(inputs):
    x.requires_grad_(k in needed)
try:
    fewer = backward()
except Exception as error:
    raise AssertionError(f"$code: $title: {error}") from error
for g, e in zip(fewer, every):
    share = (g - e).abs() / e.abs().clamp(min=e.abs().median())
    apart = share.nan_to_num(0.0, float("inf")).max().item()
    assert apart <= $bar, f"$code: $title: {apart:.2g} away from when all need one"
"""


def subsets(conviction: Conviction) -> Script:
    """Gradients with the other inputs frozen, beside those with none frozen."""
    names = [i.name for i in conviction.trial.inputs]
    for variant in every_subset(conviction.trial):
        if variant.label == conviction.numbers["subset"]:
            return script(
                conviction,
                conviction.stage(),
                _TEMPLATE,
                needed=[names.index(i.name) for i in variant.trial.inputs],
                title=conviction.quotable,
                bar=conviction.allowed(),
            )
    raise NoScript("this subset is not found again")
