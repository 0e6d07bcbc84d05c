"""Where in the user's code a definition is made."""

from __future__ import annotations

import sys


def caller() -> str:
    """The name of the module that called into backproof."""
    frame = sys._getframe(1)
    name = str(frame.f_globals.get("__name__", ""))
    while frame.f_back is not None and name.startswith("backproof."):
        frame = frame.f_back
        name = str(frame.f_globals.get("__name__", ""))
    return name
