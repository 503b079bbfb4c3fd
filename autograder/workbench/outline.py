"""What the course consists of: units, tasks, checks and hints, read off the notebooks that are handed out.

They are read as JSON: `course` answers at once, and nbformat alone takes longer to import than that.
"""

import difflib
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import autograder
from autograder.doors import headings

from .bad_input import BadInput

LESSON = "lesson"  # in the place of a task: the unit's lesson

_HINT = re.compile(r"<details><summary>(Hint \d[^<]*)</summary>\n?(.*?)</details>", re.DOTALL)


class Hint(NamedTuple):
    """A hint as the exercise writes it, in Markdown with a little HTML."""

    title: str
    text: str


@dataclass
class Part:
    """What one set of hints is about: its cells by name, the answers among them, and its checks with their points."""

    hints: list[Hint]
    cells: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    checks: dict[str, float] = field(default_factory=dict)


@dataclass
class Task:
    """A section of an exercise that gives points."""

    number: int
    title: str
    parts: list[Part]

    @property
    def checks(self) -> dict[str, float]:
        """name -> points of each check."""
        return {name: points for part in self.parts for name, points in part.checks.items()}

    @property
    def answers(self) -> list[str]:
        """The names of the cells to be filled in."""
        return [name for part in self.parts for name in part.answers]

    @property
    def cells(self) -> list[str]:
        """The names of all of its cells that nbgrader knows."""
        return [name for part in self.parts for name in part.cells]

    @property
    def points(self) -> float:
        """What it is worth."""
        return sum(self.checks.values())

    @property
    def names(self) -> list[str]:
        """What it may be called by, besides its number: its cells, and its title."""
        return [*self.cells, re.sub(r"\W+", "-", self.title.lower()).strip("-")]


@dataclass
class Unit:
    """A lesson and its exercise; the first unit has none. `name` is `05_the_cache`."""

    name: str
    course: Path

    @property
    def number(self) -> str:
        """`05`."""
        return self.name[:2]

    @property
    def lesson(self) -> Path:
        """Where the lesson lies, in the course and in the learner's room."""
        return Path("lessons", f"{self.name}.ipynb")

    @property
    def exercise(self) -> Path | None:
        """Where the exercise lies."""
        place = Path("exercises", self.name, f"{self.name[3:]}.ipynb")
        return place if (self.course / place).is_file() else None

    def exercise_in(self, folder: Path) -> Path:
        """Where the exercise lies in this folder, the course's or a room; only for a unit that has one."""
        assert self.exercise is not None, self.name
        return folder / self.exercise

    @cached_property
    def title(self) -> str:
        """`The cache`."""
        for cell in self._cells:
            if found := headings.UNIT.search("".join(cell["source"])):
                return found[1]
        return self.name[3:].replace("_", " ")

    @cached_property
    def tasks(self) -> list[Task]:
        """In their order; none for the first unit."""
        found: list[Task] = []
        open_task = False
        for cell in self._cells if self.exercise else []:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                hints = [Hint(*hint) for hint in _HINT.findall(source)]
                if heading := headings.TASK.search(source):
                    found.append(Task(int(heading[1]), heading[2], [Part(hints)]))
                    open_task = True
                elif re.search(r"^## ", source, re.MULTILINE):
                    open_task = False  # material, or what follows the last task
                elif open_task and hints:
                    found[-1].parts.append(Part(hints))
            elif open_task and (entry := cell["metadata"].get("nbgrader")):
                part, name = found[-1].parts[-1], entry["grade_id"]
                part.cells.append(name)
                if entry.get("grade"):
                    part.checks[name] = float(entry["points"])
                elif entry.get("solution"):
                    part.answers.append(name)
        return [task for task in found if task.checks]

    @property
    def points(self) -> float:
        """What its tasks are worth together."""
        return sum(task.points for task in self.tasks)

    @cached_property
    def _cells(self) -> list[dict[str, Any]]:
        return cells_of(self.course / (self.exercise or self.lesson))


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    """The cells of a notebook, as its JSON has them; none if there is no such notebook, or if it cannot be read."""
    try:
        cells = json.loads(notebook.read_bytes())["cells"]
        return [{"metadata": {}, "source": "", **cell} for cell in cells if "cell_type" in cell]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def find_course() -> Path:
    """The course's folder: the one around the current folder, or else the one that the package was installed from.

    Raises `BadInput`.
    """
    here = Path.cwd()
    for folder in (here, *here.parents, Path(autograder.__file__).parent.parent):
        if (folder / "nbgrader_config.py").is_file() and (folder / "lessons").is_dir():
            return folder
    raise BadInput("the course's folder is not here. Type this command in your clone of the course.")


def read_units(course: Path) -> list[Unit]:
    """The units of the course in this folder, in their order."""
    return [Unit(path.stem, course) for path in sorted((course / "lessons").glob("[0-9][0-9]_*.ipynb"))]


def find_unit(units: list[Unit], name: str) -> Unit:
    """The unit that is called `5`, `05`, `05_the_cache` or `the_cache`.

    Raises `BadInput` with the nearest names, or for a number with those that there are.
    """
    wanted = re.sub(r"[\s-]+", "_", name.strip().lower())
    for unit in units:
        if wanted in (unit.name, unit.name[3:]) or (wanted.isdecimal() and int(wanted) == int(unit.number)):
            return unit
    if wanted.isdecimal() and (numbers := [unit.number for unit in units if unit.exercise]):
        raise BadInput(f"there is no unit {name!r}. Units are {numbers[0]} to {numbers[-1]}.")
    names = {name: unit.name for unit in units for name in (unit.name, unit.name[3:], unit.number)}
    raise BadInput(f"there is no unit {name!r}. {_nearest(wanted, names)}")


def find_task(units: list[Unit], name: str) -> tuple[Unit, Task | None, str]:
    """What `UNIT/TASK` means: the unit, the task, and the cell if TASK names one. Without a TASK: the unit alone.

    TASK is a number, the name of a cell, a title, or `lesson`, which is handed back in the place of the cell.
    Raises `BadInput` with the nearest names.
    """
    unit_name, slash, task_name = name.partition("/")
    unit = find_unit(units, unit_name)
    wanted = re.sub(r"[\s_]+", "-", task_name.strip().lower())
    if not slash or not wanted:
        return unit, None, ""
    if wanted == LESSON:
        return unit, None, LESSON
    for task in unit.tasks:
        if wanted.isdecimal() and int(wanted) == task.number:
            return unit, task, ""
        if wanted in task.names:
            return unit, task, wanted if wanted in task.cells else ""
    if not unit.tasks:
        raise BadInput(f"{unit.name} has a lesson and no tasks.")
    names = {name: f"{task.number}, {task.names[-1]}" for task in unit.tasks for name in task.names}
    numbers = f"Its tasks are 1 to {len(unit.tasks)}. "
    raise BadInput(f"{unit.name} has no task {task_name!r}. {numbers}{_nearest(wanted, names)}")


def _nearest(wanted: str, names: dict[str, str]) -> str:
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.4)
    meant = list(dict.fromkeys(names[name] for name in close))
    return f"Did you mean {' or '.join(meant)}?" if meant else "`course` lists what there is."
