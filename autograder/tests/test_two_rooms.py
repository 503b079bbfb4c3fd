"""A submission is run in two rooms: a judged check asks the box, and whoever has taken over the box wins nothing."""

import pytest
from _tiny_unit import ALL, ANSWERS, LAZY, ONLY_F, as_solved, handed_in

from autograder.doors.box.rules import Rules, why_not
from autograder.doors.fair_run import run_fairly
from autograder.doors.graded_notebook import failure_text, is_graded, score
from autograder.doors.guard.cells import Guard
from autograder.doors.hidden_tests import hidden_output_dropped
from autograder.doors.judge.two_rooms import TwoRooms
from autograder.doors.run_submission import in_line

pytestmark = [
    pytest.mark.once,
    pytest.mark.xdist_group("two rooms"),
    pytest.mark.skipif(bool(why_not()), reason=f"not here, because {why_not()}"),
]
BOTH = ("f-check", "g-check")


def graded(tmp_path, answers=ANSWERS, judged=BOTH, above="", guarded=False, seconds=20, released=None):
    """The tiny unit (or another one) with these answers, run; `above` stands at the top of the answer to f."""
    released = released or as_solved()
    notebook = handed_in(answers)
    for cell in notebook.cells:
        if cell.id == "f" and above:
            cell.source = above + "\n\n" + cell.source
    _, course = in_line(notebook, released, handed_in({}))
    guard = Guard(notebook, course) if guarded else None
    with (
        hidden_output_dropped(notebook),
        TwoRooms(notebook, tmp_path, seconds, Rules(), guard, judged, course) as runner,
    ):
        run_fairly(runner, 100)
    return notebook


def points(notebook):
    return sum(score(cell).earned for cell in notebook.cells if is_graded(cell))


def said(notebook, name):
    return next(failure_text(cell) for cell in notebook.cells if cell.id == name)


@pytest.mark.parametrize("guarded", [True, False])
def test_right_answers_earn_everything_and_wrong_ones_nothing(tmp_path, guarded):
    assert points(graded(tmp_path, guarded=guarded)) == ALL
    assert points(graded(tmp_path, LAZY, guarded=guarded)) == 0
    half = graded(tmp_path, ANSWERS | {"g": "def g(x):\n    return 8"}, guarded=guarded)
    assert points(half) == ONLY_F and "check(g(3), 27)" in said(half, "g-check")


def test_one_check_is_judged_and_the_other_observed(tmp_path):
    assert points(graded(tmp_path, judged=("g-check",))) == ALL
    assert points(graded(tmp_path, LAZY, judged=("g-check",))) == 0
