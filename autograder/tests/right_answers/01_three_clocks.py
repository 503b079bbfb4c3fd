# %% [markdown]
# Right answers to unit 01 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="honest-timer" name="a comprehension over a helper, and a sorted list"
def wait_for(tree):
    for leaf in jax.tree.leaves(tree):
        leaf.block_until_ready()


def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    wait_for(args)

    def one():
        start = clock()
        wait_for(fn(*args))
        return clock() - start

    first, *later = [one() for _ in range(rounds + 1)]
    later.sort()
    middle = rounds // 2
    return first, later[middle] if rounds % 2 else (later[middle - 1] + later[middle]) / 2


# %% task="honest-timer" name="a class, and np.median"
class Stopwatch:
    def __init__(self, clock):
        self.clock, self.laps = clock, []

    def __enter__(self):
        self.start = self.clock()

    def __exit__(self, *error):
        self.laps.append(self.clock() - self.start)


def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    watch = Stopwatch(clock)
    jax.tree.map(lambda leaf: leaf.block_until_ready(), args)
    for _ in range(1 + rounds):
        with watch:
            jax.tree.map(lambda leaf: leaf.block_until_ready(), fn(*args))
    return watch.laps[0], float(np.median(watch.laps[1:]))


# %% task="honest-timer" name="recursion over dicts and lists, waits before every call"
def settle(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        for part in tree:
            settle(part)
    else:
        tree.block_until_ready()
    return tree


def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    durations = {}
    for k in range(rounds + 1):
        settle(args)
        before = clock()
        settle(fn(*args))
        after = clock()
        durations[k] = after - before
    first = durations.pop(0)
    return (first, statistics.median(durations.values()))


# %% task="fusion-ceiling" name="one plus a ratio"
def fusion_ceiling(kept, removed):
    return 1 + removed / kept


# %% task="fusion-ceiling" name="from the fraction that is removed"
def fusion_ceiling(kept, removed):
    fraction = removed / (kept + removed)
    return 1 / (1 - fraction)


# %% task="fusion-ceiling" name="a limit in NumPy"
fusion_ceiling = lambda kept, removed: float(np.divide(np.add(kept, removed), kept))


# %% task="fuse-me" name="a scan over the coefficients"
@jax.jit
def fuse_me(coefficients, x):
    return jax.lax.scan(lambda y, a: (y * x + a, None), jnp.zeros_like(x), coefficients, unroll=True)[0]


# %% task="fuse-me" name="jnp.polyval"
@jax.jit
def fuse_me(coefficients, x):
    return jnp.polyval(coefficients, x, unroll=64)


# %% task="fuse-me" name="a fold from the left, jitted in a factory that runs once"
def made():
    from functools import reduce

    def polynomial(coefficients, x):
        first, *rest = coefficients
        return reduce(lambda y, a: y * x + a, rest, jnp.full_like(x, first))

    return jax.jit(polynomial)


fuse_me = made()


# %% task="fuse-me" name="a method of an object that is made once"
class Polynomial:
    def __init__(self):
        self.program = jax.jit(self.evaluate)

    def evaluate(self, coefficients, x):
        y = coefficients[0] + 0 * x
        for a in coefficients[1:]:
            y = a + y * x
        return y

    def __call__(self, coefficients, x):
        return self.program(coefficients, x)


fuse_me = Polynomial()


# %% task="break-even" name="math.ceil of a fraction"
def break_even(eager_first, eager, jit_first, jit):
    import math
    from fractions import Fraction

    if jit_first <= eager_first:
        return 1
    if jit >= eager:
        return None
    return 1 + math.ceil(Fraction(jit_first - eager_first, eager - jit))


# %% task="break-even" name="divmod, in one expression"
def break_even(eager_first, eager, jit_first, jit):
    debt, saved = jit_first - eager_first, eager - jit
    rounds, rest = divmod(debt, saved) if saved > 0 else (None, None)
    return 1 if debt <= 0 else None if rounds is None else 1 + rounds + bool(rest)


# %% task="break-even" name="a search that doubles and halves"
def break_even(eager_first, eager, jit_first, jit):
    def pays(calls):
        return jit_first + (calls - 1) * jit <= eager_first + (calls - 1) * eager

    if pays(1):
        return 1
    if jit >= eager:
        return None
    few, many = 1, 2
    while not pays(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        if pays(middle):
            many = middle
        else:
            few = middle
    return many


# %% task="sealed-box" name="a list of readings"
def open_the_box(program, clock):
    readings = [clock()]
    for _ in range(2):
        result = program()
        readings.append(clock())
        result.block_until_ready()
        readings.append(clock())
    first_call, first_wait, dispatch, run = (b - a for a, b in zip(readings, readings[1:]))
    return dict(build=first_call - dispatch, dispatch=dispatch, run=run, backlog=first_call + first_wait - run)


# %% task="sealed-box" name="a closure that measures one call"
def open_the_box(program, clock):
    def call():
        start = clock()
        promise = program()
        handed_over = clock() - start
        promise.block_until_ready()
        return handed_over, clock() - start

    (slow, all_of_it), (dispatch, warm) = call(), call()
    run = warm - dispatch
    return {"build": slow - dispatch, "dispatch": dispatch, "run": run, "backlog": all_of_it - run}


# %% task="sealed-box" name="a generator of moments, in other order of keys"
def open_the_box(program, clock):
    def moments():
        for _ in "ab":
            yield clock()
            promise = program()
            yield clock()
            promise.block_until_ready()
            yield clock()

    a, b, c, d, e, f = moments()
    return {"backlog": c - a - (f - e), "run": f - e, "dispatch": e - d, "build": (b - a) - (e - d)}
