"""A unit as nbgrader grades it, and its entry in the gradebook: both are made from the solution."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import (
    ClearHiddenTests,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
    SaveCells,
)
from traitlets.config import LoggingConfigurable

from .folder_lock import alone_in
from .graded_notebook import nbgrader_metadata, read_notebook


def graded_form(solution: Path, parent: LoggingConfigurable) -> NotebookNode:
    """The solution's notebook without its answers, hidden tests in it: what nbgrader notes when it makes a release.

    Its steps take their configuration and their log from `parent`. Raises `UnreadableNotebook`.
    """
    notebook = read_notebook(solution)
    resources: dict[str, object] = {}
    for step in (LockCells, ClearSolutions, ClearOutput, ComputeChecksums):
        notebook, resources = step(parent=parent).preprocess(notebook, resources)
    return notebook


def released_form(graded: NotebookNode, parent: LoggingConfigurable) -> NotebookNode:
    """What is handed out: the graded form without its hidden tests. The graded form is left as it is."""
    notebook = nbformat.from_dict(graded)
    resources: dict[str, object] = {}
    for step in (ClearHiddenTests, ComputeChecksums):
        notebook, resources = step(parent=parent).preprocess(notebook, resources)
    return notebook


def register(unit: str, coursedir: CourseDirectory, parent: LoggingConfigurable) -> None:
    """Bring the gradebook's entry of `unit` in line with its solution; where they agree, nothing is written.

    nbgrader does this in `generate_assignment`, which skips a unit whose release is there already, as it is in a clone
    of the course. A folder of another name is no unit, and is left to nbgrader.

    Raises:
      NbGraderException: cells were added or removed after submissions were graded.
    """
    folder = Path(coursedir.format_path(coursedir.source_directory, ".", unit))
    if solutions := sorted(folder.glob("*.ipynb")):
        with alone_in(folder.parent):  # of two graders that start at once, the second waits for the gradebook
            for solution in solutions:
                _register(unit, solution, coursedir, parent)


def _register(unit: str, solution: Path, coursedir: CourseDirectory, parent: LoggingConfigurable) -> None:
    notebook = graded_form(solution, parent)
    checksums = {entry["grade_id"]: entry["checksum"] for cell in notebook.cells if (entry := nbgrader_metadata(cell))}
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        if _checksums(gradebook, unit, solution.stem) == checksums:
            return
        gradebook.update_or_create_assignment(unit)
    names = {"assignment": unit, "notebook": solution.stem, "db_url": coursedir.db_url}
    try:
        SaveCells(parent=parent).preprocess(notebook, {"nbgrader": names})
    except RuntimeError:
        line = (
            f"{unit}: its cells are others than those in the gradebook, which holds grades for them. "
            "Take back the change in solutions/, or take a new gradebook (move gradebook.db away) and grade again."
        )
        coursedir.log.error(line)
        raise NbGraderException(line) from None


def _checksums(gradebook: Gradebook, unit: str, name: str) -> dict[str, str]:
    """What the gradebook holds of a notebook's cells; empty if it does not know it."""
    try:
        return {cell.name: cell.checksum for cell in gradebook.find_notebook(name, unit).source_cells}
    except MissingEntry:
        return {}
