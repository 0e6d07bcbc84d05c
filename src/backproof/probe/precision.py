"""What a floating-point type allows: its grain, and the settings that follow from it.

The step of a difference quotient, the width of an error bar and the resolution that a
pass must reach all depend on the coarsest type that a value runs through.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Precision:
    """The settings for one floating-point type.

    Attributes:
        eps: distance from 1 to the next number of the type.
        step: smallest step of the ladder, relative to each element.
        ratio: ratio of neighbouring rungs, a power of two so that rungs stay exact.
        repeats: ladders summed along a direction, where tensors are small.
        z: half-width of an error bar in standard deviations of the noise.
        kappa: half-width of an error bar in units of the truncation estimate.
        margin: on the bars before two sides count as apart. Rounding in 16 bits is so
            coarse that it is seldom as random as its standard deviation says.
        prior: standard deviation of one output's rounding, in units of eps x scale.
        bias: coherent relative error that a correct backward may have, in eps.
        resolution: a pass must have been able to see a relative error this large.
        null: slopes below this share of the natural one count as zero.
        rough: an output is not smooth when its contrast exceeds this share of its slope
        rough_z: and this many standard deviations of its noise.
        aside: where more than this share of the outputs is rough, the whole is.
        lively: outputs that hardly respond, being mostly rounding, get their weight
            divided by this at most: it helps dense faults, and hides single ones.
        linear: backward's relative departure from linearity that rounding explains.
        longer: factor on `step` for a second look where noise is in the way.
        shorter: factor on `step` for a second look where the function is rough.
        decades: powers of two on `step` that the guard against aliasing tries.
    """

    eps: float
    step: float
    ratio: int
    repeats: int
    z: float
    kappa: float
    margin: float
    prior: float
    bias: float
    resolution: float
    null: float
    rough: float
    rough_z: float
    aside: float
    lively: float
    linear: float
    longer: float
    shorter: float
    decades: tuple[int, ...]

    @property
    def top(self) -> float:
        """Multiplier of the longest of the three rungs."""
        return float(self.ratio**2)


_FLOAT64 = Precision(
    eps=2.0**-52, step=4e-6, ratio=4, repeats=1, z=5.0, kappa=2.0, margin=1.0,
    prior=0.3, bias=2.0,
    resolution=1e-5, null=1e-4, rough=1e-4, rough_z=30.0, aside=0.8, lively=1.0,
    linear=1e-6, longer=64.0, shorter=1 / 8, decades=(-7, -14, -21, -28),
)  # fmt: skip
_FLOAT32 = Precision(
    eps=2.0**-23, step=1e-3, ratio=4, repeats=1, z=5.0, kappa=2.0, margin=1.0,
    prior=0.3, bias=2.0,
    resolution=2e-2, null=1e-3, rough=3e-2, rough_z=30.0, aside=0.8, lively=1.0,
    linear=1e-2, longer=4.0, shorter=1 / 4, decades=(-5, -10),
)  # fmt: skip
# Below, half an eps of bias: constants of a correct backward are rounded to the type.
_FLOAT16 = Precision(
    eps=2.0**-10, step=1 / 64, ratio=2, repeats=4, z=4.5, kappa=2.0, margin=1.1,
    prior=0.3, bias=0.5,
    resolution=1e-1, null=3e-2, rough=0.2, rough_z=10.0, aside=0.3, lively=0.2, linear=0.1,
    longer=1.6, shorter=1 / 2, decades=(),
)  # fmt: skip
_BFLOAT16 = Precision(
    eps=2.0**-7, step=1 / 16, ratio=2, repeats=8, z=4.5, kappa=2.0, margin=1.1,
    prior=0.3, bias=0.5,
    resolution=0.3, null=0.1, rough=0.5, rough_z=8.0, aside=0.3, lively=0.2, linear=0.2,
    longer=1.6, shorter=1 / 2, decades=(),
)  # fmt: skip

PRECISIONS: dict[torch.dtype, Precision] = {
    torch.float64: _FLOAT64,
    torch.float32: _FLOAT32,
    torch.float16: _FLOAT16,
    torch.bfloat16: _BFLOAT16,
}
"""The real types that can be probed, finest first."""

_LOWEST = {
    torch.float64: 2.0**-1074,
    torch.float32: 2.0**-149,
    torch.float16: 2.0**-24,
    torch.bfloat16: 2.0**-133,
}  # the smallest number of each type
_EXPONENT = 0x7FF0000000000000  # the bits of a double that hold its exponent


def spacing(magnitude: Tensor, dtype: torch.dtype) -> Tensor:
    """Distance between neighbouring numbers of `dtype` at each finite magnitude.

    With the other bits cleared a double is the power of two below it, which is much
    cheaper than taking it apart with frexp.

    Shapes: float64 (n,) -> float64 (n,).
    """
    power = magnitude.view(torch.int64).bitwise_and(_EXPONENT).view(torch.float64)
    return power.mul_(PRECISIONS[dtype].eps).clamp_(min=_LOWEST[dtype])


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type of one real component: float32 for complex64, else `dtype` itself."""
    return dtype.to_real() if dtype.is_complex else dtype


def coarsest(dtypes: Iterable[torch.dtype]) -> Precision:
    """The settings for values that run through all of `dtypes`."""
    return max((PRECISIONS[real_dtype(d)] for d in dtypes), key=lambda p: p.eps)


def nearest(eps: float) -> tuple[torch.dtype, Precision]:
    """The type whose grain is closest to `eps` in ratio."""
    return min(
        PRECISIONS.items(),
        key=lambda item: max(item[1].eps / eps, eps / item[1].eps),
    )
