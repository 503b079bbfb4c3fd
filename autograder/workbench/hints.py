"""Hints, one more each time."""

import html
import re
from pathlib import Path

from autograder.doors.learner_record import changed_record, read_record

from .bad_input import BadInput
from .outline import Hint, Part, Task, Unit


def next_hints(room: Path, unit: Unit, task: Task, cell: str, again: bool) -> list[str]:
    """The texts to show now: the next hint, and notes that it was shown; with `again`, all that were shown before.

    A task whose parts have hints of their own gives those of `cell`'s part, or of the first part that lacks points.
    """
    part = _part(room, unit, task, cell)
    key = part.answers[0] if part.answers else part.cells[0]
    name = f"{unit.number}/{key}"
    shown = min(read_record(room).hints.get(unit.name, {}).get(key, 0), len(part.hints))
    if again:
        if not shown:
            raise BadInput(f"no hint of {name} has been shown yet.")
        return [_text(hint) for hint in part.hints[:shown]]
    if not part.hints:
        raise BadInput(f"{name} has no hints.")
    if shown == len(part.hints):
        return [f"All {shown} hints of {name} have been shown; --again shows them once more."]
    with changed_record(room) as record:
        record.hints.setdefault(unit.name, {})[key] = shown + 1
    left = len(part.hints) - shown - 1
    more = f"{left} more: type the command again." if left else "That was the last one."
    return [_text(part.hints[shown]), more]


def _part(room: Path, unit: Unit, task: Task, cell: str) -> Part:
    for part in task.parts:
        if cell and cell in part.cells:
            return part
    points = read_record(room).points.get(unit.name, {})
    lacking = [
        part
        for part in task.parts
        if any(name not in points or points[name].earned < possible for name, possible in part.checks.items())
    ]
    return (lacking or task.parts)[0]


def _text(hint: Hint) -> str:
    """A hint as plain text: what is code stands in backquotes or is indented."""
    text = re.sub(r"(?:<pre>|```\w*)\n?(.*?)(?:</pre>|```)", _indented, hint.text, flags=re.DOTALL)
    text = re.sub(r"</?code>", "`", text)
    text = re.sub(r"</?(?:em|strong)>", "*", text)
    text = re.sub(r"(?<=\S)\n(?=[^\s|*-])", " ", html.unescape(text).strip("\n"))  # the terminal has lines of its own
    return f"{hint.title}\n{text}"


def _indented(block: re.Match[str]) -> str:
    lines = re.sub(r"</?\w+>", "", block[1]).rstrip().split("\n")
    return "\n".join(["", *(f"    {line}" for line in lines), ""])
