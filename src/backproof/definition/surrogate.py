"""The values of one function with the gradient of another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from backproof.definition import private
from backproof.definition.caller import caller
from backproof.definition.nodes import Attach
from backproof.errors import BadInput
from backproof.function_class import Defined

P = ParamSpec("P")
R = TypeVar("R")


class Surrogate(Defined, Generic[P, R]):
    """What `surrogate` returns: call it as you would call `hard`.

    Attributes:
        hard: the function whose values it has, bit for bit.
        soft: the function whose derivatives it has, of every order.
    """

    def __init__(self, hard: Callable[P, R], soft: Callable[P, R], module: str) -> None:
        functools.update_wrapper(self, hard)
        self.__name__ = getattr(hard, "__name__", "surrogate")
        self.__module__ = module
        self.hard = hard
        self.soft = self.expect = soft

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """The values of hard; the gradient, if anybody asks, is soft's."""
        with torch.no_grad():
            values = self.hard(*arguments, **keywords)
        others = self.soft(*arguments, **keywords)
        made: R = attached(values, others, self.__name__)
        return made

    def __repr__(self) -> str:
        return f"surrogate({self.hard!r}, {self.soft!r})"


def surrogate(hard: Callable[P, R], soft: Callable[P, R]) -> Surrogate[P, R]:
    """The values of `hard` with the gradient of `soft`, in every context.

        round_through = backproof.surrogate(torch.round, lambda x: x)

    Forward is exactly `hard`, which `soft(x) + (hard(x) - soft(x)).detach()` is not:
    that rounds twice. Both are made of torch operations, are given the same arguments
    and return tensors of the same shapes and types. `backproof.check` holds the gradient
    against the derivative of `soft`.

    Raises:
        BadInput: when it is called, where an output of `soft` has another shape or type
            than that of `hard`.
    """
    return Surrogate(hard, soft, caller())


def attached(values: Any, others: Any, name: str) -> Any:
    """Each tensor of `values` with the derivative of its twin in `others`."""
    flat, spec = pytree.tree_flatten(values)
    twins, twin_spec = pytree.tree_flatten(others)
    if spec != twin_spec:
        raise BadInput(
            f"{name}: hard returns {len(flat)} values and soft {len(twins)}, or in "
            "another order; let both return the same"
        )
    pairs = zip(flat, twins, strict=True)
    return pytree.tree_unflatten([_pair(a, b, name) for a, b in pairs], spec)


def _pair(value: Any, other: Any, name: str) -> Any:
    attach: Callable[..., Any] = Attach.apply
    if isinstance(value, torch.fx.Proxy):  # what will be a tensor
        return attach(value, other)
    if not isinstance(value, Tensor) or not isinstance(other, Tensor):
        return value
    traced = private.tracing_state is not None and private.tracing_state() is not None
    if (not traced and value.shape != other.shape) or value.dtype != other.dtype:
        raise BadInput(
            f"{name}: hard returns {value.dtype} of shape {tuple(value.shape)}, soft "
            f"{other.dtype} of shape {tuple(other.shape)}; make them alike, so that the "
            "gradient of one can stand for the other's"
        )
    return attach(value, other)
