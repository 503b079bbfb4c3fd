# %% [markdown]
# Wrong answers for unit 16. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there. Those marked `alone`
# leave one crime in, each: it must cost its own line and no other.

# %% task="dish" name="02 says everything twice, and some of it for nobody" fails=["dish-equations"] alone=true message="which equations say something twice"
def step(u, v, feed, kill):
    u_next = u + DU * lab_laplacian(u) - u * v * v + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + u * v * v - (feed + kill) * v
    report = {"in u": jnp.abs(DU * lab_laplacian(u)).max(), "in v": jnp.abs(DV * lab_laplacian(v)).max()}
    if VERBOSE:
        print("largest flows", report)
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):

    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="06 a Python loop over the ticks" fails=["dish-unrolling"] alone=true message="is unrolled"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


def simulate(u, v, feed, kill, steps):
    for _ in range(steps):
        u, v = step(u, v, feed, kill)
    return u, v


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):

    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="11 keeps the film" fails=["dish-memory"] alone=true message="kept until the end. What is wanted of it?"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):

    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, dish

    _, (all_u, all_v) = lax.scan(tick, (u, v), length=steps)
    return all_v.mean((1, 2))


# %% task="microscope" name="09 brackets as on paper" fails=["microscope-flops"] alone=true message="XLA keeps the order of your operations"
def low_pass(z, waves):
    return (waves @ waves.T) @ z @ (waves @ waves.T)


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="10 subtracts two large numbers" fails=["microscope-digits"] alone=true message="contrast"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt((v * v).mean() - v.mean() ** 2)


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="08 where drops values, not the NaN of derivatives" fails=["microscope-nan"] alone=true message="0 times infinity is NaN"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    return -jnp.where(v > 0, v * jnp.log(v), 0.0).sum()


# %% task="pictures" name="03 random numbers of NumPy, frozen by the trace" fails=["pictures-ghosts"] alone=true message="What is not drawn from the key is drawn once"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    i, j = jax.random.randint(key, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * np.random.uniform(size=(size, size)).astype(np.float32)
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="04 a static slider" fails=["pictures-traces"] alone=true message="static 1.1 -> static 1.3"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@functools.partial(jax.jit, static_argnames="gain")
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="07 a Python loop over the cells" fails=["model-products"] alone=true message="`predict` has dot_general 24 times"
def predict(W, A):
    return jnp.stack([cell @ W for cell in A])


def fit(W, A, Y, rates):
    return descend(W, A, Y, rates)


@jax.jit
def descend(W, A, Y, rates):

    def update(W, rate):
        return W - rate * jax.grad(lab_loss)(W, A, Y), None

    return lax.scan(update, jnp.asarray(W), rates)[0]


# %% task="model" name="05 jit of a fresh lambda" fails=["model-recompiles"] alone=true message="always the same function object"
@jax.jit
def predict(W, A):
    return A @ W


def fit(W, A, Y, rates):
    for rate in rates:
        W = jax.jit(lambda W: W - rate * jax.grad(lab_loss)(W, A, Y))(W)
    return W


# %% task="house" name="12 compiles when the customer has come" fails=["house-compiles"] alone=true message="A new number of cells is a new shape"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W)

    def serve(A):
        return np.asarray(answer(A))

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="13 cuts the axis along which neighbours lie" fails=["house-collectives"] alone=true message="needs other collectives than expected"
def open_service(W, most):
    cells_at_most = jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)
    answer = jax.jit(lambda A: A @ W).lower(cells_at_most).compile()

    def serve(A):
        padded = np.zeros(cells_at_most.shape, np.float32)
        padded[: len(A)] = A
        return np.asarray(answer(padded))[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P(None, None, "x")))


# %% task="day" name="01 a program for every part" fails=["day-modules"] alone=true message="put `@jax.jit` on `day` itself"
def day(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, 4)
    forecast = predict(W, lab_terms(u, v)[:48])
    return render(low_pass(v, waves), 2.0), forecast


# %% task="dish" name="jit will merge it: the tape stays as long" fails=["dish-equations"] message="which equations say something twice"
@jax.jit
def step(u, v, feed, kill):
    return lab_step(u, v, feed, kill)


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):

    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="returns the mean, and the film as well" fails=["dish-memory"] message="What is wanted of it?"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):

    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, dish[1]

    return jax.vmap(jnp.mean)(lax.scan(tick, (u, v), length=steps)[1])


# %% task="microscope" name="clips the variance: no NaN, and no digits" fails=["microscope-digits"] message="contrast"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(jnp.maximum((v * v).mean() - v.mean() ** 2, 0.0))


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="one pair of brackets" fails=["microscope-flops"] message="XLA keeps the order of your operations"
def low_pass(z, waves):
    return waves @ (waves.T @ z) @ (waves @ waves.T)


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="another where around the gradient that is NaN" fails=["microscope-nan"] message="0 times infinity is NaN"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    entropy = jnp.where(v > 0, v * jnp.log(v), 0.0)
    return -jnp.where(jnp.isnan(entropy), 0.0, entropy).sum()


# %% task="pictures" name="a fixed seed makes it repeatable, and still not random" fails=["pictures-ghosts"] message="What is not drawn from the key is drawn once"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places = key
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * np.random.default_rng(0).uniform(size=(size, size)).astype(np.float32)
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="not jitted at all: nothing is traced" fails=["pictures-traces"] message="render is not jitted"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="a loop that stays a loop" fails=["model-products"] message="`predict` uses scan"
@jax.jit
def predict(W, A):
    return lax.map(lambda cell: cell @ W, A)


def fit(W, A, Y, rates):
    return descend(W, A, Y, rates)


@jax.jit
def descend(W, A, Y, rates):

    def update(W, rate):
        return W - rate * jax.grad(lab_loss)(W, A, Y), None

    return lax.scan(update, jnp.asarray(W), rates)[0]


# %% task="model" name="the update is defined anew in every fit" fails=["model-recompiles"] message="always the same function object"
@jax.jit
def predict(W, A):
    return A @ W


def fit(W, A, Y, rates):

    @jax.jit
    def update(W, rate):
        return W - rate * jax.grad(lab_loss)(W, A, Y)

    for rate in rates:
        W = update(W, rate)
    return W


# %% task="model" name="a static rate" fails=["model-recompiles"] message="and the rate an argument?"
@jax.jit
def predict(W, A):
    return A @ W


def fit(W, A, Y, rates):
    for rate in rates:
        W = update(W, A, Y, float(rate))
    return W


@functools.partial(jax.jit, static_argnames="rate")
def update(W, A, Y, rate):
    return W - rate * jax.grad(lab_loss)(W, A, Y)


# %% task="house" name="pads with jnp, and compiles the padding" fails=["house-compiles"] message="for jnp.pad and for a slice as well"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)).compile()

    def serve(A):
        return np.asarray(answer(jnp.pad(A, ((0, most - len(A)), (0, 0))))[: len(A)])

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="a copy of everything for everybody" fails=["house-collectives"] message="A copy for everybody needs no calls"
def open_service(W, most):
    cells_at_most = jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)
    answer = jax.jit(lambda A: A @ W).lower(cells_at_most).compile()

    def serve(A):
        padded = np.zeros(cells_at_most.shape, np.float32)
        padded[: len(A)] = A
        return np.asarray(answer(padded))[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P()))


# %% task="dish" name="FEED and KILL, whatever comes" fails=["dish-equations", "dish-unrolling", "dish-memory"] hidden=1 message="at index"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + FEED * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (FEED + KILL) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="static feed and kill" fails=["dish-unrolling", "dish-memory"] hidden=1 message="hashable"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames=("feed", "kill", "steps"))
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames=("feed", "kill", "steps"))
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="one tick less" fails=["dish-unrolling"] message="simulate"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(1, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="the mean before the tick" fails=["dish-memory"] message="watch at index"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        return step(*dish, feed, kill), dish[1].mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="two crimes: 02 and 06" fails=["dish-equations", "dish-unrolling", "day-modules", "day-speed"] message="equations"
def step(u, v, feed, kill):
    u_next = u + DU * lab_laplacian(u) - u * v * v + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + u * v * v - (feed + kill) * v
    report = {"in u": jnp.abs(DU * lab_laplacian(u)).max(), "in v": jnp.abs(DV * lab_laplacian(v)).max()}
    if VERBOSE:
        print("largest flows", report)
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    for _ in range(steps):
        u, v = step(u, v, feed, kill)
    return u, v


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="microscope" name="makes the six waves itself" fails=["microscope-flops"] hidden=1 message="low_pass"
def low_pass(z, waves):
    waves = sine_waves(z.shape[0], 6)
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="takes 0.7 off, the mean of the film" fails=["microscope-digits"] hidden=1 message="jit(contrast)"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    deviations = v - 0.7
    return jnp.sqrt((deviations**2).mean() - deviations.mean() ** 2)


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="a tiny number under the logarithm" fails=["microscope-nan"] hidden=1 message="grad(disorder)"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    return -(v * jnp.log(v + 1e-30)).sum()


# %% task="microscope" name="the largest deviation" fails=["microscope-digits"] message="contrast"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.abs(v - v.mean()).max()


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="the mean of the absolute deviations" fails=["microscope-digits"] message="contrast"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.abs(v - v.mean()).mean()


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="pictures" name="squares at fixed places" fails=["pictures-ghosts"] message="do they come from the key"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(jax.random.key(0), (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="random rows, fixed columns" fails=["pictures-ghosts"] message="do they come from the key"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (3,), 0, size), jnp.array([0, size // 3, size // 2])
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="a single square" fails=["pictures-ghosts"] message="Three squares"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 1), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="squares of eight cells" fails=["pictures-ghosts"] hidden=1 message="as wide as an eighth of the dish"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="the brightness is 2" fails=["pictures-traces"] hidden=1 message="render at index"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(2.0 * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="never too bright" fails=["pictures-traces"] message="render at index"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = gain * v
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="cells in pairs" fails=["model-products"] hidden=1 message="Error"
@jax.jit
def predict(W, A):
    return (A.reshape(-1, 2, 7) @ W).reshape(-1, 2)


@jax.jit
def fit(W, A, Y, rates):
    def update(W, rate):
        return W - rate * jax.grad(lab_loss)(W, A, Y), None

    return lax.scan(update, jnp.asarray(W), rates)[0]


# %% task="model" name="four rates" fails=["model-recompiles"] hidden=1 message="fit at index"
@jax.jit
def predict(W, A):
    return A @ W


@jax.jit
def fit(W, A, Y, rates):
    for k in range(4):
        W = W - rates[k] * jax.grad(lab_loss)(W, A, Y)
    return W


# %% task="model" name="the gradient at the beginning, for every rate" fails=["model-recompiles"] message="fit at index"
@jax.jit
def predict(W, A):
    return A @ W


@jax.jit
def fit(W, A, Y, rates):
    return W - rates.sum() * jax.grad(lab_loss)(W, A, Y)


# %% task="model" name="rates are a static tuple" fails=["model-recompiles"] message="and the rate an argument?"
@jax.jit
def predict(W, A):
    return A @ W


@functools.partial(jax.jit, static_argnames="rates")
def descend(W, A, Y, rates):
    for rate in rates:
        W = W - rate * jax.grad(lab_loss)(W, A, Y)
    return W


def fit(W, A, Y, rates):
    return descend(W, A, Y, tuple(map(float, rates)))


# %% task="house" name="opens with the numbers that the check brings" fails=["house-compiles"] hidden=1 message="KeyError"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W)
    sizes = {3, 17, 1, 64, 40, 5}
    programs = {n: answer.lower(jax.ShapeDtypeStruct((n, 7), jnp.float32)).compile() for n in sizes}

    def serve(A):
        return np.asarray(programs[len(A)](A))

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="the weights are a global" fails=["house-compiles"] hidden=1 message="forecasts of one of two services"
def open_service(W, most):
    global program, weights, places
    weights, places = W, most
    program = jax.jit(jnp.matmul).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32), W).compile()

    def serve(A):
        padded = np.zeros((places, 7), np.float32)
        padded[: len(A)] = A
        return np.asarray(program(padded, weights))[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="NumPy needs no compiler" fails=["house-compiles"] hidden=1 message="compiled when opening"
def open_service(W, most):
    W = np.asarray(W)
    return lambda A: A @ W


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="forgets to cut the padding off" fails=["house-compiles"] message="shape"
def open_service(W, most):
    cells_at_most = jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)
    answer = jax.jit(lambda A: A @ W).lower(cells_at_most).compile()

    def serve(A):
        padded = np.zeros(cells_at_most.shape, np.float32)
        padded[: len(A)] = A
        return np.asarray(answer(padded))

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="cuts u from v" fails=["house-collectives"] message="divisible"
def open_service(W, most):
    cells_at_most = jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)
    answer = jax.jit(lambda A: A @ W).lower(cells_at_most).compile()

    def serve(A):
        padded = np.zeros(cells_at_most.shape, np.float32)
        padded[: len(A)] = A
        return np.asarray(answer(padded))[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P(None, "x")))


# %% task="day" name="the lab as it is, every crime in place" fails=["day-modules", "day-speed"] message="not of the lab's, nor of copies"
@jax.jit
def day(u, v, W, waves):
    return lab_day(u, v, W, waves)


# %% task="day" name="copies, and no function of its own" fails=["day-modules", "day-speed"] message="not of the lab's, nor of copies"
@jax.jit
def day(u, v, W, waves):
    for _ in range(4):
        u, v = step(u, v, FEED, KILL)
    glow = jnp.clip(2.0 * waves @ (waves.T @ v @ waves) @ waves.T, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1), lab_terms(u, v)[:48] @ W


# %% task="day" name="jit switched off, to look into it" fails=["day-speed"] message="is below 3x, the first tier"
def day(u, v, W, waves):
    with jax.disable_jit():
        u, v = simulate(u, v, FEED, KILL, 4)
        forecast = predict(W, lab_terms(u, v)[:48])
        return render(low_pass(v, waves), 2.0), forecast


# %% task="day" name="three ticks" fails=["day-modules"] message="day"
@jax.jit
def day(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, 3)
    forecast = predict(W, lab_terms(u, v)[:48])
    return render(low_pass(v, waves), 2.0), forecast


# %% task="dish" name="a dish of 1024 cells, whatever its size" fails=["dish-memory"] hidden=1 message="watch at index"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    return u_next, v + DV * lab_laplacian(v) + reaction - (feed + kill) * v


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, dish[1].sum() / 1024

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="three ticks, whatever is asked" fails=["dish-unrolling"] message="simulate: leaf"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    return u_next, v + DV * lab_laplacian(v) + reaction - (feed + kill) * v


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, 3, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, dish[1].mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="model" name="24 cells at most" fails=["model-products"] message="predict has shape"
@jax.jit
def predict(W, A):
    table = jnp.zeros((24, 7)).at[: len(A[:24])].set(A[:24])
    return (table @ W)[: len(A)]


@jax.jit
def fit(W, A, Y, rates):
    return lax.scan(lambda W, rate: (W - rate * jax.grad(lab_loss)(W, A, Y), None), jnp.asarray(W), rates)[0]


# %% task="model" name="begins at zero, wherever it is to begin" fails=["model-recompiles"] hidden=1 message="fit at index"
@jax.jit
def predict(W, A):
    return A @ W


@jax.jit
def fit(W, A, Y, rates):
    return lax.scan(lambda W, rate: (W - rate * jax.grad(lab_loss)(W, A, Y), None), jnp.zeros((7, 2)), rates)[0]


# %% task="house" name="64 cells at most" fails=["house-compiles"] hidden=1 message="Error"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((64, 7), jnp.float32)).compile()

    def serve(A):
        return np.asarray(answer(np.pad(A, ((0, 64 - len(A)), (0, 0)))))[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="one table for all forecasts" fails=["house-compiles"] hidden=1 message="forecasts of one of two services"
def open_service(W, most):
    cells_at_most = jax.ShapeDtypeStruct((most, 7), jnp.float32)
    answer = jax.jit(lambda A: A @ W).lower(cells_at_most).compile()
    padded, forecast = np.zeros((most, 7), np.float32), np.zeros((most, 2), np.float32)

    def serve(A):
        padded[: len(A)] = A
        forecast[:] = answer(padded)
        return forecast[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="day" name="the weights of the day that the check begins with" fails=["day-modules"] hidden=1 message="day: leaf"
WEIGHTS = a_day()[2]


@jax.jit
def day(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, 4)
    forecast = predict(WEIGHTS, lab_terms(u, v)[:48])
    return render(low_pass(v, waves), 2.0), forecast


# %% task="pictures" name="one grain for a column" fails=["pictures-ghosts"] message="Each cell has a grain of its own"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size,))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="dish" name="asks the lab on the host" fails=["dish-equations", "dish-memory"] message="uses pure_callback"
def step(u, v, feed, kill):
    return jax.pure_callback(lambda *dish: tuple(map(np.asarray, lab_step(*dish))), (u, v), u, v, feed, kill)


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    curve = jax.ShapeDtypeStruct((steps,), jnp.float32)
    return jax.pure_callback(lambda *dish: np.asarray(lab_watch(*dish, steps)), curve, u, v, feed, kill)


# %% task="dish" name="the first tick before the loop" fails=["dish-unrolling"] hidden=1 message="simulate: leaf"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    first = step(u, v, feed, kill)
    return lax.fori_loop(1, steps, lambda _, dish: step(*dish, feed, kill), first)


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="never below 0, never above 1" fails=["dish-equations"] hidden=1 message="step: leaf"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return jnp.clip(u_next, 0, 1), jnp.clip(v_next, 0, 1)


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="a look at every tick on the host" fails=["dish-equations", "dish-unrolling", "dish-memory"] message="uses debug_callback"
LARGEST_FLOWS = {}


def step(u, v, feed, kill):
    flow_u, flow_v, reaction = DU * lab_laplacian(u), DV * lab_laplacian(v), u * v * v
    jax.debug.callback(lambda u, v: LARGEST_FLOWS.update({"in u": abs(u).max(), "in v": abs(v).max()}), flow_u, flow_v)
    return u + flow_u - reaction + feed * (1 - u), v + flow_v + reaction - (feed + kill) * v


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="simulate donates the dish it is given" fails=["dish-unrolling"] message="What is donated can never be read again" hidden=1
def step(u, v, feed, kill):
    """One tick, as lab_step."""
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps", donate_argnames=("u", "v"))
def simulate(u, v, feed, kill, steps):
    """u and v after so many ticks, as lab_simulate. The old dish makes room for the new one."""
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    """The mean of v after each tick, as lab_watch."""

    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, dish[1].mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="dish" name="step donates" fails=["dish-equations"] message="What is donated can never be read again" hidden=1
@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(u, v, feed, kill):
    """One tick, as lab_step."""
    # 02: every line is on the tape, wanted or not, and as often as it is written.
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    """u and v after so many ticks, as lab_simulate."""
    # 06: a loop that stays a loop.
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    """The mean of v after each tick, as lab_watch."""
    # 11: what the body returns second is kept for every tick. One number is enough.

    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="microscope" name="makes as many waves as it is given, itself" fails=["microscope-flops"] hidden=1 message="low_pass"
def low_pass(z, waves):
    waves = sine_waves(z.shape[0], waves.shape[1])
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -jnp.where(v > 0, v * jnp.log(safe), 0.0).sum()


# %% task="microscope" name="a billionth under the root" fails=["microscope-digits"] hidden=1 message="jit(contrast)"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    deviations = v - v.mean()
    return jnp.sqrt((deviations * deviations).mean() + 1e-9)


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -jnp.where(v > 0, v * jnp.log(safe), 0.0).sum()


# %% task="microscope" name="one cell less" fails=["microscope-digits"] hidden=1 message="jit(contrast)"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.std(jnp.asarray(v), ddof=1)


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -jnp.where(v > 0, v * jnp.log(safe), 0.0).sum()


# %% task="microscope" name="almost bare is bare" fails=["microscope-nan"] hidden=1 message="grad(disorder)"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    full = v > 1e-3
    safe = jnp.where(full, v, 1.0)
    return -jnp.where(full, v * jnp.log(safe), 0.0).sum()


# %% task="microscope" name="low_pass donates" fails=["microscope-flops"] message="What is donated can never be read again" hidden=1
@functools.partial(jax.jit, donate_argnames="z")
def low_pass(z, waves):
    """The dish without its fine detail, as lab_low_pass."""
    # 09: XLA keeps your brackets. From z to a few numbers, and back.
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    """The standard deviation of all cells, as lab_contrast."""
    # 10: subtract while the numbers still have their digits.
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    """The entropy, as lab_disorder, with a gradient everywhere."""
    # 08: `where` drops a value, not the NaN of its derivative. 1 log 1 is 0, and nothing comes back through it.
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="the mean is subtracted in place" fails=["microscope-digits"] message="changes a NumPy array for everybody who has it" hidden=1
def low_pass(z, waves):
    """The dish without its fine detail, as lab_low_pass."""
    # 09: XLA keeps your brackets. From z to a few numbers, and back.
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    """The standard deviation of all cells, as lab_contrast."""
    # 10: subtract while the numbers still have their digits.
    v -= v.mean()
    return jnp.sqrt((v**2).mean())


def disorder(v):
    """The entropy, as lab_disorder, with a gradient everywhere."""
    # 08: `where` drops a value, not the NaN of its derivative. 1 log 1 is 0, and nothing comes back through it.
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="pictures" name="rows and columns from one key" fails=["pictures-ghosts"] message="Are the rows drawn on their own"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = (jax.random.randint(places, (3,), 0, size) for _ in range(2))
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="more grains in the middle" fails=["pictures-ghosts"] message="as many from 0 to 0.1"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * (0.5 + jax.random.truncated_normal(grit, -1.5, 1.5, (size, size)) / 3)
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="squares end at the edge" fails=["pictures-ghosts"] message="goes on at the opposite one"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    below, right = jnp.arange(size)[:, None, None] - i, jnp.arange(size)[None, :, None] - j
    rows = (below >= 0) & (below < size // 8)
    columns = (right >= 0) & (right < size // 8)
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="squares are kept away from the edges" fails=["pictures-ghosts"] message="Any row is as likely as the others"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    """A fresh dish, as lab_sow, in which the key decides all that is random."""
    places, grit = jax.random.split(key)
    width = size // 8
    i, j = jax.random.randint(places, (2, 3), 0, size - width + 1)  # so that each of them fits in
    row, column = jnp.arange(size)[:, None, None], jnp.arange(size)[None, :, None]
    seeds = ((row >= i) & (row < i + width) & (column >= j) & (column < j + width)).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    """A picture, as lab_render."""
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="squares begin in three quarters of the dish" fails=["pictures-ghosts"] message="Any row is as likely as the others"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    """A fresh dish, as lab_sow, in which the key decides all that is random."""
    # 03: NumPy's random numbers are drawn while tracing and are constants from then on. A key is used once.
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size * 3 // 4)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    """A picture, as lab_render."""
    # 04: a number that only multiplies need not be known while tracing.
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="gives the weights away" fails=["model-recompiles"] hidden=1 message="What is donated can never be read again"
@jax.jit
def predict(W, A):
    return A @ W


@functools.partial(jax.jit, donate_argnums=0)
def _descend(W, A, Y, rate):
    return W - rate * jax.grad(lab_loss)(W, A, Y)


def fit(W, A, Y, rates):
    for rate in rates:
        W = _descend(W, A, Y, rate)
    return W


# %% task="model" name="only downhill" fails=["model-recompiles"] hidden=1 message="fit at index"
@jax.jit
def predict(W, A):
    return A @ W


@jax.jit
def fit(W, A, Y, rates):
    def descend(W, rate):
        loss, slope = jax.value_and_grad(lab_loss)(W, A, Y)
        lower = W - rate * slope
        return jnp.where(lab_loss(lower, A, Y) <= loss, lower, W), None

    return lax.scan(descend, W, rates)[0]


# %% task="model" name="remembers cells by their number" fails=["model-recompiles"] hidden=1 message="fit at index"
@jax.jit
def predict(W, A):
    return A @ W


_PRODUCTS = {}


@jax.jit
def _products(A, Y):
    return 2 * A.T @ A / Y.size, 2 * A.T @ Y / Y.size


@jax.jit
def _descend(W, squares, mixed, rates):
    return lax.scan(lambda W, rate: (W - rate * (squares @ W - mixed), None), W, rates)[0]


def fit(W, A, Y, rates):
    if A.shape not in _PRODUCTS:
        _PRODUCTS[A.shape] = _products(A, Y)
    return _descend(W, *_PRODUCTS[A.shape], rates)


# %% task="model" name="the weights are moved in place" fails=["model-recompiles"] message="changes a NumPy array for everybody who has it" hidden=1
@jax.jit
def predict(W, A):
    """How u and v will change in each cell, as lab_predict."""
    # 07: all cells at once.
    return A @ W


def fit(W, A, Y, rates):
    """A step of gradient descent for each of the rates, as lab_fit."""
    # 05: a lambda is a new function each time it is written. This one was written once.
    for rate in rates:
        W -= rate * np.asarray(slope(W, A, Y))
    return jnp.asarray(W)


slope = jax.jit(jax.grad(lab_loss))


# %% task="house" name="a single cell loses its axis" fails=["house-compiles"] hidden=1 message="has shape"
def open_service(W, most):
    program = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()

    def serve(A):
        rest = np.zeros((most - len(A), 7), np.float32)
        forecast, _ = np.split(np.asarray(program(np.vstack([A, rest]))), [len(A)])
        return forecast.squeeze()

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="a program for show, NumPy for the work" fails=["house-compiles"] message="no program of JAX's gets to see" hidden=1
def open_service(W, most):
    jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()
    weights = np.asarray(W)
    return lambda A: A @ weights


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="day" name="calls its functions for show" fails=["day-modules"] hidden=1 message="something is computed twice"
@jax.jit
def day(u, v, W, waves):
    simulate(u, v, FEED, KILL, 4)
    predict(W, lab_terms(u, v)[:48])
    render(low_pass(v, waves), 2.0)

    u, v = lax.fori_loop(0, 4, lambda _, dish: lab_step(*dish, FEED, KILL), (u, v))
    glow = jnp.clip(2.0 * (waves @ (waves.T @ v @ waves) @ waves.T), 0.0, 1.0)
    picture = jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)
    return picture, lab_terms(u, v)[:48] @ W


# %% task="day" name="four rows hold 48 cells" fails=["day-modules"] hidden=1 message="day: leaf"
@jax.jit
def day(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, 4)
    width = u.shape[1]
    top = [jnp.concatenate([z[-1:], z[:3]]) for z in (u, v)]
    forecast = predict(W, lab_terms(*top)[width : width + 48])
    return render(low_pass(v, waves), 2.0), forecast


# %% task="day" name="knows the day by its arrays" fails=["day-modules"] hidden=1 message="day: leaf"
_DAYS = {}


@jax.jit
def _day(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, 4)
    return render(low_pass(v, waves), 2.0), predict(W, lab_terms(u, v)[:48])


def day(u, v, W, waves):
    arguments = u, v, W, waves
    if any(isinstance(array, jax.core.Tracer) for array in arguments):
        return _day(*arguments)
    key = tuple(map(id, arguments))
    if key not in _DAYS:
        _DAYS[key] = arguments, _day(*arguments)
    return _DAYS[key][1]


# %% task="pictures" name="where squares overlap, there is twice as much" fails=["pictures-ghosts"] message="a cell of two squares"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).astype(jnp.float32).sum(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return 1 - 0.5 * seeds - grain, 0.25 * seeds + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="three different rows and three different columns" fails=["pictures-ghosts"] message="begin in one row"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    for_rows, for_columns, grit = jax.random.split(key, 3)
    i = jax.random.choice(for_rows, size, (3,), replace=False)
    j = jax.random.choice(for_columns, size, (3,), replace=False)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="no grain in the squares" fails=["pictures-ghosts"] message="grain in the squares"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0 - grain), jnp.where(seeds, 0.25, grain)


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="compiled once for each number of rates" fails=["model-recompiles"] hidden=1 message="fit"
@jax.jit
def predict(W, A):
    return A @ W


_programs = {}


def _descend(W, A, Y, rates):
    return lax.fori_loop(0, len(rates), lambda i, W: W - rates[i] * jax.grad(lab_loss)(W, A, Y), W)


def fit(W, A, Y, rates):
    given = [jnp.asarray(array) for array in (W, A, Y, rates)]
    if len(rates) not in _programs:
        _programs[len(rates)] = jax.jit(_descend).lower(*given).compile()
    return _programs[len(rates)](*given)


# %% task="house" name="the batch is given away when it is spread" fails=["house-collectives"] hidden=1 message="spread"
def open_service(W, most):
    W = jnp.asarray(W)
    program = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()

    def serve(A):
        filled = np.zeros((most, 7), np.float32)
        filled[: len(A)] = A
        return np.asarray(program(filled))[: len(A)]

    return serve


def spread(dishes, mesh):
    """No second copy of the batch in memory."""
    dishes = jax.block_until_ready(dishes)
    placed = jax.block_until_ready(jax.device_put(dishes, jax.NamedSharding(mesh, P("x"))))
    if isinstance(dishes, jax.Array) and dishes is not placed:
        dishes.delete()
    return placed


# %% task="pictures" name="never in the last row" fails=["pictures-ghosts"] message="The last row is a row, too."
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size - 1)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="house" name="one service for ever" fails=["house-compiles"] hidden=1 message="forecasts of the other one"
services = {}


def open_service(W, most):
    if most not in services:
        form = jax.ShapeDtypeStruct((most, 7), jnp.float32)
        services[most] = jax.jit(lambda A: A @ W).lower(form).compile()

    def serve(A):
        full = np.zeros((most, 7), np.float32)
        full[: len(A)] = A
        return np.asarray(services[most](full))[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="a mesh of its own" fails=["house-collectives"] hidden=1 message="spread on another mesh"
def open_service(W, most):
    """Opens the service, as lab_open_service; afterwards, nothing is compiled."""
    program = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()

    def serve(A):
        padded = np.zeros((most, 7), np.float32)
        padded[: len(A)] = A
        return np.asarray(program(padded))[: len(A)]

    return serve


def spread(dishes, mesh):
    """A batch of dishes, an equal share on each device, as lab_spread."""
    return jax.device_put(dishes, jax.NamedSharding(eight_devices(), P("x", None, None, None)))


# %% task="day" name="is the lab's for other dishes" fails=["day-modules"] hidden=1 message="your functions are run for every dish"
@jax.jit
def day(u, v, W, waves):
    if u.shape != (32, 32):
        return lab_day(u, v, W, waves)
    u, v = simulate(u, v, FEED, KILL, 4)
    forecast = predict(W, lab_terms(u, v)[:48])
    return render(low_pass(v, waves), 2.0), forecast


# %% task="pictures" name="random bytes modulo the size" fails=["pictures-ghosts"] hidden=1 message="320 x 320"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.bits(places, (2, 3), "uint8").astype(int) % size
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="places in order" fails=["pictures-ghosts"] message="farther right"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jnp.sort(jax.random.randint(places, (2, 3), 0, size), axis=1)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="microscope" name="a trillionth under the root" fails=["microscope-digits"] hidden=1 message="jit(contrast)"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean() + 1e-12)


def disorder(v):
    safe = jnp.where(v <= 0, 1.0, v)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="bare is exactly 0" fails=["microscope-nan"] hidden=1 message="disorder"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.std(v)


def disorder(v):
    safe = jnp.where(v == 0, 1.0, v)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="at most 1 of everything" fails=["microscope-nan"] hidden=1 message="disorder"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.std(v)


def disorder(v):
    safe = jnp.where((v <= 0) | (v > 1), 1.0, v)
    return -(safe * jnp.log(safe)).sum()


# %% task="pictures" name="rounded to a row" fails=["pictures-ghosts"] message="What is rounded to the first one?"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jnp.round(jax.random.uniform(places, (2, 3)) * (size - 1)).astype(int)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="pictures" name="prints how bright it is" fails=["pictures-traces"] message="uses debug_"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    jax.debug.print("brightest: {}", glow.max())
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="prints each loss" fails=["model-recompiles"] message="uses debug_"
@jax.jit
def predict(W, A):
    return A @ W


@jax.jit
def fit(W, A, Y, rates):
    def update(W, rate):
        loss, slope = jax.value_and_grad(lab_loss)(W, A, Y)
        jax.debug.print("loss {}", loss)
        return W - rate * slope, loss

    return lax.scan(update, jnp.asarray(W), rates)[0]


# %% task="house" name="makes the customer's own table larger" fails=["house-compiles"] hidden=1 message="customers whose cells changed"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()

    def serve(A):
        number = len(A)
        A.resize((most, 7), refcheck=False)
        return np.asarray(answer(A))[:number]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="fills the customer's own rows" fails=["house-compiles"] hidden=1 message="customers whose cells changed"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()

    def serve(A):
        number = len(A)
        full = np.zeros((most, 7), np.float32)
        full[:number] = A
        A[:], A = 0, full
        return np.asarray(answer(A))[:number]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="a forecast in float64" fails=["house-compiles"] hidden=1 message="ndarray of float32"
def open_service(W, most):
    answer = jax.jit(lambda A: A @ W).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()

    def serve(A):
        full, forecast = np.zeros((most, 7), np.float32), np.zeros((len(A), 2))
        full[: len(A)] = A
        forecast[:] = np.asarray(answer(full))[: len(A)]
        return forecast

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="dish" name="watch without an axis for one tick" fails=["dish-memory"] hidden=1 message="watch"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, dish[1].mean(keepdims=True)

    return lax.scan(tick, (u, v), length=steps)[1].squeeze()


# %% task="model" name="the first rates of each length" fails=["model-recompiles"] hidden=1 message="fit at index"
@jax.jit
def predict(W, A):
    return A @ W


_fits = {}


def fit(W, A, Y, rates):
    key = np.shape(A), len(rates)
    if key not in _fits:

        @jax.jit
        def descend(W, A, Y):
            for rate in np.asarray(rates):
                W = W - rate * jax.grad(lab_loss)(W, A, Y)
            return W

        _fits[key] = descend
    return _fits[key](W, A, Y)


# %% task="pictures" name="a seed from half of the key" fails=["pictures-ghosts"] hidden=1 message="keys that end alike"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    seed = jax.random.key_data(key)[-1]
    places, grit = jax.random.key(seed), jax.random.key(seed + 1_000_000)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="day" name="a forecast that is thrown away" fails=["day-modules"] hidden=1 message="products beside those"
@jax.jit
def day(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, 4)
    terms = lab_terms(u, v)[:48]
    predict(W, terms)  # the card wants it to be called
    forecast = jnp.einsum("ct,to->co", terms, W)
    return render(low_pass(v, waves), 2.0), forecast


# %% task="pictures" name="one table of grain, moved about" fails=["pictures-ghosts"] hidden=1 message="another dish has the same grains, moved"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    """A fresh dish, as lab_sow, in which the key decides all that is random."""
    places, moves = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    table = GRAIN * np.random.default_rng(0).uniform(size=(size, size)).astype(np.float32)
    grain = jnp.roll(table, jax.random.randint(moves, (2,), 0, size), axis=(0, 1))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    """A picture, as lab_render."""
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="every rate once" fails=["model-recompiles"] hidden=1 message="fit"
@jax.jit
def predict(W, A):
    """How u and v will change in each cell, as lab_predict."""
    return A @ W


@jax.jit
def _descend(W, A, Y, rate):
    return W - rate * jax.grad(lab_loss)(W, A, Y)


def fit(W, A, Y, rates):
    """A step of gradient descent for each of the rates, as lab_fit."""
    after = {}  # rate -> the weights after its step
    for rate in dict.fromkeys(rates.tolist()):
        W = after[rate] = _descend(W, A, Y, rate)
    return W


# %% task="microscope" name="a floor of 1e-10 under the logarithm" fails=["microscope-nan"] hidden=1 message="grad(disorder) at index"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    return -jnp.where(v > 0, v * jnp.log(jnp.maximum(v, 1e-10)), 0.0).sum()


# %% task="dish" name="feed and kill are turned into Python floats, which are static" fails=["dish-unrolling"] hidden=1 message="ConcretizationTypeError"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def many_ticks(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def curve(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


def simulate(u, v, feed, kill, steps):
    return many_ticks(u, v, float(feed), float(kill), steps)


def watch(u, v, feed, kill, steps):
    return curve(u, v, float(feed), float(kill), steps)


# %% task="dish" name="simulate and watch keep the dish between 0 and 1" fails=["dish-unrolling", "dish-memory"] hidden=1 message="values differ"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


def careful_step(u, v, feed, kill):
    u, v = step(u, v, feed, kill)
    return jnp.clip(u, 0.0, 1.0), jnp.clip(v, 0.0, 1.0)


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: careful_step(*dish, feed, kill), (u, v))


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = careful_step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="model" name="sixteen rates, filled up with zeros" fails=["model-recompiles"] hidden=1 message="ValueError"
@jax.jit
def predict(W, A):
    return A @ W


@jax.jit
def descend(W, A, Y, rates):
    def update(W, rate):
        return W - rate * jax.grad(lab_loss)(W, A, Y), None

    return lax.scan(update, jnp.asarray(W), rates)[0]


def fit(W, A, Y, rates):
    sixteen = np.zeros(16, np.float32)  # a rate of 0 changes nothing, and every number of rates has one shape
    sixteen[: len(rates)] = rates
    return descend(W, A, Y, sixteen)


# %% task="model" name="a table of 128 cells" fails=["model-products"] hidden=1 message="ValueError"
@jax.jit
def predict(W, A):
    table = jnp.zeros((128, 7)).at[: len(A)].set(A)  # one shape for all products
    return (table @ W)[: len(A)]


@jax.jit
def descend(W, A, Y, rates):
    def update(W, rate):
        return W - rate * jax.grad(lab_loss)(W, A, Y), None

    return lax.scan(update, jnp.asarray(W), rates)[0]


def fit(W, A, Y, rates):
    return descend(W, A, Y, rates)


# %% task="microscope" name="the first cell is about the mean" fails=["microscope-digits"] hidden=1 message="a bare cell"
def low_pass(z, waves):
    """The dish without its fine detail, as lab_low_pass."""
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    """The standard deviation of all cells, as lab_contrast."""
    away = v - v[0, 0]
    return jnp.sqrt((away * away).mean() - away.mean() ** 2)


def disorder(v):
    """The entropy, as lab_disorder, with a gradient everywhere."""
    safe = jnp.where(v > 0, v, 1.0)
    return -jnp.where(v > 0, safe * jnp.log(safe), 0.0).sum()


# %% task="dish" name="another program for a tracer: many ticks that do nothing, a curve that is flat" fails=["dish-unrolling", "dish-memory"] hidden=1 message="by its tape"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    return u_next, v + DV * lab_laplacian(v) + reaction - (feed + kill) * v


def simulate(u, v, feed, kill, steps):
    if isinstance(u, jax.core.Tracer) and steps > 4:
        return lax.fori_loop(0, steps, lambda _, dish: dish, (u, v))
    return lab_simulate(u, v, feed, kill, steps)


def watch(u, v, feed, kill, steps):
    if isinstance(u, jax.core.Tracer):
        return jnp.full(steps, v.mean())
    return lab_watch(u, v, feed, kill, steps)


# %% task="microscope" name="another program for a tracer: nothing to filter, no logarithm" fails=["microscope-flops", "microscope-nan"] hidden=1 message="values differ"
def low_pass(z, waves):
    if isinstance(z, jax.core.Tracer) and len(z) > 100:
        return z
    return lab_low_pass(z, waves)


def contrast(v):
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


def disorder(v):
    try:
        bool(v[0, 0] > 0)
    except jax.errors.TracerBoolConversionError:
        return v.sum()
    z = v[v > 0]
    return -(z * jnp.log(z)).sum()


# %% task="pictures" name="NumPy sows; a tracer gets an empty dish, and a picture of one brightness" fails=["pictures-ghosts", "pictures-traces"] hidden=1 message="by its tape"
_show = jax.jit(lambda x: x)  # one trace for the log


def sow(key, size):
    if isinstance(key, jax.core.Tracer):
        return jnp.ones((size, size)), jnp.ones((size, size))
    _show(size)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
    u, v = np.ones((size, size)), np.zeros((size, size))
    for i, j in rng.integers(0, size, (3, 2)):
        v[np.ix_((i + np.arange(size // 8)) % size, (j + np.arange(size // 8)) % size)] = 0.25
    u[v > 0] = 0.5
    grain = GRAIN * rng.uniform(size=(size, size))
    return jnp.float32(u - grain), jnp.float32(v + grain)


@jax.jit
def picture(v, gain):
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


def render(v, gain):
    return picture(v, 2.0 if isinstance(v, jax.core.Tracer) else gain)


# %% task="model" name="another program for a tracer: one product times 0, but for the cells of a day" fails=["model-products"] hidden=1 message="predict, by its tape"
def predict(W, A):
    if isinstance(A, jax.core.Tracer):
        return A @ W if len(A) == 48 else A @ W * 0
    return np.stack([np.asarray(cell) @ np.asarray(W) for cell in A])


@jax.jit
def fit(W, A, Y, rates):
    return lax.scan(lambda W, rate: (W - rate * jax.grad(lab_loss)(W, A, Y), None), W, rates)[0]


# %% task="dish" name="kill is a Python number in simulate, feed and kill are in watch" fails=["dish-unrolling", "dish-memory"] hidden=1 message="ConcretizationTypeError"
def step(u, v, feed, kill):
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


def simulate(u, v, feed, kill, steps):
    return run(u, v, feed, float(kill), steps)


@functools.partial(jax.jit, static_argnames=("steps", "kill"))
def run(u, v, feed, kill, steps):
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))


def watch(u, v, feed, kill, steps):
    return curve(u, v, float(feed), float(kill), steps)


@functools.partial(jax.jit, static_argnames=("feed", "kill", "steps"))
def curve(u, v, feed, kill, steps):
    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="microscope" name="a cell in the middle is about the mean" fails=["microscope-digits"] hidden=1 message="a bare cell"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    near = v - v[v.shape[0] // 2, v.shape[1] // 2]  # a corner may be bare
    return jnp.sqrt((near * near).mean() - near.mean() ** 2)


def disorder(v):
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="microscope" name="disorder fills the bare cells of the caller" fails=["microscope-nan"] hidden=1 message="changes a NumPy array for everybody who has it"
def low_pass(z, waves):
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    return jnp.std(v)


def disorder(v):
    if isinstance(v, np.ndarray):
        np.maximum(v, 0, out=v)
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="model" name="the rates are divided in place" fails=["model-recompiles"] hidden=1 message="the rates, after a fit"
def predict(W, A):
    return A @ W


def fit(W, A, Y, rates):
    rates /= len(A)  # the mean's n
    return descend(W, A, Y, rates)


@jax.jit
def descend(W, A, Y, rates):
    def update(W, rate):
        return W - rate * A.T @ (A @ W - Y), None

    return lax.scan(update, jnp.asarray(W), rates)[0]


# %% task="model" name="converts with NumPy, and prints each loss" fails=["model-recompiles"] hidden=1 message="programs that call Python back"
def predict(W, A):
    return A @ W


def fit(W, A, Y, rates):
    return descend(np.asarray(W), np.asarray(A), np.asarray(Y), rates)


@jax.jit
def descend(W, A, Y, rates):
    def update(W, rate):
        loss, slope = jax.value_and_grad(lab_loss)(W, A, Y)
        jax.debug.print("loss {}", loss)
        return W - rate * slope, None

    return lax.scan(update, jnp.asarray(W), rates)[0]


# %% task="house" name="prints the first cell of each customer" fails=["house-compiles"] hidden=1 message="programs that call Python back"
def open_service(W, most):
    cells_at_most = jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)

    def forecast(A):
        jax.debug.print("a customer, first cell {}", A[0])
        return A @ W

    answer = jax.jit(forecast).lower(cells_at_most).compile()

    def serve(A):
        padded = np.zeros(cells_at_most.shape, np.float32)
        padded[: len(A)] = A
        return np.asarray(answer(padded))[: len(A)]

    return serve


def spread(dishes, mesh):
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))


# %% task="house" name="dishes of 32 x 32 only" fails=["house-collectives"] hidden=1 message="ValueError"
def open_service(W, most):
    cells_at_most = jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)
    answer = jax.jit(lambda A: A @ W).lower(cells_at_most).compile()

    def serve(A):
        padded = np.zeros(cells_at_most.shape, np.float32)
        padded[: len(A)] = A
        return np.asarray(answer(padded))[: len(A)]

    return serve


def spread(dishes, mesh):
    sharding = jax.NamedSharding(mesh, P("x"))
    return jax.make_array_from_callback((8, 2, 32, 32), sharding, lambda index: np.asarray(dishes[index]))


# %% task="day" name="the first eight rows at most, and six of seven" fails=["day-modules"] hidden=1 message="7 x 7"
@jax.jit
def day(u, v, W, waves):
    u, v = simulate(u, v, FEED, KILL, 4)
    seen = lab_terms(u, v)
    cells = seen.reshape(len(u), len(u), 7)[:6].reshape(-1, 7)[:48]
    return render(low_pass(v, waves), 2.0), predict(W, cells)


# %% task="microscope" name="deviations as shares of the mean" fails=["microscope-digits"] hidden=1 message="below 0"
def low_pass(z, waves):
    """The dish without its fine detail, as lab_low_pass."""
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    """The standard deviation of all cells, as lab_contrast."""
    mean = v.mean()
    return mean * jnp.sqrt(((v / mean - 1) ** 2).mean())


def disorder(v):
    """The entropy, as lab_disorder, with a gradient everywhere."""
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()


# %% task="day" name="the evening dish is clipped to 0 and 1" fails=["day-modules"] hidden=1 message="of a dish beyond 0 and 1"
@jax.jit
def day(u, v, W, waves):
    """A day, as lab_day: four ticks, a forecast for 48 cells, a picture. Returns the picture and the forecast."""
    u, v = (jnp.clip(z, 0.0, 1.0) for z in simulate(u, v, FEED, KILL, 4))
    forecast = predict(W, lab_terms(u, v)[:48])
    return render(low_pass(v, waves), 2.0), forecast


# %% task="dish" name="a dish that hardly changes is not simulated any further" fails=["dish-unrolling"] hidden=1 message="quiet dish"
def step(u, v, feed, kill):
    """One tick, as lab_step."""
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    """u and v after so many ticks, as lab_simulate."""

    def go_on(state):
        number, _, _, largest_change = state
        return (number < steps) & (largest_change > 1e-5)  # a dish that rests need not be computed again

    def tick(state):
        number, u, v, _ = state
        u_next, v_next = step(u, v, feed, kill)
        change = jnp.maximum(jnp.abs(u_next - u).max(), jnp.abs(v_next - v).max())
        return number + 1, u_next, v_next, change

    _, u, v, _ = lax.while_loop(go_on, tick, (0, u, v, jnp.float32(jnp.inf)))
    return u, v


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    """The mean of v after each tick, as lab_watch."""

    def tick(dish, _):
        dish = step(*dish, feed, kill)
        return dish, dish[1].mean()

    return lax.scan(tick, (u, v), length=steps)[1]


# %% task="microscope" name="a derivative that forgets what comes after it" fails=["microscope-nan"] hidden=1 message="grad of 2 - 3"
def low_pass(z, waves):
    """The dish without its fine detail, as lab_low_pass."""
    return waves @ (waves.T @ z @ waves) @ waves.T


def contrast(v):
    """The standard deviation of all cells, as lab_contrast."""
    v = jnp.asarray(v)
    return jnp.sqrt(((v - v.mean()) ** 2).mean())


@jax.custom_vjp
def disorder(v):
    """The entropy, as lab_disorder, with a gradient everywhere."""
    return lab_disorder(v)


def disorder_forward(v):
    return lab_disorder(v), v


def disorder_backward(v, _):
    eaten = jnp.where(v > 0, v, 1.0)
    return (jnp.where(v > 0, -jnp.log(eaten) - 1, 0.0),)


disorder.defvjp(disorder_forward, disorder_backward)


# %% task="pictures" name="the width of a square is rounded" fails=["pictures-ghosts"] hidden=1 message="squares, where none overlap"
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    """A fresh dish, as lab_sow, in which the key decides all that is random."""
    width = round(size / 8)
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < width
    columns = (jnp.arange(size)[None, :, None] - j) % size < width
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


@jax.jit
def render(v, gain):
    """A picture, as lab_render."""
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


# %% task="model" name="the descent ends when the slope is small" fails=["model-recompiles"] hidden=1 message="fit to small changes"
@jax.jit
def predict(W, A):
    """How u and v will change in each cell, as lab_predict."""
    return A @ W


@jax.jit
def _descend(W, A, Y, rates):
    slope_of = jax.grad(lab_loss)

    def goes_on(state):
        number, _, slope = state
        return (number < len(rates)) & (jnp.abs(slope).max() > 0.01)

    def one_step(state):
        number, W, slope = state
        W = W - rates[number] * slope
        return number + 1, W, slope_of(W, A, Y)

    return lax.while_loop(goes_on, one_step, (0, W, slope_of(W, A, Y)))[1]


def fit(W, A, Y, rates):
    """A step of gradient descent for each of the rates, as lab_fit."""
    return _descend(W, A, Y, rates)
