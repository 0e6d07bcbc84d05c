"""Each script fails on a page's wrong example, says so, and ends well on the right one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from backproof.battery.check import judge
from backproof.codes import page
from backproof.repro.drafting import draft
from backproof.repro.origin import Origin
from backproof.repro.script import MOST_LINES
from backproof.repro.scripts import SCRIPTS
from backproof.target import Place
from backproof.target.loading import Options, load
from backproof.trial.random_state import preserved, restart

IN_CONTEXT = {
    "BP301": "func_vmap",
    "BP302": "func_grad",
    "BP303": "func_vjp",
    "BP304": "func_jacrev",
    "BP305": "func_jvp",
    "BP407": "fake_tensor_mode",
}
BY_PAGE = sorted({*SCRIPTS, *IN_CONTEXT} - {"BP111"})  # that page's fault is forward's
CASES = {code: page(code) for code in BY_PAGE}

# Runs scripts one after the other, so that torch is loaded once.
RUNNER = """
import sys, runpy, json, random
import numpy, torch
sys.modules["backproof"] = None
said = {}
for path in sys.argv[1:]:
    torch.manual_seed(7)
    try:
        runpy.run_path(path, run_name="__main__")
        said[path] = ""
    except BaseException as error:
        said[path] = f"{type(error).__name__}: {error}"
    sys.modules.pop("under_test", None)
sys.stderr.write(json.dumps(said))
"""


def drafted(path, code, name="op", **options):
    """The script for the first finding of `code` in the file at `path`."""
    found = []
    place = Place(str(path), file=str(path))
    given = Options(**options)
    origin = Origin(place, name, path.with_name("repro.py"), **options)
    contexts = IN_CONTEXT.get(code, "none")
    with preserved():
        restart(0)
        candidate = load(place, given).candidates[0]

        def write(outcome, examination):
            if outcome.code == code and not found:
                found.append(draft(outcome, examination, origin))

        laws = [code] if contexts == "none" else []
        judge(
            candidate.subject,
            candidate.cases(),
            laws=laws,
            contexts=contexts,
            on_broken=write,
        )
    (script,) = found
    return script


def put(script, path):
    """The script and its numbers as files."""
    import torch

    path.write_text(script.text)
    if script.saved:
        torch.save(script.saved, path.with_suffix(".pt"))


def run(paths):
    """What each script raises, empty for nothing."""
    done = subprocess.run(
        [sys.executable, "-P", "-B", "-c", RUNNER, *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stderr.splitlines()[-1])


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """{code: the path of its script}, each beside the wrong example of its page."""
    paths = {}
    for code, one in CASES.items():
        folder = tmp_path_factory.mktemp(code)
        (folder / "ops.py").write_text(one.wrong)
        paths[code] = folder / "repro.py"
        put(drafted(folder / "ops.py", code), paths[code])
    return paths


@pytest.fixture(scope="module")
def on_wrong(scripts):
    return run(scripts.values())


@pytest.fixture(scope="module")
def on_right(scripts, on_wrong):
    for code, path in scripts.items():
        (path.parent / "ops.py").write_text(CASES[code].right)
    return run(scripts.values())


@pytest.mark.parametrize("code", BY_PAGE)
def test_it_fails_for_the_reason_that_it_names(code, scripts, on_wrong):
    said = on_wrong[str(scripts[code])]
    assert said.startswith(f"AssertionError: {code}: ")


@pytest.mark.parametrize("code", BY_PAGE)
def test_it_ends_well_when_the_fault_is_mended(code, scripts, on_right):
    assert on_right[str(scripts[code])] == ""


@pytest.mark.parametrize("code", BY_PAGE)
def test_it_is_short_and_says_what_it_needs(code, scripts):
    text = scripts[code].read_text()
    assert text.startswith(f'"""{code} in ')
    assert text.count("\n") <= MOST_LINES == 40
    assert "Run `python repro.py`" in text
    assert "It needs torch and what ops.py needs." in text
    assert "backproof" not in text


FORWARD = """
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3 + 1e-3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x**2

op = Cube.apply

def plain(x):
    return x**3

def inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(6, dtype=torch.double, generator=generator).requires_grad_()
"""


def test_a_forward_beside_its_reference(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(FORWARD)
    put(drafted(path, "BP111", reference="plain"), tmp_path / "repro.py")
    (said,) = run([tmp_path / "repro.py"]).values()
    assert said.startswith("AssertionError: BP111: forward's `output` is not")
    path.write_text(FORWARD.replace(" + 1e-3", ""))
    assert run([tmp_path / "repro.py"]) == {str(tmp_path / "repro.py"): ""}


SOFT = """
import torch

class Hard(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return torch.round(x) * w

    @staticmethod
    def backward(ctx, g):
        return g, 2 * g

op = Hard.apply

def soft(x, w):
    return x + w

def inputs(seed=0):
    torch.manual_seed(seed)
    x, w = torch.randn(2, 5, dtype=torch.double)
    return x.requires_grad_(), w.requires_grad_()
"""


def test_a_soft_function_that_is_meant(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(SOFT)
    put(drafted(path, "BP107", expect="soft"), tmp_path / "repro.py")
    (said,) = run([tmp_path / "repro.py"]).values()
    assert said.startswith("AssertionError: BP107: 5 of 5 elements are not")
    path.write_text(SOFT.replace("2 * g", "g"))
    assert run([tmp_path / "repro.py"]) == {str(tmp_path / "repro.py"): ""}


COMPLEX = """
import torch

class Gain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, (x * x).real

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return g * w.conj() + 2 * h * x.conj(), g * x

op = Gain.apply

def inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x, w = torch.randn(2, 3, dtype=torch.cfloat, generator=generator)
    yield x.requires_grad_(), w.requires_grad_()
"""


def test_complex_inputs_in_float64_and_two_outputs(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text(COMPLEX)
    script = drafted(path, "BP101")
    put(script, tmp_path / "repro.py")
    (said,) = run([tmp_path / "repro.py"]).values()
    assert said.startswith("AssertionError: BP101: backward claims ")
    assert str(script.saved["arguments"][0].dtype) == "torch.complex128"
    path.write_text(COMPLEX.replace("g * x\n", "g * x.conj()\n"))
    assert run([tmp_path / "repro.py"]) == {str(tmp_path / "repro.py"): ""}


def test_every_script_is_a_file_of_its_own():
    folder = Path(sys.modules["backproof.repro.scripts"].__file__).parent
    members = {p.stem for p in folder.glob("*.py")} - {"__init__"}
    named = {write.__name__ for write in SCRIPTS.values()}
    assert members == {*named, "raises", "in_context"}
