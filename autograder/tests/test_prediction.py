"""assert_prediction and show_guess: what a learner thinks beside what was measured."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import run_cell

from autograder import assert_prediction, show_guess
from autograder.failure import CheckFailed
from autograder.not_begun import STUB, NotBegun

MEASURED = {"float": 2, "again": 1, "type": "weak float32[]", "hit": True, "ratio": 4.75, "shape": (3, 4)}


def predicted(value, **names):
    """A function of a notebook that returns this value."""
    return run_cell(f"def predict():\n    return {value!r}", nan=math.nan, array=np.array, **names)["predict"]


def message(value, measured=MEASURED, **kwargs):
    with pytest.raises(CheckFailed) as caught:
        assert_prediction(predicted(value), measured, **kwargs)
    return str(caught.value)


def test_right_predictions_pass_with_their_names(capfd):
    assert_prediction(predicted(MEASURED), MEASURED)
    assert capfd.readouterr() == ("✓ all 6 predictions are right: float, again, type, hit, ratio, shape\n", "")
    assert_prediction(predicted({"n": 1}), {"n": 1})
    assert capfd.readouterr().out == "✓ the prediction is right: n\n"


@pytest.mark.parametrize(
    ("said", "true"),
    [
        (2.0, 2),
        (1, 1.0),
        (1, jnp.float32(1)),
        (True, np.bool_(True)),
        (0.3333333, 1 / 3),
        (math.nan, math.nan),
        (None, None),
        (1 + 2j, np.complex64(1 + 2j)),
        ([3, 4], (3, 4)),
        ((3, 4), np.array([3, 4])),
        (np.array([3, 4]), (3, 4)),
        (" weak  Float32[]", "weak float32[]"),
        ("float32[16, 64@i]", "float32[16,64@i]"),
        (["None", 4], ["none", 4]),
    ],
)
def test_what_means_the_same_is_right(said, true):
    assert_prediction(predicted({"n": said}), {"n": true})


@pytest.mark.parametrize(
    ("said", "true"),
    [
        (1, True),
        (True, 1),
        (0, False),
        (1.01, 1),
        (1.00001, 1),
        (math.nan, 0),
        ("1", 1),
        ("memory", "arithmetic"),
        ("float32[16]", "float32[1,6]"),
        ([3], (3, 4)),
        ([3, 4, 5], (3, 4)),
        ([3, 4], 3),
        ([True], [1]),
        ({3, 4}, [3, 4]),
    ],
)
def test_what_does_not_mean_the_same_is_wrong(said, true):
    assert message({"n": said}, {"n": true}).startswith("✗ The prediction is wrong: n.\n")


def test_wrong_predictions_are_named_with_their_hints():
    text = message(MEASURED | {"again": 7, "ratio": 9.5}, hints={"again": "The cache outlives the call."})
    assert text == (
        "✗ 2 of 6 predictions are wrong: again, ratio.\n"
        "  again: you said 7. The cache outlives the call.\n"
        "  ratio: you said 9.5\n"
        "  Why this usually happens: the rule in your head differs from the rule JAX follows. Finding out which one "
        "is the exercise.\n"
        "  Try: run the case 'again' yourself, one step at a time, before you change the number."
    )


def test_no_message_shows_a_measured_value():
    measured = {"a": 4711, "b": "secret", "c": None, "d": 0.123, "e": [4712, 4713]}
    for text in (
        message(dict.fromkeys(measured, 0), measured, hints={"a": "Count again."}),
        message(dict.fromkeys(measured, "text"), measured),
        message({}, measured),
        message(None, measured),
    ):
        assert not any(value in text for value in ("4711", "secret", "0.123", "4712", "4713"))
        assert "c: you said" not in text or "None" not in text


def test_another_kind_of_answer_is_pointed_out():
    text = message(MEASURED | {"hit": 1, "float": "2", "type": 3, "shape": {3, 4}})
    assert "  hit: you said 1, which is an int where True or False is asked for\n" in text
    assert "  float: you said '2', which is a str where a number is asked for\n" in text
    assert "  type: you said 3, which is an int where a string is asked for\n" in text
    assert "  shape: you said {3, 4}, which is a set where a list is asked for\n" in text


def test_missing_open_and_unknown_names_are_told_apart():
    said = {key: MEASURED[key] for key in ("float", "type", "hit", "shape")} | {"ratio": None, "agian": 1}
    assert message(said) == (
        "✗ The predictions are incomplete: again, ratio, agian.\n"
        "  again: no prediction\n"
        "  ratio: still None\n"
        "  agian: nothing of this name was measured\n"
        "  Why this usually happens: a name is misspelt, or a line of the dict has not been filled in.\n"
        "  Try: use exactly these names: float, again, type, hit, ratio, shape."
    )


def test_a_name_that_was_not_measured_is_refused_beside_right_ones():
    assert "agian: nothing of this name was measured" in message(MEASURED | {"agian": 1})


@pytest.mark.parametrize(("value", "called"), [(None, "None"), (3, "an int"), ([1], "a list")])
def test_predictions_that_are_no_dict_are_refused(value, called):
    assert message(value).startswith(f"✗ The predictions are {called}, expected a dict of name and value.\n")


# --- made, not measured ---------------------------------------------------------------------------------------------


def test_arguments_come_in_their_order_or_by_their_names():
    law = run_cell("def law(old, new):\n    return {'n': old - new}")["law"]
    assert_prediction(law, {"n": 7}, args=(10, 3))
    assert_prediction(law, {"n": 7}, args={"new": 3, "old": 10})


def test_nothing_is_measured_before_the_prediction_is_made():
    happened = []

    def measure():
        happened.append("measured")
        return {"n": 1}

    with pytest.raises(CheckFailed):
        assert_prediction(run_cell("def f():\n    return {'n': 1 / 0}")["f"], measure)
    assert not happened
    assert_prediction(predicted({"n": 1}), measure)
    assert happened == ["measured"]


def test_a_prediction_that_measures_is_refused():
    names = run_cell("def count(x):\n    return jnp.sum(x)", jax=jax, jnp=jnp)
    run_cell("def oracle():\n    return {'n': count(3)}", names)
    with pytest.raises(CheckFailed) as caught:
        assert_prediction(names["oracle"], {"n": 3})
    assert str(caught.value) == (
        "✗ oracle uses count, which does not exist where it is run.\n"
        "  line 2 of its cell: return {'n': count(3)}\n"
        "  Why this usually happens: a prediction is made before anything is measured: its function is run in plain "
        "Python, where neither JAX nor this notebook exists.\n"
        "  Try: work it out on paper, and write numbers and formulas. If count is a helper of your own, put it into "
        "the same cell."
    )


def test_a_prediction_that_is_not_begun_says_so():
    stub = run_cell(f'def oracle():\n    raise NotImplementedError("{STUB}")')["oracle"]
    with pytest.raises(NotBegun, match="oracle is not begun"):
        assert_prediction(stub, {"n": 3})


@pytest.mark.parametrize("value", [{"n": 1}, None, 3])
def test_a_value_in_the_place_of_the_function_is_refused(value):
    with pytest.raises(CheckFailed, match="where a function is asked for"):
        assert_prediction(value, {"n": 1})


# --- guesses of the lessons -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "measured", "unit", "line"),
    [
        (10, 4.8, "x", "you said 10x, measured 4.8x: too high by a factor of 2.1."),
        (2, 4.8, "x", "you said 2x, measured 4.8x: too low by a factor of 2.4."),
        (4, 4.8, "x", "you said 4x, measured 4.8x: a little low."),
        (5, 4.8, "x", "you said 5x, measured 4.8x: close, within 10 %."),
        (3, 3, "traces", "you said 3 traces, measured 3 traces: exactly."),
        (1500, 12.5, "ms", "you said 1,500 ms, measured 12.5 ms: too high by a factor of 120."),
        (1000, 1000.5, "ms", "you said 1,000 ms, measured 1,000 ms: close, within 10 %."),
        (0.5, 1, "", "you said 0.5, measured 1: too low by a factor of 2."),
        (11, 10, "", "you said 11, measured 10: a little high."),
        (0, 3, "", "you said 0, measured 3: not the same."),
        (-1, 3, "", "you said -1, measured 3: the sign is other than you thought."),
        ("int32[]", "float32[]", "", "you said int32[], measured float32[]: not the same."),
        (1.0, 1, "", "you said 1, measured 1: exactly."),
        (1.0, "1.0", "", "you said 1, measured 1.0: exactly."),
        ("1", "1.0", "", "you said 1, measured 1.0: exactly."),
        (2, "1.0", "", "you said 2, measured 1.0: too high by a factor of 2."),
        ("NaN", "nan", "", "you said NaN, measured nan: exactly."),
        ("Float32[2, 3]", "float32[2,3]", "", "you said Float32[2, 3], measured float32[2,3]: exactly."),
        ([2, 3], (2, 3), "", "you said [2, 3], measured (2, 3): exactly."),
        ([2], (2, 3), "", "you said [2], measured (2, 3): not the same."),
        (True, 1, "", "you said True, measured 1: not the same."),
        (1, True, "", "you said 1, measured True: not the same."),
        (True, np.True_, "", "you said True, measured True: exactly."),
        (None, 4.8, "x", "Measured 4.8x. Type your guess above, then run both cells again."),
    ],
)
def test_a_guess_is_set_against_the_measurement(guess, measured, unit, line):
    shown = show_guess(guess, measured, unit)
    assert str(shown) == line
    assert line in shown._repr_html_()


def test_where_nobody_can_type_no_guess_is_asked_for(monkeypatch):
    monkeypatch.setenv("COURSE_ON_A_PAGE", "1")
    assert str(show_guess(None, 67.6, "x")) == "Measured 67.6x"
    assert str(show_guess(50, 67.6, "x")) == "you said 50x, measured 67.6x: a little low."
