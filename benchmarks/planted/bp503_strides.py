"""Faults and right twins for BP503: the numbers do not depend on strides."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from planted.member import FLOAT32, fault, fixed, normal, phases, twin, uniform
from torch import Tensor
from torch.autograd import Function


def read_memory(x: Tensor) -> np.ndarray:
    """What a C kernel sees that is given a pointer and a number of elements."""
    kind = {torch.float64: ctypes.c_double, torch.float32: ctypes.c_float}[x.dtype]
    if not x.numel():
        return np.empty(0, x.detach().numpy().dtype)
    # Never past the end of the storage, which a kernel would not mind.
    length = min(x.numel(), x.untyped_storage().nbytes() // x.itemsize)
    pointer = ctypes.cast(x.data_ptr(), ctypes.POINTER(kind))
    seen = np.ctypeslib.as_array(pointer, (length,))
    return np.resize(seen, x.numel())


# ----------------------------------------------------------------------------- faults


@fault(normal(4, 6))
class PointerToCotangent(Function):
    """A kernel for the gradient that is given a bare pointer."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        slope = 1 - y.contiguous().numpy().ravel() ** 2
        return torch.from_numpy(read_memory(g.detach()) * slope).view(y.shape)


@fault(normal(5, 4, dtype=FLOAT32), normal(4, dtype=FLOAT32))
class WroteIntoACopy(Function):
    """NumPy's ravel copies what is not contiguous, and the copy is written to."""

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x * gain

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        of_x = np.zeros_like(g.numpy())  # keeps the order of a transposed array
        of_x.ravel()[:] = (g * gain).reshape(-1).numpy()
        return torch.from_numpy(of_x), (g * x).sum(0)


@fault(phases(8))
class ConjugateBit(Function):
    """Reads numbers from memory, where a lazy conjugate is not done yet."""

    @staticmethod
    def forward(ctx, z):
        return z * (1 + 2j)

    @staticmethod
    def backward(ctx, g):
        # A view of the bytes knows strides and offset, and nothing of the bit.
        unmarked = torch.empty(0, dtype=g.dtype).set_(
            g.untyped_storage(), g.storage_offset(), g.shape, g.stride()
        )
        return unmarked * (1 - 2j)


@fault(normal(2, 3, 4, 5, dtype=FLOAT32))
class ChannelsFirstOnly(Function):
    """A scale for each channel, found by counting elements in memory."""

    @staticmethod
    def scaled(x):
        scale = np.repeat([1.0, 2.0, 3.0], x.shape[2] * x.shape[3])
        flat = read_memory(x.detach()) * np.resize(scale, x.numel()).astype("f4")
        return torch.from_numpy(flat).view(x.shape)

    @staticmethod
    def forward(ctx, x):
        return ChannelsFirstOnly.scaled(x)

    @staticmethod
    def backward(ctx, g):
        return ChannelsFirstOnly.scaled(g.contiguous())


@fault(normal(6, 3))
class OffsetForgotten(Function):
    """as_strided with the strides of the tensor and without its offset."""

    @staticmethod
    def forward(ctx, x):
        return torch.as_strided(x, x.shape, x.stride(), 0) * 2

    @staticmethod
    def backward(ctx, g):
        return 2 * g


@fault(normal(4, 5))
class ViewOfCotangent(Function):
    """view raises on gradients that are not contiguous, as that of y.T is."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return (g.view(-1) * y.reshape(-1)).view(y.shape)


@fault(normal(5, 7), fixed(uniform(5, 7)))
class LinearIndex(Function):
    """Writes by linear index into memory that was allocated in the input's order."""

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(gain)
        return x * gain

    @staticmethod
    def backward(ctx, g):
        (gain,) = ctx.saved_tensors
        of_x = torch.empty_like(g)  # preserves a transposed order
        memory = torch.as_strided(of_x, (of_x.numel(),), (1,))
        memory.copy_((g * gain).reshape(-1))
        return of_x, None


@fault(normal(4, 6))
class LazyNegation(Function):
    """contiguous() keeps a negation that is not done yet, as in a gradient's `.imag`."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        seen = read_memory(g.detach().contiguous())
        return torch.from_numpy(seen).view(x.shape) * x.cos()


# ------------------------------------------------------------------------------ twins


@twin(normal(4, 6))
class ContiguousFirst(Function):
    """A bare pointer, to a contiguous copy in which all is resolved."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        slope = 1 - y.contiguous().numpy().ravel() ** 2
        seen = read_memory(g.detach().resolve_neg().contiguous())
        return torch.from_numpy(seen * slope).view(y.shape)


@twin(normal(5, 4, dtype=FLOAT32))
class NumpyStrides(Function):
    """NumPy knows strides, negative ones among them."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.detach().numpy()[::-1])[::-1].copy())

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(g.numpy() * np.cos(x.numpy()))


@twin(phases(8))
class ResolvedFirst(Function):
    """Reads the parts from memory, after the conjugate is done."""

    @staticmethod
    def forward(ctx, z):
        return z * (1 + 2j)

    @staticmethod
    def backward(ctx, g):
        parts = torch.view_as_real(g.resolve_conj().resolve_neg().contiguous())
        real, imaginary = parts.unbind(-1)
        return torch.complex(real + 2 * imaginary, imaginary - 2 * real)


@twin(normal(6, 3))
class OffsetGiven(Function):
    """as_strided with strides and offset."""

    @staticmethod
    def forward(ctx, x):
        return torch.as_strided(x, x.shape, x.stride(), x.storage_offset()) * 2

    @staticmethod
    def backward(ctx, g):
        return 2 * g


@twin(normal(2, 3, 4, 5, dtype=FLOAT32))
class TwoLayouts(Function):
    """A branch for channels_last that does the same in another order."""

    @staticmethod
    def forward(ctx, x):
        scale = torch.tensor([1.0, 2, 3])
        if x.is_contiguous(memory_format=torch.channels_last):
            return (x.permute(0, 2, 3, 1) * scale).permute(0, 3, 1, 2)
        return x * scale[:, None, None]

    @staticmethod
    def backward(ctx, g):
        return g * torch.tensor([1.0, 2, 3])[:, None, None]


@twin(normal(4, 6))
class ReshapedCotangent(Function):
    """reshape and not view."""

    @staticmethod
    def forward(ctx, x):
        return x.reshape(-1, 2).flip(-1).reshape(x.shape)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(-1, 2).flip(-1).reshape(g.shape)


@twin(normal(6, 6))
class Transposed(Function):
    """Transposes what is transposed already, and knows it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.mT @ x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return x @ (g + g.mT)
