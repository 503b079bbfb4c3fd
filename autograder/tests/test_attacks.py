"""A class with attackers in it is graded in boxes: nothing outside is reached, and nobody else loses a point.

So it is in the reduced boxes of a system that forbids the full ones, but for what `NOT_HELD` lists.

`attacks/` holds what they try, one idea in each cell. An attack stands at the top of an honest answer to the first of
two tasks, and the second answer is right. The guard would leave these cells out, so it is off: they try the box alone.
What a student's code does to the checks of its own notebook stands above a wrong answer, and the guard is on; most of
that is tried without a kernel, in `test_guard.py`.
"""

import csv
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import jupytext
import nbformat
import psutil
import pytest
from _tiny_unit import ALL, ANSWERS, LAZY, NAME, ONLY_F, ONLY_G, UNIT, handed_in, make_course
from nbgrader.api import Gradebook

import autograder
from autograder.doors.box import landlock, reduced
from autograder.doors.box.rules import why_not
from autograder.doors.graded_notebook import read_notebook

pytestmark = [pytest.mark.once, pytest.mark.thorough, pytest.mark.notebooks]
WHY_NOT = reduced.why_not() or ("" if landlock.abi() >= landlock.SCOPES else "signals leave a reduced box here")
full_only = pytest.mark.skipif(
    bool(why_not()), reason=f"not here, because attacks are tried in a box alone: {why_not()}"
)
where_reduced = pytest.mark.skipif(
    bool(WHY_NOT), reason=f"not here, because attacks are tried in a box alone: {WHY_NOT}"
)

GUARDED = "01_powers"  # the same, graded as a course is
UNGUARDED = "--RunNotebook.guard=False"
LIMITS = ["--RunNotebook.seconds=4", "--RunNotebook.memory=1", "--RunNotebook.disk=0.05", "--RunNotebook.processes=64"]


def attacks(file):
    return jupytext.read(Path(__file__).parent / "attacks" / f"{file}.py", fmt="py:percent").cells


def classes(attackers):
    """A class of attackers that is graded in full boxes, and one in reduced ones."""
    return [
        pytest.param((attackers, False), id=attackers, marks=[pytest.mark.xdist_group(attackers), full_only]),
        pytest.param(
            (attackers, True),
            id=f"{attackers}-reduced",
            marks=[pytest.mark.xdist_group(f"{attackers}-reduced"), where_reduced],
        ),
    ]


# The attackers sit in two classes. What does harm waits for its limits, and takes longer than all the others.
REACHES, HARMS = classes("reaching_out"), classes("doing_harm")
reaches = pytest.mark.parametrize("classroom", REACHES, indirect=True, scope="module")
harms = pytest.mark.parametrize("classroom", HARMS, indirect=True, scope="module")
in_both = pytest.mark.parametrize("classroom", REACHES + HARMS, indirect=True, scope="module")

# What a reduced box lets through, and what is printed then: autograder/THREATS.md says so.
NOT_HELD = {
    # /proc is the system's own: the names of its processes stand there. More of them is refused.
    "x-looks-for-the-grader-among-the-processes": r"(REACHED /proc/\d+/cmdline\n)+",
    # It asks whether the disk is read-only. Landlock refuses to write there, which is another thing; see
    # `test_reduced_box.py`, where a file is tried that is not being run.
    "x-overwrites-the-program-that-it-is": r"REACHED\n",
}

REACHING = [cell for cell in attacks("reaching_out") if cell.cell_type == "code" and "name" in cell.metadata]
HARMING = [cell for cell in attacks("doing_harm") if cell.cell_type == "code" and "name" in cell.metadata]
KERNEL = [cell for cell in attacks("in_the_kernel") if cell.cell_type == "code" and "name" in cell.metadata]


def student(cell):
    """Its name as a student's; nbgrader writes no quotes around one with a comma in its table."""
    return "x-" + re.sub(r"\W+", "-", cell.metadata["name"])


def printed(notebook):
    """What its cells wrote. (A traceback quotes the attack itself.)"""
    return "".join(o.text for cell in notebook.cells for o in cell.outputs if o.output_type == "stream")


def submission(attack=""):
    return handed_in(ANSWERS | {"f": f"{attack}\n{ANSWERS['f']}"})


def contents(*folders):
    """What stands in every file of the folders."""
    files = sorted(path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}


class Listener:
    """Servers of this machine that note whoever comes: TCP and UDP at one port, and a socket without a file."""

    def __init__(self):
        self.heard = []
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0autograder-{self.port}")
        self.abstract.listen()
        for listen in (self.tcp.accept, self.abstract.accept, lambda: self.udp.recvfrom(100)):
            threading.Thread(target=self.note, args=[listen], daemon=True).start()

    def note(self, listen):
        while True:
            self.heard.append(listen()[1])


class Class:
    """The classroom after it was graded, and what was there before."""

    def __init__(self, root, attackers, reduced):
        self.root, self.listener, self.reduced = root, Listener(), reduced
        (root / "outside").mkdir()
        (root / "outside" / "diary.txt").write_text("secret")
        course = root / "course"
        make_course(course, (UNIT, GUARDED), judged=True)
        (course / "nbgrader_config.py").chmod(0o644)
        places = {
            "CLASSROOM": str(course),
            "PACKAGE": str(Path(autograder.__file__).parent),
            "OUTSIDE": str(root / "outside"),
            "PORT": str(self.listener.port),
        }
        self.submit("honest", submission())
        self.submit("lazy", handed_in(LAZY))
        self.submit("zoe", submission())  # after all attackers
        for cell in {"reaching_out": REACHING, "doing_harm": HARMING}[attackers]:
            source = cell.source
            for word, place in places.items():
                source = source.replace(word, place)
            self.submit(student(cell), submission(source))
        if attackers == "reaching_out":
            self.submit_links()
            self.submit_guarded()
        self.safe = [course / "solutions", course / "exercises", course / "submitted", root / "outside"]
        self.safe.append(Path(autograder.__file__).parent)
        self.before = contents(*self.safe)
        self.temporary = Path("/tmp", f"attacks-{os.getpid()}")
        self.temporary.mkdir()
        self.graded(UNIT, "--student=honest", UNGUARDED)
        self.after_honest = contents(course / "autograded" / "honest" / UNIT)
        self.printed = self.graded(UNIT, UNGUARDED)
        self.guarded = self.graded(GUARDED, "--RunNotebook.judge=False")  # the guard is all that holds there
        self.run("generate_feedback", UNIT)
        self.run("generate_feedback", GUARDED)
        self.run("export")
        with open(course / "grades.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.scores = {row["student_id"]: float(row["score"]) for row in rows if row["assignment"] == UNIT}
        self.of_guarded = {row["student_id"]: float(row["score"]) for row in rows if row["assignment"] == GUARDED}

    def submit_links(self):
        self.submit("y-links", submission())
        links = self.root / "course" / "submitted" / "y-links" / UNIT
        (links / f"{NAME}.ipynb").unlink()
        (links / f"{NAME}.ipynb").symlink_to(self.root / "course" / "solutions" / UNIT / f"{NAME}.ipynb")
        (links / "data.txt").symlink_to(self.root / "outside" / "diary.txt")
        (links / "notes.txt").write_text("mine")
        os.mkfifo(links / "pipe.txt")

    def submit_guarded(self):
        """What tries the checks, and an honest one with a module beside the notebook."""
        for cell in KERNEL:
            tricky = submission()
            tricky.cells[3].source = f"{cell.source}\n\ndef g(x):\n    return x + x"
            self.submit(student(cell), tricky, GUARDED)
        self.submit("honest", submission("%timeit -n 1 abs(-1)\n"), GUARDED)
        self.submit("lazy", handed_in(LAZY), GUARDED)
        beside = self.root / "course" / "submitted" / "honest" / GUARDED / "numpy.py"
        beside.write_text("print('REACHED')")

    def submit(self, name, notebook, unit=UNIT):
        folder = self.root / "course" / "submitted" / name / unit
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f"{NAME}.ipynb")

    def graded(self, *arguments):
        return self.run("autograde", *arguments, *LIMITS)

    def run(self, *arguments):
        environment = {
            "HOME": "/nonexistent",
            "PATH": "/nonexistent" if self.reduced else "/usr/bin:/bin",
            "SECRET_TOKEN": "open-sesame",
        }
        # Where bubblewrap is not found, boxes are reduced ones.
        environment |= {"TMPDIR": str(self.temporary)}
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.root / "course",
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
        return done.stdout + done.stderr

    def executed(self, name, unit=UNIT):
        return read_notebook(self.root / "course" / "autograded" / name / unit / f"{NAME}.ipynb")

    def page(self, name, unit=UNIT):
        return (self.root / "course" / "feedback" / name / unit / f"{NAME}.html").read_text()


@pytest.fixture(scope="module")
def classroom(tmp_path_factory, request):
    graded = Class(tmp_path_factory.mktemp("attacks"), *request.param)
    yield graded
    shutil.rmtree(graded.temporary)


@reaches
@pytest.mark.parametrize("cell", REACHING, ids=student)
def test_nothing_outside_is_reached(classroom, cell):
    executed = classroom.executed(student(cell))
    if classroom.reduced and student(cell) in NOT_HELD:
        assert re.fullmatch(NOT_HELD[student(cell)], printed(executed))
    else:
        assert "REACHED" not in printed(executed)
    error = [o.ename for cell in executed.cells for o in cell.outputs if o.output_type == "error"]
    assert "NameError" not in error[:1] and "SyntaxError" not in error, "the attack was not tried"
    assert classroom.scores[student(cell)] in (ALL, ONLY_G)


@harms
@pytest.mark.parametrize("cell", HARMING, ids=student)
def test_harm_costs_its_own_task_alone_and_says_so(classroom, cell):
    executed = classroom.executed(student(cell))
    said = " ".join(o.evalue for cell in executed.cells for o in cell.outputs if o.output_type == "error")
    assert "REACHED" not in printed(executed)
    lost = cell.metadata.get("lost")
    if lost:
        # On a slow machine the time ends it, and what waits to be sent may fill the memory first.
        assert lost in said or "longer than" in said or "held more than" in said, said
        assert classroom.scores[student(cell)] == ONLY_G, said
        assert "It cost 2 of 5 points." in classroom.page(student(cell))
        assert student(cell) in classroom.printed.split("did not run to their end")[1]
    else:
        refused = classroom.reduced and "Operation not permitted" in said
        assert classroom.scores[student(cell)] == ALL or "longer than" in said or refused, said
        assert classroom.scores[student(cell)] >= ONLY_G


@reaches
@pytest.mark.parametrize("cell", KERNEL, ids=student)
def test_no_trick_in_the_kernel_wins_the_points_of_an_answer(classroom, cell):
    name = student(cell)
    assert classroom.of_guarded[name] == ONLY_F
    if cell.metadata.get("how") == "put back":
        assert "put back after this cell" in printed(classroom.executed(name, GUARDED))
    elif "how" in cell.metadata:  # what is asked for is seen when it runs
        errors = [o for c in classroom.executed(name, GUARDED).cells for o in c.get("outputs", []) if "ename" in o]
        assert errors[0]["ename"] == "TypeError"
        assert cell.metadata.get("said", "__globals__") in errors[0]["evalue"]
    else:
        assert "cell was left out in" in classroom.page(name, GUARDED)
        assert "It cost 3 of 5 points." in classroom.page(name, GUARDED)
        assert name in classroom.guarded.split("did not run to their end")[1]


@reaches
def test_the_guard_costs_the_honest_nothing(classroom):
    assert classroom.of_guarded["honest"] == ALL
    executed = classroom.executed("honest", GUARDED)
    assert printed(executed) == "" and executed.cells[1].source.startswith("%timeit")
    assert "left out" not in classroom.page("honest", GUARDED)


@in_both
def test_the_lazy_get_nothing_beside_them(classroom):
    assert classroom.scores["lazy"] == classroom.of_guarded.get("lazy", 0) == 0


def test_there_are_many_ideas_and_each_is_tried_once():
    names = [student(cell) for cell in REACHING + HARMING + KERNEL]
    assert len(set(names)) == len(names) >= 60


@reaches
def test_a_link_is_not_followed(classroom):
    course = classroom.root / "course"
    assert classroom.scores["y-links"] == 0
    assert "this is a link or a device, and not a notebook." in classroom.page("y-links")
    names = os.listdir(course / "autograded" / "y-links" / UNIT)
    assert "notes.txt" in names and not {"data.txt", "pipe.txt"} & set(names)
    assert os.listdir(course / "feedback" / "y-links" / UNIT) == [f"{NAME}.html"]


@in_both
def test_the_honest_keep_their_points(classroom):
    assert (classroom.scores["honest"], classroom.scores["zoe"]) == (ALL, ALL)
    assert contents(classroom.root / "course" / "autograded" / "honest" / UNIT) == classroom.after_honest
    assert "REACHED" not in printed(classroom.executed("zoe"))
    with Gradebook(f"sqlite:///{classroom.root}/course/gradebook.db", "just-in-time") as gradebook:
        for name in ("honest", "zoe"):
            grades = gradebook.find_submission(UNIT, name).notebooks[0].grades
            assert [(g.name, g.auto_score, g.manual_score) for g in grades] == [
                ("f-check", 2.0, None),
                ("g-check", 3.0, None),
            ]


@in_both
def test_nothing_of_the_course_is_changed(classroom):
    assert contents(*classroom.safe) == classroom.before


@in_both
def test_nobody_was_called(classroom):
    assert classroom.listener.heard == []


@in_both
def test_nothing_is_left_behind(classroom):
    assert os.listdir(classroom.temporary) == []
    assert not Path("/tmp/autograder-planted").exists()
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "86399"]]


@reaches
def test_the_page_says_how_it_was_graded(classroom):
    kind = "a reduced box (Landlock ABI" if classroom.reduced else "a box (bubblewrap"
    assert f"Graded in {kind}" in classroom.page("honest")
    assert classroom.reduced == ("Bubblewrap can make no full box: bubblewrap is not installed" in classroom.printed)
    assert "no network, 1 GiB of memory" in classroom.executed("honest").metadata["boxed"]


@harms
def test_the_memory_of_the_grader_is_not_filled(classroom):
    for name in ("prints-100-MB", "prints-100-MB-in-lines", "prints-without-end", "shows-large-pages"):
        path = classroom.root / "course" / "autograded" / f"x-{name}" / UNIT / f"{NAME}.ipynb"
        assert path.stat().st_size < 5_000_000
