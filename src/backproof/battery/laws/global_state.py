"""BP602: what does not belong to the call is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import torch

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.records import Evidence, broken, held
from backproof.trial.random_state import GENERATORS, snapshot
from backproof.trial.surroundings import changes, surroundings

_SEEDS = (20231, 77003)  # which no op would set by itself


@law("BP602")
def global_state(examination: Examination) -> Iterator[Evidence]:
    """The random state and other global state are left as a normal op leaves them.

    Forward may draw random numbers, and may not set the seed. Neither changes torch's
    settings, and backward leaves `.grad` to whoever called it.

    Cost: 4 forwards and 3 backwards.
    Blind to: state of other libraries; files.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial, base = examination.trial, examination.base
    graph = trial.record()
    trial.pull_tensors(graph, trial.split(base.cotangent))
    found = changes(examination.surroundings, surroundings())
    if _switches_grad_on(examination):
        found.append("torch.is_grad_enabled() is True, was False, in `torch.no_grad()`")
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
    reseeded = _reseeds(examination)
    for generator, what in reseeded:
        yield broken(
            f"{what} sets the seed of {generator}\n"
            "whatever its state was before, it is the same afterwards: everything random "
            "that follows repeats itself",
            {"generator": generator},
        )
    if not found and not reseeded:
        yield held("the global state is as a normal op leaves it")


def _switches_grad_on(examination: Examination) -> bool:
    """Whether a call under `no_grad` leaves recording on."""
    trial = examination.trial
    tensors = [i.at(i.point.values) for i in trial.inputs]
    with torch.no_grad():
        with suppress(Exception):
            trial.outputs_for(tensors)
        return torch.is_grad_enabled()


def _reseeds(examination: Examination) -> list[tuple[str, str]]:
    """(generator, "forward" or "backward") where two different states become one."""
    trial, cotangent = examination.trial, examination.base.cotangent
    after: list[list[tuple[object, ...]]] = []
    for seed in _SEEDS:
        graph = trial.from_seed(seed).record()
        states = [snapshot()]
        trial.pull(graph, cotangent, seed=seed)
        after.append([*states, snapshot()])
    return [
        (name, what)
        for k, what in enumerate(("forward", "backward"))
        for n, name in enumerate(GENERATORS)
        if n < len(after[0][k]) and after[0][k][n] == after[1][k][n]
    ]
