"""What autograd recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor


def nodes_behind(tensors: Sequence[Tensor]) -> Iterator[Any]:
    """Every node of the graph behind them, once."""
    waiting: list[Any] = [t.grad_fn for t in tensors]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [parent for parent, _ in node.next_functions]
