"""What the battery hands over with a gradient that it found wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from backproof.probe import Ladder, Precision, Response
from backproof.trial import Graph, Trial

Lines = list[list[Tensor | None]]
"""Lines to be summed; each has one float64 (n_i,) an input, None where it stays put."""


class Referee(Protocol):
    """Who convicted: runs forward along lines and backward on the recorded graph."""

    @property
    def trial(self) -> Trial:
        """The subject on its case."""

    @property
    def graph(self) -> Graph:
        """Forward's record at the case."""

    @property
    def values(self) -> Tensor:
        """Outputs at the case, zero where not finite, float64 (num_outputs,)."""

    @property
    def frozen(self) -> Sequence[Tensor | None]:
        """Elements of each input that may not be moved."""

    def climb(self, lines: Sequence[Lines], precision: Precision) -> list[Ladder]:
        """A ladder for each group of lines."""

    def respond(
        self, ladders: Sequence[Ladder], precision: Precision, factor: float
    ) -> Response:
        """How each output behaves along them."""

    def gradient(self, cotangent: Tensor) -> list[Tensor | None]:
        """Backward of a cotangent, called once for each; zero where not finite."""


@dataclass(frozen=True)
class Charge:
    """The gradient of one input, found wrong, with what was measured for it.

    Attributes:
        referee: who measured.
        index: the number of the input.
        ladders: along which its claim departed while nothing else moved; empty where
            other inputs moved as well.
        response: of the outputs when it departed.
        factor: on the step with which it was seen to depart.
        cotangents: with which it departed, float64 (num_outputs,) each.
        rounding: relative error of a gradient that backward's own rounding explains.
        seed: of directions and cotangents.
    """

    referee: Referee
    index: int
    ladders: Sequence[Ladder]
    response: Response
    factor: float
    cotangents: Sequence[Tensor]
    rounding: float
    seed: int
