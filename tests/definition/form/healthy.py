"""Classes whose form looks suspicious and which torch runs: each must be let through.

Each function builds one class over the base that it is given; `arguments` are what it is
called with, and a tensor among them gets a gradient unless `gradient` is False.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

HEALTHY = {}


@dataclass(frozen=True)
class Example:
    build: Callable[[Any], Any]
    arguments: tuple[Any, ...]
    gradient: bool


def healthy(*arguments, gradient=True):
    def register(build):
        HEALTHY[build.__name__] = Example(build, arguments, gradient)
        return build

    return register


def x():
    return torch.linspace(-1, 1, 4).double().requires_grad_()


def with_none(method):
    """A decorator that adds a gradient."""

    @wraps(method)
    def wrapper(ctx, *cotangents):
        return method(ctx, *cotangents), None

    return wrapper


@healthy(x)
def default_left_out(base):
    class Scale(base):
        @staticmethod
        def forward(ctx, x, factor=2.0):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor

    return Scale


@healthy(x)
def surplus_nones(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            rest = None
            return 2 * grad_output, None, rest

    return Double


@healthy(x, 1, 2)
def any_number_of_arguments(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x, *rest):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output, None, None

    return Double


@healthy(x, 1, 2)
def nones_by_multiplication(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x, one, other):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            count = len(ctx.needs_input_grad)
            return (2 * grad_output,) + (None,) * (count - 1)

    return Double


@healthy(x, 1, 2)
def nones_by_a_constant(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x, one, other):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output, *([None] * 2)

    return Double


@healthy(x, 1)
def a_tuple_with_a_name(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x, one):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            gradients = (2 * grad_output,)
            gradients += (None,)
            return gradients

    return Double


@healthy(x, x)
def a_repeated_tuple(base):
    class Sum(base):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, *cotangents):
            n = 2
            return cotangents * n

    return Sum


@healthy(x, 1)
def a_gradient_added_by_a_decorator(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x, one):
            return 2 * x

        @staticmethod
        @with_none
        def backward(ctx, grad_output):
            return 2 * grad_output

    return Double


@healthy(x, 1)
def gradients_from_elsewhere(base):
    def both(gradient):
        return gradient * 2, None

    class Double(base):
        @staticmethod
        def forward(ctx, x, one):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            result = both(grad_output)
            return result  # noqa: RET504

    return Double


@healthy(x, x)
def a_case_that_never_comes(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad_output):
            if grad_output is None:
                return None
            x, y = ctx.saved_tensors
            return grad_output * y, grad_output * x

    return Product


@healthy(x, x)
def an_end_that_never_comes(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod  # noqa: RET503
        def backward(ctx, grad_output):
            x, y = ctx.saved_tensors
            if grad_output is not None:
                return grad_output * y, grad_output * x
            missing = True  # noqa: F841

    return Product


@healthy(x, 3)
def a_return_that_is_never_reached(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x, n):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            if ctx.needs_input_grad[1]:
                raise NotImplementedError
                return grad_output
            return 2 * grad_output, None

    return Double


@healthy(x, 3, gradient=False)
def not_differentiable(base):
    class Steps(base):
        @staticmethod
        def forward(ctx, x, n):
            y = (x * n).round()
            ctx.mark_non_differentiable(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            return None

    return Steps


@healthy(x, 3, gradient=False)
def backward_that_raises(base):
    class TopTwo(base):
        @staticmethod
        def forward(ctx, x, n):
            values, indices = x.topk(2)
            return values, indices

        @staticmethod
        def backward(ctx, grad_values):
            raise NotImplementedError

    return TopTwo


@healthy(x, gradient=False)
def backward_that_does_something_else(base):
    class Probe(base):
        @staticmethod
        def forward(ctx, x):
            ctx.seen = []
            return x.clone()

        @staticmethod
        def backward(ctx, grad_output):
            ctx.seen.append(grad_output)

    return Probe


@healthy(x)
def outputs_that_are_no_tensors(base):
    class Sized(base):
        @staticmethod
        def forward(ctx, x):
            return 2 * x, x.shape[0], None

        @staticmethod
        def backward(ctx, grad_output, *rest):
            return 2 * grad_output

    return Sized


@healthy(x)
def vjp_alone(base):
    class Twice(base):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, grad_output):
            return grad_output * 2

    return Twice


@healthy(x)
def a_class_method(base):
    class Twice(base):
        factor = 2

        @classmethod
        def forward(cls, ctx, x):
            return x * cls.factor

        @classmethod
        def backward(cls, ctx, grad_output):
            return grad_output * cls.factor

    return Twice


@healthy(x)
def static_beneath_another_decorator(base):
    class Twice(base):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @once_differentiable
        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

    return Twice


@healthy(x)
def functions_that_are_assigned(base):
    def forward(ctx, x):
        return x * 2

    return type("Twice", (base,), {"forward": forward, "backward": forward})


@healthy(x)
def ctx_called_self(base):
    class Square(base):
        @staticmethod
        def forward(self, x):  # noqa: PLW0211
            self.save_for_backward(x)
            self.power = 2
            return x**self.power

        @staticmethod
        def backward(self, grad_output):  # noqa: PLW0211
            (x,) = self.saved_tensors
            return self.power * x * grad_output

    return Square


@healthy(x)
def ctx_by_another_name(base):
    def remember(note, x):
        note.shape = x.shape

    class Sum(base):
        @staticmethod
        def forward(note, x):
            remember(note, x)
            return x.sum().expand(note.shape)

        @staticmethod
        def backward(note, grad_output):
            return grad_output.sum().expand(note.shape)

    return Sum


@healthy(x)
def a_name_that_is_used_again(base):
    class Twice(base):
        @staticmethod
        def forward(state, x):
            state.factor = 2
            state = x + x
            return state * 1

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor

    return Twice


@healthy(x, x)
def an_argument_called_ctx(base):
    class Attend(base):
        @staticmethod
        def forward(ctx, x):
            return torch.mul(ctx, x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            context, x = ctx.saved_tensors
            return grad_output * x, grad_output * context

    return Attend


@healthy(x, x)
def an_argument_called_ctx_beside_a_call(base):
    def swapped(grad_output, context, x):
        return grad_output * x, grad_output * context

    class Attend(base):
        @staticmethod
        def forward(ctx, x):
            return ctx * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            return swapped(grad_output, *ctx.saved_tensors)

    return Attend


@healthy(x, x)
def an_argument_called_context(base):
    class Attend(base):
        @staticmethod
        def forward(context, x):
            return context * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            context, x = ctx.saved_tensors
            return grad_output * x, grad_output * context

    return Attend


@healthy(x)
def no_ctx_beside_setup(base):
    class Square(base):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return 2 * x * grad_output

    return Square


@healthy(x)
def amp_in_both(base):
    class Twice(base):
        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, grad_output):
            return grad_output * 2

    return Twice


@healthy(x)
def amp_in_forward_alone(base):
    class Twice(base):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

    return Twice


@healthy(x)
def amp_by_hand_beside_setup(base):
    class Twice(base):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx._fwd_used_autocast = torch.is_autocast_enabled("cpu")
            ctx._dtype = torch.get_autocast_dtype("cpu")

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, grad_output):
            return grad_output * 2

    return Twice


@healthy(x, 2)
def arguments_that_apply_adds(base):
    class Times(base):
        @classmethod
        def apply(cls, x, n):
            return super().apply(x, n, None)

        @staticmethod
        def forward(ctx, x, n, unused):
            ctx.n = n
            return x * n

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.n, None, None

    return Times


@healthy(x)
def an_apply_of_its_own(base):
    class Twice(base):
        @classmethod
        def apply(cls, x):
            return cls.forward(x)

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, grad_output * 2

    return Twice


@healthy(x, 2)
def a_vmap_and_a_jvp(base):
    class Times(base):
        @staticmethod
        def forward(x, n):
            return x * n

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.n = inputs[1]

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.n, None

        @staticmethod
        def jvp(ctx, tangent, _):
            return tangent * ctx.n

        @staticmethod
        def vmap(info, in_dims, *arguments):
            return Times.apply(*arguments), in_dims[0]

    return Times


@healthy(x)
def policies_with_values(base):
    class Half(base):
        autocast = "lower"
        contiguous = True
        deterministic = False
        autocasts = "anything"

        @staticmethod
        def forward(ctx, x):
            return x / 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output / 2

    return Half
