"""The kernels of examples/external: right values, and right or refused everywhere."""

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional

EXTERNAL = Path(__file__).parents[2] / "examples" / "external"

PROGRAMS = {"ctypes_kernel": ["cc"], "cpp_extension": ["c++", "ninja"]}
MODULES = {"numba_kernel": ["numba"], "triton_kernel": ["triton"]}

# What has no `second_order`; every other example is right in every context.
FIRST_ORDER_ONLY = {
    "double_backward",
    "grad_penalty_mixed",
    "func_hessian",
    "func_jacrev_jacrev",
    "jacfwd_jacfwd",
    "vmap_hessian",
    "compile_hessian",
}
REFUSES = {"numba_kernel": FIRST_ORDER_ONLY}


def bessel_j(n, x):
    """The mean of cos(n t - x sin t) over a period, which a few points give exactly."""
    t = torch.arange(64, dtype=torch.float64) * (2 * torch.pi / 64)
    return torch.cos(n * t - x.double().unsqueeze(-1) * t.sin()).mean(-1)


def leaky_sum(x, decay):
    steps = [x[..., 0]]
    for t in range(1, x.shape[-1]):
        steps.append(decay * steps[-1] + x[..., t])
    return torch.stack(steps, dim=-1)


def composite(opacity, value):
    clear = torch.cumprod(1 - opacity, -1) / (1 - opacity)
    return (clear * opacity * value).sum(-1)


def log_partition(unary, transition):
    steps, states = unary.shape
    scores = []
    for path in itertools.product(range(states), repeat=steps):
        score = unary[range(steps), path].sum()
        scores.append(score + transition[path[:-1], path[1:]].sum())
    return torch.stack(scores).logsumexp(0)


def gated(gate, up):
    return functional.silu(gate) * up


def solve_tridiagonal(bands, b):
    matrix = torch.diag(bands[1])
    matrix += torch.diag(bands[0, 1:], 1) + torch.diag(bands[2, :-1], -1)
    return torch.linalg.solve(matrix, b)


PLAIN = {
    "scipy_special": bessel_j,
    "ctypes_kernel": leaky_sum,
    "cpp_extension": composite,
    "numba_kernel": log_partition,
    "triton_kernel": gated,
    "linear_solve": solve_tridiagonal,
}


@pytest.fixture(params=PLAIN)
def path(request):
    """Of an example whose tools are here."""
    for program in PROGRAMS.get(request.param, []):
        if shutil.which(program) is None:
            pytest.skip(f"needs the program `{program}`")
    for module in MODULES.get(request.param, []):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: pip install 'backproof[kernels]'")
    return EXTERNAL / f"{request.param}.py"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Where compiled extensions go."""
    folder = tmp_path_factory.mktemp("extensions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(folder))
        yield dict(os.environ)


def test_every_example_is_looked_at():
    assert {path.stem for path in EXTERNAL.glob("*.py")} == set(PLAIN)


def test_its_values_and_gradients_are_those_of_plain_torch(path, environment):
    spec = importlib.util.spec_from_file_location(f"external_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    double, _ = module.inputs()
    tensors = [a for a in double if isinstance(a, torch.Tensor)]
    found, known = module.op(*double), PLAIN[path.stem](*double)
    assert torch.allclose(found, known, rtol=1e-10)
    cotangent = torch.linspace(1, 2, found.numel(), dtype=found.dtype).view_as(found)
    pairs = zip(
        torch.autograd.grad(found, tensors, cotangent),
        torch.autograd.grad(known, tensors, cotangent),
        strict=True,
    )
    assert all(torch.allclose(a, b, rtol=1e-10) for a, b in pairs)


def test_every_context_is_right_or_refused_by_name(path, environment, tmp_path):
    report = tmp_path / "report.json"
    options = ["--contexts", "all", "--timeout", "200", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "backproof", "check", path, *options, "-o", report],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (subject,) = json.loads(report.read_text())["subjects"]
    assert subject["verdict"] == "pass"
    by_status = {}
    for name, cell in subject["contexts"].items():
        by_status.setdefault(cell["status"], {})[name] = cell["words"]
    refused = by_status.pop("refuses", {})
    assert set(by_status) <= {"right", "not_applicable"}, by_status
    assert len(by_status["right"]) > 60
    assert set(refused) == REFUSES.get(path.stem, set())
    assert all("declare `external(" in words for words in refused.values())
