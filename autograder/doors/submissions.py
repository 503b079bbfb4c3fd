"""What `nbgrader autograde` does around each submission, made to bear what is handed in, and a grader that is killed.

Left to itself, nbgrader ends the whole run at a time stamp that is no time, gives no grade to a notebook of another
name or to a folder without one, and takes a submission at which a grader was killed for a graded one. Everything here
is put around methods of its converter, for which it has no extension point.
"""

import glob
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nbgrader.converters import Autograde

from .graded_notebook import UnreadableNotebook, nbgrader_metadata, read_notebook

if sys.platform != "win32":
    import fcntl


def bear_everything(converter: Autograde) -> dict[str, Path]:
    """Prepare a converter that has found its submissions, before it begins with the first one.

    Returns:
      the file in which each notebook was handed in that has another name; more come as the run goes on.
    """
    _forgive_times(converter)
    _copy_plain_files_alone(converter)
    _take_turns(converter)
    return _find_notebooks(converter)


def is_plain(path: str | Path) -> bool:
    """Whether a file lies here itself: a link may lead to the solution, and a pipe never ends."""
    return not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode)


def _forgive_times(converter: Autograde) -> None:
    """Let a time stamp that is none be as if it were missing; nbgrader would leave all students after it ungraded."""
    read: Callable = converter.coursedir.get_existing_timestamp

    def get_existing_timestamp(folder: str):
        try:
            return read(folder)
        except (SystemExit, Exception):
            converter.log.warning("%s/timestamp.txt: this is no time, and is not looked at.", folder)
            return None

    converter.coursedir.get_existing_timestamp = get_existing_timestamp


def _copy_plain_files_alone(converter: Autograde) -> None:
    """Let nbgrader leave links, pipes and the like where they were handed in; it copies what they lead to."""
    start: Callable[[str, str], None] = converter.init_assignment

    def init_assignment(unit: str, student: str) -> None:
        folder = converter.coursedir.format_path(converter.coursedir.submitted_directory, student, unit)
        files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
        ignored = converter.coursedir.ignore
        odd = {glob.escape(os.path.basename(path)) for path in files if not is_plain(path)}
        converter.coursedir.ignore = [*ignored, *sorted(odd)]
        try:
            start(unit, student)
        finally:
            converter.coursedir.ignore = ignored

    converter.init_assignment = init_assignment


def _take_turns(converter: Autograde) -> None:
    """Let one grader at a time work on a submission, and grade anew what a grader that was killed left unfinished.

    Beside the folder of a submission that is being graded lies a locked file; nbgrader looks at no file there.
    """
    wanted: Callable[[str, str], bool] = converter.init_destination
    finish: Callable[[str, str], None] = converter.set_permissions
    run: Callable[[], None] = converter.convert_notebooks
    turn = _Turn(None)

    def init_destination(unit: str, student: str) -> bool:
        nonlocal turn
        turn.give_up()
        folder = Path(converter._format_dest(unit, student))
        turn = _Turn(_mark(folder))
        if not turn.taken:
            converter.log.warning("%s: another grader is at work on this submission, which is left to it.", folder)
            return False
        if turn.interrupted:
            converter.log.warning("%s: a grader was stopped at this submission; it is graded anew.", folder)
            shutil.rmtree(folder, ignore_errors=True)
        if not wanted(unit, student):
            turn.end()
            return False
        turn.begin()
        return True

    def set_permissions(unit: str, student: str) -> None:
        finish(unit, student)
        turn.end()

    def convert_notebooks() -> None:
        try:
            run()
        finally:
            turn.give_up()

    converter.init_destination = init_destination
    converter.set_permissions = set_permissions
    converter.convert_notebooks = convert_notebooks


def is_unfinished(folder: Path) -> bool:
    """Whether a grader has begun with a submission, whose graded form lies in `folder`, and has not ended."""
    with suppress(OSError):
        return _mark(folder).stat().st_size > 0
    return False


def _mark(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.being-graded"


class _Turn:
    """The right to work on one submission. What is written into its file stays there if the process is killed.

    Where there are no locks, on Windows or on some network drives, everybody may begin.
    """

    def __init__(self, path: Path | None):
        self.path, self.taken, self.interrupted = path, True, False
        self._file = -1
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if sys.platform != "win32":
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.taken = False
                self.give_up()
                return
            except OSError:  # a file system without locks
                pass
        self.interrupted = os.fstat(self._file).st_size > 0

    def begin(self) -> None:
        """To be called before the submission's folder is written in."""
        os.ftruncate(self._file, 0)
        os.write(self._file, b"being graded\n")

    def end(self) -> None:
        """The submission is as it should be."""
        if self.path and self._file >= 0:
            with suppress(OSError):
                self.path.unlink()
        self.give_up()

    def give_up(self) -> None:
        """Let others begin."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _find_notebooks(converter: Autograde) -> dict[str, Path]:
    """Let each submission hold the unit's notebook, whatever it was handed in as; one without any gets no points."""
    start: Callable[[str, str], None] = converter.init_assignment
    handed_in: dict[str, Path] = {}
    course = converter.coursedir
    for unit in sorted({Path(folder).name for folder in converter.assignments}):
        for folder in glob.glob(converter._format_source(unit, course.student_id)):
            if os.path.isdir(folder) and course.notebook_id == "*":
                converter.assignments.setdefault(folder, [])

    def init_assignment(unit: str, student: str) -> None:
        folder = Path(converter._format_source(unit, student))
        solutions = Path(course.format_path(course.source_directory, ".", unit)).glob("*.ipynb")
        for solution in [] if course.notebook_id != "*" else sorted(solutions):
            path = folder / solution.name
            if str(path) in converter.notebooks:
                continue
            converter.notebooks = [*converter.notebooks, str(path)]  # nbgrader sees none in a folder named "a [b]"
            if not os.path.lexists(path) and (found := notebook_in(folder, solution)):
                converter.log.warning("%s: there is no such notebook; %s was graded.", path, found.relative_to(folder))
                handed_in[str(path)] = found
        start(unit, student)

    converter.init_assignment = init_assignment
    return handed_in


def notebook_in(folder: Path, solution: Path) -> Path | None:
    """The file that holds a submission's notebook, whatever it was handed in as; None if there is none."""
    path = folder / solution.name
    return path if os.path.lexists(path) else _most_alike(folder, solution)


def _most_alike(folder: Path, solution: Path) -> Path | None:
    """The notebook in a submission's folder that has the most cells of a unit; None if none has any."""
    names = _cell_names(solution)
    others = {path for path in folder.rglob("*") if ".ipynb" in path.name.lower() and is_plain(path)}
    others = {path for path in others if not any(part.startswith(".") for part in path.relative_to(folder).parts)}
    counts = {path: len(names & _cell_names(path)) for path in sorted(others) if path.is_file()}
    best = max(counts, key=counts.__getitem__, default=None)
    return best if best and counts[best] else None


def _cell_names(path: Path) -> set[str]:
    try:
        cells = read_notebook(path).cells
    except UnreadableNotebook:
        return set()
    return {name for cell in cells for name in (nbgrader_metadata(cell).get("grade_id"), cell.id) if name}
