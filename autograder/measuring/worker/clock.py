"""T*: the clock of the speed verdict.

T* is the wall time minus the time in which the work was ready to run and the system ran something else. Linux
counts the latter for each thread: the second field of `/proc/<pid>/schedstat`, nanoseconds, no privilege needed.
Sleeping, waiting and input/output still count, unlike in CPU time; only being pushed off the core does not. It is
right as long as the work is done on one core by threads that are watched, one after the other. That is how the
bench is set up; but XLA hands some operations to a thread of its own pool, so the clock of a function also watches
the threads that were seen to work for it.

Where the counter does not exist (macOS, Windows, a kernel without CONFIG_SCHED_INFO), T* is the wall time; blocks
must then be longer, so that an interruption is a small part of each.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

_BLOCK = {True: 300_000, False: 20_000_000}  # nanoseconds, by whether run delay is taken out


class Reading(NamedTuple):
    """A point in time, in nanoseconds: the wall clock, all watched threads' run delay, and the processes' running time.

    The running time is kept only where there are helpers.
    """

    wall: int
    delay: int
    running: int = 0


def parse(text: bytes) -> tuple[int, int]:
    """(time on a core, run delay) in nanoseconds, from the text of a schedstat file: "running waiting slices"."""
    running, waiting, _slices = text.split()
    if int(running) == 0:
        raise ValueError("this kernel does not keep scheduler statistics")
    return int(running), int(waiting)


class Clock:
    """Reads T* of the calling thread and of `helpers`, threads that work while it waits: (process, thread) ids.

    `scheduled` says whether run delay is taken out; `block` is the shortest block worth timing, in nanoseconds.
    """

    def __init__(self, *helpers: tuple[int, int], wall_only: bool = False):
        paths = ["/proc/thread-self/schedstat", *(f"/proc/{pid}/task/{tid}/schedstat" for pid, tid in helpers)]
        self._others = {pid for pid, _ in helpers} - {os.getpid()}
        self._files: list[int] = []
        self._delays = [0] * len(paths)
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

    def _counters(self) -> list[int]:
        """The run delay of each watched thread; of one that has ended, what it was when it was last read."""
        for place, file in enumerate(self._files):
            with contextlib.suppress(ProcessLookupError):
                self._delays[place] = parse(os.pread(file, 96, 0))[1]
        return [*self._delays]

    def read(self) -> Reading:
        """All counters at one moment: read again if the thread was interrupted between them."""
        before = self._counters()
        while True:
            wall = time.perf_counter_ns()
            running = time.process_time_ns() + sum(map(_process_time, self._others)) if len(self._files) > 1 else 0
            after = self._counters()
            if after == before:
                return Reading(wall, sum(after), running)
            before = after


def elapsed(start: Reading, stop: Reading) -> int:
    """Nanoseconds of T* between two readings, at least 1.

    A thread that has woken a helper may itself be pushed off the core by it; its run delay is then the helper's
    running time, and must not be taken out. Hence the time that their processes ran is the least that has passed, those
    of their threads included that nobody watches, or that have ended.
    """
    return max(1, stop.wall - start.wall - (stop.delay - start.delay), stop.running - start.running)


class ProcessClock(Clock):
    """Reads T* of the calling thread while it waits for another process, all of whose threads may work.

    Which threads there will be is not known before they are there. Two of them that wait for each other on the one core
    are both delayed in the same time, so too much is taken out; `elapsed` is then the time that all of them ran.
    """

    def __init__(self, pid: int, wall_only: bool = False):
        super().__init__(wall_only=wall_only)
        self._pid = pid

    def read(self) -> Reading:
        """The counters one after the other: what is timed takes a thousand times as long as reading them."""
        if not self.scheduled:
            return Reading(time.perf_counter_ns(), 0)
        found = _threads(self._pid).values()
        running = _process_time(self._pid) + time.thread_time_ns()
        return Reading(time.perf_counter_ns(), sum(self._counters()) + sum(waited for _, waited in found), running)


def _process_time(pid: int) -> int:
    """How long all threads of a process have run, in nanoseconds, those that have ended included; 0 for none."""
    with contextlib.suppress(OSError):  # it is no more
        return time.clock_gettime_ns((~pid << 3) | 2)  # as clock_getcpuclockid(3) names it: CPUCLOCK_SCHED
    return 0


def workers(pid: int) -> dict[tuple[int, int], int]:
    """How long each thread of a process has run, in nanoseconds; empty where the system does not say."""
    return {thread: ran for thread, (ran, _) in _threads(pid).items()}


def _threads(pid: int) -> dict[tuple[int, int], tuple[int, int]]:
    """(time on a core, run delay) of each thread of a process, in nanoseconds."""
    found = {}
    for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):  # a thread that ends, or has not run yet
            found[pid, int(schedstat.parent.name)] = parse(schedstat.read_bytes())
    return found


def give_way() -> None:
    """Let others run now, so that what follows starts on a fresh time slice."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
