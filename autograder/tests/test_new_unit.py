"""A unit begun from the templates builds, keeps this course's contract, and grades right and wrong answers."""

import shutil
import types

import jupytext
import pytest
import test_lessons
import test_units
from _unit import failed_in
from conftest import COURSE
from typer.testing import CliRunner

from autograder.doors.build_notebooks import build
from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, not_begun, read_notebook, score
from autograder.doors.kernel_runner import Runner
from autograder.workbench.bad_input import BadInput
from autograder.workbench.command_line import app
from autograder.workbench.new_unit import new_unit

UNIT = "07_sums"


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# --- what is written, and what is refused


def test_an_empty_folder_becomes_a_course_of_one_unit(tmp_path):
    made = new_unit(tmp_path / "mine", "sums")
    assert made.name == "01_sums" and not made.row
    written = ["README.md", "lessons/01_sums.py", "nbgrader_config.py", "pytest.ini", "solutions/01_sums/sums.py"]
    assert files(tmp_path / "mine") == written == sorted(map(str, made.files))
    assert "(exercises/01_sums/sums.ipynb) | 20 |" in (tmp_path / "mine/README.md").read_text()


def test_the_next_unit_gets_the_next_number_and_leaves_all_else_alone(tmp_path):
    new_unit(tmp_path, "sums")
    kept = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    made = new_unit(tmp_path, "pytrees", title="Trees of arrays")
    assert sorted(map(str, made.files)) == ["lessons/02_pytrees.py", "solutions/02_pytrees/pytrees.py"]
    assert (
        made.row
        == "| 02 | [Trees of arrays](lessons/02_pytrees.ipynb) | [pytrees](exercises/02_pytrees/pytrees.ipynb) | 20 |"
    )
    assert {name: (tmp_path / name).read_bytes() for name in kept} == kept
    assert "# 02 · Trees of arrays" in (tmp_path / "lessons/02_pytrees.py").read_text()


def test_a_course_with_a_project_of_its_own_keeps_its_configuration_of_pytest(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    new_unit(tmp_path, "sums")
    assert not (tmp_path / "pytest.ini").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Sums!", "no name of a unit"),
        ("../07_sums", "no name of a unit"),
        ("7_sums", "no name of a unit"),
        ("", "no name of a unit"),
        ("03_powers", "there is a unit 03_sums already; take another number"),
        ("09_sums", "there is a unit 03_sums already; take another name"),
    ],
)
def test_a_name_that_is_none_or_taken_is_refused_with_nothing_written(tmp_path, name, says):
    (tmp_path / "solutions" / "03_sums").mkdir(parents=True)
    with pytest.raises(BadInput, match=says):
        new_unit(tmp_path, name)
    assert files(tmp_path) == []


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "solutions").write_text("a file where a folder is to be")
    with pytest.raises(BadInput, match="solutions"):
        new_unit(tmp_path, "sums")
    assert files(tmp_path) == ["solutions"]


def test_the_command_says_what_it_wrote_and_what_is_next(tmp_path):
    done = CliRunner().invoke(app, ["new-unit", UNIT, "--into", str(tmp_path / "mine")])
    assert done.exit_code == 0
    assert f"lessons/{UNIT}.py" in done.output and "build-notebooks" in done.output
    again = CliRunner().invoke(app, ["new-unit", UNIT, "--into", str(tmp_path / "mine")])
    assert again.exit_code == 2 and again.output.startswith("course: there is a unit") and again.output.count("\n") == 1


# --- the contract of this course's units, by the tests that hold these to it


@pytest.fixture(scope="module")
def in_this_course(tmp_path_factory):
    """A copy of what this course is to `new-unit`, with the unit in it."""
    folder = tmp_path_factory.mktemp("clone")
    for kind in ("wrong_answers", "right_answers"):
        (folder / "autograder/tests" / kind).mkdir(parents=True)
    for file in ("README.md", "nbgrader_config.py", "pyproject.toml"):
        shutil.copy(COURSE / file, folder)
    assert new_unit(folder, UNIT).has_tests
    return folder


@pytest.mark.once
def test_the_solution_keeps_the_contract(in_this_course):
    text = jupytext.read(in_this_course / "solutions" / UNIT / "sums.py")
    held = [name for name in vars(test_units) if name.startswith("test_") and takes(vars(test_units)[name], "solution")]
    assert len(held) == 8
    for name in held:
        vars(test_units)[name](text)


@pytest.mark.once
def test_the_lesson_keeps_the_contract(in_this_course, monkeypatch):
    monkeypatch.setattr(test_lessons, "COURSE", in_this_course)
    monkeypatch.setattr(test_lessons, "LESSONS", [UNIT])
    held = [name for name in vars(test_lessons) if name.startswith("test_") and takes(vars(test_lessons)[name], "name")]
    assert len(held) == 8
    for name in held:
        vars(test_lessons)[name](UNIT)


def takes(test: types.FunctionType, argument: str) -> bool:
    return test.__code__.co_varnames[: test.__code__.co_argcount] == (argument,)


# --- built, run and graded


@pytest.mark.once
@pytest.mark.thorough
@pytest.mark.notebooks
def test_it_builds_and_grades(in_this_course):
    """In one kernel: the exercise, the lesson, the solution, every right answer, every wrong one."""
    build(in_this_course)
    exercise = read_notebook(in_this_course / "exercises" / UNIT / "sums.ipynb")
    solution = read_notebook(in_this_course / "solutions" / UNIT / "sums.ipynb")
    lesson = read_notebook(in_this_course / "lessons" / f"{UNIT}.ipynb")
    assert "SOLUTION" not in str(exercise) and "HIDDEN" not in str(exercise)
    checks = {cell.id: cell for cell in solution.cells if is_graded(cell)}
    answers = {cell.id: cell for cell in solution.cells if nbgrader_metadata(cell).get("solution")}
    with Runner(exercise, in_this_course) as runner:
        runner.run_all()
        assert all(not_begun(cell) for cell in exercise.cells if is_graded(cell))
        for cell in lesson.cells:
            if cell.cell_type == "code":
                outputs = runner.run_new(cell.source).outputs
                assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"], outputs

        def graded(check):
            cell = runner.run_new(checks[check].source, checks[check].metadata)
            return score(cell), failed_in(cell)

        for cell in answers.values():
            runner.run_new(cell.source)
        assert {check: graded(check)[0].message for check in checks} == dict.fromkeys(checks, "")
        for kind in ("right_answers", "wrong_answers"):
            for answer in jupytext.read(in_this_course / f"autograder/tests/{kind}/{UNIT}.py").cells:
                if answer.cell_type != "code":
                    continue
                told = answer.metadata
                runner.run_new(answer.source)
                for check in [check for check in checks if check.startswith(f"{told['task']}-")]:
                    result, region = graded(check)
                    if check in told.get("fails", []):
                        assert not result.earned and told["message"] in result.message, (told, result.message)
                        assert region == told.get("hidden", 0), told
                    elif kind == "right_answers":
                        assert not result.message, (told, result.message)
                runner.run_new(answers[told["task"]].source)
