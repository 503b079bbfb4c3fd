"""Who computes where on a machine, so that no measured time is shared.

Whoever runs a submission holds one core of the machine meanwhile, and all that is started stays there: the kernel, its
box, the measuring process. So two kernels never compute on one core, and a verdict is the same beside other workers as
alone. What else two cores may share is held by locks while a cell runs whose points depend on the clock: the core
itself, where a processor shows each of its cores twice (hyper-threads) and where the writer of the grades has work to
do, and a GPU or TPU.

The locks are files that are held, in the system's folder for temporary files. The system lets go of them when a process
ends, however it ends, and they count for every grader of this machine, whoever started it.
"""

import contextlib
import glob
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_DEVICES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/accel[0-9]*", "/dev/vfio/[0-9]*")
_LOOKS = 0.5  # seconds between two looks for a core that is free

_last = -1  # the core that this process had: what it has started is there


class Core:
    """A core of this machine. `number` is the system's; `-1` where processes cannot be kept to a core."""

    def __init__(self, number: int, devices: bool):
        self.number = number
        # In one order for everybody, so that nobody waits for somebody who waits for him.
        self._shares = [_Shared(name) for name in ([f"core-{physical(number)}"] + ["device"] * devices)]

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """A block in which this process computes. It waits while another's measured time uses the same core."""
        self._take(alone=False)
        try:
            yield
        finally:
            self._leave()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Within a block of `busy`: nobody else who keeps to these rules uses the core, or the devices."""
        self._leave()  # all of it before anything is waited for: others may wait for us
        self._take(alone=True)
        try:
            yield
        finally:
            self._leave()
            self._take(alone=False)

    def close(self) -> None:
        """Let go of everything."""
        for share in self._shares:
            share.close()

    def _take(self, alone: bool) -> None:
        for share in self._shares:
            share.take(alone)

    def _leave(self) -> None:
        for share in self._shares:
            share.leave()

    @contextlib.contextmanager
    def kept_to(self) -> Iterator[None]:
        """A block in which this thread stays on the core; all that it starts there does so for good."""
        if self.number < 0:
            yield
            return
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.number})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)


def usable() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def physical(number: int) -> str:
    """A name for the core of the processor that the system shows as this one, and perhaps as another one, too."""
    try:
        return Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(number)


@contextlib.contextmanager
def own_core(devices: bool = False) -> Iterator[Core]:
    """A block in which this process holds a core, the one that it had before if it can; it waits until one is free.

    Arguments:
      devices: whether students' code may use a GPU or a TPU.
    """
    global _last
    file, _last = _take()
    core = _core(_last, devices)
    try:
        yield core
    finally:
        core.close()
        os.close(file)


def last_core() -> int:
    """The number of the core that this process had last; -1 if it had none."""
    return _last


def has_devices() -> bool:
    """Whether this machine has a GPU or a TPU."""
    return any(glob.glob(pattern) for pattern in _DEVICES)


def _take() -> tuple[int, int]:
    """The file that is held, and the core's number."""
    numbers = sorted(usable(), key=lambda number: number != _last)
    files = {number: _open(f"worker-{number}") for number in numbers}
    while True:
        for number, file in files.items():
            if _hold(file, alone=True, waits=False):
                for other in files.values():
                    if other != file:
                        os.close(other)
                return file, number
        time.sleep(_LOOKS)


@contextlib.contextmanager
def writers_core() -> Iterator[Core]:
    """A core for the process that writes grades; a worker may hold it, too, and they keep out of each other's way."""
    core = _core(usable()[0], devices=False)
    try:
        yield core
    finally:
        core.close()


def _core(number: int, devices: bool) -> Core:
    """Where processes cannot be kept to a core, all of them share one name."""
    return Core(number if hasattr(os, "sched_setaffinity") else -1, devices)


class _Shared:
    """What many may use together, and one alone. Whoever waits to be alone is next: others queue behind him."""

    def __init__(self, name: str):
        self._file, self._queue = _open(name), _open(f"{name}-queue")

    def take(self, alone: bool) -> None:
        _hold(self._queue, True)
        _hold(self._file, alone)
        _let_go(self._queue)

    def leave(self) -> None:
        _let_go(self._file)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._queue)


def _hold(file: int, alone: bool, waits: bool = True) -> bool:
    """Hold a file, alone or together with others. Returns whether it is held; where it waits, it is."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if waits else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _let_go(file: int) -> None:
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_UN)


def _open(name: str) -> int:
    folder = Path(tempfile.gettempdir(), "just-in-time-cores")
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)  # every user's graders meet here
    path = folder / name
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY)  # another user's file may be held, and not be made again
    return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
