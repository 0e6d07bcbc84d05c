"""BP208: a captured tensor moves the outputs and is not in the graph."""

from __future__ import annotations

from torch import Tensor

from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

captured = $captured
before = outputs()
gradient = torch.autograd.grad([y.sum() for y in before], captured, allow_unused=True)[0]
with torch.no_grad():
    captured.data.mul_(1.25).add_(0.125)
moved = max((b - a).abs().max().item() for a, b in zip(before, outputs()))
said = f"$name is captured: it moves the outputs by {moved:.2g} and gets no gradient"
assert gradient is not None or not moved, "$code: " + said
"""


def captured_tensor(conviction: Conviction) -> Script:
    """Moves it, and asks for its gradient."""
    name = str(conviction.numbers["captured"])
    stage, module = conviction.stage(), conviction.origin.module
    if name in conviction.trial.names:
        place = stage.expression(name)
    elif isinstance(getattr(module, name, None), Tensor):
        place = f"module.{name}"
    else:
        raise NoScript(f"`{name}` has no name in the module")
    return script(conviction, stage, _TEMPLATE, captured=place, name=name)
