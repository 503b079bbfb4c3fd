# %% [markdown]
# # Exercise 01 · Three clocks
#
# Six tasks, 20 points, about {duration}. The lesson is [01 · Three clocks](../../lessons/01_three_clocks.ipynb).
#
# Each task has a specification that you can run, a function for you to write, and a check that says what it saw. Hints
# are folded away under each task; open them one at a time. Where a check is folded, its code holds hints about wrong
# predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | write a stopwatch that nobody can fool | 4 |
# | 2 | say what eight benchmarks really read, to the tick | 3 |
# | 3 | count programs before you build them, and say what merging them can win | 3 |
# | 4 | turn some forty passes over memory into one | 5 |
# | 5 | say how many calls a compilation needs to pay for itself | 2 |
# | 6 | read four hidden dials with a clock and two calls | 3 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import itertools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from autograder import (
    assert_allclose,
    assert_equal,
    assert_hlo,
    assert_max_traces,
    assert_prediction,
    assert_primitives,
    partial_credit,
    run_alone,
    speedup,
    trace_log,
)

# %% [markdown]
# ## The box
#
# Real clocks jitter, so the first two tasks and the last one run on a machine made of Python. `Box` is a computer with
# one accelerator (a device beside the one that runs Python, such as a GPU). Its clock counts whole ticks, and time
# passes only when somebody works or waits. Everything else is as in JAX: a program compiles in its first call, a call
# *returns before it is done*, and `block_until_ready` waits. (A program with several results names them as a program
# that trains does: `"loss"`, the first one, and `"grads"`, the rest. Only their number matters here.)
#
# | dial | ticks that... |
# |---|---|
# | `build` | the first call of a program costs before anything runs: trace, lower and compile |
# | `dispatch` | Python needs to hand one call over |
# | `run` | the accelerator needs to make one result, always more than `dispatch` |
# | `backlog` | the accelerator is still busy, at the start, with making the inputs |


# %% nbgrader={"grade": false, "grade_id": "box-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Pending:
    """An array that has been promised: its numbers arrive at tick `ready_at`."""

    def __init__(self, box, ready_at):
        self.box, self.ready_at = box, ready_at

    def block_until_ready(self):
        self.box.now = max(self.box.now, self.ready_at)  # Python waits, and time passes
        return self


class Box:
    """A computer with one accelerator, which works through its queue in order."""

    def __init__(self, *, build, dispatch, run, backlog=0, hiccups=()):
        self.build, self.dispatch, self.run = build, dispatch, run
        self.now = 0
        self.queue_ends = backlog
        self.inputs = Pending(self, backlog)
        self.hiccups = list(hiccups)  # ticks that a neighbour steals, call by call
        self.calls = 0

    def clock(self):
        return self.now

    def jit(self, outputs=1):
        """A program with this many results. With none, there is nothing left for the accelerator to do."""
        compiled = False

        def program(*inputs):
            nonlocal compiled
            if not compiled:
                self.now += self.build  # Python is busy all this time ...
                compiled = True
            self.now += self.dispatch  # ... and while it hands the work over
            self.calls += 1
            stolen = self.hiccups.pop(0) if self.hiccups else 0
            results = []
            for _ in range(outputs):
                self.queue_ends = max(self.queue_ends, self.now) + self.run + stolen
                results.append(Pending(self, self.queue_ends))
                stolen = 0
            return results[0] if outputs == 1 else {"loss": results[:1], "grads": results[1:]}

        return program


# %% [markdown]
# Play with it: this is asynchronous dispatch in eight lines.

# %%
box = Box(build=900, dispatch=1, run=50)
program = box.jit()
result = program(box.inputs)
print("the first call returned at tick", box.clock())
result.block_until_ready()
print("and its result was ready at tick", box.clock())
result = program(box.inputs)
print("the second call returned at tick", box.clock())

# %% [markdown]
# ## Task 1 · The honest timer (4 points)
#
# Write a stopwatch that you can trust. `honest_timer(fn, *args, rounds=5, clock=...)` calls `fn(*args)` exactly
# `1 + rounds` times and returns a pair:
#
# - the duration of the **first** call,
# - the **median** duration of the `rounds` later calls.
#
# A duration starts when all inputs are ready and ends when *every* array of the result is ready. Results may be single
# arrays, or dicts and lists of them. In the cell below the hints, `honest_readings` states what a correct timer reads
# on the box.
#
# <details><summary>Hint 1: a nudge</summary>
#
# What does the clock wait for? A call that has returned has only promised a result. And who made the inputs?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# Print `type(out)` before you stop the clock: with `outputs=3` it is a dict of lists, and a dict has no
# `block_until_ready`. `jax.block_until_ready(tree)` waits for every array in nested dicts, lists and tuples (JAX calls
# the whole a *tree* and its arrays the *leaves*), a tuple of arguments included.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# jax.block_until_ready(args)
# readings = []
# for _ in range(1 + rounds):
#     start = clock()
#     ...                              # call, and wait for all of the result
#     readings.append(clock() - start)
# return readings[0], ...              # statistics.median of which part?
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "honest-timer-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def honest_readings(*, build, dispatch, run, rounds, outputs=1, backlog=0, hiccups=()):
    """What an honest timer reads on the box, and how many calls it makes. The backlog is in neither duration."""
    first, *later = [dispatch + outputs * run + stolen for stolen in [*hiccups, *[0] * rounds, 0][: 1 + rounds]]
    return {"first call": build + first, "later calls": statistics.median(later), "calls made": 1 + rounds}


def on_the_box(timer, *, rounds, outputs=1, **dials):
    """Let `timer` time a program with three inputs and this many results on a fresh box."""
    box = Box(**dials)
    ready = Pending(box, 0)
    first, later = timer(box.jit(outputs), ready, box.inputs, ready, rounds=rounds, clock=box.clock)
    return {"first call": first, "later calls": later, "calls made": box.calls}


def explain(readings, *, build, dispatch, run, rounds, outputs=1, backlog=0, hiccups=()):
    """What a wrong reading tells about the timer that made it: one sentence for each name."""
    dials = dict(build=build, dispatch=dispatch, run=run, rounds=rounds, outputs=outputs)
    truth, one_call = honest_readings(**dials, hiccups=hiccups), dispatch + outputs * run

    def story(name):
        reading, right = readings[name], truth[name]
        if not isinstance(reading, (int, float)):
            return "A duration is a number: the clock after the call minus the clock before it."
        if reading in (dispatch, build + dispatch):
            return "That is the dispatch alone: the timer did not wait for the result."
        if hiccups and name == "later calls" and reading == one_call + sum(hiccups[1:]) / rounds:
            return "That is the mean: a neighbour's hiccup moved it. A median stays."
        if reading < right and reading == one_call:
            return "That is the fastest call. A median has as many calls below it as above."
        if reading < right and (name == "first call" or not hiccups):
            return "The timer waited for a part of the result only, and there is more to come."
        if reading == max(build + dispatch, backlog) + outputs * run:
            return "The inputs were late, and their backlog is in the time."
        if hiccups:
            return "Put the later calls in order of size: the median is the one in the middle, or between two."
        return "Something is in there that the call did not do. Is a first call among the later ones?"

    return {"calls made": "One call for the first duration, then `rounds` more: no hidden warm-up."} | {
        name: story(name) for name in ("first call", "later calls")
    }


# %% nbgrader={"grade": false, "grade_id": "honest-timer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    ### BEGIN SOLUTION
    # The clock may start only when nothing is pending, and stop only when nothing is pending.
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "honest-timer-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The clock stops when every array of the result is ready, and no sooner."""
for outputs in (1, 3):
    case = dict(build=900, dispatch=1, run=50, rounds=5, outputs=outputs)
    readings = on_the_box(honest_timer, **case)
    assert_equal(readings, honest_readings(**case), hints=explain(readings, **case), name="honest_timer")
### BEGIN HIDDEN TESTS
for outputs in (2, 5):
    case = dict(build=4021, dispatch=7, run=311, rounds=3, outputs=outputs)
    readings = on_the_box(honest_timer, **case)
    assert_equal(readings, honest_readings(**case), hints=explain(readings, **case), name="honest_timer")


def on_the_box_turned(timer, **dials):
    box = Box(**dials)
    program = box.jit(outputs=4)

    def turned():
        made = program()
        return {"all of it": [made["grads"][::-1], {"loss": made["loss"][0]}]}

    return list(timer(turned, rounds=2, clock=box.clock))


case = "a dict of a list of a list and a dict"
readings = on_the_box_turned(honest_timer, build=500, dispatch=5, run=70)
assert_equal({case: readings}, {case: [785, 285]}, name="honest_timer")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "honest-timer-rounds", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Neither a first call, nor late inputs, nor one unlucky round moves the result."""
case = dict(build=900, dispatch=1, run=50, rounds=1)
unlucky = {"rounds": 5, "hiccups": (0, 0, 700)}, {"rounds": 5, "hiccups": (0, 9, 0, 20, 9, 400)}
for extra in ({}, {"backlog": 5000}, *unlucky):
    dials = case | extra
    readings = on_the_box(honest_timer, **dials)
    assert_equal(readings, honest_readings(**dials), hints=explain(readings, **dials), name="honest_timer")


def on_this_machine(timer):
    return timer(jax.jit(jnp.add), jnp.arange(3.0), jnp.ones(3))  # the defaults, on the machine you sit at


first, later = on_this_machine(honest_timer)
assert_equal(
    {"both durations are positive": first > 0 and later > 0},
    {"both durations are positive": True},
    hints={"both durations are positive": "A duration is the clock after the call minus the clock before it."},
    name="honest_timer",
)
### BEGIN HIDDEN TESTS
case = dict(build=77, dispatch=2, run=13.25, rounds=3)  # real clocks do not count whole ticks
unlucky = {"rounds": 7, "hiccups": (5, 350, 340, 2, 9, 35, 3, 0)}, {"rounds": 4, "hiccups": (0, 2, 50, 9, 400)}
for extra in ({}, {"backlog": 601}, *unlucky):
    dials = case | extra
    readings = on_the_box(honest_timer, **dials)
    assert_equal(readings, honest_readings(**dials), hints=explain(readings, **dials), name="honest_timer")


def on_the_box_late(timer, place, times, **dials):
    """Time a program so many times, one input of which is late: the last readings, and how many calls all have made."""
    box = Box(**dials)
    late, ready = box.inputs, Pending(box, 0)
    inputs = {"first": (late, ready), "last": (ready, ready, late), "in a dict": (ready, {"x": [ready, late]})}[place]
    program = box.jit()
    for _ in range(times):
        readings = timer(program, *inputs, rounds=3, clock=box.clock)
    return [*readings, box.calls]


def on_the_box_by_default(timer, **dials):
    box = Box(**dials)
    timer(box.jit(), clock=box.clock)
    return box.calls


dials = dict(build=77, dispatch=2, run=13)
late_dials = dials | {"backlog": 601, "hiccups": (0, 0, 0, 0, 0, 1, 2, 3)}
for place in ("first", "last", "in a dict"):
    *readings, _ = on_the_box_late(honest_timer, place, 1, **late_dials)
    assert_equal({f"a late input, {place}": readings}, {f"a late input, {place}": [92, 15]}, name="honest_timer")
    again = on_the_box_late(honest_timer, place, 2, **late_dials)
    case = "once more: both durations, and all calls"
    assert_equal({case: again}, {case: [15, 17, 8]}, name="honest_timer")
calls = on_the_box_by_default(honest_timer, **dials)


def awaited(timer):
    class Awaited:
        def block_until_ready(self):
            time.sleep(0.02)
            return self

    return timer(Awaited, rounds=1)


case, readings = "with its own clock, waiting is seen", awaited(honest_timer)
assert_equal({case: min(readings) > 0.01}, {case: True}, name="honest_timer")
case = "calls made without a word about rounds"
assert_equal({case: calls}, {case: 1 + 5}, hints={case: "rounds is 5 where it is not given."}, name="honest_timer")


def traced_in_seven(timer):
    ticks = [0]

    @jax.jit
    def takes_seven_to_trace(x):
        ticks[0] += 7
        return x + 1

    return list(timer(takes_seven_to_trace, jnp.arange(3.0), rounds=2, clock=lambda: ticks[0]))


readings = traced_in_seven(honest_timer)
case = "a jitted function whose trace takes 7 units"
assert_equal({case: readings}, {case: [7, 0]}, name="honest_timer")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 2 · Catch the liar (3 points)
#
# Eight benchmarks, all of the same box, all as you find them in posts and pull requests. One of them reads what a call
# costs once everything is warm. The others lie, each in its own way. What does each of the eight read?
#
# Return a dict from the letter to the number of ticks that the benchmark returns, as a formula of the four dials. You
# may use `max` and `min`. Remember that `run` is always more than `dispatch`; about `backlog` you know nothing.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1: a nudge</summary>
#
# Draw two lines, one for Python and one for the accelerator, and walk through the benchmark with a pencil. Only
# `block_until_ready` ties the two together.
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `bench_a(Box(build=900, dispatch=1, run=50, backlog=5000))` runs one of them. Dials that are far apart tell you by the
# digits which of them are in the sum. Then make the backlog short.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# In `A`, Python is busy with `build + dispatch` while the accelerator works off its backlog, so the run begins at the
# later of the two: `max(build + dispatch, backlog) + run`. In `D`, three runs follow each other without a gap, and
# Python hands the later ones over while the first one runs.
# </details>


# %% nbgrader={"grade": false, "grade_id": "catch-the-liar-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def bench_a(box):
    """ "The first call shows what compiling costs." """
    program = box.jit()
    start = box.clock()
    program(box.inputs).block_until_ready()
    return box.clock() - start


def bench_b(box):
    """ "Warm, so this must be right." """
    program = box.jit()
    program(box.inputs).block_until_ready()
    start = box.clock()
    program(box.inputs)
    return box.clock() - start


def bench_c(box):
    """ "Warm, and awaited." """
    program = box.jit()
    program(box.inputs).block_until_ready()
    start = box.clock()
    program(box.inputs).block_until_ready()
    return box.clock() - start


def bench_d(box):
    """ "Three calls, awaited once, at the end." """
    program = box.jit()
    program(box.inputs).block_until_ready()
    start = box.clock()
    for _ in range(3):
        result = program(box.inputs)
    result.block_until_ready()
    return box.clock() - start


def bench_e(box):
    """ "Three calls of a jitted function." """
    jax.block_until_ready(box.inputs)
    start = box.clock()
    for _ in range(3):
        box.jit()(box.inputs).block_until_ready()
    return box.clock() - start


def bench_f(box):
    """ "A training step: we wait for the loss." Each call has four results."""
    step = box.jit(outputs=4)
    jax.block_until_ready(step(box.inputs))
    start = box.clock()
    result = step(box.inputs)
    jax.block_until_ready(result["loss"])
    return box.clock() - start


def bench_g(box):
    """ "The function of the Stack Overflow question": it takes nothing and returns nothing."""
    forward = box.jit(outputs=0)
    start = box.clock()
    forward()
    forward()
    return box.clock() - start


def bench_h(box):
    """ "First the product, then the whole forward pass." This is the reading for the forward pass."""
    product, forward = box.jit(), box.jit()
    jax.block_until_ready((product(box.inputs), forward(box.inputs)))
    start = box.clock()
    product(box.inputs).block_until_ready()
    print_this_later = box.clock() - start  # noqa: F841 (the post printed it)
    forward(box.inputs).block_until_ready()
    return box.clock() - start


BENCHMARKS = dict(A=bench_a, B=bench_b, C=bench_c, D=bench_d, E=bench_e, F=bench_f, G=bench_g, H=bench_h)


# %% nbgrader={"grade": false, "grade_id": "catch-the-liar", "locked": false, "schema_version": 3, "solution": true, "task": false}
def catch_the_liar(build, dispatch, run, backlog):
    """The reading of each benchmark in ticks: {"A": ..., "B": ..., ..., "H": ...}."""
    ### BEGIN SOLUTION
    # Python's line and the accelerator's line meet only where somebody waits.
    return {
        "A": max(build + dispatch, backlog) + run,
        "B": dispatch,
        "C": dispatch + run,
        "D": dispatch + 3 * run,
        "E": 3 * (build + dispatch + run),
        "F": dispatch + run,
        "G": build + 2 * dispatch,
        "H": 2 * (dispatch + run),
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "catch-the-liar-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Every reading, to the tick, for a long backlog and for none."""
liar_hints = {
    "A": "When does the accelerator begin, and had the inputs been made by then?",
    "B": "Nobody waits here, so the reading holds nothing that the accelerator does.",
    "C": "This one waits, and everything was warm.",
    "D": "Calls queue up: Python hands the next one over while the accelerator still runs.",
    "E": "Every round makes a new program, and a new program compiles.",
    "F": "The results are made one after the other. Which of them does the clock wait for?",
    "G": "A program without results has nothing to run, and yet it is built once.",
    "H": "When was this clock started?",
}


def read_all(**dials):
    return {name: bench(Box(**dials)) for name, bench in BENCHMARKS.items()}


for dials in (
    dict(build=900, dispatch=1, run=50, backlog=5000),
    dict(build=900, dispatch=1, run=50, backlog=0),
):
    assert_prediction(catch_the_liar, lambda: read_all(**dials), args=dials, hints=liar_hints)
### BEGIN HIDDEN TESTS
for dials in (
    dict(build=413, dispatch=3, run=29, backlog=20011),
    dict(build=60007, dispatch=11, run=1301, backlog=9001),
    dict(build=700, dispatch=40, run=77, backlog=721),
    dict(build=10, dispatch=2, run=500, backlog=40),
):
    assert_prediction(catch_the_liar, lambda: read_all(**dials), args=dials, hints=liar_hints)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · One jit or two? (3 points)
#
# The post from the lesson jitted a matrix product and a relu, once each by itself and once together, and could not say
# which was better. Two questions decide it, and neither needs a clock.
#
# **How many programs?** (2 points) `predict_modules` returns how many XLA modules each call below *builds*. (A *module*
# is one compiled program: see [the words](../../lessons/00_before_you_start.ipynb#The-words).) Fill in every name of
# `MODULE_QUESTIONS`.
#
# **What can merging win?** (1 point) `fusion_ceiling(kept, removed)`: two programs take `kept` and `removed` seconds.
# If the first part takes as long as before, merging makes the second one free at the very best. What is the largest
# speedup (before over after) that this can give? The specification approaches it slowly, as closely as you like. (The
# matrix product is bound by arithmetic, so it does take as long as before. A part that spent its time writing an array
# for the other part does not. Once the two are merged, that array is never written: so the lesson's outer product
# gained far more than this ceiling.)
#
# <details><summary>Hint 1: a nudge</summary>
#
# Without jit, every operation is a small program. How many *different* ones are there? And what is left to build when
# the same call comes again?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `jax.clear_caches()`, then `with trace_log() as log:` around the call, then `print(log)`. `log.modules` has their
# names.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# Two jits are two programs, whoever calls them in turn, unless a third jit traces through both: then their operations
# land in its program. Two multiplications of the same shapes are one module, built once and run twice. For the ceiling:
# before is `kept + removed`; what is after?
# </details>


# %% nbgrader={"grade": false, "grade_id": "one-jit-or-two-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def get_dot_product(W, X):
    return jnp.dot(W, X)


def apply_activation(x):
    return jnp.maximum(0.0, x)


dot_product_jit = jax.jit(get_dot_product)
activation_jit = jax.jit(apply_activation)


def no_jit(W, X):
    return apply_activation(get_dot_product(W, X))


def two_jits(W, X):
    return activation_jit(dot_product_jit(W, X))


@jax.jit
def one_jit(W, X):
    return apply_activation(get_dot_product(W, X))


@jax.jit
def two_jits_inside_one(W, X):
    return activation_jit(dot_product_jit(W, X))


def four_operations(W, X):
    return 2 * X + 1 - 2 * X


MODULE_QUESTIONS = {  # name: (function, columns of X, columns of X in an earlier call)
    "no jit": (no_jit, 40, None),
    "two jits": (two_jits, 40, None),
    "one jit": (one_jit, 40, None),
    "two jits inside one jit": (two_jits_inside_one, 40, None),
    "one jit called again": (one_jit, 40, 40),
    "one jit with a larger batch": (one_jit, 50, 40),
    "four operations without jit": (four_operations, 40, None),
}


def count_modules(fn, columns, before=None):
    """How many XLA modules `fn(W, X)` builds, in a JAX that has forgotten all it compiled except that call before."""
    jax.clear_caches()
    W = jnp.asarray(np.ones((20, 30), np.float32))
    if before is not None:
        fn(W, jnp.asarray(np.ones((30, before), np.float32)))
    X = jnp.asarray(np.ones((30, columns), np.float32))
    with trace_log() as log:
        jax.block_until_ready(fn(W, X))
    return log.compiles


def slow_fusion_ceiling(kept, removed):
    """Make the second part faster and faster, and see where the whole comes to."""
    gains = [(kept + removed) / (kept + removed / 10**k) for k in range(12)]
    return gains[-1]


# %% nbgrader={"grade": false, "grade_id": "one-jit-or-two", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predict_modules():
    """{name: number of XLA modules that the call builds} for every name of MODULE_QUESTIONS."""
    ### BEGIN SOLUTION
    # A jit is one program, whatever it calls; without jit each different operation is one.
    return {
        "no jit": 2,
        "two jits": 2,
        "one jit": 1,
        "two jits inside one jit": 1,
        "one jit called again": 0,
        "one jit with a larger batch": 1,
        "four operations without jit": 3,
    }
    ### END SOLUTION


# %% nbgrader={"grade": false, "grade_id": "fusion-ceiling", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fusion_ceiling(kept, removed):
    """The largest speedup from making `removed` seconds free, if the other `kept` seconds stay as they are."""
    ### BEGIN SOLUTION
    # Amdahl's law: at best only the kept part is left.
    return (kept + removed) / kept
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "one-jit-or-two-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. How many programs each call builds, counted here and now."""
module_hints = {
    "no jit": "Without jit, each operation is compiled on its own, as it comes.",
    "two jits": "Python calls one jitted function and then the other: nothing joins them.",
    "one jit": "One jit is one program, whatever happens inside.",
    "two jits inside one jit": "The outer jit traces through the inner ones: their operations are in its program.",
    "one jit called again": "The same shapes and dtypes come again, and the program is already there.",
    "one jit with a larger batch": "A program is made for exact shapes.",
    "four operations without jit": "Two of the four are the same operation on the same shapes. Is that built twice?",
}
assert_prediction(
    predict_modules,
    lambda: {name: count_modules(*question) for name, question in MODULE_QUESTIONS.items()},
    hints=module_hints,
)

# %% nbgrader={"grade": true, "grade_id": "fusion-ceiling-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The most that merging can win if the kept part takes as long: for the post's seconds and for others."""
ceiling_hint = "At best the kept part is all that remains. Before over after: how many times faster is that?"
for case in ((6.12, 0.06), (1.0, 3.0)):
    name = f"fusion_ceiling{case}"
    assert_equal(
        {name: fusion_ceiling(*case)},
        {name: round(slow_fusion_ceiling(*case), 6)},
        hints={name: ceiling_hint},
        name="fusion_ceiling",
    )
### BEGIN HIDDEN TESTS
fresh = ((3.125, 0.0625), 1.02), ((0.2, 0.2), 2.0), ((5.0, 0.0), 1.0), ((2**-30, 4096.0), 2**42 + 1.0), ((4, 1), 1.25)
fresh += ((2**-10, 2**-8), 5.0), ((4096.0, 1.0), 1 + 2**-12)
for case, most in fresh:
    name = f"fusion_ceiling{case}"
    assert_equal({name: fusion_ceiling(*case)}, {name: most}, hints={name: ceiling_hint}, name="fusion_ceiling")
name = "billionths that fusion_ceiling(4096.0, 2**-12) is above 1"
assert_equal({name: round(1e9 * (fusion_ceiling(4096.0, 2**-12) - 1), 2)}, {name: 59.6}, name="fusion_ceiling")
### END HIDDEN TESTS

# %% [markdown]
# `fusion_ceiling(6.12, 0.06)`: that is why the post could not decide. No clock of theirs could have seen the
# difference.
#
# ## Task 4 · Fuse me (5 points)
#
# Horner's rule evaluates a polynomial with one multiplication and one addition for each coefficient. The specification
# does it one array operation at a time, so a polynomial of degree 20 on a quarter of a million numbers walks through
# memory again and again. Write `fuse_me(coefficients, x)`, which returns the same values from one compiled program,
# without a callback.
#
# 1 point for the values, 1 for one trace and one module whatever the coefficients, and up to 3 for speed: 4x earns 2,
# 10x earns 3. `coefficients` is `float32[d+1]`, highest power first; `x` is `float32[n]`.
#
# <details><summary>Hint 1: a nudge</summary>
#
# The arithmetic is fine as it is. Who decides where one program ends and the next one begins?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# `with trace_log() as log: fuse_me(coefficients, x)`, then `print(log)`, twice in a row. One module in the first call,
# none in the second? Then look at `show_hlo` (from `autograder`): how many fusions, how many bytes?
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# @jax.jit
# def fuse_me(coefficients, x):
#     ...                    # the loop of the specification: tracing unrolls it
# ```
#
# Put `@jax.jit` on the whole function. On a single step it would give you one program that is called twenty times. And
# inside the function it would make a new one in every call.
# </details>


# %% nbgrader={"grade": false, "grade_id": "fuse-me-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def slow_polynomial(coefficients, x):
    """Horner's rule, one array operation at a time."""
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


def polynomial_inputs(seed, degree=20, n=2**18):
    """Random coefficients and points in [-1, 1]."""
    rng = np.random.default_rng(seed)
    draw = lambda size: jnp.asarray(rng.uniform(-1, 1, size), jnp.float32)  # noqa: E731
    return draw(degree + 1), draw(n)


# %% nbgrader={"grade": false, "grade_id": "fuse-me", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    ### BEGIN SOLUTION
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


# As @jax.jit above the def: the trace unrolls the loop, XLA fuses it, and memory is read and written once.
fuse_me = jax.jit(fuse_me)
### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fuse-me-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The values are those of the specification."""
for degree, n in ((2, 5), (20, 1000)):
    inputs = polynomial_inputs(degree, degree, n)
    assert_allclose(fuse_me(*inputs), slow_polynomial(*inputs), rtol=1e-4, atol=1e-5, name="fuse_me")
### BEGIN HIDDEN TESTS
for degree, n in ((7, 1), (20, 4096), (0, 9), (64, 64), (5, 5001), (3, 70_001)):
    inputs = polynomial_inputs(1000 + degree, degree, n)
    assert_allclose(fuse_me(*inputs), slow_polynomial(*inputs), rtol=1e-4, atol=1e-5, name="fuse_me")
    mirrored = inputs[0], -inputs[1]
    assert_allclose(fuse_me(*mirrored), slow_polynomial(*mirrored), rtol=1e-4, atol=1e-5, name="fuse_me at -x")
far = jnp.float32([2, -1, 3, 0.5]), jnp.float32([-4, 1.5, 3, np.nan, 10])
assert_allclose(fuse_me(*far), slow_polynomial(*far), rtol=1e-4, atol=1e-5, name="fuse_me at any numbers")
assert_allclose(jax.jit(fuse_me)(*far), slow_polynomial(*far), rtol=1e-4, atol=1e-5, name="fuse_me, by its tape")
lower = far[0].at[0].set(0), far[1]
assert_allclose(fuse_me(*lower), slow_polynomial(*lower), rtol=1e-4, atol=1e-5, name="fuse_me, highest coefficient 0")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "fuse-me-module", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. One module, and new coefficients do not build another."""
assert_hlo(fuse_me, *polynomial_inputs(1, n=1000), modules=1)


def modules_built(fn, sets):
    jax.clear_caches()
    with trace_log() as log:
        for inputs in sets:
            jax.block_until_ready(fn(*inputs))
    return log.compiles


three_sets = [polynomial_inputs(seed, n=1000) for seed in (2, 3, 4)]
assert_equal(
    {"modules built for three sets of coefficients": modules_built(fuse_me, three_sets)},
    {"modules built for three sets of coefficients": 1},
    hints={
        "modules built for three sets of coefficients": "A program must outlive the call that made it, and take "
        "the coefficients as an argument."
    },
    name="fuse_me",
)
### BEGIN HIDDEN TESTS
with assert_max_traces(fuse_me, 1):
    for seed in (5, 6, 7):
        fuse_me(*polynomial_inputs(seed, degree=13, n=77))
for n in (77, 2**18):
    assert_primitives(fuse_me, *polynomial_inputs(9, n=n), excludes={"pure_callback", "io_callback"})
assert_hlo(fuse_me, *polynomial_inputs(9), modules=1)
for_zeros, points = polynomial_inputs(11, degree=13, n=77)
with_zeros = for_zeros.at[:5].set(0)
with assert_max_traces(fuse_me, 1):
    for coefficients in (for_zeros, with_zeros):
        fuse_me(coefficients, points)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "fuse-me-speed", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Speed over the specification, degree 20 on 2**18 numbers: 4x earns 2 points, 10x earns 3."""
result = speedup(fuse_me, slow_polynomial, *polynomial_inputs(8), at_least=10)
partial_credit(result, {4: 2, 10: 3})

# %% [markdown]
# ## Task 5 · Break even (2 points)
#
# Compiling is an investment. `break_even(eager_first, eager, jit_first, jit)` gets the cost of a first call and of
# every later call, without and with jit, in whole microseconds. It returns the number of calls (at least 1) after which
# jit has cost no more in total than going without, or `None` if that never happens.
#
# The specification counts call by call and gives up at ten thousand. Yours must not count: some of these numbers are
# large.
#
# <details><summary>Hint 1: a nudge</summary>
#
# After `n` calls each side has paid one first call and `n - 1` later ones.
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# Print the two totals of the specification for `(100, 100, 1000, 10)`, for some numbers of calls around its answer. By
# how much does the gap shrink with each call? When does it not shrink at all?
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# debt = jit_first - eager_first          # what the first call cost too much
# saved = eager - jit                     # what every later call gives back
# if debt <= 0: return ...                # paid for in the very first call
# if saved <= 0: return ...               # never
# return 1 + ...                          # round up; -(-a // b) rounds whole numbers up
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "break-even-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def slow_break_even(eager_first, eager, jit_first, jit, limit=10_000):
    """Count the calls until jit has cost no more in total; None if that does not happen within `limit` calls."""
    paid_eager = paid_jit = 0
    for call in range(1, limit + 1):
        paid_eager += eager_first if call == 1 else eager
        paid_jit += jit_first if call == 1 else jit
        if paid_jit <= paid_eager:
            return call
    return None


# %% nbgrader={"grade": false, "grade_id": "break-even", "locked": false, "schema_version": 3, "solution": true, "task": false}
def break_even(eager_first, eager, jit_first, jit):
    """The first number of calls at which jit has cost no more in total, or None. Arguments: whole microseconds."""
    ### BEGIN SOLUTION
    # The first call runs up a debt, every later call pays a little of it back.
    debt = jit_first - eager_first
    saved = eager - jit
    if debt <= 0:
        return 1
    if saved <= 0:
        return None
    return 1 + -(-debt // saved)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "break-even-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The count of the specification, without counting."""
cases = {
    "a steady gain": (100, 100, 1000, 13),
    "an exact tie": (100, 100, 280, 10),
    "a cold start": (140_000, 150, 30_000, 40),
    "a gain of nothing": (200, 200, 40_000, 200),
    "a loss in every call": (8, 8, 25_000, 9),
}
break_even_hints = {
    "a steady gain": "One first call each, then later ones: is the first call in your count?",
    "an exact tie": "No more in total includes just as much.",
    "a cold start": "Without jit there is a first call too, and it can be the more expensive one.",
    "a gain of nothing": "Nothing is ever paid back here: that is None.",
    "a loss in every call": "It only gets worse here: that is None.",
    "a very small gain": "Do not count, divide.",
}
measured = {name: slow_break_even(*costs) for name, costs in cases.items()}
cases["a very small gain"] = (20, 21, 2_500_000_000_020, 20)  # a month, paid back one microsecond at a time
measured["a very small gain"] = 2_500_000_000_001
assert_equal(
    {name: break_even(*costs) for name, costs in cases.items()},
    measured,
    hints=break_even_hints,
    name="break_even",
)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(11)
fresh = [*rng.integers(1, 60, (37, 4)).tolist(), [5, 3, 2, 3], [4, 4, 4, 4], [4, 1, 4, 2]]
fresh += [[7, 10**17 + 1, 12, 10**17]]  # a gain of 1 that no float can see: 6 calls
assert_equal(
    {"forty more": [break_even(*costs) for costs in fresh]},
    {"forty more": [slow_break_even(*costs) for costs in fresh]},
    hints={"forty more": "Compare with slow_break_even on small random numbers until they part."},
    name="break_even",
)
small = list(itertools.product(range(1, 4), repeat=4))
assert_equal(
    {"all costs from 1 to 3": [break_even(*costs) for costs in small]},
    {"all costs from 1 to 3": [slow_break_even(*costs) for costs in small]},
    name="break_even",
)
many_calls = rng.integers(10**6, 10**10, 9).tolist() + rng.integers(10**16, 10**18, 3).tolist() + [3 * 10**20]
# Made from the answer: a debt that so many calls just pay back, 7 microseconds each.
expensive = [(50, 27, 50 + 7 * (calls - 1) - rest % 7, 20) for rest, calls in enumerate(many_calls)]
assert_equal(
    {"many calls": [break_even(*costs) for costs in expensive]},
    {"many calls": many_calls},
    hints={"many calls": break_even_hints["a very small gain"]},
    name="break_even",
)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · The sealed box (3 points)
#
# Somebody has set the four dials of a box and closed the lid. You are given its `program`, never called so far, and its
# `clock`. Nothing else: you cannot even ask whether the inputs are ready. The box stands in this notebook, and your
# function is run in plain Python somewhere else. There it can call `program` and `clock`, and `block_until_ready()` of
# what `program` returns. You know one thing: the backlog lasts longer than `build + dispatch`. The clock may show any
# tick when you begin.
#
# `open_the_box(program, clock)` returns `{"build": ..., "dispatch": ..., "run": ..., "backlog": ...}`. Finding them is
# worth 2 points. Finding them with **two** calls of the program is worth 1 more. `program()` needs no arguments here.
#
# <details><summary>Hint 1: a nudge</summary>
#
# You may read the clock as often as you like, also between a call and its wait. How many moments of a call can you tell
# apart?
# </details>
#
# <details><summary>Hint 2: an instrument</summary>
#
# Make a box of your own with dials that you know and print `clock()` after every line: before the call, after it, after
# the wait, and the same for a second call. Five readings, four dials.
# </details>
#
# <details><summary>Hint 3: a skeleton</summary>
#
# ```python
# t0 = clock(); first = program();  t1 = clock(); first.block_until_ready();  t2 = clock()
# second = program();               t3 = clock(); second.block_until_ready(); t4 = clock()
# ```
#
# The second call is the clean one: `t3 - t2` and `t4 - t3` are two dials. Take them out of the first one.
# </details>


# %% nbgrader={"grade": false, "grade_id": "sealed-box-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
BOX_HINTS = {
    "build": "The first call returns when the build and the dispatch are over: take one of them out.",
    "dispatch": "Only a call that builds nothing shows the dispatch by itself.",
    "run": "The first wait is for the backlog too. Which wait is for the run alone?",
    "backlog": "The first result is ready one run after the backlog has ended.",
    "calls": "Each call can be read three times: before it, after it, and after its wait.",
}


def assert_opened(calls=None, begin=0, **dials):
    """`open_the_box` finds the dials of a fresh box, in so many calls of its program (any number if None)."""
    box = Box(**dials)
    box.now, box.queue_ends = begin, begin + box.queue_ends
    said = run_alone(open_the_box, box.jit(), box.clock)
    if calls is not None and isinstance(said, dict):
        said, dials = said | {"calls": box.calls}, dials | {"calls": calls}
    assert_equal(said, dials, hints=BOX_HINTS, name="open_the_box")


# %% nbgrader={"grade": false, "grade_id": "sealed-box", "locked": false, "schema_version": 3, "solution": true, "task": false}
def open_the_box(program, clock):
    """The dials of the box, in ticks: {"build": ..., "dispatch": ..., "run": ..., "backlog": ...}."""
    ### BEGIN SOLUTION
    # The second call is clean: it gives dispatch and run, and with them the first call can be taken apart.
    t0 = clock()
    first = program()
    t1 = clock()
    first.block_until_ready()
    t2 = clock()
    second = program()
    t3 = clock()
    second.block_until_ready()
    t4 = clock()
    dispatch, run = t3 - t2, t4 - t3
    return {"build": t1 - t0 - dispatch, "dispatch": dispatch, "run": run, "backlog": t2 - t0 - run}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sealed-box-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. All four dials, of two boxes."""
assert_opened(build=900, dispatch=1, run=50, backlog=5000)
assert_opened(build=70, dispatch=6, run=300, backlog=1000)
### BEGIN HIDDEN TESTS
assert_opened(build=1234, dispatch=17, run=18, backlog=1252)
assert_opened(build=1, dispatch=1, run=2, backlog=999_983, begin=10**18 + 7)
assert_opened(build=10, dispatch=2, run=500, backlog=40)
assert_opened(build=0, dispatch=0, run=3, backlog=9)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "sealed-box-golf", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Two calls are enough, and the dials are still right."""
assert_opened(calls=2, build=321, dispatch=4, run=65, backlog=4096)
### BEGIN HIDDEN TESTS
assert_opened(calls=2, build=55, dispatch=2, run=89, backlog=233, begin=610)
assert_opened(calls=2, build=2, dispatch=5, run=40, backlog=30)
assert_opened(calls=2, build=9, dispatch=1, run=1, backlog=13)
assert_opened(calls=2, build=0, dispatch=0, run=1, backlog=3)
### END HIDDEN TESTS
