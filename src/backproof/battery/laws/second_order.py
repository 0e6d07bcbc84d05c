"""BP102: the derivative of backward is what a second backward gives."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from backproof.battery.agreement import Yardstick
from backproof.battery.cut import cuts
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Inquiry, Kind
from backproof.battery.inquiry.backward_noise import SCALE, pull_nudged
from backproof.battery.inquiry.base import clean
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.battery.two_stages import Gradient, judge_gradient
from backproof.errors import BadInput
from backproof.probe import signs, stream
from backproof.records import Evidence, Number, broken, held, undecided
from backproof.trial import BackwardRaised, Graph, Refused, Trial
from backproof.trial.custom_nodes import custom_nodes, every_node
from backproof.trial.pullback import declared_pullback, pullback
from backproof.trial.vectors import minus, overlap

_SILENT = (
    "it depends on the cotangent, and a second backward counts it as a constant without "
    "a word: beside another path the loss of its terms is silent"
)
_SENSITIVE = 32.0  # times the change that a move in the last place makes


@law("BP102")
def second_order(examination: Examination) -> Iterator[Evidence]:
    """A second backward is the derivative of backward; no term is lost silently.

    Backward is a function of inputs and cotangents like any other, so the same referee
    judges its derivative: in float64 where the subject runs there. A backward that
    refuses to be differentiated has not broken the law.

    Cost: about 15 forwards with a backward each, and 4 second backwards.
    Blind to: third and higher derivatives.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    written = any(custom_nodes(examination.base.graph))
    if examination.trial.subject.declared and not written:
        raise NotApplicable(
            "autograd differentiates torch code that detaches on purpose"
        )
    trial = finest(examination)
    cotangent = trial.represent(examination.base.cotangent)
    second = pullback(trial, trial.record(), cotangent)
    try:
        if _refused_at_first_use(second.record()):
            raise NotApplicable("backward is marked `once_differentiable`")
    except BadInput as error:
        moving = any(g is not None and bool(g.any()) for g in examination.base.gradient)
        if not moving or "has no grad_fn" not in str(error):
            raise NotApplicable(
                f"a second backward is refused: {_reason(error)}"
            ) from error
        yield _lost(trial, [i.name for i in trial.inputs])
        return
    yield from _cut(examination, second)
    yield _judged(trial, second, cotangent, examination.seed)


def _judged(trial: Trial, second: Trial, cotangent: Tensor, seed: int) -> Evidence:
    """What the referee says of the second backward, after the last doubts."""
    try:
        found = judge_gradient(Inquiry(second, seed=seed), None)
    except BackwardRaised as error:
        raise NotApplicable(
            f"the second backward is refused: {raised(error)}"
        ) from error
    except (BadInput, Refused) as error:
        raise NotApplicable(f"it cannot be probed: {_reason(error)}") from error
    if found.kind is Kind.RIGHT:
        return held("the second backward is the derivative of backward")
    if found.kind is not Kind.WRONG or found.precision_only:
        words = found.decided_by.words or "it has the digits of a coarser type"
        return undecided(f"the second derivative is not decided: {words}")
    if _as_declared(trial, second, cotangent):
        return held("the second backward is that of the declared gradient")
    if _is_noise(second, found):
        return undecided("the second backward is nothing but its own rounding here")
    return _wrong(trial, second, found)


def finest(examination: Examination) -> Trial:
    """The subject in float64 where it runs there, as it is otherwise."""
    if not examination.trial.subject.declared:
        _ = examination.gradient
    wide = examination.wide_trial or examination.trial.in_float64()
    if wide is None:
        return examination.trial
    try:
        graph = wide.record()
        wide.pull(graph, wide.represent(examination.base.cotangent))
    except (BadInput, Refused, BackwardRaised):
        return examination.trial
    same = [o.name for o in wide.outputs] == [o.name for o in examination.trial.outputs]
    return wide if same else examination.trial


def _as_declared(trial: Trial, second: Trial, cotangent: Tensor) -> bool:
    """Whether the declared gradient cuts the same terms on purpose.

    Costs 1 forward and 2 second backwards, before an accusation.
    """
    if trial.subject.expect_backward is None:
        return False
    declared = declared_pullback(trial, cotangent)
    try:
        mine, theirs = second.record(), declared.record()
        pulled = second.represent(signs(stream(trial.seed, 950), len(mine.values)))
        if mine.values.numel() != theirs.values.numel():
            return False
        got, expected = second.pull(mine, pulled), declared.pull(theirs, pulled)
    except (BadInput, Refused, BackwardRaised):
        return False
    return not Yardstick(second, pulled).gradients(got, expected).is_real


def _is_noise(second: Trial, found: Gradient) -> bool:
    """Whether rounding changes the second backward by as much as it is off.

    Costs 1 forward and 1 second backward for each cotangent, before an accusation.
    """
    look, worst = found.decided_by.look, found.decided_by.worst
    if look is None or worst is None:
        return False
    noise = 0.0
    for cotangent, gradient in zip(look.cotangents, look.gradients, strict=True):
        scaled = second.represent(cotangent * SCALE)
        try:
            moved = pull_nudged(second, scaled)
        except (Refused, BackwardRaised):
            return False
        back = [None if g is None else g / SCALE for g in clean(moved)]
        change = minus(back, gradient)
        noise = max(noise, *(overlap(change, ladder.steps) for ladder in look.ladders))
    return abs(worst.error) <= _SENSITIVE * noise


def _refused_at_first_use(graph: Graph) -> bool:
    """Whether a gradient carries the node by which `once_differentiable` refuses.

    That node hangs off copies of the inputs, so a second gradient for the inputs
    themselves never meets it, and reads as zero.
    """
    return any(type(node).__name__ == "Error" for node in every_node(graph))


def _cut(examination: Examination, second: Trial) -> Iterator[Evidence]:
    """Gradients that are not zero and have no graph, beside others that have one."""
    lost = []
    for name in second.unrecorded:
        k = int(name.partition("[")[2].partition("]")[0] or 0)
        gradient = examination.base.gradient[k]
        if gradient is not None and bool(gradient.any()):
            lost.append(examination.trial.inputs[k].name)
    if lost:
        yield _lost(examination.trial, lost)


def _lost(trial: Trial, names: list[str]) -> Evidence:
    told, places = ", ".join(f"`{n}`" for n in names), Places(trial)
    by = next(cuts(places), None)
    said = [by.words] if by is not None else []
    return broken(
        "\n".join(
            [
                f"the gradient of {told} is cut from the graph",
                *said,
                _SILENT,
            ]
        ),
        {"inputs": names},
        where=by.where if by else places.gradient(names[0]),
        remedy=by.remedy if by else "",
    )


def _wrong(trial: Trial, second: Trial, found: Gradient) -> Evidence:
    worst, places = found.decided_by.worst, Places(trial)
    names = found.decided_by.wrong_inputs or tuple(i.name for i in second.inputs)
    told = ", ".join(n if " " in n else f"`{n}`" for n in names)
    gradients = ", ".join(f"`{i.name}`" for i in trial.inputs)
    by = next(cuts(places), None)
    verb = "is zero" if worst is not None and not worst.claim.value else "is wrong"
    of = "the gradients of" if len(trial.inputs) > 1 else "the gradient of"
    change = "change with" if len(trial.inputs) > 1 else "changes with"
    them = "them" if len(names) > 1 else "it"
    lines = [
        f"the second derivative {verb} for {told}: how {of} {gradients} {change} {them}"
    ]
    lines += [by.words] if by is not None else []
    numbers: dict[str, Number] = {"inputs": list(names)}
    if worst is not None:
        lines += [
            f"the second backward claims {worst.per_unit(worst.claim)}",
            f"backward itself changes by {worst.per_unit(worst.truth)}",
        ]
        numbers |= {
            "claim": worst.claim.value,
            "truth": worst.truth.value,
            "bar": worst.bar,
        }
    return broken(
        "\n".join(lines),
        numbers,
        where=by.where if by else places.gradient(trial.inputs[0].name),
        remedy=by.remedy if by else "",
    )


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0]
