"""A function that torch cannot look into, as an operator without a derivative.

In plain eager it is just called. Everywhere else an operator stands for it, so that
tracers see one node, tensors without values take the fake rule, and vmap loops, or
broadcasts where the function takes leading dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.external.legacy import is_legacy, looped_over_legacy
from backproof.definition.operator.arguments import pack
from backproof.definition.operator.layers import (
    Entry,
    Layer,
    Path,
    mapped,
    peeled,
    wrapped,
)
from backproof.definition.operator.operator import implement_autograd, register
from backproof.definition.recording.recording import differentiable
from backproof.definition.second_order.seeing import unwatched

Function = Callable[..., Sequence[Tensor]]


class Opaque:
    """A foreign function from arguments to tensors.

    Args:
        name: of the operator.
        run: `(*arguments) -> tensors`, on tensors that have values.
        fake: the same on tensors that have none.
        broadcasts: whether `run` takes more leading dimensions, and gives them.
        like_inputs: whether its results are gradients, one for each of the last
            differentiable arguments.
        verify: `(arguments, results)`, called after each run outside of vmap.
        rule: the author's `(info, in_dims, *arguments) -> (tensors, out_dims)`.
    """

    def __init__(
        self,
        name: str,
        run: Function,
        fake: Function,
        *,
        broadcasts: bool = False,
        like_inputs: bool = False,
        verify: Callable[[Sequence[Any], Sequence[Tensor]], None] | None = None,
        rule: Callable[..., Any] | None = None,
    ) -> None:
        self._run = run
        self._fake = fake
        self._broadcasts = broadcasts
        self._like_inputs = like_inputs
        self._verify = verify
        self._rule = rule
        self._operator = register(
            name, kernel=self._kernel, fake=self._without_values, batched=self._batched
        )
        implement_autograd(self._operator, torch.library.fallthrough_kernel)

    def __call__(self, *arguments: Any) -> list[Tensor]:
        """Run it, whatever is around; the arguments are flat."""
        operator = self._operator
        if torch.compiler.is_dynamo_compiling():
            packed = pack(arguments)
            made = operator(packed.tensors, packed.ints, packed.floats, packed.form)
            return list(made)
        if _plain(arguments):
            if any(is_legacy(argument) for argument in arguments):
                with unwatched():
                    return looped_over_legacy(self._run, arguments)
            with unwatched(), torch.no_grad():
                return self._verified(arguments)
        packed = pack(arguments)
        return list(operator(packed.tensors, packed.ints, packed.floats, packed.form))

    def _verified(self, arguments: Sequence[Any]) -> list[Tensor]:
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        results = [_apart(result, tensors) for result in self._run(*arguments)]
        if self._verify is not None:
            self._verify(arguments, results)
        return results

    def _kernel(self, tensors: Any, ints: Any, floats: Any, text: str) -> list[Tensor]:
        layers, form = peeled(text)

        def entry(part: Sequence[Any], path: Path) -> list[Tensor]:
            return list(self._run(*form.arguments(part, ints, floats)))

        if not layers:
            made = self._verified(form.arguments(tensors, ints, floats))
        elif self._broadcasts:
            made = self._at_once(layers, entry, tensors)
        else:
            made = mapped(layers, entry, tensors, looped=range(len(layers)))
        return [_apart(result, tensors) for result in made]

    def _at_once(
        self, layers: Sequence[Layer], entry: Entry, tensors: Sequence[Tensor]
    ) -> list[Tensor]:
        """One run for the whole batch."""
        moved = batched(tensors, layers)
        results = entry(padded(moved, len(layers)), ())
        if not self._like_inputs:
            return results
        inputs = [tensor for tensor in moved if differentiable(tensor)]
        pairs = zip(results, inputs[-len(results) :], strict=True)
        return [result.reshape(tensor.shape) for result, tensor in pairs]

    def _without_values(
        self, tensors: Any, ints: Any, floats: Any, text: str
    ) -> list[Tensor]:
        layers, form = peeled(text)

        def entry(part: Sequence[Any], path: Path) -> list[Tensor]:
            return list(self._fake(*form.arguments(part, ints, floats)))

        return mapped(layers, entry, tensors)

    def _batched(self, info: Any, in_dims: Any, *call: Any) -> Any:
        tensors, ints, floats, text = call
        if self._rule is not None:
            _, form = peeled(text)
            arguments = form.arguments(tensors, ints, floats)
            return self._rule(info, tuple(form.spread(in_dims)), *arguments)
        text = wrapped(text, in_dims, info.randomness)
        result = self._operator(tensors, ints, floats, text)
        return result, [0] * len(result)


def batched(tensors: Sequence[Tensor], layers: Sequence[Layer]) -> list[Tensor]:
    """The tensors with every layer's dimension in front."""
    moved = list(tensors)
    for depth, layer in enumerate(layers):
        pairs = list(zip(moved, layer.in_dims, strict=True))
        size = next(t.shape[depth + d] for t, d in pairs if d is not None)
        moved = [
            t.movedim(depth + d, depth)
            if d is not None
            else t.unsqueeze(depth).expand(*t.shape[:depth], size, *t.shape[depth:])
            for t, d in pairs
        ]
    return moved


def padded(tensors: Sequence[Tensor], depth: int) -> list[Tensor]:
    """The tensors with equal rank, behind `depth` dimensions that stay in front."""
    rank = max(tensor.dim() for tensor in tensors)
    return [
        t.reshape(*t.shape[:depth], *[1] * (rank - t.dim()), *t.shape[depth:])
        for t in tensors
    ]


def _plain(arguments: Sequence[Any]) -> bool:
    """Whether the arguments have values that the function can be given at once."""
    if private.under(private.functorch_active) or private.under(private.dispatch_modes):
        return False
    if private.tracing_state is None or private.tracing_state() is not None:
        return False
    return all(
        not isinstance(a, Tensor)
        or (type(a) in (Tensor, torch.nn.Parameter) and not a.is_meta)
        for a in arguments
    )


def _apart(result: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """No operator may return what it was given."""
    shared = any(private.shares_memory(result, tensor) for tensor in tensors)
    return result.clone() if shared else result
