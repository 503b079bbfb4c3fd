# %% [markdown]
# # 17 · When fusion is not enough: kernels
#
# **To turn the rows of a table into softmaxes, each number must be read once and one written for it. How often does
# XLA's program go over the table?**
#
# You will
#
# - find in the bytes of a program where fusion ends, and say why;
# - write kernels with Pallas: blocks, grids and index maps, on any CPU;
# - write attention without its matrix of scores, count what it moves, and lower it for a TPU that you do not have;
# - know when not to write a kernel.
#
# About {duration}, in three stages (about {stage} for the first). You need the bytes of unit 09; unit 15 says when they
# matter.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from autograder import benchmark, kernel_blocks, show_guess, show_hlo, show_jaxpr

print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")

# %% jupyter={"source_hidden": true}
# Helper: modules for pictures and tables
import inspect
import re
from functools import partial

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. Where fusion ends
#
# A softmax turns each row into positive numbers with the sum 1. The row's maximum is subtracted first, so that `exp`
# does not overflow.


# %%
def softmax(X):
    e = jnp.exp(X - X.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


rng = np.random.default_rng(0)
table = jnp.asarray(rng.normal(size=(1024, 2048)).astype(np.float32))
print(f"the table: {table.nbytes:,} bytes")

# %% [markdown]
# One pass over memory reads the table, or writes one as large. Two are the least: the table in, the result out.

# %%
guess = None  # your number of passes that XLA's program makes, reads and writes together

# %% jupyter={"source_hidden": true}
# Helper: bytes that a program moves, by line of ENTRY (unit 09)
DTYPE_BYTES = {"pred": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4}
FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element"}


def size(hlo_type):
    """Bytes of `f32[64,32]{1,0}`, or of a tuple of such types."""
    total = 0
    for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", hlo_type):
        total += DTYPE_BYTES[dtype] * int(np.prod([int(n) for n in shape.split(",") if n]))
    return total


def bill(view):
    """[(name, bytes read, bytes written)] for each line of ENTRY that costs anything."""
    entry = view.module.computations[view.module.entry]
    sizes = {line.name: size(line.type) for line in entry}
    return [
        (line.name, sum(map(sizes.get, line.operands)), sizes[line.name]) for line in entry if line.opcode not in FREE
    ]


# %%
view = show_hlo(softmax, table)
passes = view.bytes / table.nbytes
print(f"{view.bytes:,} bytes, {view.fusions} fusions")
show_guess(guess, round(passes, 2), "passes")

# %% jupyter={"source_hidden": true}
# Table: what each line of ENTRY reads and writes, in passes over the table
rows = [f"| `{name}` | {r / table.nbytes:.2f} | {w / table.nbytes:.2f} |" for name, r, w in bill(view)]
display(Markdown("\n".join(["| line | read | written |", "|---|--:|--:|", *rows])))

# %% jupyter={"source_hidden": true}
# Proof
# On a CPU: more than two passes, a table is written that is not the result, and the lines add up to XLA's estimate.
if jax.default_backend() == "cpu":
    lines = bill(view)
    assert passes > 2.5 and sum(write for *_, write in lines) > 1.9 * table.nbytes
    assert abs(sum(read + write for _, read, write in lines) / view.bytes - 1) < 0.01

# %% [markdown]
# It is one formula and one program, and yet a table goes through memory that is not the result. The reason is in the
# formula. A **reduction is a wall**: nothing behind it can be computed before all that it reduces was read, here a whole
# row. There are two, the maximum and the sum. `e / e.sum(1)` needs every `e` twice, once for the sum and once for the
# division, and at the second time the sum of the row must be known. A fusion is a loop over a whole array. When it has
# come to the end, nothing is left in registers, so XLA writes `e` to memory and reads it again.
#
# You see the way out: go over the table *in blocks of rows*. A block is small enough to stay near the processor from its
# first maximum to its last division. (A compiler can find that too, for patterns that it knows. The number above is
# that of this machine and this version.)
#
# Here is a program where it hurts more. **Attention**, the heart of a language model, has for each of the `n` places of
# a text (a place holds a word, say) a row `q` (what it asks), a row `k` (what it can be asked for) and a row `v` (what it
# answers). The score of two places is the dot product of the one's `q` and the other's `k`, over the root of their
# length. Each place takes an average of all answers, with the softmax of its scores as weights.


# %%
def attention(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[1])
    return softmax(scores) @ v


def places(n, width=64):
    """q, k and v for n places."""
    rng = np.random.default_rng(n)
    return [jnp.asarray(rng.normal(size=(n, width)).astype(np.float32)) for _ in "qkv"]


# %% [markdown]
# Input and result are `n` rows each. What lies between them? `temp_bytes` is the scratch memory that the compiled
# program asks for (unit 11). If the number of places doubles, by how much does it grow?

# %%
guess = None  # your factor for the scratch memory, from 512 to 1024 places

# %%
small, large = (show_hlo(attention, *places(n)) for n in (512, 1024))
for n, seen in ((512, small), (1024, large)):
    print(f"{n:5} places: inputs {3 * n * 64 * 4:,} bytes, scratch {seen.temp_bytes:,}, moved {seen.bytes:,}")
show_guess(guess, round(large.temp_bytes / small.temp_bytes, 1), "x")

# %% jupyter={"source_hidden": true}
# Proof
# On a CPU the scores exist, and are the largest thing in memory.
if jax.default_backend() == "cpu":
    assert large.temp_bytes >= 4 * 1024**2 and large.temp_bytes / small.temp_bytes > 3.5

# %% [markdown]
# The matrix of scores, `n` by `n`, is an array in memory: written, read, written again. Nobody wants to have it. For a
# long text it is larger than everything else together. Fusion does not remove it: a product of matrices is a reduction,
# too (and on a CPU a call of a library, unit 09), and between the two products stand the two walls of the softmax.
#
# If the compiler does not find the loop that you want, you can write it yourself, as a **kernel** of your own.
#
# ## 2. The smallest kernel
#
# **Pallas** is JAX's language for kernels. You write what happens in *one step* of the loop, as a function that gets
# **refs**, the boxes of unit 11: `x_ref[...]` reads what is in it, `o_ref[...] = ` writes. It returns nothing.


# %%
def add_one_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


def add_one(x):
    like_x = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(add_one_kernel, out_shape=like_x, interpret=True)(x)


x = jnp.arange(6.0).reshape(2, 3)
print(add_one(x))
print(show_jaxpr(add_one, x).text)

# %% jupyter={"source_hidden": true}
# Proof
# The values, and one pallas_call.
assert (add_one(x) == x + 1).all() and show_jaxpr(add_one, x).primitives["pallas_call"] == 1

# %% [markdown]
# In the jaxpr it is one equation, `pallas_call`, with the kernel's own jaxpr inside. There the refs have a type of their
# own, and `<-` is a read or a write.
#
# A kernel is compiled for a GPU or a TPU. On a CPU it cannot be compiled; `interpret=True` runs it as ordinary JAX
# operations, wherever you are. That is for finding errors, not for speed. Without it:

# %%
try:
    print(pl.pallas_call(add_one_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
except Exception as error:
    print(f"not here, because: {error}")

# %% [markdown]
# ### Blocks, grid, index map
#
# The point of a kernel is to see only a part of an array at a time. Three things say which part:
#
# - the **block shape**: how large the part is;
# - the **grid**: how many steps there are. `grid=(2, 3)` is two loops, one in the other, six steps;
# - the **index map**, a function from the place in the grid to a block: *which* block, counted in blocks, not in
#   elements.
#
# A block shape and an index map together are a `pl.BlockSpec`, one for each input and output. In the kernel,
# `pl.program_id(0)` says where this step is on the first axis of the grid, and `pl.num_programs(1)` how long the second
# axis is. This one writes into each block the number of the step that it is in:


# %%
def step_kernel(o_ref):
    step = pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)
    o_ref[...] = jnp.full(o_ref.shape, step, jnp.int32)


def steps(index_map, shape=(8, 12), block=(4, 4)):
    out = jax.ShapeDtypeStruct(shape, jnp.int32)
    spec = pl.BlockSpec(block, index_map)
    return pl.pallas_call(step_kernel, grid=(2, 3), out_specs=spec, out_shape=out, interpret=True)()


print(steps(lambda i, j: (i, j)))

# %% [markdown]
# The last axis of the grid moves fastest, as in two loops in Python. So a TPU goes through a grid, and the interpreter
# too: one step after the other. A [GPU runs the steps at the same time](https://docs.jax.dev/en/latest/pallas/quickstart.html);
# this lesson counts and writes for a TPU.
#
# What if the map leaves one of its arguments out? `lambda i, j: (0, j)` names the same three blocks for `i = 0` and for
# `i = 1`.

# %%
guess = None  # your number: what stands in the first corner of the result, [0, 0]?

# %%
again = steps(lambda i, j: (0, j))
show_guess(guess, int(again[0, 0]))

# %% jupyter={"source_hidden": true}
# Picture: the step that wrote each block last, for three index maps
maps = {
    "(i, j) → (i, j)": steps(lambda i, j: (i, j)),
    "(i, j) → (0, j)": steps(lambda i, j: (0, j), shape=(4, 12)),
    "(i, j) → (j, i)": steps(lambda i, j: (j, i), shape=(12, 8)),
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2))
for ax, (name, written) in zip(axes, maps.items(), strict=True):
    blocks = np.asarray(written)[::4, ::4]
    ax.imshow(blocks, cmap="Blues", vmin=-1, vmax=8)
    for (row, column), step in np.ndenumerate(blocks):
        ax.text(column, row, f"step {step}", ha="center", va="center", size=10)
    ax.set_title(name, family="monospace", size=11, loc="center")
    ax.axis("off")
fig.suptitle("Blocks of 4 x 4, and the step that wrote each of them last", x=0.5, weight="bold", size=12)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Order of the steps; a block that is named twice is written twice.
assert np.asarray(maps["(i, j) → (i, j)"])[::4, ::4].tolist() == [[0, 1, 2], [3, 4, 5]]
assert int(again[0, 0]) == 3 and np.asarray(maps["(i, j) → (j, i)"])[::4, ::4].tolist() == [[0, 3], [1, 4], [2, 5]]

# %% [markdown]
# A block that is named twice is visited twice. If the two visits **follow one another**, that is a tool: a step finds in
# its output what the step before has left there. We shall need that. Here they do not: step 3 comes back to a block that
# step 0 has left. The interpreter does not mind, but on a TPU all steps that write to a block of the output must
# [follow one another](https://docs.jax.dev/en/latest/pallas/tpu/details.html).

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: a softmax as a kernel, blocks that do not fit, and how to count bytes by block.*

# %% [markdown]
# ## 3. Softmax, some rows at a time
#
# Each step takes a block of whole rows. Inside the kernel stands what you would have written anyway.


# %%
def softmax_kernel(x_ref, o_ref):
    x = x_ref[...]
    e = jnp.exp(x - x.max(1, keepdims=True))
    o_ref[...] = e / e.sum(1, keepdims=True)


def softmax_rows(X, rows=128, interpret=True):
    spec = pl.BlockSpec((rows, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        softmax_kernel,
        grid=(pl.cdiv(X.shape[0], rows),),  # divided, and rounded up
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=interpret,
    )(X)


worst = float(jnp.abs(softmax_rows(table) - softmax(table)).max())
print(f"largest difference to softmax: {worst:.0e}")

# %% jupyter={"source_hidden": true}
# Proof
# The values agree.
assert worst < 1e-6

# %% [markdown]
# How many bytes does it move? HLO will not tell: in interpret mode it shows the loop that stands in for the kernel, and
# a compiled kernel is a closed box. But you have said yourself which block each step wants. So it can be counted: go
# through the grid, step by step; whenever the index map names **another block than in the step before**, a block moves.
# A TPU does not fetch a block again that stays the same. `traffic` counts so for each array of a kernel.


# %% jupyter={"source_hidden": true}
# Helper: what a kernel moves, by the index maps in its jaxpr
def traffic(fn, *args):
    """[(array, block shape, blocks moved, bytes moved)] for each input and output of the one kernel in fn."""
    (eqn,) = [eqn for eqn in jax.make_jaxpr(fn)(*args).eqns if eqn.primitive.name == "pallas_call"]
    found = []
    for block in kernel_blocks(eqn):
        moves = 1 + int((block.named[1:] != block.named[:-1]).any(1).sum())
        found.append((block.array, block.shape, moves, moves * block.nbytes))
    return found


def moved(fn, *args):
    """All bytes that the one kernel in fn moves."""
    return sum(total for *_, total in traffic(fn, *args))


# %%
for array, block, times, total in traffic(softmax_rows, table):
    print(f"{array}: {times} blocks of {block}, {total:,} bytes")
print(f"passes over the table: {moved(softmax_rows, table) / table.nbytes:.0f}, and XLA's program makes {passes:.0f}")

# %% jupyter={"source_hidden": true}
# Proof
# Two passes: the least possible.
assert moved(softmax_rows, table) == 2 * table.nbytes

# %% [markdown]
# That is what the loop is worth, on a device that waits for memory. On a CPU you get nothing of it; look at what
# interpreting costs:

# %%
print("XLA's program:         ", benchmark(jax.jit(softmax), table))
print("kernel, interpreted:   ", benchmark(jax.jit(softmax_rows), table))

# %% [markdown]
# Do not read anything into these times. The interpreter takes one block after the other out of the table, runs ordinary
# operations on it and puts the result back. **Count blocks here, and use the clock on a device.**
#
# ## 4. Blocks that do not fit
#
# Ten rows in blocks of four make three steps, and the last block has two rows too many. What is in them? This kernel
# copies each block to an output that has room for all twelve:

# %%
column = jnp.arange(10.0)[:, None]
blocks_of_four = pl.BlockSpec((4, 1), lambda i: (i, 0))


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def copy(x, rows):
    out = jax.ShapeDtypeStruct((rows, 1), x.dtype)
    call = pl.pallas_call(
        copy_kernel, grid=3, in_specs=[blocks_of_four], out_specs=blocks_of_four, out_shape=out, interpret=True
    )
    return call(x)


print("floats:  ", copy(column, 12).ravel())
print("integers:", copy(column.astype(int), 12).ravel())

# %% jupyter={"source_hidden": true}
# Proof
# Padding is NaN when interpreted, or the smallest integer, and what is written beyond the end is dropped.
assert np.isnan(copy(column, 12).ravel()[10:]).all() and (copy(column, 10) == column).all()
integers = column.astype(int)
assert (copy(integers, 12).ravel()[10:] == jnp.iinfo(integers.dtype).min).all()

# %% [markdown]
# What lies beyond the end is **padding**, and you must not rely on what it is. The interpreter fills it with NaN, so that
# a mistake shows (integers have no NaN; it takes the smallest that there is). A device may have anything there. In the
# other direction all is well: what a kernel writes beyond the end of an output is dropped.
#
# The softmax of rows does not care: rows do not mix, and the padded ones are dropped. A sum over the rows does. Here
# it is, in blocks of four: the output is one block, the same in every step, and the steps add to it.


# %%
def sum_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)  # the first step finds nothing useful there

    o_ref[...] += x_ref[...].sum(0, keepdims=True)


def column_sum(x, kernel):
    one_block = pl.BlockSpec((1, 1), lambda i: (0, 0))
    out = jax.ShapeDtypeStruct((1, 1), x.dtype)
    call = pl.pallas_call(kernel, grid=3, in_specs=[blocks_of_four], out_specs=one_block, out_shape=out, interpret=True)
    return float(call(x)[0, 0])


# %% [markdown]
# `pl.when` runs its function in some steps only; with a Python `if` that would not work, as the number of the step is
# not known while JAX traces. What is the sum of the ten numbers 0 to 9, in this kernel?

# %%
guess = None  # your number

# %%
show_guess(guess, column_sum(column, sum_kernel))


# %%
def masked_kernel(x_ref, o_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jnp.zeros_like(o_ref)

    row = 4 * pl.program_id(0) + jnp.arange(4)[:, None]
    o_ref[...] += jnp.where(row < 10, x_ref[...], 0).sum(0, keepdims=True)


print("masked:", column_sum(column, masked_kernel))

# %% jupyter={"source_hidden": true}
# Proof
# Without the mask NaN, with it the sum.
assert np.isnan(column_sum(column, sum_kernel)) and column_sum(column, masked_kernel) == 45

# %% [markdown]
# The mask is a `where`, not a product: 0 times NaN is NaN (unit 09). And the output has to be **initialised in the first
# step**; before that there is no zero in it, but whatever was there.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: attention in one kernel, what it costs, and a TPU that is not here.*

# %% [markdown]
# ## 5. The running softmax
#
# For attention, whole rows of scores are too much: a row is as long as the text. So the kernel must take a row in
# pieces. But the softmax needs the maximum and the sum of the *whole* row, and they are not known until the last piece.
#
# The way out is to correct the past. Keep the largest score so far, `top`; the sum of the `exp(score - top)` so far; and
# the sum of the answers so far, each times its `exp(score - top)`. When a piece brings a larger score, all that was summed
# before was made with the wrong `top`, and it is wrong by one factor: $e^{\text{old top} - \text{new top}}$. In plain
# NumPy, for one row:


# %%
def running_average(scores, answers, piece=4):
    top, total, result = -np.inf, 0.0, 0.0
    for start in range(0, len(scores), piece):
        score, answer = scores[start : start + piece], answers[start : start + piece]
        new_top = max(top, score.max())
        correct = np.exp(top - new_top)  # 0 in the first round: exp(-inf)
        weights = np.exp(score - new_top)
        total = total * correct + weights.sum()
        result = result * correct + weights @ answer
        top = new_top
    return result / total


scores, answers = rng.normal(size=12) * 5, rng.normal(size=(12, 3))
weights = np.exp(scores - scores.max())
print("in one go:", weights / weights.sum() @ answers)
print("in pieces:", running_average(scores, answers))

# %% jupyter={"source_hidden": true}
# Proof
# The same average, in pieces of any length.
for piece in (1, 4, 5, 12):
    assert np.allclose(running_average(scores, answers, piece), weights / weights.sum() @ answers)

# %% [markdown]
# As a kernel: the grid has an axis for blocks of `q` and, inside it, one for blocks of `k` and `v`. In one round of the
# inner axis the block of the result stays the same, so that the steps can add to it. `top` and `total` are no arrays of
# the program at all: they are **scratch**, here memory that belongs to the kernel and lives from step to step.
# `pltpu.VMEM(shape, dtype)` asks for it. (VMEM is a TPU's fast memory; the interpreter takes ordinary memory. The whole is
# what posts call *flash attention*.)


# %%
def flash_kernel(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
        total_ref[...] = jnp.zeros_like(total_ref)
        o_ref[...] = jnp.zeros_like(o_ref)

    scores = q_ref[...] @ k_ref[...].T / np.sqrt(q_ref.shape[1])
    new_top = jnp.maximum(top_ref[...], scores.max(1, keepdims=True))
    correct = jnp.exp(top_ref[...] - new_top)
    weights = jnp.exp(scores - new_top)
    total_ref[...] = total_ref[...] * correct + weights.sum(1, keepdims=True)
    o_ref[...] = o_ref[...] * correct + weights @ v_ref[...]
    top_ref[...] = new_top

    @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
    def _():
        o_ref[...] /= total_ref[...]


# %%
def flash(q, k, v, rows=128, interpret=True, **options):
    n, width = q.shape  # n is a multiple of rows here
    of_q = pl.BlockSpec((rows, width), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((128, width), lambda i, j: (j, 0))
    return pl.pallas_call(
        flash_kernel,
        grid=(n // rows, n // 128),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((rows, 1), jnp.float32)] * 2,
        interpret=interpret,
        **options,
    )(q, k, v)


q, k, v = places(1024)
with jax.default_matmul_precision("highest"):
    worst = float(jnp.abs(flash(q, k, v) - attention(q, k, v)).max())
print(f"largest difference to attention: {worst:.0e}")
print("largest value made, kernel:   ", show_jaxpr(flash, q, k, v).largest)
print("largest value made, attention:", show_jaxpr(attention, q, k, v).largest)

# %% jupyter={"source_hidden": true}
# Proof
# The same values, and no matrix of scores anywhere: the largest value is the result.
assert worst < 1e-5
assert show_jaxpr(flash, q, k, v).largest_size == q.size and show_jaxpr(attention, q, k, v).largest_size == 1024**2

# %% [markdown]
# The scores exist only as a piece of 128 x 128. What is left to move?

# %%
for array, block, times, total in traffic(flash, q, k, v):
    print(f"{array}: {times:2} blocks of {block}, {total:,} bytes")
print(f"kernel {moved(flash, q, k, v):,} bytes, XLA's program {large.bytes:,}")

# %% [markdown]
# `q` and the result move once, as their block stays the same through the inner axis. `k` and `v` come past once for each
# block of `q`. What if a block of `q` has 256 rows rather than 128?

# %%
guess = None  # your factor: bytes of k with blocks of 256 rows of q, over those with 128

# %%
small_q, large_q = traffic(flash, q, k, v), traffic(lambda *qkv: flash(*qkv, rows=256), q, k, v)
of_k = small_q[1][-1], large_q[1][-1]  # the bytes of the second array
show_guess(guess, of_k[1] / of_k[0], "x")

# %% jupyter={"source_hidden": true}
# Picture: bytes moved, over the number of places
lengths = (256, 512, 1024, 2048)
compiled = {512: small, 1024: large}
by_xla = [compiled.get(n) or show_hlo(attention, *places(n)) for n in lengths]
fig, ax = plt.subplots(figsize=(7.5, 3.6))
ax.plot(lengths, [seen.bytes for seen in by_xla], "o-", color="C1", label="XLA's program")
for rows, style in ((128, "o-"), (256, "o--")):
    by_kernel = [moved(partial(flash, rows=rows), *places(n)) for n in lengths]
    ax.plot(lengths, by_kernel, style, color="C0", label=f"kernel, {rows} rows of q")
least = [4 * 4 * 64 * n for n in lengths]
ax.plot(lengths, least, ":", color="#777777", label="each array once")
ax.set(xscale="log", yscale="log", xlabel="places", ylabel="bytes", title="Bytes moved by attention")
ax.set_xticks(lengths, [f"{n:,}" for n in lengths])
ax.minorticks_off()
ax.legend(handlelength=3.5)  # long enough to see that a line is dashed
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Half of k for twice the rows; on a CPU the kernel moves less than half of what XLA's program does.
assert of_k[1] / of_k[0] == 0.5
if jax.default_backend() == "cpu":
    assert moved(flash, q, k, v) < large.bytes / 2

# %% [markdown]
# The larger the block of `q`, the fewer times `k` and `v` come past, and the nearer the kernel comes to the dotted line.
# The bytes still grow with the square of the places; what the block does is to divide them. How large it may be is
# decided by the device's fast memory, into which the blocks must fit.
#
# ## 6. What the compiler is told
#
# For XLA a compiled kernel is a box: one operation with inputs and outputs. What it costs is not to be seen from
# outside. `pl.CostEstimate` is a label on the box: you tell XLA what the kernel costs, so that it can plan around it.
# `pl.estimate_cost` counts from a jaxpr of ordinary JAX:

# %%
estimate = pl.estimate_cost(attention, q, k, v)
counts = {
    "pl.estimate_cost": estimate.bytes_accessed,
    "the kernel's blocks": moved(flash, q, k, v),
    "XLA, of its own program": large.bytes,
}
for what, count in counts.items():
    print(f"{what:24} {count:>12,} bytes")
interpreted = show_hlo(flash, q, k, v)
print(f"{'XLA, interpreted kernel':24} {interpreted.bytes:>12,} bytes. Has it loops, counted once? {interpreted.loops}")

# %% jupyter={"source_hidden": true}
# Proof
# The estimate is each array once; the interpreted kernel is a loop.
assert counts["pl.estimate_cost"] == 4 * q.nbytes < counts["the kernel's blocks"]
assert interpreted.loops

# %% [markdown]
# Four numbers for one formula, and each answers another question. `estimate_cost` takes each argument and each result
# once: the dotted line. The blocks are what this grid moves. XLA's estimate is about its own program, with the
# scores in it. And of an interpreted kernel it is worth nothing, for the body of the loop is counted once (unit 09). What
# you write on the label is your decision; nobody checks it.
#
# ## 7. For a device that is not here
#
# To lower a program for a TPU needs no TPU (unit 12 exports programs for other machines). The kernel becomes a **custom
# call**: a box in the StableHLO, with the kernel's code packed inside, for the TPU's own compiler, Mosaic.

# %%
BOX = r"custom_call @(\w+)"


def compiled_flash(q, k, v):
    return flash(q, k, v, interpret=False, cost_estimate=estimate)


for_tpu = export.export(jax.jit(compiled_flash), platforms=["tpu"])(q, k, v).mlir_module()
print("boxes:", re.findall(BOX, for_tpu), f"in {len(for_tpu):,} characters")
print("the label:", re.findall(r"(bytes_accessed|flops)\W+?22:(\d+)", for_tpu))

# %% jupyter={"source_hidden": true}
# Proof
# One box, with our estimate on it.
assert re.findall(BOX, for_tpu) == ["tpu_custom_call"] and f":{estimate.bytes_accessed}" in for_tpu

# %% [markdown]
# The lowering is more than a text: it finds errors that the interpreter does not see. Each kind of device has rules
# for blocks. These blocks of 4 x 100 run here without a word:

# %%
add_blocks = pl.BlockSpec((4, 100), lambda i, j: (i, j))


def add_one_in_blocks(x, interpret, spec=add_blocks, grid=(2, 2)):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(
        add_one_kernel, grid=grid, in_specs=[spec], out_specs=spec, out_shape=out, interpret=interpret
    )
    return call(x)


wide = jnp.zeros((8, 200))
print("interpreted:", float(add_one_in_blocks(wide, True).sum()))
try:
    export.export(jax.jit(lambda x: add_one_in_blocks(x, False)), platforms=["tpu"])(wide)
except ValueError as error:
    refusal = str(error)
    print("for a TPU:", refusal.split(". ")[0])

# %% jupyter={"source_hidden": true}
# Proof
# The lowering refuses, and says what it wants: multiples, or the whole length.
assert "divisible by 8 and 128" in refusal and "or be equal" in refusal

# %% [markdown]
# (The last two lengths of a block must be multiples of 8 and 128, *or* the whole length of the array. So the blocks of
# 128 x 64 in `flash` pass: 64 is the whole width.)
#
# And for the GPUs of NVIDIA, and for the device that you have? We try, and write down what we are told:

# %%
one_block = pl.BlockSpec((8, 128), lambda i: (i, 0))


def compiled_add(x):
    return add_one_in_blocks(x, False, one_block, (2,))


tall, told = jnp.ones((16, 128)), {}
try:
    module = export.export(jax.jit(compiled_add), platforms=["cuda"])(tall).mlir_module()
    told["lowered for CUDA"] = re.findall(BOX, module)
except Exception as error:
    told["lowered for CUDA"] = f"not here, because: {error}"
try:
    told["compiled for this device"] = f"a sum of {float(jax.jit(compiled_add)(tall).sum()):,}"
except Exception as error:
    told["compiled for this device"] = f"not here, because: {error}"
print(*(f"{what}: {result}" for what, result in told.items()), sep="\n")

# %% jupyter={"source_hidden": true}
# Proof
# A CPU compiles no kernel.
if jax.default_backend() == "cpu":
    assert "interpret" in told["compiled for this device"]

# %% [markdown]
# A kernel for a TPU is not one for a GPU: there the steps of a grid run at the same time, the memory is another, the
# rules for blocks are others, and so are the blocks that are fast. Pallas is one language, and the kernels in it are
# written for a device.
#
# ## 8. When not to write one
#
# A kernel gives up what JAX does for you. `vmap` works, it adds an axis to the grid. And the gradient?

# %%
print("vmap:", jax.vmap(softmax_rows)(jnp.ones((3, 256, 8))).shape)
try:
    jax.grad(lambda X: softmax_rows(X)[0, 0])(table[:256, :8])
    differentiable = True
except Exception as error:
    differentiable = False
    print("grad:", str(error).split(".")[0])

# %% jupyter={"source_hidden": true}
# Proof
# vmap makes one kernel with one more axis in its grid; there is no backward pass; JAX has a choice of attentions.
(vmapped,) = jax.make_jaxpr(jax.vmap(softmax_rows))(jnp.ones((3, 256, 8))).eqns
assert [block.named.tolist()[-1] for block in kernel_blocks(vmapped)] == [[2, 1, 0]] * 2
assert not differentiable and "implementation" in inspect.signature(jax.nn.dot_product_attention).parameters

# %% [markdown]
# The backward pass is a second kernel, which you write yourself and hand over with `jax.custom_vjp` (unit 08). So:
#
# - **Not before a profile** (unit 15) has named the line, and the roofline has said that it waits for memory.
# - **Not for what XLA fuses already**: a chain of elementwise operations is one loop, with or without you.
# - **Not for a matrix product alone**: the libraries below XLA have years of work in them.
# - **Not if somebody has written it.** `jax.nn.dot_product_attention` takes an `implementation`; libraries have kernels.
# - **Perhaps** where a large value lies between two reductions and nobody wants it, as the scores here; or where you
#   know something of the data that cannot be written in array operations.
#
# First look whether an array program with fewer walls exists: in the exercise of unit 09 you saved half of the bytes
# without a kernel.
#
# ## What older posts say
#
# The posts that this course follows end at `jit` and fusion; of kernels they know nothing.
#
# ## Keypoints
#
# - A reduction is a wall for fusion: what is needed again behind it goes through memory, or is computed twice.
# - A kernel of Pallas is one step of a loop over blocks. Block shape, grid and index map say which part of an array each
#   step sees; the last axis of the grid moves fastest, and steps that write to one block follow one another.
# - Bytes by block: a block moves when the index map names another one than in the step before.
# - Beyond the end is padding: mask it with `where` before you reduce. Initialise in the first step what you add to.
# - A softmax can be taken in pieces, if every new maximum corrects what was summed before.
# - `interpret=True` is for values, on any machine. Count the blocks, lower it for the device, and ask the clock there.
# - A kernel has no gradient until you write one, and XLA knows of its cost only what you tell. Write one last.
#
# ## Your turn
#
# [Exercise 17](../exercises/17_kernels/kernels.ipynb): predict what grids move, turn a table tile by tile, write a softmax
# and a sum that hold at the edges, then attention in one kernel within a budget of bytes. 20 points.
