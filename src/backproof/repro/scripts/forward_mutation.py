"""BP201: an argument before and after forward."""

from __future__ import annotations

from torch import Tensor

from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup
before = $changed.detach().clone()
$seeding
output = $call
after = $changed.detach()
wrong = ~((after == before) | (after.isnan() & before.isnan()))
said = f"forward changes {wrong.sum().item()} of {wrong.numel()} elements of its $name"
print(said)
assert not wrong.any(), "$code: " + said
"""


def forward_mutation(conviction: Conviction) -> Script:
    """Compares an argument with a copy of it."""
    stage, name = conviction.stage(), str(conviction.numbers.get("input", ""))
    if not name:
        raise NoScript("it shows inside of the subject, where a script does not look")
    places = dict(zip(conviction.trial.names, stage.places(), strict=True))
    if not isinstance(places[name][1], Tensor):
        raise NoScript(f"`{name}` is no tensor")
    return script(conviction, stage, _TEMPLATE, changed=places[name][0], name=name)
