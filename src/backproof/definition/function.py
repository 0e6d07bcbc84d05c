"""The base class of a custom operation."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Literal

from backproof.definition.form import refuse_malformed
from backproof.definition.policies import Policies
from backproof.definition.routes.choice import apply_of
from backproof.definition.typed_apply import Apply
from backproof.definition.written import signature_of, written
from backproof.function_class import BASES

_METHODS = ("forward", "backward", "vjp", "setup_context", "jvp", "vmap")


class _FunctionType(type):
    """Keeps `apply` true to the methods, and says what a class is not for."""

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _METHODS:
            cls._rebuild()

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError(
            f"{cls.__name__} has no instances: call {cls.__name__}.apply(...)"
        )

    def _rebuild(cls) -> None:
        cls._build()
        heirs: list[Any] = cls.__subclasses__()
        for heir in heirs:
            heir._rebuild()

    def _build(cls) -> None:
        """Give the class its `apply`, once it has a forward."""
        if not hasattr(cls, "forward"):
            return
        apply = apply_of(written(cls), Policies.of(cls))
        apply.__module__ = cls.__module__
        apply.__name__ = "apply"
        apply.__qualname__ = f"{cls.__qualname__}.apply"
        apply.__doc__ = cls.__doc__
        apply.__signature__ = _signature(cls)  # type: ignore[attr-defined]
        apply.written_as = cls  # type: ignore[attr-defined]
        super().__setattr__("apply", staticmethod(apply))


class Function(metaclass=_FunctionType):
    """A custom operation and its gradient, right wherever PyTorch runs it.

    Write it as a `torch.autograd.Function`, with ctx in `forward` or with a
    `setup_context`, and call `apply`. The same class then works in eager mode, under
    `torch.func` and its nesting, in forward mode, under `torch.compile`, in exported
    and traced programs. What cannot be right is refused with the declaration that is
    missing; mistakes in the form of the class are refused when its body ends.

        class Square(backproof.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, cotangent):
                (x,) = ctx.saved_tensors
                return cotangent * 2 * x

    It is not a subclass of `torch.autograd.Function`, which dynamo would inline past
    every transform: `issubclass` says False. The nodes in a graph are torch's own and
    bear the class's name.

    A `jvp` or `vmap` method is used where it is written; without one, forward mode
    transposes backward, and vmap runs the methods under vmap, or once an entry where
    they cannot. Tensors in lists, tuples and dicts of arguments get the gradients that
    backward returns in the same container.

    Attributes:
        autocast: what becomes of float16, bfloat16 and float32 inputs under autocast:
            "promote" casts them to the widest of their types, "float32" to float32,
            "lower" to autocast's own type; forward and backward then run without
            autocast. None leaves autocast to the operations inside, as torch does.
        contiguous: hand contiguous inputs to forward and contiguous cotangents to
            backward.
        device_guard: make the device of the first tensor the current one, as a kernel
            that launches on the current device needs.
        deterministic: False for an op that adds in no fixed order; it then raises, or
            warns, under `torch.use_deterministic_algorithms`.
        generate_vmap_rule: accepted for torch's sake; there is always a rule.

    Raises:
        MalformedFunction: when a class body ends that cannot work.
    """

    autocast: ClassVar[Literal["promote", "float32", "lower"] | None] = None
    contiguous: ClassVar[bool] = False
    device_guard: ClassVar[bool] = False
    deterministic: ClassVar[bool] = True
    generate_vmap_rule: ClassVar[bool] = False

    apply = Apply()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        refuse_malformed(cls)
        cls._build()


BASES.append(Function)


def derived_class(name: str, members: dict[str, Any]) -> Any:
    """A class made of methods that somebody else wrote down."""
    kind: Any = _FunctionType
    return kind(name, (Function,), members)


def _signature(cls: Any) -> inspect.Signature:
    """Forward's, without ctx."""
    signature = signature_of(cls.forward)
    parameters = list(signature.parameters.values())
    if not hasattr(cls, "setup_context"):
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)
