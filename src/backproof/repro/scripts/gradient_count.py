"""BP501: how many gradients backward returns, and for which input it has none."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script
from backproof.repro.scripts.raises import raises

_MISSING = """
$setup

$outputs

before = outputs()
gradient = torch.autograd.grad([y.sum() for y in before], $place, allow_unused=True)[0]
$place.data.mul_(1.01).add_(0.01)
moved = max((b - a).abs().max().item() for a, b in zip(before, outputs()))
said = f"$name gets None for its gradient, and moves the outputs by {moved:.2g}"
assert gradient is not None or not moved, "$code: " + said
"""
_COUNT = """
$setup

$outputs

found = outputs()
node = found[0].grad_fn  # its own ctx
torch.manual_seed(0)
with torch.no_grad():
    returned = $backward(node, *(torch.randn_like(y) for y in found))
returned = list(returned) if isinstance(returned, tuple) else [returned]
while len(returned) > len(arguments) and returned[-1] is None:
    returned.pop()  # which torch ignores
tensors = [torch.is_tensor(a) for a in arguments]
fine = all(g is None or is_tensor for g, is_tensor in zip(returned, tensors))
said = f"backward returns {len(returned)} gradients for {len(arguments)} inputs"
assert len(returned) == len(arguments) and fine, "$code: $title; " + said
"""


def gradient_count(conviction: Conviction) -> Script:
    """An input that moves the outputs and gets None; or the number of gradients."""
    if "the engine refuses" in conviction.title:
        return raises(conviction)
    stage, name = conviction.stage(), conviction.numbers.get("input")
    if name is not None:
        place = stage.expression(str(name))
        return script(conviction, stage, _MISSING, place=place, name=name)
    own, title = conviction.own_backward, conviction.quotable
    return script(conviction, stage, _COUNT, backward=own, title=title)
