"""The methods of Python's own types, which `setattr` does not change."""

import ctypes
import gc
from collections.abc import Callable
from typing import Any


def replace_method(kind: type, name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(what stands there)` in the place of a type's method: for everybody in this process, and at once."""
    methods = gc.get_referents(vars(kind))[0]  # what `vars` only shows
    methods[name] = make(methods[name])
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
