import json
import math
from importlib.resources import files
from pathlib import Path

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import given, settings

from backproof.errors import BadInput, WrongGradient
from backproof.records import (
    Evidence,
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from backproof.report import Report, Unchecked, environment

SCHEMA = json.loads((files("backproof.report") / "schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

WORDS = st.text(max_size=20)
FLOATS = st.floats() | st.integers(-(2**60), 2**60)
NUMBERS = FLOATS | WORDS.filter(lambda w: w not in ("nan", "inf", "-inf"))
CODES = st.integers(0, 999).map("BP{:03}".format)
LINES = st.none() | st.integers(1, 9999)
EVIDENCE = st.builds(
    Evidence,
    st.none() | st.booleans(),
    WORDS,
    st.dictionaries(WORDS, NUMBERS | st.lists(NUMBERS, max_size=3), max_size=3),
)
OUTCOMES = st.builds(
    Outcome,
    CODES,
    WORDS,
    WORDS,
    st.sampled_from(Status),
    st.lists(EVIDENCE, max_size=2).map(tuple),
)
FINDINGS = st.builds(
    Finding,
    CODES,
    st.sampled_from(Severity),
    WORDS,
    WORDS,
    st.none() | st.builds(Location, WORDS, LINES, LINES, WORDS),
    WORDS,
)
STATUSES = ("right", "refuses", "wrong", "torch", "not_applicable", "skipped")
CONTEXTS = st.fixed_dictionaries({"status": st.sampled_from(STATUSES), "words": WORDS})
JUDGEMENTS = st.builds(
    Judgement,
    WORDS,
    WORDS,
    LINES,
    st.sampled_from(Verdict),
    st.dictionaries(WORDS, st.floats(), max_size=3),
    st.dictionaries(WORDS, st.integers(0, 999), max_size=3),
    st.dictionaries(WORDS, CONTEXTS, max_size=2),
    st.lists(OUTCOMES, max_size=2).map(tuple),
    st.lists(FINDINGS, max_size=2).map(tuple),
)
UNCHECKED = st.lists(st.builds(Unchecked, WORDS, WORDS), max_size=2).map(tuple)
REPORTS = st.builds(
    Report,
    st.integers(0, 2**64).map(lambda seed: environment(torch=None, seed=seed)),
    st.lists(JUDGEMENTS, max_size=2).map(tuple),
    UNCHECKED,
    UNCHECKED,
)


@settings(deadline=None)
@given(REPORTS)
def test_a_report_survives_json(report):
    text = report.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    again = Report.from_json(text)
    assert again == report
    assert again.to_json() == text


@settings(deadline=None)
@given(REPORTS)
def test_json_is_as_the_schema_says(report):
    VALIDATOR.validate(report.to_dict())


def test_the_schema_is_itself_valid_and_strict():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    def objects(node):
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for child in node.values():
                yield from objects(child)
        elif isinstance(node, list):
            for child in node:
                yield from objects(child)

    assert all("additionalProperties" in node for node in objects(SCHEMA))


@pytest.mark.parametrize("path", ["", "subjects/0", "subjects/0/outcomes/0/evidence/0"])
def test_the_schema_refuses_what_it_does_not_know(report, path):
    data = report.to_dict()
    node = data
    for key in filter(None, path.split("/")):
        node = node[int(key)] if key.isdigit() else node[key]
    node["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        VALIDATOR.validate(data)


def test_numbers_that_json_lacks_come_back_as_numbers(report):
    again = Report.from_json(report.to_json())
    bars = [o.evidence[0].numbers["bar"] for o in again.subjects[1].outcomes]
    assert math.isnan(bars[0])
    assert bars[1] == math.inf


def with_numbers(numbers):
    outcome = Outcome("BP101", "", "", Status.HELD, (Evidence(True, "", numbers),))
    return Judgement("f", "", None, Verdict.PASS, outcomes=(outcome,))


def test_arrays_are_no_evidence(of):
    with pytest.raises(TypeError, match="numbers and words"):
        of(with_numbers({"x": object()})).to_json()


def test_numpy_scalars_become_plain_numbers(of):
    numpy = pytest.importorskip("numpy")
    values = {"a": numpy.float32(0.5), "b": numpy.int64(3), "c": numpy.float64("inf")}
    found = json.loads(of(with_numbers(values)).to_json())
    numbers = found["subjects"][0]["outcomes"][0]["evidence"][0]["numbers"]
    assert numbers == {"a": 0.5, "b": 3, "c": "inf"}


@pytest.mark.parametrize(
    ("verdict", "plain", "strict"),
    [
        (Verdict.PASS, 0, 0),
        (Verdict.INCONCLUSIVE, 0, 1),
        (Verdict.SURROGATE, 0, 1),
        (Verdict.WRONG, 1, 1),
        (Verdict.CRASHED, 1, 1),
    ],
)
def test_exit_codes(of, right, verdict, plain, strict):
    report = of(right, Judgement("f", "f.py", 1, verdict))
    assert report.exit_code() == plain
    assert report.exit_code(strict=strict == 1) == strict
    assert report.verdict is verdict


def test_what_could_not_be_run_is_2_and_what_is_wrong_stays_1(of, right, wrong):
    failed = (Unchecked("a.py", "no"),)
    assert of(right, failed=failed).exit_code() == 2
    assert of(wrong, failed=failed).exit_code() == 1
    assert of(right, skipped=failed).exit_code() == 0


def test_nothing_checked_is_not_a_pass(of):
    assert of().exit_code() == 2
    assert of().verdict is Verdict.INCONCLUSIVE


def test_raise_if_wrong_says_what_is_wrong(of, right, wrong, undecided):
    assert of(right).raise_if_wrong().verdict is Verdict.PASS
    of(undecided).raise_if_wrong()
    with pytest.raises(WrongGradient, match="undecided"):
        of(undecided).raise_if_wrong(strict=True)
    with pytest.raises(AssertionError, match="is not forward's derivative"):
        of(right, wrong).raise_if_wrong()


def test_findings_put_errors_before_notes(report):
    assert [f.code for f in report.findings] == ["BP101", "BP108"]


def test_repr_is_the_text(report):
    assert repr(report) == str(report)
    assert "WRONG         OffByTwo" in repr(report)


def test_paths_below_a_folder_are_shortened(of):
    where = Location("/a/b/c.py", 3)
    finding = Finding("BP101", Severity.ERROR, "t", "w", where)
    judgement = Judgement("f", "/a/b/c.py", 1, Verdict.WRONG, findings=(finding,))
    short = of(judgement).relative_to(Path("/a"))
    assert short.subjects[0].file == str(Path("b/c.py"))
    assert short.findings[0].where == Location(str(Path("b/c.py")), 3)
    assert of(judgement).relative_to(Path("/z")) == of(judgement)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is not JSON"),
        ("[]", "its schema is None"),
        ('{"schema": "backproof/9"}', "its schema is 'backproof/9'"),
        ('{"schema": "backproof/1"}', "not a whole report: KeyError"),
    ],
)
def test_what_is_no_report_is_refused(text, words):
    with pytest.raises(BadInput, match=words):
        Report.from_json(text)


def test_reports_compare_by_what_they_say(report, of, right):
    assert report == Report.from_dict(report.to_dict())
    assert report != of(right)
    assert report != "a report"
