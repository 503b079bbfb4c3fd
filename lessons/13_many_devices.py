# %% [markdown]
# # 13 · Many devices: from pmap to shardings
#
# **Eight devices share one array. Who holds what, and who has to call whom?**
#
# You will
#
# - run `pmap` as the older posts teach it, and see what it has become;
# - lay an array out over devices, and count the calls that your layout costs, before anything runs;
# - know two traps: a recipe that makes gradients eight times too large, and a loop that hangs.
#
# About 20 minutes. You need `vmap` (unit 07) and optimised HLO (unit 09).

# %%
import functools
import itertools
import os
import re
import runpy
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import jax.extend
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from IPython.display import Markdown, display
from jax import P, lax
from jax.sharding import AxisType

from autograder import benchmark, show_guess, show_hlo

plt.style.use("autograder.course")

try:
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:
    late = "JAX has already started, with other devices: restart the kernel, then run this cell first"
    raise RuntimeError(late) from None
if jax.device_count() < 8:  # an accelerator or a few; this lesson wants eight devices, so take virtual ones
    jax.extend.backend.clear_backends()
    jax.config.update("jax_platforms", "cpu")  # a CPU can be eight
jax.config.update("jax_default_matmul_precision", "highest")  # or an accelerator drops digits of products (unit 10)
devices = jax.devices()[:8]
print(f"JAX {jax.__version__}: {len(devices)} x {devices[0].device_kind}, on {os.cpu_count()} CPU cores")

# %% [markdown]
# A machine with eight accelerators uses them. On any other, the line in the `try` has made **eight virtual
# devices** of one CPU. Each has its own memory, and none can see into another's; only the speed is make-believe. The
# number is fixed when JAX starts, hence the complaint if you come too late.
#
# ## 1. Eight cores, as in the post
#
# An introduction to JAX shows `pmap` on a TPU with eight cores: like `vmap`, but every row goes to a core of its own.
# This is its program.

# %%
print(jax.device_count(), "devices:", *devices[:3], "...")
x = jnp.arange(8)
y = jnp.arange(8)
by_vmap = jax.vmap(jnp.add)(x, y)
by_pmap = jax.pmap(jnp.add)(x, y)
print(repr(by_vmap))
print(repr(by_pmap))

# %% [markdown]
# The post prints the same numbers, as a `DeviceArray` from `vmap` and as a `ShardedDeviceArray` from `pmap`, "spread
# over several devices". Today both are an `Array`, and the repr has lost the news. Where did it go?

# %%
assert type(by_vmap) is type(by_pmap) and (by_vmap == by_pmap).all()
for result in (by_vmap, by_pmap):
    print(result.sharding)

# %% [markdown]
# One class, and **where its pieces are is a property**: `.sharding`. We will want to see that often, so here is a
# picture for it. A box is a piece; the numbers are the devices that hold it.

# %%
COLOURS = plt.colormaps["Set2"](range(8))


def draw(ax, x, title, size=10):
    """Who holds what: each piece of x, labelled with its devices. One colour a piece, grey if all hold it."""
    holders = {}
    for device, index in x.sharding.devices_indices_map(x.shape).items():
        box = tuple(part.indices(length)[:2] for part, length in zip(index, x.shape, strict=True))
        holders.setdefault(box, []).append(devices.index(device))
    for box, held_by in holders.items():
        (top, bottom), (left, right) = ((0, 1), *box)[-2:]
        colour = "#dddddd" if len(held_by) == 8 else COLOURS[held_by[0]]
        corner, size_of_box = (left, top), (right - left, bottom - top)
        ax.add_patch(plt.Rectangle(corner, *size_of_box, facecolor=colour, edgecolor="white", linewidth=2))
        words = "all" if len(held_by) == 8 else " ".join(map(str, held_by))
        ax.text((left + right) / 2, (top + bottom) / 2, words, ha="center", va="center", size=size)
    ax.set(xlim=(0, x.shape[-1]), ylim=(x.shape[0] if x.ndim > 1 else 1, 0))
    ax.set_title(title, size=11)
    ax.axis("off")


fig, axes = plt.subplots(2, 1, figsize=(8, 1.9))
draw(axes[0], by_vmap, "vmap(jnp.add)(x, y)")
draw(axes[1], by_pmap, "pmap(jnp.add)(x, y)")
plt.show()
assert len(by_vmap.sharding.device_set) == 1 and len(by_pmap.sharding.device_set) == 8

# %% [markdown]
# Left to itself, JAX computes on device 0. `pmap` put one number on each. (JAX can draw this as well:
# `jax.debug.visualize_array_sharding(by_pmap)`.)
#
# More of what the post says: `pmap` includes `jit`; and it composes, `pmap(vmap(f))`. With 32 pairs of vectors, in a
# table of eight rows with four pairs each, `pmap` takes the first axis away and `vmap` the second:

# %%
runs = []


def vec_vec_dot(x, y):
    """vector-vector dot, ([a], [a]) -> []"""
    runs.append(x.shape)
    return jnp.dot(x, y)


rng = np.random.default_rng(0)
left, right = rng.normal(size=(2, 8, 4, 3)).astype(np.float32)
both = jax.pmap(jax.vmap(vec_vec_dot))
products = both(left, right)
assert np.allclose(both(left, right), products) and np.allclose(products, (left * right).sum(-1), atol=1e-5)
assert runs == [(3,)]
print("shape seen by f:", *runs, " result:", products.shape, " runs of the body in two calls:", len(runs))

# %% [markdown]
# And what it does not say. The first axis *is* the list of devices:

# %%
for length in (4, 2 * jax.device_count()):
    try:
        result = jax.pmap(jnp.sin)(jnp.ones(length))
        print(f"{length} rows: runs on {len(result.sharding.device_set)} devices, the others do nothing")
    except ValueError as error:
        print(f"{length} rows: {error}")
assert len(result.sharding.device_set) == 4, "the second, longer list fails"

# %% [markdown]
# So a batch of 64 must be reshaped to `(8, 8, ...)` before, and back after, by you, for the number of devices that you
# happen to have. That is the seam along which `pmap` has come apart. And the message is odd: nobody here asked for
# anything to be squeezed.
#
# ## 2. What pmap is today

# %%
print(jax.make_jaxpr(jax.pmap(jnp.add))(x, y).pretty_print(use_color=False))
print(jax.pmap.__doc__.split("\n")[0])

# %% [markdown]
# Since JAX 0.8 it is a `jit` around a **`shard_map`**, and its docstring begins "Old way". Read the inner program: a
# device gets `i32[1]`, *squeezes* the axis away so that your function sees a single number, and puts it back at the
# end. All that `pmap` adds is this squeeze, and the choice of the layout.
#
# So there are three generations of the same program:

# %%
# Eight devices in a row, called i; and the layout in which the first axis of an array is cut along i.
mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,), devices=devices)
rows = jax.NamedSharding(mesh, P("i"))
seen = []


def add(x, y):
    seen.append(x.shape)
    return x + y


generations = {
    "`pmap(add)`": jax.pmap(add),
    '`shard_map(add, in_specs=P("i"), ...)`': jax.jit(
        jax.shard_map(add, mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P("i"))
    ),
    "`jit(add)`, of arrays that are laid out by rows": jax.jit(add),
}

guess = None  # the shape that the body sees under shard_map for x of shape (8,), as a tuple

# %%
table, wide = [], jax.device_put(jnp.arange(64), rows)
for name, fn in generations.items():
    seen.clear()
    assert (fn(*jax.device_put((x, y), rows)) == by_vmap).all()
    try:
        assert fn(wide, wide).sharding.is_equivalent_to(rows, 1)
        for_wide = f"`{seen[-1]}`"
    except ValueError as error:
        for_wide = type(error).__name__
    table.append((name, seen[0], for_wide))
assert [shape for _, shape, _ in table] == [(), (1,), (8,)]
lines = "\n".join(f"| {name} | `{shape}` | {for_wide} |" for name, shape, for_wide in table)
display(Markdown(f"| | the body sees, of 8 numbers | of 64 numbers |\n|---|---|---|\n{lines}"))
show_guess(guess, table[1][1])

# %% [markdown]
# | | you write as if you were | who cuts the array | who sends messages |
# |---|---|---|---|
# | `pmap` | one row on one device | its first axis | you (`lax.psum`, ...) |
# | `shard_map` | one device, with its **block** | `in_specs`, any axis | you |
# | `jit` + sharding | alone: one device with the whole array | whoever made the array | the compiler |
#
# The step from the first to the second line has a trap of its own. Code that comes from `pmap` sometimes strips the
# device axis itself, with `x[0]`. In a block of one row that is harmless. In a block of eight it drops seven, in
# silence.
#
# ## 3. Who holds what
#
# A layout has two parts. A **mesh** arranges the devices and names its axes. A **`PartitionSpec`** `P(...)` has an
# entry for each axis of the array: the name of the mesh axis along which it is cut, or `None`. Mesh axes that are not
# named hold **copies**. Here are the devices as a table of four rows `"x"` and two columns `"y"`, and a matrix of 8 x 8:

# %%
grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=devices)
matrix = np.zeros((8, 8), np.float32)

guess = None  # your number: P("y") cuts the rows along y. On how many devices does the element [0, 0] lie?

# %%
specs = [P("x", "y"), P("y", "x"), P("x"), P("y"), P(None, "y"), P(("x", "y")), P(None, ("y", "x")), P()]
fig, axes = plt.subplots(2, 4, figsize=(9, 4.8))
for ax, spec in zip(axes.flat, specs, strict=True):
    placed = jax.device_put(matrix, jax.NamedSharding(grid, spec))
    share = placed.addressable_shards[0].data.nbytes / matrix.nbytes
    draw(ax, placed, f"{spec}\neach holds {share:.3g}".replace("'", '"'), size=9)
    ax.set_aspect("equal")
plt.show()
by_y = jax.device_put(matrix, jax.NamedSharding(grid, P("y")))
holding = [piece.device for piece in by_y.addressable_shards if piece.index[0].indices(8)[0] == 0]
show_guess(guess, len(holding), "devices")

# %% [markdown]
# - `P("x")` is the same as `P("x", None)`: what is not named is not cut.
# - `P("y")` cuts in two only, so every element lies on four devices. Memory pays for that: each holds half.
# - `P(("x", "y"))` cuts one axis of the array along both axes of the mesh, `"x"` first. Turn them round and the same
#   pieces go to other devices.
# - `P()` is a copy for everybody. Weights often start out so, and then cease to fit.
#
# ## 4. The compiler follows the data
#
# You do not have to write anything for many devices. Lay out the arguments, and call an ordinary jitted function:

# %%
x = jax.device_put(rng.normal(size=(64, 16)).astype(np.float32), rows)
total = jax.jit(lambda x: x.sum())
assert np.isclose(total(x), np.asarray(x).sum(), atol=1e-3)
show_hlo(total, x)

# %% [markdown]
# Look at the parameter: `float32[8,16]`, not `float32[64,16]`. XLA has written **one program for one device**, and all
# eight run it, each on its own eight rows. (That style is called SPMD: single program, multiple data.) Each adds up
# its block; then `all-reduce` adds the eight results and hands the sum to everybody.
#
# `all-reduce` is a **collective**: an operation for which the devices have to talk. Talking is what many devices cost.
# It goes over wires that are far slower than memory, and everybody waits for the last to speak. So, as a meter, count
# collectives. How many of these twelve lines need none?

# %%
LINES = [
    "x + 1", "jnp.tanh(x) @ w", "x.sum(axis=1)", "x.sum(axis=0)", "x.T",
    "jnp.sort(x, axis=1)", "jnp.sort(x, axis=0)", "jnp.cumsum(x, axis=0)", "jnp.roll(x, 1, axis=0)",
    "x[1:] - x[:-1]", "x @ x.T", "x.T @ x",
]  # fmt: skip

guess = None  # your number

# %%
w = jax.device_put(np.ones((16, 4), np.float32), jax.NamedSharding(mesh, P()))


def listed(counter):
    """Counter({"all-reduce": 2}) as text: all-reduce (2)."""
    return ", ".join(name + f" ({count})" * (count > 1) for name, count in counter.items())


needed, piece = {}, {}
for line in LINES:
    fn = eval(f"lambda x: {line}")
    program, whole = show_hlo(jax.jit(fn), x), jax.eval_shape(fn, x)
    (result,) = (op.type for op in program.module.computations[program.module.entry] if op.root)
    needed[line] = program.collectives
    held = result.split("[")[1].split("]")[0]
    piece[line] = f"[{held}] of [{','.join(map(str, whole.shape))}]"
lines = "\n".join(f"| `{line}` | {listed(needed[line])} | `{piece[line]}` |" for line in LINES)
display(Markdown(f"| `x` is cut by rows | collectives | each then holds |\n|---|---|---|\n{lines}"))
silent = [line for line in LINES if not needed[line]]
assert "x.sum(axis=1)" in silent and "x.sum(axis=0)" not in silent and piece["x.T"] == "[16,8] of [16,64]"
show_guess(guess, len(silent), "lines")

# %% [markdown]
# The rule behind it: **what stays inside a row is free**. `sum(axis=1)` is, `sum(axis=0)` is not. A transpose is free
# (each turns its own block, and the result is cut by columns). Neighbours, as in `roll`, cost a `collective-permute`: each
# device sends a little to the next. Where the compiler knows nothing better, it gathers the whole array on every
# device (`all-gather`). That is correct, and it is what you bought eight devices to avoid.
#
# One line is dearer than it looks: `x[1:] - x[:-1]` has 63 rows, which eight devices cannot share evenly, so the result
# is left with everybody.
#
# ## 5. A product of matrices, nine ways
#
# `A @ B` sums over the columns of `A` and the rows of `B`. Lay each out whole, by rows or by columns: which of the
# nine need no talk at all? The result is laid out as XLA likes.

# %%
LAYOUTS = {"whole": P(), "by rows": P("i"), "by columns": P(None, "i")}
A = B = np.ones((8, 8), np.float32)

guess = None  # your number of layouts, of the nine, that need no collective


# %%
def owners(x):
    """For each element of x the number of its device; 8 if all have it."""
    number = np.full(x.shape, 8)
    for device, index in x.sharding.devices_indices_map(x.shape).items():
        number[index] = 8 if x.sharding.is_fully_replicated else devices.index(device)
    return np.kron(number, np.ones((4, 4), int))


product = jax.jit(jnp.matmul)
palette = plt.matplotlib.colors.ListedColormap([*COLOURS, "#dddddd", "white"])
gap = np.full((32, 10), 9)
fig, panels = plt.subplots(3, 3, figsize=(9, 4.6), gridspec_kw={"wspace": 0.2})
free = []
for ax, (of_a, of_b) in zip(panels.flat, itertools.product(LAYOUTS, LAYOUTS), strict=True):
    a, b = (jax.device_put(m, jax.NamedSharding(mesh, LAYOUTS[of])) for m, of in ((A, of_a), (B, of_b)))
    c, talk = jax.block_until_ready(product(a, b)), listed(show_hlo(product, a, b).collectives)
    free += [] if talk else [(of_a, of_b)]
    picture = np.concatenate([owners(a), gap, owners(b), gap, owners(c)], axis=1)
    ax.imshow(picture, cmap=palette, vmin=0, vmax=9)
    for place, sign in ((36.5, "@"), (78.5, "=")):
        ax.text(place, 16, sign, ha="center", va="center", size=12)
    ax.set_title(talk or "no collective", size=11, color="C1" if talk else "C2", loc="center")
    ax.axis("off")
plt.show()
assert len(free) == 3 and ("by columns", "by rows") not in free
show_guess(guess, len(free), "layouts")

# %% [markdown]
# (A stripe is a device's piece; pale grey is with all.) Look for the pattern:
#
# - Cut an axis that **survives** into the result, the rows of `A` or the columns of `B`, and it costs nothing: the
#   result is cut there too.
# - Cut the axis that is **summed over** on both sides (`A` by columns, `B` by rows), and each device computes a product
#   of the right shape, but only its part of the sum. One `all-reduce` finishes it.
# - Anything else must be put together first: `all-gather`.
#
# These are the moves of every large model. Data parallel: cut the examples, copy the weights. Tensor parallel: cut the
# weights. The exercise has four holes of this golf.
#
# ## 6. To be one device
#
# With `shard_map` you write the messages yourself. The function is what *one* device does with its block. The name of
# a mesh axis stands for "all of us": `lax.psum(v, "i")` is the sum of everybody's `v`, `lax.axis_index("i")` says who
# I am. Four devices, each with four numbers; what does each hold afterwards?

# %%
four = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,), devices=devices[:4])
to_the_next = [(source, (source + 1) % 4) for source in range(4)]
COLLECTIVES = {
    "before": lambda v: v,
    'ppermute(v, "i", to_the_next)': lambda v: lax.ppermute(v, "i", to_the_next),
    'all_to_all(v, "i", 0, 0)': lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True),
    'psum(v, "i")': lambda v: lax.psum(v, "i"),
    'psum_scatter(v, "i")': lambda v: lax.psum_scatter(v, "i", tiled=True),
    'all_gather(v, "i")': lambda v: lax.all_gather(v, "i", tiled=True),
}
start = jax.device_put(np.add.outer([10, 20, 30, 40], range(4)).ravel(), jax.NamedSharding(four, P("i")))
above, below = list(COLLECTIVES)[:3], list(COLLECTIVES)[3:]
panels = [np.repeat(above, 2), np.repeat(below, [1, 2, 3])]
fig, places = plt.subplot_mosaic(panels, figsize=(9.4, 4.8))
for name, ax in places.items():
    # The layout of the result is the same for all; that psum's is four copies does not matter here.
    split = {"mesh": four, "in_specs": P("i"), "out_specs": P("i"), "check_vma": False}
    fn = jax.jit(jax.shard_map(COLLECTIVES[name], **split))
    held = np.asarray(fn(start)).reshape(4, -1)
    for (device, place), number in np.ndenumerate(held):
        colour = "#bbbbbb" if number > 50 else COLOURS[number // 10 - 1]
        ax.add_patch(plt.Rectangle((place, device), 0.94, 0.9, color=colour))
        ax.text(place + 0.47, device + 0.47, number, ha="center", va="center", size=8)
    width = {"psum": 5.3, "all_gather": 16}.get(name.split("(")[0], 10.6)
    names = [f"device {d}" for d in range(4)] if name in (above[0], below[0]) else []
    ax.set(xlim=(0, width), ylim=(4, 0), yticks=np.arange(len(names)) + 0.45, yticklabels=names)
    talk = listed(show_hlo(fn, start).collectives)
    ax.set_title(f"{name}\n{talk}", size=10, weight="normal")
    ax.tick_params(length=0, labelsize=9, bottom=False, labelbottom=False)
    ax.spines[:].set_visible(False)
    ax.grid(False)
plt.show()

# %% [markdown]
# Colours say where a number was born; grey ones are sums. Under each call stands what XLA makes of it: these are the
# collectives that you counted above, one call each. Two of them in a row are worth knowing: a `psum_scatter` and an
# `all_gather` together are a `psum`.
#
# ## 7. Eight times the gradient
#
# "`pmap` makes data parallel training easy, like PyTorch's DistributedDataParallel", says the post. It is this recipe:
# everybody has the weights and an eighth of the examples; each takes the gradient of its own loss; `pmean` averages.

# %%
X, Y, W = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 16), 64, 16))
Y = X @ rng.normal(size=16).astype(np.float32) + 0.1 * Y


def loss(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


def recipe(w, x, y):
    return lax.pmean(jax.grad(loss)(w, x, y), "i")


truth = np.asarray(jax.grad(loss)(W, X, Y))  # on one device
by_recipe = jax.pmap(recipe, axis_name="i", in_axes=(None, 0, 0))(W, X.reshape(8, 8, 16), Y.reshape(8, 8))
assert np.allclose(by_recipe, truth, atol=1e-4)
print("pmap:", by_recipe.shape, "eight copies of the right gradient")

# %% [markdown]
# It works, today as then. Now carry it over. The weights are everybody's, `P()`; the examples are cut, `P("i")`; what
# comes out is everybody's. The body is the same function.

# %%
specs = {"mesh": mesh, "in_specs": (P(), P("i"), P("i")), "out_specs": P()}
ported = jax.jit(jax.shard_map(recipe, **specs))

guess = None  # your number: the gradient under shard_map over the true one

# %%
placed = (jax.device_put(W, jax.NamedSharding(mesh, P())), *jax.device_put((X, Y), rows))
ratio = np.asarray(ported(*placed)) / truth
assert np.allclose(ratio, 8, rtol=1e-3)
show_guess(guess, ratio.mean(), "x")

# %% [markdown]
# No error, no warning, right direction, eight times too long. To see why, ask for the types inside:


# %%
def inspect(w, x, y):
    values = {"w": w, "x": x, "my loss": loss(w, x, y), "its gradient": jax.grad(loss)(w, x, y)}
    for name, value in values.items():
        print(f"{name:13}{jax.typeof(value)}")
    return w


lowered = jax.jit(jax.shard_map(inspect, **specs)).lower(*placed)

# %% [markdown]
# `{V:i}` means *varying along i*: every device has its own. `x` varies, my loss varies. `w` does not: it is one thing,
# which all of us happen to hold. And the gradient with respect to one thing is **one thing**: how much *all* the losses
# change with it. So `grad` itself has added the eight gradients up, on the way back. The `pmean` then averages eight
# equal numbers, which changes nothing, and talks once more to do so.
#
# `pmap` knew no such types. There, `w` was eight unrelated copies. Four cures, and two that are none:


# %%
def mean_loss_first(w, x, y):
    return jax.grad(lambda w: lax.pmean(loss(w, x, y), "i"))(w)


def own_copy_first(w, x, y):
    return recipe(lax.pcast(w, "i", to="varying"), x, y)


old_rules = specs | {"check_vma": False}
ways = {
    "`pmean(grad(loss))`": ported,
    "`grad(loss)`, without `pmean`": jax.jit(jax.shard_map(jax.grad(loss), **specs)),
    "`grad(pmean(loss))`": jax.jit(jax.shard_map(mean_loss_first, **specs)),
    '`pmean(grad(loss))` of `pcast(w, "i", to="varying")`': jax.jit(jax.shard_map(own_copy_first, **specs)),
    "`pmean(grad(loss))`, `check_vma=False`": jax.jit(jax.shard_map(recipe, **old_rules)),
    "`grad(pmean(loss))`, `check_vma=False`": jax.jit(jax.shard_map(mean_loss_first, **old_rules)),
    "`jit(grad(loss))`, no `shard_map`": jax.jit(jax.grad(loss)),
}
verdicts = []
for name, fn in ways.items():
    ratio = np.asarray(fn(*placed)) / truth
    text = f"{ratio.mean():.3g}" if np.ptp(ratio) < 0.01 else f"{ratio.min():.1f} to {ratio.max():.1f}"
    verdicts.append((name, text, "✓" if np.allclose(ratio, 1, rtol=1e-3) else "✗"))
assert [mark for *_, mark in verdicts] == ["✗", "✗", "✓", "✓", "✓", "✗", "✓"]
reduces = [show_hlo(fn, *placed).collectives.total() for fn in ways.values()]
lines = [f"| {' | '.join(verdict)} | {n} |" for verdict, n in zip(verdicts, reduces, strict=True)]
Markdown("| | of the true gradient | | collectives |\n|---|:-:|:-:|:-:|\n" + "\n".join(lines))

# %% [markdown]
# **Say what you mean, then differentiate**: the loss of the batch is the mean over all, so put the `pmean` into the loss.
# `check_vma=False` switches the types off and brings back the rules of `pmap`. Then the recipe is right and the good
# habit is wrong. Never mix the two.
#
# The last line is the shortest. `jit` of the program for one device, and XLA finds the one `all-reduce` by itself.
#
# Would you notice an eightfold gradient? It depends on who uses it:


# %%
@functools.partial(jax.jit, static_argnames=("optimiser", "gradient"))
def training(w, x, y, optimiser, gradient):
    def step(carry, _):
        w, state = carry
        updates, state = optimiser.update(gradient(w, x, y), state)
        return (w + updates, state), loss(w, x, y)

    return lax.scan(step, (w, optimiser.init(w)), length=60)[1]


fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
curves = {}
for ax, optimiser in zip(axes, (optax.sgd(0.15), optax.adam(0.15)), strict=True):
    name = "plain gradient descent" if ax is axes[0] else "Adam"
    for label, gradient, style in (("right", jax.grad(loss), "C0-"), ("8 times too large", ported, "C1--")):
        curve = np.asarray(training(*placed, optimiser, gradient))
        curves[name, label] = curve
        ax.plot(curve, style, label=label)
    ax.set(yscale="log", ylim=(5e-3, 1e4), title=name, xlabel="step")
axes[0].set_ylabel("loss")
axes[1].legend()
plt.show()
assert curves["plain gradient descent", "right"][-1] < 0.1
assert not curves["plain gradient descent", "8 times too large"][-1] < 1e3
assert np.allclose(curves["Adam", "right"], curves["Adam", "8 times too large"], rtol=0.05)

# %% [markdown]
# Plain descent explodes. Adam divides by the size of the gradient, so nothing shows: until you clip gradients, or
# compare their norms, or change the number of devices.
#
# A relative of this trap: `pmean` of the devices' means is the mean only if all have equally many examples. If the last
# batch is padded, add up sums and counts, and divide at the end. That is a task in the exercise.
#
# ## 8. The loop that nobody waits for
#
# JAX returns before the work is done (unit 01). A training loop in Python can run far ahead of its devices:
#
# ```python
# for batch in batches:            # do not run this on virtual devices
#     w = step(w, *batch)          # step contains an all-reduce; nobody waits
# ```
#
# On accelerators that is how it should be. On **virtual CPU devices** it can deadlock. A collective needs all eight
# at once, each is a thread, and the threads are few. With many steps in flight, some wait in one step for others that
# are stuck in another. JAX 0.10 then aborts the whole process after a while ("Termination timeout ... join the
# rendezvous"): that was the end of most long loops that we tried. On 0.12 we have not seen it. There are two cures,
# and this notebook uses them throughout: wait in each step, or give the loop to the compiler.

# %%
step = jax.jit(lambda w, x, y: w - 0.1 * jax.grad(loss)(w, x, y))
waited = placed[0]
for _ in range(20):
    waited = jax.block_until_ready(step(waited, *placed[1:]))


@jax.jit
def twenty_steps(w, x, y):
    return lax.scan(lambda w, _: (step(w, x, y), None), w, length=20)[0]


assert np.allclose(twenty_steps(*placed), waited, atol=1e-5)

# %% [markdown]
# ## 9. Types that know where they are
#
# So far the compiler chose every layout behind your back (`AxisType.Auto`). `make_mesh` has another default today:
# `Explicit`. Then **the layout is part of the type**, and you can read it at every line, without compiling.

# %%
explicit = jax.make_mesh((8,), ("i",), devices=devices)
assert explicit.axis_types == (AxisType.Explicit,)
with jax.set_mesh(explicit):
    rows_of_64 = jax.device_put(np.asarray(x), P("i"))
    weights = jax.device_put(np.asarray(w), P())
    print(jax.typeof(rows_of_64), " and ", jax.typeof(weights))
    tape = jax.make_jaxpr(lambda x, w: jnp.tanh(x @ w).sum(axis=1))(rows_of_64, weights)
    print(tape.pretty_print(use_color=False))

# %% [markdown]
# `64@i` reads: 64 long, cut along `i`. Types go through a program from line to line, as shapes do. And where a result
# could be laid out in more than one way, JAX does not choose. It asks:

# %%
EXPRESSIONS = ["x + 1", "x.T", "x.sum(axis=1)", "x.sum(axis=0)", "x[:, None]", "x @ w", "x @ x.T", "x.T @ x"]
EXPRESSIONS += ["jnp.sort(x, axis=0)", "jax.reshard(x, P(None, 'i'))", "jnp.matmul(x.T, x, out_sharding=P())"]
typed = {}
with jax.set_mesh(explicit):
    for expression in EXPRESSIONS:
        try:
            result = eval(expression, globals(), {"x": rows_of_64, "w": weights})
            typed[expression] = f"`{jax.typeof(jax.block_until_ready(result))}`"
        except Exception as error:
            typed[expression] = type(error).__name__
assert typed["x.sum(axis=1)"] == "`float32[64@i]`" and typed["x.T @ x"] == "ShardingTypeError"
lines = "\n".join(f"| `{expression}` | {kind} |" for expression, kind in typed.items())
Markdown(f"| `x` is `float32[64@i,16]`, `w` is `float32[16,4]` | type |\n|---|---|\n{lines}")

# %% [markdown]
# Compare with the table in section 4: the errors are among the lines that had to talk. A sum may be reduced in silence,
# but nothing is gathered or moved unless you write it: `jax.reshard`, or `out_sharding=`. The price is that old
# code which never thought about layouts stops with a `ShardingTypeError`. Then fix the line, or ask for `Auto`.
#
# ## 10. An honest plot
#
# Eight devices, so eight times as fast?


# %%
def ten_sines(x):
    for _ in range(10):
        x = jnp.sin(x) * 1.1
    return x


PROGRAMS = {
    "ten sines of each number": (ten_sines, 512),
    "x @ v": (lambda x: x @ v, 512),
    "x.sum()": (jnp.sum, 8),
}
v = np.ones((512, 256), np.float32)

guess = None  # your number: time of ten_sines on eight devices over its time on one

# %%
counts = (1, 2, 4, 8)
relative = {}
for name, (fn, length) in PROGRAMS.items():
    best = []
    for count in counts:
        some = jax.make_mesh((count,), ("i",), axis_types=(AxisType.Auto,), devices=devices[:count])
        cut = jax.device_put(np.ones((length, 512), np.float32), jax.NamedSharding(some, P("i")))
        best.append(min(benchmark(jax.jit(fn), cut, rounds=5).rounds))
    relative[f"{name}, {length} rows"] = np.divide(best, best[0])

fig, ax = plt.subplots(figsize=(8, 3.6))
ax.plot(counts, 1 / np.array(counts), color="#999999", ls=":", label="real devices, at best")
for (name, times), marker in zip(relative.items(), "os^", strict=True):
    ax.plot(counts, times, marker=marker, label=name)
ax.set(xlabel="devices", ylabel="time, over one device's")
ax.set_xscale("log", base=2)
ax.set_yscale("log", base=2)
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
ax.set_title(f"{len(devices)} devices on {os.cpu_count()} cores")
plt.show()
show_guess(guess, relative["ten sines of each number, 512 rows"][-1], "x")

# %% [markdown]
# If your devices are virtual, they share the cores you had before. At best, long work finds a core that was idle (or
# takes it from other programs, by having more threads). At worst, as in the small sum, you see the naked price of
# handing out eight pieces of work and one collective. So **virtual devices are for being right**: for layouts, counts
# and values, all of which hold on the real ones. Never take
# a time from them. Neither do the exercises.
#
# ## 11. Two processes
#
# Real clusters have a process for each machine, and each sees its own devices. What must change in a program? Here is
# one that trains on four devices. Its second paragraph is all that it knows of other processes.

# %%
PROGRAM = """
import os
import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

if "RANK" in os.environ:
    jax.distributed.initialize(os.environ["ADDRESS"], num_processes=2, process_id=int(os.environ["RANK"]))

mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:4])
rows = jax.NamedSharding(mesh, P("i"))
rng = np.random.default_rng(0)
table, targets = rng.normal(size=(32, 3)).astype("f4"), rng.normal(size=32).astype("f4")
x = jax.make_array_from_callback((32, 3), rows, lambda index: table[index])  # it asks for rows that lie here
y = jax.make_array_from_callback((32,), rows, lambda index: targets[index])

@jax.jit
def train(w, x, y):
    gradient = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))
    return lax.scan(lambda w, _: (w - 0.1 * gradient(w), None), w, length=100)[0]

w = np.asarray(train(np.zeros(3, "f4"), x, y))
here = sum(len(piece.data) for piece in x.addressable_shards)
print(f"process {jax.process_index()} of {jax.process_count()} holds {here} of {len(x)} rows, w = {w.tolist()}")
"""
folder = tempfile.TemporaryDirectory()
path = Path(folder.name, "program.py")
path.write_text(PROGRAM)
alone = runpy.run_path(str(path))["w"]  # first here, in this process

# %% [markdown]
# Now twice at the same time, with two devices each. They find each other at an address on this machine.

# %%
with socket.socket() as free_port:
    free_port.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free_port.getsockname()[1]}"
base = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
base |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2", "ADDRESS": address}
pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
pair = [subprocess.Popen([sys.executable, path], env=base | {"RANK": rank}, **pipes) for rank in "01"]
try:
    outputs = [process.communicate(timeout=50) for process in pair]
finally:
    for process in pair:
        process.kill()  # no effect on one that has ended
    folder.cleanup()
for (said, complaint), process in zip(outputs, pair, strict=True):
    assert process.returncode == 0, complaint[-1000:]
    line = re.search(r"process \d.*", said)[0]
    print(line)
    assert "holds 16 of 32 rows" in line and np.allclose(eval(line.split("w = ")[1]), alone, atol=1e-5)

# %% [markdown]
# Of `x`, each process holds a half, and the weights agree. `jit`, the mesh, the sharding: not a line has changed, and
# `x` is one array of 32 rows that no single process could print. Every process must run the same program in the
# same order, though. A collective that one of them skips is a collective for which all the others wait.
#
# ## What older posts say

# %%
with_pmap = jax.pmap(recipe, axis_name="i", in_axes=(None, 0, 0))
pmap_talk = show_hlo(with_pmap, W, X.reshape(8, 8, 16), Y.reshape(8, 8)).collectives
assert pmap_talk == {"all-reduce": 1}
there = f"{len(devices)} x {devices[0].platform} here, by one line"
one_class = "`Array`; `.sharding` tells them apart"
scalar = "`grad` wants a scalar: `jit(vmap(grad(grad(f))))`, unit 08"
claims = [
    ("`pmap` needs a TPU with 8 cores", "✗", there),
    ("`vmap` gives a `DeviceArray`, `pmap` a `ShardedDeviceArray`", "✗", one_class),
    ("`pmap` includes `jit`", "✓", f"{len(runs)} run of the body in two calls"),
    ("`pmap(vmap(f))` composes", "✓", f"{products.shape}"),
    ("`jit(grad(grad(vmap(f))))` composes", "✗", scalar),
    ("`pmap` makes data parallel training easy", "✓", f"{listed(pmap_talk)}; `jit` writes it shorter"),
    ("`pmean(grad(loss))` is the recipe", "half", "in `pmap`; in `shard_map` it is 8 times too large"),
    ("`pmap` is how to use many devices", "✗", f'"{jax.pmap.__doc__.split(".")[0]}"'),
]
rows_of_table = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows_of_table}")

# %% [markdown]
# ## Keypoints
#
# - `jax.config.update("jax_num_cpu_devices", 8)`, before anything else: eight devices to be right on, not to be fast on.
# - `pmap` is `jit(shard_map)` with a squeeze. New code: `jit` and a `NamedSharding`; `shard_map` where you want to say
#   who talks.
# - A mesh names devices, `P(...)` says along which name each axis is cut. What is not named is copied.
# - What stays inside a piece is free. Cut axes that survive; a cut axis that is summed over costs an `all-reduce`;
#   the rest is gathered. Count with `show_hlo(...).collectives`.
# - Under `shard_map`, the gradient of something shared is already a sum. Put the mean into the loss.
# - Wait in every step, or `lax.scan`: no Python loop of un-awaited collectives on virtual devices.
# - On an `Explicit` mesh the layout is in the type, and nothing is moved that you did not ask for.
#
# ## Your turn
#
# [Exercise 13](../exercises/13_many_devices/many_devices.ipynb): read and draw maps, pass heat around a ring, get a
# variance over the phone with a single call, mend the eightfold gradient, and four holes of communication golf.
# 20 points.
