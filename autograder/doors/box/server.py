"""The process that kernels in boxes are forked from. It imports what every notebook imports, once.

    socket on standard input  ->  requests (JSON) with one descriptor each: the kernel's lifeline;
                                  and a second one, `mail`, if the kernel is to be linked with another (see `judge`)

For each request it forks a keeper. The keeper makes a box (see `full` and `reduced`); it is itself no process of the
box. The kernel is its child, and is born in the box. The keeper then watches what the box uses. It ends the box, and
with it every process in it, when the kernel ends, when a limit is passed, or when the lifeline is closed, which is also
what happens when the grader is killed.

Lifeline, from the grader: `i` interrupt, `s` seal (the kernel listens: the folder with its sockets is hidden from it).
To the grader, JSON: {"ready": true} or {"failed": text}; {"sealed": true}; at the end {"ended": exit status, "why": the
limit that was passed, or ""}.

Where boxes are full this process runs in one, too, in which everything is read-only: a forked kernel is the same
program file, and Linux lets a process open its own program (/proc/self/exe) by the way on which it was started.
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
import sys
import types
from collections.abc import Iterator

from autograder.doors.box import memory, namespaces
from autograder.doors.box.full import Full
from autograder.doors.box.reduced import Reduced
from autograder.doors.judge.link import MAIL
from autograder.doors.warm_kernels import IMPORTED, become_kernel, move_in, show_a_traceback
from autograder.measuring.programs import Programs, look_for

TICK = 0.1  # seconds between two looks at what the box uses
FILES = 1024  # that a process of the box may have open: a look at them all must not take long
# What a box holds without being seen (a buffer of a socket, say) shows in what is left to the machine.
_RESERVE = 256 * 2**20  # bytes; below that the system itself would begin to end programs
_FIRST_TO_GO = b"1000"  # oom_score_adj: a box goes before the grader does


def main() -> None:
    """Serve until the grader is gone."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for name in IMPORTED:
        importlib.import_module(name)
    show_a_traceback()
    sys.modules["__main__"] = types.ModuleType("__main__")
    gc.collect()
    gc.freeze()  # what is here now is shared with all kernels, and a collector would write to it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers: nobody asks how they ended
    control.send(b"ready")
    while True:
        text, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 2)
        if not text:
            return
        if os.fork() == 0:
            control.close()
            _keep(json.loads(text), socket.socket(fileno=descriptors[0]), descriptors[1:])
        for descriptor in descriptors:
            os.close(descriptor)


def _keep(request: dict, lifeline: socket.socket, mail: list[int]) -> None:
    """Be the keeper of one box. Does not return."""
    box, kernel = None, 0
    try:
        namespaces.end_with_the_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with _first_to_go():
            box = (Full if "box" in request else Reduced)(request)
            kernel = os.fork()
            if kernel == 0:
                _be_kernel(request, lifeline, mail, box)
        status, why = _watch(kernel, request["limits"], lifeline, box)
        told: dict[str, object] = {"ended": status, "why": why}
    except BaseException as error:
        told = {"failed": f"{type(error).__name__}: {error}"}
    if box:
        with contextlib.suppress(OSError):
            box.end(kernel)
    _tell(lifeline, **told)
    os._exit(0)


@contextlib.contextmanager
def _first_to_go() -> Iterator[None]:
    """What is started here is ended first, where the machine has no memory left; this process is not."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a system that has no such file
            mine = stack.enter_context(open("/proc/self/oom_score_adj", "r+b", buffering=0))  # /proc is another, later
            before = mine.read().strip()
            os.pwrite(mine.fileno(), _FIRST_TO_GO, 0)
            stack.callback(os.pwrite, mine.fileno(), before, 0)
        yield


def _tell(lifeline: socket.socket, **message: object) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        lifeline.send(json.dumps(message).encode())


def _watch(kernel: int, limits: dict, lifeline: socket.socket, box: Full | Reduced) -> tuple[int, str]:
    """Return when the box is to end: with the kernel's exit status (-9 if it lives), and the limit that was passed."""
    listening = [lifeline]
    while True:
        if select.select(listening, [], [], TICK)[0]:
            command = lifeline.recv(1)
            if command == b"i":
                box.interrupt(kernel)
            elif command == b"s":
                box.seal()
                _tell(lifeline, sealed=True)
            else:
                return -signal.SIGKILL, ""
        # It is not collected yet: as long as it is there, its number is nobody else's.
        ended = os.waitid(os.P_PID, kernel, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended:
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status, ""
        if why := _passed(box.processes(kernel), limits) or box.overfull(kernel) or _exhausted():
            return -signal.SIGKILL, why


def _passed(processes: list[int], limits: dict) -> str:
    """The limit that the processes of the box have passed together; empty if they are within all of them."""
    held = sum(map(_memory, processes))
    if len(processes) > limits["processes"]:
        return f"it had more than {limits['processes']} processes"
    if held > limits["memory"]:
        return f"it held more than {limits['memory'] / 2**30:g} GiB of memory"
    return ""


def _exhausted() -> str:
    """Whether the machine has hardly any memory left, whoever holds it."""
    with contextlib.suppress(OSError), open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:") and int(line.split()[1]) * 1024 < _RESERVE:
                return f"the machine had less than {_RESERVE // 2**20} MiB of memory left"
    return ""


def _memory(process: int) -> int:
    """The bytes that are its own, or that it shares with others through no file of the disk; 0 if it has ended."""
    if (own := memory.held(f"/proc/{process}")) is not None:
        return own
    # Its first thread has ended, and says nothing any more. All others hold the same.
    with contextlib.suppress(OSError):
        return max(
            (memory.held(f"/proc/{process}/task/{name}") or 0 for name in os.listdir(f"/proc/{process}/task")),
            default=0,
        )
    return 0


def _be_kernel(request: dict, lifeline: socket.socket, mail: list[int], box: Full | Reduced) -> None:
    """What runs in the box: a kernel in a folder of its own, a copy of what was handed in. Does not return."""
    try:
        os.setsid()
        box.confine()
        _limit(request["limits"])
        os.umask(0o077)
        if not os.path.exists(request["work"]):
            shutil.copytree(request["submitted"], request["work"])
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        _tell(lifeline, ready=True)
        for descriptor in mail:
            os.dup2(descriptor, MAIL, inheritable=False)
        os.closerange(3, MAIL)
        os.closerange(MAIL + bool(mail), os.sysconf("SC_OPEN_MAX"))
        move_in(request["environment"], request["work"], request["path"])
        if request["compiled"]:
            from autograder.measuring import bench

            bench.programs = Programs(request["compiled"], request["compiles"])
            look_for(bench.programs)
        become_kernel(request["arguments"])
    except BaseException as error:
        _tell(lifeline, failed=f"{type(error).__name__}: {error}")
    os._exit(1)


def _limit(limits: dict) -> None:
    """What the system holds each process to; what they use together is the keeper's to watch."""
    wanted = {
        resource.RLIMIT_CORE: 1,  # none, nor is one handed to a program of the system's: see core(5)
        resource.RLIMIT_NOFILE: FILES,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_CPU: limits["cpu"],
        resource.RLIMIT_DATA: 2 * limits["memory"],  # what is asked for; the keeper counts what is used
        resource.RLIMIT_FSIZE: limits["disk"],
        # Threads count; it is not looked at where the grader is root.
        resource.RLIMIT_NPROC: 16 * limits["processes"] + limits.get("threads", 0),
    }
    for which, most in wanted.items():
        hard = resource.getrlimit(which)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (value, value))


if __name__ == "__main__":
    main()
