"""A method that is missing because its name is misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from types import FunctionType

from backproof.definition.form.complaint import Complaint
from backproof.definition.form.model import METHODS, Form, part_of

_ALIKE = 0.85  # a letter more, less or swapped


def near_names(form: Form) -> Complaint | None:
    """A class with a forward and a `backwards` means `backward`.

    A class that lacks either may be a base of others, and names like `backward_2` are
    helpers: only letters count.
    """
    has_forward = "forward" in form.parts
    if has_forward == (form.gradient is not None):
        return None
    missing = "backward" if has_forward else "forward"
    near = difflib.get_close_matches(missing, _candidates(form), 1, _ALIKE)
    if not near:
        return None
    return Complaint(
        "near-name",
        f"{near[0]} is no name that torch knows, and {missing} is missing",
        part_of(near[0], form.attributes[near[0]]).place,
        (f"Call it {missing}.",),
    )


def _candidates(form: Form) -> Iterator[str]:
    for name, value in form.attributes.items():
        is_method = isinstance(value, (staticmethod, classmethod, FunctionType))
        if is_method and name.isalpha() and name not in METHODS:
            yield name
