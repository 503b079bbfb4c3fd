"""The committed notebooks are what the build makes of the texts, and no answer reaches exercises/."""

import re
import shutil

import jupytext
import pytest
from conftest import COURSE, UNITS

from autograder.doors.build_notebooks import build, main
from autograder.doors.graded_notebook import read_notebook
from autograder.not_begun import STUB

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("build")]

FOLDERS = ("lessons", "solutions", "exercises")


def built_files(root):
    return {
        path.relative_to(root): path.read_bytes()
        for folder in FOLDERS
        for path in (root / folder).rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    }


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
    """A copy of the texts, built, then its lessons and one exercise built again; the files after each build."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(COURSE / "nbgrader_config.py", root)
    for folder in FOLDERS[:2]:
        shutil.copytree(COURSE / folder, root / folder, ignore=shutil.ignore_patterns("*.ipynb", ".*"))
    build(root)
    first = built_files(root)
    for unit in UNITS[1:]:
        shutil.rmtree(root / "solutions" / unit)
    build(root)
    return first, built_files(root)


@pytest.mark.thorough
def test_building_twice_changes_no_byte(rebuilt):
    first, again = rebuilt
    assert len(again) > 2 and again == {path: first[path] for path in again}


def test_committed_notebooks_are_in_step_with_their_texts(rebuilt):
    committed = built_files(COURSE)
    assert committed.keys() == rebuilt[0].keys(), "a notebook without text, or a text without notebook"
    stale = [str(path) for path, content in committed.items() if content != rebuilt[0][path]]
    assert not stale, f"out of step, run build-notebooks: {stale}"


def secret_lines(unit):
    """Lines that only a solution may hold: those of solution regions and hidden tests that no hint or task shows."""
    (text,) = (COURSE / "solutions" / unit).glob("*.py")
    secret, visible, inside = [], [], False
    for cell in jupytext.read(text).cells:
        for line in map(str.strip, cell.source.split("\n")):
            if re.match(r"### BEGIN (SOLUTION|HIDDEN TESTS)", line):
                inside = True
            elif re.match(r"### END (SOLUTION|HIDDEN TESTS)", line):
                inside = False
            else:
                (secret if inside else visible).append(line)
    shown = "\n".join(visible)
    return {line for line in secret if len(line) > 8 and line not in shown}


@pytest.mark.parametrize("unit", UNITS)
def test_no_answer_reaches_the_exercise(unit):
    folder = COURSE / "exercises" / unit
    (notebook,) = [path for path in folder.rglob("*") if path.is_file() and ".ipynb_checkpoints" not in path.parts]
    assert notebook.suffix == ".ipynb"
    raw = notebook.read_text()
    assert "SOLUTION" not in raw and "HIDDEN" not in raw
    secrets = secret_lines(unit)
    assert len(secrets) > 10
    # As JSON writes them: whatever part of the file holds a line, source, metadata or attachment, it is found.
    whole = raw.replace('\\"', '"').replace("\\\\", "\\")
    leaked = [line for line in secrets if line in whole]
    assert not leaked
    assert "jupytext" not in raw


@pytest.mark.parametrize("unit", UNITS)
def test_a_stub_stands_right_below_its_docstring(unit):
    for cell in read_notebook(COURSE / "exercises" / unit / f"{unit[3:]}.ipynb").cells:
        assert not re.search(rf'"""\n\n +raise NotImplementedError\("{STUB}"\)', cell.source), cell.source


def test_outside_the_course_the_build_says_where_to_run_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main() == 2
    expected = "build-notebooks: run this in the course's folder, the one that holds nbgrader_config.py.\n"
    assert capsys.readouterr().out == expected


def test_a_solution_that_nbgrader_refuses_is_reported(tmp_path, monkeypatch, capsys):
    shutil.copy(COURSE / "nbgrader_config.py", tmp_path)
    unit = tmp_path / "solutions" / "01_open"
    unit.mkdir(parents=True)
    (unit / "open.py").write_text("# %%\n### BEGIN SOLUTION\nx = 1\n")
    monkeypatch.chdir(tmp_path)
    assert main() == 1
    assert "build-notebooks: nbgrader could not make the exercises" in capsys.readouterr().out
