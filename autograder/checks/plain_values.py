"""Compare plain values: numbers, strings, booleans, None, and lists of these."""

import dataclasses
import math
import numbers
from collections import deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

KINDS = {
    "bool": "True or False",
    "number": "a number",
    "text": "a string",
    "list": "a list",
    "none": "another type",  # "None" would give the answer away
    "other": "another type",
}


def kind(value: Any) -> str:
    """What kind of answer a value is: a key of `KINDS`."""
    return _KINDS.get(type(_plain(value)), "other")  # by type: what an object says of its class may be anything


def means_the_same(said: Any, value: Any, *, as_read: bool = False) -> bool:
    """Whether two plain values mean the same; `as_read`: whatever the blanks and capitals of their strings."""
    said, value = _plain(said), _plain(value)
    sort = _KINDS.get(type(value), "other")
    if _KINDS.get(type(said), "other") != sort:
        return False
    if sort == "list":
        return len(said) == len(value) and all(
            means_the_same(*pair, as_read=as_read) for pair in zip(said, value, strict=True)
        )
    if sort == "text":
        return _read(said) == _read(value) if as_read else said.strip() == value.strip()
    if sort == "number" and not isinstance(said, complex) and not isinstance(value, complex):
        return said == value or _close(said, value) or (said != said and value != value)
    if sort != "other":
        return bool(said == value)
    if type(said) in _SETS and type(value) in _SETS:
        mine, theirs = ({_plain(item) for item in items} for items in (said, value))
        return _kinds(mine) <= _kinds(theirs) and mine == theirs
    if issubclass(type(value), dict) and issubclass(type(said), dict):  # a Counter is a dict
        own, wanted = ({_plain(key): item for key, item in dict.items(table)} for table in (said, value))
        keys = _kinds(own) <= _kinds(wanted) and set(own) == set(wanted)
        return keys and all(means_the_same(own[k], wanted[k], as_read=as_read) for k in wanted)
    if type(said) is not type(value):
        return False
    for whole, parts_of in _PARTS.items():
        if issubclass(type(value), whole):
            return means_the_same(parts_of(said), parts_of(value), as_read=as_read)
    if dataclasses.is_dataclass(value):  # its `==` asks its parts, and these what they are compared with
        parts = [
            [getattr(each, field.name) for field in dataclasses.fields(value) if field.compare]
            for each in (said, value)
        ]
        return means_the_same(parts[0], parts[1], as_read=as_read)
    its_type: Any = type(value)
    return its_type.__eq__(value, said) is True  # `said == value` would ask a class of the learner's own


def _kinds(values: Iterable[Any]) -> set[type]:
    """The types among values: one of another type than any that is expected could be equal to all of them."""
    return {numbers.Number if kind(value) in ("number", "bool") else type(value) for value in values}


def _close(said: Any, value: Any) -> bool:
    """Whether numbers agree to one part in a million. A count is right or wrong, however large it is."""
    counts = isinstance(value, numbers.Integral) and (isinstance(said, numbers.Integral) or float(said).is_integer())
    return not counts and math.isclose(said, value, rel_tol=1e-6)


def _read(text: str) -> str:
    # No two answers of the course differ in a blank or a capital letter alone.
    return "".join(text.split()).casefold()


def _plain(value: Any) -> Any:
    """A value as one of Python's own types: so arrays and scalars of NumPy and JAX, and so what a class of one's own
    derives from a number, a string or a list, whose `==` could say yes to everything. Anything else as it is."""
    if not issubclass(type(value), tuple(_BASES)) and hasattr(value, "tolist"):
        value = value.tolist()
        if value is not None and not issubclass(type(value), tuple(_BASES)):
            return object()  # what NumPy and JAX say is a list, or a number
    if type(value) is Fraction:  # what it consists of can be written
        parts = (value.numerator, value.denominator)
        return Fraction(*parts) if all(type(part) is int for part in parts) else object()
    for base, plain in _BASES.items():
        if issubclass(type(value), base):
            return value if type(value) is base else plain(value)
    return value


# How a value of a derived class becomes one of the class itself, without a method of the derived one.
_BASES: dict[type, Callable[[Any], Any]] = {
    bool: bool,  # has no derived classes, and comes before `int`
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    list: lambda value: list.__getitem__(value, slice(None)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
}
_KINDS: dict[type, str] = {
    type(None): "none",
    bool: "bool",
    int: "number",
    float: "number",
    complex: "number",
    Fraction: "number",
    Decimal: "number",
    str: "text",
    list: "list",
    tuple: "list",
}
_SETS = (set, frozenset)
# Containers whose own `==` asks what they hold, which may be of a class that is equal to everything.
_PARTS: dict[type, Callable[[Any], Any]] = {
    slice: lambda value: [value.start, value.stop, value.step],
    deque: lambda value: list(deque.__iter__(value)),
    SimpleNamespace: vars,
}


def a(value: Any) -> str:
    """A value by its type, with the article: "a list"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def listed(names: Any) -> str:
    """Names with commas between them."""
    return ", ".join(map(str, names))
