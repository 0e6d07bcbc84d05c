"""The referee is no player: it knows neither autograd nor anything else of ours."""

import ast
import tokenize
from pathlib import Path

import pytest

import backproof.probe

FOLDER = Path(backproof.probe.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
FORBIDDEN = ("autograd", "requires_grad", "backward", "grad_fn", "enable_grad", "vjp")


def names_in(file):
    """Every name and attribute; words in comments and docstrings are free."""
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.NAME:
                yield token.string


def imports_of(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ("." * node.level) + (node.module or "")


def strangers(source):
    """Imports of ours from outside of the probe, and from torch's player side."""
    for module in imports_of(source):
        ours = module == "backproof" or module.startswith(("backproof.", "."))
        inside = module == "backproof.probe" or module.startswith("backproof.probe.")
        if (ours and not inside) or module.startswith(("torch.autograd", "torch.func")):
            yield module


def test_there_are_files_to_read():
    assert len(FILES) >= 8


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_word_of_autograd(file):
    used = set(names_in(file))
    assert not used & set(FORBIDDEN)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_import_of_ours_from_elsewhere(file):
    assert not list(strangers(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        "import backproof",
        "from backproof.subject import Case",
        "from backproof import probe",
        "from . import line",
        "import torch.autograd",
        "def late():\n    from torch.func import vjp",
    ],
)
def test_a_stranger_would_be_seen(source):
    assert list(strangers(source))
