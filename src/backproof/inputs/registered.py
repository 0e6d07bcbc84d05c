"""Inputs given beside a subject: a registry, and nothing that needs torch.

@backproof.inputs_for(Square)
def square_inputs(seed=0):
yield (torch.tensor([1.0, -2.0], dtype=torch.double, requires_grad=True),)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

MakeInputs = TypeVar("MakeInputs", bound=Callable[..., Any])

# A list, because callables and modules need not be hashable, and a file has few.
_REGISTRY: list[tuple[Any, Callable[..., Any]]] = []


def inputs_for(subject: Any) -> Callable[[MakeInputs], MakeInputs]:
    """Register the decorated function as inputs of `subject`; several add up.

    It may take `seed`, an integer, and `size`, a small one, and returns the arguments
    of one call: a tuple, a single tensor, a dict of keywords or a `Case`. It may also
    yield several of these. The tensors that require a gradient are the differentiable
    inputs.

    Args:
        subject: a Function (or its `apply`), any other callable, or an `nn.Module`.
    """

    def register(function: MakeInputs) -> MakeInputs:
        _REGISTRY.append((identity(subject), function))
        return function

    return register


def registered(subject: Any) -> list[Callable[..., Any]]:
    """The functions that give inputs for `subject`, in the order of registration."""
    wanted = identity(subject)
    return [function for key, function in _REGISTRY if key is wanted]


def registered_in(module: str) -> list[Any]:
    """The subjects for which functions of the module called `module` give inputs."""
    found: list[Any] = []
    for key, function in _REGISTRY:
        if getattr(function, "__module__", None) == module:
            found += [key] if all(key is not other for other in found) else []
    return found


def forget(module: str) -> None:
    """Drop what the module called `module` registered: it is about to run again."""
    _REGISTRY[:] = [
        (key, function)
        for key, function in _REGISTRY
        if getattr(function, "__module__", None) != module
    ]


def identity(subject: Any) -> Any:
    """The Function behind its `apply`, which is a new object at each access."""
    from backproof.function_class import class_of_apply

    return class_of_apply(subject) or subject
