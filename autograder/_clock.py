"""T*: the clock of the speed verdict.

T* is the wall time minus the time in which a thread was ready to run and the system ran something else.
Linux counts the latter for each thread: the second field of `/proc/<pid>/schedstat`, nanoseconds, no privilege
needed. Sleeping, waiting and input/output still count, unlike in CPU time; only being pushed off the core does
not. It is right as long as the work is done by the threads it watches, one after the other, on one core, which
is how the bench is set up.

Where the counter does not exist (macOS, Windows, a kernel without CONFIG_SCHED_INFO), T* is the wall time; blocks
must then be longer, so that an interruption is a small part of each.
"""

import os
import time
from typing import NamedTuple

_BLOCK = {True: 300_000, False: 20_000_000}  # nanoseconds, by whether run delay is taken out


class Reading(NamedTuple):
    """A point in time, in nanoseconds: the wall clock, the run delay, and the time a guest has been running."""

    wall: int
    delay: int
    guest: int = 0


def parse(text: bytes) -> tuple[int, int]:
    """(time on a core, run delay) in nanoseconds, from the text of a schedstat file: "running waiting slices"."""
    running, waiting, _slices = text.split()
    if int(running) == 0:
        raise ValueError("this kernel does not keep scheduler statistics")
    return int(running), int(waiting)


class Clock:
    """Reads T* of the calling thread, or of the main thread of a `guest` process that it waits for.

    `scheduled` says whether run delay is taken out; `block` is the shortest block worth timing, in nanoseconds.
    """

    def __init__(self, guest: int | None = None, wall_only: bool = False):
        paths = ["/proc/thread-self/schedstat", *([f"/proc/{guest}/schedstat"] if guest else [])]
        self._files: list[int] = []
        try:
            if not wall_only:
                self._files = [os.open(path, os.O_RDONLY) for path in paths]
                self._counters()
        except (OSError, ValueError):
            self.close()
        self.scheduled = bool(self._files)
        self.block = _BLOCK[self.scheduled]

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []

    def _counters(self) -> tuple[int, int]:
        """(run delay of all threads that are watched, running time of the guest)."""
        counters = [parse(os.pread(file, 96, 0)) for file in self._files]
        return sum(delay for _, delay in counters), counters[1][0] if len(counters) > 1 else 0

    def read(self) -> Reading:
        """All counters at one moment: read again if the thread was interrupted between them."""
        before = self._counters()
        while True:
            wall = time.perf_counter_ns()
            after = self._counters()
            if after == before:
                return Reading(wall, *after)
            before = after


def elapsed(start: Reading, stop: Reading) -> int:
    """Nanoseconds of T* between two readings, at least 1.

    A thread that has woken its guest may itself be pushed off the core by it; its run delay is then the guest's
    running time, and must not be taken out. Hence the running time of the guest is the least that has passed.
    """
    return max(1, stop.wall - start.wall - (stop.delay - start.delay), stop.guest - start.guest)


def give_way() -> None:
    """Let others run now, so that what follows starts on a fresh time slice."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
