"""The limits of this machine, measured the way the sides of a contest are: on the same core, on the same clock."""

import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from autograder.measuring.wire.messages import Limits, Rate

from .clock import Clock, elapsed, give_way
from .sides import wall_only

_SIDE = 512  # of the square matrices: on a CPU's core the rate no longer grows from about 400 on


_measured: dict[str, Rate] = {}


def measure_limits(size: int, seconds: float) -> Limits:
    """The three limits, on data of `size` bytes, measured for about `seconds`."""

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
            _measured[name] = _rate(probe(), work, seconds / 4)
    return Limits(jax.devices()[0].device_kind, bandwidth=_rate(scale(), size, seconds / 2), **_measured)


def _rate(block: Callable[[int], object], work: float, seconds: float) -> Rate:
    """Median and quartiles of work per second, over blocks of at least a millisecond."""
    clock = Clock(wall_only=wall_only())

    def rate(calls: int) -> float:
        give_way()
        start = clock.read()
        block(calls)
        return calls * work * 1e9 / elapsed(start, clock.read())

    block(2)
    calls = max(1, min(10_000, round(1e-3 / (work / rate(1)))))
    rates: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rates) < 7:
        rates.append(rate(calls))
    clock.close()
    low, median, high = statistics.quantiles(rates, n=4)
    return Rate(median, low, high)
