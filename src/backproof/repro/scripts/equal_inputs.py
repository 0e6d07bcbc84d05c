"""BP209: two inputs that are equal, or one tensor in both places."""

from __future__ import annotations

from collections.abc import Sequence

from backproof.battery.cases import twins
from backproof.repro.conviction import Conviction
from backproof.repro.direction import at_other_inputs
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_ONE_TENSOR = """
$setup

$outputs

$second = $first.detach().clone().requires_grad_()
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in outputs()]
both = [$first, $second]
apart = torch.autograd.grad(outputs(), both, cotangents, materialize_grads=True)
$second = $first  # one tensor in both places
(got,) = torch.autograd.grad(outputs(), [$first], cotangents, materialize_grads=True)
wanted = apart[0] + apart[1]
off = ((got - wanted).norm() / wanted.norm()).item()
said = f"one tensor given twice does not get the sum of both gradients: {off:.2g} away"
assert off <= $bar, "$code: " + said
"""


def equal_inputs(conviction: Conviction) -> Script:
    """At equal values like at any others; with one tensor the sum of both."""
    names = conviction.numbers["inputs"]
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise NoScript("it does not say which inputs")
    if "one tensor" in conviction.title:
        stage = conviction.stage()
        first, second = (stage.expression(str(n)) for n in names)
        return script(
            conviction,
            stage,
            _ONE_TENSOR,
            first=first,
            second=second,
            bar=conviction.allowed(),
        )
    for pair in twins(conviction.trial):
        inputs = conviction.trial.inputs
        if [inputs[pair.first].name, inputs[pair.second].name] == list(names):
            return at_other_inputs(conviction, pair.equal)
    raise NoScript("these inputs are not found again")
