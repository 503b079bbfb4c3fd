"""The table of the two rooms is of the units as they stand: each graded cell has its line, with its text and points."""

import pytest
from _table import read
from _unit import UNITS, unit_as_built

from autograder.doors.judge.table import HOW, TABLE, digest, judged_in

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


def test_only_the_text_that_was_tried_is_judged(make_notebook):
    row = next(row for row in read(TABLE) if row["how"] == "outside")
    cell = unit_as_built(row["unit"]).checks[row["check"]]
    assert judged_in(make_notebook((cell.source, cell.metadata.nbgrader))) == {row["check"]}
    assert not judged_in(make_notebook((cell.source + "\nprint()", cell.metadata.nbgrader)))
