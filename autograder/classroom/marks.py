"""What the points of a class say of its tasks: how hard each is, how well it tells students apart, where they fall."""

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from nbformat import NotebookNode

from autograder.doors.faults import TITLES
from autograder.doors.graded_notebook import failure_text, is_graded, nbgrader_metadata, not_begun, score, task_of
from autograder.doors.headings import TASK

from .copies import form


@dataclass
class Paper:
    """What one student has handed in: points by task, the first line of what each lost check said, and the answers.

    Answers are there by the name of their cell, in the form in which they are compared.
    """

    student: str
    points: dict[str, float] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return sum(self.points.values())


NOT_BEGUN = "not begun"


def read_paper(student: str, notebooks: Iterable[NotebookNode]) -> Paper:
    """Read off graded notebooks what each task earned, by nbgrader's rule."""
    notebooks = list(notebooks)
    paper = Paper(student, answers=forms(notebooks))
    graded = [(task_of(n.cells, i), cell) for n in notebooks for i, cell in enumerate(n.cells) if is_graded(cell)]
    for task, cell in graded:
        result = score(cell)
        paper.points[task] = paper.points.get(task, 0.0) + result.earned
        if result.earned < result.possible:
            line = NOT_BEGUN if not_begun(cell) else _first_line(cell, result.message)
            lines = paper.said.setdefault(task, [])
            if line not in lines:
                lines.append(line)
    return paper


def forms(notebooks: Iterable[NotebookNode]) -> dict[str, str]:
    """The answers by the names of their cells, as `copies` compares them."""
    cells = [(nbgrader_metadata(cell), cell) for notebook in notebooks for cell in notebook.cells]
    return {entry["grade_id"]: form(cell.source) for entry, cell in cells if entry.get("solution")}


def _first_line(cell: NotebookNode, message: str) -> str:
    """What a check says first, or of a traceback the last line: what was raised."""
    ours = next((o for o in cell.outputs if o.get("ename") in TITLES), None)
    if ours is not None:
        return TITLES[ours.ename]
    lines = [line.strip() for line in (failure_text(cell) or message).splitlines() if line.strip()]
    if not lines:
        return "no message"
    return lines[-1] if any("Traceback" in line for line in lines[:2]) else lines[0]


@dataclass(frozen=True)
class Task:
    """What the points of a class say of a task.

    title: what its exercise calls it; `name` is that of its answer's cell.
    possible: its points.
    shares: of each student, the share of them that was earned, from 0 to 1.
    solved: their mean, the share solved: 1 where everybody has everything.
    discrimination: the correlation of a student's points here with those in all other tasks, from -1 to 1; None where
      all have the same.
    falls: what the checks said, with the number of students, the most frequent first.
    """

    name: str
    title: str
    possible: float
    shares: list[float]
    solved: float
    discrimination: float | None
    falls: list[tuple[str, int]]


def tasks(papers: list[Paper], possible: dict[str, float], titled: dict[str, str] | None = None) -> list[Task]:
    """All tasks of a unit, in order, with their points and titles; there is one paper at least."""
    found = []
    for name, most in possible.items():
        earned = [paper.points.get(name, 0.0) for paper in papers]
        rest = [paper.total - points for paper, points in zip(papers, earned, strict=True)]
        falls = Counter(line for paper in papers for line in paper.said.get(name, []))
        shares = [points / most if most else 0.0 for points in earned]
        said = falls.most_common()
        title = (titled or {}).get(name, name)
        found.append(Task(name, title, most, shares, statistics.mean(shares), _correlation(earned, rest), said))
    return found


def _correlation(one: list[float], other: list[float]) -> float | None:
    try:
        return statistics.correlation(one, other)
    except statistics.StatisticsError:  # fewer than two, or all alike
        return None


def possible_points(graded: Iterable[NotebookNode]) -> dict[str, float]:
    """Task -> points of a unit, in order."""
    found: dict[str, float] = {}
    for notebook in graded:
        for index, cell in enumerate(notebook.cells):
            if is_graded(cell):
                task = task_of(notebook.cells, index)
                found[task] = found.get(task, 0.0) + float(cell.metadata.nbgrader["points"])
    return found


def titles(graded: Iterable[NotebookNode]) -> dict[str, str]:
    """Task -> what the heading above it calls it; of several answers below one heading, with the name of each."""
    above: dict[str, str] = {}
    for notebook in graded:
        title = ""
        for cell in notebook.cells:
            if cell.cell_type == "markdown" and (heading := TASK.search(cell.source)):
                title = heading[2]
            elif (entry := nbgrader_metadata(cell)).get("solution") and title:
                above[entry["grade_id"]] = title
    shared = {title for title, count in Counter(above.values()).items() if count > 1}
    return {name: f"{title}: {name}" if title in shared else title for name, title in above.items()}
