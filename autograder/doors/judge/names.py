"""What crosses by its name alone: functions and classes that both kernels have.

The box may name to the judge only what computes numbers, and types. The judge's checks call what an answer returns with
what it returns: `exec`, `numpy.load` or `getattr` by name would be a way to run code there.
"""

import builtins
import functools
import importlib
import operator
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Where a public thing is looked for, the nearer name first.
_PUBLIC: tuple[str, ...] = (
    "builtins",
    "math",
    "operator",
    "functools",
    "jax.numpy",
    "jax.lax",
    "jax.nn",
    "jax.random",
    "jax.tree",
)
_PUBLIC += ("jax", "jax.tree_util", "jax.sharding", "jax.errors", "jax.scipy.special", "numpy", "numpy.linalg")
_PLAIN = {bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, slice, range, object, type(None)}
_CALCULATE = {abs, len, sum, min, max, sorted, round, any, all}
_COMPUTING = ("jax.numpy", "jax.lax", "jax.nn", "jax.scipy.special", "math")  # modules whose functions compute
_NOT_COMPUTING = {"load", "save", "savez", "fromfile", "frombuffer", "from_dlpack", "fromstring", "set_printoptions"}
_NOT_COMPUTING |= {"infeed", "outfeed", "create_token", "after_all", "printoptions", "get_printoptions"}


class Unknown(ValueError):
    """This name may not cross, or is not there."""


def is_course_thing(value: Any) -> bool:
    """Whether a value of the notebook crosses by its name when a locked cell has made it: a function or a class."""
    if isinstance(value, type | FunctionType):
        return value.__module__ == "__main__"
    wrapped = getattr(value, "__wrapped__", None) if type(value) is type(_jitted) else None
    return isinstance(wrapped, FunctionType) and wrapped.__module__ == "__main__"


_jitted = jax.jit(lambda: None)


@functools.cache
def _public() -> dict[int, tuple[str, str]]:
    """The address of each public function and class -> its module and name. Modules keep what is theirs alive."""
    found: dict[int, tuple[str, str]] = {}
    for module in _PUBLIC:
        for name, value in vars(importlib.import_module(module)).items():
            if not name.startswith("_") and callable(value):
                found.setdefault(id(value), (module, name))
    return found


def name_of(value: Any) -> tuple[str, str] | None:
    """The module and the name of a library's function or class; None for anything else."""
    try:
        known = _public().get(id(value))
    except TypeError:
        known = None
    if known and getattr(sys.modules[known[0]], known[1], None) is value:
        return known
    if not isinstance(value, type | FunctionType | BuiltinFunctionType | np.ufunc | type(_jitted)):
        return None
    module = "numpy" if isinstance(value, np.ufunc) else getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    try:
        return (module, name) if operator.attrgetter(name)(sys.modules[module]) is value else None
    except (AttributeError, KeyError):
        return None


def anything(module: str, name: str) -> Any:
    """In the box: what the judge names, whatever it is. Raises `Unknown`."""
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except Exception as error:
        raise Unknown(f"{module}.{name}: {error}") from None
    return found


def harmless(module: str, name: str) -> Any:
    """In the judge: what the box may name there. Raises `Unknown`."""
    home = sys.modules.get(module) if module in (*_COMPUTING, "builtins", "numpy", "jax", "jax.errors") else None
    found = vars(home).get(name) if home is not None and not name.startswith("_") else None
    if module == "jax.numpy" and found is None and name.isidentifier():
        found = getattr(jnp, name, None)  # some of its names are made when they are asked for
    if found is not None and _is_harmless(module, name, found):
        return found
    raise Unknown(f"{module}.{name} may not be handed to a check")


def _is_harmless(module: str, name: str, found: Any) -> bool:
    if isinstance(found, type):
        # Not `np.ndarray`: called with a buffer of its own choice, it shows and writes any memory.
        return found in _PLAIN or issubclass(found, BaseException | np.generic) or found is jax.Array
    if isinstance(found, ModuleType):
        return False
    if module == "builtins":
        return found in _CALCULATE
    if module == "numpy":
        return isinstance(found, np.ufunc)
    return module in _COMPUTING and callable(found) and name not in _NOT_COMPUTING


def error_class(module: str, name: str) -> type[Exception] | None:
    """The class of an exception that the judge may raise for the box; None if it knows none of this name."""
    homes = {"builtins": vars(builtins), "jax.errors": vars(jax.errors), "numpy.linalg": vars(np.linalg)}
    if module.partition(".")[0] in ("jax", "jaxlib"):
        module = "jax.errors"
    found = homes.get(module, {}).get(name)
    if not (isinstance(found, type) and issubclass(found, Exception)) or issubclass(found, Warning):
        return None
    return found


def tuple_class(module: str, name: str) -> type | None:
    """A library's class of named tuples that both kernels have imported; None if there is none of this name."""
    if module.partition(".")[0] not in ("jax", "optax", "flax", "numpy", "autograder") or not name.isidentifier():
        return None
    found = vars(sys.modules.get(module, builtins)).get(name)
    is_one = isinstance(found, type) and issubclass(found, tuple) and isinstance(getattr(found, "_fields", None), tuple)
    return found if is_one else None
