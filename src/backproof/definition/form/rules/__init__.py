"""The rules, in the order of asking: what explains more comes first."""

from __future__ import annotations

from collections.abc import Callable

from backproof.definition.form.complaint import Complaint
from backproof.definition.form.model import Form
from backproof.definition.form.rules.autocast import autocast_decorators
from backproof.definition.form.rules.batching import one_vmap, vmap_parameters
from backproof.definition.form.rules.binding import static_methods
from backproof.definition.form.rules.cotangents import cotangents
from backproof.definition.form.rules.gradients import gradient_count
from backproof.definition.form.rules.names import near_names
from backproof.definition.form.rules.policies import policies
from backproof.definition.form.rules.pullback import one_pullback
from backproof.definition.form.rules.results import dropped_result
from backproof.definition.form.rules.spelling import (
    ctx_beside_setup,
    missing_ctx,
    setup_parameters,
)
from backproof.definition.form.rules.tangents import tangents

RULES: tuple[Callable[[Form], Complaint | None], ...] = (
    static_methods,
    policies,
    near_names,
    one_pullback,
    one_vmap,
    setup_parameters,
    ctx_beside_setup,
    missing_ctx,
    autocast_decorators,
    cotangents,
    dropped_result,
    gradient_count,
    tangents,
    vmap_parameters,
)
