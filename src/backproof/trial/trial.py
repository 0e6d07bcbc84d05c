"""Run a subject on a case: forward values, recorded graphs, gradients; all counted.

Everything here speaks in flat float64 vectors of real numbers: one an input, one for
all outputs together. Complex tensors are pairs of reals, under the inner product
Re<a, b> that autograd uses. The user's tensors, random states and buffers are never
touched: each call gets copies, with the strides and the storage offset of the original.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.errors import BadInput
from backproof.probe import ANYWHERE, PRECISIONS, Point, coarsest, real_dtype
from backproof.subject import Case, Subject
from backproof.trial.copies import narrowed, untouched, widened
from backproof.trial.flat import Output, flat, input_of, shaped
from backproof.trial.module_call import ModuleCall
from backproof.trial.random_state import restart
from backproof.trial.refusal import (
    forward_raised,
    no_graph,
    refuse_domains,
    refuse_unusable,
)

_NEEDS_GRAPH = ("does not require grad", "doesn't require grad")

Found = list[tuple[str, Any]]
"""The leaves of what a call returned, each with its name."""


class Refused(Exception):
    """Forward raised at a point near the case: it is outside of its domain there."""


class BackwardRaised(Exception):
    """Backward raised; the cause is the user's exception."""


@dataclass(frozen=True)
class Graph:
    """One recorded forward: what backward can be called on, any number of times.

    Attributes:
        leaves: the differentiable inputs that gradients are taken for.
        tensors: the differentiable outputs.
        values: the outputs' values, float64 (num_outputs,).
        handed: every leaf of the arguments as the call got it.
        found: every leaf of what the call returned, with its name.
        at: the inputs' values, None where they are the case's own.
    """

    leaves: list[Tensor]
    tensors: list[Tensor]
    values: Tensor
    handed: list[Any]
    found: list[tuple[str, Any]]
    at: Sequence[Tensor] | None = None


@dataclass
class Calls:
    """Forward and backward calls so far, of a trial and all its variants."""

    forward: int = 0
    backward: int = 0


class Trial:
    """One subject on one case.

    Attributes:
        inputs: the differentiable inputs, in the order of the arguments.
        outputs: the differentiable outputs, known after the first `record`.
        single_use: whether a graph bears one backward only, so that each is recorded
            anew; set by whoever has found that out.
        widest: how much more than a typical output one may weigh in a cotangent.
        calls: what it and its variants have called in the case's own types.
        wide_calls: the same in float64.
    """

    def __init__(
        self,
        subject: Subject,
        case: Case,
        *,
        seed: int = 0,
        on_phase: Callable[[str], None] = lambda phase: None,
        names: list[str] | None = None,
    ) -> None:
        self.subject, self.case, self.seed = subject, case, seed
        self.calls, self.wide_calls = Calls(), Calls()
        self.outputs: list[Output] = []
        self.unrecorded: list[str] = []
        self._on_phase = on_phase
        self.single_use = False
        self.widest = 1e12
        self._cloned = self._wide = self._differentiates = False
        found = _named_leaves(subject, case)
        self._names, self._leaves = names or found[0], found[1]
        self.inputs = [
            input_of(name, leaf, case.domains.get(name, ANYWHERE))
            for name, leaf in zip(self._names, self._leaves, strict=True)
            if is_differentiable(leaf)
        ]
        refuse_unusable(subject, self._names, self._leaves, self.inputs)
        refuse_domains(subject, case.domains, [i.name for i in self.inputs])
        self._module = ModuleCall(subject.module) if subject.module else None

    @property
    def points(self) -> list[Point]:
        """Where the inputs are."""
        return [i.point for i in self.inputs]

    @property
    def names(self) -> list[str]:
        """The names of the arguments' leaves, in order."""
        return self._names

    @property
    def named_arguments(self) -> list[tuple[str, Any]]:
        """(name, argument) of the call as the user wrote it, keywords last."""
        return list(_named_arguments(self.subject, self.case))

    @property
    def leaves(self) -> list[Any]:
        """The leaves of the arguments as they were given, parameters last."""
        return self._leaves

    @property
    def parameters(self) -> dict[int, str]:
        """The names of a module's trained parameters by the id of the user's own."""
        trained = self._module.trained if self._module is not None else {}
        return {id(tensor): name for name, tensor in trained.items()}

    @property
    def num_parameters(self) -> int:
        """How many of the leaves, at their end, are a module's parameters."""
        return len(self._module.trained) if self._module is not None else 0

    @property
    def differentiable_leaves(self) -> list[bool]:
        """Of the arguments' leaves, in order: which are differentiable inputs."""
        return [is_differentiable(v) for v in self._leaves]

    @property
    def scalars(self) -> list[float]:
        """The plain numbers among the arguments."""
        return [float(v) for v in self._leaves if type(v) in (int, float)]

    @property
    def dtypes(self) -> list[torch.dtype]:
        """The types of all differentiable inputs and outputs."""
        return [i.original.dtype for i in self.inputs] + [o.dtype for o in self.outputs]

    def forward(self, values: Sequence[Tensor]) -> Tensor:
        """All differentiable outputs at these inputs, float64 (num_outputs,).

        Raises:
            Refused: forward raised here, though not at the case itself.
        """
        tensors = [i.at(v) for i, v in zip(self.inputs, values, strict=True)]
        try:
            found = self._quietly(tensors)
        except Exception as error:
            raise Refused(str(error)) from error
        by_name = dict(found)
        now: list[Tensor] = []
        for output in self.outputs:
            tensor = by_name.get(output.name)
            if not isinstance(tensor, Tensor) or tensor.shape != output.shape:
                raise Refused(f"`{output.name}` has another form here")
            now.append(tensor)
        return flat(now)

    def record(self, values: Sequence[Tensor] | None = None) -> Graph:
        """Forward with a graph, at the case's own inputs unless others are given.

        Raises:
            BadInput: forward raises, or no output can be differentiated.
            Refused: forward raised at inputs other than the case's.
        """
        try:
            leaves, handed, found = self._record(
                [p.values for p in self.points] if values is None else values
            )
        except Exception as error:
            if values is not None:
                raise Refused(str(error)) from error
            raise BadInput(forward_raised(self.subject, error)) from error
        if not self.outputs:
            self._learn_outputs(found)
        by_name = dict(found)
        tensors = [by_name[o.name] for o in self.outputs]
        # A copy: backward may write to what it saved.
        seen = flat([t.detach() for t in tensors]).clone()
        return Graph(leaves, tensors, seen, handed, found, values)

    def pull(
        self,
        graph: Graph,
        cotangent: Tensor,
        *,
        outputs: Sequence[int] | None = None,
        form: Callable[[Tensor], Tensor] = lambda tensor: tensor,
        seed: int | None = None,
    ) -> list[Tensor | None]:
        """Backward of `cotangent` (num_outputs,): float64 (n_i,) an input, or None.

        Args:
            graph: what to call it on.
            cotangent: of all outputs, float64 (num_outputs,).
            outputs: numbers of those that get theirs, all by default; the others get
                no cotangent at all.
            form: gives a cotangent tensor another layout of the same values.
            seed: that random numbers start from, the trial's own by default.

        Raises:
            BackwardRaised: the user's backward, or the engine on what it returned.
        """
        if self.single_use:
            graph = self.record(graph.at)
        which = range(len(self.outputs)) if outputs is None else outputs
        handed = [
            shaped(self.outputs[k], cotangent[self.outputs[k].part]) for k in which
        ]
        gradients = self.pull_tensors(
            graph, [form(t) for t in handed], outputs=which, seed=seed
        )
        # Copies: an op may hand out a buffer that its next backward overwrites.
        return [None if g is None else flat([g.detach()]).clone() for g in gradients]

    def pull_tensors(
        self,
        graph: Graph,
        cotangents: Sequence[Tensor],
        *,
        outputs: Sequence[int] | None = None,
        seed: int | None = None,
        retain: bool = True,
    ) -> tuple[Tensor | None, ...]:
        """Backward of these very cotangents, one an output; what the engine returns.

        Raises:
            BackwardRaised: the user's backward, or the engine on what it returned.
        """
        self.calls.backward += 1
        self._on_phase("backward")
        restart(self.seed if seed is None else seed)
        which = range(len(self.outputs)) if outputs is None else outputs
        try:
            return torch.autograd.grad(
                [graph.tensors[k] for k in which],
                graph.leaves,
                list(cotangents),
                retain_graph=retain,
                allow_unused=True,
            )
        except Exception as error:
            if "not compatible with .grad()" in str(error):
                raise BadInput(
                    f"{self.subject.name}: it uses re-entrant checkpointing, which "
                    "refuses `torch.autograd.grad`; pass `use_reentrant=False`"
                ) from error
            raise BackwardRaised(str(error)) from error

    def split(self, cotangent: Tensor) -> list[Tensor]:
        """A flat cotangent as one tensor an output, in the outputs' shape and type."""
        return [shaped(o, cotangent[o.part]) for o in self.outputs]

    def represent(self, cotangent: Tensor) -> Tensor:
        """What backward will see of it: rounded to the outputs' types."""
        parts = []
        for output in self.outputs:
            dtype = real_dtype(output.dtype)
            limit = torch.finfo(dtype).max / 16
            part = cotangent[output.part].clamp(-limit, limit)
            parts.append(part if dtype == torch.float64 else part.to(dtype).double())
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def coarseness(self, eps: float) -> Tensor | None:
        """eps of each output's type over `eps`, at least 1; None where all are 1."""
        ratios = [coarsest([o.dtype]).eps / eps for o in self.outputs]
        if max(ratios) <= 1:
            return None
        ones = torch.ones(self.outputs[-1].part.stop, dtype=torch.float64, device="cpu")
        for output, ratio in zip(self.outputs, ratios, strict=True):
            ones[output.part] = max(1.0, ratio)
        return ones

    def call(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The differentiable outputs for these tensors, with whatever graph they have."""
        by_name = dict(self._call(tensors)[1])
        return [by_name[o.name] for o in self.outputs]

    def outputs_for(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Every floating output for these tensors, also of no elements."""
        return [
            v
            for _, v in self._call(tensors)[1]
            if isinstance(v, Tensor) and (v.is_floating_point() or v.is_complex())
        ]

    def arguments(
        self, tensors: Sequence[Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments, with `tensors` as the differentiable inputs."""
        positional, keywords, _ = self._arguments(tensors)
        return positional, keywords

    def at(self, values: Sequence[Tensor]) -> Trial:
        """The same call at other values of its differentiable inputs."""
        moved = iter(
            i.at(v).requires_grad_() for i, v in zip(self.inputs, values, strict=True)
        )
        return self.with_leaves(
            [
                next(moved) if isinstance(v, Tensor) and v.requires_grad else v
                for v in self._leaves
            ]
        )

    def in_float64(self) -> Trial | None:
        """The same call with every floating tensor in float64; None if all are already."""
        wide = [widened(leaf) for leaf in self._leaves]
        if all(new is old for new, old in zip(wide, self._leaves, strict=True)):
            return None
        other = self.with_leaves(wide)
        other._wide, other.calls = True, self.wide_calls
        return other

    def with_case(self, case: Case, where: str) -> Trial:
        """The same subject on another case, counted with this one.

        Raises:
            BadInput: it cannot be checked.
        """
        other = Trial(self.subject, case, seed=self.seed)
        other.calls, other.wide_calls = self.calls, self.wide_calls
        tell = self._on_phase
        other._on_phase = lambda phase: tell(f"{phase} {where}")
        return other

    def in_float32(self) -> Trial | None:
        """The same call with float64 tensors in float32; None for modules, and if none.

        A module's buffers and constants would stay what they are.
        """
        narrow = [narrowed(leaf) for leaf in self._leaves]
        if self._module is not None or all(
            new is old for new, old in zip(narrow, self._leaves, strict=True)
        ):
            return None
        return self.with_leaves(narrow)

    def keeping_buffers(self) -> Trial:
        """The same call with a module's buffers kept from call to call, as copies."""
        other = self.with_leaves(self._leaves)
        other.outputs = self.outputs
        if self._module is not None:
            other._module = self._module.keeping_buffers()
        return other

    def from_seed(self, seed: int) -> Trial:
        """The same call with its random numbers from another seed."""
        other = self.with_leaves(self._leaves)
        other.seed, other.outputs = seed, self.outputs
        return other

    def in_place_of(self, function: Callable[..., Any]) -> Trial:
        """Another function called with the same arguments; a module's own are left."""
        subject = dataclasses.replace(
            self.subject, function=function, definition=None, module=None
        )
        other = self.with_leaves(self._leaves)
        other.subject = subject
        return other

    def with_leaves(self, leaves: list[Any], where: str = "") -> Trial:
        """The same call with other leaves of its arguments.

        `where` says in phases what is different, should the process die there.
        """
        other = copy.copy(self)
        if where:
            tell = self._on_phase
            other._on_phase = lambda phase: tell(f"{phase} {where}")
        other._leaves = leaves
        other.outputs, other.unrecorded = [], []
        other.inputs = [
            input_of(name, leaf, self.case.domains.get(name, ANYWHERE))
            for name, leaf in zip(self._names, leaves, strict=True)
            if isinstance(leaf, Tensor) and leaf.requires_grad
        ]
        return other

    # ------------------------------------------------------------------ calling

    def _arguments(
        self, tensors: Sequence[Tensor]
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[Tensor]]:
        fresh = iter(tensors)
        new = [
            next(fresh) if is_differentiable(leaf) else untouched(leaf)
            for leaf in self._leaves
        ]
        whole = (self.case.arguments, dict(self.case.keywords))
        positional, keywords = tree.rebuild(whole, iter(new))
        return positional, keywords, new

    def _call(self, tensors: Sequence[Tensor]) -> tuple[list[Any], Found]:
        positional, keywords, handed = self._arguments(tensors)
        self.calls.forward += 1
        self._on_phase("forward")
        restart(self.seed)
        if self._module is None:
            result = self.subject.function(*positional, **keywords)
        else:
            parameters = handed[len(handed) - len(self._module.trained) :]
            result = self._module(parameters, positional, keywords, wide=self._wide)
        return handed, list(tree.leaves(result, "output"))

    def _quietly(self, tensors: list[Tensor]) -> Found:
        """Call without a graph, unless forward itself differentiates something."""
        if not self._differentiates:
            with torch.no_grad():
                try:
                    return self._call(tensors)[1]
                except RuntimeError as error:
                    if not any(text in str(error) for text in _NEEDS_GRAPH):
                        raise
        self._differentiates = True
        with torch.enable_grad():
            return self._call([t.requires_grad_() for t in tensors])[1]

    def _record(
        self, values: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Any], Found]:
        leaves = [
            i.at(v).requires_grad_() for i, v in zip(self.inputs, values, strict=True)
        ]
        with torch.enable_grad():
            try:
                handed = [t.clone() for t in leaves] if self._cloned else leaves
                return leaves, *self._call(handed)
            except RuntimeError as error:
                # An op that works in place and says so cannot be given a leaf.
                if self._cloned or "leaf Variable" not in str(error):
                    raise
                self._cloned = True
                return self._record(values)

    def _learn_outputs(self, found: Found) -> None:
        at = 0
        for name, value in found:
            if not isinstance(value, Tensor) or not (
                value.is_floating_point() or value.is_complex()
            ):
                continue
            if value.layout is not torch.strided:
                raise BadInput(
                    f"{self.subject.name}: `{name}` has layout {value.layout}; only "
                    "strided outputs can be checked. Wrap the call so that it returns "
                    "`.to_dense()`"
                )
            if not value.requires_grad:
                self.unrecorded.append(name)
                continue
            if real_dtype(value.dtype) not in PRECISIONS:
                raise BadInput(
                    f"{self.subject.name}: `{name}` is {value.dtype}; outputs can be "
                    "float64, float32, float16, bfloat16, complex64 or complex128"
                )
            size = value.numel() * (2 if value.is_complex() else 1)
            if size:
                part = slice(at, at + size)
                self.outputs.append(
                    Output(name, value.shape, value.dtype, value.device, part)
                )
                at += size
        if not self.outputs:
            raise BadInput(no_graph(self.subject, found, self.unrecorded))


def is_differentiable(leaf: Any) -> bool:
    """Whether it is a tensor that requires a gradient."""
    return isinstance(leaf, Tensor) and leaf.requires_grad


def _named_leaves(subject: Subject, case: Case) -> tuple[list[str], list[Any]]:
    found: list[tuple[str, Any]] = []
    for name, argument in _named_arguments(subject, case):
        found += tree.leaves(argument, name)
    if subject.module is not None:
        found += ModuleCall(subject.module).trained.items()
    return [n for n, _ in found], [v for _, v in found]


def _named_arguments(subject: Subject, case: Case) -> Iterator[tuple[str, Any]]:
    names = subject.parameter_names()
    for k, argument in enumerate(case.arguments):
        rest = k - (len(names) - 1)
        if names and names[-1].startswith("*") and rest >= 0:
            yield f"{names[-1][1:]}[{rest}]", argument
        elif k < len(names):
            yield names[k], argument
        else:
            yield f"argument {k}", argument
    yield from case.keywords.items()
