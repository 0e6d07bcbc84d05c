"""Serve requests in this very process: for debuggers, and where nothing else works."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from typing import Self

from backproof.cli.events import Event, Request
from backproof.errors import BadInput


class InProcess:
    """No worker: a crash of the user's code is a crash of the command.

    Attributes:
        torch: the version of torch.
    """

    def __init__(self) -> None:
        self.torch: str | None = None
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        from backproof.target.importing import TORCH_MISSING

        try:
            import torch
        except ModuleNotFoundError as error:
            raise BadInput(TORCH_MISSING) from error
        self.torch = str(torch.__version__)
        _send_output_to_stderr(self._undo)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def serve(self, request: Request, emit: Callable[[Event], None]) -> None:
        """Serve `request`, telling `emit` what happens."""
        from backproof.cli.work import serve

        serve(request, emit)


def _send_output_to_stderr(undo: ExitStack) -> None:
    """Keep what the user's code prints, also from C, off standard output."""
    sys.stdout.flush()
    saved = os.dup(1)
    undo.callback(os.close, saved)
    undo.callback(os.dup2, saved, 1)
    os.dup2(2, 1)
    undo.enter_context(redirect_stdout(sys.stderr))
