"""A gradient that is computed and not returned."""

from __future__ import annotations

import ast

from backproof.definition.form.complaint import Complaint
from backproof.definition.form.flow import last_statements, live_returns
from backproof.definition.form.model import Form, Part, Place
from backproof.source import Assignment, Method

_OUTER = (ast.Global, ast.Nonlocal)


def dropped_result(form: Form) -> Complaint | None:
    """Backward returns what it computes.

    To return nothing is legal, and stands for no gradient; so is an end without a return
    beside returns, in a case that may never come. To give a name to a value, as the very
    last thing, is neither.
    """
    backward = form.gradient
    method = backward.text if backward else None
    if backward is None or method is None or live_returns(method):
        return None
    last = _last_assignment(method)
    return None if last is None else _complaint(form, backward, last)


def _last_assignment(method: Method) -> Assignment | None:
    if any(isinstance(node, _OUTER) for node in ast.walk(method.node)):
        return None
    last = last_statements(method)
    for one in method.assignments:
        if one.node in last and one.value is not None and not one.name.startswith("_"):
            return one
    return None


def _complaint(form: Form, backward: Part, last: Assignment) -> Complaint:
    assert backward.source is not None
    several = form.inputs is None or form.inputs.most != 1
    others = ", and a gradient or None for each other argument" if several else ""
    return Complaint(
        "no-return",
        f"{backward.name} computes {last.name} and returns nothing",
        Place(backward.source.file, last.line, last.text),
        (
            "torch takes that for no gradient at all.",
            f"End with `return {last.name}`{others}.",
        ),
    )
