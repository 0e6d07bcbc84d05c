"""BP502: a gradient looks like its input."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof import tree
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.records import Evidence, broken, held

REFUSED_FORM = (
    "returned an invalid gradient",
    "expected shape compatible",
    "expected device",
)


@law("BP502")
def gradient_form(examination: Examination) -> Iterator[Evidence]:
    """Gradients have their input's shape (or broadcast to it), dtype and device.

    Cost: 1 backward where the subject is a Function's own apply, else none.
    Blind to: the dtype of gradients that other operations hand on, which the engine casts.
    """
    error = examination.backward_raised()
    if error is not None:
        if any(text in str(error) for text in REFUSED_FORM):
            yield broken(f"the engine refuses what backward returns\n{error}")
            return
        raise NotApplicable("backward raised")
    raw = examination.raw
    if raw is None:
        raise NotApplicable("only what the engine has already adapted can be seen")
    given = examination.trial.named_arguments
    for (name, argument), value in zip(given, raw.values, strict=False):
        pairs = zip(tree.leaves(argument, name), tree.leaves(value, name), strict=False)
        for (label, leaf), (_, gradient) in pairs:
            if isinstance(leaf, Tensor) and isinstance(gradient, Tensor):
                yield _form(label, leaf, gradient)


def _form(name: str, x: Tensor, gradient: Tensor) -> Evidence:
    if x.device != gradient.device:
        return broken(
            f"the gradient of `{name}` is on {gradient.device}, `{name}` on {x.device}",
        )
    if x.is_floating_point() and gradient.is_floating_point():
        fine, got = torch.finfo(x.dtype).eps, torch.finfo(gradient.dtype).eps
        if got > fine:
            return broken(
                f"the gradient of `{name}` is {_name(gradient)}, `{name}` is {_name(x)}\n"
                "the engine casts it silently; the digits are gone by then",
                {"input": name},
            )
    shapes = f"{tuple(gradient.shape)} for {tuple(x.shape)}"
    if gradient.shape != x.shape and not _sums_to(gradient.shape, x.shape):
        return broken(f"the gradient of `{name}` has shape {shapes}")
    return held(f"the gradient of `{name}` is {_name(gradient)} {shapes}")


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _sums_to(shape: torch.Size, target: torch.Size) -> bool:
    """Whether the engine would sum `shape` over broadcast dimensions to `target`."""
    try:
        whole = torch.broadcast_shapes(shape, target)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return bool(whole == shape)
