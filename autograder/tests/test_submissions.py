"""Whatever lies in `submitted/`, each student gets a grade; a grader may be killed, and two may work at once.

One classroom, by nbgrader's own command: a grader is killed in the middle of it, then it is graded to the end while
somebody else holds one submission, and once more when that one is free again.
"""

import fcntl
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from _tiny_unit import ALL, ANSWERS, NAME, UNIT, handed_in, make_course
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory

from autograder.doors.box.rules import why_not
from autograder.doors.graded_notebook import read_notebook
from autograder.doors.handed_in import files_beside, make_readable, notebook_in, passed_over
from autograder.doors.nbgrader_steps import SubmissionExporter
from autograder.doors.submissions import _forgive_times, _take_turns
from autograder.not_begun import STUB

pytestmark = [
    pytest.mark.once,
    pytest.mark.thorough,
    pytest.mark.notebooks,
    pytest.mark.xdist_group("submissions"),
]

BOX = [f"--RunNotebook.box={not why_not()}"]
NOBODY = 65534  # a user without rights
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
    folder = room.submit("i-two-of-them", f"{NAME}-Copy1.ipynb")
    nbformat.write(handed_in(HALF), folder / RIGHT)
    room.submit(".j-hidden")
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


def test_who_handed_in_two_notebooks_is_told_of_the_one_that_does_not_count(room, again):
    (line,) = lines(again, "i-two-of-them")
    assert line.endswith(f"{RIGHT}: '{NAME}-Copy1.ipynb', with answers to 1 task that this one lacks, was not graded.")
    graded = nbformat.read(room.root / "autograded" / "i-two-of-them" / UNIT / RIGHT, as_version=4)
    assert graded.metadata["passed_over"] == f"{NAME}-Copy1.ipynb, with answers to 1 task that are as released here."
    assert "handed_in_as" not in graded.metadata
    assert 0 < room.points()["i-two-of-them"] < ALL


def test_a_student_whose_folder_is_hidden_has_no_grade_and_is_told_of(room, again):
    (line,) = lines(again, ".j-hidden")
    assert "the name of a student must not begin with a dot" in line
    assert ".j-hidden" not in room.points()


def test_two_graders_leave_each_other_alone(room, again, at_last):
    assert "another grader is at work on this submission" in lines(again, "g-held")[0]
    assert lines(at_last, "g-held") == []
    assert room.points() == dict.fromkeys(room.points(), ALL) | {
        "f-nothing": 0,
        "h-another": 0,
        "i-two-of-them": ALL - 3,
    }
    assert len(room.points()) == 9
    assert list(room.temporary.glob("*box-*")) == [], "what the killed grader left is removed"


def test_what_failed_is_no_submission_at_which_a_grader_was_stopped(tmp_path):
    """nbgrader removes what it has of a submission that it could not grade, and goes on."""

    def convert():
        for student in ("fails", "ada", "last_fails"):
            assert converter.init_destination(UNIT, student)
            folder = tmp_path / student / UNIT
            assert (tmp_path / student / f".{UNIT}.being-graded").stat().st_size
            if student == "ada":
                folder.mkdir()
                converter.set_permissions(UNIT, student)

    converter = SimpleNamespace(
        init_destination=lambda unit, student: True,
        set_permissions=lambda unit, student: None,
        convert_notebooks=convert,
        _format_dest=lambda unit, student: str(tmp_path / student / unit),
    )
    _take_turns(converter)
    converter.convert_notebooks()
    assert list(tmp_path.rglob("*.being-graded")) == []


def test_a_time_stamp_counts_however_many_were_graded_before(tmp_path):
    """A class has one course directory, and each submission a converter that forgives what is no time."""
    course = CourseDirectory()
    for _ in range(2 * sys.getrecursionlimit()):
        _forgive_times(SimpleNamespace(coursedir=course, log=logging.getLogger("times")))
    (tmp_path / "timestamp.txt").write_text("2026-11-28 12:00:00 UTC")
    assert course.get_existing_timestamp(str(tmp_path)) == datetime(2026, 11, 28, 12)
    (tmp_path / "timestamp.txt").write_text("next Tuesday")
    assert course.get_existing_timestamp(str(tmp_path)) is None


STUBS = {name: f'def {name}(x):\n    raise NotImplementedError("{STUB}")' for name in ANSWERS}
HALF = ANSWERS | {"g": STUBS["g"]}
FORMATTED = {name: f"# to do\ndef {name}(x):\n    raise NotImplementedError('...')" for name in ANSWERS}
RIGHT = f"{NAME}.ipynb"


WHICH = {  # of these files, the latest below, which is taken
    "nothing": ({}, None),
    "nothing of the unit": ({"a.ipynb": None, "essay.txt": None}, None),
    "the right name": ({RIGHT: HALF, "a.ipynb": ANSWERS}, RIGHT),
    "the right name, untouched": ({RIGHT: STUBS}, RIGHT),
    "only untouched ones": ({RIGHT: STUBS, "a.ipynb": STUBS}, RIGHT),
    "the right name, in another form": ({RIGHT: FORMATTED, "a.ipynb": HALF}, "a.ipynb"),
    "a copy of the release": ({RIGHT: STUBS, "a.ipynb": HALF}, "a.ipynb"),
    "no notebook at the right name": ({RIGHT: None, "b/a.ipynb": HALF}, "b/a.ipynb"),
    "no notebook at all": ({RIGHT: None, "a.json": None}, RIGHT),
    "the one with more answers": ({"a.ipynb": HALF, "b.ipynb": ANSWERS, "c.ipynb": STUBS}, "b.ipynb"),
    "the later one": ({"a.ipynb": ANSWERS, "b.ipynb": ANSWERS}, "b.ipynb"),
    "a notebook rather than a text": ({"a.ipynb": HALF, "b.json": ANSWERS, NAME: ANSWERS}, "a.ipynb"),
    "a text": ({"b.json": ANSWERS, ".hidden/a.ipynb": ANSWERS}, "b.json"),
    "an autosaved one last": ({".ipynb_checkpoints/a.ipynb": ANSWERS, "a.txt": HALF}, "a.txt"),
    "an autosaved one": ({".ipynb_checkpoints/a.ipynb": ANSWERS, "a.txt": STUBS}, ".ipynb_checkpoints/a.ipynb"),
}


def test_an_archive_may_hold_the_notebook(tmp_path):
    with zipfile.ZipFile(tmp_path / "hand in.zip", "w") as archive:
        archive.writestr(f"mine/{RIGHT}", nbformat.writes(handed_in(HALF)))
    assert notebook_in(tmp_path, RIGHT, handed_in(STUBS)) == tmp_path / "hand in.zip"


@pytest.mark.parametrize(("files", "taken"), WHICH.values(), ids=WHICH)
def test_which_file_is_taken(tmp_path, files, taken):
    nbformat.write(handed_in(STUBS), tmp_path / "release")
    folder = tmp_path / "handed-in"
    folder.mkdir()
    for age, (name, answers) in enumerate(reversed(files.items())):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(nbformat.writes(handed_in(answers)) if answers else "I liked it.")
        os.utime(path, (10**9, 10**9 - age))
    found = notebook_in(folder, RIGHT, read_notebook(tmp_path / "release"))
    assert (found and str(found.relative_to(folder))) == taken


PASSED_OVER = {  # of these files, the first of which is graded, the one that has more answers, and how many
    "nothing": ({RIGHT: HALF}, None),
    "the same": ({RIGHT: HALF, "a.ipynb": HALF, "essay.txt": None}, None),
    "fewer": ({RIGHT: ANSWERS, "a.ipynb": HALF}, None),
    "more": ({RIGHT: HALF, "a.ipynb": ANSWERS}, ("a.ipynb", 1)),
    "another form": ({RIGHT: HALF, "a.ipynb": FORMATTED}, None),
    "the most": ({RIGHT: STUBS, "a.ipynb": HALF, "b.txt": ANSWERS}, ("b.txt", 2)),
    "an autosaved one": ({RIGHT: HALF, ".ipynb_checkpoints/a.ipynb": ANSWERS}, None),
}


@pytest.mark.parametrize(("files", "other"), PASSED_OVER.values(), ids=PASSED_OVER)
def test_answers_that_lie_beside_the_graded_notebook_are_seen(tmp_path, files, other):
    for name, answers in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(nbformat.writes(handed_in(answers)) if answers else "I liked it.")
    found = passed_over(tmp_path, tmp_path / RIGHT, handed_in(STUBS))
    assert (found and (str(found.path.relative_to(tmp_path)), found.tasks)) == other


@pytest.mark.parametrize(("cell", "taken"), [("1 + 1", "a.ipynb"), ("# A word.", "a.ipynb"), ("def f(x): 1", RIGHT)])
def test_a_word_or_a_line_to_try_is_no_answer(tmp_path, cell, taken):
    """The release, in which somebody has tried something, beside the copy with the answers."""
    (tmp_path / "handed-in").mkdir()
    tried = handed_in(STUBS)
    tried.cells.append((new_markdown_cell if cell.startswith("#") else new_code_cell)(cell))
    for name, notebook in ((RIGHT, tried), ("a.ipynb", handed_in())):
        (tmp_path / "handed-in" / name).write_text(nbformat.writes(notebook))
    assert notebook_in(tmp_path / "handed-in", RIGHT, handed_in(STUBS)) == tmp_path / "handed-in" / taken


def test_no_link_leads_to_a_notebook(tmp_path):
    release, ada, mallory = handed_in(STUBS), tmp_path / "ada", tmp_path / "mallory"
    for folder in (ada, mallory):
        folder.mkdir()
    nbformat.write(handed_in(), ada / RIGHT)
    (mallory / "a.ipynb").symlink_to(ada / RIGHT)
    (mallory / "ada").symlink_to(ada)
    assert notebook_in(mallory, RIGHT, release) is None
    (mallory / RIGHT).symlink_to(ada / RIGHT)
    assert notebook_in(mallory, RIGHT, release) == mallory / RIGHT, "it is said of it that it is a link"
    assert files_beside(str(mallory), []) == ([], 0)


@pytest.fixture
def somebody(monkeypatch):
    """A folder of a user to whom permissions mean something."""
    folder, root = Path(tempfile.mkdtemp(dir="/tmp")), os.geteuid() == 0
    if root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield folder
    if root:
        os.seteuid(0)
    shutil.rmtree(folder, ignore_errors=True)


def forbid(*paths):
    for path in paths:
        path.chmod(0)


def test_what_permissions_alone_forbid_is_read(somebody):
    """Ours is made readable, and nothing more than that; what a link leads to stays as it is."""
    folder, elsewhere = somebody / "ada" / UNIT, somebody / "elsewhere"
    (folder / "data").mkdir(parents=True)
    (folder / ".git").mkdir()
    for path in (folder / RIGHT, folder / "data" / "a.txt", folder / ".git" / "b", elsewhere):
        path.write_text(nbformat.writes(handed_in()))
    (folder / "link").symlink_to(elsewhere)
    forbid(elsewhere, folder / RIGHT, folder / "data" / "a.txt", folder / "data", folder / ".git", folder)
    make_readable(folder)
    assert read_notebook(folder / RIGHT).cells
    assert notebook_in(folder, RIGHT, handed_in(STUBS)) == folder / RIGHT
    assert files_beside(str(folder), []).taken == [str(folder / "data" / "a.txt")]
    modes = [stat.S_IMODE(os.lstat(p).st_mode) for p in (folder, folder / RIGHT, folder / ".git", elsewhere)]
    assert modes == [0o500, 0o400, 0, 0]


@pytest.mark.parametrize("what", ["", RIGHT, "data"])
def test_what_another_forbids_to_read_has_a_grade_and_its_reason(somebody, monkeypatch, what):
    folder = somebody / UNIT
    (folder / "data").mkdir(parents=True)
    for name in (RIGHT, "data/a.txt", "data/b.ipynb"):
        (folder / name).write_text(nbformat.writes(handed_in()))
    (folder / what).chmod(stat.S_IRUSR if what == "data" else 0)
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    make_readable(folder)
    assert files_beside(str(folder), []).taken == ([str(folder / "data" / "a.txt")] if what == RIGHT else [])
    assert passed_over(folder, folder / RIGHT, handed_in(STUBS)) is None or what == RIGHT
    _, resources = SubmissionExporter().from_filename(str(folder / RIGHT))
    reason = f"{RIGHT}: its permissions forbid to read it."
    assert resources.get("not_graded") == (None if what == "data" else reason)


def test_small_files_come_along_and_what_is_hidden_or_ignored_does_not(tmp_path):
    for name in ("a.csv", "a[b]/c.csv", ".venv/x.txt", "cache/y.txt", "z.pyc", "n.ipynb", "n.ipynb.d/z.txt", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    with open(tmp_path / "Core", "wb") as core:
        core.truncate(2**30)
    taken, left_out = files_beside(str(tmp_path), ["cache", "*.pyc"])
    assert sorted(os.path.relpath(path, tmp_path) for path in taken) == ["a.csv", "a[b]/c.csv", "n.ipynb.d/z.txt"]
    assert left_out == 1
