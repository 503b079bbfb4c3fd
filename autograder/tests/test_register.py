"""The graded form of a unit, and the gradebook's entry that is made from it: the same as nbgrader's own."""

from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from conftest import COURSE, UNITS, graded, locked, solution
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.doors.graded_notebook import is_graded, read_notebook
from autograder.doors.register_units import graded_form, register, released_form

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")]  # nbgrader's queries

UNIT, NAME = "00_sum", "sum"
STUB = "raise NotImplementedError"


@pytest.fixture(autouse=True)
def no_alembic(monkeypatch):
    """A new gradebook notes the version of its tables, which nbgrader asks of another process, for two seconds."""
    monkeypatch.setattr("nbgrader.api.get_alembic_version", lambda: "of the tests")


@pytest.fixture
def coursedir(tmp_path):
    config = Config(
        CourseDirectory={
            "root": str(tmp_path),
            "source_directory": "solutions",
            "release_directory": "exercises",
            "db_url": f"sqlite:///{tmp_path}/gradebook.db",
        },
        ClearSolutions={"code_stub": {"python": STUB}},
    )
    return CourseDirectory(config=config)


@pytest.fixture
def write(tmp_path, make_notebook):
    """A function that writes the solution, with these cells at its end, and returns its path."""

    def write(*more, hidden="assert f(0) == 0"):
        path = tmp_path / "solutions" / UNIT / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        notebook = make_notebook(
            ("import math", locked("setup")),
            ("def f(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION", solution("f")),
            (f"f(1)\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS", graded("f-check", 2)),
            *more,
        )
        nbformat.write(notebook, path)
        return path

    return write


def entry(coursedir):
    """All that the gradebook holds of the unit."""
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        notebook = gradebook.find_notebook(NAME, UNIT)
        return {
            "kernelspec": notebook.kernelspec,
            "sources": {c.name: (c.cell_type, c.locked, c.source, c.checksum) for c in notebook.source_cells},
            "grades": {c.name: (c.cell_type, c.max_score) for c in notebook.grade_cells},
            "solutions": [c.name for c in notebook.solution_cells],
        }


def test_the_graded_form_has_the_hidden_tests_and_not_the_answer(write, coursedir):
    form = graded_form(write(), coursedir)
    assert [cell.source for cell in form.cells] == [
        "import math",
        f"def f(x):\n    {STUB}",
        "f(1)\n### BEGIN HIDDEN TESTS\nassert f(0) == 0\n### END HIDDEN TESTS",
    ]


def test_the_released_form_has_neither_and_is_what_nbgrader_releases(write, coursedir, tmp_path):
    graded = graded_form(write(), coursedir)
    before = nbformat.writes(graded)
    released = released_form(graded, coursedir)
    assert [cell.source for cell in released.cells] == ["import math", f"def f(x):\n    {STUB}", "f(1)"]
    assert nbformat.writes(graded) == before
    coursedir.assignment_id = UNIT
    GenerateAssignment(coursedir=coursedir, parent=coursedir).start()
    assert released == read_notebook(tmp_path / "exercises" / UNIT / f"{NAME}.ipynb")


def test_the_entry_is_the_one_that_generate_assignment_makes(write, coursedir, tmp_path):
    write()
    register(UNIT, coursedir, coursedir)
    ours = entry(coursedir)
    assert not (tmp_path / "exercises").exists()
    coursedir.db_url, coursedir.assignment_id = f"sqlite:///{tmp_path}/other.db", UNIT
    GenerateAssignment(coursedir=coursedir, parent=coursedir).start()
    assert ours == entry(coursedir)
    assert list(ours["grades"]) == ["f-check"]


def test_registering_again_writes_nothing(write, coursedir, tmp_path):
    write()
    register(UNIT, coursedir, coursedir)
    before = (tmp_path / "gradebook.db").read_bytes()
    register(UNIT, coursedir, coursedir)
    assert (tmp_path / "gradebook.db").read_bytes() == before


def test_a_changed_hidden_test_arrives_in_the_gradebook_and_grades_stay(write, coursedir):
    write()
    register(UNIT, coursedir, coursedir)
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        gradebook.update_or_create_student("ada")
        gradebook.update_or_create_submission(UNIT, "ada")
        gradebook.find_grade("f-check", NAME, UNIT, "ada").auto_score = 1.5
        gradebook.db.commit()
    write(hidden="assert f(2) == 2")
    register(UNIT, coursedir, coursedir)
    assert "assert f(2) == 2" in entry(coursedir)["sources"]["f-check"][2]
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        assert gradebook.find_submission(UNIT, "ada").score == 1.5


def test_a_new_check_stops_the_run_in_one_line_once_there_are_submissions(write, coursedir):
    write()
    register(UNIT, coursedir, coursedir)
    write(("f(2)", graded("f-more", 3)))
    register(UNIT, coursedir, coursedir)
    before = entry(coursedir)
    assert list(before["grades"]) == ["f-check", "f-more"]
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        gradebook.update_or_create_student("ada")
        gradebook.update_or_create_submission(UNIT, "ada")
    write()
    with pytest.raises(NbGraderException) as error:
        register(UNIT, coursedir, coursedir)
    assert str(error.value) == (
        "00_sum: its cells are others than those in the gradebook, which holds grades for them. "
        "Take back the change in solutions/, or take a new gradebook (move gradebook.db away) and grade again."
    )
    assert entry(coursedir) == before


def test_graders_that_start_at_once_make_one_gradebook(write, coursedir):
    write()
    with ThreadPoolExecutor(8) as graders:
        list(graders.map(lambda _: register(UNIT, coursedir, coursedir), range(8)))
    assert list(entry(coursedir)["grades"]) == ["f-check"]


def test_a_folder_that_is_no_unit_is_left_to_nbgrader(coursedir, tmp_path):
    register("05_cache", coursedir, coursedir)
    assert not (tmp_path / "gradebook.db").exists()


@pytest.mark.thorough
def test_every_unit_comes_into_the_gradebook_with_all_its_points(coursedir):
    coursedir.root = str(COURSE)
    for unit in UNITS:
        register(unit, coursedir, coursedir)
        cells = filter(is_graded, read_notebook(COURSE / "exercises" / unit / f"{unit[3:]}.ipynb").cells)
        points = {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points for cell in cells}
        with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
            grades = gradebook.find_notebook(unit[3:], unit).grade_cells
            assert {cell.name: cell.max_score for cell in grades} == points
