"""What is known of a Function when its program ends -> a judgement."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from backproof.audit.ledger import Ledger
from backproof.battery.verdict import GRADIENT
from backproof.codes import page
from backproof.records import Judgement, Outcome, Status, Usage, Verdict, undecided
from backproof.report.merging import together


def merged(
    ledger: Ledger, judgements: Sequence[Judgement], notes: Sequence[str]
) -> Judgement:
    """What several calls of one Function say together."""
    found = together(judgements)
    file, line = ledger.place
    return dataclasses.replace(
        found,
        name=ledger.identity.name,
        file=file,
        line=line,
        usage=dataclasses.replace(_usage(ledger), notes=tuple(notes)),
    )


def unverified(ledger: Ledger, reasons: Sequence[str]) -> Judgement:
    """A Function that was called, and of which no call could be judged."""
    file, line = ledger.place
    if not reasons:
        reasons = [_why_not(ledger)]
    unlike = list(dict.fromkeys(reasons))
    return Judgement(
        name=ledger.identity.name,
        file=file,
        line=line,
        verdict=Verdict.INCONCLUSIVE,
        outcomes=tuple(map(_undecided, unlike)),
        usage=_usage(ledger),
    )


def _usage(ledger: Ledger) -> Usage:
    return Usage(
        calls=ledger.calls,
        signatures=len(ledger.signatures),
        checked=len(ledger.checked),
        package=ledger.package,
        unrecorded=dict(ledger.unrecorded),
    )


def _why_not(ledger: Ledger) -> str:
    """Why no call was kept, from the reasons that were counted."""
    if not ledger.unrecorded:
        return "no call of it could be kept"
    reason, _ = ledger.unrecorded.most_common(1)[0]
    return f"nothing to replay: {reason}"


def _undecided(words: str) -> Outcome:
    law = page(GRADIENT).title
    return Outcome(
        GRADIENT, law, "recorded calls", Status.INCONCLUSIVE, (undecided(words),)
    )
