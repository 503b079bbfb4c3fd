"""The capstone's promise: a crime that is left in alone costs its own line of the score card, and no other."""

import pytest
from conftest import COURSE, wrong_answers

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, read_notebook, score
from autograder.doors.kernel_runner import Runner

UNIT = "16_slow_lab"


@pytest.mark.once
@pytest.mark.notebooks
def test_each_crime_left_in_alone_costs_exactly_its_own_line():
    notebook = read_notebook(COURSE / "solutions" / UNIT / f"{UNIT[3:]}.ipynb")
    checks = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if is_graded(c)}
    answers = {c.metadata.nbgrader.grade_id: c.source for c in notebook.cells if nbgrader_metadata(c).get("solution")}
    crimes = [c for c in wrong_answers(UNIT) if c.metadata["name"][:2].isdigit()]
    assert sorted(crime.metadata["name"][:2] for crime in crimes) == [f"{unit:02}" for unit in range(1, 14)]

    costs = {}
    with Runner(notebook, COURSE / "solutions" / UNIT) as runner:
        for index, cell in enumerate(list(notebook.cells)):
            if cell.cell_type == "code" and not is_graded(cell) and nbgrader_metadata(cell):
                runner.run(index)
        for crime in crimes:
            for task, answer in answers.items():  # all of them: a day keeps its trace when what it calls is replaced
                runner.run_new(crime.source if task == crime.metadata["task"] else answer)
            scores = {name: score(runner.run_new(check.source, check.metadata)) for name, check in checks.items()}
            lost = [name for name, result in scores.items() if result.earned < result.possible]
            costs[crime.metadata["name"]] = lost
    assert costs == {crime.metadata["name"]: crime.metadata["fails"] for crime in crimes}
