"""Nothing of the caller's is changed, and calls get what the caller would give.

The first under all laws, whatever they move and put back; the second under those that
look at the case as it is.
"""

import gc
import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import backproof
from backproof.battery.laws import LAWS
from tests.battery.referee import REFEREE
from tests.battery.subjects import Watched, normal


def states():
    """Everything global that a check could leave different."""
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        [np.asarray(part).tolist() for part in np.random.get_state()],
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_num_threads(),
        torch.is_autocast_enabled("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.is_anomaly_enabled(),
        gc.isenabled(),
        gc.get_threshold(),
        warnings.filters[:],
    )


def consuming(x):
    """Draws from every global generator."""
    scale = random.random() + np.random.rand()
    return nn.functional.dropout(x, 0.5) * scale


class RaisesInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch.rand(3)
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        torch.rand(3)
        raise ArithmeticError("no gradient today")


def raises_in_forward(x):
    torch.rand(3), random.random(), np.random.rand()
    raise ArithmeticError("no value today")


def raises_elsewhere(x):
    """Forward's domain ends beside the case."""
    torch.rand(3)
    if float(x.detach()[0]) != 1.0:
        raise ArithmeticError("only at one")
    return x * x


class TestGlobalState:
    @pytest.mark.parametrize(
        "subject", [consuming, RaisesInBackward, raises_elsewhere, torch.tanh]
    )
    def test_is_as_before(self, subject):
        before = states()
        backproof.check(subject, torch.ones(4, dtype=torch.float64).requires_grad_())
        assert states() == before

    def test_is_as_before_when_nothing_could_be_checked(self):
        before = states()
        with pytest.raises(backproof.BadInput):
            backproof.check(raises_in_forward, normal(4))
        assert states() == before

    def test_is_as_before_when_interrupted(self):
        class Interrupted(BaseException):
            pass

        def forward(x):
            torch.rand(3)
            raise Interrupted

        before = states()
        with pytest.raises(Interrupted):
            backproof.check(forward, normal(4))
        assert states() == before

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_grad_mode_does_not_matter_and_stays(self, mode):
        x = normal(10)
        with mode():
            before = states()
            report = backproof.check(torch.tanh, x)
            assert states() == before
        assert report.verdict == "pass"

    def test_what_forward_sets_is_set_back(self):
        def forward(x):
            torch.set_default_dtype(torch.float64)
            torch.use_deterministic_algorithms(True)
            torch.manual_seed(5)
            return torch.tanh(x)

        before = states()
        report = backproof.check(forward, normal(6))
        assert {f.code for f in report.findings} == {"BP602"}
        assert states() == before

    @pytest.mark.parametrize("on", [True, False])
    def test_garbage_is_collected_as_before(self, on):
        was = gc.isenabled()
        try:
            (gc.enable if on else gc.disable)()
            backproof.check(torch.tanh, normal(6))
            assert gc.isenabled() is on
        finally:
            (gc.enable if was else gc.disable)()

    def test_what_a_subject_leaves_on_is_put_back(self):
        class Careless(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                torch.set_num_threads(torch.get_num_threads() + 1)
                return 2 * x

            @staticmethod
            def backward(ctx, g):
                torch.set_default_dtype(torch.float64)
                return 2 * g

        before = states()
        report = backproof.check(Careless, normal(6))
        assert {f.code for f in report.findings} == {"BP602"}
        assert states() == before

    def test_default_dtype_stays(self):
        torch.set_default_dtype(torch.float64)
        try:
            assert backproof.check(torch.tanh, normal(10)).verdict == "pass"
            assert torch.get_default_dtype() == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


class TestTheCallersTensors:
    def test_values_versions_and_grad_are_as_before(self):
        x, w = normal(6, 5), normal(5, seed=1)
        other = normal(6, 5, grad=False, seed=2)
        grad = torch.full_like(x, 7.0)
        x.grad = grad
        kept = [(t, t.detach().clone(), t._version) for t in (x, w, other, grad)]

        def forward(x, w, other):
            other.add_(1)  # of its own copy
            return torch.tanh(x * w + other)

        report = backproof.check(forward, x, w, other)
        assert [f.code for f in report.findings] == ["BP201"]
        for tensor, values, version in kept:
            assert torch.equal(tensor.detach(), values)
            assert tensor._version == version
        assert x.grad is grad
        assert w.grad is None

    def test_forward_never_gets_the_callers_own_storage(self):
        x, other = normal(6, 5), normal(5, grad=False, seed=2)
        seen = Watched(lambda x, other: x * other)
        backproof.check(seen, x, other)
        assert len(seen.calls) > 10
        pointers = {x.data_ptr(), other.data_ptr()}
        for arguments in seen.calls:
            assert not pointers & {t.data_ptr() for t in arguments}

    def test_an_inplace_forward_writes_to_a_copy_each_time(self):
        x = normal(6)
        kept = x.detach().clone()

        class Tripled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(3)

            @staticmethod
            def backward(ctx, g):
                return 3 * g

        assert backproof.check(Tripled, x).verdict == "pass"
        assert torch.equal(x.detach(), kept)

    def test_a_backward_that_writes_to_its_cotangent_is_given_a_copy(self):
        class Scribbles(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, g):
                return g.mul_(2)

        x = normal(9)
        assert backproof.check(Scribbles, x, laws=REFEREE).verdict == "pass"
        findings = backproof.check(Scribbles, x).findings
        # An expanded cotangent cannot be written to at all, which BP503 sees.
        assert {f.code for f in findings} == {"BP202", "BP503"}

    def test_containers_are_not_the_callers(self):
        parts = [normal(3), normal(4, seed=1)]
        kept = list(parts)

        def forward(parts):
            y = torch.cat(parts).sin()
            parts.clear()
            return y

        assert backproof.check(forward, parts).verdict == "pass"
        assert parts == kept

    def test_a_graph_behind_an_input_is_left_alone(self):
        leaf = normal(5)
        x = leaf * 2
        assert backproof.check(torch.sin, x).verdict == "pass"
        assert leaf.grad is None
        x.sum().backward()
        assert torch.equal(leaf.grad, torch.full_like(leaf, 2.0))


captured = normal(4, seed=7)
SETTINGS = {"slope": 0.3}


class Reaches(torch.autograd.Function):
    """Reads a tensor and a setting that it was not handed."""

    @staticmethod
    def forward(ctx, x):
        return x * captured * SETTINGS["slope"]

    @staticmethod
    def backward(ctx, g):
        return g * captured * SETTINGS["slope"]


class Raising(Reaches):
    """The same, which raises where the captured tensor is not what it was."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        if not torch.equal(captured, normal(4, seed=7)):
            Raising.calls += 1
            raise ArithmeticError("moved")
        return Reaches.forward(ctx, x)


class TestWhatIsReached:
    def test_it_is_moved_and_put_back(self):
        kept, version = captured.detach().clone(), captured._version
        report = backproof.check(Reaches, normal(4))
        assert {f.code for f in report.findings} == {"BP205", "BP208"}
        assert torch.equal(captured.detach(), kept)
        assert captured._version == version
        assert captured.grad is None
        assert SETTINGS == {"slope": 0.3}

    def test_also_when_the_subject_raises_meanwhile(self):
        kept = captured.detach().clone()
        backproof.check(Raising, normal(4))
        assert Raising.calls == 1
        assert torch.equal(captured.detach(), kept)
        assert SETTINGS == {"slope": 0.3}

    def test_a_hook_on_an_input_is_left_alone(self):
        x, told = normal(4), []
        handle = x.register_hook(told.append)
        assert backproof.check(torch.sin, x).verdict == "pass"
        assert not told
        x.sum().backward()
        assert len(told) == 1
        handle.remove()


LAYOUTS = {
    "transposed": lambda: normal(6, 5).detach().mT,
    "every second": lambda: normal(12).detach()[::2],
    "with an offset": lambda: normal(12).detach()[5:],
    "a column": lambda: normal(6, 5).detach()[:, 2],
    "channels last": lambda: (
        normal(2, 3, 4, 5).detach().to(memory_format=torch.channels_last)
    ),
}


class TestLayouts:
    @pytest.mark.parametrize("made", LAYOUTS.values(), ids=LAYOUTS)
    @pytest.mark.parametrize("grad", [True, False], ids=["input", "other"])
    def test_strides_and_offset_are_the_callers(self, made, grad):
        tensor = made()
        first = tensor.requires_grad_() if grad else normal(3)
        seen = Watched(lambda a, b: (a * a).sum() + (b * b).sum())
        other = normal(3, grad=False) if grad else tensor
        backproof.check(seen, first, other, laws=REFEREE)
        at = 0 if grad else 1
        layouts = {(c[at].stride(), c[at].storage_offset()) for c in seen.calls}
        assert layouts == {(tensor.stride(), tensor.storage_offset())}

    @pytest.mark.parametrize("made", LAYOUTS.values(), ids=LAYOUTS)
    def test_values_are_the_same_in_any_layout(self, made):
        tensor = made()
        seen = Watched(torch.sin)
        assert backproof.check(seen, tensor.requires_grad_()).verdict == "pass"
        assert torch.equal(seen.calls[0][0].detach(), tensor.detach())

    def test_an_expanded_input_is_an_input_of_its_own_elements(self):
        x = normal(5).detach().expand(4, 5).requires_grad_()
        report = backproof.check(torch.tanh, x)
        assert report.verdict == "pass"

    def test_an_expanded_other_stays_expanded(self):
        other = normal(5, grad=False).expand(4, 5)
        seen = Watched(lambda x, other: x * other)
        report = backproof.check(seen, normal(4, 5), other, laws=REFEREE)
        assert report.verdict == "pass"
        assert {c[1].stride() for c in seen.calls} == {(0, 1)}

    def test_conjugate_and_negative_views_stay_so(self):
        z = torch.randn(4, dtype=torch.complex128)
        seen = Watched(lambda x, conjugate, negative: x * conjugate.real * negative)
        arguments = normal(4), z.conj(), z.conj().imag
        assert backproof.check(seen, *arguments, laws=REFEREE).verdict == "pass"
        assert all(c[1].is_conj() for c in seen.calls)
        assert all(c[2].is_neg() for c in seen.calls)
        assert torch.equal(seen.calls[-1][2], z.conj().imag)


class TestModules:
    def test_buffers_parameters_and_mode_are_as_before(self):
        torch.manual_seed(0)
        layer = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh()).double()
        kept = {k: v.clone() for k, v in layer.state_dict().items()}
        versions = [p._version for p in layer.parameters()]
        report = backproof.check(layer, normal(12, 5))
        assert report.verdict == "pass"
        assert all(torch.equal(kept[k], v) for k, v in layer.state_dict().items())
        assert [p._version for p in layer.parameters()] == versions
        assert all(p.grad is None for p in layer.parameters())
        assert layer.training
        assert int(layer[1].num_batches_tracked) == 0

    def test_every_call_starts_from_the_same_buffers(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(()))
                self.seen = []

            def forward(self, x):
                self.seen.append(float(self.calls))
                self.calls += 1
                return x * self.calls

        module = Counting().double()
        # BP204 alone lets buffers run on, as copies, to see what calls share.
        asked = {law.code for law in LAWS} - {"BP204"}
        assert backproof.check(module, normal(4), laws=asked).verdict == "pass"
        assert set(module.seen) == {0.0}
        assert backproof.check(module, normal(4), laws={"BP204"}).verdict == "pass"
        assert set(module.seen) > {0.0}
        assert float(module.calls) == 0

    def test_hooks_and_submodules_stay(self):
        layer = nn.Sequential(nn.Linear(5, 4), nn.Tanh()).double()
        told = []
        handle = layer[0].register_forward_hook(lambda *_: told.append(1))
        kept = dict(layer[0]._forward_hooks)
        assert backproof.check(layer, normal(12, 5)).verdict == "pass"
        assert told
        assert dict(layer[0]._forward_hooks) == kept
        handle.remove()
        assert not layer[0]._forward_hooks
