"""Judgements of each kind, as the battery makes them."""

import math

import pytest

from backproof.records import (
    Evidence,
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from backproof.report import Report, Unchecked

GRADIENT = "Backward is the vector-Jacobian product of forward, for every input."
DIGITS = "Backward keeps the digits that its precision allows."


def outcome(status, *evidence, code="BP101", law=GRADIENT, case="inputs"):
    return Outcome(code, law, case, status, evidence)


RIGHT = Judgement(
    "Linear",
    "examples/linear.py",
    12,
    Verdict.PASS,
    {"input": 2.1e-10, "weight": 2.4e-10, "bias": 3e-11},
    {"forward": 15, "backward": 4, "forward_float64": 15, "backward_float64": 4},
    outcomes=(
        outcome(
            Status.HELD,
            Evidence(
                True,
                "backward's claim agrees with how forward moves",
                {"claim": 1.0, "steps": (1, 0.5), "share_set_aside": 0.25},
            ),
        ),
        outcome(
            Status.INCONCLUSIVE,
            Evidence(None, "its float64 twin refuses to run"),
            code="BP110",
            law=DIGITS,
        ),
    ),
    findings=(
        Finding("BP108", Severity.NOTE, "2 of 8 outputs sit on a kink of forward", ""),
    ),
)
WRONG = Judgement(
    "OffByTwo",
    "examples/broken/softplus.py",
    7,
    Verdict.WRONG,
    {"x": 2.1e-10},
    {"forward": 30, "backward": 8},
    outcomes=(
        outcome(Status.BROKEN, Evidence(False, "wrong", {"bar": math.nan}), case="one"),
        outcome(Status.HELD, Evidence(True, "right", {"bar": math.inf}), case="two"),
    ),
    findings=(
        Finding(
            "BP101",
            Severity.ERROR,
            "the gradient of `x` is not forward's derivative, in every direction tried",
            "backward claims   5.62995 ± 6e-15\nforward moves by  2.81497 ± 8e-12",
            Location("examples/broken/softplus.py", 26, text="return 2 * g * s"),
            "Derive it again, and compare it with what autograd gives.",
        ),
    ),
)
UNDECIDED = Judgement(
    "Noisy",
    "examples/noisy.py",
    None,
    Verdict.INCONCLUSIVE,
    {"x": 0.3},
    {"forward": 30, "backward": 8},
    outcomes=(
        outcome(
            Status.INCONCLUSIVE,
            Evidence(None, "12 bfloat16 elements resolve 30 %: give 1,000 or more"),
        ),
    ),
)
ENVIRONMENT = {
    "backproof": "0.1.0",
    "python": "3.11.7",
    "torch": "2.13.0",
    "platform": "Linux",
    "seed": 0,
}


@pytest.fixture
def right():
    return RIGHT


@pytest.fixture
def wrong():
    return WRONG


@pytest.fixture
def undecided():
    return UNDECIDED


@pytest.fixture
def report():
    """One of each, something skipped and something that could not be run."""
    return Report(
        ENVIRONMENT,
        (RIGHT, WRONG, UNDECIDED),
        skipped=(Unchecked("examples/readme.py", "it gives no inputs"),),
        failed=(Unchecked("bad.py", "bad.py does not import:\nNameError: x"),),
    )


@pytest.fixture
def of():
    """A report of the given judgements alone."""
    return lambda *subjects, **rest: Report(ENVIRONMENT, subjects, **rest)
