"""Functions as somebody writes them, each with one mistake: what is said of them?

The text of each is a file of its own, so that its lines can be named.
"""

HEAD = """\
import torch


class {name}(torch.autograd.Function):
"""

TANH = """\
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        {returns}
"""

LINEAR = """\
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_output @ weight.T
        grad_weight = x.T @ grad_output
        grad_bias = grad_output.sum(0)
        {returns}
"""

SQUARE = """\
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        {returns}
"""


MIXED = """\
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.special.bessel_j0(x) + torch.lgamma(1 + x * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        {returns}
"""


def written(name, body, returns):
    """A module with one Function `name`, whose backward ends in `returns`."""
    indented = returns.replace("\n", "\n        ")
    return HEAD.format(name=name) + body.format(returns=indented)


CAUSES = {
    "negated": written("Tanh", TANH, "return -grad_output * (1 - y * y)"),
    "scaled": written("Tanh", TANH, "return 2 * grad_output * (1 - y * y)"),
    "missing": written("Linear", LINEAR, "return grad_x, None, grad_bias"),
    "passed_through": written("Tanh", TANH, "return grad_output"),
    "cotangent_ignored": written("Tanh", TANH, "return 1 - y * y"),
    "factor": written("Square", SQUARE, "return 2 * grad_output"),
    "term": written("Tanh", TANH, "return grad_output * (1 - y * y) + grad_output * x"),
    "summed": written(
        "Linear",
        LINEAR,
        "return grad_x, grad_weight, grad_output.mean(0)",
    ),
    "transposed": written(
        "Linear",
        LINEAR,
        "return grad_output @ weight, grad_weight, grad_bias",
    ),
    "region": written(
        "Tanh",
        TANH,
        "grad_x = grad_output * (1 - y * y)\ngrad_x[x < 0] = 0\nreturn grad_x",
    ),
    "tail": written(
        "Tanh",
        TANH,
        "grad_x = grad_output * (1 - y * y)\ngrad_x[:, 4:] = 0\nreturn grad_x",
    ),
    "precision": written(
        "Tanh", TANH, "return (grad_output.half() * (1 - y * y).half()).to(x.dtype)"
    ),
    "not_explained": written("Mixed", MIXED, "return grad_output * x.exp2().lgamma()"),
}

OUTSIDE = """\
import numpy
import torch


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = numpy.sin(x.numpy())
        return grad_output * torch.from_numpy(slope)
"""
"""What is wrong is computed outside of torch."""

RAISES = {
    "raises": written("Tanh", TANH, "return grad_output / (1 // 0)"),
    "raises_in_torch": written(
        "Linear",
        LINEAR,
        "return grad_x, grad_weight @ x, grad_bias",
    ),
    "too_few": written("Linear", LINEAR, "return grad_x, grad_weight"),
    "a_number": written("Tanh", TANH, "return 1.0"),
}

LAWS = {
    "BP202": written("Tanh", TANH, "y.mul_(grad_output)\nreturn y"),
    "BP205": """\
import torch

LAST = {}


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        LAST["factor"] = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * LAST["factor"], None
""",
    "BP601": written(
        "Tanh", TANH, "noise = torch.rand_like(y)\nreturn grad_output * (1 - y * noise)"
    ),
    "BP701": """\
import torch


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.result = y
        return y

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.result
""",
}

CONTEXTS = {
    "func_vmap": "BP301",
    "func_jvp": "BP305",
    "func_hessian": "BP307",
    "per_sample_grad": "BP308",
    "vmap_mixed_dims": "BP309",
}
"""The wrong example of which page shows something in which context."""
