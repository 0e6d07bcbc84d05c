"""BP505: right at every size, not only at the given one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.another_point import Wrong, what_is_wrong
from backproof.battery.cases import Resized
from backproof.battery.cases import sizes as every_size
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.errors import BadInput
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Refused, Trial

_SLOW = 0.01  # seconds that one forward may take at a size: it is called some 40 times

_OTHER = 1  # added to the seed
_EXPLAINED = 3  # sizes whose wrong gradient is looked into


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
    accused = 0
    for resized in every_size(examination.trial, examination.trial.outputs):
        try:
            if not resized.empty and _seconds(resized.trial) > _SLOW:
                left.append(f"{resized.words} (too slow)")
                continue
            evidence = _at(examination, resized, explain=accused < _EXPLAINED)
        except (BadInput, Refused) as error:
            left.append(f"{resized.words} ({_first_line(error)})")
            continue
        if evidence is None:
            right.append(resized.words)
        else:
            accused += 1
            yield evidence
    numbers = {"sizes": len(right), "refused": len(left)}
    if right:
        yield held(f"right also at {len(right)} other sizes{_without(left)}", numbers)
    elif left:
        raise NotApplicable(f"no other size could be made{_without(left)}")


def _at(
    examination: Examination, resized: Resized, *, explain: bool
) -> Evidence | None:
    """A broken law at this size, None where all is well or nothing can be said.

    `explain` asks for a diagnosis, which the first few sizes get.
    """
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
            where=Places(resized.trial).raised(error),
        )
    return None if wrong is None else _broken(resized, wrong, explain=explain)


def _broken(resized: Resized, wrong: Wrong, *, explain: bool) -> Evidence:
    words = wrong.explained() if explain else wrong.words
    comma = "" if words.startswith("the gradient") else ","
    return broken(
        f"at another size ({resized.words}){comma} {words}",
        {"size": resized.words},
        where=wrong.where or Places(resized.trial).gradient(wrong.name),
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
            where=Places(trial).raised(error),
            remedy="Return gradients of zero elements for empty inputs, before any work.",
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
                where=Places(trial).gradient(i.name),
                remedy=f"Begin the gradient of `{i.name}` with zeros: `torch.zeros_like`.",
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
