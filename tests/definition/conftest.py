"""What is known to be wrong with definitions, and waits to be put right.

Each entry is a reason and the tests that show it; a test that passes again fails here, so
that its entry goes.
"""

import re

import pytest

WAITING = {
    "mark_dirty: forward mode twice meets torch's own errors": [
        r"test_contexts.*\[in place-(jacfwd of jacfwd|third derivative)\]",
        r"test_private.*test_with_every_name",
    ],
    "without a private name, errors of torch's in place of our own": [
        r"test_private.*derivatives_\w+\[(functorch_active|dispatch_modes|tracing_state)",
        r"test_private.*derivatives_\w+\[(is_legacy_batched|forward_mode)",
        r"test_private.*refuses\[(functorch_active|dispatch_modes|tracing_state)",
        r"test_private.*refuses\[(is_legacy_batched|forward_mode)",
    ],
}


def pytest_collection_modifyitems(items):
    for item in items:
        for reason, patterns in WAITING.items():
            if any(re.search(pattern, item.nodeid) for pattern in patterns):
                item.add_marker(pytest.mark.xfail(strict=True, reason=reason))
