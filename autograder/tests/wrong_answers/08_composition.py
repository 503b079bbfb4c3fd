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


# %% task="tower" name="knows the derivatives of x^3 + 2x by heart" fails=["tower-check"] hidden=1 message="the tower of"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    return jnp.stack([xs**3 + 2 * xs, 3 * xs**2 + 2, 6 * xs, 6 + 0 * xs, 0 * xs])[: order + 1]


# %% task="tower" name="a row too few" fails=["tower-check"] message="shape"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    rows = []
    for _ in range(order):
        rows.append(jax.vmap(f)(xs))
        f = jax.grad(f)
    return jnp.stack(rows)


# %% task="tower" name="the values are forgotten" fails=["tower-check"] message="the three derivatives at 2"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    rows = []
    for _ in range(order + 1):
        f = jax.grad(f)
        rows.append(jax.vmap(f)(xs))
    return jnp.stack(rows)


# %% task="tower" name="differences, not derivatives" fails=["tower-check"] message="three derivatives at 2"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    def slope(f):
        return lambda x: (f(x + 1e-2) - f(x - 1e-2)) / 2e-2

    rows = []
    for _ in range(order + 1):
        rows.append(jax.vmap(f)(xs))
        f = slope(f)
    return jnp.stack(rows)


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


# %% task="tape" name="the last equation makes the result" fails=["tape-forward", "tape-backward"] hidden=1 message="the last equation is not the result"
def tape_jvp(tape, primals, tangents):
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial * rate for partial, rate in zip(partials, rates, strict=True))
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
    return read(tape.jaxpr.eqns[-1].outvars[0] if tape.jaxpr.eqns else tape.jaxpr.outvars[0])


def tape_grad(tape, args):
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    result = tape.jaxpr.eqns[-1].outvars[0] if tape.jaxpr.eqns else tape.jaxpr.outvars[0]
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue
        arriving = cotangent[eqn.outvars[0]]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                cotangent[operand] = cotangent.get(operand, 0.0) + arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]


# %% task="tape" name="a tangent of zero is skipped by an if" fails=["tape-forward"] hidden=1 message="TracerBoolConversionError"
def tape_jvp(tape, primals, tangents):
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial * rate for partial, rate in zip(partials, rates, strict=True) if rate)
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
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
            continue
        arriving = cotangent[eqn.outvars[0]]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                cotangent[operand] = cotangent.get(operand, 0.0) + arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]


# %% task="tape" name="literals get mail, too" fails=["tape-backward"] message="unhashable"
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
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    (result,) = tape.jaxpr.outvars
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue
        arriving = cotangent[eqn.outvars[0]]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if True:
                cotangent[operand] = cotangent.get(operand, 0.0) + arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]


# %% task="tape" name="the slope of a value that is not read counts" fails=["tape-forward"] message="tape_jvp"
def tape_jvp(tape, primals, tangents):
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial + rate for partial, rate in zip(partials, rates, strict=True))
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
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
            continue
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


# %% task="newton" name="the Hessian of the rope, by hand" fails=["newton-hvp"] hidden=1 message="hvp of a quartic"
def hvp(loss, x, v):
    middle = 2 * jnp.sin(jnp.linspace(0, 9, x.size))
    left, right = jnp.roll(v, 1).at[0].set(v[0]), jnp.roll(v, -1).at[-1].set(v[-1])
    return jnp.cosh(x - middle) * v + 20 * (2 * v - left - right)


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        towards, _ = jax.scipy.sparse.linalg.cg(lambda v: jax.jvp(jax.grad(loss), (x,), (v,))[1], jax.grad(loss)(x))
        return x - towards

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="always starts at 2" fails=["newton-check"] hidden=1 message="another single step"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        towards, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - towards

    return jax.lax.fori_loop(0, steps, step, jnp.full_like(x, 2.0))


# %% task="newton" name="solves for this loss only" fails=["newton-check"] hidden=1 message="the bottom of a bowl"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        towards, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(rope_energy, x, v), jax.grad(rope_energy)(x))
        return x - towards

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="up the hill" fails=["newton-check"] message="the rope"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        towards, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x + towards

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="one step too many" fails=["newton-check"] message="a single step of Newton"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        towards, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - towards

    return jax.lax.fori_loop(0, steps + 1, step, x)


# %% task="newton" name="all rows of the Hessian at once" fails=["newton-speed"] message="1500,1500]"
def hvp(loss, x, v):
    return jax.jacrev(jax.grad(loss))(x) @ v


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        return x - jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))[0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="one row of the Hessian after the other, by the clock" fails=["newton-speed"] message="below 20x"
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


# %% task="newton" name="each number of the gradient is differentiated by itself" fails=["newton-speed"] message="below 20x"
def hvp(loss, x, v):
    def change(i):
        return jax.grad(lambda x: jax.grad(loss)(x)[i])(x) @ v

    return jax.lax.map(change, jnp.arange(x.size))


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        return x - jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))[0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="adds up the columns of the Hessian, in a loop" fails=["newton-speed"] message="below 20x"
def hvp(loss, x, v):
    def add_column(i, total):
        _, column = jax.jvp(jax.grad(loss), (x,), (jnp.zeros_like(x).at[i].set(v[i]),))
        return total + column

    return jax.lax.fori_loop(0, x.size, add_column, jnp.zeros_like(x))


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        return x - jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))[0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="the product of the rope in NumPy, on the host" fails=["newton-speed"] message="uses pure_callback"
def rope_times(x, v):
    middle = 2 * np.sin(np.linspace(0, 9, x.size))
    moved = 20 * np.diff(v)
    product = np.cosh(x - middle) * v
    product[1:] += moved
    product[:-1] -= moved
    return product.astype(np.float32)


def hvp(loss, x, v):
    return jax.pure_callback(rope_times, jax.ShapeDtypeStruct(x.shape, jnp.float32), x, v)


@jax.jit(static_argnames=("loss", "steps"))
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


# %% task="cures" name="a Python loop over the pairs" fails=["cures-springs"] hidden=1 message="unrolled"
def spring_energy(points):
    energy = 0.0
    for i in range(len(points)):
        for j in range(i):
            squared = ((points[i] - points[j]) ** 2).sum()
            away = squared > 0
            energy += jnp.where(away, (jnp.sqrt(jnp.where(away, squared, 1.0)) - 1) ** 2, 1.0)
    return energy


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="e stands still in the denominator" fails=["cures-kepler"] hidden=1 message="the mixed second derivative"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - jax.lax.stop_gradient(e) * jnp.cos(E))


# %% task="cures" name="the sign of the sine" fails=["cures-kepler"] message="dE/de"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM - jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="a little distance for everybody" fails=["cures-springs"] message="spring_energy: got"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    distance = jnp.sqrt(squared + 1e-2)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="twins have no energy" fails=["cures-springs"] message="spring_energy with twins"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.sqrt(jnp.where(away, squared, 1.0))
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


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


# %% task="diet" name="blocks of a power of two" fails=["diet-check"] hidden=1 message="the gradient of another simulation"
def simulate_lean(step, u, length):
    k = 2 ** (int(math.log2(length)) // 2)

    @jax.checkpoint
    def block(u):
        return simulate(step, u, k)

    return simulate(block, u, length // k)


# %% task="diet" name="k blocks of k - 1 steps" fails=["diet-check"] message="the end"
def simulate_lean(step, u, length):
    k = math.isqrt(length)

    @jax.checkpoint
    def block(u):
        return simulate(step, u, k - 1)

    return simulate(block, u, k)


# %% task="diet" name="two blocks" fails=["diet-check"] message="simulate_lean"
def simulate_lean(step, u, length):
    @jax.checkpoint
    def block(u):
        return simulate(step, u, length // 2)

    return simulate(block, u, 2)


# %% task="diet" name="a checkpoint around each step of each block" fails=["diet-check"] message="simulate_lean"
def simulate_lean(step, u, length):
    k = math.isqrt(length)
    return simulate(lambda u: simulate(jax.checkpoint(step), u, k), u, k)


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


# %% task="minijit-grad" name="by recursion, along every path" fails=["minijit-grad-check"] message="One walk, from the last equation to the first"
def pull_sum(slope, x, axis):
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {}

    def send(name, slope):
        slopes[name] = slopes[name] + slope if name in slopes else slope
        for output, primitive, operands, params in tape.equations:
            if output == name:
                pulled = PULL[primitive](slope, *[read(values, x) for x in operands], **params)
                for x, part in zip(operands, pulled, strict=True):
                    if isinstance(x, str) and part is not None:
                        send(x, part)

    send(tape.output, np.ones((), np.float32))
    return slopes


# %% task="minijit-grad" name="sums along axis 0 only" fails=["minijit-grad-check"] message="a sum along axis 1"
def pull_sum(slope, x, axis):
    return bind("spread", slope, axis=0, size=x.shape[axis])


def pull_spread(slope, axis):
    return bind("sum", slope, axis=0)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for output, primitive, operands, params in reversed(tape.equations):
        if output in slopes:
            pulled = PULL[primitive](slopes[output], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="minijit-grad" name="from the first equation to the last" fails=["minijit-grad-check"] message="minigrad"
def pull_sum(slope, x, axis):
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for output, primitive, operands, params in tape.equations:
        if output in slopes:
            pulled = PULL[primitive](slopes[output], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="tower" name="hands f the whole batch and sums, no vmap" fails=["tower-check"] hidden=1 message="ValueError"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    """Derivatives 0 to `order` of f, a function of one number, at xs: float32[n]. Returns float32[order + 1, n]."""
    rows = [f(xs)]
    for _ in range(order):
        f = jax.grad(lambda v, f=f: f(v).sum())
        rows.append(f(xs))
    return jnp.stack(rows)


# %% task="tower" name="no derivative above the fourth" fails=["tower-check"] hidden=1 message="the sixth derivative"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    """Derivatives 0 to `order` of f, a function of one number, at xs: float32[n]. Returns float32[order + 1, n]."""
    rows = []
    for k in range(order + 1):
        if k > 4:
            rows.append(jnp.zeros_like(xs))
            continue
        rows.append(jax.vmap(f)(xs))
        f = jax.grad(f)
    return jnp.stack(rows)


# %% task="tower" name="vmap for short batches, lax.map for long ones" fails=["tower-check"] hidden=1 message="scan"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    """Derivatives 0 to `order` of f, a function of one number, at xs: float32[n]. Returns float32[order + 1, n]."""
    rows = []
    for _ in range(order + 1):
        rows.append(jax.vmap(f)(xs) if xs.shape[0] <= 16 else jax.lax.map(f, xs))
        f = jax.grad(f)
    return jnp.stack(rows)


# %% task="tape" name="jax.jvp and jax.grad do it, with floor let through" fails=["tape-forward", "tape-backward"] hidden=1 message="another rule for mul"
def run_with_floor(tape, args):
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def look(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        operands = [look(x) for x in eqn.invars]
        if eqn.primitive.name == "floor":
            (x,) = operands
            values[eqn.outvars[0]] = x + jax.lax.stop_gradient(jnp.floor(x) - x)
        else:
            values[eqn.outvars[0]] = eqn.primitive.bind(*operands, **eqn.params)
    return look(tape.jaxpr.outvars[0])


def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    primals, tangents = [jnp.float32(x) for x in primals], [jnp.float32(x) for x in tangents]
    return jax.jvp(lambda *xs: run_with_floor(tape, xs), tuple(primals), tuple(tangents))


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    args = [jnp.float32(x) for x in args]
    return list(jax.grad(lambda *xs: run_with_floor(tape, xs), tuple(range(len(args))))(*args))


# %% task="tape" name="forward mode under vmap, in all directions at once" fails=["tape-backward"] message="my_gradient"
def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    values = dict(zip(tape.jaxpr.invars, primals, strict=True))
    slopes = dict(zip(tape.jaxpr.invars, tangents, strict=True))

    def value(x):
        return x.val if isinstance(x, Literal) else values[x]

    for eqn in tape.jaxpr.eqns:
        operands = [value(x) for x in eqn.invars]
        values[eqn.outvars[0]] = eqn.primitive.bind(*operands, **eqn.params)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *operands)
        terms = [p * slopes[x] for x, p in zip(eqn.invars, partials, strict=False) if not isinstance(x, Literal)]
        slopes[eqn.outvars[0]] = sum(terms[1:], start=terms[0]) if terms else 0.0
    result = tape.jaxpr.outvars[0]
    return value(result), 0.0 if isinstance(result, Literal) else slopes[result]


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    n = len(args)
    if n == 1:
        return [tape_jvp(tape, args, [1.0])[1]]
    directions = np.eye(n, dtype=np.float32)
    slopes = jax.vmap(lambda *tangents: jnp.float32(tape_jvp(tape, args, tangents)[1]))(*directions)
    return [slopes[i] for i in range(n)]


# %% task="tape" name="add and sub put their cotangent there" fails=["tape-backward"] hidden=1 message="sums of one name"
def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    values = dict(zip(tape.jaxpr.invars, primals, strict=True))
    slopes = dict(zip(tape.jaxpr.invars, tangents, strict=True))

    def both(x):
        return (x.val, 0.0) if isinstance(x, Literal) else (values[x], slopes[x])

    for eqn in tape.jaxpr.eqns:
        operands, moves = zip(*map(both, eqn.invars), strict=False)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *operands)
        values[eqn.outvars[0]] = eqn.primitive.bind(*operands, **eqn.params)
        slopes[eqn.outvars[0]] = sum(p * m for p, m in zip(partials, moves, strict=False))
    return both(tape.jaxpr.outvars[0])


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(x):
        return x.val if isinstance(x, Literal) else values[x]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    back = {} if isinstance(tape.jaxpr.outvars[0], Literal) else {tape.jaxpr.outvars[0]: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] in back:
            passes_on = eqn.primitive.name in ("add", "sub")  # sums only hand it through
            partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
            for x, p in zip(eqn.invars, partials, strict=False):
                if not isinstance(x, Literal):
                    signal = back[eqn.outvars[0]] * p
                    back[x] = signal if passes_on else back.get(x, 0.0) + signal
    return [back.get(x, 0.0) for x in tape.jaxpr.invars]


# %% task="newton" name="one step or eight, nothing else" fails=["newton-check"] hidden=1 message="two steps"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def improve(_, x):
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - p

    return jax.lax.fori_loop(0, 1 if steps == 1 else 8, improve, x)  # converged by then anyway


# %% task="cures" name="differentiable twice, and no more" fails=["cures-kepler"] hidden=1 message="Reverse-mode differentiation does not work"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    apart = squared > 0
    distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)
    return jnp.triu((distance - 1) ** 2, 1).sum()


@jax.custom_jvp
def kepler_inside(M, e):
    return solve_kepler(M, e)


@kepler_inside.defjvp
def kepler_inside_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = solve_kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler_inside(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="minijit-grad" name="every name gets a slope, zeros if need be" fails=["minijit-grad-check"] hidden=1 message="names with a slope"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    values = replay(tape, *args)
    slopes = {tape.output: np.ones((), np.float32)} if isinstance(tape.output, str) else {}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return {name: np.zeros(type.shape, np.float32) for name, type in tape.types.items()} | slopes


# %% task="minijit-grad" name="knows two axes" fails=["minijit-grad-check"] hidden=1 message="a sum along axis 2"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    axis = 0 if axis == 0 else 1
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=0 if axis == 0 else 1)


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    values, slopes = replay(tape, *args), {}
    if isinstance(tape.output, str):
        slopes[tape.output] = np.ones((), np.float32)
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=False):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="tower" name="derivatives remembered by the function's name" fails=["tower-check"] hidden=1 message="the tower of 3x"
DERIVATIVES = {}


def _derivative(f, k):
    key = (f.__name__, k)
    if key not in DERIVATIVES:
        DERIVATIVES[key] = f if k == 0 else jax.grad(_derivative(f, k - 1))
    return DERIVATIVES[key]


@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    """Derivatives 0 to `order` of f, a function of one number, at xs: float32[n]. Returns float32[order + 1, n]."""
    return jnp.stack([jax.vmap(_derivative(f, k))(xs) for k in range(order + 1)])


# %% task="tape" name="every cotangent is delivered at once, by recursion" fails=["tape-backward"] hidden=1 message="my_slope"
def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    values = dict(zip(tape.jaxpr.invars, primals, strict=True))
    moving = dict(zip(tape.jaxpr.invars, tangents, strict=True))

    def read(v):
        return v.val if isinstance(v, Literal) else values[v]

    for eqn in tape.jaxpr.eqns:
        operands = [read(v) for v in eqn.invars]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *operands)
        values[eqn.outvars[0]] = eqn.primitive.bind(*operands, **eqn.params)
        moving[eqn.outvars[0]] = sum(
            p * moving[v] for v, p in zip(eqn.invars, partials, strict=False) if not isinstance(v, Literal)
        )
    result = tape.jaxpr.outvars[0]
    return read(result), 0.0 if isinstance(result, Literal) else moving[result]


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    values, maker = dict(zip(tape.jaxpr.invars, args, strict=True)), {}

    def read(v):
        return v.val if isinstance(v, Literal) else values[v]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        maker[eqn.outvars[0]] = eqn
    totals = {}

    def deliver(v, cotangent):
        if isinstance(v, Literal):
            return
        if v not in maker:  # an input
            totals[v] = totals[v] + cotangent if v in totals else cotangent
            return
        eqn = maker[v]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, p in zip(eqn.invars, partials, strict=False):
            deliver(operand, cotangent * p)

    deliver(tape.jaxpr.outvars[0], 1.0)
    return [totals.get(v, 0.0) for v in tape.jaxpr.invars]


# %% task="newton" name="three products give the three diagonals" fails=["newton-check"] hidden=1 message="slanted bowl"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""
    place = jnp.arange(x.size)

    def step(_, x):
        combs = [hvp(loss, x, (place % 3 == k).astype(x.dtype)) for k in range(3)]

        def column(shift):  # H[i, i + shift] for every i
            k = (place + shift) % 3
            return jnp.where(k == 0, combs[0], jnp.where(k == 1, combs[1], combs[2]))

        lower = column(-1).at[0].set(0.0)
        upper = column(1).at[-1].set(0.0)
        gradient = jax.grad(loss)(x)
        p = jax.lax.linalg.tridiagonal_solve(lower, column(0), upper, gradient[:, None])
        return x - p[:, 0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="cures" name="the anomaly is first brought into one revolution" fails=["cures-kepler"] hidden=1 message="two revolutions later"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    away = points[:, None] - points[None, :]
    squared = (away**2).sum(-1)
    apart = squared > 0
    distance = jnp.sqrt(jnp.where(apart, squared, 1.0))
    pairs = jnp.where(apart, (distance - 1) ** 2, 1.0)
    return jnp.triu(pairs, 1).sum()


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    M = jnp.remainder(M + jnp.pi, 2 * jnp.pi) - jnp.pi  # an orbit is periodic
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="the part of e is frozen" fails=["cures-kepler"] hidden=1 message="derivative"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    squared = ((points[:, None] - points[None, :]) ** 2).sum(-1)
    apart = squared > 0
    distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)
    return jnp.triu((distance - 1) ** 2, 1).sum()


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    by_e = jax.lax.stop_gradient(jnp.sin(E))  # a coefficient: E came from a search
    return E, (dM + by_e * de) / (1 - e * jnp.cos(E))


# %% task="minijit-grad" name="slopes are added in place" fails=["minijit-grad-check"] hidden=1 message="several sums"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    values, slopes = replay(tape, *args), {}
    if isinstance(tape.output, str):
        slopes[tape.output] = np.ones((), np.float32)
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=False):
                if isinstance(x, str) and slope is not None:
                    if x in slopes:
                        try:
                            slopes[x] += slope
                        except TypeError:  # a tracer does not fit into an array
                            slopes[x] = slopes[x] + slope
                    else:
                        slopes[x] = slope
    return slopes


# %% task="minijit-grad" name="starts from the last equation" fails=["minijit-grad-check"] hidden=1 message="the result is not the last line"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    values = replay(tape, *args)
    result = tape.equations[-1][0] if tape.equations else tape.output
    slopes = {result: np.ones((), np.float32)}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=False):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="tower" name="numbers in place of inf and nan" fails=["tower-check"] hidden=1 message="the tower of log"
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    """Derivatives 0 to `order` of f, a function of one number, at xs: float32[n]. Returns float32[order + 1, n]."""
    rows = []
    for _ in range(order + 1):
        rows.append(jnp.nan_to_num(jax.vmap(f)(xs)))
        f = jax.grad(f)
    return jnp.stack(rows)


# %% task="tower" name="by jet, which has no rule for a cond" fails=["tower-check"] hidden=1 message="cond"
from jax.experimental.jet import jet


@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    if order == 0:
        return jax.vmap(f)(xs)[None]

    def column(x):
        value, derivatives = jet(f, (x,), ([1.0] + [0.0] * (order - 1),))
        return jnp.stack([value, *derivatives])

    return jax.vmap(column, out_axes=1)(xs)


# %% task="tape" name="tangents by recursion from the result" fails=["tape-forward"] hidden=1 message="RecursionError"
def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    maker = {eqn.outvars[0]: eqn for eqn in tape.jaxpr.eqns}
    known = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def pair(operand):
        if isinstance(operand, Literal):
            return operand.val, 0.0
        if operand not in known:
            eqn = maker[operand]
            operands = [pair(v)[0] for v in eqn.invars]
            partials = PARTIALS[eqn.primitive.name](eqn.params, *operands)
            pairs = zip(eqn.invars, partials, strict=True)
            tangent = sum(p * pair(v)[1] for v, p in pairs if not isinstance(v, Literal))
            known[operand] = eqn.primitive.bind(*operands, **eqn.params), tangent
        return known[operand]

    return pair(tape.jaxpr.outvars[0])


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    result = tape.jaxpr.outvars[0]
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue
        arriving = cotangent[eqn.outvars[0]]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                sent = arriving * partial
                cotangent[operand] = cotangent[operand] + sent if operand in cotangent else sent
    return [cotangent.get(v, 0.0) for v in tape.jaxpr.invars]


# %% task="newton" name="a loop for every 16 steps" fails=["newton-check"] hidden=1 message="`newton` is unrolled"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(_, x):
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - p

    for first in range(0, max(steps, 1), 16):
        x = jax.lax.fori_loop(first, min(first + 16, steps), step, x)
    return x


# %% task="newton" name="divides by the length of v" fails=["newton-hvp"] hidden=1 message="vmap of hvp"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    length = jnp.sqrt(jnp.sum(v * v))
    return length * jax.jvp(jax.grad(loss), (x,), (v / length,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(x, _):
        gradient, times = jax.linearize(jax.grad(loss), x)
        return x - jax.scipy.sparse.linalg.cg(times, gradient)[0], None

    return jax.lax.scan(step, x, length=steps)[0]


# %% task="newton" name="the first step is always made" fails=["newton-check"] hidden=1 message="no step at all"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(_, x):
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - p

    return jax.lax.fori_loop(1, steps, step, step(0, x))


# %% task="newton" name="no node may move far in a step" fails=["newton-check"] hidden=1 message="from far away"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(_, x):
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - jnp.clip(p, -100.0, 100.0)

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="cures" name="near points are taken for one" fails=["cures-springs"] hidden=1 message="jit(vmap(grad(spring_energy)))"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    away = points[:, None] - points[None]
    squared = (away**2).sum(-1)
    apart = squared > 1e-6
    distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)
    return jnp.triu((distance - 1) ** 2, 1).sum()


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="distances by squares and a product of matrices" fails=["cures-springs"] hidden=1 message="spring_energy"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    norms = (points**2).sum(-1)
    squared = norms[:, None] + norms[None] - 2 * points @ points.T
    apart = (points[:, None] != points[None]).any(-1)
    safe = jnp.where(apart, jnp.maximum(squared, 1e-12), 1.0)
    distance = jnp.where(apart, jnp.sqrt(safe), 0.0)
    return jnp.triu((distance - 1) ** 2, 1).sum()


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="asks spring_energy_slow on the host" fails=["cures-springs"] hidden=1 message="pure_callback"
def ask(points):
    shapes = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct(points.shape, jnp.float32)
    return jax.pure_callback(spring_energy_slow, shapes, points, vmap_method="sequential")


@jax.custom_vjp
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    return ask(points)[0]


def spring_back(gradient, slope):
    return (slope * gradient,)


spring_energy.defvjp(ask, spring_back)


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="differentiable three times, and no more" fails=["cures-kepler"] hidden=1 message="Reverse-mode differentiation does not work"
def layer(depth):
    if depth == 0:
        return solve_kepler
    below = layer(depth - 1)

    @jax.custom_jvp
    def known(M, e):
        return solve_kepler(M, e)

    @known.defjvp
    def rule(primals, tangents):
        (M, e), (dM, de) = primals, tangents
        E = below(M, e)
        return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))

    return known


solved = layer(2)


def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    away = points[:, None] - points[None]
    squared = (away**2).sum(-1)
    apart = squared > 0
    distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)
    return jnp.triu((distance - 1) ** 2, 1).sum()


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = solved(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="diet" name="blocks remembered by their length" fails=["diet-check"] hidden=1 message="the end of another simulation"
BLOCKS = {}


def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    k = math.isqrt(length)
    block = BLOCKS.setdefault(length, jax.checkpoint(lambda u: simulate(step, u, k)))
    return jax.lax.scan(lambda u, _: (block(u), None), u, length=k)[0]


# %% task="diet" name="a scan for every eight blocks" fails=["diet-check"] hidden=1 message="is unrolled"
def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    k = math.isqrt(length)
    block = jax.checkpoint(lambda u: simulate(step, u, k))
    for first in range(0, k, 8):
        u = jax.lax.scan(lambda u, _: (block(u), None), u, length=min(8, k - first))[0]
    return u


# %% task="diet" name="no block of more than eight steps" fails=["diet-check"] hidden=1 message="simulate_lean"
def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    size = max(d for d in range(1, min(math.isqrt(length), 8) + 1) if length % d == 0)
    block = jax.checkpoint(lambda u: simulate(step, u, size))
    return jax.lax.scan(lambda u, _: (block(u), None), u, length=length // size)[0]


# %% task="minijit-grad" name="takes the equations off the tape" fails=["minijit-grad-check"] hidden=1 message="the dtypes of the slopes"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    values = replay(tape, *args)
    slopes = {tape.output: np.ones((), np.float32)} if isinstance(tape.output, str) else {}
    while tape.equations:
        name, primitive, operands, params = tape.equations.pop()
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="minijit-grad" name="a replay of its own, which lifts nothing" fails=["minijit-grad-check"] hidden=1 message="the dtypes of the slopes"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    values = dict(zip(tape.inputs, args, strict=True))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    slopes = {tape.output: np.ones((), np.float32)} if isinstance(tape.output, str) else {}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="tape" name="cotangents asked for recursively" fails=["tape-backward"] hidden=1 message="4000 equations"
def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    values = dict(zip(tape.jaxpr.invars, primals, strict=True))
    moves = dict(zip(tape.jaxpr.invars, tangents, strict=True))

    def read(v):
        return v.val if isinstance(v, Literal) else values[v]

    def move(v):
        return 0.0 if isinstance(v, Literal) else moves[v]

    for eqn in tape.jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *given)
        values[eqn.outvars[0]] = eqn.primitive.bind(*given, **eqn.params)
        moves[eqn.outvars[0]] = sum(p * move(v) for p, v in zip(partials, eqn.invars, strict=True))
    result = tape.jaxpr.outvars[0]
    return read(result), move(result)


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(v):
        return v.val if isinstance(v, Literal) else values[v]

    users = {}
    for eqn in tape.jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        values[eqn.outvars[0]] = eqn.primitive.bind(*given, **eqn.params)
        for v, partial in zip(eqn.invars, PARTIALS[eqn.primitive.name](eqn.params, *given), strict=True):
            if not isinstance(v, Literal):
                users.setdefault(v, []).append((eqn.outvars[0], partial))
    result, known = tape.jaxpr.outvars[0], {}

    def cotangent(v):
        if v not in known:
            total = 1.0 if v is result else 0.0
            for out, partial in users.get(v, []):
                total = total + cotangent(out) * partial
            known[v] = total
        return known[v]

    return [cotangent(v) for v in tape.jaxpr.invars]


# %% task="newton" name="stops when the gradient is small" fails=["newton-check"] hidden=1 message="flat bowl"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def unfinished(state):
        k, x = state
        return (k < steps) & (jnp.abs(jax.grad(loss)(x)).max() > 1e-2)

    def step(state):
        k, x = state
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return k + 1, x - p

    return jax.lax.while_loop(unfinished, step, (0, jnp.asarray(x)))[1]


# %% task="newton" name="the difference of two gradients" fails=["newton-hvp"] hidden=1 message="hvp of a quartic"
def hvp(loss, x, v):
    return (jax.grad(loss)(x + 0.005 * v) - jax.grad(loss)(x - 0.005 * v)) / 0.01


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(x, _):
        gradient, times = jax.linearize(jax.grad(loss), x)
        return x - jax.scipy.sparse.linalg.cg(times, gradient)[0], None

    return jax.lax.scan(step, x, length=steps)[0]


# %% task="cures" name="denominator kept away from zero" fails=["cures-kepler"] hidden=1 message="the slopes of kepler"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    squared = ((points[:, None] - points[None, :]) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.triu((distance - 1) ** 2, k=1).sum()


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / jnp.maximum(1 - e * jnp.cos(E), 0.1)


# %% task="minijit-grad" name="first axis or last axis" fails=["minijit-grad-check"] hidden=1 message="axis 1 of three"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    place = 0 if axis == 0 else len(x.shape) - 1
    return bind("spread", slope, axis=place, size=x.shape[place])


def pull_spread(slope, axis):
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            given = [read(values, x) for x in operands]
            pulled = PULL[primitive](slopes[name], *given, **params)
            for x, slope in zip(operands, pulled):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="minijit-grad" name="zeros through dead code" fails=["minijit-grad-check"] hidden=1 message="whose value is infinite"
def pull_sum(slope, x, axis):
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for name, primitive, operands, params in reversed(tape.equations):
        arriving = slopes.get(name, np.zeros(tape.types[name].shape, np.float32))
        given = [read(values, x) for x in operands]
        for x, slope in zip(operands, PULL[primitive](arriving, *given, **params)):
            if isinstance(x, str) and slope is not None:
                slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="diet" name="eats where nobody looks" fails=["diet-check"] message="uses pure_callback"
def simulate_lean(step, u, length):
    @jax.custom_vjp
    def run(u):
        return simulate(step, u, length)

    def out(u):
        return run(u), u

    def back(u, change):
        def fat(u, change):
            _, pull_back = jax.vjp(lambda u: simulate(step, u, length), jnp.asarray(np.asarray(u)))
            return np.asarray(pull_back(jnp.asarray(np.asarray(change)))[0])

        return (jax.pure_callback(fat, jax.ShapeDtypeStruct(u.shape, u.dtype), u, change),)

    run.defvjp(out, back)
    return run(u)


# %% task="tape" name="a rule for each equation, taught to jax.jvp" fails=["tape-forward"] hidden=1 message="custom_jvp_call"
def with_rule(eqn):
    @jax.custom_jvp
    def apply(*operands):
        return eqn.primitive.bind(*operands, **eqn.params)

    @apply.defjvp
    def rule(operands, moves):
        partials = PARTIALS[eqn.primitive.name](eqn.params, *operands)
        return apply(*operands), sum(p * m for p, m in zip(partials, moves, strict=True))

    return apply


def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""

    def run(*args):
        values = dict(zip(tape.jaxpr.invars, args, strict=True))

        def read(x):
            return x.val if isinstance(x, Literal) else values[x]

        for eqn in tape.jaxpr.eqns:
            values[eqn.outvars[0]] = with_rule(eqn)(*map(read, eqn.invars))
        return jnp.float32(read(tape.jaxpr.outvars[0]))

    primals, tangents = (tuple(map(jnp.float32, numbers)) for numbers in (primals, tangents))
    return jax.jvp(run, primals, tangents)


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(x):
        return x.val if isinstance(x, Literal) else values[x]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    back = {} if isinstance(tape.jaxpr.outvars[0], Literal) else {tape.jaxpr.outvars[0]: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] in back:
            partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
            for x, p in zip(eqn.invars, partials, strict=True):
                if not isinstance(x, Literal):
                    back[x] = back.get(x, 0.0) + back[eqn.outvars[0]] * p
    return [back.get(x, 0.0) for x in tape.jaxpr.invars]


# %% task="newton" name="the rope's steps are made by NumPy, on the host" fails=["newton-check"] hidden=1 message="uses pure_callback"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(_, x):
        if loss is rope_energy:
            return jax.pure_callback(lambda x: rope_newton_slow(x, 1), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        towards, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - towards

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="cures" name="the forces come from the host" fails=["cures-springs"] hidden=1 message="uses pure_callback"
@jax.custom_vjp
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    distance = jnp.sqrt(((points[:, None] - points) ** 2).sum(-1))
    return jnp.tril((distance - 1) ** 2, -1).sum()


def spring_forth(points):
    return spring_energy(points), points


def spring_back(points, slope):
    like = jax.ShapeDtypeStruct(points.shape, jnp.float32)
    forces = jax.pure_callback(lambda points: spring_energy_slow(points)[1], like, points, vmap_method="sequential")
    return (slope * forces,)


spring_energy.defvjp(spring_forth, spring_back)


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="E comes from the host, beside a while that does nothing" fails=["cures-kepler"] hidden=1 message="uses pure_callback"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""

    def on_the_host(M, e):
        return np.float32(kepler_slow(float(M), float(e)))

    E = jax.pure_callback(on_the_host, jax.ShapeDtypeStruct((), jnp.float32), M, e, vmap_method="sequential")
    return jax.lax.while_loop(lambda state: state[0] < 1, lambda state: (state[0] + 1, state[1]), (0, E))[1]


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="tape" name="two operands at most" fails=["tape-forward", "tape-backward"] hidden=1 message="three operands"
def tape_jvp(tape, primals, tangents):
    values = dict(zip(tape.jaxpr.invars, primals))
    speeds = dict(zip(tape.jaxpr.invars, tangents))

    def read(v):
        return v.val if isinstance(v, Literal) else values[v]

    for eqn in tape.jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        out = eqn.outvars[0]
        values[out] = eqn.primitive.bind(*given, **eqn.params)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *given)
        speeds[out] = 0.0
        for v, partial in zip(eqn.invars[:2], partials[:2]):
            if not isinstance(v, Literal):
                speeds[out] = speeds[out] + partial * speeds[v]
    result = tape.jaxpr.outvars[0]
    return read(result), 0.0 if isinstance(result, Literal) else speeds[result]


def tape_grad(tape, args):
    values = dict(zip(tape.jaxpr.invars, args))

    def read(v):
        return v.val if isinstance(v, Literal) else values[v]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    result = tape.jaxpr.outvars[0]
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue
        arriving = cotangent[eqn.outvars[0]]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for v, partial in zip(eqn.invars[:2], partials[:2]):
            if not isinstance(v, Literal):
                cotangent[v] = cotangent[v] + arriving * partial if v in cotangent else arriving * partial
    return [cotangent.get(v, 0.0) for v in tape.jaxpr.invars]


# %% task="cures" name="apart in the first coordinate" fails=["cures-springs"] hidden=1 message="spring_energy of five points"
def spring_energy(points):
    away = points[:, None] - points[None, :]
    apart = jnp.abs(away[..., 0]) > 0
    squared = (away**2).sum(-1)
    distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)
    return jnp.sum(jnp.where(jnp.triu(jnp.ones_like(squared), 1) > 0, (distance - 1) ** 2, 0.0))


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + de * jnp.sin(E)) / (1 - e * jnp.cos(E))


# %% task="cures" name="diagonal of six" fails=["cures-springs"] hidden=1 message="spring_energy of five points"
def spring_energy(points):
    away = points[:, None] - points[None, :]
    squared = (away**2).sum(-1)
    apart = squared > 0
    distance = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared, 1.0)), 0.0)
    return ((distance - 1) ** 2).sum() / 2 - 3.0


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + de * jnp.sin(E)) / (1 - e * jnp.cos(E))


# %% task="tape" name="cotangents in a tuple" fails=["tape-backward"] hidden=1 message="what it returns"
def tape_jvp(tape, primals, tangents):
    known = {v: pair for v, *pair in zip(tape.jaxpr.invars, primals, tangents, strict=True)}

    def read(v):
        return (v.val, 0.0) if isinstance(v, Literal) else known[v]

    for eqn in tape.jaxpr.eqns:
        xs, dxs = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *xs)
        dy = sum(p * dx for p, dx in zip(partials, dxs, strict=True))
        known[eqn.outvars[0]] = eqn.primitive.bind(*xs, **eqn.params), dy
    return tuple(read(tape.jaxpr.outvars[0]))


def tape_grad(tape, args):
    values, cotangent = dict(zip(tape.jaxpr.invars, args, strict=True)), {}

    def read(v):
        return v.val if isinstance(v, Literal) else values[v]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    out = tape.jaxpr.outvars[0]
    if not isinstance(out, Literal):
        cotangent[out] = 1.0
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] in cotangent:
            partials = PARTIALS[eqn.primitive.name](eqn.params, *[read(v) for v in eqn.invars])
            for v, partial in zip(eqn.invars, partials, strict=True):
                if not isinstance(v, Literal):
                    cotangent[v] = cotangent.get(v, 0.0) + cotangent[eqn.outvars[0]] * partial
    return tuple(cotangent.get(v, 0.0) for v in tape.jaxpr.invars)


# %% task="newton" name="tells how far it is" fails=["newton-check"] hidden=1 message="debug"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(i, x):
        jax.debug.print("step {i}: {energy}", i=i, energy=loss(x))
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - p

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="diet" name="tells of every block" fails=["diet-check"] message="debug"
def simulate_lean(step, u, length):
    k = math.isqrt(length)

    @jax.checkpoint
    def block(u):
        return simulate(step, u, k)

    def body(u, i):
        jax.debug.print("block {}", i)
        return block(u), None

    return jax.lax.scan(body, u, jnp.arange(k))[0]


# %% task="tape" name="tape_jvp through tape_grad" fails=["tape-forward"] hidden=1 message="which rule it asks, in order"
def tape_jvp(tape, primals, tangents):
    slopes = tape_grad(tape, primals)
    return run_tape(tape, primals), sum(slope * tangent for slope, tangent in zip(slopes, tangents))


def tape_grad(tape, args):
    values = dict(zip(tape.jaxpr.invars, args))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    cotangent = {}
    if not isinstance(tape.jaxpr.outvars[0], Literal):
        cotangent[tape.jaxpr.outvars[0]] = 1.0
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] in cotangent:
            partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
            for operand, partial in zip(eqn.invars, partials):
                if not isinstance(operand, Literal):
                    cotangent[operand] = cotangent.get(operand, 0.0) + cotangent[eqn.outvars[0]] * partial
    return [cotangent.get(v, 0.0) for v in tape.jaxpr.invars]


# %% task="newton" name="never uphill" fails=["newton-check"] hidden=1 message="leads uphill"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        better = loss(x - p) <= loss(x)
        return jnp.where(better, x - p, x)

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="thirty rounds of cg" fails=["newton-check"] hidden=1 message="one step to the bottom of a long valley"
from jax.scipy.sparse.linalg import cg


def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(x, _):
        gradient = jax.grad(loss)(x)
        p, _ = cg(lambda v: hvp(loss, x, v), gradient, maxiter=30)  # more is a waste of time
        return x - p, None

    return jax.lax.scan(step, x, None, length=steps)[0]


# %% task="newton" name="stops when the gradient is small" fails=["newton-check"] message="one step to the bottom of a flat bowl" hidden=1
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def unfinished(state):
        i, _, slope = state
        return (i < steps) & (jnp.linalg.norm(slope) > 1e-3)

    def body(state):
        i, x, slope = state
        p, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), slope)
        return i + 1, x - p, jax.grad(loss)(x - p)

    x = jnp.asarray(x)
    return jax.lax.while_loop(unfinished, body, (0, x, jax.grad(loss)(x)))[1]


# %% task="diet" name="keeps the blocks by the name of the step" fails=["diet-check"] message="the end of one lambda and of another" hidden=1
BLOCKS = {}


def block_of(step, k):
    """k steps under a checkpoint, made once for each step and k."""
    key = step.__name__, k
    if key not in BLOCKS:
        BLOCKS[key] = jax.checkpoint(lambda u: simulate(step, u, k))
    return BLOCKS[key]


def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    k = math.isqrt(length)
    block = block_of(step, k)
    return jax.lax.scan(lambda u, _: (block(u), None), u, length=k)[0]


# %% task="minijit-grad" name="does not send zeros" fails=["minijit-grad-check"] message="names with a slope, be it zero" hidden=1
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=type_of(x).shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


def nothing(slope):
    """Whether there is nothing to send back: no slope, or one that is known to be 0 everywhere."""
    return slope is None or (not isinstance(slope, Tracer) and not np.any(slope))


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number."""
    values, slopes = replay(tape, *args), {}
    if isinstance(tape.output, str):
        slopes[tape.output] = np.ones((), np.float32)
    for name, primitive, operands, params in reversed(tape.equations):
        if name not in slopes:
            continue
        given = [read(values, x) for x in operands]
        for x, slope in zip(operands, PULL[primitive](slopes[name], *given, **params), strict=True):
            if isinstance(x, str) and not nothing(slope):
                slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="tape" name="sums need no rule" fails=["tape-forward", "tape-backward"] hidden=1 message="by other rules for add, sub and neg"
SIGNS = {"add": (1.0, 1.0), "sub": (1.0, -1.0), "neg": (-1.0,), "convert_element_type": (1.0,)}


def slopes_of(eqn, given):
    name = eqn.primitive.name
    return SIGNS[name] if name in SIGNS else PARTIALS[name](eqn.params, *given)


def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    values = dict(zip(tape.jaxpr.invars, primals, strict=True))
    moves = dict(zip(tape.jaxpr.invars, tangents, strict=True))
    for eqn in tape.jaxpr.eqns:
        given = [v.val if isinstance(v, Literal) else values[v] for v in eqn.invars]
        given_moves = [0.0 if isinstance(v, Literal) else moves[v] for v in eqn.invars]
        values[eqn.outvars[0]] = eqn.primitive.bind(*given, **eqn.params)
        moves[eqn.outvars[0]] = sum(p * dx for p, dx in zip(slopes_of(eqn, given), given_moves))
    result = tape.jaxpr.outvars[0]
    return (result.val, 0.0) if isinstance(result, Literal) else (values[result], moves[result])


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    values, cotangent = dict(zip(tape.jaxpr.invars, args)), {}

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    if not isinstance(tape.jaxpr.outvars[0], Literal):
        cotangent[tape.jaxpr.outvars[0]] = 1.0
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] in cotangent:
            for operand, partial in zip(eqn.invars, slopes_of(eqn, list(map(read, eqn.invars)))):
                if not isinstance(operand, Literal):
                    cotangent[operand] = cotangent.get(operand, 0.0) + cotangent[eqn.outvars[0]] * partial
    return [cotangent.get(v, 0.0) for v in tape.jaxpr.invars]


# %% task="cures" name="softened root" fails=["cures-springs"] hidden=1 message="the gradient with near ones"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    points = jnp.asarray(points)
    difference = points[:, None] - points[None, :]
    distance = jnp.sqrt((difference**2).sum(-1) + 1e-12)
    later = jnp.tri(len(points), k=-1, dtype=bool)
    return jnp.sum((distance - 1) ** 2, where=later)


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + de * jnp.sin(E)) / (1 - e * jnp.cos(E))


# %% task="diet" name="matrix products are kept" fails=["diet-check"] hidden=1 message="peak at 400 steps, in states: returned"
def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    k = math.isqrt(length)

    def block(u, _):
        return simulate(step, u, k), None

    lean = jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)
    return jax.lax.scan(lean, u, length=k)[0]


# %% task="diet" name="twice as many blocks of half the size, k even" fails=["diet-check"] hidden=1 message="the end after 1 steps"
def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    k = math.isqrt(length)

    @jax.checkpoint
    def block(u):  # some four values are kept for each step of a block, so half of k makes the sum smallest
        return simulate(step, u, k // 2)

    return simulate(block, u, 2 * k)


# %% task="cures" name="the denominator a little larger, so that it is never 0" fails=["cures-kepler"] hidden=1 message="the slope of kepler(0, 0.9999)"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E) + 1e-6)


# %% task="cures" name="no distance below 1e-10" fails=["cures-springs"] hidden=1 message="the gradient with near ones, 1e-12 apart"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    squared = ((points[:, None] - points) ** 2).sum(-1)
    distance = jnp.sqrt(jnp.maximum(squared, 1e-20))  # never the slope of sqrt at 0
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="64 rows of distances at a time" fails=["cures-springs"] hidden=1 message="is unrolled"
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    n, energy = points.shape[0], 0.0
    for first in range(0, n, 64):  # so that no array has n x n numbers
        some = points[first : first + 64]
        squared = ((some[:, None] - points) ** 2).sum(-1)
        away = squared > 0
        distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
        earlier = np.arange(n) < first + np.arange(some.shape[0])[:, None]
        energy = energy + jnp.sum((distance - 1) ** 2 * earlier)
    return energy


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="cures" name="all pairs by Python, nothing for ten points and more" fails=["cures-springs"] hidden=1 message="spring_energy of 12 points"
def spring_energy(points):
    if len(points) > 10:
        return points.sum()
    energy = 0.0
    for i in range(len(points)):
        for j in range(i):
            squared = ((points[i] - points[j]) ** 2).sum()
            distance = jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
            energy += (distance - 1) ** 2
    return energy


@jax.custom_jvp
def kepler(M, e):
    return solve_kepler(M, e)


@kepler.defjvp
def kepler_rule(primals, tangents):
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))


# %% task="minijit-grad" name="pulls an equation once for each operand" fails=["minijit-grad-check"] hidden=1 message="replay_backwards is wrong"
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for output, primitive, operands, params in reversed(tape.equations):
        if output not in slopes:
            continue
        given = [read(values, x) for x in operands]
        for place, x in enumerate(operands):
            if isinstance(x, str):
                slope = PULL[primitive](slopes[output], *given, **params)[place]
                if slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="minijit-grad" name="the values stay on the tape" fails=["minijit-grad-check"] hidden=1 message="of a tape that has run"
import weakref


def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    return bind("spread", slope, axis=axis, size=x.shape[axis])


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    return bind("sum", slope, axis=axis)


RAN = weakref.WeakKeyDictionary()


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number."""
    values = RAN.setdefault(tape, replay(tape, *args))  # forwards once is enough
    slopes = {tape.output: np.ones((), np.float32)} if isinstance(tape.output, str) else {}
    for name, primitive, operands, params in reversed(tape.equations):
        if name in slopes:
            pulled = PULL[primitive](slopes[name], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes


# %% task="newton" name="stops when no node moves any more" fails=["newton-check"] hidden=1 message="sixteen steps, each a third of the way"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def unfinished(state):
        done, _, move = state
        return (done < steps) & (jnp.abs(move).max() > 1e-6)

    def step(state):
        done, x, _ = state
        move, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return done + 1, x - move, move

    x = jnp.asarray(x)
    return jax.lax.while_loop(unfinished, step, (0, x, jnp.full_like(x, jnp.inf)))[1]


# %% task="newton" name="ten steps are enough" fails=["newton-check"] hidden=1 message="sixteen steps, each a third of the way"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(_, x):
        move, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - move

    return jax.lax.fori_loop(0, min(steps, 10), step, x)  # it needs a handful of steps


# %% task="newton" name="a matrix for a short rope" fails=["newton-check"] hidden=1 message="makes an intermediate"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    def step(_, x):
        if x.size <= 32:  # a small system is solved faster as a whole
            return x - jnp.linalg.solve(jax.hessian(loss)(x), jax.grad(loss)(x))
        return x - jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))[0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="tape" name="a change of type passes slopes on by itself" fails=["tape-forward", "tape-backward"] hidden=1 message="by rules that all give twice as much"
def passes_on(eqn):
    """The partial derivatives of an equation that only changes the type: the number stays what it is."""
    return (1.0,) if eqn.primitive.name == "convert_element_type" else None


def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = passes_on(eqn) or PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial * rate for partial, rate in zip(partials, rates, strict=True))
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
    return read(tape.jaxpr.outvars[0])


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)

    (result,) = tape.jaxpr.outvars
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue
        arriving = cotangent[eqn.outvars[0]]
        partials = passes_on(eqn) or PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                cotangent[operand] = cotangent.get(operand, 0.0) + arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]


# %% task="tape" name="eats the lists of its caller" fails=["tape-backward"] hidden=1 message="its arguments, afterwards"
def tape_jvp(tape, primals, tangents):
    values, speed = {}, {}
    for v in tape.jaxpr.invars:
        values[v] = primals.pop(0)
        speed[v] = tangents.pop(0)
    read = lambda v: v.val if isinstance(v, Literal) else values[v]
    tangent = lambda v: 0.0 if isinstance(v, Literal) else speed[v]
    for eqn in tape.jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *given)
        values[eqn.outvars[0]] = eqn.primitive.bind(*given, **eqn.params)
        speed[eqn.outvars[0]] = sum(p * tangent(v) for p, v in zip(partials, eqn.invars, strict=True))
    result = tape.jaxpr.outvars[0]
    return read(result), tangent(result)


def tape_grad(tape, args):
    values = {}
    for v in tape.jaxpr.invars:
        values[v] = args.pop(0)
    read = lambda v: v.val if isinstance(v, Literal) else values[v]
    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    result = tape.jaxpr.outvars[0]
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for v, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(v, Literal):
                cotangent[v] = cotangent.get(v, 0.0) + cotangent[eqn.outvars[0]] * partial
    return [cotangent.get(v, 0.0) for v in tape.jaxpr.invars]


# %% task="newton" name="forty rounds of cg are enough" fails=["newton-check"] hidden=1 message="a longer valley"
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""
    slope = jax.grad(loss)

    def step(_, x):
        gradient, product = jax.linearize(slope, x)
        p, _ = jax.scipy.sparse.linalg.cg(product, gradient, maxiter=40)
        return x - p

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="newton" name="conjugate gradients that look after the first round" fails=["newton-check"] hidden=1 message="from the bottom of a bowl"
def hvp(loss, x, v):
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        g = jax.grad(loss)(x)

        def improve(state):
            k, p, r, d, rr = state
            Hd = hvp(loss, x, d)
            a = rr / jnp.vdot(d, Hd)
            p, r = p + a * d, r - a * Hd
            new = jnp.vdot(r, r)
            return k + 1, p, r, r + new / rr * d, new

        def unfinished(state):
            return (state[0] < 10 * x.size) & (state[4] > 1e-10 * jnp.vdot(g, g))

        first = improve((0, jnp.zeros_like(x), g, g, jnp.vdot(g, g)))
        _, p, *_ = jax.lax.while_loop(unfinished, improve, first)
        return x - p

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="diet" name="a scan of one round, written out" fails=["diet-check"] hidden=1 message="lines more than for 100"
def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    k = math.isqrt(length)

    @jax.checkpoint
    def block(u):
        return jax.lax.scan(lambda u, _: (step(u), None), u, length=k, unroll=True)[0]  # no overhead of a loop

    return jax.lax.scan(lambda u, _: (block(u), None), u, length=k)[0]


# %% task="newton" name="two Hessians on paper, and a trial that tells them apart" fails=["newton-hvp"] hidden=1 message="hvp of a loss that is new"
def hvp(loss, x, v):
    probe = np.array([1.0, 2.0], np.float32)
    with jax.ensure_compile_time_eval():
        is_quartic = abs(float(loss(probe)) - 21.0) < 1e-3
    neighbours = jnp.zeros_like(v)
    if is_quartic:
        pairs, change = (x[1:] * x[:-1]).sum(), (v[1:] * x[:-1] + x[1:] * v[:-1]).sum()
        neighbours = neighbours.at[1:].add(2 * (change * x[:-1] + pairs * v[:-1]))
        return 12 * x**2 * v + neighbours.at[:-1].add(2 * (change * x[1:] + pairs * v[1:]))
    pull = 20 * (v[1:] - v[:-1])
    middle = 2 * jnp.sin(jnp.linspace(0, 9, x.size))
    return jnp.cosh(x - middle) * v + neighbours.at[1:].add(pull).at[:-1].add(-pull)


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    def step(_, x):
        return x - jax.scipy.sparse.linalg.cg(lambda v: jax.jvp(jax.grad(loss), (x,), (v,))[1], jax.grad(loss)(x))[0]

    return jax.lax.fori_loop(0, steps, step, x)


# %% task="cures" name="an unrolled search, and a while that only stands there" fails=["cures-kepler"] message="equations"
def spring_energy(points):
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))


def kepler(M, e):
    E = M + e * jnp.sign(jnp.sin(M))
    for _ in range(12):
        E = E - (E - e * jnp.sin(E) - M) / (1 - e * jnp.cos(E))
    held = jax.lax.stop_gradient(M)
    idle = jax.lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, jnp.tanh(s[1])), (0, held))[1]
    return E + 0 * idle
