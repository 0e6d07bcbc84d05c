"""The route of a call that dynamo traces.

Dynamo inlines a `torch.autograd.Function`, so that Inductor fuses it with its
neighbours, and is right as long as no transform, no export and no repeated tensor is
involved. Those calls go through the operator, which stays whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.operator.arguments import holds_object, not_written_down, pack
from backproof.definition.operator.operator import DIRTY, NONE, OBJECT, TENSOR
from backproof.definition.written import Method, Written
from backproof.errors import Undeclared

_MORE_THAN_ANY = 256  # arguments of a call


def traced_apply(
    written: Written, operator: torch._ops.OpOverload
) -> Callable[..., Any]:
    """`apply` as dynamo sees it."""
    inline: Any = type(
        f"{written.name}Inline",
        (torch.autograd.Function,),
        {
            "forward": staticmethod(_always_with_ctx(_tensors_first(written))),
            "backward": staticmethod(_in_their_order(written)),
        },
    )
    name, reorders = written.name, written.marks
    mutates = written.mutates

    def traced(*arguments: Any) -> Any:
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        twice = any(a is b for k, a in enumerate(tensors) for b in tensors[k + 1 :])
        nested = any(isinstance(a, (list, tuple, dict)) for a in arguments)
        if not (
            mutates
            or twice
            or nested
            or torch.compiler.is_exporting()
            or private.functorch_active()
            or private.forward_level() >= 0
        ):
            result = inline.apply(*arguments)
            return _ordered(result) if reorders else result
        packed = pack(arguments)
        if torch.compiler.is_exporting() and holds_object(packed.form):
            raise not_written_down(name)
        originals = packed.tensors
        given = [tensor.clone() for tensor in originals] if mutates else originals
        result = operator(given, packed.ints, packed.floats, packed.form)
        return unpacked(result, originals, name)

    return traced


def _tensors_first(written: Written) -> Method:
    """Forward, which gives its tensors, then its other outputs, then which is which.

    Dynamo counts marked outputs without those that are no tensors, so that behind a None
    it marks another one.
    """
    if not written.marks:
        return written.forward

    def forward(ctx: Any, *arguments: Any) -> Any:
        result = written.forward(ctx, *arguments)
        if isinstance(result, Tensor):
            ctx._backproof_kinds = "s"
            return result, "s"
        kinds = "".join(["T" if isinstance(o, Tensor) else "o" for o in result])
        ctx._backproof_kinds = kinds
        tensors = [o for o in result if isinstance(o, Tensor)]
        others = [o for o in result if not isinstance(o, Tensor)]
        return (*tensors, *others, kinds)

    return forward


def _in_their_order(written: Written) -> Method:
    """Backward for such a forward."""
    if not written.marks:
        return written.decorated_backward

    def backward(ctx: Any, *cotangents: Any) -> Any:
        return written.decorated_backward(
            ctx, *_placed(cotangents, ctx._backproof_kinds)
        )

    return backward


def _ordered(result: Any) -> Any:
    """The outputs as the author returned them."""
    kinds = result[-1]
    placed = _placed(result, kinds)
    return placed[0] if kinds == "s" else tuple(placed)


def _placed(values: Any, kinds: str) -> list[Any]:
    if kinds == "s":
        return [values[0]]
    count = len([kind for kind in kinds if kind == "T"])
    tensors, others, placed = 0, count, []
    for kind in kinds:
        if kind == "T":
            placed.append(values[tensors])
            tensors += 1
        else:
            placed.append(values[others])
            others += 1
    return placed


def _always_with_ctx(forward: Method) -> Method:
    """Forward with a signature of its own.

    Where no gradient is needed dynamo leaves ctx out if the call has as many arguments
    as the signature has parameters, and `*arguments` counts for one.
    """
    code = getattr(forward, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_VARARGS:
        return forward

    def called(ctx: Any, *arguments: Any) -> Any:
        return forward(ctx, *arguments)

    kind = inspect.Parameter.POSITIONAL_ONLY
    many = [inspect.Parameter(f"argument{k}", kind) for k in range(_MORE_THAN_ANY)]
    called.__signature__ = inspect.Signature(many)  # type: ignore[attr-defined]
    return called


def unpacked(result: list[Tensor], tensors: list[Tensor], name: str) -> Any:
    """What `apply` returns, from the marker alone; dynamo traces it."""
    _, single, *codes = result[-1].shape
    outputs: list[Any] = []
    k = 0
    for code in codes:
        if code == NONE:
            outputs.append(None)
            continue
        if code == OBJECT:
            raise Undeclared(
                f"{name}: an output that is no tensor cannot leave torch.compile here; "
                "return tensors, or None"
            )
        made = result[k]
        k += 1
        if code != TENSOR:
            made = tensors[code - DIRTY].copy_(made)
        outputs.append(made)
    return outputs[0] if single else tuple(outputs)
