# %% [markdown]
# # 12 · Ahead of time
#
# **Can the first request be as fast as the thousandth?**
#
# You will
#
# - take `jit` apart at its joints, and trace, lower and compile when it suits you;
# - plan a model with billions of parameters without computing a single number;
# - make the *second start* of a program cheap, past the trap of one second, and ship a program without its Python.
#
# About {duration}, in three stages (about {stage} for the first). Unit 05 explained when one process compiles twice; here
# we cross the border of the process.

# %%
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from autograder import show_guess, trace_log

print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")

# %% jupyter={"source_hidden": true}
# Helper: modules for pictures, tables and other processes
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter

import matplotlib.pyplot as plt
from IPython.display import Markdown, display
from jax.experimental.compilation_cache import compilation_cache

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. A thousand requests
#
# A service answers texts. A text is a row of at most 256 tokens (numbers that stand for words), padded to 16, 64 or 256
# of them (the buckets of unit 05). The model is a small transformer, a neural network for texts; its mathematics does not
# matter here.


# %%
def model(params, tokens, length):
    """A vector for a text. tokens: int32[bucket]; length: int32[], how many of them are real."""
    x = params["embed"][tokens]
    real = jnp.arange(tokens.size) < length
    for layer in params["layers"]:
        scores = (x @ layer["q"]) @ (x @ layer["k"]).T / 8
        x = x + jax.nn.softmax(jnp.where(real, scores, -1e9)) @ (x @ layer["v"])
        x = x + jax.nn.relu(x @ layer["up"]) @ layer["down"]
    return jnp.where(real[:, None], x, 0).sum(0) / length


BUCKETS = (16, 64, 256)


def padded(tokens):
    bucket = next(size for size in BUCKETS if size >= len(tokens))
    return np.pad(tokens, (0, bucket - len(tokens)))


# %% jupyter={"source_hidden": true}
# Helper: parameters, a thousand texts, the time of each request, and first over usual
WIDTH = 64
rng = np.random.default_rng(0)


def weights(*shape):
    return jax.device_put(rng.normal(size=shape).astype(np.float32) / 8)


square, wide, tall = (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)
shapes = {"q": square, "k": square, "v": square, "up": wide, "down": tall}
layer = {name: weights(*shape) for name, shape in shapes.items()}
params = {"embed": weights(1000, WIDTH), "layers": [layer]}

lengths = np.minimum(np.exp(rng.normal(2.6, 0.8, size=1000)), 256).astype(np.int32).clip(2)
requests = [rng.integers(0, 1000, size=n, dtype=np.int32) for n in lengths]
sizes = np.array([padded(tokens).size for tokens in requests])
firsts = [int(np.argmax(sizes == size)) for size in BUCKETS]


def latencies(answer):
    """Milliseconds of each request."""
    times = []
    for tokens in requests:
        start = time.perf_counter()
        np.asarray(answer(params, padded(tokens), np.int32(len(tokens))))
        times.append(1e3 * (time.perf_counter() - start))
    return np.array(times)


def penalty(times):
    """The first text of a size over the median of its size; the largest of the three ratios."""
    return max(times[first] / np.median(times[sizes == sizes[first]]) for first in firsts)


# %% [markdown]
# Everybody's first version has `@jax.jit` on the model, and begins to serve. `latencies` sends it a thousand texts, and
# `penalty` compares the first text of each size with the median of its size.

# %%
guess = None  # your number: how many times longer does the first of a size take? 10, 100 or 3,000?

# %%
answer = jax.jit(model)
with trace_log(model) as log:
    lazy = latencies(answer)
print(f"{log.traces} traces, {log.compiles} compiles")
show_guess(guess, penalty(lazy), "x")

# %% jupyter={"source_hidden": true}
# Proof
# One trace and one compile for each size.
assert log.traces == log.compiles == 3

# %% [markdown]
# Three texts had to wait for the compiler. The cure: **say what will come, and compile that before you begin.** Of the
# texts it takes no data, only shapes and dtypes. (Of `params` too: they may be given as they are, and only their types
# are looked at.) A `jax.ShapeDtypeStruct` stands for an array, and `lower` and `compile` (unit 01) do the rest.

# %%
text = {size: jax.ShapeDtypeStruct((size,), jnp.int32) for size in BUCKETS}
number = jax.ShapeDtypeStruct((), jnp.int32)


def compile_all():
    jax.clear_caches()
    return {size: jax.jit(model).lower(params, text[size], number).compile() for size in BUCKETS}


def answer_ahead(params, tokens, length):
    return programs[tokens.size](params, tokens, length)


programs = compile_all()
with trace_log(model) as log, jax.no_tracing(True):
    ahead = latencies(answer_ahead)
print(f"{log.traces} traces, {log.compiles} compiles")
print(f"the first text of a size takes {penalty(ahead):,.0f}x as long as usual")

# %% jupyter={"source_hidden": true}
# Proof
# Nothing is traced or compiled any more.
assert log.traces == log.compiles == 0

# %% [markdown]
# No trace, no compile (`jax.no_tracing`, the seat belt of unit 05, was on). Far better, and *still* not the same? The
# stage that is left is **run**, and the first run of a program costs more than the next one: the runtime sets things up
# when they are first needed. So compile before you open, **and rehearse**: run each program a few times on zeros.

# %%
programs = compile_all()
for size in BUCKETS * 3:
    answer_ahead(params, np.zeros(size, np.int32), np.int32(1)).block_until_ready()
rehearsed = latencies(answer_ahead)
panels = {"jit, when needed": lazy, "compiled before": ahead, "compiled and rehearsed": rehearsed}
for title, times in panels.items():
    print(f"{title:24} first over usual, at worst: {penalty(times):8,.1f}x")

# %% jupyter={"source_hidden": true}
# Picture: milliseconds of each request
fig, axes = plt.subplots(1, 3, figsize=(9, 3.3), sharey=True)
for ax, (title, times) in zip(axes, panels.items(), strict=True):
    ax.plot(np.arange(1, 1001), times, ".", color="C0", markersize=2.5)
    ax.plot([first + 1 for first in firsts], times[firsts], "o", color="C1", markersize=8)
    ax.set(xscale="log", yscale="log", xlim=(0.7, 1400), xlabel="request (log scale)", title=title)
axes[0].text(1, lazy[firsts].min() / 5, "first text of each size", color="C1")
axes[0].set_ylabel("milliseconds (log scale)")
plt.show()

# %% [markdown]
# That is the answer to our question: it can, if compiling and rehearsing both happen before the doors open. The work
# has not become less. It has moved to a time that you chose. (What scatter is left belongs to the three sizes and to
# whatever else this machine does.)
#
# What `compile()` returns is an object of class `Compiled`: one program, compiled *ahead of time*. It has no Python to
# fall back on, and that is a virtue: where `jit` silently compiles, `Compiled` refuses. Here are the same calls to both.


# %%
def over_lengths(f):
    return jax.vmap(f, (None, None, 0))(params, sixteen, np.int32([1, 2, 3]))


as_tuple = {"embed": params["embed"], "layers": tuple(params["layers"])}
sixteen = np.zeros(16, np.int32)
CALLS = {
    "the text is of type `int64`": lambda f: f(params, sixteen.astype(np.int64), np.int32(3)),
    "the length is a Python int": lambda f: f(params, sixteen, 3),
    "17 tokens": lambda f: f(params, np.zeros(17, np.int32), np.int32(3)),
    "the text is of type `uint8`": lambda f: f(params, sixteen.astype(np.uint8), np.int32(3)),
    "a tuple of layers, not a list": lambda f: f(as_tuple, sixteen, np.int32(3)),
    "`vmap` over the lengths": over_lengths,
}

# %% jupyter={"source_hidden": true}
# Table: what `jit(model)`, already warm, and a `Compiled` make of these calls
warm = jax.jit(model)
warm(params, sixteen, np.int32(3))


def outcome(call, fn):
    with trace_log(model) as log:
        try:
            call(fn)
        except TypeError as error:
            return f"`TypeError`: {str(error).split('. ')[0].split(' with input')[0].split(' from the')[0]}"
    built = [f"{n} {stage}" for n, stage in ((log.traces, "trace"), (log.compiles, "compile")) if n]
    return "answered" + (", after " + " and ".join(built) if built else "")


verdicts = {what: (outcome(call, warm), outcome(call, programs[16])) for what, call in CALLS.items()}
rows = "\n".join(f"| {what} | {lazily} | {early} |" for what, (lazily, early) in verdicts.items())
display(Markdown(f"| call | `jit(model)` | `Compiled` |\n|---|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# A `Compiled` answers the first two and refuses the others; `jit` answers all.
assert [early.split("`")[0] == "answered" for _, early in verdicts.values()] == [True, True] + 4 * [False]
assert not any("TypeError" in lazily for lazily, _ in verdicts.values())

# %% [markdown]
# The first two differ from the plan in name only: JAX reads `int64` as `int32` (unless 64 bits are switched on), and a
# Python number gives way to the type that was planned. The others are other programs. The last row is worth a note: a
# compiled program cannot be transformed. Transform first, compile last.
#
# ## 2. Three objects on the way
#
# Between your function and a `Compiled` there are two more objects. You can stop at each. What does each of them know?

# %%
traced = jax.jit(model).trace(params, text[64], number)
lowered = traced.lower()
compiled = lowered.compile()

# %% jupyter={"source_hidden": true}
# Table: what each of the three objects knows
dots = lowered.as_text().count("stablehlo.dot_general")
temporary = compiled.memory_analysis().temp_size_in_bytes
result = f"{traced.out_info.dtype}[{traced.out_info.shape[0]}]"
Markdown(f"""
| you hold | made from | knows | for example |
|---|---|---|---|
| `{type(traced).__name__}` | Python | jaxpr, result type | {len(traced.jaxpr.eqns)} equations, `{result}` |
| `{type(lowered).__name__}` | jaxpr | StableHLO | {dots} `dot_general` |
| `{type(compiled).__name__}` | StableHLO | optimised HLO, memory | {temporary:,} bytes of temporaries |
""")

# %% [markdown]
# The first one alone answers a surprising number of questions, at the price of running your Python once. That is
# `jax.eval_shape`: it traces, and gives you the result's shapes and dtypes. Nothing is compiled, nothing is computed,
# **no array is made**. So the sizes do not matter. Here is a language model of the largest kind: 85 layers, 8,192 numbers
# for each token. `init` makes its parameters, `loss` says how badly it foretells a text.


# %% jupyter={"source_hidden": true}
# Helper: the language model
def init(key, layers, width, vocabulary):
    def normal(i, *shape):
        return jax.random.normal(jax.random.fold_in(key, i), shape, jnp.bfloat16)

    square, wide, tall = (width, width), (width, 4 * width), (4 * width, width)
    shapes = {"q": square, "k": square, "v": square, "o": square, "up": wide, "down": tall}
    stack = {name: normal(i, layers, *shape) for i, (name, shape) in enumerate(shapes.items())}
    return {"embed": normal(99, vocabulary, width), "layers": stack}


def block(x, layer):
    """One layer of a transformer, with heads of 64 numbers. x: bfloat16[rows, tokens, width]."""
    q, k, v = (jnp.reshape(x @ layer[name], (*x.shape[:2], -1, 64)) for name in "qkv")
    x = x + jax.nn.dot_product_attention(q, k, v).reshape(x.shape) @ layer["o"]
    x = x + jax.nn.relu(x @ layer["up"]) @ layer["down"]
    return x, None


def loss(params, tokens, block=block):
    x, _ = jax.lax.scan(block, params["embed"][tokens], params["layers"])
    logits = (x @ params["embed"].T).astype(jnp.float32)
    return jax.nn.logsumexp(logits, -1).mean() - jnp.take_along_axis(logits, tokens[..., None], -1).mean()


def nbytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


# %%
guess = None  # your number: ms for the sizes of 70 billion parameters? 100, 5,000, 60,000?

# %%
key = jax.eval_shape(lambda: jax.random.key(0))
tokens = jax.ShapeDtypeStruct((8, 1024), jnp.int32)
start = time.perf_counter()
with trace_log() as log:
    large = jax.eval_shape(lambda key: init(key, layers=85, width=8192, vocabulary=128_000), key)
    gradient = jax.eval_shape(jax.grad(loss), large, tokens)
planned = 1e3 * (time.perf_counter() - start)
count = sum(leaf.size for leaf in jax.tree.leaves(large))
print(f"{count / 1e9:.1f} billion parameters, {nbytes(large) / 1e9:.0f} GB")
print(f"{log.compiles} programs compiled")
show_guess(guess, planned, "ms")

# %% jupyter={"source_hidden": true}
# Proof
# Nothing was compiled, and the gradient has the shapes of the parameters.
assert log.compiles == 0 and jax.tree.map(jnp.shape, large) == jax.tree.map(jnp.shape, gradient)

# %% [markdown]
# So you can plan. Will a training step fit on an accelerator with 80 GB? It holds the parameters, the gradient, and
# whatever the forward pass keeps for the backward pass. The rule that turns a gradient into a step (the *optimiser*,
# unit 14) may hold more: Adam, a usual one, has two arrays for each parameter, here in `float32`, which is twice the
# bytes of `bfloat16`. What the forward pass keeps is the one part that nobody can guess, and `eval_shape` tells it as
# well: the function that `jax.vjp` returns is a [pytree](00_before_you_start.ipynb#The-words), and its leaves are
# exactly the arrays that it keeps. A smaller model now, of 24 layers. How many rows of 1,024 tokens fit?

# %%
small = jax.eval_shape(lambda key: init(key, layers=24, width=2048, vocabulary=50_000), key)


def kept(rows, block):
    """Bytes that the forward pass keeps for the backward pass, for a batch of so many rows."""
    batch = jax.ShapeDtypeStruct((rows, 1024), jnp.int32)

    def backward(params, tokens):
        return jax.vjp(lambda params: loss(params, tokens, block), params)[1]

    return nbytes(jax.eval_shape(backward, small, batch))


layers = {"all kept": block, "with jax.checkpoint": jax.checkpoint(block)}
with trace_log() as log:
    a_row = {name: kept(2, layer) - kept(1, layer) for name, layer in layers.items()}
fixed = {"parameters and gradient": 2 * nbytes(small), "Adam": 4 * nbytes(small)}
fits = {name: int((80e9 - sum(fixed.values())) // size) for name, size in a_row.items()}
print("rows that fit:", fits)

# %% jupyter={"source_hidden": true}
# Picture: bytes of a training step, by rows in a batch
rows, floor = np.arange(0, 33), 0.0
fig, ax = plt.subplots(figsize=(7.5, 3.6))
for (name, size), colour in zip(fixed.items(), ("C0", "#bbbbbb"), strict=True):
    ax.fill_between(rows, floor, floor + size / 1e9, color=colour)
    ax.text(32.5, floor + size / 2e9, name, va="center")
    floor += size / 1e9
kept_gb, remat_gb = (floor + rows * size / 1e9 for size in a_row.values())
ax.fill_between(rows, floor, kept_gb, color="C1", alpha=0.85)
ax.plot(rows, remat_gb, color="#222222", linestyle="--")
ax.text(32.5, remat_gb[-1] + 2, "with jax.checkpoint", va="center")
ax.axhline(80, color="#222222", linewidth=1)
ax.text(0.3, 82, "80 GB")
ax.text(17, 55, "kept for the\nbackward pass", color="white", weight="bold", ha="center", va="center")
ax.set(xlim=(0, 32), ylim=(0, 110), xlabel="rows of 1,024 tokens in a batch", ylabel="GB")
ax.set_title("A training step, as planned")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Nothing was compiled, and with jax.checkpoint more rows fit.
assert log.compiles == 0 and 0 < fits["all kept"] < fits["with jax.checkpoint"]

# %% [markdown]
# Not one array was made for this picture. (`jax.checkpoint`, unit 11, keeps only the inputs of each layer.) It is the
# plan as JAX sees it. XLA then adds temporaries of its own, and drops others: for the last word, `compile()` for your
# device and ask `memory_analysis()`.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: compiled programs that outlive the process, and when they are found again.*

# %% [markdown]
# ## 3. The second start
#
# Everything so far dies with the process. JAX can keep compiled programs on disk: the
# **[persistent compilation cache](https://docs.jax.dev/en/latest/persistent_compilation_cache.html)**. In June 2024
# somebody read the documentation, wrote this (JAX issue 21908), looked into the folder, and asked "Is there something I
# am missing?"
#
# ```python
# cache_dir = "/tmp/jax_cache/"
# jax.config.update("jax_compilation_cache_dir", cache_dir)
#
# def f(x, y):
#     return jax.numpy.matmul(x, y)
#
# x = jax.numpy.ones((2, 2))
# jax.jit(f)(x, x.T)
# ```

# %%
guess = None  # your number: files in the folder afterwards


# %% jupyter={"source_hidden": true}
# Helper: a cache in a folder, for a while; what JAX reports of it; a start of the posted program
@contextlib.contextmanager
def cache_in(folder, **settings):
    """Let JAX keep compiled programs in `folder`. Afterwards the configuration is what it was."""
    settings = {"jax_compilation_cache_dir": str(folder), **settings}
    before = {name: jax.config.values[name] for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()  # or JAX stays with the folder that it used first
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


@contextlib.contextmanager
def cache_events():
    """Counts what JAX reports about the persistent cache."""
    counts = Counter()

    def heard(event, **_):
        if event.startswith("/jax/compilation_cache/"):
            counts[event.rsplit("/", 1)[1]] += 1

    jax.monitoring.register_event_listener(heard)
    try:
        yield counts
    finally:
        jax.monitoring.unregister_event_listener(heard)


EVENTS = ("compile_requests_use_cache", "cache_hits", "cache_misses")


def replayed(folder, **settings):
    """(compilations asked of the cache, hits, misses, files afterwards) of the posted program, in a fresh start."""
    jax.clear_caches()  # all that this process remembers, as if it were new
    with cache_in(folder, **settings), cache_events() as counts:
        posted()
    return *(counts[event] for event in EVENTS), len(list(Path(folder).glob("*-cache")))


# %%
def posted():
    def f(x, y):
        return jax.numpy.matmul(x, y)

    x = jax.numpy.ones((2, 2))
    jax.jit(f)(x, x.T)


with tempfile.TemporaryDirectory() as folder:
    replay = {"as posted": replayed(folder)}
show_guess(guess, replay["as posted"][3], "files")

# %% [markdown]
# The same with one option set, in another folder, and then a second start:

# %%
AT_ONCE = {"jax_persistent_cache_min_compile_time_secs": 0.0}
with tempfile.TemporaryDirectory() as folder:
    replay["with the threshold 0"] = replayed(folder, **AT_ONCE)
    replay["the same, started again"] = replayed(folder, **AT_ONCE)

# %% jupyter={"source_hidden": true}
# Table: what JAX reports of the three starts, and the files
rows = "\n".join(f"| {name} | {' | '.join(map(str, row))} |" for name, row in replay.items())
names = " | ".join(f"`{event}`" for event in EVENTS)
display(Markdown(f"| | {names} | files |\n|---|---|---|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# Fewer files as posted; with the threshold 0 all are written, and all are found by the next start.
asked, _, written, files = replay["with the threshold 0"]
assert replay["as posted"][3] < files and asked == written == files
assert replay["the same, started again"] == (asked, asked, 0, files)

# %% [markdown]
# Nothing was missing but patience: **by default JAX writes down only what took at least one second to compile**
# (`jax_persistent_cache_min_compile_time_secs`). The rule keeps the number of files down. But a project made of many
# small programs falls through it as a whole, and nothing is said. Look at the first row: no hit, *and no miss*.
# `cache_misses` counts what was **written**. What was too quick is counted nowhere, so a service that watches hits and
# misses sees silence.
#
# The answer in the thread sets two options: the threshold to `0.0000000000001`, and `..._min_entry_size_bytes` to 1. A
# plain 0 does, as you see, and the size needs no setting. The defaults today:

# %%
for option in ("min_compile_time_secs", "min_entry_size_bytes"):
    name = f"jax_persistent_cache_{option}"
    print(f"{name}: {jax.config.values[name]} by default")

# %% [markdown]
# The thresholds are about writing. Whoever only reads needs the folder alone.
#
# ## 4. What is in the folder, and when is it found?
#
# For each program a file: its machine code, compressed, and how long the compiler took. The name of the file is the key.
# What is in the key? Start a first program with an empty folder, forget everything, and start a second one with a small
# change. Does it find the file of the first?

# %%
FIRST = """
table = np.ones(3, np.float32)
def score(x):
    return jnp.tanh(x) * 2.0 + table
jit(score)(np.full(3, 7.0, np.float32))
"""
CHANGES = [  # a piece of the text, and what stands there in the second program
    ("", ""),
    ("7.0", "8.0"),
    ("(x):", "(x):  # by others\n    unused = jnp.sin(x)"),
    ("(np.full(3, 7.0, np.float32))", ".lower(np.ones(3, np.float32)).compile()"),
    ("score", "points"),
    ("jnp.tanh(x) * 2.0", "2.0 * jnp.tanh(x)"),
    ("2.0", "3.0"),
    ("np.ones(3", "np.zeros(3"),
    ("np.full(3", "np.full((1, 3)"),
    ("jit(score)", "jit(score, donate_argnums=0)"),
    ("jit(score)", 'jit(score, compiler_options={"xla_cpu_enable_fast_math": True})'),
]

# %%
guess = None  # your number: how many of the eleven second programs are found?


# %% jupyter={"source_hidden": true}
# Helper: a program, run as by a new process
def start(program):
    """Whether its program was found, whether it was traced, and how many programs it asked the cache for."""
    jax.clear_caches()
    with cache_events() as counts, trace_log() as log:
        exec(program, {"jnp": jnp, "np": np, "jit": jax.jit})
    return counts["cache_hits"] == 1, log.seconds["trace"] > 0, counts["compile_requests_use_cache"]


# %%
with tempfile.TemporaryDirectory() as folder, cache_in(folder, **AT_ONCE):
    first = start(FIRST)
    restarts = [start(FIRST.replace(old, new)) for old, new in CHANGES]
hits = [hit for hit, _, _ in restarts]
show_guess(guess, sum(hits), "programs")

# %% jupyter={"source_hidden": true}
# Table: which of them are found
lines = ["| changed | into | found |", "|---|---|:-:|"]
for (old, new), hit in zip(CHANGES, hits, strict=True):
    old, new = (f"`{part}`".replace("\n", "`<br>`") if part else "" for part in (old, new))
    lines.append(f"| {old or 'nothing'} | {new} | {'✓' if hit else '✗'} |")
display(Markdown("\n".join(lines)))

# %% jupyter={"source_hidden": true}
# Proof
# The first four are found and no other; every one of them is traced.
assert first == (False, True, 1) and all(requests == 1 for *_, requests in restarts)
assert hits == 4 * [True] + 7 * [False] and all(traced for _, traced, _ in restarts)

# %% [markdown]
# The key is a hash of **the StableHLO**, its name included, and of all that decides what XLA makes of it: compiler
# options, `XLA_FLAGS`, the version of jaxlib, the kind of device. Python is not in it. So comments, names of variables,
# line numbers and dead code do not matter. But everything that does reach the StableHLO matters to the bit: a captured
# array, a constant, the order of two operands, the name of the function.
#
# That is how caches fail in real projects. A time stamp that became a constant, a function named after a run, a loop
# over a `set` of strings (whose order differs in every process): each start writes new files, and finds none. In the
# exercise you will repair such a program.
#
# And the other half: all eleven second programs **were traced**. The key is made from the StableHLO, so JAX must have
# it before it can look. The cache skips XLA. It cannot skip your Python.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: a program in a file, for every batch size, and what each way to start skips.*

# %% [markdown]
# ## 5. A program without its Python
#
# What would skip your Python is a file that contains the StableHLO itself.
# [`jax.export`](https://docs.jax.dev/en/latest/501/export.html) makes one. Let one dimension of its input be a name,
# `b`, instead of a number, so that one file will do for every batch size:


# %%
def classifier(weights, images):
    """Scores of ten classes. images: float32[b, 100]; returns float32[b, 10]."""
    return jnp.tanh(images @ weights["in"]) @ weights["out"]


trained = {"in": weights(100, 32), "out": weights(32, 10)}
shape = export.symbolic_shape("b, 100")
images = jax.ShapeDtypeStruct(shape, jnp.float32)
with jax.default_matmul_precision("highest"):  # unit 10; it goes into the file
    exported = export.export(jax.jit(classifier))(trained, images)
artifact = exported.serialize()

print(f"{len(artifact):,} bytes, for {exported.platforms}")
print(f"{exported.in_avals[-1]} -> {exported.out_avals[0]}")
line = next(line for line in exported.mlir_module().splitlines() if "dot_general" in line)
print(line.split(" loc(")[0].strip())

# %% [markdown]
# (`?` in the StableHLO stands for `b`.) Now the file is read again, and called with batches of four sizes, twice each.

# %%
guess = None  # your number: how often does XLA compile?

# %%
loaded = export.deserialize(artifact)
batches = [rng.normal(size=(b, 100)).astype(np.float32) for b in (1, 2, 7, 64)]
with trace_log(classifier) as log:
    results = [loaded.call(trained, batch) for batch in batches * 2]
print("traces of classifier:", log.traces)
show_guess(guess, log.compiles, "times")

# %% jupyter={"source_hidden": true}
# Proof
# The results are the classifier's; no trace, and one compile for each size.
for result, batch in zip(results, batches * 2, strict=True):
    hidden = np.tanh(batch @ np.asarray(trained["in"]))
    np.testing.assert_allclose(result, hidden @ np.asarray(trained["out"]), rtol=1e-3, atol=1e-4)
assert (log.traces, log.compiles) == (0, 4)

# %% [markdown]
# "If your batch size changes, it compiles again", says one of the old posts on `jit`. True, then and now: machine code
# has a shape. But it need not be *traced* again, and the Python need not be there: delete `classifier`, and the file
# still works, in any process with JAX.
#
# What else will it do, and what not?

# %%
differentiable = export.deserialize(exported.serialize(vjp_order=1))
here = export.default_export_platform()
elsewhere = [platform for platform in ("tpu", "cuda", "cpu") if platform != here][:2]
abroad = export.export(jax.jit(classifier), platforms=elsewhere)(trained, *exported.in_avals[-1:])


def ask(images, program=loaded):
    return program.call(trained, images)


slopes = jax.grad(lambda x: ask(x, differentiable).sum())
five = np.ones((5, 100), np.float32)
TRIALS = {
    "inside another `jit`": (lambda x: ask(x) + 1, five),
    "images of 99 numbers": (ask, five[:, 1:]),
    "`int32` images": (ask, five.astype(np.int32)),
    "`grad`": (jax.grad(lambda x: ask(x).sum()), five),
    "`grad`, after `serialize(vjp_order=1)`": (slopes, five),
    "`vmap`": (jax.vmap(ask), five[None]),
    f"exported for `platforms={elsewhere}`": (lambda x: ask(x, abroad), five),
}


# %% jupyter={"source_hidden": true}
# Table: what became of each
def trial(fn, images):
    try:
        result = jax.jit(fn).lower(images).out_info  # as far as the lowering: no answer below comes from XLA
    except (ValueError, NotImplementedError) as error:
        return f"`{type(error).__name__}`: {str(error).splitlines()[0].split('. ')[0]}"
    return f"`{result.dtype}{list(result.shape)}`"


told = {what: trial(*case) for what, case in TRIALS.items()}
rows = "\n".join(f"| {what} | {outcome} |" for what, outcome in told.items())
display(Markdown(f"| asked of the file, on `{here}` | outcome |\n|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# Which of the seven are refused.
assert ["Error" in outcome for outcome in told.values()] == [False, True, True, True, False, True, True]

# %% [markdown]
# The last row is the other use of export: it **lowered for hardware that this machine does not have**. You can find out
# on a laptop that a program cannot be lowered for a TPU, and ship one file for `platforms=["cpu", "cuda", "tpu"]`.
#
# ### A dimension with a name
#
# `b` is neither a number nor a tracer. It is a symbol that stands for every whole number from 1 up, and JAX calculates
# with it. Now your Python must be right **for all `b` at once**. Which of these nine can be exported?


# %%
def by_scan(x):
    return jax.lax.scan(lambda c, r: (c + r, 0), x[0], x)[0]


DIMENSIONS = {  # what: (function, shape, and what is promised of b besides)
    "`x[1:] - x[:-1]`": (lambda x: x[1:] - x[:-1], "b, 100", ()),
    "`x.sum(0) / x.shape[0]`": (lambda x: x.sum(0) / x.shape[0], "b, 100", ()),
    "`x @ x.T`": (lambda x: x @ x.T, "b, 100", ()),
    "`x.reshape(-1, 2, 100)`": (lambda x: x.reshape(-1, 2, 100), "b, 100", ()),
    "the same": (lambda x: x.reshape(-1, 2, 100), "2*b, 100", ()),
    "`x if len(x) > 10 else -x`": (lambda x: x if x.shape[0] > 10 else -x, "b, 100", ()),
    "the same ": (lambda x: x if x.shape[0] > 10 else -x, "b, 100", ("b >= 11",)),
    "`for i in range(len(x))`": (lambda x: sum(x[i] for i in range(x.shape[0])), "b, 100", ()),
    "`lax.scan` over the rows": (by_scan, "b, 100", ()),
}


# %% jupyter={"source_hidden": true}
# Table: the type of the result, or the error
def export_outcome(fn, shape, constraints):
    spec = jax.ShapeDtypeStruct(export.symbolic_shape(shape, constraints=constraints), jnp.float32)
    try:
        return f"`{export.export(jax.jit(fn))(spec).out_avals[0].str_short()}`"
    except Exception as error:
        return f"`{type(error).__name__}`"


results = {what: export_outcome(*case) for what, case in DIMENSIONS.items()}
rows = ["| function | shape | result |", "|---|---|---|"]
for what, (_, shape, constraints) in DIMENSIONS.items():
    rows.append(f"| {what} | {', '.join(f'`{part}`' for part in (shape, *constraints))} | {results[what]} |")
display(Markdown("\n".join(rows)))

# %% jupyter={"source_hidden": true}
# Proof
# Three of the nine fail.
failed = [what for what, result in results.items() if result.endswith(("Operation`", "Error`"))]
assert failed == ["`x.reshape(-1, 2, 100)`", "`x if len(x) > 10 else -x`", "`for i in range(len(x))`"]

# %% [markdown]
# `InconclusiveDimensionOperation` means: true for some `b`, false for others. You decide which you want to promise, by
# the shape (`2*b` is even) or by a constraint (`b >= 11`). The promise is checked when the file is called. A Python loop
# over the rows has no length to run to; a `lax.scan` has, and is lowered once for all.
#
# ## 6. Who skips what?
#
# A program's start, in one picture. A first process fills the cache, exports, and saves a compiled program as it is
# (`jax.experimental.serialize_executable`). A second process starts in each of several ways, five times each, and
# reports what JAX itself noted of the start whose total time is the median, in milliseconds.

# %% jupyter={"source_hidden": true}
# Helper: the script of both processes
START = r"""
import json, pickle, sys, time
from collections import Counter
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from jax import export
from jax.experimental import serialize_executable as executables
from jax.experimental.compilation_cache import compilation_cache

folder, w, x = Path(sys.argv[1]), np.ones((64, 64), np.float32), np.ones((16, 64), np.float32)
spent, runs = Counter(), []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: spent.update({event.split("/")[-1]: 1e3 * seconds})
)

def loss(w, x):
    for _ in range(4):
        x = jnp.tanh(x @ w)
    return (x * x).mean()

def step(w, x):
    runs.append("Python")
    return w - 0.1 * jax.grad(loss)(w, x)

def start(call, cached):
    jax.clear_caches()
    jax.config.update("jax_compilation_cache_dir", str(folder / "cache") if cached else None)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()
    spent.clear(), runs.clear()
    begin = time.perf_counter()
    jax.block_until_ready(call())
    total = 1e3 * (time.perf_counter() - begin)
    trace = spent["jaxpr_trace_duration"] if runs else 0  # else of JAX's own wrapper
    read = spent["cache_retrieval_time_sec"]
    compiling = 0 if read else spent["backend_compile_duration"]  # this event comes for a hit as well
    return [trace, spent["jaxpr_to_mlir_module_duration"], compiling, read, total]

def from_artifact(name="artifact"):
    return export.deserialize(bytearray((folder / name).read_bytes())).call(w, x)

def from_executable():
    saved = pickle.loads((folder / "executable").read_bytes())
    first = jax.devices()[:1]  # where it ran when it was saved; without this, it expects an argument for each device
    return executables.deserialize_and_load(*saved, execution_devices=first)(w, x)

if sys.argv[2] == "prepare":
    rows = jax.ShapeDtypeStruct(export.symbolic_shape("b, 64"), jnp.float32)
    (folder / "artifact").write_bytes(export.export(jax.jit(step))(w, rows).serialize())
    (folder / "tiny").write_bytes(export.export(jax.jit(jnp.dot))(w, w[:, :16]).serialize())
    compiled = jax.jit(step).lower(w, x).compile()
    (folder / "executable").write_bytes(pickle.dumps(executables.serialize(compiled)))
    start(lambda: jax.jit(step)(w, x), True)
    start(from_artifact, True)
else:
    x = w[:, :16]
    once = start(lambda: from_artifact("tiny"), False)[-1]  # what any first exported program pays for imports
    x = np.ones((16, 64), np.float32)
    ways = {
        "jit": (lambda: jax.jit(step)(w, x), False),
        "jit, persistent cache": (lambda: jax.jit(step)(w, x), True),
        "export": (from_artifact, False),
        "export, persistent cache": (from_artifact, True),
        "saved executable": (from_executable, False),
    }
    five = {way: sorted((start(*how) for _ in range(5)), key=lambda times: times[-1]) for way, how in ways.items()}
    print(json.dumps([once, {way: times[2] for way, times in five.items()}]))
"""


def process(folder, role):
    # A GPU's memory belongs to this process already: the others must not ask for most of it.
    modest = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-c", START, folder, role]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=modest).stdout


# %%
with tempfile.TemporaryDirectory() as folder:
    process(folder, "prepare")
    once, ways = json.loads(process(folder, "start"))  # trace, lower, compile, read, total
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    kilobytes = {path.name.split("-")[0]: round(path.stat().st_size / 1e3) for path in files}
print(f"In every process the first exported program pays for imports as well: {once:.0f} ms.")
print("That is left out below. KB of each file:", kilobytes)

# %% jupyter={"source_hidden": true}
# Picture: what each way skips, and the time until the first result
stages = ["your Python\n(trace)", "lower", "XLA\n(compile)", "read the\ncache"]
table = np.array([values[:4] for values in ways.values()])
total = np.array([values[4] for values in ways.values()])
fig, (ax, bars) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=(2.2, 1), sharey=True)
ax.imshow(table > 0, cmap=plt.matplotlib.colors.ListedColormap(["white", "#F3C9A5"]), aspect="auto")
for (row, column), value in np.ndenumerate(table):
    text_, colour = (f"{value:.0f} ms", "black") if value else ("skipped", "#999999")
    ax.text(column, row, text_, ha="center", va="center", color=colour)
ax.set_xticks(range(4), stages)
ax.set_yticks(range(len(ways)), ways)
ax.xaxis.tick_top()
ax.tick_params(length=0)
ax.grid(False)
ax.spines[:].set_visible(False)
bars.barh(range(len(ways)), total, color="C0", height=0.6)
for row, value in enumerate(total):
    bars.text(value, row, f" {value:.0f}", va="center")
bars.set(xlim=(0, 1.2 * total.max()), xticks=())
bars.set_title("until the first result (ms)", loc="left", size=10, weight="normal")
bars.tick_params(axis="y", length=0)
bars.grid(False)
bars.spines[:].set_visible(False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Which stages each way skips.
skipped = {way: tuple(value == 0 for value in values[:4]) for way, values in ways.items()}
assert list(skipped.values()) == [
    (False, False, False, True),
    (False, False, True, False),
    (True, False, False, True),
    (True, False, True, False),
    (True, True, True, True),
]

# %% [markdown]
# - **`jit`** pays for everything, at the moment when it hurts.
# - **`.lower().compile()`** pays the same, earlier. (It is no row of its own: the same stages.)
# - **The persistent cache** skips XLA. It is the one with the least to lose: when anything has changed, it compiles.
# - **Export** skips your Python. It carries StableHLO, in a form that JAX's documentation promises to read for six
#   months of newer versions. It fits other sizes and platforms, and is compiled where it runs. With the cache, little
#   is left.
# - **A saved executable** skips all of it. It is machine code for this jaxlib on this kind of machine, in an
#   experimental module; do not count on it for another.
#
# One warning for all three kinds of file: they are code. Whoever can write into the folder can run programs as you.
#
# ### The very first answer
#
# Every row but the first needs a process that came before. On a new machine with an empty folder there is none, and then
# one thing helps: less to build. Here is a deep model with a Python loop over its layers, and the same with `jax.lax.scan`
# (unit 06), which writes its body down once. How long until the first answer?


# %%
def looped(weights, x):
    for number in range(len(weights)):
        x = jnp.tanh(x @ weights[number])
    return x


def scanned(weights, x):
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


guess = None  # your number: with 24 layers, the loop's first answer takes how many times as long as the scan's?


# %%
def first_answer(model, layers):
    """Milliseconds until a model that was never called has answered, by stage."""
    weights, x = np.ones((layers, 32, 32), np.float32) / 32, np.ones(32, np.float32)
    jax.clear_caches()
    with trace_log() as log:
        jax.jit(model)(weights, x).block_until_ready()
    return {stage: 1e3 * taken for stage, taken in log.seconds.items()}


first_answer(scanned, 2)  # what only the first program of a process pays
depths = {(model.__name__, n): first_answer(model, n) for model in (looped, scanned) for n in (6, 24)}
waits = {case: sum(stages.values()) for case, stages in depths.items()}
show_guess(guess, waits["looped", 24] / waits["scanned", 24], "x")

# %% jupyter={"source_hidden": true}
# Table: milliseconds of each stage
lines = ["| model | layers | trace | lower | compile |", "|---|---|---|---|---|"]
for (name, n), stages in depths.items():
    lines.append(f"| `{name}` | {n} | {stages['trace']:.0f} | {stages['lower']:.0f} | {stages['compile']:.0f} |")
display(Markdown("\n".join(lines)))

# %% jupyter={"source_hidden": true}
# Proof
# The loop's program grows with the layers and the scan's does not; the same values; the scan is there first.
lengths = {}
for model, n in depths:
    shapes = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((n, 32, 32), (32,)))
    lengths[model, n] = jax.jit({"looped": looped, "scanned": scanned}[model]).lower(*shapes).as_text().count("\n")
assert lengths["scanned", 24] == lengths["scanned", 6] and lengths["looped", 24] > 3 * lengths["looped", 6]
probe = rng.normal(size=(24, 32, 32)).astype(np.float32) / 8, rng.normal(size=32).astype(np.float32)
np.testing.assert_allclose(jax.jit(looped)(*probe), jax.jit(scanned)(*probe), rtol=1e-2, atol=1e-3)
assert waits["looped", 24] > 1.5 * waits["scanned", 24]

# %% [markdown]
# The loop pays for each layer, in every stage. The scan pays for one, however many there are.
#
# ## What older posts say
#
# The first two are from the posts on `jit` that this course answers. The others are from JAX's documentation of 2023 and
# 2024 and from the thread above.

# %% jupyter={"source_hidden": true}
# Table: claims, and what was measured above and here
with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, cache_in(one, **AT_ONCE):
    jax.jit(lambda x: x - 1)(1.0)
    jax.config.update("jax_compilation_cache_dir", other)
    jax.jit(lambda x: x - 2)(1.0)
    moved = [len(list(Path(folder).iterdir())) for folder in (one, other)]


def with_callback(x):
    return jax.pure_callback(np.sin, x, x)


with tempfile.TemporaryDirectory() as folder, cache_in(folder, **AT_ONCE):
    jax.jit(with_callback)(np.float32(1))
    kept_callback = len(list(Path(folder).iterdir()))

compiled_ahead = f"{penalty(lazy):,.0f}x; compiled and rehearsed {penalty(rehearsed):.1f}x"
claims = [
    ("“if your batch size changes, it compiles again”", "✓", "4 sizes, 4 compiles; from a file without a trace"),
    ("the first call is slow: warm up", "✓", compiled_ahead),
    ("the cache needs its folder, and no more", "✗", f"{replay['as posted'][3]} files: one second"),
    ("the least entry size must be set too", "✗", f"{written} of {asked} are written without"),
    ("set the folder before the first compilation", "half", f"later works; *changing* it does not: {moved} files"),
    ("functions with callbacks are not cached", "see right", f"files in JAX {jax.__version__}: {kept_callback}"),
    (
        "ahead-of-time compilation controls lowering and compiling, not tracing",
        "✗",
        f"`.trace()` gives a `{type(traced).__name__}`",
    ),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# A folder that is changed later stays empty.
assert moved == [2, 0]

# %% [markdown]
# ## Keypoints
#
# - `jax.jit(f).lower(*shapes).compile()` before the doors open; then rehearse. A `Compiled` refuses what it was not
#   compiled for, and cannot be transformed.
# - `jax.eval_shape` plans at the price of a trace: parameters, gradients, even what the backward pass will keep.
# - The persistent cache needs a folder **and** `jax_persistent_cache_min_compile_time_secs = 0`. `cache_misses` counts
#   what was written; what was too quick is not counted.
# - Its key is the StableHLO, to the bit, with versions and options. Time stamps, run numbers and sets move it.
# - The cache skips XLA and not your Python; export skips your Python and not XLA.
# - A symbolic dimension is a promise about all sizes. `2*b` and constraints make it smaller.
# - The very first answer waits for all that must be built. A scan over equal layers is built once.
#
# ## Your turn
#
# [Exercise 12](../exercises/12_ahead_of_time/ahead_of_time.ipynb): predict the stages, plan a model that does not fit,
# open a server that never compiles, find the second, hold a key still, write shapes that keep a promise, and bring the
# first answer of a new process sooner. 22 points.
