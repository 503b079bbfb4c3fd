"""Numbers, counters and types as words: one writer of each for the whole package."""

import decimal
import fractions
import math
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder.wording import array_type, count, is_number, printable, repeated, tally


def test_count():
    texts = [count(0, "trace"), count(1, "trace"), count(2, "trace"), count(1200, "equation")]
    assert texts == ["0 traces", "1 trace", "2 traces", "1,200 equations"]


def test_a_students_text_moves_no_cursor():
    assert printable("# \x1b]0;title\x07\x1b[31mGr\u00fc\u00dfe\u2028\n") == "#  ]0;title  [31mGr\u00fc\u00dfe  "


def test_tally_names_the_most_frequent_first():
    counter = Counter(add=1, mul=3, sub=2)
    assert tally(counter) == "mul 3, sub 2, add 1"
    assert tally(counter, most=2) == "mul 3, sub 2, ..."
    assert not tally(counter, most=len(counter)).endswith("...")
    assert tally(Counter()) == "nothing"
    assert tally(Counter("abcdefghijklm")).count(",") == 12  # of twelve names and the dots


def test_equal_texts_are_on_one_line():
    assert repeated(["b", "a", "b"]) == "b (2 times)\na"
    assert repeated("abcde") == repeated("abcdef", most=4) == "a\nb\nc\nd\n..."
    assert repeated("abcd") == "a\nb\nc\nd"
    assert repeated([]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (jnp.ones((3, 4)), "float32[3,4]"),
        (jnp.bfloat16(1), "bfloat16[]"),
        (np.arange(3), "int64[3]"),
        (jax.typeof(jnp.ones(2, bool)), "bool[2]"),
        (jax.random.key(0), "key<fry>[]"),
    ],
)
def test_a_type_is_written_as_jax_writes_it(value, text):
    assert array_type(value.dtype, value.shape) == text
    if isinstance(value, jax.Array):
        assert str(jax.typeof(value)) == text


@pytest.mark.parametrize("value", [0, -1, 2.5, np.float64(1), np.int32(3), np.float32(0.5), fractions.Fraction(1, 3)])
def test_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize(
    "value",
    [True, np.bool_(True), math.nan, math.inf, -math.inf, 1j, "1", None, np.ones(1), jnp.ones(()), decimal.Decimal(1)],
)
def test_what_is_no_number(value):
    assert not is_number(value)
