"""The same random numbers at each call, and the user's global state as it was.

States are set through generators: `torch.manual_seed` formats a stack trace at every
call where a device is not initialised, which costs more than a small op.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


@contextmanager
def preserved() -> Iterator[None]:
    """Leave the global generators and torch's global settings as they were found."""
    generators = _generators()
    states = [g.get_state() for g in generators]
    python = random.getstate()
    numpy = sys.modules.get("numpy")
    legacy = numpy.random.get_state(legacy=False) if numpy else None
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    deterministic = torch.get_deterministic_debug_mode()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.get_deterministic_debug_mode() != deterministic:
            torch.set_deterministic_debug_mode(deterministic)
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        random.setstate(python)
        if numpy:
            numpy.random.set_state(legacy)


def restart(seed: int) -> None:
    """Start all of them from `seed`; only within `preserved`."""
    for generator in _generators():
        generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(seed & 0xFFFFFFFF)


def _generators() -> list[torch.Generator]:
    generators = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        generators += list(torch.cuda.default_generators)
    return generators


def draws(call: Callable[[], object], seed: int) -> bool:
    """Whether `call` moves one of the global generators; only within `preserved`."""
    restart(seed)
    before = snapshot()
    call()
    return snapshot() != before


GENERATORS = ("torch", "Python's random", "NumPy")
"""What `snapshot` lists, in order; the generators of GPUs follow."""


def snapshot() -> tuple[object, ...]:
    """The states of all global generators, each to be compared with `==`."""
    numpy = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy else ()
    first, *devices = _generators()
    return (
        bytes(first.get_state().numpy()),
        random.getstate(),
        tuple(bytes(part) if hasattr(part, "tobytes") else part for part in legacy),
        *(bytes(g.get_state().numpy()) for g in devices),
    )
