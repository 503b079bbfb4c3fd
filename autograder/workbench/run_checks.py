"""Runs the checks of a learner's notebook, as the pytest door does, and notes the points."""

from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from autograder.doors.checked_notebook import CheckedNotebook
from autograder.doors.graded_notebook import UnreadableNotebook, not_begun, score
from autograder.doors.learner_record import note_points

from .bad_input import BadInput
from .outline import Task, Unit


class Checked(NamedTuple):
    """What the checks of one task gave. `message` is that of the first that failed; empty if the task is not begun."""

    task: Task
    earned: float
    begun: bool
    message: str


def run_checks(unit: Unit, notebook: Path, tasks: Sequence[Task], seconds: float) -> Generator[Checked, None, None]:
    """Run the checks of these tasks in one kernel, one task after the other; the points go into the room's record.

    The notebook is not written. Raises `BadInput` if it cannot be read.
    """
    try:
        checked = CheckedNotebook(notebook, unit.exercise_in(unit.course), guarded=True, seconds=seconds)
    except UnreadableNotebook as error:
        raise BadInput(f"{error} `course reset {int(unit.number)}` begins it anew.") from None
    places = dict(checked.graded)
    with checked:
        for task in tasks:
            points, messages, begun = {}, [], False
            for name in task.checks:
                cell = checked.check(places[name])
                result = score(cell)
                points[name] = (result.earned, result.possible)
                if not not_begun(cell):
                    begun = True
                    messages.append(result.message)
            note_points(notebook, points)
            message = next(filter(None, messages), "")
            yield Checked(task, sum(earned for earned, _ in points.values()), begun, message)


def print_checks(console: Console, unit: Unit, notebook: Path, tasks: Sequence[Task], seconds: float) -> bool:
    """Run the checks of these tasks and print a line for each, then the message of the first that failed.

    Returns whether every point was earned. Raises `BadInput` if the notebook cannot be read.
    """
    console.print(f"{unit.number} · {unit.title}", style="bold", markup=False, highlight=False)
    results: list[Checked] = []
    width = max(len(task.title) for task in tasks)
    # Closed here, whatever happens: a kernel that is ended when Python ends waits for threads that are gone.
    with closing(run_checks(unit, notebook, tasks, seconds)) as running:
        for task in tasks:
            with console.status(f"task {task.number}: {task.title}"):
                result = next(running)
            results.append(result)
            console.print(_line(result, width), no_wrap=True, overflow="ellipsis")
    failed = next((result for result in results if result.message), None)
    if failed is not None:
        console.print(f"\nTask {failed.task.number}, {failed.task.title}:", markup=False, highlight=False)
        console.print(failed.message, markup=False, highlight=False, soft_wrap=True)
    earned, possible = sum(result.earned for result in results), sum(task.points for task in tasks)
    console.print(f"\n{earned:g} of {possible:g} points.", highlight=False)
    return earned >= possible


def _line(result: Checked, width: int) -> Text:
    """`✗ 2  The detective   1/3  f(2) is 3, not 4`."""
    task = result.task
    if result.earned >= task.points:
        sign, style, said = "✓", "green", ""
    elif not result.begun:
        sign, style, said = "·", "dim", "not begun"
    else:
        sign, style, said = "✗", "red", _headline(result.message)
    points = f"{result.earned:g}/{task.points:g}"
    return Text.assemble(
        (f"{sign} {task.number}  {task.title:<{width}}  {points:>6}", style), ("  " + said if said else "")
    )


def _headline(message: str) -> str:
    """What a check says first, or a traceback last."""
    lines = message.strip().split("\n")
    return lines[-1] if "Traceback (most recent call last)" in lines[0] else lines[0].removeprefix("✗ ")
