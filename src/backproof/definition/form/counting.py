"""How many values an expression is, where its text leaves no doubt."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable

from backproof.source import Method

_NO_TUPLE = (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult, ast.Pow)
"""Operators that a tuple has not."""

_ONE_TENSOR = {
    *("add", "add_", "clamp", "clamp_", "clone", "contiguous", "detach", "div", "div_"),
    *("double", "expand", "expand_as", "float", "half", "masked_fill", "masked_fill_"),
    *("mul", "mul_", "neg", "neg_", "reshape", "reshape_as", "sub", "sub_", "sum"),
    *("t", "to", "type_as", "view", "view_as"),
}
"""Methods of a tensor that give one tensor."""


class Counting:
    """Reads the expressions of one method.

    A name is what the method's assignments give it, all of them; it is unknown where
    one of them is. `tensors` are the parameters that hold one tensor each.
    """

    def __init__(self, method: Method, tensors: tuple[str, ...] = ()) -> None:
        self._tensors = tensors
        self._others = {one.lstrip("*") for one in method.parameters} - {*tensors}
        self._values: dict[str, list[ast.expr | None]] = defaultdict(list)
        for one in method.assignments:
            value = None if one.value is None else one.value.node
            self._values[one.name].append(value)
        self._added_to = {
            one.name for one in method.in_place if isinstance(one.node, ast.AugAssign)
        }
        self._open: set[str] = set()

    def count(self, node: ast.expr) -> int | None:
        """How many gradients: those of a tuple, 1 for what is surely no tuple."""
        if isinstance(node, ast.IfExp):
            one, other = self.count(node.body), self.count(node.orelse)
            return one if one == other else None
        if isinstance(node, ast.Name):
            return self._count_of_name(node)
        length = self.length(node, ast.Tuple)
        if length is not None:
            return length
        return 1 if self._is_single(node) else None

    def length(self, node: ast.expr, kind: type[ast.Tuple | ast.List]) -> int | None:
        """How many items a tuple (or list) that is written out has."""
        if isinstance(node, kind):
            items = [self._items(one) for one in node.elts]
            known = [one for one in items if one is not None]
            return sum(known) if len(known) == len(items) else None
        if not isinstance(node, ast.BinOp):
            return None
        left, right = self.length(node.left, kind), self.length(node.right, kind)
        if isinstance(node.op, ast.Add) and left is not None and right is not None:
            return left + right
        if isinstance(node.op, ast.Mult):
            for length, times in ((left, node.right), (right, node.left)):
                if length is not None and _whole(times) is not None:
                    return length * (_whole(times) or 0)
        return None

    def is_none(self, node: ast.expr) -> bool:
        """Whether it is None for certain."""
        if isinstance(node, ast.Name):
            values = self._sources(node.id)
            return bool(values) and all(v is not None and _none(v) for v in values)
        return _none(node)

    def is_value(self, node: ast.expr) -> bool:
        """Whether it is a tensor or a number for certain, and not None."""
        return self._is_tensor(node) or (
            isinstance(node, (ast.BinOp, ast.UnaryOp)) and self._is_single(node)
        )

    def _count_of_name(self, node: ast.Name) -> int | None:
        if node.id in self._open:
            return None
        if self._is_single(node):
            return 1
        values = self._sources(node.id)
        if not values or node.id in self._added_to | self._others | {*self._tensors}:
            return None
        self._open.add(node.id)
        counts = {None if value is None else self.count(value) for value in values}
        self._open.discard(node.id)
        return counts.pop() if len(counts) == 1 else None

    def _items(self, node: ast.expr) -> int | None:
        if not isinstance(node, ast.Starred):
            return 1
        lengths = (self.length(node.value, kind) for kind in (ast.Tuple, ast.List))
        return next((one for one in lengths if one is not None), None)

    def _is_single(self, node: ast.expr) -> bool:
        """Whether it is surely no tuple."""
        if isinstance(node, ast.Name):
            return self._each(node.id, self._is_single)
        if isinstance(node, ast.BinOp):
            return self._is_single_result(node)
        if isinstance(node, (ast.Constant, ast.UnaryOp)):
            return True
        return self.length(node, ast.List) is not None or self._is_tensor(node)

    def _is_single_result(self, node: ast.BinOp) -> bool:
        if isinstance(node.op, _NO_TUPLE):
            return True
        if isinstance(node.op, ast.Add):
            return self._is_single(node.left) or self._is_single(node.right)
        return isinstance(node.op, ast.Mult) and (
            self._cannot_repeat(node.left) or self._cannot_repeat(node.right)
        )

    def _cannot_repeat(self, node: ast.expr) -> bool:
        """Whether it is surely neither a tuple nor how often one is repeated."""
        is_float = isinstance(node, ast.Constant) and isinstance(node.value, float)
        return is_float or self._is_tensor(node)

    def _is_tensor(self, node: ast.expr) -> bool:
        """Whether it comes from one of `tensors` in a way that keeps it one."""
        if isinstance(node, ast.Name):
            return self._each(node.id, self._is_tensor)
        if isinstance(node, ast.BinOp):
            return self._is_tensor(node.left) or self._is_tensor(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_tensor(node.operand)
        if isinstance(node, ast.Subscript):
            return self._is_tensor(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in _ONE_TENSOR and self._is_tensor(node.func.value)
        return False

    def _each(self, name: str, holds: Callable[[ast.expr], bool]) -> bool:
        """Whether `holds` of everything that `name` is given."""
        values = self._sources(name)
        if name in self._others or not (values or name in self._tensors):
            return False
        if name in self._open:  # `g = g * 2`: as good as what `g` was before
            return True
        self._open.add(name)
        found = all(value is not None and holds(value) for value in values)
        self._open.discard(name)
        return found

    def _sources(self, name: str) -> list[ast.expr | None]:
        return self._values.get(name, [])


def _none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _whole(node: ast.expr) -> int | None:
    """The whole number that is written there."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    return None
