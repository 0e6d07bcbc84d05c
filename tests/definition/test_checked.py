"""`backproof.check` and its command take a class of ours as they take torch's."""

import inspect
import sys
import textwrap
import weakref

import pytest
import torch

import backproof
from backproof.battery.survey.control import control_of
from backproof.battery.survey.style import Style, style_of
from backproof.battery.survey.survey import CellStatus, survey
from backproof.errors import BadInput
from backproof.subject import subject_of

BASES = {"torch": torch.autograd.Function, "backproof": backproof.Function}


def right(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, g * x

    return Product


def wrong(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, 2 * g * x  # BP101

    return Product


def set_up_beside(base):
    class Product(base):
        @staticmethod
        def forward(x, w):
            return x * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, g * x

    return Product


def written_to(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            x.mul_(2)  # BP201
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return 2 * g * w, g * x

    return Product


def kept_on_ctx(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            ctx.x, ctx.w = x, w  # BP203
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * ctx.w, g * ctx.x

    return Product


def coarse(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return (g * w).float(), g * x  # BP502

    return Product


def own_jvp(base):
    class Product(base):
        @staticmethod
        def forward(x, w):
            return x * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w, g * x

        @staticmethod
        def jvp(ctx, dx, dw):
            x, w = ctx.saved_tensors
            dx = torch.zeros_like(x) if dx is None else dx
            dw = torch.zeros_like(w) if dw is None else dw
            return dx * w - dw * x  # BP103

    return Product


def intermediate_saved(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            e = x.exp()
            ctx.save_for_backward(e, w)
            return e * w

        @staticmethod
        def backward(ctx, g):
            e, w = ctx.saved_tensors
            return g * e * w, g * e

    return Product


def inputs():
    random = torch.Generator().manual_seed(0)
    return [
        torch.randn(3, 4, generator=random, dtype=torch.float64).requires_grad_()
        for _ in range(2)
    ]


def findings(cls):
    return backproof.check(cls, *inputs()).findings


def marked(build):
    """(code, line) where the text of `build` says that a law is broken."""
    lines, start = inspect.getsourcelines(build)
    return [
        (line.partition("# ")[2].strip(), start + k)
        for k, line in enumerate(lines)
        if "# BP" in line
    ]


SUBJECTS = [
    right,
    wrong,
    set_up_beside,
    written_to,
    kept_on_ctx,
    coarse,
    own_jvp,
]


@pytest.mark.parametrize("build", SUBJECTS, ids=lambda build: build.__name__)
def test_every_finding_is_that_of_torchs_base(build):
    stock, mine = (findings(build(base)) for base in BASES.values())
    assert mine == stock
    assert bool(mine) == bool(marked(build))
    assert {(f.code, f.where.line) for f in mine} >= set(marked(build))
    assert all(f.where.file.endswith("test_checked.py") for f in mine)


def test_a_derivative_that_torch_drops_is_there():
    stock = findings(intermediate_saved(torch.autograd.Function))
    assert [finding.code for finding in stock] == ["BP102"]
    report = backproof.check(intermediate_saved(backproof.Function), *inputs())
    assert report.findings == ()
    assert outcome(report, "BP102") == "held"


def outcome(report, code):
    return next(o.status for o in report.subjects[0].outcomes if o.code == code)


def test_forward_mode_is_not_judged_where_it_is_derived():
    report = backproof.check(right(backproof.Function), *inputs(), laws=["BP103"])
    (found,) = report.subjects[0].outcomes
    assert found.status == "not_applicable"
    assert found.words == "forward mode is derived from backward: Product has no `jvp`"


class Total(backproof.Function):
    @staticmethod
    def forward(ctx, parts, scale):
        ctx.save_for_backward(*parts, scale)
        return (parts[0] + 3 * parts[1]) * scale

    @staticmethod
    def backward(ctx, g):
        one, other, scale = ctx.saved_tensors
        of_parts = [g * scale, g * scale]
        of_scale = g * (one + 3 * other)
        return of_parts, of_scale


@pytest.mark.parametrize(
    "call",
    [Total, lambda parts, scale: Total.apply(parts, scale.sin())],
    ids=["by itself", "inside of a function"],
)
def test_the_gradients_of_a_list_are_placed(call):
    x, w = inputs()
    report = backproof.check(call, [x, w], w.detach(), laws=["BP101"])
    assert [finding.code for finding in report.findings] == ["BP101"]
    assert report.findings[0].where.text == "of_parts = [g * scale, g * scale]"


def test_a_call_inside_of_a_function_is_placed():
    cls = wrong(backproof.Function)

    def around(x, w):
        return cls.apply(x.sin(), w)

    report = backproof.check(around, *inputs(), laws=["BP101"])
    assert report.findings[0].where.line == marked(wrong)[0][1]


def test_an_incomplete_class_is_refused_in_words():
    class Half(backproof.Function):
        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(BadInput, match=r"^Half cannot be called: it lacks a forward"):
        subject_of(Half)


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_a_class_without_a_backward_works_until_a_gradient_is_asked_for(base):
    class Forward(base):
        @staticmethod
        def forward(ctx, x):
            return x.sin()

    x, _ = inputs()
    y = Forward.apply(x)
    assert torch.equal(y, x.sin())
    with pytest.raises(NotImplementedError, match="backward"):
        y.sum().backward()


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_a_call_can_be_watched_by_its_ctx(base):
    calls = weakref.WeakSet()

    class Watched(base):
        @staticmethod
        def forward(ctx, x):
            calls.add(ctx)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g

    with torch.autograd.forward_ad.dual_level():
        Watched.apply(inputs()[0].detach())
    y = Watched.apply(inputs()[0])
    assert len(calls) == 1
    del y
    assert not calls


# ------------------------------------------------------------------------ contexts

STYLES = [
    Style("ctx", ours=True),
    Style("setup", ours=True),
    Style("ctx", dirty=True, ours=True),
    Style("ctx", once=True, ours=True),
    Style("ctx", opaque=True, once=True, ours=True),
    Style("setup", vmap="written", jvp=True, ours=True),
]


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_a_control_is_of_its_style(style):
    assert style_of(control_of(style)) == style


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_a_control_is_right_in_every_context(style):
    cells = list(survey(control_of(style).trial, "fast"))
    bad = (CellStatus.WRONG, CellStatus.TORCH, CellStatus.SKIPPED)
    assert [c.name for c in cells if c.status in bad] == []


# --------------------------------------------------------------------- command line

FILE = """
import torch
import backproof

class Base(backproof.Function):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x

class Square(Base):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

def inputs(seed=0):
    return torch.linspace(1, 2, 5, dtype=torch.float64).requires_grad_()
"""
MALFORMED = FILE.replace("return 3 * g * x", "return 2 * g * x, None, g")


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Writes `ops.py` and runs `backproof check` on it, in this process."""
    from click.testing import CliRunner

    from backproof.cli import main

    monkeypatch.chdir(tmp_path)

    def run(text, *options):
        (tmp_path / "ops.py").write_text(textwrap.dedent(text))
        arguments = ["check", "--no-isolate", "ops.py", *options]
        return CliRunner().invoke(main, arguments, prog_name="backproof")

    return run


def test_the_command_finds_the_classes_of_a_file(check):
    done = check(FILE, "--laws", "BP101")
    assert done.exit_code == 1, done.output
    assert "Base" not in done.output
    assert "at ops.py:9: `return 3 * g * x`" in done.output


def test_a_refused_class_is_bad_input_and_no_traceback(check):
    done = check(MALFORMED)
    assert done.exit_code == 2
    assert "ops.py does not import:\nSquare: backward returns 3" in done.output
    assert "at ops.py:9: `return 2 * g * x, None, g`" in done.output
    assert "Traceback" not in done.output


def test_a_script_that_shows_a_finding_runs(check, tmp_path):
    coarse_file = FILE.replace("3 * g * x", "(2 * g * x).float()")
    done = check(coarse_file, "--laws", "BP502", "--repro", "shows.py")
    assert done.exit_code == 1, done.output
    text = (tmp_path / "shows.py").read_text()
    assert "written_as.backward(node" in text


@pytest.mark.parametrize("name", ["Function", "NoDerivative", "MalformedFunction"])
def test_it_is_a_public_name(name):
    assert getattr(backproof, name).__name__ == name
    assert name in backproof.__all__


def test_the_base_brings_torch_only_when_it_is_asked_for():
    import subprocess

    code = (
        "import backproof, sys; assert 'torch' not in sys.modules; backproof.Function"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
