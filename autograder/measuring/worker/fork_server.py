"""The fork server: a process that has imported JAX, has started no backend, and forks whenever it is asked.

A process that begins with nothing needs a second before it can call a function of JAX, nearly all of it for imports; a
forked one needs a few hundredths. A backend has threads, which do not survive a fork: each child starts its own.

The measuring process holds a `ForkServer`; in the server itself `serve` runs. For each request it receives two ends of
pipes, through which its child is then spoken to like any other guest.
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
from io import BufferedReader, BufferedWriter
from typing import IO

AVAILABLE = sys.platform == "linux"  # elsewhere the libraries that JAX stands on need not survive a fork
_PID = struct.Struct(">I")


class ForkServer:
    """A fork server, started like this process: by `script`, with `arguments`."""

    def __init__(self, script: str, arguments: list[str]):
        self._socket, its = socket.socketpair()
        command = [sys.executable, "-P", script, "--fork-server", *arguments]
        null = subprocess.DEVNULL
        with its:
            self.process = subprocess.Popen(command, stdin=its.fileno(), stdout=null, stderr=null)

    def fork(self) -> tuple[int, IO[bytes], IO[bytes]]:
        """(the process id of a new child, what it reads, what it writes). Raises OSError if the server has ended."""
        its_in, requests = os.pipe()
        replies, its_out = os.pipe()
        try:
            socket.send_fds(self._socket, [b"?"], [its_in, its_out])
            answer = self._socket.recv(_PID.size)
            if len(answer) < _PID.size:
                raise ConnectionResetError("the fork server has ended")
        except OSError:
            os.close(requests)
            os.close(replies)
            raise
        finally:
            os.close(its_in)
            os.close(its_out)
        return _PID.unpack(answer)[0], os.fdopen(requests, "wb"), os.fdopen(replies, "rb")

    def close(self) -> None:
        """End the server; its children end with it."""
        self._socket.close()
        self.process.kill()
        self.process.wait()


def serve(connection: socket.socket) -> tuple[BufferedReader, BufferedWriter]:
    """Fork for each request. Returns in the children only, each with its streams; the server ends with its client."""
    while True:
        request, ends, _, _ = socket.recv_fds(connection, 1, 2)
        if not request:
            os._exit(0)
        with contextlib.suppress(ChildProcessError):  # those that have ended; not before, so that no id comes back
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        child = os.fork()
        if not child:
            connection.close()
            return os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "wb")
        for end in ends:
            os.close(end)
        connection.send(_PID.pack(child))


def end(child: int) -> None:
    """End a child of the fork server."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
