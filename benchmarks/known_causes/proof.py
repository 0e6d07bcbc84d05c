"""Every fault is what it says: wrong where it says so, right elsewhere.

    python benchmarks/known_causes/proof.py [--half blind] [--only scaled]

The truth is autograd's gradient of the same forward in plain torch, in double precision.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from known_causes.fault import Fault, Op  # noqa: E402

DOUBLE = {
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
# Relative to the element, and to the largest element: rounding of a sound backward.
ROUNDING = {torch.float64: (1e-9, 1e-12), torch.float32: (1e-4, 2e-6)}
# Of the elements said to be wrong, how many must be so beyond rounding: a few are near
# to the truth by chance, many more in single precision.
SEEN = {torch.float64: 0.98, torch.float32: 0.5}


def faults(half: str = "blind", cause: str | None = None) -> list[Fault]:
    """The faults of one half, `blind` or `seen`; of one cause if it is named."""
    names = sorted(path.stem for path in (HERE / half).glob("[a-z]*.py"))
    modules = [
        importlib.import_module(f"known_causes.{half}.{name}")
        for name in names
        if cause in (None, name)
    ]
    return [fault for module in modules for fault in module.FAULTS]


def parameters(fault: Fault) -> list[str]:
    """The names of forward's parameters, without ctx."""
    names = list(inspect.signature(fault.function.forward).parameters)
    return names[1:] if names[0] == "ctx" else names


def prove(fault: Fault, dtype: torch.dtype, seed: int = 0) -> float:
    """Assert what the fault says; the share of its input's elements that is wrong."""
    _prove_forward(fault, dtype, seed)
    if fault.shows is not None:
        if fault.causes[0] == "variant":
            _prove_plain(fault, dtype, seed)
        return _prove_variation(fault, dtype, seed)
    args = fault.inputs(seed, dtype)
    claims = gradients(fault.function.apply, args)
    truths = gradients(fault.reference, in_double(args))
    share = math.nan
    for name, arg, claim, truth in zip(
        parameters(fault), args, claims, truths, strict=True
    ):
        if not _differentiable(arg):
            continue
        differs = different(claim, truth, dtype)
        if name == fault.wrong_input:
            wrong = _mask(fault, args, arg)
            _assert_where(fault, differs, wrong, dtype)
            share = wrong.double().mean().item()
        else:
            found, said = bool(differs.any()), name in fault.also_wrong
            assert found == said, (
                f"{fault.name}: {name} is wrong is {found}, not {said}"
            )
    assert not math.isnan(share), f"{fault.name}: no gradient for {fault.wrong_input}"
    return share


def gradients(op: Op, args: Sequence[Any], seed: int = 7) -> list[Tensor | None]:
    """The gradient for each argument, for cotangents drawn from the seed."""
    outputs = op(*args)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    outputs = [output for output in outputs if output.requires_grad]
    generator = torch.Generator().manual_seed(seed)
    cotangents = [cotangent(output, generator) for output in outputs]
    asked = [arg for arg in args if _differentiable(arg)]
    found = iter(torch.autograd.grad(outputs, asked, cotangents, allow_unused=True))
    return [next(found) if _differentiable(arg) else None for arg in args]


def cotangent(output: Tensor, generator: torch.Generator) -> Tensor:
    """A normal cotangent, the same numbers in every precision."""
    wide = torch.complex128 if output.is_complex() else torch.float64
    drawn = torch.randn(output.shape, generator=generator, dtype=wide)
    # Rounded to single precision, so that both precisions start from the same.
    return drawn.to(torch.complex64 if output.is_complex() else torch.float32).to(
        output.dtype
    )


def in_double(args: Sequence[Any]) -> tuple[Any, ...]:
    """The same arguments, as leaves in double precision."""
    return tuple(
        arg.detach()
        .to(DOUBLE.get(arg.dtype, arg.dtype))
        .requires_grad_(arg.requires_grad)
        if isinstance(arg, Tensor)
        else arg
        for arg in args
    )


def different(claim: Tensor | None, truth: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Where the two are apart by more than the rounding of this dtype; None is zero."""
    if truth is None:
        assert claim is not None
        truth = torch.zeros_like(claim)
    claim = torch.zeros_like(truth) if claim is None else claim.detach().to(truth.dtype)
    relative, absolute = ROUNDING[dtype.to_real()]
    largest = truth.abs().max()
    bar = relative * truth.abs() + absolute * largest
    return (claim - truth).abs() > bar


def _prove_forward(fault: Fault, dtype: torch.dtype, seed: int) -> None:
    """The reference is the same forward: the fault is in backward alone."""
    args = fault.inputs(seed, dtype)
    ours, theirs = fault.function.apply(*args), fault.reference(*in_double(args))
    pairs = (
        zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
    )
    for our, their in pairs:
        apart = different(our, their, dtype)
        assert not apart.any(), f"{fault.name}: forward is not the reference's"


def _prove_plain(fault: Fault, dtype: torch.dtype, seed: int) -> None:
    """A variant is right on the plain call."""
    args = fault.inputs(seed, dtype)
    claims = gradients(fault.function.apply, args)
    truths = gradients(fault.reference, in_double(args))
    for claim, truth in zip(claims, truths, strict=True):
        if truth is not None:
            assert not different(claim, truth, dtype).any(), f"{fault.name}: plain call"


def _prove_variation(fault: Fault, dtype: torch.dtype, seed: int) -> float:
    """The variation shows the fault."""
    assert fault.shows is not None
    claim = fault.shows(fault.function.apply, seed, dtype)
    truth = fault.shows(fault.reference, seed, dtype)
    differs = different(claim, truth, dtype)
    assert differs.any(), f"{fault.name}: the variation shows nothing"
    return differs.double().mean().item()


def _assert_where(
    fault: Fault, differs: Tensor, wrong: Tensor, dtype: torch.dtype
) -> None:
    """Wrong where it is said, and nowhere else."""
    beside = int((differs & ~wrong).sum())
    assert beside == 0, f"{fault.name}: wrong in {beside} elements that are said right"
    seen = int((differs & wrong).sum()) / max(1, int(wrong.sum()))
    least = SEEN[dtype.to_real()]
    assert seen >= least, f"{fault.name} in {dtype}: {seen:.1%} of the place is wrong"


def _mask(fault: Fault, args: Sequence[Any], arg: Tensor) -> Tensor:
    if fault.wrong is None:
        return torch.ones_like(arg, dtype=torch.bool)
    mask = fault.wrong(*args)
    assert mask.shape == arg.shape, f"{fault.name}: the mask has shape {mask.shape}"
    return mask


def _differentiable(arg: Any) -> bool:
    return isinstance(arg, Tensor) and arg.requires_grad


def main() -> None:
    """Prove each fault of one half, one line a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", default="blind", choices=("blind", "seen"))
    parser.add_argument("--only", help="the name of a cause")
    given = parser.parse_args()
    proven, failures = faults(given.half, given.only), 0
    for fault in proven:
        for dtype in fault.dtypes:
            try:
                share = f"{prove(fault, dtype):8.2g}"
            except Exception as error:  # every fault gets its line
                share, failures = (
                    f"FAILED {type(error).__name__}: {error}",
                    failures + 1,
                )
            print(f"{fault.name:48} {'+'.join(fault.causes):26} {dtype!s:16} {share}")
    names = [fault.name for fault in proven]
    assert len(names) == len(set(names)), "two faults have the same name"
    print(f"{len(proven)} faults, {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
