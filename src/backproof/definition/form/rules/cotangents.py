"""What backward is given."""

from __future__ import annotations

import ast

from backproof.definition.form.complaint import Complaint, counted, shown
from backproof.definition.form.counting import Counting
from backproof.definition.form.flow import live_returns
from backproof.definition.form.gradients import gives_gradient, value_of
from backproof.definition.form.model import Form, Part, Place
from backproof.source import Return


def cotangents(form: Form) -> Complaint | None:
    """`backward(ctx, *cotangents)` takes one cotangent for each output of forward.

    An output that is no tensor has one, too: None.
    """
    backward, forward = form.gradient, form.parts.get("forward")
    taken = backward.parameters if backward else None
    if backward is None or taken is None or "apply" in form.attributes:
        return None
    if not gives_gradient(backward) or form.attributes.get("boxed_grads_call"):
        return None
    if taken.most is not None and taken.most < 2:  # there is one output at least
        return _no_cotangent(backward, taken.names)
    outputs = _outputs(forward) if forward else []
    counts = {count for _, count in outputs}
    if forward is None or len(counts) != 1 or taken.without_first().take(min(counts)):
        return None
    return _miscounted(backward, forward, outputs[0])


def _outputs(forward: Part) -> list[tuple[Return, int]]:
    """Each return of forward and its count; none where one of them is not certain."""
    if forward.text is None:
        return []
    counting, found = Counting(forward.text), []
    for one in live_returns(forward.text):
        node = value_of(one)
        count = None if node is None else counting.length(node, ast.Tuple)
        if count is None:
            return []
        found.append((one, count))
    return found


def _miscounted(backward: Part, forward: Part, output: tuple[Return, int]) -> Complaint:
    assert forward.source is not None
    assert backward.parameters is not None
    written, count = output
    place = Place(forward.source.file, written.line, written.text)
    taken = len(backward.parameters.names) - 1
    names = ", ".join(_cotangent_names(written, count))
    return Complaint(
        "cotangent-count",
        f"{backward.name} takes {counted(taken, 'cotangent')} where forward returns "
        f"{counted(count, 'output')}",
        backward.place,
        (
            f"forward has `{written.text}` ({shown(place)}).",
            (
                f"Write `def {backward.name}(ctx, {names})`; it gets None for an output "
                "that is no tensor."
            ),
        ),
    )


def _cotangent_names(written: Return, count: int) -> list[str]:
    names = [element.name for element in written.elements]
    if len(names) == count and all(names) and len(set(names)) == count:
        return [f"grad_{name}" for name in names]
    return [f"grad_{k}" for k in range(count)]


def _no_cotangent(backward: Part, names: tuple[str, ...]) -> Complaint:
    return Complaint(
        "cotangent-count",
        f"{backward.name} takes {', '.join(names) or 'nothing'} where torch gives it "
        "ctx and a cotangent for each output",
        backward.place,
        (f"Write `def {backward.name}(ctx, grad_output)`.",),
    )
