"""From live classes and functions to their text, where there is one.

Text comes from `linecache`, so that the cells of notebooks and whatever else registers
its text there is found. What does not match its text (executed strings, a file that was
edited since) has no source: a wrong place is worse than none.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from backproof.source.locating import located
from backproof.source.model import FunctionSource, Method
from backproof.source.page import Page, page
from backproof.source.plain_function import plain_function
from backproof.source.reading import read_class, read_method


def source_of(cls: type) -> FunctionSource | None:
    """The class as it is written; None where no text is known to be its own.

    `methods` holds those in its own body. For one that is inherited, or assigned rather
    than defined there, ask `method_of(cls.backward)`.
    """
    own = list(_own_functions(cls))
    for function in own:
        code = function.__code__
        text = _text(code.co_filename, function.__globals__)
        if text is not None and located(code, text) is not None:
            return _class_at(text, cls.__qualname__, code.co_firstlineno)
    return None if own else _without_functions(cls)


def method_of(function: Any) -> Method | None:
    """A function, method or lambda as it is written; None where there is no text.

    Decorators that say what they wrap are looked through, as are static and bound
    methods and `functools.partial`. The body of a lambda is its return.
    """
    plain = plain_function(function)
    if plain is None:
        return None
    text = _text(plain.__code__.co_filename, plain.__globals__)
    found = None if text is None else located(plain.__code__, text)
    if text is None or found is None:
        return None
    node, owner = found
    return read_method(node, text, owner=owner)


def has_source(target: Any) -> bool:
    """Whether a class, function, method or lambda has a text that can be shown."""
    if isinstance(target, type):
        return source_of(target) is not None
    return method_of(target) is not None


def _text(file: str, names: dict[str, Any] | None) -> Page | None:
    """The text that `linecache` knows under a name; `names` are the module's globals."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, names))
    if not text:
        return None
    try:
        return page(text, file)
    except SyntaxError:  # an example inside a document
        return None


def _own_functions(cls: type) -> Iterator[FunctionType]:
    """Functions whose code says that it stands in the body of `cls`."""
    for value in vars(cls).values():
        function = plain_function(value)
        if function is not None:
            where = function.__code__.co_qualname.rpartition(".")[0]
            if where == cls.__qualname__:
                yield function


def _class_at(text: Page, qualname: str, line: int) -> FunctionSource | None:
    found = [
        one
        for one in _classes(text, qualname)
        if one.lineno <= line <= (one.end_lineno or 0)
    ]
    return read_class(found[0], qualname, text) if len(found) == 1 else None


def _without_functions(cls: type) -> FunctionSource | None:
    """A class that only inherits is known by its name, if there is one of that name."""
    try:
        file = inspect.getsourcefile(cls)
    except (OSError, TypeError):
        return None
    text = None if file is None else _text(file, None)
    if text is None:
        return None
    found = _classes(text, cls.__qualname__)
    return read_class(found[0], cls.__qualname__, text) if len(found) == 1 else None


def _classes(text: Page, qualname: str) -> list[ast.ClassDef]:
    return [
        one.node
        for one in text.definitions
        if isinstance(one.node, ast.ClassDef) and one.qualname == qualname
    ]
