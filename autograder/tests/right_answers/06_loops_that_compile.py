# %% [markdown]
# Right answers to unit 06 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="universe" name="a padded ring, a table of eight cells, the history written into an array"
def step(row, rule):
    ring = jnp.pad(row, 1, mode="wrap")
    table = (rule >> jnp.arange(8)) & 1
    return table[4 * ring[:-2] + 2 * ring[1:-1] + ring[2:]]


@partial(jax.jit, static_argnums=2)
def history(row, rule, steps):
    def body(t, rows):
        return rows.at[t + 1].set(step(rows[t], rule))

    return lax.fori_loop(0, steps, body, jnp.zeros((steps + 1, row.size), jnp.int32).at[0].set(row))


@jax.jit
def evolve(row, rule, steps):
    def body(state):
        left, row = state
        return left - 1, step(row, rule)

    return lax.while_loop(lambda state: state[0] > 0, body, (steps, row))[1]


# %% task="universe" name="vmap over the cells, and a scan that gives out the row before"
def cell(i, row, rule):
    n = row.shape[0]
    neighbourhood = row[(i - 1) % n] * 4 + row[i] * 2 + row[(i + 1) % n]
    return jnp.bitwise_and(jnp.right_shift(rule, neighbourhood), 1)


def step(row, rule):
    return jax.vmap(cell, in_axes=(0, None, None))(jnp.arange(row.shape[0]), row, rule)


@partial(jax.jit, static_argnames=["steps"])
def history(row, rule, steps):
    _, rows = lax.scan(lambda now, _: (step(now, rule), now), row, jnp.arange(steps + 1))
    return rows


evolve = jax.jit(lambda row, rule, steps: lax.fori_loop(0, steps, lambda _, now: step(now, rule), row))


# %% task="universe" name="concatenate, a convolution in integers, closures over the rule"
def step(row, rule):
    around = jnp.concatenate([row[-1:], row, row[:1]])
    neighbourhood = jnp.convolve(around, jnp.array([1, 2, 4]), mode="valid").astype(jnp.int32)
    return jnp.where(rule & (1 << neighbourhood), 1, 0)


def following(rule):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return body


@jax.jit(static_argnames="steps")
def history(row, rule, steps):
    rows = lax.scan(following(rule), row, length=steps)[1]
    return jnp.concatenate([row[None, :], rows])


@jax.jit
def evolve(row, rule, steps):
    one_step = following(rule)
    return lax.fori_loop(0, steps, lambda t, row: one_step(row, t)[0], row)


# %% task="universe" name="JAX's own names for bits, a dict as carry"
def step(row, rule):
    left, right = jnp.roll(row, 1), jnp.roll(row, shift=-1)
    return jnp.bitwise_and(jnp.right_shift(rule, left * 4 + row * 2 + right), 1)


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(carry, _):
        row, rule = carry
        return (step(row, rule), rule), row

    (last, _), rows = jax.lax.scan(body, (row, rule), xs=None, length=steps)
    return jnp.append(rows, last[None], axis=0)


@jax.jit
def evolve(row, rule, steps):
    return lax.while_loop(
        lambda s: s["t"] < steps, lambda s: {"t": s["t"] + 1, "row": step(s["row"], rule)}, {"t": 0, "row": row}
    )["row"]


# %% task="flight" name="a named tuple as carry, lax.cond for the choice"
from typing import NamedTuple


class Plane(NamedTuple):
    n: jax.Array
    steps: jax.Array
    peak: jax.Array


def fly_on(plane):
    n = lax.cond(plane.n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, plane.n)
    return Plane(n, plane.steps + 1, jnp.maximum(plane.peak, n))


@jax.jit
def flight(n):
    n = jnp.int32(n)
    landed = lax.while_loop(lambda plane: plane.n > 1, fly_on, Plane(n, jnp.int32(0), n))
    return landed.steps, landed.peak


# %% task="flight" name="one vector of three numbers, bits in place of a remainder"
@jax.jit
def flight(n):
    def body(state):
        n, steps, peak = state
        n = lax.select(n & 1 == 1, 3 * n + 1, n >> 1)
        return jnp.array([n, steps + 1, jnp.maximum(n, peak)])

    state = lax.while_loop(lambda state: state[0] != 1, body, jnp.array([n, 0, n], jnp.int32))
    return state[1], state[2]


# %% task="flight" name="a dict as carry, arithmetic in place of a choice"
def flying(state):
    return state["height"] != 1


def move(state):
    height = state["height"]
    odd = height % 2
    height = odd * (3 * height + 1) + (1 - odd) * (height // 2)
    return {"height": height, "steps": state["steps"] + 1, "peak": jnp.maximum(state["peak"], height)}


flight = jax.jit(
    lambda n: tuple(
        lax.while_loop(flying, move, {"height": n, "steps": jnp.zeros_like(n), "peak": n})[key]
        for key in ("steps", "peak")
    )
)


# %% task="computer" name="named branches, dynamic_slice for the instruction"
def next_one(operation):
    return lambda at, r, a, b: (at + 1, operation(r, a, b))


def halt(at, r, a, b):
    return at, r


def jnz(at, r, a, b):
    return lax.select(r[a] != 0, b, at + 1), r


BRANCHES = (
    halt,
    next_one(lambda r, a, b: r.at[a].set(b)),
    next_one(lambda r, a, b: r.at[a].set(r[b])),
    next_one(lambda r, a, b: r.at[a].add(r[b])),
    next_one(lambda r, a, b: r.at[a].multiply(r[b])),
    next_one(lambda r, a, b: r.at[a].set(jnp.remainder(r[a], r[b]))),
    jnz,
)


@jax.jit
def computer(program, registers, limit):
    def body(state):
        at, r, steps = state
        code, a, b = lax.dynamic_slice(program, (at, 0), (1, 3))[0]
        at, r = lax.switch(code, BRANCHES, at, r, a, b)
        return at, r, steps + 1

    def running(state):
        at, _, steps = state
        return jnp.logical_and(program[at][0] != HALT, steps < limit)

    _, r, steps = lax.while_loop(running, body, (jnp.int32(0), registers, jnp.int32(0)))
    return r, steps


# %% task="computer" name="each branch gives one value and one place"
@jax.jit
def computer(program, registers, limit):
    codes, first, second = program.T

    def body(state):
        at, r, steps = state
        a, b = first[at], second[at]
        x, y = r[a], r[b]
        value, jump = lax.switch(
            codes[at],
            [
                lambda: (x, False),
                lambda: (b, False),
                lambda: (y, False),
                lambda: (x + y, False),
                lambda: (x * y, False),
                lambda: (x % y, False),
                lambda: (x, x != 0),
            ],
        )
        return jnp.where(jump, b, at + 1), r.at[a].set(value), steps + 1

    _, r, steps = lax.while_loop(lambda s: (codes[s[0]] != HALT) & (s[2] < limit), body, (0, registers, 0))
    return r, steps


# %% task="computer" name="a class for the state, the instruction is fetched one round ahead"
from typing import NamedTuple


class Machine(NamedTuple):
    at: jax.Array
    registers: jax.Array
    done: jax.Array

    def go_on(self, **changes):
        return self._replace(**({"at": self.at + 1} | changes))

    def put(self, a, value):
        return self.go_on(registers=self.registers.at[a].set(value))


def operations(a, b):
    return [
        lambda m: m,
        lambda m: m.put(a, b),
        lambda m: m.put(a, m.registers[b]),
        lambda m: m.put(a, m.registers[a] + m.registers[b]),
        lambda m: m.put(a, m.registers[a] * m.registers[b]),
        lambda m: m.put(a, m.registers[a] % m.registers[b]),
        lambda m: m.go_on(at=jnp.where(m.registers[a] == 0, m.at + 1, b)),
    ]


@jax.jit
def computer(program, registers, limit):
    def running(carry):
        machine, instruction = carry
        return (instruction[0] != HALT) & (machine.done < limit)

    def work(carry):
        machine, (code, a, b) = carry
        machine = lax.switch(code, operations(a, b), machine)
        return machine._replace(done=machine.done + 1), program[machine.at]

    start = Machine(jnp.int32(0), jnp.asarray(registers), jnp.int32(0))
    machine, _ = lax.while_loop(running, work, (start, program[0]))
    return machine.registers, machine.done


# %% task="puck" name="a scan over a table of rounds, with a mask"
@jax.jit
def slide(speed, drag):
    def body(state, _):
        place, speed = state
        alive = jnp.where(speed > 0, 1.0, 0.0)
        return (place + alive * 0.1 * speed, speed - alive * 0.1 * (0.5 + drag * speed**2)), None

    (place, _), _ = lax.scan(body, (0.0, speed), jnp.arange(MOST_ROUNDS))
    return place


# %% task="puck" name="lax.cond in a scan: a puck at rest stays"
def push(state, drag):
    place, speed = state
    return place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)


@jax.jit
def slide(speed, drag):
    def round_(state, _):
        return lax.cond(state[1] > 0, lambda s: push(s, drag), lambda s: s, state), None

    start = (jnp.float32(0), jnp.float32(speed))
    return lax.scan(round_, start, None, length=MOST_ROUNDS)[0][0]


# %% task="puck" name="the speeds of all rounds, summed at the end"
@jax.jit
def slide(speed, drag):
    def slower(speed, _):
        new = jnp.where(speed > 0, speed - 0.1 * (0.5 + drag * speed * speed), speed)
        return new, jnp.where(speed > 0, speed, 0.0)

    _, speeds = lax.scan(slower, speed, length=MOST_ROUNDS, unroll=4)
    return 0.1 * speeds.sum()


# %% task="puck" name="one vector as state, fori_loop, and its own derivative turned off nowhere"
@jax.jit
def slide(speed, drag):
    def body(i, state):
        new = state + 0.1 * jnp.array([state[1], -(0.5 + drag * jnp.square(state[1]))])
        return jnp.where(state[1] > 0, new, state)

    return lax.fori_loop(0, MOST_ROUNDS, body, jnp.array([0.0, speed]))[0]


# %% task="reader" name="vmap in the join, then the column of state 0"
@jax.jit
def read(table, text):
    def join(first, then):
        return jax.vmap(lambda one, two: two[one])(first, then)

    rows = lax.associative_scan(join, jnp.take(table, text, axis=0))
    return rows.T[0]


# %% task="reader" name="doubling the reach, in as many rounds as the length has bits"
@jax.jit
def read(table, text):
    steps, reach = table[text], 1
    while reach < text.size:
        joined = jnp.take_along_axis(steps[reach:], steps[:-reach], axis=1)
        steps = jnp.concatenate([steps[:reach], joined])
        reach *= 2
    return steps[:, 0]


# %% task="reader" name="letters as matrices of zeros and ones"
@jax.jit
def read(table, text):
    states = table.shape[1]
    matrices = jax.nn.one_hot(table[text], states, dtype=jnp.float32)
    products = lax.associative_scan(jnp.matmul, matrices)
    return jnp.argmax(products[:, 0, :], axis=-1).astype(jnp.int32)


# %% task="reader" name="halves, joined by recursion"
def prefixes(steps):
    if len(steps) == 1:
        return steps
    half = len(steps) // 2
    first, second = prefixes(steps[:half]), prefixes(steps[half:])
    return jnp.concatenate([first, second[:, first[-1]]])


def pairwise(steps):
    n = steps.shape[0]
    if n == 1:
        return steps
    pairs = jax.vmap(lambda a, b: b[a])(steps[: n - 1 : 2], steps[1::2])
    known = pairwise(pairs)
    odd = jax.vmap(lambda a, b: b[a])(known[: (n - 1) // 2], steps[2::2])
    result = jnp.zeros_like(steps).at[0].set(steps[0])
    return result.at[1::2].set(known).at[2::2].set(odd)


@jax.jit
def read(table, text):
    return pairwise(table[text])[:, 0]


# %% task="puck" name="the speed never falls below 0"
@jax.jit
def slide(speed, drag):
    def body(_, state):
        place, speed = state
        return place + 0.1 * speed, jnp.maximum(speed - 0.1 * (0.5 + drag * speed**2), 0.0)

    place, _ = lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))
    return place


# %% task="reader" name="a helper that is called together"
def together(first, then):
    return jax.vmap(jnp.take)(then, first)


@jax.jit
def read(table, text):
    steps = lax.associative_scan(together, table[text])
    return steps[:, 0]


# %% task="puck" name="pucks that stand add zeros, a reverse rule of JAX's own for a checkpointed scan"
@jax.jit
def slide(speed, drag):
    @jax.checkpoint
    def body(state, _):
        place, speed = state
        new = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
        return lax.cond(speed > 0, lambda: new, lambda: (place, speed)), None

    return lax.scan(body, (0.0, speed), length=MOST_ROUNDS)[0][0]
