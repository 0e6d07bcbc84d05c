"""Calls that leave Python."""

import ctypes
import ctypes.util
import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional

from backproof.source import calls_out, method_of

TABLE = torch.ones(2)
LOOKUP = {}
_kernels = ModuleType("_kernels")
# a function of C that says it is from an extension
_kernels.softplus_bwd = np.random.RandomState(0).standard_normal
_kernels.in_python = lambda g: g


class Kernel:
    def __call__(self, g):
        return g


kernel = Kernel()
jitted = SimpleNamespace(py_func=lambda g: g)


def names(function):
    return [place.text for place in calls_out(method_of(function), function)]


def test_an_extension_with_its_line():
    def backward(ctx, g):
        x = g * 2
        return _kernels.softplus_bwd(g, x)

    (place,) = calls_out(method_of(backward), backward)
    assert place.text == "_kernels.softplus_bwd"
    assert place.line == backward.__code__.co_firstlineno + 2


def test_numpy():
    def backward(ctx, g):
        return torch.from_numpy(np.tanh(g.numpy()) + np.where(g > 0, 1, 0)) + np.sum(g)

    assert names(backward) == ["np.tanh", "np.where", "np.sum"]


def test_what_stays_inside():
    def backward(ctx, g):
        n = math.prod(g.shape) + len(g) + LOOKUP.get("n", 0) + int(np.float32(1))
        g = (
            torch.sigmoid(g)
            + functional.softmax(g, 0)
            + torch._C._nn.gelu(g)
            + TABLE.sum()
        )
        g = torch.ops.aten.add(g, n)
        return _kernels.in_python(kernel(g)) + missing(g) + ctx.kernel(g)  # noqa: F821

    assert names(backward) == []


def test_a_name_of_its_own_is_not_followed():
    def backward(ctx, _kernels):
        return _kernels.softplus_bwd()

    def imports(ctx, g):
        np = ctx.module
        return np.tanh(g)

    assert names(backward) == names(imports) == []


def test_a_closure():
    tanh = np.tanh

    def backward(ctx, g):
        return tanh(g)

    assert names(backward) == ["tanh"]


def test_a_closure_that_is_not_filled():
    def backward(ctx, g):
        return later(g)

    assert names(backward) == []
    later = np.tanh
    assert names(backward) == ["later"]


def test_an_operator_of_somebody_else():
    library = torch.library.Library("source_of_a_test", "FRAGMENT")
    library.define("softplus_bwd(Tensor x) -> Tensor")

    def backward(ctx, g):
        return torch.ops.source_of_a_test.softplus_bwd(g)

    assert names(backward) == ["torch.ops.source_of_a_test.softplus_bwd"]


@pytest.mark.skipif(sys.platform == "win32", reason="the C library has another name")
def test_ctypes():
    libm = ctypes.CDLL(ctypes.util.find_library("m"))

    def backward(ctx, g):
        return libm.tanh(g)

    assert names(backward) == ["libm.tanh"]


def test_what_numba_compiles_is_python():
    class Dispatcher:
        __call__ = len
        py_func = staticmethod(lambda g: g)

    compiled = Dispatcher()

    def backward(ctx, g):
        return compiled(g)

    assert names(backward) == []


def test_attributes_that_raise():
    class Lazy:
        @property
        def kernel(self):
            raise RuntimeError("no GPU")

    lazy = Lazy()

    def backward(ctx, g):
        return lazy.kernel(g)

    assert names(backward) == []


def test_a_function_that_is_not_python():
    assert calls_out(method_of(test_numpy), torch.sigmoid) == ()
