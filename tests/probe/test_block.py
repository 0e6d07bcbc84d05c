"""Long vectors in blocks."""

import pytest

from backproof.probe import blocks


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 50_000])
def test_blocks_cover_a_range_in_order_once(size):
    covered = [k for part in blocks(size) for k in range(size)[part]]
    assert covered == list(range(size))
