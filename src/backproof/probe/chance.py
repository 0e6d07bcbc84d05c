"""Random numbers for directions and cotangents, apart from every global state.

NumPy's SFC64 draws doubles three times as fast as torch's generator, and a seed sequence
keeps streams of neighbouring seeds independent.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_LEAST, _SPREAD = 0.6, 0.8


def stream(*seeds: int) -> np.random.Generator:
    """The stream that belongs to these numbers."""
    return np.random.Generator(np.random.SFC64(list(seeds)))


def signed(generator: np.random.Generator, size: int) -> Tensor:
    """Uniform in [-1, 1), float64 (size,): a random sign and a random magnitude."""
    return torch.from_numpy(generator.random(size)).mul_(2).sub_(1)


def spread(draw: Tensor) -> Tensor:
    """Magnitudes in [0.6, 1.4] from signed draws, float64 (n,), in place.

    Bounded below, so that a single wrong element is always seen, and not constant, so
    that two equal errors do not cancel.
    """
    return draw.abs_().mul_(_SPREAD).add_(_LEAST)


def signs(generator: np.random.Generator, size: int) -> Tensor:
    """+1 or -1, float64 (size,)."""
    return torch.copysign(
        torch.ones(size, dtype=torch.float64, device="cpu"), signed(generator, size)
    )
