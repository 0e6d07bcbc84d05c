"""BP503: the same numbers in every layout of inputs and cotangents."""

import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    doubled,
    each,
    function,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x = normal(4, 3)


def dense(tensor):
    """What a kernel sees that takes a pointer and a shape."""
    strides = torch.empty(tensor.shape).stride()
    return tensor.as_strided(tensor.shape, strides)


def whole_memory(tensor):
    flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return flat[: tensor.numel()].reshape(tensor.shape)


def by_pointer(g, x):
    return 2 * dense(g) * x


def raises(ctx, g):
    return 2 * g.view(-1).view(g.shape)


FAULTS = {
    "forward takes a pointer": (
        saving(lambda x: dense(x) ** 2, lambda g, x: 2 * g * x),
        "forward gives other values",
    ),
    "forward takes the memory": (
        saving(lambda x: whole_memory(x) ** 2, lambda g, x: 2 * g * x),
        "forward gives other values",
    ),
    "backward takes a pointer": (
        saving(lambda x: x * x, by_pointer),
        "the gradient of `inputs[0]` changes when the cotangent comes transposed",
    ),
    "backward reads the input so": (
        saving(lambda x: x * x, lambda g, x: 2 * g * dense(x)),
        "with `inputs[0]` transposed",
    ),
    "backward views": (doubled(raises), "backward raises when `g` comes transposed"),
    "backward writes": (
        doubled(lambda ctx, g: g.mul_(2)),
        "backward raises when `g` comes expanded",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP503", target, x)
    assert status is BROKEN
    assert first_line in words


def only_contiguous(x):
    if not x.is_contiguous():
        raise ValueError("give it .contiguous()")
    return x * x


RIGHT = {
    "made contiguous": saving(
        lambda x: dense(x.contiguous().resolve_neg()) ** 2,
        lambda g, x: 2 * dense(g.contiguous().resolve_neg()) * x,
    ),
    "refused in forward": saving(only_contiguous, lambda g, x: 2 * g * x),
    "rounds otherwise": lambda x: x.sum(1),
    "an output laid out as the input": lambda x: torch.empty_like(x).copy_(x) + x,
}


@each(RIGHT)
def test_it_holds(made):
    status, words = asked("BP503", made, x)
    assert status is HELD, words


def test_a_refusal_is_told():
    told = outcome("BP503", RIGHT["refused in forward"], x).evidence[-1].words
    assert "forward refuses `inputs[0]` transposed (give it .contiguous())" in told


def test_a_lazy_bit_may_be_refused_by_backward():
    def backward(ctx, g):
        if g.is_neg():
            raise RuntimeError("no lazy bits")
        return 2 * g

    found = outcome("BP503", doubled(backward), x)
    assert found.status is HELD
    told = {e.numbers.get("cotangent"): e.words for e in found.evidence}
    assert "refused (RuntimeError: no lazy bits)" in told["as a negative view"]


def test_the_numbers_name_the_layout():
    target, _ = FAULTS["backward takes a pointer"]
    broken = [e for e in outcome("BP503", target, x).evidence if e.holds is False]
    layouts = {e.numbers.get("cotangent") or e.numbers["layout"] for e in broken}
    assert {"transposed", "with padded rows", "sliced with an offset"} <= layouts


def test_images_and_complex_numbers_have_layouts_of_their_own():
    image = outcome("BP503", torch.sin, normal(2, 3, 4, 4))
    assert "channels_last" in {e.numbers.get("layout", "")[3:] for e in image.evidence}
    z = torch.randn(4, dtype=torch.complex128, requires_grad=True)
    conjugate = "as a conjugate view"
    told = {e.numbers.get("cotangent") for e in outcome("BP503", torch.sin, z).evidence}
    assert conjugate in told


def test_dropout_draws_in_the_order_of_memory():
    status, words = asked("BP503", torch.nn.Dropout(), x)
    assert status is NOT_APPLICABLE
    assert "in the order of memory" in words


def test_an_expanded_input_is_compared_with_its_own_rows():
    made = function(lambda ctx, x: 2 * x, lambda ctx, g: 2 * g)
    labels = [e.numbers.get("layout") for e in outcome("BP503", made, x).evidence]
    assert "expanded" in labels
