"""Findings that are known and accepted: read, held against a report, written."""

from __future__ import annotations

import pytest

from backproof.audit import baseline
from backproof.audit.baseline import Entry
from backproof.errors import BadInput
from backproof.records import (
    Finding,
    Judgement,
    Outcome,
    Severity,
    Status,
    Verdict,
    broken,
    held,
    undecided,
)
from backproof.report import Report
from backproof.report.environment import environment

ENTRY = """
[[accepted]]
function = "Flip"
file = "model.py"
codes = ["BP101"]
reason = "meant"
"""
_MADE = {
    Status.BROKEN: broken,
    Status.HELD: held,
    Status.INCONCLUSIVE: undecided,
}


def judged(verdict, *, name="Flip", file="model.py", **laws):
    """A judgement whose laws have these statuses, with a finding for each broken one."""
    outcomes = tuple(
        Outcome(code, "law", "case", status, (_MADE[status]("said"),))
        for code, status in laws.items()
    )
    findings = tuple(
        Finding(code, Severity.ERROR, "title", "words")
        for code, status in laws.items()
        if status is Status.BROKEN
    )
    return Judgement(name, file, 1, verdict, outcomes=outcomes, findings=findings)


def report(*subjects):
    return Report(environment(torch=None, seed=0), subjects)


def read(folder, text):
    path = folder / "known.toml"
    path.write_text(text)
    return baseline.read(path)


WRONG = judged(Verdict.WRONG, BP101=Status.BROKEN)
RIGHT = judged(Verdict.PASS, BP101=Status.HELD)


def test_an_accepted_finding_does_not_fail(tmp_path):
    kept = baseline.hold(report(WRONG), read(tmp_path, ENTRY))
    assert kept.accepted == {("Flip", "model.py")}
    assert not kept.failing
    assert not kept.fixed


def test_a_new_code_of_an_accepted_function_fails(tmp_path):
    worse = judged(Verdict.WRONG, BP101=Status.BROKEN, BP203=Status.BROKEN)
    kept = baseline.hold(report(worse), read(tmp_path, ENTRY))
    assert kept.failing == (worse,)
    assert not kept.accepted


def test_another_function_of_that_name_is_not_accepted(tmp_path):
    other = judged(Verdict.WRONG, file="other.py", BP101=Status.BROKEN)
    assert baseline.hold(report(other), read(tmp_path, ENTRY)).failing == (other,)


def test_what_is_fixed_must_be_removed(tmp_path):
    kept = baseline.hold(report(RIGHT), read(tmp_path, ENTRY))
    assert [entry.codes for entry in kept.fixed] == [("BP101",)]
    said = baseline.in_words(kept.fixed[0], tmp_path / "known.toml")
    assert "Flip (model.py) no longer has BP101: remove it from" in said


@pytest.mark.parametrize(
    "subject",
    [
        judged(Verdict.INCONCLUSIVE, BP101=Status.INCONCLUSIVE),
        # Its time was over before this law: nothing is known about it.
        judged(Verdict.PASS, BP203=Status.HELD, BP101=Status.INCONCLUSIVE),
        judged(Verdict.PASS, BP203=Status.HELD),
        judged(Verdict.PASS, name="Other", BP101=Status.HELD),
    ],
)
def test_what_was_not_asked_is_not_fixed(tmp_path, subject):
    assert not baseline.hold(report(subject), read(tmp_path, ENTRY)).fixed


def test_what_is_written_is_accepted_and_keeps_reasons(tmp_path):
    before = read(tmp_path, ENTRY)
    new = judged(Verdict.WRONG, name='Odd "name"', file="ü.py", BP203=Status.BROKEN)
    written = read(tmp_path, baseline.of(report(WRONG, new), before))
    assert written == [
        Entry("Flip", "model.py", ("BP101",), "meant"),
        Entry('Odd "name"', "ü.py", ("BP203",), "not examined yet"),
    ]
    kept = baseline.hold(report(WRONG, new), written)
    assert len(kept.accepted) == 2
    assert not kept.failing


def test_writing_keeps_what_did_not_run_and_drops_what_is_fixed(tmp_path):
    before = read(tmp_path, ENTRY + ENTRY.replace("Flip", "Absent"))
    written = read(tmp_path, baseline.of(report(RIGHT), before))
    assert [entry.function for entry in written] == ["Absent"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[accepted]", "baseline"),
        ("[accepted]\nfunction = 'x'", "each entry begins with [[accepted]]"),
        ("[[acepted]]\nfunction = 'x'", "'acepted' is none"),
        ("accepted = [1]", "entry 1 must have function, file, codes, reason"),
        (ENTRY.replace('reason = "meant"', ""), "entry 1 must have"),
        (ENTRY + "why = 'x'", "and nothing else"),
        (ENTRY.replace('["BP101"]', '"BP101"'), "codes is 'BP101', and must be a list"),
        (ENTRY.replace('"BP101"', ""), "codes is [], and must be a list"),
        (ENTRY.replace("BP101", "BP10"), "there is no code 'BP10'"),
        (ENTRY.replace('"Flip"', "3"), "function is 3, and must be a string"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path, text, words):
    with pytest.raises(BadInput) as refused:
        read(tmp_path, text)
    assert words in str(refused.value)
    assert "known.toml" in str(refused.value)


def test_a_missing_file_is_refused_with_what_writes_it(tmp_path):
    with pytest.raises(BadInput, match="--accept"):
        baseline.read(tmp_path / "none.toml")
