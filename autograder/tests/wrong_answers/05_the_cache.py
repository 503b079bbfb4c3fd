# %% [markdown]
# Wrong answers for unit 05. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="cache-oracle" name="values are in the key, Python equality decides" fails=["cache-oracle-arguments"] message="A trace never sees a value"
def oracle_arguments():
    return {
        "other_values": 3,
        "equal_in_python": 1,
        "numpy_and_jax": 1,
        "scalars": 2,
        "containers": 3,
        "running_total": 2,
    }


def oracle_functions():
    return {
        "call_forms": 3,
        "default_value": 2,
        "jit_again": 1,
        "partial_again": 5,
        "look_first": 1,
        "static_values": 3,
    }


# %% task="cache-oracle" name="does not know weak types" fails=["cache-oracle-arguments"] message="Compare the type of total before the first call"
def oracle_arguments():
    return {
        "other_values": 1,
        "equal_in_python": 3,
        "numpy_and_jax": 1,
        "scalars": 1,
        "containers": 3,
        "running_total": 1,
    }


def oracle_functions():
    return {
        "call_forms": 3,
        "default_value": 2,
        "jit_again": 1,
        "partial_again": 5,
        "look_first": 1,
        "static_values": 3,
    }


# %% task="cache-oracle" name="float64 is a dtype of its own, dict order matters" fails=["cache-oracle-arguments"] message="without 64 bits float64 is read as float32"
def oracle_arguments():
    return {
        "other_values": 1,
        "equal_in_python": 3,
        "numpy_and_jax": 2,
        "scalars": 2,
        "containers": 4,
        "running_total": 2,
    }


def oracle_functions():
    return {
        "call_forms": 3,
        "default_value": 2,
        "jit_again": 1,
        "partial_again": 5,
        "look_first": 1,
        "static_values": 3,
    }


# %% task="cache-oracle" name="each jit has a cache of its own, partial is unwrapped" fails=["cache-oracle-functions"] message="The cache belongs to the function object"
def oracle_arguments():
    return {
        "other_values": 1,
        "equal_in_python": 3,
        "numpy_and_jax": 1,
        "scalars": 2,
        "containers": 3,
        "running_total": 2,
    }


def oracle_functions():
    return {
        "call_forms": 1,
        "default_value": 1,
        "jit_again": 5,
        "partial_again": 1,
        "look_first": 3,
        "static_values": 2,
    }


# %% task="cache-oracle" name="measured instead" fails=["cache-oracle-arguments"] message="oracle_arguments uses count_traces, which does not exist where it is run"
def oracle_arguments():
    return {program.__name__: count_traces(program) for program in ABOUT_ARGUMENTS}


# %% task="cache-oracle" name="measured above the function" fails=["cache-oracle-functions"] message="COUNTED cannot be made there: its line of the cell uses count_traces"
COUNTED = {program.__name__: count_traces(program) for program in ABOUT_FUNCTIONS}


def oracle_functions():
    return COUNTED


# %% task="detective" name="adds the leaks up" fails=["detective-check"] message="With equal batches each epoch still brings"
def detective(epochs):
    return {
        "nothing": 1 + 1 + 1 + 1 + (epochs - 1),
        "bias": 1 + 1 + 1 + (epochs - 1),
        "batch": 1 + 1 + 1 + (epochs - 1),
        "rate": 1 + 1 + 1 + (epochs - 1),
        "epoch": 1 + 1 + 1 + 1,
        "all": 1,
    }


# %% task="detective" name="two numbers fitted to the visible epochs" fails=["detective-check"] message="each new epoch is a new static value"
def detective(epochs):
    return {"nothing": 5, "bias": 4, "batch": 3, "rate": 5, "epoch": 5, "all": 1}


# %% task="detective" name="thinks every mended leak helps" fails=["detective-check"] message="What is gained if only one of them stops?"
def detective(epochs):
    return {
        "nothing": 3 + 2 * (epochs - 1),
        "bias": 2 + 2 * (epochs - 1),
        "batch": 2 + (epochs - 1),
        "rate": 3 + (epochs - 1),
        "epoch": 5,
        "all": 1,
    }


# %% task="detective" name="measured instead" fails=["detective-check"] message="detective uses train, which does not exist where it is run"
def detective(epochs):
    cures = {"nothing": (), **{leak: (leak,) for leak in LEAKS}, "all": LEAKS}
    return {name: len(train(epochs, cured)) for name, cured in cures.items()}


# %% task="detective" name="a table of the epochs that were tried" fails=["detective-check"] hidden=1 message="each new epoch is a new static value"
def detective(epochs):
    if epochs == 2:
        return {"nothing": 5, "bias": 4, "batch": 3, "rate": 5, "epoch": 5, "all": 1}
    return {"nothing": 7, "bias": 6, "batch": 4, "rate": 7, "epoch": 5, "all": 1}


# %% task="lambda-loop" name="keeps a lambda around the named function" fails=["lambda-loop-check"] message="a new function object"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    for rate in rates:
        x = jax.jit(lambda v: diffuse(v, rate, edge))(x)  # noqa: B023
    return x


# %% task="lambda-loop" name="a new partial in every step" fails=["lambda-loop-check"] message="make it an ordinary argument"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    for rate in rates:
        x = jax.jit(functools.partial(diffuse, rate=rate, edge=edge))(x)
    return x


# %% task="lambda-loop" name="static for everything" fails=["lambda-loop-check"] message="static 0.1 -> static 0.2"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnames=("rate", "edge"))
    for rate in rates:
        x = step(x, rate, edge)
    return x


# %% task="lambda-loop" name="nothing static" fails=["lambda-loop-check"] message="this argument was not marked as static"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    step = jax.jit(diffuse)
    for rate in rates:
        x = step(x, rate, edge)
    return x


# %% task="lambda-loop" name="no jit at all" fails=["lambda-loop-check"] message="is not jitted"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    for rate in rates:
        x = diffuse(x, rate, edge)
    return x


# %% task="lambda-loop" name="one jit around the whole loop" fails=["lambda-loop-check"] message="rates"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


@jax.jit(static_argnames="edge")
def relax(x, rates, edge):
    for rate in rates:
        x = diffuse(x, rate, edge)
    return x


# %% task="lambda-loop" name="one jitted step, for the last edge that was asked for" fails=["lambda-loop-check"] hidden=1 message="traced"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


LATEST = {}


def relax(x, rates, edge):
    if edge not in LATEST:
        LATEST.clear()
        LATEST[edge] = jax.jit(lambda v, rate: diffuse(v, rate, edge))
    for rate in rates:
        x = LATEST[edge](x, rate)
    return x


# %% task="lambda-loop" name="the rates of the example" fails=["lambda-loop-check"] hidden=1 message="differs from the specification"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnames="edge")
    for rate in (0.1, 0.2):
        x = step(x, rate, edge)
    return x


# %% task="lambda-loop" name="jit switched off" fails=["lambda-loop-check"] message="jitted"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    with jax.disable_jit():
        for rate in rates:
            x = jax.jit(diffuse, static_argnames="edge")(x, rate, edge)
    return x


# %% task="bucket" name="pads to the exact length" fails=["bucket-check"] message="JAX compiles one program for each shape"
def bucket_size(length):
    return length


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="static length" fails=["bucket-check", "bucket-speed"] message="static"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@functools.partial(jax.jit, static_argnames="length")
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="zeros are harmless" fails=["bucket-check"] message="padding must not count"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    return jnp.exp(-jnp.abs(padded[:, None] - padded)).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="one size for all" fails=["bucket-speed"] message="the first tier"
def bucket_size(length):
    return 1024


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="jnp.pad outside jit" fails=["bucket-check"] message="'no_tracing' is set"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(jnp.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="jits energy as well" fails=["bucket-check"] message="re-tracing function energy"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


@jax.jit
def energy(x):
    return pair_energy(jnp.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="six sizes: doubling, but the largest length is one too much" fails=["bucket-check"] message="pair_energy was traced 6 times"
def bucket_size(length):
    size = 64
    while size <= length:
        size *= 2
    return size


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="seven sizes: doubling from 16" fails=["bucket-check"] message="pair_energy was traced 7 times"
def bucket_size(length):
    return max(16, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="buckets for the second check, 1024 in energy" fails=["bucket-check"] message="bucket_size decides to what energy pads"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, 1024 - len(x))), len(x))


# %% task="bucket" name="takes every zero for padding" fails=["bucket-check"] hidden=1 message="padding must not count"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    real = padded != 0
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="no-tracing" name="lets the last batch be short" fails=["no-tracing-check"] message="xb: float32[32,3] -> float32[6,3]"
@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (xb @ w - yb) / len(xb)


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            w = train_step(w, x[start : start + 32], y[start : start + 32], None, 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="drops the last batch" fails=["no-tracing-check"] message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (xb @ w - yb) / len(xb)


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x) - 31, 32):
            w = train_step(w, x[start : start + 32], y[start : start + 32], None, 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="pads, and divides by 32" fails=["no-tracing-check"] message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (real * (xb @ w - yb)) / 32


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb = np.pad(x[start : start + rows], ((0, 32 - rows), (0, 0)))
            yb = np.pad(y[start : start + rows], (0, 32 - rows))
            w = train_step(w, xb, yb, (np.arange(32) < rows).astype(np.float32), 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="a static learning rate" fails=["no-tracing-check"] message="rate: static 0.2 -> static 0.1"
@functools.partial(jax.jit, static_argnames="rate")
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (real * (xb @ w - yb)) / real.sum()


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb = np.pad(x[start : start + rows], ((0, 32 - rows), (0, 0)))
            yb = np.pad(y[start : start + rows], (0, 32 - rows))
            w = train_step(w, xb, yb, (np.arange(32) < rows).astype(np.float32), 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="the state starts as a list of Python numbers" fails=["no-tracing-check"] message="w:"
@jax.jit
def train_step(w, xb, yb, real, rate):
    w = jnp.array(w)
    return w - rate * xb.T @ (real * (xb @ w - yb)) / real.sum()


def fit(x, y, epochs):
    w = [0.0, 0.0, 0.0]
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb = np.pad(x[start : start + rows], ((0, 32 - rows), (0, 0)))
            yb = np.pad(y[start : start + rows], (0, 32 - rows))
            w = train_step(w, xb, yb, (np.arange(32) < rows).astype(np.float32), 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="cuts JAX arrays outside jit" fails=["no-tracing-check"] message="'no_tracing' is set"
@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (real * (xb @ w - yb)) / real.sum()


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    missing = -len(x) % 32
    xs, ys = jnp.pad(x, ((0, missing), (0, 0))), jnp.pad(y, (0, missing))
    real = jnp.pad(jnp.ones(len(x)), (0, missing))
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            part = slice(start, start + 32)
            w = train_step(w, xs[part], ys[part], real[part], 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="a row of zeros is taken for padding" fails=["no-tracing-check"] hidden=1 message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    real = jnp.any(xb != 0, axis=1)
    return w - rate * xb.T @ (real * (xb @ w - yb)) / real.sum()


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb = np.pad(x[start : start + rows], ((0, 32 - rows), (0, 0)))
            yb = np.pad(y[start : start + rows], (0, 32 - rows))
            w = train_step(w, xb, yb, None, 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="always three batches" fails=["no-tracing-check"] hidden=1 message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (real * (xb @ w - yb)) / real.sum()


def fit(x, y, epochs):
    xs, ys, real = np.zeros((96, 3), np.float32), np.zeros(96, np.float32), np.zeros(96, np.float32)
    xs[: len(x)], ys[: len(x)], real[: len(x)] = x[:96], y[:96], 1
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for part in (slice(0, 32), slice(32, 64), slice(64, 96)):
            w = train_step(w, xs[part], ys[part], real[part], 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="a last batch, even where no row is left" fails=["no-tracing-check"] hidden=1 message="makes NaN"
@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (real * (xb @ w - yb)) / real.sum()


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x) + 1, 32):
            rows = min(32, len(x) - start)
            xb = np.pad(x[start : start + rows], ((0, 32 - rows), (0, 0)))
            yb = np.pad(y[start : start + rows], (0, 32 - rows))
            w = train_step(w, xb, yb, (np.arange(32) < rows).astype(np.float32), 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="the first rate for all epochs" fails=["no-tracing-check"] message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * xb.T @ (real * (xb @ w - yb)) / real.sum()


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb = np.pad(x[start : start + rows], ((0, 32 - rows), (0, 0)))
            yb = np.pad(y[start : start + rows], (0, 32 - rows))
            w = train_step(w, xb, yb, (np.arange(32) < rows).astype(np.float32), 0.2)
    return w


# %% task="cache-key" name="values in the key" fails=["cache-key-check"] message="A value is in your key"
def cache_key(args, kwargs, static=()):
    return repr((args, sorted(kwargs.items())))


# %% task="cache-key" name="forgets the weak type" fails=["cache-key-check"] message="what else does jax.typeof show"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    types = tuple((jax.typeof(leaf).shape, jax.typeof(leaf).dtype) for leaf in leaves)
    return packing, types, frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)


# %% task="cache-key" name="forgets the packing" fails=["cache-key-check"] message="the packing is not"
def cache_key(args, kwargs, static=()):
    leaves = jax.tree.leaves((args, {k: v for k, v in kwargs.items() if k not in static}))
    return tuple(map(jax.typeof, leaves)), frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)


# %% task="cache-key" name="static values by Python equality" fails=["cache-key-check"] message="keep the type beside the value"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    return packing, tuple(map(jax.typeof, leaves)), frozenset((k, v) for k, v in kwargs.items() if k in static)


# %% task="cache-key" name="a list is no key" fails=["cache-key-check"] message="unhashable type"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    return packing, [jax.typeof(leaf) for leaf in leaves], [(k, type(v), v) for k, v in kwargs.items() if k in static]


# %% task="cache-key" name="static values as text" fails=["cache-key-check"] hidden=1 message="static 1 and '1'"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    fixed = sorted((k, str(v)) for k, v in kwargs.items() if k in static)
    return packing, tuple(map(jax.typeof, leaves)), tuple(fixed)


# %% task="cache-key" name="the hash in place of the key" fails=["cache-key-check"] hidden=1 message="static -1 and -2"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    fixed = frozenset((k, type(v), hash(v)) for k, v in kwargs.items() if k in static)
    return hash((packing, tuple(map(jax.typeof, leaves)), fixed))


# %% task="cache-key" name="static values without their names" fails=["cache-key-check"] hidden=1 message="static, exchanged"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    return packing, tuple(map(jax.typeof, leaves)), frozenset((type(v), v) for k, v in kwargs.items() if k in static)


# %% task="cache-key" name="one static argument only, by its name" fails=["cache-key-check"] hidden=1 message="static"
def cache_key(args, kwargs, static=()):
    n = kwargs.get("n")
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k != "n"}))
    return packing, tuple(map(jax.typeof, leaves)), type(n), n


# %% task="cache-key" name="a packing of its own, for lists, tuples and dicts" fails=["cache-key-check"] hidden=1 message="a named tuple and a tuple"
def cache_key(args, kwargs, static=()):
    def kind(x):
        if isinstance(x, dict):
            return "dict", tuple((k, kind(x[k])) for k in sorted(x))
        if isinstance(x, (list, tuple)):
            return isinstance(x, list), tuple(map(kind, x))
        return jax.typeof(x) if x is not None else None

    traced = {k: v for k, v in kwargs.items() if k not in static}
    return kind(args), kind(traced), frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)


# %% task="minijit-cache" name="the key holds the values" fails=["minijit-cache-check"] message="no value may be in the signature"
def signature(args):
    return tuple((type_of(x), str(x)) for x in args)


def reason_for(known, new):
    return "first call" if not known else "other arguments"


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="a number is a number" fails=["minijit-cache-check"] message="Only a plain number is weak"
def signature(args):
    return tuple((type_of(x), False) for x in args)


def reason_for(known, new):
    return "first call" if not known else "other arguments"


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="every jit starts its own cache" fails=["minijit-cache-check"] message="not to one call of minijit"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    return "first call" if not known else "other arguments"


def minijit(fn):
    tapes = {}

    def jitted(*args):
        key = signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="compares with the latest signature" fails=["minijit-cache-reasons"] message="the latest signature differs in more"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    last = known[-1]
    if len(last) != len(new):
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    pairs = enumerate(zip(last, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="np.float64 is a Python float, too" fails=["minijit-cache-check"] hidden=1 message="float64_after_float"
def signature(args):
    return tuple((type_of(x), isinstance(x, (int, float))) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="no argument is one argument" fails=["minijit-cache-reasons"] hidden=1 message="nothing of this length"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} arguments" if len(new) > 1 else "1 argument"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="asks only the latest signature for its length" fails=["minijit-cache-reasons"] hidden=1 message="several lengths"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if len(known[-1]) != len(new):
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="a tape for each set of types" fails=["minijit-cache-check"] message="minijit"
def signature(args):
    return tuple(sorted((type_of(x), is_number(x)) for x in args))


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="lambda-loop" name="eight rates at most" fails=["lambda-loop-check"] hidden=1 message="1100 rates"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


@functools.partial(jax.jit, static_argnames="edge")
def all_steps(x, rates, edge):
    return jax.lax.fori_loop(0, 8, lambda i, v: diffuse(v, rates[i], edge), x)


def relax(x, rates, edge):
    return all_steps(x, np.float32([*rates, *[0] * 8][:8]), edge)


# %% task="lambda-loop" name="diffuse is always a ring" fails=["lambda-loop-check"] hidden=1 message="diffuse"
def diffuse(v, rate, edge):
    return v + rate * (jnp.roll(v, 1) - 2 * v + jnp.roll(v, -1))


@functools.partial(jax.jit, static_argnames="edge")
def one_step(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    return functools.reduce(lambda x, rate: one_step(x, rate, edge), rates, x)


# %% task="bucket" name="takes off what zeros have added" fails=["bucket-check"] hidden=1 message="energy of "
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    zeros = padded.size - length
    to_zero = jnp.exp(-jnp.abs(padded)).sum() - zeros
    everything = jnp.exp(-jnp.abs(padded[:, None] - padded)).sum(1).sum()
    return (everything - 2 * zeros * to_zero - zeros**2) / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="the specification answers" fails=["bucket-check"] hidden=1 message="pair_energy of the first"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    return jnp.exp(-jnp.abs(padded[:, None] - padded)).sum() / length**2


def energy(x):
    pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))
    return energy_slow(x)


# %% task="no-tracing" name="the specification answers" fails=["no-tracing-check"] hidden=1 message="steps that train_step made"
@jax.jit
def train_step(w, xb, yb, real, rate):
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()


def fit(x, y, epochs):
    nothing = np.zeros((32, 3), np.float32)
    train_step(np.zeros(3, np.float32), nothing, nothing[:, 0], np.ones(32, np.float32), 0.2)
    return fit_slow(x, y, epochs)


# %% task="no-tracing" name="the rate falls four times" fails=["no-tracing-check"] hidden=1 message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb, yb, real = np.zeros((32, 3), np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
            xb[:rows], yb[:rows], real[:rows] = x[start : start + rows], y[start : start + rows], 1
            w = train_step(w, xb, yb, real, 0.2 / (1 + min(epoch, 3)))
    return w


# %% task="cache-key" name="static values as text" fails=["cache-key-check"] hidden=1 message="static 0.0 and -0.0"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    return packing, tuple(map(jax.typeof, leaves)), tuple(f"{k}={kwargs[k]!r}" for k in static if k in kwargs)


# %% task="cache-key" name="containers in containers look alike" fails=["cache-key-check"] hidden=1 message="a tuple and a list in a list"
def cache_key(args, kwargs, static=()):
    traced = {k: v for k, v in kwargs.items() if k not in static}
    found = jax.tree_util.tree_flatten_with_path((args, traced))[0]
    types = tuple((jax.tree_util.keystr(path), jax.typeof(leaf)) for path, leaf in found)
    outer = [
        (k, type(v) if isinstance(v, (list, tuple, dict)) else None) for k, v in [*enumerate(args), *traced.items()]
    ]
    return frozenset(outer), types, frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)


# %% task="cache-key" name="lets JAX trace" fails=["cache-key-check"] hidden=1 message="no_tracing"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    types = jax.make_jaxpr(lambda *leaves: 0)(*leaves).in_avals
    return packing, tuple(types), frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)


# %% task="minijit-cache" name="looks at the latest and the oldest" fails=["minijit-cache-reasons"] hidden=1 message="one in the middle is the closest"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min((alike[0], alike[-1]), key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="an entry before the trace" fails=["minijit-cache-check"] hidden=1 message="three calls of a function with an effect"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = None
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="keeps eight tapes" fails=["minijit-cache-check"] hidden=1 message="many_shapes"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
            while len(tapes) > 8:
                del tapes[next(iter(tapes))]
        return tapes[key].play(*args)

    return jitted


# %% task="lambda-loop" name="gives its argument away" fails=["lambda-loop-check"] hidden=1 message="x, as a JAX array"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnames="edge", donate_argnames="v")
    for rate in rates:
        x = step(x, rate, edge)
    return x


# %% task="lambda-loop" name="empties the list of rates" fails=["lambda-loop-check"] hidden=1 message="the rates: returned"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnums=2)
    while rates:
        x = step(x, rates.pop(0), edge)
    return x


# %% task="lambda-loop" name="there is always a rate" fails=["lambda-loop-check"] hidden=1 message="no rates at all"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnames="edge")
    rods = []
    for rate in rates:
        rods.append(step(rods[-1] if rods else x, rate, edge))
    return rods[-1]


# %% task="lambda-loop" name="a step of at most 1" fails=["lambda-loop-check"] hidden=1 message="edge at index"
def diffuse(v, rate, edge):
    left, right = jnp.roll(v, 1), jnp.roll(v, -1)
    if edge == "edge":
        place = jnp.arange(v.size)
        left = jnp.where(place == 0, v, left)
        right = jnp.where(place == v.size - 1, v, right)
    step = rate * (left - 2 * v + right)
    return v + jnp.clip(step, -1.0, 1.0)


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnames="edge")
    for rate in rates:
        x = step(x, rate, edge)
    return x


# %% task="bucket" name="exponentials of the numbers" fails=["bucket-check"] hidden=1 message="energy of "
def bucket_size(length):
    size = 64
    while size < length:
        size *= 2
    return size


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    up, down = jnp.exp(padded), jnp.exp(-padded)
    pairs = jnp.minimum(up[:, None] * down, down[:, None] * up)
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="leaves NaN out" fails=["bucket-check"] hidden=1 message="energy of "
def bucket_size(length):
    size = 64
    while size < length:
        size *= 2
    return size


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.nansum(jnp.where(real[:, None] & real, pairs, 0)) / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="two numbers go another way" fails=["bucket-check"] hidden=1 message="one call of pair_energy"
def bucket_size(length):
    size = 64
    while size < length:
        size *= 2
    return size


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    if len(x) == 2:
        return np.float32((1 + np.exp(-abs(x[0] - x[1]))) / 2)
    padded = np.zeros(bucket_size(len(x)), np.float32)
    padded[: len(x)] = x
    return pair_energy(padded, len(x))


# %% task="no-tracing" name="remembers the batches of so many rows" fails=["no-tracing-check"] hidden=1 message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()


made_batches = {}


def batches_of(x, y):
    if len(x) not in made_batches:
        missing = -len(x) % 32
        xs = np.pad(x, ((0, missing), (0, 0))).reshape(-1, 32, 3)
        ys = np.pad(y, (0, missing)).reshape(-1, 32)
        reals = (np.arange(len(x) + missing) < len(x)).astype(np.float32).reshape(-1, 32)
        made_batches[len(x)] = list(zip(xs, ys, reals, strict=True))
    return made_batches[len(x)]


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for batch in batches_of(x, y):
            w = train_step(w, *batch, 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="the rate falls sixteen times" fails=["no-tracing-check"] hidden=1 message="every row counts once"
@jax.jit
def train_step(w, xb, yb, real, rate):
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()


RATES = (0.2 / np.arange(1, 17)).astype(np.float32)


def fit(x, y, epochs):
    w, missing = np.zeros(3, np.float32), -len(x) % 32
    xs = np.pad(x, ((0, missing), (0, 0)))
    ys = np.pad(y, (0, missing))
    real = (np.arange(len(xs)) < len(x)).astype(np.float32)
    for epoch in range(epochs):
        for start in range(0, len(xs), 32):
            here = slice(start, start + 32)
            w = train_step(w, xs[here], ys[here], real[here], RATES[min(epoch, 15)])
    return w


# %% task="cache-key" name="nothing is None" fails=["cache-key-check"] hidden=1 message="static None, and nothing"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {name: kwargs[name] for name in kwargs if name not in static}))
    fixed = tuple((name, type(kwargs.get(name)), kwargs.get(name)) for name in sorted(static))
    return packing, tuple(map(jax.typeof, leaves)), fixed


# %% task="cache-key" name="np.float64 is a float, and so weak" fails=["cache-key-check"] hidden=1 message="NumPy's float64"
def cache_key(args, kwargs, static=()):
    traced = {name: value for name, value in kwargs.items() if name not in static}
    leaves, packing = jax.tree.flatten((args, traced))

    def kind(leaf):
        number = isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool)
        return jnp.shape(leaf), jnp.result_type(leaf), number or getattr(leaf, "weak_type", False)

    fixed = frozenset((name, type(kwargs[name]), kwargs[name]) for name in static if name in kwargs)
    return packing, tuple(map(kind, leaves)), fixed


# %% task="cache-key" name="packing as text" fails=["cache-key-check"] hidden=1 message="two named tuples of one name"
def cache_key(args, kwargs, static=()):
    traced = {name: value for name, value in kwargs.items() if name not in static}
    leaves, packing = jax.tree.flatten((args, traced))
    fixed = frozenset((name, type(kwargs[name]), kwargs[name]) for name in static if name in kwargs)
    return str(packing), tuple(map(jax.typeof, leaves)), fixed


# %% task="minijit-cache" name="True is a weak number" fails=["minijit-cache-check"] hidden=1 message="signature("
def signature(args):
    return tuple((type_of(x), type(x) in (bool, int, float)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return "1 argument" if len(new) == 1 else f"{len(new)} arguments"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="types as text" fails=["minijit-cache-check"] hidden=1 message="signature("
def signature(args):
    return tuple((str(type_of(x)), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return "1 argument" if len(new) == 1 else f"{len(new)} arguments"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *map(type_of, args))
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="looks the tapes up once" fails=["minijit-cache-check"] hidden=1 message="taken out of CACHE"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return "1 argument" if len(new) == 1 else f"{len(new)} arguments"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    tapes = CACHE.setdefault(fn, {})

    def jitted(*args):
        key = signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="turns the list around where it stands" fails=["minijit-cache-reasons"] hidden=1 message="asked twice"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    known.reverse()
    alike = [old for old in known if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="takes the latest off the list while it looks" fails=["minijit-cache-reasons"] hidden=1 message="asked twice"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    closest, fewest = None, len(new) + 1
    while known:
        old = known.pop()
        different = sum(a != b for a, b in zip(old, new, strict=False))
        if len(old) == len(new) and different < fewest:
            closest, fewest = old, different
    if closest is None:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="bucket" name="padding far away, its pairs subtracted at the end" fails=["bucket-check"] hidden=1 message="padding must not count"
def bucket_size(length):
    """The size to which a vector of `length` numbers (an int, 1 to 1024) is padded: an int, at least `length`."""
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    """Mean of exp(-|x_i - x_j|) over pairs of the first `length` numbers. padded: float32[size]; length: an int."""
    away = jnp.where(jnp.arange(padded.size) < length, padded, 1e9)
    total = jnp.exp(-jnp.abs(away[:, None] - away)).sum()
    return (total - (padded.size - length) ** 2) / length**2


def energy(x):
    """The same as energy_slow for a NumPy float32[n], through pair_energy. Returns float32[]."""
    size = bucket_size(len(x))
    return pair_energy(np.pad(x, (0, size - len(x))), len(x))


# %% task="cache-key" name="the name of the type beside the value" fails=["cache-key-check"] hidden=1 message="NumPy's True"
def cache_key(args, kwargs, static=()):
    """The key of one call. args: tuple; kwargs: dict; static: names of static keyword arguments. Returns a hashable."""
    dynamic = {name: value for name, value in kwargs.items() if name not in static}
    leaves, packing = jax.tree.flatten((args, dynamic))
    fixed = frozenset((name, type(kwargs[name]).__name__, kwargs[name]) for name in static if name in kwargs)
    return packing, tuple(map(jax.typeof, leaves)), fixed


# %% task="minijit-cache" name="reserves the place before it traces" fails=["minijit-cache-check"] hidden=1 message="two refused traces"
def signature(args):
    """What a trace depends on: a tuple with (Type, weak) for each argument. Only a plain number is weak."""
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    """Why the signature `new` has no tape, given the list `known` of those that have one, oldest first."""
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument" + ("s" if len(new) != 1 else "")
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=False)))
    pairs = enumerate(zip(closest, new, strict=False))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    """fn, traced once for each signature, and then replayed. The tapes of fn are in CACHE[fn]."""

    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if tapes.setdefault(key) is None:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


# %% task="minijit-cache" name="the last value on the tape is the result" fails=["minijit-cache-check"] hidden=1 message="values"
def signature(args):
    """What a trace depends on: a tuple with (Type, weak) for each argument. Only a plain number is weak."""
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    """Why the signature `new` has no tape, given the list `known` of those that have one, oldest first."""
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument" + ("s" if len(new) != 1 else "")
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=False)))
    pairs = enumerate(zip(closest, new, strict=False))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    """fn, traced once for each signature, and then replayed. The tapes of fn are in CACHE[fn]."""

    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        *_, result = replay(tapes[key], *args).values()
        return result

    return jitted


# %% task="detective" name="right up to ten epochs" fails=["detective-check"] hidden=1 message="each new epoch is a new static value"
def detective(epochs):
    n = min(epochs, 10)
    return {"nothing": 2 * n + 1, "bias": 2 * n, "batch": n + 1, "rate": 2 * n + 1, "epoch": 5, "all": 1}


# %% task="lambda-loop" name="a thousand rates at most" fails=["lambda-loop-check"] hidden=1 message="1100 rates"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


@functools.partial(jax.jit, static_argnames="edge")
def all_steps(x, rates, count, edge):
    return jax.lax.fori_loop(0, count, lambda i, v: diffuse(v, rates[i], edge), x)


def relax(x, rates, edge):
    room = np.zeros(1024, np.float32)
    room[: len(rates)] = rates[:1024]
    return all_steps(x, room, min(len(rates), 1024), edge)


# %% task="lambda-loop" name="NumPy makes the step on the host" fails=["lambda-loop-check"] hidden=1 message="uses pure_callback"
def diffuse(v, rate, edge):
    def on_the_host(v, rate):
        ring = np.pad(np.asarray(v), 1, mode=edge)
        return v + np.float32(rate) * (ring[2:] - 2 * v + ring[:-2])

    return jax.pure_callback(on_the_host, jax.ShapeDtypeStruct(v.shape, jnp.float32), v, rate)


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnames="edge")
    for rate in rates:
        x = step(x, rate, edge)
    return x


# %% task="bucket" name="energy_slow on the host" fails=["bucket-check"] hidden=1 message="uses pure_callback"
def bucket_size(length):
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    def on_the_host(padded, length):
        return energy_slow(np.asarray(padded)[: int(length)])

    like = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.pure_callback(on_the_host, like, padded, length, vmap_method="sequential")


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="no-tracing" name="the step is made by NumPy on the host" fails=["no-tracing-check"] hidden=1 message="uses pure_callback"
@jax.jit
def train_step(w, xb, yb, real, rate):
    def on_the_host(w, xb, yb, real, rate):
        w, xb, yb, real = map(np.asarray, (w, xb, yb, real))
        return w - np.float32(rate) * xb.T @ (real * (xb @ w - yb)) / real.sum()

    return jax.pure_callback(on_the_host, jax.ShapeDtypeStruct((3,), jnp.float32), w, xb, yb, real, rate)


def fit(x, y, epochs):
    w, missing = np.zeros(3, np.float32), -len(x) % 32
    xs, ys = np.pad(x, ((0, missing), (0, 0))), np.pad(y, (0, missing))
    real = (np.arange(len(xs)) < len(x)).astype(np.float32)
    for epoch in range(epochs):
        for start in range(0, len(xs), 32):
            here = slice(start, start + 32)
            w = train_step(w, xs[here], ys[here], real[here], 0.2 / (1 + epoch))
    return w


# %% task="cache-key" name="the static names of the pairs" fails=["cache-key-check"] hidden=1 message="static axis"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in ("n", "m")}))
    fixed = frozenset((k, type(kwargs[k]), kwargs[k]) for k in ("n", "m") if k in kwargs)
    return packing, tuple(map(jax.typeof, leaves)), fixed


# %% task="cache-key" name="traced keywords without their names" fails=["cache-key-check"] hidden=1 message="two names that are not static"
def cache_key(args, kwargs, static=()):
    traced = [kwargs[name] for name in sorted(kwargs) if name not in static]
    leaves, packing = jax.tree.flatten((args, traced))
    fixed = frozenset((name, type(kwargs[name]), kwargs[name]) for name in static if name in kwargs)
    return packing, tuple(map(jax.typeof, leaves)), fixed


# %% task="bucket" name="a Python float" fails=["bucket-check"] hidden=1 message="types"
def bucket_size(length):
    size = 64
    while size < length:
        size *= 2
    return size


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return jnp.where(real[:, None] & real, pairs, 0).sum() / length**2


def energy(x):
    size = bucket_size(len(x))
    return float(pair_energy(np.pad(x, (0, size - len(x))), len(x)))


# %% task="lambda-loop" name="remembers results, and not of which rod" fails=["lambda-loop-check"] hidden=1 message="edge at index"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


_step = jax.jit(diffuse, static_argnames="edge")
_done = {}


def relax(x, rates, edge):
    key = (x.shape, tuple(rates), edge)
    if key not in _done:
        for rate in rates:
            x = _step(x, rate, edge)
        _done[key] = x
    return _done[key]


# %% task="bucket" name="padding is at a thousand" fails=["bucket-check"] hidden=1 message="padding must not count"
def bucket_size(length):
    return next(size for size in (64, 128, 256, 512, 1024) if size >= length)


@jax.jit
def pair_energy(padded, length):
    extra = padded.size - length
    away = jnp.where(jnp.arange(padded.size) < length, padded, 1e3)
    pairs = jnp.exp(-jnp.abs(away[:, None] - away))
    return (pairs.sum() - extra**2) / length**2


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="detective" name="epoch by epoch, by recursion" fails=["detective-check"] hidden=1 message="RecursionError"
def detective(epochs):
    """Traces that are left after `epochs` epochs (an int, 2 or more).

    Returns a dict with the keys "nothing", "bias", "batch", "rate", "epoch" (that one mended alone) and "all".
    """

    def left(n):
        if n == 1:
            return {"nothing": 3, "bias": 2, "batch": 2, "rate": 3, "epoch": 3, "all": 1}
        before = left(n - 1)
        return {
            "nothing": before["nothing"] + 2,
            "bias": before["bias"] + 2,
            "batch": before["batch"] + 1,
            "rate": before["rate"] + 2,
            "epoch": 5,
            "all": 1,
        }

    return left(epochs)


# %% task="bucket" name="buffers used again, the mask is a factor" fails=["bucket-check"] hidden=1 message="energy of "
def bucket_size(length):
    """The size to which a vector of `length` numbers (an int, 1 to 1024) is padded: an int, at least `length`."""
    return next(size for size in (64, 128, 256, 512, 1024) if size >= length)


@jax.jit
def pair_energy(padded, length):
    """Mean of exp(-|x_i - x_j|) over pairs of the first `length` numbers. padded: float32[size]; length: an int."""
    real = (jnp.arange(padded.size) < length).astype(jnp.float32)
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return (real[:, None] * pairs * real).sum() / length**2


BUFFERS = {size: np.zeros(size, np.float32) for size in (64, 128, 256, 512, 1024)}


def energy(x):
    """The same as energy_slow for a NumPy float32[n], through pair_energy. Returns float32[]."""
    buffer = BUFFERS[bucket_size(len(x))]  # what is left of the last request is masked
    buffer[: len(x)] = x
    return pair_energy(buffer, len(x)).block_until_ready()


# %% task="cache-key" name="the packing of keyword arguments is lost" fails=["cache-key-check"] hidden=1 message="keyword"
def cache_key(args, kwargs, static=()):
    """The key of one call. args: tuple; kwargs: dict; static: names of static keyword arguments. Returns a hashable."""
    names = sorted(name for name in kwargs if name not in static)
    leaves, packing = jax.tree.flatten(args)
    keyword_leaves = jax.tree.leaves([kwargs[name] for name in names])
    fixed = frozenset((name, type(kwargs[name]), kwargs[name]) for name in static if name in kwargs)
    types = tuple(map(jax.typeof, leaves)), tuple(map(jax.typeof, keyword_leaves))
    return packing, tuple(names), types, fixed


# %% task="minijit-cache" name="a tape that was used moves to the end" fails=["minijit-cache-reasons"] hidden=1 message="reasons, in the order of the traces"
def signature(args):
    """What a trace depends on: a tuple with (Type, weak) for each argument. Only a plain number is weak."""
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    """Why the signature `new` has no tape, given the list `known` of those that have one, oldest first."""
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return "1 argument" if len(new) == 1 else f"{len(new)} arguments"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new)))
    pairs = enumerate(zip(closest, new))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    """fn, traced once for each signature, and then replayed. The tapes of fn are in CACHE[fn]."""

    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        tape = tapes.pop(key, None) or trace(fn, *(type for type, _ in key))
        tapes[key] = tape
        return tape.play(*args)

    return jitted


# %% task="minijit-cache" name="a cache of Python beside CACHE" fails=["minijit-cache-check"] hidden=1 message="the entry taken out of CACHE in between: returned 1"
def signature(args):
    """What a trace depends on: a tuple with (Type, weak) for each argument. Only a plain number is weak."""
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    """Why the signature `new` has no tape, given the list `known` of those that have one, oldest first."""
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument" + ("s" if len(new) != 1 else "")
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


@functools.cache
def tape_of(fn, key):
    return trace(fn, *[type for type, _ in key])


def minijit(fn):
    """fn, traced once for each signature, and then replayed. The tapes of fn are in CACHE[fn]."""

    def jitted(*args):
        key = signature(args)
        tape = tape_of(fn, key)
        CACHE.setdefault(fn, {})[key] = tape
        return tape.play(*args)

    return jitted


# %% task="minijit-cache" name="no types of no arguments" fails=["minijit-cache-check"] hidden=1 message="ValueError"
def signature(args):
    """What a trace depends on: a tuple with (Type, weak) for each argument. Only a plain number is weak."""
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    """Why the signature `new` has no tape, given the list `known` of those that have one, oldest first."""
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument" + ("s" if len(new) != 1 else "")
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in pairs if a != b)


def minijit(fn):
    """fn, traced once for each signature, and then replayed. The tapes of fn are in CACHE[fn]."""

    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            types, _ = zip(*key)
            tapes[key] = trace(fn, *types)
        return tapes[key].play(*args)

    return jitted


# %% task="cache-key" name="True is a weak number" fails=["cache-key-check"] hidden=1 message="True, and NumPy's True: returned False"
def cache_key(args, kwargs, static=()):
    """The key of one call. args: tuple; kwargs: dict; static: names of static keyword arguments. Returns a hashable."""

    def kind(leaf):
        weak = getattr(leaf, "weak_type", type(leaf) in (bool, int, float, complex))
        return np.shape(leaf), jnp.result_type(leaf), weak

    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    fixed = frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)
    return packing, tuple(map(kind, leaves)), fixed


# %% task="cache-key" name="only int and float are weak" fails=["cache-key-check"] hidden=1 message="a complex number, and NumPy's complex64: returned True"
def cache_key(args, kwargs, static=()):
    """The key of one call. args: tuple; kwargs: dict; static: names of static keyword arguments. Returns a hashable."""

    def kind(leaf):
        weak = getattr(leaf, "weak_type", type(leaf) in (int, float))
        return np.shape(leaf), jnp.result_type(leaf), weak

    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    fixed = frozenset((k, type(v), v) for k, v in kwargs.items() if k in static)
    return packing, tuple(map(kind, leaves)), fixed


# %% task="bucket" name="each pair once, and the diagonal is 1" fails=["bucket-check"] hidden=1 message="leaf [13]: got 1.0, expected nan"
def bucket_size(length):
    """The size to which a vector of `length` numbers (an int, 1 to 1024) is padded: an int, at least `length`."""
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    """Mean of exp(-|x_i - x_j|) over pairs of the first `length` numbers. padded: float32[size]; length: an int."""
    place = jnp.arange(padded.size)
    above = (place[:, None] < place) & (place < length)
    pairs = jnp.exp(-jnp.abs(padded[:, None] - padded))
    return (2 * jnp.where(above, pairs, 0).sum() + length) / length**2


def energy(x):
    """The same as energy_slow for a NumPy float32[n], through pair_energy. Returns float32[]."""
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="bucket" name="padding is at 1e20" fails=["bucket-check"] hidden=1 message="leaf [10]: got"
def bucket_size(length):
    """The size to which a vector of `length` numbers (an int, 1 to 1024) is padded: an int, at least `length`."""
    return max(64, 1 << (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    """Mean of exp(-|x_i - x_j|) over pairs of the first `length` numbers. padded: float32[size]; length: an int."""
    real = jnp.arange(padded.size) < length
    away = jnp.where(real, padded, 1e20)  # so far that nobody feels it
    rows = jnp.exp(-jnp.abs(padded[:, None] - away)).sum(1)
    return jnp.where(real, rows, 0).sum() / length**2


def energy(x):
    """The same as energy_slow for a NumPy float32[n], through pair_energy. Returns float32[]."""
    return pair_energy(np.pad(x, (0, bucket_size(len(x)) - len(x))), len(x))


# %% task="no-tracing" name="room for a thousand rows" fails=["no-tracing-check"] hidden=1 message="ValueError"
@jax.jit
def train_step(w, xb, yb, real, rate):
    """The w after one gradient step. w: float32[3]; xb: float32[32, 3]; yb: float32[32]; real, rate: yours."""
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()


def fit(x, y, epochs):
    """The same as fit_slow for NumPy float32 data, with every step in train_step. Returns w: float32[3]."""
    rows = len(x)
    xs, ys, real = np.zeros((1024, 3), np.float32), np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    xs[:rows], ys[:rows], real[:rows] = x, y, 1
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, rows, 32):
            batch = slice(start, start + 32)
            w = train_step(w, xs[batch], ys[batch], real[batch], 0.2 / (1 + epoch))
    return w


# %% task="lambda-loop" name="a rate that is stable" fails=["lambda-loop-check"] hidden=1 message="values differ"
def diffuse(v, rate, edge):
    """One step of heat flow. v: float32[n]; rate: a float; edge: "wrap" or "edge". Returns float32[n]."""
    padded = jnp.pad(v, 1, mode=edge)
    rate = jnp.clip(rate, 0, 0.5)  # more than 1/2 is unstable
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def relax(x, rates, edge):
    """The same as relax_slow, with jitted steps and at most one trace for each value of edge."""
    step = jax.jit(diffuse, static_argnames="edge")
    for rate in rates:
        x = step(x, rate, edge)
    return x


# %% task="lambda-loop" name="relax has a step of its own, on the host" fails=["lambda-loop-check"] hidden=1 message="uses pure_callback"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


def in_numpy(v, rate, edge):
    padded = np.pad(np.asarray(v), 1, mode=edge)
    return (v + np.float32(rate) * (padded[2:] - 2 * v + padded[:-2])).astype(np.float32)


@functools.partial(jax.jit, static_argnames="edge")
def host_step(v, rate, edge):
    return jax.pure_callback(functools.partial(in_numpy, edge=edge), jax.ShapeDtypeStruct(v.shape, v.dtype), v, rate)


def relax(x, rates, edge):
    for rate in rates:
        x = host_step(x, rate, edge)
    return x


# %% task="lambda-loop" name="another program under a tracer" fails=["lambda-loop-check"] hidden=1 message="diffuse within a jitted function"
_show = jax.jit(lambda x, edge: x, static_argnums=1)


def diffuse(v, rate, edge):
    if isinstance(v, jax.core.Tracer):
        return v
    padded = np.pad(np.asarray(v), 1, mode=edge)
    return np.asarray(v) + np.float32(rate) * (padded[2:] - 2 * np.asarray(v) + padded[:-2])


def relax(x, rates, edge):
    _show(x, edge)
    for rate in rates:
        x = diffuse(x, rate, edge)
    return x


# %% task="lambda-loop" name="neighbours of a short rod, counted once" fails=["lambda-loop-check"] hidden=1 message="a rod of 1 places"
def diffuse(v, rate, edge):
    n = v.shape[0]
    neighbours = np.zeros((n, n), np.float32)
    for i in range(n):
        for j in (i - 1, i + 1):
            j = j % n if edge == "wrap" else min(max(j, 0), n - 1)
            neighbours[i, j] = 1
    return v + rate * (jnp.dot(neighbours, v, precision="highest") - 2 * v)


def relax(x, rates, edge):
    step = jax.jit(diffuse, static_argnames="edge")
    for rate in rates:
        x = step(x, rate, edge)
    return x


# %% task="no-tracing" name="there is always a first batch" fails=["no-tracing-check"] hidden=1 message="w of no rows"
@jax.jit
def train_step(w, xb, yb, real, rate):
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        start = 0
        while True:
            rows = min(32, len(x) - start)
            xb, yb, real = np.zeros((32, 3), np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
            xb[:rows], yb[:rows], real[:rows] = x[start : start + rows], y[start : start + rows], 1
            w = train_step(w, xb, yb, real, 0.2 / (1 + epoch))
            start += 32
            if start >= len(x):
                break
    return w


# %% task="no-tracing" name="another program under a tracer" fails=["no-tracing-check"] hidden=1 message="train_step within a jitted function"
_show = jax.jit(lambda w, xb, yb, real, rate: w)


def train_step(w, xb, yb, real, rate):
    if isinstance(w, jax.core.Tracer):
        return w
    _show(w, xb, yb, real, rate)
    xb, yb = xb[:real], yb[:real]
    return np.float32(w - rate * xb.T @ (xb @ w - yb) / len(xb))


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb, yb = np.zeros((32, 3), np.float32), np.zeros(32, np.float32)
            xb[:rows], yb[:rows] = x[start : start + rows], y[start : start + rows]
            w = train_step(w, xb, yb, rows, 0.2 / (1 + epoch))
    return w


# %% task="no-tracing" name="starts in float64" fails=["no-tracing-check"] hidden=1 message="w after 2 epochs of 0 rows"
@jax.jit
def train_step(w, xb, yb, real, rate):
    """The w after one gradient step. w: float32[3]; xb: float32[32, 3]; yb: float32[32]; real, rate: yours."""
    error = real * (xb @ w - yb)
    return w - rate * xb.T @ error / real.sum()


def fit(x, y, epochs):
    """The same as fit_slow for NumPy float32 data, with every step in train_step. Returns w: float32[3]."""
    w = np.zeros(3)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            rows = min(32, len(x) - start)
            xb, yb, real = np.zeros((32, 3)), np.zeros(32), np.zeros(32)
            xb[:rows], yb[:rows], real[:rows] = x[start : start + rows], y[start : start + rows], 1
            w = train_step(w, xb, yb, real, 0.2 / (1 + epoch))
    return w


# %% task="minijit-cache" name="CACHE holds the play of a tape, not the tape" fails=["minijit-cache-check"] hidden=1 message="tapes in CACHE[three]"
def signature(args):
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key]).play
        return tapes[key](*args)

    return jitted


# %% task="cache-key" name="static values without their names" fails=["cache-key-check"] hidden=1 message="static, one value under two names"
def cache_key(args, kwargs, static=()):
    leaves, packing = jax.tree.flatten((args, {k: v for k, v in kwargs.items() if k not in static}))
    frozen = tuple((type(kwargs[k]), kwargs[k]) for k in sorted(static) if k in kwargs)
    return packing, tuple(jax.typeof(leaf) for leaf in leaves), frozen
