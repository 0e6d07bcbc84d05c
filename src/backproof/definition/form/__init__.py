"""Refusals at definition: a class whose form cannot work is told so when its body ends.

    refuse_malformed(cls)      # raises MalformedFunction, or returns None

Each rule refuses only what is certain. What cannot be judged is let through: `*args`,
decorators that may change what they wrap, returns that do not tell how many they are.
Nothing here imports torch.
"""

from __future__ import annotations

from backproof.definition.form.complaint import refusal
from backproof.definition.form.model import form_of
from backproof.definition.form.rules import RULES

__all__ = ["refuse_malformed"]


def refuse_malformed(cls: type) -> None:
    """Refuse a class whose form is wrong for certain.

    Inherited methods count, whichever class wrote them, but not the defaults that
    `torch.autograd.Function` and our own base class give.

    Raises:
        MalformedFunction: what is wrong, where, and what to write.
    """
    form = form_of(cls)
    for rule in RULES:
        complaint = rule(form)
        if complaint is not None:
            raise refusal(form, complaint)
