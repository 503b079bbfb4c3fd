"""The one rule for when values agree: the default for each dtype, NaN, infinities and integers."""

import jax.numpy as jnp
import numpy as np
import pytest

from autograder.tolerance import Tolerance, agrees, coarser, default_tolerance, eps

LOOSE = Tolerance(np.inf, np.inf)


@pytest.mark.parametrize(
    ("dtype", "relative", "absolute"),
    [
        (jnp.float32, 100, 8),
        (jnp.complex64, 100, 8),
        (np.float64, 100, 8),
        (jnp.float16, 2, 1),
        (jnp.bfloat16, 2, 1),
        (jnp.float8_e4m3fn, 2, 1),
    ],
)
def test_the_default_is_so_many_eps(dtype, relative, absolute):
    unit = float(jnp.finfo(dtype).eps)
    assert eps(dtype) == unit
    assert default_tolerance(dtype, np.array([1, -4, np.inf, np.nan])) == Tolerance(
        relative * unit, absolute * unit * 4
    )


@pytest.mark.parametrize("largest", [3e-30, 0.25])
def test_small_numbers_are_not_compared_with_one(largest):
    desired = np.array([largest, np.nan, -largest / 2])
    assert default_tolerance(np.float32, desired).atol == pytest.approx(8 * 2.0**-23 * largest)
    assert default_tolerance(np.float32, np.array([np.nan])).atol == 0 == default_tolerance(np.float32, np.ones(0)).atol


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.int4, np.uint64, bool, "U3"])
def test_what_is_no_floating_point_number_is_exact(dtype):
    assert eps(dtype) == 0
    assert default_tolerance(dtype, np.array([1, 4])) == Tolerance(0, 0)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_the_rule_holds_to_its_last_unit(dtype):
    one, unit = np.ones(1), eps(dtype)
    tolerance = default_tolerance(dtype, one)
    most = tolerance.rtol + tolerance.atol
    assert agrees(one + most, one, tolerance) and agrees(one - most, one, tolerance)
    assert not agrees(one + most + unit / 8, one, tolerance)
    assert not agrees(one - most - unit / 8, one, tolerance)


def test_the_relative_part_goes_with_the_element_and_the_absolute_part_with_the_largest():
    desired = np.array([1000.0, 1.0])
    tolerance = Tolerance(0.01, 0.5)
    assert agrees(desired + [10.5, 0.51], desired, tolerance).tolist() == [True, True]
    assert agrees(desired + [10.6, 0.52], desired, tolerance).tolist() == [False, False]


def test_integers_are_exact_among_themselves_and_a_number_beside_them_is_as_near_as_it_says():
    assert not agrees(np.array([7]), np.array([8]), Tolerance(0.5, 0))
    assert agrees(np.array([7]), np.array([8.0]), Tolerance(0.5, 0)) and agrees(
        np.array([7.0]), np.array([8]), Tolerance(0.5, 0)
    )


def test_nan_and_infinities_agree_with_themselves_alone_whatever_the_tolerance():
    strange = np.array([np.nan, np.inf, -np.inf, 1.0])
    for tolerance in (Tolerance(0, 0), LOOSE):
        table = np.array([[agrees(np.array(a), np.array(d), tolerance) for a in strange] for d in strange])
        assert table.tolist() == np.eye(4, dtype=bool).tolist()
    assert agrees(np.array(2.0), np.array(1.0), Tolerance(1, 0))


def test_integers_are_exact_whatever_the_tolerance():
    large = np.array(2**62)
    assert agrees(large, large, LOOSE) and not agrees(large + 1, large, LOOSE)


def test_values_are_compared_in_the_dtype_with_the_fewest_digits():
    assert coarser([np.float64, jnp.bfloat16, np.float32]) == jnp.bfloat16
    assert coarser([np.int32, np.float64]) == np.float64
    assert coarser([np.int64, np.int32]) == np.int64
