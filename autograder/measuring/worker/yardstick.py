"""The yardstick of the speed verdict: a plain loop, which takes longer when the core itself runs slowly.

A core is often one of two hardware threads that share its units. While the other one works, for another program or
for another customer of the same machine, all code here takes longer, up to twice as long, and not all code alike: so
the ratio of two functions is another one. The thread never waits for its core then, and T* does not see it. A loop
whose fastest time is known does.
"""

from collections.abc import Callable

from autograder.measuring.verdict import SLOW

from .clock import Clock, elapsed

TURNS = 5000  # of the loop: 0.05 to 0.2 ms
READINGS = 3


class Yardstick:
    """How fast the core is now, compared with the best that is known of it.

    `lowest` is what the loop took at least, in nanoseconds, since `begin`; 0 before it was timed.
    """

    def __init__(self, measure: Callable[[], float] | None = None):
        self._clock = Clock()
        self._measure = measure or self._loop
        self._best = self._measure()
        self.lowest = 0.0

    def begin(self, known: float) -> None:
        """Take what an earlier process on this core has seen for as good as seen; 0 where there was none."""
        self._best = min(self._best, known or self._best)
        self.lowest = 0.0

    def slow(self) -> bool:
        """Whether the loop takes more than `SLOW` times as long as it did at its fastest."""
        now = self._measure()
        self.lowest = min(now, self.lowest or now)
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
