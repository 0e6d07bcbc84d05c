"""What a recording sees, keeps and leaves behind."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest
import torch
from torch.autograd.function import _SingleLevelFunction, once_differentiable
from torch.utils.checkpoint import checkpoint

import backproof


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * grad_output * x


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.factor, None


class Ours(backproof.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.exp()


square, scale = Square.apply, Scale.apply  # bound before anybody watches


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def calls(seen):
    return {ledger.identity.name: ledger.calls for ledger in seen.ledgers.values()}


def kept(seen, name):
    return next(x.kept for x in seen.ledgers.values() if x.identity.name == name)


def is_patched():
    return "apply" in vars(_SingleLevelFunction)


def test_a_function_bound_before_is_seen_and_nothing_is_left_behind():
    assert not is_patched()
    with backproof.recording() as seen:
        assert is_patched()
        square(leaf(3))
        scale(leaf(2), 2.0)
        Ours.apply(leaf(2))
    square(leaf(3))
    Ours.apply(leaf(2))
    assert not is_patched()
    assert calls(seen) == {"Square": 1, "Scale": 1, "Ours": 1}


def test_nothing_is_left_behind_after_an_exception():
    def work():
        with backproof.recording():
            square(leaf(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert not is_patched()


def test_nested_recordings_see_every_call():
    with backproof.recording() as outer:
        square(leaf(3))
        with backproof.recording() as inner:
            square(leaf(3))
        square(leaf(3))
        assert is_patched()
    assert calls(outer) == {"Square": 3}
    assert calls(inner) == {"Square": 1}


def test_another_patch_of_the_same_kind_stays():
    def apply(cls, *arguments):
        return super(_SingleLevelFunction, cls).apply(*arguments)

    _SingleLevelFunction.apply = classmethod(apply)
    try:
        before = vars(_SingleLevelFunction)["apply"]
        with backproof.recording() as seen:
            assert torch.equal(square(torch.tensor(3.0)), torch.tensor(9.0))
        assert vars(_SingleLevelFunction)["apply"] is before
    finally:
        del _SingleLevelFunction.apply
    assert calls(seen) == {"Square": 1}


def test_a_function_of_ours_that_is_defined_within_is_not_tied_to_the_recording():
    with backproof.recording() as seen:

        class Late(backproof.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, grad_output):
                return 2 * grad_output

        Late.apply(leaf(2))
    Late.apply(leaf(2))
    name = next(iter(calls(seen)))
    assert name.endswith("Late")
    assert calls(seen)[name] == 1


def test_torchs_own_functions_are_left_out():
    with backproof.recording() as seen:
        x = leaf(3)
        checkpoint(square, x, use_reentrant=True).sum().backward()
    assert set(calls(seen)) == {"Square"}


@pytest.mark.parametrize("function", [Square, Ours])
@pytest.mark.parametrize(
    ("transform", "batched"),
    [
        (torch.func.grad(lambda f, x: f(x).sum(), argnums=1), False),
        (torch.func.vmap(lambda f, x: f(x), in_dims=(None, 0)), True),
        (
            torch.func.vmap(
                torch.func.grad(lambda f, x: f(x).sum(), argnums=1), in_dims=(None, 0)
            ),
            True,
        ),
    ],
    ids=["grad", "vmap", "vmap of grad"],
)
def test_one_call_under_torch_func_counts_once(function, transform, batched):
    with backproof.recording() as seen:
        transform(function.apply, torch.randn(5, 3))
    assert calls(seen) == {function.__name__: 1}
    for call in kept(seen, function.__name__):
        (shape, *_), *_ = call.signature
        assert shape == ((3,) if batched else (5, 3))


def test_what_torch_func_differentiates_is_verified():
    with backproof.recording() as seen:
        torch.func.grad(lambda x: square(x).sum())(torch.randn(3))
        torch.func.vmap(torch.func.grad(lambda x: Ours.apply(x).sum()))(
            torch.randn(5, 3)
        )
    report = seen.verify()
    assert {s.name: s.verdict.value for s in report.subjects} == {
        "Square": "pass",
        "Ours": "pass",
    }
    # torch.func knows that they need a gradient: nobody had to assume it.
    assert all(s.usage.notes == () for s in report.subjects)


def test_calls_of_all_threads_are_counted():
    def work():
        for _ in range(50):
            square(leaf(3)).sum().backward()

    with backproof.recording() as seen:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert calls(seen) == {"Square": 200}


def test_why_a_call_was_not_kept_is_counted():
    with backproof.recording() as seen:
        square(torch.randn(3))
        with torch.no_grad():
            square(leaf(3))
        with torch.inference_mode():
            square(torch.randn(3))
        square(torch.randn(3, device="meta", requires_grad=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.trace(lambda x: scale(x, 2.0), (leaf(2),), check_trace=False)
    reasons = {
        ledger.identity.name: set(ledger.unrecorded) for ledger in seen.ledgers.values()
    }
    assert reasons == {
        "Square": {
            "no input needed a gradient",
            "it ran without gradients",
            "its tensors had no values (meta or fake)",
        },
        "Scale": {"torch.jit.trace was tracing it"},
    }


def test_a_compiled_call_is_left_to_dynamo_without_a_break():
    with backproof.recording() as seen:
        compiled = torch.compile(
            lambda x: scale(x, 3.0), backend="eager", fullgraph=True
        )
        x = leaf(4)
        compiled(x).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), 3.0))
    assert calls(seen).get("Scale", 0) == 0


def test_an_exported_call_is_no_call_of_the_program():
    class Model(torch.nn.Module):
        def forward(self, x):
            return scale(x, 3.0)

    with backproof.recording() as seen:
        torch.export.export(Model(), (torch.randn(4),), strict=False)
    assert calls(seen) == {}


def test_the_first_the_smallest_and_later_ones_are_kept():
    with backproof.recording(calls=3) as seen:
        for size in (8, 16, 4, 32, 6, 5):
            square(leaf(size))
    shapes = sorted(call.signature[0][0][0] for call in kept(seen, "Square"))
    assert len(shapes) == 3
    assert shapes[0] == 4
    assert 8 in shapes


def test_each_kind_of_arguments_is_kept():
    with backproof.recording(calls=1) as seen:
        for dtype in (torch.float32, torch.float64):
            square(leaf(3).to(dtype))
        scale(leaf(3), 1.0)
        scale(leaf(3).double(), 1.0)
    assert len(kept(seen, "Square")) == 2
    assert len(kept(seen, "Scale")) == 2


def test_the_budget_of_bytes_holds():
    with backproof.recording(memory=1000) as seen:
        square(leaf(100))
        square(leaf(200, 2))
        square(leaf(300))
    assert seen.kept_bytes <= 1000
    assert len(kept(seen, "Square")) == 1
    (ledger,) = seen.ledgers.values()
    assert any(reason.startswith("no memory was left") for reason in ledger.unrecorded)


def test_views_of_one_memory_are_copied_once_and_only_what_they_show():
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, grad_output

    large = torch.randn(1000, requires_grad=True)
    with backproof.recording() as seen:
        Add.apply(large[10:20], large[20:30])
    assert seen.kept_bytes == 20 * 4
    with backproof.recording() as seen:
        Add.apply(large[:10], large[990:])  # what lies between them is left out
    assert seen.kept_bytes == 20 * 4
    with backproof.recording() as seen:
        Add.apply(large[:1].expand(500), large[:500])
    assert seen.kept_bytes == 500 * 4


def test_arguments_are_kept_as_they_were():
    x = torch.arange(6.0).reshape(2, 3)
    given = x.t().requires_grad_()
    options = {"factor": torch.tensor(2.0), "seen": []}

    class Pops(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, options):
            ctx.factor = float(options.pop("factor"))
            return x * ctx.factor

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * ctx.factor, None

    with backproof.recording() as seen:
        Pops.apply(given, options)
        with torch.no_grad():
            given.mul_(100)
    (ledger,) = seen.ledgers.values()
    tensor = ledger.kept[0].arguments[0].tensor()
    assert torch.equal(tensor, torch.arange(6.0).reshape(2, 3).t())
    assert tensor.stride() == (1, 3)
    assert seen.verify().verdict == "pass"


def test_the_programs_state_is_as_without_a_recording():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    with backproof.recording() as seen:
        for _ in range(10):
            square(torch.ones(3, requires_grad=True))
        assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    seen.verify()
    assert torch.equal(torch.get_rng_state(), state)


def test_no_tensor_of_ours_is_alive():
    def live():
        gc.collect()
        kinds = (torch.Tensor, torch.nn.Parameter)
        return sum(type(one) in kinds for one in gc.get_objects())

    x = leaf(7)
    before = live()
    with backproof.recording() as seen:
        for _ in range(5):
            square(x)
        assert kept(seen, "Square")
        assert live() == before


def test_a_class_made_at_each_call_is_one_function():
    def make():
        class Made(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            @once_differentiable
            def backward(ctx, grad_output):
                return 2 * grad_output

        return Made

    with backproof.recording() as seen:
        for _ in range(300):
            make().apply(leaf(3))
    assert list(calls(seen).values()) == [300]
    assert len(seen._tracked) < 300
    report = seen.verify()
    assert [s.verdict.value for s in report.subjects] == ["pass"]


def test_only_the_wanted_are_watched():
    with backproof.recording(only=["*.Scale"]) as seen:
        square(leaf(3))
        scale(leaf(3), 2.0)
    assert set(calls(seen)) == {"Scale"}


@pytest.mark.parametrize(
    ("options", "words"),
    [({"calls": 0}, "calls kept .* not 0"), ({"memory": -1}, "memory must not be")],
)
def test_numbers_that_make_no_sense_are_refused(options, words):
    with (
        pytest.raises(backproof.BadInput, match=words),
        backproof.recording(**options),
    ):
        pass
    assert not is_patched()


def test_a_recording_may_begin_and_end_while_another_thread_checks():
    started, goes_on = threading.Event(), threading.Event()

    class Waits(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            started.set()
            goes_on.wait(20)
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    def check():
        backproof.check(Waits, leaf(3), laws=["BP501"])

    thread = threading.Thread(target=check)
    with backproof.recording() as ends_early:
        thread.start()
        started.wait(20)
    with backproof.recording() as begins_late:
        goes_on.set()
        thread.join()
        square(leaf(3))
    Ours.apply(leaf(3))
    assert calls(ends_early) == {}
    assert calls(begins_late) == {"Square": 1}
    assert not is_patched()


def test_what_a_check_calls_is_no_call_of_the_program():
    with backproof.recording() as seen:
        backproof.check(Square, leaf(5), laws=["BP101"])
        backproof.check(Ours, leaf(5), laws=["BP101"])
    assert calls(seen) == {}
