"""What check says of the pages: the wrong example breaks its law, the right one none.

Laws of the battery are asked all together; the codes of contexts in the contexts that
carry them, as far as they need no compiler of C++.
"""

import pytest
import torch

from backproof.battery.check import judge
from backproof.battery.contexts import CONTEXTS
from backproof.battery.laws import LAWS
from backproof.codes import all_codes, page
from backproof.records import Severity, Status, Verdict
from backproof.subject import Case, subject_of

OF_LAWS = [law.code for law in LAWS]
BY_CODE: dict[str, list[str]] = {}
for _context in CONTEXTS:
    if "inductor" not in _context.name:
        BY_CODE.setdefault(_context.code, []).append(_context.name)
OF_CONTEXTS = sorted(set(BY_CODE) - set(OF_LAWS))


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


@pytest.fixture
def in_contexts(example):
    """in_contexts(code, which): what the contexts of a code say of its example."""
    torch._dynamo.reset()

    def ask(code, which):
        module = example(code, which)
        return judged(module, laws={"BP101", "BP107"}, contexts=BY_CODE[code])

    yield ask
    torch._dynamo.reset()


def test_every_code_of_a_context_is_asked():
    seen = {c for c in all_codes() if "contexts" in page(c).seen_by}
    assert seen - set(OF_LAWS) == set(OF_CONTEXTS)


@pytest.mark.parametrize("code", OF_CONTEXTS)
def test_wrong_example_in_its_contexts(code, in_contexts):
    judgement = in_contexts(code, "wrong")
    assert code in errors(judgement), judgement.contexts
    assert judgement.verdict is Verdict.WRONG


@pytest.mark.parametrize("code", OF_CONTEXTS)
def test_right_example_in_its_contexts(code, in_contexts):
    judgement = in_contexts(code, "right")
    assert not errors(judgement), judgement.contexts
    assert judgement.verdict is Verdict.PASS
    assert "right" in {cell["status"] for cell in judgement.contexts.values()}
