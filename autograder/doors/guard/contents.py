"""What is in a thing that locked cells have made, as it is now: each function returns what puts it back."""

import collections
import types
from collections.abc import Callable
from typing import Any

from .own_objects import DICTS

DEEP = 3  # tables in tables
_MISSING = object()
_LARGEST = 2**23  # bytes of an array whose numbers are kept
_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__", "__name__", "__qualname__", "__doc__")

Back = Callable[[], None]


def of_function(value: types.FunctionType) -> list[Callable[[], None]]:
    backs = [attributes_back(value, {name: getattr(value, name) for name in _OF_FUNCTIONS})]
    if value.__kwdefaults__ is not None:
        backs.append(table_back(value.__kwdefaults__, dict(value.__kwdefaults__)))
    return [*backs, table_back(vars(value), dict(vars(value)))]


def of_value(value: Any, deep: int) -> list[Callable[[], None]]:
    """What is in one of the course's things: a table's lines, an array's numbers, a function's code."""
    kind = type(value)
    if isinstance(value, types.FunctionType):
        return of_function(value)
    if isinstance(value, type):
        return [class_back(value, dict(vars(value)))] if value.__module__ == "__main__" else []
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return [array_back(value, value.copy())] if value.nbytes < _LARGEST else []
    parts: list[Any] = []
    backs: list[Callable[[], None]] = []
    if kind in DICTS:
        backs, parts = [table_back(value, dict(value))], [*value.values()]
    elif kind in (list, collections.deque):
        backs, parts = [same_back(value, list(value))], [*value]
    elif kind is set:
        backs = [set_back(value, set(value))]
    elif isinstance(value, tuple):
        parts = [*value]
    elif isinstance(getattr(value, "__dict__", None), dict) and (
        kind.__module__ in ("__main__", "types") or hasattr(kind, "clear_cache")  # an object, or a jitted function
    ):
        backs, parts = [table_back(vars(value), dict(vars(value)))], [*vars(value).values()]
    return backs + [back for part in parts if deep for back in of_value(part, deep - 1)]


def class_back(value: type, before: dict) -> Callable[[], None]:
    def back() -> None:
        now = dict(vars(value))
        for name in now.keys() - before.keys():
            if not name.startswith("__"):
                delattr(value, name)
        for name, item in before.items():
            if now.get(name, _MISSING) is not item:
                setattr(value, name, item)

    return back


def table_back(value: dict, before: dict) -> Callable[[], None]:
    def back() -> None:
        if list(value) != list(before) or any(value[key] is not before[key] for key in before):
            value.clear()
            value.update(before)

    return back


def set_back(value: set, before: set) -> Callable[[], None]:
    known = set(map(id, before))

    def back() -> None:
        if set(map(id, value)) != known:
            value.clear()
            value.update(before)

    return back


def same_back(value: Any, before: list) -> Callable[[], None]:
    def back() -> None:
        if len(value) != len(before) or any(a is not b for a, b in zip(value, before, strict=True)):
            value.clear()
            value.extend(before)

    return back


def array_back(value: Any, before: Any) -> Callable[[], None]:
    def back() -> None:
        if value.tobytes() != before.tobytes():
            value.flags.writeable = True
            value[...] = before

    return back


def attributes_back(holder: Any, before: dict) -> Callable[[], None]:
    def back() -> None:
        for name, value in before.items():
            if value is not _MISSING and getattr(holder, name, _MISSING) is not value:
                setattr(holder, name, value)

    return back
