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
# - cure a gradient that is `nan`, teach JAX a derivative, and decide what is kept for the backward pass.
#
# About {duration}, in three stages (about {stage} for the first). You need units 02 (jaxprs) and 07 (`vmap`), and from
# mathematics the chain rule.

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown
from jax import grad, hessian, jacfwd, jacrev, jit, vmap

from autograder import show_guess, show_hlo, show_jaxpr, trace_log

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. A grammar
#
# "The transformations do not only work alone; what matters most is that they can be combined at will", says the
# post, and gives the composition above as its example. Here is a function, and three numbers for it.


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
show_guess(guess, outcome)

# %% jupyter={"source_hidden": true}
# Proof
# The composition of the post is an error.
assert outcome == "error"

# %% [markdown]
# The transformations are right and their order is not. A transformation takes a function and makes a function, so it has
# a grammar: what it accepts, and what it makes of it.
#
# | transformation | accepts | makes |
# |---|---|---|
# | `grad` | arrays of floats in, **one number** out | the same in; out comes something packed like the first argument |
# | `jacfwd`, `jacrev` | an array in, an array out | the same in; out comes shape of output + shape of input |
# | `vmap` | anything | the same with one more axis, in and out |
# | `jit` | anything | the same |
#
# Read from the inside: `cubic` takes a number to a number. `vmap(cubic)` takes `[3]` to `[3]`, and there `grad` must
# refuse: the derivative is nine numbers, one for each pair of an output and an input (`jacrev` makes them). So `grad`
# goes first, while there is one number, and `vmap` last. Or one number is made of the batch, by a sum:

# %%
second = jit(vmap(grad(grad(cubic))))
summed = grad(lambda v: vmap(cubic)(v).sum())
print("jit(vmap(grad(grad(cubic))))(xs):", second(xs))
print("vmap(grad(cubic))(xs):           ", vmap(grad(cubic))(xs))
print("grad of the sum of the batch:    ", summed(xs))
print("jacrev(vmap(cubic))(xs), the nine numbers:")
print(jacrev(vmap(cubic))(xs))

# %% jupyter={"source_hidden": true}
# Proof
# The second derivative; the gradient of the sum holds the three slopes, as the examples do not meet.
assert second(xs).tolist() == [0.0, 6.0, 12.0]
assert summed(xs).tolist() == vmap(grad(cubic))(xs).tolist()
assert np.array_equal(jacrev(vmap(cubic))(xs), np.diag(summed(xs)))  # the nine numbers: six are 0

# %% [markdown]
# What older posts show with single transformations still holds: three `grad`s of this function at 2 are "14.0 12.0 6.0"
# (there with the package `autograd`, JAX's ancestor), and the gradient of `sum(x * x)` at `[1, 2, 3]` is `[2, 4, 6]`. As a
# picture, with one `vmap` for each curve:

# %%
first, third = grad(cubic), grad(grad(grad(cubic)))
print(first(2.0), grad(first)(2.0), third(2.0))
print(grad(lambda x: jnp.sum(x * x))(jnp.array([1.0, 2.0, 3.0])))

# %% jupyter={"source_hidden": true}
# Picture: the function and its derivatives
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

# %% jupyter={"source_hidden": true}
# Proof
# The numbers of the posts.
assert [float(d(2.0)) for d in (first, grad(first), third)] == [14.0, 12.0, 6.0]
assert grad(lambda x: jnp.sum(x * x))(jnp.array([1.0, 2.0, 3.0])).tolist() == [2.0, 4.0, 6.0]

# %% [markdown]
# ## 2. Each word writes a new tape
#
# Why can they be combined at all? Because each of them works by the same two means (unit 02): it **traces** the
# function, which gives primitives, and it has one **rule for each primitive**. (A `jit` inside makes the whole jaxpr
# first. `grad` and `vmap` by themselves apply their rules while the function runs; section 3 shows the difference.)
# What the rules do is again a sequence of primitives, and can be written as a jaxpr, so the next transformation can
# read it. The post has this right: "each transformation can be seen as an independent interpreter of jaxprs".
#
# The rules for derivatives are the chain rule, in one of two directions. Let $y = f(x)$, with $n$ numbers in and $m$ out.
# Its derivative is a matrix, the **Jacobian** $J$, with $m$ rows and $n$ columns. Neither direction makes this matrix.
# Each multiplies it by one vector:
#
# | | given | computes | called |
# |---|---|---|---|
# | **forward mode**: `jax.jvp` | the **primal** $x$, which is the value itself, and a **tangent** $\dot x$, a direction in which $x$ moves | $y$, and $\dot y = J\,\dot x$: how $y$ moves then | Jacobian-vector product (**JVP**) |
# | **reverse mode**: `jax.vjp` and `grad` | $x$, and a **cotangent** $\bar y$: how much the final result changes when $y$ moves | $\bar x^{\mathsf T} = \bar y^{\mathsf T} J$: how much it changes when $x$ moves | vector-Jacobian product (**VJP**) |
#
# `jax.jvp(f, (x,), (dx,))` returns $y$ and $\dot y$. `jax.vjp(f, x)` returns $y$ and a function, which takes $\bar y$ and
# returns $\bar x$. `grad` is the VJP of a function with one number out ($m = 1$), with $\bar y = 1$. (All these words stand
# in [the glossary](00_before_you_start.ipynb#The-words), too.)
#
# For $y = \sin b$ with $b = x \cdot x$, the chain rule in the two directions is
#
# $$\text{forward:}\quad \dot b = \dot x\,x + x\,\dot x, \quad \dot y = \dot b \cos b \qquad\qquad
# \text{reverse:}\quad \bar b = \bar y \cos b, \quad \bar x = x\,\bar b + \bar b\,x$$
#
# Look for these lines in the jaxprs (`dx` is $\dot x$):


# %%
def wave(x):
    return jnp.sin(x * x)


def with_tangent(x, dx):
    return jax.jvp(wave, (x,), (dx,))


jaxprs = {
    "wave": jax.make_jaxpr(wave)(2.0),
    "jvp of wave": jax.make_jaxpr(with_tangent)(2.0, 1.0),
    "grad(wave)": jax.make_jaxpr(grad(wave))(2.0),
    "vmap(grad(wave))": jax.make_jaxpr(vmap(grad(wave)))(xs),
}
for name, jaxpr in jaxprs.items():
    print(f"{name}:\n{jaxpr.pretty_print(use_color=False)}\n")

# %% [markdown]
# In forward mode, each equation gets a companion for the tangent, and the pairs come in the order of the original. In
# reverse mode there are two parts. The **forward pass** is the original, with the slopes that will be needed (`cos b`).
# The **backward pass** then goes from the result back to `x` and computes the cotangents. `x` stands in `mul` twice, so it
# gets a cotangent from each place, and `add_any` adds them. `vmap` changed no equation: only types.

# %%
show_jaxpr(grad(wave), 2.0)

# %% [markdown]
# The result of a transformation may be transformed again. What does the jaxpr grow to?

# %%
heights, fn = [], wave
for _ in range(7):
    heights.append(show_jaxpr(fn, 2.0).equations)
    fn = grad(fn)
batched = show_jaxpr(jit(vmap(grad(wave))), xs).equations
Markdown(f"""| `grad`s around `wave` | 0 | 1 | 2 | 3 | 4 | 5 | 6 |
|---|---|---|---|---|---|---|---|
| equations | {" | ".join(map(str, heights))} |

`jit(vmap(grad(wave)))` has {batched}, as many as `grad(wave)`: `vmap` and `jit` add none.
`grad` does. From the second one on, each about doubles the number.""")

# %% jupyter={"source_hidden": true}
# Proof
# vmap and jit add no equation here, six grads add many.
assert batched == heights[1] and heights[6] > 50 * heights[1]

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
    """Runs of the body in five calls, XLA modules of the first call, whether an `if` is allowed."""
    runs = []

    def body(x):
        runs.append(1)
        return jnp.sin(x) ** 3

    composed = make(body)
    jax.clear_caches()
    with trace_log() as log:
        composed(x)
    for _ in range(4):
        composed(x)
    try:
        make(branch)(x)
        return len(runs), log.compiles, True
    except jax.errors.TracerBoolConversionError:
        return len(runs), log.compiles, False


# %%
point = jnp.float32(2.0)
looks = {
    "`grad(f)`": look(grad, point),
    "`jit(grad(f))`": look(lambda f: jit(grad(f)), point),
    "`grad(jit(f))`": look(lambda f: grad(jit(f)), point),
    "`jvp` of `f`": look(lambda f: lambda x: jax.jvp(f, (x,), (x,)), point),
    "`vmap(grad(f))`": look(lambda f: vmap(grad(f)), xs),
    "`jit(vmap(grad(f)))`": look(lambda f: jit(vmap(grad(f))), xs),
}
show_guess(guess, looks["`grad(f)`"][2])

# %% jupyter={"source_hidden": true}
# Table: the six compositions
rows = [f"| {name} | {n} | {modules} | {'✓' if ok else '✗'} |" for name, (n, modules, ok) in looks.items()]
Markdown("| | body runs in 5 calls | XLA modules | Python `if` |\n|---|---|---|---|\n" + "\n".join(rows))

# %% jupyter={"source_hidden": true}
# Proof
# How often the body runs, where an if is allowed, and that jit outside makes one module.
assert [runs for runs, *_ in looks.values()] == [5, 1, 1, 5, 5, 1]
assert [ok for *_, ok in looks.values()] == [True, False, False, True, False, False]
assert looks["`jit(grad(f))`"][1] == 1 < looks["`grad(jit(f))`"][1] < looks["`grad(f)`"][1]

# %% [markdown]
# - `grad` alone traces **in every call**, because its tracer carries the number along. So the body may ask `x > 0`, and
#   gets the derivative of the branch that was taken. (Another old claim, "`jax.grad` does no tracing", is the opposite of
#   the truth.)
# - `jit` inside is enough to trace once, but JAX then compiles the forward pass and the backward pass as separate
#   programs. `jit` **outside** of everything is one program, and XLA sees it whole.
# - One `jit`, or one `vmap` over `x`, takes the value away from everything inside of it, wherever it stands. `vmap` must:
#   it has three values, and one `if`.
#
# So: **`grad` inside, `vmap` around it, `jit` outside.**

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: which direction of the chain rule is cheap, and a matrix that is
# never made.*

# %% [markdown]
# ## 4. Forward or reverse?
#
# `rosenbrock` takes $n$ numbers to one. Its gradient has $n$ numbers. The obvious way to get them, nudging one input after
# the other, costs $n$ evaluations of the function.


# %%
def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


guess = None  # your number: for n = 1000, the FLOPs of grad(rosenbrock) over those of rosenbrock


# %%
def cost(fn, *args):
    """FLOPs of fn, with those of rosenbrock as 1."""
    return show_jaxpr(fn, *args).flops / show_jaxpr(rosenbrock, args[0]).flops


sizes = {n: np.ones(n) for n in (10, 100, 1000)}
reverse = {n: cost(grad(rosenbrock), x) for n, x in sizes.items()}
forward = {n: cost(jacfwd(rosenbrock), x) for n, x in sizes.items()}
show_guess(guess, reverse[1000], "x")

# %% jupyter={"source_hidden": true}
# Table: the cost of the gradient in reverse and in forward mode
rows = "\n".join(f"| {n} | {reverse[n]:.1f} | {forward[n]:.0f} |" for n in sizes)
Markdown(f"| inputs | `grad`, reverse mode | `jacfwd`, forward mode |\n|---|---|---|\n{rows}")

# %% jupyter={"source_hidden": true}
# Proof
# In reverse mode a small constant, in forward mode as many as there are inputs.
assert all(times < 4 for times in reverse.values()) and forward[1000] > 1000

# %% [markdown]
# That small constant, whatever $n$ is, is what makes training possible. The chain rule says why. If $f$ is made of $k$
# steps, its Jacobian is the product of theirs, and where the brackets stand decides what is ever held:
#
# $$J\,\dot x = J_k\,(\cdots(J_2\,(J_1\,\dot x))) \qquad\qquad
# \bar y^{\mathsf T} J = (((\bar y^{\mathsf T} J_k)\cdots)\,J_2)\,J_1$$
#
# Both hold vectors only. A JVP begins at the input and brings the derivative of *every output* in *one direction*. A
# VJP begins at the output and brings the derivative of *one output* (or of one weighted sum of them) by *every input*. So
# a whole Jacobian takes
#
# - `jacfwd`: one JVP for each **input**, with the unit vectors as tangents; they are the columns of $J$;
# - `jacrev`: one VJP for each **output**, with the unit vectors as cotangents; they are the rows of $J$. `grad` is the
#   case of one output.
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

# %% jupyter={"source_hidden": true}
# Picture: FLOPs of a whole Jacobian, over its shape
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

# %% jupyter={"source_hidden": true}
# Proof
# Few inputs, forward mode; few outputs, reverse mode.
assert flops["jacfwd"][0] < flops["jacrev"][0] and flops["jacfwd"][-1] > flops["jacrev"][-1]

# %% [markdown]
# To *train* a model is to choose its numbers, the parameters, so that it fits examples `x` whose right answers `y`,
# their *labels*, are known. That is the right-hand end of this picture: many parameters, one number. An old post puts
# it well: forget layers and frameworks; a model says how probable the label is, $p(y \mid x)$, and learning is a
# maximum like in school. It writes $\max_y p(y \mid x)$, though, and that is *predicting*: the likeliest label for a
# fixed model. Learning keeps the labels and varies the parameters: $\max_\theta p_\theta(y \mid x)$. (For many examples
# one takes the mean of the logarithms, because the product of 200 probabilities would be tiny.) Differentiate, and walk
# uphill:

# %% jupyter={"source_hidden": true}
# Helper: 200 points x with labels y, mostly on one side of a line
rng = np.random.default_rng(8)
x = rng.normal(size=(200, 2)).astype(np.float32)
y = x @ [2.0, -1.0] + 0.3 * rng.normal(size=200) > 0.5


# %%
def log_p(params, x, y):
    """Mean of log p(y | x). The model: y is True with probability sigmoid(x @ w + b), between 0 and 1."""
    logits = x @ params["w"] + params["b"]
    return jnp.where(y, jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)).mean()


@jit
def uphill(params, x, y):
    slope = grad(log_p)(params, x, y)  # packed like params
    return jax.tree.map(lambda p, s: p + 1.0 * s, params, slope)


params, history = {"w": jnp.zeros(2), "b": jnp.zeros(())}, []
with trace_log(uphill) as log:
    for _ in range(200):
        history.append(float(jnp.exp(log_p(params, x, y))))
        params = uphill(params, x, y)

likeliest = params["w"] @ x.T + params["b"] > 0  # max over y, for these parameters: a prediction
print(f"the likeliest label is the true one for {float((likeliest == y).mean()):.0%}")
print("p(y|x), geometric mean, after 0, 10, 199 steps:", *(f"{history[i]:.3f}" for i in (0, 10, 199)))

# %% jupyter={"source_hidden": true}
# Proof
# One trace; p(y|x) starts at one half and grows; the likeliest labels are the maximum over y.
assert log.traces == 1 and abs(history[0] - 0.5) < 1e-6 and history[-1] > 0.8
for label in (likeliest, ~likeliest):
    assert float(log_p(params, x, label)) <= float(log_p(params, x, likeliest))

# %% [markdown]
# ## 5. A Hessian that is never made
#
# The Hessian $H$ of `rosenbrock`, its matrix of second derivatives, has $n^2$ numbers. Methods that use it often need
# just its product with a vector: how does the gradient change along $v$?
#
# $$H\,v = \frac{d}{d\varepsilon}\,\nabla f(x + \varepsilon v)\ \text{ at } \varepsilon = 0$$
#
# $H$ is the Jacobian of the gradient, so this is the JVP of $\nabla f$ with the tangent $v$, a `jvp` of a `grad`. The two
# transformations may even be exchanged:

# %%
f = rosenbrock
products = {
    "`hessian(f)(x) @ v`": lambda x, v: hessian(f)(x) @ v,
    "`jvp` of `grad(f)`": lambda x, v: jax.jvp(grad(f), (x,), (v,))[1],
    "`grad` of `grad(f) · v`": lambda x, v: grad(lambda x: jnp.vdot(grad(f)(x), v))(x),
    "`grad` of `jvp` of `f`": lambda x, v: grad(lambda x: jax.jvp(f, (x,), (v,))[1])(x),
}
x, v = np.linspace(-1, 1, 1000, dtype=np.float32), np.ones(1000, np.float32)
largest = {name: show_jaxpr(product, x, v).largest_size for name, product in products.items()}
lines = ["| for n = 1000 | FLOPs, with `f` as 1 | numbers in the largest value |", "|---|---|---|"]
for name, product in products.items():
    lines.append(f"| {name} | {cost(product, x, v):,.1f} | {largest[name]:,} |")
Markdown("\n".join(lines))

# %% jupyter={"source_hidden": true}
# Proof
# The four agree, and three of them hold no more than n numbers in a value.
with jax.default_matmul_precision("highest"):  # the values shall agree; an accelerator drops digits of products
    results = [jit(product)(x, v) for product in products.values()]
for name, result in zip(products, results, strict=True):
    np.testing.assert_allclose(result, results[0], rtol=1e-3, atol=1e-2)
    assert (largest[name] == 1000) == (name != "`hessian(f)(x) @ v`")

# %% [markdown]
# All four give the same values, and three never hold a value of more than $n$ numbers. So $n$ may be a million; the
# matrix would fill 4,000 GB.

# %%
million = np.linspace(-1, 1, 1_000_000, dtype=np.float32)
hvp = jit(products["`jvp` of `grad(f)`"]).lower(million, million).compile()
start = time.perf_counter()
hvp(million, million).block_until_ready()
seconds = time.perf_counter() - start
print(f"Hessian times vector, n = 1,000,000: {1e3 * seconds:.0f} ms")

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: a gradient that is `nan`, a derivative of your own, and what the
# backward pass keeps.*

# %% [markdown]
# ## 6. The NaN from the branch not taken
#
# The square root, and 0 for all that is not positive. `where` keeps the negative numbers out:


# %%
def root(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


places = (-1.0, 0.0, 4.0)
print("root of -1, 0, 4:", *(root(x) for x in places))
guess = None  # your number, 0 to 3: at how many of these places is grad(root) nan?

# %%
slopes = [grad(root)(x) for x in places]
print("slopes at -1, 0, 4:", *slopes)
show_guess(guess, sum(bool(jnp.isnan(slope)) for slope in slopes))

# %% jupyter={"source_hidden": true}
# Proof
# At -1 and at 0 the slope is nan.
assert np.isnan(grad(root)(-1.0)) and np.isnan(grad(root)(0.0)) and grad(root)(4.0) == 0.25

# %%
show_jaxpr(grad(root), -1.0)

# %% [markdown]
# Follow the graph. In the backward pass, `where` (`select_n`) does its part: it hands the branch that was not taken the
# cotangent **0**. But that branch was *computed*, and so is its derivative. The last `mul` brings the two together:
#
# $$\bar x = 0 \cdot \frac{1}{2\sqrt{x}}:\qquad 0 \cdot \text{nan} = \text{nan at } x = -1,
# \qquad 0 \cdot \infty = \text{nan at } x = 0$$
#
# Selecting afterwards is too late. The cure is a second `where`, **inside**, so that the dangerous operation never meets
# the dangerous number:


# %%
def safe_root(x):
    inside = jnp.where(x > 0, x, 1.0)  # any harmless number
    return jnp.where(x > 0, jnp.sqrt(inside), 0.0)


def if_root(x):
    return jnp.sqrt(x) if x > 0 else 0.0 * x


table = ["| x | `grad(root)` | `grad(safe_root)` | `grad(if_root)` |", "|---|---|---|---|"]
for x in places:
    slopes = (f"{grad(fn)(x):g}" for fn in (root, safe_root, if_root))
    table.append(f"| {x:g} | {' | '.join(slopes)} |")
Markdown("\n".join(table))

# %% jupyter={"source_hidden": true}
# Proof
# With two wheres the slopes are right, under vmap too.
assert vmap(grad(safe_root))(jnp.array([-1.0, 0.0, 4.0])).tolist() == [0.0, 0.0, 0.25]

# %% [markdown]
# A Python `if` has no such trouble, since it runs one branch only. But it lives under `grad` alone, not under `vmap` or
# `jit`. The same trap waits in `x / norm(x)` at 0, in `log` of a masked zero, in the distance of a point to itself.
#
# ## 7. A rule of your own
#
# $\log(1 + e^x)$ is harmless: nearly 0 on the left, nearly $x$ on the right, and its slope is the sigmoid
# $\sigma(x) = 1 / (1 + e^{-x})$, between 0 and 1. But $e^{89}$ is more than `float32` holds. So `log1pexp` has a formula
# that cannot overflow, and a rule for its JVP: the primal $y$, and the tangent $\dot y = \sigma(x)\,\dot x$.


# %%
def naive(x):
    return jnp.log(1 + jnp.exp(x))


@jax.custom_jvp
def log1pexp(x):
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@log1pexp.defjvp
def log1pexp_rule(primals, tangents):  # a tuple each, with an entry for each argument
    (x,), (dx,) = primals, tangents
    return log1pexp(x), jax.nn.sigmoid(x) * dx


extremes = (-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4)
lines = ["| x | naive | its slope | log1pexp | its slope |", "|---|---|---|---|---|"]
for x in extremes:
    cells = [f"{float(fn(x)):.4g} | {float(grad(fn)(x)):.4g}" for fn in (naive, log1pexp)]
    lines.append(f"| {x:g} | {' | '.join(cells)} |")
Markdown("\n".join(lines))

# %% [markdown]
# In `naive`, the value vanishes at -20. At 100 it overflows, and its slope is infinity divided by infinity. Is the rule
# needed at all, once the formula is stable? Here is the same formula without it. The true slope at 0 is one half.


# %%
def without_rule(x):
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


guess = None  # your number: is grad(without_rule)(0.0) 0, 0.5 or 1?

# %%
show_guess(guess, float(grad(without_rule)(0.0)))

# %% [markdown]
# `max` and `abs` have a corner at 0. The corners cancel in the sum, but JAX knows the derivatives of primitives only, and
# for each corner it has to choose a slope: one half for `max`, 1 for `abs`. With these, the slope of the first term is 1/2
# and that of the second one is -1/2. That is no rounding error but plainly wrong, without a warning, and 0 is no rare
# number:

# %%
at_corner = grad(lambda x: jnp.maximum(x, 0))(0.0), grad(jnp.abs)(0.0)
print("slopes at the corners of max and abs:", *at_corner)
second_term = grad(lambda x: jnp.log1p(jnp.exp(-jnp.abs(x))))(0.0)
print("slopes of the two terms:", at_corner[0], second_term)
print("with the rule, slope and second derivative:", grad(log1pexp)(0.0), grad(grad(log1pexp))(0.0))

# %% jupyter={"source_hidden": true}
# Proof
# The slopes at 0, and log1pexp against double precision, in both modes, under jit and vmap.
assert grad(without_rule)(0.0) == 0.0 and grad(log1pexp)(0.0) == 0.5 and grad(grad(log1pexp))(0.0) == 0.25
assert at_corner == (0.5, 1.0) and second_term == -0.5

points = np.array(extremes)
with np.errstate(over="ignore"):
    slope = 1 / (1 + np.exp(-points))  # in float64
for fn, truth in ((log1pexp, np.logaddexp(points, 0)), (grad(log1pexp), slope), (jacfwd(log1pexp), slope)):
    np.testing.assert_allclose(jit(vmap(fn))(points), truth, rtol=1e-5, atol=1e-37)

# %% [markdown]
# `custom_jvp` replaces JAX's derivative of a whole function by yours. You write **forward** mode only; JAX derives the
# backward pass from it, and `jit`, `vmap` and higher derivatives go through, because the rule is written in ordinary JAX
# (and calls `log1pexp` itself). `jax.nn.softplus` is made like this. Its sibling
# [`custom_vjp`](https://docs.jax.dev/en/latest/301/custom-jvp-vjp.html) takes two functions, for the forward pass and
# for the backward pass, and has no forward mode: use it to change what a gradient *is*, for instance to clip it.
#
# There is a newer way. JAX's documentation
# [recommends a **hijax primitive**](https://docs.jax.dev/en/latest/301/custom-derivatives.html) and calls the two
# decorators the classic tools, fully supported. A hijax primitive is a class which holds the function and its rules for
# *both* modes, and it stands as one equation in the jaxpr. It is still experimental, and its names move: in
# `jax.experimental.hijax`, the class to inherit from is `HiPrim` in JAX 0.12 and `VJPHiPrimitive` in 0.10. The folded
# cell is `log1pexp` in this form. (For `vmap` it would need one more rule.)

# %% jupyter={"source_hidden": true}
# Proof
# Log1pexp as a hijax primitive has both modes and is one equation; a custom_vjp has no forward mode.
from jax.experimental import hijax

Base = hijax.HiPrim if hasattr(hijax, "HiPrim") else hijax.VJPHiPrimitive
named = {(0, 10): "VJPHiPrimitive", (0, 12): "HiPrim"}
assert Base.__name__ == named.get(jax.__version_info__[:2], Base.__name__)


class Log1pExp(Base):
    def __init__(self, x_type):
        self.in_avals, self.out_aval, self.params = (x_type,), x_type, {}
        super().__init__()

    def expand(self, x):  # the function
        return without_rule(x)

    def jvp(self, primals, tangents):
        (x,), (dx,) = primals, tangents
        return self(x), jax.nn.sigmoid(x) * dx

    def vjp_fwd(self, _, x):  # the forward pass: the value, and what the backward pass needs
        return self(x), x

    def vjp_bwd_retval(self, x, cotangent):
        return (jax.nn.sigmoid(x) * cotangent,)


def hijax_log1pexp(x):
    return Log1pExp(jax.typeof(x))(x)


def refuses(error, fn):
    try:
        fn()
    except error:
        return True
    return False


assert jit(hijax_log1pexp)(0.0) == log1pexp(0.0) and len(jax.make_jaxpr(hijax_log1pexp)(0.0).eqns) == 1
assert jax.jvp(hijax_log1pexp, (0.0,), (1.0,))[1] == jit(grad(hijax_log1pexp))(0.0) == 0.5
assert grad(grad(hijax_log1pexp))(0.0) == 0.25
assert refuses(NotImplementedError, lambda: vmap(hijax_log1pexp)(xs))

clipped = jax.custom_vjp(lambda x: x)
clipped.defvjp(lambda x: (x, None), lambda _, cotangent: (jnp.clip(cotangent, -1, 1),))
assert grad(lambda x: 5 * clipped(x))(2.0) == 1.0
assert refuses(TypeError, lambda: jax.jvp(clipped, (2.0,), (1.0,)))

# %% [markdown]
# And if a value is to count as a constant, there is `stop_gradient`:

# %%
frozen = grad(lambda x: x * jax.lax.stop_gradient(x))(3.0)
print("grad of x * x:", grad(lambda x: x * x)(3.0), "   of x * stop_gradient(x):", frozen)

# %% jupyter={"source_hidden": true}
# Proof
# Only one of the two factors counts.
assert frozen == 3.0

# %% [markdown]
# ## 8. What is kept for the way back
#
# The backward pass needs numbers from the forward pass, like the `cos b` in section 2. They are called **residuals**, they
# are kept until it is their turn, and they are what fills the memory in training. JAX tells you which
# (`print_saved_residuals`; a folded helper shortens its lines):

# %% jupyter={"source_hidden": true}
# Helper: residuals(fn, x) -> the lines of print_saved_residuals, without places in the source
import contextlib
import io
import re

from jax.ad_checkpoint import print_saved_residuals


def residuals(fn, x):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_saved_residuals(fn, x)
    return [re.sub(r" from /.*| from <.*", "", line) for line in text.getvalue().strip().splitlines()]


# %%
def thrice(x):
    return jnp.sin(jnp.sin(jnp.sin(x)))


print("thrice:", *residuals(thrice, 1.0), sep="\n  ")
print("jax.checkpoint(thrice):", *residuals(jax.checkpoint(thrice), 1.0), sep="\n  ")

# %% jupyter={"source_hidden": true}
# Proof
# Three residuals, and with checkpoint one.
assert len(residuals(thrice, 1.0)) == 3 and len(residuals(jax.checkpoint(thrice), 1.0)) == 1

# %% [markdown]
# What did `jax.checkpoint` do? `jax.checkpoint(f)` returns what `f` returns, with the same types, and has the same gradient.
# It differs in one thing: of the forward pass, only the inputs of `f` are kept. Whatever else the backward pass needs is
# thrown away and **computed again** when the backward pass gets there. That saves memory and costs time. (It is also
# called *rematerialisation*.)
#
# Where to put it, and which results to keep all the same (a `policy`), is up to you. Here are eight layers `h * sigmoid(h)`
# of `h = x @ w`, and four ways. What each of them keeps can be counted: the function that `jax.vjp` returns is a pytree,
# and its leaves are the residuals.

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


# %%
plain, keep_products = network(swish_layer), jax.checkpoint_policies.dots_saveable
ways = {
    "keep everything": plain,
    "policy: keep matrix products": jax.checkpoint(plain, policy=keep_products),
    "checkpoint around each layer": network(jax.checkpoint(swish_layer)),
    "checkpoint around the whole": jax.checkpoint(plain),
}


def kept(fn):
    """Arrays of the size of x that the backward pass finds (the input counts, weights do not)."""
    leaves = jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(fn, x)[1], x))
    return sum(leaf.shape == x.shape for leaf in leaves)


def gradient(fn):
    return grad(lambda x: fn(x).sum())


keeps = {name: kept(fn) for name, fn in ways.items()}
work = {name: show_jaxpr(gradient(fn), x).flops for name, fn in ways.items()}

# %% jupyter={"source_hidden": true}
# Picture: what each way keeps, and what it computes
fig, axes = plt.subplots(1, 2, figsize=(8.4, 2.5), sharey=True)
relative = [flops / work["keep everything"] for flops in work.values()]
for ax, values, title, form in (
    (axes[0], list(keeps.values()), "arrays that are kept", "{:.0f}"),
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

# %% jupyter={"source_hidden": true}
# Proof
# The four gradients agree; what is kept, and what it costs.
gradients = [jit(gradient(fn))(x) for fn in ways.values()]
assert all(np.allclose(g, gradients[0], rtol=1e-4, atol=1e-5) for g in gradients)
assert list(keeps.values())[0] > 2 * list(keeps.values())[1] and list(keeps.values())[3] == 1
assert relative[1] < 1.05 < 1.3 < relative[3] < 1.7

# %% [markdown]
# The policy is nearly free: it keeps what is expensive to compute again and drops what is cheap. The two checkpoints run
# every layer a second time. The lowest bar is not the best one, though. "Around the whole" keeps one array after the
# forward pass, but the backward pass then runs all eight layers again **before** it can start, and all their residuals are
# there at once. The exercise has a meter for that peak, and a puzzle.
#
# These are counts of what JAX asks for. What XLA makes of it is its own decision, and differs between versions. On this
# machine, with this version, it plans for the temporary memory of the gradient:

# %%
planned = {name: show_hlo(jit(gradient(fn)), x).temp_bytes for name, fn in ways.items()}
for name, size in planned.items():
    print(f"{name:30}{size / x.nbytes:6.1f} arrays of the size of x")

# %% [markdown]
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of older posts, and what was measured above
claims = [
    ("`jit(grad(grad(vmap(f))))` is a composition", "✗", f"{outcome}; `jit(vmap(grad(grad(f))))` is one"),
    ("transformations can be combined at will", "✗", "as their types allow: `grad` wants one number"),
    ("learning is the maximum over y of p(y\\|x)", "✗", "that is predicting; learning varies the parameters"),
    ("three `grad`s of x³ + 2x at 2: 14, 12, 6", "✓", f"{first(2.0):.0f}, {grad(first)(2.0):.0f}, {third(2.0):.0f}"),
    ("`grad(sum(x * x))` is a `DeviceArray([2., 4., 6.])`", "✗", f"`{grad(lambda x: jnp.sum(x * x))(xs + 1)!r}`"),
    ("`jax.grad` does no tracing", "✗", f"5 calls, {looks['`grad(f)`'][0]} traces; with `jit` outside, 1"),
    ("`grad` is enough for the usual deep learning", "✓", f"cost, n = 1000: {reverse[1000]:.1f} times the loss"),
    ("first trace to a jaxpr, then transform it", "half", "`grad(jit(f))` does; `grad` alone sees the value"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}")

# %% [markdown]
# ## Keypoints
#
# - A transformation takes a function to a function. Read a composition from the inside, with the types beside it.
# - `grad` inside, `vmap` around it, `jit` outside: one trace, one program.
# - `grad` lets a Python `if` see the value. One `jit`, or one `vmap` over the argument, and it cannot.
# - Forward mode carries a tangent from input to output (JVP), reverse mode a cotangent from output to input (VJP). Many
#   inputs and few outputs: reverse. Few inputs and many outputs: forward. A gradient costs a few times the function,
#   whatever the number of inputs.
# - `jvp` of `grad` multiplies by the Hessian, and nothing of size $n^2$ is ever made.
# - `where` drops values, not NaNs of derivatives: make the *argument* safe, too.
# - `custom_jvp` teaches JAX what you know and the jaxpr does not. The newer way, hijax primitives, is still experimental.
# - The backward pass needs residuals of the forward pass. `jax.checkpoint` computes them again instead of keeping them;
#   where you put it decides what you get.
#
# ## Your turn
#
# [Exercise 08: composition](../exercises/08_composition/composition.ipynb). You predict two dozen compositions, read a
# jaxpr backwards, run Newton's method without its matrix, find a planet through a loop that has no backward pass, and put a
# simulation on a diet. Then your `minijit` gets its last piece, `grad`. 26 points.
