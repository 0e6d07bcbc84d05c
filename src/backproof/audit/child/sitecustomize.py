"""Found by every Python process that a command under audit starts: watch it.

The folder of this file stands first on PYTHONPATH. A `sitecustomize` that the machine
has of its own is run as if this one were not there. The package itself is loaded when
torch is: what a process imports first may matter to it.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - at start-up
_ARRIVAL = os.path.join(os.path.dirname(_HERE), "arrival.py")  # noqa: PTH118, PTH120


def _watch() -> None:
    try:
        from backproof.audit.process import begin
    except ImportError:  # another Python, which has no backproof
        return
    begin()


def _run(spec: Any) -> Any:
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_run(spec_from_file_location("_backproof_arrival", _ARRIVAL)).when_imported(
    "torch", _watch
)
_elsewhere = [path for path in sys.path if os.path.abspath(path) != _HERE]  # noqa: PTH100
_own = PathFinder.find_spec("sitecustomize", _elsewhere)
if _own is not None and _own.loader is not None:
    _run(_own)
