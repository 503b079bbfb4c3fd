"""Which graded cells are judged: what `benchmarks/rooms.py` has found out, and nothing that is decided while grading.

A cell stands in the table with a digest of its text. One whose text is another, or that is not there, is observed: it
is run beside the answers, in the box.
"""

import csv
import functools
import hashlib
from pathlib import Path

from nbformat import NotebookNode

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata

TABLE = Path(__file__).parent / "rooms.csv"
# artefact: a program of the answer's crosses, and is judged; counted: traces and modules are counted in the box, or the
# box says what stopped a trace, and all else is judged; observed: the check runs in the box.
HOW = ("outside", "artefact", "counted", "observed")
FIELDS = ("unit", "check", "points", "how", "text")


def digest(source: str) -> str:
    """How a cell's text is known in the table."""
    return hashlib.sha256(source.strip().encode()).hexdigest()[:16]


@functools.cache
def _judged() -> frozenset[tuple[str, str]]:
    if not TABLE.exists():
        return frozenset()
    with TABLE.open(newline="") as file:
        return frozenset((row["check"], row["text"]) for row in csv.DictReader(file) if row["how"] != "observed")


def judged_in(notebook: NotebookNode) -> frozenset[str]:
    """The names of those graded cells of a notebook that are judged; it holds the hidden tests."""
    named = [(nbgrader_metadata(cell)["grade_id"], digest(cell.source)) for cell in notebook.cells if is_graded(cell)]
    return frozenset(name for name, text in named if (name, text) in _judged())
