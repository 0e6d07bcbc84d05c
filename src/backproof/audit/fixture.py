"""What the fixture `backproof_check` of the pytest plugin does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from backproof.battery.check import check
from backproof.errors import BadInput
from backproof.report import Report

_OPTIONS = (
    *("expect", "expect_backward", "reference", "noise", "name", "seed", "laws"),
    *("contexts", "budget", "domains"),
)


def checking(device: str, dtype: str) -> Callable[..., Report]:
    """`backproof.check` on one device in one type; raises where the gradient is wrong.

    Raises:
        BadInput: the name is no floating type of torch.
    """
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise BadInput(f"{dtype!r} is no floating type; such as float64, bfloat16")

    def moved(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        other = value.detach().to(device)
        if value.is_floating_point():
            other = other.to(kind)
        return other.requires_grad_(value.requires_grad)

    def run(target: Any, *arguments: Any, **keywords: Any) -> Report:
        __tracebackhide__ = True
        options = {k: keywords.pop(k) for k in _OPTIONS if k in keywords}
        arguments, keywords = pytree.tree_map(moved, (arguments, keywords))
        if isinstance(target, torch.nn.Module):
            target = target.to(device, kind)
        return check(target, *arguments, **options, **keywords).raise_if_wrong()

    return run
