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
        self._looks = 0
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
        sizes = {}
        for place, _, files in os.walk(self._folder):
            for name in files:
                with contextlib.suppress(OSError):
                    found = os.lstat(os.path.join(place, name))
                    sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
        for process in _group(kernel):
            with contextlib.suppress(OSError):
                for number in os.listdir(f"/proc/{process}/fd"):
                    with contextlib.suppress(OSError):
                        found = os.stat(f"/proc/{process}/fd/{number}")
                        if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                            sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
        if sum(sizes.values()) > self._disk:
            return f"it wrote more than {self._disk / 2**30:g} GiB of files"
        return ""

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
