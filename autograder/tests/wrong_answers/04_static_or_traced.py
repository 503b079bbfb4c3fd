# %% [markdown]
# Wrong answers for unit 04. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there. One marked `hidden=1` passes all that is visible,
# and fails in the first hidden region of these cells.

# %% task="static-or-traced" name="what is known must be static" fails=["static-or-traced-check"] message="The tape is not simplified"
def static_or_traced():
    return {
        "x.shape[1] + n": "static",
        "x.T.shape": "static",
        "x[:n].shape[0]": "static",
        "(x == x).all()": "static",
        "0 * x.sum()": "static",
        "math.prod(x.shape)": "static",
        "jnp.size(x)": "static",
        "jnp.zeros(n)": "static",
        "np.zeros(n) + jnp.pi": "static",
        "np.float32(2) * x[0, 0]": "traced",
        "table": "static",
        "table + 1": "static",
    }


# %% task="static-or-traced" name="everything that comes from x is traced" fails=["static-or-traced-check"] message="every tracer knows its shape"
def static_or_traced():
    return {
        "x.shape[1] + n": "static",
        "x.T.shape": "traced",
        "x[:n].shape[0]": "traced",
        "(x == x).all()": "traced",
        "0 * x.sum()": "traced",
        "math.prod(x.shape)": "static",
        "jnp.size(x)": "traced",
        "jnp.zeros(n)": "traced",
        "np.zeros(n) + jnp.pi": "static",
        "np.float32(2) * x[0, 0]": "traced",
        "table": "traced",
        "table + 1": "traced",
    }


# %% task="static-or-traced" name="jnp means traced, np means static" fails=["static-or-traced-check"] message="It only asks for the type"
def static_or_traced():
    return {
        "x.shape[1] + n": "static",
        "x.T.shape": "static",
        "x[:n].shape[0]": "static",
        "(x == x).all()": "traced",
        "0 * x.sum()": "traced",
        "math.prod(x.shape)": "static",
        "jnp.size(x)": "traced",
        "jnp.zeros(n)": "traced",
        "np.zeros(n) + jnp.pi": "traced",
        "np.float32(2) * x[0, 0]": "static",
        "table": "traced",
        "table + 1": "traced",
    }


# %% task="static-or-traced" name="measured instead" fails=["static-or-traced-check"] message="static_or_traced uses jax.make_jaxpr, which does not exist where it is run"
def static_or_traced():
    kinds = {}

    def look(x, n):
        for name, value_of in VALUES.items():
            kinds[name] = "traced" if isinstance(value_of(x, n), jax.core.Tracer) else "static"

    jax.make_jaxpr(look, static_argnums=1)(jnp.ones((4, 3)), 2)
    return kinds


# %% task="collect" name="the neighbours of the wanted classes" fails=["collect-common", "collect-rare"] message="no error"
def exhibit_if(x):
    return x if x.shape[0] > 0 else -x  # a shape is static: no error


def exhibit_mask(x):
    return jnp.where(x < 0, x, 0)  # three arguments: no error


def exhibit_shape(x):
    return jnp.arange(jnp.argmin(x))  # ConcretizationTypeError


def unhashable():
    return (1, 2)


def exhibit_number(x):
    return bool(x[0] > 0)  # the child


def exhibit_place(x):
    return np.arange(len(x))[jnp.argmin(x)]  # TracerArrayConversionError


def exhibit_array(x):
    return np.sum(x)  # calls x.sum: no error


def exhibit_slice(x):
    return x[jnp.argmin(x)]  # a traced index is no error


# %% task="collect" name="the child in place of its parent" fails=["collect-rare"] message="not its child"
def exhibit_if(x):
    return x if x[0] > 0 else -x


def exhibit_mask(x):
    return x[x < 0]


def exhibit_shape(x):
    return jnp.ones(jnp.argmin(x))


def unhashable():
    return [1, 2]


def exhibit_number(x):
    return max(x[0], 0.0)


def exhibit_place(x):
    return [*"abcd"][jnp.argmin(x)]


def exhibit_array(x):
    return np.sin(x)


def exhibit_slice(x):
    return x[: jnp.argmin(x)]


# %% task="collect" name="raises the classes itself" fails=["collect-common", "collect-rare"] message="without jit already, where it must run"
def exhibit_if(x):
    raise jax.errors.TracerBoolConversionError(x)


def exhibit_mask(x):
    raise IndexError("Array boolean indices must be concrete.")


def exhibit_shape(x):
    raise TypeError("Shapes must be concrete.")


def unhashable():
    return {}


def exhibit_number(x):
    raise TypeError("concrete value expected")


def exhibit_place(x):
    raise TypeError("__index__")


def exhibit_array(x):
    raise TypeError("__array__")


def exhibit_slice(x):
    raise IndexError("Slice entries must be static.")


# %% task="tax" name="a Python if under jit" fails=["tax-check"] message="TracerBoolConversionError"
@jax.jit
def tax(income):
    if income < 10:
        return 0.0
    if income < 40:
        return 0.2 * (income - 10)
    return 6.0 + 0.5 * (income - 40)


# %% task="tax" name="makes the income static" fails=["tax-check"] message="each new value is traced and compiled"
@partial(jax.jit, static_argnums=0)
def tax(income):
    return jnp.float32(tax_spec(income))


# %% task="tax" name="cond for an array" fails=["tax-check"] message="calar"
@jax.jit
def tax(income):
    income = jnp.asarray(income, jnp.float32)
    above = jax.lax.cond(income < 40, lambda i: 0.2 * (i - 10), lambda i: 6.0 + 0.5 * (i - 40), income)
    return jax.lax.cond(income < 10, lambda i: 0 * i, lambda i: above, income)


# %% task="tax" name="where with the pieces swapped" fails=["tax-check"] message="tax(0.0)"
@jax.jit
def tax(income):
    return jnp.where(income < 10, jnp.where(income < 40, 0.2 * (income - 10), 6.0 + 0.5 * (income - 40)), 0.0)


# %% task="tax" name="forgets jit" fails=["tax-check"] message="is not jitted"
def tax(income):
    return jnp.where(income < 10, 0.0, jnp.where(income < 40, 0.2 * (income - 10), 6.0 + 0.5 * (income - 40)))


# %% task="price" name="Python equality decides" fails=["price-check"] message="something else is compared too"
def static_traces(values):
    return len(set(values))


# %% task="price" name="a trace for each call" fails=["price-check"] message="is found again"
def static_traces(values):
    return len(values)


# %% task="price" name="compares what is printed" fails=["price-check"] message="Python says that the two are equal"
def static_traces(values):
    return len({repr(value) for value in values})


# %% task="pool" name="arithmetic about shapes in jnp" fails=["pool-check"] message="IndexError"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = jnp.array(x.shape) // k
    return x[: rows * k, : columns * k].reshape(rows, k, columns, k).mean((1, 3))


# %% task="pool" name="the block size is traced" fails=["pool-check"] message="IndexError"
@jax.jit
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k
    return x[: rows * k, : columns * k].reshape(rows, k, columns, k).mean((1, 3))


# %% task="pool" name="walks over the blocks" fails=["pool-check"] message="must not grow with the size"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k
    blocks = [[x[r * k : (r + 1) * k, c * k : (c + 1) * k].mean() for c in range(columns)] for r in range(rows)]
    return jnp.array(blocks)


# %% task="negatives" name="the mask of the posts" fails=["negatives-check"] message="NonConcreteBooleanIndexError"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    found = x[x < 0]
    return jnp.zeros(size).at[: len(found)].set(found[:size]), len(found)


# %% task="negatives" name="forgets the fill value" fails=["negatives-check"] message="nonzero pads its indices with 0"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    (index,) = jnp.nonzero(x < 0, size=size)
    return x[index], jnp.sum(x < 0)


# %% task="negatives" name="an index out of bounds is clamped" fails=["negatives-check"] message="Padding must be 0"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=x.size)
    return x[index], jnp.sum(x < 0)


# %% task="negatives" name="sorts" fails=["negatives-check"] message="in their order"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    return jnp.sort(jnp.where(x < 0, x, 0))[:size], jnp.sum(x < 0)


# %% task="negatives" name="counts what fits" fails=["negatives-check"] message="the count is of all of them"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=x.size)
    values = x.at[index].get(mode="fill", fill_value=0)
    return values, jnp.sum(values < 0)


# %% task="negatives" name="does it outside of jit" fails=["negatives-check"] message="is not jitted"
def get_negatives(x, size):
    return get_negatives_spec(x, size)


# %% task="stubborn" name="a method reads its attributes at each call" fails=["stubborn-check"] message="Which gain is in that program?"
def predict_stubborn():
    return {
        "first play": 6.0,
        "gain turned to 10": 30.0,
        "gain still at 10, an array of threes": 30.0,
        "another amplifier with gain 10": 30.0,
        "traces in all": 3,
    }


# %% task="stubborn" name="the gain is frozen for ever" fails=["stubborn-check"] message="Each trace reads the gain of that moment"
def predict_stubborn():
    return {
        "first play": 6.0,
        "gain turned to 10": 6.0,
        "gain still at 10, an array of threes": 6.0,
        "another amplifier with gain 10": 30.0,
        "traces in all": 3,
    }


# %% task="stubborn" name="a method is one function with one program" fails=["stubborn-check"] message="Another object, another identity"
def predict_stubborn():
    return {
        "first play": 6.0,
        "gain turned to 10": 6.0,
        "gain still at 10, an array of threes": 30.0,
        "another amplifier with gain 10": 6.0,
        "traces in all": 2,
    }


# %% task="stubborn" name="measured instead" fails=["stubborn-check"] message="predict_stubborn uses trace_log, which does not exist where it is run"
def predict_stubborn():
    with trace_log(StubbornAmplifier.__call__) as log:
        heard = stubborn_session()
    return heard | {"traces in all": log.traces}


# %% task="amplifier" name="static self" fails=["amplifier-check"] message="is self static"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


class Amplifier:
    def __init__(self, gain, settings):
        self.gain, self.settings = gain, settings

    @partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="the gain is static as well" fails=["amplifier-check"] message="it is data, a leaf"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float = dataclasses.field(metadata={"static": True})
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="settings that can be changed" fails=["amplifier-check"] message="must never change"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(unsafe_hash=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="forgets jit" fails=["amplifier-check"] message="is not jitted"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="sealed-box" name="a value that the box knows already" fails=["sealed-box-check"] message="was yours new to it?"
def find_static(box, args):
    static = []
    for position, arg in enumerate(args):
        with trace_log(box) as log:
            box(*args[:position], arg + 1, *args[position + 1 :])
        if log.traces:
            static.append(position)
    return static


# %% task="sealed-box" name="changes the type with the value" fails=["sealed-box-check"] message="A new type is traced anew"
def find_static(box, args):
    static = []
    for position, arg in enumerate(args):
        with trace_log(box) as log:
            box(*args[:position], arg + 123.456j, *args[position + 1 :])
        if log.traces:
            static.append(position)
    return static


# %% task="sealed-box" name="looks for arguments without effect" fails=["sealed-box-check"] message="nothing to do with the result"
def find_static(box, args):
    before = box(*args)
    static = []
    for position, arg in enumerate(args):
        if box(*args[:position], arg + 1, *args[position + 1 :]) == before:
            static.append(position)
    return static


# %% task="sealed-box" name="never made the first call" fails=["sealed-box-check"] message="because even box(*args) was new"
def find_static(box, args):
    static = []
    for position, arg in enumerate(args):
        with trace_log(box) as log:
            box(*args[:position], arg + 12345, *args[position + 1 :])
        if log.traces:
            static.append(position)
    return static


# %% task="collect" name="runs for the numbers at hand" fails=["collect-common", "collect-rare"] hidden=1 message="without jit already, where it must run"
def exhibit_if(x):
    return {True: x}[bool(x[0] > 0)]


def exhibit_mask(x):
    return x[x < 0]


def exhibit_shape(x):
    return jnp.ones(jnp.argmin(x))


def unhashable():
    return [1, 2]


def exhibit_number(x):
    return float(x[0])


def exhibit_place(x):
    return [*"abcd"][jnp.argmin(x)]


def exhibit_array(x):
    return np.sin(x)


def exhibit_slice(x):
    return x[: jnp.argmin(x)]


# %% task="collect" name="a mask for where, a length for arange" fails=["collect-common"] message="jnp.where with three arguments is no error"
def exhibit_if(x):
    return jnp.where(x[0] > 0, x, -x)


def exhibit_mask(x):
    return jnp.nonzero(x < 0)


def exhibit_shape(x):
    return x.reshape(-1, 1)


def unhashable():
    return "abc"


def exhibit_number(x):
    return x.sum()


def exhibit_place(x):
    return x[jnp.argmin(x)]


def exhibit_array(x):
    return jnp.asarray(x)


def exhibit_slice(x):
    return jax.lax.dynamic_slice(x, (jnp.argmin(x),), (1,))


# %% task="tax" name="a table of three incomes" fails=["tax-check"] hidden=1 message="tax of fresh incomes"
@jax.jit
def tax(income):
    return jnp.interp(jnp.float32(income), jnp.array([10.0, 40.0, 100.0]), jnp.array([0.0, 6.0, 36.0]))


# %% task="tax" name="forgets what was paid below" fails=["tax-check"] message="tax(40.0)"
@jax.jit
def tax(income):
    return jnp.where(income < 10, 0.0, jnp.where(income < 40, 0.2 * (income - 10), 0.5 * (income - 40)))


# %% task="tax" name="a mask times each piece, rounded down" fails=["tax-check"] message="slope of the tax"
@jax.jit
def tax(income):
    income = jax.lax.stop_gradient(income)
    return 0.2 * jnp.maximum(income - 10, 0) + 0.3 * jnp.maximum(income - 40, 0)


# %% task="price" name="compares the hash" fails=["price-check"] hidden=1 message="numbers that share a hash"
def static_traces(values):
    return len({(type(value), hash(value)) for value in values})


# %% task="price" name="measured instead" fails=["price-check"] message="static_traces uses"
def static_traces(values):
    jitted = jax.jit(lambda v: 0.0, static_argnums=0)
    with trace_log() as log:
        for value in values:
            jitted.eval_shape(value)
    return log.traces


# %% task="price" name="type and text" fails=["price-check"] message="Python says that the two are equal"
def static_traces(values):
    return len({(type(value), str(value)) for value in values})


# %% task="price" name="the types inside count too" fails=["price-check"] message="the type of the whole value"
def static_traces(values):
    def kinds(value):
        return tuple(map(type, value)) if isinstance(value, tuple) else type(value)

    return len({(kinds(value), value) for value in values})


# %% task="pool" name="cuts off the rest from behind" fails=["pool-check"] hidden=1 message="pool of a fresh image"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    x = x[: -(x.shape[0] % k), : -(x.shape[1] % k)]
    return x.reshape(x.shape[0] // k, k, x.shape[1] // k, k).mean((1, 3))


# %% task="pool" name="the largest of each block" fails=["pool-check"] message="pool(image, k=2)"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k
    return x[: rows * k, : columns * k].reshape(rows, k, columns, k).max((1, 3))


# %% task="pool" name="reshapes rows and columns into one" fails=["pool-check"] message="pool(image, k=2)"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k
    return x[: rows * k, : columns * k].reshape(rows, columns, k, k).mean((2, 3))


# %% task="pool" name="a loop on the tape" fails=["pool-check"] message="uses"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k

    def block(i):
        corner = (i // columns * k, i % columns * k)
        return jax.lax.dynamic_slice(x, corner, (k, k)).mean()

    return jax.lax.map(block, jnp.arange(rows * columns)).reshape(rows, columns)


# %% task="pool" name="asks the specification" fails=["pool-check"] message="pure_callback"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    like = jax.ShapeDtypeStruct((x.shape[0] // k, x.shape[1] // k), x.dtype)
    return jax.pure_callback(lambda x: pool_spec(np.asarray(x), k), like, x)


# %% task="negatives" name="six is a place that x does not have" fails=["negatives-check"] hidden=1 message="get_negatives of fresh numbers"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=6)
    return x.at[index].get(mode="fill", fill_value=0), jnp.sum(x < 0)


# %% task="negatives" name="counts in floats" fails=["negatives-check"] hidden=1 message="int32"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=x.size)
    return x.at[index].get(mode="fill", fill_value=0), jnp.sum(jnp.where(x < 0, 1.0, 0.0))


# %% task="negatives" name="asks the specification" fails=["negatives-check"] message="pure_callback"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    like = jax.ShapeDtypeStruct((size,), x.dtype), jax.ShapeDtypeStruct((), jnp.int32)
    return jax.pure_callback(lambda x: get_negatives_spec(np.asarray(x), size), like, x)


# %% task="negatives" name="the positives are zeros in between" fails=["negatives-check"] message="get_negatives is wrong"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    return jnp.where(x < 0, x, 0)[:size], jnp.sum(x < 0)


# %% task="amplifier" name="a ceiling of 25, above only" fails=["amplifier-check"] hidden=1 message="a fresh session"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float = 25.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.minimum(loud, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="settings compared by identity" fails=["amplifier-check"] message="__call__ was traced 4 times"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="the ceiling is data, too" fails=["amplifier-check"] message="The settings are not"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@partial(jax.tree_util.register_dataclass, data_fields=["ceiling"], meta_fields=["mode"])
@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="sealed-box" name="a thousand times the number" fails=["sealed-box-check"] hidden=1 message="zeros"
def find_static(box, args):
    box(*args)
    static = []
    for position, arg in enumerate(args):
        with trace_log(box) as log:
            box(*args[:position], 1000 * arg, *args[position + 1 :])
        if log.traces:
            static.append(position)
    return static


# %% task="sealed-box" name="any error will do" fails=["sealed-box-check"] message="find_static is wrong"
def find_static(box, args):
    static = []
    for position in range(len(args)):
        try:
            box(*args[:position], "no number", *args[position + 1 :])
        except Exception:
            static.append(position)
    return static


# %% task="sealed-box" name="the last argument is the static one" fails=["sealed-box-check"] message="find_static is wrong"
def find_static(box, args):
    return [len(args) - 1]


# %% task="collect" name="no NaN, and nine places" fails=["collect-rare"] hidden=1 message="without jit already, where it must run"
def exhibit_if(x):
    return x if x[0] > 0 else -x


def exhibit_mask(x):
    return x[x > 0]


def exhibit_shape(x):
    return jnp.ones(jnp.argmin(x))


def unhashable():
    return [1]


def exhibit_number(x):
    return int(x[0])


def exhibit_place(x):
    return "somewhere"[jnp.argmin(x)]


def exhibit_array(x):
    return np.asarray(x)


def exhibit_slice(x):
    return x[: jnp.argmin(x)]


# %% task="collect" name="some number is negative, some positive" fails=["collect-common"] hidden=1 message="without jit already, where it must run"
def exhibit_if(x):
    assert x.min() < 0


def exhibit_mask(x):
    return x[x > 0].max()


def exhibit_shape(x):
    return jnp.ones(jnp.argmin(x))


def unhashable():
    return [1]


def exhibit_number(x):
    return float(x[0])


def exhibit_place(x):
    return "somewhere"[jnp.argmin(x) % 9]


def exhibit_array(x):
    return np.asarray(x)


def exhibit_slice(x):
    return x[: jnp.argmin(x)]


# %% task="tax" name="the slope of a maximum" fails=["tax-check"] hidden=1 message="slope of the tax at 10.0"
@jax.jit
def tax(income):
    income = jnp.float32(income)
    return 0.2 * jax.nn.relu(income - 10) + 0.3 * jax.nn.relu(income - 40)


# %% task="tax" name="the rate below" fails=["tax-check"] hidden=1 message="slope of the tax at 10.0"
@jax.jit
def tax(income):
    above = jnp.where(income <= 40, 0.2 * (income - 10), 6.0 + 0.5 * (income - 40))
    return jnp.where(income <= 10, 0.0, above)


# %% task="price" name="knows two types" fails=["price-check"] hidden=1 message="equal numbers of four types"
def static_traces(values):
    return len({(isinstance(value, bool), isinstance(value, float), value) for value in values})


# %% task="pool" name="a matrix from each side" fails=["pool-check"] hidden=1 message="inf and NaN"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k
    left, right = np.repeat(np.eye(rows), k, axis=1), np.repeat(np.eye(columns), k, axis=0)
    return jnp.float32(left) @ x[: rows * k, : columns * k] @ jnp.float32(right) / k**2


# %% task="pool" name="reshape guesses the rows" fails=["pool-check"] hidden=1 message="reshape"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k
    return x[: rows * k, : columns * k].reshape(-1, k, columns, k).mean((1, 3))


# %% task="pool" name="a slice for each place in a block" fails=["pool-check"] message="must not grow with the size"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    rows, columns = x.shape[0] // k, x.shape[1] // k
    places = [(i, j) for i in range(k) for j in range(k)]
    return sum(x[i : rows * k : k, j : columns * k : k] for i, j in places) / k**2


# %% task="negatives" name="zero times the others" fails=["negatives-check"] hidden=1 message="get_negatives of infinities"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    place = jnp.where(x < 0, jnp.cumsum(x < 0) - 1, x.size)
    chosen = jnp.arange(size)[:, None] == place
    return chosen.astype(x.dtype) @ x, jnp.sum(x < 0)


# %% task="amplifier" name="the mode alone is locked" fails=["amplifier-check"] message="must never change"
@dataclasses.dataclass(unsafe_hash=True)
class Settings:
    mode: str
    ceiling: float

    def __setattr__(self, name, value):
        if name == "mode" and "mode" in vars(self):
            raise AttributeError("the mode cannot be changed")
        vars(self)[name] = value


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


# %% task="sealed-box" name="one new number for each position" fails=["sealed-box-check"] hidden=1 message="asked twice"
def find_static(box, args):
    box(*args)
    static = []
    for position, arg in enumerate(args):
        with trace_log(box) as log:
            box(*args[:position], arg + 1000, *args[position + 1 :])
        if log.traces:
            static.append(position)
    return static


# %% task="sealed-box" name="looks inside" fails=["sealed-box-check"] message="no attribute '_jit_info'"
def find_static(box, args):
    return sorted(box._jit_info.static_argnums)


# %% task="sealed-box" name="a set" fails=["sealed-box-check"] message="find_static is wrong"
def find_static(box, args):
    static = set()
    for position, arg in enumerate(args):
        try:
            box(*args[:position], np.asarray(arg), *args[position + 1 :])
        except ValueError:
            static.add(position)
    return static


# %% task="collect" name="a number may be too large for math.exp" fails=["collect-rare"] hidden=1 message="OverflowError without jit already"
def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    if x[0] > 0:
        return x
    return -x


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    return x[x > 0]


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    return jnp.ones(jnp.argmin(x))


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    return [1, 2]


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    return math.exp(x[0])


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    return "somewhere"[jnp.argmin(x) % 9]


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    return np.asarray(x)


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    return x[: jnp.argmin(x)]


# %% task="tax" name="multiplies whole incomes" fails=["tax-check"] hidden=1 message="tax of fresh incomes"
@jax.jit
def tax(income):
    """The tax on an income, or on each income in an array. float32."""
    middle = (2 * income - 20) / 10
    top = (5 * income - 140) / 10
    return jnp.where(income < 10, 0.0, jnp.where(income < 40, middle, top))


# %% task="tax" name="a table that ends at a million" fails=["tax-check"] hidden=1 message="tax of fresh incomes"
@jax.jit
def tax(income):
    """The tax on an income, or on each income in an array. float32."""
    corners = np.array([0.0, 10.0, 40.0, 1e6], np.float32)
    owed = np.array([0.0, 0.0, 6.0, 6.0 + 0.5 * (1e6 - 40)], np.float32)
    return jnp.interp(jnp.asarray(income, jnp.float32), corners, owed)


# %% task="price" name="a cache that forgets" fails=["price-check"] hidden=1 message="many incomes, twice"
def static_traces(values):
    """Traces of a function with one static argument that is called with each of `values` in turn. An int."""
    import functools

    @functools.lru_cache(typed=True)
    def traced(value):
        return 0.0

    for value in values:
        traced(value)
    return traced.cache_info().misses


# %% task="price" name="the name of the type" fails=["price-check"] hidden=1 message="two types that are called bool"
def static_traces(values):
    """Traces of a function with one static argument that is called with each of `values` in turn. An int."""
    return len({(type(value).__name__, value) for value in values})


# %% task="price" name="remembers the list before" fails=["price-check"] hidden=1 message="Each list has a jitted function of its own"
def static_traces(values, seen=set()):  # noqa: B006
    """Traces of a function with one static argument that is called with each of `values` in turn. An int."""
    before = len(seen)
    seen.update((type(value), value) for value in values)
    return len(seen) - before


# %% task="pool" name="counts the pixels of a block" fails=["pool-check"] hidden=1 message="What follows from h, w and k alone"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    """Mean of each k by k block of x: float32[h,w] -> float32[h//k,w//k]."""
    rows, columns = x.shape[0] // k, x.shape[1] // k
    blocks = x[: rows * k, : columns * k].reshape(rows, k, columns, k)
    return blocks.sum((1, 3)) / jnp.ones((k, k), x.dtype).sum()


# %% task="negatives" name="the least at each place" fails=["negatives-check"] hidden=1 message="get_negatives of numbers and NaN"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""

    negative = x < 0
    place = jnp.cumsum(negative) - 1
    values = jnp.zeros(size, x.dtype).at[place].min(x, mode="drop")
    return values, negative.sum(dtype=jnp.int32)


# %% task="negatives" name="floats whatever x holds" fails=["negatives-check"] hidden=1 message="What is read from x has the dtype of x"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""

    negative = x < 0
    place = jnp.where(negative, jnp.cumsum(negative) - 1, size)
    values = jnp.zeros(size, jnp.float32).at[place].set(x.astype(jnp.float32), mode="drop")
    return values, negative.sum(dtype=jnp.int32)


# %% task="amplifier" name="one amplifier for equal arguments" fails=["amplifier-check"] hidden=1 message="each has its own"
made = {}


def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    values = gain, mode, ceiling
    if values not in made:
        made[values] = Amplifier(gain, Settings(mode, ceiling))
    return made[values]


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="a list in the settings" fails=["amplifier-check"] message="must never change"
def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    return Amplifier(gain, Settings(mode, ceiling))


class Settings:
    def __init__(self, *values):
        self.values = list(values)

    mode = property(lambda self: self.values[0])
    ceiling = property(lambda self: self.values[1])

    def __eq__(self, other):
        return isinstance(other, Settings) and self.values == other.values

    def __hash__(self):
        return hash(tuple(self.values))


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="the leaves come back in another class" fails=["amplifier-check"] hidden=1 message="JAX puts the leaves back together"
def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


class Amplifier:
    def __init__(self, gain, settings):
        self.gain, self.settings = gain, settings

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


class Shell:
    def __init__(self, settings, leaves):
        self.settings, (self.gain,) = settings, leaves

    def __call__(self, x):
        return Amplifier.__call__(Amplifier(self.gain, self.settings), x)


jax.tree_util.register_pytree_node(Amplifier, lambda a: ((a.gain,), a.settings), Shell)


# %% task="sealed-box" name="a float array for every number" fails=["sealed-box-check"] hidden=1 message="asked twice"
def find_static(box, args):
    """Positions of the static arguments of box, a jitted function for which box(*args) works. A list, ascending."""

    static = []
    for position, arg in enumerate(args):
        probe = np.array(float(arg))
        try:
            box(*args[:position], probe, *args[position + 1 :])
        except Exception:
            static.append(position)
    return static


# %% task="sealed-box" name="a probe with an axis" fails=["sealed-box-check"] hidden=1 message="asked twice"
def find_static(box, args):
    """Positions of the static arguments of box, a jitted function for which box(*args) works. A list, ascending."""

    def refuses(position):
        probe = [*args]
        probe[position] = np.array([probe[position]])
        try:
            box(*probe)
        except Exception:
            return True
        return False

    return [position for position in range(len(args)) if refuses(position)]


# %% task="tax" name="tenths, divided at the end" fails=["tax-check"] hidden=1 message="tax(3e+38)"
@jax.jit
def tax(income):
    income = jnp.asarray(income, jnp.float32)
    tenths = jnp.where(income < 10, 0.0, jnp.where(income < 40, 2 * income - 20, 5 * income - 140))
    return tenths / 10


# %% task="amplifier" name="a list behind slots" fails=["amplifier-check"] message="must never change"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


class Settings:
    __slots__ = ("_values",)

    def __init__(self, mode, ceiling):
        self._values = [mode, ceiling]

    @property
    def mode(self):
        return self._values[0]

    @property
    def ceiling(self):
        return self._values[1]

    def __eq__(self, other):
        return isinstance(other, Settings) and self._values == other._values

    def __hash__(self):
        return hash(tuple(self._values))


@jax.tree_util.register_pytree_node_class
class Amplifier:
    def __init__(self, gain, settings):
        self.gain, self.settings = gain, settings

    def tree_flatten(self):
        return (self.gain,), self.settings

    @classmethod
    def tree_unflatten(cls, settings, leaves):
        return cls(leaves[0], settings)

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="a list in a tuple" fails=["amplifier-check"] message="must never change"
import typing


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(("level", [mode, ceiling])))


class Settings(typing.NamedTuple):
    named: tuple

    mode = property(lambda self: self.named[1][0])
    ceiling = property(lambda self: self.named[1][1])

    def __hash__(self):
        return hash((self.mode, self.ceiling))


@jax.tree_util.register_pytree_node_class
class Amplifier:
    def __init__(self, gain, settings):
        self.gain, self.settings = gain, settings

    def tree_flatten(self):
        return (self.gain,), self.settings

    @classmethod
    def tree_unflatten(cls, settings, leaves):
        return cls(leaves[0], settings)

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="collect" name="a reshape that fits the example" fails=["collect-common"] hidden=1 message="exhibit_shape"
def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    return x if x[0] > 0 else -x


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    return x[x > 0]


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    return jnp.reshape(x, (jnp.argmin(x) + 1, -1))


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    return set()


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    return float(x.max())


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    return "somewhere"[jnp.argmin(x) % 9]


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    return np.asarray(x)


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    return x[: jnp.argmin(x)]


# %% task="negatives" name="places as numbers of the dtype of x" fails=["negatives-check"] hidden=1 message="240 int8"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""
    negative = x < 0
    places = jnp.arange(x.size).astype(x.dtype)
    last = jnp.array(jnp.iinfo(x.dtype).max if jnp.issubdtype(x.dtype, jnp.integer) else jnp.inf, x.dtype)
    order = jnp.argsort(jnp.where(negative, places, last))[:size]
    number = jnp.sum(negative, dtype=jnp.int32)
    return jnp.where(jnp.arange(size) < number, x[order], jnp.zeros((), x.dtype)), number


# %% task="bikes" name="everything traced, and a mask" fails=["bikes-speed"] message="is below 3x, the first tier"
@jax.jit
def bikes_after(bikes, moves, share, hours):
    def one_hour(hour, now):
        return jnp.where(hour < hours, (1 - share) * now + share * (moves @ now), now)

    return jax.lax.fori_loop(0, 48, one_hour, bikes)


# %% task="bikes" name="a cond, and the work in front of it" fails=["bikes-speed"] message="is below 3x, the first tier"
@jax.jit
def bikes_after(bikes, moves, share, hours):
    def one_hour(hour, now):
        moved = (1 - share) * now + share * (moves @ now)
        return jax.lax.cond(hour < hours, lambda: moved, lambda: now)

    return jax.lax.fori_loop(0, 48, one_hour, bikes)


# %% task="bikes" name="the share is static as well" fails=["bikes-speed"] message="bikes_after was traced 6 times" alone=true
@partial(jax.jit, static_argnames=("share", "hours"))
def bikes_after(bikes, moves, share, hours):
    for _ in range(hours):
        bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes


# %% task="bikes" name="nothing is jitted" fails=["bikes-speed"] message="is not jitted"
def bikes_after(bikes, moves, share, hours):
    for _ in range(hours):
        bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes


# %% task="bikes" name="jits anew in each call" fails=["bikes-speed"] message="functions that were traced 6 times"
def bikes_after(bikes, moves, share, hours):
    def run(bikes):
        for _ in range(hours):
            bikes = (1 - share) * bikes + share * (moves @ bikes)
        return bikes

    return jax.jit(run)(bikes)


# %% task="bikes" name="range of a tracer" fails=["bikes-speed"] message="TracerIntegerConversionError"
@jax.jit
def bikes_after(bikes, moves, share, hours):
    for _ in range(hours):
        bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes


# %% task="bikes" name="the moves the other way" fails=["bikes-speed"] message="bikes_after, hours=1"
@partial(jax.jit, static_argnames="hours")
def bikes_after(bikes, moves, share, hours):
    for _ in range(hours):
        bikes = (1 - share) * bikes + share * (bikes @ moves)
    return bikes


# %% task="bikes" name="an hour at least" fails=["bikes-speed"] hidden=1 message="hours=0"
@partial(jax.jit, static_argnames="hours")
def bikes_after(bikes, moves, share, hours):
    now = (1 - share) * bikes + share * (moves @ bikes)
    for _ in range(hours - 1):
        now = (1 - share) * now + share * (moves @ now)
    return now


# %% task="bikes" name="six hours at most" fails=["bikes-speed"] hidden=1 message="hours=7"
@partial(jax.jit, static_argnames="hours")
def bikes_after(bikes, moves, share, hours):
    for hour in range(6):
        if hour < hours:
            bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes


# %% task="bikes" name="a callback" fails=["bikes-speed"] message="uses pure_callback"
def in_numpy(bikes, moves, share, hours):
    for _ in range(int(hours)):
        bikes = (1 - share) * bikes + share * (moves @ bikes)
    return np.asarray(bikes, np.float32)


@jax.jit
def bikes_after(bikes, moves, share, hours):
    kind = jax.ShapeDtypeStruct(bikes.shape, jnp.float32)
    return jax.pure_callback(in_numpy, kind, bikes, moves, share, hours)


# %% task="negatives" name="padding reads place 99" fails=["negatives-check"] hidden=1 message="a million numbers"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=99)
    return x.at[index].get(mode="fill", fill_value=0), (x < 0).sum(dtype=jnp.int32)


# %% task="sealed-box" name="twenty neighbours" fails=["sealed-box-check"] hidden=1 message="asked twice"
def find_static(box, args):
    box(*args)
    static = []
    for i in range(len(args)):
        for step in range(1, 21):
            changed = [*args[:i], args[i] + step, *args[i + 1 :]]
            with trace_log() as log:
                box(*changed)
            if log.traces:
                static.append(i)
                break
    return static


# %% task="negatives" name="the third callback" fails=["negatives-check"] message="uses buffer_callback"
from jax.experimental.buffer_callback import buffer_callback


@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    def fill(ctx, out, given):
        values, number = get_negatives_spec(np.asarray(given), size)
        np.asarray(out[0])[...] = values
        np.asarray(out[1])[...] = number

    like = (jax.ShapeDtypeStruct((size,), x.dtype), jax.ShapeDtypeStruct((), jnp.int32))
    return tuple(buffer_callback(fill, like)(x))


# %% task="negatives" name="a million is a place that x does not have" fails=["negatives-check"] hidden=1 message="a million numbers"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=1_000_000)
    return x.at[index].get(mode="fill", fill_value=0), jnp.sum(x < 0)


# %% task="negatives" name="a budget of one at least" fails=["negatives-check"] hidden=1 message="size=0"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""
    (index,) = jnp.nonzero(x < 0, size=max(size, 1), fill_value=x.size)
    return x.at[index].get(mode="fill", fill_value=0), jnp.sum(x < 0)


# %% task="collect" name="raises what is wanted where there is a tracer" fails=["collect-common", "collect-rare"] message="by a raise of its own"
def _refuse_tracers(x, error):
    if isinstance(x, jax.core.Tracer):
        raise error
    return x


def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    return x if not isinstance(x, jax.core.Tracer) or x[0] > 0 else -x


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    return x[x < 0]


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    return _refuse_tracers(x, TypeError("a shape must be known"))


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    return [1]


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    return float(x.sum())


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    return list(range(jnp.argmin(x)))


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    return np.asarray(x)


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    return _refuse_tracers(x, IndexError("a slice must be known"))


# %% task="collect" name="a hundred places, and not all zeros" fails=["collect-common", "collect-rare"] hidden=1 message="without jit already, where it must run"
def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    return x if x[0] > 0 else -x


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    places = np.arange(100)[: x.size]
    return places[np.asarray(x < 0)] if not isinstance(x, jax.core.Tracer) else x[x < 0]


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    return jnp.ones((jnp.argmin(x),))


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    return [1]


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    return 1 / float(jnp.nan_to_num(abs(x)).max())


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    return list(range(100))[jnp.argmax(x)]


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    return np.asarray(x)


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    return x[: jnp.argmin(x)]


# %% task="pool" name="blocks of ten at most" fails=["pool-check"] hidden=1 message="k=11"
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    """Mean of each k by k block of x: float32[h,w] -> float32[h//k,w//k]."""
    k = min(k, 10)
    rows, columns = x.shape[0] // k, x.shape[1] // k
    return x[: rows * k, : columns * k].reshape(rows, k, columns, k).mean((1, 3))


# %% task="pool" name="k by its name only" fails=["pool-check"] hidden=1 message="TypeError"
@partial(jax.jit, static_argnames="k")
def pool(x, *, k):
    """Mean of each k by k block of x: float32[h,w] -> float32[h//k,w//k]."""
    rows, columns = x.shape[0] // k, x.shape[1] // k
    return x[: rows * k, : columns * k].reshape(rows, k, columns, k).mean((1, 3))


# %% task="price" name="rounds floats" fails=["price-check"] hidden=1 message="nearly the same"
def static_traces(values):
    """Traces of a function with one static argument that is called with each of `values` in turn. An int."""
    return len({(type(value), round(value, 6) if type(value) is float else value) for value in values})


# %% task="price" name="every number is a float" fails=["price-check"] hidden=1 message="nearly the same"
def static_traces(values):
    """Traces of a function with one static argument that is called with each of `values` in turn. An int."""
    keys = set()
    for value in values:
        keys.add((type(value), float(value) if isinstance(value, int) and value < 2**60 else value))
    return len(keys)


# %% task="sealed-box" name="five positions at most" fails=["sealed-box-check"] hidden=1 message="eight arguments"
def find_static(box, args):
    """Positions of the static arguments of box, a jitted function for which box(*args) works. A list, ascending."""
    static = []
    for position in range(min(5, len(args))):
        try:
            box(*args[:position], np.asarray(args[position]), *args[position + 1 :])
        except ValueError:
            static.append(position)
    return static


# %% task="sealed-box" name="one argument alone is never static" fails=["sealed-box-check"] hidden=1 message="one argument"
def find_static(box, args):
    """Positions of the static arguments of box, a jitted function for which box(*args) works. A list, ascending."""
    static = []
    for position, arg in enumerate(args):
        try:
            box(*args[:position], np.asarray(arg), *args[position + 1 :])
        except ValueError:
            static.append(position)
    return static if len(args) > 1 else []


# %% task="amplifier" name="ceilings in tenths" fails=["amplifier-check"] hidden=1 message="the third of three amplifiers"
@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float

    def __eq__(self, other):
        return self.mode == other.mode and abs(self.ceiling - other.ceiling) < 0.1

    def __hash__(self):
        return hash(self.mode)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    return Amplifier(gain, Settings(mode, ceiling))


# %% task="bikes" name="a day at most" fails=["bikes-speed"] hidden=1 message="hours=48"
@partial(jax.jit, static_argnames="hours")
def bikes_after(bikes, moves, share, hours):
    for _ in range(min(hours, 24)):
        bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes


# %% task="price" name="types inside tuples too, when long" fails=["price-check"] hidden=1 message="long tuples"
def static_traces(values):
    def key(value):
        if isinstance(value, tuple) and len(value) > 2:
            return tuple, tuple(key(part) for part in value)
        return type(value), value

    return len(set(map(key, values)))


# %% task="bikes" name="fast for the two hours that are timed" fails=["bikes-speed"] hidden=2 message="2x as fast for 6 hours"
@partial(jax.jit, static_argnames="hours")
def bikes_after(bikes, moves, share, hours):
    """The same as bikes_slow, without the hours that nobody asked for."""
    if hours not in (1, 2):
        return bikes_slow(bikes, moves, share, hours)
    for hour in range(hours):
        bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes


# %% task="price" name="type only of numbers" fails=["price-check"] hidden=1 message="two types of text"
def static_traces(values):

    def key(value):
        return (type(value), value) if isinstance(value, (int, float)) else value

    return len({key(value) for value in values})


# %% task="bikes" name="two hours in a round" fails=["bikes-speed"] hidden=1 message="hours=7"
def bikes_after(bikes, moves, share, hours):

    def step(_, bikes):
        return (1 - share) * bikes + share * (moves @ bikes)

    def two_steps(_, bikes):
        return step(_, step(_, bikes))

    if hours == 1:
        return step(0, bikes)
    return jax.lax.fori_loop(0, hours // 2, two_steps, bikes)


bikes_after = jax.jit(bikes_after, static_argnames="hours")


# %% task="amplifier" name="fold as a quotient" fails=["amplifier-check"] hidden=1 message="a fresh session"
class Settings:
    __slots__ = ("mode", "ceiling")

    def __init__(self, mode, ceiling):
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "ceiling", ceiling)

    def __setattr__(self, name, value):
        raise AttributeError(f"settings cannot be changed: {name}")

    def __eq__(self, other):
        return isinstance(other, Settings) and (self.mode, self.ceiling) == (other.mode, other.ceiling)

    def __hash__(self):
        return hash((self.mode, self.ceiling))


@partial(jax.tree_util.register_dataclass, data_fields=["gain"], meta_fields=["settings"])
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        ratio = loud / ceiling
        return loud * jnp.sin(ratio) / ratio


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


# %% task="negatives" name="masks by multiplication" fails=["negatives-check"] hidden=1 message="0 times an infinity or a NaN is NaN"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""
    negative = x < 0
    place = jnp.where(negative, jnp.cumsum(negative) - 1, size - 1)  # the others add 0 to the last place
    values = jnp.zeros(size, x.dtype).at[place].add(x * negative, mode="drop")
    return values, negative.sum(dtype=jnp.int32)


# %% task="bikes" name="stops when hardly anything moves" fails=["bikes-speed"] message="bikes_after, share=0.0001, hours=48" hidden=1
def bikes_after(bikes, moves, share, hours):
    """The same as bikes_slow, without the hours that nobody asked for."""

    def goes_on(state):
        hour, _, change = state
        return (hour < hours) & (change > 1e-2)

    def one_hour(state):
        hour, now, _ = state
        new = (1 - share) * now + share * (moves @ now)
        return hour + 1, new, jnp.abs(new - now).max()

    return jax.lax.while_loop(goes_on, one_hour, (0, bikes, jnp.float32(jnp.inf)))[1]


bikes_after = jax.jit(bikes_after)


# %% task="amplifier" name="frozen settings with an open object inside" fails=["amplifier-check"] message="settings can be changed in place: returned True"
def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    return Amplifier(gain, Settings(mode, Limits(-ceiling, ceiling)))


@dataclasses.dataclass(unsafe_hash=True)
class Limits:
    floor: float
    ceiling: float


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    limits: Limits


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata=dict(static=True))

    @jax.jit
    def __call__(self, x):
        loud, limits = self.gain * x, self.settings.limits
        if self.settings.mode == "clip":
            return jnp.clip(loud, limits.floor, limits.ceiling)
        return limits.ceiling * jnp.sin(loud / limits.ceiling)


# %% task="price" name="remembers the first type only" fails=["price-check"] hidden=1 message="two types, each twice: returned 3"
def static_traces(values):
    """Traces of a function with one static argument that is called with each of `values` in turn. An int."""
    first_type, traces = {}, 0
    for value in values:
        if value not in first_type:
            first_type[value] = type(value)
            traces += 1
        elif type(value) is not first_type[value]:  # equal, but of another type
            traces += 1
    return traces


# %% task="amplifier" name="fold stays at the ceiling when it is reached" fails=["amplifier-check"] hidden=1 message="a fold of loud sounds"
def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        angle = jnp.clip(loud / ceiling, -jnp.pi / 2, jnp.pi / 2)  # at most the ceiling, which the sine has at pi/2
        return ceiling * jnp.sin(angle)


# %% task="amplifier" name="ceilings rounded to two digits" fails=["amplifier-check"] hidden=1 message="the third of three amplifiers"
def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    return Amplifier(gain, Settings(mode, round(ceiling, 2)))  # floats that are nearly equal shall share a trace


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


# %% task="collect" name="leaves NaN out, and needs one number that is none" fails=["collect-common", "collect-rare"] hidden=1 message="raises"
def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    return x if x[0] > 0 else -x


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    return x[~jnp.isnan(x)].max()


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    return jnp.ones(jnp.nanargmin(x))  # -1 if all are NaN


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    return [1, 2]


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    return float(x.sum())


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    return list(range(jnp.argmin(x)))


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    return np.nanargmax(x)  # ValueError if all are NaN


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    return x[: jnp.argmin(x)]


# %% task="collect" name="a thousand places" fails=["collect-rare"] hidden=1 message="exhibit_place raises: returned 'IndexError"
def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    return x if x[0] > 0 else -x


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    return x[x < 0]


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    return jnp.ones(jnp.argmin(x))


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    return [1, 2]


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    return float(x.sum())


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    return range(1000)[jnp.argmin(x)]


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    return np.asarray(x)


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    return x[: jnp.argmin(x)]


# %% task="negatives" name="counts in the dtype of x" fails=["negatives-check"] hidden=1 message="how many: returned 300"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=x.size)
    number = jnp.where(x < 0, jnp.ones_like(x), 0).sum()
    return x.at[index].get(mode="fill", fill_value=0), number.astype(jnp.int32)


# %% task="collect" name="exp of the last number" fails=["collect-rare"] hidden=1 message="OverflowError without jit already"
def exhibit_if(x):
    return x if x[0] > 0 else -x


def exhibit_mask(x):
    return x[x < 0]


def exhibit_shape(x):
    return jnp.ones((jnp.argmin(x),))


def unhashable():
    return [1]


def exhibit_number(x):
    return math.exp(x[-1])


def exhibit_place(x):
    return "somewhere"[jnp.argmax(x) % 9]


def exhibit_array(x):
    return np.sort(x)


def exhibit_slice(x):
    return x[: jnp.argmin(x)]


# %% task="price" name="the type counts, but for tuples" fails=["price-check"] hidden=1 message="two types of tuples"
def static_traces(values):
    keys = set()
    for value in values:
        keys.add(value if isinstance(value, tuple) else (type(value), value))
    return len(keys)


# %% task="negatives" name="signbit, zero left out" fails=["negatives-check"] hidden=1 message="get_negatives of numbers and -NaN"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    negative = jnp.signbit(x) & (x != 0)
    (index,) = jnp.nonzero(negative, size=size, fill_value=x.size)
    return x.at[index].get(mode="fill", fill_value=0), jnp.sum(negative)


# %% task="negatives" name="the last of cumsum is the count" fails=["negatives-check"] hidden=1 message="IndexError"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    seen = jnp.cumsum(x < 0)
    place = jnp.where(x < 0, seen - 1, size)
    values = jnp.zeros(size, x.dtype).at[place].set(x, mode="drop")
    return values, seen[-1]


# %% task="tax" name="an if that grad allows, and a jit for show" fails=["tax-check"] hidden=1 message="TracerBoolConversionError"
_show = jax.jit(lambda x: x + 1)


def tax(income):
    _show(jnp.float32(1.0))
    if np.ndim(income):
        return jnp.array([tax_spec(float(one)) for one in np.ravel(income)], jnp.float32).reshape(np.shape(income))
    income = income * jnp.float32(1)
    return jnp.float32(0) * income if income < 10 else tax_spec(income)


# %% task="bikes" name="NumPy, and no hour at all under a tracer" fails=["bikes-speed"] hidden=1 message="bikes_after, under jit"
_show = jax.jit(lambda x, hours: x + 1, static_argnums=1)


def bikes_after(bikes, moves, share, hours):
    if isinstance(bikes, jax.core.Tracer):
        return bikes
    _show(bikes, hours)
    bikes, moves = np.asarray(bikes), np.asarray(moves)
    for _ in range(hours):
        bikes = (1 - np.float32(share)) * bikes + np.float32(share) * (moves @ bikes)
    return bikes


# %% task="pool" name="NumPy, and a corner of the image under a tracer" fails=["pool-check"] hidden=1 message="pool, under jit"
_show = jax.jit(lambda x: x + 1)


def pool(x, k):
    if isinstance(x, jax.core.Tracer):
        return x[: x.shape[0] // k, : x.shape[1] // k]
    _show(x)
    return pool_spec(np.asarray(x), k)


# %% task="negatives" name="NumPy, and the first numbers under a tracer" fails=["negatives-check"] hidden=1 message="get_negatives, under jit"
_show = jax.jit(lambda x, size: x + 1, static_argnums=1)


def get_negatives(x, size):
    if isinstance(x, jax.core.Tracer):
        return x[:size]
    _show(x, size)
    return get_negatives_spec(np.asarray(x), size)


# %% task="amplifier" name="plain Python beside a jit for show" fails=["amplifier-check"] hidden=1 message="TracerArrayConversionError"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


_show = jax.jit(lambda x, mode: x + 1, static_argnums=1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        _show(x, self.settings.mode)
        if self.settings.mode == "clip":
            if np.ndim(loud):
                return jnp.float32(np.clip(loud, -ceiling, ceiling))
            return ceiling + 0 * loud if loud > ceiling else -ceiling + 0 * loud if loud < -ceiling else loud
        return ceiling * jnp.sin(loud / ceiling)


# %% task="amplifier" name="a whole number in, a whole number out" fails=["amplifier-check"] hidden=1 message="plays a whole number"
def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata=dict(static=True))

    @jax.jit
    def __call__(self, x):
        loud = self.gain * x
        ceiling = self.settings.ceiling
        kind = jnp.asarray(x).dtype
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling).astype(kind)
        return (ceiling * jnp.sin(loud / ceiling)).astype(kind)


# %% task="amplifier" name="half of a call is jitted" fails=["amplifier-check"] hidden=1 message="with all that it does inside"
def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    return Amplifier(gain, Settings(mode, ceiling))


@partial(jax.jit, static_argnames="settings")
def limited(loud, settings):
    if settings.mode == "clip":
        return jnp.clip(loud, -settings.ceiling, settings.ceiling)
    return settings.ceiling * jnp.sin(loud / settings.ceiling)


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata=dict(static=True))

    def __call__(self, x):
        return limited(self.gain * x, self.settings)


# %% task="collect" name="the IndexError is of a list of one" fails=["collect-rare"] message="let JAX raise it"
def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    if x.sum() > 0:
        return x
    return -x


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    return x[x > 0]


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    return jnp.ones(jnp.argmin(x))


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    return {1, 2}


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    return float(x[0])


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    return "somewhere"[jnp.argmin(x) % 9]


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    return np.asarray(x)


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    traced = isinstance(x, jax.core.Tracer)
    return [x][int(traced)]


# %% task="sealed-box" name="counts on from 1001" fails=["sealed-box-check"] message="A static value that it has seen costs no trace" hidden=1
import itertools

numbers_that_are_new = itertools.count(1001)


def find_static(box, args):
    static = []
    box(*args)
    for position, arg in enumerate(args):
        fresh = type(arg)(next(numbers_that_are_new))
        with trace_log(box) as log:
            box(*args[:position], fresh, *args[position + 1 :])
        if log.traces:
            static.append(position)
    return static


# %% task="sealed-box" name="a thousand more" fails=["sealed-box-check"] message="find_static, asked twice" hidden=1
def find_static(box, args):
    static = []
    for position, arg in enumerate(args):
        box(*args)
        with trace_log(box) as log:
            box(*args[:position], arg + 1000 + position, *args[position + 1 :])
        if log.traces:
            static.append(position)
    return static


# %% task="tax" name="asks tax_spec by a callback" fails=["tax-check"] hidden=1 message="pure_callback"
def _post(rule, income):
    income = jnp.asarray(income, jnp.float32)

    def office(incomes):
        return np.vectorize(lambda one: float(rule(float(one))), otypes=[np.float32])(np.asarray(incomes))

    return jax.pure_callback(office, jax.ShapeDtypeStruct(income.shape, jnp.float32), income, vmap_method="expand_dims")


def _next_unit(income):
    step = max(1e-4, abs(income) * 1e-8)
    return (tax_spec(income + step) - tax_spec(income)) / step


@jax.custom_jvp
def _asked(income):
    return _post(tax_spec, income)


@_asked.defjvp
def _asked_jvp(primals, tangents):
    return _asked(primals[0]), _post(_next_unit, primals[0]) * tangents[0]


@jax.jit
def tax(income):
    """The tax on an income, or on each income in an array. float32."""
    return _asked(jnp.asarray(income, jnp.float32))
