# %% [markdown]
# Right answers to unit 09 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="recorder" name="a context manager, partition instead of regular expressions"
@contextlib.contextmanager
def dumping(folder):
    before = jax.config.values["jax_dump_ir_to"]
    jax.config.update("jax_dump_ir_to", str(folder))
    try:
        yield
    finally:
        jax.config.update("jax_dump_ir_to", before)


def described(text):
    name = text.partition("module @")[2].split()[0]
    words = [part.split("(")[0].split()[0].strip('"') for part in text.split("stablehlo.")[1:]]
    words = ["".join(c for c in word if c.isalnum() or c == "_") for word in words]
    return name + ": " + " ".join(words)


def modules(fn, *args):
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        with dumping(folder):
            jax.block_until_ready(fn(*args))
        return [described(Path(folder, name).read_text()) for name in sorted(p.name for p in Path(folder).glob("*"))]


# %% task="recorder" name="a class with enter and exit"
class Recorder:
    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", self.folder.name)
        return self

    def __exit__(self, *error):
        jax.config.update("jax_dump_ir_to", "")
        files = sorted(Path(self.folder.name).iterdir(), key=lambda path: path.name)
        self.texts = [file.read_text() for file in files]
        self.folder.cleanup()


def modules(fn, *args):
    with Recorder() as recorder:
        fn(*args)
    found = []
    for text in recorder.texts:
        [name] = re.findall(r"^module @(\S+)", text, re.MULTILINE)
        found.append(": ".join([name, " ".join(m.group(1) for m in re.finditer(r"stablehlo\.([a-z_0-9]+)", text))]))
    return found


# %% task="recorder" name="one line at a time"
def modules(fn, *args):
    import shutil

    folder = tempfile.mkdtemp()
    result = []
    jax.config.update("jax_dump_ir_to", folder)
    try:
        jax.clear_caches()
        fn(*args)
        jax.config.update("jax_dump_ir_to", "")
        for file in sorted(Path(folder).glob("*.mlir")):
            name, operations = None, []
            for line in file.read_text().splitlines():
                if line.startswith("module @"):
                    name = line.split()[1][1:]
                operations += re.findall(r"stablehlo\.(\w+)", line)
            result.append(f"{name}: " + " ".join(operations))
    finally:
        jax.config.update("jax_dump_ir_to", "")
        shutil.rmtree(folder)
    return result


# %% task="meter" name="lines split by hand"
def bill(text):
    lines = text[text.index("ENTRY") :].split("\n")[1:]
    lines = lines[: lines.index("}")]
    sizes, costs = {}, {}
    for line in lines:
        left, right = line.replace("ROOT ", "").strip().split(" = ", 1)
        name = left.lstrip("%")
        before, _, inside = right.partition("(")
        if before == "":  # a tuple's type begins with a bracket
            close = right.index(") ")
            hlo_type, rest = right[: close + 1], right[close + 2 :]
            operation, _, inside = rest.partition("(")
        else:
            hlo_type, operation = before.rsplit(" ", 1)
        sizes[name] = size_of(hlo_type)
        if operation not in FREE:
            operands = [part.strip().split("%")[-1] for part in inside.split(")")[0].split(",") if "%" in part]
            costs[name] = sizes[name] + sum(map(sizes.get, operands))
    return costs


# %% task="meter" name="a state machine over all lines, and a NamedTuple"
from typing import NamedTuple


class Line(NamedTuple):
    name: str
    type: str
    operation: str
    operands: list


def parsed(text):
    inside = False
    for line in text.splitlines():
        inside = (inside or line.startswith("ENTRY")) and line != "}"
        match = re.search(r"%([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\(([^)]*)\)", line)
        if inside and match:
            yield Line(*match.groups()[:3], re.findall(r"%([\w.-]+)", match[4]))


def bill(text):
    lines = {line.name: line for line in parsed(text)}
    return {
        name: sum(size_of(lines[other].type) for other in [name, *line.operands])
        for name, line in lines.items()
        if line.operation not in FREE
    }


# %% task="meter" name="two passes: first all types, then the costs"
def bill(text):
    entry = re.search(r"^ENTRY.*?^}", text, re.DOTALL | re.MULTILINE)[0]
    pattern = re.compile(r"^\s+(?:ROOT )?%(?P<name>\S+) = (?P<type>.+?) (?P<op>[a-z][\w-]*)\((?P<args>.*?)\)", re.M)
    sizes = {match["name"]: size_of(match["type"]) for match in pattern.finditer(entry)}
    moved = {}
    for match in pattern.finditer(entry):
        if match["op"] in FREE:
            continue
        moved[match["name"]] = sizes[match["name"]]
        for operand in re.findall(r"%([\w.-]+)", match["args"]):
            moved[match["name"]] += sizes[operand]
    return moved


# %% task="half" name="one row of weights and one number"
def fold(X, w):
    mean, std = jnp.mean(X, axis=0), jnp.std(X, axis=0)
    return w / std, jnp.dot(mean, w / std)


@jax.jit
def score(X, w):
    weights, shift = fold(X, w)
    return jnp.einsum("ij,j->i", X, weights) - shift


# %% task="half" name="the mean of the scores is taken off"
@jax.jit
def score(X, w):
    raw = jnp.matmul(X, w / X.std(axis=0))
    return raw - raw.mean()


# %% task="half" name="jit around a closure, var and rsqrt"
def make_score():
    def score(X, w):
        folded = w * jax.lax.rsqrt(jnp.var(X, axis=0))
        return jax.lax.dot(X, folded) - jnp.vdot(X.mean(axis=0), folded)

    return jax.jit(score)


score = make_score()


# %% task="brackets" name="transposed, vdot"
@jax.jit
def overlap(A, B, u, v):
    return jnp.vdot(A.T @ v, B @ u)


# %% task="brackets" name="from the right"
overlap = jax.jit(lambda A, B, u, v: v @ (A @ (B @ u)))


# %% task="brackets" name="einsum, in two steps"
@jax.jit
def overlap(A, B, u, v):
    right = jnp.einsum("jk,k->j", B, u)
    return jnp.einsum("i,ij,j->", v, A, right)


# %% task="brackets" name="multi_dot"
@jax.jit
def overlap(A, B, u, v):
    return jnp.linalg.multi_dot([v[None, :], A, B, u[:, None]]).reshape(())


# %% task="deleted" name="a comparison with itself"
def repeated(fn, x, times):
    result = fn(x)
    for _ in range(1, times):
        x = jnp.where(result == result, x, result)
        result = fn(x)
    return result


# %% task="deleted" name="reduce, and a product that is not 0 for a NaN"
def repeated(fn, x, times):
    import functools

    return functools.reduce(lambda y, _: fn(x + y * 0.0), range(times - 1), fn(x))


# %% task="deleted" name="recursion"
def repeated(fn, x, times):
    if times == 1:
        return fn(x)
    before = repeated(fn, x, times - 1)
    return fn(x - 0 * before)


# %% task="deleted" name="isnan in a select"
def repeated(fn, x, times):
    ys = [fn(x)]
    while len(ys) < times:
        ys.append(fn(jax.lax.select(jnp.isnan(ys[-1]), ys[-1], x)))
    return ys[-1]


# %% task="deleted" name="zeros of the result's shape, and all calls alike"
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    shape = jax.eval_shape(fn, x)
    y = jnp.zeros(shape.shape, shape.dtype)
    for _ in range(times):
        y = fn(x + 0 * y)
    return y
