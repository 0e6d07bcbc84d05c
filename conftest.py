"""What is shown runs: the README's and the docs' code, and the docstrings' examples."""

import os
import re
import subprocess
import sys
from doctest import ELLIPSIS
from pathlib import Path

from sybil import Example, Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser

_ROOT = Path(__file__).parent
_PROGRAMS = {
    "backproof": "backproof",
    "pytest": "pytest",
    "torchrun": "torch.distributed.run",
}


def _run_console(example: Example) -> None:
    """Each `$ command` prints what stands below it, but for the digits of numbers."""
    for block in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
        command, _, expected = block.partition("\n")
        program, *arguments = command.split()
        assert program in _PROGRAMS
        done = subprocess.run(
            [sys.executable, "-m", _PROGRAMS[program], *arguments],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # as on a terminal
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert _masked(done.stdout) == _masked(expected), done.stdout


def _masked(text: str) -> list[str]:
    """Words with numbers masked: another processor rounds otherwise, and lines rewrap."""
    # Which inputs share a resolution depends on its last digit.
    text = re.sub(r"(relative error of).*?(\d+ laws held)", r"\1 \2", text, flags=re.S)
    text = re.sub(r"\d+\.\d+s\b", "#", text)  # how long tests took
    number = r"-?\d+(\.\d+)?(e[-+]?\d+)?( ?%)?"
    return re.sub(r"(?<![\w.:])" + number + r"(?!\w)", "#", text).split()


pytest_collect_file = (
    Sybil(
        parsers=[
            PythonCodeBlockParser(),
            CodeBlockParser(language="console", evaluator=_run_console),
        ],
        patterns=["README.md", "docs/*.md", "docs/guide/*.md"],
    )
    + Sybil(
        parsers=[DocTestParser(optionflags=ELLIPSIS)],
        patterns=["src/backproof/**/*.py"],
        document_types={".py": PythonDocStringDocument},
    )
).pytest()
