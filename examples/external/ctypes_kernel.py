"""A recurrence in C, y[t] = decay * y[t-1] + x[t], compiled by `cc` and called by ctypes.

In torch it would be a loop of one operation a step, each with a node in the graph. Here
the gradient is the same recurrence run from the end, so the op is its own derivative.

Shows: a kernel with one entry a type; a plain number as an argument; `fake` for what
runs without values; `vmap="broadcast"`, since all but the last dimension are rows.
"""

import atexit
import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch

import backproof

SOURCE = """
#define SCAN(name, real)                                                      \\
    void name(const real *x, real *y, long rows, long steps, double decay) {  \\
        for (long row = 0; row < rows; row++) {                               \\
            double kept = 0;                                                  \\
            for (long t = row * steps; t < (row + 1) * steps; t++)            \\
                y[t] = kept = decay * kept + x[t];                            \\
        }                                                                     \\
    }
SCAN(scan_float32, float)
SCAN(scan_float64, double)
"""


def _compiled(source):
    folder = tempfile.mkdtemp(prefix="scan")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = Path(folder, "scan.so")
    command = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)
    return ctypes.CDLL(str(library))  # lets go of the interpreter lock in every call


LIBRARY = _compiled(SOURCE)


def _scan(x, decay):
    y = np.empty_like(x)
    steps = x.shape[-1] if x.ndim else 1
    rows = x.size // steps if steps else 0
    x_at, y_at = (ctypes.c_void_p(array.ctypes.data) for array in (x, y))
    sizes = ctypes.c_long(rows), ctypes.c_long(steps)
    getattr(LIBRARY, f"scan_{x.dtype}")(x_at, y_at, *sizes, ctypes.c_double(decay))
    return y


def _from_the_end(g, x, decay):
    return _scan(np.ascontiguousarray(g[..., ::-1]), decay)[..., ::-1], None


@backproof.external(
    backward=_from_the_end,
    second_order=lambda g, x, decay: (leaky_sum(g.flip(-1), decay).flip(-1), None),
    fake=lambda x, decay: torch.empty_like(x),
    vmap="broadcast",
    dtypes=(torch.float32, torch.float64),
)
def leaky_sum(x, decay):
    """y[..., t] = decay * y[..., t-1] + x[..., t]."""
    return _scan(x, decay)


op = leaky_sum


def inputs(seed=0):
    """A batch of sequences, in both types."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 12, generator=gen, dtype=torch.float64)
    yield x.clone().requires_grad_(), 0.9
    yield x.float().requires_grad_(), 0.5
