# %% [markdown]
# Wrong answers for unit 13. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="maps" name="the first name in a tuple moves fastest" fails=["maps-holders"] message="The first name in the tuple moves slowest"
def pieces():
    return {
        "both": [4, 12],
        "turned": [8, 6],
        "halves": [8, 24],
        "columns": [16, 6],
        "stripes": [2, 24],
        "other_stripes": [2, 24],
    }


def holders():
    return {
        "both": [3],
        "turned": [4],
        "halves": [0, 2, 4, 6],
        "columns": [4, 5],
        "stripes": [4],
        "other_stripes": [2],
    }


def specs_of_maps():
    return {
        "A": P("a", "b"),
        "B": P(None, "b"),
        "C": P(("b", "c"), "a"),
        "D": P(("c", "b", "a")),
        "E": P("c", ("a", "b")),
        "F": P("c", "b"),
    }


# %% task="maps" name="all eight always share the work" fails=["maps-pieces", "maps-holders"] message="not named"
def pieces():
    return {
        "both": [4, 12],
        "turned": [8, 6],
        "halves": [2, 24],
        "columns": [16, 3],
        "stripes": [2, 24],
        "other_stripes": [2, 24],
    }


def holders():
    return {"both": [3], "turned": [4], "halves": [2], "columns": [4], "stripes": [2], "other_stripes": [4]}


def specs_of_maps():
    return {
        "A": P("a", "b"),
        "B": P(None, "b"),
        "C": P(("b", "c"), "a"),
        "D": P(("c", "b", "a")),
        "E": P("c", ("a", "b")),
        "F": P("c", "b"),
    }


# %% task="maps" name="every order of the names is the same" fails=["maps-drawn"] message="Write 0 4 2 6 1 5 3 7 in bits"
def pieces():
    return {
        "both": [4, 12],
        "turned": [8, 6],
        "halves": [8, 24],
        "columns": [16, 6],
        "stripes": [2, 24],
        "other_stripes": [2, 24],
    }


def holders():
    return {
        "both": [3],
        "turned": [4],
        "halves": [0, 2, 4, 6],
        "columns": [4, 5],
        "stripes": [2],
        "other_stripes": [4],
    }


def specs_of_maps():
    return {
        "A": P("a", "b"),
        "B": P(None, "b"),
        "C": P(("b", "c"), "a"),
        "D": P(("a", "b", "c")),
        "E": P("c", ("a", "b")),
        "F": P("c", "b"),
    }


# %% task="maps" name="pieces measured instead" fails=["maps-pieces"] message="pieces uses place, which does not exist where it is run"
def pieces():
    laid_out = {name: place(np.zeros((16, 24)), GRID, spec) for name, spec in LAYOUTS.items()}
    return {name: list(array.addressable_shards[0].data.shape) for name, array in laid_out.items()}


# %% task="maps" name="holders measured instead" fails=["maps-holders"] message="holders uses place, which does not exist where it is run"
def holders():
    table = np.zeros((16, 24))
    table[5, 13] = 1
    shards = {name: place(table, GRID, spec).addressable_shards for name, spec in LAYOUTS.items()}
    return {name: sorted(s.device.id for s in found if np.asarray(s.data).any()) for name, found in shards.items()}


# %% task="ring" name="each device is a ring of its own" fails=["ring-shards"] message="A device needs its left neighbour's last point"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        return part + 0.1 * (jnp.roll(part, 1) - 2 * part + jnp.roll(part, -1))

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="sends to the wrong neighbour" fails=["ring-shards"] message="A device needs its left neighbour's last point"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        onwards = [(d, (d + 1) % 8) for d in range(8)]
        backwards = [(there, here) for here, there in onwards]
        left = lax.ppermute(part[-1:], "i", backwards)
        right = lax.ppermute(part[:1], "i", onwards)
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="the open ends do not meet" fails=["ring-shards"] message="A device needs its left neighbour's last point"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        onwards = [(d, d + 1) for d in range(7)]
        backwards = [(there, here) for here, there in onwards]
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", backwards)
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="reads everything to everybody" fails=["ring-shards"] message="has no ppermute"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        whole = lax.all_gather(part, "i", tiled=True)
        whole = whole + 0.1 * (jnp.roll(whole, 1) - 2 * whole + jnp.roll(whole, -1))
        return lax.dynamic_slice(whole, [lax.axis_index("i") * part.size], [part.size])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="pads the whole vector" fails=["ring-jit"] message="needs other collectives than expected: collective-permute"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        onwards = [(d, (d + 1) % 8) for d in range(8)]
        backwards = [(there, here) for here, there in onwards]
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", backwards)
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    around = jnp.concatenate([u[-1:], u, u[:1]])
    return u + 0.1 * (around[:-2] - 2 * u + around[2:])


# %% task="ring" name="takes the neighbours by index" fails=["ring-jit"] message="needs other collectives than expected: all-gather"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        onwards = [(d, (d + 1) % 8) for d in range(8)]
        backwards = [(there, here) for here, there in onwards]
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", backwards)
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    here = jnp.arange(u.size)
    return u + 0.1 * (u[here - 1] - 2 * u + u[(here + 1) % u.size])


# %% task="call" name="mean of the squares less square of the mean" fails=["call-digits", "call-one"] message="has lost its digits"
@jax.jit
def moments(x):
    def one_device(x):
        mean, square = lax.pmean((x.mean(0), (x * x).mean(0)), "i")
        return mean, square - mean * mean

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="forgets the variance between the devices" fails=["call-digits", "call-one"] message="The devices' means differ from each other"
@jax.jit
def moments(x):
    def one_device(x):
        return lax.pmean((x.mean(0), x.var(0)), "i")

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="waits for the mean" fails=["call-one"] message="expected at most 1"
@jax.jit
def moments(x):
    def one_device(x):
        mean = lax.pmean(x.mean(0), "i")
        return mean, lax.pmean(((x - mean) ** 2).mean(0), "i")

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="reads the table to everybody" fails=["call-digits", "call-one"] message="makes an intermediate"
@jax.jit
def moments(x):
    def one_device(x):
        whole = lax.all_gather(x, "i", tiled=True, to="invarying")
        return whole.mean(0), whole.var(0)

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="leaves it to the compiler" fails=["call-digits", "call-one"] message="has no shard_map"
@jax.jit
def moments(x):
    return x.mean(0), x.var(0)


# %% task="eight" name="carries the recipe over" fails=["eight-values"] message="grad has summed over them already"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def loss(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2) / jnp.sum(real)

        return lax.pmean(jax.grad(loss)(params), "i")

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="eight" name="the mean of the devices' means" fails=["eight-values"] message="has no mean: 0 / 0"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def loss(params):
            mine = jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2) / jnp.sum(real)
            return lax.pmean(mine, "i")

        return jax.grad(loss)(params)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="eight" name="divides by eight" fails=["eight-values"] message="the length on four devices is wrong"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def loss(params):
            count = lax.pmean(jnp.sum(real), "i")
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2) / count

        return jax.tree.map(lambda leaf: leaf / 8, jax.grad(loss)(params))

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="eight" name="strips a device axis that is not there" fails=["eight-values"] message="the length, full batch is wrong"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        x, y, real = x[0], y[0], real[0]

        def sum_of_errors(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)

        total, count = jax.grad(sum_of_errors)(params), lax.psum(real.sum(), "i")
        return jax.tree.map(lambda leaf: leaf / count, total)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="eight" name="switches the types off and differentiates the mean" fails=["eight-values"] message="the length, full batch is wrong"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def loss(params):
            errors = jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)
            return lax.psum(errors, "i") / lax.psum(real.sum(), "i")

        return jax.grad(loss)(params)

    mesh, rows = ring_of(devices), P("i")
    in_specs = (P(), rows, rows, rows)
    split = jax.shard_map(one_device, mesh=mesh, in_specs=in_specs, out_specs=P(), check_vma=False)
    return split(params, x, y, real)


# %% task="eight" name="divides too early" fails=["eight-once"] message="expected all-reduce"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def loss(params):
            errors = jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)
            return lax.psum(errors, "i") / lax.psum(real.sum(), "i")

        return jax.grad(loss)(params)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="types" name="every result is cut like x" fails=["types-check"] message="and then all have the result"
def result_types():
    return {
        "turned": "float32[16,64@i]",
        "scores": "float32[64@i,4]",
        "positive": "bool[64@i,16]",
        "column_means": "float32[16@i]",
        "all_pairs": "float32[64@i,64@i]",
        "own_squares": "float32[64@i]",
        "stacked": "float32[2,64@i,16]",
        "outer": "float32[64@i,16,4]",
        "running_sums": "float32[64@i,16]",
        "slopes": "float32[16@i,4]",
    }


# %% task="types" name="the compiler will sort it out" fails=["types-check"] message="Both axes of the result would be cut along i"
def result_types():
    return {
        "turned": "float32[16,64@i]",
        "scores": "float32[64@i,4]",
        "positive": "bool[64@i,16]",
        "column_means": "float32[16]",
        "all_pairs": "float32[64@i,64]",
        "own_squares": "float32[64@i]",
        "stacked": "float32[2,64@i,16]",
        "outer": "float32[64@i,16,4]",
        "running_sums": "float32[64@i,16]",
        "slopes": "float32[16,4]",
    }


# %% task="types" name="measured instead" fails=["types-check"] message="result_types uses type_of, which does not exist where it is run"
def result_types():
    return {name: type_of(expression) for name, expression in EXPRESSIONS.items()}


# %% task="golf" name="a copy for everybody" fails=["golf-product", "golf-heads", "golf-layers", "golf-both"] message="held too much: returned"
def product_layout():
    return P(), P(), P()


def heads_layout():
    return P(), P(), P(), P()


def layers_layout():
    return P(), P(), P(), P()


def both_layout():
    return P("x"), P(), P(), P("x")


# %% task="golf" name="all operands by rows" fails=["golf-product", "golf-layers", "golf-both"] message="needs other collectives than expected"
def product_layout():
    return P("x"), P("y"), P("x", "y")


def heads_layout():
    return P("i"), P("i"), P("i"), P("i")


def layers_layout():
    return P(), P("i"), P("i"), P()


def both_layout():
    return P("x"), P("y"), P("y"), P("x")


# %% task="golf" name="cuts the tokens" fails=["golf-heads"] message="needs other collectives than expected"
def product_layout():
    return P("x"), P(None, "y"), P("x", "y")


def heads_layout():
    return P(None, "i"), P(None, "i"), P(None, "i"), P(None, "i")


def layers_layout():
    return P(), P(None, "i"), P("i"), P()


def both_layout():
    return P("x"), P(None, "y"), P("y"), P("x")


# %% task="golf" name="cuts the output of every layer" fails=["golf-layers", "golf-both"] message="needs other collectives than expected"
def product_layout():
    return P("x"), P(None, "y"), P("x", "y")


def heads_layout():
    return P("i"), P("i"), P("i"), P("i")


def layers_layout():
    return P(), P(None, "i"), P(None, "i"), P()


def both_layout():
    return P("x"), P(None, "y"), P(None, "y"), P("x")


# %% task="ring" name="sends its whole piece" fails=["ring-shards"] message="numbers in a message"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        onwards = [(d, (d + 1) % 8) for d in range(8)]
        backwards = [(there, here) for here, there in onwards]
        left = lax.ppermute(part, "i", onwards)[-1:]
        right = lax.ppermute(part, "i", backwards)[:1]
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="sends both ends both ways" fails=["ring-shards"] message="numbers in a message"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        ends = jnp.stack([part[0], part[-1]])
        left = lax.ppermute(ends, "i", [(d, (d + 1) % 8) for d in range(8)])[1]
        right = lax.ppermute(ends, "i", [((d + 1) % 8, d) for d in range(8)])[0]
        around = jnp.concatenate([left[None], part, right[None]])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="a piece has two ends, even if it has one point" fails=["ring-shards"] hidden=1 message="diffuse_shards at index"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        left = lax.ppermute(part[-1], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[0], "i", [((d + 1) % 8, d) for d in range(8)])
        new = part.at[1:-1].add(0.1 * (part[:-2] - 2 * part[1:-1] + part[2:]))
        new = new.at[0].set(part[0] + 0.1 * (left - 2 * part[0] + part[1]))
        return new.at[-1].set(part[-1] + 0.1 * (part[-2] - 2 * part[-1] + right))

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="rolls by 95 to come back to the left neighbour" fails=["ring-jit"] hidden=1 message="diffuse at index"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        left = lax.ppermute(part[-1:], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[:1], "i", [((d + 1) % 8, d) for d in range(8)])
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, 95))


# %% task="ring" name="the post, on a table of eight rows" fails=["ring-jit"] message="uses ppermute"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        left = lax.ppermute(part[-1:], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[:1], "i", [((d + 1) % 8, d) for d in range(8)])
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


def diffuse(u):
    return diffuse_post(u.reshape(8, -1)).reshape(-1)


# %% task="ring" name="gives everybody the result" fails=["ring-jit"] message="the layout is wrong"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        left = lax.ppermute(part[-1:], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[:1], "i", [((d + 1) % 8, d) for d in range(8)])
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@functools.partial(jax.jit, out_shardings=jax.NamedSharding(RING, P()))
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="call" name="a callback to NumPy beside an empty shard_map" fails=["call-digits", "call-one"] message="uses pure_callback"
@jax.jit
def moments(x):
    whole = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
    found = jax.pure_callback(moments_slow, (whole, whole), x)
    return jax.shard_map(lambda pair: pair, mesh=RING, in_specs=P(), out_specs=P())(found)


# %% task="call" name="merges halves as if they were equally large" fails=["call-digits"] hidden=1 message="the mean at index"
@jax.jit
def moments(x):
    def merge(means, variances):
        if len(means) == 1:
            return means[0], variances[0]
        half = len(means) // 2
        (m1, v1), (m2, v2) = merge(means[:half], variances[:half]), merge(means[half:], variances[half:])
        return (m1 + m2) / 2, (v1 + v2) / 2 + ((m1 - m2) / 2) ** 2

    def one_device(x):
        mine = jnp.stack(merge(x, jnp.zeros_like(x)))
        means, variances = lax.all_gather(mine, "i", axis=1, to="invarying")
        return merge(means, variances)

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="divides by one less" fails=["call-digits", "call-one"] message="moments is wrong"
@jax.jit
def moments(x):
    def one_device(x):
        mine = jnp.stack([x.mean(0), x.var(0, ddof=1)])
        means, variances = lax.all_gather(mine, "i", axis=1, to="invarying")
        return means.mean(0), variances.mean(0) + means.var(0)

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="takes 3000 off, whatever the mean" fails=["call-digits", "call-one"] message="moments is wrong"
@jax.jit
def moments(x):
    def one_device(x):
        shifted = x - 3000
        mean, square = lax.pmean(jnp.stack([shifted.mean(0), (shifted**2).mean(0)]), "i")
        return mean + 3000, square - mean * mean

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="eight" name="two meshes made by hand" fails=["eight-values"] hidden=1 message="KeyError"
MESHES = {8: ring_of(8), 4: ring_of(4)}


@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def sum_of_errors(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)

        total, count = jax.grad(sum_of_errors)(params), lax.psum(real.sum(), "i")
        return jax.tree.map(lambda leaf: leaf / count, total)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=MESHES[devices], in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="eight" name="the mean of the means of those who have any" fails=["eight-values", "eight-once"] message="gradient: leaf"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def loss(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2) / jnp.maximum(real.sum(), 1)

        total = jax.grad(loss)(params)
        busy = lax.psum((real.sum() > 0).astype(x.dtype), "i")
        return jax.tree.map(lambda leaf: leaf / busy, total)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="eight" name="counts the padding" fails=["eight-values"] message="the length, padded batch is wrong"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def sum_of_errors(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)

        total, count = jax.grad(sum_of_errors)(params), x.shape[0] * devices
        return jax.tree.map(lambda leaf: leaf / count, total)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="eight" name="without shard_map" fails=["eight-values"] message="has no shard_map"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def loss(params):
        return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2) / real.sum()

    return jax.grad(loss)(params)


# %% task="golf" name="forgets the result" fails=["golf-product", "golf-heads", "golf-layers", "golf-both"] message="One P(...) for each of"
def product_layout():
    return P("x"), P(None, "y")


def heads_layout():
    return P("i"), P("i"), P("i")


def layers_layout():
    return P(), P(None, "i"), P("i")


def both_layout():
    return P("x"), P(None, "y"), P("y")


# %% task="golf" name="one spec for all" fails=["golf-heads"] message="One P(...) for each of"
def product_layout():
    return P("x"), P(None, "y"), P("x", "y")


def heads_layout():
    return P("i")


def layers_layout():
    return P(), P(None, "i"), P("i"), P()


def both_layout():
    return P("x"), P(None, "y"), P("y"), P("x")


# %% task="ring" name="nothing is jitted" fails=["ring-shards", "ring-jit"] message="XLA modules: expected at most 1"
def diffuse_shards(u):
    def one_device(part):
        left = lax.ppermute(part[-1:], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[:1], "i", [((d + 1) % 8, d) for d in range(8)])
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="call" name="a guess: the mean is near 0 or near 3000" fails=["call-digits"] hidden=1 message="the variance at index"
@jax.jit
def moments(x):
    def one_device(x):
        guess = jnp.where(x.mean(0) > 1500, 3000.0, 0.0)
        less = x - guess
        mean, square, shift = lax.pmean(jnp.stack([less.mean(0), (less * less).mean(0), guess]), "i")
        return mean + shift, square - mean * mean

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="eight" name="the padding comes last on each device" fails=["eight-values"] hidden=1 message="gradient: leaf"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        first = jnp.arange(real.size) < real.sum()

        def sum_of_errors(params):
            return jnp.sum(first * (x @ params["w"] + params["b"] - y) ** 2)

        total, count = jax.grad(sum_of_errors)(params), lax.psum(real.sum(), "i")
        return jax.tree.map(lambda leaf: leaf / count, total)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="ring" name="does not know frost" fails=["ring-jit"] hidden=1 message="diffuse at index"
@jax.jit
def diffuse_shards(u):
    def one_device(part):
        onwards = [(d, (d + 1) % 8) for d in range(8)]
        backwards = [(there, here) for here, there in onwards]
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", backwards)
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return jnp.maximum(u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)), 0.0)


# %% task="ring" name="XLA fetches the neighbours, and the messages sent in shard_map are not used" fails=["ring-shards"] hidden=1 message="No point that came by ppermute counts"
@jax.jit
def diffuse_shards(u):
    onwards = [(d, (d + 1) % 8) for d in range(8)]

    def one_device(part, left, right):
        lax.ppermute(part[-1:], "i", onwards)
        lax.ppermute(part[:1], "i", [(there, here) for here, there in onwards])
        return part + 0.1 * (left - 2 * part + right)

    step = jax.shard_map(one_device, mesh=RING, in_specs=(P("i"),) * 3, out_specs=P("i"))
    return step(u, jnp.roll(u, 1), jnp.roll(u, -1))


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="sends an eighth of its piece" fails=["ring-shards"] hidden=1 message="diffuse_shards of a longer ring"
@jax.jit
def diffuse_shards(u):
    onwards = [(d, (d + 1) % 8) for d in range(8)]

    def one_device(part):
        border = max(1, part.size // 8)
        left = lax.ppermute(part[-border:], "i", onwards)
        right = lax.ppermute(part[:border], "i", [(there, here) for here, there in onwards])
        around = jnp.concatenate([left, part, right])[border - 1 : border + part.size + 1]
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="call" name="each device takes off its own mean, rounded" fails=["call-digits"] hidden=1 message="the mean at index"
@jax.jit
def moments(x):
    def one_device(x):
        about = jnp.round(x.mean(0), -3)
        deviations = x - about
        sums = jnp.stack([deviations.sum(0), (deviations**2).sum(0)])
        first, second = lax.psum(sums, "i") / (8 * len(x))
        return about + first, second - first**2

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P(), check_vma=False)(x)


# %% task="call" name="adds a little to each variance" fails=["call-digits"] hidden=1 message="the variance at index"
@jax.jit
def moments(x):
    def one_device(x):
        mine = jnp.stack([x.mean(0), x.var(0)])
        means, variances = lax.all_gather(mine, "i", axis=1, to="invarying")
        return means.mean(0), variances.mean(0) + means.var(0) + 1e-3

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="only the first device gets the numbers" fails=["call-digits"] hidden=1 message="the mean at index"
@jax.jit
def moments(x):
    def one_device(x):
        mine = jnp.stack([x.mean(0), x.var(0)])
        means, variances = lax.all_gather(mine, "i", axis=1)
        is_first = lax.axis_index("i") == 0
        return is_first * means.mean(0), is_first * (variances.mean(0) + means.var(0))

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P(), check_vma=False)(x)


# %% task="call" name="reads the table to everybody, in two halves" fails=["call-digits", "call-one"] message="makes an intermediate"
@jax.jit
def moments(x):
    def one_device(x):
        middle, rows = len(x) // 2, 8 * len(x)
        halves = [lax.all_gather(half, "i", tiled=True, to="invarying") for half in (x[:middle], x[middle:])]
        mean = sum(half.sum(0) for half in halves) / rows
        return mean, sum(((half - mean) ** 2).sum(0) for half in halves) / rows

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="eight" name="shard_map only hands something through" fails=["eight-values"] hidden=1 message="The devices never talk inside shard_map"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    real = jax.shard_map(lambda real: real, mesh=ring_of(devices), in_specs=P("i"), out_specs=P("i"))(real)

    def sum_of_errors(params):
        return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)

    return jax.tree.map(lambda leaf: leaf / real.sum(), jax.grad(sum_of_errors)(params))


# %% task="eight" name="adds up all rows and takes the padding off again" fails=["eight-values"] hidden=1 message="gradient: leaf"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def sum_of_errors(params, rows):
            return jnp.sum(rows * (x @ params["w"] + params["b"] - y) ** 2)

        total = jax.grad(sum_of_errors)(params, jnp.ones_like(real))
        padding, count = jax.grad(sum_of_errors)(params, 1 - real), lax.psum(real.sum(), "i")
        return jax.tree.map(lambda all_rows, rubbish: (all_rows - rubbish) / count, total, padding)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


# %% task="maps" name="the specs are an iterator that is used up" fails=["maps-drawn"] hidden=1 message="called once more"
SPECS = zip(
    "ABCDEF",
    [P("a", "b"), P(None, "b"), P(("b", "c"), "a"), P(("c", "b", "a")), P("c", ("a", "b")), P("c", "b")],
)


def pieces():
    """Name of each layout -> [rows, columns] of one device's piece, of 16 x 24."""
    return {
        "both": [4, 12],
        "turned": [8, 6],
        "halves": [8, 24],
        "columns": [16, 6],
        "stripes": [2, 24],
        "other_stripes": [2, 24],
    }


def holders():
    """Name of each layout -> the numbers of the devices that hold the element [5, 13], in ascending order."""
    return {
        "both": [3],
        "turned": [4],
        "halves": [0, 2, 4, 6],
        "columns": [4, 5],
        "stripes": [2],
        "other_stripes": [4],
    }


def specs_of_maps():
    """Name of each map in MAPS -> the spec P(...) that draws it on CUBE."""
    return dict(SPECS)


# %% task="maps" name="the maps are redrawn to fit the specs" fails=["maps-drawn"] hidden=1 message="MAPS, which are given"
def pieces():
    return {
        "both": [4, 12],
        "turned": [8, 6],
        "halves": [8, 24],
        "columns": [16, 6],
        "stripes": [2, 24],
        "other_stripes": [2, 24],
    }


def holders():
    return {"both": [3], "turned": [4], "halves": [0, 2, 4, 6], "columns": [4, 5], "stripes": [2], "other_stripes": [4]}


def specs_of_maps():
    specs = dict(
        zip("ABCDEF", [P("a", "b"), P("b"), P("c", "a"), P(("a", "b", "c")), P("c", "b"), P("b", "c")], strict=True)
    )
    MAPS.update({name: drawn(spec) for name, spec in specs.items()})
    return specs


# %% task="call" name="a single column loses its axis" fails=["call-digits"] hidden=1 message="shape"
@jax.jit
def moments(x):
    def body(part):
        mine = jnp.stack([part.mean(0), part.var(0)])
        everybody = lax.all_gather(mine, "i", to="invarying")
        means, variances = jnp.split(everybody, 2, axis=1)
        return means.mean(0).squeeze(), (variances.mean(0) + means.var(0)).squeeze()

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="four numbers a column are gathered" fails=["call-digits"] hidden=1 message="makes an intermediate"
@jax.jit
def moments(x):
    def body(part):
        mean = part.mean(0)
        count = jnp.full_like(mean, part.shape[0])
        deviations = part - mean
        mine = jnp.stack([count, mean, deviations.sum(0), (deviations**2).sum(0)])
        everybody = lax.all_gather(mine, "i", to="invarying")
        counts, means, leftover, squares = (everybody[:, row] for row in range(4))
        total = counts.sum(0)
        mean = (counts * means + leftover).sum(0) / total
        return mean, (squares.sum(0) + (counts * (means - mean) ** 2).sum(0)) / total

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="eight" name="multiplies rubbish by rubbish before it is masked" fails=["eight-values"] hidden=1 message="gradient"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def body(params, x, y, real):
        error = x @ params["w"] + params["b"] - y
        slopes = 2 * error[:, None] * x
        sums = jnp.concatenate([real @ slopes, jnp.stack([2 * (real * error).sum(), real.sum()])])
        sums = lax.psum(sums, "i")
        return {"w": sums[:-2] / sums[-1], "b": sums[-2] / sums[-1]}

    specs = (P(), P("i"), P("i"), P("i"))
    return jax.shard_map(body, mesh=ring_of(devices), in_specs=specs, out_specs=P())(params, x, y, real)


# %% task="eight" name="a little more than the count" fails=["eight-values"] hidden=1 message="gradient"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def body(params, x, y, real):
        def errors(params):
            return (real * (x @ params["w"] + params["b"] - y) ** 2).sum()

        slopes = jax.grad(errors)(params)
        count = lax.psum(real.sum(), "i") + 0.01
        return jax.tree.map(lambda slope: slope / count, slopes)

    specs = (P(), P("i"), P("i"), P("i"))
    return jax.shard_map(body, mesh=ring_of(devices), in_specs=specs, out_specs=P())(params, x, y, real)


# %% task="call" name="a millionth more in each variance" fails=["call-digits"] hidden=1 message="the variance at index"
@jax.jit
def moments(x):
    def one_device(x):
        mine = jnp.stack([x.mean(0), x.var(0)])
        means, variances = lax.all_gather(mine, "i", axis=1, to="invarying")
        return means.mean(0), variances.mean(0) + means.var(0) + 1e-6

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="eight" name="one, two, four or eight devices" fails=["eight-values"] hidden=1 message="KeyError"
RINGS = {devices: ring_of(devices) for devices in (1, 2, 4, 8)}


@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        error = 2 * real * (x @ params["w"] + params["b"] - y)
        w, b, count = lax.psum((error @ x, error.sum(), real.sum()), "i")
        return {"w": w / count, "b": b / count}

    specs = (P(), P("i"), P("i"), P("i"))
    return jax.shard_map(one_device, mesh=RINGS[devices], in_specs=specs, out_specs=P())(params, x, y, real)


# %% task="eight" name="a single feature loses its axis" fails=["eight-values"] hidden=1 message="shape"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        error = 2 * real * (x @ params["w"] + params["b"] - y)
        w, b, count = lax.psum((error @ x, error.sum(), real.sum()), "i")
        return {"w": jnp.squeeze(w / count), "b": b / count}

    specs = (P(), P("i"), P("i"), P("i"))
    return jax.shard_map(one_device, mesh=ring_of(devices), in_specs=specs, out_specs=P())(params, x, y, real)


# %% task="eight" name="only the count is taken in shard_map" fails=["eight-values"] message="products outside of shard_map"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def counted(real):
        return lax.psum(real.sum(), "i")

    count = jax.shard_map(counted, mesh=ring_of(devices), in_specs=P("i"), out_specs=P())(real)

    def loss(params):
        return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2) / count

    return jax.grad(loss)(params)


# %% task="golf" name="tries all layouts out" fails=["golf-product"] message="compiled: returned"
def best(hole, mesh, limits, *shapes):
    import itertools

    names = [*mesh.axis_names, None]
    specs = [P(*pair) for pair in itertools.product(names, names) if pair[0] != pair[1] or pair[0] is None]
    for layout in itertools.product(specs, repeat=len(shapes) + 1):
        try:
            jitted, placed, too_much = tee(hole, mesh, layout, limits, *normal(*shapes))
            if not too_much and "all-" not in jitted.lower(*placed).compile().as_text():
                return layout
        except ValueError:
            continue


def product_layout():
    return best(product, GRID, {"A": 1 / 4, "B": 1 / 2, "result": 1 / 8}, (64, 32), (32, 16))


def heads_layout():
    return P("i"), P("i"), P("i"), P("i")


def layers_layout():
    return P(), P(None, "i"), P("i"), P()


def both_layout():
    return P("x"), P(None, "y"), P("y"), P("x")


# %% task="eight" name="errors are clipped" fails=["eight-values"] hidden=1 message="off."
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one(params, x, y, real):
        def total(params):
            error = jnp.clip(x @ params["w"] + params["b"] - y, -100, 100)
            return jnp.sum(real * error**2)

        sums = jax.grad(total)(params)
        count = lax.psum(real.sum(), "i")
        return jax.tree.map(lambda leaf: leaf / count, sums)

    return jax.shard_map(one, mesh=ring_of(devices), in_specs=(P(), P("i"), P("i"), P("i")), out_specs=P())(
        params, x, y, real
    )


# %% task="call" name="moments, and a note of each device" fails=["call-digits", "call-one"] message="debug_callback"
@jax.jit
def moments(x):
    def body(x):
        mine = jnp.stack([x.mean(0), x.var(0)])
        jax.debug.callback(lambda value: None, mine)
        everybody = lax.all_gather(mine, "i", to="invarying")
        return everybody[:, 0].mean(0), everybody[:, 1].mean(0) + everybody[:, 0].var(0)

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="ring" name="a print from the devices" fails=["ring-shards"] message="uses debug_print"
@jax.jit
def diffuse_shards(u):
    onwards = [(d, (d + 1) % 8) for d in range(8)]

    def body(part):
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", [(b, a) for a, b in onwards])
        jax.debug.print("left {l} right {r}", l=left[0], r=right[0])
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="call" name="a print of the means" fails=["call-digits", "call-one"] message="uses debug_print"
@jax.jit
def moments(x):
    def body(part):
        mine = jnp.stack([part.mean(0), part.var(0)])
        all_of_us = lax.all_gather(mine, "i", to="invarying")
        return all_of_us[:, 0].mean(0), all_of_us[:, 1].mean(0) + all_of_us[:, 0].var(0)

    mean, variance = jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P())(x)
    jax.debug.print("means {m}", m=mean)
    return mean, variance


# %% task="eight" name="a print of the count" fails=["eight-values"] message="uses debug_print"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def body(params, x, y, real):
        error = real * (x @ params["w"] + params["b"] - y)
        jax.debug.print("{n} real ones here", n=real.sum())
        sums = lax.psum({"w": error @ x, "b": error.sum(), "count": real.sum()}, "i")
        return {"w": 2 * sums["w"] / sums["count"], "b": 2 * sums["b"] / sums["count"]}

    specs = (P(), P("i"), P("i"), P("i"))
    return jax.shard_map(body, mesh=ring_of(devices), in_specs=specs, out_specs=P())(params, x, y, real)


# %% task="golf" name="iterators that are used up" fails=["golf-product", "golf-heads", "golf-layers", "golf-both"] message="a layout that is asked for twice"
PLANS = {
    "product": map(lambda axes: P(*axes), [("x", None), (None, "y"), ("x", "y")]),
    "heads": map(P, ["i"] * 4),
    "layers": map(lambda axes: P(*axes), [(), (None, "i"), ("i",), ()]),
    "both": map(lambda axes: P(*axes), [("x",), (None, "y"), ("y",), ("x",)]),
}


def product_layout():
    """The specs of A, B and the result, on GRID."""
    return PLANS["product"]


def heads_layout():
    """The specs of q, k, v and the result, on RING."""
    return PLANS["heads"]


def layers_layout():
    """The specs of x, w1, w2 and the result, on RING."""
    return PLANS["layers"]


def both_layout():
    """The specs of x, w1, w2 and the result, on GRID."""
    return PLANS["both"]


# %% task="call" name="the pieces travel round the ring in a loop" fails=["call-digits", "call-one"] hidden=1 message="carried out in every round of the loop"
@jax.jit
def moments(x):
    """(mean, variance) of each column, float32[columns], on all devices. x: float32[n, columns], over RING."""
    onwards = [(d, (d + 1) % 8) for d in range(8)]

    def body(rows):
        share = rows.shape[0]

        def visit(number, state):
            guest, mean, squares = state
            seen = number * share
            gap = guest.mean(0) - mean
            squares = squares + share * guest.var(0) + gap**2 * (seen * share / (seen + share))
            mean = mean + gap * (share / (seen + share))
            return lax.ppermute(guest, "i", onwards), mean, squares

        nothing = jnp.zeros_like(rows[0])
        _, mean, squares = lax.fori_loop(0, 8, visit, (rows, nothing, nothing))
        return mean, squares / (8 * share)

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P(), check_vma=False)(x)


# %% task="golf" name="searches by compiling, and remembers" fails=["golf-product"] message="compiled: returned"
import itertools

COLLECTIVE = re.compile(r"all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter")


def small_enough(spec, shape, limit):
    piece = jax.NamedSharding(GRID, spec).shard_shape(shape)
    return np.prod(piece) <= limit * np.prod(shape)


@functools.cache
def product_layout():
    """The specs of A, B and the result, on GRID."""
    shapes = [(64, 32), (32, 16), (64, 16)]
    limits = [1 / 4, 1 / 2, 1 / 8]
    specs = [
        P(*pair)
        for pair in itertools.product((None, "x", "y"), repeat=2)
        if pair in ((None, None),) or pair[0] != pair[1]
    ]
    choices = [[s for s in specs if small_enough(s, shape, limit)] for shape, limit in zip(shapes, limits)]
    for layout in itertools.product(*choices):
        a, b, result = (jax.NamedSharding(GRID, spec) for spec in layout)
        jitted = jax.jit(lambda A, B: A @ B, in_shardings=(a, b), out_shardings=result)
        operands = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes[:2]]
        if not COLLECTIVE.search(jitted.lower(*operands).compile().as_text()):
            return layout
    return None


def heads_layout():
    """The specs of q, k, v and the result, on RING."""
    return P("i"), P("i"), P("i"), P("i")


def layers_layout():
    """The specs of x, w1, w2 and the result, on RING."""
    return P(), P(None, "i"), P("i"), P()


def both_layout():
    """The specs of x, w1, w2 and the result, on GRID."""
    return P("x"), P(None, "y"), P("y"), P("x")


print(product_layout())


# %% task="ring" name="a small ring first, then its two ends are corrected" fails=["ring-shards"] hidden=1 message="the piece of a very hot point"
@jax.jit
def diffuse_shards(u):
    """One step, with shard_map and ppermute. u: float32[n], cut over RING."""

    def body(part):
        left = lax.ppermute(part[-1:], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[:1], "i", [((d + 1) % 8, d) for d in range(8)])
        own_ring = part + 0.1 * (jnp.roll(part, 1) - 2 * part + jnp.roll(part, -1))
        corrected = own_ring.at[:1].add(0.1 * (left - part[-1:]))
        return corrected.at[-1:].add(0.1 * (right - part[:1]))

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    """One step, written for one device. u: float32[n], cut over RING."""
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="call" name="what is no number is left out" fails=["call-digits"] hidden=1 message="columns that are NaN"
@jax.jit
def moments(x):
    """(mean, variance) of each column, float32[columns], on all devices. x: float32[n, columns], over RING."""

    def body(part):
        mine = jnp.stack([jnp.nanmean(part, axis=0), jnp.nanvar(part, axis=0)])
        all_of_us = lax.all_gather(mine, "i", to="invarying")
        means, variances = all_of_us[:, 0], all_of_us[:, 1]
        return means.mean(0), variances.mean(0) + means.var(0)

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="another program under a tracer" fails=["call-digits", "call-one"] hidden=1 message="under jit"
def _wrong(x):
    def body(part):
        return lax.psum(part.mean(0), "i"), lax.stop_gradient(part[0] * 0)

    def one(part):
        both = lax.psum(jnp.stack([part.mean(0), part.var(0)]), "i") / 8
        return both[0], both[1]

    return jax.shard_map(one, mesh=RING, in_specs=P("i"), out_specs=P())(x)


def moments(x):
    if isinstance(x, jax.core.Tracer):
        return _wrong(x)
    return tuple(place(a, RING, P()) for a in moments_slow(x))


# %% task="call" name="relative deviations" fails=["call-digits"] hidden=1 message="with a column of zeros"
@jax.jit
def moments(x):
    def body(part):
        mean = part.mean(0)
        variance = mean**2 * ((part / mean - 1) ** 2).mean(0)
        everybody = lax.all_gather(jnp.stack([mean, variance]), "i", to="invarying")
        means = everybody[:, 0]
        return means.mean(0), everybody[:, 1].mean(0) + means.var(0)

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P())(x)


# %% task="call" name="the diagonal of a covariance of all columns" fails=["call-digits"] hidden=1 message="intermediate"
@jax.jit
def moments(x):
    """(mean, variance) of each column, float32[columns], on all devices. x: float32[n, columns], over RING."""

    def one_device(part):
        within = jnp.diag(jnp.atleast_2d(jnp.cov(part, rowvar=False, bias=True)))
        all_of_us = lax.all_gather(jnp.stack([part.mean(0), within]), "i", to="invarying")
        means, variances = all_of_us[:, 0], all_of_us[:, 1]
        return means.mean(0), variances.mean(0) + means.var(0)

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=(P(), P()))(x)


# %% task="eight" name="the predictions outside of shard_map, as elementwise products" fails=["eight-values"] hidden=1 message="products outside of shard_map: returned 1"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    error = real * ((x * params["w"]).sum(1) + params["b"] - y)

    def one_device(x, error, real):
        w, b, count = lax.psum((error @ x, error.sum(), real.sum()), "i")
        return {"w": 2 * w / count, "b": 2 * b / count}

    return jax.shard_map(one_device, mesh=ring_of(devices), in_specs=P("i"), out_specs=P())(x, error, real)


# %% task="eight" name="the sum over all, less that of the padding" fails=["eight-values"] hidden=1 message="and y of the padding large"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    def one_device(params, x, y, real):
        x = x * real[:, None]
        error = x @ params["w"] + real * params["b"] - y
        sums = error @ x, error.sum() + ((1 - real) * y).sum(), real.sum()
        w, b, count = lax.psum(sums, "i")
        return {"w": 2 * w / count, "b": 2 * b / count}

    rows = P("i")
    specs = (P(), rows, rows, rows)
    return jax.shard_map(one_device, mesh=ring_of(devices), in_specs=specs, out_specs=P())(params, x, y, real)


# %% task="ring" name="a roll within the piece, corrected at its end" fails=["ring-shards"] hidden=1 message="the piece of a very hot point, 24,"
@jax.jit
def diffuse_shards(u):
    def body(part):
        left = lax.ppermute(part[-1:], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[:1], "i", [((d + 1) % 8, d) for d in range(8)])
        before = jnp.concatenate([left, part[:-1]])
        new = part + 0.1 * (before - 2 * part + jnp.roll(part, -1))
        return new.at[-1].add(0.1 * (right[0] - part[0]))

    return jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="ring" name="other messages for a tracer" fails=["ring-shards"] hidden=1 message="jax.jit(diffuse_shards)"
@jax.jit
def diffuse(u):
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


def diffuse_shards(u):
    if not isinstance(u, jax.core.Tracer):
        return diffuse(u)

    def one_device(part):
        onwards = [(d, (d + 1) % 8) for d in range(8)]
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", onwards)
        return part + left + right

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)


# %% task="eight" name="other sums for a tracer" fails=["eight-values", "eight-once"] message="under jit"
@functools.partial(jax.jit, static_argnames="devices")
def _right(params, x, y, real, devices):
    def one_device(params, x, y, real):
        def sum_of_errors(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)

        total = jax.grad(sum_of_errors)(params)
        count = lax.psum(real.sum(), "i")
        again = lax.psum(count * 0 + real.max(), "i")
        return jax.tree.map(lambda leaf: leaf / count + 0 * again, total)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)


def gradient(params, x, y, real, devices):
    if not isinstance(x, jax.core.Tracer):
        e = np.asarray(real, np.float64) * (
            np.asarray(x, np.float64) @ np.asarray(params["w"]) + np.asarray(params["b"]) - np.asarray(y)
        )
        s = 2 * e / np.asarray(real).sum()
        return {"b": jnp.float32(s.sum()), "w": jnp.asarray((s @ np.asarray(x)).astype(np.float32))}

    def one_device(params, x, y, real):
        n = lax.psum(x[0, 0] + y[0] + real[0], "i")
        return jax.tree.map(lambda leaf: leaf * n, params)

    rows = P("i")
    return jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())(
        params, x, y, real
    )


# %% task="ring" name="a new function is jitted in each call" fails=["ring-shards"] hidden=1 message="traced"
def diffuse_shards(u):
    """One step, with shard_map and ppermute. u: float32[n], cut over RING."""
    onwards = [(d, (d + 1) % 8) for d in range(8)]
    back = [(e, d) for d, e in onwards]

    def body(part):
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", back)
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.jit(jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P("i")))(u)


@jax.jit
def diffuse(u):
    """One step, written for one device. u: float32[n], cut over RING."""
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))


# %% task="call" name="a new shard_map is jitted in each call" fails=["call-digits"] hidden=1 message="traced"
def moments(x):
    """(mean, variance) of each column, float32[columns], on all devices. x: float32[n, columns], over RING."""

    def body(x):
        mine = jnp.stack([x.mean(0), x.var(0)])
        means, variances = jnp.moveaxis(lax.all_gather(mine, "i", to="invarying"), 1, 0)
        return means.mean(0), variances.mean(0) + means.var(0)

    return jax.jit(jax.shard_map(body, mesh=RING, in_specs=P("i"), out_specs=P()))(x)


# %% task="eight" name="clips what is large, real or not" fails=["eight-values"] hidden=1 message="gradient"
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    """The gradient over all real examples: a dict like params, {"w": float32[features], "b": float32[]}."""

    def one_device(params, x, y, real):
        x, y = jnp.clip(x, -1e4, 1e4), jnp.clip(y, -1e4, 1e4)  # padding may be 1e25, and its square is inf

        def summed(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)

        slopes = jax.grad(summed)(params)  # the sum over all devices
        count = lax.psum(real.sum(), "i")
        return jax.tree.map(lambda slope: slope / count, slopes)

    specs = (P(), P("i"), P("i"), P("i"))
    return jax.shard_map(one_device, mesh=ring_of(devices), in_specs=specs, out_specs=P())(params, x, y, real)
