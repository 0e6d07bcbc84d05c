"""The examples by torch's own means: the healthy agree with autograd, others do not."""

import importlib.util
import inspect
import runpy
from pathlib import Path

import pytest
import torch
from torch.nn import functional

EXAMPLES = Path(__file__).parents[2] / "examples"
HEALTHY = sorted(EXAMPLES.glob("*.py"))
BROKEN = sorted(EXAMPLES.glob("broken/*.py"))

COMPOSED = {
    "MyLinearFunction": functional.linear,
    "Linear": functional.linear,
    "Square": torch.square,
    "LogCosh": lambda x: x.cosh().log(),
    "StableSoftplus": functional.softplus,
    "GatedSilu": lambda a, b: functional.silu(a) * b,
}
TOLERANCE = {torch.bfloat16: 0.02, torch.float32: 1e-5, torch.float64: 1e-12}


def load(path):
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def function_of(module):
    functions = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, torch.autograd.Function)
    ]
    (only,) = functions
    return only


def cases(module):
    given = module.inputs()
    return list(given) if inspect.isgenerator(given) else [given]


def gradients(op, arguments, cotangent):
    tensors = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
    return torch.autograd.grad(op(*arguments), tensors, cotangent, allow_unused=True)


def agrees(module, arguments):
    function = function_of(module)
    y = function.apply(*arguments)
    gen = torch.Generator().manual_seed(7)
    u = torch.randn(y.shape, generator=gen).to(y.dtype)
    try:
        claims = gradients(function.apply, arguments, u)
    except RuntimeError:
        return False
    if hasattr(module, "EXPECT"):
        truths = [g for g in module.EXPECT(u, *arguments) if g is not None]
    else:
        composed = COMPOSED[function.__name__]
        assert close(y, composed(*arguments))
        truths = gradients(composed, arguments, u)
    return all(map(close, claims, truths))


def close(a, b):
    if a is None or b is None:
        return a is b
    tolerance = TOLERANCE[a.dtype]
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance * b.abs().max().item())


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.stem)
def test_healthy_example_agrees_with_autograd(path):
    module = load(path)
    assert all(agrees(module, arguments) for arguments in cases(module))


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_broken_example_does_not(path):
    module = load(path)
    assert not agrees(module, cases(module)[0])
    assert "The mistake (BP" in module.__doc__


@pytest.mark.parametrize(
    "path", [p for p in HEALTHY if "__main__" in p.read_text()], ids=lambda p: p.stem
)
def test_example_runs_as_a_program(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    assert "False" not in capsys.readouterr().out
