"""Classes as somebody writes them, each with one mistake in its form.

Each function builds one class over the base that it is given. `how` is the use in which
torch itself fails on it, with `arguments`; None where torch puts up with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

MALFORMED = {}


@dataclass(frozen=True)
class Example:
    build: Callable[[Any], Any]
    rule: str
    how: str | None
    arguments: tuple[Any, ...]


def malformed(rule, *arguments, how="backward"):
    def register(build):
        MALFORMED[build.__name__] = Example(build, rule, how, arguments)
        return build

    return register


def x():
    return torch.linspace(-1, 1, 4).double().requires_grad_()


@malformed("gradient-count", x, 2.0)
def too_few(base):
    class Swish(base):
        @staticmethod
        def forward(ctx, x, beta):
            s = torch.sigmoid(beta * x)
            ctx.save_for_backward(s)
            return x * s

        @staticmethod
        def backward(ctx, grad_output):
            (s,) = ctx.saved_tensors
            return grad_output * s

    return Swish


@malformed("gradient-count", x, 2.0, True)
def too_few_of_several(base):
    class Scale(base):
        @staticmethod
        def forward(ctx, x, factor, signed):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad_output):
            if not ctx.needs_input_grad[0]:
                return None, None, None
            grad_x = grad_output.clone()
            grad_x *= ctx.factor
            return grad_x

    return Scale


@malformed("gradient-count", x, 2.0)
def too_few_beneath_a_decorator(base):
    class Scale(base):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            return grad_output * ctx.factor

    return Scale


@malformed("gradient-count", x, 2.0)
def too_few_of_a_class_method(base):
    class Scale(base):
        @classmethod
        def forward(cls, ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @classmethod
        def backward(cls, ctx, grad_output):
            return grad_output * ctx.factor

    return Scale


@malformed("gradient-count", x, 2.0)
def too_few_beside_setup(base):
    class Power(base):
        @staticmethod
        def forward(x, exponent=2.0):
            return x**exponent

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.exponent = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return (grad_output * ctx.exponent * torch.pow(x, ctx.exponent - 1.0),)

    return Power


@malformed("gradient-count", x)
def too_many(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            grad_bias = grad_output.sum()
            return 2 * grad_output, grad_bias

    return Double


@malformed("gradient-count", x, x)
def a_list(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad_output):
            x, y = ctx.saved_tensors
            return [grad_output * y, grad_output * x]

    return Product


@malformed("cotangent-count", x)
def too_few_cotangents(base):
    class SinCos(base):
        @staticmethod
        def forward(ctx, x):
            s, c = x.sin(), x.cos()
            ctx.save_for_backward(s, c)
            return s, c

        @staticmethod
        def backward(ctx, grad_s):
            _, c = ctx.saved_tensors
            return grad_s * c

    return SinCos


@malformed("cotangent-count", x)
def backward_without_ctx(base):
    class Negative(base):
        @staticmethod
        def forward(ctx, x):
            return -x

        @staticmethod
        def backward(grad_output):
            return -grad_output

    return Negative


@malformed("no-return", x, 2.0)
def gradient_not_returned(base):
    class Shift(base):
        @staticmethod
        def forward(ctx, x, offset):
            return x + offset

        @staticmethod
        def backward(ctx, grad_output):
            grad_x = grad_output.clone()  # noqa: F841

    return Shift


@malformed("not-static", x, how=None)
def not_static(base):
    class Sine(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        def backward(ctx, grad_output):  # noqa: N805
            (x,) = ctx.saved_tensors
            return grad_output * x.cos()

    return Sine


@malformed("instance-method", x)
def needs_an_instance(base):
    class Affine(base):
        def forward(self, x):
            return x * self.weight

        def backward(self, grad_output):
            return grad_output * self.weight

    return Affine


@malformed("instance-method", x)
def static_and_needs_self(base):
    class Affine(base):
        @staticmethod
        def forward(self, x):  # noqa: PLW0211
            return x * self.weight

        @staticmethod
        def backward(self, grad_output):  # noqa: PLW0211
            return grad_output * self.weight

    return Affine


@malformed("no-ctx", x, x)
def forward_without_ctx(base):
    class Multiply(base):
        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, grad_output

    return Multiply


@malformed("no-ctx", x)
def misspelt_setup(base):
    class Cube(base):
        @staticmethod
        def forward(x):
            return x.pow(3)

        @staticmethod
        def set_up_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad_output

    return Cube


@malformed("no-ctx")
def forward_without_parameters(base):
    class Ones(base):
        @staticmethod
        def forward():
            return torch.ones(3)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    return Ones


@malformed("ctx-beside-setup", x)
def ctx_beside_setup(base):
    class Exp(base):
        @staticmethod
        def forward(ctx, x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y

    return Exp


@malformed("ctx-beside-setup", x)
def saving_beside_setup(base):
    class Exp(base):
        @staticmethod
        def forward(state, x):
            y = x.exp()
            state.save_for_backward(y)
            return y

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad_output):
            (y,) = ctx.saved_tensors
            return grad_output * y

    return Exp


@malformed("setup-parameters", x)
def setup_without_output(base):
    class Square(base):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Square


@malformed("backward-and-vjp", x)
def backward_and_vjp(base):
    class Twice(base):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

        @staticmethod
        def vjp(ctx, grad_output):
            return grad_output * 2

    return Twice


@malformed("two-vmaps", x, how="vmap")
def two_vmaps(base):
    class Twice(base):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

        @staticmethod
        def vmap(info, in_dims, x):
            return x * 2, in_dims[0]

    return Twice


@malformed("vmap-parameters", x, 2.0, how="vmap")
def vmap_without_info(base):
    class Times(base):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor, None

        @staticmethod
        def vmap(in_dims, x, factor):
            return x * factor, in_dims[0]

    return Times


@malformed("jvp-parameters", x, 2.0, how="jvp")
def jvp_of_fewer(base):
    class Times(base):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * ctx.factor

    return Times


@malformed("amp-beside-setup", x)
def amp_beside_setup(base):
    class Linear(base):
        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, grad_output):
            return grad_output * 2

    return Linear


@malformed("amp-alone", x)
def amp_alone(base):
    class Linear(base):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, grad_output):
            return grad_output * 2

    return Linear


@malformed("near-name", x)
def misspelt_backward(base):
    class Minus(base):
        @staticmethod
        def forward(ctx, x):
            return -x

        @staticmethod
        def backwards(ctx, grad_output):
            return -grad_output

    return Minus


@malformed("policy-value", x, how=None)
def unknown_policy(base):
    class Half(base):
        autocast = "float23"

        @staticmethod
        def forward(ctx, x):
            return x / 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output / 2

    return Half


@malformed("policy-value", x, how=None)
def switch_that_is_no_bool(base):
    class Half(base):
        contiguous = "yes"

        @staticmethod
        def forward(ctx, x):
            return x / 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output / 2

    return Half
