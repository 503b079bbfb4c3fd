"""The fork server: what comes from it lives and ends apart, and a measuring process is as one that was started."""

import contextlib
import subprocess
import sys

import psutil
import pytest

from autograder.measuring.fork_server import AVAILABLE

pytestmark = [
    pytest.mark.once,
    pytest.mark.thorough,
    pytest.mark.skipif(not AVAILABLE, reason="not here, because processes are forked on Linux alone"),
]

# A server must be forked off before there is a backend: not off this process.
ECHO = """
import os, subprocess
from autograder.measuring.fork_server import ForkServer

def echo(stream_in, stream_out):
    os.setsid()  # as a measuring process does: its group is not the server's
    while line := stream_in.readline():
        stream_out.write(b"%d heard %s" % (os.getpid(), line))
        stream_out.flush()

def said(child, words):
    child.stdin.write(words + b"\\n")
    child.stdin.flush()
    return child.stdout.readline().decode().split()

server = ForkServer(echo)
"""


def run(program, **how):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def ended(number):
    """Wait until a process has ended; whoever collects it may take its time."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(number)
        for _ in range(1000):
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(0.01)
        return False
    return True


def test_children_have_streams_of_their_own():
    program = "one, two = server.fork(), server.fork(); print(*said(two, b'b'), *said(one, b'a'), one.pid, two.pid)"
    two, _, b, one, _, a, *numbers = run(ECHO + program)
    assert (a, b) == ("a", "b") and [one, two] == numbers and one != two


def test_a_child_is_asked_as_a_process_is():
    program = """
one, two = server.fork(), server.fork()
print(one.poll(), two.poll())
try:
    two.wait(0.01)
except subprocess.TimeoutExpired:
    print("runs")
one.kill()
print(one.wait(60), one.poll(), two.poll(), *said(two, b"here"))
one.kill()
two.stdin.close()
print(two.wait(60), two.stdout.read())
"""
    none, nothing, runs, status, again, other, _, _, here, left, rest = run(ECHO + program)
    assert (none, nothing, runs, status, again, other, here) == ("None", "None", "runs", "-9", "-9", "None", "here")
    assert (left, rest) == ("-9", "b''")


def test_a_server_that_was_closed_forks_no_more_and_its_children_end():
    program = """
one = server.fork()
server.close()
print(one.wait(60))
try:
    server.fork()
except OSError:
    print("refused")
print(len(os.listdir("/proc/self/fd")))
for _ in range(20):
    try:
        server.fork()
    except OSError:
        pass
print(len(os.listdir("/proc/self/fd")))
"""
    status, refused, before, after = run(ECHO + program)
    assert (status, refused) == ("-9", "refused") and before == after, "no descriptor is left open"


def test_the_server_collects_its_children_before_it_forks_again():
    program = """
import psutil
children = [server.fork() for _ in range(5)]
for child in children:
    child.stdin.close()
    child.wait(60)
last = server.fork()
print(last.pid, *(child.pid for child in psutil.Process(server._pid).children()))
"""
    last, *left = run(ECHO + program)
    assert left == [last]


@pytest.mark.parametrize("how", ["os._exit(0)", "os.kill(os.getpid(), 9)"], ids=["leaves", "is killed"])
def test_the_server_and_its_children_end_with_the_process(how):
    program = f"print(server._pid, server.fork().pid, flush=True); {how}"
    done = subprocess.run([sys.executable, "-c", ECHO + program], capture_output=True, text=True, timeout=120)
    server, child = map(int, done.stdout.split())
    assert ended(server) and ended(child)


def test_an_interrupt_between_question_and_answer_mixes_up_no_children():
    program = """
import socket
class Interrupted:
    def __init__(self, inner):
        self.inner = inner
    def __getattr__(self, name):
        return getattr(self.inner, name)
    def recv(self, size):
        raise KeyboardInterrupt
server._socket = Interrupted(server._socket)
try:
    server.fork()
except KeyboardInterrupt:
    print("interrupted")
try:
    server.fork()
except OSError:
    print("closed")
"""
    assert run(ECHO + program) == ["interrupted", "closed"]


def test_a_child_that_fails_ends_alone():
    program = """
server.close()
def fail(stream_in, stream_out):
    stream_in.readline()
    raise ValueError
server = ForkServer(fail)
one, two = server.fork(), server.fork()
one.stdin.write(b"go\\n"); one.stdin.flush()
print(one.stdout.read(), two.poll())
"""
    assert run(ECHO + program) == ["b''", "None"]


# --- of measuring processes ------------------------------------------------------------------------------------------

# A baseline, which is called in the measuring process, writes down how it finds things there.
PROBE = """
import os, sys
import jax, numpy as np
from autograder.measuring import bench
from autograder.measuring.fork_server import Forked, ForkServer
from autograder.measuring.worker import jobs, main

def probe(x):
    import ctypes, gc, os, signal, sys
    import jax
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]
    libc.mallinfo2.restype = Info
    before = libc.mallinfo2().d
    libc.malloc(2**24)
    mapped = libc.mallinfo2().d - before
    names = sorted(name for name in os.environ if name.startswith(("MALLOC", "OMP", "XLA", "JAX", "SECRET")))
    told = "|".join([
        *(f"{name}={os.environ[name]}" for name in names),
        os.getcwd(),
        str(sorted(os.sched_getaffinity(0))),
        str(os.getsid(0) == os.getpid() == os.getpgid(0)),
        str([os.readlink(f"/proc/self/fd/{n}") for n in range(3)]),
        str(sorted(vars(sys.modules["autograder"]).keys() & {"speedup", "assert_equal"})),
        str(jax.config.jax_compilation_cache_dir), str(jax.config.jax_platforms), str(gc.isenabled()),
        str(signal.getsignal(signal.SIGINT)), str(mapped),
    ])
    open(os.environ["TMPDIR"] + "/told", "w").write(told)
    return x + 0

def same(x):
    return x + 0

if os.environ.get("HOW") == "forked":
    jax.config.update("jax_compilation_cache_dir", "/nowhere")
    bench.fork_server = ForkServer(main.forked)
    jax.config.update("jax_compilation_cache_dir", None)
process = bench.current()
assert isinstance(process.process, Forked) == (os.environ.get("HOW") == "forked")
os.environ["MALLOC_TRIM_THRESHOLD_"] = "65536"
from autograder import speedup
speedup(same, probe, np.ones(8))
print(open(os.environ["TMPDIR"] + "/told").read())
"""


def test_a_forked_measuring_process_is_as_one_that_was_started(tmp_path, monkeypatch):
    found = {}
    for how in ("forked", "started"):
        for name, value in {"HOW": how, "TMPDIR": str(tmp_path), "SECRET": "s", "JAX_PLATFORMS": "cpu"}.items():
            monkeypatch.setenv(name, value)
        found[how] = " ".join(run(PROBE, cwd=tmp_path)).split("|")
    assert found["forked"] == found["started"]
    assert "SECRET=s" not in found["forked"] and found["forked"][-1] == "0", "what is freed is kept"


def test_kept_programs_are_for_comparisons_and_not_for_first_calls(tmp_path):
    program = """
import jax, jax.numpy as jnp, numpy as np
from pathlib import Path
from autograder import speedup
from autograder.measuring import bench
from autograder.measuring.fork_server import ForkServer
from autograder.measuring.programs import Programs
from autograder.measuring.worker import main

where, kept = Path.cwd(), Path.cwd() / "kept"
kept.mkdir()

def asks(name):
    def tell(x):
        import jax
        (where / name).write_text(str(jax.config.jax_compilation_cache_dir))
        return x + 0
    return tell

bench.fork_server = ForkServer(main.forked)
for keeps in True, False:
    bench.programs = Programs(str(kept), keeps)
    speedup(jax.jit(lambda x: jnp.sin(x) * 2 + keeps), jax.jit(lambda x: 2 * jnp.sin(x) + keeps), np.ones(8))
    print(len(list(kept.iterdir())))
    bench.stop()
speedup(asks("guest"), asks("measuring process"), np.ones(8))
speedup(asks("first call"), asks("first call of the baseline"), np.ones(8), cold=True)
print(*(path.name for path in where.iterdir() if path.is_file() and path.read_text() == str(kept)))
"""
    after_the_solution, after_a_student, *looked = run(program, cwd=tmp_path)
    assert int(after_the_solution) == int(after_a_student) > 2
    assert " ".join(looked) == "measuring process"


def test_where_no_server_answers_a_process_is_started():
    program = """
import os
from autograder.measuring import bench
from autograder.measuring.fork_server import ForkServer
bench.fork_server = ForkServer(lambda *streams: None)
bench.fork_server.close()
bench.current().wait_until_ready()
print(type(bench.current().process).__name__)
"""
    assert run(program) == ["Popen"]


def test_a_forked_copy_of_the_notebook_does_not_ask_its_server():
    program = """
import os
from autograder.measuring import bench
from autograder.measuring.fork_server import ForkServer
bench.fork_server = ForkServer(lambda *streams: None)
bench.fork_server.owner += 1
print(bench._fork(0))
"""
    assert run(program) == ["None"]


def test_guests_are_forked_from_the_measuring_process():
    program = """
import numpy as np, psutil
from autograder import speedup
from autograder.measuring import bench
kept = []
def fast(x):
    kept.append(1)
    return np.sin(x)
def slow(x):
    return [np.sin(x) for _ in range(9)][0]
print(speedup(fast, slow, np.ones(2000), at_least=2).verdict)
worker = psutil.Process(bench.current().process.pid)
(server,) = worker.children()
print(len(server.children()), server.children()[0].cmdline() == worker.cmdline())
"""
    assert run(program) == ["pass", "1", "True"]
