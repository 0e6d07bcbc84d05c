"""Methods that Python would bind to an instance, which a Function never has."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from backproof.definition.form.complaint import Complaint
from backproof.definition.form.model import Form, Part, layers
from backproof.definition.form.use import treats_as_ctx


def static_methods(form: Form) -> Complaint | None:
    """Each method is a staticmethod or a classmethod."""
    for part in form.parts.values():
        if _binds(form, part):
            return _complaint(part)
    return None


def _binds(form: Form, part: Part) -> bool:
    """Whether it was written in the body of a class, and nothing made it static.

    A plain function that is assigned there, as `type()` does it, works as it is.
    """
    # `@once_differentiable` above `@staticmethod` works: the static one is called
    static = (isinstance(one, (staticmethod, classmethod)) for one in layers(part.held))
    if not isinstance(part.held, FunctionType) or any(static):
        return False
    return _is_written_in(form.cls, list(layers(part.held))[-1])


def _is_written_in(cls: type, function: Any) -> bool:
    code = getattr(function, "__code__", None)
    scope = "" if code is None else code.co_qualname.rpartition(".")[0]
    return any(scope == owner.__qualname__ for owner in cls.__mro__)


def _complaint(part: Part) -> Complaint:
    if part.first == "self" and treats_as_ctx(part) is None:
        return Complaint(
            "instance-method",
            f"{part.name} takes self, and a Function has no instance",
            part.place,
            (
                "torch would give it something else in the place of self.",
                (
                    "Pass what it needs as arguments of forward, for instance from an "
                    f"nn.Module that calls apply, and write `@staticmethod` above "
                    f"{part.name}."
                ),
            ),
        )
    return Complaint(
        "not-static",
        f"{part.name} is not a staticmethod",
        part.place,
        (f"Write `@staticmethod` above {part.name}.",),
    )
