"""Cases from a user's function: call it, and make sense of what it returns."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from backproof import tree
from backproof.errors import BadInput
from backproof.inputs.raised import shortened
from backproof.subject import Case, Subject

_SIZE = 4  # for a function that takes `size` and has no default for it
_ONE_CALL = (Case, tuple, Mapping)
_ACCEPTED = (
    "return the arguments of one call as a tuple, a single tensor, a dict of keywords "
    "or a Case, or yield several of these"
)


def cases_of(
    function: Callable[..., Any],
    subject: Subject,
    *,
    seed: int = 0,
    size: int | None = None,
) -> list[Case]:
    """The cases that `function` returns or yields for `subject`.

    A `size` is handed on where the function takes one; its cases can then be made again
    at another.

    Raises:
        BadInput: it raises, or gives something that cannot be arguments.
    """
    label = getattr(function, "__name__", "inputs")
    try:
        wanted = _seed_and_size(function, seed, size)
        given = function(**wanted)
        calls = list(given) if isinstance(given, Iterator) else None
    except Exception as error:
        raise BadInput(f"`{label}` raises:\n{shortened(error)}") from error
    if isinstance(given, list) and all(isinstance(g, _ONE_CALL) for g in given):
        calls = given  # a list of tensors could be one call or several, and is refused
    if calls is None:
        cases = [_case(given, subject, label, label)]
    elif calls:
        cases = [
            _case(call, subject, label, f"{label}[{k}]") for k, call in enumerate(calls)
        ]
    else:
        raise BadInput(f"`{label}` gives no inputs at all; {_ACCEPTED}")
    if not _takes(function, "size"):
        return cases

    def resized(k: int) -> Callable[[int], Case]:
        return lambda size: cases_of(function, subject, seed=seed, size=size)[k]

    return [dataclasses.replace(c, resized=resized(k)) for k, c in enumerate(cases)]


def _seed_and_size(
    function: Callable[..., Any], seed: int, size: int | None
) -> dict[str, int]:
    arguments = {"seed": seed} if _takes(function, "seed") else {}
    if _takes(function, "size"):
        default = inspect.signature(function).parameters["size"].default
        if size is not None or default is inspect.Parameter.empty:
            arguments["size"] = _SIZE if size is None else size
    return arguments


def _takes(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _case(given: Any, subject: Subject, maker: str, label: str) -> Case:
    if isinstance(given, Case):
        case = given
    elif isinstance(given, torch.Tensor):
        case = Case((given,), label=label)
    elif isinstance(given, tuple):
        case = Case(tuple(given), label=label)
    elif isinstance(given, Mapping):
        case = Case((), dict(given), label=label)
    else:
        raise BadInput(f"`{maker}` gives {_kind(given)}; {_ACCEPTED}")
    _refuse_without_tensor(case, subject, maker)
    return positional(case, subject, maker)


def _refuse_without_tensor(case: Case, subject: Subject, maker: str) -> None:
    if subject.module is not None:
        return  # its parameters are inputs too
    whole = (case.arguments, dict(case.keywords))
    leaves = [leaf for _, leaf in tree.leaves(whole, "")]
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        kinds = ", ".join(_kind(leaf) for leaf in leaves) or "nothing"
        raise BadInput(
            f"`{maker}` gives no tensor, only {kinds}; the inputs to differentiate "
            "are tensors with `requires_grad=True`"
        )


def positional(case: Case, subject: Subject, maker: str) -> Case:
    """Keywords in their places: `apply` of a Function takes none.

    Raises:
        BadInput: there is no such parameter, or one has no value.
    """
    if subject.definition is None or not case.keywords:
        return case
    forward = subject.definition.forward
    names = subject.parameter_names()
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(forward).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    known = (
        defaults | dict(zip(names, case.arguments, strict=False)) | dict(case.keywords)
    )
    strange = [name for name in case.keywords if name not in names]
    missing = [name for name in names if name not in known and not name.startswith("*")]
    if strange or missing:
        wrong = strange or missing
        raise BadInput(
            f"`{maker}` {'gives' if strange else 'does not give'} "
            f"{', '.join(f'`{name}`' for name in wrong)}; {subject.name} takes "
            f"{', '.join(f'`{name}`' for name in names)}"
        )
    arguments = tuple(known[name] for name in names if not name.startswith("*"))
    return Case(arguments, {}, case.label, case.domains)


def _kind(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return "None" if value is None else f"a {module}{kind.__qualname__}"
