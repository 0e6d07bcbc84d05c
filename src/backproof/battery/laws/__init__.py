"""The laws: one file each, in the order in which they are asked.

What a graph bears comes first, since it decides how the others may ask; structure comes
before numbers, what backward may not do at all before how exactly it does it, and the
varied cases after the plain one.
"""

from __future__ import annotations

from backproof.battery.law import Law
from backproof.battery.laws.backward_mutation import backward_mutation
from backproof.battery.laws.captured_tensor import captured_tensor
from backproof.battery.laws.declared_gradient import declared_gradient
from backproof.battery.laws.digits import digits
from backproof.battery.laws.equal_inputs import equal_inputs
from backproof.battery.laws.finite_gradient import finite_gradient
from backproof.battery.laws.forward_mode import forward_mode
from backproof.battery.laws.forward_mutation import forward_mutation
from backproof.battery.laws.global_state import global_state
from backproof.battery.laws.gradient import gradient
from backproof.battery.laws.gradient_count import gradient_count
from backproof.battery.laws.gradient_form import gradient_form
from backproof.battery.laws.kink import kink
from backproof.battery.laws.leak import leak
from backproof.battery.laws.limits import limits
from backproof.battery.laws.linear_in_cotangent import linear_in_cotangent
from backproof.battery.laws.recomputation import recomputation
from backproof.battery.laws.reference import reference
from backproof.battery.laws.repeats import repeats
from backproof.battery.laws.result_memory import result_memory
from backproof.battery.laws.saved_bytes import saved_bytes
from backproof.battery.laws.second_backward import second_backward
from backproof.battery.laws.second_order import second_order
from backproof.battery.laws.shared_state import shared_state
from backproof.battery.laws.sizes import sizes
from backproof.battery.laws.stale_save import stale_save
from backproof.battery.laws.strides import strides
from backproof.battery.laws.subsets import subsets
from backproof.battery.laws.surrogate import surrogate
from backproof.battery.laws.unused_output import unused_output

LAWS: tuple[Law, ...] = (
    second_backward,
    gradient_count,
    gradient_form,
    finite_gradient,
    forward_mutation,
    backward_mutation,
    unused_output,
    linear_in_cotangent,
    gradient,
    declared_gradient,
    digits,
    surrogate,
    kink,
    reference,
    repeats,
    recomputation,
    shared_state,
    stale_save,
    result_memory,
    captured_tensor,
    equal_inputs,
    subsets,
    strides,
    second_order,
    forward_mode,
    limits,
    global_state,
    leak,
    saved_bytes,
    sizes,  # last: a kernel that trusts its sizes may take the process with it
)
