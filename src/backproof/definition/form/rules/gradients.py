"""How many gradients backward returns."""

from __future__ import annotations

import ast

from backproof.definition.form.complaint import Complaint, counted, listed, seen_at
from backproof.definition.form.gradients import Gradients, certain_gradients
from backproof.definition.form.model import Form, Parameters, Part, Place


def gradient_count(form: Form) -> Complaint | None:
    """Each return of backward has one gradient for each argument of forward.

    A caller may leave out arguments that have a default, and torch takes None beyond
    the last argument.
    """
    backward, inputs = form.gradient, form.inputs
    if backward is None or inputs is None:
        return None
    for found in certain_gradients(backward):
        if found.count < inputs.least:
            return _too_few(form, backward, found, inputs)
        if inputs.most is not None and any(k >= inputs.most for k in found.values):
            return _too_many(form, backward, found, inputs)
    return None


def _too_few(
    form: Form, backward: Part, found: Gradients, inputs: Parameters
) -> Complaint:
    missing = inputs.names[found.count : inputs.least]
    gets = "gets" if len(missing) == 1 else "get"
    words = f"{_forward(form, inputs)}; {listed(missing)} {gets} none."
    if found.is_list:
        words = f"{_forward(form, inputs)}; torch takes a list for one gradient."
    return Complaint(
        "gradient-count",
        f"{_claim(backward, found)} {_taken(inputs)}",
        _place(backward, found),
        (words, _completed(found, missing)),
    )


def _too_many(
    form: Form, backward: Part, found: Gradients, inputs: Parameters
) -> Complaint:
    assert inputs.most is not None
    kept = [one.text for one in found.written.elements[: inputs.most]]
    extra = [
        one.text for position, one in found.values.items() if position >= inputs.most
    ]
    belongs = "belongs" if len(extra) == 1 else "belong"
    remedy = f"Write `return {', '.join(kept)}`." if kept else "Return None."
    return Complaint(
        "gradient-count",
        f"{_claim(backward, found)} {_taken(inputs)}",
        _place(backward, found),
        (
            (
                f"{_forward(form, inputs)}; "
                f"{', '.join(f'`{one}`' for one in extra)} {belongs} to none of them."
            ),
            remedy,
        ),
    )


def _claim(backward: Part, found: Gradients) -> str:
    gives = "a list" if found.is_list else counted(found.count, "gradient")
    return f"{backward.name} returns {gives} where forward takes"


def _taken(inputs: Parameters) -> str:
    at_least = "" if inputs.most == inputs.least else "at least "
    shown = inputs.most if inputs.most == inputs.least else inputs.least
    return f"{at_least}{counted(shown or 0, 'argument')}"


def _forward(form: Form, inputs: Parameters) -> str:
    where = seen_at(form.parts["forward"].place)
    return f"forward takes {listed(inputs.names)}{where}"


def _completed(found: Gradients, missing: tuple[str, ...]) -> str:
    """What to write: None, or a gradient, at the place of each argument."""
    written = found.written
    if found.is_list:
        return "Return a tuple, with one gradient or None for each argument."
    if not written.is_tuple and not _is_plain(written.elements[0].node):
        return "Return one gradient, or None, for each argument, in their order."
    texts = [one.text for one in written.elements] + ["None"] * len(missing)
    whose = listed(missing) if len(missing) == 1 else "each"
    return (
        f"Write `return {', '.join(texts)}`, or the gradient of {whose} in its place."
    )


def _is_plain(node: ast.expr) -> bool:
    """Whether one gradient is written there, so that `, None` can follow it."""
    return isinstance(node, (ast.Name, ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript))


def _place(backward: Part, found: Gradients) -> Place | None:
    assert backward.source is not None
    written = found.written
    return Place(backward.source.file, written.line, written.text)
