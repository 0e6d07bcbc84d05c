"""Where a gradient is made."""

import pytest

from backproof.source import (
    Place,
    functions_in,
    gradient_place,
    save_place,
    write_place,
)


def method(body, name="backward"):
    """The first line of `body` is line 4 of the file."""
    lines = ["from torch.autograd import Function"]
    lines += ["class Op(Function):", f"    def {name}(ctx, g):"]
    lines += [f"        {line}" for line in body.splitlines()]
    (found,) = functions_in("\n".join(lines), "op.py")
    return found.methods[name]


def test_the_return_computes_it():
    backward = method("y = ctx.y\nreturn g * y, None")
    assert gradient_place(backward, 0) == Place(5, "return g * y, None")
    assert gradient_place(backward, 1) == Place(5, "return g * y, None")
    assert gradient_place(backward, 7) == Place(5, "return g * y, None")


def test_a_name_leads_to_its_assignment():
    backward = method("gx = g @ w\ngw = g.t() @ x\nreturn gx, gw")
    assert gradient_place(backward, 0) == Place(4, "gx = g @ w")
    assert gradient_place(backward, 1) == Place(5, "gw = g.t() @ x")


def test_a_parameter_leads_nowhere():
    assert gradient_place(method("return g"), 0) == Place(4, "return g")


def test_a_single_name_may_hold_all_gradients():
    backward = method("grads = kernel(g)\nreturn grads")
    assert gradient_place(backward, 1) == Place(4, "grads = kernel(g)")


def test_a_tuple_of_one_holds_one():
    backward = method("gx = kernel(g)\nreturn (gx,)")
    assert gradient_place(backward, 1) == Place(5, "return (gx,)")


def test_a_return_over_several_lines():
    backward = method("return (\n    g * a,\n    kernel(\n        g\n    ),\n)")
    assert gradient_place(backward, 0) == Place(5, "g * a")
    assert gradient_place(backward, 1) == Place(6, "kernel(g)")
    assert gradient_place(backward, 1, [5, 6, 7, 6, 4]) == Place(6, "kernel(g)")


def test_a_name_in_a_return_over_several_lines():
    backward = method("gx = g * 2\nreturn (\n    gx,\n    g,\n)")
    assert gradient_place(backward, 0, [4, 6, 7, 5]) == Place(4, "gx = g * 2")


BRANCHES = """\
gx = gw = None
if ctx.needs_input_grad[0]:
    gx = g @ w
if ctx.needs_input_grad[1]:
    gw = g.t() @ x
    gw *= 2
return gx, gw"""


def test_branches_that_ran():
    backward = method(BRANCHES)
    lines = [4, 5, 6, 7, 8, 9, 10]
    assert gradient_place(backward, 0, lines) == Place(6, "gx = g @ w")
    assert gradient_place(backward, 1, lines) == Place(9, "gw *= 2")
    without = [4, 5, 7, 8, 9, 10]
    assert gradient_place(backward, 0, without) == Place(4, "gx = gw = None")


def test_branches_without_a_run():
    backward = method(BRANCHES)
    assert gradient_place(backward, 0) == Place(6, "gx = g @ w")
    # assigned here, doubled there, and both only in a branch
    assert gradient_place(backward, 1) == Place(10, "return gx, gw")


@pytest.mark.parametrize(
    "body",
    [
        "if a:\n    gx = g\nelse:\n    gx = g * 2\nreturn gx",
        "gx = g\nif a:\n    gx = g * 2\nreturn gx",
        "gx = g\nfor i in x:\n    gx += i\nreturn gx",
        "try:\n    gx = f(g)\nexcept E:\n    gx = g\nreturn gx",
        "match a:\n    case 1:\n        gx = g\n    case _:\n        gx = g * 2\nreturn gx",
    ],
)
def test_without_a_run_the_return_is_said_where_branches_differ(body):
    assert gradient_place(method(body), 0).text == "return gx"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("gx = g\ngx = gx * 2\nreturn gx", "gx = gx * 2"),
        ("if a:\n    gx = g\ngx = g * 2\nreturn gx", "gx = g * 2"),
        ("gx = f(g)\nwith torch.no_grad():\n    gx.mul_(2)\nreturn gx", "gx.mul_(2)"),
        ("gx = f(g)\nflat = gx.view(-1)\nflat[i] = g\nreturn gx", "flat[i] = g"),
        ("gx = f(g)\ngx = None\nreturn gx", "gx = f(g)"),
        ("gx = g * 2\nreturn gx\ngx = 5", "gx = g * 2"),
    ],
)
def test_without_a_run_what_holds_on_every_path(body, text):
    assert gradient_place(method(body), 0).text == text


def test_several_returns():
    backward = method("gx = g\nif a:\n    gx = g * 2\n    return gx\nreturn gx * 3")
    assert gradient_place(backward, 0) is None
    assert gradient_place(backward, 0, [4, 5, 6, 7]) == Place(6, "gx = g * 2")
    assert gradient_place(backward, 0, [4, 5, 8]) == Place(8, "return gx * 3")
    assert gradient_place(backward, 0, [4, 5]) is None  # it raised


def test_a_loop_that_ran():
    backward = method(
        "a = b = g\nfor i in x:\n    b = a * i\n    a = b + 1\nreturn b, a"
    )
    lines = [4, 5, 6, 7, 5, 6, 7, 5, 8]
    assert gradient_place(backward, 0, lines) == Place(6, "b = a * i")
    assert gradient_place(backward, 1, lines) == Place(7, "a = b + 1")
    assert gradient_place(backward, 1, [4, 5, 8]) == Place(4, "a = b = g")


def test_what_runs_after_the_return_makes_nothing():
    body = "gx = g * 2\ntry:\n    return gx\nfinally:\n    gx = 0"
    assert gradient_place(method(body), 0, [4, 5, 6, 8]) == Place(4, "gx = g * 2")


def test_a_gradient_that_is_none():
    assert gradient_place(method("gx = None\nreturn g, gx"), 1).text == "gx = None"


def test_no_return():
    assert gradient_place(method("pass"), 0) is None


def test_text_fits_a_line():
    long = " + ".join(["g"] * 40)
    place = gradient_place(method(f"return {long}"), 0)
    assert len(place.text) == 70
    assert place.text.startswith("return g + g")
    assert place.text.endswith("…")


def test_of_a_long_return_the_element_is_shown():
    backward = method(f"return {' + '.join(['g'] * 40)}, g * w, None")
    assert gradient_place(backward, 1).text == "return …, g * w, …"
    assert gradient_place(backward, 2).text == "return …, None"


def test_where_something_is_saved():
    forward = method(
        "y = x.exp()\nctx.y = y\nctx.save_for_backward(x.detach(), w)\nreturn y",
        "forward",
    )
    assert save_place(forward, "w").line == 6
    assert save_place(forward, "y") == Place(5, "ctx.y = y")
    assert save_place(forward, "x").text == "ctx.save_for_backward(x.detach(), w)"
    assert save_place(forward, "z") is None


def test_where_something_is_written_to():
    backward = method("if a:\n    g += 1\ng.mul_(2)\nreturn g")
    assert write_place(backward, "g") == Place(5, "g += 1")
    assert write_place(backward, "g", [4, 6, 7]) == Place(6, "g.mul_(2)")
    assert write_place(backward, "x") is None
