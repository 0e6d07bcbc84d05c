"""BP503: the same numbers in another layout of memory."""

from __future__ import annotations

import torch
from torch import Tensor

from backproof.battery.cases import FORMS, layouts
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_TEMPLATE = """
$setup

$outputs

def backward(cotangents):
    found = outputs()
    inputs = $inputs
    return [*found, *torch.autograd.grad(found, inputs, cotangents, materialize_grads=True)]

torch.manual_seed(0)
cotangents = $cotangents
try:
    got = backward(cotangents)
except RuntimeError as error:
    raise AssertionError(f"$code: $title: {str(error).splitlines()[0]}") from error
plain = [torch.empty(u.shape, dtype=u.dtype).copy_(u) for u in cotangents]
for k, a in enumerate(arguments):
    if torch.is_tensor(a):
        dense = torch.empty(a.shape, dtype=a.dtype).copy_(a.detach())
        arguments[k] = dense.requires_grad_(a.requires_grad)
for g, e in zip(got, backward(plain)):
    share = (g - e).abs() / e.abs().clamp(min=e.abs().median())
    apart = share.nan_to_num(0.0, float("inf")).max().item()
    said = f"$title: {apart:.2g} away from that of contiguous memory"
    assert apart <= $bar, "$code: " + said
"""


def strides(conviction: Conviction) -> Script:
    """Outputs and gradients beside those of contiguous copies."""
    title, layout = conviction.quotable, conviction.numbers.get("layout")
    label = conviction.numbers.get("cotangent")
    values = {"title": title, "bar": conviction.allowed()}
    if label is not None:
        stage = conviction.stage(cotangents=_formed(conviction, str(label)))
        return script(
            conviction, stage, _TEMPLATE, cotangents='saved["cotangents"]', **values
        )
    drawn = "[torch.randn_like(y) for y in outputs()]"
    for variant in layouts(conviction.trial):
        if variant.label == layout and f"with {variant.words}" in conviction.title:
            stage = conviction.stage(variant.trial)
            return script(conviction, stage, _TEMPLATE, cotangents=drawn, **values)
    raise NoScript("this layout is not found again")


def _formed(conviction: Conviction, label: str) -> list[Tensor]:
    """The cotangents in the form that `label` names."""
    trial, base = conviction.trial, conviction.examination.base
    form = FORMS.get(label)
    if form is None:
        ones = trial.split(
            trial.represent(torch.ones_like(base.cotangent) * base.shift)
        )
        return [t.reshape(-1)[0].clone().expand(t.shape) for t in ones]
    found = []
    for tensor in trial.split(base.cotangent):
        other = form(tensor)
        found.append(tensor if other is None else other)
    return found
