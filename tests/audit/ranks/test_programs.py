"""Programs whose ranks are copies of one another, end apart, or do different things."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from backproof.codes import page

ROOT = Path(__file__).parents[3]
EXAMPLES = Path("examples/distributed")


def launched(program, *options):
    """What torchrun says, and the exit code of each rank that failed."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "backproof", "audit", *options, program),
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
    )
    codes = [
        line.split(":", 1)[1].split()[0]
        for line in done.stderr.splitlines()
        if line.strip().startswith("exitcode")
    ]
    return done, codes


def test_the_tensor_parallel_example_passes():
    done, codes = launched(EXAMPLES / "tensor_parallel.py")
    assert (done.returncode, codes) == (0, [])
    assert "holds across 2 ranks with replicated input, summed loss" in done.stderr
    assert "holds across 2 ranks with own input, replicated loss" in done.stderr
    assert "rank 1: 2 pass; rank 0 reports" in done.stderr
    assert blocks_of_the_guide()[0] in masked(done.stderr)


def test_its_broken_twin_is_convicted_on_both_ranks():
    done, codes = launched(EXAMPLES / "tensor_parallel_broken.py")
    assert codes == ["1", "1"]
    assert "loss" in done.stdout  # the program itself went to its end
    words = " ".join(done.stderr.split())
    assert "BP801 the gradient of `x` lacks what the other ranks have of it" in words
    assert "All-reduce (sum) the gradient of `x` in backward." in words
    assert "rank 1: 1 pass, 1 WRONG; rank 0 reports" in words
    assert blocks_of_the_guide()[1] in masked(done.stderr)


def test_the_broken_twin_is_convicted_along_the_way(audit_ranks, tmp_path):
    first, second = audit_ranks(
        ROOT / EXAMPLES / "tensor_parallel_broken.py",
        "--when",
        "step",
        environment={"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())},
    )
    assert (first.code, second.code) == (1, 1)
    assert first.verdicts() == {"Copy": "wrong", "Reduce": "pass"}


@pytest.mark.parametrize("norm", [True, False])
def test_copies_of_one_network_are_not_accused(audit_ranks, norm):
    first, second = audit_ranks("data_parallel.py", arguments=["norm"] if norm else [])
    assert (first.code, second.code) == (0, 0)
    assert first.verdicts()["Root"] == "pass"
    if norm:
        assert first.notes("CentredOverRanks") == [
            "holds across 2 ranks with own input, summed loss"
        ]


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("killed", 137, "rank 1 did not arrive within 2 s"),
        ("late", 0, "rank 1 did not arrive within 2 s"),
        ("raises", 1, "rank 1 was ended by an exception"),
        ("replay", 0, "ValueError: nine calls are enough on rank 1"),
    ],
)
def test_a_rank_that_does_not_come(audit_ranks, took, how, code, said):
    patience = "12" if how == "replay" else "2"  # they do meet, on a busy machine too
    first, second = audit_ranks(
        "uneven_ends.py", "--rank-timeout", patience, arguments=[how]
    )
    assert (first.code, second.code) == (0, code)
    assert first.verdicts() == {"AllReduce": "inconclusive", "Square": "pass"}
    assert said in first.words("AllReduce")
    assert took() < 100


def test_a_rank_that_exits_early_is_verified_first(audit_ranks):
    first, second = audit_ranks("uneven_ends.py", arguments=["exits"])
    assert (first.code, second.code) == (0, 3)
    assert first.verdicts() == {"AllReduce": "pass", "Square": "pass"}


def test_what_only_some_ranks_do(audit_ranks):
    first, *_ = found = audit_ranks("only_some.py", ranks=3)
    assert [one.code for one in found] == [0, 0, 0]
    assert first.verdicts() == {
        "Square": "pass",
        "Solo": "inconclusive",
        "Copy": "pass",
        "Reduce": "pass",
    }
    assert "it communicates, and only rank 0 kept a call of it" in first.words("Solo")


def blocks_of_the_guide():
    """What `docs/guide/ranks.md` shows of the examples, numbers masked."""
    page = (ROOT / "docs" / "guide" / "ranks.md").read_text(encoding="utf-8")
    return [masked(block) for block in re.findall(r"```text\n(.*?)```", page, re.S)]


def masked(text):
    text = re.sub(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b", "#", text)
    return " ".join(text.split())


@pytest.mark.parametrize("which", ["wrong", "right"])
def test_the_examples_of_the_page(audit_ranks, tmp_path, which):
    program = tmp_path / f"{which}.py"
    run = "meet()\ny = op(*inputs())\n(y * own(*y.shape)).sum().backward()\n"
    programs = str(Path(__file__).parent / "programs")
    meeting = f"import sys\nsys.path.insert(0, {programs!r})\n"
    meeting += "from meeting import meet, own\n"
    text = getattr(page("BP801"), which) + meeting + run
    program.write_text(text, encoding="utf-8")
    first, second = audit_ranks(program)
    assert first.verdicts() == {"Gather": {"wrong": "wrong", "right": "pass"}[which]}
    assert first.code == second.code == int(which == "wrong")
