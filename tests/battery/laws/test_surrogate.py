"""BP106: a staircase with a gradient says what the gradient is."""

import math
import sys

import pytest
import torch

import backproof
from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    function,
    outcome,
    staircase,
)
from tests.battery.subjects import normal

STAIRS = {
    "round": torch.round,
    "sign": torch.sign,
    "threshold": lambda x: (x > 0.3).to(x.dtype),
    "quantised": lambda x: torch.round(8 * x) / 8,
    "one-hot": lambda x: torch.nn.functional.one_hot(x.argmax(), 40).to(x.dtype),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("step", STAIRS.values(), ids=STAIRS)
def test_a_straight_through_estimator_is_a_surrogate(step, dtype):
    made = function(lambda ctx, x: step(x), lambda ctx, g: g.clone())
    found = outcome("BP106", made, normal(40, dtype=dtype))
    assert found.status is BROKEN
    assert "piecewise constant" in found.words
    assert "straight through" in found.words
    assert found.evidence[0].numbers["shape"] == "identity"
    assert "EXPECT" in found.evidence[0].remedy


@pytest.mark.parametrize("step", list(STAIRS.values())[:4], ids=list(STAIRS)[:4])
def test_a_zero_gradient_is_right(step):
    made = function(lambda ctx, x: step(x), lambda ctx, g: torch.zeros_like(g))
    assert asked("BP106", made, normal(40))[0] is NOT_APPLICABLE
    assert outcome("BP101", made, normal(40)).status is HELD


def test_a_declaration_settles_it():
    made = staircase(lambda ctx, g: g.clone())
    status, words = asked("BP106", made, normal(40), expect_backward=lambda g, x: g)
    assert status is NOT_APPLICABLE
    assert "BP107" in words


def test_a_flat_but_smooth_function_is_no_staircase():
    x = normal(40)
    assert asked("BP106", lambda x: 1000 + 1e-6 * x, x)[0] is NOT_APPLICABLE
    assert asked("BP106", lambda x: 0.5 * x, x)[0] is NOT_APPLICABLE


# ------------------------------------------------------------------- the shape, in words


def spike(slope):
    """A threshold at zero, with a slope of one's own in backward."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    return function(forward, lambda ctx, g: g * slope(ctx.saved_tensors[0]))


def logistic(x):
    return torch.sigmoid(4 * x) * (1 - torch.sigmoid(4 * x))


SLOPES = {  # slope, name, some of the numbers
    "minus": (lambda x: -torch.ones_like(x), "negated identity", {}),
    "constant": (lambda x: torch.full_like(x, 0.3), "constant", {"factor": 0.3}),
    "clipped": (lambda x: x.abs() <= 1, "clipped identity", {"low": -1, "high": 1}),
    "open": (lambda x: x.abs() < 1, "clipped identity", {"includes_high": 0}),
    "crooked": (
        lambda x: (x >= -0.7) & (x < 1.3),
        "clipped identity",
        {"low": -0.7, "high": 1.3, "includes_low": 1, "includes_high": 0},
    ),
    "rectangle": (
        lambda x: 1.5 * (x.abs() < 1 / 3),
        "rectangle",
        {"factor": 1.5, "high": 1 / 3},
    ),
    "rectifier": (lambda x: x > 0, "identity on one side", {"low": 0}),
    "leaky": (
        lambda x: torch.where(x >= 0, 1.0, 0.1).to(x.dtype),
        "steps",
        {"levels": [0.1, 1.0], "bounds": [0.0]},
    ),
    "triangle": (
        lambda x: 0.3 * (1 - (x - 0.5).abs()).clamp(min=0),
        "a triangle",
        {"factor": 0.3, "threshold": 0.5, "slope": 1},
    ),
    "parabola": (lambda x: (1 - x * x / 4).clamp(min=0), "a parabola", {"slope": 0.5}),
    "arctan": (
        lambda x: 1 / (1 + (math.pi * x) ** 2),
        "the derivative of arctan",
        {"slope": math.pi, "threshold": 0},
    ),
    "fast sigmoid": (
        lambda x: 1 / (1 + 25 * (x - 1).abs()) ** 2,
        "the derivative of softsign",
        {"slope": 25, "threshold": 1},
    ),
    "log": (lambda x: 1 / (0.5 + x.abs()), "the derivative of log", {"slope": 2}),
    "exponential": (
        lambda x: 0.5 * (-x.abs()).exp(),
        "an exponential",
        {"factor": 0.5},
    ),
    "erf": (
        lambda x: 2 / math.sqrt(math.pi) * torch.exp(-((2 * x) ** 2)),
        "a gaussian",
        {"slope": 2, "factor": 2 / math.sqrt(math.pi)},
    ),
    "tanh": (lambda x: 1 - torch.tanh(x) ** 2, "the derivative of tanh", {"slope": 1}),
    "sigmoid": (
        lambda x: 4 * logistic(x),
        "the derivative of sigmoid",
        {"slope": 4, "threshold": 0},
    ),
    "root": (
        lambda x: (1 + x * x) ** -1.5,
        "the derivative of x / sqrt(1 + x^2)",
        {"slope": 1},
    ),
    "softplus": (lambda x: torch.sigmoid(3 * x), "a sigmoid", {"slope": 3}),
    "polynomial": (
        lambda x: 1 + 0.5 * x * x,
        "polynomial",
        {"coefficients": [1, 0, 0.5]},
    ),
    "cut off": (
        lambda x: (x > 0.1) / (1 + 25 * x.abs()) ** 2,
        "the derivative of softsign",
        {"slope": 25, "low": 0.1},
    ),
}
SHAPES = pytest.mark.parametrize(("slope", "name", "some"), SLOPES.values(), ids=SLOPES)
SOFT = ["minus", "constant", "clipped", "open", "rectifier", "arctan", "fast sigmoid"]
SOFT += ["erf", "tanh", "sigmoid"]


def evidence(made, *arguments, **options):
    found = outcome("BP106", made, *arguments, **options)
    assert found.status is BROKEN
    return found.evidence[0]


def evaluated(line, made, **named):
    return eval(line, {"backproof": backproof, "torch": torch, "Made": made, **named})


def as_declared(line, made, **named):
    """What the law of declared gradients says of a line that was printed."""
    report = evaluated(line, made, **named)
    return report.subjects[0].outcome("BP107").status


@SHAPES
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("size", [3, 40])
def test_the_shape_is_named_and_its_line_holds(slope, name, some, dtype, size):
    made = spike(slope)
    x = torch.linspace(-1.4, 0.9, size, dtype=dtype) + 0.011
    found = evidence(made, x.requires_grad_())
    assert found.numbers["shape"] == name
    for key, value in some.items():
        assert found.numbers[key] == pytest.approx(value, rel=1e-6, abs=1e-12), key
    line = found.numbers["declaration"]
    assert line in found.remedy
    assert as_declared(line, made, x=x) is HELD
    assert set(found.numbers["values"]) >= {found.numbers["values"][0]}
    pairs = zip(found.numbers["values"], found.numbers["gradients"], strict=True)
    for at, gradient in pairs:
        there = torch.tensor([at], dtype=torch.float64)
        assert gradient == pytest.approx(float(slope(there)), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("which", SOFT)
def test_the_soft_function_has_that_gradient(which):
    slope = SLOPES[which][0]
    made, x = spike(slope), normal(40)
    found = evidence(made, x)
    line = found.numbers["soft_declaration"]
    assert line in found.remedy
    defined = evaluated(line, made)
    assert torch.equal(defined(x), made.apply(x))
    assert outcome("BP107", defined, x).status is HELD
    (got,) = torch.autograd.grad(defined(x).sum(), x)
    torch.testing.assert_close(got, slope(x).to(x.dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "which", ["clipped", "triangle", "arctan", "tanh", "rectangle"]
)
def test_in_sixteen_bits(which, dtype):
    slope, name, _ = SLOPES[which]
    made, x = spike(slope), normal(60, dtype=dtype)
    found = evidence(made, x)
    assert found.numbers["shape"] == name
    assert as_declared(found.numbers["declaration"], made, x=x) is HELD


@pytest.mark.parametrize(
    ("at_the_bound", "sign"), [(True, "<="), (False, "<")], ids=["in", "out"]
)
def test_ties_are_looked_at(at_the_bound, sign):
    made = spike(lambda x: (x.abs() <= 1) if at_the_bound else (x.abs() < 1))
    x = normal(40)
    line = evidence(made, x).numbers["declaration"]
    assert f"x.abs() {sign} 1" in line
    other = line.replace("<=", "<") if at_the_bound else line.replace("<", "<=")
    assert as_declared(other, made, x=x) is BROKEN


UNKNOWN = {
    "cosine": lambda x: torch.cos(2 * x),
    "quartic": lambda x: 1 / (1 + x**4),
    "nearly an arctan": lambda x: (1 + 1e-4 * torch.sin(3 * x)) / (1 + x * x),
    "two families": lambda x: torch.where(x < 0, (3 * x).exp(), 1 / (1 + x)),
}


@pytest.mark.parametrize("slope", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_what_fits_nothing_is_not_named(slope, dtype):
    found = evidence(spike(slope), normal(40, dtype=dtype))
    assert found.numbers["shape"] == "not explained"
    assert "declaration" not in found.numbers
    assert "not one of the known shapes" in found.words
    values, gradients = found.numbers["values"], found.numbers["gradients"]
    assert len(values) > 4
    assert list(values) == sorted(values)
    true = slope(torch.tensor(values, dtype=torch.float64)).tolist()
    assert list(gradients) == pytest.approx(true, rel=1e-5, abs=1e-6)


MIXING = {
    "softmax": (
        lambda g, x: x.softmax(-1) * (g - (x.softmax(-1) * g).sum(-1, keepdim=True)),
        "several elements of the cotangent",
    ),
    "clipped cotangent": (lambda g, x: g.clamp(-1, 1), "the cotangent's size"),
    "scaled by the mean": (lambda g, x: g * x.abs().mean(), "more than the element"),
    "one by one": (
        lambda g, x: g * torch.arange(x.numel(), dtype=x.dtype),
        "the place of an element",
    ),
}


@pytest.mark.parametrize(("backward", "why"), MIXING.values(), ids=MIXING)
def test_what_is_not_elementwise_says_so(backward, why):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    made = function(forward, lambda ctx, g: backward(g, *ctx.saved_tensors))
    found = evidence(made, normal(40))
    assert found.numbers["shape"] == "not explained"
    assert why in found.words
    assert len(found.numbers["values"]) > 4


# ---------------------------------------------------------------------- several inputs


def fires(slope, *, learned):
    """A spike where x reaches a threshold, with a slope in their distance."""

    def forward(ctx, x, threshold):
        ctx.save_for_backward(x, threshold)
        return (x >= threshold).to(x.dtype)

    def backward(ctx, g):
        x, threshold = ctx.saved_tensors
        gradient = g * slope(x - threshold)
        return gradient, -gradient.sum_to_size(threshold.shape) if learned else None

    return function(forward, backward)


@pytest.mark.parametrize("shape", [(), (8,), (6, 8)], ids=str)
@pytest.mark.parametrize("learned", [False, True])
def test_a_threshold_beside_it(shape, learned):
    made = fires(lambda x: 1 / (1 + 25 * x.abs()) ** 2, learned=learned)
    x = normal(6, 8)
    threshold = normal(*shape, seed=3, grad=learned)
    found = evidence(made, x, threshold)
    assert found.numbers["shape"] == "the derivative of softsign"
    assert found.numbers["slope"] == pytest.approx(25)
    line = found.numbers["declaration"]
    assert "x - threshold)" in line
    assert as_declared(line, made, x=x, threshold=threshold) is HELD


def quantiser(by_scale):
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return (x / scale).round().clamp(-8, 7)

    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        inside = (x / scale >= -8) & (x / scale <= 7)
        return g * inside, by_scale(g, x, scale)

    return function(forward, backward)


@pytest.mark.parametrize("shape", [(), (8,)], ids=str)
def test_a_quantiser_in_units_of_its_scale(shape):
    made, x = quantiser(lambda g, x, s: None), normal(6, 8)
    scale = 0.1 + 0.1 * normal(*shape, seed=5, grad=False).abs()
    found = evidence(made, x, scale)
    assert found.numbers["shape"] == "clipped identity"
    assert (found.numbers["low"], found.numbers["high"]) == (-8, 7)
    assert "`x / scale`" in found.words
    assert as_declared(found.numbers["declaration"], made, x=x, scale=scale) is HELD


def test_one_input_is_named_and_the_other_is_not():
    made = quantiser(lambda g, x, s: (g * (x / s).sin()).sum().reshape(s.shape))
    found = evidence(
        made, normal(6, 8), (0.1 * torch.ones(())).double().requires_grad_()
    )
    assert found.numbers["input"] == "x"
    assert found.numbers["shape"] == "clipped identity"
    assert found.numbers["shape of scale"] == "not explained"
    assert "declaration" not in found.numbers
    assert "`scale` is not explained" in found.words
    assert "EXPECT" in found.remedy


@pytest.mark.parametrize("kind", ["positive", "boolean", "weights"])
def test_a_mask_from_another_input(kind):
    mask = normal(6, 8, seed=4, grad=False)
    slope = {"positive": mask > 0, "boolean": mask > 0, "weights": mask}[kind]

    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x.round()

    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * (mask > 0 if kind == "positive" else mask), None

    made, x = function(forward, backward), normal(6, 8)
    handed = slope if kind != "positive" else mask
    found = evidence(made, x, handed)
    assert "`mask" in found.words
    assert as_declared(found.numbers["declaration"], made, x=x, mask=handed) is HELD


def test_names_that_clash_with_those_of_the_line():
    def forward(ctx, torch, g):
        ctx.save_for_backward(torch)
        return torch.round()

    made = function(forward, lambda ctx, u: (u * (ctx.saved_tensors[0] > 0), None))
    torch_, g = normal(40), normal(40, seed=1, grad=False)
    line = evidence(made, torch_, g).numbers["declaration"]
    assert as_declared(line, made, x0=torch_, x1=g) is HELD


def test_keywords_are_handed_on():
    made = spike(lambda x: x.abs() <= 1)
    x = normal(40)

    def Made(x, *, scale):  # noqa: N802
        return made.apply(x) * scale

    found = evidence(Made, x, scale=2.0)
    assert found.numbers["factor"] == 2
    assert as_declared(found.numbers["declaration"], Made, x=x, scale=2.0) is HELD


# ----------------------------------------------------------------------------- manners


def test_a_slope_that_overflows_is_named_and_told():
    def slope(x):
        e = torch.exp(-25 * x)
        return 25 * e / (1 + e) ** 2

    made, x = spike(slope), normal(40)
    found = evidence(made, x)
    assert found.numbers["shape"] == "the derivative of sigmoid"
    assert "not finite where `x` is" in found.words
    assert "BP107 would say" in found.words
    assert "declaration" not in found.numbers
    defined = evaluated(found.numbers["soft_declaration"], made)
    assert outcome("BP107", defined, x).status is HELD
    assert "finite everywhere" in found.remedy


def test_words_do_not_cost_the_verdict(monkeypatch):
    def broken_search(*arguments, **options):
        raise ArithmeticError("no shape today")

    module = sys.modules["backproof.battery.laws.surrogate"]
    monkeypatch.setattr(module, "shape_of", broken_search)
    found = outcome("BP106", spike(lambda x: x > 0), normal(40))
    assert found.status is BROKEN
    assert "the diagnosis ended early" in found.words
    assert "EXPECT" in found.evidence[0].remedy


def test_the_verdict_is_the_same_with_and_without_a_shape():
    for slope in (UNKNOWN["cosine"], SLOPES["tanh"][0]):
        report = backproof.check(spike(slope), normal(40), laws=["BP101", "BP106"])
        assert report.verdict == "surrogate"


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_calls_are_few(size):
    made, x = spike(SLOPES["rectangle"][0]), torch.full((size,), 0.2).double()
    x = (x + torch.linspace(0, 1, size)).requires_grad_()
    quiet = backproof.check(made, x, laws=["BP101"]).subjects[0].calls
    told = backproof.check(made, x, laws=["BP101", "BP106"]).subjects[0].calls
    more = told["backward"] - quiet["backward"]
    assert 5 < more <= 80 + 3 * 7
