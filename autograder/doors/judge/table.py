"""Which graded cells are judged: what `benchmarks/rooms.py` has found out, and nothing that is decided while grading.

A cell stands in the table with a digest of its text. One whose text is another, or that is not there, is observed: it
is run beside the answers, in the box. Whoever has units of their own can have a table of their own, too.
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
def judged_by(table: Path = TABLE) -> frozenset[tuple[str, str]]:
    """The cells that a table has judged: the name of each, and the digest of its text.

    Raises ValueError, in one line, for a file that is no such table or cannot be read.
    """
    try:
        with table.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            return frozenset((row["check"], row["text"]) for row in rows if row["how"] != "observed")
    except OSError as error:
        raise ValueError(f"{table} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error, KeyError):
        raise ValueError(f"{table} is no table with the columns {', '.join(FIELDS)}.") from None


def judged_in(notebook: NotebookNode, more: frozenset[tuple[str, str]] = frozenset()) -> frozenset[str]:
    """The names of those graded cells of a notebook that are judged; it holds the hidden tests.

    Arguments:
      more: further cells, as `judged_by` gives them.
    """
    named = [(nbgrader_metadata(cell)["grade_id"], digest(cell.source)) for cell in notebook.cells if is_graded(cell)]
    return frozenset(name for name, text in named if (name, text) in judged_by() | more)
