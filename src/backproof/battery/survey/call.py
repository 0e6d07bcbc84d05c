"""The subject's call with its tensors taken out: tensors in, differentiable tensors out.

Compilers trace through this file, so the call itself is nothing but the subject's
function, its arguments put back where they were, and its outputs picked out. There are
no counters, no seeds and no generators on the way.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from backproof.trial import Trial
from backproof.trial.copies import twin, widened
from backproof.trial.module_call import ModuleCall

Path = tuple[Any, ...]
"""The way to a leaf: keys of containers, and `.name` for a field of a record."""


class Taken:
    """The place of the differentiable tensor `index` among the arguments."""

    def __init__(self, index: int) -> None:
        self.index = index


class Kept:
    """The place of the tensor `index` among those that are not differentiated."""

    def __init__(self, index: int) -> None:
        self.index = index


@dataclass(frozen=True)
class Call:
    """A function of tensors alone, which can be traced, copied and pickled.

    Attributes:
        function: the subject's function, or an `Exchange` of its module's tensors.
        positional: its arguments, with `Taken` and `Kept` where tensors were.
        keywords: likewise.
        paths: where the outputs are that are wanted, in what the function returns.
        clones: whether the function is handed copies; an op that works in place cannot
            be given a leaf.
    """

    function: Callable[..., Any]
    positional: tuple[Any, ...]
    keywords: dict[str, Any]
    paths: tuple[Path, ...] = ()
    clones: bool = False

    def returned(self, tensors: Sequence[Tensor], kept: Sequence[Tensor]) -> Any:
        """What the function returns for these tensors."""
        given = [t.clone() for t in tensors] if self.clones else list(tensors)
        positional = tuple([_filled(v, given, kept) for v in self.positional])
        keywords = {k: _filled(v, given, kept) for k, v in self.keywords.items()}
        if isinstance(self.function, Exchange):
            return self.function(given, kept, positional, keywords)
        return self.function(*positional, **keywords)

    def __call__(
        self, tensors: Sequence[Tensor], kept: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The differentiable outputs, in order."""
        return self.picked(self.returned(tensors, kept))

    def picked(self, returned: Any) -> tuple[Tensor, ...]:
        """The wanted outputs of what the function returned."""
        return tuple([_at(returned, path) for path in self.paths])

    @staticmethod
    def words(path: Path) -> str:
        """A path as one writes it: `[0]`, `['h']`, `.mean`."""
        return "".join(
            f".{key.name}" if isinstance(key, _Field) else f"[{key!r}]" for key in path
        )


def call_of(trial: Trial) -> tuple[Call, list[Tensor]]:
    """The call of a trial without its paths yet, and fresh copies of its other tensors."""
    marks: list[Any] = [Taken(k) for k in range(len(trial.inputs))]
    positional, keywords = trial.arguments(marks)
    kept: list[Tensor] = []
    emptied = tuple(_emptied(v, kept) for v in positional)
    named = {k: _emptied(v, kept) for k, v in keywords.items()}
    module = trial.subject.module
    if module is None:
        return Call(trial.subject.function, emptied, named), kept
    return Call(_exchange(module, trial, kept), emptied, named), kept


@dataclass(frozen=True)
class Exchange:
    """A module that is called with other parameters and with copies of its buffers.

    Attributes:
        module: the caller's, which stays as it is.
        parameters: the name of each use of a parameter, and its place among the
            differentiable tensors.
        buffers: the name of each buffer, and its place among the others.
    """

    module: torch.nn.Module
    parameters: dict[str, int]
    buffers: dict[str, int]

    def __call__(
        self,
        tensors: Sequence[Tensor],
        kept: Sequence[Tensor],
        positional: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Call it, all tensors given."""
        swapped = {name: tensors[k] for name, k in self.parameters.items()}
        for name, k in self.buffers.items():
            swapped[name] = kept[k].clone()
        return torch.func.functional_call(
            self.module, swapped, positional, keywords, tie_weights=False
        )


def _exchange(module: torch.nn.Module, trial: Trial, kept: list[Tensor]) -> Exchange:
    """The parameters are the last of the trial's inputs; buffers are added to `kept`."""
    trained = list(ModuleCall(module).trained.values())
    first = len(trial.inputs) - len(trained)
    place = {id(t): first + k for k, t in enumerate(trained)}
    wide = any(
        i.original.dtype != t.dtype
        for i, t in zip(trial.inputs[first:], trained, strict=True)
    )
    parameters: dict[str, int] = {}
    buffers: dict[str, int] = {}
    for prefix, owner in module.named_modules():
        dot = f"{prefix}." if prefix else ""
        for name, parameter in owner._parameters.items():
            if parameter is not None and id(parameter) in place:
                parameters[dot + name] = place[id(parameter)]
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                buffers[dot + name] = len(kept)
                kept.append(twin(widened(buffer) if wide else buffer))
    return Exchange(module, parameters, buffers)


def separate(call: Call) -> Call:
    """The same call with a module of its own, so that several can run at a time."""
    if not isinstance(call.function, Exchange):
        return call
    own = replace(call.function, module=copy.deepcopy(call.function.module))
    return replace(call, function=own)


def remembering(call: Call, kept: Sequence[Tensor]) -> Call:
    """The same with a module of its own whose buffers are kept from call to call."""
    if not isinstance(call.function, Exchange) or not call.function.buffers:
        return call
    own = separate(call)
    assert isinstance(own.function, Exchange)
    for name, k in own.function.buffers.items():
        prefix, _, last = name.rpartition(".")
        own.function.module.get_submodule(prefix)._buffers[last] = kept[k]
    return replace(own, function=replace(own.function, buffers={}))


def with_outputs(call: Call, returned: Any) -> Call:
    """The call that picks every output of `returned` that autograd recorded."""
    paths = [
        path
        for path, value in _leaves(returned, ())
        if isinstance(value, Tensor)
        and (value.is_floating_point() or value.is_complex())
        and value.requires_grad
    ]
    return replace(call, paths=tuple(paths))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, (tuple, list)):
        for k, child in enumerate(value):
            yield from _leaves(child, (*path, k))
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    elif _is_record(value):
        for field in dataclasses.fields(value):
            child = getattr(value, field.name)
            yield from _leaves(child, (*path, _Field(field.name)))
    else:
        yield path, value


class _Field:
    """The name of a record's field, told apart from the key of a mapping."""

    def __init__(self, name: str) -> None:
        self.name = name


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = getattr(value, key.name) if isinstance(key, _Field) else value[key]
    return value


def _emptied(value: Any, kept: list[Tensor]) -> Any:
    """`value` with every tensor in it replaced by a mark; the tensor goes to `kept`."""
    if isinstance(value, Tensor):
        kept.append(value)
        return Kept(len(kept) - 1)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_emptied(v, kept) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(_emptied(v, kept) for v in value)
    if isinstance(value, Mapping):
        emptied = {k: _emptied(v, kept) for k, v in value.items()}
        return emptied if type(value) is dict else _like(value, emptied)
    if _is_record(value):
        emptied_record = copy.copy(value)
        for field in dataclasses.fields(value):
            inner = _emptied(getattr(value, field.name), kept)
            object.__setattr__(emptied_record, field.name, inner)
        return emptied_record
    return value


def _filled(value: Any, taken: Sequence[Tensor], kept: Sequence[Tensor]) -> Any:
    """The inverse of `_emptied`; plain enough to be traced."""
    if isinstance(value, Taken):
        return taken[value.index]
    if isinstance(value, Kept):
        return kept[value.index]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_filled(v, taken, kept) for v in value])
    if isinstance(value, tuple):
        return tuple([_filled(v, taken, kept) for v in value])
    if isinstance(value, list):
        return [_filled(v, taken, kept) for v in value]
    if type(value) is dict:
        return {k: _filled(v, taken, kept) for k, v in value.items()}
    if isinstance(value, Mapping):
        return _like(value, {k: _filled(v, taken, kept) for k, v in value.items()})
    if _is_record(value):
        built = copy.copy(value)
        for field in dataclasses.fields(value):
            inner = _filled(getattr(value, field.name), taken, kept)
            object.__setattr__(built, field.name, inner)
        return built
    return value


def _like(old: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    built: Any = copy.copy(old)
    built.update(items)
    return built


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


class Held(torch.nn.Module):
    """A module that holds the call and, as parameters, all its tensors but the first.

    Where there is one tensor only, that is the parameter.

    Args:
        call: what it computes.
        tensors: the differentiable ones.
        kept: the others.
    """

    def __init__(
        self, call: Call, tensors: Sequence[Tensor], kept: Sequence[Tensor]
    ) -> None:
        super().__init__()
        self.call, self.kept = call, list(kept)
        self.free = 1 if len(tensors) > 1 else 0
        weights = [torch.nn.Parameter(t.detach()) for t in tensors[self.free :]]
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, *free: Tensor) -> tuple[Tensor, ...]:
        """The outputs for the tensors that are not parameters."""
        return self.call((*free, *self.weights), self.kept)


class Exported(torch.nn.Module):
    """The call as a module without parameters, for whoever takes modules only."""

    def __init__(self, call: Call, count: int) -> None:
        super().__init__()
        self.call, self.count = call, count

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs for the differentiable tensors, followed by the others."""
        return self.call(tensors[: self.count], tensors[self.count :])
