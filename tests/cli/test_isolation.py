"""Subjects that take their process down, and what is left of everybody else."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from backproof.cli import crash
from backproof.cli import isolation as watching
from backproof.cli.events import Begun, Failed, Judged, Phase, Request, decode, encode
from backproof.cli.isolation import Isolation, Limits
from backproof.cli.memory import resident_bytes, usable_bytes
from backproof.cli.process import Worker
from backproof.records import Location, Status, Verdict
from backproof.target import Place

HOSTILE = """
import ctypes, os, subprocess, sys, time
import torch

print("at import")
os.write(1, b"straight to the descriptor\\n")

def make(name, forward=None, backward=None):
    class Hostile(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if forward:
                forward()
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            if backward:
                backward()
            return 2 * g

    return Hostile

def read_nowhere():
    ctypes.string_at(0)

def sleep():
    print("asleep", flush=True)
    time.sleep(600)

def loop():
    while True:
        pass

def leave_a_child():
    subprocess.Popen(["sleep", "611"])
    os.abort()

def grow():
    kept = []
    while True:
        kept.append(torch.ones(1 << 24))

First = make("First")
Segfault = make("Segfault", backward=read_nowhere)
Abort = make("Abort", forward=leave_a_child)
Exit = make("Exit", backward=lambda: os._exit(0))
SysExit = make("SysExit", backward=lambda: sys.exit("bye"))
Sleep = make("Sleep", backward=sleep)
Loop = make("Loop", forward=loop)
Grow = make("Grow", forward=grow)
Last = make("Last")

def inputs(seed=0):
    return torch.randn(3, dtype=torch.float64, requires_grad=True)
"""
EXPECTED = {
    "First": None,
    "Segfault": "backward killed the process: SIGSEGV",
    "Abort": "forward killed the process: SIGABRT",
    "Exit": "backward ended the process with exit code 0",
    "SysExit": "backward calls sys.exit('bye')",
    "Sleep": "backward did not return within 3 s",
    "Loop": "forward did not return within 3 s",
    "Grow": "forward filled the memory: more than 0.8 GiB resident",
    "Last": None,
}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LIMITS = Limits(seconds=3.0, resident=int(0.8 * 2**30))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "hostile.py"
    path.write_text(HOSTILE)
    return path


def events_of(path, *, name=None, mode=None, limits=LIMITS, **options):
    found = []
    place = Place(str(path), file=str(path), name=name)
    with Isolation(limits, mode=mode) as isolation:
        isolation.serve(Request(place, **options), found.append)
        assert isolation.torch
    return found


@pytest.fixture(scope="module")
def events(hostile):
    return events_of(hostile)


@pytest.fixture(scope="module")
def judgements(events):
    return {
        begun.name: judged.judgement
        for begun, judged in zip(
            [e for e in events if isinstance(e, Begun)],
            [e for e in events if isinstance(e, Judged)],
            strict=True,
        )
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_each_gets_its_verdict(judgements, name):
    judgement, words = judgements[name], EXPECTED[name]
    assert judgement.name == name
    if words is None:
        assert judgement.verdict is Verdict.PASS
        return
    assert judgement.verdict is Verdict.CRASHED
    (finding,) = judgement.findings
    assert finding.title == words
    assert finding.remedy
    assert judgement.outcome("BP101").status is Status.CRASHED


@pytest.mark.parametrize(
    ("name", "line"),
    [("Segfault", "ctypes.string_at(0)"), ("Abort", "os.abort()"),
     ("Sleep", "time.sleep(600)"), ("Loop", "pass")],
)  # fmt: skip
def test_the_finding_points_at_the_line_that_ran(judgements, hostile, name, line):
    where = judgements[name].findings[0].where
    lines = hostile.read_text().splitlines()
    near = lines[where.line - 2 : where.line + 1]  # a loop may be seen at its head
    assert where.file == str(hostile)
    assert any(line in text for text in near)


@on_linux
def test_nothing_is_left_running(events):
    assert b"sleep\x00611\x00" not in commands()


def commands():
    """The command lines of everything that runs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found.append(path.read_bytes())
    return found


@pytest.mark.parametrize("name", ["First", "Segfault", "Sleep"])
def test_without_fork_it_is_the_same(hostile, judgements, name):
    found = events_of(hostile, name=name, mode="direct", limits=Limits(seconds=3.0))
    (judged,) = [e for e in found if isinstance(e, Judged)]
    expected = judgements[name]
    assert judged.judgement.verdict is expected.verdict
    assert [f.title for f in judged.judgement.findings] == [
        f.title for f in expected.findings
    ]


EXITS_IN_INPUTS = """
import os, torch
op = torch.tanh
def inputs():
    os._exit(5)
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import os; os._exit(3)", "importing it ended the process with exit code 3"),
        ("import os; os.abort()", "importing it killed the process: SIGABRT"),
        ("import time; time.sleep(600)", "importing it did not return within 3 s"),
        (EXITS_IN_INPUTS, "making its inputs ended the process with exit code 5"),
        (
            EXITS_IN_INPUTS.replace("os._exit(5)", "raise SystemExit(6)"),
            "making its inputs called sys.exit(6)",
        ),
    ],
)
def test_dying_before_the_subject_runs_is_not_its_fault(tmp_path, source, words):
    path = tmp_path / "ops.py"
    path.write_text(source)
    failed = [e for e in events_of(path) if isinstance(e, Failed)]
    reasons = [f.reason.partition(" (at")[0].partition(". ")[0] for f in failed]
    assert [reason.rstrip(".") for reason in reasons] == [words]


def test_one_bad_file_does_not_stop_the_next(hostile, tmp_path):
    path = tmp_path / "ops.py"
    path.write_text("import os; os.abort()")
    found = []
    with Isolation(LIMITS) as isolation:
        for file, name in ((path, None), (hostile, "Last")):
            place = Place(str(file), file=str(file), name=name)
            isolation.serve(Request(place), found.append)
    assert any(isinstance(e, Failed) for e in found)
    assert found[-1].judgement.verdict is Verdict.PASS


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "backproof", "check", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def children_of(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(word) for word in path.read_text().split()] if path.exists() else []
    return found + [g for child in found for g in children_of(child)]


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


SEVEN = ("First", "Segfault", "Abort", "Sleep", "Grow", "SysExit", "Last")


@on_linux
def test_five_that_take_their_process_down_and_two_that_do_not(tmp_path):
    """Each gets its verdict, soon, and nothing is left behind."""
    kept = [line for line in HOSTILE.splitlines()
            if " = make(" not in line or line.split()[0] in SEVEN]  # fmt: skip
    path = tmp_path / "seven.py"
    path.write_text("\n".join(kept))
    began = time.monotonic()
    running = command(path, "--timeout", 3, "--memory", 0.8)
    stdout, _ = running.communicate(timeout=60)
    assert time.monotonic() - began < 3 + 20
    assert running.returncode == 1
    verdicts = dict(line.split()[1::-1] for line in stdout.splitlines()
                    if line.startswith(("pass ", "CRASHED ")))  # fmt: skip
    assert verdicts == {
        name: "pass" if name in ("First", "Last") else "CRASHED" for name in SEVEN
    }
    for name in SEVEN[1:-1]:
        assert EXPECTED[name] in stdout
    assert "2 pass, 5 CRASHED" in stdout
    workers = [c for c in commands() if b"backproof.cli.worker" in c]
    assert not any(str(running.pid).encode() in c.split(b"\0") for c in workers)


SECOND = """
import ctypes, torch

class Second(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.calls = 0
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        ctx.calls += 1
        if ctx.calls > 1:
            ctypes.string_at(0)
        return 2 * g

def inputs():
    return torch.ones(3, dtype=torch.float64, requires_grad=True)
"""


def test_a_crash_in_a_law_is_filed_under_it(tmp_path):
    """A second backward of one graph is asked by a law of its own."""
    path = tmp_path / "second.py"
    path.write_text(SECOND)
    (judged,) = [e for e in events_of(path) if isinstance(e, Judged)]
    judgement = judged.judgement
    assert judgement.verdict is Verdict.CRASHED
    (finding,) = judgement.findings
    assert finding.code == "BP206"
    assert finding.title == "backward killed the process: SIGSEGV"
    assert "It ran for the law: " in finding.words
    assert finding.where.line == 14


CONTEXT = """
import ctypes, torch

def op(x):
    if torch._C._are_functorch_transforms_active():
        HANG
    return torch.tanh(x)

def inputs():
    return torch.ones(3, dtype=torch.float64, requires_grad=True)
"""


@pytest.mark.parametrize(
    ("instead", "words"),
    [("ctypes.string_at(0)", "context func_grad killed the process: SIGSEGV"),
     ("while True: pass", "context func_grad did not return within 3 s")],
)  # fmt: skip
def test_a_crash_in_a_context_names_it_and_keeps_what_was_known(
    tmp_path, instead, words
):
    path = tmp_path / "inside.py"
    path.write_text(CONTEXT.replace("HANG", instead))
    (judged,) = [e for e in events_of(path, contexts="eager_fwd_bwd,func_grad")
                 if isinstance(e, Judged)]  # fmt: skip
    judgement = judged.judgement
    assert list(judgement.contexts) == ["eager_fwd_bwd"]
    assert judgement.contexts["eager_fwd_bwd"]["status"] == "right"
    assert any("right in eager_fwd_bwd" in o.words for o in judgement.outcomes)
    assert judgement.verdict is Verdict.CRASHED
    assert judgement.findings[0].title == words
    assert judgement.outcome("BP101").status is Status.HELD


def test_what_compiles_may_be_silent_for_longer(monkeypatch):
    now = 0.0
    monkeypatch.setattr(watching.time, "monotonic", lambda: now)
    silence = watching._Silence(60.0)
    silence.ends(Phase("context compile_inductor", "BP401", patience=5.0))
    now = 299.0
    assert not silence.is_long()
    silence.ends(Phase("forward", "BP101"))
    now += 61.0
    assert silence.is_long()


MILLION = """
import torch
op = torch.tanh
def inputs():
    return torch.ones(1_000_000, requires_grad=True)
"""


def test_tensors_do_not_travel(tmp_path):
    path = tmp_path / "million.py"
    path.write_text(MILLION)
    found = events_of(path, laws=("BP101", "BP502"))
    assert any(isinstance(event, Judged) for event in found)
    assert sum(len(encode(event)) for event in found) < 50_000


@on_linux
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_the_command_can_be_ended_at_any_time(hostile, number, code):
    """Ctrl-C reports what is known; even a kill leaves no process behind."""
    running = command(f"{hostile}::First", f"{hostile}::Sleep", f"{hostile}::Last")
    try:
        workers = wait_for(
            lambda: len(found := children_of(running.pid)) == 2 and found
        )
        assert any("asleep" in line for line in running.stderr)  # it hangs for good now
        running.send_signal(number)
        stdout, _ = running.communicate(timeout=10)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == code
    wait_for(lambda: not any(alive(pid) for pid in workers), seconds=10)
    if number == signal.SIGINT:
        assert "pass          First" in stdout
        assert f"could not run: {hostile}::Sleep: interrupted" in " ".join(
            stdout.split()
        )


def test_what_the_users_file_prints_goes_to_standard_error(hostile):
    running = command(f"{hostile}::First", "--format", "json")
    stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 0
    assert stdout.startswith("{")
    assert "at import" not in stdout
    assert "straight to the descriptor" not in stdout
    assert "at import" in stderr
    assert "straight to the descriptor" in stderr


def test_input_cannot_be_read_away(tmp_path):
    path = tmp_path / "ops.py"
    path.write_text("import torch\ninput('?')\nop = torch.tanh\ndef inputs(): ...")
    running = command(path, stdin=subprocess.PIPE)
    _, stderr = running.communicate("yes\n", timeout=60)
    assert running.returncode == 2
    assert "EOFError" in stderr


# ------------------------------------------------------------------------- the parts


def test_half_a_line_spoils_no_other():
    begun = Begun(0, 1, "a.py::F", "F", "a.py", 3)
    stream = encode(begun)[:-9] + encode(Phase("forward")) + b"\n\xff\xfe\n[1]\n{}\n"
    found = [decode(line) for line in stream.split(b"\n")]
    assert [f for f in found if f is not None] == [Phase("forward")]


def test_messages_travel_unchanged(judgements):
    request = Request(Place("a.py", file="a.py"), ("f64[3]",), None, "soft", 3, None, 2)
    for message in (request, Judged(judgements["First"]), Failed("a", "b\nc")):
        assert decode(encode(message).strip()) == message


def test_a_crash_in_native_threads_has_no_line():
    death = crash.of_exit(-signal.SIGSEGV, "Fatal Python error: Segmentation fault\n\n")
    assert death.where is None
    begun = Begun(0, 1, "a.py::F", "F", "a.py", 3)
    event = crash.event(begun, Phase("backward", "BP101"), death)
    assert event.judgement.findings[0].where == Location("a.py", 3)


def test_a_signal_without_a_name():
    assert crash.of_exit(-35, "").words == "killed the process: signal 35"


def test_the_current_thread_counts():
    dump = (
        'Thread 0x1 (most recent call first):\n  File "/u/other.py", line 5 in wait\n\n'
        'Current thread 0x2 (most recent call first):\n'
        f'  File "{os.__file__}", line 9 in f\n  File "/u/ops.py", line 7 in backward\n'
    )  # fmt: skip
    assert crash.of_exit(-11, dump).where == Location("/u/ops.py", 7)


def test_memory_of_this_process():
    assert 1 << 20 < resident_bytes(os.getpid()) < usable_bytes()
    assert resident_bytes(2**22 + 1) == 0


def test_a_worker_without_torch_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    worker = Worker("fork")
    try:
        message = worker.receive(60)
    finally:
        worker.close()
    assert "pip install 'backproof[torch]'" in message.reason
