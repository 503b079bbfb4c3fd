# %% [markdown]
# # Exercise 03 · Ghost effects
#
# Seven tasks, 26 points, about {duration}. The lesson is [03 · Ghost effects](../../lessons/03_ghost_effects.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the checks below it. A check that fails says
# what happened and what to try. Three hints wait under each task, from a nudge to a skeleton. Where a check is folded,
# its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say what a jitted function answers, and how often it is heard | 3 |
# | 2 | free two functions from a stale global, within a budget of traces | 3 |
# | 3 | make a counter, a list and a random generator pure | 6 |
# | 4 | name the leaking suspects, then repair a cache that leaks | 3 |
# | 5 | write a detector of impure functions, then fool it | 4 |
# | 6 | rebuild `jit`'s memory with one dictionary | 3 |
# | 7 | make your own tracer refuse what the tape (the jaxpr) cannot hold | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import collections
import contextlib
import functools
import gc
import inspect
import io
import itertools
import random
import string
import time
import traceback
import weakref
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from autograder import (
    assert_allclose,
    assert_equal,
    assert_max_traces,
    assert_prediction,
    partial_credit,
    run_alone,
    speedup,
)

jax.config.update("jax_default_matmul_precision", "highest")  # or a GPU or TPU drops digits of products (unit 10)

# %% [markdown]
# ## Task 1 · The seance (3 points)
#
# Here is a ghost. It reads a global, it can be heard each time its Python body runs, and it is called in many ways.
#
# ```python
# g = old
# heard = []
#
# def f(x):
#     heard.append("boo")
#     return x + g
#
# jf = jax.jit(f)
# jax.make_jaxpr(jf)(0)
# first = jf(0.0)
# g = new
#
# answers = {}
# answers["a float"] = jf(1.0)
# answers["three floats"] = jf(jnp.zeros(3))[0]
# answers["an int"] = jf(1)
# answers["a float32 array"] = jf(jnp.float32(1))
# answers["vmap"] = jax.vmap(jf)(jnp.zeros(5))[0]
# answers["jit again"] = jax.jit(f)(2.0)
# answers["a new function"] = jax.jit(lambda x: f(x))(2.0)
# answers["not jitted"] = f(2.0)
# answers["boos so far"] = len(heard)
# jf.clear_cache()
# answers["after clear_cache"] = jf(3.0)
# ```
#
# `seance(old, new)` returns the dict `answers` as plain numbers: write formulas in `old` and `new` that hold for any
# two integers. (`jax.vmap(jf)` applies `jf` to each element of an array. A type that prints with a tilde, such as
# `~f32[]`, is a weak type. See [the words](../../lessons/00_before_you_start.ipynb#The-words).)
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# Then six other ghosts, each in a jitted function of a scalar `x` that is called `n` times with floats, at least once.
# `haunting(n)` returns how often each is heard in these `n` calls, again as formulas:
#
# | name | what the function does |
# |---|---|
# | `"print"` | `print("boo")` |
# | `"print, branch not taken"` | `lax.cond(x > 100, loud, quiet, x)`, where `loud` prints with Python's `print`, and `x` is never over 100 |
# | `"debug.print, branch not taken"` | the same with `jax.debug.print` in `loud` |
# | `"debug.print in a scan"` | a `lax.scan` of 5 rounds with `jax.debug.print` in its body |
# | `"pure_callback, unused"` | calls `jax.pure_callback` with a function that prints, and ignores the result |
# | `"io_callback, unused"` | the same with `io_callback` |
#
# <details><summary>Hint 1: a nudge</summary>
#
# For each line ask one thing: is there already a tape for this function object and this type? If so, nothing of
# Python runs and the number on the tape is used.
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `print(jax.typeof(v))` for `1.0`, `1`, `jnp.float32(1)`: a type with a tilde (a weak type) is another type than the
# one without. Inside `vmap` a function sees one element: of which type? For the second part, the picture in section 6
# of the lesson.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# Tapes before `g = new`: a weak int, by `make_jaxpr`, and a weak float, by the first call. Both hold `old`. Every
# other type, and every other function object, reads `new`. "boos so far" counts the tapes of `f`, the one that the
# `lambda` wrote, and one run without `jit`.
# </details>


# %% nbgrader={"grade": false, "grade_id": "seance", "locked": false, "schema_version": 3, "solution": true, "task": false}
def seance(old, new):
    """The answers of the ghost as a dict of numbers, for two integers."""
    ### BEGIN SOLUTION
    # Only two tapes know the old g: weak int (make_jaxpr wrote it) and weak float (the first call).
    return {
        "a float": old + 1,
        "three floats": new,
        "an int": old + 1,
        "a float32 array": new + 1,
        "vmap": new,
        "jit again": old + 2,
        "a new function": new + 2,
        "not jitted": new + 2,
        "boos so far": 6,
        "after clear_cache": new + 3,
    }
    ### END SOLUTION


def haunting(n):
    """How often each of the six ghosts is heard in n calls: a dict of integers."""
    ### BEGIN SOLUTION
    # print belongs to the trace, and a trace walks both branches. The others are equations, or are dropped.
    return {
        "print": 1,
        "print, branch not taken": 1,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 5 * n,
        "pure_callback, unused": 0,
        "io_callback, unused": n,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "seance-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Which calls still see the old g, and how often the Python body ran."""
seance_hints = {
    "a float": "A weak float came before: what does its tape hold?",
    "three floats": "No tape of this shape existed, so Python ran once more, and read g then.",
    "an int": "Nobody called it with an int before, but somebody looked at it with one.",
    "a float32 array": "jnp.float32(1) has the same dtype and shape as 1.0. Has it the same type?",
    "vmap": "jf sees one element, a float32[]. Is there a tape for that, and since when?",
    "jit again": "The tracing cache belongs to f, not to the jit that was put around it.",
    "a new function": "The lambda is a function object that JAX has never met.",
    "not jitted": "Without jit, Python does what Python does.",
    "boos so far": "Once for each tape that had to be written, and once where there was no jit.",
    "after clear_cache": "The tapes of f are gone, so the body runs again, and reads g again.",
}


def hold_seance(old, new):
    g = old
    heard = []

    def f(x):
        heard.append("boo")
        return x + g

    jf = jax.jit(f)
    jax.make_jaxpr(jf)(0)
    jf(0.0)
    g = new
    answers = {
        "a float": jf(1.0),
        "three floats": jf(jnp.zeros(3))[0],
        "an int": jf(1),
        "a float32 array": jf(jnp.float32(1)),
        "vmap": jax.vmap(jf)(jnp.zeros(5))[0],
        "jit again": jax.jit(f)(2.0),
        "a new function": jax.jit(lambda x: f(x))(2.0),
        "not jitted": f(2.0),
        "boos so far": len(heard),
    }
    jf.clear_cache()
    answers["after clear_cache"] = jf(3.0)
    return {name: float(answer) for name, answer in answers.items()}


assert_prediction(seance, lambda: hold_seance(1, 10), args=(1, 10), hints=seance_hints)
### BEGIN HIDDEN TESTS
for numbers in ((3, -70), (0, 12), (5, 5)):
    assert_prediction(seance, lambda: hold_seance(*numbers), args=numbers, hints=seance_hints)
### END HIDDEN TESTS

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "seance-haunting", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. What is heard once a trace, once a call, or never."""
haunting_hints = {
    "print": "Python's print is not on the tape. It is heard while the tape is written.",
    "print, branch not taken": "To write both branches onto the tape, Python has to walk through both.",
    "debug.print, branch not taken": "It is an equation of that branch, and runs when the branch does.",
    "debug.print in a scan": "It is an equation of the scan's body. How often does the body run, in n calls?",
    "pure_callback, unused": "You promised that it is pure. May a compiler drop a pure value nobody reads?",
    "io_callback, unused": "It promises an effect, so it may not be dropped.",
}


def go_haunting(n):
    def boo(x):
        print("boo")
        return x

    def loud(x):
        jax.debug.print("boo")
        return x

    like = jax.ShapeDtypeStruct((), jnp.float32)
    ghosts = {
        "print": lambda x: boo(x),
        "print, branch not taken": lambda x: jax.lax.cond(x > 100, boo, lambda x: x, x),
        "debug.print, branch not taken": lambda x: jax.lax.cond(x > 100, loud, lambda x: x, x),
        "debug.print in a scan": lambda x: jax.lax.scan(lambda c, _: (loud(c), None), x, None, 5)[0],
        "pure_callback, unused": lambda x: (jax.pure_callback(boo, like, x), x)[1],
        "io_callback, unused": lambda x: (io_callback(boo, like, x), x)[1],
    }
    counts = {}
    for name, ghost in ghosts.items():
        jitted = jax.jit(ghost)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            for i in range(n):
                jitted(float(i)).block_until_ready()
            jax.effects_barrier()
        counts[name] = output.getvalue().count("boo")
    return counts


assert_prediction(haunting, lambda: go_haunting(3), args=(3,), hints=haunting_hints)
### BEGIN HIDDEN TESTS
assert_prediction(haunting, lambda: go_haunting(7), args=(7,), hints=haunting_hints)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 2 · The cures (3 points)
#
# A step moves `w` towards 0 and reads two settings from a global dict: `rate`, how far, and `clip`, whether each move
# is cut to -1 … 1. Under `jit` both freeze.
#
# **`make_step()`** returns a jitted function `step(w, rate, clip)` that computes what `haunted_step` would with these
# two settings, for a `w` of any real dtype. `rate` is a `float` that changes all the time; `clip` is `True` or `False`.
# However they change, there may be at most **two traces** for one type of `w`.
#
# **`follow(jitted, look)`** is for code that you may not change. `jitted` is somebody's jitted function of arrays that
# reads a global; `look()` returns that global's current value, a finite `float` or `None` (`0.0` and `-0.0` are one
# value). Return a function `call(*args)` that answers as if the global were read at each call, for arguments of any
# type. The budget: a new trace of a type only when the value *has changed since the last call*, and other people's
# functions keep their caches.
#
# <details><summary>Hint 1: a nudge</summary>
#
# One of the two settings is arithmetic, the other decides what Python does. Only what Python itself must know needs
# to be static. And for `follow`: jitting again does not help. What does `jit` remember, and whose memory is it?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `with trace_log(step) as log:` (from `autograder`), then `log.call(step, w, 0.1, True)`, and `print(log)` gives the
# reason for each trace. A jitted function has a method `clear_cache()`; `jax.clear_caches()` empties everybody's.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# def make_step():
#     def step(w, rate, clip):
#         ...
#     return jax.jit(step, static_argnames=...)
#
# def follow(jitted, look):
#     seen = look()          # is that early enough? jitted may have a tape from before
#     def call(*args):
#         nonlocal seen
#         if ...:
#             jitted.clear_cache()
#         ...
#     return call
# ```
# </details>

# %% nbgrader={"grade": false, "grade_id": "cures-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
settings = {"rate": 0.5, "clip": True}


def haunted_step(w):
    """One step towards 0. Correct in plain Python; under jit the settings freeze."""
    move = w * settings["rate"]
    if settings["clip"]:
        move = jnp.clip(move, -1, 1)
    return w - move


# %% nbgrader={"grade": false, "grade_id": "cures", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_step():
    """A jitted step(w, rate, clip), with at most two traces for each type of w."""

    ### BEGIN SOLUTION
    # The rate is data, so it is traced. Only the branch is Python's business, so only that is static.
    def step(w, rate, clip):
        move = w * rate
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return jax.jit(step, static_argnames="clip")
    ### END SOLUTION


def follow(jitted, look):
    """A function call(*args) that answers as `jitted` would if it read its global, look(), at each call."""
    ### BEGIN SOLUTION
    # A tape from before this moment may hold anything, so the first call always forgets.
    never = object()
    seen = never

    def call(*args):
        nonlocal seen
        now = look()
        if seen is never or now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "cures-step-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The settings are arguments: right values, and two traces for any number of rates."""
cured_step = make_step()


def spec_step(w, rate, clip):
    w = np.asarray(w)
    move = np.float32(rate) * w
    return w - (np.clip(move, -1, 1) if clip else move)


cure_w = np.array([-4.0, 0.5, 3.0], np.float32)
for cure_rate, cure_clip in ((0.5, True), (0.25, False), (0.75, True)):
    assert_allclose(
        cured_step(cure_w, cure_rate, cure_clip),
        spec_step(cure_w, cure_rate, cure_clip),
        name=f"step(w, {cure_rate}, {cure_clip})",
    )
with assert_max_traces(cured_step, 2):
    for i in range(6):
        cured_step(cure_w, 0.1 * i, i % 2 == 0)
### BEGIN HIDDEN TESTS
cured_step = make_step()
cure_w = jnp.array([[9.0, 7.5], [0.125, 2.0]], jnp.float32)  # all moves of one step have one sign
large_w = jnp.full((2, 2), 2e38, jnp.float32)
with assert_max_traces(cured_step, 2):
    for i in range(8):
        case = (cure_w, 0.07 * i - 0.3, i % 3 == 0)
        assert_allclose(cured_step(*case), spec_step(*case), name=f"step {i}")
    assert_allclose(cured_step(large_w, 0.25, False), spec_step(large_w, 0.25, False), name="a large step")
for dtype in ("float16", "bfloat16", "int32"):
    typed_w = jnp.array([-4, 1, 3], dtype)
    desired = typed_w - jnp.clip(typed_w * 0.5, -1, 1)
    assert_allclose(cured_step(typed_w, 0.5, True), desired, name=f"a step of {dtype}")
with np.errstate(over="ignore"):  # the move is infinite, what clip makes of it is not
    assert_allclose(cured_step(large_w, 2.5, True), spec_step(large_w, 2.5, True), name="a step whose move overflows")
within = jax.jit(lambda w, rate: cured_step(w, rate, True))
assert_allclose(within(cure_w, 0.25), spec_step(cure_w, 0.25, True), name="a step within another jitted function")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "cures-follow-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The global is followed: right values, one trace for each change, and nobody else pays."""
follow_hints = {
    "answers": "Some come from an old value. Jitting again does not help: traces are kept by function.",
    "runs of the body": "It may be traced again when the value has changed, and only then.",
    "traces of a bystander": "Another function was traced again: clear_caches() empties everybody's cache.",
}


def follow_all(values, early, arguments):
    """Set the global to each of the values in turn, and call. `early`: its value in a call before follow."""
    world, runs, bystander_runs = {"g": early}, [], []

    def look():  # equal values are not one object
        return None if world["g"] is None else float(world["g"])

    def haunted(x, y, *others):
        runs.append(x.shape)
        return x - y - sum(others) + (9 if world["g"] is None else world["g"])

    def bystander(x):
        bystander_runs.append(x.shape)
        return x - 1

    jitted, given = jax.jit(haunted), [jnp.ones(2), *[jnp.full(2, 0.5)] * (arguments - 1)]
    bystander = follow(jax.jit(bystander), lambda: 0.5)  # its own global never changes
    bystander(jnp.ones(2))
    if early is not None:
        jitted(*given)
    world["g"] = values[0]
    runs.clear()
    bystander_runs.clear()
    call = follow(jitted, look)
    answers = []
    for value in values:
        world["g"] = value
        answers.append(float(call(*given)[0]))
        bystander(jnp.ones(2))
    return answers, len(runs), len(bystander_runs)


def assert_follows(values, early=None, arguments=2):
    answers, runs, bystander_runs = follow_all(values, early, arguments)
    changes = 1 + sum(a != b for a, b in zip(values, values[1:], strict=False))
    # Fewer runs do as well: one may keep a version for each value.
    said = {"answers": answers, "runs of the body": max(runs, changes), "traces of a bystander": bystander_runs}
    right_answers = [1.5 - arguments / 2 + (9 if value is None else value) for value in values]
    right = {"answers": right_answers, "runs of the body": changes, "traces of a bystander": 0}
    assert_equal(said, right, name="follow", hints=follow_hints)


assert_follows([1, 1, 5, 5, 5, 2])
assert_follows([4, 4, 8], early=3)
### BEGIN HIDDEN TESTS
assert_follows([7, 7, -2, 7, 7, 30], arguments=3)
assert_follows([0, 0, 1, 0], early=9)
assert_follows([None, None, 2, None], early=5)
assert_follows([0, None, 0, None], early=5)  # both are false
assert_follows([-1, -2, -1], early=-2)  # they share a hash
assert_follows([1, 1 + 2**-10, 1])


def follow_each(body, values, *arguments):
    """Set the global to each of the values in turn, and call with each argument."""
    world, runs, answers = {"g": values[0]}, [], []
    call = follow(jax.jit(lambda x: [runs.append(x.shape), body(x, world["g"])][1]), lambda: world["g"])
    for value in values:
        world["g"] = value
        answers += [call(x) for x in arguments]
    return answers, len(runs)


def follow_nothing(body, *arguments):
    return follow(jax.jit(body), lambda: None)(*arguments)


answers, runs = follow_each(lambda x, g: x + g, (1.0, 3.0, 3.0), jnp.ones(2), jnp.ones(5))
answers = [float(answer[0]) for answer in answers]
each = 2 * len({1.0, 3.0})  # of two types
said = {"answers for two types": answers, "at most one run for each type and change": runs <= each}
right = {"answers for two types": [2.0, 2.0, 4.0, 4.0, 4.0, 4.0], "at most one run for each type and change": True}
assert_equal(said, right, name="follow")
several = follow_nothing(lambda k: {"twice": 2 * k, "half": (k / 2).astype("float16")}, jnp.arange(3))
assert_allclose(several, {"twice": jnp.int32([0, 2, 4]), "half": jnp.float16([0, 0.5, 1])}, name="follow: a dict")
said, hint = {"arrays of JAX": isinstance(several["twice"], jax.Array)}, "Return what jitted returns, as it is."
assert_equal(said, {"arrays of JAX": True}, hint=hint, name="follow")
product = follow_nothing(lambda x, y: x * y, jnp.float16(2), 0.5)
said, hint = {"float16 times a Python number": str(product.dtype)}, "Hand the arguments on as they are."
assert_equal(said, {"float16 times a Python number": "float16"}, hint=hint, name="follow")
answers, _ = follow_each(lambda x, g: x * (g > 1), (1.0, 1 + 2**-40, 1.0), jnp.float32(1))
assert_equal({"a small change": list(map(float, answers))}, {"a small change": [0.0, 1.0, 0.0]}, name="follow")
assert_follows([0.0, -0.0, 0.0])  # they are one value
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · The exorcism (6 points)
#
# Three haunted functions. Each works in plain Python, and each goes wrong under `jit`. Write pure ones: what the
# function reads comes in as an argument, what it changes goes out as a result. The `@jax.jit` is given; one trace has
# to serve all calls of a type, and nothing may stay behind.
#
# - `tick(calls, x)` returns `(calls, y)`: the count after this call, and `x` divided by it.
# - `orbit(x)` returns `(x, visited)`: the end point, and the six points in one array with a new first axis.
# - `noisy(key, x)` returns `(key, y)`: a key for the next call, and `x`, whose elements are finite, with each element
#   kept or zeroed (an even chance), plus standard normal noise on *every* element. No key may be used twice, in one
#   call or over many.
#
# The list could also be filled at run time: `orbit_by_callback` calls Python at each point, and is right in every call.
# But its program has to wait for Python six times. For 100 starts, `orbit` is timed against it: 10x as fast earns 1
# point, 20x earns 2.
#
# <details><summary>Hint 1: a nudge</summary>
#
# Is a list that is born and dies inside the function a side effect? And how many keys do you need in one call? Count
# the draws, and do not forget the next call.
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `leak_alarm(orbit, x)` tells what stays behind, if this is the *first* call of its type. `key_alarm(play)`, where
# `play` calls `noisy` two or three times in a row, tells whether a key is used twice.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# def orbit(x):
#     visited = []                       # local: it leaves through the return
#     ...
#     return x, jnp.stack(visited)
#
# def noisy(key, x):
#     key, for_mask, for_noise = jax.random.split(key, 3)
#     ...
# ```
# </details>

# %% nbgrader={"grade": false, "grade_id": "exorcism-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
number_of_calls = 0
all_visited = []


def haunted_tick(x):
    global number_of_calls
    number_of_calls += 1
    return x / number_of_calls


def haunted_orbit(x):
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        all_visited.append(x)
    return x


def haunted_noisy(x):
    keep = np.random.random(x.shape) < 0.5
    return np.where(keep, x, 0.0) + np.random.standard_normal(x.shape)


heard_points = []


def hear(x):
    heard_points.append(x)


@jax.jit
def calling_orbit(x):
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        io_callback(hear, None, x, ordered=True)
    return x


def orbit_by_callback(x):
    """(end point, the six points visited), heard at run time. x: float32[...]; visited: float32[6, ...]."""
    heard_points.clear()
    end = calling_orbit(x)
    jax.effects_barrier()  # wait for Python, too
    return end, np.stack(heard_points)


# %% [markdown]
# Two of JAX's alarms, made readable. The checks listen to them; so can you.


# %% nbgrader={"grade": false, "grade_id": "alarms-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def leak_alarm(fn, *args):
    """What jax.checking_leaks says of this call: "silent", or who keeps a tracer. It hears fresh traces."""
    before = {name: tracers_in(value) for name, value in globals().items()}
    gc.freeze()  # for its message JAX searches all objects for who keeps a tracer: spare it those made before
    try:
        with jax.checking_leaks():
            fn(*args)
    except Exception as error:  # a plain Exception for a leak; JAX 0.10 may stumble while it writes the message
        places = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        if "Leaked trace" not in str(error) and "leaked_tracer_error" not in places:
            raise
        holders = [name for name, value in globals().items() if tracers_in(value) - before.get(name, set())]
        return f"leaked trace: a tracer is kept by {', '.join(holders) or 'somebody outside'}"
    finally:
        gc.unfreeze()
    return "silent"


def tracers_in(value):
    """The tracers among something, its elements and its attributes, by their identity."""
    inside = vars(value).values() if hasattr(value, "__dict__") else ()
    if isinstance(value, (list, tuple, set, dict)):
        inside = value.values() if isinstance(value, dict) else value
    return {id(x) for x in [value, *inside] if isinstance(x, jax.core.Tracer)}


def in_short(value, depth=3):
    """What can change about a value: numbers and texts, what is in containers, attributes of what you have written."""
    if isinstance(value, (int, float, str, itertools.count)):
        return repr(value)
    if isinstance(value, (list, tuple, set, dict, collections.deque)):
        items = value.values() if isinstance(value, dict) else value
        return f"{len(value)}: {[in_short(item, depth - 1) for item in list(items)[:100]] if depth else 'of some'}"
    if depth and getattr(value, "__module__", "") == "__main__" and hasattr(value, "__dict__"):
        defaults = getattr(value, "__defaults__", None) or (), getattr(value, "__kwdefaults__", None) or {}
        held = [*vars(value).values(), *defaults[0], *defaults[1].values()]
        return f"{len(held)}: {[in_short(item, depth - 1) for item in held]}"
    return type(value).__name__


def left_behind(fn, *args):
    """What a call of `fn` with types that it has not met leaves: a tracer, changed globals, run-time effects."""

    def globals_now():
        return {name: in_short(value) for name, value in globals().items() if not name.startswith("__")}

    before = globals_now()
    alarm = leak_alarm(fn, *args)
    jax.effects_barrier()
    return {
        "JAX's leak alarm": alarm,
        "globals that changed": [name for name, value in globals_now().items() if before.get(name) != value],
        "run-time effects": len(jax.jit(fn).trace(*args).jaxpr.effects) if alarm == "silent" else 0,
    }


def assert_leaves_nothing(fn, *args):
    """A call of `fn` with types that it has not met keeps no tracer, changes no global, and has no run-time effects."""
    hints = {
        "JAX's leak alarm": "What the function collects is born and dies inside it, or goes out as a result.",
        "globals that changed": "A pure function leaves the globals alone.",
        "run-time effects": "A pure function calls nobody back: what it has to say goes out as a result.",
    }
    right = {"JAX's leak alarm": "silent", "globals that changed": [], "run-time effects": 0}
    assert_equal(left_behind(fn, *args), right, name=fn.__name__, hints=hints)


def key_alarm(fn, *args):
    """What jax.debug_key_reuse says of this call: "silent", or "KeyReuseError: ..."."""
    try:
        with jax.debug_key_reuse(True):
            fn(*args)
    except jax.errors.KeyReuseError as error:
        return f"KeyReuseError: {str(error).splitlines()[0]}"
    return "silent"


# %% nbgrader={"grade": false, "grade_id": "exorcism", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    ### BEGIN SOLUTION
    calls = calls + 1
    return calls, x / calls
    ### END SOLUTION


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    ### BEGIN SOLUTION
    # Python's list is fine as long as nobody outside can see it.
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)
    ### END SOLUTION


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    ### BEGIN SOLUTION
    # Three uses, three keys: the next call, the mask, the noise.
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "exorcism-tick", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The counter counts calls, not traces."""


def assert_ticks(start, xs):
    why = "A count that Python keeps moves once a trace. Let it come in as an argument, go out as a result."
    with assert_max_traces(tick, 1):
        calls, seen = jnp.int32(start), []
        for x in xs:
            calls, y = tick(calls, jnp.float32(x))
            seen.append(y.tolist())
        expected = [(np.float32(x) / (start + i)).tolist() for i, x in enumerate(xs, 1)]
        said = {"the count": int(calls), "results": seen}
        right = {"the count": start + len(xs), "results": expected}
        assert_equal(said, right, name="tick", hints=dict.fromkeys(said, why))


assert_ticks(0, [12.0, 12.0, 12.0, 12.0])
assert_leaves_nothing(tick, jnp.int32(0), jnp.ones(5))
### BEGIN HIDDEN TESTS
assert_ticks(5, [10.0, -4.0, 3.0])
assert_ticks(1, [[[1.0, -6.0, 0.5]], [[3.0, 9.0, 2.0]]])
assert_ticks(2**24 + 2, [5.0, 6.0, 7.0])  # float32 does not have every integer from here on
within = jax.jit(lambda calls, x: tick(calls, x))(jnp.int32(3), jnp.float32(9.0))
said, right = dict(zip(["the count", "the result"], within, strict=True)), {"the count": 4, "the result": 2.25}
assert_allclose(said, right, name="tick within another jitted function")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "exorcism-orbit", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The points visited come out, and no tracer stays behind."""


def spec_orbit(x):
    visited = []
    for _ in range(6):
        x = np.float32(3.7) * x * (1 - x)
        visited.append(x)
    return x, np.stack(visited)


orbit_x = np.array([0.1, 0.4], np.float32)
with assert_max_traces(orbit, 1):
    for shift in (0.0, 0.05):
        shifted = orbit_x + np.float32(shift)
        assert_allclose(orbit(shifted), spec_orbit(shifted), rtol=1e-3, name="orbit(x)")
assert_leaves_nothing(orbit, jnp.ones(5) / 3)  # a new shape: the alarm hears fresh traces only
### BEGIN HIDDEN TESTS
orbit_x, far_out = np.array([[[0.2], [0.9], [0.33]], [[-0.5], [1.2], [1.5]]], np.float32)
assert_allclose(orbit(jnp.float32(0.3)), spec_orbit(np.float32(0.3)), rtol=1e-3, name="orbit of one number")
assert_allclose(orbit(orbit_x), spec_orbit(orbit_x), rtol=1e-3)
assert_allclose(orbit(orbit_x / 2), spec_orbit(orbit_x / 2), rtol=1e-3)
assert_allclose(orbit(far_out), spec_orbit(far_out), rtol=1e-3)
from autograder import trace_log

run_again = "runs of orbit's Python for a type that it was traced for"
with trace_log(orbit) as log:
    orbit(far_out)
assert_equal({run_again: log.eager}, {run_again: 0}, name="orbit", hints={run_again: "Leave the given @jax.jit on it."})
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "exorcism-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Speed over the orbit that calls Python at each point: 10x earns 1 point, 20x earns 2."""
hundred = np.linspace(0.1, 0.9, 100, dtype=np.float32)
partial_credit(speedup(orbit, orbit_by_callback, hundred, at_least=20), {10: 1, 20: 2})

# %% nbgrader={"grade": true, "grade_id": "exorcism-noisy", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Fresh noise in every call, the same noise for the same key, and no key is used twice."""


def assert_good_noise(seed, shape=(2000,)):
    x = jnp.full(shape, 1000.0)  # so that one look tells kept (about 1000) from zeroed (about 0)
    key, first = noisy(jax.random.key(seed), x)
    last, second = noisy(key, x)
    _, again = noisy(jax.random.key(seed), x)
    same_shape = first.shape == x.shape
    from_next = np.ravel(jax.random.normal(key, x.shape))  # its sign comes from the same bits as an even chance
    first, second, again = np.ravel(first), np.ravel(second), np.ravel(again)
    keep = first > 500
    keep2 = second > 500
    noise, noise2 = first - 1000 * keep, second - 1000 * keep2
    # how many of the kept ones have less noise than so much, and how many of the others
    below_if_kept, below_if_not = [(noise[of][:, None] < np.linspace(-2, 2, 17)).mean(0) for of in (keep, ~keep)]

    def alike(a, b):
        with np.errstate(all="ignore"):
            return abs(np.corrcoef(a, b)[0, 1]) > 0.1

    # how often neighbours are the same, and how often the two halves
    same = [(a == b).mean() for draw in (keep, noise > 0) for a, b in (draw.reshape(-1, 2).T, draw.reshape(2, -1))]
    said = {
        "the shape is that of x": same_shape,
        "the same key repeats the draw": bool((first == again).all()),
        "the next key draws anew": not (alike(noise, noise2) or alike(keep, keep2)),
        "the key after the next is another one": str(last) != str(key),
        "the next key has not drawn yet": not (alike(noise, from_next) or alike(keep, from_next > 0)),
        "about half is kept": 0.4 < keep.mean() < 0.6,
        "each element draws by itself": all(0.4 < share < 0.6 for share in same),
        "the noise is standard normal": abs(noise.mean()) < 0.15
        and 0.85 < noise.std() < 1.15
        and 0.63 < (abs(noise) < 1).mean() < 0.73,
        "the mask says nothing about the noise": abs(below_if_kept - below_if_not).max() < 0.12,
    }
    hints = {
        "the shape is that of x": "One draw for each element of x: x.shape is what the draws need.",
        "the same key repeats the draw": "The noise depends on the key alone, not on a hidden state.",
        "the next key draws anew": "Two calls gave the same noise or mask: return a new key, use the one you got.",
        "the key after the next is another one": "From the second call on all keys are one key: make it from yours.",
        "the next key has not drawn yet": "The key that goes out is the one that drew this call's noise or mask.",
        "about half is kept": "Each element has an even chance, by itself.",
        "each element draws by itself": "One draw for each element of x, not one for each row or column.",
        "the noise is standard normal": "Mean 0 and deviation 1, on every element, the zeroed ones too.",
        "the mask says nothing about the noise": "Mask and noise come from one draw or one key: they share their bits.",
    }
    said = {name: bool(holds) for name, holds in said.items()}
    assert_equal(said, dict.fromkeys(said, True), name="noisy", hints=hints)
    return int(keep.sum()), int(keep2.sum())


with assert_max_traces(noisy, 1):
    assert_good_noise(0)


def three_calls(seed):
    key = jax.random.key(seed)
    for _ in range(3):
        key, _ = noisy(key, jnp.ones(2000))


assert_equal(
    {"JAX's key alarm": key_alarm(three_calls, 1)},
    {"JAX's key alarm": "silent"},
    name="noisy",
    hints={"JAX's key alarm": "A key that was split is used up: draw from its children only."},
)
assert_leaves_nothing(noisy, jax.random.key(2), jnp.ones(5))
### BEGIN HIDDEN TESTS
kept = [*assert_good_noise(42), *assert_good_noise(43, (40, 50))]
assert_equal(
    {"four draws keep the same number": len(set(kept)) == 1},
    {"four draws keep the same number": False},
    name="noisy",
    hints={"four draws keep the same number": "Each element has an even chance by itself: nobody counts them."},
)
stairs = np.arange(-1e6, 1e6, 1000, np.float32)  # each element is kept in its own place
stays = np.asarray(noisy(jax.random.key(44), stairs)[1])
assert_equal(
    {"an element is itself or 0, but for noise": bool((np.minimum(abs(stays - stairs), abs(stays)) < 7).all())},
    {"an element is itself or 0, but for noise": True},
    name="noisy",
)
keys = [jax.random.key(46)]
for _ in range(300):
    keys.append(noisy(keys[-1], jnp.ones(5))[0])
assert_equal(
    {"different keys in 300 calls": len({str(jax.random.key_data(key)) for key in keys})},
    {"different keys in 300 calls": 301},
    name="noisy",
    hints={"different keys in 300 calls": "A key came back, and all its noise with it: each is one of few."},
)
million = np.asarray(noisy(jax.random.key(45), jnp.full(1_000_000, 1000.0))[1])
share = float((million > 500).mean())
tails = int((abs(million - 1000 * (million > 500)) > 3.5).sum())  # about 465 of a normal distribution
assert_equal(
    {"half of a million is kept": 0.4975 < share < 0.5025, "noise beyond 3.5": 350 < tails < 600},
    {"half of a million is kept": True, "noise beyond 3.5": True},
    name="noisy",
    hints={
        "half of a million is kept": "Even means 50 %, and not 51.",
        "noise beyond 3.5": "The normal distribution has no bounds.",
    },
)
key_halves = np.array([np.asarray(jax.random.key_data(key)) for key in keys]).T
said = {
    "each half of a key changes in each call": min(len(set(half.tolist())) for half in key_halves) > 290,
    "the shape for one number": list(noisy(keys[0], jnp.float32(1000))[1].shape),
}
assert_equal(
    said,
    {"each half of a key changes in each call": True, "the shape for one number": []},
    name="noisy",
    hints={
        "each half of a key changes in each call": "A key that is made from one number is one of few: it comes back."
    },
)
within = jax.jit(lambda key, x: noisy(key, x))(keys[0], jnp.ones(5))[1]
assert_allclose(within, noisy(keys[0], jnp.ones(5))[1], name="noisy within another jitted function")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · The leak hunt (3 points)
#
# A tracer leaks when something outside still holds it after the trace. Eight suspects, each called once under `jit`
# with `x = jnp.ones(3)`. `outside` is a global list, `machine` a global object:
#
# | name | what the function does before it returns `x * 2` |
# |---|---|
# | `"value"` | `outside.append(x)` |
# | `"shape"` | `outside.append(x.shape)` |
# | `"constant"` | `outside.append(jnp.arange(3.0))` |
# | `"NumPy constant"` | `outside.append(np.arange(3.0))` |
# | `"local list"` | `inside = []; inside.append(x)` |
# | `"attribute"` | `machine.mean = x.mean()`, read again in the next line |
# | `"closure"` | `outside.append(lambda: x)` |
# | `"callback"` | `jax.debug.callback(outside.append, x)` |
#
# `who_leaks()` returns a dict from these names to `True` (leaks) or `False`.
#
# Then the repair. `mixer(n)` is a table of fixed random numbers, made once for each `n` and kept. It has a fault: it
# works, unless its first call comes from a jitted function. Write its body so that it can be called first from
# anywhere. It must stay a JAX array, with the same numbers as in the specification.
#
# <details><summary>Hint 1: a nudge</summary>
#
# What does a <code>jnp</code> operation give during a trace, even if its operands are plain numbers? And what does a
# callback receive?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `leak_alarm` from task 3, on a jitted function that was not called before. In the repair: print `type(mixer(4))` after
# a jitted function was the first to ask.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# Section 5 of the lesson ends with a context manager that says: compute this now, not on the tape.
#
# ```python
# with jax.ensure_compile_time_eval():
#     ...
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "leak-hunt-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
@functools.cache
def leaky_mixer(n):
    """float32[n, n]. Never the same after a jitted function was the first to call it."""
    return jax.random.normal(jax.random.key(n), (n, n))


# %% nbgrader={"grade": false, "grade_id": "leak-hunt", "locked": false, "schema_version": 3, "solution": true, "task": false}
def who_leaks():
    """Which of the eight suspects leak: a dict from the name to True or False."""
    ### BEGIN SOLUTION
    # Under a trace every jnp result is a tracer, constants too. Shapes and NumPy arrays are not, and a
    # callback gets values.
    return {
        "value": True,
        "shape": False,
        "constant": True,
        "NumPy constant": False,
        "local list": False,
        "attribute": True,
        "closure": True,
        "callback": False,
    }
    ### END SOLUTION


@functools.cache
def mixer(n):
    """float32[n, n], standard normal, from jax.random.key(n). May be called first from anywhere."""
    ### BEGIN SOLUTION
    # Nothing here depends on a traced value, so compute it now instead of writing it onto the tape.
    with jax.ensure_compile_time_eval():
        return jax.random.normal(jax.random.key(n), (n, n))
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "leak-hunt-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Who keeps a tracer beyond its trace?"""


def interrogate():
    outside = []

    class machine:
        mean = None

    def attribute(x):
        machine.mean = x.mean()
        return x - machine.mean

    suspects = {
        "value": lambda x: outside.append(x),
        "shape": lambda x: outside.append(x.shape),
        "constant": lambda x: outside.append(jnp.arange(3.0)),
        "NumPy constant": lambda x: outside.append(np.arange(3.0)),
        "local list": lambda x: [].append(x),
        "attribute": attribute,
        "closure": lambda x: outside.append(lambda: x),
        "callback": lambda x: jax.debug.callback(outside.append, x),
    }
    found = {}
    for name, suspect in suspects.items():
        jax.jit(lambda x, suspect=suspect: (suspect(x), x * 2)[1])(jnp.ones(3)).block_until_ready()
        jax.effects_barrier()
        left = [machine.mean] + [item() if callable(item) else item for item in outside]
        found[name] = any(isinstance(item, jax.core.Tracer) for item in left)
        machine.mean = None
        outside.clear()
    return found


leak_hints = {
    "value": "The list outlives the trace, and it holds x.",
    "shape": "A shape is a tuple of Python integers, during a trace too.",
    "constant": "Under a trace the result of every jnp operation is a tracer, whatever the operands are.",
    "NumPy constant": "NumPy knows nothing of the trace: what it makes is a real array.",
    "local list": "Who can reach that list when the function is over?",
    "attribute": "It works in this call. But the object is still there when the trace is over.",
    "closure": "A function holds the variables that it uses.",
    "callback": "At run time, when the callback happens, there are no tracers: what does it receive?",
}
assert_prediction(who_leaks, interrogate, hints=leak_hints)

# %% nbgrader={"grade": true, "grade_id": "leak-hunt-repair", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The table is made once, can be asked for first under jit, and never leaks."""


def new_mixed():
    if hasattr(mixer, "cache_clear"):
        mixer.cache_clear()

    @jax.jit
    def mixed(x):
        return mixer(x.shape[0]) @ x

    return mixed


def is_kept(n):
    return mixer(n) is mixer(n)


def assert_repaired(n, alarm):
    mixed, expected = new_mixed(), np.asarray(jax.random.normal(jax.random.key(n), (n, n)))
    if alarm:
        assert_equal(
            {"JAX's leak alarm": leak_alarm(mixed, jnp.ones(n))},
            {"JAX's leak alarm": "silent"},
            name="mixer",
            hints={"JAX's leak alarm": "The table went onto the tape, and the cache kept a tracer for ever."},
        )
    result = mixed(jnp.ones(n))
    assert_allclose(result, expected @ np.ones(n, np.float32), rtol=1e-4, name="mixer(n) @ x, under jit")
    assert_allclose(mixer(n), expected, name="mixer(n) afterwards")
    assert_equal(
        {"made once and kept": is_kept(n), "a JAX array": isinstance(mixer(n), jax.Array)},
        {"made once and kept": True, "a JAX array": True},
        name="mixer",
        hints={
            "made once and kept": "Leave the functools.cache above the function.",
            "a JAX array": "What is kept should be an array of JAX, not of NumPy.",
        },
    )


assert_repaired(4, alarm=True)
### BEGIN HIDDEN TESTS
assert_repaired(131, alarm=False)


def what_is_kept():
    asked = []
    jax.jit(lambda x: [asked.append(mixer(9)), x][1])(1.0)
    mixer(4)
    nobody_else_has_it = weakref.ref(mixer(6))
    gc.collect()
    maxsize = getattr(mixer, "cache_parameters", dict)().get("maxsize")
    return mixer(9) is asked[0], nobody_else_has_it() is not None, maxsize


under_jit, unused, maxsize = what_is_kept()
assert_equal(
    {
        "kept for each n, under jit too": under_jit,
        "kept when nobody uses it": unused,
        "kept for any number of n": maxsize is None,
    },
    dict.fromkeys(["kept for each n, under jit too", "kept when nobody uses it", "kept for any number of n"], True),
    name="mixer",
    hints={
        "kept for each n, under jit too": "The table that a jitted function was given is kept, beside others.",
        "kept when nobody uses it": "A weak reference keeps nothing.",
        "kept for any number of n": "An lru_cache with a maxsize forgets.",
    },
)
for n in (1, 3, 67):
    wanted = np.asarray(jax.random.normal(jax.random.key(n), (n, n)))
    assert_allclose(mixer(n), wanted, name=f"mixer({n})")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · Is it pure? (4 points)
#
# Years ago somebody asked JAX's authors for a way to detect impure functions: *trace twice, and compare*. Build it.
# `is_pure(fn, *args)` returns `False` if one of these holds, else `True`:
#
# 1. two traces of `fn(*args)`, each from scratch, are **not the same program** in StableHLO, constants included;
# 2. the program carries **run-time effects** (`debug.print`, `io_callback`, ...);
# 3. a **tracer leaks** out of the first trace or a later one.
#
# `fn` may be plain or jitted, called before or not, and raises no error of its own. Its arguments are arrays or
# numbers.
#
# It is a good detector, not a perfect one. **`sneaky()`** proves it: it returns a new function `f(x)` that your
# detector believes to be pure, and that gives at least two different results in twenty plain calls `f(1.0)`.
#
# <details><summary>Hint 1: a nudge</summary>
#
# Trace twice with `make_jaxpr` and everything looks pure. Why? (Section 2 of the lesson.) And if `fn` adds an array
# of NumPy's random numbers, two different programs print alike. Where are the numbers?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `jax.clear_caches()` makes the next trace start from scratch. `traced = jax.jit(fn).trace(*args)` gives
# `traced.jaxpr.effects` (empty or not), and `traced.lower().as_text()`, the StableHLO, in which all constants are
# written out. A leak under `jax.checking_leaks()` is a plain `Exception` whose text says `Leaked trace`.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# programs = []
# for _ in range(2):
#     jax.clear_caches()
#     try:
#         with jax.checking_leaks():
#             traced = ...
#     except Exception:
#         return False
#     if ...effects:
#         return False
#     programs.append(...)
# return ...
# ```
#
# `sneaky`: your detector looks twice. What if the ghost waits?
# </details>


# %% nbgrader={"grade": false, "grade_id": "is-pure", "locked": false, "schema_version": 3, "solution": true, "task": false}
def is_pure(fn, *args):
    """Whether two fresh traces agree, without run-time effects and without a leak. Returns a bool."""
    ### BEGIN SOLUTION
    # A cached trace would agree with itself, so everything is forgotten first. StableHLO shows constants.
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception as error:
            if "Leaked trace" in str(error):
                return False
            raise  # an error of fn itself is no verdict
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]
    ### END SOLUTION


def sneaky():
    """A new function f(x) that is_pure believes, with more than one result in twenty plain calls f(1.0)."""
    ### BEGIN SOLUTION
    # Two looks see two calls. This ghost waits for the sixth.
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x if calls < 6 else x + 1

    return f
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "is-pure-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Impure functions are caught, pure ones are left in peace."""


def line_up(seed):
    rng, count, kept = np.random.default_rng(seed), 0, []
    table = rng.random(3).astype(np.float32)

    def counter(x):
        nonlocal count
        count += 1
        return x * count

    def local_list(x):
        points = []
        for _ in range(3):
            x = jnp.sin(x)
            points.append(x)
        return jnp.stack(points)

    def looks(x):
        jax.debug.print("x is {x}", x=x)
        return x + seed

    def polynomial(x):
        return 2 * x * x + seed

    def adds_random_array(x):
        return x + rng.random(3).astype(np.float32)

    def leaks(x):
        kept.append(x * 2)
        return x

    def adds_table(x):
        return x + table

    jitted_counter = jax.jit(counter)
    jitted_counter(1.0)
    return {
        "a polynomial": polynomial,
        "a counter": counter,
        "a jitted counter": jitted_counter,
        "random array": adds_random_array,
        "debug.print": looks,
        "leak": leaks,
        "a local list": local_list,
        "a constant table": adds_table,
    }


def assert_judges(suspects, truth, *args):
    said = {}
    for name in truth:
        said[name] = is_pure(suspects[name], *args)
    right = {name: pure for name, (pure, _) in truth.items()}
    assert_equal(said, right, name="is_pure", hints={name: hint for name, (_, hint) in truth.items()})


line_up_truth = {
    "a polynomial": (True, "It is pure: the two programs are the same."),
    "a counter": (False, "Two traces differ. Did the second really run, or find the first?"),
    "a jitted counter": (False, "Traced before: what is found agrees with itself."),
    "random array": (False, "The two programs print alike, but their captured arrays differ."),
    "debug.print": (False, "The program is the same twice, and it has an effect when it runs."),
    "leak": (False, "The same program, and a tracer stays behind."),
    "a local list": (True, "It appends to a list of its own, which nobody sees."),
    "a constant table": (True, "It captures an array, but the same one each time."),
}
suspects = line_up(1)
assert_judges(suspects, line_up_truth, jnp.float32(0.5))
### BEGIN HIDDEN TESTS


def hidden_line_up():
    hidden_rng, hidden_machine = np.random.default_rng(3), {}

    def adds_random_number(x):
        return x + hidden_rng.random()

    def adds_clock(x):
        return x + time.perf_counter_ns() % 10_000_019  # float32 tells all of these apart

    @jax.jit
    def jitted_random_array(x):
        return x + hidden_rng.random(2).astype(np.float32)

    def multiplies_by_count(x, calls=[0]):  # noqa: B006
        calls[0] += 1
        return x * calls[0]

    @jax.jit
    def jitted_count(x):
        return multiplies_by_count(x)

    def tells(x):
        jax.debug.callback(lambda x: None, x)
        return x - 2

    def calls_back(x):
        io_callback(lambda x: None, None, x)
        return x

    def random_in_a_large_array(x):
        table = np.zeros(3000, np.float32)
        table[1500] = hidden_rng.random()
        return x + table

    def prints_in_scan(x):
        def body(c, _):
            jax.debug.print("{c}", c=c)
            return c * 2, None

        return jax.lax.scan(body, x, None, 3)[0]

    def keeps_last(x):
        hidden_machine["last"] = jnp.cos(x)
        return x + 1

    def fixed_key(x):
        return x + jax.random.normal(jax.random.key(4))

    def keeps_from_the_second_on(x):
        hidden_machine["calls"] = hidden_machine.get("calls", 0) + 1
        if hidden_machine["calls"] > 1:
            hidden_machine["later"] = x * 4
        return x + 4

    def keeps_the_first(x):
        hidden_machine.setdefault("first", x * 3)
        return x + 2

    def prints_arrays(x):
        if jnp.ndim(x):
            jax.debug.print("{x}", x=x)
        return x + 3

    @jax.jit
    def debug_print_io_callback(x):
        return x - 1

    def prints_in_a_branch(x):
        def loud(x):
            jax.debug.print("{x}", x=x)
            return x

        return jax.lax.cond(x > 100, loud, lambda x: -x, x)

    def divides_by_zeros(x):
        return x / np.float32(np.copysign(np.zeros(20), hidden_rng.normal(size=20)))

    jitted_count(jnp.float32(0.5))
    return {
        "a random number": adds_random_number,
        "the clock": adds_clock,
        "a jitted random array": jitted_random_array,
        "a print in a scan": prints_in_scan,
        "io_callback": calls_back,
        "debug.callback": tells,
        "ordered": lambda x: (io_callback(np.sin, x, x, ordered=True), x - 3)[1],
        "a jitted counter inside": lambda x: jitted_count(x) + 1,
        "a large array": random_in_a_large_array,
        "an entry of a dict": keeps_last,
        "the first only": keeps_the_first,
        "not the first": keeps_from_the_second_on,
        "a key": fixed_key,
        "a name": lambda x: debug_print_io_callback(x),
        "prints arrays": prints_arrays,
        "gelu": jax.jit(jax.nn.gelu),
        "pure_callback": lambda x: jax.pure_callback(np.sin, x, x),
        "two arguments": lambda x, y: x * y + 1,
        "times a count": multiplies_by_count,
        "a table with a NaN": lambda x: x + np.array([1, np.nan], np.float32),
        "a print in a branch": prints_in_a_branch,
        "signs of zeros": divides_by_zeros,
    }


hidden_truth = {
    "a random number": (False, "Two traces draw two numbers."),
    "the clock": (False, "Two traces read two times."),
    "a jitted random array": (False, "The arrays differ, one level further in."),
    "a print in a scan": (False, "The effect is inside the scan's body."),
    "io_callback": (False, "It has an effect when it runs."),
    "debug.callback": (False, "It has an effect when it runs."),
    "ordered": (False, "An ordered effect is one."),
    "a jitted counter inside": (False, "Traced before, one level further in."),
    "a large array": (False, "The arrays differ in one element."),
    "an entry of a dict": (False, "A tracer stays behind in a dict."),
    "the first only": (False, "The first trace leaks, the second one does not."),
    "not the first": (False, "The first trace leaks nothing, a later one does."),
    "a key": (True, "A fixed key gives fixed numbers."),
    "a name": (True, "The name of a function is no effect."),
    "prints arrays": (True, "It prints for arrays, and this is a number."),
    "gelu": (True, "A jitted function is as pure as what it jits."),
    "pure_callback": (True, "Of all callbacks this one is no effect."),
}
suspects = hidden_line_up()
assert_judges(suspects, hidden_truth, jnp.float32(0.5))
assert_judges(suspects, {"two arguments": (True, "It has two arguments.")}, jnp.ones(3), 2.0)
assert_judges(suspects, {"prints arrays": (False, "It printed nothing for a number; this is an array.")}, jnp.ones(3))
assert_judges(
    suspects,
    {
        "times a count": (False, "Results may agree where programs differ."),
        "a table with a NaN": (True, "The same table each time."),
    },
    0.0,
)
assert_judges(
    suspects,
    {
        "a print in a branch": (False, "The effect is in a branch of a cond."),
        "signs of zeros": (False, "0.0 == -0.0, and 1 / 0.0 is not 1 / -0.0: two programs."),
    },
    jnp.float32(0.5),
)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "is-pure-sneaky", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. A ghost that every detector of this kind believes in."""


def two_programs(fn, x):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        with jax.checking_leaks():
            traced = jax.jit(fn).trace(x)
        programs.append((traced.lower().as_text(), bool(traced.jaxpr.effects)))
    return programs


def looks_pure(fn, x):
    programs = two_programs(fn, x)
    return programs[0] == programs[1] and not programs[0][1]


sneaky_hints = {
    "your is_pure is fooled": "Your own detector sees through it.",
    "a plain trace-twice detector is fooled": "Two fresh traces already differ, or it has effects.",
    "it changes its mind": "Twenty plain calls f(1.0) gave one result, so there is nothing to find.",
}
sneaky_f, sneaky_results = sneaky(), set()
for _ in range(20):
    sneaky_results.add(float(sneaky_f(1.0)))
sneaky_said = {
    "your is_pure is fooled": is_pure(sneaky(), 1.0),
    "a plain trace-twice detector is fooled": looks_pure(sneaky(), 1.0),
    "it changes its mind": len(sneaky_results) > 1,
}
assert_equal(sneaky_said, dict.fromkeys(sneaky_said, True), name="sneaky", hints=sneaky_hints)
### BEGIN HIDDEN TESTS
sneaky_f = sneaky()
assert_equal(
    {"a second ghost changes its mind too": len({float(sneaky_f(1.0)) for _ in range(20)}) > 1},
    {"a second ghost changes its mind too": True},
    name="sneaky",
    hints={"a second ghost changes its mind too": "Each function that sneaky returns has its own memory."},
)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · Be the jit (3 points)
#
# You know enough to rebuild `jit`'s memory, without JAX, from one kind of dictionary. The stage:
#
# ```python
# g, runs = 0.0, 0
#
# def f(x):
#     global runs
#     runs += 1
#     return x + g
#
# jf = jax.jit(f)
# ```
#
# and a script, a list of tuples that are played in order, however long it is:
#
# | action | what is done |
# |---|---|
# | `("set", v)` | `g = v` |
# | `("call", dtype, shape)` | `jf(jnp.ones(shape, dtype))`; the answer is the first element of the result; no `dtype` has 64 bits |
# | `("look", dtype, shape)` | `jax.make_jaxpr(jf)(jnp.ones(shape, dtype))`; no answer |
# | `("rejit",)` | `jf = jax.jit(f)` |
# | `("wrap",)` | `jf = jax.jit(lambda x: f(x))` |
# | `("clear",)` | `jf.clear_cache()` |
#
# `ghost(script)` returns `(answers, runs)`: the answers of all calls as a list of floats, and how often the body of `f`
# ran. The checks play each script on the real `jax.jit`, and on your ghost, which is run in plain Python, where neither
# JAX nor this notebook exists.
#
# <details><summary>Hint 1: a nudge</summary>
#
# What is a tape here? A type, and the `g` that was true when it was written. That is one dictionary. How many
# dictionaries are there, and which one does `jf` look into?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# The visible scripts have names: each isolates one rule. The trickiest is to come back: `wrap`, then `rejit`. The tapes
# of `f` were never thrown away.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# g, runs, answers = 0.0, 0, []
# tapes_of_f = {}              # (dtype, shape) -> the g on the tape
# tapes = tapes_of_f           # those of the function inside jf
# for action, *details in script:
#     if action in ("call", "look"):
#         kind = tuple(details)
#         if kind not in tapes:
#             ...
#     elif action == "wrap":
#         tapes = ...
#     ...
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "be-the-jit-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def play(script):
    """The script on the real jax.jit: [answers, runs]."""
    g, runs, answers = 0.0, 0, []

    def f(x):
        nonlocal runs
        runs += 1
        return x + g

    jf = jax.jit(f)
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action == "call":
            dtype, shape = details
            answers.append(float(np.ravel(jf(np.ones(shape, dtype)))[0]))
        elif action == "look":
            dtype, shape = details
            jax.make_jaxpr(jf)(np.ones(shape, dtype))
        elif action == "rejit":
            jf = jax.jit(f)
        elif action == "wrap":
            jf = jax.jit(lambda x: f(x))
        elif action == "clear":
            jf.clear_cache()
    return [answers, runs]


def write_script(seed, length=14):
    """A random script."""
    dice = random.Random(seed)
    script = []
    for _ in range(length):
        action = dice.choice(["set", "set", "call", "call", "call", "call", "look", "rejit", "wrap", "clear"])
        if action == "set":
            script.append((action, float(dice.randint(1, 9))))
        elif action in ("call", "look"):
            script.append((action, dice.choice(["float32", "int32"]), dice.choice([(), (3,)])))
        else:
            script.append((action,))
    return script


# %% nbgrader={"grade": false, "grade_id": "be-the-jit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ghost(script):
    """Play the script without JAX: (answers of all calls, runs of the body of f)."""
    ### BEGIN SOLUTION
    # One dictionary for each function object; jf is only a pointer to one of them.
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "be-the-jit-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. One rule at a time."""
one, three, whole = ("call", "float32", ()), ("call", "float32", (3,)), ("call", "int32", ())
scripts = {
    "the global is frozen": [("set", 1.0), one, ("set", 5.0), one, one],
    "a new shape": [one, ("set", 5.0), three, ("set", 7.0), one, three],
    "a new dtype": [one, ("set", 2.0), whole, one],
    "looking": [("look", "float32", (3,)), ("set", 4.0), three, one],
    "jit again": [one, ("set", 3.0), ("rejit",), one],
    "a wrapper": [one, ("set", 3.0), ("wrap",), one, ("set", 4.0), one],
    "and back": [one, ("set", 3.0), ("wrap",), one, ("set", 4.0), ("rejit",), one, three],
    "clear": [one, three, ("set", 6.0), ("clear",), one, ("rejit",), three],
    "clear a wrapper": [one, ("set", 6.0), ("wrap",), one, ("clear",), ("set", 7.0), one, ("rejit",), one],
}
rules = {
    "the global is frozen": "A call of a type that was seen replays its tape, with the g of that time.",
    "a new shape": "Each shape has a tape of its own, with the g of its own first time.",
    "a new dtype": "Each dtype has a tape of its own.",
    "looking": "make_jaxpr writes a tape as a call does, and later calls find it.",
    "jit again": "The tapes belong to f. Another jit around the same f finds them.",
    "a wrapper": "A new lambda is a new function: it starts without tapes.",
    "and back": "While jf was a wrapper the tapes of f were kept. rejit comes back to them.",
    "clear": "clear_cache throws away every tape of the function inside jf.",
    "clear a wrapper": "clear_cache throws away the tapes of the wrapper only; those of f are still there.",
}
ghost_said, really = {}, {}
for script_name, script in scripts.items():
    ghost_said[script_name] = run_alone(ghost, script)
    really[script_name] = play(script)
assert_equal(ghost_said, really, name="ghost", hints=rules)

# %% nbgrader={"grade": true, "grade_id": "be-the-jit-all", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Long scripts: your dictionary against the real jax.jit."""
for script_seed in (1, 2):
    long_script = write_script(script_seed)
    assert_equal(
        {"the script": run_alone(ghost, long_script)},
        {"the script": play(long_script)},
        name="ghost",
        hints={"the script": f"It reads {long_script}"},
    )
### BEGIN HIDDEN TESTS
one = ("call", "float32", ())
one_by_one = ("set", 1.0), one, ("set", 2.0)
kinds = [(dtype, shape) for dtype in ("int32", "float16", "bool") for shape in ((3,), (4,), (1, 4), (4, 1))]
kinds += [(dtype, (3,)) for dtype in ("float32", "int16", "int8", "uint8")]
looks = [step for i, kind in enumerate(kinds) for step in (("set", 2.5 - i), ("look", *kind))]
for script in (
    *map(write_script, (31, 47, 59)),
    [("wrap",), *one_by_one, ("rejit",), one],
    [("wrap",), *one_by_one, ("wrap",), one],
    [("wrap",), *one_by_one, ("rejit",), ("wrap",), one],
    [one, *one_by_one, ("rejit",), ("clear",), one],
    [one, ("wrap",), one, ("rejit",), *one_by_one, ("look", "int32", ()), ("set", 5.0), ("call", "int32", ())],
    [],
    looks + [("call", *kind) for kind in kinds],
    [one] + [("set", float(i)) for i in range(2000)] + [one, ("clear",), one],
):
    assert_equal(
        {"the script": run_alone(ghost, script)},
        {"the script": play(script)},
        name="ghost",
        hints={"the script": f"It reads {script}"[:1000]},
    )
ghost([one])
assert_equal(
    {"the script after another one": list(ghost([*one_by_one]))},
    {"the script after another one": play([*one_by_one])},
    name="ghost",
    hints={"the script after another one": "Each script begins without tapes."},
)
kept_script = [*one_by_one]
ghost(kept_script)
assert_equal({"the script, afterwards": kept_script}, {"the script, afterwards": [*one_by_one]}, name="ghost")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 7 · minijit: refuse (4 points)
#
# The tracer of unit 02 has three bad habits. `if x > 0` always takes the first branch, because to Python any object is
# true. A tracer that somebody kept goes on writing, on a tape that nobody will read again. And a counter counts once,
# and then never again. In all three cases you get a tape that is wrong, and no error.
#
# Below is a correct minijit up to here, with two things new: there may be several open tapes, one inside the other
# (`with writing(tape):`), and a tape remembers its tracers without keeping them alive. Write three functions:
#
# - `no_value(tracer, wanted)` is called where Python or NumPy asks for a value. It raises `NoValue`;
# - `tape_for(operands)` says which tape an equation goes to: the innermost of its operands' tapes. It raises `Leak` if
#   one of these tapes is not open any more;
# - `trace(fn, *types)` raises `Effect` if `visible(fn)` shows data afterwards, changed or new, that it did not show
#   before, and else `Leak` if a tracer of the tape is still alive.
#
# The message must say what went wrong: the type of the tracer, as `str` writes it, and what was wanted, or the names of
# all that has changed. Nothing that is refused is kept.
#
# This is more than `jax.jit` does, which lets the counter pass. It is not everything: `visible` sees lists, dicts,
# sets, numbers and text that `fn` names itself. A print, a clock, or a counter behind another call leaves no mark
# there.
#
# <details><summary>Hint 1</summary>
# <code>OPEN</code> is the list of open tapes, the innermost last. For the effects, look twice and compare. For the
# tracers, ask after <code>write</code> has returned: by then the variables of <code>fn</code> are gone, and so is every
# tracer that nobody kept.
# </details>
# <details><summary>Hint 2</summary>
# In a cell: <code>kept = []</code>, then <code>print(visible(lambda x: kept.append(x)))</code>. And
# <code>tape = Tape(); t = tape.new(Type((), "float32")); print(survivors(tape)); del t; print(survivors(tape))</code>.
# </details>
# <details><summary>Hint 3</summary>
#
# ```python
# def tape_for(operands):
#     tracers = [x for x in operands if isinstance(x, Tracer)]
#     for x in tracers:
#         if x.tape not in OPEN: ...
#     return max(..., key=OPEN.index)
#
# def trace(fn, *types):
#     tape, before = Tape(), visible(fn)
#     with writing(tape):
#         write(tape, fn, types)
#     changed = [name for name, text in visible(fn).items() if ...]
#     ...
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "minijit-03-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
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

    def __bool__(self):  # `if tracer:` comes here
        return no_value(self, "bool")

    def __int__(self):
        return no_value(self, "int")

    def __float__(self):
        return no_value(self, "float")

    def __array__(self, *_, **__):  # np.array(tracer), and tracers in functions of NumPy that know no tracers
        return no_value(self, "array")


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


def record(primitive, operands, params):
    """Write one equation; return the tracer of its result."""
    tape = tape_for(operands)
    result = tape.new(result_type(primitive, operands, params))
    tape.equations.append((result.name, primitive, tuple(map(tape.refer, operands)), params))
    return result


def read(values, operand):
    """A name is looked up; anything else stands for itself."""
    return values[operand] if isinstance(operand, str) else operand


def replay(tape, *args):
    """Run a tape; return the value of every name on it."""
    values = dict(zip(tape.inputs, map(lift, args), strict=True))
    for output, primitive, operands, params in tape.equations:
        values[output] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


# %% nbgrader={"grade": false, "grade_id": "minijit-refuse", "locked": false, "schema_version": 3, "solution": true, "task": false}
def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    ### BEGIN SOLUTION
    # A tape is written for all values of a type, so no value may decide what goes on it.
    raise NoValue(f"{wanted} of {tracer.name}:{tracer.type}: a tracer has a type and no value")
    ### END SOLUTION


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    ### BEGIN SOLUTION
    # A tracer of a closed tape stands for a value that will never come.
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed: somebody kept it")
    return max((x.tape for x in tracers), key=OPEN.index)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minijit-refuse-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Your tracer refuses what JAX refuses, lets pass what JAX lets pass, and says why."""


def careless_jit(fn):
    """minijit of unit 02: your tracers, and a trace that does not look behind."""

    def jitted(*args):
        tape, values = Tape(), list(map(lift, args))
        with writing(tape):
            result = fn(*[tape.new(type_of(value)) for value in values])
            tape.inputs, tape.output = list(tape.types)[: len(values)], tape.refer(result)
        return tape.play(*values)

    return jitted


def value_decides(jit, x):
    return jit(lambda v: v if v > 0 else -v)(x)


def shape_decides(jit, x):
    return jit(lambda v: v * 3 if v.ndim == 0 else -v)(x)


def mask(jit, x):
    return jit(lambda v: (v > 0) * v - (v < 0) * v)(x)


def turned_to_float(jit, x):
    return jit(lambda v: v * float(v))(x)


def turned_to_array(jit, x):
    return jit(lambda v: v * np.array(v))(x)


def kept_for_another(jit, x):
    kept = []
    jit(lambda v: [kept.append(v * 2), v][1])(x)
    return jit(lambda v: v + kept[0])(x)


def kept_for_later(jit, x):
    kept = []
    jit(lambda v: [kept.append(v * 2), v][1])(x)
    return kept[0] + 1


def outer_in_inner(jit, x):
    return jit(lambda v: jit(lambda u: u * v)(v + 1) - v)(x)


def inner_in_outer(jit, x):
    kept = []
    return jit(lambda v: jit(lambda u: [kept.append(u), u][1])(v) + kept[0])(x)


def what_mini_says(program):
    try:
        return float(program(careless_jit, np.float32(3)))
    except NotImplementedError:
        raise
    except Exception as error:
        return type(error).__name__ if isinstance(error, Refused) else f"{type(error).__name__}: {error}"


def what_jax_says(program):
    try:
        return float(program(jax.jit, np.float32(3)))
    except jax.errors.UnexpectedTracerError:
        return "Leak"
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        return "NoValue"


programs = {
    "if on a value": value_decides,
    "if on a shape": shape_decides,
    "a mask": mask,
    "float(tracer)": turned_to_float,
    "np.array(tracer)": turned_to_array,
    "a tracer kept for another trace": kept_for_another,
    "a tracer kept for later": kept_for_later,
    "inside, a tracer from outside": outer_in_inner,
    "outside, a tracer from inside": inner_in_outer,
}
assert_equal(
    {case: what_mini_says(program) for case, program in programs.items()},
    {case: what_jax_says(program) for case, program in programs.items()},
    name="your tracer",
    hints={
        "if on a value": "Python asks bool(tracer); no answer is right for all values.",
        "if on a shape": "The shape is known: nobody asks for a value here.",
        "a tracer kept for another trace": "Its own tape is closed; that another one is open does not help.",
        "inside, a tracer from outside": "Both tapes are open; write on the innermost.",
        "outside, a tracer from inside": "When the outer function goes on, the inner tape is closed.",
    },
)

outer, inner = Tape(), Tape()
vector = Type((3,), "float32")
with writing(outer), writing(inner):
    u, v = outer.new(vector), inner.new(vector)
    chosen = [tape_for(operands) for operands in ((u, v), (v, u), (2.0, u), (v, 2.0))]
assert_equal(
    {"tapes chosen": ["inner" if tape is inner else "outer" for tape in chosen]},
    {"tapes chosen": ["inner", "inner", "outer", "inner"]},
    name="tape_for((u, v)), ((v, u)), ((2.0, u)), ((v, 2.0))",
    hints={"tapes chosen": "u belongs to the outer tape, v to the inner one. Where is each in OPEN?"},
)


def message_of(action, *args):
    try:
        action(*args)
    except Refused as error:
        return str(error)
    return "no message, nothing was raised"


third = Tape()
with writing(third):
    beside = message_of(tape_for, (third.new(Type((2,), "int32")), u))
messages = {
    "bool and its type": (message_of(no_value, u, "bool"), ("bool", "float32[3]")),
    "array and its type": (message_of(np.array, v), ("array", "float32[3]")),
    "the type of a leaked tracer": (message_of(tape_for, (u, 1)), ("float32[3]",)),
    "a leaked tracer beside another one": (beside, ("float32[3]",)),
}
assert_equal(
    {case: " and ".join(word for word in words if word in text) for case, (text, words) in messages.items()},
    {case: " and ".join(words) for case, (_, words) in messages.items()},
    name="the message",
    hints=dict.fromkeys(messages, "str(tracer.type) is the text; put it into the message.")
    | {"a leaked tracer beside another one": "One of the two is not open any more: that is a Leak, with its type."},
)


### BEGIN HIDDEN TESTS
def halved(v):
    while v > 1:
        v = v * 0.5
    return v


hidden_programs = {
    "while on a value": lambda jit, x: jit(halved)(x),
    "int(tracer)": lambda jit, x: jit(lambda v: v * int(v))(x),
    "three tapes": lambda jit, x: jit(lambda v: jit(lambda u: jit(lambda t: t * (v * u) - v)(u + v))(v * v))(x),
    "an array of NumPy beside it": lambda jit, x: jit(lambda v: v * np.ones((), np.float32) + np.float32(1))(x),
}
assert_equal(
    {case: what_mini_says(program) for case, program in hidden_programs.items()},
    {case: what_jax_says(program) for case, program in hidden_programs.items()},
    name="your tracer",
)
with writing(third):
    number, truth = third.new(Type((), "int32")), third.new(Type((4, 1), "bool"))
    late = message_of(tape_for, (third.new(vector), 2.0, outer.new(truth.type)))
    early = message_of(tape_for, (outer.new(truth.type), 2.0, third.new(vector)))
said = {
    "int": message_of(no_value, truth, "int"),
    "float": message_of(no_value, number, "float"),
    "a leaked tracer behind others": late,
    "a leaked tracer before others": early,
}
words = {"int": "int bool[4,1]", "float": "float int32[]"}
words |= dict.fromkeys(("a leaked tracer behind others", "a leaked tracer before others"), "bool[4,1]")
assert_equal(
    {case: " ".join(word for word in words[case].split() if word in text) for case, text in said.items()},
    words,
    name="the message",
)


def class_of(action, *args):
    try:
        action(*args)
    except Refused as error:
        return type(error).__name__
    return "nothing was raised"


first, second, empty = Tape(), Tape(), Type((0, 2), "bool")
with writing(first), writing(second), writing(third):
    a, b, c = first.new(vector), second.new(vector), third.new(vector)
    chosen = [tape_for(operands) is second for operands in ((a, b), (b, a, 2.0), (a, b, a))]
    chosen += [tape_for(operands) is third for operands in ((a, c, b), (c, b, a))]
    between, nothing, passing = class_of(tape_for, (a, u, b)), first.new(empty), third.new(vector)
    classes = [class_of(no_value, tracer, "array") for tracer in (u, nothing, passing)]
    passed = weakref.ref(passing)
    del passing
    leaving = Tape().new(vector)
    class_of(tape_for, (leaving, a))
    left_over = weakref.ref(leaving)
    del leaving
gc.collect()
assert_equal(
    {
        "the innermost tape of two or three": chosen,
        "the class of a leaked tracer between others": between,
        "the class for a closed tape, no elements, an open tape": classes,
        "a tracer that was refused": "is gone" if passed() is left_over() is None else "is kept",
    },
    {
        "the innermost tape of two or three": [True] * 5,
        "the class of a leaked tracer between others": "Leak",
        "the class for a closed tape, no elements, an open tape": ["NoValue"] * 3,
        "a tracer that was refused": "is gone",
    },
    name="your tracer",
)
messages = {message_of(no_value, u, wanted) for wanted in ("bool", "int", "float", "array")}
said, hint = {"messages for bool, int, float and array": len(messages)}, "Say which of them was wanted."
assert_equal(said, {"messages for bool, int, float and array": 4}, hint=hint, name="no_value")
### END HIDDEN TESTS

# %% [markdown]
# The second half looks at what `fn` has changed and kept. `write`, `visible` and `survivors` are given.


# %% nbgrader={"grade": false, "grade_id": "minijit-03-trace-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
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


# %% nbgrader={"grade": false, "grade_id": "minijit-trace", "locked": false, "schema_version": 3, "solution": true, "task": false}
def trace(fn, *types):
    """The tape of fn for arguments of these types.

    Raises Effect, with the names, if visible(fn) shows changed or new data; else Leak if a tracer survives.
    """
    ### BEGIN SOLUTION
    # Replays run the tape alone. What happened beside it would happen once and never again.
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed while the tape was written; no replay will do that again")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is held by somebody, and its tape is closed")
    return tape
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minijit-trace-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Writes and kept tracers are refused at once; what is fn's own business is not."""
mini_count, mini_table = 0, [1.0, 2.0]


def counts_in_a_global():
    def fn(x):
        global mini_count
        mini_count += 1
        return x * 2

    return fn


def counts_in_a_closure():
    calls = 0

    def fn(x):
        nonlocal calls
        calls += 1
        return x * 2

    return fn


def fills_a_list():
    squares = []

    def fn(x):
        squares.append(x * x)
        return x * x

    return fn


def fills_a_dict():
    seen = {"runs": 1}

    def fn(x):
        seen["runs"] += 1
        return x * 2

    return fn


def keeps_in_an_attribute():
    class Model:
        pass

    model = Model()

    def fn(x):
        model.last = x * 2
        return model.last + 1

    return fn


def keeps_in_a_default():
    def fn(x, cache=[]):  # noqa: B006
        cache.append(x)
        return x * 2

    return fn


def uses_a_local_list():
    def fn(x):
        powers = [x]
        for _ in range(3):
            powers.append(powers[-1] * x)
        return powers[-1]

    return fn


def reads_a_global():
    return lambda x: x * mini_table[0] + len(mini_table)


def counts_inside():
    def fn(x):
        rounds = 0

        def one_round(y):
            nonlocal rounds
            rounds += 1
            return y * rounds

        return one_round(one_round(x))

    return fn


def ties_a_knot():
    def fn(x):
        knot = [x * 2]
        knot.append(knot)  # a list that holds itself lives until the garbage collector comes
        return knot[0]

    return fn


def verdict_of(make):
    """What trace says of a fresh function."""
    try:
        return f"a tape, {len(trace(make(), Type((3,), 'float32')).equations)} long"
    except Refused as error:
        return type(error).__name__


suspects = {
    counts_in_a_global: "Effect",
    counts_in_a_closure: "Effect",
    fills_a_list: "Effect",
    fills_a_dict: "Effect",
    keeps_in_an_attribute: "Leak",
    keeps_in_a_default: "Leak",
    uses_a_local_list: "a tape, 3 long",
    reads_a_global: "a tape, 2 long",
    counts_inside: "a tape, 2 long",
}
assert_equal(
    {make.__name__: verdict_of(make) for make in suspects},
    {make.__name__: said for make, said in suspects.items()},
    name="trace",
    hints={
        "counts_in_a_global": "No tracer is kept here. Compare visible(fn) before and after.",
        "counts_in_a_closure": "No tracer is kept here. Compare visible(fn) before and after.",
        "fills_a_list": "A changed list and a kept tracer in one. Look for effects first.",
        "keeps_in_an_attribute": "visible does not look into objects, but survivors(tape) finds the tracer.",
        "keeps_in_a_default": "Nothing that fn names has changed, but survivors(tape) finds the tracer.",
        "uses_a_local_list": "The list and its tracers are gone with fn, if you ask once fn has returned.",
        "reads_a_global": "To read is allowed: what fn sees is the same before and after.",
        "counts_inside": "rounds is a variable of fn itself; nothing outside has changed.",
    },
)


def words_in_refusal(make, words, shape=(3,)):
    try:
        trace(make(), Type(shape, "float32"))
    except Refused as error:
        return " and ".join(word for word in words if word in str(error))
    return "nothing was raised"


assert_equal(
    {
        "who changed": words_in_refusal(fills_a_list, ["squares"]),
        "who survived": words_in_refusal(keeps_in_an_attribute, ["float32[3]"]),
    },
    {"who changed": "squares", "who survived": "float32[3]"},
    name="the message",
)


OPEN.clear()  # an earlier answer may have left a tape open


def breaks_off(x):
    raise ValueError("an error of the function itself")


with contextlib.suppress(ValueError):
    trace(breaks_off, Type((), "float32"))
assert_equal(
    {"open tapes after an error": len(OPEN)},
    {"open tapes after an error": 0},
    name="trace",
    hints={"open tapes after an error": "with writing(tape): closes it, whatever happens inside."},
)
### BEGIN HIDDEN TESTS


def keeps_a_result():
    class Model:
        pass

    model = Model()

    def fn(x):
        y = x + 1
        model.step = lambda: y
        return x * 2

    return fn


def changes_a_set():
    names = {"a"}

    def fn(x):
        names.add("b")
        return x

    return fn


def keeps_what_it_returns():
    def fn(x, cache=[]):  # noqa: B006
        cache.append(x + 1)
        return cache[-1]

    return fn


def decides_by_value():
    return lambda x: x if x > 0 else -x


def changes_two():
    rounds, seen = 0, {}

    def fn(x):
        nonlocal rounds
        rounds, seen["x"] = rounds + 1, 1
        return x

    return fn


def keeps_a_comparison():
    def fn(x, cache=[]):  # noqa: B006
        cache.append(x > 1)
        return x

    return fn


def changes_a_list_in_a_dict():
    notes = {"rounds": [1]}

    def fn(x):
        notes["rounds"].append(2)
        return x

    return fn


def creates_a_global():
    globals().pop("made_while_tracing", None)

    def fn(x):
        global made_while_tracing
        made_while_tracing = 1
        return x

    return fn


hidden_suspects = {keeps_a_result: "Leak", changes_a_set: "Effect", ties_a_knot: "a tape, 1 long"}
hidden_suspects |= {changes_a_list_in_a_dict: "Effect", creates_a_global: "Effect"}
hidden_suspects |= {keeps_what_it_returns: "Leak", decides_by_value: "NoValue"}
assert_equal(
    {make.__name__: verdict_of(make) for make in hidden_suspects},
    {make.__name__: said for make, said in hidden_suspects.items()},
    name="trace",
)
assert_equal(
    {
        "both that changed": words_in_refusal(changes_two, ["rounds", "seen"]),
        "the type that survived": words_in_refusal(keeps_a_comparison, ["bool[3]"]),
        "a matrix that survived": words_in_refusal(keeps_a_comparison, ["bool[2,3]"], (2, 3)),
        "what is new": words_in_refusal(creates_a_global, ["made_while_tracing"]),
    },
    {
        "both that changed": "rounds and seen",
        "the type that survived": "bool[3]",
        "a matrix that survived": "bool[2,3]",
        "what is new": "made_while_tracing",
    },
    name="the message",
)


def tapes_alive():
    gc.collect()
    return sum(type(x) is Tape for x in gc.get_objects())


before, kept = tapes_alive(), [keeps_a_comparison(), changes_two()]
refused = [weakref.ref(fn) for fn in kept]
for fn in kept:
    with contextlib.suppress(Refused):
        trace(fn, Type((5,), "float32"))
del kept, fn
said = {"tapes": tapes_alive() - before, "functions": sum(reference() is not None for reference in refused)}
assert_equal(said, {"tapes": 0, "functions": 0}, name="what trace keeps of what it refuses")
outer_tape = trace(lambda x: trace(lambda y: y * x, x.type).play(x + 1), Type((3,), "float32"))
expected = np.array([0.0, 2.0, 6.0], np.float32)
assert_allclose(outer_tape.play(np.arange(3.0)), expected, name="a trace in a trace")


def keeps_where_a_number_was():
    last = 0

    def fn(x):
        nonlocal last
        last = x * 2
        return x

    return fn


def reads_one_and_changes_one():
    only_read, written = [1.0], []

    def fn(x):
        written.append(1)
        return x * only_read[0]

    return fn


replaced = words_in_refusal(keeps_where_a_number_was, ["last", "float32[3]"])
said = {
    "a number that became a tracer is named, or the tracer": replaced not in ("", "nothing was raised"),
    "one is read, one is changed": words_in_refusal(reads_one_and_changes_one, ["only_read", "written"]),
}
right = {"a number that became a tracer is named, or the tracer": True, "one is read, one is changed": "written"}
assert_equal(said, right, name="the message")


def has_seen_another_break_off(x):
    with contextlib.suppress(ValueError):
        trace(breaks_off, x.type)
    return x * 2


said = {"its inner trace broke off": verdict_of(lambda: has_seen_another_break_off)}
assert_equal(said, {"its inner trace broke off": "a tape, 1 long"}, name="trace")
### END HIDDEN TESTS
