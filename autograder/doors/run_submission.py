"""One submission is run: the code that `nbgrader autograde` and a worker that grades a whole class have in common."""

from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from .box.rules import Rules
from .fair_run import Alone, run_fairly
from .graded_notebook import restore
from .guard.cells import Guard, course_in
from .guard.course import Course
from .hidden_tests import hidden_output_dropped
from .judge.table import judged_in
from .judge.two_rooms import TwoRooms
from .kernel_runner import CELL_SECONDS, Runner
from .missing_names import explain_missing_names

NOTEBOOK_SECONDS = 900


@dataclass(frozen=True)
class Conditions:
    """Under which a submission is run: seconds for each cell and for all of them, the box, whether cells are judged.

    programs: whether the box has what was compiled for the unit's solution (see `solved_programs`).
    judge: whether checks that the table of `judge` names are run in a kernel of their own; only with a box.
    rooms: checks beyond that table, as `judged_by` gives them.
    """

    seconds: float = CELL_SECONDS
    budget: float = NOTEBOOK_SECONDS
    box: Rules | None = field(default_factory=Rules)
    guard: bool = True
    programs: bool = True
    judge: bool = True
    rooms: frozenset[tuple[str, str]] = frozenset()


def in_line(notebook: NotebookNode, graded: NotebookNode, released: NotebookNode) -> tuple[list[str], Course]:
    """Bring a submission back in line with its release, and put the hidden tests in.

    Arguments:
      notebook: as `read_notebook` gives it; it is changed.
      graded, released: the unit with its hidden tests and without them.

    Returns:
      what was put back, as `restore` says it, and what the release holds.
    """
    changes = restore(notebook, released)
    restore(notebook, graded)
    return changes, course_in(notebook, graded)


def run_submission(
    notebook: NotebookNode, folder: Path, under: Conditions, course: Course | None, alone: Alone = nullcontext
) -> None:
    """Fill in the outputs of every code cell of a notebook that is in line, and how they came about.

    Arguments:
      folder: what lies beside the notebook.
      course: what the release holds; read from the notebook itself where no release is known.
      alone: see `run_fairly`.
    """
    judged = judged_in(notebook, under.rooms) if under.judge and under.box else frozenset()
    with hidden_output_dropped(notebook), ExitStack() as stack:
        guard = Guard(notebook, course) if under.guard else None  # in here: it knows checks by their texts as they run
        runner = (
            TwoRooms(notebook, folder, under.seconds, under.box, guard, judged, course)
            if judged
            else Runner(notebook, folder, under.seconds, under.box, guard)
        )
        run_fairly(stack.enter_context(runner), under.budget, alone)
        explain_missing_names(notebook, guard)
    how = f"Graded in {under.box}." if under.box else "Graded without a box."
    notebook.metadata["boxed"] = f"{how} {runner.told}" if isinstance(runner, TwoRooms) else how
