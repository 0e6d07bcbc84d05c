"""What a call records, and what backward then finds."""

import torch

from tests.definition.parity.scenario import cube, leaf, product, scenario


@scenario
def the_graph_of_an_output(base):
    x = leaf()
    y = cube(base).apply(x)
    following = [node for node, _ in y.grad_fn.next_functions]
    return (
        type(y.grad_fn).__name__,
        y.grad_fn.name(),
        [type(node).__name__ for node in following],
        y.requires_grad,
        y.is_leaf,
        y.grad_fn.saved_tensors[0] is x,
        y.grad_fn.needs_input_grad,
    )


@scenario
def no_gradient_is_recorded(base):
    op = cube(base)
    with torch.no_grad():
        one = op.apply(leaf())
    other = op.apply(leaf().detach())
    return one.requires_grad, one.grad_fn, other.requires_grad, other.grad_fn


@scenario
def attributes_on_the_node(base):
    class Scaled(base):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, g):
            return g * ctx.scale, None

    y = Scaled.apply(leaf(), 3.0)
    y.grad_fn.scale = 5.0
    y.sum().backward()
    return y.grad_fn.scale


@scenario
def which_inputs_need_a_gradient(base):
    seen = []
    op = product(base, seen=seen)
    for needs in ((True, False), (False, True), (True, True)):
        x, w = (leaf().detach().requires_grad_(need) for need in needs)
        op.apply(x, w).sum().backward()
    x = leaf()
    op.apply(x, x.detach()).sum().backward()
    return seen, x.grad


@scenario
def one_input_of_two_is_asked_for(base):
    seen = []
    x, w = leaf(), leaf()
    y = product(base, seen=seen).apply(x, w).sum()
    return torch.autograd.grad(y, w), seen


@scenario
def one_tensor_twice(base):
    x = leaf()
    product(base).apply(x, x).sum().backward()
    return x.grad


@scenario
def double_backward(base):
    x = leaf()
    (first,) = torch.autograd.grad(cube(base).apply(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sin().sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.exp().sum(), x)
    return first, first.requires_grad, second, third


@scenario
def first_order_without_a_graph(base):
    x = leaf()
    (first,) = torch.autograd.grad(cube(base).apply(x).sum(), x)
    return first, first.requires_grad


@scenario
def backward_twice(base):
    x = leaf()
    y = cube(base).apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    once = x.grad.clone()
    y.backward()
    return once


@scenario
def saved_tensors_after_backward(base):
    y = cube(base).apply(leaf())
    y.sum().backward()
    return y.grad_fn.saved_tensors


@scenario
def an_input_changed_after_forward(base):
    x = leaf() * 1
    y = cube(base).apply(x)
    x.add_(1)
    y.sum().backward()


@scenario
def an_input_changed_before_double_backward(base):
    x = leaf() * 1
    y = cube(base).apply(x)
    x.add_(1)
    return torch.autograd.grad(y.sum(), x, create_graph=True)


@scenario
def an_output_changed_in_place(base):
    x = leaf()
    y = cube(base).apply(x)
    y.mul_(2)
    y.sum().backward()
    return x.grad, type(y.grad_fn).__name__


@scenario
def a_saved_output_changed_in_place(base):
    class Exponential(base):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf()
    y = Exponential.apply(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    second = torch.autograd.grad(first.sum(), x, retain_graph=True)
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return first, second, "modified by an inplace" in str(error)


@scenario
def hooks(base):
    seen = []
    x = leaf()
    x.register_hook(lambda g: g * 10)
    y = cube(base).apply(x)
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_hook(lambda given, took: seen.extend([given[0], took[0]]))
    y.grad_fn.register_prehook(lambda took: (took[0] * 3,))
    y.retain_grad()
    y.sum().backward()
    return x.grad, y.grad, seen


@scenario
def hooks_on_saved_tensors(base):
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t.shape) or t * 2, lambda t: t / 2
    ):
        x = leaf()
        cube(base).apply(x).sum().backward()
    return x.grad, len(packed)
