"""The room's first page is made anew by commands and by checks, and a page of the learner's own stays."""

import pytest
from _tiny_room import UNIT, make_course

from autograder.doors.learner_record import changed_record
from autograder.workbench import first_page, in_notebook
from autograder.workbench.bad_input import BadInput
from autograder.workbench.outline import read_units
from autograder.workbench.room import open_room


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    monkeypatch.chdir(make_course(tmp_path))
    open_room(tmp_path, read_units(tmp_path))
    return tmp_path


def note(course, **points):
    with changed_record(course / "work") as record:
        record.note(UNIT, {name.replace("_", "-"): pair for name, pair in points.items()})


def test_after_a_check_the_page_says_its_points_and_the_panel_what_is_next(course):
    room, file = course / "work", course / "work" / "README.md"
    note(course, square_check=(1, 2))
    assert in_notebook.after_check(room, UNIT, "square-check") == [
        ("Task 1: 1 of 2", ""),
        ("Unit 01: 1 of 5", ""),
        ("Map", "../../README.md"),
    ]
    assert "| ■□ □□□ | 1 of 5 | begun |" in file.read_text()
    note(course, square_check=(2, 2))
    said = in_notebook.after_check(room, UNIT, "square-check")
    assert said[1] == ("Ours, to compare: `!course solution 1/1` in a cell", "")
    assert "| ■■ □□□ | 2 of 5 | begun |" in file.read_text()


def test_a_page_of_ones_own_stays_and_one_of_an_earlier_course_goes(course):
    file = course / "work" / "README.md"
    file.write_text("my notes")
    assert in_notebook.after_check(course / "work", UNIT, "square-check")[0] == ("Task 1: 0 of 2", "")
    assert file.read_text() == "my notes"
    for mark in first_page._MARKS:
        file.write_text(f"{mark}\nold")
        first_page.write_page(course / "work", read_units(course))
        assert "## The units" in file.read_text()


def test_the_same_page_is_not_written_again(course):
    first_page.write_page(course / "work", read_units(course))
    before = (course / "work" / "README.md").stat()
    first_page.write_page(course / "work", read_units(course))
    assert (course / "work" / "README.md").stat().st_ino == before.st_ino


def test_what_cannot_be_told_costs_no_check(course, monkeypatch):
    assert in_notebook.after_check(course / "work", "09_another", "square-check") == []
    assert in_notebook.after_check(course / "work", UNIT, "another-check") == []

    def full(*_):
        raise OSError(28, "No space left on device", "README.md")

    monkeypatch.setattr(first_page, "write_whole", full)
    (course / "work" / "README.md").unlink(missing_ok=True)
    assert in_notebook.after_check(course / "work", UNIT, "square-check") == []
    with pytest.raises(BadInput, match="No space left"):
        first_page.write_page(course / "work", read_units(course))
