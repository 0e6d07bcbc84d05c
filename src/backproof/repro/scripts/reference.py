"""BP111: the subject beside its reference."""

from __future__ import annotations

from backproof.probe import coarsest
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_ROUNDINGS = 64.0  # of an element or a typical one, in eps

_TEMPLATE = """
$setup
reference = $reference

def outputs(function):
$run

inputs = $inputs
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in outputs(function)]
for name, g, e in zip($names, $got, $expected):
    share = (g - e).abs() / e.abs().clamp(min=e.abs().median())
    apart = share.nan_to_num(0.0, float("inf")).max().item()
    said = f"the two differ by {apart:.2g} of {name}, bar $bar"
    print(said)
    assert apart <= $bar, "$code: $title; " + said
"""
_GRADIENT = (
    "torch.autograd.grad(outputs({}), inputs, cotangents, materialize_grads=True)"
)


def reference(conviction: Conviction) -> Script:
    """Outputs and gradients of both, in the inputs' own types."""
    trial, origin = conviction.trial, conviction.origin
    if trial.subject.module is not None or origin.reference is None:
        raise NoScript("its reference has no name in the module")
    names = [o.name for o in trial.outputs]
    got, expected = "outputs(function)", "outputs(reference)"
    if "gradient" in conviction.title:
        names = [i.name for i in trial.inputs]
        got, expected = _GRADIENT.format("function"), _GRADIENT.format("reference")
    return script(
        conviction,
        conviction.stage(),
        _TEMPLATE,
        reference=origin.expression(trial.subject.reference, origin.reference),
        names=names,
        got=got,
        expected=expected,
        bar=f"{_ROUNDINGS * coarsest(trial.dtypes).eps:.2g}",
        title=conviction.quotable,
    )
