"""A unit of two tasks without JAX, so that a submission takes no longer than its kernel needs to start."""

import csv
from pathlib import Path

import nbformat
from conftest import COURSE, graded, locked, solution
from nbformat import NotebookNode

from autograder.doors.graded_notebook import is_graded
from autograder.doors.judge.table import FIELDS, digest

UNIT, NAME = "00_powers", "powers"
_CELLS = [
    ("def check(value, expected):\n    assert value == expected", locked("setup")),
    ("def f(x):\n    ### BEGIN SOLUTION\n    return x**2\n    ### END SOLUTION", solution("f")),
    ("check(f(2), 4)\n### BEGIN HIDDEN TESTS\ncheck(f(3), 9)\n### END HIDDEN TESTS", graded("f-check", 2)),
    ("def g(x):\n    ### BEGIN SOLUTION\n    return x**3\n    ### END SOLUTION", solution("g")),
    (
        "expected = 8\ncheck(g(2), expected)\n### BEGIN HIDDEN TESTS\ncheck(g(3), 27)\n### END HIDDEN TESTS",
        graded("g-check", 3),
    ),
]
ANSWERS = {"f": "def f(x):\n    return x * x", "g": "def g(x):\n    return x * x * x"}
LAZY = {"f": "def f(x):\n    pass", "g": "def g(x):\n    pass"}
ONLY_F, ONLY_G, ALL = 2.0, 3.0, 5.0


def as_solved() -> NotebookNode:
    """The instructor's notebook."""
    notebook = nbformat.v4.new_notebook()
    for source, entry in _CELLS:
        notebook.cells.append(nbformat.v4.new_code_cell(source, id=entry["grade_id"], metadata={"nbgrader": entry}))
    return notebook


def handed_in(answers: dict[str, str] = ANSWERS) -> NotebookNode:
    """The exercise with these answers in it."""
    notebook = as_solved()
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source.split("\n### BEGIN HIDDEN")[0])
    return notebook


def make_course(folder: Path, units: tuple[str, ...] = (UNIT,), judged: bool = False) -> None:
    """A course of nothing but this unit, under each of these names, with this course's configuration of nbgrader.

    judged: whether both checks run in the judge, as nearly all of this course do.
    """
    for place in ("solutions", "exercises"):
        for unit in units:
            (folder / place / unit).mkdir(parents=True)
            nbformat.write(as_solved(), folder / place / unit / f"{NAME}.ipynb")
    settings = (COURSE / "nbgrader_config.py").read_text()
    if judged:
        checks = [cell for cell in as_solved().cells if is_graded(cell)]
        rows = [(UNIT, cell.id, cell.metadata.nbgrader.points, "outside", digest(cell.source)) for cell in checks]
        with (folder / "rooms.csv").open("w", newline="") as file:
            csv.writer(file).writerows([FIELDS, *rows])
        settings += '\nget_config().RunNotebook.rooms = "rooms.csv"\n'
    (folder / "nbgrader_config.py").write_text(settings)
