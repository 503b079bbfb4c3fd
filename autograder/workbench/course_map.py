"""The map of the course: a line for each unit, with its points by task. In the terminal, and as the first page."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .progress import Next, State, UnitProgress

_STYLE = {State.DONE: "green", State.BEGUN: "yellow", State.NOT_BEGUN: "dim"}
MARK = "<!-- Each `course` command writes this page anew. To keep a page of your own, take this line out. -->"
_EARNED, _MISSING = "█", "░"
_ON_PAPER = str.maketrans(_EARNED + _MISSING, "■□")  # a shade is a moiré in a browser


def print_map(console: Console, course: Sequence[UnitProgress], ahead: Next | None) -> None:
    """The map, the sum, and the one thing to do next with the command for it."""
    rows = [(progress, _bar(progress), _points(progress)) for progress in course]
    rest = sum(max(len(row[i]) for row in rows) for i in (1, 2)) + len("00") + len(State.NOT_BEGUN) + 4 * 2
    title_width = max(12, min(max(len(progress.unit.title) for progress in course), console.width - rest))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for width in (len("00"), title_width, None, None, len(State.NOT_BEGUN)):
        table.add_column(width=width, no_wrap=True, overflow="ellipsis")
    table.columns[3].justify = "right"
    for progress, bar, points in rows:
        style = _STYLE[progress.state]
        number, state = Text(progress.unit.number, style=style), Text(progress.state, style=style)
        table.add_row(number, Text(progress.unit.title), bar, points, state)
    console.print(table)
    earned, possible = totals(course)
    console.print(f"\n{earned:g} of {possible:g} points.", end=" ", highlight=False)
    if ahead is None:
        console.print("Everything is done.")
        return
    console.print("Next:", ahead.words, style="bold", markup=False, highlight=False)
    console.print(f"  course start {int(ahead.unit.number)}", markup=False, highlight=False)


def totals(course: Sequence[UnitProgress]) -> tuple[float, float]:
    """Points earned, and points there are."""
    return sum(progress.earned for progress in course), sum(progress.unit.points for progress in course)


def _points(progress: UnitProgress) -> str:
    return f"{progress.earned:g}/{progress.unit.points:g}" if progress.tasks else ""


def _bar(progress: UnitProgress) -> Text:
    """A block for each point, the tasks apart."""
    tasks = []
    for task, earned, state in progress.tasks:
        full = int(earned)
        missing = _STYLE[State.BEGUN if state is State.BEGUN else State.NOT_BEGUN]
        done = "green" if state is State.DONE else "yellow"
        tasks.append(Text.assemble((_EARNED * full, done), (_MISSING * (int(task.points) - full), missing)))
    return Text(" ").join(tasks)


def page(course: Sequence[UnitProgress], ahead: Next | None, room: Path) -> str:
    """The map as Markdown, for JupyterLab's preview: one click to each lesson and exercise."""
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
        cells = (
            unit.number,
            f"[{unit.title}]({unit.lesson.as_posix()})",
            exercise,
            _bar(progress).plain.translate(_ON_PAPER),
            points,
        )
        lines.append(f"| {' | '.join(cells)} | {progress.state} |")
    lines += [
        "",
        "This page is as new as your last `course` command; `!course` in a cell of a notebook shows this moment.",
    ]
    return "\n".join(lines) + "\n"
