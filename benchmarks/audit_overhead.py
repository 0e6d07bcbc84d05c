"""What an audit costs the program that it watches.

    python benchmarks/audit_overhead.py [--quick] [--device cuda]

A training step of a small transformer (4 layers, width 256, 8 x 128 tokens, AdamW) whose
linear layers, normalisation, activation and loss are four custom Functions, as people
write them. One run of the program a row of the table, the rows interleaved so that the
machine's moods hit all alike:

- plain: nobody watches;
- recording: every call is kept (a new recording for each measured step);
- afterwards: the budget of calls and bytes is used up, as in nearly all steps of a
  training;
- no memory: a budget of bytes that is too small for any call.

Ratios are medians over rounds; the spread is their quartiles. Peak memory is that of the
kept arguments, counted by the recording itself and by the process's resident size.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import psutil
import torch
from torch import Tensor, nn

import backproof
from backproof.audit.recording import MEMORY

_AFTERWARDS, _RECORDING = 1.05, 1.30  # what may be asked of each


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        flat = grad_output.flatten(0, -2)
        return grad_output @ weight, flat.mT @ x.flatten(0, -2), flat.sum(0)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        scale = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(x, weight, scale)
        return x * scale * weight

    @staticmethod
    def backward(ctx, grad_output):
        x, weight, scale = ctx.saved_tensors
        unit = x * scale
        inner = grad_output * weight
        grad_x = scale * (inner - unit * (inner * unit).mean(-1, keepdim=True))
        return grad_x, (grad_output * unit).flatten(0, -2).sum(0), None


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        gate = x.sigmoid()
        return grad_output * gate * (1 + x * (1 - gate))


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        log_probabilities = logits.log_softmax(-1)
        ctx.save_for_backward(log_probabilities, targets)
        return -log_probabilities.gather(-1, targets[:, None]).mean()

    @staticmethod
    def backward(ctx, grad_output):
        log_probabilities, targets = ctx.saved_tensors
        grad = log_probabilities.exp()
        grad[torch.arange(len(targets)), targets] -= 1
        return grad * (grad_output / len(targets)), None


class Dense(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return Linear.apply(x, self.weight, self.bias)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return RMSNorm.apply(x, self.weight, 1e-5)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([Norm(width), Norm(width)])
        self.project, self.out = Dense(width, 3 * width), Dense(width, width)
        self.up, self.down = Dense(width, 4 * width), Dense(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.project(self.norms[0](x)).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(Swish.apply(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width, 8) for _ in range(layers)])
        self.norm, self.head = Norm(width), Dense(width, words)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).flatten(0, 1)
        return CrossEntropy.apply(logits, targets.flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three rounds, one layer")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    rounds, layers = (3, 1) if given.quick else (given.rounds, 4)
    step = _program(layers, given.device)
    for _ in range(3):
        step()
    rows = _measured(step, rounds)
    plain = rows.pop("plain")
    print(f"{len(plain)} rounds, a plain step takes {statistics.median(plain):.1f} ms")
    print(f"{'':14}{'ratio':>8}{'quartiles':>16}{'asked':>8}")
    asked = {"recording": _RECORDING, "afterwards": _AFTERWARDS, "no memory": 0.0}
    for name, times in rows.items():
        ratios = [a / b for a, b in zip(times, plain, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        limit = f"{asked[name]:.2f}" if asked[name] else ""
        print(f"{name:14}{middle:8.3f}{low:9.3f} {high:6.3f}{limit:>8}")
    _memory(layers, given.device)


def _program(layers: int, device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model = Transformer(words=1000, width=256, layers=layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 1000, (8, 129), device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(tokens[:, :-1], tokens[:, 1:]).backward()
        optimizer.step()
        if device != "cpu":
            torch.cuda.synchronize()

    return step


def _measured(step: Callable[[], None], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of one step each, by row; the order within a round changes."""
    rows: dict[str, list[float]] = {
        name: [] for name in ("plain", "recording", "afterwards", "no memory")
    }
    for number in range(rounds):
        names = list(rows)
        for name in names[number % 4 :] + names[: number % 4]:
            rows[name].append(_once(name, step))
    return rows


def _once(name: str, step: Callable[[], None]) -> float:
    if name == "plain":
        return _timed(step)
    memory = 1000 if name == "no memory" else MEMORY
    with backproof.recording(memory=memory):
        if name == "afterwards":
            step()
            step()
        return _timed(step)


def _timed(step: Callable[[], None]) -> float:
    gc.collect()
    start = time.perf_counter()
    for _ in range(2):
        step()
    return 1e3 * (time.perf_counter() - start) / 2


def _memory(layers: int, device: str) -> None:
    """What is kept at most, against the budget, for a budget that is too small."""
    step = _program(layers, device)
    step()
    print(f"\n{'budget MiB':>12}{'kept MiB':>10}{'resident MiB':>14}{'calls kept':>12}")
    for budget in (256, 32, 4):
        gc.collect()
        before = psutil.Process().memory_info().rss
        with backproof.recording(memory=budget * 2**20) as seen:
            step()
            step()
            gc.collect()
            grown = psutil.Process().memory_info().rss - before
        calls = sum(len(ledger.kept) for ledger in seen.ledgers.values())
        print(
            f"{budget:12}{seen.kept_bytes / 2**20:10.1f}{grown / 2**20:14.1f}{calls:12}"
        )
        assert seen.kept_bytes <= budget * 2**20


if __name__ == "__main__":
    main()
