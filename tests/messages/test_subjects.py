"""What is said of each cause, of crashes, and of mistakes that pages do not show."""

import pytest
import torch

import backproof
from tests.messages.loading import load
from tests.messages.subjects import CAUSES, LAWS, OUTSIDE, RAISES


def tensor(*shape, seed):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random).double().requires_grad_()


ARGUMENTS = {
    "Tanh": lambda: (tensor(4, 6, seed=0),),
    "Mixed": lambda: (tensor(5, seed=0),),
    "Sine": lambda: (tensor(5, seed=0),),
    "Square": lambda: (tensor(5, seed=0),),
    "Exp": lambda: (tensor(5, seed=0),),
    "Scale": lambda: (tensor(5, seed=0), 3.0),
    "Linear": lambda: (tensor(5, 4, seed=0), tensor(4, 4, seed=1), tensor(4, seed=2)),
}


def checked(name, source, folder, **options):
    module = load(name, source, folder)
    (subject,) = (
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, torch.autograd.Function)
    )
    return backproof.check(subject, *ARGUMENTS[subject.__name__](), **options)


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause(name, tmp_path, shown):
    report = checked(name, CAUSES[name], tmp_path, laws=["BP101"])
    assert "BP101" in {f.code for f in report.findings}
    shown(f"cause_{name}", report, any_direction=True)


@pytest.mark.parametrize("name", RAISES)
def test_what_raises(name, tmp_path, shown):
    report = checked(name, RAISES[name], tmp_path)
    assert report.findings
    shown(f"crash_{name}", report)


@pytest.mark.parametrize("code", LAWS)
def test_a_law(code, tmp_path, shown):
    report = checked(code.lower(), LAWS[code], tmp_path, laws=[code])
    assert {f.code for f in report.findings} == {code}
    shown(f"also_{code}", report)


def test_what_is_not_explained_says_so(tmp_path):
    source = CAUSES["not_explained"]
    report = checked("not_explained", source, tmp_path, laws=["BP101"])
    assert "not explained" in report.findings[0].words


def test_what_native_code_computes(tmp_path, shown):
    report = checked("outside", OUTSIDE, tmp_path, laws=["BP101"])
    shown("outside", report)


def test_a_function_without_text_keeps_the_finding(shown):
    names = {}
    exec(compile(CAUSES["scaled"], "<nowhere>", "exec"), names)
    report = backproof.check(names["Tanh"], *ARGUMENTS["Tanh"](), laws=["BP101"])
    assert report.findings[0].where is None
    shown("without_text", report)
