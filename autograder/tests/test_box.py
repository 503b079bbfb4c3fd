"""The box around a student's kernel: what is in it, what it records, and what is said where there can be none."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from nbgrader.converters.base import NbGraderException

from autograder.doors.box import calls, kernels, memory, rules, server
from autograder.doors.box.rules import Rules, why_not
from autograder.doors.graded_notebook import failure_text
from autograder.doors.kernel_runner import End, Runner
from autograder.doors.nbgrader_steps import RunNotebook

pytestmark = pytest.mark.once  # the same on every version

boxed = pytest.mark.skipif(bool(why_not()), reason=f"not here, because {why_not()}")


def printed(notebook, folder, box):
    with Runner(notebook, folder, 60, box) as runner:
        runner.run_all()
    assert [failure_text(cell) for cell in notebook.cells] == [""] * len(notebook.cells)
    return "".join(o.get("text", "") for cell in notebook.cells for o in cell.outputs)


def test_a_file_that_is_too_large_keeps_no_other_out(tmp_path):
    (tmp_path / "handed-in" / "b").mkdir(parents=True)
    with open(tmp_path / "handed-in" / "core", "wb") as core:
        core.truncate(2**30)
    (tmp_path / "handed-in" / "b" / "data.txt").write_text("mine")
    kernels._copy_files(tmp_path / "handed-in", str(tmp_path / "copy"), programs=True)
    assert [path.name for path in (tmp_path / "copy").rglob("*.*")] == ["data.txt"]
    assert not (tmp_path / "copy" / "core").exists()


@boxed
@pytest.mark.parametrize("name", ["python", "python3"])
def test_a_box_can_be_made_whichever_of_its_names_python_is_called_by(name):
    """In an environment each of them is a link, to another link or to the program."""
    asked = "from autograder.doors.box.rules import why_not; print(why_not())"
    done = subprocess.run([Path(sys.prefix, "bin", name), "-c", asked], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


@boxed
def test_a_boxed_kernel_computes_and_has_a_copy_of_what_was_handed_in(make_notebook, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("mine")
    (tmp_path / "unit.ipynb").write_text("hidden tests")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    cells = [
        "import jax.numpy as jnp\nprint(jnp.ones(3).sum(), open('data/a.txt').read())",
        "import os\nprint(sorted(os.listdir()))\nopen('data/a.txt', 'w').write('changed')",
    ]
    assert printed(make_notebook(*cells), tmp_path, Rules()) == "3.0 mine\n['data']\n"
    assert (tmp_path / "data" / "a.txt").read_text() == "mine"


@boxed
def test_a_boxed_kernel_is_measured_as_any_other(make_notebook, tmp_path):
    cells = [
        "import jax, jax.numpy as jnp\nfrom autograder import speedup",
        "x = jnp.ones(1000)\ndef slow(x):\n    for _ in range(30): x = x + 1\n    return x",
        "print(speedup(jax.jit(slow), slow, x).ratio > 2)",
        "from autograder.measuring import bench\nprint(type(bench.current().process).__name__)",
    ]
    assert printed(make_notebook(*cells), tmp_path, Rules()).endswith("True\nForked\n")


@boxed
def test_a_boxed_kernel_leaves_alone_what_it_shares_with_others_and_can_import_the_debugger(make_notebook, tmp_path):
    """A collector that walks over JAX takes a tenth of a second, and as much for the pages that it writes to."""
    cells = ["import gc, sys\nprint(gc.get_freeze_count() > 50_000, len(gc.get_objects()) < 50_000)"]
    cells += ["print('debugpy' in sys.modules)\nimport debugpy"]
    assert printed(make_notebook(*cells), tmp_path, Rules()) == "True True\nFalse\n"


@boxed
def test_ipython_is_not_asked_for_its_folder(make_notebook, tmp_path, monkeypatch):
    """Where the home folder is read-only it makes a temporary one each time, and leaves it there."""

    def asked():
        raise AssertionError("asked for IPython's folder")

    monkeypatch.setattr("IPython.paths.get_ipython_dir", asked)
    assert printed(make_notebook("print(1)"), tmp_path, Rules()) == "1\n"


@boxed
def test_two_boxes_know_nothing_of_each_other(make_notebook, tmp_path):
    source = "import os\nprint(os.path.exists('/tmp/mark'), len([p for p in os.listdir('/proc') if p.isdigit()]))"
    for _ in range(2):  # three processes: `cat`, and the kernel with its fork server
        assert printed(make_notebook(source, "open('/tmp/mark', 'w').close()"), tmp_path, Rules()) == "False 3\n"


def _all_below(grader: int, until: list[str]) -> list[psutil.Process]:
    """The grader's server, its boxes and what runs in them, once one of them has this command line.

    A process that has just begun its program shows no command line for a moment.
    """
    end = time.monotonic() + 20
    while True:
        started = psutil.Process(grader).children(recursive=True)
        lines = {process.pid: _line_of(process) for process in started}
        if until in lines.values():
            return started
        assert time.monotonic() < end, lines
        time.sleep(0.05)


def _line_of(process: psutil.Process) -> list[str] | None:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()


@boxed
@boxed
def test_a_boxed_kernel_cannot_find_its_own_sockets(make_notebook, tmp_path):
    """Who talks to the kernel can let it run anything. The system names the place; nothing is there."""
    look = """
import os
places = {os.path.dirname(line.split()[-1]) for line in open("/proc/net/unix") if line.split()[-1].startswith("/")}
print(len(places), [name for place in places if os.path.isdir(place) for name in os.listdir(place)])
try:
    open(os.path.join(*places, "mine"), "w")
except OSError as error:
    print(type(error).__name__)"""
    notebook = make_notebook(look, "print(6 * 7)")
    with Runner(notebook, tmp_path, 60, box=Rules()) as runner:
        runner.run_all()
    shown = [o.get("text", o.get("evalue")) for cell in notebook.cells for o in cell.outputs]
    assert shown == ["1 []\nOSError\n", "42\n"]


NO_PART_OF_IT = {
    "keys of the user": "ctypes.CDLL(None, use_errno=True).syscall(250, 0, -4, 0)",  # x86_64
    "the machine that this one runs on": "socket.socket(40, socket.SOCK_STREAM)",
    "a lease": f"fcntl.fcntl(open({os.__file__!r}), 1024, 1)",
    "word of a file": f"fcntl.fcntl(open({os.__file__!r}), 1026, 1)",
    "a file in no folder": "os.memfd_create('a')",
    "a ring": "ctypes.CDLL(None, use_errno=True).syscall(425, 8, None)",
}


@boxed
@pytest.mark.skipif(bool(calls.why_not()), reason=f"not here, because {calls.why_not()}")
def test_what_no_namespace_holds_is_refused(make_notebook, tmp_path):
    lines = ["import ctypes, fcntl, os, socket", "seen = {}"]
    for name, text in NO_PART_OF_IT.items():
        lines.append(f"try: seen[{name!r}] = {text}")
        lines.append(f"except OSError as error: seen[{name!r}] = error.errno")
    refused = dict.fromkeys(NO_PART_OF_IT, errno.EPERM)
    refused |= {"the machine that this one runs on": errno.EAFNOSUPPORT, "a file in no folder": errno.ENOSYS}
    refused |= {"keys of the user": -1, "a ring": -1}
    assert eval(printed(make_notebook("\n".join([*lines, "print(seen)"])), tmp_path, Rules())) == refused


def test_memory_is_all_that_is_in_no_file(tmp_path):
    lines = "VmSize:\t 90 kB\nVmPTE:\t 1 kB\nVmSwap:\t 2 kB\nRssAnon:\t 4 kB\nRssFile:\t 90 kB\nRssShmem:\t 8 kB\n"
    (tmp_path / "status").write_text(lines)
    assert memory.held(str(tmp_path)) == 15 * 1024
    (tmp_path / "status").write_text("Name:\tpython\nState:\tZ (zombie)\n")
    assert memory.held(str(tmp_path)) is None and memory.held(str(tmp_path / "gone")) is None
    assert server._memory(os.getpid()) > 10 * 2**20 and server._memory(-1) == 0


def test_a_box_ends_before_the_machine_has_no_memory_left(monkeypatch):
    assert server._exhausted() == ""
    monkeypatch.setattr(server, "_RESERVE", 2**60)
    assert server._exhausted().startswith("the machine had less than ")


@boxed
def test_a_box_is_the_first_to_go_where_memory_is_short(make_notebook, tmp_path):
    before = Path("/proc/self/oom_score_adj").read_text()
    look = "from pathlib import Path\nprint(Path('/proc/self/oom_score_adj').read_text().strip())"
    assert printed(make_notebook(look), tmp_path, Rules()) == "1000\n"
    assert Path("/proc/self/oom_score_adj").read_text() == before


TO_ITS_SOCKETS = """
import os, select, socket
from ipykernel.kernelapp import IPKernelApp

def channel():
    for number in map(int, os.listdir('/proc/self/fd')):
        try:
            one = socket.socket(fileno=os.dup(number))
            one.getpeername()
            if str(one.getsockname()).endswith(f'k-{IPKernelApp.instance().iopub_port}'):
                return one
        except OSError:
            pass

def put(one, data):
    data = memoryview(data)
    while data:
        select.select([], [one], [])
        try:
            data = data[one.send(data):]
        except BlockingIOError:
            pass

one = channel()
"""
ENDS = {
    "no message": (
        "put(one, b'\\0\\3abc')\nimport time\ntime.sleep(30)",
        "what it sent while this cell ran was no message",
    ),
    "a message without an end": (
        "part = bytes(2**22)\nwhile True:\n    put(one, b'\\3' + len(part).to_bytes(8, 'big'))\n    put(one, part)",
        "it sent more than 0.0625 GiB at once",
    ),
}


@boxed
@pytest.mark.parametrize("what", ENDS)
def test_who_writes_to_the_kernels_sockets_ends_the_kernel_alone(make_notebook, tmp_path, monkeypatch, what):
    """The grader's memory is not filled, and the next cell runs in another kernel."""
    source, why = ENDS[what]
    monkeypatch.setattr(kernels, "_GROWTH", 2**26)
    notebook = make_notebook(TO_ITS_SOCKETS + source, "print(6 * 7)")
    with Runner(notebook, tmp_path, 60, box=Rules()) as runner:
        first = runner.run(0)
        assert why in failure_text(first) and runner.end in (End.DIED, End.LIMIT)
        runner.restart()
        assert runner.run(1).outputs[0].text == "42\n"


def test_nothing_is_left_when_the_grader_is_killed(tmp_path):
    program = f"""
import sys
from pathlib import Path
from nbformat.v4 import new_notebook
from autograder.doors.box.rules import Rules
from autograder.doors.kernel_runner import Runner
runner = Runner(new_notebook(), Path({str(tmp_path)!r}), 60, Rules())
cell = runner.run_new("import subprocess; subprocess.Popen(['sleep', '77777'], start_new_session=True)")
print(repr([o for o in cell.outputs if o.output_type == "error"] or "on"), flush=True)
sys.stdin.read()
"""
    asked = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert asked.stdout.readline() == "'on'\n"
    started = _all_below(asked.pid, until=["sleep", "77777"])
    asked.kill()
    asked.communicate()
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []


@pytest.mark.thorough
@boxed
def test_another_setting_of_jax_has_another_server(make_notebook, tmp_path, monkeypatch):
    source = "import os\nprint(os.environ.get('XLA_FLAGS'))"
    assert printed(make_notebook(source), tmp_path, Rules()) == "None\n"
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    assert printed(make_notebook(source), tmp_path, Rules()) == "--xla_cpu_max_isa=AVX2\n"
    kernels.stop()


def test_the_environment_holds_nothing_of_the_graders(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "open-sesame")
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    variables = rules.environment()
    assert "SECRET_TOKEN" not in variables and variables["NBGRADER_EXECUTION"] == "autograde"
    assert variables["HOME"] != os.environ.get("HOME")


def test_the_tests_with_their_answers_are_not_shown():
    words = rules._mounts()
    package = Path(rules.autograder.__file__).parent
    assert words[words.index(str(package / "tests")) - 1] == "--tmpfs"
    shown = {Path(words[i + 1]) for i, word in enumerate(words) if word == "--ro-bind"}
    assert package in shown
    assert not shown & {Path("/"), Path.home(), package.parent, package.parent / "solutions", Path.cwd()}


def test_another_clone_in_the_environment_shows_no_solution_either(monkeypatch, tmp_path):
    (tmp_path / "autograder" / "tests").mkdir(parents=True)
    (tmp_path / "solutions").mkdir()
    monkeypatch.setattr(rules, "python_path", lambda: [str(tmp_path)])
    words = rules._mounts.__wrapped__()
    assert str(tmp_path / "autograder") in words and str(tmp_path) not in words
    assert words[words.index(str(tmp_path / "autograder" / "tests")) - 1] == "--tmpfs"


@pytest.fixture
def without(monkeypatch):
    """A function by which bubblewrap is missing, or fails with a line."""

    def make(line=""):
        why_not.cache_clear()
        if line:
            done = subprocess.CompletedProcess([], 1, "", f"{line}\n")
            monkeypatch.setattr(rules.subprocess, "run", lambda *a, **k: done)
            monkeypatch.setattr(rules, "_no_more_namespaces", lambda: [])
        monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/bwrap" if line else None)
        monkeypatch.setattr(rules.sys, "platform", "linux")

    yield make
    monkeypatch.undo()
    why_not.cache_clear()


def test_without_bubblewrap_nothing_is_graded_and_one_line_says_what_to_do(without, caplog):
    without()
    with pytest.raises(NbGraderException) as error:
        RunNotebook(reduced=False).assert_possible()
    line = str(error.value)
    assert "\n" not in line and "Nothing was graded" in line
    assert "bubblewrap is not installed (`apt install bubblewrap`" in line and "--RunNotebook.box=False" in line
    RunNotebook(box=False).assert_possible()


def test_where_the_system_forbids_boxes_its_own_word_and_the_usual_cause_are_told(without):
    without("bwrap: setting up uid map: Permission denied")
    assert why_not().startswith(
        "bwrap: setting up uid map: Permission denied; does this system forbid user namespaces?"
    )


def test_elsewhere_than_on_linux_there_is_none(without, monkeypatch):
    without()
    monkeypatch.setattr(rules.sys, "platform", "darwin")
    assert "exists for Linux alone" in why_not()


def test_devices_come_in_by_option():
    step = RunNotebook(devices=["/dev/null"], memory=2.0)
    words = step.conditions.box.command("/tmp/c", "/tmp/s")
    place = words.index("--dev-bind")
    assert words[place : place + 3] == ["--dev-bind", "/dev/null", "/dev/null"] and "/sys" in words
    assert step.conditions.box.limits()["memory"] == 2**31


def test_it_is_said_that_a_submission_was_graded_without_a_box(make_notebook, tmp_path):
    notebook = make_notebook("1 + 1")
    RunNotebook(box=False).preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    assert notebook.metadata["boxed"] == "Graded without a box."
