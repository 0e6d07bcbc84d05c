"""Programs of several ranks under `backproof audit`, as a launcher would start them."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[3]


@dataclass
class Rank:
    """What one supervisor left: its exit code, its standard error, its report."""

    code: int
    out: str
    err: str
    report: dict | None

    def verdicts(self):
        return {one["name"]: one["verdict"] for one in self.report["subjects"]}

    def notes(self, name):
        return self._subject(name)["usage"]["notes"]

    def words(self, name):
        return " ".join(
            evidence["words"]
            for outcome in self._subject(name)["outcomes"]
            for evidence in outcome["evidence"]
        )

    def findings(self, name):
        return self._subject(name)["findings"]

    def _subject(self, name):
        (one,) = [s for s in self.report["subjects"] if s["name"] == name]
        return one


@pytest.fixture
def audit_ranks(tmp_path):
    """audit_ranks(program, *options, ranks=2): one `backproof audit` for each rank."""
    started = []

    def start(program, *options, ranks=2, arguments=(), environment=None):
        for rank in range(ranks):
            folder = tmp_path / f"rank{rank}"
            folder.mkdir()
            report = ["--format", "json", "-o", str(folder / "report.json")]
            given = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MEET": str(tmp_path / "meet"),
                "OMP_NUM_THREADS": "1",
                **(environment or {}),
            }
            started.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "backproof", "audit", *options),
                        *(*report, str(PROGRAMS / program), *arguments),
                    ],
                    env=given,
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return [
            ended(process, tmp_path / f"rank{k}") for k, process in enumerate(started)
        ]

    def ended(process, folder):
        out, err = process.communicate(timeout=200)
        file = folder / "report.json"
        report = json.loads(file.read_text()) if file.exists() else None
        return Rank(process.returncode, out, err, report)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def took():
    """took(): seconds since the test began."""
    start = time.monotonic()
    return lambda: time.monotonic() - start
