"""A kernel that torch cannot see is right wherever its declarations reach."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import backproof
from backproof.errors import NoDerivative, Undeclared
from tests.definition import contexts, func_contexts, traced_contexts
from tests.definition.contexts import compare, numbers
from tests.definition.gates import reference
from tests.definition.kernels import FIRST_ORDER, SECOND_ORDER, backward, forward, push

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
]
CALLED = {**contexts.EAGER, **func_contexts.FUNC, **traced_contexts.TRACED}
_ONCE = {
    "make fx of forward",
    "make fx of backward",
    "make fx of symbolic sizes",
    "fake tensors",
    "meta tensors",
    "jit trace",
    "jit trace save load",
    "fx symbolic trace",
}
SECOND = [n for n in CALLED if n not in contexts.FIRST_ORDER and n not in _ONCE]
KERNELS = {**FIRST_ORDER, **SECOND_ORDER}
TRACED_KERNELS = ("elementwise and second_order", "with outputs")
CELLS = [
    (kernel, name)
    for kernel in KERNELS
    for name in CALLED
    if (name not in SECOND or kernel in SECOND_ORDER)
    and (name not in traced_contexts.TRACED or kernel in TRACED_KERNELS)
]
TRACES = [
    "compile dynamic",
    "compile of transforms",
    "compile of a checkpoint",
    "compiled autograd",
    *traced_contexts.EXPORTED,
]


@pytest.fixture(scope="module")
def expected():
    return {}


@pytest.mark.parametrize(
    ("kernel", "name"), CELLS, ids=[f"{kernel}-{name}" for kernel, name in CELLS]
)
def test_it_is_right(kernel, name, expected):
    if name not in expected:
        expected[name] = CALLED[name](reference)
    compare(CALLED[name](KERNELS[kernel]), expected[name])


@pytest.mark.parametrize("name", TRACES, ids=str)
def test_compiled_and_exported_programs_are_right(name):
    run = {**traced_contexts.COMPILED, **traced_contexts.EXPORTED}[name]
    compare(run(SECOND_ORDER["second_order"]), run(reference))


@pytest.mark.parametrize("name", SECOND, ids=str)
@pytest.mark.parametrize("kernel", FIRST_ORDER, ids=str)
def test_a_second_derivative_is_refused_by_name(kernel, name):
    of = rf"^{FIRST_ORDER[kernel].__name__}: .*declare `external\(\.\.\., second_order="
    with pytest.raises(NoDerivative, match=of):
        CALLED[name](FIRST_ORDER[kernel])


# ------------------------------------------------------------- what was not declared

bare = backproof.external(forward, backward, name="bare")
x, w = numbers()


@pytest.mark.parametrize(
    ("run", "error", "says"),
    [
        (func_contexts.func_jvp, NoDerivative, r"^bare: .*external\(\.\.\., jvp="),
        (contexts.dual_numbers, NoDerivative, r"^bare: .*external\(\.\.\., jvp="),
        (traced_contexts.meta_tensors, Undeclared, r"^bare: .*external\(\.\.\., fake="),
        (traced_contexts.fake_tensors, Undeclared, r"^bare: .*external\(\.\.\., fake="),
        (traced_contexts.export_strict, Exception, r"bare: .*external\(\.\.\., fake="),
        (traced_contexts.compile_dynamic, Exception, r"bare: .*\(\.\.\., fake="),
    ],
    ids=["jvp", "dual", "meta", "fake", "export", "compile"],
)
def test_what_is_missing_is_named(run, error, says):
    with pytest.raises(error, match=says):
        run(bare)


def test_a_backward_is_what_it_is_for():
    with pytest.raises(backproof.BadInput, match="external needs `backward`"):
        backproof.external(forward)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"vmap": "wide"}, "vmap='wide' is none of 'loop', 'broadcast' and a rule"),
        ({"takes": "jax"}, "takes='jax' is neither 'numpy' nor 'torch'"),
        ({"outputs": 0}, "outputs=0 is no number of tensors"),
    ],
    ids=["vmap", "takes", "outputs"],
)
def test_a_declaration_that_means_nothing(options, says):
    with pytest.raises(backproof.BadInput, match=says):
        backproof.external(forward, backward, **options)


# ------------------------------------------------------------------------- as a value


@backproof.external(backward=backward, jvp=push, elementwise=True)
def decorated(x, w):
    """A gate."""
    return forward(x, w)


def test_a_decorator_leaves_a_function_that_looks_like_its_own():
    assert decorated.__name__ == "decorated"
    assert decorated.__doc__ == "A gate."
    compare(func_contexts.func_grad(decorated), func_contexts.func_grad(reference))
    y = decorated(x.clone().requires_grad_(), w=w)
    assert y.grad_fn.name() == "decoratedBackward"


@pytest.mark.parametrize(
    "again",
    [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))],
    ids=["deepcopy", "pickle"],
)
def test_it_is_one_object_wherever_it_is_copied(again):
    module = torch.nn.Module()
    module.kernel = decorated
    assert again(module).kernel is decorated


def test_keywords_and_values_that_are_no_tensors():
    kernel = backproof.external(
        lambda x, scale, mode="down": x * scale if mode == "up" else x,
        lambda g, x, scale, mode: g * scale,
        fake=lambda x, scale, mode: torch.empty_like(x),
    )
    for call in (
        lambda v: kernel(v, 3.0, "up"),
        lambda v: kernel(v, mode="up", scale=3),
    ):
        v = x.clone().requires_grad_()
        call(v).sum().backward()
        assert torch.equal(v.grad, torch.full_like(x, 3))
        batched = torch.vmap(torch.func.grad(lambda v, call=call: call(v).sum()))(x)
        assert torch.equal(batched, torch.full_like(x, 3))


def test_threads_do_not_meet():
    kernel = SECOND_ORDER["second_order"]

    def work(f, k):
        return contexts.double_backward(lambda x, w: f(x * k, w))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: work(kernel, k), [*range(1, 5)] * 3))
    for k, one in zip([*range(1, 5)] * 3, found, strict=True):
        compare(one, work(reference, k))


def test_gradients_are_summed_over_what_forward_broadcast():
    kernel = backproof.external(np.multiply, lambda g, x, w: (g * w, g * x))
    one = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    other = torch.full((4, 1), 2.0, dtype=torch.float64, requires_grad=True)
    kernel(one, other).sum().backward()
    assert one.grad.tolist() == [[8.0] * 3]
    assert other.grad.tolist() == [[3.0]] * 4


def test_only_what_needs_a_gradient_is_recorded():
    assert not decorated(x, w).requires_grad
    with torch.no_grad():
        assert not decorated(x.clone().requires_grad_(), w).requires_grad
