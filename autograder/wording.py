"""Numbers, counters and types as words."""

import math
import numbers
from collections import Counter
from collections.abc import Iterable
from typing import Any

UNGRADED = "ungraded"  # the verdict of a speedup on a platform for which its author gave no bar


def count(number: int, noun: str) -> str:
    """`1 equation`, `1,200 equations`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def printable(text: str) -> str:
    """A text that may be a student's as a terminal can show it: on one line, and nothing in it moves a cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def tally(counter: Counter[str], most: int = 12) -> str:
    """`mul 200, sub 200, add 1`: the most frequent first."""
    names = [f"{name} {number}" for name, number in counter.most_common(most)]
    return ", ".join(names + ["..."] * (len(counter) > most)) or "nothing"


def repeated(texts: Iterable[str], most: int = 4) -> str:
    """A line for each text, equal ones on one line, in the order of their first: `sin: float32[8] (3 times)`."""
    lines = [text + (f" ({number} times)" if number > 1 else "") for text, number in Counter(texts).items()]
    return "\n".join(lines[:most] + ["..."] * (len(lines) > most))


def array_type(dtype: Any, shape: Iterable[Any]) -> str:
    """`float32[3,4]`, as JAX writes a type in full."""
    return f"{dtype}[{','.join(map(str, shape))}]"


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number of Python or NumPy; True and False are not, nor is an array."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
