# %% [markdown]
# # 10 · When jit changes the answer
#
# **The same function, the same numbers. May the compiled one return something else?**
#
# You will
#
# - measure a difference in ulps, and say whether it is large;
# - know the three things that XLA does to your last digits, and switch each of them off;
# - choose a tolerance that accepts rounding and rejects a bug.
#
# About {duration}, in three stages (about {stage} for the first). You need fusions and compiler passes from unit 09. All
# numbers here are `float32` unless they say otherwise.

# %% jupyter={"source_hidden": true}
# Helper: modules for pictures, tables and files
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # before JAX starts; what XLA cannot compile here, section 0 says

import re
import tempfile
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown, display
from matplotlib.colors import ListedColormap

plt.style.use("autograder.course")

# %%
from decimal import Context, Decimal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from autograder import show_guess, show_hlo

# Options of a single compilation, each of them for looking, not for living with
FAST_MATH = {"xla_cpu_enable_fast_math": True}
NO_FUSION = {"xla_disable_hlo_passes": "fusion"}
NO_ALGEBRA = {"xla_disable_hlo_passes": "algsimp"}
NO_EXCESS = {"xla_allow_excess_precision": False}

# %% [markdown]
# ## 0. What does this machine show?
#
# Last digits belong to a machine and a version. You need not understand the rows of this table yet. Where a section shows
# nothing, come back to it: it may be your machine.

# %% jupyter={"source_hidden": true}
# Table: the effects of this unit, on this machine
tenth = jnp.float32(0.1)
one, milli = jnp.array(1.0), jnp.array(0.001)
coarse = jnp.asarray(np.linspace(1, 2, 256), jnp.bfloat16)
fine = jnp.asarray(np.linspace(1, 2, 256), jnp.float32)


def residual(a, b, product):
    return a * b - product


def inverse_root(x):
    return 1 / jnp.sqrt(x)


def widened(x):
    return (x * x).astype(jnp.float32)


def joins(dtype):
    """Whether a product and a sum of this dtype become one step; None where XLA cannot compile it at all."""
    x = jnp.asarray(64 * (1 + float(jnp.finfo(dtype).eps)), dtype)  # its square needs twice the digits
    try:
        return bool(jax.jit(residual)(x, x, x * x) != 0)
    except jax.errors.JaxRuntimeError:
        return None


on_cpu = jax.default_backend() == "cpu"
joined = {dtype: joins(dtype) for dtype in ("float32", "bfloat16", "float16")}
fma = bool(joined["float32"])
fast_math = bool(jax.jit(lambda x, y: x + y - x, compiler_options=FAST_MATH)(one, milli) == milli)
rsqrt = bool((jax.jit(inverse_root)(fine) != inverse_root(fine)).any())
excess = bool((jax.jit(widened)(coarse) != widened(coarse)).any())

rows = [
    ("a product and a sum in one step (sections 3 to 5)", fma),
    ("the same in `bfloat16` (section 7)", joined["bfloat16"]),
    ("the same in `float16` (section 7)", joined["float16"]),
    ("`xla_cpu_enable_fast_math` (sections 1 and 8)", fast_math),
    ("other digits for `1 / sqrt(x)` (sections 5 and 6)", rsqrt),
    ("more digits than `bfloat16` has (section 7)", excess),
]
said = {True: "yes", False: "**not here**", None: "**not here**: XLA cannot compile it for this processor"}
rows = "\n".join(f"| {effect} | {said[shown]} |" for effect, shown in rows)
display(Markdown(f"JAX {jax.__version__}, {jax.devices()[0].device_kind}\n\n"))
display(Markdown(f"| effect | shown by this machine? |\n|---|:-:|\n{rows}"))

# %% [markdown]
# ## 1. A post, and its two answers
#
# An old post ends with a warning about jit and precision. This is its program. Un-jitted, or *eager*, it printed
# `0.0010000467`.


# %%
def posted(x, y):
    return x + y - x


one, milli = jnp.array(1.0), jnp.array(0.001)

# %%
guess = None  # your text: what does the jitted one print? "0.0010000467", or something else?

# %%
eager, compiled = posted(one, milli), jax.jit(posted)(one, milli)
print(eager)
print(compiled)
show_guess(guess, str(compiled))

# %% jupyter={"source_hidden": true}
# Proof
# What both print.
assert str(eager) == "0.0010000467"
assert compiled == eager

# %% [markdown]
# In the post the second line is `0.001`: *x and -x cancel, and the compiler returns y.* That is how XLA was set up
# then. The switch is still there, and can be thrown for one function:

# %%
cancelled = jax.jit(posted, compiler_options=FAST_MATH)
print("with fast math:", cancelled(one, milli))
display(show_hlo(posted, one, milli))
display(show_hlo(cancelled, one, milli))

# %% jupyter={"source_hidden": true}
# Proof
# The post's number, where there is such a switch.
if fast_math:
    assert str(cancelled(one, milli)) == "0.001"
else:
    print(f"(The switch is one of XLA's for CPUs. On {jax.default_backend()} it changes nothing.)")

# %% [markdown]
# With fast math, XLA may calculate as on paper: all that is left of the second program is a copy of `y`. Here `0.001` is
# the better answer; in section 8 the same switch breaks a program that is right.
#
# The default is what you can build on: **among values that it does not know, XLA does each `+` that you wrote, in the
# order in which you wrote them.** Inside one `sum` the order is its own, and where all terms are known to be equal, it
# does not even add:


# %%
def hundred_plus(x):
    total = x
    for _ in range(99):
        total = total + x
    return total


def hundred_copies(x):
    return jnp.broadcast_to(x, (100, *x.shape)).sum(0)


fine = jnp.asarray(np.linspace(1, 2, 256), jnp.float32)
for fn in (hundred_plus, hundred_copies):
    changed = int((jax.jit(fn)(fine) != fn(fine)).sum())
    print(fn.__name__, dict(show_hlo(fn, fine).ops), f"{changed} of {fine.size} changed by jit")

# %% jupyter={"source_hidden": true}
# Proof
# 99 additions are kept in their order; a sum of copies is a product.
if on_cpu:
    assert show_hlo(hundred_plus, fine).ops["add"] == 99 and (jax.jit(hundred_plus)(fine) == hundred_plus(fine)).all()
    assert show_hlo(hundred_copies, fine).ops["reduce"] == 0 and (jax.jit(hundred_copies)(fine) == 100 * fine).all()

# %% [markdown]
# ## 2. The unit: one ulp
#
# Why is it `0.0010000467` at all? A `float32` has 24 binary digits. Between 1 and 2 there are $2^{23}$ such numbers,
# one every $1.2 \cdot 10^{-7}$. That step is called an **ulp**, a *unit in the last place*. A sum is rounded to the
# nearest step:


# %%
def ulps(value, truth):
    """How far `value` is from `truth` (both as float64), in steps of the float32 at `truth`."""
    truth = np.asarray(truth, np.float64)
    step = np.spacing(np.abs(truth).astype(np.float32)).astype(np.float64)
    return np.abs(np.asarray(value, np.float64) - truth) / step


exact, rounded = 1.0 + float(milli), float(one + milli)
print(f"error of the sum:         {ulps(rounded, exact):6.2f} ulp of {rounded:.4f}")
print(f"error of the difference:  {ulps(eager, milli):6.1f} ulps of {float(milli):.4f}")

# %% jupyter={"source_hidden": true}
# Picture: the sum, and the float32 around it
ticks = rounded + np.arange(-3, 4) * np.spacing(np.float32(1))
fig, ax = plt.subplots(figsize=(8, 1.9))
ax.vlines(ticks, -0.4, 0.4, color="#888888", lw=1.5)
ax.vlines(rounded, -0.6, 0.6, color="C1", lw=3)
ax.plot(exact, 0, "o", color="C0")
ax.text(exact, -1.2, "1 + 0.001", color="C0", ha="center")
ax.text(rounded, 0.85, f"stored: {ulps(rounded, exact):.2f} ulp away", color="C1", ha="center")
ax.set(ylim=(-1.5, 1.4), yticks=[], xticks=ticks[::2], xticklabels=[f"{tick:.9f}" for tick in ticks[::2]])
ax.set_xlabel("each line is a float32; there are none between them")
ax.spines["left"].set_visible(False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Half an ulp at most for the sum, some 400 for the difference.
assert ulps(rounded, exact) <= 0.5 and 400 < ulps(eager, milli) < 403

# %% [markdown]
# The addition is as good as it can be: a rounding costs half an ulp at most. The subtraction is exact, but its result is
# a thousand times smaller, so that the same error is now hundreds of steps. *The digits of y were lost when it was added
# to something large.*
#
# | ulps | read it as |
# |---|---|
# | 0 | the same operations in the same order |
# | up to 0.5 | one rounding, the best possible result |
# | a few | some roundings in another order |
# | hundreds, thousands | digits were cancelled, or there is a bug |
#
# ## 3. Light that is faster than light
#
# In special relativity a clock that flies from the origin to $(t, x)$ shows the proper time $\tau = \sqrt{t^2 - x^2}$.
# For light, $x = \pm t$, and the clock stands still: $\tau = 0$. Beyond that, outside of the *light cone*, $\tau$ is the
# root of a negative number, NaN. We compute it on a grid whose diagonals are light:


# %%
def proper_time(t, x):
    return jnp.sqrt(t * t - x * x)


steps = 30
t, x = np.meshgrid(np.arange(steps + 1), np.arange(-steps, steps + 1), indexing="ij")
light = np.abs(x) == t
t, x = (jnp.asarray((grid / steps).astype(np.float32)) for grid in (t, x))

# %%
guess = None  # your number: of the 61 points of light, how many are NaN when compiled? 0, 2 or about 30?

# %%
clocks = {
    "eager": proper_time(t, x),
    "compiled": jax.jit(proper_time)(t, x),
    "compiled without fusion": jax.jit(proper_time, compiler_options=NO_FUSION)(t, x),
}
clocks = {name: np.asarray(tau) for name, tau in clocks.items()}
nans = {name: int(np.isnan(tau[light]).sum()) for name, tau in clocks.items()}
show_guess(guess, nans["compiled"], "points")

# %% jupyter={"source_hidden": true}
# Picture: the two maps
fig, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
place = {"origin": "lower", "extent": (-1, 1, 0, 1), "aspect": 1}
for ax, name in zip(axes, ("eager", "compiled"), strict=True):
    tau = clocks[name]
    ax.set_facecolor("#e8e8e8")  # shows where tau is NaN
    picture = ax.imshow(tau, **place)
    ax.imshow(np.where(np.isnan(tau) & light, 1.0, np.nan), cmap=ListedColormap("C1"), **place)
    ax.set_title(f"{name}: {nans[name]} of {light.sum()} points of light are NaN", size=11)
    ax.set(xlabel="x", xticks=[-1, 0, 1], yticks=[0, 1])
    ax.grid(False)
axes[0].set_ylabel("t")
fig.colorbar(picture, ax=axes, label="proper time", shrink=0.8)
plt.show()

# %% jupyter={"source_hidden": true}
# Table: what becomes of the points of light
late = {name: int((tau[light] > 0).sum()) for name, tau in clocks.items()}
most = float(np.nanmax(clocks["compiled"][light]))
rows = [
    ("NaN: it lies outside of its own cone", nans),
    (f"above 0, up to {most:.1e}: it arrives late" if fma else "above 0: it arrives late", late),
    ("0: it is light", {name: int(light.sum()) - nans[name] - late[name] for name in clocks}),
]
rows = "\n".join(f"| {what} | {' | '.join(str(counts[name]) for name in clocks)} |" for what, counts in rows)
display(Markdown(f"| points of light | {' | '.join(clocks)} |\n|---|:-:|:-:|:-:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# No NaN on the cone in eager, and none without fusion; everything beyond the cone is NaN.
assert all(np.isnan(tau[(np.abs(x) > t)]).all() for tau in clocks.values())
assert nans["eager"] == 0
if fma:
    assert nans["compiled"] > 20
if on_cpu:
    assert nans["compiled without fusion"] == 0

# %% [markdown]
# Orange is a point of light that has become NaN. It exists **only when compiled**. You cannot find it by running the
# lines one at a time, or by printing in between: that separates what was joined.
#
# ## 4. Where it comes from
#
# Look for it in the program:

# %%
view = show_hlo(proper_time, t, x)
print(view)

# %% jupyter={"source_hidden": true}
# Proof
# The operations are those that were written.
assert view.ops["multiply"] == 2 and view.ops["subtract"] == 1

# %% [markdown]
# Two products, a difference, a root: what you wrote, in one fusion. The digits are lost one floor below, in the machine
# code. CPUs have one instruction for a product and a sum, the **fused multiply-add**, FMA. It takes three numbers $a$,
# $b$, $c$, and computes $a \cdot b + c$ with *one* rounding, at the end.
#
# But $t \cdot t - x \cdot x$ has two products, and an FMA can take in only one:
#
# - Let that be $t \cdot t$. It stays **exact**: nothing is rounded before the difference is taken.
# - Then $x \cdot x$ is the third number, $c$. It must be there beforehand, from an ordinary multiplication, so it **has
#   been rounded**.
#
# For light both products are equal, and yet *exact minus rounded* is not 0. It is the rounding error. Here with three
# decimal digits:

# %%
three = Context(prec=3)  # every result is rounded to three digits


def by_hand(t, x):
    rounded = three.multiply(x, x)
    separate = three.subtract(three.multiply(t, t), rounded)  # rounded minus rounded
    fused = three.fma(t, t, -rounded)  # exact minus rounded
    return t * t, rounded, separate, fused


worked = {digits: by_hand(Decimal(digits), Decimal(digits)) for digits in ("1.23", "1.24")}

# %% jupyter={"source_hidden": true}
# Table: the worked example
names = ["$t \\cdot t$, exact", "$x \\cdot x$, rounded", "rounded − rounded (eager)", "**exact − rounded (FMA)**"]
columns = zip(names, *worked.values(), strict=True)
rows = "\n".join(f"| {name} | {' | '.join(map(str, row))} |" for name, *row in columns)
roots = ["**NaN**" if values[-1] < 0 else f"**{values[-1].sqrt(three)}**" for values in worked.values()]
head = f"| $t = x$ | {' | '.join(worked)} |\n|---|:-:|:-:|\n"
display(Markdown(f"{head}{rows}\n| its root | {' | '.join(roots)} |"))

# %% jupyter={"source_hidden": true}
# Proof
# 0 with two roundings; with one, the rounding error, of either sign.
assert [separate for *_, separate, _ in worked.values()] == [0, 0]
assert [str(fused) for *_, fused in worked.values()] == ["0.0029", "-0.0024"]

# %% [markdown]
# Where $x \cdot x$ was rounded down, something above 0 is left: a point that arrives late. Where it was rounded up,
# something below 0: a NaN. The same in `float32`, beside the truth from `float64`:

# %%
tenth = jnp.float32(0.1)
product = tenth * tenth
separate = residual(tenth, tenth, product)  # a * b - product
fused = jax.jit(residual)(tenth, tenth, product)
truth = np.float64(tenth) * np.float64(tenth) - np.float64(product)
print(f"a * b - round(a * b)   eager {separate:.7e}   compiled {fused:.7e}   truth {truth:.7e}")

# %% jupyter={"source_hidden": true}
# Proof
# Eager it is 0; compiled it is the truth, where there is an FMA.
assert separate == 0 and (fused == np.float32(truth)) == fma

# %% [markdown]
# The compiled one is **right**, to the last digit. Only that you wanted 0. And so NumPy can foretell each single NaN of
# the map. (The compiler decides which product goes in. We try both.)

# %%
T, X = np.asarray(t, np.float64), np.asarray(x, np.float64)
foretold = {
    "t * t exact": T * T - (X * X).astype(np.float32) < 0,
    "x * x exact": (T * T).astype(np.float32) - X * X < 0,
}
for which, negative in foretold.items():
    wrong = int((np.isnan(clocks["compiled"]) != negative).sum())
    print(f"{which}: foretells {negative[light].sum()} NaN, wrong for {wrong} of {negative.size}")

# %% jupyter={"source_hidden": true}
# Proof
# Where FMAs are used, one of the two is right about every point of the map.
if fma:
    assert any((np.isnan(clocks["compiled"]) == negative).all() for negative in foretold.values())

# %% [markdown]
# Where there are FMAs, one of the two is right about every point. This is no noise, but arithmetic other than you
# assumed. Four ways to write the same light, for a thousand different $t = x$:

# %%
rng = np.random.default_rng(10)
ray = jnp.asarray(rng.uniform(size=1000).astype(np.float32))
WAYS = {
    "`t*t - x*x`": (lambda t, x: t * t - x * x, (ray, ray)),
    "`t*t - t*t`": (lambda t: t * t - t * t, (ray,)),
    "`(t-x) * (t+x)`": (lambda t, x: (t - x) * (t + x), (ray, ray)),
    "`t*t - barrier(x*x)`": (lambda t, x: t * t - lax.optimization_barrier(x * x), (ray, ray)),
}
counts = {way: int((jax.jit(fn)(*args) != 0).sum()) for way, (fn, args) in WAYS.items()}

# %% jupyter={"source_hidden": true}
# Table: how often each of them is not 0
rows = "\n".join(f"| {way} | {count} |" for way, count in counts.items())
display(Markdown(f"| compiled | not 0, of 1000 |\n|---|:-:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# The first goes wrong, the second and the third never do.
assert (counts["`t*t - x*x`"] > 900) == fma
assert counts["`t*t - t*t`"] == counts["`(t-x) * (t+x)`"] == 0

# %% [markdown]
# - With one argument XLA sees that the two products are the same expression, and computes it once.
# - In the third no product is added to anything. **This is the cure.** It is the better formula without a compiler, too:
#   `t - x` is 0 for light, and below 0 only outside the cone.
# - A barrier is no cure. It does not always hold (unit 09), and where it does, the other product can still go in.
#
# To find out whether an FMA bites you, compile once without the pass `fusion`, as above: each operation gets a loop of
# its own. Then mend the formula, and take the option out again: it costs all that fusion gains.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: two bug reports, where jit is the better answer, and what else XLA does to digits.*

# %% [markdown]
# ### Two bug reports
#
# In [#18507](https://github.com/jax-ml/jax/issues/18507) a cross product of parallel vectors, exact integers, is 1:

# %%
a, b = jnp.full(3, 2396747.0), jnp.full(3, 7.0)
crosses = {"numpy.cross": np.cross(a, b), "jnp.cross": jnp.cross(a, b)}
with jax.disable_jit():
    crosses["jnp.cross with disable_jit"] = jnp.cross(a, b)
for name, values in crosses.items():
    print(f"{name:27}", values)

# %% jupyter={"source_hidden": true}
# Proof
# 1 where products and sums are joined, 0 op by op.
if on_cpu:
    assert list(np.abs(crosses["jnp.cross"])) == [float(fma)] * 3
    assert not crosses["jnp.cross with disable_jit"].any()

# %% [markdown]
# There is no `jit` in sight. But `jnp.cross`, as many functions of `jax.numpy`, *is* jitted: "eager" means op by op
# for your own lines only. $2396747 \cdot 7$ needs 25 binary digits, so it is rounded, twice, and the errors cancel. With
# an FMA, one of them is left. (The report was closed: working as intended.)
#
# [#38602](https://github.com/jax-ml/jax/issues/38602) says: eager, `cross(x, x)` is a tiny number, and divided by itself
# it gives 1. *Under jit it is 0, and the quotient NaN. A compiler bug.* You can now judge:


# %%
def itself(x):
    return jnp.cross(x, x)


def ratio(x):
    return jnp.cross(x, x) / jnp.cross(x, x)


vector = jnp.array([0.1, 0.9, 0.3])
for fn in (itself, ratio):
    with jax.disable_jit():
        op_by_op = fn(vector)
    print(f"{fn.__name__:7} eager {fn(vector)}  jit {jax.jit(fn)(vector)}  disable_jit {op_by_op}")

# %% jupyter={"source_hidden": true}
# Proof
# NaN when jitted; eager a number, where there is an FMA.
assert np.isnan(jax.jit(ratio)(vector)).all()
if on_cpu:
    assert np.isfinite(ratio(vector)).any() == fma

# %% [markdown]
# It is the other way round. $x \times x$ **is** 0, and 0/0 is NaN. Called on its own, `jnp.cross` gets two arguments and
# cannot know that they are one, so FMAs leave rounding errors. Inside your `jit` XLA knows. The "correct" answer was an
# error divided by itself.

# %% [markdown]
# ## 5. Where jit is the better answer
#
# One rounding is better than two. Over a hundred thousand triples, how far is $a \cdot b + c$ from the truth?

# %%
guess = None  # your number: in how many percent do eager and compiled differ at all? 1, 25 or 90?


# %%
def multiply_add(a, b, c):
    return a * b + c


triple = [jnp.asarray(rng.normal(size=100_000).astype(np.float32)) for _ in range(3)]
A, B, C = (np.asarray(values, np.float64) for values in triple)
both = {"eager": multiply_add(*triple), "compiled": jax.jit(multiply_add)(*triple)}
errors = {name: ulps(values, A * B + C) for name, values in both.items()}
for name, error in errors.items():
    beyond = 100 * (error > 0.5).mean()
    print(f"{name:8}  not the nearest float32: {beyond:4.1f} %   worst: {error.max():,.4f} ulps")
differ = float((both["eager"] != both["compiled"]).mean())
show_guess(guess, round(100 * differ, 1), "%")

# %% jupyter={"source_hidden": true}
# Picture: the errors of both
bins = [0, 0.25, 0.5, 1, 2, 4, 8, 16, 1e9]
labels = ["0 – ¼", "¼ – ½", "½ – 1", "1 – 2", "2 – 4", "4 – 8", "8 – 16", "more"]
fig, ax = plt.subplots(figsize=(8, 3.3))
for shift, (name, error) in zip((-0.2, 0.2), errors.items(), strict=True):
    share = 100 * np.histogram(error, bins)[0] / error.size
    label = f"{name}: at most {error.max():,.1f} ulps"
    bars = ax.bar(np.arange(len(labels)) + shift, share, width=0.38, label=label)
    ax.bar_label(bars, [f"{value:.1f}" if value else "0" for value in share], size=9)
ax.set_xticks(range(len(labels)), labels)
ax.set(xlabel="error, in ulps of the float64 truth", ylabel="% of the results", title="a * b + c")
ax.legend(loc="upper right")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# With FMAs, each compiled result is the nearest float32 there is.
worst_madd = [error.max() for error in errors.values()]
if fma:
    assert errors["compiled"].max() <= 0.5 < 1000 < errors["eager"].max() and 0.2 < differ < 0.3

# %% [markdown]
# With an FMA, **each of the compiled results is the nearest `float32` there is**. Eager, where the product and `c` nearly
# cancel, thousands of ulps are lost. So "jit changed my result" does not say which one was wrong. Ask the same formula in
# `float64`. Some more, over the same numbers:


# %%
def discriminant(a, b, c):
    return b * b - 4 * a * c


def horner(a, b, c):
    return ((a * b + b) * b + c) * b + a


def inverse_root_of(a, b, c):
    return 1 / jnp.sqrt(jnp.abs(a))


def log_of_root(a, b, c):
    return jnp.log(jnp.sqrt(jnp.abs(a)))


def selu_left(a, b, c):
    return 1.67 * jnp.exp(a) - 1.67


# %% jupyter={"source_hidden": true}
# Table: errors of eager and compiled
def closer(one, other):
    """Which of two means is the smaller one, if there is a difference to speak of."""
    return "–" if abs(one - other) < 0.02 * one else "jit" if other < one else "eager"


verdicts, lines = {}, []
for fn in (multiply_add, discriminant, horner, inverse_root_of, log_of_root, selu_left):
    with jax.enable_x64(True):
        judge = np.asarray(fn(*map(jnp.asarray, (A, B, C))))
    errors = [ulps(run(*triple), judge) for run in (fn, jax.jit(fn))]
    (mean, jit_mean), (worst, jit_worst) = ([f(error) for error in errors] for f in (np.mean, np.max))
    verdicts[fn.__name__] = closer(mean, jit_mean)
    numbers = f"{mean:.2f} | {jit_mean:.2f} | {worst:,.1f} | {jit_worst:,.1f}"
    lines.append(f"| `{fn.__name__}` | {numbers} | {verdicts[fn.__name__]} |")
head = "| | mean, eager | mean, jit | worst, eager | worst, jit | better mean |\n|---|--:|--:|--:|--:|:-:|\n"
display(Markdown("Errors in ulps:\n\n" + head + "\n".join(lines)))

# %% jupyter={"source_hidden": true}
# Proof
# Where jit has the better mean, and where eager.
if on_cpu:
    assert verdicts["log_of_root"] == "jit" and verdicts["inverse_root_of"] == ("jit" if rsqrt else "–")
if on_cpu and fma:
    assert verdicts["discriminant"] == verdicts["horner"] == "jit" and verdicts["selu_left"] == "eager"

# %% [markdown]
# Where there are FMAs, it is mostly jit. Not always: where `exp(a)` is near 1, `selu_left` is a small difference of
# numbers that carry errors already. And `log_of_root` has no sum in it at all, yet jit is better there too. Why?
#
# ## 6. Algebra
#
# This is the second thing that XLA does. The pass `algsimp` (unit 09) replaces an expression by another that *means* the
# same and may round otherwise. The table says which passes changed what you wrote.

# %%
REWRITES = {  # what you write, and a number for x
    "1 / sqrt(x)": (lambda x: 1 / jnp.sqrt(x), 0.1411),
    "log(sqrt(x))": (lambda x: jnp.log(jnp.sqrt(x)), np.pi),
    "x / 3": (lambda x: x / 3, 1.3),
    "x + 0": (lambda x: x + 0, 1e-39),
    "(1 + x) - 1": (lambda x: (1 + x) - 1, 0.001),
    "x / 7 * 7": (lambda x: x / 7 * 7, 1.3),
    "sqrt(x * x)": (lambda x: jnp.sqrt(x * x), 1e-30),
    "log(exp(x))": (lambda x: jnp.log(jnp.exp(x)), 100.0),
    "exp(x) / exp(x)": (lambda x: jnp.exp(x) / jnp.exp(x), 100.0),
    "tanh(x)": (jnp.tanh, 1.3),
}

# %% jupyter={"source_hidden": true}
# Helper: which passes changed a program (unit 09's film), and its two answers
QUIET = {"parameter", "constant", "copy", "fusion", "broadcast", "bitcast"}


def operations(text):
    found = Counter(re.findall(r" = (?:\([^=]*\)|\S+) ([a-z][\w-]*)\(", text))
    return {name: n for name, n in found.items() if name not in QUIET}


def rewriters(fn, *args):
    """The passes that changed the operations of fn, and the operations that are left."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": ".*"}
        jax.jit(fn).lower(*args).compile(compiler_options=options)
        (before,) = Path(folder).glob("*.before_optimizations.txt")
        films = [("", before)] + [
            (re.search(r".*\.after_(.+)\.before_", path.name)[1], path)
            for path in sorted(Path(folder).glob("*.after_*.before_*.txt"))
        ]
        frames = [(name, operations(path.read_text())) for name, path in films]
    who = [name for (_, old), (name, new) in zip(frames, frames[1:], strict=False) if old != new]
    if not frames[0][1]:
        who = ["gone before XLA's passes"]
    return list(dict.fromkeys(who)), frames[-1][1]


def two_answers(fn, value):
    """(eager, compiled) as float32, and the ulps between them, or None where that means nothing."""
    value = jnp.float32(value)
    eager, compiled = np.float32(fn(value)), np.float32(jax.jit(fn)(value))
    countable = np.isfinite([eager, compiled]).all() and eager and compiled
    return eager, compiled, round(float(ulps(compiled, eager))) if countable else None


# %% jupyter={"source_hidden": true}
# Table: what becomes of each expression
found = {}
for what, (fn, value) in REWRITES.items():
    who, left = rewriters(fn, jnp.float32(value))
    found[what] = (value, *two_answers(fn, value), left, who)

lines = []
for what, (value, eager, compiled, apart, left, who) in found.items():
    same = np.array_equal(eager, compiled, equal_nan=True)
    apart = "same" if same else f"**{apart} ulp{'s' * (apart > 1)}**" if apart else "**another number**"
    left = ", ".join(f"`{name}`" for name in left) or "nothing"
    value = "π" if value == np.pi else f"{value:g}"
    answers = f"{eager!s} | {compiled!s} | {apart}"
    lines.append(f"| `{what}` | {value} | {answers} | {left} | {', '.join(who) or '–'} |")
head = "| you write | x | eager | compiled | apart | what is left | changed by |\n|---|--:|--:|--:|:-:|---|---|\n"
display(Markdown(head + "\n".join(lines)))

# %% jupyter={"source_hidden": true}
# Proof
# The first three by algsimp, and without that pass they are as in eager; x + 0; tanh.
if on_cpu:
    assert found["log(sqrt(x))"][3] == found["x / 3"][3] == 1 and found["1 / sqrt(x)"][3] <= rsqrt
    assert all("algsimp" in found[what][5] for what in ("1 / sqrt(x)", "log(sqrt(x))", "x / 3"))
    without = [
        jax.jit(fn, compiler_options=NO_ALGEBRA)(jnp.float32(value)) == fn(jnp.float32(value))
        for fn, value in (REWRITES[what] for what in ("1 / sqrt(x)", "log(sqrt(x))", "x / 3"))
    ]
    assert all(without), "without the pass the answers are the eager ones"
    print("without algsimp, the first three are as in eager:", [bool(same) for same in without])
    assert found["x + 0"][1] == 0 < found["x + 0"][2]
assert found["tanh(x)"][1] == found["tanh(x)"][2]

# %% [markdown]
# - `log(sqrt(x))` becomes half a `log`: a rounding is gone. `1 / sqrt(x)` becomes the single `rsqrt`, which is more
#   precise too, where the processor has an instruction for it. Where it has none, no digit changes.
# - `x / 3` becomes `x * 0.33333334`: a product in place of a division, and a rounding *more*.
# - `x + 0` is taken out. The sum that eager really does turns the tiny 1e-39 into 0: XLA sets the processor to flush
#   results below $1.2 \cdot 10^{-38}$.
# - `tanh` has one implementation, eager and compiled.
#
# Without `algsimp` the first three are as in eager. (Do not compile whole programs without it: other passes count on it,
# and on JAX 0.10 some crash.)
#
# In the lines in the middle **versions differ**. JAX's own FAQ says that `log(exp(100.))` is `inf` eager and 100 under
# jit. Yours:

# %% jupyter={"source_hidden": true}
# Table: what this version cancels
overflow = found["log(exp(x))"]
told = {
    True: "**100, as the FAQ says**: the two operations were cancelled, and nothing is left of them",
    False: "**inf, both ways**: the operations are still there. The FAQ describes an older XLA",
}
cancelling = ("(1 + x) - 1", "x / 7 * 7", "sqrt(x * x)", "log(exp(x))", "exp(x) / exp(x)")
moved = [f"`{what}`" for what in cancelling if not np.array_equal(*found[what][1:3], equal_nan=True)]
Markdown(f"""
| JAX {jax.__version__} | |
|---|---|
| `log(exp(100.))` under jit | {told[bool(overflow[2] == 100)]} |
| of the five that could be cancelled on paper, jit changes | {len(moved)}: {", ".join(moved) or "none"} |
""")

# %% jupyter={"source_hidden": true}
# Proof
# Each of the five is as its remaining operations say.
assert np.isinf(overflow[1]) and (overflow[2] == 100) == (not overflow[4])
if on_cpu:
    assert found["(1 + x) - 1"][3] == (0 if found["(1 + x) - 1"][4] else 401)
    assert found["x / 7 * 7"][3] == (1 if found["x / 7 * 7"][4] else 0)
    assert (found["sqrt(x * x)"][2] > 0) == ("sqrt" not in found["sqrt(x * x)"][4])
    assert np.isnan(found["exp(x) / exp(x)"][2]) == ("divide" in found["exp(x) / exp(x)"][4])

# %% [markdown]
# JAX 0.10 cancels exponentials, roots of squares and constants; 0.12 leaves them alone (a reciprocal is all that happens
# to its `x / 7 * 7`). So write `x`, not `log(exp(x))`.
#
# One more surprise hides in the division:

# %%
values = jnp.asarray(rng.uniform(1, 2, 4096).astype(np.float32))
in_numpy = np.asarray(values) / np.float32(3)
eager_differs = int((np.asarray(values / 3) != in_numpy).sum())
jit_differs = int((jax.jit(lambda x: x / 3)(values) != values / 3).sum())
by_array = int((np.asarray(values / jnp.full(4096, 3.0)) != in_numpy).sum())
print(f"x / 3 (of 4096):     eager is not NumPy in {eager_differs}, jit not eager in {jit_differs}")
print(f"x / [3, 3, 3, ...]:  eager is not NumPy in {by_array}")

# %% jupyter={"source_hidden": true}
# Proof
# For a scalar, eager JAX is not NumPy, and jit changes nothing.
if on_cpu:
    assert eager_differs > 1000 and jit_differs == by_array == 0

# %% [markdown]
# "Eager" is compiled as well, one operation at a time, and a division by a scalar is rewritten already (the reciprocal
# once, then products). **Eager is not the truth.** It is one more program.
#
# ## 7. Half precision: digits that you did not ask for
#
# A `bfloat16` has 8 binary digits. Many CPUs multiply it in `float32` and round; what others do comes below. If the
# next operation wants a `float32` anyway, as in `widened`, `(x * x).astype(float32)`, XLA may skip the rounding:
# **excess precision**. The exact square of an 8-digit number has up to 16 digits.

# %%
guess = None  # your number: of 4096 squares of bfloat16, how many does jit change? 0, 400 or 3,800?


# %%
def widened(x):
    return (x * x).astype(jnp.float32)


def chain(x):  # in half precision from the first operation to the last
    return x * x * x + x - x * x


rough = {name: jnp.asarray(rng.normal(size=4096), name) for name in ("bfloat16", "float16")}
in_jit, in_eager = jax.jit(widened)(rough["bfloat16"]), widened(rough["bfloat16"])
show_guess(guess, int((in_jit != in_eager).sum()))

# %% jupyter={"source_hidden": true}
# Table: both functions in both dtypes, as they stand, without excess precision, and without fusion
halves = [dtype for dtype in rough if joined[dtype] is not None]
changed = {
    (fn.__name__, dtype): [
        int((jax.jit(fn, compiler_options=options)(rough[dtype]) != fn(rough[dtype])).sum())
        for options in (None, NO_EXCESS, NO_FUSION)
    ]
    for fn in (widened, chain)
    for dtype in halves
}
rows = "\n".join(f"| `{fn}` | `{dtype}` | " + " | ".join(map(str, n)) + " |" for (fn, dtype), n in changed.items())
head = "| function | dtype | changed by jit, of 4096 | without excess precision | without fusion |\n"
head += "|---|---|:-:|:-:|:-:|\n"
display(Markdown(head + rows))

same = jnp.full(256, 1.0078125, jnp.bfloat16)


def sum_of_squares(x):
    return (x * x).sum(dtype=jnp.float32)


sums = [float(run(same)) for run in (sum_of_squares, jax.jit(sum_of_squares))]
print(f"sum of 256 squares of 1.0078125:  eager {sums[0]}, jit {sums[1]}, truth {256 * 1.0078125**2}")

# %% jupyter={"source_hidden": true}
# Proof
# Where the rounding is skipped, squares are exact; a chain changes where the processor has an FMA for its dtype.
exact_square = np.asarray(rough["bfloat16"], np.float64) ** 2
assert (changed["widened", "bfloat16"][0] > 0) == excess and changed["widened", "bfloat16"][1] == 0
if excess:
    assert (np.asarray(jax.jit(widened)(rough["bfloat16"]), np.float64) == exact_square).all()
if on_cpu:
    assert sums == [260.0, 260.015625 if excess else 260.0]
    assert [changed["chain", dtype][0] > 0 for dtype in halves] == [joined[dtype] for dtype in halves]
    assert not any(changed["chain", dtype][2] for dtype in halves)

# %% [markdown]
# Where the rounding is skipped, the compiled result is again the better one: the square fits into a `float32`, so it is
# exact. What about `chain`, which never leaves half precision? That depends on whether the processor calculates in half
# precision itself, or borrows the arithmetic of `float32`:

# %% jupyter={"source_hidden": true}
# Table: the chain on this machine
KINDS_OF_CHAIN = {
    True: "**{count} of 4096 change.** This machine takes a product into a sum without rounding it: the FMA of "
    "section 4, on shorter numbers. It goes away with the fusion",
    False: "**none changes.** This machine calculates in `float32`, and rounds after each operation, compiled or not",
    None: "**not here**: XLA cannot compile arithmetic in it for this processor",
}
counted = {dtype: changed.get(("chain", dtype), [0])[0] for dtype in rough}
rows = "\n".join(f"| `{d}` | {KINDS_OF_CHAIN[joined[d]].format(count=n)} |" for d, n in counted.items())
display(Markdown(f"| `chain` in | |\n|---|---|\n{rows}"))

# %% [markdown]
# So the same chain may be unchanged on one server and changed on the next, and a test in
# half precision must allow for the last digit of the *half* precision.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: sums, matrix products, and which tolerance a test needs.*

# %% [markdown]
# ## 8. Sums: the order is part of the answer
#
# Addition rounds, so the order of the additions matters. A million numbers, in six ways:

# %%
million = jnp.asarray(rng.uniform(0, 0.002, 1_000_000).astype(np.float32))
SUMS = {
    "`v.sum()`": lambda v: v.sum(),
    "`v.reshape(1000, 1000).sum()`": lambda v: v.reshape(1000, 1000).sum(),
    "`v.reshape(1000, 1000).sum(1).sum()`": lambda v: v.reshape(1000, 1000).sum(1).sum(),
    "`v.reshape(1000, 1000).sum(0).sum()`": lambda v: v.reshape(1000, 1000).sum(0).sum(),
    "`v @ ones`": lambda v: v @ jnp.ones_like(v),
    "one by one: `lax.scan`": lambda v: lax.scan(lambda s, x: (s + x, None), jnp.float32(0), v)[0],
}
results = {}
for way, fn in SUMS.items():
    results[way] = np.float32(fn(million)), np.float32(jax.jit(fn)(million))

# %% jupyter={"source_hidden": true}
# Table: the six sums
truth = np.asarray(million, np.float64).sum()
rows = "\n".join(
    f"| {way} | {eager:.5f} | {compiled:.5f} | {ulps(compiled, truth):,.1f} |"
    for way, (eager, compiled) in results.items()
)
head = f"| the truth is {truth:.5f} | eager | compiled | error of the compiled, ulps |\n|---|--:|--:|--:|\n"
display(Markdown(head + rows))
different = [len({np.float32(answers[which]) for answers in list(results.values())[:-1]}) for which in (0, 1)]
print(f"different results of the first five:  eager {different[0]}, compiled {different[1]}")

# %% jupyter={"source_hidden": true}
# Proof
# One by one is the same eager and compiled, and far worse than the library's sum.
in_line = results["one by one: `lax.scan`"]
assert in_line[0] == in_line[1] and ulps(in_line[1], truth) > 100 * ulps(results["`v.sum()`"][1], truth)
if on_cpu:
    assert different[0] >= 2

# %% [markdown]
# Nobody promises you an order. It depends on the shape (compiled, XLA looks through the `reshape`), on what the sum is
# fused with, on the number of cores and on the version. A library's sum goes by blocks and is good to a few ulps. One by
# one, a small number is added to a large one, and its last digits fall off.
#
# **Kahan's summation** catches those digits. It keeps a second number for what the last addition has lost:


# %%
def naive(values):
    return lax.scan(lambda total, x: (total + x, total + x), jnp.float32(0), values)[1]


def kahan(values):
    def step(carry, x):
        total, lost = carry
        x = x - lost
        grown = total + x
        lost = (grown - total) - x  # on paper, this is 0
        return (grown, lost), grown

    return lax.scan(step, (jnp.float32(0), jnp.float32(0)), values)[1]


tenths = jnp.full(100_000, 0.1, jnp.float32)

# %%
guess = None  # your number: a compiler sees "on paper, this is 0". What does jit(kahan) end with?

# %%
runs = {
    "naive": jax.jit(naive)(tenths),
    "jnp.cumsum": jax.jit(jnp.cumsum)(tenths),
    "Kahan": jax.jit(kahan)(tenths),
    "Kahan, with fast math": jax.jit(kahan, compiler_options=FAST_MATH)(tenths),
}
ends = {name: float(values[-1]) for name, values in runs.items()}
show_guess(guess, ends["Kahan"])

# %% jupyter={"source_hidden": true}
# Picture: the errors of the four
expected = np.cumsum(np.asarray(tenths, np.float64))
at = np.unique(np.geomspace(1, len(tenths), 200).astype(int)) - 1
fig, ax = plt.subplots(figsize=(8, 3.4))
styles = {"naive": ("C1", "-", 4), "jnp.cumsum": ("C4", "-", 2), "Kahan": ("C0", "-", 2)}
for name, values in runs.items():
    colour, line, width = styles.get(name, ("C6", ":", 2))
    error = np.maximum(ulps(values, expected)[at], 0.02)
    ax.plot(at + 1, error, line, color=colour, lw=width, label=f"{name}: {ends[name]:.3f}")
ax.axhline(0.5, color="#888888", lw=1, label="half an ulp: the best possible")
ax.set(xscale="log", yscale="log", xlabel="tenths added", ylabel="error, ulps", title="0.1 + 0.1 + 0.1 + ...")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Where Kahan ends, where the naive loop, and what fast math makes of Kahan.
assert ends["Kahan"] == 10000.0 and abs(ends["naive"] - 9998.557) < 1e-3
if fast_math:
    assert ends["Kahan, with fast math"] == ends["naive"]

# %% [markdown]
# XLA does not touch it. `(grown - total) - x` is 0 on paper, and you wrote it for the case that it is not: **by default
# the compiler respects that.**
#
# And here is the price of the post's 0.001. The dotted line is the same Kahan with fast math. The correction "is 0", so it
# is dropped, and what runs is the naive loop, digit for digit.
#
# ## 9. Matrices on other machines
#
# The largest change of all is made by hardware. The matrix unit of a GPU or TPU takes `float32` inputs and, by default,
# **multiplies them with fewer digits**: 10 behind the point on recent NVIDIA GPUs (TF32), 7 in one pass of a TPU
# (bfloat16); `float32` has 23. The argument for it is `precision`. What does it do here?

# %%
left, right = (jnp.asarray(rng.normal(size=(256, 256)).astype(np.float32)) for _ in range(2))
default = left @ right
changed = {
    name: int((jnp.matmul(left, right, precision=name) != default).sum())
    for name in ("bfloat16", "tensorfloat32", "high", "highest")
}
print(f"entries of 256 x 256 that differ from the default, on {jax.default_backend()}:")
print(changed)

# %% [markdown]
# (Where all are 0, the device multiplies in `float32`, whatever `precision` says.) You can see what others do without
# owning one: `lax.reduce_precision` rounds a `float32` to any number of digits. Both factors rounded to 10 digits should
# give a TF32 product. A bug report ([#14157](https://github.com/jax-ml/jax/issues/14157)) has the digits that an A100, an
# NVIDIA GPU, printed:


# %%
def rounded_to(digits, *arrays):
    return [lax.reduce_precision(array, exponent_bits=8, mantissa_bits=digits) for array in arrays]


reported = np.float32([[6.175251, 13.585552], [13.585552, 30.876255]])
ours = jnp.float32([[1.1111111, 2.2222222], [3.3333333, 4.4444444]])
(short,) = rounded_to(10, ours)
with jax.default_matmul_precision("highest"):
    print("A100, in the report:  ", *reported)
    print("here, 10 digits:      ", *np.asarray(short @ short.T))
    print("here, float32:        ", *np.asarray(ours @ ours.T))

# %% jupyter={"source_hidden": true}
# Proof
# The A100's digits are those of factors with 10 digits, and not those of float32.
with jax.default_matmul_precision("highest"):
    assert ulps(short @ short.T, reported).max() < 2 < 1000 < ulps(ours @ ours.T, reported).max()

# %% [markdown]
# The same digits. So this is how far off your `float32` products are elsewhere, if nobody says otherwise:


# %% jupyter={"source_hidden": true}
# Picture: errors of a matrix product, by machine (emulated here)
def passes(count):
    """A product from `count` bfloat16 products of the leading digits, as a TPU's `high` (3) does."""
    (high_l, high_r) = rounded_to(7, left, right)
    (low_l, low_r) = rounded_to(7, left - high_l, right - high_r)
    return high_l @ high_r + (high_l @ low_r + low_l @ high_r if count == 3 else 0)


exact = np.asarray(left, np.float64) @ np.asarray(right, np.float64)
size = np.abs(np.asarray(left, np.float64)) @ np.abs(np.asarray(right, np.float64))
with jax.default_matmul_precision("highest"):
    products = {
        "bfloat16: TPU, default": passes(1),
        "TF32: A100, H100, default": jnp.matmul(*rounded_to(10, left, right)),
        "3 passes of bfloat16: TPU, 'high'": passes(3),
        "float32: CPU; GPU, 'highest'": left @ right,
    }
relative = {name: np.sort((np.abs(np.asarray(p) - exact) / size).ravel()) for name, p in products.items()}

fig, ax = plt.subplots(figsize=(8, 2.6))
for y, (name, error) in enumerate(relative.items()):
    low, middle, high = error[[error.size // 100, error.size // 2, -1]]
    ax.plot([low, high], [y, y], lw=5, solid_capstyle="round", color=f"C{y}")
    ax.plot(middle, y, "o", color="white", ms=4)
ax.set_yticks(range(len(relative)), relative)
ax.set(xscale="log", xlabel="error, relative to the sum of |products|", ylim=(-0.6, 3.6))
ax.set_title("a product of 256 x 256, emulated")
ax.invert_yaxis()
ax.grid(axis="x")
ax.grid(axis="y", visible=False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Fewer digits, larger errors.
worst = {name: error[-1] for name, error in relative.items()}
ranked = list(worst.values())
assert ranked == sorted(ranked, reverse=True) and 1e-4 < ranked[0] < 2e-3 and ranked[-1] < 1e-6

# %% [markdown]
# (All but the last line are emulations; which device does what is from JAX's documentation of
# [`lax.Precision`](https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision). The dot is the median.) Whether that
# will do depends on what comes after: where differences are taken, it will not.
# `jax.default_matmul_precision("highest")` around your code, or `precision=` on a single product, gives the digits
# back. It is part of the cache's key (unit 05), so it costs a trace.

# %% jupyter={"source_hidden": true}
# Proof
# It costs a trace, and is written into the program.
traces = 0


@jax.jit
def product(a, b):
    global traces
    traces += 1
    return a @ b


product(left, right)
with jax.default_matmul_precision("highest"):
    product(left, right)
    asked = product.lower(left, right).as_text()
print("traces:", traces, "  in the program:", re.search(r"precision = \[.*?\]", asked)[0])
assert traces == 2 and "precision = [HIGHEST, HIGHEST]" in asked

# %% [markdown]
# ## 10. Which tolerance?
#
# A test of floats needs a tolerance. Too tight, and the next version of XLA breaks it. Too loose, and it passes
# everything. Do not guess: **measure versions that are right, plant some bugs, and look for the gap.** Here is `norm`
# from unit 09, in seven versions that are right and in eight with a bug.


# %% jupyter={"source_hidden": true}
# Helper: other ways to write norm
def transposed(X):
    return ((X.T - X.T.mean(1, keepdims=True)) / X.T.std(1, keepdims=True)).T


def by_products(X):
    weights = jnp.full(len(X), 1 / len(X))
    X = X - weights @ X
    return X / jnp.sqrt(weights @ (X * X))


def by_squares(X):
    return (X - X.mean(0)) / jnp.sqrt((X * X).mean(0) - X.mean(0) ** 2)


def with_epsilon(epsilon):
    return lambda X: (X - X.mean(0)) / jnp.sqrt(X.var(0) + epsilon)


# %%
def norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


RIGHT = {
    "eager": norm,
    "compiled": jax.jit(norm),
    "without fusion": jax.jit(norm, compiler_options=NO_FUSION),
    "rows reversed": jax.jit(lambda X: norm(X[::-1])[::-1]),
    "transposed": jax.jit(transposed),
    "means by products": jax.jit(by_products),
    "mean of squares": jax.jit(by_squares),
}

# %%
BUGS = {
    "ddof=1": lambda X: (X - X.mean(0)) / X.std(0, ddof=1),
    "a row forgotten": lambda X: (X - X[:-1].mean(0)) / X[:-1].std(0),
    "one std for all": lambda X: (X - X.mean(0)) / X.std(),
    "table in float16": lambda X: norm(*rounded_to(10, X)),  # its digits, on every processor
    "table in bfloat16": lambda X: norm(X.astype(jnp.bfloat16).astype(jnp.float32)),
    "std in float16": lambda X: (X - X.mean(0)) / rounded_to(10, X.std(0))[0],
    "epsilon of 1e-3": with_epsilon(1e-3),
    "epsilon of 1e-5": with_epsilon(1e-5),
}

# %% [markdown]
# How far is each of them from the truth? In the unit that rounding uses: eps, the ulp of 1, times the size of the
# numbers.

# %%
table = jnp.asarray(rng.normal(5, 2, size=(1000, 64)).astype(np.float32))
truth = norm(np.asarray(table, np.float64))
scale = 2.0**-23 * np.abs(truth).max()
with jax.default_matmul_precision("highest"):
    normed = {name: np.asarray(fn(table)) for name, fn in (RIGHT | BUGS).items()}
distances = {name: np.abs(values - truth).max() / scale for name, values in normed.items()}

# %% jupyter={"source_hidden": true}
# Picture: the largest error of each version
correct, bugs = ({name: distances[name] for name in group} for group in (RIGHT, BUGS))
fig, ax = plt.subplots(figsize=(8.5, 4.6))
for y, (name, distance) in enumerate(distances.items()):
    colour = "C0" if name in correct else "C1"
    ax.plot([0.3, distance], [y, y], color=colour, lw=1, alpha=0.4)
    ax.plot(distance, y, "o", color=colour)
ax.set_yticks(range(len(distances)), distances)
ax.axvline(100, color="C2")
ax.text(115, -0.9, "100 eps", color="C2")
ax.axvline(1e-3 * 2**23, color="#888888", ls="--")
ax.text(1.15e-3 * 2**23, -0.9, "1e-3 of the scale", color="#666666")
ax.set(xscale="log", xlim=(0.3, 1e6), ylim=(len(distances) - 0.4, -1.7))
ax.set_xlabel("largest error, in eps x scale")
ax.grid(axis="y", visible=False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# What is right stays below 30 eps; at 100 eps, one bug is missed.
caught = [name for name, distance in bugs.items() if distance > 100]
assert max(correct.values()) < 30 and set(bugs) - set(caught) == {"epsilon of 1e-5"}
assert bugs["ddof=1"] < 1e-3 * 2**23

# %% [markdown]
# Blue is right, orange has a bug. What would `np.allclose` say, as it comes, and loosened until it is green? And what
# does the one bug on the left do to a column that hardly varies?

# %%
strict = [name for name in RIGHT if np.allclose(normed[name], truth)]
loose = [name for name in BUGS if np.allclose(normed[name], truth, rtol=1e-3, atol=1e-3)]
print("of those that are right, np.allclose accepts:", strict or "none")
print("of the bugs, np.allclose with 1e-3 twice accepts:", loose)
tight = table.at[:, 0].mul(1e-3)
wrong = np.asarray(BUGS["epsilon of 1e-5"](tight))[:, 0]
found_now = np.abs(wrong - norm(np.asarray(tight, np.float64))[:, 0]).max() / scale
hidden = bugs["epsilon of 1e-5"]
print(f"epsilon of 1e-5: {hidden:.0f} eps in the table, {found_now:,.0f} in that column")

# %% jupyter={"source_hidden": true}
# Proof
# All right versions refused, a classic bug accepted, the hidden bug found by another input.
assert not strict and "ddof=1" in loose and found_now > 1000

# %% [markdown]
# - `np.allclose` as it comes compares each number with *its own* size. A normalised table has numbers near 0, made from
#   the difference of two fives, and they carry the errors of the fives. Not one right version passes.
# - Loosened, it takes the classic bug, `ddof=1`, for right.
# - Between what is right and the bugs that were caught the picture has a gap. It is in units of **eps times the size of
#   what was added**, not times the size of what came out. Any tolerance in the gap will do.
# - No tolerance in the gap finds the last bug: it needs *another input*, one where it matters.
#
# So compare with a `float64` truth; allow some tens of eps of the size of what went in; choose inputs that make bugs
# large; and **see your test fail once**. (The course's own `assert_allclose` allows 100 eps of the number and 8 eps of
# the largest one.)
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims, and what was measured above
answer = str(posted(one, milli))
fma_says = f"`a * b + c`: at most {worst_madd[1]:.1f} ulp with jit, {worst_madd[0]:,.0f} without"
claims = [
    ("x + y − x is 0.0010000467 un-jitted", "✓", f"{answer}, {ulps(float(answer), milli):.0f} ulps from y"),
    ("x + y − x is 0.001 with jit", "✗", f"{jax.jit(posted)(one, milli)!s}, as without"),
    ("XLA cancels x and −x", "✗", f"with one compiler option: {cancelled(one, milli)!s}"),
    ("un-jitted accumulates the errors", "it depends", fma_says if fma else "no difference on this machine"),
    ("jit(log(exp(100.))) is 100 (FAQ)", "✓" if overflow[2] == 100 else "✗", f"{overflow[2]!s} here"),
    ("cross(x, x) / cross(x, x) is 1, jit's NaN is a bug (#38602)", "✗", "0/0; the 1 is an error over itself"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# ## Keypoints
#
# - One ulp is the step between neighbouring floats. A rounding costs half of one.
# - Among unknown values XLA keeps the order of every `+` you wrote. It changes last digits in three ways: **FMA** (a
#   product and a sum, rounded once; off: without the pass `fusion`), **algebra** (`rsqrt`, reciprocals, a sum of copies;
#   the pass `algsimp`), and **excess precision** (half-precision roundings skipped; `xla_allow_excess_precision`).
# - FMA is mostly the better answer, and makes NaN where you counted on equal errors: write `(t-x)*(t+x)`.
# - Fast math returns the post's 0.001, and destroys Kahan's summation.
# - The order inside a sum is the library's. Matrix units drop digits by default: `precision="highest"`.
# - Eager is not the truth, NumPy neither. Ask `float64`.
# - A tolerance is eps times the size of what was added. Look for the gap, and see the test fail once.
#
# ## Your turn
#
# [Exercise 10](../exercises/10_when_jit_changes/when_jit_changes.ipynb): foretell what jit changes, count ulps, exorcise
# the NaN, build a laboratory, keep an account that loses no cent, add up a day of it many times faster than Python can, and
# judge forty products. 22 points.
