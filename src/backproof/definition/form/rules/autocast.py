"""torch.amp's decorators, which keep what autocast was on the first parameter."""

from __future__ import annotations

from types import FunctionType

from backproof.definition.form.complaint import Complaint, seen_at
from backproof.definition.form.model import Form, Part, is_of_torch, layers
from backproof.definition.form.use import hands_over, sets

_NOTE = "_fwd_used_autocast"  # what custom_fwd leaves on ctx for custom_bwd


def autocast_decorators(form: Form) -> Complaint | None:
    """`custom_bwd` has a `custom_fwd` whose notes it finds on ctx.

    `custom_fwd` alone is no mistake in this sense: backward then runs as autocast is at
    that time, which may be meant.
    """
    forward, backward = form.parts.get("forward"), form.gradient
    if forward is None or backward is None or "apply" in form.attributes:
        return None
    if not _has(backward, "custom_bwd"):
        return None
    setup = form.parts.get("setup_context")
    if setup is not None:
        return _beside_setup(backward, setup) if _leaves_no_note(setup) else None
    if _has(forward, "custom_fwd") or not _leaves_no_note(forward):
        return None
    return _alone(forward, backward)


def _has(part: Part, decorator: str) -> bool:
    return any(
        isinstance(layer, FunctionType)
        and is_of_torch(layer)
        and layer.__code__.co_qualname.startswith(f"{decorator}.")
        for layer in layers(part.held)
    )


def _leaves_no_note(part: Part) -> bool:
    """Whether `part`, which is given ctx, surely does not do custom_fwd's work."""
    method, ctx = part.text, part.first
    if method is None or ctx is None:
        return False
    return not sets(method, ctx, _NOTE) and not hands_over(method, ctx)


def _beside_setup(backward: Part, setup: Part) -> Complaint:
    return Complaint(
        "amp-beside-setup",
        f"{backward.name} has custom_bwd, and there is a setup_context",
        backward.place,
        (
            (
                f"Beside setup_context{seen_at(setup.place)} custom_fwd never sees the ctx "
                f"that custom_bwd reads, so that {backward.name} raises."
            ),
            (
                'Remove both decorators and write `autocast = "float32"`, "lower" or '
                '"promote" in the class.'
            ),
        ),
    )


def _alone(forward: Part, backward: Part) -> Complaint:
    return Complaint(
        "amp-alone",
        f"{backward.name} has custom_bwd, and forward has no custom_fwd",
        backward.place,
        (
            (
                f"custom_bwd reads from ctx what custom_fwd leaves there, so that "
                f"{backward.name} raises."
            ),
            (
                f"Decorate forward{seen_at(forward.place)} with custom_fwd, or remove "
                'custom_bwd and write `autocast = "float32"`, "lower" or "promote" in the '
                "class."
            ),
        ),
    )
