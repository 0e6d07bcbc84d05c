"""The route that is right everywhere: one operator of torch's dispatcher for a class.

The kernel runs forward and gives back its outputs, then the extras (recording.py), then
a marker whose shape says how the outputs are laid out, for whoever sees only the list.
Its Autograd kernel is a single-level Function (differentiation.py), so that the
dispatcher itself takes care of torch.func and its nesting, forward mode, make_fx,
AOTAutograd, fake tensors, export, modes and jit.trace. Under vmap the operator calls
itself with one more layer in its form (layers.py).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import Library, register_fake

from backproof.definition import private
from backproof.definition.leaving import within_torch
from backproof.definition.operator.arguments import Form
from backproof.definition.operator.batching import implement_batching
from backproof.definition.operator.layers import ByEntry, Path, mapped, peeled, wrapped
from backproof.definition.recording.context import Context
from backproof.definition.recording.recording import Left, Run, differentiable, left_by
from backproof.definition.second_order.seeing import unwatched
from backproof.definition.written import Method, Written
from backproof.errors import Undeclared

NAMESPACE = "backproof"
_SCHEMA = "(Tensor[] tensors, SymInt[] ints, float[] floats, str form) -> Tensor[]"
_library: Any = Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
_names: dict[str, int] = {}

# What a marker's shape says of an output; an input that was changed in place adds its
# index to DIRTY.
TENSOR, NONE, OBJECT, DIRTY = range(4)


class _Latest(threading.local):
    """What the forward that ran last in this thread left; None once it was read."""

    left: ByEntry[Left] | None = None


latest = _Latest()


def define(written: Written) -> torch._ops.OpOverload:
    """The operator of a class, without its Autograd kernel."""

    def kernel(
        tensors: list[Tensor], ints: list[int], floats: list[float], form: str
    ) -> list[Tensor]:
        made, left = run_layers(written, form, tensors, ints, floats)
        if peeled(form)[0] and left.any.hides:
            raise Undeclared(
                f"{written.name}: under vmap, forward leaves a tensor inside of an object "
                "on ctx, where it cannot be found; keep it on ctx itself"
            )
        latest.left = left
        return [*_distinct(made, tensors), marker(left.any, tensors)]

    def batched(info: Any, in_dims: Any, *call: Any) -> Any:
        tensors, ints, floats, form = call
        if written.vmap is not None:
            return _by_hand(written, info, in_dims, call)
        form = wrapped(form, in_dims, info.randomness)
        result = operator(tensors, ints, floats, form)
        return result, [*[0] * (len(result) - 1), None]

    owner = written.owner
    name = f"{owner.__module__}.{owner.__qualname__}"

    def fake(*call: Any) -> list[Tensor]:
        with within_torch(written.name, "forward"):
            return kernel(*call)

    operator = register(name, kernel=kernel, fake=fake, batched=batched)
    return operator


def register(
    name: str, *, kernel: Method, fake: Method, batched: Method
) -> torch._ops.OpOverload:
    """An operator of our schema.

    Args:
        name: what it is called after; a name that is taken gets a number.
        kernel: `(tensors, ints, floats, form) -> list of tensors`, on any device.
        fake: the same for tensors without values.
        batched: `(info, in_dims, tensors, ints, floats, form)`, its rule under vmap.
    """
    free = _free_name(name)
    _library.define(f"{free}{_SCHEMA}", tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl(free, kernel, "CompositeExplicitAutograd")
    register_fake(f"{NAMESPACE}::{free}", fake, lib=_library)
    namespace = getattr(torch.ops, NAMESPACE)
    operator: torch._ops.OpOverload = getattr(namespace, free).default
    implement_batching(_library, free, operator, batched)
    return operator


def implement_autograd(operator: torch._ops.OpOverload, kernel: Method) -> None:
    """Give the operator its Autograd kernel.

    Args:
        operator: one of ours.
        kernel: `(keyset, tensors, ints, floats, form) -> list of tensors`, or torch's
            `fallthrough_kernel` for an operator that is a constant to autograd.
    """
    keyed = kernel is not torch.library.fallthrough_kernel
    _library.impl(operator._opname, kernel, "Autograd", with_keyset=keyed)


def run_layers(
    written: Written,
    text: str,
    tensors: Sequence[Tensor],
    ints: Sequence[int],
    floats: Sequence[float],
) -> tuple[list[Tensor], ByEntry[Left]]:
    """Outputs and extras of a call with all its layers, and what each entry left."""
    layers, form = peeled(text)
    left: ByEntry[Left] = ByEntry(written.name)
    whole = not written.sets_up_outside

    def once(entry: Sequence[Tensor | None], path: Path) -> list[Tensor]:
        run = run_forward(written, form, entry, ints, floats, whole=whole)
        left.put(path, run.left)
        return [*run.outputs, *run.extras]

    # What forward changes in place is copied back by the caller, where every transform
    # can see it.
    given = [tensor.clone() for tensor in tensors] if written.mutates else tensors
    return mapped(layers, once, given), left


def run_forward(
    written: Written,
    form: Form,
    tensors: Sequence[Tensor | None],
    ints: Sequence[int],
    floats: Sequence[float],
    *,
    whole: bool = True,
) -> Run:
    """Run forward on these tensors, as a call of that form.

    `whole` is with `setup_context`, where there is one.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    ctx = Context(needs_of(form, [differentiable(tensor) for tensor in given]))
    arguments = form.arguments(given, ints, floats)
    with unwatched():
        if whole:
            result = written.forward(ctx, *arguments)
        else:
            assert written.plain_forward is not None
            result = written.plain_forward(*arguments)
    return left_by(ctx, result, given, written.name)


def needs_of(form: Form, per_tensor: Sequence[bool]) -> tuple[Any, ...]:
    """`needs_input_grad`: a bool an argument, a container of them for a container."""
    return tuple(False if n is None else n for n in form.spread(per_tensor))


def marker(left: Left, tensors: Sequence[Tensor]) -> Tensor:
    """An empty tensor of shape `(0, single, *codes)`, one code an output."""
    codes, k = [], 0
    for absent in left.absent:
        if absent is not None:
            codes.append(NONE if absent.value is None else OBJECT)
            continue
        codes.append(DIRTY + left.dirty[k] if k in left.dirty else TENSOR)
        k += 1
    device = tensors[0].device if tensors else "cpu"
    shape = (0, int(left.single), *codes)
    return torch.empty(shape, dtype=torch.uint8, device=device)


def _distinct(made: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """No operator may return what it was given, nor one tensor twice."""
    result: list[Tensor] = []
    for tensor in made:
        others = [*tensors, *result]
        shared = any(private.shares_memory(tensor, other) for other in others)
        result.append(tensor.clone() if shared else tensor.detach())
    return result


def _by_hand(
    written: Written, info: Any, in_dims: Sequence[int | None], call: Any
) -> tuple[list[Tensor], list[int | None]]:
    """Batching by the author's own rule."""
    tensors, ints, floats, text = call
    _, form = peeled(text)
    assert written.vmap is not None
    arguments = form.arguments(tensors, ints, floats)
    result = written.vmap(info, tuple(form.spread(in_dims)), *arguments)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"{written.name}: vmap returns `(output, out_dims)`, not {result!r:.60}"
        )
    output, dims = result
    run = left_by(Context(()), output, (), written.name)
    if written.setup_context is None and latest.left and latest.left.any.extras:
        raise Undeclared(
            f"{written.name}: its own vmap rule gives the outputs, but forward leaves "
            "tensors on ctx that are neither inputs nor outputs; save them in "
            "`setup_context`, or leave the rule out: backproof derives one"
        )
    flat = [dims] if run.left.single else list(dims)
    kept = [d for d, a in zip(flat, run.left.absent, strict=True) if a is None]
    latest.left = ByEntry(written.name)
    latest.left.put((), run.left)
    return [*run.outputs, marker(run.left, tensors)], [*kept, None]


def _free_name(wanted: str) -> str:
    """A name for the operator: the same in each process that defines the same classes.

    Inductor writes it into a class, where Python mangles what begins with `__`, as the
    operators of `__main__` would.
    """
    name = re.sub(r"\W", "_", wanted).lstrip("_")
    count = _names.get(name, 0)
    _names[name] = count + 1
    return f"{name}_{count}" if count else name
