"""The yardstick of the speed verdict: a plain loop, which takes longer when the core itself runs slowly.

A core is often one of two hardware threads that share its units. While the other one works, for another program or
for another customer of the same machine, all code here takes longer, up to twice as long, and not all code alike: so
the ratio of two functions is another one. The thread never waits for its core then, and T* does not see it. A loop
whose fastest time is known does.
"""

from collections.abc import Callable

from .clock import Clock, elapsed

SLOW = 1.4  # times as long as at its best: the other thread makes it 1.5 to 2, a change of frequency less
TURNS = 5000  # of the loop: 0.05 to 0.2 ms
READINGS = 3


class Yardstick:
    """How fast the core is now, compared with the best that this process has seen of it.

    A new process knows nothing better than now. So a core that has become slow for good, because it is hot, costs one
    verdict its answer: the processes that found none are ended.
    """

    def __init__(self, measure: Callable[[], float] | None = None):
        self._clock = Clock()
        self._measure = measure or self._loop
        self._best = self._measure()

    def slow(self) -> bool:
        """Whether the loop takes more than `SLOW` times as long as it did at its fastest."""
        now = self._measure()
        self._best = min(self._best, now)
        return now > SLOW * self._best

    def _loop(self) -> float:
        """Nanoseconds of T*; the best of a few readings, because one may be interrupted."""
        taken = []
        for _ in range(READINGS):
            start = self._clock.read()
            for _ in range(TURNS):
                pass
            taken.append(elapsed(start, self._clock.read()))
        return min(taken)
