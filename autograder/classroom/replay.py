"""The one writer of grades: nbgrader's own grading, which is given the executed notebook instead of running it."""

import glob
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.apps.baseapp import NbGrader
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config.loader import KVArgParseConfigLoader

from autograder.doors.faults import Fault
from autograder.doors.nbgrader_steps import RunNotebook
from autograder.doors.run_submission import Conditions

from .execution import Executed
from .roll import Submission


class Replay(RunNotebook):
    """Takes the outputs from the notebook that a worker has executed; where none has, it is not graded."""

    def assert_possible(self) -> None:
        """Students' code does not run here."""

    def fill_in(self, nb: NotebookNode, resources: dict) -> None:
        """As in the parent class. Raises NbGraderException if it is another notebook that was executed."""
        task = self._task
        if task.given_up:
            nb.metadata["not_graded"] = task.given_up
            return
        text = task.executed.get(resources["metadata"]["name"])
        executed = nbformat.reads(text, as_version=4) if text else nbformat.v4.new_notebook()
        if [_known_by(cell) for cell in executed.cells] != [_known_by(cell) for cell in nb.cells]:
            raise NbGraderException("the submission was changed while it was graded; it has no grade yet")
        for cell, done in zip(nb.cells, executed.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = done.outputs, done.execution_count
        nb.metadata["boxed"] = executed.metadata["boxed"]

    def tell(self, found: Fault, why: str, entry: dict) -> None:
        """As in the parent class."""
        self._task.faults.append((found, why))

    @property
    def _task(self) -> "_Task":
        converter = self.parent.parent
        assert isinstance(converter, _Autograde)
        return converter.task


def _known_by(cell: NotebookNode) -> tuple[str, str]:
    return cell.cell_type, cell.source


@dataclass
class _Task:
    """What a converter is to write, and what it has found."""

    folder: Path
    executed: dict[str, str]
    given_up: str
    faults: list[tuple[Fault, str]] = field(default_factory=list)


class _Autograde(Autograde):
    """nbgrader's, for one submission, however its folder is called."""

    task: _Task

    def init_notebooks(self) -> None:
        """As in the parent class, which reads the folder's name as a pattern."""
        found = sorted(glob.glob(f"{glob.escape(str(self.task.folder))}/*.ipynb"))
        self.assignments = {str(self.task.folder): found}


@dataclass(frozen=True)
class Written:
    """What became of a submission.

    fault: what went wrong in it apart from its answers, in one line; empty if nothing did.
    lines: what nbgrader warned of.
    failed: why it has no grade; empty if it has one.
    """

    fault: str = ""
    lines: tuple[str, ...] = ()
    failed: str = ""


class Course:
    """A course's folder as nbgrader knows it, with its `nbgrader_config.py` and further settings.

    Arguments:
      settings: as on nbgrader's command line, such as `--RunNotebook.memory=2`. Raises ValueError for another form.
    """

    def __init__(self, settings: list[str]):
        self._lines = _Lines()
        log = logging.getLogger("autograder.classroom")
        log.propagate, log.handlers = False, [self._lines]
        log.setLevel(logging.WARNING)
        app = NbGrader(log=log)
        app.load_config_file()
        try:
            app.update_config(KVArgParseConfigLoader(settings).load_config())
        except Exception as error:  # its parser raises many types
            raise ValueError(str(error)) from None
        steps = list(app.config.Autograde.get("autograde_preprocessors", []))
        if RunNotebook not in steps:
            raise ValueError("nbgrader_config.py does not grade as this course does: RunNotebook is missing.")
        app.config.Autograde.autograde_preprocessors = [Replay if s is RunNotebook else s for s in steps]
        self._app = app
        self.directory = CourseDirectory(parent=app)

    @property
    def parent(self) -> NbGrader:
        """What hands its configuration on to nbgrader's steps."""
        return self._app

    @property
    def conditions(self) -> Conditions:
        """Under which submissions are run. Raises TraitError for a setting of a wrong type."""
        return RunNotebook(parent=self._app).conditions

    def units(self) -> list[str]:
        """The names of all units."""
        places = glob.glob(self.directory.format_path(self.directory.source_directory, ".", "*"))
        return sorted(Path(place).name for place in places if glob.glob(f"{glob.escape(place)}/*.ipynb"))

    def write(self, submission: Submission, executed: Executed | None, given_up: str = "") -> Written:
        """Let nbgrader grade a submission, as if it had executed it itself. What is there of it is written anew.

        Arguments:
          executed: what a worker made of it; None if there was no notebook to run.
          given_up: why it is not graded, and gets no points, if it was given up.
        """
        self._lines.clear()
        converter = _Autograde(coursedir=self.directory, parent=self._app)
        converter.task = _Task(submission.folder, executed.notebooks if executed else {}, given_up)
        converter.force = True
        course = self.directory
        course.assignment_id, course.student_id = submission.unit, glob.escape(submission.student)
        failed = ""
        try:
            converter.start()
        except Exception as error:  # nbgrader's own, the gradebook's, the disk's
            failed = self._lines.reason() or f"{type(error).__name__}: {error}".splitlines()[0]
        lost = [found.told(why) for found, why in converter.task.faults]
        return Written("; ".join(lost), () if failed else tuple(self._lines.told()), failed)


class _Lines(logging.Handler):
    """Keeps the first line of each warning."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self._kept: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().strip()
        self._kept.append(
            (record.levelno, text.splitlines()[-1 if text.startswith("Traceback") else 0] if text else "")
        )

    def clear(self) -> None:
        self._kept = []

    def told(self) -> list[str]:
        """What an instructor should read. Errors, and that a submission is graded anew, are told otherwise."""
        warnings = (text for level, text in self._kept if level < logging.ERROR)
        return [text for text in warnings if not text.startswith("Removing existing")]

    def reason(self) -> str:
        """Why nbgrader gave a submission up."""
        errors = [text for level, text in self._kept if level >= logging.ERROR]
        own = (text for text in errors if not text.startswith(("There was an error", "Please see")))
        return re.sub(r"^[\w.]+: ", "", next(own, ""))  # the exception's type
