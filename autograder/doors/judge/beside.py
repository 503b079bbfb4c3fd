"""Functions of a check that are run in the box, beside the answer: they look at the process in which it runs.

What is alive in memory and where it lies, whose tracers have leaked, what is compiled, or found in a folder: in the
judge there is nothing of it to be seen. So `beside.toml` names, for a check, the functions that look; a call of one is
sent into the box with its code. They are the check's own, or stand in a locked cell above it.
"""

import ast
import functools
import tomllib
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

TABLE = Path(__file__).parent / "beside.toml"
Ask = Callable[[FunctionType, tuple, dict[str, Any]], Any]


@functools.cache
def _table() -> Mapping[str, list[str]]:
    return tomllib.loads(TABLE.read_text())


def beside(check: str) -> list[str]:
    """The names of the functions that are run in the box when this check is judged."""
    return list(_table().get(check, ()))


def sent(fn: FunctionType, ask: Ask) -> FunctionType:
    """What stands for `fn` in the judge: a call is asked for in the box."""

    def asked(*args: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True  # IPython shows the reader of an error no such frame
        return ask(fn, args, keywords)

    made: Any = functools.update_wrapper(asked, fn)
    _originals[made] = fn
    return made


_originals: weakref.WeakKeyDictionary[FunctionType, FunctionType] = weakref.WeakKeyDictionary()


def original(fn: FunctionType) -> FunctionType:
    """The function that this stands for: one that travels needs no way back into the judge to call it."""
    return _originals.get(fn, fn)


class Marked(ast.NodeTransformer):
    """A cell in which each of these functions is decorated, where the cell defines it.

    Arguments:
      names: of the functions.
      decorator: as an expression.
    """

    def __init__(self, names: Collection[str], decorator: str):
        self._names, self._decorator = frozenset(names), decorator

    def visit_Module(self, node: ast.Module) -> ast.Module:
        for step in node.body:
            if isinstance(step, ast.FunctionDef) and step.name in self._names:
                decorator = ast.parse(self._decorator, mode="eval").body
                for part in ast.walk(decorator):
                    ast.copy_location(part, step)
                step.decorator_list.append(decorator)
        return node


@contextmanager
def in_their_place(names: Collection[str], notebook: dict[str, Any], ask: Ask) -> Iterator[None]:
    """Functions that locked cells have defined are asked for in the box, until the block ends; then those that a cell
    has defined meanwhile are themselves again, too."""
    notebook |= {name: sent(fn, ask) for name, fn in _functions(names, notebook)}
    try:
        yield
    finally:
        notebook |= {name: original(fn) for name, fn in _functions(names, notebook)}


def _functions(names: Collection[str], notebook: dict[str, Any]) -> list[tuple[str, FunctionType]]:
    return [(name, fn) for name in names if isinstance(fn := notebook.get(name), FunctionType)]
