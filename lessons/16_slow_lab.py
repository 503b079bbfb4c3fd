# %% [markdown]
# # 16 · The Slow Lab
#
# **Thirteen people complain about a laboratory. None of them has seen its code. Can you name the instrument that each of
# them needs?**
#
# You will
#
# - turn a complaint into a number, and the number into a suspect;
# - put thirteen instruments of the units before into one table, and try each on a program that is known to be ill;
# - read a score card, and learn why the stopwatch is its poorest line.
#
# About {duration}, in two stages (about {stage} for the first). You need the units before this one. In the exercise you
# repair the lab.

# %%
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

from autograder import benchmark, show_guess, show_hlo, show_jaxpr, trace_log

print(f"JAX {jax.__version__}")

# %% jupyter={"source_hidden": true}
# Helper: modules for pictures, tables and the exercise's file
import json
import textwrap
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. The lab
#
# The lab lies in the exercise, and we leave the folder closed: a folded cell takes its program from there and runs it
# unread. (It also asks JAX for eight virtual CPU devices, as in unit 13.)

# %% jupyter={"source_hidden": true}
# Helper: the cells of the exercise that hold the lab, run in a namespace of their own
names = {}
notebook = json.loads(Path("../exercises/16_slow_lab/slow_lab.ipynb").read_text(encoding="utf-8"))
for cell in notebook["cells"]:
    name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
    if name == "setup" or name.startswith("lab-"):
        exec("".join(cell["source"]), names)
exercise = SimpleNamespace(**names)

# %%
lab = exercise.laboratory(vars(exercise), "lab_")
print(textwrap.fill(f"{len(vars(lab))} functions: {', '.join(vars(lab))}", 96))

# %% [markdown]
# It studies a dish: a table of cells. One substance, `u`, is food; the other, `v`, eats it and multiplies. Both spread;
# food is fed in, `v` dies off. That is the Gray-Scott model, and its dishes grow spots, stripes and labyrinths. A
# *tick* is one step of time. The lab has always wanted an atlas: the same seeds in 35 climates, 3000 ticks each. (A
# climate is how fast food comes in and how fast `v` dies.) How long will that take, at the pace of this lab?

# %%
guess = None  # your text: "seconds", "minutes" or "hours"


# %%
def grow(simulate, u, v, stages, ticks):
    """The dishes after 0, ticks, 2 * ticks, ...; and the seconds for one tick."""
    grown = [(u, v)]
    start = time.perf_counter()
    for _ in range(stages):
        after = simulate(*grown[-1], exercise.FEED, exercise.KILL, ticks)
        grown.append(jax.block_until_ready(after))
    return grown, (time.perf_counter() - start) / (stages * ticks)


seeds = lab.sow(jax.random.key(0), 64)
grow(lab.simulate, *seeds, 1, 1)  # so that nothing is compiled while the clock runs
stages, lab_tick = grow(lab.simulate, *seeds, 4, 100)
atlas = 35 * 3000 * lab_tick
print(f"{lab_tick * 1e3:.1f} ms a tick, and {35 * 3000:,} ticks: {atlas:.0f} seconds")
show_guess(guess, "seconds" if atlas < 60 else "minutes" if atlas < 3600 else "hours")

# %% jupyter={"source_hidden": true}
# Picture: the first few hundred ticks of one dish
fig, axes = plt.subplots(1, 5, figsize=(9, 2.1))
for number, (ax, (_, v)) in enumerate(zip(axes, stages, strict=True)):
    ax.imshow(lab.render(v, 2.6))
    ax.set_title(f"{number * 100} ticks", size=10, loc="center")
    ax.axis("off")
plt.show()

# %% [markdown]
# ## 2. The case file
#
# The lab does more than grow dishes. It sows them from a random key, watches their growth, shows a picture with a
# brightness, filters out fine detail, measures the contrast and the disorder (and the gradient of that, as a map), fits
# a linear model to how each cell changes, and makes forecasts with it for customers. A film is a dish that is almost
# even.
#
# Slow, then. But what people bring you is never "slow". Here is the file: who complains, of what, and the number that
# we measure now while nobody looks into the code.

# %%
figures = exercise.score_card(lab)

# %% jupyter={"source_hidden": true}
# Table: the complaints, with their numbers
FILE = {
    "modules": ("the porter", "One day of routine, and the compiler starts **{} times**."),
    "equations": ("the archivist", "The law of the dish is two lines. The jaxpr of one tick has **{} equations**."),
    "ghosts": ("a visitor", "I sowed two dishes with two keys. **{} %** of their cells agree to the last digit."),
    "traces": ("the photographer", "Every brightness makes me wait, once. I have tried 6 and waited **{} times**."),
    "recompiles": ("the statistician", "My second fit is as slow as the first: **{} programs**, all compiled anew."),
    "unrolling": ("the night shift", "Twice the ticks, twice the wait before they start. 24 have **{} equations**."),
    "products": ("the forecaster", "For 24 cells the jaxpr has **{} products**, for 48 it has twice that."),
    "NaN": ("the cartographer", "The map of the gradient has **{} holes** (NaN). The values are all right."),
    "FLOPs": ("the electrician", "The filter lets 36 numbers through, and takes **{} kFLOPs** to do it."),
    "digits": ("the optician", "The contrast of an even film is wrong by **{} %**. Others are fine."),
    "memory": ("the janitor", "To watch 100 ticks takes scratch memory for **{} dishes**, to watch 200 twice that."),
    "late compiles": ("the customers", "Five of us came after the opening, and **{}** had to wait for a compiler."),
    "collectives": ("the new machine", "Eight devices, a dish on each, and they communicate **{} times** a tick."),
}
rows = "\n".join(f"| {who} | {words.format(f'{figures[line]:g}')} |" for line, (who, words) in FILE.items())
display(Markdown(f"| who | complaint, and what we measure |\n|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# Every figure is over its budget, and what they say besides the number is true as well.
assert FILE.keys() == exercise.CARD.keys() and all(figures[line] > exercise.CARD[line][3] for line in FILE)
assert exercise.equations_of_ticks(lab.simulate, 12) * 2 == figures["unrolling"]
assert exercise.scratch_of_watch(lab.watch, 200) > 1.9 * figures["memory"]
(W, A), (_, bare_v) = (exercise.cells(7, 0)[1], exercise.cells(48, 0)[0]), exercise.dish(64, 0)
assert show_jaxpr(lab.predict, W, A).primitives["dot_general"] == 2 * figures["products"]
assert np.isfinite(lab.disorder(bare_v)) and abs(lab.contrast(bare_v) / bare_v.std() - 1) < 1e-3

# %% [markdown]
# Two of the complaints can be photographed, the visitor's and the cartographer's. No stopwatch will ever hear of them.

# %%
(_, one), (_, two) = (lab.sow(jax.random.key(seed), 64) for seed in (1, 2))
lab.sow.clear_cache()  # as after a restart
_, restarted = lab.sow(jax.random.key(1), 64)

bare_v = exercise.dish(64, 0)[1]  # a dish with a bare corner, where v is 0
slope = np.asarray(jax.grad(lab.disorder)(bare_v))

# %% jupyter={"source_hidden": true}
# Picture: two dishes, where they agree, and the map of the gradient
fig, axes = plt.subplots(1, 4, figsize=(9, 2.7))
for ax, v, title in ((axes[0], one, "sown with key 1"), (axes[1], two, "sown with key 2")):
    ax.imshow(v, cmap="cividis", vmax=2 * exercise.GRAIN)
    ax.set_title(title, size=10, loc="center")
axes[2].imshow(np.asarray(one == two), cmap="Greys", vmin=0, vmax=1.4)
axes[2].set_title("grey: the same digits", size=10, loc="center")
missing = plt.get_cmap("cividis").with_extremes(bad="C1")
axes[3].imshow(np.ma.masked_invalid(slope), cmap=missing)
axes[3].set_title("the map; orange: NaN", size=10, loc="center")
for ax in axes:
    ax.axis("off")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# After a restart the dish is another; the map has a hole for each bare cell.
assert not np.array_equal(one, restarted)
assert np.isnan(slope).sum() == (bare_v == 0).sum() > 0

# %% [markdown]
# The squares are elsewhere, as the key says. The grain between them is the same in both dishes, and after a restart of
# the lab it is another. And the holes of the map lie exactly where the dish is bare.
#
# You have met every one of these. The question is only: *with which instrument do you look?*
#
# ## 3. The instruments
#
# Here are thirteen, of the units 01 to 13, sorted by the moment at which a fault can be seen. Each instrument is tried
# on two small **stand-ins**, a sick program and a healthy one, neither from the lab. All that counts is whether the two
# numbers differ.
#
# First, what you see **in the jaxpr**, before anything is compiled:


# %%
def sick_ledger(x):  # a line that nobody reads
    book = {"total": jnp.tanh(x).sum(), "spread": jnp.sort(x)[-1] - jnp.sort(x)[0]}
    return book["total"]


def sick_sum(x):  # Python walks along the array
    total = 0.0
    for i in range(x.size):
        total = total + x[i]
    return total


def sick_pairs(x):  # Python walks along the rows
    return jnp.stack([x @ row for row in x])


# %% [markdown]
# `equations` counts the lines of a jaxpr, `primitives` counts them by name; `dot_general` is the matrix product.


# %%
def growth(fn):
    """How many equations are added when the array is 10 longer."""
    return show_jaxpr(fn, np.ones(30)).equations - show_jaxpr(fn, np.ones(20)).equations


vector, square = jnp.ones(20), jnp.eye(12)
ledgers = (sick_ledger, lambda x: jnp.tanh(x).sum())
unread = [show_jaxpr(fn, vector).equations for fn in ledgers]
unrolled = [growth(fn) for fn in (sick_sum, jnp.sum)]
programs = [show_jaxpr(fn, square) for fn in (sick_pairs, lambda x: x @ x.T)]
row_by_row = [program.primitives["dot_general"] for program in programs]

# %% jupyter={"source_hidden": true}
# Table: what is seen in the jaxpr


def show_table(table):
    rows = "\n".join(f"| {what} | {how} | {unit} | {ill:g} | {well:g} |" for what, how, unit, (ill, well) in table)
    display(Markdown(f"| symptom | look with | unit | sick | healthy |\n|---|---|:-:|--:|--:|\n{rows}"))


IN_JAXPR = [
    ("more is written than wanted", "`show_jaxpr(f, x).equations`", "02", unread),
    ("the wait grows with the length of a loop", "`show_jaxpr(f, x).equations`, for two lengths", "06", unrolled),
    ("the wait grows with the batch", "`show_jaxpr(f, x).primitives`", "07", row_by_row),
]
show_table(IN_JAXPR)

# %% jupyter={"source_hidden": true}
# Proof
# Each of the three numbers is higher for the sick one.
assert len(IN_JAXPR) == 3 and all(ill > well for *_, (ill, well) in IN_JAXPR)

# %% [markdown]
# Second, what you see only **when it is called, and called again**. A jaxpr does not say how often it is made.


# %%
def polynomial(x):
    return ((2 * x + 3) * x - 1) * x


@jax.jit
def shifted(x, shift):
    return x + shift


def sick_steps(x, rates):  # a new object in every round
    for rate in rates:
        x = jax.jit(functools.partial(shifted.__wrapped__, shift=rate))(x)  # shifted without its own jit
    return x


def steps(x, rates):
    for rate in rates:
        x = shifted(x, rate)
    return x


# %% jupyter={"source_hidden": true}
# Helper: how many programs are compiled, and how many traces made, by some calls


def built(fn, *calls, rehearse=()):
    """XLA modules built by fn(*call) for all calls, after the calls to rehearse; nothing is compiled at first."""
    jax.clear_caches()
    for call in rehearse:
        fn(*call)
    with trace_log() as log:
        for call in calls:
            fn(*call)
    return log.compiles


def traces(fn, *values):
    with trace_log(fn) as log:
        for value in values:
            fn(vector, value)
    return log.traces


# %% [markdown]
# `built` counts compiled programs and `traces` counts traces, both with `trace_log`. Calls to `rehearse` come before the
# counting: the first fit, or the opening of a service.

# %%
routine = [built(fn, (vector,)) for fn in (polynomial, jax.jit(polynomial))]

mixed, floats = (1, 1.0, np.float32(1), np.float64(1)), (1.0, 2.0, 3.0, 4.0)
some_wait = [traces(jax.jit(lambda x, s: x + s), *values) for values in (mixed, floats)]

first, second = (vector, (3.0, 4.0)), (vector, (1.0, 2.0))
second_time = [built(fn, second, rehearse=[first]) for fn in (sick_steps, steps)]

ragged = [(np.ones(n, np.float32),) for n in (3, 5, 8)]
each_kind = [built(jax.jit(polynomial), *ragged, rehearse=known) for known in ([], ragged)]

# %% [markdown]
# And one that no counter notices. Call the function, change the world, call it again: does the answer stay as it was,
# though a new trace gives another?

# %%
WORLD = {"season": 1.0}


def sick_harvest(x):  # reads the world while it is traced
    return x * WORLD["season"]


def deaf(fn, *args):
    """1 if a jitted function keeps its old answer where a new trace gives another."""
    jitted = jax.jit(lambda *args: fn(*args))
    WORLD["season"] = 1.0
    jitted(*args)
    WORLD["season"] = 2.0
    old = jitted(*args)
    jitted.clear_cache()
    return int(not np.array_equal(old, jitted(*args)))


stale = [deaf(sick_harvest, vector), deaf(lambda x, season: x * season, vector, 2.0)]

# %% jupyter={"source_hidden": true}
# Table: what is seen when it is called again
WHEN_CALLED = [
    ("a routine is many programs", "`trace_log()`, `log.compiles`", "01", routine),
    ("some calls wait, others do not", "`trace_log(f)`, `log.reasons`", "04", some_wait),
    ("the second time is no faster", "`log.compiles` around the second", "05", second_time),
    ("the first of each kind waits", "`log.compiles` after the opening", "12", each_kind),
    ("deaf to the world, or other after a restart", "call, change, call; then trace anew", "03", stale),
]
show_table(WHEN_CALLED)

# %% jupyter={"source_hidden": true}
# Proof
# Each of the five numbers is higher for the sick one.
assert len(WHEN_CALLED) == 5 and all(ill > well for *_, (ill, well) in WHEN_CALLED)

# %% [markdown]
# Third, what you see in **the compiled program and in its numbers**. In each pair the sick one comes first:

# %% jupyter={"source_hidden": true}
# Helper: NaN in a gradient, per cent wrong, and the collectives of a compiled program


def nan_in_gradient(fn, x):
    return int(np.isnan(jax.grad(fn)(x)).sum())


def share_wrong(value, truth):
    return 100 * abs(float(value) / truth - 1)


def collectives(fn, cut):
    """Collectives of fn(x), where the rows or columns of x lie on eight devices."""
    x = jax.device_put(wide, jax.NamedSharding(exercise.eight_devices(), cut))
    return show_hlo(jax.jit(fn), x).collectives.total()


# %%
tiny, wide = np.float32(1e-6), np.ones((64, 64), np.float32)

norms = jnp.linalg.norm, lambda x: (x * x).sum()
holes = [nan_in_gradient(f, np.zeros(3)) for f in norms]

logarithms = lambda x: jnp.log(1 + x), jnp.log1p
digits = [share_wrong(f(tiny), np.log1p(np.float64(tiny))) for f in logarithms]

same_trace = lambda A: jnp.trace(A @ A), lambda A: (A * A.T).sum()
work = [show_hlo(f, wide).flops for f in same_trace]

row_norms = lambda A: jnp.diagonal(A @ A.T), lambda A: (A * A).sum(1)
scratch = [show_hlo(f, wide).temp_bytes for f in row_norms]

talk = [collectives(lambda x, axis=axis: x.sum(axis), P("x")) for axis in (0, 1)]

# %% jupyter={"source_hidden": true}
# Table: what is seen in the compiled program and in its numbers
IN_PROGRAM = [
    ("holes where a value is 0", "`isnan(grad(f)(x))`, with such an `x`", "08", holes),
    ("too much work for its result", "`show_hlo(f, x).flops`", "09", work),
    ("wrong for some inputs only", "the same computation in float64", "10", digits),
    ("much memory besides arguments and result", "`show_hlo(f, x).temp_bytes`", "11", scratch),
    ("devices communicate", "`show_hlo(f, x).collectives`", "13", talk),
]
show_table(IN_PROGRAM)

# %% jupyter={"source_hidden": true}
# Proof
# Each of the five numbers is higher for the sick one.
assert len(IN_PROGRAM) == 5 and all(ill > well for *_, (ill, well) in IN_PROGRAM)

# %% [markdown]
# Thirteen instruments, and each tells the sick from the healthy. Not one of these numbers is a time: they are the same
# on a busy machine and in the next run. In another version of JAX some may differ a little.
#
# Now the lab again. Where would you look first for each of the thirteen complaints?

# %%
GUESSES = {  # your word for each: "jaxpr", "call" (again) or "program" (the compiled one)
    "the porter": None,  # one day, and the compiler starts again and again
    "the archivist": None,  # too many equations for one tick
    "a visitor": None,  # two keys, the same grain
    "the photographer": None,  # each new brightness waits
    "the statistician": None,  # the second fit is as slow as the first
    "the night shift": None,  # twice the ticks, twice the wait
    "the forecaster": None,  # twice the cells, twice the products
    "the cartographer": None,  # holes in the map of the gradient
    "the electrician": None,  # too much work for 36 numbers
    "the optician": None,  # a wrong contrast, for an even film
    "the janitor": None,  # twice the ticks, twice the scratch memory
    "the customers": None,  # each had to wait for a compiler
    "the new machine": None,  # eight devices communicate
}

# %% jupyter={"source_hidden": true}
# Table: your words, and the instruments
INSTRUMENTS = {}
for place, table in (("jaxpr", IN_JAXPR), ("call", WHEN_CALLED), ("program", IN_PROGRAM)):
    INSTRUMENTS |= {int(unit): (place, how) for _, how, unit, _ in table}
rows = []
for line, (who, _) in FILE.items():
    place, how = INSTRUMENTS[exercise.CARD[line][0]]
    rows.append(f"| {who} | {GUESSES.get(who) or '?'} | **{place}** | {how} |")
display(Markdown("\n".join(["| who | you said | seen in | look with |", "|---|---|---|---|", *rows])))

# %% jupyter={"source_hidden": true}
# Proof
# Each complaint has an instrument of its own.
assert len({INSTRUMENTS[unit] for unit, *_ in exercise.CARD.values()}) == len(FILE) == 13
assert GUESSES.keys() == {who for who, _ in FILE.values()}

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 2, about {stage}: what one `jit` repairs, the score card, and the lab next door.*

# %% [markdown]
# ## 4. What the stopwatch hears
#
# You could also just put `jax.jit` around the whole. It *is* the first thing to do. Take a program with five of these
# faults at once, jit it from outside, and ask the stopwatch, and then five other instruments.


# %%
def five_at_once(x):
    """Five faults, and three results."""
    book = {"total": sick_sum(x), "unread": jnp.sort(x)[-1]}
    table = jnp.outer(x, x)
    longest = jnp.linalg.norm(jnp.diagonal(table @ table))
    return polynomial(x) + book["total"], longest, jnp.log(1 + 1e-6 * x)


# %% [markdown]
# Five instruments: modules, equations, FLOPs, wrong digits, NaN. How many of these five numbers does one `jax.jit`
# repair?

# %%
guess = None  # your number, 0 to 5

# %%
values = jnp.linspace(1, 2, 40)


def examine(fn):
    """The five numbers of a program."""
    hlo, jaxpr = show_hlo(fn, values), show_jaxpr(fn, values)
    return {
        "XLA modules": built(fn, (values,)),
        "equations": jaxpr.equations,
        "FLOPs": hlo.flops,
        "% wrong in the last result": round(share_wrong(fn(values)[2][0], np.log1p(1e-6)), 1),
        "NaN in a gradient at 0": nan_in_gradient(lambda x: fn(x)[1], 0 * values),
    }


before, after = examine(five_at_once), examine(jax.jit(five_at_once))
repaired = sum(after[name] < 0.8 * before[name] for name in before)
show_guess(guess, repaired, "of 5")

# %% jupyter={"source_hidden": true}
# Table: the stopwatch and the five numbers, before and after
seconds = [benchmark(fn, values, rounds=7).median for fn in (five_at_once, jax.jit(five_at_once))]
rows = "\n".join(f"| {name} | {before[name]:,} | {after[name]:,} |" for name in before)
clock = f"| **the stopwatch** | **{seconds[0] * 1e3:.3g} ms** | **{seconds[1] * 1e3:.3g} ms** |"
display(Markdown(f"| | as it came | with `jax.jit` around it |\n|---|--:|--:|\n{clock}\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# All five faults were there, and one is repaired.
assert repaired == 1 and all(before.values())

# %% [markdown]
# The clock says *cured*. It times the second call, of one shape, for one input, on one device, when everything is
# compiled. It does not hear the wait before (06, 07), nor the next wait (04, 05, 12), nor wrong digits (08, 10), nor
# whose random numbers these are (03). And what it hears it cannot name.
#
# That is what a score card is for.
#
# ## 5. The score card
#
# Thirteen lines, each a number with a budget. Each looks at **one function** of the lab and answers **one crime**, as
# the exercise calls these faults: repair it and that line comes within its budget, whatever the others do. Here is the
# lab as it stands.

# %% jupyter={"source_hidden": true}
# Picture: the lab's card
COLOURS = {"jaxpr": ("C0", "in the jaxpr"), "call": ("C1", "when called again"), "program": ("C2", "in the program")}
fig, ax = plt.subplots(figsize=(8.5, 4.8))
for y, (line, (unit, _, _, budget, what)) in enumerate(exercise.CARD.items()):
    over = (1 + figures[line]) / (1 + budget)
    ax.barh(y, over - 1, left=1, height=0.62, color=COLOURS[INSTRUMENTS[unit][0]][0])
    ax.text(over * 1.06, y, f"{figures[line]:g}  (budget {budget:g})", va="center", size=9)
ax.axvline(1, color="#222222", lw=1)
ax.set(xscale="log", xlim=(1, 700), xlabel="times over budget (1 is within)", title="The lab's card")
ax.set_xticks([1, 10, 100], ["1", "10", "100"])
ax.set_yticks(range(len(figures)), [f"{what}   {unit:02d}" for unit, *_, what in exercise.CARD.values()])
ax.invert_yaxis()
ax.grid(axis="y", visible=False)
ax.tick_params(axis="y", length=0)
bars = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour, _ in COLOURS.values()]
ax.legend(bars, [label for _, label in COLOURS.values()], title="seen", loc="lower right")
plt.show()

# %% [markdown]
# (A budget of 0 has no multiple, so the bars show figure + 1 over budget + 1.) Do not read them as seconds. The longest bar
# is not the worst crime: a frozen random number ruins a year of experiments and costs no time at all.
#
# **Golf.** A budget says when to stop being ashamed, not how good it gets. So the exercise counts strokes as well: the
# equations of all jaxprs, 10 for each module of a day, 1 for each dish of scratch memory. Fewer is better; par is what the
# course's own solution needs. There is nothing of chance in it, so compare with anybody who has your version of JAX.

# %%
strokes = exercise.golf(lab, figures)
print(f"the lab: {strokes} strokes")

# %% jupyter={"source_hidden": true}
# Proof
# There is a lot to save.
assert strokes > 2000

# %% [markdown]
# ## 6. How to work a case
#
# 1. **Number first.** Turn the complaint into a figure that repeats. If you cannot, you will not know when you are done.
# 2. **Wrong before slow.** Holes, digits, ghosts. A fast wrong answer is worth nothing.
# 3. **From the jaxpr to the machine.** What is in the jaxpr, how often it is traced, what is compiled, what is moved. A
#    fault in the jaxpr shows up again in everything that is made of it.
# 4. **One change, and every number.** The line must move, and no other may get worse.
# 5. **Then the clock**, for the size that people use; and lock the door: a test that counts (`assert_max_traces`,
#    `jax.no_tracing`) outlives your memory.
#
# ## 7. The lab next door
#
# What is all this for? Next door they study another dish: a substance that flares up, burns out and recovers, like a heart
# muscle (the Barkley model). Theirs is a loop that stays a loop, in one program, with no memory to spare:


# %%
def flat_laplacian(z):
    """As if the dish had walls: the edge is its own neighbour."""
    p = jnp.pad(z, 1, mode="edge")
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * z


def flare(u, w):
    u_next = u + 0.01 * (u * (1 - u) * (u - (w + 0.05) / 0.75) / 0.02) + 0.04 * flat_laplacian(u)
    return u_next, w + 0.01 * (u - w)


@functools.partial(jax.jit, static_argnames="ticks", donate_argnames=("u", "w"))
def run_next_door(u, w, ticks):
    return lax.fori_loop(0, ticks, lambda _, dish: flare(*dish), (u, w))


# %%
size = 160
rows, columns = np.mgrid[:size, :size]
u, w = np.float32(columns > size // 2), np.float32(0.4 * (rows > size // 2))
jax.block_until_ready(run_next_door(jnp.asarray(u), jnp.asarray(w), 400))

frames, start = [], time.perf_counter()
for _ in range(6):
    u, w = run_next_door(jnp.asarray(u), jnp.asarray(w), 400)
    frames.append(np.array(u))  # a copy: a view would keep u from being donated (unit 11)
next_tick = (time.perf_counter() - start) / 2400

cells_ratio = (lab_tick / 64**2) / (next_tick / size**2)
print(f"{next_tick * 1e3:.3f} ms a tick of {size} x {size} cells")
print(f"{cells_ratio:.0f} times the cells per second of our lab")

# %% jupyter={"source_hidden": true}
# Picture: the dish next door
fig, axes = plt.subplots(1, 6, figsize=(9, 1.9))
for number, (ax, frame) in enumerate(zip(axes, frames, strict=True), 1):
    ax.imshow(frame, cmap="magma", vmin=0, vmax=1)
    ax.set_title(f"{400 * number} ticks", size=10, loc="center")
    ax.axis("off")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The dish is alive to the end.
assert np.isfinite(frames[-1]).all() and frames[-1].std() > 0.1

# %% [markdown]
# A spiral: it winds up from a torn wave. At this pace you can *look around* in a model rather than wait for it: other
# seeds, other climates, a map of them all. At the end of the exercise your lab will draw such a map.
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims, and what was measured above
rows = [
    ("put `jit` around it and it is fast", "✓", f"{seconds[0] / seconds[1]:.0f}x, and {repaired} of 5 faults repaired"),
    ("the first call is slow, the later ones fast", "✗", f"{figures['late compiles']} of 5 later customers waited"),
    ("JAX is 150x faster", "–", f"than what? Two labs, both JAX: {cells_ratio:.0f}x cells per second"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in rows)
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# ## Keypoints
#
# - A complaint is not a diagnosis. Make it a number that repeats, then choose the instrument by the moment: jaxpr, call,
#   compiled program.
# - Counts before clocks. A clock hears only the steady state, and it cannot name what it hears.
# - Some crimes cost no time and all of the result: stale numbers, NaN, lost digits. They come first.
# - One line, one function, one crime: a good test suite for performance looks like this card.
# - `jit` from outside is the first thing to do, and the last thing to trust.
#
# ## Your turn
#
# [Exercise 16: the slow lab](../exercises/16_slow_lab/slow_lab.ipynb). The folder is open now: 150 lines, thirteen crimes,
# thirteen lines on the card, one stopwatch, 20 points. And then golf.
