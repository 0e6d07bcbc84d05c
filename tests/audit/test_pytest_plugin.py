"""`pytest --backproof`: the suites in `programs/`, each run as often as it takes."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

PROGRAMS = Path(__file__).parent / "programs"
VERDICTS = {"Noisy": "pass", "Right": "pass", "Rounded": "surrogate", "Wrong": "wrong"}


@dataclass
class Run:
    """A run of pytest that has ended."""

    code: int
    out: str
    err: str
    usage: dict[str, dict[str, int]] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def section(self) -> str:
        return self.out.rpartition("= backproof =")[2]

    def said(self, word: str) -> list[str]:
        return [line for line in self.out.splitlines() if line.startswith(word)]

    def outcomes(self) -> str:
        return self.out.rstrip().rpartition("\n")[2]

    def counts(self) -> str:
        """Without the time, on which the length of the line's frame hangs too."""
        return self.outcomes().partition(" in ")[0].strip("= ")


def pytest_in(folder: Path, suite: str, *arguments: str) -> Run:
    """Run a suite of `programs/` in a folder, which keeps what was there."""
    for name in ("functions.py", suite):
        if not (folder / name).exists():
            shutil.copy(PROGRAMS / name, folder)
    if not (folder / "pyproject.toml").exists():
        (folder / "pyproject.toml").write_text("[tool.other]\n")
    told = ["-p", "no:cacheprovider", "-p", "no:randomly", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment.pop("FORCE_COLOR", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *told],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "PYTHONPATH": str(folder), "COLUMNS": "80"},
    )
    run = Run(done.returncode, done.stdout, done.stderr)
    file = folder / "report.json"
    if file.exists():
        for subject in json.loads(file.read_text())["subjects"]:
            run.verdicts[subject["name"]] = subject["verdict"]
            run.usage[subject["name"]] = subject["usage"]
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs pytest on a suite in a folder of its own, once for the same arguments."""

    @functools.cache
    def ran(suite: str, *arguments: str) -> tuple[Run, Path]:
        folder = tmp_path_factory.mktemp("suite")
        told = [one.format(folder=folder) for one in arguments]
        return pytest_in(folder, suite, suite, *told), folder

    return ran


REPORT = "--backproof-json=report.json"


# ------------------------------------------------------- one of each kind


def test_the_summary_of_four_kinds(run):
    done, folder = run(
        "suite_four.py", "--backproof", REPORT, "--junitxml=junit.xml", "-W", "error"
    )
    assert done.verdicts == VERDICTS
    assert "4 passed" in done.outcomes()
    assert done.code == 1
    lines = [line.rstrip() for line in done.section.splitlines()]
    assert "WRONG         Wrong    functions.py:20" in lines
    assert "              1 call of one signature" in lines
    assert (
        "              BP101  the gradient of `x` is 2 times forward's derivative"
        in lines
    )
    assert "SURROGATE     Rounded  functions.py:33" in lines
    assert "2 pass, 1 SURROGATE, 1 WRONG" in lines
    assert lines[-2].startswith("The run fails for what is listed here")
    assert all(len(line) <= 80 for line in lines)
    suites = ET.parse(folder / "junit.xml").getroot()
    whole = {p.get("name"): p.get("value") for p in suites.findall("*/properties/*")}
    assert whole["backproof.Right"] == "pass"
    assert whole["backproof.Wrong"].startswith("wrong BP101  the gradient of `x`")
    of_tests = {
        case.get("name"): [p.get("value") for p in case.findall("properties/*")]
        for case in suites.iter("testcase")
    }
    assert of_tests["test_wrong"] == ["wrong"]
    assert of_tests["test_right"] == []


def test_workers_of_xdist_say_the_same(run):
    done, _ = run("suite_four.py", "--backproof", REPORT, "-n", "2")
    assert done.verdicts == VERDICTS
    assert "4 passed" in done.outcomes()
    assert done.code == 1
    assert "2 pass, 1 SURROGATE, 1 WRONG" in done.section
    assert done.section.count("WRONG         Wrong") == 2  # in the list, and below it
    assert "The run fails" in done.section


def test_workers_of_xdist_only_report(run):
    only = "--backproof-only=functions.Wrong"
    done, _ = run("suite_four.py", "--backproof=report", REPORT, only, "-n", "1")
    assert done.verdicts == {"Wrong": "wrong"}
    assert done.code == 0
    assert "The run fails" not in done.section


def test_a_baseline_is_written_holds_and_must_be_kept_up(tmp_path):
    told = (
        *("suite_four.py", "--backproof", "--backproof-only=functions.Wrong"),
        "--backproof-baseline=known.toml",
    )
    written = pytest_in(tmp_path, "suite_four.py", *told, "--backproof-accept")
    assert written.code == 0
    assert "baseline: written to known.toml" in written.section
    text = (tmp_path / "known.toml").read_text()
    assert 'function = "Wrong"\nfile = "functions.py"\ncodes = ["BP101"]' in text
    assert "accepted: BP101" in written.section
    functions = tmp_path / "functions.py"
    functions.write_text(functions.read_text().replace("2 * g", "g"))
    fixed = pytest_in(tmp_path, "suite_four.py", *told)
    assert fixed.code == 1
    said = " ".join(fixed.section.split())
    assert "Wrong (functions.py) no longer has BP101: remove it from known.toml" in said


def test_a_project_may_always_want_it_and_a_path_is_no_mode(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\naddopts = ['--backproof']\n"
        "[tool.backproof]\nonly = ['functions.Right']\n"
    )
    done = pytest_in(tmp_path, "suite_four.py", "suite_four.py", REPORT)
    assert done.verdicts == {"Right": "pass"}
    assert done.code == 0
    again = pytest_in(tmp_path, "suite_light.py", "--backproof", "suite_light.py")
    assert again.code == 0
    assert "1 passed" in again.out


# ------------------------------------------------------------ what tests do


@pytest.fixture(scope="module")
def odd(run):
    return run("suite_odd.py", "--backproof", REPORT, "-s", "-W", "error")[0]


@pytest.fixture(scope="module")
def plain(run):
    return run("suite_odd.py", "-s", "-W", "error")[0]


def test_outcomes_are_those_without(odd, plain):
    def told(done):
        return sorted(done.said("FAILED") + done.said("ERROR"))

    assert len(told(plain)) == 3
    assert told(odd) == told(plain)
    assert odd.counts() == plain.counts()
    assert "= backproof =" not in plain.out
    assert odd.code == plain.code == 1
    assert "The run fails for" not in odd.section  # it fails anyhow


@pytest.mark.parametrize(
    "name",
    ["InFailed", "InFixture", "InLastFixture", "test_that_defines_one.Inner", "Moved"],
)
def test_where_a_function_counts(odd, name):
    assert odd.verdicts[name] == "wrong"


@pytest.mark.parametrize(
    "name",
    [
        *("NoGrad", "Bfloat16", "Meta", "Deterministic", "Warnings", "Inference"),
        "Patched",
    ],
)
def test_what_a_test_leaves_changed(odd, name):
    assert odd.verdicts[f"Wrong{name}"] == "wrong"
    assert odd.verdicts[f"Right{name}"] == "pass"


def test_a_class_made_at_each_call_is_one(odd):
    assert odd.verdicts["made.Made"] == "pass"
    assert odd.usage["made.Made"]["calls"] == 1000
    assert odd.usage["made.Made"]["signatures"] == 1


@pytest.mark.parametrize("how", ["printed", "on standard error", "logged"])
def test_a_replay_says_nothing(odd, plain, how):
    both = odd.out + odd.err
    assert both.count(f"{how} by forward") == 1
    assert (plain.out + plain.err).count(f"{how} by forward") == 1
    assert odd.verdicts["Loud"] == "pass"


def test_a_test_has_its_time_for_itself(odd):
    assert odd.verdicts["Slow"] == "pass"
    assert "Timeout" in odd.out  # of the fixture that sleeps


def test_tensors_that_are_alive_are_the_tests_own(odd, plain):
    assert len(plain.said("counted:")) == 2
    assert odd.said("counted:") == plain.said("counted:")


def test_random_numbers_are_those_without(odd, plain):
    assert len(plain.said("drawn:")) == 2
    assert odd.said("drawn:") == plain.said("drawn:")


def test_a_replay_that_takes_its_worker_down_names_its_function(run):
    done, _ = run("suite_fatal.py", "--backproof", REPORT, "-n", "1")
    assert done.verdicts == {"Fatal": "crashed", "Right": "pass"}
    assert done.code == 1
    assert "gw0 ended before it could report" in done.section
    assert "forward crashed" in done.section


def test_a_suite_without_torch_never_loads_it(run):
    done, _ = run("suite_light.py", "--backproof", REPORT)
    assert done.code == 0
    assert "no test has loaded torch" in done.section
    assert done.said("loaded:") == ["loaded: False"]


# ------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--backproof=chekc"], "--backproof=chekc: the modes are check and report"),
        (["--backproof", "--backproof-calls=0"], "calls must be above 0"),
        (["--backproof", "--backproof-memory=nan"], "memory (MiB) must be 0 or more"),
        (["--backproof", "--backproof-calls=x"], "invalid int value: 'x'"),
        (["--backproof", "--backproof-baseline=no"], "there is no such file"),
        (["--backproof", "--backproof-accept"], "needs --backproof-baseline FILE"),
        (
            ["--backproof", "--backproof-accept", "--backproof-baseline=no/x"],
            "--backproof-baseline no/x: there is no folder",
        ),
        (
            ["--backproof", "--backproof-json=no/x"],
            "--backproof-json no/x: there is no",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_runs(tmp_path, arguments, words):
    (tmp_path / "test_it.py").write_text("open('ran', 'w')\ndef test_it(): pass\n")
    done = pytest_in(tmp_path, "suite_light.py", "test_it.py", *arguments)
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert words in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "ran").exists()


def test_collecting_alone_says_nothing(run):
    done, folder = run("suite_four.py", "--backproof", "--collect-only", REPORT)
    assert done.code == 0
    assert "4 tests collected" in done.out
    assert "backproof =" not in done.out
    assert not (folder / "report.json").exists()


# ------------------------------------------------------------- the fixture


def test_the_fixture_goes_through_types(run):
    done, _ = run("suite_fixture.py", "-v")
    for name in (
        *("test_right[cpu-float64]", "test_right[cpu-float32]"),
        *("test_marked[cpu-float64]", "test_marked[cpu-bfloat16]"),
    ):
        assert f"{name} PASSED" in done.out
    assert "test_wrong[cpu-float32] FAILED" in done.out
    assert "BP101" in done.out
    assert "4 passed" in done.outcomes()
    assert "2 failed" in done.outcomes()
    assert "'int64' is no floating type" in done.out


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("dtype='float64'", "knows dtypes= and devices="),
        ("dtypes=()", "are no names"),
    ],
)
def test_a_marker_that_makes_no_sense(tmp_path, marker, words):
    (tmp_path / "test_it.py").write_text(
        f"import pytest\n\n@pytest.mark.backproof({marker})\n"
        "def test_it(backproof_check):\n    pass\n"
    )
    done = pytest_in(tmp_path, "suite_light.py", "test_it.py")
    assert words in done.out + done.err
    assert done.code != 0


def test_a_defect_of_ours_leaves_the_tests_their_results(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from backproof.audit.watching import Watching\n"
        "def fails(self, *, last=True):\n"
        "    raise LookupError('of ours')\n"
        "Watching.verify = fails\n"
    )
    run = pytest_in(tmp_path, "suite_four.py", "suite_four.py", "--backproof")
    assert run.code == 1
    assert "passed" in run.outcomes()
    assert "failed" not in run.outcomes()
    assert "the audit itself failed: LookupError: of ours" in run.section
