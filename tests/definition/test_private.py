"""Without a name that torch does not document, a call is right or refused, never wrong."""

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap

import pytest

from backproof.definition import private

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
SOURCE = inspect.getsource(private)
NAMES = re.findall(r"^(\w+) = _find\(", SOURCE, flags=re.MULTILINE)

# One process loads torch; a child of it for each name loads the rest without that name.
SCRIPT = """
    import json, os, sys, warnings
    import torch
    import backproof.definition.private as private
    from tests.definition import contexts, func_contexts

    warnings.simplefilter("ignore")
    GATES = "ctx, setup_context, own jvp and vmap, saved intermediate, in place, list"
    CONTEXTS = (
        "backward, double backward, batched cotangents, func jvp, jacfwd of jacfwd, "
        "vmap of grad, vmap of hessian"
    )

    WAYS = {**contexts.EAGER, **func_contexts.FUNC}
    WAYS = {name: WAYS[name] for name in CONTEXTS.split(", ")}
    for run in WAYS.values():  # what torch loads on first use, each child has then
        run(lambda x, w: w * x.sigmoid())

    def cells(gates, reference, compare):
        for name, run in WAYS.items():
            expected = run(reference)
            for gate, op in gates.items():
                try:
                    found = run(op)
                except Exception as error:
                    kind = [base.__name__ for base in type(error).__mro__]
                    yield gate, name, "refused", [*kind, str(error)[:200]]
                    continue
                try:
                    compare(found, expected)
                except AssertionError as error:
                    yield gate, name, "wrong", str(error)
                else:
                    yield gate, name, "right", ""

    def without(name):
        if name:
            assert getattr(private, name) is not None, "torch has it no more"
            setattr(private, name, None)
        from tests.definition import gates, kernels
        from tests.definition.argument_gates import GATES as EVERY
        from backproof import surrogate

        ops = {gate: EVERY[gate] for gate in GATES.split(", ")}
        ops["kernel"] = kernels.SECOND_ORDER["second_order"]
        ops["surrogate"] = surrogate(gates.hard, gates.soft)
        found = list(cells(ops, gates.reference, contexts.compare))
        print(json.dumps([name, found]), flush=True)

    for name in sys.argv[1:]:
        child = os.fork()
        if not child:
            try:
                without(name)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
        os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def found():
    """Verdicts of each cell, by the name that is missing."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), "", *NAMES],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (json.loads(line) for line in done.stdout.splitlines())
    return {name: {(g, c): rest for g, c, *rest in cells} for name, cells in lines}


# Where no name is missing: forward made a tensor from an input that it then changed.
REFUSED = {("in place", "double backward")}
FIRST = ("backward", "batched cotangents", "vmap of grad")


def test_with_every_name_all_is_right(found):
    refused = {cell for cell, (verdict, _) in found[""].items() if verdict != "right"}
    assert refused == REFUSED


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_without_one_nothing_is_wrong(name, found):
    wrong = {
        cell: why for cell, (verdict, why) in found[name].items() if verdict == "wrong"
    }
    assert wrong == {}


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_without_one_first_derivatives_are_there(name, found):
    lost = {
        (gate, context): why
        for (gate, context), (verdict, why) in found[name].items()
        if verdict == "refused" and context in FIRST
    }
    assert lost == {}


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_without_one_refusals_say_who_refuses(name, found):
    unnamed = {
        cell: why
        for cell, (verdict, why) in found[name].items()
        if verdict == "refused" and "BackproofError" not in why
    }
    assert unnamed == {}


def test_every_name_is_tried():
    assert len(NAMES) > 15
    assert SOURCE.count(" = _find(") == len(NAMES)
