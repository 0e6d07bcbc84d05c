"""The scripts: one idea a file, by the codes of the laws that they show broken."""

from __future__ import annotations

from collections.abc import Mapping

from backproof.repro.script import Write
from backproof.repro.scripts.backward_mutation import backward_mutation
from backproof.repro.scripts.captured_tensor import captured_tensor
from backproof.repro.scripts.declared_gradient import declared_gradient
from backproof.repro.scripts.digits import digits
from backproof.repro.scripts.equal_inputs import equal_inputs
from backproof.repro.scripts.finite_gradient import finite_gradient
from backproof.repro.scripts.forward_mode import forward_mode
from backproof.repro.scripts.forward_mutation import forward_mutation
from backproof.repro.scripts.global_state import global_state
from backproof.repro.scripts.gradient import gradient
from backproof.repro.scripts.gradient_count import gradient_count
from backproof.repro.scripts.gradient_form import gradient_form
from backproof.repro.scripts.leak import leak
from backproof.repro.scripts.limits import limits
from backproof.repro.scripts.linear_in_cotangent import linear_in_cotangent
from backproof.repro.scripts.recomputation import recomputation
from backproof.repro.scripts.reference import reference
from backproof.repro.scripts.repeats import repeats
from backproof.repro.scripts.result_memory import result_memory
from backproof.repro.scripts.second_backward import second_backward
from backproof.repro.scripts.second_order import second_order
from backproof.repro.scripts.shared_state import shared_state
from backproof.repro.scripts.sizes import sizes
from backproof.repro.scripts.stale_save import stale_save
from backproof.repro.scripts.strides import strides
from backproof.repro.scripts.subsets import subsets
from backproof.repro.scripts.unused_output import unused_output

SCRIPTS: Mapping[str, Write] = {
    "BP101": gradient,
    "BP102": second_order,
    "BP103": forward_mode,
    "BP104": linear_in_cotangent,
    "BP107": declared_gradient,
    "BP109": finite_gradient,
    "BP110": digits,
    "BP111": reference,
    "BP201": forward_mutation,
    "BP202": backward_mutation,
    "BP203": stale_save,
    "BP204": result_memory,
    "BP205": shared_state,
    "BP206": second_backward,
    "BP207": recomputation,
    "BP208": captured_tensor,
    "BP209": equal_inputs,
    "BP501": gradient_count,
    "BP502": gradient_form,
    "BP503": strides,
    "BP504": subsets,
    "BP505": sizes,
    "BP506": unused_output,
    "BP508": limits,
    "BP601": repeats,
    "BP602": global_state,
    "BP701": leak,
}
