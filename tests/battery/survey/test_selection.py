import pytest

from backproof.battery.contexts import CONTEXTS
from backproof.battery.survey.context import GROUPS
from backproof.battery.survey.selection import select
from backproof.errors import BadInput


def names(text):
    return [c.name for c in select(text, CONTEXTS)]


def test_all_and_none():
    assert names("all") == [c.name for c in CONTEXTS]
    assert names("none") == []
    assert names("") == []


def test_names_are_unique_and_come_in_the_order_of_the_table():
    assert len(set(names("all"))) == len(CONTEXTS)
    assert names("func_vmap, func_grad") == ["func_grad", "func_vmap"]


def test_groups_make_up_all():
    together = [name for group in GROUPS for name in names(group)]
    assert sorted(together) == sorted(names("all"))


def test_a_minus_leaves_out():
    without = names("all,-inductor")
    assert without == names("-inductor")
    assert "compile_inductor" not in without
    assert "compile_aot_eager" in without
    assert names("vmap,-func_vmap") == [n for n in names("vmap") if n != "func_vmap"]


def test_fast_compiles_nothing():
    assert all(c.group not in ("compile", "export") for c in select("fast", CONTEXTS))


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match="'func_gard'; did you mean func_grad"):
        names("func_gard")


def test_each_context_says_what_it_does_and_has_a_page():
    from backproof import codes

    for one in CONTEXTS:
        assert one.text.endswith(".")
        assert codes.page(one.code).title
