"""What forward may return."""

import torch

from tests.definition.parity.scenario import leaf, scenario


@scenario
def outputs_that_are_not_reached(base):
    seen = []

    def op(*, materialize):
        class Two(base):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g, h):
                seen.append((g, h))
                return (0 if g is None else 2 * g) + (0 if h is None else 3 * h)

        return Two.apply

    for materialize in (True, False):
        x = leaf()
        op(materialize=materialize)(x)[1].sum().backward()
        seen.append(x.grad)
        torch.autograd.grad(
            op(materialize=materialize)(x)[0].sum(), x, create_graph=True
        )
    return seen


@scenario
def outputs_without_a_derivative(base):
    class Sorted(base):
        @staticmethod
        def forward(ctx, x):
            values, indices = x.sort()
            ranks = indices.double()
            ctx.mark_non_differentiable(indices, ranks)
            ctx.save_for_backward(indices)
            return values, indices, ranks, None, "text", 7

        @staticmethod
        def backward(ctx, g, *rest):
            (indices,) = ctx.saved_tensors
            return torch.zeros_like(g).index_copy(0, indices, g)

    x = leaf(5)
    values, indices, ranks, *others = Sorted.apply(x)
    values.exp().sum().backward()
    return x.grad, indices, indices.requires_grad, ranks.requires_grad, others


@scenario
def a_changed_input(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf()
    t = x * 1
    view = t[:2]
    y = Double.apply(t)
    y.exp().sum().backward()
    made = [y is t, t._version, x.grad, view]
    Double.apply(x)
    return made


@scenario
def a_changed_view(base):
    class Double(base):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = leaf()
    t = x * 1
    Double.apply(t[:2])
    t.exp().sum().backward()
    return x.grad


@scenario
def an_input_returned_as_it_is(base):
    class Same(base):
        @staticmethod
        def forward(ctx, x, w):
            return x, w * 1

        @staticmethod
        def backward(ctx, g, h):
            return 3 * g, h

    x, w = leaf(), leaf()
    y, _ = Same.apply(x, w)
    y.exp().sum().backward()
    return y is x, x.grad, type(y.grad_fn).__name__, y.data_ptr() == x.data_ptr()


@scenario
def a_view_of_an_input(base):
    class First(base):
        @staticmethod
        def forward(ctx, x):
            ctx.shape = x.shape
            return x[0]

        @staticmethod
        def backward(ctx, g):
            return g.expand(ctx.shape)

    x = leaf(2, 3)
    y = First.apply(x)
    y.exp().sum().backward()
    made = [x.grad, y._is_view()]
    First.apply(x * 1).mul_(2)
    return made


@scenario
def an_output_of_integers(base):
    class Count(base):
        @staticmethod
        def forward(ctx, x):
            return (x > 0.5).sum(), x.numel()

        @staticmethod
        def backward(ctx, *g):
            return None

    made = Count.apply(leaf())
    return [*made, made[0].requires_grad]
