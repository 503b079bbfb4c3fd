"""Why a name is missing in a check: the cell that defines it was not run to its end, or it stands further down."""

import re

from nbformat import NotebookNode

from .faults import LEFT_OUT, TITLES, cell_name
from .graded_notebook import failure_text, is_graded, nbgrader_metadata, task_of
from .guard.cells import Guard
from .guard.course import bound, parsed

_MISSING = re.compile(r"name '(\w+)' is not defined$|(\w+) is not defined yet,")  # as Python says it, and our kernels
_PLACE = re.compile(r" \((?:\S+, )?line (\d+)(?: of this cell)?\)$")  # how Python and the guard end a SyntaxError
_FRAME = re.compile(r"Cell In\[\d+\], line (\d+)")


def explain_missing_names(notebook: NotebookNode, guard: Guard | None) -> None:
    """In each check of an executed notebook that ended in a NameError, say what became of the name if that is known."""
    for index, cell in enumerate(notebook.cells):
        if is_graded(cell):
            explain_missing_name(notebook, index, guard)


def explain_missing_name(notebook: NotebookNode, index: int, guard: Guard | None) -> None:
    """The same for the check at `index`: its error is made to end in that line."""
    check = notebook.cells[index]
    error = next((output for output in check.outputs if output.output_type == "error"), None)
    found = _MISSING.match(error.evalue) if error is not None and error.ename in ("NameError", "CellsNotRun") else None
    if error is None or found is None:
        return
    name = found[1] or found[2]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    place = next(i for i, cell in enumerate(cells) if cell is check)
    if not (line := _explanation(name, cells, place, guard)):
        return
    if error.ename == "CellsNotRun":  # a cell that was left out has not been run, but to run it is no help
        *_, place_in_check = failure_text(check).splitlines()
        error.ename, error.traceback = "NameError", [line, place_in_check]
    else:
        error.traceback = [*error.traceback, line]
    error.evalue = f"name {name!r} is not defined. {line}"


def _explanation(name: str, cells: list[NotebookNode], place: int, guard: Guard | None) -> str:
    task = task_of(cells, place)
    homes = [(i, cell) for i, cell in enumerate(cells) if not is_graded(cell) and _has(cell, name)]
    of_task = [(i, cell) for i, cell in enumerate(cells) if task_of(cells, i) == task]
    for _, cell in sorted([*homes, *of_task], key=lambda pair: pair[0]):
        judged = guard.judged(cell) if guard is not None and LEFT_OUT in cell.metadata else None
        if judged is not None and name not in bound(parsed(judged.text)):
            return f"{name} is missing, and this was left out of {cell_name(cell)}: {cell.metadata[LEFT_OUT]}"
    for _, cell in homes:
        if said := _ended_in(cell):
            why = f"because of what happened in its own cell, {cell_name(cell)}: {said} Mend that first."
            return f"{name} is missing, {why}"
    if homes and homes[0][0] > place:
        return f"{name} is missing, because its cell stands below this check; cells are run from top to bottom."
    return ""


def _has(cell: NotebookNode, name: str) -> bool:
    """Whether a cell defines a name. In an answer that Python cannot read, the name alone is looked for."""
    tree = parsed(cell.source)
    unread = not tree.body and bool(nbgrader_metadata(cell).get("solution"))
    return name in bound(tree) or (unread and re.search(rf"\b{name}\b", cell.source) is not None)


def _ended_in(cell: NotebookNode) -> str:
    """The error that a cell ended in and its line, as a sentence; empty if it ran through."""
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    if error is None:
        return ""
    said = error.evalue.split("\n")[0]
    if error.ename not in TITLES:
        place = _PLACE.search(said) or _FRAME.search(failure_text(cell))
        said = f"{error.ename}: {_PLACE.sub('', said)}" + (f" (line {place[1]})" if place else "")
    return said if said.endswith((".", "?", "!")) else f"{said}."
