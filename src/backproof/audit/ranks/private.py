"""Every name of torch.distributed that ranks use and that torch does not document.

Each has a fallback: nothing can be exchanged, or a replay waits as long as the program
itself would.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import torch


def default_store() -> Any:
    """The store that the ranks met at, None where it is not told."""
    found = getattr(_c10d(), "_get_default_store", None)
    return found() if found is not None else None


def group_timeouts(without: Any) -> Iterator[tuple[Any, dt.timedelta]]:
    """What runs the collectives of each process group, and how long it waits.

    Without NCCL's, which would end the process after so long, and one group.
    """
    kind = getattr(_c10d(), "ProcessGroupGloo", None)
    world = getattr(_c10d(), "_world", None)
    for group in list(getattr(world, "pg_map", {})):
        devices = getattr(group, "_device_types", ()) if group is not without else ()
        for device in devices:
            try:
                backend = group._get_backend(device)
            except RuntimeError:  # this group has none for it
                continue
            waits = getattr(getattr(backend, "options", None), "_timeout", None)
            if kind is not None and isinstance(backend, kind) and waits is not None:
                yield backend, waits


def process_group(argument: Any) -> Any:
    """The process group that an argument of an operator is or names, else None."""
    if isinstance(argument, torch.ScriptObject):
        try:
            return torch.distributed.ProcessGroup.unbox(argument)
        except (RuntimeError, AttributeError):  # it is something else
            return None
    if isinstance(argument, str):
        find = getattr(_c10d(), "_resolve_process_group", None)
        try:
            return find(argument) if find is not None else None
        except (RuntimeError, ValueError, KeyError):  # the name of a reduction
            return None
    return None


def _c10d() -> Any:
    return torch.distributed.distributed_c10d
