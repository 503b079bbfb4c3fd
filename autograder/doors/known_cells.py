"""Which released cell each cell of a submission is, whatever a program or a hand has made of the notebook."""

import ast
import re
from collections.abc import Iterator, Mapping

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell

from .python_text import PythonText
from .released_cells import bound_in, is_graded, is_locked, is_to_fill_in, name_of

Named = tuple[str | None, NotebookNode]  # a cell of a submission, and the name of the released one that it is
_Parts = list[tuple[str | None, str]]  # the same of a cell's text


def known(cells: list[NotebookNode], released: Mapping[str, NotebookNode]) -> list[Named]:
    """The cells of a submission, each with the name of the released one that it is; None for one of the student's own.

    A program that strips metadata leaves the id, which is the same name here. A cell without either is known by its
    content. What was written in a locked cell, or merged with it, is a cell of its own, without a name: the guard
    judges it, and it runs in the place of no locked one.

    Arguments:
      released: the cells of the release, by their names.
    """
    claimed = {name_of(cell) for cell in cells}
    names = [name_of(cell) or (cell.id if cell.id not in claimed else None) for cell in cells]
    missing = {name: cell for name, cell in released.items() if name not in names}
    found: list[Named] = [(name if name in released else None, cell) for name, cell in zip(names, cells, strict=True)]
    found = [part for name, cell in found for part in _of_locked(name, cell, released, missing)]
    for i, (name, cell) in reversed(list(enumerate(found))):  # of two that are alike the lower counts, as with copies
        if name is None and (same := next((n for n in missing if _is_same(cell, missing[n])), None)):
            found[i] = same, cell
            del missing[same]
    found = [part for name, cell in found for part in _of_unlocked(name, cell, released, missing)]
    for name in missing:
        if is_to_fill_in(released[name]) and (place := _place_of_answer(name, found, released)) is not None:
            found[place] = name, found[place][1]
    return found


def _is_same(cell: NotebookNode, original: NotebookNode) -> bool:
    """Whether a cell is a released one that is to be read, although nothing names it."""
    alike = cell.cell_type == original.cell_type and cell.source.strip() == original.source.strip()
    return alike and not is_to_fill_in(original)


def _place_of_answer(name: str, found: list[Named], released: Mapping[str, NotebookNode]) -> int | None:
    """Where the cell stands that defines what the released one defines, which is missing; None if none does.

    Of several it is the last above the check that follows in the release: a try below it is not what was checked.
    """
    original, wanted = released[name], bound_in(released[name])
    cells = [(i, cell) for i, (other, cell) in enumerate(found) if other is None and wanted]
    alike = [i for i, cell in cells if cell.cell_type == original.cell_type and wanted <= bound_in(cell)]
    places = {other: i for i, (other, _) in enumerate(found)}
    order = list(released)
    below = (places[n] for n in order[order.index(name) + 1 :] if n in places and is_graded(released[n]))
    check = next(below, len(found))
    return max((i for i in alike if i < check), default=max(alike, default=None))


def _of_locked(
    name: str | None, cell: NotebookNode, released: Mapping[str, NotebookNode], missing: dict[str, NotebookNode]
) -> list[Named]:
    """A locked cell in which more was written, as its own text and what stands around it; any other as it is.

    The missing locked cells that are found there are named as well, and taken out of `missing`.
    """
    if name is None or not is_locked(released[name]) or cell.cell_type != "code":
        return [(name, cell)]
    original = released[name]
    parts = _cut([(None, cell.source)], name, original)
    if len(parts) > 1:
        locked = from_dict({**cell, "source": original.source})
        parts = _cut_all(parts, missing)
        return [(known, locked if known == name else new_code_cell(source)) for known, source in parts]
    if parts[0][0] == name:
        return [(name, cell)]
    above, below = _added(cell.source, original)
    around: list[Named] = [(None, new_code_cell(above)), (name, cell), (None, new_code_cell(below))]
    return [part for part in around if part[0] or part[1].source]


def _of_unlocked(
    name: str | None, cell: NotebookNode, released: Mapping[str, NotebookNode], missing: dict[str, NotebookNode]
) -> list[Named]:
    """An answer's cell, or the student's own, into which missing locked ones were merged: these and what is between.

    As programs merge, the uppermost keeps its name.
    """
    if cell.cell_type != "code" or (name is not None and is_locked(released[name])):
        return [(name, cell)]
    parts = _cut_all([(None, cell.source)], missing)
    if parts == [(None, cell.source)]:
        return [(name, cell)]
    first = next((source for known, source in parts if known is None), None)
    upper = from_dict({**cell, "source": first})
    return [
        (name, upper) if known is None and source is first else (known, new_code_cell(source))
        for known, source in parts
    ]


def _cut_all(parts: _Parts, missing: dict[str, NotebookNode]) -> _Parts:
    """As `_cut`, for all locked cells that are missing; those that are found are taken out of `missing`."""
    for name in list(missing):
        cut = _cut(parts, name, missing[name])
        if cut is not parts:
            parts = cut
            del missing[name]
    return parts


def _cut(parts: _Parts, name: str, original: NotebookNode) -> _Parts:
    """The parts of a cell's text, with a locked cell's text, if it is there in whole lines, as one with its name."""
    text = original.source.strip("\n")
    if not text or not is_locked(original):
        return parts
    for i, (known, source) in enumerate(parts):
        if known is None and (found := re.search(rf"^{re.escape(text)}$", source, re.MULTILINE)):
            around = [(None, source[: found.start()]), (name, text), (None, source[found.end() :])]
            return parts[:i] + [(known, part.strip("\n")) for known, part in around if part.strip()] + parts[i + 1 :]
    return parts


def _added(text: str, original: NotebookNode) -> tuple[str, str]:
    """The statements between those of a locked cell that are not its own: what is to run above it, and below.

    They are below if all of its own are there, in order. Its imports a tool may have sorted, and merged with others:
    where it is no check, new ones are above, even if nothing else of the text is as it was.
    """
    theirs, ours = PythonText.of(text), PythonText.of(original.source)
    if theirs is None or ours is None:
        return "", ""
    lines, known = _statements(theirs.tree.body), _statements(ours.tree.body)
    if not {line for line, _ in known} & {line for line, _ in lines}:
        return "", ""  # another text altogether
    above: list[str] = []
    if not is_graded(original):
        above = [line for line, is_import in lines if is_import and (line, True) not in known]
        lines, known = ([one for one in some if not one[1]] for some in (lines, known))
    below = list(_between(lines, known))
    return "\n".join(above), "\n".join(below)


def _statements(body: list[ast.stmt]) -> list[tuple[str, bool]]:
    """Each as a text without comments, and whether it is an import."""
    said = (node for node in body if not isinstance(node, ast.Pass))  # which stands for a magic
    return [(ast.unparse(node), isinstance(node, ast.Import | ast.ImportFrom)) for node in said]


def _between(lines: list[tuple[str, bool]], known: list[tuple[str, bool]]) -> Iterator[str]:
    """The lines that stand between the known ones; none if these are not all there, in order."""
    between, ahead = [], list(known)
    for line in lines:
        if ahead and line == ahead[0]:
            del ahead[0]
        else:
            between.append(line[0])
    if not ahead:
        yield from between
