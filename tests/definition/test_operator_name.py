"""The names of operators in code that torch generates."""

import torch

SCRIPT = """
import numpy as np, backproof

def sine(x):
    return np.sin(x)

op = backproof.external(sine, lambda g, x: g * np.cos(x), elementwise=True)
"""


def test_what_a_script_defines_runs_under_inductor():
    script = {"__name__": "__main__"}
    exec(SCRIPT, script)
    x = torch.randn(3, requires_grad=True)
    y = torch.compile(script["op"])(x)
    assert torch.allclose(y, x.sin())
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(gradient, x.cos())
