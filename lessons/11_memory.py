# %% [markdown]
# # 11 · Memory
#
# **`x = x.at[0].add(1)` changes four bytes. How many does JAX move, and who still holds the others?**
#
# You will
#
# - let a program write into the memory of its argument, and prove that it did;
# - read the memory analysis of a compiled program: arguments, results, scratch, and what is missing from it;
# - see the scratch space as XLA plans it, and buy some of it back.
#
# About {duration}, in three stages (about {stage} for the first). You need units 05 (the cache) and 09 (HLO); residuals
# and `jax.checkpoint` are from unit 08.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from autograder import benchmark, show_guess, show_hlo, show_jaxpr, trace_log

jax.config.update("jax_platforms", "cpu")  # whose memory this page is about; leave it out for yours
print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")

# %% jupyter={"source_hidden": true}
# Helper: modules for pictures and tables; is this the CPU, and can NumPy see its memory?
import contextlib
import gc
import os
import re
import tempfile
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

plt.style.use("autograder.course")
on_cpu = jax.default_backend() == "cpu"
probe = jnp.zeros(3)
shared = np.asarray(probe).ctypes.data == probe.unsafe_buffer_pointer()  # NumPy looks into the array's own memory
print("NumPy sees the memory of JAX's arrays:", shared)

# %% [markdown]
# This page is about the CPU's memory, so that everybody reads the same numbers: how much scratch space a program needs
# is its compiler's choice, and every device has a compiler of its own.

# %% [markdown]
# ## 1. Four bytes
#
# JAX arrays are immutable: `x[0] = 1` is an error, and `x.at[0].add(1)` returns a **new** array. Here is one of 64
# MB, and an update of its first number, jitted. The second version is the same but for `donate_argnums=0`.


# %%
def bump(x):
    return x.at[0].add(1)


copying = jax.jit(bump)
in_place = jax.jit(bump, donate_argnums=0)

# %%
guess = None  # your number: how many times faster is in_place? 2, 50 or 5,000?

# %%
state = {"x": jnp.zeros(16_000_000)}


def donated_step():
    state["x"] = in_place(state["x"])
    return state["x"]


def copying_step():
    state["x"] = copying(state["x"])
    return state["x"]


seconds = {step.__name__: benchmark(step, rounds=9).median for step in (copying_step, donated_step)}
for name, value in seconds.items():
    print(f"{name:14}{1e6 * value:12,.1f} µs")
show_guess(guess, seconds["copying_step"] / seconds["donated_step"], "x")

# %% [markdown]
# To change 4 bytes, the first version reads 64 MB and writes 64 MB into memory that nobody has touched before
# (which is the slow part: the operating system hands it out page by page). **To donate** an argument is to promise
# that you will not use it again. Then its memory may be used for the result, and an update is what it looks like.
#
# Every array can tell where it lies. So this can be proved:


# %%
def address(x):
    """Where an array's memory begins; None once it is deleted."""
    return None if x.is_deleted() else x.unsafe_buffer_pointer()


x = jnp.zeros(1_000_000)
where = address(x)
y = copying(x)
print("copying:  y lies where x lay:", address(y) == where, "   x is deleted:", x.is_deleted())
y = in_place(x)
print("in_place: y lies where x lay:", address(y) == where, "   x is deleted:", x.is_deleted())


# %% jupyter={"source_hidden": true}
# Picture: who holds which memory, in four situations
def holders(update, view=False):
    """Who holds which memory after y = update(x): name -> address."""
    x = jnp.zeros(1_000_000)
    names = {"x": x} | ({"v": np.asarray(x)} if view else {})
    if update:
        names["y"] = update(x)
    return {name: a.ctypes.data if isinstance(a, np.ndarray) else address(a) for name, a in names.items()}


def draw_holders(ax, names, title):
    memory = list(dict.fromkeys(place for place in names.values() if place))
    for row, (name, place) in enumerate(names.items()):
        ax.text(0, -row, name, size=14, family="monospace", va="center", alpha=1 if place else 0.3)
        if place:
            ends = {"xy": (1.05, -memory.index(place)), "xytext": (0.25, -row)}
            ax.annotate("", **ends, arrowprops={"arrowstyle": "->", "lw": 1.5, "color": "#444444"})
        else:
            ax.text(0.25, -row, "deleted", color="C1", va="center")
    for row, colour in zip(range(len(memory)), ("C0", "C4", "C2"), strict=False):
        ax.add_patch(plt.Rectangle((1.1, -row - 0.3), 0.8, 0.6, color=colour))
        ax.text(1.5, -row, "4 MB", color="white", ha="center", va="center", weight="bold")
    ax.set(xlim=(-0.15, 1.95), ylim=(-2.5, 0.6), title=title)
    ax.axis("off")


held = {
    "before": holders(None),
    "y = copying(x)": holders(copying),
    "y = in_place(x)": holders(in_place),
    "v = np.asarray(x)\ny = in_place(x)": holders(in_place, view=True),
}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.3))
for ax, (title, names) in zip(axes, held.items(), strict=True):
    draw_holders(ax, names, title)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Two buffers after copying, one after the donation, two again where NumPy looks on.
assert len(set(held["y = copying(x)"].values())) == 2
assert held["y = in_place(x)"]["x"] is None
viewed = list(held.values())[3]
assert (viewed["x"] == viewed["v"] != viewed["y"]) == shared

# %% [markdown]
# After the donation there is one buffer, as before, and its owner is called `y`. The name `x` is still there, but
# it holds nothing any more, and neither does any other name of the same array:

# %%
x = jnp.zeros(3)
other_name = x
y = in_place(x)
try:
    other_name + 1
except RuntimeError as error:
    print("RuntimeError:", error)
print("y is", y)

# %% jupyter={"source_hidden": true}
# Proof
# Deleted under both of its names.
assert x.is_deleted() and other_name.is_deleted() and not y.is_deleted()

# %% [markdown]
# The fourth picture is a trap. `np.asarray(x)` does not copy: on a CPU, `v` *is* the memory of `x`. JAX may not
# pull it away from under NumPy, so it copies, as if you had never donated anything, **and says nothing**.
# (`jax.device_get` does the same to you.) If you want to keep numbers, keep a copy: `np.array(x)`. (NumPy cannot look into
# an accelerator's memory. There `v` is a copy, and the trap is none.)
#
# ## 2. The receipt
#
# XLA plans all memory of a program before it runs. The receipt for it is what JAX calls the **memory analysis**. We
# read four of its lines. What there must be room for is `argument + output + temp - alias`:


# %%
def memory(fn, *args, **options):
    """The memory analysis of the compiled program, in bytes, and its total."""
    compiled = jax.jit(fn, **options).lower(*args).compile()
    stats = compiled.memory_analysis()
    names = "argument", "output", "temp", "alias"
    lines = {name: getattr(stats, f"{name}_size_in_bytes") for name in names}
    return lines | {"total": lines["argument"] + lines["output"] + lines["temp"] - lines["alias"]}


memory(lambda x: x + 1, jnp.zeros(1000))

# %% [markdown]
# `temp` is scratch space, for what lies between the arguments and the results. `alias` is memory that is argument and
# result in one, and so was counted twice. Seven programs, two of them with their argument donated:

# %%
table = jnp.asarray(np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32))
vector = table[0]


def pairs(v):
    return v[:, None] * v


PROGRAMS = {  # what, its argument, whether it is donated
    "x + 1": (lambda x: x + 1, table, False),
    "x + 1, donated": (lambda x: x + 1, table, True),
    "x @ x": (lambda x: x @ x, table, False),
    "x @ x, donated": (lambda x: x @ x, table, True),
    "x + C": (lambda x: x + table, table, False),
    "pairs(v).sum()": (lambda v: pairs(v).sum(), vector, False),
    "sort(pairs(v)).sum()": (lambda v: jnp.sort(pairs(v)).sum(), vector, False),
}

# %% jupyter={"source_hidden": true}
# Picture: their memory, in arrays of 512 x 512
analyses = {
    name: memory(fn, argument, donate_argnums=0 if donated else ())
    for name, (fn, argument, donated) in PROGRAMS.items()
}
fig, ax = plt.subplots(figsize=(8, 3.4))
for row, lines in enumerate(analyses.values()):
    left = 0
    for line, colour, size in (
        ("argument", "C0", lines["argument"] - lines["alias"]),
        ("argument and result in one", "C3", lines["alias"]),
        ("output", "C4", lines["output"] - lines["alias"]),
        ("temp", "C1", lines["temp"]),
    ):
        bar = ax.barh(row, size / table.nbytes, left=left, color=colour, height=0.6)
        bar[0].set(edgecolor="white", linewidth=1, label=line if row == 0 else None)
        left += size / table.nbytes
    ax.text(left + 0.04, row, f"{left:.1f}", va="center")
ax.set_yticks(range(len(analyses)), analyses, family="monospace")
ax.set(xlabel="arrays of 512 x 512", xlim=(0, 2.6), xticks=[0, 1, 2])
ax.tick_params(axis="y", length=0)
ax.grid(axis="y", visible=False)
ax.invert_yaxis()
ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The totals in the picture.
total = {name: lines["total"] / table.nbytes for name, lines in analyses.items()}
if on_cpu:  # a library for products or sorts, as on a GPU, may ask for room of its own
    assert total["x + 1"] == 2 and total["x + 1, donated"] == 1
    assert total["x @ x"] == total["x @ x, donated"] == 2 and analyses["x @ x, donated"]["alias"] == table.nbytes
    assert total["x + C"] == 2 and total["pairs(v).sum()"] < 0.1 < 0.9 < total["sort(pairs(v)).sum()"]

# %% [markdown]
# - **alias** is the donation. It is the only line that you get back.
# - `x @ x`, donated, *is* aliased, and yet nothing is won: an element of `x` may not be overwritten while others still
#   need its row and column. So the product is made in scratch space (`temp`) and copied over. **Read the sum, not
#   one line.** In place is what can be done element by element, or touches a part only.
# - An array that lives only inside a fusion (unit 09) is on no line: the products of pairs are summed as they
#   come. Sort them, and they must all be there.
# - `x + C` needs three arrays of that size, and the analysis knows of two. The constant `C` is no argument. It is **in
#   the program**. To that we shall come back.
#
# ## 3. Which donations are taken up
#
# A donated buffer is reused if a result fits into it. What if none does? And which situations go wrong without a
# word? Nine situations; which of them reuse the memory of `x`? (The *host* is the computer that runs Python and NumPy.)

# %%
within = jax.jit(lambda x: in_place(x))  # the donation is inside another jit
SITUATIONS = {  # what is donated to, and what touches x before
    "the same shape: `x.at[0].add(1)`": (bump,),
    "another shape, as many bytes: `x.reshape(-1) + 1`": (lambda x: x.reshape(-1) + 1,),
    "a smaller result: `x[1:] * 2`": (lambda x: x[1:] * 2,),
    "a sum: `x.sum()`": (lambda x: x.sum(),),
    "you printed `x` before": (bump, str),
    "a copy on the host: `np.array(x)`": (bump, np.array),
    "a view on the host: `np.asarray(x)`": (bump, np.asarray),
    "`jax.device_get(x)`": (bump, jax.device_get),
    "the donating `jit` is called inside another `jit`": (within,),
}


# %% jupyter={"source_hidden": true}
# Table: what became of x, and whether JAX warned
def donate(fn, x, touch=lambda x: None):
    """One line of the table: y = fn(x), donated, after touch(x)."""
    fn = fn if fn is within else jax.jit(fn, donate_argnums=0)
    kept = touch(x)
    before = address(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = fn(x)
    del kept
    return address(y) == before, x.is_deleted(), bool(caught)


outcomes = {}
for what, (fn, *touch) in SITUATIONS.items():
    outcomes[what] = donate(fn, jnp.ones((300, 300)) * 2, *touch)
mark = {True: "✓", False: "✗"}
rows = "\n".join(
    f"| {what} | {mark[same]} | {'deleted' if gone else 'alive'} | {'yes' if warned else ''} |"
    for what, (same, gone, warned) in outcomes.items()
)
display(Markdown(f"| | result in x's memory | x afterwards | a warning |\n|---|:-:|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# The table, row by row.
viewing = not shared  # a view on the host prevents the donation, a copy does not
assert [same for same, *_ in outcomes.values()] == [True, True, False, False, True, True, viewing, viewing, False]
assert [warned for *_, warned in outcomes.values()] == [False] * 2 + [True] * 2 + [False] * 5
assert all(same == gone for same, gone, _ in outcomes.values())
# A warning comes with the first call, which compiles, and not with the second.
summed, heard = jax.jit(lambda x: x.sum(), donate_argnums=0), []
for _ in range(2):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        summed(jnp.ones((300, 300)))
    heard.append(bool(caught))
assert heard == [True, False]

# %% [markdown]
# A result of another size earns a **warning**, `Some donated buffers were not usable`, and only when the program is
# compiled, so later calls are silent. The last three get none. **So test a donation**: `x.is_deleted()` after the
# call is the cheapest test there is.
#
# (That a donation inside another `jit` counts for nothing is no bug: what goes on inside is XLA's own affair.
# Donate at the outermost `jit`.)
#
# There are two more ways to get it wrong, and these are loud. The first is a classic: a program keeps two arrays,
# `online`, which it changes, and `target`, which follows it slowly. Both begin with the same numbers.


# %% jupyter={"source_hidden": true}
# Helper: the error of a call, as one line
# XLA's own log of it, on the process's standard error, is kept quiet.
@contextlib.contextmanager
def without_stderr():
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def complaint(fn, *args):
    try:
        with without_stderr():
            jax.block_until_ready(fn(*args))
    except (RuntimeError, ValueError) as error:
        return re.sub(r" \(flattened.*?\)\.", ".", str(error).splitlines()[0])
    return None


# %%
def update(online, target):
    return online + 1, 0.9 * target + 0.1 * online


advance = jax.jit(update, donate_argnums=(0, 1))
online = jnp.zeros(10)
target = online  # meant as a copy
twice = complaint(advance, online, target)
print("two names for one:", twice)
advance(online, jnp.array(online))
again = complaint(in_place, online)
print("donated already:  ", again)

# %% jupyter={"source_hidden": true}
# Proof
# Both are refused; `array` copies, `asarray` and `[:]` do not.
assert "deleted" in again and "twice" in twice
fresh = jnp.zeros(10)
assert jnp.array(fresh) is not fresh and jnp.asarray(fresh) is fresh and fresh[:] is fresh

# %% [markdown]
# `jnp.array(online)` copies. `jnp.asarray(online)` and `online[:]` do not, they are `online` itself.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: who keeps memory between calls, constants that are compiled in, and arrays that can be written into.*

# %% [markdown]
# ## 4. Who keeps it?
#
# A memory analysis is of one program. What is between the calls is up to Python: a buffer lives as long as anybody holds
# it. `jax.live_arrays()` lists them all. Three loops, each of ten steps, all with the same result:


# %%
def live_megabytes():
    return sum(array.nbytes for array in jax.live_arrays()) / 1e6


def run(step, history=None):
    """Ten steps; after each, how many MB there are more than before the first."""
    gc.collect()  # what lives only in a reference cycle is held by nobody
    before, seen = live_megabytes(), []
    x = jnp.zeros(500_000)
    for _ in range(10):
        y = step(x)
        seen.append(live_megabytes() - before)
        if history is not None:
            history.append(y)
        x = y
    return seen


LOOPS = {"history.append": run(copying, []), "copying": run(copying), "donated": run(in_place)}

# %% jupyter={"source_hidden": true}
# Picture: MB alive after each step
fig, ax = plt.subplots(figsize=(7.5, 2.9))
for (name, seen), colour in zip(LOOPS.items(), ("C1", "C0", "C3"), strict=True):
    ax.plot(range(1, 11), seen, "o-", color=colour)
    ax.text(10.2, seen[-1], name, color=colour, va="center", family="monospace")
ax.set(xlabel="step", ylabel="MB alive", xlim=(0.5, 13), ylim=(0, 24), xticks=range(1, 11, 3))
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# One array, two, or all of them.
assert np.allclose(LOOPS["donated"], 2) and np.allclose(LOOPS["copying"], 4)
assert LOOPS["history.append"][-1] >= 20

# %% [markdown]
# While `y = step(x)` is made, both are there: two arrays, unless donated. And one innocent `append` holds them all.
# In real programs it is rarely an array of parameters that is appended; it is a `loss`, and that is one number. But keep
# a tuple `(loss, state)`, an exception's traceback, or a notebook's `Out[7]`, and the memory analysis of your program no
# longer explains what is full.
#
# ## 5. The constant that was compiled
#
# Back to `x + C`. A function that is jitted may use an array that is no argument of it: it **closes over** it. To
# the jaxpr that array is a constant, and the jaxpr takes it along.


# %%
def closed_over(v):
    return table @ v


def as_argument(table, v):
    return table @ v


# %% jupyter={"source_hidden": true}
# Table: where the array of 512 x 512 is, in both
def constant_bytes(fn, *args):
    """The arrays that a function's jaxpr carries along."""
    return sum(constant.nbytes for constant in jax.make_jaxpr(fn)(*args).consts)


rows = []
for fn, *args in ((closed_over, vector), (as_argument, table, vector)):
    text = jax.jit(fn).lower(*args).as_text()
    rows.append((fn.__name__, constant_bytes(fn, *args), len(text), memory(fn, *args)["argument"]))
head = "| | bytes of constants in the jaxpr | letters of StableHLO | `argument`, bytes |\n|---|--:|--:|--:|\n"
display(Markdown(head + "\n".join(f"| `{name}` | {c:,} | {t:,} | {a:,} |" for name, c, t, a in rows)))

# %% jupyter={"source_hidden": true}
# Proof
# The whole table is in the program.
assert rows[0][1] == table.nbytes and rows[1][1] == 0
assert rows[0][2] > 2 * table.nbytes and rows[1][2] < 5000

# %% [markdown]
# The table was printed into the program, two letters a byte. Three things follow.
#
# **It is there again and again.** Each new shape of `v` is a new program, with its own copy:

# %%
programs = jax.jit(lambda v: v + table.sum())
letters = [len(programs.lower(jnp.zeros(length)).as_text()) for length in (10, 20, 30)]
print(f"three lengths: {' + '.join(f'{n:,}' for n in letters)} letters")

# %% jupyter={"source_hidden": true}
# Proof
# Each of them holds the whole table.
assert min(letters) > 2 * table.nbytes

# %% [markdown]
# **It is frozen.** What you do to the name `table` afterwards does not reach the program (unit 03).
#
# **And XLA computes with it, while you wait.** What depends on constants only can be computed at compile time:
# *constant folding*. That is a service, done by a slow, simple interpreter. Here a table is sorted and one place of
# it is read:

# %%
guess = None  # your number: how many times longer to compile, 1024 numbers closed over? 1, 5, 100?


# %% jupyter={"source_hidden": true}
# Helper: seconds that the compiler works for fn, and whether the sort is still in its program
def compile_seconds(fn, *args, **options):
    lowered = jax.jit(fn).lower(*args)
    start = time.process_time()  # seconds of work, however busy the machine is
    with without_stderr():  # XLA grumbles when it folds for more than a second
        compiled = lowered.compile(compiler_options=options or None)
    return time.process_time() - start, "sort(" in compiled.as_text()


# %%
SIZES = (128, 256, 512, 1024)
NO_FOLDING = {"xla_disable_hlo_passes": "constant_folding"}
rng = np.random.default_rng(1)
curves = {"closed over": [], "closed over, no folding": [], "as an argument": []}
for size in SIZES:
    data = jnp.asarray(rng.normal(size=size).astype(np.float32))

    def closed(i, data=data):
        return jnp.sort(data)[i]

    curves["closed over"].append(compile_seconds(closed, 3))
    curves["closed over, no folding"].append(compile_seconds(closed, 3, **NO_FOLDING))
    curves["as an argument"].append(compile_seconds(lambda data, i: jnp.sort(data)[i], data, 3))
show_guess(guess, curves["closed over"][-1][0] / curves["as an argument"][-1][0], "x")

# %% jupyter={"source_hidden": true}
# Picture: time to compile, by size of the table
fig, ax = plt.subplots(figsize=(7.5, 3))
for (name, points), colour in zip(curves.items(), ("C1", "C2", "C0"), strict=True):
    values = [1e3 * value for value, _ in points]
    ax.plot(SIZES, values, "o-" if name != "closed over, no folding" else "s:", color=colour, label=name)
ax.set(xlabel="numbers in the table", ylabel="ms of compiling", ylim=(0, None), xticks=SIZES)
ax.legend()
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Closed over, the sort is done before the program runs; otherwise it is still in the program.
if on_cpu:  # elsewhere a sort may be a call of a library, under another name
    assert [kept for _, kept in curves["closed over"]] == [False] * 4, "the sort is done before the program runs"
    assert all(kept for name in list(curves)[1:] for _, kept in curves[name])

# %% [markdown]
# The operation `sort` is gone from the program: it was done, number by number, by the compiler. The dotted line is
# the same program with the pass `constant_folding` switched off, so we have the culprit. The curve goes on, and for
# a table of 100 x 100 you may already see XLA grumble: *Constant folding an instruction is taking > 1s*. That is
# the message to remember.
#
# The cure is one word long: make it an **argument**. What should be computed once, like the sorting, you compute
# once yourself, outside, on the real machine. One of the exercises is about exactly that.
#
# (`self` is the usual hiding place: `jax.jit(self.predict)` closes over every array that the object holds.)
#
# ## 6. A box that may be written into
#
# Donation makes values *behave* as if they were changed. A **[ref](https://docs.jax.dev/en/latest/jax.ref.html)**
# really is mutable: a box for one array. You read it with `box[...]`, write with `box[i] = value`, and a jitted function
# may do both.

# %%
box = jax.new_ref(jnp.zeros(4))
where = {box.unsafe_buffer_pointer()}


@jax.jit
def note(i, value):
    box[i] += value  # closed over, and yet no constant
    return 2 * value


with trace_log(note) as log:
    for i in (0, 1, 1, 3):
        note(i, 10.0)
        where.add(box.unsafe_buffer_pointer())
print("after four calls:", box[...], f"  traces: {log.traces}  places in memory: {len(where)}")

# %% jupyter={"source_hidden": true}
# Proof
# Four writes, one trace, one place.
assert log.traces == 1 and box[...].tolist() == [10, 20, 0, 10] and len(where) == 1

# %% [markdown]
# Compare that with unit 03, where a list in place of the box collected one tracer and then nothing. The box is
# closed over too, but it is no constant: JAX hands it in with every call, and donates it. In the jaxpr a write is an
# equation with an arrow:


# %%
def accumulate(box, value):
    box[0] += value


print(show_jaxpr(accumulate, box, 1.0).text)
large = jax.new_ref(jnp.zeros(16_000_000))
stats = jax.jit(accumulate).lower(large, 1.0).compile().memory_analysis()
print(f"64 MB: alias {stats.alias_size_in_bytes:,} bytes, temp {stats.temp_size_in_bytes} bytes")

# %% jupyter={"source_hidden": true}
# Proof
# The box is donated, and nothing of its size is needed besides.
assert stats.alias_size_in_bytes == 64_000_000 and (stats.temp_size_in_bytes < 1000 or not on_cpu)

# %% [markdown]
# `a[0] <- ...` writes. There is nothing to return, nothing to rebind, nothing to donate. And what if
# a function gets one box under two names?


# %%
def swap_first(a, b):
    a[0], b[0] = b[0], a[0]


refusals = [complaint(jax.jit(swap_first), box, box), complaint(jax.jit(lambda box: box), box)]
print(*(re.sub(r" at \S+", "", line).split(", but")[0] for line in refusals), sep="\n")
with trace_log() as log:
    accumulate(box, 1.0)
print(f"outside jit, one `box[0] += value` is {log.compiles} programs:", log.modules)

# %% jupyter={"source_hidden": true}
# Proof
# Both are refused; outside jit it is several programs.
assert all(refusals) and log.compiles > 1

# %% [markdown]
# A jitted function must know which of its boxes are one: the same box twice among its arguments, or a box as its
# result, is refused. That is what keeps the program pure as far as XLA can see. Write into boxes inside `jit`; outside,
# each index is several programs. `jax.freeze(box)` ends its life and returns the array.
#
# When which? A state that you hand from step to step: donate it. A log, a counter, a cache deep inside a loop,
# where you do not want to pass it through ten functions: a box.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: what scratch space is made of, and how to need less of it.*

# %% [markdown]
# ## 7. How XLA plays Tetris
#
# So far `temp` was one number. What is in it? XLA decides for every intermediate array *where* it lies and *from
# when to when*, and it will write the plan down if you ask. Here is a network of ten layers, $x + \sin(x W)$, and
# the gradient of its loss. Across: the program, line by line. Up: addresses. A rectangle is an array.


# %%
def layer(x, w):
    return x + jnp.sin(x @ w)


def written_out(layer):
    def loss(weights, x):
        for w in weights:
            x = layer(x, w)
        return (x**2).mean()

    return loss


x = jnp.ones((512, 64))
weights = [jnp.ones((64, 64))] * 10
networks = {  # we look at the gradient of each
    "keep everything": written_out(layer),
    "checkpoint around each layer": written_out(jax.checkpoint(layer)),
}


# %% jupyter={"source_hidden": true}
# Picture: XLA's plan of the scratch space, for both networks
def plan(fn, *args):
    """A program's scratch space: its bytes, and (name, size, offset, first, last, origin) of each array."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
        compiled = jax.jit(fn).lower(*args).compile(compiler_options=options)
        (places,) = (path.read_text() for path in Path(folder).glob("*-buffer-assignment.txt"))
        (lives,) = (path.read_text() for path in Path(folder).glob("*-live-range.txt"))
    size, lines = re.search(r": size (\d+),.*preallocated-temp:\n((?: value.*\n)*)", places).groups()
    spans = {n: (int(a), int(b)) for n, a, b in re.findall(r"^    (\S+?)\{\}:(\d+)-(\d+)$", lives, re.M)}
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', compiled.as_text()))
    found = re.findall(r"<\d+ (\S+) @\d+> \(size=(\d+),offset=(\d+)\)", lines)
    return int(size), [(n, int(s), int(o), *spans[n], origins.get(n, "")) for n, s, o in found if n in spans]


KINDS = {"forward pass": "C0", "backward pass": "C1", "computed again": "C2"}


def kind(origin):
    if "rematted" in origin:
        return "computed again"
    return "backward pass" if "transpose" in origin else "forward pass"


def draw_plan(ax, fn, title):
    size, arrays = plan(jax.grad(fn), weights, x)
    for _, height, bottom, first, last, origin in arrays:
        place = (first, bottom / x.nbytes), last - first, height / x.nbytes
        ax.add_patch(plt.Rectangle(*place, facecolor=KINDS[kind(origin)], edgecolor="white", linewidth=0.8))
    end = max(last for *_, last, _ in arrays)
    ax.set(xlim=(0, end + 1), title=f"{title}: {size / x.nbytes:.1f} x", xlabel="line of the program")
    ax.grid(visible=False)
    return size / x.nbytes


if on_cpu:  # each compiler writes its plan in files of its own
    fig, axes = plt.subplots(1, 2, figsize=(9, 4.3), sharey=True)
    heights = [draw_plan(ax, fn, title) for ax, (title, fn) in zip(axes, networks.items(), strict=True)]
    axes[0].set(ylim=(0, 1.05 * max(heights)), yticks=range(0, 21, 5), ylabel="address, in arrays like x")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in KINDS.values()]
    fig.legend(handles, KINDS, loc="outside lower center", ncols=3)
    plt.show()

# %% [markdown]
# The left one is the picture of training. In the forward pass every layer leaves arrays that stay: the residuals of unit
# 08, here in person. In the backward pass they are used up, last in, first out, and the holes are filled at once by
# arrays of the backward pass. `temp` is the height of the pyramid. A larger batch makes every rectangle higher, more
# layers make more of them.
#
# ## 8. Buying it back
#
# The right one is the same network with `jax.checkpoint` around each layer: keep its input only, compute the rest
# again. Did it help? That depends on the version, and on how the network is written. The same two networks with the
# layers in a `lax.scan`, beside it:


# %%
def scanned(layer):
    def loss(weights, x):
        return (lax.scan(lambda x, w: (layer(x, w), None), x, jnp.stack(weights))[0] ** 2).mean()

    return loss


BUILT = {
    ("written out", "keep everything"): written_out(layer),
    ("written out", "checkpoint"): written_out(jax.checkpoint(layer)),
    ("scan", "keep everything"): scanned(layer),
    ("scan", "checkpoint"): scanned(jax.checkpoint(layer)),
}
views = {how: show_hlo(jax.grad(fn), weights, x) for how, fn in BUILT.items()}
temps = {how: view.temp_bytes / x.nbytes for how, view in views.items()}

# %% jupyter={"source_hidden": true}
# Picture: scratch space of the four
fig, ax = plt.subplots(figsize=(7.5, 2.4))
for row, ((how, what), value) in enumerate(temps.items()):
    ax.barh(row, value, color="C0" if what == "keep everything" else "C2", height=0.65)
    ax.text(value, row, f" {value:.1f}", va="center")
ax.set_yticks(range(4), [f"{how}, {what}" for how, what in temps])
ax.set(xlabel="scratch space, in arrays of the size of x", xlim=(0, 1.12 * max(temps.values())))
ax.grid(axis="y", visible=False)
ax.invert_yaxis()
plt.show()

# %% jupyter={"source_hidden": true}
# Table: what the checkpoint did, told by the matrix products of the gradient
dots = [views["written out", what].ops["dot"] for what in ("keep everything", "checkpoint")]
asked = show_hlo(jax.grad(BUILT["written out", "checkpoint"]), weights, x, stage="lowered").ops["dot"]
helps = temps["written out", "checkpoint"] < 0.9 * temps["written out", "keep everything"]
if helps:
    why = "saves scratch space**: the layers really are computed again"
else:
    why = "saves nothing**: XLA saw that the second run is equal to the first, and merged them. What is merged must be "
    why += "kept. (A green rectangle on the right is a merged one: it bears the second run's name.)"
saved = 100 - 100 * temps["scan", "checkpoint"] / temps["scan", "keep everything"]
Markdown(f"""
| JAX {jax.__version__}, this machine | |
|---|---|
| matrix products in the gradient, written out, no checkpoint | {dots[0]} |
| with the checkpoint JAX asks for | {asked} |
| and XLA leaves | {dots[1]} |
| so the checkpoint, written out, | **{why} |
| in the `scan` it | saves {saved:.0f} % |
""")

# %% jupyter={"source_hidden": true}
# Proof
# In the scan the checkpoint saves; written out it saves where products are computed twice.
assert temps["scan", "checkpoint"] < 0.75 * temps["scan", "keep everything"] or not on_cpu
assert (helps == (dots[1] > dots[0]) and asked > dots[0]) or not on_cpu  # a library's product is no `dot` any more

# %% [markdown]
# What stands between the first and the second run is the wall of unit 09, `optimization_barrier`. On a CPU, JAX
# 0.10 tears it down before equal expressions are merged, and 0.12 after. A scan needs no wall: the forward pass is one
# loop and the backward pass another, and XLA merges nothing across two loops. In both versions the last bar is shorter
# than the one above it.
#
# So ask the memory analysis whether a checkpoint has bought anything. **A jaxpr says what is asked for. The memory
# analysis says what you get.**
#
# The same thought helps where no gradient is in sight. If an array is only huge because it holds everything at once
# (all pairs, all words of a vocabulary, a whole batch), go through it in pieces with `lax.map` or `lax.scan`, and
# only one piece needs room. Under `grad`, put a checkpoint around the piece; otherwise the loop keeps every
# piece for the backward pass, and you have won nothing. The last task of the exercise is just that.
#
# ## 9. If you have a GPU
#
# Then the first thing you see is that JAX has taken three quarters of its memory, before you have done anything. It
# has not used them; it takes them in one go so as to hand them out itself, quickly and without gaps. (This section
# is from [JAX's documentation](https://docs.jax.dev/en/latest/201/gpu-memory.html). A CPU does none of it, so
# nothing of it has been run here.)
#
# | in the environment, before JAX is first used | then |
# |---|---|
# | `XLA_PYTHON_CLIENT_PREALLOCATE=false` | takes what it needs as it goes. Good neighbours, more fragmentation |
# | `XLA_CLIENT_MEM_FRACTION=.40` | takes 40 % instead of 75 %: two processes on one card |
# | `XLA_PYTHON_CLIENT_MEM_FRACTION=.40` | the same under its old name, deprecated |
# | `XLA_PYTHON_CLIENT_ALLOCATOR=platform` | gives everything back at once. Slow, for hunting |
#
# `nvidia-smi` therefore shows what was *taken*. What is in use, JAX tells you itself, device by device; on a CPU it
# keeps no book:

# %%
print("memory_stats:", jax.devices()[0].memory_stats())
print(f"live arrays:  {live_megabytes():.0f} MB")
largest = max(jax.live_arrays(), key=lambda array: array.nbytes)
print(f"largest:      {largest.dtype}{list(largest.shape)}, {largest.nbytes / 1e6:.0f} MB")

# %% [markdown]
# When it says `RESOURCE_EXHAUSTED: Out of memory while trying to allocate ...`, the number in the message is
# what a single request asked for. Go down this list:
#
# 1. The memory analysis of that program: is `temp` the large one? Then sections 7 and 8: pieces, checkpoints, smaller
#    batches.
# 2. `argument` plus `output`? Donate the state.
# 3. All of it is small? Then somebody holds the rest: `jax.live_arrays()`.
# 4. Neither? Constants in programs (section 5), or another process has preallocated.
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of older posts, and what holds today
printed = [str(jax.make_jaxpr(fn)(jnp.ones(2))) for fn in (copying, in_place)]
shown = ["donated_invars" in text for text in printed]
fresh = jnp.ones(3)
in_place(fresh)
immutable = False
try:
    fresh[0] = 1
except TypeError:
    immutable = True
claims = [
    ("a jaxpr says `donated_invars=(False,)`", "✗", "it is printed only if something is donated"),
    ("arrays are immutable", "✓", "`x[0] = 1` is a `TypeError`; their *memory* can be reused"),
    ("donation is for GPU and TPU only", "✗", "it has just worked on a CPU"),
    ("`x.at[i].set(v)` is in place under `jit`", "✗", "only for a donated `x`, or one made inside the `jit`"),
    ("`XLA_PYTHON_CLIENT_MEM_FRACTION`", "✗", "`XLA_CLIENT_MEM_FRACTION` (documented; not run here)"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | today | why |\n|---|:-:|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# The first three.
assert shown == [False, True] and immutable and fresh.is_deleted()

# %% [markdown]
# ## Keypoints
#
# - Immutable is the array, not its memory. `donate_argnums` lets the result move in; the argument is deleted, under
#   all of its names.
# - A donation can fail without a word. Test it: `x.is_deleted()`, the pointer, or `alias`.
# - Memory analysis: argument + output + temp - alias. Read the sum. Constants are not in it.
# - An array that is closed over becomes part of the program: once for each shape, frozen, and folded while you wait.
#   Make it an argument.
# - A ref is a box that a jitted function may write into. It is passed and donated for you.
# - `temp` is a game of Tetris; under `grad` it is a pyramid of residuals. Pieces and checkpoints make it lower. The
#   memory analysis tells whether they did.
#
# ## Your turn
#
# [Exercise 11: memory](../exercises/11_memory/memory.ipynb). Fourteen memory analyses to predict, a training loop that
# hoards, a memory that must not grow, a table that must not be compiled, a flight recorder, an echo that moves all it
# remembers, and a loss on a diet. 22 points.
