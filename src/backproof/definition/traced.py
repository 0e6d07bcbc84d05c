"""The route of a call that dynamo traces.

Dynamo inlines a `torch.autograd.Function`, so that Inductor fuses it with its
neighbours, and is right as long as no transform, no export and no repeated tensor is
involved. Those calls go through the operator, which stays whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.arguments import holds_object, not_written_down, pack
from backproof.definition.operator import DIRTY, NONE, OBJECT, TENSOR
from backproof.definition.written import Written
from backproof.errors import Undeclared


def traced_apply(
    written: Written, operator: torch._ops.OpOverload
) -> Callable[..., Any]:
    """`apply` as dynamo sees it."""
    inline: Any = type(
        f"{written.name}Inline",
        (torch.autograd.Function,),
        {
            "forward": staticmethod(written.forward),
            "backward": staticmethod(written.decorated_backward),
        },
    )
    name, mutates = written.name, written.mutates

    def traced(*arguments: Any) -> Any:
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        twice = any(a is b for k, a in enumerate(tensors) for b in tensors[k + 1 :])
        nested = any(isinstance(a, (list, tuple, dict)) for a in arguments)
        if not (
            twice
            or nested
            or mutates
            or torch.compiler.is_exporting()
            or private.functorch_active()
            or private.forward_mode._current_level >= 0
        ):
            return inline.apply(*arguments)
        packed = pack(arguments)
        if torch.compiler.is_exporting() and holds_object(packed.form):
            raise not_written_down(name)
        result = operator(packed.tensors, packed.ints, packed.floats, packed.form)
        return unpacked(result, packed.tensors, name)

    return traced


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
