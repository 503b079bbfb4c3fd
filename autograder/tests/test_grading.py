"""A class is graded by one command: the same grades as nbgrader's, however often it is stopped, wherever it runs."""

import contextlib
import csv
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from _postgresql import server, why_none
from _tiny_unit import ALL, ANSWERS, NAME, ONLY_F, ONLY_G, UNIT, handed_in, make_course
from distributed import Security
from nbgrader.api import Gradebook
from rich.console import Console
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from autograder.classroom import cores, execution, grading
from autograder.classroom.command import app
from autograder.classroom.engine import Back
from autograder.classroom.execution import execute
from autograder.classroom.grading import Wishes, grade_class
from autograder.doors import kernel_runner
from autograder.doors.box.rules import why_not
from autograder.doors.faults import end_in
from autograder.doors.graded_notebook import read_notebook

pytestmark = [pytest.mark.once, pytest.mark.notebooks, pytest.mark.xdist_group("classroom")]

NO_BOX = "--RunNotebook.box=False"
BOX = [NO_BOX] if why_not() else []
OF_DASK = {"MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
FILLS = "def f(x):\n    import numpy as np\n    while True:\n        np.ones(10**8).sum()"  # its box is ended
WRONG_G = ANSWERS | {"g": "def g(x):\n    return x"}
STUDENTS = {  # what each hands in, and earns
    "ada": (ANSWERS, ALL),
    "bob": (WRONG_G, ONLY_F),
    "cid": (ANSWERS | {"f": "def f(x):\n    import jax.numpy as jnp\n    return int(jnp.float32(x) * x)"}, ALL),
    "dan [1]": (ANSWERS | {"g": "def g(x):\n    while True:\n        x += 1"}, ONLY_F),
    "eve": ({}, None),  # a file that is no notebook
    "fay": (ANSWERS | {"f": "def f(x):\n    return open('a.txt', 'w')"}, ONLY_G),
    "gus": (ANSWERS | {"f": FILLS}, ONLY_G),
}
QUICK = ("--RunNotebook.seconds=4", "--RunNotebook.memory=0.5")


def submit(root, student, answers):
    path = root / "submitted" / student / UNIT / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(handed_in(answers)) if answers else "{")


@pytest.fixture(scope="module")
def empty_gradebook(tmp_path_factory):
    """A gradebook without an entry: to make one takes nbgrader a second."""
    path = tmp_path_factory.mktemp("gradebook") / "gradebook.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # nbgrader starts alembic
        Gradebook(f"sqlite:///{path}", "just-in-time").close()
    return path


@pytest.fixture
def root(tmp_path, monkeypatch, empty_gradebook):
    """A course of the tiny unit, and in its folder."""
    root = tmp_path / "course"
    root.mkdir()
    make_course(root)
    for book in ("gradebook.db", "other.db"):
        shutil.copy(empty_gradebook, root / book)
    monkeypatch.chdir(root)
    return root


def points(root, book="gradebook.db"):
    """student -> points in the gradebook, None for one without a grade."""
    return points_in(f"sqlite:///{root}/{book}")


def points_in(url):
    with Gradebook(url, "just-in-time") as gradebook:
        rows = gradebook.submission_dicts(UNIT)
        return {row["student"]: None if row["needs_manual_grade"] else row["score"] for row in rows}


# Here, without a cluster: the same orders are carried out in this process, one after another.


def run_without_a_kernel(notebook, folder, under, course, alone):
    """In place of `run_submission`, for answers of our own: these tests are not about kernels."""
    names = {}
    for cell in notebook.cells:
        try:
            exec(cell.source, names)
        except Exception as error:
            end_in(cell, type(error).__name__, str(error))
    notebook.metadata["boxed"] = "Graded without a box."


@pytest.fixture
def without_kernels(monkeypatch):
    monkeypatch.setattr(execution, "run_submission", run_without_a_kernel)


@pytest.fixture
def here(root, tmp_path, monkeypatch):
    """A function: grade, and what was printed, the exit status, and the students that were run."""
    monkeypatch.setattr(cores.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(kernel_runner, "COLD", 10**9)  # none needs JAX
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    ran = []
    spoil = {}

    def run(client, orders, on_start, on_look):
        for order in orders:
            ran.append(order.student)
            on_look(1)
            yield spoil[order.student](order) if order.student in spoil else Back(order, execute(order))

    @contextlib.contextmanager
    def local_cluster(workers, dashboard):
        yield None

    monkeypatch.setattr(grading, "run", run)
    monkeypatch.setattr(grading, "local_cluster", local_cluster)

    def here(*students, settings=(NO_BOX,), **wishes):
        ran.clear()
        text = io.StringIO()
        wanted = Wishes([UNIT], students=list(students), settings=list(settings), **wishes)
        status = grade_class(wanted, Console(file=text, width=200))
        return status, text.getvalue(), list(ran)

    here.spoil = spoil
    return here


def test_what_has_a_grade_is_not_graded_again_until_it_is_changed(here, root, without_kernels):
    submit(root, "ada", ANSWERS)
    submit(root, "bob", WRONG_G)
    submit(root, "eve", None)
    status, printed, ran = here(csv=Path("points.csv"))
    assert (status, ran, points(root)) == (0, ["ada", "bob", "eve"], {"ada": ALL, "bob": ONLY_F, "eve": 0.0})
    assert "this is no notebook" in printed and "Removing existing" not in printed
    with open("points.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["student"], row["points"], row["of"], row["percent"]) for row in rows] == [
        ("ada", "5", "5", "100.0"),
        ("bob", "2", "5", "40.0"),
        ("eve", "0", "5", "0.0"),
    ]
    status, printed, ran = here()
    assert (status, ran) == (0, []) and "3 of 3 have a grade" in printed
    assert "5 of 5 points lost" in printed  # what went wrong is still known
    submit(root, "bob", ANSWERS)
    submit(root, "eve", ANSWERS | {"f": "def f(x):\n    return 0"})
    assert here("bob")[2] == ["bob"]
    status, printed, ran = here()
    assert (status, ran, points(root)) == (0, ["eve"], {"ada": ALL, "bob": ALL, "eve": ONLY_G})
    assert here("ada", again=True)[2] == ["ada"]


@pytest.mark.thorough
def test_what_nbgrader_has_graded_has_a_grade_and_another_release_asks_for_another(here, root):
    submit(root, "ada", ANSWERS)
    done = nbgrader(root, "autograde", UNIT, NO_BOX)
    assert done.returncode == 0, done.stderr
    assert here()[2] == []
    path = root / "solutions" / UNIT / f"{NAME}.ipynb"
    path.write_text(path.read_text().replace("check(g(3), 27)", "check(g(3), 28)"))
    assert here()[2] == ["ada"] and points(root) == {"ada": ONLY_F}


def test_the_table_says_who_was_graded_in_a_reduced_box(here, root, monkeypatch):
    how = "Graded in a reduced box (Landlock ABI 4: no network; but other processes can be sent signals)."

    def run_reduced(notebook, folder, under, course, alone):
        run_without_a_kernel(notebook, folder, under, course, alone)
        notebook.metadata["boxed"] = how if notebook.cells[1].source == ANSWERS["f"] else "Graded without a box."

    monkeypatch.setattr(execution, "run_submission", run_reduced)
    submit(root, "ada", ANSWERS)
    submit(root, "bob", ANSWERS | {"f": "def f(x):\n    return x**2"})
    for _ in range(2):  # the second time from what is written
        _, printed, _ = here()
        head, ada, bob = printed.split("student ")[1].splitlines()[:3]
        assert head.split()[-5:] == ["seconds", "box", "what", "went", "wrong"]
        assert "reduced" in ada and "reduced" not in bob
        assert f"1 of 2: {how}\n" in printed


def test_who_is_given_up_has_no_points_and_it_is_said_why(here, root, without_kernels):
    submit(root, "ada", ANSWERS)
    here.spoil["ada"] = lambda order: Back(order, given_up="3 processes that ran it died of it, and it was given up.")
    status, printed, _ = here()
    assert (status, points(root)) == (0, {"ada": 0.0})  # it has a grade
    assert "5 of 5 points lost: 3 processes that ran it died of it" in printed
    (graded,) = root.glob(f"autograded/ada/{UNIT}/*.ipynb")
    assert read_notebook(graded).metadata["not_graded"].startswith("3 processes that ran it died of it")  # for the page


def test_what_the_grader_could_not_do_leaves_no_grade_and_is_done_the_next_time(here, root, without_kernels):
    submit(root, "ada", ANSWERS)
    here.spoil["ada"] = lambda order: Back(order, failed="OSError: no room")
    status, printed, _ = here()
    assert status == 1 and "no grade: OSError: no room" in printed and not points(root).get("ada")
    here.spoil.clear()
    assert here()[0] == 0 and points(root) == {"ada": ALL}
    here.spoil["ada"] = lambda order: Back(order, failed="OSError: no room")
    status, printed, _ = here(again=True)
    assert status == 1 and points(root) == {"ada": ALL}, "it keeps the grade that it had"


def test_a_submission_that_changes_meanwhile_gets_no_grade_for_another_text(here, root, without_kernels):
    submit(root, "ada", ANSWERS)

    def meanwhile(order):
        back = Back(order, execute(order))
        submit(root, "ada", WRONG_G)
        return back

    here.spoil["ada"] = meanwhile
    status, printed, _ = here()
    line = "ada 00_powers: no grade: the submission was changed while it was graded; it has no grade yet"
    assert status == 1 and printed.splitlines()[0] == line and not points(root).get("ada")
    here.spoil.clear()
    assert here()[0] == 0 and points(root) == {"ada": ONLY_F}


def test_a_kernel_on_a_worker_finds_nothing_that_dask_has_set(here, root, monkeypatch):
    """The workers of a cluster are started by others, with variables that change what is measured."""
    for name in OF_DASK:
        monkeypatch.setenv(name, "1")
    submit(
        root, "ada", ANSWERS | {"f": f"import os\ndef f(x):\n    return 0 if {OF_DASK!r} & os.environ.keys() else x**2"}
    )
    elsewhere = f"--CourseDirectory.db_url=sqlite:///{root}/other.db"
    assert here(settings=(NO_BOX, "--RunNotebook.guard=False", elsewhere))[0] == 0
    assert points(root, "other.db") == {"ada": ALL} and points(root) == {}


def test_what_is_no_submission_is_a_line_and_what_was_named_otherwise_is_found(here, root, without_kernels):
    submit(root, "a[b]", ANSWERS)
    submit(root, "ab", WRONG_G)
    submit(root, "two\nlines", ANSWERS)
    submit(root, os.fsdecode(b"M\x81ller"), ANSWERS)
    submit(root, "bob", {})  # an empty placeholder, and beside it what was meant
    folder = root / "submitted" / "bob" / UNIT
    (folder / os.fsdecode(b"L\x94sung.ipynb")).write_text(nbformat.writes(handed_in(ANSWERS)))
    (folder / os.fsdecode(b"M\x81ller.csv")).write_text("1,2")
    (root / "submitted" / "mallory").mkdir()
    (root / "submitted" / "mallory" / UNIT).symlink_to(folder)
    _, printed, ran = here()
    assert sorted(ran) == ["a[b]", "ab", "bob"]
    assert points(root) == {"a[b]": ALL, "ab": ONLY_F, "bob": ALL}
    said = [line for line in printed.splitlines() if line.endswith("It has no grade.")]
    assert len(said) == 3
    assert any("/mallory/00_powers': this is a link, which is not followed" in line for line in said)
    assert here()[2] == []


def test_two_graders_of_one_course_are_one_and_a_line(here, root):
    submit(root, "ada", ANSWERS)
    with grading._the_only_one(root):
        status, printed, ran = here()
    assert (status, ran) == (2, []) and printed.strip() == (
        "Another grader is at work in this folder; wait for it, or stop it."
    )


def test_bad_input_is_one_line(root):
    submit(root, "ada", ANSWERS)
    for words, line in {
        ("the_powrs",): "There is no unit 'the_powrs'; is it one of these: 00_powers?",
        (): "Say which unit, such as 05_the_cache, or --all.",
        ("0", "--student", "bob", "--student", "ada"): f"Of bob there is nothing in submitted/ for {UNIT}.",
        ("0", "--workers", "2", "--scheduler", "tcp://127.0.0.1:9"): "A cluster has the workers that it has",
        ("0", "--RunNotebook.seconds=long"): "",
        ("0", "--RunNotebook.rooms=lost.csv"): "lost.csv cannot be read: No such file or directory.",
    }.items():
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2, done.output
        assert done.output.startswith(line) and len(done.output.strip().splitlines()) == 1, done.output
    assert "there is no option --worker" in CliRunner().invoke(app, ["0", "--worker=2"]).output


def test_it_is_run_in_the_courses_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["5"])
    assert done.exit_code == 2 and "the one that holds nbgrader_config.py" in done.output


def test_the_help_needs_neither_dask_nor_nbgrader():
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom autograder.classroom.command import app\n"
        "assert 'Grade a class at once' in CliRunner().invoke(app, ['--help']).output\n"
        "print(sorted({'dask', 'distributed', 'nbgrader', 'nbformat', 'jax'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


# With workers, as a person types it.

ENVIRONMENT = {"HOME": "/nonexistent", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


def nbgrader(root, *words):
    command = [sys.executable, "-m", "nbgrader", *words]
    return subprocess.run(command, cwd=root, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def command(root, *words):
    """`course grade`, running."""
    program = [sys.executable, "-c", "from autograder.classroom.command import main; main()", UNIT, *words, *BOX]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(program, cwd=root, env=ENVIRONMENT, start_new_session=True, **pipes)


def graded(root, *words):
    """What `course grade` prints, and its exit status."""
    process = command(root, *words)
    printed, _ = process.communicate(timeout=300)
    return process.returncode, printed


@pytest.fixture
def whole_class(root):
    for student, (answers, _) in STUDENTS.items():
        submit(root, student, answers)
    return root


EXPECTED = {student: 0.0 if earned is None else earned for student, (_, earned) in STUDENTS.items()}


@pytest.mark.thorough
def test_a_class_gets_the_grades_that_nbgrader_gives(whole_class, tmp_path):
    status, printed = graded(whole_class, "--workers", "2", "--report", *QUICK)
    assert status == 0 and "Traceback" not in printed, printed
    assert points(whole_class) == EXPECTED
    page = (whole_class / "report" / f"{UNIT}.html").read_text()
    assert "7 students, 5 points" in page and "<td>The kernel died</td>" in page or why_not()
    assert "\nfay 00_powers: 2 of 5 points lost: a cell was left out in f\n" in printed
    other = tmp_path / "other"
    other.mkdir()
    make_course(other)
    for student, (answers, _) in STUDENTS.items():
        if "[" not in student:  # nbgrader's own command does not find these
            submit(other, student, answers)
    nbgrader(other, "autograde", UNIT, *QUICK, *BOX)
    theirs = points(other)
    assert theirs == {student: earned for student, earned in EXPECTED.items() if student in theirs}
    assert len(theirs) >= len(EXPECTED) - 1


def wait_until(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    assert condition(), process.stdout.read() if process.poll() is not None else "it takes too long"


def has_grades(root, least):
    def has():
        return len(list((root / "autograded").glob(f"*/{UNIT}/*.ipynb"))) >= least

    return has


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_at_any_moment_it_goes_on_where_it_was(whole_class, number):
    process = command(whole_class, "--workers", "2", *QUICK)
    wait_until(has_grades(whole_class, 2), process)
    if number == signal.SIGINT:  # a terminal sends it to all processes
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert process.returncode == 1 and "The same command goes on." in printed, printed
        assert "Traceback" not in printed
    status, printed = graded(whole_class, "--workers", "2", *QUICK)
    assert points(whole_class) == EXPECTED and re.search(r"[1-6] of 7 have a grade", printed)


@pytest.mark.thorough
@pytest.mark.skipif(bool(why_none()), reason=f"not here, because {why_none()}")
def test_on_postgresql_a_class_has_the_grades_that_it_has_on_sqlite_and_a_killed_grader_goes_on(whole_class):
    with server() as url:
        words = ["--workers", "2", f"--CourseDirectory.db_url={url}", *QUICK]
        process = command(whole_class, *words)
        wait_until(has_grades(whole_class, 2), process)
        process.kill()
        process.communicate(timeout=60)
        status, printed = graded(whole_class, *words)
        assert points_in(url) == EXPECTED and re.search(r"[1-6] of 7 have a grade", printed), printed
        status, printed = graded(whole_class, "--again", "--student=bob", *words)  # over what is there
        assert points_in(url) == EXPECTED and "Traceback" not in printed, printed
        assert points(whole_class) == {}  # what is kept there, in gradebook.db, is nobody's
        done = nbgrader(whole_class, "export", f"--db={url}")
        with open(whole_class / "grades.csv", newline="") as file:
            assert {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)} == EXPECTED, done.stderr


@pytest.mark.parametrize("url", ["postgresql+psycopg://ada:secret@/book?host=/nowhere", "other://book", "book"])
def test_a_gradebook_that_is_not_there_is_one_line(root, url):
    submit(root, "ada", ANSWERS)
    done = CliRunner().invoke(app, ["0", f"--CourseDirectory.db_url={url}"])
    assert done.exit_code == 2 and len(done.output.strip().splitlines()) == 1, done.output
    assert done.output.startswith("The gradebook, c.CourseDirectory.db_url, cannot be opened: "), done.output
    assert "secret" not in done.output


def test_a_gradebook_whose_server_goes_away_is_one_line(here, root, without_kernels, monkeypatch):
    submit(root, "ada", ANSWERS)

    def gone(*words):
        raise OperationalError("select", {}, OSError("the server closed the connection\nin the middle"))

    def meanwhile(order):
        monkeypatch.setattr(grading, "Gradebook", gone)
        return Back(order, execute(order))

    here.spoil["ada"] = meanwhile
    status, printed, _ = here()
    line = "the gradebook cannot be used: (builtins.OSError) the server closed the connection"
    assert status == 1 and line in printed and len(printed.strip().splitlines()) == 1, printed


@pytest.mark.thorough
def test_ctrl_c_while_the_workers_start_prints_no_traceback(whole_class):
    process = command(whole_class, "--workers", "2", *QUICK)
    wait_until(lambda: len(psutil.Process(process.pid).children(recursive=True)) >= 2, process)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert "Traceback" not in printed and process.returncode == 1, printed
    assert "The same command goes on." in printed


@pytest.mark.thorough
def test_a_second_grader_of_the_folder_is_told_and_nothing_is_lost(whole_class):
    first = command(whole_class, "--workers", "1", *QUICK)
    wait_until(has_grades(whole_class, 1), first)
    status, printed = graded(whole_class)
    assert status == 2 and "Another grader is at work" in printed
    first.communicate(timeout=300)
    assert points(whole_class) == EXPECTED


class Cluster:
    """A Dask scheduler on this machine and two workers, by TLS and elsewhere than in the course's folder."""

    def __init__(self, folder):
        keys = Security.temporary()
        names = {"ca-file": keys.tls_ca_file, "cert": keys.tls_scheduler_cert, "key": keys.tls_scheduler_key}
        paths = {name: folder / f"{name}.pem" for name in names}
        for name, text in names.items():
            paths[name].write_text(text)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tls://127.0.0.1:{free.getsockname()[1]}"
        tls = [word for name, path in paths.items() for word in (f"--tls-{name}", str(path))]
        where = {"cwd": folder, "env": ENVIRONMENT, "stderr": subprocess.DEVNULL}
        dask = [sys.executable, "-m"]
        start = ["distributed.cli.dask_scheduler", "--host", self.address, "--no-dashboard", *tls]
        work = ["distributed.cli.dask_worker", self.address, "--nthreads", "1", "--memory-limit", "0", *tls]
        self.scheduler = subprocess.Popen([*dask, *start], **where)
        self.workers = [subprocess.Popen([*dask, *work, "--no-dashboard"], **where) for _ in range(2)]
        of_client = {"CA_FILE": paths["ca-file"], "CLIENT__CERT": paths["cert"], "CLIENT__KEY": paths["key"]}
        self.environment = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in of_client.items()}

    def end(self):
        for process in (*self.workers, self.scheduler):
            process.terminate()
        for process in (*self.workers, self.scheduler):
            process.wait(timeout=60)


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "away"
    folder.mkdir()
    cluster = Cluster(folder)
    yield cluster
    cluster.end()


@pytest.mark.thorough
def test_on_a_cluster_one_worker_of_which_is_killed_midway_the_grades_are_the_same(whole_class, cluster, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ENVIRONMENT", ENVIRONMENT | cluster.environment)
    process = command(whole_class, "--scheduler", cluster.address, *QUICK)
    wait_until(has_grades(whole_class, 1), process)
    cluster.workers[0].kill()
    printed, _ = process.communicate(timeout=300)
    assert points(whole_class) == EXPECTED, printed
    assert "no grade" not in printed
