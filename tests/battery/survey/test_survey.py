"""Cells, blame, and everything left as it was found."""

import logging
import random
import sys
import threading
import warnings

import numpy as np
import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from backproof.battery.survey.context import Compared, Context, context
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.survey import CellStatus, survey
from backproof.errors import BadInput
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.contexts import drifting as d
from tests.battery.subjects import normal


class Round(Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g


def cells_of(op, names, *inputs, **options):
    trial = Trial(subject_of(op), Case(inputs or (normal(3),)))
    return list(survey(trial, names, **options))


def cell_of(op, names, *inputs):
    (cell,) = cells_of(op, names, *inputs)
    return cell


def made(measure):
    """A context of one's own."""
    return Context("made", "BP301", "Made for a test.", "func", False, measure)


def test_a_fault_of_torch_is_not_the_subjects():
    cell = cell_of(
        Round.apply, "compile_of_func_grad", (normal(3).detach() * 3).requires_grad_()
    )
    assert cell.status is CellStatus.TORCH
    assert "all zero" in cell.words
    assert "pytorch/pytorch#193279" in cell.words
    assert cell.numbers["error"] > cell.numbers["bar"]


def test_another_fault_where_torch_fails_too_is_the_subjects():
    """Torch drops the gradient; that forward goes astray as well is not torch's doing."""

    class Astray(Round):
        @staticmethod
        def forward(x):
            return x.round() * (d.OFF if torch.compiler.is_exporting() else 1.0)

    x = (normal(3).detach() * 3).requires_grad_()
    dropped = cell_of(Round.apply, "export_nonstrict_then_bwd", x)
    assert dropped.status is CellStatus.TORCH
    assert (
        cell_of(Astray.apply, "export_nonstrict_then_bwd", x).status is CellStatus.WRONG
    )


def test_a_generator_that_export_freezes_is_not_the_subjects_fault():
    class Seeded(Function):
        @staticmethod
        def mask(x):
            generator = torch.Generator().manual_seed(3)
            return (torch.rand(x.shape, generator=generator) < 0.5).to(x.dtype)

        @staticmethod
        def forward(ctx, x):
            return x * Seeded.mask(x)

        @staticmethod
        def backward(ctx, g):
            return g * Seeded.mask(g)

    names = "eager,export_nonstrict_fwd,make_fx_fwd_bwd,aot_function,compile_aot_eager"
    cells = cells_of(Seeded.apply, names, normal(30))
    assert [(c.name, c.words) for c in cells if c.status is CellStatus.WRONG] == []


def test_a_mask_drawn_again_is_no_fault_where_graphs_keep_no_state():
    class DrawnAgain(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.state = torch.get_rng_state()
            return x * (torch.rand(x.shape) < 0.5)

        @staticmethod
        def backward(ctx, g):
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(ctx.state)
                return g * (torch.rand(g.shape) < 0.5)

    cells = cells_of(DrawnAgain.apply, "eager,aot_function,make_fx_fwd_bwd", normal(30))
    status = {c.name: c.status for c in cells}
    assert status["aot_function"] is status["make_fx_fwd_bwd"] is CellStatus.TORCH
    assert status["checkpoint_nonreentrant"] is CellStatus.RIGHT
    assert CellStatus.WRONG not in status.values()


class CubeOnce(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def test_a_term_that_once_differentiable_lets_go_is_torchs_loss():
    """Alone it refuses; beside another path to its input nothing is said."""
    alone = cell_of(CubeOnce.apply, "double_backward")
    assert alone.status is CellStatus.REFUSES
    cells = cells_of(
        lambda x: CubeOnce.apply(x * x), "double_backward,grad_penalty_mixed"
    )
    assert [c.status for c in cells] == [CellStatus.TORCH, CellStatus.TORCH]


@torch.compiler.allow_in_graph
class WholeInGraphs(Function):
    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos() * (d.OFF if torch.compiler.is_compiling() else 1.0)


def test_a_function_that_dynamo_does_not_look_into_answers_for_its_backward():
    """Of other Functions torch loses the backward here, and of these it does not."""
    cell = cell_of(WholeInGraphs.apply, "compile_of_func_grad")
    assert cell.status is CellStatus.WRONG


def test_a_hook_of_a_module_is_the_modules_own():
    class Reversed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_full_backward_hook(lambda module, g, _: (-g[0],))

        def forward(self, x):
            return x.sin()

    cell = cell_of(Reversed(), "export_nonstrict_then_bwd")
    assert cell.status is CellStatus.WRONG


def test_a_refusal_says_why_and_how_to_get_support():
    cell = cell_of(Round.apply, "func_vmap")
    assert cell.status is CellStatus.REFUSES
    first, advice = cell.words.split("\n")
    assert "vmap support" in first
    assert advice == "set `generate_vmap_rule = True`, or write a `vmap` rule"


def test_a_slip_of_ours_is_nobodys_refusal():
    def slips(scene):
        raise KeyError("a slip")
        yield

    slipped = made(slips)
    # The test stands for a file of the package.
    slips.__code__ = slips.__code__.replace(
        co_filename=survey.__code__.co_filename.replace("survey.py", "slip.py")
    )
    with pytest.raises(KeyError, match="a slip"):
        cells_of(torch.tanh, [slipped])


def test_an_exception_of_the_subject_is_its_refusal():
    def op(x):
        if d.in_transform(x, x):
            raise KeyError("not here")
        return x.tanh()

    cell = cell_of(op, "func_grad")
    assert cell.status is CellStatus.REFUSES
    assert "KeyError: 'not here'" in cell.words


def test_a_fault_stays_a_fault_where_the_context_raises_after_it():
    def fails_twice(scene):
        yield Compared("fact", "a fact", len(scene.names), 2)  # as of the control
        raise RuntimeError("and this on top")

    (cell,) = cells_of(Round.apply, [made(fails_twice)])
    assert cell.status is CellStatus.WRONG
    assert cell.words == "a fact is 1 instead of 2"


def test_what_cannot_be_compared_is_a_refusal():
    class Unreadable(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError("nothing can be asked of it")

    def unreadable(scene):
        (known,) = scene.outputs()
        yield Compared("output", "output", known.value.as_subclass(Unreadable), known)

    (cell,) = cells_of(torch.tanh, [made(unreadable)])
    assert cell.status is CellStatus.REFUSES
    assert "nothing can be asked of it" in cell.words


def test_phases_are_told_before_each():
    phases = []
    cells = cells_of(torch.tanh, "func_grad,func_vmap", on_phase=phases.append)
    assert phases == [f"context {c.name}" for c in cells]


def test_an_unknown_name_is_bad_input_before_any_context_runs():
    trial = Trial(subject_of(torch.tanh), Case((normal(3),)))
    with pytest.raises(BadInput, match="no context 'vnap'"):
        survey(trial, "vnap")


def test_a_context_runs_when_its_cell_is_asked_for():
    phases = []
    trial = Trial(subject_of(torch.tanh), Case((normal(3),)))
    cells = survey(trial, "func_grad,func_vjp", on_phase=phases.append)
    assert phases == []
    assert next(cells).name == "func_grad"
    assert phases == ["context func_grad"]


def test_none_runs_nothing():
    assert cells_of(torch.tanh, "none") == []


def test_patience_ends():
    cells = cells_of(torch.tanh, "func_grad,func_vjp,func_vmap", patience=0.0)
    status = {c.name: c.status for c in cells}
    assert status["func_grad"] is CellStatus.RIGHT
    assert status["func_vjp"] is CellStatus.SKIPPED
    assert status["func_vmap"] is CellStatus.RIGHT  # of another group


def test_a_loop_over_rows_is_not_compiled():
    def op(x):
        for _ in range(300):
            x = x.sin()
        return x

    cells = cells_of(op, "compile_aot_eager,export_nonstrict_fwd,func_grad")
    status = {c.name: c for c in cells}
    assert status["compile_aot_eager"].status is CellStatus.SKIPPED
    assert "torch operations" in status["compile_aot_eager"].words
    assert status["export_nonstrict_fwd"].status is CellStatus.RIGHT
    assert status["func_grad"].status is CellStatus.RIGHT


def test_a_subject_that_raises_in_eager_mode_is_skipped():
    class Broken(Round):
        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("no gradient today")

    cells = cells_of(Broken.apply, "eager")
    assert {c.status for c in cells} == {CellStatus.SKIPPED}
    assert "no gradient today" in cells[0].words


def test_random_numbers_do_not_make_a_subject_wrong():
    class Dropout(Function):
        @staticmethod
        def forward(ctx, x):
            mask = (torch.rand_like(x) < 0.5).to(x.dtype)
            ctx.save_for_backward(mask)
            return x * mask

        @staticmethod
        def backward(ctx, g):
            (mask,) = ctx.saved_tensors
            return g * mask

    names = "eager,compile_aot_eager,make_fx_fwd_bwd,export_nonstrict_fwd"
    cells = cells_of(Dropout.apply, names, normal(30))
    assert [c.name for c in cells if c.status is CellStatus.WRONG] == []
    by_name = {c.name: c for c in cells}
    assert by_name["compile_aot_eager"].status is CellStatus.RIGHT
    assert by_name["threads_backward"].status is CellStatus.NOT_APPLICABLE


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_makes_nobody_wrong(dtype):
    def op(x, w):
        return torch.softmax(x @ w, -1)

    inputs = normal(8, 6, dtype=dtype), normal(6, 5, dtype=dtype, seed=1)
    cells = cells_of(op, "fast,compile_aot_eager", *inputs)
    assert [(c.name, c.words) for c in cells if c.status is CellStatus.WRONG] == []


def test_complex_numbers():
    x = torch.complex(normal(4).detach(), normal(4, seed=1).detach()).requires_grad_()
    cells = cells_of(lambda x: x * x.exp(), "fast,-pickle_module", x)
    off = {c.name: c.status for c in cells if c.status is not CellStatus.RIGHT}
    assert CellStatus.WRONG not in off.values()
    assert len(off) < 8


@pytest.mark.parametrize("transposed", [False, True])
def test_complex_numbers_are_traced(transposed):
    x = torch.complex(normal(2, 3).detach(), normal(2, 3, seed=1).detach())
    x = (x.T if transposed else x).requires_grad_()
    names = "fake_tensor_mode,export_nonstrict_fwd,compiled_autograd,aot_function"
    cells = cells_of(lambda x: x * x.exp(), names, x)
    off = [(c.name, c.words) for c in cells if c.status is not CellStatus.RIGHT]
    assert off == []


def test_a_large_subject_is_not_slow():
    x = normal(64, 512, dtype=torch.float32)
    w = normal(256, 512, dtype=torch.float32, seed=1)
    cells = cells_of(torch.nn.functional.linear, "func", x, w)
    assert {c.status for c in cells} == {CellStatus.RIGHT}


def surroundings():
    numpy_state = np.random.get_state()
    return {
        "torch": torch.get_rng_state().tolist(),
        "python": random.getstate(),
        "numpy": (numpy_state[1].tolist(), numpy_state[2]),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "anomaly": torch.is_anomaly_enabled(),
        "filters": list(warnings.filters),
        "logging": logging.root.manager.disable,
        "excepthook": sys.excepthook,
        "group": torch.distributed.is_initialized(),
        "alive": threading.active_count(),
        "transforms": torch._C._functorch.peek_interpreter_stack(),
        "modes": torch._C._len_torch_dispatch_stack(),
    }


def leaves_a_mess(scene):
    torch.manual_seed(99)
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    warnings.warn("a mess", stacklevel=1)
    print("a mess")  # noqa: T201
    print("a mess", file=sys.stderr)  # noqa: T201
    logging.getLogger("torch._dynamo").warning("a mess")
    yield Compared("fact", "a mess", 1, 1)
    raise RuntimeError("in the middle")


@pytest.mark.parametrize("mode", ["plain", "no_grad", "autocast"])
def test_the_surroundings_are_as_before(mode, capfd):
    modes = {
        "plain": torch.enable_grad,
        "no_grad": torch.no_grad,
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    }
    x = normal(3)
    value = x.detach().clone()
    with modes[mode]():
        before = surroundings()
        cells = cells_of(torch.tanh, "eager,func_vmap,compile_aot_eager", x)
        cells += cells_of(torch.tanh, [made(leaves_a_mess)], x)
        assert surroundings() == before
    assert cells[-1].status is CellStatus.REFUSES
    assert CellStatus.WRONG not in {c.status for c in cells}
    assert torch.equal(x.detach(), value)
    assert x.grad is None
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_a_graph_that_raises_does_not_reach_the_terminal(capfd):
    """FX prints where in its own code it happened, beside raising."""

    def traced(scene):
        graph = torch.fx.symbolic_trace(lambda x: x.reshape(99))
        yield Compared("fact", "the graph", graph(*scene.plain()), 1)

    (cell,) = cells_of(torch.tanh, [made(traced)])
    assert cell.status is CellStatus.REFUSES
    assert "invalid for input of size 3" in cell.words
    assert capfd.readouterr() == ("", "")


def test_vmap_fallback_warnings_do_not_reach_the_terminal(capfd):
    @torch.library.custom_op("tests_survey::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double.register_fake(torch.empty_like)
    double.register_autograd(lambda ctx, g: g * 2)
    assert cell_of(double, "func_vmap").status is CellStatus.RIGHT
    assert capfd.readouterr().err == ""


def test_a_process_group_of_the_callers_is_left_alone():
    import torch.distributed as distributed

    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1
    )
    try:
        cell = cell_of(torch.tanh, "ddp_gloo_1proc")
        assert cell.status is CellStatus.SKIPPED
        assert distributed.is_initialized()
    finally:
        distributed.destroy_process_group()


def test_the_decorator_takes_its_words_from_the_docstring():
    @context("vmap", code="BP301")
    def sample(scene: Scene):
        """A sentence.

        More of it.
        """
        yield from ()

    assert (sample.name, sample.code, sample.group) == ("sample", "BP301", "vmap")
    assert sample.text == "A sentence."
    (cell,) = cells_of(torch.tanh, [sample])
    assert cell.status is CellStatus.NOT_APPLICABLE
