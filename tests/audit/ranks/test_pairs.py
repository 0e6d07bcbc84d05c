"""BP801 for collectives: those that belong together pass, others are convicted."""

import pytest

CONVENTIONS = {
    "Copy": "replicated input, summed loss",
    "Reduce": "own input, replicated loss",
    "AllReduce": "own input, summed loss",
    "Gather": "own input, summed loss",
    "GatherOnce": "own input, replicated loss",
    "Scatter": "replicated input, summed loss",
    "AllToAll": "own input, summed loss",
    "ColumnLinear": "replicated `x`, own `weight`, summed loss",
}


@pytest.mark.parametrize(("ranks", "destroy"), [(2, True), (2, False), (3, False)])
def test_right_pairs_pass_and_name_their_convention(audit_ranks, ranks, destroy):
    found = audit_ranks(
        "right_pairs.py", ranks=ranks, arguments=["destroy"] if destroy else []
    )
    first, *others = found
    assert [one.code for one in found] == [0] * ranks
    assert all("over" in one.out for one in found)
    assert set(first.verdicts().values()) == {"pass"}
    assert first.verdicts().keys() == {*CONVENTIONS, "Square"}
    for name, convention in CONVENTIONS.items():
        assert first.notes(name) == [f"holds across {ranks} ranks with {convention}"]
    assert first.notes("Square") == []
    for rank, other in enumerate(others, start=1):
        assert other.report is None
        assert f"rank {rank}: 9 pass; rank 0 reports" in other.err


def test_wrong_pairs_are_convicted(audit_ranks):
    first, second = audit_ranks("wrong_pairs.py")
    assert (first.code, second.code) == (1, 1)
    assert set(first.verdicts().values()) == {"wrong"}
    titles = {
        "Mean": "the gradient of `x` is too small by the number of ranks, 2",
        "GatherFirst": "the gradient of `x` is not that of all ranks together",
        "AllToAll": "the gradient of `x` is not that of all ranks together",
        "ReduceForAll": "the gradient of `x` lacks what the other ranks have of it",
        "ColumnLinear": "the gradient of `weight` is not that of all ranks together",
    }
    for name, title in titles.items():
        (finding,) = first.findings(name)
        assert (finding["code"], finding["title"]) == ("BP801", title)
        assert finding["where"]["text"].startswith("return ")
    (mean,) = first.findings("Mean")
    assert mean["words"].splitlines()[-2:] == [
        "with own input, replicated loss",
        "nor does it hold with own input, summed loss",
    ]
    assert "rank 0: backward claims" in mean["words"]
    assert "rank 1: backward claims" in mean["words"]
    # On rank 0 the part of rank 0 is the right one.
    (gather,) = first.findings("GatherFirst")
    assert "rank 0: " not in gather["words"]
    assert "rank 1: backward claims" in gather["words"]
