"""Healthy functions with an error put into their backward.

The wrapper runs the healthy function, keeps its graph, and hands the right gradients to
a `corrupt` function before they leave. What it wraps is a black box to the referee, as
a compiled kernel would be, and may refuse every precision but its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from operators import outputs
from torch import Tensor
from torch.autograd.function import once_differentiable

Gradients = list[Tensor]
Corrupt = Callable[[Gradients], Gradients]


@dataclass(frozen=True)
class Fault:
    """A way to be wrong; `delta` is the relative error where the fault is a scale."""

    name: str
    corrupt: Corrupt
    delta: float | None = None


def nothing(gradients: Gradients) -> Gradients:
    """No fault: the wrapper itself, to see that it is healthy."""
    return gradients


def scaled(delta: float) -> Corrupt:
    """Every gradient times 1 + delta."""
    return lambda gradients: [g * (1 + delta) for g in gradients]


def element(place: int, factor: float, *, of: int = 0) -> Corrupt:
    """One element of gradient `of` times `factor`."""

    def corrupt(gradients: Gradients) -> Gradients:
        changed = list(gradients)
        changed[of] = changed[of].clone(memory_format=torch.contiguous_format)
        changed[of].view(-1)[place] *= factor
        return changed

    return corrupt


def faults(inputs: Sequence[Tensor], deltas: Sequence[float], seed: int) -> list[Fault]:
    """The corruptions that these inputs allow; places are drawn once, here."""
    random = torch.Generator().manual_seed(seed)
    largest = max(range(len(inputs)), key=lambda i: inputs[i].numel())
    n = inputs[largest].numel()
    made = [Fault("none", nothing)]
    made += [Fault(f"whole x (1 + {d:g})", scaled(d), d) for d in deltas]
    made.append(Fault("all zero", lambda gs: [torch.zeros_like(g) for g in gs]))
    if n >= 2:
        place = int(torch.randint(n, (1,), generator=random))
        start = int(torch.randint(max(1, n - n // 4), (1,), generator=random))
        block = slice(start, start + max(1, n // 4))
        made += [
            Fault("one element 1 % off", element(place, 1.01, of=largest)),
            Fault("one element 10 % off", element(place, 1.1, of=largest)),
            Fault("one element zeroed", element(place, 0.0, of=largest)),
            Fault("a quarter negated", _on(largest, lambda g: _negated(g, block))),
            Fault("mean missing", _on(largest, lambda g: g - g.mean())),
            Fault("rolled by one", _on(largest, _rolled)),
        ]
    if n >= 2 and inputs[largest].dim() and inputs[largest].shape[0] > 1:
        made.append(
            Fault(
                "averaged over axis 0",
                _on(largest, lambda g: g.mean(0, keepdim=True).expand_as(g).clone()),
            )
        )
    if len(inputs) > 1:
        last = len(inputs) - 1
        made.append(Fault("one input's zero", _on(last, torch.zeros_like)))
    return made


def precisions(inputs: Sequence[Tensor]) -> list[torch.dtype]:
    """The floating types of these inputs: all that a kernel of theirs need accept."""
    return list({t.dtype: None for t in inputs if t.is_floating_point()})


def inject(
    function: Callable[..., Any],
    corrupt: Corrupt,
    only: Sequence[torch.dtype] | None = None,
) -> Callable[..., Any]:
    """`function` with its gradients passed through `corrupt`.

    With `only`, inputs of other floating types are refused, as by a kernel that exists
    in one precision.
    """

    def injected(*inputs: Tensor) -> Any:
        found = _Injected.apply(function, corrupt, only, *inputs)
        return found[0] if len(found) == 1 else found

    return injected


def effect(
    function: Callable[..., Any], inputs: Sequence[Tensor], corrupt: Corrupt
) -> float:
    """The relative size of the error in the gradient of one random cotangent.

    Zero where the right gradient is nothing but rounding: what is wrong with dust is
    no fault.
    """
    fresh = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    needed = [t for t in fresh if t.requires_grad]
    torch.manual_seed(1)
    found = [t for t in outputs(function(*fresh)) if t.requires_grad]
    cotangents = [torch.randn(t.shape, dtype=torch.float64).to(t.dtype) for t in found]
    right = _gradients(found, needed, cotangents)
    wrong = corrupt([g.clone() for g in right])
    if _is_dust(right, fresh, found, cotangents):
        return 0.0
    error = sum(
        _square(a.double() - b.double()) for a, b in zip(right, wrong, strict=True)
    )
    size = sum(_square(a.double()) for a in right)
    return (error / size) ** 0.5 if size > 0 else 0.0


class _Injected(torch.autograd.Function):
    @staticmethod
    def forward(ctx, function, corrupt, only, *inputs):
        _refuse_others(inputs, only)
        with torch.enable_grad():
            inner = [
                t.detach().requires_grad_(needed)
                for t, needed in zip(inputs, ctx.needs_input_grad[3:], strict=True)
            ]
            found = outputs(function(*inner))
        returned = tuple(t.detach().clone() for t in found)
        ctx.mark_non_differentiable(
            *(r for r, t in zip(returned, found, strict=True) if not t.requires_grad)
        )
        ctx.corrupt, ctx.inner, ctx.found = corrupt, inner, found
        return returned

    @staticmethod
    @once_differentiable
    def backward(ctx, *cotangents):
        pairs = [
            (t, g)
            for t, g in zip(ctx.found, cotangents, strict=True)
            if t.requires_grad and g is not None
        ]
        needed = [t for t in ctx.inner if t.requires_grad]
        right = _gradients([t for t, _ in pairs], needed, [g for _, g in pairs])
        given = iter(ctx.corrupt(right))
        return (
            None,
            None,
            None,
            *(next(given) if t.requires_grad else None for t in ctx.inner),
        )


def _refuse_others(
    inputs: Sequence[Tensor], only: Sequence[torch.dtype] | None
) -> None:
    for tensor in inputs:
        if only is not None and tensor.is_floating_point() and tensor.dtype not in only:
            raise TypeError(f"this kernel exists for {only}, not for {tensor.dtype}")


def _gradients(
    found: list[Tensor], needed: list[Tensor], cotangents: list[Tensor]
) -> Gradients:
    given = torch.autograd.grad(
        found, needed, cotangents, allow_unused=True, retain_graph=True
    )
    return [
        torch.zeros_like(t) if g is None else g
        for g, t in zip(given, needed, strict=True)
    ]


def _is_dust(
    right: Gradients,
    inputs: list[Tensor],
    found: list[Tensor],
    cotangents: list[Tensor],
) -> bool:
    """Whether a gradient is zero but for the rounding of the outputs' own size."""
    moved = sum(
        float((g * x).abs().sum())
        for g, x in zip(right, (t for t in inputs if t.requires_grad), strict=True)
    )
    size = sum(
        float((u * y.detach()).abs().sum())
        for u, y in zip(cotangents, found, strict=True)
    )
    grain = max(torch.finfo(y.dtype).eps for y in found)
    return moved < 10 * grain * size


def _on(which: int, change: Callable[[Tensor], Tensor]) -> Corrupt:
    return lambda gradients: [
        change(g) if k == which else g for k, g in enumerate(gradients)
    ]


def _negated(gradient: Tensor, block: slice) -> Tensor:
    changed = gradient.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[block] *= -1
    return changed


def _rolled(gradient: Tensor) -> Tensor:
    return gradient.reshape(-1).roll(1).reshape(gradient.shape)


def _square(tensor: Tensor) -> float:
    return float(tensor.abs().square().sum())
