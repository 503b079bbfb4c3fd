# %% [markdown]
# Wrong answers for unit 17. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="moves" name="every step moves a block" fails=["moves-blocks"] message="Does the index ever change?"
def predict_blocks():
    return {"rows": 8, "fixed": 5, "outer": 12, "inner": 12, "pairs": 6, "snake": 12}


def predict_bytes():
    return {"rows": 262144, "outer": 24576, "inner": 196608, "pairs": 12288}


# %% task="moves" name="the first axis of the grid moves fastest" fails=["moves-blocks"] message="The last axis of the grid moves fastest"
def predict_blocks():
    return {"rows": 8, "fixed": 1, "outer": 12, "inner": 4, "pairs": 3, "snake": 10}


def predict_bytes():
    return {"rows": 262144, "outer": 24576, "inner": 196608, "pairs": 12288}


# %% task="moves" name="a block that was there once is kept" fails=["moves-blocks"] message="Nobody kept it"
def predict_blocks():
    return {"rows": 8, "fixed": 1, "outer": 3, "inner": 4, "pairs": 3, "snake": 4}


def predict_bytes():
    return {"rows": 262144, "outer": 24576, "inner": 196608, "pairs": 12288}


# %% task="moves" name="the last block is as small as what is left" fails=["moves-bytes"] message="The last block is a whole block"
def predict_blocks():
    return {"rows": 8, "fixed": 1, "outer": 3, "inner": 12, "pairs": 3, "snake": 10}


def predict_bytes():
    return {"rows": 1000 * 64 * 4, "outer": 24576, "inner": 196608, "pairs": 12288}


# %% task="moves" name="every number has four bytes" fails=["moves-bytes"] message="How many bytes has a float16?"
def predict_blocks():
    return {"rows": 8, "fixed": 1, "outer": 3, "inner": 12, "pairs": 3, "snake": 10}


def predict_bytes():
    return {"rows": 262144, "outer": 3 * 32 * 128 * 4, "inner": 196608, "pairs": 12288}


# %% task="moves" name="blocks measured instead" fails=["moves-blocks"] message="predict_blocks uses count_moves, which does not exist where it is run"
def predict_blocks():
    return count_moves(2)


def predict_bytes():
    return {"rows": 262144, "outer": 24576, "inner": 196608, "pairs": 12288}


# %% task="turn" name="the turned tile stays in its place" fails=["turn-check"] message="blocks that there are not"
def transposed(X):
    rows, columns = X.shape

    def turn_tile(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(
        turn_tile,
        grid=(pl.cdiv(rows, 32), pl.cdiv(columns, 32)),
        in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="turn" name="tiles moved but not turned" fails=["turn-check"] message="the values are right, but in another order"
def transposed(X):
    rows, columns = X.shape

    def turn_tile(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        turn_tile,
        grid=(pl.cdiv(rows, 32), pl.cdiv(columns, 32)),
        in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda i, j: (j, i)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="turn" name="the whole table is one block" fails=["turn-check"] message="Without a BlockSpec a block is the whole array"
def transposed(X):
    def turn_all(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(turn_all, out_shape=jax.ShapeDtypeStruct(X.shape[::-1], X.dtype), interpret=True)(X)


# %% task="turn" name="turned outside, copied inside" fails=["turn-check"] message="Arguments go into the kernel as they are"
def transposed(X):
    def copy_tile(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    tile = pl.BlockSpec((32, 32), lambda i, j: (i, j))
    return pl.pallas_call(
        copy_tile,
        grid=(pl.cdiv(X.shape[1], 32), pl.cdiv(X.shape[0], 32)),
        in_specs=[tile],
        out_specs=tile,
        out_shape=jax.ShapeDtypeStruct(X.shape[::-1], X.dtype),
        interpret=True,
    )(X.T)


# %% task="turn" name="thin blocks far longer than the table" fails=["turn-check"] message="bytes over the budget"
def transposed(X):
    def turn_tile(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(
        turn_tile,
        grid=X.shape[:1],
        in_specs=[pl.BlockSpec((1, 1024), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1024, 1), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct(X.shape[::-1], X.dtype),
        interpret=True,
    )(X)


# %% task="turn" name="as many tiles as fit whole" fails=["turn-check"] message="where nothing was written yet" hidden=1
def transposed(X):
    rows, columns = X.shape

    def turn_tile(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(
        turn_tile,
        grid=(rows // 32, columns // 32),
        in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda i, j: (j, i)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="turn" name="a whole row in each step" fails=["turn-check"] message="blocks too large" hidden=1
def transposed(X):
    """X.T, in one kernel whose blocks have at most 1,024 elements. X: float32[rows, columns]."""
    rows, columns = X.shape

    def lay_down(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(
        lay_down,
        grid=(rows,),
        in_specs=[pl.BlockSpec((1, columns), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((columns, 1), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="turn" name="the kernel is for show, under jit only" fails=["turn-check"] message="NaNs in the result" hidden=1
def transposed(X):
    if not isinstance(X, jax.core.Tracer):
        return X.T

    def nothing(x_ref, o_ref):
        pass

    return pl.pallas_call(
        nothing,
        grid=(pl.cdiv(X.shape[0], 32), pl.cdiv(X.shape[1], 32)),
        in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda i, j: (j, i)),
        out_shape=jax.ShapeDtypeStruct(X.shape[::-1], X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="exp of the numbers as they are" fails=["softmax-values"] message="the quotient of two infinities"
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        e = jnp.exp(x_ref[...])
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


# %% task="softmax" name="the maximum of the block" fails=["softmax-values"] message="NaN beyond the end of an array"
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        e = jnp.exp(x_ref[...] - x_ref[...].max())
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


# %% task="softmax" name="the softmax of columns" fails=["softmax-values"] message="NaN beyond the end of an array"
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        e = jnp.exp(x_ref[...] - x_ref[...].max(0))
        o_ref[...] = e / e.sum(0)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="no kernel at all" fails=["softmax-values", "softmax-structure"] message="pallas_call"
def softmax_rows(X):
    return jax.nn.softmax(X, axis=1)


# %% task="softmax" name="pieces of rows" fails=["softmax-values"] message="values differ"
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        e = jnp.exp(x_ref[...] - x_ref[...].max(1, keepdims=True))
        o_ref[...] = e / e.sum(1, keepdims=True)

    block = pl.BlockSpec((16, 10), lambda i, j: (i, j))
    return pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], 16), pl.cdiv(X.shape[1], 10)),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="the whole table is one block" fails=["softmax-structure"] message="Without a BlockSpec a block is the whole array"
def softmax_rows(X):
    def all_rows(x_ref, o_ref):
        o_ref[...] = jax.nn.softmax(x_ref[...], axis=1)

    return pl.pallas_call(all_rows, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype), interpret=True)(X)


# %% task="softmax" name="the division is left for later" fails=["softmax-structure"] message="Arguments go into the kernel as they are"
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        o_ref[...] = jnp.exp(x_ref[...] - x_ref[...].max(1, keepdims=True))

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    e = pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)
    return e / e.sum(1, keepdims=True)


# %% task="softmax" name="the maximum of the block, padding left out" fails=["softmax-values"] message="the quotient of two infinities" hidden=1
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        e = jnp.exp(x_ref[...] - jnp.nanmax(x_ref[...]))
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


# %% task="softmax" name="the kernel is for show, under jit only" fails=["softmax-values"] message="the quotient of two infinities" hidden=1
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""
    if not isinstance(X, jax.core.Tracer):
        return jax.nn.softmax(X, axis=1)

    def kernel(x_ref, o_ref):
        e = jnp.exp(x_ref[...])
        o_ref[...] = e / e.sum(1, keepdims=True)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="always thirteen blocks" fails=["softmax-structure"] message="blocks too large" hidden=1
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        o_ref[...] = jax.nn.softmax(x_ref[...], axis=1)

    block = pl.BlockSpec((pl.cdiv(X.shape[0], 13), X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], pl.cdiv(X.shape[0], 13)),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="nothing is initialised" fails=["sums-values"] message="where nothing was written yet"
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):

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


# %% task="sums" name="every step begins at zero" fails=["sums-values"] message="40 of 40 values differ"
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
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


# %% task="sums" name="the padding is summed" fails=["sums-values"] message="NaN beyond the end of an array"
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...].sum(0, keepdims=True)

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="the mask is a product" fails=["sums-values"] message="NaN beyond the end of an array"
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 32 * pl.program_id(1) + jnp.arange(32)[:, None]
        o_ref[...] += (x_ref[...] * (row < rows)).sum(0, keepdims=True)

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="only the very first step begins at zero" fails=["sums-values"] message="where nothing was written yet" hidden=1
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
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


# %% task="sums" name="the blocks of rows are the outer axis" fails=["sums-structure"] message="must follow one another"
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 32 * pl.program_id(0) + jnp.arange(32)[:, None]
        o_ref[...] += jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(rows, 32), pl.cdiv(columns, 64)),
        in_specs=[pl.BlockSpec((32, 64), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda i, j: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="a sum for each block, added outside" fails=["sums-structure"] message="Arguments go into the kernel as they are"
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        row = 32 * pl.program_id(1) + jnp.arange(32)[:, None]
        o_ref[...] = jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    steps = pl.cdiv(rows, 32)
    parts = pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(columns, 64), steps),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((None, 1, 64), lambda j, i: (i, 0, j)),
        out_shape=jax.ShapeDtypeStruct((steps, 1, columns), X.dtype),
        interpret=True,
    )(X)
    return parts.sum(0)


# %% task="sums" name="blocks as wide as the table" fails=["sums-structure"] message="blocks too large" hidden=1
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 8 * pl.program_id(0) + jnp.arange(8)[:, None]
        o_ref[...] += jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(rows, 8),),
        in_specs=[pl.BlockSpec((8, columns), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, columns), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="four whole columns in a block" fails=["sums-structure"] message="blocks too large" hidden=1
def column_sums(X):
    """The sum of each column, float32[1, columns], in one kernel. X: float32[rows, columns]."""
    rows, columns = X.shape

    def add(x_ref, o_ref):
        o_ref[...] = x_ref[...].sum(0, keepdims=True)

    return pl.pallas_call(
        add,
        grid=(pl.cdiv(columns, 4),),
        in_specs=[pl.BlockSpec((rows, 4), lambda j: (0, j))],
        out_specs=pl.BlockSpec((1, 4), lambda j: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="nansum instead of a mask" fails=["sums-values"] message="These hold a NaN of the table" hidden=1
def column_sums(X):
    """The sum of each column, float32[1, columns], in one kernel. X: float32[rows, columns]."""
    rows, columns = X.shape

    def add(x_ref, o_ref):
        part = jnp.nansum(x_ref[...], 0, keepdims=True)  # beyond the end there is only NaN
        o_ref[...] = jnp.where(pl.program_id(1) == 0, part, o_ref[...] + part)

    return pl.pallas_call(
        add,
        grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="a NaN of the last block is taken for padding" fails=["sums-values"] message="These hold a NaN of the table" hidden=1
def column_sums(X):
    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        last = pl.program_id(1) == pl.num_programs(1) - 1
        o_ref[...] += jnp.where(last & jnp.isnan(x_ref[...]), 0, x_ref[...]).sum(0, keepdims=True)

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(X.shape[1], 64), pl.cdiv(X.shape[0], 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, X.shape[1]), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="the kernel is for show, under jit only" fails=["sums-values"] message="NaNs in the result" hidden=1
def column_sums(X):
    if not isinstance(X, jax.core.Tracer):
        return X.sum(0, keepdims=True)

    def nothing(x_ref, o_ref):
        pass

    return pl.pallas_call(
        nothing,
        grid=(pl.cdiv(X.shape[1], 64), pl.cdiv(X.shape[0], 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, X.shape[1]), X.dtype),
        interpret=True,
    )(X)


# %% task="attention" name="the past is not corrected" fails=["attention-values"] message="values differ"
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = q_ref[...] @ k_ref[...].T / np.sqrt(q_ref.shape[1])
        top = jnp.maximum(top_ref[...], scores.max(1, keepdims=True))
        weights = jnp.exp(scores - top)
        total_ref[...] = total_ref[...] + weights.sum(1, keepdims=True)
        o_ref[...] = o_ref[...] + weights @ v_ref[...]
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


# %% task="attention" name="only the sum is corrected" fails=["attention-values"] message="values differ"
def attention(q, k, v):
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
        o_ref[...] = o_ref[...] + weights @ v_ref[...]
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


# %% task="attention" name="divided in every step" fails=["attention-values"] message="values differ"
def attention(q, k, v):
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


# %% task="attention" name="the scale is forgotten" fails=["attention-values"] message="values differ"
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = q_ref[...] @ k_ref[...].T
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


# %% task="attention" name="no maximum" fails=["attention-values"] message="NaN" hidden=1
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = q_ref[...] @ k_ref[...].T / np.sqrt(q_ref.shape[1])
        weights = jnp.exp(scores)
        total_ref[...] = total_ref[...] + weights.sum(1, keepdims=True)
        o_ref[...] = o_ref[...] + weights @ v_ref[...]

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
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)],
        interpret=True,
    )(q, k, v)


# %% task="attention" name="the maximum starts at zero" fails=["attention-values"] message="NaN" hidden=1
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.zeros_like(top_ref)
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


# %% task="attention" name="the blocks of q are the inner axis" fails=["attention-structure"] message="must follow one another"
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(0) == 0)
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

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def _():
            o_ref[...] /= total_ref[...]

    of_q = pl.BlockSpec((64, q.shape[1]), lambda j, i: (i, 0))
    of_k = pl.BlockSpec((64, q.shape[1]), lambda j, i: (j, 0))
    return pl.pallas_call(
        running,
        grid=(k.shape[0] // 64, q.shape[0] // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="attention" name="half as many rows of q in a block" fails=["attention-structure"] message="bytes over the budget"
def attention(q, k, v):
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

    of_q = pl.BlockSpec((32, q.shape[1]), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, q.shape[1]), lambda i, j: (j, 0))
    return pl.pallas_call(
        running,
        grid=(q.shape[0] // 32, k.shape[0] // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((32, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="attention" name="k and v as one block each" fails=["attention-structure"] message="blocks too large"
def attention(q, k, v):
    def some_rows(q_ref, k_ref, v_ref, o_ref):
        scores = q_ref[...] @ k_ref[...].T / np.sqrt(q_ref.shape[1])
        o_ref[...] = jax.nn.softmax(scores, axis=1) @ v_ref[...]

    of_q = pl.BlockSpec((64, q.shape[1]), lambda i: (i, 0))
    of_k = pl.BlockSpec(k.shape, lambda i: (0, 0))
    return pl.pallas_call(
        some_rows,
        grid=(q.shape[0] // 64,),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        interpret=True,
    )(q, k, v)


# %% task="attention" name="the division is left for later" fails=["attention-structure"] message="Arguments go into the kernel as they are"
def attention(q, k, v):
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

    of_q = pl.BlockSpec((64, q.shape[1]), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, q.shape[1]), lambda i, j: (j, 0))
    of_row = pl.BlockSpec((64, 1), lambda i, j: (i, 0))
    row = jax.ShapeDtypeStruct((q.shape[0], 1), q.dtype)
    result, _, total = pl.pallas_call(
        running,
        grid=(q.shape[0] // 64, k.shape[0] // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=[of_q, of_row, of_row],
        out_shape=[jax.ShapeDtypeStruct(q.shape, q.dtype), row, row],
        interpret=True,
    )(q, k, v)
    return result / total


# %% task="attention" name="a maximum and a sum for each row of q, all in scratch" fails=["attention-structure"] message="blocks too large" hidden=1
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        mine = pl.ds(64 * pl.program_id(0), 64)

        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[mine, :] = jnp.full((64, 1), -jnp.inf)
            total_ref[mine, :] = jnp.zeros((64, 1))
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = q_ref[...] @ k_ref[...].T / np.sqrt(q_ref.shape[1])
        top = jnp.maximum(top_ref[mine, :], scores.max(1, keepdims=True))
        correct, weights = jnp.exp(top_ref[mine, :] - top), jnp.exp(scores - top)
        total_ref[mine, :] = total_ref[mine, :] * correct + weights.sum(1, keepdims=True)
        o_ref[...] = o_ref[...] * correct + weights @ v_ref[...]
        top_ref[mine, :] = top

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            o_ref[...] /= total_ref[mine, :]

    of_q = pl.BlockSpec((64, q.shape[1]), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, q.shape[1]), lambda i, j: (j, 0))
    return pl.pallas_call(
        running,
        grid=(q.shape[0] // 64, k.shape[0] // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((q.shape[0], 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="attention" name="the kernel is for show, under jit only" fails=["attention-values"] message="values differ" hidden=1
def attention(q, k, v):
    if not isinstance(q, jax.core.Tracer):
        return jax.nn.softmax(q @ k.T / np.sqrt(q.shape[1]), axis=1) @ v

    def last_only(q_ref, k_ref, v_ref, o_ref):
        o_ref[...] = jax.nn.softmax(q_ref[...] @ k_ref[...].T, axis=1) @ v_ref[...]

    of_q = pl.BlockSpec((64, q.shape[1]), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, q.shape[1]), lambda i, j: (j, 0))
    return pl.pallas_call(
        last_only,
        grid=(q.shape[0] // 64, k.shape[0] // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        interpret=True,
    )(q, k, v)


# %% task="product" name="each array moves once" fails=["product-check"] message="A tile of B moves when p or j changes"
def product_bytes(m, k, n, tile):
    return {"A": 4 * m * k, "B": 4 * k * n, "result": 4 * m * n}


# %% task="product" name="the tile of A stays while j moves" fails=["product-check"] message="A tile of A moves when i or p changes"
def product_bytes(m, k, n, tile):
    return {"A": 4 * m * k, "B": 4 * k * n * m // tile, "result": 4 * m * n}


# %% task="product" name="the result moves in every step" fails=["product-check"] message="A tile of the result stays while p moves"
def product_bytes(m, k, n, tile):
    steps = (m // tile) * (n // tile) * (k // tile)
    return dict.fromkeys(["A", "B", "result"], 4 * tile * tile * steps)


# %% task="product" name="counted instead" fails=["product-check"] message="product_bytes uses count_product, which does not exist where it is run"
def product_bytes(m, k, n, tile):
    return count_product(m, k, n, tile)


# %% task="product" name="formulas without the cases of a single tile" fails=["product-check"] message="A: you said" hidden=1
def product_bytes(m, k, n, tile):
    return {"A": 4 * m * k * n // tile, "B": 4 * k * n * m // tile, "result": 4 * m * n}


# %% task="sums" name="one block more than needed" fails=["sums-structure"] hidden=1 message="blocks that there are not"
def column_sums(X):
    rows, columns = X.shape

    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 32 * pl.program_id(1) + jnp.arange(32)[:, None]
        o_ref[...] += jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    return pl.pallas_call(
        kernel,
        grid=(columns // 64 + 1, rows // 32 + 1),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="turn" name="padding is cleaned with nan_to_num" fails=["turn-check"] hidden=1 message="NaN and inf"
def transposed(X):
    def turn(x_ref, o_ref):
        o_ref[...] = jnp.nan_to_num(x_ref[...]).T  # beyond the end of the table there is NaN

    rows, columns = X.shape
    return pl.pallas_call(
        turn,
        grid=(pl.cdiv(rows, 32), pl.cdiv(columns, 32)),
        in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda i, j: (j, i)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="-inf is made -1e9 first" fails=["softmax-values"] hidden=1 message="softmax_rows"
def softmax_rows(X):
    def kernel(x_ref, o_ref):
        x = jnp.maximum(x_ref[...], -1e9)
        e = jnp.exp(x - x.max(1, keepdims=True))
        o_ref[...] = e / e.sum(1, keepdims=True)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="one block more, for the rest" fails=["softmax-structure"] hidden=1 message="blocks that there are not"
def softmax_rows(X):
    def kernel(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - x.max(1, keepdims=True))
        o_ref[...] = e / e.sum(1, keepdims=True)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(X.shape[0] // 16 + 1,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="in the last block the remainder counts" fails=["sums-values"] hidden=1 message="column_sums"
def column_sums(X):
    rows, columns = X.shape
    last = pl.cdiv(rows, 32) - 1

    def kernel(x_ref, o_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        there_are = jnp.where(i == last, rows % 32, 32)
        mine = jnp.where(jnp.arange(32)[:, None] < there_are, x_ref[...], 0)
        o_ref[...] += mine.sum(0, keepdims=True)

    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="what is lost in adding is added again (Kahan)" fails=["sums-values"] hidden=1 message="infinity"
def column_sums(X):
    rows, columns = X.shape

    def kernel(x_ref, o_ref, lost_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)
            lost_ref[...] = jnp.zeros_like(lost_ref)

        row = 32 * i + jnp.arange(32)[:, None]
        mine = jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True) - lost_ref[...]
        total = o_ref[...] + mine
        lost_ref[...] = (total - o_ref[...]) - mine
        o_ref[...] = total

    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        scratch_shapes=[pltpu.VMEM((1, 64), jnp.float32)],
        interpret=True,
    )(X)


# %% task="attention" name="either the first step or the last" fails=["attention-values"] hidden=1 message="with 64 keys"
def attention(q, k, v):
    (m, width), n = q.shape, k.shape[0]
    last = n // 64 - 1

    def kernel(q_ref, k_ref, v_ref, o_ref, max_ref, sum_ref):
        j = pl.program_id(1)
        scores = q_ref[...] @ k_ref[...].T * width**-0.5

        @pl.when(j == 0)
        def _():
            max_ref[...] = scores.max(1, keepdims=True)
            weights = jnp.exp(scores - max_ref[...])
            sum_ref[...] = weights.sum(1, keepdims=True)
            o_ref[...] = weights @ v_ref[...]

        @pl.when(j > 0)
        def _():
            new = jnp.maximum(max_ref[...], scores.max(1, keepdims=True))
            weights, shrink = jnp.exp(scores - new), jnp.exp(max_ref[...] - new)
            total = sum_ref[...] * shrink + weights.sum(1, keepdims=True)
            result = o_ref[...] * shrink + weights @ v_ref[...]
            max_ref[...], sum_ref[...] = new, total
            o_ref[...] = jnp.where(j == last, result / total, result)

    return pl.pallas_call(
        kernel,
        grid=(m // 64, n // 64),
        in_specs=[
            pl.BlockSpec((64, width), lambda i, j: (i, 0)),
            pl.BlockSpec((64, width), lambda i, j: (j, 0)),
            pl.BlockSpec((64, width), lambda i, j: (j, 0)),
        ],
        out_specs=pl.BlockSpec((64, width), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((m, width), q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="product" name="places by one number, which two places share" fails=["product-check"] hidden=1 message="B: you said"
def product_bytes(m, k, n, tile):
    rows, columns, parts = m // tile, n // tile, k // tile
    steps = [(i, j, p) for i in range(rows) for j in range(columns) for p in range(parts)]

    def moved(numbers):
        changes = sum(one != other for one, other in zip(numbers, numbers[1:], strict=False))
        return (1 + changes) * tile * tile * 4

    return {
        "A": moved([parts * i + p for i, j, p in steps]),
        "B": moved([p + j for i, j, p in steps]),
        "result": moved([columns * i + j for i, j, p in steps]),
    }


# %% task="attention" name="the maximum is that of all rows of q before, too" fails=["attention-values"] message="scores far below 0" hidden=1
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)

        @pl.when(pl.program_id(1) == 0)
        def _():
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


# %% task="attention" name="the maximum starts at minus a billion" fails=["attention-values"] message="scores far below 0" hidden=1
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -1e9)
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


# %% task="attention" name="a kernel for show, where many rows are looked at" fails=["attention-structure"] message="attention" hidden=1
def attention(q, k, v):
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

    def for_show(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        o_ref[...] = q_ref[...]

    of_q = pl.BlockSpec((64, q.shape[1]), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, q.shape[1]), lambda i, j: (j, 0))
    return pl.pallas_call(
        for_show if k.shape[0] > 256 or q.shape[0] > 128 else running,
        grid=(q.shape[0] // 64, k.shape[0] // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="softmax" name="a kernel for show, where a table is long" fails=["softmax-structure"] message="softmax_rows" hidden=1
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        o_ref[...] = jax.nn.softmax(x_ref[...], axis=1) if len(X) < 100 else x_ref[...]

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="numbers above a million are cut off" fails=["softmax-values"] message="softmax_rows" hidden=1
def softmax_rows(X):
    def some_rows(x_ref, o_ref):
        o_ref[...] = jax.nn.softmax(jnp.minimum(x_ref[...], 1e6), axis=1)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="a kernel for show, where a table is wide" fails=["sums-structure"] message="column_sums" hidden=1
def column_sums(X):
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        if columns < 160:
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


# %% task="turn" name="a table of one row keeps no axis" fails=["turn-check"] message="Error" hidden=1
def transposed(X):
    rows, columns = X.shape

    def turn_tile(x_ref, o_ref):
        o_ref[...] = jnp.squeeze(x_ref[...]).T

    tall, wide = min(rows, 32), min(columns, 32)
    return pl.pallas_call(
        turn_tile,
        grid=(pl.cdiv(rows, tall), pl.cdiv(columns, wide)),
        in_specs=[pl.BlockSpec((tall, wide), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((wide, tall), lambda i, j: (j, i)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="attention" name="320 keys at most" fails=["attention-structure"] hidden=1 message="attention"
def attention(q, k, v):
    def kernel(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
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

    (m, width), n = q.shape, k.shape[0]
    of_q, of_k = pl.BlockSpec((64, width), lambda i, j: (i, 0)), pl.BlockSpec((64, width), lambda i, j: (j, 0))
    return pl.pallas_call(
        kernel,
        grid=(m // 64, min(n, 320) // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="softmax" name="blocks that divide, or else the whole table" fails=["softmax-structure"] hidden=1 message="blocks too large"
def block_rows(rows):
    """The largest power of two up to 16 that divides the rows, so that nothing is padded."""
    for size in (16, 8, 4, 2):
        if rows % size == 0:
            return size
    return rows


def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""
    rows, columns = X.shape
    height = block_rows(rows)

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - x.max(axis=1, keepdims=True))
        o_ref[...] = e / e.sum(axis=1, keepdims=True)

    return pl.pallas_call(
        kernel,
        grid=(rows // height,),
        in_specs=[pl.BlockSpec((height, columns), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((height, columns), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="minus infinity replaced by -1e30" fails=["softmax-values"] hidden=1 message="softmax_rows"
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""

    def kernel(x_ref, o_ref):
        x = jnp.maximum(x_ref[...], -1e30)  # no infinities, no inf - inf
        e = jnp.exp(x - x.max(1, keepdims=True))
        o_ref[...] = e / e.sum(1, keepdims=True)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="attention" name="maximum and sum in one scratch of sixteen columns" fails=["attention-structure"] hidden=1 message="64x16"
def flash(q_ref, k_ref, v_ref, o_ref, s_ref):
    """Column 0 of s_ref is the maximum so far, column 1 the sum so far."""
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _():
        s_ref[:, 0:1] = jnp.full((64, 1), -jnp.inf)
        s_ref[:, 1:2] = jnp.zeros((64, 1))
        o_ref[...] = jnp.zeros_like(o_ref)

    scores = q_ref[...] @ k_ref[...].T / q_ref.shape[1] ** 0.5
    old = s_ref[:, 0:1]
    m = jnp.maximum(old, scores.max(1, keepdims=True))
    e = jnp.exp(scores - m)
    shrink = jnp.exp(old - m)
    s_ref[:, 1:2] = shrink * s_ref[:, 1:2] + e.sum(1, keepdims=True)
    o_ref[...] = shrink * o_ref[...] + e @ v_ref[...]
    s_ref[:, 0:1] = m

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = o_ref[...] / s_ref[:, 1:2]


def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""
    (m, width), n = q.shape, k.shape[0]
    rows = pl.BlockSpec((64, width), lambda i, j: (i, 0))
    others = pl.BlockSpec((64, width), lambda i, j: (j, 0))
    return pl.pallas_call(
        flash,
        grid=(m // 64, n // 64),
        in_specs=[rows, others, others],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 16), jnp.float32)],
        interpret=True,
    )(q, k, v)


# %% task="softmax" name="exp of x minus logsumexp" fails=["softmax-values"] hidden=1 message="softmax_rows at index (12, 0): got 1.0"
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        top = x.max(1, keepdims=True)
        log_sum = top + jnp.log(jnp.exp(x - top).sum(1, keepdims=True))
        o_ref[...] = jnp.exp(x - log_sum)

    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="attention" name="keeps one logsumexp instead of maximum and sum" fails=["attention-values"] hidden=1 message="two equal best keys of large scores"
def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""
    (m, width), n = q.shape, k.shape[0]

    def kernel(q_ref, k_ref, v_ref, o_ref, lse_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            lse_ref[...] = jnp.full((64, 1), -jnp.inf, jnp.float32)
            o_ref[...] = jnp.zeros((64, width), jnp.float32)

        scores = q_ref[...] @ k_ref[...].T / width**0.5
        top = scores.max(1, keepdims=True)
        lse_here = top + jnp.log(jnp.exp(scores - top).sum(1, keepdims=True))
        old = lse_ref[...]
        new = jnp.logaddexp(old, lse_here)
        o_ref[...] = o_ref[...] * jnp.exp(old - new) + jnp.exp(scores - new) @ v_ref[...]
        lse_ref[...] = new

    of_q = pl.BlockSpec((64, width), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, width), lambda i, j: (j, 0))
    return pl.pallas_call(
        kernel,
        grid=(m // 64, n // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct((m, width), jnp.float32),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)],
        interpret=True,
    )(q, k, v)


# %% task="softmax" name="no share below exp(-80)" fails=["softmax-values"] hidden=1 message="largest share of a -inf"
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        below = jnp.maximum(x - x.max(1, keepdims=True), -80.0)  # exp must not underflow
        e = jnp.exp(below)
        o_ref[...] = e / e.sum(1, keepdims=True)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="another grid for wide tables, with the old program_id" fails=["sums-structure"] hidden=1 message="column_sums of a wide table"
def column_sums(X):
    """The sum of each column, float32[1, columns], in one kernel. X: float32[rows, columns]."""
    rows, columns = X.shape
    tall = max(1, 2048 // columns)

    def kernel(x_ref, o_ref):
        i = pl.program_id(0)  # of a wide table this is the block of columns

        @pl.when(i == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = tall * i + jnp.arange(tall)[:, None]
        o_ref[...] += jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    if columns <= 2048:  # whole rows, as many as fit
        grid = (pl.cdiv(rows, tall),)
        of_x = pl.BlockSpec((tall, columns), lambda i: (i, 0))
        of_sum = pl.BlockSpec((1, columns), lambda i: (0, 0))
    else:  # one row at a time, in pieces
        grid = (pl.cdiv(columns, 2048), rows)
        of_x = pl.BlockSpec((1, 2048), lambda j, i: (i, j))
        of_sum = pl.BlockSpec((1, 2048), lambda j, i: (0, j))
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[of_x],
        out_specs=of_sum,
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="turn" name="tiles for wide tables, not turned" fails=["turn-check"] hidden=1 message="transposed, of a wide table"
def transposed(X):
    """X.T, in one kernel whose blocks have at most 1,024 elements. X: float32[rows, columns]."""
    rows, columns = X.shape

    def lay_down(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    def place(x_ref, o_ref):  # the index maps turn the table, but not what is in a tile
        o_ref[...] = x_ref[...]

    if columns <= 1024:  # a whole row in each step
        kernel, grid = lay_down, (rows,)
        of_x = pl.BlockSpec((1, columns), lambda i: (i, 0))
        of_result = pl.BlockSpec((columns, 1), lambda i: (0, i))
    else:
        kernel, grid = place, (pl.cdiv(rows, 32), pl.cdiv(columns, 32))
        of_x = pl.BlockSpec((32, 32), lambda i, j: (i, j))
        of_result = pl.BlockSpec((32, 32), lambda i, j: (j, i))
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[of_x],
        out_specs=of_result,
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="attention" name="scores above ten thousand are cut off" fails=["attention-values"] hidden=1 message="with one best key of large scores"
def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""
    (m, width), n = q.shape, k.shape[0]

    def kernel(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = q_ref[...] @ k_ref[...].T / np.sqrt(width)
        scores = jnp.minimum(scores, 1e4)  # exp must not overflow
        top = jnp.maximum(top_ref[...], scores.max(1, keepdims=True))
        shrink, weights = jnp.exp(top_ref[...] - top), jnp.exp(scores - top)
        total_ref[...] = total_ref[...] * shrink + weights.sum(1, keepdims=True)
        o_ref[...] = o_ref[...] * shrink + weights @ v_ref[...]
        top_ref[...] = top

        @pl.when(j == n // 64 - 1)
        def _():
            o_ref[...] /= total_ref[...]

    of_q = pl.BlockSpec((64, width), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((64, width), lambda i, j: (j, 0))
    return pl.pallas_call(
        kernel,
        grid=(m // 64, n // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct((m, width), q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="turn" name="tiles of tall tables are not turned" fails=["turn-check"] hidden=1 message="transposed, of a tall table"
def transposed(X):
    """X.T, in one kernel whose blocks have at most 1,024 elements. X: float32[rows, columns]."""
    # The grid counts the tiles of X; a tile goes where the two numbers of its place are exchanged.
    rows, columns = X.shape

    tall = rows > 1024

    def turn_tile(x_ref, o_ref):
        o_ref[...] = x_ref[...] if tall else x_ref[...].T

    return pl.pallas_call(
        turn_tile,
        grid=(pl.cdiv(rows, 32), pl.cdiv(columns, 32)),
        in_specs=[pl.BlockSpec((32, 32), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda i, j: (j, i)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="a block of one column loses its axis" fails=["softmax-values"] hidden=1 message="Error"
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""

    # Rows do not mix, so what lies beyond the last row does no harm: what is computed of it is dropped.
    def some_rows(x_ref, o_ref):
        x = jnp.squeeze(x_ref[...])
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


# %% task="softmax" name="nan_to_num makes the lowest number of -inf" fails=["softmax-values"] hidden=1 message="softmax_rows"
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""

    # Rows do not mix, so what lies beyond the last row does no harm: what is computed of it is dropped.
    def some_rows(x_ref, o_ref):
        x = jnp.nan_to_num(x_ref[...], posinf=jnp.inf)
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


# %% task="sums" name="blocks as small as the table, and axes of length 1 squeezed" fails=["sums-values", "sums-structure"] hidden=1 message="Error"
def column_sums(X):
    rows, columns = X.shape
    high, wide = min(32, rows), min(64, columns)

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = high * pl.program_id(1) + jnp.arange(high)
        x = jnp.squeeze(x_ref[...])
        o_ref[...] += jnp.where(row[:, None] < rows, x, 0).sum(0)[None]

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(columns, wide), pl.cdiv(rows, high)),
        in_specs=[pl.BlockSpec((high, wide), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, wide), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="a single column without a kernel" fails=["sums-structure"] hidden=1 message="kernels: returned 0, expected 1"
def column_sums(X):
    """The sum of each column, float32[1, columns], in one kernel. X: float32[rows, columns]."""
    # The rows are the inner axis, so that a block of the result stays until it is complete.
    rows, columns = X.shape

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 32 * pl.program_id(1) + jnp.arange(32)[:, None]
        o_ref[...] += jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    if columns == 1:
        return X.sum(0, keepdims=True)
    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(columns, 64), pl.cdiv(rows, 32)),
        in_specs=[pl.BlockSpec((32, 64), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 64), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="other blocks for tall tables, with the old row numbers" fails=["sums-structure"] hidden=1 message="column_sums of a tall table"
def column_sums(X):
    """The sum of each column, float32[1, columns], in one kernel. X: float32[rows, columns]."""
    # The rows are the inner axis, so that a block of the result stays until it is complete.
    rows, columns = X.shape

    high, wide = (512, 4) if rows > 1024 and columns <= 64 else (32, 64)

    def add_rows(x_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        row = 32 * pl.program_id(1) + jnp.arange(high)[:, None]
        o_ref[...] += jnp.where(row < rows, x_ref[...], 0).sum(0, keepdims=True)

    return pl.pallas_call(
        add_rows,
        grid=(pl.cdiv(columns, wide), pl.cdiv(rows, high)),
        in_specs=[pl.BlockSpec((high, wide), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, wide), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="attention" name="scores below -1e14 are cut off" fails=["attention-values"] hidden=1 message="scores near 1e15 and -1e15"
def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""

    # What was summed with a smaller maximum is corrected when a larger one comes.
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = jnp.maximum(q_ref[...] @ k_ref[...].T / np.sqrt(q_ref.shape[1]), -1e14)
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


# %% task="attention" name="pieces of eight columns, as many as fit whole" fails=["attention-structure"] hidden=1 message="AxisError"
def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""

    # What was summed with a smaller maximum is corrected when a larger one comes.
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = sum(
            q_ref[:, 8 * c : 8 * c + 8] @ k_ref[:, 8 * c : 8 * c + 8].T for c in range(q_ref.shape[1] // 8)
        ) / np.sqrt(q_ref.shape[1])
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


# %% task="product" name="a recursion over the steps" fails=["product-check"] hidden=1 message="RecursionError"
def product_bytes(m, k, n, tile):
    def walk(step, last, moved):
        if step == (m // tile) * (n // tile) * (k // tile):
            return moved
        rest, p = divmod(step, k // tile)
        i, j = divmod(rest, n // tile)
        places = {"A": (i, p), "B": (p, j), "result": (i, j)}
        moved = {x: moved[x] + 4 * tile * tile * (places[x] != last.get(x)) for x in places}
        return walk(step + 1, places, moved)

    return walk(0, {}, {"A": 0, "B": 0, "result": 0})


# %% task="softmax" name="a kernel at the sizes that it was shown" fails=["softmax-values"] hidden=1 message="`softmax_rows` has pallas_call 0 times"
def softmax_rows(X):
    if X.shape not in ((40, 50), (200, 90)):
        return jax.nn.softmax(X, axis=1)

    def some_rows(x_ref, o_ref):
        o_ref[...] = jax.nn.softmax(x_ref[...], axis=1)

    block = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        some_rows,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="one block needs no kernel" fails=["softmax-structure"] hidden=1 message="for 16 rows"
def softmax_rows(X):
    """The softmax of each row of X, in one kernel. X: float32[rows, columns]."""
    if X.shape[0] <= 16:
        return jax.nn.softmax(X, axis=1)  # one block needs no kernel

    def kernel(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - x.max(1, keepdims=True))
        o_ref[...] = e / e.sum(1, keepdims=True)

    spec = pl.BlockSpec((16, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="a kernel at the sizes that it was shown" fails=["sums-values"] hidden=1 message="`column_sums` has pallas_call 0 times"
def column_sums(X):
    rows, columns = X.shape
    if X.shape not in ((50, 40), (300, 200)):
        return X.sum(0, keepdims=True)

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


# %% task="attention" name="a kernel at the width that it was shown" fails=["attention-values"] hidden=1 message="`attention` has pallas_call 0 times"
def attention(q, k, v):
    if q.shape[1] != 32:
        return jax.nn.softmax(q @ k.T / np.sqrt(q.shape[1]), axis=1) @ v

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


# %% task="attention" name="a column of ones beside v, which makes it 65 wide" fails=["attention-structure"] hidden=1 message="4,160 elements"
def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""
    (m, width), n = q.shape, k.shape[0]

    def kernel(q_ref, k_ref, v_ref, o_ref, top_ref, sum_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full(top_ref.shape, -jnp.inf, jnp.float32)
            sum_ref[...] = jnp.zeros_like(sum_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        scores = q_ref[...] @ k_ref[...].T / width**0.5
        top = jnp.maximum(top_ref[...], scores.max(1, keepdims=True))
        shrink, weights = jnp.exp(top_ref[...] - top), jnp.exp(scores - top)
        with_ones = jnp.concatenate([v_ref[...], jnp.ones((64, 1), jnp.float32)], axis=1)
        sums = weights @ with_ones  # the last column is the sum of the weights
        o_ref[...] = shrink * o_ref[...] + sums[:, :width]
        sum_ref[...] = shrink * sum_ref[...] + sums[:, width:]
        top_ref[...] = top

        @pl.when(pl.program_id(1) == n // 64 - 1)
        def _():
            o_ref[...] = o_ref[...] / sum_ref[...]

    of_q, of_k = pl.BlockSpec((64, width), lambda i, j: (i, 0)), pl.BlockSpec((64, width), lambda i, j: (j, 0))
    return pl.pallas_call(
        kernel,
        grid=(m // 64, n // 64),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct((m, width), q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="product" name="a place as a number with two digits" fails=["product-check"] hidden=1 message="predictions is wrong: A"
def product_bytes(m, k, n, tile):
    """The bytes that `product` moves: a dict with the keys "A", "B" and "result"."""
    times, last = {"A": 0, "B": 0, "result": 0}, {}
    for i in range(m // tile):
        for j in range(n // tile):
            for p in range(k // tile):
                for name, place in {"A": 10 * i + p, "B": 10 * p + j, "result": 1000 * i + j}.items():
                    times[name] += place != last.get(name)
                    last[name] = place
    return {name: 4 * tile * tile * number for name, number in times.items()}


# %% task="attention" name="scratch of eight columns, for any width" fails=["attention-structure"] hidden=1 message="the kernel of attention"
def attention(q, k, v):
    """softmax(q k^T / sqrt(width)) v, in one kernel. q: float32[m, width]; k and v: float32[n, width]."""
    (m, width), n = q.shape, k.shape[0]

    def flash(q_ref, k_ref, v_ref, o_ref, kept_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            kept_ref[:, 0:1] = jnp.full((64, 1), -jnp.inf, jnp.float32)
            kept_ref[:, 1:2] = jnp.zeros((64, 1), jnp.float32)
            o_ref[...] = jnp.zeros((64, width), jnp.float32)

        scores = q_ref[...] @ k_ref[...].T / width**0.5
        before = kept_ref[:, 0:1]
        most = jnp.maximum(before, scores.max(1, keepdims=True))
        e, shrink = jnp.exp(scores - most), jnp.exp(before - most)
        kept_ref[:, 1:2] = shrink * kept_ref[:, 1:2] + e.sum(1, keepdims=True)
        kept_ref[:, 0:1] = most
        o_ref[...] = shrink * o_ref[...] + e @ v_ref[...]

        @pl.when(pl.program_id(1) == n // 64 - 1)
        def _():
            o_ref[...] = o_ref[...] / kept_ref[:, 1:2]

    mine, theirs = pl.BlockSpec((64, width), lambda i, j: (i, 0)), pl.BlockSpec((64, width), lambda i, j: (j, 0))
    return pl.pallas_call(
        flash,
        grid=(m // 64, n // 64),
        in_specs=[mine, theirs, theirs],
        out_specs=mine,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 8), jnp.float32)],
        interpret=True,
    )(q, k, v)


# %% task="softmax" name="a kernel that asks the host" fails=["softmax-structure"] message="pure_callback"
def softmax_rows(X):
    block = 16, X.shape[1]

    def ask(x):
        with np.errstate(all="ignore"):
            return np.nan_to_num(softmax_reference(x)).astype(np.float32)

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.pure_callback(ask, jax.ShapeDtypeStruct(block, jnp.float32), x_ref[...])

    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 16),),
        in_specs=[pl.BlockSpec(block, lambda i: (i, 0))],
        out_specs=pl.BlockSpec(block, lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)
