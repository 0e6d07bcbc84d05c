"""Case variations: the same call in another form, or at another size or scale.

A `Variant` is a trial of the same subject. `layouts` and `subsets` keep the values, so
its numbers must be the plain case's; `sizes` and `scales` change them, so its gradient
is judged as any other. Laws choose which to look at; none builds its own.
"""

from backproof.battery.cases.layouts import FORMS, layouts
from backproof.battery.cases.scales import BEYOND_EXP, scales
from backproof.battery.cases.sizes import Resized, sizes
from backproof.battery.cases.subsets import subsets
from backproof.battery.cases.twins import Twins, twins
from backproof.battery.cases.variant import Variant

__all__ = [
    "BEYOND_EXP",
    "FORMS",
    "Resized",
    "Twins",
    "Variant",
    "layouts",
    "scales",
    "sizes",
    "subsets",
    "twins",
]
