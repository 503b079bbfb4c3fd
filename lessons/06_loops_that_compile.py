# %% [markdown]
# # 06 · Loops that compile
#
# **Ten lines of Python with two loops keep the compiler busy for minutes. What is it reading all that time?**
#
# You will
#
# - turn a nested loop into array operations where nothing has to wait, and into a loop that stays a loop where it must;
# - say from the way a loop is written whether the program holds one body or a thousand, how often it will be traced,
#   and whether it has a gradient;
# - know when a branch is a branch, and when both sides run.
#
# About {duration}, in three stages (about {stage} for the first). You need units 02 (jaxprs) and 04 (static and traced).

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown
from jax import lax

from autograder import benchmark, show_guess, show_hlo, show_jaxpr, trace_log

plt.style.use("autograder.course")


# %% jupyter={"source_hidden": true}
# Helper: fastest and best_call, the best of several times; outcome, a call's result or error
def outcome(fn, *args):
    """What fn(*args) returns, or the class of its error."""
    try:
        return fn(*args)
    except Exception as error:
        return type(error).__name__


def fastest(timing):
    """The best round: other programs run on this machine too, and they only ever make a round longer."""
    return min(timing.rounds)


def best_call(fn, *args, calls=9, clock=time.perf_counter):
    """The best of some calls. (`time.process_time` adds up what several cores do at the same time.)"""
    spent = []
    for _ in range(calls):
        start = clock()
        fn(*args).block_until_ready()
        spent.append(clock() - start)
    return min(spent)


# %% [markdown]
# ## Two loops
#
# A question on Stack Overflow. Column by column, each cell becomes the sum of three neighbours in the column before,
# weighted by `w`. The grid has 64 rows and 32 columns. Jitted, "the compile time is very long", and the author asks
# whether JAX has something better. (`a = a.at[i, j].set(z)` is JAX's form of `a[i, j] = z`: a JAX array never changes,
# so it makes a new one.)


# %%
def forward(w):
    height, width = w.shape
    a = jnp.zeros((height, width + 1))
    for i in range(height):
        a = a.at[i, 0].add(1.0)
    for j in range(width):
        for i in range(1, height - 1):
            z = a[i - 1, j] * w[i - 1, j] + a[i, j] * w[i, j] + a[i + 1, j] * w[i + 1, j]
            a = a.at[i, j + 1].set(z)
    return a


# %% [markdown]
# A Python loop runs while JAX traces, and each round writes its equations into the jaxpr. How many equations does the
# compiler get to read for the 64 x 32 grid? Type a number, then run on.

# %%
guess = None  # your number of equations

# %% [markdown]
# We need not trace the large grid. Three small ones give the law, and a fourth one checks it.


# %%
def equations(height, width):
    return show_jaxpr(forward, jnp.ones((height, width))).equations


# two more columns of 6 inner cells; two more rows; what is left
per_cell = (equations(8, 4) - equations(8, 2)) // (2 * 6)
per_row = (equations(10, 2) - equations(8, 2) - per_cell * 2 * 2) // 2
rest = equations(8, 2) - per_cell * 6 * 2 - per_row * 8


def law(height, width):
    return per_cell * (height - 2) * width + per_row * height + rest


print(f"{per_cell} equations for each inner cell, {per_row} for each row, and {rest} more")
show_guess(guess, law(64, 32), "equations")

# %% jupyter={"source_hidden": true}
# Proof
# The law holds for a fourth grid.
assert law(16, 8) == equations(16, 8)

# %% [markdown]
# The compiler reads all of them, although they say the same thing for one cell after the other. So before reaching for a
# loop of JAX's own, ask of each loop: **does a round need the result of the round before?**
#
# - The inner loop, over rows: no. All cells of a column come from the column before. They are **one array operation**.
# - The outer loop, over columns: yes. It must stay a loop.
#
# The answer on Stack Overflow takes these two steps one after the other. First the inner loop: a sum of three
# neighbours is a *convolution* with `[1, 1, 1]`, and NumPy and JAX have a function for that.


# %%
def forward2(w):
    height, width = w.shape
    a = jnp.zeros((height, width + 1)).at[:, 0].set(1)
    kernel = jnp.ones(3)  # [1, 1, 1]; a convolution calls its weights a kernel
    for j in range(width):
        conv = jnp.convolve(a[:, j] * w[:, j], kernel, mode="valid")
        a = a.at[1:-1, j + 1].set(conv)
    return a


# %% [markdown]
# Then the outer loop. `lax.scan(body, init, xs)` is a loop over the first axis of `xs`. `body` takes the **carry** (what
# the next round needs) and one slice of `xs`; it returns the next carry and one result to keep. The results are stacked.
# In Python:
#
# ```python
# carry, ys = init, []
# for x in xs:
#     carry, y = body(carry, x)
#     ys.append(y)
# return carry, jnp.stack(ys)
# ```
#
# But `body` is traced **once**. Here the carry is a column of `a`, the slices are the columns of `w`, and each new column
# is also the result to keep:


# %%
def forward3(w):
    def body(carry, column):
        conv = jnp.convolve(carry * column, kernel, mode="valid")
        out = jnp.zeros_like(column).at[1:-1].set(conv)
        return out, out  # the next carry, and a result to keep

    init = jnp.ones(w.shape[0])
    kernel = jnp.ones(3)
    return jnp.vstack([init, lax.scan(body, init, w.T)[1]]).T


# %% [markdown]
# The picture shows for a grid of 10 x 5 which write in the jaxpr fills which cell.

# %% jupyter={"source_hidden": true}
# Picture: which write fills which cell
height, width = 10, 5
small = jnp.ones((height, width))
i, j = np.mgrid[1 : height - 1, 0:width]
writes = {forward: 1 + j * (height - 2) + (i - 1), forward2: 1 + j, forward3: np.ones_like(j)}
scatters = {}  # the primitive behind .at[].set and .at[].add

fig, axes = plt.subplots(1, 3, figsize=(9, 3.7))
for ax, (fn, number) in zip(axes, writes.items(), strict=True):
    jaxpr = show_jaxpr(fn, small)
    scatters[fn] = jaxpr.primitives["scatter"] - (fn is forward2)  # forward2 starts with a scatter, for column 0
    grid = np.full((height, width + 1), np.nan)
    grid[1:-1, 1:] = number * 7 % 20  # neighbouring numbers get colours far apart
    ax.imshow(grid, cmap="tab20", vmin=0, vmax=19, alpha=0.55, aspect="auto")
    for row, column in zip(i.flat, j.flat, strict=True):
        ax.text(column + 1, row, number[row - 1, column], ha="center", va="center", fontsize=10)
    title = f"{fn.__name__}: {scatters[fn]} write{'s' * (scatters[fn] > 1)}\n{jaxpr.equations} equations"
    ax.set_title(title, fontsize=11)
    ax.set(xticks=range(width + 1), yticks=[], xlabel="column")
    ax.grid(visible=False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The jaxprs hold as many writes as the picture shows.
assert all(scatters[fn] == number.max() for fn, number in writes.items())

# %%
lines = ["| rows x columns | `forward` (the law) | `forward2` | `forward3` |", "|---|--:|--:|--:|"]
for columns in (8, 16, 32):
    two, three = (show_jaxpr(fn, jnp.ones((64, columns))).equations for fn in (forward2, forward3))
    lines.append(f"| 64 x {columns} | {law(64, columns):,} | {two:,} | {three:,} |")
Markdown("\n".join(lines))

# %% [markdown]
# Two loops: the jaxpr grows with the cells. One loop: it grows with the columns. No Python loop: it does not grow.
#
# ## Today's figures
#
# The answer ends with three times, without `jit`, on a grid of 64 x 32: **22.9 s, 118 ms, 94 ms**. So the scan was 244
# times faster than the loops, and a little faster than the convolutions.

# %%
guess = None  # your number: how many times faster than forward is forward3 today, without jit?

# %%
w = jax.random.normal(jax.random.key(0), (64, 32)).block_until_ready()
results, seconds, built, jitted = {}, {}, {}, {}
cpu = {"clock": time.process_time}  # processor time of all threads
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits in the convolutions
    for fn in (forward2, forward3):
        results[fn] = fn(w)
        with trace_log() as log:
            seconds[fn] = best_call(fn, w, calls=4, **cpu)
        built[fn] = log.compiles / 4
        jitted[fn] = benchmark(jax.jit(fn), w, rounds=5)
seconds[forward] = best_call(lambda: results.setdefault(forward, forward(w)), calls=1, **cpu)
show_guess(guess, seconds[forward] / seconds[forward3], "x")

# %% jupyter={"source_hidden": true}
# Table: the three functions
lines = [
    "| no `jit`: | the post | today | modules built in each call | with `jit`: first call | then |",
    "|---|--:|--:|--:|--:|--:|",
]
for fn, post in ((forward, 23_300), (forward2, 118), (forward3, 96)):
    more = "| |"
    if fn in jitted:
        more = f"{built[fn]:g} | {1e3 * jitted[fn].first:,.0f} ms | {1e6 * fastest(jitted[fn]):,.0f} µs"
    lines.append(f"| `{fn.__name__}` | {post:,} ms | {1e3 * seconds[fn]:,.0f} ms | {more} |")
Markdown("\n".join(lines))

# %% jupyter={"source_hidden": true}
# Proof
# Without jit, the scan is compiled in every call, and the convolutions are not.
assert built[forward2] == 0 and built[forward3] >= 1

# %% [markdown]
# (Both columns are processor time of all threads; the post printed that beside its times: 23.3 s, 118 ms, 96 ms.) The
# loops have become much faster, and the order of the other two has turned round: without `jit`, the scan loses to the
# convolutions. The column in the middle says why. `lax.scan` compiles its body even when nobody said `jit`, and looks it up by function
# object, as unit 05 has it. `forward3` defines a new `body` in every call, so **every call compiles**.
#
# The cure is `jax.jit` around the whole, which is traced once. Then the last column is what a call takes, and there the
# scan wins. So: a `scan`, `fori_loop` or `while_loop` belongs inside something jitted.
#
# ## The same numbers?
#
# The post checks that its three results are close to each other. We also compute the answer in double precision, with
# NumPy.

# %%
exact = np.zeros((64, 33))
exact[:, 0] = 1
for column in range(32):
    weighted = exact[:, column] * np.asarray(w, np.float64)[:, column]
    exact[1:-1, column + 1] = weighted[:-2] + weighted[1:-1] + weighted[2:]

off = np.abs(np.asarray(results[forward]) - exact)
worst = (off / np.abs(exact).max(0)).max()
print("largest value of each eighth column:", ", ".join(f"{v:.3g}" for v in exact.max(0)[::8]))
print(f"largest error {off.max():.2g}; relative to its own column {worst:.1g}")
close = {fn.__name__: np.allclose(result, exact) for fn, result in results.items()}
print("allclose to double precision:", close)

# %% jupyter={"source_hidden": true}
# Proof
# The three are allclose to each other, and the jitted scan is close to them.
assert jnp.allclose(results[forward], results[forward2])
assert jnp.allclose(results[forward2], results[forward3])
assert jnp.allclose(results[forward], jax.jit(forward3)(w), rtol=1e-3)

# %% [markdown]
# The three agree with each other, as in the post. But "allclose to each other" is not "right": the values grow
# beyond a million, a cell where large terms cancel keeps their rounding error, and at the default tolerance none of the
# three is close to the answer in double precision. For a result that grows, judge errors by the size of what was added;
# unit 10 says more.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: what a long jaxpr costs, and six ways to write one loop.*

# %% [markdown]
# ## What a long tape costs
#
# The answer gives a reason for the long compile: XLA's compile time is "roughly proportional to the **square** of the
# number of operations". Then a jaxpr of double length would take four times as long. We measure it with two programs:
# the nested loops of the post on small grids, and a plain chain of sines. And with the same chain as a `fori_loop`,
# JAX's loop over a counter: `lax.fori_loop(0, rounds, body, x)` calls `x = body(k, x)` for k = 0, 1, …, rounds - 1.


# %%
def chain(rounds):
    def unrolled_chain(x):
        for k in range(rounds):
            x = jnp.sin(x) + k
        return x

    return unrolled_chain


def rolled(rounds):
    return lambda x: lax.fori_loop(0, rounds, lambda k, x: jnp.sin(x) + k, x)


guess = None  # your factor: a jaxpr of double length takes how many times as long to build?


# %%
def build(fn, *shape):
    """Equations of fn, and the processor's seconds to trace, lower and compile it."""
    x = jax.ShapeDtypeStruct(shape, jnp.float32)  # a type without values is enough
    length = show_jaxpr(fn, x).equations
    start = time.process_time()  # of this process alone: other programs do not count
    jax.jit(fn).lower(x).compile()
    return length, time.process_time() - start


LOOPS, CHAIN, FORI = "the post's two loops", "a chain, unrolled", "the chain as a fori_loop"
bills = {
    LOOPS: [build(forward, 5, width) for width in (1, 2, 4, 8)],
    CHAIN: [build(chain(rounds), 10) for rounds in (25, 50, 100, 200, 400)],
    FORI: [build(rolled(rounds), 10) for rounds in (25, 400, 100_000)],
}
slope = {}
for name in (LOOPS, CHAIN):
    length, cost = np.log(bills[name][-3:]).T  # the longer ones: short jaxprs pay a fixed price too
    slope[name] = np.polyfit(length, cost, 1)[0]
show_guess(guess, 2 ** slope[LOOPS], "x")

# %% jupyter={"source_hidden": true}
# Picture: seconds to build, over the number of equations
for name, power in slope.items():
    print(f"{name}: time grows as (equations)^{power:.2f}; double length takes {2**power:.1f}x")
fig, ax = plt.subplots(figsize=(8, 4.2))
for (name, points), style in zip(bills.items(), ("o-", "s-", "*"), strict=True):
    ax.plot(*np.array(points).T, style, markersize=14 if style == "*" else 6, label=name)
n, last = bills[LOOPS][-1]
whole = law(64, 32)
estimate = last * (whole / n) ** slope[LOOPS]
ax.plot([n, whole], [last, estimate], ":", color="C0")
ax.plot(whole, estimate, "o", mfc="white", color="C0")
ax.text(whole / 1.2, estimate, f"64 x 32: about {estimate:,.0f} s", color="C0", ha="right", va="center")
ax.plot([n, 6 * n], [last, 36 * last], color="#999999", lw=1)
ax.text(5.5 * n, 36 * last, "the square", color="#777777", ha="right")
x, y = bills[FORI][0]
ax.text(1.3 * x, 0.9 * y, "25, 400, 100,000 rounds", color="C2")
ax.set(xscale="log", yscale="log", xlabel="equations in the jaxpr", ylim=(None, 3 * estimate))
ax.set_title("Processor seconds to build (trace + lower + compile)")
ax.legend(loc="upper left")
plt.show()

# %%
in_loops, in_chain = (1e3 * bills[name][-1][1] / bills[name][-1][0] for name in (LOOPS, CHAIN))
print(f"an equation costs {in_loops:.1f} ms in the post's loops, {in_chain:.2f} ms in the chain")

# %% [markdown]
# At these sizes the time grows about as the jaxpr does, not with its square. (Longer ones can do worse, and the hollow
# dot is an estimate, drawn out from the solid ones.) That is no comfort. What hurts is the length itself, times a price
# that depends on what the equations are: writing single cells is expensive.
#
# And look at the stars: three programs of 25, 400 and 100,000 rounds, all on one spot. The compiler reads one body. It
# does not care how often it will run.
#
# ## Six ways to write one loop
#
# Newton's method for the square root of `a`: replace `r` by the mean of `r` and `a / r`, and do so `n` times. (In
# `lax.while_loop(condition, body, init)` the body runs as long as the condition holds for the carry.)


# %%
def newton(a, r):
    return (r + a / r) / 2


def python_for(a, n):
    r = a
    for _ in range(n):
        r = newton(a, r)
    return r


def scan(a, n):
    return lax.scan(lambda r, _: (newton(a, r), None), a, None, length=n)[0]  # n rounds, no slices


def fori(a, n):
    return lax.fori_loop(0, n, lambda i, r: newton(a, r), a)


def while_(a, n):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, newton(a, c[1])), (0, a))[1]


def bounded(a, n):  # always 20 rounds, and the late ones change nothing
    return lax.fori_loop(0, 20, lambda i, r: jnp.where(i < n, newton(a, r), r), a)


# %% [markdown]
# `n` may be static (part of the program) or traced (a number that comes with each call). A Python `for` and a `scan`
# must know it; a `fori_loop` takes both. That makes six ways:
#
# | | `python_for` | `fori` | `scan` | `fori` | `while_` | `bounded` |
# |---|---|---|---|---|---|---|
# | `n` is | static | static | static | traced | traced | traced |
#
# Not all of them have a gradient (the derivative with respect to `a`, by `jax.grad`). `jax.grad` works in **reverse
# mode**: it goes through the rounds once more, from the last to the first, and needs what each of them computed (unit 08).
# So it must know, when the program is made, how many rounds there are. How many of the six have a gradient?

# %%
guess = None  # your number, 0 to 6


# %%
def look_at(fn, kind):
    """Its loops, copies of the body, traces for n = 1 to 6, and its gradient or the error."""
    jitted_fn = jax.jit(fn, static_argnums=1 if kind == "static" else ())
    with trace_log(fn) as log:
        for n in range(1, 7):
            jitted_fn.eval_shape(2.0, n)  # traces as a call does, and compiles nothing
    counts = show_jaxpr(jitted_fn, 2.0, 5).primitives
    loops = [name for name in ("scan", "while") if counts[name]]
    copies = counts["div"] // 2  # there are two divisions in newton
    return loops, copies, log.traces, outcome(jax.grad(jitted_fn), 2.0, 5)


six = [(python_for, "static"), (fori, "static"), (scan, "static")]
six += [(fori, "traced"), (while_, "traced"), (bounded, "traced")]
looks = {(fn, kind): look_at(fn, kind) for fn, kind in six}
have_one = [not isinstance(gradient, str) for *_, gradient in looks.values()]
show_guess(guess, sum(have_one), "have one")

# %% jupyter={"source_hidden": true}
# Table: the six
lines = ["| loop | n | in the jaxpr | copies of the body | traces for n = 1 to 6 | gradient |"]
lines.append("|---|---|---|--:|--:|---|")
for (fn, kind), (loops, copies, traces, gradient) in looks.items():
    gradient = gradient if isinstance(gradient, str) else f"{gradient:.4f}"
    lines.append(f"| `{fn.__name__}` | {kind} | {', '.join(loops) or 'no loop'} | {copies} | {traces} | {gradient} |")
Markdown("\n".join(lines))

# %% jupyter={"source_hidden": true}
# Proof
# All six find the square root of 2.
assert len(looks) == 6
for fn, kind in looks:
    assert abs(jax.jit(fn, static_argnums=1 if kind == "static" else ())(2.0, 5) - 2**0.5) < 1e-6

# %% [markdown]
# Two primitives are behind all of JAX's loops, and the table shows what each gives and takes:
#
# - **`scan`** knows its length. It can keep a result of every round, and so it has a reverse mode. A new length is a
#   new program.
# - **`while`** does not know. One program serves every length, it may stop by a condition, and it keeps nothing but the
#   carry.
#
# `fori_loop` is not a third one: it becomes a `scan` when its bounds are known, and a `while` when they are not. The
# same line of code has a gradient in one program and none in the next. The last row is what to do if you want all of
# it: a bound that you know, and a `where` that lets late rounds change nothing. The price is that they run.
#
# Besides reverse mode there is **forward mode**, `jax.jvp(f, (x,), (1.0,))`, which computes the derivative together
# with the value, round by round. What does a `while` say to each? And how large is what reverse mode keeps of a `scan`?


# %%
def root(n):
    return lambda a: fori(a, n)


try:
    jax.jit(jax.grad(fori))(2.0, 5)
except ValueError as error:
    print("reverse mode through a while:", error)
forward_mode = jax.jit(lambda a, n: jax.jvp(root(n), (a,), (1.0,))[1])(2.0, 5)
print(f"forward mode through a while: {forward_mode:.4f}")
kept = {n: show_jaxpr(jax.grad(root(n)), 2.0).largest for n in (10, 1000)}
print("largest value in the jaxpr of the gradient of a scan:", kept)

# %% jupyter={"source_hidden": true}
# Proof
# Forward mode gives the derivative of the root; reverse mode keeps one number a round.
assert abs(forward_mode - 0.5 / 2**0.5) < 1e-6 and kept == {10: "float32[10]", 1000: "float32[1000]"}

# %% [markdown]
# Reverse mode walks the rounds backwards, so every round leaves behind what its derivative needs: an array with one
# entry a round. For a `while` nobody knows how long that array must be. Forward mode takes the derivative along with
# the carry, keeps nothing, and works with both.
#
# ## A loop that stops by itself
#
# For some loops nobody can say beforehand how often they will run. Euclid's algorithm is one of them. The carry is a
# pair, and the picture shows it going round.


# %%
@jax.jit
def gcd(a, b):
    """The greatest common divisor of two positive integers."""

    def unfinished(pair):
        return pair[1] != 0

    def body(pair):
        a, b = pair
        return b, lax.rem(a, b)

    return lax.while_loop(unfinished, body, (a, b))[0]


print("gcd(1071, 462) =", gcd(1071, 462))
show_jaxpr(gcd, 48, 36)

# %% jupyter={"source_hidden": true}
# Proof
# Gcd is right.
assert [int(gcd(a, b)) for a, b in ((48, 36), (17, 5), (1071, 462))] == [12, 1, 21]

# %% [markdown]
# The carry keeps its place in memory from round to round, so it has **one type for all rounds**. That is the error you
# will meet most. Three carries start as Python's 8, as `jnp.int32(8)` and as 8.0, and are halved three times. One is
# refused. What do the other two return?


# %%
def halve_three_times(start):
    return lax.fori_loop(0, 3, lambda i, s: s / 2, start)


for text in ("8", "jnp.int32(8)", "8.0"):
    result = outcome(halve_three_times, eval(text))
    print(f"start = {text:13} {result} {'' if result == 'TypeError' else jax.typeof(result)}")
try:
    halve_three_times(jnp.int32(8))
except TypeError as error:
    print("\n" + str(error).splitlines()[2])

# %% jupyter={"source_hidden": true}
# Proof
# An int32 does not give way, a Python number does.
assert outcome(halve_three_times, jnp.int32(8)) == "TypeError" and halve_three_times(8).dtype == jnp.float32

# %% [markdown]
# A Python number is weakly typed and gives way: JAX makes it a float before the first round, without a word. An
# `int32` does not give way. Use `//` for integers, and start the carry with the type that it will have.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: what to jit, branches, and a loop that need not wait.*

# %% [markdown]
# ## Jit the body, or the whole?
#
# An older post meets a loop that it cannot jit, since `n` is traced. Its advice: leave the loop to Python, and jit the
# expensive part inside. It measured 236 µs for `multiply_n_times` with `n = 5`:

# %%
multiply_jit = jax.jit(lambda x, i: x * i, static_argnums=0)


def multiply_n_times(x, n):
    count = 0
    res = 1
    while count < n:
        res = multiply_jit(x, res)
        count += 1
    return res


@jax.jit
def multiply_whole(x, n):
    return lax.fori_loop(0, n, lambda i, res: x * res, 1)


def multiply_python(x, n):
    res = 1
    for _ in range(n):
        res = x * res
    return res


# %%
lines = ["| x = 1 | n = 5 | n = 10,000 |", "|---|--:|--:|"]
for fn in (multiply_n_times, multiply_whole, multiply_python):
    times = (fastest(benchmark(fn, 1, n, rounds=3)) * 1e6 for n in (5, 10_000))
    lines.append(f"| `{fn.__name__}` | " + " | ".join(f"{t:,.1f} µs" for t in times) + " |")
Markdown("\n".join(lines))

# %% jupyter={"source_hidden": true}
# Proof
# The three agree, and one trace of the whole serves every n.
assert [fn(2, 5) for fn in (multiply_n_times, multiply_whole, multiply_python)] == [32] * 3
with trace_log(multiply_whole) as log:
    assert [int(multiply_whole(3, n)) for n in range(9)] == [3**n for n in range(9)]
assert log.traces <= 1

# %% [markdown]
# Each call into a compiled program has a price, a few microseconds, and the loop of Python pays it `n` times. The whole
# pays it once, and is traced once for every `n`, so the loop could be jitted after all. (Here
# the body is one multiplication of two numbers. For that, nothing beats plain Python, until `n` is large.)
#
# But "the expensive part" is a matter of size. Two bodies, a sine and a matrix product, on a state of one number up to
# ninety thousand. How many times faster is the whole loop in one program than a Python loop around the jitted body?


# %%
def two_loops(step):
    body = jax.jit(step)

    def jit_the_body(x, n):
        for _ in range(n):
            x = body(x)
        return x

    @jax.jit
    def jit_the_whole(x, n):
        return lax.fori_loop(0, n, lambda i, x: step(x), x)

    return jit_the_body, jit_the_whole


guess = None  # your number, for the sine and a state of one single number

# %%
gains = {}
for name, step in (("a sine", lambda x: 0.99 * jnp.sin(x)), ("a matrix product", lambda x: x @ x)):
    for side in (1, 10, 100, 300):
        x, n = jnp.full((side, side), 1 / side), 100 if side < 100 else 20
        body_seconds, whole_seconds = (best_call(loop, x, n) for loop in two_loops(step))
        gains.setdefault(name, []).append((side * side, body_seconds / whole_seconds))
show_guess(guess, gains["a sine"][0][1], "x")

# %% jupyter={"source_hidden": true}
# Picture: what the whole loop in one program gains, over the size of the state
fig, ax = plt.subplots(figsize=(7, 3.4))
for (name, points), marker in zip(gains.items(), "os", strict=True):
    ax.plot(*np.array(points).T, marker + "-", label=name)
ax.axhline(1, color="C6", linewidth=1.2)
ax.text(1, 0.9, "1x: it does not matter", va="top", fontsize=10)
ax.set(xscale="log", yscale="log", xlabel="numbers in the state", ylim=(0.4, None))
ax.set_yticks([0.5, 1, 2, 5, 10, 20, 50, 100], [f"{n:g}x" for n in (0.5, 1, 2, 5, 10, 20, 50, 100)])
ax.minorticks_off()
ax.set_title("fori_loop in one program, over a Python loop of a jitted body")
ax.legend(title="body")
plt.show()

# %% [markdown]
# With a small state the time is all calling, and one program removes it. With a large one the body takes the time, both
# lines come down to about 1x (what is left is noise), and the advice of the post is as good as any. So: **small bodies,
# jit the whole; large bodies, it does not matter, and then a Python loop that you can print from is a fine thing.** A
# step that trains a neural network (unit 14) is a large body.
#
# ## Branches: one side or both?
#
# `lax.cond(pred, true_fun, false_fun, x)` asks a condition, its *predicate*; `lax.switch(index, functions, x)` takes a
# number. They are one primitive, `cond`. All branches are traced, one of them runs:

# %%
three_ways = show_jaxpr(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), 1, 2.0)
print("switch:", dict(three_ways.primitives))
branches = [lambda: 0.0, lambda: 1.0, lambda: 2.0]
out_of_range = [float(lax.switch(i, branches)) for i in (-5, 1, 99)]
print("an index that is out of range goes to the nearest branch:", out_of_range)

# %% jupyter={"source_hidden": true}
# Proof
# The index is clamped.
assert out_of_range == [0, 1, 2]

# %% [markdown]
# That pays when one side is expensive. Here it is twenty thousand sines, or nothing at all:


# %%
def expensive(x):
    return lax.fori_loop(0, 20_000, lambda i, x: jnp.sin(x), x)


def maybe_expensive(x):
    return lax.cond(x > 0, expensive, lambda x: x, x)


# %% [markdown]
# Now eight inputs at once, by `jax.vmap(maybe_expensive)`: `vmap` makes of a function for one input a function for a whole
# batch of them, in one program (unit 07); `lax.map` calls it for one input after the other. **None** of the eight needs
# the expensive side. How many times longer does the call take than `maybe_expensive` on one such input? About as long,
# eight times, or far more?

# %%
guess = None  # your factor

# %%
one = jax.jit(maybe_expensive)
batched = {
    "vmap": jax.jit(jax.vmap(maybe_expensive)),
    "lax.map": jax.jit(lambda x: lax.map(maybe_expensive, x)),
}
needs = {needed: jnp.where(np.arange(8) < needed, 1.0, -1.0) for needed in (0, 1, 2, 4, 8)}
cost = {way: [1e3 * fastest(benchmark(fn, x, rounds=5)) for x in needs.values()] for way, fn in batched.items()}
single = 1e3 * fastest(benchmark(one, -1.0, rounds=5))
show_guess(guess, cost["vmap"][0] / single, "x")

# %% jupyter={"source_hidden": true}
# Picture: the time of a batch, over how many of its inputs need the expensive side
conditionals = {"one input": show_hlo(one, 1.0).ops["conditional"]}
conditionals |= {way: show_hlo(fn, needs[0]).ops["conditional"] for way, fn in batched.items()}
fig, ax = plt.subplots(figsize=(7, 3.2))
for (way, times), marker in zip(cost.items(), "os", strict=True):
    ax.plot(list(needs), times, marker + "-", label=f"{way} (conditionals in it: {conditionals[way]})")
ax.set(xlabel="inputs of eight that need the expensive side", ylabel="milliseconds", ylim=(0, None))
ax.set_title("vmap(cond): each input may choose, all pay for both")
ax.legend()
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Under vmap no conditional is left, and the jaxpr selects.
assert conditionals == {"one input": 1, "vmap": 0, "lax.map": 1}
assert show_jaxpr(batched["vmap"], needs[0]).primitives["select_n"] > 0

# %% [markdown]
# Eight inputs can disagree, and one program cannot go both ways. So `vmap` turns the `cond` into a `select_n` (the
# primitive of `jnp.where`): **both sides run for all, and then each input picks**. The line of `vmap` is flat. `lax.map`
# is a loop, one input after the other, with a real branch in each round: it pays for what is needed. If most of a batch
# needs the expensive side, take `vmap`; if few do, `lax.map`.
#
# If the predicate is the same for the whole batch (`in_axes=(None, 0)`: `mode` is shared, `x` is a batch), `vmap` knows,
# and keeps the branch:


# %%
def by_mode(mode, x):
    return lax.cond(mode > 0, expensive, lambda x: x, x)


shared = show_jaxpr(jax.vmap(by_mode, in_axes=(None, 0)), 1, needs[0]).primitives
print("cond:", shared["cond"], " select_n:", shared["select_n"])

# %% jupyter={"source_hidden": true}
# Proof
# With one predicate for all, the branch stays.
assert shared["cond"] == 1

# %% [markdown]
# ## A loop that need not wait
#
# Some loops only look as if each round had to wait. Take $x_{t} = a_t\,x_{t-1} + b_t$. Do not think of the values but of
# the **steps**: "times 2, plus 1" and then "times 3, plus 5" is one step, "times 6, plus 8". So two steps can be joined
# before anybody knows the value that they start from: of eight steps, first and second, third and fourth, … are joined at
# the same time, then the pairs, then the fours. Joining must be associative: $(f\,g)\,h = f\,(g\,h)$. Then
# `lax.associative_scan` joins the first 1, 2, 3, … steps, and so gives every $x_t$:


# %%
def join(first, then):
    """Two steps (a, b), meaning x -> a * x + b, as one."""
    a1, b1 = first
    a2, b2 = then
    return a2 * a1, a2 * b1 + b2


def all_values(a, b):
    return lax.associative_scan(join, (a, b))[1]  # starting from x = 0


def all_values_loop(a, b):
    x, values = jnp.float32(0), []
    for t in range(len(a)):
        x = a[t] * x + b[t]
        values.append(x)
    return jnp.stack(values)


# %% [markdown]
# In the loop, each round waits for a multiplication and an addition of the round before: for 1024 numbers, 2 x 1024
# operations stand in a row. A folded helper finds the longest such row in a jaxpr. How long is it in the
# `associative_scan`?

# %%
guess = None  # your number: operations that must wait for one another, for 1024 numbers


# %% jupyter={"source_hidden": true}
# Helper: longest_chain(fn, *args) -> the most operations of a jaxpr that must wait for one another
from jax.extend.core import Literal


def longest_chain(fn, *args):
    """The most additions and multiplications in the jaxpr that must wait for one another."""
    jaxpr, done = jax.make_jaxpr(fn)(*args).jaxpr, {}
    for eqn in jaxpr.eqns:
        before = max((done.get(v, 0) for v in eqn.invars if not isinstance(v, Literal)), default=0)
        done |= dict.fromkeys(eqn.outvars, before + (eqn.primitive.name in ("add", "mul")))
    return max(done[v] for v in jaxpr.outvars)


# %%
lengths = [4, 16, 64, 256, 1024]
ones = {n: (jnp.ones(n), jnp.ones(n)) for n in lengths}
chains = {
    "Python loop": [longest_chain(all_values_loop, *ones[n]) for n in lengths[:3]],
    "associative_scan": [longest_chain(all_values, *ones[n]) for n in lengths],
}
joined = show_jaxpr(all_values, *ones[1024])
print(f"1024 numbers: {joined.equations} equations, {chains['associative_scan'][-1]} in a row")
show_guess(guess, chains["associative_scan"][-1], "in a row")

# %% jupyter={"source_hidden": true}
# Picture: operations that must wait for one another, over the length
fig, ax = plt.subplots(figsize=(7, 3))
for (name, values), marker in zip(chains.items(), "os", strict=True):
    ax.plot(lengths[: len(values)], values, marker + "-", label=name)
ax.set(xscale="log", yscale="log", xlabel="numbers", title="Operations that must wait for one another")
ax.set_xticks(lengths, lengths)
ax.minorticks_off()
ax.legend()
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# associative_scan computes what the loop computes, without a scan and without a while.
a, b = jnp.linspace(0.5, 1, 16), jnp.linspace(-1, 1, 16)
assert jnp.allclose(jax.jit(all_values)(a, b), jax.jit(all_values_loop)(a, b), atol=1e-5)
assert not joined.primitives["scan"] and not joined.primitives["while"]

# %% [markdown]
# From a straight line to a logarithm: each doubling of the length adds a constant. There is no `scan` and no `while` in
# the program. The total work is larger, so on a few cores do not expect wonders; a machine that does thousands of
# operations at once has nothing else to do with them. What you need is always the same: **find the thing that can be
# joined.** The exercise has one where it is not a number.
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of older posts, and what was measured above
claims = [
    ("the nested loops take 22.9 s", f"{seconds[forward]:.1f} s", "a post's machine is not yours"),
    (
        "the scan (94 ms) beats the convolutions (118 ms)",
        "✗",
        f"{1e3 * seconds[forward3]:.0f} against {1e3 * seconds[forward2]:.0f} ms: it compiles in every call",
    ),
    ("the three are allclose", "✓", "and yet not allclose to double precision"),
    (
        "compile time grows with the square of the operations",
        "✗",
        "power " + " and ".join(f"{power:.1f}" for power in slope.values()) + " at these sizes",
    ),
    ("Python loops under jit make compiling slow", "✓", f"{law(64, 32):,} equations for 64 x 32"),
    ("use `while_loop`, `fori_loop` or `scan` instead", "✓", "one body; mind the types of the carry"),
    (
        "leave the loop to Python and jit the body",
        "✗",
        f"{gains['a sine'][0][1]:.0f}x slower for a tiny body; for a large one it does not matter",
    ),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}")

# %% [markdown]
# ## Keypoints
#
# - A Python loop is unrolled: the jaxpr, and with it the time to compile, grows with every round.
# - First ask which rounds must wait for one another. Those that need not become one array operation.
# - `scan` knows its length: it keeps results and has a gradient. `while` does not: one trace for every length, no
#   reverse mode. `fori_loop` is whichever its bounds allow.
# - Want both? Loop to a bound, and let `where` make the late rounds change nothing.
# - The carry has one shape and dtype for all rounds. A Python number gives way; an array does not.
# - Loops of JAX belong inside `jit`; outside they may compile in every call.
# - `cond` runs one side. `vmap(cond)` runs both, unless the predicate is the same for the whole batch.
# - If steps can be joined, `associative_scan` needs a logarithmic number of them in a row.
#
# ## Your turn
#
# [Exercise 06](../exercises/06_loops_that_compile/loops_that_compile.ipynb): grow a universe of cells from one number,
# fly with Collatz, build a computer whose programs need no compiling, give a sliding puck a gradient, and read a
# thousand letters at once. 20 points.
