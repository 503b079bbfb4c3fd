# %% [markdown]
# Right answers to unit 04 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.


# %% task="collect" name="as in the hints"
def exhibit_if(x):
    if x.sum() > 0:
        return x
    return -x


def exhibit_mask(x):
    return x[x > x.mean()]


def exhibit_shape(x):
    return jnp.zeros(jnp.argmin(x))


def unhashable():
    return [1, 2]


def exhibit_number(x):
    return int(jnp.argmax(x))


def exhibit_place(x):
    return "somewhere"[jnp.argmax(x) % 9]


def exhibit_array(x):
    return np.sin(x)


def exhibit_slice(x):
    return x[jnp.argmax(x) :]


# %% task="collect" name="questions of Python's own"
def exhibit_if(x):
    return max(x)


def exhibit_mask(x):
    mask = jnp.isfinite(x)
    return jnp.sum(x[mask])


def exhibit_shape(x):
    return jnp.full((1, jnp.argmax(x)), 7.0)


def unhashable():
    return {"size": 3}


def exhibit_number(x):
    return f"{x.mean().item():.3f}"


def exhibit_place(x):
    import operator

    return operator.index(jnp.argmin(x))


def exhibit_array(x):
    return np.array([1.0, 2.0]).dot(np.asarray(x)[:2])


def exhibit_slice(x):
    middle = jnp.argmax(x) // 2
    return x[0:middle].sum()


# %% task="collect" name="lambdas and loops"
exhibit_if = lambda x: [value for value in x if value > 0]
exhibit_mask = lambda x: x[jnp.abs(x) > 1]
exhibit_shape = lambda x: jnp.broadcast_to(1.0, (jnp.argmin(x),))
unhashable = lambda: np.zeros(3)
exhibit_number = lambda x: jnp.arange(jnp.argmax(x))
exhibit_place = lambda x: hex(jnp.argmin(x))
exhibit_array = lambda x: np.concatenate([x, x])


def exhibit_slice(x):
    for end in (jnp.argmin(x), jnp.argmax(x)):
        x[:end]


# %% task="tax" name="a sum of what is above each threshold"
@jax.jit
def tax(income):
    above = lambda threshold: jnp.where(income < threshold, 0, income - threshold)
    return 0.2 * above(10.0) + 0.3 * above(40.0)


# %% task="tax" name="jnp.select"
@jax.jit
def tax(income):
    income = jnp.asarray(income, jnp.float32)
    pieces = [jnp.zeros_like(income), 0.2 * (income - 10)]
    return jnp.select([income < 10, income < 40], pieces, 6.0 + 0.5 * (income - 40))


# %% task="tax" name="a table of pieces, found by searchsorted"
def made():
    begins, base, rate = np.array([[0, 10, 40], [0, 0, 6], [0, 0.2, 0.5]], np.float32)

    def tax(income):
        piece = jnp.searchsorted(begins[1:], income, side="right")
        return jnp.take(base, piece) + jnp.take(rate, piece) * (income - jnp.take(begins, piece))

    return jax.jit(tax)


tax = made()


# %% task="tax" name="lax.cond for one income, lifted by jnp.vectorize"
def of_one(income):
    middle = lambda i: jax.lax.cond(i < 40, lambda i: 0.2 * (i - 10), lambda i: 6 + 0.5 * (i - 40), i)
    return jax.lax.cond(income < 10, lambda i: 0.0 * i, middle, income)


@jax.jit
def tax(income):
    return jnp.vectorize(of_one)(jnp.float32(income))


# %% task="price" name="a dict for each type"
def static_traces(values):
    seen = {}
    for value in values:
        seen.setdefault(type(value), set()).add(value)
    return sum(map(len, seen.values()))


# %% task="price" name="a list of pairs that were not there before"
def static_traces(values):
    known = []
    for value in values:
        if not any(type(other) is type(value) and other == value for other in known):
            known.append(value)
    return len(known)


# %% task="price" name="a Counter, and a class that compares"
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    kind: type
    value: object


def static_traces(values):
    return len(Counter(Key(type(value), value) for value in values))


# %% task="bikes" name="a decorator, and an hour as a function of its own"
def an_hour(bikes, moves, share):
    taken = share * bikes
    return bikes - taken + moves @ taken


@partial(jax.jit, static_argnums=3)
def bikes_after(bikes, moves, share, hours):
    from functools import reduce

    return reduce(lambda now, _: an_hour(now, moves, share), range(hours), bikes)


# %% task="bikes" name="fori_loop, and nothing is static"
@jax.jit
def bikes_after(bikes, moves, share, hours):
    return jax.lax.fori_loop(0, hours, lambda _, now: (1 - share) * now + share * jnp.dot(moves, now), bikes)


# %% task="bikes" name="scan with a static length"
@partial(jax.jit, static_argnames=["hours"])
def bikes_after(bikes, moves, share, hours):
    def one_hour(now, _):
        return (1 - share) * now + share * jnp.matmul(moves, now), None

    return jax.lax.scan(one_hour, bikes, length=hours)[0]


# %% task="bikes" name="a loop of 48, with an if that Python decides"
@partial(jax.jit, static_argnames="hours")
def bikes_after(bikes, moves, share, hours):
    for hour in range(48):
        if hour < hours:
            bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes


# %% task="bikes" name="calls itself"
@partial(jax.jit, static_argnames="hours")
def bikes_after(bikes, moves, share, hours):
    if hours == 0:
        return jnp.asarray(bikes)
    return bikes_before_last(bikes, moves, share, hours - 1)


def bikes_before_last(bikes, moves, share, more):
    moved = (1 - share) * bikes + share * (moves @ bikes)
    return bikes_before_last(moved, moves, share, more - 1) if more else moved


# %% task="pool" name="reduce_window"
@partial(jax.jit, static_argnames=("k",))
def pool(x, k):
    total = jax.lax.reduce_window(x, 0.0, jax.lax.add, (k, k), (k, k), "VALID")
    return total / k**2


# %% task="pool" name="einsum over blocks"
@partial(jax.jit, static_argnums=1, static_argnames="k")
def pool(x, k):
    height, width = (side - side % k for side in x.shape)
    blocks = jnp.reshape(x[:height, :width], (height // k, k, width // k, k))
    return jnp.einsum("aibj->ab", blocks) / (k * k)


# %% task="pool" name="one axis after the other, in a helper"
def shorten(x, k):
    whole = len(x) // k
    return jnp.mean(x[: whole * k].reshape(whole, k, x.shape[1]), axis=1)


def pool(x, k):
    return shorten(shorten(x, k).T, k).T


pool = jax.jit(pool, static_argnames="k")


# %% task="negatives" name="compress"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    negative = x < 0
    return jnp.compress(negative, x, size=size, fill_value=0), jnp.count_nonzero(negative)


# %% task="negatives" name="places by cumsum, what does not fit is dropped"
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    negative = x < 0
    place = jnp.where(negative, jnp.cumsum(negative) - 1, size)
    return jnp.zeros(size, x.dtype).at[place].set(x, mode="drop"), negative.sum()


# %% task="negatives" name="a stable sort"
def first_negatives(x, size):
    order = jnp.argsort(~(x < 0), stable=True)[:size]
    return jnp.where(x[order] < 0, x[order], 0), jnp.sum((x < 0).astype(jnp.int32))


get_negatives = jax.jit(first_negatives, static_argnums=1, static_argnames="size")


# %% task="negatives" name="where with a size, and a scan that counts"
@partial(jax.jit, static_argnames=["size"])
def get_negatives(x, size):
    (places,) = jnp.where(x < 0, size=size, fill_value=-1)
    found = jnp.where(places < 0, 0, x[places])
    count, _ = jax.lax.scan(lambda n, value: (n + (value < 0), None), jnp.int32(0), x)
    return found, count


# %% task="amplifier" name="a NamedTuple for the settings, children and static parts by hand"
from typing import NamedTuple


class Settings(NamedTuple):
    mode: str
    ceiling: float


@jax.tree_util.register_pytree_node_class
class Amplifier:
    def __init__(self, gain, settings):
        self.gain, self.settings = gain, settings

    def tree_flatten(self):
        return (self.gain,), self.settings

    @classmethod
    def tree_unflatten(cls, settings, children):
        return cls(*children, settings)

    @jax.jit
    def __call__(self, x):
        loud = self.gain * x
        mode, ceiling = self.settings
        return jnp.clip(loud, -ceiling, ceiling) if mode == "clip" else ceiling * jnp.sin(loud / ceiling)


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


# %% task="amplifier" name="settings that are static themselves"
@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float

    def limit(self, loud):
        if self.mode == "fold":
            return self.ceiling * jnp.sin(loud / self.ceiling)
        return jnp.maximum(jnp.minimum(loud, self.ceiling), -self.ceiling)


@partial(jax.tree_util.register_dataclass, data_fields=["gain", "settings"], meta_fields=[])
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings

    @jax.jit
    def __call__(self, x):
        return self.settings.limit(x * self.gain)


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain=gain, settings=Settings(mode=mode, ceiling=ceiling))


# %% task="amplifier" name="properties without a setter, a table of functions"
MODES = {
    "clip": lambda loud, ceiling: jnp.clip(loud, min=-ceiling, max=ceiling),
    "fold": lambda loud, ceiling: jnp.sin(loud / ceiling) * ceiling,
}


class Settings:
    def __init__(self, mode, ceiling):
        self._both = mode, ceiling

    mode = property(lambda self: self._both[0])
    ceiling = property(lambda self: self._both[1])

    def __eq__(self, other):
        return isinstance(other, Settings) and self._both == other._both

    def __hash__(self):
        return hash(self._both)


class Amplifier:
    def __init__(self, gain, settings):
        self.gain = gain
        self.settings = settings

    @jax.jit
    def __call__(self, x):
        return MODES[self.settings.mode](self.gain * x, self.settings.ceiling)


jax.tree_util.register_pytree_node(
    Amplifier, lambda a: ([a.gain], a.settings), lambda settings, gain: Amplifier(gain[0], settings)
)


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


# %% task="sealed-box" name="an array of JAX, in a helper"
def is_static(box, args, position):
    probe = list(args)
    probe[position] = jnp.asarray(args[position])
    try:
        box(*probe)
    except ValueError:
        return True
    return False


def find_static(box, args):
    return [position for position in range(len(args)) if is_static(box, args, position)]


# %% task="sealed-box" name="a tracer is no static value"
def find_static(box, args):
    static = []
    for position in range(len(args)):

        def with_this_one_traced(value):
            return box(*args[:position], value, *args[position + 1 :])

        try:
            jax.make_jaxpr(with_this_one_traced)(args[position])
        except ValueError:
            static += [position]
    return static


# %% task="sealed-box" name="counts traces for three values that nobody has had"
def find_static(box, args):
    import random

    def traces_with(position, value):
        with trace_log(box) as log:
            box(*args[:position], value, *args[position + 1 :])
        return log.traces

    box(*args)
    static = set()
    for position, arg in enumerate(args):
        for _ in range(3):
            new = arg + random.randint(10**6, 10**9)
            if traces_with(position, new):
                static.add(position)
    return sorted(static)


# %% task="negatives" name="every number is sent to its place, or to the bin"
from typing import TypeAlias

Pair: TypeAlias = tuple[jax.Array, jax.Array]


def rank(mask):
    """How many are True before each place."""
    return jnp.cumsum(mask, dtype=jnp.int32) - mask.astype(jnp.int32)


@partial(jax.jit, static_argnames="size")
def get_negatives(x, size) -> Pair:
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""
    mask = x < 0
    BIN = size  # one place too many: what we do not want ends there
    place = jnp.where(mask, jnp.minimum(rank(mask), BIN), BIN)
    result = jnp.zeros(size + 1, x.dtype).at[place].set(x)
    return result[:size], jnp.count_nonzero(mask).astype(jnp.int32)


# %% task="amplifier" name="settings that raise TypeError when somebody changes them"
class Settings:
    def __init__(self, mode, ceiling):
        self.__dict__.update(mode=mode, ceiling=ceiling)

    def __setattr__(self, name, value):
        raise TypeError("settings are fixed")

    def __delattr__(self, name):
        raise TypeError("settings are fixed")

    def __eq__(self, other):
        return isinstance(other, Settings) and (self.mode, self.ceiling) == (other.mode, other.ceiling)

    def __hash__(self):
        return hash((self.mode, self.ceiling))


@jax.tree_util.register_pytree_node_class
class Amplifier:
    def __init__(self, gain, settings):
        self.gain, self.settings = gain, settings

    def tree_flatten(self):
        return (self.gain,), self.settings

    @classmethod
    def tree_unflatten(cls, settings, children):
        return cls(*children, settings)

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(mode, ceiling))


# %% task="amplifier" name="the mode is a jitted function, in frozen settings"
@jax.jit
def clip(loud, ceiling):
    return jnp.clip(loud, -ceiling, ceiling)


@jax.jit
def fold(loud, ceiling):
    return ceiling * jnp.sin(loud / ceiling)


@dataclasses.dataclass(frozen=True)
class Settings:
    limit: object
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        return self.settings.limit(self.gain * x, self.settings.ceiling)


def make_amplifier(gain, mode, ceiling):
    return Amplifier(gain, Settings(clip if mode == "clip" else fold, ceiling))


# %% task="amplifier" name="an Enum, and register_pytree_node with two lambdas"
class Mode(enum.Enum):
    CLIP = "clip"
    FOLD = "fold"


@dataclasses.dataclass(frozen=True)
class Settings:
    mode: Mode
    ceiling: float


class Amplifier:
    """gain is data, settings are structure."""

    def __init__(self, gain, settings):
        self.gain, self.settings = gain, settings

    @jax.jit
    def __call__(self, x):
        ceiling = self.settings.ceiling
        loud = jnp.multiply(self.gain, x)
        effects = {
            Mode.CLIP: lambda y: jnp.clip(y, -ceiling, ceiling),
            Mode.FOLD: lambda y: jnp.sin(y / ceiling) * ceiling,
        }
        return effects[self.settings.mode](loud)


jax.tree_util.register_pytree_node(
    Amplifier,
    lambda amplifier: ([amplifier.gain], amplifier.settings),
    lambda settings, children: Amplifier(*children, settings),
)


def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x)."""
    return Amplifier(gain, Settings(Mode(mode), ceiling))
