"""The gradient at another point or size: the same referee, briefly."""

from __future__ import annotations

from backproof.battery.inquiry import Inquiry, Kind
from backproof.battery.laws.declared_gradient import departures
from backproof.battery.two_stages import judge_gradient, rounds_to
from backproof.errors import BadInput
from backproof.probe import coarsest, signs, stream
from backproof.trial import BackwardRaised, Refused, Trial


def what_is_wrong(trial: Trial, seed: int, *, at_kinks: bool = True) -> str:
    """Words for a gradient that is wrong there, empty where nothing is known to be.

    In float64 where the subject runs there, as it is otherwise; against the declaration
    where there is one.

    Args:
        trial: the subject there.
        seed: of the directions and cotangents.
        at_kinks: whether what is wrong at kinks alone counts.

    Raises:
        BadInput: forward raises there, or nothing can be differentiated.
        Refused: likewise.
        BackwardRaised: backward raises there.
    """
    if trial.subject.declared:
        graph = trial.record()
        cotangent = trial.represent(signs(stream(seed), graph.values.numel()))
        found = [e for e in departures(trial, graph, cotangent) if e.holds is False]
        return found[0].words if found else ""
    return _by_probing(trial, seed, at_kinks=at_kinks)


def _by_probing(trial: Trial, seed: int, *, at_kinks: bool) -> str:
    wide = trial.in_float64()
    try:
        inquiry = Inquiry(wide or trial, seed=seed)
    except (BadInput, Refused, BackwardRaised):
        if wide is None:
            raise
        inquiry = Inquiry(trial, seed=seed)
    found = judge_gradient(inquiry, None)
    if found.kind is not Kind.WRONG or found.precision_only:
        return ""
    if wide is not None and rounds_to(coarsest(trial.dtypes).eps, found.decided_by):
        return ""
    look = found.decided_by.look
    if not at_kinks and look is not None and bool(look.response.aside.any()):
        return ""
    names = found.decided_by.wrong_inputs or [i.name for i in trial.inputs]
    words = f"the gradient of {', '.join(f'`{n}`' for n in names)} is wrong"
    worst = found.decided_by.worst
    if worst is None:
        return words
    return (
        f"{words}\nbackward claims {worst.claim.value:.6g}\n"
        f"forward does    {worst.truth.value:.6g} ± {worst.bar:.1g}"
    )
