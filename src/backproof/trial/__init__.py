"""A trial: run a subject on a case, counted, and leave the caller's things alone.

`trial` runs forward and backward, `flat` turns tensors into vectors of real numbers,
`copies`, `module_call` and `random_state` keep the caller's tensors, modules and global
state as they were, `refusal` says what cannot be checked, `raw_backward` and
`declaration` ask the subject for more than a gradient.
"""

from backproof.trial.flat import Input, Output
from backproof.trial.trial import BackwardRaised, Calls, Graph, Refused, Trial

__all__ = ["BackwardRaised", "Calls", "Graph", "Input", "Output", "Refused", "Trial"]
