"""BP602: what does not belong to the call is left alone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from contextlib import suppress

import torch

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places, called_at
from backproof.records import Evidence, Location, broken, held
from backproof.trial import Trial
from backproof.trial.random_state import GENERATORS, snapshot
from backproof.trial.surroundings import changes, surroundings

_SETTERS = (
    *("set_default_dtype", "set_default_device", "set_num_threads", "set_rng_state"),
    *("set_grad_enabled", "use_deterministic_algorithms", "set_anomaly_enabled"),
    *("set_float32_matmul_precision", "set_flush_denormal", "set_detect_anomaly"),
    *("set_autocast_enabled", "set_default_tensor_type", "__enter__"),
)
_SEEDING = ("manual_seed", "manual_seed_all", "seed", "set_rng_state", "set_state")
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
        yield broken(
            f"a global setting is changed\n{words}",
            {"change": words},
            where=_set_at(trial, _SETTERS),
            remedy="Set it inside of a context manager that restores it, also when the "
            "call raises.",
        )
    for i, leaf in zip(trial.inputs, graph.leaves, strict=True):
        if leaf.grad is not None:
            yield broken(
                f"backward writes `{i.name}.grad` itself\n"
                "it was called by `torch.autograd.grad`, which must leave `.grad` alone; "
                "hooks do not see this gradient, and `backward()` counts it twice",
                {"input": i.name},
                where=_grad_written(trial),
                remedy=f"Return the gradient of `{i.name}` from backward, and leave "
                "`.grad` to the engine.",
            )
            return
    reseeded = _reseeds(examination)
    for generator, what in reseeded:
        yield broken(
            f"{what} sets the seed of {generator}\n"
            "whatever its state was before, it is the same afterwards: everything random "
            "that follows repeats itself",
            {"generator": generator},
            where=_set_at(trial, _SEEDING, what),
            remedy="Draw from a generator of your own, such as "
            "`torch.Generator().manual_seed(0)`, and hand it on as `generator=`.",
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


def _set_at(trial: Trial, calls: Collection[str], what: str = "") -> Location | None:
    """Where forward or backward calls one of these functions."""
    places = Places(trial)
    codes = {"forward": places.forward, "backward": places.both[-1:]}.get(what)
    return called_at(places.both if codes is None else codes, calls)


def _grad_written(trial: Trial) -> Location | None:
    code = Places(trial).backward
    if code is None:
        return None
    for node in ast.walk(code.method.node):
        if isinstance(node, ast.Attribute) and node.attr == "grad":
            return code.at_node(node)
    return called_at([code], ("backward",))
