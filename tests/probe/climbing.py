"""One climb from a point, as the battery does it, without the battery."""

import torch

from backproof.probe import (
    PRECISIONS,
    climb,
    direction,
    respond,
    slopes,
    stream,
    typical,
)
from tests.probe.points import point_of


class Climbed:
    """Ladders of `forward` at `values`, their response, and slopes along them."""

    def __init__(
        self, forward, values, dtype=torch.float64, *, lines=2, repeats=1, **options
    ):
        self.precision = precision = PRECISIONS[dtype]
        self.point = point = point_of(values, dtype)

        def evaluate(inputs):
            return forward(inputs[0].to(dtype)).reshape(-1).double()

        found = evaluate([point.values])
        self.finite = torch.isfinite(found)
        self.base = torch.where(self.finite, found, 0.0)
        self.ladders = [
            climb(
                evaluate,
                [point],
                self.base,
                [
                    [direction(point, precision, stream(line, k))]
                    for k in range(repeats)
                ],
                precision.ratio,
            )
            for line in range(lines)
        ]
        self.response = respond(
            self.ladders,
            self.base,
            precision,
            relative_step=precision.step,
            finite=self.finite,
            **(
                {
                    "floor": torch.full_like(self.base, typical(self.base)),
                    "groups": [slice(0, self.base.numel())],
                }
                | options
            ),
        )

    def steps(self, line=0):
        return self.ladders[line].steps[0]

    def slopes(self, *cotangents):
        return slopes(self.ladders, self.response, [u.double() for u in cotangents])
