"""The examples of the pages as modules: `wrong` and `right` of a test's code."""

import importlib.util
import sys

import pytest

from backproof.codes import page


def load(code, which, folder):
    """Import one example from a file, since compilers look their source up."""
    name = f"{code}_{which}"
    path = folder / f"{name}.py"
    path.write_text(getattr(page(code), which), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def example(tmp_path):
    """example(code, which): an example of a page as a module."""
    loaded = []

    def load_one(code, which):
        module = load(code, which, tmp_path)
        loaded.append(module.__name__)
        return module

    yield load_one
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.fixture
def wrong(request, example):
    """The wrong example of BPnnn in a test that is called test_bpnnn."""
    return example(request.function.__name__[5:10].upper(), "wrong")


@pytest.fixture
def right(request, example):
    """The right example of BPnnn in a test that is called test_bpnnn."""
    return example(request.function.__name__[5:10].upper(), "right")
