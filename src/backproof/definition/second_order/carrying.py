"""The derivative of tensors that forward made and saved.

Forward runs outside autograd, so what it saves that is neither an input nor an output is
a constant to a derivative of backward, and torch drops that term without a word. Here
forward runs once more, differentiably, and its tensors lend their derivative to the
saved ones. Where that cannot be trusted, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from backproof.definition import private
from backproof.definition.recording.recording import Run, differentiable
from backproof.definition.second_order.seeing import InSight


class Rerun:
    """Forward, run again with gradients on.

    Args:
        forward: runs it.
        inputs: the tensors that it is given.
        owner: the name of the class.
    """

    def __init__(
        self, forward: Callable[[], Run], inputs: Sequence[Any], owner: str
    ) -> None:
        self._owner = owner
        self._inputs = [
            t for t in inputs if isinstance(t, Tensor) and differentiable(t)
        ]
        with (
            torch.random.fork_rng(),
            torch.enable_grad(),
            _Watch() as self._watch,
            InSight(),
        ):
            try:
                self.run: Run | None = forward()
            except Exception as error:  # not where it can be differentiated
                self.run, self._why = None, str(error).split("\n", 1)[0]

    def lend(self, extras: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Extras of the first run, with the derivative of this one's.

        One whose derivative cannot be trusted comes back unchanged in value, and raises
        `NoDerivative` when somebody differentiates through it.
        """
        return {k: self._lent(k, old) for k, old in extras.items()}

    def refused(self, tensor: Tensor, why: str) -> Tensor:
        """The tensor, depending on every input through a node that raises."""
        from backproof.definition.nodes import Refuse

        message = (
            f"{self._owner}: a derivative of its backward needs the derivative of a "
            f"tensor that forward made and saved, and forward {why}. Save inputs or "
            "outputs and compute the tensor in backward, or mark backward with "
            "`once_differentiable`"
        )
        refused: Tensor = Refuse.apply(message, 1, tensor, *self._inputs)[0]
        return refused

    def _lent(self, k: int, old: Tensor) -> Tensor:
        from backproof.definition.nodes import Attach

        if not differentiable(old):
            return old
        if self.run is None:
            return self.refused(old, f"cannot be followed by autograd ({self._why})")
        if k >= len(self.run.extras):
            return self.refused(old, "does not repeat what it saves")
        new = self.run.extras[k]
        transformed = private.under(private.functorch_active)
        seen = not (transformed or private.under(private.dispatch_modes) or old.is_meta)
        if _same_memory(old, new):
            return old  # a constant of the module
        if not (new.requires_grad or transformed):
            made = not seen or self._watch.made(new)
            return old if made else self.refused(old, "makes it outside of torch")
        if self._watch.drew is not None:
            return self.refused(old, f"draws random numbers ({self._watch.drew})")
        if not _may_be_equal(old, new):
            return self.refused(old, "does not repeat its result")
        attached: Tensor = Attach.apply(old, new)
        return attached


def _may_be_equal(one: Tensor, other: Tensor) -> bool:
    """False where they differ; under vmap and a tracer nobody can compare."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_meta or private.under(private.dispatch_modes):
        return True
    try:
        same = (one == other) | (one.isnan() & other.isnan())
        return bool(same.all())
    except RuntimeError:
        return True


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Which memory torch's own operations filled, and whether one drew numbers."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drew: str | None = None
        self._filled: dict[int, Tensor] = {}  # the tensors keep the addresses taken

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.drew = func._schema.name.removeprefix("aten::")
        if not func._schema.name.startswith(("aten::empty", "aten::new_empty")):
            views = func.is_view
            for leaf in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(leaf, Tensor) and not views:
                    self._filled[_address(leaf)] = leaf
        return result

    def made(self, tensor: Tensor) -> bool:
        """Whether an operation of torch gave this tensor its values."""
        return _address(tensor) in self._filled


def _address(tensor: Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address


def _same_memory(one: Tensor, other: Tensor) -> bool:
    try:
        return _address(one) == _address(other)
    except (NotImplementedError, RuntimeError):  # wrapped by a transform
        return False
