"""Hints come one at a time, of the part of a task that lacks points, as plain text."""

import pytest
from _tiny_room import UNIT, make_course

from autograder.doors.learner_record import changed_record, read_record
from autograder.workbench.bad_input import BadInput
from autograder.workbench.hints import next_hints
from autograder.workbench.outline import read_units
from autograder.workbench.room import open_room


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


def test_each_time_one_more_hint_is_shown(room, unit):
    def ask(again=False):
        return next_hints(room, unit, unit.tasks[0], "", again)

    with pytest.raises(BadInput, match="no hint of 01/square has been shown yet"):
        ask(again=True)
    assert ask() == ["Hint 1\none < two", "2 more: type the command again."]
    assert ask() == ["Hint 2\ntwo", "1 more: type the command again."]
    assert ask(again=True) == ["Hint 1\none < two", "Hint 2\ntwo"]
    assert ask() == ["Hint 3\n    def f():\n    \n        ...", "That was the last one."]
    assert ask() == ["All 3 hints of 01/square have been shown; --again shows them once more."]
    assert len(ask(again=True)) == 3


def test_a_task_of_parts_gives_the_hints_of_the_part_that_lacks_points(room, unit):
    others = unit.tasks[1]
    assert next_hints(room, unit, others, "", False)[0] == "Hint 1\na"
    assert next_hints(room, unit, others, "root", False)[0] == "Hint 1\nd"
    with changed_record(room) as record:
        record.note(UNIT, {"cube-check": (2, 2)})
    assert next_hints(room, unit, others, "", False)[0] == "Hint 2\n`x`:\n\n    a\n      b"
    assert read_record(room).hints == {UNIT: {"cube": 1, "root": 2}}


def test_a_task_without_hints_says_so(room, unit):
    unit.tasks[0].parts[0].hints.clear()
    with pytest.raises(BadInput, match="01/square has no hints"):
        next_hints(room, unit, unit.tasks[0], "", False)
