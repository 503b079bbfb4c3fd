# %% [markdown]
# # 09 · What XLA made of it
#
# **You wrote an addition and a subtraction. What ran?**
#
# You will
#
# - get every text between your Python and the machine on the screen, from inside a notebook;
# - read optimised HLO, and price a program in bytes before you own a stopwatch;
# - know what XLA cleans up for you, and what it leaves to you.
#
# About 20 minutes. You need the tape from unit 02; unit 01 has seen the fusions from far away.

# %%
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown, display
from jax import export, lax

from autograder import show_guess, show_hlo

plt.style.use("autograder.course")
jax.config.update("jax_platforms", "cpu")  # as in the post: what is asserted below is true of the CPU's compiler
print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")

# %% [markdown]
# ## 1. Two programs, or one?
#
# An old post runs this twice, once as it stands and once under `jax.jit`, and looks at what JAX hands to its compiler
# XLA. This is its program, un-jitted:

# %%
POSTED = """
import jax
import jax.numpy as jnp
import os
jax.config.update("jax_platform_name", "cpu")
os.environ['JAX_DUMP_IR_TO'] = 'ir'
a = jnp.array([1,2,3,4])
b = jnp.array([1,3,4,4])
c = jnp.array([1,2,3,5])
def fusion(a,b,c):
    return a+b-c
fusion(a,b,c)
"""
# The post's second script: another folder, and jit.
POSTED_JIT = POSTED.replace("'ir'", "'ir_jit'")
POSTED_JIT = POSTED_JIT.replace("\nfusion(a,b,c)", "\njit_fusion = jax.jit(fusion)\njit_fusion(a,b,c)")


guess = None  # your number: how many programs does XLA compile for a + b - c, without jit?

# %%
with tempfile.TemporaryDirectory() as root:
    processes, in_shell = [], {"JAX_DUMP_IR_TO": "ir"}
    folders = [Path(root, name) for name in ("as posted", "exported", "exported, second script")]
    for folder, text, extra in zip(folders, (POSTED, POSTED, POSTED_JIT), ({}, in_shell, in_shell), strict=True):
        folder.mkdir()
        command, environment = [sys.executable, "-c", text], os.environ | extra
        processes.append(subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL))
    assert [process.wait() for process in processes] == [0, 0, 0]
    as_posted, exported, second = ([str(p.relative_to(f)) for p in sorted(f.glob("*/*"))] for f in folders)

print("as posted:", as_posted)
print("after `export JAX_DUMP_IR_TO=ir` in the shell:", *exported, sep="\n    ")
print("the second script, which says 'ir_jit', after the same export:", *second, sep="\n    ")
assert as_posted == [] and len(exported) == 3 and {Path(name).parts[0] for name in second} == {"ir"}
exported = [Path(name).name for name in exported]

# %% [markdown]
# The line `os.environ['JAX_DUMP_IR_TO'] = 'ir'` **does nothing**: JAX reads its environment when it is imported, and
# that was five lines earlier. The post also exports the variable in its shell, and that is what works. Its own listing
# has the proof: the second script says `'ir_jit'`, and the `tree` below it shows `jax_ir0_jit_fusion.mlir` in `ir`. (The
# post adds that the folder must exist first. Today JAX makes it.)
#
# In a notebook JAX has long been imported. There you update the configuration, whenever you like:


# %%
def fusion(a, b, c):
    return a + b - c


a, b, c = (jnp.array(values) for values in ([1, 2, 3, 4], [1, 3, 4, 4], [1, 2, 3, 5]))
written = {}
for name, fn in (("un-jitted", fusion), ("jitted", jax.jit(fusion))):
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()  # what is compiled already is not written again
        jax.config.update("jax_dump_ir_to", folder)
        fn(a, b, c)
        jax.config.update("jax_dump_ir_to", "")
        written[name] = {path.name: path.read_text() for path in sorted(Path(folder).iterdir())}

assert [len(texts) for texts in written.values()] == [2, 1]
rows = [
    ("the post's program", "jax_ir0_jit_fn.mlir, jax_ir1_jit__lambda_.mlir", exported),
    ("`a + b - c` alone", "", written["un-jitted"]),
    ("`jit` of it", "jax_ir0_jit_fusion.mlir", written["jitted"]),
]
rows = [f"| {what} | {then.replace(', ', '<br>')} | {'<br>'.join(now)} |" for what, then, now in rows]
display(Markdown("\n".join(["| | files in the post | files today |", "|---|---|---|", *rows])))
show_guess(guess, len(written["un-jitted"]), "programs")

# %% [markdown]
# The post's point stands. Without `jit`, `+` is sent to XLA as a program of its own and `-` as another; with `jit`
# there is one. The files now bear the name of the operation rather than `fn` and `<lambda>`. The third file of the
# whole program has nothing to do with the sum: it is `jnp.array([1,2,3,4])`, turning a Python list into an `int32`
# array. Nearly everything you do to an array is a program.
#
# ## 2. What is in the file
#
# The one file of the jitted version. The post's is below it.

# %%
((_, text),) = written["jitted"].items()
print(re.sub(r' ?loc\((?:[^()"]|"[^"]*"|\([^()]*\))*\)|#loc.*\n', "", text))  # without the source locations
dialects = Counter(re.findall(r"\b(mhlo|stablehlo)\.(?=\w+ %)", text))
assert dialects == {"stablehlo": 2}
print("operations by dialect:", dict(dialects))

# %% [markdown]
# ```
# module @jit_fusion {
#   func.func public @main(%arg0: tensor<4xi32> loc(unknown), %arg1: ..., %arg2: ...) -> tensor<4xi32> {
#     %0 = mhlo.add %arg0, %arg1 : tensor<4xi32> loc(#loc1)
#     %1 = mhlo.subtract %0, %arg2 : tensor<4xi32> loc(#loc2)
#     return %1 : tensor<4xi32> loc(#loc0)
# ```
#
# `mhlo` is **StableHLO** today: the same operations. It is where JAX ends and XLA begins. Read it and you know what you
# *asked for*. Nothing has been optimised. There is a promise that a StableHLO program can be read years from now. It is
# not for this text, but for another form, bytes with a version on them, which unit 12 writes to a file:

# %%
artifact = export.export(jax.jit(fusion))(a, b, c).mlir_module_serialized
version = re.search(rb"StableHLO_v[\d.]+", artifact)[0].decode()
print(artifact[:4], version, f"{len(artifact)} bytes; the text has no version:", "StableHLO_v" not in text)
assert "StableHLO_v" not in text

# %% [markdown]
# ## 3. What XLA does to it
#
# From there on XLA has its own intermediate language, **HLO**. Its dumps are options of a single compilation, so they
# work in a running notebook too. (The environment variable for this, `XLA_FLAGS`, is read once, when XLA starts.)

# %%
# The post's listing; before each name stands "module_0000.jit_fusion."
forms = ("dot", "hlo.pb", "html", "txt")
POSTED_FILES = [f"{when}_optimizations.{form}" for when in ("before", "cpu_after") for form in forms]
POSTED_FILES += ["cpu_after_optimizations-buffer-assignment.txt", "o"]
POSTED_FILES += ["ir-no-opt.ll", "ir-no-opt-noconst.ll", "ir-with-opt.ll", "ir-with-opt-noconst.ll"]

with tempfile.TemporaryDirectory() as folder:
    options = {f"xla_dump_hlo_as_{form}": True for form in ("text", "dot", "html", "proto")}
    jax.jit(fusion).lower(a, b, c).compile(compiler_options={"xla_dump_to": folder, **options})
    today = [path.name.split(".jit_fusion.")[1] for path in sorted(Path(folder).iterdir())]

both = [name for name in POSTED_FILES if name in today]
assert "before_optimizations.txt" in both
columns = [both, [n for n in POSTED_FILES if n not in today], [n for n in today if n not in POSTED_FILES]]
cells = " | ".join("<br>".join(f"`{name}`" for name in names) for names in columns)
display(Markdown(f"| in the post and today | in the post only | new |\n|---|---|---|\n| {cells} |"))

# %% [markdown]
# Two of these are the story: the program **before** and **after** optimisation. The others are the same in other
# forms (`.dot` for Graphviz, `.html` for a browser that is online, `.pb` for programs), where each array will lie in
# memory (`buffer-assignment`), LLVM's code (`.ll`) and the machine's (`.o`).
#
# The post opened the graphs in another program. `show_hlo` draws both stages right here:

# %%
display(show_hlo(fusion, a, b, c, stage="lowered"))
display(show_hlo(fusion, a, b, c, stage="optimized"))

# %% [markdown]
# The frame is a **fusion**: one loop that reads an element of `a`, of `b` and of `c`, adds, subtracts, and writes one
# number. The sum `a + b` exists for a moment in a register. It is never an array.
#
# For the un-jitted operations the post notes: *the graphs before and after optimisation are the same.* Are they?


# %%
def add(a, b):
    return a + b


display(show_hlo(add, a, b, stage="lowered"))
display(show_hlo(add, a, b, stage="optimized"))
(wrapper,) = re.findall(r"ROOT %(\S+) = \S+ fusion", show_hlo(add, a, b).text)
print("the box is called", wrapper)

# %% [markdown]
# Not any more. What is computed is the same, but today's XLA puts even a lone operation into a box. So **a box is no
# proof that anything was fused**. Look at what is inside, and at the bytes in the title: all that is read and
# written.

# %%
eager = [show_hlo(add, a, b), show_hlo(jnp.subtract, a, c)]
fused = show_hlo(fusion, a, b, c)
print(f"two programs: {' + '.join(str(view.bytes) for view in eager)} bytes;  one: {fused.bytes} bytes")
assert sum(view.bytes for view in eager) > fused.bytes == 4 * a.nbytes

# %% [markdown]
# Four arrays of 16 bytes: three in, one out. That is the least possible. What `jit` saved is the sum's way to memory
# and back.
#
# ## 4. How to read optimised HLO
#
# A layer of a network, as text. Everything that you will meet is in it.


# %%
def dense(W, X):
    return jnp.maximum(W @ X, 0.0)


W, X = jnp.ones((64, 32)), jnp.ones((32, 100))
print(show_hlo(dense, W, X))

# %% [markdown]
# Read from the bottom: `ENTRY` is what runs, line by line. What stands above it are the insides of the boxes.
#
# | you see | it means |
# |---|---|
# | `%name = type operation(%operands), attributes` | every line. A name is given once and never changes |
# | `parameter(0)` | the first argument, of the program or of a box |
# | `f32[64,32]` | dtype and shape: `float32[64,32]`. `s32` is `int32`, `pred` is `bool` |
# | `{1,0}` | the **layout**: how it lies in memory. Below |
# | `fusion(...), kind=..., calls=%fused_computation` | a box: one kernel. What happens in it is in `%fused_computation` |
# | `%broadcast_maximum_fusion` | named after operations inside. `.1`, `.2` only tell equal names apart |
# | `broadcast(...), dimensions={}` | a scalar, in every place. In a box it costs nothing |
# | `dot(...), lhs_contracting_dims={1}` | a matrix product that sums over axis 1 of the left operand |
# | `reduce(%x, %init), dimensions={0}, to_apply=%region` | a sum over axis 0. `%region` says how two numbers become one |
# | `bitcast` | the same bytes under another shape. Free |
# | `copy` | the same values in another layout or place. Not free |
# | `ROOT` | the result |
#
# `show_hlo` leaves out the `metadata`. In the full text it says for each line which of your operations it comes from:

# %%
full = show_hlo(dense, W, X).text
origins = dict.fromkeys(re.findall(r'(?<== )(\S+ [\w-]+)\(.*op_name="([^"]*)"', full))
rows = "\n".join(f"| `{line}` | `{origin}` |" for line, origin in origins)
display(Markdown(f"| in the HLO | in your program |\n|---|---|\n{rows}"))

# %% [markdown]
# The `kind` says who writes the box's code. Here are the boxes of four functions on this machine, by kind:


# %%
def norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


rng = np.random.default_rng(0)
table = jnp.asarray(rng.normal(3, 2, size=(10_000, 100)).astype(np.float32))
programs = [(fusion, a, b, c), (dense, W, X), (selu, table), (norm, table)]
kinds = {}
for fn, *args in programs:
    for name, kind in re.findall(r"%(\S+) = .* fusion\(.*kind=(\w+)", show_hlo(fn, *args).text):
        kinds.setdefault(kind, []).append(f"`{re.sub(r'[.][0-9]+$', '', name)}`")
assert "kLoop" in kinds
rows = "\n".join(f"| `{kind}` | {', '.join(dict.fromkeys(names))} |" for kind, names in kinds.items())
display(Markdown(f"| kind | boxes |\n|---|---|\n{rows}"))

# %% [markdown]
# - `kLoop`: one loop over the elements of the result.
# - `kCustom`: a kernel of the backend's own. On a CPU that is where products and sums go: `ynn` is YNNPACK, a library.
# - `kInput` and `kOutput` are loops built around an operation, at its input or its output. You will meet them on
#   other devices.
#
# ### Layouts
#
# Memory is a line; a matrix has to be laid along it. `{1,0}` lists the axes from the fastest to the slowest: axis 1
# moves on with every step. What does XLA do with a transpose?

# %%
x = jnp.arange(6.0).reshape(2, 3)
turned = show_hlo(lambda x: x.T, x).text
steps = re.findall(r"= (f32\[([\d,]+)\]\{([\d,]+)\}) (parameter|transpose|copy)\(", turned.split("ENTRY")[0])

fig, axes = plt.subplots(1, len(steps), figsize=(8, 2.9))
for ax, (kind, shape, layout, operation) in zip(axes, steps, strict=True):
    shape, layout = [int(n) for n in shape.split(",")], [int(n) for n in layout.split(",")]
    address = np.arange(6).reshape([shape[axis] for axis in layout[::-1]]).transpose(np.argsort(layout[::-1]))
    ax.imshow(address, cmap="Blues", vmin=-1, vmax=9)
    for (i, j), place in np.ndenumerate(address):
        ax.text(j, i, place, ha="center", va="center", size=13)
    ax.set_title(f"{operation}\n{kind}", family="monospace", size=11, loc="center")
    ax.axis("off")
fig.suptitle("Where each element lies in memory", x=0.5, y=1.1, weight="bold", size=12)
plt.show()
assert [operation for *_, operation in steps] == ["parameter", "transpose", "copy"]
assert {layout for *_, layout, operation in steps if operation == "transpose"} == {"0,1"}

# %% [markdown]
# `transpose` moves nothing. It exchanges the axes *and* the layout, and every element stays where it is: compare the
# first two. The work is the `copy` behind it, because a result has to leave the program in the ordinary order. Inside
# a program XLA picks the layouts, and many a transpose is never carried out:

# %%
product = show_hlo(lambda x: x.T @ x, x)
print(product)
assert "transpose" not in product.ops

# %% [markdown]
# The `.T` has become `lhs_contracting_dims={0}`: sum over the other axis.
#
# ## 5. The bill
#
# Everything inside a box happens in registers. Whatever crosses the wall of a box goes through memory, and memory is
# slow. So the price of a program is simple: for every line of `ENTRY`, **the bytes of its operands and of its result**.
#
# `norm` takes a table of 10,000 rows, subtracts from each column its mean and divides it by its standard deviation. If
# the table is read once and written once, that is two passes. How many does XLA's program make?

# %%
guess = None  # your number of passes through the table, reads and writes together

# %%
DTYPE_BYTES = {"pred": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4}
FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element"}


def size(hlo_type):
    """Bytes of `f32[64,32]{1,0}`, or of a tuple of such types."""
    total = 0
    for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", hlo_type):
        total += DTYPE_BYTES[dtype] * int(np.prod([int(n) for n in shape.split(",") if n]))
    return total


def bill(view):
    """[(name, largest operand, bytes read, bytes written)] for each line of ENTRY that costs anything."""
    entry = view.module.computations[view.module.entry]
    sizes = {line.name: size(line.type) for line in entry}
    return [
        (line.name, max(line.operands, key=sizes.get), sum(map(sizes.get, line.operands)), sizes[line.name])
        for line in entry
        if line.opcode not in FREE
    ]


normed = show_hlo(norm, table)
lines = bill(normed)
total = sum(read + write for *_, read, write in lines)
passes = total / table.nbytes
print(f"the bill: {total:,} bytes.  XLA's own estimate: {normed.bytes:,} bytes")
assert abs(total / normed.bytes - 1) < 0.01 and passes > 3
show_guess(guess, round(passes, 2), "passes")


# %%
def draw_bill(ax, view, title):
    """One bar for each line of ENTRY: what it reads and writes, in passes through the table."""
    for name, source, read, write in reversed(bill(view)):
        ax.barh(name, read / table.nbytes, color="C0", label="read")
        ax.barh(name, write / table.nbytes, left=read / table.nbytes, color="C1", label="written")
        if read > table.nbytes / 2:
            ax.text(0.5, name, source, ha="center", va="center", color="white", size=9)
    ax.set_title(f"{title}: {view.bytes / table.nbytes:.0f} passes")
    ax.set(xlabel="passes through the table", xlim=(0, 2.2))
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)


fig, ax = plt.subplots(figsize=(8, 3))
draw_bill(ax, normed, "norm")
handles = {bar.get_label(): bar for bar in ax.containers}
ax.legend(handles.values(), handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
plt.show()
stored = [source for _, source, read, _ in lines if read > table.nbytes / 2]
assert stored[0] == stored[1] == stored[-1] == "X.1" and stored[2] == stored[3] != "X.1"

# %% [markdown]
# It walks through the table to take the mean, walks through it again to subtract it and *writes the result down*,
# reads that for the mean that `std` needs (it does not know that it is zero), and once more for the variance. Then it
# starts again **from the original table**, and subtracts a second time: inside a box that is free. The lines that look
# empty are about vectors of 100.
#
# Here is the same as a graph. An arrow that leaves a frame is an array in memory.

# %%
normed

# %% [markdown]
# Can it be done with less? $\operatorname{var}(x) = \overline{x^2} - \bar{x}^2$ needs no subtracted table.


# %%
def norm_by_squares(X):
    mean = X.mean(0)
    return (X - mean) / jnp.sqrt((X * X).mean(0) - mean * mean)


cheaper = show_hlo(norm_by_squares, table)
truth = norm(np.asarray(table, np.float64))
drift = {
    fn.__name__: [float(np.abs(fn(table + shift) - truth).max()) for shift in (0, 3000)]
    for fn in (norm, norm_by_squares)
}
fig, ax = plt.subplots(figsize=(8, 1.9))
draw_bill(ax, cheaper, "norm_by_squares")
plt.show()
print("worst error for the table, and for the table + 3000:")
for name, (near, far) in drift.items():
    print(f"    {name:16} {near:.0e}   {far:.0e}")
assert cheaper.bytes < 0.7 * normed.bytes
assert drift["norm"][1] < 0.1 < drift["norm_by_squares"][1]

# %% [markdown]
# Nearly half of the traffic is gone. And for a table with large means, the small difference of two large numbers has
# lost its digits: the "same" formula is useless there. That is why XLA will not do it for you. **It may change how
# your program is computed, not (much) what.** Where to spend digits is your decision.
#
# ## 6. The film
#
# Between before and after lie dozens of passes. With one more option XLA writes the program down after each that
# changed something. Here is the film of `norm`. A column is a pass, a row an operation and how many there are of it;
# orange is what the pass changed.


# %%
def count_operations(text):
    return Counter(re.findall(r" = (?:\([^=]*\)|\S+) ([a-z][\w-]*)\(", text))


def film(fn, *args):
    """[(name of the pass, Counter of operations after it)]; the first is the program before optimisation."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": ".*"}
        jax.jit(fn).lower(*args).compile(compiler_options=options)
        (before,) = Path(folder).glob("*.before_optimizations.txt")
        frames = [("before", count_operations(before.read_text()))]
        for path in sorted(Path(folder).glob("*.after_*.before_*.txt")):
            name = re.search(r".*\.after_(.+)\.before_", path.name)[1]
            counts = count_operations(path.read_text())
            if counts != frames[-1][1]:
                frames.append((name, counts))
    return frames


SHOWN = ["reduce", "subtract", "multiply", "divide", "sqrt", "rsqrt"]
SHOWN += ["broadcast", "reshape", "convert", "compare", "select", "fusion"]
frames = []
for name, counts in film(norm, table[:1000]):
    if not frames or any(counts[shown] != frames[-1][1][shown] for shown in SHOWN):
        frames.append((name, counts))
grid = np.array([[counts[name] for _, counts in frames] for name in SHOWN])

fig, ax = plt.subplots(figsize=(9, 5))
ax.imshow(grid > 0, cmap="Blues", vmin=0, vmax=5, aspect="auto")
for (i, j), number in np.ndenumerate(grid):
    changed = j > 0 and number != grid[i, j - 1]
    if number or changed:
        colour, weight = ("C1", "bold") if changed else ("#777777", "normal")
        ax.text(j, i, number, ha="center", va="center", color=colour, weight=weight, size=12)
ax.set_xticks(range(len(frames)), [name for name, _ in frames], rotation=35, ha="left", family="monospace")
ax.set_yticks(range(len(SHOWN)), SHOWN, family="monospace")
ax.xaxis.tick_top()
ax.tick_params(length=0)
ax.grid(False)
ax.spines[:].set_visible(False)
plt.show()

# %% [markdown]
# - `algsimp`, the algebraic simplifier, comes again and again: a division by the number of rows has become a product
#   with its reciprocal, `sqrt` and a division one `rsqrt`.
# - `constant_folding` computes what is already known. `std` asks whether there are any rows (`compare`, `select`). With
#   a static shape the answer is known, and the question disappears.
# - `dce` drops dead code, `cse` keeps one of several equal expressions. Somebody then hands the three sums over to a
#   library: the first boxes.
# - `fusion` draws the boxes, and there are suddenly *more* operations: what is cheap is copied into every box that
#   wants it.

# %%
(at_fusion,) = [index for index, (name, _) in enumerate(frames) if name == "fusion"]
copied = frames[at_fusion][1] - frames[at_fusion - 1][1]
assert copied["subtract"] >= 1 and frames[0][1]["select"] == 1 and frames[-1][1]["select"] == 0
print("operations that the pass `fusion` added:", {name: copied[name] for name in SHOWN if copied[name]})

# %% [markdown]
# ## 7. What vanishes, and what stays
#
# Now be wasteful on purpose, and ask the film who cleans up. In each line, watch one operation.

# %%
square, vector = jnp.ones((64, 64)), jnp.ones(64)
constant = jnp.asarray(rng.normal(size=(64, 64)).astype(np.float32))


def unread(x):
    jnp.sin(x)
    return 2 * x


WASTE = {
    "a line that nobody reads": (unread, "sine"),
    "`x * 1 + 0`": (lambda x: x * 1 + 0, "multiply"),
    "`sin(x) * sin(x)`": (lambda x: jnp.sin(x) * jnp.sin(x), "sine"),
    "`-(-x)`": (lambda x: jnp.negative(jnp.negative(x)), "negate"),
    "`(x.T + x.T).T`": (lambda x: (x.T + x.T).T, "transpose"),
    "`x @ (C @ C)`, C a constant": (lambda x: x @ (constant @ constant), "dot"),
    "a sum of 100 copies of `x`": (lambda x: jnp.broadcast_to(x, (100, *x.shape)).sum(0), "reduce"),
    "`0 * sin(x)`": (lambda x: 0 * jnp.sin(x), "sine"),
    "`(x @ x)[0]`": (lambda x: (x @ x)[0], "dot"),
    "`(x @ x) @ v`": (lambda x: (x @ x) @ vector, "dot"),
}


def fate(fn, operation):
    """How many JAX asks for, how many XLA leaves, and which passes took some away."""
    asked = jax.jit(fn).lower(square).as_text().count(f"stablehlo.{operation}")
    frames = [("JAX", asked)] + [(name, counts[operation]) for name, counts in film(fn, square)]
    takers = [late[0] for early, late in zip(frames, frames[1:], strict=False) if late[1] < early[1]]
    who = ", ".join(takers).replace("before", "on the way to XLA") or "–"
    return asked, frames[-1][1], who if asked else "never left JAX"


fates = {what: fate(*watched) for what, watched in WASTE.items()}
rows = "\n".join(f"| {w} | `{WASTE[w][1]}` | {b} → **{a}** | {who} |" for w, (b, a, who) in fates.items())
display(Markdown(f"| you write | watch | StableHLO → optimised | who did it |\n|---|---|:-:|---|\n{rows}"))
gone, kept = list(fates.values())[:7], list(fates.values())[7:]
assert gone[0][0] == 0 and all(after < before for before, after, _ in gone[1:])
assert all(after == before for before, after, _ in kept)

# %% [markdown]
# The upper six are bookkeeping: less work for the same result. The others are **algebra**. XLA allows itself a little of
# that (a sum of copies that it made itself becomes `x * 100`, with other last digits; the reciprocals, the `rsqrt`; how
# much depends on the version, and unit 10 looks at the digits), but none of the lower three.
#
# - `0 * sin(x)` is not 0 where `sin(x)` is NaN. The whole sine is computed so that the NaN can come out.
# - Nobody who looks at a product alone knows that only one of its rows will be wanted.
# - `(A @ B) @ v` and `A @ (B @ v)` round differently, so they are two programs.
#
# What the last one costs is quickly said, in FLOPs:

# %%
guess = None  # your number: FLOPs of (A @ B) @ v over those of A @ (B @ v), for matrices of 256 x 256

# %%
A, B, v = jnp.ones((256, 256)), jnp.ones((256, 256)), jnp.ones(256)
BRACKETS = {"(A @ B) @ v": lambda A, B, v: (A @ B) @ v, "A @ (B @ v)": lambda A, B, v: A @ (B @ v)}
flops = {
    name: [show_hlo(fn, A, B, v, stage=stage).flops for stage in ("lowered", "optimized")]
    for name, fn in BRACKETS.items()
}
fig, ax = plt.subplots(figsize=(7.5, 2.6))
for y, values in enumerate(flops.values()):
    styles = ((-0.19, "before XLA", "#bbbbbb"), (0.19, "after XLA", "C0"))
    for value, (offset, label, colour) in zip(values, styles, strict=True):
        ax.barh(y + offset, value, height=0.36, color=colour, label=label if y == 0 else None)
        ax.text(value, y + offset, f"  {value:,}", va="center", size=10)
ax.set(xscale="log", xlim=(1e4, 1e9), xlabel="FLOPs", yticks=range(2))
ax.set_yticklabels(flops, family="monospace")
ax.invert_yaxis()
ax.grid(axis="y", visible=False)
ax.legend(loc="lower right")
plt.show()
dear, cheap = (values[1] for values in flops.values())
assert all(before == after for before, after in flops.values()) and dear > 100 * cheap
show_guess(guess, dear / cheap, "x")

# %% [markdown]
# Two brackets, and no compiler will set them for you. A product of three matrices is worth a moment's thought.
#
# ## 8. A wall for the compiler
#
# Sometimes XLA is too clever: you *want* an intermediate result to exist. `lax.optimization_barrier` hands its argument
# on unchanged, and no pass may look through it. So it separates two boxes. Or does it?


# %%
def open_field(x):
    return jnp.cos(x) * jnp.sin(x)


def walled(x):
    return jnp.cos(x) * lax.optimization_barrier(jnp.sin(x))


def repeated(x):
    y = x
    for _ in range(5):
        x, y = lax.optimization_barrier((x, y))  # as if the next round had to wait for the last
        y = jnp.sin(x)
    return y


big = jnp.ones((1000, 1000))
bytes_open, bytes_walled = show_hlo(open_field, big).bytes, show_hlo(walled, big).bytes
order = [name for name, _ in film(walled, square)]
torn_down = order.index("cse_barrier_expander") if "cse_barrier_expander" in order else len(order)
fused_at = order.index("fusion") if "fusion" in order else len(order)
works = bytes_walled > bytes_open
verdict = "holds: `sin(x)` is written and read back" if works else "is gone too early: the bytes are the same"
assert works == (torn_down > fused_at), order
sines = [show_hlo(repeated, big, stage=stage).ops["sine"] for stage in ("lowered", "optimized")]
assert sines == [5, 1]
Markdown(f"""
| | without a wall | with a wall |
|---|---|---|
| bytes | {bytes_open:,} | {bytes_walled:,} |

In JAX {jax.__version__} on this machine the wall **{verdict}**. The film tells why: the pass
`cse_barrier_expander`, which tears it down, comes **{"after" if works else "before"}** the pass `fusion`.

And in `repeated`, five sines of the same `x`, kept apart by walls: **{sines[0]} before, {sines[1]} after**.
""")

# %% [markdown]
# Here the versions of JAX differ: in 0.10 the wall comes down before the boxes are drawn, in 0.12 after. You have just
# read off which kind you have. The last line is the same in both. A barrier keeps things in order; it does not keep
# alive what nobody reads. If a benchmark has to do its work five times, the five must need one another. How? That is
# a puzzle in the exercise.
#
# ## 9. The meter's blind spot
#
# One warning about every number in this unit. XLA's estimates count the body of a loop **once**:


# %%
def ten_times(x):
    return lax.fori_loop(0, 10, lambda _, c: c * x, x)


def written_out(x):
    for_ten = x
    for _ in range(10):
        for_ten = for_ten * x
    return for_ten


looped, unrolled = show_hlo(ten_times, big), show_hlo(written_out, big)
print(f"FLOPs of ten products:  loop {looped.flops:,},  written out {unrolled.flops:,}")
assert looped.loops and not unrolled.loops and unrolled.flops > 9 * looped.flops

# %% [markdown]
# So compare loops on the tape (unit 02), never by `cost_analysis`. And compare numbers of the same process only: how
# many boxes there are, and what they are called, differs by version and by device. Ask "half of the bytes of that
# one?", not "7 fusions?".
#
# ## What older posts say

# %%
names = [re.search(r"module @(\w+)", text)[1] for text in written["un-jitted"].values()]
claims = [
    ("set `os.environ['JAX_DUMP_IR_TO']` in the program", "✗", f"{len(as_posted)} files: it is too late"),
    ("the folder must exist first", "✗", "JAX makes it"),
    ("`a + b - c` is two programs; jitted, one", "✓", f"{len(names)} and {len(written['jitted'])}"),
    ("the two are `jit_fn` and `jit__lambda_`", "✗", ", ".join(f"`{name}`" for name in names)),
    ("the IR is `mhlo`", "✗", "StableHLO, the same operations"),
    ("the graphs of a single operation are equal", "✗", f"it is put into a box, `{wrapper}`"),
    ("`jit` makes one larger graph", "✓", f"{fused.fusions} fusion, {fused.bytes} bytes"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# ## Keypoints
#
# - `jax.config.update("jax_dump_ir_to", folder)` writes StableHLO, what you asked for.
#   `compiler_options={"xla_dump_to": folder}` writes what XLA made of it. Environment variables are for before the
#   import.
# - Un-jitted, each operation is a program. Jitted, they are one, and XLA draws boxes in it: fusions.
# - Inside a box, registers; across its wall, memory. The bill is the operands and results of the lines in `ENTRY`.
# - XLA removes what is dead, double, or known beforehand. Of algebra on floats it does little: brackets are yours.
# - A transpose is a layout until somebody needs a copy.
# - A barrier orders work, it does not preserve it, and what it does to fusions depends on the version.
# - Loops are counted once. Compare with a reference, in one process.
#
# ## Your turn
#
# [Exercise 09](../exercises/09_what_xla_made/what_xla_made.ipynb): predict the survivors, build a flight recorder and
# a byte meter, cut a bill in half, set two brackets, and write a benchmark that XLA cannot delete. 20 points.
