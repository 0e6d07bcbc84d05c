"""How often the bar covers the truth, and that it is not bought with width.

Pure noise would give a median of bar over error of z / 0.67, about 7. What lies above is
the room for truncation and for outputs that round less than the prior says.
"""

import math
import statistics

import pytest
import torch

import backproof
from tests.calibration.known import KNOWN, measure

SIZES = (1, 2, 8, 64, 1000)
DRAWS = 8

# dtype: (least share inside, most bar over error, most bar over size; medians)
TARGETS = {
    torch.float64: (0.99, 50, 3e-10),
    torch.float32: (0.95, 40, 3e-4),
    torch.bfloat16: (0.95, 20, 0.12),
}
_found = {}


def measured(dtype):
    """All measurements of one type: {name: measurements}, and how many were refused."""
    if dtype not in _found:
        every, refused = {}, 0
        for name, known in KNOWN.items():
            if dtype not in known.dtypes:
                continue
            every[name] = []
            for n in SIZES:
                for draw in range(DRAWS):
                    found = measure(known, n, dtype, seed=1000 * draw + n)
                    refused += not found
                    every[name] += found
        _found[dtype] = every, refused
    return _found[dtype]


def over(bar, what):
    return bar / what if what else math.inf


each_dtype = pytest.mark.parametrize(
    "dtype", TARGETS, ids=lambda dtype: str(dtype).removeprefix("torch.")
)


@each_dtype
def test_the_truth_lies_inside_the_bar(dtype, record_property):
    every, refused = measured(dtype)
    rows = [one for found in every.values() for one in found]
    inside = statistics.mean(one.is_inside for one in rows)
    width = statistics.median(over(one.bar, one.error) for one in rows)
    record_property(
        "calibration",
        f"{dtype}: {inside:.2%} of {len(rows)} measurements of {len(every)} functions "
        f"inside the bar, median bar/error {width:.1f}",
    )
    least, most, _ = TARGETS[dtype]
    assert len(every) >= 12
    assert inside >= least
    assert width <= most
    assert refused <= 0.03 * len(rows) / 4


@each_dtype
def test_no_function_is_left_out_of_its_bars(dtype):
    every, _ = measured(dtype)
    for name, found in every.items():
        assert found, name
        assert statistics.mean(one.is_inside for one in found) >= 0.9, name


@each_dtype
def test_bars_are_narrow_beside_the_derivative(dtype):
    every, _ = measured(dtype)
    *_, most = TARGETS[dtype]
    widths = {
        name: statistics.median(over(one.bar, one.size) for one in found)
        for name, found in every.items()
    }
    assert statistics.median(widths.values()) <= most, widths


@each_dtype
def test_narrower_bars_would_not_cover(dtype):
    every, _ = measured(dtype)
    rows = [one for found in every.values() for one in found]
    least, most, _ = TARGETS[dtype]
    assert statistics.mean(one.error <= one.bar / most for one in rows) < least


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_bar_too_wide_to_decide_is_no_pass(dtype, seed):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(20, generator=random, dtype=dtype, requires_grad=True)

    def scattered(x):  # repeats exactly, and is nothing but noise beside every x
        place = torch.frac(x.detach().double() * 1e9 / 7)
        return torch.sin(x) * (1 + place).to(x.dtype)

    report = backproof.check(scattered, x)
    assert report.verdict == "inconclusive"
    assert "give" in report.subjects[0].outcome("BP101").words
