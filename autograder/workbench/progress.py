"""Where the learner is: what is done, what is begun, and the one thing to do next."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from autograder.doors.learner_record import Points, Record, read_record

from .outline import Task, Unit, cells_of


class State(StrEnum):
    """Of a task or a unit."""

    DONE = "done"
    BEGUN = "begun"
    NOT_BEGUN = "not begun"


class TaskProgress(NamedTuple):
    """One task: the points of its checks when they ran last."""

    task: Task
    earned: float
    state: State


class UnitProgress(NamedTuple):
    """One unit. The first one has no tasks: it is done when its lesson has been run."""

    unit: Unit
    tasks: list[TaskProgress]
    state: State
    last: str  # when one of its checks ran last, as ISO 8601; empty if none has

    @property
    def earned(self) -> float:
        """Points."""
        return sum(task.earned for task in self.tasks)


class Next(NamedTuple):
    """The one thing to do next: in words, in which unit, and the notebook in the room."""

    words: str
    unit: Unit
    place: Path


def progress_in(room: Path, units: Sequence[Unit]) -> list[UnitProgress]:
    """How far each unit is, by the room's record and by what is written in the room's notebooks."""
    record = read_record(room)
    return [_unit_progress(room, unit, record) for unit in units]


def _unit_progress(room: Path, unit: Unit, record: Record) -> UnitProgress:
    if unit.exercise is None:
        done = State.DONE if lesson_was_run(room, unit) else State.NOT_BEGUN
        return UnitProgress(unit, [], done, "")
    points = record.points.get(unit.name, {})
    written = _answers_written(room, unit)
    tasks = [_task_progress(task, points, written) for task in unit.tasks]
    states = {task.state for task in tasks}
    state = states.pop() if len(states) == 1 else State.BEGUN
    last = max((entry.when for entry in points.values()), default="")
    return UnitProgress(unit, tasks, state, last)


def _task_progress(task: Task, points: dict[str, Points], written: set[str]) -> TaskProgress:
    earned = sum(min(points[name].earned, possible) for name, possible in task.checks.items() if name in points)
    if earned >= task.points:
        return TaskProgress(task, earned, State.DONE)
    begun = earned > 0 or not written.isdisjoint(task.answers)
    return TaskProgress(task, earned, State.BEGUN if begun else State.NOT_BEGUN)


def _answers_written(room: Path, unit: Unit) -> set[str]:
    """The cells to be filled in whose text in the room is another than the exercise's."""
    released, mine = _named_sources(unit.exercise_in(unit.course)), _named_sources(unit.exercise_in(room))
    return {name for name, source in mine.items() if source != released.get(name, source)}


def _named_sources(notebook: Path) -> dict[str, str]:
    found = {}
    for cell in cells_of(notebook):
        entry = cell["metadata"].get("nbgrader")
        if isinstance(entry, dict) and entry.get("solution"):
            found[entry.get("grade_id", "")] = "".join(cell["source"])
    return found


def lesson_was_run(room: Path, unit: Unit) -> bool:
    """Whether the lesson's copy in the room was run, at least in part, and saved."""
    return any(cell.get("execution_count") or cell.get("outputs") for cell in cells_of(room / unit.lesson))


def totals(course: Sequence[UnitProgress]) -> tuple[float, float]:
    """Points earned, and points there are."""
    return sum(progress.earned for progress in course), sum(progress.unit.points for progress in course)


def next_thing(room: Path, course: Sequence[UnitProgress]) -> Next | None:
    """The one thing to do next; None if everything is done.

    It is in the unit whose checks ran last, if that is not done; then in the first one after it; then in the first one.
    """
    latest = max(range(len(course)), key=lambda i: course[i].last, default=0)
    if not course[latest].last:
        latest = 0
    ahead = [progress for progress in (*course[latest:], *course[:latest]) if progress.state is not State.DONE]
    return next_in(room, ahead[0]) if ahead else None


def next_in(room: Path, progress: UnitProgress) -> Next:
    """The next thing in this unit: its lesson, as long as nothing in it was begun; then its first task not done."""
    unit = progress.unit
    lesson = Next(f"read the lesson {unit.number} · {unit.title}", unit, room / unit.lesson)
    if unit.exercise is None or (progress.state is State.NOT_BEGUN and not lesson_was_run(room, unit)):
        return lesson
    for task, _, state in progress.tasks:
        if state is not State.DONE:
            words = f"{unit.number} · {unit.title}, task {task.number}: {task.title} ({task.points:g} points)"
            return Next(words, unit, room / unit.exercise)
    return lesson
