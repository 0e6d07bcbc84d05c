"""Everything global that a context may touch, left as it was found."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from backproof.trial.random_state import preserved


@contextlib.contextmanager
def surroundings_kept() -> Iterator[None]:
    """Run one context: quietly, with gradients on, and nothing of it stays behind."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(preserved())
        stack.enter_context(_quiet())
        stack.enter_context(_excepthook_kept())
        stack.enter_context(_no_fallback_warnings())
        stack.enter_context(_autograd_kept())
        stack.enter_context(_dynamo_reset())
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No warnings, no log lines, nothing printed: compilers think aloud."""
    before = logging.root.manager.disable
    unread = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(unread),
        contextlib.redirect_stderr(unread),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)


@contextlib.contextmanager
def _excepthook_kept() -> Iterator[None]:
    """A process group wraps it in one that puts the rank before each line."""
    before = sys.excepthook
    try:
        yield
    finally:
        sys.excepthook = before


@contextlib.contextmanager
def _no_fallback_warnings() -> Iterator[None]:
    """C++ writes these past Python's warnings; torch.func's has no way to be asked for."""
    native: Any = torch._C
    legacy = native._debug_only_are_vmap_fallback_warnings_enabled()
    native._debug_only_display_vmap_fallback_warnings(False)  # noqa: FBT003
    native._functorch._set_vmap_fallback_warning_enabled(False)  # noqa: FBT003
    try:
        yield
    finally:
        native._debug_only_display_vmap_fallback_warnings(legacy)
        native._functorch._set_vmap_fallback_warning_enabled(True)  # noqa: FBT003


@contextlib.contextmanager
def _autograd_kept() -> Iterator[None]:
    """Grad mode, inference mode, anomaly mode, and autocast for each device."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        anomaly = torch.is_anomaly_enabled()
        stack.enter_context(torch.autograd.set_detect_anomaly(mode=anomaly))
        for device in ("cpu", *(["cuda"] if torch.cuda.is_available() else [])):
            stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextlib.contextmanager
def _dynamo_reset() -> Iterator[None]:
    """Nothing compiled before is used, and nothing that is compiled stays."""
    _reset()
    try:
        yield
    finally:
        _reset()


def _reset() -> None:
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()
