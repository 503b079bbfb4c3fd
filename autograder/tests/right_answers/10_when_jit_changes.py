# %% [markdown]
# Right answers to unit 10 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="steps" name="unsigned bits, turned around by a mask"
def steps(a, b):
    def place(x):
        bits = np.asarray(x).view(np.uint32).astype(np.int64)
        negative = bits >= 2**31
        bits[negative] = 2**31 - bits[negative]
        return bits

    return abs(place(a) - place(b))


# %% task="steps" name="sign and magnitude"
def steps(a, b):
    a, b = (np.copysign(1, x).astype(np.int64) * np.abs(x).view(np.int32).astype(np.int64) for x in (a, b))
    return np.maximum(a, b) - np.minimum(a, b)


# %% task="steps" name="struct, one number after the other"
def place(x):
    import struct

    (bits,) = struct.unpack("<i", struct.pack("<f", x))
    return bits if bits >= 0 else -(2**31) - bits


def steps(a, b):
    counted = [abs(place(x) - place(y)) for x, y in zip(a.ravel(), b.ravel())]
    return np.array(counted, np.int64).reshape(a.shape)


# %% task="steps" name="mantissa and exponent"
def steps(a, b):
    def place(x):
        mantissa, exponent = np.frexp(np.abs(x).astype(np.float64))
        exponent = np.maximum(exponent, -125)
        mantissa = np.abs(x).astype(np.float64) / 2.0 ** exponent.astype(np.float64)
        number = (exponent + 125).astype(np.float64) * 2.0**23 + mantissa * 2.0**24
        return (np.sign(x) * number).astype(np.int64)

    return np.abs(place(a) - place(b))


# %% task="exorcism" name="two roots"
def proper_time(t, x):
    return jnp.sqrt(t - x) * jnp.sqrt(t + x)


# %% task="exorcism" name="a class that is called, lax and the absolute value"
class Clock:
    def __call__(self, t, x):
        x = lax.abs(x)
        return lax.sqrt(lax.mul(lax.sub(t, x), lax.add(t, x)))


proper_time = Clock()


# %% task="exorcism" name="light by a where, the rest by factors, jitted"
@jax.jit
def proper_time(t, x):
    inside = jnp.sqrt((t - x) * (t + x))
    return jnp.where(jnp.abs(x) == jnp.abs(t), jnp.zeros_like(inside), inside)


# %% task="exorcism" name="vectorize of one point"
@jnp.vectorize
def proper_time(t, x):
    late, early = t - x, t + x
    return jnp.sqrt(jnp.prod(jnp.stack([late, early])))


# %% task="lab" name="four statements and nested conditions"
def lab(fn, *args):
    with jax.disable_jit():
        eager = np.asarray(fn(*args))
    jitted = np.asarray(jax.jit(fn)(*args))
    single = np.asarray(jax.jit(fn, compiler_options={"xla_disable_hlo_passes": "fusion"})(*args))
    fast = np.asarray(jax.jit(fn, compiler_options={"xla_cpu_enable_fast_math": True})(*args))
    return {"eager": eager, "jit": jitted, "no fusion": single, "fast math": fast}


def alike(one, other):
    return bool(np.all((one == other) | (np.isnan(one) & np.isnan(other))))


def cause(fn, *args):
    results = lab(fn, *args)
    if not alike(results["jit"], results["eager"]):
        if alike(results["no fusion"], results["eager"]):
            return "fma"
        return "rewrite"
    return "same"


# %% task="lab" name="ahead of time, options given to compile"
OPTIONS = {
    "jit": {},
    "no fusion": dict(xla_disable_hlo_passes="fusion"),
    "fast math": dict(xla_cpu_enable_fast_math=True),
}


def lab(fn, *args):
    lowered = jax.jit(lambda *args: fn(*args)).lower(*args)
    compiled = {name: lowered.compile(compiler_options=options) for name, options in OPTIONS.items()}
    found = {name: np.array(program(*args)) for name, program in compiled.items()}
    with jax.disable_jit():
        return {"eager": np.array(fn(*args)), **found}


def cause(fn, *args):
    eager, *others = ((result + 0).tobytes() for result in lab(fn, *args).values())  # -0.0 + 0 is 0.0
    jit, no_fusion, _ = (result == eager for result in others)
    return {(True, True): "same", (True, False): "same", (False, True): "fma"}.get((jit, no_fusion), "rewrite")


# %% task="lab" name="a context manager for the setting, testing.assert_array_equal"
def lab(fn, *args):
    results = {}
    for name, options in (
        ("eager", None),
        ("jit", None),
        ("no fusion", {"xla_disable_hlo_passes": "fusion"}),
        ("fast math", {"xla_cpu_enable_fast_math": True}),
    ):
        with jax.disable_jit(name == "eager"):
            results[name] = np.asarray(jax.jit(fn, compiler_options=options)(*args))
    return results


def cause(fn, *args):
    results = lab(fn, *args)

    def differs(name):
        try:
            np.testing.assert_array_equal(results[name], results["eager"])
        except AssertionError:
            return True
        return False

    return "same" if not differs("jit") else "rewrite" if differs("no fusion") else "fma"


# %% task="account" name="a class for the carry, NamedTuple"
from typing import NamedTuple


class Book(NamedTuple):
    balance: jax.Array
    owed: jax.Array


def running_total(amounts):
    def add(book, amount):
        due = amount + book.owed
        balance = lax.optimization_barrier(book.balance + due)
        return Book(balance, due - lax.optimization_barrier(balance - book.balance)), balance

    zero = jnp.float32(0)
    _, balances = lax.scan(add, Book(zero, zero), amounts)
    return balances


# %% task="account" name="fori_loop over two floats that make one number"
def two_sum(a, b):
    total = lax.optimization_barrier(a + b)
    part = lax.optimization_barrier(total - a)
    return total, (a - lax.optimization_barrier(total - part)) + (b - part)


@jax.jit
def running_total(amounts):
    def book(i, state):
        high, low, out = state
        high, lost = two_sum(high, amounts[i])
        high, low = two_sum(high, low + lost)
        return high, low, out.at[i].set(high)

    start = jnp.float32(0), jnp.float32(0), jnp.zeros(amounts.shape, jnp.float32)
    return lax.fori_loop(0, amounts.shape[0], book, start)[2]


# %% task="account" name="while_loop, Kahan with a wall on every line"
@jax.jit
def running_total(amounts):
    wall = lax.optimization_barrier

    def more(state):
        return state["row"] < len(amounts)

    def book(state):
        x = wall(amounts[state["row"]] - state["lost"])
        grown = wall(state["total"] + x)
        gained = wall(grown - state["total"])
        balances = lax.dynamic_update_index_in_dim(state["balances"], grown, state["row"], 0)
        return {"row": state["row"] + 1, "total": grown, "lost": wall(gained - x), "balances": balances}

    zero = jnp.zeros((), jnp.float32)
    start = {"row": 0, "total": zero, "lost": zero, "balances": jnp.zeros_like(amounts)}
    return lax.while_loop(more, book, start)["balances"]


# %% task="judge" name="row by row, math.fsum"
def judge(result, X, w):
    import math

    for value, row in zip(result, X):
        terms = [float(x) * float(y) for x, y in zip(row, w)]
        if not abs(float(value) - math.fsum(terms)) <= 1e-5 * math.fsum(map(abs, terms)):
            return False
    return True


# %% task="judge" name="einsum in float64 and np.allclose with a bound for each row"
def judge(result, X, w):
    wide = X.astype(np.float64), w.astype(np.float64)
    truth, added = np.einsum("ij,j->i", *wide), np.einsum("ij,j->i", *map(np.abs, wide))
    return bool(np.isfinite(result).all()) and np.allclose(result / added, truth / added, rtol=0, atol=50 * 2.0**-23)


# %% task="judge" name="the largest relative error, by a nan-aware maximum"
def judge(result, X, w):
    eps = np.finfo(np.float32).eps
    terms = np.asarray(X, np.longdouble) * np.asarray(w, np.longdouble)
    errors = np.abs(np.asarray(result) - terms.sum(axis=1)) / np.abs(terms).sum(axis=1)
    return not (np.isnan(errors).any() or errors.max() > 20 * eps)


# %% task="account" name="the first booking before the scan, concatenated with the others"
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""

    def book(state, amount):
        total, lost = state
        x = amount - lost
        grown = lax.optimization_barrier(total + x)
        return (grown, lax.optimization_barrier(grown - total) - x), grown

    first = amounts[0]
    _, balances = lax.scan(book, (first, jnp.zeros_like(first)), amounts[1:])
    return jnp.concatenate([first[None], balances])


# %% task="day" name="neighbours in pairs"
@jax.jit
def day(amounts):
    lost = jnp.float32(0)
    while amounts.shape[0] > 1:
        if amounts.shape[0] % 2:
            amounts = jnp.append(amounts, 0)
        amounts, less = add_exactly(amounts[::2], amounts[1::2])
        lost = lost + jnp.sum(less)
    return amounts[0] + lost


# %% task="day" name="a scan over rows of 512, and one over what is left"
def in_turn(rows):
    def book(carry, row):
        total, lost = carry
        total, less = add_exactly(total, row)
        return (total, lost + less), None

    nothing = jnp.zeros_like(rows[0])
    return lax.scan(book, (nothing, nothing), rows)[0]


@jax.jit
def day(amounts):
    totals, lost = in_turn(jnp.pad(amounts, (0, -amounts.size % 512)).reshape(-1, 512))
    total, less = in_turn(totals)
    return total + (less + lost.sum())


# %% task="day" name="lax.reduce of pairs"
def merge(one, other):
    total, less = add_exactly(one[0], other[0])
    return total, one[1] + other[1] + less


@jax.jit
def day(amounts):
    total, lost = lax.reduce((amounts, jnp.zeros_like(amounts)), (np.float32(0), np.float32(0)), merge, (0,))
    return total + lost


# %% task="day" name="a sum of 32 rows, again and again"
@jax.jit
def day(amounts):
    lost = 0.0
    while amounts.size > 1:
        first, *others = jnp.pad(amounts, (0, -amounts.size % 32)).reshape(32, -1)
        less = jnp.zeros_like(first)
        for row in others:
            first, more = add_exactly(first, row)
            less = less + more
        amounts, lost = first, lost + less.sum()
    return amounts[0] + lost


# %% task="account" name="Knuth's sum of two in a pair, every step of it behind a wall"
from typing import NamedTuple


class Pair(NamedTuple):
    total: jax.Array
    rest: jax.Array


def opaque(fn):
    """fn, with a result through which the compiler cannot look."""
    return lambda *args: lax.optimization_barrier(fn(*args))


plus, minus = opaque(jnp.add), opaque(jnp.subtract)


def two_sum(a, b):
    s = plus(a, b)
    b_seen = minus(s, a)
    a_seen = minus(s, b_seen)
    return s, plus(minus(a, a_seen), minus(b, b_seen))


def book(pair, amount):
    total, lost = two_sum(pair.total, amount)
    total, rest = two_sum(total, plus(pair.rest, lost))
    return Pair(total, rest), total


@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""
    nothing = jnp.zeros((), jnp.float32)
    return lax.scan(book, Pair(nothing, nothing), jnp.asarray(amounts))[1]
