"""Does a function return what its specification says? Plain values, case by case."""

from collections.abc import Mapping
from typing import Any

from autograder.failure import fail, passed

from .plain_values import KINDS, a, kind, listed, means_the_same


def assert_equal(
    returned: Mapping[str, Any],
    expected: Mapping[str, Any],
    *,
    name: str,
    hints: Mapping[str, str] | None = None,
    hint: str | None = None,
) -> None:
    """Check what a function returned, by name of the case, against what was expected.

    returned  a dict of case and value, as the student's function made it. Values are plain: numbers, strings,
              booleans, None, lists of these, or NumPy and JAX arrays of numbers, which count as lists. For arrays with
              rounding there is `assert_allclose`. Cases that nobody asked for are passed over.
    expected  a dict of case and value: what is right.
    name      the function's, for the messages.
    hints     a dict of case and the sentence that is shown when this case is wrong.
    hint      one thing to try, whichever case is wrong.

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
            evidence[case] = f"{case}: missing, expected {_shown(value)}"
        elif not means_the_same(returned[case], value):
            evidence[case] = (
                f"{case}: returned {_shown(returned[case], value)}, expected {_shown(value, returned[case])}"
            )
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
        attempt=hint or "",
    )


def _shown(value: Any, other: Any = None) -> str:
    """A value as Python writes it, a number to six digits, or to as many as tell it from `other`."""
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if type(value) is not float:
        return repr(value)
    alike = type(other) is float and f"{other:.6g}" == f"{value:.6g}"
    return repr(value) if alike else repr(float(f"{value:.6g}"))
