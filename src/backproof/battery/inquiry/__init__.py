"""The inquiry: is a trial's gradient right? From looks to a conclusion.

    begin ──> Base        outputs and a first gradient at x
    look ───> Look        claim and truth side by side, at one size of step
    conclude > Conclusion right, wrong, or neither and why

`base`, `look` and `vectors` measure; `inquiry` decides; `guards`, `split`, `beside`,
`staircase`, `kinks` and `single_input` are the questions that it asks before it accuses;
`float64_stage` brings the second witness.
"""

from backproof.battery.inquiry.conclusion import Conclusion, Kind
from backproof.battery.inquiry.inquiry import Inquiry

__all__ = ["Conclusion", "Inquiry", "Kind"]
