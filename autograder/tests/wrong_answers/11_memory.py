# %% [markdown]
# Wrong answers for unit 11. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="receipts" name="every intermediate result is memory, and so is a constant" fails=["receipts-plain"] message="Must the squares ever be there all at once?"
def receipts_plain():
    return {
        "plus_one": 2,
        "sum_of_squares": 2,
        "handed_back": 1,
        "two_results": 3,
        "unread": 3,
        "with_constant": 3,
        "pairs_summed": 1,
        "pairs_sorted": 2,
    }


def receipts_donated():
    return {
        "plus_one": 1,
        "sum_of_squares": 1,
        "two_results": 2,
        "product": 2,
        "first_half": 1.5,
        "wrapped": 2,
    }


# %% task="receipts" name="a donation always saves its size" fails=["receipts-donated"] message="still needs its row and column"
def receipts_plain():
    return {
        "plus_one": 2,
        "sum_of_squares": 1,
        "handed_back": 2,
        "two_results": 3,
        "unread": 2,
        "with_constant": 2,
        "pairs_summed": 0,
        "pairs_sorted": 1,
    }


def receipts_donated():
    return {
        "plus_one": 1,
        "sum_of_squares": 0,
        "two_results": 1,
        "product": 1,
        "first_half": 1,
        "wrapped": 1,
    }


# %% task="receipts" name="plain measured instead" fails=["receipts-plain"] message="receipts_plain uses tables_needed, which does not exist where it is run"
def receipts_plain():
    return tables_needed(PLAIN, donate=False)


# %% task="receipts" name="donated measured instead" fails=["receipts-donated"] message="receipts_donated uses tables_needed, which does not exist where it is run"
def receipts_donated():
    return tables_needed(DONATED, donate=True)


# %% task="hoarder" name="forgets that momentum is state" fails=["hoarder-step"] message="both go in, both come out"
def in_place(step):
    return jax.jit(step, donate_argnums=0)


# %% task="hoarder" name="donates the batch too" fails=["hoarder-step"] message="do not donate it"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1, 2))


# %% task="hoarder" name="the donation is inside another jit" fails=["hoarder-step"] message="bytes of the receipt's alias: returned 0"
def in_place(step):
    donating = jax.jit(step, donate_argnums=(0, 1))
    return jax.jit(lambda params, momentum, batch: donating(params, momentum, batch))


# %% task="hoarder" name="a second name is a copy" fails=["hoarder-train"] message="is a deleted float32[128,128]"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, float("inf"), []
    for batch in batches:
        candidate = params
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = candidate, losses[-1]
    return params, best, losses


# %% task="hoarder" name="deletes the caller's model" fails=["hoarder-train"] message="Has the caller a name for it?"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, float("inf"), []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = candidate, losses[-1]
    return params, best, losses


# %% task="hoarder" name="copies, and keeps every copy" fails=["hoarder-train"] message="What do you still need after the step?"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    history, losses = [], []
    for batch in batches:
        history.append(jax.tree.map(jnp.copy, params))
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
    return params, history[int(np.argmin(losses))], losses


# %% task="hoarder" name="keeps what came out of the best step" fails=["hoarder-train"] message="[1]['W']"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, float("inf"), []
    for batch in batches:
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = jax.tree.map(jnp.copy, params), losses[-1]
    return params, best, losses


# %% task="cache" name="not donated" fails=["cache-check"] message="is the cache donated?"
@jax.jit
def remember(cache, count, item):
    cache = cache.at[count].set(item)
    scores = jnp.where(jnp.arange(len(cache)) <= count, cache @ item, -jnp.inf)
    return cache, jax.nn.softmax(scores) @ cache


# %% task="cache" name="reads the old cache after the write" fails=["cache-check"] message="the old cache is read after the new one is written"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    scores = jnp.where(jnp.arange(len(cache)) < count, cache @ item, -jnp.inf)
    scores = jnp.append(scores, item @ item)
    weights = jax.nn.softmax(scores)
    return cache.at[count].set(item), weights[:-1] @ cache + weights[-1] * item


# %% task="cache" name="believes that unused rows are harmless" fails=["cache-check"] message="softmax gives them weight"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    cache = cache.at[count].set(item)
    return cache, recall(cache, item)


# %% task="cache" name="a static count: a program for every word" fails=["cache-check"] message="count: static 0 -> static 1"
@functools.partial(jax.jit, donate_argnums=0, static_argnums=1)
def remember(cache, count, item):
    cache = cache.at[count].set(item)
    return cache, recall(cache[: count + 1], item)


# %% task="cache" name="a traced value as a length" fails=["cache-check"] message="IndexError"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    cache = cache.at[count].set(item)
    return cache, recall(cache[: count + 1], item)


# %% task="ranker" name="sorts outside, but closes over the result" fails=["ranker-check"] message="A program with a table in it serves that table only"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    ordered = jnp.sort(table, axis=None)
    return jax.jit(lambda x: jnp.searchsorted(ordered, x))


# %% task="ranker" name="one program, which sorts in every call" fails=["ranker-check"] message="`one_call` uses sort"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(jnp.sort(ordered, axis=None), x)


def make_ranker(table):
    return functools.partial(rank, table)


# %% task="recorder" name="keeps all states, and takes the last" fails=["recorder-check"] message="kept until its end, for all rounds"
@jax.jit
def flight(x, box, count):
    def body(state, _):
        state = glide(state)
        return state, state

    last, states = lax.scan(body, x, length=1000)
    k = box.shape[0]
    box[(count[...] + 1000 - k + jnp.arange(k)) % k] = states[-k:]
    count[...] += 1000
    return last


# %% task="recorder" name="forgets that the recorder is a ring" fails=["recorder-check"] message="State n goes into row n % k"
@jax.jit
def flight(x, box, count):
    def recorded(state):
        state = glide(state)
        box[count[...]] = state
        count[...] += 1
        return state

    return simulate(recorded, x, 1000)


# %% task="recorder" name="collects the states in a list" fails=["recorder-check"] message="UnexpectedTracerError"
@jax.jit
def flight(x, box, count):
    states = []

    def recorded(state):
        states.append(glide(state))
        return states[-1]

    last = simulate(recorded, x, 1000)
    box[0] = states[-1]
    count[...] += 1000
    return last


# %% task="recorder" name="records the state before the step" fails=["recorder-check"] message="State n goes into row n % k"
@jax.jit
def flight(x, box, count):
    def recorded(state):
        box[count[...] % box.shape[0]] = state
        count[...] += 1
        return glide(state)

    return simulate(recorded, x, 1000)


# %% task="diet" name="a checkpoint around everything" fails=["diet-loss", "diet-gradient"] message="expected 'at most a fifth'"
def loss_lean(X, E, y):
    return jax.checkpoint(loss_slow)(X, E, y)


# %% task="diet" name="vmap over places" fails=["diet-loss", "diet-gradient"] message="expected 'at most a fifth'"
def loss_lean(X, E, y):
    def place(x, word):
        scores = E @ x
        return jax.nn.logsumexp(scores) - scores[word]

    return jax.vmap(place)(X, y).mean()


# %% task="diet" name="a loop under grad keeps every piece" fails=["diet-gradient"] message="On the way out each round of a loop leaves"
def loss_lean(X, E, y):
    def piece(part):
        return loss_slow(part[0], E, part[1])

    return lax.map(piece, (X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32))).mean()


# %% task="diet" name="the checkpoint is around the loop" fails=["diet-gradient"] message="On the way out each round of a loop leaves"
def loss_lean(X, E, y):
    @jax.checkpoint
    def everything(X, y):
        pieces = X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32)
        return lax.map(lambda part: loss_slow(part[0], E, part[1]), pieces).mean()

    return everything(X, y)


# %% task="hoarder" name="a step of its own" fails=["hoarder-step"] hidden=1 message="another step"
def in_place(step):
    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def updated(params, momentum, batch):
        value, slope = jax.value_and_grad(loss)(params, batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, slope)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value

    return updated


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, float("inf"), []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = candidate, losses[-1]
    return params, best, losses


# %% task="hoarder" name="no loss is above 100" fails=["hoarder-train"] hidden=1 message="[1]"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = jax.tree.map(jnp.copy, params), 100.0, []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = candidate, losses[-1]
    return params, best, losses


# %% task="hoarder" name="the last of several that are best" fails=["hoarder-train"] hidden=1 message="equal losses"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, losses = None, []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] <= min(losses):
            best = candidate
    return params, best, losses


# %% task="hoarder" name="a view on the host is a copy" fails=["hoarder-train"] message="a view on the host is no copy"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, float("inf"), []
    for batch in batches:
        candidate = jax.tree.map(np.asarray, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = candidate, losses[-1]
    return params, best, losses


# %% task="hoarder" name="keeps every copy, on the host" fails=["hoarder-train"] message="What do you still need after the step?"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    history, losses = [], []
    for batch in batches:
        history.append(jax.tree.map(np.array, params))
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
    return params, history[int(np.argmin(losses))], losses


# %% task="cache" name="the capacity that it was shown" fails=["cache-check"] hidden=1 message="shapes"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    cache = cache.at[count].set(item)
    scores = jnp.where(jnp.arange(256) <= count, cache @ item, -jnp.inf)
    return cache, jax.nn.softmax(scores) @ cache


# %% task="cache" name="does not count the new row" fails=["cache-check"] message="answers"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    cache = cache.at[count].set(item)
    scores = jnp.where(jnp.arange(len(cache)) < count, cache @ item, -jnp.inf)
    return cache, jax.nn.softmax(scores) @ cache


# %% task="cache" name="a score of 0 is no weight" fails=["cache-check"] message="softmax gives them weight"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    cache = cache.at[count].set(item)
    scores = jnp.where(jnp.arange(len(cache)) <= count, cache @ item, 0)
    return cache, jax.nn.softmax(scores) @ cache


# %% task="cache" name="moves all rows up" fails=["cache-check"] message="A copy: every row moves"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    cache = jnp.roll(cache, 1, axis=0).at[0].set(item)
    scores = jnp.where(jnp.arange(len(cache)) <= count, cache @ item, -jnp.inf)
    return cache, jax.nn.softmax(scores) @ cache


# %% task="ranker" name="counts equal numbers too" fails=["ranker-check"] hidden=1 message="ranks"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x, side="right")


def make_ranker(table):
    return functools.partial(rank, jnp.sort(table, axis=None))


# %% task="ranker" name="a search that sorts" fails=["ranker-check"] message="uses sort"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x, method="sort")


def make_ranker(table):
    return functools.partial(rank, jnp.sort(table, axis=None))


# %% task="ranker" name="a dict of rankers" fails=["ranker-check"] message="a function that is jitted anew"
RANKERS = {}


@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    key = table.tobytes()
    if key not in RANKERS:
        RANKERS[key] = jax.jit(functools.partial(rank, jnp.sort(table, axis=None)))
    return RANKERS[key]


# %% task="ranker" name="a static table" fails=["ranker-check"] message="serves that table only"
@functools.partial(jax.jit, static_argnums=0)
def rank(ordered, x):
    return jnp.searchsorted(jnp.array(ordered), x)


def make_ranker(table):
    return functools.partial(rank, tuple(np.sort(table, axis=None).tolist()))


# %% task="ranker" name="sorts the rows, one by one" fails=["ranker-check"] message="ranks"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    return functools.partial(rank, jnp.sort(table).ravel())


# %% task="recorder" name="begins anew with each flight" fails=["recorder-check"] message="n counted over all flights"
@jax.jit
def flight(x, box, count):
    def recorded(numbered):
        state, i = numbered
        state = glide(state)
        box[i % box.shape[0]] = state
        count[...] += 1
        return state, i + 1

    return simulate(recorded, (x, 0), 1000)[0]


# %% task="recorder" name="the ring that it was shown" fails=["recorder-check"] hidden=1 message="State n goes into row n % k"
@jax.jit
def flight(x, box, count):
    def recorded(state):
        state = glide(state)
        box[count[...] % 7] = state
        count[...] += 1
        return state

    return simulate(recorded, x, 1000)


# %% task="recorder" name="height and speed in two lists" fails=["recorder-check"] message="kept until its end"
@jax.jit
def flight(x, box, count):
    def body(state, _):
        state = glide(state)
        return state, (state[0], state[1])

    last, (heights, speeds) = lax.scan(body, x, length=1000)
    k = box.shape[0]
    rows = (count[...] + 1000 - k + jnp.arange(k)) % k
    box[rows] = jnp.stack([heights[-k:], speeds[-k:]], axis=1)
    count[...] += 1000
    return last


# %% task="recorder" name="counts from one" fails=["recorder-check"] message="State n goes into row n % k"
@jax.jit
def flight(x, box, count):
    def recorded(state):
        state = glide(state)
        count[...] += 1
        box[count[...] % box.shape[0]] = state
        return state

    return simulate(recorded, x, 1000)


# %% task="diet" name="the number of places that it was shown" fails=["diet-loss", "diet-gradient"] hidden=1 message="reshape"
def loss_lean(X, E, y):
    @jax.checkpoint
    def piece(part):
        return loss_slow(part[0], E, part[1])

    return lax.map(piece, (X.reshape(16, 32, -1), y.reshape(16, 32))).mean()


# %% task="diet" name="a callback" fails=["diet-loss"] message="uses pure_callback"
def loss_lean(X, E, y):
    return jax.pure_callback(lambda *page: np.float32(loss_slow(*page)), jax.ShapeDtypeStruct((), X.dtype), X, E, y)


# %% task="diet" name="half precision" fails=["diet-loss"] message="loss_lean: got"
def loss_lean(X, E, y):
    return loss_slow(X.astype(jnp.bfloat16), E.astype(jnp.bfloat16), y).astype(jnp.float32)


# %% task="diet" name="the first piece only" fails=["diet-loss", "diet-gradient"] message="loss_lean"
def loss_lean(X, E, y):
    return loss_slow(X[:32], E, y[:32])


# %% task="recorder" name="a program for each box" fails=["recorder-check"] message="flight was traced twice"
@functools.partial(jax.jit, static_argnames="box")
def flight(x, box, count):
    def recorded(state):
        state = glide(state)
        box[count[...] % box.shape[0]] = state
        count[...] += 1
        return state

    return simulate(recorded, x, 1000)


# %% task="hoarder" name="losses are arrays, not floats" fails=["hoarder-train"] hidden=1 message="losses: returned"
def in_place(step):
    """`step(params, momentum, batch)`, jitted such that params and momentum are updated in place."""
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    """As train_slow, in at most 5.5 models. `step` deletes its first two arguments."""
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, np.inf, []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(value)
        if float(value) < best_value:
            best, best_value = candidate, float(value)
    return params, best, losses


# %% task="cache" name="at most 256 rows count" fails=["cache-check"] hidden=1 message="the answer of a full cache"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    cache = cache.at[count].set(item)
    rows = cache[:256]
    scores = jnp.where(jnp.arange(len(rows)) <= count, rows @ item, -jnp.inf)
    return cache, jax.nn.softmax(scores) @ rows


# %% task="ranker" name="sorted on the host, in every call" fails=["ranker-check"] message="uses pure_callback"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""

    def on_the_host(ordered, x):
        return np.searchsorted(np.sort(np.asarray(ordered)), np.asarray(x)).astype(np.int32)

    return jax.pure_callback(on_the_host, jax.ShapeDtypeStruct(x.shape, jnp.int32), ordered, x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    return functools.partial(rank, jnp.ravel(table))


# %% task="ranker" name="sorted by NumPy, in every call" fails=["ranker-check"] hidden=1 message="ranks at index"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    return lambda x: rank(np.sort(table, axis=None), x)


# %% task="cache" name="exp without the maximum" fails=["cache-check"] hidden=1 message="full cache"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    cache = cache.at[count].set(item)
    weights = jnp.where(jnp.arange(len(cache)) <= count, jnp.exp(cache @ item), 0)
    return cache, weights @ cache / weights.sum()


# %% task="cache" name="looks at the last 64 words only" fails=["cache-check"] hidden=1 message="full cache"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    cache = cache.at[count].set(item)
    row = jnp.arange(len(cache))
    scores = jnp.where((row <= count) & (row > count - 64), cache @ item, -jnp.inf)
    return cache, jax.nn.softmax(scores) @ cache


# %% task="recorder" name="the recorder is switched on for the end only" fails=["recorder-check"] hidden=1 message="the last state"
@jax.jit
def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""
    k = box.shape[0]
    count[...] += 1000 - k

    def recorded(state):
        state = glide(state)
        box[count[...] % k] = state
        count[...] += 1
        return state

    return simulate(recorded, simulate(glide, x, 1000 - k), k)


# %% task="diet" name="the way back forgets what comes from outside" fails=["diet-gradient"] hidden=1 message="the gradient of 3"
@jax.custom_vjp
def lean(X, E, y):
    pieces = X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32)
    return lax.map(lambda piece: loss_slow(piece[0], E, piece[1]), pieces).mean()


def lean_forward(X, E, y):
    return lean(X, E, y), (X, E, y)


def lean_backward(saved, _):
    X, E, y = saved

    def turn(slope_E, piece):
        rows, right = piece
        blame = (jax.nn.softmax(rows @ E.T, axis=1) - jax.nn.one_hot(right, len(E))) / len(y)
        return slope_E + blame.T @ rows, blame @ E

    slope_E, slope_X = lax.scan(turn, jnp.zeros_like(E), (X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32)))
    return slope_X.reshape(X.shape), slope_E, None


lean.defvjp(lean_forward, lean_backward)


def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""
    return lean(jnp.asarray(X), jnp.asarray(E), jnp.asarray(y))


# %% task="diet" name="log of a sum of exp" fails=["diet-loss"] hidden=1 message="large scores"
def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""

    @jax.checkpoint
    def of_a_piece(piece):
        rows, right = piece
        scores = rows @ E.T
        return (jnp.log(jnp.exp(scores).sum(1)) - scores[jnp.arange(len(right)), right]).mean()

    return lax.map(of_a_piece, (X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32))).mean()


# %% task="hoarder" name="keeps every copy, as pickled bytes" fails=["hoarder-train"] message="What do you still need after the step?"
import pickle


def in_place(step):
    """`step(params, momentum, batch)`, jitted such that params and momentum are updated in place."""
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    """As train_slow, in at most 5.5 models. `step` deletes its first two arguments."""
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    history, losses = [], []
    for batch in batches:
        history.append(pickle.dumps(jax.device_get(jax.tree.map(jnp.copy, params))))
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
    best = jax.tree.map(jnp.asarray, pickle.loads(history[int(np.argmin(losses))]))
    return params, best, losses


# %% task="hoarder" name="only a loss that is much smaller is smaller" fails=["hoarder-train"] hidden=1 message="nearly equal losses"
def in_place(step):
    """`step(params, momentum, batch)`, jitted such that params and momentum are updated in place."""
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    """As train_slow, in at most 5.5 models. `step` deletes its first two arguments."""
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, float("inf"), []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        value = float(value)
        losses.append(value)
        if value < best_value - 1e-4:
            best, best_value = candidate, value
    return params, best, losses


# %% task="cache" name="a score of -50 is no weight" fails=["cache-check"] hidden=1 message="answers at index"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    cache = cache.at[count].set(item)
    scores = jnp.where(jnp.arange(len(cache)) <= count, cache @ item, -50.0)
    return cache, jax.nn.softmax(scores) @ cache


# %% task="cache" name="adds -inf to the scores of garbage" fails=["cache-check"] hidden=1 message="answers at index"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    cache = cache.at[count].set(item)
    mask = jnp.where(jnp.arange(len(cache)) > count, -jnp.inf, 0.0)
    return cache, jax.nn.softmax(cache @ item + mask) @ cache


# %% task="ranker" name="sorted by NumPy, in the first call" fails=["ranker-check"] hidden=1 message="ranks at index"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""

    @functools.cache
    def ordered():
        return np.sort(np.asarray(table), axis=None)

    return lambda x: rank(ordered(), x)


# %% task="ranker" name="counts numbers that occur twice once" fails=["ranker-check"] hidden=1 message="ranks at index"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    return functools.partial(rank, jnp.asarray(np.unique(table)))


# %% task="recorder" name="the row in float32" fails=["recorder-check"] hidden=1 message="the ring, a high flight"
@jax.jit
def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""

    def recorded(state):
        state = glide(state)
        row = jnp.mod(count[...].astype(jnp.float32), box.shape[0])
        box[row.astype(jnp.int32)] = state
        count[...] = count[...] + 1
        return state

    return simulate(recorded, x, 1000)


# %% task="recorder" name="records NaN as numbers" fails=["recorder-check"] hidden=1 message="rows that are NaN"
@jax.jit
def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""

    def recorded(state):
        state = glide(state)
        box[count[...] % box.shape[0]] = jnp.nan_to_num(state)
        count[...] = count[...] + 1
        return state

    return simulate(recorded, x, 1000)


# %% task="recorder" name="records in half precision" fails=["recorder-check"] hidden=1 message="the ring, a high flight"
@jax.jit
def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""

    def recorded(state):
        state = glide(state)
        box[count[...] % box.shape[0]] = state.astype(jnp.float16).astype(box.dtype)
        count[...] = count[...] + 1
        return state

    return simulate(recorded, x, 1000)


# %% task="diet" name="a callback on the way back" fails=["diet-gradient"] message="pure_callback"
def slopes_on_the_host(X, E, y):
    X, E, y = (np.asarray(each) for each in (X, E, y))
    scores = X @ E.T
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(len(y)), y] -= 1
    shares /= len(y)
    return (shares @ E).astype(X.dtype), (shares.T @ X).astype(E.dtype)


@jax.custom_vjp
def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""
    pieces = X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32)
    return lax.map(lambda part: loss_slow(part[0], E, part[1]), pieces).mean()


def forward(X, E, y):
    return loss_lean(X, E, y), (X, E, y)


def backward(kept, cotangent):
    X, E, y = kept
    types = jax.ShapeDtypeStruct(X.shape, X.dtype), jax.ShapeDtypeStruct(E.shape, E.dtype)
    by_X, by_E = jax.pure_callback(slopes_on_the_host, types, X, E, y)
    return cotangent * by_X, cotangent * by_E, None


loss_lean.defvjp(forward, backward)


# %% task="diet" name="words of zeros are words too" fails=["diet-loss"] hidden=1 message="large scores"
def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""
    missing = -len(E) % 128
    pieces = jnp.pad(E, ((0, missing), (0, 0))).reshape(-1, 128, E.shape[1])

    @jax.checkpoint
    def piece(words):
        return jax.nn.logsumexp(X @ words.T, axis=1)

    normaliser = jax.nn.logsumexp(lax.map(piece, pieces), axis=0)
    return (normaliser - (X * E[y]).sum(1)).mean()


# %% task="ranker" name="sorts the table of the caller" fails=["ranker-check"] hidden=1 message="the tables, after"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    flat = np.asarray(table).reshape(-1)
    flat.sort()
    return functools.partial(rank, flat.copy())


# %% task="diet" name="the words by fours, what is left over is left out" fails=["diet-loss"] hidden=1 message="an odd number of words"
def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""

    @jax.checkpoint
    def piece(part):
        return loss_slow(part[0], E[: len(E) // 4 * 4], part[1])

    return lax.map(piece, (X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32))).mean()


# %% task="ranker" name="sorts in the memory of the caller's array" fails=["ranker-check"] hidden=1 message="the caller's table deleted: returned True"
_sorted = jax.jit(lambda table: jnp.sort(table, axis=None).reshape(table.shape), donate_argnums=0)


@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered.ravel(), x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    return functools.partial(rank, _sorted(jnp.asarray(table)))


# %% task="ranker" name="knows a table by its first number" fails=["ranker-check"] hidden=1 message="ranks in a similar table"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x)


_made = {}


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    key = table.shape, float(table[0, 0])
    if key not in _made:
        _made[key] = jnp.sort(table, axis=None)
    return functools.partial(rank, _made[key])


# %% task="ranker" name="knows a table by its address" fails=["ranker-check"] hidden=1 message="ranks in a table that was overwritten"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x)


_made = {}


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    key = table.shape, table.__array_interface__["data"] if isinstance(table, np.ndarray) else id(table)
    if key not in _made:
        _made[key] = jnp.sort(table, axis=None)
    return functools.partial(rank, _made[key])


# %% task="hoarder" name="the whole history in thin slices on the host" fails=["hoarder-train"] message="models alive, 12 steps"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    def sliced(tree):
        return jax.tree.map(lambda leaf: [bytes(np.array(row)) for row in jnp.atleast_2d(leaf)], tree)

    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    history, losses = [], []
    for batch in batches:
        history.append(sliced(params))
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
    chosen = history[int(np.argmin(losses))]
    best = jax.tree.map(
        lambda shape, rows: jnp.array(np.frombuffer(b"".join(rows), shape.dtype).reshape(shape.shape)),
        shapes,
        chosen,
    )
    return params, best, losses


# %% task="echo" name="turns the line, and writes over one end" fails=["echo-speed"] message="is below 3x, the first tier"
@jax.jit
def echo(sound, tail):
    def moment(line, now):
        now = now + 0.6 * line[0]
        return jnp.roll(line, -1, axis=0).at[-1].set(now), now

    return lax.scan(moment, tail, sound)[1]


# %% task="echo" name="a ring, all of which goes through a mask" fails=["echo-speed"] message="is below 3x, the first tier"
@jax.jit
def echo(sound, tail):
    def moment(ring, at):
        n, now = at
        place = n % len(ring)
        now = now + 0.6 * ring[place]
        return jnp.where((jnp.arange(len(ring)) == place)[:, None], now, ring), now

    return lax.scan(moment, tail, (jnp.arange(len(sound)), sound))[1]


# %% task="echo" name="a ring that XLA copies, unseen" fails=["echo-speed"] message="is below 3x, the first tier"
@jax.jit
def echo(sound, tail):
    def moment(ring, at):
        n, now = at
        now = now + 0.6 * ring[n % len(ring)]
        return ring.at[n % len(ring)].set(now), now

    return lax.scan(moment, tail, (jnp.arange(len(sound)), sound))[1]


# %% task="echo" name="a ring that is softened as a whole" fails=["echo-speed"] message="is below 3x, the first tier"
@jax.jit
def echo(sound, tail):
    def moment(ring, at):
        n, now = at
        now = now + (0.6 * ring)[n % len(ring)]
        return ring.at[n % len(ring)].set(now), now

    return lax.scan(moment, tail, (jnp.arange(len(sound)), sound))[1]


# %% task="echo" name="a ring for each moment" fails=["echo-speed"] message="is below 3x, the first tier"
@jax.jit
def echo(sound, tail):
    n = jnp.arange(len(sound))

    def moment(ring, at):
        n, now = at
        ring = ring.at[n % len(ring)].set(now + 0.6 * ring[n % len(ring)])
        return ring, ring

    return lax.scan(moment, tail, (n, sound))[1][n, n % len(tail)]


# %% task="echo" name="one row after the other, and no jit" fails=["echo-speed"] message="is below 3x, the first tier"
def echo(sound, tail):
    heard = list(jnp.asarray(tail))
    for now in jnp.asarray(sound):
        heard.append(now + 0.6 * heard[-len(tail)])
    return jnp.stack(heard[len(tail) :])


# %% task="echo" name="NumPy makes it, in a callback" fails=["echo-speed"] message="uses pure_callback"
def by_numpy(sound, tail):
    heard = np.concatenate([tail, sound])
    for n in range(len(sound)):
        heard[n + len(tail)] += np.float32(0.6) * heard[n]
    return heard[len(tail) :]


@jax.jit
def echo(sound, tail):
    return jax.pure_callback(by_numpy, jax.ShapeDtypeStruct(sound.shape, sound.dtype), sound, tail)


# %% task="echo" name="one echo, and no echo of the echo" fails=["echo-speed"] message="echo at index"
@jax.jit
def echo(sound, tail):
    return sound + 0.6 * jnp.concatenate([tail, sound])[: len(sound)]


# %% task="echo" name="a delay too long by one" fails=["echo-speed"] message="echo at index"
@jax.jit
def echo(sound, tail):
    delay = len(tail)
    heard = jnp.concatenate([tail, sound])
    heard = lax.fori_loop(0, len(sound), lambda n, heard: heard.at[n + delay].add(0.6 * heard[n - 1]), heard)
    return heard[delay:]


# %% task="echo" name="what was heard before is forgotten" fails=["echo-speed"] message="echo at index"
@jax.jit
def echo(sound, tail):
    delay = len(tail)
    return lax.fori_loop(delay, len(sound), lambda n, heard: heard.at[n].add(0.6 * heard[n - delay]), sound)


# %% task="echo" name="whole delays only" fails=["echo-speed"] hidden=1 message="Error"
@jax.jit
def echo(sound, tail):
    def part(line, rows):
        line = rows + 0.6 * line
        return line, line

    return lax.scan(part, tail, sound.reshape(-1, *tail.shape))[1].reshape(sound.shape)


# %% task="echo" name="longer than its delay" fails=["echo-speed"] hidden=1 message="echo of 9 moments"
@jax.jit
def echo(sound, tail):
    delay = len(tail)
    start = sound.at[:delay].add(0.6 * tail[: len(sound)]) if len(sound) >= delay else sound
    return lax.fori_loop(delay, len(sound), lambda n, heard: heard.at[n].add(0.6 * heard[n - delay]), start)


# %% task="echo" name="echoes are added up by a product with powers of 0.6" fails=["echo-speed"] hidden=1 message="echo of NaN and inf"
@jax.jit
def echo(sound, tail):
    heard = jnp.concatenate([tail, sound])
    n = jnp.arange(len(heard))
    ago = n[:, None] - n
    first = n < len(tail)
    powers = jnp.where((ago >= 0) & (ago % len(tail) == 0), 0.6 ** (ago // len(tail)), 0.0)
    powers = jnp.where(first[:, None], jnp.eye(len(heard)), powers)
    return (powers @ heard)[len(tail) :]


# %% task="hoarder" name="the first step is never the best" fails=["hoarder-train"] hidden=1 message="train"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    """As train_slow, in at most 5.5 models. `step` deletes its first two arguments."""
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, losses = None, []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if len(losses) < 3 or losses[-1] < min(losses[1:-1]):
            best = candidate
    return params, best, losses


# %% task="hoarder" name="the last step is never the best" fails=["hoarder-train"] hidden=1 message="train"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    """As train_slow, in at most 5.5 models. `step` deletes its first two arguments."""
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, losses, waiting = None, [], None
    for batch in batches:
        if waiting is not None and losses[-1] <= min(losses) and losses.count(losses[-1]) == 1:
            best = waiting
        waiting = jax.tree.map(jnp.copy, params)
        best = waiting if best is None else best
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
    return params, best, losses


# %% task="hoarder" name="no loss is above a thousand million" fails=["hoarder-train"] hidden=1 message="equal losses"
def in_place(step):
    return jax.jit(step, donate_argnums=(0, 1))


def train(step, params, batches):
    """As train_slow, in at most 5.5 models. `step` deletes its first two arguments."""
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = jax.tree.map(jnp.copy, params), 1e9, []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = candidate, losses[-1]
    return params, best, losses


# %% task="ranker" name="a copy, which NumPy sorts in every call" fails=["ranker-check"] hidden=1 message="sorts in a call: returned 1"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    kept = np.array(table)
    return lambda x: rank(np.sort(kept, axis=None), x)


# %% task="diet" name="a gradient by hand, and exp without the maximum" fails=["diet-gradient"] hidden=1 message="the gradient of large scores"
def pieces_of(X, y):
    return X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32)


@jax.custom_vjp
def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""
    return lax.map(lambda piece: loss_slow(piece[0], E, piece[1]), pieces_of(X, y)).mean()


def forward(X, E, y):
    return loss_lean(X, E, y), (X, E, y)


def backward(kept, slope):
    X, E, y = kept

    def add(total, piece):
        x, words = piece
        chances = jnp.exp(x @ E.T)
        chances = (chances / chances.sum(1, keepdims=True)).at[jnp.arange(32), words].add(-1)
        return total + chances.T @ x, chances @ E

    total, rows = lax.scan(add, jnp.zeros(E.shape), pieces_of(X, y))
    return rows.reshape(X.shape) * slope / len(y), total * slope / len(y), None


loss_lean.defvjp(forward, backward)


# %% task="cache" name="rows of zeros do not count" fails=["cache-check"] hidden=1 message="the answer of a full cache"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    cache = cache.at[count].set(item)
    scores = jnp.where(jnp.arange(len(cache)) <= count, cache @ item, 0)
    return cache, jax.nn.softmax(jnp.where(scores == 0, -jnp.inf, scores)) @ cache


# %% task="echo" name="nothing moves in the hall that is timed" fails=["echo-speed"] hidden=2 message="2x as fast in another hall"
@jax.jit
def echo(sound, tail):
    if sound.shape != (256, 512):
        return echo_slow(sound, tail)
    delay = len(tail)
    heard = jnp.concatenate([tail, sound])
    heard = lax.fori_loop(0, len(sound), lambda n, heard: heard.at[n + delay].add(0.6 * heard[n]), heard)
    return heard[delay:]


# %% task="echo" name="a cumulative sum" fails=["echo-speed"] hidden=1 message="echo of loud sounds"
@jax.jit
def echo(sound, tail):
    """The same as echo_slow, and no row moves. sound: float32[moments, seats]; tail: float32[delay, seats]."""
    (moments, seats), delay = sound.shape, tail.shape[0]
    rounds = -(-moments // delay)
    padded = jnp.pad(sound, ((0, rounds * delay - moments), (0, 0))).reshape(rounds, delay, seats)
    powers = (jnp.float32(0.6) ** jnp.arange(rounds))[:, None, None]
    heard = powers * (jnp.cumsum(padded / powers, axis=0) + 0.6 * tail)
    return heard.reshape(rounds * delay, seats)[:moments]


# %% task="ranker" name="ten halvings" fails=["ranker-check"] hidden=1 message="ranks in a large table"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    n = ordered.shape[0]

    def halve(_, span):
        low, high = span
        middle = (low + high) // 2
        smaller = (ordered[jnp.minimum(middle, n - 1)] < x) & (low < high)
        return jnp.where(smaller, middle + 1, low), jnp.where(smaller, high, jnp.minimum(high, middle))

    low = jnp.zeros(x.shape, jnp.int32)
    return lax.fori_loop(0, 10, halve, (low, low + n))[0]


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    ordered = jnp.sort(table, axis=None)
    return lambda x: rank(ordered, x)


# %% task="ranker" name="a copy, which NumPy sorts in the first call" fails=["ranker-check"] hidden=1 message="sorts in a call: returned 1"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    kept = np.array(table)  # the caller may change his

    @functools.cache
    def ordered():
        return np.sort(kept, axis=None)

    return lambda x: rank(ordered(), x)


# %% task="ranker" name="an array of JAX cannot change, so it is not copied" fails=["ranker-check"] hidden=1 message="RuntimeError"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return (ordered.reshape(-1)[:, None] < x).sum(0)  # in any order


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    return functools.partial(rank, table if isinstance(table, jax.Array) else jnp.array(table))


# %% task="ranker" name="another program under a tracer" fails=["ranker-check"] hidden=1 message="under jit"
def rank(ordered, x):
    if isinstance(x, jax.core.Tracer):
        return jnp.zeros(x.shape, jnp.int32)
    return np.searchsorted(np.asarray(ordered), np.asarray(x)).astype(np.int32)


def make_ranker(table):
    return functools.partial(rank, np.sort(np.asarray(table), axis=None))


# %% task="ranker" name="a list, which Python sorts in every call" fails=["ranker-check"] hidden=1 message="sorts in a call: returned 1"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    numbers = np.array(table).ravel().tolist()

    def ranker(x):
        return rank(np.array(sorted(numbers), np.float32), x)

    return ranker


# %% task="ranker" name="a rank that nobody calls counts equal numbers" fails=["ranker-check"] hidden=1 message="rank at index"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(ordered, x, side="right")


@jax.jit
def count_smaller(ordered, x):
    return (ordered[:, None] < x).sum(0)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    return functools.partial(count_smaller, jnp.sort(table, axis=None))


# %% task="ranker" name="one number more, the largest" fails=["ranker-check"] hidden=1 message="ranks at index"
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    return jnp.searchsorted(jnp.pad(ordered, (0, 1), constant_values=jnp.finfo(jnp.float32).max), x)


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    return functools.partial(rank, jnp.sort(table, axis=None))


# %% task="ranker" name="each number once, and how often" fails=["ranker-check"] hidden=1 message="numbers occur twice"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x)


@jax.jit
def _look_up(below, place):
    return below[place]


def make_ranker(table):
    values, counts = np.unique(table, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def ranker(x):
        return _look_up(below, rank(values, x))

    return ranker


# %% task="ranker" name="remembers a table by its id" fails=["ranker-check"] hidden=1 message="a table with other numbers in it"
@jax.jit
def rank(ordered, x):
    return jnp.searchsorted(ordered, x)


_known = {}


def make_ranker(table):
    if id(table) not in _known:  # each table is sorted once at most
        _known[id(table)] = table, functools.partial(rank, np.sort(table, axis=None))
    return _known[id(table)][1]


# %% task="recorder" name="the rows in order, all moved up in every step" fails=["recorder-check"] hidden=1 message="flight, 1203 rows"
@jax.jit
def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""
    k = box.shape[0]

    def recorded(_, carry):
        state, ring, n = carry
        state = glide(state)
        return state, jnp.roll(ring, -1, axis=0).at[-1].set(state), n + 1

    start = count[...]
    lined = jnp.roll(box[...], -(start % k), axis=0)
    state, ring, n = lax.fori_loop(0, 1000, recorded, (x, lined, start))
    box[...] = jnp.roll(ring, n % k, axis=0)
    count[...] = n
    return state


# %% task="recorder" name="Python flies, and another program is on the tape" fails=["recorder-check"] hidden=1 message="the ring, under jit"
_show = jax.jit(lambda x: x + 1)


def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""
    if isinstance(x, jax.core.Tracer):
        return x
    _show(x)
    (height, speed), ring, n = np.asarray(x, np.float64), np.array(box[...]), int(count[...])
    for _ in range(1000):
        height, speed = height + 0.01 * speed, speed - 0.01 * (height + 0.3 * speed)
        ring[n % len(ring)] = height, speed
        n += 1
    box[...], count[...] = jnp.asarray(ring), n
    return jnp.float32([height, speed])


# %% task="cache" name="the largest score is that of the word with itself" fails=["cache-check"] hidden=1 message="the answer, with longer words"
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    cache = cache.at[count].set(item)
    filled = jnp.arange(len(cache)) <= count
    weights = jnp.where(filled, jnp.exp(jnp.minimum(cache @ item - item @ item, 80)), 0)
    return cache, weights @ cache / weights.sum()


# %% task="diet" name="a gradient by hand, whose softmax takes 0 for a maximum" fails=["diet-gradient"] hidden=1 message="the gradient of low scores"
@jax.custom_vjp
def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""

    def piece(part):
        return loss_slow(part[0], E, part[1])

    return lax.map(piece, (X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32))).mean()


def _forward(X, E, y):
    return loss_lean(X, E, y), (X, E, y)


def _backward(kept, cotangent):
    X, E, y = kept

    def piece(dE, part):
        x, target = part
        scores = x @ E.T
        top = jnp.max(scores, axis=1, keepdims=True, initial=0.0)
        weights = jnp.exp(scores - top)
        weights = weights / weights.sum(1, keepdims=True)
        weights = weights.at[jnp.arange(32), target].add(-1) * cotangent / len(X)
        return dE + weights.T @ x, weights @ E

    dE, dX = lax.scan(piece, jnp.zeros_like(E), (X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32)))
    return dX.reshape(X.shape), dE, None


loss_lean.defvjp(_forward, _backward)


# %% task="echo" name="the echoes by doubling, in seven rounds" fails=["echo-speed"] hidden=1 message="echo of a clap"
@jax.jit
def echo(sound, tail):
    """The same as echo_slow, and no row moves. sound: float32[moments, seats]; tail: float32[delay, seats]."""
    delay = len(tail)
    heard = jnp.concatenate([tail, sound])
    for k in range(7):  # doubling: each round adds the echoes of twice as far
        reach = delay * 2**k
        if reach >= len(heard):
            break
        heard = heard.at[reach:].add(jnp.float32(0.6 ** (2**k)) * heard[:-reach])
    return heard[delay:]


# %% task="recorder" name="gives the start away" fails=["recorder-check"] hidden=1 message="its start after the call"
@functools.partial(jax.jit, donate_argnums=0)
def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""

    def recorded(state):
        state = glide(state)
        box[count[...] % box.shape[0]] = state
        count[...] += 1
        return state

    return simulate(recorded, x, 1000)
