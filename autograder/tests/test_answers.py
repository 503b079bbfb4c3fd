"""Every check from all its sides: the untouched exercise earns nothing, the solution everything, and each named wrong
answer fails for its own reason.

One kernel serves a unit: it runs the exercise as it is released, then the solution, then the wrong answers, each in
place of the one before, as a learner's kernel does.
"""

from typing import NamedTuple

import pytest
from conftest import COURSE, UNITS, wrong_answers
from nbformat import NotebookNode

from autograder.doors.graded_notebook import Score, is_graded, nbgrader_metadata, not_begun, read_notebook, score
from autograder.doors.kernel_runner import Runner

pytestmark = pytest.mark.notebooks


class Answered(NamedTuple):
    """What the checks of one unit said."""

    untouched: dict[str, NotebookNode]  # each graded cell as it was executed
    solved: dict[str, Score]
    wrong: list[tuple[NotebookNode, str, Score]]  # wrong answer, the check that it fails, what that said


def is_answer(cell: NotebookNode) -> bool:
    return bool(nbgrader_metadata(cell).get("solution"))


def answer_every_way(unit: str) -> Answered:
    """Run all answers to a unit through its checks."""
    exercise = read_notebook(COURSE / "exercises" / unit / f"{unit[3:]}.ipynb")
    solution = read_notebook(COURSE / "solutions" / unit / f"{unit[3:]}.ipynb")
    cells = [cell for cell in solution.cells if cell.cell_type == "code"]
    checks = {cell.metadata.nbgrader.grade_id: cell for cell in cells if is_graded(cell)}
    answers = {cell.metadata.nbgrader.grade_id: cell for cell in cells if is_answer(cell)}
    first = next(i for i, cell in enumerate(cells) if is_answer(cell))
    with Runner(exercise, COURSE / "solutions" / unit) as runner:
        runner.run_all()
        untouched = {cell.metadata.nbgrader.grade_id: cell for cell in exercise.cells if is_graded(cell)}

        for cell in cells[first:]:  # what stands above has been run: a setup is made once
            if not is_graded(cell):
                runner.run_new(cell.source)
        solved = {name: score(runner.run_new(cell.source, cell.metadata)) for name, cell in checks.items()}

        wrong = []
        for answer in wrong_answers(unit):
            runner.run_new(answer.source)
            for name in answer.metadata["fails"]:
                check = checks[name]
                wrong.append((answer, name, score(runner.run_new(check.source, check.metadata))))
            runner.run_new(answers[answer.metadata["task"]].source)
    return Answered(untouched, solved, wrong)


@pytest.fixture(scope="module", params=[pytest.param(u, marks=pytest.mark.xdist_group(f"answers {u}")) for u in UNITS])
def answered(request):
    return answer_every_way(request.param)


def test_the_untouched_exercise_earns_nothing(answered):
    scores = {name: score(cell) for name, cell in answered.untouched.items()}
    assert {name: result.earned for name, result in scores.items()} == dict.fromkeys(scores, 0.0)
    begun = {name: scores[name].message for name, cell in answered.untouched.items() if not not_begun(cell)}
    assert not begun, "each should fail because its stub is not yet written, and say so"
    lines = {name: result.message for name, result in scores.items() if "\n" in result.message}
    assert not lines, "that is one line"


def test_the_solution_earns_every_point(answered):
    missed = [f"{name}: {result.message}" for name, result in answered.solved.items() if result.message]
    assert not missed, "\n\n".join(missed)
    assert answered.solved.keys() == answered.untouched.keys()


def test_each_named_wrong_answer_fails_with_the_message_meant_for_it(answered):
    unmeant = [
        f"{answer.metadata['name']!r} in {name}: {result.earned:g} points\n{result.message}"
        for answer, name, result in answered.wrong
        if result.earned or answer.metadata["message"] not in result.message
    ]
    assert answered.wrong and not unmeant, "\n\n".join(unmeant)


@pytest.mark.parametrize("unit", UNITS)
def test_each_task_has_a_wrong_answer(unit):
    solution = read_notebook(COURSE / "solutions" / unit / f"{unit[3:]}.ipynb")
    tasks = {cell.metadata.nbgrader.grade_id for cell in solution.cells if is_answer(cell)}
    assert {answer.metadata["task"] for answer in wrong_answers(unit)} == tasks
