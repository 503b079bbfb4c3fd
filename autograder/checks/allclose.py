"""Are the values right?"""

from collections.abc import Callable
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np

from autograder.failure import fail, passed
from autograder.tolerance import Tolerance, agrees, default_tolerance, eps, wide
from autograder.wording import count

from .compare_trees import Match, Mismatch, WrongValues, compare, ulps_between

_MOST_ULPS = 1000  # rounding is counted in ulps; of more than that, a percentage says more
_MOST_OFF = 10  # times the expected value; further off, a percentage says nothing
_FEW = 4  # values, or different values, among which a pattern may be chance
_LEFT_OVER = 1e-3  # of the error may be left when a factor or a constant explains it
_BITS = 8  # that wrong values must agree in to be no chance: of two different values 8, of four 4
_HALF = float(jnp.finfo(jnp.float16).eps)


def assert_allclose(
    actual: Any,
    desired: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    name: str | None = None,
    hint: str | None = None,
) -> None:
    """Check that two pytrees agree in structure, shapes, dtypes and values.

    actual   the student's: a pytree of JAX or NumPy arrays of any shape and dtype, Python numbers or strings.
    desired  what the specification says, likewise.
    rtol     relative tolerance, without a unit. By default it follows from the dtype: 100 eps (1.2e-05 in float32),
             2 eps for 16 bits and fewer, 0 for integers, booleans and strings.
    atol     absolute tolerance, in the unit of the values. By default 8 eps of the largest finite element of the
             desired leaf, 1 eps for 16 bits and fewer. Passing one of the two leaves the other at its default.
    name     what messages call `actual`; "the result" if it is not given.
    hint     one thing to try, where the values are wrong and show no pattern that has a hint of its own.

    An element agrees when |actual - desired| <= atol + rtol * |desired|. NaN agrees with NaN, an infinity with itself;
    integers are exact with any tolerance.

    A dtype counts only where somebody chose it: a Python number agrees with each dtype it would not promote, NumPy's
    default float64, int64 and complex128 agree with 32 bits too, and weak types make no difference.

    Prints how close the values are, and returns nothing. Raises `CheckFailed` with the first wrong leaf and index.

    Source: `default_tolerance` in `autograder.tolerance` derives the defaults from Higham, "Accuracy and
    Stability of Numerical Algorithms", section 4.2 (https://doi.org/10.1137/1.9780898718027).
    """
    found = compare(actual, desired, rtol=rtol, atol=atol)
    name = name or "the result"
    if isinstance(found, WrongValues):
        _value(name, found, hint)
    if isinstance(found, Mismatch):
        _EXPLAIN[found.kind](name, found)
    agree = "agrees" if found.leaves == 1 else "agree"
    passed(f"{name}: {found.text} {agree}, {_closeness(found)}")


def _closeness(found: Match) -> str:
    if found.tolerance is None or not found.ulps:
        return "equal to the last bit"
    if found.ulps > 1000:  # next to zero, where the absolute tolerance decides and ulps say nothing
        return f"within rtol {found.tolerance.rtol:.2g} and atol {found.tolerance.atol:.2g}"
    return f"at most {count(found.ulps, 'ulp')} apart (rtol {found.tolerance.rtol:.2g})"


def _none(name: str, found: Mismatch) -> NoReturn:
    fail(
        f"{name} is None, expected values.",
        why="a Python function without a return line returns None.",
        attempt="end the function with return and the value.",
    )


def _callable(name: str, found: Mismatch) -> NoReturn:
    fail(
        f"{name} is the function {found.actual}, expected values.",
        why="the function was returned or passed on, but not called.",
        attempt="call it with its arguments, and return what comes back.",
    )


def _tracer(name: str, found: Mismatch) -> NoReturn:
    fail(
        f"{_at(name, found)} is a tracer of {found.actual}, expected an array with values.",
        why="a tracer stands for an array while JAX traces. A list, a global or an attribute kept this one "
        "beyond its trace.",
        attempt="return the value from the traced function, and store what the call gives back.",
    )


def _deleted(name: str, found: Mismatch) -> NoReturn:
    fail(
        f"{_at(name, found)} is a deleted {found.actual}, expected an array with values.",
        why="its memory was donated to a jitted call (donate_argnums), so that it can no longer be read.",
        attempt="use the array that the call returned, or do not donate this argument.",
    )


def _structure(name: str, found: Mismatch) -> NoReturn:
    if found.desired.startswith("one "):
        why = "the pieces are still in a container, or more than one value was returned."
        attempt = "return one array. jnp.stack or jnp.concatenate joins several."
    else:
        why = "a container has another type, length or key: [x, y] is not (x, y)."
        attempt = "build the same containers as the specification, in the same order."
    evidence = [f"got       {found.actual}", f"expected  {found.desired}"]
    if found.missing and not found.desired.startswith("one "):
        evidence.append(f"missing   {', '.join(found.missing)}")
    if found.extra and not found.actual.startswith("one "):
        evidence.append(f"too many  {', '.join(found.extra)}")
    fail(
        f"{name} has another structure than expected.",
        evidence="\n".join(evidence),
        why=why,
        attempt=attempt,
    )


def _shape(name: str, found: Mismatch) -> NoReturn:
    why, attempt = _shape_cause(found.actual, found.desired)
    fail(
        f"{_at(name, found)} has shape {found.actual}, expected {found.desired}.",
        why=why,
        attempt=attempt,
    )


def _shape_cause(got: tuple[int, ...], want: tuple[int, ...]) -> tuple[str, str]:
    if sorted(got) == sorted(want):
        return (
            "the axes are in another order.",
            "transpose with .T or jnp.moveaxis, or swap in_axes and out_axes.",
        )
    if tuple(n for n in got if n != 1) == tuple(n for n in want if n != 1):
        if len(got) < len(want):
            return (
                "an axis of length 1 is missing.",
                "keep it with keepdims=True, or put it back with x[..., None].",
            )
        return (
            "there is an axis of length 1 too many.",
            "take it away with jnp.squeeze, or reduce without keepdims.",
        )
    if np.prod(got) == np.prod(want):
        return (
            "the elements are laid out in another shape.",
            "compare where reshape stands with the specification.",
        )
    if len(got) == len(want):
        axis = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b)
        if abs(got[axis] - want[axis]) == 1:
            return (
                f"axis {axis} is off by one.",
                "look at the first and the last element of the loop or slice.",
            )
        return (
            f"axis {axis} has another length.",
            "print the shape after each line, and find where it changes.",
        )
    if not got:
        return (
            "a reduction without an axis makes one number of all, and so does a value that was never an array.",
            "print the shape after each line; in a reduction, name the axis: jnp.sum(x, axis=0).",
        )
    if len(got) < len(want):
        return (
            "an axis was summed or indexed away.",
            "name the axis of each reduction, and look at each index.",
        )
    return "an axis was not reduced, or broadcasting made one.", "print the shape after each line."


def _dtype(name: str, found: Mismatch) -> NoReturn:
    fail(
        f"{_at(name, found)} is {found.actual}, expected {found.desired}.",
        why="an operation changed the dtype: a division makes floats, a comparison makes booleans, "
        "and jnp.zeros(n) is float32.",
        attempt="give the dtype where the array is made, or convert once with .astype(...).",
    )


def _value(name: str, found: WrongValues, hint: str | None) -> NoReturn:
    got, want = found.actual[found.index], found.desired[found.index]
    where = f" at index {found.index}" if found.index else ""
    line = f"{_at(name, found)}{where}: got {_shown(got, found)}, expected {_shown(want, found)}"
    line += _distance(got, want, found)
    evidence = []
    if found.wrong.size > 1:
        evidence.append(f"{int(found.wrong.sum())} of {found.wrong.size} values differ")
    if found.tolerance.rtol or found.tolerance.atol:
        evidence.append(f"tolerance: rtol {found.tolerance.rtol:.2g}, atol {found.tolerance.atol:.2g}")
    why, attempt = _value_cause(found) or (
        "a formula, an index or a starting value differs from the specification.",
        hint or "run both on the smallest input that still differs, and compare line by line.",
    )
    fail(f"{line}.", evidence="\n".join(evidence), why=why, attempt=attempt)


def _distance(got: Any, want: Any, found: WrongValues) -> str:
    ulps = None if found.dtype is None else ulps_between(got, want, found.dtype)
    if ulps is None:
        return ""
    if ulps <= _MOST_ULPS:
        return f", {count(ulps, 'ulp')} apart"
    share = abs(float(got) / float(want) - 1) if want else np.inf
    return f", {100 * share:.3g} % off" if share <= _MOST_OFF else ""


def _value_cause(found: WrongValues) -> tuple[str, str] | None:
    """The cause, if it was seen in the values, and what to try."""
    if found.dtype is None:
        return "a text or an object must be equal to the letter.", "compare the two, character by character."
    got, want = wide(found.actual), wide(found.desired)
    if np.isnan(got).any() and not np.isnan(want).any():
        return "0/0, inf - inf, or the logarithm or root of a negative number makes NaN.", (
            "find the first line whose result has a NaN: jax.debug_nans(True) stops there."
        )
    if np.isinf(got).any() and not np.isinf(want).any():
        return "a number grew past the largest of its dtype, or was divided by 0.", (
            "look at the largest values that go into exp, a power or a division."
        )
    a, d = got[found.wrong], want[found.wrong]
    if not np.isfinite(a).all() or not np.isfinite(d).all():
        return None
    if coarse := _coarser_dtype(got, want, found):
        return f"every value is one that {coarse} has: it was calculated in {coarse}, or rounded to it.", (
            "calculate in the dtype of the input."
        )
    if _is_rounding(a, d, found):
        return "rounding: the same sum in another order ends in other last digits.", (
            "add small terms before large ones, and subtract nearly equal numbers before they are rounded."
        )
    if a.size == 1:
        return None
    if not a.any():
        return "the wrong values are all 0.", (
            "look for a term, an argument or a part of the array that does not reach the result."
        )
    if np.unique(d).size > 1:  # or else any equal values have one factor and one difference
        error = np.abs(a - d)
        factor, constant = (a.flat[0] / d.flat[0] if d.flat[0] else 0), (a - d).flat[0]
        if (d != 0).all() and (np.abs(a - factor * d) <= _LEFT_OVER * error).all():
            return f"the wrong values are {_number(factor)} times the expected ones.", (
                "look for a constant factor, a sum in place of a mean, or a changed sign."
            )
        if (np.abs(a - d - constant) <= _LEFT_OVER * error).all():
            return f"the wrong values differ by one constant, {_number(constant)}.", (
                "look at the starting value and at what is added."
            )
    if (axis := _reversed_axis(got, want, found)) is not None:
        return f"the values are right, but reversed along axis {axis}.", (
            "look at what counts from the end, and at what is taken for left and for right."
        )
    if _is_another_order(got, want, found):
        return "the values are right, but in another order.", "look at axes, transposes and slices."
    return None


def _is_rounding(got: np.ndarray, want: np.ndarray, found: WrongValues) -> bool:
    """Whether the wrong values miss by so little that no formula need be wrong, whatever tolerance the task has.

    By ten times what `default_tolerance` forgives, which is 1000 eps of the element and 80 eps of the largest: the
    errors of a sum of n terms grow with the square root of n, and 1000 eps are those of a million. For 16 bits and
    fewer by twice that, as only the last rounding shows.
    """
    usual = default_tolerance(found.dtype, found.desired)
    times = 10 if eps(found.dtype) < _HALF else 2
    return bool(agrees(got, want, Tolerance(times * usual.rtol, times * usual.atol)).all())


def _coarser_dtype(got: np.ndarray, want: np.ndarray, found: WrongValues) -> str | None:
    """The 16-bit dtype to which every value was rounded, though more was asked for; None if there is none."""
    if not 0 < eps(found.dtype) < _HALF or got.dtype.kind == "c" or got.size < _FEW:
        return None
    for dtype in (jnp.bfloat16, jnp.float16):  # the coarser one first
        with np.errstate(over="ignore"):
            mine, theirs = (np.array_equal(wide(values.astype(dtype)), values) for values in (got, want))
        if mine and not theirs and agrees(got, want, default_tolerance(dtype, want)).all():
            return np.dtype(dtype).name
    return None


def _reversed_axis(got: np.ndarray, want: np.ndarray, found: WrongValues) -> int | None:
    """The only axis along which the values are those expected, reversed; None if there is none, or if it may be chance.

    It may be where few values are wrong, or where they are few different ones. And 0, 1, 0, 1 reversed is also the same
    shifted by one place, and 0, 1, 2, 3 is 3 - x: then nothing is known.
    """
    differ = want[found.wrong]
    apart = np.unique(differ).size
    if apart < 2 or differ.size * np.log2(apart) < _BITS:
        return None
    fits = [axis for axis in range(want.ndim) if agrees(got, np.flip(want, axis), found.tolerance).all()]
    if len(fits) != 1:
        return None
    others = [np.roll(want, 1, fits[0]), np.roll(want, -1, fits[0]), (got + want).flat[0] - want]
    return None if any(agrees(got, other, found.tolerance).all() for other in others) else fits[0]


def _is_another_order(got: np.ndarray, want: np.ndarray, found: WrongValues) -> bool:
    """Whether the values are those expected, in an order that is unlikely by chance.

    Arrays of few different values, such as 0 and 1, have the same ones whatever went wrong, and so has every
    permutation of whole numbers without a gap.
    """
    if got.dtype.kind == "c" or want.size < _FEW:
        return False
    mine, theirs = np.sort(got, axis=None), np.sort(want, axis=None)
    if not agrees(mine, theirs, found.tolerance).all():
        return False
    apart = ~agrees(theirs[1:], theirs[:-1], found.tolerance)
    without_gap = found.dtype.kind in "iu" and theirs[-1] - theirs[0] < theirs.size
    return 1 + int(apart.sum()) >= max(_FEW, theirs.size / 2) and not without_gap


def _number(value: complex) -> str:
    value = complex(value)
    return f"{value:.4g}" if value.imag else f"{value.real:.4g}"


def _at(name: str, found: Mismatch) -> str:
    return f"{name}: leaf {found.leaf}" if found.leaf else name


def _shown(value: Any, found: WrongValues) -> str:
    return repr(value) if found.dtype is None else str(value)


_EXPLAIN: dict[str, Callable[[str, Mismatch], NoReturn]] = {
    "none": _none,
    "callable": _callable,
    "tracer": _tracer,
    "deleted": _deleted,
    "structure": _structure,
    "shape": _shape,
    "dtype": _dtype,
}
