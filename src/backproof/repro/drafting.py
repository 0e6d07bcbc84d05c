"""A broken law -> a script that should show it."""

from __future__ import annotations

from backproof.battery.examination import Examination
from backproof.records import Outcome, Status
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.origin import Origin
from backproof.repro.script import Script
from backproof.repro.scripts import SCRIPTS
from backproof.repro.scripts.in_context import in_context
from backproof.repro.scripts.raises import raises
from backproof.trial.trial import Calls


def draft(outcome: Outcome, examination: Examination, origin: Origin) -> Script:
    """The script for the first piece of evidence that has one.

    What it costs in calls of the subject is not counted.

    Raises:
        NoScript: none has; the text says why for the first.
    """
    counted = [(c, c.forward, c.backward) for c in _counts(examination)]
    reasons: list[NoScript] = []
    try:
        if not examination.trial.outputs:
            examination.trial.record()
        for evidence in outcome.evidence:
            if evidence.holds is False:
                try:
                    return _written(Conviction(outcome, evidence, examination, origin))
                except NoScript as reason:
                    reasons.append(reason)
    finally:
        for calls, forward, backward in counted:
            calls.forward, calls.backward = forward, backward
    raise reasons[0] if reasons else NoScript("nothing was measured that it could show")


def _written(conviction: Conviction) -> Script:
    code = conviction.outcome.code
    if conviction.title.startswith("in context "):
        return in_context(conviction)
    if conviction.outcome.status is Status.CRASHED:
        return raises(conviction)
    if code not in SCRIPTS:
        raise NoScript(f"there is none for its code; there is for {known_codes()}")
    return SCRIPTS[code](conviction)


def known_codes() -> str:
    """The codes that have a script, as a list to read."""
    return f"{', '.join(sorted(SCRIPTS))}, and for some contexts"


def _counts(examination: Examination) -> list[Calls]:
    return [examination.trial.calls, examination.trial.wide_calls]
