"""Suites of published packages, plainly and under `pytest --backproof`: what is found?

The thirteen packages in the table `SUITES` have Functions and tests of their own, which
nobody wrote for backproof. Each suite runs twice: plainly, and with every custom
Function that its tests call audited. Does a test end otherwise? Which Functions are
seen, what is said of them, and how much longer does it take?

FOLDER holds one checkout a package, by the names of the table. `--prepare` prints the
commands that make them; nothing here reaches the network. The counts are of every
Function that a suite reaches, those of its dependencies too. Seconds are wall clock;
`--json` keeps CPU seconds beside them, every report whole, and each test's outcome.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from running import Target, judge_targets, print_table

_VERDICTS = ("pass", "surrogate", "wrong", "inconclusive", "crashed")
_TOLD = ("wrong", "crashed")  # one by one, below the table
_LIMIT = 1800.0  # seconds of one run
_LAST_LINES = 5  # of a run that broke; `--json` keeps more
_KEPT_LINES = 60
_MOST_CHANGES = 10  # tests that end otherwise, of one suite
_PYTEST = "pytest==8.3.5"  # brevitas needs pytest-cases, which stops pytest 9

# PyPI's torchvision is built for CUDA; beside another torch its extension does not load,
# and its Python part then fails to register shapes for operators that are not there.
_STUB = "vision_operators"
_STUB_SOURCE = '''\
"""Declares the operators whose shapes torchvision registers while it is imported."""

from torch.library import Library

declared = Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
'''
_WITH_STUB = f"pytest -p {_STUB}"
_TORCHVISION = "torchvision==0.28.0"


@dataclass(frozen=True)
class Suite:
    """A package's own tests.

    `command` runs in the checkout, or `away` from it, where `{checkout}` stands for it.
    `path` are folders of the checkout that are imported from, `beside` other checkouts.
    `folders` is what to check out: all, or less where the whole is large. `alone` are
    requirements to install without what they ask for. `plain` is the result that the
    suite is known to have by itself.
    """

    name: str
    repository: str
    commit: str
    command: str
    plain: str
    path: tuple[str, ...] = (".",)
    beside: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    away: bool = False


SUITES = (
    Suite(
        "entmax",
        "deep-spin/entmax",
        "c2bec6d5e7d649cba7766c2172d89123ec2a6d70",
        "pytest entmax",
        "127 passed",
    ),
    Suite(
        "zuko",
        "probabilists/zuko",
        "1063ae415bcd53bfad1da3a27b5519491365afdd",
        "pytest tests",
        "162 passed",
    ),
    Suite(
        "geotorch",
        "Lezcano/geotorch",
        "541d0428287f543867127e902857bc7764b68072",
        "pytest test",
        "2 failed, 22 passed",
    ),
    Suite(
        "linear_operator",
        "cornellius-gp/linear_operator",
        "386cff780e1fc17317d3c1ce19604b5637736ca5",
        "pytest test/functions",
        "62 passed",
        requirements=("jaxtyping", "mpmath", "scipy"),
    ),
    Suite(
        "gpytorch",
        "cornellius-gp/gpytorch",
        "7c4ec80f0f05cf530348a8a8972d67a11dd26ed2",
        "pytest test/functions test/kernels/test_rbf_kernel.py"
        " test/kernels/test_matern_kernel.py",
        "81 passed",
        beside=("linear_operator",),
        requirements=("jaxtyping", "mpmath", "scikit-learn", "scipy"),
    ),
    Suite(
        "norse",
        "norse/norse",
        "065a3b45cf13bc8156d18987380f6d26c09f08a2",
        f"{_WITH_STUB} norse/torch/functional",
        "182 passed, 1 skipped",
        requirements=("matplotlib", "nir", "nirtorch", "onnx", "tensorboard"),
        alone=(_TORCHVISION,),
    ),
    Suite(
        "snntorch",
        "jeshraghian/snntorch",
        "634fc22385ec5581998e62787bbe39b53662140f",
        f"{_WITH_STUB} tests",
        "141 passed, 2 xfailed",
        folders=("snntorch", "tests"),
        requirements=("nir", "nirtorch"),
        alone=(_TORCHVISION,),
    ),
    Suite(
        "spikingjelly",
        "fangwei123456/spikingjelly",
        "afb132264a8cbe38d0f221dcef04053e6ba134d3",
        f"{_WITH_STUB}"
        " test/activation_based/test_neuron_kernel_surrogate_contract.py"
        " test/activation_based/test_online_learning.py"
        " test/activation_based/test_checkpointing.py"
        " test/activation_based/test_functional_neuron.py",
        "135 passed",
        requirements=("pillow", "tensorboard", "tqdm"),
        alone=(_TORCHVISION,),
    ),
    Suite(
        "kymatio",
        "kymatio/kymatio",
        "11552ed5533d566e6c60d77eecccb37dfb229dec",
        "pytest tests/scattering1d/test_torch_scattering1d.py"
        " tests/scattering2d/test_torch_scattering2d.py",
        "20 passed",
    ),
    Suite(
        "POT",
        "PythonOT/POT",
        "aed0120242e86ab29e630fee59593ee99f416d97",
        # The release has what is compiled and the checkout has the tests; started there,
        # Python would import the checkout, where nothing is compiled.
        "pytest {checkout}/test/test_backend.py {checkout}/test/test_ot.py"
        " {checkout}/test/test_solvers.py -k 'torch or backend'",
        "203 passed, 2 skipped",
        path=(),
        requirements=("scipy",),
        alone=("POT==0.9.7.post1",),
        away=True,
    ),
    Suite(
        "torchdiffeq",
        "rtqichen/torchdiffeq",
        "657943acefa826ef04c025ebeb1ff5e9d60dc268",
        "pytest tests/gradient_tests.py tests/event_tests.py",
        "1 failed, 5 passed",
        folders=("torchdiffeq", "tests"),
        requirements=("scipy",),
    ),
    Suite(
        "timm",
        "huggingface/pytorch-image-models",
        "aa4b5850c1543fa488abf260f18390eda46cf85d",
        f"{_WITH_STUB} tests/test_layers.py",
        "35 passed, 1 skipped",
        requirements=("pillow",),
        alone=(_TORCHVISION,),
    ),
    Suite(
        "brevitas",
        "Xilinx/brevitas",
        "b106358c4169d8a9b68cb2a531aa795417d74887",
        # Hypothesis draws other numbers of calls each time where it has no seed.
        "pytest --hypothesis-seed=0 tests/brevitas/function/test_autograd_ste_ops.py"
        " tests/brevitas/function/test_ops.py tests/brevitas/function/test_ops_ste.py"
        " tests/brevitas/core/test_clamp.py",
        "1 failed, 134 passed, 30 skipped",
        path=("src",),
        folders=("src", "tests", "pytest.ini"),
        requirements=(
            *("pytest-cases", "hypothesis", "mock", "qonnx", "toposort"),
            *("dependencies==2.0.1", "setuptools==80.9.0"),
        ),
    ),
)
_QUICK = ("linear_operator",)  # a few seconds each


@dataclass(frozen=True)
class Run:
    """One run of a suite: how it ended, and each test by its name."""

    exit_code: int | None
    seconds: float
    cpu_seconds: float
    outcomes: dict[str, str]
    last_lines: tuple[str, ...]

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.outcomes.values())

    @property
    def words(self) -> str:
        """The result as pytest has it: `1 failed, 6 passed`."""
        order = ("failed", "passed", "skipped", "xfailed", "error")
        return ", ".join(f"{n} {o}" for o in order if (n := self.counts[o])) or "none"

    @property
    def whole(self) -> bool:
        """Whether tests ran to the end, passing or not."""
        return self.exit_code in (0, 1) and bool(self.outcomes)


@dataclass(frozen=True)
class Result:
    """A suite's two runs; none with backproof where only the plain one was asked for."""

    suite: Suite
    plain: Run
    audited: Run | None = None
    report: Mapping[str, Any] | None = None

    @property
    def subjects(self) -> list[Any]:
        return list(self.report["subjects"]) if self.report else []

    @property
    def changed(self) -> list[str]:
        """Tests that end otherwise under the audit, and how; none where a run broke."""
        if not (self.plain.whole and self.audited and self.audited.whole):
            return []
        before, after = self.plain.outcomes, self.audited.outcomes
        return [
            f"{name}: {before.get(name, 'absent')}, then {after.get(name, 'absent')}"
            for name in dict.fromkeys([*before, *after])
            if before.get(name) != after.get(name)
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    given = _options().parse_args(arguments)
    unknown = set(given.only or ()) - {suite.name for suite in SUITES}
    if unknown:
        print(f"no suite has the name {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    only = given.only or (_QUICK if given.quick else [s.name for s in SUITES])
    suites = [suite for suite in SUITES if suite.name in only]
    if given.prepare:
        print("\n".join(_preparation(suites, given.folder)))
        return 0
    there = [suite for suite in suites if _is_there(suite, given.folder)]
    if not there:
        print(f"no checkouts in {given.folder}: --prepare prints how to get them")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        stub = Path(folder) / "stub"
        stub.mkdir()
        (stub / f"{_STUB}.py").write_text(_STUB_SOURCE)
        results: list[Result] = []
        for suite in there:
            _show(f"{suite.name}: {len(results) + 1} of {len(there)}")
            results.append(_measure(suite, given, stub))
        _show("")
    absent = [suite.name for suite in suites if suite not in there]
    _print_results(results, absent)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps([asdict(r) for r in results], indent=1))
        print(f"\n{given.json}: every measurement, every report")
    return judge_targets(_targets(results), quick=given.quick)


def _is_there(suite: Suite, folder: Path) -> bool:
    return all((folder / name).is_dir() for name in (suite.name, *suite.beside))


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", type=Path, help="of the checkouts")
    options.add_argument(
        "--quick", action="store_true", help=f"only {', '.join(_QUICK)}"
    )
    options.add_argument("--only", nargs="+", metavar="NAME", help="these suites")
    options.add_argument(
        "--prepare",
        action="store_true",
        help="print the commands that make FOLDER, and run nothing",
    )
    options.add_argument(
        "--plain", action="store_true", help="run every suite once, without backproof"
    )
    options.add_argument(
        "--python",
        default=sys.executable,
        help="the interpreter in which all is installed (default: this one)",
    )
    options.add_argument(
        "--json", type=Path, help="keep every measurement in this file"
    )
    options.add_argument(
        "--limit",
        type=float,
        default=_LIMIT,
        help="seconds that a run may take (default: %(default)g)",
    )
    return options


# ------------------------------------------------------------------------- preparing


def _preparation(suites: Sequence[Suite], folder: Path) -> Iterator[str]:
    """The commands by which a reader gets the suites, to run in this repository."""
    yield f"pip install -c constraints.txt '.[torch]' {_PYTEST}"
    for suite in suites:
        checkout = shlex.quote(str(folder / suite.name))
        yield f"\n# {suite.name}: {suite.plain}"
        url = f"https://github.com/{suite.repository}"
        if suite.folders:
            folders = shlex.join(suite.folders)
            yield f"git clone --no-checkout {url} {checkout}"
            yield f"git -C {checkout} checkout {suite.commit} -- {folders}"
        else:
            yield f"git clone {url} {checkout}"
            yield f"git -C {checkout} checkout --detach {suite.commit}"
        if suite.beside:
            yield f"# needs the checkout of {', '.join(suite.beside)} too"
        pip = "pip install -c constraints.txt"
        if suite.requirements:
            yield f"{pip} {_PYTEST} {shlex.join(suite.requirements)}"
        if suite.alone:
            yield f"{pip} --no-deps {shlex.join(suite.alone)}"


# --------------------------------------------------------------------------- running


def _measure(suite: Suite, given: argparse.Namespace, stub: Path) -> Result:
    """Run a suite, and once more with every Function audited."""
    plain, _ = _run(suite, given, stub, audit=False)
    if given.plain:
        return Result(suite, plain)
    return Result(suite, plain, *_run(suite, given, stub, audit=True))


def _run(
    suite: Suite, given: argparse.Namespace, stub: Path, *, audit: bool
) -> tuple[Run, Mapping[str, Any] | None]:
    folder = given.folder.resolve()
    checkout = folder / suite.name
    words = [word.format(checkout=checkout) for word in shlex.split(suite.command)]
    with tempfile.TemporaryDirectory() as temporary:
        own = Path(temporary)
        written, report = own / "tests.xml", own / "report.json"
        elsewhere = own / "elsewhere"
        elsewhere.mkdir()
        command = [
            *(_interpreter(given.python), "-m", *words),
            *("-p", "no:cacheprovider", f"--junitxml={written}"),
            *(["--backproof=report", f"--backproof-json={report}"] if audit else []),
        ]
        cpu, start = _cpu_seconds(), time.monotonic()
        exit_code, output = _finished(
            command,
            elsewhere if suite.away else checkout,
            _environment(suite, folder, stub, own),
            given.limit,
        )
        run = Run(
            exit_code=exit_code,
            seconds=time.monotonic() - start,
            cpu_seconds=_cpu_seconds() - cpu,
            outcomes=_outcomes(written),
            last_lines=tuple(output.splitlines()[-_KEPT_LINES:]),
        )
        return run, json.loads(report.read_text()) if report.exists() else None


def _interpreter(named: str) -> str:
    """A path that holds in any folder; a link stays one, or it would leave its venv."""
    return str(Path(shutil.which(named) or named).absolute())


def _environment(suite: Suite, folder: Path, stub: Path, own: Path) -> dict[str, str]:
    """The same for both runs, neither of which leaves anything for the other."""
    path = [folder / suite.name / part for part in suite.path]
    path += [folder / name for name in suite.beside]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [*path, stub])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(own / "hypothesis"),
        "OMP_NUM_THREADS": "1",
    }


def _finished(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float
) -> tuple[int | None, str]:
    """The exit code, None if there was no end to it, and all that was printed."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            output, _ = process.communicate()
            return None, output
    return process.returncode, output


def _cpu_seconds() -> float:
    """What all runs have taken so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _outcomes(written: Path) -> dict[str, str]:
    """Each test's outcome, from pytest's XML; nothing where pytest wrote none."""
    if not written.exists():
        return {}
    found: dict[str, str] = {}
    for test in ET.parse(written).iter("testcase"):
        name = f"{test.get('classname')}::{test.get('name')}"
        while name in found:  # fails, then fails to clean up
            name += " again"
        found[name] = _outcome(test)
    return found


def _outcome(test: ET.Element) -> str:
    if test.find("error") is not None:
        return "error"
    if test.find("failure") is not None:
        return "failed"
    skipped = test.find("skipped")
    if skipped is None:
        return "passed"
    return "xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"


def _show(words: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{words}", end="", file=sys.stderr, flush=True)


# --------------------------------------------------------------------------- telling


def _print_results(results: Sequence[Result], absent: Sequence[str]) -> None:
    print_table(
        "suites of published packages, plainly / under `pytest --backproof`",
        ["suite", "passed", "failed", "Functions", "calls", "p/s/w/i/c", "s", "s with"],
        [_row(result) for result in results],
    )
    print(f"\np/s/w/i/c: {', '.join(_VERDICTS)}")
    if absent:
        print(f"not in the folder: {', '.join(absent)}")
    for result in results:
        for words in _told(result):
            print(f"\n{result.suite.name}: {words}")


def _row(result: Result) -> list[object]:
    runs = [run for run in (result.plain, result.audited) if run]
    verdicts = Counter(subject["verdict"] for subject in result.subjects)
    judged = result.report is not None
    return [
        result.suite.name,
        "/".join(str(run.counts["passed"]) for run in runs),
        "/".join(str(run.counts["failed"] + run.counts["error"]) for run in runs),
        len(result.subjects) if judged else None,
        _calls(result.subjects),
        "/".join(str(verdicts[v]) for v in _VERDICTS) if judged else None,
        f"{result.plain.seconds:.0f}",
        f"{result.audited.seconds:.0f}" if result.audited else None,
    ]


def _calls(subjects: Sequence[Any]) -> int | None:
    """How often the suite called its Functions, where the report says so."""
    usages = [subject["usage"] for subject in subjects if "usage" in subject]
    return sum(usage["calls"] for usage in usages) if usages else None


def _told(result: Result) -> Iterator[str]:
    """What needs a look, each in a line or a few."""
    for words, run in (("plain", result.plain), ("audited", result.audited)):
        if run and not run.whole:
            ended = "no end" if run.exit_code is None else f"exit {run.exit_code}"
            last = "\n".join(run.last_lines[-_LAST_LINES:])
            yield f"the {words} run broke, {ended}:\n{last}"
    if result.plain.words != result.suite.plain:
        yield f"plainly {result.plain.words}; known is {result.suite.plain}"
    yield from result.changed[:_MOST_CHANGES]
    if more := result.changed[_MOST_CHANGES:]:
        yield f"{len(more)} more tests end otherwise"
    for subject in result.subjects:
        if subject["verdict"] in _TOLD:
            place = f"{subject['file']}:{subject['line']}"
            yield f"{subject['verdict']}  {subject['name']}  {place}\n  {_why(subject)}"


def _why(subject: Mapping[str, Any]) -> str:
    """The first finding of a subject, errors before notes, in one line."""
    findings = sorted(
        subject["findings"],
        # A surrogate is not what a worse verdict rests on.
        key=lambda f: (f["severity"] != "error", f["code"] == "BP106"),
    )
    if not findings:
        return "no finding"
    first = findings[0]
    words = [first["title"], *first["words"].splitlines()[:1]]
    return f"{first['code']} {'; '.join(filter(None, words))}"


def _targets(results: Sequence[Result]) -> list[Target]:
    audits = [result for result in results if result.audited]
    runs = [r.plain for r in results] + [r.audited for r in audits if r.audited]
    targets = [Target("every run came to its end", all(run.whole for run in runs))]
    if audits:
        targets += [
            Target(
                "no test ends otherwise under the audit",
                not any(result.changed for result in audits),
            ),
            Target(
                "every audit left a report",
                all(result.report is not None for result in audits),
            ),
        ]
    return targets


if __name__ == "__main__":
    sys.exit(main())
