"""Input strings, and functions that give inputs."""

import math
from typing import get_args

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import backproof
from backproof.errors import BadInput
from backproof.inputs.draw import draw
from backproof.inputs.language import (
    DTYPES,
    STRUCTURES,
    Argument,
    TensorSpec,
    ValueSpec,
    parse,
)
from backproof.inputs.made import cases_of
from backproof.inputs.registered import registered, registered_in
from backproof.probe.domain import Domain, Structure
from backproof.subject import Case, subject_of

# ---------------------------------------------------------------- what can be read

REALS = ["f16", "f32", "f64", "bf16"]
BOUNDS = st.integers(-1000, 1000).map(float) | st.floats(-1e6, 1e6, width=32)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 20), max_size=4)))
    integer = dtype[0] in "iu" or dtype == "b"
    low, high, structure = -math.inf, math.inf, None
    if dtype in REALS or dtype[0] in "iu":
        ends = draw(st.lists(BOUNDS, min_size=2, max_size=2, unique=True).map(sorted))
        low = draw(st.sampled_from([-math.inf, ends[0]]))
        high = draw(st.sampled_from([math.inf, ends[1]]))
    if dtype in REALS and shape and math.isinf(low) and math.isinf(high):
        square = len(shape) > 1 and shape[-1] == shape[-2]
        fits = STRUCTURES if square else ("sorted", "simplex")
        structure = draw(st.sampled_from([None, *fits]))
    return TensorSpec(
        dtype,
        shape,
        needs_gradient=not integer and draw(st.booleans()),
        device=draw(st.sampled_from([None, "cuda", "cuda:1"])),
        low=low,
        high=high,
        structure=structure,
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.lists(inner, max_size=3),
    max_leaves=4,
).map(ValueSpec)  # fmt: skip


@st.composite
def calls(draw):
    specs = draw(st.lists(tensors() | VALUES, min_size=1, max_size=5))
    keywords = draw(st.lists(NAMES, max_size=len(specs), unique=True))
    names = [None] * (len(specs) - len(keywords)) + keywords
    return tuple(Argument(s, n) for s, n in zip(specs, names, strict=True))


@settings(deadline=None)
@given(calls(), st.sampled_from([" ", ", ", "   ", " , "]))
def test_what_is_written_is_read_back(arguments, separator):
    assert parse(separator.join(map(str, arguments))) == arguments


@settings(deadline=None)
@given(st.text("f634[],2 @>=<in(01)spd*None.-\"'x", max_size=30))
def test_any_text_is_read_or_refused_with_a_caret_in_it(text):
    try:
        arguments = parse(text)
    except BadInput as error:
        _, shown, caret, expected = str(error).split("\n")
        assert caret.strip() == "^"
        assert len(caret) <= max(len(shown), len("    ")) + 1
        assert expected.startswith("expected ")
    else:
        assert parse(" ".join(map(str, arguments))) == arguments


def test_every_item_of_the_language():
    text = "f64[3,10] f32[5,10]@cuda *bf16[8] c64[2] i64[4] b[3] None 0.5 'te xt' f64[]"
    specs = [argument.spec for argument in parse(text)]
    assert specs == [
        TensorSpec("f64", (3, 10)),
        TensorSpec("f32", (5, 10), device="cuda"),
        TensorSpec("bf16", (8,), needs_gradient=False),
        TensorSpec("c64", (2,)),
        TensorSpec("i64", (4,), needs_gradient=False),
        TensorSpec("b", (3,), needs_gradient=False),
        ValueSpec(None),
        ValueSpec(0.5),
        ValueSpec("te xt"),
        TensorSpec("f64", ()),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("-3", -3), ("+2", 2), ("1e-5", 1e-5), (".5", 0.5), ("True", True),
     ("inf", math.inf), ('"a \\" b"', 'a " b'), ("(2, 3)", (2, 3)),
     ("[1,'x']", [1, "x"]), ("()", ())],
)  # fmt: skip
def test_plain_values(text, value):
    (argument,) = parse(text)
    assert argument.spec == ValueSpec(value)
    assert type(argument.spec.value) is type(value)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("f64[3]>0", 0, math.inf),
        ("f64[3] < 2.5", -math.inf, 2.5),
        ("f64[3]>=-1<=1", -1, 1),
        ("f64[3] in ( 0 , 1 )", 0, 1),
        ("i64[3]>=0", -1, math.inf),
        ("i64[3]<=4", -math.inf, 5),
        ("i64[3]in(0,5)", -1, 5),
    ],
)
def test_bounds_are_open(text, low, high):
    (argument,) = parse(text)
    assert (argument.spec.low, argument.spec.high) == (low, high)


def test_keywords():
    assert [(a.keyword, str(a.spec)) for a in parse("f64[2] dim=-1 w = f64[3]>0")] == [
        (None, "f64[2]"),
        ("dim", "-1"),
        ("w", "f64[3]>0"),
    ]


def test_structures_are_those_that_probing_knows():
    assert get_args(Structure) == STRUCTURES


# -------------------------------------------------------------- what cannot be read


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 0, "at least one argument"),
        ("f64[3,10] f32[5,10", 18, "`,` or `]` after the dimension"),
        ("f64[3,]", 6, "a dimension, such as 3"),
        ("f64[-3]", 4, "a dimension, such as 3, or `]`"),
        ("float64[3]", 0, "a dtype: f16, f32"),
        ("f32[2] float64[3]", 7, "(write `f64`)"),
        ("f64", 0, "a shape: `f64[3,10]`, or `f64[]` for a scalar"),
        ("double", 0, "a shape: `f64[3,10]`"),
        ("f64[3]x", 6, "one of spd, sym, sorted, simplex, or a space"),
        ("f64[3]f64[4]", 6, "a space before the next argument"),
        ("f64[3]>a", 7, "a number"),
        ("f64[3]in(1,0)", 6, "a lower bound that is below the upper one"),
        ("f64[3]>1<0", 8, "a lower bound that is below the upper one"),
        ("f64[3]>nan", 6, "a lower bound that is below the upper one"),
        ("f64[3]in(0 1)", 10, "`,` and the upper bound"),
        ("f64[3]in(0,1", 12, "`)` after the upper bound"),
        ("f64[3,4]spd", 8, "a square matrix for `spd`"),
        ("f64[]sorted", 5, "at least one axis for `sorted`"),
        ("f64[2,2]spd>0", 0, "no bound beside `spd`"),
        ("c64[3]>0", 0, "no bound: complex64 has no order"),
        ("b[3]>0", 0, "no bound: bool has no order"),
        ("c64[2,2]sym", 0, "no structure: complex64 cannot be `sym`"),
        ("i64[3]simplex", 0, "a real dtype for `simplex`"),
        ("hello", 0, 'a text is written "hello"'),
        ('"abc', 0, "the closing quote"),
        ("(1, 2", 0, "`)` of what begins here"),
        ("f64[3]@", 7, "a device after `@`"),
        ("*0.5", 1, "a tensor after `*`"),
        ("1.2.3", 0, "a tensor such as"),
        ("f64[3],,f64[3]", 6, "an argument between the commas"),
        ("a=1 2", 4, "positional arguments come first"),
        ("a=1 a=2", 4, "`a` is given twice"),
    ],
)
def test_a_caret_shows_the_place(text, column, expected):
    with pytest.raises(BadInput) as caught:
        parse(text)
    head, shown, caret, words = str(caught.value).split("\n")
    assert head == "cannot read these inputs:"
    assert shown == f"    {text}"
    assert caret == " " * (4 + column) + "^"
    assert words.startswith("expected ")
    assert expected in words


def test_long_strings_are_shown_around_the_place():
    text = "f64[3] " * 30 + "f99[2] " + "f64[3] " * 30
    with pytest.raises(BadInput) as caught:
        parse(text)
    _, shown, caret, _ = str(caught.value).split("\n")
    assert len(shown) < 70
    assert shown[caret.index("^") :].startswith("f99[2]")


# -------------------------------------------------------------------- what is drawn


def test_values_are_seeded_and_standard_normal():
    x, again, other = (
        draw("f64[10000]", seed=seed).arguments[0].detach() for seed in (3, 3, 4)
    )
    assert torch.equal(x, again)
    assert not torch.equal(x, other)
    assert abs(float(x.mean())) < 0.05
    assert abs(float(x.std()) - 1) < 0.05


def test_drawing_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    draw("f64[3] i64[3] b[3] f64[3,3]spd")
    assert torch.equal(torch.random.get_rng_state(), before)


def test_another_precision_gives_the_same_numbers():
    (wide,) = draw("f64[100]").arguments
    for dtype in ("f32", "f16", "bf16"):
        (narrow,) = draw(f"{dtype}[100]").arguments
        assert torch.equal(narrow, wide.detach().to(narrow.dtype))


@pytest.mark.parametrize("short", sorted(DTYPES))
def test_dtypes_and_gradients(short):
    case = draw(f"{short}[2,3] *{short}[2,3]")
    given, starred = case.arguments
    assert given.dtype == getattr(torch, DTYPES[short])
    assert given.shape == (2, 3)
    assert given.is_leaf
    assert given.requires_grad == (given.is_floating_point() or given.is_complex())
    assert not starred.requires_grad


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize(
    ("bound", "low", "high"),
    [(">0", 0, math.inf), ("<0", -math.inf, 0), ("in(0,1)", 0, 1),
     (">1000", 1000, math.inf), ("in(-3,5)", -3, 5), ("<-2", -math.inf, -2),
     (">=0<=2", 0, 2)],
)  # fmt: skip
def test_bounded_values_lie_well_inside(dtype, bound, low, high):
    case = draw(f"{dtype}[2000]{bound}", ["x"])
    (x,) = case.arguments
    values = x.detach().double()
    assert case.domains == {"x": Domain(low, high)}
    assert float(values.min()) > low
    assert float(values.max()) < high
    if math.isfinite(low) and math.isfinite(high):
        assert float(values.min()) >= low + 0.05 * (high - low)
        assert float(values.max()) <= high - 0.05 * (high - low)


@pytest.mark.parametrize(
    ("text", "smallest", "largest"),
    [("i64[1000]", 0, 9), ("u8[1000]>250", 251, 255), ("i64[1000]<3", 0, 2),
     ("i32[1000]in(0,5)", 0, 4), ("i64[1000]>=-3", 0, 9), ("i64[1000]<-5", -15, -6),
     ("i8[1000]>=100<=101", 100, 101), ("b[1000]", 0, 1), ("i64[9]>2.5<3.5", 3, 3)],
)  # fmt: skip
def test_integers(text, smallest, largest):
    (x,) = draw(text).arguments
    assert (int(x.min()), int(x.max())) == (smallest, largest)


def test_structures():
    spd, sym, rising, simplex = draw(
        "f64[2,5,5]spd f64[4,4]sym f64[3,8]sorted>1 f32[6,9]simplex"
    ).arguments
    assert torch.equal(spd, spd.mT)
    assert float(torch.linalg.eigvalsh(spd.detach()).min()) > 0.5
    assert torch.equal(sym, sym.mT)
    assert float(rising.detach().diff(dim=-1).min()) > 0
    assert bool((rising > 1).all())
    assert bool((simplex > 0).all())
    assert torch.allclose(simplex.sum(-1), torch.ones(6))


@pytest.mark.parametrize("text", ["f64[0]", "f64[3,0]sorted", "f64[0,0]spd", "i64[0]"])
def test_empty_tensors(text):
    (x,) = draw(text).arguments
    assert x.numel() == 0


def test_domains_go_by_parameter():
    case = draw(
        "f64[2]>0 *f64[2]>0 f64[2]<0 f64[2] w=f64[3]sorted", ["x", "y", "*rest"]
    )
    assert case.domains == {
        "x": Domain(low=0),
        "rest[0]": Domain(high=0),
        "w": Domain(structure="sorted"),
    }
    assert list(case.keywords) == ["w"]
    assert draw("f64[2]>0", []).domains == {"argument 0": Domain(low=0)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i8[3]in(1000,2000)", "no int8 lies within these bounds"),
        ("bf16[3]in(1000,1001)", "bfloat16 is too coarse"),
        ("f16[3]>100000", "float16 is too coarse"),
        ("f64[3]@nowhere", "no device 'nowhere' here"),
        ("f64[999999,999999,999]", "cannot be made"),
        ("f64[99999999999999999999]", "cannot be made"),
    ],
)
def test_values_that_cannot_be(text, words):
    with pytest.raises(BadInput, match=words):
        draw(text)


# --------------------------------------------------------------- what functions give


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        return factor * x

    @staticmethod
    def backward(ctx, g):
        return ctx.factor * g, None


SUBJECT = subject_of(Scale)
X = torch.ones(3, requires_grad=True)


def given_by(value):
    def make():
        return value

    return cases_of(make, SUBJECT)


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        (X, (X,)),
        ((X, 3.0), (X, 3.0)),
        ({"x": X}, (X, 2.0)),
        ({"factor": 4.0, "x": X}, (X, 4.0)),
        (Case((X, 5.0)), (X, 5.0)),
    ],
)
def test_one_call(value, arguments):
    (case,) = given_by(value)
    assert len(case.arguments) == len(arguments)
    assert all(a is b for a, b in zip(case.arguments, arguments, strict=True))
    assert case.keywords == {}


def test_keywords_stay_keywords_for_other_callables():
    (case,) = cases_of(lambda: {"x": X}, subject_of(torch.relu))
    assert case.keywords == {"x": X}


def test_several_calls():
    def make():
        yield X
        yield X, 3.0

    assert [c.label for c in cases_of(make, SUBJECT)] == ["make[0]", "make[1]"]
    assert len(given_by([(X,), {"x": X}])) == 2


def test_seed_and_size_are_handed_over():
    def with_seed(seed=0):
        return X, seed

    def with_both(seed, size):
        return X, (seed, size)

    def with_default(size=7):
        return X, size

    assert cases_of(with_seed, SUBJECT, seed=5)[0].arguments[1] == 5
    assert cases_of(with_both, SUBJECT, seed=5)[0].arguments[1] == (5, 4)
    assert cases_of(with_default, SUBJECT)[0].arguments[1] == 7


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.5, "gives a float; return the arguments of one call as a tuple"),
        (None, "gives None; return"),
        ([X, X], "gives a list; return"),
        ([], "gives no inputs at all"),
        ((0.5, "a"), "gives no tensor, only a float, a str"),
        ((), "gives no tensor, only nothing"),
        ({"y": X}, "gives `y`; Scale takes `x`, `factor`"),
        ({"factor": X}, "does not give `x`; Scale takes"),
    ],
)
def test_what_is_no_input(value, words):
    with pytest.raises(BadInput, match=words) as caught:
        given_by(value)
    assert str(caught.value).startswith("`make` ")


def test_numpy_arrays_are_named_as_what_they_are():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(BadInput, match=r"only a numpy\.ndarray"):
        given_by((numpy.ones(3),))


def test_a_function_that_raises_shows_its_own_frames():
    def helper():
        raise ValueError("no such table")

    def make():
        return helper()

    with pytest.raises(BadInput) as caught:
        cases_of(make, SUBJECT)
    text = str(caught.value)
    assert text.startswith("`make` raises:\n")
    assert text.endswith("ValueError: no such table")
    assert "in make\n    return helper()" in text
    assert "made.py" not in text


def test_a_generator_that_raises_halfway():
    def make():
        yield X
        raise RuntimeError("out of cases")

    with pytest.raises(BadInput, match="`make` raises"):
        cases_of(make, SUBJECT)


def test_modules_need_no_tensor():
    layer = torch.nn.Linear(2, 2)
    assert cases_of(lambda: (), subject_of(layer))[0].arguments == ()


# ------------------------------------------------------------------- the registry


def test_inputs_are_registered_beside_functions_callables_and_modules():
    layer, function = torch.nn.Linear(2, 2), torch.square

    @backproof.inputs_for(Scale)
    def first():
        return X

    @backproof.inputs_for(Scale.apply)
    def second():
        return X

    @backproof.inputs_for(layer)
    def of_layer():
        return X

    @backproof.inputs_for(function)
    def of_function():
        return X

    assert registered(Scale) == [first, second] == registered(Scale.apply)
    assert registered(layer) == [of_layer]
    assert registered(torch.square) == [of_function]
    assert registered(torch.nn.Linear(2, 2)) == []
    assert registered_in(__name__) == [Scale, layer, function]
    assert first() is X
