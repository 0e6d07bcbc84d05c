"""Verify before a program destroys its process group: afterwards ranks are apart."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch.distributed

from backproof.audit.ranks.circle import distributed

_NAME = "destroy_process_group"


@contextmanager
def before_destruction(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` each time that the default group of several ranks is about to go."""
    if not torch.distributed.is_available():
        yield
        return
    homes = (torch.distributed, torch.distributed.distributed_c10d)
    before = getattr(homes[1], _NAME)

    @functools.wraps(before)
    def destroy(group: Any = None) -> None:
        found = distributed()
        if found is not None and (group is None or group == found.group.WORLD):
            with suppress(Exception):  # a defect of ours must not end the program
                act()
        before(group)

    for home in homes:
        setattr(home, _NAME, destroy)
    try:
        yield
    finally:
        for home in homes:
            if getattr(home, _NAME) is destroy:
                setattr(home, _NAME, before)
