"""`backproof check --repro FILE`: what is written, kept, refused and said."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = """
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

op = Square.apply

def inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(5, generator=generator).double().requires_grad_()
"""
WRONG = RIGHT.replace("return 2 * g * x", "return 3 * g * x")
BP101 = ("--laws", "BP101")


@pytest.fixture(autouse=True)
def _files(write):
    write("right.py", RIGHT)
    write("wrong.py", WRONG)


def names():
    """What the working directory holds."""
    return sorted(path.name for path in Path().iterdir())


def raised(done):
    """The last line that a script wrote, which has to be its reason."""
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1]


def test_a_wrong_gradient(check, python, write):
    result = check("wrong.py", "--repro", "repro.py")
    assert result.exit_code == 1
    assert result.stderr == (
        "wrote repro.py and repro.pt (fails as stated): BP101 of Square\n"
    )
    reason = raised(python("repro.py"))
    assert reason.startswith("AssertionError: BP101: backward claims 20.6837209, ")
    write("wrong.py", RIGHT)
    assert python("repro.py").returncode == 0


def test_it_leaves_nothing_else_behind(check):
    check("wrong.py", "--repro", "repro.py")
    assert names() == ["repro.pt", "repro.py", "right.py", "wrong.py"]


def test_a_right_gradient(check):
    result = check("right.py", "--repro", "repro.py")
    assert result.exit_code == 0
    assert result.stderr == "nothing is wrong, so repro.py was not written\n"
    assert names() == ["right.py", "wrong.py"]


def test_the_first_wrong_subject_of_several(check, python, write):
    write("third.py", WRONG.replace("Square", "Third").replace("3 * g", "4 * g"))
    targets = ("right.py", "third.py", "wrong.py")
    result = check(*targets, *BP101, "--repro", "repro.py")
    assert result.stderr.endswith("(fails as stated): BP101 of Third\n")
    assert "in Third at third.py:13" in Path("repro.py").read_text()
    assert raised(python("repro.py")).startswith("AssertionError: BP101")


def test_in_a_worker_of_its_own():
    command = [sys.executable, "-m", "backproof", "check", "wrong.py", *BP101]
    done = subprocess.run(
        [*command, "--repro", "repro.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("wrote repro.py and repro.pt (fails as stated)")


def test_the_report_is_what_it_is_without_a_script(check):
    arguments = ("wrong.py", "--format", "json")
    plain = json.loads(check(*arguments).stdout)
    other = json.loads(check(*arguments, "--repro", "repro.py").stdout)
    assert other["subjects"] == plain["subjects"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none/repro.py", "--repro none/repro.py: there is no folder"),
        (".", "--repro .: it cannot be written there"),
        ("repro.txt", "the name of a script ends in .py"),
        ("right.py", "there is a right.py, which was not written by this option"),
    ],
)
def test_a_file_that_cannot_be(check, write, name, words):
    write("wrong.py", "raise SystemExit('it was run')")
    result = check("wrong.py", "--repro", name)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "it was run" not in result.stderr


def test_numbers_of_somebody_else_are_kept(check, write):
    write("repro.pt", "weights")
    result = check("wrong.py", "--repro", "repro.py")
    assert result.exit_code == 2
    assert Path("repro.pt").read_text() == "weights"


def test_a_script_may_take_the_place_of_another(check, write):
    check("wrong.py", *BP101, "--repro", "repro.py")
    write("wrong.py", WRONG.replace("3 * g", "5 * g"))
    result = check("wrong.py", *BP101, "--repro", "repro.py")
    assert result.stderr.startswith("wrote repro.py and repro.pt")


def test_inputs_of_the_command_line_are_beside_it(check, python):
    result = check("wrong.py", *BP101, "-i", "f32[4]", "--repro", "repro.py")
    assert result.exit_code == 1
    text = Path("repro.py").read_text()
    assert 'arguments = list(saved["arguments"])' in text
    assert "module.inputs" not in text
    assert raised(python("repro.py")).startswith("AssertionError: BP101")


def test_inputs_without_a_seed_are_beside_it(check, write):
    unseeded = WRONG.replace("seed=0", "").replace(".manual_seed(seed)", "")
    write("wrong.py", unseeded)
    result = check("wrong.py", *BP101, "--repro", "repro.py")
    assert 'list(saved["arguments"])' in Path("repro.py").read_text()
    assert "fails as stated" in result.stderr


def test_another_seed(check):
    result = check("wrong.py", *BP101, "--seed", "5", "--repro", "repro.py")
    assert "[module.inputs(seed=5)]" in Path("repro.py").read_text()
    assert "fails as stated" in result.stderr


def test_a_folder_elsewhere(check, write):
    write("there/keep.txt", "")
    result = check("wrong.py", *BP101, "--repro", "there/repro.py")
    assert '.parent / "../wrong.py"' in Path("there/repro.py").read_text()
    assert "fails as stated" in result.stderr


def test_an_import_name(check, write):
    write("shop/__init__.py", "")
    write("shop/factor.py", "THREE = 3")
    relative = "from .factor import THREE\n" + WRONG.replace("3 * g", "THREE * g")
    write("shop/ops.py", relative)
    result = check("shop.ops:op", *BP101, "-i", "f64[4]", "--repro", "repro.py")
    assert 'import_module("shop.ops")' in Path("repro.py").read_text()
    assert "fails as stated" in result.stderr


def test_a_file_of_a_package(check, write):
    write("store/__init__.py", "")
    write("store/factor.py", "THREE = 3")
    relative = "from .factor import THREE\n" + WRONG.replace("3 * g", "THREE * g")
    write("store/ops.py", relative)
    result = check("store/ops.py", *BP101, "--repro", "repro.py")
    assert "fails as stated" in result.stderr


MODULE = """
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, 2 * g * x

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4) + 1)

    def forward(self, x, *, shift):
        return Scale.apply(x, self.weight) + shift

def inputs(seed=0):
    return {"x": torch.randn(3, 4, requires_grad=True), "shift": 0.5}
"""


def test_a_module_and_keywords(check, write):
    write("layer.py", MODULE)
    result = check("layer.py::Layer", *BP101, "--repro", "repro.py")
    assert "fails as stated" in result.stderr
    text = Path("repro.py").read_text()
    assert "function.get_parameter('weight')" in text


NOISY = WRONG.replace("return x * x", "return x * x + torch.rand(5) * x").replace(
    "return 3 * g * x", "return g * x"
)


def test_a_forward_that_draws_random_numbers(check, write):
    write("noisy.py", NOISY)
    result = check("noisy.py", *BP101, "--repro", "repro.py")
    text = Path("repro.py").read_text()
    assert "    torch.manual_seed(0)\n    return [function(*arguments)]" in text
    assert "fails as stated" in result.stderr


def test_a_file_that_imports_us(check, python, write):
    registered = WRONG.replace("def inputs", "@backproof.inputs_for(op)\ndef inputs")
    write("wrong.py", "import backproof\n" + registered)
    result = check("wrong.py", *BP101, "--repro", "repro.py")
    assert "fails as stated" in result.stderr
    text = Path("repro.py").read_text()
    assert "It needs torch, backproof and what wrong.py needs." in text
    assert raised(python("repro.py", ours=True)).startswith("AssertionError: BP101")


def test_a_fault_that_only_we_see_has_no_script(check, write):
    factor = '(3 if sys.modules.get("backproof") else 2)'
    write("wrong.py", "import sys\n" + WRONG.replace("3 * g", f"{factor} * g"))
    result = check("wrong.py", *BP101, "--repro", "repro.py")
    assert result.exit_code == 1
    assert result.stderr == (
        "no script shows it, so repro.py was not written: BP101 of Square: run by "
        "itself it does not fail\n"
    )
    assert names() == ["right.py", "wrong.py"]


CLOSURE = """
import torch

def make():
    hidden = torch.ones(3, requires_grad=True)

    class Shift(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * hidden

        @staticmethod
        def backward(ctx, g):
            return g * hidden.detach()

    return Shift

op = make().apply

def inputs(seed=0):
    return torch.ones(3, requires_grad=True)
"""


def test_a_finding_without_a_script_says_why(check, write):
    write("closure.py", CLOSURE)
    result = check("closure.py", "--laws", "BP208", "--repro", "repro.py")
    assert result.exit_code == 1
    assert "not written: BP208 of Shift: `hidden` has no name in" in result.stderr
    assert names() == ["closure.py", "right.py", "wrong.py"]


def test_the_next_finding_is_shown_where_the_first_has_no_script(check, write):
    write("closure.py", CLOSURE.replace("g * hidden.detach()", "2 * g"))
    laws = ("--laws", "BP208,BP107,BP101,BP503,BP203,BP102")
    result = check("closure.py", *laws, "--repro", "repro.py")
    assert "(fails as stated): BP101 of Shift" in result.stderr


def test_a_backward_that_raises(check, python, write):
    write("wrong.py", WRONG.replace("return 3 * g * x", "raise ValueError('no rule')"))
    result = check("wrong.py", "--repro", "repro.py")
    assert result.exit_code == 1
    reason = raised(python("repro.py"))
    assert reason.endswith("backward raises ValueError: no rule")
    assert reason.startswith("AssertionError: BP")


def test_what_ends_the_program_has_no_script(check, write):
    write("wrong.py", WRONG.replace("return 3 * g * x", "raise SystemExit(3)"))
    result = check("wrong.py", "--repro", "repro.py")
    assert result.exit_code == 1
    assert "not written: what is wrong was not measured by a law" in result.stderr
