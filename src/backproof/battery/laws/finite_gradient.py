"""BP109: no nan or inf from backward where forward has none."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.battery.examination import Examination
from backproof.battery.inquiry.base import forward_is_finite_beside
from backproof.battery.law import NotApplicable, law
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
    name, _, _, first = hit[0]
    index = trial.inputs[[i.name for i in trial.inputs].index(name)]
    value = float(index.point.values[first])
    yield broken(
        f"the gradient is nan or inf for {words}\n"
        "forward is finite there, and on both sides of it\n"
        f"the first: `{name}` at flat index {first}, where it is {value:.6g}",
        numbers,
    )
