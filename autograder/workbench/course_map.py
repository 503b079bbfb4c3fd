"""The map of the course in the terminal: a line for each unit, with its points by task."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .progress import Next, State, UnitProgress, totals

_STYLE = {State.DONE: "green", State.BEGUN: "yellow", State.NOT_BEGUN: "dim"}
_EARNED, _MISSING = "█", "░"


def print_map(console: Console, course: Sequence[UnitProgress], ahead: Next | None) -> None:
    """The map, the sum, and the one thing to do next with the command for it."""
    rows = [(progress, _bar(progress), _points(progress)) for progress in course]
    rest = sum(max(len(row[i]) for row in rows) for i in (1, 2)) + len("00") + len(State.NOT_BEGUN) + 4 * 2
    title_width = max(12, min(max(len(progress.unit.title) for progress in course), console.width - rest))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for width in (len("00"), title_width, None, None, len(State.NOT_BEGUN)):
        table.add_column(width=width, no_wrap=True)
    table.columns[1].no_wrap = False  # where a title has no room, it goes on below
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
