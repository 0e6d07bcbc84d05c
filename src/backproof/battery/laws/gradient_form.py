"""BP502: a gradient looks like its input."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import torch
from torch import Tensor

from backproof import tree
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.records import Evidence, broken, held

REFUSED_FORM = (
    "returned an invalid gradient",
    "expected shape compatible",
    "expected device",
)


@law("BP502")
def gradient_form(examination: Examination) -> Iterator[Evidence]:
    """Gradients have their input's shape (or broadcast to it), dtype and device.

    Cost: 1 backward where the subject is a Function's own apply, else none.
    Blind to: the dtype of gradients that other operations hand on, which the engine casts.
    """
    error = examination.backward_raised()
    if error is not None:
        if any(text in str(error) for text in REFUSED_FORM):
            yield _refused(examination, str(error))
            return
        raise NotApplicable("backward raised")
    raw = examination.raw
    if raw is None:
        raise NotApplicable("only what the engine has already adapted can be seen")
    given = examination.trial.named_arguments
    for (name, argument), value in zip(given, raw.values, strict=False):
        pairs = zip(tree.leaves(argument, name), tree.leaves(value, name), strict=False)
        for (label, leaf), (_, gradient) in pairs:
            if isinstance(leaf, Tensor) and isinstance(gradient, Tensor):
                evidence = _form(label, leaf, gradient)
                yield (
                    evidence
                    if evidence.holds
                    else _placed(examination, label, evidence)
                )


def _refused(examination: Examination, words: str) -> Evidence:
    """What the engine says, with the input that it counts as a number."""
    places = Places(examination.trial)
    names = [n for n, _ in examination.trial.named_arguments]
    found = _REFUSAL.search(words)
    number = int(found["number"]) if found is not None else len(names)
    if found is None or number >= len(names):
        title = "the engine refuses what backward returns"
        return broken(f"{title}\n{words}", where=places.returned())
    name = names[number]
    got, wanted = found["got"], found["wanted"]
    return broken(
        f"the gradient of `{name}` has shape {got}, `{name}` has shape {wanted}\n{words}",
        {"input": name},
        where=places.gradient(name),
        remedy=_to_shape(name, _sizes(got), _sizes(wanted)),
    )


_REFUSAL = re.compile(
    r"invalid gradient at index (?P<number>\d+) - got (?P<got>\[[\d, ]*\]) but expected "
    r"shape compatible with (?P<wanted>\[[\d, ]*\])"
)


def _sizes(shape: str) -> torch.Size:
    return torch.Size(int(n) for n in re.findall(r"\d+", shape))


def _to_shape(name: str, got: torch.Size, wanted: torch.Size) -> str:
    """How a gradient gets the shape of its input, where that is plain."""
    if got.numel() == wanted.numel():
        return f"Give it the shape of `{name}`, such as by `.reshape({name}.shape)`."
    if _sums_to(got, wanted):
        return f"Sum it over what forward broadcast: `.sum_to_size({name}.shape)`."
    return ""


def _placed(examination: Examination, name: str, evidence: Evidence) -> Evidence:
    """The evidence with the line and, of a coarse type, with the cast that is missing."""
    remedy = ""
    if "casts it silently" in evidence.words:
        remedy = (
            f"Compute the gradient in the type of `{name}`, and cast what it is made of "
            f"first: `.to({name}.dtype)`."
        )
    where = Places(examination.trial).gradient(name.partition("[")[0])
    return dataclasses.replace(evidence, where=where, remedy=remedy)


def _form(name: str, x: Tensor, gradient: Tensor) -> Evidence:
    if x.device != gradient.device:
        return broken(
            f"the gradient of `{name}` is on {gradient.device}, `{name}` on {x.device}",
        )
    if x.is_floating_point() and gradient.is_floating_point():
        fine, got = torch.finfo(x.dtype).eps, torch.finfo(gradient.dtype).eps
        if got > fine:
            return broken(
                f"the gradient of `{name}` is {_name(gradient)}, `{name}` is {_name(x)}\n"
                "the engine casts it silently; the digits are gone by then",
                {"input": name},
            )
    shapes = f"{tuple(gradient.shape)} for {tuple(x.shape)}"
    if gradient.shape != x.shape and not _sums_to(gradient.shape, x.shape):
        return broken(f"the gradient of `{name}` has shape {shapes}", {"input": name})
    return held(f"the gradient of `{name}` is {_name(gradient)} {shapes}")


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _sums_to(shape: torch.Size, target: torch.Size) -> bool:
    """Whether the engine would sum `shape` over broadcast dimensions to `target`."""
    try:
        whole = torch.broadcast_shapes(shape, target)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return False
    return bool(whole == shape)
