"""Files that are written: in one piece, and refused before any work is done for them."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from backproof.errors import BadInput


def require_writable(path: Path, option: str = "--output") -> None:
    """Refuse a path that could not be written, before any work is done for `option`.

    Raises:
        BadInput: there is no such folder, or no permission.
    """
    folder = path.resolve().parent
    if not folder.is_dir():
        raise BadInput(f"{option} {path}: there is no folder {folder}")
    if path.is_dir() or not os.access(folder, os.W_OK):
        raise BadInput(f"{option} {path}: it cannot be written there")


def write_whole(path: Path, content: str) -> None:
    """Write `content` so that `path` holds all of it or what it held before."""
    folder = path.resolve().parent
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # mkstemp lets nobody else read
        Path(name).replace(path.resolve())
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise
