"""A calibration tap: passes activations on unchanged and records their range.

Healthy: it looks suspicious, because forward returns a view of its input and changes
state that all calls share. No result depends on that state, and autograd knows of the
view.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

FAULT = None
KIND = "shared state"


@dataclass
class Range:
    low: float = float("inf")
    high: float = float("-inf")
    calls: int = 0

    def update(self, x: Tensor) -> None:
        if x.numel():
            low, high = torch.aminmax(x.detach())
            self.low = min(self.low, low.item())
            self.high = max(self.high, high.item())
        self.calls += 1


OBSERVED = Range()


class Observe(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, observer):
        observer.update(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


def op(x: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(Observe.apply(x, OBSERVED) @ weight)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(9, 14, generator=gen, dtype=torch.float64)
    weight = torch.randn(14, 6, generator=gen, dtype=torch.float64) / 3
    return x.requires_grad_(), weight.requires_grad_()
