"""Which tensors a call writes to behind autograd's back.

Seen below autograd, where every operation of torch passes: an operation that writes to
a tensor with a graph while recording is off, as it is inside of a Function's forward.
`mark_dirty` gives such a tensor another node when forward returns; who has kept the old
one was not marked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from backproof.trial.inside import seen_inside


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.written: list[tuple[str, Tensor, Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not torch.is_grad_enabled():
            schema = func._schema.arguments
            for k, argument in enumerate(schema):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                value = args[k] if k < len(args) else kwargs.get(argument.name)
                if isinstance(value, Tensor) and value.requires_grad:
                    self.written.append((str(func), value, value.grad_fn))
        return seen_inside(self, func, args, kwargs)


def written_without_graph(call: Callable[[], object]) -> list[tuple[str, Tensor]]:
    """Run `call`, and list (operation, tensor) for what was written in secret.

    Raises what `call` raises.
    """
    watch = _Watch()
    with watch:
        call()
    return [
        (name.removesuffix(".default"), tensor)
        for name, tensor, node in watch.written
        if tensor.grad_fn is node
    ]
