"""The README's table of what is taught points at headings that exist, and leaves no post out."""

import re
from urllib.parse import unquote

import pytest
from _unit import text_at
from conftest import COURSE

TABLE = (COURSE / "README.md").read_text().split("## What is taught")[1].split("\n## ")[0]
ROWS = [line.strip("| ").split(" | ") for line in TABLE.splitlines() if re.match(r"\| [A-E] \|", line)]
LINK = re.compile(r"\[(\d\d): (.+)\]\((lessons/\d\d_\w+)\.ipynb#(.+)\)$")


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_each_topic_is_where_the_table_says(row):
    where = row[-1]
    number, heading, lesson, anchor = LINK.match(where).groups()
    assert lesson.startswith(f"lessons/{number}_")
    assert unquote(anchor) == heading.replace(" ", "-")
    cells = text_at(COURSE / f"{lesson}.py").cells
    headings = [line.lstrip("# ") for cell in cells if cell.cell_type == "markdown" for line in cell.source.split("\n")]
    assert heading in headings


def test_each_of_the_five_posts_is_answered():
    assert len(ROWS) >= 35
    assert {row[0] for row in ROWS} == set("ABCDE")
    assert all(len(row) == 5 for row in ROWS)
