"""Replays: what is judged, what is left alone, and how time is shared."""

from __future__ import annotations

import functools
import re
import time

import pytest
import torch
from torch import nn

import backproof
from backproof.audit.verification import Verification


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight, x.mT @ grad_output


class Adjoint(torch.autograd.Function):
    """As the adjoint method has it: a function, and beside it the tensors it holds."""

    @staticmethod
    def forward(ctx, function, x, *parameters):
        ctx.function = function
        ctx.save_for_backward(x, *parameters)
        with torch.no_grad():
            return function(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            wanted = [t for t in (x, *parameters) if t.requires_grad]
            found = iter(torch.autograd.grad(ctx.function(x), wanted, grad_output))
        return (
            None,
            *(next(found) if t.requires_grad else None for t in (x, *parameters)),
        )


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class FakeQuantise(torch.autograd.Function):
    """A learned step size: piecewise constant in x, and not in the step."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x, step)
        return (x / step).round().clamp(-8, 7) * step

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        scaled = x / step
        inside = (scaled >= -8) & (scaled <= 7)
        rounded = scaled.round().clamp(-8, 7)
        of_step = torch.where(inside, rounded - scaled, rounded)
        return grad_output * inside, (grad_output * of_step).sum().reshape(step.shape)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def verdicts(seen, **options):
    subjects = seen.verify(**options).subjects
    return {s.name.rpartition(".")[2]: s.verdict.value for s in subjects}


def test_a_wrong_gradient_is_convicted_on_the_recorded_values():
    with backproof.recording() as seen:
        Wrong.apply(leaf(4, 4), leaf(4, 4)).sum().backward()
    report = seen.verify()
    assert report.verdict == "wrong"
    (finding,) = [f for f in report.findings if f.code == "BP101"]
    assert "`weight` transposed" in finding.title
    assert finding.where.file == __file__
    usage = report.subjects[0].usage
    assert (usage.calls, usage.signatures, usage.checked) == (1, 1, 1)


@pytest.mark.parametrize("kind", ["module", "closure", "method", "partial"])
def test_an_argument_that_holds_the_inputs_is_replayed_with_them(kind):
    module = nn.Linear(3, 3)
    functions = {
        "module": module,
        "closure": lambda x: torch.tanh(module(x)),
        "method": module.forward,
        "partial": functools.partial(lambda m, x: m(x), module),
    }
    before = [p.clone() for p in module.parameters()]
    with backproof.recording() as seen:
        y = Adjoint.apply(functions[kind], leaf(5, 3), *module.parameters())
        y.sum().backward()
    gradients = [p.grad.clone() for p in module.parameters()]
    (subject,) = seen.verify().subjects
    assert subject.verdict == "pass"
    assert subject.usage.notes == ()  # the parameters were judged too
    for p, value, gradient in zip(module.parameters(), before, gradients, strict=True):
        assert torch.equal(p, value)
        assert torch.equal(p.grad, gradient)


def test_a_wrong_gradient_of_what_an_argument_holds_is_convicted():
    class Halved(Adjoint):
        @staticmethod
        def backward(ctx, grad_output):
            none, x, *rest = Adjoint.backward(ctx, grad_output)
            return (none, x, *(None if g is None else g / 2 for g in rest))

    module = nn.Linear(3, 3)
    with backproof.recording() as seen:
        Halved.apply(module, leaf(5, 3), *module.parameters())
    report = seen.verify()
    assert report.verdict == "wrong"


@pytest.mark.parametrize("with_parameters", [True, False])
def test_a_module_with_state_is_as_it_was(with_parameters):
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    parameters = module.parameters() if with_parameters else ()
    with backproof.recording() as seen:
        Adjoint.apply(module, leaf(5, 3), *parameters)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    seen.verify()
    after = module.state_dict()
    assert all(torch.equal(after[name], value) for name, value in state.items())


def test_an_input_that_forward_does_not_read_beside_an_object_is_set_aside():
    """Flat parameters: the function holds views of them, a replay cannot connect both."""
    weight = leaf(3)
    flat = torch.cat([weight])

    class Flat(torch.autograd.Function):
        @staticmethod
        def forward(ctx, function, x, flat):
            ctx.function = function
            ctx.save_for_backward(x)
            with torch.no_grad():
                return function(x)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return None, grad_output * weight.detach(), (grad_output * x).sum(0)

    with backproof.recording() as seen:
        Flat.apply(lambda x: x * weight, leaf(5, 3), flat)
    report = seen.verify()
    (subject,) = report.subjects
    assert subject.verdict == "pass"
    assert any("`flat` was not judged" in note for note in subject.usage.notes)


def test_a_surrogate_is_told_from_a_mistake_and_its_declaration_works():
    with backproof.recording() as seen:
        Round.apply(leaf(20))
        FakeQuantise.apply(
            3 * torch.randn(64).requires_grad_(), torch.tensor(0.3, requires_grad=True)
        )
    report = seen.verify()
    assert {s.name: s.verdict.value for s in report.subjects} == {
        "Round": "surrogate",
        "FakeQuantise": "surrogate",
    }
    titles = {s.name: s.findings[0].title for s in report.subjects}
    assert "identity (straight through)" in titles["Round"]
    assert "identity on [-8, 7] of `x / step`" in titles["FakeQuantise"]


def test_a_mistake_beside_a_surrogate_stays_a_mistake():
    class Weighted(torch.autograd.Function):
        """Piecewise constant in x; linear in weight, whose gradient is doubled."""

        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x.round() * weight

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad_output):
            x, weight = ctx.saved_tensors
            return grad_output * weight, 2 * grad_output * x.round()

    with backproof.recording() as seen:
        Weighted.apply(3 * leaf(50).detach().requires_grad_(), leaf(50))
    assert verdicts(seen) == {"Weighted": "wrong"}


def test_a_gradient_for_symmetric_matrices_is_right_along_them():
    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, matrix, b):
            factor = torch.linalg.cholesky(matrix)
            x = torch.cholesky_solve(b, factor)
            ctx.save_for_backward(factor, x)
            return x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad_output):
            factor, x = ctx.saved_tensors
            of_b = torch.cholesky_solve(grad_output, factor)
            of_matrix = -of_b @ x.mT
            return (of_matrix + of_matrix.mT) / 2, of_b

    root = torch.randn(4, 4)
    matrix = (root @ root.mT + torch.eye(4)).requires_grad_()
    with backproof.recording() as seen:
        Solve.apply(matrix, leaf(4, 2))
    (subject,) = seen.verify().subjects
    assert subject.verdict == "pass"
    assert any("`matrix` was symmetric" in note for note in subject.usage.notes)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (NotImplementedError("forward only"), "refuses a gradient.*forward only"),
        (RuntimeError("no process group"), None),
    ],
)
def test_a_backward_that_refuses_is_no_crash(reason, words):
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            raise reason

    with backproof.recording() as seen:
        Raises.apply(leaf(3))
    (subject,) = seen.verify().subjects
    if words is None:
        assert subject.verdict == "crashed"
    else:
        assert subject.verdict == "inconclusive"
        assert re.search(words, subject.outcomes[0].words)


def test_a_forward_that_cannot_run_again_says_why():
    opened = [True]

    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if not opened[0]:
                raise ValueError("I/O operation on closed file")
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    with backproof.recording() as seen:
        Reads.apply(leaf(3))
    opened[0] = False
    (subject,) = seen.verify().subjects
    assert subject.verdict == "inconclusive"
    assert "closed file" in subject.outcomes[0].words


def test_memory_that_forward_frees_is_not_read_again():
    class Frees(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.clone()
            x.untyped_storage().resize_(0)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    with backproof.recording() as seen:
        Frees.apply(leaf(3).clone())
    (subject,) = seen.verify().subjects
    assert subject.verdict == "inconclusive"
    assert "frees the memory" in subject.outcomes[0].words


def test_autocast_and_default_type_are_those_of_the_call():
    met = set()

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            met.add((torch.is_autocast_enabled("cpu"), torch.get_default_dtype()))
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    torch.set_default_dtype(torch.float64)
    try:
        with (
            backproof.recording() as seen,
            torch.autocast("cpu", dtype=torch.bfloat16),
        ):
            Looks.apply(leaf(3))
    finally:
        torch.set_default_dtype(torch.float32)
    met.clear()
    seen.verify()
    assert (True, torch.float64) in met
    assert {dtype for _, dtype in met} == {torch.float64}
    assert torch.get_default_dtype() == torch.float32


def test_the_default_device_is_that_of_the_call():
    met = set()

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            met.add(torch.get_default_device().type)
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    x = leaf(3)
    with backproof.recording() as seen, torch.device("meta"):
        Looks.apply(x)
    met.clear()
    assert verdicts(seen) == {"Looks": "pass"}
    assert "meta" in met
    assert torch.get_default_device().type == "cpu"


def test_what_was_not_reached_is_listed():
    class Slow(Round):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.3)
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    with backproof.recording() as seen:
        Slow.apply(leaf(3))
        Wrong.apply(leaf(4, 4), leaf(4, 4))
    report = seen.verify(seconds=0.2)
    late = next(s for s in report.subjects if s.name == "Wrong")
    assert late.verdict == "inconclusive"
    assert "not reached: the 0.2 s" in late.outcomes[0].words


def test_a_test_gets_a_tenth_of_what_is_left():
    class Slow(Wrong):
        @staticmethod
        def forward(ctx, x, weight):
            time.sleep(0.1)
            return Wrong.forward(ctx, x, weight)

    verification = Verification(seconds=20.0)
    with backproof.recording() as seen:
        Slow.apply(leaf(4, 4), leaf(4, 4))
        verification.verify(seen, last=False)
    assert not any(ledger.kept for ledger in seen.ledgers.values())
    (subject,) = verification.report(seen).subjects
    assert any("the budget of 2 s was spent" in o.words for o in subject.outcomes)


def test_other_laws_that_hold_are_no_pass_without_the_gradient():
    class Point(torch.autograd.Function):
        """Defined at 1 alone, so that nothing can be said of its gradient."""

        @staticmethod
        def forward(ctx, x):
            if not bool((x == 1).all()):
                raise ValueError("not 1")
            return 2 * x

        @staticmethod
        def backward(ctx, grad_output):
            return 3 * grad_output

    with backproof.recording() as seen:
        Point.apply(torch.ones(30, requires_grad=True))
    assert verdicts(seen) == {"Point": "inconclusive"}


def test_replays_are_quiet_and_seeded(capsys):
    with backproof.recording() as seen:
        Wrong.apply(leaf(4, 4), leaf(4, 4))
    report = seen.verify(seed=3)
    assert capsys.readouterr() == ("", "")
    assert report.environment["seed"] == 3


def test_a_bad_time_is_refused():
    with backproof.recording() as seen:
        pass
    with pytest.raises(backproof.BadInput, match="seconds for verification"):
        seen.verify(seconds=0)


def test_a_function_that_no_call_needed_a_gradient_of_is_judged_as_if_it_had():
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            return x * mask / 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, None

    class Stub(Half):
        @staticmethod
        def backward(ctx, grad_output):
            return None, None

    with backproof.recording() as seen:
        Half.apply(torch.randn(4), torch.ones(4))
        Stub.apply(torch.randn(4), torch.ones(4))
    report = seen.verify()
    subjects = {s.name.rpartition(".")[2]: s for s in report.subjects}
    half, stub = subjects["Half"], subjects["Stub"]
    assert half.verdict == "wrong"
    assert {f.code for f in half.findings} == {"BP101"}  # `mask` is left alone
    assert any("that needed no gradient" in note for note in half.usage.notes)
    assert stub.verdict == "inconclusive"
    assert "gives no gradient to any input" in stub.outcomes[0].words


def test_a_call_that_needs_gradients_comes_before_one_that_does_not():
    with backproof.recording() as seen:
        Round.apply(torch.randn(4))
        Round.apply(leaf(8))
    (subject,) = seen.verify().subjects
    assert subject.usage.notes == ()
    assert seen.kept_bytes == 0


def test_where_no_call_that_needs_gradients_is_decided_the_other_is_asked():
    class Reads(torch.autograd.Function):
        """Raises beside 1, so that a call there cannot be decided."""

        @staticmethod
        def forward(ctx, x):
            if bool((x > 1).any()):
                raise ValueError("above 1")
            return x / 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    with backproof.recording() as seen:
        Reads.apply(torch.ones(4, requires_grad=True))
        Reads.apply(torch.full((4,), 0.25))
    (subject,) = seen.verify().subjects
    assert subject.verdict == "wrong"
    assert any("that needed no gradient" in note for note in subject.usage.notes)


@pytest.mark.parametrize("weight", [torch.ones(3, 3), torch.eye(3)])
def test_a_plain_test_matrix_is_no_symmetric_one_by_contract(weight):
    class Transposed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad_output):
            x, weight = ctx.saved_tensors
            return grad_output @ weight.mT, (x.mT @ grad_output).mT

    with backproof.recording() as seen:
        Transposed.apply(leaf(5, 3), weight.clone().requires_grad_())
    assert verdicts(seen) == {"Transposed": "wrong"}
