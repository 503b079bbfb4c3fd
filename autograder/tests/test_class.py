"""A class of fake students goes through nbgrader, and each of them through the other two doors as well.

submitted/ -> autograde -> generate_feedback -> export, by nbgrader's own commands, with the course's nbgrader_config.py
as it is. Two units serve: what the answers to the others earn is in test_answers.py, cell by cell and in the same
order, and that each unit comes into the gradebook with all its points is seen here.
"""

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import COURSE, UNITS, wrong_answers
from nbgrader.api import Gradebook

from autograder.doors.box.rules import why_not
from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, read_notebook, score
from autograder.doors.kernel_runner import Runner

pytestmark = [pytest.mark.once, pytest.mark.notebooks, pytest.mark.xdist_group("class")]  # one classroom serves all

TAKEN = [
    "13_many_devices",
    "05_the_cache",
]  # quick ones: all students take the first, one the other


class Unit:
    """One unit's answers and points, by task and by check."""

    def __init__(self, name):
        self.name, self.notebook_name = name, name[3:]
        cells = read_notebook(COURSE / "solutions" / name / f"{name[3:]}.ipynb").cells
        self.answers, self.checks, task = {}, {}, None
        for cell in cells:
            grade_id = nbgrader_metadata(cell).get("grade_id")
            if nbgrader_metadata(cell).get("solution"):
                task = grade_id
                self.answers[task] = cell.source
            elif is_graded(cell):
                self.checks[grade_id] = cell.metadata.nbgrader["points"]
        self.points = sum(self.checks.values())
        self.wrong = wrong_answers(name)[0]

    def checks_of(self, tasks):
        """The checks whose id begins with one of these tasks' ids."""
        return {c: p for c, p in self.checks.items() if any(c.startswith(f"{task}-") for task in tasks)}

    def released(self):
        return read_notebook(COURSE / "exercises" / self.name / f"{self.notebook_name}.ipynb")

    def filled(self, answers):
        """The released notebook with these answers in it."""
        notebook = self.released()
        for cell in notebook.cells:
            grade_id = nbgrader_metadata(cell).get("grade_id")
            if grade_id in answers and nbgrader_metadata(cell).get("solution"):
                cell.source = answers[grade_id]
        return notebook


# Each fake student: a notebook, and the checks in which it earns every point. All other checks earn nothing.


def perfect(unit):
    return unit.filled(unit.answers), set(unit.checks)


def untouched(unit):
    return unit.released(), set()


def half(unit):
    tasks = list(unit.answers)[: len(unit.answers) // 2]
    return unit.filled({task: unit.answers[task] for task in tasks}), set(unit.checks_of(tasks))


def misled(unit):
    """Everything right but for one named misconception."""
    wrong = unit.wrong
    notebook = unit.filled(unit.answers | {wrong.metadata["task"]: wrong.source})
    return notebook, set(unit.checks) - set(wrong.metadata["fails"])


def untidy(unit):
    """Copies an answer's cell, keeps an old answer in the upper one, and deletes the test of an unsolved task."""
    first, *others = unit.answers
    solved = {task: unit.answers[task] for task in (first, *others[:-1])}
    notebook = unit.filled(solved)
    place = next(i for i, cell in enumerate(notebook.cells) if cell.id == first)
    copy = nbformat.from_dict({**notebook.cells[place], "id": "pasted", "source": "# my first try\nold = None"})
    notebook.cells.insert(place, copy)
    failing = set(unit.checks_of([others[-1]]))
    notebook.cells = [cell for cell in notebook.cells if cell.id not in failing]
    return notebook, set(unit.checks) - failing


def broken(unit):
    """A file that is no notebook, halfway through the class's alphabet."""
    return None, set()


STUDENTS = [half, broken, misled, perfect, untidy, untouched]


def students_of(unit):
    return STUDENTS if unit.name == TAKEN[0] else [misled]


def points_of(student, unit):
    """What nbgrader exports: nothing for those who do not take the unit."""
    return sum(unit.checks[c] for c in student(unit)[1]) if student in students_of(unit) else 0


@pytest.fixture(scope="module")
def units():
    return {name: Unit(name) for name in TAKEN}


@pytest.fixture(scope="module")
def nbgrader(keeps_programs):
    """A function: what an nbgrader command prints in a folder."""
    clean = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "JUPYTER_PLATFORM_DIRS": "1"}

    def nbgrader(root, *args):
        command = [sys.executable, "-m", "nbgrader", *args]
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, env=clean | keeps_programs, timeout=3000
        )
        return done.stdout + done.stderr

    return nbgrader


BOX = ["--RunNotebook.box=False"] if why_not() else []  # where there can be none, the class is graded without


@pytest.fixture(scope="module")
def classroom(tmp_path_factory, units, nbgrader):
    """The course's folder after the whole flow; what nbgrader printed while it autograded."""
    root = tmp_path_factory.mktemp("classroom")
    shutil.copy(COURSE / "nbgrader_config.py", root)
    shutil.copytree(COURSE / "solutions", root / "solutions")
    shutil.copytree(COURSE / "exercises", root / "exercises")
    for unit in units.values():
        for student in students_of(unit):
            folder = root / "submitted" / student.__name__ / unit.name
            folder.mkdir(parents=True)
            notebook, _ = student(unit)
            path = folder / f"{unit.notebook_name}.ipynb"
            if notebook is None:
                path.write_text('{"cells": [')
            else:
                nbformat.write(notebook, path)
    printed = nbgrader(root, "autograde", "*", *BOX)
    nbgrader(root, "generate_feedback", "*")
    nbgrader(root, "export")
    return root, printed


@pytest.fixture(params=TAKEN, ids=lambda name: f"class-{name[:2]}")  # `-k 05_the_cache` asks for no class
def unit(request, units):
    return units[request.param]


def test_every_score_in_the_gradebook(classroom, unit):
    root, _ = classroom
    expected, found = {}, {}
    with Gradebook(f"sqlite:///{root}/gradebook.db") as gradebook:
        for student in students_of(unit):
            _, earned = student(unit)
            submission = gradebook.find_submission_notebook(unit.notebook_name, unit.name, student.__name__)
            for grade in submission.grades:
                key = (student.__name__, grade.name)
                found[key] = (grade.auto_score, grade.max_score, grade.needs_manual_grade)
                points = unit.checks[grade.name]
                expected[key] = (points if grade.name in earned else 0, points, False)
    assert found == expected
    assert len(found) == len(students_of(unit)) * len(unit.checks)


def test_export_holds_every_students_points(classroom, units):
    root, _ = classroom
    with open(root / "grades.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {(r["assignment"], r["student_id"]): (float(r["score"]), float(r["max_score"])) for r in rows}
    expected = {
        (unit.name, student.__name__): (points_of(student, unit), unit.points)
        for unit in units.values()
        for student in STUDENTS
    }
    assert found == expected


def test_a_broken_file_is_one_line_and_the_class_goes_on(classroom, units):
    root, printed = classroom
    unit = units[TAKEN[0]]
    lines = [line for line in printed.splitlines() if f"broken/{unit.name}/" in line and "ERROR" in line]
    assert len(lines) == 1
    assert "this is no notebook, because it is no JSON" in lines[0]
    graded = read_notebook(root / "autograded" / "broken" / unit.name / f"{unit.notebook_name}.ipynb")
    assert "this is no notebook" in graded.metadata["not_graded"]
    assert "Traceback" not in printed


def test_autograde_speaks_only_of_those_whose_cells_it_put_back(classroom, units):
    _, printed = classroom
    printed, table = printed.split("These submissions did not run to their end:\n")
    lines = [line for line in printed.splitlines()[:-1] if "WARNING" in line or "ERROR" in line]
    loud = {(parts[1], parts[2]) for line in lines if (parts := line.split("submitted")[-1].split("/"))[3:]}
    assert loud == {(student.__name__, name) for name in TAKEN[:1] for student in (broken, untidy)}
    assert len(lines) == len(loud)
    points = sum(units[TAKEN[0]].checks.values())
    (row,) = [line.split(maxsplit=5) for line in table.splitlines() if "broken" in line]
    assert row[:2] == ["broken", TAKEN[0]] and " ".join(row[2:5]) == f"{points} of {points}"
    assert "this is no notebook" in row[5] and not any(student.__name__ in table for student in (perfect, untidy))


def test_a_wrong_unit_name_and_a_missing_notebook_are_one_line_each(classroom, nbgrader):
    root, _ = classroom
    printed = nbgrader(root, "autograde", "05_cache", *BOX)
    assert "No notebooks were matched by" in printed and "Did you mean:" in printed
    assert "Traceback" not in printed
    (root / "submitted" / "nothing" / UNITS[0]).mkdir(parents=True)
    printed = nbgrader(root, "autograde", UNITS[0], "--student", "nothing", *BOX)
    assert f"No notebooks were matched by '{root}/submitted/nothing/{UNITS[0]}/*.ipynb'" in printed
    assert "Traceback" not in printed


def feedback(root, student, unit):
    return (root / "feedback" / student.__name__ / unit.name / f"{unit.notebook_name}.html").read_text()


def hidden_lines(unit):
    source = (COURSE / "solutions" / unit.name / f"{unit.notebook_name}.py").read_text()
    regions = re.findall(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", source, re.DOTALL)
    visible = re.sub(r"### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS", "", source, flags=re.DOTALL)
    lines = {line.strip() for region in regions for line in region.splitlines()}
    return {line for line in lines if len(line) > 12 and line not in visible}


def plain(html):
    """The text of a page, as a reader sees it."""
    from html import unescape

    return unescape(re.sub(r"<[^>]+>", "", html))


def test_feedback_shows_no_hidden_test(classroom, unit):
    root, _ = classroom
    secrets = hidden_lines(unit)
    assert len(secrets) > 5
    squeezed = {re.sub(r"\s", "", line) for line in secrets}
    for student in students_of(unit):
        page = re.sub(r"\s", "", plain(feedback(root, student, unit)))
        assert "HIDDENTESTS" not in page
        assert not [line for line in squeezed if line in page], student.__name__


def test_feedback_shows_the_points_and_the_message_meant_for_the_mistake(classroom, unit):
    root, _ = classroom
    total = sum(unit.checks[c] for c in misled(unit)[1])
    page = plain(feedback(root, misled, unit))
    assert f"(Score: {float(total)} / {float(unit.points)})" in page
    assert unit.wrong.metadata["message"] in page
    if perfect in students_of(unit):
        assert f"(Score: {float(unit.points)} / {float(unit.points)})" in plain(feedback(root, perfect, unit))


def test_feedback_on_a_file_that_is_no_notebook_says_that_it_was_not_graded(classroom, units):
    root, _ = classroom
    assert "Not graded." in plain(feedback(root, broken, units[TAKEN[0]]))


def points_in_jupyterlab(notebook, folder):
    """What the check cells show when the learner runs the notebook from top to bottom."""
    with Runner(notebook, folder) as runner:
        runner.run_all()
    # The copy of a cell is graded once: nbgrader's rule is that the last one counts.
    last = {cell.metadata.nbgrader["grade_id"]: cell for cell in notebook.cells if is_graded(cell)}
    return sum(score(cell).earned for cell in last.values())


@pytest.mark.thorough
def test_the_three_doors_give_the_same_points(classroom, units, keeps_programs, monkeypatch):
    root, _ = classroom
    for name, value in keeps_programs.items():
        monkeypatch.setenv(name, value)
    small, large = (units[name] for name in TAKEN)
    pairs = [(broken, small), (untidy, small), (misled, large)]
    folders = [f"submitted/{student.__name__}/{unit.name}" for student, unit in pairs]
    settings = ["[pytest]", "autograder_notebooks = submitted", "addopts = --continue-on-collection-errors"]
    (root / "pytest.ini").write_text("\n".join(settings))
    printed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders],
        cwd=root,
        capture_output=True,
        text=True,
    ).stdout
    table = dict(re.findall(r"^submitted/(\S+) +\d+ of \d+ +([\d.]+) of \d+$", printed, re.MULTILINE))
    with Gradebook(f"sqlite:///{root}/gradebook.db") as gradebook:
        for student, unit in pairs:
            name = f"{student.__name__}/{unit.name}"
            by_nbgrader = gradebook.find_submission(unit.name, student.__name__).score
            notebook, _ = student(unit)
            if notebook is None:
                assert by_nbgrader == 0 and name not in table
                continue
            by_hand = points_in_jupyterlab(notebook, Path(root, "submitted", name))
            assert (by_hand, float(table[name])) == (by_nbgrader, by_nbgrader), name
