"""BP110: the digits that a gradient has."""

from __future__ import annotations

from torch import Tensor

from backproof.probe import coarsest
from backproof.repro.conviction import Conviction
from backproof.repro.direction import accusation, directional
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_ROUNDINGS = 8.0  # of a gradient, in eps: what float64's may be away

_BESIDE_FLOAT64 = """
$setup

$outputs
cotangents = saved["cotangents"]
gradients = torch.autograd.grad(outputs(), $inputs, cotangents, materialize_grads=True)
arguments = [a.detach().double().requires_grad_(a.requires_grad) if torch.is_tensor(a)
             and a.is_floating_point() else a for a in arguments]
wide = [u.double() for u in cotangents]
exact = torch.autograd.grad(outputs(), $inputs, wide, materialize_grads=True)
for name, g, e in zip($names, gradients, exact):
    apart = ((g - e).norm() / e.norm()).item()
    said = f"the gradient of {name} is {apart:.2g} away from float64's, allowed is $bar"
    print(said)
    assert apart <= $bar, "$code: " + said
"""

_ROUNDING = """
$setup

$outputs
cotangents = saved["cotangents"]
first = torch.autograd.grad(outputs(), $inputs, cotangents, materialize_grads=True)
scaled = [1.37 * u for u in cotangents]
second = torch.autograd.grad(outputs(), $inputs, scaled, materialize_grads=True)
for name, a, b in zip($names, first, second):
    apart = ((b / 1.37 - a).norm() / a.norm()).item()
    said = f"backward rounds the gradient of {name} at {apart:.2g}, allowed is $bar"
    print(said)
    assert apart <= $bar, "$code: " + said
"""


def digits(conviction: Conviction) -> Script:
    """Claim beside truth, or beside float64, or beside that of another cotangent."""
    examination = conviction.examination
    found, trial = examination.gradient, examination.trial
    if "rounding" in conviction.numbers:
        cotangent = examination.inquiry.looks[-1].cotangents[0]
        return _beside(conviction, _ROUNDING, cotangent, conviction.allowed())
    native = found.decided_by is not found.wide
    wide = None if native else examination.wide_trial
    try:
        accused = accusation(wide or trial, found.decided_by, examination.seed)
    except NoScript:
        look = found.decided_by.look
        if found.departure is None or look is None or trial.subject.module is not None:
            raise
        bar = f"{_ROUNDINGS * coarsest(trial.dtypes).eps:.2g}"
        return _beside(conviction, _BESIDE_FLOAT64, look.cotangents[1], bar)
    return directional(conviction, conviction.stage(wide or trial), accused)


def _beside(
    conviction: Conviction, template: str, cotangent: Tensor, bar: str
) -> Script:
    stage = conviction.stage(cotangents=conviction.trial.split(cotangent))
    names = [i.name for i in conviction.trial.inputs]
    return script(conviction, stage, template, names=names, bar=bar)
