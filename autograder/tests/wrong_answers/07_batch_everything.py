# %% task="predict-shapes" name="in_axes is the axis that is summed" fails=["predict-shapes-check"] message="not the one that is summed"
def predict_shapes():
    return {
        "front": [3, 4],
        "back": [2, 3],
        "moved": [3, 2, 4],
        "turned": [4, 3, 2],
        "shared": [2, 3],
        "table": [4, 5],
        "other table": [5, 4],
        "refused by NumPy": [3, 4],
        "does not look": [2, 7],
        "twice": [2],
    }


# %% task="predict-shapes" name="the inner vmap makes the first axis" fails=["predict-shapes-check"] message="which argument does it map"
def predict_shapes():
    return {
        "front": [2],
        "back": [4],
        "moved": [3, 2, 4],
        "turned": [4, 3, 2],
        "shared": [2, 3],
        "table": [5, 4],
        "other table": [4, 5],
        "refused by NumPy": [3, 4],
        "does not look": [2, 7],
        "twice": [4, 3],
    }


# %% task="predict-shapes" name="the axis goes back to where it came from" fails=["predict-shapes-check"] message="the default of out_axes"
def predict_shapes():
    return {
        "front": [2],
        "back": [4],
        "moved": [2, 3, 4],
        "turned": [4, 3, 2],
        "shared": [2, 3],
        "table": [4, 5],
        "other table": [5, 4],
        "refused by NumPy": [3, 4],
        "does not look": [7],
        "twice": [3, 4],
    }


# %% task="predict-shapes" name="measured instead" fails=["predict-shapes-check"] message="predict_shapes uses jax.eval_shape, which does not exist where it is run"
def predict_shapes():
    return {name: list(jax.eval_shape(program).shape) for name, program in SHAPE_PROGRAMS.items()}


# %% task="lift-pairs" name="hands whole arrays to the brick" fails=["lift-pairs-columns", "lift-pairs-table", "lift-pairs-blocks"] message="Let vmap hand them over one by one"
def columns(x):
    return rescale(x)


def table(x, y):
    return pull(x[:, None], y[None, :])


def blocks(x, y):
    return pull(x[:, None, :], y.T[None, :, :])


# %% task="lift-pairs" name="forgets out_axes, nests the wrong way round" fails=["lift-pairs-columns", "lift-pairs-table", "lift-pairs-blocks"] message="the axes are in another order"
def columns(x):
    return jax.vmap(rescale, in_axes=1)(x)


def table(x, y):
    return jax.vmap(jax.vmap(pull, in_axes=(0, None)), in_axes=(None, 0))(x, y)


def blocks(x, y):
    return jax.vmap(jax.vmap(jax.vmap(pull, (None, 0)), (0, None)), in_axes=(1, 0))(x, y)


# %% task="lift-pairs" name="stacks calls of a Python loop" fails=["lift-pairs-columns", "lift-pairs-table", "lift-pairs-blocks"] message="a Python loop repeats it while JAX traces"
def columns(x):
    return jnp.stack([rescale(x[:, j]) for j in range(x.shape[1])], axis=1)


def table(x, y):
    return jnp.stack([jax.vmap(pull, in_axes=(None, 0))(a, y) for a in x])


def blocks(x, y):
    return jnp.stack([table(x[:, k], y[k]) for k in range(x.shape[1])], axis=2)


# %% task="lift-pairs" name="maps both at once where all pairs are wanted" fails=["lift-pairs-table"] message="inconsistent sizes"
def columns(x):
    return jax.vmap(rescale, in_axes=1, out_axes=1)(x)


def table(x, y):
    return jax.vmap(pull)(x, y)


def blocks(x, y):
    return jax.vmap(jax.vmap(jax.vmap(pull, (None, 0)), (0, None)), in_axes=(1, 0), out_axes=2)(x, y)


# %% task="lift-trees" name="crosses what should walk together" fails=["lift-trees-frames"] message="has shape (4, 4, 3), expected (3, 4)"
def frames(a, b, t):
    crossed = jax.vmap(jax.vmap(jax.vmap(blend, (None, None, 0)), (None, 0, None)), (0, None, None))
    return crossed(a, b, t)


def ensemble(members, points):
    of_member = {"w": 1, "b": 0, "scale": None}
    return jax.vmap(jax.vmap(respond, in_axes=(None, 0)), in_axes=(of_member, None))(members, points)


# %% task="lift-trees" name="one number for a tree whose leaves differ" fails=["lift-trees-ensemble"] message="rank should be at least 1"
def frames(a, b, t):
    return jax.vmap(lambda moment: jax.vmap(blend, in_axes=(0, 0, None))(a, b, moment))(t)


def ensemble(members, points):
    return jax.vmap(jax.vmap(respond, in_axes=(None, 0)), in_axes=(0, None))(members, points)


# %% task="lift-trees" name="frames side by side, points first" fails=["lift-trees-frames", "lift-trees-ensemble"] message="the axes are in another order"
def frames(a, b, t):
    return jax.vmap(jax.vmap(blend, in_axes=(None, None, 0)), in_axes=(0, 0, None))(a, b, t)


def ensemble(members, points):
    of_member = {"w": 1, "b": 0, "scale": None}
    return jax.vmap(jax.vmap(respond, in_axes=(of_member, None)), in_axes=(None, 0))(members, points)


# %% task="lift-trees" name="a list of members" fails=["lift-trees-frames", "lift-trees-ensemble"] message="a Python loop repeats it while JAX traces"
def frames(a, b, t):
    return jnp.stack([jax.vmap(blend, in_axes=(0, 0, None))(a, b, moment) for moment in t])


def ensemble(members, points):
    one_by_one = [
        {"w": w, "b": b, "scale": members["scale"]} for w, b in zip(members["w"].T, members["b"], strict=True)
    ]
    return jnp.stack([jax.vmap(respond, in_axes=(None, 0))(member, points) for member in one_by_one])


# %% task="one-element" name="uses what is ready-made" fails=["one-element-running-sum", "one-element-arranged", "one-element-unpack"] message="which this task leaves out"
def running_sum_at(i, x):
    return jnp.cumsum(x)[i]


def life_at(i, j, world):
    rows = (i + jnp.array([-1, 0, 1])) % world.shape[0]
    columns = (j + jnp.array([-1, 0, 1])) % world.shape[1]
    neighbours = world[rows][:, columns].sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(world.dtype)


def arranged_at(i, x):
    return jnp.sort(x)[i]


def unpack_at(i, values, counts):
    run = jnp.sum(jnp.cumsum(counts) <= i)
    return jnp.where(jnp.arange(values.size) == run, values, 0).sum()


@jax.jit
def running_sum(x):
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="one-element" name="slices up to an index that is a tracer" fails=["one-element-running-sum"] message="IndexError"
def running_sum_at(i, x):
    return x[: i + 1].sum()


@jax.jit
def running_sum(x):
    return fill(lambda i: running_sum_at(i, x), x.size)


# %% task="one-element" name="the torus has an edge, twins get one place, the last value fills the rest" fails=["one-element-life", "one-element-arranged", "one-element-unpack"] message="expected"
def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    rows, columns = i + jnp.array([-1, 0, 1]), j + jnp.array([-1, 0, 1])
    neighbours = world[rows][:, columns].sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(world.dtype)


def arranged_at(i, x):
    rank = jax.vmap(lambda j: jnp.sum(x < x[j]))(jnp.arange(x.size))
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    run = jnp.sum(running_sum(counts) <= i)
    return values[run]


@jax.jit
def running_sum(x):
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="scores" name="turns the axes by hand" fails=["scores-check"] message="uses transpose"
def scores(queries, keys):
    queries, keys = jnp.moveaxis(queries, 2, 1), jnp.moveaxis(keys, 2, 1)
    return jax.vmap(jax.vmap(jax.vmap(jax.vmap(dot, in_axes=(None, 0)), in_axes=(0, None))))(queries, keys)


# %% task="scores" name="keys before queries" fails=["scores-check"] message="the axes are in another order"
def scores(queries, keys):
    over_keys = jax.vmap(jax.vmap(dot, in_axes=(0, None)), in_axes=(None, 0))
    return jax.vmap(jax.vmap(over_keys, in_axes=(1, 1)))(queries, keys)


# %% task="scores" name="a product for each head" fails=["scores-check"] message="dot_general 3 times"
def scores(queries, keys):
    table = jax.vmap(jax.vmap(jax.vmap(dot, in_axes=(None, 0)), in_axes=(0, None)))
    return jnp.stack([table(queries[:, :, h], keys[:, :, h]) for h in range(queries.shape[2])], axis=1)


# %% task="scores" name="multiplies and sums, not a product to XLA" fails=["scores-check"] message="has dot_general 0 times"
def scores(queries, keys):
    def pair(a, b):
        return jnp.sum(a * b)

    over_queries = jax.vmap(jax.vmap(pair, in_axes=(None, 0)), in_axes=(0, None))
    return jax.vmap(jax.vmap(over_queries, in_axes=(1, 1)))(queries, keys)


# %% task="predict-bill" name="each example pays for itself under vmap" fails=["predict-bill-check"] message="everybody goes with it"
def predict_bill():
    return {
        "vmap over 1, 3, 100": 104,
        "vmap over 1, 3, then 100 alone": 104,
        "lax.map over 1, 3, 100": 104,
        "dear, vmap over 0 to 6": 1,
        "dear, vmap over -1 to 5": 0,
        "dear, lax.map over 0 to 6": 1,
        "dear, one flag for all, False": 0,
    }


# %% task="predict-bill" name="both branches always run" fails=["predict-bill-check"] message="The predicate is not batched"
def predict_bill():
    return {
        "vmap over 1, 3, 100": 300,
        "vmap over 1, 3, then 100 alone": 106,
        "lax.map over 1, 3, 100": 104,
        "dear, vmap over 0 to 6": 7,
        "dear, vmap over -1 to 5": 7,
        "dear, lax.map over 0 to 6": 7,
        "dear, one flag for all, False": 7,
    }


# %% task="predict-bill" name="a branch that nobody wants is skipped" fails=["predict-bill-check"] message="Does the program know that when it is built"
def predict_bill():
    return {
        "vmap over 1, 3, 100": 300,
        "vmap over 1, 3, then 100 alone": 106,
        "lax.map over 1, 3, 100": 104,
        "dear, vmap over 0 to 6": 7,
        "dear, vmap over -1 to 5": 0,
        "dear, lax.map over 0 to 6": 1,
        "dear, one flag for all, False": 0,
    }


# %% task="predict-bill" name="measured instead" fails=["predict-bill-check"] message="predict_bill uses lines, which does not exist where it is run"
def predict_bill():
    return {name: lines(program) for name, program in BILLS.items()}


# %% task="whole-sky" name="vmap of the cond" fails=["whole-sky-check"] message="FLOPs in this run: expected at most"
@jax.jit
def whole_sky(x):
    return jax.vmap(one_pixel)(x)


# %% task="whole-sky" name="where on everything" fails=["whole-sky-check"] message="FLOPs in this run: expected at most"
@jax.jit
def whole_sky(x):
    return jnp.where(x > 0, jax.vmap(fit)(x), x / 2)


# %% task="whole-sky" name="empty places point at pixel 0" fails=["whole-sky-check"] message="whole_sky with 3 stars at index (0,)"
@jax.jit
def whole_sky(x):
    where = jnp.nonzero(x > 0, size=STARS)[0]
    return (x / 2).at[where].set(jax.vmap(fit)(x[where]))


# %% task="whole-sky" name="a mask of unknown length" fails=["whole-sky-check"] message="Array boolean indices must be concrete"
@jax.jit
def whole_sky(x):
    return (x / 2).at[x > 0].set(jax.vmap(fit)(x[x > 0]))


# %% task="clipped-mean" name="clips the mean" fails=["clipped-mean-check"] message="clipped_mean with limit 0.5"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    gradient = jax.grad(lambda p: jax.vmap(loss, in_axes=(None, 0, 0))(p, xs, ys).mean())(params)
    length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
    return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)


# %% task="clipped-mean" name="clips each leaf by itself" fails=["clipped-mean-check"] message="clipped_mean with limit 0.5"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / jnp.linalg.norm(leaf)), gradient)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(clipped)(xs, ys))


# %% task="clipped-mean" name="scales short gradients up" fails=["clipped-mean-check"] message="clipped_mean with limit 1e+06"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * limit / length, gradient)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(clipped)(xs, ys))


# %% task="clipped-mean" name="lax.map is a loop" fails=["clipped-mean-check", "clipped-mean-speed"] message="uses scan"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    def clipped(example):
        gradient = jax.grad(loss)(params, *example)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.lax.map(clipped, (xs, ys)))


# %% task="clipped-mean" name="a Python loop inside jit" fails=["clipped-mean-check"] message="a Python loop runs while JAX traces"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    total = jax.tree.map(jnp.zeros_like, params)
    for x, y in zip(xs, ys, strict=True):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        scale = jnp.minimum(1.0, limit / length)
        total = jax.tree.map(lambda t, g, scale=scale: t + scale * g, total, gradient)
    return jax.tree.map(lambda leaf: leaf / len(xs), total)


# %% task="clipped-mean" name="vmap without jit" fails=["clipped-mean-speed"] message="below 20x"
def clipped_mean(params, xs, ys, limit):
    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(clipped)(xs, ys))


# %% task="minijit-vmap" name="axes stay where they were" fails=["minijit-vmap-check"] message="axis 0 of an example is axis 1 of the batch"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=True)), set(mapped)
    for name, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(name)
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    if isinstance(tape.output, str) and tape.output in mapped:
        return values[tape.output]
    return bind("spread", lift(read(values, tape.output)), axis=0, size=size)


# %% task="minijit-vmap" name="everything is mapped" fails=["minijit-vmap-check"] message="the axes of a shared w have not moved"
def replay_rows(tape, args, mapped, size):
    values = dict(zip(tape.inputs, args, strict=True))
    for name, primitive, operands, params in tape.equations:
        if "axis" in params:
            params = {**params, "axis": params["axis"] + 1}
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values[tape.output]


# %% task="minijit-vmap" name="a shared result stays single" fails=["minijit-vmap-check"] message="rows_shared (a shared result, once for each example)"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=True)), set(mapped)
    for name, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(name)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    return read(values, tape.output)


# %% task="minijit-vmap" name="a loop over the rows" fails=["minijit-vmap-tape"] message="A tracer has no rows to take"
def replay_rows(tape, args, mapped, size):
    results = []
    for row in range(size):
        one = [x[row] if name in mapped else x for name, x in zip(tape.inputs, args, strict=True)]
        results.append(tape.play(*one))
    return np.stack(results)
