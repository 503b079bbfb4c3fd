"""What lies in a student's folder: the file that holds the notebook, whatever it is called, and what goes with it."""

import fnmatch
import glob
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from .answers_elsewhere import is_begun
from .graded_notebook import bound_in, is_to_fill_in, nbgrader_metadata, read_notebook

BESIDE = 100 * 2**20  # bytes of files beside a submission's notebooks that go with them, as in the box
_TEXT = 10 * 2**20  # bytes of the largest file that is looked at although its name is not a notebook's
_AUTOSAVED = 2  # how far the name of a file in `.ipynb_checkpoints` is from a notebook's


def is_plain(path: str | Path) -> bool:
    """Whether a file lies here itself: a link may lead to the solution, and a pipe never ends."""
    return not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode)


def student_folders(pattern: str) -> list[str]:
    """The folders that fit `…/<student>/<unit>`, also those below one that forbade its owner to look."""
    for student in glob.glob(os.path.dirname(pattern), include_hidden=True):
        _make_one_readable(student)
    return glob.glob(pattern, include_hidden=True)


def make_readable(folder: Path) -> None:
    """Let us read what lies in a student's folder, and is ours: some archives keep no permissions, and forbid all.

    What is another's stays as it is, and so does what is hidden and can hold no notebook.
    """
    _make_one_readable(folder)
    for place, folders, names in os.walk(folder):  # no link is followed; a folder is read after its name was seen here
        folders[:] = _that_may_hold_notebooks(folders)
        for name in (*folders, *names):
            _make_one_readable(os.path.join(place, name))


def _make_one_readable(path: str | Path) -> None:
    """The same for a file, or for a folder and the names in it."""
    with suppress(OSError):
        status = os.lstat(path)
        needed = stat.S_IRUSR | (stat.S_IXUSR if stat.S_ISDIR(status.st_mode) else 0)
        is_plain_one = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        if is_plain_one and status.st_mode & needed != needed and status.st_uid == os.geteuid():
            os.chmod(path, stat.S_IMODE(status.st_mode) | needed)


def _that_may_hold_notebooks(folders: list[str]) -> list[str]:
    return sorted(name for name in folders if not name.startswith(".") or name == ".ipynb_checkpoints")


def _size(path: str | Path) -> int | None:
    """Bytes of a file that lies here itself; None if it does not, or if its folder forbids to look."""
    with suppress(OSError):
        return os.lstat(path).st_size if is_plain(path) else None
    return None


class Beside(NamedTuple):
    """What lies beside a submission's notebook: the files that go with it, and how many more there are."""

    taken: list[str]
    left_out: int


def files_beside(folder: str, ignored: list[str]) -> Beside:
    """What a submission's cells may read when it is graded: plain files, the small ones first until there are too many.

    Left out are notebooks, which are found by `notebook_in`, what is hidden, and the names that fit a pattern of
    `ignored`, as nbgrader's setting has them.
    """

    def fits(name: str) -> bool:
        return name.startswith(".") or any(fnmatch.fnmatch(name, pattern) for pattern in (*ignored, "*.ipynb"))

    found, taken, left = [], [], BESIDE
    for place, folders, names in os.walk(folder):  # no link is followed
        folders[:] = [name for name in folders if not fits(name)]
        paths = [os.path.join(place, name) for name in names if not fits(name)]
        found += [(size, path) for path in paths if (size := _size(path)) is not None]
    for size, path in sorted(found):
        if size <= left and os.access(path, os.R_OK):
            taken.append(path)
            left -= size
    return Beside(taken, len(found) - len(taken))


def notebook_in(folder: Path, name: str, release: NotebookNode) -> Path | None:
    """The file that holds a submission's notebook, whatever it was handed in as; None if there is none.

    It is the one of the right name, unless that is none or nobody has worked in it, and another holds answers. Of the
    others it is one with answers, if there is any; then a notebook rather than a text, and an autosaved one last; then
    the one with the most cells of the unit, with the most answers, and the latest.

    Arguments:
      name: how its file should be called.
      release: what was handed out, as `released_form` gives it.
    """
    path = folder / name
    there = os.path.lexists(path)
    others = [(kind, other) for kind, other in _files_that_may_be_notebooks(folder) if other != path]
    if there and (not others or _is_worked_in(path, release)):
        return path
    worth = {}
    for kind, other in others:
        cells, answers = _known_cells(other, release)
        if answers or (cells and not there):
            worth[other] = answers > 0, -kind, cells, answers, os.lstat(other).st_mtime
    return max(worth, key=worth.__getitem__, default=path if there else None)


class PassedOver(NamedTuple):
    """A file beside the notebook that is graded, with answers to so many tasks that are as released in that one."""

    path: Path
    tasks: int


def passed_over(folder: Path, graded: Path, release: NotebookNode) -> PassedOver | None:
    """The file of a submission with the most answers that are missing in the one that is graded; None if none has any.

    Of two notebooks in both of which somebody has worked, one counts. Its reader is told of the other.
    """
    others = [other for kind, other in _files_that_may_be_notebooks(folder) if other != graded and kind < _AUTOSAVED]
    there = _answered(_sources(graded), release) if others else set()
    more = [PassedOver(other, len(_answered(_sources(other), release) - there)) for other in others]
    return max((one for one in more if one.tasks), key=lambda one: one.tasks, default=None)


def _files_that_may_be_notebooks(folder: Path) -> Iterator[tuple[int, Path]]:
    """Each with how far its name is from a notebook's. Browsers change the suffix, or leave it out."""
    for place, folders, names in os.walk(folder):  # no link is followed
        folders[:] = _that_may_hold_notebooks(folders)
        for path in (Path(place, name) for name in sorted(names) if not name.startswith(".")):
            if (size := _size(path)) is None:
                continue
            if ".ipynb" in path.name.lower():
                yield _AUTOSAVED if path.parent.name == ".ipynb_checkpoints" else 0, path
            elif path.suffix.lower() in ("", ".json", ".txt", ".zip", ".gz") and size <= _TEXT:
                yield 1, path


def _is_worked_in(path: Path, release: NotebookNode) -> bool:
    """Whether a notebook can be read, and anything in it may be an answer: a word, or a line to try, is none."""
    notebook = _read(path)
    texts = {"", *(cell.source.strip() for cell in release.cells)}
    stubs = list(filter(is_to_fill_in, release.cells))
    wanted = {name for cell in stubs for name in bound_in(cell)}
    by_name = {name: cell for cell in stubs for name in _names(cell)}
    for cell in notebook.cells if notebook else ():
        known = next((by_name[name] for name in _names(cell) if name in by_name), None)
        written = cell.source.strip() not in texts
        if written and (is_begun(cell.source, known) if known is not None else wanted & bound_in(cell)):
            return True
    return False


def _known_cells(path: Path, release: NotebookNode) -> tuple[int, int]:
    """How many cells of a release a file holds, and how many of them are filled in."""
    theirs = _sources(path)
    return sum(any(name in theirs for name in _names(cell)) for cell in release.cells), len(_answered(theirs, release))


def _answered(theirs: dict[str, str], release: NotebookNode) -> set[str]:
    """The cells of a release that are filled in in a file with these texts, by their names."""
    found = set()
    for cell in release.cells:
        known = [theirs[name] for name in _names(cell) if name in theirs]
        if known and nbgrader_metadata(cell).get("solution") and is_begun(known[0], cell):
            found.add(_names(cell)[0])
    return found


def _sources(path: Path) -> dict[str, str]:
    """The text of each cell of a notebook, by all names that it can be known by."""
    notebook = _read(path)
    return {name: cell.source.strip() for cell in notebook.cells for name in _names(cell)} if notebook else {}


def _names(cell: NotebookNode) -> list[str]:
    """The names by which a cell can be known; some programs keep one of them."""
    return [name for name in (nbgrader_metadata(cell).get("grade_id"), cell.id) if isinstance(name, str)]


def _read(path: Path) -> NotebookNode | None:
    """The notebook in a file, which may hold anything; None if there is none."""
    if not is_plain(path):
        return None
    with suppress(Exception):  # whatever is wrong with it, the submission and the class go on
        return read_notebook(path)
    return None
