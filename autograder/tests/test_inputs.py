"""The inputs of a contest: of the kind that was given, new in every call of code, a few copies for what is compiled."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from autograder.measuring.worker.inputs import (
    AS_GIVEN,
    COPIES,
    LEAST,
    Fresh,
    Repeated,
    has_order,
    new_draw,
    other_numbers,
)

RNG = np.random.default_rng(1)
FLOATS = RNG.normal(size=(6, 7)).astype(np.float32)
ROW = np.eye(32, dtype=np.int32)[16]  # one cell of 32 is alive


def drawn(*leaves, calls=50, draw=None):
    """The leaves of so many calls."""
    return [list(call) for call in Fresh(list(leaves)).block(calls, draw or new_draw(), tuple).calls]


def first(*leaves):
    return drawn(*leaves, calls=1)[0]


@pytest.mark.parametrize(
    "leaf",
    [
        FLOATS,
        jnp.array(FLOATS),
        RNG.normal(size=(60, 70)).astype(ml_dtypes.bfloat16),
        FLOATS + 1j * FLOATS,
        np.float32(2.5),
        np.arange(5.0),
        FLOATS[:, :6] + FLOATS[:, :6].T,
        np.random.default_rng(0).normal(size=2**16),
        ROW,
        RNG.integers(0, 2, 40).astype(bool),
        RNG.permutation(40),
        jax.random.key(7),
    ],
    ids=lambda leaf: f"{leaf.dtype}{list(leaf.shape)}",
)
def test_no_call_has_the_inputs_of_another(leaf):
    def whole(value):
        value = jax.random.key_data(value) if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key) else value
        return np.asarray(value).tobytes()

    calls = [leaf for (leaf,) in drawn(leaf, calls=100)]
    assert len({whole(leaf) for leaf in [leaf, *calls]}) >= 98  # of bfloat16 there are few
    assert {(type(new), new.dtype, new.shape) for new in calls} == {(type(calls[0]), leaf.dtype, leaf.shape)}
    assert isinstance(calls[0], jax.Array) == isinstance(leaf, jax.Array)


@pytest.mark.parametrize("part", [lambda x: float(x.ravel()[0]), lambda x: float(x.sum()), lambda x: float(x.max())])
def test_no_part_of_floating_point_inputs_comes_back(part):
    assert len({part(new) for (new,) in drawn(FLOATS, calls=200)}) >= 199


def test_no_input_is_a_multiple_of_another():
    """Else the result of one would be, for many functions, a multiple of the other's."""
    for (new,) in drawn(FLOATS, calls=3000, draw=1):  # in many draws the stretch of the second factor is very long
        assert np.ptp(new / FLOATS) > 1e-6


def test_signs_zeros_and_bounds_stay():
    given = FLOATS * (np.abs(FLOATS) > 0.5)
    for (new,) in drawn(given, calls=20):
        assert (np.sign(new) == np.sign(given)).all()
        assert (np.abs(new) <= np.abs(given)).all() and (np.abs(new) >= 0.93 * np.abs(given)).all()


def test_order_symmetry_and_common_values_stay():
    times, grid = np.linspace(0, 1, 20, dtype=np.float32), np.meshgrid(np.arange(4.0), np.arange(5.0))[0]
    covariance = np.cov(FLOATS)
    for new_times, new_grid, new_covariance, bound in drawn(times, grid, covariance, np.float64(1.0), calls=20):
        assert (np.diff(new_times) > 0).all()
        assert np.allclose(np.diff(new_times), np.diff(new_times)[0], rtol=1e-4), "still an even grid"
        assert (new_grid == new_grid[0]).all()
        assert (new_covariance == new_covariance.T).all()
        assert new_times.max() <= bound * (1 + 1e-6)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        ([1, 2, 2, 3], True),
        ([3, 1, 0], True),
        ([1, 3, 2], False),
        ([[1, 5, 3], [2, 6, 4]], True),
        ([[1, 5, 3], [5, 6, 0], [3, 0, 2]], True),
        ([[1, 5, 3], [4, 6, 0], [3, 0, 2]], False),
        (5.0, True),
        ([np.nan, 1, 0, 2], False),
        ([], True),
    ],
)
def test_what_has_an_order(array, expected):
    assert has_order(np.array(array)) is expected


def test_a_hermitian_matrix_has_an_order():
    assert has_order(np.array([[1, 2j, 3], [-2j, 5, 1j], [3, -1j, 0]]))


def test_integers_beside_floating_point_numbers_stay():
    lengths, key, flag = RNG.integers(0, 9, 40), jax.random.key(1), RNG.integers(0, 2, 40).astype(bool)
    for numbers, new_lengths, new_key, new_flag, number in drawn(FLOATS, lengths, key, flag, 30, calls=5):
        assert not np.array_equal(numbers, FLOATS)
        assert np.array_equal(new_lengths, lengths) and np.array_equal(new_flag, flag)
        assert new_key == key and number == 30


def test_integers_alone_are_drawn_from_those_that_occur():
    rows = [row for row, steps in drawn(ROW, 1000) if steps == 1000]
    assert {value for row in rows for value in row.tolist()} == {0, 1}
    assert len({int(row.sum()) for row in rows}) > 5


def test_a_permutation_stays_one_and_an_order_stays():
    shuffled, ordered = RNG.permutation(30), np.array([0, 3, 3, 8])
    for new, same in drawn(shuffled, ordered, calls=5):
        assert sorted(new) == list(range(30)) and not np.array_equal(new, shuffled)
        assert np.array_equal(same, ordered)


def test_random_keys_are_new_before_integers_are():
    for key, same in drawn(jax.random.key(0), ROW, calls=5):
        assert jax.random.key_impl(key) == jax.random.key_impl(jax.random.key(0)) and key != jax.random.key(0)
        assert np.array_equal(same, ROW)


@pytest.mark.parametrize(
    "leaves",
    [[], [30, 2.5, True], [np.zeros(9, np.float32)], [np.arange(9)], [np.int32(4)], [np.zeros(9, bool)], [np.ones(0)]],
    ids=str,
)
def test_where_nothing_can_be_new_it_says_so(leaves):
    assert not Fresh(leaves).new
    assert len(Fresh(leaves).block(2, new_draw(), tuple).calls) == 2


def test_too_few_variants_are_not_new():
    assert not Fresh([np.array(1.5, ml_dtypes.bfloat16)]).new
    assert Fresh([np.float32(1.5)]).new
    assert not Fresh([np.array([0, 1, 0])]).new
    assert Fresh([np.array([0, 1] * 6)]).new
    assert Fresh([np.array([0, 1, 2, 3] * 2)]).new  # two bits each, which is more


def test_a_draw_is_the_same_for_both_sides_whatever_the_length_of_the_block():
    draw = new_draw()
    inputs = Fresh([FLOATS, 3])
    short, long = (inputs.block(calls, draw, tuple) for calls in (2, 9))
    assert np.array_equal(short.calls[short.checked][0], long.calls[long.checked][0])
    other = inputs.block(2, new_draw(), tuple)
    assert not np.array_equal(short.calls[short.checked][0], other.calls[other.checked][0])


def test_any_call_of_a_block_may_be_the_one_that_is_checked():
    inputs = Fresh([FLOATS])
    assert {inputs.block(4, new_draw(), tuple).checked for _ in range(200)} == {0, 1, 2, 3}


def test_draws_cannot_be_foretold():
    assert len({new_draw() for _ in range(100)}) == 100
    assert AS_GIVEN not in {new_draw() for _ in range(100)}


def test_as_given_is_as_given_in_buffers_of_its_own():
    given = jnp.array(FLOATS)
    ((one,), (two,)) = Fresh([given]).block(2, AS_GIVEN, tuple).calls
    assert np.array_equal(one, given) and np.array_equal(two, given)
    assert len({array.unsafe_buffer_pointer() for array in (given, one, two)}) == 3


def test_weak_types_stay():
    assert first(jnp.asarray(1.5))[0].weak_type
    assert not first(jnp.float32(1.5))[0].weak_type


def test_what_is_compiled_takes_turns_with_a_few_copies_of_other_numbers():
    ordered = np.linspace(-1, 1, 30, dtype=np.float32)
    inputs = Repeated([FLOATS, ROW, 3, ordered])
    found = set()
    for draw in range(1, 50):
        block = inputs.block(3, draw, tuple)
        assert block.checked == 2 and block.calls[0] is block.calls[1] is block.calls[2]
        values, row, number, line = block.calls[0]
        assert row is ROW and number == 3
        share = values / FLOATS
        assert LEAST**2 - 1e-6 <= share.min() < share.max() < 1, "not one factor for all: it could be divided out"
        assert np.ptp(line / ordered) < 1e-6, "but where there is an order"
        found.add(values.tobytes())
    assert len(found) == COPIES


def test_both_sides_of_a_comparison_get_the_same_copies():
    for leaves in ([FLOATS, ROW], [ROW]):
        one, two = Repeated(leaves), Repeated(leaves)
        for draw in (5, 6):
            same = zip(one.block(1, draw, tuple).calls[0], two.block(1, draw, tuple).calls[0], strict=True)
            assert all(np.array_equal(a, b) for a, b in same)


@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.float16, jnp.float32])
def test_no_copy_is_what_was_given_in_few_bits_either(kind):
    given = jnp.array(FLOATS, kind)
    assert not any(np.array_equal(copy, given) for (copy,) in other_numbers([given], COPIES))


def test_what_is_compiled_gets_other_integers_where_there_is_nothing_else():
    universe = np.zeros(32, np.uint8)
    universe[16] = 1
    rows = {Repeated([universe, 30]).block(1, draw, tuple).calls[0][0].tobytes() for draw in range(1, 30)}
    assert len(rows) == COPIES and universe.tobytes() not in rows
    (same,) = {Repeated([np.arange(5)]).block(1, draw, tuple).calls[0][0].tobytes() for draw in range(1, 9)}
    assert same == np.arange(5).tobytes(), "what has an order keeps it"


def test_a_process_draws_its_copies_itself():
    program = "import numpy as np; from autograder.measuring.worker import inputs; "
    program += "print([float(a[0]) for (a,) in inputs.other_numbers([np.ones(1)], 3)])"
    said = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(said) == 2


def test_large_inputs_have_two_copies():
    inputs = Repeated([np.ones(5_000_000, np.float32)])
    assert len({id(inputs.block(1, draw, tuple).calls[0][0]) for draw in range(1, 9)}) == 2


def test_where_there_is_no_array_each_copy_is_what_was_given():
    assert Repeated([3, True]).block(2, 1, tuple).calls == [(3, True), (3, True)]


def test_there_is_room_for_so_many_calls():
    assert Fresh([np.ones(10_000_000, np.float32)]).most_calls(100) == 6
    assert Fresh([np.ones(100_000_000, np.float32)]).most_calls(100) == 1
    assert Repeated([np.ones(10_000_000, np.float32)]).most_calls(100) == 100
