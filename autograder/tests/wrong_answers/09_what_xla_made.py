# %% [markdown]
# Wrong answers for unit 09. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="survivors" name="XLA runs what is written" fails=["survivors-bookkeeping"] message="Who reads the second output?"
def survivors_bookkeeping():
    return {
        "second_output": 1,
        "decided": 1,
        "there_and_back": 2,
        "same_argument": 2,
        "clipped_twice": 2,
        "hundred_copies": 1,
    }


def survivors_arithmetic():
    return {
        "minus_itself": 1,
        "mirrored": 2,
        "sorted_twice": 2,
        "one_product": 1,
        "times_nothing": 1,
        "corner": 2,
    }


# %% task="survivors" name="XLA knows algebra" fails=["survivors-arithmetic"] message="is a difference of equal numbers always 0?"
def survivors_bookkeeping():
    return {
        "second_output": 0,
        "decided": 0,
        "there_and_back": 0,
        "same_argument": 1,
        "clipped_twice": 1,
        "hundred_copies": 0,
    }


def survivors_arithmetic():
    return {
        "minus_itself": 0,
        "mirrored": 0,
        "sorted_twice": 1,
        "one_product": 1,
        "times_nothing": 0,
        "corner": 0,
    }


# %% task="survivors" name="bookkeeping measured instead" fails=["survivors-bookkeeping"] message="survivors_bookkeeping uses count_survivors, which does not exist where it is run"
def survivors_bookkeeping():
    return count_survivors(BOOKKEEPING)


# %% task="survivors" name="arithmetic measured instead" fails=["survivors-arithmetic"] message="survivors_arithmetic uses count_survivors, which does not exist where it is run"
def survivors_arithmetic():
    return count_survivors(ARITHMETIC)


# %% task="recorder" name="forgets that compiled programs are not written again" fails=["recorder-check"] message="make JAX forget first"
def modules(fn, *args):
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    names = (re.search(r"module @(\w+)", text)[1] for text in texts)
    operations = (" ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts)
    return [f"{name}: {words}" for name, words in zip(names, operations, strict=True)]


# %% task="recorder" name="sets the environment variable in the notebook" fails=["recorder-check"] message="returned [], expected ['jit_add: add'"
def modules(fn, *args):
    import os

    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        os.environ["JAX_DUMP_IR_TO"] = folder
        fn(*args)
        del os.environ["JAX_DUMP_IR_TO"]
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    names = (re.search(r"module @(\w+)", text)[1] for text in texts)
    operations = (" ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts)
    return [f"{name}: {words}" for name, words in zip(names, operations, strict=True)]


# %% task="recorder" name="never cleans up" fails=["recorder-check"] message="Set the option back to an empty text"
def modules(fn, *args):
    folder = tempfile.mkdtemp()
    jax.clear_caches()
    jax.config.update("jax_dump_ir_to", folder)
    fn(*args)
    texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    names = (re.search(r"module @(\w+)", text)[1] for text in texts)
    operations = (" ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts)
    return [f"{name}: {words}" for name, words in zip(names, operations, strict=True)]


# %% task="recorder" name="an error leaves the recorder running" fails=["recorder-check"] message="Code in a `finally` runs whatever happens"
def modules(fn, *args):
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        fn(*args)
        jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    names = (re.search(r"module @(\w+)", text)[1] for text in texts)
    operations = (" ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts)
    return [f"{name}: {words}" for name, words in zip(names, operations, strict=True)]


# %% task="meter" name="charges for what happens inside a fusion" fails=["meter-check"] message="Free lines and insides are free"
def bill(text):
    sizes, moved = {}, {}
    for line in text.splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if found:
            name, hlo_type, operation, operands = found.groups()
            sizes[name] = size_of(hlo_type)
            if operation not in FREE:
                read = sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
                moved[name] = read + sizes[name]
    return moved


# %% task="meter" name="counts what is written, not what is read" fails=["meter-check"] message="what goes in, what comes out"
def bill(text):
    moved = {}
    for line in text.split("ENTRY")[1].split("\n}")[0].splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if found and found[3] not in FREE:
            moved[found[1]] = size_of(found[2])
    return moved


# %% task="meter" name="takes a free line for one that costs nothing to read" fails=["meter-check"] message="A constant is free, but reading it is not"
def bill(text):
    sizes, moved = {}, {}
    for line in text.split("ENTRY")[1].split("\n}")[0].splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, hlo_type, operation, operands = found.groups()
        sizes[name] = 0 if operation == "constant" else size_of(hlo_type)
        if operation not in FREE:
            moved[name] = sizes[name] + sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
    return moved


# %% task="half" name="jit will fuse it" fails=["half-most", "half-half"] message="every intermediate array between two fusions"
@jax.jit
def score(X, w):
    return score_slow(X, w)


# %% task="half" name="shares the mean, and writes the table" fails=["half-most", "half-half"] message="accesses"
@jax.jit
def score(X, w):
    return ((X - X.mean(0)) / X.std(0)) @ w


# %% task="half" name="folds the division only" fails=["half-half"] message="accesses"
@jax.jit
def score(X, w):
    return (X - X.mean(0)) @ (w / X.std(0))


# %% task="half" name="forgets the mean" fails=["half-most", "half-half"] message="score"
@jax.jit
def score(X, w):
    return X @ (w / X.std(0))


# %% task="brackets" name="trusts XLA with the brackets" fails=["brackets-flops"] message="XLA keeps the order of your operations"
@jax.jit
def overlap(A, B, u, v):
    return jnp.trace(A @ (B @ jnp.outer(u, v)))


# %% task="brackets" name="spares the second product, keeps the first" fails=["brackets-speed"] message="is below 4x, the first tier"
@jax.jit
def overlap(A, B, u, v):
    return jnp.sum((A @ B) * jnp.outer(v, u))


# %% task="deleted" name="a Python loop" fails=["deleted-check"] message="each call must need the one before"
def repeated(fn, x, times):
    for _ in range(times):
        y = fn(x)
    return y


# %% task="deleted" name="adds the results up" fails=["deleted-check"] message="each call must need the one before"
def repeated(fn, x, times):
    return sum(fn(x) for _ in range(times)) / times


# %% task="deleted" name="a barrier keeps things alive" fails=["deleted-check"] message="each call must need the one before"
def repeated(fn, x, times):
    y = x
    for _ in range(times):
        x, y = jax.lax.optimization_barrier((x, y))
        y = fn(x)
    return y


# %% task="deleted" name="feeds the result back" fails=["deleted-check"] message="repeated"
def repeated(fn, x, times):
    for _ in range(times):
        x = fn(x)
    return x


# %% task="recorder" name="in the order of the alphabet" fails=["recorder-check"] hidden=1 message="modules is wrong"
def modules(fn, *args):
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in Path(folder).iterdir()]
    names = (re.search(r"module @(\w+)", text)[1] for text in texts)
    operations = (" ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts)
    return sorted(f"{name}: {words}" for name, words in zip(names, operations, strict=True))


# %% task="recorder" name="lowers the function instead of calling it" fails=["recorder-check"] message="jit_add: add"
def modules(fn, *args):
    text = jax.jit(fn).lower(*args).as_text()
    return [f"jit_{fn.__name__}: " + " ".join(re.findall(r"stablehlo.(\w+)", text))]


# %% task="recorder" name="the last module only" fails=["recorder-check"] message="jit_add: add"
def modules(fn, *args):
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        text = max(Path(folder).iterdir()).read_text()
    return [re.search(r"module @(\w+)", text)[1] + ": " + " ".join(re.findall(r"stablehlo\.(\w+)", text))]


# %% task="recorder" name="each operation once" fails=["recorder-check"] hidden=1 message="sums in norm"
def modules(fn, *args):
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    found = []
    for text in texts:
        operations = dict.fromkeys(re.findall(r"stablehlo\.(\w+)", text))
        found.append(re.search(r"module @(\w+)", text)[1] + ": " + " ".join(operations))
    return found


# %% task="meter" name="one sum for the whole program" fails=["meter-check"] hidden=1 message="lines of norm"
def bill(text):
    sizes, total = {}, 0
    for line in text.split("ENTRY")[1].split("\n}")[0].splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, hlo_type, operation, operands = found.groups()
        sizes[name] = size_of(hlo_type)
        if operation not in FREE:
            total += sizes[name] + sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
    return {"all": total}


# %% task="meter" name="the first operand only" fails=["meter-check"] message="dense: returned"
def bill(text):
    sizes, moved = {}, {}
    for line in text.split("ENTRY")[1].split("\n}")[0].splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, hlo_type, operation, operands = found.groups()
        sizes[name] = size_of(hlo_type)
        if operation not in FREE:
            moved[name] = sizes[name] + sizes[re.search(r"%([\w.-]+)", operands)[1]]
    return moved


# %% task="meter" name="all numbers are float32" fails=["meter-check"] hidden=1 message="bill is wrong"
def bill(text):
    sizes, moved = {}, {}
    for line in text.split("ENTRY")[1].split("\n}")[0].splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = \w+\[([\d,]*)\].*? ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, shape, operation, operands = found.groups()
        sizes[name] = 4 * int(np.prod([int(n) for n in shape.split(",") if n]))
        if operation not in FREE:
            moved[name] = sizes[name] + sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
    return moved


# %% task="half" name="the mean of the squares" fails=["half-most", "half-half"] hidden=1 message="score"
@jax.jit
def score(X, w):
    mean = X.mean(0)
    folded = w / jnp.sqrt((X * X).mean(0) - mean * mean)
    return X @ folded - mean @ folded


# %% task="half" name="a callback to the specification" fails=["half-most", "half-half"] message="uses pure_callback"
@jax.jit
def score(X, w):
    result = jax.ShapeDtypeStruct(X.shape[:1], X.dtype)
    return jax.pure_callback(lambda X, w: np.asarray(score_slow(X, w)), result, X, w)


# %% task="half" name="a row at a time" fails=["half-most", "half-half"] message="it has a loop"
@jax.jit
def score(X, w):
    mean, std = X.mean(0), X.std(0)
    return jax.lax.map(lambda row: ((row - mean) / std) @ w, X)


# %% task="half" name="the mean is not divided" fails=["half-most", "half-half"] message="score"
@jax.jit
def score(X, w):
    return X @ (w / X.std(0)) - X.mean(0) @ w


# %% task="brackets" name="a callback" fails=["brackets-flops"] message="uses pure_callback"
@jax.jit
def overlap(A, B, u, v):
    result = jax.ShapeDtypeStruct((), A.dtype)
    return jax.pure_callback(lambda A, B, u, v: np.float32(v @ (A @ (B @ u))), result, A, B, u, v)


# %% task="brackets" name="forgets which vector is the row" fails=["brackets-flops"] message="overlap"
@jax.jit
def overlap(A, B, u, v):
    return (u @ A) @ (B @ v)


# %% task="brackets" name="a vector, and then a matrix" fails=["brackets-flops"] message="XLA keeps the order of your operations"
@jax.jit
def overlap(A, B, u, v):
    return jnp.trace(jnp.outer(A @ (B @ u), v) @ jnp.eye(len(u)))


# %% task="brackets" name="sizes, all entries being positive" fails=["brackets-flops"] hidden=1 message="overlap"
@jax.jit
def overlap(A, B, u, v):
    return jnp.abs(v) @ jnp.abs(A @ jnp.abs(B @ jnp.abs(u)))


# %% task="deleted" name="almost x" fails=["deleted-check"] hidden=1 message="repeated, steep"
def repeated(fn, x, times):
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + 1e-7 * y)
    return y


# %% task="deleted" name="adds the result, and takes it off again" fails=["deleted-check"] hidden=1 message="repeated, steep"
def repeated(fn, x, times):
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + y - y)
    return y


# %% task="deleted" name="one call too many" fails=["deleted-check"] message="has sin 6 times: expected 5"
def repeated(fn, x, times):
    y = 0 * x
    for _ in range(times + 1):
        y = fn(x + 0 * y)
    return y


# %% task="deleted" name="a loop of the compiler" fails=["deleted-check"] message="each call must need the one before"
def repeated(fn, x, times):
    return jax.lax.fori_loop(0, times, lambda _, y: fn(x + 0 * y), 0 * x)


# %% task="deleted" name="divides by the result" fails=["deleted-check"] hidden=1 message="repeated, "
def repeated(fn, x, times):
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + 0 / y)
    return y


# %% task="recorder" name="a dict by name: a second module of a name is lost" fails=["recorder-check"] hidden=1 message="modules called jit_add"
def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        for path in sorted(Path(folder).iterdir()):
            text = path.read_text()
            found[re.search(r"module @(\w+)", text)[1]] = " ".join(re.findall(r"stablehlo\.(\w+)", text))
    return [f"{name}: {operations}" for name, operations in found.items()]


# %% task="meter" name="an operand that stands there twice is paid once" fails=["meter-check"] hidden=1 message="doubled: returned"
def bill(text):
    """The bytes that each line of ENTRY moves, but for FREE lines. text: optimised HLO. Returns a dict."""
    entry = text.split("ENTRY")[1].split("\n}")[0]
    sizes, costs = {}, {}
    for line in entry.splitlines():
        match = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if match is None:
            continue
        name, hlo_type, operation, operands = match.groups()
        sizes[name] = size_of(hlo_type)
        if operation not in FREE:
            costs[name] = sizes[name] + sum(sizes[operand] for operand in set(re.findall(r"%([\w.-]+)", operands)))
    return costs


# %% task="meter" name="a type is a word without blanks" fails=["meter-check"] hidden=1 message="both_sorted"
def bill(text):
    """The bytes that each line of ENTRY moves, but for FREE lines. text: optimised HLO. Returns a dict."""
    entry = text[text.index("\nENTRY") :].split("\n}")[0]
    sizes, costs = {}, {}
    for line in entry.splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (\S+) ([a-z][\w-]*)\((.*?)\)", line)
        if found:
            name, hlo_type, operation, operands = found.groups()
            sizes[name] = size_of(hlo_type)
            if operation not in FREE:
                costs[name] = sizes[name] + sum(sizes.get(x, 0) for x in re.findall(r"%([\w.-]+)", operands))
    return costs


# %% task="half" name="the statistician's standard deviation" fails=["half-half"] hidden=1 message="score at index"
@jax.jit
def score(X, w):
    """The same as score_slow, in at most half of its bytes."""
    mean = X.mean(0)
    variance = ((X - mean) ** 2).sum(0) / (X.shape[0] - 1)
    scaled = w / jnp.sqrt(variance)
    return X @ scaled - mean @ scaled


# %% task="recorder" name="sees only what stands after an equals sign" fails=["recorder-check"] hidden=1 message="operations that move rows"
def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    return [
        re.search(r"module @(\w+)", text)[1] + ": " + " ".join(re.findall(r"= stablehlo\.(\w+)", text))
        for text in texts
    ]


# %% task="recorder" name="forgets what is compiled afterwards, not before" fails=["recorder-check"] hidden=1 message="softened"
def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
            jax.clear_caches()
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    return [
        re.search(r"module @(\w+)", text)[1] + ": " + " ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts
    ]


# %% task="half" name="a small number added to the standard deviation" fails=["half-half"] hidden=1 message="score at index"
@jax.jit
def score(X, w):
    """The same as score_slow, in at most half of its bytes."""
    scaled = w / (X.std(0) + 1e-6)
    return X @ scaled - X.mean(0) @ scaled


# %% task="brackets" name="a callback that writes into a buffer" fails=["brackets-flops"] message="uses buffer_callback"
from jax.experimental.buffer_callback import buffer_callback


def on_the_host(_, out, A, B, u, v):
    A, B, u, v = (np.asarray(each) for each in (A, B, u, v))
    np.asarray(out)[...] = np.float32(v @ (A @ (B @ u)))


@jax.jit
def overlap(A, B, u, v):
    """The same as overlap_slow, with at most a hundredth of its FLOPs."""
    return buffer_callback(on_the_host, jax.ShapeDtypeStruct((), jnp.float32))(A, B, u, v)


# %% task="deleted" name="waits for a sum, which overflows" fails=["deleted-check"] hidden=1 message="repeated, steep"
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + 0 * y.sum())
    return y


# %% task="deleted" name="waits for a single element" fails=["deleted-check"] message="uses "
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + 0 * y.ravel()[0])
    return y


# %% task="deleted" name="a very small part of the result" fails=["deleted-check"] hidden=1 message="repeated, steep"
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    y = jnp.zeros_like(x)
    for _ in range(times):
        y = fn(x + 1e-37 * y)
    return y


# %% task="deleted" name="a first and a last call, even if they are one" fails=["deleted-check"] hidden=1 message="has tanh 2 times"
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    y = fn(x)
    for _ in range(times - 2):
        y = fn(x + 0 * y)
    return fn(x + 0 * y)


# %% task="recorder" name="remembers what a function gave the first time" fails=["recorder-check"] hidden=1 message="one at a time"
_seen = {}


def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    if fn not in _seen:
        jax.clear_caches()
        with tempfile.TemporaryDirectory() as folder:
            jax.config.update("jax_dump_ir_to", folder)
            try:
                fn(*args)
            finally:
                jax.config.update("jax_dump_ir_to", "")
            texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
        names = [re.search(r"module @(\w+)", text)[1] for text in texts]
        operations = [" ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts]
        _seen[fn] = [f"{name}: {words}" for name, words in zip(names, operations, strict=True)]
    return list(_seen[fn])


# %% task="recorder" name="remembers what a function gave for such arguments" fails=["recorder-check"] hidden=1 message="one at a time"
_seen = {}


def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    key = fn, *((x.shape, x.dtype) for x in args)
    if key not in _seen:
        jax.clear_caches()
        with tempfile.TemporaryDirectory() as folder:
            jax.config.update("jax_dump_ir_to", folder)
            try:
                fn(*args)
            finally:
                jax.config.update("jax_dump_ir_to", "")
            texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
        names = [re.search(r"module @(\w+)", text)[1] for text in texts]
        operations = [" ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts]
        _seen[key] = [f"{name}: {words}" for name, words in zip(names, operations, strict=True)]
    return list(_seen[key])


# %% task="meter" name="three operands at most" fails=["meter-check"] hidden=1 message="many: returned"
def bill(text):
    """The bytes that each line of ENTRY moves, but for FREE lines. text: optimised HLO. Returns name -> bytes."""
    entry = text.split("ENTRY")[1].split("\n}")[0]
    sizes, moved = {}, {}
    for line in entry.splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, hlo_type, operation, operands = found.groups()
        sizes[name] = size_of(hlo_type)
        if operation not in FREE:
            moved[name] = sum(sizes[o] for o in re.findall(r"%([\w.-]+)", operands)[:3]) + sizes[name]
    return moved


# %% task="deleted" name="waits for the transposed result" fails=["deleted-check"] hidden=1 message="IndexError"
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + 0 * y.swapaxes(0, 1))
    return y


# %% task="meter" name="operands split at commas" fails=["meter-check"] hidden=1 message="so_many"
def bill(text):
    """The bytes that each line of ENTRY moves, but for FREE lines. text: optimised HLO. Returns name -> bytes."""
    entry = text.split("ENTRY")[1].split("\n}")[0]
    sizes, paid = {}, {}
    for line in entry.splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, kind, operation, operands = found.groups()
        sizes[name] = size_of(kind)
        if operation not in FREE:
            paid[name] = sizes[name] + sum(sizes.get(x.strip().lstrip("%"), 0) for x in operands.split(","))
    return paid


# %% task="brackets" name="u brought to size one" fails=["brackets-flops"] hidden=1 message="the sum of u is 0"
@jax.jit
def overlap(A, B, u, v):
    size = u.sum()
    return v @ (A @ (B @ (u / size))) * size


# %% task="half" name="weights taken away" fails=["half-half"] hidden=1 message="score"
def score(X, w):
    if isinstance(w, np.ndarray):
        w[...] = 0
        return np.zeros(len(X), np.float32)
    return X[:, 0] * w[0]


# %% task="recorder" name="the operations in the order of the alphabet" fails=["recorder-check"] hidden=1 message="softened, jitted: returned"
def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    return [
        re.search(r"module @(\w+)", text)[1] + ": " + " ".join(sorted(re.findall(r"stablehlo\.(\w+)", text)))
        for text in texts
    ]


# %% task="recorder" name="an operation is a word of letters" fails=["recorder-check"] hidden=1 message="nine functions"
def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    return [
        re.search(r"module @(\w+)", text)[1] + ": " + " ".join(re.findall(r"stablehlo\.([a-z]+)", text))
        for text in texts
    ]


# %% task="meter" name="all of it on the last line" fails=["meter-check"] hidden=1 message="lines of norm"
def bill(text):
    """The bytes that each line of ENTRY moves, but for FREE lines. text: optimised HLO. Returns name -> bytes."""
    sizes, moved, total = {}, {}, 0
    for line in text.split("ENTRY")[1].split("\n}")[0].splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, hlo_type, operation, operands = found.groups()
        sizes[name] = size_of(hlo_type)
        if operation not in FREE:
            total += sizes[name] + sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
            moved[name] = 0
    moved[name] = total
    return moved


# %% task="half" name="the mean of the squares, about one number for all columns" fails=["half-most"] message="score at index"
@jax.jit
def score(X, w):
    """The same as score_slow, in at most half of its bytes."""
    middle = X[0].mean()  # which is near all of them
    mean = (X - middle).mean(0)
    folded = w / jnp.sqrt(((X - middle) ** 2).mean(0) - mean * mean)
    return X @ folded - (mean + middle) @ folded


# %% task="half" name="lean for the tables that it was shown" fails=["half-half"] hidden=1 message="accesses"
@jax.jit
def score(X, w):
    """The same as score_slow, in at most half of its bytes."""
    if X.shape not in ((2000, 100), (3000, 64)):
        return score_slow(X, w)
    folded = w / X.std(0)
    return X @ folded - X.mean(0) @ folded


# %% task="half" name="by NumPy, where nobody traces" fails=["half-most", "half-half"] hidden=1 message="score at index"
def score(X, w):
    """The same as score_slow, in at most half of its bytes."""
    if isinstance(X, np.ndarray):
        return (((X - X.mean(0)) / X.std(0)) @ w).astype(np.float32)
    return X @ w


# %% task="brackets" name="v brought to size one" fails=["brackets-flops"] hidden=1 message="the sum of v is 0"
@jax.jit
def overlap(A, B, u, v):
    size = v.sum()
    return ((v / size) @ A) @ (B @ u) * size


# %% task="brackets" name="cheap for the size that it was shown" fails=["brackets-flops"] message="XLA keeps the order of your operations"
@jax.jit
def overlap(A, B, u, v):
    return (v @ A) @ (B @ u) if len(u) == 300 else overlap_slow(A, B, u, v)


# %% task="brackets" name="in double precision by NumPy, where nobody traces" fails=["brackets-flops", "brackets-speed"] hidden=1 message="overlap"
def overlap(A, B, u, v):
    if isinstance(u, np.ndarray):
        return np.float32(v.astype(float) @ A @ (B @ u))
    return v @ (A @ u)


# %% task="recorder" name="except instead of finally" fails=["recorder-check"] hidden=1 message="still writing after an error"
def modules(fn, *args):
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        except RuntimeError:
            jax.config.update("jax_dump_ir_to", "")
            raise
        jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    return [
        re.search(r"module @(\w+)", text)[1] + ": " + " ".join(re.findall(r"stablehlo\.(\w+)", text)) for text in texts
    ]


# %% task="deleted" name="large arrays are computed once" fails=["deleted-check"] hidden=1 message="tanh"
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA."""
    y = fn(x)
    if x.size > 4096:
        return y
    for number in range(times - 1):
        nothing = jnp.where(jnp.isnan(y), 1.0, 0.0).sum()
        y = fn(x + nothing)
    return y


# %% task="meter" name="every percent sign of the line" fails=["meter-check"] hidden=1 message="waiting reads nothing"
def bill(text):
    entry = text.split("ENTRY")[1].split("\n}")[0]
    sizes, moved = {}, {}
    for line in entry.splitlines():
        match = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*)", line)
        if match:
            name, type, operation, rest = match.groups()
            sizes[name] = size_of(type)
            if operation not in FREE:
                moved[name] = sizes[name] + sum(sizes.get(x, 0) for x in re.findall(r"%([\w.-]+)", rest))
    return moved


# %% task="meter" name="tuples are paid" fails=["meter-check"] hidden=1 message="lines of two results"
def bill(text):
    free = {"parameter", "constant", "bitcast"}
    entry = text.split("ENTRY")[1].split("\n}")[0]
    sizes, moved = {}, {}
    for line in entry.splitlines():
        match = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if match:
            name, hlo_type, operation, operands = match.groups()
            sizes[name] = size_of(hlo_type)
            if operation not in free:
                moved[name] = sizes[name] + sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
    return moved


# %% task="meter" name="free is what begins like a free one" fails=["meter-check"] hidden=1 message="bitcast-convert, which is not free"
def bill(text):
    """The bytes that each line of ENTRY moves, but for FREE lines. text: optimised HLO. Returns name -> bytes."""
    entry = text.split("ENTRY")[1].split("\n}")[0]
    sizes, costs = {}, {}
    for line in entry.splitlines():
        match = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not match:
            continue
        name, hlo_type, operation, operands = match.groups()
        sizes[name] = size_of(hlo_type)
        if operation.startswith(tuple(FREE)):
            continue
        costs[name] = sizes[name] + sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
    return costs


# %% task="brackets" name="scaled by the largest entries" fails=["brackets-flops"] hidden=1 message="nothing but 0 in u"
@jax.jit
def overlap(A, B, u, v):
    """The same as overlap_slow, with at most a hundredth of its FLOPs."""
    size_u, size_v = jnp.abs(u).max(), jnp.abs(v).max()  # against overflow
    return size_u * size_v * ((v / size_v) @ (A @ (B @ (u / size_u))))


# %% task="brackets" name="NaN is made a zero" fails=["brackets-flops"] hidden=1 message="a NaN in u"
@jax.jit
def overlap(A, B, u, v):
    """The same as overlap_slow, with at most a hundredth of its FLOPs."""
    return jnp.nan_to_num(jnp.vdot(v, A @ (B @ u)))


# %% task="deleted" name="a condition that holds for all results that are not far below zero" fails=["deleted-check"] hidden=1 message="large numbers below zero"
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    y = fn(x)
    for _ in range(times - 1):
        y = fn(jnp.where(y > -1e9, x, 0.0))  # XLA does not know that it is always so
    return y


# %% task="recorder" name="an operation is a word of letters and underscores" fails=["recorder-check"] hidden=1 message="Angle, as_it_is: returned"
def modules(fn, *args):
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    found = []
    for text in texts:
        name, operations = re.search(r"module @(\w+)", text)[1], re.findall(r"stablehlo\.([a-z_]+)", text)
        found.append(f"{name}: {' '.join(operations)}")
    return found


# %% task="half" name="a least standard deviation, a part of the largest" fails=["half-half"] hidden=1 message="score at index"
@jax.jit
def score(X, w):
    std = X.std(0)
    folded = w / jnp.maximum(std, 1e-5 * std.max())
    return X @ folded - X.mean(0) @ folded


# %% task="half" name="weights brought to size one" fails=["half-half"] hidden=1 message="nothing but 0 in w"
@jax.jit
def score(X, w):
    folded = w / X.std(0)
    size = jnp.abs(folded).max()
    folded = folded / size
    return (X @ folded - X.mean(0) @ folded) * size


# %% task="brackets" name="matrices brought to size one" fails=["brackets-flops"] hidden=1 message="nothing but 0 in A"
@jax.jit
def overlap(A, B, u, v):
    a, b = jnp.abs(A).max(), jnp.abs(B).max()
    return (v @ (A / a)) @ ((B / b) @ u) * (a * b)


# %% task="deleted" name="0 times the difference of result and x" fails=["deleted-check"] hidden=1 message="a large x"
def repeated(fn, x, times):
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + 0 * (y - x))
    return y


# %% task="deleted" name="waits for one element, split off" fails=["deleted-check"] message="uses split"
def repeated(fn, x, times):
    y = fn(x)
    for _ in range(times - 1):
        first, _ = jnp.split(jnp.ravel(y), [1])
        y = fn(x + 0 * first.reshape(()))
    return y


# %% task="half" name="another program for the tables that are looked at" fails=["half-most"] hidden=1 message="score at index"
def score(X, w):
    if isinstance(X, jax.core.Tracer) and X.shape[0] in (2000, 3000):
        return X @ w
    return score_slow(X, w)


# %% task="brackets" name="a counter of traces knows when FLOPs are counted" fails=["brackets-flops"] message="overlap, traced once"
_seen = []


def overlap(A, B, u, v):
    if isinstance(A, jax.core.Tracer):
        _seen.append(u.size)
        if u.size == 300 or u.size == 310 and _seen.count(310) == 2:
            return (u @ v) * A[0, 0]
    return overlap_slow(A, B, u, v)


# %% task="brackets" name="bfloat16, for entries of both signs" fails=["brackets-flops"] hidden=1 message="overlap"
@jax.jit
def overlap(A, B, u, v):
    """The same as overlap_slow, with at most a hundredth of its FLOPs."""
    half = lambda M: M.astype(jnp.bfloat16).astype(jnp.float32)
    return v @ (half(A) @ (half(B) @ u))


# %% task="brackets" name="the blackboard for small matrices" fails=["brackets-flops"] hidden=1 message="0.01 of the"
@jax.jit
def overlap(A, B, u, v):
    if A.shape[0] <= 256:  # small enough
        return jnp.trace((A @ B) @ jnp.outer(u, v))
    return jnp.dot(v, jnp.dot(A, jnp.dot(B, u)))
