"""What backproof raises.

BackproofError
├── BadInput      (ValueError)      it could not be checked; the command line ends 2
└── WrongGradient (AssertionError)  it was checked, and something is wrong
"""

from __future__ import annotations


class BackproofError(Exception):
    """Anything that backproof raises on purpose."""


class BadInput(BackproofError, ValueError):
    """What was given cannot be checked; the message names the value and the way out."""


class WrongGradient(BackproofError, AssertionError):
    """A law is broken or the subject crashed; raised by `Report.raise_if_wrong`."""
