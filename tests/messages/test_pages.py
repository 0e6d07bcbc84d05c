"""What is said of the wrong example of each page that running can convict."""

import pytest

import backproof
from backproof.codes import all_codes, page
from tests.messages.loading import load

OTHERWISE = {
    "BP601": "the example returns what was in memory, which nobody can foresee",
    "BP801": "it needs several processes",
}
CODES = [
    code
    for code in all_codes()
    if "battery" in page(code).seen_by and code not in OTHERWISE
]


def checked(code, folder, laws=None):
    module = load(code.lower(), page(code).wrong, folder)
    options = {}
    if hasattr(module, "EXPECT"):
        options["expect_backward"] = module.EXPECT
    if hasattr(module, "reference"):
        options["reference"] = module.reference
    arguments = module.inputs(seed=0)
    return backproof.check(module.op, *arguments, laws=laws, **options)


@pytest.mark.parametrize("code", CODES)
def test_the_wrong_example(code, tmp_path, shown):
    report = checked(code, tmp_path, laws=[code])
    assert [f.code for f in report.findings], f"{code} is not convicted"
    lines = page(code).wrong.splitlines()
    for finding in report.findings:
        assert finding.where.file == str(tmp_path / f"{code.lower()}.py")
        assert finding.where.text.split("(")[0] in lines[finding.where.line - 1]
        assert finding.where.text
    shown(code, report)


def test_what_is_left_out_is_tested_elsewhere():
    assert set(OTHERWISE) <= set(all_codes())
