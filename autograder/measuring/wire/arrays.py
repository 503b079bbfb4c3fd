"""Arguments and results as the bench sees them: a flat list of arrays and plain numbers."""

import jax
import jax.numpy as jnp
import numpy as np

Leaf = object  # a jax.Array, an np.ndarray or a Python number

# Each pair of blocks gets its own inputs: all floating-point arrays scaled by one of these factors. A common
# factor just below 1 keeps signs, zeros, order, symmetry and upper bounds.
SCALES = [1 - k / 256 for k in range(9)]


class Slot:
    """The place of an array or number in a carried structure."""

    def __init__(self, index: int):
        self.index = index


def is_array(leaf: object) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def is_data(leaf: object) -> bool:
    """Whether `leaf` travels as data (an array or a plain number), not as part of the function."""
    return is_array(leaf) or isinstance(leaf, bool | int | float | complex)


def is_key(leaf: object) -> bool:
    """Whether `leaf` is an array of typed random keys."""
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def encode(leaf: Leaf) -> tuple[dict, bytes]:
    """A leaf as a JSON description and its raw bytes."""
    if not is_array(leaf):
        kind = "complex" if isinstance(leaf, complex) else "number"
        return {"kind": kind, "value": [leaf.real, leaf.imag] if kind == "complex" else leaf}, b""
    kind, key = ("jax" if isinstance(leaf, jax.Array) else "numpy"), None
    if is_key(leaf):
        kind, key, leaf = "key", str(jax.random.key_impl(leaf)), jax.random.key_data(leaf)
    array = np.asarray(leaf)
    weak = bool(getattr(leaf, "weak_type", False))
    meta = {"kind": kind, "key": key, "dtype": array.dtype.name, "shape": array.shape, "weak": weak}
    return meta, array.tobytes()


def decode(meta: dict, blob: bytes) -> Leaf:
    """The inverse of `encode`."""
    if meta["kind"] == "number":
        return meta["value"]
    if meta["kind"] == "complex":
        return complex(*meta["value"])
    array = np.frombuffer(blob, jnp.dtype(meta["dtype"])).reshape(meta["shape"])
    if meta["kind"] == "numpy":
        return array.copy()
    if meta["kind"] == "key":
        return jax.random.wrap_key_data(jnp.asarray(array), impl=meta["key"])
    if meta["weak"]:
        return jnp.asarray(array.item())
    return jnp.array(array)


def is_floating(leaf: Leaf) -> bool:
    return is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def scaled(leaves: list[Leaf], factor: float) -> list[Leaf]:
    """New leaves: floating-point arrays times `factor`, everything else as it was."""
    return [
        _like(leaf, np.asarray(leaf) * np.asarray(factor, leaf.dtype)) if is_floating(leaf) else leaf for leaf in leaves
    ]


def copied(leaves: list[Leaf]) -> list[Leaf]:
    """New buffers with the same content, for calls that consume their arguments."""
    return [leaf if not is_array(leaf) or is_key(leaf) else _like(leaf, np.array(leaf)) for leaf in leaves]


def _like(leaf: Leaf, array: np.ndarray) -> Leaf:
    # Through NumPy: a JAX operation would be compiled first.
    return jnp.array(array) if isinstance(leaf, jax.Array) else array


def size(leaves: list[Leaf]) -> int:
    """Bytes in all arrays."""
    return sum(int(leaf.nbytes) for leaf in leaves if is_array(leaf) and hasattr(leaf, "nbytes"))


def wide(leaves: list[Leaf]) -> list[Leaf]:
    """The same values in double precision (call inside `jax.enable_x64(True)`)."""

    def widen(leaf):
        if not is_floating(leaf):
            return leaf
        dtype = np.complex128 if jnp.issubdtype(leaf.dtype, jnp.complexfloating) else np.float64
        return leaf.astype(dtype)

    return [widen(leaf) for leaf in leaves]
