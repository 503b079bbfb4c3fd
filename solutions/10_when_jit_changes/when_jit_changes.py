# %% [markdown]
# # Exercise 10 · When jit changes the answer
#
# Six tasks, 22 points, about {duration}. The lesson is
# [10 · When jit changes the answer](../../lessons/10_when_jit_changes.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. Last digits belong to a
# machine and a version of JAX, so every check measures on yours. Where a check is folded, its code holds hints about
# wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say for which of eleven functions `jit` changes a digit | 3 |
# | 2 | count the steps from one float to another | 3 |
# | 3 | write a formula that stays right when it is compiled | 3 |
# | 4 | build an instrument that says why `jit` changed a result | 4 |
# | 5 | keep an account in `float32` that stays right, and add up a day, right and fast | 6 |
# | 6 | judge whether a result is a matrix product, up to rounding | 3 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from autograder import (
    assert_allclose,
    assert_equal,
    assert_prediction,
    partial_credit,
    run_alone,
    show_hlo,
    speedup,
)

# %% [markdown]
# ## Task 1 · Same or not? (3 points)
#
# Eleven functions, each called with a thousand numbers, eager and jitted. For which does `jit` change **any digit** of
# the result? Write `True` where it does.
#
# What your machine can do is printed below: `FMA` is `True` if it joins a product and a sum, `EXCESS` if it skips
# roundings of `bfloat16`. Use these two names in your functions where the answer depends on them: a check puts other
# values in their place, as on another machine.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists. Of the notebook, only numbers and text are there, such as these two names.
#
# <details><summary>Hint 1</summary>
# There are three causes: a product meets a sum in one box (one fusion), a pass rewrites the operations, a rounding in
# half precision is skipped. Where none of them applies, the digits are the same.
# </details>
# <details><summary>Hint 2</summary>
# A rounding that is saved shows only if it would have changed something. Which of the products, quotients and
# differences below are exact anyway?
# </details>
# <details><summary>Hint 3</summary>
# Multiplying by 2 or by ½ never rounds. What is written twice is computed once. A lone operation is compiled in eager
# mode, too. Then there are four left, and three of them depend on your machine.
# </details>


# %% nbgrader={"grade": false, "grade_id": "changes-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Six functions of sums and products. a, b, c: float32[1000].


def there_and_back(a, b):
    return a + b - a


def squares(a, b):
    return a * a - b * b


def nothing_left(a):
    return a * a - a * a


def factors(a, b):
    return (a - b) * (a + b)


def twice_and_more(a, b):
    return 2 * a + b


def between(a, b, c):
    return a + (b - a) * c


# Five others. h: bfloat16[1000].


def log_of_root(a):
    return jnp.log(jnp.sqrt(a))


def halves(a):
    return a / 2


def squashed(a):
    return jnp.tanh(a)


def total(a):
    return a.sum()


def widened(h):
    return (h * h).astype(jnp.float32)


def numbers(count, seed=None):
    """Three arrays of `count` float32 between 0 and 1."""
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.uniform(size=count).astype(np.float32)) for _ in range(3)]


def changed_by_jit(*functions):
    """Name of each function -> whether jit changes any digit of its result."""
    a, b, c = numbers(1000, seed=10)
    changed = {}
    for fn in functions:
        names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
        args = [{"a": a, "b": b, "c": c, "h": a.astype(jnp.bfloat16)}[name] for name in names]
        changed[fn.__name__] = not np.array_equal(fn(*args), jax.jit(fn)(*args), equal_nan=True)
    return changed


def residual(a, b, product):
    return a * b - product


_a, _b = numbers(1000, seed=1)[:2]
FMA = bool((jax.jit(residual)(_a, _b, _a * _b) != 0).any())
EXCESS = bool((jax.jit(widened)(_a.astype(jnp.bfloat16)) != widened(_a.astype(jnp.bfloat16))).any())
print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}:  FMA {FMA}, EXCESS {EXCESS}")


# %% nbgrader={"grade": false, "grade_id": "changes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def changes_in_sums():
    """there_and_back, squares, nothing_left, factors, twice_and_more, between -> does jit change a digit?"""
    ### BEGIN SOLUTION
    # A product that is rounded and then added to something: only there can a rounding be saved.
    return {
        "there_and_back": False,
        "squares": FMA,
        "nothing_left": False,
        "factors": False,
        "twice_and_more": False,
        "between": FMA,
    }
    ### END SOLUTION


def changes_elsewhere():
    """log_of_root, halves, squashed, total, widened -> does jit change a digit?"""
    ### BEGIN SOLUTION
    # Half a logarithm is another calculation. One operation alone is one program, jitted or not.
    return {
        "log_of_root": True,
        "halves": False,
        "squashed": False,
        "total": False,
        "widened": EXCESS,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "changes-sums", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The six functions of sums and products are predicted right."""
assert_prediction(
    changes_in_sums,
    lambda: changed_by_jit(there_and_back, squares, nothing_left, factors, twice_and_more, between),
    hints={
        "there_and_back": "Does XLA change the order of additions among values that it does not know?",
        "squares": "One of the two products can be joined with the difference. Then it is not rounded.",
        "nothing_left": "How many products are left when XLA has merged what is written twice?",
        "factors": "Which sum could a product be joined with? Look at what comes after the product.",
        "twice_and_more": "How much does the product lose when it is rounded?",
        "between": "A product, and then a sum.",
    },
)
### BEGIN HIDDEN TESTS
this_machine, said_of_two_machines = (FMA, EXCESS), {}
try:
    for FMA, EXCESS in ((True, False), (False, True)):
        said_of_two_machines[f"FMA {FMA}, EXCESS {EXCESS}"] = run_alone(changes_in_sums)
finally:
    FMA, EXCESS = this_machine
anywhere_the_same = dict.fromkeys(("there_and_back", "nothing_left", "factors", "twice_and_more"), False)
true_of_two_machines = {
    f"FMA {joins}, EXCESS {not joins}": anywhere_the_same | {"squares": joins, "between": joins}
    for joins in (True, False)
}
assert_equal(said_of_two_machines, true_of_two_machines, name="changes_in_sums")
### END HIDDEN TESTS

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "changes-elsewhere", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The five other functions are predicted right."""
assert_prediction(
    changes_elsewhere,
    lambda: changed_by_jit(log_of_root, halves, squashed, total, widened),
    hints={
        "log_of_root": "algsimp knows a shorter way to this logarithm.",
        "halves": "Is a product with the reciprocal of 2 another number?",
        "squashed": "One operation is a program of its own in eager mode, and compiled by the same compiler.",
        "total": "One operation is a program of its own in eager mode, and compiled by the same compiler.",
        "widened": "The result is float32. Must the square be rounded to bfloat16 on its way there?",
    },
)
### BEGIN HIDDEN TESTS
this_machine, said_of_two_machines = (FMA, EXCESS), {}
try:
    for FMA, EXCESS in ((True, False), (False, True)):
        said_of_two_machines[f"FMA {FMA}, EXCESS {EXCESS}"] = run_alone(changes_elsewhere)
finally:
    FMA, EXCESS = this_machine
anywhere_alike = {"log_of_root": True, "halves": False, "squashed": False, "total": False}
true_of_two_machines = {
    f"FMA {not skips}, EXCESS {skips}": anywhere_alike | {"widened": skips} for skips in (False, True)
}
assert_equal(said_of_two_machines, true_of_two_machines, name="changes_elsewhere")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 2 · Count the floats (3 points)
#
# How far apart are two `float32`? Not as a difference: **how many steps from one float to the next** lie between them?
# `steps_slow` walks and counts. From -1 to 1 it would have to walk two thousand million steps.
#
# Write `steps(a, b)` for NumPy arrays of `float32` (finite, of one shape, not empty). It returns an `int64` array of
# that shape, exact, however far apart they are.
#
# <details><summary>Hint 1</summary>
# The 32 bits of a positive float, read as an integer, are its number in the queue of all floats. Look:
# <code>np.float32([0, 1e-45, 3e-45, 1, 2]).view(np.int32)</code>.
# </details>
# <details><summary>Hint 2</summary>
# Do the same with negative numbers and with -0.0. Their integers rise from the lowest one upwards, while the floats
# fall. Turn that around, such that both zeros become 0. And how many steps can there be at most? Does that fit into 32
# bits?
# </details>
# <details><summary>Hint 3</summary>
# <code>bits = x.view(np.int32).astype(np.int64)</code>, and
# <code>place = np.where(bits &lt; 0, -2**31 - bits, bits)</code>. The distance is the absolute difference of two
# places.
# </details>


# %% nbgrader={"grade": false, "grade_id": "steps-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def steps_slow(a, b):
    """How many steps of float32 lie between a and b. a, b: float32 scalars. Returns an int."""
    low, high = sorted((np.float32(a), np.float32(b)))
    count = 0
    while low < high:
        low = np.nextafter(low, np.float32(np.inf))
        count += 1
    return count


print("from 1 to 1.0001:", steps_slow(1, 1.0001))


# %% nbgrader={"grade": false, "grade_id": "steps", "locked": false, "schema_version": 3, "solution": true, "task": false}
def steps(a, b):
    """How many steps of float32 lie between a and b. a, b: NumPy float32[...]. Returns int64[...]."""
    ### BEGIN SOLUTION
    # The bits of a float are its place in the queue; below zero the queue runs backwards.
    bits = [np.asarray(x, np.float32).view(np.int32).astype(np.int64) for x in (a, b)]
    one, other = (np.where(place < 0, -(2**31) - place, place) for place in bits)
    return np.abs(one - other)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "steps-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Every distance is exact: across a power of two, across zero, across everything."""
above, below = (np.nextafter(np.float32(1), np.float32(side)) for side in (2, 0))
largest = np.finfo(np.float32).max
pairs = {
    "a number and itself": (0.1, 0.1),
    "two neighbours": (1, above),
    "the neighbours of 1": (below, above),
    "1 and 1.0001": (1, 1.0001),
    "1e-10 and 1.0001e-10": (1e-10, 1.0001e-10),
    "0.0 and -0.0": (0.0, -0.0),
    "the neighbours of 0": (-1e-45, 1e-45),
    "the larger one first": (-3, np.nextafter(np.float32(-3), np.float32(-4))),
}
counted = {case: steps(*(np.float32([number]) for number in pair)).tolist() for case, pair in pairs.items()}
assert_equal(
    counted,
    {case: [steps_slow(*pair)] for case, pair in pairs.items()},
    name="steps",
    hints={
        "the neighbours of 1": "Above a power of two the steps are twice as long: do not divide, count.",
        "1e-10 and 1.0001e-10": "Steps are as fine as the numbers are small.",
        "0.0 and -0.0": "They are equal: no step lies between them.",
        "the neighbours of 0": "Below zero the bits, as an integer, run the other way.",
    },
)
most = {"from -1 to 1": 2130706432, "from the lowest to the largest": 4278190078}
far = steps(np.float32([-1, -largest]), np.float32([1, largest]))
assert_equal(
    dict(zip(most, far.tolist(), strict=True)),
    most,
    name="steps",
    hints={"from the lowest to the largest": "That is more than 32 bits can count."},
)
assert_allclose(far, np.array(list(most.values())), name="steps, far apart")
### BEGIN HIDDEN TESTS
zeros = np.float32([-0.0, 0.0, -0.0, 0.0, 0.0]), np.float32([1e-45, -1e-45, -1e-45, 1e-45, 0.0])
around = steps(*zeros).tolist()
assert_equal({"from a zero to the next": around}, {"from a zero to the next": [1, 1, 1, 1, 0]}, name="steps")
across = steps(np.float32([-1, 1, 2, -1.0000001]), np.float32([1, 2, 2, -(2**-125)])).tolist()
assert_equal({"some far apart": across}, {"some far apart": [2130706432, 8388608, 0, 1048576001]}, name="steps")
largest = np.float32([2**-126, 1.1e-38])  # without an exponent there are numbers up to 2**-126
down = steps(largest, np.nextafter(largest, np.float32(0))).tolist()
assert_equal({"to the number below": down}, {"to the number below": [1, 1]}, name="steps")
ends = -np.float32([1, 2]), np.float32([1, 2])
twice = [steps(*ends).tolist() for _ in range(2)]
assert_equal(
    {"the same arrays, twice": twice}, {"the same arrays, twice": [[2130706432, 2147483648]] * 2}, name="steps"
)
zeros = np.float32([-0.0, 0.0]), np.float32([0.0, -0.0])
steps(*zeros)
signs = {"signs of the caller's zeros": [np.signbit(zero).tolist() for zero in zeros]}
assert_equal(signs, {"signs of the caller's zeros": [[True, False], [False, True]]}, name="steps, afterwards,")
rng = np.random.default_rng()
start = (rng.normal(size=40) * 10.0 ** rng.integers(-40, 30, 40)).astype(np.float32)
walked, moved = rng.integers(0, 60, 40), start.copy()
for round_of_walk in range(60):
    moved = np.where(round_of_walk < walked, np.nextafter(moved, np.float32(np.inf)), moved)
assert_allclose(steps(start, moved), walked, name="steps, a random walk")
start, moved, walked = (values.reshape(5, 8) for values in (start, moved, walked))
assert_allclose(steps(moved, start), walked, name="steps, in two axes")


def steps_in_every_other_row(a, b):
    """The steps between every second row of two tables that are transposed."""
    return steps(a.T[::2], b.T[::2])


every_other = steps_in_every_other_row(moved, start)
assert_allclose(every_other, walked.T[::2], name="steps, in every second row of a transposed table")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · Exorcism (3 points)
#
# The ghost from the lesson: on a machine that joins a product and a sum, `sqrt(t*t - x*x)` is NaN for half of all light
# (`x == t` or `x == -t`), only when compiled. (The line below says how often on yours.) Write `proper_time` such that
#
# - light (`x == t` or `x == -t`) gets **exactly 0**, eager and jitted;
# - inside the cone, even if only by a single ulp (the step from a float to the next), the result is right to the last
#   digits, within 4 ulps, with fast math too;
# - outside the cone (`x > t` or `x < -t`) it is NaN, as it should be.
#
# `t` is 0 or between 1e-15 and 1e15, and so is the size of `x`. No compiler options: whoever compiles your function may
# choose them. No 64 bits and no callbacks either: the digits are to come out of `float32`.
#
# <details><summary>Hint 1</summary>
# To clamp the difference at 0 hides the NaN. It does not bring back the digits that are lost one ulp away from the
# cone, and outside the cone it gives 0 in place of NaN.
# </details>
# <details><summary>Hint 2</summary>
# Two large squares are rounded, and then their tiny difference is wanted. Which formula for t² - x² subtracts
# <em>before</em> anything has been rounded?
# </details>
# <details><summary>Hint 3</summary>
# t² - x² = (t - x)(t + x). For neighbouring floats the difference t - x is exact.
# </details>


# %% nbgrader={"grade": false, "grade_id": "exorcism-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def proper_time_slow(t, x):
    """What a clock shows that flies from the origin to (t, x). float32[...], computed in float64."""
    wide_t, wide_x = np.asarray(t, np.float64), np.asarray(x, np.float64)
    with np.errstate(invalid="ignore"):
        return np.sqrt(wide_t * wide_t - wide_x * wide_x).astype(np.float32)


def light(count, seed=None):
    """`count` points with x == t or x == -t, as two arrays."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(size=count).astype(np.float32)
    return jnp.asarray(t), jnp.asarray(t * rng.choice(np.float32([-1, 1]), count))


def near_light(count, seed=None):
    """`count` points that are 1 to 9 ulps inside of the cone, as two arrays."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.1, 1, size=count).astype(np.float32)
    x = t - rng.integers(1, 10, count) * np.spacing(t)
    return jnp.asarray(t), jnp.asarray((x * rng.choice([-1, 1], count)).astype(np.float32))


def haunted(t, x):
    return jnp.sqrt(t * t - x * x)


def borrowed(fn, *args):
    """What the jaxpr of fn(*args) has of 64-bit numbers (complex128 has two) and of callbacks, as text."""
    jaxpr = str(jax.make_jaxpr(fn)(*args))
    return " ".join(sorted(set(re.findall(r"\b[fiu]64\b|\bc128\b|\w+_callback\b", jaxpr)))) or "nothing"


print("NaN of 1000, compiled:", int(jnp.isnan(jax.jit(haunted)(*light(1000, seed=3))).sum()))


# %% nbgrader={"grade": false, "grade_id": "exorcism", "locked": false, "schema_version": 3, "solution": true, "task": false}
def proper_time(t, x):
    """sqrt(t² - x²), with 0 for light in every mode. t, x: float32[...]. Returns float32[...]."""
    ### BEGIN SOLUTION
    # Subtract first: the sign of t - x is always right, and no product meets a sum.
    return jnp.sqrt((t - x) * (t + x))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "exorcism-light", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. For light the clock stands still: no NaN, nothing but 0, eager and compiled."""


def ghosts(*points):
    """How many results are not exactly 0: eager, jitted, jitted for scalars."""
    some = list(zip(*(np.asarray(axis)[:20] for axis in points), strict=True))
    runs = {"eager": proper_time(*points), "jitted": jax.jit(proper_time)(*points)}
    runs["jitted, one at a time"] = jnp.stack([jax.jit(proper_time)(*point) for point in some])
    return {name: int((result != 0).sum()) for name, result in runs.items()}


nobody = {"eager": 0, "jitted": 0, "jitted, one at a time": 0}
meet = dict.fromkeys(nobody, "A product and a difference meet in one box: find a formula in which they do not.")
meet["eager"] = "Light is exactly 0: nothing may be added to it."
assert_equal(ghosts(*light(1000, seed=4)), nobody, name="proper_time", hints=meet)
used = {"64 bits or callbacks": borrowed(proper_time, *light(9))}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="proper_time")
### BEGIN HIDDEN TESTS
scales = jnp.concatenate([jnp.zeros(1), 10.0 ** jnp.linspace(-15, 15, 20), light(20)[0]])
assert_equal(ghosts(scales, -scales), nobody, name="proper_time", hints=meet)
assert_equal(ghosts(scales, scales), nobody, name="proper_time", hints=meet)
used = {"64 bits or callbacks": borrowed(proper_time, scales, scales)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="proper_time")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "exorcism-close", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Right to the last digits a few ulps inside of the cone, and NaN outside of it."""
few_inside, reverse = near_light(1000, seed=5), near_light(1000, seed=6)[::-1]
best = proper_time_slow(*few_inside)
for mode, run in (("eager", proper_time), ("jitted", jax.jit(proper_time))):
    shown, beyond = np.asarray(run(*few_inside)), run(jnp.abs(reverse[0]), reverse[1] * jnp.sign(reverse[0]))
    right = np.abs(shown - best) <= 4 * np.spacing(best)
    assert_equal(
        {"NaN outside": int(jnp.isnan(beyond).sum()), "right to 4 ulps inside": int(right.sum())},
        {"NaN outside": 1000, "right to 4 ulps inside": 1000},
        name=f"proper_time, {mode}",
        hints={
            "NaN outside": "Points with |x| > t are not reached by anything: do not let them in.",
            "right to 4 ulps inside": "What you want to know was rounded away in the squares: subtract first.",
        },
    )
    assert_allclose(shown, best, rtol=1e-6, atol=0, name=f"proper_time, {mode}")
### BEGIN HIDDEN TESTS
few_inside = near_light(1000)
assert_allclose(jax.jit(proper_time)(*few_inside), proper_time_slow(*few_inside), rtol=1e-6, atol=0, name="proper_time")
apart = np.float32([3, 1, 1e-15, 1e15]), np.float32([0.5, 0, 0.6e-15, 0.6e15])
assert_allclose(jax.jit(proper_time)(*apart), proper_time_slow(*apart), rtol=1e-6, atol=0, name="proper_time")
some = np.random.default_rng()
t, side = 10 ** some.uniform(-14, 14, 400), some.choice([-1, 1], 400)
distance = 10 ** np.linspace(-6, 0, 400)  # every distance from the cone, inside and outside
for where, x in (("inside", 1 - distance), ("outside", 1 + 9 * distance)):
    points = np.float32(t), np.float32(t * x * side)
    for mode, run in (("eager", proper_time), ("jitted", jax.jit(proper_time))):
        name = f"proper_time at all distances {where}, {mode}"
        assert_allclose(run(*points), proper_time_slow(*points), rtol=1e-6, atol=0, name=name)
shapes = {"shape for two numbers": np.shape(proper_time(np.float32(2), np.float32(1)))}
assert_equal(shapes, {"shape for two numbers": ()}, name="proper_time")
before_all = np.float32([0, 0, 0, 1e-15]), np.float32([1, -1e-15, 1e15, -1e15])  # no clock starts so early
modes = {"eager": proper_time, "jitted": jax.jit(proper_time)}
never = {mode: np.isnan(run(*before_all)).tolist() for mode, run in modes.items()}
assert_equal(never, dict.fromkeys(never, [True] * 4), name="proper_time, NaN outside at t = 0,")
careless = jax.jit(proper_time, compiler_options={"xla_cpu_enable_fast_math": True})(*few_inside)
assert_allclose(careless, proper_time_slow(*few_inside), rtol=1e-5, atol=0, name="proper_time, with fast math")
used = {"64 bits or callbacks": borrowed(proper_time, *few_inside)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="proper_time")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · The laboratory (4 points)
#
# "jit changes my result. Why?" Build the instrument that answers. `lab(fn, *args)` returns four results of the same
# call, as NumPy arrays, in a dict:
#
# - `"eager"`: op by op, **even if `fn` has been jitted** by somebody;
# - `"jit"`: compiled as usual;
# - `"no fusion"`: compiled without the pass `fusion`;
# - `"fast math"`: compiled with the one option that brings back the old post's 0.001.
#
# Then `cause(fn, *args)` gives the verdict on `jit` in a word: `"same"` if no digit differs from eager (NaN where eager
# has NaN is the same, and so is -0.0 for 0.0), `"fma"` if all of the difference goes away without fusion, and
# `"rewrite"` if some of it stays.
#
# It judges your version of JAX, whichever it is: `log(exp(100))` is an open case.
#
# <details><summary>Hint 1</summary>
# All options are in the lesson. They go into <code>jax.jit(fn, compiler_options={...})</code>. In the story of
# <code>jnp.cross</code>, how was a jitted function run op by op?
# </details>
# <details><summary>Hint 2</summary>
# <code>with jax.disable_jit():</code> for the first. To compare, mind that NaN is not equal to NaN:
# <code>np.array_equal</code> has an argument for that.
# </details>
# <details><summary>Hint 3</summary>
# The options are <code>{"xla_disable_hlo_passes": "fusion"}</code> and <code>{"xla_cpu_enable_fast_math": True}</code>.
# For the verdict, compare <code>results["jit"]</code> with <code>results["eager"]</code>; if they differ, compare
# <code>results["no fusion"]</code> with it.
# </details>


# %% nbgrader={"grade": false, "grade_id": "lab-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def posted(x, y):
    return x + y - x


@jax.jit
def cross(u, v):
    """The cross product of vectors in the plane, jitted by a colleague. u, v: float32[2]."""
    return u[0] * v[1] - u[1] * v[0]


def log_of_exp(x):
    return jnp.log(jnp.exp(x))


def log_of_minus(x):
    return jnp.log(-x)


def horner(a, b, c):
    return (a * b + c) * b + a


def drift(a, b):
    return jnp.stack([jnp.log(jnp.sqrt(a)), a * a - b * b])


def digits(results):
    """The results of a lab as texts, to the last digit."""
    if not isinstance(results, dict):
        return results
    return {name: str(np.asarray(value)) for name, value in results.items()}


def expected_of_log_of_exp():
    """What the optimised program says: are the two operations still in it?"""
    return "same" if show_hlo(log_of_exp, np.float32(100)).ops["exponential"] else "rewrite"


# %% nbgrader={"grade": false, "grade_id": "lab", "locked": false, "schema_version": 3, "solution": true, "task": false}
def lab(fn, *args):
    """Four results of fn(*args), as NumPy arrays: a dict "eager", "jit", "no fusion", "fast math"."""
    ### BEGIN SOLUTION
    # Each option belongs to one compilation. "Eager" has to be asked for: fn may bring its own jit.
    with jax.disable_jit():
        results = {"eager": fn(*args)}
    options = {
        "jit": None,
        "no fusion": {"xla_disable_hlo_passes": "fusion"},
        "fast math": {"xla_cpu_enable_fast_math": True},
    }
    for name, chosen in options.items():
        results[name] = jax.jit(fn, compiler_options=chosen)(*args)
    return {name: np.asarray(result) for name, result in results.items()}
    ### END SOLUTION


def cause(fn, *args):
    """Why jit changes fn(*args): "same" (it does not), "fma" or "rewrite"."""
    ### BEGIN SOLUTION
    # What goes away with the boxes came from the boxes.
    results = lab(fn, *args)
    same = {name: np.array_equal(results[name], results["eager"], equal_nan=True) for name in ("jit", "no fusion")}
    if same["jit"]:
        return "same"
    return "fma" if same["no fusion"] else "rewrite"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "lab-four", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Four results: the post's two answers, and a colleague's function that hides its jit."""
milli = jnp.float32(0.001)
old, new = "0.0010000467", "0.001" if jax.default_backend() == "cpu" else "0.0010000467"
assert_equal(
    digits(lab(posted, jnp.float32(1), milli)),
    {"eager": old, "jit": old, "no fusion": old, "fast math": new},
    name="lab",
    hints={"fast math": "Which compiler option let x and -x cancel in the lesson?"},
)
kinds = {name: type(result).__name__ for name, result in lab(posted, milli, milli).items()}
assert_equal(kinds, dict.fromkeys(("eager", "jit", "no fusion", "fast math"), "ndarray"), name="lab")
u, v = jnp.float32([2396747, 2396747]), jnp.float32([7, 7])
found = lab(cross, u, v)
magnitudes = {name: float(abs(found[name])) for name in ("eager", "jit", "no fusion")}
assert_equal(
    magnitudes,
    {"eager": 0.0, "jit": float(FMA), "no fusion": 0.0},
    name="lab",
    hints={
        "eager": "cross brings its own jit. The lesson ran jnp.cross op by op with a context manager.",
        "no fusion": "Each operation in a box of its own: which pass must be left out?",
    },
)
### BEGIN HIDDEN TESTS
x, y = np.random.default_rng().uniform(0.5, 1, (2, 3)).astype(np.float32) * np.float32([[1], [1e-4]])
added_up = str(x + y - x)
cancelled = str(y) if jax.default_backend() == "cpu" else added_up
wanted = {"eager": added_up, "jit": added_up, "no fusion": added_up, "fast math": cancelled}
assert_equal(digits(lab(posted, x, y)), wanted, name="lab")
assert_equal(digits(lab(jax.jit(posted), x, y)), wanted, name="lab")
a, _, _ = numbers(300)
without_boxes = np.asarray(jax.jit(log_of_root, compiler_options={"xla_disable_hlo_passes": "fusion"})(a))
found = lab(lambda u, v: cross(u, v), u, v)  # a jit further down
assert_equal({"eager": float(abs(found["eager"]))}, {"eager": 0.0}, name="lab of a function that calls cross")
found = lab(log_of_root, a)
as_expected = {name: np.array_equal(found[name], without_boxes) for name in ("eager", "no fusion")}
assert_equal(as_expected, {"eager": False, "no fusion": True}, name="lab of log_of_root")
kinds = {name: str(result.dtype) for name, result in lab(lambda n: n / 3, jnp.arange(9)).items()}
assert_equal(kinds, dict.fromkeys(kinds, "float32"), name="lab of integers that are divided")
kinds = {name: str(result.dtype) for name, result in lab(lambda n: n * 2, jnp.arange(9)).items()}
assert_equal(kinds, dict.fromkeys(kinds, "int32"), name="lab of integers")
h = a.astype(jnp.bfloat16)
usual = np.array_equal(lab(widened, h)["jit"], jax.jit(widened)(h))
assert_equal({"jit as usual": usual}, {"jit as usual": True}, name="lab of widened")
a, b, _ = numbers(300)
one_option = np.array_equal(
    lab(squares, a, b)["fast math"], jax.jit(squares, compiler_options={"xla_cpu_enable_fast_math": True})(a, b)
)
assert_equal({"fast math and nothing else": one_option}, {"fast math and nothing else": True}, name="lab of squares")
kinds = {name: str(result.dtype) for name, result in lab(lambda h, factor: h * factor, h, 2.0).items()}
assert_equal(kinds, dict.fromkeys(kinds, "bfloat16"), name="lab of bfloat16 and a Python number")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "lab-cause", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The verdict is right for sums, products, logarithms, NaN, and on your version of JAX."""
joined = "fma" if FMA else "same"
a, b, c = numbers(500, seed=7)


def cause_if_jitted(fn, *args):
    """The verdict on a function that was jitted before."""
    return cause(jax.jit(fn), *args)


verdicts = {
    "posted": cause(posted, a, b),
    "squares": cause(squares, a, b),
    "cross": cause(cross, jnp.float32([2396747, 2396747]), jnp.float32([7, 7])),
    "log_of_root": cause(log_of_root, a),
    "log_of_root, jitted before": cause_if_jitted(log_of_root, a),
    "log_of_minus": cause(log_of_minus, a),
    "log_of_exp": cause(log_of_exp, jnp.float32(100)),
}
assert_equal(
    verdicts,
    {
        "posted": "same",
        "squares": joined,
        "cross": joined,
        "log_of_root": "rewrite",
        "log_of_root, jitted before": "rewrite",
        "log_of_minus": "same",
        "log_of_exp": expected_of_log_of_exp(),
    },
    name="cause",
    hints={
        "log_of_minus": "All results are NaN, in both modes. Is NaN == NaN?",
        "log_of_root": "The difference stays when fusion is off.",
        "squares": "The difference goes away when fusion is off.",
        "cross": "Compare with what runs op by op, although cross is jitted.",
        "log_of_root, jitted before": "Eager means op by op, whoever has jitted the function before.",
    },
)
### BEGIN HIDDEN TESTS
a, b, c = numbers(700)
fresh = {fn.__name__: cause(fn, a, b, c) for fn in (horner, between)}
fresh |= {fn.__name__: cause(fn, a, b) for fn in (factors, drift)}
assert_equal(fresh, {"horner": joined, "between": joined, "factors": "same", "drift": "rewrite"}, name="cause")
found = cause(drift, 100 * a, 100 * b)  # most of the difference goes away, but not all of it
assert_equal({"drift of large numbers": found}, {"drift of large numbers": "rewrite"}, name="cause")
found = cause(lambda x: x + 0.0, jnp.float32([-0.0, 1.0]))  # compiled, the sum is left out, and -0.0 stays -0.0
assert_equal({"-0.0 for 0.0": found}, {"-0.0 for 0.0": "same"}, name="cause")
named_alike = [cause(lambda a, b: posted(a, b), a, b), cause(lambda a, b: drift(a, b), a, b)]
assert_equal({"two of one name": named_alike}, {"two of one name": ["same", "rewrite"]}, name="cause")
a, b, _ = numbers(3000)
inner = (jnp.arange(a.size) > 100) & (jnp.arange(a.size) < a.size - 100)
found = cause(squares, jnp.where(inner, a, 0), jnp.where(inner, b, 0))
assert_equal({"squares, 0 at both ends": found}, {"squares, 0 at both ends": joined}, name="cause")
found = cause(squares, jnp.zeros(9), jnp.zeros(9))
assert_equal({"squares of nothing but 0": found}, {"squares of nothing but 0": "same"}, name="cause")
found = cause(squares, *[jnp.full(300, 2e19)] * 2)  # eager, inf - inf; a product that is joined does not overflow
assert_equal({"squares that overflow": found}, {"squares that overflow": joined}, name="cause")
a, b, c = numbers(3000)
by_op, joint = np.asarray(horner(a, b, c)), np.asarray(jax.jit(horner)(a, b, c))
hardly = (by_op != joint) & (abs(by_op - joint) < 9e-8 * abs(by_op))  # one digit in the last place, where it is small
found = cause(horner, *[jnp.where(hardly, part, 0) for part in (a, b, c)])
assert_equal({"horner, 1 ulp": found}, {"horner, 1 ulp": joined if hardly.any() else "same"}, name="cause")
t, x = light(1000)
only_nan = jnp.isnan(jax.jit(haunted)(t, x))  # 0 elsewhere, and eager everywhere
found = cause(haunted, jnp.where(only_nan, t, 0), jnp.where(only_nan, x, 0))
assert_equal({"haunted, 0 or NaN": found}, {"haunted, 0 or NaN": joined}, name="cause")
a, b, _ = numbers(3000)
found = [cause(squares, size * a, size * b) for size in (0, 1e-10)]  # what differs may be as small as it likes
names = "squares of 0, and of numbers of 1e-10"
assert_equal({names: found}, {names: ["same", joined]}, name="cause")
found = cause(lambda a, b: drift(a, b)[::-1], a, b)  # the first difference goes away, a later one does not
assert_equal({"drift, upside down": found}, {"drift, upside down": "rewrite"}, name="cause")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · The account (6 points)
#
# A bank books in `float32`. On an account with 100 million, customers pay in ten cents, again and again, and the
# balance stands still: ten cents are less than half an ulp of it. `running_total_slow` is how it should be, in `float64`.
#
# Write `running_total`. It returns the balance after **each** booking, calculates in `float32`, without 64 bits and
# without callbacks, works under `jit`, and is at no point more than **1 ulp** away from the truth. There is at least one
# booking. (`jnp.cumsum` is not good enough. Try it.)
#
# One point more is for an account that stays right when the bank's own jit uses the old post's option,
# `xla_cpu_enable_fast_math`. With it, XLA takes for 0 what is 0 on paper.
#
# <details><summary>Hint 1</summary>
# Keep a second number beside the balance: what the last addition has lost. The lesson has it under the name of Kahan.
# </details>
# <details><summary>Hint 2</summary>
# One <code>lax.scan</code> with the pair (total, lost). First subtract what was lost from the new amount, then add, and
# then find out what the addition has lost now: <code>(grown - total) - x</code>. For the third point, the compiler must
# not learn where <code>grown</code> comes from.
# </details>
# <details><summary>Hint 3</summary>
# <code>lax.optimization_barrier(total + x)</code> hands the sum on, and in a loop the compiler does not look through it.
# (Outside of one it may, with fast math: unit 09.) It is the sum that needs the wall, before it is used in the
# correction.
# </details>


# %% nbgrader={"grade": false, "grade_id": "account-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def running_total_slow(amounts):
    """The balance after each booking. amounts: float32[n]. Returns float32[n], the best there are."""
    balance, balances = 0.0, []
    for amount in np.asarray(amounts, np.float64):
        balance += amount
        balances.append(balance)
    return np.float32(balances)


ONE_ULP = 2.0**-23  # as an rtol, this allows one step between float32, and not two
FAST_MATH = {"xla_cpu_enable_fast_math": True}

tenths = np.full(100_000, 0.1, np.float32)
account = np.concatenate([np.float32([1e8]), tenths[:20_000]])
print("jnp.cumsum:", float(jnp.cumsum(account)[-1]), "  truth:", float(running_total_slow(account)[-1]))


# %% nbgrader={"grade": false, "grade_id": "account", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def running_total(amounts):
    """The balance after each booking, within 1 ulp. amounts: float32[n], positive. Returns float32[n]."""

    ### BEGIN SOLUTION
    # Kahan. The wall keeps fast math from seeing that (total + x) - total is x on paper.
    def book(carry, amount):
        total, lost = carry
        amount = amount - lost
        grown = lax.optimization_barrier(total + amount)
        lost = (grown - total) - amount
        return (grown, lost), grown

    nothing = jnp.zeros((), amounts.dtype)
    return lax.scan(book, (nothing, nothing), amounts)[1]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "account-exact", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. A hundred thousand tenths are 10000.0, and no balance is ever more than 1 ulp off."""
used = {"64 bits or callbacks": borrowed(running_total, tenths)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="running_total")
digits_lost = "Each addition loses digits of the small amount: keep them for the next booking."
assert_equal(
    {"100,000 tenths": str(np.asarray(running_total(tenths))[-1])},
    {"100,000 tenths": "10000.0"},
    name="running_total",
    hints={"100,000 tenths": digits_lost},
)
for amounts in (tenths, account):
    best, as_many = running_total_slow(amounts), np.resize(amounts, tenths.size)  # of one size: one program
    assert_allclose(running_total(as_many)[: best.size], best, rtol=ONE_ULP, atol=0, name="running_total")
### BEGIN HIDDEN TESTS
fresh = np.random.default_rng().lognormal(0, 2, 305_001).astype(np.float32)
jitted = jax.jit(running_total)
assert_allclose(jitted(fresh), running_total_slow(fresh), rtol=ONE_ULP, atol=0, name="running_total")
fresh = fresh[: tenths.size]  # as many as above: compiled already
for size in (2.0**-50, 2.0**50):
    sized, name = fresh * np.float32(size), f"running_total of amounts of about {size:.0e}"
    assert_allclose(running_total(sized), running_total_slow(sized), rtol=ONE_ULP, atol=0, name=name)
threes, mites = np.full(5_000, 3, np.float32), np.full(300_000, 1e-4, np.float32)
for few in (fresh[:1], fresh[:2]):
    name = f"running_total of {len(few)}"
    assert_allclose(running_total(few), running_total_slow(few), rtol=ONE_ULP, atol=0, name=name)
fresh = np.concatenate([account[:1], threes, mites])  # all of them less than half an ulp of the account
assert_allclose(jitted(fresh), running_total_slow(fresh), rtol=ONE_ULP, atol=0, name="running_total")
used = {"64 bits or callbacks": borrowed(running_total, fresh)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="running_total")
drawn = np.random.default_rng().lognormal(0, 2, 305_001).astype(np.float32)
off = [np.count_nonzero(np.asarray(f(drawn)) != running_total_slow(drawn)) for f in (running_total, jitted)]
double = {"exact when called, and not under jit": bool(off[0] == 0 and off[1] > 20)}
assert_equal(double, {"exact when called, and not under jit": False}, name="running_total of 305,001 amounts")
for count in (60, 990):
    few = np.concatenate([account[:1], np.full(count - 1, 0.3, np.float32)])
    name = f"running_total of {count}"
    assert_allclose(running_total(few), running_total_slow(few), rtol=ONE_ULP, atol=0, name=name)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "account-fast", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The account stays right when it is compiled with fast math."""


@jax.jit
def bank(amounts):
    return running_total(amounts)


careless_bank = jax.jit(lambda amounts: running_total(amounts), compiler_options=FAST_MATH)
used = {"64 bits or callbacks": borrowed(running_total, account)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="running_total")
on_paper = "On paper (total + x) - total is x, and the correction 0: hide the sum from the compiler."
assert_equal(
    {"by default": str(bank(tenths)[-1]), "with fast math": str(careless_bank(tenths)[-1])},
    {"by default": "10000.0", "with fast math": "10000.0"},
    name="running_total",
    hints={"with fast math": on_paper},
)
best, as_many = running_total_slow(account), np.resize(account, tenths.size)  # of one size: one program
assert_allclose(careless_bank(as_many)[: best.size], best, rtol=ONE_ULP, atol=0, name="running_total")
### BEGIN HIDDEN TESTS
fresh = np.random.default_rng().lognormal(0, 2, tenths.size).astype(np.float32)
assert_allclose(careless_bank(fresh), running_total_slow(fresh), rtol=ONE_ULP, atol=0, name="running_total")
### END HIDDEN TESTS

# %% [markdown]
# **In the evening** only the sum is wanted, of all that was paid in and out, and the bank is in a hurry. `day_slow` is
# Python's `math.fsum`, which is exact, and rounds once. It takes one number after the other. So does `running_total`;
# and where most of the money goes out again, what Kahan loses is no longer small beside the sum.
#
# Write `day`: the sum of at least one booking, again in `float32`, without 64 bits and without callbacks, and at most
# **1 ulp** away from the truth, while the sizes of all bookings add up to 100,000 times the size of the sum or less.
# 1 point for the values, and up to 2 for speed over `day_slow` with 50,000 bookings: 2x earns 1, 5x earns 2.
# (Compiling is not timed.) `add_exactly` is a gift: it takes arrays, too.
#
# <details><summary>Hint 1</summary>
# What <code>add_exactly</code> returns as lost is exact. It is also small: plain sums are good enough for all that was
# lost, if it is added to the rest at the very end.
# </details>
# <details><summary>Hint 2</summary>
# An addition that needs the result of the one before has to wait for it. Which additions of a sum need not wait for each
# other? The same <code>add_exactly</code> can add two halves of an array, all pairs at once.
# </details>
# <details><summary>Hint 3</summary>
# A Python loop, which runs while JAX traces: as long as <code>total.size &gt; 1</code>, take
# <code>jnp.pad(total, (0, total.size % 2))</code> and cut it in two halves; their <code>add_exactly</code> is the new
# <code>total</code>, half as long, and what it has lost is summed and added to <code>lost</code>. Sixteen rounds
# are enough for 50,000.
# </details>


# %% nbgrader={"grade": false, "grade_id": "day-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def day_slow(amounts):
    """The sum of the amounts, exact but for one rounding. amounts: float32[n]. Returns float32."""
    return np.float32(math.fsum(np.asarray(amounts).tolist()))


def add_exactly(a, b):
    """(total, lost): a + b as it is rounded, and what the rounding has lost, exactly. a, b: float32[...]"""
    total = a + b
    seen = total - a
    return total, (a - (total - seen)) + (b - seen)


def bookings(count, seed=None, left=2e-4):
    """`count` amounts, half of them paid out again but for about a share `left`. NumPy float32[count]"""
    rng = np.random.default_rng(seed)
    amounts = rng.lognormal(0, 2, count)
    half = count // 2
    amounts[half : 2 * half] = amounts[:half] * (left * rng.uniform(0.5, 1.5, half) - 1)
    return rng.permutation(amounts).astype(np.float32)


full_day = bookings(50_000, seed=11)
print("jnp.sum:", jnp.sum(full_day), "  truth:", day_slow(full_day))


# %% nbgrader={"grade": false, "grade_id": "day", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def day(amounts):
    """The sum of the amounts, within 1 ulp. amounts: float32[n]. Returns float32[]."""
    ### BEGIN SOLUTION
    # A tree: all pairs of a round at once. What is lost is exact, and so small that plain sums will do for it.
    total, lost = amounts, jnp.zeros((), amounts.dtype)
    while total.size > 1:
        total = jnp.pad(total, (0, total.size % 2))
        half = total.size // 2
        total, less = add_exactly(total[:half], total[half:])
        lost += less.sum()
    return total[0] + lost
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "day-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The sum of a day, in and out, is at most 1 ulp off."""
used = {"64 bits or callbacks": borrowed(day, full_day)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="day")
for amounts in (full_day, account, bookings(1000, seed=12)):
    name = f"day of {len(amounts)} bookings"
    assert_allclose(day(amounts), day_slow(amounts), rtol=ONE_ULP, atol=0, name=name)
### BEGIN HIDDEN TESTS
for fresh in map(bookings, (1, 3, 777)):
    name = f"day of {len(fresh)} bookings, under jit"
    assert_allclose(jax.jit(day)(fresh), day_slow(fresh), rtol=ONE_ULP, atol=0, name=name)
huge = np.float32([1e20, *tenths[:997], -1e20, 1e16])  # as many as above: compiled already
others = {"a few cents left": bookings(777, left=5e-5)}
others["1,500,001 bookings alike"] = np.full(1_500_001, 0.125, np.float32)
others |= {"no money": np.zeros(777, np.float32), "huge ones": huge, "debts only": -account}
others["dust"] = np.float32([1e10, -9.9998e9, *[0.9] * 775])
others["tiny ones"] = bookings(777) * np.float32(1e-25)
for name, fresh in others.items():
    assert_allclose(day(fresh), day_slow(fresh), rtol=ONE_ULP, atol=0, name=f"day with {name}")
used = {"64 bits or callbacks": borrowed(day, fresh)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="day")
booked = bookings(777)
jax.block_until_ready(day(booked))
booked *= np.float32(-3)
assert_allclose(day(booked), day_slow(booked), rtol=ONE_ULP, atol=0, name="day of an array with new numbers in it")
for count in (40, 400):
    few = bookings(count, left=5e-5)
    assert_allclose(day(few), day_slow(few), rtol=ONE_ULP, atol=0, name=f"day of {count} bookings, a few cents left")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "day-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Speed over an exact sum in Python, 50,000 bookings: 2x earns 1 point, 5x earns 2."""
used = {"64 bits or callbacks": borrowed(day, full_day)}
assert_equal(used, {"64 bits or callbacks": "nothing"}, name="day")
### BEGIN HIDDEN TESTS
by_its_program = jax.jit(day)(full_day)  # what is timed is what must be right
assert_allclose(by_its_program, day_slow(full_day), rtol=ONE_ULP, atol=0, name="day of 50,000 bookings, under jit")
### END HIDDEN TESTS
partial_credit(speedup(day, day_slow, full_day, at_least=5), {2: 1, 5: 2})

# %% [markdown]
# ## Task 6 · The judge (3 points)
#
# Somebody hands you `result` and says it is `X @ w`. Is it, up to what rounding in `float32` may do? Write
# `judge(result, X, w)`, which returns `True` or `False`.
#
# Your judge must acquit every right way to compute the product, and convict every bug. The numbers may be tiny or
# huge, rows of very different size may stand in one matrix, a large weight may meet a column of zeros, and large terms
# may cancel to almost nothing. No row is all zeros, there are at most a thousand columns, and the numbers are random
# enough that roundings go up as often as down.
#
# <details><summary>Hint 1</summary>
# <code>np.allclose(result, X @ w)</code> passes the first check. Print what it says in the second, and ask of which
# size the errors are there.
# </details>
# <details><summary>Hint 2</summary>
# Rounding errors are as large as eps times what was <em>added</em>, not what came out. What was added in row i? And a
# NaN is neither within a tolerance nor beyond it.
# </details>
# <details><summary>Hint 3</summary>
# In float64: the truth is <code>X @ w</code>, the size of what was added <code>np.abs(X) @ np.abs(w)</code>, row by
# row. Allow some tens of eps (<code>2.0**-23</code>) of that size, and ask whether <em>all</em> errors are within it.
# </details>


# %% nbgrader={"grade": false, "grade_id": "judge-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def term_by_term(X, w):
    """X @ w, one term after the other. X: float32[rows, columns]; w: float32[columns]."""
    return lax.fori_loop(0, len(w), lambda j, sums: sums + X[:, j] * w[j], jnp.zeros(len(X)))


def rounded_like_tf32(values):
    return lax.reduce_precision(values, exponent_bits=8, mantissa_bits=10)


def one_small_row_wrong(X, w):
    smallest = jnp.argmin(jnp.abs(X) @ jnp.abs(w))
    return (X @ w).at[smallest].set(X[smallest] @ w[::-1])


def one_row_a_little_more(X, w):
    clearest = jnp.argmax(jnp.abs(X @ w) / (jnp.abs(X) @ jnp.abs(w)))  # where little cancels
    return (X @ w).at[clearest].multiply(1.001)


HONEST = {
    "product": lambda X, w: X @ w,
    "sum of products": lambda X, w: (X * w).sum(1),
    "term by term": term_by_term,
    "from the back": lambda X, w: X[:, ::-1] @ w[::-1],
    "in two parts": lambda X, w: X[:, ::2] @ w[::2] + X[:, 1::2] @ w[1::2],
}
BUGS = {
    "without the last column": lambda X, w: X[:, :-1] @ w[:-1],
    "two weights exchanged": lambda X, w: X @ w.at[:2].set(w[1::-1]),
    "a tenth of a percent more": lambda X, w: (X @ w) * 1.001,
    "inputs in TF32": lambda X, w: rounded_like_tf32(X) @ rounded_like_tf32(w),
    "a small row wrong": one_small_row_wrong,
    "a tenth of a percent more in one row": one_row_a_little_more,
    "a NaN in it": lambda X, w: (X @ w).at[3].set(jnp.nan),
}


def evidence(kind, seed=None, rows=30, columns=100):
    """X and w of one kind: "ordinary", "tiny", "huge", "rows of all sizes", "cancelling"."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(rows, columns)), rng.normal(size=columns)
    half = columns // 2
    w[[0, 1, half - 1, -1]] = 1, 2, 1, 1  # what the bugs exchange or leave out is neither equal nor small
    if kind == "cancelling":  # the right half is minus the left half, almost
        X[:, half:] = X[:, :half] * (1 + 1e-6 * rng.normal(size=(rows, half)))
        w[half:] = -w[:half]
    scale = {"tiny": 1e-20, "huge": 1e15}.get(kind, 1.0)
    if kind == "rows of all sizes":
        scale = 10.0 ** rng.permutation(np.linspace(-8, 8, rows))[:, None]
    return (X * scale).astype(np.float32), w.astype(np.float32)


def trial(kind, bugs, seed=None, **shape):
    """(what your judge says, what is true) for all right products and the named bugs."""
    X, w = evidence(kind, seed, **shape)
    said, true = {}, {}
    with jax.default_matmul_precision("highest"):
        for name, fn in {**HONEST, **{bug: BUGS[bug] for bug in bugs}}.items():
            said[f"{name} ({kind})"] = judge(np.asarray(jax.jit(fn)(X, w)), X, w)
            true[f"{name} ({kind})"] = name in HONEST
    return said, true


HARD = {
    "tiny": ["without the last column", "inputs in TF32", "a tenth of a percent more"],
    "huge": ["inputs in TF32", "two weights exchanged"],
    "rows of all sizes": ["a small row wrong", "inputs in TF32"],
    "cancelling": ["without the last column", "a NaN in it"],
}


# %% nbgrader={"grade": false, "grade_id": "judge", "locked": false, "schema_version": 3, "solution": true, "task": false}
def judge(result, X, w):
    """Whether `result` is X @ w up to rounding: a bool. result: float32[n]; X: float32[n, m]; w: float32[m]."""
    ### BEGIN SOLUTION
    # Errors go with the size of what was added. And all(error <= allowed) says no to a NaN.
    X, w = np.asarray(X, np.float64), np.asarray(w, np.float64)
    allowed = 30 * 2.0**-23 * (np.abs(X) @ np.abs(w))
    return bool(np.all(np.abs(np.asarray(result, np.float64) - X @ w) <= allowed))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "judge-ordinary", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Ordinary numbers: five right products, seven bugs."""
too_lenient = "That is a bug: too much is allowed."
assert_equal(
    *trial("ordinary", list(BUGS), seed=8),
    name="judge",
    hints={
        **{f"{name} (ordinary)": "That is only rounding: too little is allowed." for name in HONEST},
        **{f"{name} (ordinary)": too_lenient for name in BUGS},
        "a NaN in it (ordinary)": "NaN > tolerance is False, and so is NaN <= tolerance. Ask the right one.",
    },
)
### BEGIN HIDDEN TESTS
assert_equal(*trial("ordinary", list(BUGS), rows=4000), name="judge")
X, w = evidence("ordinary")
X_times_w, is_last = X @ w, np.arange(len(X)) == len(X) - 1
far_off = X_times_w + np.abs(X) @ np.abs(w)
tampered = {
    "the other sign": -X_times_w,
    "the rows in another order": np.roll(X_times_w, 1),
    "the last row wrong": np.where(is_last, far_off, X_times_w),
    "the first row wrong": np.where(is_last[::-1], far_off, X_times_w),
    "the last row infinite": np.where(is_last, np.float32(np.inf), X_times_w),
    "all rows infinite": np.full_like(X_times_w, np.inf),
}
said = {name: judge(result, X, w) for name, result in tampered.items()}
assert_equal(said, dict.fromkeys(tampered, False), name="judge", hints=dict.fromkeys(tampered, too_lenient))
in_thirds = X[:, :30] @ w[:30] + (X[:, 30:60] @ w[30:60] + X[:, 60:] @ w[60:])  # as none of HONEST does it
said = {"a product in three parts": judge(in_thirds, X, w)}
assert_equal(said, dict.fromkeys(said, True), name="judge", hints=dict.fromkeys(said, "That is only rounding."))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "judge-hard", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Tiny, huge, of all sizes, cancelling: the tolerance goes with what was added, row by row."""
only_rounding = "That is only rounding. How large were the terms that were added?"
a_bug = "A bug. Is your tolerance as small as the numbers of its row?"
for kind, bugs in HARD.items():
    hints = {f"{name} ({kind})": only_rounding if name in HONEST else a_bug for name in [*HONEST, *bugs]}
    assert_equal(*trial(kind, bugs, seed=9), name="judge", hints=hints)
### BEGIN HIDDEN TESTS
for kind, bugs in HARD.items():
    assert_equal(*trial(kind, bugs, columns=1000), name="judge")
X, w = map(np.abs, evidence("ordinary", seed=4, columns=1000))
said = {name: judge(np.asarray(jax.jit(fn)(X, w)), X, w) for name, fn in HONEST.items()}
assert_equal(
    said, dict.fromkeys(said, True), name="judge of a thousand positive terms", hints=dict.fromkeys(said, only_rounding)
)
X, w = evidence("ordinary")
tiny = np.float32(1e-20) * (np.abs(X) + 1) @ (np.float32(1e-15) * (np.abs(w) + 1))
said = [
    judge(result, np.float32(1e-20) * (np.abs(X) + 1), np.float32(1e-15) * (np.abs(w) + 1))
    for result in (tiny, np.float32(1.0005) * tiny)
]
names = "of 1e-35, and a twentieth of a percent more"
assert_equal({names: said}, {names: [True, False]}, name="judge")
X[:, 7], w[7] = 0, 1e6
X_times_w = X @ w
said = [judge(result, X, w) for result in (X_times_w, X_times_w, np.float32(1.001) * X_times_w)]
names = ["zeros that meet a large weight", "the same evidence again", "a tenth of a percent more, beside zeros"]
assert_equal(dict(zip(names, said, strict=True)), dict(zip(names, [True, True, False], strict=True)), name="judge")
### END HIDDEN TESTS
