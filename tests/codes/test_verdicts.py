"""What check says of the pages: the wrong example breaks its law, the right one none."""

import pytest

from backproof.battery.check import judge
from backproof.battery.laws import LAWS
from backproof.codes import page
from backproof.records import Severity, Status, Verdict
from backproof.subject import Case, subject_of

OF_LAWS = [law.code for law in LAWS]


def declared(module):
    """What a file declares beside its op, as the command reads it."""
    options = {
        "expect_backward": getattr(module, "EXPECT", None),
        "reference": getattr(module, "reference", None),
    }
    return {key: value for key, value in options.items() if value is not None}


def judged(module, **options):
    subject = subject_of(module.op, **declared(module))
    return judge(subject, [Case(tuple(module.inputs()))], **options)


def errors(judgement):
    return {f.code for f in judgement.findings if f.severity is Severity.ERROR}


@pytest.mark.parametrize("code", OF_LAWS)
def test_wrong_example(code, example):
    """A note is made where its law holds; what it notes at a kink breaks BP101 too."""
    judgement = judged(example(code, "wrong"))
    note = page(code).severity == "note"
    assert judgement.outcome(code).status is (Status.HELD if note else Status.BROKEN)
    assert code in {f.code for f in judgement.findings}


def test_the_right_example_of_a_note_is_not_noted(example):
    assert not judged(example("BP702", "right")).findings


@pytest.mark.parametrize("code", OF_LAWS)
def test_right_example(code, example):
    judgement = judged(example(code, "right"))
    assert not errors(judgement), [(f.code, f.title) for f in judgement.findings]
    assert judgement.verdict is Verdict.PASS
