"""Each context convicts a subject that goes astray in it, and no other control does."""

import pytest

from backproof.battery.contexts import CONTEXTS
from backproof.battery.survey.survey import CellStatus, survey
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.contexts import drifting as d
from tests.battery.subjects import normal

BY_NAME = {c.name: c for c in CONTEXTS}

TRANSFORMED = d.drifts(d.in_transform)
COMPILED = d.drifts(d.compiling)
TRACED = d.drifts(d.traced)
RECOMPUTED = d.drifts(d.in_backward)

GUILTY = {
    "eager_fwd_nograd": d.drifts(d.without_graph),
    "inference_mode": d.drifts(d.in_inference),
    "anomaly_mode": d.gradient_drifts(d.under_anomaly),
    "tensor_subclass_logging": d.drifts(d.under_dispatch_mode),
    "only_w_needs_grad": d.gradient_drifts(d.frozen_x),
    "expanded_noncontig_grad": d.ByStride.apply,
    "double_backward": d.Saved.apply,
    "grad_penalty_mixed": d.Saved.apply,
    "checkpoint_nonreentrant": RECOMPUTED,
    "checkpoint_reentrant": RECOMPUTED,
    "selective_checkpoint_must_save": RECOMPUTED,
    "saved_tensor_hooks": d.ByAddress.apply,
    "save_on_cpu": d.drifts(d.hooked),
    "deepcopy_module": d.Forgetful(),
    "pickle_module": d.Forgetful(),
    "threads_backward": d.Stale.apply,
    "ddp_gloo_1proc": d.drifts(d.in_process_group),
    "func_grad": TRANSFORMED,
    "functional_call_grad": TRANSFORMED,
    "func_vjp": TRANSFORMED,
    "func_jvp": TRANSFORMED,
    "vmap_jvp": TRANSFORMED,
    "func_jacrev": TRANSFORMED,
    "functional_jacobian_vectorized": d.gradient_drifts(d.batched_cotangent),
    "is_grads_batched": d.gradient_drifts(d.batched_cotangent),
    "func_jacfwd": TRANSFORMED,
    "func_hessian": TRANSFORMED,
    "func_jacrev_jacrev": TRANSFORMED,
    "jacfwd_jacfwd": TRANSFORMED,
    "vmap_hessian": TRANSFORMED,
    "functionalize": TRANSFORMED,
    "func_vmap": TRANSFORMED,
    "vmap_outer_autograd": TRANSFORMED,
    "ensemble_vmap": TRANSFORMED,
    "vmap_indim1": TRANSFORMED,
    "vmap_mixed_dims": TRANSFORMED,
    "vmap_uneven": TRANSFORMED,
    "nested_vmap": TRANSFORMED,
    "per_sample_grad": TRANSFORMED,
    "compile_eager_backend": COMPILED,
    "compile_aot_eager": COMPILED,
    "compile_inductor": COMPILED,
    "compile_checkpoint_inside": COMPILED,
    "compile_dynamic_shapes": COMPILED,
    "compile_autograd_grad_inside": COMPILED,
    "compile_of_func_grad": COMPILED,
    "compile_of_vmap": COMPILED,
    "compile_of_jvp": COMPILED,
    "compile_vmap_grad": COMPILED,
    "compile_hessian": COMPILED,
    "compiled_autograd": d.gradient_drifts(d.compiled_backward),
    "aot_function": TRACED,
    "export_strict_fwd": d.drifts(d.exporting),
    "export_nonstrict_fwd": d.drifts(d.exporting),
    "export_save_load": d.drifts(d.exporting),
    "export_strict_then_bwd": d.drifts(d.exporting),
    "export_nonstrict_then_bwd": d.drifts(d.exporting),
    "export_joint_experimental": d.drifts(d.exporting),
    "make_fx_forward_then_bwd": TRACED,
    "make_fx_fwd_bwd": TRACED,
    "make_fx_symbolic_fwd_bwd": TRACED,
    "make_fx_vmap_grad": TRACED,
    "jit_trace_then_bwd": d.drifts(d.jit_tracing),
    "jit_trace_save_load": d.drifts(d.jit_tracing),
    "fx_symbolic_trace": d.drifts(d.symbolic),
}


def status(name, op, *inputs):
    """The cell of one context, its status alone."""
    (cell,) = survey(Trial(subject_of(op), Case(inputs)), name)
    return cell.status, cell.words


@pytest.mark.parametrize("name", sorted(GUILTY))
def test_it_convicts_a_subject_that_goes_astray(name):
    found, words = status(name, GUILTY[name], normal(3), normal(3, seed=1))
    assert found is CellStatus.WRONG, words


@pytest.mark.parametrize("name", sorted(GUILTY))
def test_it_acquits_the_same_op_in_plain_torch(name):
    found, words = status(name, d.drifts(never), normal(3), normal(3, seed=1))
    refuses = name == "pickle_module"  # a function inside of a function
    assert found is (CellStatus.REFUSES if refuses else CellStatus.RIGHT), words


def never(x, w):
    return False


def test_every_context_is_shown_to_convict():
    elsewhere = {
        "eager_fwd_bwd": "test_repeats_are_compared",
        "functional_call_bwd": "test_other_parameters_are_used",
        "forward_ad_dual": "test_a_wrong_jvp_shows",
        "func_linearize": "test_a_wrong_jvp_shows",
        "fake_tensor_mode": "test_fake",
        "meta_device": "test_fake",
        "autocast": "test_autocast",
        "autocast_compiled": "test_autocast",
        # The code of `compile_inductor`, with other options.
        "compile_inductor_dynamic": "compile_inductor",
        "compile_no_fullgraph_inductor": "compile_inductor",
        "compile_nograd_inductor": "compile_inductor",
        "same_tensor_twice_compiled": "test_one_tensor_twice",
    }
    assert set(GUILTY) | set(elsewhere) == set(BY_NAME)
    assert not set(GUILTY) & set(elsewhere)
