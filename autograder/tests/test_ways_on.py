"""The last cell of lessons and exercises: it leads where it says, in each folder that holds the notebooks."""

import re

import pytest
from conftest import COURSE, UNITS

from autograder.doors.graded_notebook import read_notebook
from autograder.doors.ways_on import ID, ways_on

pytestmark = pytest.mark.once

BEFORE = "00_before_you_start"
LESSONS = [BEFORE, *UNITS]
LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)(#[^)]*)?\)")


def links(notebook):
    """Words -> the file that is linked to, and the place in it."""
    last = read_notebook(notebook).cells[-1]
    assert (last.id, last.cell_type, last.metadata) == (ID, "markdown", {"editable": False, "deletable": False})
    return {words: ((notebook.parent / file).resolve(), place) for words, file, place in LINK.findall(last.source)}


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_leads_back_to_all_units_and_on(name):
    found, number = links(COURSE / "lessons" / f"{name}.ipynb"), LESSONS.index(name)
    assert found.pop("All units") == (COURSE / "README.md", "#the-units")
    beside = LESSONS[max(0, number - 1) : number] + LESSONS[number + 1 : number + 2]
    assert [file for file, _ in found.values()] == [COURSE / "lessons" / f"{one}.ipynb" for one in beside]
    for words, (file, _) in found.items():
        assert read_notebook(file).cells[0].source.startswith(f"# {words}")


@pytest.mark.parametrize("folder", ["exercises", "solutions"])
@pytest.mark.parametrize("unit", UNITS)
def test_an_exercise_leads_to_its_lesson_to_all_units_and_on(unit, folder):
    found = links(COURSE / folder / unit / f"{unit[3:]}.ipynb")
    files = [COURSE / "lessons" / f"{one}.ipynb" for one in UNITS[UNITS.index(unit) :][:2]]
    assert [file for file, _ in found.values()] == [files[0], COURSE / "README.md", *files[1:]]
    assert list(found)[0].startswith(f"Lesson {unit[:2]} · ")


def test_the_last_ones_say_so(tmp_path):
    lessons, solutions = tmp_path / "lessons", tmp_path / "solutions"
    for folder in (lessons, solutions / "01_only"):
        folder.mkdir(parents=True)
    (lessons / "01_only.py").write_text("# %% [markdown]\n# # 01 · Only one: and no other\n")
    for text in (lessons / "01_only.py", solutions / "01_only" / "only.py"):
        assert ways_on(text).source.endswith("This was the last unit.")
    assert "[Lesson 01 · Only one](../../lessons/01_only.ipynb)" in ways_on(solutions / "01_only" / "only.py").source
    assert ways_on(tmp_path / "elsewhere" / "only.py") is None
