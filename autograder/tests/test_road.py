"""The instructor's road, as README prints it: a fresh clone, its commands, the grades.

The clones are of what is committed. The second one grades as the formgrader does, without *Generate*, and then a class
whose notebooks were changed in every way but their answers.
"""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from _tiny_unit import ALL, ANSWERS, ONLY_F, as_solved, handed_in
from _tiny_unit import NAME as TINY_NAME
from _tiny_unit import UNIT as TINY
from conftest import COURSE
from nbgrader.api import Gradebook

from autograder.doors.box.rules import why_not
from autograder.doors.graded_notebook import is_graded, nbgrader_metadata, read_notebook

pytestmark = [pytest.mark.once, pytest.mark.notebooks, pytest.mark.xdist_group("road")]

SECTION = (COURSE / "README.md").read_text().split("## How to teach it")[1].split("\n## ")[0]
BLOCK = re.search(r"```sh\n(.*?)```", SECTION, re.DOTALL)[1]
COMMANDS = [command for line in BLOCK.splitlines() if (command := line.split("#")[0].strip())]
BOX = " --RunNotebook.box=False" if why_not() else ""  # where there can be none, README says to grade without
UNIT, NAME = re.search(r"submitted/<student>/(\w+)/(\w+)\.ipynb", BLOCK).groups()

ENVIRONMENT = {"HOME": "/nonexistent", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


@pytest.fixture(scope="module")
def run(keeps_programs):
    """A function: what a command prints in a folder; it must end well."""

    def run(folder, *command):
        environment = ENVIRONMENT | keeps_programs
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def fresh_clone(folder):
    subprocess.run(["git", "clone", "--quiet", str(COURSE), str(folder)], check=True)
    return folder


def changed_files(folder):
    return subprocess.check_output(["git", "status", "--porcelain"], cwd=folder, text=True)


def loud(printed):
    return [line for line in printed.splitlines() if "| INFO]" not in line and "[INFO]" not in line]


def submit(clone, student, unit, name, text, encoding="utf-8"):
    path = clone / "submitted" / student / unit / f"{name}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding=encoding)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return fresh_clone(tmp_path_factory.mktemp("road") / "clone")


@pytest.fixture(scope="module")
def points(clone):
    """`ada` submits the first half of the unit's tasks: the points of their checks."""
    notebook = read_notebook(clone / "exercises" / UNIT / f"{NAME}.ipynb")
    solved = read_notebook(clone / "solutions" / UNIT / f"{NAME}.ipynb").cells
    answers = {cell.id: cell.source for cell in solved if nbgrader_metadata(cell).get("solution")}
    answers = dict(list(answers.items())[: len(answers) // 2])
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    submit(clone, "ada", UNIT, NAME, nbformat.writes(notebook))
    checks = [cell for cell in notebook.cells if is_graded(cell)]
    return sum(c.metadata.nbgrader.points for c in checks if any(c.id.startswith(f"{task}-") for task in answers))


@pytest.fixture(scope="module")
def rounds(clone, points, run):
    """Every command of the README, and again: what each printed, the CSV, the files that git finds changed."""
    rounds = []
    for _ in range(2):
        commands = [command + BOX if "autograde" in command else command for command in COMMANDS]
        printed = [run(clone, "bash", "-c", command) for command in commands]
        rounds.append((printed, (clone / "grades.csv").read_text(), changed_files(clone)))
    return rounds


def test_the_readme_prints_commands():
    assert [command.split()[:2] for command in COMMANDS] == [
        ["nbgrader", "autograde"],
        ["nbgrader", "generate_feedback"],
        ["nbgrader", "export"],
    ]


@pytest.mark.thorough
def test_the_grades_are_in_the_csv_after_each_round(rounds, points):
    for _, text, _ in rounds:
        (row,) = csv.DictReader(text.splitlines())
        assert (row["assignment"], row["student_id"], float(row["score"])) == (UNIT, "ada", points)
        assert 0 < points < float(row["max_score"])


@pytest.mark.thorough
def test_the_feedback_is_a_page(rounds, clone, points):
    page = (clone / "feedback" / "ada" / UNIT / f"{NAME}.html").read_text()
    assert f"(Score: {float(points)} / " in page


@pytest.mark.thorough
def test_no_file_of_the_course_is_changed(rounds):
    assert [changed for *_, changed in rounds] == ["", ""]


@pytest.mark.thorough
def test_autograde_has_nothing_to_say_against_an_honest_student(rounds):
    (first, *_), _, _ = rounds[0]
    assert "Autograding" in first
    assert loud(first) == []


EARNED = ONLY_F  # by the honest student of the second clone: f is right, g is wrong


def honest():
    """The JSON of the tiny unit's exercise, as an honest student hands it in."""
    notebook = handed_in(ANSWERS | {"g": "def g(x):\n    return x"})
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    return json.loads(nbformat.writes(notebook))


def make_text(cell, cell_type):
    del cell["outputs"], cell["execution_count"]
    cell["cell_type"] = cell_type
    cell["attachments"] = {"a.png": {"image/png": "AAAA"}}


# Each changes the five cells of an honest notebook, or the notebook, and must neither win nor lose a point.


def skips_the_check(notebook, setup, f, f_check, g, g_check):
    g_check["metadata"]["tags"] = ["skip-execution"]


def skips_the_setup(notebook, setup, f, f_check, g, g_check):
    setup["metadata"]["tags"] = ["skip-execution"]
    notebook["cells"].insert(0, {**f, "id": "own", "metadata": {}, "source": ["def check(*values): ..."]})


def lets_the_check_fail(notebook, setup, f, f_check, g, g_check):
    g_check["metadata"]["tags"] = ["raises-exception", "remove_cell"]


def moves_the_check_up(notebook, setup, f, f_check, g, g_check):
    own = {**f, "id": "own", "metadata": {}, "source": ["check = g = lambda *values: None"]}
    notebook["cells"] = [own, g_check, setup, f, f_check, g]


def makes_the_check_markdown(notebook, setup, f, f_check, g, g_check):
    make_text(g_check, "markdown")


def makes_the_check_raw(notebook, setup, f, f_check, g, g_check):
    make_text(g_check, "raw")


def asks_for_a_human(notebook, setup, f, f_check, g, g_check):
    g_check["metadata"]["nbgrader"] |= {"solution": True, "locked": False}


def raises_its_points(notebook, setup, f, f_check, g, g_check):
    f_check["metadata"]["nbgrader"]["points"] = 200


def names_another_kernel(notebook, setup, f, f_check, g, g_check):
    notebook["metadata"] = {"kernelspec": {"name": "bash", "display_name": "Bash"}, "language_info": {"name": "bash"}}


def makes_the_answer_markdown(notebook, setup, f, f_check, g, g_check):
    make_text(f, "markdown")


def comes_from_colab(notebook, setup, f, f_check, g, g_check):
    notebook["nbformat_minor"] = 0
    notebook["metadata"]["colab"] = {"provenance": []}
    setup["source"][0] = "# my notes\n" + setup["source"][0]
    for i, cell in enumerate(notebook["cells"]):
        cell["metadata"]["id"] = str(i)
        del cell["id"]
    notebook["cells"].remove(f_check)


def was_stripped(notebook, setup, f, f_check, g, g_check):
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def was_written_by_another_program(notebook, setup, f, f_check, g, g_check):
    notebook["program"] = "another"
    for cell in notebook["cells"]:
        cell["program"] = "another"
        cell["metadata"] |= {"tags": None, "jupyter": []}


CHANGES = [
    skips_the_check,
    skips_the_setup,
    lets_the_check_fail,
    moves_the_check_up,
    makes_the_check_markdown,
    makes_the_check_raw,
    asks_for_a_human,
    raises_its_points,
    names_another_kernel,
    makes_the_answer_markdown,
    comes_from_colab,
    was_stripped,
    was_written_by_another_program,
]
TOLD = {  # what autograde says of them; of all others nothing
    skips_the_check: "g-check (tagged to be skipped)",
    skips_the_setup: "setup (tagged to be skipped)",
    moves_the_check_up: "the order of the cells",
    makes_the_check_markdown: "g-check (made markdown)",
    makes_the_check_raw: "g-check (made raw)",
    raises_its_points: "f-check (points)",
    makes_the_answer_markdown: "f (made markdown)",
    comes_from_colab: "f-check (deleted)",  # what stands above the setup's text is a cell of its own
}

# What the formgrader asks of nbgrader when its pages are opened and its button *Autograde* is pressed, twice.
FORMGRADER = f"""
import json
from nbgrader.apps import NbGraderAPI
from nbgrader.apps.baseapp import NbGrader
app = NbGrader()
app.load_config_file()
app.config.RunNotebook.box = {not why_not()}
api = NbGraderAPI(config=app.config)
results = []
for _ in range(2):
    listed = [(a["name"], a["num_submissions"]) for a in api.get_assignments() if a["num_submissions"]]
    graded = api.autograde("{TINY}", "honest")
    points = [(s["student"], s["score"], s["max_score"]) for s in api.get_submissions("{TINY}") if s["autograded"]]
    results.append([listed, graded, points])
print("RESULTS", json.dumps(results))
"""


@pytest.fixture(scope="module")
def second_clone(tmp_path_factory):
    second_clone = fresh_clone(tmp_path_factory.mktemp("formgrader") / "clone")
    folder = second_clone / "solutions" / TINY
    folder.mkdir()
    nbformat.write(as_solved(), folder / f"{TINY_NAME}.ipynb")
    submit(second_clone, "honest", TINY, TINY_NAME, json.dumps(honest()))
    return second_clone


@pytest.fixture(scope="module")
def pressed(second_clone, run):
    printed = run(second_clone, sys.executable, "-c", FORMGRADER)
    return json.loads(printed.split("RESULTS ")[1])


@pytest.mark.thorough
def test_the_formgrader_grades_without_generate_and_again(pressed):
    for listed, result, points in pressed:
        assert listed == [[TINY, 1]]
        assert result["success"], result
        assert points == [["honest", EARNED, ALL]]


@pytest.mark.thorough
def test_the_formgraders_log_is_quiet(pressed):
    (_, first, _), (_, second, _) = pressed
    assert loud(first["log"]) == []
    (line,) = loud(second["log"])
    assert "Removing existing assignment" in line


@pytest.fixture(scope="module")
def printed(second_clone, pressed, run):
    """What autograde prints of the class."""
    for change in CHANGES:
        notebook = honest()
        change(notebook, *notebook["cells"])
        submit(second_clone, change.__name__, TINY, TINY_NAME, json.dumps(notebook))
    text = json.dumps(honest() | {"note": "é"}, ensure_ascii=False)
    for encoding in ("utf-8-sig", "utf-16"):
        submit(second_clone, f"is_in_{encoding}", TINY, TINY_NAME, text, encoding)
    return run(second_clone, "nbgrader", "autograde", TINY, *BOX.split())


@pytest.mark.thorough
def test_nothing_but_answers_wins_or_loses_a_point(second_clone, printed):
    students = os.listdir(second_clone / "submitted")
    assert len(students) == len(CHANGES) + 3
    with Gradebook(f"sqlite:///{second_clone}/gradebook.db", "just-in-time") as gradebook:
        submissions = {student: gradebook.find_submission(TINY, student) for student in students}
        found = {student: (s.score, s.max_score, s.needs_manual_grade) for student, s in submissions.items()}
    assert found == dict.fromkeys(students, (EARNED, ALL, False))


@pytest.mark.thorough
def test_one_line_for_each_that_was_not_as_released(second_clone, printed):
    told = [
        f"{second_clone}/submitted/{change.__name__}/{TINY}/{TINY_NAME}.ipynb: not as released: {what}"
        for change, what in TOLD.items()
    ]
    assert sorted(line.split("WARNING] ")[-1] for line in loud(printed)) == sorted(told)
