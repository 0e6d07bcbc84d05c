"""Every law says what must hold, what it costs and what it does not see."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import backproof.battery.laws
from backproof import codes
from backproof.battery.law import Law
from backproof.battery.laws import LAWS
from tests.battery.referee import REFEREE

FOLDER = Path(backproof.battery.laws.__file__).parent
FILES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "__init__")
each_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.code)


def test_every_file_is_a_law_and_is_asked():
    assert sorted(law.name for law in LAWS) == FILES
    for name in FILES:
        found = getattr(importlib.import_module(f"backproof.battery.laws.{name}"), name)
        assert isinstance(found, Law)
        assert found in LAWS


def test_every_law_has_a_code_of_its_own():
    assert len({law.code for law in LAWS}) == len(LAWS)


def test_every_code_that_the_battery_sees_is_a_law():
    seen = {c for c in codes.all_codes() if "battery" in codes.page(c).seen_by}
    assert {law.code for law in LAWS} == seen


def test_structure_comes_before_numbers():
    order = [law.code for law in LAWS]
    assert max(order.index("BP501"), order.index("BP502")) < order.index("BP101")
    assert order.index("BP104") < order.index("BP101")
    assert max(order.index(c) for c in REFEREE) < order.index("BP505")


def test_what_decides_how_others_may_ask_comes_first():
    assert LAWS[0].code == "BP206"  # whether a graph bears a second backward


def test_what_may_end_the_process_comes_last():
    assert LAWS[-1].code == "BP505"  # native code that trusts its sizes


@each_law
def test_its_docstring_says_what_it_must(law):
    text = inspect.getdoc(law.measure)
    first = text.splitlines()[0]
    assert law.text == first
    assert first.endswith(".")
    assert re.search(r"^Cost: ", text, re.MULTILINE)
    assert re.search(r"^Blind to: ", text, re.MULTILINE)
    assert text.index("Cost:") < text.index("Blind to:")


@each_law
def test_its_module_names_the_code(law):
    module = inspect.getmodule(law.measure)
    assert law.code in module.__doc__.splitlines()[0]


@each_law
def test_its_code_has_a_page(law):
    page = codes.page(law.code)
    assert page.title
    assert page.remedy
