"""The Function behind an external kernel.

Forward, backward and jvp each become an opaque operator, so that the methods of the
class are made of operations that every route knows, and only the operators cannot be
differentiated. What differentiates them is declared, or refused by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private
from backproof.definition.external.boundary import Boundary, promised
from backproof.definition.external.opaque import Opaque
from backproof.definition.function import derived_class
from backproof.definition.nodes import Attach
from backproof.definition.recording.recording import differentiable, returned
from backproof.errors import BadInput, NoDerivative, Undeclared

Method = Callable[..., Any]


@dataclass(frozen=True)
class Declaration:
    """What the author said; `external` describes each."""

    forward: Method
    backward: Method
    jvp: Method | None
    fake: Method | None
    vmap: str | Method
    second_order: Method | None
    elementwise: bool
    outputs: int
    with_outputs: bool
    boundary: Boundary
    module: str

    @property
    def leading(self) -> int:
        """How many arguments of backward come before the inputs."""
        return self.outputs * (1 + self.with_outputs)

    @property
    def name(self) -> str:
        """What errors and graphs call it."""
        return self.boundary.owner


def function_of(declared: Declaration, policies: dict[str, Any]) -> Any:
    """A class whose `apply` runs the kernel."""
    kernels = _Kernels(declared)
    count = declared.outputs

    def forward(ctx: Any, *arguments: Any) -> Any:
        outputs = kernels.forward(*arguments)
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        kept = outputs if declared.with_outputs else ()
        ctx.save_for_backward(*tensors, *kept)
        ctx.save_for_forward(*tensors)
        ctx.arguments = tuple(None if isinstance(a, Tensor) else a for a in arguments)
        ctx.places = tuple(k for k, a in enumerate(arguments) if isinstance(a, Tensor))
        return outputs[0] if count == 1 else tuple(outputs)

    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        arguments, outputs = _saved(ctx)
        given = (*cotangents, *outputs, *arguments)
        gradients = kernels.pull_back(*given)
        source = iter(gradients)
        return tuple(next(source) if _counts(a) else None for a in arguments)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        arguments, _ = _saved(ctx)
        filled = [
            torch.zeros_like(a) if t is None else t
            for t, a in zip(tangents, arguments, strict=True)
            if _counts(a)
        ]
        made = kernels.push_forward(filled, arguments)
        return made[0] if count == 1 else tuple(made)

    methods: dict[str, Any] = {"forward": forward, "backward": backward}
    if declared.second_order is None:  # else backward, transposed, is differentiable
        methods["jvp"] = jvp
    _sign(forward, declared)
    forward.stands_for = declared.forward  # type: ignore[attr-defined]
    backward.stands_for = declared.backward  # type: ignore[attr-defined]
    jvp.stands_for = declared.jvp  # type: ignore[attr-defined]
    return derived_class(
        declared.name,
        {
            "__module__": declared.module,
            "__qualname__": getattr(declared.forward, "__qualname__", declared.name),
            "__doc__": declared.forward.__doc__,
            **{name: staticmethod(method) for name, method in methods.items()},
            **policies,
        },
    )


def elementwise_fake(*arguments: Any) -> Tensor:
    """An empty output for an elementwise kernel."""
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    shape = torch.broadcast_shapes(*[tensor.shape for tensor in tensors])  # type: ignore[no-untyped-call]
    like = promised(tensors)
    return tensors[0].new_empty(shape, dtype=like.dtype)


class _Kernels:
    """The three opaque operators of a declaration."""

    def __init__(self, declared: Declaration) -> None:
        self._declared = declared
        self._boundary = declared.boundary
        self._held: set[tuple[Any, ...]] = set()
        broadcasts = declared.vmap == "broadcast"
        rule = self._rule if callable(declared.vmap) else None
        base = f"{declared.module}.{declared.name}"
        self.forward = Opaque(
            f"{base}_forward",
            self._forward,
            self._fake,
            broadcasts=broadcasts,
            verify=self._hold_against_fake if declared.fake is not None else None,
            rule=rule,
        )
        self._pull = Opaque(
            f"{base}_backward",
            self._backward,
            _like_inputs(declared),
            broadcasts=broadcasts,
            like_inputs=True,
        )
        self._push = Opaque(
            f"{base}_jvp", self._jvp, self._fake_jvp, broadcasts=broadcasts
        )
        self._pull_node = _undifferentiable(self._pull, declared, "backward")
        self._push_node = _undifferentiable(self._push, declared, "jvp")

    def pull_back(self, *given: Any) -> Sequence[Tensor]:
        """Gradients of the differentiable inputs, and what differentiates them."""
        if not _may_differentiate():
            return self._pull(*given)
        if self._declared.second_order is None:
            return returned(self._pull_node.apply(*given))
        return _twinned(self._declared, self._pull(*given), given)

    def push_forward(
        self, tangents: Sequence[Tensor], arguments: Sequence[Any]
    ) -> Sequence[Tensor]:
        """Output tangents."""
        if self._declared.jvp is not None:
            return returned(self._push_node.apply(*tangents, *arguments))
        if not self._declared.elementwise:
            raise NoDerivative(
                f"{self._declared.name}: forward mode needs a `jvp`, or a "
                "`second_order` from which it follows; declare "
                "`external(..., jvp=...)` as `(*tangents, *inputs) -> tangents`"
            )
        return [self._diagonal(tangents, arguments)]

    def _diagonal(self, tangents: Sequence[Tensor], arguments: Sequence[Any]) -> Tensor:
        """The Jacobian of an elementwise kernel is its own transpose."""
        inputs = [a for a in arguments if isinstance(a, Tensor)]
        if any(tensor.is_complex() for tensor in inputs):
            raise NoDerivative(
                f"{self._declared.name}: forward mode of complex inputs needs a `jvp`"
            )
        shape = torch.broadcast_shapes(*[tensor.shape for tensor in inputs])  # type: ignore[no-untyped-call]
        wide = [a.expand(shape) if isinstance(a, Tensor) else a for a in arguments]
        parts = []
        for k, tangent in enumerate(tangents):
            gradients = self.pull_back(tangent.expand(shape), *wide)
            parts.append(gradients[k])
        return sum(parts[1:], parts[0])

    def _forward(self, *arguments: Any) -> list[Tensor]:
        like = promised([a for a in arguments if isinstance(a, Tensor)])
        made = self._outputs(self._declared.forward(*self._out(arguments)), "output")
        return [
            self._boundary.inward(value, self._numbered("output", k), like)
            for k, value in enumerate(made)
        ]

    def _backward(self, *given: Any) -> list[Tensor]:
        declared = self._declared
        leading = declared.leading
        arguments = given[leading:]
        foreign = [
            self._boundary.outward(value, self._numbered("cotangent", k))
            for k, value in enumerate(given[:leading])
        ]
        result = returned(declared.backward(*foreign, *self._out(arguments)))
        wanted = [k for k, a in enumerate(arguments) if _counts(a)]
        gradients = self._matched(result, arguments, wanted)
        return [
            self._boundary.gradient(
                gradient, f"the gradient of {self._boundary.name_of(k)}", arguments[k]
            )
            for k, gradient in zip(wanted, gradients, strict=True)
        ]

    def _jvp(self, *given: Any) -> list[Tensor]:
        declared = self._declared
        assert declared.jvp is not None
        count = _leading_tangents(given)
        arguments = given[count:]
        like = promised([a for a in arguments if isinstance(a, Tensor)])
        foreign = [
            self._boundary.outward(value, self._numbered("tangent", k))
            for k, value in enumerate(given[:count])
        ]
        result = declared.jvp(*foreign, *self._out(arguments))
        return [
            self._boundary.inward(value, self._numbered("output tangent", k), like)
            for k, value in enumerate(self._outputs(result, "output tangent"))
        ]

    def _fake(self, *arguments: Any) -> list[Tensor]:
        if self._declared.fake is None:
            raise Undeclared(
                f"{self._declared.name}: tensors without values, as under torch.compile "
                "and export, need to know the shape of the output; declare "
                "`external(..., fake=lambda x: torch.empty_like(x))`, or "
                "`elementwise=True` where that is so"
            )
        return self._outputs(self._declared.fake(*arguments), "fake output")

    def _hold_against_fake(
        self, arguments: Sequence[Any], results: Sequence[Tensor]
    ) -> None:
        """Compare once for each kind of call what came back and what `fake` promises."""
        kinds = tuple((a.dtype, a.dim()) for a in arguments if isinstance(a, Tensor))
        if kinds in self._held:
            return
        promises = self._fake(*arguments)
        for k, (result, promise) in enumerate(zip(results, promises, strict=True)):
            if (result.shape, result.dtype) != (promise.shape, promise.dtype):
                raise BadInput(
                    f"{self._declared.name}: {self._numbered('output', k)} is "
                    f"{result.dtype} of shape {tuple(result.shape)}, and `fake` "
                    f"promises {promise.dtype} of shape {tuple(promise.shape)}; compiled "
                    "programs rely on it"
                )
        self._held.add(kinds)

    def _fake_jvp(self, *given: Any) -> list[Tensor]:
        return self._fake(*given[_leading_tangents(given) :])

    def _rule(self, info: Any, in_dims: Any, *arguments: Any) -> Any:
        assert callable(self._declared.vmap)
        like = promised([a for a in arguments if isinstance(a, Tensor)])
        output, dims = self._declared.vmap(info, in_dims, *self._out(arguments))
        made = self._outputs(output, "output")
        tensors = [self._boundary.inward(value, "output", like) for value in made]
        return tensors, list(returned(dims))

    def _out(self, arguments: Sequence[Any]) -> list[Any]:
        name = self._boundary.name_of
        return [self._boundary.outward(a, name(k)) for k, a in enumerate(arguments)]

    def _outputs(self, result: Any, what: str) -> list[Any]:
        made = list(returned(result))
        if len(made) != self._declared.outputs:
            raise BadInput(
                f"{self._declared.name}: {len(made)} {what}s came back and "
                f"{self._declared.outputs} was declared; write `outputs={len(made)}`"
            )
        return made

    def _matched(
        self, result: Sequence[Any], arguments: Sequence[Any], wanted: Sequence[int]
    ) -> list[Any]:
        """Gradients of the differentiable inputs, from what backward returned."""
        if len(result) == len(arguments):
            return [result[k] for k in wanted]
        if len(result) == len(wanted):
            return list(result)
        raise BadInput(
            f"{self._declared.name}: backward returned {len(result)} gradients for "
            f"{len(arguments)} inputs, of which {len(wanted)} can have one"
        )

    def _numbered(self, what: str, k: int) -> str:
        return what if self._declared.outputs == 1 else f"{what} {k}"


def _undifferentiable(kernel: Opaque, declared: Declaration, what: str) -> Any:
    """The kernel as a Function whose derivative is refused by name."""
    message = (
        f"{declared.name}: a derivative of its {what} was asked for; declare "
        "`external(..., second_order=...)`, the same as backward made of torch "
        "operations"
    )

    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        return tuple(kernel(*arguments))

    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise NoDerivative(message)

    return derived_class(
        f"{declared.name}_{what}",
        {
            "__module__": declared.module,
            "forward": staticmethod(forward),
            "backward": staticmethod(backward),
            "jvp": staticmethod(backward),
        },
    )


def _twinned(
    declared: Declaration,
    gradients: Sequence[Tensor],
    given: Sequence[Any],
) -> list[Tensor]:
    """The gradients with the derivative of `second_order`'s."""
    assert declared.second_order is not None
    arguments = given[declared.leading :]
    twins = returned(declared.second_order(*given))
    places = [k for k, a in enumerate(arguments) if _counts(a)]
    if len(twins) == len(arguments):
        twins = tuple(twins[k] for k in places)
    if len(twins) != len(places):
        raise BadInput(
            f"{declared.name}: second_order returned {len(twins)} gradients for "
            f"{len(arguments)} inputs, of which {len(places)} can have one"
        )
    shaped = [
        torch.zeros_like(g) if twin is None else twin.sum_to_size(g.shape)
        for g, twin in zip(gradients, twins, strict=True)
    ]
    return [Attach.apply(g, t) for g, t in zip(gradients, shaped, strict=True)]


def _saved(ctx: Any) -> tuple[list[Any], list[Tensor]]:
    """The arguments of the call, and its outputs where they were kept."""
    saved = list(ctx.saved_tensors)
    arguments = list(ctx.arguments)
    for k, tensor in zip(ctx.places, saved, strict=False):
        arguments[k] = tensor
    return arguments, saved[len(ctx.places) :]


def _like_inputs(declared: Declaration) -> Callable[..., list[Tensor]]:
    def fake(*given: Any) -> list[Tensor]:
        return [torch.empty_like(a) for a in given[declared.leading :] if _counts(a)]

    return fake


def _leading_tangents(given: Sequence[Any]) -> int:
    """How many tangents come before the arguments: one a differentiable argument."""
    return sum(_counts(value) for value in given) // 2


def _counts(argument: Any) -> bool:
    """Whether the argument has a gradient."""
    return isinstance(argument, Tensor) and differentiable(argument)


def _may_differentiate() -> bool:
    """Whether somebody may differentiate what is computed now."""
    if torch.compiler.is_dynamo_compiling():
        return False
    if private.under(private.functorch_active) or private.under(private.dispatch_modes):
        return True
    return torch.is_grad_enabled() or private.forward_level() >= 0


def _sign(forward: Any, declared: Declaration) -> None:
    """Let `forward` tell the kernel's parameters as its own."""
    ctx = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_ONLY)
    try:
        parameters = list(inspect.signature(declared.forward).parameters.values())
    except (TypeError, ValueError):
        return
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    kept = [p for p in parameters if p.kind not in kinds]
    forward.__signature__ = inspect.Signature([ctx, *kept])
