"""A conjugate is missing in the gradient of a complex input."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable

COMPLEX = (torch.complex128, torch.complex64)


class Multiply(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a.conj()


class Matmul(Function):
    """Transposed instead of adjoint, for the first factor."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.mT, a.mH @ grad


class Quadratic(Function):
    @staticmethod
    def forward(z, c):
        return z * z + c * z

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        z, c = ctx.saved_tensors
        return grad * (2 * z + c), None


class SpectralFilter(Function):
    """A circular convolution along the last axis; the filter is given as a spectrum."""

    @staticmethod
    def forward(ctx, signal, spectrum):
        transformed = torch.fft.fft(signal)
        ctx.save_for_backward(transformed, spectrum)
        return torch.fft.ifft(transformed * spectrum)

    @staticmethod
    def backward(ctx, grad):
        transformed, spectrum = ctx.saved_tensors
        inner = torch.fft.fft(grad) / grad.shape[-1]
        grad_spectrum = (transformed * inner).sum(0)
        grad_signal = torch.fft.ifft(inner * spectrum.conj()) * grad.shape[-1]
        return grad_signal, grad_spectrum


class WeightedPower(Function):
    """|z|**2 times a complex weight."""

    @staticmethod
    def forward(z, weight):
        return (z.real.square() + z.imag.square()) * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        z, weight = ctx.saved_tensors
        return 2 * z * (grad * weight).real, None


class Exponential(Function):
    @staticmethod
    def forward(ctx, z):
        y = torch.exp(z)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class InnerProduct(Function):
    """sum(conj(a) b): the cotangent has to be conjugated for a."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.vdot(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a


class BatchedProduct(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.einsum("bij,bjk->bik", a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad_a = torch.einsum("bik,bjk->bij", grad, b.conj())
        grad_b = torch.einsum("bik,bij->bjk", grad, a)
        return grad_a, grad_b


class Reciprocal(Function):
    @staticmethod
    def forward(ctx, z):
        y = 1 / z
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return -grad * y * y


class PhaseShift(Function):
    """By a Python complex number."""

    @staticmethod
    def forward(ctx, z, phase):
        ctx.phase = phase
        return z * phase

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.phase, None


class Butterfly(Function):
    """One stage of a fast Fourier transform, two outputs."""

    @staticmethod
    def forward(ctx, even, odd, twiddle):
        ctx.save_for_backward(twiddle)
        turned = odd * twiddle
        return even + turned, even - turned

    @staticmethod
    def backward(ctx, grad_sum, grad_difference):
        (twiddle,) = ctx.saved_tensors
        return grad_sum + grad_difference, (grad_sum - grad_difference) * twiddle, None


class Convolution(Function):
    """Taps over the last axis, valid positions only."""

    @staticmethod
    def forward(signal, taps):
        return signal.unfold(-1, len(taps), 1) @ taps

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        signal, taps = ctx.saved_tensors
        grad_signal = torch.zeros_like(signal)
        for i, tap in enumerate(taps):
            grad_signal[:, i : i + grad.shape[-1]] += grad * tap
        grad_taps = torch.einsum(
            "bn,bnk->k", grad, signal.unfold(-1, len(taps), 1).conj()
        )
        return grad_signal, grad_taps


class HalfPlaneGain(Function):
    """A gain for numbers of the right half plane; the others pass."""

    @staticmethod
    def forward(ctx, z, gain):
        right = z.real > 0
        ctx.save_for_backward(right, gain)
        return torch.where(right, z * gain, z)

    @staticmethod
    def backward(ctx, grad):
        right, gain = ctx.saved_tensors
        return torch.where(right, grad * gain, grad), None


FAULTS = [
    Fault(
        "complex_multiply",
        ("conjugate",),
        Multiply,
        drawn(normal(12), normal(12)),
        "a",
        everywhere(0),
        torch.mul,
        COMPLEX,
    ),
    Fault(
        "complex_matmul_transposed_not_adjoint",
        ("conjugate",),
        Matmul,
        drawn(normal(4, 5), normal(5, 3)),
        "a",
        everywhere(0),
        torch.matmul,
        COMPLEX,
    ),
    Fault(
        "complex_quadratic",
        ("conjugate",),
        Quadratic,
        drawn(normal(6, 8), plain(normal(8))),
        "z",
        everywhere(0),
        lambda z, c: z * (z + c),
        COMPLEX,
    ),
    Fault(
        "spectral_filter_spectrum",
        ("conjugate",),
        SpectralFilter,
        drawn(normal(3, 64), normal(64)),
        "spectrum",
        everywhere(1),
        lambda signal, spectrum: torch.fft.ifft(torch.fft.fft(signal) * spectrum),
        COMPLEX,
    ),
    Fault(
        "weighted_power_weight",
        ("conjugate",),
        WeightedPower,
        drawn(normal(5, 4, 3), plain(normal(4, 1))),
        "z",
        everywhere(0),
        lambda z, weight: z * z.conj() * weight,
        COMPLEX,
    ),
    Fault(
        "complex_exponential",
        ("conjugate",),
        Exponential,
        drawn(normal(100_000)),
        "z",
        everywhere(0),
        torch.exp,
        COMPLEX,
    ),
    Fault(
        "inner_product_cotangent",
        ("conjugate",),
        InnerProduct,
        drawn(normal(30), normal(30)),
        "a",
        everywhere(0),
        lambda a, b: (a.conj() * b).sum(),
        COMPLEX,
    ),
    Fault(
        "complex_batched_product_second_factor",
        ("conjugate",),
        BatchedProduct,
        drawn(normal(3, 4, 5), normal(3, 5, 2)),
        "b",
        everywhere(1),
        torch.bmm,
        COMPLEX,
    ),
    Fault(
        "complex_reciprocal_of_a_number",
        ("conjugate",),
        Reciprocal,
        drawn(normal(mean=1.5, scale=0.4)),
        "z",
        everywhere(0),
        torch.reciprocal,
        COMPLEX,
    ),
    Fault(
        "phase_shift_by_a_python_number",
        ("conjugate", "scaled"),
        PhaseShift,
        drawn(normal(2, 3, 4, 5), 0.6 + 0.8j),
        "z",
        everywhere(0),
        lambda z, phase: z * phase,
        COMPLEX,
    ),
    Fault(
        "butterfly_twiddle",
        ("conjugate",),
        Butterfly,
        drawn(normal(4, 16), normal(4, 16), plain(normal(16))),
        "odd",
        everywhere(1),
        lambda even, odd, twiddle: (
            torch.addcmul(even, odd, twiddle),
            torch.addcmul(even, odd, twiddle, value=-1),
        ),
        COMPLEX,
    ),
    Fault(
        "complex_convolution_signal",
        ("conjugate",),
        Convolution,
        drawn(normal(2, 40), normal(5)),
        "signal",
        everywhere(0),
        lambda signal, taps: sum(
            tap * signal[:, i : i + signal.shape[-1] - len(taps) + 1]
            for i, tap in enumerate(taps)
        ),
        COMPLEX,
    ),
    Fault(
        "half_plane_gain",
        ("conjugate",),
        HalfPlaneGain,
        drawn(normal(50, 6), plain(normal(6))),
        "z",
        lambda z, gain: z.real > 0,
        lambda z, gain: torch.where(z.real > 0, gain, 1) * z,
        COMPLEX,
    ),
]
