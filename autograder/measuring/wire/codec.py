"""Dataclasses as JSON and raw bytes, and back: what arrives is checked, field by field, against what is declared.

A dataclass becomes an object that names its class; bytes stay what they are, beside the text. A message without fields
is its bare name: such are the ones inside a time that is measured, where a microsecond counts.
"""

import dataclasses
import functools
import json
import types
import typing
from typing import Any

_NAME = "message"  # the key under which an object names its class


class ProtocolError(ValueError):
    """What arrived is not what the receiver reads; the text names the message and the field."""


def encode(message: Any) -> list[bytes]:
    """A dataclass as its text and its bytes. Fields hold what `decode` can check."""
    kind: type = type(message)
    if not _fields(kind):
        return [kind.__name__.encode()]
    parts = [b""]

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {_NAME: type(value).__name__} | {name: plain(getattr(value, name)) for name in _fields(type(value))}
        if isinstance(value, bytes):
            parts.append(value)
            return len(parts) - 1
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value

    parts[0] = json.dumps(plain(message)).encode()
    return parts


def decode(parts: list[bytes], declared: Any) -> Any:
    """The dataclass that `encode` was given; it must be of the type `declared`, which may be a union.

    Raises `ProtocolError` for an unknown message, for a field that is missing or unknown, and for a value of another
    type than its field declares: a dataclass, `bytes`, a plain type, a `Literal`, `list[...]`, `dict[str, ...]`.
    """
    text = parts[0] if parts else b""
    if bare := _bare(declared).get(text):
        return bare()
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    return _checked(found, declared, parts, "message")


def _checked(found: Any, declared: Any, parts: list[bytes], place: str) -> Any:
    messages, others = _alternatives(declared)
    if isinstance(found, dict) and (kind := messages.get(str(found.get(_NAME)))):
        return _filled(kind, found, parts)
    for kind, origin, inner in others:
        if origin is list and isinstance(found, list):
            return [_checked(item, inner[0], parts, f"{place}[{i}]") for i, item in enumerate(found)]
        if origin is dict and isinstance(found, dict):
            return {key: _checked(item, inner[1], parts, f"{place}[{key!r}]") for key, item in found.items()}
        if origin is typing.Literal and found in inner:
            return found
        if kind is bytes and type(found) is int and 0 < found < len(parts):
            return parts[found]
        if kind is not bytes and (type(found) is kind or (kind is float and type(found) is int)):
            return found
    got = found[_NAME] if isinstance(found, dict) and _NAME in found else f"{found!r:.80}"
    expected = [*messages, *(kind.__name__ if origin is None else str(kind) for kind, origin, _ in others)]
    raise ProtocolError(f"{place}: expected {' or '.join(expected)}, got {got}")


def _filled(kind: Any, found: dict[str, Any], parts: list[bytes]) -> Any:
    fields, given = _fields(kind), found.keys() - {_NAME}
    if given != fields.keys():
        missing, unknown = ", ".join(fields.keys() - given), ", ".join(given - fields.keys())
        raise ProtocolError(f"{kind.__name__} {f'misses {missing}' if missing else f'has no field {unknown}'}")
    return kind(**{name: _checked(found[name], fields[name], parts, f"{kind.__name__}.{name}") for name in fields})


def _is_message(kind: Any) -> bool:
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


@functools.cache
def _fields(kind: type) -> dict[str, Any]:
    """The declared type of each field."""
    return typing.get_type_hints(kind)


@functools.cache
def _alternatives(declared: Any) -> tuple[dict[str, Any], list[tuple]]:
    """The types of a union: dataclasses by their names, and the others as (type, its origin, its arguments)."""
    union = typing.get_origin(declared) in (types.UnionType, typing.Union)
    kinds = typing.get_args(declared) if union else (declared,)
    messages = {kind.__name__: kind for kind in kinds if _is_message(kind)}
    others = [(k, typing.get_origin(k), typing.get_args(k)) for k in kinds if not _is_message(k)]
    return messages, others


@functools.cache
def _bare(declared: Any) -> dict[bytes, type]:
    """The messages without fields, by what `encode` makes of them."""
    return {name.encode(): kind for name, kind in _alternatives(declared)[0].items() if not _fields(kind)}
