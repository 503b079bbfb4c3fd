"""assert_allclose: structure, shapes, dtypes, values, and the words for each."""

from collections import OrderedDict, defaultdict
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder import assert_allclose
from autograder.checks.compare_trees import Match, Mismatch, compare, dtypes_agree, ulps_between
from autograder.failure import CheckFailed

N = np.linspace(0.1, 1, 40, dtype=np.float32).reshape(5, 8)  # what a table needs of JAX is made in its test
X = jnp.asarray(N)


def message(*args, **kwargs):
    with pytest.raises(CheckFailed) as caught:
        assert_allclose(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize(
    ("actual", "desired"),
    [
        (X, X),
        (X, np.asarray(X)),
        (X, np.asarray(X, np.float64)),
        (np.asarray(X, np.float64), X),
        (3, jnp.int32(3)),
        (jnp.float32(3), 3),
        (jnp.bfloat16(3), 3.0),
        (jnp.uint8(3), 3),
        (jnp.complex64(3), 3.0),
        (jnp.arange(3), np.arange(3)),
        (jnp.array(True), True),
        (jnp.asarray(2.0), jnp.float32(2)),
        (jnp.nan, np.float32("nan")),
        (jnp.array([jnp.inf, -jnp.inf]), np.array([np.inf, -np.inf])),
        (jnp.zeros(0), np.zeros(0)),
        ({"b": 1, "a": [X, "text"]}, {"a": [X, "text"], "b": 1}),
        (None, None),
        (np.array(["a", "b"]), np.array(["a", "b"])),
        (jax.random.key(3), jax.random.key(3)),
        (jnp.ones(2, jnp.int4), jnp.ones(2, jnp.int4)),
        (0.0, -0.0),
    ],
)
def test_what_agrees(actual, desired, capfd):
    assert_allclose(actual, desired)
    out, err = capfd.readouterr()
    assert out.startswith("✓ the result: ") and out.count("\n") == 1
    assert err == ""


def test_the_evidence_tells_how_close_the_values_are(capfd):
    assert_allclose(X, X, name="selu(x)")
    assert_allclose(X, X.at[2, 5].set(np.nextafter(X[2, 5], 9)), name="selu(x)")
    assert_allclose({"w": X, "b": X}, {"w": X, "b": X}, name="selu(x)")
    assert_allclose(X.at[0, 0].set(1e-9), X.at[0, 0].set(0), name="selu(x)")
    assert capfd.readouterr().out.splitlines() == [
        "✓ selu(x): float32[5,8] agrees, equal to the last bit",
        "✓ selu(x): float32[5,8] agrees, at most 1 ulp apart (rtol 1.2e-05)",
        "✓ selu(x): 2 leaves agree, equal to the last bit",
        "✓ selu(x): float32[5,8] agrees, within rtol 1.2e-05 and atol 9.5e-07",
    ]


def test_the_first_wrong_leaf_and_index_are_named():
    good = {"w": [X, X]}
    bad = {"w": [X, X.at[2, 5].add(1e-3).at[4, 4].add(1.0)]}
    assert message(bad, good, name="grads") == (
        "✗ grads: leaf ['w'][1] at index (2, 5): got 0.5856154, expected 0.5846154, 0.171 % off.\n"
        "  2 of 40 values differ\n"
        "  tolerance: rtol 1.2e-05, atol 9.5e-07\n"
        "  Why this usually happens: a formula, an index or a starting value differs from the specification.\n"
        "  Try: run both on the smallest input that still differs, and compare line by line."
    )


def test_whole_numbers_are_exact_and_have_no_tolerance():
    assert message(jnp.array([1, 2, 4]), jnp.array([1, 2, 3])) == (
        "✗ the result at index (2,): got 4, expected 3.\n"
        "  1 of 3 values differ\n"
        "  Why this usually happens: a formula, an index or a starting value differs from the specification.\n"
        "  Try: run both on the smallest input that still differs, and compare line by line."
    )
    assert "got True, expected False." in message(jnp.array(True), jnp.array(False))
    assert "got 16777217, expected 16777216." in message(jnp.int32(2**24 + 1), jnp.int32(2**24))


def test_text_is_exact():
    assert message({"op": "add"}, {"op": "mul"}) == (
        "✗ the result: leaf ['op']: got 'add', expected 'mul'.\n"
        "  Why this usually happens: a text or an object must be equal to the letter.\n"
        "  Try: compare the two, character by character."
    )


GENERAL = "a formula, an index or a starting value differs from the specification."
ORDER = "the values are right, but in another order."
REVERSED = "the values are right, but reversed along axis"
ROUNDING = "rounding: the same sum in another order ends in other last digits."
EPS = 2.0**-23


def put(values, index, value):
    """A copy with one value or row that is another."""
    changed = values.copy()
    changed[index] = value
    return changed


TEN = np.arange(1, 11, dtype=np.float32)
LIFE = np.array([[0, 1, 0, 1, 1], [1, 1, 0, 0, 1]])
CELLS = np.array([0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0])
OTHER_LIFE = np.array([[1, 1, 0, 1, 1], [0, 1, 0, 0, 1]])  # as many ones


@pytest.mark.parametrize(
    ("actual", "desired", "why"),
    [
        (2 * N, N, "the wrong values are 2 times the expected ones."),
        (-N, N, "the wrong values are -1 times the expected ones."),
        (N + 1, N, "the wrong values differ by one constant, 1."),
        (1000 + TEN, 999 + TEN, "the wrong values differ by one constant, 1."),
        (2 * np.ones(5, np.float32), np.ones(5, np.float32), GENERAL),  # a factor, a difference, and neither
        (N[::-1], N, f"{REVERSED} 0."),
        (N[:, ::-1], N, f"{REVERSED} 1."),
        (N[::-1, ::-1], N, ORDER),
        (put(N[::-1], (1, 1), 7), N, GENERAL),
        (CELLS[::-1], CELLS, f"{REVERSED} 0."),
        (np.stack([CELLS, CELLS])[:, ::-1], np.stack([CELLS, CELLS]), f"{REVERSED} 1."),
        (LIFE[:, ::-1], LIFE, GENERAL),  # four wrong values, each of them 0 or 1: this may be chance
        (np.arange(16) % 2, 1 - np.arange(16) % 2, GENERAL),  # reversed, shifted, and 1 - x
        (np.arange(16) // 8, 1 - np.arange(16) // 8, GENERAL),
        (N.T.reshape(5, 8), N, ORDER),
        (np.arange(20, dtype=np.float32)[::-1] ** 2, np.arange(20, dtype=np.float32) ** 2, f"{REVERSED} 0."),
        (np.array([30, 10, 70, 50]), np.array([10, 30, 50, 70]), ORDER),
        (OTHER_LIFE, LIFE, GENERAL),
        (OTHER_LIFE.astype(np.float32), LIFE.astype(np.float32), GENERAL),
        (np.arange(20)[::-1], np.arange(20), GENERAL),  # every ranking is a permutation of every other
        (np.float32([0.1, 0.9]), np.float32([0.9, 0.1]), GENERAL),
        (put(N, 1, 0), N, "the wrong values are all 0."),
        (put(N, (1, 1), 0), N, GENERAL),
        (put(N, (1, 1), np.nan), N, "0/0, inf - inf, or the logarithm or root of a negative number makes NaN."),
        (put(N, (1, 1), np.inf), N, "a number grew past the largest of its dtype, or was divided by 0."),
        (N, put(N, (1, 1), np.inf), GENERAL),
        (N * (1 + 900 * EPS * np.sin(50 * N)), N, ROUNDING),
        (N * (1 + 2000 * EPS * np.sin(50 * N)), N, GENERAL),
        (N * (1 + 0.006 * np.sin(50 * N)), N, GENERAL),
        (N.astype(np.float16).astype(np.float32), N, "every value is one that float16 has: it was calculated in"),
        (N.astype(jnp.bfloat16).astype(np.float32), N, "every value is one that bfloat16 has: it was calculated in"),
        ((1.03 * N).astype(jnp.bfloat16), N.astype(jnp.bfloat16), ROUNDING),
        ((1.1 * N * N).astype(jnp.bfloat16), N.astype(jnp.bfloat16), GENERAL),
        (N**2, N, GENERAL),
    ],
)
def test_the_pattern_of_the_error_is_recognised(actual, desired, why):
    assert f"  Why this usually happens: {why}" in message(jnp.asarray(actual), jnp.asarray(desired))


def test_a_loose_tolerance_of_the_task_makes_no_rounding():
    off = X * (1 + 0.006 * jnp.sin(50 * X))
    assert GENERAL in message(off, X, rtol=1e-3)


def test_nobody_is_told_of_a_write_that_nobody_saw():
    assert ".at[" not in message(jnp.zeros((5, 8)), X)


def test_a_task_may_say_itself_what_to_try():
    assert message(X**2, X, hint="count the rounds.").endswith(f"{GENERAL}\n  Try: count the rounds.")
    assert message(2 * X, X, hint="count the rounds.").endswith("a sum in place of a mean, or a changed sign.")


@pytest.mark.parametrize(
    ("got", "want", "distance"),
    [
        (1 + 1000 * EPS, 1.0, ", 1,000 ulps apart."),
        (1 + 1001 * EPS, 1.0, ", 0.0119 % off."),
        (5.0, 1.0, ", 400 % off."),
        (-1.0, 1.0, ", 200 % off."),
        (1e6, 1.0, ": got 1e+06, expected 1.0."),
        (1.0, 0.0, ": got 1.0, expected 0.0."),
    ],
)
def test_the_distance_is_told_in_the_unit_that_says_something(got, want, distance):
    line = message(np.float32(got), np.float32(want), rtol=0, atol=0).splitlines()[0]
    assert line.endswith(distance)


@pytest.mark.parametrize(
    ("got", "want", "why"),
    [
        ((5, 8), (8, 5), "the axes are in another order."),
        ((5,), (5, 1), "an axis of length 1 is missing."),
        ((1, 5), (5,), "there is an axis of length 1 too many."),
        ((40,), (5, 8), "the elements are laid out in another shape."),
        ((4, 8), (5, 8), "axis 0 is off by one."),
        ((5, 3), (5, 8), "axis 1 has another length."),
        ((), (8,), "a reduction without an axis makes one number of all, and so does a value that was never an array."),
        ((3, 8), (2, 3, 8), "an axis was summed or indexed away."),
        ((5, 8), (8,), "an axis was not reduced, or broadcasting made one."),
    ],
)
def test_a_wrong_shape_names_its_likely_cause(got, want, why):
    text = message(jnp.ones(got), jnp.ones(want))
    assert text.startswith(f"✗ the result has shape {got}, expected {want}.\n  Why this usually happens: {why}\n")


@pytest.mark.parametrize(
    ("actual", "desired", "line"),
    [
        (X > 0, X, "the result is bool[5,8], expected float32[5,8]."),
        (jnp.int32(3), 3.0, "the result is int32[], expected a Python float."),
        (X.astype(jnp.bfloat16), X, "the result is bfloat16[5,8], expected float32[5,8]."),
        (X.astype(jnp.bfloat16), np.ones((5, 8)), "the result is bfloat16[5,8], expected float64[5,8]."),
        ([True], [1], "the result: leaf [0] is a Python bool, expected a Python int."),
    ],
)
def test_a_dtype_that_somebody_chose_must_agree(actual, desired, line):
    text = message(actual, desired)
    assert text.startswith(f"✗ {line}\n  Why this usually happens: an operation changed the dtype")


def test_the_rule_for_dtypes_is_symmetric():
    leaves = [True, 1, 1.0, 1j, *(np.ones((), d) for d in (bool, np.int32, np.int64, np.float32, np.float64))]
    leaves += [jnp.bfloat16(1), jnp.float32(1), jnp.int32(1), jnp.array(True)]
    assert all(dtypes_agree(a, b) == dtypes_agree(b, a) for a in leaves for b in leaves)


def test_a_64_bit_jax_array_was_chosen():
    with jax.enable_x64(True):
        double = jnp.ones(3, jnp.float64)
    assert "the result is float64[3], expected float32[3]." in message(double, jnp.ones(3))


def test_containers_must_be_the_same():
    assert message({"w": [X, X]}, {"w": (X, X), "b": X}) == (
        "✗ the result has another structure than expected.\n"
        "  got       {'w': [*, *]}\n"
        "  expected  {'b': *, 'w': (*, *)}\n"
        "  missing   ['b']\n"
        "  Why this usually happens: a container has another type, length or key: [x, y] is not (x, y).\n"
        "  Try: build the same containers as the specification, in the same order."
    )
    text = message([1.0, 2.0], jnp.ones(2))
    assert "  got       [*, *]\n  expected  one float32[2]\n" in text
    shown = [message({"ab": [1.0] * leaves}, 1.0).splitlines()[1].removeprefix("  got       ") for leaves in (24, 25)]
    assert [len(text) for text in shown] == [80, 80] and [text[-3:] for text in shown] == ["*]}", "..."]
    assert text.endswith("Try: return one array. jnp.stack or jnp.concatenate joins several.")


class Pair(NamedTuple):
    w: object
    b: object


@pytest.mark.parametrize(
    ("actual", "desired"),
    [
        (Pair(X, 1.0), (X, 1.0)),
        ({"layer": [Pair(X, 1.0)]}, {"layer": [(X, 1.0)]}),
        (OrderedDict(w=X, b=1.0), {"b": 1.0, "w": X}),
        (defaultdict(int, w=Pair(1, 2)), {"w": (1, 2)}),
        (Pair(1, 2), Pair(1, 2)),
    ],
)
def test_what_derives_from_a_container_is_one(actual, desired):
    assert_allclose(actual, desired)


@pytest.mark.parametrize(
    ("actual", "desired"),
    [
        (Pair(X, 1.0), [X, 1.0]),
        (Pair(X, 1.0), (X, 1.0, 2.0)),
        ((X, 1.0), Pair(X, 1.0)),
        (OrderedDict(w=X), {"w": X, "b": 1.0}),
        (OrderedDict(w=X, b=1.0), {"w": X}),
        (OrderedDict(w=X), Pair(X, 1.0)),
    ],
)
def test_and_no_other(actual, desired):
    assert "has another structure than expected" in message(actual, desired)


def test_of_what_derives_from_a_container_each_value_counts():
    assert message(Pair(1, 3), (1, 2)).startswith("✗ the result: leaf [1]: got 3, expected 2.")


def test_a_forgotten_return_is_recognised():
    assert message(None, X, name="relu(x)") == (
        "✗ relu(x) is None, expected values.\n"
        "  Why this usually happens: a Python function without a return line returns None.\n"
        "  Try: end the function with return and the value."
    )


def test_a_function_is_not_its_value():
    assert message(jnp.sin, X).startswith("✗ the result is the function sin, expected values.\n")


def test_a_leaked_tracer_is_recognised():
    kept = []
    jax.jit(lambda x: (kept.append(x), x)[1])(1.0)
    text = message({"seen": kept[0]}, {"seen": 1.0})
    assert text.startswith(
        "✗ the result: leaf ['seen'] is a tracer of weak float32[], expected an array with values.\n"
    )
    assert "A list, a global or an attribute kept this one beyond its trace." in text


def test_a_donated_array_is_recognised():
    x = jnp.ones(3)
    x.delete()
    assert message(x, X).startswith("✗ the result is a deleted float32[3], expected an array with values.\n")


def test_one_tolerance_leaves_the_other():
    with pytest.raises(CheckFailed, match="rtol 0.01, atol 0.5"):
        assert_allclose(jnp.float32(2), 1.0, rtol=0.01, atol=0.5)
    with pytest.raises(CheckFailed, match="rtol 0.01, atol 9.5e-07"):
        assert_allclose(jnp.float32(2), 1.0, rtol=0.01)
    assert_allclose(jnp.float32(2), 1.0, rtol=1.0)
    assert "tolerance: rtol 0.01, atol 0\n" in message(jnp.float32(2), 1.0, rtol=0.01, atol=0)
    assert "1 ulp apart" in message(np.nextafter(np.float32(1), np.float32(2)), np.float32(1), rtol=0, atol=0)


def test_the_default_tolerance_forgives_rounding_and_nothing_more():
    # The same sums in two orders, and in double precision.
    x = np.sin(np.arange(200_000, dtype=np.float32)).reshape(100, 2000)
    assert isinstance(compare(jnp.sum(x, 1), x.astype(np.float64).sum(1)), Match)
    assert isinstance(compare(jnp.asarray(x) @ x.T, x.astype(np.float64) @ x.T), Match)
    assert isinstance(compare(jnp.sum(x[:, ::-1], 1), jnp.sum(x, 1)), Match)
    # One term in ten thousand forgotten.
    assert isinstance(compare(jnp.ones(10_000)[1:].sum(), 10_000.0), Mismatch)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, np.float64, jnp.float8_e4m3fn])
def test_ulps_count_the_numbers_between(dtype):
    one, eps = np.asarray(1, dtype), jnp.finfo(dtype).eps
    assert ulps_between(one, one, dtype) == 0
    assert ulps_between(one, np.asarray(1 + float(eps), dtype), dtype) == 1
    assert ulps_between(np.asarray(0, dtype), np.asarray(-0.0, dtype), dtype) == 0
    tiny = np.asarray(float(jnp.finfo(dtype).smallest_subnormal), dtype)
    assert ulps_between(tiny, -tiny, dtype) == 2
    assert ulps_between(np.asarray(-1, dtype), one, dtype) == 2 * ulps_between(np.asarray(0, dtype), one, dtype)


class Looks:
    """Looks like an array of one shape and dtype, and is another."""

    def __init__(self, shape, dtype, really):
        self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(dtype)
        self._really = really

    def __array__(self, dtype=None, copy=None):
        return self._really


class Lies(np.ndarray):
    shape = property(lambda self: (4,))  # type: ignore[assignment]
    dtype = property(lambda self: np.dtype("int32"))  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("actual", "kind"),
    [
        (Looks((4,), np.int32, np.zeros((0, 4), np.int32)), "shape"),
        (Looks((4,), np.int32, np.zeros(4, np.float32)), "dtype"),
        (Looks((4,), np.int32, np.zeros(4, np.int32)), "value"),
        (np.zeros((0, 4), np.int32).view(Lies), "shape"),
        (np.zeros(4, np.float32).view(Lies), "dtype"),
        (np.array(["a", "b", "c", "d"]), "value"),
    ],
)
def test_what_looks_like_an_array_is_compared_as_the_array_that_it_is(actual, kind):
    assert compare(actual, jnp.arange(4)).kind == kind
    assert compare(Looks((4,), np.int32, np.arange(4, dtype=np.int32)), jnp.arange(4)).leaves == 1


def test_an_object_does_not_decide_itself_what_it_equals():
    class Word(str):
        def __eq__(self, other):
            return True

        __hash__ = None

    assert compare(Word("w"), "mul").kind == "value"
    assert compare(np.array([Word("w")], object), np.array(["mul"], object)).kind == "value"
    assert compare(np.array(["mul"], object), np.array(["mul"], object)).leaves == 1
    assert compare(np.array(["mul"]), np.array(["mul"])).leaves == 1
    assert compare(np.zeros((0, 1), "U3"), np.array(["mul"])).kind == "value"
