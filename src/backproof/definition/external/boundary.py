"""Where tensors become arrays and arrays tensors, and what is promised there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from backproof.errors import BadInput

Takes = Literal["numpy", "torch"]


@dataclass(frozen=True)
class Boundary:
    """What a foreign function takes and gives.

    Attributes:
        owner: the name in errors.
        takes: "numpy" arrays or "torch" tensors, without autograd's knowledge of them.
        parameters: forward's parameter names.
        dtypes: what its tensors may be; empty for anything.
        contiguous: whether it is handed contiguous memory only.
    """

    owner: str
    takes: Takes
    parameters: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]
    contiguous: bool

    def outward(self, value: Any, name: str) -> Any:
        """A tensor as the foreign function takes it; anything else as it is.

        Raises:
            BadInput: its type or device is none that the function takes.
        """
        if not isinstance(value, Tensor):
            return value
        value = value.detach()
        if self.dtypes and value.is_floating_point() and value.dtype not in self.dtypes:
            raise BadInput(
                f"{self.owner}: {name} is {_short(value.dtype)}, and only "
                f"{', '.join(map(_short, self.dtypes))} was declared; convert it, as "
                f"with `{name}.to(torch.{_short(self.dtypes[0])})`"
            )
        if self.contiguous:  # a lazy negation or conjugation is not in the memory
            value = value.resolve_conj().resolve_neg().contiguous()
        return value if self.takes == "torch" else self._array(value, name)

    def inward(self, value: Any, name: str, like: Tensor) -> Tensor:
        """What the foreign function returned, as a tensor that is like `like`.

        Raises:
            BadInput: it is no array, or of another type or device than promised.
        """
        if self.takes == "numpy":
            if not isinstance(value, (np.ndarray, np.generic, float, int)):
                raise BadInput(
                    f"{self.owner}: {name} is a {type(value).__name__}, not an array"
                )
            value = _tensor(np.asarray(value))
        if not isinstance(value, Tensor):
            raise BadInput(
                f"{self.owner}: {name} is a {type(value).__name__}, not a tensor"
            )
        floating = value.is_floating_point() or value.is_complex()
        if floating and value.dtype != like.dtype:
            raise BadInput(
                f"{self.owner}: {name} is {_short(value.dtype)} where "
                f"{_short(like.dtype)} was promised, the type of the inputs; return "
                f"{self._converted(like.dtype)}"
            )
        if value.device != like.device:
            raise BadInput(
                f"{self.owner}: {name} is on {value.device}, the inputs are on "
                f"{like.device}"
            )
        return value

    def gradient(self, value: Any, name: str, tensor: Tensor) -> Tensor:
        """The gradient of `tensor`, summed over what forward broadcast.

        Raises:
            BadInput: its type or shape is not the input's.
        """
        if value is None:
            return torch.zeros_like(tensor)
        found = self.inward(value, name, tensor)
        if found.shape == tensor.shape:
            return found
        try:
            return found.sum_to_size(tensor.shape)
        except RuntimeError as error:
            raise BadInput(
                f"{self.owner}: {name} has shape {tuple(found.shape)}, and the input "
                f"has {tuple(tensor.shape)}; sum over what forward broadcast"
            ) from error

    def name_of(self, k: int) -> str:
        """Forward's parameter at place k."""
        return self.parameters[k] if k < len(self.parameters) else f"argument {k}"

    def _array(self, value: Tensor, name: str) -> Any:
        if value.device.type != "cpu":
            raise BadInput(
                f"{self.owner}: {name} is on {value.device}, and NumPy arrays are on the "
                f"CPU; move it with `{name}.cpu()`, or declare `takes='torch'`"
            )
        if value.dtype is torch.bfloat16:
            raise BadInput(
                f"{self.owner}: {name} is bfloat16, which NumPy lacks; convert it with "
                f"`{name}.float()`, or declare `takes='torch'`"
            )
        array = value.resolve_conj().resolve_neg().numpy()
        array.flags.writeable = False  # the memory is the caller's
        return array

    def _converted(self, dtype: torch.dtype) -> str:
        if self.takes == "numpy":
            return f"`result.astype(np.{_short(dtype)})`"
        return f"`result.to(torch.{_short(dtype)})`"


def promised(tensors: Sequence[Tensor]) -> Tensor:
    """A tensor of the type and device that the results are promised to have."""
    floating = [t for t in tensors if t.is_floating_point() or t.is_complex()]
    if not floating:
        return torch.empty(0, dtype=torch.get_default_dtype())
    widest = floating[0].dtype
    for tensor in floating[1:]:
        widest = torch.promote_types(widest, tensor.dtype)
    return torch.empty(0, dtype=widest, device=floating[0].device)


def _tensor(array: Any) -> Tensor:
    if any(stride < 0 for stride in array.strides) or not array.flags.writeable:
        array = array.copy()  # torch has neither
    return torch.from_numpy(array)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
