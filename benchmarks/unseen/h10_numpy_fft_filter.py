"""Circular convolution of signals with a filter through NumPy's FFT.

Healthy: it looks suspicious, because both passes leave torch, so that a second
derivative, vmap and forward mode do not exist. They are refused, not answered wrongly.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

FAULT = None
KIND = "second order"


class CircularFilter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, signal, taps):
        ctx.save_for_backward(signal, taps)
        spectrum = np.fft.rfft(signal.detach().cpu().numpy(), axis=-1)
        response = np.fft.rfft(taps.detach().cpu().numpy(), n=signal.shape[-1])
        out = np.fft.irfft(spectrum * response, n=signal.shape[-1], axis=-1)
        return torch.from_numpy(out).to(signal.device, signal.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        signal, taps = ctx.saved_tensors
        length = signal.shape[-1]
        grad = np.fft.rfft(grad_output.cpu().numpy(), axis=-1)
        spectrum = np.fft.rfft(signal.detach().cpu().numpy(), axis=-1)
        response = np.fft.rfft(taps.detach().cpu().numpy(), n=length)
        grad_signal = np.fft.irfft(grad * response.conj(), n=length, axis=-1)
        by_sample = np.fft.irfft(grad * spectrum.conj(), n=length, axis=-1)
        grad_taps = by_sample.reshape(-1, length).sum(axis=0)[: taps.numel()]
        return (
            torch.from_numpy(grad_signal).to(signal.device, signal.dtype),
            torch.from_numpy(grad_taps.copy()).to(taps.device, taps.dtype),
        )


op = CircularFilter.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    signal = torch.randn(5, 32, generator=gen, dtype=torch.float64)
    taps = torch.randn(6, generator=gen, dtype=torch.float64)
    return signal.requires_grad_(), taps.requires_grad_()
