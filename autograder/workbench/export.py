"""The learner's own record, for a table or for another program."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder.doors.learner_record import read_record

from .bad_input import BadInput
from .outline import Unit
from .room import write_whole

COLUMNS = ("unit", "task", "title", "points", "of", "when")


def rows(room: Path, units: Sequence[Unit]) -> list[dict[str, Any]]:
    """A row for each task: its points, of how many, and when its checks ran last (UTC, ISO 8601; empty if never)."""
    record, found = read_record(room), []
    for unit in units:
        points = record.points.get(unit.name, {})
        for task in unit.tasks:
            ran = {name: points[name] for name in task.checks if name in points}
            earned = sum(min(entry.earned, task.checks[name]) for name, entry in ran.items())
            when = max((entry.when for entry in ran.values()), default="")
            values = (unit.name, task.number, task.title, _plain(earned), _plain(task.points), when)
            found.append(dict(zip(COLUMNS, values, strict=True)))
    return found


def _plain(points: float) -> float:
    """4 for 4.0: whole points are written in one form."""
    return int(points) if points == int(points) else points


def as_json(table: list[dict[str, Any]]) -> str:
    """The rows as JSON."""
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def as_csv(table: list[dict[str, Any]]) -> str:
    """The rows as CSV, with a line of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def write(table: list[dict[str, Any]], file: Path, force: bool) -> None:
    """Write the rows as the file's name asks. Raises `BadInput`."""
    form = {".json": as_json, ".csv": as_csv}.get(file.suffix.lower())
    if form is None:
        raise BadInput(f"{file}: the name must end in .json or .csv.")
    if file.exists() and not force:
        raise BadInput(f"{file} exists already. Say another name, or --force to write over it.")
    try:
        write_whole(file, form(table).encode())
    except OSError as error:
        raise BadInput(f"{file}: this cannot be written ({error.strerror}).") from None
