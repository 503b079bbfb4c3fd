# %% [markdown]
# Wrong answers for unit 06. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="oracle" name="a fori_loop is always a while, and unroll unrolls the tape" fails=["oracle-check"] message="unroll is done when the jaxpr is lowered"
def on_the_tape():
    return {
        "python_for": ["none", 4],
        "fori_fixed": ["while", 1],
        "fori_jitted": ["while", 1],
        "fori_static": ["while", 1],
        "while_counting": ["while", 1],
        "scan_unrolled": ["none", 4],
        "while_behind_a_stop": ["while", 1],
        "cond_known": ["cond", 3],
        "cond_of_shape": ["none", 1],
        "cond_batched": ["select_n", 3],
        "cond_batched_alike": ["cond", 3],
    }


def has_gradient():
    return {
        "python_for": True,
        "fori_fixed": True,
        "fori_jitted": False,
        "fori_static": True,
        "while_counting": False,
        "scan_unrolled": True,
        "while_behind_a_stop": True,
    }


# %% task="oracle" name="vmap keeps the branch, a known cond is decided" fails=["oracle-check"] message="The inputs of one call can disagree"
def on_the_tape():
    return {
        "python_for": ["none", 4],
        "fori_fixed": ["scan", 1],
        "fori_jitted": ["while", 1],
        "fori_static": ["scan", 1],
        "while_counting": ["while", 1],
        "scan_unrolled": ["scan", 1],
        "while_behind_a_stop": ["while", 1],
        "cond_known": ["none", 1],
        "cond_of_shape": ["cond", 3],
        "cond_batched": ["cond", 3],
        "cond_batched_alike": ["cond", 3],
    }


def has_gradient():
    return {
        "python_for": True,
        "fori_fixed": True,
        "fori_jitted": False,
        "fori_static": True,
        "while_counting": False,
        "scan_unrolled": True,
        "while_behind_a_stop": True,
    }


# %% task="oracle" name="every while is in the way, and a jitted fori_loop is fine" fails=["oracle-gradient-check"] message="Reverse mode only has to walk back through"
def on_the_tape():
    return {
        "python_for": ["none", 4],
        "fori_fixed": ["scan", 1],
        "fori_jitted": ["while", 1],
        "fori_static": ["scan", 1],
        "while_counting": ["while", 1],
        "scan_unrolled": ["scan", 1],
        "while_behind_a_stop": ["while", 1],
        "cond_known": ["cond", 3],
        "cond_of_shape": ["none", 1],
        "cond_batched": ["select_n", 3],
        "cond_batched_alike": ["cond", 3],
    }


def has_gradient():
    return {
        "python_for": True,
        "fori_fixed": True,
        "fori_jitted": True,
        "fori_static": True,
        "while_counting": False,
        "scan_unrolled": True,
        "while_behind_a_stop": False,
    }


# %% task="oracle" name="measured instead" fails=["oracle-check"] message="on_the_tape uses show_jaxpr, which does not exist where it is run"
def on_the_tape():
    found = {}
    for name, program in PROGRAMS.items():
        tape = show_jaxpr(program, 0.5).primitives
        loops = [loop for loop in ("scan", "while", "cond", "select_n") if tape[loop]]
        found[name] = [*(loops or ["none"]), tape["sin"]]
    return found


# %% task="oracle" name="gradient measured instead" fails=["oracle-gradient-check"] message="has_gradient uses jax.grad, which does not exist where it is run"
def has_gradient():
    found = {}
    for name, program in LOOPS.items():
        try:
            jax.grad(program)(0.5)
            found[name] = True
        except Exception:
            found[name] = False
    return found


# %% task="universe" name="Python loops under jit" fails=["universe-check"] message="`history` is unrolled"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    rows = [row]
    for _ in range(steps):
        rows.append(step(rows[-1], rule))
    return jnp.stack(rows)


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="left and right exchanged" fails=["universe-check"] message="step(row, 110) at index"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, -1) + 2 * row + jnp.roll(row, 1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="a strip, not a ring" fails=["universe-check"] message="history(row, 110, steps=24) at index"
def step(row, rule):
    strip = jnp.pad(row, 1)
    return (rule >> (4 * strip[:-2] + 2 * strip[1:-1] + strip[2:])) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="the rule is static" fails=["universe-check"] message="rule: static 0 -> static 15"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames=("rule", "steps"))
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="the last row of the history" fails=["universe-evolve-check"] message="static"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@partial(jax.jit, static_argnames="steps")
def evolve(row, rule, steps):
    return history(row, rule, steps)[-1]


# %% task="universe" name="a scan with a traced length" fails=["universe-evolve-check"] message="The `length` argument to `scan` expects a concrete `int` value"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    return lax.scan(lambda row, _: (step(row, rule), None), row, None, length=steps)[0]


# %% task="universe" name="jits the expensive part only" fails=["universe-evolve-check"] message="TracerIntegerConversionError"
@jax.jit
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


def evolve(row, rule, steps):
    for _ in range(steps):
        row = step(row, rule)
    return row


# %% task="universe" name="jits the expensive part only, by the clock" fails=["universe-speed"] message="below 20x, the first tier"
@jax.jit
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


def history(row, rule, steps):
    rows = [row]
    for _ in range(steps):
        rows.append(step(rows[-1], rule))
    return jnp.stack(rows)


def evolve(row, rule, steps):
    for _ in range(steps):
        row = step(row, rule)
    return row


# %% task="universe" name="ten steps at a time" fails=["universe-speed"] message="below 20x, the first tier"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@jax.jit
def ten_steps(row, rule):
    for _ in range(10):
        row = step(row, rule)
    return row


def history(row, rule, steps):
    rows = [row]
    for _ in range(steps):
        rows.append(step(rows[-1], rule))
    return jnp.stack(rows)


def evolve(row, rule, steps):
    for _ in range(steps // 10):
        row = ten_steps(row, rule)
    for _ in range(steps % 10):
        row = step(row, rule)
    return row


# %% task="universe" name="a fori_loop, but nothing is jitted" fails=["universe-evolve-check"] message="evolve uses functions that were traced 4 times"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="three living cells are too many, whatever the rule" fails=["universe-check"] hidden=1 message="history(row"
def step(row, rule):
    alive = 4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)
    return jnp.where(alive == 7, 0, (rule >> alive) & 1)


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    def body(i, row):
        return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1

    return lax.fori_loop(0, steps, body, row)


# %% task="universe" name="evolve always begins with one cell" fails=["universe-evolve-check"] hidden=1 message="evolve(row"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    first = jnp.zeros_like(row).at[row.size // 2].set(1)
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), first)


# %% task="universe" name="a step that loops over the cells" fails=["universe-check"] message="`step` uses scan"
def step(row, rule):
    def cell(i):
        return (rule >> (4 * row[i - 1] + 2 * row[i] + row[(i + 1) % row.size])) & 1

    return lax.map(cell, jnp.arange(row.size))


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="a step with a Python loop over the cells" fails=["universe-check"] message="unrolled"
def step(row, rule):
    n = row.shape[0]
    return jnp.stack([(rule >> (4 * row[i - 1] + 2 * row[i] + row[(i + 1) % n])) & 1 for i in range(n)])


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.vstack([row, lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="the first row is forgotten" fails=["universe-check"] message="expected (25, 31)"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    return lax.scan(body, row, None, length=steps)[1]


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="flight" name="no flight is longer than 200 steps" fails=["flight-check"] hidden=1 message="flight(6171)"
@jax.jit
def flight(n):
    def flying(state):
        return (state[0] != 1) & (state[1] < 200)

    def body(state):
        n, steps, peak = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    return lax.while_loop(flying, body, (n, 0, n))[1:]


# %% task="flight" name="the peak of the odd numbers" fails=["flight-check"] message="flight(27)"
@jax.jit
def flight(n):
    def body(state):
        n, steps, peak = state
        odd = n % 2 == 1
        peak = jnp.where(odd, jnp.maximum(peak, n), peak)
        return jnp.where(odd, 3 * n + 1, n // 2), steps + 1, peak

    return lax.while_loop(lambda state: state[0] != 1, body, (n, 0, n))[1:]


# %% task="flight" name="counts the numbers, not the steps" fails=["flight-check"] message="flight(27)"
@jax.jit
def flight(n):
    def body(state):
        n, steps, peak = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    return lax.while_loop(lambda state: state[0] != 1, body, (n, 1, n))[1:]


# %% task="flight" name="a Python while" fails=["flight-check"] message="TracerBoolConversionError"
@jax.jit
def flight(n):
    steps, peak = 0, n
    while n != 1:
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps, peak = steps + 1, jnp.maximum(peak, n)
    return steps, peak


# %% task="flight" name="a static start" fails=["flight-check"] message="a static argument is part of the program"
@partial(jax.jit, static_argnums=0)
def flight(n):
    steps, peak = 0, n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps, peak = steps + 1, max(peak, n)
    return steps, peak


# %% task="flight" name="halves with a slash" fails=["flight-check"] message="float32"
@jax.jit
def flight(n):
    def body(state):
        n, steps, peak = state
        n = jnp.where(n % 2 == 0, n / 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    _, steps, peak = lax.while_loop(lambda state: state[0] != 1, body, (n, 0, n))
    return steps, peak


# %% task="flight" name="the start is not on the way" fails=["flight-check"] message="flight(1)"
@jax.jit
def flight(n):
    def body(state):
        n, steps, peak = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    _, steps, peak = lax.while_loop(lambda state: state[0] != 1, body, (n, 0, 0))
    return steps, peak


# %% task="flight" name="a thousand rounds will do" fails=["flight-check"] message="expected a while"
@jax.jit
def flight(n):
    def body(i, state):
        n, steps, peak = state
        flying = n != 1
        n = jnp.where(flying, jnp.where(n % 2 == 0, n // 2, 3 * n + 1), n)
        return n, steps + flying, jnp.maximum(peak, n)

    _, steps, peak = lax.fori_loop(0, 1000, body, (n, 0, n))
    return steps, peak


# %% task="computer" name="Python's while and if" fails=["computer-check"] message="TracerBoolConversionError"
@jax.jit
def computer(program, registers, limit):
    r, at, steps = registers, 0, 0
    while program[at, 0] != HALT and steps < limit:
        code, a, b = program[at]
        at, steps = at + 1, steps + 1
        if code == SET:
            r = r.at[a].set(b)
    return r, steps


# %% task="computer" name="a static program" fails=["computer-check"] message="Non-hashable static arguments"
@partial(jax.jit, static_argnames="program")
def computer(program, registers, limit):
    r, at, steps = registers, 0, 0
    while program[at][0] != HALT:
        code, a, b = program[at]
        at, steps = at + 1, steps + 1
        if code == SET:
            r = r.at[a].set(b)
    return r, steps


# %% task="computer" name="one cond for each instruction" fails=["computer-tape-check"] message="`computer` has cond 6 times: expected 1"
@jax.jit
def computer(program, registers, limit):
    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        new = lax.cond(code == SET, lambda: r.at[a].set(b), lambda: r)
        new = lax.cond(code == COPY, lambda: r.at[a].set(r[b]), lambda: new)
        new = lax.cond(code == ADD, lambda: r.at[a].set(r[a] + r[b]), lambda: new)
        new = lax.cond(code == MUL, lambda: r.at[a].set(r[a] * r[b]), lambda: new)
        new = lax.cond(code == REM, lambda: r.at[a].set(r[a] % r[b]), lambda: new)
        at = lax.cond((code == JNZ) & (r[a] != 0), lambda: b, lambda: at + 1)
        return at, new, steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps


# %% task="computer" name="all results, then a choice" fails=["computer-tape-check"] message="`computer` has cond 0 times: expected 1"
@jax.jit
def computer(program, registers, limit):
    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        value = jnp.stack([r[a], b, r[b], r[a] + r[b], r[a] * r[b], r[a] % r[b], r[a]])[code]
        at = jnp.where((code == JNZ) & (r[a] != 0), b, at + 1)
        return at, r.at[a].set(value), steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps


# %% task="computer" name="a jump counts from here" fails=["computer-check"] message="the factorial of 12, limit 10"
@jax.jit
def computer(program, registers, limit):
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, at + b, at + 1), r),
    ]

    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, operations, at, r, a, b)
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps


# %% task="computer" name="no limit" fails=["computer-check"] message="the factorial of 12, limit 10"
@jax.jit
def computer(program, registers, limit):
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, operations, at, r, a, b)
        return at, r, steps + 1

    state = lax.while_loop(lambda state: program[state[0], 0] != HALT, body, (0, registers, 0))
    return state[1:]


# %% task="computer" name="jumps if the register is positive" fails=["computer-check"] hidden=1 message="counting up from -3"
@jax.jit
def computer(program, registers, limit):
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] > 0, b, at + 1), r),
    ]

    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, operations, at, r, a, b)
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps


# %% task="computer" name="a memory of eight instructions" fails=["computer-check"] hidden=1 message="a jump to instruction 9"
@jax.jit
def computer(program, registers, limit):
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def running(state):
        at, _, steps = state
        return (program[at % 8, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at % 8]
        at, r = lax.switch(code, operations, at, r, a, b)
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps


# %% task="computer" name="one instruction more than the limit" fails=["computer-check"] message="the factorial of 12, limit 10"
@jax.jit
def computer(program, registers, limit):
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps <= limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, operations, at, r, a, b)
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps


# %% task="puck" name="keeps the while_loop, and looks at the distance alone" fails=["puck-check"] message="has a while: expected a scan"
slide = jax.jit(slide_until_rest)


# %% task="puck" name="keeps the while_loop" fails=["puck-gradient-check"] message="Reverse-mode differentiation does not work for lax.while_loop"
slide = jax.jit(slide_until_rest)


# %% task="puck" name="slides on for ever" fails=["puck-check"] message="where the puck stops"
@jax.jit
def slide(speed, drag):
    def body(_, state):
        place, speed = state
        return place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)

    return lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))[0]


# %% task="puck" name="the place stops, the speed does not" fails=["puck-gradient-check"] message="nan"
@jax.jit
def slide(speed, drag):
    def body(_, state):
        place, speed = state
        return jnp.where(speed > 0, place + 0.1 * speed, place), speed - 0.1 * (0.5 + drag * speed**2)

    return lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))[0]


# %% task="puck" name="a bound that comes with the call" fails=["puck-gradient-check"] message="fori_loop with dynamic start/stop values"
@jax.jit
def slide(speed, drag):
    def body(_, state):
        place, speed = state
        moving = speed > 0
        new_place, new_speed = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, new_place, place), jnp.where(moving, new_speed, speed)

    rounds = jnp.int32(speed / 0.05) + 1
    return lax.fori_loop(0, rounds, body, (0.0, speed))[0]


# %% task="puck" name="unrolls all the rounds" fails=["puck-check", "puck-gradient-check"] message="`slide` has no loop in"
@jax.jit
def slide(speed, drag):
    place = 0.0
    for _ in range(MOST_ROUNDS):
        moving = speed > 0
        place = jnp.where(moving, place + 0.1 * speed, place)
        speed = jnp.where(moving, speed - 0.1 * (0.5 + drag * speed**2), speed)
    return place


# %% task="puck" name="130 rounds will do" fails=["puck-check", "puck-gradient-check"] hidden=1 message="(8.9, 0.0)"
@jax.jit
def slide(speed, drag):
    def body(_, state):
        place, speed = state
        moving = speed > 0
        new_place, new_speed = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, new_place, place), jnp.where(moving, new_speed, speed)

    return lax.fori_loop(0, 130, body, (0.0, speed))[0]


# %% task="puck" name="the drag has no gradient" fails=["puck-gradient-check"] message="the gradient of slide"
@jax.jit
def slide(speed, drag):
    def body(state, _):
        place, speed = state
        moving = speed > 0
        new_place = place + 0.1 * speed
        new_speed = speed - 0.1 * (0.5 + lax.stop_gradient(drag * speed**2))
        return (jnp.where(moving, new_place, place), jnp.where(moving, new_speed, speed)), None

    return lax.scan(body, (0.0, speed), length=MOST_ROUNDS)[0][0]


# %% task="puck" name="the new speed moves the puck" fails=["puck-check"] message="where the puck stops"
@jax.jit
def slide(speed, drag):
    def body(_, state):
        place, speed = state
        speed = jnp.maximum(speed - 0.1 * (0.5 + drag * speed**2), 0)
        return place + 0.1 * speed, speed

    return lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))[0]


# %% task="reader" name="a scan" fails=["reader-check"] message="`read` uses scan"
@jax.jit
def read(table, text):
    def body(state, letter):
        state = table[letter, state]
        return state, state

    return lax.scan(body, jnp.int32(0), text)[1]


# %% task="reader" name="letter by letter, unrolled" fails=["reader-check"] message="expected at most 400"
@jax.jit
def read(table, text):
    state, states = 0, []
    for i in range(text.shape[0]):
        state = table[text[i], state]
        states.append(state)
    return jnp.stack(states)


# %% task="reader" name="joined the wrong way round" fails=["reader-check"] message="the states in say"
@jax.jit
def read(table, text):
    def join(first, then):
        return jnp.take_along_axis(first, then, axis=1)

    return lax.associative_scan(join, table[text])[:, 0]


# %% task="reader" name="picks the first letter's row, not state 0" fails=["reader-check"] message="has shape (28, 3), expected (28,)"
@jax.jit
def read(table, text):
    return lax.associative_scan(lambda first, then: jnp.take_along_axis(then, first, axis=1), table[text])


# %% task="reader" name="a callback to the specification" fails=["reader-check"] message="callback"
@jax.jit
def read(table, text):
    states = jax.ShapeDtypeStruct(text.shape, jnp.int32)
    return jax.pure_callback(lambda *given: read_slow(*map(np.asarray, given)), states, table, text)


# %% task="reader" name="joins over 1, 2, 4, 8 and 16 letters, and no more" fails=["reader-check"] hidden=1 message="n = 5000"
@jax.jit
def read(table, text):
    steps = table[text]
    for reach in (1, 2, 4, 8, 16):
        joined = jnp.take_along_axis(steps[reach:], steps[:-reach], axis=1)
        steps = jnp.concatenate([steps[:reach], joined])
    return steps[:, 0]


# %% task="reader" name="joins a letter with the one before it, once" fails=["reader-check"] message="the states in say"
@jax.jit
def read(table, text):
    steps = table[text]
    joined = jnp.take_along_axis(steps[1:], steps[:-1], axis=1)
    return jnp.concatenate([steps[:1], joined])[:, 0]


# %% task="reader" name="no jit" fails=["reader-check"] message="jit"
def read(table, text):
    return lax.associative_scan(lambda first, then: jnp.take_along_axis(then, first, axis=1), table[text])[:, 0]


# %% task="reader" name="starts where the first letter leads" fails=["reader-check"] message="7 to the power of 5"
@jax.jit
def read(table, text):
    joined = lax.associative_scan(lambda first, then: jnp.take_along_axis(then, first, axis=1), table[text])
    return joined[:, table[text[0], 0]]


# %% task="universe" name="no history of no steps" fails=["universe-check"] message="history(row, 30, steps=0)"
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    second = step(row, rule)
    later = lax.scan(lambda old, _: (step(old, rule),) * 2, second, None, length=steps - 1)[1]
    return jnp.vstack([row, second, later])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="a thousand steps are enough" fails=["universe-evolve-check"] hidden=1 message="evolve(row, 30, "
def step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    return lax.scan(lambda now, _: (step(now, rule), now), row, length=steps + 1)[1]


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, jnp.minimum(steps, 1000), lambda i, row: step(row, rule), row)


# %% task="universe" name="a row in one int32" fails=["universe-check", "universe-evolve-check"] hidden=1 message="(row, "
def step(row, rule):
    places = jnp.arange(row.shape[0], dtype=jnp.int32)
    number = jnp.sum(row << places, dtype=jnp.int32)
    left, itself, right = ((number >> ((places + shift) % row.shape[0])) & 1 for shift in (-1, 0, 1))
    return (rule >> (4 * left + 2 * itself + right)) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    return lax.scan(lambda now, _: (step(now, rule), now), row, length=steps + 1)[1]


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="flight" name="flies in float32" fails=["flight-check"] hidden=1 message="flight(26623)"
@jax.jit
def flight(n):
    def body(state):
        n, steps, peak = state
        n = jnp.where(n % 2 == 0, n / 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    n = jnp.float32(n)
    _, steps, peak = lax.while_loop(lambda state: state[0] != 1, body, (n, 0, n))
    return steps, peak.astype(jnp.int32)


# %% task="computer" name="multiplies in float32" fails=["computer-check"] hidden=1 message="a product of two large odd numbers"
@jax.jit
def computer(program, registers, limit):
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set((r[a].astype(float) * r[b]).astype(int))),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        return *lax.switch(code, operations, at, r, a, b), steps + 1

    def running(state):
        return (program[state[0], 0] != HALT) & (state[2] < limit)

    return lax.while_loop(running, body, (0, registers, 0))[1:]


# %% task="computer" name="a thousand instructions at most" fails=["computer-check"] hidden=1 message="counting without an end"
@jax.jit
def computer(program, registers, limit):
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        return *lax.switch(code, operations, at, r, a, b), steps + 1

    def running(state):
        return (program[state[0], 0] != HALT) & (state[2] < jnp.minimum(limit, 1000))

    return lax.while_loop(running, body, (0, registers, 0))[1:]


# %% task="reader" name="looks 512 letters back" fails=["reader-check"] hidden=1 message="n = 5000"
@jax.jit
def read(table, text):
    rows = table[text]
    for reach in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        if reach < text.size:
            joined = jnp.take_along_axis(rows[reach:], rows[:-reach], axis=1)
            rows = jnp.concatenate([rows[:reach], joined])
    return rows[:, 0]


# %% task="universe" name="stops where a row comes back" fails=["universe-evolve-check"] hidden=1 message="by rule 1"
def step(row, rule):
    neighbourhood = 4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)
    return (rule >> neighbourhood) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    row = jnp.asarray(row, jnp.int32)

    def body(row, _):
        new = step(row, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    row = jnp.asarray(row, jnp.int32)

    def goes_on(state):
        i, now, _, older = state
        return (i < steps) & ((i < 2) | jnp.any(now != older))

    def body(state):
        i, now, last, _ = state
        return i + 1, step(now, rule), now, last

    return lax.while_loop(goes_on, body, (0, row, row, row))[1]


# %% task="universe" name="a scan for a short row" fails=["universe-check"] hidden=1 message="`step` uses scan"
def step(row, rule):
    ring = jnp.concatenate([row[-1:], row, row[:1]])
    if row.shape[0] < 8:
        return lax.map(lambda i: (rule >> (4 * ring[i] + 2 * ring[i + 1] + ring[i + 2])) & 1, jnp.arange(row.shape[0]))
    return (rule >> (4 * ring[:-2] + 2 * ring[1:-1] + ring[2:])) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    row = jnp.asarray(row, jnp.int32)

    def body(row, _):
        new = step(row, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda _, row: step(row, rule), jnp.asarray(row, jnp.int32))


# %% task="universe" name="no ring of two cells" fails=["universe-check"] hidden=1 message="step of "
def step(row, rule):
    n = row.shape[0]
    left = row[np.arange(n) - 1]
    right = row[(np.arange(n) + 1) % n] if n >= 3 else jnp.zeros_like(row).at[: n - 1].set(row[1:])
    return (rule >> (4 * left + 2 * row + right)) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    row = jnp.asarray(row, jnp.int32)

    def body(row, _):
        new = step(row, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda _, row: step(row, rule), jnp.asarray(row, jnp.int32))


# %% task="flight" name="the peak of the first 128 steps" fails=["flight-check"] hidden=1 message="flight(370153)"
@jax.jit
def flight(n):
    def body(state):
        n, steps, log = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, log.at[steps + 1].set(n, mode="drop")

    n = jnp.asarray(n, jnp.int32)
    log = jnp.zeros(128, jnp.int32).at[0].set(n)
    _, steps, log = lax.while_loop(lambda s: s[0] != 1, body, (n, jnp.int32(0), log))
    return steps, log.max()


# %% task="computer" name="HALT is a row of zeros" fails=["computer-check"] hidden=1 message="a HALT with numbers beside it"
@jax.jit
def computer(program, registers, limit):
    functions = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].add(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].multiply(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, functions, at, r, a, b)
        return at, r, steps + 1

    def goes_on(state):
        return jnp.any(program[state[0]] != 0) & (state[2] < limit)

    _, registers, steps = lax.while_loop(goes_on, body, (jnp.int32(0), registers, jnp.int32(0)))
    return registers, steps


# %% task="computer" name="nothing stands behind the first HALT" fails=["computer-check"] hidden=1 message="a jump is the last instruction"
@jax.jit
def computer(program, registers, limit):
    functions = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].add(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].multiply(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]
    end = jnp.argmax(program[:, 0] == HALT)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, functions, at, r, a, b)
        return at, r, steps + 1

    def goes_on(state):
        return (state[0] < end) & (state[2] < limit)

    _, registers, steps = lax.while_loop(goes_on, body, (jnp.int32(0), registers, jnp.int32(0)))
    return registers, steps


# %% task="computer" name="a jump to itself stops" fails=["computer-check"] hidden=1 message="a jump to itself"
@jax.jit
def computer(program, registers, limit):
    functions = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].add(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].multiply(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(state):
        at, _, r, steps = state
        new, r = lax.switch(program[at, 0], functions, at, r, program[at, 1], program[at, 2])
        return new, at, r, steps + 1

    def goes_on(state):
        at, before, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit) & (at != before)

    start = jnp.int32(0), jnp.int32(-1), jnp.asarray(registers), jnp.int32(0)
    return lax.while_loop(goes_on, body, start)[2:]


# %% task="puck" name="a slow puck rests" fails=["puck-gradient-check"] hidden=1 message="(1e-06, 0.1)"
@jax.jit
def slide(speed, drag):
    def body(_, state):
        place, speed = state
        moving = speed > 1e-3
        new = speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, place + 0.1 * speed, place), jnp.where(moving, new, speed)

    return lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))[0]


# %% task="puck" name="a gradient of its own, without the cotangent" fails=["puck-gradient-check"] hidden=1 message="the square of slide"
@jax.custom_vjp
def distance(speed, drag):
    def body(_, state):
        place, speed = state
        moving = speed > 0
        new = speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, place + 0.1 * speed, place), jnp.where(moving, new, speed)

    return lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))[0]


def forth(speed, drag):
    return distance(speed, drag), jax.jacfwd(slide_until_rest, argnums=(0, 1))(speed, drag)


def back(slopes, _):
    return slopes


distance.defvjp(forth, back)


@jax.jit
def slide(speed, drag):
    return distance(speed, drag)


# %% task="reader" name="128 states at most" fails=["reader-check"] hidden=1 message="300 states"
@jax.jit
def read(table, text):
    steps = table.astype(jnp.int8)[text]

    def join(first, then):
        return jnp.take_along_axis(then, first.astype(jnp.int32), axis=1)

    return lax.associative_scan(join, steps)[:, 0].astype(jnp.int32)


# %% task="reader" name="a loop in a primitive of its own" fails=["reader-check"] hidden=1 message="loops in the program that XLA gets"
from jax.extend.core import Primitive
from jax.interpreters import mlir


def letter_by_letter(table, text):
    def body(state, letter):
        state = table[letter, state]
        return state, state

    return lax.scan(body, jnp.zeros((), table.dtype), text)[1]


walk_p = Primitive("walk")
walk_p.def_impl(jax.jit(letter_by_letter))
walk_p.def_abstract_eval(lambda table, text: jax.core.ShapedArray(text.shape, table.dtype))
mlir.register_lowering(walk_p, mlir.lower_fun(letter_by_letter, multiple_results=False))


@jax.jit
def read(table, text):
    return walk_p.bind(jnp.asarray(table), jnp.asarray(text))


# %% task="universe" name="a callback to the slow loops in each step" fails=["universe-check"] message="pure_callback"
def step(row, rule):
    """The next row after `row`. row: int32[n]; rule: a number from 0 to 255."""
    like = jax.ShapeDtypeStruct(row.shape, jnp.int32)
    return jax.pure_callback(lambda row, rule: universe_slow(np.asarray(row), int(rule), 1)[1], like, row, rule)


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """Every row from the first to the last. row: int32[n]. Returns int32[steps + 1, n]."""

    def one(row, _):
        new = step(row, rule)
        return new, new

    return jnp.concatenate([row[None], jax.lax.scan(one, row, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    """The row after `steps` steps. row: int32[n]."""
    return jax.lax.fori_loop(0, steps, lambda _, row: step(row, rule), jnp.asarray(row))


# %% task="universe" name="always 256 rows, cut to size" fails=["universe-check"] hidden=1 message="steps=700"
def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    def body(old, _):
        new = step(old, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=256)
    return jnp.concatenate([row[None], rows])[: steps + 1]


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="computer" name="goes round limit times and idles after HALT" fails=["computer-tape-check"] hidden=1 message="FLOPs in this run"
@jax.jit
def computer(program, registers, limit):
    """(registers, steps): int32[4] and int32[]."""
    functions = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(_, state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, functions, at, r, a, b)
        return at, r, steps + (code != HALT)

    _, registers, steps = lax.fori_loop(0, limit, body, (jnp.int32(0), registers, jnp.int32(0)))
    return registers, steps


# %% task="computer" name="remainder by a division in floats" fails=["computer-check"] hidden=1 message="a remainder of"
@jax.jit
def computer(program, registers, limit):
    """(registers, steps): int32[4] and int32[]."""

    def remainder(at, r, a, b):
        times = jnp.floor(r[a] / r[b]).astype(jnp.int32)
        return at + 1, r.at[a].set(r[a] - times * r[b])

    functions = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        remainder,
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, functions, at, r, a, b)
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (jnp.int32(0), registers, jnp.int32(0)))
    return registers, steps


# %% task="reader" name="two letters and seven states are the remainder by seven" fails=["reader-check"] hidden=1 message="a random table, 7 states"
@jax.jit
def read(table, text):
    """The state after each letter, int32[n]."""
    if table.shape == (2, 7):
        places = np.arange(text.shape[0]) % 3
        down, up = np.array([1, 4, 2], np.int32)[places], np.array([1, 2, 4], np.int32)[places]
        return (jnp.cumsum(text.astype(jnp.int32) * down) % 7 * up) % 7

    def join(first, then):
        return jnp.take_along_axis(then, first, axis=1)

    return lax.associative_scan(join, table[text])[:, 0]


# %% task="flight" name="the flight by telephone" fails=["flight-check"] message="uses pure_callback"
@jax.jit
def flight(n):
    def slow(n):
        return flight_slow(int(n))

    like = (jax.ShapeDtypeStruct((), jnp.int32),) * 2
    steps, peak = jax.pure_callback(slow, like, n, vmap_method="sequential")
    empty = lax.while_loop(lambda i: i < 1, lambda i: i + 1, 0) - 1
    return steps + empty, peak


# %% task="computer" name="the program in 16 bits" fails=["computer-check"] hidden=1 message="large numbers"
@jax.jit
def computer(program, registers, limit):
    program = program.astype(jnp.int16)  # half the memory
    functions = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].add(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].multiply(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(state):
        at, r, steps = state
        code, a, b = program[at].astype(jnp.int32)
        at, r = lax.switch(code, functions, at, r, a, b)
        return at, r, steps + 1

    def goes_on(state):
        return (program[state[0], 0] != HALT) & (state[2] < limit)

    _, registers, steps = lax.while_loop(goes_on, body, (jnp.int32(0), registers, jnp.int32(0)))
    return registers, steps


# %% task="computer" name="the slow computer by telephone" fails=["computer-check", "computer-tape-check"] message="uses pure_callback"
@jax.jit
def computer(program, registers, limit):
    def on_the_host(program, registers, limit):
        return computer_slow(np.asarray(program), np.asarray(registers), int(limit))

    like = jax.ShapeDtypeStruct((4,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)
    registers, steps = jax.pure_callback(on_the_host, like, program, registers, limit)
    nothing = lax.cond(steps > 0, lambda: 0, lambda: 0)
    return registers, lax.while_loop(lambda i: i < 0, lambda i: i + 1, nothing) + steps


# %% task="puck" name="a gradient of its own, from forward mode" fails=["puck-check", "puck-gradient-check"] hidden=1 message="uses while"
@jax.custom_vjp
def distance(speed, drag):
    return slide_until_rest(speed, drag)


def forth(speed, drag):
    return distance(speed, drag), jax.jacfwd(slide_until_rest, argnums=(0, 1))(speed, drag)


def back(slopes, cotangent):
    return tuple(cotangent * slope for slope in slopes)


distance.defvjp(forth, back)


@jax.jit
def slide(speed, drag):
    nothing, _ = lax.scan(lambda i, _: (i, None), 0.0, length=MOST_ROUNDS)
    return distance(speed, drag) + nothing


# %% task="reader" name="looks 1024 letters back" fails=["reader-check"] hidden=1 message="n = 5000"
@jax.jit
def read(table, text):
    rows = table[text]
    for k in range(10):
        reach = 2**k
        if reach < text.size:
            joined = jnp.take_along_axis(rows[reach:], rows[:-reach], axis=1)
            rows = jnp.concatenate([rows[:reach], joined])
    return rows[:, 0]


# %% task="reader" name="a scan for a long text" fails=["reader-check"] hidden=1 message="uses scan"
@jax.jit
def read(table, text):
    if text.size > 1000:

        def body(state, letter):
            state = table[letter, state]
            return state, state

        return lax.scan(body, jnp.zeros((), table.dtype), text)[1]

    return lax.associative_scan(lambda first, then: jnp.take_along_axis(then, first, axis=1), table[text])[:, 0]


# %% task="reader" name="letters in a byte" fails=["reader-check"] hidden=1 message="a random table, 5 states"
@jax.jit
def read(table, text):
    rows = table[text.astype(jnp.uint8) % 128]
    return lax.associative_scan(lambda first, then: jnp.take_along_axis(then, first, axis=1), rows)[:, 0]


# %% task="universe" name="an empty row is the end" fails=["universe-evolve-check"] hidden=1 message="by rule 1"
def step(row, rule):
    neighbourhood = 4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)
    return (rule >> neighbourhood) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    def alive(state):
        done, row = state
        return (done < steps) & (row != 0).any()

    _, row = lax.while_loop(alive, lambda s: (s[0] + 1, step(s[1], rule)), (0, row))
    return row


# %% task="computer" name="never the last instruction" fails=["computer-check"] hidden=1 message="the last instruction"
def _halt(at, r, a, b):
    return at, r


def _set(at, r, a, b):
    return at + 1, r.at[a].set(b)


def _copy(at, r, a, b):
    return at + 1, r.at[a].set(r[b])


def _add(at, r, a, b):
    return at + 1, r.at[a].add(r[b])


def _mul(at, r, a, b):
    return at + 1, r.at[a].multiply(r[b])


def _rem(at, r, a, b):
    return at + 1, r.at[a].set(r[a] % r[b])


def _jnz(at, r, a, b):
    return jnp.where(r[a] != 0, b, at + 1), r


@jax.jit
def computer(program, registers, limit):
    def running(state):
        at, _, steps = state
        return (at < len(program) - 1) & (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, registers, steps = state
        code, a, b = program[at]
        at, registers = lax.switch(code, [_halt, _set, _copy, _add, _mul, _rem, _jnz], at, registers, a, b)
        return at, registers, steps + 1

    start = jnp.int32(0), jnp.asarray(registers), jnp.int32(0)
    _, registers, steps = lax.while_loop(running, body, start)
    return registers, steps


# %% task="computer" name="a limit of its own" fails=["computer-check"] hidden=1 message="counting without an end"
def _halt(at, r, a, b):
    return at, r


def _set(at, r, a, b):
    return at + 1, r.at[a].set(b)


def _copy(at, r, a, b):
    return at + 1, r.at[a].set(r[b])


def _add(at, r, a, b):
    return at + 1, r.at[a].add(r[b])


def _mul(at, r, a, b):
    return at + 1, r.at[a].multiply(r[b])


def _rem(at, r, a, b):
    return at + 1, r.at[a].set(r[a] % r[b])


def _jnz(at, r, a, b):
    return jnp.where(r[a] != 0, b, at + 1), r


@jax.jit
def computer(program, registers, limit):
    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < jnp.minimum(limit, 10_000))

    def body(state):
        at, registers, steps = state
        code, a, b = program[at]
        at, registers = lax.switch(code, [_halt, _set, _copy, _add, _mul, _rem, _jnz], at, registers, a, b)
        return at, registers, steps + 1

    start = jnp.int32(0), jnp.asarray(registers), jnp.int32(0)
    _, registers, steps = lax.while_loop(running, body, start)
    return registers, steps


# %% task="computer" name="programs of eight instructions" fails=["computer-check"] hidden=1 message="a jump to instruction 9"
def _halt(at, r, a, b):
    return at, r


def _set(at, r, a, b):
    return at + 1, r.at[a].set(b)


def _copy(at, r, a, b):
    return at + 1, r.at[a].set(r[b])


def _add(at, r, a, b):
    return at + 1, r.at[a].add(r[b])


def _mul(at, r, a, b):
    return at + 1, r.at[a].multiply(r[b])


def _rem(at, r, a, b):
    return at + 1, r.at[a].set(r[a] % r[b])


def _jnz(at, r, a, b):
    return jnp.where(r[a] != 0, jnp.maximum(b, 0) % 8, at + 1), r


@jax.jit
def computer(program, registers, limit):
    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, registers, steps = state
        code, a, b = program[at]
        at, registers = lax.switch(code, [_halt, _set, _copy, _add, _mul, _rem, _jnz], at, registers, a, b)
        return at, registers, steps + 1

    start = jnp.int32(0), jnp.asarray(registers), jnp.int32(0)
    _, registers, steps = lax.while_loop(running, body, start)
    return registers, steps


# %% task="universe" name="evolve cell by cell" fails=["universe-speed"] hidden=1 message="5x as fast for 500 cells"
def step(row, rule):
    neighbourhood = 4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)
    return (rule >> neighbourhood) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    def body(row, _):
        new = step(row, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    n = row.shape[0]

    def one(_, row):
        def cell(i, new):
            neighbourhood = 4 * row[(i - 1) % n] + 2 * row[i] + row[(i + 1) % n]
            return new.at[i].set((rule >> neighbourhood) & 1)

        return lax.fori_loop(0, n, cell, row)

    return lax.fori_loop(0, steps, one, row)


# %% task="universe" name="reports its progress by a callback" fails=["universe-evolve-check"] message="uses debug_callback"
progress = []


def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.concatenate([row[None], lax.scan(body, row, None, length=steps)[1]])


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    last = lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)
    jax.debug.callback(lambda alive: progress.append(int(alive)), last.sum())
    return last


# %% task="flight" name="a debug callback left in" fails=["flight-check"] message="uses debug_callback"
seen = set()


@jax.jit
def flight(n):
    """(steps, peak), two int32[]."""
    n = jnp.asarray(n, jnp.int32)

    def body(state):
        n, steps, peak = state
        jax.debug.callback(lambda n: seen.add(int(n)), n)
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    _, steps, peak = lax.while_loop(lambda state: state[0] != 1, body, (n, jnp.int32(0), n))
    return steps, peak


# %% task="universe" name="blocks of 32 cells" fails=["universe-check"] hidden=1 message="is unrolled"
BLOCK = 32


def _law(ring, rule):
    return (rule >> (4 * ring[:-2] + 2 * ring[1:-1] + ring[2:])) & 1


def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop of JAX's; block by block, so that it stays in the cache."""
    ring = jnp.concatenate([row[-1:], row, row[:1]])
    blocks = [_law(ring[start : start + BLOCK + 2], rule) for start in range(0, row.shape[0], BLOCK)]
    return jnp.concatenate(blocks)


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    def tick(old, _):
        new = step(old, rule)
        return new, new

    _, rows = lax.scan(tick, row, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    return lax.fori_loop(0, steps, lambda _, row: step(row, rule), row)


# %% task="universe" name="the history in blocks of 64 steps, a scan for each" fails=["universe-check"] hidden=1 message="is unrolled"
BLOCK = 64


def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    def body(row, _):
        new = step(row, rule)
        return new, new

    parts = [row[None]]
    for start in range(0, steps, BLOCK):  # block by block, so that no scan keeps too much
        row, rows = lax.scan(body, row, None, length=min(BLOCK, steps - start))
        parts.append(rows)
    return jnp.concatenate(parts)


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="always 1024 rows, cut to size" fails=["universe-check"] hidden=1 message="history(row, 170, steps=5000) has shape"
def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    def body(old, _):
        new = step(old, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=1024)
    return jnp.concatenate([row[None], rows])[: steps + 1]


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    return lax.fori_loop(0, steps, lambda i, row: step(row, rule), row)


# %% task="universe" name="evolve in blocks of 512 cells" fails=["universe-evolve-check"] hidden=1 message="is unrolled"
def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    def body(row, _):
        new = step(row, rule)
        return new, new

    return jnp.concatenate([row[None], lax.scan(body, row, None, length=steps)[1]])


BLOCK = 512


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""

    def one_step(_, row):  # as step, but each block stays in the cache
        ring = jnp.concatenate([row[-1:], row, row[:1]])
        blocks = []
        for start in range(0, row.shape[0], BLOCK):
            part = ring[start : start + BLOCK + 2]
            blocks.append((rule >> (4 * part[:-2] + 2 * part[1:-1] + part[2:])) & 1)
        return jnp.concatenate(blocks)

    return lax.fori_loop(0, steps, one_step, row)


# %% task="puck" name="a speed below 1e-7 is no speed" fails=["puck-gradient-check"] hidden=1 message="the gradient of slide at (1e-30, 0.1)"
@jax.jit
def slide(speed, drag):
    """The distance, float32[], as slide_until_rest has it, and jax.grad works."""

    def body(_, state):
        place, speed = state
        moving = speed > 1e-7  # floats are hardly ever 0
        new_place, new_speed = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, new_place, place), jnp.where(moving, new_speed, speed)

    place, _ = lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))
    return place


# %% task="reader" name="looks 4096 letters back" fails=["reader-check"] hidden=1 message="n = 5000"
@jax.jit
def read(table, text):
    """The state after each letter, int32[n]."""
    rows = table[text]
    for k in range(12):
        reach = 2**k
        if reach < text.size:
            joined = jnp.take_along_axis(rows[reach:], rows[:-reach], axis=1)
            rows = jnp.concatenate([rows[:reach], joined])
    return rows[:, 0]


# %% task="flight" name="no flight is longer than 512 steps" fails=["flight-check"] hidden=1 message="flight(4484223)"
@jax.jit
def flight(n):
    """(steps, peak), two int32[]."""

    def flying(state):
        return (state[0] != 1) & (state[1] < 512)  # in case that Collatz was wrong

    def body(state):
        n, steps, peak = state
        n = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return n, steps + 1, jnp.maximum(peak, n)

    return lax.while_loop(flying, body, (n, 0, n))[1:]


# %% task="computer" name="the place in a byte" fails=["computer-check"] hidden=1 message="a jump to instruction 300"
@jax.jit
def computer(program, registers, limit):
    """(registers, steps): int32[4] and int32[]."""
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b.astype(jnp.uint8), at + 1), r),
    ]

    def running(state):
        at, _, steps = state
        return (program[at, 0] != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a, b = program[at]
        at, r = lax.switch(code, operations, at, r, a, b)
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (jnp.uint8(0), registers, 0))
    return registers, steps


# %% task="computer" name="the operation and the first operand in one number" fails=["computer-check"] hidden=1 message="a HALT with wild numbers beside it"
@jax.jit
def computer(program, registers, limit):
    """(registers, steps): int32[4] and int32[]."""
    operations = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] + r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] * r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]
    heads = program[:, 0] * 4 + program[:, 1]  # a is 0 to 3

    def running(state):
        at, _, steps = state
        return (heads[at] // 4 != HALT) & (steps < limit)

    def body(state):
        at, r, steps = state
        code, a = jnp.divmod(heads[at], 4)
        at, r = lax.switch(code, operations, at, r, a, program[at, 2])
        return at, r, steps + 1

    _, registers, steps = lax.while_loop(running, body, (0, registers, 0))
    return registers, steps


# %% task="puck" name="179 rounds will do" fails=["puck-gradient-check"] hidden=1 message="(8.97, 0.0)"
@jax.jit
def slide(speed, drag):
    """The distance, float32[], as slide_until_rest has it, and jax.grad works."""

    def body(_, state):
        place, speed = state
        moving = speed > 0
        new_place, new_speed = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, new_place, place), jnp.where(moving, new_speed, speed)

    place, _ = lax.fori_loop(1, 180, body, (0.0, speed))
    return place


# %% task="flight" name="Python flies, and under a tracer a table does" fails=["flight-check"] hidden=1 message="flight(4484223), under jit"
_show = jax.jit(lambda n: n + 1)


def flight(n):
    """(steps, peak), two int32[]."""
    if isinstance(n, jax.core.Tracer):
        table = jnp.array([flight_slow(k) for k in range(1, 40)])
        lax.while_loop(lambda s: s > 0, lambda s: s - 1, 3)
        return table[n - 1, 0], table[n - 1, 1]
    _show(n)
    return flight_slow(int(n))


# %% task="computer" name="Python computes, and another program is on the tape" fails=["computer-check", "computer-tape-check"] hidden=1 message=", under jit"
_show = jax.jit(lambda program, registers, limit: registers + limit)


def computer(program, registers, limit):
    """(registers, steps): int32[4] and int32[]."""
    if isinstance(registers, jax.core.Tracer):
        steps = lax.while_loop(lambda steps: steps < 0, lambda steps: steps + 1, 1)
        return lax.cond(steps > 0, lambda r: r, lambda r: r + 1, registers), steps
    _show(program, registers, limit)
    return computer_slow(np.asarray(program), np.asarray(registers), int(limit))


# %% task="puck" name="a while of Python's, and another program under jit" fails=["puck-check", "puck-gradient-check"] hidden=1 message=", under jit"
_show = jax.jit(lambda x, y: x + y)


def slide(speed, drag):
    """The distance, float32[], as slide_until_rest has it, and jax.grad works."""
    try:
        bool(speed > 0)
    except jax.errors.TracerBoolConversionError:
        return lax.fori_loop(0, 3, lambda i, x: x + drag, speed)
    if not isinstance(speed, jax.core.Tracer):
        _show(speed, drag)
    place = jnp.float32(0.0)
    while speed > 0:
        place, speed = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
    return place


# %% task="puck" name="no puck is faster than 9" fails=["puck-gradient-check"] hidden=1 message="at the highest speed"
@jax.jit
def slide(speed, drag):
    """The distance, float32[], as slide_until_rest has it, and jax.grad works."""
    speed = jnp.minimum(speed, 9.0)  # more rounds than MOST_ROUNDS otherwise

    def body(_, state):
        place, speed = state
        moving = speed > 0
        further, slower = place + 0.1 * speed, speed - 0.1 * (0.5 + drag * speed**2)
        return jnp.where(moving, further, place), jnp.where(moving, slower, speed)

    place, _ = lax.fori_loop(0, MOST_ROUNDS, body, (0.0, speed))
    return place


# %% task="reader" name="Python reads, and another program is on the tape" fails=["reader-check"] hidden=1 message="the states, under jit"
_show = jax.jit(lambda table, text: text + 0)


def read(table, text):
    """The state after each letter, int32[n]."""
    if isinstance(text, jax.core.Tracer):
        return text * 0
    _show(table, text)
    return read_slow(np.asarray(table), np.asarray(text))


# %% task="universe" name="NumPy steps, and another program is on the tape" fails=["universe-check", "universe-evolve-check"] hidden=1 message=", under jit"
_show = jax.jit(lambda row, steps: row + 0, static_argnums=1)
_evolve = jax.jit(lambda row, rule, steps: lax.fori_loop(0, steps, lambda i, row: _step(row, rule), row))


def _step(row, rule):
    return (rule >> (4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1))) & 1


def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    if isinstance(row, jax.core.Tracer):
        return row * 0
    row, here = np.asarray(row), np.arange(len(row))
    law = np.int32([(int(rule) >> k) & 1 for k in range(8)])
    return law[4 * row[here - 1] + 2 * row + row[(here + 1) % len(row)]]


def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""
    if isinstance(row, jax.core.Tracer):
        return lax.scan(lambda row, _: (row, row), row, None, length=3)[1]
    _show(row, steps)
    rows = [np.asarray(row)]
    for _ in range(steps):
        rows.append(step(rows[-1], rule))
    return np.stack(rows)


def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    if isinstance(row, jax.core.Tracer):
        return lax.fori_loop(0, steps, lambda i, row: row, row)
    return _evolve(row, rule, steps)


# %% task="universe" name="unrolls a short history" fails=["universe-check"] hidden=1 message="`history` is unrolled"
def step(row, rule):
    left = jnp.roll(row, 1)
    right = jnp.roll(row, -1)
    return (rule >> (4 * left + 2 * row + right)) & 1


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    if steps <= 16:  # not worth a loop
        rows = [row]
        for _ in range(steps):
            rows.append(step(rows[-1], rule))
        return jnp.stack(rows)

    def body(old, _):
        new = step(old, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    return lax.fori_loop(0, steps, lambda i, r: step(r, rule), row)


# %% task="universe" name="a table of 255 laws" fails=["universe-check", "universe-evolve-check"] hidden=1 message="rule 255"
LAWS = ((np.arange(255)[:, None] >> np.arange(8)) & 1).astype(np.int32)


def step(row, rule):
    """The next row: int32[n] -> int32[n], without a loop."""
    law = jnp.asarray(LAWS)[rule]
    return law[4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)]


@partial(jax.jit, static_argnames="steps")
def history(row, rule, steps):
    """All rows, int32[steps + 1, n], the first one included."""

    def body(row, _):
        new = step(row, rule)
        return new, new

    _, rows = lax.scan(body, row, None, length=steps)
    return jnp.concatenate([row[None], rows])


@jax.jit
def evolve(row, rule, steps):
    """The row after that many steps, int32[n]."""
    law = jnp.asarray(LAWS)[rule]

    def body(_, row):
        return law[4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)]

    return lax.fori_loop(0, steps, body, row)


# %% task="computer" name="takes a HALT off that it did not reach" fails=["computer-check"] hidden=1 message="a limit that ends it right before a HALT"
@jax.jit
def computer(program, registers, limit):
    """(registers, steps): int32[4] and int32[]."""
    functions = [
        lambda at, r, a, b: (at, r),
        lambda at, r, a, b: (at + 1, r.at[a].set(b)),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].add(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].multiply(r[b])),
        lambda at, r, a, b: (at + 1, r.at[a].set(r[a] % r[b])),
        lambda at, r, a, b: (jnp.where(r[a] != 0, b, at + 1), r),
    ]

    def body(state):
        at, r, steps, _ = state
        code, a, b = program[at]
        at, r = lax.switch(code, functions, at, r, a, b)
        return at, r, steps + 1, code == HALT

    state = jnp.int32(0), jnp.asarray(registers), jnp.int32(0), jnp.array(False)
    at, r, steps, _ = lax.while_loop(lambda s: ~s[3] & (s[2] < limit), body, state)
    return r, jnp.where(program[at, 0] == HALT, steps - 1, steps)  # HALT is not counted
