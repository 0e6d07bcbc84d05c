"""`torch.fx.symbolic_trace`: Python is run with stand-ins for tensors."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import both_agree, refuse_modules
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.fixed_arity import with_arity
from backproof.battery.survey.scene import Scene


@context("export", code="BP405")
def fx_symbolic_trace(scene: Scene) -> Iterator[Compared]:
    """Traced symbolically, then differentiated."""
    refuse_modules(scene)
    scene.prepare()
    graph = torch.fx.symbolic_trace(with_arity(scene.function, len(scene.names)))
    yield from both_agree(scene, graph)
