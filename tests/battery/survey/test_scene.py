from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch.autograd import Function

from backproof.battery.survey.context import NotApplicable
from backproof.battery.survey.known import difference
from backproof.battery.survey.manners import surroundings_kept
from backproof.battery.survey.other_calls import doubled
from backproof.battery.survey.scene import NoAnswer, Scene
from backproof.probe import Domain
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.subjects import normal


def scene_of(op, *arguments, domains=None, **keywords):
    case = Case(arguments, keywords, domains=domains or {})
    return Scene(Trial(subject_of(op), case))


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


Twin = namedtuple("Twin", "left right")  # noqa: PYI024


@pytest.mark.parametrize(
    ("op", "arguments", "keywords"),
    [
        (lambda x, y: x * y, (normal(3), normal(3)), {}),
        (lambda x, y=None, k=1: k * x * y, (normal(3),), {"y": normal(3), "k": 2}),
        (lambda parts: parts[0] * parts[1], ([normal(3), normal(3)],), {}),
        (
            lambda parts: parts["a"] * parts["b"],
            ({"a": normal(3), "b": normal(3)},),
            {},
        ),
        (lambda p: p.left * p.right, (Pair(normal(3), normal(3)),), {}),
        (lambda p: p.left * p.right, (Twin(normal(3), normal(3)),), {}),
        (lambda x, y: (x * y, {"n": 3, "s": x.sum()}), (normal(3), normal(3)), {}),
        (lambda x, i, y: x[i] * y, (normal(3), torch.tensor([2, 0]), normal(2)), {}),
    ],
    ids=["plain", "keywords", "list", "dict", "record", "tuple", "outputs", "index"],
)
def test_the_function_is_the_call(op, arguments, keywords):
    scene = scene_of(op, *arguments, **keywords)
    leaves = scene.leaves()
    outputs = scene.function(*leaves)
    assert len(outputs) == len(scene.output_names)
    assert not any(
        difference(y, k).words for y, k in zip(outputs, scene.outputs(), strict=True)
    )
    gradients = torch.autograd.grad(scene.loss(outputs), leaves)
    assert not any(
        difference(g, k).words
        for g, k in zip(gradients, scene.gradients(), strict=True)
    )


def test_outputs_have_names_as_one_writes_them():
    op = lambda x: (x.sin(), {"h": x.cos(), "n": 3}, Pair(x.exp(), x.argmax()))  # noqa: E731
    names = scene_of(op, normal(3)).output_names
    assert names == ["output[0]", "output[1]['h']", "output[2].left"]


def test_a_module_is_called_with_other_parameters_and_stays_as_it_is():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    scene = scene_of(module, normal(4, 3, dtype=torch.float32))
    scene.gradients(), scene.gradients(1)
    assert scene.names == ["input", "0.weight", "0.bias", "1.weight", "1.bias"]
    after = module.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert all(p.grad is None for p in module.parameters())


def logit(x):
    return torch.logit(x)


def test_samples_differ_and_stay_in_their_domain():
    x = torch.rand(50, dtype=torch.float64).requires_grad_()
    scene = scene_of(logit, x, domains={"x": Domain(0.0, 1.0)})
    for k in (1, 2, 3):
        (moved,) = scene.plain(k)
        assert bool(((moved > 0) & (moved < 1)).all())
        assert not torch.equal(moved, x.detach())
    assert not torch.equal(scene.plain(1)[0], scene.plain(2)[0])


def test_samples_stay_at_the_case_where_eager_mode_goes_no_further():
    def picky(x):
        if not bool((x == 1.0).all()):
            raise ValueError
        return x * 2

    scene = scene_of(picky, torch.ones(3, dtype=torch.float64).requires_grad_())
    assert torch.equal(scene.plain(1)[0], scene.plain(0)[0])


def test_random_numbers_start_anew():
    def op(x):
        return x * torch.rand_like(x)

    scene = scene_of(op, normal(5))
    assert scene.draws
    first, second = (scene.function(*scene.plain())[0] for _ in range(2))
    assert torch.equal(first, second)
    assert not scene_of(torch.tanh, normal(5)).draws


def test_an_op_that_works_in_place_is_given_copies():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    scene = scene_of(Doubled.apply, normal(3))
    known = scene.gradients()[0].value
    cotangent = (
        scene.loss.weights[0] + scene.loss.curvatures[0] * scene.outputs()[0].value
    )
    assert torch.allclose(known, 2 * cotangent)


def test_what_backward_pushes_is_what_forward_mode_gives():
    def op(x, w):
        return (x @ w).tanh()

    scene = scene_of(op, normal(4, 3), normal(3, 2, seed=1))
    tangents = scene.tangents()
    u = scene.cotangents()
    with surroundings_kept():
        _, pushed = torch.func.jvp(
            scene.function, tuple(scene.plain()), tuple(tangents)
        )
    assert float(scene.pushed(u, tangents).value) == pytest.approx(
        float((u[0] * pushed[0]).sum()), rel=1e-12
    )


def test_a_backward_that_is_not_linear_has_no_forward_mode():
    class Clipped(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return (2 * g).clamp(-1, 1)

    scene = scene_of(Clipped.apply, normal(5))
    with pytest.raises(NotApplicable, match="BP104"):
        scene.pushed(scene.cotangents(), scene.tangents())


def test_dimensions_of_one_length_grow_together():
    scene = scene_of(lambda x, y, w: (x * y) @ w, normal(4, 3), normal(4, 3), normal(3))
    assert [t.shape[0] for t in doubled(scene).plain()] == [8, 8, 3]
    assert doubled(scene_of(torch.tanh, normal())) is None


def test_eager_mode_that_raises_leaves_nothing_to_compare_with():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("here")

    with pytest.raises(NoAnswer, match="ZeroDivisionError: here"):
        scene_of(Broken.apply, normal(3))
