import json
import os
import subprocess
import sys
from importlib import resources

import jsonschema
import pytest

import backproof as package
from backproof.report import Report

pytestmark = pytest.mark.usefixtures("files")


@pytest.fixture
def check(backproof):
    """`backproof check`, in this process."""
    return lambda *arguments: backproof("check", "--no-isolate", *arguments)


def test_a_right_gradient(check):
    result = check("right.py")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "pass          Square  right.py:4"
    assert lines[1].startswith("              would have seen a relative error of ")
    assert lines[2].endswith("backward calls")
    assert lines[-1] == "1 pass"


def test_a_wrong_gradient(check):
    result = check("wrong.py")
    assert result.exit_code == 1
    assert "WRONG         Square  wrong.py:4" in result.stdout
    assert "BP101  the gradient of `x` is 3/2 times forward's deriv" in result.stdout
    assert "at wrong.py:13: `return 3 * g * x`" in result.stdout
    assert "more: backproof explain BP101" in result.stdout


def test_what_is_wrong_counts_more_than_what_could_not_be_run(check):
    result = check("wrong.py", "bare.py", "none.py")
    assert result.exit_code == 1
    assert "1 WRONG, 2 could not run" in result.stdout
    result = check("right.py", "bare.py")
    assert result.exit_code == 2
    assert "1 pass, 1 could not run" in result.stdout


def test_a_folder(check, write, files):
    write("ops/a.py", "raise ValueError('no table')\ndef inputs(): ...")
    write("ops/z.py", "print('not run')")
    write("ops/b.py", files["right"])
    result = check("ops")
    assert result.exit_code == 2
    assert "pass          Square  ops/b.py:4" in result.stdout
    assert "ValueError: no table" in result.stdout
    assert "skipped: ops/z.py: it gives no inputs" in result.stdout


def test_nothing_in_a_folder(check, write):
    write("ops/z.py", "print('not run')")
    result = check("ops")
    assert result.exit_code == 2
    assert "skipped: ops/z.py" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.py"], "Error: there is no file none.py"),
        (["bare.py"], "Error: bare.py::op has no inputs to run it on."),
        (["right.py::Sqare"], "there is no `Sqare` in right.py; did you mean Square?"),
        (["right.py", "-i", "f64[3"], "    f64[3\n         ^\nexpected `,` or `]`"),
        (["right.py", "-i", "*f64[3]"], "no input needs a gradient"),
        (["right.py", "-i", "f64[3] f64[3]"], "forward raises on the given inputs"),
        (["picky.py", "-i", "f64[3]"], "ValueError: a matrix, please at picky.py:8"),
        (["right.py", "-i", "y=f64[3]"], "`--inputs` gives `y`; Square takes `x`"),
        (["right.py", "--reference", "plain"], "there is no `plain` in right.py"),
        (["right.py", "--budget", "soon"], "and not 'soon'"),
        (["right.py", "--contexts", "vmapp"], "there is no context 'vmapp'"),
        (["right.py", "-i", "i8[3]>500"], "no int8 lies within these bounds"),
        (["right.py", "--laws", "BP999"], "there is no code 'BP999'"),
        (["right.py", "--expect", "soft"], "there is no `soft` in right.py"),
        (["right.py", "--inputs-from", "make"], "there is no `make` in right.py"),
        (["right.py", "-o", "no/such/r.json"], "there is no folder"),
        (["right.py", "--timeout", "0"], "Invalid value for '--timeout'"),
        ([], "Missing argument 'TARGET...'"),
    ],
)
def test_bad_input_ends_2_and_says_what_to_do(check, write, files, arguments, words):
    refusing = 'raise ValueError("a matrix, please")\n        return x * x'
    write("picky.py", files["right"].replace("return x * x", refusing))
    result = check(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr or words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert all(len(line) <= 80 for line in result.stderr.splitlines())


def test_json_is_all_that_is_on_standard_output(check, write, files):
    write("loud.py", "print('at import')\n" + files["right"])
    result = check("loud.py", "bare.py", "--format", "json")
    assert result.exit_code == 2
    report = Report.from_json(result.stdout)
    assert [s.name for s in report.subjects] == ["Square"]
    assert report.failed[0].target == "bare.py"
    assert report.environment["seed"] == 0
    assert report.environment["torch"]
    assert "at import" in result.stderr
    assert "Error: bare.py::op has no inputs" in result.stderr


def test_the_report_goes_to_a_file_whole(check, tmp_path):
    (tmp_path / "r.json").write_text("what was there")
    result = check("wrong.py", "--format", "json", "--output", "r.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert Report.from_json((tmp_path / "r.json").read_text()).exit_code() == 1
    assert check("wrong.py", "-o", "r.txt").exit_code == 1
    assert "\x1b" not in (tmp_path / "r.txt").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "bare.py", "r.json", "r.txt", "right.py", "wrong.py",
    ]  # fmt: skip


def test_a_failed_write_leaves_what_was_there(check, tmp_path, monkeypatch):
    from backproof.cli import output

    def full(mask):
        raise OSError(28, "No space left on device")

    (tmp_path / "r.json").write_text("what was there")
    monkeypatch.setattr(output.os, "umask", full)
    result = check("right.py", "-o", "r.json")
    assert result.exit_code == 2
    assert result.stderr == "Error: --output r.json: No space left on device\n"
    assert (tmp_path / "r.json").read_text() == "what was there"
    assert not list(tmp_path.glob(".r.json*"))


def test_strict(check, write):
    write("noisy.py", """
        import torch
        class Round(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.round()
            @staticmethod
            def backward(ctx, g):
                return g
        def inputs():
            return torch.linspace(-3.2, 3.1, 16).double().requires_grad_()
        def soft(x):
            return x
        """)  # fmt: skip
    assert check("noisy.py").exit_code == 0
    result = check("noisy.py", "--strict")
    assert result.exit_code == 1
    assert "SURROGATE     Round" in result.stdout
    assert "BP106" in result.stdout
    declared = check("noisy.py", "--strict", "--expect", "soft")
    assert declared.exit_code == 0
    assert "backward is the gradient that was declared" in declared.stdout


def test_seed_laws_and_several_inputs(check):
    result = check("right.py", "--laws", "bp101, 502", "--seed", "7", "-i", "f64[3]",
                   "-i", "f32[4]>0", "--format", "json")  # fmt: skip
    report = Report.from_json(result.stdout)
    assert {o.code for o in report.subjects[0].outcomes} == {"BP101", "BP502"}
    assert {o.case for o in report.subjects[0].outcomes} == {"f64[3]", "f32[4]>0"}
    assert report.environment["seed"] == 7


def test_verbose_shows_the_evidence(check):
    assert "evidence for Square" in check("right.py", "-v").stdout


def test_backward_that_raises_is_a_crash(check, write, files):
    write("raises.py", files["right"].replace("2 * g * x", "1 / 0"))
    result = check("raises.py")
    assert result.exit_code == 1
    assert "CRASHED       Square" in result.stdout
    assert "ZeroDivisionError" in result.stdout


def test_inputs_that_raise_do_not_stop_the_others(check, write):
    write("half.py", """
        import backproof, torch
        @backproof.inputs_for(torch.tanh)
        def first():
            raise ValueError("no table")
        @backproof.inputs_for(torch.sin)
        def second():
            return torch.ones(3).double().requires_grad_()
        """)  # fmt: skip
    result = check("half.py")
    assert result.exit_code == 2
    assert "1 pass, 1 could not run" in result.stdout
    assert "could not run: half.py::tanh" in result.stdout
    assert "ValueError: no table" in result.stdout


def test_our_own_fault_is_not_blamed_on_the_subject(check, monkeypatch):
    from backproof.cli import work

    def broken(*_, **__):
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(work, "judge", broken)
    result = check("right.py")
    assert result.exit_code == 2
    assert "backproof itself failed" in result.stderr
    assert "a defect of ours" in result.stderr


def test_output_does_not_depend_on_the_run(check):
    assert check("right.py", "wrong.py", "-v").stdout == (
        check("right.py", "wrong.py", "-v").stdout
    )


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "backproof", *arguments],
        capture_output=True, text=True, env=os.environ | environment, check=False,
    )  # fmt: skip


def test_in_a_worker_the_result_is_the_same(check):
    isolated = run("check", "right.py", "wrong.py")
    assert isolated.returncode == 1
    assert isolated.stdout == check("right.py", "wrong.py").stdout
    assert isolated.stderr == ""


def test_colour():
    arguments = ("check", "right.py", "--no-isolate")
    assert "\x1b[32mpass" in run(*arguments, FORCE_COLOR="1").stdout
    assert "\x1b" not in run(*arguments, FORCE_COLOR="1", NO_COLOR="1").stdout


def test_an_ascii_terminal_gets_the_report_too():
    result = run("check", "wrong.py", "--no-isolate", PYTHONIOENCODING="ascii")
    assert result.returncode == 1
    assert "claims" in result.stdout


def test_version(backproof):
    result = backproof("--version")
    assert result.stdout == f"backproof {package.__version__}\n"


def test_help_has_examples_and_exit_codes(backproof):
    text = backproof("check", "--help").stdout
    assert "backproof check mykernels.py::FusedNorm -i" in text
    assert "2 it could not be run" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert {"check", "explain", "show"} <= set(backproof("-h").stdout.split())


def test_an_unknown_command(backproof):
    result = backproof("chek")
    assert result.exit_code == 2
    assert "No such command 'chek'" in result.stderr


def test_the_worked_example_of_the_json_contract(check):
    data = json.loads(check("wrong.py", "--format", "json").stdout)
    schema = json.loads(
        (resources.files("backproof.report") / "schema.json").read_text()
    )
    jsonschema.validate(data, schema)
    (subject,) = data["subjects"]
    assert data["schema"] == "backproof/1"
    assert subject["verdict"] == "wrong"
    assert subject["file"] == "wrong.py"
    finding = subject["findings"][0]
    text = "return 3 * g * x"
    where = {"file": "wrong.py", "line": 13, "column": None, "text": text}
    assert finding["where"] == where


class TestCtrlC:
    """It ends at once with what is known by then."""

    @pytest.fixture
    def interrupted_in(self, monkeypatch):
        """Lets Ctrl-C come when `name` has got the verdict `known` but goes on."""
        from backproof.cli import work

        judge = work.judge

        def until(name):
            def interrupted(subject, cases, **options):
                judgement = judge(subject, cases, **options)
                if subject.where.file.endswith(name):
                    raise KeyboardInterrupt
                return judgement

            monkeypatch.setattr(work, "judge", interrupted)

        return until

    def test_what_is_known_is_shown_and_written(self, check, interrupted_in, tmp_path):
        interrupted_in("wrong.py")
        result = check("right.py", "wrong.py", "-o", "r.json", "--format", "json")
        assert result.exit_code == 130
        assert result.stdout.startswith("pass          Square  right.py:4\n")
        assert "interrupted: 1 pass, 1 WRONG, 1 could not run" in result.stderr
        report = Report.from_json((tmp_path / "r.json").read_text())
        assert report.failed == (("wrong.py", "interrupted"),)
        assert [s.verdict for s in report.subjects] == ["pass", "wrong"]

    def test_a_subject_that_may_yet_fail_has_not_passed(self, check, interrupted_in):
        interrupted_in("right.py")
        result = check("right.py", "wrong.py")
        assert result.exit_code == 130
        assert "pass  " not in result.stdout + result.stderr
        assert "right.py: interrupted" in result.stderr


def test_a_case_that_cannot_run_takes_no_conviction_back(check):
    result = check("wrong.py", "-i", "f64[3]", "-i", "*f64[3]")
    assert result.exit_code == 1
    assert "WRONG         Square" in result.stdout
    assert "could not run: wrong.py::op: Square: no input needs a gradient" in " ".join(
        result.stdout.split()
    )


def test_a_file_that_was_written_is_summed_up(check):
    result = check("right.py", "wrong.py", "--format", "json", "-o", "r.json")
    assert result.stderr == "1 pass, 1 WRONG; written to r.json\n"


PLAIN = """
def plain(x):
    return x * x

def cube(x):
    return x * x * x
"""


def test_a_reference_is_named_in_the_module(check, write, files):
    write("with.py", files["right"] + PLAIN)
    result = check("with.py", "--reference", "plain")
    assert result.exit_code == 0
    assert "forward agrees with the reference" in result.stdout
    result = check("with.py", "--reference", "cube")
    assert result.exit_code == 1
    assert "BP111" in result.stdout


def test_a_budget_is_said(check):
    result = check("right.py", "--budget", "1 call")
    assert result.exit_code == 0
    assert "INCONCLUSIVE  Square" in result.stdout
    assert "the budget of 1 call was spent" in result.stdout
    assert check("right.py", "--budget", "1 call", "--strict").exit_code == 1


def test_contexts_on_request(check):
    assert "contexts of" not in check("right.py").stdout
    result = check("right.py", "--contexts", "eager_fwd_bwd,func_grad")
    assert result.exit_code == 0
    assert "contexts of Square: 1 right, 1 refuse\n" in result.stdout


LAYER = """
import torch

layer = torch.nn.Linear(3, 2).double()

def plain(x):
    return torch.nn.functional.linear(x, layer.weight, layer.bias)

def inputs(seed=0):
    return torch.ones(4, 3, dtype=torch.double, requires_grad=True)
"""


@pytest.mark.parametrize("target", ["layer", "plain"])
def test_modules_and_callables_take_every_option(check, write, target):
    write("net.py", LAYER)
    result = check(
        f"net.py::{target}", "--reference", "plain", "--budget", "100000 calls",
        "--contexts", "eager_fwd_bwd",
    )  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")
    assert "forward agrees with the reference" in result.stdout
    assert "1 right" in result.stdout


def test_an_operator_of_torch(check):
    arguments = ("torch.ops.aten.mul.Tensor", "-i", "f64[4] f64[4]")
    result = check(*arguments, "--contexts", "none", "--laws", "BP101,BP502")
    assert result.exit_code == 0
    assert result.stdout.startswith("pass          aten::mul.Tensor\n")
