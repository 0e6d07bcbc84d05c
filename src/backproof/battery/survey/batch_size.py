"""How many examples a batch has, so that an axis that is mistaken for it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from backproof.battery.survey.scene import Scene

_USUAL = 3
_SHORT = range(2, 17)
_LARGEST = 1 << 16  # elements of a tensor that are still multiplied by the largest


def telling_size(scene: Scene, inputs: Collection[int]) -> int:
    """As many as the first dimensions of these inputs are long, where they are short.

    A batching rule that takes the first dimension for the batch, or an input without a
    batch for one with it, then computes other numbers. With any other size it raises,
    which would pass for a refusal.

    Args:
        scene: whose inputs are batched.
        inputs: those whose batch is not in front.
    """
    shapes = [scene.trial.inputs[k].original.shape for k in inputs]
    lengths = Counter(shape[0] for shape in shapes if shape and shape[0] in _SHORT)
    if not lengths or scene.size > _LARGEST:
        return _USUAL
    return lengths.most_common(1)[0][0]
