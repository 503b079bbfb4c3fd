"""Arguments and results as messages hold them: a flat list of arrays and plain numbers."""

from typing import Literal, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from autograder.jax_internals import is_jax_array

from .messages import Array, Complex, Leaf, Number

ArrayOrScalar = jax.Array | np.ndarray | np.generic
Value = ArrayOrScalar | bool | int | float | complex


class Slot:
    """The place of an array or number in a structure that travels with a function."""

    def __init__(self, index: int):
        self.index = index


def is_array(value: object) -> TypeGuard[ArrayOrScalar]:
    """Whether `value` is an array or a NumPy scalar.

    An object of a class that derives from one is none: it may calculate when it is asked for something.
    """
    kind = type(value)
    scalar = isinstance(value, np.generic) and kind.__module__.partition(".")[0] in ("numpy", "ml_dtypes")
    return is_jax_array(value) or kind is np.ndarray or scalar


def is_data(value: object) -> TypeGuard[Value]:
    """Whether `value` travels as data (an array or a plain number), not as part of the function."""
    # A class that derives from `complex` may compute its parts when they are asked for.
    return is_array(value) or isinstance(value, bool | int | float) or type(value) is complex


def is_key(value: object) -> TypeGuard[jax.Array]:
    """Whether `value` is an array of typed random keys."""
    return is_jax_array(value) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def is_floating(value: Value) -> TypeGuard[ArrayOrScalar]:
    """Whether `value` is an array of real or complex floating-point numbers."""
    return is_array(value) and jnp.issubdtype(value.dtype, jnp.inexact)


def encode(value: Value) -> Leaf:
    """An array or number as it travels."""
    if not isinstance(value, ArrayOrScalar):
        return Complex(value.real, value.imag) if isinstance(value, complex) else Number(value)
    kind: Literal["jax", "numpy", "key"] = "jax" if isinstance(value, jax.Array) else "numpy"
    key = None
    if is_key(value):
        kind, key, value = "key", str(jax.random.key_impl(value)), jax.random.key_data(value)
    array = np.asarray(value)
    weak = isinstance(value, jax.Array) and value.weak_type
    return Array(kind, key, array.dtype.name, list(array.shape), weak, array.tobytes())


def decode(leaf: Leaf) -> Value:
    """The inverse of `encode`."""
    if isinstance(leaf, Number):
        return leaf.value
    if isinstance(leaf, Complex):
        return complex(leaf.real, leaf.imag)
    array = np.frombuffer(leaf.data, jnp.dtype(leaf.dtype)).reshape(leaf.shape)
    if leaf.kind == "numpy":
        return array.copy()
    if leaf.kind == "key":
        return jax.random.wrap_key_data(jnp.asarray(array), impl=leaf.key)
    return jnp.asarray(array.item()) if leaf.weak and not leaf.shape else jnp.array(array)


def wide(values: list[Value]) -> list[Value]:
    """The same values in double precision (call inside `jax.enable_x64(True)`)."""

    def widen(value: Value) -> Value:
        if not is_floating(value):
            return value
        return value.astype(np.complex128 if jnp.issubdtype(value.dtype, jnp.complexfloating) else np.float64)

    return [widen(value) for value in values]
