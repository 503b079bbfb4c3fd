# %% [markdown]
# # Exercise 06 · Loops that compile
#
# Six tasks, 20 points, about {duration}. The lesson is
# [06 · Loops that compile](../../lessons/06_loops_that_compile.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. A check that fails says
# what happened and what to try. Three hints wait under each task, from a nudge to a skeleton. Where a check is folded,
# its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say which loop ends up on the tape (the jaxpr), how many copies of its body, and whether it has a gradient | 3 |
# | 2 | grow a universe of cells, with its history and without | 5 |
# | 3 | fly with Collatz, until it lands | 2 |
# | 4 | build a computer whose programs need no compiling | 4 |
# | 5 | give a sliding puck a gradient | 3 |
# | 6 | read a text without reading it from left to right | 3 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import lax

from autograder import (
    assert_allclose,
    assert_equal,
    assert_max_traces,
    assert_prediction,
    assert_primitives,
    partial_credit,
    show_jaxpr,
    speedup,
)

plt.style.use("autograder.course")

# %% [markdown]
# ## Task 1 · The loop oracle (3 points)
#
# Eleven small programs. Each takes a sine in four rounds, or chooses between one sine and two. Predict, **before** you
# run anything:
#
# - `on_the_tape()`: for each program in `PROGRAMS`, a list of two things. The first is the primitive that does the
#   looping or choosing: `"scan"`, `"while"`, `"cond"`, `"select_n"`, or `"none"` if there is none of these. The second
#   is how many `sin` equations stand on the tape, all inner tapes included.
# - `has_gradient()`: for each program in `LOOPS`, `True` if `jax.grad` with respect to `x` works, `False` if it raises.
#   (`lax.stop_gradient(x)` is `x`, but the derivative takes it for a constant.)
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# For a loop ask what JAX knows while it traces: the number of rounds, or not? For a choice: can the inputs of one call
# disagree?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(PROGRAMS["fori_fixed"], 0.5).primitives</code> for one program at a time, after you have written down
# your own answer for it. For a gradient: <code>jax.grad(LOOPS["fori_fixed"])(0.5)</code>.
# </details>
# <details><summary>Hint 3</summary>
# Known number of rounds: <code>scan</code>. Unknown: <code>while</code>, and no reverse mode <em>through</em> it. A
# loop's body stands on the tape once; of a choice, both sides stand there. A Python loop leaves no loop behind.
# </details>


# %% nbgrader={"grade": false, "grade_id": "oracle-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def fori(x, n):
    return lax.fori_loop(0, n, lambda i, x: jnp.sin(x), x)


def python_for(x):
    for _ in range(4):
        x = jnp.sin(x)
    return x


def fori_fixed(x):
    return fori(x, 4)


def fori_jitted(x):
    return jax.jit(fori)(x, 4)  # n is an argument of the jit


def fori_static(x):
    return jax.jit(fori, static_argnums=1)(x, 4)


def while_counting(x):
    return lax.while_loop(lambda ix: ix[0] < 4, lambda ix: (ix[0] + 1, jnp.sin(ix[1])), (0, x))[1]


def scan_unrolled(x):
    return lax.scan(lambda x, _: (jnp.sin(x), None), x, None, length=4, unroll=4)[0]  # 4 rounds at once, in lowering


def while_behind_a_stop(x):
    return x * while_counting(lax.stop_gradient(x))


def once_or_twice(pred, x):
    return lax.cond(pred, jnp.sin, lambda x: jnp.sin(jnp.sin(x)), x)


def cond_known(x):
    return once_or_twice(True, x)


def cond_of_shape(x):
    return jnp.sin(x) if jnp.ndim(x) == 0 else jnp.sin(jnp.sin(x))


def cond_batched(x):
    return jax.vmap(lambda x: once_or_twice(x > 0, x))(jnp.stack([x, -x])).sum()


def cond_batched_alike(x):
    return jax.vmap(once_or_twice, in_axes=(None, 0))(x > 0, jnp.stack([x, -x])).sum()


LOOPS = {
    fn.__name__: fn
    for fn in (
        python_for,
        fori_fixed,
        fori_jitted,
        fori_static,
        while_counting,
        scan_unrolled,
        while_behind_a_stop,
    )
}
PROGRAMS = LOOPS | {fn.__name__: fn for fn in (cond_known, cond_of_shape, cond_batched, cond_batched_alike)}


# %% nbgrader={"grade": false, "grade_id": "oracle", "locked": false, "schema_version": 3, "solution": true, "task": false}
def on_the_tape():
    """Name of each program in PROGRAMS -> [primitive, number of sin equations]."""
    ### BEGIN SOLUTION
    # A body stands on the tape once, however often it runs; of a choice, every side stands there.
    return {
        "python_for": ["none", 4],
        "fori_fixed": ["scan", 1],
        "fori_jitted": ["while", 1],
        "fori_static": ["scan", 1],
        "while_counting": ["while", 1],
        "scan_unrolled": ["scan", 1],
        "while_behind_a_stop": ["while", 1],
        "cond_known": ["cond", 3],
        "cond_of_shape": ["none", 1],
        "cond_batched": ["select_n", 3],
        "cond_batched_alike": ["cond", 3],
    }
    ### END SOLUTION


def has_gradient():
    """Name of each program in LOOPS -> whether jax.grad works."""
    ### BEGIN SOLUTION
    # Only a while that the derivative has to pass through is in the way.
    return {
        "python_for": True,
        "fori_fixed": True,
        "fori_jitted": False,
        "fori_static": True,
        "while_counting": False,
        "scan_unrolled": True,
        "while_behind_a_stop": True,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "oracle-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. What stands on the tape, and how often."""


def read_the_tape(program):
    tape = show_jaxpr(program, 0.5).primitives
    found = [name for name in ("scan", "while", "cond", "select_n") if tape[name]]
    return [*(found or ["none"]), tape["sin"]]


assert_prediction(
    on_the_tape,
    lambda: {name: read_the_tape(program) for name, program in PROGRAMS.items()},
    hints={
        "python_for": "Python's loop runs while JAX traces. What is left of it on the tape?",
        "fori_fixed": "Both bounds are Python integers, so the number of rounds is known while tracing.",
        "fori_jitted": "Inside this jit, n is a tracer: nobody knows the number of rounds.",
        "fori_static": "A static n is a Python integer inside the jit.",
        "while_counting": "The condition could be anything. JAX does not look into it to count.",
        "scan_unrolled": "unroll is done when the jaxpr is lowered. The tape comes before the compiler.",
        "while_behind_a_stop": "Stopping a gradient does not change what is computed.",
        "cond_known": "lax.cond asks no questions while tracing: how many sides are traced?",
        "cond_of_shape": "This is a Python if, on something that is known while tracing.",
        "cond_batched": "The inputs of one call can disagree. What does vmap do then?",
        "cond_batched_alike": "Here all of the batch goes the same way, and vmap knows it.",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "oracle-gradient-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Which of the loops have a gradient."""


def grad_works(program):
    try:
        jax.grad(program)(0.5)
    except ValueError:
        return False
    return True


assert_prediction(
    has_gradient,
    lambda: {name: grad_works(program) for name, program in LOOPS.items()},
    hints={
        "python_for": "Four sines in a row. What should be in the way?",
        "fori_fixed": "Which primitive is it? Does that one know its length?",
        "fori_jitted": "Which primitive is it? Does that one know its length?",
        "fori_static": "Which primitive is it? Does that one know its length?",
        "while_counting": "You know that it runs four times. Does JAX?",
        "scan_unrolled": "Which primitive is it? Does that one know its length?",
        "while_behind_a_stop": "Reverse mode only has to walk back through what x's derivative depends on.",
    },
)

# %% [markdown]
# ## Task 2 · A universe in one number (5 points)
#
# A row of cells, each 0 or 1, on a ring. In every step each cell looks at three cells: its left neighbour, itself, its
# right neighbour. Read as a binary number these three are a number from 0 to 7, and the bit of that place in `rule` is
# the cell's next value. So each `rule`, a number from 0 to 255, is a law of nature. Some of these universes are famous.
#
# `universe_slow` needs three nested loops. Take them apart as in the lesson:
#
# - `step(row, rule)`: one step for all cells at once, no loop.
# - `history(row, rule, steps)`: jitted; every row from the first to the last. One trace serves all rules; a new `steps`
#   may cost one, since it decides a shape. A longer row or more steps add no equation.
# - `evolve(row, rule, steps)`: jitted; only the last row. **One trace for all rules and all numbers of steps** of one type,
#   so there is a `while` on its tape. A longer row adds no equation.
#
# None of them calls back into Python.
#
# The last check measures a thousand steps of `evolve` against a Python loop around a jitted step: "jit the expensive
# part", as the older post has it. 20x earns 1 point, 30x earns 2.
#
# <details><summary>Hint 1</summary>
# In which of the three loops does a round have to wait for the round before? <code>jnp.roll(row, 1)</code> shows each
# cell its left neighbour.
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(history, one_cell(31), 30, 5)</code> draws the tape. And
# <code>with trace_log(evolve) as log: ...</code> (from <code>autograder</code>) says why it was traced again. Which of
# the loops of the lesson knows its length, and which need not? (Mind the types: <code>jnp.convolve</code> makes
# floats.)
# </details>
# <details><summary>Hint 3</summary>
# <code>step</code>: <code>(rule >> neighbourhood) & 1</code>. <code>history</code>: a <code>lax.scan</code> whose body
# returns <code>new, new</code>, with <code>length=steps</code> and <code>steps</code> static; put the first row in
# front. <code>evolve</code>: <code>lax.fori_loop(0, steps, lambda i, row: ..., row)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "universe-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def universe_slow(row, rule, steps):
    """All rows of the history, int32[steps + 1, n]. row: int32[n] of zeros and ones; rule: 0 to 255."""
    rows = [np.asarray(row)]
    for _ in range(steps):
        old, new = rows[-1], np.zeros_like(rows[-1])
        for i in range(len(old)):
            neighbourhood = 0
            for cell in (old[i - 1], old[i], old[(i + 1) % len(old)]):  # left, itself, right
                neighbourhood = 2 * neighbourhood + cell
            new[i] = (rule >> neighbourhood) & 1
        rows.append(new)
    return np.stack(rows)


def one_cell(n):
    """A row of n cells, all 0 but the one in the middle."""
    return np.eye(n, dtype=np.int32)[n // 2]


# %% nbgrader={"grade": false, "grade_id": "universe", "locked": false, "schema_version": 3, "solution": true, "task": false}
def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    ### BEGIN SOLUTION
    # All cells of a row come from the row before: one array operation.
    neighbourhood = 4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)
    return (rule >> neighbourhood) & 1
    ### END SOLUTION


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    ### BEGIN SOLUTION
    # A scan keeps a result of every round, so it has to know how many there will be.
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])
    ### END SOLUTION


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    ### BEGIN SOLUTION
    # Nothing is kept, so the number of steps may be an ordinary argument: fori_loop becomes a while.
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "universe-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The right history, one scan, and one trace for every law of nature."""
row = one_cell(31)
callbacks = {"pure_callback", "io_callback"}
assert_primitives(history, row, 30, 50, includes={"scan"}, excludes=callbacks, smaller=(one_cell(11), 30, 20))
for rule in (110, 30, 90):
    expected = universe_slow(row, rule, 24)
    assert_allclose(step(jnp.asarray(expected[20]), rule), expected[21], name=f"step(row, {rule})")
    assert_allclose(history(row, rule, steps=24), expected, name=f"history(row, {rule}, steps=24)")
assert_primitives(step, row, 30, excludes={"scan", "while", *callbacks}, smaller=(one_cell(11), 30))
with assert_max_traces(history, 1):
    for rule in range(0, 256, 15):
        history(row, rule, steps=24)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
row = rng.integers(0, 2, rng.integers(33, 60)).astype(np.int32)
row[7:10] = 1  # rules from 128 on let a cell live between two living ones
for rule in rng.integers((0, 0, 128, 128), (128, 128, 256, 256)).tolist():
    assert_allclose(history(row, rule, steps=9), universe_slow(row, rule, 9), name=f"history(row, {rule}, steps=9)")
for few in map(np.int32, ([1], [0], [1, 0], [0, 1], [1, 1], [0, 1, 1])):
    assert_primitives(step, few, 30, excludes={"scan", "while"})
    for rule in (170, 204, 240, 110, 57):  # 170 looks at the right neighbour alone, 240 at the left
        expected = universe_slow(few, rule, 1)[1]
        assert_allclose(step(jnp.array(few), rule), expected, name=f"step of {len(few)} cells, rule {rule}")
assert_primitives(step, one_cell(3000), 30, excludes={"scan", "while"}, smaller=(one_cell(11), 30))
assert_allclose(history(row, 30, steps=0), row[None], name="history(row, 30, steps=0)")
assert_allclose(history(row, 30, steps=700), universe_slow(row, 30, 700), name="history(row, 30, steps=700)")
assert_primitives(history, one_cell(3000), 30, 5000, includes={"scan"}, smaller=(one_cell(11), 30, 20))
shifted = np.stack([np.roll(row, -t) for t in range(5001)])  # rule 170 moves a row to the left
assert_allclose(history(row, 170, steps=5000), shifted, name="history(row, 170, steps=5000)")
both = jax.jit(lambda row, rule: (step(row, rule), history(row, rule, steps=9)))(row, 110)
expected = universe_slow(row, 110, 9)
assert_allclose(both, (expected[1], expected), name="step and history, under jit")
assert_primitives(history, row, 30, 16, smaller=(row, 30, 4))
assert_allclose(step(jnp.zeros(5, int), 255), np.ones(5, np.int32), name="step of an empty row, rule 255")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "universe-evolve-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. One trace serves all rules and all numbers of steps."""
row = one_cell(31)
with assert_max_traces(evolve, 1):
    for rule, steps in ((30, 0), (30, 1), (110, 24), (150, 9)):
        assert_allclose(
            evolve(row, rule, steps),
            universe_slow(row, rule, steps)[-1],
            name=f"evolve(row, {rule}, {steps})",
        )
callbacks = {"pure_callback", "io_callback"}
assert_primitives(evolve, row, 30, 1000, includes={"while"}, excludes=callbacks, smaller=(one_cell(11), 30, 1000))
### BEGIN HIDDEN TESTS
row = np.random.default_rng().integers(0, 2, 47).astype(np.int32)
for rule, steps in ((86, 13), (173, 40)):
    assert_allclose(evolve(row, rule, steps), universe_slow(row, rule, steps)[-1], name=f"evolve(row, {rule}, {steps})")
nothing = np.zeros(9, np.int32)
assert_allclose(evolve(nothing, 1, 5), universe_slow(nothing, 1, 5)[-1], name="evolve of an empty row, by rule 1")
many, more = np.random.default_rng().integers(4000, 9000, 2).tolist()
halfway = evolve(row, 30, many)
assert_allclose(evolve(row, 30, many + more), evolve(halfway, 30, more), name=f"evolve(row, 30, {many + more})")
for period, steps in ((2, 61), (3, 61), (4, 62), (5, 63), (6, 64), (7, 70_001)):  # rule 170 moves a row to the left
    row = (np.arange(420) % period == 0).astype(np.int32)
    name = f"evolve of a row that comes back after {period} steps, {steps} steps"
    assert_allclose(evolve(row, 170, steps), np.roll(row, -steps), name=name)
assert_primitives(evolve, one_cell(3000), 30, 1000, includes={"while"}, smaller=(one_cell(11), 30, 1000))
row = np.random.default_rng().integers(0, 2, 47).astype(np.int32)
assert_allclose(jax.jit(evolve)(row, 86, 13), universe_slow(row, 86, 13)[-1], name="evolve(row, 86, 13), under jit")
assert_allclose(evolve(nothing, 255, 5), universe_slow(nothing, 255, 5)[-1], name="evolve of an empty row, by rule 255")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "universe-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. A thousand steps, against a Python loop of a jitted step: 20x earns 1 point, 30x earns 2."""


@jax.jit
def jitted_step(row, rule):
    ring = jnp.pad(row, 1, mode="wrap")
    return (rule >> (4 * ring[:-2] + 2 * ring[1:-1] + ring[2:])) & 1


def jit_the_body(row, rule, steps):
    for _ in range(steps):
        row = jitted_step(row, rule)
    return row


race = speedup(evolve, jit_the_body, one_cell(32), 30, 1000, at_least=30)
### BEGIN HIDDEN TESTS
if race.at_least(20) == "pass":  # else the last line says why
    other = speedup(evolve, jit_the_body, np.random.default_rng().integers(0, 2, 500), 110, 700, at_least=5)
    assert_equal({"5x as fast for 500 cells": other.verdict}, {"5x as fast for 500 cells": "pass"}, name="evolve")
### END HIDDEN TESTS
partial_credit(race, {20: 1, 30: 2})

# %% [markdown]
# Three universes, each grown from a single cell. Rule 30 is so irregular that it has served as a random generator, rule
# 90 is Sierpinski's triangle, and rule 110 can compute anything that can be computed. Try others.

# %%
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2))
for ax, rule in zip(axes, (30, 90, 110), strict=True):
    ax.imshow(history(one_cell(201), rule, steps=100), cmap="binary", interpolation="nearest")
    ax.set(title=f"rule {rule}", xticks=[], yticks=[])
    ax.grid(visible=False)
plt.show()

# %% [markdown]
# ## Task 3 · Until it lands (2 points)
#
# Take a number. If it is even, halve it; if it is odd, take three times the number and one more. Collatz guessed in
# 1937 that you always come down to 1. Nobody knows whether that is true, and 27 makes quite a flight of it.
#
# `flight(n)`, jitted and without a callback, takes a Python integer or an `int32` and returns the number of steps until 1 is reached and the
# highest number on the way (the start counts), both as `int32`. One trace for all starts of one type, a `while` on the tape, and
# `jax.vmap` (which turns a function of one into a function of many: see
# [the words](../../lessons/00_before_you_start.ipynb#The-words)) must be able to send many at once. The check stays far
# from numbers that do not fit.
#
# <details><summary>Hint 1</summary>
# Nobody knows the number of rounds in advance. What has to go round: one number, or three?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(flight, 27)</code> shows the types of the carry (what goes round). <code>jnp.where</code> chooses
# between two integers, and <code>/</code> makes floats.
# </details>
# <details><summary>Hint 3</summary>
# <code>lax.while_loop(lambda state: state[0] != 1, body, (n, 0, n))</code>, where <code>body</code> takes
# <code>(n, steps, peak)</code> and returns the same three, one step on.
# </details>


# %% nbgrader={"grade": false, "grade_id": "flight-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def flight_slow(n):
    """(steps, peak) of the flight from n, a positive integer."""
    steps, peak = 0, n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps, peak = steps + 1, max(peak, n)
    return np.int32(steps), np.int32(peak)


# %% nbgrader={"grade": false, "grade_id": "flight", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def flight(n):
    """(steps, peak), two int32[]."""

    ### BEGIN SOLUTION
    # What the next round needs is the carry: the number, and what we want to know in the end.
    def body(state):
        n, steps, peak = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    _, steps, peak = lax.while_loop(lambda state: state[0] != 1, body, (n, 0, n))
    return steps, peak
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "flight-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. 27 takes 111 steps, and one trace serves every start."""
with assert_max_traces(flight, 1):
    for start in (27, 1, 8, 6):
        assert_allclose(flight(start), flight_slow(start), name=f"flight({start})")
assert_primitives(flight, 27, includes={"while"}, excludes={"pure_callback"})
fleet = [flight_slow(start) for start in range(1, 31)]
fleet = tuple(np.array(column) for column in zip(*fleet, strict=True))
assert_allclose(jax.vmap(flight)(np.arange(1, 31, dtype=np.int32)), fleet, name="vmap(flight)(1, 2, ..., 30)")
### BEGIN HIDDEN TESTS
for start in (
    871,
    6171,
    64,
    97,
    26623,
    370153,
    4484223,
):  # 26623 flies up to 106 million, 370153 is highest at step 200 of 391
    assert_allclose(flight(start), flight_slow(start), name=f"flight({start})")
assert_allclose(jax.jit(flight)(start), flight_slow(start), name=f"flight({start}), under jit")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · A computer (4 points)
#
# Every new Python function costs a trace and a compile, unless the program is *data*. Here is a computer with four
# registers and seven instructions; a program is an `int32[length, 3]` with a row (operation, a, b) for each
# instruction:
#
# | operation | code | does |
# |---|--:|---|
# | `HALT` | 0 | stops |
# | `SET` | 1 | `r[a] = b` |
# | `COPY` | 2 | `r[a] = r[b]` |
# | `ADD` | 3 | `r[a] = r[a] + r[b]` |
# | `MUL` | 4 | `r[a] = r[a] * r[b]` |
# | `REM` | 5 | `r[a] = r[a] % r[b]` (of positive numbers) |
# | `JNZ` | 6 | if `r[a]` is not 0, go on at instruction `b`, else at the next one |
#
# All but `HALT` and a jump go on at the next instruction. Write `computer(program, registers, limit)`, jitted: it
# starts at instruction 0 and returns the registers and the number of instructions it has done (`HALT` is not counted).
# It stops at `HALT`, whatever `a` and `b` are, or when `limit` instructions are done. Do not forget `limit`: it also
# saves you from waiting for ever. No program here goes on behind its last instruction, and none has a remainder by 0.
#
# One `while` and one `cond` on the tape, and no callback: a new instruction is a choice, not a new loop, and a longer
# program adds no equation. And **one trace for all programs of one length**.
#
# <details><summary>Hint 1</summary>
# Three things change from instruction to instruction. They are the carry. The program and <code>limit</code> do not.
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(computer, FACTORIAL, np.array([5, 0, 0, 0], np.int32), 100).primitives</code>. A traced
# <code>r[a] = v</code> is <code>r.at[a].set(v)</code>, which returns a changed copy of <code>r</code>. And
# <code>lax.switch(code, functions, *operands)</code> is one <code>cond</code> with as many branches as you like.
# </details>
# <details><summary>Hint 3</summary>
# <pre>
# def body(state):
#     at, registers, steps = state
#     code, a, b = program[at]
#     functions = [halt, set_, copy, add, mul, rem, jnz]
#     at, registers = lax.switch(code, functions, at, registers, a, b)
#     return at, registers, steps + 1
# </pre>
# Each of the seven functions takes <code>(at, r, a, b)</code> and returns the next <code>(at, r)</code>. In
# <code>jnz</code>, <code>jnp.where</code> chooses the place.
# </details>

# %% nbgrader={"grade": false, "grade_id": "computer-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
HALT, SET, COPY, ADD, MUL, REM, JNZ = range(7)


def computer_slow(program, registers, limit):
    """(registers, steps): int32[4] and int32. program: int32[length, 3]; registers: int32[4]; limit: int."""
    r, at, steps = [int(value) for value in registers], 0, 0
    while program[at][0] != HALT and steps < limit:
        code, a, b = (int(value) for value in program[at])
        at, steps = at + 1, steps + 1
        if code == SET:
            r[a] = b
        elif code == COPY:
            r[a] = r[b]
        elif code == ADD:
            r[a] = r[a] + r[b]
        elif code == MUL:
            r[a] = r[a] * r[b]
        elif code == REM:
            r[a] = r[a] % r[b]
        elif code == JNZ and r[a] != 0:
            at = b
    return np.array(r, np.int32), np.int32(steps)


def assemble(*instructions, length=8):
    """A program, filled up with HALT to `length` instructions: one shape for all."""
    return np.array([*instructions, *[(HALT, 0, 0)] * (length - len(instructions))], np.int32)


# r[0] = n; the answer is in r[1]: n factorial
FACTORIAL = assemble((SET, 1, 1), (SET, 2, -1), (MUL, 1, 0), (ADD, 0, 2), (JNZ, 0, 2))
# r[0] = n; the answers are in r[1] and r[2]: Fibonacci's numbers 2n and 2n + 1
FIBONACCI = assemble((SET, 1, 0), (SET, 2, 1), (SET, 3, -1), (ADD, 1, 2), (ADD, 2, 1), (ADD, 0, 3), (JNZ, 0, 3))
# r[0] and r[1] are two numbers; the answer is in r[0]: Euclid's greatest common divisor
EUCLID = assemble((COPY, 3, 0), (REM, 3, 1), (COPY, 0, 1), (COPY, 1, 3), (JNZ, 1, 0))


def switched_on(*values):
    """Four registers: the values, and zeros."""
    return np.array([*values, *[0] * (4 - len(values))], np.int32)


# %% nbgrader={"grade": false, "grade_id": "computer", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def computer(program, registers, limit):
    """(registers, steps): int32[4] and int32[]."""
    ### BEGIN SOLUTION
    # The program is an argument, so a new one is new data: nothing is traced. Each operation is
    # a branch of one switch.
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, operations, at, r, a, b)
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "computer-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. It computes what the slow one computes, and obeys its limit."""
for name, program, registers, limit in (
    ("a program of HALT alone", assemble(), switched_on(7), 100),
    ("the factorial of 12, limit 10", FACTORIAL, switched_on(12), 10),
    ("the factorial of 5", FACTORIAL, switched_on(5), 1000),
    ("Fibonacci", FIBONACCI, switched_on(6), 1000),
    ("Euclid, 1071 and 462", EUCLID, switched_on(1071, 462), 1000),
):
    expected = computer_slow(program, registers, limit)
    assert_allclose(computer(program, registers, limit), expected, name=name)
assert_primitives(computer, FACTORIAL, switched_on(5), 1000, excludes={"pure_callback"})
### BEGIN HIDDEN TESTS
# r[0] = n; the answer is in r[1]: the smallest divisor of n above 1
divisor = assemble((SET, 1, 1), (SET, 2, 1), (ADD, 1, 2), (COPY, 3, 0), (REM, 3, 1), (JNZ, 3, 2))
# jumps that are not taken, a jump back, and a limit that ends it
maze = assemble((JNZ, 0, 4), (SET, 0, 9), (JNZ, 1, 0), (COPY, 1, 0), (REM, 1, 0), (JNZ, 3, 0), (JNZ, 0, 2))
far = assemble((JNZ, 0, 300), *[(ADD, 1, 0)] * 299, (SET, 2, 7), length=302)
for name, program, registers, limit in (
    ("a divisor of 91", divisor, switched_on(91), 1000),
    ("a divisor of 97", divisor, switched_on(97), 1000),
    ("a maze", maze, switched_on(0, 3), 37),
    ("a maze, entered elsewhere", maze, switched_on(1, 1), 20),
    ("no instruction allowed", maze, switched_on(1, 1), 0),
    ("counting up from -3", assemble((SET, 1, 1), (ADD, 0, 1), (ADD, 2, 1), (JNZ, 0, 1)), switched_on(-3), 100),
    ("a product of two large odd numbers", assemble((MUL, 2, 3)), switched_on(0, 0, 12345, 67891), 100),
    ("counting without an end", assemble((SET, 1, 1), (ADD, 0, 1), (JNZ, 1, 1)), switched_on(0), 20_001),
    ("a jump is the last instruction", assemble((SET, 1, 1), (ADD, 0, 1), (JNZ, 1, 1), length=3), switched_on(0), 50),
    ("a jump to instruction 9", assemble((JNZ, 0, 9), *[(ADD, 1, 0)] * 8, (SET, 2, 7), length=12), switched_on(3), 50),
    ("a jump to instruction 300", far, switched_on(3), 50),
    ("a HALT with numbers beside it", assemble((SET, 0, 5), (HALT, 1, 2), (SET, 0, 6)), switched_on(0), 100),
    ("a jump over a HALT", assemble((JNZ, 0, 2), (HALT, 0, 0), (SET, 1, 7)), switched_on(1), 100),
    ("large numbers", assemble((SET, 0, 2**31 - 1), (SET, 1, 40_000), (SET, 2, -(2**31))), switched_on(0), 9),
    ("a remainder of 2**31 - 1", assemble((REM, 2, 3)), switched_on(0, 0, 2**31 - 1, 7), 100),
    ("a jump to itself", assemble((JNZ, 0, 0)), switched_on(1), 9),
    ("a circle in which nothing changes", assemble((COPY, 1, 0), (JNZ, 0, 0)), switched_on(4, 4), 11),
    ("a longer program", assemble(*[(ADD, 0, 0)] * 10, (JNZ, 1, 0), length=12), switched_on(3), 100),
    ("a HALT with wild numbers beside it", assemble((SET, 0, 5), (HALT, 9, -7), (SET, 0, 6)), switched_on(0), 100),
    ("a limit that ends it right before a HALT", assemble((SET, 0, 5), (ADD, 0, 0)), switched_on(0), 2),
):
    expected = computer_slow(program, registers, limit)
    assert_allclose(computer(program, registers, limit), expected, name=name)
ninety_one = divisor, switched_on(91), 1000
expected = computer_slow(*ninety_one)
assert_allclose(jax.jit(computer)(*ninety_one), expected, name="a divisor of 91, under jit")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "computer-tape-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. One loop, one choice, and one trace for every program."""
with assert_max_traces(computer, 1):
    for name, program, registers, limit in (
        ("the factorial of 4", FACTORIAL, switched_on(4), 500),
        ("Fibonacci", FIBONACCI, switched_on(3), 600),
        ("Euclid, 8 and 12", EUCLID, switched_on(8, 12), 700),
    ):
        expected = computer_slow(program, registers, limit)
        assert_allclose(computer(program, registers, limit), expected, name=name)
longer = assemble(*FACTORIAL, length=40)
assert_primitives(
    computer,
    *(longer, switched_on(5), 1000),
    counts={"while": 1, "cond": 1},
    excludes={"pure_callback"},
    smaller=(FACTORIAL, switched_on(5), 1000),
)
### BEGIN HIDDEN TESTS
assert_primitives(
    computer, assemble((SET, 0, 5)), switched_on(0), 20_000, max_run_flops=10_000
)  # HALT is its second line
euclid = EUCLID, switched_on(70, 42), 1000
expected = computer_slow(*euclid)
assert_allclose(jax.jit(computer)(*euclid), expected, name="Euclid, under jit")
### END HIDDEN TESTS

# %% [markdown]
# Switched on: one compiled program, three programs as data, twelve inputs for each, which `jax.vmap` sends through at
# once. (What has become of the `cond`? And what does that mean for the work in each round?)

# %%
inputs = np.stack([switched_on(n, 12) for n in range(1, 13)])
many = jax.vmap(computer, in_axes=(None, 0, None))
for name, program, answer in (
    ("factorial", FACTORIAL, 1),
    ("Fibonacci", FIBONACCI, 1),
    ("gcd with 12", EUCLID, 0),
):
    registers, _ = many(program, inputs, 1000)
    print(f"{name:12}", *registers[:, answer])
tape = show_jaxpr(many, FACTORIAL, inputs, 1000).primitives
print({name: tape[name] for name in ("while", "cond", "select_n")})

# %% [markdown]
# ## Task 5 · The puck (3 points)
#
# A puck is pushed over the ice. In each tenth of a second it moves on, and loses speed by friction and by drag, until
# it stands still. How far does it get, and, so that you can aim: what is the derivative of the distance with respect to
# the speed and to the drag?
#
# `slide_until_rest` is a `while_loop`. Forward mode (`jax.jacfwd`, unit 08) works with it, reverse mode does not. Write
# `slide(speed, drag)`, jitted: the same distance, and the gradient by `jax.grad` (at speed 0, where the distance has a
# kink, any gradient will do). No puck in this rink slides longer than `MOST_ROUNDS` rounds. One trace for all pucks,
# and a `scan` on the tape: no `while` and no callback, neither in `slide` nor in its gradient.
#
# <details><summary>Hint 1</summary>
# A loop with a gradient knows its number of rounds. What must happen in the rounds after the puck has stopped?
# </details>
# <details><summary>Hint 2</summary>
# Compare <code>slide(3.0, 0.1)</code> with <code>slide_until_rest(3.0, 0.1)</code>, then the gradients. If the distance
# is right and the gradient is NaN: print the <em>whole</em> carry after the last round.
# </details>
# <details><summary>Hint 3</summary>
# <code>lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))</code> with a <code>body</code> that computes
# <code>moving = speed > 0</code> and chooses by <code>jnp.where(moving, new, old)</code> for <strong>both</strong>
# parts of the carry.
# </details>

# %% nbgrader={"grade": false, "grade_id": "puck-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
MOST_ROUNDS = 200


def slide_until_rest(speed, drag):
    """The distance, float32[]. speed: 0 to 9; drag: 0 to 0.3."""

    def moving(state):
        _, speed = state
        return speed > 0

    def body(state):
        place, speed = state
        return place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)

    place, _ = lax.while_loop(moving, body, (0.0, speed))
    return place


# %% nbgrader={"grade": false, "grade_id": "puck", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def slide(speed, drag):
    """The distance, float32[], as slide_until_rest has it, and jax.grad works."""

    ### BEGIN SOLUTION
    # A bound that is known makes it a scan. A puck at rest keeps both its place and its speed, so that
    # nothing can run off to infinity behind the where and come back as a NaN in the gradient.
    def body(_, state):
        place, speed = state
        moving = speed > 0
        new_place, new_speed = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, new_place, place), jnp.where(moving, new_speed, speed)

    place, _ = lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))
    return place
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "puck-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Every puck stops where it should, in one trace, and the loop knows its length."""
assert_primitives(slide, 3.0, 0.1, includes={"scan"})
with assert_max_traces(slide, 1):
    for speed, drag in ((0.7, 0.0), (3.0, 0.1), (8.0, 0.02)):
        assert_allclose(
            slide(speed, drag),
            slide_until_rest(speed, drag),
            rtol=1e-4,
            name=f"where the puck stops: slide({speed}, {drag})",
        )
### BEGIN HIDDEN TESTS
known_length = "let a loop that knows its number of rounds do the work: see hint 1."
assert_primitives(slide, 3.0, 0.1, excludes={"while", "pure_callback"}, hint=known_length)
for speed, drag in ((0.0, 0.1), (8.9, 0.0), (4.4, 0.25)):
    assert_allclose(
        slide(speed, drag),
        slide_until_rest(speed, drag),
        rtol=1e-4,
        name=f"where the puck stops: slide({speed}, {drag})",
    )
assert_allclose(jax.jit(slide)(5.3, 0.2), slide_until_rest(5.3, 0.2), rtol=1e-4, name="slide(5.3, 0.2), under jit")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "puck-gradient-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Reverse mode agrees with forward mode."""
assert_primitives(slide, 3.0, 0.1, includes={"scan|while"})
for speed, drag in ((3.0, 0.1), (0.7, 0.0)):
    assert_allclose(
        jax.grad(slide, argnums=(0, 1))(speed, drag),
        jax.jacfwd(slide_until_rest, argnums=(0, 1))(speed, drag),
        rtol=1e-3,
        name=f"the gradient of slide at ({speed}, {drag})",
    )
### BEGIN HIDDEN TESTS
for speed, drag in ((8.9, 0.0), (5.3, 0.2), (1e-6, 0.1), (1e-30, 0.1), (8.97, 0.0)):  # the last: 180 rounds
    assert_allclose(
        jax.grad(slide, argnums=(0, 1))(speed, drag),
        jax.jacfwd(slide_until_rest, argnums=(0, 1))(speed, drag),
        rtol=1e-3,
        name=f"the gradient of slide at ({speed}, {drag})",
    )
assert_allclose(
    jax.grad(lambda *puck: slide(*puck) ** 2, argnums=(0, 1))(2.2, 0.1),
    jax.jacfwd(lambda *puck: slide_until_rest(*puck) ** 2, argnums=(0, 1))(2.2, 0.1),
    rtol=1e-3,
    name="the gradient of the square of slide at (2.2, 0.1)",
)
known_length = "let a loop that knows its number of rounds do the work: see hint 1."
assert_primitives(jax.grad(slide, (0, 1)), 3.0, 0.1, excludes={"while", "pure_callback"}, hint=known_length)
assert_allclose(
    jax.jit(jax.grad(slide, argnums=(0, 1)))(5.3, 0.2),
    jax.jacfwd(slide_until_rest, argnums=(0, 1))(5.3, 0.2),
    rtol=1e-3,
    name="the gradient of slide at (5.3, 0.2), under jit",
)
assert_allclose(
    jax.grad(slide, argnums=(0, 1))(9.0, 0.02),
    jax.jacfwd(slide_until_rest, argnums=(0, 1))(9.0, 0.02),
    rtol=1e-3,
    name="the gradient of slide at the highest speed",
)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · Read it all at once (3 points)
#
# A reader walks over a text and is always in one of a few states. Each letter sends it from its state to the next one:
# `table[letter, state]`. That is how a parser knows whether a comma is inside quotes, and how one can tell whether a
# binary number with a thousand digits is divisible by seven.
#
# It looks like a loop that has to wait: who could know the state at letter 500 without having read the first 499? Write
# `read(table, text)`, jitted, that returns the state after **each** letter, starting from state 0, and has **no loop**:
# no `scan`, no `while`, not inside a primitive of your own either, no callback into Python, and for 300 letters at most
# 400 equations. One trace for all texts of one length.
#
# <details><summary>Hint 1</summary>
# In the lesson, values had to wait and <em>steps</em> did not: "times 2, plus 1" could be joined with the next step
# before anybody knew <code>x</code>. What is a step here, if you do not know the state?
# </details>
# <details><summary>Hint 2</summary>
# A row of the table says for every state where it leads. <code>table[text]</code> has one such row for each letter. Try
# two of them on paper: which row says what both letters do together, one after the other?
# </details>
# <details><summary>Hint 3</summary>
# <code>lax.associative_scan(join, table[text])</code>. <code>join(first, then)</code> receives many rows of each at
# once, <code>int32[k, states]</code>; joined, state <code>s</code> goes to <code>then[first[s]]</code>:
# <code>jnp.take_along_axis</code> or <code>jax.vmap</code> does that for all <code>k</code>. What do you still have to
# pick from the result?
# </details>


# %% nbgrader={"grade": false, "grade_id": "reader-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def read_slow(table, text):
    """The state after each letter, int32[n]. table: int32[letters, states]; text: int32[n], n >= 1."""
    state, states = 0, []
    for letter in text:
        state = table[letter, state]
        states.append(state)
    return np.array(states, np.int32)


# Letters are bits, states are remainders: reading a bit turns the remainder s into (2 s + bit) % 7.
SEVEN = np.array([[(2 * s + bit) % 7 for s in range(7)] for bit in (0, 1)], np.int32)
# Letters: 0 any other, 1 a quote, 2 a backslash. States: 0 outside, 1 in quotes, 2 there after a backslash.
QUOTES = np.array([[0, 1, 1], [1, 0, 1], [0, 2, 1]], np.int32)


def spell(text):
    """A Python string as letters for QUOTES."""
    return np.array([{'"': 1, "\\": 2}.get(letter, 0) for letter in text], np.int32)


# %% nbgrader={"grade": false, "grade_id": "reader", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def read(table, text):
    """The state after each letter, int32[n]."""

    ### BEGIN SOLUTION
    # A letter is a function from states to states, written as a row. Functions can be joined before
    # anybody knows where they start, and joining is associative.
    def join(first, then):
        return jnp.take_along_axis(then, first, axis=1)

    return lax.associative_scan(join, table[text])[:, 0]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "reader-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Every state is right, and nobody waits for the letter before."""
reader_hint = "two letters can be joined into one step before anybody knows the state: see hint 1."
left_out = {"scan", "while", "pure_callback|io_callback"}
assert_primitives(read, SEVEN, np.arange(300) % 2, excludes=left_out, max_equations=400, hint=reader_hint)
text = 'say "yes, \\"twice\\"", and go'
expected = read_slow(QUOTES, spell(text))
assert_allclose(read(QUOTES, spell(text)), expected, name=f"the states in {text}")
bits = np.array([int(one_bit) for one_bit in f"{7**5:b}"], np.int32)
expected = read_slow(SEVEN, bits)
assert_allclose(read(SEVEN, bits), expected, name="7 to the power of 5, modulo 7")
with assert_max_traces(read, 1):
    read(SEVEN, bits), read(SEVEN, 1 - bits)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
for letters, states, n in ((300, 5, 13), (3, 6, 1), (2, 2, 5000), (3, 300, 9), (2, 7, 40)):
    table = rng.integers(0, states, (letters, states))
    if n > 512:  # letters that exchange states: what was read long ago is never forgotten
        table = rng.permuted(np.tile(np.arange(states), (letters, 1)), axis=1)
        table[0] = (table[1] + 1) % states  # no state stays where it is at both letters
    if states > 256:  # a few states back from 0: always among the highest
        table = (np.arange(states) - np.arange(1, letters + 1)[:, None]) % states
    text = np.append(rng.permutation(letters), rng.integers(0, letters, n))[:n].astype(np.int32)
    table = table.astype(np.int32)
    expected = read_slow(table, text)
    assert_allclose(read(table, text), expected, name=f"a random table, {states} states, n = {n}")
    assert_primitives(read, table, text, excludes=left_out, hint=reader_hint)
lowered = jax.jit(read).lower(SEVEN, np.arange(300) % 2).as_text()
loops = {"loops in the program that XLA gets": lowered.count("stablehlo.while"), "callbacks": lowered.count("callback")}
assert_equal(loops, dict.fromkeys(loops, 0), name="read", hint=reader_hint)
expected = read_slow(SEVEN, 1 - bits)
assert_allclose(jax.jit(read)(SEVEN, 1 - bits), expected, name="the states, under jit")
### END HIDDEN TESTS

# %% [markdown]
# Which commas are inside quotes, without a loop:

# %%
line = 'name,"Lovelace, Ada",born,"1815, in \\"London, Mayfair\\"",1852'
inside = np.asarray(read(QUOTES, spell(line))) > 0
marks = ["^" if letter == "," and not quoted else " " for letter, quoted in zip(line, inside, strict=True)]
print(line)
print("".join(marks))
