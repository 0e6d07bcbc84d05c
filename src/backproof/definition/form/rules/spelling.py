"""The two spellings: ctx in forward, or `setup_context` and a forward without."""

from __future__ import annotations

import difflib

from backproof.definition.form.complaint import Complaint, seen_at
from backproof.definition.form.gradients import certain_gradients
from backproof.definition.form.model import Form, Part
from backproof.definition.form.use import treats_as_argument, treats_as_ctx

_CTX_NAMES = ("ctx", "context", "self")
_SETUP = 3  # ctx, inputs, output


def setup_parameters(form: Form) -> Complaint | None:
    """`setup_context` takes ctx, the tuple of inputs, and the output."""
    setup = form.parts.get("setup_context")
    taken = setup.parameters if setup else None
    if setup is None or taken is None or taken.take(_SETUP):
        return None
    return Complaint(
        "setup-parameters",
        f"setup_context takes {', '.join(taken.names) or 'nothing'} where torch gives "
        "it three things",
        setup.place,
        (
            "These are ctx, the tuple of all inputs of forward, and its output.",
            "Write `def setup_context(ctx, inputs, output)`.",
        ),
    )


def ctx_beside_setup(form: Form) -> Complaint | None:
    """Beside a `setup_context`, forward takes no ctx."""
    forward, setup = form.parts.get("forward"), form.parts.get("setup_context")
    if forward is None or setup is None or form.inputs is None:
        return None
    if not _takes_ctx(form, forward):
        return None
    rest = ", ".join(form.inputs.names[1:])
    return Complaint(
        "ctx-beside-setup",
        f"forward takes {forward.first}, and there is a setup_context",
        forward.place,
        (
            (
                f"Beside setup_context{seen_at(setup.place)} forward gets its arguments "
                "alone."
            ),
            (
                f"Write `def forward({rest})` and do in setup_context what needs ctx, or "
                "remove setup_context."
            ),
        ),
    )


def missing_ctx(form: Form) -> Complaint | None:
    """Without a `setup_context`, forward takes ctx first."""
    forward = form.parts.get("forward")
    taken = forward.parameters if forward else None
    if forward is None or taken is None or form.has_setup or form.inputs is None:
        return None
    if taken.most == 0:
        return _complaint(form, forward, "forward takes nothing, not even ctx")
    seen = treats_as_argument(forward)
    if forward.first in ("ctx", "context") or seen is None:
        return None
    if forward.first == "self":
        return _needs_self(forward, seen)
    claim = f"forward takes {forward.first} in the place of ctx, and no setup_context"
    return _complaint(form, forward, f"{claim} is there", seen)


def _takes_ctx(form: Form, forward: Part) -> bool:
    if treats_as_ctx(forward) is not None:
        return True
    if forward.first not in _CTX_NAMES or treats_as_argument(forward) is not None:
        return False
    gradients = certain_gradients(form.gradient) if form.gradient else ()
    counts = {one.count for one in gradients}
    if counts and form.inputs is not None:
        return counts == {len(form.inputs.names) - 1}
    return forward.first == "ctx"


def _complaint(
    form: Form, forward: Part, claim: str, seen: str | None = None
) -> Complaint:
    assert forward.parameters is not None
    names = ", ".join(("ctx", *forward.parameters.names))
    first = f"It has `{seen}`, and torch gives ctx there. " if seen else ""
    near = difflib.get_close_matches("setup_context", form.attributes, 1, 0.7)
    if near:
        remedy = f"`{near[0]}` is no name that torch knows: is it `setup_context`?"
    else:
        remedy = f"Write `def forward({names})`, or add a setup_context."
    return Complaint("no-ctx", claim, forward.place, (f"{first}{remedy}",))


def _needs_self(forward: Part, seen: str) -> Complaint:
    return Complaint(
        "instance-method",
        "forward needs self, and a Function has no instance",
        forward.place,
        (
            f"It has `{seen}`, and what torch gives there is ctx.",
            (
                "Pass what it needs as arguments of forward, for instance from an "
                "nn.Module that calls apply."
            ),
        ),
    )
