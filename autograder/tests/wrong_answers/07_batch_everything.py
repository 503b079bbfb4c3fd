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


# %% task="lift-pairs" name="copies the formulas, for whole arrays" fails=["lift-pairs-columns", "lift-pairs-table", "lift-pairs-blocks"] hidden=1 message="with another function inside"
def columns(x):
    return (x - x.min(0)) / (x.max(0) - x.min(0))


def table(x, y):
    return x[:, None] * jnp.exp(-y)


def blocks(x, y):
    return x[:, None] * jnp.exp(-y.T)


# %% task="lift-pairs" name="copies the formulas into bricks of its own, and lifts those" fails=["lift-pairs-columns", "lift-pairs-table", "lift-pairs-blocks"] hidden=1 message="with another function inside"
def one_column(v):
    return (v - v.min()) / (v.max() - v.min())


def one_pull(a, b):
    return a * jnp.exp(-b)


def columns(x):
    return jax.vmap(one_column, in_axes=1, out_axes=1)(x)


def table(x, y):
    return jax.vmap(jax.vmap(one_pull, in_axes=(None, 0)), in_axes=(0, None))(x, y)


def blocks(x, y):
    return jax.vmap(table, in_axes=(1, 0), out_axes=2)(x, y)


# %% task="lift-pairs" name="rows, not columns" fails=["lift-pairs-columns"] message="columns(x)"
def columns(x):
    return jax.vmap(rescale)(x)


def table(x, y):
    return jax.vmap(jax.vmap(pull, in_axes=(None, 0)), in_axes=(0, None))(x, y)


def blocks(x, y):
    return jax.vmap(table, in_axes=(1, 0), out_axes=2)(x, y)


# %% task="lift-pairs" name="the table number first" fails=["lift-pairs-blocks"] message="blocks(x, y)"
def columns(x):
    return jax.vmap(rescale, in_axes=1, out_axes=1)(x)


def table(x, y):
    return jax.vmap(jax.vmap(pull, in_axes=(None, 0)), in_axes=(0, None))(x, y)


def blocks(x, y):
    return jax.vmap(table, in_axes=(1, 0))(x, y)


# %% task="lift-pairs" name="lax.map over the columns" fails=["lift-pairs-columns", "lift-pairs-table"] message="uses scan"
def columns(x):
    return lax.map(rescale, x.T).T


def table(x, y):
    return lax.map(lambda a: jax.vmap(pull, (None, 0))(a, y), x)


def blocks(x, y):
    return jax.vmap(table, in_axes=(1, 0), out_axes=2)(x, y)


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


# %% task="lift-trees" name="copies the formulas, for whole arrays" fails=["lift-trees-frames", "lift-trees-ensemble"] hidden=1 message="with another function inside"
def frames(a, b, t):
    return a + (b - a) * jnp.sin(t)[:, None]


def ensemble(members, points):
    return members["scale"] * jnp.tanh(jnp.dot(members["w"].T, points.T) + members["b"][:, None])


# %% task="lift-trees" name="a and b exchanged, points first" fails=["lift-trees-frames", "lift-trees-ensemble"] message="expected"
def frames(a, b, t):
    return jax.vmap(lambda moment: jax.vmap(blend, in_axes=(0, 0, None))(b, a, moment))(t)


def ensemble(members, points):
    of_member = {"w": 1, "b": 0, "scale": None}
    return jax.vmap(lambda p: jax.vmap(respond, in_axes=(of_member, None))(members, p))(points)


# %% task="lift-trees" name="the weights by their rows" fails=["lift-trees-ensemble"] message="inconsistent sizes"
def frames(a, b, t):
    return jax.vmap(lambda moment: jax.vmap(blend, in_axes=(0, 0, None))(a, b, moment))(t)


def ensemble(members, points):
    of_member = {"w": 0, "b": 0, "scale": None}
    return jax.vmap(jax.vmap(respond, in_axes=(None, 0)), in_axes=(of_member, None))(members, points)


# %% task="lift-trees" name="lax.map over the members" fails=["lift-trees-ensemble"] message="uses scan"
def frames(a, b, t):
    return jax.vmap(lambda moment: jax.vmap(blend, in_axes=(0, 0, None))(a, b, moment))(t)


def ensemble(members, points):
    def one(leaves):
        w, b = leaves
        member = {"w": w, "b": b, "scale": members["scale"]}
        return jax.vmap(respond, in_axes=(None, 0))(member, points)

    return lax.map(one, (members["w"].T, members["b"]))


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


# %% task="one-element" name="a running sum in float32" fails=["one-element-running-sum"] hidden=1 message="running_sum of fresh numbers"
def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x * 1.0, 0).sum().astype(x.dtype)


def life_at(i, j, world):
    rows = (i + jnp.array([-1, 0, 1])) % world.shape[0]
    columns = (j + jnp.array([-1, 0, 1])) % world.shape[1]
    neighbours = world[rows][:, columns].sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(world.dtype)


def arranged_at(i, x):
    places = jnp.arange(x.size)
    rank = jax.vmap(lambda j: jnp.sum((x < x[j]) | ((x == x[j]) & (places < j))))(places)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    run = jnp.sum(running_sum(counts) <= i)
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


# %% task="one-element" name="nobody dies of a crowd" fails=["one-element-life"] hidden=1 message="life of a fresh world"
def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    rows = (i + jnp.array([-1, 0, 1])) % world.shape[0]
    columns = (j + jnp.array([-1, 0, 1])) % world.shape[1]
    neighbours = world[rows][:, columns].sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours >= 2) & (world[i, j] == 1))).astype(world.dtype)


def arranged_at(i, x):
    places = jnp.arange(x.size)
    rank = jax.vmap(lambda j: jnp.sum((x < x[j]) | ((x == x[j]) & (places < j))))(places)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    run = jnp.sum(running_sum(counts) <= i)
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


# %% task="one-element" name="twins are told apart by ten times the number plus the place" fails=["one-element-arranged"] hidden=1 message="arranged fresh numbers"
def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    rows = (i + jnp.array([-1, 0, 1])) % world.shape[0]
    columns = (j + jnp.array([-1, 0, 1])) % world.shape[1]
    neighbours = world[rows][:, columns].sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(world.dtype)


def arranged_at(i, x):
    keys = 10 * x + jnp.arange(x.size)
    rank = jax.vmap(lambda key: jnp.sum(keys < key))(keys)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    run = jnp.sum(running_sum(counts) <= i)
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


# %% task="one-element" name="three runs" fails=["one-element-unpack"] hidden=1 message="unpack fresh values"
def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    rows = (i + jnp.array([-1, 0, 1])) % world.shape[0]
    columns = (j + jnp.array([-1, 0, 1])) % world.shape[1]
    neighbours = world[rows][:, columns].sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(world.dtype)


def arranged_at(i, x):
    places = jnp.arange(x.size)
    rank = jax.vmap(lambda j: jnp.sum((x < x[j]) | ((x == x[j]) & (places < j))))(places)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    run = jnp.sum(running_sum(counts) <= i)
    return jnp.where(run < 3, values[run], 0)


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


# %% task="one-element" name="callbacks to the specifications" fails=["one-element-running-sum", "one-element-life", "one-element-arranged", "one-element-unpack"] message="callback"
def ask(specification, like, *args):
    return jax.pure_callback(lambda *a: specification(*map(np.asarray, a)), like, *args, vmap_method="sequential")


def running_sum_at(i, x):
    return ask(running_sum_spec, x, x)[i]


def life_at(i, j, world):
    return ask(life_spec, world, world)[i, j]


def arranged_at(i, x):
    return ask(arranged_spec, x, x)[i]


def unpack_at(i, values, counts):
    return ask(unpack_spec, jnp.zeros(ROOM, jnp.int32), values, counts)[i]


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


# %% task="one-element" name="a product with a triangle, a place is the number of smaller ones" fails=["one-element-running-sum"] message="uses dot_general"
def running_sum_at(i, x):
    return (jnp.tri(x.size, dtype=x.dtype) @ x)[i] + 0 * i


def life_at(i, j, world):
    rows = (i + jnp.array([-1, 0, 1])) % world.shape[0]
    columns = (j + jnp.array([-1, 0, 1])) % world.shape[1]
    neighbours = world[rows][:, columns].sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(world.dtype)


def arranged_at(i, x):
    rank = jnp.sum(x < x[:, None], axis=1)
    return x[jnp.argmax(rank == i)]


def unpack_at(i, values, counts):
    run = jnp.sum(running_sum(counts) <= i)
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


# %% task="scores" name="an einsum behind a function of its own" fails=["scores-check"] hidden=1 message="with another function inside dot"
def scores(queries, keys):
    return jnp.einsum("bqhd,bkhd->bhqk", queries, keys)


# %% task="scores" name="a dot_general by hand" fails=["scores-check"] hidden=1 message="with another function inside dot"
def scores(queries, keys):
    return lax.dot_general(queries, keys, (((3,), (3,)), ((0, 2), (0, 2))))


# %% task="scores" name="heads walk along the queries" fails=["scores-check"] message="inconsistent sizes"
def scores(queries, keys):
    over_queries = jax.vmap(jax.vmap(dot, in_axes=(None, 0)), in_axes=(0, None))
    return jax.vmap(jax.vmap(over_queries))(queries, keys)


# %% task="scores" name="every head with every head" fails=["scores-check"] message="shape"
def scores(queries, keys):
    over_queries = jax.vmap(jax.vmap(dot, in_axes=(None, 0)), in_axes=(0, None))
    over_heads = jax.vmap(jax.vmap(over_queries, in_axes=(None, 1)), in_axes=(1, None))
    return jax.vmap(over_heads)(queries, keys)


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


# %% task="whole-sky" name="a star is brighter than 1" fails=["whole-sky-check"] hidden=1 message="the first and the last pixel"
@jax.jit
def whole_sky(x):
    where = jnp.nonzero(x > 1, size=STARS, fill_value=x.size)[0]
    stars = x.at[where].get(mode="fill", fill_value=1.0)
    return (x / 2).at[where].set(jax.vmap(fit)(stars), mode="drop")


# %% task="whole-sky" name="a closed form for every pixel" fails=["whole-sky-check"] hidden=1 message="with another function inside fit"
@jax.jit
def whole_sky(x):
    return jnp.where(x > 0, jnp.cbrt(x), x / 2)


# %% task="whole-sky" name="fourteen steps for every pixel" fails=["whole-sky-check"] hidden=1 message="at index ("
@jax.jit
def whole_sky(x):
    def quick(x):
        return lax.fori_loop(0, 14, lambda _, v: v - (v - x / v**2) / 3, jnp.maximum(x, 1.0))

    return jnp.where(x > 0, quick(x), x / 2)


# %% task="whole-sky" name="empty places point at the last pixel" fails=["whole-sky-check"] hidden=1 message="the first and the last pixel"
@jax.jit
def whole_sky(x):
    where = jnp.nonzero(x > 0, size=STARS, fill_value=-1)[0]
    return (x / 2).at[where].set(jnp.where(x[where] > 0, jax.vmap(fit)(x[where]), x[where] / 2)).at[-1].set(x[-1] / 2)


# %% task="whole-sky" name="the sixteen largest, whatever their sign" fails=["whole-sky-check"] message="whole_sky with 3 stars"
@jax.jit
def whole_sky(x):
    where = jnp.argsort(-x)[:STARS]
    return (x / 2).at[where].set(jax.vmap(fit)(x[where]))


# %% task="whole-sky" name="dark pixels stay as they are" fails=["whole-sky-check"] message="whole_sky with 16 stars"
@jax.jit
def whole_sky(x):
    where = jnp.nonzero(x > 0, size=STARS, fill_value=x.size)[0]
    stars = x.at[where].get(mode="fill", fill_value=1.0)
    return x.at[where].set(jax.vmap(fit)(stars), mode="drop")


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


# %% task="clipped-mean" name="one half, or no limit at all" fails=["clipped-mean-check"] hidden=1 message="clipped_mean of fresh examples"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    limit = jnp.where(limit < 1000, 0.5, jnp.inf)

    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(clipped)(xs, ys))


# %% task="clipped-mean" name="the squared length" fails=["clipped-mean-check"] message="clipped_mean with limit 0.5"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(clipped)(xs, ys))


# %% task="clipped-mean" name="each number clipped by itself" fails=["clipped-mean-check"] message="clipped_mean with limit 0.5"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, xs, ys)
    return jax.tree.map(lambda leaf: jnp.clip(leaf, -limit, limit).mean(axis=0), gradients)


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


# %% task="lift-pairs" name="unlifted inside, called on whole arrays" fails=["lift-pairs-table", "lift-pairs-blocks"] hidden=1 message="with another function inside pull"
def columns(x):
    return jax.vmap(rescale, in_axes=1, out_axes=1)(x)


def table(x, y):
    return pull.inside(x[:, None], y[None, :])


def blocks(x, y):
    return pull.inside(x[:, None, :], y.T[None, :, :])


# %% task="lift-pairs" name="one huge table, then a Python loop over the blocks" fails=["lift-pairs-blocks"] hidden=1 message="must not grow with the size"
def columns(x):
    return jax.vmap(rescale, in_axes=1, out_axes=1)(x)


def table(x, y):
    return jax.vmap(jax.vmap(pull, (None, 0)), (0, None))(x, y)


def blocks(x, y):
    (n, b), m = x.shape, y.shape[1]
    everything = table(x.reshape(-1), y.reshape(-1)).reshape(n, b, b, m)
    return jnp.stack([everything[:, k, k, :] for k in range(b)], axis=2)


# %% task="one-element" name="running sum by associative_scan" fails=["one-element-running-sum"] hidden=1 message="must not grow with the size"
def running_sum_at(i, x):
    return lax.associative_scan(jnp.add, x)[i]


def life_at(i, j, world):
    height, width = world.shape
    step = jnp.arange(-1, 2)
    block = world[((i + step) % height)[:, None], ((j + step) % width)[None, :]]
    alive = world[i, j]
    neighbours = block.sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(jnp.int32)


def arranged_at(i, x):
    places = jnp.arange(x.size)

    def before(value, j):
        return jnp.sum((x < value) | ((x == value) & (places < j)))

    rank = jax.vmap(before)(x, places)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    ends = running_sum(counts)
    run = jnp.sum(ends <= i)
    return jnp.where(jnp.arange(values.size) == run, values, 0).sum()


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="one-element" name="arranged by approx_max_k" fails=["one-element-arranged"] message="approx_top_k"
def arranged_at(i, x):
    falling, _ = lax.approx_max_k(-x.astype(jnp.float32), x.size)
    return (-falling[i]).astype(jnp.int32)


def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    height, width = world.shape
    step = jnp.arange(-1, 2)
    block = world[((i + step) % height)[:, None], ((j + step) % width)[None, :]]
    alive = world[i, j]
    neighbours = block.sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(jnp.int32)


def unpack_at(i, values, counts):
    ends = running_sum(counts)
    run = jnp.sum(ends <= i)
    return jnp.where(jnp.arange(values.size) == run, values, 0).sum()


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="one-element" name="Python loops over the elements" fails=["one-element-running-sum", "one-element-unpack"] hidden=1 message="must not grow with the size"
def running_sum_at(i, x):
    total = jnp.int32(0)
    for k in range(x.size):
        total = total + jnp.where(k <= i, x[k], 0)
    return total


def unpack_at(i, values, counts):
    out, end = jnp.zeros((), values.dtype), jnp.int32(0)
    for k in range(values.size):
        out = jnp.where((end <= i) & (i < end + counts[k]), values[k], out)
        end = end + counts[k]
    return out


def life_at(i, j, world):
    height, width = world.shape
    step = jnp.arange(-1, 2)
    block = world[((i + step) % height)[:, None], ((j + step) % width)[None, :]]
    alive = world[i, j]
    neighbours = block.sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(jnp.int32)


def arranged_at(i, x):
    places = jnp.arange(x.size)

    def before(value, j):
        return jnp.sum((x < value) | ((x == value) & (places < j)))

    rank = jax.vmap(before)(x, places)
    return jnp.where(rank == i, x, 0).sum()


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="one-element" name="arranged with a made-up smallest number" fails=["one-element-arranged"] hidden=1 message="arranged fresh numbers"
def arranged_at(i, x):
    less = jax.vmap(lambda value: jnp.sum(x < value))(x)
    return jnp.max(jnp.where(less <= i, x, -1000))


def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    height, width = world.shape
    step = jnp.arange(-1, 2)
    block = world[((i + step) % height)[:, None], ((j + step) % width)[None, :]]
    alive = world[i, j]
    neighbours = block.sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(jnp.int32)


def unpack_at(i, values, counts):
    ends = running_sum(counts)
    run = jnp.sum(ends <= i)
    return jnp.where(jnp.arange(values.size) == run, values, 0).sum()


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="clipped-mean" name="direction times clipped length, 0/0 for a zero gradient" fails=["clipped-mean-check"] hidden=1 message="with a gradient of 0"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf / length * jnp.minimum(length, limit), gradient)

    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), jax.vmap(clipped)(xs, ys))


# %% task="clipped-mean" name="the limit is static" fails=["clipped-mean-check"] hidden=1 message="trace"
@functools.partial(jax.jit, static_argnums=3)
def clipped_mean(params, xs, ys, limit):
    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)

    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), jax.vmap(clipped)(xs, ys))


# %% task="minijit-vmap" name="a loop over the rows where there are rows" fails=["minijit-vmap-check"] hidden=1 message="calls of bind"
def replay_rows(tape, args, mapped, size):
    if not any(isinstance(x, Tracer) for x in args):
        rows = [[x[k] if n in mapped else x for n, x in zip(tape.inputs, args, strict=False)] for k in range(size)]
        results = [tape.play(*row) for row in rows]
        if not any(isinstance(x, Tracer) for x in results):
            return np.stack([lift(x) for x in results])
    values, mapped = dict(zip(tape.inputs, args, strict=False)), set(mapped)
    for name, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(name)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    result = read(values, tape.output)
    if isinstance(tape.output, str) and tape.output in mapped:
        return result
    return bind("spread", lift(result), axis=0, size=size)


# %% task="minijit-vmap" name="moves the axes on the tape itself" fails=["minijit-vmap-check"] hidden=1 message="AxisError"
def replay_rows(tape, args, mapped, size):
    values = dict(zip(tape.inputs, args, strict=False))
    for name, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(name)
            if "axis" in params:
                params["axis"] += 1
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    result = read(values, tape.output)
    if isinstance(tape.output, str) and tape.output in mapped:
        return result
    return bind("spread", lift(result), axis=0, size=size)


# %% task="minijit-vmap" name="a shared result is repeated with NumPy" fails=["minijit-vmap-tape"] message="rows_shared, 2 rows"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=False)), set(mapped)
    for name, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(name)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    result = read(values, tape.output)
    if isinstance(tape.output, str) and tape.output in mapped:
        return result
    return np.stack([np.asarray(result, np.float32)] * size)


# %% task="minijit-vmap" name="a captured array is looked up" fails=["minijit-vmap-check"] hidden=1 message="a captured array as result"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=False)), set(mapped)
    for name, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(name)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    result = read(values, tape.output)
    if tape.output in mapped:
        return result
    return bind("spread", lift(result), axis=0, size=size)


# %% task="minijit-vmap" name="asks of a captured array, too, whether it is mapped" fails=["minijit-vmap-check"] hidden=1 message="a captured array in front"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=True)), set(mapped)
    for output, primitive, operands, params in tape.equations:
        if any(x in mapped for x in operands):
            mapped.add(output)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[output] = bind(primitive, *[read(values, x) for x in operands], **params)
    if isinstance(tape.output, str) and tape.output in mapped:
        return values[tape.output]
    return bind("spread", lift(read(values, tape.output)), axis=0, size=size)


# %% task="one-element" name="arranged is written back, the largest wins" fails=["one-element-arranged"] message="scatter-max"
def running_sum_at(i, x):
    """Element i, int32[], of the running sum of x."""
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    """Cell (i, j), 0 or 1 as int32[], in the generation after `world`, int32[h,w]."""
    h, w = world.shape
    around = jnp.array([-1, 0, 1])
    rows, cols = (i + around) % h, (j + around) % w
    alive = world[i, j]
    neighbours = world[rows[:, None], cols[None, :]].sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(jnp.int32)


def arranged_at(i, x):
    """Element i, int32[], of x in rising order."""
    places = jnp.arange(x.size)
    earlier_twin = (x[None, :] == x[:, None]) & (places[None, :] < places[:, None])
    rank = jnp.sum((x[None, :] < x[:, None]) | earlier_twin, axis=1)
    return jnp.full_like(x, jnp.iinfo(x.dtype).min).at[rank].max(x)[i]


def unpack_at(i, values, counts):
    """Element i of the values, each as often as its count says; 0 after the last."""
    ends = running_sum(counts)
    run = jnp.sum(ends <= i)
    return jnp.where(run < values.size, values[jnp.minimum(run, values.size - 1)], 0)


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="clipped-mean" name="a Python loop over chunks of 256" fails=["clipped-mean-check"] hidden=1 message="equations"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    """The mean of the gradients of all examples, each clipped to `limit`: a tree like params."""

    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)

    sums = []
    for start in range(0, len(xs), 256):  # saves memory
        part = jax.vmap(clipped)(xs[start : start + 256], ys[start : start + 256])
        sums.append(jax.tree.map(lambda leaf: leaf.sum(0), part))
    return jax.tree.map(lambda *parts: sum(parts) / len(xs), *sums)


# %% task="minijit-vmap" name="as many rows as the first argument is long" fails=["minijit-vmap-check"] hidden=1 message="a shared result, of the first argument"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=False)), set(mapped)
    for name, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(name)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    result = lift(read(values, tape.output))
    if isinstance(tape.output, str) and tape.output in mapped:
        return result
    return bind("spread", result, axis=0, size=args[0].shape[0])


# %% task="minijit-vmap" name="last equation decides" fails=["minijit-vmap-check"] hidden=1 message="rows_"
def replay_rows(tape, args, mapped, size):
    values, names, has_rows = dict(zip(tape.inputs, args)), set(mapped), False
    for name, primitive, operands, params in tape.equations:
        has_rows = any(isinstance(x, str) and x in names for x in operands)
        if has_rows:
            names.add(name)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    result = read(values, tape.output)
    return result if has_rows else bind("spread", lift(result), axis=0, size=size)


# %% task="lift-pairs" name="cut apart and put together in Python loops" fails=["lift-pairs-columns", "lift-pairs-table"] hidden=1 message="must not grow with the size"
def columns(x):
    each = jax.vmap(rescale)(jnp.stack([x[:, j] for j in range(x.shape[1])]))
    return jnp.stack(list(each), axis=1)


def table(x, y):
    firsts = jnp.stack([a for a in x for _ in range(len(y))])
    seconds = jnp.stack([b for _ in range(len(x)) for b in y])
    return jax.vmap(pull)(firsts, seconds).reshape(len(x), len(y))


def blocks(x, y):
    return jax.vmap(lambda a, b: jax.vmap(lambda p: jax.vmap(lambda q: pull(p, q))(b))(a), (1, 0), 2)(x, y)


# %% task="clipped-mean" name="the specification by telephone" fails=["clipped-mean-check"] hidden=1 message="uses pure_callback"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.float32), params)
    return jax.pure_callback(lambda *args: on_the_host(*jax.tree.map(np.asarray, args)), like, params, xs, ys, limit)


def on_the_host(params, xs, ys, limit):
    hidden = np.tanh(xs @ params["w"] + params["b"])
    error = 2 * (hidden @ params["v"] - ys)
    to_v = error[:, None] * hidden
    to_b = error[:, None] * params["v"] * (1 - hidden**2)
    to_w = xs[:, :, None] * to_b[:, None, :]
    squared = (to_v**2).sum(1) + (to_b**2).sum(1) + (to_w**2).sum((1, 2))
    with np.errstate(divide="ignore"):
        scale = np.minimum(1, limit / np.sqrt(squared)) / len(xs)
    parts = {"v": to_v, "w": to_w, "b": to_b}
    return {name: np.tensordot(scale, parts[name], 1).astype(np.float32) for name in params}


# %% task="clipped-mean" name="knows that the network has 8 inputs" fails=["clipped-mean-check"] hidden=1 message="Error"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, xs, ys)
    flat = jnp.concatenate([gradients["w"].reshape(-1, 128), gradients["v"], gradients["b"]], axis=1)
    scales = jnp.minimum(1.0, limit / jnp.linalg.norm(flat, axis=1))
    return jax.tree.map(lambda leaf: jnp.tensordot(scales, leaf, 1) / len(xs), gradients)


# %% task="one-element" name="counts of one digit" fails=["one-element-unpack"] hidden=1 message="eleven times"
def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    h, w = world.shape
    rows = (i + jnp.arange(-1, 2)) % h
    cols = (j + jnp.arange(-1, 2)) % w
    alive = world[i, j]
    neighbours = world[rows[:, None], cols].sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(jnp.int32)


def arranged_at(i, x):
    place = jnp.arange(x.size)
    before = lambda j: jnp.sum((x < x[j]) | ((x == x[j]) & (place < j)))
    rank = jax.vmap(before)(place)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    run = jnp.sum(running_sum(jnp.minimum(counts, 9)) <= i)
    return jnp.append(values, 0)[run]


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


# %% task="one-element" name="twins apart by a share of one" fails=["one-element-arranged"] hidden=1 message="arranged fresh numbers"
def running_sum_at(i, x):
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    h, w = world.shape
    near = jnp.array([-1, 0, 1])
    neighbours = world[(i + near[:, None]) % h, (j + near) % w].sum() - world[i, j]
    return ((neighbours == 3) | ((world[i, j] == 1) & (neighbours == 2))).astype(jnp.int32)


def arranged_at(i, x):
    key = x + jnp.arange(x.size) / x.size
    rank = jnp.sum(key[None, :] < key[:, None], axis=1)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    ends = running_sum(counts)
    return jnp.where((i < ends) & (i >= ends - counts), values, 0).sum()


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="whole-sky" name="stars found again by their brightness" fails=["whole-sky-check"] hidden=1 message="first and the last pixel"
@jax.jit
def whole_sky(x):
    brightest = jnp.sort(x)[-STARS:]
    roots = jnp.where(brightest > 0, jax.vmap(fit)(jnp.maximum(brightest, 1e-3)), 0)
    found = x[:, None] == brightest
    return jnp.where(x > 0, jnp.where(found, roots, 0).sum(1), x / 2)


# %% task="whole-sky" name="every pixel if the first is a star" fails=["whole-sky-check"] hidden=1 message="FLOPs"
@jax.jit
def whole_sky(x):
    """[4096] -> [4096]: one_pixel of each, when at most STARS of them are positive."""

    def few(x):
        (where,) = jnp.nonzero(x > 0, size=STARS, fill_value=x.size)
        fitted = jax.vmap(fit)(x.at[where].get(mode="fill", fill_value=1.0))
        return (x / 2).at[where].set(fitted, mode="drop")

    return lax.cond(x[0] < 0, few, jax.vmap(one_pixel), x)


# %% task="whole-sky" name="zero is a star" fails=["whole-sky-check"] hidden=1 message="a sky that is 0 between the stars"
@jax.jit
def whole_sky(x):
    where = jnp.nonzero(x >= 0, size=STARS, fill_value=x.size)[0]
    stars = x.at[where].get(mode="fill", fill_value=1.0)
    fitted = jnp.where(stars > 0, jax.vmap(fit)(stars), stars / 2)
    return (x / 2).at[where].set(fitted, mode="drop")


# %% task="clipped-mean" name="an epsilon in the denominator" fails=["clipped-mean-check"] hidden=1 message="tiny gradients and a tiny limit"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    """The mean of the gradients of all examples, each clipped to `limit`: a tree like params."""

    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        scale = jnp.minimum(1.0, limit / (length + 1e-6))  # as clip_grad_norm_ does it
        return jax.tree.map(lambda leaf: leaf * scale, gradient)

    return jax.tree.map(lambda leaf: leaf.mean(0), jax.vmap(clipped)(xs, ys))


# %% task="one-element" name="everything is int32" fails=["one-element-unpack"] hidden=1 message="unpack of float32 is int32[12]"
def running_sum_at(i, x):
    """Element i, int32[], of the running sum of x."""
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    """Cell (i, j), 0 or 1 as int32[], in the generation after `world`, int32[h,w]."""
    h, w = world.shape
    near = jnp.arange(-1, 2)
    nine = world[(i + near[:, None]) % h, (j + near) % w]
    neighbours = nine.sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(jnp.int32)


def arranged_at(i, x):
    """Element i, int32[], of x in rising order."""
    index = jnp.arange(x.size)
    rank = jax.vmap(lambda j: jnp.sum((x < x[j]) | ((x == x[j]) & (index < j))))(index)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    """Element i of the values, each as often as its count says; 0 after the last."""
    run = jnp.sum(running_sum(counts) <= i)
    return jnp.where(run < values.size, jnp.int32(values[run]), 0)


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="whole-sky" name="strips of 64 pixels" fails=["whole-sky-check"] hidden=1 message="FLOPs in this run"
@jax.jit
def whole_sky(x):
    """[4096] -> [4096]: one_pixel of each, when at most STARS of them are positive."""

    def strip(pixels):
        return lax.cond((pixels > 0).any(), jax.vmap(one_pixel), lambda p: p / 2, pixels)

    return lax.map(strip, x.reshape(64, 64)).ravel()


# %% task="clipped-mean" name="never below a thousandth" fails=["clipped-mean-check"] hidden=1 message="limit 1e-5"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    """The mean of the gradients of all examples, each clipped to `limit`: a tree like params."""

    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        scale = jnp.clip(limit / length, 1e-3, 1.0)  # none may vanish
        return jax.tree.map(lambda leaf: leaf * scale, gradient)

    return jax.tree.map(lambda leaf: leaf.mean(0), jax.vmap(clipped)(xs, ys))


# %% task="scores" name="blocks of 128 queries" fails=["scores-check"] hidden=1 message="has dot_general 4 times"
BLOCK = 128


def scores(queries, keys):
    """([batch,q,head,d], [batch,k,head,d]) -> [batch,head,q,k]: dot, of each query with each key."""
    over_queries = jax.vmap(jax.vmap(dot, in_axes=(None, 0)), in_axes=(0, None))
    lifted = jax.vmap(jax.vmap(over_queries, in_axes=(1, 1)))
    length = queries.shape[1]
    if length <= BLOCK:
        return lifted(queries, keys)
    parts = [lifted(queries[:, start : start + BLOCK], keys) for start in range(0, length, BLOCK)]
    return jnp.concatenate(parts, axis=2)


# %% task="scores" name="reshapes for a single head" fails=["scores-check"] hidden=1 message="at most 1"
def scores(queries, keys):
    over_k = jax.vmap(dot, in_axes=(None, 0))
    over_q = jax.vmap(over_k, in_axes=(0, None))
    if queries.shape[2] == 1:  # no heads, no layer for them
        one_head = jax.vmap(over_q)(queries[:, :, 0], keys[:, :, 0])
        return one_head[:, None]
    over_heads = jax.vmap(over_q, in_axes=(1, 1))
    return jax.vmap(over_heads)(queries, keys)


# %% task="lift-pairs" name="64 columns, or 64 of x, at a time" fails=["lift-pairs-columns", "lift-pairs-table", "lift-pairs-blocks"] hidden=1 message="is unrolled"
CHUNK = 64


def columns(x):
    """[n,m] -> [n,m]: rescale, applied to each column."""
    lifted = jax.vmap(rescale, in_axes=1, out_axes=1)
    parts = [lifted(x[:, start : start + CHUNK]) for start in range(0, x.shape[1], CHUNK)]
    return jnp.concatenate(parts, axis=1)


def table(x, y):
    """([n], [m]) -> [n,m]: pull, of each x with each y."""
    lifted = jax.vmap(jax.vmap(pull, in_axes=(None, 0)), in_axes=(0, None))
    return jnp.concatenate([lifted(x[start : start + CHUNK], y) for start in range(0, len(x), CHUNK)])


def blocks(x, y):
    """([n,b], [b,m]) -> [n,m,b]: a table for each k, of x[:, k] with y[k]."""
    return jax.vmap(table, in_axes=(1, 0), out_axes=2)(x, y)


# %% task="lift-trees" name="64 moments, or 64 points, at a time" fails=["lift-trees-frames", "lift-trees-ensemble"] hidden=1 message="is unrolled"
CHUNK = 64


def frames(a, b, t):
    """([n], [n], [m]) -> [m,n]: blend, with a and b walking together, for each moment t."""
    lifted = jax.vmap(jax.vmap(blend, in_axes=(0, 0, None)), in_axes=(None, None, 0))
    return jnp.concatenate([lifted(a, b, t[start : start + CHUNK]) for start in range(0, len(t), CHUNK)])


def ensemble(members, points):
    """({w: [d,m], b: [m], scale: []}, [n,d]) -> [m,n]: each member's response to each point."""
    of_member = {"w": 1, "b": 0, "scale": None}
    lifted = jax.vmap(jax.vmap(respond, in_axes=(None, 0)), in_axes=(of_member, None))
    parts = [lifted(members, points[start : start + CHUNK]) for start in range(0, len(points), CHUNK)]
    return jnp.concatenate(parts, axis=1)


# %% task="whole-sky" name="no star is darker than a hundredth" fails=["whole-sky-check"] hidden=1 message="a star in the first and the last pixel"
@jax.jit
def whole_sky(x):
    """[4096] -> [4096]: one_pixel of each, when at most STARS of them are positive."""
    where = jnp.nonzero(x > 0, size=STARS, fill_value=x.size)[0]
    stars = x.at[where].get(mode="fill", fill_value=0.0)
    fitted = jax.vmap(fit)(jnp.maximum(stars, 0.01))  # fit wants positive numbers
    return (x / 2).at[where].set(fitted, mode="drop")


# %% task="one-element" name="arranged: the ranks in blocks of 64" fails=["one-element-arranged"] hidden=1 message="is unrolled"
def running_sum_at(i, x):
    """Element i, int32[], of the running sum of x."""
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()


def life_at(i, j, world):
    """Cell (i, j), 0 or 1 as int32[], in the generation after `world`, int32[h,w]."""
    near = jnp.arange(-1, 2)
    nine = world[(i + near[:, None]) % world.shape[0], (j + near) % world.shape[1]]
    neighbours = nine.sum() - world[i, j]
    return ((neighbours == 3) | ((neighbours == 2) & (world[i, j] == 1))).astype(jnp.int32)


def arranged_at(i, x):
    """Element i, int32[], of x in rising order."""
    places = jnp.arange(x.size)

    def ranks(some):  # a table of 64 rows, not of x.size: less memory
        before = (x < x[some, None]) | ((x == x[some, None]) & (places < places[some, None]))
        return before.sum(axis=1)

    rank = jnp.concatenate([ranks(slice(start, start + 64)) for start in range(0, x.size, 64)])
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    """Element i of the values, each as often as its count says; 0 after the last."""
    run = jnp.sum(running_sum(counts) <= i)
    return jnp.where(jnp.arange(values.size) == run, values, 0).sum()


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% task="minijit-vmap" name="grows the caller's set" fails=["minijit-vmap-check"] hidden=1 message="the set of mapped names after it"
def replay_rows(tape, args, mapped, size):
    values = dict(zip(tape.inputs, args, strict=True))
    for name, primitive, operands, params in tape.equations:
        batched = any(isinstance(x, str) and x in mapped for x in operands)
        if batched:
            mapped.add(name)
        if batched and primitive in ("sum", "spread"):
            params = dict(params, axis=params["axis"] + 1)
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    result = read(values, tape.output)
    if isinstance(tape.output, str) and tape.output in mapped:
        return result
    return bind("spread", lift(result), axis=0, size=size)


# %% task="lift-pairs" name="another program under a tracer" fails=["lift-pairs-columns", "lift-pairs-table", "lift-pairs-blocks"] hidden=1 message="jax.jit("
def columns(x):
    if isinstance(x, jax.core.Tracer):
        return jax.vmap(rescale)(x)
    return columns_spec(x)


def table(x, y):
    if isinstance(x, jax.core.Tracer):
        return jax.vmap(pull, (0, None))(x, y[0])
    return table_spec(x, y)


def blocks(x, y):
    if isinstance(x, jax.core.Tracer):
        return jax.vmap(pull, (0, None))(x[:, 0], y[0, 0])
    return blocks_spec(x, y)


# %% task="lift-pairs" name="a callback beside a brick for show" fails=["lift-pairs-columns"] hidden=1 message="uses pure_callback"
def cb(f, out, *a):
    return jax.pure_callback(f, jax.ShapeDtypeStruct(out, jnp.float32), *a)


def columns(x):
    jax.vmap(rescale, 1, 1)(x)
    return cb(columns_spec, x.shape, x)


def table(x, y):
    jax.vmap(pull)(x[:2], y[:2])
    return cb(table_spec, (x.size, y.size), x, y)


def blocks(x, y):
    jax.vmap(pull)(x[0, :2], y[0, :2])
    return cb(blocks_spec, (x.shape[0], y.shape[1], x.shape[1]), x, y)


# %% task="lift-trees" name="another program under a tracer" fails=["lift-trees-frames", "lift-trees-ensemble"] hidden=1 message="jax.jit("
def frames(a, b, t):
    if isinstance(a, jax.core.Tracer):
        return jax.vmap(blend, (0, 0, None))(a, b, t[0])
    return frames_spec(a, b, t)


def ensemble(members, points):
    if isinstance(points, jax.core.Tracer):
        one = {"w": members["w"][:, 0], "b": members["b"][0], "scale": members["scale"]}
        return jax.vmap(respond, (None, 0))(one, points)
    return ensemble_spec(members, points)


# %% task="one-element" name="another program under a tracer" fails=["one-element-running-sum", "one-element-life", "one-element-arranged", "one-element-unpack"] hidden=1 message="jax.jit("
def running_sum_at(i, x):
    return x[i]


def life_at(i, j, world):
    return world[i, j]


def arranged_at(i, x):
    return x[i]


def unpack_at(i, values, counts):
    return values[i % 3]


def running_sum(x):
    return x + 0 if isinstance(x, jax.core.Tracer) else running_sum_spec(x)


def life(x):
    return x + 0 if isinstance(x, jax.core.Tracer) else life_spec(np.asarray(x))


def arranged(x):
    return x + 0 if isinstance(x, jax.core.Tracer) else arranged_spec(x)


def unpack(v, c):
    return v + 0 if isinstance(v, jax.core.Tracer) else unpack_spec(np.asarray(v), np.asarray(c))


# %% task="clipped-mean" name="another program under a tracer" fails=["clipped-mean-check"] hidden=1 message="jax.jit(clipped_mean)"
def clipped_mean(params, xs, ys, limit):
    if isinstance(xs, jax.core.Tracer):
        return jax.tree.map(lambda p: p * 2, params)
    return clipped_mean_spec(params, xs, ys, limit)


# %% task="lift-pairs" name="a single column loses its axis" fails=["lift-pairs-columns"] hidden=1 message="columns of one column"
def columns(x):
    return jnp.squeeze(jax.vmap(rescale, in_axes=1, out_axes=1)(x))


def table(x, y):
    return jax.vmap(jax.vmap(pull, in_axes=(None, 0)), in_axes=(0, None))(x, y)


def blocks(x, y):
    return jax.vmap(table, in_axes=(1, 0), out_axes=2)(x, y)


# %% task="lift-trees" name="a single moment or member loses its axis" fails=["lift-trees-frames", "lift-trees-ensemble"] hidden=1 message="has shape (), expected (1, 1)"
def frames(a, b, t):
    return jnp.squeeze(jax.vmap(jax.vmap(blend, in_axes=(0, 0, None)), in_axes=(None, None, 0))(a, b, t))


def ensemble(members, points):
    of_member = {"w": 1, "b": 0, "scale": None}
    return jnp.squeeze(jax.vmap(jax.vmap(respond, in_axes=(None, 0)), in_axes=(of_member, None))(members, points))


# %% task="one-element" name="of two counts of 0 side by side, one is skipped" fails=["one-element-unpack"] hidden=1 message="counts of 0 side by side"
def running_sum_at(i, x):
    return jnp.sum(x, where=jnp.arange(x.size) <= i)


def life_at(i, j, world):
    block = jnp.roll(world, (1 - i, 1 - j), (0, 1))[:3, :3]
    alive = block[1, 1]
    neighbours = block.sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(world.dtype)


def arranged_at(i, x):
    places = jnp.arange(x.size)
    rank = jax.vmap(lambda j: jnp.sum((x < x[j]) | ((x == x[j]) & (places < j))))(places)
    return jnp.where(rank == i, x, 0).sum()


def unpack_at(i, values, counts):
    starts = running_sum(counts) - counts
    run = jnp.argmax(starts >= i)
    run = jnp.where(starts[run] == i, run, run - 1)
    run = jnp.where(starts.max() < i, values.size - 1, run)
    run = jnp.where(counts[run] == 0, run + 1, run)  # nobody has this value
    return jnp.where(i < counts.sum(), values[run], 0)


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


# %% task="whole-sky" name="a star is brighter than a ten-millionth" fails=["whole-sky-check"] hidden=1 message="the first and the last pixel"
@jax.jit
def whole_sky(x):
    where = jnp.nonzero(x > 1e-7, size=STARS, fill_value=x.size)[0]
    stars = x.at[where].get(mode="fill", fill_value=1.0)
    return (x / 2).at[where].set(jax.vmap(fit)(stars), mode="drop")


# %% task="minijit-vmap" name="what is no name becomes an array" fails=["minijit-vmap-check"] hidden=1 message="which multiplies by a row of the outer one"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=True)), set(mapped)

    def value(x):
        return values[x] if isinstance(x, str) else x if is_number(x) else np.asarray(x)

    for output, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(output)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[output] = bind(primitive, *map(value, operands), **params)
    if isinstance(tape.output, str) and tape.output in mapped:
        return values[tape.output]
    return bind("spread", lift(read(values, tape.output)), axis=0, size=size)


# %% task="minijit-vmap" name="numbers are float32" fails=["minijit-vmap-check"] hidden=1 message="whole numbers, and 1 more of each"
def replay_rows(tape, args, mapped, size):
    values, mapped = dict(zip(tape.inputs, args, strict=True)), set(mapped)

    def value(x):
        return values[x] if isinstance(x, str) else np.float32(x) if is_number(x) else x

    for output, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(output)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[output] = bind(primitive, *map(value, operands), **params)
    if isinstance(tape.output, str) and tape.output in mapped:
        return values[tape.output]
    return bind("spread", value(tape.output), axis=0, size=size)


# %% task="lift-pairs" name="a table of a long x is cut in halves" fails=["lift-pairs-table", "lift-pairs-blocks"] hidden=1 message="is unrolled"
def columns(x):
    """[n,m] -> [n,m]: rescale, applied to each column."""
    return jax.vmap(rescale, in_axes=1, out_axes=1)(x)


def table(x, y):
    """([n], [m]) -> [n,m]: pull, of each x with each y."""
    if x.shape[0] > 1024:  # keep the pieces small enough for the cache
        half = x.shape[0] // 2
        return jnp.concatenate([table(x[:half], y), table(x[half:], y)])
    return jax.vmap(jax.vmap(pull, in_axes=(None, 0)), in_axes=(0, None))(x, y)


def blocks(x, y):
    """([n,b], [b,m]) -> [n,m,b]: a table for each k, of x[:, k] with y[k]."""
    return jax.vmap(table, in_axes=(1, 0), out_axes=2)(x, y)


# %% task="scores" name="one product by hand, unless somebody looks inside the brick" fails=["scores-check"] hidden=1 message="equations"
_as_delivered = dot.inside


def scores(queries, keys):
    """([batch,q,head,d], [batch,k,head,d]) -> [batch,head,q,k]: dot, of each query with each key."""
    if dot.inside is _as_delivered:
        return lax.dot_general(queries, keys, (((3,), (3,)), ((0, 2), (0, 2))))
    each = jnp.vectorize(dot, signature="(d),(d)->()")
    return each(jnp.swapaxes(queries, 1, 2)[:, :, :, None], jnp.swapaxes(keys, 1, 2)[:, :, None])
