"""Why there is no script."""

from __future__ import annotations


class NoScript(Exception):
    """This finding cannot be shown by a script of its own; the text says why."""
