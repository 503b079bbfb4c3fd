"""The keeper's side of the full box: bubblewrap makes it, and the keeper comes into it from outside."""

import contextlib
import json
import os
import signal
import subprocess

from autograder.doors.box import calls, namespaces


class Full:
    """A box in which only `cat` runs, as its first process, until a kernel is born there. Raises RuntimeError, OSError.

    The keeper is in it with this process, and yet no process of it: nothing in the box can see it or send it a signal.
    """

    def __init__(self, request: dict):
        self._connection = request["connection"]
        self._refuses = not calls.why_not()  # from inside, the library could not be loaded
        reading, writing = os.pipe()
        self._box = subprocess.Popen(
            [*request["box"], "--as-pid-1", "--info-fd", str(writing), "--", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[writing],
            bufsize=0,
        )
        assert self._box.stdin and self._box.stdout and self._box.stderr
        os.close(writing)
        with contextlib.suppress(BrokenPipeError):
            self._box.stdin.write(b"\n")
        if self._box.stdout.read(1) != b"\n":  # it answers when everything is in its place
            raise RuntimeError(self._box.stderr.read().decode(errors="replace").strip())
        self._box.stderr.close()
        with open(reading) as info:
            inside = json.load(info)["child-pid"]
        self._user_namespace = namespaces.enter(inside)

    def confine(self) -> None:
        """To be called in the kernel's process, which is born in the box: it gives up what the keeper may."""
        namespaces.renounce(self._user_namespace)
        if self._refuses:
            calls.refuse_what_no_namespace_holds()

    def processes(self, kernel: int) -> list[int]:
        """Those of the box."""
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]

    def overfull(self, kernel: int) -> str:
        """Empty: its files lie in memory, and the system holds them to their limit. Files in no folder are refused."""
        return ""

    def interrupt(self, kernel: int) -> None:
        """As the interrupt key does."""
        os.killpg(kernel, signal.SIGINT)

    def seal(self) -> None:
        """From now on nothing in it can find its sockets: who talks to the kernel runs what nobody has read."""
        namespaces.hide(self._connection)

    def end(self, kernel: int) -> None:
        """End every process of it."""
        self._box.kill()
        self._box.wait()
