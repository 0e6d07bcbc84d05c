"""The contexts: one kind of running a subject a file, in the order of the table."""

from __future__ import annotations

from backproof.battery.contexts.autocast import autocast, autocast_compiled
from backproof.battery.contexts.checkpoint import (
    checkpoint_nonreentrant,
    checkpoint_reentrant,
    compile_checkpoint_inside,
    selective_checkpoint_must_save,
)
from backproof.battery.contexts.compile import (
    aot_function,
    compile_aot_eager,
    compile_autograd_grad_inside,
    compile_dynamic_shapes,
    compile_eager_backend,
    compile_inductor,
    compile_inductor_dynamic,
    compile_no_fullgraph_inductor,
    compile_nograd_inductor,
    same_tensor_twice_compiled,
)
from backproof.battery.contexts.compile_of_transform import (
    compile_hessian,
    compile_of_func_grad,
    compile_of_jvp,
    compile_of_vmap,
    compile_vmap_grad,
)
from backproof.battery.contexts.compiled_autograd import compiled_autograd
from backproof.battery.contexts.copied_module import deepcopy_module, pickle_module
from backproof.battery.contexts.data_parallel import ddp_gloo_1proc
from backproof.battery.contexts.double_backward import (
    double_backward,
    grad_penalty_mixed,
)
from backproof.battery.contexts.eager_backward import (
    anomaly_mode,
    eager_fwd_bwd,
    tensor_subclass_logging,
)
from backproof.battery.contexts.eager_forward import eager_fwd_nograd, inference_mode
from backproof.battery.contexts.expanded_gradient import expanded_noncontig_grad
from backproof.battery.contexts.export_forward import (
    export_nonstrict_fwd,
    export_save_load,
    export_strict_fwd,
)
from backproof.battery.contexts.export_then_train import (
    export_joint_experimental,
    export_nonstrict_then_bwd,
    export_strict_then_bwd,
)
from backproof.battery.contexts.fake_tensor import fake_tensor_mode, meta_device
from backproof.battery.contexts.forward_ad import forward_ad_dual
from backproof.battery.contexts.func_grad import func_grad, functional_call_grad
from backproof.battery.contexts.func_hessian import (
    func_hessian,
    func_jacrev_jacrev,
    jacfwd_jacfwd,
    vmap_hessian,
)
from backproof.battery.contexts.func_jacfwd import func_jacfwd
from backproof.battery.contexts.func_jacrev import (
    func_jacrev,
    functional_jacobian_vectorized,
    is_grads_batched,
)
from backproof.battery.contexts.func_jvp import func_jvp, vmap_jvp
from backproof.battery.contexts.func_linearize import func_linearize
from backproof.battery.contexts.func_vjp import func_vjp
from backproof.battery.contexts.func_vmap import (
    ensemble_vmap,
    func_vmap,
    vmap_outer_autograd,
)
from backproof.battery.contexts.functional_call import functional_call_bwd
from backproof.battery.contexts.functionalize import functionalize
from backproof.battery.contexts.fx_symbolic_trace import fx_symbolic_trace
from backproof.battery.contexts.jit_trace import jit_trace_save_load, jit_trace_then_bwd
from backproof.battery.contexts.make_fx import (
    make_fx_forward_then_bwd,
    make_fx_fwd_bwd,
    make_fx_symbolic_fwd_bwd,
    make_fx_vmap_grad,
)
from backproof.battery.contexts.needs_grad import only_w_needs_grad
from backproof.battery.contexts.per_sample_grad import per_sample_grad
from backproof.battery.contexts.saved_tensor_hooks import (
    save_on_cpu,
    saved_tensor_hooks,
)
from backproof.battery.contexts.threads import threads_backward
from backproof.battery.contexts.vmap_dims import vmap_indim1, vmap_mixed_dims
from backproof.battery.contexts.vmap_uneven import nested_vmap, vmap_uneven
from backproof.battery.survey.context import Context

CONTEXTS: tuple[Context, ...] = (
    eager_fwd_nograd,
    inference_mode,
    eager_fwd_bwd,
    anomaly_mode,
    tensor_subclass_logging,
    only_w_needs_grad,
    expanded_noncontig_grad,
    double_backward,
    grad_penalty_mixed,
    functional_call_bwd,
    checkpoint_nonreentrant,
    checkpoint_reentrant,
    selective_checkpoint_must_save,
    compile_checkpoint_inside,
    save_on_cpu,
    saved_tensor_hooks,
    deepcopy_module,
    pickle_module,
    autocast,
    autocast_compiled,
    threads_backward,
    ddp_gloo_1proc,
    func_grad,
    functional_call_grad,
    func_vjp,
    func_jvp,
    vmap_jvp,
    forward_ad_dual,
    func_linearize,
    func_jacrev,
    functional_jacobian_vectorized,
    is_grads_batched,
    func_jacfwd,
    func_hessian,
    func_jacrev_jacrev,
    jacfwd_jacfwd,
    vmap_hessian,
    functionalize,
    func_vmap,
    vmap_outer_autograd,
    ensemble_vmap,
    vmap_indim1,
    vmap_mixed_dims,
    vmap_uneven,
    nested_vmap,
    per_sample_grad,
    compile_eager_backend,
    compile_aot_eager,
    compile_inductor,
    compile_inductor_dynamic,
    compile_no_fullgraph_inductor,
    compile_nograd_inductor,
    aot_function,
    compile_dynamic_shapes,
    compile_autograd_grad_inside,
    same_tensor_twice_compiled,
    compile_of_func_grad,
    compile_of_vmap,
    compile_of_jvp,
    compile_vmap_grad,
    compile_hessian,
    compiled_autograd,
    export_strict_fwd,
    export_nonstrict_fwd,
    export_save_load,
    export_strict_then_bwd,
    export_nonstrict_then_bwd,
    export_joint_experimental,
    make_fx_forward_then_bwd,
    make_fx_fwd_bwd,
    make_fx_symbolic_fwd_bwd,
    make_fx_vmap_grad,
    jit_trace_then_bwd,
    jit_trace_save_load,
    fx_symbolic_trace,
    fake_tensor_mode,
    meta_device,
)
"""All of them; `compile_checkpoint_inside` stands with the checkpoints."""
