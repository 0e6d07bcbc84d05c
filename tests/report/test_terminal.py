import re

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
    left_out,
)
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
         at examples/broken/softplus.py:26: `return 2 * g * s`
         Derive it again, and compare it with what autograd gives.
         backward claims   5.62995 ± 6e-15
         forward moves by  2.81497 ± 8e-12
         with one alone
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

Forward itself was not judged: no reference was given. A pass is blind to: ...

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


def found(title, words, line, text=""):
    where = Location("ops.py", line, text=text)
    return Finding("BP202", Severity.ERROR, title, words, where, "Write elsewhere.")


def test_what_where_and_what_to_do_come_before_the_numbers(of):
    finding = found("backward changes `y`", "saved 1, now 2", 31, "y.mul_(g)")
    subject = Judgement("F", "f.py", 1, Verdict.WRONG, findings=(finding,))
    assert text(of(subject)).splitlines()[2:7] == [
        "  BP202  backward changes `y`",
        "         at ops.py:31: `y.mul_(g)`",
        "         Write elsewhere.",
        "         saved 1, now 2",
        "         more: backproof explain BP202",
    ]


def test_findings_of_one_place_share_it(of):
    findings = (found("`x` is off", "by 1", 3), found("`y` is off", "by 2", 3))
    subject = Judgement("F", "f.py", 1, Verdict.WRONG, findings=findings)
    assert text(of(subject)).splitlines()[2:9] == [
        "  BP202  `x` is off",
        "         at ops.py:3",
        "         Write elsewhere.",
        "         by 1",
        "         also: `y` is off",
        "         by 2",
        "         more: backproof explain BP202",
    ]


def test_code_that_does_not_fit_beside_its_place_stands_below(of):
    code = "return grad_output * (1 - output * output), None, None, None"
    subject = Judgement(
        "F", "f.py", 1, Verdict.WRONG, findings=(found("a", "", 3, code),)
    )
    lines = text(of(subject)).splitlines()
    assert lines[3:5] == ["         at ops.py:3:", f"           `{code}`"]


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


def test_what_a_reference_says_of_forward(of):
    held = Outcome("BP111", "As its reference.", "inputs", Status.HELD,
                   (Evidence(True, "as its reference"),))  # fmt: skip
    judged = Judgement("Norm", "n.py", 1, Verdict.PASS, outcomes=(held,))
    bare = Judgement("Gate", "n.py", 9, Verdict.PASS)
    assert "forward agrees with the reference" in text(of(judged))
    assert "not judged" not in text(of(judged))
    assert "Forward itself was not judged" in text(of(bare))
    assert "Forward of Gate itself was not judged" in text(of(judged, bare))


def skipped_by_budget(code):
    words = "left out: the budget of 40 calls was spent after 41 calls"
    evidence = (left_out(words, "40 calls"),)
    return Outcome(code, "A law.", "inputs", Status.INCONCLUSIVE, evidence)


def test_laws_left_out_by_a_budget_are_one_line(of):
    held = Outcome("BP101", "Right.", "inputs", Status.HELD, (Evidence(True, "right"),))
    outcomes = (held, skipped_by_budget("BP503"), skipped_by_budget("BP504"))
    shown = text(of(Judgement("F", "f.py", 1, Verdict.PASS, outcomes=outcomes)))
    flat = " ".join(shown.split())
    assert "the budget of 40 calls was spent after 41 calls: BP503, BP504" in flat
    assert "undecided" not in shown


def test_a_budget_that_leaves_out_the_gradient_says_so(of):
    outcomes = (skipped_by_budget("BP101"), skipped_by_budget("BP504"))
    subject = Judgement("F", "f.py", 1, Verdict.INCONCLUSIVE, outcomes=outcomes)
    assert "after 41 calls: BP101, BP504" in " ".join(text(of(subject)).split())


def cell(status, words=""):
    return {"status": status, "words": words}


CONTEXTS = {
    "eager": cell("right"),
    "func_grad": cell("refuses", "RuntimeError: no setup_context\nadd setup_context"),
    "vmap": cell("refuses", "RuntimeError: no setup_context\nadd setup_context"),
    "jacfwd": cell("torch", "gradient of `x` is 0\nand so\nknown-right ops fail too"),
    "export": cell("wrong", "gradient of `x` is 2 times eager's"),
    "vmap_in_dim": cell("not_applicable", "it takes no batch"),
    "compile_inductor": cell("skipped", "there is no C++ compiler"),
}


class TestContexts:
    def table(self, shown):
        return shown.partition("contexts of F")[2].partition("\n\n")[0]

    def test_only_what_is_not_right_is_shown(self, of):
        subject = Judgement("F", "f.py", 1, Verdict.WRONG, contexts=CONTEXTS)
        assert (
            self.table(text(of(subject)))
            == """\
: 1 right, 1 WRONG, 2 refuse, 1 torch's own fault, 1 not
  applicable, 1 skipped
  WRONG    export
             gradient of `x` is 2 times eager's
  refuses  func_grad, vmap
             RuntimeError: no setup_context
             add setup_context
  torch    jacfwd
             gradient of `x` is 0
             known-right ops fail too
  n/a      vmap_in_dim
             it takes no batch
  skipped  compile_inductor
             there is no C++ compiler"""
        )

    def test_the_whole_table_on_request(self, of):
        subject = Judgement("F", "f.py", 1, Verdict.WRONG, contexts=CONTEXTS)
        lines = self.table(text(of(subject), verbose=True)).splitlines()
        named = [line.split()[1] for line in lines if line[2:3].strip()][2:]
        assert named == list(CONTEXTS)
        assert "             and so" in lines

    def test_all_right_is_one_line(self, of):
        contexts = {"eager": cell("right"), "vmap": cell("right")}
        subject = Judgement("F", "f.py", 1, Verdict.PASS, contexts=contexts)
        assert "contexts of F: 2 right\n" in text(of(subject))

    def test_without_contexts_there_is_no_table(self, of, right):
        assert "contexts" not in text(of(right))

    def test_a_context_that_ran_on_one_case_names_no_case(self, of):
        wrong = Outcome("BP302", "Same.", "a", Status.BROKEN, (Evidence(False, "off"),))
        fine = Outcome("BP101", "Right.", "b", Status.HELD, (Evidence(True, "right"),))
        finding = Finding("BP302", Severity.ERROR, "off", "")
        subject = Judgement("F", "f.py", 1, Verdict.WRONG, outcomes=(wrong, fine),
                            findings=(finding,))  # fmt: skip
        assert "alone" not in text(of(subject))


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
