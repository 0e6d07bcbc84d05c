"""Faults that show in a few contexts, each with a healthy twin."""

import threading

import pytest
import torch
from torch.autograd import Function

from backproof.battery.contexts import CONTEXTS
from backproof.battery.survey.known import difference
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.survey import CellStatus, survey
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.contexts.drifting import OFF, Recomputing
from tests.battery.subjects import normal

RIGHT, WRONG, REFUSES = CellStatus.RIGHT, CellStatus.WRONG, CellStatus.REFUSES
NOT_APPLICABLE = CellStatus.NOT_APPLICABLE


def statuses(names, op, *inputs):
    cells = survey(Trial(subject_of(op), Case(inputs)), names)
    return {c.name: c.status for c in cells}


def cell(name, op, *inputs):
    (found,) = survey(Trial(subject_of(op), Case(inputs)), name)
    return found


def with_jvp(push):
    class Cube(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

        @staticmethod
        def jvp(ctx, t):
            return push(t, *ctx.saved_tensors)

    return Cube.apply


FORWARD_MODE = (
    "func_jvp,vmap_jvp,forward_ad_dual,func_linearize,func_jacfwd,func_hessian"
)


@pytest.mark.parametrize(
    ("push", "expected"),
    [
        (lambda t, x: 3 * x * x * t, RIGHT),
        (lambda t, x: 3 * x * x, WRONG),
        (lambda t, x: 3 * x * t, WRONG),
        (lambda t, x: 0 * t, WRONG),
        (lambda t, x: -3 * x * x * t, WRONG),
    ],
    ids=["right", "without tangent", "other power", "zero", "negated"],
)
def test_a_wrong_jvp_shows(push, expected):
    found = statuses(FORWARD_MODE, with_jvp(push), normal(5))
    assert set(found.values()) == {expected}


def batched_by(rule):
    class Centre(Function):
        @staticmethod
        def forward(x, w):
            return (x - x.mean(-1, keepdim=True)) * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            centred = x - x.mean(-1, keepdim=True)
            return g * w - (g * w).mean(-1, keepdim=True), g * centred

        @staticmethod
        def vmap(info, in_dims, x, w):
            return rule(Centre, in_dims, x, w)

    return Centre.apply


def front(t, d, n):
    return t.unsqueeze(0).expand(n, *t.shape) if d is None else t.movedim(d, 0)


def right_rule(op, in_dims, x, w):
    n = next(t.shape[d] for t, d in zip((x, w), in_dims, strict=True) if d is not None)
    return op.apply(*(front(t, d, n) for t, d in zip((x, w), in_dims, strict=True))), 0


def ignores_dims(op, in_dims, x, w):
    return op.apply(x, w), 0


def takes_zero_for_none(op, in_dims, x, w):
    n = next(t.shape[d] for t, d in zip((x, w), in_dims, strict=True) if d)
    x, w = (front(t, d or None, n) for t, d in zip((x, w), in_dims, strict=True))
    return op.apply(x, w), 0


VMAP = "func_vmap,vmap_indim1,vmap_mixed_dims,vmap_uneven,nested_vmap"


@pytest.mark.parametrize(
    ("rule", "never", "somewhere"),
    [
        (right_rule, {WRONG, REFUSES}, {RIGHT}),
        (ignores_dims, set(), {RIGHT, WRONG}),
        (takes_zero_for_none, set(), {RIGHT, REFUSES}),
    ],
)
def test_a_wrong_batching_rule_shows(rule, never, somewhere):
    found = statuses(VMAP, batched_by(rule), normal(3), normal(3, seed=1))
    assert not set(found.values()) & never
    assert somewhere <= set(found.values())


def first_for_both(op, in_dims, x, w):
    d = next(d for d in in_dims if d is not None)
    return op.apply(*(front(t, d, t.shape[d]) for t in (x, w))), 0


@pytest.mark.parametrize("shape", [(5,), (4, 4), (2, 2, 2)])
def test_a_batch_is_as_long_as_the_axis_that_is_mistaken_for_it(shape):
    """So that the wrong axis gives wrong numbers, and no error that is a refusal."""
    inputs = normal(*shape), normal(*shape, seed=1)
    found = statuses("vmap_mixed_dims", batched_by(first_for_both), *inputs)
    assert found == {"vmap_mixed_dims": WRONG}
    found = statuses("vmap_mixed_dims,vmap_uneven", batched_by(right_rule), *inputs)
    assert set(found.values()) == {RIGHT}


def test_a_shared_input_is_no_batch():
    """A vector that all examples share is taken for a number an example."""

    def number_each(op, in_dims, x, w):
        return op.apply(x, w if in_dims[1] == 0 else w.unsqueeze(-1)), 0

    found = statuses(
        "vmap_uneven", batched_by(number_each), normal(5), normal(5, seed=1)
    )
    assert found == {"vmap_uneven": WRONG}


@pytest.mark.parametrize("name", ["jit_trace_save_load", "make_fx_fwd_bwd"])
def test_a_number_of_the_traced_values_shows_on_others(name):
    found = cell(name, lambda x: x * float(x.detach().abs().sum()), normal(4))
    assert found.status is (WRONG if name == "jit_trace_save_load" else REFUSES)
    assert cell(name, lambda x: x * x.detach().abs().sum(), normal(4)).status is RIGHT


class Averaging(torch.nn.Module):
    """Moves a running average at each call."""

    def __init__(self, *, uses_it):
        super().__init__()
        self.register_buffer("average", torch.ones((), dtype=torch.double))
        self.uses_it = uses_it

    def forward(self, x):
        with torch.no_grad():
            self.average.mul_(0.5).add_(x.shape[0])
        return x.tanh() / (self.average.clone() if self.uses_it else 2.0)


CHECKPOINTS = (
    "checkpoint_nonreentrant,checkpoint_reentrant,selective_checkpoint_must_save"
)


@pytest.mark.parametrize(("uses_it", "expected"), [(True, WRONG), (False, RIGHT)])
def test_a_module_under_a_checkpoint_remembers_its_first_call(uses_it, expected):
    module = Averaging(uses_it=uses_it)
    assert set(statuses(CHECKPOINTS, module, normal(4)).values()) == {expected}
    assert float(module.average) == 1.0


class Local(Function):
    """Leaves its slope with the thread, and takes 1 where there is none."""

    kept = threading.local()

    @staticmethod
    def forward(ctx, x):
        Local.kept.slope = 1 - torch.tanh(x) ** 2
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, g):
        return g * getattr(Local.kept, "slope", 1.0)


def test_backward_runs_in_another_thread_too():
    found = cell("threads_backward", Local.apply, normal(4))
    assert found.status is WRONG
    lines = found.words.splitlines()
    assert all("backward in another thread than forward" in line for line in lines)


def test_threads_that_set_the_state_of_all_threads_are_not_compared():
    def op(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            return x * torch.rand(x.shape)

    assert cell("threads_backward", op, normal(4)).status is NOT_APPLICABLE


def test_repeats_are_compared():
    calls = []

    def op(x):
        calls.append(x)
        return torch.tanh(x) * (1 + 1e-6 * len(calls))

    assert cell("eager_fwd_bwd", op, normal(3)).status is WRONG
    assert cell("eager_fwd_bwd", torch.tanh, normal(3)).status is RIGHT


def test_other_parameters_are_used(monkeypatch):
    (context,) = [c for c in CONTEXTS if c.name == "functional_call_bwd"]
    scene = Scene(Trial(subject_of(torch.mul), Case((normal(3), normal(3, seed=1)))))

    def differences():
        return [
            c.what
            for c in context.measure(scene)
            if difference(c.got, c.expected).words
        ]

    assert differences() == []
    keeps_its_own = lambda module, weights, arguments: module(*arguments)  # noqa: E731
    monkeypatch.setattr(torch.func, "functional_call", keeps_its_own)
    assert differences() == ["output", "gradient of `args[1]`"]


def operator(name, real, fake):
    op = torch.library.custom_op(
        f"tests_contexts::{name}", mutates_args=(), schema="(Tensor x) -> Tensor"
    )(real)
    if fake is not None:
        op.register_fake(fake)
    op.register_autograd(lambda ctx, g: 2 * g)
    return op


def column_major(x):
    return (2 * x).T.contiguous().T


@pytest.mark.parametrize(
    ("name", "fake", "expected"),
    [
        ("right", column_major, RIGHT),
        ("row_major", torch.empty_like, WRONG),
        ("other_dtype", lambda x: column_major(x).float(), WRONG),
        ("other_shape", lambda x: column_major(x)[:1], WRONG),
        ("missing", None, WRONG),
    ],
)
def test_fake(name, fake, expected):
    op = operator(name, column_major, fake)
    found = cell("fake_tensor_mode", op, normal(3, 4))
    assert found.status is expected, found.words
    meta = cell("meta_device", op, normal(3, 4))
    assert meta.status is (REFUSES if fake is None else expected), meta.words


def test_a_fake_rule_that_makes_complex_numbers_of_real_ones():
    @torch.library.custom_op("tests_contexts::power", mutates_args=())
    def power(z: torch.Tensor) -> torch.Tensor:
        return z.abs().square()

    power.register_fake(torch.empty_like)
    power.register_autograd(
        lambda ctx, g: 2 * g * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    z = torch.complex(normal(3).detach(), normal(3, seed=1).detach()).requires_grad_()
    found = cell("fake_tensor_mode", power, z)
    assert found.status is WRONG
    assert "the form of output is" in found.words


def test_autocast_compares_backward_outside_of_the_region_with_inside():
    x = normal(512, 48, dtype=torch.float32)
    w = normal(48, 32, dtype=torch.float32, seed=1)
    found = cell("autocast", Recomputing.apply, x, w)
    assert found.status is WRONG, found.words
    plain = statuses("autocast,autocast_compiled", lambda x, w: torch.relu(x @ w), x, w)
    assert set(plain.values()) == {RIGHT}


class Products(Function):
    """Multiplies a cotangent of 16 bits with what it saved in 32."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.bmm(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return torch.bmm(g, w.mT), torch.bmm(x.mT, g)


class Careful(Products):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if g.dtype != x.dtype:
            raise RuntimeError(f"dtype {g.dtype} is not supported")
        return torch.bmm(g, w.mT), torch.bmm(x.mT, g)


@pytest.mark.parametrize(("op", "expected"), [(Products, WRONG), (Careful, REFUSES)])
def test_two_types_in_backward_are_a_fault_and_a_refusal_is_none(op, expected):
    x = normal(2, 3, 4, dtype=torch.float32)
    w = normal(2, 4, 5, dtype=torch.float32, seed=1)
    found = cell("autocast", op.apply, x, w)
    assert found.status is expected, found.words


def test_autocast_asks_for_the_same_types_compiled():
    def op(x, w):
        return (x @ w).float() if torch.compiler.is_compiling() else x @ w

    x = normal(4, 3, dtype=torch.float32)
    w = normal(3, 2, dtype=torch.float32, seed=1)
    found = cell("autocast_compiled", op, x, w)
    assert found.status is WRONG
    assert "float32 instead of torch.bfloat16" in found.words


def test_autocast_says_nothing_about_float64():
    assert cell("autocast", torch.tanh, normal(3)).status is NOT_APPLICABLE


def test_one_tensor_twice():
    def op(x, w):
        scale = OFF if torch.compiler.is_compiling() else 1.0
        return torch.tanh(x * w) * scale

    inputs = normal(3), normal(3, seed=1)
    assert cell("same_tensor_twice_compiled", op, *inputs).status is WRONG
    assert cell("same_tensor_twice_compiled", torch.mul, *inputs).status is RIGHT
