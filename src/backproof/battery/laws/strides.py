"""BP503: the same numbers in every layout of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from backproof.battery.agreement import Yardstick
from backproof.battery.cases import FORMS, Variant, layouts
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.errors import BadInput
from backproof.records import Evidence, broken, held, undecided
from backproof.trial import BackwardRaised, Refused

_LAZY = "view"  # conjugate and negative bits, which code outside of torch may refuse


@law("BP503")
def strides(examination: Examination) -> Iterator[Evidence]:
    """The numbers do not depend on the strides of inputs and cotangents.

    Forward may refuse a layout with an exception. Backward may not, lazy bits aside: it
    does not choose the cotangent that autograd sends.

    Cost: 1 forward and 1 backward for each layout of the inputs (up to 6 together and of
    up to 4 tensors alone), 1 backward for each of the cotangent.
    Blind to: layouts that are not tried, such as sparse and blocked ones.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    if examination.is_random:
        raise NotApplicable("forward draws random numbers, in the order of memory")
    yield from _of_cotangents(examination)
    refusals: list[str] = []
    for variant in layouts(examination.trial):
        evidence = _of_inputs(examination, variant, refusals)
        if evidence is not None:
            yield evidence
    if refusals:
        yield held(f"forward refuses {'; '.join(refusals)}")


def _of_inputs(
    examination: Examination, variant: Variant, refusals: list[str]
) -> Evidence | None:
    trial, base = variant.trial, examination.base
    try:
        values, gradient = base.graph.values, base.gradient
        if variant.plain is not None:
            plain = variant.plain.record()
            values, gradient = plain.values, variant.plain.pull(plain, base.cotangent)
        graph = trial.record()
        same_form = [o.shape for o in trial.outputs] == [
            o.shape for o in examination.trial.outputs
        ]
    except (BadInput, Refused, BackwardRaised) as error:
        refusals.append(f"{variant.words} ({_first_line(error)})")
        return None
    numbers = {"layout": variant.label}
    if not same_form:
        return broken(
            f"with {variant.words} the outputs have another shape",
            numbers,
            where=Places(trial).forward_return(),
        )
    found = examination.yardstick.values(graph.values, values)
    if found.is_real:
        return broken(
            f"with {variant.words} forward gives other values: `{found.name}` "
            f"{found.becomes}\n"
            f"`{found.name}` is {found.words}\n"
            f"{_strides_of_inputs(examination, variant)}",
            {**numbers, **found.numbers},
            where=Places(trial).forward_return(),
            remedy=_remedy(_varied(examination, variant), variant.label),
        )
    try:
        got = trial.pull(graph, base.cotangent)
    except BackwardRaised as error:
        if _LAZY in variant.label:
            refusals.append(f"{variant.words} ({raised(error)})")
            return None
        return broken(
            f"with {variant.words} backward raises, and forward does not\n"
            f"{raised(error)}\n{_strides_of_inputs(examination, variant)}",
            numbers,
            where=Places(trial).raised(error),
            remedy=_remedy(_varied(examination, variant), variant.label),
        )
    found = examination.yardstick.gradients(got, gradient)
    if found.is_real:
        return broken(
            f"the gradient of `{found.name}` {found.becomes} with {variant.words}\n"
            f"it gets {found.words}\n{_strides_of_inputs(examination, variant)}",
            {**numbers, **found.numbers},
            where=Places(trial).gradient(found.name),
            remedy=_remedy(_varied(examination, variant), variant.label),
        )
    return held(f"{variant.words}: the same numbers", numbers)


def _of_cotangents(examination: Examination) -> Iterator[Evidence]:
    trial, base = examination.trial, examination.base
    for label, form in FORMS.items():
        if all(form(t) is None for t in trial.split(base.cotangent)):
            continue
        yield _one_cotangent(
            examination, label, base.cotangent, base.gradient, partial(_or_same, form)
        )
    ones = trial.represent(torch.ones_like(base.cotangent) * base.shift)
    try:
        plain = trial.pull(base.graph, ones)
    except BackwardRaised as error:
        yield undecided(f"backward raises for a cotangent of ones: {raised(error)}")
        return
    yield _one_cotangent(
        examination,
        "expanded from one number, as `.sum()` sends it",
        ones,
        plain,
        _flat,
    )


def _one_cotangent(
    examination: Examination,
    label: str,
    cotangent: Tensor,
    expected: list[Tensor | None],
    form: Callable[[Tensor], Tensor],
) -> Evidence:
    trial, base = examination.trial, examination.base
    numbers = {"cotangent": label}
    places = Places(trial)

    def named() -> tuple[str, str]:
        """What backward calls it, and how it lies in memory."""
        known = places.cotangent_name()
        name = f"`{known}`" if known else "the cotangent"
        return name, _strides(name, form(trial.split(cotangent)[0]))

    try:
        got = trial.pull(base.graph, cotangent, form=form)
    except BackwardRaised as error:
        if _LAZY in label:
            return held(f"cotangent {label}: refused ({raised(error)})", numbers)
        name, strides = named()
        return broken(
            f"backward raises when {name} comes {label}\n{raised(error)}\n"
            f"{strides}\n"
            "autograd hands over whatever layout the rest of the graph makes",
            numbers,
            where=places.raised(error),
            remedy=_remedy([name], label),
        )
    # A cotangent of its own: what cancels for this one need not for the base's.
    found = Yardstick(trial, cotangent).gradients(got, expected)
    if found.is_real:
        name, strides = named()
        return broken(
            f"the gradient of `{found.name}` {found.becomes} when {name} comes {label}\n"
            f"it gets {found.words}\n{strides}",
            {**numbers, **found.numbers},
            where=places.gradient(found.name),
            remedy=_remedy([name], label),
        )
    return held(f"cotangent {label}: the same gradient", numbers)


def _varied(examination: Examination, variant: Variant) -> list[str]:
    """The arguments that a variant lays out otherwise."""
    pairs = zip(examination.trial.leaves, variant.trial.leaves, strict=True)
    return [
        f"`{name}`"
        for name, (old, new) in zip(examination.trial.names, pairs, strict=True)
        if new is not old
    ]


def _strides_of_inputs(examination: Examination, variant: Variant) -> str:
    """What each of them is laid out like, a line each."""
    leaves = dict(zip(variant.trial.names, variant.trial.leaves, strict=True))
    varied = _varied(examination, variant)
    return "\n".join(_strides(n, leaves[n.strip("`")]) for n in varied)


def _strides(name: str, tensor: Tensor) -> str:
    """How a tensor lies in memory, beside how it would lie if it were contiguous."""
    own, shape = tuple(tensor.stride()), tuple(tensor.shape)
    dense = tuple(torch.empty(shape, device="meta").stride())
    at = f", from element {tensor.storage_offset()}" if tensor.storage_offset() else ""
    lazy = " and a lazy bit" if tensor.is_neg() or tensor.is_conj() else ""
    if own == dense:
        return f"{name} of shape {shape} has contiguous strides {own}{lazy}{at}"
    return f"{name} of shape {shape} has strides {own}{lazy}{at}; contiguous is {dense}"


def _remedy(names: Sequence[str], label: str) -> str:
    """What to do before memory is read."""
    if _LAZY in label:
        return (
            f"Resolve the lazy bit of {' and '.join(names)} before its memory is read."
        )
    called = [f"`{n.strip('`')}.contiguous()`" if "`" in n else "" for n in names]
    if not all(called):
        called = [f"`.contiguous()` on {' and '.join(names)}"]
    return (
        f"Call {' and '.join(called)} before a kernel, a view or a pointer reads the "
        "memory, or pass the strides along."
    )


def _or_same(form: Callable[[Tensor], Tensor | None], tensor: Tensor) -> Tensor:
    other = form(tensor)
    return tensor if other is None else other


def _flat(tensor: Tensor) -> Tensor:
    """A cotangent of equal numbers as one number with strides of zero."""
    if tensor.numel() == 0:
        return tensor
    return tensor.reshape(-1)[0].clone().expand(tensor.shape)


def _first_line(error: Exception) -> str:
    cause = error.__cause__ or error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0][:80]
