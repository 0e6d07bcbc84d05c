"""Custom gradients for PyTorch that people can trust.

    report = backproof.check(MyLinear, x, w, None)
    report.verdict, report.findings; report.raise_if_wrong()

Every public name is loaded on its first use, so that importing the package costs
nothing and leaves torch alone: reading a report or explaining a code needs neither.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backproof.audit.recording import Recording, recording
    from backproof.battery.check import check
    from backproof.battery.gradcheck import gradcheck
    from backproof.definition.external import External, external
    from backproof.definition.function import Function
    from backproof.definition.surrogate import Surrogate, surrogate
    from backproof.errors import (
        BackproofError,
        BadInput,
        MalformedFunction,
        NoDerivative,
        Undeclared,
        WrongGradient,
    )
    from backproof.inputs import inputs_for
    from backproof.probe.domain import Domain
    from backproof.records import Evidence, Finding, Outcome, Verdict
    from backproof.report import Report
    from backproof.subject import Case, Subject

    __version__: str

__all__ = [
    "BackproofError",
    "BadInput",
    "Case",
    "Domain",
    "Evidence",
    "External",
    "Finding",
    "Function",
    "MalformedFunction",
    "NoDerivative",
    "Outcome",
    "Recording",
    "Report",
    "Subject",
    "Surrogate",
    "Undeclared",
    "Verdict",
    "WrongGradient",
    "__version__",
    "check",
    "external",
    "gradcheck",
    "inputs_for",
    "recording",
    "surrogate",
]

_HOME = {
    "BackproofError": "backproof.errors",
    "BadInput": "backproof.errors",
    "Case": "backproof.subject",
    "Domain": "backproof.probe.domain",
    "Evidence": "backproof.records",
    "External": "backproof.definition.external",
    "Finding": "backproof.records",
    "Function": "backproof.definition.function",
    "MalformedFunction": "backproof.errors",
    "NoDerivative": "backproof.errors",
    "Outcome": "backproof.records",
    "Recording": "backproof.audit.recording",
    "Report": "backproof.report",
    "Subject": "backproof.subject",
    "Surrogate": "backproof.definition.surrogate",
    "Undeclared": "backproof.errors",
    "Verdict": "backproof.records",
    "WrongGradient": "backproof.errors",
    "check": "backproof.battery.check",
    "external": "backproof.definition.external",
    "gradcheck": "backproof.battery.gradcheck",
    "inputs_for": "backproof.inputs",
    "recording": "backproof.audit.recording",
    "surrogate": "backproof.definition.surrogate",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("backproof")
    elif name in _HOME:
        value = getattr(_loaded(_HOME[name], wanted=name), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _loaded(module: str, *, wanted: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"backproof.{wanted} needs PyTorch: pip install 'backproof[torch]'",
            name="torch",
        ) from error
