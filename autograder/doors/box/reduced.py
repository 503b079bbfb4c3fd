"""The reduced box, where no namespaces are to be had: Landlock, refused system calls, limits, and a keeper who watches.

Nothing of the system is hidden from its processes; they are refused it. They are one group of processes and cannot
leave it (see `calls`), so they can be counted, and ended at one blow. What they write lies in a folder of their own on
the disk, which the keeper watches and removes. `autograder/THREATS.md` says what it does not hold.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from autograder.doors.box import calls, landlock, namespaces
from autograder.doors.box.landlock import Access

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # of prctl
_LOOKS = 5  # every so many looks at memory and processes, one at the files
_LEAST = 4096  # bytes that any file takes, an empty one too
_DEEPEST = 100  # folders in a folder
_AS_A_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def why_not() -> str:
    """Why no reduced box can be made here, as one line; empty if one can be made."""
    if landlock.abi() < landlock.LEAST:
        return "Linux has no Landlock, or too old a one (6.2 or later is needed, with `landlock` among its `lsm`)"
    return calls.why_not()


def lacks() -> list[str]:
    """What another process of this user has to fear here, and what can be seen."""
    seen = ["the names of other processes and of files can be seen"]
    signals = "other processes of this user can be sent signals (Linux 6.12 or later forbids it)"
    return seen if landlock.abi() >= landlock.SCOPES else [signals, *seen]


def grants(shown: set[Path], hidden: set[Path], devices: tuple[str, ...]) -> list[tuple[str, int]]:
    """What may be done with which files of this machine's, for `landlock.confine`."""
    # /proc: a process learns its own times there. Of others it shows their names; Landlock forbids what tells more.
    shown = shown | {Path("/proc")} | ({Path("/sys")} if devices else set())
    hidden = {path.resolve() for path in hidden}
    granted = [grant for path in sorted({path.resolve() for path in shown}) for grant in _without(path, hidden)]
    return [*granted, *((device, int(Access.OF_A_DEVICE)) for device in (*_DEVICES, *devices))]


def _without(path: Path, hidden: set[Path]) -> Iterator[tuple[str, int]]:
    """All of a folder but what is hidden below it. Rules only grant: so its parts are named; all can be listed."""
    if path in hidden:
        return
    if not any(place.is_relative_to(path) for place in hidden):
        yield str(path), int(Access.READ)
        return
    yield str(path), int(Access.READ_DIR)
    for part in sorted(path.iterdir()):
        if not part.is_symlink():  # a rule is for what it leads to
            yield from _without(part, hidden)


class Reduced:
    """A folder for a kernel and what it is granted. The keeper stays outside. Raises OSError."""

    def __init__(self, request: dict):
        self._granted, self._folder, self._disk = request["granted"], request["folder"], request["limits"]["disk"]
        self._connection, self._looks = request["connection"], 0
        self._hiding: set[int] = set()  # processes whose open files could not be seen in the last look
        calls.why_not()  # once confined, the process could not load the library
        shutil.copytree(request["submitted"], request["work"])
        # Whoever loses its parent in the box becomes the keeper's child; and the keeper, told to end, ends the box.
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGTERM, _stop)
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
        # Elsewhere this limit is the box's; here it is the user's, with all that runs already.
        request["limits"]["threads"] = _threads_of_this_user()

    def confine(self) -> None:
        """To be called in the kernel's process: from now on it, and what it starts, is held to the rules."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        namespaces.end_with_the_parent()
        namespaces.renounce(-1)
        landlock.confine(self._granted)
        calls.refuse()

    def processes(self, kernel: int) -> list[int]:
        """Those of the box: none of them can leave the kernel's group."""
        return list(_group(kernel))

    def overfull(self, kernel: int) -> str:
        """The limit that its files have passed together; those count, too, that are open and have no name any more."""
        self._looks += 1
        if self._looks % _LOOKS:
            return ""
        found = _Sizes(self._disk)
        try:
            for folder in (self._folder, self._connection):
                found.add_folder(os.open(folder, _AS_A_FOLDER))
            hiding = {process for process in _group(kernel) if not found.add_open(process)}
        except _TooMuch as why:
            return str(why)
        hidden, self._hiding = hiding & self._hiding, hiding  # what has just begun or ended is seen in the next look
        return "it hid its open files" if hidden else ""

    def interrupt(self, kernel: int) -> None:
        """As the interrupt key does, which is the kernel's: what measures is in its group here, and is not meant."""
        os.kill(kernel, signal.SIGINT)

    def seal(self) -> None:
        """Nothing to be done: where its sockets are, it can make new ones from the beginning, and remove none."""

    def end(self, kernel: int) -> None:
        """End every process of it, wait for them, and remove its folder."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if kernel:  # its number is taken until it is waited for
            os.kill(kernel, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):  # it had no group yet
                os.killpg(kernel, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        # Folders without rights, or one in the other a thousand times, are more than `shutil.rmtree` can remove.
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", self._folder], stderr=subprocess.DEVNULL)


class _TooMuch(Exception):
    """A limit that files have passed."""


class _Sizes:
    """The files that were found, each once, and the bytes that they take on the disk. Raises `_TooMuch`."""

    def __init__(self, most: int):
        self._most, self._sum = most, 0
        self._known: set[tuple[int, int]] = set()

    def _add(self, found: os.stat_result) -> None:
        if (found.st_dev, found.st_ino) not in self._known:
            self._known.add((found.st_dev, found.st_ino))
            self._sum += max(found.st_blocks * 512, _LEAST)
        if self._sum > self._most:
            raise _TooMuch(f"it wrote more than {self._most / 2**30:g} GiB of files")

    def add_folder(self, descriptor: int, deep: int = 0) -> None:
        """All that is below it, and itself. The descriptor is closed."""
        try:
            self._add(os.fstat(descriptor))
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it is gone, or another one
                        self._add(entry.stat(follow_symlinks=False))
                        if entry.is_dir(follow_symlinks=False):
                            if deep == _DEEPEST:
                                raise _TooMuch(f"it made folders in folders, more than {_DEEPEST}")
                            self.add_folder(os.open(entry.name, _AS_A_FOLDER, dir_fd=descriptor), deep + 1)
        except PermissionError:
            raise _TooMuch("it hid a folder of its own") from None
        finally:
            os.close(descriptor)

    def add_open(self, process: int) -> bool:
        """What a process has open that has no name; False if that cannot be seen. All its threads have the same."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            for thread in os.listdir(f"/proc/{process}/task"):
                folder = f"/proc/{process}/task/{thread}"
                try:
                    numbers = os.listdir(f"{folder}/fd")
                except PermissionError:
                    if _has_ended(folder):
                        continue
                    return False
                for number in numbers:
                    with contextlib.suppress(OSError):
                        found = os.stat(f"{folder}/fd/{number}")
                        if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                            self._add(found)
                break
        return True


def _has_ended(folder: str) -> bool:
    with open(f"{folder}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] in b"ZX"


def _stop(number: int, frame: object) -> None:
    raise SystemExit


def _group(kernel: int) -> Iterator[int]:
    for name in os.listdir("/proc"):
        with contextlib.suppress(ValueError, ProcessLookupError):
            if os.getpgid(int(name)) == kernel:
                yield int(name)


def _threads_of_this_user() -> int:
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count
