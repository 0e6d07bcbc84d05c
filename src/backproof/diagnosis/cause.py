"""The one interface of a cause: a relation between what is claimed and what is true.

A cause is a function that is given a `Suspect` and answers with an `Explanation`, or
with None where the relation does not hold within the bars. It may call backward with
cotangents of its own; forward only within the suspect's budget. To add one: a file in
`causes/` with a function under `@cause`, its docstring's first line the relation, and
its place in `CAUSES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from backproof.diagnosis.known import Number
from backproof.diagnosis.suspect import Suspect
from backproof.diagnosis.witness import Gradients

CLEAR = 4.0  # bars that the claim must be off by before a plain relation is named
VERY_CLEAR = 40.0  # and before one out of many is, which could fit by chance


@dataclass(frozen=True)
class Explanation:
    """A cause that explains the evidence.

    Attributes:
        title: what the gradient is, to follow "the gradient of `x`".
        remedy: what to do, one sentence.
        truth: what the gradient should be for each cotangent, float64 (n,); None where
            that does not follow.
        detail: one more line, or nothing.
        settled: whether it is known where it holds: everywhere, or where `truth` is not
            the claim. If not, the wrong elements are still to be looked for.
        cause: the name of the cause, set by the decorator.
    """

    title: str
    remedy: str
    truth: Gradients | None = None
    detail: str = ""
    settled: bool = True
    cause: str = ""


Explain = Callable[[Suspect], Explanation | None]


@dataclass(frozen=True)
class Cause:
    """What may be wrong, and the function that tells whether it is.

    Attributes:
        name: of the function and its file.
        relation: its docstring's first line.
        explain: None where it does not explain the evidence.
    """

    name: str
    relation: str
    explain: Explain

    def __call__(self, suspect: Suspect) -> Explanation | None:
        """The explanation under this cause's name."""
        suspect.pulls = 0
        found = self.explain(suspect)
        if found is None:
            return None
        return dataclasses.replace(found, cause=self.name)


def cause(explain: Explain) -> Cause:
    """Make a function the cause of its name."""
    relation = (explain.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return Cause(explain.__name__, relation, explain)


def fits(suspect: Suspect, truth: Gradients, least: float = CLEAR) -> bool:
    """Whether these gradients are true within bars that refute the claims.

    Where the truth is zero, any relation that makes zeros of the claims would fit.
    """
    return (
        suspect.power >= least
        and not suspect.truth_is_zero
        and suspect.witness.fit(truth).explains
    )


def named_constant(
    suspect: Suspect, value: float, bar: float, most_rank: int = 9
) -> Number | None:
    """The best name in this call for a constant, None where it has none.

    The sign is left out; `bar` is the constant's own.
    """
    return next(iter(named_constants(suspect, value, bar, most_rank)), None)


def named_constants(
    suspect: Suspect, value: float, bar: float, most_rank: int = 9
) -> list[Number]:
    """All names in this call for a constant, the best first."""
    size = abs(value)
    reach = max(3 * bar, 1e-6 * size)
    if reach > 0.2 * size:
        return []
    # A vague constant has many names, so only the plainest count.
    worst = most_rank if reach < 1e-3 * size else 1 if reach < 0.03 * size else 0
    return [
        number
        for number in suspect.known.constants(suspect.name, suspect.shape)
        if number.rank <= worst and abs(number.value - size) <= reach
    ]


def cotangents_like(suspect: Suspect) -> list[Tensor] | None:
    """The cotangents as vectors over the input's elements, where they reach each one.

    With several outputs, those of the first that has the input's shape. The cotangent of
    an output without some of its axes is repeated along them.
    """
    for output in suspect.outputs:
        if output.dtype.is_complex != suspect.is_complex:
            continue
        if output.shape == suspect.shape:
            return [u[output.part] for u in suspect.cotangents]
        shape = None if suspect.is_complex else _with_axes(output.shape, suspect.shape)
        if shape is not None:
            return [
                u[output.part].reshape(shape).expand(suspect.shape).reshape(-1)
                for u in suspect.cotangents
            ]
    return None


def _with_axes(shape: Sequence[int], to: Sequence[int]) -> tuple[int, ...] | None:
    """`shape` with axes of one put in, so that it expands to `to`; None if it cannot.

    The last axes of `to` are taken for those that a reduction has left out.
    """
    left, out = list(shape), []
    for size in to:
        if left and left[0] in (1, size):
            out.append(left.pop(0))
        else:
            out.append(1)
    return None if left else tuple(out)
