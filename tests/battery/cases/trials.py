"""A trial of a function on its arguments, and what a varied one holds."""

import torch

from backproof.subject import Case, subject_of
from backproof.trial import Trial


def trial_of(target, *arguments, domains=None, **keywords):
    case = Case(arguments, keywords, domains=domains or {})
    return Trial(subject_of(target), case)


def tensors_of(trial):
    """The tensors among its arguments, in order."""
    return [leaf for leaf in trial.leaves if isinstance(leaf, torch.Tensor)]
