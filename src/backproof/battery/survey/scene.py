"""A subject as a pure function of its differentiable tensors, and what eager mode says.

Each context is held against the subject's own eager answers, so that no reference is
needed and an intended surrogate is as good as a derivative. The answers are computed
when they are first asked for. Before each of its own runs the scene starts the random
numbers anew, and so does whoever takes tensors from it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import random
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from backproof.battery.survey.call import (
    Call,
    Held,
    Path,
    call_of,
    remembering,
    separate,
    with_outputs,
)
from backproof.battery.survey.context import NotApplicable
from backproof.battery.survey.contraction import contracted, magnitude
from backproof.battery.survey.known import (
    Known,
    difference,
    largest_change,
    rounding,
    stacked,
)
from backproof.battery.survey.loss import Loss, loss_for
from backproof.battery.survey.samples import Sample, Samples
from backproof.probe import real_dtype
from backproof.trial import Trial
from backproof.trial.random_state import restart
from backproof.trial.types_inside import types_inside

Compute = Callable[[list[Tensor]], Sequence[Tensor | None]]
"""From leaves that need a gradient to what is to be known."""

_CANCELLED = 1 / 8  # of the natural slope: terms that may cancel in a gradient


class NoAnswer(Exception):
    """Eager mode itself raises, so that there is nothing to compare with."""


class Scene:
    """One subject on one case.

    Attributes:
        trial: the subject on the case.
        names: of the differentiable tensors.
        output_names: of the differentiable outputs.
        shapes: of the outputs.
        dtypes: of the inputs.
        output_dtypes: of the outputs.
        coarsest: the type with the largest rounding among them and those inside.
        size: the largest number of elements of any of them.
        loss: a number made of them.
        draws: whether the subject uses global random numbers.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.names = [i.name for i in trial.inputs]
        self._paths: tuple[Path, ...] = ()
        self._clones = False
        self._samples = Samples(trial, self._works)
        leaves = self.leaves()
        before = _random_state()
        try:
            with torch.enable_grad():
                outputs = self._first(leaves)
                self.loss = loss_for(outputs, trial.seed) if outputs else Loss(())
                if outputs:
                    loss = self.loss(outputs)
                    torch.autograd.grad(loss, leaves, allow_unused=True)
        except Exception as error:
            raise NoAnswer(f"eager mode raises {_first_line(error)}") from error
        if not outputs:
            raise NoAnswer("no output has a gradient in eager mode")
        self.draws = not _same_state(before, _random_state())
        self.shapes = [y.shape for y in outputs]
        self.dtypes = [i.original.dtype for i in trial.inputs]
        self.output_dtypes = [y.dtype for y in outputs]
        with torch.random.fork_rng(devices=[]):
            inside = types_inside(lambda: self._first(self.leaves()))
        self.coarsest = max(
            (*self.dtypes, *self.output_dtypes, *inside),
            key=lambda d: torch.finfo(d).eps,
        )
        self.size = max(t.numel() for t in (*leaves, *outputs))
        self._answers: dict[tuple[str, Sample], list[Known]] = {}

    # ---------------------------------------------------------------- what to run

    @property
    def call(self) -> Call:
        """The call, with copies of all that a call may change but the tensors."""
        return self._call_and_kept()[0]

    @property
    def kept(self) -> list[Tensor]:
        """Copies of the tensors that are not differentiated."""
        return self._call_and_kept()[1]

    @property
    def function(self) -> Callable[..., tuple[Tensor, ...]]:
        """The subject: differentiable tensors -> differentiable outputs."""
        call, kept = self._call_and_kept()

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            return call(tensors, kept)

        return function

    @property
    def separate(self) -> Callable[..., tuple[Tensor, ...]]:
        """The same, sharing no module with other calls."""
        call, kept = self._call_and_kept()
        own = separate(call)

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            return own(tensors, kept)

        return function

    @property
    def remembering(self) -> Callable[..., tuple[Tensor, ...]]:
        """The same with a module that remembers its calls, as a user's does."""
        call, kept = self._call_and_kept()
        own = remembering(call, kept)

        def function(*tensors: Tensor) -> tuple[Tensor, ...]:
            return own(tensors, kept)

        return function

    @property
    def whole(self) -> Callable[..., tuple[Tensor, ...]]:
        """The same of all tensors: the differentiable ones, then the others."""
        call, count = self.call, len(self.names)

        def whole(*tensors: Tensor) -> tuple[Tensor, ...]:
            return call(tensors[:count], tensors[count:])

        return whole

    @property
    def objective(self) -> Callable[..., Tensor]:
        """The loss of the subject: differentiable tensors -> a number."""
        function, loss = self.function, self.loss

        def objective(*tensors: Tensor) -> Tensor:
            return loss(function(*tensors))

        return objective

    def along(
        self, loss: Loss, tangents: Sequence[Sequence[Tensor]], base: Sequence[Tensor]
    ) -> Callable[[Tensor], Tensor]:
        """The loss at base + sum_i s_i tangents_i, a function of s: (m,) -> a number."""
        function = self.function

        def objective(s: Tensor) -> Tensor:
            moved = []
            for k, x in enumerate(base):
                steps = [s[i].to(x.dtype) * t[k] for i, t in enumerate(tangents)]
                moved.append(sum(steps, x))
            return loss(function(*moved))

        return objective

    def coordinates(self, count: int) -> Tensor:
        """s = 0 for `along`, in the type of the first input."""
        first = self.trial.inputs[0].original
        return torch.zeros(count, dtype=real_dtype(first.dtype), device=first.device)

    def held(self) -> Held:
        """A module that holds the subject and all its tensors but the first."""
        call, kept = self._call_and_kept()
        return Held(call, self.plain(), kept)

    def plain(self, sample: Sample = 0, *, nudge: int = 0) -> list[Tensor]:
        """Fresh inputs that need no gradient; random numbers start anew.

        Args:
            sample: which values.
            nudge: not 0 to move each element by an ulp, in another way for each.
        """
        tensors = self._samples.tensors(sample, nudge)
        restart(self.trial.seed)
        return tensors

    def leaves(self, sample: Sample = 0, *, nudge: int = 0) -> list[Tensor]:
        """The same, as leaves that need a gradient."""
        return [t.requires_grad_() for t in self.plain(sample, nudge=nudge)]

    def batch(self, size: int) -> list[Tensor]:
        """The first samples, stacked along a new first dimension."""
        samples = [self.plain(k) for k in range(size)]
        return [torch.stack(list(same)) for same in zip(*samples, strict=True)]

    def tangents(self, which: int = 0) -> list[Tensor]:
        """A direction of the inputs that keeps their domain; another one for each."""
        return self._samples.tangents(which)

    def cotangents(self, which: int = 0) -> list[Tensor]:
        """Random cotangents of the outputs, other ones for each."""
        random_signs = loss_for(
            [
                torch.zeros(s, dtype=d, device=w.device)
                for s, d, w in zip(
                    self.shapes, self.output_dtypes, self.loss.weights, strict=True
                )
            ],
            self.trial.seed + 1 + which,
        )
        return list(random_signs.weights)

    # ------------------------------------------------------------ what eager says

    def outputs(self, sample: Sample = 0) -> list[Known]:
        """The outputs."""
        return self._once("outputs", sample, lambda x: self.function(*x))

    def gradients(self, sample: Sample = 0) -> list[Known]:
        """The gradient of the loss."""

        def compute(leaves: list[Tensor]) -> Sequence[Tensor | None]:
            loss = self.objective(*leaves)
            return torch.autograd.grad(loss, leaves, allow_unused=True)

        known = self._once("gradients", sample, compute)
        floors = self._natural(sample)
        return [replace(k, scale=f) for k, f in zip(known, floors, strict=True)]

    def pulled(self, cotangents: Sequence[Tensor], sample: Sample = 0) -> list[Known]:
        """The gradients for these cotangents."""

        def compute(leaves: list[Tensor]) -> Sequence[Tensor | None]:
            outputs = self.function(*leaves)
            return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)

        floors = zip(self.know(compute, sample), self._natural(sample), strict=True)
        return [replace(known, scale=floor) for known, floor in floors]

    def pushed(
        self,
        cotangents: Sequence[Tensor],
        tangents: Sequence[Tensor],
        sample: Sample = 0,
    ) -> Known:
        """<u, J d> for these cotangents u and tangents d, from backward: <backward(u), d>.

        Raises:
            NotApplicable: backward is not linear, so that there is no J.
        """
        if not self._is_linear:
            raise NotApplicable(
                "backward is not linear in its cotangents (BP104), so eager mode has no "
                "derivative to compare with"
            )

        def compute(leaves: list[Tensor]) -> Sequence[Tensor | None]:
            outputs = self.function(*leaves)
            gradients = torch.autograd.grad(
                outputs, leaves, cotangents, allow_unused=True
            )
            return [contracted(gradients, tangents)]

        known = self.know(compute, sample)[0]
        gradients = [k.value for k in self.pulled(cotangents, sample)]
        natural = [
            f * _top(t) for f, t in zip(self._natural(sample), tangents, strict=True)
        ]
        scale = max(magnitude(gradients, tangents), *natural)
        return replace(known, scale=scale)

    def know(self, compute: Compute, sample: Sample = 0) -> list[Known]:
        """What `compute` gives in eager mode, with how much it moves by rounding."""
        with torch.enable_grad():
            values = _detached(compute(self.leaves(sample)))

        @functools.cache
        def again() -> list[list[Tensor | None]]:
            found = []
            for nudge in (0, 1, 2):
                with contextlib.suppress(Exception), torch.enable_grad():
                    found.append(_detached(compute(self.leaves(sample, nudge=nudge))))
            return found

        def movement(k: int) -> float:
            return max((largest_change(values[k], r[k]) for r in again()), default=0.0)

        return [
            Known(v, self.coarsest, self.size, functools.partial(movement, k))
            for k, v in enumerate(values)
        ]

    def prepare(self, *samples: Sample) -> None:
        """Ask for outputs and gradients now, before a context changes the surroundings."""
        for sample in samples or (0,):
            self.outputs(sample)
            self.gradients(sample)

    def shared(self, size: int, *, batched: Collection[int]) -> list[Known]:
        """Outputs of the first samples, where only some of the inputs differ."""
        return self.stacked(lambda k: self.outputs(self._mixed(k, batched)), size)

    def shared_gradients(self, size: int, *, batched: Collection[int]) -> list[Known]:
        """Gradients of the loss of each of them."""
        return self.stacked(lambda k: self.gradients(self._mixed(k, batched)), size)

    def _mixed(self, sample: int, batched: Collection[int]) -> Sample:
        return tuple(sample if k in batched else 0 for k in range(len(self.names)))

    def stacked(
        self, answers: Callable[[int], list[Known]], samples: int
    ) -> list[Known]:
        """The answers for the first samples, each along a new first dimension."""
        each = [answers(k) for k in range(samples)]
        return [stacked(list(same)) for same in zip(*each, strict=True)]

    # ------------------------------------------------------------------- privately

    def _first(self, leaves: list[Tensor]) -> tuple[Tensor, ...]:
        """Run it once: which outputs have a gradient, and whether it works in place."""
        try:
            call, kept = call_of(self.trial)
            returned = call.returned(leaves, kept)
        except RuntimeError as error:
            if self._clones or "leaf Variable" not in str(error):
                raise
            self._clones = True
            return self._first([t.clone() for t in leaves])
        call = with_outputs(call, returned)
        self._paths = call.paths
        self.output_names = [f"output{Call.words(path)}" for path in call.paths]
        return call.picked(returned)

    def _works(self, tensors: list[Tensor]) -> bool:
        """Whether eager mode gives finite outputs of the usual shapes."""
        restart(self.trial.seed)
        try:
            with torch.no_grad():
                outputs = self.function(*tensors)
        except Exception:
            return False
        alike = [y.shape for y in outputs] == self.shapes
        return alike and all(bool(y.isfinite().all()) for y in outputs)

    def _natural(self, sample: Sample) -> list[float]:
        """A slope of each input beside which its gradient may be nothing but rounding.

        Where a gradient cancels to zero, as that of a bias before a normalisation, what
        is left is rounding of terms as large as those of a function that changes by its
        own size when its input does: an eighth of that, its terms of random signs.
        """
        outputs = self.outputs(sample)
        squares = 0.0
        for u, y in zip(self.loss.weights, outputs, strict=True):
            if y.value is not None:
                terms = (u * y.value).abs().double().nan_to_num(0.0, 0.0, 0.0)
                squares += float((terms**2).sum())
        tops = [_top(x) for x in self.plain(sample)]
        return [_CANCELLED * math.sqrt(squares) / top if top else 0.0 for top in tops]

    def _once(self, name: str, sample: Sample, compute: Compute) -> list[Known]:
        key = (name, sample)
        if key not in self._answers:
            self._answers[key] = self.know(compute, sample)
        return self._answers[key]

    def _call_and_kept(self) -> tuple[Call, list[Tensor]]:
        call, kept = call_of(self.trial)
        return replace(call, paths=self._paths, clones=self._clones), kept

    @functools.cached_property
    def _is_linear(self) -> bool:
        u, v = self.cotangents(0), self.cotangents(1)
        both = [a + b for a, b in zip(u, v, strict=True)]
        parts = zip(self.pulled(u), self.pulled(v), strict=True)
        for known, (one, two) in zip(self.pulled(both), parts, strict=True):
            if one.value is None or two.value is None:
                continue
            sum_ = one.value + two.value
            looser = 4 * rounding(self.coarsest, self.size)
            bar = looser * float(one.value.abs().max() + two.value.abs().max())
            bar += 8 * known.movement()
            if difference(sum_, replace(known, bar=bar)).words:
                return False
        return True


def _top(tensor: Tensor) -> float:
    return (
        float(tensor.detach().abs().double().nan_to_num(0.0, 0.0, 0.0).max())
        if tensor.numel()
        else 0.0
    )


def _detached(values: Sequence[Tensor | None]) -> list[Tensor | None]:
    return [None if v is None else v.detach().clone() for v in values]


def _random_state() -> tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy else (None, None, None)
    return torch.get_rng_state(), random.getstate(), state[1], state[2]


def _same_state(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    return (
        torch.equal(old[0], new[0])
        and old[1] == new[1]
        and bool((old[2] == new[2]).all())
        and old[3] == new[3]
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'without a message'}"
