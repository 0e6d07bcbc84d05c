"""The line and the cotangent along which a gradient is most clearly wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.battery.inquiry import Conclusion, Inquiry, Kind
from backproof.battery.inquiry.base import begin
from backproof.battery.inquiry.look import Comparison, Look, Observer, OutsideDomain
from backproof.battery.two_stages import judge_gradient
from backproof.probe import Ladder, direction, stream
from backproof.probe.ladder import forms
from backproof.repro.conviction import Conviction
from backproof.repro.errors import NoScript
from backproof.repro.script import Script, script
from backproof.repro.stage import Stage
from backproof.trial import Refused, Trial

_KINK_SLACK = 1.2  # on half the gap between one-sided slopes, as the referee allows

TEMPLATE = """
$setup
inputs, lines, cotangents = $inputs, saved["lines"], saved["cotangents"]
points = [x.detach().clone() for x in inputs]

def outputs(m, line):  # at m steps along a line
    for x, point, step in zip(inputs, points, line):
        x.data.copy_(point + m * step)
$run

def moved(m, line):  # by a central difference
    both = zip(cotangents, outputs(m, line), outputs(-m, line))
    return sum((u$conj * (a.$wide() - b.$wide()))$part.sum().item() for u, a, b in both) / 2

found = outputs(0, lines[0])
gradients = torch.autograd.grad(found, inputs, cotangents, materialize_grads=True)
pairs = ((g, step) for line in lines for g, step in zip(gradients, line))
claim = sum((g$conj * step)$part.sum().item() for g, step in pairs) / $unit
stencil = $stencil  # weights of m
truth = sum(w * moved(m, line) for line in lines for m, w in stencil.items()) / $unit
said = f"backward claims {claim:.9g}, $forward {truth:.9g}, bar $bar"
print(said)
assert abs(claim - truth) <= $bar, "$code: " + said
"""


@dataclass(frozen=True)
class Accusation:
    """What convicts most clearly.

    Attributes:
        lines: whose derivatives are summed; one step an input, or None.
        cotangent: of all outputs, float64 (num_outputs,).
        comparison: of claim and truth.
        ladder: where the truth comes from.
        guarded: whether something is not finite and counts as zero.
    """

    lines: list[list[Tensor | None]]
    cotangent: Tensor
    comparison: Comparison
    ladder: Ladder
    guarded: bool


def accusation(trial: Trial, conclusion: Conclusion, seed: int) -> Accusation:
    """The worst rejecting comparison: of a wrong input alone, or of all together.

    Raises:
        NoScript: none rejects but at kinks.
    """
    look = conclusion.look
    if look is None:
        raise NoScript("no step of forward convicts it")
    observer = Observer(trial, begin(trial, seed), seed)
    names = [i.name for i in trial.inputs]
    for name in conclusion.wrong_inputs:
        found = list(_alone(observer, look, names.index(name)))
        if found:
            return max(found, key=_excess)
    found = list(_together(observer, look))
    if not found:
        raise NoScript("it shows at kinks of forward only")
    return max(found, key=_excess)


def directional(
    conviction: Conviction,
    stage: Stage,
    accused: Accusation,
    **values: object,
) -> Script:
    """The script that measures claim and truth along the accusation's lines.

    Args:
        conviction: what is shown.
        stage: the call whose inputs are moved, all of them tensors of the script.
        accused: the lines, the cotangent and the numbers.
        **values: what the template gets otherwise than from the stage.
    """
    trial, seen = stage.trial if "trial" not in values else values.pop("trial"), accused
    assert isinstance(trial, Trial)
    which = [k for k, step in enumerate(seen.lines[0]) if step is not None]
    stage.saved["lines"] = [
        [trial.inputs[k].at(_step(line, k)).to(_wide(trial, k)) for k in which]
        for line in seen.lines
    ]
    stage.saved["cotangents"] = trial.split(seen.cotangent)
    unit, bar = seen.comparison.relative_step, _reach(seen.comparison)
    kinds = [i.original for i in trial.inputs] + stage.saved["cotangents"]
    part = ".real" if (is_complex := _is_complex(kinds)) else ""
    chosen: dict[str, object] = {
        "unit": repr(unit),
        "bar": f"{bar / unit:.3g}",
        "stencil": _stencil(seen),
        "conj": ".conj()" if is_complex else "",
        "part": part + (".nan_to_num()" if seen.guarded else ""),
        "wide": "cdouble" if is_complex else "double",
        "forward": "forward moves by",
    }
    if "inputs" not in values:
        places = stage.inputs()
        chosen["inputs"] = f"[{', '.join(places[k] for k in which)}]"
    return script(conviction, stage, TEMPLATE, **(chosen | values))


def _is_complex(tensors: Sequence[Tensor]) -> bool:
    return any(t.is_complex() for t in tensors)


def at_other_inputs(conviction: Conviction, trial: Trial) -> Script:
    """The same for a gradient that is wrong at other inputs than the case's."""
    seed = conviction.examination.seed
    at = trial.in_float64() or trial
    found = judge_gradient(Inquiry(at, seed=seed), None)
    if found.kind is not Kind.WRONG:
        raise NoScript("it is not decided there")
    accused = accusation(at, found.decided_by, seed)
    return directional(conviction, conviction.stage(at), accused)


def _step(line: list[Tensor | None], k: int) -> Tensor:
    step = line[k]
    assert step is not None
    return step


def _wide(trial: Trial, k: int) -> torch.dtype:
    return torch.promote_types(trial.inputs[k].original.dtype, torch.float64)


def _alone(observer: Observer, look: Look, k: int) -> Iterator[Accusation]:
    """What rejects when input `k` moves alone, at three sizes of step."""
    p, base = look.precision, observer.base
    for factor in (p.longer, 1.0, p.shorter):
        point = observer.trial.points[k]
        step = direction(
            point,
            p,
            stream(observer.seed, 600, k),
            factor=look.factor * factor,
            signs_of=look.gradients[0][k],
            frozen=base.frozen[k],
        )
        line = [step if n == k else None for n in range(len(observer.trial.inputs))]
        try:
            ladders = observer.climb([[line]], p)
            response = observer.respond(ladders, p, look.factor * factor)
        except (Refused, OutsideDomain):
            continue
        smooth = response.smooth & look.response.smooth
        cotangents = [torch.where(smooth, u, 0.0) for u in look.cotangents]
        gradients = [observer.gradient(u) for u in cotangents]
        seen = observer.compare(ladders, response, cotangents, gradients)
        for cotangent, comparison in zip(cotangents, seen, strict=True):
            if comparison.rejects:
                guarded = _has_gaps(observer)
                yield Accusation([line], cotangent, comparison, ladders[0], guarded)


def _together(observer: Observer, look: Look) -> Iterator[Accusation]:
    """What rejects when all inputs move."""
    lines = observer.lines(look.precision, look.factor)
    count = len(look.cotangents)
    for n, comparison in enumerate(look.comparisons):
        if comparison.rejects:
            ladder, cotangent = look.ladders[n // count], look.cotangents[n % count]
            mine = lines[n // count] if ladder.count > 1 else [ladder.steps]
            guarded = _has_gaps(observer)
            yield Accusation(mine, cotangent, comparison, ladder, guarded)


def _has_gaps(observer: Observer) -> bool:
    base = observer.base
    return not bool(base.finite.all()) or any(f is not None for f in base.frozen)


def _excess(accused: Accusation) -> float:
    return abs(accused.comparison.error) / max(_reach(accused.comparison), 1e-300)


def _reach(comparison: Comparison) -> float:
    """How far claim and truth may be apart, per smallest step."""
    return comparison.margin * comparison.bar + _KINK_SLACK * abs(comparison.kink)


def _stencil(accused: Accusation) -> dict[int, float]:
    """The weights of the central differences that the truth is made of, by their m."""
    ladder = accused.ladder
    values, shape = ladder.moved @ accused.cotangent, forms(ladder.ratio)
    quotients = (shape.first, shape.second, shape.third)
    richardson = (shape.near, shape.far, shape.best)
    truth = accused.comparison.truth.value
    form = min(
        (*quotients, *richardson), key=lambda f: abs(float(f.weights @ values) - truth)
    )
    return {ladder.ratio**n: 2 * float(w) for n, w in enumerate(form.weights[::2]) if w}
