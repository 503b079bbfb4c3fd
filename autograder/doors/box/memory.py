"""How much memory a process or a thread holds, as Linux says it."""

import contextlib

# Of /proc/*/status: what is in no file of the disk, tables of pages and what was swapped included.
_COUNTED = (b"RssAnon:", b"RssShmem:", b"VmPTE:", b"VmSwap:")


def held(folder: str) -> int | None:
    """The bytes that are its own, or that it shares with others through no file of the disk; None if it has ended.

    folder: of the process or the thread, such as "/proc/self".
    """
    with contextlib.suppress(OSError), open(f"{folder}/status", "rb") as file:
        lines = [line for line in file if line.startswith(_COUNTED)]
        return sum(int(line.split()[1]) * 1024 for line in lines) if lines else None
    return None
