"""One process at a time in a folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock in this block; whoever else asks for it waits. It ends with the process.

    Where there are no locks (Windows, some network drives) nobody waits. Raises OSError if there is no such folder.
    """
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
