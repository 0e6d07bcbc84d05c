"""What a user's methods see as `ctx` where torch has none to give."""

from __future__ import annotations

from typing import Any

from torch import Tensor


class Context:
    """The part of `torch.autograd.function.FunctionCtx` that methods write and read.

    What they set on it by themselves is in `__dict__`, all else in slots.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "dirty",
        "materialize_grads",
        "needs_input_grad",
        "non_differentiable",
        "saved_for_forward",
        "saved_tensors",
    )

    def __init__(self, needs_input_grad: tuple[Any, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Tensor | None, ...] = ()
        self.saved_for_forward: tuple[Tensor | None, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self.dirty: tuple[Tensor, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward."""
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp."""
        self.saved_for_forward = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward changed in place."""
        self.dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001
        """Say whether an output that nobody used has a cotangent of zeros, or None."""
        self.materialize_grads = value

    @property
    def to_save(self) -> tuple[Tensor | None, ...]:
        """What was kept for backward."""
        return self.saved_tensors

    def maybe_clear_saved_tensors(self) -> None:
        """Nothing to free: what is saved belongs to the call around it."""
