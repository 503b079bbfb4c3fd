"""`course` as it is typed: what it prints, how it ends, and that it answers at once."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import typer
from _tiny_room import ANSWERS, NAME, UNIT, edit, make_course, sources, write
from conftest import COURSE, solution
from nbformat.v4 import new_code_cell
from typer.testing import CliRunner

from autograder.doors.learner_record import changed_record, read_record
from autograder.workbench import command_line, jupyterlab
from autograder.workbench import watch as watching
from autograder.workbench.command_line import app

pytestmark = pytest.mark.once  # the same on every version

EXERCISE = f"exercises/{UNIT}/{NAME}.ipynb"


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.delenv("COURSE_WORK", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(make_course(tmp_path))
    return tmp_path


@pytest.fixture
def room(course):
    run("hint", "1/1")
    return course / "work"


def run(*words):
    """The exit code, and what was printed."""
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


# --- at once --------------------------------------------------------------------------------------------------------

HEAVY = {"jax", "nbformat", "jsonschema", "nbgrader", "jupyter_core", "watchfiles"}


@pytest.mark.parametrize(("words", "heavy"), [([], HEAVY | {"pydantic"}), (["--help"], HEAVY)])
def test_it_answers_without_what_takes_long_to_import(course, words, heavy):
    program = f"""
import sys
sys.argv = ["course", *{words!r}]
from autograder.workbench.command_line import main
try:
    main()
except SystemExit as end:
    assert not end.code
print({heavy!r} & set(sys.modules))
"""
    printed = subprocess.check_output([sys.executable, "-c", program], text=True, cwd=course)
    *said, loaded = printed.splitlines()
    assert loaded == "set()"
    assert said[0].startswith("Usage: course" if words else "00  Before you start")


def test_alone_it_shows_the_map_and_makes_no_room(course):
    code, out = run()
    assert code == 0 and out.splitlines()[-1] == "  course start 0"
    assert not (course / "work").exists()


def test_a_terminal_that_lacks_the_signs_gets_others(course):
    environment = {"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-m", "autograder.workbench"]
    printed = subprocess.check_output(command, text=True, cwd=course, env=environment)
    assert "01  Powers            ?? ???  0/5  not begun" in printed


def test_the_help_names_every_command_on_a_line_of_its_own():
    code, out = run("--help")
    names = ["start", "check", "watch", "hint", "solution", "reset", "doctor", "export", "teach", "new-unit", "grade"]
    commands = out.split("Commands:\n")[1].splitlines()
    assert code == 0 and [line.split()[0] for line in commands if line] == names
    assert all(len(line) < 80 and not line.endswith("...") for line in commands)


def test_the_readme_names_commands_that_there_are():
    text = (COURSE / "README.md").read_text()
    named = re.search(r"lists what else it does:([\w\s,]+)\.", text)[1].replace(",", " ").split()
    named += re.findall(r"^course (\S+) ", text, re.MULTILINE)
    there = {line.split()[0] for line in run("--help")[1].split("Commands:\n")[1].splitlines() if line}
    assert {"hint", "watch"} <= set(named) <= there | {"#"}


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["check", "7"],
        ["check", "0"],
        ["check", "1/lesson"],
        ["check", "1/9"],
        ["watch", "0"],
        ["watch", "1/9"],
        ["hint", "1"],
        ["hint", "0/1"],
        ["hint", "1/2", "--again"],
        ["solution", "1"],
        ["solution", "0/1"],
        ["solution", "7/1"],
        ["reset", "powder"],
        ["start", "9"],
        ["export", "--to", "points.txt"],
    ],
)
def test_bad_input_is_one_line_and_ends_with_2(course, words):
    run("hint", "1/1")  # the room is made
    code, out = run(*words)
    assert code == 2
    assert out.startswith("course: ") and out.count("\n") == 1, out


@pytest.mark.parametrize("words", [["check", "7"], ["watch", "0"], ["hint", "1"], ["reset", "powder"], ["start", "9"]])
def test_a_name_that_there_is_not_makes_no_room(course, words):
    code, out = run(*words)
    assert code == 2 and out.startswith("course: ") and out.count("\n") == 1, out
    assert not (course / "work").exists()


def test_ctrl_c_is_one_line_and_ends_with_130(room, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "saved_units", stop)
    code, out = run("watch")
    assert code == 130 and out.splitlines()[-1] == "course: stopped. Nothing is lost."


# --- what the commands do -------------------------------------------------------------------------------------------


def test_the_room_is_made_when_it_is_first_needed_and_that_is_said(course):
    _, out = run("hint", "1/1")
    assert out.startswith(f"Your room is made: {course / 'work'}.") and "Hint 1" in out
    _, out = run("hint", "1/1")
    assert out.startswith("Hint 2")
    first_page = course / "work" / "README.md"
    assert "# Just in Time" in first_page.read_text()
    first_page.write_text("my notes")
    run("hint", "1/1")
    assert first_page.read_text() == "my notes"


def test_a_text_that_is_new_is_said(room, course):
    edit(course / "lessons" / "00_before.ipynb", title="# 00 · Before you start, told anew")
    edit(room / EXERCISE, square=ANSWERS["square"])
    edit(course / EXERCISE, title="# Exercise 01 · Powers, told anew")
    _, out = run("hint", "1/1")
    assert "lessons/00_before.ipynb follows the course's new text" in out
    assert f"{EXERCISE} is yours, and the course has a new text: `course reset 1 --beside`" in out
    code, out = run("reset", "1", "--beside")
    assert code == 0 and "from-the-course" in out


def test_check_says_how_much_is_lacking(room):
    code, out = run("check")
    assert (code, out) == (1, "No exercise is begun yet. `course` says what is next.\n")
    edit(room / EXERCISE, square=ANSWERS["square"])
    code, out = run("check")
    assert code == 1 and "✓ 1  The square     2/2" in out and "2 of 5 points." in out
    assert "| 2 of 5 | begun |" in (room / "README.md").read_text()
    assert run("check", "1/square")[0] == 0


def test_watch_goes_on_after_a_notebook_that_cannot_be_read(room, monkeypatch):
    def saves(notebooks):
        ((notebook, unit),) = notebooks.items()
        notebook.write_text("{")
        yield unit

    monkeypatch.setattr(watching, "saved_units", saves)
    code, out = run("watch", "1")
    assert code == 0 and "Watching 01 · Powers" in out and "is no JSON" in out


def test_watch_takes_a_task_as_check_does(room, monkeypatch):
    edit(room / EXERCISE, **ANSWERS)
    monkeypatch.setattr(watching, "saved_units", lambda notebooks: iter(notebooks.values()))
    code, out = run("watch", "1/2")
    assert code == 0 and "Watching 01 · Powers, task 2: The others, in " in out
    assert "2  The others" in out and "1  The square" not in out


def test_it_says_which_version_it_is():
    code, out = run("--version")
    assert code == 0 and out.count("\n") == 1
    for name in ("just-in-time", "jax"):
        assert importlib.metadata.version(name) in out


def test_the_solution_opens_when_all_points_of_its_task_are_there(room, course):
    cells = [solved("cube", "x * x * x"), solved("root", "x ** 0.5"), solved("square", "x * x")]
    write(course / "solutions" / UNIT / f"{NAME}.ipynb", cells)
    code, out = run("solution", "1/2")
    assert code == 1 and out.count("\n") == 1
    assert out.startswith("1/2, The others, has 0 of 3 points; the solution opens when it has all. ")
    with changed_record(room) as record:
        record.note(UNIT, {"cube-check": (2, 2), "root-check": (0.5, 1)})
    assert run("solution", "1/others")[0] == 2
    assert "has 2.5 of 3 points" in run("solution", "1/2")[1]
    with changed_record(room) as record:
        record.note(UNIT, {"root-check": (1, 1)})
    code, out = run("solution", "1/2")
    assert (code, out) == (0, "def cube(x):\n    return x * x * x\n\n\ndef root(x):\n    return x ** 0.5\n")
    assert run("solution", "1/1")[0] == 1, "of another task"
    (course / "solutions" / UNIT / f"{NAME}.ipynb").unlink()
    code, out = run("solution", "1/2")
    assert code == 2 and "holds no solution" in out


def solved(name, answer):
    source = f"def {name}(x):\n    ### BEGIN SOLUTION\n    return {answer}\n    ### END SOLUTION"
    return new_code_cell(source, id=name, metadata={"nbgrader": solution(name)})


def test_reset_names_the_copy(room):
    edit(room / EXERCISE, square=ANSWERS["square"])
    mine = (room / EXERCISE).read_bytes()
    code, out = run("reset", "1/1")
    kept = out.split("What was there is kept in ")[1].split("\n")[0].removesuffix(".")
    assert code == 0 and Path(kept).read_bytes() == mine
    assert "NotImplementedError" in sources(room / EXERCISE)["square"]
    assert run("reset", "0")[0] == run("reset", "1/lesson")[0] == run("reset", "1")[0] == 0


def test_reset_of_what_is_untouched_or_gone_is_one_line(room):
    for words in ("1", "1/1", "1/lesson"):
        code, out = run("reset", words)
        assert code == 0 and out.endswith(". There was nothing of yours to keep.\n") and out.count("\n") == 1, out
    (room / EXERCISE).unlink()
    assert run("reset", "1")[1].count("\n") == 1
    assert [path.name for path in (room / EXERCISE).parent.iterdir()] == [f"{NAME}.ipynb"]


def test_export_prints_or_writes(room, tmp_path):
    with changed_record(room) as record:
        record.note(UNIT, {"square-check": (2, 2)})
    code, out = run("export")
    assert code == 0 and [row["points"] for row in json.loads(out)] == [2, 0]
    code, out = run("export", "--to", str(tmp_path / "mine.csv"))
    assert (code, out) == (0, f"{tmp_path / 'mine.csv'} holds 2 tasks.\n")


# --- JupyterLab -----------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    """The commands that would have been run, and in which folder."""
    commands = []
    monkeypatch.setattr(jupyterlab.os, "execv", lambda program, command: commands.append((command, os.getcwd())))
    return commands


def test_start_opens_the_next_thing_in_the_room(course, started):
    run("start")
    run("start", "1", "--no-browser")
    run("start", "--", "--allow-root", "--ServerApp.port=0")
    run("start", "1", "--", "--allow-root")
    (first, folder), (second, _), (third, _), (fourth, _) = started
    room = course / "work"
    assert folder == str(course)
    assert first[:3] == [sys.executable, "-m", "jupyterlab"] and f"--ServerApp.root_dir={room}" in first
    assert first[-1] == third[-1] == str(room / "lessons/00_before.ipynb")
    assert second[-1] == fourth[-1] == str(room / "lessons/01_powers.ipynb")
    assert "--LabApp.default_url=/lab/tree/lessons/01_powers.ipynb" in second  # the address that is printed
    assert "--no-browser" in second and "--no-browser" not in first
    assert third[-3:-1] == ["--allow-root", "--ServerApp.port=0"] and fourth[-2] == "--allow-root"


def test_root_is_told_what_to_type(course, started, monkeypatch):
    for user, words, told in [(0, (), True), (0, ("--", "--allow-root"), False), (1000, (), False)]:
        monkeypatch.setattr(jupyterlab.os, "geteuid", lambda user=user: user, raising=False)
        assert ("`course start -- --allow-root`" in run("start", *words)[1]) == told, (user, words)
    assert len(started) == 3


def test_teach_opens_the_course(course, started):
    run("teach", "--no-browser", "--", "--allow-root")
    ((command, folder),) = started
    assert folder == str(course) and not (course / "work").exists()
    assert command[3:] == [f"--ServerApp.root_dir={course}", "--no-browser", "--allow-root"]


# --- another wing's commands ----------------------------------------------------------------------------------------


def test_commands_of_another_wing_are_there_when_it_is(monkeypatch):
    other = typer.Typer()

    @other.command()
    def grade(unit: str):
        """Grade a class."""
        typer.echo(f"graded {unit}")

    assert "another" not in run("--help")[1]
    monkeypatch.setitem(sys.modules, "another_wing", types.ModuleType("another_wing"))
    sys.modules["another_wing"].app = other
    sys.modules["another_wing"].__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(command_line.BESIDE, "grade", "another_wing")
    assert run("grade", "05") == (0, "graded 05\n")
    assert "grade Grade a class." in " ".join(run("--help")[1].split())
    other.callback()(lambda: None)  # an app of several commands
    assert run("grade", "05") == (0, "graded 05\n")
    monkeypatch.setitem(command_line.BESIDE, "grade", "there.is.none")
    assert run("grade", "05")[0] == 2


def test_the_record_is_where_the_commands_look(room):
    assert read_record(room).hints == {UNIT: {"square": 1}}
