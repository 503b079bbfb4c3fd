"""Do two results agree: what is allowed, and what nothing allows."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from autograder.measuring.wire import arrays
from autograder.measuring.worker import agreement

EPS = 2.0**-23
WANT = np.linspace(1, 2, 9, dtype=np.float32)


def agree(got, want, shares=None):
    """Whether two lists of results agree, strictly if no shares are given."""
    return agreement.disagreement(got, want, agreement.strict(got, want) if shares is None else shares) is None


def off(error):
    """WANT with one value that is off by so much."""
    return np.where(WANT == 1.5, WANT + np.float32(error), WANT)


@pytest.mark.parametrize(("units", "expected"), [(0, True), (270, True), (290, False), (2000, False)])
def test_a_hundred_units_of_each_value_and_sixty_four_of_the_largest_are_allowed(units, expected):
    """The value is 1.5, the largest is 2: 150 + 128 units."""
    assert agree([off(units * EPS)], [WANT]) == expected


@pytest.mark.parametrize(("units", "expected"), [(60, True), (70, False)])
def test_beside_large_values_sixty_four_units_of_those(units, expected):
    want = np.float32([1.0, 0.0])
    assert agree([np.float32([1.0, units * EPS])], [want]) == expected


@pytest.mark.parametrize(("units", "expected"), [(2, True), (4, False)])
def test_of_sixteen_bits_two_units_are_allowed(units, expected):
    want = np.array([1.0, 0.5], ml_dtypes.bfloat16)
    got = np.array([1.0 + units * 2.0**-7, 0.5], ml_dtypes.bfloat16)
    assert agree([got], [want]) == expected


def test_integers_and_booleans_are_exact():
    assert agree([np.int32([2**24 + 1])], [np.int32([2**24 + 1])])
    assert not agree([np.int32([2**24 + 1])], [np.int32([2**24])])
    assert not agree([np.array([True])], [np.array([False])])


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_agrees_with_itself_alone(special):
    with_it = np.float32([1, special, 3])
    assert agree([with_it], [with_it.copy()])
    for other in {1.0, 3e38, np.nan, np.inf, -np.inf} - {special}:
        if not (np.isnan(special) and np.isnan(other)):
            assert not agree([np.float32([1, other, 3])], [with_it], [1.0])
            assert not agree([with_it], [np.float32([1, other, 3])], [1.0])


def test_nan_is_never_near_enough():
    refusal = agreement.other_values([np.float32([1, np.nan, 3])], [np.float32([1, 2, 3])], [1e6])
    assert (refusal.index, refusal.wrong, refusal.got, refusal.want) == ([1], 1, "nan", "2.0")


@pytest.mark.parametrize(
    ("got", "want", "says"),
    [
        ([WANT], [WANT, WANT], "it returns 1 arrays, the baseline 2"),
        ([WANT, WANT], [WANT], "it returns 2 arrays, the baseline 1"),
        ([], [WANT], "it returns 0 arrays, the baseline 1"),
        ([WANT[:3]], [WANT], r"it returns float32[3], the baseline's is float32[9]"),
        ([WANT, WANT > 0], [WANT, WANT], r"result 1 is bool[9], the baseline's is float32[9]"),
        ([WANT + 0j], [WANT], r"it returns complex64[9], the baseline's is float32[9]"),
        ([2.0], [WANT], r"it returns float64[], the baseline's is float32[9]"),
    ],
)
def test_number_shape_and_kind_count(got, want, says):
    assert agreement.disagreement(got, want, []).what == says


def test_all_results_are_compared():
    assert agree([WANT, WANT], [WANT, WANT])
    refusal = agreement.disagreement([WANT, off(0.1)], [WANT, WANT], [0.0, 0.0])
    assert (refusal.result, refusal.index, refusal.wrong, refusal.of) == (1, [4], 1, 9)


def test_the_worst_value_is_told_and_what_was_allowed():
    refusal = agreement.other_values([WANT + np.float32([0, 0.1, 0, 0.3, 0, 0, 0, 0, 0])], [WANT], [0.01])
    assert (refusal.index, refusal.wrong, refusal.allowed) == ([3], 2, "0.02")
    assert agreement.other_values([off(0.1)], [WANT], [0.0]).allowed == f"{(100 * 1.5 + 8 * 2) * EPS:.2g}"


def test_random_keys_are_compared_by_their_words():
    assert agree([jax.random.key(1)], [jax.random.key(1)])
    assert not agree([jax.random.key(1)], [jax.random.key(2)])


def test_a_python_number_takes_the_dtype_of_the_other():
    assert agree([1.5], [jnp.float32(1.5 * (1 + 90 * EPS))])
    assert not agree([1.5], [1.5 * (1 + 90 * EPS)])


def shares(error_of_the_baseline):
    """What is allowed for a baseline that is off by so much, of a largest value of 2."""
    reference = [WANT.astype(np.float64)]
    (share,) = agreement.derived([WANT], [off(error_of_the_baseline)], reference)
    return share


def test_ten_times_the_baselines_own_error_is_allowed():
    assert shares(0) == 64 * EPS
    assert shares(0.002) == pytest.approx(64 * EPS + 10 * 0.001, rel=1e-3)


def test_a_baseline_that_is_far_off_allows_no_more():
    assert shares(1.0) == 0.02


def test_without_a_reference_the_root_of_the_roundoff_is_allowed():
    assert agreement.derived([WANT], [WANT], None) == [EPS**0.5]
    assert agreement.derived([np.int32([1])], [np.int32([2])], None) == [0.0]


def test_identical_is_to_the_last_bit():
    assert agreement.identical([WANT, 3], [WANT.copy(), 3])
    assert agreement.identical([np.float32([np.nan])], [np.float32([np.nan])])
    assert not agreement.identical([WANT], [off(EPS)])
    assert not agreement.identical([WANT], [WANT, WANT])
    assert not agreement.identical([WANT], [WANT.astype(np.float64)])


class _Late(jax.Array):
    """Says that it is an array, in the coarsest dtype, and computes when it is looked at."""

    dtype, shape = ml_dtypes.float8_e8m0fnu, (2,)

    def __array__(self, dtype=None, copy=None):
        return np.zeros(2, np.float32)


_Late.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


def test_what_only_derives_from_an_array_is_compared_by_its_numbers_and_travels_no_way():
    late = _Late()
    assert agreement.other_values([late], [jnp.ones(2)], [0.0]) is not None
    assert agreement.other_structure([late], [jnp.ones(2)]) is None
    assert not arrays.is_data(late) and not arrays.is_data(type("Late", (complex,), {})(1j))
    assert arrays.is_data(jnp.ones(2)) and arrays.is_data(np.float32(1)) and arrays.is_data(1j)
