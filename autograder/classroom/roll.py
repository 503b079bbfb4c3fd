"""Who has handed in what, and which of it has no grade yet for this very text and release."""

import glob
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import find_all_files
from traitlets.config import LoggingConfigurable

from autograder.doors.graded_notebook import UnreadableNotebook, bytes_of, is_graded, read_notebook
from autograder.doors.handed_in import files_beside, is_plain, make_readable, notebook_in, student_folders
from autograder.doors.nbgrader_steps import origin
from autograder.doors.register_units import graded_form, released_form
from autograder.doors.run_submission import Conditions
from autograder.doors.submissions import is_unfinished, why_no_submission

from .execution import Order, Release


@dataclass(frozen=True)
class Submission:
    """What one student has handed in for one unit: a folder in the course."""

    unit: str
    student: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.student} {self.unit}"


class Unit:
    """A unit as it is graded now. Its steps take their configuration and their log from `parent`."""

    def __init__(self, name: str, course: CourseDirectory, parent: LoggingConfigurable):
        self.name, self.course = name, course
        folder = Path(course.format_path(course.source_directory, ".", name))
        self.solutions = sorted(folder.glob("*.ipynb"))
        self._solved = {path.stem: read_notebook(path) for path in self.solutions}
        self._graded = {path.stem: graded_form(path, parent) for path in self.solutions}
        self._released = {name: released_form(graded, parent) for name, graded in self._graded.items()}

    @cached_property
    def releases(self) -> dict[str, Release]:
        """Each notebook as texts, for a worker."""
        return {
            name: Release(*map(nbformat.writes, (self._solved[name], graded, self._released[name])))
            for name, graded in self._graded.items()
        }

    @property
    def graded(self) -> dict[str, NotebookNode]:
        """Each notebook with its hidden tests."""
        return self._graded

    @property
    def points(self) -> float:
        """All that it gives."""
        cells = [cell for notebook in self._graded.values() for cell in notebook.cells if is_graded(cell)]
        return sum(float(cell.metadata.nbgrader["points"]) for cell in cells)

    def submissions(self) -> list[Submission]:
        """All that was handed in for it, by student."""
        return [found for found in self._in_submitted() if not why_no_submission(found.folder)]

    def left_out(self) -> list[str]:
        """A line for each thing that lies where a submission should, and is none."""
        reasons = ((str(found.folder), why_no_submission(found.folder)) for found in self._in_submitted())
        return [f"{folder!r}: {why}. It has no grade." for folder, why in reasons if why]

    def _in_submitted(self) -> list[Submission]:
        course = self.course
        anybody = course.format_path(course.submitted_directory, "*", glob.escape(self.name))
        pattern = re.compile(
            course.format_path(course.submitted_directory, "(?P<student>.*)", re.escape(self.name), escape=True),
            re.DOTALL,
        )
        found = []
        for folder in sorted(student_folders(glob.escape(course.root) + anybody.removeprefix(course.root))):
            if match := pattern.fullmatch(folder):
                found.append(Submission(self.name, match["student"], Path(folder)))
        return found

    def notebooks(self, submission: Submission) -> dict[str, bytes]:
        """The notebooks of a submission that can be read as files, by the names that they should have."""
        found = {}
        make_readable(submission.folder)
        for solution in self.solutions:
            path = notebook_in(submission.folder, solution.name, self._released[solution.stem])
            if path is not None and is_plain(path):
                try:
                    found[solution.stem] = bytes_of(path)
                except UnreadableNotebook:
                    continue
        return found

    def order(self, submission: Submission, conditions: Conditions) -> Order:
        """What a worker is given."""
        notebooks = self.notebooks(submission)
        files = dict(self._files(submission)) if notebooks else {}
        return Order(self.name, submission.student, notebooks, files, self.releases, conditions)

    def _files(self, submission: Submission) -> Iterator[tuple[str, bytes]]:
        """What lies beside the notebook when nbgrader grades: the student's files, and over them the unit's."""
        theirs, ignored = str(submission.folder), self.course.ignore
        ours = self.course.format_path(self.course.source_directory, ".", self.name)
        for path in files_beside(theirs, ignored).taken:
            yield os.path.relpath(path, theirs), Path(path).read_bytes()
        for path in filter(is_plain, find_all_files(ours, [*ignored, "*.ipynb"])):
            yield os.path.relpath(path, ours), Path(path).read_bytes()

    def without_grade(self, submissions: list[Submission]) -> list[Submission]:
        """Those among them that have no grade for this very text and release."""
        with Gradebook(self.course.db_url, self.course.course_id) as gradebook:
            rows = gradebook.submission_dicts(self.name)
        graded = {row["student"] for row in rows if not row["needs_manual_grade"]}
        return [s for s in submissions if s.student not in graded or not self._is_of_this_text(s)]

    def _is_of_this_text(self, submission: Submission) -> bool:
        course = self.course
        folder = Path(course.format_path(course.autograded_directory, submission.student, self.name))
        if is_unfinished(folder):
            return False
        texts = self.notebooks(submission)
        return all(
            _graded_from(folder / f"{name}.ipynb") == origin(texts.get(name, b""), graded)
            for name, graded in self._graded.items()
        )


def _graded_from(path: Path) -> str:
    """What a graded notebook was made from, as its metadata say; empty if they do not, or if there is none."""
    try:
        return str(json.loads(path.read_bytes())["metadata"].get("graded_from", ""))
    except (OSError, ValueError, KeyError, AttributeError):
        return ""
