"""What does a `backproof.Function` cost, against torch's own forms of the same op?

The op is x * w with a float beside it, on eight elements, so that what is measured is
not arithmetic. Everything is timed in one process and one thread, in interleaved
batches: a row compares medians of CPU time over the runs, and the spread is the
interquartile range of the ratios of single runs.

    eager    forward without gradients, forward, forward + backward, against
             torch.autograd.Function in three forms and torch.library.custom_op
    func     grad, vmap and vmap(grad) against the same mathematics inline
    kernels  how many kernels Inductor generates for six chained ops
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from running import Row, Target, judge_targets, parser, print_table, write_rows
from torch import Tensor
from torch.func import grad, vmap

import backproof

_ELEMENTS = 8
_BATCH = 16
_CHAINED = 6
_RUNS, _QUICK_RUNS = 20, 5
_MOST = {  # of ours over the other's time
    "Function, ctx": 1.0,
    "Function, ctx, saved intermediate": 1.0,
    "Function, setup_context": 0.5,
    "custom_op": 0.5,
    "inline": 2.5,
}
_FLOOR = "no Function"  # torch.mul: what no form can be below

Step = Callable[[], Any]


@dataclass(frozen=True)
class Pair:
    """Two ways of the same call, and what one costs over the other."""

    what: str
    against: str
    ours: Step
    other: Step


def forms(base: Any) -> dict[str, Callable[..., Tensor]]:
    """The op on a base class, in three forms."""

    class Ctx(base):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor, a: float) -> Tensor:
            ctx.save_for_backward(x, w)
            ctx.a = a
            return x * w

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, w = ctx.saved_tensors
            return g * w, g * x, None

    class Saved(base):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor, a: float) -> Tensor:
            s = x * w
            ctx.save_for_backward(x, w, s)
            ctx.a = a
            return s * s

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, w, s = ctx.saved_tensors
            inner = g * s
            return inner * w, inner * x, None

    class Setup(base):
        @staticmethod
        def forward(x: Tensor, w: Tensor, a: float) -> Tensor:
            return x * w

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
            x, w, ctx.a = inputs
            ctx.save_for_backward(x, w)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, w = ctx.saved_tensors
            return g * w, g * x, None

    return {
        "Function, ctx": Ctx.apply,
        "Function, ctx, saved intermediate": Saved.apply,
        "Function, setup_context": Setup.apply,
    }


def custom_op() -> Callable[..., Tensor]:
    """The op as torch.library has it."""

    @torch.library.custom_op("backproof_overhead::product", mutates_args=())
    def product(x: Tensor, w: Tensor, a: float) -> Tensor:
        return x * w

    @product.register_fake
    def _(x: Tensor, w: Tensor, a: float) -> Tensor:
        return torch.empty_like(x)

    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        x, w, _ = inputs
        ctx.save_for_backward(x, w)

    def backward(ctx: Any, g: Tensor) -> Any:
        x, w = ctx.saved_tensors
        return g * w, g * x, None

    product.register_autograd(backward, setup_context=setup_context)
    operator: Callable[..., Tensor] = product
    return operator


class Gate(backproof.Function):
    """A smooth gate, for the transforms: nothing to see in arithmetic here either."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, a: float) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.a = a
        return torch.round(4 * soft(x, w, a)) / 4

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, w = ctx.saved_tensors
        s = torch.sigmoid(ctx.a * x)
        return g * w * (s + x * ctx.a * s * (1 - s)), g * x * s, None


def soft(x: Tensor, w: Tensor, a: float) -> Tensor:
    return w * x * torch.sigmoid(a * x)


def inline_gate(x: Tensor, w: Tensor, a: float) -> Tensor:
    s = soft(x, w, a)
    return s + (torch.round(4 * s) / 4 - s).detach()


def eager_pairs() -> list[Pair]:
    """Plain calls."""
    x, w, cotangent = (torch.randn(_ELEMENTS) for _ in range(3))
    xg, wg = x.clone().requires_grad_(), w.clone().requires_grad_()
    others = forms(torch.autograd.Function)
    ours = forms(backproof.Function)
    others["custom_op"] = custom_op()
    ours["custom_op"] = ours["Function, setup_context"]

    def both(op: Callable[..., Tensor]) -> Step:
        return lambda: torch.autograd.grad(op(xg, wg, 1.5), (xg, wg), cotangent)

    def step(op: Callable[..., Tensor], a: Tensor, b: Tensor) -> Step:
        return lambda: op(a, b, 1.5)

    others[_FLOOR] = lambda x, w, a: x * w
    ours[_FLOOR] = ours["Function, ctx"]
    pairs = []
    for name, other in others.items():
        own = ours[name]
        pairs += [
            Pair("forward, no gradient", name, step(own, x, w), step(other, x, w)),
            Pair("forward", name, step(own, xg, wg), step(other, xg, wg)),
            Pair("forward + backward", name, both(own), both(other)),
        ]
    return pairs


def func_pairs() -> list[Pair]:
    """Calls under transforms of torch.func."""
    x, w = torch.randn(_BATCH, _ELEMENTS), torch.randn(_ELEMENTS)

    def steps(op: Callable[..., Tensor]) -> dict[str, Step]:
        def value(x: Tensor, w: Tensor) -> Tensor:
            return op(x, w, 1.5)

        def loss(x: Tensor, w: Tensor) -> Tensor:
            return value(x, w).sin().sum()

        return {
            "func.grad": lambda: grad(loss)(x, w),
            "vmap": lambda: vmap(value, (0, None))(x, w),
            "vmap(grad)": lambda: vmap(grad(loss), (0, None))(x, w),
        }

    ours, inline = steps(Gate.apply), steps(inline_gate)
    return [Pair(what, "inline", ours[what], inline[what]) for what in ours]


def measure(pair: Pair, runs: int) -> Row:
    """Interleaved batches of both, until there are `runs` of each."""
    batch = max(20, int(0.004 / _seconds(pair.ours, 20)))
    times = [
        (_seconds(pair.ours, batch), _seconds(pair.other, batch)) for _ in range(runs)
    ]
    ratios = [ours / other for ours, other in times]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "what": pair.what,
        "against": pair.against,
        "ours_us": statistics.median(t for t, _ in times) * 1e6,
        "other_us": statistics.median(t for _, t in times) * 1e6,
        "ratio": statistics.median(ratios),
        "low": low,
        "high": high,
    }


def _seconds(step: Step, count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        step()
    return (time.thread_time() - start) / count


def kernels(op: Callable[..., Tensor]) -> int:
    """How many kernels Inductor generates for six chained ops, forward and backward."""
    from torch._inductor import metrics

    def chained(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(_CHAINED):
            x = op(x, w, 1.5)
        return x.sum()

    torch._dynamo.reset()
    metrics.reset()
    x = torch.randn(64, 64, requires_grad=True)
    w = torch.randn(64, requires_grad=True)
    with torch._inductor.config.patch(fx_graph_cache=False):
        torch.compile(chained, fullgraph=True)(x, w).backward()
    return int(metrics.generated_kernel_count)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    given = parser(__doc__, jobs=False).parse_args(arguments)
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)
    runs = _QUICK_RUNS if given.quick else _RUNS
    rows = []
    for pair in [*eager_pairs(), *func_pairs()]:
        rows.append(measure(pair, runs))
        if sys.stderr.isatty():
            print(f"\r\033[K{pair.what}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print_table(
        f"backproof.Function over others, CPU time, {runs} interleaved runs",
        ["call", "against", "ours, us", "other, us", "ratio", "spread"],
        [
            [
                row["what"],
                row["against"],
                f"{row['ours_us']:.1f}",
                f"{row['other_us']:.1f}",
                f"{row['ratio']:.2f}",
                f"{row['low']:.2f} to {row['high']:.2f}",
            ]
            for row in rows
        ],
    )
    counts = {
        "inline": kernels(inline_gate),
        "backproof.Function": kernels(Gate.apply),
    }
    print_table(
        f"Inductor's kernels for {_CHAINED} chained ops, forward and backward",
        ["form", "kernels"],
        list(counts.items()),
    )
    write_rows(given.out, [*rows, {"kernels": counts}])
    targets = [
        Target(
            f"{row['what']} against {row['against']}: at most {most} within the spread",
            row["low"] <= most,
            always=False,
        )
        for row in rows
        if row["against"] != _FLOOR
        for most in [_MOST[row["against"]]]
    ]
    fused = counts["backproof.Function"] <= counts["inline"]
    targets.append(Target("Inductor generates no more kernels than inline", fused))
    return judge_targets(targets, quick=given.quick)


if __name__ == "__main__":
    sys.exit(main())
