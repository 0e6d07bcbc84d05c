"""BP504: the same numbers whoever needs a gradient."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.battery.cases import subsets as every_subset
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.errors import BadInput
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Refused, Trial


@law("BP504")
def subsets(examination: Examination) -> Iterator[Evidence]:
    """The numbers do not depend on which subset of the inputs needs a gradient.

    Cost: 1 forward and 1 backward a subset: all of them up to 5 inputs (30), a sample
    above.
    Blind to: what is computed for inputs that need none (BP702 sees it).
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    if len(examination.trial.inputs) < 2:
        raise NotApplicable("there is one input that needs a gradient")
    base = examination.base
    every = {i.name: k for k, i in enumerate(examination.trial.inputs)}
    seen = 0
    for variant in every_subset(examination.trial):
        trial = variant.trial
        try:
            graph = trial.record()
        except (BadInput, Refused):
            continue  # no output depends on this subset
        if [o.name for o in trial.outputs] != [
            o.name for o in examination.trial.outputs
        ]:
            continue
        seen += 1
        numbers = {"subset": variant.label}
        words = _only(trial)
        found = examination.yardstick.values(graph.values, base.graph.values)
        if found.is_real:
            yield broken(
                f"when {words}, forward gives other values: `{found.name}` "
                f"{found.becomes}\n`{found.name}` is {found.words}",
                {**numbers, **found.numbers},
                where=Places(trial).forward_return(),
            )
            continue
        try:
            got = trial.pull(graph, base.cotangent)
        except BackwardRaised as error:
            yield broken(
                f"when {words}, backward raises\n{raised(error)}",
                numbers,
                where=Places(trial).raised(error),
            )
            continue
        names = [i.name for i in trial.inputs]
        expected = [base.gradient[every[name]] for name in names]
        found = examination.yardstick.gradients(got, expected, names)
        if found.is_real:
            yield broken(
                f"the gradient of `{found.name}` {found.becomes} when {words}\n"
                f"it gets {found.words}",
                {**numbers, **found.numbers},
                where=Places(trial).gradient(found.name),
                remedy=_remedy(trial, found.name),
            )
    if seen:
        yield held(f"{seen} subsets of the inputs give the same numbers")


def _only(trial: Trial) -> str:
    """The subset in words."""
    names = ", ".join(f"`{i.name}`" for i in trial.inputs)
    return f"only {names} need{'s' if len(trial.inputs) == 1 else ''} a gradient"


def _remedy(trial: Trial, name: str) -> str:
    """The one condition that the gradient of an input may depend on."""
    names = [n for n, _ in trial.named_arguments]
    if trial.subject.definition is None or name not in names:
        return ""
    return (
        f"Compute the gradient of `{name}` whenever "
        f"`ctx.needs_input_grad[{names.index(name)}]` is True, whatever the others are."
    )
