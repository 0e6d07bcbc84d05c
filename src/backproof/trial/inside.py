"""Operations inside of a `backproof.Function`, which a dispatch mode sees as one."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from backproof.definition.operator.operator import NAMESPACE

_KERNEL = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)  # of every device


def seen_inside(mode: TorchDispatchMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation; one of ours so that `mode` sees what its forward does."""
    if func.namespace != NAMESPACE:
        return func(*args, **kwargs)
    with mode:
        return func.redispatch(_KERNEL, *args, **kwargs)
