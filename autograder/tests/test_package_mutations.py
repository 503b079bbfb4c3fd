"""The mutations of the package: what the committed table must say. They are made and run by hand."""

import package_mutations as tool
import pytest
from _table import read

pytestmark = pytest.mark.once
LAYERS = ("checks", "instruments", "measuring")
NOTHING_TO_CHANGE = {"instruments/fresh_caches"}
ROWS = read(tool.TABLE)
FEW = 8  # of fewer mutations, one that survives is too large a part


def test_each_module_has_tests_that_are_meant_for_it():
    package = tool.COURSE / "autograder"
    files = [file for layer in LAYERS for file in (package / layer).rglob("*.py") if file.name != "__init__.py"]
    modules = {file.relative_to(package).with_suffix("").as_posix() for file in files}
    assert modules - tool.TESTS.keys() == NOTHING_TO_CHANGE
    named = [
        file
        for module in tool.TESTS
        for file in (tool.path_of(module), *map(tool.COURSE.joinpath, tool.tests_of(module)))
    ]
    assert [file for file in named if not file.exists()] == []


@pytest.mark.parametrize("module", sorted({row["module"] for row in ROWS}))
def test_nearly_all_mutations_of_a_module_are_killed(module):
    rows = [row for row in ROWS if row["module"] == module]
    left = [f"{row['line']}: {row['change']}" for row in tool.survivors(rows)]
    killed = sum(row["verdict"] == "killed" for row in rows)
    assert len(rows) < FEW or killed >= tool.ENOUGH * (killed + len(left)), left


def test_nearly_all_mutations_are_killed():
    left, killed = tool.survivors(ROWS), sum(row["verdict"] == "killed" for row in ROWS)
    assert killed >= tool.ENOUGH * (killed + len(left))


def test_what_is_called_harmless_was_run_and_survived():
    assert tool.faults(ROWS) == []


def test_the_page_is_of_the_table():
    assert "\n".join(tool.report(ROWS)) + "\n" in tool.TABLE.with_suffix(".md").read_text()
