"""BP205: each call keeps its own state until its backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.battery.state import outer_writes
from backproof.errors import BadInput
from backproof.records import Evidence, Location, Number, broken, held
from backproof.trial import BackwardRaised, Refused, Trial
from backproof.trial.elsewhere import elsewhere
from backproof.trial.settings import moved_settings


@law("BP205")
def shared_state(examination: Examination) -> Iterator[Evidence]:
    """Calls do not share state: two forwards before two backwards, in either order.

    Settings in dictionaries and changing globals that backward reads are such state too:
    they are moved between forward and backward.

    The second call has other values, other fractions among its plain arguments, and its
    integers and masks in another order.

    Cost: 8 forwards and 7 backwards; 1 and 1 for each number that backward looks up, and
    1 forward where there are fractions, integers or masks.
    Blind to: state that only calls of another shape share.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial, base = examination.trial, examination.base
    moved = elsewhere(trial)
    other = _with_other_numbers(trial, moved)
    try:
        alone = other.record(moved)
        of_other = other.pull(alone, base.cotangent)
    except Refused as error:
        raise NotApplicable("forward refuses a second call nearby") from error
    yield from _disturbed(examination, other, moved)
    for order in ("the first", "the second"):
        graphs = [trial.record(), other.record(moved)]
        expected = [base.gradient, of_other]
        turns = (0, 1) if order == "the first" else (1, 0)
        for turn in turns:
            try:
                got = (trial, other)[turn].pull(graphs[turn], base.cotangent)
            except BackwardRaised as error:
                yield _blamed(
                    trial,
                    "backward raises when two forwards come before two backwards\n"
                    f"{raised(error)}",
                    {"order": order},
                    Places(trial).raised(error),
                )
                return
            found = examination.yardstick.gradients(got, expected[turn])
            if found.is_real:
                which = ("first", "second")[turn]
                yield _blamed(
                    trial,
                    "calls share state: with two forwards before two backwards a "
                    "gradient is that of the other call\n"
                    f"backward of {order} call comes first; in that of the {which} "
                    f"`{found.name}` gets {found.words}",
                    {"order": order, **found.numbers},
                )
                return
    yield held("two pending calls do not disturb each other")
    yield from _settings(examination)


def _with_other_numbers(trial: Trial, values: list[Tensor]) -> Trial:
    """The call with other fractions, and integers and masks in another order.

    Itself where forward does not bear it.
    """
    leaves = [_other(v) for v in trial.leaves]
    if all(new is old for new, old in zip(leaves, trial.leaves, strict=True)):
        return trial
    other = trial.with_leaves(leaves)
    try:
        other.record(values)
    except (BadInput, Refused):
        return trial
    return other if other.outputs == trial.outputs else trial


def _other(leaf: Any) -> Any:
    if type(leaf) is float:
        return 1.25 * leaf
    kinds = (torch.bool, torch.int32, torch.int64)
    if isinstance(leaf, Tensor) and leaf.dtype in kinds and leaf.numel() > 1:
        return leaf.flip(tuple(range(leaf.dim())))
    return leaf


def _disturbed(
    examination: Examination, other: Trial, moved: list[Tensor]
) -> Iterator[Evidence]:
    """Whether a call's backward gives something else once another call has run."""
    trial, cotangent = examination.trial, examination.base.cotangent
    if trial.single_use:
        return
    graph = trial.record()
    try:
        before = trial.pull(graph, cotangent)
        other.record(moved)
        after = trial.pull(graph, cotangent)
    except (Refused, BackwardRaised):
        return
    found = examination.yardstick.gradients(after, before, sensitive=False)
    if found.is_real:
        yield _blamed(
            trial,
            "calls share state: another forward changes a pending call's gradient\n"
            f"`{found.name}` gets {found.words}",
            found.numbers,
        )


def _blamed(
    trial: Trial,
    words: str,
    numbers: Mapping[str, Number],
    where: Location | None = None,
) -> Evidence:
    """The evidence, with what forward writes beside its ctx, where its text tells."""
    places = Places(trial)
    shared = [one for code in places.forward for one in outer_writes(code)]
    if not shared:
        return broken(words, numbers, where=where or places.returned())
    name, place = shared[0]
    words = words.replace("share state", f"share `{name}`", 1)
    if name not in words:
        words = f"{words}\nforward keeps `{name}`, which all calls share"
    owner, _, own = name.rpartition(".")
    called = f" as `ctx.{own}`" if owner else ""
    remedy = f"Keep it on ctx{called}, where each call has its own."
    return broken(words, numbers, where=place, remedy=remedy)


def _settings(examination: Examination) -> Iterator[Evidence]:
    """A number that backward looks up when it runs is not the one that forward saw."""
    trial, base = examination.trial, examination.base
    for name, change in moved_settings(base.graph):
        graph = trial.record()
        try:
            with change():
                got = trial.pull(graph, base.cotangent)
        except BackwardRaised:
            continue
        found = examination.yardstick.gradients(got, base.gradient)
        if found.is_real:
            yield broken(
                f"backward looks up `{name}` when it runs\n"
                "a change between forward and backward gives the gradient of another "
                "function, and compiled code keeps the number that it was traced with\n"
                f"with another number there `{found.name}` gets {found.words}",
                {"setting": name, **found.numbers},
                where=Places(trial).mention(name.partition("[")[0], backward=True),
                remedy=f"Read `{name}` in forward, keep it on ctx, and use what was kept.",
            )
