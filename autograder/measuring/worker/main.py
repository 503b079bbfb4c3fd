"""The measuring process. Forked off a kernel that is itself forked, or started by this file's path:

    python -P autograder/measuring/worker/main.py [--guest] CORE

It reads requests on one stream and answers on another (see `wire.messages`), and ends when the first one does, even in
the middle of a request: whoever asked is gone. Synchronous dispatch, one core, one XLA thread, no garbage collector.
"""

import ctypes
import gc
import os
import sys
import threading
import types
from collections.abc import Callable
from io import BufferedReader, BufferedWriter
from pathlib import Path
from pkgutil import resolve_name
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.measuring.programs import Programs


def settle(core: int) -> None:
    """What must be so before anything is imported."""
    if core >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    # The package from the folder in which this file lies, installed or not, without the names it has for notebooks.
    package = types.ModuleType("autograder")
    package.__path__ = [str(Path(__file__).resolve().parents[2])]
    sys.modules["autograder"] = package


def private_pipes() -> tuple[BufferedReader, BufferedWriter]:
    """Standard input and output as streams of our own; what a function prints goes nowhere."""
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    silence(0, 1)
    return streams


def silence(*standard: int) -> None:
    """Nothing comes from these descriptors any more, and what is written to them goes nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in standard:
        os.dup2(null, descriptor)
    os.close(null)


class Doorbell:
    """Waits for messages in a thread, which calls `gone` as soon as the other side of `stream` has closed it.

    The notebook may be killed while a function that never ends is being measured, and no system but Linux then tells
    its children. The thread only looks whether a message begins; the caller reads it. While a function is timed the
    thread sleeps in the system.
    """

    def __init__(self, stream: BufferedReader, gone: Callable[[], None]):
        self._stream, self._gone = stream, gone
        self._rings: SimpleQueue[None] = SimpleQueue()
        self._served: SimpleQueue[None] = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while self._stream.peek(1):
            self._rings.put(None)
            self._served.get()
        self._gone()

    def wait(self) -> None:
        """Return when a message begins."""
        self._rings.get()

    def served(self) -> None:
        """To be called when the message has been read."""
        self._served.put(None)


def main(arguments: list[str]) -> None:
    """The life of a process that was started by this file's path."""
    role, core = arguments[0], int(arguments[-1])
    settle(core)
    from autograder.measuring.fork_server import end_with_parent

    end_with_parent()  # Linux sees to what `Doorbell` does anywhere
    serve(role == "--guest", core, *private_pipes())


def forked(stream_in: BufferedReader, stream_out: BufferedWriter) -> None:
    """The life of a process that was forked from a server of the notebook's. It becomes as the other one is."""
    import jax
    import numpy as np

    from autograder.measuring.programs import Programs
    from autograder.measuring.wire import messages

    os.setsid()  # the notebook's interrupt key is not for it
    silence(0, 1, 2)
    start = messages.receive(stream_in, messages.Start)
    os.environ.clear()
    os.environ.update(start.variables)
    os.chdir(start.folder)
    keep_freed_memory(start.variables)
    jax.config.update("jax_platforms", start.variables.get("JAX_PLATFORMS"))
    jax.config.update("jax_compilation_cache_dir", None)
    np.random.seed()
    settle(start.core)
    serve(False, start.core, stream_in, stream_out, Programs(start.programs, start.keeps))


def keep_freed_memory(variables: dict[str, str]) -> None:
    """Do what glibc does for these variables in a process that is started with them."""
    libc = ctypes.CDLL(None)
    parameters = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_TOP_PAD_": -2, "MALLOC_MMAP_THRESHOLD_": -3}  # of malloc.h
    if hasattr(libc, "mallopt"):  # glibc; it takes a C int
        for name, parameter in parameters.items():
            libc.mallopt(parameter, min(int(variables[name]), 2**31 - 1))


def serve(
    guest: bool, core: int, stream_in: BufferedReader, stream_out: BufferedWriter, programs: "Programs | None" = None
) -> None:
    """Answer requests, as a guest or as a measuring process, until there are no more."""
    import jax
    import numpy as np

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    from autograder.measuring.fork_server import AVAILABLE, FIRST, ForkServer
    from autograder.measuring.programs import look_for
    from autograder.measuring.wire import messages
    from autograder.measuring.worker.sides import Candidates, Guest, started

    if first := os.environ.get(FIRST):  # a guest that was forked has its parent's
        resolve_name(first)()
    declared: Any
    answer: Callable[[Any], messages.Message]
    server = None
    if AVAILABLE and not guest:
        server = ForkServer(lambda *streams: serve(True, core, *streams))
    if programs and programs.folder:  # not before: in processes that are forked there, the first calls are timed
        look_for(programs)
    # The backend, and the first operation: one, because each cold call waits for it.
    jax.block_until_ready(jax.device_put(np.zeros(8, np.float32)) + 1)
    if guest:
        declared, answer, bell = messages.GuestRequest, Candidates().answer, None  # the bench ends it, and times it
    else:
        from autograder.measuring.worker.jobs import Jobs

        jobs = Jobs(lambda: Guest(server.fork() if server else started(__file__, "--guest", str(core))), server)
        jobs.rehearse()
        declared, answer = messages.Request, jobs.answer

        def leave():
            jobs.close()
            os._exit(0)  # whatever the main thread is doing

        bell = Doorbell(stream_in, leave)
    gc.collect()
    gc.freeze()
    gc.disable()
    messages.send(stream_out, messages.Ready(jax.__version__))

    while True:
        if bell:
            bell.wait()
        request = None
        try:
            request = messages.receive(stream_in, declared)
        except EOFError:
            return
        except messages.ProtocolError as error:
            reply: messages.Message = messages.Failed(str(error))
        finally:
            if bell:
                bell.served()
        ran = isinstance(request, messages.Run)  # then results are looked at first: a finaliser could still write them
        if request is not None:
            reply = answer(request)
            del request  # a `Load` holds arrays
        messages.send(stream_out, reply)
        if not ran:
            gc.collect(0)


if __name__ == "__main__":
    main(sys.argv[1:])
