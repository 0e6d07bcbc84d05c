"""Batch dimensions of a call under vmap.

Each `torch.vmap` around a call adds a layer to its form, outermost first. A layered call
runs the author's methods under as many vmaps of its own; where a method cannot run under
vmap (it reads a value, it leaves torch), once for each entry of the batch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import torch
from torch import Tensor

from backproof.definition.operator.arguments import Form, form_of
from backproof.definition.operator.batching import can_vmap, vmapped
from backproof.errors import NoDerivative

Tensors = Sequence[Tensor | None]
T = TypeVar("T")


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


Path = tuple[tuple[int, int], ...]  # depth and entry of each layer that looped
Entry = Callable[[Tensors, Path], list[Tensor]]


def mapped(
    layers: Sequence[Layer],
    function: Entry,
    tensors: Tensors,
    *,
    finish: Callable[[Layer, list[Tensor]], list[Tensor]] | None = None,
    looped: Collection[int] = (),
) -> list[Tensor]:
    """`function` under the layers; its results have their batch dimensions in front.

    Args:
        layers: outermost first; without any, `function` is just called.
        function: from tensors, and the path of the entry, to tensors.
        tensors: the inputs of the call first, then others that have each layer's
            dimension in front.
        finish: applied to the results of each layer.
        looped: depths of the layers for which vmap is not to be tried.
    """

    def at(depth: int, part: Tensors, path: Path) -> list[Tensor]:
        if depth == len(layers):
            return function(part, path)
        layer = layers[depth]
        if depth in looped:
            results = _looped(at, depth, layer, part, path)
        else:
            results = _mapped(at, depth, layer, part, path)
        return finish(layer, results) if finish is not None else results

    return at(0, tensors, ())


_At = Callable[[int, Tensors, Path], list[Tensor]]


def _mapped(
    at: _At, depth: int, layer: Layer, tensors: Tensors, path: Path
) -> list[Tensor]:
    if not can_vmap():
        return _looped(at, depth, layer, tensors, path)
    try:
        return vmapped(
            lambda part: at(depth + 1, part, path),
            tensors,
            layer.dimensions(tensors),
            layer.randomness,
        )
    except Exception as error:
        if layer.randomness == "error" and "randomness" in str(error):
            raise  # a loop would not notice
        return _looped(at, depth, layer, tensors, path)


def _looped(
    at: _At, depth: int, layer: Layer, tensors: Tensors, path: Path
) -> list[Tensor]:
    pairs = list(zip(tensors, layer.dimensions(tensors), strict=True))
    size = next(t.shape[d] for t, d in pairs if t is not None and d is not None)
    if size == 0:  # one entry of zeros, for the shapes
        zeros = [t if t is None or d is None else _blank(t, d) for t, d in pairs]
        made = at(depth + 1, zeros, (*path, (depth, 0)))
        return [tensor.new_empty((0, *tensor.shape)) for tensor in made]
    rows = []
    for k in range(size):
        entry = [t if t is None or d is None else t.select(d, k) for t, d in pairs]
        again = layer.randomness == "same" and k < size - 1
        with torch.random.fork_rng() if again else nullcontext():
            rows.append(at(depth + 1, entry, (*path, (depth, k))))
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def _blank(tensor: Tensor, dim: int) -> Tensor:
    return tensor.new_zeros([n for k, n in enumerate(tensor.shape) if k != dim])


class ByEntry(Generic[T]):
    """What one run under layers left: one value, or one for each entry of a loop."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._values: dict[Path, T] = {}
        self.any: T

    def put(self, path: Path, value: T) -> None:
        """The value of an entry; runs that vmap gave up are forgotten."""
        if self._values and _depths(path) != self.looped:
            self._values.clear()
        self._values[path] = value
        self.any = value

    @property
    def looped(self) -> list[int]:
        """Depths of the layers that looped."""
        return _depths(next(iter(self._values)))

    def at(self, path: Path) -> T:
        """The value for an entry of a run that may have looped more often."""
        looped = self.looped
        known = tuple(step for step in path if step[0] in looped)
        return self._values[known] if known in self._values else self.agreed()

    def agreed(self, part: Callable[[T], object] = lambda value: value) -> T:
        """The value, where somebody asks who does not see the entries.

        Args:
            part: what of it is asked for.

        Raises:
            NoDerivative: the entries differ.
        """
        if len(self._values) > 1 and not all(
            _same(part(value), part(self.any)) for value in self._values.values()
        ):
            raise NoDerivative(
                f"{self._owner}: under vmap, forward leaves a value that differs from "
                "entry to entry, on ctx or among its outputs, and a transform inside "
                "the vmap sees only one of them; make it a tensor"
            )
        return self.any


def _same(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):  # arrays and tensors do not compare to a bool
        return False


def _depths(path: Path) -> list[int]:
    return [depth for depth, _ in path]
