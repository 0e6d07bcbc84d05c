"""BP205: two forwards before two backwards."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script
from backproof.trial.elsewhere import elsewhere

_TEMPLATE = """
$setup

$outputs

inputs = $inputs
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in outputs()]
points = [[x.detach().clone() for x in inputs], saved["elsewhere"]]

def forward(k):  # at the given inputs, or beside them
    for x, point in zip(inputs, points[k]):
        x.data = point.clone()$other
    return outputs()

def backward(found):
    return torch.autograd.grad(found, inputs, cotangents, materialize_grads=True)

alone = [backward(forward(k)) for k in (0, 1)]
for turns in ((0, 1), (1, 0)):
    pending = [forward(0), forward(1)]
    for k in turns:
        for g, e in zip(backward(pending[k]), alone[k]):
            apart = ((g - e).norm() / e.norm()).item()
            assert apart <= $bar, f"$code: calls share state: a gradient is {apart:.2g} off"
"""


_SETTING = """
$setup

$outputs

inputs, found = $inputs, outputs()
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in found]

def backward():
    return torch.autograd.grad(
        found, inputs, cotangents, retain_graph=True, materialize_grads=True
    )

before = backward()
module.$setting = 1.5 * module.$setting + 0.25  # between forward and backward
for a, b in zip(before, backward()):
    apart = ((b - a).norm() / a.norm()).item()
    said = f"backward looks up $setting when it runs: a gradient is {apart:.2g} off"
    assert apart <= $bar, "$code: " + said
"""


def shared_state(conviction: Conviction) -> Script:
    """Each gradient alone, and with another call pending."""
    trial, bar = conviction.trial, conviction.allowed()
    setting = conviction.numbers.get("setting")
    if setting is not None:
        if not hasattr(conviction.origin.module, str(setting).partition("[")[0]):
            raise NoScript(f"`{setting}` has no name in the module")
        stage = conviction.stage()
        return script(conviction, stage, _SETTING, setting=setting, bar=bar)
    moved = [i.at(v) for i, v in zip(trial.inputs, elsewhere(trial), strict=True)]
    stage = conviction.stage(elsewhere=moved)
    others = [
        f"\n    {name} = {value!r} if k == 0 else {1.25 * value!r}"
        for name, value in stage.places()
        if type(value) is float
    ]
    return script(
        conviction,
        stage,
        _TEMPLATE,
        other="".join(others),
        bar=bar,
    )
