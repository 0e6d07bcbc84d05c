"""The table of codes: complete, readable, and without torch."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from backproof.codes import all_codes, as_text, page
from backproof.errors import BadInput

# The table of the design document; a code that was published is never taken out.
TABLE = [
    *range(101, 105),
    *range(106, 112),
    *range(201, 210),
    *range(301, 310),
    *range(401, 410),
    *range(501, 509),
    *[601, 602, 701, 702, 801],
    *range(901, 907),
    *range(911, 918),
    *[921, 922],
    *range(931, 935),
    *range(941, 945),
]
DETECTORS = {"battery", "linter", "contexts", "audit", "definition"}


def test_the_table_is_complete():
    assert list(all_codes()) == [f"BP{number}" for number in TABLE]


def test_each_code_has_a_test_of_its_examples():
    tested = set()
    for file in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                tested |= set(re.findall(r"^test_(bp\d{3})$", node.name))
    assert {code.lower() for code in all_codes()} == tested


def test_titles_are_unique():
    titles = [page(code).title for code in all_codes()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("code", all_codes())
def test_page(code):
    found = page(code)
    assert found.code == code
    assert len(f"{code}  {found.title}") <= 80
    assert not found.title.endswith(".")
    assert set(found.seen_by) <= DETECTORS
    assert 1 <= len(re.findall(r"[.?](?= |$)", found.why)) <= 4
    for sentence in (found.why, found.remedy, found.blind):
        assert sentence.endswith(".")
    assert len(re.findall(r"\.(?= |$)", found.remedy)) == 1
    for source in (found.wrong, found.right):
        lines = source.splitlines()
        assert sum(bool(line) for line in lines) <= 36
        assert max(map(len, lines)) <= 76
        names = {n.name for n in ast.parse(source).body if hasattr(n, "name")}
        assigned = {t.id for n in ast.parse(source).body for t in _targets(n)}
        assert {"op", "inputs"} <= names | assigned


def _targets(node):
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [t for t in targets if isinstance(t, ast.Name)]


@pytest.mark.parametrize("code", all_codes())
def test_text_fits_the_terminal(code):
    text = as_text(page(code))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith(f"{code}  {page(code).title}\n")


def test_text_of_a_page():
    text = as_text(page("BP101"))
    assert text.splitlines()[:4] == [
        "BP101  Backward is the vector-Jacobian product of forward",
        "error, seen by battery",
        "",
        "A hand-written gradient that is wrong does not crash: the model trains, only",
    ]
    assert "Wrong:\n\n    import torch\n" in text
    assert text.index("\n\nWhat to do: Derive the gradient again") < text.index(
        "Wrong:"
    )
    assert "\n  -         return grad_output * x  # the factor 2 is missing\n" in text
    assert "\n  +         return grad_output * 2 * x\n" in text


@pytest.mark.parametrize("spelling", ["BP203", "bp203", " BP203 ", "203"])
def test_spellings(spelling):
    assert page(spelling).code == "BP203"


@pytest.mark.parametrize(
    ("code", "nearest"),
    [
        ("BP105", "BP103, BP104, BP106"),
        ("BP999", "BP942, BP943, BP944"),
        ("BP" + "9" * 9000, "BP942, BP943, BP944"),
        ("hessian", "BP307"),
        ("nothing like it", "BP"),
        ("", "BP"),
    ],
)
def test_unknown_code(code, nearest):
    with pytest.raises(BadInput) as caught:
        page(code)
    assert repr(code) in str(caught.value)
    assert nearest in str(caught.value)


def _imports_torch(statement):
    command = f"import sys; {statement}; sys.exit('torch' in sys.modules)"
    return subprocess.run([sys.executable, "-c", command], check=False).returncode


def test_reading_pages_does_not_import_torch():
    read = "from backproof.codes import *; [as_text(page(c)) for c in all_codes()]"
    assert _imports_torch(read) == 0
    assert _imports_torch("import torch") == 1  # so this test can fail
