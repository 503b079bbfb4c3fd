# %% [markdown]
# Right answers to unit 17 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="turn" name="the grid counts tiles of the result, swapaxes"
def turn_kernel(x_ref, o_ref):
    o_ref[...] = jnp.swapaxes(x_ref[...], 0, 1)


def transposed(X):
    out = jax.ShapeDtypeStruct(X.shape[::-1], X.dtype)
    tiles = tuple(-(-n // 32) for n in out.shape)
    call = pl.pallas_call(
        turn_kernel,
        out_shape=out,
        grid=tiles,
        in_specs=[pl.BlockSpec((32, 32), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((32, 32), lambda j, i: (j, i)),
        interpret=True,
    )
    return call(X)


# %% task="turn" name="smaller tiles, jitted, a grid spec"
@jax.jit
def transposed(X):
    tall, wide = 16, 8
    grid = pl.GridSpec(
        grid=(pl.cdiv(X.shape[0], tall), pl.cdiv(X.shape[1], wide)),
        in_specs=[pl.BlockSpec((tall, wide), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((wide, tall), lambda i, j: (j, i)),
    )

    def kernel(x_ref, o_ref):
        o_ref[:, :] = x_ref[:, :].T

    return pl.pallas_call(
        kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct((X.shape[1], X.shape[0]), X.dtype), interpret=True
    )(X)


# %% task="turn" name="one axis of steps, row by row in the kernel"
def transposed(X):
    rows, columns = X.shape
    down = pl.cdiv(rows, 16)

    def kernel(x_ref, o_ref):
        for r in range(16):
            o_ref[:, r] = x_ref[r, :]

    return pl.pallas_call(
        kernel,
        grid=(down * pl.cdiv(columns, 16),),
        in_specs=[pl.BlockSpec((16, 16), lambda s: (s % down, s // down))],
        out_specs=pl.BlockSpec((16, 16), lambda s: (s // down, s % down)),
        out_shape=jax.ShapeDtypeStruct((columns, rows), X.dtype),
        interpret=True,
    )(X)


# %% task="softmax" name="jax.nn in the kernel, eight rows"
def softmax_rows(X):
    rows, columns = X.shape
    spec = pl.BlockSpec((8, columns), lambda i: (i, 0))

    def kernel(x_ref, o_ref):
        o_ref[...] = jax.nn.softmax(x_ref[...], axis=-1)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
        grid=-(-rows // 8),
        in_specs=[spec],
        out_specs=spec,
        interpret=True,
    )(X)


# %% task="softmax" name="one row a step, its axis squeezed"
def one_row(x_ref, o_ref):
    x = x_ref[:]
    e = jnp.exp(x - jnp.max(x))
    o_ref[:] = e / jnp.sum(e)


def softmax_rows(X):
    row = pl.BlockSpec((None, X.shape[1]), lambda i: (i, 0))
    call = pl.pallas_call(
        one_row,
        grid=X.shape[:1],
        in_specs=[row],
        out_specs=row,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )
    return call(X)


# %% task="softmax" name="logsumexp, blocks of fifteen rows, jitted"
@jax.jit
def softmax_rows(X):
    def kernel(x_ref, o_ref):
        x = x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True)  # a logarithm would be lost in a large number
        o_ref[...] = jnp.exp(x - jax.scipy.special.logsumexp(x, axis=1, keepdims=True))

    block = pl.BlockSpec((min(15, X.shape[0]), X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], min(15, X.shape[0])),),
        in_specs=[block],
        out_specs=block,
        out_shape=X,
        interpret=True,
    )(X)


# %% task="softmax" name="a kernel for one row, vmapped"
def softmax_of_row(x_ref, o_ref):
    o_ref[...] = jax.nn.softmax(x_ref[...])


@jax.vmap
def softmax_rows(row):
    return pl.pallas_call(softmax_of_row, out_shape=row, interpret=True)(row)


# %% task="softmax" name="a loop over the rows of a block"
def softmax_rows(X):
    def kernel(x_ref, o_ref):
        def one(r, _):
            x = x_ref[pl.ds(r, 1), :]
            e = jnp.exp(x - x.max())
            o_ref[pl.ds(r, 1), :] = e / e.sum()

        jax.lax.fori_loop(0, 4, one, None)

    block = pl.BlockSpec((4, X.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(X.shape[0], 4),),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="scratch for the sum, written in the last step"
def column_sums(X):
    rows, columns = X.shape
    last = pl.cdiv(rows, 16) - 1

    def kernel(x_ref, o_ref, sum_ref):
        i = pl.program_id(1)

        @pl.when(i == 0)
        def _():
            sum_ref[...] = jnp.zeros((1, 128), jnp.float32)

        inside = jax.lax.broadcasted_iota(jnp.int32, (16, 128), 0) + i * 16 < rows
        sum_ref[...] += jnp.sum(x_ref[...], axis=0, keepdims=True, where=inside)

        @pl.when(i == last)
        def _():
            o_ref[...] = sum_ref[...]

    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(columns, 128), last + 1),
        in_specs=[pl.BlockSpec((16, 128), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 128), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), jnp.float32),
        scratch_shapes=[pltpu.VMEM((1, 128), jnp.float32)],
        interpret=True,
    )(X)


# %% task="sums" name="sets in the first step, adds in the others"
def column_sums(X):
    rows, columns = X.shape

    def kernel(x_ref, o_ref):
        left = rows - 64 * pl.program_id(1)
        part = jnp.where(jnp.arange(64).reshape(-1, 1) < left, x_ref[...], 0.0).sum(axis=0)

        @pl.when(pl.program_id(1) == 0)
        def first():
            o_ref[0, :] = part

        @pl.when(pl.program_id(1) > 0)
        def others():
            o_ref[0, :] = o_ref[0, :] + part

    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(columns, 32), pl.cdiv(rows, 64)),
        in_specs=[pl.BlockSpec((64, 32), lambda j, i: (i, j))],
        out_specs=pl.BlockSpec((1, 32), lambda j, i: (0, j)),
        out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
        interpret=True,
    )(X)


# %% task="sums" name="one column of blocks at a time, one row a step"
def column_sums(X):
    rows, columns = X.shape

    def kernel(x_ref, o_ref):
        before = jnp.where(pl.program_id(1) == 0, 0.0, o_ref[...])
        o_ref[...] = before + x_ref[...]

    return jax.jit(
        pl.pallas_call(
            kernel,
            grid=(pl.cdiv(columns, 512), rows),
            in_specs=[pl.BlockSpec((1, 512), lambda j, i: (i, j))],
            out_specs=pl.BlockSpec((1, 512), lambda j, i: (0, j)),
            out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
            interpret=True,
        )
    )(X)


# %% task="sums" name="one axis in the grid, ones times the block"
def column_sums(X):
    rows, columns = X.shape
    down = pl.cdiv(rows, 32)

    def kernel(x_ref, o_ref):
        i = pl.program_id(0) % down
        x = jnp.where(jnp.arange(32)[:, None] + 32 * i < rows, x_ref[...], 0)
        total = jnp.ones((1, 32), x.dtype) @ x
        o_ref[...] = jax.lax.select(i == 0, total, o_ref[...] + total)

    with jax.default_matmul_precision("highest"):
        return pl.pallas_call(
            kernel,
            grid=(down * pl.cdiv(columns, 64),),
            in_specs=[pl.BlockSpec((32, 64), lambda s: (s % down, s // down))],
            out_specs=pl.BlockSpec((1, 64), lambda s: (0, s // down)),
            out_shape=jax.ShapeDtypeStruct((1, columns), X.dtype),
            interpret=True,
        )(X)


# %% task="attention" name="second outputs instead of scratch"
def attention(q, k, v):
    (m, width), n = q.shape, k.shape[0]

    def kernel(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def _():
            top_ref[...] = jnp.full((64, 1), -jnp.inf)
            total_ref[...] = jnp.zeros((64, 1))
            o_ref[...] = jnp.zeros((64, width))

        s = jnp.einsum("id,jd->ij", q_ref[...], k_ref[...]) * width**-0.5
        old, new = top_ref[...], jnp.maximum(top_ref[...], s.max(1, keepdims=True))
        p = jnp.exp(s - new)
        total_ref[...] = jnp.exp(old - new) * total_ref[...] + p.sum(1, keepdims=True)
        o_ref[...] = jnp.exp(old - new) * o_ref[...] + p @ v_ref[...]
        top_ref[...] = new

        @pl.when(j == n // 64 - 1)
        def _():
            o_ref[...] = o_ref[...] / total_ref[...]

    def rows(moving):
        return pl.BlockSpec((64, width), (lambda i, j: (j, 0)) if moving else (lambda i, j: (i, 0)))

    number = pl.BlockSpec((64, 1), lambda i, j: (i, 0))
    numbers = jax.ShapeDtypeStruct((m, 1), q.dtype)
    return pl.pallas_call(
        kernel,
        grid=(m // 64, n // 64),
        in_specs=[rows(False), rows(True), rows(True)],
        out_specs=[rows(False), number, number],
        out_shape=[jax.ShapeDtypeStruct((m, width), q.dtype), numbers, numbers],
        interpret=True,
    )(q, k, v)[0]


# %% task="attention" name="always normalised, pieces of 32 places"
def attention(q, k, v):
    def kernel(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            total_ref[...] = jnp.zeros_like(total_ref)
            o_ref[...] = jnp.zeros_like(o_ref)

        s = jnp.dot(q_ref[...] / jnp.sqrt(q.shape[1]), k_ref[...].T)
        top = jnp.maximum(top_ref[...], s.max(axis=1, keepdims=True))
        before, weights = total_ref[...] * jnp.exp(top_ref[...] - top), jnp.exp(s - top)
        total = before + weights.sum(axis=1, keepdims=True)
        o_ref[...] = o_ref[...] * (before / total) + weights / total @ v_ref[...]
        top_ref[...], total_ref[...] = top, total

    of_q = pl.BlockSpec((64, q.shape[1]), lambda i, j: (i, 0))
    of_k = pl.BlockSpec((32, q.shape[1]), lambda i, j: (j, 0))
    return pl.pallas_call(
        kernel,
        grid=(q.shape[0] // 64, k.shape[0] // 32),
        in_specs=[of_q, of_k, of_k],
        out_specs=of_q,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        scratch_shapes=[pltpu.VMEM((64, 1), jnp.float32)] * 2,
        interpret=True,
    )(q, k, v)


# %% task="attention" name="jitted, the result kept in scratch and written once"
@jax.jit
def attention(q, k, v):
    width = q.shape[1]
    steps = k.shape[0] // 64

    def kernel(q_ref, k_ref, v_ref, o_ref, sum_ref, top_ref, weighted_ref):
        j = pl.program_id(1)
        s = q_ref[...] @ k_ref[...].T * (1 / np.sqrt(width))
        before = jnp.where(j == 0, -jnp.inf, top_ref[...])
        top = jnp.maximum(before, s.max(axis=1))
        shrink = jnp.exp(before - top)
        p = jnp.exp(s - top[:, None])
        sum_ref[...] = p.sum(axis=1) + jnp.where(j == 0, 0, shrink * sum_ref[...])
        weighted_ref[...] = p @ v_ref[...] + jnp.where(j == 0, 0, shrink[:, None] * weighted_ref[...])
        top_ref[...] = top

        @pl.when(j == steps - 1)
        def _():
            o_ref[...] = weighted_ref[...] / sum_ref[...][:, None]

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=0,
            grid=(q.shape[0] // 64, steps),
            in_specs=[
                pl.BlockSpec((64, width), lambda i, j: (i, 0)),
                pl.BlockSpec((64, width), lambda i, j: (j, 0)),
                pl.BlockSpec((64, width), lambda i, j: (j, 0)),
            ],
            out_specs=pl.BlockSpec((64, width), lambda i, j: (i, 0)),
            scratch_shapes=[
                pltpu.VMEM((64,), jnp.float32),
                pltpu.VMEM((64,), jnp.float32),
                pltpu.VMEM((64, width), jnp.float32),
            ],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        interpret=True,
    )(q, k, v)


# %% task="product" name="places listed, then neighbours compared"
def product_bytes(m, k, n, tile):
    from itertools import pairwise, product

    steps = list(product(range(m // tile), range(n // tile), range(k // tile)))
    places = {
        "A": [(i, p) for i, j, p in steps],
        "B": [(p, j) for i, j, p in steps],
        "result": [(i, j) for i, j, p in steps],
    }
    block = tile * tile * 4
    return {name: block * (1 + sum(a != b for a, b in pairwise(named))) for name, named in places.items()}


# %% task="product" name="formulas with cases"
def product_bytes(m, k, n, tile):
    a, b, c = m // tile, n // tile, k // tile
    of_a = a * b * c if c > 1 else a
    of_b = a * b * c if c > 1 else (a * b if b > 1 else 1)
    return {name: 4 * tile**2 * moves for name, moves in {"A": of_a, "B": of_b, "result": a * b}.items()}


# %% task="product" name="groups of equal places"
def product_bytes(m, k, n, tile):
    import itertools

    across, down, along = (range(size // tile) for size in (m, n, k))

    def groups(of):
        return sum(1 for _ in itertools.groupby(of(i, j, p) for i in across for j in down for p in along))

    return {
        "A": groups(lambda i, j, p: (i, p)) * tile * tile * 4,
        "B": groups(lambda i, j, p: (p, j)) * tile * tile * 4,
        "result": groups(lambda i, j, p: (i, j)) * tile * tile * 4,
    }


# %% task="attention" name="the maximum begins at -1e30"
def attention(q, k, v):
    def running(q_ref, k_ref, v_ref, o_ref, top_ref, total_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            top_ref[...] = jnp.full_like(top_ref, -1e30)
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
