"""Were the learner's predictions right? Says which are not, never what the right value is."""

from collections.abc import Callable, Mapping
from typing import Any

from autograder.failure import fail, passed

from .plain_values import KINDS, a, kind, listed, means_the_same
from .run_alone import call_alone


def assert_prediction(
    predict: Callable[..., Any],
    measure: Callable[[], Mapping[str, Any]] | Mapping[str, Any],
    *,
    args: tuple | Mapping[str, Any] = (),
    hints: Mapping[str, str] | None = None,
) -> None:
    """Check that every measured name was predicted, and with the measured value.

    predict  the learner's function. It is called first, by `run_alone`: where neither JAX nor this notebook exists, so
             that nothing can be measured. It returns a dict of name and value. Values are plain: numbers, strings,
             booleans, None, lists of these, or NumPy arrays of numbers, which count as lists.
    measure  a function without arguments that measures, once the prediction is made: a dict of the same names and what
             is true of each. Or that dict, where nothing has to be measured.
    args     what `predict` is called with: a tuple of plain values, or a dict of the names of its arguments.
    hints    a dict of name and the sentence that is shown when its prediction is wrong.

    Counts agree exactly, other real numbers to one part in a million, strings whatever their blanks and capitals, a
    list with a tuple. `True` is not 1: a yes-or-no question wants a yes or a no. A predicted None counts as not filled
    in, unless None is what was measured.

    Prints one line when all are right, and returns nothing. Raises `CheckFailed` when a name is missing, unknown or
    wrong, when `predict` returns no dict, and as `run_alone` does. No message shows a measured value.
    """
    hints = hints or {}
    positions, keywords = ((), args) if isinstance(args, Mapping) else (args, {})
    predicted = call_alone(
        predict,
        positions,
        keywords,
        why="a prediction is made before anything is measured: its function is run in plain Python, where neither JAX "
        "nor this notebook exists.",
        attempt="work it out on paper, and write numbers and formulas.",
    )
    measured = measure() if callable(measure) else measure
    if not isinstance(predicted, Mapping):
        fail(
            f"The predictions are {a(predicted)}, expected a dict of name and value.",
            evidence=f"names: {listed(measured)}",
            why="the function returns something else than its dict, or nothing at all.",
            attempt="return one dict with an entry for each of these names.",
        )

    missing = [name for name in measured if name not in predicted]
    unknown = [name for name in predicted if name not in measured]
    open_ = [n for n in measured if n in predicted and predicted[n] is None and measured[n] is not None]
    answered = [name for name in measured if name in predicted and name not in open_]
    wrong = [name for name in answered if not means_the_same(predicted[name], measured[name], as_read=True)]
    if not (missing or unknown or open_ or wrong):
        which = "the prediction is" if len(measured) == 1 else f"all {len(measured)} predictions are"
        passed(f"{which} right: {listed(measured)}")
        return

    evidence = [f"{name}: no prediction" for name in missing]
    evidence += [f"{name}: still None" for name in open_]
    evidence += [f"{name}: nothing of this name was measured" for name in unknown]
    for name in wrong:
        said = f"{name}: you said {predicted[name]!r}"
        if kind(predicted[name]) != kind(measured[name]):
            said += f", which is {a(predicted[name])} where {KINDS[kind(measured[name])]} is asked for"
        evidence.append(f"{said}. {hints[name]}" if name in hints else said)

    if wrong:
        are = "is" if len(wrong) == 1 else "are"
        which = "The prediction" if len(measured) == 1 else f"{len(wrong)} of {len(measured)} predictions"
        happened = f"{which} {are} wrong: {listed(wrong)}."
        why = "the rule in your head differs from the rule JAX follows. Finding out which one is the exercise."
        attempt = f"run the case {wrong[0]!r} yourself, one step at a time, before you change the number."
    else:
        happened = f"The predictions are incomplete: {listed(missing + open_ + unknown)}."
        why = "a name is misspelt, or a line of the dict has not been filled in."
        attempt = f"use exactly these names: {listed(measured)}."
    fail(happened, evidence="\n".join(evidence), why=why, attempt=attempt)
