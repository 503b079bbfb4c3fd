# %% [markdown]
# # Exercise 02 · Reading the tape
#
# Seven tasks, 26 points, about {duration}. The lesson is [02 · Reading the tape](../../lessons/02_jaxprs.ipynb). All
# seven are about the tape (the jaxpr): the list of operations that JAX writes while it traces a function.
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. A check that fails says
# what happened and what to try. Three hints wait under each task, from a nudge to a skeleton. Where a check is folded,
# its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say how many equations eight functions leave on the tape | 3 |
# | 2 | compute four things with as few equations as you can, the last against the clock | 6 |
# | 3 | write the functions that two tapes came from | 3 |
# | 4 | count the equations of a tape by name, inner tapes included | 3 |
# | 5 | count the FLOPs of a tape, each round of a loop included | 3 |
# | 6 | run a tape yourself, and find where a NaN is born | 4 |
# | 7 | write the tape of `minijit`, a `jit` of your own | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import math
import re
import string
from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Literal

from autograder import (
    assert_allclose,
    assert_equal,
    assert_prediction,
    assert_primitives,
    partial_credit,
    show_jaxpr,
    speedup,
    trace_log,
)

# %% [markdown]
# ## Task 1 · What is on the tape? (3 points)
#
# Eight functions. For each, say how many equations stand on its **outer** tape when `x` is `float32[3]`, without
# running anything. What is inside an equation that holds a jaxpr of its own (a box) does not count here.
#
# Read, decide, fill in the dict. The check says which names are wrong, never the number. A loop of
# JAX's own, as `scan` is, is `lax.fori_loop(0, 4, body, x)`: four rounds of `x = body(i, x)`.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Go through the body as Python does, with one question for each line: does this line operate on a tracer?
# </details>
# <details><summary>Hint 2</summary>
# Look at one after you have decided: <code>print(jax.make_jaxpr(neutral)(jnp.ones(3)))</code>. Does JAX simplify
# while it records?
# </details>
# <details><summary>Hint 3</summary>
# Effects and decisions of Python: 0 equations. A Python loop: its body, as often as it runs. <code>fori_loop</code>,
# <code>cond</code>, a jitted call: 1 each. A result that nobody uses: it was computed, so it stands there. NumPy on
# plain numbers: Python did that before the tape saw it.
# </details>

# %% nbgrader={"grade": false, "grade_id": "predict-tape-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
seen = []


def noisy(x):
    seen.append(x)
    print("noisy runs with", x)
    return x + 1


def wasteful(x):
    jnp.sin(x)
    return x * 2


def neutral(x):
    return x * 1.0 + 0.0


def unrolled(x):
    for _ in range(4):
        x = x * x
    return x


def rolled(x):
    return lax.fori_loop(0, 4, lambda i, y: y * y, x)


def branching(x):
    if x.ndim == 1:
        return x + 1
    return jnp.exp(x) * 2 - 1


def constant(x):
    angle = np.sin(0.5) * np.sqrt(2.0) + 1.0
    return x * float(angle)


def boxed(x):
    return jax.jit(lambda y: y * 2 + 1)(x) - 1


TAPES = (noisy, wasteful, neutral, unrolled, rolled, branching, constant, boxed)


# %% nbgrader={"grade": false, "grade_id": "predict-tape", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predict_tape():
    """Name of each function in TAPES -> number of equations on its outer tape, for x of type float32[3]."""
    ### BEGIN SOLUTION
    # One equation for each operation on a tracer, as Python runs the body once; nothing is simplified.
    return {
        "noisy": 1,
        "wasteful": 2,
        "neutral": 2,
        "unrolled": 4,
        "rolled": 1,
        "branching": 1,
        "constant": 1,
        "boxed": 2,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "predict-tape-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Every tape is predicted right."""
seen.clear()  # a prediction may read the notebook's lists; nothing that was measured is in this one
assert_prediction(
    predict_tape,
    lambda: {fn.__name__: len(jax.make_jaxpr(fn)(jnp.ones(3)).eqns) for fn in TAPES},
    hints={
        "noisy": "Neither append nor print operates on the tracer.",
        "wasteful": "A result that nobody uses was still computed while the tape ran.",
        "neutral": "The tape is a record of what was asked for; simplifying is XLA's work, later.",
        "unrolled": "Python walks its own loop; the tape sees every round of it.",
        "rolled": "The loop is one equation; its body is a tape of its own.",
        "branching": "Shapes are known while tracing: Python takes one branch, and the other leaves no mark.",
        "constant": "NumPy computed with plain numbers, before the tape saw the result.",
        "boxed": "A call of a jitted function is one equation; the subtraction stands outside it.",
    },
)

# %% [markdown]
# ## Task 2 · Jaxpr golf (6 points)
#
# Four holes. In golf the fewest strokes win, and here every equation is a stroke, also one inside a `jit`. What the
# tape computes must be right, for any number of elements.
#
# **Hole 1: relu without a comparison** (1 point). The tape must hold exactly one `abs`, one `add` and one `mul`. No
# `max`, no `select_n` (the primitive of `jnp.where`), nothing else.
#
# <details><summary>Hint 1</summary>
# What is <code>x + abs(x)</code> for a positive number, and for a negative one?
# </details>
# <details><summary>Hint 2</summary>
# <code>print(jax.make_jaxpr(golf_relu)(jnp.ones(3)))</code>. A division by 2 shows as <code>div</code>. Which stroke
# is allowed instead?
# </details>
# <details><summary>Hint 3</summary>
# <code>return (x + jnp.abs(x)) * ...</code>
# </details>


# %% nbgrader={"grade": false, "grade_id": "golf-relu-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def relu_spec(x):
    """relu of a vector, one number at a time."""
    return np.array([value if value > 0 else 0.0 for value in np.asarray(x)], np.float32)


# %% nbgrader={"grade": false, "grade_id": "golf-relu", "locked": false, "schema_version": 3, "solution": true, "task": false}
def golf_relu(x):
    """relu of float32[n], in three equations: abs, add, mul."""
    ### BEGIN SOLUTION
    # x + |x| is 2x above zero and 0 below it.
    return (x + jnp.abs(x)) * 0.5
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "golf-relu-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Hole 1: relu in abs, add, mul."""
x = jnp.array([-2.0, -0.5, 0.0, 0.25, 3.0])
assert_allclose(golf_relu(x), relu_spec(x), name="golf_relu(x)")
assert_primitives(golf_relu, x, counts={"abs": 1, "add": 1, "mul": 1}, max_equations=3)
### BEGIN HIDDEN TESTS
x = jnp.asarray(np.random.default_rng(7).normal(size=50).astype(np.float32))
assert_allclose(jax.jit(golf_relu)(x), relu_spec(x), name="golf_relu of fresh numbers, by its tape")
for fresh in (x, -x):
    assert_allclose(golf_relu(fresh), relu_spec(fresh), name="golf_relu of fresh numbers")
for n in (0, 1, 5001, 50):
    assert_primitives(golf_relu, jnp.ones(n), counts={"abs": 1, "add": 1, "mul": 1}, max_equations=3)
held = np.float32([-1.5, 2.0])
golf_relu(held)
assert_equal({"the caller's numbers": held.tolist()}, {"the caller's numbers": [-1.5, 2.0]}, name="golf_relu")
held *= -1
assert_allclose(golf_relu(held), np.float32([1.5, 0.0]), name="golf_relu of an array that has changed")
### END HIDDEN TESTS

# %% [markdown]
# **Hole 2: the polynomial of the lesson, one stroke shorter** (1 point). $2x^2 + 3x + 3$ took five equations. Play it
# in four: two `add`, two `mul`.
#
# <details><summary>Hint 1</summary>
# Which operation appears twice with the same operand?
# </details>
# <details><summary>Hint 2</summary>
# Draw the original with <code>show_jaxpr(poly_spec, 1.0)</code>. <code>x</code> has three arrows leaving it. Can it
# do with two?
# </details>
# <details><summary>Hint 3</summary>
# <code>return (... * x + ...) * x + ...</code> (Horner's rule)
# </details>


# %% nbgrader={"grade": false, "grade_id": "golf-poly-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def poly_spec(x):
    return 2 * x * x + 3 * x + 3


# %% nbgrader={"grade": false, "grade_id": "golf-poly", "locked": false, "schema_version": 3, "solution": true, "task": false}
def golf_poly(x):
    """2x² + 3x + 3 of float32[n] in four equations: two add, two mul."""
    ### BEGIN SOLUTION
    # Horner's rule shares the multiplication by x between the two upper terms.
    return (2 * x + 3) * x + 3
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "golf-poly-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Hole 2: 2x² + 3x + 3 in four equations."""
x = jnp.array([-2.0, 0.0, 0.5, 3.0])
assert_allclose(golf_poly(x), poly_spec(x), name="golf_poly(x)")
assert_primitives(golf_poly, x, counts={"add": 2, "mul": 2}, max_equations=4)
### BEGIN HIDDEN TESTS
x = jnp.arange(-20, 20, dtype=jnp.float32)
assert_allclose(jax.jit(golf_poly)(x), poly_spec(x), name="golf_poly of fresh numbers, by its tape")
for fresh in (x, -x):
    assert_allclose(golf_poly(fresh), poly_spec(fresh), name="golf_poly of fresh numbers")
for n in (0, 1, 5001, 40):
    assert_primitives(golf_poly, jnp.ones(n), counts={"add": 2, "mul": 2}, max_equations=4)
given = np.linspace(-2, 2, 9, dtype=np.float32)
assert_allclose(golf_poly(given.copy()), poly_spec(given), name="golf_poly of numbers in NumPy's hands")
held = np.float32([1.0, 2.0])
golf_poly(held)
assert_equal({"the caller's numbers": held.tolist()}, {"the caller's numbers": [1.0, 2.0]}, name="golf_poly")
held *= -1
assert_allclose(golf_poly(held), poly_spec(held), name="golf_poly of an array that has changed")
### END HIDDEN TESTS

# %% [markdown]
# **Hole 3: $x^{15}$ with nothing but `mul`** (2 points). The long way round takes 14 strokes. Squaring and multiplying,
# as every textbook has it, takes 6 equations: 8 strokes saved earn 1 point. Par is 5: 9 strokes saved earn 2.
#
# <details><summary>Hint 1</summary>
# Write down the exponents you have after each stroke: 1, 2, ... Every new one is the sum of two that you already have.
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(golf_power, jnp.ones(3))</code> draws your chain. The textbook's chain is 1, 2, 3, 6, 7, 14, 15. 15
# has factors; 7 has none.
# </details>
# <details><summary>Hint 3</summary>
# <code>x3 = x * x * x</code> costs two strokes. Then 15 = 3 · 5: treat <code>x3</code> as your new <code>x</code> and
# raise it to the fifth with three more.
# </details>


# %% nbgrader={"grade": false, "grade_id": "golf-power-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def power_spec(x):
    result = x
    for _ in range(14):
        result = result * x
    return result


# %% nbgrader={"grade": false, "grade_id": "golf-power", "locked": false, "schema_version": 3, "solution": true, "task": false}
def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    ### BEGIN SOLUTION
    # 15 = 3 · 5: the cube in two strokes, its fifth power in three. Square-and-multiply needs six.
    cube = x * x * x
    square_of_cube = cube * cube
    return square_of_cube * square_of_cube * cube
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "golf-power-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Hole 3: x**15 by multiplication alone; 8 strokes saved earn 1 point, 9 earn 2."""
x = jnp.array([-1.5, 0.5, 1.0, 1.25])
assert_allclose(golf_power(x), power_spec(x), rtol=1e-5, name="golf_power(x)")
assert_primitives(golf_power, x, includes={"mul"}, excludes={"integer_pow", "pow", "exp", "square"})
strokes = show_jaxpr(golf_power, x).equations
assert_primitives(golf_power, x, counts={"mul": strokes})
### BEGIN HIDDEN TESTS
x = jnp.linspace(-1.4, 1.4, 29)
assert_allclose(jax.jit(golf_power)(x), power_spec(x), rtol=1e-5, name="golf_power of fresh numbers, by its tape")
for fresh in (x, x[::-1]):
    assert_allclose(golf_power(fresh), power_spec(fresh), rtol=1e-5, name="golf_power of fresh numbers")
for n in (0, 1, 29, 5001):
    assert_primitives(golf_power, jnp.ones(n), counts={"mul": strokes}, max_equations=strokes)
given = np.linspace(-1.2, 1.2, 9, dtype=np.float32)
assert_allclose(golf_power(given.copy()), power_spec(given), rtol=1e-5, name="golf_power of numbers in NumPy's hands")
held = np.float32([0.5, 1.25])
golf_power(held)
assert_equal({"the caller's numbers": held.tolist()}, {"the caller's numbers": [0.5, 1.25]}, name="golf_power")
held *= -1
assert_allclose(golf_power(held), power_spec(held), rtol=1e-5, name="golf_power of an array that has changed")
### END HIDDEN TESTS
partial_credit(14 - strokes, {8: 1, 9: 2})

# %% [markdown]
# **Hole 4: against the clock** (2 points). Without `jit`, JAX carries out each operation by itself, at once, and for a
# short array each takes about as long as any other. So strokes are time. `mean_slow` takes the mean of every 64
# neighbours in a signal around zero, of 64 or more numbers between -1 and 1, in 191 strokes. Play it in 24 or fewer,
# for any length, without a callback.
#
# When that holds, the clock compares it with `mean_slow`, called as you wrote it: 2x as fast earns 1 point, 3x earns 2.
#
# <details><summary>Hint 1</summary>
# <code>print(jax.make_jaxpr(mean_slow)(jnp.ones(100)))</code>. What is done with each of the 64 slices that could be
# done once? And the sum of the first two slices: in which other sums does it occur, only moved along?
# </details>
# <details><summary>Hint 2</summary>
# If you have the sums of every 2 neighbours, how many strokes are the sums of every 4? (If your strokes are few and the
# time is long, <code>with trace_log() as log:</code> around a second call and <code>log.modules</code> show what is
# compiled anew in each call.)
# </details>
# <details><summary>Hint 3</summary>
# <pre>pairs = x[:-1] + x[1:]          # sums of every 2
# fours = pairs[:-2] + pairs[2:]  # sums of every 4
# ...</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "golf-mean-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def mean_slow(x):
    """Mean of x[i], x[i+1], ..., x[i+63] for each i: float32[n] -> float32[n-63]."""
    n = x.size - 63
    result = x[:n] / 64
    for k in range(1, 64):
        result = result + x[k : k + n] / 64
    return result


# %% nbgrader={"grade": false, "grade_id": "golf-mean", "locked": false, "schema_version": 3, "solution": true, "task": false}
def golf_mean(x):
    """The same as mean_slow, in at most 24 equations."""
    ### BEGIN SOLUTION
    # A sum of 2k neighbours is two sums of k neighbours: six rounds of three strokes, and one division.
    for k in (1, 2, 4, 8, 16, 32):
        x = x[:-k] + x[k:]
    return x / 64
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "golf-mean-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Hole 4: the mean of 64 neighbours in 24 equations; then speed: 2x earns 1 point, 3x earns 2."""
signal = jnp.asarray(np.random.default_rng(8).uniform(-1, 1, 1000), jnp.float32)
assert_allclose(golf_mean(signal), mean_slow(signal), atol=1e-5, name="golf_mean(signal)")
assert_primitives(golf_mean, signal, max_equations=24, excludes={"pure_callback", "io_callback"})
### BEGIN HIDDEN TESTS
for n in (64, 65, 5001, 50_001):
    x = jnp.asarray(np.random.default_rng().uniform(-1, 1, n), jnp.float32)
    assert_allclose(jax.jit(golf_mean)(x), mean_slow(x), atol=1e-5, name=f"golf_mean of {n} numbers, by its tape")
    assert_allclose(golf_mean(x), mean_slow(x), atol=1e-5, name=f"golf_mean of {n} numbers")
for n in (64, 1_000_001, 5001):
    assert_primitives(golf_mean, jnp.ones(n), max_equations=24, excludes={"pure_callback", "io_callback"})
quiet = golf_mean(signal * 1e-6)
assert_allclose(quiet, mean_slow(signal * 1e-6), atol=1e-11, name="golf_mean of a quiet signal")
assert_equal({"an array of JAX's": isinstance(quiet, jax.Array)}, {"an array of JAX's": True}, name="golf_mean")
### END HIDDEN TESTS
partial_credit(speedup(golf_mean, mean_slow, signal, at_least=3), {2: 1, 3: 2})

# %% [markdown]
# ## Task 3 · Unprint (3 points)
#
# Somebody kept the tapes and lost the source. Write Python functions whose tapes hold the same primitives, as many of
# each and no others, and which compute the same values. Both are famous; you may recognise them when they are done.
#
# It does no harm if some of the equations stand in a `jit[...]` box, or if lines that do not need each other stand in
# another order. (Of the parameters, only those that matter are printed below.)
#
# <details><summary>Hint 1</summary>
# One line of Python for each line of tape, with the tape's names. Make it pretty afterwards, or not at all.
# </details>
# <details><summary>Hint 2</summary>
# Feed each <code>jnp</code> function to <code>jax.make_jaxpr</code> and see what it writes: try <code>jnp.max</code>,
# <code>jnp.sum</code> and <code>jnp.where</code>. Read the order of the operands of <code>select_n</code> twice: the
# case for <code>False</code> comes first.
# </details>
# <details><summary>Hint 3</summary>
# Tape A begins <code>b = jnp.max(a)</code>, <code>c = a - b</code>. In tape B, <code>select_n e h g</code> is
# <code>jnp.where(e, g, h)</code>.
# </details>

# %% nbgrader={"grade": false, "grade_id": "unprint-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
TAPE_A = """
{ lambda ; a:f32[n]. let
    b:f32[] = reduce_max[axes=(0,)] a
    c:f32[n] = sub a b
    d:f32[n] = exp c
    e:f32[] = reduce_sum[axes=(0,)] d
    f:f32[] = log e
    g:f32[] = add f b
  in (g,) }
"""

TAPE_B = """
{ lambda ; a:f32[n] b:f32[n]. let
    c:f32[n] = sub a b
    d:f32[n] = abs c
    e:bool[n] = lt d 1.0:f32[]
    f:f32[n] = mul 0.5:f32[] c
    g:f32[n] = mul f c
    h:f32[n] = sub d 0.5:f32[]
    i:f32[n] = select_n e h g
    j:f32[] = reduce_sum[axes=(0,)] i
  in (j,) }
"""


def primitives_in(text):
    """Count the primitives of a printed tape, by eye as it were: the word after each `=` that follows a type."""
    return Counter(re.findall(r"\w+:\w+\[[^\]]*\] = (\w+)", text))


print(primitives_in(TAPE_A))
print(primitives_in(TAPE_B))


# %% nbgrader={"grade": false, "grade_id": "unprint-a", "locked": false, "schema_version": 3, "solution": true, "task": false}
def unprint_a(a):
    """Tape A: float32[n] -> float32[]."""
    ### BEGIN SOLUTION
    # log-sum-exp: taking the maximum out first is what keeps exp from overflowing.
    largest = jnp.max(a)
    return jnp.log(jnp.sum(jnp.exp(a - largest))) + largest
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "unprint-a-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Tape A: the same primitives, the same values."""
on_tape_a = primitives_in(TAPE_A)
line_by_line = "write one line of Python for each line of the tape; it has these primitives and no others."
assert_primitives(unprint_a, jnp.ones(4), counts=on_tape_a, max_equations=on_tape_a.total(), hint=line_by_line)
assert_allclose(unprint_a(jnp.zeros(8)), np.float32(np.log(8.0)), name="unprint_a of eight zeros")
assert_allclose(unprint_a(jnp.full(8, 1000.0)), np.float32(1000.0 + np.log(8.0)), name="unprint_a of eight 1000s")
### BEGIN HIDDEN TESTS
a = np.random.default_rng(3).normal(scale=5.0, size=20)
largest = a.max()
desired = np.log(np.exp(a - largest).sum()) + largest
assert_allclose(
    jax.jit(unprint_a)(jnp.asarray(a, jnp.float32)), np.float32(desired), rtol=1e-5, name="unprint_a of fresh numbers"
)
for n in (1, 2, 3, 5001, 20):
    assert_primitives(unprint_a, jnp.ones(n), counts=on_tape_a, max_equations=on_tape_a.total(), hint=line_by_line)
for fresh in a[:4], a[:8]:
    desired = np.float32(np.log(np.exp(fresh - largest).sum()) + largest)
    assert_allclose(unprint_a(jnp.asarray(fresh, jnp.float32)), desired, rtol=1e-5, name="unprint_a of fresh numbers")
held = np.float32([1.0, 2.0])
unprint_a(held)
assert_equal({"the caller's numbers": held.tolist()}, {"the caller's numbers": [1.0, 2.0]}, name="unprint_a")
held += 1
assert_allclose(unprint_a(held), jax.nn.logsumexp(held), rtol=1e-5, name="unprint_a of an array that has changed")
### END HIDDEN TESTS


# %% nbgrader={"grade": false, "grade_id": "unprint-b", "locked": false, "schema_version": 3, "solution": true, "task": false}
def unprint_b(a, b):
    """Tape B: two float32[n] -> float32[]."""
    ### BEGIN SOLUTION
    # The Huber loss: a parabola near zero, straight lines beyond 1. select_n takes the False case first.
    c = a - b
    d = jnp.abs(c)
    return jnp.sum(jnp.where(d < 1.0, 0.5 * c * c, d - 0.5))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "unprint-b-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Tape B: the same primitives, the same values."""
on_tape_b = primitives_in(TAPE_B)
line_by_line = "write one line of Python for each line of the tape; it has these primitives and no others."
assert_primitives(
    unprint_b, jnp.ones(4), jnp.ones(4), counts=on_tape_b, max_equations=on_tape_b.total(), hint=line_by_line
)
zeros = jnp.zeros(4)
assert_equal(
    {
        "all differences 0.5": np.asarray(unprint_b(zeros + 0.5, zeros)).tolist(),
        "all differences -3": np.asarray(unprint_b(zeros, zeros + 3.0)).tolist(),
        "differences 0.5, -3, 1, 0": np.asarray(unprint_b(jnp.array([0.5, -3.0, 1.0, 0.0]), zeros)).tolist(),
    },
    {"all differences 0.5": 0.5, "all differences -3": 10.0, "differences 0.5, -3, 1, 0": 3.125},
    hints={
        "all differences 0.5": "e is True everywhere, and select_n e h g gives g there: the False case comes first.",
        "all differences -3": "e is False everywhere, and select_n e h g gives h there: the False case comes first.",
    },
    name="unprint_b",
)
### BEGIN HIDDEN TESTS
a, b = np.random.default_rng(4).normal(scale=2.0, size=(2, 30))
distance = np.abs(a - b)
desired = np.where(distance < 1, distance**2 / 2, distance - 0.5).sum()
assert_allclose(
    jax.jit(unprint_b)(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)),
    np.float32(desired),
    rtol=1e-5,
    name="unprint_b of fresh numbers",
)
for difference in (0.991, 1.009):
    desired = np.float32(4 * (difference**2 / 2 if difference < 1 else difference - 0.5))
    assert_allclose(unprint_b(zeros + difference, zeros), desired, rtol=1e-5, name="unprint_b near 1")
for ones in (jnp.ones(1), jnp.ones(5001), jnp.ones(30)):
    assert_primitives(unprint_b, ones, ones, counts=on_tape_b, max_equations=on_tape_b.total(), hint=line_by_line)
held, other = np.float32([1.0, 2.0]), np.float32([0.5, 4.0])
unprint_b(held, other)
found = {"the callers' numbers": [held.tolist(), other.tolist()]}
assert_equal(found, {"the callers' numbers": [[1.0, 2.0], [0.5, 4.0]]}, name="unprint_b")
held += 2
assert_allclose(unprint_b(held, other), np.float32(2.0), rtol=1e-5, name="unprint_b of an array that has changed")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · Count the primitives (3 points)
#
# Write a walker. `count_primitives(tape)` takes what `jax.make_jaxpr(fn)(*args)` returns and counts its equations by
# name, **those of all inner tapes included**. It reads the tape that it gets, and traces nothing anew (as `show_jaxpr`
# would). Two rules:
#
# - an equation named in `WRAPPERS` only wraps another tape: what is inside counts, it does not (besides `jit`, these
#   are names that units 08 and 11 explain);
# - `scan`, `while` (a loop with a condition to go on) and `cond` count, and so does what is inside. A loop's body
#   counts once: it stands on the tape once. (`scan` is a loop whose rounds hand on a value, its *carry*: see
#   [the words](../../lessons/00_before_you_start.ipynb#The-words).)
#
# What you need to know of the objects:
#
# | you have | you get |
# |---|---|
# | `tape.eqns` | its equations, in order |
# | `eqn.primitive.name` | `"mul"` |
# | `eqn.params` | a dict; **inner tapes are among its values**, single (`jit`, `scan`) or in a tuple (`cond`) |
# | `hasattr(value, "eqns")` | is it a tape? |
#
# The specification below reads the printed text. It is right for flat tapes (without inner tapes), and only for those:
# JAX prints an inner tape once even if it is called twice.
#
# <details><summary>Hint 1</summary>
# A tape holds equations, and an equation may hold tapes. What kind of function walks such a thing?
# </details>
# <details><summary>Hint 2</summary>
# Look into the boxes, that is for each <code>eqn</code> of <code>tape.eqns</code> at its name and at
# <code>{k: type(v).__name__ for k, v in eqn.params.items()}</code>. Where does <code>cond</code> keep its two branches?
# </details>
# <details><summary>Hint 3</summary>
# <pre>counts = Counter()
# for eqn in tape.eqns:
#     if ...not a wrapper...:
#         counts[eqn.primitive.name] += 1
#     for value in eqn.params.values():
#         for inner in value if isinstance(value, tuple) else (value,):
#             if ...it is a tape...:
#                 counts += ...
# return counts</pre>
# </details>

# %% nbgrader={"grade": false, "grade_id": "count-primitives-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
WRAPPERS = {"jit", "custom_jvp_call", "custom_vjp_call", "remat2"}


def count_by_eye(tape):
    """Counts of a flat tape, read off its text."""
    return primitives_in(tape.pretty_print(use_color=False))


print(count_by_eye(jax.make_jaxpr(poly_spec)(1.0)))


# %% nbgrader={"grade": false, "grade_id": "count-primitives", "locked": false, "schema_version": 3, "solution": true, "task": false}
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    ### BEGIN SOLUTION
    # Equations hold tapes and tapes hold equations: the walk calls itself.
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "count-primitives-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Flat tapes, jit boxes, loops, branches, and boxes in boxes."""


def counted(fn, *args):
    """The learner's counts; 0 for a name that is not there."""
    return Counter(count_primitives(jax.make_jaxpr(fn)(*args)))


x = jnp.ones(3)
halve = jax.jit(lambda v: v * 0.5)


def flat(v):
    return jnp.sum(jnp.exp(v) * v * v)


def rounds(v):
    return lax.scan(lambda c, _: (halve(jnp.sin(c)), None), v, None, length=5)[0]


def either(v):
    return lax.cond(v[0] > 0, lambda w: jnp.sin(w), lambda w: jnp.cos(jnp.sin(w)), v)


assert_equal(count_primitives(jax.make_jaxpr(flat)(x)), count_by_eye(jax.make_jaxpr(flat)(x)), name="count_primitives")

wrapper = "jit is a wrapper: it does no work of its own, so it does not count."
in_a_box, looped, branched = counted(lambda v: halve(halve(v)), x), counted(rounds, x), counted(either, x)
assert_equal(
    {"mul in two calls of a jit": in_a_box["mul"], "jit itself": in_a_box["jit"]},
    {"mul in two calls of a jit": 2, "jit itself": 0},
    hints={
        "mul in two calls of a jit": "Each jit holds a mul in its own tape, under eqn.params['jaxpr'].",
        "jit itself": wrapper,
    },
    name="count_primitives",
)
assert_equal(
    {
        "scan itself": looped["scan"],
        "sin in the scan": looped["sin"],
        "mul in a jit in the scan": looped["mul"],
        "jit in the scan": looped["jit"],
    },
    {"scan itself": 1, "sin in the scan": 1, "mul in a jit in the scan": 1, "jit in the scan": 0},
    hints={
        "scan itself": "A loop is an equation like any other, and counts once.",
        "sin in the scan": "It is in the body of the scan, and the body stands on the tape once.",
        "mul in a jit in the scan": "It is in a jit in the body of the scan: boxes hold boxes.",
        "jit in the scan": wrapper,
    },
    name="count_primitives",
)
assert_equal(
    {
        "cond itself": branched["cond"],
        "sin in the branches": branched["sin"],
        "cos in a branch": branched["cos"],
    },
    {"cond itself": 1, "sin in the branches": 2, "cos in a branch": 1},
    hints={
        "cond itself": "It is an equation like any other.",
        "sin in the branches": "Both branches of a cond are on the tape: its params hold them in a tuple.",
        "cos in a branch": "Both branches of a cond are on the tape: its params hold them in a tuple.",
    },
    name="count_primitives",
)


### BEGIN HIDDEN TESTS
def until(v):
    return lax.while_loop(lambda c: jnp.tanh(c[0]) < 0.5, lambda c: halve(c) + jnp.exp(c), v)


def deep(v):
    def outer(c, _):
        return lax.scan(lambda d, _: (jnp.tanh(either(d)), None), c, None, length=2)[0], None

    return jax.nn.relu(lax.scan(outer, v, None, length=3)[0])


counts = counted(lambda v: lax.cond(v[0] > 0, lambda w: jnp.sin(w), lambda w: jnp.sin(w), v), x)
assert_equal({"sin in equal branches": counts["sin"]}, {"sin in equal branches": 2}, name="count_primitives")
counts = counted(lambda v: lax.switch(2, [jnp.sin, jnp.cos, lambda w: jnp.tanh(jnp.sin(w))] * 2, v), x)
desired = {"cond": 1, "sin": 4, "cos": 2, "tanh": 2}
assert_equal({name: counts[name] for name in desired}, desired, name="count_primitives, of six branches")
counts = counted(jax.checkpoint(lambda v: jnp.sin(v) * halve(v)), x)
found = {"sin and mul in a checkpoint, and itself": [counts[name] for name in ("sin", "mul", "remat2")]}
assert_equal(found, {"sin and mul in a checkpoint, and itself": [1, 2, 0]}, name="count_primitives")


@jax.custom_vjp
def ruled(v):
    return lax.scan(lambda c, _: (jnp.sin(c), None), v, None, length=0)[0]


ruled.defvjp(lambda v: (v, None), lambda _, g: (g,))
counts = counted(ruled, jnp.arange(3.0))
found = {"sin in a scan of no round, in a custom_vjp": [counts[name] for name in ("sin", "scan", "custom_vjp_call")]}
assert_equal(found, {"sin in a scan of no round, in a custom_vjp": [1, 1, 0]}, name="count_primitives")
counts = counted(lambda v: jax.pure_callback(np.sin, v, v) + jax.jit(jnp.sin)(v), x)
found = {"a callback, and a jit": [counts["pure_callback"], counts["sin"], counts["jit"]]}
assert_equal(found, {"a callback, and a jit": [1, 1, 0]}, name="count_primitives")
counts = counted(until, x)
desired = {"while": 1, "tanh": 1, "lt": 1, "mul": 1, "exp": 1, "jit": 0}
assert_equal({name: counts[name] for name in desired}, desired, name="count_primitives")
counts = counted(deep, x)
desired = {"scan": 2, "cond": 1, "sin": 2, "cos": 1, "tanh": 1, "max": 1, "jit": 0, "custom_jvp_call": 0}
assert_equal({name: counts[name] for name in desired}, desired, name="count_primitives")
counts = counted(lambda v: (jnp.sin(v), v * 2)[1], x)
assert_equal({"sin that nobody uses": counts["sin"]}, {"sin that nobody uses": 1}, name="count_primitives")
counts = counted(lambda v: lax.custom_linear_solve(lambda w: w * 2, v, lambda _, w: w / 2), x)
found = {"custom_linear_solve itself": counts["custom_linear_solve"]}
assert_equal(found, {"custom_linear_solve itself": 1}, name="count_primitives")
counts = counted(lambda v: lax.cond(v[0] > 0, lambda w: rounds(halve(w)), lambda w: w, v), x)
found = {"mul in jits in a branch, scan, sin": [counts[name] for name in ("mul", "scan", "sin", "jit")]}
assert_equal(found, {"mul in jits in a branch, scan, sin": [2, 1, 1, 0]}, name="count_primitives")
tape = jax.make_jaxpr(rounds)(x)
with trace_log() as log:
    found = {"mul in a jit in the scan, counted twice": [count_primitives(tape)["mul"] for _ in range(2)]}
assert_equal(found, {"mul in a jit in the scan, counted twice": [1, 1]}, name="count_primitives")
assert_equal({"traces while it counts": log.traces}, {"traces while it counts": 0}, name="count_primitives")
counts = counted(lambda v: lax.custom_linear_solve(lambda w: w * 2, v, lambda _, w: w / 2), x)
found = {"mul and div in the NamedTuple of tapes of custom_linear_solve": [counts["mul"], counts["div"]]}
assert_equal(found, dict.fromkeys(found, [1, 1]), name="count_primitives")
counts = counted(lambda v: jax.jit(lambda u: u * u)(v) + jax.jit(lambda u: -u)(v), x)
found = {"mul and neg in two jits of one name": [counts["mul"], counts["neg"]]}
assert_equal(found, dict.fromkeys(found, [1, 1]), name="count_primitives")
counts = counted(lambda v: v.at[0].add(jnp.sin(v[1])), x)
assert_equal({"scatter-add": counts["scatter-add"]}, {"scatter-add": 1}, name="count_primitives, of a flat tape")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · The meter that XLA lacks (3 points)
#
# XLA's `cost_analysis()` counts the body of a loop once, however often it runs. Write `count_flops(tape)`, which
# multiplies by the number of rounds. The price list:
#
# - `add`, `sub`, `mul`, `div`: one FLOP for each element of the **result**;
# - `dot_general` (the product of matrices): one multiplication and one addition for each element of the result and each
#   index that is summed over;
# - `scan`: its body, `length` times;
# - `jit`: what is inside;
# - everything else: nothing. (Other boxes do not occur.)
#
# An operand's or result's type is `variable.aval`, with `.shape`, `.size` and `.dtype`.
#
# <details><summary>Hint 1</summary>
# It is the walker of task 4 with another thing to add up. What changes when you enter a scan?
# </details>
# <details><summary>Hint 2</summary>
# Print the parameters of a product:
# <code>jax.make_jaxpr(jnp.dot)(jnp.ones((8, 16)), jnp.ones((16, 4))).eqns[0].params</code>.
# <code>dimension_numbers[0][0]</code> are the axes of the left operand that are summed over.
# </details>
# <details><summary>Hint 3</summary>
# <pre>if name in ARITHMETIC:
#     total += eqn.outvars[0].aval.size
# elif name == "dot_general":
#     (summed, _), _ = eqn.params["dimension_numbers"]
#     total += 2 * ... * math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
# elif name == "scan":
#     total += ... * count_flops(eqn.params["jaxpr"])
# elif ...a box...:</pre>
# </details>

# %% nbgrader={"grade": false, "grade_id": "count-flops-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
ARITHMETIC = {"add", "sub", "mul", "div"}


def matmul_flops_spec(m, k, n):
    """FLOPs of float32[m,k] @ float32[k,n], counted one by one."""
    flops = 0
    for _row in range(m):
        for _column in range(n):
            for _summed in range(k):
                flops += 2  # one multiplication, one addition
    return flops


def xla_flops(fn, *args):
    """XLA's meter: right for straight lines, blind to the length of a loop."""
    return jax.jit(fn).lower(*args).cost_analysis()["flops"]


# %% nbgrader={"grade": false, "grade_id": "count-flops", "locked": false, "schema_version": 3, "solution": true, "task": false}
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    ### BEGIN SOLUTION
    # The multiplication happens where the walk enters a loop, so nested loops multiply by themselves.
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "count-flops-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Straight lines as XLA counts them; loops as often as they run."""
x = jnp.ones(100)
column, row = jnp.ones((30, 1)), jnp.ones((1, 40))
left, right = jnp.ones((8, 16)), jnp.ones((16, 4))


def step(c):
    return c * 0.5 + 1.0


def python_loop(v):
    for _ in range(10):
        v = step(v)
    return v


def scan_loop(v):
    return lax.scan(lambda c, _: (step(c), None), v, None, length=10)[0]


def nested_loop(v):
    return lax.scan(lambda c, _: (scan_loop(c), None), v, None, length=7)[0]


def outer_difference(u, v):
    return u - v


def meter(fn, *args):
    return count_flops(jax.make_jaxpr(fn)(*args))


straight = int(xla_flops(python_loop, x))
assert_equal(
    {
        "straight line": meter(python_loop, x),
        "jit box": meter(jax.jit(python_loop), x),
        "result larger than operands": meter(outer_difference, column, row),
        "exp is free": meter(lambda v: jnp.exp(v) / v, x),
        "scan of 10": meter(scan_loop, x),
        "scan of 7 in which a scan of 10 runs": meter(nested_loop, x),
        "matrix product": meter(jnp.dot, left, right),
    },
    {
        "straight line": straight,
        "jit box": straight,
        "result larger than operands": int(xla_flops(outer_difference, column, row)),
        "exp is free": 100,
        "scan of 10": straight,
        "scan of 7 in which a scan of 10 runs": 7 * straight,
        "matrix product": matmul_flops_spec(8, 16, 4),
    },
    hints={
        "straight line": "Twenty equations of 100 elements each.",
        "jit box": "The work is in the inner tape.",
        "result larger than operands": "A column minus a row is a matrix: count the elements of the result.",
        "exp is free": "The price list knows only add, sub, mul, div and dot_general.",
        "scan of 10": "The body stands on the tape once and runs length times.",
        "scan of 7 in which a scan of 10 runs": "The inner loop runs in full each time: lengths multiply.",
        "matrix product": "Each element of the result sums over 16 products: a multiplication and an addition each.",
    },
    name="count_flops",
)


### BEGIN HIDDEN TESTS
def batched(u, v):
    return jnp.einsum("bij,bjk->bik", u, v)


def one_after_the_other(v, w):
    return jax.jit(lambda u: u * u)(jnp.dot(w, v + v)) + jax.jit(lambda u: u + 1.0)(v)


def layers(v, w):
    return lax.scan(lambda c, _: (jax.jit(jnp.dot)(w, c) + c, None), v, None, length=12)[0]


def loop_then_step(v):
    return scan_loop(v) - v


def loops_in_a_loop(v):
    return lax.scan(lambda c, _: (scan_loop(loop_then_step(c)) * c, None), v, None, length=3)[0]


large = jax.ShapeDtypeStruct((2000, 2000), "float32")  # nobody calculates it
found = {"2000 x 2000 by 2000 x 2000": count_flops(jax.make_jaxpr(jnp.dot)(large, large).jaxpr)}
assert_equal(found, {"2000 x 2000 by 2000 x 2000": 16_000_000_000}, name="count_flops")


def boxes_alike(v):
    box = jax.jit(lambda u: u * u)
    return box(box(v))


assert_equal(
    {
        "batched product": meter(batched, jnp.ones((3, 4, 5)), jnp.ones((3, 5, 6))),
        "product in a jit in a loop": meter(layers, jnp.ones(20), jnp.ones((20, 20))),
        "inner product": meter(jnp.dot, jnp.ones(50), jnp.ones(50)),
        "sum over the rows of both": meter(
            lambda u, v: jnp.einsum("ki,kj->ij", u, v), jnp.ones((9, 4)), jnp.ones((9, 6))
        ),
        "sum over two axes": meter(lambda u, v: jnp.tensordot(u, v, 2), jnp.ones((4, 5, 6)), jnp.ones((5, 6, 7))),
        "one after the other": meter(one_after_the_other, jnp.ones(20), jnp.ones((20, 20))),
        "what is not on the list": meter(lambda v: -jnp.sum(lax.sqrt(lax.max(lax.abs(v), v) ** 3)), jnp.ones(20)),
        "add_any is not add": meter(lambda v: jax.vjp(lambda u: (u, u), v)[1]((v, v)), jnp.ones(20)),
        "unrolled four times": meter(lambda v: lax.scan(lambda c, _: (c + v, c), v, length=12, unroll=4), jnp.ones(5)),
        "a step after a loop": meter(loop_then_step, x),
        "two loops and two steps in a loop": meter(loops_in_a_loop, x),
        "two calls of one jit": meter(boxes_alike, x),
        "a product that nobody uses": meter(lambda v: (v * v, v + 1)[1], x),
        "a whole number": isinstance(meter(lambda v: v * v, 1.5), int | np.integer),
        "one number": meter(lambda v: v * v, 1.5),
        "whole numbers": meter(lambda k: k * k + 1, jnp.arange(6)),
        "a scan of no round, and a step": meter(
            lambda v: step(lax.scan(lambda c, _: (c * c, None), v, length=0)[0]), x
        ),
        "two jits of one name": meter(lambda v: jax.jit(lambda u: u * u * u)(v) + jax.jit(lambda u: -u)(v), x),
        "rows with rows": meter(
            lambda u, v: lax.dot_general(u, v, (((1,), (1,)), ((), ()))), jnp.ones((4, 9)), jnp.ones((6, 9))
        ),
    },
    {
        "batched product": 3 * matmul_flops_spec(4, 5, 6),
        "product in a jit in a loop": 12 * (matmul_flops_spec(20, 20, 1) + 20),
        "inner product": matmul_flops_spec(1, 50, 1),
        "sum over the rows of both": matmul_flops_spec(4, 9, 6),
        "sum over two axes": matmul_flops_spec(4, 30, 7),
        "one after the other": matmul_flops_spec(20, 20, 1) + 4 * 20,
        "what is not on the list": 0,
        "add_any is not add": 0,
        "unrolled four times": 60,
        "a step after a loop": straight + 100,
        "a product that nobody uses": 2 * x.size,
        "two loops and two steps in a loop": 3 * (2 * straight + 200),
        "two calls of one jit": 200,
        "a whole number": True,
        "one number": 1,
        "whole numbers": 12,
        "a scan of no round, and a step": 200,
        "two jits of one name": 300,
        "rows with rows": matmul_flops_spec(4, 9, 6),
    },
    hints={
        "a step after a loop": "The length multiplies what is in the body, and nothing that comes after the loop.",
        "two loops and two steps in a loop": "Behind an inner loop the outer body goes on, with its own length.",
        "two calls of one jit": "One inner tape may serve several equations: each of them runs it.",
    },
    name="count_flops",
)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · An interpreter that finds where a NaN is born (4 points)
#
# You have counted along the tape. Now *run* it. `evaluate(tape, *args, watch=...)` goes through the equations in order,
# keeps the value of every name, and returns the list of results. After each equation it calls `watch(name, values)`
# with the primitive's name and the list of its results, so that somebody can watch.
#
# - `scan`, `cond` and the rest run like any primitive, by `eqn.primitive.bind(*values, **eqn.params)`.
#   (`custom_jvp_call` and its like need more than that; they do not occur.)
# - `jit` is opened: its inner tape goes through `evaluate` too, with the same `watch`. The `jit` itself is not
#   reported.
#
# | you have | you get |
# |---|---|
# | `tape.jaxpr.invars`, `.outvars` | names of the inputs and of the results |
# | `tape.jaxpr.constvars`, `tape.consts` | names and values of captured arrays |
# | `eqn.invars`, `eqn.outvars` | operands and results of an equation |
# | `isinstance(operand, Literal)` | then its value is `operand.val`, and it has no name |
# | `eqn.primitive.multiple_results` | `bind` returns a list if this is true, one array if not |
#
# No ready-made interpreter (`jaxpr_as_fun`, `eval_jaxpr`): it would not tell `watch` anything. Fifteen lines are
# enough. The cell below the hints does it by hand for the tape of $2x^2 + 3x + 3$.
#
# <details><summary>Hint 1</summary>
# One dict from names to values is all the state there is. Which names have a value before the first equation?
# </details>
# <details><summary>Hint 2</summary>
# <code>formula</code> in section 8 of the lesson is this interpreter with strings for values. And
# <code>evaluate(tape, x, watch=print)</code> shows how far yours gets.
# </details>
# <details><summary>Hint 3</summary>
# <pre>value_of = dict(zip(tape.jaxpr.constvars, tape.consts))
# value_of |= dict(zip(tape.jaxpr.invars, args))
# def read(operand): ...
# for eqn in tape.eqns:
#     values = [read(operand) for operand in eqn.invars]
#     if eqn.primitive.name == "jit":
#         results = evaluate(...)
#     else:
#         results = ...   # a list, also for a primitive with one result
#         watch(eqn.primitive.name, results)
#     value_of.update(zip(eqn.outvars, results))
# return ...</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "evaluate-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def ignore(name, values):
    pass


def evaluate_poly_by_hand(x, watch=ignore):
    """What evaluate does with the tape of 2x² + 3x + 3."""
    b = lax.mul(2.0, x)
    watch("mul", [b])
    c = lax.mul(b, x)
    watch("mul", [c])
    d = lax.mul(3.0, x)
    watch("mul", [d])
    e = lax.add(c, d)
    watch("add", [e])
    f = lax.add(e, 3.0)
    watch("add", [f])
    return [f]


evaluate_poly_by_hand(1.5, watch=print)


def rounded(results):
    """Arrays as lists of numbers, to three decimals."""
    return [np.round(np.asarray(result, np.float64), 3).tolist() for result in results]


def attempt(fn, *args):
    """Rounded results of evaluate on the tape of fn; or the error, as text."""
    try:
        return rounded(evaluate(jax.make_jaxpr(fn)(*args), *args))
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def watched(fn, *args):
    """What evaluate reports while it runs the tape of fn: a list of (name, values)."""
    reports = []
    evaluate(jax.make_jaxpr(fn)(*args), *args, watch=lambda name, values: reports.append((name, values)))
    return reports


# %% nbgrader={"grade": false, "grade_id": "evaluate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    ### BEGIN SOLUTION
    # A jaxpr assigns each name once, so one dict is the whole state of the machine.
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "evaluate-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The interpreter agrees with JAX."""
x = jnp.array([1.0, 2.0, 4.0])
table = jnp.array([10.0, 20.0, 30.0])
double = jax.jit(lambda v: v * 2)
cases = {  # case: (function, its results for x)
    "operands that are names": (lambda v: v * v + v, [[2, 6, 20]]),
    "a literal operand": (lambda v: v + 0.75, [[1.75, 2.75, 4.75]]),
    "a literal result": (lambda v: (v + 1, 7.5), [[2, 3, 5], 7.5]),
    "a captured array": (lambda v: v + table, [[11, 22, 34]]),
    "two results": (lambda v: (v + v, v * v), [[2, 4, 8], [1, 4, 16]]),
    "a primitive with two results": (lambda v: lax.top_k(v, 2)[0], [[4, 2]]),
    "a result nobody uses": (lambda v: (v + v, v * 3)[1], [[3, 6, 12]]),
    "a jit box": (lambda v: double(v) + 1, [[3, 5, 9]]),
    "a captured array in a jit box": (lambda v: jax.jit(lambda w: double(w) + table)(v), [[12, 24, 38]]),
    "a scan": (
        lambda v: lax.scan(lambda c, _: (c + table, c[0]), v, None, length=3),
        [[31, 62, 94], [1, 11, 21]],
    ),
    "a cond": (lambda v: lax.cond(v[0] > 0, lambda w: w * 2, lambda w: w + 1, v), [[2, 4, 8]]),
}
assert_equal(
    {case: attempt(fn, x) for case, (fn, _) in cases.items()},
    {case: results for case, (_, results) in cases.items()},
    hints={
        "operands that are names": "Read each operand from the dict of names, in the order of eqn.invars.",
        "a literal operand": "A Literal is no name: its value is operand.val, as it is.",
        "a literal result": "A result may be a Literal too: read it like an operand.",
        "a captured array": "Captured arrays are in tape.consts, their names in tape.jaxpr.constvars.",
        "two results": "Return a list with every result, in the order of tape.jaxpr.outvars.",
        "a primitive with two results": "With multiple_results, bind returns a list already: do not wrap it again.",
        "a result nobody uses": "The line still runs, and its name is never read.",
        "a jit box": "eqn.params['jaxpr'] is a tape: evaluate it.",
        "a captured array in a jit box": "An inner tape may have constants of its own, or get the array as an operand.",
        "a scan": "It keeps its own tape to itself: bind it like any primitive, with all its params.",
        "a cond": "It keeps its own tapes to itself: bind it like any primitive, with all its params.",
    },
    name="evaluate",
)
by_hand, by_tape = [], watched(poly_spec, 1.5)
evaluate_poly_by_hand(1.5, watch=lambda name, values: by_hand.append((name, values)))
assert_equal(
    {"what watch was told": [[name, float(values[0])] for name, values in by_tape]},
    {"what watch was told": [[name, float(values[0])] for name, values in by_hand]},
    hints={"what watch was told": "Call watch(name, values) after every equation, with the list of its results."},
    name="evaluate",
)


### BEGIN HIDDEN TESTS
def softmax_and_norm(v):
    return jax.jit(jax.nn.softmax)(v - table), jnp.linalg.norm(v)


fresh = jnp.asarray(np.random.default_rng(11).normal(size=3).astype(np.float32))
assert_allclose(
    tuple(evaluate(jax.make_jaxpr(softmax_and_norm)(fresh), fresh)),
    softmax_and_norm(fresh),
    rtol=1e-5,
    atol=1e-6,
    name="softmax_and_norm",
)
assert_allclose(
    evaluate(jax.make_jaxpr(jax.grad(lambda v: jnp.sum(v * v * table)))(fresh), fresh)[0],
    2 * fresh * table,
    rtol=1e-5,
    name="the tape of a gradient",
)
found = {"no equation at all": attempt(lambda v: (v, 7.5), x)}
assert_equal(found, {"no equation at all": [[1, 2, 4], 7.5]}, name="evaluate")
found = {"one result, returned twice": attempt(lambda v: (2 * v,) * 2, x)}
assert_equal(found, {"one result, returned twice": [[2, 4, 8], [2, 4, 8]]}, name="evaluate")
whole = jnp.arange(3)
assert_allclose(evaluate(jax.make_jaxpr(lambda k: k * 2 + 1)(whole), whole), [whole * 2 + 1], name="whole numbers")
both = watched(lambda v: lax.top_k(v, 2)[0], x)
assert_equal(
    {"what watch was told": [[name, rounded(values)] for name, values in both]},
    {"what watch was told": [["top_k", [[4, 2], [2, 1]]]]},
    name="evaluate",
)
pair = jax.jit(lambda v: (v + 1, v * 2))
found = {"a jit box with two results, called twice": attempt(lambda v: pair(pair(v)[1]), x)}
assert_equal(found, {"a jit box with two results, called twice": [[3, 5, 9], [4, 8, 16]]}, name="evaluate")
other = jnp.array([0.5, 0.25, 0.75])
found = {
    "two captured arrays": attempt(lambda v: v * table - other, x),
    "two jits of one name": attempt(lambda v: jax.jit(lambda w: w * 2)(v) - jax.jit(lambda w: w + 1)(v), x),
}
right = {"two captured arrays": [[9.5, 39.75, 119.25]], "two jits of one name": [[0, 1, 3]]}
assert_equal(found, right, name="evaluate")
key = jax.random.key(3)
drawn = evaluate(jax.make_jaxpr(lambda k: jax.random.uniform(k, (3,)) * x)(key), key)[0]
assert_allclose(drawn, jax.random.uniform(key, (3,)) * x, rtol=1e-5, name="a tape with a random key")
tape_of_sum = jax.make_jaxpr(lambda v: jnp.sum(jnp.sin(v) * table))(x)
traced = jax.jit(lambda v: evaluate(tape_of_sum, v)[0])(x)
assert_allclose(traced, jnp.sum(jnp.sin(x) * table), rtol=1e-5, name="evaluate, traced itself")
of_integers = [name for name, _ in watched(lambda k: lax.mul(k, k) > lax.neg(k), whole)]
assert_equal({"reports for integers": of_integers}, {"reports for integers": ["mul", "neg", "gt"]}, name="evaluate")
### END HIDDEN TESTS

# %% [markdown]
# Now the reward. A model returns `nan`; which of its operations is to blame? Your interpreter knows: the first
# equation that reports a NaN, even inside a `jit`. (JAX's own `jax_debug_nans` works on the same idea.)

# %% nbgrader={"grade": true, "grade_id": "evaluate-watch", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The watcher names the equation where the NaN is born."""


def culprit(fn, *args):
    """Name of the first primitive with a NaN among its results."""
    try:
        reports = watched(fn, *args)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for name, values in reports:
        if any(bool(jnp.isnan(value).any()) for value in values):
            return name
    return "nobody"


@jax.jit
def normalise(v):
    return v / jnp.sum(v)


def model(v):
    return jnp.sum(jnp.exp(normalise(v - 2.0)) * 3.0)


def entropy(v):
    p = normalise(v)
    return -jnp.sum(p * jnp.log(p))


hint = "Call watch(name, values) after every equation, those in a jit box too; do not report the box."
reports = [name for name, _ in watched(lambda v: normalise(v) + 1.0, jnp.ones(3))]
assert_equal(
    {"reports for a jit box and a sum": reports},
    {"reports for a jit box and a sum": ["reduce_sum", "div", "add"]},
    hints={"reports for a jit box and a sum": hint},
    name="evaluate",
)
suspects = {
    "model of 2, 2, 2": (model, jnp.full(3, 2.0)),
    "entropy of 0, 1": (entropy, jnp.array([0.0, 1.0])),
    "entropy of 1, 1": (entropy, jnp.ones(2)),
}
assert_equal(
    {case: culprit(fn, v) for case, (fn, v) in suspects.items()},
    {"model of 2, 2, 2": "div", "entropy of 0, 1": "mul", "entropy of 1, 1": "nobody"},
    hints={"model of 2, 2, 2": hint, "entropy of 0, 1": "0 times the log of 0 is 0 times minus infinity."},
    name="evaluate",
)


### BEGIN HIDDEN TESTS
@jax.jit
def inner(v):
    return jax.jit(jnp.sqrt)(v - 5.0) * 2.0


suspect = culprit(lambda v: inner(v) + 1.0, jnp.ones(2))
assert_equal({"sqrt of a negative": suspect}, {"sqrt of a negative": "sqrt"}, name="evaluate")
suspect = culprit(lambda v: (jnp.log(v - 5.0), v + 1.0)[1], jnp.ones(2))
assert_equal({"a log that nobody uses": suspect}, {"a log that nobody uses": "log"}, name="evaluate")


def looked_on(v):
    return jax.pure_callback(lambda w: (order.append("runs"), w)[1], v, lax.sin(v))


def in_boxes_of_their_own(v):
    return lax.cond(v[0] > 0, lambda w: lax.scan(lambda c, _: (jnp.sin(c), None), w, length=2)[0], jnp.cos, v)


def grown(v):
    return lax.while_loop(lambda c: c[0] < 1000.0, lambda c: c * 2, jax.checkpoint(jnp.exp)(v))


names = [name for name, _ in watched(in_boxes_of_their_own, x)]
assert_equal(
    {"reports for a cond with a loop in it": [names.count(name) for name in ("cond", "scan", "sin")]},
    {"reports for a cond with a loop in it": [1, 0, 0]},
    name="evaluate",
)
found = {"reports for a checkpoint and a while": [name for name, _ in watched(grown, x)]}
assert_equal(found, {"reports for a checkpoint and a while": ["remat2", "while"]}, name="evaluate")
order = []
evaluate(jax.make_jaxpr(looked_on)(x), x, watch=lambda name, made: order.append((jax.block_until_ready(made), name)[1]))
assert_equal({"order": order}, {"order": ["sin", "runs", "pure_callback"]}, name="evaluate")
with trace_log() as log:
    evaluate(jax.make_jaxpr(lambda v: inner(v) + 1.0)(jnp.ones(7)), jnp.ones(7))
whole = [module for module in log.modules if "inner" in module]
assert_equal({"boxes that ran whole, unwatched": whole}, {"boxes that ran whole, unwatched": []}, name="evaluate")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 7 · minijit: write the tape (4 points)
#
# From here on you build a `jit` of your own, in NumPy, a piece in each of the units 02, 03, 05, 07 and 08. At the end
# it caches, batches and differentiates, and there is no JAX in it. Each piece starts from a correct version of the
# pieces before, so you can join at any of them.
#
# Today: the tape. NumPy lets other objects take over its operations. Before `np.sin(x)` computes anything, it looks
# whether `x` has a method `__array_ufunc__`, and if so it calls that instead. So does `2 * x`. The next cell uses this
# for a `Tracer`: each of its operations ends in a call of `bind`. Read the cell from the top. Three functions are
# missing:
#
# - `record(primitive, operands, params)` writes one equation;
# - `trace(fn, *types)` runs `fn` once on tracers, and returns the tape;
# - `replay(tape, *args)` runs the tape, and returns the value of every name on it.
#
# An equation is a tuple `(name, primitive, operands, params)`, for example `("c", "mul", (2, "b"), {})`.
#
# <details><summary>Hint 1</summary>
# <code>record</code> computes nothing. It asks <code>result_type</code> for a type, its tape for a new tracer of this
# type, appends one tuple, and returns the tracer. <code>trace</code> calls <code>record</code> nowhere: <code>fn</code>
# does that, without knowing.
# </details>
# <details><summary>Hint 2</summary>
# <code>print(trace(lambda x: 2 * np.sin(x), Type((3,), "float32")))</code>, and beside it
# <code>print(tape_by_hand())</code>. Look at <code>tape_by_hand().equations</code>: which operands are text, which are
# not?
# </details>
# <details><summary>Hint 3</summary>
#
# ```python
# def record(primitive, operands, params):
#     tape = ...the tape of the first tracer among the operands...
#     result = tape.new(result_type(...))
#     names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
#     ...
#
# def trace(fn, *types):
#     tape = Tape()
#     tracers = [tape.new(type) for type in types]
#     tape.inputs = ...
#     result = fn(*tracers)
#     tape.output = ...   # a name; or the value, if fn returned no tracer
#     return tape
#
# def replay(tape, *args):
#     values = dict(zip(tape.inputs, map(lift, args)))
#     for name, primitive, operands, params in tape.equations:
#         values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
#     return values
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "minijit-02-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
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

    def new(self, type):
        """A tracer with the next free name: a, b, ..., z, a1, b1, ..."""
        letter, round = string.ascii_lowercase[len(self.types) % 26], len(self.types) // 26
        tracer = Tracer(self, f"{letter}{round or ''}", type)
        self.types[tracer.name] = type
        return tracer

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


def read(values, operand):
    """A name is looked up; anything else stands for itself."""
    return values[operand] if isinstance(operand, str) else operand


def minijit(fn):
    """A jit without a memory: it traces in every call. Unit 05 gives it one."""
    return lambda *args: trace(fn, *map(type_of, args)).play(*args)


# %% [markdown]
# The next cell has a tape written by hand, and what the check uses to compare your tapes with real ones. For that, the
# names of a jaxpr are given anew, in order of appearance.


# %% nbgrader={"grade": false, "grade_id": "minijit-02-compare-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def tape_by_hand():
    """What trace writes for 2 * sin(x) + x and float32[3]."""
    tape = Tape()
    for _ in "abcd":
        tape.new(Type((3,), "float32"))
    tape.inputs, tape.output = ["a"], "d"
    tape.equations = [("b", "sin", ("a",), {}), ("c", "mul", (2, "b"), {}), ("d", "add", ("c", "a"), {})]
    return tape


def tape_lines(tape):
    """A minijit tape as a dict of lines."""

    def shown(x):
        return x if isinstance(x, str) else str(float(x)) if is_number(x) else f"a {type(x).__name__}"

    lines = {"arguments": " ".join(f"{name}:{tape.types[name]}" for name in tape.inputs)}
    for number, (name, primitive, operands, _) in enumerate(tape.equations, 1):
        lines[f"line {number}"] = f"{name}:{tape.types[name]} = {primitive} {' '.join(map(shown, operands))}"
    return lines | {"result": shown(tape.output), "number of lines": len(tape.equations)}


def jaxpr_lines(fn, *args):
    """The jaxpr of fn as a dict of lines, its names given in order of appearance."""
    jaxpr, names = jax.make_jaxpr(fn)(*args).jaxpr, {}

    def shown(x):
        if isinstance(x, Literal):
            return str(float(x.val))
        return names.setdefault(x, string.ascii_lowercase[len(names)])

    def typed(x):
        return f"{shown(x)}:{x.aval.str_short()}"

    lines = {"arguments": " ".join(map(typed, jaxpr.invars))}
    for number, eqn in enumerate(jaxpr.eqns, 1):
        operands = " ".join(map(shown, eqn.invars))
        lines[f"line {number}"] = f"{typed(eqn.outvars[0])} = {eqn.primitive.name} {operands}"
    return lines | {"result": shown(jaxpr.outvars[0]), "number of lines": len(jaxpr.eqns)}


def told_by(fn, *args):
    """What fn returns for these arguments; or its error, as text."""
    try:
        return fn(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


print(tape_by_hand())


# %% nbgrader={"grade": false, "grade_id": "minijit-trace", "locked": false, "schema_version": 3, "solution": true, "task": false}
def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    ### BEGIN SOLUTION
    # A name for what is not there yet, and everything else as it is.
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result
    ### END SOLUTION


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    ### BEGIN SOLUTION
    # Running the function is what writes the tape: every operation on a tracer ends in record.
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = result.name if isinstance(result, Tracer) else result
    return tape
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minijit-trace-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Line by line, your tapes are what JAX writes."""


def mini_poly(x, xp=np):
    return 2 * x * x + 3 * x + 3


def mini_wave(x, xp=np):
    xp.cos(x)  # nobody uses it
    return xp.sin(x) * x - 0.5


def mini_positive(x, xp=np):
    return -x > 1.5


def mini_tower(x, xp=np):
    for _ in range(3):
        x = xp.exp(-x)
    return x


def mini_constant(x, xp=np):
    return 7.5


def both_tapes(fn, *shapes):
    """The lines of your tape, and those of JAX's, for arguments of these shapes."""
    mine = told_by(lambda: tape_lines(trace(fn, *[Type(shape, "float32") for shape in shapes])))
    theirs = jaxpr_lines(lambda *args: fn(*args, xp=jnp), *[jnp.ones(shape, jnp.float32) for shape in shapes])
    if isinstance(mine, str):
        return {"your tape": mine}, {"your tape": "written without an error"}
    return mine, theirs


line_hints = {
    "arguments": "tape.inputs are the names of the tracers that fn is called with.",
    "result": "tape.output is the name of what fn returned; what is no tracer stands for itself.",
    "number of lines": "One equation for each operation on a tracer, no more and no less.",
    **dict.fromkeys(
        [f"line {number}" for number in range(1, 9)],
        "A tracer stands there by its name, a number as it is; the type is that of the result.",
    ),
}
for fn in (mini_poly, mini_wave, mini_positive, mini_tower, mini_constant):
    mine, theirs = both_tapes(fn, (2, 3))
    assert_equal(mine, theirs, name=f"the tape of {fn.__name__}", hints=line_hints)
### BEGIN HIDDEN TESTS


def mini_two(x, y, xp=np):
    return xp.cos(x * y) - x * 2.5 + y


def mini_same(x, xp=np):
    return x


def mini_twice(x, xp=np):
    return xp.sin(x) + xp.sin(x)


once = (mini_twice, (4,)), (mini_two, (5,), (5,)), (mini_same, (3,)), (mini_poly, ()), (mini_positive, ())
for fn, *shapes in once:
    mine, theirs = both_tapes(fn, *shapes)
    assert_equal(mine, theirs, name=f"the tape of {fn.__name__}", hints=line_hints)
runs, kept = [], np.arange(3)
doubles = lambda x: (runs.append(x), x * 2)[1]  # noqa: E731
for _ in range(2):
    trace(doubles, Type((3,), "int32"))
mine = trace(lambda x: (x * 2, kept)[1], Type((3,), "int32"))
numbers = [type(x).__name__ for _, _, operands, _ in mine.equations for x in operands if not isinstance(x, str)]
many = trace(lambda *args: args[27], *[Type((), "float32")] * 30)
assert_equal(
    {
        "runs of fn, traced twice": len(runs),
        "numbers on the tape": numbers,
        "an array as result": mine.output is kept,
        "arguments, of thirty": len(many.inputs),
        "the last three, and one of them as result": [*many.inputs[27:], many.output],
    },
    {
        "runs of fn, traced twice": 2,
        "numbers on the tape": ["int"],
        "an array as result": True,
        "arguments, of thirty": 30,
        "the last three, and one of them as result": ["b1", "c1", "d1", "b1"],
    },
    name="trace",
)
(equation,) = trace(lambda x: x * kept, Type((3,), "int32")).equations
_, _, operands, _ = equation
found = {"tuples": [isinstance(equation, tuple), isinstance(operands, tuple)]}
assert_equal(found, {"tuples": [True, True]}, name="an equation, and its operands")
found = {"an array as operand": any(isinstance(x, np.ndarray) for x in operands)}
assert_equal(found, {"an array as operand": True}, name="trace")


def around(x):
    tapes.append(trace(lambda y: (x * 2, y + 1)[1], Type((3,), "int32")))
    return x


tapes = []
tapes.append(trace(around, Type((3,), "int32")))
found = {"an inner tape, and the one around it": [[line[1] for line in tape.equations] for tape in tapes]}
assert_equal(found, {"an inner tape, and the one around it": [["add"], ["mul"]]}, name="trace")
found = {"a whole number as result": repr(trace(lambda x: 7, Type((3,), "float32")).output)}
assert_equal(found, {"a whole number as result": "7"}, name="trace")


def mini_idle(x, xp=np):
    return x * 1.0 + 0.0  # it changes nothing, and is written down like any other


def mini_first(x, xp=np):
    first = xp.sin(x)
    xp.cos(first)  # nobody uses it
    return first


for fn in (mini_idle, mini_first):
    mine, theirs = both_tapes(fn, (4,))
    assert_equal(mine, theirs, name=f"the tape of {fn.__name__}", hints=line_hints)
vast = told_by(trace, lambda x: np.sin(2 * x) + 1, Type((2**40, 2**20), "float32"))  # of which there can be no array
found = {"a type that no memory holds": vast if isinstance(vast, str) else f"{len(vast.equations)} equations"}
assert_equal(found, {"a type that no memory holds": "3 equations"}, name="trace")
### END HIDDEN TESTS


# %% nbgrader={"grade": false, "grade_id": "minijit-replay", "locked": false, "schema_version": 3, "solution": true, "task": false}
def replay(tape, *args):
    """Run a tape on arguments of its types; return the value of every name on it: a dict.

    args: numbers, arrays or tracers. lift makes float32 of a float64 array.
    """
    ### BEGIN SOLUTION
    # Each name is written once, so one dict is all the memory. bind decides: compute, or record again.
    values = dict(zip(tape.inputs, map(lift, args), strict=True))
    for output, primitive, operands, params in tape.equations:
        values[output] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minijit-replay-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. A tape written by hand is run: numbers, arrays, and every name on the way."""
replay_x = np.array([0.0, 0.5, 2.0], np.float32)
replayed = told_by(replay, tape_by_hand(), replay_x)
by_hand = {
    "a": replay_x,
    "b": np.sin(replay_x),
    "c": 2 * np.sin(replay_x),
    "d": 2 * np.sin(replay_x) + replay_x,
}
replay_hint = "Read each operand with read: a name is looked up, a number stands for itself."
assert_equal(
    {"what replay returns": replayed if isinstance(replayed, str) else sorted(replayed)},
    {"what replay returns": sorted(by_hand)},
    name="replay",
    hints={"what replay returns": replay_hint},
)
assert_allclose(dict(replayed), by_hand, name="the value of every name")
### BEGIN HIDDEN TESTS
sum_tape = Tape()
for shape in ((2, 3), (3,), (3, 4)):
    sum_tape.new(Type(shape, "int32"))
sum_tape.inputs, sum_tape.output = ["a"], "c"
sum_tape.equations = [("b", "sum", ("a",), {"axis": 0}), ("c", "spread", ("b",), {"axis": 1, "size": 4})]
counts = np.arange(6, dtype=np.int32).reshape(2, 3)
assert_allclose(replay(sum_tape, counts)["c"], np.array([[3] * 4, [5] * 4, [7] * 4], np.int32), name="c")
named_tape = Tape()
named_tape.types = dict.fromkeys(["faster", "idle", "far"], Type((2,), "float32")) | {"speed": Type((), "float32")}
named_tape.inputs, named_tape.output = ["speed"], "far"
named_tape.equations = [("faster", "mul", ("speed", np.float32([1, 2])), {}), ("idle", "sin", ("faster",), {})]
named_tape.equations += [("far", "add", ("faster", "speed"), {})]
found = replay(named_tape, 1.5)
assert_equal({"names": sorted(found)}, {"names": ["far", "faster", "idle", "speed"]}, name="replay")
assert_allclose(found["far"], np.float32([3, 4.5]), name="far")
changing, tripled = np.float32([2]), Tape()
tripled.types, tripled.inputs, tripled.output = {"x": Type((1,), "float32"), "y": Type((1,), "float32")}, ["x"], "y"
tripled.equations = [("y", "mul", ("x", np.float32([3])), {})]
values = np.asarray(replay(tripled, changing)["y"]).tolist()
earlier = replay(tripled, changing)
changing[0] = 5  # the same array, and another number
values += np.asarray(replay(tripled, changing)["y"]).tolist()
assert_allclose(earlier["y"], np.float32([6]), name="y of an earlier run")
assert_equal(
    {"3 * x, and again with another x in its place": values},
    {"3 * x, and again with another x in its place": [6.0, 15.0]},
    name="replay",
)
wide = {name: str(value.dtype) for name, value in replay(tape_by_hand(), replay_x.astype(np.float64)).items()}
assert_equal(wide, dict.fromkeys("abcd", "float32"), name="replay of a float64 array (the dtypes)")
of_a_number = tape_by_hand()
of_a_number.types = dict.fromkeys("abcd", Type((), "float32"))
dtypes = {name: str(np.asarray(value).dtype) for name, value in replay(of_a_number, 0.5).items()}
assert_equal(dtypes, dict.fromkeys("abcd", "float32"), name="replay of a plain number (the dtypes)")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "minijit-replay-jit", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. minijit gives JAX's values, without the Python body; and a replay can be traced again."""


def mini_model(w, x, xp=np):
    mini_runs.append(1)
    error = xp.sum(x * w, 1) - xp.sin(w).sum()
    return xp.sum(error * error)


mini_runs = []
mini_w, mini_x = np.array([1.0, -2.0, 0.5], np.float32), np.arange(12, dtype=np.float32).reshape(4, 3) / 10
mini_types = type_of(mini_w), type_of(mini_x)
mini_tape = trace(mini_model, *mini_types)
for scale in (1, 3):
    desired = mini_model(jnp.asarray(mini_w * scale), jnp.asarray(mini_x), jnp)
    mini_runs.clear()
    played = mini_tape.play(mini_w * scale, mini_x)
    assert_allclose(played, desired, rtol=1e-5, name="the tape of mini_model, played")
    assert_equal({"runs of the Python body": len(mini_runs)}, {"runs of the Python body": 0}, name="play")
desired = mini_model(mini_w, mini_x)
assert_allclose(minijit(mini_model)(mini_w, mini_x), desired, rtol=1e-5, name="minijit(mini_model)")
assert_equal(
    {"the tape of a replay": told_by(lambda: str(trace(mini_tape.play, *mini_types)))},
    {"the tape of a replay": str(mini_tape)},
    name="replay",
    hints={"the tape of a replay": "lift leaves a tracer as it is, and bind knows what to do with it."},
)
### BEGIN HIDDEN TESTS
played = minijit(lambda x: mini_tape.play(mini_w, x))(mini_x)
assert_allclose(played, desired, rtol=1e-5, name="a replay of an array and a tracer")
### END HIDDEN TESTS

# %% [markdown]
# ## What you have now
#
# A counter, a meter and an interpreter: three readings of one tape. `jit`, `grad` and `vmap` are three more, with
# longer lists of rules. Unit 03 asks what becomes of the things that never reached the tape.
