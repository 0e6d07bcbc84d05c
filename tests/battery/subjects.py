"""Small subjects that remember how they were called."""

import torch


class Counted:
    """A function of tensors that counts its forward and backward calls."""

    def __init__(self, function):
        self.num_forward = self.num_backward = 0
        counter = self

        class Through(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                counter.num_forward += 1
                ctx.save_for_backward(*inputs)
                return function(*inputs)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, *cotangents):
                counter.num_backward += 1
                with torch.enable_grad():
                    inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
                    outputs = function(*inputs)
                return torch.autograd.grad(outputs, inputs, cotangents)

        self.definition = Through


class Watched:
    """A callable that keeps the memory that it was given, call by call."""

    def __init__(self, function):
        self.function = function
        self.calls = []
        self.keywords = []

    def __call__(self, *arguments, **keywords):
        self.calls.append(tuple(_unleaked(a) for a in arguments))
        self.keywords.append(keywords)
        return self.function(*arguments, **keywords)


def _unleaked(argument):
    """Another tensor over the same memory, so that the one given is let go."""
    return argument.detach() if isinstance(argument, torch.Tensor) else argument


def normal(*shape, dtype=torch.float64, seed=0, grad=True):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=random, dtype=torch.float64)
    return x.to(dtype).requires_grad_(grad)
