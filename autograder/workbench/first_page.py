"""The room's first page, README.md: the map as Markdown, with one click to each lesson and exercise.

Written anew by each `course` command and after each check in a notebook. Nothing that takes long to import is needed.
"""

from collections.abc import Sequence
from pathlib import Path

from .bad_input import BadInput
from .outline import Unit
from .progress import Next, UnitProgress, next_thing, progress_in, totals
from .room import write_whole

NAME = "README.md"
MARK = "<!-- Checks and `course` commands write this page anew. To keep a page of your own, take this line out. -->"
# As earlier versions began: such a page is no page of the learner's own.
_MARKS = (MARK, "<!-- Each `course` command writes this page anew. To keep a page of your own, take this line out. -->")


def write_page(room: Path, units: Sequence[Unit]) -> list[UnitProgress]:
    """Make the first page anew, unless a page of the learner's own stands there. Returns what it was made of.

    Raises `BadInput`.
    """
    progress, target = progress_in(room, units), room / NAME
    text = page(progress, next_thing(room, progress), room).encode()
    try:
        old = target.read_bytes() if target.exists() else None
        if old is None or (old != text and old.startswith(tuple(mark.encode() for mark in _MARKS))):
            write_whole(target, text)
    except OSError as error:
        raise BadInput(f"{error.filename}: this cannot be written ({error.strerror}).") from None
    return progress


def page(course: Sequence[UnitProgress], ahead: Next | None, room: Path) -> str:
    """The map as Markdown, for JupyterLab's preview."""
    earned, possible = totals(course)
    lines = [MARK, "# Just in Time", ""]
    if ahead is not None:
        lines += [f"**Next:** [{ahead.words}]({ahead.place.relative_to(room).as_posix()})", ""]
    lines += [f"{earned:g} of {possible:g} points.", "", "## The units", ""]
    lines += ["| | lesson | exercise | by task | points | |", "|---|---|---|---|---|---|"]
    for progress in course:
        unit = progress.unit
        exercise, points = "", ""
        if unit.exercise is not None:
            exercise = f"[{unit.exercise.stem}]({unit.exercise.as_posix()})"
            points = f"{progress.earned:g} of {unit.points:g}"
        cells = (unit.number, f"[{unit.title}]({unit.lesson.as_posix()})", exercise, _bar(progress), points)
        lines.append(f"| {' | '.join(cells)} | {progress.state} |")
    lines += [
        "",
        "Each check that you run writes this page anew. Was it open all the while? Then *File, Reload Markdown File",
        "from Disk* shows this moment, and so does `!course` in a cell of a notebook.",
    ]
    return "\n".join(lines) + "\n"


def _bar(progress: UnitProgress) -> str:
    """A square for each point, the tasks apart."""
    return " ".join("■" * int(earned) + "□" * (int(task.points) - int(earned)) for task, earned, _ in progress.tasks)
