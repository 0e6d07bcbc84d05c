"""BP102: a second backward beside how backward itself moves."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from backproof.battery.inquiry import Inquiry
from backproof.battery.laws.second_order import finest
from backproof.battery.two_stages import judge_gradient
from backproof.repro.conviction import Conviction
from backproof.repro.direction import accusation, directional
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script
from backproof.trial.pullback import pullback

_CUT = """
$setup

$outputs
torch.manual_seed(0)
cotangents = [torch.randn_like(y).requires_grad_() for y in outputs()]
gradients = torch.autograd.grad(
    outputs(), $inputs, cotangents, create_graph=True, allow_unused=True
)
for name, g in zip($names, gradients):
    if g is not None and g.any():
        said = f"the gradient of {name} is cut from the graph: a second backward takes it"
        said += " for a constant, though it depends on the cotangent"
        assert g.requires_grad, "$code: " + said
"""


def second_order(conviction: Conviction) -> Script:
    """Backward is the function here, its inputs are those of forward and cotangents."""
    if "cut from the graph" in conviction.title:
        names = [i.name for i in conviction.trial.inputs]
        return script(conviction, conviction.stage(), _CUT, names=names)
    examination = conviction.examination
    trial = finest(examination)
    cotangent = trial.represent(examination.base.cotangent)
    second = pullback(trial, trial.record(), cotangent)
    found = judge_gradient(Inquiry(second, seed=examination.seed), None)
    accused = accusation(second, found.decided_by, examination.seed)
    sizes = [p.values.numel() for p in second.points]
    every: list[list[Tensor | None]] = [
        [
            torch.zeros(n).double() if d is None else d
            for d, n in zip(line, sizes, strict=True)
        ]
        for line in accused.lines
    ]
    accused = dataclasses.replace(accused, lines=every)
    stage = conviction.stage(trial, of=trial.split(cotangent))
    kept = [o.name.replace("output", "gradients") for o in second.outputs]
    if any("[" not in name for name in kept):
        raise NoScript("backward returns something else than gradients")
    count = len(trial.inputs)
    run = [
        *stage.run()[:-1],
        f"found = {stage.run()[-1].removeprefix('return ')}",
        f"x, u = inputs[:{count}], inputs[{count}:]",
        "gradients = torch.autograd.grad(found, x, u, create_graph=True, allow_unused=1)",
        f"return [{', '.join(kept)}]",
    ]
    inputs = f"[{', '.join(stage.inputs())}]"
    return directional(
        conviction,
        stage,
        accused,
        trial=second,
        inputs=f'{inputs} + [u.requires_grad_() for u in saved["of"]]',
        run="\n".join(f"    {line}" for line in run),
        forward="backward itself moves by",
    )
