"""Threads in which torch's own faults are discussed, by the context that shows them."""

from __future__ import annotations

_COMPILE_GRAD = "pytorch/pytorch#193279"
_COMPILE_JVP = "pytorch/pytorch#192985"
_FORWARD_OVER_FORWARD = "pytorch/pytorch#197867"

ISSUES = {
    "compile_of_func_grad": _COMPILE_GRAD,
    "compile_vmap_grad": _COMPILE_GRAD,
    "compile_hessian": _COMPILE_GRAD,
    "compile_of_jvp": _COMPILE_JVP,
    "jacfwd_jacfwd": _FORWARD_OVER_FORWARD,
}
