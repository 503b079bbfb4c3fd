# %% [markdown]
# # Exercise 05 · The cache
#
# Seven tasks, 24 points, about {duration}. The lesson is [05 · The cache](../../lessons/05_the_cache.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. Points here are given for
# what JAX did: how often it traced. One check, in task 4, asks the clock as well. Where a check is folded, its code
# holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say how often twelve short programs are traced | 4 |
# | 2 | say how many traces a training run has left when one needless retrace is cured | 3 |
# | 3 | keep a loop of jitted steps from compiling in every step | 3 |
# | 4 | serve vectors of any length with at most five traces | 4 |
# | 5 | train in mini-batches without a trace after the first epoch | 3 |
# | 6 | write the key by which two calls share a trace | 3 |
# | 7 | give `minijit` a memory, and let it say why it traces | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import functools
import gc
import inspect
import string
import weakref
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from autograder import (
    assert_allclose,
    assert_equal,
    assert_max_traces,
    assert_prediction,
    assert_primitives,
    partial_credit,
    speedup,
    trace_log,
)

# %% [markdown]
# ## Task 1 · The cache oracle (4 points)
#
# Twelve short programs. Each receives `f`, a Python function that has never been traced. How often does the body of `f`
# run?
#
# Write your twelve numbers **before** you run anything. The check counts now, on your machine, and tells you which
# names are wrong, never the number.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Ask of each call: which earlier call has the same function, the same packing (how the arguments are nested), the same
# types, the same static values?
# </details>
# <details><summary>Hint 2</summary>
# <code>jax.typeof(value)</code> shows the type of an argument; a tilde is a weak type. For one program at a time,
# <code>with trace_log(f) as log: ...</code> and <code>print(log.reasons)</code> tell the story.
# </details>
# <details><summary>Hint 3</summary>
# Write the key of each call on paper as (function, packing, types, static values), one line a call, and count the
# different lines. In <code>running_total</code>, remember what comes out of the first call.
# </details>

# %% nbgrader={"grade": false, "grade_id": "cache-oracle-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Six programs about arguments. f(x, y=0.0) returns the first array in x, plus y.


def other_values(f):
    g = jax.jit(f)
    g(1.0), g(2.0), g(-7.5)


def equal_in_python(f):
    g = jax.jit(f)
    g(1), g(1.0), g(True)


def numpy_and_jax(f):
    g = jax.jit(f)
    g(np.ones(3)), g(jnp.ones(3)), g(np.zeros(3, np.float32))


def scalars(f):
    g = jax.jit(f)
    g(2.0), g(jnp.float32(2.0)), g(jnp.array(2.0)), g(np.float64(2.0))


def containers(f):
    g, x = jax.jit(f), np.ones(3)
    g([x, x]), g((x, x)), g({"a": x, "b": x}), g({"b": x, "a": x})


def running_total(f):
    g, total = jax.jit(f), 0.0
    for value in np.ones(5, np.float32):
        total = g(total, value)


# Six programs about functions and calls.


def call_forms(f):
    g, x, y = jax.jit(f), np.ones(3), 2.0
    g(x, y), g(x, y=y), g(x=x, y=y), g(y=y, x=x)


def default_value(f):
    g, x = jax.jit(f), np.ones(3)
    g(x), g(x, 0.0), g(x), g(x, 5.0)


def jit_again(f):
    for _ in range(5):
        jax.jit(f)(1.0)


def partial_again(f):
    for _ in range(5):
        jax.jit(functools.partial(f, y=2.0))(1.0)


def look_first(f):
    jax.make_jaxpr(f)(1.0)
    jax.jit(f).lower(1.0)
    jax.jit(f)(1.0)


def static_values(f):
    g = jax.jit(f, static_argnames="y")
    g(1.0, y=1), g(1.0, y=2), g(1.0, y=1), g(1.0, y=1.0)


ABOUT_ARGUMENTS = (other_values, equal_in_python, numpy_and_jax, scalars, containers, running_total)
ABOUT_FUNCTIONS = (call_forms, default_value, jit_again, partial_again, look_first, static_values)


def count_traces(program):
    """How often the body of a fresh f runs in `program(f)`."""
    runs = []

    def f(x, y=0.0):
        runs.append(1)  # a side effect: it happens while tracing, and only then
        return jax.tree.leaves(x)[0] + y

    program(f)
    return len(runs)


# %% nbgrader={"grade": false, "grade_id": "cache-oracle", "locked": false, "schema_version": 3, "solution": true, "task": false}
def oracle_arguments():
    """Name of each program in ABOUT_ARGUMENTS -> number of traces."""
    ### BEGIN SOLUTION
    # Values never count; the type of the array does, and weak is another type than strong.
    return {
        "other_values": 1,
        "equal_in_python": 3,
        "numpy_and_jax": 1,
        "scalars": 2,
        "containers": 3,
        "running_total": 2,
    }
    ### END SOLUTION


def oracle_functions():
    """Name of each program in ABOUT_FUNCTIONS -> number of traces."""
    ### BEGIN SOLUTION
    # The function object counts, not the number of jits around it; and the call counts as it is written.
    return {
        "call_forms": 3,
        "default_value": 2,
        "jit_again": 1,
        "partial_again": 5,
        "look_first": 1,
        "static_values": 3,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "cache-oracle-arguments", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The six programs about arguments are predicted right."""
assert_prediction(
    oracle_arguments,
    lambda: {program.__name__: count_traces(program) for program in ABOUT_ARGUMENTS},
    hints={
        "other_values": "A trace never sees a value, so a value cannot be in the key.",
        "equal_in_python": "1 == True in Python, but what does jax.typeof say of each?",
        "numpy_and_jax": "What counts is the type JAX gives it, and without 64 bits float64 is read as float32.",
        "scalars": "Two of the four are weak. Which? Print jax.typeof of each.",
        "containers": "Containers are part of the key; the order in which a dict was written is not.",
        "running_total": "Compare the type of total before the first call with its type after it.",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "cache-oracle-functions", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The six programs about functions and calls are predicted right."""
assert_prediction(
    oracle_functions,
    lambda: {program.__name__: count_traces(program) for program in ABOUT_FUNCTIONS},
    hints={
        "call_forms": "Positions and keywords are packed differently; the order of the keywords does not matter.",
        "default_value": "A default that is not passed is not an argument of the call at all.",
        "jit_again": "The cache belongs to the function object, not to the call of jax.jit.",
        "partial_again": "How many partial objects does the loop make?",
        "look_first": "make_jaxpr, lower and a call go through the same cache.",
        "static_values": "A static value is compared by value and by type.",
    },
)

# %% [markdown]
# ## Task 2 · The detective (3 points)
#
# A training run that "only takes longer than it should". Four things in it, `LEAKS`, cost traces for nothing (no tracer
# leaks here), and `cured` names those that have been mended. The next cell prints why each trace of the first two
# epochs happened. (To *train* is to change `w` and `b`, the *bias*, in small steps until `x @ w + b` is near `y`. A
# *batch* is the rows of one step, an *epoch* one pass over all rows; the *learning rate* `rate` scales the steps.)
#
# You may mend **one** today. Before you choose, predict for any number of epochs (2 or more) how many traces are left:
# with nothing mended, with each one mended alone, and with all four. Write formulas in `epochs`; the check tries
# several values, in plain Python as in task 1. Two of the four, mended alone, disappoint.
#
# <details><summary>Hint 1</summary>
# Leaks do not add up. The key is a tuple, and a trace is a <em>new tuple</em>.
# </details>
# <details><summary>Hint 2</summary>
# Use the log below, and change the call: <code>train(..., cured=["batch"])</code>. Watch which reasons stay.
# </details>
# <details><summary>Hint 3</summary>
# Make a table for one epoch after another: for each of the three batches write (b weak or strong, rows, rate weak or
# strong, epoch). Count the new lines of the first epoch, then of any later epoch: the answer is first + (epochs - 1) *
# later. If <code>epoch</code> is mended, later epochs repeat each other.
# </details>

# %% nbgrader={"grade": false, "grade_id": "detective-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
LEAKS = ("bias", "batch", "rate", "epoch")


def leaky_step(w, b, xb, yb, rate, epoch):
    error = xb @ w + b - yb
    return w - rate * xb.T @ error / len(xb), b - rate * error.mean()


def train(epochs, cured=()):
    """70 rows in batches of 32. Returns the reasons of the traces of leaky_step, in order."""
    x, y = np.ones((70, 3), np.float32), np.ones(70, np.float32)
    jitted = jax.jit(leaky_step, static_argnames=() if "epoch" in cured else "epoch")
    jitted.clear_cache()
    step = jitted.eval_shape  # traces as a call does, through the same cache, and compiles nothing
    with trace_log(leaky_step) as log:
        w = np.zeros(3, np.float32)
        b = np.float32(0) if "bias" in cured else 0.0
        rate = np.float32(0.1) if "rate" in cured else 0.1
        for epoch in range(epochs):
            for start in range(0, 64 if "batch" in cured else 70, 32):
                w, b = step(w, b, x[start : start + 32], y[start : start + 32], rate, epoch=epoch)
            rate = np.float32(rate * 0.5)  # the learning rate falls from epoch to epoch
    return log.reasons


print("\n".join(f"trace {i}: {reason}" for i, reason in enumerate(train(2), 1)))


# %% nbgrader={"grade": false, "grade_id": "detective", "locked": false, "schema_version": 3, "solution": true, "task": false}
def detective(epochs):
    """Traces that are left after `epochs` epochs (an int, 2 or more).

    Returns a dict with the keys "nothing", "bias", "batch", "rate", "epoch" (that one mended alone) and "all".
    """
    ### BEGIN SOLUTION
    # First epoch: (weak b, 32), (strong b, 32), (strong b, 6). Every later epoch is a new static value, so it
    # traces both shapes again: whatever else is mended, the static epoch multiplies it.
    return {
        "nothing": 3 + 2 * (epochs - 1),
        "bias": 2 + 2 * (epochs - 1),
        "batch": 2 + 1 * (epochs - 1),
        "rate": 3 + 2 * (epochs - 1),
        "epoch": 3 + 2,  # the falling rate turns strong once, for both shapes
        "all": 1,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "detective-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The law holds for every number of epochs."""
cures = {"nothing": (), **{leak: (leak,) for leak in LEAKS}, "all": LEAKS}
why_wrong = {
    "nothing": "Leaks multiply: each new epoch is a new static value, for every shape it meets.",
    "bias": "The weak bias costs one call of the whole run: the first.",
    "batch": "With equal batches each epoch still brings its own static value.",
    "rate": "When rate changes, epoch changes too. What is gained if only one of them stops?",
    "epoch": "Without a static epoch, later epochs repeat each other. When does rate change its type?",
    "all": "One key is left.",
}


def count_left(epochs):
    return {name: len(train(epochs, cured)) for name, cured in cures.items()}


for epochs in (2, 3):
    assert_prediction(detective, lambda: count_left(epochs), args=(epochs,), hints=why_wrong)
### BEGIN HIDDEN TESTS
for epochs in (4, 9):
    assert_prediction(detective, lambda: count_left(epochs), args=(epochs,), hints=why_wrong)
few, more = count_left(4), count_left(5)
far = {name: few[name] + 4996 * (more[name] - few[name]) for name in few}
assert_prediction(detective, far, args=(5000,), hints=why_wrong)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · The lambda loop (3 points)
#
# `relax_slow` lets heat flow along a rod, with another rate in each step. It is correct, and it compiles in every step.
# The author wrote a lambda because `rate` and `edge` had to get in somehow.
#
# Write `diffuse`, one step, and `relax`, the loop of jitted steps, for any number of rates, or for none. `relax`
# leaves its arguments as they were, and does not call back into Python. A new rate must not cost a trace, in this run or
# in the next. A new `edge` may cost one trace, and two edges two traces, in whatever order they come: `edge` is a name, and the trace must know it.
#
# <details><summary>Hint 1</summary>
# Which of the two does the trace need to know by value, and which is just a number that takes part?
# </details>
# <details><summary>Hint 2</summary>
# <code>with trace_log(diffuse) as log: relax(rod, [0.1, 0.2, 0.3], "wrap")</code>, then <code>log.reasons</code>.
# </details>
# <details><summary>Hint 3</summary>
# <code>step = jax.jit(diffuse, static_argnames=...)</code>, then <code>x = step(x, rate, edge)</code> in the loop.
# Jitting the same function object again in the next call of <code>relax</code> is free.
# </details>


# %% nbgrader={"grade": false, "grade_id": "lambda-loop-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def relax_slow(x, rates, edge):
    """Heat flow along a rod. x: float32[n]; rates: list of floats; edge: "wrap" (a ring) or "edge" (insulated ends)."""
    for rate in rates:

        def padded(v):
            return jnp.pad(v, 1, mode=edge)

        x = jax.jit(lambda v: v + rate * (padded(v)[2:] - 2 * v + padded(v)[:-2]))(x)
    return x


rod = np.sin(np.arange(12.0)).astype(np.float32)


# %% nbgrader={"grade": false, "grade_id": "lambda-loop", "locked": false, "schema_version": 3, "solution": true, "task": false}
def diffuse(v, rate, edge):
    """One step of heat flow. v: float32[n]; rate: a float; edge: "wrap" or "edge". Returns float32[n]."""
    ### BEGIN SOLUTION
    # Everything that varies is an argument, so one function object serves the whole loop.
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])
    ### END SOLUTION


def relax(x, rates, edge):
    """The same as relax_slow, with jitted steps and at most one trace for each value of edge."""
    ### BEGIN SOLUTION
    step = jax.jit(diffuse, static_argnames="edge")
    for rate in rates:
        x = step(x, rate, edge)
    return x
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "lambda-loop-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The values match, and one trace serves every rate, in the next run too."""
for edge in ("wrap", "edge"):
    assert_allclose(relax(rod, [0.1, 0.2], edge), relax_slow(rod, [0.1, 0.2], edge), rtol=1e-5, atol=1e-6, name=edge)
jax.clear_caches()  # so that this cell finds the same whenever it is run
with assert_max_traces(relax, 1):
    relax(rod, [0.1, 0.2, 0.3, 0.25, 0.15], "wrap")
    relax(rod, [0.31, 0.32], "wrap")
### BEGIN HIDDEN TESTS


def relax_by_hand(x, rates, edge):
    """As relax_slow, which compiles in every step."""
    x = np.asarray(x, np.float64)
    for rate in rates:
        padded = np.pad(x, 1, mode=edge)
        x = x + rate * (padded[2:] - 2 * x + padded[:-2])
    return x.astype(np.float32)


fresh_rod = np.random.default_rng().normal(np.linspace(0, 100, 17)).astype(np.float32)
given_rods, given_rates = [fresh_rod.copy(), jnp.array(fresh_rod)], [0.2, 0.1]
for given in given_rods:
    relax(given, given_rates, "edge")
after_call = {
    "the rates": given_rates,
    "x, as a NumPy array": given_rods[0].tolist(),
    "x, as a JAX array": "deleted" if given_rods[1].is_deleted() else given_rods[1].tolist(),
}
kept = {"the rates": [0.2, 0.1]} | dict.fromkeys(list(after_call)[1:], fresh_rod.tolist())
assert_equal(after_call, kept, name="relax (its arguments after the call)")
rates = [0.05, 0.8, -0.1, 0.4]
for edge in ("edge", "wrap"):
    for heated in (fresh_rod, 2 * fresh_rod):
        assert_allclose(relax(heated, rates, edge), relax_by_hand(heated, rates, edge), rtol=1e-4, atol=1e-3, name=edge)
    assert_allclose(diffuse(rod, 0.3, edge), relax_by_hand(rod, [0.3], edge), rtol=1e-4, atol=1e-5, name="diffuse")
    assert_primitives(lambda v, edge=edge: diffuse(v, 0.3, edge), rod, excludes={"pure_callback"})
    assert_allclose(relax(rod[:1], [0.2, 0.1], edge), rod[:1], rtol=1e-4, atol=1e-5, name=f"a rod of one place, {edge}")
    many = np.linspace(0.05, 0.001, 1100).tolist()
    halfway = relax(fresh_rod, many[:7], edge)
    assert_allclose(
        relax(fresh_rod, many, edge), relax(halfway, many[7:], edge), rtol=1e-4, atol=1e-3, name="1100 rates"
    )
    assert_allclose(relax(fresh_rod, [], edge), fresh_rod, name="no rates at all")
jax.clear_caches()
with assert_max_traces(relax, 2):
    for edge in ("edge", "wrap", "edge", "wrap"):
        relax(fresh_rod, rates, edge)
        relax(fresh_rod, [0.3], edge)
with contextlib.suppress(jax.errors.TracerArrayConversionError):  # NumPy may stand before the steps and after them
    assert_primitives(lambda v: relax(v, [0.3, 0.1], "wrap"), rod, excludes={"pure_callback"})
for edge in ("edge", "wrap"):
    within = jax.jit(lambda v, edge=edge: diffuse(v, 0.3, edge))(rod)
    assert_allclose(within, diffuse(rod, 0.3, edge), rtol=1e-4, atol=1e-5, name="diffuse within a jitted function")
    for places in (1, 2, 3):
        short, name = fresh_rod[9 : 9 + places], f"a rod of {places} places, {edge}"
        assert_allclose(relax(short, rates, edge), relax_by_hand(short, rates, edge), rtol=1e-4, atol=1e-3, name=name)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · Buckets (4 points)
#
# Requests arrive as NumPy vectors of 1 to 1024 numbers, and for each we want `energy_slow`: the mean of
# $e^{-|x_i - x_j|}$ over all pairs. The work grows with the square of the length.
#
# - `bucket_size(length)`: the size to pad to. At most **5** different sizes in all.
# - `pair_energy(padded, length)`: jitted; `length` says how many of the numbers are real. Behind these may stand any
#   finite numbers, not only zeros.
# - `energy(x)`: pads to that size and calls it, whatever the length. Of numbers one of which is NaN, the mean is NaN.
#
# Any length may come. After the five sizes have been seen, nothing may be traced any more, neither your functions nor
# any of JAX's own. There is no callback into Python. The second check takes short requests and measures your sizes
# against padding everything to 1024: 2.5x as fast earns 1 point, 4x earns 2.
#
# <details><summary>Hint 1</summary>
# What does a padded zero add to the sum? Its difference to a real number is not 0, and its difference to another zero
# gives 1.
# </details>
# <details><summary>Hint 2</summary>
# <code>{bucket_size(n) for n in range(1, 1025)}</code> shows your sizes. If the trace count is right and
# <code>jax.no_tracing</code> still objects to a function that you did not write, some <code>jnp</code> operation of
# yours meets the ragged vector before it is padded.
# </details>
# <details><summary>Hint 3</summary>
# Doubling sizes from 64 on. In <code>energy</code>: <code>np.pad(x, (0, size - len(x)))</code>. In
# <code>pair_energy</code>: <code>real = jnp.arange(padded.size) &lt; length</code>, then
# <code>jnp.where(real[:, None] &amp; real, ..., 0).sum()</code>, divided by the number of real pairs.
# </details>


# %% nbgrader={"grade": false, "grade_id": "bucket-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def energy_slow(x):
    """Mean of exp(-|x_i - x_j|) over all pairs, in NumPy and float64. x: [n], n from 1 to 1024. Returns a scalar."""
    x = np.asarray(x, np.float64)
    total = 0.0
    for value in x:
        total += np.exp(-np.abs(x - value)).sum()
    return np.float32(total / len(x) ** 2)


@jax.jit
def all_at_longest(lengths, *vectors):
    """The energies of many vectors, each padded to 1024. lengths: int32[k]; vectors: k of float32[n]."""

    def one(x, length):
        padded = jnp.pad(x, (0, 1024 - x.size))
        real = jnp.arange(1024) < length
        pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
        return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2

    return jnp.stack([one(x, length) for x, length in zip(vectors, lengths, strict=True)])


# %% nbgrader={"grade": false, "grade_id": "bucket", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bucket_size(length):
    """The size to which a vector of `length` numbers (an int, 1 to 1024) is padded: an int, at least `length`."""
    ### BEGIN SOLUTION
    # Doubling: few sizes, and above 64 no vector is padded to more than twice its length.
    size = 64
    while size < length:
        size *= 2
    return size
    ### END SOLUTION


@jax.jit
def pair_energy(padded, length):
    """Mean of exp(-|x_i - x_j|) over pairs of the first `length` numbers. padded: float32[size]; length: an int."""
    ### BEGIN SOLUTION
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2
    ### END SOLUTION


def energy(x):
    """The same as energy_slow for a NumPy float32[n], through pair_energy. Returns float32[]."""
    ### BEGIN SOLUTION
    # NumPy pads: jnp.pad would be compiled for every length.
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "bucket-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Thirty ragged lengths, at most five traces, right values; then nothing is traced any more."""
rng = np.random.default_rng(4)
ragged = [rng.normal(size=length).astype(np.float32) for length in rng.integers(1, 1025, 30)]
got, expected = [energy(x) for x in ragged[:4]], [energy_slow(x) for x in ragged[:4]]
assert_allclose(got, expected, rtol=1e-4, name="energy (padding must not count)")
smallest = {bucket_size(length): length for length in range(1024, 0, -1)}  # size: the shortest vector that gets it
with assert_max_traces(pair_energy, 5) as log:
    for x in [*ragged, *(np.zeros(length, np.float32) for length in sorted(smallest.values())[:6])]:
        energy(x)
reached = "number of sizes that reach pair_energy"
hint = "bucket_size decides to what energy pads."
assert_equal({reached: log.traces}, {reached: len(smallest)}, name="energy", hints={reached: hint})
with jax.no_tracing(True):  # an error for any trace, jnp's own included
    for length in range(3, 1000, 99):
        energy(np.zeros(length, np.float32))
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
tried = (1, 2, 63, 64, 65, 700, 1024, *rng.integers(1, 1025, 3).tolist())
vectors = [rng.normal(loc=3, size=length).astype(np.float32) for length in tried]
vectors[-1][::2] = 0  # a zero is a number like any other
vectors[-2] *= 1000  # the differences count; the exponential of such a number would overflow
vectors[-3][0] = np.nan  # a mean with it is NaN
far = [sign * 10.0**k for k in range(1, 39) for sign in (1, -1)]  # none of them is free for padding
vectors.append(np.float32([1e9, *far]))
vectors += [
    np.full(60, np.nan, np.float32),
    np.float32([1, 2]),
    np.float32([np.nan]),
]  # one request is nothing to the next
with jax.no_tracing(True):
    got = [energy(x) for x in vectors]
kinds = {"types": sorted({f"{getattr(e, 'dtype', 'no array')}{list(np.shape(e))}" for e in got})}
assert_equal(kinds, {"types": ["float32[]"]}, name="energy")
expected, tried = [energy_slow(x) for x in vectors], (*tried, 77, 60, 2, 1)
assert_allclose(got, expected, rtol=1e-4, name=f"energy of {tried} numbers (padding must not count)")
for length in (1, 40, bucket_size(40)):
    any_behind = rng.normal(loc=-1, size=bucket_size(40)).astype(np.float32)
    expected = energy_slow(any_behind[:length])
    assert_allclose(
        pair_energy(any_behind, length), expected, rtol=1e-4, name=f"pair_energy of the first {length} numbers"
    )
assert_primitives(pair_energy, any_behind, 40, excludes={"pure_callback"})


def not_through_pair_energy():
    """The lengths for which energy is not one call of pair_energy, with x at the size of its bucket."""
    global pair_energy
    kept, calls, others = pair_energy, [], []

    def recording(padded, length):
        calls.append((*np.shape(padded), int(length)))
        return jnp.float32(-length)

    pair_energy = recording
    try:
        for length in range(1, 1025):
            calls.clear()
            if energy(np.ones(length, np.float32)) != -length or calls != [(bucket_size(length), length)]:
                others.append(length)
    finally:
        pair_energy = kept
    return others


other_way = {"lengths for which it is not one call of pair_energy (the first five)": not_through_pair_energy()[:5]}
assert_equal(other_way, dict.fromkeys(other_way, []), name="energy")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "bucket-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Short requests, against padding everything to 1024: 2.5x as fast earns 1 point, 4x earns 2."""


@jax.jit
def in_your_buckets(lengths, *vectors):
    padded = [jnp.pad(x, (0, bucket_size(x.size) - x.size)) for x in vectors]
    return jnp.stack([pair_energy(x, length) for x, length in zip(padded, lengths, strict=True)])


short = [np.random.default_rng(length).normal(size=length).astype(np.float32) for length in (60, 100, 180, 250)]
lengths = np.array([len(x) for x in short], np.int32)
too_small = [len(x) for x in short if bucket_size(len(x)) < len(x)]
assert_equal(
    {"lengths that do not fit their bucket": too_small},
    {"lengths that do not fit their bucket": []},
    name="bucket_size",
)
partial_credit(speedup(in_your_buckets, all_at_longest, lengths, *short, at_least=4), {2.5: 1, 4: 2})

# %% [markdown]
# ## Task 5 · No tracing allowed (3 points)
#
# `fit_slow` fits `x @ w` to `y` by small steps as in task 2, one batch of up to 32 rows at a time. Write it in JAX, so
# that after one epoch of warm-up on two batches or more the whole run passes inside `jax.no_tracing(True)`, **for any
# number of rows**, or for none. The last batch and the falling rate are part of the run. No callback into Python.
#
# `train_step` is jitted, returns the next `w`, and gets batches of 32 rows, always. `real` is for you to define: it
# says which rows count.
#
# <details><summary>Hint 1</summary>
# 70 rows are two full batches and one of 6. What could stand in the other 26 rows, and how do you keep it out of the
# mean?
# </details>
# <details><summary>Hint 2</summary>
# <code>with trace_log(train_step) as log: fit(x, y, 2)</code> and <code>log.reasons</code>. If
# <code>jax.no_tracing</code> names a function that you did not write, you have touched a JAX array outside
# <code>train_step</code>.
# </details>
# <details><summary>Hint 3</summary>
# In NumPy: <code>real = np.zeros(32, np.float32); real[:rows] = 1</code>,
# <code>xb = np.zeros((32, 3), np.float32); xb[:rows] = ...</code>. In <code>train_step</code>:
# <code>error = real * (xb @ w - yb)</code>, and divide by <code>real.sum()</code>. Start <code>w</code> as float32, and
# pass <code>rate</code> in one form.
# </details>


# %% nbgrader={"grade": false, "grade_id": "no-tracing-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def fit_slow(x, y, epochs):
    """Least squares by gradient steps, in NumPy and float64. x: [rows, 3]; y: [rows]. Returns w: [3]."""
    x, y, w = np.asarray(x, np.float64), np.asarray(y, np.float64), np.zeros(3)
    for epoch in range(epochs):
        rate = 0.2 / (1 + epoch)
        for start in range(0, len(x), 32):
            xb, yb = x[start : start + 32], y[start : start + 32]  # the last one may be shorter
            w = w - rate * xb.T @ (xb @ w - yb) / len(xb)
    return w.astype(np.float32)


def rows_of_data(rows, seed=0):
    """A data set: x float32[rows, 3], y float32[rows], both NumPy."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    return x, (x @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.normal(size=rows)).astype(np.float32)


# %% nbgrader={"grade": false, "grade_id": "no-tracing", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def train_step(w, xb, yb, real, rate):
    """The w after one gradient step. w: float32[3]; xb: float32[32, 3]; yb: float32[32]; real, rate: yours."""
    ### BEGIN SOLUTION
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()
    ### END SOLUTION


def fit(x, y, epochs):
    """The same as fit_slow for NumPy float32 data, with every step in train_step. Returns w: float32[3]."""
    ### BEGIN SOLUTION
    # Every batch has one shape; what differs between batches is data. All cutting and padding is NumPy's.
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb, yb, real = np.zeros((32, 3), np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
            xb[:rows], yb[:rows], real[:rows] = x[start : start + rows], y[start : start + rows], 1
            w = train_step(w, xb, yb, real, 0.2 / (1 + epoch))
    return w
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "no-tracing-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The weights match, one trace serves the whole run, and nothing else is traced after the warm-up."""
x, y = rows_of_data(70)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    w = fit(x, y, 3)
    assert_allclose(w, fit_slow(x, y, 3), rtol=1e-4, atol=1e-5, name="w (every row counts once, padding never)")
    with assert_max_traces(train_step, 1):
        fit(x, y, 1)
        fit(x, y, 4)
    with jax.no_tracing(True):
        fit(x + 1, y, 4)
### BEGIN HIDDEN TESTS
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    for rows in (1, 33, 64, 165, 1100):
        x, y = rows_of_data(rows, seed=rows)
        x, y = 0.3 * x, 0.3 * y  # so small that every step still counts in the end
        x[5::9], y[3::7] = 0, 0  # a zero is data, too
        for _ in range(2):
            with jax.no_tracing(True):
                w = fit(x, y, 100)
            expected = fit_slow(x, y, 100)
            assert_allclose(w, expected, rtol=1e-3, atol=1e-4, name=f"w of {rows} rows (every row counts once)")
            y *= -1  # other data in the same array
step_calls, shapes = [], set()


def counting_step(w, xb, yb, real, rate):
    step_calls.append((w, xb, yb, real, rate))
    shapes.add((np.shape(xb), np.shape(yb)))
    return w + 1


def count_steps_in_fit():
    """What fit returns where train_step only adds 1."""
    global train_step
    kept, train_step = train_step, counting_step
    try:
        return np.asarray(fit(*rows_of_data(70), 4)).tolist()
    finally:
        train_step = kept


assert_equal(
    {"steps that train_step made": count_steps_in_fit(), "shapes of its batches": len(shapes - {((32, 3), (32,))})},
    {"steps that train_step made": [12.0] * 3, "shapes of its batches": 0},
    name="fit",
    hints={
        "steps that train_step made": "Each batch of each epoch is one call of train_step, and w comes from there.",
        "shapes of its batches": "train_step gets float32[32, 3] and float32[32], the last batch included.",
    },
)
assert_primitives(train_step, *step_calls[0], excludes={"pure_callback"})
x, y = rows_of_data(0)
assert_allclose(fit(x, y, 2), fit_slow(x, y, 2), name="w of no rows")
within = jax.jit(lambda w: train_step(w, *step_calls[1][1:]))(step_calls[1][0])
assert_allclose(within, train_step(*step_calls[1]), rtol=1e-3, atol=1e-4, name="train_step within a jitted function")
for rows, epochs in ((0, 2), (3, 0)):
    found = {f"w after {epochs} epochs of {rows} rows": np.asarray(fit(*rows_of_data(rows), epochs)).dtype.name}
    assert_equal(found, dict.fromkeys(found, "float32"), name="fit")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · Write the key yourself (3 points)
#
# You have seen what hits and what misses. Now write the rule down: `cache_key` takes one call and returns a hashable
# value, such that two calls of one function share a trace exactly if their keys are equal. No tracing, and no `jit`:
# just look at the arguments. It fits in three lines.
#
# `static` names the keyword arguments that are static, whatever they are called.
#
# With your key, `tiny_jit` below is a real `jit` with a cache of its own. A key that is too coarse makes it run the
# wrong program (JAX notices and raises), one that is too fine makes it compile for nothing.
#
# <details><summary>Hint 1</summary>
# Packing, types, static values: three parts. Which functions of JAX look at packing and at types?
# </details>
# <details><summary>Hint 2</summary>
# Look at <code>jax.tree.flatten(((1.0, [2, 3]), {"y": 4}))</code> and <code>jax.typeof(1.0)</code>. Both answers can be
# compared; which can be hashed? And what is <code>{1: "a", True: "b"}</code> in Python?
# </details>
# <details><summary>Hint 3</summary>
# <code>leaves, packing = jax.tree.flatten((args, the kwargs that are not static))</code>. The key is a tuple of
# <code>packing</code>, a tuple of <code>jax.typeof(leaf)</code>, and a <code>frozenset</code> of (name, type, value)
# for the static ones.
# </details>


# %% nbgrader={"grade": false, "grade_id": "cache-key-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def same_trace(first, second, static=()):
    """Whether JAX uses one trace for two calls, each given as (args, kwargs). Try your own pairs."""
    runs = []

    def f(*args, **kwargs):
        runs.append(1)
        return 0

    jitted = jax.jit(f, static_argnames=static)
    for args, kwargs in (first, second):
        jitted.eval_shape(*args, **kwargs)
    return len(runs) == 1


def tiny_jit(f, cache):
    """`f`, compiled once for each of your keys. `cache`: a dict, filled here."""

    def call(*args, **kwargs):
        key = cache_key(args, kwargs)
        if key not in cache:
            cache[key] = jax.jit(f).lower(*args, **kwargs).compile()
        return cache[key](*args, **kwargs)

    return call


def of(*args, **kwargs):
    """A call, written as it would be written: of(1.0, y=2) is ((1.0,), {"y": 2})."""
    return args, kwargs


PAIRS = {
    "other value": (of(1.0), of(2.0)),
    "other shape": (of(np.ones(3)), of(np.ones(4))),
    "same shape, other values": (of(np.ones(3)), of(np.zeros(3))),
    "int and float": (of(1), of(1.0)),
    "weak and strong": (of(1.0), of(np.float32(1.0))),
    "NumPy and JAX": (of(np.ones(3)), of(jnp.ones(3))),
    "list and tuple": (of([1.0, 2.0]), of((1.0, 2.0))),
    "two lists of three": (of([1.0], [2.0, 3.0]), of([1.0, 2.0], [3.0])),
    "order of a dict": (of({"a": 1.0, "b": 2}), of({"b": 5, "a": 0.0})),
    "position and keyword": (of(1.0, 2.0), of(1.0, y=2.0)),
    "order of keywords": (of(x=1.0, y=2), of(y=3, x=4.0)),
    "same static value": (of(1.0, n=3), of(2.0, n=3)),
    "other static value": (of(1.0, n=3), of(1.0, n=4)),
    "static 1 and True": (of(1.0, n=1), of(1.0, n=True)),
}


# %% nbgrader={"grade": false, "grade_id": "cache-key", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cache_key(args, kwargs, static=()):
    """The key of one call. args: tuple; kwargs: dict; static: names of static keyword arguments. Returns a hashable."""
    ### BEGIN SOLUTION
    # Packing, types, static values. 1 == True, so a static value needs its type beside it.
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    fixed = frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)
    return packing, tuple(map(jax.typeof, leaves)), fixed
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "cache-key-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The key agrees with JAX on every pair of calls, and drives a jit of its own."""
advice = {
    "other value": "A value is in your key; JAX looks at the type of an array only.",
    "same shape, other values": "A value is in your key; JAX looks at the type of an array only.",
    "order of a dict": "jax.tree.flatten sorts the keys of a dict; writing it as text does not.",
    "order of keywords": "kwargs is a dict, so its order does not count.",
    "NumPy and JAX": "JAX reads a NumPy float64 array as float32: ask jax.typeof, not the array.",
    "same static value": "Only the static value counts; the other argument is an ordinary one.",
    "weak and strong": "Shape and dtype are the same; what else does jax.typeof show?",
    "list and tuple": "The leaves are the same; the packing is not.",
    "two lists of three": "The leaves are the same; the packing is not.",
    "position and keyword": "The leaves are the same; the packing is not.",
    "static 1 and True": "1 == True in Python, and their hashes are equal: keep the type beside the value.",
}


def one_key(first, second, static):
    return len({cache_key(args, dict(kwargs), static) for args, kwargs in (first, second)}) == 1


assert_equal(
    {name: one_key(*pair, ("n",)) for name, pair in PAIRS.items()},
    {name: same_trace(*pair, ("n",)) for name, pair in PAIRS.items()},
    hints=advice,
    name="cache_key",
)


def run_with_tiny_jit(calls):
    """What a function under tiny_jit returns for each call, and how many programs it has compiled."""
    programs = {}
    times = tiny_jit(lambda x, y=1.0: x * y, programs)
    return [np.asarray(times(*args, **kwargs)) for args, kwargs in calls], len(programs)


numbers = [of(2.0), of(3.0), of(np.float32(2)), of(2.0, 3.0), of(2.0, y=3.0)]
calls = [*numbers, of(np.ones(2), y=7.0), of(jnp.ones(2), y=8.0)]
results, compiled = run_with_tiny_jit(calls)
expected = [np.float32(args[0] * (*args, *kwargs.values(), 1.0)[1]) for args, kwargs in calls]
assert_allclose(results, expected, name="tiny_jit")
filled = "programs in the cache of tiny_jit"
assert_equal({filled: compiled}, {filled: 5}, name="cache_key")
### BEGIN HIDDEN TESTS


def point_class():
    class Point(NamedTuple):
        x: float
        y: int

    return Point


def fresh_pairs():
    Point, OtherPoint = point_class(), point_class()
    return {
        "bool and int": (of(True), of(1)),
        "True, and NumPy's True": (of(True), of(np.True_)),
        "a complex number, and NumPy's complex64": (of(1j), of(np.complex64(2))),
        "float16": (of(np.ones(2, np.float16)), of(np.ones(2, np.float32))),
        "two dicts": (of({"a": 1.0}), of({"b": 1.0})),
        "None and nothing": (of(1.0, None), of(1.0)),
        "nested": (of({"w": [np.ones(2), 1.0]}), of({"w": [np.zeros(2), 7.5]})),
        "nested, other": (of({"w": [np.ones(2), 1.0]}), of({"w": [np.ones(2), 1]})),
        "rank": (of(np.ones((1, 3))), of(np.ones(3))),
        "jnp.array": (of(jnp.array(2.0)), of(2.0)),
        "two arguments, swapped": (of(1.0, 2), of(2, 1.0)),
        "static 2 and 2.0": (of(n=2), of(n=2.0)),
        "static text": (of(1.0, n="sum"), of(3.0, n="sum")),
        "static, two names": (of(1.0, n=1, m=2), of(1.0, m=2, n=1)),
        "static, exchanged": (of(1.0, n=1, m=2), of(1.0, n=2, m=1)),
        "static, the second name": (of(1.0, m=1), of(1.0, m=2)),
        "static, one value under two names": (of(1.0, n=3), of(1.0, m=3)),
        "static 1 and '1'": (of(n=1), of(n="1")),
        "static -1 and -2": (of(n=-1), of(n=-2)),
        "a named tuple and a tuple": (of(Point(1.0, 2)), of((1.0, 2))),
        "nothing in a list and in a tuple": (of([], 1.0), of((), 1.0)),
        "NumPy's int64": (of(np.arange(3)), of(jnp.arange(3))),
        "a weak array, and a number": (of(jnp.sin(1.0)), of(2.0)),
        "a weak array, and a strong one": (of(jnp.sin(1.0)), of(jnp.float32(2))),
        "a tuple and a list in a list": (of([(1.0,)]), of([[1.0]])),
        "None in a list": (of([1.0, None]), of([1.0])),
        "None at another place": (of([None, 1.0]), of([1.0, None])),
        "static 0.0 and -0.0": (of(n=0.0), of(n=-0.0)),
        "static, equal and written differently": (of(n=range(0, 3, 2)), of(n=range(0, 4, 2))),
        "static, equal tuples": (of(n=(1, 2)), of(n=(1.0, True + 1))),
        "static None, and nothing": (of(1.0, n=None), of(1.0)),
        "static True, and NumPy's True": (of(n=True), of(n=np.True_)),
        "NumPy's float64, and a number": (of(np.float64(1)), of(1.0)),
        "NumPy's float64, and NumPy's float32": (of(np.float64(1)), of(np.float32(2))),
        "two named tuples of one name": (of(Point(1.0, 2)), of(OtherPoint(1.0, 2))),
        "a list and a tuple by keyword": (of(y=[1.0]), of(y=(1.0,))),
        "two keywords of three numbers": (of(y=[1.0], z=[2.0, 3.0]), of(y=[1.0, 2.0], z=[3.0])),
    }


def pairs_of_other_names():
    return {  # static is axis alone
        "static axis": (of(1.0, axis=0), of(1.0, axis=1)),
        "the same static axis": (of(1.0, axis=0, scale=2.0), of(5.0, axis=0, scale=3.0)),
        "an n that is not static": (of(1.0, n=1, axis=0), of(1.0, n=2, axis=0)),
        "two names that are not static": (of(scale=1.0), of(shift=1.0)),
    }


def keys_agree(pairs, static):
    """Name of each pair -> whether its keys are equal, found without a trace."""
    made = pairs()
    with jax.no_tracing(True):  # an error for any trace
        return {name: one_key(*pair, static) for name, pair in made.items()}


said = keys_agree(fresh_pairs, ("n", "m")) | keys_agree(pairs_of_other_names, ("axis",))
traces_shared = {name: same_trace(*pair, ("n", "m")) for name, pair in fresh_pairs().items()}
traces_shared |= {name: same_trace(*pair, ("axis",)) for name, pair in pairs_of_other_names().items()}
assert_equal(said, traces_shared, hints=advice, name="cache_key")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 7 · minijit: remember (4 points)
#
# Your `minijit` of units 02 and 03 (a correct one stands below, read it or skip it) traces in every call. A jit that
# does not remember is slower than none. Give it a memory, and let it say why it traces. Write three functions:
#
# - `signature(args)` is what a trace depends on: a hashable value, a tuple with one pair for each argument, its `Type`
#   and whether it is weak. A plain Python number (an `int` or a `float`) is weak, everything else is not, `True`
#   included;
# - `reason_for(known, new)` says why there is no tape (`minijit`'s own jaxpr) for the signature `new`. The list `known`
#   holds the signatures that have a tape, oldest first. The function compares with the **closest**: the known signature
#   in which the fewest arguments differ, and of several the latest. The wording is in the docstring;
# - `minijit(fn)` returns the jitted function. The tapes belong to `fn` itself, as in JAX: `CACHE[fn]` is a dict from
#   signature to tape, and whoever jits the same function object again finds them there. Without this entry `fn` is
#   traced again.
#
# Here are no containers and no static arguments, so this key is simpler than that of task 6. The check runs programs
# with `jax.jit` and with your `minijit`, and compares the counts.
#
# <details><summary>Hint 1</summary>
# A trace happens where a dict has no entry. In which order do the entries of a dict stand? (<code>reasons</code>, in
# the cell below, uses that.)
# </details>
# <details><summary>Hint 2</summary>
# <code>CACHE.setdefault(fn, {})</code> is the dict of fn, made if need be. After some calls of
# <code>minijit(f)</code>, look at <code>reasons(f)</code>, and at
# <code>for tape in CACHE[f].values(): print(tape)</code>.
# </details>
# <details><summary>Hint 3</summary>
#
# ```python
# def signature(args):
#     return tuple((type_of(x), is_number(x)) for x in args)
#
# def reason_for(known, new):
#     ...no signature known: "first call"...
#     alike = [old for old in reversed(known) if len(old) == len(new)]
#     ...none alike: "2 arguments"...
#     # min takes the first of equals:
#     closest = min(alike, key=lambda old: ...how many entries differ...)
#     return ", ".join(f"argument {i}: {told(...)} -> {told(...)}" for ...)
#
# def minijit(fn):
#     def jitted(*args):
#         tapes, key = CACHE.setdefault(fn, {}), signature(args)
#         if key not in tapes:
#             tapes[key] = trace(fn, ...the types in the key...)
#         return tapes[key].play(*args)
#
#     return jitted
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "minijit-05-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Type(NamedTuple):
    """All that is known of a value while a tape is written."""

    shape: tuple
    dtype: str  # "float32", "int32" or "bool"

    def __str__(self):
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def type_of(x):
    if isinstance(x, Tracer):
        return x.type
    x = np.asarray(x)
    return Type(x.shape, {"f": "float32", "i": "int32", "b": "bool"}[x.dtype.kind])


def is_number(x):
    return type(x) in (int, float)


def lift(x):
    """x as an array of its type; a tracer as it is."""
    return x if isinstance(x, Tracer) else np.asarray(x, type_of(x).dtype)


class Tape:
    """Equations are tuples (name, primitive, operands, params). A str is a name, the rest is itself."""

    def __init__(self):
        self.types, self.inputs, self.equations, self.output = {}, [], [], None
        self.made = []  # weak references: they do not keep a tracer alive

    def new(self, type):
        """A tracer with the next free name: a, b, ..., z, a1, b1, ..."""
        letter, round = string.ascii_lowercase[len(self.types) % 26], len(self.types) // 26
        tracer = Tracer(self, f"{letter}{round or ''}", type)
        self.types[tracer.name] = type
        self.made.append(weakref.ref(tracer))
        return tracer

    def refer(self, x):
        """What stands on this tape for x: the name of a tracer of its own; anything else as it is."""
        return x.name if isinstance(x, Tracer) and x.tape is self else x

    def play(self, *args):
        """Run the tape and return its result."""
        return read(replay(self, *args), self.output)

    def __str__(self):
        def typed(name):
            return f"{name}:{self.types[name]}".replace("float", "f").replace("int", "i")

        def shown(x):
            return x if isinstance(x, str) else str(x) if is_number(x) else f"<{type_of(x)}>"

        lines = [f"{{ lambda ; {' '.join(map(typed, self.inputs))}. let"]
        for output, primitive, operands, params in self.equations:
            options = " ".join(f"{key}={value}" for key, value in params.items())
            primitive += f"[{options}]" if options else ""
            lines.append(f"    {typed(output)} = {primitive} {' '.join(map(shown, operands))}")
        return "\n".join([*lines, f"  in ({shown(self.output)},) }}"])


class Refused(Exception):
    """minijit would break its promise for this function, and says why it will not."""


class NoValue(Refused):
    """Somebody asked a tracer for its value."""


class Leak(Refused):
    """A tracer outlived the tape it belongs to."""


class Effect(Refused):
    """Something outside the function changed while its tape was written."""


class Tracer(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for a value that is not there yet. Whatever NumPy is asked to do with it goes on its tape."""

    def __init__(self, tape, name, type):
        self.tape, self.name, self.type = tape, name, type
        self.shape, self.dtype, self.ndim = type.shape, type.dtype, len(type.shape)

    def __array_ufunc__(self, ufunc, method, *operands, out=()):  # np.sin(tracer) comes here, 2 * tracer too
        if method != "__call__" or ufunc not in NAMES or not all(isinstance(x, Tracer) for x in out):
            raise TypeError(f"minijit has no primitive for this use of np.{ufunc.__name__}")
        return bind(NAMES[ufunc], *operands)

    def sum(self, axis=None, out=None):  # np.sum(tracer) comes here
        if axis is not None:
            return bind("sum", self, axis=axis % self.ndim)
        return bind("sum", self, axis=0).sum() if self.ndim else self

    def no_value(self, *_, **__):
        raise NoValue(f"the value of {self.name}:{self.type} was asked for; a tracer has only a type")

    __bool__ = __int__ = __float__ = __array__ = no_value


def spread(x, axis, size):
    """`size` copies of x along a new axis. sum takes an axis away, spread brings one in."""
    return np.repeat(np.expand_dims(x, axis), size, axis)


NAMES = {np.add: "add", np.subtract: "sub", np.multiply: "mul", np.negative: "neg"}
NAMES |= {np.sin: "sin", np.cos: "cos", np.exp: "exp", np.greater: "gt", np.less: "lt"}
RUN = {name: function for function, name in NAMES.items()} | {"spread": spread}
RUN["sum"] = lambda x, axis: np.sum(x, axis, dtype=x.dtype)


def bind(primitive, *operands, **params):
    """Apply a primitive: at once, with NumPy; or, if a tracer takes part, on the tape."""
    if not any(isinstance(x, Tracer) for x in operands):
        return RUN[primitive](*operands, **params)
    return record(primitive, operands if "axis" in params else match(operands), params)


def match(operands):
    """Give all operands one shape. As in NumPy, missing axes go in front; a plain number fits as it is."""
    operands = [x if is_number(x) else lift(x) for x in operands]
    longest = max((type_of(x).shape for x in operands), key=len)
    for i, x in enumerate(operands):
        while not is_number(x) and x.ndim < len(longest):
            x = operands[i] = bind("spread", x, axis=0, size=longest[-1 - x.ndim])
    return operands


def result_type(primitive, operands, params):
    """The type of a result, from the types of its operands."""
    shape, dtype = type_of(operands[0])
    if "axis" in params:
        before, after = shape[: params["axis"]], shape[params["axis"] :]
        return Type(before + ((params["size"], *after) if primitive == "spread" else after[1:]), dtype)
    types = [type_of(x) for x in operands if not is_number(x)]
    dtypes = {t.dtype for t in types} - {"bool"}
    dtypes |= {"float32" for x in operands if type(x) is float or primitive in ("sin", "cos", "exp")}
    if len(dtypes) != 1 or len({t.shape for t in types}) != 1:
        raise TypeError(f"minijit cannot {primitive} " + " and ".join(str(type_of(x)) for x in operands))
    return Type(types[0].shape, "bool" if primitive in ("gt", "lt") else dtypes.pop())


OPEN = []  # the tapes that are being written, the innermost last


@contextlib.contextmanager
def writing(tape):
    OPEN.append(tape)
    try:
        yield
    finally:
        OPEN.pop()


def tape_for(operands):
    """The innermost open tape among those of the operands."""
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed: somebody kept it")
    return max((x.tape for x in tracers), key=OPEN.index)


def record(primitive, operands, params):
    """Write one equation; return the tracer of its result."""
    tape = tape_for(operands)
    result = tape.new(result_type(primitive, operands, params))
    tape.equations.append((result.name, primitive, tuple(map(tape.refer, operands)), params))
    return result


def write(tape, fn, types):
    """Run fn once, on tracers of these types."""
    result = fn(*map(tape.new, types))
    tape.inputs, tape.output = list(tape.types)[: len(types)], tape.refer(result)


def visible(fn):
    """The plain data outside itself that a Python function names, in a form to compare: name -> text."""
    if not inspect.isfunction(fn):
        return {}
    outside = inspect.getclosurevars(fn)
    plain = {**outside.globals, **outside.nonlocals}.items()
    return {name: repr(x) for name, x in plain if isinstance(x, (int, float, str, list, dict, set))}


def survivors(tape):
    """The tracers of a tape that somebody still holds."""
    if any(reference() is not None for reference in tape.made):
        gc.collect()  # what lives only in a reference cycle is held by nobody
    return [tracer for reference in tape.made if (tracer := reference()) is not None]


def trace(fn, *types):
    """The tape of fn for arguments of these types. Refuses a function whose tape is not the whole story."""
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed while the tape was written; no replay will do that again")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is held by somebody, and its tape is closed")
    return tape


def read(values, operand):
    """A name is looked up; anything else stands for itself."""
    return values[operand] if isinstance(operand, str) else operand


def replay(tape, *args):
    """Run a tape; return the value of every name on it."""
    values = dict(zip(tape.inputs, map(lift, args), strict=True))
    for output, primitive, operands, params in tape.equations:
        values[output] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


# %% [markdown]
# That was units 02 and 03. From here it is unit 05.

# %% nbgrader={"grade": false, "grade_id": "minijit-cache-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
CACHE = weakref.WeakKeyDictionary()  # function -> {signature: tape}


def told(entry):
    """One entry of a signature, in words."""
    type, weak = entry
    return f"weak {type}" if weak else str(type)


def reasons(fn):
    """Why fn was traced, one reason for each trace."""
    known = list(CACHE.get(fn, {}))
    return [reason_for(known[:i], new) for i, new in enumerate(known)]


# %% nbgrader={"grade": false, "grade_id": "minijit-cache", "locked": false, "schema_version": 3, "solution": true, "task": false}
def signature(args):
    """What a trace depends on: a tuple with (Type, weak) for each argument. Only a plain number is weak."""
    ### BEGIN SOLUTION
    # No value is in it, so all values of one type share a tape.
    return tuple((type_of(x), is_number(x)) for x in args)
    ### END SOLUTION


def reason_for(known, new):
    """Why the signature `new` has no tape, given the list `known` of those that have one, oldest first.

    "first call" if known is empty; "2 arguments" (or "1 argument") if no known one has as many arguments;
    else each argument that differs from the closest, in order, joined by ", ":
    "argument 0: float32[3] -> float32[4], argument 2: weak float32[] -> float32[]". told gives the texts.
    The list known stays as it is.
    """
    ### BEGIN SOLUTION
    # The closest tape is the one that would have served, but for what the reason names.
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)
    ### END SOLUTION


def minijit(fn):
    """fn, traced once for each signature, and then replayed. The tapes of fn are in CACHE[fn]."""

    ### BEGIN SOLUTION
    # If trace refuses, nothing is stored: the next call asks again.
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minijit-cache-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The right values, and as many traces as jax.jit makes for the same calls."""


def new_values(jit, f):
    g = jit(f)
    return [g(1.0), g(2.5), g(-3.0)]


def new_shapes(jit, f):
    g = jit(f)
    return [g(np.ones(n, np.float32)) for n in (2, 3, 2, 3)]


def int_and_float(jit, f):
    g = jit(f)
    return [g(1), g(1.0), g(2), g(2.0)]


def weak_and_strong(jit, f):
    g = jit(f)
    return [g(1.0), g(np.float32(1)), g(np.float64(2)), g(np.array(3.0)), g(4.0)]


def sixty_four_bits(jit, f):
    g = jit(f)
    return [g(np.ones(3)), g(np.ones(3, np.float32)), g(np.arange(3)), g(np.arange(3, dtype=np.int32))]


def two_arguments(jit, f):
    g = jit(f)
    x = np.ones(2, np.float32)
    return [g(x, 1.0), g(x, 2.0), g(x, x), g(x, np.float32(3)), g(x + 1)]


def running_total_mini(jit, f):
    g, total = jit(f), 0.0
    for value in np.arange(4, dtype=np.float32):
        total = g(total, value)
    return [total]


def same_function_again(jit, f):
    return [jit(f)(float(n)) for n in range(3)]


def new_lambda_again(jit, f):
    return [jit(lambda x: f(x))(float(n)) for n in range(3)]


def jit_in_jit(jit, f):
    inner = jit(f)
    outer = jit(lambda x: inner(x) * 2.0)
    x = np.ones(3, np.float32)
    return [outer(x), inner(x), outer(x + 1)]


def play_program(program, jit):
    """What a program returns with this jit, and how often the body of a fresh f runs in it."""
    runs = []
    count_run = functools.partial(runs.append, 1)  # hidden behind a call, where no trace looks

    def f(x, *rest):
        count_run()
        return x * 2 + (rest[0] if rest else x)

    try:
        return program(jit, f), len(runs)
    except NotImplementedError:
        raise
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], len(runs)


def no_jit(f):
    return f


def jax_jit(f):
    """jax.jit, traced as in a call but not compiled: this cell asks for the number of traces."""
    jitted = jax.jit(f)

    def call(*args):
        inside = any(isinstance(x, jax.core.Tracer) for x in args)
        return jitted(*args) if inside else jitted.eval_shape(*args)

    return call


def assert_plays_like_jax(programs, hints=None):
    """The values of the plain functions, the number of traces of jax.jit."""
    played = {program.__name__: play_program(program, minijit) for program in programs}
    plain = {program.__name__: play_program(program, no_jit) for program in programs}
    traced = {program.__name__: play_program(program, jax_jit) for program in programs}
    assert_equal(
        {name: [np.asarray(x).tolist() for x in results] for name, (results, _) in played.items()},
        {name: [np.asarray(x).tolist() for x in results] for name, (results, _) in plain.items()},
        name="minijit (its results)",
    )
    assert_equal(
        {name: traces for name, (_, traces) in played.items()},
        {name: traces for name, (_, traces) in traced.items()},
        name="minijit (its number of traces)",
        hints=hints,
    )


cache_programs = (
    new_values,
    new_shapes,
    int_and_float,
    weak_and_strong,
    sixty_four_bits,
    two_arguments,
    running_total_mini,
    same_function_again,
    new_lambda_again,
    jit_in_jit,
)
assert_plays_like_jax(
    cache_programs,
    hints={
        "new_values": "A tape serves every value of its types: no value may be in the signature.",
        "new_shapes": "The shape is part of the type; a shape seen before has its tape.",
        "int_and_float": "1 == 1.0 in Python, but their types differ.",
        "weak_and_strong": "Only a plain number is weak: is_number knows. np.float64(2) is none.",
        "sixty_four_bits": "type_of reads 64 bits as 32, as JAX does. Ask it, not the array.",
        "running_total_mini": "total is a plain number once, an array ever after.",
        "same_function_again": "The tapes belong to fn, not to one call of minijit: CACHE[fn].",
        "new_lambda_again": "Every round makes another function, and so another entry of CACHE.",
        "jit_in_jit": "A tracer has a type like an array, and is not weak.",
    },
)
### BEGIN HIDDEN TESTS


def table_then_numbers(jit, f):
    g = jit(f)
    x, y = np.ones((2, 3), np.float32), np.zeros((3, 2), np.float32)
    return [g(x, 1.0), g(y, 1.0), g(x, 2.0), g(y, 2.0), g(1, 2), g(2, 1), g(y + 1, y)]


def float64_after_float(jit, f):
    g = jit(f)
    return [g(1.0), g(np.float64(2))]


def two_functions(jit, f):
    def h(x):
        return f(x)

    return [jit(f)(1.0), jit(h)(1.0), jit(f)(2.0), jit(h)(2.0), jit(h)(np.float32(2))]


def many_shapes(jit, f):
    g = jit(f)
    return [g(np.ones(n, np.float32)) for n in [*range(40), *range(40)]]


assert_plays_like_jax((table_then_numbers, float64_after_float, two_functions, many_shapes))


def refused_calls():
    seen = []

    def fn(x):
        seen.append(len(seen))
        return x * 2

    g = minijit(fn)
    for _ in range(3):
        try:
            yield float(g(1.0))
        except Exception as error:
            yield type(error).__name__


assert_equal(
    {"three calls of a function with an effect": list(refused_calls())},
    {"three calls of a function with an effect": ["Effect"] * 3},
    name="minijit",
    hints={"three calls of a function with an effect": "Where trace refuses there is no tape, and no entry."},
)


def places_after_a_refusal():
    """The signatures that have a place in CACHE when every trace was refused."""

    seen = []

    def fn(x):
        seen.append(len(seen))
        return x * 2

    for value in (1.0, np.ones(3)):
        with contextlib.suppress(Exception):
            minijit(fn)(value)
    return len(CACHE.get(fn, {}))


entries = {"signatures in CACHE[fn] after two refused traces": places_after_a_refusal()}
assert_equal(entries, dict.fromkeys(entries, 0), name="minijit")


def in_between(x):
    first = x * 3
    first + 1  # goes onto the tape, and nowhere else
    return first


assert_equal({"values": [float(minijit(in_between)(v)) for v in (1.0, 2.0)]}, {"values": [3.0, 6.0]}, name="minijit")


def double(x):
    return x + x


doubled = minijit(double)
doubled(1.0), doubled(np.float32(1))
CACHE.pop(double, None)
doubled(2.0)
after_loss = {"reasons, after the entry of the function was taken out of CACHE": reasons(double)}
assert_equal(after_loss, dict.fromkeys(after_loss, ["first call"]), name="minijit")
case = "signature((2, 2.5, True, np.float64(1), np.ones(3)))"
returned = signature((2, 2.5, True, np.float64(1), np.ones(3)))
weak_ones = (Type((), "int32"), True), (Type((), "float32"), True)
wanted = (*weak_ones, (Type((), "bool"), False), (Type((), "float32"), False), (Type((3,), "float32"), False))
assert_equal({case: repr(wanted if returned == wanted else returned)}, {case: repr(wanted)}, name="signature")


def without_entry(jit, f):
    return [jit(f)(1.0), CACHE.pop(f, None) and jit(f)(2.0)]


def three():
    return 3.0


again = {"traces, the entry taken out of CACHE in between": play_program(without_entry, minijit)[1]}
assert_equal(again, dict.fromkeys(again, 2), name="minijit")
alone = {"a function without arguments, twice": [float(minijit(three)()) for _ in range(2)]}
assert_equal(alone, dict.fromkeys(alone, [3.0, 3.0]), name="minijit")
held = {"tapes in CACHE[three]": [isinstance(tape, Tape) for tape in CACHE[three].values()]}
assert_equal(held, dict.fromkeys(held, [True]), name="minijit")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "minijit-cache-reasons", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Every trace has its reason, told against the closest tape."""


def entry(shape, weak=False, dtype="float32"):
    return Type(shape, dtype), weak


three, four, number, weak_number = entry((3,)), entry((4,)), entry(()), entry((), True)
mini_signatures = {  # case: (known, new, reason)
    "nothing known": ([], (three,), "first call"),
    "another shape": ([(three,)], (four,), "argument 0: float32[3] -> float32[4]"),
    "weak": ([(number,)], (weak_number,), "argument 0: float32[] -> weak float32[]"),
    "a number more": ([(three,)], (three, number), "2 arguments"),
    "one argument": ([(three, number)], (three,), "1 argument"),
    "two differ": (
        [(three, three, number)],
        (four, three, weak_number),
        "argument 0: float32[3] -> float32[4], argument 2: float32[] -> weak float32[]",
    ),
    "the latest of two as close": (
        [(three, number), (four, weak_number)],
        (three, weak_number),
        "argument 0: float32[4] -> float32[3]",
    ),
    "the oldest is the closest": (
        [(three, number, three), (four, weak_number, three)],
        (three, number, four),
        "argument 2: float32[3] -> float32[4]",
    ),
}


def reason_told(known, new):
    try:
        return reason_for(known, new)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


reason_hints = {
    "nothing known": "An empty list of known signatures is a case of its own.",
    "weak": "told((type, weak)) writes the word weak.",
    "a number more": "Signatures of another length cannot be compared one by one.",
    "one argument": "1 argument, without s.",
    "two differ": "Name every argument that differs, and no other.",
    "the latest of two as close": "One argument differs from each; the latest of equals counts.",
    "the oldest is the closest": "Count the differing arguments: the latest signature differs in more.",
}
assert_equal(
    {case: reason_told(known, new) for case, (known, new, _) in mini_signatures.items()},
    {case: reason for case, (_, _, reason) in mini_signatures.items()},
    name="reason_for",
    hints=reason_hints,
)


def mini_blend(x, y):
    return x * y - x


blend = minijit(mini_blend)
for args in ((1.0, 2.0), (3.0, 4.0), (np.ones(3), 2.0), (np.zeros(3), 5.0), (np.ones(3), np.ones(3)), (2, 3)):
    blend(*args)
told_reasons = [
    "first call",
    "argument 0: weak float32[] -> float32[3]",
    "argument 1: weak float32[] -> float32[3]",
    "argument 0: float32[3] -> weak int32[], argument 1: float32[3] -> weak int32[]",
]
blend_reasons = reasons(mini_blend)
assert_equal({"reasons": blend_reasons}, {"reasons": told_reasons}, name="reasons(mini_blend)")
### BEGIN HIDDEN TESTS
hidden_signatures = {
    "several lengths": (
        [(three,), (three, four), (four,)],
        (number, four),
        "argument 0: float32[3] -> float32[]",
    ),
    "nothing of this length": ([(three,), (four,)], (), "0 arguments"),
    "one in the middle is the closest": (
        [(four, four, number), (three, three, number), (four, weak_number, number)],
        (three, three, weak_number),
        "argument 2: float32[] -> weak float32[]",
    ),
    "the latest is shorter": ([(three, number), (three,)], (four, number), "argument 0: float32[3] -> float32[4]"),
    "all differ": (
        [(three, three), (four, four)],
        (entry((), dtype="int32"), weak_number),
        "argument 0: float32[4] -> int32[], argument 1: float32[4] -> weak float32[]",
    ),
}
assert_equal(
    {case: reason_told(known, new) for case, (known, new, _) in hidden_signatures.items()},
    {case: reason for case, (_, _, reason) in hidden_signatures.items()},
    name="reason_for",
)
known, new, reason = mini_signatures["the latest of two as close"]
known, case = list(known), "asked twice, of one list of known signatures"
assert_equal(
    {case: [reason_told(known, new) for _ in range(2)], "known afterwards": known},
    {case: [reason] * 2, "known afterwards": list(mini_signatures["the latest of two as close"][0])},
    hints={case: "Whoever asks keeps that list, and may ask again: leave it as it is."},
    name="reason_for",
)


def in_turn(x, y):
    return x * 3


taken = minijit(in_turn)
for args in ((np.ones(3), 1.0), (np.ones(4), 2), (np.ones(3), 5.0), (np.ones(3), 2)):  # the third one has a tape
    taken(*args)
in_order = ["first call", "argument 0: float32[3] -> float32[4], argument 1: weak float32[] -> weak int32[]"]
in_order += ["argument 0: float32[4] -> float32[3]"]
assert_equal(
    {"reasons, in the order of the traces": reasons(in_turn)},
    {"reasons, in the order of the traces": in_order},
    name="minijit",
)
### END HIDDEN TESTS
