"""What the author of a class wrote, in one spelling."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Method = Callable[..., Any]
_ONCE = torch.autograd.function.once_differentiable(lambda ctx: None).__code__
_OPTIONS = (
    "boxed_grads_call",
    "clear_saved_tensors_on_access",
    "symbolic",
    "_compiled_autograd_key",
)
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


@dataclass(frozen=True)
class Signature:
    """Forward's parameters, without ctx."""

    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    defaults: dict[str, Any]

    def bound(
        self, name: str, given: tuple[Any, ...], keywords: dict[str, Any]
    ) -> list[Any]:
        """All arguments in the order of the parameters.

        Raises:
            TypeError: as a call of forward would.
        """
        names = self.positional[len(given) :] + self.keyword_only
        unknown = [key for key in keywords if key not in names]
        if unknown:
            raise TypeError(f"{name}.apply() got an unexpected argument {unknown[0]!r}")
        arguments = list(given)
        for parameter in names:
            if parameter in keywords:
                arguments.append(keywords[parameter])
            elif parameter in self.defaults:
                arguments.append(self.defaults[parameter])
            else:
                raise TypeError(f"{name}.apply() misses the argument {parameter!r}")
        return arguments


@dataclass(frozen=True)
class Written:
    """A class's methods, whichever way they are spelled.

    Attributes:
        owner: the class.
        name: of the class.
        forward: `(ctx, *arguments)`; calls `setup_context` where there is one.
        plain_forward: `(*arguments)`, where there is a `setup_context`.
        setup_context: `(ctx, inputs, output)`, where there is one.
        backward: `(ctx, *cotangents)`, without `once_differentiable`.
        decorated_backward: as it was written.
        once: whether `once_differentiable` was there.
        jvp: `(ctx, *tangents)`, where the author wrote one.
        vmap: `(info, in_dims, *arguments)`, likewise.
        signature: forward's; None where it cannot be read.
        mutates: whether the code names `mark_dirty`.
        marks: whether it names `mark_non_differentiable`.
        options: what else the class says to torch, such as `boxed_grads_call`.
    """

    owner: type
    name: str
    forward: Method
    plain_forward: Method | None
    setup_context: Method | None
    backward: Method
    decorated_backward: Method
    once: bool
    jvp: Method | None
    vmap: Method | None
    signature: Signature | None
    mutates: bool
    marks: bool
    options: dict[str, Any]

    @property
    def binds(self) -> bool:
        """Whether every call fills in defaults, as torch does with `setup_context`."""
        named = self.signature
        return named is not None and bool(
            named.keyword_only or (self.setup_context is not None and named.defaults)
        )

    def bound(
        self, given: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[Any, ...]:
        """All arguments of a call in forward's order.

        Raises:
            TypeError: as a call of forward would.
        """
        if self.signature is None:
            raise TypeError(f"{self.name}.apply() takes no keyword arguments")
        return tuple(self.signature.bound(self.name, given, keywords))

    @property
    def second_order_refusal(self) -> str:
        """What differentiating backward is told where that would lose a term."""
        why = (
            "is marked `once_differentiable`"
            if self.once
            else "does not compute all its results from its cotangents with torch"
        )
        return (
            f"{self.name}: a derivative of its backward was asked for, and backward {why}"
            ". Write backward with torch operations, or, for a kernel, declare the "
            "derivative with `backproof.external(..., second_order=...)`"
        )

    @property
    def sets_up_outside(self) -> bool:
        """Whether `setup_context` runs apart from forward, as under an own vmap rule."""
        return self.vmap is not None and self.setup_context is not None


def written(owner: type) -> Written:
    """What the author of `owner` wrote."""
    forward: Method = getattr(owner, "forward")  # noqa: B009
    setup: Method | None = getattr(owner, "setup_context", None)
    backward: Method = (
        getattr(owner, "backward", None)
        or getattr(owner, "vjp", None)
        or _without_backward(owner.__name__)
    )
    once = getattr(backward, "__code__", None) is _ONCE
    signature = _signature(forward, has_ctx=setup is None)
    return Written(
        owner=owner,
        name=owner.__name__,
        forward=_ctx_style(forward, setup, signature),
        plain_forward=None if setup is None else forward,
        setup_context=setup,
        backward=getattr(backward, "__wrapped__", backward) if once else backward,
        decorated_backward=backward,
        once=once,
        jvp=getattr(owner, "jvp", None),
        vmap=getattr(owner, "vmap", None),
        signature=signature,
        mutates=any(_names(method, "mark_dirty") for method in (forward, setup)),
        marks=any(
            _names(method, "mark_non_differentiable") for method in (forward, setup)
        ),
        options={
            name: inspect.getattr_static(owner, name)
            for name in _OPTIONS
            if hasattr(owner, name)
        },
    )


def _without_backward(name: str) -> Method:
    """The backward of a class that has none: one that is never differentiated works."""

    def backward(ctx: Any, *cotangents: Any) -> Any:
        raise NotImplementedError(
            f"{name} has no backward, and a gradient was asked for: write `backward`"
        )

    return backward


def _ctx_style(
    forward: Method, setup: Method | None, signature: Signature | None
) -> Method:
    """`(ctx, *arguments)`, keyword-only arguments after the others."""
    named = signature.keyword_only if signature is not None else ()
    if setup is None and not named:
        return forward

    def call(*leading: Any) -> Any:
        if not named:
            return forward(*leading)
        cut = len(leading) - len(named)
        return forward(*leading[:cut], **dict(zip(named, leading[cut:], strict=True)))

    if setup is None:
        return call

    def forward_and_setup(ctx: Any, *arguments: Any) -> Any:
        output = call(*arguments)
        setup(ctx, arguments, output)
        return output

    return forward_and_setup


def signature_of(method: Method) -> inspect.Signature:
    """Its signature, without looking up the names in its annotations."""
    if sys.version_info < (3, 14):
        return inspect.signature(method)
    from annotationlib import Format  # type: ignore[import-not-found,unused-ignore]

    return inspect.signature(method, annotation_format=Format.FORWARDREF)


def _signature(forward: Method, *, has_ctx: bool) -> Signature | None:
    try:
        parameters = list(signature_of(forward).parameters.values())
    except (TypeError, ValueError):
        return None
    positional = [p.name for p in parameters if p.kind in _POSITIONAL][has_ctx:]
    only = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    given = {p.name: p.default for p in parameters if p.default is not p.empty}
    return Signature(tuple(positional), tuple(only), given)


def _names(method: Method | None, name: str) -> bool:
    """Whether the code of `method`, or of what it wraps, says `name`."""
    code = getattr(inspect.unwrap(method), "__code__", None) if method else None
    return code is not None and name in code.co_names
