"""Folders for temporary files that are gone in the end, however the process ends that made them."""

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_PREFIX = "just-in-time-"
_MARK = "held"


class HeldFolder:
    """A folder of this process, to be closed, or `with HeldFolder(kind) as path:`, which removes it.

    If the process is killed, the next one that makes such a folder, of whatever kind, removes what is left: nobody
    holds it any more. Where there are no locks (Windows, some network drives) a killed process leaves its folder.

    Arguments:
      kind: a word for what is in it, which becomes a part of its name.
      place: in which folder; the system's for temporary files if not said.
    """

    def __init__(self, kind: str, place: str | None = None):
        place = place or tempfile.gettempdir()
        _remove_left_over(place)
        self._whole = tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-", dir=place)
        self._file = -1
        if sys.platform != "win32":
            self._file = os.open(self._whole, os.O_RDONLY)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_EX)  # as long as this process lives
                # From now on it can be told from one that is just being made and has no lock yet.
                Path(self._whole, _MARK).touch()
        self.path = os.path.join(self._whole, "in")
        os.mkdir(self.path)

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self._whole, ignore_errors=True)
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def __enter__(self) -> Path:
        return Path(self.path)

    def __exit__(self, *exception) -> None:
        self.close()


def _remove_left_over(place: str) -> None:
    if sys.platform == "win32":
        return
    for folder in (mark.parent for mark in Path(place).glob(f"{_PREFIX}*/{_MARK}")):
        with contextlib.suppress(OSError):  # another's, or held
            handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(handle).st_uid == os.geteuid():
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)
