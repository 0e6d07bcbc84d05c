"""The same values in another layout of memory.

A form takes a tensor and gives its equal with other strides, another storage offset or
a lazy bit; None where that form does not exist for such a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from backproof.battery.cases.variant import Variant
from backproof.trial import Trial

Form = Callable[[Tensor], Tensor | None]

_ALONE = 4  # tensors that are each varied alone as well; more only together


def transposed(tensor: Tensor) -> Tensor | None:
    """Column-major: the dimensions in memory in the opposite order."""
    if sum(n > 1 for n in tensor.shape) < 2 or tensor.numel() == 0:
        return None
    order = tuple(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def sliced(tensor: Tensor) -> Tensor | None:
    """Every second element of a larger buffer, from an offset, other numbers between."""
    if tensor.numel() == 0:
        return None
    shape = (*tensor.shape, 2) if tensor.dim() else (3,)
    part = _filled(tensor, shape)[..., 1]
    part.copy_(tensor)
    return part


def padded(tensor: Tensor) -> Tensor | None:
    """Rows with a gap between them, as a slice of a wider matrix has it."""
    if tensor.dim() < 2 or tensor.numel() == 0:
        return None
    wide = (*tensor.shape[:-1], tensor.shape[-1] + 3)
    part = _filled(tensor, wide)[..., 2:-1]
    part.copy_(tensor)
    return part


def channels_last(tensor: Tensor) -> Tensor | None:
    """Images with their channels innermost."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    wanted = formats.get(tensor.dim())
    if wanted is None or tensor.numel() == 0:
        return None
    other = tensor.contiguous(memory_format=wanted)
    return None if other.is_contiguous() else other


def negative_view(tensor: Tensor) -> Tensor | None:
    """With the negative bit, as the imaginary part of a conjugate has it."""
    if not tensor.is_floating_point() or tensor.is_neg():
        return None
    return torch._neg_view(tensor.neg())


def conjugate_view(tensor: Tensor) -> Tensor | None:
    """With the conjugate bit, as `.conj()` and `.mH` give it."""
    if not tensor.is_complex() or tensor.is_conj():
        return None
    return tensor.conj().resolve_conj().conj()


FORMS: Mapping[str, Form] = {
    "transposed": transposed,
    "sliced with an offset": sliced,
    "with padded rows": padded,
    "in channels_last": channels_last,
    "as a negative view": negative_view,
    "as a conjugate view": conjugate_view,
}


def layouts(trial: Trial) -> Iterator[Variant]:
    """Every form for all tensors together, and for each of a few alone.

    All tensors among the arguments are varied, also those that need no gradient; those
    that overlap themselves already, and parameters of a module, are left as they are.
    """
    arguments = len(trial.leaves) - trial.num_parameters
    for label, form in FORMS.items():
        changed: dict[int, Tensor] = {}
        for k, leaf in enumerate(trial.leaves[:arguments]):
            if isinstance(leaf, Tensor) and _is_plain(leaf):
                other = form(leaf.detach())
                if other is not None:
                    changed[k] = other.requires_grad_(leaf.requires_grad)
        if not changed:
            continue
        groups = [list(changed)]
        if 1 < len(changed) <= _ALONE and "view" not in label:
            groups += [[k] for k in changed]
        for group in groups:
            names = ", ".join(f"`{trial.names[k]}`" for k in group)
            leaves = [
                changed[k] if k in group else leaf
                for k, leaf in enumerate(trial.leaves)
            ]
            yield Variant(f"{names} {label}", trial.with_leaves(leaves), label=label)
    yield from _expanded(trial)


def _expanded(trial: Trial) -> Iterator[Variant]:
    """Inputs that are one row repeated with stride 0, beside the same rows in full."""
    rows: dict[int, Tensor] = {}
    for k, leaf in enumerate(trial.leaves[: len(trial.leaves) - trial.num_parameters]):
        if isinstance(leaf, Tensor) and leaf.requires_grad and _is_plain(leaf):
            full = leaf.detach()
            if full.dim() and full.shape[0] > 1:
                rows[k] = full[:1].clone().expand(full.shape)
    for k, row in rows.items():
        repeated, written_out = list(trial.leaves), list(trial.leaves)
        repeated[k] = row.requires_grad_()
        written_out[k] = row.detach().contiguous().requires_grad_()
        yield Variant(
            f"`{trial.names[k]}` expanded (stride 0)",
            trial.with_leaves(repeated),
            trial.with_leaves(written_out),
            label="expanded",
        )


def _filled(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A buffer whose numbers are not those of `tensor`; indices stay in range."""
    number = tensor.is_floating_point() or tensor.is_complex()
    value = 7.0 if number else tensor.reshape(-1)[0].item()
    return torch.full(shape, value, dtype=tensor.dtype, device=tensor.device)


def _is_plain(tensor: Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return False
    return not any(
        s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride(), strict=True)
    )
