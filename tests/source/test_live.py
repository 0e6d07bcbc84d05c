"""From live classes and functions to their text."""

import functools
import importlib.util
import linecache
import sys
from pathlib import Path

import pytest
import torch
from torch.autograd.function import once_differentiable

from backproof.source import functions_in, has_source, method_of, source_of

TEXT = """
import torch

class Base(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x

    @staticmethod
    def backward(ctx, g):
        return g * 2

class Child(Base):
    pass

class Twice(Base):
    @staticmethod
    def backward(ctx, g):
        return g * 4

def make():
    class Local(Base):
        @staticmethod
        def backward(ctx, g):
            return g * 8
    return Local

if True:
    class Twin(Base):
        @staticmethod
        def backward(ctx, g): return g
else:
    class Twin(Base):
        @staticmethod
        def backward(ctx, g): return -g

def undefined(ctx, g):
    return g

class Assigned(Base):
    backward = staticmethod(undefined)
"""


def run(text, file):
    names = {"__name__": "executed"}
    exec(compile(text, file, "exec"), names)
    return names


@pytest.fixture
def module(tmp_path):
    """TEXT, imported from a file."""
    path = tmp_path / "functions_of_a_test.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = found
    spec.loader.exec_module(found)
    yield found
    del sys.modules[path.stem]


@pytest.mark.parametrize("name", ["Base", "Child", "Twice", "Assigned"])
def test_a_class_is_read_as_from_its_text(module, name):
    (expected,) = (
        one for one in functions_in(TEXT, module.__file__) if one.name == name
    )
    assert source_of(getattr(module, name)) == expected
    assert has_source(getattr(module, name))


def test_a_local_class(module):
    found = source_of(module.make())
    assert found.qualname == "make.<locals>.Local"
    assert found.methods["backward"].returns[0].text == "return g * 8"


def test_two_classes_of_one_name_are_told_apart_by_the_line(module):
    backward = source_of(module.Twin).methods["backward"]
    assert backward.returns[0].text == "return g"


def test_a_method_wherever_it_is_defined(module):
    assert method_of(module.Child.backward).line == 9
    assert method_of(module.Twice.backward).line == 17
    assert method_of(module.Assigned.backward).name == "undefined"
    assert method_of(vars(module.Base)["backward"]).file == module.__file__


def test_a_file_that_was_edited_since(module):
    assert has_source(module.Base)
    Path(module.__file__).write_text("# one more line\n" + TEXT)
    assert source_of(module.Twice) is None
    assert method_of(module.Base.backward) is None
    assert not has_source(module.Base)


def test_a_file_that_is_no_python_or_gone(module):
    Path(module.__file__).write_text("class (:\n")
    assert source_of(module.Base) is None
    Path(module.__file__).unlink()
    assert source_of(module.Child) is None


def test_executed_text_has_no_source():
    executed = run(TEXT, "<string>")
    assert source_of(executed["Base"]) is None
    assert source_of(executed["Child"]) is None
    assert method_of(executed["Base"].backward) is None


def test_executed_text_inside_of_a_module_has_no_source(module):
    exec(TEXT.replace("g * 4", "g * 5"), vars(module))
    assert source_of(module.Twice) is None


@pytest.fixture
def cell():
    """TEXT as a cell of a notebook, which registers it under a name."""
    name = "<ipython-input-3-0123456789ab>"
    lines = TEXT.splitlines(keepends=True)
    linecache.cache[name] = (len(TEXT), None, lines, name)
    yield run(TEXT, name), name
    del linecache.cache[name]


def test_a_cell_of_a_notebook(cell):
    names, file = cell
    found = source_of(names["Twice"])
    assert (found.file, found.line) == (file, 15)
    assert method_of(names["Base"].backward).returns[0].line == 10


def test_what_is_not_written_in_python():
    assert source_of(int) is None
    assert method_of(torch.sigmoid) is None
    assert method_of(None) is None
    assert not has_source(torch.Tensor.add)


def test_torchs_own_base_is_somewhere_else():
    found = source_of(torch.autograd.Function)
    assert found.file.endswith("function.py")


def made_by_type(ctx, g):
    return g


def test_a_class_without_a_text():
    made = type(
        "Made", (torch.autograd.Function,), {"backward": staticmethod(made_by_type)}
    )
    assert source_of(made) is None
    assert method_of(made.backward).name == "made_by_type"


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


class Decorated(torch.autograd.Function):
    @staticmethod
    @once_differentiable
    @decorated
    def backward(ctx, g):
        return g * 3


def test_decorators_are_looked_through():
    backward = method_of(Decorated.backward)
    assert backward.returns[0].text == "return g * 3"
    assert backward == source_of(Decorated).methods["backward"]


def test_partial_applications_and_bound_methods():
    class Kernel:
        def backward(self, ctx, g):
            return g * 7

    assert method_of(Kernel().backward).returns[0].text == "return g * 7"
    partial = functools.partial(made_by_type, None)
    assert method_of(partial).name == "made_by_type"


def test_a_wrapper_around_itself():
    def endless():
        pass

    endless.__wrapped__ = endless
    assert method_of(endless) is None


def test_a_lambda_returns_its_body():
    (found,) = method_of(lambda ctx, g: (g * 2, None)).returns
    assert [one.text for one in found.elements] == ["g * 2", "None"]
    assert found.text == "(g * 2, None)"


# fmt: off
several = [lambda g: g * 1, lambda g: g * 2, lambda g: (lambda h: h + 3)]; copies = [  # noqa: E702
    lambda g: g * 1, lambda g: g * 1]
constants = lambda: 1, lambda: 2
# fmt: on


def test_lambdas_on_one_line_are_told_apart():
    texts = [method_of(one).returns[0].text for one in several]
    assert texts == ["g * 1", "g * 2", "lambda h: h + 3"]
    assert method_of(several[2](0)).returns[0].text == "h + 3"
    assert {method_of(one).node.col_offset for one in copies} == {4, 21}
    assert [method_of(one).returns[0].text for one in constants] == ["1", "2"]


def test_an_operator_of_the_dispatcher():
    registered = {}

    def register_autograd(backward):
        registered["backward"] = backward

    register_autograd(lambda ctx, g: g * ctx.factor)
    assert method_of(registered["backward"]).ctx == "ctx"
