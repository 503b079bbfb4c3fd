"""The grader's side of a box: a kernel manager whose kernel is in one. It is reached by sockets in a private folder."""

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

from autograder.doors.held_folder import HeldFolder
from autograder.measuring.fork_server import ONE_THREAD

from . import memory, rules
from .rules import Rules

START_LIMIT = 120.0  # seconds until the server has imported everything
_BOX_LIMIT = 60.0  # and until a kernel is in its box
_LARGEST = 2**26  # bytes of one message from a kernel; a larger one is not received
_WAITING = 10  # messages that wait to be read; the kernel's side holds the others
# ZeroMQ holds a message until its last part is there, of any number of parts. So the grader looks at itself.
_GROWTH = 2**30  # bytes that it may have more of than when the kernel was started
_TICK = 0.1  # seconds between two looks
_PROGRAMS = (".py", ".pyc", ".pyd", ".so", ".dylib", ".pth", ".cfg", ".toml", ".ini")
_SETTINGS = ("matplotlibrc", "PYTHONSTARTUP")
_HANDED_IN = 100 * 2**20  # bytes of files beside the notebook that come with it


class BoxedKernelManager(AsyncKernelManager):
    """A kernel manager whose kernel is in a box, with a copy of what lies beside the notebook in `folder`.

    linked: whether it can be linked with another kernel, by `send`.
    """

    def __init__(self, box: Rules, folder: Path, *, linked: bool = False, **kwargs):
        self.slot = tempfile.mkdtemp(dir=_server().folder)
        connection = os.path.join(self.slot, "c")
        os.mkdir(connection)
        super().__init__(
            transport="ipc",
            ip=os.path.join(connection, "k"),
            connection_file=os.path.join(connection, "kernel.json"),
            **kwargs,
        )
        self.context.setsockopt(zmq.MAXMSGSIZE, _LARGEST)
        self.context.setsockopt(zmq.RCVHWM, _WAITING)
        self.kernel_id = os.path.basename(self.slot)
        self.keeper = _Provisioner(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)
        self.provisioner = self.keeper
        _copy_files(folder, os.path.join(self.slot, "submitted"), box.programs)
        self.fills = box.compiled if box.compiles else ""
        if box.compiles:  # a box can write nowhere but below the server's folder
            os.mkdir(os.path.join(self.slot, "compiled"))
        self.keeper.request = box.place(self.slot)
        self.keeper.linked = linked

    def send(self, text: bytes, connection: socket.socket) -> None:
        """Hand one end of a connection to the kernel, which looks for it when it is told to. Raises OSError."""
        if self.keeper.boxed is None or self.keeper.boxed.mail is None:
            raise OSError("this kernel cannot be linked with another")
        socket.send_fds(self.keeper.boxed.mail, [text], [connection.fileno()])

    def seal(self) -> None:
        """To be called when the kernel listens, and before the student's first line runs."""
        if self.keeper.boxed is not None:
            self.keeper.boxed.seal()

    @property
    def why_ended(self) -> str:
        """The limit that the box has passed; empty if it has passed none."""
        return self.keeper.boxed.why if self.keeper.boxed is not None else ""


class _Provisioner(LocalProvisioner):
    request: dict[str, Any]
    linked = False
    boxed: "_Boxed | None" = None  # the process, also when it has ended

    async def launch_kernel(self, cmd, **kwargs):
        """As in the parent class, but for the process."""
        arguments = cmd[cmd.index("-m") + 2 :]
        self.boxed = _server().start({**self.request, "arguments": arguments}, self.linked)
        threading.Thread(target=_look_at_own_memory, args=(self.boxed,), daemon=True).start()
        process: Any = self.boxed
        self.process = process
        return self.connection_info

    async def cleanup(self, restart=False):
        """As in the parent class, and nothing is left on the disk."""
        await super().cleanup(restart)
        if self.boxed is not None and self.boxed.mail is not None:
            self.boxed.mail.close()
        if self.parent is not None and not restart:
            if self.parent.fills:  # once: this is called again
                shutil.copytree(os.path.join(self.parent.slot, "compiled"), self.parent.fills, dirs_exist_ok=True)
                self.parent.fills = ""
            shutil.rmtree(self.parent.slot, ignore_errors=True)


def _look_at_own_memory(boxed: "_Boxed") -> None:
    """Until the box has ended: end it where this process holds too much more than now."""
    before = memory.held("/proc/self") or 0
    while boxed.alive:
        if (memory.held("/proc/self") or 0) - before > _GROWTH:
            boxed.why = f"it sent more than {_GROWTH / 2**30:g} GiB at once"
            boxed.kill()
        time.sleep(_TICK)


class _Boxed:
    """What a provisioner asks of a `subprocess.Popen`, of a kernel in a box: its keeper is asked."""

    stdin = stdout = stderr = None

    def __init__(self, lifeline: socket.socket, mail: socket.socket | None):
        self._lifeline, self.mail = lifeline, mail
        self._status: int | None = None
        self.why = ""

    @property
    def alive(self) -> bool:
        """Whether its end has not been heard of; asks nobody."""
        return self._status is None

    def send(self, command: bytes) -> None:
        with contextlib.suppress(OSError):  # the box has ended
            self._lifeline.send(command)

    def seal(self) -> None:
        """Return when nothing in the box can find its sockets."""
        self.send(b"s")
        self._hear(_BOX_LIMIT)

    def _hear(self, seconds: float | None) -> None:
        """Wait for a message: the kernel has ended, or the box is sealed."""
        if self._status is not None:
            return
        self._lifeline.settimeout(seconds)
        try:
            text = self._lifeline.recv(1 << 16)
        except (BlockingIOError, TimeoutError):
            return
        except OSError:
            text = b""
        told = json.loads(text) if text else {}
        if "sealed" in told:
            return
        self._status, self.why = told.get("ended", -signal.SIGKILL), self.why or told.get("why", "")
        self._lifeline.close()

    def poll(self):
        self._hear(0)
        return self._status

    def wait(self, timeout=None):
        self._hear(timeout)
        if self._status is None:
            raise subprocess.TimeoutExpired("kernel", timeout or 0)
        return self._status

    def send_signal(self, number):
        if number == signal.SIGINT:
            self.send(b"i")
        elif number:
            self.kill()

    def kill(self):
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)

    terminate = kill


class _Server:
    """The process that boxed kernels are forked from (see `server`), and the folder in which their slots lie."""

    def __init__(self):
        self.settings = _settings()
        place = tempfile.gettempdir()
        place = place if len(place) < 40 else "/tmp"  # the path of a socket has at most 107 characters
        self._held = HeldFolder("box", place)
        self.folder = self._held.path
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = os.path.join(self.folder, "log")
        command = [*rules.server_command(self.folder), sys.executable, "-m", "autograder.doors.box.server"]
        own = {name: os.environ[name] for name in ("HOME", "MPLCONFIGDIR") if name in os.environ}
        package = str(Path(__file__).parents[3])
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env={**self.settings, **own, **ONE_THREAD, "TMPDIR": self.folder, "PYTHONPATH": package},
                cwd="/",
                start_new_session=True,  # Ctrl-C is the grader's
            )
        theirs.close()
        self._ready = False

    @property
    def alive(self) -> bool:
        return self._process.poll() is None and self.settings == _settings()

    def start(self, request: dict, linked: bool = False) -> _Boxed:
        """Start a kernel in a box. Raises RuntimeError."""
        mail = None
        try:
            self._wait_until_ready()
            lifeline, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with contextlib.ExitStack() as stack:
                descriptors = [stack.enter_context(theirs).fileno()]
                if linked:
                    mail, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    mail.setblocking(False)  # a kernel that does not read is never waited for
                    descriptors.append(stack.enter_context(its_end).fileno())
                socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            lifeline.settimeout(_BOX_LIMIT)
            text = lifeline.recv(1 << 16)
        except OSError as error:
            self.close()
            raise RuntimeError(f"no kernel came into its box: {error}. {self._said()}") from None
        told = json.loads(text) if text else {"failed": self._said()}
        if "ready" not in told:
            raise RuntimeError(f"no kernel came into its box: {told.get('failed') or told.get('why')}")
        return _Boxed(lifeline, mail)

    def _wait_until_ready(self) -> None:
        if not self._ready:
            self._control.settimeout(START_LIMIT)
            if self._control.recv(16) != b"ready":
                raise OSError("the process that kernels are forked from has ended")
            self._ready = True

    def _said(self) -> str:
        with contextlib.suppress(OSError), open(self._log, errors="replace") as log:
            return (log.read().strip().splitlines() or [""])[-1]
        return ""

    def close(self) -> None:
        """End it, and with it every box."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        self._held.close()


_running: _Server | None = None


def _server() -> _Server:
    """The server of this process; another one if the settings have changed, which its imports have read."""
    global _running
    if _running is None or not _running.alive:
        stop()
        _running = _Server()
    return _running


@atexit.register
def stop() -> None:
    """End the server, if there is one."""
    global _running
    if _running is not None:
        _running.close()
        _running = None


def _settings() -> dict[str, str]:
    return {name: value for name, value in rules.environment().items() if name != "NBGRADER_EXECUTION"}


def _copy_files(folder: Path, to: str, programs: bool) -> None:
    """Copy what lies in a submission's folder, but for notebooks, which hold hidden tests, and for links.

    Without `programs`, modules and settings that a Python started there would read stay behind, too.
    """
    os.mkdir(to)
    left = _HANDED_IN
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(place, name))]
        inside = os.path.join(to, os.path.relpath(place, folder))
        os.makedirs(inside, exist_ok=True)
        for name in files:
            path = os.path.join(place, name)
            if name.endswith(".ipynb") or os.path.islink(path) or not os.path.isfile(path):
                continue
            if not programs and (name.endswith(_PROGRAMS) or name in _SETTINGS):
                continue
            size = os.path.getsize(path)
            if size <= left:
                left -= size
                shutil.copyfile(path, os.path.join(inside, name))
