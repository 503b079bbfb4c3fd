# %% [markdown]
# Wrong answers for unit 12. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="stages" name="every road traces anew" fails=["stages-traces"] message="ask for the same trace"
def traces():
    return {
        "look_only": 1,
        "three_loweries": 3,
        "look_then_call": 3,
        "ahead_then_jit": 2,
        "ahead_five_calls": 1,
        "ahead_then_forget": 2,
        "jit_then_forget": 2,
        "export_and_call": 4,
    }


def compiles():
    return {
        "look_only": 0,
        "three_loweries": 0,
        "look_then_call": 1,
        "ahead_then_jit": 1,
        "ahead_five_calls": 1,
        "ahead_then_forget": 1,
        "jit_then_forget": 2,
        "export_and_call": 3,
    }


# %% task="stages" name="jit knows nothing of what was compiled ahead" fails=["stages-compiles"] message="jit looks for what was compiled from the same lowering"
def traces():
    return {
        "look_only": 1,
        "three_loweries": 3,
        "look_then_call": 1,
        "ahead_then_jit": 1,
        "ahead_five_calls": 1,
        "ahead_then_forget": 1,
        "jit_then_forget": 2,
        "export_and_call": 1,
    }


def compiles():
    return {
        "look_only": 0,
        "three_loweries": 0,
        "look_then_call": 1,
        "ahead_then_jit": 2,
        "ahead_five_calls": 1,
        "ahead_then_forget": 1,
        "jit_then_forget": 2,
        "export_and_call": 3,
    }


# %% task="stages" name="a file with symbols is compiled once" fails=["stages-compiles"] message="Machine code has a shape"
def traces():
    return {
        "look_only": 0,
        "three_loweries": 3,
        "look_then_call": 1,
        "ahead_then_jit": 1,
        "ahead_five_calls": 1,
        "ahead_then_forget": 1,
        "jit_then_forget": 2,
        "export_and_call": 1,
    }


def compiles():
    return {
        "look_only": 0,
        "three_loweries": 3,
        "look_then_call": 1,
        "ahead_then_jit": 1,
        "ahead_five_calls": 2,
        "ahead_then_forget": 2,
        "jit_then_forget": 2,
        "export_and_call": 1,
    }


# %% task="stages" name="traces measured instead" fails=["stages-traces"] message="traces uses stages_of, which does not exist where it is run"
def traces():
    return {program.__name__: stages_of(program)[0] for program in PROGRAMS}


# %% task="stages" name="compiles measured instead" fails=["stages-compiles"] message="compiles uses stages_of, which does not exist where it is run"
def compiles():
    return {program.__name__: stages_of(program)[1] for program in PROGRAMS}


# %% task="planner" name="makes the parameters" fails=["planner-bytes"] message="use eval_shape for the key and for the parameters too"
def training_bytes(init, loss, batch):
    params = init(jax.random.key(0))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    return 0


# %% task="planner" name="forgets what the forward pass keeps" fails=["planner-bytes"] message="all that the function from vjp keeps"
def training_bytes(init, loss, batch):
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    return 4 * nbytes(params) + nbytes(batch)


def largest_batch(init, loss, row, budget):
    return 0


# %% task="planner" name="the first power of two that does not fit" fails=["planner-batch"] message="Is that the largest?"
def training_bytes(init, loss, batch):
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    rows = 1
    while training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget:
        rows *= 2
    return rows // 2


# %% task="server" name="lets jit compile when somebody asks" fails=["server-requests"] message="build_server itself lowers and compiles"
def build_server(params):
    program = jax.jit(reply)

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        return np.asarray(program(params, np.pad(tokens, (0, size - length)), np.int32(length)))[:length]

    return serve


# %% task="server" name="cuts the padding off with JAX" fails=["server-requests"] message="Pad, convert and cut with NumPy"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result[:length])

    return serve


# %% task="server" name="takes the padding for tokens" fails=["server-requests"] message="The program needs the number of real tokens"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        return np.asarray(programs[size](params, np.pad(tokens, (0, size - length)), np.int32(size)))[:length]

    return serve


# %% task="server" name="hands over what the client sent" fails=["server-clients"] message="convert before you call it"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="server" name="answers the beginning of a long text" fails=["server-clients"] message="Answering a part of it would be worse than refusing"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)[: BUCKETS[-1]]
        length = len(tokens)
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="second" name="the folder is enough" fails=["second-kept"] message="a threshold of one second"
def keep_programs(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder))
    compilation_cache.reset_cache()


def cache_report(run):
    return {"asked": 0, "found": 0, "written": 0, "passed over": 0}


# %% task="second" name="JAX will notice the new folder" fails=["second-kept"] message="JAX stays with the folder that it used first"
def keep_programs(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def cache_report(run):
    return {"asked": 0, "found": 0, "written": 0, "passed over": 0}


# %% task="second" name="what is not found is a miss" fails=["second-report"] message="Asked for, not found, not written"
def keep_programs(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    counts = Counter()

    def heard(event, **_):
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(heard)
    run()
    jax.monitoring.unregister_event_listener(heard)
    asked, found = counts["compile_requests_use_cache"], counts["cache_hits"]
    return {"asked": asked, "found": found, "written": counts["cache_misses"], "passed over": 0}


# %% task="second" name="counts compile events" fails=["second-report"] message="cache_report, threshold 1000 is wrong"
def keep_programs(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    with trace_log() as log:
        run()
    return {"asked": log.compiles, "found": 0, "written": log.compiles, "passed over": 0}


# %% task="key" name="keeps the name of the run" fails=["key-check"] message="The name of the jitted function is in the key"
def make_scorer(features, now, run):
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in sorted(features):
            total = total + WEIGHTS[name] * columns[name]
        return total

    score.__name__ = f"score_run_{run}"
    jitted = jax.jit(score)
    return lambda columns: jitted(columns, now)


# %% task="key" name="keeps the order of the set" fails=["key-check"] message="bring the features into one order"
def make_scorer(features, now, run):
    @jax.jit
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in features:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, now)


# %% task="key" name="closes over the time" fails=["key-check"] message="make it an argument"
def make_scorer(features, now, run):
    @jax.jit
    def score(columns):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in sorted(features):
            total = total + WEIGHTS[name] * columns[name]
        return total

    return score


# %% task="key" name="a static time" fails=["key-check"] message="make it an argument"
def make_scorer(features, now, run):
    @jax.jit(static_argnames="now")
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in sorted(features):
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, now=now)


# %% task="key" name="leaves the time out" fails=["key-check"] message="scores"
def make_scorer(features, now, run):
    @jax.jit
    def score(columns):
        total = jnp.exp(columns["seen"] / 3600)
        for name in sorted(features):
            total = total + WEIGHTS[name] * columns[name]
        return total

    return score


# %% task="export" name="one size fits all" fails=["export-pack"] message="Shape mismatch"
def pack(params):
    x = jax.ShapeDtypeStruct((1, 100), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(x).serialize())


def unpack(blob):
    return export.deserialize(bytearray(blob)).call


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="export" name="two symbols for one size, no constraints" fails=["export-promises"] message="give them one name"
def pack(params):
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(x).serialize())


def unpack(blob):
    return export.deserialize(bytearray(blob)).call


def promises():
    return dict.fromkeys(("squared", "four_by_four", "best_five", "to_sixteen"), ("a, b", ()))


# %% task="export" name="promises too little" fails=["export-promises"] message="which would work"
def pack(params):
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(x).serialize())


def unpack(blob):
    return export.deserialize(bytearray(blob)).call


def promises():
    return {
        "squared": ("4, 4", ()),
        "four_by_four": ("4*n, 4*n", ()),
        "best_five": ("b, 5*n", ()),
        "to_sixteen": ("b, 16", ()),
    }


# %% task="planner" name="a formula for perceptrons" fails=["planner-bytes"] hidden=1 message="has no attribute"
def training_bytes(init, loss, batch):
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = (len(jax.tree.leaves(params)) + 2) * batch.size
    return 5 * nbytes(params) + kept * batch.dtype.itemsize


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return rows


# %% task="planner" name="a row is float32" fails=["planner-batch"] hidden=1 message="rows: returned"
def training_bytes(init, loss, batch):
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), jnp.float32)) <= budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return rows


# %% task="planner" name="a row has one axis" fails=["planner-batch"] hidden=1 message="rows: returned"
def training_bytes(init, loss, batch):
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, row.shape[-1]), row.dtype)) <= budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return rows


# %% task="planner" name="one moment only" fails=["planner-bytes"] message="Parameters, gradient and two moments"
def training_bytes(init, loss, batch):
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 3 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return rows


# %% task="planner" name="the loss instead of what it keeps" fails=["planner-bytes"] message="all that the function from vjp keeps"
def training_bytes(init, loss, batch):
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[0], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return rows


# %% task="planner" name="less than the budget" fails=["planner-batch"] message="Is that the largest?"
def training_bytes(init, loss, batch):
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) < budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return rows


# %% task="planner" name="in proportion to the rows" fails=["planner-batch"] message="Is that the largest?"
def training_bytes(init, loss, batch):
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(init, key)
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    one = training_bytes(init, loss, jax.ShapeDtypeStruct((1, *row.shape), row.dtype))
    return budget // one


# %% task="server" name="always the largest program" fails=["server-requests"] message="take the smallest bucket that holds the text"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = max(BUCKETS)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="server" name="a bucket must be larger than the text" fails=["server-requests"] message="take the smallest bucket that holds the text"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next((size for size in BUCKETS if size > length), BUCKETS[-1])
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="server" name="arrays of JAX" fails=["server-requests"] message="kind of the answers"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return jnp.asarray(np.asarray(result)[:length])

    return serve


# %% task="server" name="the first server's parameters" fails=["server-requests"] hidden=1 message="serve, "
PROGRAMS = {}


def build_server(params):
    for size in BUCKETS:
        tokens, number = jax.ShapeDtypeStruct((size,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)
        PROGRAMS[size] = jax.jit(reply).lower(params, tokens, number).compile()
    PROGRAMS["params"] = params

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = PROGRAMS[size](PROGRAMS["params"], np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="server" name="bytes are tokens already" fails=["server-clients"] hidden=1 message="Argument types differ"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = tokens if getattr(tokens, "dtype", None) == np.uint8 else np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="server" name="looks into the bits of another type" fails=["server-requests"] message="too long"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens).view(np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="server" name="refuses what is not shorter than the largest bucket" fails=["server-clients"] hidden=1 message="64 tokens: returned 'ValueError'"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length >= BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="second" name="either all are written or all passed over" fails=["second-report"] hidden=1 message="passed over: returned 0"
def keep_programs(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    counts = Counter()

    def heard(event, **_):
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(heard)
    run()
    jax.monitoring.unregister_event_listener(heard)
    asked, found, written = (counts[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": 0 if written else asked - found}


# %% task="second" name="what was asked for and not found" fails=["second-report"] message="cache_report"
def keep_programs(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    counts = Counter()

    def heard(event, **_):
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(heard)
    run()
    jax.monitoring.unregister_event_listener(heard)
    asked, found, written = (counts[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found}


# %% task="second" name="the order of the two is another one" fails=["second-kept"] message="keep_programs"
def keep_programs(folder):
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    counts = Counter()

    def heard(event, **_):
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(heard)
    run()
    jax.monitoring.unregister_event_listener(heard)
    asked, found, written = (counts[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="second" name="lets go of a folder only once" fails=["second-kept"] hidden=1 message="second folder: returned 0"
RESET = []


def keep_programs(folder):
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if not RESET:
        RESET.append(True)
        compilation_cache.reset_cache()


def cache_report(run):
    counts = Counter()

    def heard(event, **_):
        counts[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(heard)
    run()
    jax.monitoring.unregister_event_listener(heard)
    asked, found, written = (counts[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="key" name="in the order of hashes" fails=["key-check"] hidden=1 message="written in three processes: returned"
def make_scorer(features, now, run):
    names = sorted(features, key=hash)

    @jax.jit
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in names:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, now)


# %% task="key" name="only the first letters in order" fails=["key-check"] message="bring the features into one order"
def make_scorer(features, now, run):
    names = sorted(features, key=len)

    @jax.jit
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in names:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, now)


# %% task="key" name="switches the cache off" fails=["key-check"] message="the first start writes programs"
def make_scorer(features, now, run):
    jax.config.update("jax_compilation_cache_dir", None)
    names = sorted(features)
    score = jax.jit(
        lambda columns: jnp.exp((columns["seen"] - now) / 3600) + sum(WEIGHTS[n] * columns[n] for n in names)
    )
    return lambda columns: score(columns)


# %% task="key" name="a program for each day" fails=["key-check"] message="scores"
def make_scorer(features, now, run):
    names = sorted(features)

    @jax.jit
    def score(columns):
        total = jnp.exp((columns["seen"] - now // 1000 * 1000) / 3600)
        for name in names:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return score


# %% task="key" name="all weights, whatever is asked for" fails=["key-check"] message="scores"
def make_scorer(features, now, run):
    names = sorted(WEIGHTS)

    @jax.jit
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in names:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, now)


# %% task="export" name="parameters in a global" fails=["export-pack"] hidden=1 message="unpack, 333 rows"
PACKED = {}


def pack(params):
    PACKED.update(params)
    b = export.symbolic_shape("b, 100")
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    return bytes(export.export(jax.jit(head))(shapes, jax.ShapeDtypeStruct(b, jnp.float32)).serialize())


def unpack(blob):
    call = export.deserialize(bytearray(blob)).call
    return lambda x: call(PACKED, x)


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="export" name="numbers in a pickle, calculated by NumPy" fails=["export-pack"] hidden=1 message="jax.export can use the bytes"
def pack(params):
    import pickle

    return pickle.dumps({name: np.asarray(value) for name, value in params.items()})


def unpack(blob):
    import pickle

    params = pickle.loads(bytes(blob))
    return lambda x: np.tanh(x) @ params["w"] + params["b"]


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="export" name="the file is not read" fails=["export-pack"] hidden=1 message="unpack, 333 rows"
LAST = []


def pack(params):
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    LAST[:] = [export.export(jax.jit(lambda x: head(params, x)))(x)]
    return bytes(LAST[0].serialize())


def unpack(blob):
    return LAST[0].call


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="export" name="packs the parameters, and runs head" fails=["export-pack"] message="must come out of the bytes alone"
def pack(params):
    import pickle

    return pickle.dumps(params)


def unpack(blob):
    import pickle

    return jax.jit(lambda x: head(pickle.loads(blob), x))


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="export" name="no larger than what was shown" fails=["export-promises"] hidden=1 message="which would work"
def pack(params):
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(x).serialize())


def unpack(blob):
    return export.deserialize(bytearray(blob)).call


def promises():
    return {
        "squared": ("n, n", ("n <= 20",)),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="export" name="blocks that are squares" fails=["export-promises"] message="which would work"
def pack(params):
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(x).serialize())


def unpack(blob):
    return export.deserialize(bytearray(blob)).call


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*h", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="export" name="one column off" fails=["export-promises"] message="promises is wrong"
def pack(params):
    x = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(x).serialize())


def unpack(blob):
    return export.deserialize(bytearray(blob)).call


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n > 5",)),
        "to_sixteen": ("b, n", ("n < 16",)),
    }


# %% task="planner" name="every row costs the same" fails=["planner-batch"] hidden=1 message="Is that the largest?"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""
    two, three = (training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) for rows in (2, 3))
    each = three - two
    return max(0, (budget - (two - 2 * each)) // each)


# %% task="key" name="the time is taken out of the exponential" fails=["key-check"] hidden=1 message="makes NaN"
@jax.jit
def _score_all(columns, features, factor):
    total = jnp.exp(columns["seen"] / 3600) * factor
    for name in features:
        total = total + features[name] * columns[name]
    return total


def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    weights = {name: np.float32(WEIGHTS[name]) for name in features}
    factor = np.float32(np.exp(-now / 3600))
    return lambda columns: _score_all(columns, weights, factor)


# %% task="key" name="all five features, with a weight of 0 for those not wanted" fails=["key-check"] hidden=1 message="KeyError"
@jax.jit
def _score_five(columns, weights, now):
    total = jnp.exp((columns["seen"] - now) / 3600)
    for name in sorted(WEIGHTS):
        total = total + weights[name] * columns[name]
    return total


def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    weights = {name: np.float32(WEIGHTS[name] if name in features else 0) for name in WEIGHTS}
    return lambda columns: _score_five(columns, weights, np.float32(now))


# %% task="export" name="a promise with a limit that nobody asked for" fails=["export-promises"] hidden=1 message="which would work"
def pack(params):
    """The bytes of one program from float32[b, 100] to float32[b, 10], for every b; params are inside."""
    spec = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(spec).serialize())


def unpack(blob):
    """A function float32[b, 100] -> float32[b, 10], from the bytes that pack has made."""
    return export.deserialize(bytearray(blob)).call


def promises():
    """Name of each function in FUNCTIONS -> (shape, constraints), as general as the function itself."""
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5", "b <= 100")),
        "to_sixteen": ("b, n", ("n <= 16", "b <= 100")),
    }


# %% task="server" name="tokens of eight bits" fails=["server-requests"] hidden=1 message="serve,"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens).astype(np.uint8).astype(np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too long")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="planner" name="never more than 2**14 rows" fails=["planner-batch"] hidden=1 message="Is that the largest"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(lambda: init(jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""
    low, high = 0, 2**14
    while low < high:
        rows = (low + high + 1) // 2
        if training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget:
            low = rows
        else:
            high = rows - 1
    return low


# %% task="export" name="batches up to 32" fails=["export-pack"] hidden=1 message=""
def pack(params):
    """The bytes of one program from float32[b, 100] to float32[b, 10], for every b; params are inside."""
    rows = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100", constraints=("b <= 32",)), jnp.float32)
    return bytes(export.export(jax.jit(lambda x: head(params, x)))(rows).serialize())


def unpack(blob):
    """A function float32[b, 100] -> float32[b, 10], from the bytes that pack has made."""
    return export.deserialize(bytearray(blob)).call


def promises():
    """Name of each function in FUNCTIONS -> (shape, constraints), as general as the function itself."""
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="key" name="sorted by the first letter" fails=["key-check"] hidden=1 message="make_scorer is wrong"
def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""

    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in sorted(features, key=lambda name: name[0]):
            total = total + WEIGHTS[name] * columns[name]
        return total

    jitted = jax.jit(score)
    return lambda columns: jitted(columns, now)


# %% task="planner" name="never more than a million rows" fails=["planner-batch"] hidden=1 message="Is that the largest"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""
    low, high = 0, 1_000_000
    while low < high:
        rows = (low + high + 1) // 2
        if training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget:
            low = rows
        else:
            high = rows - 1
    return low


# %% task="planner" name="every parameter has four bytes" fails=["planner-bytes"] hidden=1 message="training_bytes is wrong"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * 4 * sum(leaf.size for leaf in jax.tree.leaves(params)) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""

    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# %% task="planner" name="makes the key" fails=["planner-bytes"] message="use eval_shape for the key and for the parameters too"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.random.key(0))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""

    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# %% task="server" name="remembers answers by their bytes" fails=["server-clients"] hidden=1 message="serve, int16"
def build_server(params):
    """Compiles `reply` for the three BUCKETS, and returns serve(tokens) -> float32[len(tokens), 3], NumPy."""
    length_type = jax.ShapeDtypeStruct((), jnp.int32)
    programs, answers = {}, {}
    for bucket in BUCKETS:
        tokens_type = jax.ShapeDtypeStruct((bucket,), jnp.int32)
        programs[bucket] = jax.jit(reply).lower(params, tokens_type, length_type).compile()

    def serve(tokens):
        key = np.asarray(tokens).tobytes()
        if key not in answers:
            tokens = np.asarray(tokens, np.int32)
            length = len(tokens)
            if length > BUCKETS[-1]:
                raise ValueError(f"{length} tokens are too many")
            bucket = min(bucket for bucket in BUCKETS if bucket >= length)
            padded = np.pad(tokens, (0, bucket - length))
            answers[key] = np.asarray(programs[bucket](params, padded, np.int32(length)))[:length]
        return answers[key].copy()

    return serve


# %% task="server" name="three programs for show, NumPy for work" fails=["server-requests"] message="answered by a program" hidden=1
def build_server(params):
    """Compiles `reply` for the three BUCKETS, and returns serve(tokens) -> float32[len(tokens), 3], NumPy."""
    for bucket in BUCKETS:
        jax.jit(reply).lower(params, np.zeros(bucket, np.int32), np.int32(1)).compile()

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        if len(tokens) > 64:
            raise ValueError("at most 64 tokens")
        x = params["embed"][tokens]
        return np.tanh(x + x.mean(0)) @ params["out"]

    return serve


# %% task="server" name="short texts are answered by NumPy" fails=["server-requests"] message="answered by a program" hidden=1
def build_server(params):
    programs = {}
    for bucket in BUCKETS:
        answer = jax.jit(reply)
        answer(params, np.zeros(bucket, np.int32), np.int32(1))
        programs[bucket] = answer

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        if len(tokens) > 64:
            raise ValueError("at most 64 tokens")
        if len(tokens) <= 4:
            x = params["embed"][tokens]
            return np.tanh(x + x.mean(0)) @ params["out"]
        bucket = 16 if len(tokens) <= 16 else 64
        padded = np.pad(tokens, (0, bucket - len(tokens)))
        return np.asarray(programs[bucket](params, padded, np.int32(len(tokens))))[: len(tokens)]

    return serve


# %% task="second" name="believes that nobody else sets a folder" fails=["second-kept"] hidden=1 message="second folder: returned 3"
KEPT_IN = []


def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`."""
    if KEPT_IN and KEPT_IN[-1] == str(folder):
        return
    KEPT_IN.append(str(folder))
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    events = Counter()

    def heard(event, **_):
        events[event.removeprefix("/jax/compilation_cache/")] += 1

    jax.monitoring.register_event_listener(heard)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_listener(heard)
    asked, found, written = (events[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="second" name="forgets all programs before the report" fails=["second-report"] hidden=1 message="still in memory"
def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    events = Counter()

    def heard(event, **_):
        events[event.rpartition("/")[2]] += 1

    jax.clear_caches()
    jax.monitoring.register_event_listener(heard)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_listener(heard)
    asked, found, written = (events[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="second" name="removes the listeners of others" fails=["second-report"] hidden=1 message="cache_report is wrong"
def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    events = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event.rsplit("/", 1)[-1]))
    try:
        run()
    finally:
        jax.monitoring.clear_event_listeners()
    asked = events.count("compile_requests_use_cache")
    found, written = events.count("cache_hits"), events.count("cache_misses")
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="second" name="ten milliseconds" fails=["second-kept"] message="a program that compiles in 0.1 ms is" hidden=1
def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.01)
    compilation_cache.reset_cache()


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    heard = Counter()
    listener = lambda event, **_: heard.update([event])  # noqa: E731
    jax.monitoring.register_event_listener(listener)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_listener(listener)
    asked, found, written = (
        heard["/jax/compilation_cache/" + name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses")
    )
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="key" name="donates the columns" fails=["key-check"] hidden=1 message="columns deleted"
import functools


def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""

    @functools.partial(jax.jit, donate_argnums=0)
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in sorted(features):
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, now)


# %% task="key" name="one Compiled for all lengths" fails=["key-check"] hidden=1 message="Argument types differ"
def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    compiled = []

    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in sorted(features):
            total = total + WEIGHTS[name] * columns[name]
        return total

    def scorer(columns):
        if not compiled:
            compiled.append(jax.jit(score).lower(columns, np.float32(now)).compile())
        return compiled[0](columns, np.float32(now))

    return scorer


# %% task="key" name="whole seconds" fails=["key-check"] message="scores, at 100.5 s" hidden=1
def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    names = tuple(sorted(features))

    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        return total + sum(WEIGHTS[name] * columns[name] for name in names)

    jitted = jax.jit(score)
    return lambda columns: jitted(columns, int(now))


# %% task="key" name="the nearest second" fails=["key-check"] message="scores, at 100.5 s" hidden=1
def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    names = tuple(sorted(features))

    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        return total + sum(WEIGHTS[name] * columns[name] for name in names)

    jitted = jax.jit(score)
    return lambda columns: jitted(columns, float(round(now)))


# %% task="planner" name="remembers plans by the batch" fails=["planner-bytes"] hidden=1 message="training_bytes is wrong"
PLANS = {}


def training_bytes(init, loss, batch):
    key = str(batch)
    if key not in PLANS:
        params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
        kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
        PLANS[key] = 4 * nbytes(params) + nbytes(kept)
    return PLANS[key]


def largest_batch(init, loss, row, budget):
    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# %% task="server" name="remembers answers by length and sum" fails=["server-clients"] hidden=1 message="serve, int64"
def build_server(params):
    programs, answers = {}, {}
    for bucket in BUCKETS:
        shapes = jax.ShapeDtypeStruct((bucket,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)
        programs[bucket] = jax.jit(reply).lower(params, *shapes).compile()

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError("too many tokens")
        key = length, int(tokens.sum())
        if key not in answers:
            bucket = next(b for b in BUCKETS if length <= b)
            padded = np.pad(tokens, (0, bucket - length))
            answers[key] = np.asarray(programs[bucket](params, padded, np.int32(length)))[:length]
        return answers[key]

    return serve


# %% task="export" name="at most 1024 rows" fails=["export-pack"] hidden=1 message="refused by a"
def pack(params):
    shape = export.symbolic_shape("b, 100", constraints=("b <= 1024",))
    exported = export.export(jax.jit(lambda x: head(params, x)))(jax.ShapeDtypeStruct(shape, jnp.float32))
    return bytes(exported.serialize())


def unpack(blob):
    return export.deserialize(bytearray(blob)).call


def promises():
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="server" name="everybody gets the largest bucket, through jit" fails=["server-requests"] hidden=1 message="take the smallest bucket"
def build_server(params):
    warm = jax.jit(reply)
    for size in BUCKETS:
        warm(params, np.zeros(size, np.int32), np.int32(1))

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        if len(tokens) > BUCKETS[-1]:
            raise ValueError("too long")
        padded = np.zeros(BUCKETS[-1], np.int32)
        padded[: len(tokens)] = tokens
        return np.asarray(warm(params, padded, np.int32(len(tokens))))[: len(tokens)]

    return serve


# %% task="planner" name="a key of two old numbers" fails=["planner-bytes"] hidden=1 message="as large as its key"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.ShapeDtypeStruct((2,), jnp.uint32))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""

    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# %% task="second" name="nothing to do if the folder is set already" fails=["second-kept"] hidden=1 message="a folder that was set"
def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if jax.config.values["jax_compilation_cache_dir"] != str(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        compilation_cache.reset_cache()


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    heard = Counter()

    def hear(event, **_):
        heard[event.removeprefix("/jax/compilation_cache/")] += 1

    jax.monitoring.register_event_listener(hear)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_listener(hear)
    asked, found, written = (heard[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses"))
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="second" name="written means new files in the folder of the configuration" fails=["second-report"] hidden=1 message="another folder"
def keep_programs(folder):
    """From now on JAX keeps every program that it compiles in `folder`."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def cache_report(run):
    """Calls run(), and returns {"asked", "found", "written", "passed over"}: numbers of programs."""
    events, folder = [], jax.config.values["jax_compilation_cache_dir"] or "."

    def hear(event, **_):
        events.append(event)

    before = files_in(folder)
    jax.monitoring.register_event_listener(hear)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_listener(hear)
    written = files_in(folder) - before
    asked = events.count("/jax/compilation_cache/compile_requests_use_cache")
    found = events.count("/jax/compilation_cache/cache_hits")
    return {"asked": asked, "found": found, "written": written, "passed over": asked - found - written}


# %% task="export" name="the bytes are looked up, not read" fails=["export-pack"] hidden=1 message="unpack"
PACKED = {}


def pack(params):
    """The bytes of one program from float32[b, 100] to float32[b, 10], for every b; params are inside."""
    spec = jax.ShapeDtypeStruct(export.symbolic_shape("b, 100"), jnp.float32)
    exported = export.export(jax.jit(lambda x: head(params, x)))(spec)
    blob = bytes(exported.serialize())
    PACKED[blob] = exported.call
    return blob


def unpack(blob):
    """A function float32[b, 100] -> float32[b, 10], from the bytes that pack has made."""
    return PACKED[bytes(blob)]


def promises():
    """Name of each function in FUNCTIONS -> (shape, constraints), as general as the function itself."""
    return {
        "squared": ("n, n", ()),
        "four_by_four": ("4*h, 4*w", ()),
        "best_five": ("b, n", ("n >= 5",)),
        "to_sixteen": ("b, n", ("n <= 16",)),
    }


# %% task="key" name="a program for show, NumPy for work" fails=["key-check"] hidden=1 message="two columns or more go into the programs"
@jax.jit
def handed_on(scores):
    return scores


def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    names = sorted(features)

    def scorer(columns):
        total = np.exp((np.asarray(columns["seen"]) - np.float32(now)) / 3600)
        for name in names:
            total = total + np.float32(WEIGHTS[name]) * np.asarray(columns[name])
        return handed_on(total)

    return scorer


# %% task="key" name="one clock for all scorers" fails=["key-check"] hidden=1 message="scores of 11 rows"
clock = {}


def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    names = sorted(features)
    clock["now"] = now

    @jax.jit
    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in names:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return lambda columns: score(columns, clock["now"])


# %% task="server" name="whatever is asked, NumPy answers" fails=["server-clients"] hidden=1 message="served without a program"
def build_server(params):
    """Compiles `reply` for the three BUCKETS, and returns serve(tokens) -> float32[len(tokens), 3], NumPy."""
    for bucket in BUCKETS:
        jax.jit(reply).lower(params, np.zeros(bucket, np.int32), np.int32(1)).compile()

    def serve(tokens):
        if len(tokens) > BUCKETS[-1]:
            raise ValueError(f"{len(tokens)} tokens, at most {BUCKETS[-1]} are served")
        x = np.asarray(params["embed"])[np.asarray(tokens, np.int32)]
        return np.asarray(np.tanh(x + x.mean(0)) @ params["out"])

    return serve


# %% task="server" name="answers in float64" fails=["server-requests"] hidden=1 message="dtype of an answer"
def build_server(params):
    """Compiles `reply` for the three BUCKETS, and returns serve(tokens) -> float32[len(tokens), 3], NumPy."""
    length = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        bucket: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((bucket,), jnp.int32), length).compile()
        for bucket in BUCKETS
    }

    def serve(tokens):
        n = len(tokens)
        if n > BUCKETS[-1]:
            raise ValueError("too many tokens")
        bucket = next(size for size in BUCKETS if size >= n)
        padded = np.zeros(bucket, np.int32)
        padded[:n] = tokens
        return np.array(programs[bucket](params, padded, np.int32(n)), float)[:n]

    return serve


# %% task="tower" name="no jit, one operation after the other" fails=["tower-check", "tower-speed"] message="each later one goes through Python again"
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    for number in range(len(weights)):
        x = layer(x, weights[number], odd=number % 2 == 1)
    return x


# %% task="tower" name="two jitted layers, called from Python" fails=["tower-check", "tower-speed"] message="each later one goes through Python again"
jitted_layer = jax.jit(layer, static_argnames="odd")


def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    for number, w in enumerate(weights):
        x = jitted_layer(x, w, odd=number % 2 == 1)
    return x


# %% task="tower" name="a NumPy loop" fails=["tower-check", "tower-speed"] message="each later one goes through Python again"
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    for number, w in enumerate(np.asarray(weights)):
        y = x @ w
        x = x + (np.tanh(y) if number % 2 else np.maximum(y, 0))
    return jnp.asarray(x)


# %% task="tower" name="NumPy under jit" fails=["tower-check", "tower-speed"] message="TracerArrayConversionError"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    for number in range(len(weights)):
        y = np.matmul(x, weights[number])
        x = x + (np.tanh(y) if number % 2 else np.maximum(y, 0))
    return x


# %% task="tower" name="the layers are jitted inside" fails=["tower-check", "tower-speed"] message="is unrolled"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    one_layer = jax.jit(layer, static_argnames="odd")
    for number in range(len(weights)):
        x = one_layer(x, weights[number], odd=number % 2 == 1)
    return x


# %% task="tower" name="a switch with a branch for each layer" fails=["tower-check", "tower-speed"] message="is unrolled"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    layers = [lambda x, i=i: layer(x, weights[i], odd=i % 2 == 1) for i in range(len(weights))]
    return jax.lax.fori_loop(0, len(weights), lambda i, x: jax.lax.switch(i, layers, x), x)


# %% task="tower" name="NumPy in a callback" fails=["tower-check", "tower-speed"] message="uses pure_callback"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def on_the_host(weights, x):
        for number, w in enumerate(np.asarray(weights)):
            y = x @ w
            x = x + (np.tanh(y) if number % 2 else np.maximum(y, 0))
        return np.asarray(x, np.float32)

    return jax.pure_callback(on_the_host, jax.ShapeDtypeStruct(x.shape, x.dtype), weights, x)


# %% task="tower" name="a Python if inside of the loop" fails=["tower-check", "tower-speed"] message="TracerBoolConversionError"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def one_layer(number, x):
        return layer(x, weights[number], odd=number % 2 == 1)

    return jax.lax.fori_loop(0, len(weights), one_layer, x)


# %% task="tower" name="a scan that is unrolled again" fails=["tower-speed"] message="below 2x, the first tier"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def one_layer(x, numbered):
        odd, w = numbered
        y = x @ w
        return x + jnp.where(odd, jnp.tanh(y), jax.nn.relu(y)), None

    odd = jnp.arange(len(weights)) % 2 == 1
    return jax.lax.scan(one_layer, x, (odd, weights), unroll=True)[0]


# %% task="tower" name="keeps the unrolled program in a folder" fails=["tower-check", "tower-speed"] message="that is a second start"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    jax.config.update("jax_compilation_cache_dir", str(Path(tempfile.gettempdir(), "programs-of-the-tower")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()

    def two_layers(x, pair):
        return layer(layer(x, pair[0], odd=False), pair[1], odd=True), None

    return jax.lax.scan(two_layers, x, weights.reshape(-1, 2, *weights.shape[1:]), unroll=True)[0]


# %% task="tower" name="all layers of one kind" fails=["tower-check", "tower-speed"] message="32 of 32 values"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""
    return jax.lax.scan(lambda x, w: (layer(x, w, odd=False), None), x, weights)[0]


# %% task="tower" name="the first half, then the second" fails=["tower-check", "tower-speed"] message="32 of 32 values"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def two_layers(x, pair):
        return layer(layer(x, pair[0], odd=False), pair[1], odd=True), None

    return jax.lax.scan(two_layers, x, (weights[: len(weights) // 2], weights[len(weights) // 2 :]))[0]


# %% task="tower" name="counts layers from one" fails=["tower-check", "tower-speed"] message="32 of 32 values"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def two_layers(x, pair):
        return layer(layer(x, pair[0], odd=True), pair[1], odd=False), None

    return jax.lax.scan(two_layers, x, weights.reshape(-1, 2, *weights.shape[1:]))[0]


# %% task="tower" name="four layers in a round" fails=["tower-check"] hidden=1 message="reshape"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def four_layers(x, ws):
        for number in range(4):
            x = layer(x, ws[number], odd=number % 2 == 1)
        return x, None

    return jax.lax.scan(four_layers, x, weights.reshape(-1, 4, *weights.shape[1:]))[0]


# %% task="tower" name="every width is 32" fails=["tower-check"] hidden=1 message="reshape"
@jax.jit
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def two_layers(x, pair):
        return layer(layer(x, pair[0], odd=False), pair[1], odd=True), None

    return jax.lax.scan(two_layers, x, weights.reshape(-1, 2, 32, 32))[0]


# %% task="tower" name="donates x" fails=["tower-check"] hidden=1 message="arguments deleted"
@jax.jit(donate_argnums=1)
def tower(weights, x):
    """The same as tower_slow, from one program that is as long for many layers as for few."""

    def two_layers(x, pair):
        return layer(layer(x, pair[0], odd=False), pair[1], odd=True), None

    return jax.lax.scan(two_layers, x, weights.reshape(-1, 2, *weights.shape[1:]))[0]


# %% task="server" name="only lists are refused" fails=["server-clients"] hidden=1 message="65 in an array"
def build_server(params):
    programs = {}
    for bucket in BUCKETS:
        tokens = jax.ShapeDtypeStruct((bucket,), jnp.int32)
        programs[bucket] = jax.jit(reply).lower(params, tokens, jax.ShapeDtypeStruct((), jnp.int32)).compile()

    def serve(tokens):
        if isinstance(tokens, list) and len(tokens) > 64:
            raise ValueError("too long")
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        bucket = next(bucket for bucket in BUCKETS if bucket >= length)
        padded = np.pad(tokens, (0, bucket - length))
        return np.asarray(programs[bucket](params, padded, np.int32(length)))[:length]

    return serve


# %% task="key" name="remembers the first order of a set of features" fails=["key-check"] hidden=1 message="written in three processes: returned"
ORDERS = {}


def weighted_in_order(names):
    """A jitted function with the weights of these names as constants."""

    def score(columns, now):
        total = jnp.exp((columns["seen"] - now) / 3600)
        for name in names:
            total = total + WEIGHTS[name] * columns[name]
        return total

    return jax.jit(score)


def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    names = ORDERS.setdefault(frozenset(features), tuple(features))
    jitted = weighted_in_order(names)
    return lambda columns: jitted(columns, now)


# %% task="planner" name="no more rows than the budget holds of the batch itself" fails=["planner-batch"] hidden=1 message="largest_batch"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, from shapes alone."""
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """Binary search; a budget cannot hold more rows than fit into it as they are."""
    low, high = 0, budget // nbytes(row) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if training_bytes(init, loss, jax.ShapeDtypeStruct((middle, *row.shape), row.dtype)) <= budget:
            low = middle
        else:
            high = middle
    return low


# %% task="tower" name="filled up to 128 layers" fails=["tower-check"] hidden=1 message="negative values"
@jax.jit
def tower(weights, x):
    """The same as tower_slow: layers of zeros change nothing, so each tower has 128."""
    missing = 128 - weights.shape[0]
    weights = jnp.pad(weights, ((0, missing), (0, 0), (0, 0)))

    def two_layers(x, pair):
        x = x + jax.nn.relu(x @ pair[0])
        return x + jnp.tanh(x @ pair[1]), None

    return jax.lax.scan(two_layers, x, weights.reshape(64, 2, *weights.shape[1:]))[0]


# %% task="planner" name="one row less than none" fails=["planner-batch"] hidden=1 message="rows: returned -1"
import bisect


def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""

    def bytes_of(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype))

    too_many = 1
    while bytes_of(too_many) <= budget:
        too_many *= 2
    return bisect.bisect_right(range(too_many), budget, key=bytes_of) - 1


# %% task="key" name="takes the time off in place" fails=["key-check"] hidden=1 message="the columns, after they were scored"
def make_scorer(features, now, run):
    """The same scores as make_scorer_slow, from a program that is the same in every start."""
    names = sorted(features)

    @jax.jit
    def score(age, wanted):
        total = jnp.exp(age / 3600)
        for name, column in zip(names, wanted, strict=True):
            total = total + WEIGHTS[name] * column
        return total

    def scorer(columns):
        age = columns["seen"]
        age -= np.float32(now)
        return score(age, [columns[name] for name in names])

    return scorer


# %% task="planner" name="both numbers are floats" fails=["planner-bytes", "planner-batch"] hidden=1 message="an int: returned False"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4.0 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""

    def fits(rows):
        return training_bytes(init, loss, jax.ShapeDtypeStruct((rows, *row.shape), row.dtype)) <= budget

    too_many = 1
    while fits(too_many):
        too_many *= 2
    rows = too_many // 2
    while too_many - rows > 1:
        middle = (rows + too_many) // 2
        rows, too_many = (middle, too_many) if fits(middle) else (rows, middle)
    return float(rows)


# %% task="planner" name="never more than 2**32 rows" fails=["planner-batch"] hidden=1 message="Is that the largest"
def training_bytes(init, loss, batch):
    """The same as training_bytes_slow, without making an array. batch may be a ShapeDtypeStruct. An int."""
    params = jax.eval_shape(init, jax.eval_shape(lambda: jax.random.key(0)))
    kept = jax.eval_shape(lambda p, x: jax.vjp(lambda p: loss(p, x), p)[1], params, batch)
    return 4 * nbytes(params) + nbytes(kept)


def largest_batch(init, loss, row, budget):
    """The largest number of rows whose training step needs at most `budget` bytes. An int."""
    low, high = 0, 2**32
    while low < high:
        middle = (low + high + 1) // 2
        batch = jax.ShapeDtypeStruct((middle, *row.shape), row.dtype)
        low, high = (middle, high) if training_bytes(init, loss, batch) <= budget else (low, middle - 1)
    return low


# %% task="server" name="tokens of sixteen bits" fails=["server-requests"] hidden=1 message="serve,"
def build_server(params):
    """Compiles `reply` for the three BUCKETS, and returns serve(tokens) -> float32[len(tokens), 3], NumPy."""
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.uint16), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens).astype(np.uint16)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError(f"{length} tokens, at most {BUCKETS[-1]} are served")
        size = next(size for size in BUCKETS if size >= length)
        result = programs[size](params, np.pad(tokens, (0, size - length)), np.int32(length))
        return np.asarray(result)[:length]

    return serve


# %% task="server" name="three programs for show, NumPy answers" fails=["server-requests"] hidden=1 message="serve, built for another reply"
def build_server(params):
    number = jax.ShapeDtypeStruct((), jnp.int32)
    programs = {
        size: jax.jit(reply).lower(params, jax.ShapeDtypeStruct((size,), jnp.int32), number).compile()
        for size in BUCKETS
    }

    def serve(tokens):
        tokens = np.asarray(tokens, np.int32)
        length = len(tokens)
        if length > BUCKETS[-1]:
            raise ValueError(f"{length} tokens, at most {BUCKETS[-1]} are served")
        size = next(size for size in BUCKETS if size >= length)
        programs[size](params, np.pad(tokens, (0, size - length)), np.int32(size))
        x = params["embed"][tokens]
        return np.tanh(x + x.mean(0)) @ params["out"]

    return serve
