"""Programs made from an op keep its rule, on new data, at other sizes, in a new process."""

import copy
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch

from backproof.errors import Undeclared
from tests.definition.argument_gates import GATES, WithNumber
from tests.definition.contexts import compare, numbers
from tests.definition.gates import READS, InContext, Several, reference
from tests.definition.traced_contexts import (
    COMPILED,
    EXPORTED,
    TRACED,
    Module,
    compiled,
    exported,
    trained,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
]
CONTEXTS = {**TRACED, **COMPILED, **EXPORTED}

# One gate for each thing that a compiler handles in its own way.
COMPILED_GATES = ("setup_context", "several outputs", "in place")
EXPORTED_GATES = (*COMPILED_GATES, "dict and keywords", "own vmap", "tensors on ctx")
MAPPED_GATES = (*COMPILED_GATES, "saved intermediate", "own jvp and vmap", "list")
REFUSED_BY_TORCH = {  # a node of fx holds no builtin function and no dataclass
    ("callable", "fx symbolic trace"),
    ("several outputs", "fx symbolic trace"),  # and one that is not there is no tuple
}
CELLS = [
    *[
        (gate, name)
        for gate in GATES
        for name in TRACED
        if (gate, name) not in REFUSED_BY_TORCH
        and (name != "make fx of transforms" or gate in MAPPED_GATES)
    ],
    *[(gate, name) for gate in COMPILED_GATES for name in COMPILED],
    *[(gate, name) for gate in EXPORTED_GATES for name in EXPORTED],
]


@pytest.fixture(scope="module")
def expected():
    return {}


@pytest.mark.parametrize(
    ("gate", "name"), CELLS, ids=[f"{gate}-{name}" for gate, name in CELLS]
)
def test_it_is_right(gate, name, expected):
    if name not in expected:
        expected[name] = CONTEXTS[name](reference)
    compare(CONTEXTS[name](GATES[gate]), expected[name])


OTHERS = [gate for gate in GATES if gate not in COMPILED_GATES]


@pytest.mark.parametrize("gate", OTHERS, ids=str)
def test_every_gate_compiles(gate):
    program = compiled(lambda x, w: GATES[gate](x, w).sin())
    compare(trained(program), trained(lambda x, w: reference(x, w).sin()))


@pytest.mark.parametrize("gate", ["callable", "dataclass"], ids=str)
def test_what_cannot_be_written_down_is_not_exported(gate):
    with pytest.raises(Undeclared, match=r"^With\w+: an argument that is no"):
        exported(GATES[gate], strict=False)


@pytest.mark.parametrize(
    "name", ["fake tensors", "make fx of symbolic sizes", "export non strict"], ids=str
)
def test_a_value_that_is_not_there_is_not_invented(name):
    with pytest.raises(Exception, match=r"(?i)data.dependent|_local_scalar_dense"):
        CONTEXTS[name](READS["reads a value"])


def test_outputs_without_a_derivative_have_none_in_compiled_code():
    x, w = (tensor.requires_grad_() for tensor in numbers())
    _, index, none, signs, _ = compiled(Several.apply)(x, w)
    assert none is None
    assert index.dtype == torch.long
    assert not signs.requires_grad


def test_a_tangent_inside_of_compiled_code():
    import torch.autograd.forward_ad as forward_ad

    def step(op):
        def run(x, w):
            with forward_ad.dual_level():
                y = op(forward_ad.make_dual(x, x.exp()), w)
                return tuple(forward_ad.unpack_dual(y))

        return run

    x, w = numbers()
    compare(compiled(step(InContext.apply))(x, w), step(reference)(x, w))


def test_other_numbers_in_the_call_are_other_programs():
    program = compiled(lambda x, k: WithNumber.apply(x, k) + WithNumber.apply(x, 2 * k))
    x, _ = numbers()
    for k in (2.0, 3, -0.5, 7):
        x = x.detach().requires_grad_()
        found = torch.autograd.grad(program(x, k).sum(), x)
        compare(found, [6 * k * x])


def test_saved_programs_run_where_only_the_module_is_imported(tmp_path):
    wanted = trained(lambda x, w: reference(x, w).sin())
    torch.save([tensor.detach() for tensor in wanted], tmp_path / "wanted")
    for gate in ("saved intermediate", "dict and keywords"):
        torch.export.save(exported(GATES[gate], strict=True), tmp_path / f"{gate}.pt2")
        traced = torch.jit.trace(Module(GATES[gate]), numbers(), check_trace=False)
        traced.save(tmp_path / f"{gate}.jit")
    script = """
        import pathlib, sys, torch
        import tests.definition.argument_gates
        from tests.definition.contexts import compare
        from tests.definition.traced_contexts import trained

        folder = pathlib.Path(sys.argv[1])
        wanted = torch.load(folder / "wanted")
        programs = [torch.export.load(f).module() for f in folder.glob("*.pt2")]
        programs += [torch.jit.load(f) for f in folder.glob("*.jit")]
        assert len(programs) == 4
        for program in programs:
            compare(trained(program), wanted)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(numbers()[1])
        self.function = InContext
        self.apply_it = InContext.apply

    def forward(self, x):
        return self.apply_it(x, self.weight) + self.function.apply(x, self.weight)


@pytest.mark.parametrize(
    "again",
    [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],
    ids=["deepcopy", "pickle"],
)
def test_a_module_that_holds_one_is_copied(again):
    module = again(Holder())
    x, w = numbers()
    w.requires_grad_()
    module(x).sin().sum().backward()
    expected = torch.autograd.grad((2 * reference(x, w)).sin().sum(), w)
    compare([module.weight.grad], expected)
