"""The bench: the measuring processes of a notebook, as the notebook sees them.

Nothing is timed in the notebook's own process: there, asynchronous dispatch, other threads and the course's own
instruments decide what a clock says. The process starts on `warm_up()` without waiting for it, does not outlive its
parent, is started afresh once if it dies, and is killed when it does not answer in time. In a kernel that was forked
warm it is forked, too; in any other it is a new Python.

One process is enough until a ratio comes out near its bar. Then a second one is started, on another core where there is
one, and is kept: most notebooks never pay for it, and those that do pay once.
"""

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import jax

from autograder.measuring.fork_server import FIRST, ONE_THREAD, Forked, ForkServer
from autograder.measuring.programs import Programs
from autograder.measuring.wire.frames import pipes
from autograder.measuring.wire.messages import Failed, ProtocolError, Reply, Request, Start, receive, send

SCRIPT = str(Path(__file__).with_name("worker") / "main.py")
# What a process needs to find its libraries and its device. Everything else stays behind: a variable such as
# MALLOC_TRIM_THRESHOLD_ or OMP_NUM_THREADS, inherited by accident, changes ratios by a factor of 6.
KEPT_ENVIRONMENT = {"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT"}
KEPT_ENVIRONMENT |= {"VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", FIRST}
KEPT_ENVIRONMENT |= {"JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "TPU_VISIBLE_DEVICES"}
# The newest instructions that XLA may use: those that the notebook is compiled for, as not every machine can run all.
KEPT_FLAG = "--xla_cpu_max_isa="
START_LIMIT = 120.0
END_LIMIT = 5.0


class BenchDied(Exception):
    """The measuring process ended without an answer."""


class BenchTimeout(Exception):
    """The measuring process did not answer in time, and was ended."""


def environment(variables: dict[str, str]) -> dict[str, str]:
    """The measuring process's environment variables, from those of the notebook."""
    kept = {name: value for name, value in variables.items() if name.upper() in KEPT_ENVIRONMENT}
    kept |= {name: value for name, value in variables.items() if name.startswith("LIBTPU")}
    instructions = [flag for flag in variables.get("XLA_FLAGS", "").split() if flag.startswith(KEPT_FLAG)]
    flags = {
        "XLA_FLAGS": " ".join(["--xla_cpu_multi_thread_eigen=false", *instructions]),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # the notebook holds memory on the same device
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONHASHSEED": "0",
        # glibc: keep freed memory. A page that goes back to the system is cleared when it is used again, and
        # whether that happens within a block is chance.
        "MALLOC_TRIM_THRESHOLD_": str(2**33),
        "MALLOC_MMAP_THRESHOLD_": str(2**30),
        "MALLOC_TOP_PAD_": str(2**26),
    }
    if jax.config.jax_platforms:
        flags["JAX_PLATFORMS"] = jax.config.jax_platforms
    return kept | ONE_THREAD | flags


def cores() -> list[int]:
    """The cores this process may use; [-1] where that cannot be asked."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [-1]


fork_server: ForkServer | None = None  # of measuring processes, in a kernel that has one
programs = Programs("", False)  # of the unit's solution, in a kernel that is given them


def _fork(core: int) -> Forked | None:
    """A measuring process from the fork server; None where there is none, or it is another process's."""
    if fork_server is None or fork_server.owner != os.getpid():
        return None
    with contextlib.suppress(OSError):
        process = fork_server.fork()
        send(process.stdin, Start(core, environment(dict(os.environ)), os.getcwd(), *programs))
        return process
    return None


def _start(core: int) -> subprocess.Popen[bytes]:
    """A measuring process that begins with nothing."""
    command = [sys.executable, "-P", SCRIPT, str(core)]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    # A session of its own: the notebook's interrupt key is not for it.
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=null, env=environment(dict(os.environ)), start_new_session=True
    )


def core_of(number: int) -> int:
    """The core of the measuring process with this number: they are taken in turn, from the last."""
    own = cores()
    return own[-1 - number % len(own)]


class Bench:
    """A measuring process. `number` counts the processes of this notebook: each takes another core."""

    def __init__(self, number: int = 0):
        self.owner = os.getpid()
        self.number = number
        self.core = core_of(number)
        self.process = _fork(self.core) or _start(self.core)
        self._requests, self._replies = pipes(self.process)
        self._answers: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._ready = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                try:
                    self._answers.put(receive(self._replies, Reply))
                except ProtocolError as error:
                    self._answers.put(Failed(str(error)))
        self._answers.put(None)

    def _answer(self, limit: float) -> Reply:
        try:
            answer = self._answers.get(timeout=limit)
        except queue.Empty:
            self.close()
            raise BenchTimeout(limit) from None
        except BaseException:  # the learner interrupts: the answer would come at the wrong time
            self.close()
            raise
        if answer is None:
            self.close()
            raise BenchDied
        if isinstance(answer, Failed):
            raise RuntimeError(f"the measuring process failed: {answer.text}")
        return answer

    def wait_until_ready(self) -> None:
        """Return when the process has started. Its first message says so."""
        if not self._ready:
            self._answer(START_LIMIT)
            self._ready = True

    def ask(self, request: Request, *, limit: float) -> Reply:
        """Send one request and wait at most `limit` seconds for the reply.

        Raises BenchTimeout and BenchDied, and RuntimeError where the process itself, or the protocol, has a fault.
        """
        self.wait_until_ready()
        try:
            send(self._requests, request)
        except BaseException as error:  # an interrupt, too, would leave half a message behind
            self.close()
            if isinstance(error, OSError):
                raise BenchDied from None
            raise
        return self._answer(limit)

    @property
    def alive(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def close(self) -> None:
        """End the process, and with it its guest."""
        if self.owner != os.getpid():
            return
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:  # when its input ends, the process ends its guest and itself
            with contextlib.suppress(OSError):
                self._requests.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_LIMIT)
        self.process.kill()
        self.process.wait()
        self._listener.join()
        for stream in (self._requests, self._replies):
            with contextlib.suppress(OSError):
                stream.close()


_benches: list[Bench] = []
_started = 0  # processes, each with a number of its own; one that died leaves its number to the next in its place


def current(place: int = 0) -> Bench:
    """The measuring process of this notebook, or another one beside it, by its place; started if there is none.

    Whatever is asked once is asked of the first. Each has a core that no other has, as far as there are cores.
    """
    while len(_benches) <= place:
        _benches.append(Bench(_next_number()))
    if not _benches[place].alive:
        _benches[place] = Bench(_benches[place].number)
    return _benches[place]


def _next_number() -> int:
    """A new number, of a core on which no process is yet, where there is one."""
    global _started
    taken = {process.core for process in _benches}
    free = (number for number in range(_started, _started + len(cores())) if core_of(number) not in taken)
    number = next(free, _started)
    _started = number + 1
    return number


def renew() -> Bench:
    """A new measuring process in place of all, on another core than the last one where there is one."""
    for process in _benches[:]:
        dismiss(process)
    return current()


def dismiss(process: Bench) -> None:
    """End a process; those behind it take its place."""
    process.close()
    with contextlib.suppress(ValueError):  # another one has taken its place already
        _benches.remove(process)


@atexit.register
def stop() -> None:
    """End all measuring processes. The next one starts on the first core again."""
    global _started
    renewed, _benches[:] = _benches[:], []
    for process in renewed:
        process.close()
    _started = 0


def warm_up() -> None:
    """Start the measuring process without waiting for it."""
    current()


def warm_up_after_cell() -> None:
    """In a Jupyter kernel: start the process when the running cell has ended.

    `speedup` calls this when it is imported, that is in the setup cell of a notebook that asks for speed. Start-up
    is then hidden behind the reading of the next paragraphs, and does not compete with the cell's own imports. A
    test run or a script pays nothing.
    """
    if "ipykernel" not in sys.modules:
        return
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return

    def after_cell(_result=None) -> None:
        with contextlib.suppress(ValueError):  # where a notebook is graded, hooks are taken out after each cell
            shell.events.unregister("post_run_cell", after_cell)
        with contextlib.suppress(OSError):  # whatever is wrong is told by the first `speedup`
            warm_up()

    shell.events.register("post_run_cell", after_cell)
