"""BP204: results after the next call, and the memory that they live in."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_OVERWRITTEN = """
$setup

$outputs

inputs = $inputs
torch.manual_seed(0)
found = outputs()
cotangents = [torch.randn_like(y) for y in found]
kept = [*found, *torch.autograd.grad(found, inputs, cotangents, materialize_grads=True)]
before = [t.detach().clone() for t in kept]
for _ in range(3):  # buffers may be used in turn
    for x in inputs:
        x.data.mul_(1.01)
    torch.autograd.grad(outputs(), inputs, [2 * u for u in cotangents], allow_unused=True)
for name, now, then in zip($names, kept, before):
    said = f"the next call overwrites {name}: {(now != then).sum().item()} elements"
    print(said)
    assert torch.equal(now, then), "$code: " + said
"""
_SHARED = """
$setup
before, version = $place.detach().clone(), $place._version
$seeding
output = $call
with torch.no_grad():
    $output.add_(1)
changed = not torch.equal($place.detach(), before)
said = "a change of $output in place changes $name, and no version counter moves"
assert not changed or $place._version > version, "$code: " + said
"""


def result_memory(conviction: Conviction) -> Script:
    """Results kept over more calls, or an output changed in place."""
    stage, numbers = conviction.stage(), conviction.numbers
    if "result" in numbers:
        names = [o.name for o in conviction.trial.outputs]
        names += [f"the gradient of {i.name}" for i in conviction.trial.inputs]
        return script(conviction, stage, _OVERWRITTEN, names=names)
    if "schema" in conviction.title:
        raise NoScript("a schema is not something that a script measures")
    name = str(numbers["input"])
    return script(
        conviction,
        stage,
        _SHARED,
        place=stage.expression(name),
        output=numbers["output"],
        name=name,
    )
