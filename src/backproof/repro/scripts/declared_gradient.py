"""BP107: backward beside the gradient that is declared."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from backproof.probe import coarsest
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

inputs, cotangents = $inputs, saved["cotangents"]
$moved
claim = torch.autograd.grad(outputs(), inputs, cotangents, materialize_grads=True)[$number]
$declared
bar = $rounding * declared.abs() + $dust
wrong = ((claim - declared).abs() > bar).flatten()
said = f"{wrong.sum().item()} of {wrong.numel()} elements are not what is declared"
if wrong.any():
    at = wrong.nonzero()[0].item()
    said += f": backward claims {claim.flatten()[at].item():.6g}"
    said += f", declared is {declared.flatten()[at].item():.6g}"
print(said)
assert not wrong.any(), "$code: " + said
"""
_FUNCTION = """
with torch.no_grad():
    declared = $function($cotangent, *arguments)
declared = declared[$argument] if isinstance(declared, (tuple, list)) else declared
"""
_SOFT = """
soft = $function(*arguments)
declared = torch.autograd.grad(soft, inputs, cotangents, materialize_grads=True)[$number]
"""
_TIES = "for x in inputs:  # ties\n    x.data.copy_((2 * x.data).round() / 2)"
_EXTREMES = "for x in inputs:\n    x.data.mul_({})"
_BOUNDS = (
    "for x in inputs:\n"
    "    bounds = torch.tensor({}).repeat(x.numel())[:x.numel()]\n"
    "    x.data.copy_(bounds.reshape(x.shape))"
)


def declared_gradient(conviction: Conviction) -> Script:
    """The declared gradient at the inputs, or at ties, bounds or extremes."""
    trial, name = conviction.trial, str(conviction.numbers["input"])
    if trial.case.keywords or len(trial.names) != len(trial.case.arguments):
        raise NoScript("its arguments are more than tensors and plain values")
    number = [i.name for i in trial.inputs].index(name)
    cotangent = _cotangent(conviction, number)
    eps = coarsest(trial.dtypes).eps
    return script(
        conviction,
        conviction.stage(cotangents=trial.split(cotangent)),
        _TEMPLATE,
        moved=_moved(conviction),
        declared=_declared(conviction, number, name),
        number=number,
        rounding=f"{max(8 * eps, min(64 * eps, 1e-4)):.2g}",
        dust=f"{8 * eps * float(cotangent.abs().median()):.2g}",
    )


def _declared(conviction: Conviction, number: int, name: str) -> str:
    subject, origin = conviction.trial.subject, conviction.origin
    if subject.expect is not None:
        text, given = _SOFT, origin.expression(subject.expect, origin.expect)
    else:
        text, given = _FUNCTION, origin.expression(subject.expect_backward, None)
    alone = len(conviction.trial.outputs) == 1
    text = text.replace("$function", given).replace("$number", str(number))
    text = text.replace("$cotangent", "cotangents[0]" if alone else "tuple(cotangents)")
    return text.replace("$argument", str(conviction.trial.names.index(name))).strip()


def _cotangent(conviction: Conviction, number: int) -> Tensor:
    """The one of the two whose claim is the one in question."""
    first, second = conviction.examination.cotangents
    if "at the given inputs" not in conviction.evidence.words:
        return first
    claim = conviction.examination.pull(first)[number]
    wanted = float(str(conviction.numbers["claim"]))
    return second if claim is None or not bool((claim == wanted).any()) else first


def _moved(conviction: Conviction) -> str:
    """Lines that move the inputs to where it shows."""
    words, trial = conviction.evidence.words, conviction.trial
    if "at ties" in words:
        return _TIES
    if "at extremes" in words:
        half = any(p.dtype == torch.float16 for p in trial.points)
        return _EXTREMES.format("1e2" if half else "1e3")
    bounds = re.search(r"at bounds \((.+) and 0\)", words)
    if bounds is None:
        return "# at the given inputs"
    told = [float(b.removeprefix("±")) for b in bounds[1].split(", ")]
    return _BOUNDS.format([s * b for b in told for s in (1, -1)] + [0.0])
