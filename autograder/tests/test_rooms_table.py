"""The table of the two rooms is of the units as they stand: each graded cell has its line, with its text and points."""

import pytest
from _table import read
from _unit import COURSE, UNITS, unit_as_built
from nbgrader.converters.base import NbGraderException

from autograder.doors.judge.table import HOW, TABLE, digest, judged_by, judged_in
from autograder.doors.nbgrader_steps import RunNotebook

pytestmark = pytest.mark.once


@pytest.mark.parametrize("unit", UNITS)
def test_each_graded_cell_has_its_line(unit):
    rows = {row["check"]: row for row in read(TABLE) if row["unit"] == unit}
    checks = unit_as_built(unit).checks
    assert rows.keys() == checks.keys(), f"python benchmarks/rooms.py --unit {unit[:2]}"
    for name, cell in checks.items():
        row = rows[name]
        again = f"{name} has changed: python benchmarks/rooms.py --unit {unit[:2]}"
        assert (row["text"], float(row["points"])) == (digest(cell.source), cell.metadata.nbgrader.points), again
        assert row["how"] in HOW


def test_under_a_fifth_of_all_points_are_observed_and_it_is_said_how_many():
    rows = read(TABLE)
    points = sum(float(row["points"]) for row in rows)
    observed = sum(float(row["points"]) for row in rows if row["how"] == "observed")
    assert 0 < observed < points / 5
    assert f"{observed:g} of {points:g} points" in (COURSE / "autograder" / "THREATS.md").read_text()


def test_only_the_text_that_was_tried_is_judged(make_notebook):
    row = next(row for row in read(TABLE) if row["how"] == "outside")
    cell = unit_as_built(row["unit"]).checks[row["check"]]
    assert judged_in(make_notebook((cell.source, cell.metadata.nbgrader))) == {row["check"]}
    assert not judged_in(make_notebook((cell.source + "\nprint()", cell.metadata.nbgrader)))


# --- a table of an instructor's own ---

OWN = "unit,check,points,how,text\n50_own,own-check,2,outside,{}\n50_own,other-check,2,observed,{}\n"


def test_an_instructors_own_units_have_a_table_of_their_own(make_notebook, tmp_path):
    text, metadata = "assert f(2) == 4", {"grade": True, "locked": True, "points": 2, "schema_version": 3}
    cells = [(text, metadata | {"grade_id": name}) for name in ("own-check", "other-check")]
    table = tmp_path / "rooms.csv"
    table.write_text(OWN.format(digest(text), digest(text)))
    notebook, under = make_notebook(*cells), RunNotebook(rooms=str(table)).conditions
    assert judged_in(notebook, under.rooms) == {"own-check"}
    assert not judged_in(notebook, RunNotebook().conditions.rooms)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"a,b\n1,2\n", "is no table with the columns unit, check, points, how, text."),
        (b"unit,check\n\xff\n", "is no table with the columns unit, check, points, how, text."),
    ],
)
def test_a_table_that_is_none_is_one_line(tmp_path, content, line):
    table = tmp_path / "rooms.csv"
    if content is not None:
        table.write_bytes(content)
    with pytest.raises(ValueError, match="rooms.csv") as error:
        judged_by(table)
    assert str(error.value) == f"{table} {line}"
    with pytest.raises(NbGraderException, match="rooms.csv"):
        RunNotebook(rooms=str(table)).assert_possible()
