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
# About 20 minutes, then the exercise. You need units 02 (the tape) and 04 (static and traced).

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown, display
from jax import lax
from jax.extend.core import Literal

from autograder import benchmark, show_guess, show_hlo, show_jaxpr, trace_log

plt.style.use("autograder.course")


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
# whether JAX has something better.


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
# A Python loop runs while JAX traces, and each round writes its lines onto the tape. How many equations does the
# compiler get to read for the 64 x 32 grid? Type a number, then run on.

# %%
guess = None  # your number of equations

# %% [markdown]
# We need not trace the large grid. Three small ones give the law, and a fourth one checks it.


# %%
def length_of_tape(height, width):
    return show_jaxpr(forward, jnp.ones((height, width))).equations


per_cell = (length_of_tape(8, 4) - length_of_tape(8, 2)) // (2 * 6)  # two more columns of 6 inner cells
per_row = (length_of_tape(10, 2) - length_of_tape(8, 2) - per_cell * 2 * 2) // 2  # two more rows
rest = length_of_tape(8, 2) - per_cell * 6 * 2 - per_row * 8


def law(height, width):
    return per_cell * (height - 2) * width + per_row * height + rest


assert law(16, 8) == length_of_tape(16, 8)
print(f"{per_cell} equations for each inner cell, {per_row} for each row, and {rest} more")
show_guess(guess, law(64, 32), "equations")

# %% [markdown]
# That is a book, and all its pages say the same. So before reaching for a loop of JAX's own, ask of each loop:
# **does a round need the result of the round before?**
#
# - The inner loop, over rows: no. All cells of a column come from the column before. They are **one array operation**.
# - The outer loop, over columns: yes. It must stay a loop.
#
# The answer on Stack Overflow takes these two steps one after the other, and here are its versions. A sum of three
# neighbours is a convolution with `[1, 1, 1]`.


# %%
def forward2(w):
    height, width = w.shape
    a = jnp.zeros((height, width + 1)).at[:, 0].set(1)
    kernel = jnp.ones(3)
    for j in range(width):
        conv = jnp.convolve(a[:, j] * w[:, j], kernel, mode="valid")
        a = a.at[1:-1, j + 1].set(conv)
    return a


def forward3(w):
    def body(carry, column):
        conv = jnp.convolve(carry * column, kernel, mode="valid")
        out = jnp.zeros_like(column).at[1:-1].set(conv)
        return out, out  # the next carry, and a result to keep

    init = jnp.ones(w.shape[0])
    kernel = jnp.ones(3)
    return jnp.vstack([init, lax.scan(body, init, w.T)[1]]).T


# %% [markdown]
# `lax.scan(body, init, xs)` is a loop over the first axis of `xs`. `body` takes the **carry** (what the next round
# needs) and one slice of `xs`; it returns the next carry and one result to keep. The results are stacked. In Python:
#
# ```python
# carry, ys = init, []
# for x in xs:
#     carry, y = body(carry, x)
#     ys.append(y)
# return carry, jnp.stack(ys)
# ```
#
# But `body` is traced **once**. The picture shows for a grid of 10 x 5 which write on the tape fills which cell.

# %%
height, width = 10, 5
small = jnp.ones((height, width))
i, j = np.mgrid[1 : height - 1, 0:width]
writes = {forward: 1 + j * (height - 2) + (i - 1), forward2: 1 + j, forward3: np.ones_like(j)}

fig, axes = plt.subplots(1, 3, figsize=(9, 3.7))
for ax, (fn, number) in zip(axes, writes.items(), strict=True):
    tape = show_jaxpr(fn, small)
    found = tape.primitives["scatter"] - (fn is forward2)  # forward2 starts with a scatter, for column 0
    assert found == number.max()
    grid = np.full((height, width + 1), np.nan)
    grid[1:-1, 1:] = number * 7 % 20  # neighbouring numbers get colours far apart
    ax.imshow(grid, cmap="tab20", vmin=0, vmax=19, alpha=0.55, aspect="auto")
    for row, column in zip(i.flat, j.flat, strict=True):
        ax.text(column + 1, row, number[row - 1, column], ha="center", va="center", fontsize=10)
    ax.set_title(f"{fn.__name__}: {found} write{'s' * (found > 1)}\n{tape.equations} equations", fontsize=11)
    ax.set(xticks=range(width + 1), yticks=[], xlabel="column")
    ax.grid(visible=False)
plt.show()

# %%
lines = ["| rows x columns | `forward`, by the law | `forward2` | `forward3` |", "|---|--:|--:|--:|"]
for columns in (8, 16, 32):
    two, three = (show_jaxpr(fn, jnp.ones((64, columns))).equations for fn in (forward2, forward3))
    lines.append(f"| 64 x {columns} | {law(64, columns):,} | {two:,} | {three:,} |")
Markdown("\n".join(lines))

# %% [markdown]
# Two loops: the tape grows with the cells. One loop: it grows with the columns. No Python loop: it does not grow.
#
# ## Today's figures
#
# The answer ends with three times, without `jit`, on a grid of 64 x 32: **22.9 s, 118 ms, 94 ms**. So the scan was 244
# times faster than the loops, and a little faster than the convolutions.

# %%
guess = None  # your number: how many times faster than forward is forward3 today, still without jit?

# %%
w = jax.random.normal(jax.random.key(0), (64, 32)).block_until_ready()
results, seconds, built, jitted = {}, {}, {}, {}
with jax.default_matmul_precision("highest"):  # an accelerator drops digits in the convolutions of forward2
    for fn in (forward2, forward3):
        results[fn] = fn(w)
        with trace_log() as log:
            seconds[fn] = best_call(fn, w, calls=4, clock=time.process_time)  # as the post did
        built[fn] = log.compiles / 4
        jitted[fn] = benchmark(jax.jit(fn), w, rounds=5)
seconds[forward] = best_call(lambda: results.setdefault(forward, forward(w)), calls=1, clock=time.process_time)

lines = [
    "| no `jit`: | the post | today | modules built in each call | with `jit`: first call | then |",
    "|---|--:|--:|--:|--:|--:|",
]
for fn, post in ((forward, 22_900), (forward2, 118), (forward3, 94)):
    more = "| |"
    if fn in jitted:
        more = f"{built[fn]:g} | {1e3 * jitted[fn].first:,.0f} ms | {1e6 * fastest(jitted[fn]):,.0f} µs"
    lines.append(f"| `{fn.__name__}` | {post:,} ms | {1e3 * seconds[fn]:,.0f} ms | {more} |")
display(Markdown("\n".join(lines)))
assert built[forward2] == 0 and built[forward3] >= 1
show_guess(guess, seconds[forward] / seconds[forward3], "x")

# %% [markdown]
# ("Today" is processor time of all threads, which the post printed as well: 23.3 s, 118 ms, 96 ms.) The loops have become much faster,
# and the order of the other two has turned round: without `jit`, the scan loses to the convolutions. The column in the
# middle says why. `lax.scan` compiles its body even when nobody said `jit`, and looks it up by function object, as unit
# 05 has it. `forward3` defines a new `body` in every call, so **every call compiles**.
#
# The cure is `jax.jit` around the whole, which is traced once. Then the last column is what a call takes, and there the
# scan wins. So: a `scan`, `fori_loop` or `while_loop` belongs inside something jitted.
#
# ## The same numbers?

# %%
a = np.asarray(results[forward])
exact = np.zeros((64, 33))  # in double precision, by NumPy
exact[:, 0] = 1
for column in range(32):
    weighted = exact[:, column] * np.asarray(w, np.float64)[:, column]
    exact[1:-1, column + 1] = weighted[:-2] + weighted[1:-1] + weighted[2:]

assert jnp.allclose(results[forward], results[forward2])
assert jnp.allclose(results[forward2], results[forward3])
assert jnp.allclose(results[forward], jax.jit(forward3)(w), rtol=1e-3)
off = np.abs(a - exact)
print(f"largest value of each eighth column: {', '.join(f'{v:.3g}' for v in exact.max(0)[::8])}")
print(f"largest error {off.max():.2g}; relative to its own column {(off / np.abs(exact).max(0)).max():.1g}")
close = {fn.__name__: np.allclose(result, exact) for fn, result in results.items()}
print("all three allclose to each other: True. To double precision:", close)

# %% [markdown]
# The three agree, and the post's two `assert`s still hold. But "allclose to each other" is not "right": the values grow
# to ten million, a cell where large terms cancel keeps their rounding error, and at the default tolerance none of the
# three is close to the answer in double precision. For a result that grows, judge errors by the size of what was added;
# unit 10 says more.
#
# ## What a long tape costs
#
# The answer gives a reason for the long compile: XLA's compile time is "roughly proportional to the **square** of the
# number of operations". Then a tape of double length would take four times as long. We measure it with two programs:
# the nested loops of the post on small grids, and a plain chain of sines. And with the same chain as a `fori_loop`.

# %%
guess = None  # your factor: a tape of double length takes how many times as long to build?


# %%
def chain(rounds):
    def unrolled_chain(x):
        for k in range(rounds):
            x = jnp.sin(x) + k
        return x

    return unrolled_chain


def rolled(rounds):
    return lambda x: lax.fori_loop(0, rounds, lambda k, x: jnp.sin(x) + k, x)


def build(fn, *shape):
    """Equations of fn, and the processor's seconds to trace, lower and compile it."""
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    equations = show_jaxpr(fn, x).equations
    start = time.process_time()  # of this process alone, on all cores: other programs do not count
    jax.jit(fn).lower(x).compile()
    return equations, time.process_time() - start


bills = {
    "the post's two loops": [build(forward, 5, width) for width in (1, 2, 4, 8)],
    "a chain, unrolled": [build(chain(rounds), 10) for rounds in (25, 50, 100, 200, 400)],
    "the chain as a fori_loop": [build(rolled(rounds), 10) for rounds in (25, 400, 100_000)],
}
slope = {}
for name in ("the post's two loops", "a chain, unrolled"):
    equations, cost = np.log(bills[name][-3:]).T  # the longer ones: short tapes pay a fixed price as well
    slope[name] = np.polyfit(equations, cost, 1)[0]
    print(f"{name}: time grows as (equations)^{slope[name]:.2f}; double length takes {2 ** slope[name]:.1f}x")
show_guess(guess, 2 ** slope["the post's two loops"], "x")

# %%
fig, ax = plt.subplots(figsize=(8, 4.2))
for (name, points), style in zip(bills.items(), ("o-", "s-", "*"), strict=True):
    ax.plot(*np.array(points).T, style, markersize=14 if style == "*" else 6, label=name)
n, last = bills["the post's two loops"][-1]
whole = law(64, 32)
estimate = last * (whole / n) ** slope["the post's two loops"]
ax.plot([n, whole], [last, estimate], ":", color="C0")
ax.plot(whole, estimate, "o", mfc="white", color="C0")
ax.text(whole / 1.2, estimate, f"64 x 32: about {estimate:,.0f} s", color="C0", ha="right", va="center")
ax.plot([n, 6 * n], [last, 36 * last], color="#999999", lw=1)
ax.text(5.5 * n, 36 * last, "the square", color="#777777", ha="right")
x, y = bills["the chain as a fori_loop"][0]
ax.text(1.3 * x, 0.9 * y, "25, 400, 100,000 rounds", color="C2")
ax.set(xscale="log", yscale="log", xlabel="equations on the tape", ylim=(None, 3 * estimate))
ax.set_title("Processor seconds to build (trace + lower + compile)")
ax.legend(loc="upper left")
plt.show()

# %%
dear, cheap = (bills[name][-1][1] / bills[name][-1][0] for name in slope)
Markdown(f"Each equation: **{1e3 * dear:.1f} ms** in the post's loops, **{1e3 * cheap:.2f} ms** in the chain.")

# %% [markdown]
# At these sizes the time grows about as the tape does, not with its square. (Longer tapes can do worse, and the hollow
# dot is an estimate, drawn out from the solid ones.) That is no comfort. What hurts is the length itself, times a price
# that depends on what the equations are: writing single cells is dear.
#
# And look at the stars: three programs of 25, 400 and 100,000 rounds, all on one spot. The compiler reads one body. It
# does not care how often it will run.
#
# ## Six ways to write one loop
#
# Newton's method for the square root of `a`: replace `r` by the mean of `r` and `a / r`, and do so `n` times.


# %%
def newton(a, r):
    return (r + a / r) / 2


def python_for(a, n):
    r = a
    for _ in range(n):
        r = newton(a, r)
    return r


def scan(a, n):
    return lax.scan(lambda r, _: (newton(a, r), None), a, None, length=n)[0]


def fori(a, n):
    return lax.fori_loop(0, n, lambda i, r: newton(a, r), a)


def while_(a, n):
    return lax.while_loop(lambda ir: ir[0] < n, lambda ir: (ir[0] + 1, newton(a, ir[1])), (0, a))[1]


def bounded(a, n):  # always 20 rounds, and the late ones change nothing
    return lax.fori_loop(0, 20, lambda i, r: jnp.where(i < n, newton(a, r), r), a)


# %% [markdown]
# `n` may be static (part of the program) or traced (a number that comes with each call). A Python `for` and a `scan`
# must know it; a `fori_loop` takes both. That makes six ways. How many of the six have a gradient with respect to `a`?

# %%
guess = None  # your number, 0 to 6

# %%
six = [(python_for, "static"), (fori, "static"), (scan, "static"), (fori, "traced"), (while_, "traced"),
       (bounded, "traced")]  # fmt: skip
lines = ["| loop | n | on the tape | copies of the body | traces for n = 1 to 6 | gradient |"]
lines.append("|---|---|---|--:|--:|---|")
gradients = []
for fn, kind in six:
    jitted_fn = jax.jit(fn, static_argnums=1 if kind == "static" else ())
    with trace_log(fn) as log:
        for n in range(1, 7):
            jitted_fn.eval_shape(2.0, n)  # traces as a call does, and compiles nothing
    assert abs(jitted_fn(2.0, 5) - 2**0.5) < 1e-6
    tape = show_jaxpr(jitted_fn, 2.0, 5)
    loop = [name for name in ("scan", "while") if tape.primitives[name]]
    gradients.append(outcome(jax.grad(jitted_fn), 2.0, 5))
    answer = gradients[-1] if isinstance(gradients[-1], str) else f"{gradients[-1]:.4f}"
    copies = tape.primitives["div"] // 2  # there are two divisions in newton
    loop = ", ".join(loop) or "no loop"
    lines.append(f"| `{fn.__name__}` | {kind} | {loop} | {copies} | {log.traces} | {answer} |")
display(Markdown("\n".join(lines)))
show_guess(guess, sum(not isinstance(gradient, str) for gradient in gradients), "have one")

# %% [markdown]
# Two primitives are behind all of JAX's loops, and the table shows their bargain:
#
# - **`scan`** knows its length. It can keep a result of every round, and so it has a reverse mode. A new length is a
#   new program.
# - **`while`** does not know. One program serves every length, it may stop by a condition, and it keeps nothing but the
#   carry.
#
# `fori_loop` is not a third one: it becomes a `scan` when its bounds are known, and a `while` when they are not. The
# same line of code has a gradient in one program and none in the next. The last row is the way out if you want all of
# it: a bound that you know, and a `where` that lets late rounds change nothing. The price is that they run.
#
# Why does reverse mode need the length?

# %%
try:
    jax.jit(jax.grad(fori))(2.0, 5)
except ValueError as error:
    print("reverse mode through a while:", error)
forward_mode = jax.jit(lambda a, n: jax.jvp(lambda a: fori(a, n), (a,), (1.0,))[1])(2.0, 5)
kept = {n: show_jaxpr(jax.grad(lambda a, n=n: fori(a, n)), 2.0).largest for n in (10, 1000)}
print(f"forward mode through a while: {forward_mode:.4f}")
print("largest value on the tape of the gradient of a scan:", kept)
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


assert [int(gcd(a, b)) for a, b in ((48, 36), (17, 5), (1071, 462))] == [12, 1, 21]
show_jaxpr(gcd, 48, 36)

# %% [markdown]
# The carry is a register of the program, so it has **one type for all rounds**. That is the error you will meet most.
# Three carries start as 8, 8 and 8.0, and are halved three times. One is refused. What do the other two return?


# %%
def halve_three_times(start):
    return lax.fori_loop(0, 3, lambda i, s: s / 2, start)


def describe(value):
    return value if isinstance(value, str) else f"{jax.typeof(value)} {value}"


for text, start in (("8", 8), ("jnp.int32(8)", jnp.int32(8)), ("8.0", 8.0)):
    print(f"start = {text:13} {describe(outcome(halve_three_times, start))}")
assert outcome(halve_three_times, jnp.int32(8)) == "TypeError" and halve_three_times(8).dtype == jnp.float32
try:
    halve_three_times(jnp.int32(8))
except TypeError as error:
    print("\n" + str(error).splitlines()[2])

# %% [markdown]
# A Python number is weakly typed and gives way: JAX makes it a float before the first round, without a word. An
# `int32` does not give way. Use `//` for integers, and start the carry with the type that it will have.
#
# ## Jit the body, or the whole?
#
# An older post meets a loop that it cannot jit, since `n` is traced. Its advice: leave the loop to Python, and jit the
# expensive part inside. It measured 236 µs for this:

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


lines = ["| x = 1 | n = 5 | n = 10,000 |", "|---|--:|--:|"]
for fn in (multiply_n_times, multiply_whole, multiply_python):
    assert fn(2, 5) == 32
    times = (fastest(benchmark(fn, 1, n, rounds=3)) * 1e6 for n in (5, 10_000))
    lines.append(f"| `{fn.__name__}` | " + " | ".join(f"{t:,.1f} µs" for t in times) + " |")
with trace_log(multiply_whole) as log:
    assert [int(multiply_whole(3, n)) for n in range(9)] == [3**n for n in range(9)]
assert log.traces <= 1
Markdown("\n".join(lines))

# %% [markdown]
# Each call into a compiled program has a price, a few microseconds, and the loop of Python pays it `n` times. The whole
# pays it once, and is traced once for every `n`, so the loop could be jitted after all. (Here
# the body is one multiplication of two numbers. For that, nothing beats plain Python, until `n` is large.)
#
# But "the expensive part" is a matter of size. Two bodies, a sine and a matrix product, on a state of one number up to
# ninety thousand. How many times faster is the whole loop in one program than a Python loop around the jitted body?

# %%
guess = None  # your number, for the sine and a state of one single number


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


gains = {}
for name, step in (("a sine", lambda x: 0.99 * jnp.sin(x)), ("a matrix product", lambda x: x @ x)):
    for side in (1, 10, 100, 300):
        x, n = jnp.full((side, side), 1 / side), 100 if side < 100 else 20
        body_seconds, whole_seconds = (best_call(loop, x, n) for loop in two_loops(step))
        gains.setdefault(name, []).append((side * side, body_seconds / whole_seconds))
show_guess(guess, gains["a sine"][0][1], "x")

# %%
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
# With a small state the loop is all dispatch, and one program removes it. With a large one the body takes the time, both
# lines come down to about 1x (what is left is noise), and the advice of the post is as good as any. So: **small bodies,
# jit the whole; large bodies, it does not matter, and then a Python loop that you can print from is a fine thing.** A
# training step is a large body.
#
# ## Branches: one side or both?
#
# `lax.cond(pred, true_fun, false_fun, x)` and `lax.switch(index, functions, x)` are one primitive, `cond`. Both traces
# are made, one branch runs. That pays when one side is dear. Here it is twenty thousand sines, or nothing at all.


# %%
def dear(x):
    return lax.fori_loop(0, 20_000, lambda i, x: jnp.sin(x), x)


def maybe_dear(x):
    return lax.cond(x > 0, dear, lambda x: x, x)


three_ways = show_jaxpr(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), 1, 2.0)
print("switch:", dict(three_ways.primitives))
out_of_range = [float(lax.switch(i, [lambda: 0.0, lambda: 1.0, lambda: 2.0])) for i in (-5, 1, 99)]
print("an index that is out of range goes to the nearest branch:", out_of_range)
assert out_of_range == [0, 1, 2]

# %% [markdown]
# Now eight inputs at once, by `jax.vmap(maybe_dear)`. **None** of the eight needs the dear side. How many times longer
# does the call take than `maybe_dear` on one such input?

# %%
guess = None  # your factor

# %%
one = jax.jit(maybe_dear)
batched = {"vmap": jax.jit(jax.vmap(maybe_dear)), "lax.map": jax.jit(lambda x: lax.map(maybe_dear, x))}
eight = np.arange(8)
needs = {needed: jnp.where(eight < needed, 1.0, -1.0) for needed in (0, 1, 2, 4, 8)}
cost = {way: [1e3 * fastest(benchmark(fn, x, rounds=5)) for x in needs.values()] for way, fn in batched.items()}
single = 1e3 * fastest(benchmark(one, -1.0, rounds=5))
show_guess(guess, cost["vmap"][0] / single, "x")

# %%
conditionals = {"one input": show_hlo(one, 1.0).ops["conditional"]}
conditionals |= {way: show_hlo(fn, needs[0]).ops["conditional"] for way, fn in batched.items()}
assert conditionals == {"one input": 1, "vmap": 0, "lax.map": 1}
assert show_jaxpr(batched["vmap"], needs[0]).primitives["select_n"] > 0

fig, ax = plt.subplots(figsize=(7, 3.2))
for (way, times), marker in zip(cost.items(), "os", strict=True):
    ax.plot(list(needs), times, marker + "-", label=f"{way} (conditionals in it: {conditionals[way]})")
ax.set(xlabel="inputs of eight that need the dear side", ylabel="milliseconds", ylim=(0, None))
ax.set_title("vmap(cond): each input may choose, all pay for both")
ax.legend()
plt.show()

# %% [markdown]
# Eight inputs can disagree, and one program cannot go both ways. So `vmap` turns the `cond` into a `select_n`: **both
# sides run for all, and then each input picks**. The line of `vmap` is flat. `lax.map` is a loop, one input after the
# other, with a real branch in each round: it pays for what is needed. If most of a batch needs the dear side, take
# `vmap`; if few do, `lax.map`.
#
# (If the predicate is the same for the whole batch, `vmap` knows, and keeps the branch.)


# %%
def by_mode(mode, x):
    return lax.cond(mode > 0, dear, lambda x: x, x)


shared = jax.vmap(by_mode, in_axes=(None, 0))
assert show_jaxpr(shared, 1, needs[0]).primitives["cond"] == 1

# %% [markdown]
# ## A loop that need not wait
#
# Some loops only look as if each round had to wait. Take $x_{t} = a_t\,x_{t-1} + b_t$. Do not think of the values but of
# the **steps**: "times 2, plus 1" and then "times 3, plus 5" is one step, "times 6, plus 8". Steps can be joined before
# anybody knows where they start, the first two while somebody else joins the next two. What matters is that joining is
# associative: $(f\,g)\,h = f\,(g\,h)$. Then `lax.associative_scan` gives all the prefixes:


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


def longest_chain(fn, *args):
    """The most additions and multiplications on the tape that must wait for one another."""
    tape, done = jax.make_jaxpr(fn)(*args).jaxpr, {}
    for eqn in tape.eqns:
        before = max((done.get(v, 0) for v in eqn.invars if not isinstance(v, Literal)), default=0)
        done |= dict.fromkeys(eqn.outvars, before + (eqn.primitive.name in ("add", "mul")))
    return max(done[v] for v in tape.outvars)


guess = None  # your number: the loop's chain for 1024 numbers is 2 x 1024 long. And that of associative_scan?

# %%
a, b = jnp.linspace(0.5, 1, 16), jnp.linspace(-1, 1, 16)
assert jnp.allclose(jax.jit(all_values)(a, b), jax.jit(all_values_loop)(a, b), atol=1e-5)

lengths = [4, 16, 64, 256, 1024]
chains = {"Python loop": [longest_chain(all_values_loop, jnp.ones(n), jnp.ones(n)) for n in lengths[:3]]}
chains["associative_scan"] = [longest_chain(all_values, jnp.ones(n), jnp.ones(n)) for n in lengths]
on_tape = show_jaxpr(all_values, jnp.ones(1024), jnp.ones(1024))
assert not on_tape.primitives["scan"] and not on_tape.primitives["while"]
in_a_row = chains["associative_scan"][-1]
print(f"1024 numbers: {on_tape.equations} equations, no scan and no while, {in_a_row} in a row")
show_guess(guess, in_a_row, "in a row")

# %%
fig, ax = plt.subplots(figsize=(7, 3))
for (name, values), marker in zip(chains.items(), "os", strict=True):
    ax.plot(lengths[: len(values)], values, marker + "-", label=name)
ax.set(xscale="log", yscale="log", xlabel="numbers", title="Operations that must wait for one another")
ax.set_xticks(lengths, lengths)
ax.minorticks_off()
ax.legend()
plt.show()

# %% [markdown]
# From a straight line to a logarithm: each doubling of the length adds a constant. The total work is larger, so on two
# cores do not expect wonders; a machine with thousands of lanes has nothing else to do with them. What the puzzle asks
# of you is always the same: **find the thing that can be joined.** The exercise has one where it is not a number.
#
# ## What older posts say

# %%
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
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# ## Keypoints
#
# - A Python loop is unrolled: the tape, and with it the time to compile, grows with every round.
# - First ask which rounds must wait for one another. Those that need not become one array operation.
# - `scan` knows its length: it keeps results and has a gradient. `while` does not: one trace for every length, no
#   reverse mode. `fori_loop` is whichever its bounds allow.
# - Want both? Loop to a bound, and let `where` stop the clock.
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
