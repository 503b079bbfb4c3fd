"""A notebook as its graded cells: read it, bring it back in line with the release, read off the points."""

import json
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode


class UnreadableNotebook(ValueError):
    """The file is missing or is no notebook. The message is one line, fit to be shown as it is."""


class Score(NamedTuple):
    """What one graded cell earned. `message` is empty when it earned every point."""

    earned: float
    possible: float
    message: str


def read_notebook(path: Path) -> NotebookNode:
    """The notebook at `path`, as nbformat 4. Raises `UnreadableNotebook`."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UnreadableNotebook(f"{path}: there is no such notebook.") from None
    except (OSError, UnicodeDecodeError):
        raise UnreadableNotebook(f"{path}: this file cannot be read as text; is it a notebook?") from None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableNotebook(
            f"{path}: this is no notebook, because it is no JSON (line {error.lineno}: {error.msg}). "
            "Download it again, or restore it from the release."
        ) from None
    try:
        notebook = nbformat.reads(text, as_version=4)
        nbformat.validate(notebook)
    except Exception as error:  # nbformat raises many types, KeyError among them, for JSON of another shape
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnreadableNotebook(f"{path}: this is JSON, but no notebook ({reason}).") from None
    return notebook


def nbgrader_metadata(cell: NotebookNode) -> dict:
    """The cell's nbgrader metadata, empty for an ordinary cell."""
    return cell.metadata.get("nbgrader", {})


def is_graded(cell: NotebookNode) -> bool:
    """Whether nbgrader gives points for this code cell."""
    return cell.cell_type == "code" and bool(nbgrader_metadata(cell).get("grade"))


def demote_copies(notebook: NotebookNode) -> None:
    """Make ordinary cells of all but the last cell with the same grade_id, as nbgrader does.

    A student who copies a cell copies its grade_id. nbgrader keeps the last one, but leaves an empty nbgrader
    entry on the others, which stops the grading of the whole class (nbgrader issue 1083): here it goes.
    """
    seen = set()
    for cell in reversed(notebook.cells):
        grade_id = nbgrader_metadata(cell).get("grade_id")
        if grade_id is None or grade_id in seen:
            cell.metadata.pop("nbgrader", None)
        seen.add(grade_id)


def restore(notebook: NotebookNode, release: NotebookNode) -> None:
    """Bring a student's notebook back in line with the release.

    Locked cells get their released source and metadata back, wherever they stand now; a locked cell that was
    deleted is put behind the cell that it follows in the release; an id that the release does not know goes.
    """
    demote_copies(notebook)
    released = {i: cell for cell in release.cells if (i := nbgrader_metadata(cell).get("grade_id"))}
    position = {}
    for index, cell in enumerate(notebook.cells):
        grade_id = nbgrader_metadata(cell).get("grade_id")
        if grade_id in released:
            position[grade_id] = index
        else:
            cell.metadata.pop("nbgrader", None)
    last = -1  # where the closest earlier cell of the release stands
    for grade_id, original in released.items():
        locked = nbgrader_metadata(original)["locked"]
        if grade_id not in position and locked:
            last += 1
            notebook.cells.insert(last, nbformat.from_dict(original))
            position = {name: i + (i >= last) for name, i in position.items()} | {grade_id: last}
        elif grade_id in position:
            last = position[grade_id]
            cell = notebook.cells[last]
            if locked and (cell.source, cell.cell_type) != (original.source, original.cell_type):
                notebook.cells[last] = nbformat.from_dict(original)
            cell = notebook.cells[last]
            cell.metadata["nbgrader"] = nbformat.from_dict(original.metadata["nbgrader"])


def score(cell: NotebookNode) -> Score:
    """The points of an executed graded cell, by nbgrader's own rule; text on standard error costs nothing."""
    from nbgrader.utils import determine_grade  # half a second, and only a grading process needs it

    outputs = [o for o in cell.outputs if not (o.output_type == "stream" and o.name == "stderr")]
    judged = nbformat.from_dict({**cell, "outputs": outputs})
    possible = float(cell.metadata.nbgrader["points"])
    try:
        earned, _ = determine_grade(judged)
    except ValueError as error:  # nbgrader raises when a cell claims more than its points
        return Score(0.0, possible, str(error))
    message = failure_text(cell)
    if not message and earned < possible:
        message = f"{earned:g} of {possible:g} points"
    return Score(float(earned), possible, message)


def not_begun(cell: NotebookNode) -> str:
    """For an executed cell that met a stub nobody has filled in, one short line; empty for any other."""
    return next((o.evalue for o in cell.outputs if o.output_type == "error" and o.ename == "NotBegun"), "")


def failure_text(cell: NotebookNode) -> str:
    """The traceback or check message that a cell ended in, without colours; empty if it ran through."""
    from nbconvert.filters import strip_ansi

    for output in cell.outputs:
        if output.output_type == "error":
            return strip_ansi("\n".join(output.traceback)).lstrip("-\n")
    return ""
