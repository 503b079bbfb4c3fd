"""Names and texts that an answer puts together ask for nothing that is Python's own, or leads out.

What stands in a cell is read there (see `language`); these ask when the name, or the text, is there.
"""

import collections
import contextlib
import functools
import re
import string
from collections.abc import Mapping
from typing import Any

from .words import ASKS, LEADS_OUT

_NAME_OF_TYPE = re.compile(r"(\.__class__)?\.__(name|qualname|doc)__$")  # at the end of what a text asks for
_OF_LIBRARIES = {"{0.__class__.__name__}({0._mapping!r})"}  # how Python shows the keys of a mapping


def asked(name: Any, error: type[Exception] = AttributeError) -> None:
    """Raise an error if a name is one of Python's own, as `__array_interface__`: no answer has it by chance."""
    if isinstance(name, str) and str.startswith(name, "__") and str.endswith(name, "__"):
        raise error(f"{str.__str__(name)} is a name of Python's own")


def plain_name(name: Any) -> Any:
    """The name of an attribute that is written, as it is. Raises TypeError if it is Python's, or leads out."""
    asked(name, TypeError)
    if type(name) is not str or name in LEADS_OUT:
        raise TypeError(f"an attribute {str(name)[:40]!r} is written, which no answer needs")
    return name


def plain_names(names: Mapping[str, Any]) -> dict[str, Any]:
    """What stands behind `**`. Raises TypeError if one of its names is Python's own, or one that no answer says."""
    found = dict(names)
    for name in found:
        asked(name, TypeError)
        if type(name) is not str:
            raise TypeError(f"{str(name)[:40]!r} is handed on as a name, and is none")
        if name in ASKS:
            raise TypeError(f"{name!r} is handed on, which no answer needs: {ASKS[name]}")
    return found


def plain_fields(names: Any) -> Any:
    """Names of fields, which JAX asks objects for. Raises TypeError if one is Python's own, or leads out."""
    if isinstance(names, (bool, type(None), str)):
        return names
    found = list(names)
    for name in found:
        plain_name(name)
    return found


def plain_text(value: Any) -> Any:
    """What is asked to `format`, as it is. Raises TypeError if it is a text that asks for what no answer needs."""
    if issubclass(type(value), type) and issubclass(value, str):
        raise TypeError("str.format is called with a text that is not seen here: write an f-string")
    text = value.data if isinstance(value, collections.UserString) else value
    if isinstance(text, str):
        assert_plain(str.__str__(text))
    return value


@functools.lru_cache(maxsize=1000)
def assert_plain(text: str) -> None:
    """Raises TypeError if a text, when it is formatted, asks for an attribute that no answer needs."""
    if text in _OF_LIBRARIES:
        return
    with contextlib.suppress(ValueError):  # from where it is no format string on: what stands before that is formatted
        for _, field, shown, _ in string.Formatter().parse(text):
            assert_plain_field(field or "")
            assert_plain(shown or "")


def assert_plain_field(field: str) -> None:
    """The same of what stands in braces: `x.shape[0]`."""
    asked_for = re.sub(r"\[[^\]]*\]?", "", _NAME_OF_TYPE.sub("", field))
    for name in asked_for.split(".")[1:]:
        if name.startswith("_") or name in LEADS_OUT:
            raise TypeError(f"a text to be formatted asks for {name[:40]!r}, which no answer needs")
