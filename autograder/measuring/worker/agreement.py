"""Do two results agree? Strictly first, and if not, within what the baseline itself gets wrong.

Strict means 64 units in the last place of the largest value in the array; on a device that drops digits of matrix
products, two units of what it keeps, if that is more. If that does not hold, the baseline is run again in double
precision: the candidate may be ten times as far from that as the baseline is. Where there is no such run (the
baseline is not a function of JAX, or fixes its dtypes), the allowance is the square root of the unit roundoff, times
the largest value in the array.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from autograder.measuring.wire.arrays import is_key
from autograder.measuring.wire.messages import OtherStructure, OtherValues
from autograder.wording import array_type

from .product import product_roundoff

STRICT, OWN_ERROR = 64, 10
ROUNDED = 2  # units of a product that drops digits: two programs may each be wrong by one
_KINDS: dict[str, DTypeLike] = {
    "boolean": jnp.bool_,
    "integer": jnp.integer,
    "floating": jnp.floating,
    "complexfloating": jnp.complexfloating,
}
# A baseline that is itself wrong by more than this share cannot judge anybody: no more is allowed.
WORST = 0.02


def _array(leaf) -> np.ndarray:
    if is_key(leaf):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    return array.astype(np.complex128 if jnp.issubdtype(array.dtype, jnp.complexfloating) else np.float64)


def _kind(leaf) -> str:
    dtype = np.asarray(leaf).dtype if not isinstance(leaf, jax.Array) else leaf.dtype
    return next((name for name, kind in _KINDS.items() if jnp.issubdtype(dtype, kind)), "other")


def leaf_type(leaf) -> str:
    """The type of a leaf in JAX notation, `float32[4]`."""
    return array_type(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype, np.shape(leaf))


def disagreement(got: list, want: list, allowances: list[float]) -> OtherStructure | OtherValues | None:
    """In what the candidate's results are not the baseline's, or None."""
    return other_structure(got, want) or other_values(got, want, allowances)


def other_structure(got: list, want: list) -> OtherStructure | None:
    """What differs in number, shape or kind of the results, or None."""
    if len(got) != len(want):
        return OtherStructure(f"it returns {len(got)} arrays, the baseline {len(want)}")
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if np.shape(a) != np.shape(b) or _kind(a) != _kind(b):
            where = f"result {index} is" if len(want) > 1 else "it returns"
            return OtherStructure(f"{where} {leaf_type(a)}, the baseline's is {leaf_type(b)}")
    return None


def is_double(leaf) -> bool:
    """Whether a result was computed in double precision (or is not a floating-point number)."""
    dtype = np.asarray(leaf).dtype if not isinstance(leaf, jax.Array) else leaf.dtype
    return not jnp.issubdtype(dtype, jnp.inexact) or jnp.finfo(dtype).bits == 64


def _roundoff(*leaves) -> float:
    kinds = [leaf.dtype for leaf in leaves if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return max((float(jnp.finfo(kind).eps) for kind in kinds), default=0.0)


def _scale(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def strict(got: list, want: list) -> list[float]:
    """The relative allowance of each result: `STRICT` units of roundoff, or `ROUNDED` of a product; 0 for integers."""
    allowances = [STRICT * _roundoff(a, b) for a, b in zip(got, want, strict=True)]
    single = STRICT * float(jnp.finfo(jnp.float32).eps)
    product = ROUNDED * product_roundoff(jax.config.jax_default_matmul_precision) if single in allowances else 0.0
    return [max(share, product) if share == single else share for share in allowances]


def derived(got: list, want: list, reference: list | None) -> list[float]:
    """The relative allowance of each result from the baseline's own error against `reference`, or the fallback."""
    allowances = []
    for index, (least, a, b) in enumerate(zip(strict(got, want), got, want, strict=True)):
        if least == 0:
            allowances.append(0.0)
        elif reference is None:
            allowances.append(max(least, _roundoff(a, b) ** 0.5))
        else:
            exact = _array(reference[index])
            own = _scale(_array(b) - exact) / (_scale(exact) or 1.0)
            allowances.append(min(WORST, least + OWN_ERROR * own))
    return allowances


def other_values(got: list, want: list, allowances: list[float]) -> OtherValues | None:
    """The worst disagreement in the first result that has any, or None."""
    for number, (a, b, share) in enumerate(zip(map(_array, got), map(_array, want), allowances, strict=True)):
        with np.errstate(invalid="ignore"):
            allowed = share * _scale(b) if share else 0.0
            off = a != b if allowed == 0 else ~(np.abs(a - b) <= allowed)
            off &= ~((a == b) | ((a != a) & (b != b)))  # equal infinities; NaN in both
        if off.any():
            with np.errstate(invalid="ignore"):
                error = np.where(off, np.nan_to_num(np.abs(a.astype(np.complex128) - b), nan=np.inf), -1.0)
            worst = tuple(int(i) for i in np.unravel_index(np.argmax(error), error.shape))
            counts = int(off.sum()), int(off.size)
            return OtherValues(number, list(worst), *counts, str(a[worst]), str(b[worst]), f"{allowed:.2g}")
    return None
