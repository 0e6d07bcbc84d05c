"""Policies by name."""

from __future__ import annotations

import ast
import difflib
import linecache
from typing import Any

from backproof.definition.form.complaint import Complaint
from backproof.definition.form.model import Form, Place
from backproof.source import source_of
from backproof.source.binding import bindings

_AUTOCAST = ("promote", "float32", "lower")
_SWITCHES = ("contiguous", "device_guard", "deterministic")


def policies(form: Form) -> Complaint | None:
    """Each policy has a value that it knows."""
    for name, value in form.attributes.items():
        if name == "autocast" and not _is_autocast(value):
            return _complaint(form, name, value, _autocast_remedy(value))
        if name in _SWITCHES and not isinstance(value, bool):
            return _complaint(
                form,
                name,
                value,
                "Write True or False, or call an attribute of your own otherwise.",
            )
    return None


def _is_autocast(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in _AUTOCAST)


def _autocast_remedy(value: Any) -> str:
    near = difflib.get_close_matches(str(value), _AUTOCAST, 1)
    guess = f' Is it "{near[0]}"?' if near else ""
    return f'Write "promote", "float32", "lower" or None.{guess}'


def _complaint(form: Form, name: str, value: Any, remedy: str) -> Complaint:
    return Complaint(
        "policy-value",
        f"the policy {name} is {value!r:.60}",
        _place(form, name),
        (remedy,),
    )


def _place(form: Form, name: str) -> Place | None:
    """The line of the class body that gives `name` its value."""
    owner = next(one for one in form.cls.__mro__ if name in vars(one))
    source = source_of(owner)
    if source is None:
        return None
    for statement in source.node.body:
        for target, _ in bindings(statement):
            if isinstance(target, ast.Name) and target.id == name:
                text = linecache.getline(source.file, statement.lineno).strip()
                return Place(source.file, statement.lineno, text)
    return None
