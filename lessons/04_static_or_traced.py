# %% [markdown]
# # 04 · Static or traced
#
# **While JAX traces your function, what does it know about the arguments? And what does it cost to tell it more?**
#
# You will
#
# - say for any line of a jitted function whether its value is known while tracing (static) or only in the finished
#   program (traced);
# - read JAX's tracing errors by their class, and pick the cure that fits;
# - know the price of a static argument before you pay it.
#
# About {duration}, in three stages (about {stage} for the first). You need unit 02: what a tracer is, and how to read a
# jaxpr.

# %%
import dataclasses
import itertools
import time
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown, display
from jax import lax

from autograder import show_guess, show_jaxpr, trace_log

plt.style.use("autograder.course")


# %% jupyter={"source_hidden": true}
# Helper: what happens in a call
def outcome(fn, *args):
    """What happens when fn(*args) is called: "runs", or the class of the error."""
    try:
        fn(*args)
    except Exception as error:
        return type(error).__name__
    return "runs"


# %% [markdown]
# ## One `if`, six callers
#
# A function in two pieces, from a widely copied post about `jit`:


# %%
def f(x):
    if x < 3:
        return 3.0 * x**2
    else:
        return -4 * x


# %% [markdown]
# Six ways to call it: by itself, under `grad`, under `vmap`, under `jit`, under `jit(grad(...))`, and to print its
# jaxpr. How many of the six fail? Type your number, then run on.

# %%
guess = None  # your number of failures

# %%
callers = {
    "f(2.0)": outcome(f, 2.0),
    "grad(f)(2.0)": outcome(jax.grad(f), 2.0),
    "vmap(f)(jnp.array([2.0]))": outcome(jax.vmap(f), jnp.array([2.0])),
    "jit(f)(2.0)": outcome(jax.jit(f), 2.0),
    "jit(grad(f))(2.0)": outcome(jax.jit(jax.grad(f)), 2.0),
    "make_jaxpr(f)(2.0)": outcome(jax.make_jaxpr(f), 2.0),
}
failures = sum(result != "runs" for result in callers.values())
print("\n".join(f"{call:28}{result}" for call, result in callers.items()))
show_guess(guess, failures, "failures")

# %% jupyter={"source_hidden": true}
# Proof
# Who has a number to look at.
assert callers["grad(f)(2.0)"] == "runs" and failures == 4
assert jax.jvp(f, (2.0,), (1.0,))[0] == jax.linearize(f, 2.0)[0] == 12

# %% [markdown]
# Called by itself, `f` has a number to look at. Under `grad` it has one too: `grad` traces, but its tracer carries the
# number along (so do those of `jvp` and `linearize`, two other ways to a derivative: unit 08). `vmap` asks about a whole
# row at once, and gets an answer for each element where `if` wants one:

# %%
print("a row's answer:", jax.vmap(lambda x: x < 3)(jnp.array([2.0, 4.0])))

# %% [markdown]
# The other three trace without any number. They know the *type* of `x`, and `x < 3` on a type has no answer.

# %% jupyter={"source_hidden": true}
# Picture: what x can be while f is traced
one_point = {x: jax.make_jaxpr(f, static_argnums=0)(x) for x in (2, 4)}
line = np.linspace(0, 5, 501)
curve = np.where(line < 3, 3 * line**2, -4 * line)
curve[300] = np.nan  # the jump at 3
fig, panels = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
titles = ("grad: one point", "jit: every point at once", "static: point by point")
for ax, title in zip(panels, titles, strict=True):
    ax.plot(line, curve, color="C6", lw=1.2)
    ax.set(title=title, xlabel="x", ylim=(-26, 33), xlim=(0, 5))
panels[0].plot(2, 12, "o", color="C0", ms=9)
panels[0].annotate("x is 2.0,\nso x < 3", (2, 12), xytext=(0.25, 20), va="center", color="C0")
panels[1].axvspan(0, 5, color="C1", alpha=0.15)
panels[1].text(0.25, 21, "x is float32[],\nso x < 3 is\nTrue or False", color="C1", va="center")
panels[1].text(3, -5, "?", color="C1", size=24, ha="center", va="center", weight="bold")
for (x, jaxpr), place in zip(one_point.items(), ((0.25, 20), (3.3, 4)), strict=True):
    (result,) = jaxpr.jaxpr.outvars
    panels[2].plot([x, x], [-26, result.val], color="C2")
    panels[2].plot(x, result.val, "o", color="C2", ms=9)
    panels[2].text(*place, f"for {x}, always\n{result.val:g}", va="center", color="C2")
plt.show()

# %% [markdown]
# This picture is the unit. `jit` wants **one** program for all values of `x`, so it must not look at any of them.
# On the right is what the post did: a program for each value. We will see what that costs.
#
# ## The abstract value
#
# What a tracer knows is its **abstract value**: a shape and a dtype. It stands for a set, *all* arrays of that
# shape and dtype.


# %%
def peek(x):
    print(x)
    return x


jax.jit(peek)(2)
jax.jit(peek)(jnp.ones((2, 3)))
jax.grad(peek)(2.0)
jax.vmap(peek)(jnp.ones(3))
print("typeof", jax.typeof(2), jax.typeof(2.0), jax.typeof(jnp.float32(2)))

# %% [markdown]
# In `grad`'s tracer you see the number, `primal=2.0`. An old post's explanation of the error still holds: `x % 2 == 0` is
# an abstract `bool[]`, the set {True, False}, and Python's `if` asks it to be one of the two.
#
# The tilde belongs to the type as well. `~float32[]` is a **weak** type: any Python float, which takes the dtype of the
# floats that it meets (integers that meet it become floats). So the abstract value decides the dtype of the result, and
# it does so before any value is there:

# %%
half = jnp.ones(3, jnp.bfloat16)
multiply = jax.jit(lambda x, s: x * s)
for scale in (2.0, jnp.array(2.0), jnp.float32(2.0), np.float32(2.0)):
    print(f"bfloat16[3] * {jax.typeof(scale)!s:11} -> {multiply(half, scale).dtype}")

# %% jupyter={"source_hidden": true}
# Proof
# A weak factor leaves the dtype of floats, a float32 changes it, and integers become floats.
assert multiply(half, 2.0).dtype == jnp.bfloat16
assert multiply(half, jnp.float32(2)).dtype == jnp.float32
assert multiply(jnp.ones(3, int), 2.0).dtype == jnp.float32

# %% [markdown]
# ## Static or traced?
#
# Inside a trace, two kinds of values live side by side. A **static** value is an ordinary Python or NumPy object:
# it is known, and Python may do with it what it likes. (So is a JAX array from outside, until an operation takes it:
# the result is traced.) A **traced** value is a tracer. Here are eighteen expressions, in which `x` is a
# `float32[2,3]`, traced, and `n = 4` is static. Which are which?

# %%
LINES = """x.shape; x.dtype; x.ndim; len(x); x is None; x.shape[0] * n;
np.prod(x.shape); np.sqrt(n); np.ones(n) + 1;
x + 1; x[0]; x * 0; x.sum() > 0; jnp.array(x.shape).prod();
jnp.sqrt(n); jnp.ones(n); jnp.ones(n).shape; jnp.add(1, 2)"""

# %% [markdown]
# One of them makes readers of an old post stumble: `jnp.array(x.shape).prod()`. Everything that goes into it is static.
# Is the result static, or traced?

# %%
guess = None  # "static" or "traced"

# %%
found = {}


def look(x, n):
    for code in LINES.replace("\n", " ").split("; "):
        value = eval(code, globals(), {"x": x, "n": n})
        found[code] = "traced" if isinstance(value, jax.core.Tracer) else "static"


jax.make_jaxpr(look, static_argnums=1)(jnp.ones((2, 3)), 4)
show_guess(guess, found["jnp.array(x.shape).prod()"])

# %% jupyter={"source_hidden": true}
# Table: all eighteen
columns = [[f"`{code}`" for code, kind in found.items() if kind == which] for which in ("static", "traced")]
rows = "\n".join(f"| {a} | {b} |" for a, b in itertools.zip_longest(*columns, fillvalue=""))
display(Markdown(f"| static | traced |\n|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# The product by NumPy is static, that by jnp is traced.
assert found["np.prod(x.shape)"] == "static" and found["jnp.array(x.shape).prod()"] == "traced"

# %% [markdown]
# Three rules cover the whole table.
#
# 1. **Shape, dtype, ndim, length are static.** They are the abstract value.
# 2. **Python and NumPy on static values stay static.** They compute on the spot.
# 3. **Every operation of `jnp` or `lax`, and every operator on a tracer, is traced.** Even `jnp.add(1, 2)`, even
#    `x * 0`. It writes an equation, and its value will exist when the program runs. (A few functions, such as
#    `jnp.shape`, only ask for the type: they are static.)
#
# So the post's function, which takes the product of a shape with `jnp`, cannot reshape with it. With NumPy it can:


# %%
def with_jnp(x):
    size = jnp.array(x.shape).prod()
    print("size:", size)
    return x.reshape((size,))


def with_numpy(x):
    size = np.prod(x.shape)
    print("size:", size)
    return x.reshape((size,))


x = jnp.ones((2, 3))
try:
    jax.jit(with_jnp)(x)
except TypeError as error:
    print(f"{type(error).__name__}: {str(error).splitlines()[0]}\n")
jaxpr = jax.make_jaxpr(with_numpy)(x)
print(jaxpr)

# %% jupyter={"source_hidden": true}
# Proof
# The product by NumPy left no equation.
assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["reshape"]

# %% [markdown]
# (`x.size` is the same number, and `x.reshape(-1)` needs none.) In the other direction, NumPy on a traced value,
# there is a surprise. One of these two is no error:

# %%
on_a_tracer = {
    "np.sin(x)": outcome(jax.jit(lambda x: np.sin(x)), x),
    "np.sum(x)": outcome(jax.jit(lambda x: np.sum(x)), x),
}
print(on_a_tracer)

# %% jupyter={"source_hidden": true}
# Proof
# Which of the two is an error.
assert list(on_a_tracer.values()) == ["TracerArrayConversionError", "runs"]

# %% [markdown]
# `np.sin` wants the numbers, and there are none. `np.sum` asks `x` whether it has a method `sum` of its own. A
# tracer has one, and NumPy never touches it. Do not build on that: write `jnp` for traced values, `np` for static
# ones, and the reader sees which is which.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: the errors, and the first two of three cures.*

# %% [markdown]
# ## The error museum
#
# Python can ask a tracer for a value in many ways, and each has an error of its own. Here are fifteen exhibits, the
# ones of the posts among them. Each is a line in a jitted function whose argument, `x` or `n`, is traced.


# %% jupyter={"source_hidden": true}
# Data: the fifteen exhibits
def leaked(x):
    shelf = []
    jax.jit(lambda v: shelf.append(v))(x)
    return shelf[0] + 1


numbers = jnp.array([3.0, -1.0, 2.0])
EXHIBITS = {
    "if x > 0:": (lambda x: 1 if x > 0 else 2, 2),
    "while count < n:": (lambda n: [count for count in iter(lambda: n > 0, False)], 5),
    "max(x, 0)": (lambda x: max(x, 0), 2),
    "float(x)": (lambda x: float(x), 2.0),
    "jnp.arange(n)": (lambda n: jnp.arange(n), 5),
    "range(n)": (lambda n: range(n), 5),
    "['a', 'b'][n]": (lambda n: ["a", "b"][n] and n, 1),
    "np.sin(x)": (lambda x: np.sin(x), numbers),
    "a tracer kept after its trace": (leaked, numbers),
    "jnp.ones((n,))": (lambda n: jnp.ones((n,)), 5),
    "x.reshape(jnp.array(x.shape).prod())": (lambda x: x.reshape(jnp.array(x.shape).prod()), numbers),
    "f(x, 'relu')": (lambda x: x, "relu"),
    "x[x < 0]": (lambda x: x[x < 0], numbers),
    "x[:n]": (lambda n: numbers[:n], 2),
    "static_argnums=0 and f([2, 3])": (jax.jit(lambda x: sum(x), static_argnums=0), [2, 3]),
}
print("\n".join(EXHIBITS))

# %% [markdown]
# Python's own error for a value of the wrong kind is `TypeError`, for a bad index `IndexError`, for a bad value
# `ValueError`. Most of JAX's own errors are children of one of these, in the same sense. How many of the fifteen does a
# plain `except TypeError` catch?

# %%
guess = None  # "a": fewer than 5, "b": 5 to 10, "c": more than 10

# %%
museum = {}
for exhibit, (fn, arg) in EXHIBITS.items():
    jitted = fn if hasattr(fn, "lower") else jax.jit(fn)
    try:
        jitted(arg)
    except Exception as error:
        museum[exhibit] = error
for exhibit, error in museum.items():
    print(f"{exhibit}\n    {type(error).__name__}: {str(error).splitlines()[0][:95]}")
caught = sum(isinstance(error, TypeError) for error in museum.values())
print(f"\nexcept TypeError catches {caught}")
show_guess(guess, "a" if caught < 5 else "b" if caught <= 10 else "c")

# %% jupyter={"source_hidden": true}
# Proof
# Each exhibit raises.
assert list(museum) == list(EXHIBITS)

# %% [markdown]
# Nobody learns fifteen messages. Learn the tree of their classes: it is short, and the classes know it themselves.


# %% jupyter={"source_hidden": true}
# Picture: the family tree of the errors
def parent(cls):
    return next((base for base in cls.__bases__ if not base.__name__.startswith("_")), None)


children = {}
for error in museum.values():
    cls = type(error)
    while cls is not Exception:
        children.setdefault(parent(cls), set()).add(cls)
        cls = parent(cls)


def rows_below(cls, depth=0):
    """The tree as rows (class, depth), each class above its children."""
    yield cls, depth
    for child in sorted(children.get(cls, ()), key=lambda c: (c in children, c.__name__)):
        yield from rows_below(child, depth + 1)


rows = list(rows_below(Exception))
fig, ax = plt.subplots(figsize=(10.4, 0.44 * len(rows)))
at = {}
for y, (cls, depth) in enumerate(rows):
    at[cls] = y
    if depth:
        corner = depth * 0.5 - 0.28
        ax.plot([corner, corner, corner + 0.2], [at[parent(cls)] + 0.3, y, y], color="#888888", lw=1)
    colour = "C0" if cls.__module__.startswith("jax") else "C6"
    shown = [exhibit for exhibit, error in museum.items() if type(error) is cls]
    ax.text(depth * 0.5, y, cls.__name__, va="center", weight="bold" if shown else "normal", color=colour)
    ax.text(5.3, y, "     ".join(shown), va="center", family="monospace", size=8.5, color="C1")
ax.text(5.3, 0, "what raises exactly this class", va="center", style="italic", color="C1")
ax.set(xlim=(-0.05, 11.5), ylim=(len(rows) - 0.5, -0.5), title="The museum's family tree (blue: JAX's own)")
ax.axis("off")
plt.show()

# %% [markdown]
# Read it as a question that Python asked, and that has no answer yet:
#
# | Python asks | with | class |
# |---|---|---|
# | true or false? | `if`, `while`, `and`, `max` | `TracerBoolConversionError` |
# | which number? | `float()`, `.item()`, an option such as `axis=` | `ConcretizationTypeError` |
# | which place, how often? | `range(n)`, `list[n]` | `TracerIntegerConversionError` |
# | which numbers? | `np.anything(x)` | `TracerArrayConversionError` |
# | how many are there? | `x[x < 0]` | `NonConcreteBooleanIndexError` |
# | how long? | `jnp.ones((n,))`, `reshape`; `x[:n]` | plain `TypeError`; plain `IndexError` |
# | have I seen this before? | a static argument that has no hash | plain `ValueError`, before the trace begins |
#
# The tree also settles what older posts say. They print other names, and the handlers that they wrote still work,
# because the old names are ancestors of the new ones:

# %% jupyter={"source_hidden": true}
# Table: the posts' errors, today's, and whether an old handler still works
TODAY = {key: type(museum[key]) for key in ("if x > 0:", "x[x < 0]", "jnp.ones((n,))")}
CLAIMS = [
    ("if x > 0:", "ConcretizationTypeError", jax.errors.ConcretizationTypeError),
    ("x[x < 0]", "IndexError", IndexError),
    ("x[x < 0]", "NonConcreteBooleanIndexError", jax.errors.NonConcreteBooleanIndexError),
    ("jnp.ones((n,))", "the same as for x[x < 0]", jax.errors.NonConcreteBooleanIndexError),
]
table = ""
for key, then, old in CLAIMS:
    table += f"| `{key}` | {then} | `{TODAY[key].__name__}` | {'✓' if issubclass(TODAY[key], old) else '✗'} |\n"
display(Markdown(f"| line | in the posts | today | an old `except` still catches it |\n|---|---|---|:-:|\n{table}"))

# %% jupyter={"source_hidden": true}
# Proof
# Which old handlers still work.
assert [issubclass(TODAY[key], old) for key, _, old in CLAIMS] == [True, True, True, False]

# %% [markdown]
# There are three kinds of cure: keep the value traced and let the *program* choose; tell JAX the value; or take the
# question out of the trace.
#
# ## Cure 1: let the program choose
#
# `jnp.where` computes both pieces and picks, element by element. `lax.cond` puts both pieces in the program and runs
# one of them.


# %%
def with_where(x):
    return jnp.where(x < 3, 3.0 * x**2, -4 * x)


def with_cond(x):
    return lax.cond(x < 3, lambda x: 3.0 * x**2, lambda x: -4.0 * x, x)


show_jaxpr(with_cond, 2.0)

# %% [markdown]
# Against them, `f` with its Python `if` and a static `x`. Each is called with the same eight values
# (`trace_log(fn)` counts the traces of `fn` alone):

# %%
values = [0.5 * k for k in range(2, 10)]
results, outcomes = {}, []
three_ways = {"a Python if, x static": f, "jnp.where": with_where, "lax.cond": with_cond}
for name, fn in three_ways.items():
    jitted = jax.jit(fn, static_argnums=0 if fn is f else ())
    with trace_log(fn) as log:
        results[name] = [float(jitted(x)) for x in values]
    outcomes.append((name, log.traces, show_jaxpr(jitted, 2.0).equations))

# %% jupyter={"source_hidden": true}
# Table: traces and equations
rows = "\n".join(f"| {name} | {traces} | {equations} |" for name, traces, equations in outcomes)
display(Markdown(f"| | traces for 8 values | equations in a jaxpr |\n|---|--:|--:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# The traces, and that all three return what f returns.
assert [traces for _, traces, _ in outcomes] == [8, 1, 1]
assert all(returned == [f(x) for x in values] for returned in results.values())

# %% [markdown]
# Eight jaxprs without an equation, or one jaxpr with a few. For a choice between two results, one jaxpr wins. But the
# three are not quite the same function. Hand them integers, as the post did (and `lax.select`, a stricter `where`):

# %%
by_python = [jnp.asarray(f(x)).dtype for x in (2, 4)]
by_where = [with_where(x).dtype for x in (2, 4)]
print("Python if:", *by_python, "   jnp.where:", *by_where)

strict_ones = {
    "lax.select": lambda x: lax.select(x < 3, 3.0 * x**2, -4 * x),
    "lax.cond": lambda x: lax.cond(x < 3, lambda x: 3.0 * x**2, lambda x: -4 * x, x),
}
for name, fn in strict_ones.items():
    try:
        jax.jit(fn)(2)
    except TypeError as error:
        print(f"{name}: TypeError: {str(error).splitlines()[0].split(' (')[0]}")

# %% jupyter={"source_hidden": true}
# Proof
# The dtypes of each, and two refusals.
assert by_python == ["float32", "int32"] and by_where == ["float32", "float32"]
assert [outcome(jax.jit(fn), 2) for fn in strict_ones.values()] == ["TypeError", "TypeError"]

# %% [markdown]
# The Python version returns a float for 2 and an integer for 4. A program has **one** type for its result, so the
# pieces must agree. `jnp.where` makes them agree without a word; `lax.select` and `lax.cond` refuse.
#
# ## Cure 2: tell JAX the value
#
# The post's own cure: `static_argnums`, the numbers of the arguments that are static. Their values are then ordinary
# Python objects while the body runs.

# %%
static_f = jax.jit(f, static_argnums=(0,))
for x in (2, 4):
    print(jax.make_jaxpr(static_f, static_argnums=(0,))(x))

# %% jupyter={"source_hidden": true}
# Proof
# Each value has its own constant.
for x, constant in ((2, "12.0"), (4, "-16")):
    assert constant in str(jax.make_jaxpr(static_f, static_argnums=(0,))(x))

# %% [markdown]
# `12.0` and `-16`, as in the post, where the outer line read `xla_call[...]` and today reads `jit[...]`. Look at
# what was compiled: a program without an input, which returns a constant. Each value gets its own.
#
# That has a price. `x**n` is called 16 times, and `n` goes round and round through `k` different values. We count
# traces and take the time of all 16 calls.


# %%
def bill(k, static):
    """Traces, compiles and seconds of 16 calls of a fresh `power`, with k different exponents."""

    def power(x, n):
        return x**n

    jitted = jax.jit(power, static_argnums=1 if static else ())
    with trace_log(power) as log:
        start = time.perf_counter()
        for i in range(16):
            jitted(2.0, i % k).block_until_ready()
        seconds = time.perf_counter() - start
    return log.traces, sum("power" in module for module in log.modules), seconds


# %% [markdown]
# By what factor is it slower to have 8 different values *static* than to have them traced?

# %%
guess = None  # your factor: seconds with 8 static values, over seconds with 8 traced ones

# %%
ks = [1, 2, 4, 8]
bill(1, False)  # warm up JAX itself
runs = {static: [[bill(k, static) for _ in range(3)] for k in ks] for static in (True, False)}
bills = {static: [min(three) for three in runs[static]] for static in runs}  # the best of three
slower = bills[True][-1][2] / bills[False][-1][2]
show_guess(guess, slower, "x")

# %% jupyter={"source_hidden": true}
# Picture: traces and time, by the number of different values
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.3), layout="constrained")
for static, colour, label in ((True, "C1", "n static"), (False, "C0", "n traced")):
    traces, _, seconds = zip(*bills[static], strict=True)
    left.plot(ks, traces, "o-", color=colour, label=label)
    right.plot(ks, np.array(seconds) * 1e3, "o-", color=colour, label=label)
left.set(title="Traces, and compiles", xlabel="different values of n in 16 calls")
right.set(title="All 16 calls (ms)", xlabel="different values of n in 16 calls", ylim=(0, None))
left.legend()
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# A trace for each static value, one for all traced values, and each trace is compiled.
assert [traces for traces, _, _ in bills[True]] == ks and {traces for traces, _, _ in bills[False]} == {1}
every_run = [run for groups in runs.values() for three in groups for run in three]
assert all(traces == compiled for traces, compiled, _ in every_run)

# %% [markdown]
# A static argument costs **one trace and one compile for each value**. The posts say so too, and their rule stands:
# make static what takes few values. What do you get for it? A program that knows more:


# %%
def power(x, n):
    return x**n


for name, static in (("traced", ()), ("static", 1)):
    jaxpr = jax.make_jaxpr(power, static_argnums=static)(2.0, 3)
    lowered = jax.jit(power, static_argnums=static).lower(2.0, 3).as_text()
    products = lowered.count("stablehlo.multiply")
    print(f"n {name}:", [eqn.primitive.name for eqn in jaxpr.eqns], products, "multiplications")

# %% jupyter={"source_hidden": true}
# Proof
# The static 3 is lowered to two multiplications.
assert products == 2

# %% [markdown]
# A known exponent of 3 is two multiplications; an unknown one needs the general power.
#
# ### Review this post
#
# An old tutorial shows a `while` on a traced value fail, and tells you why. It fails today for the same reason.
# Here it is with `n` static, so that it runs. What does it return for `(2, 5)`?


# %%
def multiply_n_times(x, n):
    count = 0
    res = 1
    while count < n:
        res = res * x
        count += 1
    return x


# %%
guess = None  # your number

# %%
n_static = jax.jit(multiply_n_times, static_argnums=1)
answer = int(n_static(2, 5))
left_over = n_static.lower(2, 5).as_text().count("stablehlo.multiply")
print(jax.make_jaxpr(multiply_n_times, static_argnums=1)(2, 5))
print("multiplications left in the program:", left_over)
show_guess(guess, answer)

# %% jupyter={"source_hidden": true}
# Proof
# It fails when n is traced; what it returns when n is static.
assert outcome(jax.jit(multiply_n_times), 2, 5) == "TracerBoolConversionError"
assert answer == 2 and left_over == 0

# %% [markdown]
# The tutorial returns `x` where it means `res`. It could not notice: its version failed before it returned
# anything. The jaxpr says it at a glance: `in (a,)`, the input itself, and a last product named `_`, "nobody wants
# this". So XLA gets a program without a single multiplication.
#
# The jaxpr also shows the loop: five rounds, five equations. A static `n` **unrolls**. Unit 06 rolls it up again.
#
# The tutorial's next idea is to jit only the body, with `x` static. That buys nothing, as nothing in the body needs
# to know `x`, and it pays for every new one:


# %%
def multiply(x, i):
    return x * i


body = {"static": jax.jit(multiply, static_argnums=0), "traced": jax.jit(multiply)}
spent = {}
for name, jitted in body.items():
    with trace_log(multiply) as log:
        for x in range(3, 8):
            jitted(x, 1)
    spent[name] = log.traces
print("traces for five values of x:", spent)

# %% jupyter={"source_hidden": true}
# Proof
# The traces for five values of x.
assert spent == {"static": 5, "traced": 1}

# %% [markdown]
# ### How JAX recognises a static value
#
# By a dictionary: the value needs a hash, and it is compared by type and by `==`. Usually that is just what you
# want. At the edge it is a trap. (`0.0 == -0.0` is true, as in any Python.)


# %%
def reciprocal(x):
    return 1 / jnp.float32(x)


print("not jitted, 1/0.0 and 1/-0.0:", reciprocal(0.0), reciprocal(-0.0))
jitted_reciprocal = jax.jit(reciprocal, static_argnums=0)

# %% [markdown]
# Call the jitted one with `0.0`, then with `-0.0`. What does the second call return?

# %%
guess = None  # "inf" or "-inf"

# %%
edge = [float(jitted_reciprocal(value)) for value in (0.0, -0.0)]
show_guess(guess, str(edge[1]))

# %% [markdown]
# `0.0` and `-0.0` are equal and of one type: the second call gets the program of the first, whatever its sign. Two more
# edges, numbers of different types and numbers inside a tuple:


# %%
def widen(x, sizes):
    return x * sizes[0]


with trace_log() as log:
    fresh = jax.jit(lambda v: 0.0, static_argnums=0)
    for value in (1, 1.0, True):
        fresh(value)
print(f"1, 1.0, True: {log.traces} traces")

jitted_widen = jax.jit(widen, static_argnums=1)
deep = [jitted_widen(jnp.int32(3), sizes).dtype.name for sizes in ((2, 1), (2.0, 1))]
print(f"int32[] times 2 and times 2.0, from a static tuple: {deep}")

# %% jupyter={"source_hidden": true}
# Proof
# The three edges.
assert log.traces == 3 and edge == [np.inf, np.inf] and deep == ["int32", "int32"]
assert [float(reciprocal(value)) for value in (0.0, -0.0)] == [np.inf, -np.inf]

# %% [markdown]
# `1`, `1.0` and `True` are equal in Python, but their types differ, so they are three programs. And the type is
# compared only at the outside: `(2, 1)` and `(2.0, 1)` are equal tuples, so the floats get the integers' program.
# Keep numbers that matter traced.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: shapes that depend on values, methods, and configurations.*

# %% [markdown]
# ## Cure 3: keep the shape
#
# "JIT needs static shapes": the sentence that every post has, and it is as true as ever. The number of negatives in
# an array is a value; a shape must not depend on it. Below are two functions that a post calls *impure*. They are pure: no
# state, no effect, and the same answer to the same input, as unit 03 asks. Only the shape of the answer is not known.


# %%
def get_negatives(x):
    return x[x < 0]


def example_fun(length):
    return jnp.ones((length,))


data = jnp.array([1.5, -2.0, 0.5, -0.5, 3.0, -1.0])
print(get_negatives(data), " jitted:", outcome(jax.jit(get_negatives), data))
print(example_fun(5), " jitted:", outcome(jax.jit(example_fun), 5))
print("length static:", jax.jit(example_fun, static_argnums=0)(5))

# %% jupyter={"source_hidden": true}
# Proof
# The same answer to the same input.
assert np.array_equal(get_negatives(data), get_negatives(data + 0))
assert np.array_equal(example_fun(5), np.ones(5))

# %% [markdown]
# Three answers have a fixed shape. Say which you want *before* you trace: a value in every place, a **budget** with
# padding (a fixed number of places, of which some may stay unused), or only what you would have computed from it anyway.
# Here are the first, the second, and the second with a mistake:


# %%
@jax.jit
def in_place(x):
    return jnp.where(x < 0, x, 0)


@partial(jax.jit, static_argnames="size")
def with_budget(x, size):
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=x.size)  # out of bounds on purpose...
    return x.at[index].get(mode="fill", fill_value=0)  # ... where get returns 0


@partial(jax.jit, static_argnames="size")
def without_fill_value(x, size):
    (index,) = jnp.nonzero(x < 0, size=size)
    return x[index]


# %% jupyter={"source_hidden": true}
# Picture: the negatives of six numbers, five ways
answers = {
    "x": data,
    "x[x < 0], not jitted": get_negatives(data),
    "where(x < 0, x, 0)": in_place(data),
    "nonzero(size=4, fill_value=x.size)": with_budget(data, size=4),
    "nonzero(size=4), fill_value forgotten": without_fill_value(data, size=4),
}
fig, ax = plt.subplots(figsize=(8.6, 2.9))
for y, (label, row) in enumerate(answers.items()):
    for at_x, value in enumerate(np.asarray(row)):
        wrong = label.endswith("forgotten") and value > 0
        colour = "#0072B2" if value < 0 else "#D55E00" if wrong else "#DDDDDD"
        ax.add_patch(plt.Rectangle((at_x, y - 0.4), 0.92, 0.8, color=colour))
        ax.text(at_x + 0.46, y, f"{value:g}", ha="center", va="center", color="white" if value < 0 or wrong else "C6")
ax.set(xlim=(0, 6), ylim=(4.6, -0.6), xticks=[], yticks=range(5), yticklabels=list(answers))
ax.set_title("The negatives of six numbers")
ax.grid(False)
ax.spines[:].set_visible(False)
ax.tick_params(length=0)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The padded answer, and what the mistake puts in the fourth place.
assert with_budget(data, size=4).tolist() == [-2.0, -0.5, -1.0, 0.0]
assert without_fill_value(data, size=4)[3] == data[0]

# %% [markdown]
# The last row is a trap without an error: `nonzero` pads its indices with 0, and index 0 is a perfectly good place.
# It smuggled `x[0]` in among the negatives.
#
# Often the shape is not needed at all: a sum of the negatives is `jnp.where(x < 0, x, 0).sum()`, whatever their
# number. And a step that is done once, on data that is at hand, may simply stay outside `jit`.
#
# ## Methods: is `self` static or traced?
#
# `self` is an argument like any other. JAX does not know what to do with an object of yours:


# %%
class Lens:
    def __init__(self, factor):
        self.factor = factor

    @jax.jit
    def __call__(self, x):
        return self.factor * x


try:
    Lens(2.0)(3.0)
except TypeError as error:
    print(f"{type(error).__name__}: {str(error).splitlines()[0].split('. ')[1]}")


# %% [markdown]
# There are three ways, and they differ in one thing: what becomes of `self.factor`. `self` can be static. A helper
# function outside the class can be handed the number. Or the class becomes a [pytree](00_before_you_start.ipynb#The-words),
# a container of arrays that JAX knows how to take apart, as it does a dict: then the numbers in it are traced.


# %%
class StaticSelf(Lens):
    @partial(jax.jit, static_argnums=0)  # self is a static argument
    def __call__(self, x):
        return self.factor * x


@jax.jit
def magnify(factor, x):  # a pure function outside, which is handed the number
    return factor * x


class Helper(Lens):
    def __call__(self, x):
        return magnify(self.factor, x)


# %%
@jax.tree_util.register_dataclass  # self is a pytree
@dataclasses.dataclass
class Tree:
    factor: float

    @jax.jit
    def __call__(self, x):
        return self.factor * x


# %% [markdown]
# A lens of factor 2 turns 3.0 into 6.0. Now `lens.factor = 10.0`. What does `lens(3.0)` return for `StaticSelf`?

# %%
guess = None  # your number


# %%
def life_of(make, body):
    """Results and traces: a lens of factor 2; the same with 10; a new one of 10; a new one of 2."""
    with trace_log(body) as log:
        lens = make(2.0)
        results = [float(lens(3.0))]
        lens.factor = 10.0
        results += [float(lens(3.0)), float(make(10.0)(3.0)), float(make(2.0)(3.0))]
    return results, log.traces


lives = {
    "static self": life_of(StaticSelf, StaticSelf.__call__),
    "helper function": life_of(Helper, magnify),
    "pytree": life_of(Tree, Tree.__call__),
}
show_guess(guess, lives["static self"][0][1])

# %% jupyter={"source_hidden": true}
# Table: the lives of three lenses
head = "| | factor 2 | then `factor = 10` | a new one, 10 | a new one, 2 | traces |\n|---|--:|--:|--:|--:|--:|\n"
rows = [[name, *(f"{result:g}" for result in results), str(traces)] for name, (results, traces) in lives.items()]
display(Markdown(head + "\n".join(f"| {' | '.join(row)} |" for row in rows)))

# %% jupyter={"source_hidden": true}
# Proof
# The lives of three lenses.
assert lives["static self"] == ([6, 6, 30, 6], 3)
assert lives["helper function"] == lives["pytree"] == ([6, 30, 30, 6], 1)

# %% [markdown]
# A static object is recognised by its identity, and its identity did not change when the factor did: JAX finds the
# program of factor 2 and runs it, without an error. This is the **mutation trap**. And since identity is the key, every
# new lens is a new trace, be it equal to an old one or not.
#
# The usual advice is to give the class `__hash__` and `__eq__`. That cures the new lenses. Does it cure the mutation?
# Compare the two rows of the table:


# %%
class Hashed(Lens):
    __call__ = partial(jax.jit, static_argnums=0)(lambda self, x: self.factor * x)

    def __hash__(self):
        return hash(self.factor)

    def __eq__(self, other):
        return isinstance(other, Hashed) and self.factor == other.factor


mutated = life_of(Hashed, Hashed.__call__)[0]

# %% jupyter={"source_hidden": true}
# Table: the life of a hashed lens, as it should be and as it is
Markdown(
    f"| | factor 2 | then `factor = 10` | a new one, 10 | a new one, 2 |\n|---|--:|--:|--:|--:|\n"
    f"| right | 6 | 30 | 30 | 6 |\n| JAX {jax.__version__} | " + " | ".join(f"{result:g}" for result in mutated) + " |"
)

# %% [markdown]
# It depends on the version of JAX. On 0.12 all four are right. On 0.10 the row reads 6, 6, 6, 6: the change goes
# unnoticed, and even a **brand-new** lens of factor 10 gets the old program, because the key in the cache is the first
# lens itself, and that now says "factor 10". A key that changes while it is in a dictionary breaks the dictionary; that
# is no bug of JAX. So: what is static must not be able to change.
#
# The trap has a second half: a jitted method that *assigns* to `self`.


# %%
class StaticCounter:
    def __init__(self, total):
        self.total = total

    @partial(jax.jit, static_argnums=0)
    def add(self, x):
        self.total = self.total + x
        return self.total


counter = StaticCounter(0.0)
print("static self:", [float(counter.add(x)) for x in (1.0, 2.0, 3.0)])
print("and self.total is", counter.total)


# %%
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class TreeCounter:
    total: float

    @jax.jit
    def add(self, x):
        return dataclasses.replace(self, total=self.total + x)  # a new counter, not a changed one


counter, totals = TreeCounter(0.0), []
for x in (1.0, 2.0, 3.0):
    counter = counter.add(x)
    totals.append(float(counter.total))
print("pytree:     ", totals)

# %% jupyter={"source_hidden": true}
# Proof
# The totals of the pytree.
assert totals == [1, 3, 6]

# %% [markdown]
# The first one assigns while it is traced, once: a tracer is left behind in the object (unit 03 hunts those), and
# the total never grows. The second returns what has changed. Arrays that change are *data*, and data goes in and
# comes out.
#
# ## Configurations
#
# What remains for static arguments is what decides the program: a width, a number of rounds, a mode. Put it in a
# **frozen dataclass**: hashed and compared by its fields, and no one can change it. The pytree and the configuration
# meet in one class, if you mark the fields that are not data:


# %%
@dataclasses.dataclass(frozen=True)
class Config:
    width: int
    mode: str = "mean"


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Filter:
    gain: float
    config: Config = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        width = self.config.width
        windows = jnp.stack([x[i : x.size - width + 1 + i] for i in range(width)])
        pooled = windows.mean(0) if self.config.mode == "mean" else windows.max(0)
        return self.gain * pooled


# %% [markdown]
# Four calls. (`log.call` makes one, and notes whether it traced or hit the cache.)

# %%
x = jnp.arange(6.0)
with trace_log(Filter.__call__) as log:
    smooth = Filter(1.0, Config(3))
    log.call(Filter.__call__, smooth, x)
    smooth.gain = 5.0  # data: no trace
    log.call(Filter.__call__, smooth, x)
    log.call(Filter.__call__, Filter(7.0, Config(3)), x)  # an equal configuration: no trace
    smooth.config = dataclasses.replace(smooth.config, mode="max")  # another program
    peaks = log.call(Filter.__call__, smooth, x)
print("the four calls:", ", ".join(row.outcome for row in log.rows))
print("gradient with respect to the filter:", jax.grad(lambda s: s(x).sum())(smooth))

# %% jupyter={"source_hidden": true}
# Proof
# Two traces, and the values of the last call.
assert log.traces == 2 and peaks.tolist() == [10, 15, 20, 25]

# %% [markdown]
# The gradient has the shape of the filter: it is a pytree with one number in it, and the configuration rides along.
# Three ways to get a configuration wrong:


# %%
@dataclasses.dataclass
class Loose:  # not frozen: has __eq__, so Python takes its hash away
    width: int


@dataclasses.dataclass(frozen=True)
class FrozenOutside:
    widths: list


take = jax.jit(lambda x, config: x, static_argnames="config")
print("not frozen:         ", outcome(lambda: take(x, config=Loose(3))))
print("a list in a field:  ", outcome(lambda: take(x, config=FrozenOutside([3, 5]))))
print("an array in a field:", outcome(lambda: take(x, config=FrozenOutside(jnp.ones(3)))))
print("a tuple in a field: ", outcome(lambda: take(x, config=FrozenOutside((3, 5)))))

# %% [markdown]
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of older posts, and what was measured above
claims = [
    ("tracing happens on abstract values: a shape and a dtype", "✓", f"`{jax.typeof(data)}`"),
    ("`if x < 3` raises `ConcretizationTypeError`", "✓", "its child, " + TODAY["if x > 0:"].__name__),
    ("`jax.grad` does no tracing", "✗", "it traces with the number at hand, so `if` works"),
    ("static 2 and 4 give the jaxprs `12.0` and `-16`", "✓", "one trace, one compile each"),
    ("a static argument should take few values", "✓", f"{ks[-1]} values: {ks[-1]} traces, {slower:.0f}x the time"),
    ("`multiply_n_times(2, 5)` multiplies five times", "✗", f"returns {answer}: `return x` should be `return res`"),
    ("make `x` static in its body", "✗", "five values, five traces; traced: one"),
    ("a product of a shape: `np`, not `jnp`", "✓", "or `x.size`"),
    ("a boolean mask raises `IndexError`", "✓", "its child, " + TODAY["x[x < 0]"].__name__),
    ("`jnp.ones((n,))` raises the same", "✗", "a plain " + TODAY["jnp.ones((n,))"].__name__),
    ("`get_negatives` is an impure function", "✗", "it is pure: the same answer each time; its shape is a value"),
    ("shapes must be static", "✓", "`where`, `size=`, or outside `jit`"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# ## Keypoints
#
# - A tracer stands for all arrays of one shape and dtype. `jit` and `make_jaxpr` know no more, and `vmap` has a whole
#   row of values; `grad`, `jvp` and `linearize`, with nothing around them, know the one value.
# - Shapes and dtypes are static. NumPy and Python on static values stay static; what `jnp` computes is traced.
# - An error names the question: true or false, which number, how many, how long. Old names are ancestors of
#   today's.
# - The value chooses between two results: `where` or `cond`, one trace. It decides the program or a shape: static,
#   one trace *and compile* a value.
# - Static means hashable, compared by type and `==`, never changed. A frozen dataclass is all three.
# - `self`: numbers and arrays are data (a pytree, or a helper function), modes are static. A static `self` that
#   changes is a silent wrong answer.
#
# ## Your turn
#
# [Exercise 04](../exercises/04_static_or_traced/static_or_traced.ipynb): sort values into static and traced,
# collect eight errors, price a static argument and the mask in its place, return the negatives under `jit`, repair an
# amplifier that does not listen, and find out with a few calls what a sealed function keeps static. 22 points.
