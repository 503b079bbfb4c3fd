"""What stands for a thing of the other kernel: a function for a function, an opaque object for anything else.

A stand-in knows a number. What is done with it is asked for on the other side, by `ask(number, what, args, keywords)`.
Names that begin with an underscore are never asked for.
"""

import inspect
import operator
from collections.abc import Callable
from types import FunctionType, GeneratorType, MethodType
from typing import Any

import numpy as np

Ask = Callable[..., Any]

# What may be asked of an object, apart from calling it and reading its public attributes.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "len": len,
    "item": lambda value, key: value[key],
    "next": next,
    "iter": iter,
    "contains": lambda value, item: item in value,
    "true": bool,
    "repr": lambda value: repr(value)[:2000],
    "enter": lambda value: value.__enter__(),
    "exit": lambda value: value.__exit__(None, None, None),
    "left": lambda value: value.__exit__(RuntimeError, RuntimeError("the block was left by an error"), None),
    "str": lambda value: str(value)[:20_000],
}
_TWO = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift")
_COMPARE, _ONE = ("lt", "le", "gt", "ge"), ("neg", "pos", "abs", "invert")
OPERATIONS |= {name: getattr(operator, name) for name in (*_TWO, *_COMPARE, *_ONE)}
_LONGEST_NAME, _LONGEST_TEXT = 200, 4000
_KINDS = {kind.name: kind for kind in inspect._ParameterKind}


def about(value: Any) -> dict[str, Any]:
    """What the other kernel is told of a thing that is lent to it."""
    return {
        "function": isinstance(value, FunctionType | MethodType),
        "callable": callable(value),
        "generator": isinstance(value, GeneratorType),
        "type": type(value).__name__[:_LONGEST_NAME],
        "name": _text(getattr(value, "__name__", None), _LONGEST_NAME),
        "qualname": _text(getattr(value, "__qualname__", None), _LONGEST_NAME),
        "doc": _text(getattr(value, "__doc__", None), _LONGEST_TEXT),
        "parameters": _parameters(value) if callable(value) else None,
    }


def _text(value: Any, longest: int) -> str | None:
    return value[:longest] if isinstance(value, str) else None


def _parameters(value: Any) -> list[list[Any]] | None:
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    plain = (str, int, float, bool, type(None))
    return [
        [p.name, p.kind.name, p.default is not p.empty, p.default if type(p.default) in plain else None] for p in found
    ]


def stand_in(number: int, known: Any, ask: Ask) -> Any:
    """What stands for the thing of this number; `known` is what `about` has said of it, and may be anything."""
    known = known if isinstance(known, dict) else {}
    name, qualname, doc = (
        known.get(key) if type(known.get(key)) is str else None for key in ("name", "qualname", "doc")
    )
    made: Any
    if known.get("function") is True:

        def made(*args: Any, **keywords: Any) -> Any:
            __tracebackhide__ = True  # IPython shows the reader of an error no such frame
            return ask(number, "call", args, keywords)

        made.__module__ = "__main__"
        made.__name__, made.__qualname__, made.__doc__ = name or "function", qualname or name or "function", doc
    else:
        title = known.get("type")
        kind = type(title if type(title) is str and title.isidentifier() else "Thing", (Thing,), {})
        if known.get("callable") is True:
            setattr(kind, "__call__", lambda self, *args, **keywords: ask(number, "call", args, keywords))  # noqa: B010
        made = kind()
        vars(made).update(_number=number, _ask=ask)
        for key, value in (("__name__", name), ("__qualname__", qualname), ("__doc__", doc)):
            if value is not None:
                vars(made)[key] = value
    if (signature := _signature(known.get("parameters"))) is not None:
        made.__signature__ = signature
    return made


def _signature(parameters: Any) -> inspect.Signature | None:
    if not isinstance(parameters, list):
        return None
    found = []
    try:
        for name, kind, optional, default in parameters:
            given = (default if type(default) in (str, int, float, bool) else None) if optional else inspect._empty
            found.append(inspect.Parameter(name, _KINDS[kind], default=given))
        return inspect.Signature(found)
    except (TypeError, ValueError, KeyError):
        return None


class Thing:
    """An object of the other kernel."""

    _number: int
    _ask: Ask

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._ask(self._number, "attribute", (name,), {})

    def _operation(self, what: str, *args: Any) -> Any:
        return self._ask(self._number, what, args, {})

    def __len__(self) -> int:
        return _exact(self._operation("len"), int)

    def __getitem__(self, key: Any) -> Any:
        return self._operation("item", key)

    def __iter__(self) -> Any:
        return self._operation("iter")

    def __next__(self) -> Any:
        return self._operation("next")

    def __contains__(self, item: Any) -> bool:
        return _exact(self._operation("contains", item), bool)

    # Equal to itself alone: what an answer says of its own object is no comparison with what a check expects.

    def __bool__(self) -> bool:
        return _exact(self._operation("true"), bool)

    def __repr__(self) -> str:
        return _exact(self._operation("repr"), str)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        if ufunc in (np.equal, np.not_equal):
            return ufunc is np.not_equal
        return self._operation("ufunc", ufunc, inputs, keywords) if method == "__call__" else NotImplemented

    def __str__(self) -> str:
        return _exact(self._operation("str"), str)

    def __enter__(self) -> Any:
        return self._operation("enter")

    def __exit__(self, kind: Any, *error: Any) -> None:
        self._operation("exit" if kind is None else "left")


def _operators() -> None:
    """Arithmetic with an object of the other kernel is done there."""
    for name in (*_TWO, *_COMPARE):
        setattr(Thing, f"__{name.rstrip('_')}__", lambda self, other, name=name: self._operation(name, other))
    for name in _TWO:
        reflected = lambda self, other, name=name: self._ask(self._number, "reflected", (name, other), {})  # noqa: E731
        setattr(Thing, f"__r{name.rstrip('_')}__", reflected)
    for name in _ONE:
        setattr(Thing, f"__{name}__", lambda self, name=name: self._operation(name))


_operators()
OPERATIONS["ufunc"] = lambda value, ufunc, inputs, keywords: ufunc(*inputs, **keywords)
OPERATIONS["reflected"] = lambda value, name, other: OPERATIONS[name](other, value) if name in _TWO else None


def _exact(value: Any, kind: type) -> Any:
    """What the other kernel says of an object is what Python would take. Raises TypeError."""
    if type(value) is not kind:
        raise TypeError(f"the answer's object gave {type(value).__name__} where {kind.__name__} is asked for")
    return value
