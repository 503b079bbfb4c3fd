"""What a student's cell can do in the judge's box, where a prediction is made: calculate, whoever has taken it over."""

import json
import os
import subprocess
import sys

import pytest

from autograder.checks import alone_child
from autograder.doors.box import calls, landlock

WHY_NOT = "it exists on Linux alone" if sys.platform != "linux" else calls.why_not()
pytestmark = [pytest.mark.once, pytest.mark.skipif(bool(WHY_NOT), reason=f"not here, because {WHY_NOT}")]

# Its own process as `run_alone` starts it, after it has given up what it can; no hook of Python's is set.
CHILD = """
import ctypes, errno, json, os, sys, threading
sys.path.insert(0, os.path.dirname({child!r}))
import alone_child
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, as in a box
alone_child.prepare({numpy!r})
alone_child.call_first("autograder.doors.judge.alone:close", "<answer>", {numpy!r} != "")
libc, parent = ctypes.CDLL(None, use_errno=True), os.getppid()


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def refused(action):
    try:
        return action() in (-1, None)
    except (OSError, PermissionError):
        return True


def of_another():
    buffer = ctypes.create_string_buffer(8)
    place = ctypes.byref(Vector(ctypes.addressof(buffer), 8))
    libc.process_vm_readv(parent, place, 1, place, 1, 0)
    return -1 if ctypes.get_errno() == errno.EPERM else 1


def thread():
    found = []
    started = threading.Thread(target=found.append, args=[1])
    started.start()
    started.join()
    return found


tried = {{
    "signals": lambda: os.kill(parent, 0) or 1,
    "memory": of_another,
    "traces": lambda: libc.ptrace(16, parent, 0, 0),
    "forks": os.fork,
    "runs": lambda: os.execv("/bin/true", ["true"]),
    "spawns": lambda: os.posix_spawn("/bin/true", ["true"], {{}}),
    "connects": lambda: __import__("_socket").socket(),
    "writes": lambda: os.open({folder!r} + "/new", os.O_CREAT | os.O_WRONLY),
    "writes to what is there": lambda: os.open({folder!r} + "/there", os.O_RDWR),
    "makes a folder": lambda: os.mkdir({folder!r} + "/folder") or 1,
    "removes": lambda: os.unlink({folder!r} + "/there") or 1,
    "reads another's files": lambda: os.open("/proc/" + str(parent) + "/maps", os.O_RDONLY),
    "lists another's files": lambda: os.listdir("/proc/" + str(parent) + "/fd"),
    "reads a file": lambda: os.open({folder!r} + "/there", os.O_RDONLY),
}}
found = [name for name, action in tried.items() if not refused(action)]
import decimal, statistics
print(json.dumps([found, thread(), str(decimal.Decimal(1) / 4), {works}]))
"""


@pytest.mark.parametrize("numpy", [False, True])
def test_it_can_calculate_and_nothing_else(tmp_path, numpy):
    (tmp_path / "there").write_text("text")
    home = os.path.dirname(os.path.dirname(__import__("numpy").__file__)) if numpy else ""
    works = "__import__('numpy').random.default_rng(0).integers(5, size=2).shape[0]" if numpy else "2"
    text = CHILD.format(child=alone_child.__file__, numpy=home, folder=str(tmp_path), works=works)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found, threads, quarter, two = json.loads(done.stdout)
    reads = {"reads another's files", "lists another's files", "reads a file"} if not landlock.abi() else set()
    assert set(found) <= reads and (threads, quarter, two) == ([1], "0.25", 2)
    assert os.listdir(tmp_path) == ["there"]
