"""Back to the untouched text: of a notebook, or of the cells of one task. What was there is kept beside it."""

import copy
import json
from pathlib import Path
from typing import Any

from autograder.doors.kept_copies import BEFORE_RESET, FROM_THE_COURSE, names_beside
from autograder.doors.learner_record import Record, changed_record

from .bad_input import BadInput
from .outline import Task, Unit
from .room import text_digest, write_whole


def reset_notebook(room: Path, unit: Unit, place: Path) -> Path | None:
    """Make the notebook at `place` what the course hands out. Returns the copy of what was there.

    None if there was nothing to keep: it was gone, or its text was the course's. Raises OSError.
    """
    target, source = room / place, unit.course / place
    kept = keep(target) if target.exists() and text_digest(target) != text_digest(source) else None
    with changed_record(room) as record:
        write_whole(target, source.read_bytes())
        record.given[place.as_posix()] = text_digest(source)
        if place == unit.exercise:
            record.points.pop(unit.name, None)
            record.hints.pop(unit.name, None)
    return kept


def reset_task(room: Path, unit: Unit, task: Task) -> Path | None:
    """Make the cells of one task what the course hands out, and leave the others; a cell that is gone comes back.

    Returns the copy of what was there; None if these cells' text was the course's. Raises OSError, and `BadInput` if
    the notebook cannot be read.
    """
    target = unit.exercise_in(room)
    released = json.loads(unit.exercise_in(unit.course).read_bytes())["cells"]
    try:
        notebook = json.loads(target.read_bytes())
        cells: list[dict[str, Any]] = notebook["cells"]
        names = [_name(cell) for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError, FileNotFoundError):
        line = f"{target}: this notebook cannot be read; `course reset {int(unit.number)}` begins all of it anew."
        raise BadInput(line) from None
    untouched = True
    above = None  # the last of the released cells so far that the notebook has
    for original in released:
        name = _name(original)
        if name in task.cells:
            if name in names:
                at = names.index(name)
                untouched = untouched and _text(cells[at]) == _text(original)
                cells[at] = copy.deepcopy(original)
            else:
                untouched = False
                at = 0 if above is None else names.index(above) + 1
                cells.insert(at, copy.deepcopy(original))
                names.insert(at, name)
        if name in names:
            above = name
    kept = None if untouched else keep(target)
    with changed_record(room) as record:
        write_whole(target, (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode())
        _forget(record, unit, task)
    return kept


def put_beside(room: Path, unit: Unit, place: Path) -> Path:
    """Put the course's text beside the learner's own, which stays as it is. Returns where it lies. Raises OSError."""
    target = _free(room / place, FROM_THE_COURSE)
    write_whole(target, (unit.course / place).read_bytes())
    with changed_record(room) as record:  # the learner knows of this text now
        record.given[place.as_posix()] = text_digest(unit.course / place)
    return target


def keep(notebook: Path) -> Path:
    """A copy of the file beside it, whose name says when it was made. Raises OSError."""
    copied = _free(notebook, BEFORE_RESET)
    write_whole(copied, notebook.read_bytes())
    return copied


def _free(notebook: Path, why: str) -> Path:
    """A name beside the notebook that no file has."""
    return next(path for path in names_beside(notebook, why) if not path.exists())


def _text(cell: dict[str, Any]) -> tuple[str, str]:
    return cell["cell_type"], "".join(cell["source"])


def _name(cell: dict[str, Any]) -> str:
    """The name by which nbgrader knows a cell, or else its id."""
    entry = cell["metadata"].get("nbgrader")
    return entry["grade_id"] if isinstance(entry, dict) and "grade_id" in entry else cell.get("id", "")


def _forget(record: Record, unit: Unit, task: Task) -> None:
    """Points are those of the text that is there; hints begin anew with it."""
    for of_unit in (record.points, record.hints):
        for name in task.cells:
            of_unit.get(unit.name, {}).pop(name, None)
