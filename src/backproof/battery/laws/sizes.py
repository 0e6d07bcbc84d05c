"""BP505: right at every size, not only at the given one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.another_point import what_is_wrong
from backproof.battery.cases import Resized
from backproof.battery.cases import sizes as every_size
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.law import NotApplicable, law, raised
from backproof.errors import BadInput
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Refused, Trial

_SLOW = 0.01  # seconds that one forward may take at a size: it is called some 40 times

_OTHER = 1  # added to the seed


@law("BP505")
def sizes(examination: Examination) -> Iterator[Evidence]:
    """The gradient is right at other sizes: empty, one, odd, across blocks.

    The same referee as for the given size. What forward refuses is no size of this op;
    an error of backward counts for an empty batch, one element and one element more.

    Cost: about 15 forwards and 4 backwards a size, and four sizes for each length that a
    dimension has; fewer where a call is slow.
    Blind to: sizes beyond 1,025 in one dimension; lengths that plain arguments hold.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    if not examination.trial.subject.declared and (
        examination.gradient.kind in (Kind.WRONG, Kind.STAIRCASE)
    ):
        raise NotApplicable("the gradient is wrong, or a surrogate, at the given size")
    right: list[str] = []
    left: list[str] = []
    for resized in every_size(examination.trial, examination.trial.outputs):
        try:
            if not resized.empty and _seconds(resized.trial) > _SLOW:
                left.append(f"{resized.words} (too slow)")
                continue
            evidence = _at(examination, resized)
        except (BadInput, Refused) as error:
            left.append(f"{resized.words} ({_first_line(error)})")
            continue
        if evidence is None:
            right.append(resized.words)
        else:
            yield evidence
    numbers = {"sizes": len(right), "refused": len(left)}
    if right:
        yield held(f"right also at {len(right)} other sizes{_without(left)}", numbers)
    elif left:
        raise NotApplicable(f"no other size could be made{_without(left)}")


def _at(examination: Examination, resized: Resized) -> Evidence | None:
    """A broken law at this size, None where all is well or nothing can be said."""
    if resized.empty:
        return _empty(resized)
    numbers = {"size": resized.words}
    try:
        wrong = what_is_wrong(resized.trial, examination.seed)
        if wrong:  # few elements: another line and cotangent have to say so too
            wrong = what_is_wrong(resized.trial, examination.seed + _OTHER) and wrong
    except BackwardRaised as error:
        if not resized.near:
            raise Refused(f"backward raises {raised(error)}") from error
        return broken(
            f"at another size ({resized.words}) backward raises\n{raised(error)}",
            numbers,
        )
    return (
        broken(f"at another size ({resized.words}) {wrong}", numbers) if wrong else None
    )


def _empty(resized: Resized) -> Evidence | None:
    """Without elements there is nothing to probe: backward must run, and claim zero."""
    trial, numbers = resized.trial, {"size": resized.words}
    leaves = [i.original.clone().requires_grad_() for i in trial.inputs]
    try:
        with torch.enable_grad():
            outputs = trial.outputs_for(leaves)
    except Exception as error:
        raise Refused(str(error)) from error
    if not all(bool(torch.isfinite(t).all()) for t in outputs):
        raise Refused("forward is not finite there")
    outputs = [t for t in outputs if t.requires_grad]
    if not outputs:
        return None
    try:
        gradients = torch.autograd.grad(
            outputs, leaves, [torch.ones_like(t) for t in outputs], allow_unused=True
        )
    except Exception as error:
        first = (str(error).strip() or "without a message").splitlines()[0]
        return broken(
            f"for an empty batch ({resized.words}) backward raises, and forward does "
            f"not\n{type(error).__name__}: {first}",
            numbers,
        )
    if any(t.numel() for t in outputs):
        return None
    for i, gradient in zip(trial.inputs, gradients, strict=True):
        if gradient is not None and not _is_zero(gradient):
            return broken(
                f"for an empty batch ({resized.words}) `{i.name}` gets a gradient that "
                "is not zero\n"
                "there is no output that it could come from: memory was not initialised",
                numbers,
            )
    return None


def _is_zero(gradient: Tensor) -> bool:
    return not bool((gradient != 0).any())


def _seconds(trial: Trial) -> float:
    """Wall time of one forward.

    Raises:
        Refused: forward raises.
    """
    tensors = [i.at(i.point.values) for i in trial.inputs]
    start = time.perf_counter()
    try:
        with torch.no_grad():
            trial.outputs_for(tensors)
    except Exception as error:
        raise Refused(str(error)) from error
    return time.perf_counter() - start


def _without(left: list[str]) -> str:
    if not left:
        return ""
    return f"; {len(left)} could not be made: {'; '.join(left[:3])}" + (
        " …" if len(left) > 3 else ""
    )


def _first_line(error: Exception) -> str:
    cause = error.__cause__ or error
    return (str(cause).strip() or type(cause).__name__).splitlines()[0][:60]
