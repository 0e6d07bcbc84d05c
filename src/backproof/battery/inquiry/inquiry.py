"""From looks to a conclusion about the gradient.

`wrong` needs two step sizes that reject and agree, and then has to get past the guards;
a pass needs a look that would have seen a fault of the size that its type resolves. What
is neither is said to be neither, with the reason.

    first look ── pass ─────────────────────────────────> inputs too weak to be seen
        │ noise of a coarser type inside: look again with that type's steps
        ├── rough or limited by its step: shorter steps    ┐ the same lines and
        └── limited by noise: longer steps                 ┘ cotangents again
        two that reject and agree ──> guards ──> which inputs ──> wrong
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.inquiry.base import Base, begin
from backproof.battery.inquiry.conclusion import Conclusion, Kind
from backproof.battery.inquiry.guards import Ruling, guard
from backproof.battery.inquiry.kinks import KinkView, at_kinks, kinked_outputs
from backproof.battery.inquiry.look import (
    Look,
    Observer,
    OutsideDomain,
    Sight,
    same_error,
)
from backproof.battery.inquiry.single_input import InputView, alone
from backproof.battery.inquiry.staircase import Rest, has_low_stairs, is_staircase, rest
from backproof.probe import PRECISIONS, Precision, nearest
from backproof.trial import Refused, Trial

_MOST_PROBES = 32  # of single inputs or groups, to name the wrong ones
_SCATTER = 1e-3  # beyond this share of its size, a repeated output is another output
_COARSER_INSIDE = 30.0  # noise this many times the type's own is not the type's own
_COARSEST = PRECISIONS[torch.bfloat16]
_COARSEST_GRAIN = 2.0**-5  # four times bfloat16's: noisier than any type is no type
_SHORTER_STILL = (1.0, 1 / 16, 1 / 256)  # tried where the domain ends near x
_FEW_KINKS = 1e-4  # of the outputs: in a million some look like kinks by chance
_MOST_ASIDE = 0.5  # of one output: more, and it was not compared at all
_FEWEST_INPUTS = 8  # weak inputs beyond these share one probe


_LOW_STAIRS = (
    "backward claims zero, and forward moves in stairs as low as a coarse type's grain: "
    "right for a staircase, wrong for a kernel that computes in such a type; declare the "
    "gradient that is meant (`expect_backward=`)"
)
_LOST_IN_ROUNDING = (
    "forward's outputs stand still within their rounding at these inputs, so its values "
    "hold no derivative; give less extreme inputs"
)


class Inquiry:
    """The looks at one trial, in the order that their answers ask for."""

    def __init__(self, trial: Trial, *, seed: int = 0, guarded: bool = True) -> None:
        self.trial, self.seed, self.guarded = trial, seed, guarded
        self.base: Base = begin(trial, seed)
        self.observer = Observer(trial, self.base, seed)
        self.looks: list[Look] = []
        self.inside: torch.dtype | None = None
        self.precision = self.base.precision

    def use(self, precision: Precision) -> None:
        """Make the looks with other settings than the types ask for."""
        self.precision = precision

    def conclude(self) -> Conclusion:
        """All the looks that it takes."""
        if not bool(self.base.finite.any()):
            return Conclusion(Kind.DOMAIN, "no output is finite at the given inputs")
        if self._nothing_moves():
            words = "backward is not finite for any element, so none can be moved"
            return Conclusion(Kind.DOMAIN, words)
        first = self._look(1.0)
        if first is None:
            words = "forward raises or is not finite near the given inputs"
            return Conclusion(Kind.DOMAIN, words + "; give inputs inside of its domain")
        if not _any_step(first):
            words = (
                "no element of any input can be moved: each lies at the edge of its "
                "domain, or is not finite"
            )
            return Conclusion(Kind.DOMAIN, words, first)
        scattered = self._repeat(first)
        if scattered is not None:
            return scattered
        first = self.looks[-1]
        if first.sight is not Sight.PASS:
            first = self._look_with_inner_type(first) or first
        elif not bool(first.response.moves.any()):
            return self._over_low_stairs(first)
        return self._settle(first)

    def _nothing_moves(self) -> bool:
        return all(
            mask is not None and bool(mask.all())
            for mask, point in zip(self.base.frozen, self.trial.points, strict=True)
            if point.values.numel()
        )

    # ---------------------------------------------------------------- the first look

    def _look(self, factor: float) -> Look | None:
        for shorter in _SHORTER_STILL:
            try:
                look = self.observer.look(self.precision, factor * shorter)
            except (OutsideDomain, Refused):
                continue
            self.looks.append(look)
            return look
        return None

    def _repeat(self, first: Look) -> Conclusion | None:
        """Call again at the same inputs: what scatters is noise, or no function at all.

        One forward where nothing scatters; two more where something does.
        """
        base, trial = self.base, self.trial
        here = [p.values for p in trial.points]
        again = _finite(trial.forward(here))
        if torch.equal(again, base.values):
            return None
        repeats = [again, *(_finite(trial.forward(here)) for _ in range(2))]
        changes = torch.stack([r - base.values for r in repeats])
        scatter = changes.square().mean(0)
        size = float(base.values.norm())
        largest = max(float(c.norm()) for c in changes)
        if largest > max(_SCATTER, 8 * base.precision.eps) * size:
            return Conclusion(
                Kind.STOCHASTIC,
                f"two calls with the same inputs and random state differ by "
                f"{largest / max(size, 1e-300):.1e} of the output, so there is no "
                "derivative to compare with; draw its random numbers from torch's, "
                "NumPy's or Python's global generators, which are replayed",
                first,
            )
        self.observer.scatter = scatter
        response = self.observer.respond(first.ladders, first.precision, first.factor)
        first.response = response
        first.comparisons = self.observer.compare(
            first.ladders, response, first.cotangents, first.gradients
        )
        return None

    def _look_with_inner_type(self, first: Look) -> Look | None:
        """A second first look, where the noise is that of a coarser type inside."""
        grain = first.response.grain
        own = self.base.precision
        if grain < _COARSER_INSIDE * own.eps or grain > _COARSEST_GRAIN:
            return None
        _, likely = nearest(grain)
        fallback: tuple[torch.dtype, Look] | None = None
        for dtype, precision in PRECISIONS.items():
            if precision.eps <= own.eps or precision.eps < likely.eps:
                continue
            look = self.quick_look(precision)
            if look is None:
                continue
            if look.sight is Sight.PASS:
                # Over many stairs at once a straight-through claim looks right.
                if is_staircase(self.observer, first):
                    return None
                return self.inside_of(dtype, look)
            if look.sight is Sight.WRONG and fallback is None:
                fallback = dtype, look
        return self.inside_of(*fallback) if fallback else None

    def _over_low_stairs(self, first: Look) -> Conclusion:
        """Nothing moves and nothing is claimed: a coarse type inside would hide both."""
        if not has_low_stairs(self.observer, first):
            return self._accept(first)
        look = self.quick_look(_COARSEST)
        if look is None or look.sight is Sight.PASS:
            return self._accept(first)
        return self._conclude(Kind.UNDECIDED, look, words=_LOW_STAIRS)

    def quick_look(self, precision: Precision) -> Look | None:
        """A look with another type's steps, where they leave noise of that type."""
        few = dataclasses.replace(precision, repeats=min(precision.repeats, 2))
        try:
            look = self.observer.look(few)
        except (OutsideDomain, Refused):
            return None
        explained = look.response.grain <= _COARSER_INSIDE * precision.eps
        return look if explained else None

    def inside_of(self, dtype: torch.dtype, look: Look) -> Look:
        """Go on with the steps of a type that forward computes in."""
        self.precision, self.inside = look.precision, dtype
        self.looks = [look]
        return look

    # ------------------------------------------------------------- further looks

    def _settle(self, first: Look) -> Conclusion:
        if first.sight is Sight.PASS:
            return self._accept(first)
        longer, shorter = self.precision.longer, self.precision.shorter
        rough = first.sight is Sight.NOT_SMOOTH or first.limited_by_step
        order = (shorter, longer) if rough else (longer, shorter)
        if first.sight is Sight.STILL:
            resting = self._resting(first)
            if resting is not None:
                return resting
        second = self._look(order[0])
        if second is None:
            return self._undecided(first, "the other step size leaves forward's domain")
        if second.sight is Sight.PASS and first.sight is not Sight.WRONG:
            return self._accept(second)
        if first.sight is second.sight is Sight.NOT_SMOOTH:
            return self._rough(first, order)
        if first.sight is second.sight is Sight.WRONG and agree(first, second):
            return self._suspect(first)
        if first.sight is second.sight:
            return self._undecided(first)
        return self._third(first, order[1])

    def _third(self, first: Look, factor: float) -> Conclusion:
        third = self._look(factor)
        looks = self.looks
        if third is None:
            return self._undecided(first)
        wrong = [k for k in looks if k.sight is Sight.WRONG]
        if len(wrong) >= 2:
            pairs = ((a, b) for i, a in enumerate(wrong) for b in wrong[i + 1 :])
            if any(agree(a, b) for a, b in pairs):
                return self._suspect(wrong[0])
            return self._undecided(
                first, "two step sizes reject, and disagree on by how much"
            )
        passes = [k for k in looks if k.sight is Sight.PASS]
        refuted = all(any(refutes(p, w) for p in looks if p is not w) for w in wrong)
        if len(passes) >= 2 and refuted:
            return self._accept(min(passes, key=lambda k: k.resolution))
        if sum(k.sight is Sight.NOT_SMOOTH for k in looks) >= 2:
            return self._not_smooth(first)
        if passes and refuted and not wrong:
            return self._accept(passes[0])
        return self._undecided(first)

    def _rough(self, first: Look, order: tuple[float, float]) -> Conclusion:
        """Twice not smooth: noise fades with longer steps, fine structure with shorter.

        Only a shorter step may convict a rough function, and must repeat at half of it.
        """
        longer, shorter = order[1], order[0] / 16
        for factor in (longer, shorter):
            look = self._look(factor)
            if look is None:
                continue
            if look.sight is Sight.PASS:
                return self._accept(look)
            if look.sight is Sight.WRONG and factor == shorter:
                again = self._look(shorter / 2)
                if again and again.sight is Sight.WRONG and agree(look, again):
                    return self._suspect(look)
                return self._undecided(first)
        return self._not_smooth(first)

    # ------------------------------------------------------------------- endings

    def _accept(self, look: Look) -> Conclusion:
        """Right where it was compared; now the kinks, and inputs too weak to be seen."""
        kinks = self._kinks(look)
        if kinks is not None and kinks.rejects:
            return self._conclude(Kind.WRONG, look, kinks=kinks)
        views = dict(self._weak_inputs(look))
        wrong = tuple(name for name, view in views.items() if view.rejects)
        if wrong:
            return self._conclude(Kind.WRONG, look, inputs=views, wrong_inputs=wrong)
        return self._conclude(
            Kind.RIGHT,
            look,
            inputs=views,
            kinks=kinks,
            set_aside=dict(self._mostly_aside(look, kinks)),
        )

    def _mostly_aside(
        self, look: Look, kinks: KinkView | None
    ) -> Iterator[tuple[str, float]]:
        """Outputs of which a comparison with most of it left out says nothing."""
        aside = look.response.aside.clone()
        if kinks is not None and kinks.decides:
            aside &= ~kinked_outputs(look)
        for output in self.trial.outputs:
            usable = int(torch.count_nonzero(look.response.usable[output.part]))
            share = int(torch.count_nonzero(aside[output.part])) / max(1, usable)
            if share > _MOST_ASIDE:
                yield output.name, share

    def _suspect(self, look: Look) -> Conclusion:
        """Two looks reject and agree; the last doubts before `wrong`."""
        if self.inside is not None and self._is_silent(look):
            return self._conclude(Kind.UNDECIDED, look, words=_LOW_STAIRS)
        resting = self._resting(look)
        if resting is not None:
            return resting
        if self.guarded:
            ruling = guard(self, look)
            if ruling.kind is Ruling.RIGHT:
                return self._accept(ruling.look)
            if ruling.kind is Ruling.KINK:
                return self._conclude(Kind.KINK, ruling.look, words=ruling.words)
            if ruling.kind is Ruling.UNDECIDED:
                return self._conclude(Kind.UNDECIDED, ruling.look, words=ruling.words)
            look = ruling.look
        views = {} if not self.guarded else dict(self._each_input(look))
        wrong = tuple(name for name, view in views.items() if view.rejects)
        return self._conclude(Kind.WRONG, look, inputs=views, wrong_inputs=wrong)

    def _resting(self, look: Look) -> Conclusion | None:
        why = rest(self.observer, look)
        if why is Rest.STAIRS:
            return self._staircase(look)
        if why is Rest.ROUNDING:
            return self._conclude(Kind.UNDECIDED, look, words=_LOST_IN_ROUNDING)
        if why is Rest.LOW_STAIRS and self._is_silent(look):
            return self._conclude(Kind.UNDECIDED, look, words=_LOW_STAIRS)
        return None

    def _is_silent(self, look: Look) -> bool:
        """Whether backward claims zero everywhere."""
        claims = [self.base.gradient, *look.gradients]
        return not any(bool(g.any()) for gs in claims for g in gs if g is not None)

    def _staircase(self, look: Look) -> Conclusion:
        if self._is_silent(look):
            words = "forward is piecewise constant, and backward is zero"
            return self._conclude(Kind.RIGHT, look, words=words)
        return self._conclude(Kind.STAIRCASE, look)

    def _not_smooth(self, look: Look) -> Conclusion:
        if is_staircase(self.observer, look):
            return self._staircase(look)
        kinks = self._kinks(look)
        if kinks is not None:
            if kinks.rejects:
                return self._conclude(Kind.WRONG, look, kinks=kinks)
            if kinks.decides:
                return self._conclude(Kind.RIGHT, look, kinks=kinks)
        rough, moving = (
            int(torch.count_nonzero(mask))
            for mask in (look.response.aside, look.response.moves)
        )
        what = (
            f"{rough} of the {moving} outputs that move kink, jump or are noise"
            if rough
            else "what its outputs add up to kinks"
        )
        words = (
            f"forward is not smooth at these inputs: {what} at every step size tried; "
            "give inputs away from its kinks, or a case with less noise"
        )
        return self._conclude(Kind.NOT_SMOOTH, look, words=words, kinks=kinks)

    def _undecided(self, look: Look, reason: str = "") -> Conclusion:
        if is_staircase(self.observer, look):
            return self._staircase(look)
        best = min(self.looks, key=lambda k: k.resolution)
        if not reason:
            reason = (
                f"the {self._elements()} resolve a relative error of "
                f"{best.resolution:.1g} at best, and a pass needs "
                f"{self.precision.resolution:g}"
                if not best.rejections
                else "step sizes disagree about whether it is right"
            )
        words = f"{reason}; give more elements, or a type with more digits"
        return self._conclude(Kind.UNDECIDED, best, words=words)

    def _conclude(self, kind: Kind, look: Look, **more: object) -> Conclusion:
        return Conclusion(kind, look=look, inside=self.inside, **more)  # type: ignore[arg-type]

    def _elements(self) -> str:
        count = sum(p.values.numel() for p in self.trial.points)
        names = {
            str(i.original.dtype).removeprefix("torch.") for i in self.trial.inputs
        }
        return f"{count} {'/'.join(sorted(names))} elements"

    # -------------------------------------------------------------------- helpers

    def _kinks(self, look: Look) -> KinkView | None:
        usable = int(torch.count_nonzero(look.response.usable))
        if int(torch.count_nonzero(kinked_outputs(look))) <= _FEW_KINKS * usable:
            return None
        return at_kinks(self.observer, look)

    def _weak_inputs(self, look: Look) -> Iterator[tuple[str, InputView]]:
        """Inputs whose own share of the derivative is below the joint bars."""
        if len(self.trial.inputs) < 2:
            return
        weak = [
            k
            for k in range(len(self.trial.inputs))
            if self.resolution_of(k, look) > look.precision.resolution
        ]
        groups = [[k] for k in weak[:_FEWEST_INPUTS]]
        if weak[_FEWEST_INPUTS:]:
            groups.append(weak[_FEWEST_INPUTS:])
        for group in groups:
            view = alone(self.observer, look, group)
            if view is not None:
                for k in group:
                    yield self.trial.inputs[k].name, view

    def _each_input(self, look: Look) -> Iterator[tuple[str, InputView]]:
        """Every input alone; many are first probed in groups, and only suspects alone."""
        many = len(self.trial.inputs)
        if many < 2:
            return
        groups = [list(range(k, many, _FEWEST_INPUTS)) for k in range(_FEWEST_INPUTS)]
        budget = _MOST_PROBES
        while groups and budget:
            group = groups.pop(0)
            budget -= 1
            view = alone(self.observer, look, group) if group else None
            if view is None:
                continue
            if len(group) == 1:
                yield self.trial.inputs[group[0]].name, view
            elif view.rejects:
                groups += [group[::2], group[1::2]]

    def resolution_of(self, index: int, look: Look) -> float:
        """The relative error of one input's gradient that `look` would have seen."""
        best = float("inf")
        width = len(look.gradients)
        for n, comparison in enumerate(look.comparisons):
            steps = look.ladders[n // width].steps[index]
            gradient = look.gradients[n % width][index]
            if steps is None or gradient is None:
                continue
            product = gradient * steps
            size = max(abs(float(product.sum())), float(product.norm()))
            if size > 0:
                best = min(best, comparison.bar / size)
        return best


def _any_step(look: Look) -> bool:
    return any(s is not None and bool(s.any()) for ld in look.ladders for s in ld.steps)


def agree(a: Look, b: Look) -> bool:
    """Whether both reject the same comparison by about the same error per unit step.

    Looks share their lines and cotangents, so comparisons correspond.
    """
    return any(
        same_error(x, y) for x, y in zip(a.comparisons, b.comparisons, strict=True)
    )


def refutes(clear: Look, accuser: Look) -> bool:
    """Whether `clear` would have seen what `accuser` reports, and did not."""
    return any(
        x.rejects and not y.rejects and x.excess > y.bar / y.relative_step
        for x, y in zip(accuser.comparisons, clear.comparisons, strict=True)
    )


def _finite(values: Tensor) -> Tensor:
    return torch.where(torch.isfinite(values), values, 0.0)
