"""BP701: what is alive after the outputs are dropped."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

def call():  # all of whose tensors are only watched when it returns
    found = outputs()
    watched = [weakref.ref(y) for y in found]
    if $backward:
        ones = [torch.ones_like(y) for y in found]
        torch.autograd.grad(found, $inputs, ones, allow_unused=True)
    return watched

gc.collect()
gc.disable()
alive = sum(reference() is not None for reference in call())
gc.enable()
gc.collect()
print(alive, "outputs are alive after they were dropped")
assert not alive, f"$code: {alive} outputs stay alive when the graph is dropped"
"""


def leak(conviction: Conviction) -> Script:
    """The outputs of one call, dropped with the garbage collector off."""
    after = "after backward" in conviction.evidence.words
    return script(conviction, conviction.stage(), _TEMPLATE, backward=after)
