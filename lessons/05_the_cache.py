# %% [markdown]
# # 05 · The cache
#
# **You call a jitted function a thousand times. How often does JAX compile it, and what decides?**
#
# You will
#
# - say for any two calls whether the second one reuses the work of the first;
# - read the reason for a retrace from a log instead of guessing it;
# - cure the retraces that people really meet: a new function, a new shape, a new static value, a weak type,
#   another way to write the same call.
#
# About {duration}, in three stages (about {stage} for the first). You need unit 04: static and traced values, and what
# the type of a traced value is.

# %%
import time
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from autograder import benchmark, show_guess, trace_log

plt.style.use("autograder.course")


# %% [markdown]
# ## The same work, twenty times
#
# A much-copied blog post about `jit` compares these two loops. Both add 1 twenty times, then add `x`.


# %%
def add_one(i):
    return i + 1


def with_lambda(x):
    i = 0
    while i < 20:
        i = jax.jit(lambda v: add_one(v))(i)  # jit around a lambda, inside the loop
    return x + i


def with_name(x):
    i = 0
    while i < 20:
        i = jax.jit(add_one)(i)  # jit inside the loop too, but around a named function
    return x + i


# %% [markdown]
# The third is the one you would write on a good day:

# %%
add_one_jitted = jax.jit(add_one)


def hoisted(x):
    i = 0
    while i < 20:
        i = add_one_jitted(i)  # jit outside the loop
    return x + i


# %% [markdown]
# The post measured 203 ms for the first and 15.2 ms for the second: 13 times. How much is it on your machine,
# today? Type a number before you run on. (`trace_log(add_one)` counts the traces of `add_one` while its block runs.)

# %%
guess = None  # your number: how many times slower is with_lambda than with_name?

# %%
answers = []


def race(loop):
    """Traces of add_one in the first run of a loop and in the second, and a later run's seconds."""
    jax.clear_caches()  # everybody starts from nothing
    traces = []
    for _ in range(2):
        with trace_log(add_one) as log:
            answers.append(loop(10))
        traces.append(log.traces)
    return *traces, min(benchmark(loop, 10, rounds=3).rounds)


loops = {loop.__name__: race(loop) for loop in (with_lambda, with_name, hoisted)}
slow, named = loops["with_lambda"][2], loops["with_name"][2]
show_guess(guess, slow / named, "x")

# %% jupyter={"source_hidden": true}
# Picture: the three loops, with their times and their traces
fig, ax = plt.subplots(figsize=(7, 2.3))
for row, (first, second, seconds) in enumerate(loops.values()):
    colour, side, ink = ("C1", "right", "white") if second else ("C0", "left", "black")
    ax.barh(row, seconds * 1e3, color=colour)
    label = f" {seconds * 1e3:.3g} ms;  traces: {first} in the first run, {second} in the second "
    ax.text(seconds * 1e3, row, label, va="center", ha=side, color=ink)
ax.set(yticks=range(3), yticklabels=loops, xscale="log", xlim=(0.05, slow * 1e3))
ax.set(xlabel="a later run (ms, log scale), the best of three rounds", title="Twenty additions")
ax.grid(axis="x")
ax.grid(visible=False, axis="y")
ax.invert_yaxis()
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The three loops agree; the lambda is traced 20 times in each run, the named function once in all.
assert answers == [30] * 6
assert [traces for *traces, _ in loops.values()] == [[20, 20], [1, 0], [1, 0]]

# %% [markdown]
# Two things to see.
#
# `with_name` calls `jax.jit` twenty times as well, and it does not matter: **`jit` remembers by function
# object, not by `jit` call**. `def` at module level makes one object. A `lambda` in a loop makes twenty, all
# alike and all new.
#
# And the gap has grown since the post: finding a cached function has become cheap, while tracing and compiling
# has not. One needless compile, here:

# %%
compiled, found = f"**{slow / 20 * 1e3:.0f} ms**", f"**{named / 20 * 1e6:.0f} µs**"
Markdown(f"{compiled} for a call that traces and compiles, {found} for a call that is found.")

# %% [markdown]
# ## The key
#
# A cache is a dictionary. What matters is its key, and this one has five parts:
#
# | part of the key | the same key | another key |
# |---|---|---|
# | the function object | `jit(f)` and `jit(f)` again | two equal lambdas |
# | how the call is packed: positions, keywords, and containers ([pytrees](00_before_you_start.ipynb#The-words)) | `{"a": x, "b": y}` and `{"b": y, "a": x}` | a list and a tuple; `f(x)` and `f(x=x)` |
# | the type of every array | `2.0` and `-7.5`; NumPy and JAX arrays | another shape, another dtype, a weak type |
# | every static argument | `n=3` and `n=3` | `n=3` and `n=4`; `n=1` and `n=True` |
# | JAX's settings that a trace depends on | with `jax.debug_nans` and without | with `jax.enable_x64` and without |
#
# The values in the arrays are not part of it. They cannot be: the trace has never seen them. "Type" is what
# `jax.typeof` answers, and one of its answers has a tilde:

# %%
TEXTS = "1.0; np.float64(1.0); jnp.float32(1.0); np.ones(3); jnp.ones(3); 1; np.int64(1); True"
for text in TEXTS.split("; "):
    print(f"{text:18}{jax.typeof(eval(text))}")

# %% [markdown]
# The tilde marks a **weak type** (unit 04): a number that came from Python and carries no dtype of its own, so that
# `x + 1.0` leaves a `float16` array a `float16` array. A weak `float32[]` and a plain (**strong**) `float32[]` are two
# types, so they are two traces. (`float64` is read as `float32` unless 64 bits are switched on, so NumPy's default
# dtype costs no trace.)
#
# The last part of the key surprises whoever switches a setting on for one call. Below, a function is called three times
# with the same array: without the setting, with it, and without it again. (`debug_nans` raises an error where a NaN
# comes up, `enable_x64` allows 64 bits, `default_matmul_precision` says how exactly products are computed,
# `numpy_dtype_promotion="strict"` refuses to mix dtypes, and `set_mesh` names the devices of a *mesh*, unit 13.)

# %%
mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
SETTINGS = {"debug_nans": True, "enable_x64": True, "default_matmul_precision": "highest"}
SETTINGS |= {"numpy_dtype_promotion": "strict", "set_mesh": mesh}


def traces_around(setting, value):
    ones, doubled = np.ones(3, np.float32), jax.jit(lambda x: x * 2)
    with trace_log(doubled) as log:
        doubled(ones)
        with setting(value):
            doubled(ones)
        doubled(ones)
    return log.traces


by_setting = {name: traces_around(getattr(jax, name), v) for name, v in SETTINGS.items()}
for name, traces in by_setting.items():
    print(f"jax.{name:26}{traces} trace{'s' * (traces > 1)}")

# %% jupyter={"source_hidden": true}
# Proof
# Four of the five settings are part of the key, and jax.debug_nans is not.
assert by_setting.pop("debug_nans") == 1 and set(by_setting.values()) == {2} and len(by_setting) == 4

# %% [markdown]
# Here is a value on the edge. It is a JAX array, made by JAX, of dtype `float32`. With which of the two does it share a
# trace?

# %%
edge = jnp.array(1.0)
guess = None  # your text: "1.0" or "jnp.float32(1.0)"

# %% [markdown]
# We take a fresh function, call it with the one value and then with the other, and count how often its body ran.
# (`eval_shape` traces like a call and compiles nothing, so it is quick. It uses the same cache as a call does: a later
# section checks that.)


# %%
def share_a_trace(first, second):
    runs = []

    def body(x):
        runs.append(1)
        return x

    jitted = jax.jit(body)
    jitted.eval_shape(first)
    jitted.eval_shape(second)
    return len(runs) == 1


partners = [text for text in ("1.0", "jnp.float32(1.0)") if share_a_trace(edge, eval(text))]
show_guess(guess, partners[0])

# %% [markdown]
# And now all pairs of 18 values at once:

# %%
TEXTS = """1; 7; np.int64(1); True; 1.0; -2.5; jnp.array(1.0); np.float64(1.0); jnp.float32(1.0);
np.ones(3); jnp.ones(3); jnp.ones(4); jnp.ones((1, 3)); jnp.ones(3, 'float16');
[1.0, 2.0]; (1.0, 2.0); {'a': 1.0, 'b': 2.0}; {'b': 2.0, 'a': 1.0}"""
KINDS = {text.strip(): eval(text.strip()) for text in TEXTS.split(";")}

traced = np.array([[not share_a_trace(a, b) for b in KINDS.values()] for a in KINDS.values()])

# %% jupyter={"source_hidden": true}
# Picture: which pairs share a trace
fig, ax = plt.subplots(figsize=(9, 6))
ax.imshow(traced, cmap=plt.matplotlib.colors.ListedColormap(["#0072B2", "#F3DFC8"]))
ax.set(xticks=range(len(KINDS)), yticks=range(len(KINDS)), yticklabels=KINDS)
ax.set_xticklabels(KINDS, rotation=60, ha="left", rotation_mode="anchor")
for row, value in enumerate(KINDS.values()):
    types = jax.tree.map(lambda leaf: str(jax.typeof(leaf)), value)
    ax.text(len(KINDS), row, str(types).replace("'", ""), va="center", color="C0")
ax.xaxis.tick_top()
ax.set_xticks(np.arange(len(KINDS)) - 0.5, minor=True)
ax.set_yticks(np.arange(len(KINDS)) - 0.5, minor=True)
ax.grid(visible=False)
ax.grid(which="minor", color="white", linewidth=1.5)
ax.tick_params(which="both", length=0)
ax.set_ylabel("first call")
ax.set_xlabel("second call: blue reuses the trace, sand traces again")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# jnp.array(1.0) is weak; a key has no order and equals itself.
names = list(KINDS)
assert partners == ["1.0"]
assert [name for name in partners if not traced[names.index("jnp.array(1.0)"), names.index(name)]] == ["1.0"]
assert traced[names.index("jnp.array(1.0)"), names.index("jnp.float32(1.0)")]
assert (traced == traced.T).all() and not traced.diagonal().any()

# %% [markdown]
# Blue blocks are the families that share one trace; the type that they share stands on the right. Look for the
# surprises:
#
# - `1` and `True` are equal in Python, and two traces here.
# - `1.0` and `np.float64(1.0)` are both Python floats by inheritance, and two traces here.
# - `jnp.array(1.0)` sides with Python's `1.0`: it took its type from a Python number and stayed weak.
#   `jnp.array(1.0, dtype=jnp.float32)` or `jnp.float32(1.0)` is strong.
# - Shape `(3,)` and shape `(1, 3)` hold the same three numbers. For a compiler they are strangers.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: the reason for a trace, and the price of static arguments.*

# %% [markdown]
# ## Ask for the reason
#
# `trace_log` follows a function. `log.call(f, …)` makes a call and writes down what happened; `log.traces` and
# `log.hits` count, and `log.reasons` lists why it traced.


# %%
@jax.jit
def scale(x, factor=2.0):
    return x * factor


x = jnp.ones(3)
with trace_log(scale) as log:
    log.call(scale, x, 2.0)
    log.call(scale, x, 5.0)  # another value
    log.call(scale, np.ones(3), 5.0)  # NumPy, float64
    log.call(scale, jnp.ones(4), 5.0)  # another shape
    log.call(scale, x, jnp.float32(5.0))  # a strong scalar
    log.call(scale, x, 5)  # an int
    log.call(scale, x)  # the default, not passed
    log.call(scale, x, factor=2.0)  # the same number, by keyword
    log.call(scale, x=x, factor=2.0)  # everything by keyword
log

# %% jupyter={"source_hidden": true}
# Proof
# Seven of the nine calls trace, two are found.
assert (log.traces, log.hits) == (7, 2)

# %% [markdown]
# The last three rows compute `x * 2.0` like the first row does. They are three more traces, because
# the key holds the call **as written**: positions and keywords are packed differently, and a default that is
# not passed is not packed at all. In a library, choose one way to write a call and keep to it.
#
# JAX has a log of its own, `jax.explain_cache_misses`. It writes warnings; a small helper collects them as texts.

# %% jupyter={"source_hidden": true}
# Helper: misses_explained() as messages collects what JAX says of cache misses
import contextlib
import logging


@contextlib.contextmanager
def misses_explained():
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("jax._src.interpreters.partial_eval")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with jax.explain_cache_misses(True):
            yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


# %%
@jax.jit(static_argnames="n")
def power(x, n):
    return x**n


with misses_explained() as messages:
    power(jnp.ones(3), n=2)
    power(jnp.ones(4), n=2)  # a new shape
    power(jnp.ones(4), n=3)  # a new static value
print("\n\n".join(message for message in messages if " power " in message))

# %% [markdown]
# It compares with the closest key it knows. Read the last message with care: only `n` changed in that call.
# On some versions of JAX the message names `n`, on others it blames the shape of `x`. Take any such log as a
# hint, and confirm it: hold that one argument still and count again.
#
# ## The loop that compiles twice
#
# Ten steps with a jitted function that keeps a running mean, and every *batch* (a piece of the data) has one shape and
# one dtype:
#
# ```python
# mean = 0.0
# for batch in batches:
#     mean = running_mean(mean, batch, 0.1)
# ```
#
# Yet the function is traced twice, in the first step and in the second. Which of its three arguments is to blame?


# %%
@jax.jit
def running_mean(mean, batch, rate):
    return mean + rate * (batch.mean() - mean)


guess = None  # your text: "mean", "batch" or "rate"

# %%
batches = np.random.default_rng(0).normal(size=(10, 32)).astype(np.float32)
types, typeof = [], jax.typeof
with trace_log(running_mean) as log:
    mean = 0.0
    for batch in batches:
        types.append({"mean": typeof(mean), "batch": typeof(batch), "rate": typeof(0.1)})
        mean = log.call(running_mean, mean, batch, 0.1)
print("\n".join(log.reasons))
changed = [name for name in types[0] if types[0][name] != types[1][name]]
show_guess(guess, changed[0])

# %% jupyter={"source_hidden": true}
# Proof
# Two traces and eight hits, and one argument alone changed its type, once.
assert log.traces == 2 and log.hits == 8
assert changed == ["mean"] and all(later == types[1] for later in types[2:])

# %% [markdown]
# `mean` goes in as a Python `0.0` and comes out as an array that met a `float32` batch: weak once, strong ever
# after. Every Python loop that starts its state with a Python number and then mixes an array into it compiles twice,
# and a big model takes long to compile. Start the state with the type it will have: `jnp.float32(0)` or
# `jnp.zeros(())`.
#
# `rate` is a Python number as well and costs nothing, because it is weak **every** time. It is the change that
# costs. So here `mean` starts strong, and `rate` may have another value in each step:

# %%
running_mean.clear_cache()
with trace_log(running_mean) as log:
    mean = np.float32(0)
    for step, batch in enumerate(batches):
        mean = running_mean(mean, batch, 0.1 / (1 + step))
print("traces:", log.traces)

# %% jupyter={"source_hidden": true}
# Proof
# A state that starts with its type is traced once.
assert log.traces == 1

# %% [markdown]
# ## Static arguments: one compile a value
#
# An older post speeds up a Python loop by jitting its body and making the first argument static. Here it is, as
# written there:


# %%
def multiply(x, i):
    return x * i


multiply_jit = jax.jit(multiply, static_argnums=0)


def multiply_n_times(x, n):
    count = 0
    res = 1
    while count < n:
        res = multiply_jit(x, res)
        count += 1
    return res


def plain_multiply_n_times(x, n):
    res = 1
    for _ in range(n):
        res = x * res
    return res


# %% [markdown]
# First its time, beside plain Python:

# %%
compiled, plain = benchmark(multiply_n_times, 2, 5), benchmark(plain_multiply_n_times, 2, 5)
print(f"as the post has it, warm: {compiled.median * 1e6:.0f} µs (the post: 236 µs)")
print(f"in plain Python:          {plain.median * 1e6:.1f} µs")

# %% [markdown]
# Then the price of ten new values of `x`, and an array for the static `x`:


# %%
def ten_new_values(jitted):
    with trace_log(multiply) as log:
        start = time.perf_counter()
        for x in range(3, 13):
            jitted(x, 1).block_until_ready()
    return log.traces, 1e3 * (time.perf_counter() - start)


static = ten_new_values(multiply_jit)
jax.clear_caches()
traced = ten_new_values(jax.jit(multiply))
print("ten values, x static:     {} traces, {:.0f} ms".format(*static))
print("ten values, x not static: {} trace, {:.0f} ms".format(*traced))
try:
    multiply_jit(jnp.array(2), 1)
except ValueError as error:
    refused = str(error).split(".")[0]
    print(f"an array for a static x:  {refused}")

# %% jupyter={"source_hidden": true}
# Proof
# The loops multiply five times; ten static values are ten traces, ten traced ones one; an array is refused.
assert multiply_n_times(2, 5) == plain_multiply_n_times(2, 5) == 32
assert static[0] == 10 and traced[0] == 1 and "static arguments are not supported" in refused

# %% [markdown]
# Nothing in the body needs `x` to be static, so ten values cost ten compiles and gain nothing, and arrays are shut
# out. And one multiplication is too small a body to jit at all: calling a compiled function costs more than the
# multiplication.
#
# The post's rule is right all the same: **make an argument static only if it takes few values**. Add the
# other half: and only if the trace needs its value, for a shape, a Python `if`, or a choice by name.
#
# A static value is looked up in a dictionary, so it must be hashable. A list is not, a tuple is:


# %%
@jax.jit(static_argnames="sizes")
def pick(x, sizes):
    return x[: sum(sizes)]


try:
    pick(jnp.ones(9), [2, 3])
except ValueError as error:
    print(f"{type(error).__name__}: {error}")
print("\na tuple:", pick(jnp.ones(9), (2, 3)))

# %% jupyter={"source_hidden": true}
# Proof
# A tuple is hashable.
assert pick(jnp.ones(9), (2, 3)).shape == (5,)

# %% [markdown]
# And equal things must say that they are equal. Two classes for a configuration:


# %%
class Plain:  # compared by identity, as objects are
    def __init__(self, width):
        self.width = width


@dataclass(frozen=True)
class Frozen:  # compared and hashed by its fields
    width: int


def configured(x, config):
    return x


def traces_for(*values):
    jitted = jax.jit(configured, static_argnames="config")
    jitted.clear_cache()
    with trace_log(configured) as log:
        for value in values:
            jitted(1.0, config=value)
    return log.traces


# %%
counts = {
    "`Plain(3)`, made anew for each of 4 calls": traces_for(*[Plain(3) for _ in range(4)]),
    "`Frozen(3)`, made anew for each of 4 calls": traces_for(*[Frozen(3) for _ in range(4)]),
    "`1`, `1.0`, `True`: equal, and of one hash": traces_for(1, 1.0, True),
}
rows = "\n".join(f"| {values} | {traces} |" for values, traces in counts.items())
Markdown(f"| static argument | traces |\n|---|---|\n{rows}")

# %% jupyter={"source_hidden": true}
# Proof
# A frozen dataclass is found again, and the type of a static value is part of the key as well.
assert list(counts.values()) == [4, 1, 3]

# %% [markdown]
# The frozen dataclass is found again. The last row shows that the *type* of a static value belongs to the key as well.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: two sentences of the documentation, two caches, and data of many
# shapes.*

# %% [markdown]
# ## Docs court
#
# Where does `functools.partial` stand: with the lambda or with the named function? JAX's own documentation
# gives both answers.
#
# > "JAX has built-in support for `functools.partial` objects", it "unwraps them and indexes the tracing cache
# > using the underlying function's `id`". (*Debugging slow JAX tracing and XLA compilation*, reviewed June 2026)
#
# > "freshly-created lambdas and `partial` objects [...] look like new functions every time, and recompile every
# > time". (*[Just-in-time compilation](https://docs.jax.dev/en/latest/201/jit.html)*, reviewed July 2026)
#
# One of them is wrong. Do not look it up: measure it.


# %%
def times(a, x):
    return a * x


guess = None  # your number, 1 or 5: traces in five rounds of jax.jit(partial(times, 2.0))(x)


# %%
def five_rounds(code):
    """Traces of `times` while this line of code runs five times."""
    jax.clear_caches()
    with trace_log(times) as log:
        for _ in range(5):
            exec(code)
    return log.traces


show_guess(guess, five_rounds("jax.jit(partial(times, 2.0))(x)"), "traces")

# %% [markdown]
# It depends on what is made anew in each round. Seven ways to write the same product:


# %%
class Model:
    def forward(self, x):
        return times(2.0, x)


model, kept_partial = Model(), partial(times, 2.0)
kept_method = jax.jit(model.forward)
apply = jax.jit(lambda function, x: function(x))
LINES = """jax.jit(lambda x: times(2.0, x))(x)
jax.jit(partial(times, 2.0))(x)
jax.jit(kept_partial)(x)
apply(jax.tree_util.Partial(times, 2.0), x)
jax.jit(model.forward)(x)
kept_method(x)
jax.jit(times)(2.0, x)"""
verdict = {code: five_rounds(code) for code in LINES.splitlines()}
rows = "\n".join(f"| `{code}` | {traces} |" for code, traces in verdict.items())
Markdown(f"| five rounds of | traces |\n|---|---|\n{rows}")

# %% jupyter={"source_hidden": true}
# Proof
# A new lambda, a new partial and a new bound method are traced in every round, what is kept is traced once.
assert list(verdict.values()) == [5, 5, 1, 1, 5, 1, 1]

# %% [markdown]
# The second quotation holds. A new `partial` is a new object, and so is `model.forward`: Python makes a
# new bound method each time you write the dot. Keep the object, and the trace is kept. If the bound value is data,
# pass it as an argument, or pass the whole thing as a `jax.tree_util.Partial`, whose bound values are
# then arguments like all others.
#
# ## Two caches
#
# So far "cached" meant: the body did not run. A call does two expensive things, though, **trace** and **compile**,
# and each has its own cache. The table shows for nine uses of one function `f`, in this order, which of the two they
# had to do. (`donate_argnums` lets the result take over the memory of an argument, unit 11; `compiler_options` are
# switches of XLA.)


# %%
def f(x):
    return jnp.tanh(x) * 2


USES = """jax.jit(f)(x)
jax.jit(f)(x)
jax.jit(f)(np.ones(3, np.float32))
jax.make_jaxpr(f)(x)
jax.eval_shape(f, x)
jax.jit(f).lower(x)
jax.jit(f, donate_argnums=0)(x)
jax.jit(f, compiler_options={"xla_cpu_enable_fast_math": True})(x)
jax.jit(f).clear_cache(); jax.jit(f)(x)""".splitlines()
done = []
for code in USES:
    x = jnp.ones(3)  # made before we count
    with trace_log(f) as log:
        exec(code)
    done.append((log.traces, log.compiles))

# %% jupyter={"source_hidden": true}
# Table: the nine uses
rows = "\n".join(f"| `{code}` | {traces} | {compiles} |" for code, (traces, compiles) in zip(USES, done, strict=True))
Markdown(f"| use | traces | compiles |\n|---|---|---|\n{rows}")

# %% jupyter={"source_hidden": true}
# Proof
# One trace serves all uses until the cache is cleared; the compiler's options compile again.
assert done == [(1, 1), (0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 1), (0, 1), (1, 1)]

# %% [markdown]
# `jit`, `make_jaxpr`, `eval_shape` and `lower` share one trace cache. Options that only the compiler sees (donation,
# switches) reuse the trace and compile again.
#
# That has a consequence for an old trick. A trace freezes the globals that it reads. Jitting again looks like a
# fresh start, and is none:

# %%
offset = 0.0


def shift(x):
    return x + offset


first = jax.jit(shift)
seen = {"offset is 0, first(3.0)": first(3.0)}
offset = 10.0
seen["offset is 10, first(4.0)"] = first(4.0)
seen["jitted again, jax.jit(shift)(4.0)"] = jax.jit(shift)(4.0)  # same function object, same trace
seen["a new shape, first(jnp.array([4.0]))"] = first(jnp.array([4.0]))  # a new trace
first.clear_cache()
seen["after clear_cache, first(4.0)"] = first(4.0)
for call, answer in seen.items():
    print(f"{call:38}{answer}")

# %% jupyter={"source_hidden": true}
# Proof
# Jitting again keeps the old offset; a new shape or an empty cache reads the new one.
assert [float(np.ravel(answer)[0]) for answer in seen.values()] == [3, 4, 4, 14, 14]

# %% [markdown]
# The cure is not `clear_cache`. It is to pass `offset` as an argument.
#
# ## Ragged data
#
# Sentences, molecules, the last piece of data that is cut into batches: their shapes differ, and each shape is a
# compile ("if your batch size changes, it compiles again", an older post notes, and leaves it there). The remedy is a
# **bucket**: pad to one of a few sizes, and tell the function how much is real. It is a trade. Few sizes waste
# arithmetic on padding, many sizes waste compiles. Here are 16 arrays of 20 to 1000 numbers, and five ways to choose
# the size to which a length is padded:

# %%
rng = np.random.default_rng(5)
lengths = np.exp(rng.uniform(np.log(20), np.log(1000), 16)).astype(int)


def next_power(base, length):
    size = 64
    while size < length:
        size *= base
    return size


STRATEGIES = {
    "exact": lambda n: n,
    "multiple of 128": lambda n: -(-n // 128) * 128,
    "power of 2": lambda n: next_power(2, n),
    "power of 4": lambda n: next_power(4, n),
    "one size": lambda n: 1024,
}

# %% [markdown]
# The function gets the padded array and its true length, and masks what is not real. A folded helper runs all 16 calls
# from an empty cache.


# %%
def masked_sum(x, length):
    return jnp.where(jnp.arange(x.size) < length, jnp.exp(x), 0).sum()


# %% jupyter={"source_hidden": true}
# Helper: run(size_of) -> traces, share of padding, seconds of all 16 calls
def run(size_of, pad=np.pad):
    """Traces, share of padding, and seconds of all calls from an empty cache: the better of two runs."""
    seconds = []
    for _ in range(2):
        jax.clear_caches()
        total, start = jax.jit(masked_sum), time.perf_counter()
        with trace_log(masked_sum) as log:
            for n in lengths.tolist():
                total(pad(np.zeros(n, np.float32), (0, size_of(n) - n)), n).block_until_ready()
        seconds.append(time.perf_counter() - start)
    padding = 1 - lengths.sum() / sum(size_of(n) for n in lengths.tolist())
    return log.traces, padding, min(seconds)


# %%
outcome = {name: run(size_of) for name, size_of in STRATEGIES.items()}

# %% jupyter={"source_hidden": true}
# Picture: compiles against padding
fig, ax = plt.subplots(figsize=(7, 3.8))
for name, (traces, padding, seconds) in outcome.items():
    ax.plot(traces, 100 * padding, "o", color="C1" if name == "power of 2" else "C0")
    place = (8, -14) if name in ("multiple of 128", "exact") else (8, 5)
    ax.annotate(f"{name}, {seconds:.2g} s", (traces, 100 * padding), xytext=place, textcoords="offset points")
ax.set(xlabel="traces for 16 lengths", ylabel="padding in % of the work", xlim=(0, 19), ylim=(-9, 88))
ax.set_xticks(range(0, 20, 3))
ax.set_title("Compiles against padding (and seconds for all, compiles included)")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Exact sizes trace once for each length, one size once in all.
assert outcome["exact"][0] == len(set(lengths.tolist())) and outcome["one size"][0] == 1

# %% [markdown]
# Doubling sizes are the usual choice: the number of sizes grows with the logarithm of the longest length, and
# a length of more than 32 (half the smallest size) is at most doubled. One size for all has the fewest traces. What its
# padding costs depends on the work: if the work grows with the square of the length, a lot. You will measure that in the
# exercise.
#
# Note how the true length enters: as a traced number, and the mask is made from it inside. A static length would undo it
# all. And there is a second way to undo it all, which no trace count of *your* function shows:

# %%
with_np, with_jnp = (run(STRATEGIES["power of 2"], pad) for pad in (np.pad, jnp.pad))
for name, (traces, _, seconds) in (("np.pad", with_np), ("jnp.pad", with_jnp)):
    print(f"padded with {name:8} {traces} traces of masked_sum, {seconds:.2f} s for all 16 calls")

# %% jupyter={"source_hidden": true}
# Proof
# The traces of masked_sum do not tell the two apart.
assert with_np[0] == with_jnp[0] == outcome["power of 2"][0]

# %% [markdown]
# `jnp.pad`, called outside `jit`, is itself a jitted function with a cache keyed by shape. Every length compiles it
# anew. The same holds for `x[:n]` and `jnp.concatenate` on JAX arrays. Cut and pad raggedly shaped data with
# NumPy, before it reaches JAX.
#
# ## A seat belt
#
# You have removed the last retrace. How do you keep it removed? `jax.no_tracing(True)` turns any further trace into
# an error. Warm up outside, then switch it on. Here 70 rows come in batches of 32:


# %%
@jax.jit
def train_step(w, x, y):
    return w - 0.1 * jax.grad(lambda w: ((x @ w - y) ** 2).mean())(w)


xs, ys = rng.normal(size=(70, 3)).astype(np.float32), np.ones(70, np.float32)
w = train_step(np.zeros(3, np.float32), xs[:32], ys[:32])
w = train_step(w, xs[:32], ys[:32])  # warm with a JAX array, too
try:
    with jax.no_tracing(True):
        for start in range(0, 70, 32):
            w = train_step(w, xs[start : start + 32], ys[start : start + 32])
except RuntimeError as error:
    print(f"rows {start} to {min(start + 32, 70)}: {str(error).split(' at ')[0]}")

# %% jupyter={"source_hidden": true}
# Proof
# Of 70 rows, the last batch has 6 and is refused.
assert start == 64

# %% [markdown]
# `no_tracing` is strict. It objects as soon as a call is not found in JAX's first, quick look-up of compiled programs
# (which tells NumPy from JAX arrays), even if the trace is cached. NumPy in the warm-up and a JAX array later is such a
# case, which is why the warm-up above has two calls:


# %%
def double(x):
    return x * 2


doubled, objected = jax.jit(double), False
on_device = jax.device_put(np.ones(3, np.float32))
doubled(np.ones(3, np.float32))  # warm with NumPy
with trace_log(double) as log:
    try:
        with jax.no_tracing(True):
            doubled(on_device)
    except RuntimeError:
        objected = True
    jax.jit(lambda x: doubled(x)).eval_shape(on_device)  # another trace finds the one of double
print(f"no_tracing objected: {objected}; traces that were really needed: {log.traces}")

# %% jupyter={"source_hidden": true}
# Proof
# no_tracing refuses a call whose trace is cached.
assert objected and log.traces == 0

# %% [markdown]
# ## Keypoints
#
# - One trace serves one key: the function object, how the call is packed, the type of each array, each static
#   value, and JAX's own settings.
# - Values never retrace. Shapes, dtypes, weak types, keywords, containers and static values do.
# - `lambda`, `functools.partial`, a nested `def` and `model.method` are new objects each time they are written.
#   Make them once.
# - Static: only what the trace must know, only with few values, hashable, compared by content.
# - Start a loop's state with the type that it will keep.
# - Pad ragged data to doubling sizes with NumPy; pass the true length as a traced number.
# - Count (`trace_log`), ask why (`log.reasons`), then lock it (`jax.no_tracing`).
#
# ## Your turn
#
# [Exercise 05: the cache](../exercises/05_the_cache/the_cache.ipynb). You predict twelve call sequences, cure a loop and
# a training run, bucket ragged data, and write the cache key yourself. Then your `minijit` learns to remember: it traces
# once for each signature, and says why when it traces again. 24 points.
