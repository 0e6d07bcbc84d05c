"""`recording()`: watch the Functions that a program calls, and keep a few calls of each."""

from __future__ import annotations

import fnmatch
import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from backproof import tree
from backproof.audit import hook
from backproof.audit.identity import (
    Identity,
    Origin,
    file_of,
    identity_of,
    is_foreign,
    origin_of,
    package_of,
)
from backproof.audit.kept import bytes_of, keep
from backproof.audit.ledger import KeptCall, Ledger, Signature
from backproof.audit.ranks.circle import distributed
from backproof.definition import private
from backproof.errors import BadInput

if TYPE_CHECKING:
    from backproof.report import Report

MEMORY = 256 * 2**20
"""Bytes of arguments that are kept by default."""

CALLS = 3
"""Calls that are kept of each Function, for each kind of arguments, by default."""

_EVERY_CALL = 1000  # calls of a Function that are looked at one by one
_THEN_EACH = 16  # and then one of so many
_CLASSES = 64  # of one place in the source that are remembered; some are made a call
_FLAT = (Tensor, type(None), bool, int, float, str)  # it holds no tensor inside
_VALUELESS = ("FakeTensor", "FunctionalTensor")
_DEVICES = ("cpu", "cuda")


@dataclass
class _Tracked:
    """A class that was met: where its calls are counted."""

    ledger: Ledger | None
    origin: Origin


class _Here(threading.local):
    """What holds in one thread."""

    busy = False  # keeping may itself call Functions, of a tensor subclass
    needs: tuple[bool, ...] | None = (
        None  # by a level of torch.func, for the call inside
    )


class Recording:
    """What was seen of each Function.

    Attributes:
        ledgers: one a Function, in the order of first calls.
        memory: bytes that may be kept.
        most_calls: calls that may be kept of each kind of arguments.
        kept_bytes: bytes that are kept now.
    """

    def __init__(
        self,
        *,
        calls: int = CALLS,
        memory: int = MEMORY,
        only: Collection[str] = (),
        on_function: Callable[[str, str, int | None], None] | None = None,
    ) -> None:
        if calls < 1:
            raise BadInput(
                f"calls kept of each Function must be at least 1, not {calls}"
            )
        if memory < 0:
            raise BadInput(f"memory must not be negative, and is {memory}")
        self.ledgers: dict[Identity, Ledger] = {}
        self.most_calls, self.memory, self.kept_bytes = calls, memory, 0
        self._only = tuple(only)
        self._on_function = on_function
        self._tracked: dict[type, _Tracked] = {}
        self._chance = random.Random(0)  # its own: the program's is left alone
        self._lock = threading.Lock()
        self._here = _Here()

    def verify(self, *, seconds: float = 60.0, seed: int = 0) -> Report:
        """Replay what was kept, and say which gradients are wrong.

        Args:
            seconds: of all together; what was not reached is listed.
            seed: of directions and cotangents.

        Returns:
            A report with one subject for each Function that was called.

        Raises:
            BadInput: `seconds` is not above 0.
        """
        from backproof.audit.verification import Verification

        verification = Verification(seconds=seconds, seed=seed)
        verification.verify(self)
        return verification.report(self)

    def watch(
        self, cls: type, arguments: tuple[Any, ...]
    ) -> Callable[[Any], None] | None:
        """Take in one call, before it runs. Never raises, and changes nothing.

        What it returns is to be told the result.
        """
        tracked = self._tracked.get(cls)
        if tracked is None:
            tracked = self._track(cls)
        ledger = tracked.ledger
        if ledger is None:
            return None
        if tracked.origin.level:
            self._note_level(arguments)
            return None
        ledger.calls += 1
        if ledger.calls > _EVERY_CALL and ledger.calls % _THEN_EACH:
            return None
        if self._here.busy:
            return None
        self._here.busy = True
        try:
            kept = self._look(ledger, tracked.origin, arguments)
            if kept is not None and distributed() is not None:
                return _observing(kept, arguments, first=len(ledger.kept) == 1)
        except Exception as error:  # a tensor of a strange kind must not stop a program
            ledger.unrecorded[f"its arguments cannot be copied: {_first(error)}"] += 1
        finally:
            self._here.busy = False
        return None

    def let_go(self, *, last: bool = True) -> None:
        """Forget every kept call; counts stay.

        Calls that needed no gradient wait for the last time: others may decide.
        """
        with self._lock:
            for ledger in self.ledgers.values():
                self.kept_bytes -= ledger.let_go()
                if last:
                    self.kept_bytes -= ledger.drop_ungraded()

    # ------------------------------------------------------------------ looking

    def _track(self, cls: type) -> _Tracked:
        with self._lock:
            origin = origin_of(cls)
            written = origin.written
            if is_foreign(written) or not self._wanted(written):
                tracked = _Tracked(None, origin)
            else:
                identity = identity_of(written)
                ledger = self.ledgers.get(identity)
                if ledger is None:
                    package, file = package_of(written), file_of(written)
                    ledger = Ledger(identity, written, package, file)
                    self.ledgers[identity] = ledger
                    self._tell(ledger)
                ledger.classes += 1
                if ledger.classes > _CLASSES:
                    return _Tracked(ledger, origin)
                tracked = _Tracked(ledger, origin)
            if written is cls or tracked.ledger is None:  # those of torch.func are many
                self._tracked[cls] = tracked
            return tracked

    def _tell(self, ledger: Ledger) -> None:
        if self._on_function is not None:
            line = ledger.identity.line or None
            self._on_function(ledger.identity.name, ledger.file, line)

    def _wanted(self, cls: type) -> bool:
        name = f"{cls.__module__}.{cls.__qualname__}"
        return not self._only or any(
            fnmatch.fnmatchcase(name, pattern) or pattern in name
            for pattern in self._only
        )

    def _note_level(self, arguments: tuple[Any, ...]) -> None:
        """At a level of torch.func: which inputs need a gradient there."""
        leaves = _leaves(arguments)
        mine = tuple(t.requires_grad for t in leaves if isinstance(t, Tensor))
        before = self._here.needs
        if before is not None and len(before) == len(mine):
            mine = tuple(a or b for a, b in zip(before, mine, strict=True))
        self._here.needs = mine

    def _look(
        self, ledger: Ledger, origin: Origin, arguments: tuple[Any, ...]
    ) -> KeptCall | None:
        marked, self._here.needs = self._here.needs, None
        if private.tracing_state is not None and private.tracing_state() is not None:
            ledger.unrecorded["torch.jit.trace was tracing it"] += 1
            return None  # to look at its tensors would add to the graph
        if origin.in_dims is not None:
            arguments = _first_of_batch(arguments, origin.in_dims)
        enabled = torch.is_grad_enabled()
        leaves = _leaves(arguments)
        reason = _unreadable(leaves)
        if reason is _WRAPPED:
            leaves, marked = _opened(leaves)
            arguments, reason = tree.rebuild(arguments, iter(leaves)), ""
        if reason:
            ledger.unrecorded[reason] += 1
            return None
        needs = [leaf.requires_grad for leaf in leaves if isinstance(leaf, Tensor)]
        if marked is not None and len(marked) == len(needs):
            needs = [a or b for a, b in zip(needs, marked, strict=True)]
            enabled = True
        signature = _signature(leaves, needs)
        ledger.meet(signature)
        if not any(needs) or not enabled:
            self._keep_ungraded(ledger, origin, arguments, leaves)
        if not any(needs):
            ledger.unrecorded["no input needed a gradient"] += 1
        elif not enabled:
            ledger.unrecorded["it ran without gradients"] += 1
        else:
            return self._keep(ledger, origin, arguments, signature, needs)
        return None

    def _keep_ungraded(
        self,
        ledger: Ledger,
        origin: Origin,
        arguments: tuple[Any, ...],
        leaves: Sequence[Any],
    ) -> None:
        """One call as if it needed gradients, should none that did be decided."""
        floats = [
            leaf.is_floating_point() or leaf.is_complex()
            for leaf in leaves
            if isinstance(leaf, Tensor)
        ]
        with self._lock:
            size = bytes_of(arguments)
            room = self.kept_bytes + size <= self.memory
            if ledger.ungraded or not any(floats) or not room:
                return
            signature = _signature(leaves, floats)
            ledger.ungraded = self._copied(ledger, origin, arguments, signature, floats)
            self.kept_bytes += ledger.ungraded.size

    def _keep(
        self,
        ledger: Ledger,
        origin: Origin,
        arguments: tuple[Any, ...],
        signature: Signature,
        needs: list[bool],
    ) -> KeptCall | None:
        leaves = _leaves(arguments)
        numel = sum(leaf.numel() for leaf in leaves if isinstance(leaf, Tensor))
        with self._lock:
            place = ledger.place_for(signature, numel, self.most_calls, self._chance)
            if place is None:
                return None
            kind, slot = place
            before = kind.kept.get(slot)
            size = bytes_of(arguments)
            freed = before.size if before is not None else 0
            if self.kept_bytes - freed + size > self.memory:
                ledger.unrecorded[
                    f"no memory was left for {_megabytes(size)} of arguments"
                ] += 1
                return None
            made = self._copied(ledger, origin, arguments, signature, needs)
            kind.kept[slot] = made
            self.kept_bytes += made.size - freed
            return made

    def _copied(
        self,
        ledger: Ledger,
        origin: Origin,
        arguments: tuple[Any, ...],
        signature: Signature,
        needs: list[bool],
    ) -> KeptCall:
        leaves = _leaves(arguments)
        with _undisturbed():
            kept, size = keep(arguments, iter(needs))
        return KeptCall(
            written=origin.written,
            arguments=kept,
            signature=signature,
            number=ledger.calls,
            numel=sum(leaf.numel() for leaf in leaves if isinstance(leaf, Tensor)),
            size=size,
            autocast=tuple(
                (device, torch.get_autocast_dtype(device))
                for device in _DEVICES
                if torch.is_autocast_enabled(device)
            ),
            default_dtype=torch.get_default_dtype(),
            device=torch.get_default_device(),
            label=f"call {ledger.calls}",
        )


@contextmanager
def recording(
    *,
    calls: int = CALLS,
    memory: int = MEMORY,
    only: Collection[str] = (),
) -> Iterator[Recording]:
    """Watch every custom Function that runs within, in all threads.

        with backproof.recording() as seen:
            train_one_epoch()
        report = seen.verify()

    Functions bound before (`f = MyFn.apply`) are seen too, as are those of
    `backproof.Function`. torch's own are left out. Recordings may be nested: each sees
    every call. Nothing is left in torch behind the end, also after an exception.

    Seen where torch lets it: in eager, autocast, forward mode, inference mode,
    checkpoint, threads, and under torch.func where a Function has `setup_context`.
    Not seen: what runs compiled (dynamo takes forward and backward apart), C++ nodes,
    and `forward` called without `apply`.

    Args:
        calls: how many calls are kept of each Function for each kind of arguments: the
            first, the smallest, then random later ones.
        memory: bytes of arguments that may be kept in all.
        only: names or patterns of the Functions that are wanted, all by default.

    Raises:
        BadInput: a number that makes no sense, or a torch that cannot be watched.
    """
    made = Recording(calls=calls, memory=memory, only=only)
    with hook.watched(made.watch):
        yield made


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Out of sight of the program's modes, and of the levels of torch.func."""
    with ExitStack() as stack:
        if private.dispatch_modes is not None and private.dispatch_modes():
            stack.enter_context(private.without_modes())
        if private.functorch_active is not None and private.functorch_active():
            stack.enter_context(private.without_functorch())
        yield


def _observing(
    kept: KeptCall, arguments: tuple[Any, ...], *, first: bool
) -> Callable[[Any], None] | None:
    """Note what ranks may compare; without it they judge a call as it stands."""
    from backproof.audit.ranks.observation import observe

    try:
        with _undisturbed():
            return observe(kept, arguments, first=first)
    except Exception:  # tensors of a strange kind
        return None


_WRAPPED = "torch.func wrapped its tensors"


def _unreadable(leaves: Sequence[Any]) -> str:
    """Why a call cannot be recorded; empty where it can."""
    wrapped = private.wrapped_by_functorch
    for leaf in leaves:
        if isinstance(leaf, torch.fx.Proxy):
            return "torch.fx was tracing it"
        if not isinstance(leaf, Tensor):
            continue
        if leaf.is_meta or type(leaf).__name__ in _VALUELESS:
            return "its tensors had no values (meta or fake)"
        if wrapped is not None and wrapped(leaf):
            return _WRAPPED
    return ""


def _opened(leaves: Sequence[Any]) -> tuple[list[Any], tuple[bool, ...]]:
    """Leaves without what torch.func put around them, and which needed a gradient.

    Of a batch under vmap it is the first element.
    """
    opened: list[Any] = []
    needs: list[bool] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            value, wanted = leaf, leaf.requires_grad
            while private.wrapped_by_functorch(value):
                dim = private.batch_dim(value) if private.is_batched(value) else None
                value = private.unwrapped(value)
                if dim is not None:
                    value = value.select(dim, 0)
                wanted |= value.requires_grad
            needs.append(wanted)
            opened.append(value)
        else:
            opened.append(leaf)
    return opened, tuple(needs)


def _first_of_batch(arguments: tuple[Any, ...], in_dims: Any) -> tuple[Any, ...]:
    """The arguments of the first element of a batch under vmap."""
    dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(arguments)
    return tuple(
        argument.select(dim, 0)
        if isinstance(argument, Tensor) and isinstance(dim, int)
        else argument
        for argument, dim in zip(arguments, dims, strict=True)
    )


def _leaves(arguments: tuple[Any, ...]) -> Sequence[Any]:
    for argument in arguments:
        if not isinstance(argument, _FLAT):
            return [leaf for _, leaf in tree.leaves(arguments, "")]
    return arguments


def _signature(leaves: Sequence[Any], needs: Sequence[bool]) -> Signature:
    wanted = iter(needs)
    return tuple(
        (
            tuple(leaf.shape),
            leaf.stride() if leaf.layout is torch.strided else (),
            leaf.dtype,
            leaf.device.type,
            next(wanted),
        )
        if isinstance(leaf, Tensor)
        else leaf
        if isinstance(leaf, (bool, str))  # they choose what a Function does
        else type(leaf)
        for leaf in leaves
    )


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else "less than a MiB"


def _first(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
