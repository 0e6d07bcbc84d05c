"""torch.library.opcheck and ours, side by side on custom operators.

Each pair is an operator with one mistake and its corrected twin. opcheck looks at the
schema, the registration of autograd, the fake kernel and at tracing with dynamic
shapes; whether the gradient is right is not its question, and the first three pairs
show what follows. Where opcheck fails an operator we have to convict it or show its
refusal, and neither may accuse a twin.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from running import Row, parser, prepare, print_table, seed_everything, write_rows
from torch import Tensor

import backproof

Operator = Any
_NAMESPACE = "opcheck_pairs"
_LIBRARY = torch.library.Library(_NAMESPACE, "DEF")


@dataclass(frozen=True)
class Pair:
    """An operator with one mistake, and its twin without.

    Attributes:
        what: the mistake.
        codes: of the laws that may convict it.
        wrong: the operator with the mistake.
        right: its twin.
        refused: whether the mistake makes torch refuse the operator in some contexts
            rather than give a wrong number.
    """

    what: str
    codes: tuple[str, ...]
    wrong: Operator
    right: Operator
    refused: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a mistake that opcheck sees is not seen by us."""
    options = parser(__doc__, jobs=False).parse_args(arguments)
    prepare()
    rows = [row for pair in pairs() for row in _rows(pair, options.seed)]
    print_table(
        "opcheck and backproof",
        ["mistake", "operator", "opcheck", "backproof", "by"],
        [[r["what"], r["which"], r["opcheck"], r["ours"], r["codes"]] for r in rows],
    )
    wrong = [r for r in rows if r["which"] == "wrong"]
    right = [r for r in rows if r["which"] == "twin"]
    print(
        f"\nof {len(wrong)} mistakes opcheck fails "
        f"{sum(r['opcheck'] != 'passes' for r in wrong)}, backproof sees "
        f"{sum(r['seen'] for r in wrong)}; of {len(right)} twins opcheck fails "
        f"{sum(r['opcheck'] != 'passes' for r in right)}, backproof accuses "
        f"{sum(r['ours'] != 'pass' for r in right)}"
    )
    write_rows(options.out, rows)
    missed = not all(r["seen"] for r in wrong)
    accused = any(r["ours"] != "pass" for r in right)
    return 1 if missed or accused else 0


def _rows(pair: Pair, seed: int) -> Iterator[Row]:
    for which, operator in (("wrong", pair.wrong), ("twin", pair.right)):
        seed_everything(seed)
        report = backproof.check(operator, *inputs(), seed=seed)
        (subject,) = report.subjects
        codes = sorted({f.code for f in report.findings if f.severity == "error"})
        refused = [n for n, c in subject.contexts.items() if c["status"] == "refuses"]
        said = ", ".join(codes) or ("refused" if refused else "")
        yield {
            "what": pair.what,
            "which": which,
            "opcheck": opcheck(operator),
            "ours": subject.verdict.value,
            "codes": said,
            "seen": bool(set(codes) & set(pair.codes))
            or (pair.refused and bool(refused)),
        }


def opcheck(operator: Operator) -> str:
    """`passes`, or which of its tests fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.library.opcheck(operator, inputs(), raise_exception=False)
    failed = [name for name, said in found.items() if said != "SUCCESS"]
    short = [name.removeprefix("test_").removesuffix("_dynamic") for name in failed]
    return ", ".join(short) or "passes"


def inputs() -> tuple[Tensor]:
    """One matrix that needs a gradient."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, generator=random, dtype=torch.float64)
    return (x.requires_grad_(),)


# ------------------------------------------------------------------ the operators


def exponential(x: Tensor) -> Tensor:
    """exp(x), whose gradient is g exp(x)."""
    return x.exp()


def save_output(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keep the output."""
    ctx.save_for_backward(output)


def save_input(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keep the input."""
    ctx.save_for_backward(inputs[0])


def times_output(ctx: Any, g: Tensor) -> Tensor:
    """The gradient of exp."""
    (y,) = ctx.saved_tensors
    return g * y


def same(x: Tensor) -> Tensor:
    """The fake kernel of what keeps shape, dtype and dense strides."""
    return torch.empty_like(x)


def custom(
    name: str,
    *,
    forward: Callable[[Tensor], Tensor] = exponential,
    backward: Callable[[Any, Tensor], Tensor | None] | None = times_output,
    setup: Callable[..., None] = save_output,
    fake: Callable[[Tensor], Tensor] | None = same,
) -> Operator:
    """An operator made by `torch.library.custom_op`."""
    operator = torch.library.custom_op(
        f"{_NAMESPACE}::{name}", forward, mutates_args=()
    )
    if backward is not None:
        operator.register_autograd(backward, setup_context=setup)
    if fake is not None:
        operator.register_fake(fake)
    return operator


def registered(
    name: str,
    *,
    forward: Callable[[Tensor], Tensor] = exponential,
    key: str = "CompositeExplicitAutograd",
    backward: Callable[[Any, Tensor], Tensor] | None = times_output,
) -> Operator:
    """An operator of a `torch.library.Library`, where torch itself checks less."""
    _LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    _LIBRARY.impl(name, forward, key)
    qualified = f"{_NAMESPACE}::{name}"
    torch.library.register_fake(qualified, same, lib=_LIBRARY)
    if backward is not None:
        torch.library.register_autograd(
            qualified, backward, setup_context=save_output, lib=_LIBRARY
        )
    return getattr(getattr(torch.ops, _NAMESPACE), name).default


def doubled(ctx: Any, g: Tensor) -> Tensor:
    """Twice the gradient of exp."""
    return 2 * times_output(ctx, g)


def negated(ctx: Any, g: Tensor) -> Tensor:
    """Minus the gradient of exp."""
    return -times_output(ctx, g)


def square(x: Tensor) -> Tensor:
    """x², for which the input is kept."""
    return x * x


def times_input(ctx: Any, g: Tensor) -> Tensor:
    """The gradient of the square."""
    (x,) = ctx.saved_tensors
    return 2 * g * x


def times_memory(ctx: Any, g: Tensor) -> Tensor:
    """The same by a kernel that takes the input's memory for its rows."""
    (x,) = ctx.saved_tensors
    flat = torch.as_strided(x, (x.numel(),), (1,), x.storage_offset())
    return 2 * g * flat.view(x.shape)


def rectified(x: Tensor) -> Tensor:
    """exp(max(x, 0.1))."""
    return x.clamp(min=0.1).exp()


def rectified_in_place(x: Tensor) -> Tensor:
    """The same, which leaves the clamped values in the caller's tensor."""
    return x.clamp_(min=0.1).exp()


def where_above(ctx: Any, g: Tensor) -> Tensor:
    """The gradient of both."""
    (y,) = ctx.saved_tensors
    return g * y * (y > torch.exp(torch.tensor(0.1, dtype=y.dtype)))


def itself(x: Tensor) -> Tensor:
    """The input as it is, which the schema does not say."""
    return x


def copied(x: Tensor) -> Tensor:
    """A copy of the input."""
    return x.clone()


def handed_on(ctx: Any, g: Tensor) -> Tensor:
    """The gradient of both."""
    return g.clone()


def row_sums(x: Tensor) -> Tensor:
    """The sum of each row."""
    return x.sum(1)


def spread(ctx: Any, g: Tensor) -> Tensor:
    """The gradient of the row sums."""
    (x,) = ctx.saved_tensors
    return g[:, None].expand_as(x).clone()


def by_columns(x: Tensor) -> Tensor:
    """exp(x), written column after column."""
    return x.exp().t().contiguous().t()


class Exponential(torch.autograd.Function):
    """exp, with the gradient that a kernel must not bring along."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return g * y


def through_numpy(ctx: Any, g: Tensor) -> Tensor:
    """The gradient of exp, computed outside of torch."""
    (y,) = ctx.saved_tensors
    return torch.from_numpy(g.numpy() * y.numpy())


@functools.cache  # an operator can be registered once
def pairs() -> tuple[Pair, ...]:
    """Every pair; those that opcheck passes wrongly come first."""
    right = custom("right")
    return (
        Pair(
            "gradient doubled", ("BP101",), custom("doubled", backward=doubled), right
        ),
        Pair(
            "gradient negated", ("BP101",), custom("negated", backward=negated), right
        ),
        Pair(
            "gradient reads memory, not strides",
            ("BP503",),
            custom("memory", forward=square, backward=times_memory, setup=save_input),
            custom("strides", forward=square, backward=times_input, setup=save_input),
        ),
        Pair(
            "input changed, not declared",
            ("BP201",),
            custom("in_place", forward=rectified_in_place, backward=where_above),
            custom("out_of_place", forward=rectified, backward=where_above),
        ),
        Pair(
            "input returned, not declared",
            ("BP204",),
            registered("itself", forward=itself, backward=handed_on),
            registered("copied", forward=copied, backward=handed_on),
        ),
        Pair(
            "fake kernel: another shape",
            ("BP407",),
            custom("fake_shape", forward=row_sums, backward=spread, setup=save_input),
            custom(
                "true_shape",
                forward=row_sums,
                backward=spread,
                setup=save_input,
                fake=lambda x: x.new_empty(x.shape[0]),
            ),
        ),
        Pair(
            "fake kernel: another dtype",
            ("BP407",),
            custom("fake_dtype", fake=lambda x: torch.empty_like(x).float()),
            right,
        ),
        Pair(
            "fake kernel: other strides",
            ("BP407",),
            custom("fake_strides", forward=by_columns),
            custom(
                "true_strides",
                forward=by_columns,
                fake=lambda x: torch.empty_like(x.t().contiguous().t()),
            ),
        ),
        Pair(
            "fake kernel missing",
            ("BP407",),
            custom("fakeless", fake=None),
            right,
            refused=True,
        ),
        Pair(
            "autograd inside of the kernel",
            ("BP401", "BP406", "BP407"),
            registered("inside", forward=Exponential.apply, key="CPU", backward=None),
            registered("outside"),
        ),
        Pair(
            "backward leaves torch",
            (),
            custom("numpy", backward=through_numpy),
            right,
            refused=True,
        ),
    )


if __name__ == "__main__":
    raise SystemExit(main())
