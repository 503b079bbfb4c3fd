"""Compare plain values: numbers, strings, booleans, None, and lists of these."""

import math
import numbers
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
    value = _plain(value)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, numbers.Number):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, (list, tuple)) else "other"


def means_the_same(said: Any, value: Any, *, as_read: bool = False) -> bool:
    """Whether two plain values mean the same; `as_read`: whatever the blanks and capitals of their strings."""
    said, value = _plain(said), _plain(value)
    sort = kind(value)
    if kind(said) != sort:
        return False
    if sort == "list":
        return len(said) == len(value) and all(
            means_the_same(*pair, as_read=as_read) for pair in zip(said, value, strict=True)
        )
    if sort == "text":
        return _read(said) == _read(value) if as_read else said.strip() == value.strip()
    if sort == "number" and not isinstance(said, complex) and not isinstance(value, complex):
        return said == value or _close(said, value) or (said != said and value != value)
    return bool(said == value)


def _close(said: Any, value: Any) -> bool:
    """Whether numbers agree to one part in a million. A count is right or wrong, however large it is."""
    counts = isinstance(value, numbers.Integral) and (isinstance(said, numbers.Integral) or float(said).is_integer())
    return not counts and math.isclose(said, value, rel_tol=1e-6)


def _read(text: str) -> str:
    # No two answers of the course differ in a blank or a capital letter alone.
    return "".join(text.split()).casefold()


def _plain(value: Any) -> Any:
    """NumPy and JAX scalars and arrays as Python values; everything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def a(value: Any) -> str:
    """A value by its type, with the article: "a list"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def listed(names: Any) -> str:
    """Names with commas between them."""
    return ", ".join(map(str, names))
