"""Whatever lies in `submitted/`, each student gets a grade; a grader may be killed, and two may work at once.

One classroom, by nbgrader's own command: a grader is killed in the middle of it, then it is graded to the end while
somebody else holds one submission, and once more when that one is free again.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from _tiny_unit import ALL, ANSWERS, NAME, UNIT, handed_in, make_course
from nbgrader.api import Gradebook

from autograder.doors.box.rules import why_not

pytestmark = [
    pytest.mark.once,
    pytest.mark.thorough,
    pytest.mark.notebooks,
    pytest.mark.xdist_group("submissions"),
]

BOX = [f"--RunNotebook.box={not why_not()}"]
SLEEPS = "import time; time.sleep({})\n"


class Classroom:
    def __init__(self, root, temporary):
        self.root, self.temporary = root, temporary
        make_course(root)

    def submit(self, student, name=f"{NAME}.ipynb", above=""):
        folder = self.root / "submitted" / student / UNIT
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(handed_in(ANSWERS | {"f": above + ANSWERS["f"]}), folder / name)
        return folder

    def nbgrader(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.root,
            env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def autograde(self):
        return self.nbgrader("autograde", UNIT, *BOX)

    def marks(self):
        """The submissions that are being graded, or were when a grader was killed."""
        return {path.parent.name for path in self.root.glob("autograded/*/.*.being-graded") if path.stat().st_size}

    def points(self):
        with Gradebook(f"sqlite:///{self.root}/gradebook.db") as gradebook:
            return {s.student.id: s.score for s in gradebook.assignment_submissions(UNIT)}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    temporary = Path("/tmp", f"room-{os.getpid()}")  # short: sockets lie in it
    temporary.mkdir()
    room = Classroom(tmp_path_factory.mktemp("classroom"), temporary)
    room.submit("a-honest")
    room.submit("b-slow", above=SLEEPS.format(3))
    room.submit("c-renamed", f"{NAME} (1).ipynb")
    room.submit("d-in-a-folder", f"my work/{NAME}.ipynb")
    (room.submit("e-no-time") / "timestamp.txt").write_bytes(b"next Tuesday\xff")
    (room.root / "submitted" / "f-nothing" / UNIT).mkdir(parents=True)
    (room.root / "submitted" / "f-nothing" / UNIT / "essay.txt").write_text("I liked it.")
    room.submit("g-held")
    folder = room.submit("h-another", "notes.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), folder / "notes.ipynb")
    yield room
    shutil.rmtree(temporary)


@pytest.fixture(scope="module")
def killed(room):
    """The classroom after its grader was killed at the second student."""
    grader = room.autograde()
    while "b-slow" not in room.marks():
        assert grader.poll() is None, grader.stdout.read()
        time.sleep(0.01)
    grader.send_signal(signal.SIGKILL)
    grader.wait()
    assert room.marks() == {"b-slow"}
    assert bool(list(room.temporary.glob("*box-*"))) == (not why_not())
    return room


@pytest.fixture(scope="module")
def again(killed):
    """What autograde prints, while another process holds one submission."""
    folder = killed.root / "autograded" / "g-held"
    folder.mkdir()
    with open(folder / f".{UNIT}.being-graded", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        printed, _ = killed.autograde().communicate(timeout=120)
    return printed


@pytest.fixture(scope="module")
def at_last(killed, again):
    """What autograde prints when that submission is free."""
    printed, _ = killed.autograde().communicate(timeout=120)
    return printed


def lines(printed, student):
    return [line.split("] ")[-1] for line in printed.splitlines() if student in line and "WARNING" in line]


def test_who_was_being_graded_when_the_grader_was_killed_is_graded_anew(room, again):
    assert "a grader was stopped at this submission; it is graded anew" in lines(again, "b-slow")[0]
    assert lines(again, "a-honest") == []
    points = room.points()
    assert points["a-honest"] == points["b-slow"] == ALL
    assert room.marks() == set()


@pytest.mark.parametrize("student", ["c-renamed", "d-in-a-folder"])
def test_a_notebook_of_another_name_is_found(room, again, student):
    assert room.points()[student] == ALL
    assert any(f"{NAME}.ipynb: there is no such notebook; " in line for line in lines(again, student))
    assert (room.root / "autograded" / student / UNIT / f"{NAME}.ipynb").exists()


def test_a_time_that_is_none_costs_nothing_and_stops_nobody(room, again):
    assert "timestamp.txt: this is no time" in lines(again, "e-no-time")[0]
    assert room.points()["e-no-time"] == ALL


@pytest.mark.parametrize("student", ["f-nothing", "h-another"])
def test_who_handed_in_no_notebook_of_the_unit_has_a_grade_and_is_told_of(room, again, student):
    assert room.points()[student] == 0
    table = again.split("These submissions did not run to their end:\n")[1]
    (row,) = [line for line in table.splitlines() if student in line]
    assert "5 of 5" in row and f"{NAME}.ipynb: there is no such notebook" in row
    graded = nbformat.read(room.root / "autograded" / student / UNIT / f"{NAME}.ipynb", as_version=4)
    assert str(room.root) not in graded.metadata["not_graded"]


def test_two_graders_leave_each_other_alone(room, again, at_last):
    assert "another grader is at work on this submission" in lines(again, "g-held")[0]
    assert lines(at_last, "g-held") == []
    assert room.points() == dict.fromkeys(room.points(), ALL) | {"f-nothing": 0, "h-another": 0}
    assert len(room.points()) == 8
    assert list(room.temporary.glob("*box-*")) == [], "what the killed grader left is removed"
