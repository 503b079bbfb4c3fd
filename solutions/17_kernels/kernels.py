# %% [markdown]
# # Exercise 17 · When fusion is not enough: kernels
#
# Six tasks, 20 points, about {duration}. The lesson is
# [17 · When fusion is not enough: kernels](../../lessons/17_kernels.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. Write every kernel with
# `interpret=True`: it runs on any machine. Points are given for values, and for what stands in the jaxpr: blocks, grids and
# what they move. No check asks the clock, which says nothing of an interpreted kernel. Where a check is folded, its code
# holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say how many blocks six index maps move, and how many bytes | 3 |
# | 2 | turn a table tile by tile | 3 |
# | 3 | write a softmax of rows as a kernel | 4 |
# | 4 | sum over the rows, block by block | 4 |
# | 5 | write attention in one kernel, within a budget of bytes | 4 |
# | 6 | work out what a product of matrices moves | 2 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from autograder import assert_allclose, assert_equal, assert_prediction, assert_primitives, kernel_blocks, show_jaxpr

# %% [markdown]
# The checks look at your kernels with this meter, and so can you: `print(moves(fn, *args))` shows each array of the one
# kernel in `fn`, its block, how many blocks move, and how many bytes they have. A block moves when the index map names
# another one than in the step before. Padding counts. The checks also ask that index maps name only blocks that there are:
# five rows in blocks of two are blocks 0, 1 and 2; and that a kernel calls nobody on the host: a callback is computed
# outside of it.


# %% nbgrader={"grade": false, "grade_id": "meter", "locked": true, "schema_version": 3, "solution": false, "task": false}
def find_kernels(jaxpr):
    """(the equations of kernels, the names of all other equations) of a jaxpr; a `jit` is looked into."""
    kernels, others = [], []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            kernels.append(eqn)
        elif eqn.primitive.name in {"jit", "pjit"}:
            inner, beside = find_kernels(eqn.params["jaxpr"].jaxpr)
            kernels, others = kernels + inner, others + beside
        else:
            others.append(eqn.primitive.name)
    return kernels, others


def times_moved(block):
    """How many blocks move: each time another one is named than in the step before."""
    return 1 + int((block.named[1:] != block.named[:-1]).any(1).sum())


def moves(fn, *args):
    """[(array, block shape, blocks moved, bytes moved)] for inputs and outputs of each kernel in fn(*args)."""
    kernels, _ = find_kernels(jax.make_jaxpr(fn)(*args).jaxpr)
    blocks = [block for kernel in kernels for block in kernel_blocks(kernel)]
    return [(b.array, b.shape, times_moved(b), times_moved(b) * b.nbytes) for b in blocks]


def structure(fn, *args, most_elements, most_bytes=None):
    """What a task may ask of a kernel, as a dict for `assert_equal`; `ONE_KERNEL` is what it should be."""
    kernels, others = find_kernels(jax.make_jaxpr(fn)(*args).jaxpr)
    on_the_host = {"pure_callback", "io_callback"} & show_jaxpr(fn, *args).primitives.keys()  # called by a kernel, too
    refs = [ref.aval for kernel in kernels for ref in kernel.params["jaxpr"].invars]
    too_large = [f"{'x'.join(map(str, ref.shape))}" for ref in refs if np.prod(ref.shape) > most_elements]
    again, nowhere = [], []
    for block in (block for kernel in kernels for block in kernel_blocks(kernel)):
        there_are = -(-np.array(block.array_shape) // block.shape)
        nowhere += [f"{b.tolist()} of {block.array}" for b in block.named if ((b < 0) | (b >= there_are)).any()][:1]
        times, different = times_moved(block), len(np.unique(block.named, axis=0))
        if block.is_output and times > different:
            again.append(f"{block.array}, {times} moves of {different} blocks")
    moved = sum(total for *_, total in moves(fn, *args))
    over = max(0, moved - most_bytes) if most_bytes else 0
    return {
        "kernels": len(kernels),
        "computed outside of the kernel": others + sorted(on_the_host - set(others)),
        "blocks too large": too_large,
        "blocks that there are not": nowhere,
        "outputs left and taken up again": again,
        "bytes over the budget": over,
    }


ONE_KERNEL = {
    "kernels": 1,
    "computed outside of the kernel": [],
    "blocks too large": [],
    "blocks that there are not": [],
    "outputs left and taken up again": [],
    "bytes over the budget": 0,
}
HINTS = {
    "kernels": "One `pl.pallas_call` does the work.",
    "computed outside of the kernel": "Arguments go into the kernel as they are, and its output is the result. "
    "A callback is outside of it, too.",
    "blocks too large": "Without a BlockSpec a block is the whole array. Scratch counts, too.",
    "blocks that there are not": "The grid has more steps than blocks, or an index counts elements.",
    "outputs left and taken up again": "Steps that add to one block of an output must follow one another.",
    "bytes over the budget": "A block moves when its index changes. Which axis of the grid moves fastest?",
}

# %% [markdown]
# ## Task 1 · What moves (3 points)
#
# Six kernels, each with one input: a grid, a block shape and an index map. How many **blocks of the input move** in each of
# them? Then, for four of them: how many **bytes** are that?
#
# Write your numbers **before** you run anything. The check counts them with the meter above and says which are wrong, never
# the number. A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor
# this notebook exists.
#
# <details><summary>Hint 1</summary>
# Write the grid as loops in Python, one in the other; the last axis is the innermost. Write down the block that is named
# in each round.
# </details>
# <details><summary>Hint 2</summary>
# A block that is named twice in a row moves once. A block that is named again after another one moves again.
# </details>
# <details><summary>Hint 3</summary>
# Bytes are blocks moved, times elements of a block, times bytes of an element. The last block of an array is as large as
# the others, even where the array ends in the middle of it.
# </details>

# %% nbgrader={"grade": false, "grade_id": "moves-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
# name -> (grid, type and shape of the input, block shape, index map)
LAYOUTS = {
    "rows": ((8,), ("float32", (1000, 64)), (128, 64), lambda i: (i, 0)),
    "fixed": ((5,), ("float32", (1000, 64)), (128, 64), lambda i: (0, 0)),
    "outer": ((3, 4), ("float16", (96, 128)), (32, 128), lambda i, j: (i, 0)),
    "inner": ((3, 4), ("float32", (128, 128)), (32, 128), lambda i, j: (j, 0)),
    "pairs": ((6,), ("float32", (24, 128)), (8, 128), lambda i: (i // 2, 0)),
    "snake": ((3, 4), ("float32", (32, 128)), (8, 128), lambda i, j: (j + (i % 2) * (3 - 2 * j), 0)),
}
BYTES_OF = ("rows", "outer", "inner", "pairs")


def count_moves(column):
    """Name of each layout -> blocks moved (column 2) or bytes moved (column 3) of its input."""
    counted = {}
    for name, (grid, (dtype, shape), block, index_map) in LAYOUTS.items():

        def nothing(x_ref, o_ref):
            pass

        call = pl.pallas_call(
            nothing,
            grid=grid,
            in_specs=[pl.BlockSpec(block, index_map)],
            out_shape=jax.ShapeDtypeStruct((8, 128), "float32"),
            interpret=True,
        )
        counted[name] = moves(call, jax.ShapeDtypeStruct(shape, dtype))[0][column]
    return counted


# %% nbgrader={"grade": false, "grade_id": "moves", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predict_blocks():
    """Name of each layout -> how many blocks of its input move."""
    ### BEGIN SOLUTION
    # Snake: four blocks down, and the way back begins at the block where the way down ended.
    return {"rows": 8, "fixed": 1, "outer": 3, "inner": 12, "pairs": 3, "snake": 10}
    ### END SOLUTION


def predict_bytes():
    """Name of each layout in BYTES_OF -> how many bytes of its input move."""
    ### BEGIN SOLUTION
    return {
        "rows": 8 * 128 * 64 * 4,
        "outer": 3 * 32 * 128 * 2,
        "inner": 12 * 32 * 128 * 4,
        "pairs": 3 * 8 * 128 * 4,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "moves-blocks", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The blocks that move are predicted right, for all six."""
assert_prediction(
    predict_blocks,
    lambda: count_moves(2),
    hints={
        "rows": "Each step names another block. How many steps are there?",
        "fixed": "Does the index ever change?",
        "outer": "The last axis of the grid moves fastest, and this map does not look at it.",
        "inner": "After the last block of a round comes the first one again. Nobody kept it.",
        "pairs": "Two steps in a row name the same block.",
        "snake": "Write the twelve indices down. What happens where one round ends and the next begins?",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "moves-bytes", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The bytes that move are predicted right, for four of them."""
assert_prediction(
    predict_bytes,
    lambda: {name: count for name, count in count_moves(3).items() if name in BYTES_OF},
    hints={
        "rows": "The last block is a whole block, though the table ends in the middle of it.",
        "outer": "How many bytes has a float16?",
        "inner": "Each round moves all of its blocks again.",
        "pairs": "A block that is named twice in a row moves once.",
    },
)

# %% [markdown]
# ## Task 2 · Turn a table (3 points)
#
# Write `transposed`, one kernel that returns `X.T`, tile by tile: **no block has more than 1,024 elements** (32 x 32, for
# instance). The table has any number of rows and columns, which need not be multiples of a block's. Nothing is computed
# outside of the kernel: `X` goes in as it is, and the kernel's output is the result. Together the blocks may move **at most
# twice** the bytes of `X` and of its result. (Of a table more than a few tiles long and wide, that is: the
# padding of a smaller or narrower one may cost more.)
#
# <details><summary>Hint 1</summary>
# Two maps: one says which tile of <code>X</code> a step reads, the other where the turned tile belongs.
# </details>
# <details><summary>Hint 2</summary>
# The tile in row <code>i</code> and column <code>j</code> of the tiles of <code>X</code> belongs into row <code>j</code>
# and column <code>i</code> of the result. The block shape is turned, too. <code>pl.cdiv(a, b)</code> divides and rounds
# up.
# </details>
# <details><summary>Hint 3</summary>
# In the kernel: <code>o_ref[...] = x_ref[...].T</code>. Outside:
# <code>grid=(pl.cdiv(rows, 32), pl.cdiv(columns, 32))</code>,
# <code>in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))]</code>, and for <code>out_specs</code> the map with
# <code>(j, i)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "turn-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def nans(result):
    """How many numbers of a result are NaN, as a dict for `assert_equal`; it should be `NO_NAN`."""
    return {"NaNs in the result": int(jnp.isnan(result).sum()) if isinstance(result, jax.Array) else 0}


NO_NAN = {"NaNs in the result": 0}
OF_NAN = {
    "NaNs in the result": "The interpreter puts NaN beyond the end of an array, and where nothing was written yet; "
    "and it is the quotient of two infinities."
}
TILES = "Which tile of X does a step read, and where does it belong? What if the last one is not full?"


def random_table(rows, columns, seed=None, scale=1.0):
    """float32[rows, columns], random around 0."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32) * scale)


# %% nbgrader={"grade": false, "grade_id": "turn", "locked": false, "schema_version": 3, "solution": true, "task": false}
def transposed(X):
    """X.T, in one kernel whose blocks have at most 1,024 elements. X: float32[rows, columns]."""
    ### BEGIN SOLUTION
    # The grid counts the tiles of X; a tile goes where the two numbers of its place are exchanged.
    rows, columns = X.shape

    def turn_tile(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(
        turn_tile,
        grid=(pl.cdiv(rows, 32), pl.cdiv(columns, 32)),
        in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda i, j: (j, i)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "turn-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The table is turned, in one kernel with small blocks that moves each of them about once."""
X = random_table(96, 64, seed=0)
assert_equal(
    structure(transposed, X, most_elements=1024, most_bytes=2 * (X.nbytes + X.nbytes)),
    ONE_KERNEL,
    name="the kernel of transposed",
    hints=HINTS,
)
result = transposed(X)
assert_equal(nans(result), NO_NAN, name="transposed", hints=OF_NAN)
assert_allclose(result, np.asarray(X).T, rtol=0, atol=0, name="transposed", hint=TILES)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
for rows, columns in ((65, 97), tuple(int(number) for number in rng.integers(33, 63, 2)), (5, 100), (1, 40), (70, 1)):
    X = random_table(rows, columns)
    assert_equal(structure(transposed, X, most_elements=1024), ONE_KERNEL, name="the kernel of transposed", hints=HINTS)
    result = jax.jit(transposed)(X)  # the program that was looked at is the one that must be right
    assert_equal(nans(result), NO_NAN, name="transposed", hints=OF_NAN)
    assert_allclose(result, np.asarray(X).T, rtol=0, atol=0, name="transposed", hint=TILES)
X = np.array(random_table(40, 70))
X[3, 5], X[39, 0], X[20, 69] = np.nan, np.inf, -np.inf
assert_allclose(
    jax.jit(transposed)(jnp.asarray(X)), X.T, rtol=0, atol=0, name="transposed, of a table with NaN and inf"
)
for shape in ((40, 1500), (1500, 40)):  # one row, or one column, has more than 1,024 elements
    X = jax.ShapeDtypeStruct(shape, "float32")
    looked = structure(transposed, X, most_elements=1024, most_bytes=2 * (2 * 4 * 40 * 1500))
    assert_equal(looked, ONE_KERNEL, name="the kernel of transposed", hints=HINTS)
for kind, shape in (("wide", (40, 1500)), ("tall", (1500, 40))):
    X = random_table(*shape)
    assert_allclose(jax.jit(transposed)(X), np.asarray(X).T, rtol=0, atol=0, name=f"transposed, of a {kind} table")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · Softmax of rows (4 points)
#
# Write `softmax_rows`, one kernel that turns each row of a table into its softmax. The number of rows is any; **a block has
# at most 16 rows**, each of full length. The table is read once and the result written once, and nothing is computed outside
# of the kernel. (The padding of the last block counts; the budget has room for 15 rows of it.)
#
# It must hold for numbers of any size, for rows of very different size in one table, and for entries that are `-inf`, whose
# share is 0 (each row has at least one entry that is finite).
#
# <details><summary>Hint 1</summary>
# Inside the kernel a block is an array of rows. What would you write for a table of 16 rows?
# </details>
# <details><summary>Hint 2</summary>
# <code>exp</code> overflows in float32 above 88. Subtract the maximum first: that of each row, not that of the block.
# </details>
# <details><summary>Hint 3</summary>
# <code>e = jnp.exp(x - x.max(1, keepdims=True))</code>, and <code>e / e.sum(1, keepdims=True)</code>; blocks
# <code>(16, X.shape[1])</code>, the map <code>lambda i: (i, 0)</code> for both, and <code>pl.cdiv(X.shape[0], 16)</code>
# steps.
# </details>


# %% nbgrader={"grade": false, "grade_id": "softmax-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
OF_ROW = (
    "Subtract from each row its own maximum. A maximum over the block sees the other rows, and padding, which is NaN."
)


def softmax_reference(X):
    """The softmax of each row, in float64."""
    X = np.asarray(X, np.float64)
    e = np.exp(X - X.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def two_tables(X):
    """Bytes of X and of a result like it, each with 15 rows of padding."""
    return 2 * 4 * (X.shape[0] + 15) * X.shape[1]


# %% nbgrader={"grade": false, "grade_id": "softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""

    ### BEGIN SOLUTION
    # Rows do not mix, so what lies beyond the last row does no harm: what is computed of it is dropped.
    def some_rows(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - x.max(1, keepdims=True))
        o_ref[...] = e / e.sum(1, keepdims=True)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "softmax-values", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The softmax is right, for large numbers too and for any number of rows."""
assert_primitives(softmax_rows, random_table(40, 50, seed=0), counts={"pallas_call": 1})
for shift in (0, 1000):
    X = random_table(40, 50, seed=0, scale=3) + shift
    result = softmax_rows(X)
    assert_equal(nans(result), NO_NAN, name="softmax_rows", hints=OF_NAN)
    assert_allclose(result, softmax_reference(X), rtol=1e-4, atol=1e-6, name="softmax_rows", hint=OF_ROW)
### BEGIN HIDDEN TESTS
X = np.array(random_table(21, 30, scale=3))
X[::2] -= 300
X[1::3, 5:20] = -np.inf
X[[4, 8, 18]], X[4, 7], X[8, 3], X[18, 9] = -np.inf, -1e10, -3e38, np.finfo(np.float32).min
X[9] *= 1e30
X[12] = 5e8  # equal shares, of numbers so large that a logarithm added to them is lost
result = jax.jit(softmax_rows)(jnp.asarray(X))  # the program that is looked at is the one that must be right
assert_equal(nans(result), NO_NAN, name="softmax_rows", hints=OF_NAN)
assert_allclose(result, softmax_reference(X), rtol=1e-4, atol=1e-6, name="softmax_rows", hint=OF_ROW)
largest = float(np.asarray(result)[np.isneginf(X)].max())
assert_equal({"largest share of a -inf": largest}, {"largest share of a -inf": 0.0}, name="softmax_rows")
for rows, columns in ((1, 70), (48, 5), (49, 5), (20, 1)):
    X = random_table(rows, columns)
    result = jax.jit(softmax_rows)(X)
    assert_equal(nans(result), NO_NAN, name="softmax_rows", hints=OF_NAN)
    assert_allclose(result, softmax_reference(X), rtol=1e-4, atol=1e-6, name="softmax_rows", hint=OF_ROW)
assert_primitives(softmax_rows, jnp.zeros((49, 5)), counts={"pallas_call": 1})  # whose values are asked for
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "softmax-structure", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. One kernel that does the work, blocks of at most 16 rows, each of them moved once."""
X = random_table(200, 90, seed=1)
assert_equal(
    structure(softmax_rows, X, most_elements=16 * 90, most_bytes=two_tables(X)),
    ONE_KERNEL,
    name="the kernel of softmax_rows",
    hints=HINTS,
)
### BEGIN HIDDEN TESTS
result = jax.jit(softmax_rows)(X)  # what has this structure does the work
assert_allclose(result, softmax_reference(X), rtol=1e-4, atol=1e-6, name="softmax_rows", hint=OF_ROW)
for rows in (1000, 960, 997):  # a multiple of 16, or not; a prime
    X = jax.ShapeDtypeStruct((rows, 7), "float32")
    assert_equal(
        structure(softmax_rows, X, most_elements=16 * 7, most_bytes=two_tables(X)),
        ONE_KERNEL,
        name="the kernel of softmax_rows",
        hints=HINTS,
    )
X = jax.ShapeDtypeStruct((16, 7), "float32")
looked = structure(softmax_rows, X, most_elements=16 * 7, most_bytes=two_tables(X))
assert_equal(looked, ONE_KERNEL, name="the kernel of softmax_rows for 16 rows", hints=HINTS)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · Sums over the rows (4 points)
#
# Write `column_sums`, one kernel that returns `X.sum(0, keepdims=True)`, of shape `[1, columns]`. **No block has more than
# 2,048 elements** (32 x 64, for instance), whatever the size of the table; neither number need be a multiple of a block's.
# So the sum of a column is put together in several steps, which add to one block of the result.
#
# Two rules. A block of the result is **not left and taken up again**: the steps that add to it follow one another. (On a
# device a block that is left is written away.) And nothing is computed outside of the kernel.
#
# What lies beyond the last row may be anything: NaN in the interpreter, other numbers on a device. Leave it out for where it
# lies, not for what it is: a NaN in the table itself belongs to the sum of its column, as it does in `X.sum`.
#
# <details><summary>Hint 1</summary>
# Two axes in the grid: one for blocks of rows, one for blocks of columns. Which one must be the last?
# </details>
# <details><summary>Hint 2</summary>
# What is in the result before the first step adds to it? And what is in the rows beyond the end of <code>X</code>? The
# interpreter puts NaN into both.
# </details>
# <details><summary>Hint 3</summary>
# <code>grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32))</code>; in the kernel <code>@pl.when(pl.program_id(1) == 0)</code>
# above a function that sets the block to zeros, and <code>jnp.where(row &lt; rows, x_ref[...], 0)</code> with
# <code>row = 32 * pl.program_id(1) + jnp.arange(32)[:, None]</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "sums", "locked": false, "schema_version": 3, "solution": true, "task": false}
def column_sums(X):
    """The sum of each column, float32[1, columns], in one kernel. X: float32[rows, columns]."""
    ### BEGIN SOLUTION
    # The rows are the inner axis, so that a block of the result stays until it is complete.
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 32 * pl.program_id(1) + jnp.arange(32)[:, None]
        o_ref[...] += jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sums-values", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The sums are right, whatever lies beyond the last row."""
X = random_table(50, 40, seed=2)
assert_primitives(column_sums, X, counts={"pallas_call": 1})
expected = np.asarray(X, np.float64).sum(0, keepdims=True)
result = column_sums(X)
assert_equal(nans(result), NO_NAN, name="column_sums", hints=OF_NAN)
assert_allclose(result, expected, rtol=1e-4, atol=1e-4, name="column_sums")
### BEGIN HIDDEN TESTS
for rows, columns in ((77, 150), (10, 130), (128, 64), (70, 1)):
    X = random_table(rows, columns)
    expected = np.asarray(X, np.float64).sum(0, keepdims=True)
    result = jax.jit(column_sums)(X)  # the program that is looked at is the one that must be right
    assert_equal(nans(result), NO_NAN, name="column_sums", hints=OF_NAN)
    assert_allclose(result, expected, rtol=1e-4, atol=1e-4, name="column_sums")
X = np.array(random_table(65, 90))
X[[0, 40, 64], [3, 50, 88]] = np.nan  # in the first block of rows, in a whole one, and in the last
X[[1, 64], [7, 70]] = np.inf, -np.inf
infinite = {"sums of columns with an infinity": np.asarray(column_sums(jnp.asarray(X)))[0, [7, 70]].tolist()}
assert_equal(infinite, {"sums of columns with an infinity": [np.inf, -np.inf]}, name="column_sums")
has_nan = np.flatnonzero(np.isnan(column_sums(jnp.asarray(X)))).tolist()
assert_equal(
    {"columns whose sum is NaN": has_nan},
    {"columns whose sum is NaN": [3, 50, 88]},
    name="column_sums",
    hints={"columns whose sum is NaN": "These hold a NaN of the table. Leave out rows for where they are."},
)
assert_primitives(column_sums, jnp.zeros((77, 150)), counts={"pallas_call": 1})  # whose values are asked for
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "sums-structure", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. One kernel does the work, in blocks of at most 2,048 elements; none of the result is taken up again."""
X = random_table(300, 200, seed=3)
assert_equal(structure(column_sums, X, most_elements=2048), ONE_KERNEL, name="the kernel of column_sums", hints=HINTS)
### BEGIN HIDDEN TESTS
expected = np.asarray(X, np.float64).sum(0, keepdims=True)  # what has this structure does the work
assert_allclose(jax.jit(column_sums)(X), expected, rtol=1e-4, atol=1e-4, name="column_sums")
# One row, or one column, has more than 2,048 elements; numbers that are multiples of a block's, and no block more; a
# single row, or a single column.
for shape in ((40, 5000), (5000, 40), (2048, 2048), (1, 70), (70, 1)):
    X = jax.ShapeDtypeStruct(shape, "float32")
    assert_equal(
        structure(column_sums, X, most_elements=2048), ONE_KERNEL, name="the kernel of column_sums", hints=HINTS
    )
for kind, shape, atol in (("wide", (40, 5000), 1e-4), ("tall", (2100, 3), 1e-2)):
    X = random_table(*shape)
    expected = np.asarray(X, np.float64).sum(0, keepdims=True)
    assert_allclose(jax.jit(column_sums)(X), expected, rtol=1e-4, atol=atol, name=f"column_sums of a {kind} table")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · Attention (4 points)
#
# Write `attention` as one kernel: the softmax of the rows of `q @ k.T / sqrt(width)`, times `v`. `q` has `m` rows, `k` and `v`
# have `n`, both multiples of 64; a row is at most 64 wide. The scores may be large: up to 1e15, of either sign.
#
# - No block, scratch included, has more elements than 64 rows of `q`.
# - No value anywhere has more than 4,096 elements. (The check takes a `q` of that size, so that the result may be one.) So
#   no whole row of blocks of scores exists.
# - Nothing is computed outside of the kernel.
# - The budget of bytes: `q` and the result once; `k` and `v` once for every 64 rows of `q`; and 64 bytes more for each row
#   of `q`, should you keep something in a second output.
#
# <details><summary>Hint 1</summary>
# The lesson's <code>running_average</code> does it for one row, in pieces. What it keeps from round to round must live
# from step to step: in scratch, or in a block of an output that stays.
# </details>
# <details><summary>Hint 2</summary>
# The grid is <code>(m // 64, n // 64)</code>. The maximum so far starts at minus infinity; when it grows, both the sum and
# the result so far are multiplied by <code>jnp.exp(old - new)</code>. Divide in the last step only.
# </details>
# <details><summary>Hint 3</summary>
# The lesson's <code>flash_kernel</code> is nearly the answer. Mind that <code>q</code> and <code>k</code> have different
# numbers of rows here: <code>scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2</code>, the map of <code>q</code> and of
# the result is <code>lambda i, j: (i, 0)</code>, that of <code>k</code> and <code>v</code>
# <code>lambda i, j: (j, 0)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "attention-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def attention_reference(q, k, v):
    """The same in float64, with the whole matrix of scores."""
    q, k, v = (np.asarray(array, np.float64) for array in (q, k, v))
    return softmax_reference(q @ k.T / np.sqrt(q.shape[1])) @ v


def budget(q, k):
    """Bytes: q and the result once; k and v once for every 64 rows of q; 64 for each row of q."""
    return 4 * (2 * q.size + q.shape[0] // 64 * 2 * k.size) + 64 * q.shape[0]


# %% nbgrader={"grade": false, "grade_id": "attention", "locked": false, "schema_version": 3, "solution": true, "task": false}
def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""

    ### BEGIN SOLUTION
    # What was summed with a smaller maximum is corrected when a larger one comes.
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = q_ref[...] @ k_ref[...].T / np.sqrt(q_ref.shape[1])
        top = jnp.maximum(top_ref[...], scores.max(1, keepdims=True))
        correct, weights = jnp.exp(top_ref[...] - top), jnp.exp(scores - top)
        total_ref[...] = total_ref[...] * correct + weights.sum(1, keepdims=True)
        o_ref[...] = o_ref[...] * correct + weights @ v_ref[...]
        top_ref[...] = top

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            o_ref[...] /= total_ref[...]

    of_q = pl.BlockSpec((64, q.shape[1]), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, q.shape[1]), lambda i, j: (j, 0))
    return pl.pallas_call(
        running,
        grid=(q.shape[0] // 64, k.shape[0] // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "attention-values", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The averages are right, in one kernel."""
q, k, v = random_table(128, 32, seed=4), random_table(192, 32, seed=5), random_table(192, 32, seed=6)
assert_primitives(attention, q, k, v, counts={"pallas_call": 1})
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(attention(q, k, v), attention_reference(q, k, v), rtol=1e-3, atol=1e-4, name="attention")
### BEGIN HIDDEN TESTS
q, k, v = random_table(64, 16, scale=20), random_table(256, 16, scale=5), random_table(256, 16)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    for queries, keys in ((q, k), (abs(q), -abs(k))):
        result, expected = jax.jit(attention)(queries, keys, v), attention_reference(queries, keys, v)
        assert_allclose(result, expected, rtol=1e-2, atol=1e-3, name="attention")
    result, expected = jax.jit(attention)(q, k[:64], v[:64]), attention_reference(q, k[:64], v[:64])
    assert_allclose(result, expected, rtol=1e-2, atol=1e-3, name="attention, with 64 keys")
    q = random_table(128, 16).at[64:].set(2.0**40)  # the scores of the last 64 are far below 0
    k = jnp.full((128, 16), -4.0).at[int(np.random.default_rng().integers(128))].set(-1.0)
    result, expected = jax.jit(attention)(q, k, v[:128]), attention_reference(q, k, v[:128])
    assert_allclose(result, expected, rtol=1e-2, atol=1e-3, name="attention, with scores far below 0")
    best = np.random.default_rng().choice(128, 2, replace=False)
    q, k = jnp.full((64, 16), 2.0**12), jnp.full((128, 16), -1.0).at[best].set(2.0**12)  # their scores are 2**26, both
    result, expected = jax.jit(attention)(q, k, v[:128]), attention_reference(q, k, v[:128])
    assert_allclose(result, expected, rtol=1e-2, atol=1e-3, name="attention, with two equal best keys of large scores")
    q, k = q * 2.0**23, k.at[best[0]].set(2.0**12).at[best[1]].set(2.0**11)  # 2**49 and 2**48
    result, expected = jax.jit(attention)(q, k, v[:128]), attention_reference(q, k, v[:128])
    assert_allclose(result, expected, rtol=1e-2, atol=1e-3, name="attention, with one best key of large scores")
    q = jnp.full((64, 16), 2.0**45).at[32:].mul(-1)  # the scores are between 8e14 and 1e15, of either sign
    k = jnp.full((128, 16), 6.5).at[best[0]].set(6.0).at[best[1]].set(7.0)
    result, expected = jax.jit(attention)(q, k, v[:128]), attention_reference(q, k, v[:128])
    assert_allclose(result, expected, rtol=1e-2, atol=1e-3, name="attention, with scores near 1e15 and -1e15")
assert_primitives(attention, q, k, v[:128], counts={"pallas_call": 1})  # whose values are asked for
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "attention-structure", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The work is done in small blocks, without a matrix of scores and with no more bytes than the budget."""
q, k = random_table(128, 32, seed=7), random_table(320, 32, seed=8)
assert_equal(
    structure(attention, q, k, k, most_elements=64 * 32, most_bytes=budget(q, k)),
    ONE_KERNEL,
    name="the kernel of attention",
    hints=HINTS,
)
assert_primitives(attention, q, k, k, max_intermediate=4096)
### BEGIN HIDDEN TESTS
for m, n, width in ((64 * 63, 64, 16), (64, 64 * 63, 16), (128, 64, 8), (64, 128, 4)):  # many rows, narrow ones
    q, k = jax.ShapeDtypeStruct((m, width), "float32"), jax.ShapeDtypeStruct((n, width), "float32")
    looked = structure(attention, q, k, k, most_elements=64 * width, most_bytes=budget(q, k))
    assert_equal(looked, ONE_KERNEL, name="the kernel of attention", hints=HINTS)
q, k = random_table(192, 21), random_table(64 * int(np.random.default_rng().integers(6, 12)), 21)
looked = structure(attention, q, k, k, most_elements=64 * 21, most_bytes=budget(q, k))
assert_equal(looked, ONE_KERNEL, name="the kernel of attention", hints=HINTS)
with jax.default_matmul_precision("highest"):  # what has this structure does the work
    result, expected = jax.jit(attention)(q, k, k), attention_reference(q, k, k)
    assert_allclose(result, expected, rtol=1e-3, atol=1e-4, name="attention")
q, k = random_table(64, 64), random_table(128, 64)  # a block of v has 4,096 elements
assert_primitives(attention, q, k, k, max_intermediate=4096)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · What a product moves (2 points)
#
# `product` multiplies an `m` x `k` matrix `A` by a `k` x `n` matrix `B` in square tiles. Its grid has three axes, and the last
# one goes along `k`. Write `product_bytes(m, k, n, tile)`: the bytes that move of `A`, of `B` and of the result, for float32
# and for sizes that `tile` divides. They may be as small as a single tile.
#
# Your function is called with sizes that you do not know, in plain Python, where neither JAX nor this notebook exists; the
# check counts with the meter.
#
# <details><summary>Hint 1</summary>
# Three loops, one in the other. A tile of <code>A</code> has the place <code>(i, p)</code>, where <code>p</code> is the
# place on the third axis. When is it another tile than in the step before?
# </details>
# <details><summary>Hint 2</summary>
# If <code>k</code> is a single tile, <code>p</code> never moves, and the tile of <code>A</code> stays while <code>j</code>
# moves. Formulas need cases for that.
# </details>
# <details><summary>Hint 3</summary>
# You need no formula: go through all steps with loops, keep the last place, and count the changes. A place is a tuple.
# </details>


# %% nbgrader={"grade": false, "grade_id": "product-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def product(A, B, tile):
    """A @ B in tiles. A: float32[m, k]; B: float32[k, n]; tile divides all three."""
    (m, k), n = A.shape, B.shape[1]

    def add_product(a_ref, b_ref, o_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += a_ref[...] @ b_ref[...]

    return pl.pallas_call(
        add_product,
        grid=(m // tile, n // tile, k // tile),
        in_specs=[
            pl.BlockSpec((tile, tile), lambda i, j, p: (i, p)),
            pl.BlockSpec((tile, tile), lambda i, j, p: (p, j)),
        ],
        out_specs=pl.BlockSpec((tile, tile), lambda i, j, p: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), A.dtype),
        interpret=True,
    )(A, B)


def count_product(m, k, n, tile):
    """The bytes that move of A, of B and of the result."""
    A, B = jax.ShapeDtypeStruct((m, k), "float32"), jax.ShapeDtypeStruct((k, n), "float32")
    counted = moves(lambda A, B: product(A, B, tile), A, B)
    return {name: total for name, (*_, total) in zip(("A", "B", "result"), counted, strict=True)}


# %% nbgrader={"grade": false, "grade_id": "product", "locked": false, "schema_version": 3, "solution": true, "task": false}
def product_bytes(m, k, n, tile):
    """The bytes that `product` moves: a dict with the keys "A", "B" and "result"."""
    ### BEGIN SOLUTION
    # The loops of the grid, without the work.
    last, moved = {}, {"A": 0, "B": 0, "result": 0}
    for i in range(m // tile):
        for j in range(n // tile):
            for step in range(k // tile):
                for name, place in {"A": (i, step), "B": (step, j), "result": (i, j)}.items():
                    moved[name] += tile * tile * 4 * (last.get(name) != place)
                    last[name] = place
    return moved
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "product-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The bytes are right, for several sizes and tiles."""
for sizes in ((256, 128, 192, 32), (64, 256, 128, 16)):
    assert_prediction(
        product_bytes,
        lambda sizes=sizes: count_product(*sizes),
        args=sizes,
        hints={
            "A": "A tile of A moves when i or p changes; p changes in every step, if k has several tiles.",
            "B": "A tile of B moves when p or j changes.",
            "result": "A tile of the result stays while p moves.",
        },
    )
### BEGIN HIDDEN TESTS
edges = ((128, 32, 96, 32), (128, 64, 32, 32), (64, 32, 32, 32), (32, 32, 128, 32), (32, 96, 32, 32), (64, 64, 96, 32))
for sizes in (*edges, (264, 240, 288, 24), (64, 352, 64, 32)):  # no power of two, more than 1,000 steps; eleven along k
    assert_prediction(product_bytes, lambda sizes=sizes: count_product(*sizes), args=sizes)
### END HIDDEN TESTS
