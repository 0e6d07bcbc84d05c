"""Custom operators: all that torch's own check looks at, and what it passes wrongly."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import backproof
from backproof.errors import BadInput
from tests.battery.subjects import normal

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load_pairs():
    """The operators of the benchmark that holds opcheck beside this check."""
    spec = importlib.util.spec_from_file_location("pairs", BENCHMARKS / "opcheck.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(BENCHMARKS))
    sys.modules["pairs"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


PAIRS = load_pairs()
each_pair = pytest.mark.parametrize("pair", PAIRS.pairs(), ids=lambda pair: pair.what)


def errors(report):
    return {f.code for f in report.findings if f.severity == "error"}


@each_pair
def test_a_mistake_is_convicted_or_its_refusal_shown(pair):
    report = backproof.check(pair.wrong, *PAIRS.inputs())
    if pair.codes:
        assert report.verdict == "wrong"
        assert errors(report) & set(pair.codes)
        return
    assert report.verdict == "pass"
    statuses = [said["status"] for said in report.subjects[0].contexts.values()]
    assert "refuses" in statuses


TWINS = {pair.right: pair.what for pair in PAIRS.pairs()}


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"not {TWINS[twin]}")
def test_its_twin_passes(twin):
    report = backproof.check(twin, *PAIRS.inputs())
    assert report.verdict == "pass"
    statuses = [said["status"] for said in report.subjects[0].contexts.values()]
    assert set(statuses) == {"right"}


def test_opcheck_passes_the_first_three():
    for pair in PAIRS.pairs()[:3]:
        assert PAIRS.opcheck(pair.wrong) == "passes"


def test_where_a_finding_points():
    doubled = PAIRS.pairs()[0].wrong
    finding = backproof.check(doubled, *PAIRS.inputs()).findings[0]
    source = Path(finding.where.file).read_text().splitlines()
    assert source[finding.where.line - 1].strip() == finding.where.text
    assert finding.where.text == "return 2 * times_output(ctx, g)"


@torch.library.custom_op("backprooftests::returns_its_input", mutates_args=())
def returns_its_input(x: Tensor) -> Tensor:
    return x


returns_its_input.register_autograd(lambda ctx, g: g)


def test_what_torch_itself_forbids_is_a_refusal():
    with pytest.raises(BadInput, match="must not also be an input"):
        backproof.check(returns_its_input, normal(3))


@torch.library.custom_op("backprooftests::without_a_formula", mutates_args=())
def without_a_formula(x: Tensor) -> Tensor:
    return 2 * x


@pytest.mark.parametrize(
    "operator",
    [without_a_formula, torch.ops.backprooftests.without_a_formula.default],
    ids=["object", "overload"],
)
def test_without_a_formula_there_is_nothing_to_check(operator):
    with pytest.raises(BadInput, match="`register_autograd`"):
        backproof.check(operator, normal(3))


def test_a_view_that_the_schema_declares_is_no_alias():
    """And an operator that is taken apart before may hand its input on."""
    for operator, arguments in [
        (torch.ops.aten.transpose.int, (normal(3, 4), 0, 1)),
        (torch.ops.aten.dropout.default, (normal(5), 0.5, False)),
    ]:
        report = backproof.check(operator, *arguments, laws=["BP101", "BP204"])
        assert report.verdict == "pass"
