"""BP501: one gradient for each input, in the right place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import Tensor

from backproof import tree
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.law import NotApplicable, law
from backproof.battery.laws.gradient_form import REFUSED_FORM
from backproof.battery.place import Places
from backproof.records import Evidence, broken, held

_ENGINE = (
    "returned an incorrect number of gradients",
    "returned a gradient different",
)


@law("BP501")
def gradient_count(examination: Examination) -> Iterator[Evidence]:
    """Backward returns one gradient for each input of forward, in order.

    Cost: 1 backward where the subject is a Function's own apply, else none.
    Blind to: two gradients of the same shape in the wrong order (BP101 sees it).
    """
    error = examination.backward_raised()
    if error is not None:
        if any(text in str(error) for text in _ENGINE):
            yield _refused(examination, str(error))
            return
        if any(text in str(error) for text in REFUSED_FORM):
            raise NotApplicable("the engine refuses a gradient's form: see BP502")
        raise error
    missing = [
        i.name
        for i, g in zip(
            examination.trial.inputs, examination.base.gradient, strict=True
        )
        if g is None
    ]
    yield from _count(examination)
    for name in missing:
        yield _missing(examination, name)
    if not missing:
        yield held("every input that needs a gradient gets one")


def _count(examination: Examination) -> Iterator[Evidence]:
    raw = examination.raw
    if raw is None:
        return
    given, expected = len(raw.values), raw.num_arguments
    extra = [k for k, g in enumerate(raw.values[expected:], expected) if g is not None]
    if given < expected or extra:
        yield _miscounted(examination, given, expected)
    for name, argument, gradient in _by_argument(examination, raw.values):
        tensors = [v for _, v in tree.leaves(argument, name) if isinstance(v, Tensor)]
        if gradient is not None and not tensors:
            yield broken(
                f"backward returns a gradient for `{name}`, which is no tensor",
                {"input": name},
                where=Places(examination.trial).gradient(name),
                remedy=f"Return `None` at the position of `{name}`.",
            )


def _refused(examination: Examination, words: str) -> Evidence:
    """What the engine says of a wrong number of gradients, in its words."""
    counts = re.search(r"expected (\d+), got (\d+)", words)
    if counts is not None:
        expected, given = (int(n) for n in counts.groups())
        return _miscounted(examination, given, expected, words)
    return broken(
        f"the engine refuses what backward returns\n{words}",
        where=Places(examination.trial).returned(),
    )


def _miscounted(
    examination: Examination, given: int, expected: int, words: str = ""
) -> Evidence:
    names = [n for n, _ in examination.trial.named_arguments]
    listed = f" ({', '.join(names)})" if len(names) == expected else ""
    remedy = f"Return one value for each input of forward, in its order{listed}: "
    if given < expected == len(names):
        missing = " and ".join(f"`{n}`" for n in names[given:])
        remedy += f"the gradient of {missing}, or `None`, is missing."
    else:
        remedy += "a gradient, or `None` where there is none."
    plural = "" if given == 1 else "s"
    return broken(
        f"backward returns {given} gradient{plural} for {expected} inputs\n{words}",
        {"returned": given, "inputs": expected},
        where=Places(examination.trial).returned(),
        remedy=remedy,
    )


def _by_argument(
    examination: Examination, values: tuple[object, ...]
) -> Iterator[tuple[str, object, object]]:
    given = examination.trial.named_arguments
    for (name, argument), value in zip(given, values, strict=False):
        yield name, argument, value


def _missing(examination: Examination, name: str) -> Evidence:
    """None is right for an input that the outputs do not depend on, and only for it."""
    if examination.trial.subject.declared:
        return held(f"`{name}` gets no gradient; the declaration decides")
    found = examination.gradient
    names = found.decided_by.wrong_inputs
    alone = len(examination.trial.inputs) == 1
    # Beside another input's surrogate too, where forward is no staircase of this one.
    wrong = found.kind is Kind.WRONG or bool(found.stairs)
    if wrong and (name in names or alone) and name not in found.stairs:
        return broken(
            f"`{name}` needs a gradient and gets None\n"
            "forward moves when it does, so the model never learns it",
            {"input": name},
            where=Places(examination.trial).gradient(name),
            remedy=_to_return(examination, name),
        )
    return held(f"`{name}` gets no gradient, and forward does not move with it")


def _to_return(examination: Examination, name: str) -> str:
    """Where the missing gradient belongs."""
    names = [n for n, _ in examination.trial.named_arguments]
    if name not in names or examination.trial.subject.definition is None:
        return f"Return the gradient of `{name}`."
    position = names.index(name)
    return (
        f"Return the gradient of `{name}` at position {position} (from 0) of what "
        f"backward returns: {', '.join(names)}."
    )
