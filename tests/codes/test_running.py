"""The wrong examples of BP6xx to BP8xx show their fault, and the right ones do not."""

import gc
import weakref
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

from backproof.codes import page


def test_bp601(wrong, right):
    def repeats(module):
        (x,) = module.inputs()
        state = torch.get_rng_state()
        results = []
        for _ in range(2):
            torch.set_rng_state(state)
            results.append(torch.autograd.grad(module.op(x).sum(), x)[0])
        return torch.equal(*results)

    assert not repeats(wrong)
    assert repeats(right)


def test_bp602(wrong, right):
    def leaves_the_state(module):
        torch.manual_seed(5)
        before = torch.get_rng_state()
        module.op(*module.inputs())
        return torch.equal(before, torch.get_rng_state())

    assert not leaves_the_state(wrong)
    assert leaves_the_state(right)
    assert torch.equal(right.op(*right.inputs()), right.op(*right.inputs()))


def test_bp701(wrong, right):
    def freed_without_collector(module):
        (x,) = module.inputs()
        gc.collect()
        gc.disable()
        try:
            y = module.op(x)
            y.sum().backward()
            alive = weakref.ref(y)
            del y
            return alive() is None
        finally:
            gc.enable()

    assert not freed_without_collector(wrong)
    assert freed_without_collector(right)


def test_bp702(wrong, right):
    def saved_bytes(module):
        (x,) = module.inputs()
        sizes = []

        def pack(tensor):
            sizes.append(tensor.nbytes)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            module.op(x)
        return sum(sizes)

    assert saved_bytes(wrong) == 3 * saved_bytes(right)


def test_bp801(tmp_path, monkeypatch):
    # The ranks are new processes, which find this module by its name.
    monkeypatch.syspath_prepend(Path(__file__).parents[2])

    def gap(which):
        """Σ⟨backward(u), v⟩ - Σ⟨u, f(v)⟩ over two ranks, f being linear."""
        folder = tmp_path / which
        folder.mkdir()
        torch.multiprocessing.spawn(_one_rank, (page("BP801"), which, folder), 2)
        return abs(sum(torch.load(f) for f in folder.glob("*.pt")).item())

    assert gap("wrong") > 0.1
    assert gap("right") < 1e-12


def _one_rank(rank, page, which, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    scope = {}
    exec(compile(getattr(page, which), which, "exec"), scope)
    (x,) = scope["inputs"]()
    gen = torch.Generator().manual_seed(10 + rank)
    v = torch.randn(4, generator=gen, dtype=torch.double)
    u = torch.randn(8, generator=gen, dtype=torch.double)
    claim = torch.autograd.grad(scope["op"](x), x, u)[0] @ v
    torch.save(claim - u @ scope["op"](v), folder / f"{rank}.pt")
    dist.destroy_process_group()
