"""Every guilty member is convicted under its own code, every innocent one acquitted."""

import pytest
import torch

import backproof
from backproof.records import Severity, Verdict
from tests.zoo import (
    cotangent,
    digits,
    healthy,
    innocents,
    memory,
    structure,
    surrogates,
    wrong_gradient,
)
from tests.zoo.member import BFLOAT16, GUILTY, INNOCENT

ROOMS = (
    cotangent,
    digits,
    healthy,
    innocents,
    memory,
    structure,
    surrogates,
    wrong_gradient,
)
CODES = ("BP101", "BP104", "BP106", "BP107", "BP109", "BP110", "BP501", "BP502")


def each(members):
    return pytest.mark.parametrize(
        ("member", "dtype"),
        [
            pytest.param(m, dtype, id=f"{m.name}-{str(dtype).removeprefix('torch.')}")
            for m in members
            for dtype in m.dtypes
        ],
    )


def errors(report):
    return {f.code for f in report.findings if f.severity is Severity.ERROR}


@each(GUILTY)
def test_convicted(member, dtype):
    report = backproof.check(*member.in_type(dtype), **member.options)
    surrogate = member.code == "BP106"
    assert report.verdict is (Verdict.SURROGATE if surrogate else Verdict.WRONG), report
    assert member.code in errors(report), report


@each(INNOCENT)
def test_acquitted(member, dtype):
    report = backproof.check(*member.in_type(dtype), **member.options)
    assert not errors(report), report
    fine = (Verdict.PASS, Verdict.INCONCLUSIVE)
    assert report.verdict in (fine if dtype == BFLOAT16 else fine[:1]), report


def test_every_code_has_its_culprits():
    convicting = [member.code for member in GUILTY]
    assert set(convicting) >= set(CODES)
    assert all(convicting.count(code) >= 3 for code in CODES)
    assert len(INNOCENT) >= len(GUILTY) // 2
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert sum(dtype in member.dtypes for member in GUILTY) >= 40
