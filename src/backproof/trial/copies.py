"""Copies for the subject to work on, so that the caller's things stay as they are."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

_MUTABLE = (np.ndarray, np.random.RandomState, np.random.Generator)


def twin(tensor: Tensor) -> Tensor:
    """A copy with the same strides, storage offset, and conjugate and negative bits."""
    source = tensor.detach()
    if source.layout is not torch.strided or source.numel() == 0:
        return source.clone()
    if source.is_conj():
        return twin(source.conj()).conj()
    if source.is_neg():
        return twin(torch._neg_view(source))._neg_view()
    if source.is_contiguous() and source.storage_offset() == 0:
        return source.clone()
    extent = 1 + sum(
        (n - 1) * s for n, s in zip(source.shape, source.stride(), strict=True)
    )
    whole = source.as_strided((source.storage_offset() + extent,), (1,), 0).clone()
    return whole.as_strided(source.shape, source.stride(), source.storage_offset())


def laid_out_like(old: Tensor, fresh: Tensor) -> Tensor:
    """`fresh` with the strides and offset of `old`; dense where elements overlap.

    Elements that share memory cannot be moved one by one.
    """
    out = twin(old)
    if any(s == 0 and n > 1 for n, s in zip(out.shape, out.stride(), strict=True)):
        return fresh
    out.copy_(fresh)
    same = torch.equal(out, fresh) or not bool(torch.isfinite(fresh).all())
    return out if same else fresh


def untouched(leaf: Any) -> Any:
    """An argument that is not moved: a copy where calls are known to change it.

    Tensors, arrays and random generators are copied, so that each call finds them as
    the caller left them; other objects are handed on as they are.
    """
    if isinstance(leaf, Tensor):
        return twin(leaf)
    if isinstance(leaf, torch.Generator):
        return leaf.clone_state()
    if isinstance(leaf, _MUTABLE):
        return copy.deepcopy(leaf)
    return leaf


def narrowed(leaf: Any) -> Any:
    """A float64 tensor in float32 (complex128 in complex64); anything else as it is."""
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    if not isinstance(leaf, Tensor) or leaf.dtype not in narrow:
        return leaf
    return leaf.detach().to(narrow[leaf.dtype]).requires_grad_(leaf.requires_grad)


def widened(leaf: Any) -> Any:
    """A floating tensor in float64 (complex in complex128); anything else as it is."""
    if not isinstance(leaf, Tensor) or not (
        leaf.is_floating_point() or leaf.is_complex()
    ):
        return leaf
    wide = torch.complex128 if leaf.is_complex() else torch.float64
    if leaf.dtype == wide:
        return leaf
    return leaf.detach().to(wide).requires_grad_(leaf.requires_grad)
