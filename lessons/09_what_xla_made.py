# %% [markdown]
# # 09 · What XLA made of it
#
# **You wrote an addition and a subtraction. What ran?**
#
# You will
#
# - get every text between your Python and the machine on the screen, from inside a notebook;
# - read optimised HLO, and price a program in bytes before you ask a clock;
# - know what XLA cleans up for you, and what it leaves to you.
#
# About {duration}, in three stages (about {stage} for the first). You need jaxprs (unit 02); unit 01 has seen fusion
# from far away.

# %%
import re
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from autograder import benchmark, show_guess, show_hlo

jax.config.update("jax_platforms", "cpu")  # as in the post: this page is about the CPU's compiler
print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")

# %% jupyter={"source_hidden": true}
# Helper: modules for pictures, tables and other processes
import os
import subprocess
import sys
from collections import Counter

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

plt.style.use("autograder.course")

# %% [markdown]
# ## 1. Two programs, or one?
#
# An old post runs this function twice, once as it stands and once under `jax.jit`, and looks at what JAX hands to its
# compiler, XLA.


# %%
def fusion(a, b, c):
    return a + b - c


a, b, c = (jnp.array(values) for values in ([1, 2, 3, 4], [1, 3, 4, 4], [1, 2, 3, 5]))

# %% [markdown]
# JAX writes each program that it hands over into a file, if you name a folder.

# %%
guess = None  # your number: how many programs does XLA compile for a + b - c, without jit?


# %%
def dumped(fn):
    """The files that JAX writes while fn runs: name -> text."""
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()  # what is compiled already is not written again
        jax.config.update("jax_dump_ir_to", folder)
        fn(a, b, c)
        jax.config.update("jax_dump_ir_to", "")
        return {path.name: path.read_text() for path in sorted(Path(folder).iterdir())}


written = {"un-jitted": dumped(fusion), "jitted": dumped(jax.jit(fusion))}
for how, texts in written.items():
    print(f"{how}:", *texts)
show_guess(guess, len(written["un-jitted"]), "programs")

# %% jupyter={"source_hidden": true}
# Proof
# How many programs it is un-jitted, and how many jitted.
assert [len(texts) for texts in written.values()] == [2, 1]

# %% [markdown]
# The post's point stands. Without `jit`, `+` is sent to XLA as a program of its own and `-` as another; with `jit`
# there is one. (XLA's word for a program is [module](00_before_you_start.ipynb#The-words).)
#
# This is how the post got its files. It is the whole script, un-jitted:

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

# %% jupyter={"source_hidden": true}
# Helper: the post's second script (another folder, and jit); scripts run in processes of their own
POSTED_JIT = POSTED.replace("'ir'", "'ir_jit'")
POSTED_JIT = POSTED_JIT.replace("\nfusion(a,b,c)", "\njit_fusion = jax.jit(fusion)\njit_fusion(a,b,c)")


def files_written(*runs):
    """For each (script, environment variables): the files in the folders that it made; and how each script ended."""
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root, str(number)) for number in range(len(runs))]
        processes = []
        for folder, (script, variables) in zip(folders, runs, strict=True):
            folder.mkdir()
            command, environment = [sys.executable, "-c", script], os.environ | variables
            processes.append(subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL))
        ends = [process.wait() for process in processes]
        return *([str(p.relative_to(f)) for p in sorted(f.glob("*/*"))] for f in folders), ends


# %%
in_shell = {"JAX_DUMP_IR_TO": "ir"}  # as after `export JAX_DUMP_IR_TO=ir` in the shell
runs = (POSTED, {}), (POSTED, in_shell), (POSTED_JIT, in_shell)
as_posted, exported, second, ends = files_written(*runs)
print("as posted:", as_posted)
print("exported in the shell:", *exported, sep="\n    ")
print("the second script, which says 'ir_jit', exported as well:", *second, sep="\n    ")

# %% jupyter={"source_hidden": true}
# Table: the files of the post, and today's
rows = [
    ("the post's script", "jax_ir0_jit_fn.mlir, jax_ir1_jit__lambda_.mlir", [Path(name).name for name in exported]),
    ("`a + b - c` alone", "", written["un-jitted"]),
    ("`jit` of it", "jax_ir0_jit_fusion.mlir", written["jitted"]),
]
rows = [f"| {what} | {then.replace(', ', '<br>')} | {'<br>'.join(now)} |" for what, then, now in rows]
display(Markdown("\n".join(["| | files in the post | files today |", "|---|---|---|", *rows])))

# %% jupyter={"source_hidden": true}
# Proof
# The script ignores its own line about the folder; three programs are written when the shell has named it.
assert ends == [0, 0, 0]
assert as_posted == [] and len(exported) == 3 and {Path(name).parts[0] for name in second} == {"ir"}

# %% [markdown]
# As posted, the script writes **nothing**: JAX reads its environment when it is imported, and that was four lines
# before `os.environ['JAX_DUMP_IR_TO'] = 'ir'`. The post also exports the variable in its shell, and that is what works.
# Its own listing has the proof: the second script says `'ir_jit'`, and the list of files below it in the post shows
# `jax_ir0_jit_fusion.mlir` in `ir`. (The post adds that the folder must exist first. Today JAX makes it.) In a notebook
# JAX has long been imported. There you update the configuration, as `dumped` does, whenever you like.
#
# The files now bear the name of the operation rather than `fn` and `<lambda>`. The third file of the whole script has
# nothing to do with the sum: it is `jnp.array([1,2,3,4])`, turning a Python list into an `int32` array. Nearly
# everything you do to an array is a program.
#
# ## 2. What is in the file
#
# The one file of the jitted version. The post's is below it.


# %% jupyter={"source_hidden": true}
# Helper: StableHLO without the places in your source that each line comes from
def without_places(text):
    return re.sub(r' ?loc\((?:[^()"]|"[^"]*"|\([^()]*\))*\)|#loc.*\n', "", text)


# %%
(text,) = written["jitted"].values()
print(without_places(text))

# %% jupyter={"source_hidden": true}
# Proof
# Both operations are written in StableHLO.
dialects = Counter(re.findall(r"\b(mhlo|stablehlo)\.(?=\w+ %)", text))
print("operations by prefix:", dict(dialects))
assert dialects == {"stablehlo": 2}

# %% [markdown]
# ```
# module @jit_fusion {
#   func.func public @main(%arg0: tensor<4xi32> loc(unknown), %arg1: ..., %arg2: ...)
#       -> tensor<4xi32> {
#     %0 = mhlo.add %arg0, %arg1 : tensor<4xi32> loc(#loc1)
#     %1 = mhlo.subtract %0, %arg2 : tensor<4xi32> loc(#loc2)
#     return %1 : tensor<4xi32> loc(#loc0)
# ```
#
# `mhlo` is **StableHLO** today: the same operations. It is where JAX ends and XLA begins. Read it and you know what you
# *asked for*. Nothing has been optimised.
#
# There is a promise that a StableHLO program can be read years from now. It is not for this text, but for another form,
# bytes with a version in them, which unit 12 writes to a file:

# %%
artifact = export.export(jax.jit(fusion))(a, b, c).mlir_module_serialized
version = re.search(rb"StableHLO_v[\d.]+", artifact)[0].decode()
print(f"{len(artifact)} bytes, which begin with {artifact[:4]} and hold {version}")
print("the text has no version:", "StableHLO_v" not in text)

# %% jupyter={"source_hidden": true}
# Proof
# The text has no version.
assert "StableHLO_v" not in text

# %% [markdown]
# ## 3. What XLA does to it
#
# From there on XLA has its own intermediate language, **HLO**. XLA writes files of it too. The folder is an option of a
# single compilation, so it works in a running notebook. (The environment variable for this, `XLA_FLAGS`, is read once,
# when XLA starts.)

# %%
with tempfile.TemporaryDirectory() as folder:
    options = {f"xla_dump_hlo_as_{form}": True for form in ("text", "dot", "html", "proto")}
    jax.jit(fusion).lower(a, b, c).compile(compiler_options={"xla_dump_to": folder, **options})
    today = [path.name.split(".jit_fusion.")[1] for path in sorted(Path(folder).iterdir())]
print(len(today), "files")

# %% jupyter={"source_hidden": true}
# Table: XLA's files in the post (before each name stands "module_0000.jit_fusion.") and today
forms = ("dot", "hlo.pb", "html", "txt")
POSTED_FILES = [f"{when}_optimizations.{form}" for when in ("before", "cpu_after") for form in forms]
POSTED_FILES += ["cpu_after_optimizations-buffer-assignment.txt", "o"]
POSTED_FILES += ["ir-no-opt.ll", "ir-no-opt-noconst.ll", "ir-with-opt.ll", "ir-with-opt-noconst.ll"]

both = [name for name in POSTED_FILES if name in today]
columns = [both, [n for n in POSTED_FILES if n not in today], [n for n in today if n not in POSTED_FILES]]
cells = " | ".join("<br>".join(f"`{name}`" for name in names) for names in columns)
display(Markdown(f"| in the post and today | in the post only | new |\n|---|---|---|\n| {cells} |"))

# %% jupyter={"source_hidden": true}
# Proof
# The program before optimisation is still among them.
assert "before_optimizations.txt" in both

# %% [markdown]
# Two of these are the story: the program **before** and **after** optimisation. The others are the same in other
# forms (`.dot` and `.html` for drawing, `.pb` for programs), where each array will lie in memory (`buffer-assignment`),
# and the code for the processor (`.o`), which XLA has made by another compiler, LLVM (`.ll`). `show_hlo` draws both
# stages right here:

# %%
display(show_hlo(fusion, a, b, c, stage="lowered"))
display(show_hlo(fusion, a, b, c, stage="optimized"))

# %% [markdown]
# The frame is a **fusion**: one loop that reads an element of `a`, of `b` and of `c`, adds, subtracts, and writes one
# number. The sum `a + b` exists for a moment in a register, inside the processor. It is never an array.
#
# For the un-jitted operations the post notes: *the graphs before and after optimisation are the same.* Are they?


# %%
def add(a, b):
    return a + b


display(show_hlo(add, a, b, stage="lowered"))
display(show_hlo(add, a, b, stage="optimized"))

# %% [markdown]
# Not any more. What is computed is the same, but today's XLA makes a fusion even of a lone operation. So **a fusion is no
# proof that anything was fused**. Look at what is inside, and at the bytes in the title: all that is read and
# written.

# %%
eager = [show_hlo(add, a, b), show_hlo(jnp.subtract, a, c)]
fused = show_hlo(fusion, a, b, c)
print("two programs:", " + ".join(str(view.bytes) for view in eager), "bytes")
print("one program: ", fused.bytes, "bytes")

# %% jupyter={"source_hidden": true}
# Proof
# One program moves four arrays, fewer bytes than the two.
assert sum(view.bytes for view in eager) > fused.bytes == 4 * a.nbytes

# %% [markdown]
# Four arrays of 16 bytes: three in, one out. That is the least possible. What `jit` saved is the sum's way to memory
# and back.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: reading optimised HLO, and what a program costs in bytes and in time.*

# %% [markdown]
# ## 4. How to read optimised HLO
#
# A layer of a network, as text. Everything that you will meet is in it.


# %%
def dense(W, X):
    return jnp.maximum(W @ X, 0.0)


W, X = jnp.ones((64, 32)), jnp.ones((32, 100))
print(show_hlo(dense, W, X))

# %% [markdown]
# Read from the bottom: `ENTRY` is what runs, line by line. What stands above it are the insides of the fusions.
#
# | you see | it means |
# |---|---|
# | `%name = type operation(%operands), attributes` | every line. A name is given once and never changes |
# | `parameter(0)` | the first argument, of the program or of a fusion |
# | `f32[64,32]` | dtype and shape: `float32[64,32]`. `s32` is `int32`, `pred` is `bool` |
# | `{1,0}` | the **layout**: how it lies in memory. Below |
# | `fusion(...), kind=..., calls=%fused_computation` | a fusion: one loop, or one call of a library. What it computes is in `%fused_computation` |
# | `%broadcast_maximum_fusion` | named after operations inside. `.1`, `.2` only tell equal names apart |
# | `broadcast(...), dimensions={}` | a scalar, in every place. In a fusion it costs nothing |
# | `dot(...), lhs_contracting_dims={1}` | a matrix product that sums over axis 1 of the left operand |
# | `reduce(%x, %init), dimensions={0}, to_apply=%region` | a sum over axis 0. `%region` says how two numbers become one |
# | `bitcast` | the same bytes under another shape. Free |
# | `copy` | the same values in another layout or place. Not free |
# | `ROOT` | the result |
#
# `show_hlo` leaves out the `metadata`. In the full text it says for each line which of your operations it comes from:

# %% jupyter={"source_hidden": true}
# Table: where the lines come from
full = show_hlo(dense, W, X).text
origins = dict.fromkeys(re.findall(r'(?<== )(\S+ [\w-]+)\(.*op_name="([^"]*)"', full))
rows = "\n".join(f"| `{line}` | `{origin}` |" for line, origin in origins)
display(Markdown(f"| in the HLO | in your program |\n|---|---|\n{rows}"))

# %% [markdown]
# The `kind` says who writes the fusion's code. We list the fusions of four functions on this machine: the two above, and
# `norm` and `selu` from unit 01.


# %%
def norm(X):
    X = X - X.mean(0)
    return X / X.std(0)


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


rng = np.random.default_rng(0)
table = jnp.asarray(rng.normal(3, 2, size=(10_000, 100)).astype(np.float32))
programs = [(fusion, a, b, c), (dense, W, X), (selu, table), (norm, table)]

# %% jupyter={"source_hidden": true}
# Table: fusions by kind
kinds = {}
for fn, *args in programs:
    for name, kind in re.findall(r"%(\S+) = .* fusion\(.*kind=(\w+)", show_hlo(fn, *args).text):
        kinds.setdefault(kind, []).append(f"`{re.sub(r'[.][0-9]+$', '', name)}`")
rows = "\n".join(f"| `{kind}` | {', '.join(dict.fromkeys(names))} |" for kind, names in kinds.items())
display(Markdown(f"| kind | fusions |\n|---|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# Some fusions are plain loops.
assert "kLoop" in kinds

# %% [markdown]
# - `kLoop`: one loop over the elements of the result.
# - `kCustom`: code that is made in a way of its own, or a library's. On a CPU products and sums often go there; a name
#   with `ynn` in it is YNNPACK, a library.
# - `kInput` and `kOutput` are loops built around an operation, at its input or its output. You will meet them on
#   other devices.
#
# ### Layouts
#
# Memory is a line; a matrix has to be laid along it. `{1,0}` lists the axes from the fastest to the slowest: axis 1
# moves on with every step. What does XLA do with a transpose? Look inside the fusion, and then at the place of each
# element in memory:

# %%
x = jnp.arange(6.0).reshape(2, 3)
turned = show_hlo(lambda x: x.T, x)
print(turned)

# %% jupyter={"source_hidden": true}
# Picture: where each element lies, line by line of the fusion
inside = turned.text.split("ENTRY")[0]
steps = re.findall(r"= (f32\[([\d,]+)\]\{([\d,]+)\}) (parameter|transpose|copy)\(", inside)
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

# %% jupyter={"source_hidden": true}
# Proof
# The transpose exchanges the layout, and a copy follows.
assert [operation for *_, operation in steps] == ["parameter", "transpose", "copy"]
assert {layout for *_, layout, operation in steps if operation == "transpose"} == {"0,1"}

# %% [markdown]
# `transpose` moves nothing. It exchanges the axes *and* the layout, and every element stays where it is: compare the
# first two. The work is the `copy` behind it, because a result has to leave the program in the ordinary order. Inside
# a program XLA picks the layouts, and many a transpose is never carried out:

# %%
product = show_hlo(lambda x: x.T @ x, x)
print(product)

# %% jupyter={"source_hidden": true}
# Proof
# No transpose is left.
assert "transpose" not in product.ops

# %% [markdown]
# The `.T` has become `lhs_contracting_dims={0}`: sum over the other axis.
#
# ## 5. The bill
#
# Everything inside a fusion happens in registers. Whatever goes into a fusion or comes out of it goes through memory,
# and memory is slow. So the price of a program is simple: for every line of `ENTRY`, **the bytes of its operands and of
# its result**.
#
# `norm` takes a table of 10,000 rows, subtracts from each column its mean and divides it by its standard deviation. If
# the table is read once and written once, that is two passes over memory. How many does XLA's program make?

# %%
guess = None  # your number of passes over the table, reads and writes together

# %% jupyter={"source_hidden": true}
# Helper: bytes that a program moves, by line of ENTRY
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


# %%
normed = show_hlo(norm, table)
lines = bill(normed)  # (name, largest operand, bytes read, bytes written) of each line of ENTRY
total = sum(read + write for *_, read, write in lines)
passes = total / table.nbytes
print(f"the bill: {total:,} bytes.  XLA's own estimate: {normed.bytes:,} bytes")
show_guess(guess, round(passes, 2), "passes")


# %% jupyter={"source_hidden": true}
# Picture: what each line of ENTRY reads and writes
def draw_bill(ax, view, title):
    """One bar for each line of ENTRY: what it reads and writes, in passes over the table."""
    for name, source, read, write in reversed(bill(view)):
        ax.barh(name, read / table.nbytes, color="C0", label="read")
        ax.barh(name, write / table.nbytes, left=read / table.nbytes, color="C1", label="written")
        if read > table.nbytes / 2:
            ax.text(0.5, name, source, ha="center", va="center", color="white", size=9)
    ax.set_title(f"{title}: {view.bytes / table.nbytes:.0f} passes")
    ax.set(xlabel="passes over the table", xlim=(0, 2.2))
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)


fig, ax = plt.subplots(figsize=(8, 3))
draw_bill(ax, normed, "norm")
handles = {bar.get_label(): bar for bar in ax.containers}
ax.legend(handles.values(), handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Our bill is XLA's estimate; which lines read the table itself, and which the subtracted one.
assert abs(total / normed.bytes - 1) < 0.01 and passes > 3
large = [line for line in lines if line[2] > table.nbytes / 2]
stored = [source for _, source, _, _ in large]
assert [round(write / table.nbytes) for *_, write in large] == [0, 1, 0, 0, 1]
assert stored[0] == stored[1] == stored[-1] == "X.1" and stored[2] == stored[3] != "X.1"

# %% [markdown]
# Blue is read, orange is written; the white name is what is read. `X.1` is the table itself. From the top:
#
# | it reads | for | and writes | passes |
# |---|---|---|---|
# | the table | the mean | | 1 |
# | the table | `X - mean` | that, as large as the table | 2 |
# | `X - mean` | its mean, which `std` needs (it does not know that it is zero) | | 1 |
# | `X - mean` | the variance | | 1 |
# | **the table** | `X - mean` once more (free inside a fusion), divided | the result | 2 |
#
# The lines that look empty are about vectors of 100. Here is the same as a graph. An arrow that leaves a frame is an
# array in memory.

# %%
normed

# %% [markdown]
# Can it be done with less? $\operatorname{var}(x) = \overline{x^2} - \bar{x}^2$ needs no subtracted table.


# %%
def norm_by_squares(X):
    mean = X.mean(0)
    return (X - mean) / jnp.sqrt((X * X).mean(0) - mean * mean)


cheaper = show_hlo(norm_by_squares, table)
print(f"norm: {normed.bytes:,} bytes;  norm_by_squares: {cheaper.bytes:,} bytes")

# %% jupyter={"source_hidden": true}
# Picture: the same for norm_by_squares
fig, ax = plt.subplots(figsize=(8, 1.9))
draw_bill(ax, cheaper, "norm_by_squares")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# It moves less than 0.7 of the bytes.
assert cheaper.bytes < 0.7 * normed.bytes

# %% [markdown]
# Now for the clock. Both functions do only a few operations with each number that they fetch. If they wait for memory
# most of the time, their times differ by the same factor as their bytes. Read it off the two pictures before you measure.

# %%
guess = None  # your number: how many times faster will norm_by_squares be, going by the bytes?

# %%
rounds = {norm: [], norm_by_squares: []}
for fn in (norm, norm_by_squares) * 5:  # in turns, so that a busy moment of the machine meets both
    rounds[fn] += benchmark(jax.jit(fn), table).rounds
slow, fast = (np.median(times) for times in rounds.values())
print(f"the bytes foretell {normed.bytes / cheaper.bytes:.2f}x")
print(f"norm {1e3 * slow:.2f} ms, norm_by_squares {1e3 * fast:.2f} ms")
show_guess(guess, slow / fast, "x")

# %% jupyter={"source_hidden": true}
# Proof
# The forecast (the clock itself is shown, never asserted).
assert abs(normed.bytes / cheaper.bytes - 7 / 4) < 0.01

# %% [markdown]
# Divide seven passes by four, and you have it: you knew 1.75x without a clock. The clock adds the state of this machine: run the cell
# again, and its number moves; the bytes do not.
#
# So why does XLA not do that by itself? Look at what comes out, for this table and for the same table with 3000 added
# everywhere. (On paper that changes nothing: `norm` takes the mean away again.)

# %%
truth = norm(np.asarray(table, np.float64))
drift = {
    fn.__name__: [float(np.abs(fn(table + shift) - truth).max()) for shift in (0, 3000)]
    for fn in (norm, norm_by_squares)
}
print("worst error for the table, and for the table + 3000:")
for name, (near, far) in drift.items():
    print(f"    {name:16} {near:.0e}   {far:.0e}")

# %% jupyter={"source_hidden": true}
# Proof
# With large means only one of the two is any good.
assert drift["norm"][1] < 0.1 < drift["norm_by_squares"][1]

# %% [markdown]
# For a table with large means, $\overline{x^2}$ and $\bar{x}^2$ are two large numbers that are nearly equal, and their
# difference has lost its digits. On paper the formulas are equal; in `float32` the second one is useless there. **XLA may
# change how your program is computed, not (much) what.** Where to spend digits is your decision.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: what XLA removes, what it leaves to you, and what its estimates do not see.*

# %% [markdown]
# ## 6. The film
#
# Between before and after lie dozens of compiler passes. A **pass** is one step of the compiler: it goes through the
# program and rewrites it. (It is no pass over a table.) With one more option, `"xla_dump_hlo_pass_re": ".*"`, XLA writes
# the program down after each pass that changed something. `film` reads these files, and counts operations in them.
#
# Here is the film of `norm`. A column is a pass, a row an operation and how many there are of it; orange is what the
# pass changed.


# %% jupyter={"source_hidden": true}
# Helper: the film, a list of (name of the pass, operations after it by name)
def count_operations(text):
    return Counter(re.findall(r" = (?:\([^=]*\)|\S+) ([a-z][\w-]*)\(", text))


def film(fn, *args):
    """[(name of the pass, Counter of operations after it)], beginning before optimisation."""
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


# %%
whole_film = film(norm, table[:1000])
print(f"{len(whole_film) - 1} passes changed the operations of norm")

# %% jupyter={"source_hidden": true}
# Picture: the film, for the operations that tell the story
SHOWN = ["reduce", "subtract", "multiply", "divide", "sqrt", "rsqrt"]
SHOWN += ["broadcast", "reshape", "convert", "compare", "select", "fusion"]
frames = []
for name, counts in whole_film:
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
# Which passes come, and when, depends on the version and the processor. Where this was written, they did the following:
#
# - `algsimp`, the algebraic simplifier, comes again and again: a division by the number of rows has become a product
#   with its reciprocal; `sqrt` and a division have become one `rsqrt`, an operation that is 1 over the root.
# - `constant_folding` computes what is already known. `std` asks whether there are any rows (`compare`, `select`). With
#   a static shape the answer is known, and the question disappears.
# - `dce` drops dead code, `cse` keeps one of several equal expressions. Another pass then hands the three sums over to a
#   library: the first fusions.
# - `fusion` makes the other fusions, and there are suddenly *more* operations: what is cheap is copied into every fusion
#   that wants it.

# %% jupyter={"source_hidden": true}
# Table: what the pass `fusion` added
(at_fusion,) = [index for index, (name, _) in enumerate(frames) if name == "fusion"]
copied = frames[at_fusion][1] - frames[at_fusion - 1][1]
print("the pass `fusion` added:", {name: copied[name] for name in SHOWN if copied[name]})

# %% jupyter={"source_hidden": true}
# Proof
# A subtraction was copied, and the question about the rows is gone.
assert copied["subtract"] >= 1 and frames[0][1]["select"] == 1 and frames[-1][1]["select"] == 0

# %% [markdown]
# ## 7. What vanishes, and what stays
#
# Now be wasteful on purpose, and ask the film who cleans up. Each line is a program, and the operation in it to watch.
# Which of the ten will still be there at the end?

# %%
square, vector = jnp.ones((64, 64)), jnp.ones(64)
C = jnp.asarray(rng.normal(size=(64, 64)).astype(np.float32))


def unread(x):
    jnp.sin(x)
    return 2 * x


WASTE = {
    "a line that nobody reads": (unread, "sine"),
    "`x * 1 + 0`": (lambda x: x * 1 + 0, "multiply"),
    "`sin(x) * sin(x)`": (lambda x: jnp.sin(x) * jnp.sin(x), "sine"),
    "`-(-x)`": (lambda x: jnp.negative(jnp.negative(x)), "negate"),
    "`(x.T + x.T).T`": (lambda x: (x.T + x.T).T, "transpose"),
    "`x @ (C @ C)`, C a constant": (lambda x: x @ (C @ C), "dot"),
    "a sum of 100 copies of `x`": (lambda x: jnp.broadcast_to(x, (100, *x.shape)).sum(0), "reduce"),
    "`0 * sin(x)`": (lambda x: 0 * jnp.sin(x), "sine"),
    "`(x @ x)[0]`": (lambda x: (x @ x)[0], "dot"),
    "`(x @ x) @ v`": (lambda x: (x @ x) @ vector, "dot"),
}


# %% jupyter={"source_hidden": true}
# Table: the watched operation: how many JAX asks for, how many XLA leaves, which passes took some
def fate(fn, operation):
    asked = jax.jit(fn).lower(square).as_text().count(f"stablehlo.{operation}")
    frames = [("JAX", asked)] + [(name, counts[operation]) for name, counts in film(fn, square)]
    takers = [late[0] for early, late in zip(frames, frames[1:], strict=False) if late[1] < early[1]]
    who = ", ".join(takers).replace("before", "on the way to XLA") or "–"
    return asked, frames[-1][1], who if asked else "never left JAX"


fates = {what: fate(*watched) for what, watched in WASTE.items()}
rows = "\n".join(f"| {w} | `{WASTE[w][1]}` | {b} → **{a}** | {who} |" for w, (b, a, who) in fates.items())
display(Markdown(f"| you write | watch | StableHLO → optimised | who did it |\n|---|---|:-:|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# Which seven are reduced, and which three stay.
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
# What the last one costs is quickly said, in floating-point operations (FLOPs):

# %%
guess = None  # your number: FLOPs of (A @ B) @ v over those of A @ (B @ v), matrices of 256 x 256

# %%
A, B, v = jnp.ones((256, 256)), jnp.ones((256, 256)), jnp.ones(256)
BRACKETS = {"(A @ B) @ v": lambda A, B, v: (A @ B) @ v, "A @ (B @ v)": lambda A, B, v: A @ (B @ v)}
flops = {
    name: [show_hlo(fn, A, B, v, stage=stage).flops for stage in ("lowered", "optimized")]
    for name, fn in BRACKETS.items()
}
expensive, cheap = (values[1] for values in flops.values())
show_guess(guess, expensive / cheap, "x")

# %% jupyter={"source_hidden": true}
# Picture: FLOPs of both, before and after XLA
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

# %% jupyter={"source_hidden": true}
# Proof
# XLA changes neither, and the brackets decide.
assert all(before == after for before, after in flops.values()) and expensive > 100 * cheap

# %% [markdown]
# It is a matter of two brackets, and no compiler will set them for you. A product of three matrices is worth a moment's
# thought.
#
# ## 8. A wall for the compiler
#
# Sometimes XLA is too clever: you *want* an intermediate result to exist. `lax.optimization_barrier` hands its argument
# on unchanged, and no pass may look through it. So it is a wall between two fusions. Or is it?


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


# %%
big = jnp.ones((1000, 1000))
bytes_open, bytes_walled = (show_hlo(fn, big).bytes for fn in (open_field, walled))
sines = [show_hlo(repeated, big, stage=stage).ops["sine"] for stage in ("lowered", "optimized")]
order = [name for name, _ in film(walled, square)]
print(f"bytes without a wall {bytes_open:,}, with one {bytes_walled:,}")
print(f"sines of `repeated`: {sines[0]} before XLA, {sines[1]} after")

# %% jupyter={"source_hidden": true}
# Table: does the wall hold, and why?
torn_down = order.index("cse_barrier_expander") if "cse_barrier_expander" in order else len(order)
fused_at = order.index("fusion") if "fusion" in order else len(order)
works = bytes_walled > bytes_open
verdict = "holds: `sin(x)` is written and read back" if works else "is gone too early: the bytes are the same"
Markdown(f"""
| JAX {jax.__version__}, this machine | |
|---|---|
| the wall | **{verdict}** |
| the pass `cse_barrier_expander`, which tears it down, comes | **{"after" if works else "before"}** the pass `fusion` |
""")

# %% jupyter={"source_hidden": true}
# Proof
# The wall holds if and only if it stands longer than the pass `fusion`; one sine is left.
assert works == (torn_down > fused_at), order
assert sines == [5, 1]

# %% [markdown]
# Here the versions of JAX differ: in 0.10 the wall comes down before the fusions are made, in 0.12 after.
#
# `repeated` computes five sines of the same `x`, kept apart by walls, and returns the last. One is left, in both
# versions: a barrier keeps things in order; it does not keep alive what nobody reads. If a benchmark has to do its work
# five times, the five must need one another. How? That is a puzzle in the exercise.
#
# ## 9. The meter's blind spot
#
# One warning about every number in this unit. XLA's estimates count the body of a loop **once**:


# %%
def ten_times(x):
    return lax.fori_loop(0, 10, lambda _, c: c * x, x)


def written_out(x):
    power = x
    for _ in range(10):
        power = power * x
    return power


looped, unrolled = show_hlo(ten_times, big), show_hlo(written_out, big)
print(f"FLOPs of ten products:  loop {looped.flops:,},  written out {unrolled.flops:,}")

# %% jupyter={"source_hidden": true}
# Proof
# The loop is counted once.
assert looped.loops and not unrolled.loops and unrolled.flops > 9 * looped.flops

# %% [markdown]
# So compare loops by their jaxprs (unit 02), never by `cost_analysis`. And compare numbers of the same process only: how
# many fusions there are, and what they are called, differs by version and by device. Ask "half of the bytes of that
# one?", not "7 fusions?".
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of the post, and what was measured above
(wrapper,) = re.findall(r"ROOT %(\S+) = \S+ fusion", eager[0].text)
names = [re.search(r"module @(\w+)", text)[1] for text in written["un-jitted"].values()]
claims = [
    ("set `os.environ['JAX_DUMP_IR_TO']` in the program", "✗", f"{len(as_posted)} files: it is too late"),
    ("the folder must exist first", "✗", "JAX makes it"),
    ("`a + b - c` is two programs; jitted, one", "✓", f"{len(names)} and {len(written['jitted'])}"),
    ("the two are `jit_fn` and `jit__lambda_`", "✗", ", ".join(f"`{name}`" for name in names)),
    ("the IR is `mhlo`", "✗", "StableHLO, the same operations"),
    ("the graphs of a single operation are equal", "✗", f"it becomes a fusion, `{wrapper}`"),
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
# - Un-jitted, each operation is a program. Jitted, they are one, and XLA makes fusions in it.
# - Inside a fusion, registers; into it and out of it, memory. The bill is the operands and results of the lines in
#   `ENTRY`, and for a program that waits for memory it foretells the time.
# - XLA removes what is dead, double, or known beforehand. Of algebra on floats it does little: brackets are yours.
# - A transpose is a layout until somebody needs a copy.
# - A barrier orders work, it does not preserve it, and what it does to fusions depends on the version.
# - Loops are counted once. Compare with a reference, in one process.
#
# ## Your turn
#
# [Exercise 09](../exercises/09_what_xla_made/what_xla_made.ipynb): predict the survivors, build a flight recorder and
# a byte meter, cut a bill in half, set two brackets, and write a benchmark that XLA cannot delete. 20 points.
