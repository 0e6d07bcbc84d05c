"""BP104: backward of a scaled cotangent, of a sum, and of one output at a time."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

def backward(cotangents):
    return torch.autograd.grad(outputs(), $inputs, cotangents, materialize_grads=True)

first, second = saved["first"], saved["second"]
$measured
for name, g, e in zip($names, got, expected):
    apart = ((g - e).norm() / (e.norm() + g.norm())).item()
    said = f"the gradient of {name} is {apart:.2g} away from a linear one, bar $bar"
    print(said)
    assert apart <= $bar, "$code: " + said
"""
_SCALED = """
got = backward([-0.5 * u for u in first])
expected = [-0.5 * g for g in backward(first)]  # what linearity asks for
"""
_SUM = """
got = backward([(u + v) / 4 for u, v in zip(first, second)])
expected = [(g + h) / 4 for g, h in zip(backward(first), backward(second))]
"""
_EACH = """
inputs, each = $inputs, range(len(first))  # one output at a time, and all together
parts = [torch.autograd.grad(outputs()[k], inputs, first[k], materialize_grads=True)
         for k in each]
got, expected = [sum(column) for column in zip(*parts)], backward(first)
"""


def linear_in_cotangent(conviction: Conviction) -> Script:
    """The gradient beside what linearity asks for."""
    first, second = conviction.examination.cotangents
    split = conviction.trial.split
    stage = conviction.stage(first=split(first), second=split(second))
    words = conviction.evidence.words
    measured = _SUM if "sum of two" in words else _SCALED
    if "single outputs" in words:
        measured = _EACH.replace("$inputs", stage.values()["inputs"])
    return script(
        conviction,
        stage,
        _TEMPLATE,
        measured=measured.strip(),
        names=[i.name for i in conviction.trial.inputs],
        bar=f"{float(str(conviction.numbers['allowed'])):.2g}",
    )
