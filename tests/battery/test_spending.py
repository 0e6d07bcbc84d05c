"""A budget: what it may be, what is asked for it, and what is said to be left out."""

import pytest
import torch

import backproof
from backproof.battery.budget import BY_YIELD, Budget
from backproof.battery.check import judge
from backproof.battery.laws import LAWS
from backproof.battery.verdict import fold_verdict
from backproof.codes import all_codes
from backproof.errors import BadInput
from backproof.records import Outcome, Status, left_out
from backproof.subject import Case, subject_of
from tests.battery.subjects import normal


@pytest.mark.parametrize(
    ("given", "budget", "shown"),
    [
        (2, Budget(seconds=2.0), "2 s"),
        (0.5, Budget(seconds=0.5), "0.5 s"),
        ("2", Budget(seconds=2.0), "2 s"),
        ("2s", Budget(seconds=2.0), "2 s"),
        (" 1.5 S ", Budget(seconds=1.5), "1.5 s"),
        ("250ms", Budget(seconds=0.25), "0.25 s"),
        ("2 min", Budget(seconds=120.0), "120 s"),
        ("500 calls", Budget(calls=500), "500 calls"),
        ("1 call", Budget(calls=1), "1 call"),
    ],
)
def test_what_a_budget_may_be(given, budget, shown):
    assert Budget.of(given) == budget
    assert str(Budget.of(given)) == shown


@pytest.mark.parametrize(
    "given", ["", "soon", "0", "0s", -1, "-2s", "2h", "1.5 calls", "0 calls", "2s 3s",
              float("nan"), float("inf")]
)  # fmt: skip
def test_what_is_no_budget_is_named(given):
    with pytest.raises(BadInput, match="500 calls") as caught:
        Budget.of(given)
    assert repr(given) in str(caught.value)


def test_the_order_holds_codes_of_laws():
    assert len(set(BY_YIELD)) == len(BY_YIELD)
    assert set(BY_YIELD) <= {law.code for law in LAWS} <= set(all_codes())


def statuses(judgement):
    return {
        o.code: ("left out" if o.left_out else o.status) for o in judgement.outcomes
    }


def tanh_within(budget, **options):
    report = backproof.check(torch.tanh, normal(20), budget=budget, **options)
    return report.subjects[0]


def test_enough_is_as_good_as_none():
    plain, rich = tanh_within(None), tanh_within("100000 calls")
    assert statuses(rich) == statuses(plain)
    assert rich.verdict == plain.verdict


def test_one_call_leaves_the_gradient_out_and_is_no_pass():
    judgement = tanh_within("1 call")
    assert judgement.verdict == "inconclusive"
    assert statuses(judgement)["BP101"] == "left out"
    words = judgement.outcome("BP101").words
    assert words.startswith("left out: the budget of 1 call was spent after ")
    assert judgement.resolution == {}


def test_what_decides_comes_before_what_does_not():
    """With calls for the gradient law alone the rest is left out, and said to be."""
    alone = tanh_within(None, laws=["BP101"])
    calls = alone.calls["forward"] + alone.calls["backward"]
    judgement = tanh_within(f"{calls} calls")
    found = statuses(judgement)
    assert found["BP101"] == Status.HELD
    assert judgement.verdict == "pass"
    left = {code for code, status in found.items() if status == "left out"}
    assert left
    assert all(BY_YIELD.index("BP101") < place(code) for code in left)


def place(code):
    return BY_YIELD.index(code) if code in BY_YIELD else len(BY_YIELD)


def test_time_is_a_budget_too():
    judgement = tanh_within(1e-9)
    assert "left out" in statuses(judgement).values()
    assert judgement.verdict == "inconclusive"


def test_a_fault_that_was_found_stays_one():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 3 * g

    case = Case((normal(20),))
    judgement = judge(subject_of(Wrong), [case], budget=Budget(calls=60))
    assert judgement.verdict == "wrong"


def test_a_law_that_could_not_speak_is_not_left_out():
    """The declared gradient has nothing to say where none is declared."""
    assert statuses(tanh_within("1 call"))["BP107"] == Status.NOT_APPLICABLE


def test_the_strongest_law_sees_every_case_before_the_next_law():
    cases = [Case((normal(5),), label="one"), Case((normal(6),), label="two")]
    alone = judge(subject_of(torch.tanh), cases, laws=["BP101"])
    calls = alone.calls["forward"] + alone.calls["backward"]
    budget = Budget(calls=calls)
    judgement = judge(subject_of(torch.tanh), cases, budget=budget)
    held = [o.case for o in judgement.outcomes
            if o.code == "BP101" and o.status is Status.HELD]  # fmt: skip
    assert held == ["one", "two"]


def outcome(code, status):
    evidence = (left_out("left out", "2 s"),) if status == "left out" else ()
    real = Status.INCONCLUSIVE if status == "left out" else status
    return Outcome(code, "law", "case", real, evidence)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"BP101": Status.HELD, "BP503": "left out"}, "pass"),
        ({"BP101": "left out", "BP502": Status.HELD}, "inconclusive"),
        ({"BP107": "left out", "BP502": Status.HELD}, "inconclusive"),
        (
            {"BP101": Status.NOT_APPLICABLE, "BP106": "left out", "BP502": Status.HELD},
            "inconclusive",
        ),
        ({"BP101": "left out", "BP502": Status.BROKEN}, "wrong"),
    ],
)
def test_a_pass_never_rests_on_what_was_left_out(found, verdict):
    assert fold_verdict([outcome(*item) for item in found.items()]) == verdict
