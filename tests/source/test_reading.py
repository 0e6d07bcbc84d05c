"""What the model says of a method."""

import pytest

from backproof.source import functions_in

LINEAR = '''
import torch


class Linear(torch.autograd.Function):
    """y = x wᵀ + b."""

    @staticmethod
    def forward(ctx, x, weight, bias=None, *rest, flag=True, **options):
        ctx.save_for_backward(x, weight)
        ctx.shape, ctx.flag = x.shape, flag
        ctx.mark_non_differentiable(rest)
        return x @ weight.T + bias

    @staticmethod
    def backward(c, grad_output):
        x, weight = c.saved_tensors
        grad_x = grad_weight = None
        if c.needs_input_grad[0]:
            grad_x = grad_output @ weight
        if (total := grad_output.sum()) > 0:
            grad_weight = (
                grad_output.T  # a reason
                @ x
            )
        for row in x:
            pass
        with open("é", "w") as file:
            pass

        def helper(g):
            inner = g * 2
            return inner

        return grad_x, grad_weight, helper(total), *c.rest
'''


def linear():
    (found,) = functions_in(LINEAR, "linear.py")
    return found


def method(body, parameters="ctx, x"):
    lines = ["import torch", "import torch.nn.functional as F"]
    lines += ["from torch.nn import init", "from torch import relu_"]
    lines += ["class Op(torch.autograd.Function):", f"  def forward({parameters}):"]
    lines += [f"    {line}" for line in body.splitlines()]
    (found,) = functions_in("\n".join(lines), "op.py")
    return found.methods["forward"]


def test_the_class():
    found = linear()
    assert (found.name, found.qualname, found.file) == ("Linear", "Linear", "linear.py")
    assert (found.line, found.end_line) == (5, 35)
    assert list(found.methods) == ["forward", "backward"]


def test_a_method():
    forward = linear().methods["forward"]
    assert (forward.line, forward.end_line) == (9, 13)
    assert forward.parameters == (
        *("ctx", "x", "weight", "bias", "*rest", "flag", "**options"),
    )


def test_what_is_kept():
    forward = linear().methods["forward"]
    (save,) = forward.saves
    assert (save.line, save.names) == (10, ("x", "weight"))
    assert save.called == "save_for_backward"
    shape, flag = forward.attributes
    assert (shape.name, shape.line, shape.value.text) == ("shape", 11, "x.shape")
    assert (flag.name, flag.value.name) == ("flag", "flag")
    (mark,) = forward.marks
    assert (mark.called, mark.names) == ("mark_non_differentiable", ("rest",))


def test_a_return():
    (found,) = linear().methods["backward"].returns  # not the helper's
    assert found.line == 35
    assert found.text == "return grad_x, grad_weight, helper(total), *c.rest"
    texts = [one.text for one in found.elements]
    assert texts == ["grad_x", "grad_weight", "helper(total)", "*c.rest"]
    assert [one.name for one in found.elements] == ["grad_x", "grad_weight", None, None]
    assert found.element(1).text == "grad_weight"
    assert found.element(3) is None  # as many as there are


def test_assignments():
    found = [(a.name, a.line, a.text) for a in linear().methods["backward"].assignments]
    assert found == [
        ("x", 17, "x, weight = c.saved_tensors"),
        ("weight", 17, "x, weight = c.saved_tensors"),
        ("grad_x", 18, "grad_x = grad_weight = None"),
        ("grad_weight", 18, "grad_x = grad_weight = None"),
        ("grad_x", 20, "grad_x = grad_output @ weight"),
        ("total", 21, "if (total := grad_output.sum()) > 0:"),
        ("grad_weight", 22, "grad_weight = grad_output.T @ x"),
        ("row", 26, "for row in x:"),
        ("file", 28, 'with open("é", "w") as file:'),
    ]


def test_a_statement_covers_its_lines_and_not_its_body():
    by_name = {a.name: a for a in linear().methods["backward"].assignments}
    lines = range(1, 40)
    assert list(filter(by_name["grad_weight"].covers, lines)) == [22, 23, 24, 25]
    assert list(filter(by_name["row"].covers, lines)) == [26]


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("a = b = x", {"a": "x", "b": "x"}),
        ("a, b = x, y", {"a": "x", "b": "y"}),
        ("a: Tensor = x", {"a": "x"}),
        ("a: Tensor", {}),
        ("a, b = x", {"a": None, "b": None}),
        ("a, b = x, *y", {"a": None, "b": None}),
        ("a, *b = x, y", {"a": None, "b": None}),
        ("a, (b, c) = x, (y, z)", {"a": "x", "b": "y", "c": "z"}),
    ],
)
def test_what_a_name_is_given(statement, values):
    found = method(statement).assignments
    assert {a.name: a.value and a.value.text for a in found} == values


@pytest.mark.parametrize(
    ("returned", "elements"),
    [
        ("return", []),
        ("return None", ["None"]),
        ("return g * 2", ["g * 2"]),
        ("return (a, b)", ["a", "b"]),
        ("return ()", []),
        ("return tuple(grads)", ["tuple(grads)"]),
        ("return 'é' * é, b", ["'é' * é", "b"]),
        (
            "return (\n      a,  # first\n      f(b,\n        c),\n    )",
            ["a", "f(b, c)"],
        ),
    ],
)
def test_elements_of_a_return(returned, elements):
    (found,) = method(returned).returns
    assert [one.text for one in found.elements] == elements
    assert "\n" not in found.text


def test_elements_after_a_star_are_unknown():
    (found,) = method("return a, *rest, b").returns
    assert [bool(found.element(i)) for i in range(4)] == [True, False, False, False]


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("x.add_(1)", ["x"]),
        ("y = x.mul_(2).add_(1)", ["x"]),
        ("x += 1", ["x"]),
        ("x[0] = 1", ["x"]),
        ("x[..., mask] *= 2", ["x"]),
        ("a, x[0] = 1, 2", ["x"]),
        ("torch.add(a, b, out=x)", ["x"]),
        ("torch.max(a, 0, out=(x, y))", ["x", "y"]),
        ("x.view(-1)[0] = 1", ["x"]),
        ("x.T.detach().zero_()", ["x"]),
        ("x.data.copy_(y)", ["x"]),
        ("x[i].zero_()", ["x"]),
        ("x.grad.zero_()", ["x.grad"]),
        ("ctx.buffer.add_(1)", ["ctx.buffer"]),
        ("ctx.calls += 1", ["ctx.calls"]),
        ("torch.relu_(x)", ["x"]),
        ("relu_(x)", ["x"]),
        ("init.zeros_(x)", ["x"]),
        ("F.relu(x, inplace=True)", ["x"]),
        ("flat = x.view(-1)\nflat[0] = 1", ["flat", "x"]),
        ("flat = x.view(-1)\nrow = flat[2:]\nrow += 1", ["row", "flat", "x"]),
        ("y = x\ny.add_(1)", ["y", "x"]),
        ("if x.add_(1).any():\n  pass", ["x"]),
    ],
)
def test_written_in_place(statement, names):
    assert [one.name for one in method(statement).in_place] == names


@pytest.mark.parametrize(
    "statement",
    [
        "x.requires_grad_()",
        "x.add(1)",
        "x = x + 1",
        "x.clone().add_(1)",
        "x.sum(0)[0] = 1",
        "x.__add__(1)",
        "_(x)",
        "F.relu(x, inplace=False)",
        "def later():\n  x.add_(1)",
        "later = lambda: x.add_(1)",
    ],
)
def test_not_written_in_place(statement):
    assert method(statement).in_place == ()


def test_copies_that_have_a_name():
    copied = method("chosen = x[mask]\nchosen *= 2")
    assert [one.name for one in copied.in_place] == ["chosen"]
    counted = method("n = x\nn += 1")
    assert [one.name for one in counted.in_place] == ["n"]
    either = method("y = x.view(-1)\ny = x.clone()\ny.add_(1)")
    assert [one.name for one in either.in_place] == ["y"]


def test_a_local_name_hides_an_import():
    found = method("init.zeros_(x)", parameters="ctx, x, init")
    assert [one.name for one in found.in_place] == ["init"]


CONTEXTS = """
from torch.autograd import Function

class Op(Function):
    generate_vmap_rule = False
    def forward(x): return x
    def setup_context(c, inputs, output):
        (x,) = inputs
        c.save_for_backward(x)
        c.save_for_forward(x)
        other.save_for_backward(x)
    def vmap(info, in_dims, x): return x, 0
    def jvp(ctx, t): ...
    if True:
        def backward(self, ctx, g):
            self.kept = g
"""


def test_ctx_is_the_first_parameter_where_there_is_one():
    (found,) = functions_in(CONTEXTS, "op.py")
    assert {name: one.ctx for name, one in found.methods.items()} == {
        "forward": None,
        "setup_context": "c",
        "vmap": None,
        "jvp": "ctx",
        "backward": "self",
    }
    saves = found.methods["setup_context"].saves
    assert [one.called for one in saves] == ["save_for_backward", "save_for_forward"]


def test_what_is_saved_need_not_be_a_name():
    (save,) = method("ctx.save_for_backward(x.detach(), *others, y)").saves
    assert save.names == ("y",)
    assert [one.text for one in save.arguments] == ["x.detach()", "*others", "y"]


def test_line_breaks_that_are_not_pythons():
    text = "s = '\x0c \x1c \u2028'\nfrom torch.autograd import Function\r\n"
    text += "class F(Function):\r\n  def backward(ctx, g): return g * 'a\u2028b'"
    (found,) = functions_in(text, "op.py")
    (returned,) = found.methods["backward"].returns
    assert (returned.line, returned.text) == (4, "return g * 'a\u2028b'")
