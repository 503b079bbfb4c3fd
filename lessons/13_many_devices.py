# %% [markdown]
# # 13 · Many devices: from pmap to shardings
#
# **Eight devices share one array. Who holds what, who has to call whom, and what does the call cost?**
#
# You will
#
# - run `pmap` as the older posts teach it, and see what it has become;
# - lay an array out over devices, and count the messages that your layout costs, before anything runs;
# - know two traps: a recipe whose gradients come out wrong, and a loop that hangs;
# - put a price in seconds on a message, and plan the training of a model that fits on no single device.
#
# About {duration}, in four stages (about {stage} for the first). You need `vmap` (unit 07) and optimised HLO (unit 09),
# and for the last stage memory and `jax.checkpoint` (units 11 and 12). A [device](00_before_you_start.ipynb#The-words)
# is what computes: a CPU, a GPU or a TPU.

# %%
import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax import P, lax
from jax.sharding import AxisType

from autograder import benchmark, show_guess, show_hlo, show_jaxpr

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
print(f"JAX {jax.__version__}: {len(devices)} x {devices[0].device_kind}")

# %% jupyter={"source_hidden": true}
# Helper: modules for pictures, tables and other processes
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

import matplotlib.pyplot as plt
import optax
from IPython.display import Markdown, display

plt.style.use("autograder.course")
print(f"CPU cores of this machine: {os.cpu_count()}")

# %% [markdown]
# A machine with eight accelerators uses them. On any other, the line in the `try` has made **eight virtual
# devices** of one CPU. JAX treats each as a device with memory of its own, into which no other can look. (In truth it is
# all one memory: speed is what they cannot show.) The number is fixed when JAX starts, hence the complaint if you come
# too late.
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
# over several devices". Today both are an `Array`, and the repr no longer says how they are spread. What does?

# %%
for result in (by_vmap, by_pmap):
    print(type(result).__name__, result.sharding)

# %% [markdown]
# One class, and **where its pieces are is a property**: its
# [sharding](https://docs.jax.dev/en/latest/201/sharding.html). We will want to see that often, so here is a
# picture for it. A box is a piece; the numbers are the devices that hold it.

# %% jupyter={"source_hidden": true}
# Picture: who holds what of the two results
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

# %% jupyter={"source_hidden": true}
# Proof
# One class and equal values; one of the results lies on one device, the other on eight.
assert type(by_vmap) is type(by_pmap) and (by_vmap == by_pmap).all()
assert len(by_vmap.sharding.device_set) == 1 and len(by_pmap.sharding.device_set) == 8

# %% [markdown]
# Left to itself, JAX computes on device 0. `pmap` put one number on each. (JAX can draw this as well:
# `jax.debug.visualize_array_sharding(by_pmap)`.)
#
# More of what the post says: `pmap` includes `jit`; and it composes, `pmap(vmap(f))`. Take 32 pairs of vectors, in a
# table of eight rows with four pairs each: `pmap` takes the first axis away and `vmap` the second.

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
again = both(left, right)
print("shape seen by f:", *runs, " result:", products.shape, " runs of the body in two calls:", len(runs))

# %% jupyter={"source_hidden": true}
# Proof
# The products are right, and the body ran once.
assert np.allclose(again, products) and np.allclose(products, (left * right).sum(-1), atol=1e-5)
assert runs == [(3,)]

# %% [markdown]
# And what it does not say. The first axis *is* the list of devices:

# %%
for length in (4, 2 * jax.device_count()):
    try:
        result = jax.pmap(jnp.sin)(jnp.ones(length))
        print(f"{length} rows: runs on {len(result.sharding.device_set)} devices, the others do nothing")
    except ValueError as error:
        print(f"{length} rows: {error}")

# %% jupyter={"source_hidden": true}
# Proof
# Four rows run on four devices; the second, longer list fails.
assert len(result.sharding.device_set) == 4

# %% [markdown]
# So a batch of 64 must be reshaped to `(8, 8, ...)` before, and back after, by you, for the number of devices that you
# happen to have. And the message is odd: nobody here asked for anything to be squeezed.
#
# ## 2. What pmap is today

# %%
print(jax.make_jaxpr(jax.pmap(jnp.add))(x, y).pretty_print(use_color=False))
print(jax.pmap.__doc__.split("\n")[0])

# %% [markdown]
# Since JAX 0.8 it is a `jit` around a **[`shard_map`](https://docs.jax.dev/en/latest/201/shard-map.html)**, and its
# docstring begins "Old way". Read the inner program: a
# device gets `i32[1]`, *squeezes* the axis away so that your function sees a single number, and puts it back at the
# end. All that `pmap` adds is this squeeze, and the choice of the layout.
#
# So there are three generations of the same program. (In the cell, a *mesh* is the devices in a row named `i`, and
# `P("i")` says that an axis is cut along it. A `NamedSharding` is the two together, and `device_put(x, rows)` lays `x`
# out so. `in_specs` and `out_specs` say how `shard_map` cuts the arguments and joins the results. Section 3 takes `P`
# apart, section 7 `Auto`.)

# %%
mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,), devices=devices)
rows = jax.NamedSharding(mesh, P("i"))
seen = []


def add(x, y):
    seen.append(x.shape)
    return x + y


by_blocks = jax.shard_map(add, mesh=mesh, in_specs=(P("i"), P("i")), out_specs=P("i"))
generations = {
    "`pmap(add)`": jax.pmap(add),
    '`shard_map(add, in_specs=P("i"), ...)`': jax.jit(by_blocks),
    "`jit(add)`, of arrays that are laid out by rows": jax.jit(add),
}

# %% [markdown]
# `x` has the shape `(8,)`, a number for each device. Under `pmap` the body sees the shape `()`. Which does it see under
# `shard_map`?

# %%
guess = None  # the shape, as a tuple

# %%
table, wide = {}, jax.device_put(jnp.arange(64), rows)
for name, fn in generations.items():
    seen.clear()
    result = fn(*jax.device_put((x, y), rows))
    try:
        fn(wide, wide)
        for_wide = f"`{seen[-1]}`"
    except ValueError as error:
        for_wide = type(error).__name__
    table[name] = (seen[0], for_wide, result)
show_guess(guess, list(table.values())[1][0])

# %% jupyter={"source_hidden": true}
# Table: what the body sees in the three generations
lines = "\n".join(f"| {name} | `{shape}` | {for_wide} |" for name, (shape, for_wide, _) in table.items())
display(Markdown(f"| | the body sees, of 8 numbers | of 64 numbers |\n|---|---|---|\n{lines}"))

# %% jupyter={"source_hidden": true}
# Proof
# The three shapes; all results are equal; what is cut by rows stays cut by rows.
assert [shape for shape, *_ in table.values()] == [(), (1,), (8,)]
assert all((result == by_vmap).all() for *_, result in table.values())
assert all(fn(wide, wide).sharding.is_equivalent_to(rows, 1) for fn in list(generations.values())[1:])

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
# A layout has two parts. A **[mesh](https://docs.jax.dev/en/latest/201/sharding.html)** arranges the devices and names
# its axes. A **`PartitionSpec`** `P(...)` has an entry for each axis of the array: the name of the mesh axis along
# which it is cut, or `None`. Mesh axes that are not named hold **copies**. Here are the devices as a table of four rows
# `"x"` and two columns `"y"`, and a matrix of 8 x 8:

# %%
grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=devices)
matrix = np.zeros((8, 8), np.float32)
by_y = jax.device_put(matrix, jax.NamedSharding(grid, P("y")))

# %% [markdown]
# `P("y")` cuts the rows along y. On how many devices does the element `[0, 0]` lie?

# %%
guess = None  # your number

# %%
holding = [piece.device for piece in by_y.addressable_shards if piece.index[0].indices(8)[0] == 0]
show_guess(guess, len(holding), "devices")

# %% jupyter={"source_hidden": true}
# Picture: eight layouts of one matrix
specs = [P("x", "y"), P("y", "x"), P("x"), P("y"), P(None, "y"), P(("x", "y")), P(None, ("y", "x")), P()]
fig, axes = plt.subplots(2, 4, figsize=(9, 4.8))
for ax, spec in zip(axes.flat, specs, strict=True):
    placed = jax.device_put(matrix, jax.NamedSharding(grid, spec))
    share = placed.addressable_shards[0].data.nbytes / matrix.nbytes
    draw(ax, placed, f"{spec}\neach holds {share:.3g}".replace("'", '"'), size=9)
    ax.set_aspect("equal")
plt.show()

# %% [markdown]
# - `P("x")` is the same as `P("x", None)`: what is not named is not cut.
# - `P("y")` cuts in two only, so every element lies on four devices. Memory pays for that: each holds half.
# - `P(("x", "y"))` cuts one axis of the array along both axes of the mesh, `"x"` first. Turn them round and the same
#   pieces go to other devices.
# - `P()` is a copy for everybody. Weights often start out so, and then cease to fit.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 4, about {stage}: how devices communicate, and a gradient that comes out wrong.*

# %% [markdown]
# ## 4. The compiler follows the data
#
# You do not have to write anything for many devices. Lay out the arguments, and call an ordinary jitted function:

# %%
x = jax.device_put(rng.normal(size=(64, 16)).astype(np.float32), rows)
total = jax.jit(lambda x: x.sum())
show_hlo(total, x)

# %% jupyter={"source_hidden": true}
# Proof
# The sum over eight devices is the sum.
assert np.isclose(total(x), np.asarray(x).sum(), atol=1e-3)

# %% [markdown]
# Look at the parameter: `float32[8,16]`, not `float32[64,16]`. XLA has written **one program for one device**, and all
# eight run it, each on its own eight rows. (That style is called SPMD: single program, multiple data.) Each adds up
# its block; then `all-reduce` adds the eight results and hands the sum to everybody.
#
# `all-reduce` is a **collective**: an operation for which the devices have to talk. Talking is what many devices cost.
# It goes over wires that are far slower than memory, and everybody waits for the last to speak. (The last stage puts
# seconds on it.) So, as a meter, count collectives. How many of these twelve lines need none?

# %%
LINES = [
    "x + 1", "jnp.tanh(x) @ w", "x.sum(axis=1)", "x.sum(axis=0)", "x.T",
    "jnp.sort(x, axis=1)", "jnp.sort(x, axis=0)", "jnp.cumsum(x, axis=0)", "jnp.roll(x, 1, axis=0)",
    "x[1:] - x[:-1]", "x @ x.T", "x.T @ x",
]  # fmt: skip
w = jax.device_put(np.ones((16, 4), np.float32), jax.NamedSharding(mesh, P()))

guess = None  # your number

# %%
programs = {line: show_hlo(jax.jit(eval(f"lambda x: {line}")), x) for line in LINES}
silent = [line for line, program in programs.items() if not program.collectives]
show_guess(guess, len(silent), "lines")


# %% jupyter={"source_hidden": true}
# Table: the collectives of each line, and what each device then holds
def listed(counter):
    """Counter({"all-reduce": 2}) as text: all-reduce (2)."""
    return ", ".join(name + f" ({count})" * (count > 1) for name, count in counter.items())


piece = {}
for line, program in programs.items():
    whole = jax.eval_shape(eval(f"lambda x: {line}"), x)
    (result,) = (op.type for op in program.module.computations[program.module.entry] if op.root)
    held = result.split("[")[1].split("]")[0]
    piece[line] = f"[{held}] of [{','.join(map(str, whole.shape))}]"
lines = "\n".join(f"| `{line}` | {listed(programs[line].collectives)} | `{piece[line]}` |" for line in LINES)
display(Markdown(f"| `x` is cut by rows | collectives | each then holds |\n|---|---|---|\n{lines}"))

# %% jupyter={"source_hidden": true}
# Proof
# A sum within rows is silent, a sum over rows is not; a transpose leaves a block of columns.
assert "x.sum(axis=1)" in silent and "x.sum(axis=0)" not in silent and piece["x.T"] == "[16,8] of [16,64]"

# %% [markdown]
# The rule behind it: **what stays inside a row is free**. `sum(axis=1)` is, `sum(axis=0)` is not. A transpose is free
# (each turns its own block, and the result is cut by columns). Neighbours, as in `roll`, cost a `collective-permute`:
# each device sends a little to the next. Where the compiler knows nothing better, it gathers the whole array on every
# device (`all-gather`). That is correct, and it is what you bought eight devices to avoid.
#
# One line costs more than it looks: `x[1:] - x[:-1]` has 63 rows, which eight devices cannot share evenly, so the result
# is left with everybody.
#
# ## 5. A product of matrices, nine ways
#
# `A @ B` sums over the columns of `A` and the rows of `B`. Lay each out whole, by rows or by columns: which of the
# nine need no talk at all? The result is laid out as XLA likes.

# %%
LAYOUTS = {"whole": P(), "by rows": P("i"), "by columns": P(None, "i")}
A = B = np.ones((8, 8), np.float32)
product = jax.jit(jnp.matmul)

guess = None  # your number of layouts, of the nine, that need no collective

# %%
nine = {}
for of_a, of_b in itertools.product(LAYOUTS, LAYOUTS):
    a, b = (jax.device_put(m, jax.NamedSharding(mesh, LAYOUTS[of])) for m, of in ((A, of_a), (B, of_b)))
    nine[of_a, of_b] = (a, b, product(a, b), show_hlo(product, a, b).collectives)
free = [names for names, (*_, talk) in nine.items() if not talk]
show_guess(guess, len(free), "layouts")


# %% jupyter={"source_hidden": true}
# Picture: the nine, piece by piece
def owners(x):
    """For each element of x the number of its device; 8 if all have it."""
    number = np.full(x.shape, 8)
    for device, index in x.sharding.devices_indices_map(x.shape).items():
        number[index] = 8 if x.sharding.is_fully_replicated else devices.index(device)
    return np.kron(number, np.ones((4, 4), int))


palette = plt.matplotlib.colors.ListedColormap([*COLOURS, "#dddddd", "white"])
gap = np.full((32, 10), 9)
fig, panels = plt.subplots(3, 3, figsize=(9, 4.6), gridspec_kw={"wspace": 0.2})
for ax, (a, b, c, talk) in zip(panels.flat, nine.values(), strict=True):
    picture = np.concatenate([owners(a), gap, owners(b), gap, owners(c)], axis=1)
    ax.imshow(picture, cmap=palette, vmin=0, vmax=9)
    for place, sign in ((36.5, "@"), (78.5, "=")):
        ax.text(place, 16, sign, ha="center", va="center", size=12)
    ax.set_title(listed(talk) or "no collective", size=11, color="C1" if talk else "C2", loc="center")
    ax.axis("off")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Three need none; a sum over a cut axis is not among them.
assert len(free) == 3 and ("by columns", "by rows") not in free

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
# I am. `ppermute` sends my piece to another device. With `all_to_all` I cut my piece into four and give each device one
# part (`0, 0`: cut and joined along axis 0). `psum_scatter` adds up as `psum` does and leaves each with one part of the
# sum; `all_gather` gives everybody all pieces. `tiled=True` joins pieces along the axis that they have, instead of
# stacking them along a new one. Four devices, each with four numbers; what does each hold afterwards?

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

# %% jupyter={"source_hidden": true}
# Picture: what each device holds after each of them
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
# ## 7. Types that know where they are
#
# So far the compiler chose every layout behind your back (`AxisType.Auto`). `make_mesh` has another default today:
# `Explicit`. Then **the layout is part of the type**, and you can read it at every line, without compiling. JAX calls
# it [explicit sharding](https://docs.jax.dev/en/latest/201/sharding.html).

# %%
explicit = jax.make_mesh((8,), ("i",), devices=devices)
with jax.set_mesh(explicit):
    rows_of_64 = jax.device_put(np.asarray(x), P("i"))
    weights = jax.device_put(np.asarray(w), P())
    print(jax.typeof(rows_of_64), " and ", jax.typeof(weights))
    tape = jax.make_jaxpr(lambda x, w: jnp.tanh(x @ w).sum(axis=1))(rows_of_64, weights)
    print(tape.pretty_print(use_color=False))

# %% [markdown]
# `64@i` reads: 64 long, cut along `i`. Types go through a program from line to line, as shapes do. And where a result
# could be laid out in more than one way, JAX does not choose. It asks: where a product sums over an axis that is cut in
# both operands, where a result would be cut twice along one name, and where rows would have to be moved. How many of
# these eleven does it refuse?

# %%
EXPRESSIONS = ["x + 1", "x.T", "x.sum(axis=1)", "x.sum(axis=0)", "x[:, None]", "x @ w", "x @ x.T", "x.T @ x"]
EXPRESSIONS += ["jnp.sort(x, axis=0)", "jax.reshard(x, P(None, 'i'))", "jnp.matmul(x.T, x, out_sharding=P())"]

guess = None  # your number

# %%
typed = {}
with jax.set_mesh(explicit):
    for expression in EXPRESSIONS:
        try:
            result = eval(expression, globals(), {"x": rows_of_64, "w": weights})
            typed[expression] = f"`{jax.typeof(jax.block_until_ready(result))}`"
        except Exception as error:
            typed[expression] = type(error).__name__
show_guess(guess, sum("Error" in kind for kind in typed.values()), "of eleven")

# %% jupyter={"source_hidden": true}
# Table: the type of each result, or the error
lines = "\n".join(f"| `{expression}` | {kind} |" for expression, kind in typed.items())
display(Markdown(f"| `x` is `float32[64@i,16]`, `w` is `float32[16,4]` | type |\n|---|---|\n{lines}"))

# %% jupyter={"source_hidden": true}
# Proof
# The default of make_mesh; types that are known, and the three questions.
assert explicit.axis_types == (AxisType.Explicit,) and typed["x.sum(axis=0)"] == "`float32[16]`"
refused = [expression for expression, kind in typed.items() if kind == "ShardingTypeError"]
assert typed["x.sum(axis=1)"] == "`float32[64@i]`" and refused == ["x @ x.T", "x.T @ x", "jnp.sort(x, axis=0)"]

# %% [markdown]
# Compare with the table in section 4: the errors are among the lines that had to talk. A plain sum over the cut axis,
# `x.sum(axis=0)`, is done in silence. For a product that sums over it, `x.T @ x`, JAX asks how the result shall lie (whole
# with everybody, or cut), and `out_sharding=` is the answer. And nothing is gathered or moved unless you write it:
# `jax.reshard`. The price is that old code which never thought about layouts stops with a `ShardingTypeError`. Then fix
# the line, or ask for `Auto`.

# %% [markdown]
# ## 8. The recipe of the post, carried over
#
# "`pmap` makes data parallel training easy, like PyTorch's DistributedDataParallel", says the post. (To *train* is to
# change numbers, the **weights**, until a **loss**, the mean error over many **examples**, is small: a step moves them a
# little against the gradient of the loss. Unit 14 does it at length.) It is this recipe: everybody has the weights and an
# eighth of the examples; each takes the gradient of its own loss; `pmean` averages.

# %%
X, Y, W = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 16), 64, 16))
Y = X @ rng.normal(size=16).astype(np.float32) + 0.1 * Y


def loss(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


def recipe(w, x, y):
    return lax.pmean(jax.grad(loss)(w, x, y), "i")


truth = np.asarray(jax.grad(loss)(W, X, Y))  # on one device
by_recipe = jax.pmap(recipe, axis_name="i", in_axes=(None, 0, 0))(W, X.reshape(8, 8, 16), Y.reshape(8, 8))
print(f"pmap: {by_recipe.shape}, farthest from the true gradient: {np.abs(by_recipe - truth).max():.1e}")

# %% jupyter={"source_hidden": true}
# Proof
# Eight copies of the right gradient.
assert by_recipe.shape == (8, 16) and np.allclose(by_recipe, truth, atol=1e-4)

# %% [markdown]
# It works, today as then. Now carry it over. The weights are everybody's, `P()`; the examples are cut, `P("i")`; what
# comes out is everybody's. The body is the same function. The gradient under `shard_map`, over the true one, is ...

# %%
specs = {"mesh": mesh, "in_specs": (P(), P("i"), P("i")), "out_specs": P()}
ported = jax.jit(jax.shard_map(recipe, **specs))

guess = None  # your number

# %%
placed = (jax.device_put(W, jax.NamedSharding(mesh, P())), *jax.device_put((X, Y), rows))
ratio = np.asarray(ported(*placed)) / truth
show_guess(guess, ratio.mean(), "x")

# %% jupyter={"source_hidden": true}
# Proof
# Each component is off by the same factor.
assert np.allclose(ratio, 8, rtol=1e-3)

# %% [markdown]
# Nobody complains, and the direction is right. But look at the length. To see where it comes from, ask for the types
# inside:


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
# change with it. So `grad` itself has added the eight gradients up, in the backward pass. The `pmean` then averages eight
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

# %% jupyter={"source_hidden": true}
# Table: which of the seven are right, and how often they communicate
verdicts, reduces = [], []
for name, fn in ways.items():
    program = fn.lower(*placed).compile()
    ratio = np.asarray(program(*placed)) / truth
    text = f"{ratio.mean():.3g}" if np.ptp(ratio) < 0.01 else f"{ratio.min():.1f} to {ratio.max():.1f}"
    verdicts.append((name, text, "✓" if np.allclose(ratio, 1, rtol=1e-3) else "✗"))
    reduces.append(len(re.findall(r" all-[a-z]+(?:-start)?\(", program.as_text())))
lines = [f"| {' | '.join(verdict)} | {n} |" for verdict, n in zip(verdicts, reduces, strict=True)]
display(Markdown("| | of the true gradient | | collectives |\n|---|:-:|:-:|:-:|\n" + "\n".join(lines)))

# %% jupyter={"source_hidden": true}
# Proof
# Three are wrong, four are right.
assert [mark for *_, mark in verdicts] == ["✗", "✗", "✓", "✓", "✓", "✗", "✓"]

# %% [markdown]
# **Say what you mean, then differentiate**: the loss of the batch is the mean over all, so put the `pmean` into the
# loss. `check_vma=False` switches the types off and brings back the rules of `pmap`. Then the recipe is right and the
# good habit is wrong. Never mix the two.
#
# The last line is the shortest. `jit` of the program for one device, and XLA finds the one `all-reduce` by itself.
#
# Would you notice an eightfold gradient? It depends on the **optimiser**, which turns a gradient into a step. Plain
# gradient descent moves each weight by a fixed multiple of its gradient. Adam divides each gradient by its usual size
# first. The library [Optax](https://optax.readthedocs.io) has both: `update` returns the step, and what the optimiser
# remembers.


# %%
@functools.partial(jax.jit, static_argnames=("optimiser", "gradient"))
def training(w, x, y, optimiser, gradient):
    def step(carry, _):
        w, state = carry
        updates, state = optimiser.update(gradient(w, x, y), state)
        return (w + updates, state), loss(w, x, y)

    return lax.scan(step, (w, optimiser.init(w)), length=60)[1]


optimisers = {"plain gradient descent": optax.sgd(0.15), "Adam": optax.adam(0.15)}
gradients = {"right": jax.grad(loss), "8 times too large": ported}
pairs = list(itertools.product(optimisers, gradients))
curves = {(by, of): np.asarray(training(*placed, optimisers[by], gradients[of])) for by, of in pairs}

# %% jupyter={"source_hidden": true}
# Picture: the loss, with the right gradient and with eight times the gradient
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for ax, name in zip(axes, optimisers, strict=True):
    for label, style in zip(gradients, ("C0-", "C1--"), strict=True):
        ax.plot(curves[name, label], style, label=label)
    ax.set(yscale="log", ylim=(5e-3, 1e4), title=name, xlabel="step")
axes[0].set_ylabel("loss (log scale)")
axes[1].legend()
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Descent explodes, Adam does not care.
assert curves["plain gradient descent", "right"][-1] < 0.1
assert not curves["plain gradient descent", "8 times too large"][-1] < 1e3
assert np.allclose(curves["Adam", "right"], curves["Adam", "8 times too large"], rtol=0.05)

# %% [markdown]
# Plain descent explodes. With Adam nothing shows: until you clip gradients, or compare their norms, or change the number
# of devices.
#
# A relative of this trap: `pmean` of the devices' means is the mean only if all have equally many examples. If the last
# batch is padded, add up sums and counts, and divide at the end. That is a task in the exercise.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 4, about {stage}: a loop that hangs, two processes, and the price of a message.*

# %% [markdown]
# ## 9. The loop that nobody waits for
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


compiled_loop = twenty_steps(*placed)
print(f"largest difference of the two: {np.abs(compiled_loop - waited).max():.1e}")

# %% jupyter={"source_hidden": true}
# Proof
# Both loops give the same weights.
assert np.allclose(compiled_loop, waited, atol=1e-5)

# %% [markdown]
# ## 10. Two processes
#
# Real clusters have a process for each machine, and each sees its own devices. What must change in a program? Here is
# one that trains on four devices. Only its second paragraph
# ([`jax.distributed.initialize`](https://docs.jax.dev/en/latest/_autosummary/jax.distributed.initialize.html)) and the line
# that makes `x` and `y` know of other processes.

# %%
PROGRAM = """
import os
import jax
import numpy as np
from jax import P, lax

if "RANK" in os.environ:
    jax.distributed.initialize(os.environ["ADDRESS"], num_processes=2, process_id=int(os.environ["RANK"]))

mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:4])
rng = np.random.default_rng(0)
table, targets = rng.normal(size=(32, 3)).astype("f4"), rng.normal(size=32).astype("f4")
rows = jax.NamedSharding(mesh, P("i"))  # below, each process is asked for the rows that lie with it
x, y = (jax.make_array_from_callback(a.shape, rows, a.__getitem__) for a in (table, targets))

@jax.jit
def train(w, x, y):
    gradient = jax.grad(lambda w: ((x @ w - y) ** 2).mean())
    return lax.scan(lambda w, _: (w - 0.1 * gradient(w), None), w, length=100)[0]

w = np.asarray(train(np.zeros(3, "f4"), x, y))
here = sum(len(piece.data) for piece in x.addressable_shards)
print(f"process {jax.process_index()} of {jax.process_count()} holds {here} of {len(x)} rows, w = {w.tolist()}")
"""

# %% [markdown]
# First it runs here, in this process; then twice at the same time, with two devices each. The two find each other at an
# address on this machine.


# %% jupyter={"source_hidden": true}
# Helper: run a program here, and in two processes at the same time
def run_here(program):
    """The weights w of the program, run in this process."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text(program)
        return runpy.run_path(str(Path(folder, "program.py")))["w"]


def run_twice(program):
    """What the program prints in each of two processes."""
    with socket.socket() as free_port:
        free_port.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free_port.getsockname()[1]}"
    base = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    base |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2", "ADDRESS": address}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", program]
    pair = [subprocess.Popen(command, env=base | {"RANK": rank}, **pipes) for rank in "01"]
    try:
        outputs = [process.communicate(timeout=50) for process in pair]
    finally:
        for process in pair:
            process.kill()  # no effect on one that has ended
    failed = [complaint[-1000:] for (_, complaint), process in zip(outputs, pair, strict=True) if process.returncode]
    if failed:
        raise RuntimeError(failed[0])
    return [re.search(r"process \d.*", said)[0] for said, _ in outputs]


# %%
alone = run_here(PROGRAM)
together = run_twice(PROGRAM)
print(*together, sep="\n")

# %% jupyter={"source_hidden": true}
# Proof
# Each of the two holds half of the rows, and finds the weights that one process finds.
for line in together:
    assert "holds 16 of 32 rows" in line and np.allclose(eval(line.split("w = ")[1]), alone, atol=1e-5)

# %% [markdown]
# Of `x`, each process holds a half, and the weights agree. `train`, the mesh, the sharding: not a line has changed, and
# `x` is one array of 32 rows that no single process could print. Every process must run the same program in the
# same order, though. A collective that one of them skips is a collective for which all the others wait.

# %% [markdown]
# ## 11. What a message costs
#
# A message has a price in two parts. **Latency** is the time until the first byte arrives, whatever the size.
# **Bandwidth** says how many bytes follow in a second:
#
# $$ t = \text{messages} \cdot \text{latency} + \frac{\text{bytes sent}}{\text{bandwidth}} $$
#
# So how many messages, and how many bytes, is a collective? That depends on how it is done, and we can write it out.
# Put the eight devices into a **ring**, where everybody sends only to the next one. To gather an array of which each
# has an eighth, pass on what you received last:

# %%
around = [(source, (source + 1) % 8) for source in range(8)]


def to_next(v):
    return lax.ppermute(v, "i", around)


def ring_all_gather(piece):
    """The pieces of all, my own first, then that of the device before me, and so on."""
    pieces = [piece]
    for _ in range(7):
        pieces.append(to_next(pieces[-1]))
    return jnp.concatenate(pieces)


# %% [markdown]
# For a sum that is cut into pieces (a *reduce-scatter*), a total travels once around, and everybody adds its part to
# what passes. A sum for everybody (*all-reduce*) is the two, one after the other. And if everybody has something else
# for each of the others (*all-to-all*), a bag goes around, and everybody takes out what is for itself.


# %%
def ring_reduce_scatter(parts):
    """parts: a row for each device. Piece number "me" of the sum over all devices."""
    me = lax.axis_index("i")
    total = parts[me - 1]
    for step in range(2, 9):
        total = to_next(total) + parts[me - step]
    return total


def ring_all_reduce(parts):
    return ring_all_gather(ring_reduce_scatter(parts))


def ring_all_to_all(parts):
    """parts: a row for me, one for the next device, and so on. What all have for me, in the order of their distance."""
    bag, mine = parts[1:], [parts[0]]
    for _ in range(7):
        bag = to_next(bag)
        mine, bag = [*mine, bag[0]], bag[1:]
    return jnp.stack(mine)


# %% [markdown]
# For an array of $V$ bytes, a device sends $7/8\,V$ in an all-gather: all pieces but one pass through it. How many
# times as much does it send in an all-reduce?

# %%
guess = None  # your number

# %%
by_ring = {"in_specs": P("i"), "out_specs": P("i"), "mesh": mesh, "check_vma": False}
V = 4 * 64  # bytes of the array: 64 numbers
RINGS = {  # name: (function, shape of what all devices have together)
    "all-gather": (ring_all_gather, (64,)),
    "reduce-scatter": (ring_reduce_scatter, (64, 8)),
    "all-reduce": (ring_all_reduce, (64, 8)),
    "all-to-all": (ring_all_to_all, (64, 1)),
}
counted, received = {}, {}
for name, (fn, shape) in RINGS.items():
    have = jax.device_put(rng.normal(size=shape).astype(np.float32), rows)
    jitted = jax.jit(jax.shard_map(fn, **by_ring))
    sent = re.findall(r"= \w+\[([\d,]*)\]\S* collective-permute(?:-done)?\(", show_hlo(jitted, have).text)
    counted[name] = len(sent), sum(4 * np.prod(np.int64(sizes.split(","))) for sizes in sent) / V
    received[name] = np.asarray(have), np.asarray(jitted(have))
show_guess(guess, counted["all-reduce"][1] / counted["all-gather"][1], "x")

# %% jupyter={"source_hidden": true}
# Table: messages and bytes of each collective in a ring of eight, counted in the compiled programs
FORMULAS = {"all-gather": "(N − 1)/N", "reduce-scatter": "(N − 1)/N"}
FORMULAS |= {"all-reduce": "2 (N − 1)/N", "all-to-all": "(N − 1)/2N"}
lines = [f"| {name} | {n} | {share:g} V | {FORMULAS[name]} |" for name, (n, share) in counted.items()]
display(Markdown("| in a ring of N = 8 | messages | bytes sent | of V |\n|---|--:|--:|---|\n" + "\n".join(lines)))

# %% jupyter={"source_hidden": true}
# Proof
# The four rings compute what they should; what they send is what the formulas say.
have, got = received["all-gather"]
before_me = np.subtract.outer(np.arange(8), np.arange(8)) % 8
assert (got.reshape(8, 8, 8) == have.reshape(8, 8)[before_me]).all()
have, got = received["reduce-scatter"]
total_of_all = have.reshape(8, 8, 8).sum(0)
assert np.allclose(got.reshape(8, 8), total_of_all, atol=1e-5)
have, got = received["all-reduce"]
assert np.allclose(got.reshape(8, 8, 8), have.reshape(8, 8, 8).sum(0)[before_me], atol=1e-5)
have, got = received["all-to-all"]
assert (got.reshape(8, 8) == have.reshape(8, 8)[before_me, np.arange(8)]).all()
if jax.default_backend() == "cpu":
    assert list(counted.values()) == [(7, 7 / 8), (7, 7 / 8), (14, 14 / 8), (7, 7 / 16)]

# %% [markdown]
# The bytes hardly depend on the number of devices: $(N-1)/N$ is at least 1/2, and soon nearly 1. As far as bandwidth goes,
# **gathering an array takes as long as sending it once**, to eight devices as to a thousand. The number of messages
# does grow with $N$, and for a small array it is the latency that you pay. A real ring sends both ways at once: half
# the rounds, twice the bandwidth, and for the all-to-all half the way as well. Where a switch connects each with each,
# as on a GPU server, one round is enough.
#
# ## 12. In seconds
#
# Now the same collectives, as XLA does them, on the devices that are here. An array of 4 kB is a thousandth of one of
# 4 MB. How many times longer does an all-reduce of the large one take?

# %%
guess = None  # your number

# %%
XLA_DOES = {  # name: (function, numbers on each device, for an array of n numbers)
    "all-gather": (lambda v: lax.all_gather(v, "i", tiled=True), lambda n: n // 8),
    "reduce-scatter": (lambda v: lax.psum_scatter(v, "i", tiled=True), lambda n: n),
    "all-reduce": (lambda v: lax.psum(v, "i"), lambda n: n),
    "all-to-all": (lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True), lambda n: n // 8),
}
SIZES = 2 ** np.array([12, 16, 19, 22])  # bytes of the array
measured = {}
for name, (fn, on_each) in XLA_DOES.items():
    jitted, times = jax.jit(jax.shard_map(fn, **by_ring)), []
    for size in SIZES:
        have = jax.device_put(np.ones(8 * on_each(size // 4), np.float32), rows)
        times.append(min(benchmark(jitted, have, rounds=7).rounds))
    measured[name] = np.array(times)
show_guess(guess, measured["all-reduce"][-1] / measured["all-reduce"][0], "x")

# %% [markdown]
# To read latency and bandwidth off such points, fit a straight line: $t = a + V/b$. (We weight the points so that each
# counts by its relative error, or the largest would decide alone.) Beside it, the formulas for two machines, from what
# their makers publish:
#
# | | bfloat16 arithmetic | memory | out of each device | source |
# |---|--:|--:|--:|---|
# | TPU v5p | 459 TFLOP/s | 95 GiB | 100 GB/s to each of 6 neighbours | [Google](https://docs.cloud.google.com/tpu/docs/v5p): 1,200 GB/s both ways, a torus of three axes |
# | H100 (SXM) | 989 TFLOP/s | 80 GB | 450 GB/s, through a switch | [NVIDIA](https://www.nvidia.com/en-us/data-center/h100/): NVLink 900 GB/s both ways; 1,979 TFLOP/s with sparsity, half of it without |
#
# (A *torus* is a grid whose ends are joined: along each axis the devices form rings.)
# [How to Scale Your Model](https://jax-ml.github.io/scaling-book/sharding) counts about a microsecond for a message
# between neighbours on a TPU. We take that for both; for the GPU it is our assumption.


# %%
def ring_of(n):
    """Rounds, and bytes out of each device over V, in a ring that sends both ways; n is even."""
    once = (n // 2, (n - 1) / n)
    return {
        "all-gather": once,
        "reduce-scatter": once,
        "all-reduce": (n, 2 * (n - 1) / n),
        "all-to-all": (n // 2, 1 / 4),
    }


def switch_of(n):
    once = (1, (n - 1) / n)
    return {
        "all-gather": once,
        "reduce-scatter": once,
        "all-reduce": (2, 2 * (n - 1) / n),
        "all-to-all": (1, (n - 1) / n**2),
    }


# %%
fits = {}
for name, times in measured.items():
    line = np.stack([1 / times, SIZES / times], axis=1)
    fits[name] = np.linalg.lstsq(line, np.ones(len(SIZES)), rcond=None)[0]  # a, 1 / b
PRICES = {"here": {name: tuple(fit) for name, fit in fits.items()}}
for machine, shares, bandwidth in (
    ("8 TPU v5p in a ring", ring_of(8), 200e9),
    ("8 H100, a switch", switch_of(8), 450e9),
):
    PRICES[machine] = {name: (1e-6 * rounds, share / bandwidth) for name, (rounds, share) in shares.items()}


# %% jupyter={"source_hidden": true}
# Table: latency, and microseconds for each megabyte of the array
def ms(machine, name, size):
    first, each = PRICES[machine][name]
    return 1e3 * (first + size * each)


lines = []
for name in XLA_DOES:
    prices = [PRICES[machine][name] for machine in PRICES]
    lines.append(f"| {name} | " + " | ".join(f"{1e6 * a:,.0f} | {1e12 * b:,.1f}" for a, b in prices) + " |")
head = "| µs | " + " | ".join(f"{machine}: latency | for each MB" for machine in PRICES)
display(Markdown("\n".join([head + " |", "|---|" + "--:|--:|" * len(PRICES), *lines])))
off = max(
    abs(1e3 * t / ms("here", n, s) - 1) for n, times in measured.items() for t, s in zip(times, SIZES, strict=True)
)
print(f"The measured point that is farthest from its line is {off:.0%} off.")

# %% jupyter={"source_hidden": true}
# Picture: the points and the fitted lines, and the all-reduce on two machines by formula
fig, (ax, other) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
grid_of_sizes = np.geomspace(SIZES[0], 1e9, 200)
for number, (name, times) in enumerate(measured.items()):
    ax.plot(SIZES, 1e3 * times, "o", color=f"C{number}")
    inside = grid_of_sizes[grid_of_sizes <= SIZES[-1]]
    ax.plot(inside, [ms("here", name, size) for size in inside], color=f"C{number}", label=name)
for number, machine in enumerate(list(PRICES)[1:]):
    other.plot(
        grid_of_sizes,
        [ms(machine, "all-reduce", size) for size in grid_of_sizes],
        color=f"C{number + 4}",
        label=machine,
    )
for panel, title in ((ax, f"measured here, on {os.cpu_count()} cores, and fitted"), (other, "all-reduce, by formula")):
    panel.set(xscale="log", yscale="log", xlabel="bytes of the array (log scale)")
    panel.set_title(title, size=11)
    panel.legend(fontsize=9)
ax.set_ylabel("ms (log scale)")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The fit of the all-reduce has a latency and a slope; what the text says of the formulas.
assert all(fits["all-reduce"] > 0)
assert np.isclose(ms("8 TPU v5p in a ring", "all-gather", 1e9), 1e3 * (4e-6 + 7 / 8 / 200))
assert ring_of(1000)["all-gather"][1] / ring_of(8)["all-gather"][1] < 8 / 7

# %% [markdown]
# All lines have the same shape: flat while latency rules, then rising with the bytes while bandwidth does. But read the
# left panel with care. If your devices are virtual, no wire was used: a "message" is a copy in the one memory that all
# eight share, the latency is the time until eight threads on a few cores have met, and whatever else this machine is
# doing slows both. The shape of the line carries over to real devices; its numbers do not. That holds for all times on
# virtual devices:
#
# ### An honest plot
#
# Eight devices, so eight times as fast? Here are ten sines of each of 262,144 numbers, and a small sum. What is the
# time of the ten sines on eight devices, over their time on one?


# %%
def ten_sines(x):
    for _ in range(10):
        x = jnp.sin(x) * 1.1
    return x


guess = None  # your number

# %%
counts, relative = (1, 2, 8), {}
for fn, length in ((ten_sines, 512), (jnp.sum, 8)):
    best = []
    for count in counts:
        some = jax.make_mesh((count,), ("i",), axis_types=(AxisType.Auto,), devices=devices[:count])
        cut = jax.device_put(np.ones((length, 512), np.float32), jax.NamedSharding(some, P("i")))
        best.append(min(benchmark(jax.jit(fn), cut, rounds=3).rounds))
    relative[f"{fn.__name__}, {length} rows"] = np.divide(best, best[0])
show_guess(guess, relative["ten_sines, 512 rows"][-1], "x")

# %% jupyter={"source_hidden": true}
# Picture: time by the number of devices
fig, ax = plt.subplots(figsize=(8, 3.2))
ax.plot(counts, 1 / np.array(counts), color="#999999", ls=":", label="real devices, at best")
for (name, times), marker in zip(relative.items(), "os", strict=True):
    ax.plot(counts, times, marker=marker, label=name)
ax.set(xlabel="devices (log scale)", ylabel="time, over one device's")
ax.set_xscale("log", base=2)
ax.set_yscale("log", base=2)
for axis in (ax.xaxis, ax.yaxis):
    axis.set_major_formatter(lambda value, _: f"{value:g}" if value >= 1 else f"1/{1 / value:g}")
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
ax.set_title(f"{len(devices)} devices on {os.cpu_count()} cores")
plt.show()

# %% [markdown]
# Virtual devices share the cores you had before. At best, long work finds a core that was idle (or
# takes it from other programs, by having more threads). At worst, as in the small sum, you see the naked price of
# handing out eight pieces of work and one collective. So **virtual devices are for being right**: for layouts, counts
# and values, all of which hold on the real ones. Never take a speed from them. Neither do the exercises.

# %% [markdown]
# ---
# *A good place to stop. Stage 4 of 4, about {stage}: a model that fits on no single device.*

# %% [markdown]
# ## 13. Parameters in pieces
#
# In data parallel training everybody has a copy of the parameters, of the gradient, and of whatever the optimiser
# remembers (for Adam, two more arrays as large as the parameters). Eight devices then hold eight times the same. The
# other way is to **cut them all**, and to put a layer together only while it is in use. It is known as *fully sharded
# data parallel*, FSDP. In our words: `all_gather` the layer's pieces, and use it. Here is a stack of layers, first for
# one device, then with this one line:

# %%
LAYERS, WIDTH = 6, 256


def layer(h, w):
    return jnp.tanh(h @ w), None


def gathered_layer(h, piece):
    """The same layer, of which each device holds an eighth of the rows."""
    return layer(h, lax.all_gather(piece, "i", tiled=True))


def deep_loss(w, x, y, layer=layer):
    return jnp.mean((lax.scan(layer, x, w)[0] - y) ** 2)


def mean_loss(layer):
    """The loss of the whole batch, for one of eight devices with an eighth of it (section 8)."""
    return lambda w, x, y: lax.pmean(deep_loss(w, x, y, layer), "i")


# %% [markdown]
# The optimiser never needs a whole layer: Adam works on each number by itself, so each device updates its own pieces.
# And the gradient? It must come back cut like the parameters, added up over all devices. Nobody has to write that: the
# derivative of an `all_gather` *is* a reduce-scatter, so `grad` puts it in.

# %%
adam = optax.adam(1e-3)


def train_step_of(loss):
    def train_step(w, state, x, y):
        updates, state = adam.update(jax.grad(loss)(w, x, y), state)
        return optax.apply_updates(w, updates), state

    return train_step


stack = rng.normal(size=(LAYERS, WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
CUT = P(None, "i")  # of each layer, device 0 has the first eighth of the rows, and so on
copies, pieces = ((jax.device_put(stack, jax.NamedSharding(mesh, spec))) for spec in (P(), CUT))
states = [adam.init(held) for held in (copies, pieces)]  # zeros that are laid out alike
batch = jax.device_put(tuple(rng.normal(size=(2, 64, WIDTH)).astype(np.float32)), rows)

# %% [markdown]
# Four ways to train it. The second and the third differ in what the forward pass keeps for the backward pass: all the
# layers that it has put together, or nothing, so that the backward pass gathers once more (`jax.checkpoint`, unit 11).
# In the fourth, `jit` gets the cut parameters, and we say nothing.


# %%
def on_each(loss):
    layouts = jax.tree.map(lambda leaf: CUT if leaf.ndim else P(), (pieces, states[1]))
    split = {"in_specs": (*layouts, P("i"), P("i")), "out_specs": layouts}
    return jax.shard_map(train_step_of(loss), mesh=mesh, **split)


WAYS = {
    "copies": (train_step_of(deep_loss), copies, states[0]),
    "pieces, a gathered layer is kept": (on_each(mean_loss(gathered_layer)), pieces, states[1]),
    "pieces, gathered again": (on_each(mean_loss(jax.checkpoint(gathered_layer))), pieces, states[1]),
    "pieces, `jit` alone": (train_step_of(deep_loss), pieces, states[1]),
}
compiled = {name: jax.jit(fn).lower(w, state, *batch).compile() for name, (fn, w, state) in WAYS.items()}

# %% [markdown]
# In the loop over the layers, the third way gathers twice and adds up once, always in pieces. The first adds up a whole
# gradient for everybody, once. How many times the bytes of the first way does a device send in the third?

# %%
guess = None  # your number

# %%
SHARES = {"all-gather": 7 / 8, "all-reduce": 2 * 7 / 8, "reduce-scatter": 7}  # of the bytes of the *result*, in a ring


def collectives_of(text):
    """(name, bytes that each device sends) of each collective in a compiled program."""
    found = re.findall(r"= f32\[([\d,]+)\]\S* (all-gather|all-reduce|reduce-scatter)(?:-done)?\(", text)
    return [(name, 4 * np.prod(np.int64(shape.split(","))) * SHARES[name]) for shape, name in found]


in_a_layer = {name: collectives_of(program.as_text()) for name, program in compiled.items()}
sent = {name: LAYERS * sum(size for _, size in found) for name, found in in_a_layer.items()}
show_guess(guess, sent["pieces, gathered again"] / sent["copies"], "x")

# %% jupyter={"source_hidden": true}
# Table: what a device holds, sends and needs
lines = []
for name, (_, w, state) in WAYS.items():
    held = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves((w, state)))
    done = {}
    for kind, _ in in_a_layer[name]:
        done[kind] = done.get(kind, 0) + 1
    scratch = compiled[name].memory_analysis().temp_size_in_bytes
    lines.append(f"| {name} | {held / 1e3:,.0f} | {listed(done)} | {sent[name] / 1e3:,.0f} | {scratch / 1e3:,.0f} |")
head = "| | parameters and Adam, kB on a device | collectives in a layer | sent in a step, kB | temporaries, kB |"
display(Markdown("\n".join([head, "|---|--:|---|--:|--:|", *lines])))

# %% jupyter={"source_hidden": true}
# Proof
# All four find the same gradient; pieces are an eighth; the third sends 3/2 of the first, needs less than the second.
results = {name: compiled[name](w, state, *batch) for name, (_, w, state) in WAYS.items()}
moments = {name: np.asarray(state[0].mu) for name, (_, state) in results.items()}  # a tenth of the gradient
for moment in moments.values():
    assert np.allclose(moment, moments["copies"], rtol=0, atol=1e-4 * np.abs(moments["copies"]).max())
nbytes_here = [
    sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(way[1:])) for way in WAYS.values()
]
assert nbytes_here[0] - 4 == 8 * (nbytes_here[1] - 4) and len(set(nbytes_here[1:])) == 1  # 4: Adam counts its steps
if jax.default_backend() == "cpu":
    keeps, again = "pieces, a gathered layer is kept", "pieces, gathered again"
    assert [sorted(name for name, _ in found) for found in in_a_layer.values()][:3] == [
        ["all-reduce"],
        ["all-gather", "reduce-scatter"],
        ["all-gather", "all-gather", "reduce-scatter"],
    ]
    assert sent[again] == 1.5 * sent["copies"] and sent[keeps] == sent["copies"] == LAYERS * 7 / 4 * 4 * WIDTH**2
    scratch = {name: program.memory_analysis().temp_size_in_bytes for name, program in compiled.items()}
    assert scratch[keeps] - scratch[again] > 4 * (LAYERS - 1) * WIDTH**2
    entry = compiled[again].as_text().split("ENTRY ")[1]
    assert not collectives_of(entry.split("\n}")[0])  # all are inside the loops

# %% [markdown]
# An eighth of the memory, for half as many bytes again on the wire. (The collectives stand in the loops over the
# layers, so that a step does each of them for each layer.) Look at the last column, too: if the gathered layers are
# kept, all of them are there at the end of the forward pass, whole, and little is won.
#
# The last line is `jit`'s own: from the cut parameters alone, XLA gathers by layer as well. Where it writes
# `all-reduce`, each device then keeps its eighth of the sum; with `shard_map` you have said that you want no more than
# that.
#
# (Our `checkpoint` does the layer's arithmetic a second time as well. A *policy*, `jax.checkpoint(..., policy=...)`,
# can have only the gathering repeated. Below we count the arithmetic once.)
#
# ## 14. A real model
#
# Llama 3 8B, a language model of 8 billion parameters, with the shapes of
# [its paper](https://arxiv.org/abs/2407.21783) (table 3). Only the shapes matter here, not what the layers do (unit 17 has
# the attention). Nothing is computed: as in unit 12, types are enough.


# %%
def normal(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


DEPTH, MODEL, HIDDEN, HEADS, KEY_HEADS, VOCABULARY = 32, 4096, 14_336, 32, 8, 128_256
key_width = MODEL // HEADS * KEY_HEADS  # four queries share a key and a value
blocks = {
    "q": normal(DEPTH, MODEL, MODEL),
    "k": normal(DEPTH, MODEL, key_width),
    "v": normal(DEPTH, MODEL, key_width),
    "o": normal(DEPTH, MODEL, MODEL),
    "gate": normal(DEPTH, MODEL, HIDDEN),
    "up": normal(DEPTH, MODEL, HIDDEN),
    "down": normal(DEPTH, HIDDEN, MODEL),
    "norms": normal(DEPTH, 2, MODEL),
}
llama = {"embed": normal(VOCABULARY, MODEL), "blocks": blocks, "norm": normal(MODEL), "out": normal(MODEL, VOCABULARY)}


# %% jupyter={"source_hidden": true}
# Helper: its loss
# It leaves out the rotation of the positions, which has no parameters and little arithmetic.
def normed(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale


def llama_block(x, p):
    y = normed(x, p["norms"][0])
    q, k, v = (jnp.reshape(y @ p[name], (*x.shape[:2], -1, MODEL // HEADS)) for name in "qkv")
    x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ p["o"]
    y = normed(x, p["norms"][1])
    return x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"], None


def llama_loss(p, tokens):
    x, _ = lax.scan(llama_block, p["embed"][tokens], p["blocks"])
    logits = normed(x, p["norm"]) @ p["out"]
    return jax.nn.logsumexp(logits, -1).mean() - jnp.take_along_axis(logits, tokens[..., None], -1).mean()


def nbytes(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


# %% [markdown]
# What must be held somewhere: the parameters in `float32`, Adam's state, and the gradient. (What the forward pass keeps
# comes on top. Unit 12 shows how to find it.) And what must be computed, for a row of 8,192 tokens:

# %%
parameters = sum(leaf.size for leaf in jax.tree.leaves(llama))
kept_bytes = 2 * nbytes(llama) + nbytes(jax.eval_shape(adam.init, llama))
row = jax.ShapeDtypeStruct((1, 8192), jnp.int32)
flops_a_token = show_jaxpr(jax.grad(llama_loss), llama, row).flops / row.size
print(f"{parameters:,} parameters; with gradient and Adam {kept_bytes / 1e9:.1f} GB")
print(f"forward and backward: {flops_a_token / 1e9:.1f} GFLOP a token, {flops_a_token / parameters:.1f} a parameter")

# %% jupyter={"source_hidden": true}
# Proof
# The figures of Llama 3 8B: sixteen bytes a parameter, and about six operations, more with attention over 8,192 tokens.
assert parameters == 8_030_261_248 and kept_bytes == 16 * parameters + 4
assert 6 < flops_a_token / parameters < 8

# %% [markdown]
# (The rule of thumb is six operations a parameter and token: two forward, four backward. Attention over a long row
# adds the rest.)
#
# Now two machines, with the figures of section 12: a server of 8 H100, and 64 TPU v5p as a cube of 4 x 4 x 4, in which
# a gathering can use the rings along all three axes, so six links. Parameters and gradients are cut over all devices
# and travel in `bfloat16`, two bytes each: gathered forward, gathered backward, and added up, so three times.
#
# If a device has few tokens to work on, it waits for the parameters; if it has many, the parameters come while it
# computes. With how many tokens on each H100 does the arithmetic take as long as the communication?

# %%
guess = None  # your number: 20, 2,000 or 200,000?

# %%
MACHINES = {  # devices, FLOP/s, bytes of memory, bytes/s out of each
    "8 H100": (8, 989e12, 80e9, 450e9),
    "64 TPU v5p": (64, 459e12, 95 * 2**30, 600e9),
}


def plan(n, rate, memory, bandwidth):
    """Least devices, bytes on each, seconds of communication, tokens on a device at which they balance."""
    communication = 3 * 2 * parameters * (n - 1) / n / bandwidth
    return int(np.ceil(kept_bytes / memory)), kept_bytes / n, communication, communication * rate / flops_a_token


plans = {machine: plan(*figures) for machine, figures in MACHINES.items()}
show_guess(guess, plans["8 H100"][-1], "tokens")

# %% jupyter={"source_hidden": true}
# Table: the plan on two machines
lines = []
for machine, (least, held, seconds, tokens) in plans.items():
    n, rate, memory, _ = MACHINES[machine]
    lines.append(
        f"| {machine} | {least} | {held / 1e9:.1f} of {memory / 1e9:.0f} | {1e3 * seconds:.0f} "
        f"| {tokens:,.0f} | {n * tokens:,.0f} | {8192 * flops_a_token / rate * 1e3:.0f} |"
    )
head = "| | least devices | GB held on each | communication, ms a step | tokens on a device | in the whole batch "
display(Markdown("\n".join([head + "| 8,192 tokens, ms |", "|---|--:|--:|--:|--:|--:|--:|", *lines])))

# %% jupyter={"source_hidden": true}
# Picture: seconds of arithmetic and of communication, by the tokens on a device
fig, ax = plt.subplots(figsize=(8, 3.6))
tokens = np.geomspace(64, 32_768, 50)
for colour, (machine, (_, _, seconds, balance)) in zip(("C0", "C1"), plans.items(), strict=True):
    ax.plot(tokens, 1e3 * tokens * flops_a_token / MACHINES[machine][1], color=colour, label=f"{machine}: arithmetic")
    ax.axhline(1e3 * seconds, color=colour, ls="--", label=f"{machine}: communication")
    ax.plot(balance, 1e3 * seconds, "o", color=colour, markersize=9)
    ax.plot([balance, balance], [3, 1e3 * seconds], color=colour, ls=":")
    ax.text(balance, 3.3, f" {balance:,.0f}", color=colour)
ax.set(
    xscale="log",
    yscale="log",
    ylim=(3, None),
    xlabel="tokens on a device (log scale)",
    ylabel="ms of a step (log scale)",
)
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Two of either hold it; the balance is the rate over the bandwidth, nearly: it does not know the model's size.
assert [least for least, *_ in plans.values()] == [2, 2] and all(MACHINES[m][0] >= plans[m][0] for m in plans)
for machine, (n, rate, _, bandwidth) in MACHINES.items():
    assert 0.7 < plans[machine][-1] / (rate / bandwidth * (n - 1) / n) < 1
    assert 4 * plans[machine][-1] < 8192

# %% [markdown]
# Read it from the dots. To the left, the devices wait for parameters, whatever their arithmetic rate. To the right they
# compute, and the communication can hide behind it, on hardware that fetches the next layer while this one is in use.
# One row of 8,192 tokens on each device is far on the good side, on both machines.
#
# Two things are worth remembering. The parameters cancel: both the bytes and the operations grow with them, so the
# balance is close to *arithmetic rate over bandwidth*, a property of the machine. And it is a number of tokens **on
# each device**: whoever takes more devices needs a larger batch, or they will wait.
#
# All of this is a floor. Peak rates are not reached, messages are not only sent at full speed, and the model's
# activations need memory, too. A plan tells you what cannot work, and what is worth trying.

# %% [markdown]
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims, and what was measured above
with_pmap = jax.pmap(recipe, axis_name="i", in_axes=(None, 0, 0))
pmap_talk = show_hlo(with_pmap, W, X.reshape(8, 8, 16), Y.reshape(8, 8)).collectives
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
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows_of_table}"))

# %% jupyter={"source_hidden": true}
# Proof
# The recipe in pmap communicates once.
assert pmap_talk == {"all-reduce": 1}

# %% [markdown]
# ## Keypoints
#
# - `jax.config.update("jax_num_cpu_devices", 8)`, before anything else: eight devices to be right on, not to be fast
#   on.
# - `pmap` is `jit(shard_map)` with a squeeze. New code: `jit` and a `NamedSharding`; `shard_map` where you want to say
#   who talks.
# - A mesh names devices, `P(...)` says along which name each axis is cut. What is not named is copied.
# - What stays inside a piece is free. Cut axes that survive; a cut axis that is summed over costs an `all-reduce`;
#   the rest is gathered. Count with `show_hlo(...).collectives`.
# - On an `Explicit` mesh the layout is in the type, and nothing is moved that you did not ask for.
# - Under `shard_map`, the gradient of something shared is already a sum. Put the mean into the loss.
# - Wait in every step, or `lax.scan`: no Python loop of un-awaited collectives on virtual devices.
# - A message costs latency plus bytes over bandwidth. Gathering V bytes, or adding them up in pieces, sends (N − 1)/N
#   of V; an all-reduce is both.
# - Cut the parameters, gather by layer: memory over N, 3/2 of the bytes. It pays when a device has more tokens than
#   its arithmetic rate over its bandwidth.
#
# ## Your turn
#
# [Exercise 13](../exercises/13_many_devices/many_devices.ipynb): read and draw maps, pass heat around a ring, get a
# variance over the phone with a single call, mend the eightfold gradient, and four holes of communication golf.
# 20 points.
