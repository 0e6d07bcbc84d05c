"""`pytest --backproof`: verify every custom Function that a test suite calls.

Registered by an entry point, so it is loaded in every run of pytest: it does nothing
without the option, and loads torch never.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from backproof.audit.session import Session

_MODES = ("check", "report")
_SWALLOWED = "backproof_swallowed"


class _Mode(argparse.Action):
    """`--backproof` and `--backproof=report`; a path that follows is no mode."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if values is None or values in _MODES:
            namespace.backproof = values or "check"
        else:
            namespace.backproof = "check"
            setattr(namespace, _SWALLOWED, values)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, and the ini values of the marker."""
    group = parser.getgroup("backproof", "backproof: verify custom gradients")
    group.addoption(
        "--backproof",
        action=_Mode,
        nargs="?",
        default=None,
        metavar="check|report",
        help="Verify every custom autograd Function that the tests call; a wrong gradient "
        "fails the run, with =report it is only reported.",
    )
    group.addoption(
        "--backproof-only",
        action="append",
        default=None,
        metavar="PATTERN",
        help="Only Functions whose dotted name matches or contains it; several times.",
    )
    group.addoption(
        "--backproof-seconds",
        type=float,
        default=None,
        metavar="SECONDS",
        help="What all verification together may take (60).",
    )
    group.addoption(
        "--backproof-calls",
        type=int,
        default=None,
        metavar="N",
        help="Calls kept of each Function for each kind of arguments (3).",
    )
    group.addoption(
        "--backproof-memory",
        type=float,
        default=None,
        metavar="MIB",
        help="Arguments that may be kept until the end of a test (256).",
    )
    group.addoption(
        "--backproof-baseline",
        default=None,
        metavar="FILE",
        help="Findings that are known and accepted; what is fixed must be removed.",
    )
    group.addoption(
        "--backproof-accept",
        action="store_true",
        default=False,
        help="Write what is found to the baseline file instead of failing.",
    )
    group.addoption(
        "--backproof-json",
        default=None,
        metavar="FILE",
        help="Write the whole report there; `backproof show FILE` renders it.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Give back a path that was taken for a mode: `pytest --backproof tests`."""
    known = early_config.known_args_namespace
    taken = getattr(known, _SWALLOWED, None)
    if taken is None:
        return
    if f"--backproof={taken}" in args:
        raise pytest.UsageError(
            f"--backproof={taken}: the modes are {' and '.join(_MODES)}"
        )
    known.file_or_dir.append(taken)
    for at, pair in enumerate(itertools.pairwise(args)):
        if pair == ("--backproof", taken):
            args[at] = "--backproof=check"


def pytest_configure(config: pytest.Config) -> None:
    """Start watching, if asked to."""
    config.addinivalue_line(
        "markers",
        "backproof(dtypes=..., devices=...): what the fixture backproof_check goes "
        'through, by name: dtypes=("float64", "bfloat16"), devices=("cpu", "cuda").',
    )
    if config.getoption("backproof") is not None:
        from backproof.audit.session import Session
        from backproof.errors import BadInput

        try:
            session = Session.of(config)
        except BadInput as error:
            raise pytest.UsageError(f"backproof: {error}") from error
        config.pluginmanager.register(_Plugin(session), "backproof-session")
    elif "BACKPROOF_AUDIT_FOLDER" in os.environ:
        config.pluginmanager.register(_UnderAudit(), "backproof-under-audit")


class _Plugin:
    """The hooks of a run with `--backproof`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._timer: Any = None  # the settings of pytest-timeout, while it runs

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._session.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """While the test's fixtures are still alive."""
        timer = self._timer
        if timer is not None:  # our time is not the test's
            item.ihook.pytest_timeout_cancel_timer(item=item)
        self._session.after_test(item)
        if timer is not None:
            item.ihook.pytest_timeout_set_timer(item=item, settings=timer)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, settings: Any) -> None:
        """The timer of pytest-timeout begins to run; None lets it."""
        self._timer = settings

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_cancel_timer(self) -> None:
        """It has ended."""
        self._timer = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A worker of pytest-xdist is about to start."""
        self._session.equip(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """A worker of pytest-xdist has ended, one way or the other."""
        self._session.take(node, error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._session.finish(session)

    @pytest.hookimpl
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        self._session.show(terminalreporter)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self._session.stop()


class _UnderAudit:
    """`backproof audit -- pytest`: verify after each test, as `--backproof` does."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        from backproof.audit.process import verify_now

        verify_now()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each device and type that `backproof_check` goes through."""
    if "backproof_check" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("backproof")
    told = dict(marker.kwargs) if marker is not None else {}
    dtypes = _names(told.pop("dtypes", ("float64", "float32")), "dtypes")
    devices = _names(told.pop("devices", _devices()), "devices")
    if told or (marker is not None and marker.args):
        raise pytest.UsageError(
            f"the marker backproof knows dtypes= and devices=, not {told or marker}"
        )
    pairs = [(device, dtype) for device in devices for dtype in dtypes]
    metafunc.parametrize(
        "backproof_check", pairs, indirect=True, ids=["-".join(pair) for pair in pairs]
    )


@pytest.fixture
def backproof_check(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Check a gradient: `backproof_check(MyFn, x, w)` fails the test where it is wrong.

    It is `backproof.check`, its floating tensors moved to the device and the type of
    this run of the test, and returns the report. The marker `backproof` chooses types
    and devices.
    """
    from backproof.audit.fixture import checking

    device, dtype = request.param
    return checking(device, dtype)


def _names(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(isinstance(name, str) for name in names):
        raise pytest.UsageError(f"the marker backproof: {what}={given!r} are no names")
    return names


def _devices() -> tuple[str, ...]:
    """The CPU, and a GPU if the suite has loaded a torch that has one."""
    torch = sys.modules.get("torch")
    return ("cpu", "cuda") if torch and torch.cuda.is_available() else ("cpu",)
