"""A function of a check that travels into the box as its code: the box runs it there, as if it stood in its notebook.

Only the judge sends code, and only the box takes it. What keeps something in a list, a table or a variable outside of
it stays in the judge, and is called there: the check wants to see what is in it. What it captures of the check beyond
numbers, texts, arrays and functions keeps it there, too.
"""

import builtins
import dis
import importlib
import marshal
from collections.abc import Collection, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from .values import Pack, Unpack

_KEPT = {"STORE_GLOBAL", "DELETE_GLOBAL"}
_LOOKED_UP = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}  # not the names of attributes
_VALUES = (type(None), bool, int, float, complex, str, bytes, slice, range, type(...), np.dtype, np.generic, np.ndarray)


def captured(fn: FunctionType, given: Collection[str]) -> dict[str, Any] | None:
    """The names that a function finds in its check, with their values; None if it has to stay.

    given: the names that are in the box as well.
    """
    code, names = fn.__code__, set[str]()
    for part in _parts(code):
        for step in dis.get_instructions(part):
            if step.opname in _KEPT or (step.opname == "STORE_DEREF" and step.argval in code.co_freevars):
                return None
            if step.opname in _LOOKED_UP:
                names.add(step.argval)
    cells = [cell.cell_contents for cell in fn.__closure__ or () if _is_full(cell)]
    if len(cells) < len(code.co_freevars):
        return None
    known = fn.__globals__
    found = {n: known[n] for n in sorted(names) if n in known and n not in given and not hasattr(builtins, n)}
    handed = [*cells, *found.values(), *(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    return found if all(map(_may_go, handed)) and not vars(fn).keys() - {"__wrapped__"} else None


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _parts(const)


def _may_go(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_may_go, value))
    return isinstance(value, (*_VALUES, jax.Array, ModuleType)) or callable(value)


def code_form(fn: FunctionType, found: dict[str, Any], pack: Pack) -> dict[str, Any]:
    """What travels, beside what is said of a function that is lent."""
    return {
        "code": {"part": pack.part(marshal.dumps(fn.__code__))},
        "named": [fn.__name__, fn.__qualname__],
        "defaults": pack.pack(fn.__defaults__),
        "keywords": pack.pack(fn.__kwdefaults__),
        "cells": [pack.pack(cell.cell_contents) for cell in fn.__closure__ or ()],
        "names": [[name, pack.pack(value)] for name, value in found.items()],
    }


def made(form: dict[str, Any], unpack: Unpack, things: Any, notebook: dict[str, Any]) -> Any:
    """In the box: the function, or the module, that the judge has sent."""
    if form["is"] == "module":
        return importlib.import_module(form["v"])
    number = form["number"]
    if number not in things.borrowed:
        # A function of a locked cell has the notebook's names itself: it may look at its globals().
        names = dict(notebook) if form["names"] else notebook
        code = marshal.loads(unpack.data(form["code"]))
        fn = FunctionType(code, names, closure=tuple(CellType() for _ in form["cells"]))
        things.take(number, fn)  # before the rest is read: a function may be its own helper
        fn.__name__, fn.__qualname__ = form["named"]
        fn.__module__ = "__main__"
        fn.__defaults__, fn.__kwdefaults__ = unpack.unpack(form["defaults"]), unpack.unpack(form["keywords"])
        for cell, inner in zip(fn.__closure__ or (), form["cells"], strict=True):
            cell.cell_contents = unpack.unpack(inner)
    fn = things.borrowed[number]
    if fn.__globals__ is not notebook:  # what its names mean now
        fn.__globals__.update(notebook)
        fn.__globals__.update({name: unpack.unpack(inner) for name, inner in form["names"]})
    return fn
