# %% [markdown]
# # 07 · Batch everything
#
# **You wrote a function for one example, and you have a thousand examples. Where does the loop go?**
#
# You will
#
# - say which axis `vmap` takes from each argument, and where it puts the new one;
# - read what `vmap` made of a jaxpr, and choose between `jit(vmap(f))` and `vmap(jit(f))`;
# - know its three bills: both branches run, everybody waits for the slowest, and everything is in memory at once.
#
# About {duration}, in three stages (about {stage} for the first). You need jaxprs from unit 02 and the loops from unit 06.

# %%
from collections import Counter

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown
from jax import lax, vmap

from autograder import benchmark, show_guess, show_hlo, show_jaxpr, trace_log

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. A loop, and no loop
#
# Two vectors go in, a number comes out. There are 512 vectors to compare with one query, and two ways to do it. How
# many times faster will the second be?


# %%
def vec_vec_dot(x, y):
    """vector-vector dot, ([a], [a]) -> []"""
    return jnp.dot(x, y)


def by_loop(rows, query):
    return [vec_vec_dot(row, query) for row in rows]


by_vmap = jax.vmap(vec_vec_dot, in_axes=(0, None))

rng = np.random.default_rng(0)
rows = rng.normal(size=(512, 64)).astype(np.float32)
query = rng.normal(size=64).astype(np.float32)

guess = None  # your number: the loop's time over vmap's

# %%
loop, batched = benchmark(by_loop, rows, query, rounds=3), benchmark(by_vmap, rows, query)
one_by_one, at_once = np.array(by_loop(rows, query)), by_vmap(rows, query)
last_digits = int((one_by_one != at_once).sum())
print("loop:", loop)
print("vmap:", batched)
print(f"of 512 results, {last_digits} differ in the last digits (other code may add in another order)")
show_guess(guess, loop.median / batched.median, "x")

# %% jupyter={"source_hidden": true}
# Proof
# The results agree but for the last digits.
assert np.allclose(one_by_one, at_once, rtol=1e-4, atol=1e-4)

# %% [markdown]
# Neither is jitted. So who calls `vec_vec_dot` 512 times so fast? Ask the function. This is the example of a much-read
# introduction, with one `print` added: three numbers in a row, two rows, one vector for both.

# %%
calls = []


def vec_vec_dot(x, y):
    """vector-vector dot, ([a], [a]) -> []"""
    calls.append((x.shape, y.shape))
    print("    inside, x is", x)
    return jnp.dot(x, y)


x, y = jnp.array([1, 1, 2]), jnp.array([2, 1, 1])
xx = jnp.array([[1, 1, 2], [1, 1, 2]])
mat_vec = jax.vmap(vec_vec_dot, in_axes=(0, None), out_axes=0)  # ([b,a], [a]) -> [b]

print(repr(vec_vec_dot(x, y)))
both = mat_vec(xx, y)
print(repr(both))
print("calls of the body:", len(calls))

# %% jupyter={"source_hidden": true}
# Proof
# The body ran once without vmap and once under it, with the shapes of one example.
assert calls == [((3,), (3,)), ((3,), (3,))] and both.tolist() == [5, 5]

# %% [markdown]
# One call is ours, the other one `vmap`'s. Nobody calls it 512 times. It ran **once**, with a stand-in (a tracer, unit
# 02) that says it is `int32[3]` and holds the whole `int32[2,3]`. Inside the function there is no batch axis:
# `x.shape` is `(3,)`, and you program as if there were one example. Each operation on the stand-in is replaced by one
# that does the whole batch. The loop went into the primitives.
#
# (The introduction's output reads `DeviceArray(5, dtype=int32)` and `DeviceArray([5, 5], dtype=int32)`. The numbers
# are the same; the class is called `Array` today.)
#
# ## 2. Which axis goes in, which comes out
#
# - `in_axes` has an entry for each positional argument: the axis that is **taken away**, or `None` if every call gets
#   the argument whole.
# - `out_axes` says where the new axis is **put in**.
#
# Below, a colour is a call; grey belongs to every call. What one call sees is what one colour covers.

# %% jupyter={"source_hidden": true}
# Picture: five settings of in_axes and out_axes
dot, add = jnp.dot, jnp.add
M, four, three = np.arange(1, 13).reshape(3, 4), np.array([1, 0, 0, 2]), np.array([10, 20, 30])
SETTINGS = [
    ("dot", (0, None), 0, M, four),
    ("dot", (1, None), 0, M, three),
    ("dot", (0, 0), 0, M, M[::-1]),
    ("add", (0, 0), 0, M, three),
    ("add", (0, None), 1, M, four),
]


def draw_grid(ax, values, axis, title):
    """A vector or a matrix as cells, coloured by their index along `axis`; grey if that is None."""
    for (i, j), value in np.ndenumerate(np.atleast_2d(values)):
        call = None if axis is None else (i, j)[axis + 2 - values.ndim]
        colour = "#d4d4d4" if call is None else f"C{call}"
        ax.add_patch(plt.Rectangle((j, i), 0.94, 0.94, color=colour, alpha=0.55))
        ax.text(j + 0.47, i + 0.49, value, ha="center", va="center", size=10)
    ax.set(xlim=(-0.1, 4.1), ylim=(ax.get_ylim()[0], -0.1), aspect="equal", anchor="NW")
    ax.set_title(title, size=10, weight="normal", loc="left", pad=3)
    ax.axis("off")


heights = [3, 3, 3, 3, 4]
fig, table = plt.subplots(5, 4, figsize=(9, 8.2), width_ratios=[1.3, 1, 1, 1], height_ratios=heights)
for axes, height, (name, in_axes, out_axes, a, b) in zip(table, heights, SETTINGS, strict=True):
    plt.setp(axes, ylim=(height, 0))
    result = jax.vmap({"dot": dot, "add": add}[name], in_axes, out_axes)(a, b)
    label = f"vmap({name},\n  in_axes={in_axes},\n  out_axes={out_axes})"
    axes[0].text(0, 1, label, family="monospace", size=10, va="top", transform=axes[0].transAxes)
    axes[0].axis("off")
    draw_grid(axes[1], a, in_axes[0], f"x {a.shape}")
    draw_grid(axes[2], b, in_axes[1], f"y {b.shape}")
    draw_grid(axes[3], result, out_axes, f"result {result.shape}")
plt.show()

# %% [markdown]
# Rows 1 and 2 are the same matrix, cut in two directions. Row 4 is what NumPy refuses: a `(3, 4)` plus a `(3,)`. For
# one call it is a `(4,)` plus a number, and nobody has to write `[:, None]`. Row 5 differs from plain addition only
# in where the results are put: as columns.
#
# With three axes, the same rule. (Axis 0 goes into the depth, axis 1 down, axis 2 to the right.)

# %%
solid = np.arange(24.0).reshape(2, 3, 4)
results = [jax.vmap(jnp.sum, in_axes=axis)(solid).shape for axis in range(3)]
print("vmap(jnp.sum) gives one number a colour:", results)

# %% jupyter={"source_hidden": true}
# Picture: the three ways to cut a solid
fig, table = plt.subplots(1, 3, figsize=(10, 3.6), subplot_kw={"projection": "3d"})
for axis, ax in enumerate(table):
    call_of = np.indices(solid.shape)[axis]
    colours = np.array([f"C{call}" for call in range(4)])[call_of]
    faces = np.flip(colours.transpose(2, 0, 1), 2)  # axis 0 into the depth, axis 1 down, axis 2 to the right
    ax.voxels(np.ones((4, 2, 3)), facecolors=faces, edgecolor="white", linewidth=1.2, shade=False)
    seen = np.take(solid, 0, axis).shape
    ax.set_title(f"in_axes={axis}: {solid.shape[axis]} calls,\neach sees {seen}", loc="center", size=11)
    ax.set(box_aspect=(4, 2, 3))
    ax.view_init(elev=22, azim=-60)
    ax.set_axis_off()
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# There are as many calls as the axis is long.
assert results == [(2,), (3,), (4,)]

# %% [markdown]
# Two errors that everybody meets. The first is plain: axes that are walked together must be equally long. The second is
# a trap: `in_axes` speaks of positional arguments only, and an argument passed **by keyword is always mapped over
# axis 0**. Pass it by position, with `None`.


# %%
def scaled(x, scale):
    return x * scale


four = np.array([1, 0, 0, 2])
try:
    jax.vmap(jnp.dot)(jnp.ones((4, 3)), jnp.ones((5, 3)))
except ValueError as error:
    print(error, "\n")
try:
    jax.vmap(scaled)(four, scale=2.0)
except ValueError as error:
    print(error, "\n")
print("by position:", jax.vmap(scaled, in_axes=(0, None))(four, 2.0))

# %% jupyter={"source_hidden": true}
# Proof
# By position, with None, the scale goes to every call.
assert jax.vmap(scaled, in_axes=(0, None))(four, 2.0).tolist() == [2, 0, 0, 4]

# %% [markdown]
# ## 3. Trees
#
# An argument can be a [pytree](00_before_you_start.ipynb#The-words), that is a container (dict, list, tuple, …) of
# arrays, its *leaves*. Then its entry in `in_axes` can be such a container too, and one number stands for a whole
# subtree. Here, three models with their own weights share one scale, and all of them look at the same point:


# %%
def predict(model, point):
    return model["scale"] * (model["w"] @ point + model["b"])


models = {"w": rng.normal(size=(3, 2)), "b": np.zeros(3), "scale": 2.0}
point = np.ones(2)
each_model = jax.vmap(predict, in_axes=({"w": 0, "b": 0, "scale": None}, None))
print("three models, one point:", each_model(models, point))

# %% [markdown]
# Where all leaves are mapped alike, one number stands for the whole tree:

# %%
alike = {"w": models["w"], "b": models["b"], "scale": np.full(3, 2.0)}
print("three models, one point:", jax.vmap(predict, in_axes=(0, None))(alike, point))

# %% jupyter={"source_hidden": true}
# Proof
# The two agree.
assert np.allclose(jax.vmap(predict, in_axes=(0, None))(alike, point), each_model(models, point))

# %% [markdown]
# That is an **ensemble**: the same function, a stack of parameters. No list of models, no loop over them, and one
# program.
#
# ## 4. vmap of vmap
#
# A `vmap` makes one axis. For a table you need two, so apply it twice. The **outer** one makes the **first** axis. Here
# it gives the distances of 160 x 240 pixels to 12 points, the *seeds*; the pixels need two axes, so there is a third
# `vmap`:


# %%
def distance(p, q):
    """Two points ([2], [2]) -> their distance []"""
    return jnp.sqrt(jnp.sum((p - q) ** 2))


to_all = jax.vmap(distance, in_axes=(None, 0))  # one p, every q:   ([2], [m,2]) -> [m]
table_of = jax.vmap(to_all, in_axes=(0, None))  # every p, every q: ([n,2], [m,2]) -> [n,m]

x, y = jnp.linspace(0, 1.5, 240), jnp.linspace(0, 1, 160)
pixels = jnp.stack(jnp.meshgrid(x, y), -1)  # [160,240,2]
seeds = jnp.asarray(rng.uniform(size=(12, 2)).astype(np.float32)) * jnp.array([1.5, 1.0])

guess = None  # the shape of jax.vmap(table_of, in_axes=(0, None))(pixels, seeds), as a tuple

# %%
far = jax.jit(jax.vmap(table_of, in_axes=(0, None)))(pixels, seeds)
show_guess(guess, far.shape)

# %% jupyter={"source_hidden": true}
# Picture: the distance to one seed, and the nearest seed of each pixel
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.1))
left.imshow(far[:, :, 0], extent=(0, 1.5, 1, 0))
left.set_title("distance to seed 0")
right.imshow(far.argmin(axis=-1), extent=(0, 1.5, 1, 0), cmap="tab20")
right.set_title("the nearest of 12 seeds")
for ax in (left, right):
    ax.plot(*seeds.T, "wo", markersize=4)
    ax.axis("off")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The shape, read from the outside in.
assert far.shape == (160, 240, 12)

# %% [markdown]
# The function that you wrote knows two points. Pixel rows, pixels and seeds are three `vmap`s, and you could have read
# the shape off them from the outside in.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: what `vmap` writes, where `jit` belongs, and the first bill.*

# %% [markdown]
# ## 5. What vmap wrote
#
# `vmap` works primitive by primitive: for each it has a rule that says what it becomes when some operands have one more
# axis. Mostly that is the same primitive. Look at what becomes of `jnp.dot` on two vectors. Its primitive is
# `dot_general` (unit 02): it says which axes are *contracted* (multiplied and summed), and which are *batch axes*,
# walked together. A folded helper reads that from the jaxpr.


# %% jupyter={"source_hidden": true}
# Helper: dots(fn, *args) -> the axes of the dot_general in a jaxpr, and the other primitives
def dots(fn, *args):
    """The dimension_numbers of the dot_generals in a jaxpr, and the other primitives."""
    jaxpr = jax.make_jaxpr(fn)(*args)
    numbers = [eqn.params["dimension_numbers"] for eqn in jaxpr.eqns if eqn.primitive.name == "dot_general"]
    (((left, right), (batch_left, batch_right)),) = numbers
    others = ", ".join(eqn.primitive.name for eqn in jaxpr.eqns if eqn.primitive.name != "dot_general")
    batch = [f"{i} with {j}" for i, j in zip(batch_left, batch_right, strict=True)]
    return f"{left[0]} with {right[0]} | {', '.join(batch) or 'none'} | {others or 'nothing'}"


# %%
dot = jnp.dot
A, B, v = jnp.ones((4, 3)), jnp.ones((5, 3)), jnp.ones(3)
programs = {
    "`dot`": (dot, v, v),
    "`vmap(dot, (0, None))`": (vmap(dot, (0, None)), A, v),
    "`vmap(dot)`": (vmap(dot), A, A),
    "`vmap(vmap(dot, (None, 0)), (0, None))`": (vmap(vmap(dot, (None, 0)), (0, None)), A, B),
    "`vmap(vmap(dot, (0, None)), (None, 0))`": (vmap(vmap(dot, (0, None)), (None, 0)), A, B),
}
found = {name: dots(*program) for name, program in programs.items()}
lines = "\n".join(f"| {name} | {text} |" for name, text in found.items())
Markdown(f"| program | contracts axis | batch axis | besides |\n|---|---|---|---|\n{lines}")

# %% jupyter={"source_hidden": true}
# Proof
# One dot_general in each, with these axes.
assert list(found.values()) == [
    "0 with 0 | none | nothing",
    "1 with 0 | none | nothing",
    "1 with 1 | 0 with 0 | nothing",
    "1 with 1 | none | nothing",
    "1 with 1 | none | transpose",
]

# %% [markdown]
# There is one `dot_general` in each. A batch against one vector became a matrix-vector product. Two batches that are
# walked together got a **batch axis**. And the double `vmap` is a matrix product: you wrote the dot product of two
# vectors and got a matrix multiplication, with its fast code. The last line has its `vmap`s the other way round:
# it computes the same table, then turns it.
#
# The whole jaxpr, before and after:

# %%
print(jax.make_jaxpr(dot)(v, v))
print(jax.make_jaxpr(vmap(dot))(A, A))

# %% [markdown]
# How hard is it to write a `vmap`? Here is one, for batches on axis 0 of every argument. It makes the jaxpr for one
# example, then goes through its equations with a rule for each primitive. (A `Literal` is a number that stands in the
# jaxpr itself.)

# %%
from jax.extend.core import Literal

RULES = {
    "mul": lambda x, y, **_: x * y,
    "tanh": lambda x, **_: jnp.tanh(x),
    "reduce_sum": lambda x, axes, **_: jnp.sum(x, axis=tuple(axis + 1 for axis in axes)),
}


def my_vmap(fn):
    def batched(*args):
        one = [jax.ShapeDtypeStruct(arg.shape[1:], arg.dtype) for arg in args]
        jaxpr = jax.make_jaxpr(fn)(*one).jaxpr
        value_of = dict(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            operands = [v.val if isinstance(v, Literal) else value_of[v] for v in eqn.invars]
            value_of[eqn.outvars[0]] = RULES[eqn.primitive.name](*operands, **eqn.params)
        return value_of[jaxpr.outvars[0]]

    return batched


# %%
def score(x, y):
    return jnp.sum(jnp.tanh(x * y) * 2.0)


print(jax.make_jaxpr(score)(v, v))
print(jax.make_jaxpr(my_vmap(score))(A, A))

# %% jupyter={"source_hidden": true}
# Proof
# It agrees with vmap.
assert np.allclose(my_vmap(score)(A, A), jax.vmap(score)(A, A))

# %% [markdown]
# `mul` and `tanh` do not care how long an array is. `reduce_sum` must be told that its axis moved one to the right.
# That is all `vmap` is: a rule for each primitive, most of them dull, and a little bookkeeping about who has the extra
# axis and where.
#
# ## 6. jit(vmap(f)) or vmap(jit(f))?
#
# Both give the same numbers. Forty operations on 64 numbers; how many times faster is `jit(vmap(f))` than
# `vmap(jit(f))`, once both are warm?


# %%
def forty(x):
    runs.append(1)
    for _ in range(20):
        x = jnp.sin(x) * 1.5
    return x


guess = None  # your number


# %%
def watch(fn, x):
    """Runs of the body in three calls, programs built by the first, and a warm call's seconds."""
    jax.clear_caches()
    bodies, built = [], []
    for _ in range(3):
        runs.clear()
        with trace_log() as log:
            jax.block_until_ready(fn(x))
        bodies.append(len(runs))
        built.append(log.compiles)
    return bodies, built[0], benchmark(fn, x, rounds=25).median


runs, numbers = [], jnp.linspace(0, 1, 64)
orders = {"vmap(f)": vmap(forty), "vmap(jit(f))": vmap(jax.jit(forty))}
orders |= {"jit(vmap(f))": jax.jit(vmap(forty)), "jit(vmap(jit(f)))": jax.jit(vmap(jax.jit(forty)))}
seen = {name: watch(fn, numbers) for name, fn in orders.items()}
show_guess(guess, seen["vmap(jit(f))"][2] / seen["jit(vmap(f))"][2], "x")

# %% jupyter={"source_hidden": true}
# Table: the four orders
lines = [f"| `{name}` | {bodies} | {built} | {1e6 * t:,.0f} µs |" for name, (bodies, built, t) in seen.items()]
Markdown("| | body runs in calls 1, 2, 3 | programs built | a warm call |\n|---|---|---|---|\n" + "\n".join(lines))

# %% jupyter={"source_hidden": true}
# Proof
# vmap alone runs the body in every call, with a jit anywhere it runs once; the four agree.
assert [bodies for bodies, _, _ in seen.values()] == [[1, 1, 1]] + 3 * [[1, 0, 0]]
assert all(np.allclose(fn(numbers), orders["vmap(f)"](numbers), atol=1e-5) for fn in orders.values())

# %% [markdown]
# `vmap` alone is not compiled: the body runs at every call, and each operation is dispatched by itself. With `jit`
# inside, the body is one program, but `vmap` goes over its jaxpr anew in every call. With `jit` outside, all that has
# happened once and for all. So put **`jit` outside**. A function that is jitted already can stay so: in the last row,
# too, the body runs once.
#
# ## 7. The first bill: both branches run
#
# `lax.cond` runs one branch. What if some examples of a batch want the one, and some the other? Unit 06 saw that both
# sides run; here we count. 64 numbers come in, and one of them needs the expensive branch. Each branch makes a note
# of each run, for each example (with a callback, folded). How many notes are there in all, of both branches?

# %% jupyter={"source_hidden": true}
# Helper: note(what, x) counts a run for each example; count(fn, *args) -> the notes of one call
ledger = Counter()


def note(what, x):
    """Count each run, for each example."""
    jax.debug.callback(lambda _: ledger.update([what]), x)


def count(fn, *args):
    jax.effects_barrier()
    ledger.clear()
    jax.block_until_ready(fn(*args))
    jax.effects_barrier()
    return dict(ledger)


# %%
def expensive(x):
    note("expensive", x)
    return lax.fori_loop(0, 300, lambda i, v: jnp.sin(v) + 1, x)


def cheap(x):
    note("cheap", x)
    return x + 1


def choose(x):
    return lax.cond(x > 62, expensive, cheap, x)


batch = jnp.arange(64.0)
guess = None  # your number: notes of both branches in one call of jit(vmap(choose))(batch)

# %%
with_vmap = count(jax.jit(vmap(choose)), batch)
with_map = count(jax.jit(lambda x: lax.map(choose, x)), batch)  # a loop over the examples
print("vmap:   ", with_vmap)
print("lax.map:", with_map)
show_guess(guess, sum(with_vmap.values()), "notes")

# %% jupyter={"source_hidden": true}
# Proof
# Under vmap both branches run for every example.
assert with_vmap == {"expensive": 64, "cheap": 64} and with_map == {"expensive": 1, "cheap": 63}

# %% [markdown]
# One program cannot take two ways at once, so `vmap` lets every example go both ways and picks afterwards. The `cond`
# is gone, in the jaxpr and in the compiled program:


# %%
def choose(x):
    return lax.cond(x > 62, lambda v: jnp.sin(v) * 3, lambda v: v + 1, x)


def by_flag(flag, x):
    return lax.cond(flag, jnp.sin, jnp.cos, x)


one, many = show_jaxpr(choose, 1.0), show_jaxpr(vmap(choose), batch)
shared = show_jaxpr(vmap(by_flag, (None, 0)), True, batch)
print("one example:   ", dict(one.primitives))
print("a batch:       ", dict(many.primitives))
print("one predicate: ", dict(shared.primitives))
compiled = (show_hlo(jax.jit(fn), x) for fn, x in ((choose, 1.0), (vmap(choose), batch)))
branches = [program.ops["conditional"] for program in compiled]
print("conditionals in the compiled programs of the first two:", branches)
many

# %% jupyter={"source_hidden": true}
# Proof
# Under vmap no cond is left, unless all examples share the predicate.
assert branches == [1, 0] and "cond" in one.primitives and "cond" not in many.primitives
assert "cond" in shared.primitives

# %% [markdown]
# `select_n` is `jnp.where`. If the predicate itself is not batched (`in_axes=None`, "one predicate"), there is one
# way for all, and the `cond` stays. If a branch is expensive and few examples want it, do not leave the choice to `vmap`:
# the exercise has a better idea.
#
# In the picture stand two `stop_gradient`s. (`stop_gradient(x)` is `x`, but `grad` takes it for a constant.) What are
# they for? Older answers warn that a `vmap`ped `cond` brings back a well-known trap: the branch not taken is computed,
# and in the gradient its slope is multiplied by 0. At 0 the slope of the root is infinite, and 0 times infinity is NaN.
# Here are the root's gradients at 0, 1 and -1:


# %%
def safe_root(x):
    return lax.cond(x > 0, jnp.sqrt, lambda v: 0.0 * v, x)


def where_root(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0 * x)


x = jnp.array([0.0, 1.0, -1.0])
slopes = {fn.__name__: vmap(jax.grad(fn))(x).tolist() for fn in (where_root, safe_root)}
print(slopes)

# %% jupyter={"source_hidden": true}
# Proof
# Where gives NaN, a vmapped cond does not.
assert slopes["safe_root"] == [0.0, 0.5, 0.0] and np.isnan(slopes["where_root"]).tolist() == [True, False, True]

# %% [markdown]
# With `where` the warning holds. With a `vmap`ped `cond` it no longer does: for an example that takes the other branch,
# `stop_gradient` cuts the operand off from the gradient. The branch runs, and its slope does not count. Unit 08 goes
# into this.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: the other two bills, a gradient for every example, and noise.*

# %% [markdown]
# ## 8. The second bill: everybody waits for the slowest
#
# A `while_loop` ends when its example is done. Under `vmap` it ends when the **last** one is done; the others go round
# with it and their results are thrown away. The Mandelbrot set makes this visible. The function is for one point, and
# says after how many rounds it has escaped, at most 100:

# %%
LIMIT = 100


def escape(c):
    """One complex number -> rounds until |z| > 2, at most LIMIT."""

    def going(state):
        z, rounds = state
        return (jnp.abs(z) <= 2) & (rounds < LIMIT)

    def step(state):
        z, rounds = state
        return z * z + c, rounds + 1

    return lax.while_loop(going, step, (jnp.zeros_like(c), 0))[1]


guess = None  # your number: of all rounds that are computed, how many percent are needed?

# %%
re, im = jnp.linspace(-2.2, 0.8, 300), jnp.linspace(-1.25, 1.25, 250)
picture = jax.jit(vmap(vmap(lambda y, x: escape(x + 1j * y), (None, 0)), (0, None)))
rounds = np.asarray(picture(im, re))
needed, computed = rounds.sum(), rounds.size * rounds.max()
show_guess(guess, 100 * needed / computed, "%")

# %% jupyter={"source_hidden": true}
# Picture: rounds that each pixel needs, and who still has work
still = [(rounds > r).mean() for r in range(rounds.max())]
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=[1.1, 1])
image = left.imshow(rounds, extent=(-2.2, 0.8, 1.25, -1.25), cmap="cividis", norm="log", aspect="auto")
fig.colorbar(image, ax=left, label="rounds needed (log)")
left.set_title("escape(c)")
left.axis("off")
right.fill_between(range(len(still)), still, 1, color="C1", alpha=0.35, label="computed and thrown away")
right.fill_between(range(len(still)), still, color="C0", alpha=0.6, label="needed")
right.set(xlabel="round", ylabel="share of the pixels", title="Who still has work", ylim=(0, 1), xlim=(0, 99))
right.legend(loc="upper right")
plt.show()

# %% [markdown]
# Nothing warns you. One slow example in a batch is enough. 20,000 numbers, Collatz steps until 1 (an even number is
# halved, an odd one becomes 3n + 1); in the second batch, a single number is another one:


# %%
def collatz(n):
    """Steps until n is 1."""

    def step(state):
        n, steps = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

    return lax.while_loop(lambda state: state[0] != 1, step, (n, 0))[1]


all_quick = jnp.full(20_000, 8)
one_slow = all_quick.at[5000].set(77_031)  # a copy with another number at place 5000
steps = jax.jit(vmap(collatz))
quick, slow = (1e6 * benchmark(steps, batch).median for batch in (all_quick, one_slow))
print(f"3 rounds: {quick:.0f} µs")
print(f"with one number that needs 350: {slow:.0f} µs, {slow / quick:.0f} times as long")

# %% jupyter={"source_hidden": true}
# Proof
# 3 rounds for all, and 350 for one.
assert steps(all_quick).max() == 3 and steps(one_slow).max() == 350 and jnp.median(steps(one_slow)) == 3

# %% [markdown]
# The cure is to batch like with like: sort by cost, or hand over smaller batches. How much of the work is needed if
# every batch of 300 pixels ends by itself:


# %%
def useful(order):
    batches = rounds.ravel()[order].reshape(-1, 300)
    return 100 * batches.sum() / (batches.max(axis=1) * 300).sum()


by_row, by_cost = useful(np.arange(rounds.size)), useful(np.argsort(rounds, axis=None))
print(f"all at once    {100 * needed / computed:.0f} %")
print(f"row by row     {by_row:.0f} %")
print(f"sorted by cost {by_cost:.0f} %")

# %% jupyter={"source_hidden": true}
# Proof
# Smaller batches waste less, sorted ones least.
assert 100 * needed / computed < by_row < by_cost

# %% [markdown]
# (`lax.map(escape, cs, batch_size=300)` does that: a loop over batches, with a `vmap` inside. Sorting needs a guess of
# the cost beforehand; often there is a good one, such as the length of a sentence.)
#
# ## 9. The third bill: memory
#
# A loop needs the scratch space of one example. `vmap` needs everybody's at once. 400 matrices are raised to a power,
# and only a trace is kept of each. (The compiler says beforehand how much memory its program will need, in its memory
# analysis, `compiled.memory_analysis()`: unit 11.)


# %%
def trace_of_power(m):
    return jnp.trace(m @ m @ m @ m @ m)


matrices = jnp.ones((400, 64, 64))
ways = {
    "vmap": vmap(trace_of_power),
    "lax.map": lambda ms: lax.map(trace_of_power, ms),
    "lax.map, batch_size=20": lambda ms: lax.map(trace_of_power, ms, batch_size=20),
}
scratch = {name: show_hlo(jax.jit(fn), matrices).temp_bytes for name, fn in ways.items()}
for name, size in scratch.items():
    print(f"{name:24}{size / 1e6:7.2f} MB of scratch space")

# %% jupyter={"source_hidden": true}
# Proof
# The loop needs least, vmap most, and a batch size lies between.
assert scratch["lax.map"] < scratch["lax.map, batch_size=20"] < scratch["vmap"]

# %% [markdown]
# `batch_size` is the dial between them. When a batch does not fit, turn it before you rewrite anything.
#
# ## 10. Every example its own gradient
#
# A **model** is a function with numbers to be chosen, its *parameters*. A **loss** says how badly it answers for an
# example whose right answer, the *label*, is known. To **train** a model is to move its parameters again and again a
# little against the gradient of the mean loss.
#
# `grad` of a mean loss gives one gradient, the mean. Who pulled in which direction, it does not say. `vmap` around
# `grad` does: the gradient of one example is a function like any other. 80 points with labels +1 and -1, four labels
# are wrong. Can you find them by their gradients? First a small model is trained on all of them, in a hundred steps of
# 0.5 times the gradient of the mean. (`jax.tree.map` does the same to each leaf of a tree.)

# %% jupyter={"source_hidden": true}
# Helper: 80 points in two groups, and their labels, four of them wrong
labels = np.repeat([1.0, -1.0], 40)
points = (rng.normal(size=(80, 2)) + labels[:, None] * [1.6, 1.1]).astype(np.float32)
wrong = np.array([7, 21, 50, 66])
labels[wrong] *= -1


# %%
def loss(params, point, label):
    """Loss of one example, small where w @ point + b has the label's sign: ({w: [2], b: []}, [2], []) -> []"""
    return jnp.logaddexp(0.0, -label * (params["w"] @ point + params["b"]))


def mean_loss(params):
    return vmap(loss, (None, 0, 0))(params, points, labels).mean()


params = {"w": jnp.zeros(2), "b": jnp.zeros(())}
gradient_of_mean = jax.jit(jax.grad(mean_loss))
for _ in range(100):
    params = jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient_of_mean(params))

# %% [markdown]
# Now one gradient for each example:

# %%
per_example = jax.jit(vmap(jax.grad(loss), in_axes=(None, 0, 0)))
gradients = per_example(params, points, labels)
print({name: leaf.shape for name, leaf in gradients.items()})

# %% jupyter={"source_hidden": true}
# Proof
# The mean of the gradients is the gradient of the mean.
with jax.default_matmul_precision("highest"):  # two ways to the same sum; an accelerator drops digits of products
    each, mean = per_example(params, points, labels), gradient_of_mean(params)
assert all(np.allclose(each[k].mean(axis=0), mean[k], atol=1e-5) for k in params)

# %% jupyter={"source_hidden": true}
# Picture: how large each example's gradient is
norms = np.sqrt(sum(np.sum(np.square(leaf).reshape(80, -1), axis=1) for leaf in gradients.values()))
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
for sign, colour in ((1, "C0"), (-1, "C1")):
    mine = labels == sign
    left.scatter(*points[mine].T, s=12 + 90 * norms[mine] ** 2, color=colour, alpha=0.6)
    left.scatter([], [], s=40, color=colour, alpha=0.6, label=f"label {sign:+d}")
left.legend(loc="lower right")
left.set_title("Size of a dot: size of its gradient")
order = np.argsort(-norms)
right.bar(range(80), norms[order], color=np.where(np.isin(order, wrong), "C6", "#b9b9b9"))
right.set(title="Gradient norms, sorted; black: wrong labels", xlabel="rank")
plt.show()
caught = np.isin(order[:8], wrong).sum()
print(f"of the 8 largest gradients, {caught} belong to the 4 wrong labels")

# %% jupyter={"source_hidden": true}
# Proof
# Most wrong labels are among the largest gradients.
assert caught >= 3

# %% [markdown]
# Whoever wants to limit what a single example does to a model begins with `vmap(grad(loss))`; you will do it in the
# exercise. In a framework without `vmap` you would ask for the gradient of one example after the other. With 256
# examples, how many times faster is the batch than a Python loop over a *jitted* `grad`?

# %%
jitted_grad = jax.jit(jax.grad(loss))
many_points, many_labels = np.tile(points, (4, 1))[:256], np.tile(labels, 4)[:256]


def gradient_loop(params, points, labels):
    return [jitted_grad(params, point, label) for point, label in zip(points, labels, strict=True)]


guess = None  # your number

# %%
loop = benchmark(gradient_loop, params, many_points, many_labels, rounds=5)
batched = benchmark(per_example, params, many_points, many_labels, rounds=5)
show_guess(guess, loop.median / batched.median, "x")

# %% [markdown]
# Both run compiled code. The loop calls it 256 times, the batch once.
#
# ## 11. The same noise for everybody
#
# A key inside a `vmap`ped function is a value like any other. If it is shared, so is the noise:


# %%
def jitter(key, x):
    return x + jax.random.normal(key, x.shape)


key, signal = jax.random.key(3), jnp.zeros((12, 60))
shared = jax.jit(vmap(jitter, in_axes=(None, 0)))(key, signal)
keys = jax.random.split(key, 12)
own = jax.jit(vmap(jitter, in_axes=(0, 0)))(keys, signal)

# %% jupyter={"source_hidden": true}
# Picture: the noise of twelve examples, with one key and with a key for each
fig, axes = plt.subplots(1, 2, figsize=(9, 2.3))
for ax, noise, title in zip(axes, (shared, own), ("one key for all", "a key for each"), strict=True):
    ax.imshow(noise, aspect="auto")
    ax.set(title=title, ylabel="example")
    ax.grid(False)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# One key, the same noise; twelve keys, other noise; a loop over the same keys makes the same noise.
shared, own = np.asarray(shared), np.asarray(own)
assert (shared == shared[0]).all() and not (own[1:] == own[0]).any()
sixth = jax.jit(lambda keys, signal: jitter(keys[5], signal[5]))(keys, signal)
assert np.allclose(own[5], sixth)

# %% [markdown]
# On the left every example got the same noise, and no error told you. Split the key into as many as there are
# examples, and map over them with axis 0. (`jax.random.normal(key, (12, 60))` outside the `vmap` is fine as well.)
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of older posts, and what was measured above
eight = jax.vmap(jnp.add)(jnp.arange(8), jnp.arange(8))
try:
    vmap(lambda x: x if x > 0 else -x)(batch)
except jax.errors.TracerBoolConversionError as error:
    python_if = type(error).__name__

faster = seen["vmap(f)"][2] / seen["jit(vmap(f))"][2]
claims = [
    ("`vmap` returns a `DeviceArray`", "✗", "a `jax.Array`"),
    ("`vmap(jnp.add)` of two `arange(8)`: 0, 2, ..., 14", "✓", f"{eight.tolist()}"),
    ("`(0, None)` makes `([a], [a]) -> []` into `([b,a], [a]) -> [b]`", "✓", "`[5, 5]`"),
    ("`vmap` makes the function fast", "half", f"`jit` outside makes it {faster:,.0f}x faster still"),
    ("a Python `if` works under `vmap`, as under `grad`", "✗", f"`{python_if}`"),
    ("`cond` computes only one branch", "half", f"under `vmap` both, {with_vmap['expensive']} times each"),
    ("`vmap(cond)` has the NaN gradients of `where`", "✗", f"{slopes['safe_root']}"),
]
lines = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{lines}")

# %% jupyter={"source_hidden": true}
# Proof
# vmap returns an Array, and the sums of the introduction.
assert isinstance(eight, jax.Array) and repr(eight).startswith("Array")
assert eight.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]

# %% [markdown]
# ## Keypoints
#
# - Write the function for one example. `vmap` runs it once, with a stand-in that hides the batch axis.
# - `in_axes`: the axis taken from each argument, `None` for "all of it to everybody"; trees of these for trees.
#   `out_axes`: where the new axis goes. The outer `vmap` makes the first axis.
# - `vmap` is one rule for each primitive. A dot product becomes a matrix product, not a loop.
# - `jit(vmap(f))`, in this order.
# - `cond` with a batched predicate becomes `select`: both branches run. `while` runs until the last example is
#   done. Scratch space is everybody's at once. `lax.map` with `batch_size` lies between a loop and a batch.
# - `vmap(grad(loss), (None, 0, 0))`: a gradient for each example.
# - A key for each example: `split`, then map.
#
# ## Your turn
#
# [Exercise 07](../exercises/07_batch_everything/batch_everything.ipynb): ten shape puzzles (with a game of life, and a
# sort without sort), a bill to cut down, and gradients for every example, 60 times faster than the loop. Then your
# `minijit` learns `vmap`: a jaxpr, read once more with other rules. 24 points.
