"""Both sides of every check: an untouched exercise earns nothing, a named wrong answer fails for its own reason.

That the solutions earn every point is what `pytest solutions` proves.
"""

import pytest
from conftest import COURSE, UNITS, wrong_answers

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, not_begun, read_notebook, score
from autograder.doors.kernel_runner import Runner


@pytest.mark.once
@pytest.mark.parametrize("unit", UNITS)
def test_the_untouched_exercise_earns_nothing(unit):
    notebook = read_notebook(COURSE / "exercises" / unit / f"{unit[3:]}.ipynb")
    with Runner(notebook, COURSE / "exercises" / unit) as runner:
        runner.run_all()
    graded = {cell.metadata.nbgrader["grade_id"]: cell for cell in notebook.cells if is_graded(cell)}
    scores = {name: score(cell) for name, cell in graded.items()}
    assert {name: result.earned for name, result in scores.items()} == dict.fromkeys(scores, 0.0)
    begun = {name: scores[name].message for name in scores if not not_begun(graded[name])}
    assert not begun, "each should fail because its stub is not yet written, and say so"
    lines = {name: result.message for name, result in scores.items() if "\n" in result.message}
    assert not lines, "that is one line"


@pytest.mark.parametrize("unit", UNITS)
def test_each_named_wrong_answer_fails_with_the_message_meant_for_it(unit):
    notebook = read_notebook(COURSE / "solutions" / unit / f"{unit[3:]}.ipynb")
    cells = {nbgrader_metadata(cell).get("grade_id"): cell for cell in notebook.cells}
    tasks = {name for name, cell in cells.items() if nbgrader_metadata(cell).get("solution")}
    answers = wrong_answers(unit)
    assert {cell.metadata["task"] for cell in answers} == tasks, "each task has a wrong answer"

    unmeant = []
    with Runner(notebook, COURSE / "solutions" / unit) as runner:
        for index, cell in enumerate(list(notebook.cells)):
            if cell.cell_type == "code" and not is_graded(cell):
                runner.run(index)
        for wrong in answers:
            runner.run_new(wrong.source)
            for name in wrong.metadata["fails"]:
                result = score(runner.run_new(cells[name].source, cells[name].metadata))
                if result.earned or wrong.metadata["message"] not in result.message:
                    unmeant.append(f"{wrong.metadata['name']!r} in {name}: {result.earned:g} points\n{result.message}")
            runner.run_new(cells[wrong.metadata["task"]].source)
    assert not unmeant, "\n\n".join(unmeant)
