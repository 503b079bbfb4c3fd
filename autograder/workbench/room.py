"""The learner's room: a folder of their own with copies of the lessons and exercises, in the same places.

`git pull` brings new lessons and never a conflict, because nobody works in the course's own files. A copy that the
learner has not changed follows the course; one that was changed is the learner's, and is never written over.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from autograder.doors.learner_record import FILE, changed_record, read_record

from .bad_input import BadInput
from .outline import Unit

VARIABLE = "COURSE_WORK"
_OF_THE_COURSE = ("autograder", "benchmarks", "exercises", "lessons", "solutions", "web")


@dataclass
class Opened:
    """What opening the room has done. Files are named as they lie in the room."""

    made: bool = False
    refreshed: list[str] = field(default_factory=list)  # they follow the course's new text
    behind: list[str] = field(default_factory=list)  # they are the learner's, and the course has a new text


def room_of(course: Path) -> Path:
    """The folder of the learner's room: `work/` in the course, or what COURSE_WORK names; it may not exist yet.

    A relative COURSE_WORK starts in the course's folder, wherever the command is typed. Raises `BadInput`.
    """
    room = Path(os.path.abspath(course / Path(os.environ.get(VARIABLE) or "work").expanduser()))
    if room == course or any(room.is_relative_to(course / name) for name in _OF_THE_COURSE):
        raise BadInput(f"{VARIABLE} names {room}, which is the course's own. Name a folder outside of it.")
    return room


def open_room(course: Path, units: list[Unit]) -> Opened:
    """Make the room if it is not there, and bring its copies up to date. Raises `BadInput` if it cannot be written."""
    room, opened = room_of(course), Opened()
    try:
        opened.made = not (room / "lessons").is_dir()
        room.mkdir(parents=True, exist_ok=True)
        with changed_record(room) as record:
            for unit in units:
                for place in filter(None, (unit.lesson, unit.exercise)):
                    _bring_up(course / place, room / place, place.as_posix(), record.given, opened)
    except OSError as error:
        raise BadInput(
            f"{error.filename or room}: this cannot be written ({error.strerror}). "
            f"To work in another folder, set {VARIABLE}=FOLDER."
        ) from None
    return opened


def _bring_up(source: Path, target: Path, name: str, given: dict[str, str], opened: Opened) -> None:
    """Bring one copy up to date, unless the learner has changed it."""
    now = text_digest(source)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, source.read_bytes())
        given[name] = now
        return
    mine = text_digest(target)
    if mine == now or name not in given:  # without a record, what is there is taken for the learner's own
        given[name] = now
    elif mine == given[name]:
        write_whole(target, source.read_bytes())
        given[name] = now
        opened.refreshed.append(name)
    elif given[name] != now:
        opened.behind.append(name)


def copies_behind(course: Path, units: list[Unit]) -> dict[str, bool]:
    """The copies that are of an older text than the course's, and whether the learner has changed them.

    Nothing is written; `open_room` brings up to date what was not changed.
    """
    room = room_of(course)
    found = {}
    given = read_record(room).given
    for place in (place for unit in units for place in (unit.lesson, unit.exercise) if place):
        name, mine = place.as_posix(), room / place
        if mine.exists() and given.get(name, "") not in ("", text_digest(course / place)):
            found[name] = text_digest(mine) != given[name]
    return found


def name_of(file: str) -> str:
    """What `course reset` calls a file of the room: `5`, or `5/lesson`."""
    folder, name, *_ = file.split("/")
    return f"{int(name[:2])}/lesson" if folder == "lessons" else f"{int(name[:2])}"


def keep_record(course: Path) -> None:
    """See that a room that is there has its record: checks in a notebook are noted where there is one."""
    room = room_of(course)
    if (room / "exercises").is_dir() and not (room / FILE).exists():
        with contextlib.suppress(OSError), changed_record(room):
            pass


def text_digest(notebook: Path) -> str:
    """A digest of what is written in a notebook: what running or opening it changes does not count. Raises OSError."""
    data = notebook.read_bytes()
    try:
        text = [[cell["cell_type"], "".join(cell["source"])] for cell in json.loads(data)["cells"]]
        data = json.dumps(text).encode()
    except (ValueError, KeyError, TypeError):
        pass  # no notebook any more: then its bytes
    return hashlib.sha256(data).hexdigest()


def write_whole(target: Path, data: bytes) -> None:
    """Write a file so that nobody finds half of it. Raises OSError."""
    beside = target.with_name(f".{target.name}.new")
    beside.write_bytes(data)
    os.replace(beside, target)
