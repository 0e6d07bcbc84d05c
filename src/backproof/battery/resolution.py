"""How well an examination would have seen an error of each input's gradient."""

from __future__ import annotations

from backproof.battery.examination import Examination
from backproof.battery.two_stages import Gradient


def resolutions(examination: Examination) -> dict[str, float]:
    """For each input, the smallest relative error of its gradient that shows.

    Nothing is measured for it: where no law has asked for the gradient there is none.
    """
    trial = examination.trial
    found: Gradient | None = vars(examination).get("gradient")
    if found is None or trial.subject.declared:
        return {}
    conclusion, look = found.decided_by, found.decided_by.look
    if look is None:
        return {}
    inquiry = examination.inquiry
    out = {}
    for k, i in enumerate(trial.inputs):
        alone = conclusion.inputs.get(i.name)
        if alone is not None:
            seen = alone.comparison
            out[i.name] = seen.bar / seen.size if seen.size else seen.resolution
        elif len(trial.inputs) == 1:
            out[i.name] = look.resolution
        else:
            out[i.name] = inquiry.resolution_of(k, look)
        if i.name in found.witnessed:
            out[i.name] = found.witnessed[i.name]
        if found.departure is not None:
            out[i.name] = max(out[i.name], found.departure)
    return out
