"""The box where bubblewrap can make none: what Landlock, refused system calls and the keeper hold, and what is said."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from _unit import COURSE
from nbgrader.converters.base import NbGraderException

from autograder.doors.box import calls, kernels, landlock, reduced, rules
from autograder.doors.box.landlock import Access
from autograder.doors.box.rules import Rules
from autograder.doors.graded_notebook import failure_text
from autograder.doors.kernel_runner import Runner
from autograder.doors.nbgrader_steps import RunNotebook
from autograder.doors.run_submission import Conditions, run_submission

pytestmark = [
    pytest.mark.once,
    pytest.mark.thorough,
    pytest.mark.xdist_group("reduced_box"),
    pytest.mark.skipif(bool(reduced.why_not()), reason=f"not here, because {reduced.why_not()}"),
]
no_signals = pytest.mark.skipif(
    landlock.abi() < landlock.SCOPES, reason="not here, because this Linux lets signals out of a reduced box"
)
WHY = "bwrap: setting up uid map: Permission denied; does this system forbid user namespaces?"
REFUSED = "PermissionError"


@pytest.fixture(scope="module", autouse=True)
def without_namespaces():
    """As on a system that forbids user namespaces."""
    kernels.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "why_not", lambda: WHY)
        yield
        kernels.stop()


def run(notebook, folder, box=None):
    with Runner(notebook, folder, 60, box or Rules()) as runner:
        runner.run_all()
    return ["".join(o.get("text", "") for o in cell.outputs) or failure_text(cell) for cell in notebook.cells]


@pytest.fixture
def tried(make_notebook, tmp_path):
    """A function: expressions by name are evaluated in the box; what each gives, or the name of its exception."""

    def tried(expressions, before=""):
        lines = [before, "import ctypes, os, pathlib, resource, shutil, socket, subprocess", "seen = {}"]
        for name, text in expressions.items():
            lines.append(f"try: seen[{name!r}] = {text}")
            lines.append(f"except Exception as error: seen[{name!r}] = type(error).__name__")
        (said,) = run(make_notebook("\n".join([*lines, "print(seen)"])), tmp_path)
        return eval(said)

    return tried


def test_a_kernel_computes_measures_and_has_a_copy_of_what_was_handed_in(make_notebook, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("mine")
    (tmp_path / "unit.ipynb").write_text("hidden tests")
    cells = [
        "import os, jax, jax.numpy as jnp\nprint(jnp.ones(3).sum(), open('data/a.txt').read(), os.listdir())",
        "import shutil\nopen('data/a.txt', 'w').write('changed')\n_ = shutil.copy('data/a.txt', 'b.txt')",
        "from autograder import speedup\nx = jnp.ones(1000)",
        "def slow(x):\n    for _ in range(30): x = x + 1\n    return x",
        "print(speedup(jax.jit(slow), slow, x).ratio > 2)",
        "from autograder.measuring import bench\nprint(type(bench.current().process).__name__)",
        "bench.stop()\nbench.fork_server = None\nprint(speedup(jax.jit(slow), slow, x).ratio > 2)",
        "print(type(bench.current().process).__name__)",
    ]
    said = "".join(run(make_notebook(*cells), tmp_path)).split()
    assert said == ["3.0", "mine", "['data']", "True", "Forked", "True", "Popen"]
    assert (tmp_path / "data" / "a.txt").read_text() == "mine"


def test_it_reads_what_a_full_box_shows_and_nothing_else(tried, tmp_path):
    gradebook = tmp_path.parent / f"{tmp_path.name}-gradebook.db"
    gradebook.write_text("points")
    package = Path(rules.autograder.__file__).parent
    here = os.getpid()
    closed = {
        "solutions": f"open({str(COURSE / 'solutions' / '05_the_cache' / 'the_cache.py')!r}).read()",
        "a clone's folder": f"os.listdir({str(COURSE)!r})",
        "kept answers": f"open({str(package / 'tests' / 'conftest.py')!r}).read()",
        "the gradebook": f"open({str(gradebook)!r}).read()",
        "what lies beside it": f"os.listdir({str(tmp_path.parent)!r})",
        "what was handed in": f"os.listdir({str(tmp_path)!r})",
        "the home": f"os.listdir({str(Path.home())!r})",
        "passwords": "open('/etc/shadow').read()",
        "users": "open('/etc/passwd').read()",
        "temporary files": "os.listdir('/tmp')",
        "the grader's environment": f"open('/proc/{here}/environ').read()",
        "the grader's memory": f"open('/proc/{here}/mem').read()",
        "a file of the grader's": f"open('/proc/{here}/fd/0')",
        "and its name": f"os.readlink('/proc/{here}/fd/0')",
        "the keeper's environment": "open(f'/proc/{os.getppid()}/environ').read()",
        "the keeper's folder": "os.listdir(f'/proc/{os.getppid()}/cwd')",
        "the first process's root": "os.listdir('/proc/1/root')",
    }
    assert tried(closed) == dict.fromkeys(closed, REFUSED)
    opened = {
        "the package": f"open({str(package / 'wording.py')!r}).read() != ''",
        "Python": "open(os.__file__).read() != ''",
        "the system": "os.listdir('/usr/bin') != []",
        "itself": "open('/proc/self/environ').read() != ''",
    }
    assert tried(opened) == dict.fromkeys(opened, True)
    variables = "SECRET_TOKEN" in os.environ
    assert not variables and tried({"secret": "os.environ.get('SECRET_TOKEN')"}) == {"secret": None}


def test_it_writes_below_its_own_folder_alone(tried, tmp_path):
    diary = tmp_path.parent / f"{tmp_path.name}-diary.txt"
    diary.write_text("secret")
    diary.chmod(0o600)
    os.utime(diary, (1, 1))
    package, name = Path(rules.autograder.__file__).parent, repr(str(diary))
    closed = {
        "into it": f"open({name}, 'w')",
        "empty it": f"os.truncate({name}, 0)",
        "remove it": f"os.remove({name})",
        "a second name": f"os.link({name}, 'mine')",
        "move it": f"os.rename({name}, 'mine')",
        "its owner": f"os.chown({name}, -1, 0)",
        "its attributes": f"os.setxattr({name}, 'user.a', b'1')",
        "beside it": f"open({name} + '.new', 'w')",
        "a module": f"open({str(package / 'planted.py')!r}, 'w')",
        "Python": "open(os.__file__, 'r+b')",
        "temporary files": "open('/tmp/autograder-planted', 'w')",
        "shared memory": "open('/dev/shm/autograder-planted', 'w')",
        "a setting": "open('/proc/sys/kernel/core_pattern', 'w')",
        "its own limit": "open('/proc/self/oom_score_adj', 'w')",
    }
    assert tried(closed) == dict.fromkeys(closed, REFUSED) | {"a second name": "OSError"}  # as on another disk
    assert tried({"rights": f"os.chmod({name}, 0o777)", "times": f"os.utime({name})"}) == {
        "rights": None,
        "times": None,
    }
    found = diary.stat()
    assert (diary.read_text(), found.st_mode & 0o777, found.st_mtime) == ("secret", 0o600, 1.0)
    opened = {
        "a file": "pathlib.Path('a').write_text('1')",
        "a folder": "os.makedirs('b/c')",
        "a move": "os.rename('a', 'b/c/a')",
        "a copy": "shutil.copy('b/c/a', 'd') == 'd'",
        "emptied": "os.truncate('d', 0)",
        "removed": "os.remove('d')",
        "temporary": "__import__('tempfile').TemporaryFile().write(b'12')",
        "home": "(pathlib.Path.home() / '.cache').mkdir()",
    }
    assert tried(opened) == dict(zip(opened, [1, None, None, True, None, None, 2, None], strict=True))


def test_it_cannot_put_other_sockets_in_the_place_of_its_own(tried):
    file = "__import__('ipykernel.connect', fromlist=['_']).get_connection_file()"
    closed = {
        "remove": f"os.unlink({file})",
        "replace": f"os.replace('a', {file})",
        "write": f"open({file}, 'w')",
        "a file beside them": f"open({file} + 'a', 'w')",
    }
    assert tried(closed, "open('a', 'w').close()") == dict.fromkeys(closed, REFUSED)


def test_it_reaches_no_server_and_no_service(tried, tmp_path):
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract, service = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        abstract.bind(f"\0autograder-{os.getpid()}")
        service.bind(str(tmp_path / "service"))
        for server in (tcp, abstract, service):
            server.listen()
            server.setblocking(False)
        unix = "socket.socket(socket.AF_UNIX)"
        closed = {
            "TCP": f"socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]}), timeout=2)",
            "a server": "socket.create_server(('127.0.0.1', 0))",
            "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
            "another network": "socket.socket(socket.AF_INET6)",
            "raw": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            "the system's own": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
            "no file": f"{unix}.connect('\\0autograder-{os.getpid()}')",
            "a service": f"{unix}.connect({str(tmp_path / 'service')!r})",
            "a message to one": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
            "and by a pair": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        }
        seen = tried(closed | {"its own pair": "len(socket.socketpair())"})
        assert seen.pop("its own pair") == 2
        assert set(seen.values()) <= {"OSError", REFUSED} and set(seen) == set(closed)
        for server in (tcp, abstract, service):
            with pytest.raises(BlockingIOError):
                server.accept()


def test_system_calls_that_open_more_are_refused(tried):
    libc = "(ctypes.CDLL(None, use_errno=True).{}, ctypes.get_errno())"
    names = {
        "a user namespace": libc.format("unshare(0x10000000)"),
        "another group of processes": "os.getpgid(0) == (os.setsid(), os.setpgid(0, 0), os.getpgid(0))[-1]",
        "ptrace": libc.format("ptrace(16, os.getppid(), None, None)"),
        "mount": libc.format("mount(b'none', b'/tmp', b'tmpfs', 0, None)"),
        "a ring": libc.format("syscall(425, 8, None)"),
        "keys": libc.format("syscall(250, 0, -3, 0)") if os.uname().machine == "x86_64" else "(-1, 1)",
        "rights, the young way": f"ctypes.CDLL(None).syscall(452, -100, {__file__!r}.encode(), 0o777, 0)",
        "messages of others": libc.format("msgrcv(0, None, 0, 0, 0)"),
        "semaphores of others": libc.format("semctl(0, 0, 12)"),
        "memory of others": libc.format("shmctl(0, 0, None)"),
        "threads with open files of their own": libc.format("syscall(56, 0x10b00, 0, 0, 0, 0)")
        if os.uname().machine == "x86_64"
        else "(-1, 1)",
        "attributes of a file": libc.format(f"ioctl(os.open({os.__file__!r}, 0), 0x80086601, bytes(8))"),
        "a copy of a folder": libc.format(f"ioctl(os.open({os.__file__!r}, 0), 0x50009401, bytes(8))"),
        "a lease": libc.format(f"fcntl(os.open({os.__file__!r}, 0), 1024, 0)"),
        "word of a file": libc.format(f"fcntl(os.open({os.__file__!r}, 0), 1026, 1)"),
    }
    refused = (-1, 1)
    found = {**dict.fromkeys(names, refused), "another group of processes": True, "rights, the young way": 0}
    assert tried(names) == found
    own = libc.format("close_range(200, 210, 2)"), libc.format("memfd_create(b'a', 0)")
    assert tried({"closes": own[0], "a file": own[1]}) == {"closes": (-1, errno.EINVAL), "a file": (-1, errno.ENOSYS)}
    assert Path(__file__).stat().st_mode & 0o777 != 0o777
    assert "NoNewPrivs:\t1" in tried({"own": "open('/proc/self/status').read()"})["own"]
    assert "CapEff:\t0000000000000000" in tried({"own": "open('/proc/self/status').read()"})["own"]


@no_signals
def test_no_process_outside_is_touched(tried):
    with subprocess.Popen(["sleep", "86398"]) as other:
        before = os.sched_getaffinity(other.pid), psutil.Process(other.pid).nice()
        closed = {
            "the keeper": "os.kill(os.getppid(), 0)",
            "the grader": f"os.kill({os.getpid()}, 0)",
            "another": f"os.kill({other.pid}, 15)",
            "its limits": f"resource.prlimit({other.pid}, resource.RLIMIT_CPU, (1, 1))",
            "its weight": f"os.setpriority(os.PRIO_PROCESS, {other.pid}, 19)",
        }
        assert tried(closed) == dict.fromkeys(closed, REFUSED)
        tried({"its core": f"os.sched_setaffinity({other.pid}, {{0}})"})
        assert other.poll() is None
        assert (os.sched_getaffinity(other.pid), psutil.Process(other.pid).nice()) == before
        other.kill()


SMALL = Rules(memory=1.0, disk=0.05, processes=20)
LIMITS = {
    "memory": ("kept = []\nwhile True: kept.append(b'x' * 2**26)", "it held more than 1 GiB of memory"),
    "shared memory": (
        "import mmap\nkept = []\nwhile True:\n    kept.append(mmap.mmap(-1, 2**26))\n    kept[-1].write(b'x' * 2**26)",
        "it held more than 1 GiB of memory",
    ),
    "processes": (
        "import subprocess, time\nfor _ in range(40): subprocess.Popen(['sleep', '9'], start_new_session=True)\n"
        "time.sleep(30)",
        "it had more than 20 processes",
    ),
    "files": (
        "import time\nfor n in range(100): open(f'f{n}', 'wb').write(b'x' * 2**23)\ntime.sleep(30)",
        "it wrote more than 0.05 GiB of files",
    ),
    "files without a name": (
        "import os, time\nkept = [open('f', 'wb')]\n"
        "while len(kept) < 20:\n    kept[-1].write(b'x' * 2**23)\n    kept[-1].flush()\n    os.remove('f')\n"
        "    kept.append(open('f', 'wb'))\ntime.sleep(30)",
        "it wrote more than 0.05 GiB of files",
    ),
    "folders": (
        "import os, time\nfor n in range(14000): os.mkdir(f'f{n}')\ntime.sleep(30)",
        "it wrote more than 0.05 GiB of files",
    ),
    "empty files": (
        "import os, time\nfor n in range(14000): os.close(os.open(f'f{n}', os.O_CREAT))\ntime.sleep(30)",
        "it wrote more than 0.05 GiB of files",
    ),
    "sockets beside its own": (
        "import os, socket, time\nfrom pathlib import Path\nfrom ipykernel.kernelapp import IPKernelApp\n"
        "place = os.path.dirname(IPKernelApp.instance().connection_file)\n"
        "for n in range(14000):\n    with socket.socket(socket.AF_UNIX) as one: one.bind(f'{place}/{n}')\n"
        "time.sleep(30)",
        "it wrote more than 0.05 GiB of files",
    ),
    "folders in folders": (
        "import os, time\nfor n in range(200):\n    os.mkdir('f')\n    os.chdir('f')\ntime.sleep(30)",
        "it made folders in folders, more than 100",
    ),
    "memory of a process without its first thread": (
        "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', '''"
        "import ctypes, os, threading, time\n"
        'def hold():\n    time.sleep(0.5)\n    kept = bytearray(b"x") * (2**30 + 2**24)\n    time.sleep(30)\n'
        "threading.Thread(target=hold).start()\n"
        'ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)\'\'\']).wait()',
        "it held more than 1 GiB of memory",
    ),
}
of_others = pytest.mark.skipif(os.getuid() == 0, reason="not here, because root sees what another user hides")
HIDDEN = {
    "a folder": ("import os, time\nos.mkdir('f', 0o300)\ntime.sleep(30)", "it hid a folder of its own"),
    "open files": (
        "import ctypes, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\ntime.sleep(30)",
        "it hid its open files",
    ),
}


@pytest.mark.parametrize("which", LIMITS)
def test_what_passes_a_limit_is_ended(make_notebook, tmp_path, which):
    source, why = LIMITS[which]
    (said,) = run(make_notebook(source), tmp_path, SMALL)
    assert f"the kernel was ended while this cell ran: {why}" in said


@of_others
@pytest.mark.parametrize("which", HIDDEN)
def test_what_hides_its_files_is_ended(make_notebook, tmp_path, which):
    source, why = HIDDEN[which]
    (said,) = run(make_notebook(source), tmp_path, SMALL)
    assert f"the kernel was ended while this cell ran: {why}" in said


def test_a_file_and_a_process_have_limits_of_their_own(make_notebook, tmp_path):
    # One byte, far behind its beginning: the file takes no room, so no look at the disk can come before the answer.
    big = "try: import os; os.pwrite(os.open('big', os.O_CREAT | os.O_WRONLY), b'x', 2**27)\n"
    big += "except OSError as error: print(error.strerror)"
    assert run(make_notebook(big), tmp_path, SMALL) == ["File too large\n"]
    (said,) = run(make_notebook("while True: pass"), tmp_path, Rules(cpu=2))
    assert "the kernel died while this cell ran" in said


def slots():
    return os.listdir(kernels._running.folder)


def test_nothing_is_left_behind(make_notebook, tmp_path):
    source = """
import os, subprocess
os.mkdir("no rights", 0)
os.makedirs("some/rights"); os.mkdir("some/none", 0o300)
open("some/none/a", "w").close()
for depth in range(1500):
    os.mkdir("deep"); os.chdir("deep")
os.chdir(os.environ["HOME"])
subprocess.Popen(["sleep", "86397"], start_new_session=True)
_ = subprocess.run("(setsid nohup sleep 86397 &) >/dev/null 2>&1", shell=True)
"""
    assert run(make_notebook(source), tmp_path) == [""]
    assert slots() == ["log"]
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "86397"]]


@pytest.mark.parametrize("who", ["the grader", "the server"])
def test_nothing_is_left_when_it_is_killed(tmp_path, who):
    program = f"""
import sys
from pathlib import Path
from nbformat.v4 import new_notebook
from autograder.doors.box import kernels, rules
rules.why_not = lambda: "no user namespaces"
from autograder.doors.kernel_runner import Runner
runner = Runner(new_notebook(), Path({str(tmp_path)!r}), 60, rules.Rules())
cell = runner.run_new("import subprocess; subprocess.Popen(['sleep', '86396'], start_new_session=True)")
print(kernels._running._process.pid, [o for o in cell.outputs if o.output_type == "error"], flush=True)
sys.stdin.read()
"""
    asked = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server, outputs = asked.stdout.readline().split(maxsplit=1)
    assert outputs == "[]\n"
    started = psutil.Process(asked.pid).children(recursive=True)
    assert any(process.cmdline() == ["sleep", "86396"] for process in started)
    killed = asked.pid if who == "the grader" else int(server)
    os.kill(killed, signal.SIGKILL)
    _, alive = psutil.wait_procs([process for process in started if process.pid != killed], timeout=20)
    assert alive == []
    asked.kill()
    asked.communicate()


def test_two_boxes_cannot_reach_each_other(make_notebook, tmp_path):
    with Runner(make_notebook(), tmp_path, 60, Rules()) as one, Runner(make_notebook(), tmp_path, 60, Rules()) as two:
        first = one.run_new("import os\nopen('mark', 'w').close()\nprint(os.getpid(), os.getcwd())")
        number, folder = first.outputs[0].text.split()
        asked = [f"os.listdir({folder!r})", f"os.kill({number}, 0)", f"open('/proc/{number}/environ')"]
        for text in asked[:: 1 if landlock.abi() >= landlock.SCOPES else 2]:
            assert failure_text(two.run_new(f"import os\n{text}")).startswith("PermissionError")


def test_a_time_limit_interrupts_the_kernel_and_not_what_measures(make_notebook, tmp_path):
    start = "from autograder.measuring import bench\nprint(bench.current().process.pid)"
    notebook = make_notebook(start, "while True: pass", start)
    with Runner(notebook, tmp_path, 60, Rules()) as runner:
        runner.run(0)
        runner.seconds = 1
        assert "longer than its 1 s" in failure_text(runner.run(1))
        runner.seconds = 60
        assert runner.run(2).outputs == notebook.cells[0].outputs


def test_programs_of_the_solution_are_found_and_can_be_neither_listed_nor_written(make_notebook, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "in").mkdir()
    compiles = "import jax\nprint(jax.jit(lambda x: x * 3)(2.0))"
    assert run(make_notebook(compiles), tmp_path / "in", Rules(compiled=str(kept), compiles=True)) == ["6.0\n"]
    programs = os.listdir(kept)
    assert programs
    tries = [f"import os\nos.listdir({str(kept)!r})", f"open('{kept}/new', 'w')", f"os.remove('{kept}/{programs[0]}')"]
    hears = "import jax\nhits = []\njax.monitoring.register_event_listener(lambda name, **_: hits.append(name))"
    tell = "print('/jax/compilation_cache/cache_hits' in hits)"
    said = run(make_notebook(hears, compiles, tell, *tries), tmp_path / "in", Rules(compiled=str(kept)))
    assert said[1:3] == ["6.0\n", "True\n"]
    assert [line.split()[0].strip(":") for line in said[3:]] == [REFUSED] * 3


def test_it_is_recorded_and_said_that_it_was_reduced_and_what_that_lacks(make_notebook, tmp_path, monkeypatch, caplog):
    notebook = make_notebook("1 + 1")
    run_submission(notebook, tmp_path, Conditions(guard=False), None)
    box = notebook.metadata["boxed"]
    assert box.startswith(f"Graded in a reduced box (Landlock ABI {landlock.abi()}: no network, 4 GiB of memory")
    assert "but" in box and "the names of other processes and of files can be seen" in box
    RunNotebook().assert_possible()
    (line,) = (record.getMessage() for record in caplog.records)
    assert WHY in line and str(Rules()) in line and "--RunNotebook.reduced=False" in line
    monkeypatch.setattr(landlock, "abi", lambda: 4)
    assert "(Landlock ABI 4" in str(Rules()) and "can be sent signals" in str(Rules())


def test_checks_are_judged_there_too(tmp_path):
    from test_two_rooms import ALL, LAZY, graded, points

    notebook = graded(tmp_path)
    assert points(notebook) == ALL and notebook.metadata["rooms"].startswith("2 checks ran in a kernel apart")
    assert points(graded(tmp_path, LAZY)) == 0


def test_an_option_refuses_to_reduce():
    with pytest.raises(NbGraderException, match="Nothing was graded"):
        RunNotebook(reduced=False).assert_possible()


@pytest.mark.parametrize("found", [0, 2])
def test_with_no_landlock_or_an_old_one_nothing_is_graded(monkeypatch, found):
    monkeypatch.setattr(landlock, "abi", lambda: found)
    with pytest.raises(NbGraderException) as error:
        RunNotebook().assert_possible()
    assert WHY in str(error.value) and "Nor can it make a reduced one: Linux has no Landlock" in str(error.value)


def test_without_libseccomp_nothing_is_graded(monkeypatch):
    calls._library.cache_clear()
    monkeypatch.setattr(calls, "_LIBRARY", "libnone.so.2")
    assert "Nor can it make a reduced one: libseccomp is not installed (`apt" in Rules().why_not()


def test_what_is_hidden_below_what_is_shown_gets_no_rule(tmp_path):
    for part in ("shown/a", "shown/b/hidden", "shown/b/c"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "shown" / "b" / "link").symlink_to("/etc")
    shown, hidden = tmp_path / "shown", tmp_path / "shown" / "b" / "hidden"
    granted = {path: access for path, access in reduced.grants({shown}, {hidden}, ()) if path.startswith(str(tmp_path))}
    listed, read = int(Access.READ_DIR), int(Access.READ)
    assert granted == {
        str(shown): listed,
        str(shown / "a"): read,
        str(shown / "b"): listed,
        str(shown / "b" / "c"): read,
    }


@pytest.mark.parametrize("known", range(landlock.LEAST, landlock.abi() + 1))
def test_rules_are_made_for_an_older_landlock_as_well(tmp_path, known, monkeypatch):
    (tmp_path / "own").mkdir()
    (tmp_path / "other").write_text("secret")
    monkeypatch.setattr(landlock, "abi", lambda: known)
    child = os.fork()
    if not child:
        status = 9
        with contextlib.suppress(BaseException):
            rules.reduced.namespaces.renounce(-1)
            landlock.confine([(str(tmp_path / "own"), Access.OF_ITS_OWN), ("/not/there", Access.READ)])
            (tmp_path / "own" / "a").write_text("1")
            try:
                (tmp_path / "other").read_text()
            except PermissionError:
                status = 0
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
