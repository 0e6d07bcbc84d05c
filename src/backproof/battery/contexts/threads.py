"""Several threads, each with inputs of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from backproof.battery.survey.agreement import gradients_agree, outputs_agree
from backproof.battery.survey.context import Compared, NotApplicable, context
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.style import style_of

_THREADS = 4
_ROUNDS = (0, 0, 0, 0, 1, 1)  # whose graph each thread runs backward of, from its own
_PATIENCE = 60.0  # seconds for all threads to meet


@context("eager", code="BP602")
def threads_backward(scene: Scene) -> Iterator[Compared]:
    """All threads run forward, meet, and run backward, of other threads' calls as well."""
    if scene.draws or style_of(scene).draws == "state":
        raise NotApplicable(
            "threads draw from one stream of random numbers in any order"
        )
    for k in range(_THREADS):
        scene.prepare(k)
    for shift in _ROUNDS:
        tasks = [(scene.separate, scene.leaves(k)) for k in range(_THREADS)]
        for sample, (outputs, gradients) in enumerate(_meeting(scene, tasks, shift)):
            yield from outputs_agree(scene, outputs, sample)
            for one in gradients_agree(scene, gradients, sample):
                elsewhere = f"{one.what}, backward in another thread than forward,"
                yield replace(one, what=elsewhere) if shift else one


def _meeting(
    scene: Scene, tasks: Sequence[tuple[Callable[..., Any], list[Tensor]]], shift: int
) -> list[Any]:
    """Outputs and gradients of each task, of which each thread runs one forward.

    All threads wait for the others before they run backward, on the graph of the thread
    `shift` places on: autograd itself has threads of its own for other devices.
    """
    barrier = threading.Barrier(len(tasks))
    recorded: list[Any] = [None] * len(tasks)
    results: list[Any] = [None] * len(tasks)
    failures: list[BaseException] = []

    def work(k: int) -> None:
        function, leaves = tasks[k]
        other = (k + shift) % len(tasks)
        try:
            with torch.enable_grad():
                outputs = function(*leaves)
                recorded[k] = outputs, scene.loss(outputs), leaves
                barrier.wait(_PATIENCE)
                outputs, loss, leaves = recorded[other]
                gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
            results[other] = (outputs, gradients)
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
