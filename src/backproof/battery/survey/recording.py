"""The torch operations that a composed subject runs, without the Python around them.

A subject in plain torch has no rule of its own that could be wrong. Where its recorded
operations alone come out wrong in a context, its Python is not at fault either, and torch
is. Operators that the user registered are not torch's: those that see nothing of the
inputs are replaced by what they returned, and with any other there is no recording.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from backproof.battery.survey.known import difference
from backproof.battery.survey.scene import Scene
from backproof.subject import Case, Subject
from backproof.trial import Trial

_NATIVE = ("aten", "prims", "prim")


def recording_of(scene: Scene) -> Scene | None:
    """The scene of the recorded operations.

    None where they cannot be had, or do not compute what the subject computes.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    try:
        graph = make_fx(scene.function)(*scene.plain())
        if not _without_operators(graph, scene.plain()):
            return None
        subject = Subject(graph, f"recording of {scene.trial.subject.name}")
        recorded = Scene(Trial(subject, Case(tuple(scene.leaves()))))
        same = zip(recorded.gradients(1), scene.gradients(1), strict=True)
        if any(difference(a.value, b).words for a, b in same):
            return None
    except Exception:  # it cannot be recorded
        return None
    return recorded


class _Watching(Interpreter):
    """Runs a graph and keeps what some of its nodes return, before anybody writes to it."""

    def __init__(self, graph: GraphModule, wanted: set[Node]) -> None:
        super().__init__(graph)
        self.wanted, self.seen = wanted, dict[Node, Any]()

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.wanted:
            self.seen[n] = value.clone() if isinstance(value, Tensor) else None
        return value


def _without_operators(graph: GraphModule, inputs: list[Tensor]) -> bool:
    """Replace what constant operators of the user's return; False where one remains."""
    depends: set[Node] = set()
    foreign: set[Node] = set()
    for node in graph.graph.nodes:
        if node.op == "placeholder" or depends.intersection(node.all_input_nodes):
            depends.add(node)
        if node.op == "call_function" and _is_foreign(node.target):
            foreign.add(node)
    if foreign & depends:
        return False
    watching = _Watching(graph, foreign)
    watching.run(*inputs)
    for k, (node, value) in enumerate(watching.seen.items()):
        if value is None and node.users:
            return False
        if value is not None:
            graph.register_buffer(f"_returned{k}", value)
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(graph.graph.get_attr(f"_returned{k}"))
        graph.graph.erase_node(node)
    graph.recompile()
    return True


def _is_foreign(target: Any) -> bool:
    return getattr(target, "namespace", "aten") not in _NATIVE
