"""The part of a script that every finding needs: the call, its inputs, its outputs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.repro.errors import NoScript
from backproof.repro.origin import Origin
from backproof.trial import Trial
from backproof.trial.random_state import GENERATORS, restart, snapshot

_LOAD = 'saved = torch.load(Path(__file__).with_suffix(".pt"), weights_only=True)'
_WIDEN = (
    "arguments = [a.detach().double().requires_grad_(a.requires_grad)",
    "             if torch.is_tensor(a) and a.is_floating_point() else a",
    "             for a in arguments]",
)
_SEED = ("torch.manual_seed({})", "random.seed({})", "numpy.random.seed({})")


@dataclass(frozen=True)
class Stage:
    """One call of the subject, as lines of a script.

    Attributes:
        trial: whose call it is.
        origin: where the subject comes from.
        outputs: the differentiable outputs, as expressions of `output`.
        saved: what the script loads from the file beside it.
        own: the trial of the case as it was given, None where `trial` is that one.
    """

    trial: Trial
    origin: Origin
    outputs: Sequence[str]
    saved: dict[str, Any] = field(default_factory=dict)
    own: Trial | None = None

    def values(self) -> dict[str, str]:
        """What a template may name: setup, inputs, call, outputs, run, seeding."""
        setup = self._setup()
        return {
            "setup": "\n".join(setup),
            "inputs": f"[{', '.join(self.inputs())}]",
            "call": self.call,
            "outputs": "\n".join(["def outputs():", *_indented(self.run())]),
            "run": "\n".join(_indented(self.run())),
            "unseeded": "\n".join(
                ["def outputs():", *_indented(self.run(seeded=False))]
            ),
            "seeding": "; ".join(self.seeding()),
        }

    def inputs(self) -> list[str]:
        """The expressions of the differentiable inputs, in order."""
        return [n for n, v in self.places() if isinstance(v, Tensor) and _needs(v)]

    @property
    def call(self) -> str:
        """The call itself."""
        keywords = ", **keywords" if self.trial.case.keywords else ""
        return f"function(*arguments{keywords})"

    def run(self, *, seeded: bool = True) -> list[str]:
        """Lines that end with returning the list of differentiable outputs."""
        before = self.seeding() if seeded else []
        returned = f"[{', '.join(self.outputs)}]"
        if list(self.outputs) == ["output"]:
            return [*before, f"return [{self.call}]"]
        return [*before, f"output = {self.call}", f"return {returned}"]

    def seeding(self) -> list[str]:
        """Lines before a call that draws random numbers; none where it draws none."""
        trial = self.own or self.trial
        restart(trial.seed)
        before = snapshot()
        trial.forward([p.values for p in trial.points])
        after = snapshot()
        return [
            line.format(trial.seed)
            for line, a, b in zip(_SEED, before, after[: len(GENERATORS)], strict=False)
            if a != b
        ]

    def places(self) -> Iterator[tuple[str, Any]]:
        """(expression, leaf) for every leaf of the arguments, parameters last."""
        case, leaves = self.trial.case, iter(self.trial.leaves)
        roots = [(f"arguments[{k}]", a) for k, a in enumerate(case.arguments)]
        roots += [(f"keywords[{n!r}]", a) for n, a in case.keywords.items()]
        for root, argument in roots:
            for name, _ in tree.leaves(argument, root):
                yield name, next(leaves)
        for name, leaf in zip(self._parameters(), leaves, strict=True):
            yield f"function.get_parameter({name!r})", leaf

    def expression(self, name: str) -> str:
        """The expression for the argument that the report calls `name`."""
        names = dict(zip(self.trial.names, (n for n, _ in self.places()), strict=True))
        if name not in names:
            raise NoScript(f"`{name}` is no argument")
        return names[name]

    # ------------------------------------------------------------------ the parts

    def _setup(self) -> list[str]:
        lines = [*self.origin.loading(), f"function = {self.origin.function}"]
        arguments = self._arguments()
        lines += self._state()
        if self.saved:
            _refuse_unloadable(self.saved)
            lines.append(_LOAD)
        if self.trial.subject.module is not None:
            lines.append('function.load_state_dict(saved["state"])')
        return [*lines, *arguments]

    def _arguments(self) -> list[str]:
        """The user's own inputs by their seed, or what is saved."""
        made = self.origin.made_by_seed(self.trial.case)
        given = self.own or self.trial
        if made is not None and _untouched(given, self.trial):
            return [f"arguments = {made}"]
        if made is not None and self._is_widened(given):
            return [f"arguments = {made}", *_WIDEN]
        whole = (self.trial.case.arguments, dict(self.trial.case.keywords))
        leaves = [
            v.detach().requires_grad_(_needs(v)) if isinstance(v, Tensor) else v
            for v in self.trial.leaves
        ]
        self.saved["arguments"], keywords = tree.rebuild(whole, iter(leaves))
        lines = ['arguments = list(saved["arguments"])']
        if keywords:
            self.saved["keywords"] = keywords
            lines.append('keywords = saved["keywords"]')
        return lines

    def _is_widened(self, given: Trial) -> bool:
        """Whether the trial is the case in float64, all of it real and flat."""
        arguments = self.trial.case.arguments
        if any(
            [v for _, v in tree.leaves(a, "")] != [a]
            for a in arguments
            if not isinstance(a, Tensor)
        ):
            return False
        if any(isinstance(v, Tensor) and v.is_complex() for v in given.leaves):
            return False
        wide = given.in_float64()
        return wide is not None and _untouched(wide, self.trial)

    def _state(self) -> list[str]:
        """A module's parameters and buffers, in the trial's own types."""
        module = self.trial.subject.module
        if module is None:
            return []
        count = self.trial.num_parameters
        trained = dict(
            zip(
                self._parameters(),
                self.trial.leaves[-count:] if count else [],
                strict=True,
            )
        )
        state = {n: v.detach().clone() for n, v in module.state_dict().items()}
        state.update({n: v.detach().clone() for n, v in trained.items()})
        wide = any(v.dtype == torch.float64 for v in trained.values())
        self.saved["state"] = state
        return ["function = function.double()"] if wide else []

    def _parameters(self) -> list[str]:
        count = self.trial.num_parameters
        return self.trial.names[-count:] if count else []


def _needs(value: Tensor) -> bool:
    return value.requires_grad


def _untouched(given: Trial, trial: Trial) -> bool:
    return all(
        a is b or (isinstance(a, Tensor) and isinstance(b, Tensor) and _equal(a, b))
        for a, b in zip(given.leaves, trial.leaves, strict=True)
    )


def _equal(a: Tensor, b: Tensor) -> bool:
    return (
        a.dtype == b.dtype
        and a.requires_grad == b.requires_grad
        and a.layout is b.layout is torch.strided
        and a.shape == b.shape
        and a.stride() == b.stride()
        and bool(((a == b) | ((a != a) & (b != b))).all())
    )


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _refuse_unloadable(saved: dict[str, Any]) -> None:
    """What is saved has to load without running code of anybody's."""
    buffer = io.BytesIO()
    try:
        torch.save(saved, buffer)
        buffer.seek(0)
        torch.load(buffer, weights_only=True)
    except Exception as error:
        raise NoScript("its inputs are not all tensors and plain values") from error
