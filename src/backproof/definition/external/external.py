"""`external`: one declaration for a kernel that torch cannot look into."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from backproof.definition.caller import caller
from backproof.definition.external.boundary import Boundary, Takes
from backproof.definition.external.building import (
    Declaration,
    elementwise_fake,
    function_of,
)
from backproof.errors import BadInput
from backproof.function_class import Defined

Method = Callable[..., Any]
_NAMED = ("loop", "broadcast")


class External(Defined):
    """What `external` returns: call it with tensors.

    Attributes:
        function: the `backproof.Function` behind it.
        forward: the kernel, as it was given.
    """

    def __init__(self, declaration: Declaration, function: Any) -> None:
        functools.update_wrapper(self, declaration.forward)
        self.__name__ = declaration.name
        self.__qualname__ = getattr(declaration.forward, "__qualname__", self.__name__)
        self.__module__ = declaration.module
        self.forward = declaration.forward
        self.function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the kernel; it takes what `forward` takes, with tensors for arrays."""
        apply: Callable[..., Any] = self.function.apply
        return apply(*arguments, **keywords)

    def __repr__(self) -> str:
        return f"external({self.__qualname__})"

    def __reduce__(self) -> str:
        return self.__qualname__

    def __deepcopy__(self, memo: Any) -> External:
        return self


def external(
    forward: Method | None = None,
    backward: Method | None = None,
    *,
    jvp: Method | None = None,
    fake: Method | None = None,
    vmap: str | Method = "loop",
    second_order: Method | None = None,
    elementwise: bool = False,
    outputs: int = 1,
    with_outputs: bool = False,
    takes: Takes = "numpy",
    dtypes: Sequence[torch.dtype] = (),
    contiguous: bool = True,
    autocast: str | None = None,
    device_guard: bool = False,
    deterministic: bool = True,
    name: str | None = None,
) -> Any:
    """Declare a kernel and its gradient; use it like an operation of torch.

        @backproof.external(
            backward=lambda g, x: g * 2 / np.sqrt(np.pi) * np.exp(-x * x),
            elementwise=True,
        )
        def erf(x):
            return scipy.special.erf(x)

    Every function below takes NumPy arrays and gives NumPy arrays, or tensors with
    `takes="torch"`; what is no tensor in the call is passed as it is.

    Args:
        forward: `(*inputs) -> output`, or a tuple of them.
        backward: `(*cotangents, *inputs) -> one gradient an input`; None where there is
            none, and inputs that are no tensors may be left out. A gradient in
            broadcast shape is summed to its input's.
        jvp: `(*tangents, *inputs) -> output tangents`, for forward mode; a tangent of
            zeros stands for an input that has none.
        fake: `(*inputs) -> empty outputs` of the right shape and type, in torch, for
            `torch.compile`, export and tensors without values.
        vmap: "loop" runs it once an entry; "broadcast" says that every function takes
            more leading dimensions; or `(info, in_dims, *inputs) -> (output, out_dims)`.
        second_order: the same as `backward`, made of torch operations (or of other
            externals), so that it can be differentiated.
        elementwise: each output element depends on the input elements at its place
            after broadcasting. Then fake, vmap and jvp follow.
        outputs: how many tensors forward returns.
        with_outputs: give backward the outputs too, after the cotangents.
        takes: "numpy" or "torch".
        dtypes: the floating types that the kernel takes; empty for any.
        contiguous: hand it contiguous memory only.
        autocast: as on `backproof.Function`.
        device_guard: likewise.
        deterministic: likewise.
        name: in errors and graphs; forward's by default.

    Returns:
        A callable, or a decorator for `forward` where that is not given.

    Raises:
        BadInput: a declaration that means nothing; when it is called, an input or a
            result that breaks what was promised, by its name.
        NoDerivative: when a derivative is asked for that was not declared.
        Undeclared: when a context needs `fake` and there is none.

    Foreign code runs under the interpreter lock unless it releases it, and backward runs
    in the thread of the device that it belongs to: for the CPU, the one that called
    `.backward()`. A kernel that keeps state of its own needs a lock of its own.
    """
    if backward is None:
        raise BadInput("external needs `backward`: the gradient is what it is for")
    if forward is None:
        options = {k: v for k, v in locals().items() if k != "forward"}
        return lambda kernel: external(kernel, **options)
    if not callable(vmap) and vmap not in _NAMED:
        raise BadInput(
            f"vmap={vmap!r} is none of 'loop', 'broadcast' and a rule "
            "`(info, in_dims, *inputs) -> (output, out_dims)`"
        )
    if takes not in ("numpy", "torch"):
        raise BadInput(f"takes={takes!r} is neither 'numpy' nor 'torch'")
    if not isinstance(outputs, int) or outputs < 1:
        raise BadInput(f"outputs={outputs!r} is no number of tensors")
    parameters = _parameters(forward)
    boundary = Boundary(
        owner=name or str(getattr(forward, "__name__", "external")),
        takes=takes,
        parameters=tuple(p.name for p in parameters),
        dtypes=tuple(dtypes),
        contiguous=contiguous,
    )
    if elementwise and vmap == "loop":
        vmap = "broadcast"
    declaration = Declaration(
        forward,
        backward,
        jvp,
        fake or (elementwise_fake if elementwise else None),
        vmap,
        second_order,
        elementwise,
        outputs,
        with_outputs,
        boundary,
        caller(),
    )
    policies = {
        "autocast": autocast,
        "device_guard": device_guard,
        "deterministic": deterministic,
    }
    return External(declaration, function_of(declaration, policies))


def _parameters(forward: Method) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):  # a ufunc, a builtin
        return [inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL)]
