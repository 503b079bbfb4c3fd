# %% [markdown]
# Wrong answers for unit 08. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="order" name="reads the sentences from the left, as the post did" fails=["order-sizes"] message="how many does grad want"
def oracle_sizes():
    return {
        "jit(grad(grad(vmap(f))))(xs)": 3,
        "jit(vmap(grad(grad(f))))(xs)": 3,
        "vmap(grad(f))(2.0)": 1,
        "jacrev(vmap(f))(xs)": 3,
        "grad(grad(g))(xs)": 3,
        "jacfwd(grad(g))(xs)": 9,
        "vmap(hessian(g))(table)": 45,
        "grad(lambda v: vmap(f)(v).sum())(xs)": 3,
    }


def oracle_if():
    return {
        "grad(branch)(2.0)": True,
        "jit(grad(branch))(2.0)": False,
        "grad(jit(branch))(2.0)": False,
        "grad(grad(branch))(2.0)": True,
        "vmap(branch)(xs)": False,
        "vmap(grad(branch))(xs)": False,
        "hessian(branch)(2.0)": True,
        "grad(jax.checkpoint(branch))(2.0)": False,
    }


def oracle_runs():
    return {
        "grad(f)": 5,
        "jit(grad(f))": 1,
        "grad(jit(f))": 1,
        "grad(grad(f))": 5,
        "grad(grad(jit(f)))": 1,
        "hessian(f)": 5,
        "lambda x: jit(f)(x)": 1,
        "lambda x: jit(grad(f))(x)": 5,
    }


# %% task="order" name="every transformation hides the value" fails=["order-if"] message="grad traces with the value at hand"
def oracle_if():
    return {
        "grad(branch)(2.0)": False,
        "jit(grad(branch))(2.0)": False,
        "grad(jit(branch))(2.0)": False,
        "grad(grad(branch))(2.0)": False,
        "vmap(branch)(xs)": False,
        "vmap(grad(branch))(xs)": False,
        "hessian(branch)(2.0)": False,
        "grad(jax.checkpoint(branch))(2.0)": False,
    }


def oracle_sizes():
    return {
        "jit(grad(grad(vmap(f))))(xs)": 0,
        "jit(vmap(grad(grad(f))))(xs)": 3,
        "vmap(grad(f))(2.0)": 0,
        "jacrev(vmap(f))(xs)": 9,
        "grad(grad(g))(xs)": 0,
        "jacfwd(grad(g))(xs)": 9,
        "vmap(hessian(g))(table)": 45,
        "grad(lambda v: vmap(f)(v).sum())(xs)": 3,
    }


def oracle_runs():
    return {
        "grad(f)": 5,
        "jit(grad(f))": 1,
        "grad(jit(f))": 1,
        "grad(grad(f))": 5,
        "grad(grad(jit(f)))": 1,
        "hessian(f)": 5,
        "lambda x: jit(f)(x)": 1,
        "lambda x: jit(grad(f))(x)": 5,
    }


# %% task="order" name="grad outside of jit or vmap saves the if" fails=["order-if"] message="whoever stands around it"
def oracle_if():
    return {
        "grad(branch)(2.0)": True,
        "jit(grad(branch))(2.0)": True,
        "grad(jit(branch))(2.0)": True,
        "grad(grad(branch))(2.0)": True,
        "vmap(branch)(xs)": False,
        "vmap(grad(branch))(xs)": True,
        "hessian(branch)(2.0)": True,
        "grad(jax.checkpoint(branch))(2.0)": True,
    }


def oracle_sizes():
    return {
        "jit(grad(grad(vmap(f))))(xs)": 0,
        "jit(vmap(grad(grad(f))))(xs)": 3,
        "vmap(grad(f))(2.0)": 0,
        "jacrev(vmap(f))(xs)": 9,
        "grad(grad(g))(xs)": 0,
        "jacfwd(grad(g))(xs)": 9,
        "vmap(hessian(g))(table)": 45,
        "grad(lambda v: vmap(f)(v).sum())(xs)": 3,
    }


def oracle_runs():
    return {
        "grad(f)": 5,
        "jit(grad(f))": 1,
        "grad(jit(f))": 1,
        "grad(grad(f))": 5,
        "grad(grad(jit(f)))": 1,
        "hessian(f)": 5,
        "lambda x: jit(f)(x)": 1,
        "lambda x: jit(grad(f))(x)": 5,
    }


# %% task="order" name="grad does no tracing" fails=["order-runs"] message="grad keeps nothing from one call to the next"
def oracle_runs():
    return {
        "grad(f)": 1,
        "jit(grad(f))": 1,
        "grad(jit(f))": 1,
        "grad(grad(f))": 1,
        "grad(grad(jit(f)))": 1,
        "hessian(f)": 1,
        "lambda x: jit(f)(x)": 1,
        "lambda x: jit(grad(f))(x)": 1,
    }


def oracle_sizes():
    return {
        "jit(grad(grad(vmap(f))))(xs)": 0,
        "jit(vmap(grad(grad(f))))(xs)": 3,
        "vmap(grad(f))(2.0)": 0,
        "jacrev(vmap(f))(xs)": 9,
        "grad(grad(g))(xs)": 0,
        "jacfwd(grad(g))(xs)": 9,
        "vmap(hessian(g))(table)": 45,
        "grad(lambda v: vmap(f)(v).sum())(xs)": 3,
    }


def oracle_if():
    return {
        "grad(branch)(2.0)": True,
        "jit(grad(branch))(2.0)": False,
        "grad(jit(branch))(2.0)": False,
        "grad(grad(branch))(2.0)": True,
        "vmap(branch)(xs)": False,
        "vmap(grad(branch))(xs)": False,
        "hessian(branch)(2.0)": True,
        "grad(jax.checkpoint(branch))(2.0)": False,
    }


# %% task="order" name="each grad runs the body once more, each jit is new" fails=["order-runs"] message="pass through one run"
def oracle_runs():
    return {
        "grad(f)": 5,
        "jit(grad(f))": 1,
        "grad(jit(f))": 5,
        "grad(grad(f))": 10,
        "grad(grad(jit(f)))": 10,
        "hessian(f)": 10,
        "lambda x: jit(f)(x)": 5,
        "lambda x: jit(grad(f))(x)": 5,
    }


def oracle_sizes():
    return {
        "jit(grad(grad(vmap(f))))(xs)": 0,
        "jit(vmap(grad(grad(f))))(xs)": 3,
        "vmap(grad(f))(2.0)": 0,
        "jacrev(vmap(f))(xs)": 9,
        "grad(grad(g))(xs)": 0,
        "jacfwd(grad(g))(xs)": 9,
        "vmap(hessian(g))(table)": 45,
        "grad(lambda v: vmap(f)(v).sum())(xs)": 3,
    }


def oracle_if():
    return {
        "grad(branch)(2.0)": True,
        "jit(grad(branch))(2.0)": False,
        "grad(jit(branch))(2.0)": False,
        "grad(grad(branch))(2.0)": True,
        "vmap(branch)(xs)": False,
        "vmap(grad(branch))(xs)": False,
        "hessian(branch)(2.0)": True,
        "grad(jax.checkpoint(branch))(2.0)": False,
    }


# %% task="order" name="sizes measured instead" fails=["order-sizes"] message="oracle_sizes uses numbers_back, which does not exist where it is run"
def oracle_sizes():
    return {sentence: numbers_back(run) for sentence, run in SIZES.items()}


# %% task="order" name="ifs measured instead" fails=["order-if"] message="oracle_if uses accepted, which does not exist where it is run"
def oracle_if():
    return {sentence: accepted(run) for sentence, run in WITH_IF.items()}


# %% task="order" name="runs measured instead" fails=["order-runs"] message="oracle_runs uses body_runs, which does not exist where it is run"
def oracle_runs():
    return {sentence: body_runs(make) for sentence, make in RUNS.items()}


# %% task="tower" name="the order of the post" fails=["tower-check"] message="Gradient only defined for scalar-output functions"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    rows, batched = [], jax.vmap(f)
    for _ in range(order + 1):
        rows.append(batched(xs))
        batched = jax.grad(batched)
    return jnp.stack(rows)


# %% task="tower" name="no jit" fails=["tower-check"] message="put jax.jit around the outside"
def tower(f, xs, order):
    rows = []
    for _ in range(order + 1):
        rows.append(jax.vmap(f)(xs))
        f = jax.grad(f)
    return jnp.stack(rows)


# %% task="tower" name="a Python loop over the batch" fails=["tower-check"] message="`tower` is unrolled"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    rows = []
    for _ in range(order + 1):
        rows.append(jnp.stack([f(x) for x in xs]))
        f = jax.grad(f)
    return jnp.stack(rows)


# %% task="tower" name="lax.map over the batch" fails=["tower-check"] message="uses scan"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    rows = []
    for _ in range(order + 1):
        rows.append(jax.lax.map(f, xs))
        f = jax.grad(f)
    return jnp.stack(rows)


# %% task="tower" name="a row for each point" fails=["tower-check"] message="the axes are in another order"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    rows = []
    for _ in range(order + 1):
        rows.append(jax.vmap(f)(xs))
        f = jax.grad(f)
    return jnp.stack(rows, axis=1) if len(xs) > 1 else jnp.stack(rows)


# %% task="tape" name="replaces a cotangent instead of adding to it" fails=["tape-backward"] message="one name, both operands"
def tape_grad(tape, args):
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    (result,) = tape.jaxpr.outvars
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        arriving = cotangent.get(eqn.outvars[0], 0.0)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                cotangent[operand] = arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]


def tape_jvp(tape, primals, tangents):
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial * rate for partial, rate in zip(partials, rates, strict=True))
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
    return read(tape.jaxpr.outvars[0])


# %% task="tape" name="goes back in the order of the way out" fails=["tape-backward"] message="a chain"
def tape_grad(tape, args):
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    (result,) = tape.jaxpr.outvars
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in tape.jaxpr.eqns:
        arriving = cotangent.get(eqn.outvars[0], 0.0)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                cotangent[operand] = cotangent.get(operand, 0.0) + arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]


def tape_jvp(tape, primals, tangents):
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial * rate for partial, rate in zip(partials, rates, strict=True))
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
    return read(tape.jaxpr.outvars[0])


# %% task="tape" name="one forward walk for each input" fails=["tape-backward"] message="expected at most"
def tape_jvp(tape, primals, tangents):
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial * rate for partial, rate in zip(partials, rates, strict=True))
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
    return read(tape.jaxpr.outvars[0])


def tape_grad(tape, args):
    directions = np.eye(len(args))
    return [tape_jvp(tape, args, [float(d) for d in direction])[1] for direction in directions]


# %% task="tape" name="leaves the rules to JAX" fails=["tape-forward", "tape-backward"] message="by the rule for floor in PARTIALS"
def tape_jvp(tape, primals, tangents):
    return jax.jvp(lambda *args: run_tape(tape, args), tuple(primals), tuple(tangents))


def tape_grad(tape, args):
    return list(jax.grad(lambda *args: run_tape(tape, args), tuple(range(len(args))))(*args))


# %% task="tape" name="forgets that both operands may move" fails=["tape-forward"] message="one name, both operands"
def tape_jvp(tape, primals, tangents):
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), partials[0] * rates[0]
    return read(tape.jaxpr.outvars[0])


def tape_grad(tape, args):
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)

    (result,) = tape.jaxpr.outvars
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue  # the result does not depend on it
        arriving = cotangent[eqn.outvars[0]]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                cotangent[operand] = cotangent.get(operand, 0.0) + arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]


# %% task="newton" name="makes the Hessian" fails=["newton-hvp", "newton-check"] message="2000,2000]"
def hvp(loss, x, v):
    return jax.hessian(loss)(x) @ v


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        return x - jnp.linalg.solve(jax.hessian(loss)(x), jax.grad(loss)(x))

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="one row of the Hessian after the other" fails=["newton-hvp"] message="FLOPs: expected at most"
def hvp(loss, x, v):
    def row(i):
        unit = jnp.zeros_like(x).at[i].set(1.0)
        return jax.jvp(jax.grad(loss), (x,), (unit,))[1] @ v

    return jax.lax.map(row, jnp.arange(x.size))


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        return x - jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))[0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="the first derivative along v, not the second" fails=["newton-hvp"] message="hvp has shape"
def hvp(loss, x, v):
    return jax.jvp(loss, (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    return x


# %% task="newton" name="a gradient descent" fails=["newton-check"] message="a single step of Newton"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    return jax.lax.fori_loop(0, 100 * steps, lambda _, x: x - 0.01 * jax.grad(loss)(x), x)


# %% task="newton" name="unrolls the steps" fails=["newton-check"] message="`newton` is unrolled"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    for _ in range(steps):
        x = x - jax.scipy.sparse.linalg.cg(lambda v, x=x: hvp(loss, x, v), jax.grad(loss)(x))[0]
    return x


# %% task="newton" name="jits the step and not the loop" fails=["newton-check"] message="same arguments, but a new function object"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


def newton(loss, x, steps):
    def step(_, x):
        return x - jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))[0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="cures" name="one where, after the sqrt" fails=["cures-springs"] message="the gradient of spring_energy"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    distance = jnp.sqrt(squared)
    return jnp.sum(jnp.where(jnp.tri(len(points), k=-1) > 0, (distance - 1) ** 2, 0.0))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="nan_to_num on the energy" fails=["cures-springs"] message="got nan"
def spring_energy(points):
    distance = jnp.linalg.norm(points[:, None] - points, axis=-1)
    return jnp.nan_to_num(jnp.sum(jnp.tril((distance - 1) ** 2, -1)))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="only the diagonal is safe" fails=["cures-springs"] message="the gradient with twins"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    pairs = jnp.tri(len(points), k=-1) > 0
    distance = jnp.sqrt(jnp.where(pairs, squared, 1.0))
    return jnp.sum(jnp.where(pairs, (distance - 1) ** 2, 0.0))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="counts each pair twice" fails=["cures-springs"] message="spring_energy: got"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 1.0)
    return jnp.sum((distance - 1) ** 2)


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="no rule at all" fails=["cures-kepler"] message="Reverse-mode differentiation does not work for lax.while_loop"
def kepler(M, e):
    return solve_kepler(M, e)


def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


# %% task="cures" name="the rule calls the bare solver" fails=["cures-kepler"] message="Reverse-mode differentiation does not work for lax.while_loop"
@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = solve_kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


# %% task="cures" name="forgets that e may change" fails=["cures-kepler"] message="dE/de"
@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, _) = primals, tangents
    E = kepler(M, e)
    return E, dM / (1 - e * jnp.cos(E))


def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


# %% task="cures" name="custom_vjp, so only one mode" fails=["cures-kepler"] message="to a custom_vjp function"
@jax.custom_vjp
def kepler(M, e):
    return solve_kepler(M, e)


def kepler_out(M, e):
    E = kepler(M, e)
    return E, (E, e)


def kepler_back(kept, arriving):
    E, e = kept
    dM = arriving / (1 - e * jnp.cos(E))
    return dM, dM * jnp.sin(E)


kepler.defvjp(kepler_out, kepler_back)


def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


# %% task="cures" name="differentiates a fixed number of rounds instead" fails=["cures-kepler"] message="while 0 times: expected 1"
def kepler(M, e):
    E = M + e * jnp.sign(jnp.sin(M))
    for _ in range(12):
        E = E - (E - e * jnp.sin(E) - M) / (1 - e * jnp.cos(E))
    return E


def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


# %% task="diet" name="changes nothing" fails=["diet-check"] message="what is alive while one piece is run again"
def simulate_lean(step, u, length):
    return simulate(step, u, length)


# %% task="diet" name="one checkpoint around everything" fails=["diet-check"] message="what is alive while one piece is run again"
def simulate_lean(step, u, length):
    return jax.checkpoint(lambda u: simulate(step, u, length))(u)


# %% task="diet" name="a checkpoint around each step" fails=["diet-check"] message="what is alive while one piece is run again"
def simulate_lean(step, u, length):
    return simulate(jax.checkpoint(step), u, length)


# %% task="diet" name="a checkpoint in a checkpoint" fails=["diet-check"] message="a checkpoint inside a checkpoint does that"
def simulate_lean(step, u, length):
    k = math.isqrt(length)
    return simulate(jax.checkpoint(lambda u: simulate(jax.checkpoint(step), u, k)), u, k)


# %% task="diet" name="blocks, unrolled" fails=["diet-check"] message="`<lambda>`"
def simulate_lean(step, u, length):
    k = math.isqrt(length)

    def block(u):
        for _ in range(k):
            u = step(u)
        return u

    for _ in range(k):
        u = jax.checkpoint(block)(u)
    return u


# %% task="diet" name="stops the gradient" fails=["diet-check"] message="the gradient"
def simulate_lean(step, u, length):
    return u + jax.lax.stop_gradient(simulate(step, u, length) - u)


# %% task="minijit-grad" name="the last slope wins" fails=["minijit-grad-check"] message="what is used twice gets both slopes"
def pull_sum(slope, x, axis):
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slope
    return slopes


# %% task="minijit-grad" name="NumPy broadcasts the slope of a sum anyway" fails=["minijit-grad-check"] message="a sum along axis 1"
def pull_sum(slope, x, axis):
    return slope


def pull_spread(slope, axis):
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="minijit-grad" name="a copy passes its slope on as it is" fails=["minijit-grad-check"] message="the slopes of its copies add up"
def pull_sum(slope, x, axis):
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    return slope


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="minijit-grad" name="the way back is for arrays alone" fails=["minijit-grad-compose"] message="let bind apply sum and spread"
def pull_sum(slope, x, axis):
    return np.repeat(np.expand_dims(slope, axis), x.shape[axis], axis)


def pull_spread(slope, axis):
    return np.add.reduce(slope, axis)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes
