"""Functions of a notebook as bytes: cloudpickle, and what it must be told about notebooks and JAX.

What a fresh process can import (JAX, NumPy, the standard library, this package) travels by its name, everything else
with what it names. Both processes must run the same Python.
"""

import functools
import io
import os
import pickle
import sys
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle
import jax

_JITTED: Any = type(jax.jit(lambda: None))  # JAX declares a protocol in its place
_INSTALLED = (os.path.dirname(os.__file__), *(at for at in sys.path if at.endswith(("site-packages", "dist-packages"))))


def dumps(value: object) -> bytes:
    """`value` as bytes. Raises `pickle.PicklingError` or TypeError with the name of what cannot travel."""
    stream, registered = io.BytesIO(), cloudpickle.list_registry_pickle_by_value()
    try:
        _Pickler(stream, protocol=5).dump(value)
    finally:  # whoever else uses cloudpickle in this notebook finds it as it was
        for name in cloudpickle.list_registry_pickle_by_value() - registered:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])
    return stream.getvalue()


loads = pickle.loads


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        module = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        if module and not _importable(module):
            cloudpickle.register_pickle_by_value(module)
            if isinstance(value, type) and jax.tree_util.is_tree_node(value) and not hasattr(value, "_fields"):
                raise pickle.PicklingError(f"the class {value.__qualname__} is registered as a pytree in the notebook")
        elif module and not isinstance(value, FunctionType | type | ModuleType):
            name = getattr(value, "__qualname__", "") or getattr(value, "__name__", "")
            if getattr(module, name, None) is value:  # a jitted function or a ufunc of a library: by its name
                return name
        if isinstance(value, _JITTED):
            make, arguments, state = value.__reduce_ex__(5)[:3]
            return make, arguments, (state, vars(value)), None, None, _set_jitted
        if hasattr(value, "cache_parameters"):  # functools.cache
            return functools.lru_cache(**value.cache_parameters()), (value.__wrapped__,)
        return super().reducer_override(value)


def _importable(module: ModuleType) -> bool:
    """Whether a fresh process finds the module: an installed one, or this package, wherever it lies."""
    file, package = getattr(module, "__file__", None) or "", module.__name__.partition(".")[0]
    return package != "__main__" and (package == "autograder" or file.startswith(_INSTALLED) or file[-3:] != ".py")


def _set_jitted(fn: Any, state: tuple) -> None:
    """JAX's own way to restore a jitted function leaves out its attributes, and so `lower`, `trace` and its name."""
    fn.__setstate__(state[0])
    vars(fn).update(state[1])
