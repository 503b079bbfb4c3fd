# %% [markdown]
# Right answers to unit 05 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="lambda-loop" name="a factory of steps with functools.cache"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


@functools.cache
def make_step(edge):
    return jax.jit(lambda v, rate: diffuse(v, rate, edge))


def relax(x, rates, edge):
    step = make_step(edge)
    for rate in rates:
        x = step(x, rate)
    return x


# %% task="lambda-loop" name="a dict of jitted steps"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


STEPS = {edge: jax.jit(functools.partial(diffuse, edge=edge)) for edge in ("wrap", "edge")}


def relax(x, rates, edge):
    for rate in rates:
        x = STEPS[edge](x, rate)
    return x


# %% task="lambda-loop" name="an attribute of an object that is made once"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


class Rod:
    def __init__(self):
        self.step = jax.jit(diffuse, static_argnums=2)


ROD = Rod()


def relax(x, rates, edge):
    for rate in rates:
        x = ROD.step(x, rate, edge)
    return x


# %% task="lambda-loop" name="an attribute of a class"
def diffuse(v, rate, edge):
    padded = jnp.pad(v, 1, mode=edge)
    return v + rate * (padded[2:] - 2 * v + padded[:-2])


class Heat:
    step = staticmethod(jax.jit(diffuse, static_argnames=("edge",)))


def relax(x, rates, edge):
    for rate in rates:
        x = Heat.step(x, rate, edge=edge)
    return x


# %% task="lambda-loop" name="a decorator on the step, jnp.roll for the ring"
@functools.partial(jax.jit, static_argnames="edge")
def diffuse(v, rate, edge):
    if edge == "wrap":
        left, right = jnp.roll(v, 1), jnp.roll(v, -1)
    else:
        left, right = jnp.concatenate([v[:1], v[:-1]]), jnp.concatenate([v[1:], v[-1:]])
    return v + rate * (right - 2 * v + left)


def relax(x, rates, edge):
    return functools.reduce(lambda v, rate: diffuse(v, rate, edge), rates, x)


# %% task="bucket" name="powers of two by bit_length, matrix product for the sum"
def bucket_size(length):
    return max(64, 2 ** (length - 1).bit_length())


@jax.jit
def pair_energy(padded, length):
    real = (jnp.arange(len(padded)) < length).astype(padded.dtype)
    pairs = jnp.exp(-jnp.abs(jnp.subtract.outer(padded, padded)))
    return real @ pairs @ real / (length * length)


def energy(x):
    padded = np.zeros(bucket_size(len(x)), np.float32)
    padded[: len(x)] = x
    return pair_energy(padded, len(x))


# %% task="bucket" name="a table of sizes, next of a generator, vmap over rows"
SIZES = (64, 128, 256, 512, 1024)


def bucket_size(length):
    return next(size for size in SIZES if size >= length)


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.shape[0]) < length
    row = jax.vmap(lambda value: jnp.sum(jnp.exp(-jnp.abs(padded - value)), where=real))
    return jnp.sum(row(padded), where=real) / length**2


def energy(x):
    n = x.shape[0]
    return pair_energy(np.concatenate([x, np.zeros(bucket_size(n) - n, np.float32)]), np.int32(n))


# %% task="bucket" name="bisect, and infinity beyond the length"
def bucket_size(length):
    import bisect

    sizes = [60, 120, 250, 512, 1024]
    return sizes[bisect.bisect_left(sizes, length)]


@jax.jit
def pair_energy(padded, length):
    here = jnp.arange(padded.size)
    far = jnp.where(here < length, padded, jnp.inf)
    pairs = jnp.where((here < length)[:, None], jnp.exp(-jnp.abs(padded[:, None] - far[None, :])), 0)
    return pairs.sum() / jnp.square(length)


def energy(x):
    return pair_energy(np.pad(x, (0, bucket_size(x.size) - x.size), constant_values=0), x.size)


# %% task="no-tracing" name="jax.grad of a masked loss, all batches cut at once"
def batch_loss(w, xb, yb, real):
    return 0.5 * jnp.sum(real * (xb @ w - yb) ** 2) / jnp.sum(real)


@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * jax.grad(batch_loss)(w, xb, yb, real)


def fit(x, y, epochs):
    rows = len(x)
    spare = -rows % 32
    xs = np.concatenate([x, np.zeros((spare, 3), np.float32)]).reshape(-1, 32, 3)
    ys = np.concatenate([y, np.zeros(spare, np.float32)]).reshape(-1, 32)
    real = (np.arange(rows + spare) < rows).astype(np.float32).reshape(-1, 32)
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for batch in zip(xs, ys, real):
            w = train_step(w, *batch, np.float32(0.2 / (1 + epoch)))
    return w


# %% task="no-tracing" name="real is a number of rows"
@jax.jit
def train_step(w, xb, yb, real, rate):
    error = jnp.where(jnp.arange(32) < real, xb @ w - yb, 0)
    return w - rate * (error @ xb) / real


def fit(x, y, epochs):
    w = np.zeros(3, np.float32)
    for epoch in range(epochs):
        for start in range(0, len(x), 32):
            xb, yb = x[start : start + 32], y[start : start + 32]
            rows = len(xb)
            w = train_step(
                w, np.pad(xb, [(0, 32 - rows), (0, 0)]), np.pad(yb, [(0, 32 - rows)]), rows, 0.2 / (1 + epoch)
            )
    return w


# %% task="no-tracing" name="weights that sum to one, and a generator of batches"
def batches(x, y):
    for start in range(0, len(x), 32):
        rows = range(start, min(start + 32, len(x)))
        xb, yb, share = np.zeros((32, 3), np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
        for place, row in enumerate(rows):
            xb[place], yb[place], share[place] = x[row], y[row], 1 / len(rows)
        yield xb, yb, share


@jax.jit
def train_step(w, xb, yb, real, rate):
    return w - rate * jnp.einsum("ri,r->i", xb, real * (xb @ w - yb))


def fit(x, y, epochs):
    w = jax.device_put(np.zeros(3, np.float32))
    for epoch in range(1, epochs + 1):
        for xb, yb, share in batches(x, y):
            w = train_step(w, xb, yb, share, 0.2 / epoch)
    return w


# %% task="cache-key" name="a loop, and sorted tuples"
def cache_key(args, kwargs, static=()):
    fixed, moving = [], {}
    for name in sorted(kwargs):
        if name in static:
            fixed.append((name, kwargs[name], type(kwargs[name])))
        else:
            moving[name] = kwargs[name]
    leaves, tree = jax.tree.flatten((args, moving))
    return tree, tuple(jax.typeof(leaf) for leaf in leaves), tuple(fixed)


# %% task="cache-key" name="jax.tree.map to types, and shape, dtype, weakness apart"
def cache_key(args, kwargs, static=()):
    def kind(leaf):
        aval = jax.typeof(leaf)
        return aval.shape, aval.dtype, aval.weak_type

    traced = {name: value for name, value in kwargs.items() if name not in static}
    types = jax.tree.leaves(jax.tree.map(kind, (args, traced)), is_leaf=lambda x: type(x) is tuple and len(x) == 3)
    values = frozenset((name, type(kwargs[name]), kwargs[name]) for name in kwargs.keys() & set(static))
    return jax.tree.structure((args, traced)), tuple(types), values


# %% task="cache-key" name="a named tuple with paths of leaves"
class Key(NamedTuple):
    packing: object
    leaves: tuple
    static: frozenset


def cache_key(args, kwargs, static=()):
    call = (args, dict(filter(lambda item: item[0] not in static, kwargs.items())))
    leaves = tuple((jax.tree_util.keystr(path), jax.typeof(leaf)) for path, leaf in jax.tree.leaves_with_path(call))
    values = frozenset((n, (type(v), v)) for n, v in kwargs.items() if n in static)
    return Key(jax.tree.structure(call), leaves, values)


# %% task="minijit-cache" name="loops, and try for the lookup"
def signature(args):
    entries = []
    for x in args:
        entries.append((type_of(x), type(x) is int or type(x) is float))
    return tuple(entries)


def reason_for(known, new):
    if len(known) == 0:
        return "first call"
    best, fewest = None, None
    for old in known:
        if len(old) != len(new):
            continue
        differ = [i for i in range(len(new)) if old[i] != new[i]]
        if best is None or len(differ) <= fewest:
            best, fewest = old, len(differ)
    if best is None:
        return "1 argument" if len(new) == 1 else f"{len(new)} arguments"
    return ", ".join(f"argument {i}: {told(best[i])} -> {told(new[i])}" for i in range(len(new)) if best[i] != new[i])


def minijit(fn):
    def jitted(*args):
        key = signature(args)
        try:
            tape = CACHE[fn][key]
        except KeyError:
            tape = trace(fn, *(type for type, weak in key))
            CACHE.setdefault(fn, {})[key] = tape
        return tape.play(*args)

    return jitted


# %% task="minijit-cache" name="a class that is called"
def signature(args):
    return tuple(map(lambda x: (type_of(x), is_number(x)), args))


def distance(old, new):
    return sum(map(lambda a, b: a != b, old, new))


def reason_for(known, new):
    alike = [(distance(old, new), -age, old) for age, old in enumerate(known) if len(old) == len(new)]
    if not known:
        return "first call"
    if not alike:
        return f"{len(new)} argument" + ("s" if len(new) != 1 else "")
    _, _, closest = sorted(alike, key=lambda entry: entry[:2])[0]
    return ", ".join(f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in enumerate(zip(closest, new)) if a != b)


class minijit:
    def __init__(self, fn):
        self.fn = fn

    def __call__(self, *args):
        tapes = CACHE.get(self.fn)
        if tapes is None:
            tapes = CACHE[self.fn] = {}
        key = signature(args)
        if (tape := tapes.get(key)) is None:
            tape = tapes[key] = trace(self.fn, *[entry[0] for entry in key])
        return tape.play(*args)


# %% task="minijit-cache" name="recursion and functools.wraps"
def signature(args):
    if not args:
        return ()
    first, *rest = args
    return ((type_of(first), is_number(first)), *signature(rest))


def reason_for(known, new):
    match [old for old in known if len(old) == len(new)]:
        case [] if known:
            return f"{len(new)} arguments" if len(new) != 1 else "1 argument"
        case []:
            return "first call"
        case alike:
            agree = [sum(a == b for a, b in zip(old, new)) for old in alike]
            nearest = max(range(len(alike)), key=lambda i: (agree[i], i))
            return ", ".join(
                f"argument {i}: {told(a)} -> {told(b)}" for i, (a, b) in enumerate(zip(alike[nearest], new)) if a != b
            )


def minijit(fn):
    @functools.wraps(fn)
    def jitted(*args):
        key = signature(args)
        tapes = CACHE.setdefault(fn, {})
        tapes[key] = tapes[key] if key in tapes else trace(fn, *next(zip(*key)) if key else ())
        return tapes[key].play(*args)

    return jitted


# %% task="cache-key" name="takes the static ones out of the dict"
def cache_key(args, kwargs, static=()):
    fixed = {name: kwargs.pop(name) for name in static if name in kwargs}
    leaves, packing = jax.tree.flatten((args, kwargs))
    return packing, tuple(map(jax.typeof, leaves)), frozenset((k, type(v), v) for k, v in fixed.items())


# %% task="bucket" name="the sizes are a list outside, a helper pads"
sizes = [64, 128, 256, 512, 1024]


def padded(x):
    return np.pad(x, (0, bucket_size(x.size) - x.size))


def bucket_size(length):
    return min(size for size in sizes if size >= length)


@jax.jit
def pair_energy(padded, length):
    real = jnp.arange(padded.size) < length
    distance = jnp.abs(padded[:, None] - padded[None, :])
    both = jnp.outer(real, real)
    return jnp.sum(jnp.exp(-distance), where=both) / jnp.sum(both)


def energy(x):
    return pair_energy(padded(x), x.size)
