"""BP103: forward mode beside backward."""

from __future__ import annotations

from backproof.battery.laws.second_order import finest
from backproof.probe import coarsest
from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script

_ROUNDINGS = 64.0  # of the sum of magnitudes, in eps

_TEMPLATE = """
$setup

$outputs

inputs = $inputs
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in outputs()]
tangents = [torch.randn_like(x) for x in inputs]
gradients = torch.autograd.grad(outputs(), inputs, cotangents, materialize_grads=True)
mode = torch.autograd.forward_ad
with mode.dual_level():
    $targets = [mode.make_dual(x.detach(), v) for x, v in zip(inputs, tangents)]
    pushed = [mode.unpack_dual(y).tangent for y in outputs()]
    pushed = [torch.zeros_like(u) if t is None else t for t, u in zip(pushed, cotangents)]
pushes = [(u.conj() * t).real for u, t in zip(cotangents, pushed)]
pulls = [(g.conj() * v).real for g, v in zip(gradients, tangents)]
forward, backward = sum(p.sum() for p in pushes).item(), sum(p.sum() for p in pulls).item()
bar = $roundings * sum(p.abs().sum() for p in (*pushes, *pulls)).item()
said = f"forward mode gives {forward:.9g}, backward {backward:.9g}, bar {bar:.2g}"
print(said)
assert abs(forward - backward) <= bar, "$code: " + said
"""


def forward_mode(conviction: Conviction) -> Script:
    """Cotangents times jvp of tangents, and backward of cotangents times tangents."""
    trial = finest(conviction.examination)
    stage = conviction.stage(trial)
    return script(
        conviction,
        stage,
        _TEMPLATE,
        targets=f"[{', '.join(stage.inputs())}]",
        roundings=f"{_ROUNDINGS * coarsest(trial.dtypes).eps:.2g}",
    )
