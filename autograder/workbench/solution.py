"""The course's own answer to a task, for who has all of its points."""

import re
from pathlib import Path

from autograder.doors.learner_record import read_record

from .bad_input import BadInput
from .outline import Task, Unit, cells_of

_MARKS = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[ \t]*\n?", re.MULTILINE)


def lacking(room: Path, unit: Unit, task: Task) -> str:
    """What is lacking before the solution opens, in one line; empty if nothing is."""
    points = read_record(room).points.get(unit.name, {})
    earned = sum(min(points[name].earned, possible) for name, possible in task.checks.items() if name in points)
    if earned >= task.points:
        return ""
    short = f"{int(unit.number)}/{task.number}"
    return (
        f"{short}, {task.title}, has {earned:g} of {task.points:g} points; the solution opens when it has all. "
        f"`course hint {short}` helps, and `course check {short}` counts anew."
    )


def answers(unit: Unit, task: Task) -> list[str]:
    """The solution of each cell that was to be filled in. Raises `BadInput` if the course has none here."""
    folder = unit.course / "solutions" / unit.name
    solved = {
        entry["grade_id"]: _MARKS.sub("", "".join(cell["source"])).rstrip()
        for cell in cells_of(folder / f"{unit.name[3:]}.ipynb")
        if isinstance(entry := cell["metadata"].get("nbgrader"), dict) and "grade_id" in entry
    }
    found = [solved[name] for name in task.answers if name in solved]
    if not found:
        raise BadInput(f"{folder} holds no solution of this task. `git pull` brings it.")
    return found
