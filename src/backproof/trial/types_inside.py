"""The floating types that a call makes on the way, seen below autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from backproof.trial.inside import seen_inside


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = seen_inside(self, func, args, kwargs or {})
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and (
                leaf.is_floating_point() or leaf.is_complex()
            ):
                self.seen.add(leaf.dtype)
        return result


def types_inside(call: Callable[[], object]) -> set[torch.dtype]:
    """Run `call`, and list the types of every floating tensor that it makes.

    Empty where `call` cannot be watched.
    """
    watch = _Watch()
    try:
        with watch:
            call()
    except Exception:
        return set()
    return watch.seen
