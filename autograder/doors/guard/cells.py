"""The cells of one notebook: which of them are the student's, and what the guard says of these."""

from collections.abc import Iterator
from functools import lru_cache

from nbformat import NotebookNode

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata

from .course import Course, course_of
from .judge import Judged
from .parts import judge_in_parts


def course_in(notebook: NotebookNode, released: NotebookNode | None = None) -> Course:
    """What the locked cells of a notebook hold, and the other cells of `released`, which no student has changed."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    locked = [cell for cell in code if _locked(cell)]
    given = [] if released is None else [c.source for c in released.cells if c.cell_type == "code" and not _locked(c)]
    checks = [cell.source for cell in locked if is_graded(cell)]
    return _read(tuple(cell.source for cell in locked if not is_graded(cell)), tuple(checks), tuple(given))


@lru_cache(maxsize=64)
def _read(locked: tuple[str, ...], checks: tuple[str, ...], given: tuple[str, ...]) -> Course:
    """Of a class, once for each unit: the locked cells of all submissions are those of the release."""
    return course_of(locked, checks, given, given)


def _locked(cell: NotebookNode) -> bool:
    return bool(nbgrader_metadata(cell).get("locked"))


class Guard:
    """Judges the cells of a notebook before any of them is run.

    Arguments:
      notebook: a submission, brought back in line with its release.
      course: what the release holds; read from the notebook itself where no release is known.

    `checks` are the texts of graded cells, `given` those of the course's other cells that are locked: after these the
    kernel keeps anew what is in the course's things.
    """

    def __init__(self, notebook: NotebookNode, course: Course | None = None):
        self.course = course_in(notebook) if course is None else course
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.given = {cell.source for cell in code if not is_graded(cell) and _locked(cell)}
        self.checks = {cell.source for cell in code if is_graded(cell)}
        self._judged = judge_in_parts({cell.source for cell in notebook.cells if self.is_theirs(cell)}, self.course)

    def is_theirs(self, cell: NotebookNode) -> bool:
        """Whether a student may have written this cell."""
        return cell.cell_type == "code" and not _locked(cell) and cell.source not in self.course.released

    def judged(self, cell: NotebookNode) -> Judged | None:
        """What is to be done with a cell; None if it is the course's."""
        if not self.is_theirs(cell):
            return None
        if cell.source not in self._judged:  # it was added later
            self._judged |= judge_in_parts([cell.source], self.course)
        return self._judged[cell.source]

    def run(self) -> Iterator[Judged]:
        """What is said of those of the student's cells that are run."""
        return (judged for judged in self._judged.values() if judged.text)

    def as_run(self, text: str) -> str:
        """An unlocked cell as the kernel gets it, which knows cells by their texts: a copy is no original."""
        return text + "\n" if text in self.given | self.checks else text
