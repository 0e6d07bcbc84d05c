"""Outcomes fold into a verdict, over all laws and cases."""

import pytest
import torch

import backproof
from backproof.battery.check import judge
from backproof.battery.verdict import fold_verdict
from backproof.records import Outcome, Severity, Status, Verdict
from backproof.subject import Case, subject_of
from tests.battery.referee import REFEREE
from tests.battery.subjects import normal

HELD, BROKEN, CRASHED = Status.HELD, Status.BROKEN, Status.CRASHED
UNDECIDED, NOT_APPLICABLE = Status.INCONCLUSIVE, Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ({"BP101": HELD}, Verdict.PASS),
        ({"BP101": BROKEN}, Verdict.WRONG),
        ({"BP101": HELD, "BP104": BROKEN}, Verdict.WRONG),
        ({"BP101": BROKEN, "BP501": CRASHED}, Verdict.CRASHED),
        ({"BP106": BROKEN, "BP101": NOT_APPLICABLE}, Verdict.SURROGATE),
        ({"BP106": BROKEN, "BP104": BROKEN}, Verdict.WRONG),
        ({"BP106": BROKEN, "BP101": UNDECIDED}, Verdict.SURROGATE),
        ({"BP101": UNDECIDED, "BP104": HELD}, Verdict.INCONCLUSIVE),
        ({"BP107": UNDECIDED, "BP104": HELD}, Verdict.INCONCLUSIVE),
        ({"BP101": HELD, "BP110": UNDECIDED}, Verdict.PASS),
        ({"BP101": NOT_APPLICABLE}, Verdict.INCONCLUSIVE),
        ({"BP101": NOT_APPLICABLE, "BP107": HELD}, Verdict.PASS),
        ({"BP101": HELD, "BP108": HELD}, Verdict.PASS),
        ({"BP101": NOT_APPLICABLE, "BP108": HELD}, Verdict.INCONCLUSIVE),
        ({"BP101": HELD, "BP108": BROKEN}, Verdict.PASS),
        ({}, Verdict.INCONCLUSIVE),
    ],
    ids=str,
)
def test_folding(statuses, verdict):
    outcomes = [Outcome(code, "law", "case", s) for code, s in statuses.items()]
    assert fold_verdict(outcomes) is verdict
    assert fold_verdict(outcomes[::-1]) is verdict


class WrongBelowZero(torch.autograd.Function):
    """|x|, for which backward believes that all is positive."""

    @staticmethod
    def forward(ctx, x):
        return x.abs()

    @staticmethod
    def backward(ctx, g):
        return g.clone()


class TestSeveralCases:
    def cases(self):
        return [
            Case((normal(5).detach().abs().requires_grad_(),), label="positive"),
            Case((normal(8),), label="both signs"),
        ]

    def test_one_wrong_case_is_enough(self):
        judgement = judge(subject_of(WrongBelowZero), self.cases())
        assert judgement.verdict is Verdict.WRONG
        by_case = {o.case: o.status for o in judgement.outcomes if o.code == "BP101"}
        assert by_case == {"positive": HELD, "both signs": BROKEN}
        assert judge(subject_of(WrongBelowZero), self.cases()[:1]).verdict == "pass"

    def test_calls_add_up_and_the_worst_resolution_stays(self):
        cases = self.cases()
        subject = subject_of(torch.tanh)
        alone = [judge(subject, [case], laws=REFEREE) for case in cases]
        both = judge(subject, cases, laws=REFEREE)
        turned = judge(subject, cases[::-1], laws=REFEREE)
        assert turned.resolution == both.resolution
        assert both.calls["forward"] == sum(one.calls["forward"] for one in alone)
        assert both.resolution == {
            name: max(one.resolution[name] for one in alone)
            for name in alone[0].resolution
        }

    def test_the_same_fault_is_one_finding(self):
        cases = [Case((normal(8),), label="one"), Case((normal(8),), label="two")]
        judgement = judge(subject_of(WrongBelowZero), cases)
        assert [f.code for f in judgement.findings] == ["BP101"]


class TestFindings:
    def test_a_finding_says_where_and_what_to_do(self):
        report = backproof.check(WrongBelowZero, normal(8))
        (finding,) = report.findings
        assert finding.severity is Severity.ERROR
        assert finding.where.file == __file__
        line = finding.where.line - 1
        with open(__file__, encoding="utf-8") as source:  # noqa: PTH123
            lines = source.read().splitlines()
        assert lines[line].strip() == finding.where.text == "return g.clone()"
        assert finding.remedy
        assert "claims" in finding.words
        assert "moves by" in finding.words

    def test_a_kink_is_a_note(self):
        x = torch.tensor([0.0, 1.0, -2.0, 3.0]).double().requires_grad_()
        report = backproof.check(torch.relu, x)
        assert report.verdict == "pass"
        (note,) = report.findings
        assert (note.code, note.severity) == ("BP108", Severity.NOTE)
        assert "1 of 4" in note.title

    def test_a_pass_says_what_it_rests_on(self):
        report = backproof.check(lambda x, y: x * y, normal(9), normal(9, seed=1))
        (subject,) = report.subjects
        assert set(subject.resolution) == {"x", "y"}
        assert all(0 < r < 1e-5 for r in subject.resolution.values())
        assert report.findings == ()
        assert "1e-1" in str(report) or "e-1" in str(report)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-7])
def test_the_resolution_is_kept(delta):
    """A dense error ten times the stated resolution is found, and a tenth is not."""

    class Off(torch.autograd.Function):
        factor = 1.0

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Off.factor * g * torch.cos(x)

    x = normal(100)
    stated = backproof.check(Off, x).subjects[0].resolution["x"]
    assert stated < delta / 10
    Off.factor = 1 + delta
    assert backproof.check(Off, x).verdict == "wrong"
    Off.factor = 1 + stated / 10
    assert backproof.check(Off, x).verdict == "pass"
