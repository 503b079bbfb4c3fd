# %% [markdown]
# # 15 · Profile and roofline
#
# **A step of your program is slow. Which line is to blame, and how fast could that line have been?**
#
# You will
#
# - record a profile and read it right here, without TensorBoard, and lead the hot operation back to its line;
# - see loops and waiting for what they are in a timeline;
# - measure the two limits of your machine, predict which one holds a program, and then measure;
# - follow memory from line to line, and open a recording in Perfetto.
#
# About {duration}, in three stages (about {stage} for the first). You need the clocks of unit 01, the fusions and bytes
# of unit 09, and, for the last stage, the live arrays of unit 11.

# %% jupyter={"source_hidden": true}
# Helper: a setting that a GPU needs before JAX starts; modules for files, times and pictures
import gc
import gzip
import json
import linecache
import os
import tempfile
import textwrap
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

# A GPU can run several operations as one recorded batch, and a profile then does not name them.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_command_buffer="
plt.style.use("autograder.course")

# %%
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import roofline as static_roofline

from autograder import benchmark, roofline, show_guess, show_hlo, show_jaxpr

print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")

# %% [markdown]
# ## 1. Four suspects
#
# A small piece of a network, in four parts: a matrix product, a squashing of its values, a clipping of outliers, and a
# softmax, which turns each row into positive numbers with the sum 1.


# %%
def mix(W, X):
    return W @ X


def squash(h):
    return jnp.tanh(h)


def clip(h):
    limit = 3 * jnp.median(jnp.abs(h))  # three times the typical size is enough
    return jnp.clip(h, -limit, limit)


def score(h):
    return jax.nn.softmax(h, axis=-1)


# %% [markdown]
# `jax.named_scope` gives each part a name. It costs nothing: the name is written beside every operation, into the jaxpr
# and on into XLA.


# %%
def step(W, X):
    with jax.named_scope("mix"):
        h = mix(W, X)
    with jax.named_scope("squash"):
        h = squash(h)
    with jax.named_scope("clip"):
        h = clip(h)
    with jax.named_scope("score"):
        return score(h)


W, X = jax.random.normal(jax.random.key(0), (2, 384, 384)) / 384**0.25
inputs = {mix: (W, X), squash: (X,), clip: (X,), score: (X,)}
for part, arguments in inputs.items():
    print(f"{part.__name__:8} {show_jaxpr(part, *arguments).flops:>12,} FLOPs")

# %% [markdown]
# (FLOPs are floating-point operations: additions, multiplications and their like.) One of the four takes most of the
# time. We ask a **profile**: a recording of what ran, on which thread, from when to when. To make one, put the calls into
# `jax.profiler.trace(folder)`. Two rules come with it:
#
# - **Call once before**, or you will look at a compilation.
# - **Wait inside.** A call returns before its work is done (unit 01), and the recording stops when the block is left.

# %%
jitted = jax.jit(step)


def profile(fn, *args, calls=3):
    """Record `calls` awaited calls of fn(*args), each inside an event of our own, "my call"."""
    jax.block_until_ready(fn(*args))
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # 1, the default, records every call of a Python function, too
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            for _ in range(calls):
                with jax.profiler.TraceAnnotation("my call"):
                    jax.block_until_ready(fn(*args))
        return read_profile(folder)


# %% [markdown]
# What is written is one file, `*.xplane.pb`. Many posts send it to TensorBoard, a program for looking at training runs. But
# JAX reads it itself:

# %% jupyter={"source_hidden": true}
# Helper: an event of a profile
warnings.filterwarnings("ignore", "builtin type event_stats")  # on Python 3.13 that type warns about itself


class Event(NamedTuple):
    """One event of a profile. Times in milliseconds; `op` is the name of an HLO operation, or None."""

    thread: str
    name: str
    start: float
    length: float
    op: str | None


def as_event(plane, line, event):
    thread, op = f"{plane.name} {line.name}", dict(event.stats).get("hlo_op")
    return Event(thread, event.name, event.start_ns / 1e6, event.duration_ns / 1e6, op)


# %%
def read_profile(folder):
    """The events of the one profile in `folder`, by their start."""
    (path,) = Path(folder).rglob("*.xplane.pb")
    planes = jax.profiler.ProfileData.from_file(str(path)).planes
    lines = [(plane, line) for plane in planes for line in plane.lines]
    events = [as_event(plane, line, event) for plane, line in lines for event in line.events]
    return sorted(events, key=lambda event: event.start)


events = profile(jitted, W, X)
for thread, number in Counter(event.thread for event in events).items():
    named = sum(event.op is not None for event in events if event.thread == thread)
    print(f"{thread:52} {number:4} events, {named:3} of them HLO operations")

# %% jupyter={"source_hidden": true}
# Proof
# Some events know which HLO operation they are.
assert any(event.op for event in events)

# %% [markdown]
# In the file a *plane* is the host or a device, and a *line* in it is a thread; each thread is printed above with its
# number of events. One of them is Python; on a CPU the others are XLA's workers, on a GPU its streams (queues of work).
# We want the events that know which **HLO operation** they are, one of those you saw in unit 09 in the
# [HLO](00_before_you_start.ipynb#The-words). (Which thread ran it, and what all the other events are called, changes
# from version to version.) In the HLO stands, for each operation, which of your lines asked for it: its `op_name`.

# %% jupyter={"source_hidden": true}
# Helper: from an operation to the part that asked for it; the shortest of the recorded calls
PARTS = [part.__name__ for part in inputs]


def origins(fn, *args):
    """HLO operation -> its op_name, such as jit(step)/mix/dot_general."""
    return {line.name: line.origin for line in show_hlo(fn, *args).module.walk()}


def part_of(origin):
    """The name scope of ours that an op_name lies in."""
    return next((word for word in origin.split("/") if word in PARTS), "(nobody's)")


def shortest_call(events):
    """(operations of the shortest of my calls, its length in ms); times count from its start."""
    window = min((event for event in events if event.name == "my call"), key=lambda event: event.length)
    inside = [e for e in events if e.op and window.start <= e.start < window.start + window.length]
    return [e._replace(start=e.start - window.start) for e in inside], window.length


# %%
came_from = origins(jitted, W, X)  # HLO operation -> op_name
print("one op_name:", next(origin for origin in came_from.values() if "/mix/" in origin))

# %% [markdown]
# The function, our scope, the operation in the jaxpr. So every event can be added to one of the four parts. Who takes
# most of the time?

# %%
guess = None  # your suspect: "mix", "squash", "clip" or "score"

# %%
ops, length = shortest_call(events)
by_part = Counter()
for event in ops:
    by_part[part_of(came_from.get(event.op, ""))] += event.length
suspect = by_part.most_common(1)[0][0]
show_guess(guess, suspect)

# %% jupyter={"source_hidden": true}
# Table: the longest operations of one call
totals = Counter()
for event in ops:
    totals[event.op] += event.length
rows = [
    f"| `{op}` | {ms:.3f} | {ms / totals.total():.0%} | `{came_from.get(op, '')}` |" for op, ms in totals.most_common(8)
]
head = "| HLO operation | ms in a call | share | asked for by |"
display(Markdown("\n".join([head, "|---|--:|--:|---|", *rows])))

# %% jupyter={"source_hidden": true}
# Proof
# On a CPU it is clip, and every operation of the profile stands in the HLO.
assert suspect == "clip" and set(totals) <= set(came_from) or jax.default_backend() != "cpu"

# %% [markdown]
# The product has nearly all of the FLOPs and hardly any of the time. The line that looked like a little statistics,
# `jnp.median`, **sorts all 147,456 numbers**. Nothing in the Python says "sort". Here is one call as it happened:

# %% jupyter={"source_hidden": true}
# Picture: one call of step, operation by operation
COLOURS = dict(zip([*PARTS, "(nobody's)"], ["C0", "C2", "C1", "C3", "#999999"], strict=True))


def draw_call(ax, ops, came_from, until):
    """Operations as a row of bars, coloured by part."""
    for event in ops:
        colour = COLOURS[part_of(came_from.get(event.op, ""))]
        edge = 0.4 if event.length > 0.01 * until else 0
        ax.barh(0, event.length, left=event.start, color=colour, edgecolor="white", linewidth=edge)
        if event.length > 0.12 * until:
            middle = event.start + event.length / 2
            ax.text(middle, 0, event.op, ha="center", va="center", color="white", size=9)
    ax.set(xlim=(0, until), ylim=(-0.5, 0.5), yticks=[])
    ax.grid(False)
    ax.spines["left"].set_visible(False)


def name_parts(ax):
    """A legend of the parts, above the axes."""
    patches = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    ax.legend(patches, COLOURS, ncols=5, loc="lower right", bbox_to_anchor=(1, 1))


fig, ax = plt.subplots(figsize=(8, 1.9))
draw_call(ax, ops, came_from, length)
ax.set(xlabel="milliseconds since the call", title="One call of step")
name_parts(ax)
plt.show()

# %% [markdown]
# ## 2. A loop in a profile
#
# Shares add up to 100 %. Do they? Here is a loop of twelve rounds, and the time of all its events added up.


# %%
def rounds(x):
    return lax.fori_loop(0, 12, lambda _, x: jnp.sort(jnp.tanh(x @ x), axis=-1), x)


table = jax.random.normal(jax.random.key(1), (128, 128))
looped = jax.jit(rounds)
ops, length = shortest_call(profile(looped, table))
total = sum(event.length for event in ops)
print(f"the call took {length:.1f} ms; its operations add up to {total / length:.0%} of that")

# %% jupyter={"source_hidden": true}
# Table: the operations of the loop
totals_looped, counts = Counter(), Counter(event.op for event in ops)
for event in ops:
    totals_looped[event.op] += event.length
for op, ms in totals_looped.most_common():
    print(f"{op:28} {counts[op]:3} times {ms:8.3f} ms {ms / length:6.0%} of the call")

# %% jupyter={"source_hidden": true}
# Picture: the loop, and what runs in it
loop = max(ops, key=lambda event: event.length)
nested = [e for e in ops if loop.start <= e.start < loop.start + loop.length and e is not loop]
fig, ax = plt.subplots(figsize=(8, 2.1))
ax.barh(1, loop.length, left=loop.start, color="#bbbbbb", height=0.8)
ax.text(loop.start + loop.length / 2, 1, loop.op, ha="center", va="center")
inner = sorted({e.op for e in nested}, key=totals_looped.get, reverse=True)[:4]
for index, name in enumerate(inner):
    spans = [(e.start, e.length) for e in nested if e.op == name]
    ax.broken_barh(spans, (-0.4, 0.8), color=f"C{index}", edgecolor="white", linewidth=0.5, label=name)
ax.set(xlabel="milliseconds since the call", xlim=(0, length))
ax.set(yticks=[0, 1], yticklabels=["inside", "outside"], title="Twelve rounds")
ax.legend(ncols=4, loc="lower right", bbox_to_anchor=(1, 1))
ax.grid(False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The loop's event holds those of its twelve rounds, so that the sum counts them twice.
if jax.default_backend() == "cpu":
    assert len(nested) >= 12 and totals_looped.total() > 1.5 * loop.length

# %% [markdown]
# The `while` has an event of its own, and so has everything that runs in it. It is on top of every list and guilty of
# nothing. What counts is **self time**: the length of an event, less the events directly inside it. To compute it is a
# task of the exercise.
#
# A loop shows something else. Look at how *short* its operations can be. Here are the operations of a loop on a table
# of 16 x 16, each with the middle one (the median) of its lengths:

# %%
small = jax.jit(lambda x: lax.fori_loop(0, 100, lambda _, x: jnp.tanh(x @ x), x))
ops, length = shortest_call(profile(small, table[:16, :16]))
lengths = {}
for event in ops:
    lengths.setdefault(event.op, []).append(1e3 * event.length)
tiny = {op: times for op, times in lengths.items() if len(times) >= 100}
for op, times in tiny.items():
    print(f"{op:30} {len(times)} times, {np.median(times):5.2f} µs each")
outer, inside = 1e3 * max(event.length for event in ops), sum(map(sum, tiny.values()))
between = max(0, outer - inside)
print(f"the loop took {outer:.0f} µs; {between:.0f} µs of it lie between the operations")

# %% [markdown]
# An operation on 256 numbers is soon over, and then the next one has to be **started**. How much of the loop lies
# between the operations is printed above. On a GPU every operation of every round may be a
# [kernel](00_before_you_start.ipynb#The-words) to launch, so look there first if a `scan` is slow.
# The cure is to give a round more to do: batch it (unit 07), or let `scan(..., unroll=8)` put several rounds into one.
#
# ## 3. Waiting, made visible
#
# The most expensive event in many a training loop is not an operation. The loop below fetches a batch (20 ms, from
# some disk) and hands it to the device. A sort stands for the device's work.


# %%
@jax.jit
def update(state, batch):
    state = jnp.sort(state + batch)
    return state, state.mean()


def fetch(index):
    time.sleep(0.02)
    return np.float32(index)


# %% [markdown]
# The first version reads the losses in the end. The second reads each at once, with `float`, because somebody wanted to
# watch. The place under suspicion gets a name of our own, as `my call` did: a `TraceAnnotation` is an event like any
# other.


# %%
def read(loss):
    with jax.profiler.TraceAnnotation("Python waits"):
        return float(loss)


def run_ahead(state, steps=6):
    losses = []
    for index in range(steps):
        state, loss = update(state, fetch(index))
        losses.append(loss)
    return [read(loss) for loss in losses]


def watch(state, steps=6):
    losses = []
    for index in range(steps):
        state, loss = update(state, fetch(index))
        losses.append(read(loss))
    return losses


# %% [markdown]
# Suppose that a sort takes about as long as a fetch.

# %%
guess = None  # your number: how many times longer does `watch` take?

# %%
state = jnp.linspace(0, 1, 200_000)
recorded, durations = {}, {}
for fn in (run_ahead, watch):
    events = recorded[fn.__name__] = profile(fn, state, calls=1)
    durations[fn.__name__] = next(e.length for e in events if e.name == "my call")
show_guess(guess, durations["watch"] / durations["run_ahead"], "x")

# %% jupyter={"source_hidden": true}
# Picture: the two loops
fig, axes = plt.subplots(2, 1, figsize=(8, 3.6), sharex=True)
for ax, (name, events) in zip(axes, recorded.items(), strict=True):
    (whole,) = [event for event in events if event.name == "my call"]
    here = [e for e in events if whole.start <= e.start < whole.start + whole.length]
    ax.broken_barh([(e.start - whole.start, e.length) for e in here if e.op], (0.6, 0.8), color="C0")
    waits = [e for e in here if e.name == "Python waits"]
    ax.broken_barh([(e.start - whole.start, e.length) for e in waits], (-0.4, 0.8), color="C1")
    ax.set(yticks=[0, 1], yticklabels=["Python waits", "operations"], ylim=(-0.6, 1.6))
    waited = sum(e.length for e in waits)
    ax.set_title(f"{name}: {whole.length:.0f} ms; Python waits for {waited:.0f} ms of it")
    ax.grid(False)
ax.set(xlabel="milliseconds", xlim=(0, max(durations.values())))
plt.show()

# %% [markdown]
# Above, the device works while Python fetches. Below, each waits for the other: `float` needs the number, so Python
# stands still until it is there, and when Python fetches, the device has nothing to do. `print(loss)`, `if loss <
# best`, `np.asarray`, `.item()` and `loss.block_until_ready()` do the same. You can keep watching, at no price: read
# the loss of the step *before*. That is a puzzle of the exercise.
#
# And what if nobody waits at all, not even at the end of the recording?

# %%
with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder):
        unawaited = [update(state, np.float32(index))[1] for index in range(6)]
    forgotten = sum(event.op is not None for event in read_profile(folder))
jax.block_until_ready(unawaited)
complete = sum(event.op is not None for event in recorded["watch"])
print(f"operations in the profile: {forgotten} where nobody waited, {complete} in that of `watch`")

# %% [markdown]
# The recording ended while most of the work was still to come. That is why the second rule says: wait inside.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: the two limits of the machine, and how fast a program could be.*

# %% [markdown]
# ## 4. How fast could it be?
#
# A profile says what is *longest*. It does not say what is *slow*. For that we need to know what the machine could do,
# and a machine can do two things: move bytes and compute. A program that moves $B$ bytes and computes $F$ operations
# cannot be shorter than
#
# $$ t \geq \max\left(\frac{B}{\text{bandwidth}},\ \frac{F}{\text{arithmetic rate}}\right). $$
#
# Both limits are measured with JAX itself. For the bandwidth take the laziest program there is, `x + 1`: it reads four
# bytes and writes four for a single operation. But which memory does it write to?

# %% jupyter={"source_hidden": true}
# Helper: bytes read and written in a second


def gigabytes_per_second(fn, size, seconds=0.05):
    """Rate of x = fn(x) over float32 arrays, `size` bytes read and written in a call. Best of five rounds."""
    x = jax.block_until_ready(fn(fn(jnp.zeros(size // 8, jnp.float32))))
    best, calls = np.inf, max(2, min(200, int(seconds * 5e9 / size)))
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            x = fn(x)
        jax.block_until_ready(x)
        best = min(best, (time.perf_counter() - start) / calls)
    return size / best / 1e9


# %%
fresh = jax.jit(lambda x: x + 1)
in_place = jax.jit(lambda x: x + 1, donate_argnums=0)  # the result may be written over the argument
guess = None  # your number: how many times faster is `in_place`, on 64 MB?

# %%
rates = [gigabytes_per_second(fn, 2**27) for fn in (fresh, in_place)]  # 64 MB read, 64 MB written
print(f"into fresh memory {rates[0]:.1f} GB/s, in place {rates[1]:.1f} GB/s")
show_guess(guess, rates[1] / rates[0], "x")

# %% [markdown]
# On a CPU most of the time of the first went to the operating system, which hands out new memory page by page and
# clears each. So a bandwidth is measured **in place**. (Donation is unit 11's. It is worth most where arrays are
# large.)
#
# And how much is moved matters. (A **cache** of a processor, not JAX's of unit 05, is a small memory of its own, faster
# than the main memory: what was used last stays in it.)

# %%
sizes = 2 ** np.arange(12, 28, 3)
by_size = [gigabytes_per_second(in_place, int(size)) for size in sizes]

# %% jupyter={"source_hidden": true}
# Picture: bandwidth, by the size of the array
fig, ax = plt.subplots(figsize=(7, 3))
ax.plot(sizes, by_size, "o-")
for size, rate in zip(sizes, by_size, strict=True):
    room = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # so that the line does not cross the number
    ax.annotate(f"{rate:.3g}", (size, rate), (0, 8), textcoords="offset points", ha="center", size=10, bbox=room)
labels = [f"{s // 1024} kB" if s < 2**20 else f"{s // 2**20} MB" for s in sizes.tolist()]
ax.set_xscale("log", base=2)
ax.set(xticks=sizes, xticklabels=labels, ylabel="GB/s", ylim=(0, 1.2 * max(by_size)))
ax.set_title("x + 1, in place: bytes read and written in a call")
ax.minorticks_off()
plt.show()

# %% jupyter={"source_hidden": true}
# Picture: what the curve says on this machine, in words
hill = max(by_size[1:-1]) / by_size[-1]
Markdown(
    f"The middle is {hill:.1f} times as high as the right end: a hill. There the array stays in a cache, close to the "
    "arithmetic units; on the right it comes from memory."
    if hill > 1.2
    else "**No hill here**: 128 MB are moved about as fast as anything smaller. Either this machine's cache holds them "
    "too, or one stream of numbers gets no more from a cache than from memory."
)

# %% [markdown]
# On the left, a call takes as long as calling: **dispatch**, the handing over of a program to the device, is the third
# limit, some microseconds whatever the size. So there is no "bandwidth of the machine", there is one for a size. Where
# the line goes down on the right, the array has outgrown the caches.
#
# For the arithmetic rate take the most diligent program: the product of two matrices, $2n^3$ operations on $12 n^2$
# bytes.


# %%
def best(fn, *args, rounds=6):
    """Seconds of the fastest round: the one in which the least got in the way."""
    return min(benchmark(fn, *args, rounds=rounds).rounds)


N = 2**20  # numbers in our arrays: with a result of the same size, 8 MB
square = jnp.full((1024, 1024), 1 / 1024)
matmul = jax.jit(jnp.matmul)

bandwidth = gigabytes_per_second(in_place, 8 * N) * 1e9
products = {n: best(matmul, square[:n, :n], square[:n, :n], rounds=20) for n in (256, 512, 1024)}
arithmetic = max(2 * n**3 / seconds for n, seconds in products.items())
dispatch = best(jax.jit(lambda x: x + 1), jnp.float32(0))

# %%
rates = f"{bandwidth / 1e9:.0f} GB/s over 8 MB, {arithmetic / 1e9:.0f} GFLOP/s"
print(f"this process: {rates}, {1e6 * dispatch:.0f} µs for a call")
print(textwrap.fill(f"roofline(): {roofline(8 * N, seconds=0.3)}", 96))

# %% [markdown]
# `roofline()` is the course's own instrument. It does the same as we did, in a quiet process of its own, on one core,
# and gives the median and the spread rather than the best. It is behind the last words of each speed check, "41 % of
# this machine's memory bandwidth". Here we take our own numbers, because our programs run in this process and on all
# of its cores.
#
# ## 5. The roofline
#
# Divide the two limits by one another and you have the number that says it all. **Arithmetic intensity** is what a
# program computes for each byte that it moves, $F/B$. Below `arithmetic / bandwidth` it waits for memory, above it
# waits for arithmetic.

# %%
ridge = arithmetic / bandwidth
print(f"this machine computes {ridge:.1f} operations while it moves one byte of our 8 MB")

# %% [markdown]
# So arithmetic is free, until it is not. Here is a program that reads a number, does $k$ multiply-adds with it (two
# operations each), and writes it. **Up to which $k$ does it take no longer than with $k = 1$?** (Up to half as long
# again shall count as no longer. A number is four bytes read and four written.)


# %%
def work(k):
    """k multiply-adds for each number.

    A result can be used only some moments after it was begun. In one chain each multiply-add
    would wait for the one before; four chains fill the time.
    """

    def multiply_add(x):
        chains = [x + start for start in range(min(4, k))]
        for _ in range(k // len(chains)):
            chains = [0.5 * chain + x for chain in chains]
        return sum(chains)

    return jax.jit(multiply_add)


KS = [1, 2, 4, 8, 16, 32, 64]
guess = None  # your number, one of KS: how many multiply-adds are free?

# %%
numbers = jnp.linspace(0, 1, N)
programs = {k: work(k) for k in KS}
seconds = {k: best(program, numbers) for k, program in programs.items()}
free = max(k for k in KS if seconds[k] <= 1.5 * seconds[1])
show_guess(guess, free, "multiply-adds")

# %% jupyter={"source_hidden": true}
# Picture: time against k, and the two limits
views = {k: show_hlo(program, numbers) for k, program in programs.items()}
flops, moved = {k: view.flops for k, view in views.items()}, {k: view.bytes for k, view in views.items()}
cross = 4 * arithmetic / bandwidth  # 8 bytes against 2 operations a multiply-add
fig, ax = plt.subplots(figsize=(7, 2.8))
ax.loglog(KS, [1e6 * seconds[k] for k in KS], "o-")
for limit, colour, name in (
    ([8 * N / bandwidth] * len(KS), "C2", "8 MB at the bandwidth"),
    ([flops[k] / arithmetic for k in KS], "C1", "its operations at the arithmetic rate"),
):
    ax.loglog(KS, [1e6 * t for t in limit], "--", color=colour, label=name)
ax.set(xlabel="multiply-adds for each number", ylabel="microseconds", xticks=KS, xticklabels=KS)
ax.minorticks_off()
ax.legend()
plt.show()
own = seconds[1] * arithmetic / (2 * N)
print(f"The two limits cross at {cross:.0f} multiply-adds. For k = 1 this program takes")
print(f"{seconds[1] / (8 * N / bandwidth):.1f} times its memory limit; from there, arithmetic takes over at {own:.0f}.")

# %% [markdown]
# Flat, then a slope: first memory binds, then arithmetic. The dashed lines are not fitted. They are the two limits from
# above: least times, and the curve bends where its *own* two times cross. That is further left where XLA's loop does not
# keep the arithmetic units as busy as a matrix product does, and further right where memory gives this program less than
# it gave `x + 1`: each of its results goes into fresh memory. By how much less is printed above.
#
# Now seven programs that you know. Do the division in your head: how many operations, how many bytes? What holds each of
# them: memory, arithmetic, or the dispatch, if the work takes less time than that? (Moving and computing go on at the
# same time, so the longer counts. Dispatch comes before and is added.)

# %%
GUESSES = {  # your word for each: "memory", "arithmetic" or "dispatch"
    "x + 1": None,  # arrays of 1,048,576 numbers here and in the next three
    "sum": None,
    "softmax": None,
    "matrix @ vector": None,
    "product 32": None,  # of two matrices, 32 x 32
    "product 256": None,
    "product 1024": None,
}

# %%
matrix, s32, s256 = numbers.reshape(1024, 1024), square[:32, :32], square[:256, :256]
PROGRAMS = {  # function, arguments, operations by hand, bytes by hand
    "x + 1": (jnp.add, (numbers, jnp.float32(1)), N, 8 * N),
    "sum": (jnp.sum, (numbers,), N, 4 * N),
    "softmax": (jax.nn.softmax, (matrix,), 5 * N, 8 * N),  # maximum, difference, exp, sum, quotient
    "matrix @ vector": (jnp.matmul, (matrix, matrix[0]), 2 * N, 4 * N),
    "product 32": (jnp.matmul, (s32, s32), 2 * 32**3, 12 * 32**2),
    "product 256": (jnp.matmul, (s256, s256), 2 * 256**3, 12 * 256**2),
    "product 1024": (jnp.matmul, (square, square), 2 * 1024**3, 12 * 1024**2),
}
bounds = {}  # the least seconds, and what binds
for name, (_, _, F, B) in PROGRAMS.items():
    limits = {"memory": B / bandwidth, "arithmetic": F / arithmetic}
    longest = max(limits, key=limits.get)
    bounds[name] = dispatch + limits[longest], longest if limits[longest] > dispatch else "dispatch"
measured = {name: best(jax.jit(fn), *args) for name, (fn, args, *_) in PROGRAMS.items()}

# %% jupyter={"source_hidden": true}
# Table: the seven programs, your words, and the clock
lines, points = [], {}
for name, (fn, args, F, B) in PROGRAMS.items():
    (least, binds), compiled = bounds[name], show_hlo(jax.jit(fn), *args)
    points[name] = F / B, F / measured[name]
    lines.append(
        f"| `{name}` | {F / B:.3g} | {compiled.flops / compiled.bytes:.3g} | {GUESSES.get(name) or '?'} | **{binds}** "
        f"| {1e6 * least:,.0f} | {1e6 * measured[name]:,.0f} |"
    )
head = "| | F / B by hand | by XLA | you said | binds | least possible, µs | measured, µs |"
display(Markdown("\n".join([head, "|---|--:|--:|---|---|--:|--:|", *lines])))

# %% [markdown]
# Drawn on logarithmic axes, the limits are a slope and a ceiling: the **roofline**. A program stands at its intensity,
# and as high as it runs. The empty circle is the program `work(16)` without `jit`: the same arithmetic, in some thirty
# programs, each of which reads and writes the whole array.

# %% jupyter={"source_hidden": true}
# Picture: the roofline of this machine
unfused = work(16).__wrapped__
bytes_apart = 16 * (show_hlo(lambda x: 0.5 * x, numbers).bytes + show_hlo(jnp.add, numbers, numbers).bytes)
apart = flops[16] / bytes_apart, flops[16] / best(unfused, numbers, rounds=3) / 1e9

fig, ax = plt.subplots(figsize=(8, 4.8))
at = np.logspace(-1.5, 3.3, 200)  # operations for each byte
roof = np.minimum(bandwidth * at, arithmetic) / 1e9
ax.loglog(at, roof, color="#444444", label="the roof, for 8 MB in place")
ax.fill_between(at, roof, 1e5, color="#eeeeee")
lower = np.minimum(by_size[-1] * at, arithmetic / 1e9)
ax.loglog(at, lower, "--", color="#888888", linewidth=1, label="for 128 MB")
sweep = [(flops[k] / moved[k], flops[k] / seconds[k] / 1e9) for k in KS]
ax.plot(*zip(*sweep, strict=True), "o-", color="C0", markersize=4, label="work(k), k = 1 to 64")
ax.plot(*apart, "o", color="C0", fillstyle="none", label="work(16), not jitted")
arrow = {"arrowstyle": "->", "color": "C0", "linewidth": 1.2, "shrinkA": 4, "shrinkB": 4}
ax.annotate("", sweep[KS.index(16)], apart, arrowprops=arrow)
for marker, (name, (intensity, rate)) in zip("o^vsDPX", points.items(), strict=True):
    ax.plot(intensity, rate / 1e9, marker, color="C1", markersize=8, label=name)
ax.set(xlabel="operations for each byte", ylabel="GFLOP/s", xlim=(0.03, 2000))
ax.set_ylim(0.4 * min(apart[1], *(rate / 1e9 for _, rate in points.values())), 3 * arithmetic / 1e9)
ax.legend(loc="lower right", labelspacing=0.25)
ax.set_title("The roofline of this machine: what is grey cannot be reached")
plt.show()

# %% [markdown]
# - **Fusion moves to the right.** `jit` saves no arithmetic. It saves bytes, and that carries a program up the slope.
# - **Reuse moves to the right, too.** A product of $n \times n$ has intensity $n/6$: each number that is read is used
#   $n$ times. A matrix times a *vector* uses each once, and is a memory program with the name of a product.
# - **Under the roof is not slow by itself.** `softmax` has an `exp` that we counted as one operation and that is
#   many; "x + 1" writes to fresh memory; the small product is over before it has begun. Ask what the distance is made
#   of. A point *above* the slope is no wonder either: its data are small and stay in a faster cache than our 8 MB.
#
# ## 6. Who counts?
#
# Operations and bytes can be had from four sources, and they do not say the same. Two programs, the second with a loop:


# %%
def product_and_exp(A, B):
    return jnp.exp(A @ B)


def ten_products(A, B):
    return lax.fori_loop(0, 10, lambda _, A: A @ B, A)


by_hand = {product_and_exp: 2 * 256**3 + 256**2, ten_products: 10 * 2 * 256**3}
counted = {}
for fn, number in by_hand.items():
    _, estimate = static_roofline.roofline(fn)(s256, s256)
    jaxpr, compiled = show_jaxpr(fn, s256, s256), show_hlo(fn, s256, s256)
    counted[fn] = [number, jaxpr.flops, compiled.flops, estimate.flops]

# %% jupyter={"source_hidden": true}
# Table: FLOPs of the two programs, from four sources
lines = []
for fn, counts in counted.items():
    lines.append(f"| `{fn.__name__}` | " + " | ".join(f"{count:,}" for count in counts) + " |")
head = "| FLOPs | by hand | the jaxpr, `show_jaxpr` | XLA's `cost_analysis` | `jax.experimental.roofline` |"
display(Markdown("\n".join([head, "|---|--:|--:|--:|--:|", *lines])))

# %% jupyter={"source_hidden": true}
# Proof
# The jaxpr counts every round of the loop, the last two count less than a ninth.
counts = counted[ten_products]
assert counts[1] >= counts[0] > 9 * max(counts[2:])

# %% [markdown]
# XLA and `jax.experimental.roofline` **count the body of a loop once**. The latter also assumes that XLA will fuse
# everything but products, and counts those only. It needs neither device nor data, which is its use: it plans for
# machines you do not have. `show_jaxpr` multiplies by the number of rounds. Bytes of a loop nobody counts for you: take
# those of a round.
#
# ## 7. Back to the case
#
# Now both tools together. For each part of the step: what did it take, by the profile, and what would the roof allow?

# %% jupyter={"source_hidden": true}
# Table: each part's time by the profile, beside the least that the machine allows
lines = []
for part, arguments in inputs.items():
    F, B = show_jaxpr(part, *arguments).flops, sum(a.nbytes for a in arguments) + arguments[-1].nbytes
    least, ms = 1e3 * max(F / arithmetic, B / bandwidth), by_part[part.__name__]
    lines.append(f"| `{part.__name__}` | {ms:.3f} | {least:.3f} | {ms / least:,.0f} x | {max(0, ms - least):.3f} |")
Markdown("\n".join(["| | took, ms | least, ms | | to win, ms |", "|---|--:|--:|--:|--:|", *lines]))

# %% [markdown]
# `mix` has a lot to do. `clip` has next to nothing to do, if all that is asked is to read the table and write it. Nearly
# all that can be won is there. The other two are far from their roof as well, and it hardly matters.
#
# A median needs no order. It is the number with half of the others below it, and to *count* how many are below some
# bound is one pass through the data. Which bounds? Non-negative floats have the same order as their 32 bits, read as
# integers. So the median's bits are found one by one, from the highest down: set the bit, count the numbers below, and
# let it stand if they are no more than half. 31 counts decide 31 bits (the first of the 32, the sign, is 0), exactly:


# %%
def median_by_counting(x):
    """The median of non-negative floats, without a sort."""
    bits = lax.bitcast_convert_type(x.ravel(), jnp.int32)
    middle = (x.size - 1) // 2

    def decide(index, low):
        trial = low | (jnp.int32(1) << (30 - index))
        return jnp.where((bits < trial).sum() <= middle, trial, low)

    low = lax.fori_loop(0, 31, decide, jnp.int32(0))
    # The median of an even number of numbers is the mean of the middle two: where is the other?
    above = jnp.where(bits > low, bits, jnp.iinfo(jnp.int32).max).min()
    high = jnp.where((bits <= low).sum() > x.size // 2, low, above)
    return lax.bitcast_convert_type(jnp.stack([low, high]), x.dtype).mean()


# %%
data = jnp.abs(X)
predicted = 31 * data.nbytes / bandwidth
print(f"31 passes over {data.nbytes / 1e6:.1f} MB at the bandwidth: at least {1e3 * predicted:.1f} ms")
guess = None  # your number: how many times faster than jnp.median will it be?

# %%
both = {fn.__name__: jax.jit(fn) for fn in (median_by_counting, jnp.median)}
took = {name: best(fn, data, rounds=4) for name, fn in both.items()}
print(", ".join(f"{name} {1e3 * t:.1f} ms" for name, t in took.items()))
print(f"31 counts take {took['median_by_counting'] / predicted:.0f} times their least time")
show_guess(guess, took["median"] / took["median_by_counting"], "x")

# %% jupyter={"source_hidden": true}
# Proof
# Both medians agree.
assert np.isclose(both["median_by_counting"](data), both["median"](data), rtol=1e-6)


# %% [markdown]
# A limit is a least time and no forecast: what XLA makes of the counts uses neither the memory nor the arithmetic units
# to the full. The sort is left behind all the same.
#
# Back into the step with it. (`step` looks its `clip` up when it is traced, so a new trace finds the new one.)


# %%
def clip(h):
    limit = 3 * median_by_counting(jnp.abs(h))
    return jnp.clip(h, -limit, limit)


improved = jax.jit(lambda W, X: step(W, X))
results = improved(W, X), jitted(W, X)
print("the same result, to the last bit:", bool(jnp.array_equal(*results)))

# %% jupyter={"source_hidden": true}
# Picture: a call with each of the two medians
calls = {
    "with a sort": (*shortest_call(profile(jitted, W, X)), came_from),
    "with 31 counts": (*shortest_call(profile(improved, W, X)), origins(improved, W, X)),
}
fig, axes = plt.subplots(2, 1, figsize=(8, 2.7))
for ax, (title, (ops, length, names)) in zip(axes, calls.items(), strict=True):
    draw_call(ax, ops, names, max(length for _, length, _ in calls.values()))
    ax.set_title(f"{title}: {length:.1f} ms")
axes[1].set_xlabel("milliseconds since the call")
name_parts(axes[0])
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The two steps agree.
assert np.allclose(*results, rtol=1e-5)

# %% [markdown]
# The result is the same, and the list has a new head: that is where the next look goes. When what is on top
# is at its roof, you are done; or you need another algorithm, or another machine.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: what a profile leaves out, memory over time, and Perfetto.*

# %% [markdown]
# ## 8. What a profile of a CPU does not show
#
# - **Inside a fusion.** A fusion is one event. Which of its operations costs, you must reason out (or take it apart).
# - **Bytes and FLOPs.** Nobody counted them while it ran. Profilers that print "bandwidth" divide the compiler's
#   estimate by the time, as we did. On a GPU the vendor's tools read real counters.
# - **Being interrupted.** If another program has the core, the event simply gets longer. Compare several calls, and
#   believe the shortest.
# - **Who helped.** A large operation is split over threads whose events have no operation. Adding up threads counts some
#   work not at all, and nested events twice.
# - **Compilation**, unless it happens in the block; what Python did, unless `python_tracer_level` is 1; and itself:
#   recording costs something for each event, which is much for a loop of tiny operations.
# - **Memory.** For that there is a profile of another kind, and a list to look at.
#
# ## 9. Memory over time
#
# `jax.live_arrays()` is a list of all arrays that somebody still holds (unit 11). So memory has a timeline too: we only
# have to look after every line. Here is a training step. Its weights are 4 MB, a batch is 1 MB.

# %%
BATCHES = np.random.default_rng(0).normal(size=(6, 250, 1000)).astype(np.float32)


def mean_error(weights, batch):
    return ((batch @ weights - batch) ** 2).mean()


@jax.jit
def train_step(weights, batch):
    loss, slope = jax.value_and_grad(mean_error)(weights, batch)
    return weights - 0.1 * slope, loss


def live_bytes():
    return sum(array.nbytes for array in jax.live_arrays())


# %% [markdown]
# And the loop, which notes the live bytes after each of its three lines. It puts into a list whatever `keep` returns.


# %%
def train(keep):
    """(live bytes after each line, the list that was kept)."""
    gc.collect()  # what lives only in a reference cycle is held by nobody
    before = live_bytes()
    weights, kept, curve = jnp.zeros((1000, 1000)), [], []
    for rows in BATCHES:
        batch = jnp.array(rows)
        curve.append(live_bytes() - before)
        new_weights, loss = train_step(weights, batch)
        curve.append(live_bytes() - before)
        weights = new_weights
        kept.append(keep(new_weights, loss))
        curve.append(live_bytes() - before)
    return curve, kept


# %% [markdown]
# Many a loop keeps its losses for a curve. A loss was computed from a batch (1 MB), from the weights (4 MB) and from
# what lies between. What does it hold on to? By how many bytes does each round of that loop raise the memory?

# %%
guess = None  # your number of bytes

# %%
curves = {
    "nothing": train(lambda weights, loss: None)[0],
    "the loss": train(lambda weights, loss: loss)[0],
    "the weights": train(lambda weights, loss: weights)[0],
}
risen = (curves["the loss"][-1] - curves["the loss"][2]) / (len(BATCHES) - 1)
show_guess(guess, risen, "bytes")

# %% jupyter={"source_hidden": true}
# Picture: live memory after each line of the three loops
fig, ax = plt.subplots(figsize=(8.5, 3.3))
for (name, curve), colour, width in zip(curves.items(), ("C0", "C2", "C1"), (5, 1.5, 2), strict=True):
    ax.plot(np.arange(len(curve)) / 3, np.array(curve) / 1e6, "o-", color=colour, linewidth=width, markersize=width + 2)
    down = {"nothing": 0.8, "the loss": -0.8}.get(name, 0)
    ax.text(len(curve) / 3 - 0.2, curve[-1] / 1e6 + down, f"keeps {name}", color=colour, va="center")
for at, height, line in ((-0.2, 2.8, "batch = ..."), (0.1, 10.2, "train_step"), (0.6, 0.7, "weights = ...")):
    ax.text(at, height, f"after `{line}`", size=9)
ax.set(xlabel="round", ylabel="MB alive", xlim=(-0.3, 7.4), ylim=(0, None), xticks=range(len(BATCHES)))
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# 5, 9 and 5 MB in each round; a kept loss adds four bytes, kept weights add 4 MB.
MB = 1_000_000
LOSS = 4
first, *later = np.array(curves["nothing"]).reshape(-1, 3).tolist()
assert first == [5 * MB, 9 * MB + LOSS, 5 * MB + LOSS]
assert later == [[5 * MB + LOSS, 9 * MB + LOSS, 5 * MB + LOSS]] * 5
assert curves["the loss"][2::3] == [5 * MB + LOSS * (index + 1) for index in range(6)]
assert curves["the weights"][2::3] == [5 * MB + LOSS + 4 * MB * index for index in range(6)]

# %% [markdown]
# A loss is one number, so four bytes, and how it was computed is not stored with it. The gradient is done inside
# `train_step`, and nothing of that is kept afterwards. So a list of losses, as arrays, is cheap: four bytes each, and no
# waiting until somebody reads them (section 3).
#
# - **Kept.** Weights and batch, 5 MB, and whatever else stands in a list. Each of the kept weights is 4 MB.
# - **Freed.** The old weights, as soon as `weights = new_weights` takes their name away, and the old batch when there is
#   a new one. Between the two lines, old and new weights are both there: 9 MB, unless they are donated (unit 11).
# - **Not on the curve.** What a program needs while it runs, its scratch space. For that, ask the memory analysis:

# %%
scratch = show_hlo(train_step, jnp.zeros((1000, 1000)), BATCHES[0]).temp_bytes
top = max(curves["nothing"])
print(f"alive at most: {top / 1e6:.1f} MB; and while train_step runs: {scratch / 1e6:.1f} MB more")

# %% [markdown]
# Now suppose that memory fills up, and you do not know that somebody keeps the weights. When an array is made, JAX notes
# the line of Python that made it. `jax.profiler.save_device_memory_profile(path)` writes that down. It is a file for
# [pprof](https://docs.jax.dev/en/latest/201/profiling.html), a tool to be installed apart, so again we read it here.

# %% jupyter={"source_hidden": true}
# Helper: a memory profile as rows (bytes, number of arrays, file, line)
# pprof's format is a protocol buffer.


def varint(data, at):
    """(the number that begins at `at`, where it ends): seven bits in a byte, the eighth says that more follow."""
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """The (number, value) of each field of a message; a value is an int or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        yield key >> 3, value


def listed(value):
    """A repeated number, packed or not, as a list."""
    found, at = [] if isinstance(value, bytes) else [value], 0
    while isinstance(value, bytes) and at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def read_memory_profile(data):
    """Rows (bytes, arrays, file, line): by the innermost line outside of JAX. Largest first."""
    message = list(fields(gzip.decompress(data)))
    texts = [value.decode() for number, value in message if number == 6]
    functions = {f[1]: texts[f.get(4, 0)] for f in (dict(fields(v)) for number, v in message if number == 5)}
    places = {}
    for location in (dict(fields(v)) for number, v in message if number == 4):
        line = dict(fields(location[4]))
        places[location[1]] = functions[line[1]], line.get(2, 0)
    rows = Counter()
    for sample in (list(fields(v)) for number, v in message if number == 2):
        count, size = [n for number, v in sample if number == 2 for n in listed(v)]
        stack = [places[n] for number, v in sample if number == 1 for n in listed(v)]
        ours = (place for place in stack if not place[0].startswith(os.path.dirname(jax.__file__)))
        place = next(ours, ("", 0))
        rows[place, "bytes"] += size
        rows[place, "arrays"] += count if size else 0
    found = [(size, rows[place, "arrays"], *place) for (place, what), size in rows.items() if what == "bytes" and size]
    return sorted(found, reverse=True)


# %%
_, kept = train(lambda weights, loss: weights)
with tempfile.TemporaryDirectory() as folder:
    jax.profiler.save_device_memory_profile(f"{folder}/memory.prof")
    memory_profile = Path(folder, "memory.prof").read_bytes()
print(f"{len(memory_profile):,} bytes; {live_bytes() / 1e6:.1f} MB are alive")

# %% [markdown]
# `kept` holds six times 4 MB. Which line will the profile name for them: the one that calls `train_step`, or the one
# that calls `kept.append`?

# %%
guess = None  # your text: "train_step" or "append"

# %%
profiled = read_memory_profile(memory_profile)
size, arrays, file, line = profiled[0]
blamed = linecache.getline(file, line).strip()
print(f"{size / 1e6:.0f} MB in {arrays} arrays, made by:  {blamed}")
show_guess(guess, "train_step" if "train_step" in blamed else "append")

# %% jupyter={"source_hidden": true}
# Table: the memory of this whole notebook, by the line that made it
rows = [
    f"| {size / 1e6:.2f} | {arrays} | `{linecache.getline(file, line).strip() or Path(file).name}` |"
    for size, arrays, file, line in profiled[:6]
]
display(Markdown("\n".join(["| MB | arrays | made by the line |", "|--:|--:|---|", *rows])))

# %% jupyter={"source_hidden": true}
# Proof
# The profile knows of all live arrays; it names the line that made the kept ones; without a file it is the same.
assert sum(size for size, *_ in profiled) == live_bytes() or jax.default_backend() != "cpu"
assert "train_step(weights, batch)" in blamed and size == sum(array.nbytes for array in kept)
assert read_memory_profile(jax.profiler.device_memory_profile()) == profiled

# %% [markdown]
# A memory profile says who **made** an array, not who **holds** it. From the line that made it, follow the result: where
# is it put? Python's garbage collector can help. Here are the types of those who hold the first of the kept weights:

# %%
print([type(holder).__name__ for holder in gc.get_referrers(kept[0])])
with_list = live_bytes()
del kept
print(f"without the list, {(with_list - live_bytes()) / 1e6:.0f} MB less")

# %% jupyter={"source_hidden": true}
# Proof
# 24 MB were freed with the list.
assert with_list - live_bytes() == 24_000_000

# %% [markdown]
# (JAX's documentation speaks of GPUs and TPUs here. It works on a CPU as well, as you have seen.)
#
# ## 10. The same trace in Perfetto
#
# Your own pictures are good for one question. To look around in a recording, with a mouse, there is
# [Perfetto](https://perfetto.dev), a viewer that runs in the browser. `create_perfetto_trace=True` writes a second file
# beside the first, in a format that it opens. We record the loop that watched its losses, this time with Python's own
# functions.

# %%
with tempfile.TemporaryDirectory() as folder:
    with jax.profiler.trace(folder, create_perfetto_trace=True):
        watch(state, steps=3)
    (path,) = Path(folder).rglob("perfetto_trace.json.gz")
    trace = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    events = read_profile(folder)
spans = [event for event in trace if event.get("ph") == "X"]
print(f"{len(spans)} events in the file for Perfetto, {len(events)} in the other")
print(next(event for event in spans if event["name"] == "Python waits"))

# %% jupyter={"source_hidden": true}
# Proof
# Both files hold the same events, with the same operations and times.
in_args = [event["args"]["hlo_op"] for event in spans if "hlo_op" in event.get("args", {})]
assert len(spans) == len(events) and Counter(in_args) == Counter(event.op for event in events if event.op)
there = [1e3 * event.length for event in events if event.name == "Python waits"]
here = [event["dur"] for event in spans if event["name"] == "Python waits"]
assert len(here) == 3 and np.allclose(sorted(here), sorted(there), rtol=1e-3)

# %% [markdown]
# It is JSON, a list of dicts. An event with `"ph": "X"` lasts `dur` microseconds and begins at `ts`; `tid` is its thread,
# whose name stands in an event of its own. An operation has its `hlo_op` and `hlo_module` in `args`. These are the
# longest of some kinds:

# %% jupyter={"source_hidden": true}
# Table: some of the events, with their threads
THREADS = {event["tid"]: event["args"]["name"] for event in trace if event.get("name") == "thread_name"}
KINDS = {
    "a Python function of ours": lambda event: event["name"].endswith(" fetch"),
    "our annotation": lambda event: event["name"] == "Python waits",
    "an operation": lambda event: "hlo_op" in event.get("args", {}),
    "an event of JAX's own": lambda event: event["name"].startswith("PjitFunction"),
}
rows = []
for kind, belongs in KINDS.items():
    event = max(filter(belongs, spans), key=lambda event: event["dur"], default=None)
    if event:
        args = {key: value for key, value in event.get("args", {}).items() if key.startswith("hlo")}
        said = f"`{args}`" if args else ""
        rows.append(
            f"| {kind} | `{event['name']}` | {THREADS[event['tid']].split('/')[0]} | {event['ts']:,.0f} "
            f"| {event['dur']:,.0f} | {said} |"
        )
display(Markdown("\n".join(["| | name | thread | ts, µs | dur, µs | args |", "|---|---|---|--:|--:|---|", *rows])))

# %% jupyter={"source_hidden": true}
# Picture: the recording, threads below one another, what is inside an event below that event
end = max(event["ts"] + event["dur"] for event in spans if event["name"] == "Python waits")
shown = [event for event in spans if event["ts"] < end]
tids = {event["tid"] for event in shown if "hlo_op" in event.get("args", {}) or event["name"] == "Python waits"}
fig, ax = plt.subplots(figsize=(9, 3.6))
floor, ticks = 0, {}
for tid in sorted(tids, key=THREADS.get):
    stack, deepest = [], 0
    for event in sorted((e for e in shown if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"])):
        start, length, name = event["ts"] / 1e3, event["dur"] / 1e3, event["name"]
        while stack and start >= stack[-1]:
            stack.pop()
        if length > end / 3e5 and len(stack) < 5:
            colour = "C1" if name == "Python waits" else "C0" if "args" in event else "#bbbbbb"
            ax.barh(floor + len(stack), length, left=start, height=0.9, color=colour, edgecolor="white", align="edge")
            if length > end / 1.2e4:
                label = name.split(" ")[-1] if name.startswith("$") else name
                middle, ink = (start + length / 2, floor + len(stack) + 0.45), "white" if "args" in event else "black"
                ax.text(*middle, label[:16], ha="center", va="center", size=8, color=ink)
            deepest = max(deepest, len(stack))
        stack.append(start + length)
    ticks[floor + (deepest + 1) / 2] = THREADS[tid].split("/")[0]
    floor += deepest + 1.6
ax.set(xlim=(0, end / 1e3), xlabel="milliseconds since the recording began", title="Threads, and event within event")
ax.set_yticks(list(ticks), list(ticks.values()))
ax.invert_yaxis()
ax.grid(False)
plt.show()

# %% [markdown]
# To do it yourself, put a folder of your own in the place of `folder`, go to
# [ui.perfetto.dev](https://ui.perfetto.dev), and open `perfetto_trace.json.gz` there. (`create_perfetto_link=True` prints a
# link instead and waits until somebody has clicked it, says
# [JAX's documentation](https://docs.jax.dev/en/latest/201/profiling.html). That is not run here.)
#
# ## What older posts say
#
# A roof is good for reading other people's numbers, too. Some figures of the posts behind this course:

# %%
selu_numbers = np.linspace(-3, 3, 1_000_000, dtype=np.float32)


def selu(x, np=jnp, alpha=1.67, lmbda=1.05):
    return lmbda * np.where(x > 0, x, alpha * np.exp(x) - alpha)


numpy_selu = best(lambda x: selu(x, np), selu_numbers)
ceiling = numpy_selu / (8e6 / bandwidth)  # it reads and writes 8 MB
product_rate = 2 * 1000 * 10_000 * 20_000 / 3.17 / 1e9  # of a product in a post, which took 3.17 s

# %% jupyter={"source_hidden": true}
# Table: claims, and what the roof says
claims = [
    (
        "a profile is looked at in TensorBoard",
        "✗",
        f"`ProfileData.from_file` read {len(events)} events in this notebook",
    ),
    (
        "jitted `selu` of a million numbers: 187 µs",
        "–",
        f"8 MB in 187 µs are {8e6 / 187e-6 / 1e9:.0f} GB/s; memory gives {bandwidth / 1e9:.0f} GB/s here. "
        f"The roof here: {8e6 / bandwidth * 1e6:.0f} µs",
    ),
    (
        "JAX is more than 150 times faster than NumPy",
        "✗" if ceiling < 150 else "–",
        f"for `selu` NumPy takes {1e3 * numpy_selu:.1f} ms here: the roof allows {ceiling:.0f} times",
    ),
    (
        "product and `relu`: one `jit` or two? (3.17 s, 0.03 s)",
        "✓",
        f"no matter: the product runs at {product_rate:.0f} GFLOP/s, and the relu is {0.03 / 3.17:.0%} of the time, "
        "which is all that one `jit` could save",
    ),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | | by the roof |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# The posts' seconds were taken years ago, on other machines. Without the roof of those machines one can only say what
# is plausible; but bytes and operations do not age.
#
# ## Keypoints
#
# - `with jax.profiler.trace(folder)`, warmed up before and awaited inside; `jax.profiler.ProfileData` reads the file.
# - An operation leads to your line by the `op_name` in the HLO. `jax.named_scope` puts your own word there.
# - Events are nested: a `while` holds what runs in it. Count self time.
# - `float(loss)` in a loop makes device and Python take turns. Read the number of the step before.
# - Least time = max(bytes / bandwidth, operations / arithmetic rate), plus dispatch. Measure bandwidth in place, at
#   the size that you use.
# - Intensity decides which one binds. Fusion and reuse raise it.
# - A profile says what is long, a roof what is slow. Look for what is both.
# - Memory has a timeline: `jax.live_arrays()` after each line. A kept loss is four bytes, a kept array all of its own.
# - `jax.profiler.save_device_memory_profile` names the line that made an array, not who holds it.
#
# ## Your turn
#
# [Exercise 15](../exercises/15_profile_and_roofline/profile_and_roofline.ipynb): name the wall for eight programs,
# price a program, find the culprit in a profile and do without its work, keep a device fed, serve sixteen users for the
# price of one, and survey a machine that you cannot see into. 22 points.
