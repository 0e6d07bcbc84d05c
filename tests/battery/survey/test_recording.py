import numpy as np
import torch

from backproof.battery.survey.manners import surroundings_kept
from backproof.battery.survey.recording import recording_of
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.survey import CellStatus, survey
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.subjects import normal


def trial_of(op, *inputs):
    return Trial(subject_of(op), Case(inputs))


def recorded(op, *inputs):
    with surroundings_kept():
        return recording_of(Scene(trial_of(op, *inputs)))


@torch.library.custom_op("tests_recording::order", mutates_args=())
def order(i: torch.Tensor) -> torch.Tensor:
    return i.flip(0)


@torch.library.custom_op("tests_recording::swap_", mutates_args=())
def swap_undeclared(i: torch.Tensor) -> None:
    i.copy_(i.flip(0))


@torch.library.custom_op("tests_recording::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_autograd(lambda ctx, g: g * 2)


def test_it_runs_the_operations_and_none_of_the_python():
    calls = []

    def op(x):
        calls.append(x)
        return x.sin() * 2

    scene = recorded(op, normal(3))
    before = len(calls)
    (y,) = scene.function(*scene.plain())
    assert len(calls) == before
    assert torch.equal(y, op(scene.plain()[0]))


def test_what_numpy_computes_cannot_be_recorded():
    def op(x):
        return x * torch.from_numpy(np.sin(x.detach().numpy()))

    assert recorded(op, normal(3)) is None


def test_operators_of_the_users_are_constants_or_there_is_no_recording():
    def constant(x):
        return x[order(torch.arange(3))] ** 2

    def writes(x):
        i = torch.arange(3)
        swap_undeclared(i)
        return x[i] ** 2

    scene = recorded(constant, normal(3))
    assert torch.equal(scene.outputs()[0].value, constant(normal(3)).detach())
    assert recorded(writes, normal(3)) is None
    assert recorded(lambda x: twice(x).sin(), normal(3)) is None


def test_torch_is_blamed_for_operations_of_its_own():
    """`linearize` folds constants that are written to later: GRUs come out wrong."""
    cell = torch.nn.GRUCell(3, 4)
    inputs = normal(2, 3, dtype=torch.float32), normal(2, 4, dtype=torch.float32)
    (found,) = survey(trial_of(cell, *inputs), "func_linearize")
    assert found.status in (CellStatus.TORCH, CellStatus.RIGHT)
    if found.status is CellStatus.TORCH:
        assert "recorded, fail alike" in found.words
