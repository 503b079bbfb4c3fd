# %% [markdown]
# # 08 · Composition: grad, jit and vmap together
#
# **An introduction to JAX ends its tour with the sentence `jit(grad(grad(vmap(f))))`. It looks like the best of
# everything. What does it compute?**
#
# You will
#
# - say which compositions mean something, which mean the same, and what each costs;
# - choose between forward and reverse mode by counting, and multiply by a Hessian that is never made;
# - cure a gradient that is `nan`, teach JAX a derivative, and decide what is kept for the way back.
#
# About 20 minutes, then the exercise. Where a cell says `guess = None`, type your answer before you run on.

# %%
import contextlib
import io
import re
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown
from jax import grad, hessian, jacfwd, jacrev, jit, vmap
from jax.ad_checkpoint import print_saved_residuals

from autograder import show_guess, show_hlo, show_jaxpr, trace_log

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. A grammar
#
# "The transformations do not only work alone; what matters most is that they can be combined at will", says the
# post, and gives the sentence above as its example. Here is a function, and three numbers for it.


# %%
def cubic(x):
    return x**3 + 2 * x


xs = jnp.array([0.0, 1.0, 2.0])
guess = None  # "[3]", "[3,3]" or "error": what comes back from jit(grad(grad(vmap(cubic))))(xs)?

# %%
try:
    outcome = str(jit(grad(grad(vmap(cubic))))(xs).shape)
except TypeError as error:
    outcome = "error"
    print(f"TypeError: {str(error).split('. To')[0]}")
assert outcome == "error"
show_guess(guess, outcome)

# %% [markdown]
# The words are right and their order is not. A transformation takes a function and makes a function, so it has a
# grammar: what it accepts, and what it makes of it.
#
# | word | accepts | makes |
# |---|---|---|
# | `grad` | arrays of floats in, **one number** out | the same in; out comes something packed like the first argument |
# | `jacfwd`, `jacrev` | an array in, an array out | the same in; out comes shape of output + shape of input |
# | `vmap` | anything | the same with one more axis, in and out |
# | `jit` | anything | the same |
#
# Read from the inside: `cubic` takes a number to a number. `vmap(cubic)` takes `[3]` to `[3]`, and there `grad` must
# refuse: it would need nine numbers, one for each pair of an output and an input. So `grad` goes first, while there is
# one number, and `vmap` last.

# %%
second = jit(vmap(grad(grad(cubic))))
print("jit(vmap(grad(grad(cubic))))(xs) =", second(xs))
assert second(xs).tolist() == [0.0, 6.0, 12.0]

summed = grad(lambda v: vmap(cubic)(v).sum())  # or make one number of the batch: the examples do not meet
assert summed(xs).tolist() == vmap(grad(cubic))(xs).tolist()
assert np.array_equal(jacrev(vmap(cubic))(xs), np.diag(summed(xs)))  # the nine numbers: six are 0

# %% [markdown]
# What older posts show with single words still holds: three `grad`s of this function at 2 are "14.0 12.0 6.0" (there
# with the package `autograd`, JAX's ancestor), and the gradient of `sum(x * x)` at `[1, 2, 3]` is `[2, 4, 6]`. As a
# picture, with one `vmap` for each curve:

# %%
first, third = grad(cubic), grad(grad(grad(cubic)))
assert [float(d(2.0)) for d in (first, grad(first), third)] == [14.0, 12.0, 6.0]
assert grad(lambda x: jnp.sum(x * x))(jnp.array([1.0, 2.0, 3.0])).tolist() == [2.0, 4.0, 6.0]

tower = {"f": cubic, "grad(f)": first, "grad(grad(f))": grad(first), "grad(grad(grad(f)))": third}
line = np.linspace(-2.6, 2.6, 200)
fig, ax = plt.subplots(figsize=(7, 3.4))
for (name, fn), place in zip(tower.items(), (None, (-22, 5), (6, -13), (4, 5)), strict=True):
    (curve,) = ax.plot(line, jit(vmap(fn))(line), label=name)
    if place:
        at, colour = (2, fn(2.0)), curve.get_color()
        ax.plot(*at, "o", color=colour)
        ax.annotate(f"{at[1]:.0f}", at, xytext=place, textcoords="offset points", color=colour)
ax.set(xlabel="x", ylim=(-18, 24), title="x³ + 2x and its derivatives: 14, 12, 6 at 2")
ax.legend(loc="lower right")
plt.show()

# %% [markdown]
# ## 2. Each word writes a new tape
#
# Why can they be combined at all? Because each of them works in the same two steps (unit 02): **trace** the function
# to a jaxpr, then go along the equations with one **rule for each primitive**. What the rules write is again a list
# of equations, so the next word can read it. The post has this right: "each transformation can be seen as an
# independent interpreter of jaxprs".


# %%
def wave(x):
    return jnp.sin(x * x)


def with_tangent(x, dx):
    return jax.jvp(wave, (x,), (dx,))


for name, tape in {
    "wave": jax.make_jaxpr(wave)(2.0),
    "jvp of wave": jax.make_jaxpr(with_tangent)(2.0, 1.0),
    "grad(wave)": jax.make_jaxpr(grad(wave))(2.0),
    "vmap(grad(wave))": jax.make_jaxpr(vmap(grad(wave)))(xs),
}.items():
    print(f"{name}:\n{tape.pretty_print(use_color=False)}\n")

# %% [markdown]
# `jvp` is **forward mode**. Each equation gets a companion that says how fast its result changes, and the pairs
# come in the order of the original. `grad` is **reverse mode**. First the original with the slopes it will need
# (`cos b`), then a second part that walks **back** from the result to `x`. `x` stands in `mul` twice, so two arrows bring
# it a share, and `add_any` adds them. `vmap` changed no equation: only types.

# %%
show_jaxpr(grad(wave), 2.0)

# %%
heights, fn = [], wave
for _ in range(7):
    heights.append(show_jaxpr(fn, 2.0).equations)
    fn = grad(fn)
batched = show_jaxpr(jit(vmap(grad(wave))), xs).equations
assert batched == heights[1] and heights[6] > 50 * heights[1]
numbers = " | ".join(map(str, heights))
Markdown(f"""| `grad`s around `wave` | 0 | 1 | 2 | 3 | 4 | 5 | 6 |
|---|---|---|---|---|---|---|---|
| equations | {numbers} |

`jit(vmap(grad(wave)))` has {batched}, as many as `grad(wave)`: `vmap` and `jit` are free on the tape.
`grad` is not. From the second one on, each about doubles it.""")

# %% [markdown]
# ## 3. Where `jit` stands
#
# `jit` makes a function of the same type, so it may stand anywhere, even in several places. The values do not care.
# Three other things do: how often the Python body runs, how many programs XLA builds, and whether the body may look at
# a value. `branch` has a Python `if`:


# %%
def branch(x):
    return x**3 if x > 0 else -x


guess = None  # True or False: does grad(branch)(2.0) run?


# %%
def look(make, x):
    """How often the body runs in five calls, XLA modules of the first call, and whether an `if` is allowed."""
    runs = []

    def body(x):
        runs.append(1)
        return jnp.sin(x) ** 3

    sentence = make(body)
    jax.clear_caches()
    with trace_log() as log:
        sentence(x)
    for _ in range(4):
        sentence(x)
    try:
        make(branch)(x)
        return len(runs), log.compiles, True
    except jax.errors.TracerBoolConversionError:
        return len(runs), log.compiles, False


point = jnp.float32(2.0)
sentences = {
    "`grad(f)`": look(grad, point),
    "`jit(grad(f))`": look(lambda f: jit(grad(f)), point),
    "`grad(jit(f))`": look(lambda f: grad(jit(f)), point),
    "`jvp` of `f`": look(lambda f: lambda x: jax.jvp(f, (x,), (x,)), point),
    "`vmap(grad(f))`": look(lambda f: vmap(grad(f)), xs),
    "`jit(vmap(grad(f)))`": look(lambda f: jit(vmap(grad(f))), xs),
}
rows = [f"| {name} | {n} | {modules} | {'✓' if ok else '✗'} |" for name, (n, modules, ok) in sentences.items()]
Markdown("| | body runs in 5 calls | XLA modules | Python `if` |\n|---|---|---|---|\n" + "\n".join(rows))

# %%
assert [runs for runs, *_ in sentences.values()] == [5, 1, 1, 5, 5, 1]
assert [ok for *_, ok in sentences.values()] == [True, False, False, True, False, False]
assert sentences["`jit(grad(f))`"][1] == 1 < sentences["`grad(jit(f))`"][1] < sentences["`grad(f)`"][1]
show_guess(guess, sentences["`grad(f)`"][2])

# %% [markdown]
# - `grad` alone traces **in every call**, because its tracer carries the number along. So the body may ask `x > 0`, and
#   gets the derivative of the branch that was taken. (Another old claim, "`jax.grad` does no tracing", is the opposite of
#   the truth.)
# - `jit` inside is enough to trace once, but JAX then compiles the way out and the way back as separate programs.
#   `jit` **outside** of everything is one program, and XLA sees it whole.
# - One `jit`, or one `vmap` over `x`, takes the value away from everything inside of it, wherever it stands. `vmap` must:
#   it has three values, and one `if`.
#
# So: **`grad` inside, `vmap` around it, `jit` outside.**
#
# ## 4. Forward or reverse?
#
# `rosenbrock` takes $n$ numbers to one. Its gradient has $n$ numbers. The obvious way to get them, nudging one input after
# the other, costs $n$ evaluations of the function.


# %%
def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


guess = None  # your number: for n = 1000, the FLOPs of grad(rosenbrock) are how many times those of rosenbrock?


# %%
def cost(fn, *args):
    """FLOPs of fn, with those of rosenbrock as 1."""
    return show_jaxpr(fn, *args).flops / show_jaxpr(rosenbrock, args[0]).flops


costs = {n: (cost(grad(rosenbrock), np.ones(n)), cost(jacfwd(rosenbrock), np.ones(n))) for n in (10, 100, 1000)}
assert all(reverse < 4 for reverse, _ in costs.values()) and costs[1000][1] > 1000
rows = "\n".join(f"| {n} | {reverse:.1f} | {forward:.0f} |" for n, (reverse, forward) in costs.items())
Markdown(f"| inputs | `grad`, reverse mode | `jacfwd`, forward mode |\n|---|---|---|\n{rows}")

# %%
show_guess(guess, costs[1000][0], "x")

# %% [markdown]
# That small constant, whatever $n$ is, is what makes training possible. One walk back visits each equation once and
# brings the derivative by *every* input. A walk forward brings the derivative of every output in *one direction*, and for
# $n$ directions there are $n$ walks.
#
# - `jax.jvp(f, (x,), (dx,))`: one walk forward, Jacobian times vector. `jacfwd` makes one for each **input**.
# - `jax.vjp(f, x)`: the value, and a function for walks back, vector times Jacobian. `jacrev` makes one for each
#   **output**, and `grad` is the case of one output.
#
# So the shape decides. Here the function is `tanh(W @ x)`, the same work in every column, from few inputs and many outputs
# to the contrary.

# %%
shapes = [(2**k, 2 ** (12 - k)) for k in range(13)]  # inputs, outputs
flops = {"jacfwd": [], "jacrev": [], "the function itself": []}
for n, m in shapes:
    W, x = np.ones((m, n), np.float32), np.ones(n, np.float32)

    def layer(x, W=W):
        return jnp.tanh(W @ x)

    for name, fn in zip(flops, (jacfwd(layer), jacrev(layer), layer), strict=True):
        flops[name].append(show_jaxpr(fn, x).flops)

fig, ax = plt.subplots(figsize=(7.2, 3.5))
for values, colour in zip(flops.values(), ("C0", "C1", "#888888"), strict=True):
    ax.loglog([n for n, _ in shapes], values, "o-", color=colour, markersize=4)
ax.text(800, flops["jacfwd"][-3] * 1.7, "jacfwd", color="C0", ha="right")
ax.text(5, flops["jacrev"][2] * 1.7, "jacrev", color="C1")
ax.text(64, flops["the function itself"][6] * 1.5, "the function itself", color="#666666", ha="center")
ax.set_xticks([n for n, _ in shapes[::2]], [f"{n} → {m}" for n, m in shapes[::2]])
ax.minorticks_off()
ax.set(xlabel="inputs → outputs", ylabel="FLOPs", title="A whole Jacobian of tanh(W @ x)")
plt.show()
assert flops["jacfwd"][0] < flops["jacrev"][0] and flops["jacfwd"][-1] > flops["jacrev"][-1]

# %% [markdown]
# Training is the right-hand end of this picture: many parameters, one number. An old post puts it well: forget layers
# and frameworks; a model says how probable the label is, $p(y \mid x)$, and learning is a maximum like in school. It
# writes $\max_y p(y \mid x)$, though, and that is *predicting*: the likeliest label for a fixed model. Learning keeps the
# labels and varies the parameters: $\max_\theta p_\theta(y \mid x)$. Differentiate, and walk uphill:

# %%
rng = np.random.default_rng(8)
x = rng.normal(size=(200, 2)).astype(np.float32)
y = x @ [2.0, -1.0] + 0.3 * rng.normal(size=200) > 0.5


def log_p(params, x, y):
    """Mean of log p(y | x) for a logistic model."""
    logits = x @ params["w"] + params["b"]
    return jnp.where(y, jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)).mean()


@jit
def uphill(params, x, y):
    slope = grad(log_p)(params, x, y)  # packed like params
    return jax.tree.map(lambda p, s: p + 1.0 * s, params, slope)


params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
history = []
with trace_log(uphill) as log:
    for _ in range(200):
        history.append(float(jnp.exp(log_p(params, x, y))))
        params = uphill(params, x, y)
assert log.traces == 1 and abs(history[0] - 0.5) < 1e-6 and history[-1] > 0.8
best_label = params["w"] @ x.T + params["b"] > 0  # max over y, for these parameters: a prediction
for label in (best_label, ~best_label):
    assert float(log_p(params, x, label)) <= float(log_p(params, x, best_label))
print(f"max over y, after training: the likeliest label is the true one for {float((best_label == y).mean()):.0%}")
print("typical p(y|x) after 0, 10, 199 steps:", ", ".join(f"{history[i]:.3f}" for i in (0, 10, 199)))

# %% [markdown]
# ## 5. A Hessian that is never made
#
# The Hessian of `rosenbrock` has $n^2$ numbers. Methods that use it (Newton, Krylov, curvature checks) mostly want just
# its product with a vector, $Hv$: how does the gradient change along $v$? Said like that, it is a `jvp` of a `grad`. Two
# words, and they may even be exchanged:

# %%
products = {
    "`hessian(f)(x) @ v`": lambda x, v: hessian(rosenbrock)(x) @ v,
    "`jvp` of `grad(f)`": lambda x, v: jax.jvp(grad(rosenbrock), (x,), (v,))[1],
    "`grad` of `grad(f) · v`": lambda x, v: grad(lambda x: jnp.vdot(grad(rosenbrock)(x), v))(x),
    "`grad` of `jvp` of `f`": lambda x, v: grad(lambda x: jax.jvp(rosenbrock, (x,), (v,))[1])(x),
}
x, v = np.linspace(-1, 1, 1000, dtype=np.float32), np.ones(1000, np.float32)
lines, results = [], []
for name, product in products.items():
    largest = show_jaxpr(product, x, v).largest_size
    lines.append(f"| {name} | {cost(product, x, v):,.1f} | {largest:,} |")
    with jax.default_matmul_precision("highest"):  # the values shall agree; an accelerator drops digits of products
        results.append(jit(product)(x, v))
    np.testing.assert_allclose(results[-1], results[0], rtol=1e-3, atol=1e-2)
    assert (largest == 1000) == (name != "`hessian(f)(x) @ v`")
Markdown("| for n = 1000 | FLOPs, with `f` as 1 | numbers in the largest value |\n|---|---|---|\n" + "\n".join(lines))

# %% [markdown]
# All four give the same values, and three never hold more than $n$ numbers. So $n$ may be a million; the matrix would
# fill 4,000 GB.

# %%
million = np.linspace(-1, 1, 1_000_000, dtype=np.float32)
hvp = jit(products["`jvp` of `grad(f)`"]).lower(million, million).compile()
start = time.perf_counter()
hvp(million, million).block_until_ready()
print(f"Hessian times vector, n = 1,000,000: {1e3 * (time.perf_counter() - start):.0f} ms")

# %% [markdown]
# ## 6. The NaN from the branch not taken
#
# The square root, and 0 for all that is negative. `where` keeps the negative numbers out:


# %%
def root(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


print("root of -1, 0, 4:", vmap(root)(jnp.array([-1.0, 0.0, 4.0])))
guess = None  # "0.0" or "nan": grad(root)(-1.0)

# %%
show_guess(guess, str(grad(root)(-1.0)))

# %%
assert np.isnan(grad(root)(-1.0)) and np.isnan(grad(root)(0.0))
show_jaxpr(grad(root), -1.0)

# %% [markdown]
# Follow the graph. `where` (`select_n`) does its part: it hands the branch that was not taken a slope of **0**. But that
# branch was *computed*, and so is its derivative, `0.5 / sqrt(-1)`, which is `nan`. The last `mul` brings the two
# together, and 0 times `nan` is `nan`. (At 0 it is 0 times infinity.) Selecting afterwards is too late.
#
# The cure is a second `where`, **inside**, so that the dangerous operation never meets the dangerous number:


# %%
def safe_root(x):
    inside = jnp.where(x > 0, x, 1.0)  # any harmless number
    return jnp.where(x > 0, jnp.sqrt(inside), 0.0)


def if_root(x):
    return jnp.sqrt(x) if x > 0 else 0.0 * x


table = ["| x | `grad(root)` | `grad(safe_root)` | `grad(if_root)` |", "|---|---|---|---|"]
for at in (-1.0, 0.0, 4.0):
    table.append(f"| {at:g} | {grad(root)(at):g} | {grad(safe_root)(at):g} | {grad(if_root)(at):g} |")
assert vmap(grad(safe_root))(jnp.array([-1.0, 0.0, 4.0])).tolist() == [0.0, 0.0, 0.25]
Markdown("\n".join(table))

# %% [markdown]
# A Python `if` has no such trouble, since it runs one branch only. But it lives under `grad` alone, not under `vmap` or
# `jit`. The same trap waits in `x / norm(x)` at 0, in `log` of a masked zero, in the distance of a point to itself.
#
# ## 7. A rule of your own
#
# $\log(1 + e^x)$ is harmless: nearly 0 on the left, nearly $x$ on the right, slope between 0 and 1. But $e^{89}$
# is more than `float32` holds.


# %%
def naive(x):
    return jnp.log(1 + jnp.exp(x))


@jax.custom_jvp
def log1pexp(x):
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@log1pexp.defjvp
def log1pexp_rule(primals, tangents):
    (x,), (dx,) = primals, tangents
    return log1pexp(x), jax.nn.sigmoid(x) * dx  # what we know, and the tape does not


def with_slope(fn, x):
    return [float(fn(x)), float(grad(fn)(x))]


extremes = (-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4)
lines = ["| x | naive | its slope | log1pexp | its slope |", "|---|---|---|---|---|"]
for at in extremes:
    lines.append(f"| {at:g} | " + " | ".join(f"{v:.4g}" for fn in (naive, log1pexp) for v in with_slope(fn, at)) + " |")
Markdown("\n".join(lines))

# %% [markdown]
# On the left, the value overflows at 100 and vanishes at -20, and the slope is infinity divided by infinity. A stable
# formula is known, and it stands in the body of `log1pexp`. Is the rule needed at all? Here is the same formula without it.
# The true slope at 0 is one half.


# %%
def without_rule(x):
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


guess = None  # your number: grad(without_rule)(0.0)

# %%
show_guess(guess, float(grad(without_rule)(0.0)))

# %% [markdown]
# Not a rounding error: plainly wrong, without a warning, at the very point where a network of zeros starts. `max` and
# `abs` have a corner at 0. The corners cancel in the sum, but a tape knows derivatives of primitives only, and for each
# corner it has to choose a slope: one half for `max`, 1 for `abs`. The rule knows better:

# %%
assert grad(without_rule)(0.0) == 0.0 and grad(log1pexp)(0.0) == 0.5 and grad(grad(log1pexp))(0.0) == 0.25
assert grad(lambda x: jnp.maximum(x, 0))(0.0) == 0.5 and grad(jnp.abs)(0.0) == 1.0

points = np.array(extremes)
with np.errstate(over="ignore"):
    slope = 1 / (1 + np.exp(-points))  # in float64
for fn, truth in ((log1pexp, np.logaddexp(points, 0)), (grad(log1pexp), slope), (jacfwd(log1pexp), slope)):
    np.testing.assert_allclose(jit(vmap(fn))(points), truth, rtol=1e-5, atol=1e-37)

# %% [markdown]
# `custom_jvp` replaces the tape's derivative by yours. You write **forward** mode only; JAX derives the way back from
# it, and `jit`, `vmap` and higher derivatives go through, because the rule is written in ordinary JAX (and calls `log1pexp`
# itself). `jax.nn.softplus` is made like this. Its sibling `custom_vjp` fixes the way back alone: use it to change what a
# gradient *is*, for instance to clip it. And if a value is to count as a constant, there is a word for it:

# %%
frozen = grad(lambda x: x * jax.lax.stop_gradient(x))(3.0)
print("grad of x * x:", grad(lambda x: x * x)(3.0), "   of x * stop_gradient(x):", frozen)
assert frozen == 3.0

# %% [markdown]
# ## 8. What is kept for the way back
#
# The way back needs numbers from the way out, like the `cos b` in section 2. They are called **residuals**, they are
# kept until it is their turn, and they are what fills the memory in training. JAX tells you which:


# %%
def thrice(x):
    return jnp.sin(jnp.sin(jnp.sin(x)))


def residuals(fn, x):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_saved_residuals(fn, x)
    return [re.sub(r" from /.*| from <.*", "", line) for line in text.getvalue().strip().splitlines()]


print("thrice:", *residuals(thrice, 1.0), sep="\n  ")
print("jax.checkpoint(thrice):", *residuals(jax.checkpoint(thrice), 1.0), sep="\n  ")
assert len(residuals(thrice, 1.0)) == 3 and len(residuals(jax.checkpoint(thrice), 1.0)) == 1

# %% [markdown]
# `jax.checkpoint` is the one word that changes neither values nor types, only this: keep the inputs, throw the rest away,
# and **compute it again** on the way back. Memory for time. Where to put it, and which results to spare (a `policy`), is up
# to you. Eight layers `h * sigmoid(h)` of `h = x @ w`:

# %%
W = np.asarray(np.random.default_rng(0).normal(size=(8, 256, 256)) / 16, np.float32)
x = np.ones((64, 256), np.float32)


def swish_layer(x, w):
    h = x @ w
    return h * jax.nn.sigmoid(h)


def network(layer):
    def run(x):
        for w in W:
            x = layer(x, w)
        return x

    return run


plain = network(swish_layer)
ways = {
    "keep everything": plain,
    "policy: keep matrix products": jax.checkpoint(plain, policy=jax.checkpoint_policies.dots_saveable),
    "checkpoint around each layer": network(jax.checkpoint(swish_layer)),
    "checkpoint around the whole": jax.checkpoint(plain),
}


def kept(fn):
    """Arrays of the size of x that wait for the way back (the input counts, the weights do not)."""
    leaves = jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(fn, x)[1], x))
    return sum(leaf.shape == x.shape for leaf in leaves)


def backward(fn):
    return grad(lambda x: fn(x).sum())


keeps = {name: kept(fn) for name, fn in ways.items()}
work = {name: show_jaxpr(backward(fn), x).flops for name, fn in ways.items()}
gradients = [jit(backward(fn))(x) for fn in ways.values()]
assert all(np.allclose(g, gradients[0], rtol=1e-4, atol=1e-5) for g in gradients)
assert list(keeps.values())[0] > 2 * list(keeps.values())[1] and list(keeps.values())[3] == 1

# %%
fig, axes = plt.subplots(1, 2, figsize=(8.4, 2.5), sharey=True)
relative = [flops / work["keep everything"] for flops in work.values()]
for ax, values, title, form in (
    (axes[0], list(keeps.values()), "arrays kept for the way back", "{:.0f}"),
    (axes[1], relative, "FLOPs of the gradient", "{:.2f}"),
):
    ax.barh(list(ways), values, color=["#888888", "C0", "C2", "C1"], height=0.6)
    for row, value in enumerate(values):
        ax.text(value, row, " " + form.format(value), va="center")
    ax.set(title=title, xlim=(0, 1.15 * max(values)), xticks=[])
    ax.spines["bottom"].set_visible(False)
    ax.grid(visible=False)
axes[0].invert_yaxis()
plt.show()
assert relative[1] < 1.05 < 1.3 < relative[3] < 1.7

# %% [markdown]
# The policy is nearly free: it keeps what is dear to compute again and drops what is cheap. The two checkpoints run every
# layer a second time. The lowest bar is not the best one, though. "Around the whole" keeps one array on the way out, but on the
# way back it runs all eight layers again **before** it can start, and then all their residuals are there at once. The exercise
# has a meter for that peak, and a puzzle.
#
# These are counts of what JAX asks for. What XLA makes of it is its own decision, and differs between versions. On this
# machine, with this version, it plans for the temporary memory of the gradient:

# %%
planned = {name: show_hlo(jit(backward(fn)), x).temp_bytes for name, fn in ways.items()}
print("\n".join(f"{name:30}{size / x.nbytes:6.1f} arrays of the size of x" for name, size in planned.items()))

# %% [markdown]
# ## What older posts say

# %%
claims = [
    ("`jit(grad(grad(vmap(f))))` is a composition", "✗", f"{outcome}; `jit(vmap(grad(grad(f))))` is one"),
    ("transformations can be combined at will", "✗", "as their types allow: `grad` wants one number"),
    ("learning is the maximum over y of p(y|x)", "✗", "that is predicting; learning varies the parameters"),
    ("three `grad`s of x³ + 2x at 2: 14, 12, 6", "✓", f"{first(2.0):.0f}, {grad(first)(2.0):.0f}, {third(2.0):.0f}"),
    ("`grad(sum(x * x))` is a `DeviceArray([2., 4., 6.])`", "✗", f"`{grad(lambda x: jnp.sum(x * x))(xs + 1)!r}`"),
    ("`jax.grad` does no tracing", "✗", f"5 calls, {sentences['`grad(f)`'][0]} traces; with `jit` outside, 1"),
    ("`grad` is enough for the usual deep learning", "✓", f"n = 1000: {costs[1000][0]:.1f} times the loss"),
    ("first trace to a jaxpr, then transform it", "✓", "what comes out is a jaxpr again"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}")

# %% [markdown]
# ## Keypoints
#
# - A transformation takes a function to a function. Read a composition from the inside, with the types beside it.
# - `grad` inside, `vmap` around it, `jit` outside: one trace, one program.
# - `grad` lets a Python `if` see the value. One `jit`, or one `vmap` over the argument, and it cannot.
# - Many inputs and few outputs: reverse. Few inputs and many outputs: forward. A gradient costs a few times the function,
#   whatever the number of inputs.
# - `jvp` of `grad` multiplies by the Hessian, and nothing of size $n^2$ is ever made.
# - `where` drops values, not NaNs of derivatives: make the *argument* safe, too.
# - `custom_jvp` teaches JAX what you know and the tape does not. (For new code JAX's documentation recommends
#   [hijax primitives](https://docs.jax.dev/en/latest/301/custom-derivatives.html), which are still experimental.)
# - The way back keeps residuals. `jax.checkpoint` trades them for time; where you put it decides what you get.
#
# ## Your turn
#
# [Exercise 08: composition](../exercises/08_composition/composition.ipynb). You predict two dozen sentences, read a tape
# backwards, run Newton's method without its matrix, find a planet through a loop that has no way back, and put a simulation on
# a diet. Then your `minijit` gets its last piece, `grad`. 24 points.
