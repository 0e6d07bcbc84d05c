import pytest

from backproof.codes import all_codes
from backproof.records import Judgement, Verdict
from backproof.report import Report, environment


def test_explain_a_code(backproof):
    result = backproof("explain", "bp101")
    assert result.exit_code == 0
    assert result.stdout.startswith("BP101  ")
    assert "Wrong:" in result.stdout


def test_explain_lists_all(backproof):
    lines = backproof("explain").stdout.splitlines()
    assert [line[:5] for line in lines if line.startswith("BP")] == list(all_codes())


def test_explain_an_unknown_code(backproof):
    result = backproof("explain", "BP100")
    assert result.exit_code == 2
    assert "there is no code 'BP100'; the nearest are BP101" in result.stderr


@pytest.fixture
def saved(tmp_path):
    report = Report(
        environment(torch=None, seed=0), (Judgement("F", "f.py", 1, Verdict.PASS),)
    )
    path = tmp_path / "report.json"
    path.write_text(report.to_json())
    return path


def test_show_a_saved_report(backproof, saved):
    result = backproof("show", saved)
    assert result.exit_code == 0
    assert result.stdout.startswith("pass          F  f.py:1\n")
    assert "evidence for F" in backproof("show", saved, "-v").stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "it is not JSON"),
        ('{"schema": "x"}', "its schema is 'x'"),
        (None, "No such"),
    ],
)
def test_show_what_is_no_report(backproof, tmp_path, content, words):
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)
    result = backproof("show", path)
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())  # a long path breaks the line
    assert said.startswith(f"Error: {path}: ")
    assert words in said


def test_codes_that_nobody_asks_yet_are_said_to_be_so(backproof):
    """The laws and contexts of the battery are what this version asks."""
    from backproof.battery.contexts import CONTEXTS
    from backproof.battery.laws import LAWS
    from backproof.codes import all_codes

    asked, _, later = backproof("explain").stdout.partition("\n\nNot asked yet")
    in_use = {law.code for law in LAWS} | {context.code for context in CONTEXTS}
    assert {line.split()[0] for line in asked.splitlines()} == in_use
    listed = {line.split()[0] for line in later.splitlines()[1:]}
    assert listed == set(all_codes()) - in_use
    assert "BP801" in listed
    assert backproof("explain", "BP801").stdout.endswith(
        "Not asked yet in this version.\n"
    )
    assert "Not asked" not in backproof("explain", "BP101").stdout


def test_show_says_its_exit_codes(backproof):
    assert "Exit codes: 0 it was shown" in backproof("show", "--help").stdout
