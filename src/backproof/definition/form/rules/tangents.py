"""What forward mode gives to `jvp`."""

from __future__ import annotations

from backproof.definition.form.complaint import Complaint, counted, listed, seen_at
from backproof.definition.form.model import Form, Parameters


def tangents(form: Form) -> Complaint | None:
    """`jvp(ctx, *tangents)` takes one tangent for each argument of forward."""
    jvp, inputs = form.parts.get("jvp"), form.inputs
    taken = jvp.parameters if jvp else None
    if jvp is None or taken is None or inputs is None:
        return None
    rest = taken.without_first()
    if overlap(rest, inputs):
        return None
    wanted = listed(("ctx", *(f"tangent_{name}" for name in inputs.names)))
    return Complaint(
        "jvp-parameters",
        f"jvp takes {counted(len(rest.names), 'tangent')} where forward takes "
        f"{counted(len(inputs.names), 'argument')}",
        jvp.place,
        (
            (
                f"forward takes {listed(inputs.names)}"
                f"{seen_at(form.parts['forward'].place)}; the tangent of what is no "
                "tensor is None."
            ),
            f"Write `def jvp({wanted})`.",
        ),
    )


def overlap(one: Parameters, other: Parameters) -> bool:
    """Whether some number of arguments suits both."""
    least = max(one.least, other.least)
    return all(p.most is None or least <= p.most for p in (one, other))
