"""What `nbgrader autograde` does around each submission, made to bear what is handed in, and a grader that is killed.

Left to itself, nbgrader ends the whole run at a time stamp that is no time, gives no grade to a notebook of another
name or to a folder without one, reads a folder's name as a pattern, so that `a[b]` is graded for what `ab` handed in,
and takes a submission at which a grader was killed for a graded one. Everything here is put around methods of its
converter, for which it has no extension point.
"""

import glob
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.converters.base import BaseConverter

from autograder.wording import count

from .handed_in import BESIDE, PassedOver, files_beside, make_readable, notebook_in, passed_over, student_folders
from .register_units import graded_form, released_form

if sys.platform != "win32":
    import fcntl


class HandedIn(NamedTuple):
    """Of a submission in which more or other notebooks lie than the one that should: what was graded, what was not."""

    graded: Path
    beside: PassedOver | None


def bear_everything(converter: Autograde) -> dict[str, HandedIn]:
    """Prepare a converter that has found its submissions, before it begins with the first one.

    Returns:
      of each notebook that has another name, or another beside it, what was handed in; more come as the run goes on.
    """
    _forgive_times(converter)
    _copy_what_may_be_needed(converter)
    _take_turns(converter)
    return _find_notebooks(converter)


def make_everybodys_page(converter: GenerateFeedback) -> None:
    """Prepare a converter that has found the graded submissions, before it begins with the first page.

    Nothing is copied from beside a graded notebook: a page shows no other file, and nbgrader's way to leave the graded
    notebooks out, hidden tests in them, fails in a folder whose name has brackets.
    """
    course = converter.coursedir
    for folder in glob.glob(converter._format_source(course.assignment_id, course.student_id)):
        if found := _notebooks_right_in(folder, converter):
            converter.assignments[folder] = found
        else:  # what nbgrader has found is another's
            converter.assignments.pop(folder, None)
    converter.init_assignment = lambda unit, student: None


def why_no_submission(folder: str | Path) -> str:
    """Why nobody is graded for what lies in `submitted/` in the place of a submission; empty if somebody is."""
    path = str(folder)
    if any(part.startswith(".") and part != ".." for part in Path(path).parts[-2:]):
        return "the name of a student must not begin with a dot; rename the folder"
    if os.path.islink(folder):
        return "this is a link, which is not followed"
    if not os.path.isdir(folder):
        return "this is a file, where a folder with the notebook in it should be"
    if "__MACOSX" in Path(path).parts:
        return "this is no student's; macOS puts such a folder into its archives"
    if "\n" in path or path != path.encode("utf-8", "replace").decode():
        return "no gradebook and no page can hold this name of a student; rename the folder"
    return ""


def _forgive_times(converter: Autograde) -> None:
    """Let a time stamp that is none be as if it were missing; nbgrader would leave all students after it ungraded."""
    course = converter.coursedir  # one for a whole class, where each submission has a converter of its own
    read: Callable = partial(type(course).get_existing_timestamp, course)

    def get_existing_timestamp(folder: str):
        try:
            return read(folder)
        except (SystemExit, Exception):
            converter.log.warning("%s/timestamp.txt: this is no time, and is not looked at.", folder)
            return None

    course.get_existing_timestamp = get_existing_timestamp


def _copy_what_may_be_needed(converter: Autograde) -> None:
    """Let `files_beside` say what is copied of a submission. nbgrader copies all that lies there, links followed."""
    start: Callable[[str, str], None] = converter.init_assignment

    def init_assignment(unit: str, student: str) -> None:
        folder, to = converter._format_source(unit, student), converter._format_dest(unit, student)
        ignored = converter.coursedir.ignore
        files = files_beside(folder, ignored)
        for path in files.taken:
            target = os.path.join(to, os.path.relpath(path, folder))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(target)  # of an earlier run; it can only be read
            shutil.copyfile(path, target, follow_symlinks=False)
        if files.left_out:
            line = "%s: %d of %d files beside the notebook left out: they cannot be read, or all are over %d MB."
            total = len(files.taken) + files.left_out
            converter.log.warning(line, folder, files.left_out, total, BESIDE >> 20)
        # A pattern that is a whole path fits this folder alone: nbgrader copies nothing of it by itself.
        converter.coursedir.ignore = [*ignored, glob.escape(folder)]
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
    turn, graded = _Turn(None), Path()

    def leave() -> None:
        if turn.begun and not os.path.lexists(graded):  # it failed, and nbgrader has removed what there was
            turn.end()
        turn.give_up()

    def init_destination(unit: str, student: str) -> bool:
        nonlocal turn, graded
        leave()
        folder = graded = Path(converter._format_dest(unit, student))
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
            leave()

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
        self.path, self.taken, self.interrupted, self.begun = path, True, False, False
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
        self.begun = True

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
        self._file, self.begun = -1, False


def _find_notebooks(converter: Autograde) -> dict[str, HandedIn]:
    """Let each submission hold the unit's notebook, whatever it was handed in as; one without any gets no points."""
    start: Callable[[str, str], None] = converter.init_assignment
    handed_in: dict[str, HandedIn] = {}
    releases: dict[Path, NotebookNode] = {}
    course = converter.coursedir
    for unit in sorted({Path(folder).name for folder in converter.assignments}):
        for folder in student_folders(converter._format_source(unit, course.student_id)):
            if course.notebook_id == "*":
                converter.assignments.setdefault(folder, [])
    for folder in list(converter.assignments):
        if why := why_no_submission(folder):
            converter.log.warning("%r: %s. It has no grade.", folder, why)  # one line, whatever the name is
            del converter.assignments[folder]
        else:
            wanted = [os.path.join(folder, solution.name) for solution in _solutions(converter, Path(folder).name)]
            converter.assignments[folder] = wanted or _notebooks_right_in(folder, converter)

    def init_assignment(unit: str, student: str) -> None:
        folder = Path(converter._format_source(unit, student))
        make_readable(folder)
        for solution in _solutions(converter, unit):
            if solution not in releases:
                releases[solution] = released_form(graded_form(solution, converter), converter)
            path = folder / solution.name
            found = notebook_in(folder, solution.name, releases[solution])
            if found is None:
                continue
            if found != path:
                why = "nothing in it is answered" if os.path.lexists(path) else "there is no such notebook"
                converter.log.warning("%s: %s; %r was graded.", path, why, str(found.relative_to(folder)))
            beside = passed_over(folder, found, releases[solution])
            if beside:
                line = "%s: %r, with answers to %s that this one lacks, was not graded."
                converter.log.warning(line, path, str(beside.path.relative_to(folder)), count(beside.tasks, "task"))
            if beside or found != path:
                handed_in[str(path)] = HandedIn(found, beside)
        start(unit, student)

    converter.init_assignment = init_assignment
    return handed_in


def _solutions(converter: Autograde, unit: str) -> list[Path]:
    """The notebooks of a unit that are to be graded; none for a folder that is no unit."""
    course = converter.coursedir
    folder = Path(course.format_path(course.source_directory, ".", unit))
    return sorted(folder.glob(f"{course.notebook_id}.ipynb"))


def _notebooks_right_in(folder: str, converter: BaseConverter) -> list[str]:
    """As nbgrader looks for them, but in this very folder: it reads the folder's name as a pattern as well."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), f"{converter.coursedir.notebook_id}.ipynb")))
