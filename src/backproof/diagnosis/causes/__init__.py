"""What makes a gradient wrong, one cause a file; the plainest first.

Where several explain the same evidence the first of them is named, from what is seen
without any arithmetic to what is found among many expressions.
"""

from backproof.diagnosis.cause import Cause
from backproof.diagnosis.causes.conjugate import conjugate
from backproof.diagnosis.causes.cotangent_ignored import cotangent_ignored
from backproof.diagnosis.causes.factor import factor
from backproof.diagnosis.causes.formula import formula
from backproof.diagnosis.causes.missing import missing
from backproof.diagnosis.causes.negated import negated
from backproof.diagnosis.causes.nonlinear import nonlinear
from backproof.diagnosis.causes.passed_through import passed_on, passed_through
from backproof.diagnosis.causes.precision import precision
from backproof.diagnosis.causes.scaled import scaled
from backproof.diagnosis.causes.stale import stale
from backproof.diagnosis.causes.summed import summed
from backproof.diagnosis.causes.swapped import swapped
from backproof.diagnosis.causes.term import term
from backproof.diagnosis.causes.transposed import transposed
from backproof.diagnosis.causes.variant import variant

FIRST: tuple[Cause, ...] = (stale, nonlinear)
"""Where one of these holds no other experiment means anything."""

PLAIN: tuple[Cause, ...] = (
    missing,
    cotangent_ignored,
    passed_through,
    negated,
    conjugate,
    swapped,
    scaled,
    summed,
    transposed,
    variant,
)
"""Relations without anything to choose, asked of the whole and of a part of the input."""

LIBRARIES: tuple[Cause, ...] = (factor, term)
"""Relations that are looked up."""

LAST: tuple[Cause, ...] = (passed_on, precision, formula)
"""What remains: the form is right but for digits, or the truth is known all the same."""

__all__ = ["FIRST", "LAST", "LIBRARIES", "PLAIN"]
