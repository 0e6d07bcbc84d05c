"""The laws: one file each, in the order in which they are asked.

Structure comes before numbers; what backward may not do at all before how exactly it
does it.
"""

from __future__ import annotations

from backproof.battery.law import Law
from backproof.battery.laws.declared_gradient import declared_gradient
from backproof.battery.laws.digits import digits
from backproof.battery.laws.finite_gradient import finite_gradient
from backproof.battery.laws.gradient import gradient
from backproof.battery.laws.gradient_count import gradient_count
from backproof.battery.laws.gradient_form import gradient_form
from backproof.battery.laws.kink import kink
from backproof.battery.laws.linear_in_cotangent import linear_in_cotangent
from backproof.battery.laws.surrogate import surrogate

LAWS: tuple[Law, ...] = (
    gradient_count,
    gradient_form,
    finite_gradient,
    linear_in_cotangent,
    gradient,
    declared_gradient,
    digits,
    surrogate,
    kink,
)
