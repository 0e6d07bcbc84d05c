"""Reading, reporting and explaining start without torch, which takes over a second."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "numpy", "rich"}
LIGHT = [
    "import backproof",
    "import backproof.cli",
    "import backproof.cli.check, backproof.cli.explain, backproof.cli.show",
    "from backproof.cli import main; main(['--help'], standalone_mode=False)",
    "from backproof.cli import main; main(['check', '--help'], standalone_mode=False)",
    "from backproof.cli import main; main(['explain', 'BP101'], standalone_mode=False)",
    "from backproof import Report, Verdict, Finding, Evidence, Outcome, BadInput",
    "from backproof import inputs_for",
    "from backproof.report import Report, environment; str(Report({}))",
    "from backproof.inputs.language import parse; parse('f64[3]')",
    "from backproof.target import places; places('x.y:z')",
    "from backproof.source import functions_in; functions_in('x = 1', 'x.py')",
]


def modules_after(statement):
    code = f"{statement}\nimport sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("statement", LIGHT)
def test_it_leaves_torch_unloaded(statement):
    assert modules_after(statement) & HEAVY == set()


def test_this_test_can_fail():
    assert "torch" in modules_after("from backproof import Subject")


def test_importing_the_package_loads_no_dependency():
    assert "click" not in modules_after("import backproof")
