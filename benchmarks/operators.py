"""PyTorch's own operator databases as plain functions of their differentiable inputs.

`op_db` and `autograd_function_db` (torch.testing, with the sample inputs that PyTorch
tests itself on). A sample becomes a function of the tensors that require a gradient,
everything else held. Left out: sparse, nested and complex inputs, sparse outputs, and
samples of more than `MAX_INPUTS` input or `MAX_OUTPUTS` output elements, for which slow
gradcheck would take minutes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from running import seed_everything
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

MAX_INPUTS = 1500
MAX_OUTPUTS = 4000
MAX_TRIED = 250  # samples looked at: svd and unfold begin with 200 and 160 empty ones


@dataclass(frozen=True)
class Sample:
    """One call of an operator: `function(*inputs)`, every input requiring a gradient.

    `nondeterminism` is the `nondet_tol` that PyTorch's own gradient tests use for it.
    """

    operator: str
    index: int
    function: Callable[..., Any]
    inputs: tuple[Tensor, ...]
    nondeterminism: float

    @property
    def num_elements(self) -> int:
        """Input elements, all inputs together."""
        return sum(t.numel() for t in self.inputs)


def names(dtype: torch.dtype) -> list[str]:
    """The operators with a backward in `dtype` on CPU, in the database's order."""
    return [
        name
        for name, op in _database().items()
        if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    ]


def samples(name: str, dtype: torch.dtype, *, most: int, seed: int = 0) -> list[Sample]:
    """Up to `most` samples of an operator, the same ones at every call."""
    kept: list[Sample] = []
    seed_everything(seed)
    op = _database()[name]
    drawn = iter(op.sample_inputs("cpu", dtype, requires_grad=True))
    for index in range(MAX_TRIED):
        if len(kept) == most:
            break
        try:
            drawn_sample = next(drawn)
        except Exception:  # no more samples, or none in this dtype
            break
        sample = _plain(name, index, op, drawn_sample)
        if sample is not None:
            kept.append(sample)
    return kept


def casts_inside(sample: Sample) -> bool:
    """Whether an inner result is of a coarser type than the inputs it came from.

    Such an operator (`bfloat16`, `half`, `to`, `cfloat` ...) cannot be resolved better
    than the type it passes through.
    """
    with torch.no_grad(), _CastWatch() as watch:
        sample.function(*(t.detach().clone() for t in sample.inputs))
    return watch.seen


def outputs(value: Any) -> list[Tensor]:
    """The tensors in whatever an operator returned."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


class _CastWatch(TorchDispatchMode):
    seen = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = [_coarseness(t) for t in outputs((args, kwargs))]
        given = [eps for eps in given if eps]
        made = [_coarseness(t) for t in outputs(result)]
        if given and max(made, default=0.0) > max(given):
            self.seen = True
        return result


def _coarseness(tensor: Tensor) -> float:
    floating = tensor.is_floating_point() or tensor.is_complex()
    return torch.finfo(tensor.dtype).eps if floating else 0.0


@functools.cache
def _database() -> dict[str, Any]:
    try:
        from torch.testing._internal.autograd_function_db import autograd_function_db
        from torch.testing._internal.common_methods_invocations import op_db
    except ModuleNotFoundError as missing:
        raise SystemExit(
            f"PyTorch's operator database needs {missing.name}: "
            f"pip install {missing.name}"
        ) from missing
    ops = [*op_db, *autograd_function_db]
    return {
        f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name: op
        for op in ops
    }


def _plain(name: str, index: int, op: Any, sample: Any) -> Sample | None:
    leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [
        place
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and leaf.requires_grad
    ]
    given = [leaves[place].detach().clone() for place in places]
    if not _are_plain(given):
        return None
    inputs = tuple(tensor.requires_grad_() for tensor in given)
    wrapped = functools.partial(op.gradcheck_wrapper, op.get_op())
    for call in (wrapped, op.get_op()):  # the wrappers of two operators do not run

        def function(*tensors: Tensor, call: Callable[..., Any] = call) -> Any:
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            first, args, keywords = tree_unflatten(filled, spec)
            result = call(first, *args, **keywords)
            if sample.output_process_fn_grad is not None:
                result = sample.output_process_fn_grad(result)
            found = tuple(outputs(result))
            return found[0] if len(found) == 1 else found

        if _can_be_called(function, inputs):
            return Sample(name, index, function, inputs, op.gradcheck_nondet_tol)
    return None


def _are_plain(tensors: list[Tensor]) -> bool:
    return 0 < sum(t.numel() for t in tensors) <= MAX_INPUTS and not any(
        t.layout != torch.strided or t.is_complex() or t.is_nested for t in tensors
    )


def _can_be_called(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> bool:
    try:
        with torch.enable_grad():
            found = outputs(function(*_copies(inputs)))
    except Exception:  # PyTorch's own sample does not run here
        return False
    return (
        any(t.requires_grad for t in found)
        and all(t.layout == torch.strided for t in found)
        and 0 < sum(t.numel() for t in found) <= MAX_OUTPUTS
    )


def _copies(tensors: tuple[Tensor, ...]) -> Iterator[Tensor]:
    return (tensor.clone() for tensor in tensors)
