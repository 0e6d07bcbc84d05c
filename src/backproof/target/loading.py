"""A place -> candidates: subjects, each with what makes its cases.

Making the cases runs the user's code, so it waits until somebody asks for them: one
subject whose inputs raise must not stop the others.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from backproof import dispatcher
from backproof.errors import BadInput
from backproof.inputs.draw import draw
from backproof.inputs.made import cases_of, positional
from backproof.inputs.registered import identity, registered, registered_in
from backproof.records import Location
from backproof.report import Unchecked
from backproof.subject import Case, Subject, subject_of
from backproof.target.declared import declared_gradient, declared_noise
from backproof.target.importing import module_at
from backproof.target.names import defined_in, found, nothing_to_check
from backproof.target.place import Place
from backproof.target.ways import no_inputs


@dataclass(frozen=True)
class Options:
    """What the command line says beside the target."""

    inputs: tuple[str, ...] = ()
    inputs_from: str | None = None
    expect: str | None = None
    reference: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Candidate:
    """A subject, and a function that makes its cases (and may raise BadInput)."""

    target: str
    subject: Subject
    cases: Callable[[], list[Case]]


@dataclass(frozen=True)
class Loaded:
    """What a place holds: candidates, and subjects that nothing gives inputs for."""

    candidates: tuple[Candidate, ...] = ()
    skipped: tuple[Unchecked, ...] = ()


def load(place: Place, options: Options) -> Loaded:
    """Import what is at `place` and find the subjects in it.

    Raises:
        BadInput: it does not import, has no such name, holds nothing that can be
            checked, or nothing says on which inputs to run it.
    """
    if options.inputs and options.inputs_from:
        raise BadInput("--inputs and --inputs-from are two answers; give one of them")
    module = module_at(place)
    objects = _objects(module, place)
    if not objects:
        return _nothing(place, nothing_to_check(module, place.text))
    about_one = {"--expect": options.expect, "--reference": options.reference}
    for option, given in about_one.items():
        if given and len(objects) > 1:
            names = ", ".join(name for name, _ in objects)
            raise BadInput(
                f"{option} is about one subject, and {place.text} has {names}; "
                f"name it: {place.text}::{objects[0][0]}"
            )
    candidates, without = [], []
    for name, target in objects:
        subject = _subject(
            module, name, target, place, options, alone=len(objects) == 1
        )
        makers = _makers(module, target, options)
        full = place.text if place.name else f"{place.text}::{name}"
        if makers is None:
            without.append((full, subject))
            continue
        cases = functools.partial(_all_cases, makers, subject, options)
        candidates.append(Candidate(full, subject, cases))
    if not candidates:
        full, subject = without[0]
        return _nothing(place, no_inputs(subject, full, place, len(without) - 1))
    left = [Unchecked(target, "it has no inputs") for target, _ in without]
    return Loaded(tuple(candidates), (*left, *_beside_op(module, place, objects)))


def _beside_op(
    module: ModuleType, place: Place, objects: list[tuple[str, Any]]
) -> list[Unchecked]:
    """Functions of a file whose `op` is checked alone, unless `op` is made of them."""
    if place.name is not None or [name for name, _ in objects] != ["op"]:
        return []
    op = objects[0][1]
    used = getattr(getattr(op, "__code__", None), "co_names", ())
    return [
        Unchecked(
            f"{place.text}::{name}", "the file has an `op`, which alone is checked"
        )
        for name, function in defined_in(module)
        if identity(op) is not identity(function) and name not in used
    ]


def _nothing(place: Place, reason: str) -> Loaded:
    """In a folder a file with nothing to check is skipped; by name it is an error."""
    if not place.in_folder:
        raise BadInput(reason)
    first = reason.partition("\n")[0].rstrip(":")
    return Loaded(skipped=(Unchecked(place.text, first),))


def _objects(module: ModuleType, place: Place) -> list[tuple[str, Any]]:
    """The things under test, with their names in the module."""
    if place.name is not None:
        return [(place.name, found(module, place.name, place.text))]
    op = getattr(module, "op", None)
    if callable(op):
        return [("op", op)]
    objects = defined_in(module)
    for key in registered_in(module.__name__):
        if all(key is not known for _, known in objects):
            objects.append((_name_in(module, key), key))
    return objects


def _name_in(module: ModuleType, key: Any) -> str:
    names = [name for name, value in vars(module).items() if value is key]
    return names[0] if names else getattr(key, "__name__", type(key).__name__)


def _subject(
    module: ModuleType,
    name: str,
    target: Any,
    place: Place,
    options: Options,
    *,
    alone: bool,
) -> Subject:
    expect = declared = reference = None
    if options.expect:
        expect = found(module, options.expect, "--expect")
    else:
        declared = declared_gradient(module, name, target, alone=alone)
    if options.reference:
        reference = found(module, options.reference, "--reference")
    subject = subject_of(
        target,
        name=None if _has_own_name(place, name, target) else name,
        expect=expect,
        expect_backward=declared,
        reference=reference,
        noise=declared_noise(module, name, target),
    )
    if subject.where is None and place.module != "torch":
        where = Location(module.__file__ or module.__name__)
        subject = dataclasses.replace(subject, where=where)
    return subject


def _has_own_name(place: Place, name: str, target: Any) -> bool:
    """Whether `target` tells more of itself than `name` does."""
    if dispatcher.is_operator(target):
        return name == "op" or place.module == "torch"
    own = getattr(identity(target), "__name__", "<lambda>")
    return name == "op" and own != "<lambda>"


def _makers(
    module: ModuleType, target: Any, options: Options
) -> list[Callable[..., Any]] | None:
    """The functions that give inputs, none for input strings; None without a way."""
    if options.inputs:
        return []
    if options.inputs_from:
        return [found(module, options.inputs_from, "--inputs-from")]
    makers = registered(target)
    if makers:
        return makers
    inputs = getattr(module, "inputs", None)
    return [inputs] if callable(inputs) else None


def _all_cases(
    makers: list[Callable[..., Any]], subject: Subject, options: Options
) -> list[Case]:
    names, seed = subject.parameter_names(), options.seed
    cases = [
        positional(draw(text, names, seed=seed), subject, "--inputs")
        for text in options.inputs
    ]
    for maker in makers:
        cases += cases_of(maker, subject, seed=seed)
    return cases
