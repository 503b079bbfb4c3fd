# %% [markdown]
# Right answers to unit 02 in other styles than the solution's. Each replaces its whole solution cell and must earn
# every point of the checks of its task, visible and hidden.

# %% task="golf-relu" name="the half in front, jitted"
@jax.jit
def golf_relu(x):
    return 0.5 * (abs(x) + x)


# %% task="golf-relu" name="one number, and vmap"
golf_relu = jax.vmap(lambda value: (value + jnp.abs(value)) * 0.5)


# %% task="golf-relu" name="a fold over both halves"
def golf_relu(x):
    from functools import reduce
    from operator import add

    return jnp.multiply(reduce(add, (x, lax.abs(x))), 0.5)


# %% task="golf-poly" name="a fold over the coefficients"
def golf_poly(x):
    from functools import reduce

    return reduce(lambda y, coefficient: y * x + coefficient, (3, 3), 2)


# %% task="golf-poly" name="completes the square"
def golf_poly(x):
    shifted = x + 0.75
    return 2 * (shifted * shifted) + 1.875


# %% task="golf-poly" name="takes x out of two terms, jitted inside"
factored = jax.jit(lambda x: 2 * x * (x + 1.5))


def golf_poly(x):
    return jnp.add(3, factored(x))


# %% task="golf-power" name="the fifth power first"
def golf_power(x):
    x2 = x * x
    x4 = x2 * x2
    x5 = x4 * x
    x10 = x5 * x5
    return x10 * x5


# %% task="golf-power" name="an addition chain as a table"
def golf_power(x):
    powers = [x]
    for i, j in ((0, 0), (0, 1), (2, 2), (3, 3), (4, 2)):  # 2, 3, 6, 12, 15
        powers.append(powers[i] * powers[j])
    return powers[-1]


# %% task="golf-power" name="functions of functions, jitted"
def cubed(x):
    return jnp.multiply(x, jnp.multiply(x, x))


@jax.jit
def to_the_fifth(x):
    fourth = jax.jit(lambda y: y * y)(x * x)
    return fourth * x


golf_power = jax.jit(lambda x: to_the_fifth(cubed(x)))


# %% task="golf-mean" name="differences of a running total"
def golf_mean(x):
    total = jnp.pad(jnp.cumsum(x), (1, 0))
    return (total[64:] - total[:-64]) / 64


# %% task="golf-mean" name="a convolution"
WINDOW = np.full(64, 1 / 64, np.float32)


def golf_mean(x):
    return jnp.convolve(x, WINDOW, mode="valid")


# %% task="golf-mean" name="reduce_window"
def golf_mean(x):
    return lax.reduce_window(x, 0.0, lax.add, window_dimensions=(64,), window_strides=(1,), padding="VALID") / 64


# %% task="golf-mean" name="four at a time, three times, in a helper"
def of_four(x, step):
    n = x.size - 3 * step
    return x[:n] + x[step : n + step] + x[2 * step : n + 2 * step] + x[3 * step :]


def golf_mean(x):
    for step in (1, 4, 16):
        x = of_four(x, step)
    return x / 64


# %% task="golf-mean" name="doubles, jitted, the division first"
@jax.jit
def golf_mean(x):
    sums, width = jnp.multiply(x, 1 / 64), 1
    while width < 64:
        sums, width = lax.add(sums[:-width], sums[width:]), 2 * width
    return sums


# %% task="unprint-a" name="methods"
def unprint_a(a):
    b = a.max()
    return b + jnp.log(jnp.exp(a - b).sum(axis=0))


# %% task="unprint-a" name="the part without the maximum in a jit"
@jax.jit
def log_of_the_sum(shifted):
    return jnp.log(jnp.sum(jnp.exp(shifted)))


def unprint_a(a):
    top = jnp.max(a)
    return jnp.add(log_of_the_sum(a - top), top)


# %% task="unprint-a" name="line by line, with the names of the tape"
def unprint_a(a):
    b = jnp.max(a, axis=0)
    c = jnp.subtract(a, b)
    d = lax.exp(c)
    e = jnp.sum(d, axis=0)
    f = lax.log(e)
    g = lax.add(f, b)
    return g


# %% task="unprint-b" name="select_n itself, line by line"
def unprint_b(a, b):
    c = a - b
    d = lax.abs(c)
    e = d < 1.0
    f = 0.5 * c
    g = f * c
    h = d - 0.5
    i = lax.select_n(e, h, g)
    return jnp.sum(i)


# %% task="unprint-b" name="the loss of one number, and vmap"
def huber(error):
    far = abs(error)
    return jnp.where(far < 1, error * 0.5 * error, far - 0.5)


def unprint_b(a, b):
    return jax.vmap(lambda one, other: huber(one - other))(a, b).sum()


# %% task="unprint-b" name="small functions in a jit"
@jax.jit
def unprint_b(a, b):
    def parabola(c):
        return c * (c * 0.5)

    def line(d):
        return jnp.subtract(d, 0.5)

    c = jnp.subtract(a, b)
    d = jnp.abs(c)
    return jnp.sum(jnp.where(jnp.less(d, 1.0), parabola(c), line(d)), axis=0)


# %% task="count-primitives" name="a list of tapes still to read"
def count_primitives(tape):
    counts, waiting = {}, [tape]
    while waiting:
        for eqn in waiting.pop().eqns:
            name = eqn.primitive.name
            if name not in WRAPPERS:
                counts[name] = counts.get(name, 0) + 1
            for value in eqn.params.values():
                candidates = value if isinstance(value, (list, tuple)) else [value]
                waiting += [candidate for candidate in candidates if hasattr(candidate, "eqns")]
    return counts


# %% task="count-primitives" name="generators, and a Counter at the end"
def all_equations(tape):
    for eqn in tape.eqns:
        yield eqn
        for value in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
            if hasattr(value, "eqns"):
                yield from all_equations(value)


def count_primitives(tape):
    names = (eqn.primitive.name for eqn in all_equations(tape))
    return Counter(name for name in names if name not in WRAPPERS)


# %% task="count-primitives" name="a sum of Counters, wrappers taken out at the end"
def count_primitives(tape):
    def inner(eqn):
        for value in eqn.params.values():
            if hasattr(value, "eqns"):
                yield value
            elif isinstance(value, tuple):
                yield from (part for part in value if hasattr(part, "eqns"))

    def walk(tape):
        own = Counter([eqn.primitive.name for eqn in tape.eqns])
        return sum((walk(box) for eqn in tape.eqns for box in inner(eqn)), start=own)

    return {name: number for name, number in walk(tape).items() if name not in WRAPPERS}


# %% task="count-primitives" name="a class that visits"
class Visitor:
    def __init__(self):
        self.seen = []

    def visit(self, thing):
        if hasattr(thing, "eqns"):
            for eqn in thing.eqns:
                self.seen.append(eqn.primitive.name)
                self.visit(tuple(eqn.params.values()))
        elif isinstance(thing, tuple):
            for part in thing:
                self.visit(part)


def count_primitives(tape):
    visitor = Visitor()
    visitor.visit(tape)
    return {name: visitor.seen.count(name) for name in set(visitor.seen) - WRAPPERS}


# %% task="count-flops" name="one price for each equation, summed"
def price_of(eqn):
    match eqn.primitive.name:
        case "add" | "sub" | "mul" | "div":
            return eqn.outvars[0].aval.size
        case "dot_general":
            (axes, _), _ = eqn.params["dimension_numbers"]
            summed = np.prod([eqn.invars[0].aval.shape[axis] for axis in axes], dtype=int)
            return 2 * eqn.outvars[0].aval.size * summed
        case "scan":
            return eqn.params["length"] * count_flops(eqn.params["jaxpr"])
        case "jit":
            return count_flops(eqn.params["jaxpr"])
    return 0


def count_flops(tape):
    return sum(price_of(eqn) for eqn in tape.eqns)


# %% task="count-flops" name="a list of tapes, each with how often it runs"
def count_flops(tape):
    flops, waiting = 0, [(tape, 1)]
    while waiting:
        tape, times = waiting.pop()
        for eqn in tape.eqns:
            name, out = eqn.primitive.name, eqn.outvars[0].aval if eqn.outvars else None
            if name in ARITHMETIC:
                flops += times * math.prod(out.shape)
            elif name == "dot_general":
                ((left_axes, _), (left_batch, _)) = eqn.params["dimension_numbers"]
                left = eqn.invars[0].aval.shape
                kept = set(range(len(left))) - set(left_axes) - set(left_batch)
                free_of_the_right = out.size // math.prod(left[axis] for axis in kept | set(left_batch))
                flops += times * 2 * math.prod(left) * free_of_the_right
            elif name in ("scan", "jit"):
                waiting.append((eqn.params["jaxpr"], times * eqn.params.get("length", 1)))
    return flops


# %% task="count-flops" name="a table of prices"
def of_product(eqn):
    contracted, _ = eqn.params["dimension_numbers"]
    flops = 2 * eqn.outvars[0].aval.size
    for axis in contracted[1]:
        flops *= eqn.invars[1].aval.shape[axis]
    return flops


PRICES = {name: lambda eqn: eqn.outvars[0].aval.size for name in ARITHMETIC}
PRICES["dot_general"] = of_product
PRICES["jit"] = lambda eqn: count_flops(eqn.params["jaxpr"])
PRICES["scan"] = lambda eqn: eqn.params["length"] * PRICES["jit"](eqn)


def count_flops(tape):
    return sum(PRICES.get(eqn.primitive.name, lambda eqn: 0)(eqn) for eqn in tape.eqns)


# %% task="evaluate" name="a machine with memory"
class Machine:
    def __init__(self, tape, args, watch):
        self.tape, self.watch, self.memory = tape, watch, {}
        self.write(tape.jaxpr.constvars, tape.consts)
        self.write(tape.jaxpr.invars, args)

    def write(self, names, values):
        for name, value in zip(names, values):
            self.memory[name] = value

    def read(self, operand):
        return operand.val if isinstance(operand, Literal) else self.memory[operand]

    def step(self, eqn):
        values = list(map(self.read, eqn.invars))
        if eqn.primitive.name == "jit":
            return Machine(eqn.params["jaxpr"], values, self.watch).run()
        results = eqn.primitive.bind(*values, **eqn.params)
        if not eqn.primitive.multiple_results:
            results = [results]
        self.watch(eqn.primitive.name, list(results))
        return results

    def run(self):
        for eqn in self.tape.eqns:
            self.write(eqn.outvars, self.step(eqn))
        return [self.read(operand) for operand in self.tape.jaxpr.outvars]


def evaluate(tape, *args, watch=ignore):
    return Machine(tape, args, watch).run()


# %% task="evaluate" name="names of inner tapes in the same dict"
def evaluate(tape, *args, watch=ignore):
    memory = {}

    def look(operand):
        return getattr(operand, "val", None) if isinstance(operand, Literal) else memory[operand]

    def run(tape, args):
        jaxpr = tape.jaxpr
        memory.update(zip([*jaxpr.constvars, *jaxpr.invars], [*tape.consts, *args]))
        for eqn in jaxpr.eqns:
            operands = [look(operand) for operand in eqn.invars]
            if eqn.primitive.name == "jit":
                out = run(eqn.params["jaxpr"], operands)
            else:
                out = eqn.primitive.bind(*operands, **eqn.params)
                out = list(out) if eqn.primitive.multiple_results else [out]
                watch(eqn.primitive.name, out)
            memory.update(zip(eqn.outvars, out))
        return [look(operand) for operand in jaxpr.outvars]

    return run(tape, args)


# %% task="evaluate" name="ChainMap of constants, arguments and results"
from collections import ChainMap


def evaluate(tape, *args, watch=ignore):
    constants = {name: value for name, value in zip(tape.jaxpr.constvars, tape.consts)}
    arguments = {name: value for name, value in zip(tape.jaxpr.invars, args)}
    made = {}
    scope = ChainMap(made, arguments, constants)
    value = lambda operand: operand.val if type(operand) is Literal else scope[operand]
    for eqn in tape.eqns:
        inputs = tuple(value(operand) for operand in eqn.invars)
        match eqn.primitive.name:
            case "jit":
                outputs = evaluate(eqn.params["jaxpr"], *inputs, watch=watch)
            case name:
                outputs = eqn.primitive.bind(*inputs, **eqn.params)
                if not eqn.primitive.multiple_results:
                    outputs = [outputs]
                watch(name, outputs)
        for name, output in zip(eqn.outvars, outputs):
            made[name] = output
    return [value(operand) for operand in tape.jaxpr.outvars]


# %% task="minijit-trace" name="getattr, and inputs read off the tape"
def record(primitive, operands, params):
    tapes = [x.tape for x in operands if isinstance(x, Tracer)]
    tracer = tapes[0].new(result_type(primitive, operands, params))
    names = tuple([getattr(x, "name", x) for x in operands])
    tapes[0].equations += [(tracer.name, primitive, names, params)]
    return tracer


def trace(fn, *types):
    tape = Tape()
    tracers = list(map(tape.new, types))
    tape.inputs = list(tape.types)
    result = fn(*tracers)
    tape.output = getattr(result, "name", result)
    return tape


# %% task="minijit-trace" name="a set of tapes, a loop over operands"
def record(primitive, operands, params):
    (tape,) = {x.tape for x in operands if isinstance(x, Tracer)}
    type = result_type(primitive, operands, params)
    written = []
    for x in operands:
        if isinstance(x, Tracer):
            x = x.name
        written.append(x)
    result = tape.new(type)
    tape.equations.append((result.name, primitive, tuple(written), dict(params)))
    return result


def trace(fn, *types):
    tape, tracers = Tape(), []
    for type in types:
        tracer = tape.new(type)
        tape.inputs.append(tracer.name)
        tracers.append(tracer)
    tape.output = fn(*tracers)
    if isinstance(tape.output, Tracer):
        tape.output = tape.output.name
    return tape


# %% task="minijit-trace" name="one helper that says what stands on the tape"
def on_tape(*things):
    return tuple(thing.name if hasattr(thing, "tape") else thing for thing in things)


def record(primitive, operands, params):
    for operand in operands:
        if isinstance(operand, Tracer):
            tape = operand.tape
    new = tape.new(result_type(primitive, operands, params))
    tape.equations.append((new.name, primitive, on_tape(*operands), params))
    return new


def trace(fn, *types):
    tape = Tape()
    arguments = tuple(tape.new(type) for type in types)
    tape.inputs[:] = on_tape(*arguments)
    (tape.output,) = on_tape(fn(*arguments))
    return tape


# %% task="minijit-replay" name="a fold over the equations"
def replay(tape, *args):
    from functools import reduce

    def step(values, equation):
        name, primitive, operands, params = equation
        return values | {name: bind(primitive, *(read(values, x) for x in operands), **params)}

    return reduce(step, tape.equations, {name: lift(x) for name, x in zip(tape.inputs, args)})


# %% task="minijit-replay" name="asks whether an operand is text"
def replay(tape, *args):
    memory = {}
    for name, arg in zip(tape.inputs, args):
        memory[name] = lift(arg)
    for equation in tape.equations:
        operands = []
        for operand in equation[2]:
            operands.append(memory[operand] if isinstance(operand, str) else operand)
        memory[equation[0]] = bind(equation[1], *operands, **equation[3])
    return memory


# %% task="minijit-replay" name="a closure that runs one equation"
def replay(tape, *args):
    values = {}

    def run(name, primitive, operands, params):
        values[name] = bind(primitive, *map(lambda x: read(values, x), operands), **params)

    values.update({name: lift(value) for name, value in zip(tape.inputs, args, strict=True)})
    for equation in tape.equations:
        run(*equation)
    return values


# %% task="minijit-trace" name="getattr and filter"
import operator
from functools import partial

is_tracer = partial(lambda cls, x: isinstance(x, cls), Tracer)


def record(primitive, operands, params):
    """Write one equation on the tape of the operands; return the tracer of its result.

    primitive: its name. operands: tracers (one at least), plain numbers, arrays. params: a dict.
    """
    first, *_others = filter(is_tracer, operands)
    late = first.tape.new(result_type(primitive, operands, params))
    names = []
    for x in operands:
        if is_tracer(x):
            names.append(x.name)
        else:
            names.append(x)
    first.tape.equations.append((late.name, primitive, tuple(names), params))
    return late


def trace(fn, *types):
    """Run fn once, on one tracer for each Type in types; return its Tape. fn returns one value."""
    tape = Tape()
    tracers = []
    for kind in types:
        tracers.append(tape.new(kind))
    tape.inputs = list(map(operator.attrgetter("name"), tracers))
    result = fn(*tracers)
    tape.output = result.name if is_tracer(result) else result
    return tape
