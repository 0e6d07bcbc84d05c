"""`backproof audit`: the program in `programs/`, ended in many ways."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from backproof.audit.journal import Journal
from backproof.cli import main

PROGRAMS = Path(__file__).parent / "programs"
COMMAND = [sys.executable, "-m", "backproof", "audit"]


def ran(command, folder, **environment):
    clean = {
        k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")
    }
    return subprocess.run(
        [str(one) for one in command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**clean, **environment},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the program and its Functions."""
    made = tmp_path_factory.mktemp("audit")
    for name in ("program.py", "functions.py", "suite_four.py"):
        shutil.copy(PROGRAMS / name, made)
    (made / "pyproject.toml").write_text("[tool.other]\n")
    return made


@pytest.fixture(scope="module")
def ended(folder):
    """Runs the program under audit, once for the same argument."""

    @functools.cache
    def run(does, *options):
        return ran([*COMMAND, *options, "program.py", does], folder)

    return run


def verdicts(file):
    subjects = json.loads(file.read_text())["subjects"]
    return {one["name"]: one["verdict"] for one in subjects}


# ---------------------------------------------------------- what is unchanged


@pytest.fixture(scope="module")
def whole(folder):
    """The program plainly, and under audit as a script that deletes itself."""
    plain = ran([sys.executable, "program.py", "everything"], folder)
    assert plain.returncode == 0, plain.stderr
    (folder / "copied.py").write_text((folder / "program.py").read_text())
    told = [*COMMAND, "--output=report.json", "--format=json"]
    audited = ran([*told, "copied.py", "everything", "copied"], folder)
    return plain, audited, verdicts(folder / "report.json")


def test_output_and_random_numbers_are_those_without(whole):
    plain, audited, _ = whole
    before, after = plain.stdout.splitlines(), audited.stdout.splitlines()
    assert after == [before[0].replace("]", ", 'copied']"), *before[1:]]
    assert before[-1] == "patched: False"
    assert sum(line.startswith("drawn:") for line in before) == 1
    assert audited.stderr.splitlines()[:-1] == plain.stderr.splitlines()


def test_processes_that_the_program_starts_are_seen(whole, folder):
    _, audited, found = whole
    assert found == {
        "InFork": "inconclusive",  # torch may hang in it
        "InSpawn": "wrong",
        "Noisy": "pass",
        "Right": "pass",
        "Wrong": "wrong",
    }
    assert audited.returncode == 1
    assert audited.stderr.splitlines()[-1] == (
        "backproof: 2 pass, 1 INCONCLUSIVE, 2 WRONG; written to report.json"
    )
    assert not (folder / "copied.py").exists()


# ---------------------------------------------------------- how it may end


@pytest.mark.parametrize(
    ("does", "code"),
    [("raise", 1), ("exit", 3), ("leave", 4), ("interrupted", 128 + signal.SIGINT)],
)
def test_a_program_that_fails_keeps_its_exit_code_and_is_verified(ended, does, code):
    done = ended(does)
    assert done.returncode == code
    assert re.search(r"^pass +Right +functions.py:\d+$", done.stderr, re.MULTILINE)
    assert done.stderr.rstrip().endswith("\n1 pass")
    assert ("RuntimeError: by itself" in done.stderr) == (does == "raise")
    assert ("patched: False" in done.stdout) == (does != "leave")


def test_a_program_that_is_killed_leaves_names(ended):
    done = ended("terminate")
    assert done.returncode == 128 + signal.SIGTERM
    said = " ".join(done.stderr.split())
    assert "INCONCLUSIVE Right functions.py" in said
    assert "process that called it was killed by SIGTERM before it was verified" in said


def test_a_replay_that_crashes_names_its_function(ended):
    done = ended("fatal")
    assert done.returncode == 128 + signal.SIGSEGV
    assert re.search(r"^CRASHED +Fatal +program.py:\d+$", done.stderr, re.MULTILINE)
    assert "forward was killed by SIGSEGV" in done.stderr


def test_time_that_is_over_is_no_failure(ended):
    start = time.monotonic()
    done = ended("sleep", "--for=1")
    assert time.monotonic() - start < 200
    assert done.returncode == 0
    assert done.stderr.rstrip().endswith("\n1 pass")
    assert "KeyboardInterrupt" not in done.stderr


def test_a_program_that_is_stopped_may_have_an_exit_code_of_its_own(ended):
    assert ended("clean up", "--for=1", "--only=nothing").returncode == 7


def test_a_failure_of_its_own_is_one_although_the_time_is_over_meanwhile(ended):
    """Verification outlasts `--for`, and the program had failed before."""
    start = time.monotonic()
    assert ended("raise slowly", "--for=4").returncode == 1
    assert time.monotonic() - start > 5


# ---------------------------------------------------------- ways to start it


def test_a_module_gets_all_that_follows_it(folder):
    told = ["--report-only", "--only=Wrong", "-m", "program", "everything", "--seed"]
    done = ran([*COMMAND, *told, "3", "-o", "x"], folder, FORCE_COLOR="1")
    assert "arguments: ['everything', '--seed', '3', '-o', 'x']" in done.stdout
    assert done.returncode == 0
    assert "\x1b[" in done.stderr
    plain = re.sub("\x1b\\[[0-9;]*m", "", done.stderr)
    assert "1 WRONG" in plain
    assert all(len(line) <= 80 for line in plain.splitlines())


def test_a_command_such_as_pytest(folder):
    told = ["--only=functions", "--", "pytest", "-q", "suite_four.py"]
    done = ran([*COMMAND, *told, "-p", "no:cacheprovider"], folder, NO_COLOR="1")
    assert "4 passed" in done.stdout
    assert "backproof" not in done.stdout
    assert done.returncode == 1
    assert "2 pass, 1 SURROGATE, 1 WRONG" in done.stderr
    assert "\x1b[" not in done.stderr


def test_a_program_that_calls_nothing(folder):
    (folder / "light.py").write_text("import sys\nprint('torch' in sys.modules)\n")
    done = ran([*COMMAND, "--only=some.name", "light.py"], folder)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert "no custom Function that --only names was called" in done.stderr


# ---------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "there is no program to run"),
        ("--sceonds 3 it.py", "No such option"),
        ("-m", "requires an argument"),
        ("--seconds", "requires an argument"),
        ("none.py", "none.py: there is no such file\n"),
        ("pytest tests", "any other command by `backproof audit -- pytest ...`"),
        ("-- no-such-command", "no-such-command: cannot be run"),
        ("--seconds nan it.py", "seconds must be above 0"),
        ("--for nan it.py", "--for must be above 0"),
        ("--for 0 it.py", "--for"),
        ("--memory inf it.py", "memory (MiB) must be 0 or more"),
        ("--calls 0 it.py", "--calls"),
        ("--format json it.py", "--format json needs --output FILE"),
        ("-o no/x it.py", "--output no/x: there is no folder"),
        ("--baseline no it.py", "there is no such file"),
        ("--baseline no/x --accept it.py", "--baseline no/x: there is no folder"),
        ("--accept it.py", "--accept needs --baseline"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it.py").write_text("open('ran', 'w')\n")
    done = CliRunner().invoke(main, ["audit", *arguments.split()])
    assert done.exit_code == 2
    assert " ".join(words.split()) in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["it.py"]


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ("it.py --seed 3 -o x -- y", ["--seed", "3", "-o", "x", "--", "y"]),
        ("-m it --seed 3 -- -m x", ["--seed", "3", "--", "-m", "x"]),
        ("--seed=3 -mit --seed=4", ["--seed=4"]),
        (f"--calls 2 -- {sys.executable} it.py -- --for 3", ["--", "--for", "3"]),
    ],
)
def test_arguments_of_the_program_are_its_own(tmp_path, arguments, seen):
    (tmp_path / "it.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = ran([*COMMAND, *arguments.split()], tmp_path)
    assert done.stdout == f"{seen}\n"
    assert done.returncode == 0


def test_a_process_that_outlives_the_program_is_left_alone(tmp_path):
    """The folder for what it sees has gone."""
    journal = Journal(tmp_path / "gone" / "process")
    journal.meet("Right", "functions.py", 6)
    journal.clear()
    assert not (tmp_path / "gone").exists()
