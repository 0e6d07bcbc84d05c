"""BP111: the subject computes what its reference computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from backproof.battery.agreement import field_of_input, field_of_output
from backproof.battery.difference import between
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.diagnosis.region import Field
from backproof.errors import BadInput
from backproof.probe import coarsest, typical
from backproof.records import Evidence, Location, broken, held, undecided
from backproof.trial import BackwardRaised, Refused, Trial

_BLOCK = 8192  # elements that are named together
_ROUNDINGS = 16.0  # of the element and of a typical one, in eps of its type
_SENSITIVE = 16.0  # times the change that a move in the last place makes


@law("BP111")
def reference(examination: Examination) -> Iterator[Evidence]:
    """Forward is the reference's forward, and the gradient its gradient, block by block.

    The reference runs in float64 where it can, at the very same numbers: what it gives is
    the truth for a subject that has no float64 of its own. What rounding may change is
    measured at inputs moved in their last place.

    Cost: 1 forward and 1 backward of the subject, and as many of the reference (two of
    each where it has a float64 and another type).
    Blind to: what subject and reference get wrong alike.
    """
    own = examination.trial
    if own.subject.reference is None:
        raise NotApplicable("there is no reference: forward itself was not judged")
    base = examination.base
    plain = own.in_place_of(own.subject.reference)
    wide = plain.in_float64() or plain
    try:
        graph = wide.record()
    except (BadInput, Refused):
        wide = plain
        graph = wide.record()
    if [o.shape for o in wide.outputs] != [o.shape for o in own.outputs]:
        yield broken(
            "forward's outputs do not have the reference's form\n"
            f"{_forms(own)} instead of {_forms(wide)}"
        )
        return
    sensitive = examination.yardstick.sensitivity
    names = [o.name for o in own.outputs]
    for name, output in zip(names, own.outputs, strict=True):
        part = output.part
        yield _blocks(
            f"forward's `{name}`",
            partial(field_of_output, own, output),
            Places(own).forward_return,
            base.graph.values[part],
            graph.values[part],
            coarsest([output.dtype]).eps,
            None if sensitive[0] is None else sensitive[0][part],
        )
    if own.subject.declared:
        return
    try:
        truth = wide.pull(graph, base.cotangent)
    except BackwardRaised as error:
        yield undecided(f"the reference's own backward raises: {error}")
        return
    for i, mine, theirs in zip(own.inputs, base.gradient, truth, strict=True):
        if mine is None and theirs is None:
            continue
        zero = torch.zeros_like(i.point.values)
        yield _blocks(
            f"the gradient of `{i.name}`",
            partial(field_of_input, own, i.name),
            partial(Places(own).gradient, i.name),
            zero if mine is None else mine,
            zero if theirs is None else theirs,
            coarsest([*own.dtypes]).eps,
            sensitive[1].get(i.name),
        )


def _blocks(
    what: str,
    here: Callable[[], Field],
    where: Callable[[], Location | None],
    got: Tensor,
    expected: Tensor,
    eps: float,
    sensitive: Tensor | None,
) -> Evidence:
    """One comparison, element by element; what is wrong is named by its region."""
    size = expected.abs().nan_to_num(0.0, 0.0, 0.0)
    middle = typical(size)
    allowed = _ROUNDINGS * eps * size.clamp(min=middle)
    if sensitive is not None:
        noise = sensitive.abs().nan_to_num(0.0, 0.0, 0.0)
        allowed = torch.maximum(
            allowed, _SENSITIVE * noise.clamp(max=4 * typical(noise))
        )
    same = (got == expected) | (got.isnan() & expected.isnan())
    gap = torch.where(same, 0.0, (got - expected).abs())
    wrong = ~(gap <= allowed)
    count = int(torch.count_nonzero(wrong))
    share = (
        float((gap / size.clamp(min=middle)).nan_to_num(1e300).max())
        if gap.numel()
        else 0.0
    )
    numbers = {"departure": share, "elements_wrong": count, "elements": gap.numel()}
    if not count:
        return held(f"{what} is the reference's", numbers)
    at = wrong.nonzero().reshape(-1)
    blocks = sorted({int(k) // _BLOCK for k in at[:4096].tolist()})
    found = between(what, got, expected, wrong, here)
    relation = "" if found.becomes == "changes" else f": it {found.becomes}"
    return broken(
        f"{what} is not the reference's{relation}\n"
        f"at {found.element} the subject gives {found.got:.6g}, the reference "
        f"{found.expected:.6g}; rounding explains {float(allowed[found.at]):.1g}\n"
        f"{found.extent}{_ranges(blocks, gap.numel())}",
        {**numbers, "first": int(at[0]), "blocks": blocks[:16]},
        where=where(),
    )


def _ranges(blocks: Sequence[int], total: int) -> str:
    """The blocks of a large tensor that hold something wrong."""
    if total <= _BLOCK:
        return ""
    told = [f"[{b * _BLOCK}:{min(total, (b + 1) * _BLOCK)}]" for b in blocks[:4]]
    more = f" and {len(blocks) - 4} more" if len(blocks) > 4 else ""
    return f", in elements {', '.join(told)}{more} (blocks of {_BLOCK})"


def _forms(trial: Trial) -> str:
    return ", ".join(f"{o.name} {tuple(o.shape)}" for o in trial.outputs)
