"""What an audit is told, and what it refuses to be told."""

from __future__ import annotations

import pytest

from backproof.audit.settings import Settings, from_project
from backproof.errors import BadInput


def project(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_what_a_project_says_holds_below_it_and_options_come_first(tmp_path):
    project(
        tmp_path,
        """
        [tool.backproof]
        seconds = 5
        calls = 2
        only = ["mine.*"]
        baseline = "known.toml"
        """,
    )
    below = tmp_path / "src" / "mine"
    below.mkdir(parents=True)
    told = from_project(below)
    assert (told.seconds, told.calls, told.only) == (5, 2, ("mine.*",))
    assert told.baseline == str(tmp_path / "known.toml")
    over = told.over({"seconds": 7.0, "calls": None, "only": ()})
    assert (over.seconds, over.calls, over.only) == (7.0, 2, ("mine.*",))


def test_the_nearest_project_is_the_one(tmp_path):
    project(tmp_path, "[tool.backproof]\ncalls = 2")
    below = tmp_path / "inner"
    below.mkdir()
    project(below, "[project]\nname = 'inner'")
    assert from_project(below) == Settings()


def test_settings_survive_the_environment():
    told = Settings(seconds=1.5, only=("a", "b"), stop_after=3.0, when="step")
    assert Settings.from_json(told.to_json()) == told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.backproof]\nsecond = 5", "no key 'second'; known: seconds, calls"),
        ("[tool.backproof]\ncalls = 2.5", "calls is 2.5, and must be of type int"),
        ("[tool.backproof]\ncalls = true", "calls is True"),
        ("[tool.backproof]\ncalls = 0", "pyproject.toml: [tool.backproof] calls must"),
        ("[tool.backproof]\nseconds = nan", "seconds must be above 0 and finite"),
        ("[tool.backproof]\nmemory = inf", "memory (MiB) must be 0 or more and finite"),
        ("[tool.backproof]\nonly = 'mine'", "only is 'mine', and must be of type list"),
        ("[tool.backproof]\nonly = [1]", "only is [1], and must be a list of names"),
        ("[tool.backproof]\nonly = ['']", "an empty pattern would match every"),
        ("tool = 3\n[x]", None),
        ("[tool]\nbackproof = 3", "tool.backproof is 3, and must be a table"),
        ("[tool.backproof", "pyproject.toml: "),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_and_file(tmp_path, text, words):
    folder = project(tmp_path, text)
    if words is None:  # not for us to judge
        assert from_project(folder) == Settings()
        return
    with pytest.raises(BadInput) as refused:
        from_project(folder)
    assert words in str(refused.value)
    assert "pyproject.toml" in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"seconds": 0.0},
        {"seconds": float("inf")},
        {"calls": -1},
        {"memory": -1.0},
        {"memory": float("nan")},
        {"stop_after": float("nan")},
        {"only": ("",)},
    ],
)
def test_an_option_that_makes_no_sense_is_refused(given):
    with pytest.raises(BadInput):
        Settings().over(given)
