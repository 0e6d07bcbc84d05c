"""torch's gradcheck, with our referee: migration in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

from backproof.battery.check import check
from backproof.errors import BadInput, WrongGradient
from backproof.records import Verdict

_NOT_OURS = ("check_batched_grad", "check_batched_forward_grad", "check_forward_ad")


class GradcheckFailed(WrongGradient, GradcheckError):
    """What `gradcheck` raises: also torch's own GradcheckError, a RuntimeError."""


_OF_GRADCHECK = (  # what it promises: a first derivative, and its form
    "BP101",
    "BP104",
    "BP106",
    "BP107",
    "BP109",
    "BP110",
    "BP501",
    "BP502",
)


def gradcheck(
    func: Callable[..., Any],
    inputs: torch.Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` are right, in the type of the inputs.

    The signature is that of `torch.autograd.gradcheck`. Step, tolerances and mode are
    accepted and not used: the step follows from the type, error bars take the place of
    tolerances, and the cost does not grow with the inputs.

    Args:
        func: takes the inputs and returns a tensor or a container of tensors.
        inputs: a tensor or a sequence of arguments; those that require a gradient count.
        eps: not used.
        atol: not used.
        rtol: not used.
        raise_exception: raise instead of returning False.
        nondet_tol: not used; scatter between equal calls is measured.
        check_undefined_grad: not used; each output is also tried alone.
        check_grad_dtypes: not used; dtypes are always checked.
        check_batched_grad: must stay False.
        check_batched_forward_grad: must stay False.
        check_forward_ad: must stay False.
        check_backward_ad: must stay True.
        fast_mode: not used.
        masked: not used; sparse inputs are refused.

    Returns:
        True for a pass. False, with `raise_exception=False`, where a law is broken, an
        undeclared surrogate is found, or the question stays undecided.

    Raises:
        GradcheckFailed: it is not a pass; the message is the whole report.
        BadInput: it cannot be checked, or asks for what this check does not do.

    Example:
        >>> import backproof, torch
        >>> x = torch.randn(8, dtype=torch.bfloat16, requires_grad=True)
        >>> backproof.gradcheck(torch.relu, (x,))
        True
    """
    __tracebackhide__ = True  # pytest then shows the caller's line
    asked = (check_batched_grad, check_batched_forward_grad, check_forward_ad)
    for name, value in zip(_NOT_OURS, asked, strict=True):
        if value:
            raise BadInput(
                f"{name}=True is not covered; keep torch.autograd.gradcheck for it"
            )
    if not check_backward_ad:
        raise BadInput("check_backward_ad=False leaves nothing to check; drop it")
    arguments = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    report = check(func, *arguments, laws=_OF_GRADCHECK)
    if report.verdict is Verdict.PASS:
        return True
    if raise_exception:
        raise GradcheckFailed(str(report))
    return False
