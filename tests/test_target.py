"""Target strings, and the subjects and cases that are found behind them."""

import os
import pickle
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from backproof.errors import BadInput
from backproof.target import Place, places
from backproof.target.importing import module_at
from backproof.target.loading import Options, load

SQUARE = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x
"""
INPUTS = """
def inputs(seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(3, generator=gen, requires_grad=True)
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into an empty folder that is the working directory."""
    monkeypatch.chdir(tmp_path)

    def write_file(name, *parts):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(textwrap.dedent(part) for part in parts))
        return path

    return write_file


def loaded(target, **options):
    """Everything behind one target string."""
    found, skipped = places(target)
    results = [load(place, Options(**options)) for place in found]
    candidates = [c for result in results for c in result.candidates]
    return candidates, [*skipped, *(s for result in results for s in result.skipped)]


def only(target, **options):
    (candidate,), _ = loaded(target, **options)
    return candidate


def refusal(target, **options):
    with pytest.raises(BadInput) as caught:
        loaded(target, **options)
    return str(caught.value)


# -------------------------------------------------------------------- target strings


def test_kinds_of_targets(write):
    write("ops.py", SQUARE)
    assert places("ops.py")[0] == [Place("ops.py", file="ops.py")]
    assert places("ops.py::A.B")[0][0].name == "A.B"
    assert places("ops.py:A")[0][0].name == "A"
    assert places("pkg.mod:f")[0] == [Place("pkg.mod:f", module="pkg.mod", name="f")]


def test_a_folder_means_its_files_with_inputs(write):
    write("ops/b.py", SQUARE, INPUTS)
    write("ops/a.py", SQUARE, INPUTS)
    write("ops/train.py", "raise SystemExit('a training script was run')")
    write("ops/deeper/c.py", SQUARE, INPUTS)
    found, skipped = places("ops")
    assert [p.text for p in found] == [str(Path("ops/a.py")), str(Path("ops/b.py"))]
    assert skipped == [
        (str(Path("ops/train.py")), "it gives no inputs, so it was not imported"),
        (f"{Path('ops/deeper')}{os.sep}", "a sub-folder, which is not descended into"),
    ]
    assert places("ops", gives="run")[0] == found


@pytest.mark.parametrize(
    "source",
    ["from common import inputs", "from common import *", "import x.inputs as inputs",
     "@backproof.inputs_for(F)\ndef f(): ...", "inputs = make()", "def broken(:"],
)  # fmt: skip
def test_files_that_may_give_inputs_are_worth_importing(write, source):
    write("ops/a.py", source)
    assert len(places("ops")[0]) == 1


def test_a_name_given_for_inputs_counts_too(write):
    write("ops/a.py", "def cases(): ...")
    assert places("ops")[0] == []
    assert len(places("ops", gives="cases")[0]) == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("op.py", "there is no file op.py; did you mean ops.py?"),
        ("zzzzz.py", "there is no file zzzzz.py"),
        ("no/such.py", "there is no file no/such.py: there is no folder no"),
        ("notes.txt", "notes.txt is not a Python file"),
        ("empty", "empty: there is no *.py in this folder"),
        ("empty::F", "a folder has no names in it"),
        ("no/such", "there is no file, folder or module no/such"),
    ],
)
def test_what_is_not_there(write, target, words):
    write("ops.py")
    write("notes.txt")
    write("empty/readme.md")
    assert words in refusal(target)


# -------------------------------------------------------------------------- importing


def test_a_file_is_a_module_that_others_can_find(write):
    path = write("ops.py", SQUARE, INPUTS)
    module = module_at(Place("ops.py", file="ops.py"))
    assert sys.modules[module.__name__] is module
    assert module.__name__ not in ("ops", "__main__")
    assert pickle.loads(pickle.dumps(module.Square)) is module.Square
    assert module.__file__ == str(path)


def test_its_folder_is_on_the_path_while_it_is_imported(write):
    write("deep/helper.py", "VALUE = 3")
    write("deep/ops.py", "import sys, helper\nPATH = list(sys.path)")
    path, wrote = list(sys.path), sys.dont_write_bytecode
    module = module_at(Place("deep/ops.py", file="deep/ops.py"))
    assert module.PATH[0] == str(Path("deep").resolve())
    assert (sys.path, sys.dont_write_bytecode) == (path, wrote)
    assert not list(Path("deep").rglob("*.pyc"))
    del sys.modules["helper"]


def test_a_file_of_a_package_can_import_its_neighbours(write, tmp_path):
    name = f"package_{tmp_path.name.replace('-', '_')}"
    write(f"{name}/__init__.py")
    write(f"{name}/helper.py", "VALUE = 3")
    write(f"{name}/ops.py", "from .helper import VALUE")
    module = module_at(Place("x", file=f"{name}/ops.py"))
    assert (module.__name__, module.VALUE) == (f"{name}.ops", 3)


def test_a_module_by_its_import_name(write):
    candidate = only("torch.nn.functional:silu", inputs=("f64[3]",))
    assert candidate.subject.name == "silu"
    assert candidate.subject.function is torch.nn.functional.silu


def test_a_file_that_raises_shows_the_frames_of_its_author(write):
    write("helper.py", "def fail():\n    raise ValueError('no such table')")
    write("ops.py", "import helper\nhelper.fail()")
    before = set(sys.modules)
    text = refusal("ops.py")
    assert text == textwrap.dedent("""\
        ops.py does not import:
          File "ops.py", line 2, in <module>
            helper.fail()
          File "helper.py", line 2, in fail
            raise ValueError('no such table')
        ValueError: no such table""")
    assert set(sys.modules) - before == {"helper"}


def test_a_syntax_error_has_its_place(write):
    write("ops.py", "x = (1,\ny = 2")
    text = refusal("ops.py")
    assert "ops.py does not import" in text
    assert "SyntaxError" in text
    assert "line 1" in text
    assert "importlib" not in text


def test_a_missing_package_is_named_with_the_python_that_lacks_it(write):
    write("ops.py", "import no_such_package")
    text = refusal("ops.py")
    assert "No module named 'no_such_package'" in text
    assert sys.executable in text


def test_missing_torch_comes_with_the_command(write, monkeypatch):
    write("ops.py", "import torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"pip install 'backproof\[torch\]'"):
        module_at(Place("ops.py", file="ops.py"))


def test_a_script_that_ends_the_process(write):
    write("ops.py", "import sys; sys.exit(3)")
    assert "ends the process while it is imported (SystemExit: 3)" in refusal("ops.py")


def test_no_such_module(write):
    assert refusal("no_such_package.ops:f") == (
        "there is no file, folder or module no_such_package.ops"
    )


# ------------------------------------------------------------------- what is checked


def test_op_and_inputs(write):
    write("ops.py", SQUARE, INPUTS, "op = Square.apply\n")
    candidate = only("ops.py", seed=5)
    assert candidate.target == "ops.py::op"
    assert candidate.subject.name == "Square"
    assert candidate.subject.where.line == 4
    (case,) = candidate.cases()
    expected = torch.randn(3, generator=torch.Generator().manual_seed(5))
    assert torch.equal(case.arguments[0].detach(), expected)


def test_op_alone_is_checked_where_there_is_one(write):
    write("ops.py", SQUARE, SQUARE.replace("Square", "Other"), INPUTS,
          "def op(x):\n    return Square.apply(x) + 1\n")  # fmt: skip
    candidate = only("ops.py")
    assert candidate.subject.name == "op"
    assert candidate.subject.definition is None


def test_an_op_without_a_name_of_its_own(write):
    write("ops.py", SQUARE, INPUTS, "op = lambda x: Square.apply(x)\n")
    assert only("ops.py").subject.name == "op"


OPERATORS = """
import torch

@torch.library.custom_op("backprooftests::{name}", mutates_args=())
def {name}(x: torch.Tensor, factor: float = 2.0, *, shift: float = 0.0) -> torch.Tensor:
    return factor * x + shift

def setup(ctx, inputs, output):
    ctx.factor = inputs[1]

{name}.register_autograd(lambda ctx, g: (g * ctx.factor, None), setup_context=setup)

@torch.library.custom_op("backprooftests::{name}_bare", mutates_args=())
def {name}_bare(x: torch.Tensor) -> torch.Tensor:
    return 2 * x
"""


class TestOperators:
    def test_a_file_holds_those_with_a_backward(self, write):
        write("ops.py", OPERATORS.format(name="one"), INPUTS)
        subject = only("ops.py").subject
        assert subject.name == "one"
        assert subject.parameter_names() == ["x", "factor"]
        assert (subject.where.file, subject.where.line) == (
            str(Path("ops.py").resolve()),
            4,
        )
        assert torch.equal(subject.function(torch.ones(2)), 2 * torch.ones(2))

    def test_op_keeps_the_name_it_is_registered_under(self, write):
        write("ops.py", OPERATORS.format(name="two"), "op = two\n", INPUTS)
        assert only("ops.py").subject.name == "backprooftests::two"

    @pytest.mark.parametrize(
        "text", ["ops.py::three", "ops.py::torch.ops.backprooftests.three", "ops:three",
                 "ops:torch.ops.backprooftests.three.default"]
    )  # fmt: skip
    def test_by_name(self, write, text):
        write("ops.py", OPERATORS.format(name="three"), INPUTS)
        subject = only(text).subject
        assert subject.operator is torch.ops.backprooftests.three.default

    def test_of_torch_itself(self):
        subject = only("torch.ops.aten.mul.Tensor", inputs=("f64[3] f64[3]",)).subject
        assert subject.parameter_names() == ["self", "other"]
        assert subject.where is None

    def test_an_overload_has_to_be_named(self):
        words = refusal("torch.ops.aten.mul", inputs=("f64[3] f64[3]",))
        assert "name one of them, such as torch.ops.aten.mul.Tensor" in words

    def test_there_is_no_such_operator(self):
        words = refusal("torch.ops.backprooftests.none_such", inputs=("f64[3]",))
        assert "there is no `none_such`" in words

    @pytest.mark.parametrize("text", ["ops.py::four_bare", "ops.py"])
    def test_without_a_backward(self, write, text):
        definition = OPERATORS.format(name="four").rpartition("\n@")
        write("ops.py", "import torch\n", "@" + definition[2], INPUTS)
        words = refusal(text)
        assert "autograd formula" in words
        assert "register_autograd" in words


REGISTERED = """
@backproof.inputs_for(Cube)
def one(seed):
    return torch.ones(2, requires_grad=True)

@backproof.inputs_for(Square)
def two(seed):
    yield torch.ones(2, requires_grad=True)
    yield torch.ones(3, requires_grad=True)

@backproof.inputs_for(Square.apply)
def three():
    return torch.ones(4, requires_grad=True)

@backproof.inputs_for(torch.tanh)
def other():
    return torch.ones(2, requires_grad=True)
"""


def test_functions_with_registered_inputs(write):
    three = [SQUARE.replace("Square", name) for name in ("Square", "Cube", "Bare")]
    write("ops.py", "import backproof\n", *three, REGISTERED)
    candidates, skipped = loaded("ops.py")
    assert [c.subject.name for c in candidates] == ["Square", "Cube", "tanh"]
    assert [c.label for c in candidates[0].cases()] == ["two[0]", "two[1]", "three"]
    assert skipped == [("ops.py::Bare", "it has no inputs")]
    # a second look at the same file must not see the first one's registrations
    assert len(loaded("ops.py")[0]) == 3


def test_base_classes_and_imported_functions_are_not_subjects(write):
    write("base.py", SQUARE)
    write("ops.py", "import torch\nfrom base import Square\n", """
class Base(torch.autograd.Function):
    '''Shared parts.'''

class Real(Base):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
""", INPUTS)  # fmt: skip
    assert only("ops.py").subject.name == "Real"
    del sys.modules["base"]


def test_input_strings_come_first(write):
    write("ops.py", SQUARE, INPUTS)
    candidate = only("ops.py", inputs=("f32[7]>0", "f64[2]"))
    cases = candidate.cases()
    assert [c.label for c in cases] == ["f32[7]>0", "f64[2]"]
    assert list(cases[0].domains) == ["x"]


def test_a_function_named_on_the_command_line(write):
    write("ops.py", SQUARE, INPUTS.replace("inputs", "cases"))
    assert only("ops.py", inputs_from="cases").cases()[0].label == "cases"
    text = refusal("ops.py", inputs_from="case")
    assert text == ("--inputs-from: there is no `case` in ops.py; did you mean cases?")


def test_modules_and_attributes(write):
    write("ops.py", """
import torch

class Layer(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, 2)

class Space:
    layer = Layer()

needs = torch.nn.Linear
""", INPUTS)  # fmt: skip
    assert only("ops.py::Layer").subject.module is not None
    candidate = only("ops.py::Space.layer")
    assert candidate.subject.name == "Space.layer"
    assert isinstance(candidate.subject.module, torch.nn.Linear)
    assert "cannot be built without arguments" in refusal("ops.py::needs")
    assert "there is no `lay` in `Space`; did you mean layer?" in (
        refusal("ops.py::Space.lay")
    )


# ------------------------------------------------------------------------ expectations


EXPECT = "def EXPECT(g, x):\n    return (g,)\n"
PLAIN = "def plain(x):\n    return x\n"


def test_expect_belongs_to_op(write):
    write("ops.py", SQUARE, INPUTS, EXPECT, PLAIN, "op = Square.apply\n")
    assert only("ops.py").subject.expect_backward is not None
    assert only("ops.py::Square").subject.expect_backward is not None
    assert only("ops.py::plain").subject.expect_backward is None


def test_expect_of_a_single_function(write):
    write("ops.py", SQUARE, INPUTS, EXPECT)
    assert only("ops.py").subject.expect_backward is not None


def test_expect_for_several_is_a_dict(write):
    both = SQUARE + SQUARE.replace("Square", "Other") + INPUTS
    write("ops.py", both, EXPECT)
    assert 'make it a dict from names to functions: EXPECT = {"Square": ...}' in (
        refusal("ops.py")
    )
    write("ops.py", both, 'EXPECT = {"Other": lambda g, x: (g,)}\n')
    square, other = loaded("ops.py")[0]
    assert not square.subject.declared
    assert other.subject.declared


def test_noise_is_declared_for_all_or_by_name(write):
    both = SQUARE + SQUARE.replace("Square", "Other") + INPUTS
    write("ops.py", both, "NOISE = 1e-6\n")
    assert [c.subject.noise for c in loaded("ops.py")[0]] == [1e-6, 1e-6]
    write("ops.py", both, 'NOISE = {"Other": 1e-3}\n')
    assert [c.subject.noise for c in loaded("ops.py")[0]] == [0.0, 1e-3]
    write("ops.py", both, 'NOISE = "little"\n')
    assert "it is 'little'" in refusal("ops.py")


def test_a_reference_named_on_the_command_line(write):
    write("ops.py", SQUARE, SQUARE.replace("Square", "Other"), INPUTS, PLAIN)
    assert "--reference is about one subject" in refusal("ops.py", reference="plain")
    subject = only("ops.py::Other", reference="plain").subject
    assert subject.reference.__name__ == "plain"
    assert "there is no `plane`" in refusal("ops.py::Other", reference="plane")


def test_a_soft_function_named_on_the_command_line(write):
    write("ops.py", SQUARE, INPUTS, "def soft(x):\n    return x\n")
    subject = only("ops.py", expect="soft").subject
    assert subject.expect.__name__ == "soft"
    assert subject.expect_backward is None
    assert "--expect: there is no `sof` in ops.py; did you mean soft?" in (
        refusal("ops.py", expect="sof")
    )


def test_a_soft_function_is_about_one_subject(write):
    write("ops.py", SQUARE, SQUARE.replace("Square", "Other"), INPUTS,
          "def soft(x):\n    return x\n")  # fmt: skip
    assert "name it: ops.py::Square" in refusal("ops.py", expect="soft")
    assert only("ops.py::Other", expect="soft").subject.expect is not None


# ----------------------------------------------------------------- what is not there


def test_no_function(write):
    write("ops.py", "import torch\n", "def fused(x):\n    return x\n", INPUTS)
    assert refusal("ops.py") == (
        "ops.py: no Function, custom operator or `op` is defined in it; to "
        "check one of fused, name it: ops.py::fused"
    )


def test_nothing_at_all(write):
    write("ops.py", "x = 1")
    assert refusal("ops.py") == (
        "ops.py: no Function, custom operator or `op` is defined in it"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Sqare", "did you mean Square?"), ("square", "did you mean Square?"),
     ("zzz", "it has Square, inputs")],
)  # fmt: skip
def test_an_unknown_name(write, name, hint):
    write("ops.py", SQUARE, INPUTS)
    assert refusal(f"ops.py::{name}") == (
        f"ops.py::{name}: there is no `{name}` in ops.py; {hint}"
    )


def test_no_inputs_says_how_to_give_them(write):
    write("ops.py", SQUARE.replace("ctx, x", "ctx, x, scale: float, bias=None, p=2"))
    assert refusal("ops.py") == textwrap.dedent("""\
        ops.py::Square has no inputs to run it on.
        Give them on the command line, with a shape in place of SHAPE, as f64[3,10]:

            backproof check ops.py::Square -i 'x=f64[SHAPE] scale=0.5 bias=None p=2'

        or in ops.py, beside it:

            @backproof.inputs_for(Square)
            def square_inputs(seed=0):
                random = torch.Generator().manual_seed(seed)
                x = torch.randn(SHAPE, generator=random).double().requires_grad_()
                scale = 0.5
                bias = None
                p = 2
                return x, scale, bias, p

        or in a function called `inputs`, or in any other with --inputs-from NAME.""")


def test_no_inputs_for_an_operator(write):
    write("ops.py", OPERATORS.format(name="five"))
    words = refusal("ops.py::five")
    assert "check ops.py::five -i 'x=f64[SHAPE] factor=2.0'" in words
    assert "        x = torch.randn(SHAPE, generator=random)" in words
    words = refusal("torch.ops.aten.add.Tensor")
    assert words.endswith("-i 'self=f64[SHAPE] other=f64[SHAPE]'")


def test_the_advice_works_once_it_has_a_shape(write):
    path = write("ops.py", "import backproof\n", SQUARE)
    advised = refusal("ops.py")
    with pytest.raises(BadInput, match="a dimension"):
        only("ops.py::Square", inputs=("x=f64[SHAPE]",)).cases()
    lines = advised.replace("SHAPE", "3, 4").splitlines()
    command = next(line for line in lines if "backproof check" in line)
    text = command.partition("'")[2].rstrip("'")
    assert only("ops.py::Square", inputs=(text,)).cases()
    start = lines.index("    @backproof.inputs_for(Square)")
    end = next(k for k, line in enumerate(lines) if "return" in line)
    advice = textwrap.dedent("\n".join(lines[start : end + 1]))
    path.write_text(f"{path.read_text()}\n{advice}\n")
    (case,) = only("ops.py").cases()
    assert case.arguments[0].requires_grad


def test_no_inputs_for_several_names_the_first(write):
    write("ops.py", SQUARE, SQUARE.replace("Square", "Other"))
    assert refusal("ops.py").startswith(
        "ops.py::Square has no inputs to run it on, nor has any of 1 more there."
    )


def test_in_a_folder_nothing_to_check_is_skipped(write):
    write("ops/a.py", SQUARE, INPUTS)
    write("ops/b.py", "def inputs(): ...")
    write("ops/c.py", SQUARE, "inputs = None")
    candidates, skipped = loaded("ops")
    assert [c.subject.name for c in candidates] == ["Square"]
    assert [os.path.basename(s.target) for s in skipped] == ["b.py", "c.py"]  # noqa: PTH119
    assert all("\n" not in s.reason for s in skipped)
