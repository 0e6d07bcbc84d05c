"""The nodes of a recorded graph, and those of hand-written Functions among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backproof.function_class import class_of_node
from backproof.trial.trial import Graph


def every_node(graph: Graph) -> Iterator[Any]:
    """Every node behind the outputs, once."""
    waiting = [t.grad_fn for t in graph.tensors]
    seen: dict[int, Any] = {}  # an id is only good as long as its object lives
    while waiting:
        node = waiting.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = node
            yield node
            waiting += [parent for parent, _ in node.next_functions]


def custom_nodes(graph: Graph) -> Iterator[Any]:
    """Those of Python Functions; such a node is its own ctx."""
    return (n for n in every_node(graph) if class_of_node(n) is not None)
