"""The learner's record can be taken along: a row for each task, as JSON or CSV."""

import csv
import io
import json

import pytest
from _tiny_room import UNIT, make_course

from autograder.doors.learner_record import changed_record, read_record
from autograder.workbench import export
from autograder.workbench.bad_input import BadInput
from autograder.workbench.outline import read_units
from autograder.workbench.room import open_room


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    open_room(make_course(tmp_path), read_units(tmp_path))
    return tmp_path


@pytest.fixture
def room(course):
    with changed_record(course / "work") as record:
        record.note(UNIT, {"square-check": (2, 2), "cube-check": (1, 2)})
    return course / "work"


def test_the_record_has_a_row_for_each_task(course, room):
    first, second = export.rows(room, read_units(course))
    when = read_record(room).points[UNIT]["square-check"].when
    assert list(first.values()) == [UNIT, 1, "The square", 2, 2, when]
    assert list(second.values()) == [UNIT, 2, "The others", 1, 3, when]
    assert export.rows(course / "nowhere", read_units(course))[0]["when"] == ""


def test_whole_points_are_written_without_a_fraction(course, room):
    with changed_record(room) as record:
        record.note(UNIT, {"square-check": (0.5, 2), "cube-check": (1.0, 2.0)})
    lines = export.as_csv(export.rows(room, read_units(course))).splitlines()
    assert [line.split(",")[3:5] for line in lines[1:]] == [["0.5", "2"], ["1", "3"]]
    nothing = export.as_csv(export.rows(course / "nowhere", read_units(course)))
    assert [line.split(",")[3:5] for line in nothing.splitlines()[1:]] == [["0", "2"], ["0", "3"]]


def test_it_is_written_as_its_name_asks(course, room, tmp_path):
    table = export.rows(room, read_units(course))
    export.write(table, tmp_path / "mine.csv", force=False)
    export.write(table, tmp_path / "mine.json", force=False)
    assert json.loads((tmp_path / "mine.json").read_text()) == table
    read = list(csv.DictReader(io.StringIO((tmp_path / "mine.csv").read_text())))
    assert read == [{name: str(value) for name, value in row.items()} for row in table]


def test_no_file_is_written_over_unless_asked(tmp_path):
    (tmp_path / "mine.json").write_text("mine")
    with pytest.raises(BadInput, match="exists already"):
        export.write([], tmp_path / "mine.json", force=False)
    assert (tmp_path / "mine.json").read_text() == "mine"
    export.write([], tmp_path / "mine.json", force=True)
    assert json.loads((tmp_path / "mine.json").read_text()) == []


@pytest.mark.parametrize(("file", "said"), [("mine.txt", "must end in"), ("no/such/mine.csv", "cannot be written")])
def test_what_cannot_be_written_is_one_line(tmp_path, file, said):
    with pytest.raises(BadInput, match=said):
        export.write([], tmp_path / file, force=False)
