"""Honest students whose notebooks were spoilt on the way: each ends in the grade that a fair human would give.

Nobody here wants to cheat. Programs strip what they do not know, files are cut off, cells are copied, moved and lost.
The answers to both tasks are right; what is left of them counts.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from _tiny_unit import ALL, ANSWERS, NAME, ONLY_G, UNIT, handed_in, make_course
from nbgrader.api import Gradebook

from autograder.doors.box.rules import why_not
from autograder.doors.graded_notebook import read_notebook

pytestmark = [
    pytest.mark.once,
    pytest.mark.thorough,
    pytest.mark.notebooks,
    pytest.mark.xdist_group("faults"),
]

NOTHING = 0.0


def honest():
    """The honest notebook, as a `dict`."""
    return json.loads(json.dumps(handed_in()))


FAULTS = {}  # name -> (the points that are left, a function: the notebook -> the file's text or bytes, or None)


def fault(points):
    def add(spoil):
        FAULTS[spoil.__name__] = (points, spoil)
        return spoil

    return add


def cell_of(notebook, name):
    return next(cell for cell in notebook["cells"] if cell.get("id") == name)


# The file


@fault(NOTHING)
def empty_file(n):
    return b""


@fault(NOTHING)
def blank_file(n):
    return b" \n\t\n"


@fault(NOTHING)
def cut_off(n):
    return json.dumps(n)[:-40]


@fault(NOTHING)
def an_html_page(n):
    return "<!DOCTYPE html><html><body>Sign in to download powers.ipynb</body></html>"


@fault(NOTHING)
def a_zip(n):
    return b"PK\x03\x04" + bytes(range(256)) * 4


@fault(NOTHING)
def python_text(n):
    return "\n\n".join(ANSWERS.values())


@fault(NOTHING)
def another_json(n):
    return json.dumps([n])


@fault(NOTHING)
def nested_deeply(n):
    return "[" * 200_000


@fault(NOTHING)
def a_number(n):
    return "17"


@fault(NOTHING)
def conflict_of_versions(n):
    text = json.dumps(n, indent=1)
    return f"<<<<<<< HEAD\n{text}\n=======\n{text}\n>>>>>>> mine\n"


@fault(ALL)
def byte_order_mark(n):
    return json.dumps(n).encode("utf-8-sig")


@fault(ALL)
def utf_16(n):
    return json.dumps(n).encode("utf-16")


@fault(ALL)
def utf_32(n):
    return json.dumps(n).encode("utf-32")


@fault(ALL)
def blank_lines_around(n):
    return "\n\n" + json.dumps(n, indent=4) + "\n\n\n"


@fault(ALL)
def lines_of_windows(n):
    return json.dumps(n, indent=1).replace("\n", "\r\n")


@fault(ALL)
def not_a_number(n):
    n["metadata"]["grade"] = float("nan")


# The notebook


@fault(ALL)
def no_kernel_named(n):
    n["metadata"] = {}


@fault(ALL)
def no_metadata(n):
    del n["metadata"]


@fault(ALL)
def metadata_is_a_list(n):
    n["metadata"] = []


@fault(ALL)
def a_kernel_of_another_language(n):
    n["metadata"] = {"kernelspec": {"name": "julia-1.9", "display_name": "Julia", "language": "julia"}}


@fault(ALL)
def saved_widgets(n):
    state = {"application/vnd.jupyter.widget-state+json": {"state": {"x": 1}, "version_major": 2}}
    n["metadata"]["widgets"] = state


@fault(ALL)
def older_minor_format(n):
    n["nbformat_minor"] = 2
    for cell in n["cells"]:
        del cell["id"]


@fault(ALL)
def no_minor_format(n):
    del n["nbformat_minor"]


@fault(ALL)
def minor_format_of_the_future(n):
    n["nbformat_minor"] = 99
    n["cells"][0]["mood"] = "new"


@fault(ALL)
def format_3(n):
    cells = [
        {"cell_type": "code", "input": c["source"], "language": "python", "outputs": [], "metadata": c["metadata"]}
        for c in n["cells"]
    ]
    return json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]})


@fault(NOTHING)
def format_of_the_future(n):
    n["nbformat"] = 9


@fault(NOTHING)
def no_cells(n):
    del n["cells"]


@fault(NOTHING)
def an_empty_notebook(n):
    n["cells"] = []


@fault(ALL)
def five_thousand_empty_cells(n):
    n["cells"] += [{"cell_type": "code", "source": "", "metadata": {}, "outputs": [], "execution_count": None}] * 5000


# Cells


@fault(ALL)
def sources_as_lists(n):
    for cell in n["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)


@fault(ONLY_G)
def no_source(n):
    del cell_of(n, "f")["source"]


@fault(ONLY_G)
def source_is_null(n):
    cell_of(n, "f")["source"] = None


@fault(ALL)
def no_outputs(n):
    for cell in n["cells"]:
        del cell["outputs"], cell["execution_count"]


@fault(ALL)
def outputs_are_null(n):
    for cell in n["cells"]:
        cell["outputs"] = None


@fault(ALL)
def outputs_of_another_shape(n):
    cell_of(n, "f-check")["outputs"] = [{"output_type": "stream"}, {"text": 3}, "done"]


@fault(ALL)
def execution_counts_as_text(n):
    for cell in n["cells"]:
        cell["execution_count"] = "12"


@fault(ALL)
def twenty_megabytes_of_output(n):
    cell_of(n, "f-check")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 20_000_000}]


@fault(ALL)
def an_old_error_in_a_check(n):
    error = {"output_type": "error", "ename": "AssertionError", "evalue": "", "traceback": ["AssertionError"]}
    cell_of(n, "g-check")["outputs"] = [error]


@fault(ALL)
def ids_are_gone(n):
    for cell in n["cells"]:
        del cell["id"]


@fault(ALL)
def ids_are_all_alike(n):
    for cell in n["cells"]:
        cell["id"] = "cell"


@fault(ALL)
def ids_that_are_none(n):
    for number, cell in enumerate(n["cells"]):
        cell["id"] = ["", 7, None, "a b", "x" * 100][number]


@fault(ALL)
def names_are_gone(n):
    for cell in n["cells"]:
        cell["metadata"] = {}


@fault(ALL)
def names_and_ids_are_gone(n):
    for cell in n["cells"]:
        cell["metadata"] = {}
        del cell["id"]


@fault(ALL)
def metadata_is_null(n):
    for cell in n["cells"]:
        cell["metadata"] = None


@fault(ALL)
def names_are_text(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"] = "mine"


@fault(ALL)
def names_are_numbers(n):
    for number, cell in enumerate(n["cells"]):
        cell["metadata"]["nbgrader"]["grade_id"] = number


@fault(ALL)
def names_of_an_old_schema(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"]["schema_version"] = 1
        cell["metadata"]["nbgrader"].pop("task")


@fault(ALL)
def names_of_a_schema_to_come(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"]["schema_version"] = "next"


@fault(ALL)
def points_are_words(n):
    cell_of(n, "f-check")["metadata"]["nbgrader"]["points"] = "many"


@fault(ALL)
def points_are_negative(n):
    cell_of(n, "f-check")["metadata"]["nbgrader"]["points"] = -3


@fault(ALL)
def everything_is_locked(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"]["locked"] = True


@fault(ALL)
def nothing_is_graded(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"] |= {"grade": False, "solution": False}


@fault(ALL)
def answers_are_text(n):
    for name in ANSWERS:
        cell_of(n, name)["cell_type"] = "markdown"


@fault(ALL)
def a_cell_of_a_type_that_is_none(n):
    cell_of(n, "f")["cell_type"] = "heading"


@fault(ALL)
def checks_are_lost(n):
    n["cells"] = [cell for cell in n["cells"] if not cell["id"].endswith("-check")]


@fault(ALL)
def setup_is_lost(n):
    del n["cells"][0]


@fault(ONLY_G)
def an_answer_is_lost(n):
    n["cells"].remove(cell_of(n, "f"))


@fault(ALL)
def upside_down(n):
    n["cells"].reverse()


@fault(ALL)
def an_answer_in_two_cells(n):
    answer, first = cell_of(n, "g"), "def cube(x):\n    return x * x * x"
    n["cells"].insert(3, {**answer, "id": "upper", "metadata": {}, "source": first})
    answer["source"] = "g = cube"


@fault(ALL)
def both_answers_in_one_cell(n):
    cell_of(n, "f")["source"] += "\n\n" + ANSWERS["g"]
    cell_of(n, "g")["source"] = "# see above"


@fault(ALL)
def an_answer_in_a_cell_of_its_own(n):
    own = {**cell_of(n, "f"), "id": "own", "metadata": {}}
    cell_of(n, "f")["source"] = "# below"
    n["cells"].insert(2, own)


@fault(ALL)
def a_copied_answer(n):
    n["cells"].insert(1, {**cell_of(n, "f"), "source": "def f(x):\n    return 0"})


@fault(ALL)
def a_copied_check(n):
    n["cells"].append(dict(cell_of(n, "f-check")))


@fault(ALL)
def everything_twice(n):
    n["cells"] += [dict(cell) for cell in n["cells"]]


@fault(ALL)
def a_lone_surrogate(n):
    cell_of(n, "f")["source"] += "\nnote = '\ud800'"
    return json.dumps(n)


@fault(ONLY_G)
def a_null_in_an_answer(n):
    cell_of(n, "f")["source"] += "\0"


@fault(ALL)
def blanks_that_do_not_break(n):
    cell_of(n, "f")["source"] += "\n# a\u00a0note\u200b\u2028and more"


@fault(ONLY_G)
def a_mark_in_an_answer(n):
    cell_of(n, "f")["source"] = "\ufeff" + ANSWERS["f"]


@fault(ALL)
def carriage_returns(n):
    for name in ANSWERS:
        cell_of(n, name)["source"] = ANSWERS[name].replace("\n", "\r\n")


@fault(ALL)
def a_line_of_a_hundred_kilobytes(n):
    cell_of(n, "f")["source"] += "\n# " + "x" * 100_000


@fault(ONLY_G)
def an_answer_that_is_no_python(n):
    cell_of(n, "f")["source"] = "the square of x"


@fault(ONLY_G)
def brackets_without_end(n):
    cell_of(n, "f")["source"] = "f = " + "(" * 5000


@fault(ALL)
def magics_left_standing(n):
    cell_of(n, "f")["source"] += "\n%timeit -n1 -r1 f(2)"
    cell_of(n, "g")["source"] += "\n%matplotlib inline\n!echo done"


@fault(ALL)
def an_attachment_in_a_code_cell(n):
    cell_of(n, "f")["attachments"] = {"a.png": {"image/png": ""}}


class Class:
    """The class after it was graded."""

    def __init__(self, root):
        self.root = root
        make_course(root)
        for student, (_, spoil) in FAULTS.items():
            notebook = honest()
            text = spoil(notebook)
            text = json.dumps(notebook) if text is None else text
            self.submit(student, text if isinstance(text, bytes) else text.encode())
        for student in ("Zoë O'Neill", "-force", "a+b [c]", "zz_last"):
            self.submit(student, json.dumps(honest()).encode())
        self.printed = self.run("autograde", UNIT, f"--RunNotebook.box={not why_not()}")
        self.run("generate_feedback", UNIT)
        with Gradebook(f"sqlite:///{root}/gradebook.db") as gradebook:
            self.points = {s.student.id: s.score for s in gradebook.assignment_submissions(UNIT)}

    def submit(self, student, content):
        folder = self.root / "submitted" / student / UNIT
        folder.mkdir(parents=True)
        (folder / f"{NAME}.ipynb").write_bytes(content)

    def run(self, *arguments):
        environment = {"HOME": "/nonexistent", "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"}
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=900)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    return Class(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("student", FAULTS)
def test_the_points_that_are_left(classroom, student):
    assert classroom.points.get(student) == FAULTS[student][0], lines_on(classroom, student)


@pytest.mark.parametrize("student", FAULTS)
def test_there_is_a_page(classroom, student):
    page = classroom.root / "feedback" / student / UNIT / f"{NAME}.html"
    text = re.sub(r"<[^>]*>", "", page.read_text())
    assert f"(Score: {FAULTS[student][0]} / {ALL})" in text
    assert str(classroom.root) not in text


def test_the_class_goes_on_and_nobodys_name_matters(classroom):
    assert len(FAULTS) >= 50
    assert classroom.points["zz_last"] == classroom.points["Zoë O'Neill"] == classroom.points["a+b [c]"] == ALL
    assert "Traceback" not in classroom.printed


def lines_on(classroom, student):
    said = [line for line in classroom.printed.splitlines() if f"/{student}/" in line or f" {student} " in line]
    graded = Path(classroom.root, "autograded", student, UNIT, f"{NAME}.ipynb")
    errors = []
    if graded.exists():
        cells = read_notebook(graded).cells
        errors = [(c.id, o.ename, o.evalue) for c in cells for o in c.get("outputs", []) if o.output_type == "error"]
    return "\n".join([*said, *map(str, errors)])
