"""Two names for one method."""

from __future__ import annotations

from backproof.definition.form.complaint import Complaint, seen_at
from backproof.definition.form.model import Form


def one_pullback(form: Form) -> Complaint | None:
    """Either `backward` or `vjp` is written, not both."""
    backward, vjp = form.parts.get("backward"), form.parts.get("vjp")
    if backward is None or vjp is None:
        return None
    return Complaint(
        "backward-and-vjp",
        "backward and vjp are two names for one method, and both are written",
        vjp.place,
        (f"backward is there, too{seen_at(backward.place)}.", "Remove one of them."),
    )
