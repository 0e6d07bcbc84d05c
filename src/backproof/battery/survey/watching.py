"""What a subject does beside torch operations, seen in one run of it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Literal, Self

import torch
from torch import Tensor

Draws = Literal["", "generator", "state"]

_LEAVING_TORCH = ("numpy", "__array__", "tolist", "data_ptr", "__dlpack__")
_SETTING = ("set_state", "manual_seed", "seed")  # methods of a generator


class Watching(torch.overrides.TorchFunctionMode):
    """Sees tensors handed to somebody other than torch, and where randomness is from.

    Who sets the global generator is seen by Python's profiler, which also looks into
    kernels that are written in Python; where somebody else is profiling it is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left = False
        self._generator = self._drew = self._profiles = False
        self._was_set_to: Tensor | None = None

    @property
    def draws(self) -> Draws:
        """`state` after the global generator was set and drawn from, or `generator`."""
        if self._drew:
            return "state"
        return "generator" if self._generator else ""

    def __enter__(self) -> Self:
        self._profiles = sys.getprofile() is None
        if self._profiles:
            sys.setprofile(self._profile)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        if self._profiles:
            sys.setprofile(None)
        self._compare()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") in _LEAVING_TORCH:
            self.left = True
        if (kwargs or {}).get("generator") is not None:
            self._generator = True
        return func(*args, **(kwargs or {}))

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if getattr(called, "__name__", "") not in _SETTING:
            return
        if getattr(called, "__self__", None) is not torch.default_generator:
            return
        if event == "c_call":
            self._compare()
        elif event == "c_return":
            self._was_set_to = torch.default_generator.get_state()

    def _compare(self) -> None:
        """Whether anything was drawn since the state was set."""
        if self._was_set_to is not None:
            now = torch.default_generator.get_state()
            self._drew |= not torch.equal(now, self._was_set_to)
