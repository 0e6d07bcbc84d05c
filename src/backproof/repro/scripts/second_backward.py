"""BP206: the same graph, pulled again."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

inputs, found = $inputs, outputs()
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in found]

def backward(keep):
    return torch.autograd.grad(
        found, inputs, cotangents, retain_graph=keep, materialize_grads=True
    )

first = backward($keep)
try:
    second = backward($keep)
except Exception as error:
    words = str(error)
    fine = not $keep and ("second time" in words or "already been freed" in words)
    assert fine, f"$code: $title: {type(error).__name__}: {words}"
else:
    apart = max(((b - a).norm() / a.norm()).item() for a, b in zip(first, second))
    assert apart <= $bar, f"$code: $title, {apart:.2g} away"
"""


def second_backward(conviction: Conviction) -> Script:
    """Through a kept graph, or through one that is freed."""
    return script(
        conviction,
        conviction.stage(),
        _TEMPLATE,
        keep="freed" not in conviction.title,
        title=conviction.quotable,
        bar=conviction.allowed(),
    )
