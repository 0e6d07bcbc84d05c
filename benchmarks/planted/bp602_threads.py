"""Faults and right twins for BP602 in threads: calls of threads do not interfere."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref

import torch
from planted.member import FLOAT32, fault, normal, phases, twin, uniform
from torch.autograd import Function

_THREADS = ("threads_backward",)

# ----------------------------------------------------------------------------- faults

_ring = [torch.empty(6, dtype=torch.double) for _ in range(3)]
_turns = itertools.count()


@fault(normal(6), contexts=_THREADS)
class RingOfBuffers(Function):
    """Three calls may be under way at a time, and the fourth writes over the first."""

    @staticmethod
    def forward(ctx, x):
        ctx.slot = next(_turns) % len(_ring)
        _ring[ctx.slot] = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return g * _ring[ctx.slot]


_pushed: list[torch.Tensor] = []


@fault(uniform(5, low=0.5, high=2.0), contexts=_THREADS)
class LastInFirstOut(Function):
    """Backward takes what the latest forward left, whoever called that."""

    @staticmethod
    def forward(ctx, x):
        _pushed.append(1 / x)
        return x.log()

    @staticmethod
    def backward(ctx, g):
        return g * (_pushed.pop() if len(_pushed) > 1 else _pushed[-1])


@fault(normal(4, 3, dtype=FLOAT32), contexts=_THREADS)
class InputOnTheClass(Function):
    """The input of the latest call lies on the class, not on ctx."""

    seen: torch.Tensor

    @staticmethod
    def forward(ctx, x):
        InputOnTheClass.seen = x.detach()
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 2 * InputOnTheClass.seen


_local = threading.local()


@fault(phases(4), contexts=_THREADS)
class StoredWithTheThread(Function):
    """What forward leaves with its thread is not there for a backward of another."""

    @staticmethod
    def forward(ctx, z):
        ctx.key = id(ctx)
        slopes = _local.__dict__.setdefault("slopes", {})
        slopes[ctx.key] = (2 * z).conj()
        return z * z

    @staticmethod
    def backward(ctx, g):
        slopes = _local.__dict__.get("slopes", {})
        return g * slopes.get(ctx.key, 2)


# ------------------------------------------------------------------------------ twins


@twin(normal(6), contexts=_THREADS)
class ScratchOfTheThread(Function):
    """A scratch buffer a thread, used within one call."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        scratch = getattr(_local, "scratch", None)
        if scratch is None or scratch.shape != x.shape or scratch.dtype != x.dtype:
            scratch = _local.scratch = torch.empty_like(x)
        return torch.mul(x, x, out=scratch).sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * (x * x).cos()


_lock = threading.Lock()
_shared: dict[tuple[object, ...], torch.Tensor] = {}


@twin(normal(4, 3, dtype=FLOAT32), contexts=_THREADS)
class ScratchBehindALock(Function):
    """One scratch buffer for all threads, used by one at a time and never handed out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with _lock:
            scratch = _shared.setdefault((x.shape, x.dtype), torch.empty_like(x))
            return scratch.copy_(x).mul_(x).add_(1).log()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x / (1 + x * x)


@functools.lru_cache(maxsize=16)
def _taper(n):
    return [1 - k / n for k in range(n)]


@twin(normal(7), contexts=_THREADS)
class TaperFromACache(Function):
    """A cache of constants that all threads share."""

    @staticmethod
    def forward(ctx, x):
        return x * x.new_tensor(_taper(len(x)))

    @staticmethod
    def backward(ctx, g):
        return g * g.new_tensor(_taper(len(g)))


_shapes: weakref.WeakKeyDictionary[object, torch.Size] = weakref.WeakKeyDictionary()


@twin(phases(3, 2), contexts=_THREADS)
class NoteForEachCall(Function):
    """Notes lie in a table of the module, one for each call that is under way."""

    @staticmethod
    def forward(ctx, z):
        _shapes[ctx] = z.shape
        return z.reshape(-1) * 2j

    @staticmethod
    def backward(ctx, g):
        return g.reshape(_shapes[ctx]) * -2j


@twin(uniform(5, low=0.5, high=2.0), contexts=_THREADS)
class NumbersItsCalls(Function):
    """Every call takes a number, which nothing depends on."""

    @staticmethod
    def forward(ctx, x):
        ctx.number = next(_turns)
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / x
