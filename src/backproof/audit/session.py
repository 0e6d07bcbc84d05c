"""A run of pytest under audit: what each hook of the plugin does."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from backproof.audit import baseline
from backproof.audit.settings import Settings, from_project
from backproof.audit.watching import Watching
from backproof.errors import BadInput
from backproof.records import Verdict
from backproof.report import Report
from backproof.report.audited import audited, first_finding
from backproof.report.merging import merged_reports

if TYPE_CHECKING:
    import pytest

_KEY = "backproof"  # of what a worker of xdist hands over
_FAILED = 1  # pytest's exit code for tests that failed
_OK, _NOTHING_RAN = 0, 5


class Session:
    """Watches in this process; in the controller of xdist it gathers what workers saw."""

    def __init__(
        self, config: pytest.Config, settings: Settings, accepted: list[baseline.Entry]
    ) -> None:
        self._config, self._settings, self._accepted = config, settings, accepted
        self._watching = Watching(settings)
        self._parts: list[Report] = []
        self._lost: list[str] = []
        self._report: Report | None = None
        self._held: baseline.Held | None = None

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
        missing_is_fine = writes and not path.exists()
        known = settings.baseline and not missing_is_fine
        return cls(config, settings, baseline.read(path) if known else [])

    def start(self) -> None:
        """Watch, unless the tests run in workers."""
        if not self._is_controller():
            self._watching.start()

    def stop(self) -> None:
        """Leave torch as it was, whatever has happened."""
        self._watching.stop()

    def after_test(self, item: pytest.Item) -> None:
        """Verify what the test has called, before its fixtures go."""
        self._watching.verify(last=False)
        for name, verdict in self._watching.fresh_verdicts():
            if verdict is not Verdict.PASS:
                item.user_properties.append((f"backproof {name}", verdict.value))

    def take(self, node: Any, error: Any) -> None:
        """The report of a worker, or that there is none."""
        handed = getattr(node, "workeroutput", {}).get(_KEY)
        if handed is not None:
            if handed:
                self._parts.append(Report.from_json(handed))
        else:
            name = getattr(getattr(node, "gateway", None), "id", "a worker")
            self._lost.append(
                f"{name} died ({error}): what it saw is not in this report"
            )

    def finish(self, session: pytest.Session) -> None:
        """Make the report; a worker hands it over, the controller decides with it."""
        self._watching.verify()
        own = self._watching.report()
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_KEY] = own.to_json(indent=None) if own is not None else ""
            return
        parts = [*self._parts, *([own] if own is not None else [])]
        report = merged_reports(parts)
        if report is None:
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

    def show(self, terminal: pytest.TerminalReporter) -> None:
        """The section of the terminal summary."""
        if self._report is None and not self._lost:
            return
        terminal.section("backproof")
        for line in self._lost:
            terminal.line(line)
        if self._report is None or self._held is None:
            return
        writer = terminal._tw
        width = max(60, min(100, writer.fullwidth))
        text = audited(
            self._report,
            width=width,
            colour=bool(writer.hasmarkup),
            accepted=self._held.accepted,
            title=False,
        )
        for line in text.splitlines():
            terminal.line(line)
        path = Path(self._settings.baseline)
        for entry in self._held.fixed:
            terminal.line(f"baseline: {baseline.in_words(entry, path)}")
        if self._config.getoption("backproof_accept"):
            terminal.line(f"baseline: written to {path}")

    def _write(self, report: Report) -> None:
        """The report and the baseline, where they were asked for."""
        target = self._config.getoption("backproof_json")
        if target is not None:
            Path(target).write_text(report.to_json() + "\n", encoding="utf-8")
        if self._config.getoption("backproof_accept"):
            text = baseline.of(report, self._accepted)
            Path(self._settings.baseline).write_text(text, encoding="utf-8")
            self._accepted = baseline.read(Path(self._settings.baseline))

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

    def _is_controller(self) -> bool:
        """Whether xdist has tests run elsewhere."""
        options = self._config.option
        spread = getattr(options, "dist", "no") != "no" or getattr(options, "tx", None)
        return bool(spread) and not hasattr(self._config, "workerinput")
