"""The learner's room: what nobody changed follows the course, what was changed is never written over."""

import json

import pytest
from _tiny_room import ANSWERS, NAME, UNIT, edit, make_course, sources

from autograder.doors.learner_record import FILE, read_record
from autograder.workbench.bad_input import BadInput
from autograder.workbench.outline import read_units
from autograder.workbench.room import copies_behind, keep_record, open_room, room_of

EXERCISE = f"exercises/{UNIT}/{NAME}.ipynb"
LESSON = f"lessons/{UNIT}.ipynb"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)


@pytest.fixture
def course(tmp_path):
    return make_course(tmp_path)


@pytest.fixture
def enter(course):
    def enter():
        return open_room(course, read_units(course))

    return enter


def test_the_room_holds_what_the_course_hands_out_in_the_same_places(course, enter):
    assert enter().made
    room = course / "work"
    files = {path.relative_to(room).as_posix() for path in room.rglob("*") if path.is_file()}
    assert files == {"lessons/00_before.ipynb", LESSON, EXERCISE, FILE}
    for file in files - {FILE}:
        assert (room / file).read_bytes() == (course / file).read_bytes()
    assert set(read_record(room).given) == files - {FILE}
    again = enter()
    assert (again.made, again.refreshed, again.behind) == (False, [], [])


def test_what_nobody_changed_follows_the_course_even_when_it_was_run(course, enter):
    enter()
    mine = course / "work" / LESSON
    content = json.loads(mine.read_text())
    content["cells"][1] |= {"execution_count": 7, "outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}]}
    content["metadata"]["kernelspec"] = {"name": "another", "display_name": "Another"}
    mine.write_text(json.dumps(content))
    assert enter().refreshed == []  # the course's text is what it was, and outputs stay
    assert json.loads(mine.read_text())["cells"][1]["execution_count"] == 7
    edit(course / LESSON, title="# 01 · Powers, told anew")
    assert copies_behind(course, read_units(course)) == {LESSON: False}
    assert enter().refreshed == [LESSON]
    assert mine.read_bytes() == (course / LESSON).read_bytes()


def test_what_was_changed_is_kept_and_said_to_be_behind_until_the_learner_knows(course, enter):
    enter()
    edit(course / "work" / EXERCISE, square=ANSWERS["square"])
    before = (course / "work" / EXERCISE).read_bytes()
    assert enter().behind == []
    edit(course / EXERCISE, title="# Exercise 01 · Powers, told anew")
    for _ in range(2):
        opened = enter()
        assert (opened.refreshed, opened.behind) == ([], [EXERCISE])
    assert (course / "work" / EXERCISE).read_bytes() == before
    assert copies_behind(course, read_units(course)) == {EXERCISE: True}


def test_a_file_that_was_removed_comes_back(course, enter):
    enter()
    (course / "work" / LESSON).unlink()
    enter()
    assert (course / "work" / LESSON).exists()


def test_without_its_record_a_room_loses_no_work(course, enter):
    enter()
    edit(course / "work" / EXERCISE, square=ANSWERS["square"])
    (course / "work" / FILE).unlink()
    enter()
    assert sources(course / "work" / EXERCISE)["square"] == ANSWERS["square"]
    assert read_record(course / "work").points == {}


def test_a_file_that_is_no_notebook_any_more_is_the_learners(course, enter):
    enter()
    (course / "work" / LESSON).write_text("my notes")
    edit(course / LESSON, title="# 01 · Powers, told anew")
    assert enter().behind == [LESSON]
    assert (course / "work" / LESSON).read_text() == "my notes"


def test_another_folder_can_be_named(course, enter, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("mine")
    monkeypatch.setenv("COURSE_WORK", str(other / "room"))
    enter()
    assert (other / "room" / EXERCISE).exists() and not (course / "work").exists()
    monkeypatch.setenv("COURSE_WORK", "own")
    assert room_of(course) == course / "own"
    monkeypatch.setenv("COURSE_WORK", "")
    assert room_of(course) == course / "work"


@pytest.mark.parametrize("place", [".", "exercises", "lessons/mine", "solutions"])
def test_the_courses_own_folders_are_no_room(course, enter, monkeypatch, place):
    monkeypatch.setenv("COURSE_WORK", place)
    with pytest.raises(BadInput, match="the course's own"):
        enter()


def test_a_room_that_cannot_be_written_is_one_line(course, enter, monkeypatch):
    (course / "file").touch()
    monkeypatch.setenv("COURSE_WORK", "file/room")
    with pytest.raises(BadInput, match="cannot be written .*set COURSE_WORK=FOLDER"):
        enter()


def test_a_room_keeps_a_record_and_no_room_is_made_for_one(course, enter):
    keep_record(course)
    assert not (course / "work").exists()
    enter()
    (course / "work" / FILE).unlink()
    keep_record(course)
    assert (course / "work" / FILE).exists()
