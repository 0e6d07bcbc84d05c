"""BP602: settings, `.grad` and random states before and after a call."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$unseeded

def call():
    found = outputs()
    cotangents = [torch.ones_like(y) for y in found]
    torch.autograd.grad(found, $inputs, cotangents, allow_unused=True)

$measured
"""
_SETTING = """
before = {0}
call()
said = f"{{before}} before the call, {{{0}}} after it"
assert {0} == before, '$code: {0} is changed: ' + said
"""
_NO_GRAD = """
with torch.no_grad():
    outputs()
    assert not torch.is_grad_enabled(), "$code: a call switches recording on under no_grad"
"""
_GRAD = """
call()
said = "backward writes the .grad of $name itself, though it was called by autograd.grad"
assert $place.grad is None, "$code: " + said
"""
_SEED = """
states = []
for seed in (20231, 77003):
    $seed
    call()
    states.append($state)
assert states[0] != states[1], "$code: $title"
"""
_GENERATORS = {
    "torch": ("torch.manual_seed(seed)", "torch.get_rng_state().tolist()"),
    "Python's random": ("random.seed(seed)", "random.getstate()"),
    "NumPy": ("numpy.random.seed(seed)", "str(numpy.random.get_state())"),
}


def global_state(conviction: Conviction) -> Script:
    """What a normal op leaves as it was."""
    numbers, stage = conviction.numbers, conviction.stage()
    values = {"name": "", "place": "", "seed": "", "state": "", "title": ""}
    if "generator" in numbers:
        known = _GENERATORS.get(str(numbers["generator"]))
        if known is None:
            raise NoScript("a generator of a device has no script")
        values |= {"seed": known[0], "state": known[1], "title": conviction.quotable}
        measured = _SEED
    elif "input" in numbers:
        name = str(numbers["input"])
        values |= {"name": name, "place": stage.expression(name)}
        measured = _GRAD
    else:
        setting = str(numbers["change"]).partition(" is ")[0]
        if not setting.startswith("torch."):
            raise NoScript(f"{setting} has no script")
        within = "in `torch.no_grad()`" in str(numbers["change"])
        measured = _NO_GRAD if within else _SETTING.format(setting)
    for key, value in {"code": conviction.outcome.code, **values}.items():
        measured = measured.replace(f"${key}", value)
    return script(conviction, stage, _TEMPLATE, measured=measured.strip())
