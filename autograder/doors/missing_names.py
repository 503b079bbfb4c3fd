"""Why a name is missing in a check: the cell that defines it was not run to its end, or it stands further down."""

import re

from nbformat import NotebookNode
from nbformat.v4 import new_output

from .faults import LEFT_OUT, TITLES, cell_name
from .graded_notebook import is_graded, task_of
from .guard.cells import Guard
from .guard.course import bound, parsed

_MISSING = re.compile(r"name '(\w+)' is not defined")


def explain_missing_names(notebook: NotebookNode, guard: Guard | None) -> None:
    """In each check of an executed notebook that ended in a NameError, say what became of the name if that is known."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for place, check in enumerate(cells):
        error = next((output for output in check.outputs if output.output_type == "error"), None)
        found = _MISSING.search(error.evalue) if error is not None and error.ename == "NameError" else None
        if found and is_graded(check):
            _explain(found[1], cells, place, guard)


def _explain(name: str, cells: list[NotebookNode], place: int, guard: Guard | None) -> None:
    task, check = task_of(cells, place), cells[place]
    homes = [(i, cell) for i, cell in enumerate(cells) if not is_graded(cell) and name in bound(parsed(cell.source))]
    of_task = [(i, cell) for i, cell in enumerate(cells) if task_of(cells, i) == task]
    for _, cell in sorted([*homes, *of_task], key=lambda pair: pair[0]):
        judged = guard.judged(cell) if guard is not None and LEFT_OUT in cell.metadata else None
        if judged is not None and name not in bound(parsed(judged.text)):
            _say(check, f"{name} is missing, and this was left out of {cell_name(cell)}: {cell.metadata[LEFT_OUT]}")
            return
    for _, cell in homes:
        if error := next((output for output in cell.outputs if output.output_type == "error"), None):
            said = error.evalue.split("\n")[0]
            kind = "" if error.ename in TITLES else f"{error.ename}: "
            _say(check, f"{name} is missing, because of what happened in its own cell, {cell_name(cell)}: {kind}{said}")
            return
    if homes and homes[0][0] > place:
        _say(check, f"{name} is missing, because its cell stands below this check; cells are run from top to bottom.")


def _say(check: NotebookNode, line: str) -> None:
    check.outputs.append(new_output("stream", name="stdout", text=f"{line}\n"))
