"""Call a module with other parameters, and leave it as it was.

`torch.func.functional_call` swaps tensors in and out by name. A submodule that is used
twice has two names, and swapping it twice leaves the first replacement behind, so each
owner is named once here. A parameter that several owners share is one input and is
swapped in all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from backproof.errors import BadInput
from backproof.trial.copies import twin, widened


class ModuleCall:
    """A module, its trainable parameters and its buffers.

    Attributes:
        trained: the parameters that need a gradient, each under its first name.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self.trained: dict[str, Tensor] = {}
        self._first_name: dict[str, str] = {}
        self._buffers: dict[str, Tensor] = {}
        self._kept: dict[str, Tensor] | None = None
        named: dict[int, str] = {}
        for prefix, owner in module.named_modules():
            for name, tensor in owner._parameters.items():
                if tensor is None:
                    continue
                path = f"{prefix}.{name}" if prefix else name
                if is_lazy(tensor):
                    raise BadInput(
                        f"{type(module).__name__}: `{path}` has no shape yet; call the "
                        "module once before it is checked"
                    )
                if tensor.requires_grad:
                    first = named.setdefault(id(tensor), path)
                    self.trained.setdefault(first, tensor)
                    self._first_name[path] = first
            for name, tensor in owner._buffers.items():
                if tensor is not None:
                    self._buffers[f"{prefix}.{name}" if prefix else name] = tensor

    def __call__(
        self,
        parameters: Sequence[Tensor],
        positional: tuple[Any, ...],
        keywords: dict[str, Any],
        *,
        wide: bool,
    ) -> Any:
        """Call it with `parameters`, in the order of `trained`, and copied buffers."""
        given = dict(zip(self.trained, parameters, strict=True))
        swapped = {path: given[first] for path, first in self._first_name.items()}
        swapped |= self._kept if self._kept is not None else self._copied(wide=wide)
        return torch.func.functional_call(
            self._module, swapped, positional, keywords, tie_weights=False
        )

    def keeping_buffers(self) -> ModuleCall:
        """The same with buffers that are copied once, and shared by calls from then on."""
        other = copy.copy(self)
        other._kept = self._copied(wide=False)
        return other

    def _copied(self, *, wide: bool) -> dict[str, Tensor]:
        return {
            path: twin(widened(buffer) if wide else buffer)
            for path, buffer in self._buffers.items()
        }
