# %% task="predict-tape" name="effects are recorded" fails=["predict-tape-check"] message="Neither append nor print operates on the tracer"
def predict_tape():
    return {
        "noisy": 3,
        "wasteful": 2,
        "neutral": 2,
        "unrolled": 4,
        "rolled": 1,
        "branching": 1,
        "constant": 1,
        "boxed": 2,
    }


# %% task="predict-tape" name="the tape is optimised" fails=["predict-tape-check"] message="The tape is a record of what was asked for"
def predict_tape():
    return {
        "noisy": 1,
        "wasteful": 1,
        "neutral": 0,
        "unrolled": 4,
        "rolled": 1,
        "branching": 1,
        "constant": 1,
        "boxed": 2,
    }


# %% task="predict-tape" name="a Python loop stays a loop" fails=["predict-tape-check"] message="Python walks its own loop"
def predict_tape():
    return {
        "noisy": 1,
        "wasteful": 2,
        "neutral": 2,
        "unrolled": 1,
        "rolled": 1,
        "branching": 1,
        "constant": 1,
        "boxed": 2,
    }


# %% task="predict-tape" name="both sides of a Python if are recorded" fails=["predict-tape-check"] message="Python takes one branch"
def predict_tape():
    return {
        "noisy": 1,
        "wasteful": 2,
        "neutral": 2,
        "unrolled": 4,
        "rolled": 1,
        "branching": 4,
        "constant": 1,
        "boxed": 2,
    }


# %% task="predict-tape" name="loops and jit are written out" fails=["predict-tape-check"] message="its body is a tape of its own"
def predict_tape():
    return {
        "noisy": 1,
        "wasteful": 2,
        "neutral": 2,
        "unrolled": 4,
        "rolled": 4,
        "branching": 1,
        "constant": 4,
        "boxed": 3,
    }


# %% task="predict-tape" name="measured instead" fails=["predict-tape-check"] message="predict_tape uses jax.make_jaxpr, which does not exist where it is run"
def predict_tape():
    return {fn.__name__: len(jax.make_jaxpr(fn)(jnp.ones(3)).eqns) for fn in TAPES}


# %% task="golf-relu" name="uses maximum" fails=["golf-relu-check"] message="max"
def golf_relu(x):
    return jnp.maximum(x, 0.0)


# %% task="golf-relu" name="divides" fails=["golf-relu-check"] message="div"
def golf_relu(x):
    return (x + jnp.abs(x)) / 2


# %% task="golf-relu" name="the other half" fails=["golf-relu-check"] message="golf_relu(x)"
def golf_relu(x):
    return (jnp.abs(x) + -1.0 * x) * 0.5


# %% task="golf-poly" name="wraps it in jit and hopes" fails=["golf-poly-check"] message="mul 3 times"
@jax.jit
def golf_poly(x):
    return 2 * x * x + 3 * x + 3


# %% task="golf-poly" name="a power is one stroke too many" fails=["golf-poly-check"] message="integer_pow"
def golf_poly(x):
    return 2 * x**2 + 3 * x + 3


# %% task="golf-power" name="lets the power primitive do it" fails=["golf-power-check"] message="integer_pow"
def golf_power(x):
    return x**15


# %% task="golf-power" name="one factor at a time" fails=["golf-power-check"] message="14 equations"
def golf_power(x):
    result = x
    for _ in range(14):
        result = result * x
    return result


# %% task="golf-power" name="stops at 16" fails=["golf-power-check"] message="golf_power(x)"
def golf_power(x):
    for _ in range(4):
        x = x * x
    return x


# %% task="unprint-a" name="simplifies the maximum away" fails=["unprint-a-check"] message="reduce_max"
def unprint_a(a):
    return jnp.log(jnp.sum(jnp.exp(a)))


# %% task="unprint-a" name="forgets to add the maximum back" fails=["unprint-a-check"] message="add"
def unprint_a(a):
    return jnp.log(jnp.sum(jnp.exp(a - jnp.max(a))))


# %% task="unprint-b" name="reads select_n like where" fails=["unprint-b-check"] message="the False case comes first"
def unprint_b(a, b):
    c = a - b
    d = jnp.abs(c)
    return jnp.sum(jnp.where(d < 1.0, d - 0.5, 0.5 * c * c))


# %% task="unprint-b" name="squares with a power" fails=["unprint-b-check"] message="mul"
def unprint_b(a, b):
    c = a - b
    d = jnp.abs(c)
    return jnp.sum(jnp.where(d < 1.0, 0.5 * c**2, d - 0.5))


# %% task="count-primitives" name="forgets inner tapes" fails=["count-primitives-check"] message="Each jit holds a mul in its own tape"
def count_primitives(tape):
    return Counter(eqn.primitive.name for eqn in tape.eqns if eqn.primitive.name not in WRAPPERS)


# %% task="count-primitives" name="counts jit as a primitive" fails=["count-primitives-check"] message="jit is a wrapper"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="opens one level only" fails=["count-primitives-check"] message="boxes hold boxes"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += Counter(e.primitive.name for e in inner.eqns if e.primitive.name not in WRAPPERS)
    return counts


# %% task="count-primitives" name="misses tapes in a tuple" fails=["count-primitives-check"] message="Both branches of a cond are on the tape"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            if hasattr(value, "eqns"):
                counts += count_primitives(value)
    return counts


# %% task="count-primitives" name="multiplies by the rounds" fails=["count-primitives-check"] message="the body stands on the tape once"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    for name, number in count_primitives(inner).items():
                        counts[name] += number * eqn.params.get("length", 1)
    return counts


# %% task="count-primitives" name="reads the text" fails=["count-primitives-check"] message="Each jit holds a mul in its own tape"
def count_primitives(tape):
    # JAX prints the tape of a function that is called twice only once.
    counts = primitives_in(tape.pretty_print(use_color=False))
    return {name: number for name, number in counts.items() if name not in WRAPPERS}


# %% task="count-flops" name="counts a loop body once" fails=["count-flops-check"] message="The body stands on the tape once and runs length times"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="does not open jit" fails=["count-flops-check"] message="The work is in the inner tape"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif name == "scan":
            total += eqn.params["length"] * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="counts the elements of an operand" fails=["count-flops-check"] message="count the elements of the result"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.invars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="one FLOP for each element of a product" fails=["count-flops-check"] message="sums over 16 products"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        if eqn.primitive.name in ARITHMETIC | {"dot_general"}:
            total += eqn.outvars[0].aval.size
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="prices every equation" fails=["count-flops-check"] message="The price list knows only"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        if "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
        elif eqn.primitive.name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        else:
            total += eqn.outvars[0].aval.size
    return total


# %% task="count-flops" name="lengths of nested loops are added" fails=["count-flops-check"] message="lengths multiply"
def count_flops(tape, rounds=1):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += rounds * eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += rounds * 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif name == "scan":
            length = eqn.params["length"]
            total += count_flops(eqn.params["jaxpr"], length if rounds == 1 else rounds + length)
        elif "jaxpr" in eqn.params:
            total += count_flops(eqn.params["jaxpr"], rounds)
    return total


# %% task="evaluate" name="looks literals up by name" fails=["evaluate-check", "evaluate-watch"] message="Literal"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))
    for eqn in tape.eqns:
        values = [value_of[operand] for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [value_of[operand] for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="reads literals as whole numbers" fails=["evaluate-check"] message="its value is operand.val, as it is"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        if not isinstance(operand, Literal):
            return value_of[operand]
        return jnp.asarray(int(operand.val), operand.aval.dtype)

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="forgets captured arrays" fails=["evaluate-check"] message="Captured arrays are in tape.consts"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="one result a primitive" fails=["evaluate-check"] message="With multiple_results, bind returns a list already"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = [eqn.primitive.bind(*values, **eqn.params)]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="leaves the jit box closed" fails=["evaluate-watch"] message="do not report the box"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        results = eqn.primitive.bind(*[read(operand) for operand in eqn.invars], **eqn.params)
        results = results if eqn.primitive.multiple_results else [results]
        watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="the ready-made interpreter" fails=["evaluate-check", "evaluate-watch"] message="Call watch(name, values) after every equation"
def evaluate(tape, *args, watch=ignore):
    from jax.extend.core import jaxpr_as_fun

    return jaxpr_as_fun(tape)(*args)


# %% task="minijit-trace" name="tracers stand on the tape themselves" fails=["minijit-trace-check"] message="A tracer stands there by its name"
def record(primitive, operands, params):
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    tape.equations.append((result.name, primitive, tuple(operands), params))
    return result


def trace(fn, *types):
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    tape.output = fn(*tracers).name
    return tape


# %% task="minijit-trace" name="the result has the type of the operand" fails=["minijit-trace-check"] message="the type is that of the result"
def record(primitive, operands, params):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    result = tracers[0].tape.new(tracers[0].type)
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    result.tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    tape.output = fn(*tracers).name
    return tape


# %% task="minijit-trace" name="every result is a tracer" fails=["minijit-trace-check"] message="AttributeError: 'float' object has no attribute 'name'"
def record(primitive, operands, params):
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    tape.output = fn(*tracers).name
    return tape


# %% task="minijit-replay" name="looks up numbers as if they were names" fails=["minijit-replay-check"] message="a name is looked up, a number stands for itself"
def replay(tape, *args):
    values = dict(zip(tape.inputs, map(lift, args), strict=True))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[values[x] for x in operands], **params)
    return values


# %% task="minijit-replay" name="replay is for arrays alone" fails=["minijit-replay-jit"] message="bind knows what to do with it"
def replay(tape, *args):
    values = {name: np.asarray(x, tape.types[name].dtype) for name, x in zip(tape.inputs, args, strict=True)}
    for name, primitive, operands, params in tape.equations:
        values[name] = RUN[primitive](*[read(values, x) for x in operands], **params)
    return values
