"""assert_prediction and show_guess: what a learner thinks beside what was measured."""

import jax.numpy as jnp
import numpy as np
import pytest

from autograder import assert_prediction, show_guess
from autograder.failure import CheckFailed

MEASURED = {"float": 2, "again": 1, "type": "weak float32[]", "hit": True, "ratio": 4.75, "shape": (3, 4)}


def message(predicted, measured=MEASURED, **kwargs):
    with pytest.raises(CheckFailed) as caught:
        assert_prediction(predicted, measured, **kwargs)
    return str(caught.value)


def test_right_predictions_pass_with_their_names(capfd):
    assert_prediction(dict(MEASURED), MEASURED)
    assert capfd.readouterr() == ("✓ all 6 predictions are right: float, again, type, hit, ratio, shape\n", "")
    assert_prediction({"n": 1}, {"n": 1})
    assert capfd.readouterr().out == "✓ the prediction is right: n\n"


def test_what_means_the_same_is_right():
    said = {"float": 2.0, "again": np.int64(1), "type": " weak float32[] ", "hit": np.bool_(True)}
    assert_prediction(said | {"ratio": jnp.float32(4.75), "shape": [3, 4]}, MEASURED)
    assert_prediction({"nothing": None}, {"nothing": None})


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
    assert message({"n": 2}, {"n": 1}).startswith("✗ The prediction is wrong: n.\n")


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
    text = message(MEASURED | {"hit": 1, "float": "2", "type": 3, "shape": 3})
    assert "  hit: you said 1, which is an int where True or False is asked for\n" in text
    assert "  float: you said '2', which is a str where a number is asked for\n" in text
    assert "  type: you said 3, which is an int where a string is asked for\n" in text
    assert "  shape: you said 3, which is an int where a list is asked for\n" in text


def test_missing_open_and_unknown_names_are_told_apart():
    predicted = {key: MEASURED[key] for key in ("float", "type", "hit", "shape")} | {"ratio": None, "agian": 1}
    assert message(predicted) == (
        "✗ The predictions are incomplete: again, ratio, agian.\n"
        "  again: no prediction\n"
        "  ratio: still None\n"
        "  agian: nothing of this name was measured\n"
        "  Why this usually happens: a name is misspelt, or a line of the dict has not been filled in.\n"
        "  Try: use exactly these names: float, again, type, hit, ratio, shape."
    )


@pytest.mark.parametrize(("value", "called"), [(None, "None"), (3, "an int"), ([1], "a list")])
def test_predictions_that_are_no_dict_are_refused(value, called):
    assert message(value).startswith(f"✗ The predictions are {called}, expected a dict of name and value.\n")


@pytest.mark.parametrize(
    ("guess", "measured", "unit", "line"),
    [
        (10, 4.8, "x", "you said 10x, measured 4.8x: too high by a factor of 2.1."),
        (2, 4.8, "x", "you said 2x, measured 4.8x: too low by a factor of 2.4."),
        (4, 4.8, "x", "you said 4x, measured 4.8x: a little low."),
        (5, 4.8, "x", "you said 5x, measured 4.8x: close, within 10 %."),
        (3, 3, "traces", "you said 3 traces, measured 3 traces: exactly."),
        (1500, 12.5, "ms", "you said 1,500 ms, measured 12.5 ms: too high by a factor of 120."),
        (0, 3, "", "you said 0, measured 3: not the same."),
        (-1, 3, "", "you said -1, measured 3: the sign is other than you thought."),
        ("int32[]", "float32[]", "", "you said int32[], measured float32[]: not the same."),
        (None, 4.8, "x", "measured 4.8x. Type your guess above, and run the cell again."),
    ],
)
def test_a_guess_is_set_against_the_measurement(guess, measured, unit, line):
    shown = show_guess(guess, measured, unit)
    assert str(shown) == line
    assert line in shown._repr_html_()
