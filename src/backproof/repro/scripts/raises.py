"""A backward that raises, for whatever law it did."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.script import Script, script
from backproof.trial import Trial

_TEMPLATE = """
$setup

$outputs

found = outputs()
$chosen
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in found]
try:
    torch.autograd.grad(found, $inputs, cotangents, allow_unused=True)
except Exception as error:
    said = f"backward raises {type(error).__name__}: {str(error).splitlines()[0]}"
    raise AssertionError("$code: " + said) from error
"""


def raises(
    conviction: Conviction,
    trial: Trial | None = None,
    chosen: str = "found = list(found)",
) -> Script:
    """Runs backward, at the case or another `trial`, of what `chosen` makes of outputs."""
    return script(conviction, conviction.stage(trial), _TEMPLATE, chosen=chosen)
