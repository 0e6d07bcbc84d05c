"""Subjects that are right in eager mode and go astray where they notice a context."""

import torch
from torch.autograd import Function

OFF = 1.5


def drifts(notices):
    """tanh(x w), of half as much again where `notices(x, w)`."""

    def op(x, w):
        return torch.tanh(x * w * (OFF if notices(x, w) else 1.0))

    return op


def gradient_drifts(notices):
    """The same in ctx style, with a right forward: only backward goes astray."""

    class Drifting(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return torch.tanh(x * w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            t = torch.tanh(x * w)
            g = g * (1 - t * t)
            if notices(ctx, g):
                g = g * OFF
            return g * w, g * x

    return Drifting.apply


def in_transform(x, w):
    return torch._C._functorch.peek_interpreter_stack() is not None


def without_graph(x, w):
    return not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def in_inference(x, w):
    return torch.is_inference_mode_enabled()


def compiling(x, w):
    return torch.compiler.is_compiling()


def jit_tracing(x, w):
    return torch.jit.is_tracing()


def symbolic(x, w):
    return isinstance(x, torch.fx.Proxy)


def traced(x, w):
    """Under make_fx or AOTAutograd, and also where export uses them."""
    key = torch._C._TorchDispatchModeKey
    proxies = torch._C._get_dispatch_mode(key.PROXY) is not None
    return proxies or torch._C._get_dispatch_mode(key.FUNCTIONAL) is not None


def exporting(x, w):
    return torch.compiler.is_exporting()


def in_backward(x, w):
    """Forward runs a second time, from inside of the engine."""
    return torch._C._current_graph_task_id() != -1


def in_process_group(x, w):
    return torch.distributed.is_initialized()


def under_dispatch_mode(x, w):
    return torch._C._len_torch_dispatch_stack() > 0


def hooked(x, w):
    """What is saved goes through somebody's hooks."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def under_anomaly(ctx, g):
    return torch.is_anomaly_enabled()


def frozen_x(ctx, g):
    return not ctx.needs_input_grad[0]


def batched_cotangent(ctx, g):
    return torch._C._functorch.is_legacy_batchedtensor(g) or (
        torch._C._functorch.peek_interpreter_stack() is not None
    )


def compiled_backward(ctx, g):
    return torch.compiler.is_compiling()


class Stale(Function):
    """Keeps its inputs on the class, where the next call finds and replaces them."""

    @staticmethod
    def forward(ctx, x, w):
        Stale.x, Stale.w = x, w
        ctx.save_for_backward(x, w)
        return torch.tanh(x * w)

    @staticmethod
    def backward(ctx, g):
        x, w = Stale.x, Stale.w
        t = torch.tanh(x * w)
        return g * (1 - t * t) * w, g * (1 - t * t) * x


class ByAddress(Function):
    """Trusts that what it unpacks lies where it was when it was saved."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.address = x.data_ptr()
        return torch.tanh(x * w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        t = torch.tanh(x * w)
        g = g * (1 - t * t) * (1.0 if x.data_ptr() == ctx.address else OFF)
        return g * w, g * x


class ByStride(Function):
    """Reads the memory of its cotangent as if it were dense."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x * w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        t = torch.tanh(x * w)
        slope = (1 - t * t) * (OFF if 0 in g.stride() else 1.0)
        return g * slope * w, g * slope * x


class Forgetful:
    """A callable whose copies forget what it was built with."""

    def __init__(self, factor=2.0):
        self.factor = factor

    def __call__(self, x, w):
        return torch.tanh(x * w) * self.factor

    def __deepcopy__(self, memo):
        return Forgetful(OFF)

    def __reduce__(self):
        return (Forgetful, (OFF,))


class Saved(Function):
    """A second derivative that takes a saved intermediate for a constant."""

    @staticmethod
    def forward(ctx, x, w):
        slope = 1 - torch.tanh(x * w) ** 2
        ctx.save_for_backward(x, w, slope)
        return torch.tanh(x * w)

    @staticmethod
    def backward(ctx, g):
        x, w, slope = ctx.saved_tensors
        return g * slope * w, g * slope * x


class Recomputing(Function):
    """relu(x w), its pattern recomputed without forward's autocast."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.relu(x @ w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g = g.to(x.dtype) * (x @ w > 0)
        return g @ w.T, x.T @ g
