"""Where tensors become arrays: what is handed over, what is checked, and in which words."""

import numpy as np
import pytest
import torch

import backproof
from backproof.errors import BadInput

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16


def kernel(forward=np.sin, backward=lambda g, x: g * np.cos(x), **options):
    options = {"elementwise": True, "name": "sine", **options}
    return backproof.external(forward, backward, **options)


def leaf(dtype=F64):
    return torch.linspace(0.1, 2, 6, dtype=F64).reshape(2, 3).to(dtype).requires_grad_()


def run(op, x):
    op(x).sum().backward()
    return x.grad


BROKEN = {
    "a type that NumPy lacks": (
        lambda: run(kernel(), leaf(BF16)),
        r"^sine: \w+ is bfloat16, which NumPy lacks; convert it with `\w+\.float\(\)`",
    ),
    "a type that was not declared": (
        lambda: run(kernel(lambda x: x, dtypes=(F64,)), leaf(F32)),
        r"^sine: x is float32, and only float64 was declared; convert .*`x.to\(torch.f",
    ),
    "an output of another type": (
        lambda: run(kernel(lambda x: np.sin(x).astype(np.float32)), leaf()),
        r"^sine: output is float32 where float64 was promised.*result\.astype\(np\.floa",
    ),
    "a Python number for float32": (
        lambda: run(kernel(lambda x: float(np.sin(x).sum())), leaf(F32)),
        r"^sine: output is float64 where float32 was promised",
    ),
    "an output that is no array": (
        lambda: run(kernel(lambda x: {"y": x}), leaf()),
        r"^sine: output is a dict, not an array",
    ),
    "a tensor for an array": (
        lambda: run(kernel(lambda x: torch.from_numpy(x.copy())), leaf()),
        r"^sine: output is a Tensor, not an array",
    ),
    "an array for a tensor": (
        lambda: run(kernel(lambda x: x.numpy(), takes="torch"), leaf()),
        r"^sine: output is a ndarray, not a tensor",
    ),
    "another device": (
        lambda: run(kernel(lambda x: x.to("meta"), takes="torch"), leaf()),
        r"^sine: output is on meta, the inputs are on cpu",
    ),
    "one output too many": (
        lambda: run(kernel(lambda x: (x, x), elementwise=False), leaf()),
        r"^sine: 2 outputs came back and 1 was declared; write `outputs=2`",
    ),
    "one output too few": (
        lambda: kernel(outputs=2, elementwise=False)(leaf()),
        r"^sine: 1 outputs came back and 2 was declared; write `outputs=1`",
    ),
    "a gradient of another shape": (
        lambda: run(kernel(backward=lambda g, x: g[:1]), leaf()),
        r"^sine: the gradient of \w+ has shape \(1, 3\), and the input has \(2, 3\)",
    ),
    "a gradient of another type": (
        lambda: run(kernel(backward=lambda g, x: g.astype(np.float32)), leaf()),
        r"^sine: the gradient of \w+ is float32 where float64 was promised",
    ),
    "a gradient too many": (
        lambda: run(kernel(backward=lambda g, x: (g, g, g)), leaf()),
        r"^sine: backward returned 3 gradients for 1 inputs",
    ),
}


@pytest.mark.parametrize(("call", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_promise_is_named(call, says):
    with pytest.raises(BadInput, match=says):
        call()


@pytest.mark.parametrize(("call", "says"), BROKEN.values(), ids=BROKEN.keys())
def test_under_vmap_too(call, says, monkeypatch):
    plain = backproof.External.__call__
    monkeypatch.setattr(
        backproof.External,
        "__call__",
        lambda op, x: torch.vmap(lambda x: plain(op, x))(x),
    )
    with pytest.raises(BadInput, match=says.split(" has shape")[0]):
        call()


ARRAYS = {
    "negative strides": lambda x: np.sin(x[::-1])[::-1],
    "read-only": lambda x: np.broadcast_to(np.sin(x), x.shape),
    "Fortran order": lambda x: np.asfortranarray(np.sin(x)),
    "a view of more": lambda x: np.stack([np.sin(x), x], axis=-1)[..., 0],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("forward", ARRAYS.values(), ids=ARRAYS.keys())
def test_any_array_may_come_back(forward):
    x = leaf()
    op = kernel(forward, lambda g, x: forward(g) * 0 + g * np.cos(x))
    assert torch.equal(op(x), x.sin())
    torch.testing.assert_close(run(op, x), x.cos())
    torch.testing.assert_close(torch.vmap(op)(x.detach()), x.detach().sin())


@pytest.mark.parametrize("contiguous", [True, False], ids=["asked", "not asked"])
def test_memory_is_as_it_was_asked_for(contiguous):
    seen = []

    def forward(x):
        seen.append(x.flags.c_contiguous)
        return np.sin(x)

    def backward(g, x):
        seen.extend([g.flags.c_contiguous, x.flags.c_contiguous])
        return g * np.cos(x)

    x = leaf()
    y = kernel(forward, backward, contiguous=contiguous)(x.t())
    y.backward(torch.ones((), dtype=F64).expand(3, 2))
    assert seen == [contiguous] * 3
    torch.testing.assert_close(x.grad, x.cos())


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8], ids=str)
def test_integers_go_in_and_have_no_gradient(dtype):
    index = torch.tensor([1, 0, 1]).to(dtype)
    op = backproof.external(
        lambda x, index: x * index, lambda g, x, index: (g * index, None)
    )
    shorter = backproof.external(
        lambda x, index: x * index, lambda g, x, index: g * index
    )
    for one in (op, shorter):
        x = torch.ones(3, dtype=F64, requires_grad=True)
        one(x, index).sum().backward()
        assert x.grad.tolist() == [1, 0, 1]


def test_integers_come_out():
    op = backproof.external(
        lambda x: (np.sin(x), np.argsort(x)),
        lambda g, _, x: g * np.cos(x),
        outputs=2,
        fake=lambda x: (torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)),
    )
    x = torch.tensor([2.0, 0.5, 1.0], dtype=F64, requires_grad=True)
    y, order = op(x)
    assert order.tolist() == [1, 2, 0]
    assert not order.requires_grad
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], x.cos())
    jacobian = torch.func.jacrev(lambda x: op(x)[0])(x.detach())
    torch.testing.assert_close(jacobian, x.detach().cos().diag())


def test_a_scalar_is_a_tensor_without_dimensions():
    op = kernel(np.sum, lambda g, x: g * np.ones_like(x), elementwise=False)
    x = leaf()
    assert op(x).shape == ()
    assert torch.equal(run(op, x), torch.ones_like(x))


def test_complex_conjugates_are_what_they_mean():
    z = torch.complex(leaf().detach(), leaf().detach())
    op = kernel(lambda z: z * 2, lambda g, z: g * 2)
    assert torch.equal(op(z.conj()), 2 * z.conj().resolve_conj())
    assert torch.equal(op(z.conj().imag), -2 * z.imag)


def test_what_the_kernel_returns_is_not_the_memory_of_its_input():
    op = kernel(lambda x: x, lambda g, x: g)
    x = leaf().detach()
    op(x).mul_(2)
    assert torch.equal(x, leaf())
    torch.vmap(op)(x).mul_(2)
    assert torch.equal(x, leaf())


def test_a_kernel_cannot_write_into_what_it_is_given():
    def doubled(x):
        x *= 2
        return x

    x = leaf().detach()
    try:
        kernel(doubled, lambda g, x: 2 * g)(x)
    except ValueError as error:
        assert "read-only" in str(error)  # noqa: PT017
    assert torch.equal(x, leaf())
