"""In which of torch's own mechanisms a subject is written, and what it declares.

Two subjects of one style meet the same code of torch, so a known-right Function of that
style tells whether a wrong number is torch's fault.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from backproof.battery.survey.graph import nodes_behind
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.watching import Draws, Watching
from backproof.function_class import (
    class_of_node,
    is_torchs,
    own_backward,
    own_method,
    takes_ctx,
)

Kind = Literal["composed", "ctx", "setup", "operator"]

_OPERATOR_PREFIX = "GeneratedBackwardFor_"  # of the Functions that torch.library makes
_HOOKS = torch.nn.modules._functions.BackwardHookFunction  # runs a module's hooks


@dataclass(frozen=True)
class Style:
    """How a subject is written.

    Attributes:
        kind: plain torch, a Function with ctx in forward, one with `setup_context`, or
            an operator of `torch.library`.
        opaque: whether it computes outside of torch.
        vmap: `generated`, `written`, or empty.
        jvp: whether it has a forward-mode rule.
        once: whether backward is marked once differentiable.
        dirty: whether forward works in place, and says so.
        draws: `generator` where it draws from a generator of its own, `state` where it
            sets the state of the global one, as a recomputation does; or empty.
        uninlined: whether `torch.compiler.allow_in_graph` keeps dynamo out of it.
        inside: whether it stands among torch operations of the subject's.
        ours: whether it derives from `backproof.Function`, which takes other ways.
    """

    kind: Kind
    opaque: bool = False
    vmap: Literal["", "generated", "written"] = ""
    jvp: bool = False
    once: bool = False
    dirty: bool = False
    draws: Draws = ""
    uninlined: bool = False
    inside: bool = False
    ours: bool = False

    def __str__(self) -> str:
        words = {
            "composed": "plain torch",
            "ctx": "a Function with ctx in forward",
            "setup": "a Function with setup_context",
            "operator": "a custom operator",
        }[self.kind]
        extras = [
            *(["NumPy"] if self.opaque else []),
            *([f"{self.vmap} vmap rule"] if self.vmap else []),
            *(["a jvp"] if self.jvp else []),
            *(["once_differentiable"] if self.once else []),
            *(["in place"] if self.dirty else []),
            *(["a generator of its own"] if self.draws == "generator" else []),
            *(["random numbers drawn again"] if self.draws == "state" else []),
            *(["allowed in graphs"] if self.uninlined else []),
            *(["inside of torch operations"] if self.inside else []),
            *(["of backproof"] if self.ours else []),
        ]
        return f"{words} ({', '.join(extras)})" if extras else words


def style_of(scene: Scene) -> Style:
    """The style of a subject, from its definition and from one run of it."""
    watch, leaves = Watching(), scene.leaves()
    with torch.enable_grad(), watch:
        outputs = scene.function(*leaves)
        nodes = list(nodes_behind(outputs))
        _run_backward(scene.loss(outputs), leaves)
    function, definition = scene.trial.subject.function, scene.trial.subject.definition
    functions = list(dict.fromkeys(f for f in map(_function_of, nodes) if f))
    if definition is not None and definition not in functions:
        functions.append(definition)
    own = [f for f in functions if not f.__name__.startswith(_OPERATOR_PREFIX)]
    inside = bool(functions) and any(map(_is_torchs, nodes))
    if not own:
        # Kernels are opaque to everybody, whatever they are made of.
        if functions or _is_operator(function):
            return Style("operator", draws=watch.draws, inside=inside)
        return Style(
            "composed",
            opaque=watch.left,
            draws=watch.draws,
            uninlined=_is_uninlined(function),
        )
    dirty = any(_marks_dirty(f) for f in own)
    return Style(
        kind="ctx" if any(takes_ctx(f) for f in own) else "setup",
        opaque=watch.left,
        vmap=_vmap_of(own),
        jvp=any(own_method(f, "jvp") for f in own),
        once=any(_is_once(f) for f in own),
        dirty=dirty,
        draws=watch.draws,
        uninlined=any(_is_uninlined(f) for f in (function, *own)),
        inside=inside and not dirty,  # which is never handed a leaf
        ours=not any(is_torchs(f) for f in own),
    )


def _run_backward(loss: Tensor, leaves: list[Tensor]) -> None:
    """Backward with the mode still on.

    `torch.autograd.grad` may be replaced by a mode, and so runs without it. The engine
    under it is private: where it has moved, what backward does outside of torch stays
    unseen.
    """
    engine: Any = getattr(torch.autograd.graph, "_engine_run_backward", None)
    if engine is None:
        torch.autograd.grad(loss, leaves, allow_unused=True)
        return
    one = torch.ones_like(loss)
    flags = {"allow_unreachable": True, "accumulate_grad": False}
    engine((loss,), (one,), False, False, tuple(leaves), **flags)  # noqa: FBT003


def _function_of(node: Any) -> Any:
    """The Function or operator of the user's that a node belongs to, or None."""
    function = class_of_node(node)
    if function is None and type(node).__name__.startswith(_OPERATOR_PREFIX):
        return type(node)
    return None if function is _HOOKS else function


def _is_torchs(node: Any) -> bool:
    """Whether it computes something and is not the user's."""
    if type(node).__name__ == "AccumulateGrad":
        return False
    return _function_of(node) is None and class_of_node(node) is None


def _is_operator(function: Any) -> bool:
    library: Any = torch.library
    kinds = (torch._ops.OpOverload, torch._ops.OpOverloadPacket, library.CustomOpDef)
    return isinstance(function, kinds)


def _is_uninlined(function: Any) -> bool:
    """Whether dynamo was told not to look inside; it keeps the list privately."""
    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    return rules is not None and bool(rules.is_callable_allowed(function))


def _vmap_of(functions: list[Any]) -> Literal["", "generated", "written"]:
    if any(own_method(f, "vmap") for f in functions):
        return "written"
    return "generated" if all(f.generate_vmap_rule for f in functions) else ""


def _marks_dirty(function: Any) -> bool:
    methods = [own_method(function, name) for name in ("forward", "setup_context")]
    codes = [inspect.unwrap(method).__code__ for method in methods if method]
    return any("mark_dirty" in code.co_names for code in codes)


def _is_once(function: Any) -> bool:
    """Whether backward went through `once_differentiable`, under other wrappers too."""
    backward = own_backward(function)
    while backward is not None:
        code = getattr(backward, "__code__", None)
        if code is not None and code.co_qualname.startswith("once_differentiable."):
            return True
        backward = getattr(backward, "__wrapped__", None)
    return False
