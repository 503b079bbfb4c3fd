"""Do two results agree? First by the rule of `assert_allclose`, and if not, within what the baseline itself gets wrong.

The rule is `autograder.tolerance`, so that what `assert_allclose` accepts is accepted here. It is a little wider where
terms cancel: 64 units in the last place of the largest value in the array; on a device that drops digits of matrix
products, two units of what it keeps. If that does not hold, the baseline is run again in double precision: the
candidate may be ten times as far from that as the baseline is. Where there is no such run (the baseline is not a
function of JAX, or fixes its dtypes), the allowance is the square root of the unit roundoff, times the largest value.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from autograder.jax_internals import is_jax_array
from autograder.measuring.wire.arrays import is_key
from autograder.measuring.wire.messages import OtherStructure, OtherValues
from autograder.tolerance import Tolerance, agrees, coarser, default_tolerance, eps, largest, wide
from autograder.wording import array_type

from .product import product_roundoff

STRICT, OWN_ERROR = 64, 10
ROUNDED = 2  # units of a product that drops digits: two programs may each be wrong by one
SINGLE = float(np.finfo(np.float32).eps)
_KINDS: dict[str, DTypeLike] = {
    "boolean": jnp.bool_,
    "integer": jnp.integer,
    "floating": jnp.floating,
    "complexfloating": jnp.complexfloating,
}
# A baseline that is itself wrong by more than this share cannot judge anybody: no more is allowed.
WORST = 0.02


def _array(leaf) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def _real(leaf):
    """A result as what it is compared by. What is no array of JAX's or number of Python's is what NumPy makes of it: of
    an answer's class, `shape` and `dtype` may be anything."""
    return leaf if is_jax_array(leaf) or type(leaf) in (bool, int, float, complex) else np.asarray(leaf)


def _kind(leaf) -> str:
    dtype = leaf.dtype if is_jax_array(leaf) else np.asarray(leaf).dtype
    return next((name for name, kind in _KINDS.items() if jnp.issubdtype(dtype, kind)), "other")


def leaf_type(leaf) -> str:
    """The type of a leaf in JAX notation, `float32[4]`."""
    return array_type(leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype, np.shape(leaf))


def disagreement(got: list, want: list, shares: list[float]) -> OtherStructure | OtherValues | None:
    """In what the candidate's results are not the baseline's, or None."""
    return other_structure(got, want) or other_values(got, want, shares)


def other_structure(got: list, want: list) -> OtherStructure | None:
    """What differs in number, shape or kind of the results, or None."""
    got = list(map(_real, got))
    if len(got) != len(want):
        return OtherStructure(f"it returns {len(got)} arrays, the baseline {len(want)}")
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if np.shape(a) != np.shape(b) or _kind(a) != _kind(b):
            where = f"result {index} is" if len(want) > 1 else "it returns"
            return OtherStructure(f"{where} {leaf_type(a)}, the baseline's is {leaf_type(b)}")
    return None


def identical(one: list, other: list) -> bool:
    """Whether two lists of results are the same to the last bit."""
    pairs = [(_array(a), _array(b)) for a, b in zip(one, other, strict=False)]
    return len(one) == len(other) and all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def is_double(leaf) -> bool:
    """Whether a result was computed in double precision (or is not a floating-point number)."""
    dtype = leaf.dtype if is_jax_array(leaf) else np.asarray(leaf).dtype
    return not jnp.issubdtype(dtype, jnp.inexact) or jnp.finfo(dtype).bits == 64


def _dtype(a, b) -> np.dtype:
    """The dtype in which two results are compared. A Python number takes that of the other one."""
    return coarser([_array(leaf).dtype for leaf in (a, b) if hasattr(leaf, "dtype")] or [np.asarray(b).dtype])


def strict(got: list, want: list) -> list[float]:
    """For each result, the share of its largest value that it may always be off by; 0 where the rule says it all."""
    units = [eps(_dtype(a, b)) for a, b in zip(got, want, strict=True)]
    # Sums of 16 bits and fewer are accumulated in more, so nothing cancels that was rounded before.
    shares = [STRICT * unit if unit <= SINGLE else 0.0 for unit in units]
    if SINGLE in units:
        product = ROUNDED * product_roundoff(jax.config.jax_default_matmul_precision)
        shares = [max(share, product) if unit == SINGLE else share for share, unit in zip(shares, units, strict=True)]
    return shares


def derived(got: list, want: list, reference: list | None) -> list[float]:
    """The same, from the baseline's own error against `reference`, or the fallback."""
    shares = []
    for index, (least, a, b) in enumerate(zip(strict(got, want), got, want, strict=True)):
        unit = eps(_dtype(a, b))
        if not unit:
            shares.append(0.0)
        elif reference is None:
            shares.append(max(least, unit**0.5))
        else:
            exact = wide(_array(reference[index]))
            own = largest(wide(_array(b)) - exact) / (largest(exact) or 1.0)
            shares.append(min(WORST, least + OWN_ERROR * own))
    return shares


def _plainly_close(a: np.ndarray, b: np.ndarray, share: float) -> bool:
    """A quick look in their own dtype, for large data that is compared again and again. False settles nothing."""
    if a.dtype != b.dtype or a.dtype.kind != "f":
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        scale = np.max(np.abs(b), initial=0)
        return bool(np.isfinite(scale) and np.max(np.abs(a - b), initial=0) <= share * scale)


def other_values(got: list, want: list, shares: list[float]) -> OtherValues | None:
    """The worst disagreement in the first result that has any, or None."""
    got = list(map(_real, got))
    for number, (leaf, right, share) in enumerate(zip(got, want, shares, strict=True)):
        a, b = _array(leaf), _array(right)
        if _plainly_close(a, b, share):
            continue
        rule = default_tolerance(_dtype(leaf, right), b)
        rule = Tolerance(rule.rtol, max(rule.atol, share * largest(b)))
        off = ~agrees(a, b, rule)
        if off.any():
            with np.errstate(invalid="ignore"):
                error = np.where(off, np.nan_to_num(np.abs(wide(a) - wide(b)), nan=np.inf), -1.0)
            worst = tuple(int(i) for i in np.unravel_index(np.argmax(error), error.shape))
            allowed = rule.atol + rule.rtol * float(abs(wide(b)[worst]))
            counts = int(off.sum()), int(off.size)
            return OtherValues(number, list(worst), *counts, str(a[worst]), str(b[worst]), f"{allowed:.2g}")
    return None
