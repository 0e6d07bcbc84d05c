"""The public names are those of `__all__`, and each is where the table says."""

import ast
import inspect
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

import backproof

SOURCE = ast.parse(inspect.getsource(backproof))


def under_type_checking():
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_table_and_the_imports_for_type_checkers_agree():
    assert under_type_checking() == backproof._HOME
    assert set(backproof.__all__) == {*backproof._HOME, "__version__"}
    assert backproof.__all__ == sorted(backproof.__all__)


@pytest.mark.parametrize("name", backproof.__all__)
def test_every_name_can_be_had(name):
    value = getattr(backproof, name)
    if name != "__version__":
        assert value.__module__.startswith(("backproof.", "enum"))
        assert inspect.getdoc(value)


def test_dir_shows_them_all():
    assert dir(backproof) == backproof.__all__


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="has no attribute 'chek'"):
        backproof.chek  # noqa: B018


def test_the_version_is_the_distributions():
    assert backproof.__version__ == version("backproof")


def test_types_are_shipped():
    assert (files("backproof") / "py.typed").is_file()


def test_without_torch_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [m for m in sys.modules if m.startswith("backproof.subject")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(vars(backproof), "Subject", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'backproof\[torch\]'"):
        backproof.Subject  # noqa: B018


def test_no_file_is_long():
    package = Path(backproof.__file__).parent
    for folder in ("cli", "inputs", "report", "target"):
        for path in (package / folder).glob("*.py"):
            assert len(path.read_text().splitlines()) <= 400, path
