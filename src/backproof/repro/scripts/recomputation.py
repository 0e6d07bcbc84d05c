"""BP207 and the like in BP601: backward of one graph from two random states."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script

TEMPLATE = """
$setup

$outputs

inputs, found = $inputs, outputs()
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in found]

def backward(seed):
    torch.manual_seed(seed)
    return torch.autograd.grad(
        found, inputs, cotangents, retain_graph=True, materialize_grads=True
    )

for name, a, b in zip($names, backward($seed), backward($seed + 1)):
    apart = ((b - a).norm() / a.norm()).item()
    said = f"from another random state the gradient of {name} is {apart:.2g} away"
    print(said)
    assert apart <= $bar, "$code: $title: " + said
"""


def recomputation(conviction: Conviction) -> Script:
    """The random state moves on between forward and backward."""
    return script(
        conviction,
        conviction.stage(),
        TEMPLATE,
        names=[i.name for i in conviction.trial.inputs],
        seed=conviction.trial.seed,
        title=conviction.quotable,
        bar=_bar(conviction),
    )


def _bar(conviction: Conviction) -> str:
    """Where forward draws nothing backward may not either, be it in the last digit."""
    if conviction.outcome.code == "BP601":
        return repr(conviction.trial.subject.noise)
    return conviction.allowed()
