"""Something is done as soon as a module has loaded, and the module is none the wiser."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from backproof.audit.arrival import when_imported


@pytest.fixture
def late(tmp_path, monkeypatch):
    """A module that nobody has imported; returns what it is called."""
    (tmp_path / "late_module.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield "late_module"
    sys.meta_path[:] = before
    sys.modules.pop("late_module", None)


def test_it_is_told_once_and_after_the_module_has_loaded(late):
    told = []
    before = list(sys.meta_path)
    when_imported(late, lambda: told.append(sys.modules[late].value))
    assert told == []
    importlib.import_module(late)
    assert told == [3]
    assert sys.meta_path == before
    importlib.reload(sys.modules[late])
    assert told == [3]


def test_a_module_that_is_there_already():
    told = []
    when_imported("sys", lambda: told.append(1))
    assert told == [1]


def test_to_ask_whether_it_is_installed_is_not_to_load_it(late):
    """As many packages do before they import torch."""
    told = []
    when_imported(late, lambda: told.append(1))
    assert importlib.util.find_spec(late) is not None
    assert importlib.util.find_spec(late).loader.get_filename(late)
    assert told == []
    importlib.import_module(late)
    assert told == [1]


def test_an_import_that_failed_may_be_tried_again(late, tmp_path):
    told = []
    when_imported(late, lambda: told.append(1))
    (tmp_path / "late_module.py").write_text("raise RuntimeError\n")
    with pytest.raises(RuntimeError):
        importlib.import_module(late)
    assert told == []
    (tmp_path / "late_module.py").write_text("value = 'another'\n")
    importlib.invalidate_caches()
    importlib.import_module(late)
    assert told == [1]


def test_the_module_keeps_its_own_loader(late):
    plain = importlib.import_module(late)
    kind = type(plain.__loader__)
    del sys.modules[late]
    when_imported(late, lambda: None)
    module = importlib.import_module(late)
    assert type(module.__loader__) is type(module.__spec__.loader) is kind


def test_a_module_that_does_not_exist_is_still_missing():
    before = list(sys.meta_path)
    when_imported("no_such_module_at_all", lambda: None)
    try:
        assert importlib.util.find_spec("no_such_module_at_all") is None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_module_at_all")
    finally:
        sys.meta_path[:] = before


def test_two_may_wait_for_one_module(late):
    told = []
    when_imported(late, lambda: told.append("first"))
    when_imported(late, lambda: told.append("second"))
    importlib.import_module(late)
    assert sorted(told) == ["first", "second"]
