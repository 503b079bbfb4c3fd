"""A notebook as its graded cells: read it, bring it back in line with the release, read off the points."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_raw_cell

from .notebook_json import NoNotebook, notebook_from


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


def nbgrader_metadata(cell: NotebookNode) -> dict:
    """The cell's nbgrader metadata, empty for an ordinary cell."""
    entry = cell.metadata.get("nbgrader")
    return entry if isinstance(entry, dict) else {}


def _grade_id(cell: NotebookNode) -> str | None:
    """The name by which nbgrader knows this cell; None for an ordinary cell."""
    grade_id = nbgrader_metadata(cell).get("grade_id")
    return grade_id if isinstance(grade_id, str) else None


def is_graded(cell: NotebookNode) -> bool:
    """Whether nbgrader gives points for this code cell."""
    return cell.cell_type == "code" and bool(nbgrader_metadata(cell).get("grade"))


def asks_the_clock(cell: NotebookNode) -> bool:
    """Whether points of this cell depend on measured time."""
    return is_graded(cell) and "speedup(" in cell.source


def task_of(cells: list[NotebookNode], index: int) -> str:
    """The name of the closest cell at or above `index` that the student fills in; empty above the first one."""
    above = map(nbgrader_metadata, cells[index::-1])
    return next((entry["grade_id"] for entry in above if entry.get("solution")), "")


def demote_copies(notebook: NotebookNode, release: NotebookNode | None = None) -> None:
    """Make ordinary cells of all but the last cell with the same grade_id, as nbgrader does.

    A student who copies a cell copies its grade_id. nbgrader keeps the last one, but leaves an empty nbgrader
    entry on the others, which stops the grading of the whole class (nbgrader issue 1083): here it goes.

    With a release, a copy that is as released goes where there is another one: pasted below an answer, the untouched
    text would take its place.
    """
    texts = {_grade_id(cell): cell.source.strip() for cell in (release.cells if release is not None else ())}
    written = {_grade_id(cell) for cell in notebook.cells if cell.source.strip() != texts.get(_grade_id(cell))}
    seen: set[str | None] = set()
    kept = []
    for cell in reversed(notebook.cells):
        grade_id = _grade_id(cell)
        untouched = grade_id in texts and cell.source.strip() == texts[grade_id]
        if grade_id is not None and untouched and grade_id in written | seen:
            continue
        kept.append(cell)
        if grade_id is None or grade_id in seen:
            cell.metadata.pop("nbgrader", None)
        seen.add(grade_id)
    notebook.cells = kept[::-1]


def restore(notebook: NotebookNode, release: NotebookNode) -> list[str]:
    """Bring a student's notebook back in line with the release; of the released cells only the answers stay.

    Locked cells become what was released, in source, type and metadata, and stand in the released order; one that was
    deleted is put behind the cell that it follows there. A cell to be filled in keeps its source alone: it is code
    again if it was made text. A cell without a name is known by its content. What was written above or below the text
    of a locked cell, as when cells are merged, becomes a cell of its own there. The student's own cells stay behind
    the cell that they follow, without metadata, so that no tag decides what is run. The notebook's own metadata, the
    kernel's name among them, are the release's.

    Arguments:
      notebook, release: as `read_notebook` gives them, each cell with an id of its own.

    Returns:
      what was not as released and could have changed points, in a few words each; empty for an honest notebook.
    """
    demote_copies(notebook, release)
    released = {_grade_id(cell) or cell.id: cell for cell in release.cells}
    claimed = {_grade_id(cell) for cell in notebook.cells}
    taken = {cell.id for cell in release.cells}
    unknown = claimed - {None, *map(_grade_id, release.cells)}
    is_another = bool(unknown) and not claimed & set(map(_grade_id, filter(_is_of_one_unit, release.cells)))
    found: dict[str, NotebookNode] = {}
    own: dict[str | None, list[NotebookNode]] = {None: []}  # the student's own cells, by the released cell above them
    above = None
    # A program that strips metadata leaves the id, which is the same name here.
    names = [_grade_id(cell) or (cell.id if cell.id not in claimed else None) for cell in notebook.cells]
    missing = {name: cell for name, cell in released.items() if name not in names}
    named = [
        part
        for name, cell in zip(names, notebook.cells, strict=True)
        for part in (_parted(name, cell, released, missing) if name in released else [(name, cell)])
    ]
    for i, (name, cell) in reversed(list(enumerate(named))):  # of two that are alike the lower counts, as with copies
        if name not in released and (alike := _alike(cell, missing)):
            named[i] = alike, cell
            del missing[alike]
    for name, cell in named:
        if name in released:
            found[name], own[name], above = cell, [], name
        else:
            own[above].append(_own_cell(cell, taken))
    changes = _answers_elsewhere(found, own, released)
    if is_another:
        changes.append("all of it: it is the notebook of another unit")
    cells, waiting = [], own[None]
    for name, original in released.items():
        locked = nbgrader_metadata(original).get("locked", False)
        if name in found:
            cells += [*waiting, _restored(found[name], original)]
            waiting = own[name]
            if change := _change(found[name], original):
                changes.append(f"{name} ({change})")
        elif nbgrader_metadata(original):
            cells += [nbformat.from_dict(original)] if locked else []
            changes.append(f"{name} (deleted)")
    order = [name for name in found if _grade_id(released[name])]
    if order != [name for name in released if name in order]:
        changes.append("the order of the cells")
    notebook.cells = cells + waiting
    notebook.metadata = nbformat.from_dict(release.metadata)
    return changes


def _is_of_one_unit(cell: NotebookNode) -> bool:
    """Whether a cell is graded or to be filled in; others, `setup` among them, have the same name in all units."""
    return bool(nbgrader_metadata(cell).get("grade") or nbgrader_metadata(cell).get("solution"))


_BINDS = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=[^=]", re.MULTILINE)


def _parted(
    name: str, cell: NotebookNode, released: dict[str, NotebookNode], missing: dict[str, NotebookNode]
) -> list[tuple[str | None, NotebookNode]]:
    """A locked cell in which more was written, as its own text and what stands around it; any other as it is.

    The missing locked cells that are found there are named as well, and taken out of `missing`. All else has no name:
    it becomes a cell of the student's own, which the guard judges, and runs in the place of no locked one.
    """
    parts = _cut([(None, cell.source)], name, released[name]) if cell.cell_type == "code" else []
    if len(parts) < 2:  # untouched, or rewritten
        imports = "" if is_graded(released[name]) else _imports_added(cell.source, released[name].source)
        return [*([(None, new_code_cell(imports))] if imports else []), (name, cell)]
    for other in list(missing):
        cut = _cut(parts, other, missing[other])
        if cut is not parts:
            parts = cut
            del missing[other]
    locked = nbformat.from_dict({**cell, "source": released[name].source})
    return [(known, locked if known == name else new_code_cell(source)) for known, source in parts]


def _imports_added(text: str, released: str) -> str:
    """The imports at the top of a locked cell that was rewritten which are not in the released text, one on a line."""
    try:
        theirs, ours = (ast.parse(source).body for source in (text, released))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    known = set(map(ast.unparse, ours))
    if not known & set(map(ast.unparse, theirs)):
        return ""  # another text altogether
    added = [ast.unparse(node) for node in theirs if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(line for line in added if line not in known)


def _cut(parts: list[tuple[str | None, str]], name: str, original: NotebookNode) -> list[tuple[str | None, str]]:
    """The parts of a cell's text, with a locked cell's text, if it is there in whole lines, as one with its name."""
    text = original.source.strip("\n")
    if not text or not nbgrader_metadata(original).get("locked"):
        return parts
    for i, (known, source) in enumerate(parts):
        if known is None and (found := re.search(rf"^{re.escape(text)}$", source, re.MULTILINE)):
            around = [(None, source[: found.start()]), (name, text), (None, source[found.end() :])]
            return parts[:i] + [(known, part.strip("\n")) for known, part in around if part.strip()] + parts[i + 1 :]
    return parts


def _answers_elsewhere(
    found: dict[str, NotebookNode], own: dict[str | None, list[NotebookNode]], released: dict[str, NotebookNode]
) -> list[str]:
    """Fill in a stub that was left untouched, or emptied, with what the student wrote for it elsewhere.

    Each name of the stub's is looked for in the student's own cells, or else in those of the other answers: the last
    that has it. The other cells stay where they are: what stands between them may need them.
    """
    changes = []
    texts = {original.source.strip() for original in released.values()}
    mine = [cell for cells in own.values() for cell in cells if _is_written(cell, texts)]
    answers = {name: cell for name, cell in found.items() if is_to_fill_in(released[name]) and cell.cell_type == "code"}
    for name, cell in answers.items():
        untouched = cell.source.strip() in ("", released[name].source.strip())
        if not (untouched and "NotImplementedError" in released[name].source):
            continue
        wanted = bound_in(released[name])
        others = [answer for other, answer in answers.items() if other != name and _is_written(answer, texts)]
        for places in (mine, others + mine):
            homes = [[place for place in places if one in bound_in(place)] for one in wanted]
            if homes and all(homes):
                cell.source = "\n\n\n".join(p.source for p in places if any(p is home[-1] for home in homes))
                changes.append(f"{name} (answered in another cell)")
                break
    return changes


def _is_written(cell: NotebookNode, texts: set[str]) -> bool:
    """Whether a cell is code, and none that was handed out."""
    return cell.cell_type == "code" and cell.source.strip() not in texts


def bound_in(cell: NotebookNode) -> set[str]:
    """The names that a cell defines, as far as its lines show that; it may be no Python."""
    return {name for found in _BINDS.findall(cell.source) for name in found if name}


def is_to_fill_in(cell: NotebookNode) -> bool:
    """Whether a released cell is for an answer."""
    entry = nbgrader_metadata(cell)
    return bool(entry.get("solution")) and not entry.get("locked")


def _alike(cell: NotebookNode, missing: dict[str, NotebookNode]) -> str | None:
    """Which of the missing released cells this one is, although nothing names it: some programs keep no names at all.

    A cell that is to be read has the same text; one that is to be filled in defines what the released one defines.
    """
    binds = bound_in(cell)
    for name, original in missing.items():
        if is_to_fill_in(original):
            wanted = bound_in(original)
            if cell.cell_type == original.cell_type and wanted and wanted <= binds:
                return name
        elif cell.cell_type == original.cell_type and cell.source.strip() == original.source.strip():
            return name
    return None


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
