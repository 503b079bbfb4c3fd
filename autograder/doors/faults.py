"""What went wrong while a submission ran, apart from its answers: in one line, with the points that it cost."""

from collections.abc import Iterator
from typing import NamedTuple

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.wording import printable

from .graded_notebook import is_graded, task_of

LEFT_OUT = "LeftOut"  # in a cell's metadata: what was not run of it, and why
# The errors that the grader itself writes into a cell, or into its metadata, and what a reader calls them.
TITLES = {
    "KernelDied": "The kernel died",
    "TimeLimit": "The time was over",
    "OutputLimit": "Too much was printed",
    "NotGraded": "Not graded",
    "NotAllowed": "A cell was left out",
    LEFT_OUT: "A part of a cell was left out",
    "NotRun": "A check was not run to its end",
    "NotJudged": "A check could not be judged",
}
NOT_RUN = "not run"  # how the error of a cell begins that suffers for another


class Fault(NamedTuple):
    """The first fault of a submission, how many more there are, and what all of them cost."""

    title: str
    cell: str
    line: str
    others: int
    lost: float
    points: float

    @property
    def is_harmless(self) -> bool:
        """Whether what was left out has been missed by no check."""
        return self.title in (TITLES["NotAllowed"], TITLES[LEFT_OUT]) and not self.lost

    def told(self, why: str) -> str:
        """For the table of a class: what it cost and why."""
        return (
            f"{self.lost:g} of {self.points:g} points lost: {why}" if self.lost else f"no points lost, although {why}"
        )

    def __str__(self) -> str:
        others = "One more cell" if self.others == 1 else f"{self.others} more cells"
        more = f" {others} ended like that." if self.others else ""
        line = f"{self.line[:1].upper()}{self.line[1:]}" + ("" if self.line.endswith(("?", ".")) else ".")
        cost = f"{self.lost:g} of {self.points:g}" if self.lost else "no"
        return f"{line}{more} It cost {cost} points."


def end_in(cell: NotebookNode, name: str, line: str) -> None:
    """Let a cell end in an error of the grader's."""
    cell.outputs.append(new_output("error", ename=name, evalue=line, traceback=[f"{name}: {line}"]))


def cell_name(cell: NotebookNode) -> str:
    """What a cell is called in a message: nbgrader's name for it, or how it begins, as a terminal can show it."""
    begins = cell.source.strip().split("\n")[0][:40]
    return printable(str(cell.metadata.get("nbgrader", {}).get("grade_id") or begins))


def fault(notebook: NotebookNode) -> Fault | None:
    """What went wrong in an executed notebook; None for one that ran to its end."""
    cells = notebook.cells
    ours = [(index, *said) for index, cell in enumerate(cells) for said in _said(cell)]
    if not ours:
        return None
    causes = [(index, name, line) for index, name, line in ours if not line.startswith(NOT_RUN)] or ours[:1]
    tasks = {task_of(cells, index) for index, *_ in causes}
    graded = [index for index, cell in enumerate(cells) if is_graded(cell)]
    lost = [index for index in graded if _lost(cells, index, tasks)]
    costly = {task_of(cells, index) for index in lost}
    # The first that cost points.
    index, name, line = min(causes, key=lambda cause: task_of(cells, cause[0]) not in costly)
    points = [sum(_points(cells[index]) for index in some) for some in (lost, graded)]
    return Fault(TITLES[name], cell_name(cells[index]), line, len(causes) - 1, *points)


def _said(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """What the grader has noted of a cell: the name of each thing in `TITLES`, and a line."""
    yield from ((o.ename, o.evalue) for o in cell.get("outputs", []) if o.get("ename") in TITLES)
    if line := cell.metadata.get(LEFT_OUT):
        yield LEFT_OUT, line


def _lost(cells: list[NotebookNode], index: int, tasks: set[str]) -> bool:
    """Whether a check ended in an error of the grader's, or in any error behind one of its own task."""
    errors = [output for output in cells[index].outputs if output.output_type == "error"]
    return any(o.ename in TITLES for o in errors) or bool(errors and task_of(cells, index) in tasks)


def _points(cell: NotebookNode) -> float:
    return float(cell.metadata["nbgrader"].get("points", 0))
