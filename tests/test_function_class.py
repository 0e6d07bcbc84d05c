"""torch's Functions and ours answer the same questions."""

import types

import pytest
import torch
from torch.autograd.function import InplaceFunction

import backproof
from backproof.function_class import (
    can_be_called,
    class_of_apply,
    class_of_node,
    is_function,
    is_torchs,
    own_backward,
    own_method,
    takes_ctx,
)

BASES = {"torch": torch.autograd.Function, "backproof": backproof.Function}
base = pytest.mark.parametrize("base", BASES.values(), ids=BASES)


def twice(ctx, x):
    return 2 * x


def by_two(ctx, g):
    return 2 * g


def plain_twice(x):
    return 2 * x


def nothing(ctx, inputs, output):
    pass


def made(base, **methods):
    methods = methods or {"forward": twice, "backward": by_two}
    methods = {name: staticmethod(method) for name, method in methods.items()}
    return types.new_class("Twice", (base,), exec_body=lambda ns: ns.update(methods))


@base
def test_a_subclass_is_a_function(base):
    assert is_function(made(base))
    assert not is_function(made(base).apply)


@pytest.mark.parametrize(
    "thing", [int, torch.nn.Linear, 3, None], ids=["int", "module", "3", "None"]
)
def test_anything_else_is_none(thing):
    assert not is_function(thing)


def test_torch_runs_its_own():
    assert is_torchs(made(torch.autograd.Function))
    assert is_torchs(InplaceFunction)
    assert not is_torchs(made(backproof.Function))


@base
@pytest.mark.parametrize("name", ["setup_context", "jvp", "vmap", "vjp"])
def test_only_what_the_author_wrote_is_its_own(base, name):
    assert own_method(made(base), name) is None
    assert own_method(made(base), "forward") is twice


def test_without_a_class_there_is_no_method():
    assert own_method(None, "forward") is None


@base
@pytest.mark.parametrize("name", ["backward", "vjp"])
def test_backward_has_two_names(base, name):
    assert own_backward(made(base, forward=twice, **{name: by_two})) is by_two


@base
def test_forward_takes_ctx_unless_a_method_beside_it_does(base):
    beside = {"forward": plain_twice, "setup_context": nothing, "backward": by_two}
    assert takes_ctx(made(base))
    assert not takes_ctx(made(base, **beside))


def test_a_base_of_the_users_own_cannot_be_called():
    assert can_be_called(made(backproof.Function, forward=twice))
    assert not can_be_called(made(backproof.Function, backward=by_two))
    assert can_be_called(made(torch.autograd.Function, backward=by_two))


@base
def test_apply_leads_to_the_class(base):
    one, other = made(base), made(base)
    assert class_of_apply(one.apply) is one
    assert class_of_apply(other.apply) is other
    assert class_of_apply(twice) is None
    assert class_of_apply(torch.nn.Linear(1, 1).forward) is None


@base
def test_a_node_leads_to_the_class(base):
    one = made(base)
    assert class_of_node(one.apply(torch.ones(1).requires_grad_()).grad_fn) is one


def test_a_node_of_another_route_does_so_too():
    one = made(backproof.Function)
    with torch.autograd.forward_ad.dual_level():
        output = one.apply(torch.ones(1).requires_grad_())
    assert any(class_of_node(node) is one for node in behind(output.grad_fn))


def behind(node):
    while node is not None:
        yield node
        node = node.next_functions[0][0] if node.next_functions else None


def test_torchs_own_nodes_lead_to_none():
    assert class_of_node(torch.ones(1).requires_grad_().sin().grad_fn) is None
