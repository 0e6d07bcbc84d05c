"""Faults and right twins for BP409: `functionalize` gives eager's values."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin, uniform

# ----------------------------------------------------------------------------- faults

_library = torch.library.Library("planted_functional", "DEF")
_library.define("triangle(Tensor out) -> ()")  # written, not marked
_library.define("triangle_marked(Tensor(a!) out) -> ()")
_library.define("reshaped(Tensor x, SymInt[] shape) -> Tensor")  # a view, not marked
_library.define("reshaped_marked(Tensor(a) x, SymInt[] shape) -> Tensor(a)")


def _triangle(out):
    out.copy_(torch.ones_like(out).tril())


for _name in ("triangle", "triangle_marked"):
    _library.impl(_name, _triangle, "CPU")
for _name in ("reshaped", "reshaped_marked"):
    _library.impl(_name, lambda x, shape: x.view(shape), "CPU")


@fault(normal(4, 4))
def masked_by_a_kernel(x):
    """The mask is written into a part of a larger buffer, by an unmarked argument."""
    mask = x.new_zeros(5, 4)
    torch.ops.planted_functional.triangle(mask[:4])
    return x * mask[:4]


@fault(normal(6, dtype=FLOAT32))
def written_through_a_hidden_view(x):
    """Weights are changed through a view that is not declared to be one."""
    weights = x.new_ones(6)
    torch.ops.planted_functional.reshaped(weights, [2, 3])[1] *= 3
    return x.sin() * weights


@fault(normal(5))
def window_filled_by_numpy(x):
    """A buffer is filled through NumPy, which shares the memory of a copy."""
    window = torch.zeros(len(x), dtype=x.dtype)
    window.numpy()[:] = np.hamming(len(x))
    return x * window


@fault(uniform(4, low=0.5, high=1.5))
def coarse_when_functional(x):
    """A branch for functional tensors, which leaves out the last term."""
    series = x - x**2 / 2 + x**3 / 6
    return series if torch._is_functional_tensor(x) else series - x**4 / 24


@torch.library.custom_op("planted::advance_undeclared", mutates_args=())
def _advance(step: torch.Tensor) -> None:
    step.add_(1)


_advance.register_fake(lambda step: None)


@fault(normal(3))
def counted_steps(x):
    """An operator that advances a counter, declared to leave its argument alone."""
    counters = torch.zeros(2, dtype=x.dtype)
    for _ in range(3):
        _advance(counters[1])
    return x * counters.sum()


# ------------------------------------------------------------------------------ twins


@twin(normal(4, 4))
def masked_by_a_marked_kernel(x):
    """The same mask by an argument that is marked as written."""
    mask = x.new_zeros(5, 4)
    torch.ops.planted_functional.triangle_marked(mask[:4])
    return x * mask[:4]


@twin(normal(6, dtype=FLOAT32))
def written_through_views(x):
    """Writes through a view of a view of its own buffer."""
    weights = x.new_ones(6)
    weights.view(2, 3)[1] *= 3
    weights[::2].neg_()
    return x.sin() * weights


@twin(normal(5))
def window_as_a_constant(x):
    """NumPy makes a table of the size alone, which is copied into torch."""
    return x * torch.as_tensor(np.hamming(len(x)), dtype=x.dtype)


@twin(normal(5))
def overlapping_windows(x):
    """Reads one buffer through windows that overlap, and writes it by slices."""
    padded = x.new_zeros(len(x) + 2)
    padded[1:-1] = x
    return padded.as_strided((len(x), 3), (1, 1)).prod(1)


@twin(uniform(4, low=0.5, high=1.5))
def horner_when_functional(x):
    """A branch for functional tensors that nests the same polynomial."""
    if torch._is_functional_tensor(x):
        return x * (1 - x * (1 / 2 - x * (1 / 6 - x / 24)))
    return x - x**2 / 2 + x**3 / 6 - x**4 / 24


@twin(normal(3))
def in_place_on_a_copy(x):
    """A chain of writes into a clone of the input."""
    y = x.clone()
    y.mul_(2).add_(1)
    y.data.sub_(0)
    return y.square_()
