"""Several threads, each with inputs of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from backproof.battery.survey.agreement import gradients_agree, outputs_agree
from backproof.battery.survey.context import Compared, NotApplicable, context
from backproof.battery.survey.scene import Scene

_THREADS = 4
_ROUNDS = 5
_PATIENCE = 60.0  # seconds for all threads to meet


@context("eager", code="BP602")
def threads_backward(scene: Scene) -> Iterator[Compared]:
    """All threads run forward, meet, and run backward: none gets another's gradient."""
    if scene.draws:
        raise NotApplicable(
            "threads draw from one stream of random numbers in any order"
        )
    for k in range(_THREADS):
        scene.prepare(k)
    for results in _rounds(scene):
        for sample, (outputs, gradients) in enumerate(results):
            yield from outputs_agree(scene, outputs, sample)
            yield from gradients_agree(scene, gradients, sample)


def _rounds(scene: Scene) -> Iterator[list[Any]]:
    for _ in range(_ROUNDS):
        tasks = [(scene.separate, scene.leaves(k)) for k in range(_THREADS)]
        yield _meeting(scene, tasks)


def _meeting(
    scene: Scene, tasks: Sequence[tuple[Callable[..., Any], list[Tensor]]]
) -> list[Any]:
    """One thread a task; each waits for the others between forward and backward."""
    barrier = threading.Barrier(len(tasks))
    results: list[Any] = [None] * len(tasks)
    failures: list[BaseException] = []

    def work(k: int) -> None:
        function, leaves = tasks[k]
        try:
            with torch.enable_grad():
                outputs = function(*leaves)
                loss = scene.loss(outputs)
                barrier.wait(_PATIENCE)
                gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
            results[k] = (outputs, gradients)
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        broken = threading.BrokenBarrierError
        raise next((f for f in failures if not isinstance(f, broken)), failures[0])
    return results
