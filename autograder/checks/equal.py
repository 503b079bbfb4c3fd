"""Does a function return what its specification says? Plain values, case by case."""

from collections.abc import Mapping
from typing import Any

from autograder.failure import fail, passed

from .plain_values import KINDS, a, kind, listed, means_the_same


def assert_equal(
    returned: Mapping[str, Any], expected: Mapping[str, Any], *, name: str, hints: Mapping[str, str] | None = None
) -> None:
    """Check what a function returned, by name of the case, against what was expected.

    returned  a dict of case and value, as the student's function made it. Values are plain: numbers, strings,
              booleans, None, lists of these, or NumPy and JAX arrays of numbers, which count as lists. For arrays with
              rounding there is `assert_allclose`. Cases that nobody asked for are passed over.
    expected  a dict of case and value: what is right.
    name      the function's, for the messages.
    hints     a dict of case and the sentence that is shown when this case is wrong.

    Values are compared as by `assert_prediction`, strings with their blanks and capitals. Prints one line when all are
    right, and returns nothing. Raises `CheckFailed` when a case is missing or wrong, or when `returned` is no dict.
    Unlike for a prediction, the expected value is shown.
    """
    hints = hints or {}
    if not isinstance(returned, Mapping):
        fail(
            f"{name} returns {a(returned)}, expected a dict with the keys {listed(expected)}.",
            why="a return is missing, or something else stands behind it.",
            attempt="build the dict that the docstring describes, and return it.",
        )
    evidence = {}
    for case, value in expected.items():
        if case not in returned:
            evidence[case] = f"{case}: missing, expected {value!r}"
        elif not means_the_same(returned[case], value):
            evidence[case] = f"{case}: returned {returned[case]!r}, expected {value!r}"
            if kind(returned[case]) != kind(value) and value is not None:
                evidence[case] += f" ({KINDS[kind(value)]})"
        else:
            continue
        if case in hints:
            evidence[case] += f". {hints[case]}"
    if not evidence:
        passed(
            f"{name} is right" + (f" in all {len(expected)} cases" if len(expected) > 1 else f": {listed(expected)}")
        )
        return
    how_often = f" in {len(evidence)} of {len(expected)} cases" if len(expected) > 1 else ""
    fail(
        f"{name} is wrong{how_often}: {listed(evidence)}.",
        evidence="\n".join(evidence.values()),
        why="the function does something else than its specification, often in one kind of case only.",
        attempt=f"take the case {next(iter(evidence))!r} alone, and follow your function through it step by step.",
    )
