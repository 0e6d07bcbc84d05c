"""Memory of this machine and of another process, in bytes, without a dependency."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def usable_bytes() -> int:
    """Physical memory, or less where a container may use less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # "max" means no limit
            limits.append(int(path.read_text()))
    return min(limits)


def resident_bytes(pid: int) -> int:
    """Resident memory of process `pid`; 0 where it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0 if Path("/proc/self").exists() else _resident_by_ps(pid)
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _resident_by_ps(pid: int) -> int:
    """The same where there is no /proc, as on macOS."""
    command = ["ps", "-o", "rss=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return 1024 * int(shown) if shown.strip().isdigit() else 0
