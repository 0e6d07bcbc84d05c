"""What people call a file: cells of notebooks by their number."""

from __future__ import annotations

import re
import sys
from typing import Any

_CELL = re.compile(r"<ipython-input-(\d+)-\w+>")
_LABEL = re.compile(r"In ?\[(\d+)\]")


def shown_file(filename: str) -> str:
    """`In [3]` for a cell of IPython or Jupyter, any other name as it is.

    IPython is asked only where it runs already. A cell that was run again is called by
    the number of its last run, as in IPython's own tracebacks.
    """
    number = _cell_number(filename)
    return filename if number is None else f"In [{number}]"


def _cell_number(filename: str) -> str | None:
    shell = _running_shell()
    if shell is not None:
        try:
            _, label = shell.compile.format_code_name(filename)
        except (AttributeError, TypeError):  # before IPython 8; or not a cell
            pass
        else:
            found = _LABEL.fullmatch(str(label))
            if found is not None:
                return found[1]
    found = _CELL.fullmatch(filename)
    return None if found is None else found[1]


def _running_shell() -> Any:
    ipython = sys.modules.get("IPython")
    return None if ipython is None else getattr(ipython, "get_ipython", lambda: None)()
