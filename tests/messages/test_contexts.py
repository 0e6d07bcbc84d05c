"""What is said of a few ways of running that come out wrong."""

import pytest

import backproof
from backproof.codes import page
from tests.messages.loading import load
from tests.messages.subjects import CONTEXTS


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_context(context, tmp_path, shown):
    code = CONTEXTS[context]
    module = load(code.lower(), page(code).wrong, tmp_path)
    report = backproof.check(
        module.op, *module.inputs(seed=0), laws=[], contexts=context
    )
    assert code in {f.code for f in report.findings}
    shown(f"context_{context}", report)
