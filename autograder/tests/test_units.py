"""Every unit keeps the course's contract, read off its text: names, points, hints, what a graded cell may touch."""

import ast
import builtins
import re
import subprocess
import sys

import pytest
from _unit import text_at
from conftest import COURSE, UNITS

from autograder.doors.graded_notebook import is_graded, nbgrader_metadata

NUMBERED = re.compile(r"\d\d_[a-z_]+")


@pytest.fixture(params=UNITS)
def unit(request):
    return request.param


@pytest.fixture
def solution(unit):
    return text_at(COURSE / "solutions" / unit / f"{unit[3:]}.py")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_solution(cell):
    return bool(nbgrader_metadata(cell).get("solution"))


def test_the_folders_mirror_each_other():
    exercises = {path.name for path in (COURSE / "exercises").iterdir() if path.is_dir()}
    wrong = {path.stem for path in (COURSE / "autograder/tests/wrong_answers").glob("*.py")}
    assert exercises == wrong == set(UNITS)
    assert all(NUMBERED.fullmatch(name) for name in UNITS)


def test_the_readme_lists_every_unit(unit):
    readme = (COURSE / "README.md").read_text()
    assert f"(lessons/{unit}.ipynb)" in readme
    assert f"(exercises/{unit}/{unit[3:]}.ipynb)" in readme


def has_minijit(solution):
    """Whether the unit has a task of the minijit spine, which comes on top of its own."""
    return any("minijit" in nbgrader_metadata(cell).get("grade_id", "") for cell in code_cells(solution))


def test_a_unit_is_worth_twenty_points_or_two_more_and_a_step_of_minijit_four(solution):
    points = sum(cell.metadata.nbgrader["points"] for cell in code_cells(solution) if is_graded(cell))
    assert points in {20 + 4 * has_minijit(solution), 22 + 4 * has_minijit(solution)}


def test_each_graded_cell_says_what_it_checks_and_for_how_many_points(solution):
    for cell in filter(is_graded, code_cells(solution)):
        points = cell.metadata.nbgrader["points"]
        said = ast.get_docstring(ast.parse(cell.source)) or ""
        plural = "" if points == 1 else "s"
        assert re.match(rf"{points} point{plural}\. \w", said), (cell.metadata.nbgrader["grade_id"], said)


def test_each_graded_cell_is_locked_and_ends_in_a_check_or_partial_credit(solution):
    for cell in filter(is_graded, code_cells(solution)):
        assert cell.metadata.nbgrader["locked"]
        last = ast.parse(cell.source).body[-1]
        if isinstance(last, ast.Expr):
            assert isinstance(last.value, ast.Call), cell.source
            called = ast.unparse(last.value.func)
            assert called == "partial_credit" or called.startswith("assert_"), called
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(cell.source))), (
            "a bare assert has no message for the student"
        )


def test_code_fits_the_width_of_a_notebook(unit, solution):
    lesson = text_at(COURSE / "lessons" / f"{unit}.py")
    lines = [line for notebook in (lesson, solution) for c in code_cells(notebook) for line in c.source.split("\n")]
    assert not [line for line in lines if len(line) > 120]


def test_each_unit_has_hidden_tests(solution):
    assert any("### BEGIN HIDDEN TESTS" in cell.source for cell in filter(is_graded, code_cells(solution)))


def test_each_task_is_a_stub_with_a_docstring_and_a_check(solution):
    ids = [nbgrader_metadata(cell).get("grade_id", "") for cell in code_cells(solution)]
    assert len(set(filter(None, ids))) == len(list(filter(None, ids)))
    for cell in filter(is_solution, code_cells(solution)):
        task = cell.metadata.nbgrader["grade_id"]
        assert "### BEGIN SOLUTION" in cell.source and "### END SOLUTION" in cell.source, task
        assert any(name.startswith(f"{task}-") for name in ids if name != f"{task}-spec"), task
        functions = [node for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)]
        assert functions and all(ast.get_docstring(function) for function in functions), task


def test_there_are_four_to_six_tasks_with_three_hints_each(solution):
    texts = [cell.source for cell in solution.cells if cell.cell_type == "markdown"]
    tasks = [text for text in texts if re.match(r"## (Task )?\d · .+ \(\d points\)$", text, re.MULTILINE)]
    assert 4 <= len(tasks) - has_minijit(solution) <= 6
    hints = [re.findall(r"<summary>Hint (\d)", text) for text in texts]
    assert all(found in ([], ["1", "2", "3"]) for found in hints)
    assert sum(found != [] for found in hints) >= len(tasks)


def module_names(tree, scratch=False):
    """Names that a cell binds for all cells: what it defines and assigns; with `scratch` also in loops and blocks."""
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {n.id for target in node.targets for n in ast.walk(target) if stored(n)}
        elif scratch and isinstance(node, (ast.For, ast.With, ast.If)):
            names |= module_names(node, scratch)
            names |= {n.id for n in ast.walk(node.target) if stored(n)} if isinstance(node, ast.For) else set()
    return names


def test_a_graded_cell_leaves_the_names_of_other_cells_alone(solution):
    """Run again in another order, every check must find the same."""
    others = set()
    for cell in code_cells(solution):
        if is_solution(cell) or (nbgrader_metadata(cell).get("locked") and not is_graded(cell)):
            others |= module_names(ast.parse(cell.source))
    rebound = {
        cell.metadata.nbgrader["grade_id"]: names
        for cell in filter(is_graded, code_cells(solution))
        if (names := module_names(ast.parse(cell.source), scratch=True) & others)
    }
    assert not rebound


def stored(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def bound_names(tree):
    """Names that a cell binds, at any depth: assignments, imports, definitions, arguments."""
    names = set()
    for node in ast.walk(tree):
        if stored(node):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def test_a_graded_cell_could_run_in_another_process(solution):
    """It uses locked cells, itself, and the functions of solution cells: never what else the notebook holds."""
    given, asked = set(dir(builtins)), set()
    for cell in code_cells(solution):
        tree = ast.parse(cell.source)
        if is_solution(cell):
            asked |= {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        elif nbgrader_metadata(cell).get("locked") and not is_graded(cell):
            given |= bound_names(tree)
    for cell in filter(is_graded, code_cells(solution)):
        tree = ast.parse(cell.source)
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        foreign = used - given - asked - bound_names(tree)
        assert not foreign, (cell.metadata.nbgrader["grade_id"], foreign)


@pytest.mark.once
@pytest.mark.thorough
def test_what_is_asked_of_one_unit_is_found_without_reading_modules_about_none():
    def collected(words):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "",
            "-k",
            words,
        ]
        printed = subprocess.run(command, cwd=COURSE, capture_output=True, text=True).stdout
        return [line for line in printed.splitlines() if "::" in line]

    few, all_of_them = collected("05_the_cache"), collected("05_the_cache and 05_the_cache")
    assert few == all_of_them and len(few) > 30
