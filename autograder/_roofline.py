"""`roofline`: the limits of this machine, measured from JAX itself.

Three limits, each measured in the measuring process and on its clock:

- memory bandwidth: `x + 1` with a donated buffer, so that no page is touched for the first time. It depends on
  the size of the data (caches), and is measured at the size asked for;
- arithmetic: a float32 matrix product of 768 x 768;
- dispatch: the time of a jitted call that does nothing.

The shortest possible time of a call is max(bytes / bandwidth, operations / arithmetic) + dispatch.
"""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import _bench

_SMALLEST, _LARGEST = 2**12, 2**27
_SIDE = 768


@dataclass(frozen=True)
class Rate:
    """A measured rate: the median, and the range of the middle half of its blocks."""

    median: float
    low: float
    high: float


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
    """Measure the limits for data of `size` bytes (read and written together), about `seconds` long.

    The answer is kept for the life of this process, one for each power of two of `size`.
    """
    size = 2 ** round(math.log2(min(max(size, _SMALLEST), _LARGEST)))
    key = (size, _bench.bench().number)
    if key not in _cache:
        reply = _bench.bench().ask({"op": "roofline", "bytes": size, "seconds": seconds}, limit=60 + 10 * seconds)
        rates = {name: Rate(*reply[name]) for name in ("bandwidth", "arithmetic", "dispatch")}
        _cache[key] = Roofline(device=reply["device"], bytes=size, **rates)
    return _cache[key]


_measured: dict[str, list[float]] = {}


def measure(size: int, seconds: float) -> dict:
    """The three limits as [median, low, high]; runs in the measuring process."""
    import jax
    import jax.numpy as jnp

    def scale():
        step = jax.jit(lambda x: x + 1, donate_argnums=0)
        x = step(jnp.zeros(size // 8, jnp.float32))  # four bytes read, four written

        def block(calls: int) -> None:
            nonlocal x
            for _ in range(calls):
                x = step(x)
            jax.block_until_ready(x)

        return block

    def matmul():
        a, b = jnp.full((_SIDE, _SIDE), 0.5, jnp.float32), jnp.full((_SIDE, _SIDE), 0.25, jnp.float32)
        product = jax.jit(jnp.matmul)
        return lambda calls: jax.block_until_ready([product(a, b) for _ in range(calls)])

    def dispatch():
        nothing, x = jax.jit(lambda x: x + 1), jnp.float32(0)

        def block(calls: int) -> None:
            for _ in range(calls):
                out = nothing(x)
            jax.block_until_ready(out)

        return block

    # The last two do not depend on the size and are measured once.
    for name, probe, work in (("arithmetic", matmul, 2 * _SIDE**3), ("dispatch", dispatch, 1)):
        if name not in _measured or seconds >= 1:
            _measured[name] = _rates(probe(), work, seconds / 4)
    return {"device": jax.devices()[0].device_kind, "bandwidth": _rates(scale(), size, seconds / 2), **_measured}


def _rates(block: Callable[[int], object], work: float, seconds: float) -> list[float]:
    """Median and quartiles of work per second, over blocks of at least a millisecond."""
    import jax

    from ._clock import Clock, elapsed, give_way

    clock = Clock(wall_only=jax.default_backend() != "cpu")

    def rate(calls: int) -> float:
        give_way()
        start = clock.read()
        block(calls)
        return calls * work * 1e9 / elapsed(start, clock.read())

    block(2)
    calls = max(1, min(10_000, round(1e-3 / (work / rate(1)))))
    rates, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(rates) < 7:
        rates.append(rate(calls))
    clock.close()
    low, median, high = statistics.quantiles(rates, n=4)
    return [median, low, high]
