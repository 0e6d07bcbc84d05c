import io
import sys
import time

from backproof.cli import progress
from backproof.cli.events import Begun, Failed


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen_for(monkeypatch):
    """A terminal in place of standard error; pytest undoes that between fixtures."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def begun(index, count):
    return Begun(index, count, f"a.py::F{index}", f"F{index}", "a.py", 1)


def test_several_subjects_show_a_bar(monkeypatch):
    screen = screen_for(monkeypatch)
    with progress.Progress(1) as bar:
        bar.note(begun(0, 3))
        bar.note(Failed("a.py::F0", "no"))
        bar.note(begun(1, 3))
    assert "F1" in screen.getvalue()
    assert "1/3" in screen.getvalue()


def test_one_quick_subject_shows_none(monkeypatch):
    screen = screen_for(monkeypatch)
    with progress.Progress(1) as bar:
        bar.note(begun(0, 1))
    assert screen.getvalue() == ""


def test_one_slow_subject_shows_one(monkeypatch):
    screen = screen_for(monkeypatch)
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    with progress.Progress(1) as bar:
        bar.note(begun(0, 1))
        deadline = time.monotonic() + 20
        while "0/1" not in screen.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "0/1" in screen.getvalue()


def test_no_terminal_no_bar(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.Progress(5) as bar:
        bar.note(begun(0, 3))
        bar.note(begun(1, 3))
    assert stream.getvalue() == ""
