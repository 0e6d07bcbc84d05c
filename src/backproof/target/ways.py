"""The ways to give inputs, written out for one subject with its parameters' names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from backproof import dispatcher
from backproof.subject import Subject
from backproof.target.place import Place

_SHAPE = "SHAPE"  # it does not parse, lest somebody takes it for one that was tried
_TENSOR = f"f64[{_SHAPE}]"
_BY_ANNOTATION = {
    "int": "2",
    "float": "0.5",
    "bool": "True",
    "str": '"text"',
    "number": "0.5",
    int: "2",
    float: "0.5",
    bool: "True",
    str: '"text"',
}


def no_inputs(subject: Subject, target: str, place: Place, others: int) -> str:
    """What to say where nothing gives inputs for `subject`.

    Args:
        subject: the thing under test.
        target: its target string.
        place: where it was found.
        others: how many more subjects there have none either.
    """
    sample = _sample(subject)
    parameters = subject.parameter_names()
    names = [name.lstrip("*") for name in parameters]
    line = " ".join(map(_item, parameters, sample))
    also = f", nor has any of {others} more there" if others else ""
    shape = f", with a shape in place of {_SHAPE}, as f64[3,10]"
    command = f"""\
{target} has no inputs to run it on{also}.
Give them on the command line{shape if _TENSOR in sample else ""}:

    backproof check {target} -i '{line}'
"""
    if place.module == "torch":  # nobody writes into that
        return command.rstrip()
    file = Path(place.file).name if place.file else place.module
    return f"""\
{command}
or in {file}, beside it:

    @backproof.inputs_for({_expression(subject, target)})
    def {_identifier(subject.name)}_inputs(seed=0):
        random = torch.Generator().manual_seed(seed)
{_assignments(names, sample)}
        return {", ".join(names)}{"," if len(names) == 1 else ""}

or in a function called `inputs`, or in any other with --inputs-from NAME."""


def _item(parameter: str, value: str) -> str:
    return value if parameter.startswith("*") else f"{parameter}={value}"


def _sample(subject: Subject) -> list[str]:
    """One argument a parameter, in the language of input strings."""
    try:
        parameters = _signature(subject).parameters
    except (TypeError, ValueError):
        return [_TENSOR]
    names = [name.lstrip("*") for name in subject.parameter_names()]
    return [_argument(parameters[name]) for name in names if name in parameters]


def _signature(subject: Subject) -> inspect.Signature:
    if subject.operator is not None:
        return dispatcher.signature(subject.operator)
    if subject.definition is not None:
        return inspect.signature(subject.definition.forward)
    return inspect.signature(subject.function)


def _argument(parameter: inspect.Parameter) -> str:
    empty = inspect.Parameter.empty
    if parameter.default is None or isinstance(parameter.default, (bool, int, float)):
        return repr(parameter.default)
    if isinstance(parameter.default, str):
        return f'"{parameter.default}"'
    if parameter.annotation is not empty:
        return _BY_ANNOTATION.get(parameter.annotation, _TENSOR)
    return _TENSOR


def _assignments(names: list[str], sample: list[str]) -> str:
    make = f"torch.randn({_SHAPE}, generator=random).double().requires_grad_()"
    return "\n".join(
        f"        {name} = {make if value == _TENSOR else value}"
        for name, value in zip(names, sample, strict=False)
    )


def _expression(subject: Subject, target: str) -> str:
    """How a file refers to the subject: by the name that was asked for."""
    return target.rpartition(":")[2] if ":" in target else subject.name


def _identifier(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", words).strip("_").lower()
