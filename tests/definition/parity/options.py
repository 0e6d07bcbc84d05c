"""What backward may return, what a class may say, and how it may be written."""

import warnings

import torch
from torch.autograd.function import once_differentiable

from tests.definition.parity.scenario import SCENARIOS, cube, leaf, returning, scenario

for what, gradient in {
    "none": lambda g: None,
    "two": lambda g: (g, g),
    "a none too many": lambda g: (g, None),
    "nothing": lambda g: (),
    "a wrong shape": lambda g: g[:2],
    "a shape to reduce": lambda g: g.expand(4, 3),
    "a number": lambda g: 3.0,
    "another type": lambda g: g.float(),
    "a list": lambda g: [g],
}.items():

    def returned(base, gradient=gradient):
        x = leaf()
        returning(base, gradient).apply(x).sum().backward()
        return x.grad

    SCENARIOS[f"backward returns {what}"] = returned


@scenario
def once(base):
    class Once(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0] ** 2, torch.is_grad_enabled()

    x = leaf()
    try:
        Once.apply(x).sum().backward()
    except RuntimeError as error:
        return str(error)


@scenario
def saved_tensors_are_cleared_on_access(base):
    class Cleared(base):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            try:
                ctx.saved_tensors  # noqa: B018
            except RuntimeError as error:
                return 2 * g * x, str(error)
            return 2 * g * x

    x = leaf()
    try:
        Cleared.apply(x).sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return x.grad


@scenario
def cotangents_in_a_box(base):
    class Boxed(base):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, gradients):
            g, h = gradients
            gradients.clear()
            return 2 * g + 3 * h

    x = leaf()
    y, z = Boxed.apply(x)
    (first,) = torch.autograd.grad((y * z).sum(), x, create_graph=True)
    return first, torch.autograd.grad(first.sin().sum(), x)


@scenario
def anomaly_mode_points_at_forward(base):
    bad = returning(base, lambda g: g * float("nan"))
    with warnings.catch_warnings(record=True) as seen, torch.autograd.detect_anomaly():
        warnings.simplefilter("always")
        y = bad.apply(leaf())
        try:
            y.sum().backward()
        except RuntimeError as error:
            told = str(error)
    traces = [str(w.message) for w in seen if "Traceback of forward" in str(w.message)]
    return told, len(traces), ["y = bad.apply(leaf())" in trace for trace in traces]


@scenario
def inherited_and_overridden(base):
    class Negated(cube(base)):
        @staticmethod
        def backward(ctx, g):
            return -cube(base).backward(ctx, g)

    x = leaf()
    y = Negated.apply(x)
    y.sum().backward()
    return x.grad, type(y.grad_fn).__name__


@scenario
def defined_twice_under_one_name(base):
    made = []
    for scale in (2.0, 5.0):

        class Scaled(base):
            @staticmethod
            def forward(ctx, x, scale=scale):
                return x * scale

            @staticmethod
            def backward(ctx, g, scale=scale):
                return g * scale

        made.append(Scaled)
    found = []
    for op in (*made, made[0]):
        x = leaf()
        op.apply(x).sum().backward()
        found.append(x.grad)
    return found


@scenario
def a_complex_input(base):
    class Square(base):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z.conj()

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * z + g.conj() * z

    z = torch.complex(leaf(), leaf(3)).detach().requires_grad_()
    y = Square.apply(z)
    (y.real.sin() + y.imag).sum().backward()
    return z.grad


@scenario
def backward_that_writes_into_its_cotangent(base):
    class Sine(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g.mul_(ctx.saved_tensors[0].cos())

    x = leaf()
    plain = torch.autograd.grad(Sine.apply(x).exp().sum(), x)
    with_graph = torch.autograd.grad(
        (2 * Sine.apply(x)).exp().sum(), x, create_graph=True
    )
    without = torch.autograd.grad(
        Sine.apply(x), x, torch.ones(3).double(), create_graph=True
    )
    return plain, with_graph, without
