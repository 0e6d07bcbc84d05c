"""What a subject is run on: input strings, and functions that return inputs."""

from __future__ import annotations

from backproof.inputs.registered import inputs_for

__all__ = ["inputs_for"]
