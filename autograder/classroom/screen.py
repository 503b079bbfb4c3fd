"""What a person sees while a class is graded, and at the end."""

import csv
import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

_EVERY = 60  # seconds between two lines of progress, where nobody watches
_SHOWN = 6  # submissions that are named as being run; there may be hundreds


@dataclass(frozen=True)
class Row:
    """One submission in the table. `points` is None if it has no grade; `seconds` if it was not run this time.

    reduced: how it was graded, if that was in a reduced box.
    """

    unit: str
    student: str
    points: float | None
    possible: float
    seconds: float | None
    note: str
    reduced: str = ""


class Screen:
    """Progress and lines as they come; `with Screen(...) as screen:`. Where nobody watches, only lines."""

    def __init__(self, console: Console, total: int):
        self.console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            refresh_per_second=4,
            transient=True,
            speed_estimate_period=600,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("no workers yet", total=total)
        self._on: dict[str, str] = {}  # worker -> what it runs
        self._lock = threading.Lock()  # of these: what begins is told by another thread
        self._workers, self._told = 0, False
        self._graded, self._total, self._said = 0, total, time.monotonic()

    def __enter__(self) -> "Screen":
        self._progress.start()
        return self

    def __exit__(self, *exception) -> None:
        self._progress.stop()

    def started(self, order: str, worker: str) -> None:
        """A worker, named as `run` names it, has begun with an order."""
        with self._lock:
            self._on[worker] = order
        self._describe()

    def workers(self, count: int) -> None:
        """So many workers are there now."""
        if count == 0 and not self._told:
            self.line("There are no workers yet; they may come at any time.")
            self._told = True
        if count != self._workers:
            self._workers = count
            self._describe()

    def done(self, order: str) -> None:
        """An order is graded."""
        with self._lock:
            self._on = {worker: other for worker, other in self._on.items() if other != order}
        self._progress.advance(self._task)
        self._describe()
        self._graded += 1
        if self._progress.disable and self._graded < self._total and time.monotonic() - self._said >= _EVERY:
            self._said = time.monotonic()
            self.line(f"{self._graded} of {self._total} graded")

    def line(self, text: str) -> None:
        """A line above the bar."""
        self.console.print(escape(text), soft_wrap=True, highlight=False)

    def _describe(self) -> None:
        with self._lock:
            on = [(order, worker.split()[0]) for worker, order in self._on.items()]
        several = len({machine for _, machine in on}) > 1
        names = sorted(f"{order} on {machine}" if several else order for order, machine in on)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        text = f"{', '.join(names[:_SHOWN])}{more}" if names else ("waiting" if self._workers else "no workers yet")
        self._progress.update(self._task, description=escape(text))


def table(rows: list[Row]) -> Table:
    """All submissions with their points, what went wrong, and how long each took."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("student", "left"), ("unit", "left"), ("points", "right"), ("of", "right")):
        shown.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    shown.add_column("seconds", justify="right")
    some_reduced = any(row.reduced for row in rows)
    if some_reduced:
        shown.add_column("box")
    shown.add_column("what went wrong", overflow="fold")
    for row in rows:
        points = "no grade" if row.points is None else f"{row.points:g}"
        seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
        style = "red" if row.points is None else "yellow" if row.note else ""
        box = ["reduced" if row.reduced else ""] if some_reduced else []
        cells = (row.student, row.unit, points, f"{row.possible:g}", seconds, *box, row.note)
        shown.add_row(*map(escape, cells), style=style)
    return shown


def write_csv(rows: list[Row], path: Path) -> None:
    """The table for a learning management system: one line a submission. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "unit", "points", "of", "percent", "note"])
        for row in rows:
            points = "" if row.points is None else f"{row.points:g}"
            share = "" if row.points is None or not row.possible else math.floor(1000 * row.points / row.possible) / 10
            cells = [row.student, row.unit, points, f"{row.possible:g}", share, row.note]
            writer.writerow([_no_formula(str(cell)) for cell in cells])
    new.replace(path)


def _no_formula(text: str) -> str:
    """A spreadsheet runs what begins like this, and a student's folder may be called anything."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
