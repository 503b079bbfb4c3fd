"""Units, tasks, checks and hints are read off the exercises, and are found by the names that a learner types."""

import pytest
from _tiny_room import UNIT, make_course
from conftest import COURSE, UNITS

from autograder.doors.graded_notebook import is_graded, read_notebook
from autograder.workbench import outline
from autograder.workbench.bad_input import BadInput
from autograder.workbench.outline import LESSON, find_course, find_task, find_unit, read_units

COURSES_UNITS = read_units(COURSE)


def test_every_unit_of_the_course_has_a_title_and_its_tasks():
    first, *others = COURSES_UNITS
    assert (first.name, first.title, first.tasks) == ("00_before_you_start", "Before you start", [])
    assert [unit.name for unit in others] == UNITS
    for unit in others:
        assert unit.title[0].isupper() and unit.points in (20, 22, 24, 26)
        assert [task.number for task in unit.tasks] == list(range(1, len(unit.tasks) + 1))
        assert not {task.title for task in unit.tasks} & {name for task in unit.tasks for name in task.cells}


@pytest.mark.parametrize("unit", COURSES_UNITS[1:], ids=UNITS)
def test_every_check_answer_and_hint_belongs_to_a_task(unit):
    notebook = read_notebook(unit.exercise_in(COURSE))
    checks = {c.metadata.nbgrader["grade_id"]: c.metadata.nbgrader["points"] for c in notebook.cells if is_graded(c)}
    assert {name: points for task in unit.tasks for name, points in task.checks.items()} == checks
    text = "\n".join(cell.source for cell in notebook.cells)
    assert sum(len(part.hints) for task in unit.tasks for part in task.parts) == text.count("<details><summary>Hint")
    for task in unit.tasks:
        for part in task.parts:
            assert len(part.hints) == 3 and part.answers and part.checks, (unit.name, task.number)


@pytest.fixture
def units(tmp_path):
    return read_units(make_course(tmp_path))


def test_a_task_is_read_with_its_parts(units):
    square, others = units[1].tasks
    assert (square.number, square.title, square.points) == (1, "The square", 2)
    assert [hint.title for hint in square.parts[0].hints] == ["Hint 1", "Hint 2", "Hint 3"]
    assert [(part.answers, part.checks) for part in others.parts] == [
        (["cube"], {"cube-check": 2}),
        (["root"], {"root-check": 1}),
    ]


@pytest.mark.parametrize("name", ["5", "05", "05_the_cache", "the_cache", "The Cache", "the-cache"])
def test_a_unit_has_several_names(name):
    assert find_unit(COURSES_UNITS, name).name == "05_the_cache"


@pytest.mark.parametrize(
    ("name", "nearest"), [("the_cash", "05_the_cache"), ("jaxpr", "02_jaxprs"), ("99", "Units are 01 to 17.$")]
)
def test_a_wrong_unit_gets_the_nearest_names(name, nearest):
    with pytest.raises(BadInput, match=f"there is no unit '{name}'.*{nearest}") as error:
        find_unit(COURSES_UNITS, name)
    assert "\n" not in str(error.value)


def test_a_task_is_found_by_its_number_its_cells_and_its_title(units):
    unit = units[1]
    first, second = unit.tasks
    for name, expected in {
        "1": (unit, None, ""),
        "1/": (unit, None, ""),
        "powers/1": (unit, first, ""),
        "1/the square": (unit, first, ""),
        "1/cube": (unit, second, "cube"),
        "1/root-check": (unit, second, "root-check"),
        "1/lesson": (unit, None, LESSON),
    }.items():
        assert find_task(units, name) == expected, name


def test_a_wrong_task_gets_the_nearest_names(units):
    with pytest.raises(
        BadInput, match=r"^01_powers has no task 'cubes'. Its tasks are 1 to 2. Did you mean 2, the-others"
    ):
        find_task(units, "1/cubes")
    with pytest.raises(BadInput, match="has no task '3'"):
        find_task(units, "1/3")
    with pytest.raises(BadInput, match="00_before has a lesson and no tasks"):
        find_task(units, "0/1")


def test_the_course_is_found_from_any_folder_in_it_and_from_elsewhere(tmp_path, monkeypatch):
    make_course(tmp_path / "course")
    monkeypatch.chdir(tmp_path / "course" / "exercises" / UNIT)
    assert find_course() == tmp_path / "course"
    monkeypatch.chdir(tmp_path)
    assert find_course() == COURSE  # where the package is
    monkeypatch.setattr(outline.autograder, "__file__", str(tmp_path / "site-packages/autograder/__init__.py"))
    with pytest.raises(BadInput, match="folder is not here"):
        find_course()


def test_a_notebook_that_cannot_be_read_has_no_cells(tmp_path):
    for text in ("{", "[]", '{"cells": 1}', '{"cells": [1]}'):
        (tmp_path / "one.ipynb").write_text(text)
        assert outline.cells_of(tmp_path / "one.ipynb") == [], text
    assert outline.cells_of(tmp_path / "none.ipynb") == []
