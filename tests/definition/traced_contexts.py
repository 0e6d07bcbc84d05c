"""Programs that are made from an op, and then run, also on other data and sizes."""

import io

import torch
from torch._subclasses import FakeTensorMode
from torch.func import grad, hessian, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

from tests.definition.contexts import context, numbers, scalar

TRACED, COMPILED, EXPORTED = {}, {}, {}


def trained(program, rows=4):
    """Values and gradients, on other numbers than those that it was made with."""
    x, w = numbers()
    x = torch.cat([x, x.cos()])[:rows].exp().requires_grad_()
    w = (w * 1.25).requires_grad_()
    y = program(x, w)
    return [y, *torch.autograd.grad(y.exp().sum(), (x, w))]


def sizes(program):
    return [tensor for rows in (4, 6) for tensor in trained(program, rows)]


class Module(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, x, w):
        return self.op(x, w).sin()


def leaves():
    return tuple(tensor.requires_grad_() for tensor in numbers())


def compiled(function, **options):
    torch._dynamo.reset()
    options = {"backend": "aot_eager", "fullgraph": True, **options}
    return torch.compile(function, **options)


def forward_and_backward(op):
    def step(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = op(x, w)
        return (y, *torch.autograd.grad(y.sin().sum(), (x, w), create_graph=True))

    return step


def detached(made):
    return [tensor.detach() for tensor in made]


# -------------------------------------------------------------------------- tracers


@context(TRACED)
def make_fx_of_forward(op):
    return trained(make_fx(lambda x, w: op(x, w).sin())(*numbers()))


@context(TRACED)
def make_fx_of_backward(op):
    x, w = numbers()
    traced = make_fx(forward_and_backward(op))(x, w)
    return detached(traced(x.exp(), w * 2))


@context(TRACED)
def make_fx_of_symbolic_sizes(op):
    x, w = numbers()
    traced = make_fx(forward_and_backward(op), tracing_mode="symbolic")(x, w)
    return detached(traced(torch.cat([x, x.exp()]), w * 2))


@context(TRACED)
def make_fx_of_double_backward(op):
    def step(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        first = torch.autograd.grad(op(x, w).sin().sum(), (x, w), create_graph=True)
        total = (first[0] ** 2).sum() + (first[1] * first[0].sum(0)).sum()
        return torch.autograd.grad(total, (x, w))

    x, w = numbers()
    return detached(make_fx(step)(x, w)(x.exp(), w * 2))


@context(TRACED)
def make_fx_of_transforms(op):
    x, w = numbers()
    steps = [
        vmap(grad(scalar(op), argnums=(0, 1)), (0, None)),
        vmap(hessian(scalar(op)), (0, None)),
        lambda x, w: jvp(op, (x, w), (x.cos(), w.exp())),
    ]
    made = []
    for step in steps:
        result = make_fx(step)(x, w)(x.exp(), w * 2)
        made.extend(result if isinstance(result, (tuple, list)) else [result])
    return made


@context(TRACED)
def fake_tensors(op):
    mode = FakeTensorMode()
    x, w = (mode.from_tensor(tensor) for tensor in leaves())
    with mode:
        y = op(x, w)
        made = [y, *torch.autograd.grad(y.sum(), (x, w))]
    return [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in made]


@context(TRACED)
def meta_tensors(op):
    x, w = (t.to("meta").requires_grad_() for t in numbers())
    y = op(x, w)
    made = [y, *torch.autograd.grad(y.sum(), (x, w))]
    assert all(tensor.is_meta for tensor in made)
    return [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in made]


@context(TRACED)
def jit_trace(op):
    traced = torch.jit.trace(Module(op), numbers(), check_trace=False)
    return trained(traced)


@context(TRACED)
def jit_trace_save_load(op):
    traced = torch.jit.trace(Module(op), numbers(), check_trace=False)
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    return trained(torch.jit.load(file))


@context(TRACED)
def fx_symbolic_trace(op):
    return sizes(torch.fx.symbolic_trace(Module(op)))


# ------------------------------------------------------------------------- compiled


@context(COMPILED)
def compile_dynamic(op):
    return sizes(compiled(lambda x, w: op(x, w).sin(), dynamic=True))


@context(COMPILED)
def compile_static_then_again(op):
    return sizes(compiled(lambda x, w: op(x * 2, w).sin()))


@context(COMPILED)
def compile_without_gradients(op):
    with torch.no_grad():
        return [compiled(lambda x, w: op(x, w).sin())(*numbers())]


@context(COMPILED)
def compile_of_transforms(op):
    x, w = numbers()
    made = []
    for step in (
        grad(scalar(op), argnums=(0, 1)),
        vmap(op, (0, None)),
        vmap(grad(scalar(op), argnums=(0, 1)), (0, None)),
        lambda x, w: jvp(op, (x, w), (x.cos(), w.exp())),
    ):
        result = compiled(lambda x, w, step=step: step(x, w))(x, w)
        made.extend(result if isinstance(result, (tuple, list)) else [result])
    return made


@context(COMPILED)
def compile_of_hessian(op):
    x, w = numbers()
    return [compiled(hessian(scalar(op)))(x[0], w)]


@context(COMPILED)
def compile_of_trained_vmap(op):
    return trained(compiled(lambda x, w: vmap(op, (0, None))(x, w).sin()))


@context(COMPILED)
def compile_of_a_checkpoint(op):
    inner = compiled(lambda x, w: checkpoint(op, x, w, use_reentrant=False).sin())
    return trained(inner)


@context(COMPILED)
def compile_of_one_tensor_twice(op):
    _, w = leaves()
    y = compiled(lambda w: op(w, w).sin())(w)
    return [y, torch.autograd.grad(y.sum(), w)[0]]


@context(COMPILED)
def compiled_autograd(op):
    x, w = leaves()
    y = op(x, w).sin().sum()
    torch._dynamo.reset()
    inner = torch.compile(backend="aot_eager", fullgraph=True)
    with torch._dynamo.compiled_autograd._enable(inner):
        y.backward()
    return [x.grad, w.grad]


# ------------------------------------------------------------------------- exported


def exported(op, *, strict):
    torch._dynamo.reset()
    rows = torch.export.Dim("rows", min=2, max=64)
    return torch.export.export(
        Module(op), leaves(), dynamic_shapes=({0: rows}, None), strict=strict
    )


@context(EXPORTED)
def export_strict(op):
    return sizes(exported(op, strict=True).module())


@context(EXPORTED)
def export_non_strict(op):
    return sizes(exported(op, strict=False).module())


@context(EXPORTED)
def export_save_load(op):
    file = io.BytesIO()
    torch.export.save(exported(op, strict=False), file)
    file.seek(0)
    return sizes(torch.export.load(file).module())
