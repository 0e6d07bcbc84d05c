"""Files to check, the command line, and Python without backproof."""

import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from backproof.cli import main

_WITHOUT_US = "import sys, runpy; sys.modules['backproof'] = None; "
_RUN = "import sys, runpy; runpy.run_path(sys.argv[1], run_name='__main__')"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into an empty folder that is the working directory."""
    monkeypatch.chdir(tmp_path)

    def write_file(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write_file


@pytest.fixture
def check():
    """`backproof check`, in this process."""
    return lambda *arguments: CliRunner().invoke(
        main, ["check", "--no-isolate", *map(str, arguments)], prog_name="backproof"
    )


@pytest.fixture
def python():
    """Runs a script where backproof cannot be imported, unless `ours` is true."""

    def run(script, *, ours=False):
        program = _RUN if ours else _WITHOUT_US + _RUN
        return subprocess.run(
            [sys.executable, "-P", "-B", "-c", program, str(script)],
            capture_output=True,
            text=True,
            check=False,
        )

    return run
