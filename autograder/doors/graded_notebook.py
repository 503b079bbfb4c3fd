"""A notebook as its graded cells: read it, bring it back in line with the release, read off the points."""

from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_raw_cell

from .answers_elsewhere import fill_in, is_stub
from .known_cells import known
from .notebook_json import NoNotebook, notebook_from
from .released_cells import bound_in as bound_in
from .released_cells import is_graded as is_graded
from .released_cells import is_locked, name_of
from .released_cells import is_to_fill_in as is_to_fill_in
from .released_cells import nbgrader_metadata as nbgrader_metadata


class UnreadableNotebook(ValueError):
    """The file is missing or is no notebook. The message is one line, fit to be shown as it is."""


class Score(NamedTuple):
    """What one graded cell earned. `message` is empty when it earned every point."""

    earned: float
    possible: float
    message: str


def read_notebook(path: Path) -> NotebookNode:
    """The notebook at `path`, see `parse_notebook`. Raises `UnreadableNotebook`."""
    return parse_notebook(bytes_of(path), path)


def bytes_of(path: Path) -> bytes:
    """What the file of a notebook holds. Raises `UnreadableNotebook`."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UnreadableNotebook(f"{path}: there is no such notebook.") from None
    except PermissionError:
        raise UnreadableNotebook(f"{path}: its permissions forbid to read it.") from None
    except OSError:
        raise UnreadableNotebook(f"{path}: this file cannot be read as text; is it a notebook?") from None


def parse_notebook(data: bytes, path: str | Path) -> NotebookNode:
    """The notebook in a file's bytes, as nbformat 4.5, whatever encoding of Unicode it is in (see `notebook_json`).

    Raises `UnreadableNotebook`, whose message begins with `path`.
    """
    try:
        return notebook_from(data)
    except NoNotebook as error:
        raise UnreadableNotebook(f"{path}: {error}") from None


def asks_the_clock(cell: NotebookNode) -> bool:
    """Whether points of this cell depend on measured time."""
    return is_graded(cell) and "speedup(" in cell.source


def task_of(cells: list[NotebookNode], index: int) -> str:
    """The name of the closest cell at or above `index` that the student fills in; empty above the first one."""
    above = map(nbgrader_metadata, cells[index::-1])
    return next((entry["grade_id"] for entry in above if entry.get("solution")), "")


def demote_copies(notebook: NotebookNode, release: NotebookNode | None = None) -> None:
    """Make ordinary cells of all but the last cell with the same grade_id, as nbgrader does.

    Of answers it is the last one above the check: what stands below that was kept there, or tried.

    A student who copies a cell copies its grade_id. nbgrader keeps the last one, but leaves an empty nbgrader
    entry on the others, which stops the grading of the whole class (nbgrader issue 1083): here it goes.

    With a release, a copy that is as released goes where there is another one: pasted below an answer, the untouched
    text would take its place. Of a locked cell the one that is as released stays, and all that were rewritten are
    ordinary ones.
    """
    originals = {name_of(cell): cell for cell in (release.cells if release is not None else ()) if name_of(cell)}

    def is_whole(cell: NotebookNode) -> bool:
        original = originals.get(name_of(cell))
        return original is not None and cell.source.strip() == original.source.strip()

    whole = {name for name in map(name_of, filter(is_whole, notebook.cells)) if is_locked(originals[name])}
    written = {name_of(cell) for cell in notebook.cells if not is_whole(cell)} - whole
    below = _kept_below(notebook.cells, list(originals.values()))
    seen: set[str | None] = {None}
    kept = []
    for place, cell in reversed(list(enumerate(notebook.cells))):
        name = name_of(cell)
        if is_whole(cell) and name in written | seen:
            continue
        kept.append(cell)
        if name in seen or place in below or (name in whole and not is_whole(cell)):
            cell.metadata.pop("nbgrader", None)
        else:
            seen.add(name)
    notebook.cells = kept[::-1]


def _kept_below(cells: list[NotebookNode], released: list[NotebookNode]) -> set[int]:
    """Where copies of answers stand that their students wrote, below the check of another one which is above it."""
    names, found = list(map(name_of, cells)), set()
    for place, original in enumerate(released):
        check = next((name_of(cell) for cell in released[place:] if is_graded(cell)), None)
        if is_to_fill_in(original) and check in names:
            mine = [
                i for i, cell in enumerate(cells) if names[i] == name_of(original) and cell.source != original.source
            ]
            below = {i for i in mine if i > names.index(check)}
            found |= below if len(below) < len(mine) else set()
    return found


def restore(notebook: NotebookNode, release: NotebookNode) -> list[str]:
    """Bring a student's notebook back in line with the release; of the released cells only the answers stay.

    Locked cells become what was released, in source, type and metadata, and stand in the released order; one that was
    deleted is put behind the cell that it follows there, and so is a stub. A cell to be filled in keeps its source
    alone: it is code again if it was made text, and what was written elsewhere for it is put in (see
    `answers_elsewhere`). Which cell is which, `known_cells` says. The student's own cells stay behind the cell that
    they follow, without metadata, so that no tag decides what is run. The notebook's own metadata, the kernel's name
    among them, are the release's.

    Arguments:
      notebook, release: as `read_notebook` gives them, each cell with an id of its own.

    Returns:
      what was not as released and could have changed points, in a few words each; empty for an honest notebook.
    """
    demote_copies(notebook, release)
    released = {name_of(cell) or cell.id: cell for cell in release.cells}
    claimed = {name_of(cell) for cell in notebook.cells}
    unknown = claimed - {None, *map(name_of, release.cells)}
    is_another = bool(unknown) and not claimed & set(map(name_of, filter(_is_of_one_unit, release.cells)))
    taken = {cell.id for cell in release.cells}
    found: dict[str, NotebookNode] = {}
    own: dict[str | None, list[NotebookNode]] = {None: []}  # the student's own cells, by the released cell above them
    above = None
    for name, cell in known(notebook.cells, released):
        if name is None:
            own[above].append(_own_cell(cell, taken))
        else:
            found[name], own[name], above = cell, [], name
    cells, waiting, changes = [], own[None], {}
    for name, original in released.items():
        if name in found:
            cells += [*waiting, _restored(found[name], original)]
            waiting = own[name]
            if change := _change(found[name], original):
                changes[name] = change
        elif nbgrader_metadata(original):
            cells += [nbformat.from_dict(original)] if is_locked(original) or is_stub(original) else []
            changes[name] = "deleted"
    notebook.cells = cells + waiting
    notebook.metadata = nbformat.from_dict(release.metadata)
    changes |= dict.fromkeys(fill_in(notebook.cells, release), "answered in another cell")
    order = [name for name in found if name_of(released[name])]
    return [
        *(["all of it: it is the notebook of another unit"] if is_another else []),
        *(f"{name} ({change})" for name, change in changes.items()),
        *(["the order of the cells"] if order != [name for name in released if name in order] else []),
    ]


def _is_of_one_unit(cell: NotebookNode) -> bool:
    """Whether a cell is graded or to be filled in; others, `setup` among them, have the same name in all units."""
    return bool(nbgrader_metadata(cell).get("grade") or nbgrader_metadata(cell).get("solution"))


def _restored(cell: NotebookNode, original: NotebookNode) -> NotebookNode:
    """The student's form of a released cell, with nothing but what the student may change in it."""
    entry = nbgrader_metadata(original)
    if not entry:  # prose, or a cell to try things in
        cell.metadata = nbformat.from_dict(original.metadata)
        return cell
    restored = nbformat.from_dict(original)
    if not entry["locked"]:
        restored.source = cell.source
    return restored


def _own_cell(cell: NotebookNode, taken: set[str]) -> NotebookNode:
    """A cell of the student's own: no metadata, and an id that is not in `taken`, to which it is added."""
    cell.metadata = nbformat.from_dict({})
    if cell.id in taken:
        cell.id = new_raw_cell().id
    taken.add(cell.id)
    return cell


def _change(cell: NotebookNode, original: NotebookNode) -> str:
    """What was done to a cell that the release holds to a form; empty if nothing was, or for prose."""
    entry = nbgrader_metadata(original)
    if not entry:
        return ""
    if cell.cell_type != original.cell_type:
        return f"made {cell.cell_type}"
    if entry["locked"] and cell.source != original.source:
        return "edited"
    if "skip-execution" in cell.metadata.get("tags", []):
        return "tagged to be skipped"
    if nbgrader_metadata(cell).get("points", entry.get("points")) != entry.get("points"):
        return "points"
    return ""


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
    """The name of the stub that an executed cell met, because nobody has filled it in; empty if it met none."""
    errors = (output for output in cell.outputs if output.output_type == "error")
    return next((error.evalue.removesuffix(" is not begun") for error in errors if error.ename == "NotBegun"), "")


def failure_text(cell: NotebookNode) -> str:
    """The traceback or check message that a cell ended in, without colours; empty if it ran through."""
    from nbconvert.filters import strip_ansi

    for output in cell.outputs:
        if output.output_type == "error":
            return strip_ansi("\n".join(output.traceback)).lstrip("-\n")
    return ""
