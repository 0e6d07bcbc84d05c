"""BP506: one output is used and the others are not."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script
from backproof.repro.scripts.raises import raises

_BESIDE_ZEROS = """
$setup

$outputs

def backward(which, cotangents):
    found = [outputs()[k] for k in which]
    return torch.autograd.grad(found, $inputs, cotangents, materialize_grads=True)

torch.manual_seed(0)
used = [torch.zeros_like(y) for y in outputs()]
used[$number].normal_()
every = backward(range(len(used)), used)
for name, g, e in zip($names, backward([$number], [used[$number]]), every):
    apart = ((g - e).norm() / (g.norm() + e.norm()).clamp(min=1e-300)).item()
    said = f"with only $name used the gradient of {name} is {apart:.2g} off"
    assert apart <= $bar, "$code: " + said
"""
_IGNORED = """
$setup

$outputs

inputs, before = $inputs, outputs()[$number]
torch.manual_seed(0)
gradients = ()
if before.requires_grad:  # else it is marked as one without a gradient
    u = torch.randn_like(before)
    gradients = torch.autograd.grad(before, inputs, u, materialize_grads=True)
for x in inputs:
    x.data.mul_(1.01)
moved = (outputs()[$number] - before).abs().max().item()
said = f"the cotangent of $name is not used, and $name moves by {moved:.2g}"
assert not gradients or any(g.any() for g in gradients) or not moved, "$code: " + said
"""


def unused_output(conviction: Conviction) -> Script:
    """None and zeros for the others give the same; and what moves has a gradient."""
    outputs, name = conviction.trial.outputs, conviction.numbers["output"]
    number = [o.name for o in outputs].index(str(name))
    if "raises" in conviction.title:
        return raises(conviction, chosen=f"found = [found[{number}]]")
    ignored = "is not used" in conviction.title
    return script(
        conviction,
        conviction.stage(),
        _IGNORED if ignored else _BESIDE_ZEROS,
        number=number,
        name=name,
        names=[i.name for i in conviction.trial.inputs],
        bar=conviction.allowed(),
    )
