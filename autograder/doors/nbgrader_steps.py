"""The nbgrader door: what `nbgrader_config.py` puts into nbgrader's own lists."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import nbformat
from nbconvert.exporters import HTMLExporter, NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float, Integer, List, Unicode

from autograder.wording import count, printable

from .box.rules import Rules
from .faults import Fault, end_in, fault
from .graded_notebook import UnreadableNotebook, bytes_of, is_graded, parse_notebook, read_notebook
from .guard.course import Course
from .handed_in import is_plain
from .judge.table import judged_by
from .kernel_runner import CELL_SECONDS
from .register_units import graded_form, register, released_form
from .run_submission import NOTEBOOK_SECONDS, Conditions, in_line, run_submission
from .solved_programs import with_programs
from .submissions import HandedIn, bear_everything, make_everybodys_page


class SubmissionExporter(NotebookExporter):
    """Reads a submission, as every door does; one that is no notebook becomes an empty one, and is graded.

    nbgrader would print a traceback and leave the student without a grade and without feedback.

    nbgrader makes one exporter a run, before it asks the gradebook for the first unit: that is where the units that
    are to be graded are registered, so that nothing has to be generated before. Where students' code is to run in a box
    and none can be made, the run ends there.
    """

    def __init__(self, config=None, *, parent=None, **kwargs):
        super().__init__(config=config, parent=parent, **kwargs)
        self._handed_in: dict[str, HandedIn] = {}
        self.course: Course | None = None  # of the notebook that was restored last: nbgrader's resources do not last
        if isinstance(parent, Autograde):
            for step in parent.autograde_preprocessors:
                if isinstance(step, type) and issubclass(step, RunNotebook):
                    step(parent=parent).assert_possible()
            self._handed_in = bear_everything(parent)
            _tell_at_the_end(parent)
            for unit in sorted({Path(folder).name for folder in parent.assignments}):
                register(unit, parent.coursedir, self)

    def from_filename(self, filename, resources=None, **kwargs):
        """As in nbconvert: the notebook's text and the resources."""
        path = self._handed_in[filename].graded if filename in self._handed_in else Path(filename)
        resources = self._init_resources(resources)
        resources["metadata"] |= {"name": Path(filename).stem, "path": str(Path(filename).parent)}
        try:
            if not is_plain(path):
                raise UnreadableNotebook(f"{path}: this is a link or a device, and not a notebook.")
            data = bytes_of(path)
            resources["handed_in"] = data
            notebook = parse_notebook(data, path)
        except UnreadableNotebook as error:
            self.log.error("%s", printable(str(error)))
            # The student's page names the file, not where the instructor keeps it.
            notebook, resources["not_graded"] = new_notebook(), str(error).replace(str(path), path.name)
            if instead := _lies_instead_of(path):
                resources["not_graded"] += f" What was handed in: {', '.join(map(repr, instead[:3]))}."
        return self.from_notebook_node(notebook, resources=resources, **kwargs)

    def note_what_was_handed_in(self, notebook: NotebookNode, path: Path) -> None:
        """Note in the metadata of the notebook at `path`, for its page, which file was graded, and which was not."""
        found = self._handed_in.get(str(path))
        if found and found.graded != path:
            notebook.metadata["handed_in_as"] = _as_text(found.graded.relative_to(path.parent))
        if found and found.beside:
            other = _as_text(found.beside.path.relative_to(path.parent))
            line = f"{other}, with answers to {count(found.beside.tasks, 'task')} that are as released here."
            notebook.metadata["passed_over"] = line


def _lies_instead_of(path: Path) -> list[str]:
    """What a folder holds that should hold this file; nothing if it does, or if nobody may look into it."""
    with suppress(OSError):
        return [] if os.path.lexists(path) else sorted(os.listdir(path.parent))
    return []


def _as_text(path: Path) -> str:
    """The name of a file. Not every one is text, and the page and the graded notebook are."""
    return str(path).encode(errors="replace").decode()


class FeedbackExporter(HTMLExporter):
    """Makes a page for every student, however the folder is called: nbgrader makes one exporter a run."""

    def __init__(self, config=None, *, parent=None, **kwargs):
        super().__init__(config=config, parent=parent, **kwargs)
        if isinstance(parent, GenerateFeedback):
            make_everybodys_page(parent)


def origin(handed_in: bytes, graded: NotebookNode) -> str:
    """A name for what a grade was given for: a submission's notebook as it was handed in, and the graded unit."""
    return hashlib.sha256(nbformat.writes(graded).encode() + b"\0" + handed_in).hexdigest()


def _solution(entry: dict) -> Path:
    """The solution's notebook, from what nbgrader says of a submission; nbgrader runs in the course's folder."""
    return Path("solutions", entry["assignment"], f"{entry['notebook']}.ipynb")


class RestoreRelease(NbGraderPreprocessor):
    """Bring a submission back in line with the release, and put the hidden tests in.

    It does the work of nbgrader's OverwriteKernelspec and OverwriteCells, which keep metadata and warn of each cell
    with hidden tests, and of DeduplicateIds, after which a copied cell stops the whole class (nbgrader issue 1083).
    """

    def preprocess(self, nb, resources):
        """As in the parent class."""
        graded = graded_form(_solution(resources["nbgrader"]), self)
        changes, course = in_line(nb, graded, released_form(graded, self))
        nb.metadata["graded_from"] = origin(resources.get("handed_in", b""), graded)
        path = Path(resources["metadata"]["path"], f"{resources['nbgrader']['notebook']}.ipynb")
        if isinstance(self.parent, SubmissionExporter):
            self.parent.course = course
            self.parent.note_what_was_handed_in(nb, path)
        if "not_graded" in resources:
            nb.metadata["not_graded"] = resources["not_graded"]  # for `RunNotebook`, and for the page
        elif changes:
            nb.metadata["not_as_released"] = changes  # for the page
            self.log.warning("%s: not as released: %s", path, ", ".join(changes))
        return nb, resources


class RunNotebook(NbGraderPreprocessor):
    """Execute a submission in a box, and give the points that the pytest door gives, except where the clock decides:

    nbgrader sets NBGRADER_EXECUTION to "autograde", and then 0.8 of a bar is enough (see `speedup`).

    nbgrader's own Execute gives no grade at all when a kernel dies; here every other task keeps its points.
    """

    seconds = Float(CELL_SECONDS, help="time limit of each cell in seconds").tag(config=True)
    budget = Float(NOTEBOOK_SECONDS, help="time limit of the whole notebook in seconds").tag(config=True)
    box = Bool(True, help="run students' code in a box; without one it runs with your rights").tag(config=True)
    reduced = Bool(True, help="let a reduced box do where bubblewrap can make none; else nothing is graded there").tag(
        config=True
    )
    guard = Bool(True, help="leave out cells that use what no answer needs (see autograder/THREATS.md)").tag(
        config=True
    )
    programs = Bool(True, help="compile what the solution compiles once, and not for each student").tag(config=True)
    judge = Bool(True, help="run checks in a kernel of their own where they can be (see autograder/THREATS.md)").tag(
        config=True
    )
    rooms = Unicode(help="a table like autograder/doors/judge/rooms.csv, of units of your own").tag(config=True)
    memory = Float(Rules.memory, help="GiB of memory in the box").tag(config=True)
    disk = Float(Rules.disk, help="GiB of files in the box; they lie in memory").tag(config=True)
    processes = Integer(Rules.processes, help="processes in the box").tag(config=True)
    devices = List(Unicode(), help="devices that are in the box as well, such as /dev/nvidia0").tag(config=True)

    @property
    def conditions(self) -> Conditions:
        """What the options above say. Raises ValueError for a table of `rooms` that is none."""
        limits = Rules(
            self.memory,
            self.disk,
            self.processes,
            devices=tuple(self.devices),
            programs=not self.guard,
            reduced=self.reduced,
        )
        return Conditions(
            self.seconds,
            self.budget,
            limits if self.box else None,
            self.guard,
            self.programs,
            self.judge,
            judged_by(Path(self.rooms)) if self.rooms else frozenset(),
        )

    def assert_possible(self) -> None:
        """Say what to do where students' code would have to run without a box, or in a reduced one.

        Raises NbGraderException where there is none, or where another option says what cannot be.
        """
        try:
            box = self.conditions.box
        except ValueError as error:
            self.log.error("Nothing was graded: %s", error)
            raise NbGraderException(str(error)) from None
        if box and (why := box.why_not()):
            line = (
                f"Nothing was graded: students' code runs in a box, and this machine can make none: {why}. "
                "To let it run with your rights, say --RunNotebook.box=False."
            )
            self.log.error(line)
            raise NbGraderException(line)
        if box and (line := box.notice()):
            self.log.warning(line)

    def fill_in(self, nb: NotebookNode, resources: dict) -> None:
        """Execute a submission's notebook in place, or note in its metadata why it is not graded."""
        under, entry = self.conditions, resources.get("nbgrader")
        if under.box and under.programs and entry:
            solution = read_notebook(_solution(entry))
            under = replace(under, box=with_programs(under.box, entry["assignment"], solution, self.log.info))
        run_submission(nb, Path(resources["metadata"]["path"]), under, getattr(self.parent, "course", None))

    def tell(self, found: Fault, why: str, entry: dict) -> None:
        """Note that something went wrong in a submission apart from its answers."""
        _faults.append((entry["student"], entry["assignment"], f"{found.lost:g} of {found.points:g}", why))

    def preprocess(self, nb, resources):
        """Fill in the outputs of every code cell, and how they came about."""
        if "not_graded" not in nb.metadata:
            self.fill_in(nb, resources)
        if "not_graded" in nb.metadata:
            for cell in filter(is_graded, nb.cells):
                cell.outputs = []
                end_in(cell, "NotGraded", "it was not run")
        if (found := fault(nb)) and not found.is_harmless and (entry := resources.get("nbgrader")):
            why = nb.metadata.get("not_graded") or f"{found.title.lower()} in {found.cell}"
            self.tell(found, printable(why), entry)
        return nb, resources


_faults: list[tuple[str, str, str, str]] = []  # of this run: student, unit, points lost, why


def _tell_at_the_end(converter: Autograde) -> None:
    """Let the run end with a table of the submissions in which something went wrong, apart from their answers.

    nbgrader has a place for what is done after each submission, and none for what is done after the last.
    """
    convert: Callable[[], None] = converter.convert_notebooks

    def convert_and_tell() -> None:
        _faults.clear()
        try:
            convert()
        finally:
            if _faults:
                head = ("student", "unit", "points lost", "what went wrong")
                widths = [max(map(len, column)) for column in zip(head, *_faults, strict=True)]
                rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *_faults)]
                converter.log.warning("These submissions did not run to their end:\n%s", "\n".join(rows))

    converter.convert_notebooks = convert_and_tell
