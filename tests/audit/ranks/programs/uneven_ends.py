"""Rank 1 does not come to verification as the others do, or not through it; the argument
says how."""

import os
import signal
import sys
import time
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from meeting import meet, own
from right_pairs import AllReduce as _AllReduce
from right_pairs import Square


class AllReduce(_AllReduce):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        AllReduce.calls += 1
        if "replay" in sys.argv and dist.get_rank() == 1 and AllReduce.calls > 9:
            raise ValueError("nine calls are enough")
        return _AllReduce.forward(ctx, x)


def main():
    meet()
    x = own(4).requires_grad_()
    (AllReduce.apply(Square.apply(x)) * own(4)).sum().backward()
    if dist.get_rank() == 1:
        if "killed" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        if "late" in sys.argv:
            time.sleep(8)
        if "raises" in sys.argv:
            raise ValueError("rank 1 has had enough")
        if "exits" in sys.argv:
            os._exit(3)


if __name__ == "__main__":
    main()
