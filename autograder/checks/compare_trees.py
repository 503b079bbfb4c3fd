"""Compare pytrees of values: structure, shape, dtype, then every element. Findings only, no messages."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from autograder.instruments.call_signature import aval_text
from autograder.jax_internals import is_jax_array, is_tracer, tree_notation
from autograder.tolerance import Tolerance, agrees, coarser, default_tolerance, eps, wide
from autograder.wording import array_type

from .plain_values import means_the_same


@dataclass(frozen=True)
class Mismatch:
    """What is wrong first. `kind` is "none", "callable", "tracer", "deleted", "structure", "shape", "dtype"
    or "value". `leaf` is the path of the leaf, "['w'][3]", or "" if there is but one."""

    kind: str
    leaf: str = ""
    actual: Any = None  # structure, dtype: as text; shape: a tuple
    desired: Any = None
    missing: tuple[str, ...] = ()  # of the structure: paths of leaves
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WrongValues(Mismatch):
    """A mismatch of kind "value"; `actual` and `desired` are NumPy arrays of one shape."""

    wrong: np.ndarray  # a mask of that shape
    tolerance: Tolerance
    dtype: Any  # in which the values are compared, None if they are no numbers

    @property
    def index(self) -> tuple[int, ...]:
        """Of the first wrong element, in C order."""
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(self.wrong)), self.wrong.shape))


@dataclass(frozen=True)
class Match:
    leaves: int
    text: str  # the type of the only leaf, or how many there are
    ulps: int  # the largest distance met
    tolerance: Tolerance | None  # of the least exact leaf


def compare(actual: Any, desired: Any, *, rtol: float | None = None, atol: float | None = None) -> Match | Mismatch:
    """The first thing in which `actual` differs from `desired`, or a `Match`. Both are pytrees."""
    if actual is None and desired is not None:
        return Mismatch("none")
    if callable(actual) and not callable(desired) and not hasattr(actual, "shape"):
        return Mismatch("callable", actual=getattr(actual, "__name__", type(actual).__name__))

    got, got_tree = _flattened(_in_containers_of(desired, actual))
    want, want_tree = _flattened(desired)
    if not want and isinstance(desired, np.ndarray | jax.Array):
        raise TypeError("arrays are registered as pytrees without leaves: nothing can be compared any more")
    for path, leaf in got + want:
        if is_tracer(leaf):
            return Mismatch("tracer", path, aval_text(jax.typeof(leaf)))
        if is_jax_array(leaf) and leaf.is_deleted():
            return Mismatch("deleted", path, aval_text(jax.typeof(leaf)))
    if got_tree != want_tree:
        mine, theirs = ({path for path, _ in leaves} for leaves in (got, want))
        return Mismatch(
            "structure",
            actual=tree_text(actual),
            desired=tree_text(desired),
            missing=tuple(sorted(theirs - mine)),
            extra=tuple(sorted(mine - theirs)),
        )

    ulps, loosest = 0, None
    for (path, mine), (_, theirs) in zip(got, want, strict=True):
        mine, theirs = _real(mine), _real(theirs)
        if _opaque(mine) or _opaque(theirs):
            if not _same(mine, theirs):
                a, d, wrong = _boxed(mine), _boxed(theirs), np.ones((), bool)
                return WrongValues("value", path, a, d, wrong=wrong, tolerance=Tolerance(0, 0), dtype=None)
            continue
        if np.shape(mine) != np.shape(theirs):
            return Mismatch("shape", path, np.shape(mine), np.shape(theirs))
        if not dtypes_agree(mine, theirs):
            return Mismatch("dtype", path, type_text(mine), type_text(theirs))
        dtype = _coarser(mine, theirs)
        a, d = np.asarray(mine), np.asarray(theirs)
        tolerance = default_tolerance(dtype, d)
        tolerance = Tolerance(tolerance.rtol if rtol is None else rtol, tolerance.atol if atol is None else atol)
        wrong = ~agrees(a, d, tolerance)
        if wrong.any():
            return WrongValues("value", path, a, d, wrong=wrong, tolerance=tolerance, dtype=dtype)
        if eps(dtype):
            ulps = max(ulps, largest_ulps(a, d, dtype))
            loosest = max(loosest or tolerance, tolerance, key=lambda t: t.rtol)
    text = type_text(got[0][1]) if len(got) == 1 else f"{len(got)} leaves"
    return Match(len(got), text, ulps, loosest)


def dtypes_agree(a: Any, b: Any) -> bool:
    """Whether two leaves have the same dtype, as far as anybody chose it.

    - A Python number has no dtype of its own: it agrees with every dtype that it would not promote. 2 agrees
      with float32, 2.0 does not agree with int32.
    - A NumPy value in float64, int64 or complex128 may just have NumPy's default: it agrees with 32 bits too.
    - All else must be equal. JAX's weak types make no difference.
    """
    if _is_python_number(a) or _is_python_number(b):
        number, other = (a, b) if _is_python_number(a) else (b, a)
        if _is_python_number(other):
            return isinstance(number, bool) == isinstance(other, bool)
        if isinstance(number, bool):
            return other.dtype == np.bool_
        return other.dtype != np.bool_ and jnp.promote_types(other.dtype, type(number)) == other.dtype
    return bool(_choices(a) & _choices(b))


def ulps_between(a: Any, b: Any, dtype: Any) -> int | None:
    """How many numbers of `dtype` lie from `a` to `b`: 0 if equal, 1 if neighbours. None if one is no finite
    number, or complex."""
    if not jnp.issubdtype(dtype, jnp.floating) or not (np.isfinite(a) and np.isfinite(b)):
        return None
    return abs(int(_ordinal(a, dtype)) - int(_ordinal(b, dtype)))


def largest_ulps(a: np.ndarray, b: np.ndarray, dtype: Any) -> int:
    """The largest of `ulps_between` over two arrays; a complex number counts as its two parts."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        part = np.float32 if np.dtype(dtype).itemsize == 8 else np.float64
        return max(largest_ulps(a.real, b.real, part), largest_ulps(a.imag, b.imag, part))
    finite = np.isfinite(wide(a)) & np.isfinite(wide(b))
    if not finite.any():
        return 0
    x, y = _ordinal(a[finite], dtype), _ordinal(b[finite], dtype)
    return int(np.max(np.maximum(x, y) - np.minimum(x, y)))


def type_text(leaf: Any) -> str:
    """What a message calls the type of a leaf: "float32[4]", "a Python int", "str"."""
    if _is_python_number(leaf):
        return f"a Python {type(leaf).__name__}"
    if not hasattr(leaf, "dtype"):
        return type(leaf).__name__
    return array_type(leaf.dtype, leaf.shape)


def tree_text(tree: Any) -> str:
    """The containers of a pytree, each leaf a star: "{'b': *, 'w': [*, *]}"."""
    text = tree_notation(jax.tree.structure(tree))
    if text == "*":
        return f"one {type_text(tree)}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _in_containers_of(desired: Any, actual: Any) -> Any:
    """`actual` with Python's own containers where `desired` has them: a NamedTuple is a tuple, a Counter a dict."""
    if type(desired) is dict and issubclass(type(actual), dict):
        return {key: _in_containers_of(desired.get(key), item) for key, item in dict.items(actual)}
    for container in (tuple, list):
        if type(desired) is container and issubclass(type(actual), container):
            items = list(container.__iter__(actual))
            wanted = [*desired, *[None] * len(items)]
            return container(_in_containers_of(*pair) for pair in zip(wanted, items, strict=False))
    return actual


def _flattened(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """The leaves of a pytree with their paths, "['w'][3]" or "" of the only one, and its structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves], structure


def _ordinal(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Floating-point numbers as whole numbers that count them in order of size, both zeros being 0."""
    dtype = np.dtype(dtype)
    bits = np.asarray(values).astype(dtype).view(f"i{dtype.itemsize}").astype(np.int64)
    # The first bit is the sign, so the bits of -0.0 read as the lowest integer. The other bits, read as an
    # integer, grow with the magnitude.
    return np.where(bits < 0, np.iinfo(f"i{dtype.itemsize}").min - bits, bits)


def _choices(leaf: Any) -> set[np.dtype]:
    dtype = np.dtype(leaf.dtype)
    defaults = {np.float64: np.float32, np.int64: np.int32, np.complex128: np.complex64}
    if not is_jax_array(leaf) and dtype.type in defaults:
        return {dtype, np.dtype(defaults[dtype.type])}
    return {dtype}


def _coarser(a: Any, b: Any) -> np.dtype:
    """The dtype in which two agreeing leaves can be compared: the one with fewer digits."""
    if _is_python_number(a) and _is_python_number(b):
        return np.result_type(a, b)
    return coarser(leaf.dtype for leaf in (a, b) if not _is_python_number(leaf))


def _is_python_number(leaf: Any) -> bool:
    return type(leaf) in (bool, int, float, complex)


def _opaque(leaf: Any) -> bool:
    """Whether a leaf is no number or array of numbers: a string, say, or an object."""
    if _is_python_number(leaf):
        return False
    return not hasattr(leaf, "dtype") or np.dtype(leaf.dtype).kind in "OSUMm"


def _same(a: Any, b: Any) -> bool:
    try:
        if type(a) is type(b) is np.ndarray:
            if a.dtype.kind == b.dtype.kind == "O":  # objects bring an `==` of their own
                return a.shape == b.shape and means_the_same(a.tolist(), b.tolist())
            return (a.dtype.kind == "O") == (b.dtype.kind == "O") and np.array_equal(a, b)
        if isinstance(b, str | bytes):
            return type(a) is type(b) and bool(a == b)
        return type(a) is type(b) and means_the_same(a, b)
    except Exception:  # arrays that do not broadcast, or the student's own __eq__
        return False


def _boxed(value: Any) -> np.ndarray:
    box = np.empty((), object)
    box[()] = value
    return box


def _real(leaf: Any) -> Any:
    """A leaf as what it is compared by. A random key is the integers that it stands for, and what is no array but looks
    like one is the array that NumPy makes of it: its own `shape` and `dtype` may be anything."""
    if is_jax_array(leaf):
        return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    return np.asarray(leaf) if hasattr(leaf, "dtype") and not isinstance(leaf, type) else leaf
