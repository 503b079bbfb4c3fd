# %% [markdown]
# Right answers to unit 16 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.


# %% task="dish" name="one stack of both substances, and scans"
SPREADING = np.array([DU, DV], np.float32)[:, None, None]


def around(z):
    return sum(jnp.roll(z, shift, axis) for shift in (1, -1) for axis in (-1, -2)) - 4 * z


def step(u, v, feed, kill):
    both = jnp.stack([u, v])
    eaten = u * v**2
    changes = jnp.stack([feed * (1 - u) - eaten, eaten - (feed + kill) * v])
    u, v = both + SPREADING * around(both) + changes
    return u, v


def simulate(u, v, feed, kill, steps):
    def tick(dish, _):
        return step(*dish, feed, kill), None

    (u, v), _ = lax.scan(tick, (jnp.asarray(u), jnp.asarray(v)), None, length=steps)
    return u, v


def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, jnp.mean(dish[1])

    return lax.scan(tick, (jnp.asarray(u), jnp.asarray(v)), None, length=steps)[1]


# %% task="dish" name="jitted step, a while loop, and a curve that is filled"
@jax.jit
def step(u, v, feed, kill):
    eaten = u * v * v
    growth = feed * (1.0 - u)
    return u + DU * lab_laplacian(u) + growth - eaten, v * (1 - feed - kill) + DV * lab_laplacian(v) + eaten


@jax.jit
def simulate(u, v, feed, kill, steps):
    def goes_on(state):
        return state[0] < steps

    def tick(state):
        k, u, v = state
        return k + 1, *step(u, v, feed, kill)

    return lax.while_loop(goes_on, tick, (0, u, v))[1:]


@functools.partial(jax.jit, static_argnums=4)
def watch(u, v, feed, kill, steps):
    def tick(k, state):
        u, v, curve = state
        u, v = step(u, v, feed, kill)
        return u, v, curve.at[k].set(v.mean())

    return lax.fori_loop(0, steps, tick, (u, v, jnp.zeros(steps)))[-1]


# %% task="dish" name="a class, whose ticks are partial functions"
class Climate:
    def __init__(self, feed, kill):
        self.feed, self.kill = feed, kill

    def tick(self, dish, _=None):
        u, v = dish
        meal = u * v * v
        flow_u, flow_v = DU * lab_laplacian(u), DV * lab_laplacian(v)
        new = u + flow_u - meal + self.feed * (1 - u), v + flow_v + meal - (self.feed + self.kill) * v
        return new, new[1].mean()


def step(u, v, feed, kill):
    return Climate(feed, kill).tick((u, v))[0]


@functools.partial(jax.jit, static_argnames=["steps"])
def simulate(u, v, feed, kill, steps):
    dish, _ = lax.scan(Climate(feed, kill).tick, (u, v), length=steps)
    return dish


@functools.partial(jax.jit, static_argnames=["steps"])
def watch(u, v, feed, kill, steps):
    _, means = lax.scan(Climate(feed, kill).tick, (u, v), length=steps)
    return means


# %% task="microscope" name="einsum, jnp.std, and a logarithm of 1"
def low_pass(z, waves):
    few = jnp.einsum("ia,ij,jb->ab", waves, z, waves, optimize="optimal")
    return jnp.linalg.multi_dot([waves, few, waves.T])


def contrast(v):
    return jnp.std(v)


def disorder(v):
    bare = v <= 0
    logs = jnp.log(jnp.where(bare, 1, v))
    return -jnp.sum(jnp.where(bare, 0.0, v) * logs)


# %% task="microscope" name="column by column, the norm of the deviations, a custom derivative"
def low_pass(z, waves):
    left = lambda table: waves @ (waves.T @ table)
    return left(left(z).T).T


def contrast(v):
    deviations = jnp.ravel(v) - jnp.mean(v)
    return jnp.linalg.norm(deviations) / np.sqrt(v.size)


@jax.custom_jvp
def entropy(v):
    return jnp.where(v > 0, -v * jnp.log(v), 0.0)


@entropy.defjvp
def entropy_jvp(primals, tangents):
    (v,), (t,) = primals, tangents
    slope = jnp.where(v > 0, -jnp.log(jnp.where(v > 0, v, 1.0)) - 1, 0.0)
    return entropy(v), slope * t


def disorder(v):
    return entropy(v).sum()


# %% task="microscope" name="jitted, two passes, jax.scipy.special.entr on what is not bare"
@jax.jit
def low_pass(z, waves):
    return (waves @ ((waves.T @ z) @ waves)) @ waves.T


@jax.jit
def contrast(v):
    shifted = v - v[-1, -1]
    mean = shifted.mean()
    return jnp.sqrt(jnp.mean(jnp.square(shifted - mean)))


@jax.jit
def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return jax.scipy.special.entr(safe).sum()


# %% task="pictures" name="fold_in, a loop over three squares, a helper for the picture"
@functools.partial(jax.jit, static_argnums=1)
def sow(key, size):
    width, v = size // 8, jnp.zeros((size, size))
    place = jnp.arange(size)
    for k in range(3):
        i, j = jax.random.randint(jax.random.fold_in(key, k), (2,), 0, size)
        inside = ((place - i) % size < width)[:, None] & ((place - j) % size < width)[None]
        v = jnp.where(inside, 0.25, v)
    grain = jax.random.uniform(jax.random.fold_in(key, 99), (size, size), maxval=GRAIN)
    return jnp.where(v > 0, 0.5, 1.0) - grain, v + grain


def colours(glow):
    yield glow**3
    yield glow**1.5
    yield glow * (2 - glow)


@jax.jit
def render(v, gain):
    return jnp.stack(list(colours(jnp.minimum(jnp.maximum(gain * v, 0), 1))), axis=-1)


# %% task="pictures" name="squares are rolled into place; keys by number"
@(
    jax.jit(static_argnames="size")
    if jax.__version_info__ >= (0, 11)
    else functools.partial(jax.jit, static_argnames="size")
)
def sow(key, size):
    keys = jax.random.split(key, 4)
    corner = jnp.zeros((size, size), bool).at[: size // 8, : size // 8].set(True)

    def square(key):
        return jnp.roll(corner, jax.random.randint(key, (2,), 0, size), (0, 1))

    seeds = jax.vmap(square)(keys[:3]).any(0)
    grain = GRAIN * jax.random.uniform(keys[3], (size, size))
    u = jnp.ones((size, size)) - 0.5 * seeds - grain
    v = 0.25 * seeds + grain
    return u, v


def picture(v, gain):
    glow = jax.lax.clamp(0.0, gain * v, 1.0)
    return jnp.moveaxis(jnp.array([glow * glow * glow, glow * jnp.sqrt(glow), 2 * glow - glow**2]), 0, -1)


render = jax.jit(picture)


# %% task="pictures" name="jitted once for each size, in a cached factory"
@functools.cache
def sower(size):
    @jax.jit
    def sow_one(key):
        key, sub = jax.random.split(key)
        i = jax.random.randint(sub, (3,), 0, size)
        key, sub = jax.random.split(key)
        j = jax.random.randint(sub, (3,), 0, size)
        index = jnp.arange(size // 8)
        seeds = jnp.zeros((size, size), bool)
        for a, b in zip(i, j, strict=True):
            seeds = seeds.at[jnp.ix_((a + index) % size, (b + index) % size)].set(True)
        grain = GRAIN * jax.random.uniform(key, (size, size))
        u, v = jnp.where(seeds, 0.5, 1.0), jnp.where(seeds, 0.25, 0.0)
        return u - grain, v + grain

    return sow_one


def sow(key, size):
    return sower(size)(key)


@jax.jit
def render(v, gain):
    glow = jnp.clip(v * gain, min=0, max=1)[..., None]
    return jnp.concatenate([glow**3, glow**1.5, glow * (2 - glow)], axis=-1)


# %% task="model" name="vmap over the cells, and a loop of a jitted step"
predict = jax.jit(jax.vmap(lambda W, cell: cell @ W, in_axes=(None, 0)))


@jax.jit
def one_step(W, A, Y, rate):
    return W - rate * jax.grad(lab_loss)(W, A, Y)


def fit(W, A, Y, rates):
    for rate in rates:
        W = one_step(W, A, Y, rate)
    return W


# %% task="model" name="einsum, and a fori_loop"
def predict(W, A):
    return jnp.einsum("ct,tk->ck", A, W)


@jax.jit
def fit(W, A, Y, rates):
    slope = jax.grad(lab_loss)
    return lax.fori_loop(0, len(rates), lambda k, W: W - rates[k] * slope(W, A, Y), W)


# %% task="model" name="the gradient by hand, unrolled under one jit"
def predict(W, A):
    return jnp.dot(A, W)


class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def descend(self, W, A, Y, rates):
        for k in range(rates.shape[0]):
            error = A @ W - Y
            W = W - rates[k] * (A.T @ error) * (2 / Y.size)
        return W


MODEL = Model()


def fit(W, A, Y, rates):
    return MODEL.descend(W, A, Y, rates)


# %% task="house" name="a first customer of its own; a named sharding of every axis"
def open_service(W, most):
    @jax.jit
    def answer(A):
        return jnp.matmul(A, W)

    def ask(table):
        return np.array(answer(table))

    ask(np.zeros((most, len(W)), np.float32))

    def serve(A):
        missing = most - A.shape[0]
        return ask(np.pad(A, [(0, missing), (0, 0)]))[: A.shape[0]]

    return serve


def spread(dishes, mesh):
    return jax.device_put(
        jnp.asarray(dishes), jax.sharding.NamedSharding(mesh, P(mesh.axis_names[0], None, None, None))
    )


# %% task="house" name="rows are repeated, not zeros; the shares are put together"
def open_service(W, most):
    lowered = jax.jit(lambda W, A: A @ W).lower(W, np.ones((most, W.shape[0]), np.float32))
    answer = functools.partial(lowered.compile(), W)

    def serve(A):
        some = np.resize(A, (most, A.shape[1]))
        return np.asarray(answer(some))[: A.shape[0]]

    return serve


def spread(dishes, mesh):
    placed = jax.NamedSharding(mesh, P("x"))
    return jax.make_array_from_callback(np.shape(dishes), placed, lambda index: np.asarray(dishes)[index])


# %% task="house" name="a class with buckets; jit with out_shardings"
class Service:
    def __init__(self, W, most):
        self.W, self.sizes, size = W, [], most
        while size >= 1:
            self.sizes.insert(0, size)
            size //= 2
        jitted = jax.jit(jnp.dot)
        types = [jax.ShapeDtypeStruct((size, W.shape[0]), np.float32) for size in self.sizes]
        self.programs = [jitted.lower(of, W).compile() for of in types]

    def __call__(self, A):
        size, program = next(pair for pair in zip(self.sizes, self.programs, strict=True) if pair[0] >= len(A))
        padded = np.concatenate([A, np.zeros((size - len(A), A.shape[1]), A.dtype)])
        return np.asarray(program(padded, self.W))[: len(A)]


open_service = Service


def spread(dishes, mesh):
    return jax.jit(lambda dishes: dishes, out_shardings=jax.NamedSharding(mesh, P("x")))(dishes)


# %% task="day" name="one expression, jitted by name"
def routine(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, steps=4)
    return render(low_pass(v, waves), gain=2.0), predict(W, lab_terms(u, v)[:48])


day = jax.jit(routine)


# %% task="day" name="a class that is handed its functions"
class Day:
    def __init__(self, **parts):
        self.__dict__.update(parts)

    def __call__(self, u, v, W, waves):
        dish = self.simulate(u, v, FEED, KILL, 4)
        some = lab_terms(*dish)[:48]
        picture = self.render(self.low_pass(dish[1], waves), 2.0)
        return picture, self.predict(W, some)


day = jax.jit(Day(simulate=simulate, render=render, low_pass=low_pass, predict=predict).__call__)


# %% task="day" name="small steps, each with a name"
@jax.jit
def day(u, v, W, waves):
    def evening(u, v):
        return simulate(u, v, FEED, KILL, 4)

    def foretell(u, v):
        terms = lab_terms(u, v)
        return predict(W, lax.slice_in_dim(terms, 0, 48))

    def show(v):
        smooth = low_pass(v, waves)
        return render(smooth, jnp.float32(2.0))

    u, v = evening(u, v)
    return show(v), foretell(u, v)


# %% task="model" name="all weights stacked, and the last one taken"
@jax.jit
def predict(W, A):
    return A @ W


@jax.jit
def fit(W, A, Y, rates):
    def descend(W, rate):
        W = W - rate * jax.grad(lab_loss)(W, A, Y)
        return W, W

    _, fitted = lax.scan(descend, W, rates)
    return lax.index_in_dim(fitted, rates.shape[0] - 1, keepdims=False)


# %% task="house" name="one program for each number of cells; a callback for the shares"
def open_service(W, most):
    forecast = jax.jit(jnp.matmul)
    programs = [
        forecast.lower(jax.ShapeDtypeStruct((cells, 7), jnp.float32), W).compile() for cells in range(1, most + 1)
    ]

    def serve(A):
        return np.asarray(programs[len(A) - 1](A, W))

    return serve


def spread(dishes, mesh):
    (axis,) = mesh.axis_names
    layout = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis, *[None] * 3))
    return jax.make_array_from_callback(np.shape(dishes), layout, lambda index: np.asarray(dishes)[index])


# %% task="house" name="a dish for each of eight devices"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()

    def serve(A):
        number = len(A)
        A = np.concatenate([A, np.zeros((most - number, 7), np.float32)])
        return np.asarray(answer(A))[:number]

    return serve


def spread(dishes, mesh):
    devices, layout = list(mesh.devices.flat), jax.NamedSharding(mesh, P("x"))
    shares = [jax.device_put(dishes[k : k + 1], devices[k]) for k in range(8)]
    return jax.make_array_from_single_device_arrays(dishes.shape, layout, shares)


# %% task="model" name="NumPy descends"
@jax.jit
def predict(W, A):
    return jnp.matmul(A, W)


def fit(W, A, Y, rates):
    W, A, Y = (np.asarray(array) for array in (W, A, Y))
    for rate in rates:
        W = W - rate * 2 * A.T @ (A @ W - Y) / Y.size
    return jnp.asarray(W)


# %% task="model" name="compiled ahead of time, once for each shape"
COMPILED = {}


@jax.jit
def predict(W, A):
    return A @ W


def fit(W, A, Y, rates):
    def descend(W, A, Y, rates):
        return lax.fori_loop(0, rates.size, lambda k, W: W - rates[k] * jax.grad(lab_loss)(W, A, Y), W)

    shapes = A.shape, rates.shape
    if shapes not in COMPILED:
        COMPILED[shapes] = jax.jit(descend).lower(W, A, Y, rates).compile()
    return COMPILED[shapes](W, A, Y, rates)
