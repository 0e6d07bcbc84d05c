"""What cannot be checked, said before anything runs or as soon as it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from backproof.errors import BadInput
from backproof.inputs.raised import own_line
from backproof.probe import PRECISIONS, Domain, real_dtype
from backproof.subject import Subject
from backproof.trial.flat import Input


def refuse_unusable(
    subject: Subject, names: Sequence[str], leaves: Sequence[Any], inputs: list[Input]
) -> None:
    """Say what cannot be checked, before anything is run."""
    for name, leaf in zip(names, leaves, strict=True):
        if isinstance(leaf, Tensor):
            _refuse_kind(subject, name, leaf)
    if not inputs:
        floats = [
            n
            for n, v in zip(names, leaves, strict=True)
            if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())
        ]
        way = (
            f"call `.requires_grad_()` on {', '.join(f'`{n}`' for n in floats)}"
            if floats
            else "give at least one floating-point tensor that requires a gradient"
        )
        raise BadInput(f"{subject.name}: no input needs a gradient; {way}")
    if all(i.point.values.numel() == 0 for i in inputs):
        shapes = ", ".join(f"`{i.name}` {tuple(i.original.shape)}" for i in inputs)
        raise BadInput(
            f"{subject.name}: every input that needs a gradient is empty ({shapes}), so "
            "there is nothing to move; give at least one element"
        )


def refuse_domains(
    subject: Subject, domains: Mapping[str, Domain], names: Sequence[str]
) -> None:
    """A domain for a name that no input has would be ignored in silence."""
    for name in domains:
        if name not in names:
            raise BadInput(
                f"{subject.name}: there is a domain for `{name}`, and no such input; "
                f"the inputs are {', '.join(f'`{n}`' for n in names)}"
            )


def _refuse_kind(subject: Subject, name: str, leaf: Tensor) -> None:
    kind = None
    if leaf.is_meta:
        kind, way = "a meta tensor, which has no values", "give one with values"
    elif leaf.is_quantized:
        kind, way = "a quantised tensor", "give it dequantised: `.dequantize()`"
    elif leaf.is_nested:
        kind, way = "a nested tensor", "give its parts as a list of tensors"
    elif leaf.layout is not torch.strided and leaf.requires_grad:
        kind = f"a tensor of layout {leaf.layout}"
        way = "wrap the call so that it takes the dense tensor or the values"
    elif leaf.requires_grad and real_dtype(leaf.dtype) not in PRECISIONS:
        kind = f"a {leaf.dtype} tensor that needs a gradient"
        way = (
            "types that can be probed: float64, float32, float16, bfloat16, "
            "complex64, complex128"
        )
    if kind is not None:
        raise BadInput(f"{subject.name}: `{name}` is {kind}; {way}")


def forward_raised(subject: Subject, error: Exception) -> str:
    """The message for a forward that raises on the case's own inputs."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    line = own_line(error)
    at = f"\n  at {line}" if line else ""
    return (
        f"{subject.name}: forward raises on the given inputs: {type(error).__name__}: "
        f"{first}{at}\n  Nothing was checked; give inputs that forward accepts"
    )


def no_graph(
    subject: Subject, found: list[tuple[str, Any]], detached: list[str]
) -> str:
    """The message for outputs of which none can be differentiated."""
    if not detached:
        kinds = ", ".join(f"`{n}` {_kind(v)}" for n, v in found) or "nothing"
        return (
            f"{subject.name}: no output can be differentiated: it returned {kinds}. "
            "Return at least one floating-point or complex tensor"
        )
    names = ", ".join(f"`{n}`" for n in detached)
    return (
        f"{subject.name}: {names} has no grad_fn, so there is no backward to check. "
        "Likely reasons: `forward` was called instead of `apply`; forward runs under "
        "`torch.no_grad()` or detaches; the output was marked non-differentiable; or "
        "it was rebuilt from NumPy outside of a Function"
    )


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"({value.dtype}, {tuple(value.shape)})"
    return f"({type(value).__name__})"
