"""The one line that declares a surrogate's gradient, which is only told once it holds.

The line is text; what it says is made of that text, handed to the law of declared
gradients (BP107) on the same inputs, and printed if that law holds.
"""

from __future__ import annotations

import dataclasses
import itertools
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.battery.examination import Examination
from backproof.battery.laws.declared_gradient import declared_gradient
from backproof.definition.surrogate import surrogate
from backproof.diagnosis.surrogate import Shape
from backproof.errors import BadInput
from backproof.records import Status
from backproof.subject import Subject, subject_of
from backproof.trial import Refused, Trial

_RESERVED = ("g", "torch", "backproof", "others")
_MOST_WAYS = 4  # of writing the same gradient that are tried


@dataclass(frozen=True)
class Declared:
    """A line of code, and whether the law of declared gradients holds with it.

    Attributes:
        line: what the user may write.
        holds: whether backward is what it says.
        words: the first thing that differs, where one does.
    """

    line: str
    holds: bool
    words: str = ""


def texts(trial: Trial) -> dict[str, str]:
    """How each argument, and each input, is called in code."""
    found: dict[str, str] = {}
    fresh = (f"x{k}" for k in itertools.count())
    for name, _ in trial.named_arguments:
        fine = name.isidentifier() and not keyword.iskeyword(name)
        fine &= name not in _RESERVED and name not in found.values()
        found[name] = name if fine else next(fresh)
    return found


def as_gradient(
    examination: Examination, shapes: Mapping[str, Shape]
) -> Declared | None:
    """`check(..., expect_backward=...)`; None where an input's gradient is not known.

    Of several ways to write it that differ in rounding, the first that holds.
    """
    trial = examination.trial
    first: Declared | None = None
    for gradients in _ways(trial, shapes):
        made = _lambda(trial, gradients, "g")
        call = ", ".join([_target(trial.subject), *_handed(trial)])
        line = f"backproof.check({call}, expect_backward={made})"
        subject = dataclasses.replace(
            trial.subject, expect=None, expect_backward=_function(made)
        )
        declared = _tried(examination, subject, line)
        if declared.holds:
            return declared
        first = first or declared
    return first


def as_soft(
    examination: Examination, shapes: Mapping[str, Shape], *, everywhere: bool
) -> Declared | None:
    """`surrogate(hard, soft)` that holds; None where there is no such soft function.

    Args:
        examination: of the subject.
        shapes: of its inputs.
        everywhere: whether the subject's own backward has to be soft's derivative too,
            which it cannot be where it is not finite.
    """
    trial = examination.trial
    if len(trial.inputs) != 1 or trial.subject.module is not None:
        return None
    for soft in shapes[trial.inputs[0].name].softs:
        made = _lambda(trial, [soft], "")
        target, function = _target(trial.subject), _function(made)
        hard = f"{target}.apply" if trial.subject.definition is not None else target
        line = f"backproof.surrogate({hard}, {made})"
        if everywhere:
            expecting = dataclasses.replace(
                trial.subject, expect=function, expect_backward=None
            )
            if not _tried(examination, expecting, line).holds:
                continue
        one = surrogate(trial.subject.function, function)
        defined = subject_of(one, name=trial.subject.name)
        declared = _tried(examination, defined, line)
        if declared.holds:
            return declared
    return None


def _ways(trial: Trial, shapes: Mapping[str, Shape]) -> Iterator[list[str]]:
    """What each positional argument's gradient is written as."""
    by_input = {i.name: shapes.get(i.name) for i in trial.inputs}
    if trial.subject.module is not None and trial.num_parameters:
        return
    every: list[Sequence[str]] = []
    arguments = dict(trial.named_arguments)
    for name, argument in arguments.items():
        held = [leaf for _, leaf in tree.leaves(argument, name)]
        needed = any(isinstance(v, Tensor) and v.requires_grad for v in held)
        if name in trial.case.keywords:
            if needed:
                return
            continue
        if not needed:
            every.append(["None"])
            continue
        shape = by_input.get(name)
        if shape is None:
            return
        every.append(["None"] if shape.name == "zero" else shape.gradients)
    ways = itertools.islice(itertools.product(*every), _MOST_WAYS)
    yield from (list(way) for way in ways)


def _lambda(trial: Trial, results: Sequence[str], cotangent: str) -> str:
    named = texts(trial)
    keywords = trial.case.keywords
    parameters = [cotangent] if cotangent else []
    parameters += [named[n] for n, _ in trial.named_arguments if n not in keywords]
    if keywords:
        parameters.append("**others")
    whole = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"lambda {', '.join(parameters)}: {whole}"


def _handed(trial: Trial) -> list[str]:
    named, keywords = texts(trial), trial.case.keywords
    return [
        f"{name}={named[name]}" if name in keywords else named[name]
        for name, _ in trial.named_arguments
    ]


def _target(subject: Subject) -> str:
    name = subject.name
    if subject.definition is not None:
        name = subject.definition.__name__
    return name if name.isidentifier() else "op"


def _function(text: str) -> Callable[..., Any]:
    """What a line says, made of its very text."""
    made: Callable[..., Any] = eval(text, {"torch": torch})
    return made


def _tried(examination: Examination, subject: Subject, line: str) -> Declared:
    trial = examination.trial
    other = Trial(subject, trial.case, seed=trial.seed)
    other.calls, other.wide_calls = trial.calls, trial.wide_calls
    try:
        outcome = declared_gradient(Examination(other, seed=examination.seed))
    except (BadInput, Refused, ArithmeticError, RuntimeError) as error:
        return Declared(line, holds=False, words=f"{type(error).__name__}: {error}")
    if outcome.status is Status.HELD:
        return Declared(line, holds=True)
    return Declared(line, holds=False, words=outcome.words.splitlines()[0])
