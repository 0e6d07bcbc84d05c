"""A gated unit, silu(gate) * up, in Triton: both directions one kernel each.

Without a GPU it runs in Triton's interpreter, which is slow but the same kernel, so its
gradient can be checked on any machine.

Shows: `takes="torch"` with pointers to contiguous memory, `device_guard` for a machine
with several GPUs, `elementwise` with two inputs, `second_order` in plain torch, and a
lock for what is not made for threads.
"""

import os
import threading

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported

import triton
import triton.language as tl

import backproof

BLOCK = 1024
LOCK = threading.Lock()  # the interpreter patches Triton's language while it runs


@triton.jit
def _sigmoid(x):
    small = tl.exp(-tl.abs(x))  # cannot overflow
    return tl.where(x < 0, small, 1) / (1 + small)


@triton.jit
def _forward_kernel(gate_at, up_at, out_at, size, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    gate = tl.load(gate_at + at, mask=inside)
    up = tl.load(up_at + at, mask=inside)
    tl.store(out_at + at, gate * _sigmoid(gate) * up, mask=inside)


@triton.jit
def _backward_kernel(
    g_at,
    gate_at,
    up_at,
    d_gate_at,
    d_up_at,
    size,
    BLOCK: tl.constexpr,  # noqa: N803
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    g = tl.load(g_at + at, mask=inside)
    gate = tl.load(gate_at + at, mask=inside)
    up = tl.load(up_at + at, mask=inside)
    open_ = _sigmoid(gate)
    slope = open_ * (1 + gate * (1 - open_))
    tl.store(d_gate_at + at, g * up * slope, mask=inside)
    tl.store(d_up_at + at, g * gate * open_, mask=inside)


def _launch(kernel, tensors, results):
    size = results[0].numel()
    blocks = triton.cdiv(size, BLOCK)
    if blocks:
        with LOCK:
            kernel[(blocks,)](*tensors, *results, size, BLOCK=BLOCK)


def _wide(*tensors):
    return [tensor.contiguous() for tensor in torch.broadcast_tensors(*tensors)]


def _backward(g, gate, up):
    g, gate, up = _wide(g, gate, up)
    results = torch.empty_like(gate), torch.empty_like(up)
    _launch(_backward_kernel, (g, gate, up), results)
    return results


def _in_torch(g, gate, up):
    open_ = gate.sigmoid()
    return g * up * open_ * (1 + gate * (1 - open_)), g * gate * open_


@backproof.external(
    backward=_backward,
    second_order=_in_torch,
    elementwise=True,
    takes="torch",
    dtypes=(torch.float32, torch.float64),
    device_guard=True,
)
def gated(gate, up):
    """silu(gate) * up, elementwise after broadcasting."""
    gate, up = _wide(gate, up)
    result = torch.empty_like(gate)
    _launch(_forward_kernel, (gate, up), (result,))
    return result


op = gated


def inputs(seed=0):
    """Less than a block, in both types."""
    gen = torch.Generator().manual_seed(seed)
    gate = 2 * torch.randn(4, 15, generator=gen, dtype=torch.float64)
    up = torch.randn(4, 15, generator=gen, dtype=torch.float64)
    yield gate.clone().requires_grad_(), up.clone().requires_grad_()
    yield gate.float().requires_grad_(), up.float().requires_grad_()
