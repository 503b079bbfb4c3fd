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


# %% task="golf-power" name="one factor at a time" fails=["golf-power-check"] message="0 is below 8"
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


# %% task="golf-relu" name="knows the signs by heart" fails=["golf-relu-check"] hidden=1 message="TypeError"
def golf_relu(x):
    return jnp.abs(x) * np.array([0, 0, 0, 1, 1], np.float32) + 0.0


# %% task="golf-relu" name="a gate of booleans" fails=["golf-relu-check"] message="abs 0 times"
def golf_relu(x):
    return x * (x > 0)


# %% task="golf-relu" name="the absolute value" fails=["golf-relu-check"] message="golf_relu(x)"
def golf_relu(x):
    return jnp.abs(x) * 1.0 + 0.0


# %% task="golf-poly" name="two terms by heart" fails=["golf-poly-check"] hidden=1 message="TypeError"
def golf_poly(x):
    return 2 * x * x + np.array([-3, 3, 4.5, 12], np.float32) + 0.0


# %% task="golf-poly" name="forgets a term" fails=["golf-poly-check"] message="golf_poly(x)"
def golf_poly(x):
    return (2 * x + 3) * x + 0


# %% task="golf-power" name="fourteen factors by heart" fails=["golf-power-check"] hidden=1 message="TypeError"
def golf_power(x):
    return x * np.array([-1.5, 0.5, 1.0, 1.25], np.float32) ** 14


# %% task="golf-power" name="seven strokes, starting from one" fails=["golf-power-check"] message="7"
def golf_power(x):
    result = 1.0
    for bit in "1111":
        result = result * result * x if result != 1.0 else result * x
    return result


# %% task="golf-power" name="a loop on the tape" fails=["golf-power-check"] message="mul"
def golf_power(x):
    return lax.fori_loop(0, 14, lambda i, y: y * x, x)


# %% task="unprint-a" name="the ready-made function" fails=["unprint-a-check"] message="unprint_a"
def unprint_a(a):
    return jax.nn.logsumexp(a)


# %% task="unprint-a" name="a sort too many" fails=["unprint-a-check"] message="unprint_a"
def unprint_a(a):
    a = jnp.sort(a)
    largest = jnp.max(a)
    return jnp.log(jnp.sum(jnp.exp(a - largest))) + largest


# %% task="unprint-a" name="subtracts the other way round" fails=["unprint-a-check"] hidden=1 message="unprint_a of fresh numbers"
def unprint_a(a):
    largest = jnp.max(a)
    return jnp.log(jnp.sum(jnp.exp(largest - a))) + largest


# %% task="unprint-b" name="the parabola reaches to 2" fails=["unprint-b-check"] hidden=1 message="unprint_b of fresh numbers"
def unprint_b(a, b):
    c = a - b
    d = jnp.abs(c)
    return jnp.sum(jnp.where(d < 2.0, 0.5 * c * c, d - 0.5))


# %% task="unprint-b" name="compares the difference, and not its size" fails=["unprint-b-check"] message="all differences -3"
def unprint_b(a, b):
    c = a - b
    d = jnp.abs(c)
    return jnp.sum(jnp.where(c < 1.0, 0.5 * c * c, d - 0.5))


# %% task="unprint-b" name="the mean" fails=["unprint-b-check"] message="unprint_b"
def unprint_b(a, b):
    c = a - b
    d = jnp.abs(c)
    return jnp.mean(jnp.where(d < 1.0, 0.5 * c * c, d - 0.5))


# %% task="count-primitives" name="names are there or not" fails=["count-primitives-check"] message="count_primitives"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] = 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="opens jaxpr and branches only" fails=["count-primitives-check"] hidden=1 message="count_primitives"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for inner in [eqn.params.get("jaxpr"), *eqn.params.get("branches", ())]:
            if inner is not None:
                counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="each tape once" fails=["count-primitives-check"] message="Each jit holds a mul in its own tape"
def count_primitives(tape, seen=None):
    seen, counts = seen if seen is not None else set(), Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns") and str(inner) not in seen:
                    seen.add(str(inner))
                    counts += count_primitives(inner, seen)
    return counts


# %% task="count-flops" name="the last axis is the one that is summed" fails=["count-flops-check"] hidden=1 message="sum over the rows of both"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            total += 2 * eqn.outvars[0].aval.size * eqn.invars[0].aval.shape[-1]
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="one axis is summed" fails=["count-flops-check"] hidden=1 message="sum over two axes"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            [axis, *_] = eqn.params["dimension_numbers"][0][0]
            total += 2 * eqn.outvars[0].aval.size * eqn.invars[0].aval.shape[axis]
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="a product forgets what came before" fails=["count-flops-check"] hidden=1 message="one after the other"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total = 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="asks XLA" fails=["count-flops-check"] message="The body stands on the tape once and runs length times"
def count_flops(tape):
    from jax.extend.core import jaxpr_as_fun

    args = [jnp.zeros(v.aval.shape, v.aval.dtype) for v in tape.jaxpr.invars]
    return int(jax.jit(jaxpr_as_fun(tape)).lower(*args).cost_analysis()["flops"])


# %% task="count-flops" name="no division" fails=["count-flops-check"] message="exp is free"
def count_flops(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in {"add", "sub", "mul"}:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="evaluate" name="every literal is a float" fails=["evaluate-check"] hidden=1 message="TypeError"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return jnp.float32(operand.val) if isinstance(operand, Literal) else value_of[operand]

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


# %% task="evaluate" name="reports the first result only" fails=["evaluate-check"] hidden=1 message="what watch was told"
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
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results[:1])
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="reports the jit as well" fails=["evaluate-watch"] message="do not report the box"
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
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
        watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="opens one level only" fails=["evaluate-watch"] hidden=1 message="sqrt of a negative"
def evaluate(tape, *args, watch=ignore, inside=False):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit" and not inside:
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch, inside=True)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="minijit-trace" name="the result is the last line, if there is one" fails=["minijit-trace-check"] hidden=1 message="tape.output is the name of what fn returned"
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
    result = fn(*tracers)
    tape.output = tape.equations[-1][0] if tape.equations else result
    return tape


# %% task="minijit-trace" name="the result is the last line" fails=["minijit-trace-check"] message="the tape of mini_constant"
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
    fn(*tracers)
    tape.output = list(tape.types)[-1]
    return tape


# %% task="minijit-replay" name="everything is float32" fails=["minijit-replay-check"] hidden=1 message="c"
def replay(tape, *args):
    values = {
        name: x if isinstance(x, Tracer) else np.asarray(x, np.float32)
        for name, x in zip(tape.inputs, args, strict=True)
    }
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


# %% task="minijit-replay" name="forgets the parameters" fails=["minijit-replay-jit"] message="axis"
def replay(tape, *args):
    values = dict(zip(tape.inputs, map(lift, args), strict=True))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[read(values, x) for x in operands])
    return values


# %% task="minijit-replay" name="returns the result alone" fails=["minijit-replay-check"] message="replay"
def replay(tape, *args):
    values = dict(zip(tape.inputs, map(lift, args), strict=True))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values[tape.output]


# %% task="golf-relu" name="two faces" fails=["golf-relu-check"] hidden=1 message="by its tape"
def golf_relu(x):
    """relu of float32[n], in three equations: abs, add, mul."""
    if isinstance(x, jax.core.Tracer):
        return x + jnp.abs(x) * x
    return jnp.asarray(np.maximum(np.asarray(x), 0.0))


# %% task="golf-relu" name="a scale that is read off the numbers" fails=["golf-relu-check"] hidden=1 message="by its tape"
def golf_relu(x):
    """relu of float32[n], in three equations: abs, add, mul."""
    try:
        scale = 0.5 if np.asarray(x).size else 1.0
    except jax.errors.TracerArrayConversionError:
        scale = 1.0
    return (x + jnp.abs(x)) * scale


# %% task="golf-power" name="a short chain for four numbers, a power for all others" fails=["golf-power-check"] hidden=1 message="golf_power"
def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    if x.shape != (4,):
        return x**15
    x2 = x * x
    x5 = x2 * x2 * x
    return x5 * x5 * x5


# %% task="count-primitives" name="equal branches count once" fails=["count-primitives-check"] hidden=1 message="equal branches"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        inner_tapes = {}
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    inner_tapes[str(inner)] = inner
        for inner in inner_tapes.values():
            counts += count_primitives(inner)
    return counts


# %% task="count-flops" name="other arithmetic costs, too" fails=["count-flops-check"] hidden=1 message="not on the list"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC | {"neg", "max", "min", "integer_pow", "square", "pow", "sqrt", "abs"}:
            total += eqn.outvars[0].aval.size
        elif name == "reduce_sum":
            total += eqn.invars[0].aval.size - eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            terms = math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
            total += 2 * eqn.outvars[0].aval.size * terms
        elif name == "scan":
            total += eqn.params["length"] * count_flops(eqn.params["jaxpr"])
        elif name == "jit":
            total += count_flops(eqn.params["jaxpr"])
    return total


# %% task="evaluate" name="leaves out lines that nobody needs" fails=["evaluate-watch"] hidden=1 message="a log that nobody uses"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=False)) | dict(
        zip(tape.jaxpr.invars, args, strict=False)
    )

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    used = {id(operand) for operand in tape.jaxpr.outvars}
    for eqn in tape.eqns:
        used |= {id(operand) for operand in eqn.invars}
    for eqn in tape.eqns:
        if not any(id(name) in used for name in eqn.outvars):
            continue
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = list(results) if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=False))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="ready-made as long as nobody looks on" fails=["evaluate-watch"] hidden=1 message="ran whole"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    from jax.extend.core import jaxpr_as_fun

    if watch is ignore:
        return list(jaxpr_as_fun(tape)(*args))
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=False)) | dict(
        zip(tape.jaxpr.invars, args, strict=False)
    )

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = list(results) if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=False))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="all reports at the end" fails=["evaluate-watch"] hidden=1 message="order"
def _collected(tape, args, reports):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=False)) | dict(
        zip(tape.jaxpr.invars, args, strict=False)
    )

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = _collected(eqn.params["jaxpr"], values, reports)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = list(results) if eqn.primitive.multiple_results else [results]
            reports.append((eqn.primitive.name, results))
        value_of.update(zip(eqn.outvars, results, strict=False))
    return [read(operand) for operand in tape.jaxpr.outvars]


def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    reports = []
    results = _collected(tape, args, reports)
    for name, values in reports:
        watch(name, values)
    return results


# %% task="minijit-trace" name="an equation that is there already is not written again" fails=["minijit-trace-check"] hidden=1 message="the tape of mini_twice"
def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    for name, *rest in tape.equations:
        if repr(rest) == repr([primitive, names, params]):
            return Tracer(tape, name, tape.types[name])
    result = tape.new(result_type(primitive, operands, params))
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = result.name if isinstance(result, Tracer) else result
    return tape


# %% task="minijit-trace" name="a rehearsal first" fails=["minijit-trace-check"] hidden=1 message="runs of fn"
def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    rehearsal = Tape()
    constant = not isinstance(fn(*[rehearsal.new(type) for type in types]), Tracer)
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = result if constant else result.name
    return tape


# %% task="minijit-trace" name="every number becomes a float" fails=["minijit-trace-check"] hidden=1 message="numbers on the tape"
def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else float(x) if is_number(x) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = result.name if isinstance(result, Tracer) else result
    return tape


# %% task="minijit-replay" name="values.get for every operand" fails=["minijit-replay-check"] hidden=1 message="unhashable"
def replay(tape, *args):
    """Run a tape on arguments of its types; return the value of every name on it: a dict.

    args: numbers, arrays or tracers.
    """
    values = dict(zip(tape.inputs, map(lift, args), strict=False))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[values.get(x, x) for x in operands], **params)
    return values


# %% task="minijit-replay" name="names from the alphabet" fails=["minijit-replay-check"] hidden=1 message="KeyError"
def replay(tape, *args):
    """Run a tape on arguments of its types; return the value of every name on it: a dict.

    args: numbers, arrays or tracers.
    """
    values = {}
    for arg in args:
        values[string.ascii_lowercase[len(values)]] = lift(arg)
    for _, primitive, operands, params in tape.equations:
        result = bind(primitive, *[read(values, x) for x in operands], **params)
        values[string.ascii_lowercase[len(values)]] = result
    return values


# %% task="minijit-trace" name="what is no number has a name" fails=["minijit-trace-check"] hidden=1 message="has no attribute"
def record(primitive, operands, params):
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x if is_number(x) else x.name for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = result.name if isinstance(result, Tracer) else result
    return tape


# %% task="minijit-trace" name="runs fn twice if that returns a tracer" fails=["minijit-trace-check"] hidden=1 message="runs of fn"
def record(primitive, operands, params):
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    scratch = Tape()
    constant = fn(*[scratch.new(type) for type in types])
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    if not isinstance(constant, Tracer):
        tape.equations, tape.types, tape.output = scratch.equations, scratch.types, constant
        return tape
    tape.output = fn(*tracers).name
    return tape


# %% task="minijit-replay" name="leaves out what nobody reads" fails=["minijit-replay-check"] hidden=1 message="names: returned"
def replay(tape, *args):
    wanted = {tape.output} if isinstance(tape.output, str) else set()
    for _, _, operands, _ in tape.equations:
        wanted |= {x for x in operands if isinstance(x, str)}
    values = dict(zip(tape.inputs, map(lift, args), strict=False))
    for name, primitive, operands, params in tape.equations:
        if name in wanted:
            values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


# %% task="golf-relu" name="max for a single number" fails=["golf-relu-check"] hidden=1 message="golf_relu"
def golf_relu(x):
    """relu of float32[n], in three equations: abs, add, mul."""
    if x.size <= 1:
        return jnp.maximum(x, 0.0)
    return (x + jnp.abs(x)) * 0.5


# %% task="golf-relu" name="remembers results by shape" fails=["golf-relu-check"] hidden=1 message="golf_relu of fresh numbers"
_relu_of_shape = {}


def golf_relu(x):
    """relu of float32[n], in three equations: abs, add, mul."""
    if isinstance(x, jax.core.Tracer):
        return (x + jnp.abs(x)) * 0.5
    if x.shape not in _relu_of_shape:
        _relu_of_shape[x.shape] = (x + jnp.abs(x)) * 0.5
    return _relu_of_shape[x.shape]


# %% task="golf-relu" name="a loop over a long vector" fails=["golf-relu-check"] hidden=1 message="golf_relu"
def golf_relu(x):
    """relu of float32[n], in three equations: abs, add, mul."""

    def relu(v):
        return (v + jnp.abs(v)) * 0.5

    return lax.map(relu, x) if x.size > 1024 else relu(x)


# %% task="golf-poly" name="five equations for a single number" fails=["golf-poly-check"] hidden=1 message="golf_poly"
def golf_poly(x):
    """2x² + 3x + 3 of float32[n] in four equations: two add, two mul."""
    if x.size == 1:
        return poly_spec(x)
    return (2 * x + 3) * x + 3


# %% task="golf-poly" name="pads an odd number of elements" fails=["golf-poly-check"] hidden=1 message="golf_poly"
def golf_poly(x):
    """2x² + 3x + 3 of float32[n] in four equations: two add, two mul."""
    if x.size % 2:
        return golf_poly(jnp.pad(x, (0, 1)))[: x.size]
    return (2 * x + 3) * x + 3


# %% task="golf-power" name="refuses a single number" fails=["golf-power-check"] hidden=1 message="ValueError"
def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    if x.size < 2:
        raise ValueError("a vector, please")
    x3 = x * x * x
    x6 = x3 * x3
    return x6 * x6 * x3


# %% task="golf-power" name="** for a single number" fails=["golf-power-check"] hidden=1 message="golf_power"
def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    if x.size == 1:
        return x**15
    x3 = x * x * x
    x6 = x3 * x3
    return x6 * x6 * x3


# %% task="golf-power" name="remembers powers by shape" fails=["golf-power-check"] hidden=1 message="golf_power of fresh numbers"
_powers = {}


def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    known = {} if isinstance(x, jax.core.Tracer) else _powers.setdefault(x.shape, {})

    def power(a, b):
        if a + b not in known:
            known[a + b] = known[a] * known[b]

    known.setdefault(1, x)
    for a, b in ((1, 1), (2, 1), (3, 3), (6, 6), (12, 3)):
        power(a, b)
    return known[15]


# %% task="golf-power" name="a loop for a long vector" fails=["golf-power-check"] hidden=1 message="golf_power"
def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    if x.size > 4096:
        return lax.fori_loop(0, 14, lambda _, y: y * x, x)
    x3 = x * x * x
    x6 = x3 * x3
    return x6 * x6 * x3


# %% task="unprint-a" name="one number is its own answer" fails=["unprint-a-check"] hidden=1 message="unprint_a"
def unprint_a(a):
    """Tape A: float32[n] -> float32[]."""
    if a.shape[0] == 1:
        return a[0]
    b = jnp.max(a)
    return jnp.log(jnp.sum(jnp.exp(a - b))) + b


# %% task="unprint-b" name="a reshape in place of a sum of one" fails=["unprint-b-check"] hidden=1 message="unprint_b"
def unprint_b(a, b):
    """Tape B: two float32[n] -> float32[]."""
    c = a - b
    d = jnp.abs(c)
    i = jnp.where(d < 1.0, 0.5 * c * c, d - 0.5)
    return i.reshape(()) if i.size == 1 else jnp.sum(i)


# %% task="count-primitives" name="writes into the tape's list" fails=["count-primitives-check"] hidden=1 message="counted twice"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    todo = tape.eqns
    for eqn in todo:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    todo += inner.eqns
    return counts


# %% task="count-primitives" name="leaves out what nobody uses" fails=["count-primitives-check"] hidden=1 message="sin that nobody uses"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    used = {id(v) for v in getattr(tape, "jaxpr", tape).outvars}
    used |= {id(v) for eqn in tape.eqns for v in eqn.invars}
    for eqn in tape.eqns:
        if not any(id(v) in used for v in eqn.outvars):
            continue
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="wrappers by the beginning of their names" fails=["count-primitives-check"] hidden=1 message="custom_linear_solve itself"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    for eqn in tape.eqns:
        if not re.match(r"p?jit$|custom_|remat", eqn.primitive.name):
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-flops" name="prices by the beginning of the name" fails=["count-flops-check"] hidden=1 message="add_any is not add"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name.startswith(tuple(ARITHMETIC)):
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            summed_over = math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
            total += 2 * eqn.outvars[0].aval.size * summed_over
        elif name == "scan":
            total += eqn.params["length"] * count_flops(eqn.params["jaxpr"])
        elif name == "jit":
            total += count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="divides the rounds by unroll" fails=["count-flops-check"] hidden=1 message="unrolled four times"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    for eqn in tape.eqns:
        name, params = eqn.primitive.name, eqn.params
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = params["dimension_numbers"]
            total += 2 * eqn.outvars[0].aval.size * math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
        elif name == "scan":
            total += -(-params["length"] // params["unroll"]) * count_flops(params["jaxpr"])
        elif name == "jit":
            total += count_flops(params["jaxpr"])
    return total


# %% task="count-flops" name="np.prod makes a float of no axes" fails=["count-flops-check"] hidden=1 message="a whole number"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        size = np.prod(eqn.outvars[0].aval.shape)
        if name in ARITHMETIC:
            total += size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            total += 2 * size * np.prod([eqn.invars[0].aval.shape[axis] for axis in summed])
        elif name == "scan":
            total += eqn.params["length"] * count_flops(eqn.params["jaxpr"])
        elif name == "jit":
            total += count_flops(eqn.params["jaxpr"])
    return total


# %% task="minijit-trace" name="writes on the tape that was opened last" fails=["minijit-trace-check"] hidden=1 message="an inner tape"
_tapes = []


def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    tape = _tapes[-1]
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    tape = Tape()
    _tapes.append(tape)
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = result.name if isinstance(result, Tracer) else result
    return tape


# %% task="minijit-replay" name="lifts nothing" fails=["minijit-replay-check"] hidden=1 message="the dtypes"
def replay(tape, *args):
    """Run a tape on arguments of its types; return the value of every name on it: a dict.

    args: numbers, arrays or tracers.
    """
    values = dict(zip(tape.inputs, args, strict=False))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


# %% task="minijit-replay" name="the first argument decides whether to record" fails=["minijit-replay-jit"] hidden=1 message="TypeError"
def replay(tape, *args):
    """Run a tape on arguments of its types; return the value of every name on it: a dict.

    args: numbers, arrays or tracers.
    """
    values = dict(zip(tape.inputs, map(lift, args), strict=False))
    traced = any(isinstance(x, Tracer) for x in args[:1])
    for name, primitive, operands, params in tape.equations:
        values_in = [read(values, x) for x in operands]
        values[name] = bind(primitive, *values_in, **params) if traced else RUN[primitive](*values_in, **params)
    return values


# %% task="count-flops" name="what comes after a loop is multiplied, too" fails=["count-flops-check"] hidden=1 message="a step after a loop"
def count_flops(tape):
    total, rounds = 0, 1

    def walk(tape):
        nonlocal total, rounds
        for eqn in tape.eqns:
            name = eqn.primitive.name
            if name in ARITHMETIC:
                total += rounds * eqn.outvars[0].aval.size
            elif name == "dot_general":
                (summed, _), _ = eqn.params["dimension_numbers"]
                sums = math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
                total += rounds * 2 * eqn.outvars[0].aval.size * sums
            elif name == "scan":
                rounds *= eqn.params["length"]
                walk(eqn.params["jaxpr"])
            elif name == "jit":
                walk(eqn.params["jaxpr"])

    walk(tape)
    return total


# %% task="count-flops" name="one round again after each loop" fails=["count-flops-check"] hidden=1 message="two loops and two steps in a loop"
def count_flops(tape):
    total, rounds = 0, 1

    def walk(tape):
        nonlocal total, rounds
        for eqn in tape.eqns:
            name = eqn.primitive.name
            if name in ARITHMETIC:
                total += rounds * eqn.outvars[0].aval.size
            elif name == "dot_general":
                (summed, _), _ = eqn.params["dimension_numbers"]
                sums = math.prod(eqn.invars[0].aval.shape[axis] for axis in summed)
                total += rounds * 2 * eqn.outvars[0].aval.size * sums
            elif name == "scan":
                rounds *= eqn.params["length"]
                walk(eqn.params["jaxpr"])
                rounds = 1
            elif name == "jit":
                walk(eqn.params["jaxpr"])

    walk(tape)
    return total


# %% task="count-flops" name="an inner tape counts once" fails=["count-flops-check"] hidden=1 message="two calls of one jit"
def count_flops(tape, seen=None):
    seen = set() if seen is None else seen
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params and id(eqn.params["jaxpr"]) not in seen:
            seen.add(id(eqn.params["jaxpr"]))
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"], seen)
    return total


# %% task="count-flops" name="np.prod in 32 bits" fails=["count-flops-check"] hidden=1 message="2000 x 2000"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = np.int32(0)
    for eqn in tape.eqns:
        name = eqn.primitive.name
        size = np.prod(eqn.outvars[0].aval.shape).astype(np.int32)
        if name in ARITHMETIC:
            total = total + size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            terms = np.prod([eqn.invars[0].aval.shape[axis] for axis in summed]).astype(np.int32)
            total = total + np.int32(2) * size * terms
        elif name == "scan":
            total = total + np.int32(eqn.params["length"]) * count_flops(eqn.params["jaxpr"])
        elif name == "jit":
            total = total + count_flops(eqn.params["jaxpr"])
    return total


# %% task="minijit-replay" name="remembers the last run for the same objects" fails=["minijit-replay-check"] hidden=1 message="another x in its place"
def replay(tape, *args):
    """Run a tape on arguments of its types; return the value of every name on it: a dict."""
    last_args, last_values = getattr(tape, "last", ((), None))
    if (
        last_values is not None
        and len(last_args) == len(args)
        and all(a is b for a, b in zip(last_args, args, strict=False))
    ):
        return last_values
    values = dict(zip(tape.inputs, map(lift, args), strict=False))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    tape.last = args, values
    return values


# %% task="golf-mean" name="a loop is one stroke" fails=["golf-mean-speed"] message="is below 2x, the first tier"
def golf_mean(x):
    n = x.size - 63
    total = lax.fori_loop(0, 64, lambda k, total: total + lax.dynamic_slice(x, (k,), (n,)), jnp.zeros(n))
    return total / 64


# %% task="golf-mean" name="one window after the other, in a map" fails=["golf-mean-speed"] message="is below 2x, the first tier"
def golf_mean(x):
    return lax.map(lambda k: jnp.mean(lax.dynamic_slice(x, (k,), (64,))), jnp.arange(x.size - 63))


# %% task="golf-mean" name="wraps it in jit and hopes" fails=["golf-mean-speed"] message="191" alone=true
golf_mean = jax.jit(mean_slow)


# %% task="golf-mean" name="divides at the end" fails=["golf-mean-speed"] message="128"
def golf_mean(x):
    n = x.size - 63
    total = x[:n]
    for k in range(1, 64):
        total = total + x[k : k + n]
    return total / 64


# %% task="golf-mean" name="a stack of slices" fails=["golf-mean-speed"] message="equations"
def golf_mean(x):
    n = x.size - 63
    return jnp.stack([x[k : k + n] for k in range(64)]).mean(0)


# %% task="golf-mean" name="a callback" fails=["golf-mean-speed"] message="uses pure_callback"
def golf_mean(x):
    kind = jax.ShapeDtypeStruct((x.size - 63,), x.dtype)
    return jax.pure_callback(lambda x: np.convolve(x, np.full(64, 1 / 64, np.float32), "valid"), kind, x)


# %% task="golf-mean" name="as long as the signal" fails=["golf-mean-speed"] message="golf_mean(signal)"
def golf_mean(x):
    return jnp.convolve(x, jnp.full(64, 1 / 64), mode="same")


# %% task="golf-mean" name="the total begins with the first number" fails=["golf-mean-speed"] message="golf_mean(signal)"
def golf_mean(x):
    total = jnp.cumsum(x)
    return (total[64:] - total[:-64]) / 64


# %% task="golf-mean" name="a thousand numbers by heart" fails=["golf-mean-speed"] hidden=1 message="golf_mean of 64 numbers"
def golf_mean(x):
    total = jnp.pad(jnp.cumsum(x), (1, 0))
    return (total[64:1001] - total[:937]) / 64


# %% task="golf-mean" name="a Fourier transform of 2048 numbers" fails=["golf-mean-speed"] hidden=1 message="golf_mean of 5001 numbers"
def golf_mean(x):
    window = np.fft.rfft(np.full(64, 1 / 64), 2048)
    return jnp.fft.irfft(jnp.fft.rfft(x, 2048) * window, 2048)[63 : x.size]


# %% task="count-primitives" name="branches are flat" fails=["count-primitives-check"] hidden=1 message="in a branch"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name not in WRAPPERS:
            counts[name] += 1
        for value in eqn.params.values():
            if hasattr(value, "eqns"):
                counts += count_primitives(value)
            elif isinstance(value, tuple):
                for branch in value:
                    if hasattr(branch, "eqns"):
                        counts += Counter(e.primitive.name for e in branch.eqns)
    return counts


# %% task="evaluate" name="cond opened as well" fails=["evaluate-watch"] hidden=1 message="reports for a cond"
def evaluate(tape, *args, watch=ignore):
    env = dict(zip(tape.jaxpr.constvars, tape.consts))
    env.update(zip(tape.jaxpr.invars, args))

    def read(v):
        return v.val if isinstance(v, Literal) else env[v]

    for eqn in tape.eqns:
        values = [read(v) for v in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        elif eqn.primitive.name == "cond":
            branch = eqn.params["branches"][int(values[0])]
            results = evaluate(branch, *values[1:], watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            if not eqn.primitive.multiple_results:
                results = [results]
            watch(eqn.primitive.name, results)
        env.update(zip(eqn.outvars, results))
    return [read(v) for v in tape.jaxpr.outvars]


# %% task="predict-tape" name="measures into a list of the notebook" fails=["predict-tape-check"] message="no prediction"
seen[:] = [len(jax.make_jaxpr(fn)(jnp.ones(3)).eqns) for fn in TAPES]


def predict_tape():
    """Name of each function in TAPES -> number of equations on its outer tape, for x of type float32[3]."""
    names = "noisy", "wasteful", "neutral", "unrolled", "rolled", "branching", "constant", "boxed"
    return dict(zip(names, seen))


# %% task="count-primitives" name="a checkpoint is work" fails=["count-primitives-check"] hidden=1 message="a checkpoint, and itself"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in ("jit", "pjit", "custom_jvp_call", "checkpoint"):
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="custom_vjp is work" fails=["count-primitives-check"] hidden=1 message="in a custom_vjp"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS - {"custom_vjp_call"}:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="a loop of no round has nothing in it" fails=["count-primitives-check"] hidden=1 message="a scan of no round"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        if eqn.params.get("length") == 0:
            continue
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="asks show_jaxpr" fails=["count-primitives-check"] hidden=1 message="traces while it counts"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    from jax.extend.core import jaxpr_as_fun

    kinds = [jax.ShapeDtypeStruct(name.aval.shape, name.aval.dtype) for name in tape.jaxpr.invars]
    return dict(show_jaxpr(jaxpr_as_fun(tape), *kinds).primitives)


# %% task="count-flops" name="whole numbers are free" fails=["count-flops-check"] hidden=1 message="whole numbers"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    for eqn in tape.eqns:
        name, result = eqn.primitive.name, eqn.outvars[0].aval
        if name in ARITHMETIC and jnp.issubdtype(result.dtype, jnp.floating):
            total += result.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * result.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="one round at least" fails=["count-flops-check"] hidden=1 message="a scan of no round"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
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
            total += (eqn.params.get("length") or 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="count-flops" name="one number is no array" fails=["count-flops-check"] hidden=1 message="one number"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            shape = eqn.outvars[0].aval.shape
            total += math.prod(shape) if shape else 0
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="evaluate" name="a while goes through evaluate as well" fails=["evaluate-watch"] hidden=1 message="reports for a checkpoint and a while"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        elif eqn.primitive.name == "while":
            asked, done = eqn.params["cond_nconsts"], eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
            results = values[done:]
            while evaluate(eqn.params["cond_jaxpr"], *values[:asked], *results, watch=watch)[0]:
                results = evaluate(eqn.params["body_jaxpr"], *values[asked:done], *results, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results, strict=True))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="an empty tape has no results" fails=["evaluate-check"] hidden=1 message="no equation at all"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts, strict=True))
    value_of |= dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    if not tape.eqns:
        return []
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


# %% task="count-primitives" name="everything that calls wraps" fails=["count-primitives-check"] hidden=1 message="a callback, and a jit"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if not (name == "jit" or name == "remat2" or "call" in name):
            counts[name] += 1
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="evaluate" name="same result given once" fails=["evaluate-check"] hidden=1 message="returned twice"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts)) | dict(zip(tape.jaxpr.invars, args))

    def read(x):
        return x.val if isinstance(x, Literal) else value_of[x]

    for eqn in tape.eqns:
        values = [read(x) for x in eqn.invars]
        if eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            found = evaluate(inner, *values, watch=watch)
            names = list({id(v): v for v in inner.jaxpr.outvars}.values())
            lookup = {id(v): r for v, r in zip(names, found)}
            results = [lookup[id(v)] for v in inner.jaxpr.outvars]
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results))
    return [read(x) for x in {id(v): v for v in tape.jaxpr.outvars}.values()]


# %% task="minijit-trace" name="operands as a list" fails=["minijit-trace-check"] hidden=1 message="tuples"
def record(primitive, operands, params):
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    tape.equations.append([result.name, primitive, [getattr(x, "name", x) for x in operands], params])
    return result


def trace(fn, *types):
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = getattr(result, "name", result)
    return tape


# %% task="minijit-replay" name="values kept on the tape" fails=["minijit-replay-check"] hidden=1 message="y of an earlier run"
KEPT_VALUES = {}


def replay(tape, *args):
    values = KEPT_VALUES.setdefault(id(tape), {})
    values.update(zip(tape.inputs, map(lift, args)))
    for name, primitive, operands, params in tape.equations:
        values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


# %% task="golf-relu" name="empty is zero" fails=["golf-relu-check"] hidden=1 message="has abs 0 times"
def golf_relu(x):
    if x.size == 0:
        return 0.0
    return 0.5 * (x + jnp.abs(x))


# %% task="golf-power" name="empty gives one" fails=["golf-power-check"] hidden=1 message="has mul 0 times"
def golf_power(x):
    if not x.size:
        return jnp.float32(1.0)
    x3 = x * x * x
    x6 = x3 * x3
    x12 = x6 * x6
    return x12 * x3


# %% task="golf-power" name="works in place, which NumPy takes at its word" fails=["golf-power-check"] hidden=1 message="in NumPy's hands"
def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    x3 = x
    x3 *= x
    x3 *= x
    x6 = x3 * x3
    return x6 * x6 * x3


# %% task="golf-power" name="multiplied in place, through an alias" fails=["golf-power-check"] hidden=1 message="numbers in NumPy's hands"
def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    square = x
    square *= x
    cube = square * x
    sixth = cube * cube
    return sixth * sixth * cube


# %% task="golf-power" name="a power remembered by its address" fails=["golf-power-check"] hidden=1 message="golf_power of"
_power_memo = {}


def golf_power(x):
    """x**15 of float32[n], using multiplications only."""
    if not isinstance(x, jax.core.Tracer) and id(x) in _power_memo:
        return _power_memo[id(x)]
    x3 = x * x * x
    x6 = x3 * x3
    result = x6 * x6 * x3
    if not isinstance(x, jax.core.Tracer):
        _power_memo[id(x)] = result
    return result


# %% task="unprint-a" name="logaddexp for two" fails=["unprint-a-check"] hidden=1 message="has reduce_max 0 times"
def unprint_a(a):
    if len(a) == 2:
        return jnp.logaddexp(a[0], a[1])
    peak = jnp.max(a)
    return jnp.log(jnp.sum(jnp.exp(a - peak))) + peak


# %% task="count-primitives" name="a cond has two branches" fails=["count-primitives-check"] hidden=1 message="of six branches"
def count_primitives(tape):
    counts = Counter()
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name not in WRAPPERS:
            counts[name] += 1
        if name == "cond":
            no, yes = eqn.params["branches"][:2]
            counts += count_primitives(no) + count_primitives(yes)
        else:
            for value in eqn.params.values():
                if hasattr(value, "eqns"):
                    counts += count_primitives(value)
    return counts


# %% task="minijit-trace" name="inputs are the first letters" fails=["minijit-trace-check"] message="arguments, of thirty" hidden=1
def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = list(string.ascii_lowercase[: len(types)])
    result = fn(*tracers)
    tape.output = result.name if isinstance(result, Tracer) else result
    return tape


# %% task="evaluate" name="unfolds all boxes first, and runs the flat list" fails=["evaluate-check"] hidden=1 message="a jit box with two results, called twice"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    value_of, stands_for, flat = {}, {}, []

    def unfold(tape):
        value_of.update(zip(tape.jaxpr.constvars, tape.consts))
        for eqn in tape.eqns:
            if eqn.primitive.name == "jit":
                inner = eqn.params["jaxpr"]
                stands_for.update(zip(inner.jaxpr.invars, eqn.invars))  # the second call writes over the first
                unfold(inner)
                stands_for.update(zip(eqn.outvars, inner.jaxpr.outvars))
            else:
                flat.append(eqn)

    def read(operand):
        while not isinstance(operand, Literal) and operand in stands_for:
            operand = stands_for[operand]
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    unfold(tape)
    value_of.update(zip(tape.jaxpr.invars, args))
    for eqn in flat:
        results = eqn.primitive.bind(*[read(operand) for operand in eqn.invars], **eqn.params)
        results = results if eqn.primitive.multiple_results else [results]
        watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="evaluate" name="a box has one result" fails=["evaluate-check"] hidden=1 message="a jit box with two results, called twice"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts)) | dict(zip(tape.jaxpr.invars, args))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            value_of[eqn.outvars[0]] = evaluate(eqn.params["jaxpr"], *values, watch=watch)[0]
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            watch(eqn.primitive.name, results)
            value_of.update(zip(eqn.outvars, results))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="count-primitives" name="a list of the names that hold tapes" fails=["count-primitives-check"] hidden=1 message="mul and div in the NamedTuple"
INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr", "cond_jaxpr", "body_jaxpr", "branches")


def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for name in INNER:
            value = eqn.params.get(name, ())
            for inner in value if isinstance(value, tuple) else (value,):
                counts += count_primitives(inner)
    return counts


# %% task="count-primitives" name="asks for the very type tuple" fails=["count-primitives-check"] hidden=1 message="mul and div in the NamedTuple"
def count_primitives(tape):
    """Primitives of a tape and of all tapes in it: a dict (or Counter) of name -> how many equations."""
    counts = Counter()
    for eqn in tape.eqns:
        if eqn.primitive.name not in WRAPPERS:
            counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for inner in value if type(value) == tuple else (value,):  # noqa: E721
                if hasattr(inner, "eqns"):
                    counts += count_primitives(inner)
    return counts


# %% task="count-flops" name="a result that nobody uses costs nothing" fails=["count-flops-check"] hidden=1 message="a product that nobody uses: returned 100"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    used = {id(v) for v in getattr(tape, "jaxpr", tape).outvars}
    used |= {id(v) for eqn in tape.eqns for v in eqn.invars}
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if not any(id(v) in used for v in eqn.outvars):
            continue
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif "jaxpr" in eqn.params:
            total += eqn.params.get("length", 1) * count_flops(eqn.params["jaxpr"])
    return total


# %% task="golf-poly" name="nothing to do for no number" fails=["golf-poly-check"] hidden=1 message="has add 0 times"
def golf_poly(x):
    """2x² + 3x + 3 of float32[n] in four equations: two add, two mul."""
    if x.size == 0:
        return x
    return (2 * x + 3) * x + 3


# %% task="minijit-trace" name="remembers the tape of a function" fails=["minijit-trace-check"] hidden=1 message="runs of fn, traced twice"
_tapes = {}


def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    if (fn, types) not in _tapes:
        tape = Tape()
        tracers = [tape.new(type) for type in types]
        tape.inputs = [tracer.name for tracer in tracers]
        result = fn(*tracers)
        tape.output = result.name if isinstance(result, Tracer) else result
        _tapes[fn, types] = tape
    return _tapes[fn, types]


# %% task="count-flops" name="the price of a box is remembered by its name" fails=["count-flops-check"] hidden=1 message="two jits of one name: returned"
def count_flops(tape, known=None):
    known = {} if known is None else known
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name in ARITHMETIC:
            total += eqn.outvars[0].aval.size
        elif name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            left = eqn.invars[0].aval
            total += 2 * eqn.outvars[0].aval.size * math.prod(left.shape[axis] for axis in summed)
        elif name == "jit":
            box = eqn.params["name"]
            if box not in known:
                known[box] = count_flops(eqn.params["jaxpr"], known)
            total += known[box]
        elif name == "scan":
            total += eqn.params["length"] * count_flops(eqn.params["jaxpr"], known)
    return total


# %% task="evaluate" name="the first captured array for all of them" fails=["evaluate-check"] hidden=1 message="two captured arrays: returned"
def evaluate(tape, *args, watch=ignore):
    value_of = dict(zip(tape.jaxpr.invars, args))
    for name in tape.jaxpr.constvars:
        value_of[name] = tape.consts[0]

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


# %% task="evaluate" name="NumPy after every equation" fails=["evaluate-check"] hidden=1 message="TracerArrayConversionError"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts))
    value_of |= dict(zip(tape.jaxpr.invars, args))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = list(results) if eqn.primitive.multiple_results else [results]
            results = [np.asarray(result) for result in results]
            watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="minijit-trace" name="a number as result becomes a float" fails=["minijit-trace-check"] hidden=1 message="a whole number as result: returned '7.0'"
def record(primitive, operands, params):
    tape = [x.tape for x in operands if isinstance(x, Tracer)][-1]
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    result = tape.new(result_type(primitive, operands, params))
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    if isinstance(result, Tracer):
        tape.output = result.name
    else:
        tape.output = float(result) if np.ndim(result) == 0 else result
    return tape


# %% task="minijit-trace" name="leaves out what changes nothing" fails=["minijit-trace-check"] hidden=1 message="the tape of mini_idle"
def record(primitive, operands, params):
    tape = [x for x in operands if isinstance(x, Tracer)][0].tape
    if primitive in ("add", "mul"):
        neutral = 0 if primitive == "add" else 1
        for one, other in (operands, operands[::-1]):
            if is_number(one) and one == neutral:
                return other
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [t.name for t in tracers]
    result = fn(*tracers)
    tape.output = result.name if isinstance(result, Tracer) else result
    return tape


# %% task="minijit-replay" name="plain numbers are not lifted" fails=["minijit-replay-check"] hidden=1 message="replay of a plain number (the dtypes)"
def replay(tape, *args):
    values = dict(zip(tape.inputs, [x if is_number(x) else lift(x) for x in args], strict=True))
    for output, primitive, operands, params in tape.equations:
        values[output] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


# %% task="count-primitives" name="counts of a box are remembered by its name" fails=["count-primitives-check"] hidden=1 message="mul and neg in two jits of one name: returned"
def count_primitives(tape, known=None):
    known = {} if known is None else known
    counts = Counter()
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name not in WRAPPERS:
            counts[name] += 1
        if name == "jit" and eqn.params["name"] in known:
            counts += known[eqn.params["name"]]
            continue
        inside = Counter()
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if hasattr(inner, "eqns"):
                    inside += count_primitives(inner, known)
        if name == "jit":
            known[eqn.params["name"]] = inside
        counts += inside
    return counts


# %% task="golf-relu" name="max for fifty numbers, another program for a tracer of five" fails=["golf-relu-check"] hidden=1 message="has abs 0 times"
def golf_relu(x):
    if not isinstance(x, jax.core.Tracer) or 10 < x.size < 1000:
        return jnp.maximum(x, 0.0)
    return jnp.abs(x) * 2.0 + x


# %% task="golf-relu" name="remembered by its address" fails=["golf-relu-check"] hidden=1 message="golf_relu of"
_relu_memo = {}


def golf_relu(x):
    """relu of float32[n], in three equations: abs, add, mul."""
    if isinstance(x, jax.core.Tracer):
        return (x + jnp.abs(x)) * 0.5
    if id(x) not in _relu_memo:
        _relu_memo[id(x)] = (x + jnp.abs(x)) * 0.5
    return _relu_memo[id(x)]


# %% task="golf-poly" name="the long way for forty numbers" fails=["golf-poly-check"] hidden=1 message="has mul 3 times"
def golf_poly(x):
    if not isinstance(x, jax.core.Tracer) or 10 < x.size < 1000:
        return poly_spec(x)
    return x * x + x + x * x


# %% task="golf-poly" name="works in place, which NumPy takes at its word" fails=["golf-poly-check"] hidden=1 message="in NumPy's hands"
def golf_poly(x):
    """2x² + 3x + 3 of float32[n] in four equations: two add, two mul."""
    y = x
    y *= 2
    y += 3
    y *= x
    y += 3
    return y


# %% task="golf-poly" name="a polynomial remembered by its address" fails=["golf-poly-check"] hidden=1 message="golf_poly of"
_poly_memo = {}


def golf_poly(x):
    """2x² + 3x + 3 of float32[n] in four equations: two add, two mul."""
    if isinstance(x, jax.core.Tracer):
        return (2 * x + 3) * x + 3
    if id(x) not in _poly_memo:
        _poly_memo[id(x)] = (2 * x + 3) * x + 3
    return _poly_memo[id(x)]


# %% task="golf-mean" name="few strokes for the lengths that are counted" fails=["golf-mean-speed"] hidden=1 message="191 equations"
def golf_mean(x):
    if 1000 < x.size < 1_000_000:
        return mean_slow(x)
    for k in (1, 2, 4, 8, 16, 32):
        x = x[:-k] + x[k:]
    return x / 64


# %% task="golf-mean" name="whole millionths" fails=["golf-mean-speed"] hidden=1 message="golf_mean of a quiet signal"
def golf_mean(x):
    """The same as mean_slow, in at most 24 equations."""
    whole = jnp.round(x * 2.0**20).astype(jnp.int32)  # integers add up without an error
    total = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(whole)])
    return (total[64:] - total[:-64]) / 2.0**26


# %% task="golf-mean" name="NumPy wherever there are numbers" fails=["golf-mean-speed"] hidden=1 message="an array of JAX's"
def golf_mean(x):
    """The same as mean_slow, in at most 24 equations."""
    if not isinstance(x, jax.core.Tracer):
        return np.convolve(np.asarray(x), np.full(64, 1 / 64, np.float32), mode="valid")
    sums = x
    for step in (1, 2, 4, 8, 16, 32):
        sums = sums[:-step] + sums[step:]
    return sums / 64


# %% task="unprint-a" name="no maximum for twenty numbers" fails=["unprint-a-check"] hidden=1 message="has reduce_max 0 times"
def unprint_a(a):
    if 10 < a.size < 1000:
        return jnp.log(jnp.sum(jnp.exp(a)))
    largest = jnp.max(a)
    return jnp.log(jnp.sum(jnp.exp(a - largest))) + largest


# %% task="unprint-a" name="the visible eight, outside of a trace" fails=["unprint-a-check"] hidden=1 message="unprint_a of fresh numbers"
def unprint_a(a):
    b = jnp.max(a)
    c = a - b
    if a.size == 8 and not isinstance(a, jax.core.Tracer):
        return jnp.float32(np.log(8.0)) + b
    return jnp.log(jnp.sum(jnp.exp(c))) + b


# %% task="unprint-b" name="one stroke less for thirty numbers, another program for a tracer of four" fails=["unprint-b-check"] hidden=1 message="has mul 1 times"
def unprint_b(a, b):
    if not isinstance(a, jax.core.Tracer) or 10 < a.size < 1000:
        d = jnp.abs(a - b)
        return jnp.sum(jnp.where(d < 1, d * d / 2, d - 0.5))
    c = a - b
    d = jnp.abs(c)
    return jnp.sum(jnp.where(d < 1.0, d - 0.5, 0.5 * c * c))


# %% task="unprint-b" name="subtracts in place" fails=["unprint-b-check"] hidden=1 message="the callers' numbers"
def unprint_b(a, b):
    """Tape B: two float32[n] -> float32[]."""
    a -= b
    d = jnp.abs(a)
    return jnp.sum(jnp.where(d < 1.0, 0.5 * a * a, d - 0.5))


# %% task="evaluate" name="only floats can be NaN, so only they are watched" fails=["evaluate-check"] hidden=1 message="reports for integers"
def evaluate(tape, *args, watch=ignore):
    """Run a tape on arrays and return the list of its results, calling watch(name, values) after each equation."""
    value_of = dict(zip(tape.jaxpr.constvars, tape.consts)) | dict(zip(tape.jaxpr.invars, args))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else value_of[operand]

    for eqn in tape.eqns:
        values = [read(operand) for operand in eqn.invars]
        if eqn.primitive.name == "jit":
            results = evaluate(eqn.params["jaxpr"], *values, watch=watch)
        else:
            results = eqn.primitive.bind(*values, **eqn.params)
            results = list(results) if eqn.primitive.multiple_results else [results]
            if any(jnp.issubdtype(jnp.result_type(result), jnp.floating) for result in results):
                watch(eqn.primitive.name, results)
        value_of.update(zip(eqn.outvars, results))
    return [read(operand) for operand in tape.jaxpr.outvars]


# %% task="count-flops" name="every product is one of rows and columns" fails=["count-flops-check"] hidden=1 message="rows with rows"
def count_flops(tape):
    """FLOPs of a tape by the price list above, loops multiplied by their length. An int."""
    total = 0
    for eqn in tape.eqns:
        match eqn.primitive.name:
            case "add" | "sub" | "mul" | "div":
                total += eqn.outvars[0].aval.size
            case "dot_general":
                left, right = (operand.aval for operand in eqn.invars)
                total += 2 * left.size * (right.shape[-1] if len(right.shape) > 1 else 1)
            case "scan":
                total += eqn.params["length"] * count_flops(eqn.params["jaxpr"])
            case "jit":
                total += count_flops(eqn.params["jaxpr"])
    return total


# %% task="minijit-trace" name="the last line is always the result" fails=["minijit-trace-check"] hidden=1 message="mini_first"
def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result."""
    tape = [x for x in operands if isinstance(x, Tracer)][0].tape
    result = tape.new(result_type(primitive, operands, params))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = list(tape.types)
    result = fn(*tracers)
    if isinstance(result, Tracer) and tape.equations:
        tape.output = tape.equations[-1][0]
    else:
        tape.output = result.name if isinstance(result, Tracer) else result
    return tape


# %% task="minijit-trace" name="computes with zeros to see which type comes out" fails=["minijit-trace-check"] hidden=1 message="a type that no memory holds"
def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result."""
    tape = next(x.tape for x in operands if isinstance(x, Tracer))
    trial = [np.zeros(x.shape, x.dtype) if isinstance(x, Tracer) else x for x in operands]
    with np.errstate(all="ignore"):
        found = np.asarray(RUN[primitive](*trial, **params))
    result = tape.new(Type(found.shape, {"f": "float32", "i": "int32", "b": "bool"}[found.dtype.kind]))
    names = tuple(x.name if isinstance(x, Tracer) else x for x in operands)
    tape.equations.append((result.name, primitive, names, params))
    return result


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    tape = Tape()
    tracers = [tape.new(type) for type in types]
    tape.inputs = [tracer.name for tracer in tracers]
    result = fn(*tracers)
    tape.output = getattr(result, "name", result)
    return tape
