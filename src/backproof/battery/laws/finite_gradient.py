"""BP109: no nan or inf from backward where forward has none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import torch

from backproof.battery.agreement import field_of_input
from backproof.battery.difference import between
from backproof.battery.examination import Examination
from backproof.battery.inquiry.base import forward_is_finite_beside
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.diagnosis.region import element
from backproof.records import Evidence, broken, held


@law("BP109")
def finite_gradient(examination: Examination) -> Iterator[Evidence]:
    """Backward is finite where forward is finite and smooth.

    Cost: none where the gradient is finite, else 2 forwards.
    Blind to: inputs that would overflow it and are not in the case (BP508 tries some).
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    base, trial = examination.base, examination.trial
    hit = [
        (i.name, int(mask.sum()), mask.numel(), int(mask.nonzero()[0]))
        for i, mask in zip(trial.inputs, base.frozen, strict=True)
        if mask is not None
    ]
    if not hit:
        yield held("every element of every gradient is finite")
        return
    words = "; ".join(
        f"{count} of {n} elements of `{name}`" for name, count, n, _ in hit
    )
    numbers = {f"elements of {name}": count for name, count, _, _ in hit}
    if not forward_is_finite_beside(trial, base):
        yield held(
            f"the gradient is not finite for {words}, at the edge of forward's domain; "
            "they were held fixed",
            numbers,
        )
        return
    yield _broken(examination, hit[0][0], words, numbers)


def _broken(
    examination: Examination, name: str, words: str, numbers: dict[str, int]
) -> Evidence:
    base, trial = examination.base, examination.trial
    k = [i.name for i in trial.inputs].index(name)
    values, mask = trial.inputs[k].point.values, base.frozen[k]
    assert mask is not None
    here = partial(field_of_input, trial, name)
    found = between(name, torch.full_like(values, math.nan), values, mask, here)
    first = int(mask.nonzero()[0])
    shape = tuple(trial.inputs[k].original.shape)
    pairs = 2 if trial.inputs[k].original.is_complex() else 1
    return broken(
        f"the gradient is nan or inf for {words}\n"
        "forward is finite there, and on both sides of it\n"
        f"the first is {element(name, shape, first // pairs)}, where `{name}` is "
        f"{float(values[first]):.6g}{found.pattern}",
        numbers,
        where=Places(trial).gradient(name),
    )
