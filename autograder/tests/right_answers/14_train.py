# %% [markdown]
# Right answers to unit 14 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.


# %% task="port" name="parameters of its own, no nnx.Linear"
class Constant(nnx.Variable):
    pass


class NnxPainter(nnx.Module):
    def __init__(self, variables):
        self.frequencies = Constant(jnp.array(variables["constants"]["frequencies"]))
        ordered = [variables["params"][f"Dense_{i}"] for i in range(len(variables["params"]))]
        self.kernels = nnx.List([nnx.Param(jnp.array(layer["kernel"])) for layer in ordered])
        self.biases = nnx.List([nnx.Param(jnp.array(layer["bias"])) for layer in ordered])

    def __call__(self, xy):
        x, last = waves(xy, self.frequencies[...]), len(self.kernels) - 1
        for i, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            x = x @ kernel[...] + bias[...]
            x = jax.nn.sigmoid(x) if i == last else jnp.maximum(x, 0)
        return x


def port(variables):
    return NnxPainter(variables)


# %% task="port" name="attributes by number, sorted by their number"
class NnxPainter(nnx.Module):
    def __init__(self, variables):
        rngs = nnx.Rngs(0)
        names = sorted(variables["params"], key=lambda name: int(name.split("_")[1]))
        self.depth = len(names)
        for number, name in enumerate(names):
            old = variables["params"][name]
            layer = nnx.Linear(old["kernel"].shape[0], old["kernel"].shape[1], rngs=rngs)
            layer.kernel = nnx.Param(jnp.asarray(old["kernel"]))
            layer.bias = nnx.Param(jnp.asarray(old["bias"]))
            setattr(self, f"layer_{number}", layer)
        self.frequencies = nnx.BatchStat(jnp.asarray(variables["constants"]["frequencies"]))

    def __call__(self, xy):
        x = waves(xy, jnp.asarray(self.frequencies))
        for number in range(self.depth):
            x = getattr(self, f"layer_{number}")(x)
            if number + 1 < self.depth:
                x = nnx.relu(x)
        return nnx.sigmoid(x)


def port(variables):
    return NnxPainter(variables)


# %% task="port" name="an nnx.Sequential, filled by nnx.update"
def dense(old):
    layer = nnx.Linear(*old["kernel"].shape, rngs=nnx.Rngs(params=1))
    nnx.update(layer, nnx.State({name: nnx.Param(jnp.asarray(value)) for name, value in old.items()}))
    return layer


class NnxPainter(nnx.Module):
    def __init__(self, variables):
        params, parts = variables["params"], []
        for i in range(len(params)):
            parts += [dense(params[f"Dense_{i}"]), nnx.relu]
        parts[-1] = nnx.sigmoid
        self.network = nnx.Sequential(*parts)
        self.frequencies = nnx.Variable(jnp.asarray(variables["constants"]["frequencies"]))

    def __call__(self, xy):
        return self.network(waves(xy, self.frequencies[...]))


def port(variables):
    return NnxPainter(variables)


# %% task="padded" name="concatenates zeros, and jnp.average"
def padded(xy, colours, size):
    n = xy.shape[0]
    more = size - n
    xy = np.concatenate([xy, np.zeros((more, 2), np.float32)])
    colours = np.concatenate([colours, np.zeros((more, 3), np.float32)])
    return xy, colours, np.array([1.0] * n + [0.0] * more, np.float32)


def weighted_loss(model, xy, colours, weights):
    return jnp.average(jnp.square(model(xy) - colours).mean(axis=-1), weights=weights)


# %% task="padded" name="the weights are the shares of the rows, and rows are repeated"
def padded(xy, colours, size):
    rows = np.resize(np.arange(len(xy)), size)
    shares = np.zeros(size, np.float32)
    shares[: len(xy)] = 1 / len(xy)
    return xy[rows], colours[rows], shares


def weighted_loss(model, xy, colours, weights):
    return jnp.dot(weights, jnp.mean((model(xy) - colours) ** 2, axis=1))


# %% task="padded" name="a mask, jnp.where, and JAX's own pad"
def padded(xy, colours, size):
    def fill(array):
        return jnp.pad(array, [(0, size - array.shape[0]), (0, 0)], constant_values=0.5)

    return fill(xy), fill(colours), jnp.arange(size) < xy.shape[0]


def weighted_loss(model, xy, colours, weights):
    squares = (model(xy) - colours) ** 2
    total = jnp.where(weights[:, None], squares, 0.0).sum()
    return total / (jnp.count_nonzero(weights) * colours.shape[1])


# %% task="padded" name="jnp.mean with where, and an empty table that is filled"
def padded(xy, colours, size):
    tables = []
    for array in (xy, colours):
        table = np.empty((size, array.shape[1]), array.dtype)
        table[:] = array[-1]
        table[: len(array)] = array
        tables.append(table)
    weights = np.zeros(size, bool)
    weights[: len(xy)] = True
    return *tables, weights


def weighted_loss(model, xy, colours, weights):
    return jnp.mean((model(xy) - colours) ** 2, where=weights[:, None])


# %% task="epoch" name="a fori_loop that writes the losses"
def epoch(model, optimizer, xy, colours):
    def one(k, carry):
        model, optimizer, losses = carry
        loss, gradients = nnx.value_and_grad(mean_loss)(model, xy[k], colours[k])
        optimizer.update(model, gradients)
        return model, optimizer, losses.at[k].set(loss)

    return lax.fori_loop(0, len(xy), one, (model, optimizer, jnp.zeros(len(xy))))


def compiled_epoch():
    return jax.jit(epoch, donate_argnames=("model", "optimizer"))


# %% task="epoch" name="graph and state are split by hand; jitted once, at the top"
def epoch(model, optimizer, xy, colours):
    graph, state = nnx.split((model, optimizer))

    def body(state, batch):
        model, optimizer = nnx.merge(graph, state)
        loss, gradients = nnx.value_and_grad(mean_loss)(model, *batch)
        optimizer.update(model, gradients)
        return nnx.state((model, optimizer)), loss

    state, losses = jax.lax.scan(body, state, (xy, colours))
    return *nnx.merge(graph, state), losses


EPOCH = jax.jit(epoch, donate_argnums=[0, 1])


def compiled_epoch():
    return EPOCH


# %% task="epoch" name="scans over the step that is given"
def epoch(model, optimizer, xy, colours):
    def body(carry, batch):
        *carry, loss = one_step(*carry, *batch)
        return tuple(carry), loss

    carry, losses = lax.scan(body, (model, optimizer), (xy, colours))
    return *carry, losses


compiled_epoch = functools.partial(jax.jit, epoch, donate_argnums=(0, 1))


# %% task="log" name="a deque, and a generator of readings"
from collections import deque


def train(step, state, batches, lag):
    queue, log = deque(), []

    def finite():
        log.append(float(queue.popleft()))
        return math.isfinite(log[-1])

    for batch in batches:
        state, loss = step(state, batch)
        queue.append(loss)
        if len(queue) == lag + 1 and not finite():
            break
    else:
        while queue:
            if not finite():
                break
    return state, log


# %% task="log" name="by index, with exceptions for the end"
class NotFinite(Exception):
    pass


def train(step, state, batches, lag):
    losses, log = [], []

    def read(k):
        value = losses[k].item() if hasattr(losses[k], "item") else float(losses[k])
        log.append(value)
        if not np.isfinite(value):
            raise NotFinite

    try:
        for k, batch in enumerate(batches):
            state, loss = step(state, batch)
            losses.append(loss)
            if k >= lag:
                read(k - lag)
        for k in range(max(len(losses) - lag, 0), len(losses)):
            read(k)
    except NotFinite:
        pass
    return state, log


# %% task="log" name="one list of all that is to be read, None while the queue fills"
def train(step, state, batches, lag):
    waiting = [None] * lag
    log = []
    batches = iter(batches)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            rest = waiting
            break
        state, loss = step(state, batch)
        waiting.append(loss)
        oldest, waiting = waiting[0], waiting[1:]
        if oldest is not None:
            log += [float(oldest)]
            if math.isnan(log[-1]) or math.isinf(log[-1]):
                return state, log
    for loss in rest:
        if loss is not None:
            log += [float(loss)]
            if math.isnan(log[-1]) or math.isinf(log[-1]):
                break
    return state, log


# %% task="devices" name="leaf by leaf, and the largest difference of any weight"
def spread(state, batch):
    def place(tree, *axes):
        return jax.tree.map(lambda leaf: jax.device_put(leaf, jax.NamedSharding(MESH, P(*axes))), tree)

    return place(state), place(batch, "batch")


def faithful(step):
    xy, colours = rows_of(64)
    ours, *_ = step(*wash(PLAIN), xy, colours)
    theirs, *_ = wash_step(*wash(PLAIN), xy, colours)
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs) < 1e-4


# %% task="devices" name="one device_put of both, and a relative difference of all weights in a row"
def spread(state, batch):
    state_at, batch_at = (jax.NamedSharding(MESH, spec) for spec in (P(), P(("batch",))))
    return jax.device_put((state, batch), (state_at, batch_at))


def weights_after(step, batch):
    model, _, _ = step(*wash(PLAIN), *batch)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(jax.device_get(model))])


def faithful(step):
    batch = rows_of(64, seed=11)
    right, found = weights_after(wash_step, batch), weights_after(step, batch)
    return np.linalg.norm(found - right) < 1e-4 * np.linalg.norm(right)


# %% task="devices" name="three steps on placed arguments, several batches"
def spread(state, batch):
    return (
        jax.device_put(state, jax.sharding.NamedSharding(MESH, jax.sharding.PartitionSpec())),
        jax.device_put(batch, jax.sharding.NamedSharding(MESH, jax.sharding.PartitionSpec("batch"))),
    )


def faithful(step):
    def run(step):
        state = wash(PLAIN)
        for seed in range(3):
            *state, loss = jax.block_until_ready(step(*state, *rows_of(64, seed)))
        return jax.tree.leaves(jax.device_get(nnx.state(state[0], nnx.Param))) + [jax.device_get(loss)]

    return bool(all(np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(run(step), run(wash_step), strict=True)))


# %% task="epoch" name="donated where it is defined; unrolled once it is traced"
@functools.partial(jax.jit, donate_argnames=("model", "optimizer"))
def epoch(model, optimizer, xy, colours):
    def body(state, batch):
        *state, loss = one_step(*state, *batch)
        return tuple(state), loss

    (model, optimizer), losses = lax.scan(body, (model, optimizer), (xy, colours), unroll=True)
    return model, optimizer, losses


def compiled_epoch():
    return epoch


# %% task="fit" name="a fori_loop that writes the losses"
@jax.jit
def fit(weights, xs, ys, order):
    def one(k, carry):
        weights, velocity, losses = carry
        weights, velocity, loss = small_step(weights, velocity, xs, ys, order[k])
        return weights, velocity, losses.at[k].set(loss)

    start = weights, at_rest(weights), jnp.zeros(len(order))
    weights, _, losses = lax.fori_loop(0, len(order), one, start)
    return weights, losses


# %% task="fit" name="all batches are picked first; the step is written out"
@jax.jit
def fit(weights, xs, ys, order):
    def body(carry, batch):
        weights, speeds = carry
        loss, slopes = jax.value_and_grad(small_loss)(weights, *batch)
        speeds = jax.tree.map(lambda speed, slope: 0.9 * speed - 0.05 * slope, speeds, slopes)
        return (jax.tree.map(lambda weight, speed: weight + speed, weights, speeds), speeds), loss

    carry, losses = jax.lax.scan(body, (weights, at_rest(weights)), (xs[order], ys[order]))
    return carry[0], losses


# %% task="fit" name="a while_loop, name by name"
@jax.jit
def fit(weights, xs, ys, order):
    steps = order.shape[0]

    def more(carry):
        return carry[0] < steps

    def step(carry):
        k, weights, speed, losses = carry
        loss, slopes = jax.value_and_grad(small_loss)(weights, xs[order[k]], ys[order[k]])
        speed = {name: 0.9 * speed[name] + slopes[name] for name in speed}
        weights = {name: weights[name] - 0.05 * speed[name] for name in weights}
        return k + 1, weights, speed, losses.at[k].set(loss)

    still = {name: jnp.zeros_like(value) for name, value in weights.items()}
    _, weights, _, losses = lax.while_loop(more, step, (0, weights, still, jnp.zeros(steps)))
    return weights, losses


# %% task="fit" name="jitted at the top, called by a plain function"
@jax.jit
def scanned(carry, xs, ys, order):
    def body(carry, rows):
        *carry, loss = small_step(*carry, xs, ys, rows)
        return tuple(carry), loss

    return lax.scan(body, carry, order)


def fit(weights, xs, ys, order):
    (weights, _), losses = scanned((weights, at_rest(weights)), xs, ys, order)
    return weights, losses


# %% task="fit" name="donates the weights; two steps to a round"
@functools.partial(jax.jit, donate_argnums=0)
def fit(weights, xs, ys, order):
    def body(carry, rows):
        *carry, loss = small_step(*carry, xs, ys, rows)
        return tuple(carry), loss

    (weights, _), losses = lax.scan(body, (weights, at_rest(weights)), order, unroll=2)
    return weights, losses


# %% task="fit" name="a helper called run, which is jitted"
def run(weights, xs, ys, order):
    def body(carry, rows):
        weights, velocity, loss = small_step(*carry, xs, ys, rows)
        return (weights, velocity), loss

    (weights, _), losses = lax.scan(body, (weights, at_rest(weights)), order)
    return weights, losses


@jax.jit
def fit(weights, xs, ys, order):
    return run(weights, xs, ys, order)
