"""Tensors without values: fake ones, and those of the meta device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.style import style_of

Form = tuple[object, ...]


@context("export", code="BP407")
def fake_tensor_mode(scene: Scene) -> Iterator[Compared]:
    """Fake outputs and gradients have the real shape, dtype and strides."""
    from torch._subclasses import FakeTensorMode

    mode = FakeTensorMode()
    try:
        yield from list(_forms_agree(scene, mode.from_tensor, mode))
    except (RuntimeError, NotImplementedError) as error:
        if not _lacks_fake_rule(error) or style_of(scene).kind != "operator":
            raise
        yield Compared("rule", "the fake rule of the operator", None, "registered")


@context("export", code="BP407")
def meta_device(scene: Scene) -> Iterator[Compared]:
    """Outputs and gradients on the meta device have the real shape, dtype and strides."""

    def meta(tensor: Tensor) -> Tensor:
        return tensor.detach().to("meta").requires_grad_(tensor.requires_grad)

    yield from _forms_agree(scene, meta, contextlib.nullcontext())


def _lacks_fake_rule(error: Exception) -> bool:
    """Whether an operator cannot be traced because nobody said what it returns."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    unsupported = isinstance(error, UnsupportedOperatorException)
    return unsupported or "no fake impl registered" in str(error)


def _forms_agree(
    scene: Scene,
    convert: Callable[[Tensor], Tensor],
    surroundings: contextlib.AbstractContextManager[object],
) -> Iterator[Compared]:
    function = scene.whole
    known = _run(scene, function, scene.leaves(), scene.kept, scene.loss.weights)
    leaves = [convert(t) for t in scene.leaves()]
    kept = [convert(t) for t in scene.kept]
    cotangents = [convert(u) for u in scene.loss.weights]
    with surroundings:
        found = _run(scene, function, leaves, kept, cotangents)
    for (what, mine), (_, right) in zip(found, known, strict=False):
        yield Compared("form", f"the form of {what}", mine, right)


def _run(
    scene: Scene,
    function: Callable[..., Sequence[Tensor]],
    leaves: list[Tensor],
    kept: list[Tensor],
    cotangents: Sequence[Tensor],
) -> list[tuple[str, Form | None]]:
    """Forms of the outputs, and of the gradients where the cotangents fit."""
    outputs = function(*leaves, *kept)
    forms = [
        (name, _form(y)) for name, y in zip(scene.output_names, outputs, strict=True)
    ]
    fits = [(y.shape, y.dtype) for y in outputs]
    if fits != [(u.shape, u.dtype) for u in cotangents]:
        return forms
    gradients = torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
    return forms + [
        (f"the gradient of {name}", _form(g))
        for name, g in zip(scene.names, gradients, strict=True)
    ]


def _form(tensor: Tensor | None) -> Form | None:
    """Shape, dtype and the strides that matter; strides of dimensions of one do not."""
    if tensor is None:
        return None
    strides = tuple(
        s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1
    )
    return tuple(tensor.shape), str(tensor.dtype), strides if tensor.numel() else ()
