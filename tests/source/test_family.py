"""Which classes of a text are Functions."""

from pathlib import Path

import pytest
import torch

from backproof.source import functions_in


def names(text):
    return [one.qualname for one in functions_in(text, "file.py")]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nclass F(torch.autograd.Function): ...",
        "import torch.autograd\nclass F(torch.autograd.Function): ...",
        "import torch.autograd as ag\nclass F(ag.Function): ...",
        "from torch import autograd\nclass F(autograd.Function): ...",
        "from torch.autograd import Function\nclass F(Function): ...",
        "from torch.autograd import Function as Base\nclass F(Base): ...",
        "from torch.autograd.function import InplaceFunction as I\nclass F(I): ...",
        "import torch as th\nclass F(th.autograd.function.Function): ...",
        "from torch.autograd import *\nclass F(Function): ...",
        "import torch\nBase = torch.autograd.Function\nclass F(Base): ...",
        "import backproof\nclass F(backproof.Function): ...",
        "from backproof import Function\nclass F(Function): ...",
        "try: import torch\nfinally: ...\nclass F(torch.autograd.Function): ...",
        "from torch.autograd import Function\nclass F(Mixin, Function[int]): ...",
    ],
)
def test_a_function(text):
    assert names(text) == ["F"]


@pytest.mark.parametrize(
    "text",
    [
        "import sympy\nclass F(sympy.Function): ...",
        "from .calls import Function\nclass F(Function): ...",
        "class F(Function): ...",
        "class F: ...",
        "import torch\nclass F(torch.nn.Module): ...",
        "import torch\nclass F(make(torch.autograd.Function)): ...",
        "class F(F): ...",
        "class A(B): ...\nclass B(A): ...",
    ],
)
def test_no_function(text):
    assert names(text) == []


def test_bases_in_the_same_text():
    text = """
from torch.autograd import Function

class _Base(Function): ...
class Middle(_Base): ...
class Leaf(Middle): ...
class Other: ...

class Outer:
    class Base(Function): ...
    class Inner(Base): ...

class ByDots(Outer.Base): ...

def make():
    class Local(Leaf): ...
    class Again(Local): ...
    return Again
"""
    assert names(text) == [
        *("_Base", "Middle", "Leaf", "Outer.Base", "Outer.Inner", "ByDots"),
        *("make.<locals>.Local", "make.<locals>.Again"),
    ]


def test_a_name_of_another_scope_is_not_the_base():
    text = """
from torch.autograd import Function

def make():
    class Base(Function): ...

class Base: ...
class Child(Base): ...
"""
    assert names(text) == ["make.<locals>.Base"]


def test_text_that_is_not_python():
    with pytest.raises(SyntaxError):
        functions_in("class F(:", "file.py")


def test_warnings_of_the_text_stay_away():
    assert functions_in("x = '\\d'; y = 1 is 1", "file.py") == ()


INSTALLED = {
    "nn/parallel/_functions.py": {
        "Broadcast",
        "ReduceAddCoalesced",
        "Gather",
        "Scatter",
    },
    "nn/modules/_functions.py": {
        "SyncBatchNorm",
        "CrossMapLRN2d",
        "BackwardHookFunction",
    },
    "autograd/_functions/tensor.py": {"Type", "Resize"},
    "distributions/dirichlet.py": {"_Dirichlet"},
    "_lobpcg.py": {"LOBPCGAutogradFunction"},
}


@pytest.mark.parametrize("file", INSTALLED)
def test_torchs_own_sources(file):
    path = Path(torch.__path__[0]) / file
    lines = path.read_text().splitlines()
    found = functions_in(path.read_text(), str(path))
    assert {one.name for one in found} >= INSTALLED[file]
    for one in found:
        assert lines[one.line - 1].startswith(f"class {one.name}(")
        assert {"forward", "backward"} <= set(one.methods)
        for method in one.methods.values():
            assert f"def {method.name}(" in lines[method.line - 1]
            for each in method.returns:
                assert lines[each.line - 1].strip().startswith("return")
