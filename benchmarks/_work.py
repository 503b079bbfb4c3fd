"""The work that the benchmarks time: pairs of a candidate and a baseline."""

import jax
import jax.numpy as jnp
import numpy as np


def spin(x, n):
    for _ in range(n):
        pass
    return x


@jax.jit
def chain(x, n):
    return jax.lax.fori_loop(0, n, lambda _, x: jnp.sin(x), x)


def selu(x):
    return 1.05 * jnp.where(x > 0, x, 1.67 * jnp.exp(x) - 1.67)


selu_jit = jax.jit(selu)


@jax.jit
def step(x):
    return 3.7 * x * (1 - x)


def steps_loop(x):
    for _ in range(50):
        x = step(x)
    return x


@jax.jit
def steps_scan(x):
    return jax.lax.scan(lambda x, _: (step(x), None), x, length=50)[0]


@jax.jit
def dot(a, b):
    return a @ b


def rows_loop(a, b):
    return jnp.stack([dot(row, b) for row in a])


rows_vmap = jax.jit(jax.vmap(dot, (0, None)))


def spin_pair(ratio: float, short: int = 8000):
    """(candidate, baseline, arguments of each): pure Python, true ratio known from the number of iterations."""
    return spin, spin, (np.float32(1), short), (np.float32(1), round(short * ratio))


def chain_pair(ratio: float, short: int = 160):  # long enough that what a call costs hardly changes the ratio
    x = jnp.linspace(0.1, 1, 1000)
    return chain, chain, (x, short), (x, round(short * ratio))


KNOWN = {"spin": spin_pair, "spin, own process": spin_pair, "jitted loop": chain_pair}
REAL = {
    "selu, eager and jit": (selu_jit, selu, (jnp.linspace(-2, 2, 100_000),)),
    "50 steps, loop and scan": (steps_scan, steps_loop, (jnp.linspace(0.1, 0.9, 100),)),
    "64 rows, loop and vmap": (rows_vmap, rows_loop, (jnp.ones((64, 128)), jnp.ones((128, 32)))),
}


# --- work whose first call is timed: most of it is compiling ----------------------------------------------------------


@jax.jit
def scan_of_100(x):
    return jax.lax.scan(lambda x, _: (3.7 * x * (1 - x), None), x, length=100)[0]


@jax.jit
def unrolled_100(x):
    for _ in range(100):
        x = 3.7 * x * (1 - x)
    return x


@jax.jit
def total(row):
    return jnp.sum(jnp.sin(row))


def a_program_for_each_length(x):
    return jnp.stack([total(x[:n]) for n in range(96, 100)])


@jax.jit
def masked_total(x, n):
    return jnp.sum(jnp.where(jnp.arange(len(x)) < n, jnp.sin(x), 0))


def one_program_for_all(x):
    return jnp.stack([masked_total(x, n) for n in range(96, 100)])


KNOWN_COLD = {"spin": lambda ratio: spin_pair(ratio, short=1_000_000)}
REAL_COLD = {
    "100 steps, unrolled and scan": (scan_of_100, unrolled_100, (jnp.linspace(0.1, 0.9, 100),)),
    "4 lengths, 4 programs and 1": (one_program_for_all, a_program_for_each_length, (jnp.linspace(0.1, 1, 100),)),
}


def calls(work: str, ratio: float) -> tuple:
    """(candidate, baseline) as calls without arguments, compiled; `ratio` is for work that can be given one."""
    if work in KNOWN:
        candidate, baseline, *arguments = KNOWN[work](ratio)
    else:
        candidate, baseline, same = REAL[work]
        arguments = same, same

    def call(fn, args):
        return lambda: jax.block_until_ready(fn(*args))

    both = call(candidate, arguments[0]), call(baseline, arguments[1])
    for one in both:
        one()
    return both
