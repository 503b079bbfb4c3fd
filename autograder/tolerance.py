"""When do two arrays of one shape agree? One rule, for the check of values and for the comparison before a race.

The rule needs no JAX: the narrow dtypes (bfloat16, float8) are NumPy's once `ml_dtypes` is imported.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """An element agrees when |actual - desired| <= atol + rtol * |desired|."""

    rtol: float
    atol: float


def eps(dtype: Any) -> float:
    """The distance from 1 to the next number of a real or complex floating-point dtype; 0 of any other dtype."""
    try:
        return float(ml_dtypes.finfo(np.dtype(dtype)).eps)
    except ValueError:  # no floating-point dtype
        return 0.0


def coarser(dtypes: Iterable[Any]) -> np.dtype:
    """The dtype in which values of several dtypes can be compared: the one with the fewest digits.

    Integers are exact and give way to every floating-point dtype; among themselves the first counts.
    """
    return max(map(np.dtype, dtypes), key=eps)


def default_tolerance(dtype: Any, desired: np.ndarray) -> Tolerance:
    """The tolerance that rounding needs, from `eps`, the distance between 1 and the next number of `dtype`.

    Summing n terms in another order changes the result by up to (n - 1) eps/2 of the sum of their magnitudes
    (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2), and by about the square root of n
    when the errors are random. The relative tolerance of 100 eps, 1.2e-05 in float32, leaves room for
    thousands of terms, and a formula that is wrong in the fourth digit still fails. Where terms cancel, the
    error goes with their size and not with that of the result, hence also an absolute tolerance: 8 eps of the
    largest finite element, as JAX's own tests allow 8 eps (1e-6) in float32.

    For 16 bits and fewer it is 2 eps and 1 eps: sums of such values are accumulated in float32, so that only the last
    rounding shows (JAX's tests allow about 1 eps). Integers, booleans and strings are compared exactly.
    """
    unit = eps(dtype)
    if not unit:
        return Tolerance(0.0, 0.0)
    relative, absolute = (100, 8) if ml_dtypes.finfo(np.dtype(dtype)).bits >= 32 else (2, 1)
    return Tolerance(relative * unit, absolute * unit * largest(desired))


def agrees(actual: np.ndarray, desired: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """Which elements agree, as a mask.

    Whatever the tolerance, NaN agrees with NaN alone, an infinity with the same infinity, and integers are exact.
    """
    if actual.dtype.kind in "biu" and desired.dtype.kind in "biu":
        return np.asarray(actual == desired)
    a, d = wide(actual), wide(desired)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(a - d) <= tolerance.atol + tolerance.rtol * np.abs(d)
    # An infinite tolerance or difference proves nothing.
    near &= np.isfinite(a) & np.isfinite(d)
    return near | (a == d) | (np.isnan(a) & np.isnan(d))


def largest(values: np.ndarray) -> float:
    """The largest finite magnitude; 0 if there is none."""
    sizes = np.abs(wide(values))
    return float(np.max(sizes, where=np.isfinite(sizes), initial=0.0))


def wide(values: np.ndarray) -> np.ndarray:
    """In double precision: NumPy cannot calculate with every dtype that JAX has."""
    values = np.asarray(values)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
