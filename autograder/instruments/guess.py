"""A learner's guess beside the measurement."""

import html
import math
import os
from typing import Any

from autograder.wording import is_number

NOBODY_TYPES = "COURSE_ON_A_PAGE"  # set where a lesson is run to be read: the web edition does (web/conf.py)


class Guess:
    """One line that sets a guess against a measurement. Display it as a cell's last expression."""

    def __init__(self, guess: Any, measured: Any, unit: str = ""):
        self.guess, self.measured, self.unit = guess, measured, unit

    def __str__(self) -> str:
        if self.guess is None:
            asks = "" if NOBODY_TYPES in os.environ else ". Type your guess above, then run both cells again."
            return f"Measured {self._value(self.measured)}{asks}"
        verdict = _verdict(self.guess, self.measured)
        return f"you said {self._value(self.guess)}, measured {self._value(self.measured)}: {verdict}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p><strong>{html.escape(str(self))}</strong></p>"

    def _value(self, value: Any) -> str:
        # A unit that is a word stands apart (3 traces), a sign does not (4.8x, 12%).
        text = f"{value:,.3g}" if is_number(value) and abs(value) < 1000 else _written(value)
        return text + (f" {self.unit}" if len(self.unit) > 1 else self.unit)


def show_guess(guess: Any, measured: Any, unit: str = "") -> Guess:
    """The learner's `guess` against the `measured` value, as one line: how close, or how far off.

    guess     a number, a string, or None while nothing has been typed.
    measured  what was measured: a number or a string, in the same unit.
    unit      follows both values: "x", "ms", "traces". Nothing is converted.

    Returns a `Guess`, which is shown when it is the last expression of a cell; `str()` is the line. Wrong guesses cost
    nothing and raise nothing.
    """
    return Guess(guess, measured, unit)


def _verdict(guess: Any, measured: Any) -> str:
    guess, measured = _meant(guess), _meant(measured)
    if guess == measured and isinstance(guess, bool) == isinstance(measured, bool):
        return "exactly."
    if not (is_number(guess) and is_number(measured)):
        return "not the same."
    if guess * measured <= 0:
        return "the sign is other than you thought." if guess * measured < 0 else "not the same."
    factor = max(abs(guess / measured), abs(measured / guess))
    side = "high" if abs(guess) > abs(measured) else "low"
    if factor < 1.1:
        return "close, within 10 %."
    if factor < 2:
        return f"a little {side}."
    return f"too {side} by a factor of {_written(float(f'{factor:.2g}'))}."


def _meant(value: Any) -> Any:
    """What is compared: a number also where it is written as text, a text whatever its blanks and capitals."""
    if hasattr(value, "tolist"):  # of NumPy or JAX
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_meant(item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    return number if math.isfinite(number) else "".join(value.split()).casefold()


def _written(value: Any) -> str:
    if is_number(value):
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
    return str(value)
