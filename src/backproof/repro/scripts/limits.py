"""BP508: values and gradients at tiny and large inputs."""

from __future__ import annotations

from backproof.battery.cases import scales
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script
from backproof.repro.scripts.finite_gradient import finite_gradient

_TEMPLATE = """
$setup

$outputs

def backward():
    found = outputs()
    given = [u.to(y.dtype) for u, y in zip(cotangents, found)]
    gradients = torch.autograd.grad(found, $inputs, given, materialize_grads=True)
    return [t.detach().double() for t in (*found, *gradients)]

cotangents = saved["cotangents"]
got = backward()
range_of = torch.finfo($inputs[0].dtype)
arguments = [a.detach().double().requires_grad_(a.requires_grad) if torch.is_tensor(a)
             and a.is_floating_point() else a for a in arguments]
for name, g, exact in zip($names, got, backward()):
    held = (exact.abs() < range_of.max / 64) & (exact.abs() > 64 * range_of.tiny)
    lost = held & ~((g - exact).abs() <= exact.abs() / 2)
    said = f"{name} is lost in {lost.sum().item()} of {lost.numel()} elements"
    if lost.any():
        said += f": {g[lost][0].item():.6g}, in float64 {exact[lost][0].item():.6g}"
    assert not lost.any(), "$code: $words: " + said
"""


def limits(conviction: Conviction) -> Script:
    """The type's own answers beside float64's."""
    trial = conviction.trial
    if trial.subject.module is not None or trial.case.keywords:
        raise NoScript("a module cannot be called in two types in one script")
    for variant in scales(trial):
        if variant.words == conviction.numbers["scale"]:
            if variant.trial.in_float64() is None:
                return finite_gradient(conviction, variant.trial)
            base = conviction.examination.base
            stage = conviction.stage(variant.trial)
            stage.saved["cotangents"] = trial.split(base.cotangent)
            names = [o.name for o in trial.outputs]
            names += [f"the gradient of {i.name}" for i in trial.inputs]
            words = f"with {variant.words}"
            return script(conviction, stage, _TEMPLATE, names=names, words=words)
    raise NoScript("this scale is not found again")
