"""Every style of a Function is right in every way of calling it, or refused by name."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from backproof.errors import NoDerivative
from tests.definition.argument_gates import GATES
from tests.definition.contexts import EAGER, FIRST_ORDER, compare, numbers
from tests.definition.func_contexts import FUNC
from tests.definition.gates import ONCE, READS, reference

CONTEXTS = {**EAGER, **FUNC}
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning"),
]

# What a gate cannot do there, and must say: forward made a tensor from an input that it
# then changed, a vmap writes a batch into what has none, or a transform inside of a vmap
# sees a number of one entry.
REFUSED = {
    ("in place", "double backward"): NoDerivative,
    ("in place", "third order"): NoDerivative,
    ("in place", "batched double backward"): NoDerivative,
    ("in place", "functional hessian"): NoDerivative,
    ("in place", "checkpoint twice"): NoDerivative,
    ("in place", "saved on cpu"): NoDerivative,
    ("in place", "vmap over weights"): RuntimeError,
    ("reads a value", "vmap of grad"): NoDerivative,
    ("reads a value", "vmap of jvp"): NoDerivative,
    ("reads a value", "vmap of hessian"): NoDerivative,
    ("reads a value", "grad of vmap of grad"): NoDerivative,
}
NOT_OF_TORCH = {  # torch multiplies no batch of none by a number with a batch
    ("constants", "vmap of grad of one and of none"),
}
CELLS = [
    (gate, name)
    for gate in (*GATES, *READS, *ONCE)
    for name in CONTEXTS
    if (gate, name) not in NOT_OF_TORCH
    and not (gate in ONCE and name not in FIRST_ORDER)
]


@pytest.fixture(scope="module")
def expected():
    return {}


@pytest.mark.parametrize(
    ("gate", "name"), CELLS, ids=[f"{gate}-{name}" for gate, name in CELLS]
)
def test_it_is_right_or_refused(gate, name, expected):
    run, op = CONTEXTS[name], {**GATES, **READS, **ONCE}[gate]
    if name not in expected:
        expected[name] = run(reference)
    refusal = REFUSED.get((gate, name))
    if refusal is not None:
        with pytest.raises(refusal, match=r"in ?place|is gone|from entry to entry"):
            run(op)
        return
    compare(run(op), expected[name])


THREADED = [  # not forward mode, whose levels torch shares between threads
    cell
    for cell in CELLS
    if cell[1] in ("double backward", "jacrev of jacrev", "vmap of grad")
    and cell not in REFUSED
]


@pytest.mark.parametrize(
    ("gate", "name"), THREADED, ids=[f"{gate}-{name}" for gate, name in THREADED]
)
def test_threads_do_not_meet(gate, name):
    op = {**GATES, **READS, **ONCE}[gate]
    scales = [1.0, 2.0, 3.0, 4.0]
    expected = [CONTEXTS[name](scaled(reference, scale)) for scale in scales]
    together = threading.Barrier(len(scales))

    def work(scale):
        together.wait()
        return [CONTEXTS[name](scaled(op, scale)) for _ in range(3)]

    with ThreadPoolExecutor(len(scales)) as pool:
        found = list(pool.map(work, scales))
    for results, wanted in zip(found, expected, strict=True):
        for result in results:
            compare(result, wanted)


def scaled(op, scale):
    return lambda x, w: op(x * scale, w)


@pytest.mark.parametrize("gate", [*GATES, *READS], ids=str)
def test_calls_that_overlap_keep_their_own_ctx(gate):
    op = {**GATES, **READS}[gate]
    found, wanted = [], []
    for made, f in ((found, op), (wanted, reference)):
        x, w = (tensor.requires_grad_() for tensor in numbers())
        first, second = f(x, w), f(x[:2] * 3, w)
        for y in (second, first):
            made.extend(torch.autograd.grad(y.sin().sum(), (x, w)))
    compare(found, wanted)
