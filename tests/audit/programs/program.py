# ruff: noqa: T201 - what it prints is what is tested
"""A program to be audited; what it does stands in its arguments."""

import atexit
import importlib.util
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


def _after_the_audit():
    from torch.autograd.function import _SingleLevelFunction

    print("patched:", "apply" in vars(_SingleLevelFunction), flush=True)


atexit.register(_after_the_audit)
assert importlib.util.find_spec("torch") is not None  # as many packages ask first

import numpy as np  # noqa: E402
import torch  # noqa: E402
from functions import Noisy, Right, Wrong  # noqa: E402


class Fatal(Right):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Fatal.calls += 1
        if Fatal.calls > 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        return Right.forward(ctx, x)


class Slow(Right):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.1)
        return Right.forward(ctx, x)


class InFork(Right):
    pass


class InSpawn(Wrong):
    pass


def x():
    return torch.linspace(-2.1, 1.3, 6, dtype=torch.float64, requires_grad=True)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, k):
        return InFork.apply(x()).detach()


def child():
    InSpawn.apply(x())


def everything():
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    loss = sum(f.apply(x()).sum() for f in (Right, Wrong, Noisy))
    loss.backward()
    print("drawn:", loss.item(), torch.rand(2).tolist(), np.random.rand())
    for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
        assert batch.shape == (1, 6)
    spawned = torch.multiprocessing.get_context("spawn").Process(target=child)
    spawned.start()
    spawned.join()
    assert spawned.exitcode == 0
    os.chdir("/")
    if "copied" in sys.argv:
        Path(__file__).unlink()


def main():
    print("arguments:", sys.argv[1:], flush=True)
    does = sys.argv[1]
    if does == "everything":
        everything()
        return
    called = {"fatal": Fatal, "raise slowly": Slow}.get(does, Right)
    called.apply(x()).sum().backward()
    if does in ("raise", "raise slowly"):
        raise RuntimeError("by itself")
    if does == "interrupted":
        raise KeyboardInterrupt
    if does == "exit":
        sys.exit(3)
    if does == "leave":
        os._exit(4)
    if does == "sleep":
        time.sleep(300)
    if does == "clean up":
        try:
            time.sleep(300)
        except KeyboardInterrupt:
            sys.exit(7)
    if does == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
