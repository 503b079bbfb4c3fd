"""What a cell is there for, as nbgrader's metadata say, and what its lines define."""

import re

from nbformat import NotebookNode


def nbgrader_metadata(cell: NotebookNode) -> dict:
    """The cell's nbgrader metadata, empty for an ordinary cell."""
    entry = cell.metadata.get("nbgrader")
    return entry if isinstance(entry, dict) else {}


def name_of(cell: NotebookNode) -> str | None:
    """The name by which nbgrader knows this cell, its grade_id; None for an ordinary cell."""
    grade_id = nbgrader_metadata(cell).get("grade_id")
    return grade_id if isinstance(grade_id, str) else None


def is_graded(cell: NotebookNode) -> bool:
    """Whether nbgrader gives points for this code cell."""
    return cell.cell_type == "code" and bool(nbgrader_metadata(cell).get("grade"))


def is_locked(cell: NotebookNode) -> bool:
    """Whether a released cell is to stay as it is."""
    return bool(nbgrader_metadata(cell).get("locked"))


def is_to_fill_in(cell: NotebookNode) -> bool:
    """Whether a released cell is for an answer."""
    return bool(nbgrader_metadata(cell).get("solution")) and not is_locked(cell)


_BINDS = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=[^=]", re.MULTILINE)


def bound_in(cell: NotebookNode) -> set[str]:
    """The names that a cell defines, as far as its lines show that; it may be no Python."""
    return {name for found in _BINDS.findall(cell.source) for name in found if name}
