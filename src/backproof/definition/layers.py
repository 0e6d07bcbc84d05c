"""Batch dimensions of a call under vmap.

Each `torch.vmap` around a call adds a layer to its form, outermost first. A layered call
runs the author's methods under as many vmaps of its own; where a method cannot run under
vmap (it reads a value, it leaves torch), once for each entry of the batch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from backproof.definition.arguments import Form, form_of

Tensors = Sequence[Tensor | None]


@dataclass(frozen=True)
class Layer:
    """One batch dimension: where each input has it, None where it has none."""

    in_dims: tuple[int | None, ...]
    randomness: str

    def dimensions(self, tensors: Tensors) -> list[int | None]:
        """For the inputs as written down; 0 for the tensors after them."""
        known = [*self.in_dims, *[0] * (len(tensors) - len(self.in_dims))]
        pairs = zip(known, tensors, strict=True)
        return [None if tensor is None else dim for dim, tensor in pairs]


def wrapped(form: str, in_dims: Sequence[int | None], randomness: str) -> str:
    """The form with one more layer around it."""
    return f"('v', {tuple(in_dims)!r}, {randomness!r}, {form})"


@lru_cache(maxsize=4096)
def peeled(text: str) -> tuple[tuple[Layer, ...], Form]:
    """The layers, outermost first, and the form inside."""
    layers = []
    item = ast.literal_eval(text)
    while item and item[0] == "v":
        layers.append(Layer(item[1], item[2]))
        item = item[3]
    return tuple(layers), form_of(repr(item))


def mapped(
    layers: Sequence[Layer],
    function: Callable[[Tensors], list[Tensor]],
    tensors: Tensors,
    *,
    finish: Callable[[Layer, list[Tensor]], list[Tensor]] | None = None,
    loop: bool = False,
) -> list[Tensor]:
    """`function` under the layers; its results have their batch dimensions in front.

    Args:
        layers: outermost first; without any, `function` is just called.
        function: from tensors to tensors.
        tensors: the inputs of the call first, then others that have each layer's
            dimension in front.
        finish: applied to the results of each layer.
        loop: never try vmap.
    """
    if not layers:
        return function(tensors)
    layer, inner = layers[0], layers[1:]

    def entry(*part: Tensor | None) -> tuple[Tensor, ...]:
        return tuple(mapped(inner, function, part, finish=finish, loop=loop))

    dims = layer.dimensions(tensors)
    results = _looped(entry, tensors, dims) if loop else _mapped(entry, tensors, layer)
    return finish(layer, results) if finish is not None else results


def _mapped(
    entry: Callable[..., tuple[Tensor, ...]], tensors: Tensors, layer: Layer
) -> list[Tensor]:
    dims = layer.dimensions(tensors)
    over = torch.vmap(entry, in_dims=tuple(dims), randomness=layer.randomness)
    try:
        return list(over(*tensors))
    except Exception as error:
        if layer.randomness == "same" or "randomness" in str(error):
            raise  # a loop would draw other numbers than vmap promised
        return _looped(entry, tensors, dims)


def _looped(
    entry: Callable[..., tuple[Tensor, ...]],
    tensors: Tensors,
    dims: Sequence[int | None],
) -> list[Tensor]:
    pairs = list(zip(tensors, dims, strict=True))
    size = next(t.shape[d] for t, d in pairs if t is not None and d is not None)
    if size == 0:  # one entry of zeros, for the shapes
        zeros = [t if d is None else _blank(t, d) for t, d in pairs]
        return [made.new_empty((0, *made.shape)) for made in entry(*zeros)]
    rows = [
        entry(*[t if t is None or d is None else t.select(d, k) for t, d in pairs])
        for k in range(size)
    ]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def _blank(tensor: Any, dim: int) -> Tensor:
    shape = [n for k, n in enumerate(tensor.shape) if k != dim]
    blank: Tensor = tensor.new_zeros(shape)
    return blank
