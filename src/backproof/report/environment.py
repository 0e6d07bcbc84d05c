"""Where and with what a report was made: enough to make it again."""

from __future__ import annotations

import platform
from importlib.metadata import version

Environment = dict[str, str | int | None]
"""What `environment` returns; `schema.json` names its keys."""


def environment(*, torch: str | None, seed: int) -> Environment:
    """The versions, the platform and the seed that a report rests on.

    Args:
        torch: `torch.__version__`, given by whoever has torch loaded, so that a report
            can be read and rendered without it; None where it never was.
        seed: the seed that inputs and directions were drawn with.
    """
    return {
        "backproof": version("backproof"),
        "python": platform.python_version(),
        "torch": torch,
        "platform": platform.platform(terse=True),
        "seed": seed,
    }
