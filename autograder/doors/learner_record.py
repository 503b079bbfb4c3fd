"""What the course remembers of a learner: one small file in the learner's room, which every door writes to.

    {"given":  {"lessons/05_the_cache.ipynb": "<digest of the text that was put there>"},
     "points": {"05_the_cache": {"lambda-loop-check": [3, 3, "2026-01-31T18:00:00+00:00"]}},
     "hints":  {"05_the_cache": {"lambda-loop": 2}}}

Removing it loses the memory of points and hints, and no work. It is read in every notebook of the room, so that nothing
heavy is imported here.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from .folder_lock import alone_in

FILE = ".course.json"
UNREADABLE = ".course.json.unreadable"


class Points(NamedTuple):
    """What a check gave when it ran last: points, of how many, and when, as ISO 8601 in UTC."""

    earned: float
    possible: float
    when: str


@dataclass
class Record:
    """The file's content; see the module."""

    given: dict[str, str] = field(default_factory=dict)
    points: dict[str, dict[str, Points]] = field(default_factory=dict)
    hints: dict[str, dict[str, int]] = field(default_factory=dict)

    def note(self, unit: str, points: Mapping[str, tuple[float, float]]) -> None:
        """Points of a unit's checks, earned and possible, as of now."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        its = self.points.setdefault(unit, {})
        its |= {check: Points(earned, possible, now) for check, (earned, possible) in points.items()}


def read_record(room: Path) -> Record:
    """The record of this room. It is empty where there is none, or none that can be read."""
    try:
        return _parsed(room)
    except (OSError, ValueError):
        return Record()


def is_readable(room: Path) -> bool:
    """Whether the room's file holds a record; true as well if there is no file."""
    try:
        _parsed(room)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def changed_record(room: Path) -> Iterator[Record]:
    """The record of this room, to be changed in this block; it is written when the block ends well.

    Two writers wait for each other, and a reader finds the file as it was before or after. A file that cannot be read
    is kept under another name. Raises OSError if the room cannot be written.
    """
    with alone_in(room):
        try:
            record = _parsed(room)
        except FileNotFoundError:
            record = Record()
        except ValueError:
            os.replace(room / FILE, room / UNREADABLE)
            record = Record()
        yield record
        beside = room / f"{FILE}.new"
        beside.write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
        os.replace(beside, room / FILE)


def place_of(notebook: Path) -> tuple[Path, str] | None:
    """The room and the unit that an exercise's notebook belongs to; None if it is none, or lies in no room."""
    folder = notebook.parent
    room = folder.parent.parent
    if folder.parent.name == "exercises" and folder.name[3:] == notebook.stem and (room / FILE).is_file():
        return room, folder.name
    return None


def note_points(notebook: Path, points: Mapping[str, tuple[float, float]]) -> None:
    """Note the points of an exercise's checks, earned and possible, if its notebook lies in a learner's room.

    A room that cannot be written is no reason to lose a check's message: nothing is noted then.
    """
    place = place_of(notebook)
    if place is not None:
        room, unit = place
        with suppress(OSError), changed_record(room) as record:
            record.note(unit, points)


def _parsed(room: Path) -> Record:
    """Raises OSError, and ValueError for a file that holds something else."""
    content = json.loads((room / FILE).read_text(encoding="utf-8"))
    try:
        return Record(
            {file: str(digest) for file, digest in content["given"].items()},
            {unit: {name: _points(entry) for name, entry in its.items()} for unit, its in content["points"].items()},
            {unit: {name: int(shown) for name, shown in its.items()} for unit, its in content["hints"].items()},
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{room / FILE} holds no record: {error}") from None


def _points(entry: Any) -> Points:
    earned, possible, when = entry
    return Points(float(earned), float(possible), str(when))
