"""What backproof raises.

BackproofError
├── BadInput          (ValueError)      it could not be checked; the command line ends 2
├── MalformedFunction (TypeError)       a class was refused when its body ended
├── NoDerivative      (RuntimeError)    backward was asked for a derivative it has not
├── Undeclared        (RuntimeError)    a context needs what a kernel did not declare
└── WrongGradient     (AssertionError)  it was checked, and something is wrong
"""

from __future__ import annotations


class BackproofError(Exception):
    """Anything that backproof raises on purpose."""


class BadInput(BackproofError, ValueError):
    """What was given cannot be checked; the message names the value and the way out."""


class MalformedFunction(BackproofError, TypeError):
    """A class whose form cannot work; the message says what to write instead.

    Attributes:
        file: where the mistake stands; None where there is no text.
        line: its line there, from 1.
        rule: a short name for the mistake, such as `gradient-count`.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        rule: str = "",
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.rule = rule


class Undeclared(BackproofError, RuntimeError):
    """A context needs something that was not declared, such as how a kernel looks."""


class WrongGradient(BackproofError, AssertionError):
    """A law is broken or the subject crashed; raised by `Report.raise_if_wrong`."""


class NoDerivative(BackproofError, RuntimeError):
    """A derivative was asked for that a definition cannot give, rather than a wrong one."""
