"""The referee: derivatives of a function from its forward values alone, with bars.

    points ──direction──> steps ──climb──> Ladder ──respond──> Response ──slopes──> Slope

A *point* is an input, a *line* leads through it on exactly representable values, a
*ladder* holds the outputs on three rungs to both sides, the *response* tells each
output's noise and smoothness, and a *slope* is the derivative for one cotangent.

This folder imports neither autograd nor anything else of backproof: whoever is judged
shares no code with the judge.
"""

from backproof.probe.block import blocks
from backproof.probe.chance import signed, signs, spread, stream
from backproof.probe.derivative import Slope, slopes
from backproof.probe.domain import ANYWHERE, Domain
from backproof.probe.estimate import Estimate
from backproof.probe.ladder import Evaluate, Ladder, climb, move
from backproof.probe.line import Point, direction, is_finite, typical
from backproof.probe.precision import (
    PRECISIONS,
    Precision,
    coarsest,
    nearest,
    real_dtype,
    spacing,
)
from backproof.probe.response import Response, respond

__all__ = [
    "ANYWHERE",
    "PRECISIONS",
    "Domain",
    "Estimate",
    "Evaluate",
    "Ladder",
    "Point",
    "Precision",
    "Response",
    "Slope",
    "blocks",
    "climb",
    "coarsest",
    "direction",
    "is_finite",
    "move",
    "nearest",
    "real_dtype",
    "respond",
    "signed",
    "signs",
    "slopes",
    "spacing",
    "spread",
    "stream",
    "typical",
]
