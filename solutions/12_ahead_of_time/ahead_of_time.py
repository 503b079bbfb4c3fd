# %% [markdown]
# # Exercise 12 · Ahead of time
#
# Six tasks, 22 points, about {duration}. The lesson is [12 · Ahead of time](../../lessons/12_ahead_of_time.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. Points are given for what
# was traced, compiled, written and found; only the last one is graded by the clock, and its check takes some seconds.
# Where a check is folded, its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say how often eight programs trace and compile | 3 |
# | 2 | find out how many bytes a training step needs, without computing anything | 3 |
# | 3 | build a server that compiles nothing once it runs | 4 |
# | 4 | keep every compiled program in a folder, and let a second start find all of them | 6 |
# | 5 | export one program for all sizes, and say for which sizes four others work | 4 |
# | 6 | bring the first answer of a new process sooner | 2 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.experimental.compilation_cache import compilation_cache

from autograder import (
    assert_allclose,
    assert_equal,
    assert_prediction,
    assert_primitives,
    partial_credit,
    speedup,
    trace_log,
)

jax.config.update("jax_default_matmul_precision", "highest")  # or a GPU or TPU drops digits of products (unit 10)

# %% [markdown]
# ## Task 1 · Which stages? (3 points)
#
# Eight small programs. Each gets a fresh function `f`. How often is the Python body of `f` traced, and how many
# programs does XLA compile? `THREE` is a NumPy array, so making it compiles nothing.
#
# Write your numbers **before** you run anything.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Go through trace, lower, compile, run for each line. How far does the line go?
# </details>
# <details><summary>Hint 2</summary>
# Try one program at a time, after you have written a number down: <code>stages_of(look_only)</code>. The lesson has met
# each case but two: what <code>jit</code> finds after <code>.lower().compile()</code>, and what
# <code>jax.clear_caches()</code> can take from an object that you hold.
# </details>
# <details><summary>Hint 3</summary>
# A trace is kept for its types, and a compiled program with it: asking again, in whichever way, costs nothing. A
# <code>Compiled</code> does not need any cache. An exported file is never traced again, but machine code has a shape.
# </details>

# %% nbgrader={"grade": false, "grade_id": "stages-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
THREE = np.ones(3, np.float32)
SHAPE = jax.ShapeDtypeStruct((3,), jnp.float32)


def look_only(f):
    jax.eval_shape(f, jax.ShapeDtypeStruct((10**9, 10**6), jnp.float32))


def three_loweries(f):
    for n in (1, 2, 3):
        jax.jit(f).lower(jax.ShapeDtypeStruct((n,), jnp.float32))


def look_then_call(f):
    jax.eval_shape(f, THREE)
    jax.jit(f).lower(THREE)
    jax.jit(f)(THREE)


def ahead_then_jit(f):
    jax.jit(f).lower(SHAPE).compile()
    jax.jit(f)(THREE)


def ahead_five_calls(f):
    compiled = jax.jit(f).lower(SHAPE).compile()
    for x in (THREE, THREE + 1, np.ones(3), jax.device_put(THREE), np.zeros(3)):
        compiled(x)


def ahead_then_forget(f):
    compiled = jax.jit(f).lower(SHAPE).compile()
    jax.clear_caches()
    compiled(THREE)


def jit_then_forget(f):
    jax.jit(f)(THREE)
    jax.clear_caches()
    jax.jit(f)(THREE)


def export_and_call(f):
    exported = export.export(jax.jit(f))(jax.ShapeDtypeStruct(export.symbolic_shape("n"), jnp.float32))
    loaded = export.deserialize(exported.serialize())
    for n in (3, 4, 3, 5, 4, 3):
        loaded.call(np.ones(n, np.float32))


PROGRAMS = [look_only, three_loweries, look_then_call, ahead_then_jit]
PROGRAMS += [ahead_five_calls, ahead_then_forget, jit_then_forget, export_and_call]


def stages_of(program):
    """(traces of f, programs compiled) while `program` runs."""

    def f(x):
        return jnp.tanh(x) * 2

    with trace_log(f) as log:
        program(f)
    return log.traces, log.compiles


# %% nbgrader={"grade": false, "grade_id": "stages", "locked": false, "schema_version": 3, "solution": true, "task": false}
def traces():
    """Name of each program -> how often f is traced."""
    ### BEGIN SOLUTION
    # eval_shape, lower and a call share one trace. Only forgetting, and new types, make another.
    return {
        "look_only": 1,
        "three_loweries": 3,
        "look_then_call": 1,
        "ahead_then_jit": 1,
        "ahead_five_calls": 1,
        "ahead_then_forget": 1,
        "jit_then_forget": 2,
        "export_and_call": 1,
    }
    ### END SOLUTION


def compiles():
    """Name of each program -> how many programs XLA compiles."""
    ### BEGIN SOLUTION
    # Looking and lowering compile nothing. What you hold is not forgotten. A file is compiled for each shape.
    return {
        "look_only": 0,
        "three_loweries": 0,
        "look_then_call": 1,
        "ahead_then_jit": 1,
        "ahead_five_calls": 1,
        "ahead_then_forget": 1,
        "jit_then_forget": 2,
        "export_and_call": 3,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "stages-traces", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The traces of all eight programs are predicted right."""
assert_prediction(
    traces,
    lambda: {program.__name__: stages_of(program)[0] for program in PROGRAMS},
    hints={
        "look_only": "eval_shape finds the shape by running your Python once. The size does not matter.",
        "three_loweries": "Each lower() needs a jaxpr for its own shape.",
        "look_then_call": "eval_shape, lower and the call ask for the same trace.",
        "ahead_then_jit": "The trace is kept by the function and its types, not by who asked.",
        "ahead_five_calls": "A Compiled has no Python to run.",
        "ahead_then_forget": "What is forgotten is what a cache held. Who holds the Compiled?",
        "jit_then_forget": "jit finds its trace in a cache.",
        "export_and_call": "The file holds StableHLO. When was f run for that?",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "stages-compiles", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The compiles of all eight programs are predicted right."""
assert_prediction(
    compiles,
    lambda: {program.__name__: stages_of(program)[1] for program in PROGRAMS},
    hints={
        "look_only": "Who would ever run it?",
        "three_loweries": "lower() ends before XLA begins.",
        "look_then_call": "Of the three lines, which one needs machine code?",
        "ahead_then_jit": "jit looks for what was compiled from the same lowering, and it is there.",
        "ahead_five_calls": "A Compiled is one program. It accepts or refuses, and never compiles.",
        "ahead_then_forget": "What is forgotten is what a cache held. Who holds the Compiled?",
        "jit_then_forget": "jit finds its program in a cache.",
        "export_and_call": "Machine code has a shape, and a shape that came before is found.",
    },
)

# %% [markdown]
# ## Task 2 · The planner (3 points)
#
# How many gigabytes does a training step need? It holds the parameters, the gradient, two more trees of the same size
# for the optimiser Adam (here all of one dtype), and what the forward pass keeps. `training_bytes_slow` finds out the
# hard way: it makes the parameters, runs the model forwards, and weighs everything. That is of no use if you want to
# know which machine to buy for the model.
#
# Write `training_bytes(init, loss, batch)` **without computing anything**; `batch` may then be a `ShapeDtypeStruct`.
# And write `largest_batch(init, loss, row, budget)`: how many rows like `row` (a `ShapeDtypeStruct` without the axis of
# the batch) fit into `budget` bytes. 0 if not even one does.
#
# <details><summary>Hint 1</summary>
# Nothing in <code>training_bytes_slow</code> looks at a value. For each of its lines there is another that looks at
# shapes only.
# </details>
# <details><summary>Hint 2</summary>
# <code>jax.eval_shape(function, *arguments)</code> returns a pytree like the function's own result, so
# <code>nbytes</code> works on it. The arguments may be the results of another <code>eval_shape</code>. The key, too,
# may be a shape: <code>jax.eval_shape(lambda: jax.random.key(0))</code>.
# </details>
# <details><summary>Hint 3</summary>
# <code>kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)</code>. For
# <code>largest_batch</code>: more rows never need fewer bytes, so double until it is too much, and then halve the gap.
# </details>


# %% nbgrader={"grade": false, "grade_id": "planner-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def nbytes(tree):
    """Bytes of all arrays in a pytree; shapes with dtypes will do."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def training_bytes_slow(init, loss, batch):
    """Bytes of a training step with Adam. init(key) makes the parameters; loss(params, batch) is a scalar.

    Parameters, gradient and Adam's two trees are of one size; what the forward pass keeps comes on top.
    """
    params = init(jax.random.key(0))
    kept = jax.vjp(lambda params: loss(params, batch), params)[1]
    return 4 * nbytes(params) + nbytes(kept)


def perceptron(layers, width):
    """(init, loss, row) of a network with tanh between its layers."""

    def init(key):
        keys = jax.random.split(key, layers)
        return [jax.random.normal(key, (width, width)) for key in keys]

    def loss(params, batch):
        for w in params:
            batch = jnp.tanh(batch @ w)
        return (batch**2).mean()

    return init, loss, jax.ShapeDtypeStruct((width,), jnp.float32)


init, loss, row = perceptron(layers=3, width=32)
print(f"{training_bytes_slow(init, loss, np.ones((16, 32), np.float32)):,} bytes")


# %% nbgrader={"grade": false, "grade_id": "planner", "locked": false, "schema_version": 3, "solution": true, "task": false}
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    ### BEGIN SOLUTION
    # The function that vjp returns is a pytree of what it keeps: its shape is all that we need.
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)
    ### END SOLUTION


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""

    ### BEGIN SOLUTION
    def fits(rows):
        batch = jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)
        return training_bytes(init, loss, batch) <= budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return rows
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "planner-bytes", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The bytes are right for a small model and for one that fits nowhere, with nothing compiled."""


def planned(layers, width, rows):
    """Your plan for a perceptron, and how many programs it compiled."""
    init, loss, row = perceptron(layers, width)
    jax.clear_caches()  # or what the cells above compiled would be found
    with trace_log() as log:
        found = training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype))
    return {"bytes": found, "programs compiled": log.compiles}


def weighed(layers, width, rows):
    init, loss, row = perceptron(layers, width)
    return {
        "bytes": training_bytes_slow(init, loss, np.ones((rows, width), np.float32)),
        "programs compiled": 0,
    }


shapes_only = "Whoever only wants shapes compiles nothing: use eval_shape for the key and for the parameters too."
assert_equal(
    planned(3, 32, 16),
    weighed(3, 32, 16),
    name="training_bytes",
    hints={
        "bytes": "Parameters, gradient and two moments; and all that the function from vjp keeps.",
        "programs compiled": shapes_only,
    },
)
small, large = planned(2, 100, 70), planned(2, 10**6, 7 * 10**5)  # the second would be 4 * 8 terabytes
scaled = {
    "large over small": round(large["bytes"] / small["bytes"] / 1e8, 3),
    "compiled": large["programs compiled"],
}
assert_equal(scaled, {"large over small": 1.0, "compiled": 0}, name="training_bytes", hints={"compiled": shapes_only})
### BEGIN HIDDEN TESTS


def gated(width, hidden):
    """Another network: a dict of parameters, several of them vectors, and a batch of text and targets."""

    def init(key):
        gate = jnp.ones(hidden, jnp.bfloat16)
        return {"in": jax.random.normal(key, (width, hidden)), "gate": gate, "out": jnp.zeros(hidden)}

    def loss(params, batch):
        x, y = batch
        inner = jax.nn.silu(x @ params["in"]) * params["gate"]
        return ((inner @ params["out"] - y) ** 2).mean()

    return init, loss


rows, width, hidden = (int(n) for n in np.random.default_rng().integers(2, 9, 3))
make_gated, gated_loss = gated(width, hidden)
batch = np.ones((rows, width), np.float16), np.ones(rows, np.float32)
only_shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), batch)
wanted = {"bytes": training_bytes_slow(make_gated, gated_loss, batch)}
assert_equal({"bytes": training_bytes(make_gated, gated_loss, only_shapes)}, wanted, name="training_bytes")
one_key = {
    "bytes": training_bytes(lambda key: jnp.zeros((*key.shape, 3)), lambda w, batch: (batch * w).sum(), jnp.ones(3))
}
assert_equal(one_key, {"bytes": 4 * 12 + 12}, name="training_bytes, of a model as large as its key,")
for layers in (1, 4):  # two models, and batches of one shape
    assert_equal(planned(layers, 9, 5), weighed(layers, 9, 5), name="training_bytes")
whole = {"an int": isinstance(training_bytes(make_gated, gated_loss, only_shapes), (int, np.integer))}
assert_equal(whole, {"an int": True}, name="training_bytes")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "planner-batch", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The batch fits, one more row does not, and nothing was compiled."""


def edge(model, rows, spare):
    """Your largest batch, when the budget is enough for exactly `rows` rows and `spare` bytes."""
    init, loss, row = model
    budget = training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) + spare
    with trace_log() as log:
        found = largest_batch(init, loss, row, budget)
    return {"rows": found, "programs compiled": log.compiles}


no_more = {"rows": "Is that the largest? Try one row more, and one less."}
assert_equal(edge(perceptron(2, 64), 37, 0), {"rows": 37, "programs compiled": 0}, name="largest_batch", hints=no_more)
large = edge(perceptron(3, 10**5), 9999, 7)
assert_equal(large, {"rows": 9999, "programs compiled": 0}, name="largest_batch", hints=no_more)
assert_equal(edge(perceptron(2, 64), 1, -1), {"rows": 0, "programs compiled": 0}, name="largest_batch", hints=no_more)
### BEGIN HIDDEN TESTS


def similar(width):
    """A model that compares each row with each: what it keeps grows with their square."""

    def loss(w, batch):
        return (jnp.tanh(batch @ w @ batch.T) ** 2).mean()

    return lambda key: jax.random.normal(key, (width, width)), loss, jax.ShapeDtypeStruct((width,), jnp.float32)


fresh = int(np.random.default_rng().integers(8, 300))
row_of_two_axes = jax.ShapeDtypeStruct((6, 128), jnp.bfloat16)  # in half precision
deep = *perceptron(4, 128)[:2], row_of_two_axes
narrow = lambda key: jnp.zeros(3), lambda w, batch: (w[0] * batch[:, 0]).sum(), jax.ShapeDtypeStruct((50,), jnp.float32)
for model, rows in ((deep, fresh), (similar(16), fresh), (perceptron(1, 8), 3 * 10**12), (narrow, fresh)):
    assert_equal(edge(model, rows, 3), {"rows": rows, "programs compiled": 0}, name="largest_batch", hints=no_more)
too_small = {"rows": largest_batch(*perceptron(2, 64), 1000)}
assert_equal(too_small, {"rows": 0}, name="largest_batch, of a budget that does not hold the parameters,")
whole = {"an int": isinstance(edge(narrow, 5, 3)["rows"], (int, np.integer))}
assert_equal(whole, {"an int": True}, name="largest_batch")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · The server that never compiles (4 points)
#
# `reply_slow` answers a text of any length, and compiles for every new one. Write `build_server(params)`. It does all
# the compiling, **three programs for the three BUCKETS**, and returns a function `serve`:
#
# - `serve(tokens)` gives the same numbers as `reply_slow(params, tokens)`, as a NumPy array with one row for each
#   token, from the smallest of the three programs that holds them;
# - `tokens` is what clients send: a list, or a NumPy array of any integer dtype, 1 to 64 tokens;
# - longer ones are refused with a `ValueError`;
# - **no request traces or compiles anything**, not even a slice.
#
# <details><summary>Hint 1</summary>
# Three objects made by <code>.lower(...).compile()</code>, in a dict. What they are called with must always have the
# type that they were compiled for.
# </details>
# <details><summary>Hint 2</summary>
# Count what a request costs: <code>with trace_log(reply) as log: serve([1, 2, 3])</code>, then look at
# <code>log.modules</code>. Anything done to a JAX array outside of your three programs is a program of its own, cutting
# off the padding included.
# </details>
# <details><summary>Hint 3</summary>
# <code>reply(params, tokens, length)</code> takes <code>int32[bucket]</code> and <code>int32[]</code>. Lower it with
# <code>jax.ShapeDtypeStruct((bucket,), jnp.int32)</code> and <code>jax.ShapeDtypeStruct((), jnp.int32)</code>. In
# <code>serve</code>: <code>tokens = np.asarray(tokens, np.int32)</code>, <code>np.pad</code>, the call, then
# <code>np.asarray(result)[:length]</code>.
# </details>

# %% nbgrader={"grade": false, "grade_id": "server-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
BUCKETS = (4, 16, 64)


def reply(params, tokens, length):
    """A row for each token, mixed with the mean of all real ones. tokens: int32[bucket]; length: int32[]."""
    x = params["embed"][tokens]
    real = (jnp.arange(tokens.size) < length)[:, None]
    mean = jnp.where(real, x, 0).sum(0) / length
    return jnp.tanh(x + mean) @ params["out"]


def reply_slow(params, tokens):
    """float32[len(tokens), 3]. Compiles for each length."""
    tokens = np.asarray(tokens, np.int32)
    return np.asarray(jax.jit(reply)(params, tokens, np.int32(len(tokens))))


@contextlib.contextmanager
def sizes_run():
    """A list: how many tokens each call of a compiled program gets inside the block."""
    sizes, call = [], jax.stages.Compiled.__call__

    def heard(self, *args, **kwargs):
        sizes.extend(np.size(leaf) for leaf in jax.tree.leaves((args, kwargs)) if np.ndim(leaf) == 1)
        return call(self, *args, **kwargs)

    with mock.patch.object(jax.stages.Compiled, "__call__", heard):
        yield sizes


def reply_params(seed=None, vocabulary=50):
    """Parameters for so many different tokens, NumPy float32."""
    rng = np.random.default_rng(seed)
    return {
        "embed": rng.normal(size=(vocabulary, 8)).astype(np.float32),
        "out": rng.normal(size=(8, 3)).astype(np.float32),
    }


# %% nbgrader={"grade": false, "grade_id": "server", "locked": false, "schema_version": 3, "solution": true, "task": false}
def build_server(params):
    """Compiles `reply` for the three BUCKETS, and returns serve(tokens) -> float32[len(tokens), 3], NumPy."""
    ### BEGIN SOLUTION
    # Between the client and the program there is only NumPy: it compiles nothing.
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError(f"{length} tokens, at most {BUCKETS[-1]} are served")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "server-requests", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Three programs before the first request, none after it, and the right rows."""


def served(params, texts):
    """Your answers, what was counted on the way to them, and the names of the programs that were built for requests."""
    jax.clear_caches()
    with trace_log(reply) as opening:
        opened = build_server(params)
    with trace_log(reply) as serving, sizes_run() as sizes:
        answers = [opened(tokens) for tokens in texts]
    counts = {
        "traced before opening": opening.traces,
        "compiled before opening": opening.compiles,
        "traced while serving": serving.traces,
        "compiled while serving": serving.compiles,
        "sizes run": sizes,
    }
    return answers, counts, serving.modules


params, every_length = reply_params(0), [list(range(length)) for length in (1, 2, 4, 5, 15, 16, 17, 33, 49)]
answers, counts, modules = served(params, every_length)
if counts["compiled before opening"] >= 3:
    counts["compiled before opening"] = "3 or more"
assert_equal(
    counts | {"kind of the answers": ", ".join({type(answer).__name__ for answer in answers})},
    {
        "traced before opening": 3,
        "compiled before opening": "3 or more",
        "traced while serving": 0,
        "compiled while serving": 0,
        "kind of the answers": "ndarray",
        "sizes run": [4, 4, 4, 16, 16, 16, 64, 64, 64] if counts["sizes run"] else [],  # what jit runs is not heard
    },
    name="build_server",
    hints={
        "sizes run": "Padding is computed like real tokens: take the smallest bucket that holds the text.",
        "traced before opening": "One program for each bucket, and no other.",
        "compiled before opening": "One program for each bucket: build_server itself lowers and compiles.",
        "traced while serving": "A request found no program of its type, so jit made one.",
        "compiled while serving": f"Built for requests: {', '.join(dict.fromkeys(modules))}. "
        "Pad, convert and cut with NumPy.",
    },
)
as_if_four = reply_slow(params, [0, 1, 0, 0])[:2]  # answers[1] is for [0, 1]
taken = np.shape(answers[1]) == (2, 3) and np.allclose(answers[1], as_if_four, rtol=1e-4, atol=1e-5)
assert_equal(
    {"padding is taken for tokens": bool(taken)},
    {"padding is taken for tokens": False},
    name="serve",
    hints={"padding is taken for tokens": "The program needs the number of real tokens, not the bucket's."},
)
for tokens, answer in zip(every_length, answers, strict=True):
    assert_allclose(answer, reply_slow(params, tokens), rtol=1e-4, atol=1e-5, name=f"serve, {len(tokens)} tokens")
### BEGIN HIDDEN TESTS


def asked(serve, texts):
    """The answers of a service that may trace nothing, and how many programs are compiled for them."""
    with trace_log(reply) as serving, jax.no_tracing(True):
        answers = [serve(tokens) for tokens in texts]
    return answers, serving.compiles


rng = np.random.default_rng()
params = reply_params(vocabulary=70_000)
texts = [rng.integers(0, 70_000, size=length) for length in rng.integers(1, 65, size=12)]
texts[0][:] = 69_999
opened = build_server(params)
other = build_server(reply_params())  # another model: it changes nothing for the first
answers, compiled = asked(opened, texts)
assert_equal({"compiled": compiled}, {"compiled": 0}, name="build_server")
kinds = {"dtype of an answer": str(np.asarray(answers[0]).dtype)}
assert_equal(kinds, {"dtype of an answer": "float32"}, name="serve")
for tokens, answer in zip(texts[:4], answers[:4], strict=True):
    assert_allclose(answer, reply_slow(params, tokens), rtol=1e-4, atol=1e-5, name=f"serve, {len(tokens)} tokens")


def reaches_a_device(serve, request):
    """Whether the service hands this request to a device. Here that is forbidden, so that it shows."""
    try:
        with jax.transfer_guard_host_to_device("disallow_explicit"):
            serve(request)
    except Exception:
        return True
    return False


def bucket_traced(serve, length):
    """How many tokens `reply` is traced with for a text, once all that jit has compiled is forgotten; or None."""
    sizes = []

    def look(frame, event, _):
        if event == "call" and frame.f_code is reply.__code__:
            sizes.append(np.size(frame.f_locals["tokens"]))

    jax.clear_caches()
    sys.setprofile(look)
    try:
        serve(list(range(length)))
    finally:
        sys.setprofile(None)
    return sizes[0] if sizes else None


wanted_buckets = {f"{length} tokens": bucket for length, bucket in ((3, 4), (4, 4), (5, 16), (17, 64))}
traced = {name: bucket_traced(opened, int(name.split()[0])) for name in wanted_buckets}
assert_equal(
    {name: traced[name] or bucket for name, bucket in wanted_buckets.items()},  # what was compiled before is not traced
    wanted_buckets,
    name="serve (the bucket of a text)",
    hints={
        name: "Padding is computed like real tokens: take the smallest bucket that holds the text."
        for name in wanted_buckets
    },
)
of_each_program = {f"{length} tokens": reaches_a_device(opened, [1] * length) for length in BUCKETS}
assert_equal(
    {"answered by a program": of_each_program},
    {"answered by a program": dict.fromkeys(of_each_program, True)},
    name="serve",
    hints={"answered by a program": "These never reach a device: NumPy answers, and the three programs stand idle."},
)


def away_from_the_mean(params, tokens, length):
    x = params["embed"][tokens]
    mean = jnp.where((jnp.arange(tokens.size) < length)[:, None], x, 0).sum(0) / length
    return jnp.tanh(x - mean) @ params["out"]


model, kept_code = reply_params(2), reply.__code__
jax.clear_caches()
reply.__code__ = away_from_the_mean.__code__  # another model in its place, wherever its name stands by now
try:
    answer = build_server(model)([3, 1, 2])
finally:
    reply.__code__ = kept_code
    jax.clear_caches()
rows = model["embed"][[3, 1, 2]]
wanted_rows = np.tanh(rows - rows.mean(0)) @ model["out"]
assert_allclose(answer, wanted_rows, rtol=1e-4, atol=1e-5, name="serve, built for another reply")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "server-clients", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Every client is served, whatever its dtype; what is too long is refused."""
params = reply_params(1)
opened = build_server(params)
kinds = {"int8": np.int8, "uint16": np.uint16, "int64": np.int64}
kinds = {name: np.arange(6).astype(dtype) for name, dtype in kinds.items()} | {"a list": [0, 1, 2, 3, 4, 5]}


def reaction(serve, tokens):
    try:
        return f"{len(serve(tokens))} rows"
    except Exception as error:
        return type(error).__name__


def reactions(serve, requests):
    """The reaction to each request, and how many programs are compiled for all of them."""
    with trace_log(reply) as serving:
        found = {kind: reaction(serve, tokens) for kind, tokens in requests.items()}
    return found | {"compiled": serving.compiles}


assert_equal(
    reactions(opened, kinds | {"65 tokens": [1] * 65}),
    dict.fromkeys(kinds, "6 rows") | {"65 tokens": "ValueError", "compiled": 0},
    name="serve",
    hints={
        "int8": "A Compiled refuses other types: convert before you call it.",
        "uint16": "A Compiled refuses other types: convert before you call it.",
        "65 tokens": "No bucket holds it. Answering a part of it would be worse than refusing.",
    },
)
### BEGIN HIDDEN TESTS


def reaction_without_a_device(serve, tokens):
    """The reaction where a device is out of reach: whoever needs none does not notice."""
    with jax.transfer_guard_host_to_device("disallow_explicit"):
        return reaction(serve, tokens)


long = {"200 tokens": reaction(opened, list(range(50)) * 4), "64 tokens": reaction(opened, [3] * 64)}
long["65 in an array"] = reaction(opened, np.ones(65, np.int32))
assert_equal(long, {"200 tokens": "ValueError", "64 tokens": "64 rows", "65 in an array": "ValueError"}, name="serve")
text = np.random.default_rng().integers(0, 50, 9)
texts = [text.astype(dtype) for dtype in (np.uint8, np.int16, np.int32, np.uint32, np.uint64)]
texts += [np.int8([1, 0, 0, 0]), np.int16([1, 0]), np.int32([1])]  # equal bytes
texts += [np.sort(text)[::-1], np.sort(text)]  # as long, the same sum
for text in texts:
    assert_allclose(opened(text), reply_slow(params, text), rtol=1e-4, atol=1e-5, name=f"serve, {text.dtype}")
alone = {"served without a program": reaction_without_a_device(opened, [1, 2, 3]) == "3 rows"}
assert_equal(alone, {"served without a program": False}, name="serve")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · The second start (6 points)
#
# ### One second (3 points)
#
# `keep_programs_as_documented` sets the folder of the persistent cache. Small programs never get there, and once JAX
# has used a folder, it stays with it. Write
#
# - `keep_programs(folder)`: from now on, **every** program that is compiled is kept in `folder`, at any point of a
#   session, whatever folder and threshold of time somebody has set (JAX's other options have their defaults);
# - `cache_report(run)`: calls `run()`, which raises no error, and returns how many programs it asked for in the cache,
#   how many were found, written, and **passed over** (compiled, and not written):
#   `{"asked": 3, "found": 0, "written": 1, "passed over": 2}`.
#
# The second check starts another Python process: what was kept here must be found there.
#
# <details><summary>Hint 1</summary>
# One option decides about small programs. Another function makes JAX look at its folder anew. Both are in the lesson.
# </details>
# <details><summary>Hint 2</summary>
# JAX reports three events under <code>/jax/compilation_cache/</code>: <code>compile_requests_use_cache</code>,
# <code>cache_hits</code>, <code>cache_misses</code>. The last is reported when a program is written. A program that is
# passed over has no event of its own.
# </details>
# <details><summary>Hint 3</summary>
# <code>jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)</code> and
# <code>compilation_cache.reset_cache()</code>. For the report:
# <code>jax.monitoring.register_event_listener(heard)</code> with <code>def heard(event, **_): ...</code>, then
# <code>try: run()</code>, and in <code>finally</code> <code>jax.monitoring.unregister_event_listener(heard)</code>.
# </details>

# %% nbgrader={"grade": false, "grade_id": "second-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
SERVICE = """
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def scale(x):
    return x / x.max()

@jax.jit
def score(x):
    return jnp.tanh(x) * 2

@jax.jit
def pick(x):
    return jnp.argmax(x)

def service():
    return int(pick(score(scale(np.arange(1, SIZE, dtype=np.float32)))))
"""


def keep_programs_as_documented(folder):
    """The folder, and nothing else: JAX keeps what took a second or more to compile."""
    jax.config.update("jax_compilation_cache_dir", str(folder))


@contextlib.contextmanager
def settings_restored():
    """Whatever the block does to the persistent cache is undone."""
    names = (
        "compilation_cache_dir",
        "persistent_cache_min_compile_time_secs",
        "persistent_cache_min_entry_size_bytes",
    )
    before = {f"jax_{name}": jax.config.values[f"jax_{name}"] for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def fresh_service(size=5):
    """A service of three programs, as if this process had just started."""
    jax.clear_caches()
    scope = {"SIZE": size}
    exec(SERVICE, scope)
    return scope["service"]


def files_in(folder):
    return len(list(Path(folder).glob("*-cache")))


# %% nbgrader={"grade": false, "grade_id": "second", "locked": false, "schema_version": 3, "solution": true, "task": false}
def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`, a str."""
    ### BEGIN SOLUTION
    # The threshold is about writing. reset_cache makes JAX let go of the folder that it used before.
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()
    ### END SOLUTION


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    ### BEGIN SOLUTION
    counts = Counter()

    def heard(event, **_):
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(heard)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_listener(heard)
    asked, found, written = (counts[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "second-report", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The report tells what is found, written and passed over."""


def three_starts():
    """Your reports: of a start that is passed over, of one that is written, and of one that is found."""
    first, again = {}, {}
    with tempfile.TemporaryDirectory() as folder, settings_restored():
        keep_programs_as_documented(folder)
        compilation_cache.reset_cache()
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000.0)
        first |= cache_report(fresh_service(5))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        again |= cache_report(fresh_service(5))
        return first, again, cache_report(fresh_service(5))


first, again, once_more = three_starts()
silence = {"passed over": "Asked for, not found, not written: no event tells of it. Subtract."}
assert_equal(
    first,
    {"asked": 3, "found": 0, "written": 0, "passed over": 3},
    name="cache_report, threshold 1000",
    hints=silence,
)
assert_equal(again, {"asked": 3, "found": 0, "written": 3, "passed over": 0}, name="cache_report, threshold 0")
assert_equal(once_more, {"asked": 3, "found": 3, "written": 0, "passed over": 0}, name="cache_report, started again")
### BEGIN HIDDEN TESTS


def a_mixed_day(a, b):
    """The reports of a day with all kinds of starts, and of a service whose programs are in memory."""

    def a_day():
        """Three programs are written and found again; three others are passed over, twice. Each start is reported."""
        for size, threshold in ((a, 0.0), (a, 0.0), (b, 1000.0), (b, 1000.0)):
            jax.config.update("jax_persistent_cache_min_compile_time_secs", threshold)
            cache_report(fresh_service(size))

    with tempfile.TemporaryDirectory() as folder, settings_restored():
        jax.config.update("jax_compilation_cache_dir", folder)
        compilation_cache.reset_cache()
        mixed = cache_report(a_day)
        service = fresh_service(a)
        service()
        return mixed, cache_report(service)


def a_move(size):
    """The report of a day on which somebody chooses another folder, and the three programs go there."""

    def moves():
        with tempfile.TemporaryDirectory() as another:
            jax.config.update("jax_compilation_cache_dir", another)
            compilation_cache.reset_cache()
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            fresh_service(size)()

    with tempfile.TemporaryDirectory() as folder, settings_restored():
        jax.config.update("jax_compilation_cache_dir", folder)
        return cache_report(moves)


a, b = (int(size) for size in np.random.default_rng().choice(np.arange(6, 99), 2, replace=False))
mixed, called_again = a_mixed_day(a, b)
moved = a_move(a)
elsewhere = {"asked": 3, "found": 0, "written": 3, "passed over": 0}
assert_equal(moved, elsewhere, name="cache_report, of programs that go into another folder")
assert_equal(mixed, {"asked": 12, "found": 3, "written": 3, "passed over": 6}, name="cache_report")
nothing = {"asked": 0, "found": 0, "written": 0, "passed over": 0}
assert_equal(called_again, nothing, name="cache_report, programs still in memory")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "second-kept", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. All three programs are kept, and a new process finds three of three."""
CHILD = """
import json, sys
found = []
import jax
from jax.monitoring import register_event_listener
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
register_event_listener(lambda event, **_: found.append(event))
exec(sys.argv[2])
service()
names = ("compile_requests_use_cache", "cache_hits")
print(json.dumps([found.count("/jax/compilation_cache/" + name) for name in names]))
"""


def kept_and_found():
    """How many programs are kept after the folder was changed, and how many of them a new process finds."""
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new, settings_restored():
        keep_programs_as_documented(old)
        compilation_cache.reset_cache()
        fresh_service(7)()  # from here on, JAX has a folder
        keep_programs(new)
        fresh_service(7)()
        kept = {"kept in the folder": files_in(new)}
        command = [sys.executable, "-c", CHILD, new, SERVICE.replace("SIZE", "7")]
        # A GPU's memory belongs to this process already: the other must not ask for most of it.
        modest = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        child = subprocess.run(command, capture_output=True, text=True, env=modest)
        asked, found = json.loads(child.stdout or "[0, 0]")
        return kept | {"a new process asks for": asked, "and finds": found}


assert_equal(
    kept_and_found(),
    {"kept in the folder": 3, "a new process asks for": 3, "and finds": 3},
    name="keep_programs",
    hints={
        "kept in the folder": "Two things keep small programs out: a threshold of one second, "
        "and that JAX stays with the folder that it used first."
    },
)
### BEGIN HIDDEN TESTS


def kept_in_folders():
    """How many programs each folder holds, and the threshold of time in the end."""
    with contextlib.ExitStack() as stack, settings_restored():
        one, two, three, other = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(4))
        for folder, size, before in ((one, 8, other), (two, 9, other), (two, 10, other), (three, 11, three)):
            keep_programs_as_documented(before)  # by somebody else
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 1000.0)
            keep_programs(folder)
            fresh_service(size)()
        kept = {"first folder": files_in(one), "second folder": files_in(two), "a folder that was set": files_in(three)}
        return kept, jax.config.values["jax_persistent_cache_min_compile_time_secs"]


kept, threshold = kept_in_folders()
# `pick` and the others have another shape each time
assert_equal(kept, {"first folder": 3, "second folder": 6, "a folder that was set": 3}, name="keep_programs")
quick = {"a program that compiles in 0.1 ms is": "kept" if threshold < 1e-4 else "passed over"}
assert_equal(quick, {"a program that compiles in 0.1 ms is": "kept"}, name="keep_programs")
### END HIDDEN TESTS

# %% [markdown]
# ### The key that would not stand still (3 points)
#
# A project has a persistent cache, and every night's start compiles everything anew. Here is its function.
# `make_scorer_slow` is called once for each start, with a `set` of features (whose order differs in every process), the
# time, and the number of the run. It returns the scorer.
#
# Write `make_scorer(features, now, run)`, whose scorer gives the same scores from the same columns, such that **a
# second start finds all programs of the first**, one or several: with another order, at another time, in another run, in
# another process. The scores are summed up in these programs: the columns go into them, one by one or together.
#
# <details><summary>Hint 1</summary>
# The key is the StableHLO, with the name of the function. What in it is different tomorrow?
# </details>
# <details><summary>Hint 2</summary>
# Compare the two texts: <code>jax.jit(f).lower(columns).as_text()</code>, for two starts. There are three differences,
# and the time is one of them: where does it stand in the text?
# </details>
# <details><summary>Hint 3</summary>
# <code>sorted(features)</code>. One name for the jitted function. And <code>now</code> as an argument of the jitted
# function, handed over by a small function around it: <code>lambda columns: jitted(columns, now)</code>.
# </details>

# %% nbgrader={"grade": false, "grade_id": "key-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
WEIGHTS = {"height": 0.5, "age": -1.5, "speed": 2.0, "mass": 0.25, "heat": -0.75}


def make_scorer_slow(features, now, run):
    """A function from columns (dict: feature -> float32[n], and "seen": float32[n]) to scores, float32[n].

    features: names out of WEIGHTS, in any order; now: a float, seconds; run: an int.
    """

    def score(columns):
        total = jnp.exp((columns["seen"] - now) / 3600)  # what was seen long ago counts less
        for name in features:
            total = total + WEIGHTS[name] * columns[name]
        return total

    score.__name__ = f"score_run_{run}"
    return jax.jit(score)


def columns_of(rows, seed=None):
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(size=rows).astype(np.float32) for name in (*WEIGHTS, "seen")}


def start(make, columns, features, now, run):
    """As a new process would: makes the scorer, and runs it once."""
    jax.clear_caches()
    return np.asarray(make(features, now, run)(columns))


def written_by(make, first, second):
    """How many programs two starts write into one empty folder, one after the other."""
    columns = columns_of(6, seed=0)
    with tempfile.TemporaryDirectory() as folder, settings_restored():
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        compilation_cache.reset_cache()
        start(make, columns, *first)
        after_one = files_in(folder)
        start(make, columns, *second)
        return after_one, files_in(folder) - after_one


monday = (("age", "mass", "heat"), 100.0, 1)
print(
    "written on Monday, and on Tuesday:",
    written_by(make_scorer_slow, monday, (("heat", "age", "mass"), 900.0, 2)),
)


# %% nbgrader={"grade": false, "grade_id": "key", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    ### BEGIN SOLUTION
    # What changes from start to start must be an argument, or not reach the program at all.
    names = sorted(features)

    @jax.jit
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in names:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, now)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "key-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The scores are right, and the second start writes nothing."""
friday = (("speed", "age", "mass", "heat"), 1000.0, 5)
for features, now, run in (friday, (("heat", "speed"), 60.0, 6)):
    scored = start(make_scorer, columns_of(9, seed=1), features, now, run)
    wanted = make_scorer_slow(features, now, run)(columns_of(9, seed=1))
    assert_allclose(scored, wanted, rtol=1e-4, atol=1e-5, name="scores")
others = {
    "another run": (friday[0], friday[1], 6),
    "another order": (friday[0][::-1], friday[1], friday[2]),
    "another time": (friday[0], 5000.0, friday[2]),
}
second_starts = {what: written_by(make_scorer, friday, other)[1] for what, other in others.items()}
assert_equal(
    second_starts,
    dict.fromkeys(others, 0),
    name="make_scorer",
    hints={
        "another run": "The name of the jitted function is in the key.",
        "another order": "The order of the additions is in the key: bring the features into one order.",
        "another time": "What the function closes over is a constant in the program: make it an argument.",
    },
)
kept_any = {"the first start writes programs": written_by(make_scorer, friday, friday)[0] > 0}
assert_equal(kept_any, {"the first start writes programs": True}, name="make_scorer")
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
mixed = tuple(rng.permutation(list(WEIGHTS)).tolist())
tonight = (mixed, float(rng.uniform(1, 9000)), int(rng.integers(10, 99)))
tomorrow = (tuple(rng.permutation(mixed).tolist()), tonight[1] + 86_400, tonight[2] + 1)
assert_equal({"tomorrow": written_by(make_scorer, tonight, tomorrow)[1]}, {"tomorrow": 0}, name="make_scorer")
alike = [(names, *tonight[1:]) for names in (("heat", "height"), ("height", "heat"))]
found = {"two that begin alike": written_by(make_scorer, *alike)[1]}
assert_equal(found, {"two that begin alike": 0}, name="make_scorer")
scored = start(make_scorer, columns_of(11), frozenset(mixed[:3]), *tonight[1:])
assert_equal({"scores": len(scored)}, {"scores": 11}, name="make_scorer")
fresh, late = columns_of(11), 5e5
fresh["seen"] += np.float32(late)  # in seconds, as all times are
for features, columns in ((mixed, fresh), (mixed[:2], {name: fresh[name] for name in (*mixed[:2], "seen")})):
    wanted = make_scorer_slow(features, late, 7)(columns)
    assert_allclose(start(make_scorer, columns, features, late, 7), wanted, rtol=1e-4, atol=1e-5, name="scores")
part, columns = (("heat",), 100.5, 7), columns_of(5)  # of a time not even half a second may be lost
wanted = make_scorer_slow(*part)(columns)
assert_allclose(start(make_scorer, columns, *part), wanted, rtol=2e-5, atol=1e-6, name="scores, at 100.5 s")
ours, theirs = (make(mixed, *tonight[1:]) for make in (make_scorer, make_scorer_slow))
make_scorer(mixed[:2], 50.0, 3)(columns_of(11))  # another one, which changes nothing for ours
for rows in (11, 12):
    columns = jax.device_put(columns_of(rows))
    scored = ours(columns)
    deleted = [name for name, column in columns.items() if column.is_deleted()]
    assert_equal({"columns deleted": deleted}, {"columns deleted": []}, name="scorer")
    assert_allclose(scored, theirs(columns), rtol=1e-4, atol=1e-5, name=f"scores of {rows} rows")
handed_over, as_it_was = columns_of(11, seed=2), columns_of(11, seed=2)  # NumPy
ours(handed_over)
assert_allclose(handed_over, as_it_was, name="the columns, after they were scored,")


def handed_in(make, columns, *arguments):
    """How many numbers the programs of a start are given, as their StableHLO says."""
    import re

    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        try:
            start(make, columns, *arguments)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        heads = [path.read_text().partition("@main(")[2].partition(") ->")[0] for path in Path(folder).iterdir()]
    shapes = re.findall(r"tensor<([\dx]+)xf32>", " ".join(heads))
    return sum(int(np.prod([int(side) for side in shape.split("x")])) for shape in shapes)


enough = {"two columns or more go into the programs": handed_in(make_scorer, columns_of(200), *friday) >= 2 * 200}
assert_equal(enough, dict.fromkeys(enough, True), name="scorer")

from autograder.measuring.wire import functions

ELSEWHERE = """
import os, pickle, sys
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_default_matmul_precision", "highest")
make_scorer, columns = pickle.loads(sys.stdin.buffer.read())
make_scorer(set(columns) - {"seen"}, 100.0 + os.getpid(), os.getpid())(columns)
"""


def written_in_processes(make, columns):
    """How many programs one folder holds after each of three processes, or how a process has ended."""
    packed, written = functions.dumps((make, columns)), []
    with tempfile.TemporaryDirectory() as folder:
        for seed in ("0", "2", "3"):  # each PYTHONHASHSEED gives the set an order of its own
            modest = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONHASHSEED": seed}
            command = [sys.executable, "-c", ELSEWHERE, folder]
            child = subprocess.run(command, input=packed, capture_output=True, env=modest)
            written.append(child.stderr.decode()[-300:] if child.returncode else files_in(folder))
    return written


not_met_yet = {name: column for name, column in columns_of(6).items() if name != "heat"}  # by what remembers orders
written = written_in_processes(make_scorer, not_met_yet)
kept_all = {"ended by an error": next((text for text in written if type(text) is str), "none")}
kept_all["written in three processes"] = written
once = {"ended by an error": "none", "written in three processes": written[:1] * 3}
assert_equal(kept_all, once, name="make_scorer")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · One file for all sizes (4 points)
#
# **Pack it.** `pack(params)` returns the bytes of **one** exported program that maps `float32[b, 100]` to
# `float32[b, 10]` for every `b`, the parameters inside. `unpack(blob)` makes a function of it. The Python of `head`
# must not run any more: whoever has `jax.export` can use the bytes, without this notebook.
#
# **Promise it.** Four functions, which do not work for every shape. For each, find the **most general** promise under
# which it can be exported: a shape with symbols (two dimensions), and a tuple of constraints, perhaps an empty one.
# A promise that is too narrow refuses sizes that would work.
#
#     {"both_halves": ("2*b, n", ()), ...}          the number of rows is even
#
# <details><summary>Hint 1</summary>
# For which sizes does the function itself work? Say it in words. Then: is it a multiple of something (a matter of the
# shape), the same as something else (a matter of the names), or larger or smaller than something (a constraint)?
# </details>
# <details><summary>Hint 2</summary>
# <code>promise_kept(function, shape, constraints)</code> shows what happens for a number of sizes: compare it with
# <code>native(function)</code>. A <code>jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)</code> is
# also what <code>pack</code> needs.
# </details>
# <details><summary>Hint 3</summary>
# Blocks of 4 by 4: both dimensions are multiples, <code>4*h</code> and <code>4*w</code>. A square has two equal names.
# The other two need a constraint such as <code>"n >= 9"</code>, or a dimension such as <code>n + 8</code>. For <code>pack</code>:
# <code>export.export(jax.jit(lambda x: head(params, x)))(...)</code>, then <code>serialize()</code>; for
# <code>unpack</code>: <code>export.deserialize(bytearray(blob)).call</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "export-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def head(params, x):
    """Scores of ten classes. params: w float32[100, 10], b float32[10]; x: float32[b, 100]."""
    return jnp.tanh(x) @ params["w"] + params["b"]


def head_params(seed=None):
    rng = np.random.default_rng(seed)
    return {"w": rng.normal(size=(100, 10)).astype(np.float32), "b": rng.normal(size=10).astype(np.float32)}


def squared(x):
    return x @ x


def four_by_four(x):
    """The mean of each block of 4 by 4."""
    rows, columns = x.shape
    return x.reshape(rows // 4, 4, columns // 4, 4).mean((1, 3))


def best_five(x):
    """The five largest of each row."""
    return jax.lax.top_k(x, 5)[0]


def to_sixteen(x):
    """Each row, filled up with zeros to 16 columns."""
    return jnp.pad(x, ((0, 0), (0, 16 - x.shape[1])))


FUNCTIONS = [squared, four_by_four, best_five, to_sixteen]
SIZES = [
    (1, 1),
    (4, 4),
    (5, 5),
    (16, 16),
    (20, 20),
    (4, 8),
    (12, 4),
    (3, 5),
    (2, 16),
    (7, 17),
    (6, 4),
    (1, 24),
]


def native(function, sizes=SIZES):
    """For which sizes the function works, traced for each size afresh."""

    def works(size):
        try:
            jax.eval_shape(lambda x: function(x), jax.ShapeDtypeStruct(size, jnp.float32))
        except Exception:
            return "refused"
        return "works"

    return {size: works(size) for size in sizes}


def promise_kept(function, shape, constraints, sizes=SIZES):
    """For which sizes the exported program works."""
    spec = jax.ShapeDtypeStruct(export.symbolic_shape(shape, constraints=tuple(constraints)), jnp.float32)
    exported = export.export(jax.jit(lambda x: function(x)))(spec)

    def works(size):
        try:
            jax.eval_shape(exported.call, jax.ShapeDtypeStruct(size, jnp.float32))
        except Exception:
            return "refused"
        return "works"

    return {size: works(size) for size in sizes}


print(native(best_five))


# %% nbgrader={"grade": false, "grade_id": "export", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pack(params):
    """The bytes of one program from float32[b, 100] to float32[b, 10], for every b; params are inside."""
    ### BEGIN SOLUTION
    # What is closed over becomes a constant: it travels in the file.
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(x).serialize())
    ### END SOLUTION


def unpack(blob):
    """A function float32[b, 100] -> float32[b, 10], from the bytes that pack has made."""
    ### BEGIN SOLUTION
    return export.deserialize(bytearray(blob)).call
    ### END SOLUTION


def promises():
    """Name of each function in FUNCTIONS -> (shape, constraints), as general as the function itself."""
    ### BEGIN SOLUTION
    # A multiple stands in the shape, an equality in the names, an inequality in a constraint.
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "export-pack", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. One file serves four batch sizes, and the Python of head does not run for it."""
params = head_params(0)
blob = pack(params)
batches = [np.random.default_rng(b).normal(size=(b, 100)).astype(np.float32) for b in (1, 2, 5, 32)]
loaded = unpack(bytes(blob))
with trace_log(head) as calling:
    results = [np.asarray(loaded(batch)) for batch in batches]
for batch, result in zip(batches, results, strict=True):
    wanted = np.tanh(batch) @ params["w"] + params["b"]
    assert_allclose(result, wanted, rtol=1e-3, atol=1e-4, name=f"unpack, {len(batch)} rows")
assert_equal(
    {"traces while calling": calling.traces},
    {"traces while calling": 0},
    name="unpack",
    hints={"traces while calling": "What unpack returns must come out of the bytes alone."},
)
### BEGIN HIDDEN TESTS
models = head_params(), head_params()
fresh = np.random.default_rng().normal(size=(333, 100)).astype(np.float32)
right_scores, doubled = [np.tanh(fresh) @ params["w"] + params["b"] for params in models], 2 * fresh[:, :10]
blobs = [bytes(pack(params)) for params in models]
for params in models:
    params["w"] *= 0
for blob, wanted in zip(blobs, right_scores, strict=True):
    assert_allclose(np.asarray(unpack(blob)(fresh)), wanted, rtol=1e-3, atol=1e-4, name="unpack, 333 rows")
try:
    many = np.asarray(unpack(blobs[0])(np.zeros((70_001, 100), np.float32)))
    served = "answered" if np.allclose(many, models[0]["b"], rtol=1e-3, atol=1e-4) else "answered wrong"
except Exception as error:
    served = f"refused by a {type(error).__name__}"
assert_equal({"70001 rows": served}, {"70001 rows": "answered"}, name="unpack")


def called_by_export(blobs, x):
    """What the functions in these bytes return, without your unpack."""
    return [np.asarray(export.deserialize(bytearray(blob)).call(x)) for blob in blobs]


try:
    by_itself = called_by_export(blobs, fresh)
    used = np.allclose(by_itself, right_scores, rtol=1e-3, atol=1e-4)
except Exception as error:
    used = f"{type(error).__name__}: {error}"[:160]
assert_equal({"jax.export can use the bytes": used}, {"jax.export can use the bytes": True}, name="pack")
spec = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
foreign = bytes(export.export(jax.jit(lambda x: 2 * x[:, :10]))(spec).serialize())  # as pack's, made by somebody else
assert_allclose(unpack(foreign)(fresh), doubled, name="unpack, of bytes from another notebook")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "export-promises", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Each promise can be exported, and holds for exactly the sizes for which the function works."""


def promised(function, sizes=SIZES):
    """What is wrong with your promise, or else "kept"."""
    try:
        served = promise_kept(function, *promises()[function.__name__], sizes=sizes)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"cannot be exported: {type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
    wanted = native(function, sizes)
    narrow = [size for size in sizes if wanted[size] == "works" and served[size] == "refused"]
    wide = [size for size in sizes if wanted[size] == "refused" and served[size] == "works"]
    return "kept" if not narrow + wide else f"refuses {narrow}, which would work" if narrow else f"allows {wide}"


assert_equal(
    {function.__name__: promised(function) for function in FUNCTIONS},
    {function.__name__: "kept" for function in FUNCTIONS},
    name="promises",
    hints={
        "squared": "The two dimensions must be equal: give them one name.",
        "four_by_four": "Both dimensions are multiples of 4, and that is a matter of the shape.",
        "best_five": "How many columns must there be at least?",
        "to_sixteen": "How many columns may there be at most?",
    },
)
### BEGIN HIDDEN TESTS
fresh = [tuple(size) for size in np.random.default_rng().integers(1, 30, size=(12, 2)).tolist()]
fresh += [(side, side) for side in (2, 11, 28, 4000)] + [(8, 20), (28, 4), (4000, 8), (8, 4000)]
assert_equal(
    {function.__name__: promised(function, fresh) for function in FUNCTIONS},
    {function.__name__: "kept" for function in FUNCTIONS},
    name="promises",
)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · The first answer (2 points)
#
# Somebody's service is started anew on each machine that is added. No folder holds its programs there, and the first
# answer waits for every stage. The model is a tower of 24 layers of two kinds, which alternate. `tower_slow` is a Python
# loop: each layer is traced, lowered and compiled by itself.
#
# Write `tower(weights, x)`, whose **first answer in a new process** comes sooner:
#
# - it returns what `tower_slow` returns, for every even number of layers and every width, and its arguments can be used
#   again;
# - it is a jitted function, whose call is **one** compiled program, without a callback into Python;
# - its program does not get longer with the tower: the jaxpr has as many equations for 96 layers as for 4;
# - it sets up no folder for compiled programs;
# - the time to the first answer, all stages included, is measured in new processes against `tower_slow`: 2x earns
#   1 point.
#
# Without `jit` the first answer may come soon, too. But then every answer goes through Python, layer by layer.
#
# <details><summary>Hint 1</summary>
# XLA compiles what stands in the jaxpr. Write a layer down once, and let a loop of JAX's repeat it (unit 06).
# </details>
# <details><summary>Hint 2</summary>
# What goes from layer to layer is <code>x</code>. The weights already lie on a first axis, and
# <code>jax.lax.scan</code> takes one slice of it in each round. A Python <code>if</code> cannot ask which round it is:
# let one round do two layers, or choose with <code>jnp.where</code>.
# </details>
# <details><summary>Hint 3</summary>
# With <code>pairs = weights.reshape(-1, 2, *weights.shape[1:])</code>, a round gets the weights of two layers:
# <code>def two_layers(x, pair): ...; return x, None</code>, and <code>jax.lax.scan(two_layers, x, pairs)[0]</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "tower-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def layer(x, w, odd):
    """One layer. x: float32[width]; w: float32[width, width]; odd: a bool of Python's."""
    return x + (jnp.tanh(x @ w) if odd else jax.nn.relu(x @ w))


@jax.jit
def tower_slow(weights, x):
    """float32[width]. weights: float32[layers, width, width], an even number of layers; x: float32[width]."""
    for number in range(len(weights)):
        x = layer(x, weights[number], odd=number % 2 == 1)
    return x


def tower_inputs(layers, width=32, seed=None):
    """Weights of a tower and an x, NumPy float32."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(layers, width, width)) / (2 * width**0.5)
    return weights.astype(np.float32), rng.normal(size=width).astype(np.float32)


def first_call(fn, *args):
    """How many programs are compiled until fn has answered, and whether it sets a folder for compiled programs."""
    jax.clear_caches()
    with settings_restored(), trace_log(fn) as log:
        jax.config.update("jax_compilation_cache_dir", None)
        jax.block_until_ready(fn(*args))
        folder = jax.config.values["jax_compilation_cache_dir"]
    return {"programs compiled": log.compiles, "sets a folder": folder is not None}


JITTED = type(jax.jit(layer))


def is_jitted(fn):
    return isinstance(fn, JITTED)


OF_A_TOWER = {
    "jitted": "Without jit the first answer may come soon, but each later one goes through Python again: keep the jit.",
    "programs compiled": "All layers are one program: compute nothing beside it.",
    "sets a folder": "What a process leaves there, the next one finds: that is a second start. Make the program short.",
}
with trace_log(tower_slow) as log:
    tower_slow(*tower_inputs(24))
print("tower_slow, seconds to its first answer:", {stage: round(taken, 2) for stage, taken in log.seconds.items()})


# %% nbgrader={"grade": false, "grade_id": "tower", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    ### BEGIN SOLUTION
    # The body is traced, lowered and compiled once. Both kinds of layer share the product, so choosing costs nothing.
    def one_layer(x, numbered):
        odd, w = numbered
        y = x @ w
        return x + jnp.where(odd, jnp.tanh(y), jax.nn.relu(y)), None

    odd = jnp.arange(len(weights)) % 2 == 1
    return jax.lax.scan(one_layer, x, (odd, weights))[0]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "tower-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The right values, from one jitted program that is as long for 96 layers as for 4."""
assert_equal({"jitted": is_jitted(tower)}, {"jitted": True}, name="tower", hints=OF_A_TOWER)
with settings_restored():
    assert_primitives(tower, *tower_inputs(96), excludes={"pure_callback"}, smaller=tower_inputs(4))
found = first_call(tower, *tower_inputs(24))
assert_equal(found, {"programs compiled": 1, "sets a folder": False}, name="the first call of tower", hints=OF_A_TOWER)
for layers in (4, 24):
    tried = tower_inputs(layers, seed=layers)
    assert_allclose(tower(*tried), tower_slow(*tried), rtol=1e-3, atol=1e-4, name=f"tower, {layers} layers")
### BEGIN HIDDEN TESTS


def tower_by_hand(weights, x):
    """As tower_slow, which compiles each layer."""
    for number, w in enumerate(weights):
        x = x + (np.tanh(x @ w) if number % 2 else np.maximum(x @ w, 0))
    return x


rng = np.random.default_rng()
for layers, width in ((2, 7), (10, 32), (300, 3), (2 * int(rng.integers(3, 9)) + 4, int(rng.integers(1, 40)))):
    tried = tower_inputs(layers, width)
    assert_allclose(
        tower(*tried), tower_by_hand(*tried), rtol=1e-3, atol=1e-4, name=f"tower, {layers} layers of {width}"
    )
twice = jax.device_put(tower_inputs(6))
tower(*twice)
deleted = {"arguments deleted": sum(array.is_deleted() for array in twice)}
assert_equal(deleted, {"arguments deleted": 0}, name="tower")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "tower-speed", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The first answer of one jitted program in a new process, against the Python loop: 2x earns 1 point."""
assert_equal({"jitted": isinstance(tower, JITTED)}, {"jitted": True}, name="tower", hints=OF_A_TOWER)
with settings_restored():
    assert_primitives(tower, *tower_inputs(96), excludes={"pure_callback"}, smaller=tower_inputs(4))
found = first_call(tower, *tower_inputs(24))
assert_equal(found, {"programs compiled": 1, "sets a folder": False}, name="the first call of tower", hints=OF_A_TOWER)
partial_credit(speedup(tower, tower_slow, *tower_inputs(24), at_least=2, cold=True), {2: 1})
