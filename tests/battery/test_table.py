"""What a judgement makes of the contexts: a table, outcomes and findings."""

import pytest
import torch

import backproof
from backproof.battery import table
from backproof.battery.check import judge
from backproof.battery.contexts import CONTEXTS
from backproof.battery.survey.survey import Cell, CellStatus
from backproof.errors import BadInput
from backproof.records import Status
from backproof.subject import Case, subject_of
from tests.battery.subjects import normal

RIGHT, WRONG, REFUSES = CellStatus.RIGHT, CellStatus.WRONG, CellStatus.REFUSES
TORCH, NOT_APPLICABLE = CellStatus.TORCH, CellStatus.NOT_APPLICABLE
TANH = subject_of(torch.tanh)
LAWS = ("BP101",)


def outcomes(*cells):
    return list(table.outcomes_of([Cell(*cell) for cell in cells], "inputs"))


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([RIGHT, RIGHT], Status.HELD),
        ([RIGHT, REFUSES, TORCH], Status.HELD),
        ([RIGHT, WRONG], Status.BROKEN),
        ([WRONG, REFUSES], Status.BROKEN),
        ([REFUSES, NOT_APPLICABLE], Status.NOT_APPLICABLE),
        ([TORCH], Status.NOT_APPLICABLE),
    ],
)
def test_cells_of_one_code_fold(statuses, status):
    cells = [(f"c{k}", "BP302", s, "words") for k, s in enumerate(statuses)]
    (outcome,) = outcomes(*cells)
    assert (outcome.code, outcome.status) == ("BP302", status)


def test_the_same_fault_in_several_contexts_is_said_once():
    (outcome,) = outcomes(
        ("func_grad", "BP302", WRONG, "gradient of `x` is 2 times eager's"),
        ("functional_call", "BP302", WRONG, "gradient of `x` is 2 times eager's"),
        ("per_sample", "BP302", WRONG, "gradient of `x` is 0"),
        ("other", "BP302", RIGHT, ""),
    )
    said = [e.words for e in outcome.evidence if e.holds is False]
    assert said == [
        "in context func_grad, functional_call: gradient of `x` is 2 times eager's",
        "in context per_sample: gradient of `x` is 0",
    ]


def test_each_code_has_its_own_outcome():
    found = outcomes(
        ("vmap", "BP301", RIGHT, ""), ("func_grad", "BP302", REFUSES, "no"),
        ("vmap_dims", "BP301", RIGHT, ""),
    )  # fmt: skip
    assert [o.code for o in found] == ["BP301", "BP302"]


class Surveyed:
    """Stands for the survey: gives each context a status, and remembers the calls."""

    def __init__(self, **statuses):
        self.statuses, self.asked = statuses, []

    def __call__(self, trial, contexts, on_phase):
        self.asked.append([c.name for c in contexts])
        for context in contexts:
            on_phase(f"context {context.name}")
            status = self.statuses.get(context.name, RIGHT)
            if isinstance(status, BaseException):
                raise status
            yield Cell(context.name, context.code, status, f"{status} here")


@pytest.fixture
def surveyed(monkeypatch):
    def stand_in(**statuses):
        survey = Surveyed(**statuses)
        monkeypatch.setattr(table, "cells_of", survey)
        return survey

    return stand_in


def test_contexts_are_part_of_the_judgement(surveyed):
    surveyed(func_vjp=REFUSES)
    judgement = judge(TANH, [Case((normal(4),))], contexts="func_grad,func_vjp")
    assert judgement.verdict == "pass"
    assert judgement.contexts == {
        "func_grad": {"status": "right", "words": "right here"},
        "func_vjp": {"status": "refuses", "words": "refuses here"},
    }


def test_a_wrong_context_convicts(surveyed):
    surveyed(func_grad=WRONG)
    judgement = judge(TANH, [Case((normal(4),))], laws=LAWS, contexts=["func_grad"])
    assert judgement.verdict == "wrong"
    (finding,) = judgement.findings
    assert finding.code == next(c.code for c in CONTEXTS if c.name == "func_grad")
    assert finding.title == "in context func_grad: wrong here"
    assert finding.remedy


def test_only_the_first_case_is_run_in_contexts(surveyed):
    survey = surveyed()
    cases = [Case((normal(4),), label="one"), Case((normal(5),), label="two")]
    judgement = judge(TANH, cases, laws=LAWS, contexts="func_grad")
    assert survey.asked == [["func_grad"]]
    assert judgement.outcomes[-1].case == "one"


def test_without_contexts_nothing_is_run(surveyed):
    survey = surveyed()
    for contexts in (None, "none", "", []):
        assert judge(TANH, [Case((normal(4),))], laws=LAWS, contexts=contexts)
    assert survey.asked == []


def test_an_operator_is_run_where_torchs_own_check_looks(surveyed):
    survey = surveyed()
    operator = subject_of(torch.ops.aten.tanh.default)
    judge(operator, [Case((normal(4),))], laws=LAWS)
    assert {"fake_tensor_mode", "aot_function"} <= set(survey.asked[0])
    judge(operator, [Case((normal(4),))], laws=LAWS, contexts="none")
    assert len(survey.asked) == 1


def test_an_unknown_context_is_refused_before_anything_runs():
    def never(x):
        raise AssertionError

    with pytest.raises(BadInput, match="func_grad"):
        backproof.check(never, normal(3), contexts="func_grda")


class RaisingBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        raise ValueError("no table")


def test_after_a_crash_contexts_are_not_run_and_that_is_said(surveyed):
    survey = surveyed()
    report = backproof.check(RaisingBackward, normal(3), contexts="func_grad")
    assert survey.asked == []
    assert report.verdict == "crashed"
    said = report.subjects[0].contexts["func_grad"]
    assert said["status"] == "skipped"
    assert "backward raises" in said["words"]


class EndsTheProgram(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        raise SystemExit("bye")


def test_sys_exit_in_backward_is_a_crash_of_the_subject():
    report = backproof.check(EndsTheProgram, normal(3))
    assert report.verdict == "crashed"
    (finding,) = report.findings
    assert (finding.code, finding.title) == ("BP101", "backward calls sys.exit('bye')")


def test_sys_exit_in_a_context_names_it_and_keeps_the_cells_before_it(surveyed):
    surveyed(func_vjp=SystemExit(3))
    names = "func_grad,func_vjp,func_jvp"
    judgement = judge(TANH, [Case((normal(4),))], contexts=names)
    statuses = {name: said["status"] for name, said in judgement.contexts.items()}
    assert statuses == {
        "func_grad": "right",
        "func_vjp": "skipped",
        "func_jvp": "skipped",
    }
    assert judgement.verdict == "crashed"
    (finding,) = [f for f in judgement.findings if f.severity == "error"]
    assert finding.title == "context func_vjp calls sys.exit(3)"


def test_whoever_watches_knows_the_context(surveyed):
    surveyed()
    phases = []
    judge(
        TANH, [Case((normal(4),))], laws=LAWS, contexts="func_grad",
        on_phase=lambda *phase: phases.append(phase),
    )  # fmt: skip
    code = next(c.code for c in CONTEXTS if c.name == "func_grad")
    assert ("context func_grad", code) in phases
    assert ("backward", "BP101") in phases


def test_whoever_watches_knows_each_cell_at_once(surveyed):
    surveyed(func_vjp=WRONG)
    known = []
    judge(
        TANH, [Case((normal(4),))], laws=[], contexts="func_grad,func_vjp",
        on_known=known.append,
    )  # fmt: skip
    assert [list(one.contexts) for one in known] == [
        ["func_grad"], ["func_grad", "func_vjp"]
    ]  # fmt: skip
    assert [str(one.verdict) for one in known][-1] == "wrong"


def test_a_budget_leaves_contexts_out(surveyed):
    survey = surveyed()
    operator = torch.ops.aten.tanh.default
    report = backproof.check(operator, normal(4), budget="1 call", contexts="func")
    assert survey.asked == []
    statuses = {said["status"] for said in report.subjects[0].contexts.values()}
    assert statuses == {"skipped"}
    assert "the budget of 1 call was spent" in str(report)


def test_the_survey_itself():
    report = backproof.check(torch.tanh, normal(4), contexts="eager_fwd_bwd")
    assert report.subjects[0].contexts["eager_fwd_bwd"]["status"] == "right"
