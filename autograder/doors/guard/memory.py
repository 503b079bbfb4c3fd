"""No object of an answer's or of Flax's tells NumPy where in memory its numbers are: NumPy reads whatever is there."""

import sys
from collections.abc import Container
from typing import Any

from .plain_texts import asked

_MEMORY = ("__array_interface__", "__array_struct__")
LIBRARIES = ("flax", "optax")  # whose modules and variables an answer fills
_loaded = 0  # modules in which `close_libraries` has looked


def close_libraries() -> None:
    """As `close_memory`, for what libraries give attributes of any name: `nnx.Dict`, `nnx.Variable`."""
    global _loaded
    if len(sys.modules) == _loaded or not (nnx := sys.modules.get("flax.nnx")):
        return
    _loaded = len(sys.modules)
    close_memory(nnx.Pytree)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in LIBRARIES:
            for kind in list(vars(module).values()):
                of_one = isinstance(kind, type) and kind.__module__.partition(".")[0] in LIBRARIES
                if of_one and {"__getattr__", "__getattribute__"} & vars(kind).keys():
                    close_memory(kind)
                    ask_first(kind, _MEMORY)


def close_memory(kind: type) -> None:
    """NumPy reads memory at the address that an object names, whatever is there. Objects of this class name none."""
    for name in _MEMORY:
        if not isinstance(vars(kind).get(name), _Nothing):
            setattr(kind, name, _Nothing(name))


def ask_first(kind: type, names: Container[str] | None = None) -> None:
    """A class's `__getattr__` is asked for none of these names from now on; without any, for none of Python's own."""
    asks = vars(kind).get("__getattr__")
    if asks is not None and not isinstance(asks, _AskedFirst):
        kind.__getattr__ = _AskedFirst(asks, names)  # type: ignore[attr-defined]


def is_closed(value: Any) -> bool:
    """Whether this is what stands in a class where it would name memory."""
    return isinstance(value, _Nothing)


class _Nothing:
    """An attribute that is not there, whatever the object holds under this name."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, value: Any, kind: type) -> Any:
        raise AttributeError(self._name)

    def __set__(self, value: Any, new: Any) -> None:
        raise TypeError(f"{self._name} is a name of Python's own")


class _AskedFirst:
    """A class's `__getattr__`, see `ask_first`."""

    def __init__(self, function: Any, names: Container[str] | None):
        self._function, self._names = function, names

    def __get__(self, value: Any, kind: type) -> Any:
        bound = self._function.__get__(value, kind) if hasattr(type(self._function), "__get__") else self._function

        def get(name: str) -> Any:
            if self._names is None or name in self._names:
                asked(name)
            return bound(name)

        return get
