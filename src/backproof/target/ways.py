"""The ways to give inputs, written out for one subject with its parameters' names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from backproof.subject import Subject
from backproof.target.place import Place

_TENSOR = "f64[3,4]"
_BY_ANNOTATION = {
    "int": "2",
    "float": "0.5",
    "bool": "True",
    "str": '"text"',
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
    names = [name.lstrip("*") for name in subject.parameter_names()]
    line = " ".join(sample)
    also = f", nor has any of {others} more there" if others else ""
    file = Path(place.file).name if place.file else place.module
    return f"""\
{target} has no inputs to run it on{also}.
Give them on the command line, with shapes of your own for {", ".join(names)}:

    backproof check {target} -i '{line}'

or in {file}, beside it:

    @backproof.inputs_for({_expression(subject, target)})
    def {_identifier(subject.name)}_inputs(seed=0):
        random = torch.Generator().manual_seed(seed)
{_assignments(names, sample)}
        return {", ".join(names)}{"," if len(names) == 1 else ""}

or in a function called `inputs`, or in any other with --inputs-from NAME."""


def _sample(subject: Subject) -> list[str]:
    """One argument a parameter, in the language of input strings."""
    source = subject.definition.forward if subject.definition else subject.function
    try:
        parameters = inspect.signature(source).parameters
    except (TypeError, ValueError):
        return [_TENSOR]
    names = [name.lstrip("*") for name in subject.parameter_names()]
    return [_argument(parameters[name]) for name in names if name in parameters]


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
    make = "torch.randn(3, 4, generator=random).double().requires_grad_()"
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
