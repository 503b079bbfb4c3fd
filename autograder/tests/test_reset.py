"""A reset brings back the untouched text, of a notebook or of one task, and keeps what was there."""

import json

import pytest
from _tiny_room import ANSWERS, NAME, UNIT, edit, make_course, sources

from autograder.doors.kept_copies import is_kept_copy
from autograder.doors.learner_record import changed_record, read_record
from autograder.workbench.bad_input import BadInput
from autograder.workbench.outline import read_units
from autograder.workbench.reset import keep, put_beside, reset_notebook, reset_task
from autograder.workbench.room import copies_behind, open_room

EXERCISE = f"exercises/{UNIT}/{NAME}.ipynb"


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    open_room(make_course(tmp_path), read_units(tmp_path))
    return tmp_path


@pytest.fixture
def room(course):
    return course / "work"


@pytest.fixture
def unit(course):
    return read_units(course)[1]


@pytest.fixture
def worked(room):
    edit(room / EXERCISE, square=ANSWERS["square"], cube="def cube(x): ...", cube_check="pass", own="limit = 4")
    with changed_record(room) as record:
        record.note(UNIT, {"square-check": (2, 2), "cube-check": (1, 2)})
        record.hints[UNIT] = {"square": 1, "cube": 2}
    return (room / EXERCISE).read_bytes()


def test_a_notebook_is_as_it_came_and_what_was_there_is_beside_it(course, room, unit, worked):
    kept = reset_notebook(room, unit, unit.exercise)
    assert (room / EXERCISE).read_bytes() == (course / EXERCISE).read_bytes()
    assert kept.read_bytes() == worked and kept.parent == (room / EXERCISE).parent
    assert kept.name.startswith("powers.before-reset-20") and kept.suffix == ".ipynb"
    assert read_record(room).points == read_record(room).hints == {}


def test_a_task_alone_is_as_it_came(course, room, unit, worked):
    kept = reset_task(room, unit, unit.tasks[1])
    assert kept.read_bytes() == worked
    released = sources(course / EXERCISE)
    mine = sources(room / EXERCISE)
    assert (mine["cube"], mine["cube-check"]) == (released["cube"], released["cube-check"])
    assert (mine["square"], mine["own"]) == (ANSWERS["square"], "limit = 4")
    assert list(read_record(room).points[UNIT]) == ["square-check"] and read_record(room).hints[UNIT] == {"square": 1}


def test_cells_that_were_deleted_come_back_where_they_were(course, room, unit):
    content = json.loads((room / EXERCISE).read_text())
    content["cells"] = [cell for cell in content["cells"] if cell["id"] not in ("cube", "cube-check", "title", "root")]
    (room / EXERCISE).write_text(json.dumps(content))
    reset_task(room, unit, unit.tasks[1])
    assert list(sources(room / EXERCISE)) == [name for name in sources(course / EXERCISE) if name != "title"]


def test_a_notebook_that_cannot_be_read_is_reset_as_a_whole(course, room, unit):
    (room / EXERCISE).write_text("{")
    with pytest.raises(BadInput, match="`course reset 1` begins all of it anew"):
        reset_task(room, unit, unit.tasks[0])
    assert reset_notebook(room, unit, unit.exercise).read_text() == "{"
    (room / EXERCISE).unlink()
    assert reset_notebook(room, unit, unit.exercise) is None
    assert (room / EXERCISE).read_bytes() == (course / EXERCISE).read_bytes()


def test_two_copies_within_a_second_have_two_names(room):
    assert len({keep(room / EXERCISE) for _ in range(3)}) == 3


def test_what_is_still_as_released_needs_no_copy(course, room, unit):
    edit(room / EXERCISE, own="limit = 4")
    assert reset_task(room, unit, unit.tasks[0]) is None and sources(room / EXERCISE)["own"] == "limit = 4"
    assert is_kept_copy(reset_notebook(room, unit, unit.exercise))
    assert reset_notebook(room, unit, unit.exercise) is None
    edit(room / EXERCISE, square_check="pass")
    assert reset_task(room, unit, unit.tasks[0]) is not None


def test_a_copy_is_known_by_its_name(room, unit, worked):
    copies = [keep(room / EXERCISE), keep(room / EXERCISE), put_beside(room, unit, unit.exercise)]
    assert all(map(is_kept_copy, copies)) and not is_kept_copy(room / EXERCISE)


def test_the_courses_text_can_be_put_beside_ones_own(course, room, unit, worked):
    edit(course / EXERCISE, title="# Exercise 01 · Powers, told anew")
    assert open_room(course, [unit]).behind == [EXERCISE]
    beside = put_beside(room, unit, unit.exercise)
    assert beside.read_bytes() == (course / EXERCISE).read_bytes() and (room / EXERCISE).read_bytes() == worked
    assert (open_room(course, [unit]).behind, copies_behind(course, [unit])) == ([], {})
