"""Every name of torch that definitions use and that torch does not document.

Each is None where the installed torch lacks it. Where one is missing that the operator
route needs, calls go through a `torch.autograd.Function` (`plain.py`) instead; any other
has its fallback where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch


def _find(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError:
        return None
    return getattr(found, name, None)


def constant_for_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo runs `function` while it traces, and keeps the result as a constant.

    What `torch.compiler.assume_constant_result` does, without importing dynamo.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


# What a call happens under.
functorch_active = _find("torch._C._are_functorch_transforms_active")
dispatch_modes = _find("torch._C._len_torch_dispatch_stack")
tracing_state = _find("torch._C._get_tracing_state")
forward_mode = _find("torch.autograd.forward_ad")  # its `_current_level`


@constant_for_dynamo
def forward_level() -> int:
    """The level of forward mode, -1 outside of it; also one that traced code entered."""
    return getattr(forward_mode, "_current_level", 0)  # who cannot say is inside


fx_tracing = _find("torch.fx._symbolic_trace")  # its `_is_fx_tracing_flag`
wrapped_by_functorch = _find("torch._C._functorch.is_functorch_wrapped_tensor")
is_batched = _find("torch._C._functorch.is_batchedtensor")
batch_dim = _find("torch._C._functorch.maybe_get_bdim")
unwrapped = _find("torch._C._functorch.get_unwrapped")
without_functorch = _find("torch._C._DisableFuncTorch")
is_legacy_batched = _find("torch._C._functorch.is_legacy_batchedtensor")

# A kernel under the Autograd key that is differentiated by one level only.
SingleLevelFunction = _find("torch.autograd.function._SingleLevelFunction")
single_level = _find("torch._functorch.utils.enable_single_level_autograd_function")
after_autograd = _find("torch._C._after_autograd_keyset")
below_autograd = _find("torch._C._AutoDispatchBelowAutograd")
set_forward_grad = _find("torch.autograd.forward_ad._set_fwd_grad_enabled")
unpack_dual = _find("torch._VF._unpack_dual")
get_inplace_allowed = _find("torch._C._functorch.get_inplace_requires_grad_allowed")
set_inplace_allowed = _find("torch._C._functorch.set_inplace_requires_grad_allowed")
is_alias = _find("torch._C._is_alias_of")
without_modes = _find("torch.utils._python_dispatch._disable_current_modes")

active_fake_mode = _find("torch._guards.active_fake_mode")

# One level of vmap.
load_decompositions = _find("torch._functorch.vmap.lazy_load_decompositions")
enter_vmap = _find("torch._C._functorch._vmap_increment_nesting")
leave_vmap = _find("torch._C._functorch._vmap_decrement_nesting")
add_batch = _find("torch._C._functorch._add_batch_dim")
remove_batch = _find("torch._C._functorch._remove_batch_dim")
unwrap_batch = _find("torch._C._functorch._unwrap_batched")
current_interpreter = _find(
    "torch._functorch.pyfunctorch.retrieve_current_functorch_interpreter"
)

# Keys of the dispatcher, in this thread.
ForceKeys = _find("torch._C._ForceDispatchKeyGuard")
included_keys = _find("torch._C._dispatch_tls_local_include_set")
excluded_keys = _find("torch._C._dispatch_tls_local_exclude_set")
functorch_keys = tuple(
    getattr(torch._C.DispatchKey, name)
    for name in (
        "FuncTorchBatched",
        "FuncTorchBatchedDecomposition",
        "FuncTorchVmapMode",
        "FuncTorchDynamicLayerFrontMode",
        "FuncTorchDynamicLayerBackMode",
    )
    if hasattr(torch._C.DispatchKey, name)
)

# The base of the classes that the engine calls backward on.
FunctionBase = _find("torch._C._FunctionBase")

# An interpreter of torch.func for each level that a call is under.
all_interpreters = _find(
    "torch._functorch.pyfunctorch.retrieve_all_functorch_interpreters"
)


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether one tensor is the other's memory; yes where nobody can say."""
    return is_alias is None or bool(is_alias(one, other))


def under(question: Callable[[], Any] | None) -> bool:
    """Whether a call is under what `question` asks for; yes where nobody can say."""
    return question is None or bool(question())


def can_batch() -> bool:
    """Whether this torch has what a level of vmap needs."""
    needed = (
        load_decompositions,
        enter_vmap,
        leave_vmap,
        add_batch,
        remove_batch,
        unwrap_batch,
        current_interpreter,
    )
    return all(name is not None for name in needed)


def can_dispatch() -> bool:
    """Whether this torch has what the operator route needs."""
    needed = (
        functorch_active,
        dispatch_modes,
        tracing_state,
        getattr(forward_mode, "_current_level", None),
        SingleLevelFunction,
        single_level,
        after_autograd,
        below_autograd,
        set_forward_grad,
        unpack_dual,
        get_inplace_allowed,
        set_inplace_allowed,
        is_alias,
        without_modes,
        getattr(torch.library, "register_vmap", None),
    )
    return all(name is not None for name in needed)
