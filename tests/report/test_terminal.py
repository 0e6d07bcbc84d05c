import re

import pytest

from backproof.records import Evidence, Judgement, Outcome, Status, Verdict
from backproof.report.layout import wrapped
from backproof.report.resting import share
from backproof.report.terminal import text

ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def test_the_whole_text(report):
    blind = text(report).partition("A pass is blind to: ")[2].partition("\n\n")[0]
    assert (
        text(report).replace(blind, "...")
        == """\
pass          Linear    examples/linear.py:12
              would have seen a relative error of 2e-10 in input, weight; 3e-11
              in bias; 25 % of the outputs set aside
              1 law held in 30 forward and 8 backward calls
              BP110 undecided: its float64 twin refuses to run
              BP108 note: 2 of 8 outputs sit on a kink of forward
WRONG         OffByTwo  examples/broken/softplus.py:7
INCONCLUSIVE  Noisy     examples/noisy.py

WRONG         OffByTwo  examples/broken/softplus.py:7

  BP101  the gradient of `x` is not forward's derivative, in every direction
         tried
         backward claims   5.62995 ± 6e-15
         forward moves by  2.81497 ± 8e-12
         with one alone
         at examples/broken/softplus.py:26
         Derive it again, and compare it with what autograd gives.
         more: backproof explain BP101

INCONCLUSIVE  Noisy  examples/noisy.py

  BP101  undecided: Backward is the vector-Jacobian product of forward, for
         every input
         12 bfloat16 elements resolve 30 %: give 1,000 or more

  would have seen a relative error of 30 % in x

could not run: bad.py
  bad.py does not import:
  NameError: x

skipped: examples/readme.py: it gives no inputs

A pass is blind to: ...

1 pass, 1 INCONCLUSIVE, 1 WRONG, 1 could not run, 1 skipped"""
    )


def test_verbose_adds_all_evidence_and_the_environment(report):
    verbose = text(report, verbose=True)
    assert (
        """\
evidence for Linear
  BP101  held: Backward is the vector-Jacobian product of forward, for every
         input (inputs)
         + backward's claim agrees with how forward moves
           claim 1, steps [1, 0.5], share_set_aside 0.25
"""
        in verbose
    )
    assert "- wrong\n           bar nan" in verbose
    assert "torch 2.13.0" in verbose
    assert "seed 0" in verbose


def test_nothing_is_said_by_colour_alone(report):
    plain, coloured = text(report), text(report, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mWRONG\x1b[0m" in coloured
    assert ESCAPES.sub("", coloured) == plain


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_keep_to_the_width(report, width):
    for line in text(report, verbose=True, width=width).splitlines():
        assert len(line) <= width


def test_a_single_bad_subject_is_not_said_twice(of, wrong):
    assert text(of(wrong)).count("OffByTwo") == 1


def test_a_broken_law_without_a_finding_is_shown(of):
    broken = Outcome("BP501", "One gradient each.", "inputs", Status.BROKEN,
                     (Evidence(False, "2 gradients for 3 inputs"),))  # fmt: skip
    shown = text(of(Judgement("F", "f.py", 1, Verdict.WRONG, outcomes=(broken,))))
    assert "BP501  broken: One gradient each" in shown
    assert "2 gradients for 3 inputs" in shown


def test_many_inputs_are_summed_up(of):
    resolution = {f"layer.{k}": 1e-9 * (k + 1) for k in range(12)}
    shown = text(of(Judgement("Net", "net.py", 1, Verdict.PASS, resolution)))
    assert "1e-8 in layer.11, less in 11 other inputs" in " ".join(shown.split())
    assert "layer.3" not in shown


def test_a_declared_gradient_is_said_to_be_one(of):
    held = Outcome("BP107", "As declared.", "inputs", Status.HELD,
                   (Evidence(True, "as declared"),))  # fmt: skip
    shown = text(of(Judgement("Round", "r.py", 1, Verdict.PASS, outcomes=(held,))))
    assert "backward is the gradient that was declared" in shown


def test_nothing_checked(of):
    assert text(of()) == "nothing was checked"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2.1e-10, "2e-10"), (1e-5, "1e-5"), (0.001, "0.1 %"), (0.3, "30 %"),
     (0.016, "1.6 %"), (1.0, "100 %"), (7.0, "700 %"), (float("inf"), "inf %")],
)  # fmt: skip
def test_relative_sizes(value, shown):
    assert share(value) == shown


def test_wrapping_keeps_aligned_lines_and_breaks_long_ones():
    words = "claims   1.0\n  indented and much too long for so few columns"
    assert wrapped(words, "> ", 24, first="* ") == [
        "* claims   1.0",
        ">   indented and much",
        ">   too long for so few",
        ">   columns",
    ]
    assert wrapped("", "> ", 24, first="* ") == []
    assert wrapped("x" * 30, "  ", 24) == ["  " + "x" * 30]
