"""BP502: shape, type and device of what backward returns, before torch adapts it."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script
from backproof.repro.scripts.raises import raises

_TEMPLATE = """
$setup

$outputs

found = outputs()
node = found[0].grad_fn  # its own ctx
torch.manual_seed(0)
with torch.no_grad():
    returned = $backward(node, *(torch.randn_like(y) for y in found))
for x, g in zip(arguments, returned if isinstance(returned, tuple) else (returned,)):
    if torch.is_tensor(x) and torch.is_tensor(g):
        said = f"{g.dtype} {list(g.shape)} on {g.device} is the gradient of an input of"
        said += f" {x.dtype} {list(x.shape)} on {x.device}"
        fits = g.shape == x.shape or torch.broadcast_shapes(g.shape, x.shape) == g.shape
        fits &= torch.finfo(g.dtype).eps <= torch.finfo(x.dtype).eps
        assert fits and g.device == x.device, "$code: " + said
"""


def gradient_form(conviction: Conviction) -> Script:
    """Backward is called on its own ctx."""
    if "the engine refuses" in conviction.title:
        return raises(conviction)
    stage = conviction.stage()
    return script(conviction, stage, _TEMPLATE, backward=conviction.own_backward)
