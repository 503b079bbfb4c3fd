"""`roofline`: the limits of this machine, measured from JAX itself.

Three limits, each measured in the measuring process and on its clock:

- memory bandwidth: `x + 1` with a donated buffer, so that no page is touched for the first time. It depends on
  the size of the data (caches), and is measured at the size asked for;
- arithmetic: a float32 matrix product of 768 x 768;
- dispatch: the time of a jitted call that does nothing.

The shortest possible time of a call is max(bytes / bandwidth, operations / arithmetic) + dispatch.
"""

import math
from dataclasses import dataclass

from autograder.measuring.wire.messages import Limits, MeasureLimits, Rate, expect

from . import bench

_SMALLEST, _LARGEST = 2**12, 2**27


@dataclass(frozen=True, repr=False)
class Roofline:
    """The limits of one device. `bandwidth` in bytes/s, `arithmetic` in operations/s, `dispatch` in calls/s."""

    device: str
    bytes: int
    bandwidth: Rate
    arithmetic: Rate
    dispatch: Rate

    def limit(self, moved: float, operations: float) -> tuple[float, str]:
        """(the shortest possible seconds of a call, what binds it: "memory bandwidth", "arithmetic", "dispatch")."""
        parts = {
            "memory bandwidth": moved / self.bandwidth.median,
            "arithmetic": operations / self.arithmetic.median,
        }
        work = max(parts.values())
        dispatch = 1 / self.dispatch.median
        binds = "dispatch" if dispatch > work else max(parts, key=parts.__getitem__)
        return work + dispatch, binds

    def __str__(self) -> str:
        def spread(rate: Rate, unit: float) -> str:
            return f"{rate.median / unit:.3g} ({rate.low / unit:.3g} to {rate.high / unit:.3g})"

        call = Rate(*(1e6 / rate for rate in (self.dispatch.median, self.dispatch.high, self.dispatch.low)))
        unit, cores = ("GFLOP/s", ", one core") if self.device == "cpu" else ("TFLOP/s", "")
        return (
            f"{self.device}{cores}: {spread(self.bandwidth, 1e9)} GB/s over {self.bytes / 1e6:.3g} MB, "
            f"{spread(self.arithmetic, 1e9 if cores else 1e12)} {unit} in a float32 matrix product, "
            f"{spread(call, 1)} µs to dispatch a call"
        )

    __repr__ = __str__


_cache: dict[tuple[int, int], Roofline] = {}


def roofline(size: int = _LARGEST, *, seconds: float = 1.0) -> Roofline:
    """Measure the limits of this machine: how fast it moves data, multiplies matrices, and dispatches a call.

    size     bytes of the data, read and written together; taken to the nearest power of two from 4 KiB to 128 MiB.
    seconds  how long to measure, about.

    Returns a `Roofline`: `bandwidth` in bytes/s at that size, `arithmetic` in operations/s of a float32 matrix product,
    `dispatch` in calls/s, each a `Rate` with its median and the quartiles `low` and `high`. `limit(moved, operations)`
    is the shortest possible time of a call in seconds, and what binds it. The answer is kept as long as the measuring
    process lives, one for each power of two. Raises `BenchTimeout` or `BenchDied` when that process does not answer.

    Source: Williams, Waterman and Patterson, "Roofline", https://doi.org/10.1145/1498765.1498785; here the time of a
    dispatch is added.
    """
    size = 2 ** round(math.log2(min(max(size, _SMALLEST), _LARGEST)))
    key = (size, bench.current().number)
    if key not in _cache:
        reply = bench.current().ask(MeasureLimits(size, seconds), limit=60 + 10 * seconds)
        limits = expect(reply, Limits)
        _cache[key] = Roofline(limits.device, size, limits.bandwidth, limits.arithmetic, limits.dispatch)
    return _cache[key]
