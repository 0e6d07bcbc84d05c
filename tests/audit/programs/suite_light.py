# ruff: noqa: T201 - what it prints is what is tested
"""A suite that never loads torch."""

import atexit
import sys


def test_light():
    atexit.register(lambda: print("loaded:", "torch" in sys.modules))
