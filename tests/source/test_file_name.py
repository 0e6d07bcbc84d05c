"""What a file is called."""

import sys
from types import SimpleNamespace

import pytest

from backproof.source import shown_file


@pytest.fixture
def jupyter(monkeypatch):
    """IPython as it answers inside a kernel: one cell was run, as the third."""
    cells = {"/tmp/ipykernel_1/5.py": ("Cell", "In[3]")}  # None for other files
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=cells.get))
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    return shell


def test_a_cell_of_a_notebook(jupyter):
    assert shown_file("/tmp/ipykernel_1/5.py") == "In [3]"
    assert shown_file("/home/me/softplus.py") == "/home/me/softplus.py"
    assert shown_file("<ipython-input-7-0123456789ab>") == "In [7]"


def test_an_older_ipython(jupyter):
    jupyter.compile = SimpleNamespace()
    assert shown_file("/tmp/ipykernel_1/5.py") == "/tmp/ipykernel_1/5.py"


def test_ipython_that_only_was_imported(monkeypatch):
    ipython = SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert shown_file("<ipython-input-7-0123456789ab>") == "In [7]"


@pytest.mark.parametrize("name", ["<string>", "<stdin>", "<python-input-3>", "a/b.py"])
def test_other_names_stay(name):
    assert shown_file(name) == name


def test_ipython_is_not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    shown_file("<ipython-input-7-0123456789ab>")
    assert "IPython" not in sys.modules
