"""A clock for showing, in this process. Points never depend on it: that is what `speedup` is for."""

import gc
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from autograder.wording import count

from .trace_log import trace_log

_SHORTEST_ROUND = 1e-3  # seconds: a thousand times what it costs to read the clock, and more


@dataclass(frozen=True)
class Timing:
    """Seconds of wall time. `rounds` holds the mean time of one call in each round; `low` and `high` its quartiles."""

    first: float
    rounds: list[float]
    calls: int  # in each round
    compiles: int  # XLA modules built in the first call

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def low(self) -> float:
        return self._quartile(0)

    @property
    def high(self) -> float:
        return self._quartile(2)

    def _quartile(self, which: int) -> float:
        if len(self.rounds) == 1:
            return self.rounds[0]
        return statistics.quantiles(self.rounds, n=4, method="inclusive")[which]

    def __str__(self) -> str:
        first = seconds(self.first) + ("" if self.compiles else " (nothing was compiled)")
        scale, unit = _scale(self.median)
        low, median, high = (f"{t * scale:.3g}" for t in (self.low, self.median, self.high))
        return f"first {first}, then {median} {unit} a call ({low} to {high}, {count(len(self.rounds), 'round')})"

    __repr__ = __str__


def benchmark(fn: Callable, *args: Any, rounds: int = 15) -> Timing:
    """Time `fn(*args)` in this process: the first call by itself, then `rounds` rounds of further calls.

    fn      any function, jitted or not; a donated argument would be gone in its second call.
    args    its arguments, the same in every call.
    rounds  how many rounds are timed; a round repeats a short call until it lasts a millisecond at least, so that the
            clock's own cost does not show.

    Returns a `Timing`, in seconds of wall time: `first` of the first call; `rounds`, the mean time of a call in each
    round, with `median`, `low` and `high` (their quartiles). Besides, `calls` is the number of calls in a round and
    `compiles` that of the XLA modules built in the first call. The first call includes whatever tracing and compiling
    it causes; if `fn` was called before with such arguments, that is nothing, and `str()` says so.

    Every call is awaited, on every leaf of its result, because JAX returns before the work is done. Raises ValueError
    for fewer than one round.

    Source: https://docs.jax.dev/en/latest/async_dispatch.html.
    """
    if rounds < 1:
        raise ValueError(f"benchmark needs at least one round, got {rounds}")

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(fn(*args))
        return time.perf_counter() - start

    jax.block_until_ready(args)
    # Listening costs nothing while nothing is compiled, so the first call can be watched and timed at once.
    with trace_log() as log:
        first = run(1)

    calls = 1
    while (elapsed := run(calls)) < _SHORTEST_ROUND:
        calls = max(2 * calls, math.ceil(calls * _SHORTEST_ROUND / max(elapsed, 1e-9)))

    collecting = gc.isenabled()
    gc.disable()  # as timeit does: a collection in one round would be charged to `fn`
    try:
        times = [run(calls) / calls for _ in range(rounds)]
    finally:
        if collecting:
            gc.enable()
    return Timing(first, times, calls, log.compiles)


def seconds(value: float) -> str:
    """A duration in the unit that suits it: "31.2 ms"."""
    scale, unit = _scale(value)
    return f"{value * scale:.3g} {unit}"


def _scale(value: float) -> tuple[float, str]:
    if value >= 1:
        return 1, "s"
    # 210 microseconds read better as 0.21 ms, beside a first call of some milliseconds.
    return (1e3, "ms") if value >= 1e-4 else (1e6, "µs")
