"""assert_equal, both sides, by the text of its messages."""

import copy
import dataclasses
from collections import Counter, defaultdict, deque
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from autograder import assert_equal
from autograder.failure import CheckFailed


def message(*args, **kwargs):
    with pytest.raises(CheckFailed) as error:
        assert_equal(*args, **kwargs)
    return str(error.value)


def test_right_answers_print_one_line(capfd):
    assert_equal({"f(1)": 2, "f(2)": 4.0000000001}, {"f(1)": 2, "f(2)": 4}, name="f")
    assert_equal({"f('a')": "a "}, {"f('a')": "a"}, name="f")
    assert capfd.readouterr() == ("✓ f is right in all 2 cases\n✓ f is right: f('a')\n", "")


def test_a_wrong_case_shows_what_was_returned_and_expected():
    assert message({"f(1)": 2, "f(2)": 3}, {"f(1)": 2, "f(2)": 4}, name="f", hints={"f(2)": "Twice."}) == (
        "✗ f is wrong in 1 of 2 cases: f(2).\n  f(2): returned 3, expected 4. Twice."
    )
    assert message({"a": 1}, {"a": 2}, name="f", hint="draw it.").endswith("expected 2\n  Try: draw it.")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([1, 2], [1, 2, 3]),
        ([1, 2, 3], [1, 2]),
        ([], [1]),
        ([[1], [2, 3]], [[1], [2]]),
        (np.arange(3), [0, 1]),
        (1.00001, 1),
        (100.2, 100),
        (10**10 - 1, 10**10),
        (float(10**10 - 1), 10**10),
        ([2**40], [2**40 + 1]),
        (Fraction(7, 2), 4),
        (-1, 1),
        (True, 1),
        ("a", "A"),
        ("", None),
    ],
)
def test_what_is_not_equal(returned, expected):
    assert message({"f": returned}, {"f": expected}, name="f").startswith("✗ f is wrong: f.\n  f: returned ")


@pytest.mark.parametrize(
    ("returned", "expected", "line"),
    [
        (3.0, 3.99999999988, "returned 3.0, expected 4.0"),
        (1 / 3, 0.5, "returned 0.333333, expected 0.5"),
        (1.0000021, 1.0, "returned 1.0000021, expected 1.0"),
        ([0.1 + 0.2, 1], [0.5, 1], "returned [0.3, 1], expected [0.5, 1]"),
        (12345678, 13345679, "returned 12345678, expected 13345679"),
    ],
)
def test_numbers_are_shown_to_the_digits_that_matter(returned, expected, line):
    assert line in message({"f": returned}, {"f": expected}, name="f")


def test_a_missing_case_and_another_kind():
    text = message({"b": 1}, {"a": 2, "b": True}, name="f")
    assert "✗ f is wrong in 2 of 2 cases: a, b.\n  a: missing, expected 2\n" in text
    assert "  b: returned 1, expected True (True or False)" in text


def test_one_case_is_not_counted():
    text = message({"f(1)": None}, {"f(1)": 3}, name="f")
    assert text == "✗ f is wrong: f(1).\n  f(1): returned None, expected 3 (a number)"


@pytest.mark.parametrize(("returned", "said"), [(None, "None"), ([1], "a list")])
def test_no_dict(returned, said):
    text = message(returned, {"a": 1, "b": 2}, name="f")
    assert text.startswith(f"✗ f returns {said}, expected a dict with the keys a, b.\n")


class _Yes:
    """Says yes to every comparison, and calls itself a truth value."""

    __class__ = property(lambda self: bool)  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other):
        return True


def _yes(base, value):
    """A value of a class of one's own, derived from a type of Python's."""
    table = {name: lambda self, *of: True for name in ("__eq__", "__ge__", "__le__", "__contains__")}
    strip = {"strip": lambda self, *of: self, "tolist": lambda self: self, "__len__": lambda self: 2}
    return type("Yes", (base,), {**table, **strip, "__hash__": base.__hash__, "__ne__": lambda self, other: False})(
        value
    )


class _YesWithAHash(_Yes):
    def __hash__(self):
        return 1


class _YesTwice(_YesWithAHash):
    """Says that it is a list, which says that it is a text."""

    def __init__(self, *said):
        self.said = said

    def tolist(self):
        return _YesTwice(*self.said[1:]) if len(self.said) > 1 else self.said[0]

    def strip(self):
        return self


@dataclasses.dataclass
class _Part:
    n: object


def _fraction_of(part):
    whole = Fraction(1)
    whole._numerator = whole._denominator = part  # type: ignore[attr-defined]
    return whole


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (_fraction_of(_YesWithAHash()), 7),
        (_fraction_of(_YesWithAHash()), Fraction(1, 2)),
        (slice(_Yes(), _Yes()), slice(1, 2)),
        (deque([_Yes()]), deque([1])),
        (Counter({"a": _Yes()}), Counter("a")),
        (SimpleNamespace(n=_Yes()), SimpleNamespace(n=1)),
        (_Part(_Yes()), _Part(1)),
        ({_YesWithAHash()}, {1}),
        ({_YesWithAHash(): 2}, {1: 2}),
        (_yes(int, 0), 7),
        (_yes(float, 0.0), 7),
        (_yes(complex, 0), 7j),
        (_yes(str, "w"), "mul"),
        (_yes(list, [0, 0]), [3, 4]),
        (_yes(tuple, (0, 0)), [3, 4]),
        ([_yes(int, 0), 4], [3, 4]),
        (_Yes(), True),
        (_Yes(), {"a": 1}),
        ({"a": _Yes()}, {"a": 1}),
        (_yes(Counter, "b"), {"a": 1}),
        (Counter("aa"), {"a": 1}),
        (_Yes(), {1, 2}),
        (_Yes(), b"1"),
        (_YesTwice("a text"), "mul"),
        (_YesTwice(_YesTwice("a text")), "mul"),
        (_YesTwice(_YesTwice([0])), [3]),
        (_YesTwice(7.5), 7),
    ],
    ids=lambda value: type(value).__name__,  # its own text holds an address, another one in each process
)
def test_a_value_does_not_decide_itself_what_it_equals(returned, expected):
    assert message({"f": returned}, {"f": expected}, name="f").startswith("✗ f is wrong: f.\n  f: returned ")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (_yes(int, 7), 7),
        (_yes(float, 7.0), 7),
        (_yes(str, "mul"), "mul"),
        (_yes(list, [3, 4]), [3, 4]),
        (np.float64(0.5), 0.5),
        (np.str_("mul"), "mul"),
        (Fraction(7, 2), 3.5),
        ({"a": np.int32(1), "b": (1, 2)}, {"a": 1, "b": [1, 2]}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, a=[1]), {"a": [1]}),
        (frozenset({1, np.int32(2)}), {1, 2}),
        (np.dtype("int8"), np.dtype("int8")),
    ],
)
def test_what_a_value_is_underneath_counts(returned, expected):
    assert_equal({"f": returned}, {"f": expected}, name="f")


@pytest.mark.parametrize(
    "value",
    [
        Fraction(1, 2),
        slice(1, 2),
        deque([1, "a"]),
        Counter("aab"),
        SimpleNamespace(n=[1]),
        _Part((1, 2)),
        {1, 2.5},
        {(1, "a")},
        {True: 1, None: 2},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_the_same_parts_is_equal(value):
    assert_equal({"f": copy.deepcopy(value)}, {"f": value}, name="f")


def test_numbers_are_keys_whatever_their_type():
    assert_equal({"f": {1.0, 2}, "g": {1.0: "a"}}, {"f": {1, 2}, "g": {1: "a"}}, name="f")
