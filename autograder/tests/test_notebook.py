"""Reading a notebook, bringing it back in line with the release, reading off its points."""

import json

import nbformat
import pytest
from conftest import graded, locked, solution
from nbformat.v4 import new_output

from autograder.doors.graded_notebook import (
    Score,
    UnreadableNotebook,
    demote_copies,
    failure_text,
    nbgrader_metadata,
    read_notebook,
    restore,
    score,
)


def ids(notebook):
    return [nbgrader_metadata(cell).get("grade_id") for cell in notebook.cells]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such notebook."),
        (b"{not json", "this is no notebook, because it is no JSON (line 1: "),
        (b"", "this is no notebook, because it is no JSON (line 1: Expecting value)"),
        (b"\xff\xfe\x00", "this file cannot be read as text; is it a notebook?"),
        (b'{"cells": 3}', "this is JSON, but no notebook ("),
        (b"[1, 2]", "this is JSON, but no notebook ("),
    ],
)
def test_unreadable_files_get_one_line(tmp_path, content, message):
    path = tmp_path / "the_cache.ipynb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableNotebook) as error:
        read_notebook(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


def test_reads_a_notebook(tmp_path, make_notebook):
    path = tmp_path / "a.ipynb"
    nbformat.write(make_notebook("x = 1"), path)
    assert read_notebook(path).cells[0].source == "x = 1"


def test_the_last_copy_of_a_cell_counts(make_notebook):
    notebook = make_notebook(("first", solution("a")), ("plain", {}), ("second", solution("a")))
    notebook.cells[1].metadata["nbgrader"] = {}  # what nbgrader leaves, and then stumbles over
    demote_copies(notebook)
    assert ids(notebook) == [None, None, "a"]
    assert all("nbgrader" not in cell.metadata for cell in notebook.cells[:2])


class TestRestore:
    @pytest.fixture
    def release(self, make_notebook):
        return make_notebook(
            ("import jax", locked("setup")),
            ("def f(): ...", solution("f")),
            ("check(f)", graded("f-check", 3)),
            ("check(f, hard=True)", graded("f-hard", 2)),
        )

    def test_an_untouched_notebook_stays_as_it_is(self, release):
        notebook = nbformat.from_dict(json.loads(json.dumps(release)))
        restore(notebook, release)
        assert notebook == release

    def test_locked_cells_get_their_source_and_points_back_and_answers_stay(self, release, make_notebook):
        notebook = make_notebook(
            ("import os", locked("setup")),
            ("def f(): return 1", solution("f")),
            ("pass", graded("f-check", 100)),
            ("check(f, hard=True)", graded("f-hard", 2)),
        )
        restore(notebook, release)
        assert [cell.source for cell in notebook.cells] == [
            "import jax",
            "def f(): return 1",
            "check(f)",
            "check(f, hard=True)",
        ]
        assert notebook.cells[2].metadata.nbgrader.points == 3

    def test_deleted_locked_cells_come_back_in_their_place(self, release, make_notebook):
        notebook = make_notebook("notes = 1", ("def f(): return 1", solution("f")), "more = 2")
        restore(notebook, release)
        assert ids(notebook) == ["setup", None, "f", "f-check", "f-hard", None]

    def test_an_empty_notebook_gets_every_locked_cell(self, release, make_notebook):
        notebook = make_notebook()
        restore(notebook, release)
        assert ids(notebook) == ["setup", "f-check", "f-hard"]

    def test_unknown_ids_go(self, release, make_notebook):
        notebook = make_notebook(("1000.0", graded("invented", 1000)))
        restore(notebook, release)
        assert "invented" not in ids(notebook)
        assert "1000.0" in [cell.source for cell in notebook.cells]


class TestScore:
    @pytest.fixture
    def cell(self, make_notebook):
        def make(*outputs):
            cell = make_notebook(("check()", graded("c", 4))).cells[0]
            cell.outputs = list(outputs)
            return cell

        return make

    def result(self, text):
        return new_output("execute_result", {"text/plain": text}, execution_count=1)

    def test_silence_is_full_marks(self, cell):
        assert score(cell()) == Score(4.0, 4.0, "")

    def test_a_float_is_partial_credit(self, cell):
        assert score(cell(self.result("1.5"))) == Score(1.5, 4.0, "1.5 of 4 points")

    def test_an_error_is_nothing(self, cell):
        error = new_output("error", ename="E", evalue="", traceback=["\x1b[31m----\x1b[0m", "E: broken"])
        assert score(cell(error)) == Score(0.0, 4.0, "E: broken")
        assert failure_text(cell(error)) == "E: broken"

    def test_standard_error_costs_nothing(self, cell):
        noise = new_output("stream", name="stderr", text="XLA: slow compile")
        assert score(cell(noise)) == Score(4.0, 4.0, "")

    def test_more_than_the_points_is_refused(self, cell):
        earned, possible, message = score(cell(self.result("5.0")))
        assert (earned, possible) == (0.0, 4.0)
        assert "greater than" in message
