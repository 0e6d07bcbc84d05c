"""BP602: what does not belong to the call is left alone."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.trial.random_state import preserved, snapshot
from backproof.battery.trial.surroundings import changes, surroundings
from backproof.records import Evidence, broken, held


@law("BP602")
def global_state(examination: Examination) -> Iterator[Evidence]:
    """The random state and other global state are left as a normal op leaves them.

    Forward may draw random numbers, and may not set the seed. Neither changes torch's
    settings, and backward leaves `.grad` to whoever called it.

    Cost: 3 forwards and 1 backward.
    Blind to: state of other libraries; files.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial, base = examination.trial, examination.base
    with preserved():
        before = surroundings()
        graph = trial.record()
        found = [f"after forward {c}" for c in changes(before, surroundings())]
        before = surroundings()
        trial.pull_tensors(graph, trial.split(base.cotangent))
        found += [f"after backward {c}" for c in changes(before, surroundings())]
    for words in found:
        yield broken(f"a global setting is changed\n{words}", {"change": words})
    for i, leaf in zip(trial.inputs, graph.leaves, strict=True):
        if leaf.grad is not None:
            yield broken(
                f"backward writes `{i.name}.grad` itself\n"
                "it was called by `torch.autograd.grad`, which must leave `.grad` alone; "
                "hooks do not see this gradient, and `backward()` counts it twice",
                {"input": i.name},
            )
            return
    if examination.is_random and _reseeds(examination):
        yield broken(
            "forward sets the global random state\n"
            "whatever the state was before, it is the same afterwards: everything random "
            "that follows repeats itself"
        )
        return
    if not found:
        yield held("the global state is as a normal op leaves it")


def _reseeds(examination: Examination) -> bool:
    """Whether two different random states are the same after forward."""
    trial = examination.trial
    values = [p.values for p in trial.points]
    after = []
    for seed in (trial.seed, trial.seed + 1):
        trial.from_seed(seed).forward(values)
        after.append(snapshot())
    return after[0][0] == after[1][0]
