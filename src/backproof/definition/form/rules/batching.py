"""What `vmap` calls."""

from __future__ import annotations

from backproof.definition.form.complaint import Complaint, listed, seen_at
from backproof.definition.form.model import Form
from backproof.definition.form.rules.tangents import overlap

_LEADING = 2  # info, in_dims


def one_vmap(form: Form) -> Complaint | None:
    """A vmap method is not written beside `generate_vmap_rule = True`."""
    vmap = form.parts.get("vmap")
    if vmap is None or form.attributes.get("generate_vmap_rule") is not True:
        return None
    return Complaint(
        "two-vmaps",
        "a vmap method is written beside generate_vmap_rule = True",
        vmap.place,
        ("Remove the method, or write `generate_vmap_rule = False`.",),
    )


def vmap_parameters(form: Form) -> Complaint | None:
    """`vmap(info, in_dims, *arguments)` takes what forward takes."""
    vmap, inputs = form.parts.get("vmap"), form.inputs
    taken = vmap.parameters if vmap else None
    if vmap is None or taken is None or inputs is None:
        return None
    rest = taken.without_first(_LEADING)
    is_short = taken.most is not None and taken.most < _LEADING
    if not is_short and overlap(rest, inputs):
        return None
    wanted = listed(("info", "in_dims", *inputs.names))
    return Complaint(
        "vmap-parameters",
        f"vmap takes {listed(taken.names)} where it is given {wanted}",
        vmap.place,
        (
            (
                f"forward takes {listed(inputs.names)}"
                f"{seen_at(form.parts['forward'].place)}."
            ),
            f"Write `def vmap({wanted})`.",
        ),
    )
