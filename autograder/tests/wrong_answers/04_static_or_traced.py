# %% [markdown]
# Wrong answers for unit 04. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

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


# %% task="pool" name="walks over the blocks" fails=["pool-check"] message="expected at most 6"
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
