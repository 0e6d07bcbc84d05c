"""What cannot be checked is said by name, with the way out, before anything is run."""

import warnings

import pytest
import torch

import backproof
from backproof.battery.check import judge
from backproof.subject import subject_of
from tests.battery.subjects import normal

x = normal(4)


def refusal(target, *arguments, **options):
    with pytest.raises(backproof.BadInput) as caught:
        backproof.check(target, *arguments, **options)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def says(text, *words):
    missing = [word for word in words if word not in text]
    assert not missing, (missing, text)


class TestInputs:
    def test_none_needs_a_gradient(self):
        a, n = normal(3, grad=False), torch.arange(3)
        text = refusal(lambda a, n: a * n, a, n)
        says(text, "<lambda>", "no input needs a gradient", ".requires_grad_()", "`a`")
        assert "`n`" not in text

    def test_there_is_no_tensor_at_all(self):
        text = refusal(lambda a: a, 3.0)
        says(text, "no input needs a gradient", "floating-point tensor")

    def test_there_are_no_arguments_at_all(self):
        says(refusal(lambda: torch.ones(1)), "no input needs a gradient")

    def test_a_module_without_parameters(self):
        text = refusal(torch.nn.Tanh(), normal(3, grad=False))
        says(text, "Tanh", "no input needs a gradient")

    def test_all_are_empty(self):
        text = refusal(lambda a: a, normal(0, 3))
        says(text, "empty", "`a` (0, 3)", "at least one element")

    def test_meta(self):
        text = refusal(lambda a, b: a, x, torch.empty(3, device="meta"))
        says(text, "`b`", "meta", "no values")

    def test_sparse(self):
        sparse = normal(3, 3).detach().to_sparse().requires_grad_()
        text = refusal(lambda a: a.sum(), sparse)
        says(text, "`a`", "sparse", "dense")

    def test_compressed_sparse(self):
        with pytest.warns(UserWarning, match="beta"):
            sparse = normal(3, 3).detach().to_sparse_csr().requires_grad_()
        says(refusal(lambda a: a, sparse), "`a`", "sparse_csr")

    def test_quantised(self):
        whole = torch.ones(3, dtype=torch.uint8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch means to give them up
            quantised = torch._make_per_tensor_quantized_tensor(whole, 0.1, 0)
        text = refusal(lambda a, b: a, x, quantised)
        says(text, "`b`", "quantised", ".dequantize()")

    @pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
    def test_nested(self):
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        text = refusal(lambda a, b: a, x, nested)
        says(text, "`b`", "nested", "list of tensors")

    def test_a_type_that_cannot_be_probed(self):
        tiny = torch.ones(3).to(torch.float8_e4m3fn).requires_grad_()
        text = refusal(lambda a: a, tiny)
        says(text, "`a`", "float8_e4m3fn", "bfloat16", "complex64")

    def test_nothing_is_run(self):
        calls = []

        def forward(a):
            calls.append(a)
            return a

        refusal(forward, normal(3, grad=False))
        refusal(forward, torch.ones(3).to(torch.float8_e4m3fn).requires_grad_())
        assert not calls

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    def test_elements_that_are_not_finite_are_held_fixed(self, value):
        a = torch.tensor([1.0, value, 2.0, 0.5]).double().requires_grad_()
        report = backproof.check(torch.sin, a)
        assert report.verdict == "pass"
        evidence = report.subjects[0].outcome("BP101").evidence[0]
        assert evidence.numbers["share_set_aside"] == 0.25

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_a_fault_beside_them_is_found(self, value):
        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return 3 * a

            @staticmethod
            def backward(ctx, g):
                return 6 * g

        a = torch.tensor([1.0, value, 2.0, 0.5]).double().requires_grad_()
        assert backproof.check(Doubled, a).verdict == "wrong"

    def test_inputs_that_leave_no_finite_output_are_inconclusive(self):
        a = torch.tensor([-1.0, -2.0]).double().requires_grad_()
        report = backproof.check(torch.log, a)
        assert report.verdict == "inconclusive"
        says(report.subjects[0].outcome("BP101").words, "no output is finite")


class TestOutputs:
    def test_forward_instead_of_apply(self):
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return 2 * a.detach()

        text = refusal(lambda a: Twice.forward(None, a), x)
        says(text, "`output`", "no grad_fn", "`apply`", "no_grad", "detaches")

    def test_detached_in_a_container(self):
        text = refusal(lambda a: {"a": a.detach(), "b": (a.detach(),)}, x)
        says(text, "output['a']", "output['b'][0]", "no grad_fn")

    def test_no_tensor_is_returned(self):
        text = refusal(lambda a: (3, "word"), x)
        says(text, "no output can be differentiated", "int", "str")

    def test_nothing_is_returned(self):
        says(refusal(lambda a: None, x), "no output can be differentiated")

    def test_integers_are_returned(self):
        text = refusal(lambda a: a.argsort(), x)
        says(text, "no output can be differentiated", "torch.int64")

    def test_a_sparse_output(self):
        text = refusal(lambda a: a.diag().to_sparse(), x)
        says(text, "`output`", "sparse", ".to_dense()")

    def test_an_empty_output(self):
        text = refusal(lambda a: a[:0], x)
        says(text, "no output can be differentiated", "(0,)")


class TestForward:
    def test_it_raises(self):
        def forward(a):
            raise KeyError("no such mode")

        text = refusal(forward, x)
        says(text, "forward", "raises on the given inputs", "KeyError", "no such mode")
        says(text, "Nothing was checked")

    def test_it_raises_without_a_message(self):
        def forward(a):
            raise NotImplementedError

        says(refusal(forward, x), "raises on the given inputs", "NotImplementedError")

    def test_the_cause_is_kept(self):
        def forward(a):
            raise KeyError("no such mode")

        with pytest.raises(backproof.BadInput) as caught:
            backproof.check(forward, x)
        assert isinstance(caught.value.__cause__, KeyError)

    def test_wrong_arguments(self):
        text = refusal(lambda a, b: a + b, x)
        says(text, "raises on the given inputs", "TypeError", "'b'")

    def test_shapes_that_do_not_fit(self):
        text = refusal(lambda a, b: a @ b, normal(3, 4), normal(3, 4))
        says(text, "raises on the given inputs", "RuntimeError", "3x4")


class TestTargets:
    @pytest.mark.parametrize("target", [3, "tanh", None, torch.ones(2)])
    def test_not_callable(self, target):
        says(refusal(target, x), "cannot check", type(target).__name__, "callable")

    def test_a_module_class_that_needs_arguments(self):
        text = refusal(torch.nn.Linear, x)
        says(text, "Linear", "without", "arguments", "instance")


class TestOptions:
    def test_an_unknown_law(self):
        text = refusal(torch.sin, x, laws={"BP999"})
        says(text, "'BP999'", "BP101", "BP502")

    def test_no_cases(self):
        with pytest.raises(backproof.BadInput, match="sin: there are no inputs"):
            judge(subject_of(torch.sin), [])

    def test_a_declaration_that_raises(self):
        def meant(cotangent, a):
            raise ZeroDivisionError("never")

        text = refusal(lambda a: a.round(), x, expect_backward=meant)
        says(text, "meant", "ZeroDivisionError", "never")

    def test_a_declaration_of_another_length(self):
        def meant(cotangent, a, n):
            return (cotangent,)

        text = refusal(lambda a, n: a * n, x, 2, expect_backward=meant)
        says(text, "returns 1 value", "2 arguments", "None")


class TestCrashes:
    def test_backward_raises(self):
        class Raises(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return 2 * a

            @staticmethod
            def backward(ctx, g):
                raise ArithmeticError("no gradient today")

        report = backproof.check(Raises, x)
        assert report.verdict == "crashed"
        assert report.exit_code() == 1
        assert "ArithmeticError" in str(report)
        assert "no gradient today" in str(report)
        assert len(report.findings) == 1

    def test_backward_is_missing(self):
        class Missing(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return 2 * a

        report = backproof.check(Missing, x)
        assert report.verdict == "crashed"
        assert "backward" in str(report)
