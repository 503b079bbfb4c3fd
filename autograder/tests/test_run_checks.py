"""The checks of a learner's notebook: a line for each task, the first message, and points that are remembered."""

import io
import os

import pytest
from _tiny_room import ANSWERS, NAME, UNIT, edit, make_course
from rich.console import Console

from autograder.doors.cell_messages import code_cells
from autograder.doors.graded_notebook import is_graded, read_notebook
from autograder.doors.kernel_runner import Runner
from autograder.doors.learner_record import read_record
from autograder.workbench import run_checks
from autograder.workbench.bad_input import BadInput
from autograder.workbench.outline import read_units
from autograder.workbench.room import open_room
from autograder.workbench.run_checks import print_checks

pytestmark = pytest.mark.once  # the same on every version

EXERCISE = f"exercises/{UNIT}/{NAME}.ipynb"


@pytest.fixture
def room(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    open_room(make_course(tmp_path), read_units(tmp_path))
    return tmp_path / "work"


@pytest.fixture
def unit(room):
    return read_units(room.parent)[1]


def check(unit, room, tasks=None):
    console = Console(file=io.StringIO(), width=80)
    complete = print_checks(console, unit, room / EXERCISE, tasks or unit.tasks, 60)
    return complete, console.file.getvalue()


def points(room):
    return {name: (entry.earned, entry.possible) for name, entry in read_record(room).points[UNIT].items()}


def test_each_task_has_a_line_and_the_first_failure_its_message(unit, room):
    edit(room / EXERCISE, square="def square(x):\n    return 2 * x", square_check="pass")
    before = (room / EXERCISE).read_bytes()
    complete, out = check(unit, room)
    lines = out.splitlines()
    assert not complete
    assert lines[0] == "01 · Powers"
    assert lines[1] == "✗ 1  The square     0/2  AssertionError: 6 is not 9"
    assert lines[2] == "· 2  The others     0/3  not begun"
    assert "Task 1, The square:" in lines and "AssertionError: 6 is not 9" in out
    assert lines[-1] == "0 of 5 points."
    assert points(room) == {"square-check": (0, 2), "cube-check": (0, 2), "root-check": (0, 1)}
    assert (room / EXERCISE).read_bytes() == before


def test_of_a_task_alone_only_its_checks_are_run(unit, room):
    edit(room / EXERCISE, **ANSWERS)
    complete, out = check(unit, room, unit.tasks[:1])
    assert complete and out.splitlines()[-1] == "2 of 2 points." and "Task 1" not in out
    assert points(room) == {"square-check": (2, 2)}
    complete, out = check(unit, room, unit.tasks[1:])
    assert not complete and "2.5 of 3 points." in out and "0.5 of 1 points" in out
    assert points(room)["root-check"] == (0.5, 1)


def test_an_answer_that_grading_would_leave_out_is_left_out_here(unit, room):
    edit(room / EXERCISE, square="def square(x):\n    return eval('x * x')")
    complete, out = check(unit, room, unit.tasks[:1])
    assert not complete and points(room) == {"square-check": (0, 2)}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("def square(x):\n    return (x * x", "SyntaxError: '(' was never closed (line 2)."),
        ("def square(x):\n    return eval('x * x')", "this cell was left out: line 2 uses eval;"),
    ],
)
def test_a_check_whose_answer_was_not_run_says_what_to_mend_first(unit, room, answer, why):
    edit(room / EXERCISE, square=answer)
    _, out = check(unit, room, unit.tasks[:1])
    (line,) = [line for line in out.splitlines() if line.startswith("square is missing")]
    assert f"in its own cell, square: {why}" in line and line.endswith(" Mend that first.")
    assert "have not been run" not in out


def test_a_notebook_that_cannot_be_read_says_how_to_begin_anew(unit, room):
    (room / EXERCISE).write_text("{")
    with pytest.raises(BadInput, match="is no JSON.*`course reset 1` begins it anew"):
        check(unit, room)


def test_the_kernel_is_ended_before_python_ends(unit, room, monkeypatch):
    ended = []

    def checked():
        try:
            for task in unit.tasks:
                yield run_checks.Checked(task, 0, False, "")
        finally:
            ended.append(True)

    held = checked()  # as a traceback holds it
    monkeypatch.setattr(run_checks, "run_checks", lambda *_: held)
    check(unit, room)
    assert ended == [True]


# --- points from a notebook -----------------------------------------------------------------------------------------


@pytest.fixture
def run_in_notebook(room, monkeypatch):
    """Runs cells as JupyterLab does, in a kernel of their own."""

    def run(*names, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        notebook = read_notebook(room / EXERCISE)
        places = {cell.id: i for i, cell in enumerate(notebook.cells)}
        with Runner(notebook, (room / EXERCISE).parent) as runner:
            return [runner.run(places[name]) for name in names]

    return run


ALL = ("setup", "square", "square-check", "cube", "cube-check", "root", "root-check")


def test_a_check_in_a_notebook_notes_its_points(room, run_in_notebook):
    edit(room / EXERCISE, square=ANSWERS["square"], root=ANSWERS["root"])
    *_, last = run_in_notebook(*ALL)
    assert last.outputs[0].data["text/plain"] == "0.5"
    assert points(room) == {"square-check": (2, 2), "cube-check": (0, 2), "root-check": (0.5, 1)}
    # What was noted is no less true when cells above have not been run since the kernel started.
    _, missing = run_in_notebook("setup", "square-check")
    assert missing.outputs[0].ename == "CellsNotRun" and points(room)["square-check"] == (2, 2)


def test_under_nbgrader_and_outside_of_a_room_nothing_is_noted(room, run_in_notebook, monkeypatch):
    edit(room / EXERCISE, **ANSWERS)
    run_in_notebook(*ALL, NBGRADER_EXECUTION="validate")
    assert read_record(room).points == {}
    assert not [name for name in os.listdir(room.parent) if name.startswith(".course")]


def test_a_check_is_known_by_its_name(room):
    cells = code_cells(room / EXERCISE)
    graded = [cell.metadata.nbgrader["grade_id"] for cell in read_notebook(room / EXERCISE).cells if is_graded(cell)]
    assert [cell.name for cell in cells if cell.graded] == graded
