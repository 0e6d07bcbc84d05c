# ruff: noqa: T201 - what it prints is what is tested
"""A suite of tests that do unusual things, each with a Function of its own."""

import gc
import importlib
import logging
import os
import random
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from functions import Noisy, Right, Wrong


@pytest.fixture
def x():
    return torch.linspace(-2.1, 1.3, 6, dtype=torch.float64, requires_grad=True)


def fresh(name, base=Wrong):
    """A Function of this name that is as wrong as its base."""
    return type(name, (base,), {"__module__": __name__, "__qualname__": name})


def test_that_fails_by_itself(x):
    fresh("InFailed").apply(x)
    pytest.fail("by itself")


@pytest.fixture
def broken(x):
    fresh("InFixture").apply(x)
    raise RuntimeError("broken by itself")


def test_whose_fixture_fails(broken):
    pass


@pytest.fixture(scope="session")
def late():
    yield
    last = torch.linspace(-1, 1, 4, dtype=torch.float64, requires_grad=True)
    fresh("InLastFixture").apply(last)


def test_whose_fixture_calls_at_its_end(late):
    pass


def test_that_defines_one(x):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 3 * g

    Inner.apply(x)


def made(x):
    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    return Made.apply(x)


def test_that_makes_a_class_at_each_call(x):
    for _ in range(1000):
        made(x)


@pytest.fixture
def restored():
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    folder = Path.cwd()
    yield
    torch.set_grad_enabled(grad)
    torch.set_default_dtype(dtype)
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)
    os.chdir(folder)


LEFT = {
    "NoGrad": lambda: torch.set_grad_enabled(False),
    "Bfloat16": lambda: torch.set_default_dtype(torch.bfloat16),
    "Meta": lambda: torch.set_default_device("meta"),
    "Deterministic": lambda: torch.use_deterministic_algorithms(True),
    "Warnings": lambda: warnings.simplefilter("error"),
}


@pytest.mark.parametrize("name", LEFT)
def test_that_leaves_something_changed(x, restored, name):
    fresh(f"Wrong{name}").apply(x)
    fresh(f"Right{name}", Right).apply(x)
    LEFT[name]()


def test_that_leaves_inference_mode_on(x, request):
    fresh("WrongInference").apply(x)
    fresh("RightInference", Right).apply(x)
    mode = torch.inference_mode()
    mode.__enter__()
    request.addfinalizer(lambda: mode.__exit__(None, None, None))


def test_that_patches_torch(x, monkeypatch):
    fresh("WrongPatched").apply(x)
    fresh("RightPatched", Right).apply(x)
    monkeypatch.setattr(torch, "randn", None)
    monkeypatch.setattr(np.random, "rand", None)


def test_that_moves_away(x, restored, tmp_path):
    fresh("Moved").apply(x)
    os.chdir(tmp_path)


class Loud(Right):
    @staticmethod
    def forward(ctx, x):
        print("printed by forward")
        sys.stderr.write("on standard error by forward\n")
        logging.getLogger("mine").warning("logged by forward")
        warnings.warn("warned by forward", stacklevel=1)
        return Right.forward(ctx, x)


def test_whose_forward_is_loud(x):
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger("mine").addHandler(handler)
    with pytest.warns(UserWarning, match="warned"):
        Loud.apply(x)


class Slow(Right):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.1)
        return Right.forward(ctx, x)


@pytest.mark.timeout(4)  # a loaded machine takes seconds for the test itself
def test_whose_replay_takes_longer_than_its_timeout(x):
    Slow.apply(x)


@pytest.fixture
def sleepy():
    yield
    time.sleep(30)


@pytest.mark.timeout(3)
def test_whose_fixture_takes_longer_than_its_timeout(x, sleepy):
    Right.apply(x)


COUNTED = []


def alive():
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


def test_that_counts_tensors():
    before = alive()
    COUNTED.append(before)
    w = torch.ones(4, requires_grad=True)
    Right.apply(w).sum().backward()
    Right.apply(torch.ones(5, requires_grad=True))
    print("\ncounted: during", alive() - before)
    del w


def test_that_counts_tensors_afterwards():
    print("\ncounted: after", alive() - COUNTED[0])


def drawn():
    return torch.rand(2).tolist(), np.random.rand(), random.random()


def test_that_draws():
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    x = torch.ones(5, requires_grad=True)
    print("\ndrawn:", Noisy.apply(x).tolist(), drawn())


def test_that_goes_on_drawing():
    print("\ndrawn:", drawn())


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, v, *parameters):
        ctx.layer = layer
        ctx.save_for_backward(v)
        with torch.no_grad():
            return layer(v)

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        with torch.enable_grad():
            v = v.detach().requires_grad_()
            inputs = (v, *ctx.layer.parameters())
            return (None, *torch.autograd.grad(ctx.layer(v), inputs, g))


def state(layer):
    grads = [parameter.grad for parameter in layer.parameters()]
    return [*layer.state_dict().values(), *grads]


HELD = []


def test_that_hands_over_a_module():
    layer = torch.nn.BatchNorm1d(3).double()
    v = torch.linspace(-1, 2, 12, dtype=torch.float64).view(4, 3).requires_grad_()
    Adjoint.apply(layer, v, *layer.parameters()).sin().sum().backward()
    HELD.append((layer, [one.clone() for one in state(layer)]))


def test_that_the_module_is_as_it_was():
    layer, before = HELD[0]
    assert len(before) == 7
    for old, new in zip(before, state(layer), strict=True):
        assert torch.equal(old, new)


def test_that_modules_are_their_own():
    assert importlib.util.find_spec("torch").loader is torch.__spec__.loader
