"""Correct, and each looks guilty to somebody: kinks, ties, offsets, noise, edges."""

import numpy as np
import torch
from torch import nn
from torch.autograd import Function
from torch.nn import functional

from tests.zoo.member import (
    ALL,
    FINE,
    FLOAT32,
    FLOAT64,
    Maker,
    fixed,
    innocent,
    integers,
    normal,
    phases,
    uniform,
    values,
)

# ------------------------------------------------------------------------------ kinks


@innocent(values(0.0, 1.0, 0.0, -2.0, 3.0, 0.0))
def relu_with_zeros(x):
    return torch.relu(x)


@innocent(integers(40))
def absolute_value_with_zeros(x):
    return x.abs()


@innocent(values(-1.0, 1.0, 0.5, 2.0, -3.0, 0.0))
def clamp_at_its_bounds(x):
    return x.clamp(-1, 1)


@innocent(normal(16, 12), normal(12, 12))
def a_kink_in_every_output(x, w):
    return torch.relu(x @ w)


@innocent(values(0.0, 1.0, -2.0, 0.5, 0.7, 2.5))
class HalfAtZero(Function):
    """Another subgradient than torch's, and as good."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.relu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.where(x == 0, 0.5, (x > 0).to(g.dtype))


@innocent(uniform(200, low=0.05, high=0.95), dtypes=FINE)
def linear_interpolation(x):
    heights = torch.tensor([0.0, 2, 1, 4, 3, 3, 7, 5, 6, 9], dtype=x.dtype)
    at = x * 9
    left = at.detach().floor().clamp(0, 8).long()
    return torch.lerp(heights[left], heights[left + 1], at - left)


# ------------------------------------------------------------------------------- ties


@innocent(integers(12, 9), dtypes=FINE)
def largest_of_ties(x):
    return x.amax(-1)


@innocent(integers(12, 9), dtypes=FINE)
def first_of_ties(x):
    return x.max(-1).values


@innocent(integers(30), dtypes=FINE)
def sorted_ties(x):
    return x.sort(stable=True).values * torch.arange(30, dtype=x.dtype)


@innocent(integers(15), dtypes=FINE)
def median_of_ties(x):
    return x.median()


@innocent(integers(2, 3, 8, 8), dtypes=FINE)
def pooled_ties(x):
    return functional.max_pool2d(x, 2)


# ------------------------------------------------------------------ offsets and scales


@innocent(uniform(50, low=1e8, high=1e8 + 100), dtypes=(FLOAT64,))
def far_from_zero(x):
    return torch.sin(x - 1e8)


@innocent(normal(50), dtypes=FINE)
def a_large_constant_added(x):
    return 1000 + torch.sin(x)


@innocent(normal(50), dtypes=FINE)
def a_large_constant_added_and_taken_away(x):
    return ((x + 1000) - 1000) ** 2


@innocent(Maker(lambda r: 1e-25 * torch.randn(50, generator=r).double()))
def tiny_values(x):
    return 3 * x + x * x


@innocent(Maker(lambda r: 10 ** (16 * torch.rand(80, generator=r).double() - 8)))
def logarithm_over_sixteen_decades(x):
    return torch.log(x)


@innocent(uniform(60, low=0.01, high=0.99))
def arc_sine_in_its_domain(x):
    return torch.asin(x)


@innocent(uniform(60, low=0.01, high=0.99))
def logit_in_its_domain(x):
    return torch.logit(x)


@innocent(
    Maker(lambda r: 1e-3 * torch.randn(40, generator=r).double()),
    Maker(lambda r: 1e3 * torch.randn(40, generator=r).double()),
)
def factors_of_different_size(x, y):
    return x * y


@innocent(normal(100), dtypes=FINE)
def a_fast_wave(x):
    return torch.sin(300 * x)


@innocent(normal(60))
def a_steep_exponential(x):
    return torch.exp(5 * x)


@innocent(normal(40), normal(40), dtypes=(FLOAT64,))
def one_input_hardly_matters(x, y):
    return x + 1e-4 * torch.tanh(y)


# ---------------------------------------------------------------------- zero gradients


@innocent(normal(6, 7))
def a_sum_that_never_changes(x):
    return torch.softmax(x, -1).sum(-1)


@innocent(normal(20), normal(20))
def an_input_that_is_not_used(x, y):
    return torch.tanh(x) + 0 * y.detach()


@innocent(normal(20))
def a_zero_factor(x):
    return 0 * x


@innocent(normal(64), dtypes=FINE)
class FlooredWithZeroGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.floor(x)

    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)


@innocent(normal(64), dtypes=FINE)
def a_stair_added(x):
    return torch.tanh(x) + torch.round(x)


# ------------------------------------------------------------------------------- noise


@innocent(normal(200))
def dropout(x):
    return functional.dropout(torch.tanh(x), 0.5)


@innocent(normal(200))
def numpys_random_numbers(x):
    return x * torch.from_numpy(np.random.rand(200)).to(x.dtype)


@innocent(normal(200), dtypes=(FLOAT64,), noise=1e-9)
def a_kernel_that_scatters(x):
    generator = np.random.default_rng()  # seeded by nobody
    scatter = torch.from_numpy(generator.standard_normal(200))
    return torch.sin(x) + 1e-11 * scatter


@innocent(normal(200), dtypes=(FLOAT64,))
class Float32Kernel(Function):
    """Takes and gives float64, and computes in float32 throughout."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().sin().double()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g.float() * x.float().cos()).double()


@innocent(normal(8, 32), dtypes=(torch.bfloat16, FLOAT32))
def softmax_in_float32(x):
    return torch.softmax(x.float(), -1).to(x.dtype)


@innocent(normal(2000), dtypes=(FLOAT32,))
def a_sum_that_rounds(x):
    return (x * x).cumsum(0)


# ------------------------------------------------------------------------ what is legal


@innocent(normal(8, 5), normal(5))
class UnreducedGradient(Function):
    """The engine sums a gradient over the dimensions that were broadcast."""

    @staticmethod
    def forward(ctx, x, b):
        return x + b

    @staticmethod
    def backward(ctx, g):
        return g, g


@innocent(normal(8, 5), 3, "mode")
class NoneForWhatIsNoTensor(Function):
    @staticmethod
    def forward(ctx, x, power, mode):
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1), None, None


@innocent(normal(8, 5))
class TrailingNones(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g, None, None


@innocent(normal(8, 5))
class CotangentItself(Function):
    """The very tensor that it was handed."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g


@innocent(normal(30))
class MarkedDirty(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, g):
        return 3 * g


@innocent(normal(30))
class IndicesBeside(Function):
    """A second output that is not differentiable, and says so."""

    @staticmethod
    def forward(ctx, x):
        y, order = x.sort()
        ctx.save_for_backward(order)
        ctx.mark_non_differentiable(order)
        return y, order

    @staticmethod
    def backward(ctx, g, _):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter_(0, order, g)


@innocent(normal(30))
class NotMaterialised(Function):
    """None cotangents are expected, and handled."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, g_sine, g_cosine):
        (x,) = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        if g_sine is not None:
            gradient += g_sine * x.cos()
        if g_cosine is not None:
            gradient -= g_cosine * x.sin()
        return gradient


@innocent(normal(30))
class NewStyle(Function):
    """With setup_context, and two ways to be called."""

    @staticmethod
    def forward(x):
        return torch.exp(-x * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return -2 * x * y * g


# --------------------------------------------------------------------------- composed


@innocent(normal(12, 10), torch.arange(12) % 10)
def cross_entropy(x, target):
    return functional.cross_entropy(x, target)


@innocent(torch.tensor([1, 3, 3, 0]), normal(5, 4))
def embedding(index, weight):
    return functional.embedding(index, weight)


@innocent(normal(1, 2, 9, 9), normal(3, 2, 3, 3))
def convolution(x, w):
    return functional.conv2d(x, w)


@innocent(phases(12), dtypes=FINE)
def size_of_a_complex_number(z):
    return z.abs()


@innocent(phases(12), dtypes=FINE)
def complex_polynomial(z):
    return z * z.conj() * z + 1j * z


@innocent(normal(20))
def no_copy_is_made(x):
    return x.view(4, 5).mT


@innocent(normal(5, 5), dtypes=FINE)
def inverse(x):
    return torch.linalg.inv(x + 6 * torch.eye(5, dtype=x.dtype))


@innocent(normal(6, 4), fixed(uniform(6, 4)), dtypes=ALL)
def masked(x, weight):
    return torch.where(weight > 0.5, torch.tanh(x), 0 * x)


@innocent(normal(16, 6), dtypes=FINE)
class BatchNormInTraining(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(x)


@innocent(normal(4, 3, 6))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.GRU(6, 5)

    def forward(self, x):
        return self.cell(x)
