"""The shape of a surrogate's gradient: backward as a function of one input's values.

    Curve ──levels──> Steps ─┐
          └──families──> Bell ┴──> Shape: its name, its words, the code that declares it

A `Curve` asks backward at chosen values of an input and knows nothing of shapes.
`levels` finds gradients that are constant between jumps, `families` fits the usual soft
ones, each by some of the points and held against the others. Nothing is named that does
not fit all of them within the type's rounding.
"""

from backproof.diagnosis.surrogate.named import CALLS, Found, shape_of
from backproof.diagnosis.surrogate.shape import Shape

__all__ = ["CALLS", "Found", "Shape", "shape_of"]
