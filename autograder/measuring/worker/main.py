"""The measuring process. Started by file path, so that the package's own imports are not paid for:

    python -P autograder/measuring/worker/main.py [--guest | --fork-server] CORE

It reads requests on standard input and answers on standard output (see `wire.messages`), and ends when its input does,
even in the middle of a request: whoever asked is gone. Synchronous dispatch, one core, one XLA thread, no garbage
collector.
"""

import ctypes
import gc
import os
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable
from io import BufferedReader, BufferedWriter
from pathlib import Path
from queue import SimpleQueue
from typing import Any


def end_with_parent() -> None:
    """Linux sees to what `Doorbell` does anywhere. A fork does not hand this on."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def settle(core: int) -> None:
    """What must be so before jax is imported."""
    end_with_parent()
    if core >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    # The package from the folder in which this file lies, installed or not, without the names it has for notebooks.
    package = types.ModuleType("autograder")
    package.__path__ = [str(Path(__file__).resolve().parents[2])]
    sys.modules["autograder"] = package


def private_pipes() -> tuple[BufferedReader, BufferedWriter]:
    """Standard input and output as streams of our own; what a function prints goes nowhere."""
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(null, standard)
    return streams


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
    role, core = arguments[0], arguments[-1]
    guest = role in ("--guest", "--fork-server")
    settle(int(core))
    stream_in, stream_out = private_pipes()

    import jax

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    from autograder.measuring.wire import messages

    if role == "--fork-server":
        from autograder.measuring.worker import sides as _sides  # noqa: F401  imported before the first fork
        from autograder.measuring.worker.fork_server import serve

        gc.collect()
        gc.freeze()
        stream_in, stream_out = serve(socket.socket(fileno=os.dup(stream_in.fileno())))
        end_with_parent()  # from here on, this is a child

    jax.block_until_ready(jax.numpy.zeros(8) + 1)  # the backend, and the first operation
    declared: Any
    answer: Callable[[Any], messages.Message]
    if guest:
        from autograder.measuring.worker.sides import Candidates

        declared, answer, bell = messages.GuestRequest, Candidates().answer, None  # the bench ends it, and times it
    else:
        from autograder.measuring.worker.jobs import Jobs

        jobs = Jobs(__file__, [core])
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
        if request is not None:
            reply = answer(request)
            del request  # a `Load` holds arrays
        messages.send(stream_out, reply)
        gc.collect(0)


if __name__ == "__main__":
    main(sys.argv[1:])
