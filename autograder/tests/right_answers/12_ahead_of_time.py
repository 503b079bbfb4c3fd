# %% [markdown]
# Right answers to unit 12 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="planner" name="jit's own eval_shape, bisection by the library"
import bisect
import functools


def training_bytes(init, loss, batch):
    params = jax.jit(init).eval_shape(jax.eval_shape(jax.random.key, 0))

    def forward(params, batch):
        _, backward = jax.vjp(functools.partial(loss, batch=batch), params)
        return backward

    return 4 * nbytes(params) + nbytes(jax.jit(forward).eval_shape(params, batch))


def largest_batch(init, loss, row, budget):
    class Rows:
        def __getitem__(self, rows):
            return training_bytes(init, loss, jax.ShapeDtypeStruct((rows + 1, *row.shape), row.dtype))

    most = 1
    while Rows()[most - 1] <= budget:
        most *= 2
    return bisect.bisect_right(Rows(), budget, 0, most)


# %% task="planner" name="one eval_shape for everything"
def training_bytes(init, loss, batch):
    def step(batch):
        params = init(jax.random.key(0))
        value, kept = jax.vjp(lambda params: loss(params, batch), params)
        return [params] * 4, kept

    return nbytes(jax.eval_shape(step, batch))


def largest_batch(init, loss, row, budget):
    rows, bit = 0, 1
    batch_of = lambda rows: jax.ShapeDtypeStruct((rows,) + tuple(row.shape), row.dtype)
    while training_bytes(init, loss, batch_of(bit)) <= budget:
        bit <<= 1
    while bit:
        if training_bytes(init, loss, batch_of(rows + bit)) <= budget:
            rows += bit
        bit >>= 1
    return rows


# %% task="planner" name="make_jaxpr with return_shape, recursion"
def training_bytes(init, loss, batch):
    shape_of = lambda fn: functools.partial(jax.make_jaxpr(fn, return_shape=True))
    _, key = shape_of(lambda: jax.random.key(0))()
    _, params = shape_of(init)(key)
    _, kept = shape_of(lambda p, b: jax.vjp(lambda p: loss(p, b), p)[1])(params, batch)
    return sum((4 * nbytes(params), nbytes(kept)))


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return not rows or training_bytes(init, loss, row.update(shape=(rows, *row.shape))) <= budget

    def search(low, high):  # low fits, high does not
        if high - low == 1:
            return low
        middle = (low + high) // 2
        return search(middle, high) if fits(middle) else search(low, middle)

    high = 1
    while fits(high):
        high *= 4
    return search(0, high)


# %% task="server" name="a class that is called"
class Server:
    def __init__(self, params):
        self.params = params
        self.programs = {size: self.compiled(size) for size in sorted(BUCKETS)}

    def compiled(self, size):
        tokens = jax.ShapeDtypeStruct((size,), np.int32)
        return jax.jit(reply).lower(self.params, tokens, jax.ShapeDtypeStruct((), np.int32)).compile()

    def __call__(self, tokens):
        if len(tokens) > max(BUCKETS):
            raise ValueError("too long")
        size = min(size for size in self.programs if size >= len(tokens))
        padded = np.zeros(size, np.int32)
        padded[: len(tokens)] = tokens
        rows = self.programs[size](self.params, padded, np.int32(len(tokens)))
        return np.array(rows)[: len(tokens)]


def build_server(params):
    return Server(params)


# %% task="server" name="parameters inside, a list and bisect"
import bisect
import functools


def build_server(params):
    params = jax.tree.map(jnp.asarray, params)
    program = jax.jit(lambda tokens, length: reply(params, tokens, length))
    programs = [program.lower(np.zeros(size, np.int32), np.int32(0)).compile() for size in BUCKETS]

    def serve(tokens):
        tokens = np.array(tokens).astype(np.int32)
        place = bisect.bisect_left(BUCKETS, tokens.size)
        if place == len(BUCKETS):
            raise ValueError(f"{tokens.size} tokens are too many")
        padded = np.concatenate([tokens, np.zeros(BUCKETS[place] - tokens.size, np.int32)])
        return jax.device_get(programs[place](padded, np.int32(tokens.size)))[: tokens.size]

    return serve


# %% task="server" name="a jit that was warmed up"
def build_server(params):
    program = jax.jit(functools.partial(reply))

    def run(tokens, size):
        padded = np.pad(tokens, (0, size - len(tokens)), constant_values=7)
        return np.asarray(program(params, padded, np.int32(len(tokens))))[: len(tokens)]

    for size in BUCKETS:
        run(np.ones(size, np.int32), size)

    def serve(tokens):
        tokens = np.fromiter(tokens, np.int32)
        for size in BUCKETS:
            if len(tokens) <= size:
                return run(tokens, size)
        raise ValueError("no bucket is large enough")

    return serve


# %% task="second" name="a class that listens, settings in a dict"
SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def keep_programs(folder):
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    jax.config.update("jax_compilation_cache_dir", os.fspath(folder))
    compilation_cache.reset_cache()


class Listener:
    names = {"compile_requests_use_cache": "asked", "cache_hits": "found", "cache_misses": "written"}

    def __init__(self):
        self.report = dict.fromkeys(self.names.values(), 0)

    def __call__(self, event, **kwargs):
        folder, _, name = event.rpartition("/")
        if folder == "/jax/compilation_cache" and name in self.names:
            self.report[self.names[name]] += 1


def cache_report(run):
    listener = Listener()
    jax.monitoring.register_event_listener(listener)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_listener(listener)
    report = listener.report
    return report | {"passed over": report["asked"] - report["found"] - report["written"]}


# %% task="second" name="a list of events, set_cache_dir"
def keep_programs(folder):
    compilation_cache.reset_cache()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", -1.0)
    compilation_cache.set_cache_dir(str(folder))


def cache_report(run):
    events = []
    listen = lambda event, **_: events.append(event)
    jax.monitoring.register_event_listener(listen)
    run()
    jax.monitoring.unregister_event_listener(listen)
    asked, found, written = (
        sum(event.endswith(end) for event in events) for end in ("requests_use_cache", "/cache_hits", "/cache_misses")
    )
    return dict(zip(["asked", "found", "written", "passed over"], [asked, found, written, asked - found - written]))


# %% task="second" name="a loop of updates, a context manager that counts"
@contextlib.contextmanager
def counting():
    heard = Counter()
    listener = lambda event, **rest: heard.update([event])
    jax.monitoring.register_event_listener(listener)
    try:
        yield heard
    finally:
        jax.monitoring.unregister_event_listener(listener)


def keep_programs(folder):
    compilation_cache.reset_cache()
    for name, value in (("compilation_cache_dir", folder), ("persistent_cache_min_compile_time_secs", 0)):
        jax.config.update(f"jax_{name}", value)


def cache_report(run):
    with counting() as heard:
        run()
    at = "/jax/compilation_cache/"
    report = {"asked": heard[at + "compile_requests_use_cache"], "found": heard[at + "cache_hits"]}
    report["written"] = heard[at + "cache_misses"]
    report["passed over"] = report["asked"] - sum((report["found"], report["written"]))
    return report


# %% task="key" name="one function for all, the time as an array"
@functools.partial(jax.jit, static_argnames="names")
def score(columns, now, names):
    total = jnp.exp((columns["seen"] - now) / 3600)
    for name in names:
        total += WEIGHTS[name] * columns[name]
    return total


def make_scorer(features, now, run):
    names = tuple(sorted(features))
    return functools.partial(score, now=jnp.float32(now), names=names)


# %% task="key" name="weights as an array, a class"
@jax.jit
def weighted(table, weights, seen, now):
    return jnp.exp((seen - now) / 3600) + weights @ table


class Scorer:
    def __init__(self, names, now):
        self.names, self.now = names, now
        self.weights = np.array([WEIGHTS[name] for name in names], np.float32)

    def __call__(self, columns):
        return weighted(np.stack([columns[name] for name in self.names]), self.weights, columns["seen"], self.now)


def make_scorer(features, now, run):
    return Scorer([name for name in WEIGHTS if name in features], now)


# %% task="key" name="the age is calculated outside, in JAX"
def make_scorer(features, now, run):
    features = sorted(features, reverse=True)

    def score(age, columns):
        return jnp.exp(-age / 3600) + sum(WEIGHTS[name] * columns[name] for name in features)

    jitted = jax.jit(score)
    time = jnp.asarray(now)
    return lambda columns: jitted(time - columns["seen"], {name: columns[name] for name in features})


# %% task="key" name="in double precision on the host"
def make_scorer(features, now, run):
    total = jax.jit(lambda decay, parts: jax.tree.reduce(jnp.add, parts, decay))

    def scorer(columns):
        decay = np.exp((columns["seen"].astype(np.float64) - now) / 3600).astype(np.float32)
        return total(decay, {name: np.float32(WEIGHTS[name]) * columns[name] for name in features})

    return scorer


# %% task="export" name="partial, a scope of symbols, rehydrate"
def pack(params):
    (b,) = export.symbolic_shape("rows")
    exporter = export.export(jax.jit(functools.partial(head, params)))
    return exporter(jax.ShapeDtypeStruct((b, 100), np.float32)).serialize()


def unpack(blob):
    exported = export.deserialize(blob)
    return lambda x: exported.call(x)


def promises():
    rows, columns, side = "rows", "columns", "side"
    return dict(
        squared=(f"{side}, {side}", ()),
        four_by_four=(f"4*{rows}, 4*{columns}", []),
        best_five=(f"{rows}, {columns}", ["columns >= 5"]),
        to_sixteen=(f"{rows}, {columns}", ["columns <= 16"]),
    )


# %% task="export" name="symbols without constraints where sums do, jit around call"
def pack(params):
    params = jax.tree.map(jnp.asarray, params)

    @jax.jit
    def scores(x):
        return head(params, x)

    shape = export.symbolic_args_specs((np.zeros((1, 100), np.float32),), ("b, _",))
    return bytes(export.export(scores)(*shape).serialize())


def unpack(blob):
    return jax.jit(export.deserialize(bytearray(blob)).call)


def promises():
    return {
        "squared": ("a, a", ()),
        "four_by_four": ("4*a, 4*b", ()),
        "best_five": ("a, b + 4", ()),
        "to_sixteen": ("a, b", ("b <= 16",)),
    }


# %% task="export" name="a dataclass for a promise, modulo as a constraint"
class Program:
    def __init__(self, exported):
        self.exported = exported

    def __call__(self, x):
        return self.exported.call(jnp.asarray(x, jnp.float32))


def pack(params):
    def scores(x):
        return head(params, x)

    x = jax.ShapeDtypeStruct(export.symbolic_shape("n, 100"), jnp.float32)
    return export.export(jax.jit(scores))(x).serialize(vjp_order=0)


def unpack(blob):
    return Program(export.deserialize(bytearray(blob)))


def promises():
    found = {name: ("n, m", ()) for name in ("best_five", "to_sixteen")}
    found["best_five"] = "n, m", ("m >= 5",)
    found["to_sixteen"] = "n, m", ("16 >= m",)
    return found | {"squared": ("m, m", ()), "four_by_four": ("4*n, 4*m", ())}


# %% task="key" name="a small program that adds one column, called for each"
@jax.jit
def faded(seen, now):
    return jnp.exp((seen - now) / 3600)


@jax.jit
def one_more(total, weight, column):
    return total + weight * column


def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""

    def scorer(columns):
        total = faded(columns["seen"], now)
        for name in sorted(features):
            total = one_more(total, WEIGHTS[name], columns[name])
        return total

    return scorer


# %% task="key" name="no jit at all"
def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    names = sorted(features)

    def scorer(columns):
        total = jnp.exp((columns["seen"] - jnp.float32(now)) / 3600)
        for name in names:
            total = total + jnp.float32(WEIGHTS[name]) * columns[name]
        return total

    return scorer


# %% task="tower" name="two layers in a round of a scan"
@jax.jit
def tower(weights, x):
    def two_layers(x, pair):
        for w, odd in zip(pair, (False, True), strict=True):
            x = layer(x, w, odd)
        return x, None

    x, _ = jax.lax.scan(two_layers, x, weights.reshape(-1, 2, *weights.shape[1:]))
    return x


# %% task="tower" name="even and odd layers, a fori_loop, an index that is traced"
def tower(weights, x):
    def pair(i, x):
        w = jax.lax.dynamic_index_in_dim(weights, 2 * i, keepdims=False)
        x = x + jnp.maximum(x @ w, 0)
        return x + jnp.tanh(x @ weights[2 * i + 1])

    return jax.lax.fori_loop(0, len(weights) // 2, pair, x)


tower = jax.jit(tower)


# %% task="tower" name="a cond chooses the kind of layer"
import functools


@functools.partial(jax.jit)
def tower(weights, x):
    kinds = functools.partial(layer, odd=False), functools.partial(layer, odd=True)

    def step(carry, w):
        x, odd = carry
        return (jax.lax.cond(odd, kinds[1], kinds[0], x, w), ~odd), None

    return jax.lax.scan(step, (x, jnp.bool_(False)), weights)[0][0]


# %% task="tower" name="a while_loop and a switch, a class"
class Tower:
    branches = [jax.nn.relu, jnp.tanh]

    def __init__(self, weights):
        self.weights = weights

    def go_on(self, state):
        return state[0] < self.weights.shape[0]

    def floor(self, state):
        number, x = state
        return number + 1, x + jax.lax.switch(number % 2, self.branches, x @ self.weights[number])

    def __call__(self, x):
        return jax.lax.while_loop(self.go_on, self.floor, (0, x))[1]


tower = jax.jit(lambda weights, x: Tower(weights)(x))


# %% task="tower" name="slices of even and odd layers, tree_map, einsum"
@jax.jit
def tower(weights, x):
    stacked = {"even": weights[0::2], "odd": weights[1::2]}

    def body(carry, ws):
        carry += jax.nn.relu(jnp.einsum("i,ij->j", carry, ws["even"]))
        carry += jnp.tanh(jnp.einsum("i,ij->j", carry, ws["odd"]))
        return carry, ()

    return jax.lax.scan(body, x, stacked, length=weights.shape[0] // 2)[0]


# %% task="second" name="a report that listens"
from dataclasses import dataclass


@dataclass(eq=False)
class Report:
    asked: int = 0
    found: int = 0
    written: int = 0

    def __call__(self, event, **kwargs):
        match event.split("/"):
            case ["", "jax", "compilation_cache", "compile_requests_use_cache"]:
                self.asked += 1
            case ["", "jax", "compilation_cache", "cache_hits"]:
                self.found += 1
            case ["", "jax", "compilation_cache", "cache_misses"]:
                self.written += 1

    @property
    def passed_over(self):
        return self.asked - (self.found + self.written)


def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`."""
    compilation_cache.reset_cache()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_compilation_cache_dir", str(Path(folder)))
    compilation_cache.reset_cache()


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    report = Report()
    jax.monitoring.register_event_listener(report)
    with contextlib.ExitStack() as stack:
        stack.callback(jax.monitoring.unregister_event_listener, report)
        run()
    return {**vars(report), "passed over": report.passed_over}
