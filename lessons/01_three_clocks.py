# %% [markdown]
# # 01 · Three clocks: trace, compile, run
#
# **A blog post times the same matrix product three times and reads 6.48 s, 3.17 s and 3.19 s. Where did the first 3.3
# seconds go?**
#
# You will
#
# - stop a clock at the right moment, and know what it reads when you do not;
# - take a first call apart into waiting, trace, lower, compile and run;
# - decide by arithmetic, before you measure, whether `jit` will pay.
#
# About {duration}, in three stages (about {stage} for the first). Where a cell says `guess = None`, type your number before
# you run on. Is a word new? [00 · Before you start](00_before_you_start.ipynb#The-words).

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown, display

from autograder import benchmark, show_guess, show_hlo, trace_log

plt.style.use("autograder.course")
print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")

# %% [markdown]
# ## The case
#
# *Just in time* means: the first time a jitted function is called, JAX runs its Python once to record the array
# operations (**trace**), translates the record for the compiler (**lower**) and lets the compiler, XLA, make a program
# of it (**compile**). Every later call with the same shapes and dtypes only **runs** that program.
#
# So when the post's first call is slow, it knows why: "the first call is the warm-up, and the warm-up is the time JAX
# takes to trace". Below is the post's program; its matrices are four times shorter on every side, so that you need not
# wait. First the inputs, random numbers. (A *key* is JAX's seed for them, and `split` makes two keys of one. The post
# draws `W` before it splits; unit 03 says why we do not.)


# %%
def make_inputs(shrink=4):
    """The post's W and X, `shrink` times shorter on every side."""
    key, subkey = jax.random.split(jax.random.key(1234))
    W = jax.random.normal(key, (1_000 // shrink, 10_000 // shrink))
    X = jax.random.normal(subkey, (10_000 // shrink, 20_000 // shrink))
    return W, X


# %% [markdown]
# Then the post's loop. `trace_log` notes what JAX builds meanwhile, and how long that takes.


# %%
def three_calls(W, X):
    """The seconds of three calls, and a log of what JAX built meanwhile."""
    dot_product = jax.jit(lambda W, X: jnp.dot(W, X))
    seconds = []
    with trace_log() as log:
        for _ in range(3):
            start = time.perf_counter()
            dot_product(W, X).block_until_ready()
            seconds.append(time.perf_counter() - start)
    return seconds, log


# %% [markdown]
# The first call takes longer than the later ones. Of this extra time, how many percent are trace, lower and compile
# together?

# %%
guess = None  # your number, in percent

# %%
as_posted, log = three_calls(*make_inputs())
extra = as_posted[0] - min(as_posted[1:])
build = sum(log.seconds.values())
print("three calls:", ", ".join(f"{1e3 * s:.0f} ms" for s in as_posted))
print(f"the first took {1e3 * extra:.0f} ms more; trace + lower + compile: {1e3 * build:.0f} ms")
show_guess(guess, 100 * build / extra, "%")

# %% [markdown]
# The same picture as in the post: one slow call, then two fast ones. But JAX reports when it traces, lowers and
# compiles, and it did so for a small part of that time. The compiler has an alibi. Something else kept us waiting.

# %% [markdown]
# ## Clock one: waiting
#
# JAX is **asynchronous**. A call hands work to the device (CPU or GPU) and returns at once, with an array whose numbers
# are still being computed. Meanwhile Python goes on to the next line.
#
# Below, Python hands over four products of 1500 x 1500, each of the one before, and we note two moments for each: when
# Python got the array, and when its numbers were there. After how many percent of the whole time is Python done?

# %%
guess = None  # your number, in percent

# %%
product = jax.jit(lambda x: x @ x)
matrix = jnp.full((1500, 1500), 1 / 1500)  # multiplied by itself it stays the same
product(product(matrix)).block_until_ready()  # build now, so that only running is timed

results, handed_over, ready = [matrix], [], []
start = time.perf_counter()
for _ in range(4):
    results.append(product(results[-1]))
    handed_over.append(time.perf_counter() - start)
for result in results[1:]:
    result.block_until_ready()
    ready.append(time.perf_counter() - start)

show_guess(guess, 100 * handed_over[-1] / ready[-1], "%")

# %% jupyter={"source_hidden": true}
# Picture: Python and the device, side by side
fig, ax = plt.subplots(figsize=(7.5, 2.6))
end = 1e3 * ready[-1]
for i, (begin, finish) in enumerate(zip([handed_over[0], *ready], ready, strict=False)):
    ax.barh("device", 1e3 * (finish - begin), left=1e3 * begin, color="C0", alpha=1 - 0.3 * (i % 2), height=0.5)
    ax.text(1e3 * (begin + finish) / 2, "device", f"product {i + 1}", ha="center", va="center", color="white")
ax.barh("Python", end, color="#eeeeee", height=0.5)
ax.text(end / 2, "Python", "free to do something else", ha="center", va="center", color="#666666")
for moment, side, line in (
    (1e3 * handed_over[-1], "left", "a clock that does not wait\nstops here: {:.2f} ms"),
    (end, "right", "after block_until_ready\nit stops here: {:.0f} ms"),
):
    ax.plot([moment, moment], [-0.35, 1.35], color="C1", linewidth=2.5)
    ax.text(moment, 1.45, line.format(moment), ha=side, va="bottom", color="C1")
ax.set(xlabel="milliseconds", xlim=(-0.02 * end, 1.02 * end), ylim=(-0.45, 1.4))
ax.grid(False)
ax.spines["left"].set_visible(False)
ax.tick_params(axis="y", length=0)
plt.show()
times = ready[-1] / handed_over[-1]
Markdown(f"A clock that does not wait calls these four products **{times:,.0f} times** faster than they are.")

# %% [markdown]
# So there is a clock that no profiler of Python shows: the device's own queue. Whoever asks for a value has to wait for
# it.

# %%
late = product(matrix)
at_return = late.is_ready()
value = np.asarray(late)[0, 0]  # print and float wait just as well
print("ready when the call returned:        ", at_return)
print("ready once we had asked for a value: ", late.is_ready())

# %% jupyter={"source_hidden": true}
# Proof
# Whoever has asked for a value has waited for it.
assert late.is_ready()

# %% [markdown]
# `jax.block_until_ready(tree)` waits without asking for anything, for every array in a dict, list or tuple.
#
# Now read the post's program once more. It waits for the *result* of each call. What else might not be ready?

# %% [markdown]
# ## The culprit
#
# `W` and `X` come from `jax.random.normal`, and that is a call like any other: it returns at once. When the post
# started its clock, two hundred million random numbers had been ordered, not delivered. The product had to wait for
# them, and the clock with it. One more line, and the clock times the product alone.

# %%
W, X = make_inputs()
jax.block_until_ready((W, X))  # the line that the post left out
awaited, awaited_log = three_calls(W, X)
print("three calls:", ", ".join(f"{1e3 * s:.0f} ms" for s in awaited))

# %% jupyter={"source_hidden": true}
# Picture: what the first call was made of, as posted and with the inputs awaited
run = min(awaited[1:])
parts = ["waiting", "trace", "lower", "compile", "run"]
calls = {"a later call": [0, 0, 0, 0, run]}
for name, first, its_log in (
    ("first call,\ninputs awaited", awaited[0], awaited_log),
    ("first call,\nas posted", as_posted[0], log),
):
    stages = [its_log.seconds[stage] for stage in ("trace", "lower", "compile")]
    running = min(run, first - sum(stages))
    calls[name] = [first - sum(stages) - running, *stages, running]

fig, ax = plt.subplots(figsize=(7.5, 2.9))
left = np.zeros(len(calls))
for i, (part, colour) in enumerate(zip(parts, ("#bbbbbb", "C4", "C2", "C1", "C0"), strict=True)):
    width = np.array([1e3 * values[i] for values in calls.values()])
    ax.barh(list(calls), width, left=left, label=part, color=colour, height=0.55)
    left += width
for y, total in enumerate(left):
    ax.text(total, y, f"  {total:.0f} ms", va="center")
ax.set(xlabel="milliseconds", xlim=(0, 1.12 * left.max()))
ax.legend(ncols=5, loc="lower center", bbox_to_anchor=(0.4, 1), handlelength=1, columnspacing=1.2)
ax.grid(axis="y", visible=False)
plt.show()
share = calls["first call,\nas posted"][0] / as_posted[0]
Markdown(f"""**{100 * share:.0f} % of the first call as posted is grey:** neither building nor a product. It waited for
random numbers. (What may be grey in the bar below it is noise.)""")

# %% [markdown]
# Case closed, and the rule for every benchmark from now on: **the clock starts when nothing is pending, and stops when
# nothing is pending.** The post's other sentence stays true: warm up before you compare. It was right for the wrong
# reason, which is how such sentences survive.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: what building costs, what it saves, and when that pays.*

# %% [markdown]
# ## Clock two: building
#
# Each step of building gives an object that you can hold, and the next step starts from it. Take `selu`, an *activation*
# (what a neural network does to each number) from another of the posts, on a million numbers.


# %%
def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


million = jax.block_until_ready(jax.random.normal(jax.random.key(0), (1_000_000,)))

moments = [time.perf_counter()]
traced = jax.jit(selu).trace(million)
moments.append(time.perf_counter())
lowered = traced.lower()
moments.append(time.perf_counter())
compiled = lowered.compile()
moments.append(time.perf_counter())
compiled(million).block_until_ready()
moments.append(time.perf_counter())

# %% jupyter={"source_hidden": true}
# Table: the four steps, what each gives and how long it took
trace, lower, compile_, run_once = 1e3 * np.diff(moments)
Markdown(f"""
| step | from | to | what you hold | milliseconds |
|---|---|---|---|---|
| trace | Python | jaxpr, a list of operations | `{type(traced).__name__}` | {trace:.1f} |
| lower | jaxpr | StableHLO, what XLA reads | `{type(lowered).__name__}` | {lower:.1f} |
| compile | StableHLO | machine code for this CPU | `{type(compiled).__name__}` | {compile_:.1f} |
| run | numbers | numbers | an array | {run_once:.1f} |
""")

# %% [markdown]
# `jax.jit(selu)(x)` does all four in its first call, and the last one only from then on. Unit 02 reads the jaxpr, unit
# 05 says when the first three come back.
#
# ## Clock three: running
#
# What do we get for it? Without `jit` (*eagerly*), JAX compiles too: each operation is a program of its own (a
# **module**), which reads its arrays from memory and writes its result back. With `jit`, the whole function is one module.
#
# An older post timed two functions with `%timeit`: a normalisation of a matrix (`norm`: 585 µs, then 216 µs jitted) and
# `selu` (1.06 ms, then 187 µs). Its comment on the first was "the gain does not look very striking", and on the second
# "oh, not bad". We time them again, beside the product of our first post and what that post does next, a *relu*
# (negative numbers become 0).


# %%
def get_dot_product(W, X):
    return jnp.dot(W, X)


def apply_activation(x):
    return jnp.maximum(0.0, x)


def norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


def fastest(timing):
    """The best round: other programs on this machine can only make a round longer."""
    return min(timing.rounds)


# %% jupyter={"source_hidden": true}
# Helper: the bytes that a jitted program moves, over the least that it must move
def traffic(fn, *args):
    """Bytes that the compiled program moves, by XLA's estimate, over those of its arguments and its result."""
    needed = sum(array.nbytes for array in (*args, fn(*args)))
    return show_hlo(jax.jit(fn), *args).bytes / needed


# %%
guess = None  # your number: how many times faster is jit(selu) than selu, here and now?

# %%
table = jnp.asarray(np.random.default_rng(0).random((10_000, 100)), jnp.float32)
cases = {
    "dot product": (get_dot_product, (W, X)),
    "relu": (apply_activation, (million,)),
    "norm": (norm, (table,)),
    "selu": (selu, (million,)),
}
timings, ratios = {}, {}
for name, (fn, args) in cases.items():
    jax.clear_caches()  # as in a fresh process, where nothing has been compiled
    eager, jitted = benchmark(fn, *args, rounds=5), benchmark(jax.jit(fn), *args, rounds=5)
    timings[name] = eager, jitted
    ratios[name] = fastest(eager) / fastest(jitted)
show_guess(guess, ratios["selu"], "x")

# %% jupyter={"source_hidden": true}
# Table: modules, bytes and times, without jit → with jit
in_the_post = {"norm": f"{585 / 216:.1f}x", "selu": f"{1060 / 187:.1f}x"}
lines = ["| | modules | bytes moved, jitted | milliseconds | today | in the post |", "|-|-|-|-|-|-|"]
for name, (eager, jitted) in timings.items():
    fn, args = cases[name]
    lines.append(
        f"| {name} | {eager.compiles} → {jitted.compiles} | {traffic(fn, *args):.1f} of the least "
        f"| {1e3 * fastest(eager):.2f} → {1e3 * fastest(jitted):.2f} | **{ratios[name]:.1f}x** "
        f"| {in_the_post.get(name, '–')} |"
    )
display(Markdown("\n".join(lines)))

# %% [markdown]
# Each arrow goes from "without `jit`" to "with `jit`". The *least* that a program can move: read each argument once and
# write the result once.
#
# - **The dot product and the relu** are single operations. One module becomes one module, and there is nothing to win:
#   how far their ratios are from 1 is the noise of this machine, right now.
# - **`selu`** is half a dozen operations. Jitted, they are **fused**: one loop reads each number once, does everything
#   with it, and writes it once.
# - **`norm`** needs a mean before it can subtract it, so it walks through its table several times, whoever compiles it;
#   and JAX's own `mean` and `std` are jitted already. Its ratio is modest, then as now.
#
# No posted ratio is a law: run the cells again and the times move. The columns on the left do not.
#
# ## One jit or two?
#
# Our first post asks: jit the product and the relu one by one, or once around both? It measured 6.12 s + 0.06 s against
# 6.17 s and could not say. (Its clock for the whole pass was not restarted after the relu, so even that number is not
# clean.)
#
# You need no clock for this one. A product of this size is **bound by arithmetic**: its time goes into multiplications,
# not into memory. Merged or not, it does the same ones and takes as long. So merging can at best make the relu free.


# %%
@jax.jit
def forward_pass(W, X):
    return apply_activation(get_dot_product(W, X))


dot_jit, relu_jit = jax.jit(get_dot_product), jax.jit(apply_activation)
Z = dot_jit(W, X)
dot_ms = 1e3 * fastest(benchmark(dot_jit, W, X, rounds=5))
relu_ms = 1e3 * fastest(benchmark(relu_jit, Z, rounds=5))
both_ms = 1e3 * fastest(benchmark(forward_pass, W, X, rounds=5))
ceiling = (dot_ms + relu_ms) / dot_ms  # if the product takes as long as before

# %% jupyter={"source_hidden": true}
# Table: one by one, merged, and the most that merging can win
Markdown(f"""
| | product | relu | one by one | merged | most that merging can win |
|---|---|---|---|---|---|
| the post | 6.12 s | 0.06 s | 6.18 s | 6.17 s | {(6.12 + 0.06) / 6.12:.2f}x |
| here, now | {dot_ms:.1f} ms | {relu_ms:.2f} ms | {dot_ms + relu_ms:.1f} ms | {both_ms:.1f} ms | {ceiling:.2f}x |
""")

# %% [markdown]
# The last column is a ceiling, **as long as the kept part takes as long as before**. If the times beside it show more,
# or less than 1, they show noise; in the post they had the same chance to.
#
# What if the large part is no arithmetic at all? An outer product fills a matrix of 4096 x 4096, one multiplication a
# number. Then we add up its rows. How many times faster is it when the two are merged?


# %%
@jax.jit
def row_sums_of_outer(u, v):
    return jnp.outer(u, v).sum(1)


outer_jit, row_sums_jit = jax.jit(jnp.outer), jax.jit(lambda M: M.sum(1))

# %%
guess = None  # your number: time one by one, over time merged

# %%
u, v = jnp.linspace(0, 1, 4096), jnp.ones(4096)
M = outer_jit(u, v)
outer_time = fastest(benchmark(outer_jit, u, v, rounds=5))
sum_time = fastest(benchmark(row_sums_jit, M, rounds=5))
merged_time = fastest(benchmark(row_sums_of_outer, u, v, rounds=5))
show_guess(guess, (outer_time + sum_time) / merged_time, "x")

# %% jupyter={"source_hidden": true}
# Table: times and bytes of the outer product, the row sums, and the two merged
three = ((outer_jit, u, v), (row_sums_jit, M), (row_sums_of_outer, u, v))
outer_bytes, sum_bytes, merged_bytes = (show_hlo(fn, *args).bytes for fn, *args in three)
bound = (outer_time + sum_time) / max(outer_time, sum_time)
Markdown(f"""
| | outer product | row sums | merged | the ceiling, if the larger part stays as it is |
|---|---|---|---|---|
| time | {1e3 * outer_time:.1f} ms | {1e3 * sum_time:.1f} ms | {1e3 * merged_time:.1f} ms | {bound:.2f}x |
| bytes moved | {outer_bytes:,} | {sum_bytes:,} | {merged_bytes:,} | |
""")

# %% jupyter={"source_hidden": true}
# Proof
# The merged program moves far less than the matrix.
assert merged_bytes < M.nbytes / 100 < min(outer_bytes, sum_bytes)

# %% [markdown]
# The larger part did not take as long as before. Nearly all its time went into *writing* the matrix, and into getting
# new memory for it. Merged, **the matrix is never written**: each row is added up while it is made. So ask what the kept
# part is bound by. Arithmetic stays; an array between two programs goes.
#
# That is the answer to "one or two": one jit around the whole is one program to hand over, and lets XLA see everything,
# so put it there. But where the arithmetic of one operation takes the time, do not expect to see it.

# %% [markdown]
# ## When does it pay?
#
# Compiling is an investment. Whether it comes back depends on what a call saves, and that on the size of the arrays.
# Three functions, from one number to a million: `polynomial` does some forty small operations (Horner's rule), `relu`
# one, `matrix_product` one large one.


# %%
def polynomial(x):
    y = jnp.zeros_like(x)
    for k in range(21):
        y = y * x + 1 / (1 + k)
    return y


def relu(x):
    return jnp.maximum(0.0, x)


def matrix_product(x):
    return x @ x


# %%
guess = None  # your number: how many times faster does jit make `polynomial` for one number?

# %%
sides = [1, 10, 100, 1000]
sizes = [side * side for side in sides]
speedups, break_evens = {}, {}
for fn in (polynomial, relu, matrix_product):
    speedups[fn], break_evens[fn] = [], []
    for side in sides:
        x = jnp.full((side, side), 1 / side)
        eager, jitted = benchmark(fn, x, rounds=11), benchmark(jax.jit(fn), x, rounds=11)
        saved = fastest(eager) - fastest(jitted)  # by each later call
        speedups[fn].append(fastest(eager) / fastest(jitted))
        break_evens[fn].append(jitted.first / saved if saved > 0 else np.nan)
show_guess(guess, speedups[polynomial][0], "x")

# %% jupyter={"source_hidden": true}
# Picture: speedup, and calls until the first one has paid, by size
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
for fn, values in speedups.items():
    left.plot(sizes, values, "o-", label=fn.__name__)
    right.plot(sizes, break_evens[fn], "o-")
left.axhline(1, color="C6", linewidth=1.2, label="1x: jit changes nothing")
lowest = min(0.7, *(min(values) for values in speedups.values()))
ticks = [n for n in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if n > 0.8 * lowest]
left.set(
    xscale="log",
    yscale="log",
    xlabel="numbers in the array",
    title="Speedup of a warm call",
    ylim=(0.8 * lowest, None),
)
left.set_yticks(ticks, [f"{n}x" for n in ticks])
left.minorticks_off()
right.set(xscale="log", yscale="log", xlabel="numbers in the array", title="Calls until jit has paid for itself")
right.minorticks_off()
fig.legend(loc="outside upper center", ncols=4)
plt.show()

# %% [markdown]
# Two things are worth a second look.
#
# - **A high ratio has two sources.** Forty operations on one number are forty *dispatches* (work is handed over) and
#   nothing else, and `jit` replaces them by one: a win over *Python's* work. With a million numbers it is a win over
#   *memory*. (Which of the two is larger depends on the machine.) A large matrix product has neither to give: its line
#   comes down to 1x. Where a line lies below, you see noise.
# - **A high ratio can be a bad deal.** For one number, `polynomial` needs far more calls to pay for itself than on a
#   million, because each call is so short that it saves next to nothing. Where a point is missing on the right, jitted
#   calls saved no time, so no number of them pays for the compiling.
#
# A ratio tells you about one call, break-even about your program. The right-hand picture takes the first call without
# `jit` as free. It is not, and only the difference has to come back:
#
# $$\text{calls} = 1 + \frac{\text{first call with jit} - \text{first call without}}
# {\text{later call without} - \text{later call with}}$$

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: three claims about speed, on trial.*

# %% [markdown]
# ## "More than 150 times faster than NumPy"
#
# That is how the post with `norm` and `selu` introduces JAX, without a program. Here is one for it: `gelu`, another
# activation, on a million numbers. NumPy on one side, `jit` on the other, the same formula and the same machine.


# %%
def gelu(xp, x):
    """xp is numpy or jax.numpy."""
    return 0.5 * x * (1 + xp.tanh(0.7978846 * (x + 0.044715 * x**3)))


def against_numpy(fn, x):
    """NumPy's best time over that of the jitted function. fn takes the module, then an array."""
    in_numpy = benchmark(lambda x: fn(np, x), x, rounds=7)
    in_jax = benchmark(jax.jit(lambda x: fn(jnp, x)), jnp.asarray(x), rounds=7)
    return fastest(in_numpy) / fastest(in_jax)


# %%
guess = None  # your number: how many times faster than NumPy is the jitted gelu?

# %%
numbers = np.asarray(million)
claimed = against_numpy(gelu, numbers)
show_guess(guess, claimed, "x")

# %% [markdown]
# Look at the formula again before you believe it, or any such number. What does NumPy do for `x**3`? It calls `pow`,
# which works for any exponent and takes its time. JAX sees, while it traces, that the exponent is the number 3, and asks
# XLA for two multiplications. So write what you mean, and ask again. While we are at it: a few more programs that a
# benchmark could have picked.


# %%
def gelu_by_hand(xp, x):
    return 0.5 * x * (1 + xp.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


def life(xp, cells):
    """One step of Conway's Game of Life. cells: int8[n, n], ones are alive."""
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    alive = sum(xp.roll(cells, shift, (0, 1)) for shift in around)
    return ((alive == 3) | ((alive == 2) & (cells == 1))).astype(cells.dtype)


# %%
grid = (numbers[: 512 * 512] > 0.5).astype(np.int8).reshape(512, 512)
more = {
    "gelu, with x * x * x": (gelu_by_hand, numbers),
    "Game of Life, 512 x 512": (life, grid),
    "sort a million numbers": (lambda xp, x: xp.sort(x), numbers),
    "product of 1000 x 1000": (lambda xp, x: x @ x / 1000, numbers.reshape(1000, 1000)),
}
programs = {"gelu, with x**3": claimed}
with jax.default_matmul_precision("highest"):  # as NumPy does it; a GPU or TPU drops digits
    for name, (fn, x) in more.items():
        programs[name] = against_numpy(fn, x)

# %% jupyter={"source_hidden": true}
# Picture: jitted JAX against NumPy, five programs
fig, ax = plt.subplots(figsize=(7.5, 2.8))
values = np.array(list(programs.values()))
ax.barh(list(programs), values - 1, left=1, color=["C0" if value > 1 else "C1" for value in values], height=0.6)
for y, value in enumerate(values):
    words = f" {value:.3g}x " if value > 1 else f" 1/{1 / value:.3g} "
    ax.text(value, y, words, va="center", ha="left" if value > 1 else "right")
ax.axvline(1, color="#333333", linewidth=1)
ax.axvline(150, color="C6", linestyle="--")
ax.text(125, len(values) - 0.8, "the post", color="C6", ha="right", fontsize=10)
ax.set(xscale="log", xlim=(min(values) / 4, 400), title="Jitted JAX against NumPy, here and now")
ax.set_xticks([0.01, 0.1, 1, 10, 100], ["1/100", "1/10", "equal", "10x", "100x"])
ax.invert_yaxis()
ax.minorticks_off()
ax.grid(axis="y", visible=False)
plt.show()
by_pow = programs["gelu, with x**3"] / programs["gelu, with x * x * x"]
Markdown(f"Of the first bar, a factor of **{by_pow:.0f}** is one way to write a cube. It has nothing to do with JAX.")

# %% jupyter={"source_hidden": true}
# Proof
# JAX asks for two multiplications, and in each program NumPy and JAX compute the same.
cube = jax.jit(lambda x: x**3).lower(million).as_text()  # what XLA is asked for
assert cube.count("stablehlo.multiply") == 2 and "stablehlo.power" not in cube
with jax.default_matmul_precision("highest"):
    for fn, x in [(gelu, numbers), *more.values()]:
        np.testing.assert_allclose(fn(np, x), jax.jit(lambda x, fn=fn: fn(jnp, x))(x), rtol=1e-3, atol=1e-5)

# %% [markdown]
# So "how much faster than NumPy?" has no answer without a program. NumPy is compiled as well, in advance and by hand,
# and some of its loops (`sort` above all) are better than what XLA makes for a CPU. What `jit` has over it is the
# freedom to look at a *whole* program: fuse, use all cores, and run the same lines on a GPU.
# Always ask what the slow side was doing.

# %% [markdown]
# ## "Do not jit what you call only once"
#
# Another post ends with this advice: a small function that runs once gets slower if you jit it. Start from a JAX that
# has compiled nothing yet, as in a fresh process. Which first call is quicker, and by how much?


# %%
def once(x):
    return jnp.tanh(x) * 2 + jnp.exp(-x)


ten = jnp.arange(10.0)

# %%
guess = None  # your number: first call without jit, over first call with it (> 1: jit is quicker)

# %%
jax.clear_caches()
cold_eager = benchmark(once, ten, rounds=3)
jax.clear_caches()
cold_jit = benchmark(jax.jit(once), ten, rounds=3)
print(f"without jit: builds {cold_eager.compiles} modules,", cold_eager)
print(f"with jit:    builds {cold_jit.compiles} module, ", cold_jit)
show_guess(guess, cold_eager.first / cold_jit.first, "x")

# %% jupyter={"source_hidden": true}
# Proof
# Without jit more modules are built than with it.
assert cold_eager.compiles > cold_jit.compiles == 1

# %% [markdown]
# Without `jit` there is compiling too, once for each operation that JAX has not met yet. In a *cold* process, which has
# compiled nothing yet, one program is built faster than several, and the advice is upside down. It holds again once the
# single operations are *warm* (compiled), as they are in a long session: compare the later calls above with the first
# call of the jitted one. Ask which of the two you are in.
#
# ## "The compiled version is slower"
#
# A question on Stack Overflow: "I want to speed up nested loops with jit. But compiling takes very long, and the
# compiled version is slower than the one without." Here is its program, with a smaller grid (the original has 64 x 32).
# (`a.at[i, j].set(z)`: an array like `a` with `z` in one place.)

# %%
height, width = 10, 5
w = jax.random.normal(jax.random.key(0), (height, width))


def forward():
    a = jnp.zeros(shape=(height, width + 1))
    for i in range(height):
        a = a.at[i, 0].add(1.0)
    for j in range(width):
        for i in range(1, height - 1):
            z = a[i - 1, j] * w[i - 1, j] + a[i, j] * w[i, j] + a[i + 1, j] * w[i + 1, j]
            a = a.at[i, j + 1].set(z)


# %% [markdown]
# And its two readings of the clock. Tracing **unrolls** the loops into one long list of operations.

# %%
t0 = time.perf_counter()
forward()
t1 = time.perf_counter()
forward_jit = jax.jit(forward)
forward_jit()
t2 = time.perf_counter()
recorded = len(jax.jit(forward).trace().jaxpr.eqns)
print(f"without jit {t1 - t0:.2f} s, with jit {t2 - t1:.2f} s: the question's two numbers")
print(f"operations recorded by the trace: {recorded}")

# %% [markdown]
# How many of these operations does the compiled program perform? Read `forward` again, from the first line to the last.

# %%
guess = None  # your number of operations

# %%
left_over = sum(show_hlo(forward_jit).ops.values())
print(forward_jit.lower().as_text())
show_guess(guess, left_over, "operations")

# %% jupyter={"source_hidden": true}
# Proof
# The number of operations that are left.
assert left_over == 0

# %% [markdown]
# The function returns nothing, so nothing it computes is needed, and XLA removes it all. What was timed is the trace:
# Python, walking through loops once more. Count the flaws:
#
# 1. **no output**: all the work is dead code, needed by nobody;
# 2. **no input**: `w` is baked into the program as a constant, so what is left could be computed while compiling;
# 3. **no waiting**: without `jit` the clock stops when the last operation has been handed over;
# 4. **no warm-up**: one call each, so both readings are mostly building: without `jit`, compiling one operation after
#    the other; with it, the trace.
#
# With all four mended, on a grid small enough to compile at once:


# %%
def forward_mended(w):
    height, width = w.shape
    a = jnp.zeros((height, width + 1)).at[:, 0].set(1.0)
    for j in range(width):
        for i in range(1, height - 1):
            z = a[i - 1, j] * w[i - 1, j] + a[i, j] * w[i, j] + a[i + 1, j] * w[i + 1, j]
            a = a.at[i, j + 1].set(z)
    return a


# %%
small_w = w[:6, :3]
eager = benchmark(forward_mended, small_w, rounds=5)
jitted = benchmark(jax.jit(forward_mended), small_w, rounds=5)
print("without jit:", eager)
print("with jit:   ", jitted)
pays = max(1, 1 + (jitted.first - eager.first) / (eager.median - jitted.median))
print(f"Once built, the jitted loop is {eager.median / jitted.median:,.0f} times faster.")
print(f"It has paid for itself by call number {np.ceil(pays):.0f}.")

# %% [markdown]
# "Slower with jit" was a statement about building, made with a clock for running. That the building takes so long for a
# larger grid is a problem of its own: unit 06 makes it disappear.
#
# ## Keypoints
#
# - A JAX call returns before it is done. Start the clock when nothing is pending, inputs included, and stop it when
#   nothing is pending: `jax.block_until_ready`.
# - A first call is waiting + trace + lower + compile + run. Ask each for its share before you blame one.
# - Without `jit`, every operation is a program of its own, compiled and dispatched by itself. With `jit`, they are one.
# - `jit` saves dispatches on small arrays and trips to memory on large ones. Where one matrix product takes all the
#   time, it saves next to nothing.
# - Merging two programs wins (kept + removed) / kept at most, if the kept part takes as long as before. If it wrote an
#   array that only the other one reads, there is no such ceiling: the array is never written.
# - Break-even is a number of calls, and you can compute it.
# - A benchmark needs inputs, outputs, a warm-up and a wait. Without them you time something, but not what you think.
#
# ## Your turn
#
# [The exercise](../exercises/01_three_clocks/three_clocks.ipynb): write a stopwatch that nobody can fool, catch eight
# lying benchmarks, make a polynomial many times faster, and read four sealed dials with nothing but a clock. 20 points.
