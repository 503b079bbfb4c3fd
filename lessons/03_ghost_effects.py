# %% [markdown]
# # 03 · Ghost effects: what a trace leaves behind
#
# **A jitted function prints once and then falls silent. It reads a global once and never looks again. When did it
# really run, and what did it take with it?**
#
# You will
#
# - say, for any line of a jitted function, whether it happens once a trace, once a call, or never;
# - cure a stale global, a frozen random number and a leaked tracer, and know the price of each cure;
# - choose among `jax.debug.print`, `debug.callback`, `pure_callback` and `io_callback`, by what each of them
#   promises.
#
# About {duration}, in three stages (about {stage} for the first). Unit 02 showed the jaxpr that a trace writes; here we
# look at everything that is *not* in it.

# %%
import contextlib
import functools
import io
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown, display
from jax.experimental import io_callback

from autograder import benchmark, show_guess, show_hlo, show_jaxpr

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. Twelve calls, how many prints?
#
# One function, jitted, with a `print` in it. Twelve calls. How many times will it print?

# %%
three, four = jnp.ones(3), jnp.ones(4)
calls = [2, 4, 8, 2.5, 3.5, three, 2 * three, np.ones(3, np.float32), four, 16, 0.5, three]

guess = None  # your number of prints

# %%
runs = []


@jax.jit
def double(x):
    print("    Python runs the body, x is", x)
    runs.append(str(x))
    return 2 * x


runs_so_far = []
for number, x in enumerate(calls, 1):
    print(f"call {number:2}")
    double(x)
    runs_so_far.append(len(runs))

show_guess(guess, len(runs), "prints")

# %% jupyter={"source_hidden": true}
# Picture: calls, and runs of the Python body
fig, ax = plt.subplots(figsize=(8, 3.2))
at = np.arange(1, len(calls) + 1)
ax.step(at, at, where="mid", label="calls", color="C0")
ax.step(at, runs_so_far, where="mid", label="runs of the Python body", color="C1")
for i in np.flatnonzero(np.diff([0, *runs_so_far])):
    ax.plot(at[i], runs_so_far[i], "o", color="C1")
    ax.annotate(str(jax.typeof(calls[i])), (at[i], runs_so_far[i]), (7, -15), textcoords="offset points")
ax.set(title="Python runs when a new type arrives, and at no other time")
ax.set(xlabel="call", xticks=at, ylim=(-1, 13), yticks=range(0, 13, 2))
ax.legend(loc="upper left")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The number of runs.
assert len(runs) == 4

# %% [markdown]
# Call 10 is an `int` again and prints nothing: its jaxpr exists. The rule has no exception in this course:
#
# > **The Python body of a jitted function runs once for each jaxpr that has to be written. Every other call runs the
# > program made of it.**
#
# A *side effect* is anything that Python does besides computing on arrays: a print, an append, a look at the clock. A
# function is **pure** if it has none and its result depends on its arguments alone. A side effect happens while the
# jaxpr is written, and is not in it. A later call runs only the pure part.
#
# ## 2. The list that held two tracers
#
# A tutorial that has been copied for years appends to a global list, makes the jaxpr, calls three times, finds
# **two** tracers in the list and concludes: "the side effect may or may not appear in later calls; this is
# unpredictable". Unit 02 found one tracer. Who is right, and why? We try every way that leads to a trace, one after the
# other. Which of them run the body, and so add to the list?

# %%
squared_numbers = []


def number_squared(num):
    squared = num**2
    squared_numbers.append(squared)
    return squared


jitted = jax.jit(number_squared)
x = jnp.float32(2)

# %%
ways = {
    "`jax.make_jaxpr(jitted)(x)`": lambda: jax.make_jaxpr(jitted)(x),
    "`jax.make_jaxpr(number_squared)(x)`": lambda: jax.make_jaxpr(number_squared)(x),
    "`jitted(x)`": lambda: jitted(x),
    "`jax.jit(number_squared)(x)`": lambda: jax.jit(number_squared)(x),
    "`jitted.lower(x)`": lambda: jitted.lower(x),
    "`jax.eval_shape(jitted, x)`": lambda: jax.eval_shape(jitted, x),
    "`jax.vmap(jitted)(jnp.ones(3))`": lambda: jax.vmap(jitted)(jnp.ones(3)),
    "`jax.grad(jitted)(x)`": lambda: jax.grad(jitted)(x),
    "`jax.jit(lambda x: number_squared(x))(x)`": lambda: jax.jit(lambda x: number_squared(x))(x),
    "`number_squared(x)`, not jitted": lambda: number_squared(x),
    "`jitted.clear_cache()`, then `jitted(x)`": lambda: (jitted.clear_cache(), jitted(x)),
}
appended = {}
for way, use in ways.items():
    before = len(squared_numbers)
    use()
    appended[way] = len(squared_numbers) - before

# %% jupyter={"source_hidden": true}
# Table: what each way added to the list
rows = "\n".join(f"| {way} | {'**1**' if n else 0} |" for way, n in appended.items())
display(Markdown(f"| in this order | entries added to the list |\n|---|:-:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# What each way added to the list.
assert list(appended.values()) == [1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]

# %% [markdown]
# The first eight share **one trace**. `make_jaxpr`, `jit`, `lower`, `eval_shape` (it returns the types of the results), and
# `vmap` or `grad` around the jitted function all look into one tracing cache. Its key is the *function object* and the
# types of the arguments. The `lambda` is another object, so it starts anew. `clear_cache()` makes the function forget.
#
# In the tutorial's output the two tracers differ (`level=1/1` and `level=0/1`): there, `make_jaxpr` and the first call had
# traced each for itself. The last line is how you would get its second tracer today.
#
# Then as now, nothing about it is random. The jaxpr says nothing about the list in either case:

# %%
jaxpr = jax.make_jaxpr(jitted)(x)
print(jaxpr)

# %% jupyter={"source_hidden": true}
# Proof
# One equation, and no trace of the list.
assert "append" not in str(jaxpr) and show_jaxpr(jitted, x).equations == 1

# %% [markdown]
# `make_jaxpr` *drops* side effects. It does not refuse them, and it does not warn.
#
# ## 3. A global, read once
#
# The next example comes from a post that blames impure functions for nine in ten `jit` bugs. Its code, as it stands:

# %%
g = 0


def impure_uses_globals(x):
    return x + g


jit_f = jax.jit(impure_uses_globals)
print(jax.make_jaxpr(jit_f)(3))
print("First call: ", jit_f(3.0))

# %% [markdown]
# There it stands in the jaxpr: `add a 0`. Not "`g`", the number. Now `g` becomes 10, and four calls follow: `jit_f(4.0)`,
# `jit_f(jnp.array([4.0]))`, `jit_f(jnp.bfloat16(4))` and `jit_f(4)`. How many of them add 10?

# %%
guess = None  # your number, 0 to 4

# %%
g = 10.0
answers = {
    "jit_f(4.0)": jit_f(4.0),
    "jit_f(jnp.array([4.0]))": jit_f(jnp.array([4.0])),
    "jit_f(jnp.bfloat16(4))": jit_f(jnp.bfloat16(4)),
    "jit_f(4)": jit_f(4),
}
for call, answer in answers.items():
    print(f"{call:25} {answer}")
show_guess(guess, sum(float(np.ravel(answer)[0]) == 14 for answer in answers.values()))

# %% jupyter={"source_hidden": true}
# Proof
# The four answers.
assert [float(np.ravel(answer)[0]) for answer in answers.values()] == [4, 14, 14, 4]

# %% [markdown]
# | call | type | what it did |
# |---|---|---|
# | `jit_f(4.0)` | `~f32[]`, as in the first call | ran the program of the first call: `x + 0` |
# | `jit_f(jnp.array([4.0]))` | new shape | traced, so it read `g` again |
# | `jit_f(jnp.bfloat16(4))` | new dtype | the same |
# | `jit_f(4)` | `~i32[]` | stale, although nobody had *called* it with an int: `make_jaxpr(jit_f)(3)` above traced that type. Looking froze it |
#
# (`~f32[]` is the type of a plain Python float, `~i32[]` of an int.)
#
# Four programs now live under one name, and they do not agree. We watch such a function over sixteen steps, in which `g`
# changes, the type of the argument changes, and once the function is made to forget.

# %% jupyter={"source_hidden": true}
# Data: sixteen steps, each with a type of argument and the true g
true_g = [1, 1, 4, 4, 4, 7, 7, 7, 2, 2, 2, 2, 2, 2, 2, 9]
kinds = "~f32[] ~f32[] ~f32[] f32[3] ~f32[] ~f32[] f32[3] ~i32[]"
kinds += " ~f32[] ~i32[] f32[3] f32[4] clear_cache ~f32[] ~i32[] ~f32[]"
script = list(zip(kinds.split(), true_g, strict=True))
inputs = {"~f32[]": 0.0, "~i32[]": 0, "f32[3]": jnp.zeros(3), "f32[4]": jnp.zeros(4)}

# %%
body_runs = 0


@jax.jit
def which_g(x):
    global body_runs
    body_runs += 1
    return x + g


history = []  # (step, type, true g, used g, traced?)
for step, (kind, g) in enumerate(script):  # this loop sets the global g
    if kind == "clear_cache":
        which_g.clear_cache()
        continue
    before = body_runs
    used = float(np.ravel(which_g(inputs[kind]))[0])
    history.append((step, kind, g, used, body_runs > before))

# %% jupyter={"source_hidden": true}
# Picture: the true g, and the g that each call used
fig, ax = plt.subplots(figsize=(9, 3.6))
ax.step(range(len(script)), true_g, where="mid", color="C0", alpha=0.5, lw=6, label="the true g")
for kind, marker in zip(inputs, "os^D", strict=True):
    for traced, face in ((True, "C1"), (False, "white")):
        dots = [(step, used) for step, k, _, used, t in history if k == kind and t == traced]
        if dots:
            label = f"{kind}, read at a trace" if traced else None
            ax.plot(*zip(*dots, strict=True), marker, mec="C1", mfc=face, ms=9, mew=1.8, label=label)
ax.axvline([kind for kind, _ in script].index("clear_cache"), color="#222222", ls="--", lw=1)
ax.text(11.8, 9.6, "clear_cache()", ha="right", va="top", size=10)
ax.set(title="Filled: g was read. Hollow: the g of an earlier trace", xlabel="step", ylabel="g", ylim=(0, 10))
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
stale = [step for step, _, true, used, _ in history if true != used]
print(f"{len(history)} calls, {body_runs} of them read g, {len(stale)} answered with an old one")

# %% jupyter={"source_hidden": true}
# Proof
# Which calls were stale, and that none of them traced.
for kind, x in inputs.items():
    assert str(jax.typeof(x)) == kind.replace("f32", "float32").replace("i32", "int32")
assert stale == [2, 4, 5, 6, 8, 9, 10, 15]
assert not any(traced for step, *_, traced in history if step in stale)

# %% [markdown]
# The blue line is the true `g`; each dot is the `g` that a call used. Every hollow dot that is off the blue line is a wrong
# answer without an error. Which cure helps? The obvious one is to jit again. Here are the candidates, each asked to follow
# `g` through five changes: 1, 2, 3, 1, 2.

# %%
traces = 0


def add_global(x):
    global traces
    traces += 1
    return x + g


def add_argument(x, g):
    global traces
    traces += 1
    return x + g


@functools.cache  # Python's own: the same g, the same function
def adder_for(g):
    return jax.jit(lambda x: add_argument(x, g))


# %% [markdown]
# (`static_argnames="g"` tells JAX the value of `g` while it traces, and each value gets a program of its own: unit 04.)

# %%
stale_jit = jax.jit(add_global)
as_static = jax.jit(add_argument, static_argnames="g")
as_argument = jax.jit(add_argument)


def cleared(x):
    stale_jit.clear_cache()
    return stale_jit(x)


cures = {
    "do nothing: `jitted(x)`": lambda x: stale_jit(x),
    "jit again: `jax.jit(add_global)(x)`": lambda x: jax.jit(add_global)(x),
    "jit a new function, each time": lambda x: jax.jit(lambda x: add_global(x))(x),
    "forget: `jitted.clear_cache()`, then call": cleared,
    "a static argument: `static_argnames='g'`": lambda x: as_static(x, g=g),
    "one function for each g, kept: `functools.cache`": lambda x: adder_for(g)(x),
    "**an argument**: `f(x, g)`": lambda x: as_argument(x, g),
}

# %%
outcome = {}
for cure, use in cures.items():
    jax.clear_caches()
    traces, results = 0, []
    for g in (1.0, 2.0, 3.0, 1.0, 2.0):  # this loop sets the global g
        results.append(float(use(0.0)))
    outcome[cure] = (results == [1, 2, 3, 1, 2], traces)

# %% jupyter={"source_hidden": true}
# Table: which cures are right, and how many traces they cost
rows = "\n".join(f"| {cure} | {'✓' if right else '✗ stale'} | {n} |" for cure, (right, n) in outcome.items())
display(Markdown(f"| cure | right | traces for five changes, three values |\n|---|:-:|:-:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# Which cures are right, and how many traces they cost.
assert [right for right, _ in outcome.values()] == [False, False, True, True, True, True, True]
assert [n for _, n in outcome.values()] == [1, 1, 5, 5, 3, 3, 1]

# %% [markdown]
# **Jitting again is no cure**: the tracing cache belongs to the function, not to the `jit`. The last line is the rule
# of thumb of this unit: *what may change comes in as an argument, what has changed goes out as a result.*
#
# Numbers are not the only thing that freezes. Everything that Python looks up during the trace does:

# %%
config = {"scale": 1.0}
weights = np.ones(2, np.float32)
rng = np.random.default_rng(0)


def looks_around(x):
    return {
        "a dict entry": x * config["scale"],
        "a NumPy array, changed in place": x * weights.sum(),
        "the clock": x * time.perf_counter(),
        "NumPy's random numbers": x * rng.random(),
    }


# %%
def moves(fn):
    """How many different values has each result while the world around `fn` moves on?"""
    seen = []
    for _ in range(3):
        seen.append({name: float(value) for name, value in fn(1.0).items()})
        config["scale"] += 1
        weights[:] += 1
    return {name: len({call[name] for call in seen}) for name in seen[0]}


plain, frozen = moves(looks_around), moves(jax.jit(looks_around))

# %% jupyter={"source_hidden": true}
# Table: what moves, plain and jitted
rows = "\n".join(f"| {name} | {plain[name]} | {frozen[name]} |" for name in plain)
display(Markdown(f"| different values in three calls | plain | jitted |\n|---|:-:|:-:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# What moves, plain and jitted.
assert set(plain.values()) == {3} and set(frozen.values()) == {1}

# %% [markdown]
# A jitted function with `np.random` inside draws its lot once. A jitted function that times itself reads the clock
# twice, both times while tracing.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: random numbers without hidden state, and tracers that leak.*

# %% [markdown]
# ## 4. Randomness without a ghost
#
# NumPy's generator is a hidden global that changes at every draw. JAX takes the state out into the open: a **key**
# goes in, numbers come out, and nothing changes behind the scenes. So the same key gives the same numbers, always,
# and that is the trap. Here is a function that adds noise to its inputs and keeps about half of them (to zero some at
# random is called *dropout*), both with the one key it was given. Each draw turns the key's random bits into numbers:
# `uniform` into one from 0 to 1, `normal` into one of either sign. In both, larger bits give a larger number.


# %%
def noisy_dropout(key, x):
    keep = jax.random.uniform(key, x.shape) < 0.5
    noise = jax.random.normal(key, x.shape)
    return jnp.where(keep, x + noise, 0.0)


kept = noisy_dropout(jax.random.key(0), jnp.zeros(10_000))
kept = kept[kept != 0]
print(f"{len(kept)} inputs kept, and their noise ought to have mean 0")

# %%
guess = None  # the mean of the noise on the inputs that were kept: 0, 0.8 or -0.8?

# %%
mean = float(kept.mean())
show_guess(guess, round(mean, 1))

# %% jupyter={"source_hidden": true}
# Picture: both draws, from one key and from two
key = jax.random.key(0)
one, two = jax.random.split(key)
pairs = {"uniform(key), normal(key)": (key, key), "uniform(one), normal(two)": (one, two)}
fig, both = plt.subplots(1, 2, figsize=(8, 3.3), sharey=True)
for ax, (title, (first, second)) in zip(both, pairs.items(), strict=True):
    u, n = jax.random.uniform(first, (10_000,)), jax.random.normal(second, (10_000,))
    ax.scatter(u[:800], n[:800], s=5, color="C1" if first is second else "C0")
    ax.axvline(0.5, color="#999999", lw=1)
    ax.set(title=title, xlabel="uniform")
both[0].set_ylabel("normal")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Every noise that was kept is negative.
assert mean < -0.7 and bool((kept < 0).all())

# %% [markdown]
# Left, one key used twice: both draws start from the same random bits, so one is a function of the other. Whoever
# kept the inputs with a uniform below 0.5 kept exactly those with negative noise. Right, after `one, two =
# jax.random.split(key)`: independent.
#
# The rule is **use a key once**: to draw, or to split, not both, and throw it away. The post of unit 01 knows it, and
# breaks it in the line below: it splits the key that it has drawn `W` with.
#
# ```python
# W = random.normal(key=key, shape=[1000, 10000], dtype=jnp.float32)
#
# # Never reuse the key
# key, subkey = random.split(key)
# ```
#
# What do `W` and the new keys share? JAX makes both in one way: from the key and a count (0, 1, …) it computes a pair
# of integers. A new key *is* such a pair; for a random number the two are combined bit by bit, with `^`. So we combine
# the pairs of the two new keys in the same way, and compare them with the random bits behind the first two numbers of
# `W`.

# %%
key = jax.random.key(1234)
bits = jax.random.bits(key, (2,))
pairs_of_words = jax.random.key_data(jax.random.split(key))
print("behind W:         ", bits)
print("in the two keys:  ", pairs_of_words[:, 0] ^ pairs_of_words[:, 1])

# %% [markdown]
# The same bits. JAX can watch over keys. Here it watches our function, the post's lines, and a version that splits first:


# %%
def as_posted(key, x):
    W = jax.random.normal(key, x.shape)
    key, subkey = jax.random.split(key)
    return W, jax.random.normal(subkey, x.shape)


def careful(key, x):
    key_keep, key_noise = jax.random.split(key)
    keep = jax.random.uniform(key_keep, x.shape) < 0.5
    return jnp.where(keep, x + jax.random.normal(key_noise, x.shape), 0.0)


# %%
verdicts = {}
for fn in (noisy_dropout, as_posted, careful):
    with jax.debug_key_reuse(True):
        try:
            jax.jit(fn)(jax.random.key(0), jnp.zeros(4))
            verdicts[fn] = "no key used twice"
        except jax.errors.KeyReuseError as error:
            verdicts[fn] = f"KeyReuseError: {str(error).splitlines()[0]}"
    print(f"{fn.__name__}: {verdicts[fn]}")

# %% jupyter={"source_hidden": true}
# Proof
# The bits are the same, and only the careful version uses each key once.
assert (bits == pairs_of_words[:, 0] ^ pairs_of_words[:, 1]).all()
assert [verdict == "no key used twice" for verdict in verdicts.values()] == [False, False, True]

# %% [markdown]
# ## 5. Leaked tracers
#
# The list of section 2 still holds the stand-ins it was given. Numbers never arrive. The trace they belong to is
# over, and there is little that one can do with them:

# %%
leaked = squared_numbers[0]
attempts = {
    "print it": lambda: print(leaked),
    "`leaked.shape`": lambda: leaked.shape,
    "`leaked + 1`": lambda: leaked + 1,
    "`float(leaked)`": lambda: float(leaked),
    "`np.asarray(leaked)`": lambda: np.asarray(leaked),
    "use it in another jitted function": lambda: jax.jit(lambda y: y + leaked)(1.0),
}
errors = {}
for name, attempt in attempts.items():
    try:
        attempt()
        errors[name] = "works"
    except Exception as error:
        errors[name] = type(error).__name__

# %% jupyter={"source_hidden": true}
# Table: what one can do with a leaked tracer
rows = "\n".join(f"| {name} | `{what}` |" for name, what in errors.items())
display(Markdown(f"| attempt | today |\n|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# What works, and which errors come.
assert list(errors.values())[:3] == ["works", "works", "UnexpectedTracerError"]
assert errors["`float(leaked)`"] == "ConcretizationTypeError"

# %% [markdown]
# `UnexpectedTracerError` helps: it names the function and the line where the value was made. The others look like errors
# of *this* line, which they are not. To catch a leak where it happens, trace under `jax.checking_leaks`. (`leaks`, folded
# below, does so and returns the line of the message that names who keeps the tracer.)


# %% jupyter={"source_hidden": true}
# Helper: what checking_leaks says of a call
def leaks(fn, *args):
    """What `checking_leaks` says of this call: the line that names the culprit, or an empty string."""
    try:
        with jax.checking_leaks():
            fn(*args)
    except Exception as error:
        lines = str(error).splitlines()
        return next((line for line in lines if "squared_numbers" in line), lines[0])
    return ""


# %%
def hoard(x):
    squared_numbers.append(x * 2)
    return x


jitted_hoard = jax.jit(hoard)
found = leaks(jitted_hoard, 1.0)
jitted_hoard(2.0)
found_later = leaks(jitted_hoard, 2.0)
print("first call: ", found)
print("later call: ", found_later or "(nothing)")

# %% jupyter={"source_hidden": true}
# Proof
# The first call names the list, the later one nothing.
assert "squared_numbers" in found and found_later == ""

# %% [markdown]
# It names the list. But look at the second line: the same function, and nothing found. That call found its program in the
# cache: no trace, no leak, nothing to see. **Look for leaks in a fresh trace**, or after `clear_cache()`.
#
# The nastiest leak needs no argument at all. A table that is expensive to make is kept with `functools.cache`; its key
# is a plain `int`:


# %%
@functools.cache
def window(n):
    return jnp.hanning(n)


@jax.jit
def smooth(x):
    return x * window(x.shape[0])


print("inside a jitted function:", smooth(jnp.ones(4)))
try:
    print(window(4) * 2)
except Exception as error:
    caught = type(error)
    print("afterwards, in the open: ", caught.__name__)

# %% jupyter={"source_hidden": true}
# Proof
# The error of a leaked tracer.
assert caught is jax.errors.UnexpectedTracerError

# %% [markdown]
# During a trace *every* `jnp` operation is written to the jaxpr, those on constants too. So `jnp.hanning(4)` gave a
# tracer, and the cache kept it for ever. Had anybody called `window(4)` before `smooth`, all would have been well: a
# bug that depends on the order of calls. Two cures: make tables with NumPy, or say that this part is to be computed at
# once.


# %%
@functools.cache
def window_now(n):
    with jax.ensure_compile_time_eval():
        return jnp.hanning(n)


smooth_now = jax.jit(lambda x: x * window_now(x.shape[0]))
leak = leaks(smooth_now, jnp.ones(4))
print("what leaks:", leak or "(nothing)")
print(window_now(4) * 2)

# %% jupyter={"source_hidden": true}
# Proof
# What is computed at once does not leak.
assert leak == ""

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: effects that you want at run time, and what they cost.*

# %% [markdown]
# ## 6. Effects that are on the tape
#
# Sometimes you *want* Python to happen at run time: to look at a value, to write a log, to call a library that JAX
# does not know. Then the effect has to be an equation of the jaxpr, so that it happens with the rest.


# %%
def watched(x):
    y = jnp.sin(x)
    jax.debug.print("y is {y}", y=y)
    return y * 2


watched_jit = jax.jit(watched)
for x in (0.0, 1.0, 2.0):
    watched_jit(x).block_until_ready()
jax.effects_barrier()  # wait for the printing, too
show_jaxpr(watched, 1.0)

# %% jupyter={"source_hidden": true}
# Proof
# The print is an equation.
assert "debug_print" in show_jaxpr(watched, 1.0).primitives

# %% [markdown]
# Numbers at last, at every call. There are four such doors back to Python. (What a compiled program calls in Python is a
# **callback**.) Each shall say "boo", and plain `print` too:


# %%
def boo(x):
    print("boo")
    return x


like_x = jax.ShapeDtypeStruct((), jnp.float32)  # JAX must know the type of what comes back
haunted = {
    "print": lambda x: print("boo"),
    "jax.debug.print": lambda x: jax.debug.print("boo {}", x),
    "jax.debug.callback": lambda x: jax.debug.callback(lambda v: print("boo"), x),
    "jax.pure_callback": lambda x: jax.pure_callback(boo, like_x, x, vmap_method="sequential"),
    "io_callback": lambda x: io_callback(boo, like_x, x),
}

# %% [markdown]
# We count how often "boo" is heard in seven situations: three calls; three calls that ignore what comes back; a `scan` of
# five rounds; `vmap` over four elements; `grad`; a branch of `cond` that is not taken; and a `vmap` of that `cond`, where
# two of four elements take the branch. What would plain Python do? Three calls: three times. A branch not taken: never.


# %% jupyter={"source_hidden": true}
# Helper: the seven situations, and how often "boo" is heard in one
def using(call):
    def f(x):
        y = call(x)
        return 2 * x if y is None else 2 * y  # the callbacks that return a value: use it

    return f


def ignoring(call):
    def f(x):
        call(x)
        return 2 * x

    return f


def situations(f, f_ignoring):
    def branch(x):
        return jax.lax.cond(x > 1.5, f, lambda x: x, x)

    def rounds(x):
        return jax.lax.scan(lambda c, _: (f(c), None), x, None, 5)[0]

    return {
        "3 calls": (3, lambda: [jax.jit(f)(v) for v in (1.0, 2.0, 3.0)]),
        "3 calls,\nresult unused": (3, lambda: [jax.jit(f_ignoring)(v) for v in (1.0, 2.0, 3.0)]),
        "scan,\n5 rounds": (5, lambda: jax.jit(rounds)(1.0)),
        "vmap,\n4 elements": (4, lambda: jax.jit(jax.vmap(f))(jnp.arange(4.0))),
        "grad": (1, lambda: jax.jit(jax.grad(f))(1.0)),
        "cond,\nnot taken": (0, lambda: jax.jit(branch)(1.0)),
        "vmap(cond),\n2 of 4 taken": (2, lambda: jax.jit(jax.vmap(branch))(jnp.arange(4.0))),
    }


def heard(action):
    """How often "boo" was printed, or "refused"."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            jax.block_until_ready(action())
            jax.effects_barrier()
        except (ValueError, NotImplementedError):
            return "refused"
    return output.getvalue().count("boo")


# %% [markdown]
# The names say something: whoever writes `pure_callback` tells JAX that the function is pure, whoever writes
# `io_callback` that it has effects. And unit 02 has shown what becomes of dead code. So: three calls of
# `jax.pure_callback`, whose result nobody uses. How many times "boo"?

# %%
guess = None  # your number, 0 to 3

# %%
counts, expected = {}, {}
for name, call in haunted.items():
    for situation, (python, action) in situations(using(call), ignoring(call)).items():
        counts[name, situation] = heard(action)
        expected[situation] = python
show_guess(guess, counts["jax.pure_callback", "3 calls,\nresult unused"], "times")

# %% jupyter={"source_hidden": true}
# Picture: how often each is heard in each situation
fig, ax = plt.subplots(figsize=(9.5, 3.6))
for column, situation in enumerate(expected):
    for row, name in enumerate(haunted):
        n = counts[name, situation]
        colour = "#dddddd" if n == "refused" else "#bfe3d3" if n == expected[situation] else "#f6c8a8"
        ax.add_patch(plt.Rectangle((column - 0.48, row - 0.45), 0.96, 0.9, color=colour))
        ax.text(column, row, n, ha="center", va="center", size=9 if n == "refused" else 12)
    ax.text(column, -0.75, f"Python: {expected[situation]}", ha="center", va="center", size=9, color="#666")
ax.set(xlim=(-0.5, len(expected) - 0.5), ylim=(len(haunted) - 0.5, -1))
ax.set_yticks(range(len(haunted)), haunted)
ax.set_xticks(range(len(expected)), expected, size=9)
ax.set_title("How often it happens under jit: green as in Python, orange otherwise")
ax.tick_params(length=0)
ax.grid(False)
ax.spines[:].set_visible(False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Four of the counts.
assert [counts["print", s] == expected[s] for s in expected].count(True) <= 1
assert counts["jax.pure_callback", "3 calls,\nresult unused"] == 0
assert counts["io_callback", "3 calls,\nresult unused"] == 3
assert counts["jax.debug.print", "vmap(cond),\n2 of 4 taken"] == 4

# %% [markdown]
# Read it by rows.
#
# | | in the jaxpr | what it promises | what it does not |
# |---|---|---|---|
# | `print` | no | nothing: once a trace, also in a branch that is never taken | |
# | `jax.debug.print`, `jax.debug.callback` | yes | to run, and never to disturb: it goes through `grad` and `vmap` | order (unless `ordered=True`); under `vmap(cond)` both sides run, so it speaks for elements that never took the branch |
# | `jax.pure_callback` | yes | a value, and `vmap` as you say in `vmap_method` | to run: unused, it is dropped; you swore that it is pure. No `grad`, unless you write a derivative rule of your own (`custom_jvp`, unit 08) |
# | `io_callback` | yes | to run, once, even if unused; in order with `ordered=True` | `grad`, `vmap(cond)`; with `ordered=True` no `vmap` at all |
#
# A program that calls Python needs this Python. It runs beside a GPU or TPU as well, but no file can hold it, not even one
# that is exported (unit 12) for another machine.
#
# What does it cost? The program stops, and waits for Python. And XLA cannot see into a callback, so it cannot fuse the
# operations on its two sides:

# %%
ones = jnp.ones(1000)


def straight(x):
    return jnp.sin(x) * 2 + 1


def with_stop(x):
    y = jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), jnp.sin(x) * 2)
    return y + 1


hlo = {fn.__name__: show_hlo(fn, ones) for fn in (straight, with_stop)}
timing = {fn.__name__: benchmark(jax.jit(fn), ones) for fn in (straight, with_stop)}

# %% jupyter={"source_hidden": true}
# Table: the same sum, with a callback in the middle
rows = "\n".join(
    f"| `{name}` | {view.ops['custom-call']} | {view.fusions} | {timing[name].median * 1e6:.0f} µs |"
    for name, view in hlo.items()
)
head = "| 1000 floats | calls to Python in the program | fusions | one call |\n|---|:-:|:-:|--:|"
display(Markdown(f"{head}\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# One call to Python, and more fusions than without it.
assert hlo["straight"].ops["custom-call"] == 0 and hlo["with_stop"].ops["custom-call"] == 1
assert hlo["with_stop"].fusions > hlo["straight"].fusions

# %% [markdown]
# The program is cut in two, and between the halves somebody waits for Python. Here the data stays where it is; a GPU or
# TPU has to send it to the computer that it sits in, and gets it back. Fine for looking at a value, not for an inner
# loop.
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of older posts, and what was measured above
first_way = appended["`jax.make_jaxpr(jitted)(x)`"]
claims = [
    ("the list ends up with two tracers", "✗", f"{first_way}: `make_jaxpr` and `jit` share a trace"),
    ("side effects are unpredictable", "✗", f"{len(calls)} calls, {len(runs)} types: {len(runs)} runs"),
    ("`make_jaxpr` prints again each time", "✗", "only when there is no jaxpr yet"),
    ("a repeated call runs only the pure part", "✓", "section 1"),
    ("the jaxpr does not hold the side effect", "✓", "unless it is a callback: then it is a primitive"),
    ("after `g = 10`, `jit_f(4.)` still gives 4", "✓", f"{answers['jit_f(4.0)']}"),
    ("a new shape sees the new `g`: `[14.]`", "✓", f"{answers['jit_f(jnp.array([4.0]))']}; new dtypes too"),
    ("with `g = 0` the jaxpr says `add d 0.0`", "✗", "`add a 0:i32[]`; the old print is of `g = 0.0`"),
    ("“Never reuse the key”, and then splits a used one", "✗", "`KeyReuseError`: it had drawn `W` with it"),
    ("the tracer prints as `Traced<ShapedArray(...)>with<DynamicJaxprTrace...>`", "✗", f"`{runs[0]}`"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# What the old post prints below g = 0 is the jaxpr of g = 0.0.
then_jaxpr = str(jax.make_jaxpr(lambda x: x + 0.0)(3))
assert "convert_element_type" in then_jaxpr and "0.0:f32[]" in then_jaxpr

# %% [markdown]
# ## Keypoints
#
# - The Python body runs **once for each jaxpr**; every call runs the program made of it. Prints, appends and reads of
#   globals belong to the body.
# - What Python reads during a trace is frozen into the jaxpr: globals, dicts, clocks, NumPy's random numbers. A new
#   type reads again; **a new `jit` does not**.
# - What may change comes in as an argument; what has changed goes out as a result. A list that lives and dies
#   inside the function harms nobody.
# - A key is used once. Two draws from one key are two views of the same bits.
# - A tracer that outlives its trace is a leak. `jax.checking_leaks` finds it, in a *fresh* trace only.
# - Run-time effects are equations: `debug.print` to look, `io_callback` to act, `pure_callback` for a value. Each
#   promises less than you think.
#
# ## Your turn
#
# [Exercise 03](../exercises/03_ghost_effects/ghost_effects.ipynb): a séance, three cures with their prices, an
# exorcism, a leak hunt, a purity detector that you then have to fool, and a `jit` of your own made of one dictionary.
# Then `minijit`, the tracer that you began in unit 02, learns to refuse what a jaxpr cannot hold. 26 points.
