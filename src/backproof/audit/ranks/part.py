"""One rank's part in a replay: it runs what rank 0 says, on what rank 0 hands it.

    open ──> who I am    forward ──> outputs    backward ──> gradients    close

Rank 0 plays its own part too. All ranks call the Function at the same time, so that
whatever it exchanges with the others finds them there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from backproof.audit.identity import Identity
from backproof.audit.ledger import KeptCall, Ledger
from backproof.audit.ranks.circle import Circle
from backproof.audit.ranks.communication import Watching
from backproof.audit.ranks.observation import Sketch, sketch
from backproof.audit.replay import Replay, default_dtype
from backproof.trial import Trial

Which = tuple[Identity, int]
"""A call: its Function, and its number there."""


@dataclass(frozen=True)
class Failed:
    """A part that raised, in words."""

    words: str


@dataclass(frozen=True)
class Order:
    """What a rank is to run.

    Attributes:
        what: "open", "forward", "backward" or "close".
        which: the call to open.
        key: of the graph to record or to walk; 0 to record none.
        tensors: inputs, or cotangents, of this rank.
        dropped: keys of graphs that nobody needs any more.
    """

    what: str
    which: Which | None = None
    key: int = 0
    tensors: Sequence[Tensor | None] = ()
    dropped: Sequence[int] = ()


@dataclass(frozen=True)
class Side:
    """What a rank says of its part.

    Attributes:
        inputs: names of the differentiable inputs, in order.
        values: their values.
        sketches: of them.
        parameters: whether each is an `nn.Parameter`.
        outputs: names of the differentiable outputs.
        results: sketches of their values.
        cotangents: what arrived for each in the real backward; None where unknown.
        groups: the ranks of each process group that it communicated in.
    """

    inputs: tuple[str, ...]
    values: tuple[Tensor, ...]
    sketches: tuple[Sketch, ...]
    parameters: tuple[bool, ...]
    outputs: tuple[str, ...]
    results: tuple[Sketch, ...]
    cotangents: tuple[Sketch | None, ...]
    groups: frozenset[tuple[int, ...]] = field(default_factory=frozenset)


class Part:
    """One call on this rank."""

    def __init__(
        self, ledger: Ledger, call: KeptCall, seed: int, enter: Callable[[str], None]
    ) -> None:
        self._call, self._enter = call, enter
        replay = Replay(ledger, call)
        self._trial = Trial(replay.subject, replay.case, seed=seed, on_phase=enter)
        self._wide: Trial | None = None
        self._graphs: dict[int, tuple[list[Tensor], list[Tensor]]] = {}

    def side(self) -> Side:
        """Run it once as it was, forward and backward, and say what it is like."""
        trial, watching = self._trial, Watching(refuse=False)
        with self._as_it_was():
            with watching:
                graph = trial.record()
                trial.pull(graph, torch.ones_like(graph.values))
            inputs = [i.original for i in trial.inputs]
            seen = next(iter(self._call.observed), None)
            parameters = seen.parameters if seen is not None else []
            if len(parameters) != len(inputs):
                parameters = [False] * len(inputs)
            cotangents = tuple(seen.cotangents) if seen is not None else ()
            if len(cotangents) != len(trial.outputs):
                cotangents = (None,) * len(trial.outputs)
            return Side(
                tuple(i.name for i in trial.inputs),
                tuple(t.to("cpu", copy=True) for t in inputs),
                tuple(sketch(t) for t in inputs),
                tuple(parameters),
                tuple(o.name for o in trial.outputs),
                tuple(sketch(t) for t in graph.tensors),
                cotangents,
                frozenset(watching.groups),
            )

    def forward(self, tensors: Sequence[Tensor], key: int) -> list[Tensor]:
        """The outputs; with a graph where there is a `key` to find it by."""
        moved = [
            t.to(i.original.device, copy=True)
            for t, i in zip(tensors, self._trial.inputs, strict=True)
        ]
        trial = self._trial_for(moved)
        with self._as_it_was(), torch.set_grad_enabled(bool(key)):
            leaves = [t.requires_grad_(bool(key)) for t in moved]
            outputs = trial.call(leaves)
            if key:
                self._graphs[key] = leaves, outputs
            return [t.detach().to("cpu", copy=True) for t in outputs]

    def backward(self, cotangents: Sequence[Tensor | None], key: int) -> list[Any]:
        """The gradients of the inputs, None where there is none."""
        leaves, outputs = self._graphs[key]
        handed = [
            None if u is None else u.to(y.device)
            for u, y in zip(cotangents, outputs, strict=True)
        ]
        self._enter("backward")
        with self._as_it_was():
            gradients = torch.autograd.grad(
                outputs, leaves, handed, retain_graph=True, allow_unused=True
            )
            return [
                None if g is None else g.detach().to("cpu", copy=True)
                for g in gradients
            ]

    def drop(self, keys: Sequence[int]) -> None:
        """Let graphs go."""
        for key in keys:
            self._graphs.pop(key, None)

    def _trial_for(self, tensors: Sequence[Tensor]) -> Trial:
        """The call in float64 throughout, where that is what the inputs come in."""
        trial = self._trial
        same = all(
            t.dtype == i.original.dtype
            for t, i in zip(tensors, trial.inputs, strict=True)
        )
        if same:
            return trial
        if self._wide is None:
            self._wide = trial.in_float64() or trial
            self._wide.outputs = trial.outputs
        return self._wide

    def _as_it_was(self) -> Any:
        return default_dtype(self._call.default_dtype)


class Parts:
    """The calls that this rank has kept, of which one is open at a time."""

    def __init__(
        self,
        kept: Mapping[Which, tuple[Ledger, KeptCall]],
        seed: int,
        enter: Callable[[Ledger, str], None],
    ) -> None:
        self._kept, self._seed, self._enter = kept, seed, enter
        self._open: Part | None = None

    def obey(self, order: Order) -> Any:
        """Run it; what is raised is told, for the ranks must not lose one another."""
        try:
            with torch.inference_mode(mode=False):
                return self._run(order)
        except Exception as error:
            cause = error.__cause__ or error
            first = (str(cause).strip() or "without a message").splitlines()[0]
            return Failed(f"{type(cause).__name__}: {first}")

    def _run(self, order: Order) -> Any:
        if order.which is not None:
            ledger, call = self._kept[order.which]
            self._open = Part(
                ledger, call, self._seed, lambda phase: self._enter(ledger, phase)
            )
            return self._open.side()
        assert self._open is not None
        self._open.drop(order.dropped)
        if order.what == "forward":
            return self._open.forward(list(order.tensors), order.key)  # type: ignore[arg-type]
        return self._open.backward(order.tensors, order.key)

    def serve(self, circle: Circle) -> None:
        """Do as rank 0 says until it closes.

        Raises:
            Apart: it went away.
        """
        while True:
            order: Order = circle.hand_out(None)
            if order.what == "close":
                return
            circle.hand_in(self.obey(order))
