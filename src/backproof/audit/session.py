"""A run of pytest under audit: what each hook of the plugin does."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from backproof.audit import baseline
from backproof.audit.journal import Journal
from backproof.audit.left_behind import left_behind
from backproof.audit.settings import Settings, from_project
from backproof.audit.watching import Watching
from backproof.errors import BadInput
from backproof.records import Verdict
from backproof.report import Report
from backproof.report.audited import audited, first_finding
from backproof.report.environment import environment
from backproof.report.files import require_writable, write_whole
from backproof.report.layout import wrapped
from backproof.report.merging import merged_reports

if TYPE_CHECKING:
    import pytest

_KEY = "backproof"  # of what a worker of xdist hands over
_JOURNAL = "backproof_journal"  # of what it is told: where to write what it replays
_FAILED = 1  # pytest's exit code for tests that failed
_OK, _NOTHING_RAN = 0, 5
_FAILS = "The run fails for what is listed here; with --backproof=report it would not."


class Session:
    """Watches in this process; in the controller of xdist it gathers what workers saw."""

    def __init__(
        self, config: pytest.Config, settings: Settings, accepted: list[baseline.Entry]
    ) -> None:
        self._config, self._settings, self._accepted = config, settings, accepted
        told = getattr(config, "workerinput", {}).get(_JOURNAL)
        self._watching = Watching(settings, Journal(Path(told)) if told else None)
        self._parts: list[Report] = []
        self._lost: list[str] = []
        self._report: Report | None = None
        self._held: baseline.Held | None = None
        self._fails = False  # the run, and no test has
        self._journals: tempfile.TemporaryDirectory[str] | None = None
        # Tests may change the directory.
        self._baseline = Path(settings.baseline).absolute()
        json = config.getoption("backproof_json")
        self._json = Path(json).absolute() if json is not None else None

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        """As the options of `config` and `[tool.backproof]` say.

        Raises:
            BadInput: one of them makes no sense, or a file is not there.
        """
        given = {
            "seconds": config.getoption("backproof_seconds"),
            "calls": config.getoption("backproof_calls"),
            "memory": config.getoption("backproof_memory"),
            "only": tuple(config.getoption("backproof_only") or ()),
            "baseline": config.getoption("backproof_baseline"),
        }
        settings = from_project(config.rootpath).over(given)
        writes = config.getoption("backproof_accept")
        if writes and not settings.baseline:
            raise BadInput(
                "--backproof-accept needs --backproof-baseline FILE to write to"
            )
        path = Path(settings.baseline)
        if writes:
            require_writable(path, "--backproof-baseline")
        json = config.getoption("backproof_json")
        if json is not None:
            require_writable(Path(json), "--backproof-json")
        missing_is_fine = writes and not path.exists()
        known = settings.baseline and not missing_is_fine
        return cls(config, settings, baseline.read(path) if known else [])

    def start(self) -> None:
        """Watch, unless the tests run in workers, or not at all."""
        if not self._is_controller() and not self._only_collects():
            self._watching.start()

    def stop(self) -> None:
        """Leave torch as it was, whatever has happened."""
        self._watching.stop()
        if self._journals is not None:
            self._journals.cleanup()

    def equip(self, node: Any) -> None:
        """Tell a worker where to write what it replays, in case it dies of it."""
        if self._journals is None:
            self._journals = tempfile.TemporaryDirectory(prefix="backproof-")
        name = Path(self._journals.name) / node.gateway.id
        node.workerinput[_JOURNAL] = str(name)

    def after_test(self, item: pytest.Item) -> None:
        """Verify what the test has called, before its fixtures go."""
        try:
            self._watching.verify(last=False)
        except Exception as error:  # a defect of ours is no failure of the test
            self._lose(error)
            return
        for name, verdict in self._watching.fresh_verdicts():
            if verdict is not Verdict.PASS:
                item.user_properties.append((f"backproof {name}", verdict.value))

    def take(self, node: Any, error: Any) -> None:
        """The report of a worker, or that there is none."""
        handed = getattr(node, "workeroutput", {}).get(_KEY)
        if handed is not None:
            if handed:
                self._parts.append(Report.from_json(handed))
            return
        why = f" ({error})" if error else ""
        self._lost.append(
            f"{node.gateway.id} ended before it could report{why}: of what it saw, only "
            "the names are known"
        )
        if self._journals is not None:
            made = environment(torch=None, seed=self._settings.seed)
            self._parts += [
                Report(made, tuple(left_behind(file, "crashed")))
                for file in Path(self._journals.name).glob(f"{node.gateway.id}.*.met")
            ]

    def finish(self, session: pytest.Session) -> None:
        """Make the report; a worker hands it over, the controller decides with it."""
        try:
            self._finish(session)
        except Exception as error:  # the tests' own results must be told all the same
            self._lose(error)
            if self._config.getoption("backproof") == "check":
                session.exitstatus = session.exitstatus or _FAILED

    def _lose(self, error: Exception) -> None:
        said = f"the audit itself failed: {type(error).__name__}: {error}"
        if said not in self._lost:
            self._lost.append(said)

    def _finish(self, session: pytest.Session) -> None:
        self._watching.verify()
        own = self._watching.report()
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_KEY] = own.to_json(indent=None) if own is not None else ""
            return
        parts = [*self._parts, *([own] if own is not None else [])]
        report = merged_reports(parts)
        if report is None:
            if self._json is not None and not self._only_collects():
                made = environment(torch=None, seed=self._settings.seed)
                write_whole(self._json, Report(made).to_json() + "\n")
            return
        self._report = report = report.relative_to(self._config.rootpath)
        self._write(report)
        self._held = baseline.hold(report, self._accepted)
        self._tell_junit(report)
        held = self._held
        strict = self._config.getoption("backproof") == "check"
        failed = strict and bool(held.failing or held.fixed)
        if failed and session.exitstatus in (_OK, _NOTHING_RAN):
            session.exitstatus = _FAILED
            self._fails = True

    def show(self, terminal: pytest.TerminalReporter) -> None:
        """The section of the terminal summary."""
        if self._only_collects():
            return
        terminal.section("backproof")
        writer = terminal._tw
        width = max(60, min(100, writer.fullwidth))
        colour = bool(writer.hasmarkup)
        blocks = ["\n".join(wrapped(said, "", width)) for said in self._lost]
        if self._report is not None and self._held is not None:
            accepted = self._held.accepted
            blocks.append(
                audited(
                    self._report,
                    width=width,
                    colour=colour,
                    accepted=accepted,
                    title=False,
                )
            )
        elif not self._lost:
            blocks.append("no test has loaded torch: there is nothing to verify")
        blocks += ["\n".join(wrapped(said, "", width)) for said in self._told()]
        for line in "\n".join(blocks).splitlines():
            terminal.line(line)

    def _told(self) -> list[str]:
        """What there is to say of the run, rather than of a Function."""
        if self._held is None:
            return []
        path = Path(self._settings.baseline)
        told = [f"baseline: {baseline.in_words(one, path)}" for one in self._held.fixed]
        if self._config.getoption("backproof_accept"):
            told.append(f"baseline: written to {path}")
        return [*told, _FAILS] if self._fails else told

    def _write(self, report: Report) -> None:
        """The report and the baseline, where they were asked for."""
        if self._json is not None:
            write_whole(self._json, report.to_json() + "\n")
        if self._config.getoption("backproof_accept"):
            write_whole(self._baseline, baseline.of(report, self._accepted))
            self._accepted = baseline.read(self._baseline)

    def _tell_junit(self, report: Report) -> None:
        """A property of the suite for each Function, in `--junitxml`."""
        with suppress(ImportError, KeyError, AttributeError):
            from _pytest.junitxml import xml_key

            xml = self._config.stash.get(xml_key, None)
            if xml is None:
                return
            for subject in report.subjects:
                said = f"{subject.verdict.value} {first_finding(subject)}".strip()
                xml.add_global_property(f"backproof.{subject.name}", said)

    def _only_collects(self) -> bool:
        return bool(self._config.option.collectonly)

    def _is_controller(self) -> bool:
        """Whether xdist has tests run elsewhere."""
        options = self._config.option
        spread = getattr(options, "dist", "no") != "no" or getattr(options, "tx", None)
        return bool(spread) and not hasattr(self._config, "workerinput")
