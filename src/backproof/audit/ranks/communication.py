"""Which Functions communicate with other ranks, and with which.

Seen are the operators that torch.distributed runs: a kernel that communicates by itself
is taken for one that does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from backproof.audit.ledger import KeptCall, Ledger
from backproof.audit.ranks import private
from backproof.audit.replay import CannotReplay, Replay, default_dtype
from backproof.errors import BadInput
from backproof.trial import BackwardRaised, Trial
from backproof.trial.inside import seen_inside

_NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")


class _Alone(Exception):
    """It would have waited for other ranks, who are not there."""


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what communicates.

    Attributes:
        communicates: whether anything did.
        groups: the ranks of each process group that was used.
    """

    def __init__(self, *, refuse: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.communicates = False
        self.groups: set[tuple[int, ...]] = set()
        self._refuse = refuse

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: what torch puts around a mode for that imports dynamo, for seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Refuse or note it, and run it."""
        if func.namespace in _NAMESPACES:
            self.communicates = True
            if self._refuse:
                raise _Alone(str(func))
            self.groups |= set(_groups(args))
        return seen_inside(self, func, args, kwargs or {})


def communicates(ledger: Ledger, call: KeptCall, seed: int) -> bool:
    """Whether forward or backward would; neither gets to do it.

    Costs a forward and a backward, on this rank alone.
    """
    watching = Watching(refuse=True)
    try:
        with default_dtype(call.default_dtype), torch.inference_mode(mode=False):
            replay = Replay(ledger, call)
            trial = Trial(replay.subject, replay.case, seed=seed)
            with watching:
                graph = trial.record()
                trial.pull(graph, torch.ones_like(graph.values))
    except (BadInput, BackwardRaised, CannotReplay):
        return watching.communicates  # what else is wrong the battery will say
    return watching.communicates


def connected(groups: list[set[tuple[int, ...]]], size: int) -> list[tuple[int, ...]]:
    """The ranks that communicate with one another, however indirectly, in order.

    `groups` holds what each rank used; those who used none stand alone.
    """
    parts: list[set[int]] = [{rank} for rank in range(size)]
    for group in (group for used in groups for group in used):
        touched = [part for part in parts if part & set(group)]
        parts = [part for part in parts if part not in touched]
        parts.append(set().union(*touched))
    return sorted(tuple(sorted(part)) for part in parts)


def _groups(args: Any) -> Iterator[tuple[int, ...]]:
    """The ranks of the process groups among an operator's arguments."""
    for arg in args:
        group = private.process_group(arg)
        if group is not None:
            yield tuple(torch.distributed.get_process_group_ranks(group))
