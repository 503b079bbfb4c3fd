"""`course new-unit`: a whole small unit to begin from, in this course or in a course of the teacher's own.

The templates beside this module are a unit that builds, whose solution earns every point and whose untouched exercise
earns none; the teacher replaces it piece by piece.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from .bad_input import BadInput

_TEMPLATES = Path(__file__).parent / "new_unit_templates"
_NAME = re.compile(r"(?:(\d\d)_)?([a-z][a-z0-9]*(?:_[a-z0-9]+)*)$")
_TESTS = Path("autograder/tests")  # of a course that holds its units to its own contract


@dataclass
class NewUnit:
    """What was written: the unit's name, the course's folder, the files, and the line for its table of units."""

    name: str
    course: Path
    files: list[Path] = field(default_factory=list)
    row: str = ""
    has_tests: bool = False


def new_unit(course: Path, name: str, title: str = "") -> NewUnit:
    """Write the templates of a unit into a course, and what makes a folder a course where that is missing.

    course  the folder; it need not exist.
    name    "07_pytrees", or "pytrees", which gets the next number that is free.
    title   what the lesson is called; by default the name in words.

    Returns what was written. Raises `BadInput`, with nothing written, for a name that is none or is taken, and for a
    folder that cannot be written.
    """
    number, short = _named(course, name)
    unit = f"{number}_{short}"
    title = title.strip() or short.replace("_", " ").capitalize()
    has_tests = (course / _TESTS / "wrong_answers").is_dir()
    texts = {
        Path("lessons", f"{unit}.py"): "lesson.py",
        Path("solutions", unit, f"{short}.py"): "solution.py",
    }
    if has_tests:
        texts |= {_TESTS / kind / f"{unit}.py": f"{kind}.py" for kind in ("wrong_answers", "right_answers")}
    said = {"@NUMBER@": number, "@UNIT@": unit, "@NAME@": short, "@TITLE@": title}
    written = {
        place: _filled((_TEMPLATES / f"{template}.template").read_text(), said) for place, template in texts.items()
    }
    for place in written:
        if (course / place).exists():
            raise BadInput(f"{course / place} is there already; nothing is written over.")
    row = f"| {number} | [{title}](lessons/{unit}.ipynb) | [{short}](exercises/{unit}/{short}.ipynb) | 20 |"
    written |= _of_a_course(course, row)
    made = NewUnit(unit, course, row="" if Path("README.md") in written else row, has_tests=has_tests)
    try:
        for place, text in written.items():
            (course / place).parent.mkdir(parents=True, exist_ok=True)
            with open(course / place, "x", encoding="utf-8") as file:
                file.write(text)
            made.files.append(place)
    except OSError as error:
        for place in made.files:
            (course / place).unlink()
        raise BadInput(f"{error.filename}: this cannot be written ({error.strerror}).") from None
    return made


def _named(course: Path, name: str) -> tuple[str, str]:
    """The number and the short name of the unit. Raises `BadInput`."""
    found = _NAME.match(re.sub(r"[\s-]+", "_", name.strip()))
    if found is None:
        raise BadInput(f"{name!r} is no name of a unit: small letters, digits and _, such as 07_pytrees or pytrees.")
    taken = {path.stem for folder in ("lessons", "solutions") for path in (course / folder).glob("[0-9][0-9]_*")}
    for other in sorted(taken):
        if other[3:] == found[2] or other[:2] == found[1]:
            raise BadInput(
                f"there is a unit {other} already; take another {'name' if other[3:] == found[2] else 'number'}."
            )
    number = found[1] or f"{max((int(other[:2]) for other in taken), default=0) + 1:02}"
    if len(number) > 2:
        raise BadInput("the numbers up to 99 are taken.")
    return number, found[2]


def _of_a_course(course: Path, row: str) -> dict[Path, str]:
    """What makes a folder a course: nbgrader's configuration, pytest's, a first page. Only what is not there."""
    name = re.sub(r"[^\w.-]+", "-", course.resolve().name).strip("-") or "course"
    files = {
        "nbgrader_config.py": (
            '"""nbgrader\'s settings: those of this package. What is set below the call wins."""\n\n'
            "from autograder.doors.nbgrader_settings import configure\n\n"
            f'configure(get_config(), course_id="{name}")  # noqa: F821 (nbgrader puts it there)\n'
        ),
        "README.md": f"# {name}\n\n## The units\n\n| | lesson | exercise | points |\n|---|---|---|---|\n{row}\n",
    }
    if not (course / "pyproject.toml").exists():
        files["pytest.ini"] = "[pytest]\nautograder_notebooks = lessons solutions exercises\n"
    return {Path(place): text for place, text in files.items() if not (course / place).exists()}


def _filled(text: str, said: dict[str, str]) -> str:
    for place, value in said.items():
        text = text.replace(place, value)
    return text
