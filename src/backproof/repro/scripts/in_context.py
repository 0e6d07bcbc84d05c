"""BP3xx, BP401, BP407: the call under vmap, torch.func, compile and with fake tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from backproof.probe import coarsest
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script

_FAKE_MODE = "fake_tensor_mode"
_ROUNDINGS = 1024.0  # of an element, in eps: sums are taken in another order

_TEMPLATE = """
$setup

def call(*x):
    output = function($given)
    return $returned

inputs, every = $inputs, tuple(range($count))
plain = [t.detach() for t in inputs]
torch.manual_seed(0)
cotangents = [torch.randn_like(y) for y in call(*inputs)]

def loss(*x):
    return sum((u * y).sum() for u, y in zip(cotangents, call(*x)))

def gradients(*x):  # in eager mode
    leaves = [t.detach().requires_grad_() for t in x]
    return torch.autograd.grad(loss(*leaves), leaves, materialize_grads=True)

$measured
for g, e in zip(got, expected):
    share = (g - e).abs() / e.abs().clamp(min=e.abs().median())
    apart = share.nan_to_num(0.0, float("inf")).max().item()
    said = f"$context is {apart:.2g} away from eager mode, bar $bar"
    assert apart <= $bar, "$code: " + said
"""
_BATCH = "batch = [torch.stack([x, 1.1 * x, 0.9 * x]) for x in plain]\n"
_SCALARS = "got, expected = [sum(pushes)], [sum(pulls)]"
_COMPILED = (
    'compiled = torch.compile(call, backend="{}"{})\n'
    "found = compiled(*inputs)\n"
    "pulled = torch.autograd.grad(found, inputs, cotangents, materialize_grads=True)\n"
    "got, expected = [*found, *pulled], [*call(*inputs), *gradients(*inputs)]"
)
_JACOBIAN = (
    "rows = torch.func.{}(call, argnums=every)(*plain)\n"
    "got = [sum(torch.tensordot(u, row[k], u.dim()) for u, row in zip(cotangents, rows))\n"
    "       for k in every]\n"
    "expected = gradients(*inputs)"
)
_MEASURED: Mapping[str, str] = {
    "func_vmap": _BATCH + 'got = torch.func.vmap(call, randomness="same")(*batch)\n'
    "alone = [call(*xs) for xs in zip(*batch)]\n"
    "expected = [torch.stack(ys) for ys in zip(*alone)]",
    "vmap_outer_autograd": _BATCH + "leaves = [x.requires_grad_() for x in batch]\n"
    'found = torch.func.vmap(call, randomness="same")(*leaves)\n'
    "total = sum((u * y).sum() for u, y in zip(cotangents, found))\n"
    "got = torch.autograd.grad(total, leaves, materialize_grads=True)\n"
    "alone = [gradients(*xs) for xs in zip(*batch)]\n"
    "expected = [torch.stack(gs) for gs in zip(*alone)]",
    "per_sample_grad": _BATCH + "each = torch.func.grad(loss, argnums=every)\n"
    'got = torch.func.vmap(each, randomness="same")(*batch)\n'
    "alone = [gradients(*xs) for xs in zip(*batch)]\n"
    "expected = [torch.stack(gs) for gs in zip(*alone)]",
    "func_grad": "got = torch.func.grad(loss, argnums=every)(*plain)\n"
    "expected = gradients(*inputs)",
    "func_vjp": "pull = torch.func.vjp(call, *plain)[1]\n"
    "got = [*pull(tuple(cotangents)), *pull(tuple(cotangents))]\n"
    "expected = [*gradients(*inputs), *gradients(*inputs)]",
    "func_jvp": "tangents = tuple(torch.randn_like(x) for x in plain)\n"
    "pushed = torch.func.jvp(call, tuple(plain), tangents)[1]\n"
    "pushes = [(u * t).sum() for u, t in zip(cotangents, pushed)]\n"
    "pulls = [(g * t).sum() for g, t in zip(gradients(*inputs), tangents)]\n"
    + _SCALARS,
    "func_jacrev": _JACOBIAN.format("jacrev"),
    "func_jacfwd": _JACOBIAN.format("jacfwd"),
    "func_hessian": "rows = torch.func.hessian(loss, argnums=every)(*plain)\n"
    "tangents = [torch.randn_like(x) for x in plain]\n"
    "got = [sum(torch.tensordot(t, rows[j][k], t.dim()) for j, t in enumerate(tangents))\n"
    "       for k in every]\n"
    "first = torch.autograd.grad(loss(*inputs), inputs, create_graph=True)\n"
    "along = sum((g * t).sum() for g, t in zip(first, tangents))\n"
    "expected = torch.autograd.grad(along, inputs, materialize_grads=True)",
    "compile_eager_backend": _COMPILED.format("eager", ", fullgraph=True"),
    "compile_aot_eager": _COMPILED.format("aot_eager", ", fullgraph=True"),
    "compile_inductor": _COMPILED.format("inductor", ", fullgraph=True"),
    "compile_no_fullgraph_inductor": _COMPILED.format("inductor", ""),
}


_FAKE = """
from torch._subclasses.fake_tensor import FakeTensorMode
$setup

def form(*arguments):
    output = $call
    return [(list(t.shape), t.dtype, t.stride()) for t in $returned]

plain = [a.detach() if torch.is_tensor(a) else a for a in arguments]
with FakeTensorMode() as mode:
    fakes = [mode.from_tensor(a) if torch.is_tensor(a) else a for a in plain]
    try:
        fake = form(*fakes)
    except Exception as error:
        raise AssertionError(f"$code: no fake rule: {str(error)[:150]}") from error
real = form(*arguments)
said = f"the fake rule gives {fake}, the call itself {real}"
print(said)
assert fake == real, "$code: " + said
"""


def in_context(conviction: Conviction) -> Script:
    """What the first named context that has a script gives, beside eager mode."""
    match = re.match(r"in context ([\w, ]+):", conviction.evidence.words)
    names = match[1].split(", ") if match else []
    known = [name for name in names if name in (*_MEASURED, _FAKE_MODE)]
    if not known:
        raise NoScript(f"the context {' or '.join(names)} has none")
    trial, stage = conviction.trial, conviction.stage()
    returned = f"({', '.join(stage.outputs)},)"
    if known[0] == _FAKE_MODE:
        return script(conviction, stage, _FAKE, returned=returned)
    if trial.case.keywords or len(trial.leaves) != len(trial.case.arguments):
        raise NoScript("its arguments are more than tensors and plain values")
    positions = [
        k
        for k, leaf in enumerate(trial.leaves)
        if isinstance(leaf, Tensor) and leaf.requires_grad
    ]
    return script(
        conviction,
        stage,
        _TEMPLATE,
        given=", ".join(
            f"x[{positions.index(k)}]" if k in positions else f"arguments[{k}]"
            for k in range(len(trial.leaves))
        ),
        count=len(positions),
        returned=returned,
        measured=_MEASURED[known[0]],
        context=known[0],
        bar=f"{_ROUNDINGS * coarsest(trial.dtypes).eps:.2g}",
    )
