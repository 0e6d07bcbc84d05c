"""What is said of each mistake in the form of a class."""

from pathlib import Path

import pytest

import backproof
from tests.definition.form.malformed import MALFORMED
from tests.messages.conftest import compare

BASE = backproof.Function
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_class(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(backproof.MalformedFunction) as caught:
        MALFORMED[name].build(BASE)
    lines = str(caught.value).splitlines()
    assert all(len(line) <= 80 or "`" in line for line in lines)
    assert all(line.count("`") % 2 == 0 for line in lines), "code runs over a line"
    compare(f"malformed_{name}", str(caught.value))
