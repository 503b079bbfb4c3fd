"""A fork server: a process that has imported JAX, has no backend, and forks whenever it is asked.

A process that begins with nothing needs a second of work before it can call a function of JAX, nearly all of it for
imports; a forked one needs a tenth. A backend has threads, which do not survive a fork. So whoever will want such
processes forks a server off itself while it has no backend, and each child of the server starts its own.

A kernel that was itself forked (see `doors.warm_kernels`) has one for its measuring processes, and each measuring
process has one for its guests.
"""

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from io import BufferedReader, BufferedWriter
from typing import IO

# Elsewhere the libraries that JAX stands on need not survive a fork.
AVAILABLE = sys.platform == "linux" and hasattr(os, "pidfd_open")
# NumPy's libraries ask once, when they are loaded, how many threads to use: so a server has to be told beforehand.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# The variable that names what a measuring process calls before it has a function of anybody's: "module:function".
FIRST = "AUTOGRADER_FIRST"
_PID = struct.Struct(">I")
_ASK = b"?"

Become = Callable[[BufferedReader, BufferedWriter], None]


class Forked:
    """A child of the server; what is asked of it is asked as of a `subprocess.Popen`."""

    def __init__(self, pid: int, handle: int, stdin: IO[bytes], stdout: IO[bytes]):
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self._handle = handle  # of `os.pidfd_open`
        self._ended = False

    def poll(self) -> int | None:
        """None while it runs; how it ended, only its parent knows: -9."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return when it has ended. Raises subprocess.TimeoutExpired."""
        status = self._look(None if timeout is None else timeout * 1000)
        if status is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return status

    def kill(self) -> None:
        """End it, if it runs."""
        if not self._ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _look(self, milliseconds: float | None) -> int | None:
        if not self._ended:
            waiting = select.poll()
            waiting.register(self._handle, select.POLLIN)
            if waiting.poll(milliseconds):
                self._ended = True
                os.close(self._handle)
        return -signal.SIGKILL if self._ended else None


class ForkServer:
    """A fork of this process, made now. Each child of it runs `become` on its two streams, and ends when that returns.

    The server ends with this process, and its children with the server.
    """

    def __init__(self, become: Become):
        self._socket, its = socket.socketpair()
        self.owner = os.getpid()
        self._pid = os.fork()
        if not self._pid:
            self._socket.close()
            try:
                _serve(self.owner, its, become)
            finally:
                os._exit(1)  # the stack below is another process's
        its.close()

    def fork(self) -> Forked:
        """A new child. Raises OSError if the server has ended."""
        its_in, requests = os.pipe()
        replies, its_out = os.pipe()
        try:
            socket.send_fds(self._socket, [_ASK], [its_in, its_out])
            answer = self._socket.recv(_PID.size)
            if len(answer) < _PID.size:
                raise ConnectionResetError("the fork server has ended")
            (pid,) = _PID.unpack(answer)
            handle = os.pidfd_open(pid)  # the server does not collect it before it forks again
        except BaseException as error:
            os.close(requests)
            os.close(replies)
            if not isinstance(error, OSError):  # an interrupt: an answer may still come, and would be taken for another
                self.close()
            raise
        finally:
            os.close(its_in)
            os.close(its_out)
        return Forked(pid, handle, os.fdopen(requests, "wb"), os.fdopen(replies, "rb"))

    def close(self) -> None:
        """End the server, and its children with it."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _serve(owner: int, connection: socket.socket, become: Become) -> None:
    """Fork for each request, until whoever asks is gone."""
    end_with_parent(owner)
    gc.collect()
    gc.freeze()  # what is here now is shared with all children, and a collector would write to it
    while True:
        request, ends, _, _ = socket.recv_fds(connection, 1, 2)
        if not request:
            os._exit(0)
        with contextlib.suppress(ChildProcessError):  # those that have ended; not before, so that no id comes back
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        server, child = os.getpid(), os.fork()
        if not child:
            end_with_parent(server)
            connection.close()
            become(os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "wb"))
            os._exit(0)
        for end in ends:
            os.close(end)
        connection.send(_PID.pack(child))


def end_with_parent(parent: int | None = None) -> None:
    """Let the system end this process when its parent has ended, or end now if `parent` is not its parent any more.

    Only Linux does so, and a fork does not hand it on.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if parent not in (None, os.getppid()):
        os._exit(1)
