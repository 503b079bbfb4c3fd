# %% [markdown]
# Right answers to unit 07 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="lift-pairs" name="no def: functions made of functions"
columns = jax.vmap(rescale, in_axes=1, out_axes=1)
table = jax.vmap(jax.vmap(pull, (None, 0)), (0, None))
blocks = jax.vmap(table, in_axes=(1, 0), out_axes=2)


# %% task="lift-pairs" name="transposed axes, the outer vmap walks along y"
def columns(x):
    return jax.vmap(rescale)(x.T).T


def table(x, y):
    return jax.vmap(lambda b: jax.vmap(lambda a: pull(a, b))(x), out_axes=1)(y)


def blocks(x, y):
    tables = jax.vmap(table)(jnp.transpose(x), y)
    return jnp.moveaxis(tables, 0, -1)


# %% task="lift-pairs" name="jitted, with decorators and partial"
@functools.partial(jax.vmap, in_axes=-1, out_axes=-1)
def columns(column):
    return rescale(column)


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, None))
@functools.partial(jax.vmap, in_axes=(None, 0))
def table(a, b):
    return pull(a, b)


@jax.jit
def blocks(x, y):
    inner = jax.vmap(pull, in_axes=(0, 0))
    return jax.vmap(jax.vmap(inner, in_axes=(None, 1)), in_axes=(0, None))(x, y)


# %% task="lift-pairs" name="all pairs laid out in one long row, jnp.vectorize"
def columns(x):
    lifted = jnp.vectorize(rescale, signature="(n)->(n)")
    return lifted(x.T).T


def table(x, y):
    pairs = jax.vmap(pull)(jnp.repeat(x, y.size), jnp.tile(y, x.size))
    return pairs.reshape(x.size, y.size)


def blocks(x, y):
    return jax.vmap(lambda xs, ys: table(xs, ys), in_axes=(1, 0), out_axes=-1)(x, y)


# %% task="lift-trees" name="no def: functions made of functions"
frames = jax.vmap(jax.vmap(blend, (0, 0, None)), (None, None, 0))
ensemble = jax.vmap(jax.vmap(respond, (None, 0)), ({"w": 1, "b": 0, "scale": None}, None))


# %% task="lift-trees" name="the outer vmap makes the last axis, closures"
def frames(a, b, t):
    return jax.vmap(lambda one_a, one_b: jax.vmap(lambda moment: blend(one_a, one_b, moment))(t), out_axes=1)(a, b)


def ensemble(members, points):
    def answer(w, b):
        member = dict(w=w, b=b, scale=members["scale"])
        return jax.vmap(functools.partial(respond, member))(points)

    return jax.vmap(answer)(members["w"].T, members["b"])


# %% task="lift-trees" name="every leaf gets a member axis in front"
def frames(a, b, t):
    curve = jax.vmap(blend, in_axes=(0, 0, None))
    return jax.vmap(functools.partial(curve, a, b))(t)


def ensemble(members, points):
    number = members["b"].shape[0]
    whole = {"w": members["w"].T, "b": members["b"], "scale": jnp.broadcast_to(members["scale"], (number,))}
    return jax.vmap(lambda member: jax.vmap(lambda point: respond(member, point))(points))(whole)


# %% task="lift-trees" name="jitted, the points outside and out_axes=1"
@jax.jit
def frames(a, b, t):
    return jax.vmap(jax.vmap(blend, in_axes=(None, None, 0)), in_axes=(0, 0, None), out_axes=1)(a, b, t)


@jax.jit
def ensemble(members, points):
    axes = jax.tree.map(lambda leaf: leaf.ndim - 1 if leaf.ndim else None, members)
    of_all = jax.vmap(respond, in_axes=(axes, None))
    return jax.vmap(of_all, in_axes=(None, 0), out_axes=1)(members, points)


# %% task="one-element" name="sums with where=, rolls, argmax, comparisons with what is before"
def running_sum_at(i, x):
    return jnp.sum(x, where=jnp.arange(len(x)) <= i)


def life_at(i, j, world):
    around = jnp.roll(world, (1 - i, 1 - j), axis=(0, 1))[:3, :3]
    total = around.sum()
    return jnp.where((total == 3) | ((total == 4) & (world[i, j] == 1)), 1, 0)


def arranged_at(i, x):
    j = jnp.arange(len(x))
    before = (x[None, :] < x[:, None]) | ((x[None, :] == x[:, None]) & (j[None, :] < j[:, None]))
    return x[jnp.argmax(before.sum(axis=1) == i)]


def unpack_at(i, values, counts):
    ends = running_sum(counts)
    found = ends > i
    return jnp.where(jnp.any(found), values[jnp.argmax(found)], 0)


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


# %% task="one-element" name="masks that multiply, neighbours one by one, a number between others"
def running_sum_at(i, x):
    mask = (jnp.arange(x.shape[0]) < i + 1).astype(x.dtype)
    return (mask * x).sum()


def life_at(i, j, world):
    h, w = world.shape
    neighbours = 0
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            if (di, dj) != (0, 0):
                neighbours += world[(i + di) % h, (j + dj) % w]
    return jnp.int32((neighbours == 3) | (neighbours == 2) & (world[i, j] > 0))


def arranged_at(i, x):
    smaller = jax.vmap(lambda v: jnp.sum(x < v))(x)
    no_larger = jax.vmap(lambda v: jnp.sum(x <= v))(x)
    return jnp.max(jnp.where((smaller <= i) & (i < no_larger), x, jnp.iinfo(x.dtype).min))


def unpack_at(i, values, counts):
    ends = running_sum(counts)
    inside = (ends - counts <= i) & (i < ends)
    return jnp.sum(values * inside)


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


# %% task="one-element" name="indices beyond the end, a distance on the torus, tables of rules"
RULES = jnp.array([[0, 0, 0, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0, 0, 0, 0]], jnp.int32)


def running_sum_at(i, x):
    backwards = i - jnp.arange(x.size)
    return jnp.where(backwards >= 0, jnp.take(x, jnp.maximum(backwards, 0)), 0).sum()


def life_at(i, j, world):
    h, w = world.shape
    up = jnp.abs(jnp.arange(h) - i)
    side = jnp.abs(jnp.arange(w) - j)
    near = (jnp.minimum(up, h - up) <= 1)[:, None] & (jnp.minimum(side, w - side) <= 1)
    alive = world[i, j]
    return RULES[alive, jnp.where(near, world, 0).sum() - alive]


def arranged_at(i, x):
    def rank(j):
        before = jnp.arange(x.size) < j
        return jnp.where(before, x <= x[j], x < x[j]).sum()

    ranks = jax.vmap(rank)(jnp.arange(x.size))
    return (x * (ranks == i)).sum()


def unpack_at(i, values, counts):
    starts = jax.vmap(lambda k: jnp.where(jnp.arange(counts.size) < k, counts, 0).sum())(jnp.arange(counts.size))
    return jnp.where((i >= starts) & (i < starts + counts), values, 0).sum()


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


# %% task="scores" name="no def: four vmaps in one line"
scores = jax.vmap(jax.vmap(jax.vmap(jax.vmap(dot, (None, 0)), (0, None)), (1, 1)))


# %% task="scores" name="decorators from the inside out"
@jax.vmap
@functools.partial(jax.vmap, in_axes=(1, 1))
@functools.partial(jax.vmap, in_axes=(0, None))
@functools.partial(jax.vmap, in_axes=(None, 0))
def scores(query, key):
    return dot(query, key)


# %% task="scores" name="closures, one for each axis"
def scores(queries, keys):
    def one_example(queries, keys):
        def one_head(queries, keys):
            return jax.vmap(lambda query: jax.vmap(lambda key: dot(query, key))(keys))(queries)

        return jax.vmap(one_head, in_axes=1)(queries, keys)

    return jax.vmap(one_example)(queries, keys)


# %% task="scores" name="a loop that stacks vmaps, jitted"
@jax.jit
def scores(queries, keys):
    lifted = dot
    for axes in ((None, 0), (0, None), (1, 1), (0, 0)):
        lifted = jax.vmap(lifted, in_axes=axes)
    return lifted(queries, keys)


# %% task="whole-sky" name="lax.map, one pixel after the other"
@jax.jit
def whole_sky(x):
    return jax.lax.map(one_pixel, x)


# %% task="whole-sky" name="argsort brings the stars to the front"
@jax.jit
def whole_sky(x):
    order = jnp.argsort(x, descending=True)
    first = x[order[:STARS]]
    fitted = jnp.where(first > 0, jax.vmap(fit)(jnp.where(first > 0, first, 1.0)), first / 2)
    return (x / 2).at[order[:STARS]].set(fitted)


# %% task="whole-sky" name="a scan over sixteen places, a cond in each"
@jax.jit
def whole_sky(x):
    (places,) = jnp.where(x > 0, size=STARS, fill_value=-1)

    def one(sky, place):
        return jax.lax.cond(place >= 0, lambda: sky.at[place].set(fit(x[place])), lambda: sky), None

    return jax.lax.scan(one, x * 0.5, places)[0]


# %% task="whole-sky" name="a while loop as long as there are stars"
@jax.jit
def whole_sky(x):
    def star_left(state):
        return jnp.any(state[1] > 0)

    def fit_the_brightest(state):
        result, left = state
        place = jnp.argmax(left)
        return result.at[place].set(fit(left[place])), left.at[place].set(-1.0)

    return jax.lax.while_loop(star_left, fit_the_brightest, (x / 2, x))[0]


# %% task="whole-sky" name="numbered by a running sum, a table of sixteen and its way back"
@jax.jit
def whole_sky(x):
    bright = x > 0
    number = jnp.cumsum(bright) - 1
    stars = jnp.ones(STARS).at[jnp.where(bright, number, STARS)].set(x, mode="drop")
    return jnp.where(bright, fit(stars)[jnp.clip(number, 0, STARS - 1)], x / 2)


# %% task="clipped-mean" name="all gradients first, then lengths, then one product for each leaf"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, xs, ys)
    squares = [jnp.sum(leaf.reshape(len(xs), -1) ** 2, axis=1) for leaf in jax.tree.leaves(gradients)]
    scales = jnp.minimum(1.0, limit / jnp.sqrt(sum(squares)))
    return {name: jnp.einsum("n,n...->...", scales, leaf) / len(xs) for name, leaf in gradients.items()}


# %% task="clipped-mean" name="one long vector by ravel_pytree"
from jax.flatten_util import ravel_pytree


@jax.jit
def clipped_mean(params, xs, ys, limit):
    flat, unravel = ravel_pytree(params)

    def one(x, y):
        gradient = jax.grad(lambda flat: loss(unravel(flat), x, y))(flat)
        return gradient / jnp.maximum(1.0, jnp.linalg.norm(gradient) / limit)

    return unravel(jnp.mean(jax.vmap(one)(xs, ys), axis=0))


# %% task="clipped-mean" name="weights for the examples, one gradient of a weighted loss"
@jax.jit
def clipped_mean(params, xs, ys, limit):
    def length(x, y):
        gradient = jax.grad(loss)(params, x, y)
        return jnp.sqrt(jax.tree.reduce(lambda total, leaf: total + jnp.vdot(leaf, leaf), gradient, 0.0))

    weights = jnp.clip(limit / jax.vmap(length)(xs, ys), max=1.0)

    def weighted(params):
        return jnp.mean(weights * jax.vmap(loss, (None, 0, 0))(params, xs, ys))

    return jax.grad(weighted)(params)


# %% task="clipped-mean" name="a where for the long ones, jax.tree.map for the mean"
def shorten(gradient, limit):
    squared = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradient))
    factor = jnp.where(squared > limit**2, limit / jnp.sqrt(squared), 1.0)
    return jax.tree.map(lambda leaf: factor * leaf, gradient)


@jax.jit
def clipped_mean(params, xs, ys, limit):
    per_example = jax.vmap(lambda x, y: shorten(jax.grad(loss)(params, x, y), limit))
    return jax.tree.map(functools.partial(jnp.mean, axis=0), per_example(xs, ys))


# %% task="minijit-vmap" name="a pair of value and flag for each name"
def replay_rows(tape, args, mapped, size):
    known = {name: (value, name in mapped) for name, value in zip(tape.inputs, args)}

    def look_up(x):
        return known[x] if isinstance(x, str) else (x, False)

    for name, primitive, operands, params in tape.equations:
        values, flags = zip(*map(look_up, operands))
        batched = any(flags)
        shift = {"axis": params["axis"] + 1} if batched and "axis" in params else {}
        known[name] = bind(primitive, *values, **(params | shift)), batched
    value, batched = look_up(tape.output)
    return value if batched else bind("spread", lift(value), axis=0, size=size)


# %% task="minijit-vmap" name="first the names that are mapped, then the values"
def replay_rows(tape, args, mapped, size):
    mapped = set(mapped)
    for name, _, operands, _ in tape.equations:
        if mapped.intersection(x for x in operands if isinstance(x, str)):
            mapped.add(name)
    values = {}
    values.update(zip(tape.inputs, args))
    for name, primitive, operands, params in tape.equations:
        params = dict(params)
        if name in mapped and "axis" in params:
            params["axis"] += 1
        values[name] = bind(primitive, *(read(values, x) for x in operands), **params)
    result = read(values, tape.output)
    if not (isinstance(tape.output, str) and tape.output in mapped):
        result = bind("spread", lift(result), axis=0, size=size)
    return result


# %% task="minijit-vmap" name="a class that walks along the tape"
class Rows:
    def __init__(self, tape, args, mapped):
        self.values = dict(zip(tape.inputs, args))
        self.mapped = {name: name in mapped for name in tape.inputs}

    def has_batch(self, x):
        return isinstance(x, str) and self.mapped[x]

    def run(self, name, primitive, operands, params):
        self.mapped[name] = any(self.has_batch(x) for x in operands)
        if self.mapped[name] and primitive in ("sum", "spread"):
            params = dict(params, axis=1 + params["axis"])
        self.values[name] = bind(primitive, *[read(self.values, x) for x in operands], **params)


def replay_rows(tape, args, mapped, size):
    rows = Rows(tape, args, mapped)
    for equation in tape.equations:
        rows.run(*equation)
    value = read(rows.values, tape.output)
    if rows.has_batch(tape.output):
        return value
    return bind("spread", lift(value), axis=0, size=size)


# %% task="whole-sky" name="helpers that are called stars, dark and one"
def stars(x):
    return jnp.nonzero(x > 0, size=STARS, fill_value=x.size)[0]


def dark(x):
    return 0.5 * x


@jax.jit
def whole_sky(x):
    def one(sky, place):
        fitted = fit(x.at[place].get(mode="fill", fill_value=1.0))
        return sky.at[place].set(fitted, mode="drop"), None

    return lax.scan(one, dark(x), stars(x))[0]


# %% task="scores" name="a helper that is called one"
def one(query, keys):
    return jax.vmap(lambda key: dot(query, key))(keys)


def scores(queries, keys):
    many = jax.vmap(one, in_axes=(0, None))
    return jax.vmap(jax.vmap(many, in_axes=(1, 1)), in_axes=(0, 0))(queries, keys)
