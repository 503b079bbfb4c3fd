"""The process that kernels in boxes are forked from. It imports what every notebook imports, once.

    socket on standard input  ->  requests (JSON) with one descriptor each: the kernel's lifeline

For each request it forks a keeper. The keeper has bubblewrap make a box, in which nothing runs but `cat`, and comes
into it from outside: it is no process of the box, so nothing in the box can see it or send it a signal. The kernel is
its child, and is born in the box. The keeper then watches what the box uses. It ends the box, and with it every process
in it, when the kernel ends, when a limit is passed, or when the lifeline is closed, which is also what happens when the
grader is killed.

Lifeline, from the grader: `i` interrupt, `s` seal (the kernel listens: the folder with its sockets becomes read-only).
To the grader, JSON: {"ready": true} or {"failed": text}; {"sealed": true}; at the end {"ended": exit status, "why": the
limit that was passed, or ""}.

This process runs in a box, too, in which everything is read-only: a forked kernel is the same program file, and Linux
lets a process open its own program (/proc/self/exe) by the way on which it was started.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import types

from autograder.doors.box import namespaces
from autograder.doors.warm_kernels import IMPORTED, become_kernel, move_in

TICK = 0.1  # seconds between two looks at what the box uses
WORK = "/tmp/home/work"
SUBMITTED = "/submitted"
_PAGE = resource.getpagesize()


def main() -> None:
    """Serve until the grader is gone."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for name in IMPORTED:
        importlib.import_module(name)
    sys.modules["__main__"] = types.ModuleType("__main__")
    gc.collect()
    gc.freeze()  # what is here now is shared with all kernels, and a collector would write to it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers: nobody asks how they ended
    control.send(b"ready")
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 1)
        if not text:
            return
        if os.fork() == 0:
            control.close()
            _keep(json.loads(text), socket.socket(fileno=descriptors[0]))
        os.close(descriptors[0])


def _keep(request: dict, lifeline: socket.socket) -> None:
    """Be the keeper of one box. Does not return."""
    try:
        namespaces.end_with_the_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        box, inside = _make_box(request["box"])
        user_namespace = namespaces.enter(inside)
        kernel = os.fork()
        if kernel == 0:
            _be_kernel(request, lifeline, user_namespace)
        status, why = _watch(kernel, request, lifeline)
        box.kill()
        box.wait()
        _tell(lifeline, ended=status, why=why)
    except BaseException as error:
        _tell(lifeline, failed=f"{type(error).__name__}: {error}")
    os._exit(0)


def _tell(lifeline: socket.socket, **message: object) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        lifeline.send(json.dumps(message).encode())


def _make_box(command: list[str]) -> tuple[subprocess.Popen, int]:
    """A box in which only `cat` runs, as its first process; and the number by which we know that process."""
    reading, writing = os.pipe()
    box = subprocess.Popen(
        [*command, "--as-pid-1", "--info-fd", str(writing), "--", "cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[writing],
        bufsize=0,
    )
    assert box.stdin and box.stdout and box.stderr
    os.close(writing)
    with contextlib.suppress(BrokenPipeError):
        box.stdin.write(b"\n")
    if box.stdout.read(1) != b"\n":  # it answers when everything is in its place
        raise RuntimeError(box.stderr.read().decode(errors="replace").strip())
    box.stderr.close()
    with open(reading) as info:
        return box, json.load(info)["child-pid"]


def _watch(kernel: int, request: dict, lifeline: socket.socket) -> tuple[int, str]:
    """Return when the box is to end: with the kernel's exit status (-9 if it lives), and the limit that was passed."""
    listening = [lifeline]
    while True:
        if select.select(listening, [], [], TICK)[0]:
            command = lifeline.recv(1)
            if command == b"i":
                os.killpg(kernel, signal.SIGINT)
            elif command == b"s":
                namespaces.make_read_only(request["connection"])
                _tell(lifeline, sealed=True)
            else:
                return -signal.SIGKILL, ""
        ended, status = os.waitpid(kernel, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), ""
        if why := _passed(request["limits"]):
            return -signal.SIGKILL, why


def _passed(limits: dict) -> str:
    """The limit that the processes of the box have passed together; empty if they are within all of them."""
    memory = count = 0
    for name in os.listdir("/proc"):  # the box's
        if name.isdigit():
            count += 1
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/statm") as file:
                _, resident, shared, *_ = map(int, file.read().split())
                memory += max(0, resident - shared) * _PAGE
    if count > limits["processes"]:
        return f"it had more than {limits['processes']} processes"
    if memory > limits["memory"]:
        return f"it held more than {limits['memory'] / 2**30:g} GiB of memory"
    return ""


def _be_kernel(request: dict, lifeline: socket.socket, user_namespace: int) -> None:
    """What runs in the box: a kernel in a folder of its own, a copy of what was handed in. Does not return."""
    try:
        os.setsid()
        namespaces.renounce(user_namespace)
        _limit(request["limits"])
        os.umask(0o077)
        shutil.copytree(SUBMITTED, WORK)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        _tell(lifeline, ready=True)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        move_in(request["environment"], WORK, request["path"])
        if request["compiled"]:
            look_for_programs(request["compiled"], request["compiles"])
        become_kernel(request["arguments"])
    except BaseException as error:
        _tell(lifeline, failed=f"{type(error).__name__}: {error}")
    os._exit(1)


def look_for_programs(folder: str, compiles: bool) -> None:
    """Let JAX look there for what it is to compile, and keep there what it has not found, or nothing."""
    import jax

    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0 if compiles else float("inf"))
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _limit(limits: dict) -> None:
    """What the system holds each process to; what they use together is the keeper's to watch."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits["cpu"],
        resource.RLIMIT_DATA: 2 * limits["memory"],  # what is asked for; the keeper counts what is used
        resource.RLIMIT_FSIZE: limits["disk"],
        resource.RLIMIT_NPROC: 16 * limits["processes"],  # threads count; not looked at where the grader is root
    }
    for which, most in wanted.items():
        hard = resource.getrlimit(which)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (value, value))


if __name__ == "__main__":
    main()
