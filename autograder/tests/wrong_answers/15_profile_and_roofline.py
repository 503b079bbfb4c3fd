# %% [markdown]
# Wrong answers for unit 15. Each cell replaces the solution cell of its task; `fails` names the graded cells that must
# then fail, and `message` is part of what the learner must read there.

# %% task="walls" name="whatever is small is dispatch, whatever is large arithmetic" fails=["walls-plain"] message="which takes longer, 10 million operations or 80 MB"
def walls_plain():
    return {
        "doubled": "arithmetic",
        "square_product": "arithmetic",
        "small_product": "dispatch",
        "column_sums": "arithmetic",
    }


def walls_disguised():
    return {
        "matrix_times_vector": "memory",
        "thin_product": "memory",
        "polynomial": "arithmetic",
        "power": "arithmetic",
    }


# %% task="walls" name="products compute, the rest moves" fails=["walls-disguised"] message="It only has the name of a product"
def walls_plain():
    return {
        "doubled": "memory",
        "square_product": "arithmetic",
        "small_product": "dispatch",
        "column_sums": "memory",
    }


def walls_disguised():
    return {
        "matrix_times_vector": "arithmetic",
        "thin_product": "arithmetic",
        "polynomial": "memory",
        "power": "arithmetic",
    }


# %% task="walls" name="a loop dispatches every round" fails=["walls-disguised"] message="The loop is inside the program: one dispatch"
def walls_plain():
    return {
        "doubled": "memory",
        "square_product": "arithmetic",
        "small_product": "dispatch",
        "column_sums": "memory",
    }


def walls_disguised():
    return {
        "matrix_times_vector": "memory",
        "thin_product": "memory",
        "polynomial": "arithmetic",
        "power": "dispatch",
    }


# %% task="walls" name="plain measured instead" fails=["walls-plain"] message="walls_plain uses name_walls, which does not exist where it is run"
def walls_plain():
    return name_walls(PLAIN, PAPER)


# %% task="walls" name="disguised measured instead" fails=["walls-disguised"] message="walls_disguised uses name_walls, which does not exist where it is run"
def walls_disguised():
    return name_walls(DISGUISED, PAPER)


# %% task="price" name="believes XLA about loops" fails=["price-check"] message="ten times as much as its body"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return show_hlo(fn, *args).flops, sum(array.size * array.dtype.itemsize for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="four bytes for everything" fails=["price-check"] message="A bfloat16 has two bytes"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return show_jaxpr(fn, *args).flops, 4 * sum(array.size for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="reading is paid, writing is free" fails=["price-check"] message="the bytes of both arguments and of the result"
def price(fn, *args):
    return show_jaxpr(fn, *args).flops, sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(args))


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="first move, then compute" fails=["price-shortest"] message="Moving and computing go on at the same time"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return show_jaxpr(fn, *args).flops, sum(array.size * array.dtype.itemsize for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    waits["dispatch"] = machine["dispatch"]
    return sum(waits.values()), max(waits, key=waits.get)


# %% task="culprit" name="adds up lengths" fails=["culprit-self"] message="Take away the length of every event inside it"
def self_times(ops):
    totals = {}
    for op in ops:
        totals[op.name] = totals.get(op.name, 0) + op.length
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        ours = [word for word in origins.get(name, "").split("/") if word in scopes]
        if ours:
            by_scope[ours[-1]] += time
    return max(by_scope, key=by_scope.get)


# %% task="culprit" name="takes away whatever overlaps, on any thread and at any depth" fails=["culprit-self"] message="What runs on another thread at the same time is not inside"
def self_times(ops):
    totals = {}
    for op in ops:
        end = op.start + op.length
        inside = [o for o in ops if o is not op and op.start <= o.start and o.start + o.length <= end]
        totals[op.name] = totals.get(op.name, 0) + op.length - sum(o.length for o in inside)
    return totals


def culprit(fn, scopes, *args):
    return scopes[0]


# %% task="culprit" name="does not sort" fails=["culprit-self"] message="sort them first"
def self_times(ops):
    totals, stack = {}, []
    for op in ops:
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    return scopes[0]


# %% task="culprit" name="takes the outermost scope" fails=["culprit-check"] message="which innermost scope has the most self time"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        ours = [word for word in origins.get(name, "").split("/") if word in scopes]
        if ours:
            by_scope[ours[0]] += time
    return max(by_scope, key=by_scope.get)


# %% task="culprit" name="keeps one event of each name" fails=["culprit-self"] message="All events of a name count together"
def self_times(ops):
    return {op.name: op.length for op in sorted(ops, key=lambda op: op.length)}


def culprit(fn, scopes, *args):
    return scopes[0]


# %% task="culprit" name="finds the loop guilty" fails=["culprit-check"] message="which innermost scope has the most self time"
def self_times(ops):
    totals = {}
    for op in ops:
        totals[op.name] = totals.get(op.name, 0) + op.length
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        ours = [word for word in origins.get(name, "").split("/") if word in scopes]
        if ours:
            by_scope[ours[-1]] += time
    return max(by_scope, key=by_scope.get)


# %% task="culprit" name="trusts the FLOPs" fails=["culprit-check"] message="Many FLOPs are no proof"
def self_times(ops):
    return {op.name: op.length for op in ops}


def culprit(fn, scopes, *args):
    return "shuffle" if "shuffle" in scopes else "product"


# %% task="fed" name="reads each loss at once" fails=["fed-check"] message="the device then has work"
def train(device, steps):
    state = 0
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        device.report(step, float(loss))


# %% task="fed" name="reads all losses in the end" fails=["fed-check"] message="before step i + 2 is handed over"
def train(device, steps):
    state, losses = 0, []
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        losses.append(loss)
    for step, loss in enumerate(losses):
        device.report(step, float(loss))


# %% task="fed" name="reads the old loss before it hands over the new step" fails=["fed-check"] message="the device then has work"
def train(device, steps):
    state, pending = 0, None
    for step in range(steps):
        batch = device.fetch(step)
        if pending is not None:
            device.report(step - 1, float(pending))
        state, pending = device.step(state, batch)
    device.report(steps - 1, float(pending))


# %% task="fed" name="forgets the last loss" fails=["fed-check"] message="the last one too"
def train(device, steps):
    state, pending = 0, None
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        if pending is not None:
            device.report(step - 1, float(pending))
        pending = loss


# %% task="serve" name="jit will share the weights" fails=["serve-check"] message="accesses"
@jax.jit
def serve(W1, W2, users):
    return jnp.stack([answer(W1, W2, user) for user in users])


# %% task="serve" name="a loop inside the program" fails=["serve-check"] message="it has a loop"
@jax.jit
def serve(W1, W2, users):
    return lax.map(lambda user: answer(W1, W2, user), users)


# %% task="serve" name="a copy of the weights for each user" fails=["serve-check"] message="accesses"
@jax.jit
def serve(W1, W2, users):
    weights = [lax.optimization_barrier(jnp.tile(W, (users.shape[0], 1, 1))) for W in (W1, W2)]
    return jax.vmap(answer)(*weights, users)


# %% task="surveyor" name="times the first call" fails=["surveyor-tame"] message="The first call compiles"
def survey(machine):
    dispatch = machine.run(1, 1)
    memory, few = 2**27, 2**20
    return {
        "bandwidth": 8 * memory / machine.run(memory, 1),
        "arithmetic": 2 * 4096 * few / machine.run(few, 4096),
        "dispatch": dispatch,
    }


# %% task="surveyor" name="takes the median" fails=["surveyor-tame"] message="the shortest of many is the machine's"
def survey(machine):
    def typical(numbers, k):
        machine.run(numbers, k)
        return float(np.median([machine.run(numbers, k) for _ in range(30)]))

    dispatch = typical(1, 1)
    memory, few = 2**27, 2**20
    return {
        "bandwidth": 8 * memory / (typical(memory, 1) - dispatch),
        "arithmetic": 2 * 4096 * few / (typical(few, 4096) - dispatch),
        "dispatch": dispatch,
    }


# %% task="surveyor" name="one program for both limits" fails=["surveyor-tame"] message="each limit needs a program that it alone binds"
def survey(machine):
    def best(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(30))

    dispatch, seconds = best(1, 1), best(2**27, 1)
    return {
        "bandwidth": 8 * 2**27 / (seconds - dispatch),
        "arithmetic": 2 * 2**27 / (seconds - dispatch),
        "dispatch": dispatch,
    }


# %% task="surveyor" name="measures the cache" fails=["surveyor-sly"] message="What fits into the cache is not moved through memory"
def survey(machine):
    def best(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(30))

    dispatch, few = best(1, 1), 2**22
    return {
        "bandwidth": 8 * few / (best(few, 1) - dispatch),
        "arithmetic": 2 * 4096 * few / (best(few, 4096) - dispatch),
        "dispatch": dispatch,
    }


# %% task="surveyor" name="leaves the dispatch in" fails=["surveyor-sly"] message="Each call contains the dispatch"
def survey(machine):
    def best(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(30))

    memory, few = 2**27, 2**20
    return {
        "bandwidth": 8 * memory / best(memory, 1),
        "arithmetic": 2 * 4096 * few / best(few, 4096),
        "dispatch": best(1, 1),
    }


# %% task="surveyor" name="rents too long" fails=["surveyor-tame"] message="the rent is used up"
def survey(machine):
    def best(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(30))

    dispatch, memory = best(1, 1), 2**27
    return {
        "bandwidth": 8 * memory / (best(memory, 1) - dispatch),
        "arithmetic": 2 * 4096 * memory / (best(memory, 4096) - dispatch),
        "dispatch": dispatch,
    }


# %% task="price" name="the first result only" fails=["price-check"] hidden=1 message="a loop in a loop"
def price(fn, *args):
    first = jax.tree.leaves(jax.eval_shape(fn, *args))[0]
    moved = sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(args))
    return show_jaxpr(fn, *args).flops, moved + first.size * first.dtype.itemsize


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="the bytes that XLA estimates" fails=["price-check"] message="look at their leaves"
def price(fn, *args):
    return show_jaxpr(fn, *args).flops, show_hlo(fn, *args).bytes


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="dispatch as soon as one of the two is short" fails=["price-shortest"] hidden=1 message="few bytes"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return show_jaxpr(fn, *args).flops, sum(array.size * array.dtype.itemsize for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = "dispatch" if min(waits.values()) < machine["dispatch"] else longest
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="dispatch overlaps, too" fails=["price-shortest"] message="dispatch comes before them"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return show_jaxpr(fn, *args).flops, sum(array.size * array.dtype.itemsize for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    waits["dispatch"] = machine["dispatch"]
    wall = max(waits, key=waits.get)
    return waits[wall], wall


# %% task="culprit" name="an event is never inside another of its name" fails=["culprit-self"] hidden=1 message="self_times is wrong"
def self_times(ops):
    totals = {}
    for op in ops:
        end = op.start + op.length
        inside = [
            o
            for o in ops
            if o.name != op.name and o.thread == op.thread and op.start <= o.start and o.start + o.length <= end
        ]
        direct = [
            o
            for o in inside
            if not any(p is not o and p.start <= o.start and o.start + o.length <= p.start + p.length for p in inside)
        ]
        totals[op.name] = totals.get(op.name, 0) + op.length - sum(o.length for o in direct)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        ours = [word for word in origins.get(name, "").split("/") if word in scopes]
        if ours:
            by_scope[ours[-1]] += time
    return max(by_scope, key=by_scope.get)


# %% task="culprit" name="one stack for all threads" fails=["culprit-self"] message="What runs on another thread at the same time is not inside"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.start, -op.length)):
        while stack and stack[-1].start + stack[-1].length <= op.start:
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        ours = [word for word in origins.get(name, "").split("/") if word in scopes]
        if ours:
            by_scope[ours[-1]] += time
    return max(by_scope, key=by_scope.get)


# %% task="culprit" name="counts events, not time" fails=["culprit-check"] hidden=1 message="culprit is wrong"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for _, name, *_ in record(fn, *args):
        ours = [word for word in origins.get(name, "").split("/") if word in scopes]
        if ours:
            by_scope[ours[-1]] += 1
    return max(by_scope, key=by_scope.get)


# %% task="culprit" name="what was right for the two examples" fails=["culprit-check"] hidden=1 message="culprit is wrong"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    return "shuffle" if "shuffle" in scopes else scopes[-1]


# %% task="fed" name="two steps before the loop begins" fails=["fed-check"] hidden=1 message="IndexError"
def train(device, steps):
    state, last = device.step(0, device.fetch(0))
    state, loss = device.step(state, device.fetch(1))
    device.report(0, float(last))
    for step in range(2, steps):
        last = loss
        state, loss = device.step(state, device.fetch(step))
        device.report(step - 1, float(last))
    device.report(steps - 1, float(loss))


# %% task="fed" name="two steps ahead" fails=["fed-check"] message="before step i + 2 is handed over"
def train(device, steps):
    state, waiting = 0, []
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        waiting.append(loss)
        if len(waiting) > 2:
            device.report(step - 2, float(waiting.pop(0)))
    for k, loss in enumerate(waiting):
        device.report(steps - len(waiting) + k, float(loss))


# %% task="fed" name="reports the loss of the step before as its own" fails=["fed-check"] message="with its own loss as a float"
def train(device, steps):
    state, pending = 0, None
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        if pending is not None:
            device.report(step, float(pending))
        pending = loss
    device.report(steps, float(pending))


# %% task="fed" name="reports what it has not read" fails=["fed-check"] message="with its own loss as a float"
def train(device, steps):
    state = 0
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        device.report(step, loss)


# %% task="serve" name="thirty-two places" fails=["serve-check"] hidden=1 message="Error"
@jax.jit
def serve(W1, W2, users):
    places = jnp.pad(users, ((0, 32 - users.shape[0]), (0, 0)))
    return (places + jnp.maximum(places @ W1.T, 0) @ W2.T)[: users.shape[0]]


# %% task="serve" name="a callback to the specification" fails=["serve-check"] message="uses pure_callback"
def in_numpy(W1, W2, users):
    W1, W2, users = map(np.asarray, (W1, W2, users))
    return np.stack([user + W2 @ np.maximum(W1 @ user, 0) for user in users])


@jax.jit
def serve(W1, W2, users):
    return jax.pure_callback(in_numpy, jax.ShapeDtypeStruct(users.shape, users.dtype), W1, W2, users)


# %% task="serve" name="forgets what the users bring" fails=["serve-check"] message="serve at index"
@jax.jit
def serve(W1, W2, users):
    return jnp.maximum(users @ W1.T, 0) @ W2.T


# %% task="serve" name="the largest with all users, not with 0" fails=["serve-check"] message="serve at index"
@jax.jit
def serve(W1, W2, users):
    return users + jnp.abs(users @ W1.T) @ W2.T


# %% task="surveyor" name="looks the machine up in the tables of the check" fails=["surveyor-tame", "surveyor-sly"] hidden=1 message="times the true one"
def survey(machine):
    machine.run(2**27, 1)
    seconds = min(machine.run(2**27, 1) for _ in range(20))
    known = [*TAME.values(), *SLY.values()]
    return min(known, key=lambda of: abs(8 * 2**27 / of["bandwidth"] + of["dispatch"] - seconds))


# %% task="surveyor" name="the shortest of three" fails=["surveyor-tame"] message="survey is wrong"
def survey(machine):
    def best(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(3))

    dispatch, memory, few = best(1, 1), 2**27, 2**20
    return {
        "bandwidth": 8 * memory / (best(memory, 1) - dispatch),
        "arithmetic": 2 * 4096 * few / (best(few, 4096) - dispatch),
        "dispatch": dispatch,
    }


# %% task="surveyor" name="counts a multiply-add once" fails=["surveyor-tame", "surveyor-sly"] message="arithmetic: returned '0.5 times the true one'"
def survey(machine):
    def best(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(30))

    dispatch, memory, few = best(1, 1), 2**27, 2**20
    return {
        "bandwidth": 8 * memory / (best(memory, 1) - dispatch),
        "arithmetic": 4096 * few / (best(few, 4096) - dispatch),
        "dispatch": dispatch,
    }


# %% task="surveyor" name="a million numbers for each limit" fails=["surveyor-sly"] message="What fits into the cache is not moved through memory"
def survey(machine):
    def best(k, numbers=2**20):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(40))

    dispatch = best(1, 1)
    rates = {"bandwidth": 8 * 2**20 / (best(1) - dispatch), "arithmetic": 2**33 / (best(4096) - dispatch)}
    return rates | {"dispatch": dispatch}


# %% task="price" name="two bytes for halves, four for everything else" fails=["price-check"] hidden=1 message="a loop in a loop"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    halves = (jnp.bfloat16, jnp.float16)
    return show_jaxpr(fn, *args).flops, sum(array.size * (2 if array.dtype in halves else 4) for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="counts in floats" fails=["price-check"] hidden=1 message="Python ints: returned"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return float(show_jaxpr(fn, *args).flops), float(sum(array.size * array.dtype.itemsize for array in arrays))


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="culprit" name="a scope is any piece of the text" fails=["culprit-check"] hidden=1 message="culprit is wrong"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        origin = origins.get(name, "")
        found = [scope for scope in scopes if scope in origin]
        if found:
            by_scope[max(found, key=origin.rfind)] += time
    return max(by_scope, key=by_scope.get)


# %% task="fed" name="knows the loss without waiting for it" fails=["fed-check"] message="when float(loss) has returned it"
def train(device, steps):
    state = 0
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        device.report(step, float(1000 // (step + 1)))


# %% task="fed" name="sets the meter back" fails=["fed-check"] message="the device then has work"
def train(device, steps):
    train_slow(device, steps)
    device.idle = 0


# %% task="fed" name="reports ints" fails=["fed-check"] message="with its own loss as a float"
def train(device, steps):
    state, pending = 0, None
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        if pending is not None:
            device.report(step - 1, int(float(pending)))
        pending = loss
    if pending is not None:
        device.report(steps - 1, int(float(pending)))


# %% task="surveyor" name="looks into the machine" fails=["surveyor-tame", "surveyor-sly"] hidden=1 message="Error"
def survey(machine):
    run = machine.run.__func__
    seen = dict(zip(run.__code__.co_freevars, (cell.cell_contents for cell in run.__closure__), strict=True))
    return {figure: seen[figure] for figure in ("bandwidth", "arithmetic", "dispatch")}


# %% task="surveyor" name="a hundred multiply-adds for the arithmetic" fails=["surveyor-sly"] hidden=1 message="times the true one"
def survey(machine):
    def best(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(20))

    dispatch, memory, some = best(1, 1), 2**27, 2**23
    return {
        "bandwidth": 8 * memory / (best(memory, 1) - dispatch),
        "arithmetic": 2 * 100 * some / (best(some, 100) - dispatch),
        "dispatch": dispatch,
    }


# %% task="price" name="remembers the operations by name and shapes" fails=["price-check"] hidden=1 message="another lambda"
_OPERATIONS = {}


def price(fn, *args):
    leaves = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    key = getattr(fn, "__name__", "partial"), tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    if key not in _OPERATIONS:
        _OPERATIONS[key] = int(show_jaxpr(fn, *args).flops)
    return _OPERATIONS[key], int(sum(leaf.size * leaf.dtype.itemsize for leaf in leaves))


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    wall = max(waits, key=waits.get)
    longest = waits[wall]
    return float(longest + machine["dispatch"]), wall if longest >= machine["dispatch"] else "dispatch"


# %% task="price" name="adds both times to see whether the dispatch is longer" fails=["price-shortest"] hidden=1 message="both shorter than the dispatch"
def price(fn, *args):
    leaves = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    moved = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    return int(show_jaxpr(fn, *args).flops), int(moved)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    wall = "dispatch" if sum(waits.values()) < machine["dispatch"] else max(waits, key=waits.get)
    return max(waits.values()) + machine["dispatch"], wall


# %% task="culprit" name="whole microseconds" fails=["culprit-self"] hidden=1 message="self_times is wrong"
def self_times(ops):
    times, stack = {}, []
    whole = [op._replace(start=int(op.start), length=int(op.length)) for op in ops]
    for op in sorted(whole, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or op.start >= stack[-1].start + stack[-1].length):
            stack.pop()
        times[op.name] = times.get(op.name, 0) + op.length
        if stack:
            times[stack[-1].name] -= op.length
        stack.append(op)
    return times


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    spent = dict.fromkeys(scopes, 0)
    for name, time in self_times(record(fn, *args)).items():
        inside = [word for word in origins.get(name, "").split("/") if word in spent]
        if inside:
            spent[inside[-1]] += time
    return max(spent, key=spent.get)


# %% task="culprit" name="the scope of the longest operation" fails=["culprit-check"] hidden=1 message="shared_out"
def self_times(ops):
    times, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or op.start >= stack[-1].start + stack[-1].length):
            stack.pop()
        times[op.name] = times.get(op.name, 0) + op.length
        if stack:
            times[stack[-1].name] -= op.length
        stack.append(op)
    return times


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    times = self_times(record(fn, *args))
    for name in sorted(times, key=times.get, reverse=True):
        inside = [word for word in origins.get(name, "").split("/") if word in scopes]
        if inside:
            return inside[-1]
    return scopes[0]


# %% task="culprit" name="what is in no scope counts for the first one" fails=["culprit-check"] hidden=1 message="shared_out"
def self_times(ops):
    times, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or op.start >= stack[-1].start + stack[-1].length):
            stack.pop()
        times[op.name] = times.get(op.name, 0) + op.length
        if stack:
            times[stack[-1].name] -= op.length
        stack.append(op)
    return times


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    spent = dict.fromkeys(scopes, 0)
    for name, time in self_times(record(fn, *args)).items():
        words = reversed(origins.get(name, "").split("/"))
        spent[next((word for word in words if word in spent), scopes[0])] += time
    return max(spent, key=spent.get)


# %% task="fed" name="sets the meter of its loss back" fails=["fed-check"] message="AttributeError"
def train(device, steps):
    state = 0
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        device.report(step, float(loss))
        loss.device.idle = 0


# %% task="fed" name="reads the clock of the device" fails=["fed-check"] message="AttributeError"
def train(device, steps):
    state, waiting = 0, []
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        waiting.append((step, loss))
        while len(waiting) > 1 or waiting and waiting[0][1].ready <= loss.device.now:
            number, due = waiting.pop(0)
            device.report(number, float(due))
    for number, due in waiting:
        device.report(number, float(due))


# %% task="serve" name="sixteen at a time, in a lax.map" fails=["serve-check"] hidden=1 message="it has a loop"
@jax.jit
def serve(W1, W2, users):
    return lax.map(lambda user: answer(W1, W2, user), users, batch_size=16)


# %% task="serve" name="turns the weights if the shapes ask for it" fails=["serve-check"] hidden=1 message="serve at index"
def _through(table, W):
    return table @ (W if W.shape[0] == table.shape[1] else W.T)


@jax.jit
def serve(W1, W2, users):
    return users + _through(jnp.maximum(_through(users, W1), 0), W2)


# %% task="serve" name="sixteen at a time, in a Python loop" fails=["serve-check"] hidden=1 message="accesses"
@jax.jit
def serve(W1, W2, users):
    answers = []
    for first in range(0, len(users), 16):
        some = users[first : first + 16]
        answers.append(some + jnp.maximum(some @ W1.T, 0) @ W2.T)
    return jnp.concatenate(answers)


# %% task="surveyor" name="the time that a fifth of the calls are below" fails=["surveyor-tame"] hidden=1 message="times the true one"
def survey(machine):
    def own_time(numbers, k, calls):
        machine.run(numbers, k)
        return float(np.quantile([machine.run(numbers, k) for _ in range(calls)], 0.2, method="lower"))

    dispatch = own_time(1, 1, 60)
    memory = own_time(2**27, 1, 30) - dispatch
    arithmetic = own_time(2**18, 4096, 60) - dispatch
    return {"bandwidth": 8 * 2**27 / memory, "arithmetic": 2 * 4096 * 2**18 / arithmetic, "dispatch": dispatch}


# %% task="surveyor" name="forty calls of long programs" fails=["surveyor-tame"] hidden=1 message="the rent is used up"
def survey(machine):
    def shortest_call(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(40))

    dispatch = shortest_call(1, 1)
    memory = shortest_call(2**27, 1) - dispatch
    arithmetic = shortest_call(2**22, 4096) - dispatch
    return {"bandwidth": 8 * 2**27 / memory, "arithmetic": 2 * 4096 * 2**22 / arithmetic, "dispatch": dispatch}


# %% task="culprit" name="the last scope of the list is the innermost" fails=["culprit-check"] hidden=1 message="fresh_program"
def self_times(ops):
    times, stack, thread = {}, [], None
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        if op.thread != thread:
            stack, thread = [], op.thread
        while stack and op.start >= stack[-1].start + stack[-1].length:
            stack.pop()
        if stack:
            times[stack[-1].name] -= op.length
        times[op.name] = times.get(op.name, 0) + op.length
        stack.append(op)
    return times


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    spent = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        words = origins.get(name, "").split("/")
        inside = [scope for scope in scopes if scope in words]
        if inside:
            spent[inside[-1]] += time
    return max(spent, key=spent.get)


# %% task="culprit" name="a Counter forgets zeros" fails=["culprit-self"] hidden=1 message="self_times"
from collections import Counter


def self_times(ops):
    times, stack = Counter(), []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or op.start >= stack[-1].start + stack[-1].length):
            stack.pop()
        if stack:
            times[stack[-1].name] -= op.length
        times[op.name] += op.length
        stack.append(op)
    return dict(+times)


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    totals = dict.fromkeys(scopes, 0)
    for name, time in self_times(record(fn, *args)).items():
        inside = [word for word in origins.get(name, "").split("/") if word in scopes]
        if inside:
            totals[inside[-1]] += time
    return max(totals, key=totals.get)


# %% task="fed" name="the meter is set back" fails=["fed-check"] message="idle"
def train(device, steps):
    state = 0
    meters = getattr(device.step, "__self__", device)
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        device.report(step, float(loss))
        meters.idle = 0


# %% task="fed" name="batches are made up, and none is fetched" fails=["fed-check"] message="got the state"
def train(device, steps):
    state, waiting = 0, None
    for step in range(steps):
        state, loss = device.step(state, f"batch {step}")  # saves the 4 ms of device.fetch(step)
        if waiting is not None:
            device.report(step - 1, float(waiting))
        waiting = loss
    device.report(steps - 1, float(waiting))


# %% task="forecast" name="all reports, and then the last one" fails=["forecast-speed"] message="is below 3x, the first tier"
@jax.jit
def forecast(moves, now):
    def one_hour(now, _):
        now = jnp.tanh(moves @ now)
        return now, jnp.median(jnp.abs(now), axis=1)

    now, reports = lax.scan(one_hour, now, length=HOURS)
    return now, reports[-1]


# %% task="forecast" name="a where writes the last report only" fails=["forecast-speed"] message="is below 3x, the first tier"
@jax.jit
def forecast(moves, now):
    def one_hour(hour, state):
        now, report = state
        now = jnp.tanh(moves @ now)
        return now, jnp.where(hour == HOURS - 1, jnp.median(jnp.abs(now), axis=1), report)

    return lax.fori_loop(0, HOURS, one_hour, (now, jnp.zeros(len(now))))


# %% task="forecast" name="sorts only half" fails=["forecast-speed"] message="is below 3x, the first tier"
@jax.jit
def forecast(moves, now):
    count = now.shape[1]

    def one_hour(_, state):
        now = jnp.tanh(moves @ state[0])
        upper = lax.top_k(jnp.abs(now), count // 2 + 1)[0]
        return now, (upper[:, (count - 1) // 2] + upper[:, count // 2]) / 2

    now, report = lax.fori_loop(0, HOURS, one_hour, (now, jnp.zeros(len(now))))
    return now, jnp.where(jnp.isnan(now).any(1), jnp.nan, report)


# %% task="forecast" name="believes the FLOPs, and spares the product digits" fails=["forecast-speed"] message="forecast: leaf [0]"
@jax.jit
def forecast(moves, now):
    moves = moves.astype(jnp.bfloat16)

    def one_hour(_, state):
        now = jnp.tanh((moves @ state[0].astype(jnp.bfloat16)).astype(jnp.float32))
        return now, jnp.median(jnp.abs(now), axis=1)

    return lax.fori_loop(0, HOURS, one_hour, (now, jnp.zeros(len(now))))


# %% task="forecast" name="believes the FLOPs, and writes the product out" fails=["forecast-speed"] message="is below 3x, the first tier"
@jax.jit
def forecast(moves, now):
    def one_hour(_, state):
        now = jnp.tanh(sum(moves[:, k, None] * state[0][k] for k in range(len(moves))))
        return now, jnp.median(jnp.abs(now), axis=1)

    return lax.fori_loop(0, HOURS, one_hour, (now, jnp.zeros(len(now))))


# %% task="forecast" name="NumPy writes the report, in a callback" fails=["forecast-speed"] message="uses pure_callback"
@jax.jit
def forecast(moves, now):
    now = lax.fori_loop(0, HOURS, lambda _, now: jnp.tanh(moves @ now), now)
    kind = jax.ShapeDtypeStruct((len(now),), jnp.float32)
    return now, jax.pure_callback(lambda now: np.median(np.abs(now), axis=1), kind, now)


# %% task="forecast" name="the report of an hour ago" fails=["forecast-speed"] message="forecast: leaf [1]"
@jax.jit
def forecast(moves, now):
    now = lax.fori_loop(1, HOURS, lambda _, now: jnp.tanh(moves @ now), now)
    return jnp.tanh(moves @ now), jnp.median(jnp.abs(now), axis=1)


# %% task="forecast" name="a mean needs no sort" fails=["forecast-speed"] message="forecast: leaf [1]"
@jax.jit
def forecast(moves, now):
    now = lax.fori_loop(0, HOURS, lambda _, now: jnp.tanh(moves @ now), now)
    return now, jnp.abs(now).mean(1)


# %% task="forecast" name="an hour too many" fails=["forecast-speed"] message="forecast: leaf [0]"
@jax.jit
def forecast(moves, now):
    now = lax.fori_loop(0, HOURS + 1, lambda _, now: jnp.tanh(moves @ now), now)
    return now, jnp.median(jnp.abs(now), axis=1)


# %% task="forecast" name="the two in the middle, always" fails=["forecast-speed"] hidden=1 message="3 stations and 21 forecasts"
@jax.jit
def forecast(moves, now):
    now = lax.fori_loop(0, HOURS, lambda _, now: jnp.tanh(moves @ now), now)
    middle, ordered = now.shape[1] // 2, jnp.sort(jnp.abs(now), axis=1)
    return now, (ordered[:, middle - 1] + ordered[:, middle]) / 2


# %% task="forecast" name="more than one forecast, and more than one station" fails=["forecast-speed"] hidden=1 message="7 stations and 1 forecasts"
@jax.jit
def forecast(moves, now):
    now = jnp.squeeze(lax.fori_loop(0, HOURS, lambda _, now: jnp.tanh(moves @ now), now))
    return now, jnp.median(jnp.abs(now), axis=-1)


# %% task="forecast" name="leaves out of the report what is NaN" fails=["forecast-speed"] hidden=1 message="forecast with a NaN"
@jax.jit
def forecast(moves, now):
    now = lax.fori_loop(0, HOURS, lambda _, now: jnp.tanh(moves @ now), now)
    return now, jnp.nanmedian(jnp.abs(now), axis=1)


# %% task="culprit" name="remembers the scope of a program" fails=["culprit-check"] hidden=1 message="other scopes"
found_before = {}


def self_times(ops):
    times, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or op.start >= stack[-1].start + stack[-1].length):
            stack.pop()
        if stack:
            times[stack[-1].name] -= op.length
        times[op.name] = times.get(op.name, 0) + op.length
        stack.append(op)
    return times


def culprit(fn, scopes, *args):
    if fn not in found_before:
        origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
        spent = dict.fromkeys(scopes, 0)
        for name, time in self_times(record(fn, *args)).items():
            words = [word for word in origins.get(name, "").split("/") if word in scopes]
            if words:
                spent[words[-1]] += time
        found_before[fn] = max(spent, key=spent.get)
    return found_before[fn]


# %% task="fed" name="the number of the step as its state" fails=["fed-check"] message="step 1 got the state 1"
def train(device, steps):
    last = None
    for step in range(steps):
        _, loss = device.step(step, device.fetch(step))
        if last is not None:
            device.report(step - 1, float(last))
        last = loss
    device.report(steps - 1, float(last))


# %% task="surveyor" name="512 multiply-adds" fails=["surveyor-sly"] hidden=1 message="another fresh one, arithmetic"
def survey(machine):
    def best(numbers, k):
        return min(machine.run(numbers, k) for _ in range(60))

    dispatch = best(1, 1)
    memory = best(2**26, 1) - dispatch
    arithmetic = best(2**20, 512) - dispatch
    return {
        "bandwidth": 8 * 2**26 / memory,
        "arithmetic": 2 * 512 * 2**20 / arithmetic,
        "dispatch": dispatch,
    }


# %% task="surveyor" name="the dispatch of a call that moves something" fails=["surveyor-tame"] hidden=1 message="a fresh one, dispatch"
def survey(machine):
    def shortest_time(numbers, k):
        machine.run(numbers, k)
        return min(machine.run(numbers, k) for _ in range(70))

    dispatch = shortest_time(1024, 1)
    moving = shortest_time(2**26, 1) - dispatch
    computing = shortest_time(2**18, 4096) - dispatch
    return {"bandwidth": 8 * 2**26 / moving, "arithmetic": 2 * 4096 * 2**18 / computing, "dispatch": dispatch}


# %% task="price" name="additions, multiplications and products are all there is" fails=["price-check"] hidden=1 message="an array that is not used"
def operations_of(tape):
    total = 0
    for eqn in tape.eqns:
        made, inner = eqn.outvars[0].aval.size, eqn.params.get("jaxpr")
        if eqn.primitive.name in ("add", "mul"):
            total += made
        elif eqn.primitive.name == "dot_general":
            ((axes, _), _), first = eqn.params["dimension_numbers"], eqn.invars[0].aval
            total += 2 * made * int(np.prod([first.shape[axis] for axis in axes]))
        elif inner is not None:
            total += eqn.params.get("length", 1) * operations_of(inner.jaxpr)
    return total


def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    operations = operations_of(jax.make_jaxpr(fn)(*args).jaxpr)
    return operations, sum(array.size * array.dtype.itemsize for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="what is not used is not read" fails=["price-check"] hidden=1 message="an array that is not used"
def price(fn, *args):
    tape = jax.make_jaxpr(fn)(*args)
    used = {id(var) for eqn in tape.eqns for var in eqn.invars}
    avals = [var.aval for var in tape.jaxpr.invars if id(var) in used] + tape.out_avals
    return show_jaxpr(fn, *args).flops, sum(aval.size * aval.dtype.itemsize for aval in avals)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="price" name="the machine's numbers in the order of PAPER" fails=["price-shortest"] hidden=1 message="both shorter than the dispatch"
def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return show_jaxpr(fn, *args).flops, sum(array.size * array.dtype.itemsize for array in arrays)


def shortest(operations, moved, machine):
    bandwidth, arithmetic, dispatch = machine.values()
    waits = {"memory": moved / bandwidth, "arithmetic": operations / arithmetic}
    longest = max(waits, key=waits.get)
    return waits[longest] + dispatch, longest if waits[longest] > dispatch else "dispatch"


# %% task="price" name="numbers that are equal to everything" fails=["price-check", "price-shortest"] message=" is wrong"
class Same(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


Same.__name__ = "int"


def price(fn, *args):
    return Same(1), Same(1)


def shortest(operations, moved, machine):
    return Same(1), "memory"


# %% task="culprit" name="an empty profile has a first event" fails=["culprit-self"] hidden=1 message="IndexError"
def self_times(ops):
    ops = sorted(ops, key=lambda op: (op.thread, op.start, -op.length))
    totals, stack = {ops[0].name: ops[0].length}, [ops[0]]
    for op in ops[1:]:
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    spent = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        ours = [word for word in origins.get(name, "").split("/") if word in scopes]
        if ours:
            spent[ours[-1]] += time
    return max(spent, key=spent.get)


# %% task="fed" name="a number of a step that is equal to every other" fails=["fed-check"] message="losses that nobody waited for"
class AnyStep(int):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash(0)


def train(device, steps):
    state = 0
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        if step == 0:
            first = loss
        elif step == 1:
            device.report(0, float(first))
        if step > 0:
            device.report(AnyStep(step), float(1000 // (step + 1)))
    if steps == 1:
        device.report(0, float(first))


# %% task="fed" name="losses of NumPy's" fails=["fed-check"] message="with its own loss as a float"
def train(device, steps):
    state, last = 0, None
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        if last is not None:
            device.report(step - 1, np.float64(last))
        last = loss
    device.report(steps - 1, np.float64(last))


# %% task="fed" name="a batch that is equal to every other" fails=["fed-check"] message="step 0 got the state 0"
class AnyBatch(str):
    def __ne__(self, other):
        return False


def train(device, steps):
    state, last = 0, None
    for step in range(steps):
        state, loss = device.step(state, AnyBatch())
        if last is not None:
            device.report(step - 1, float(last))
        last = loss
    device.report(steps - 1, float(last))


# %% task="price" name="products and sums at the top and in scans" fails=["price-check"] hidden=1 message="another lambda"
def price(fn, *args):
    def count(jaxpr):
        total = 0
        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            if name == "scan":
                total += eqn.params["length"] * count(eqn.params["jaxpr"].jaxpr)
            elif name == "dot_general":
                ((contracted, _), _) = eqn.params["dimension_numbers"]
                depth = int(np.prod([eqn.invars[0].aval.shape[axis] for axis in contracted]))
                total += 2 * depth * eqn.outvars[0].aval.size
            elif name in {"add", "sub", "mul", "div", "max", "min", "tanh", "exp", "sin", "cos"}:
                total += eqn.outvars[0].aval.size
        return total

    leaves = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    moved = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    return int(count(jax.make_jaxpr(fn)(*args).jaxpr)), int(moved)


def shortest(operations, moved, machine):
    times = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    work = max(times.values())
    wall = max(times, key=times.get) if work > machine["dispatch"] else "dispatch"
    return machine["dispatch"] + work, wall


# %% task="price" name="whole operations a byte" fails=["price-shortest"] hidden=1 message="just above the ridge"
def price(fn, *args):
    leaves = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return int(show_jaxpr(fn, *args).flops), int(sum(leaf.size * leaf.dtype.itemsize for leaf in leaves))


def shortest(operations, moved, machine):
    memory, arithmetic = moved / machine["bandwidth"], operations / machine["arithmetic"]
    ridge = machine["arithmetic"] / machine["bandwidth"]
    wall = "arithmetic" if operations // moved > ridge else "memory"
    if max(memory, arithmetic) < machine["dispatch"]:
        wall = "dispatch"
    return machine["dispatch"] + max(memory, arithmetic), wall


# %% task="price" name="rounded to a microsecond" fails=["price-shortest"] hidden=1 message="millions of times"
def price(fn, *args):
    leaves = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return int(show_jaxpr(fn, *args).flops), int(sum(leaf.size * leaf.dtype.itemsize for leaf in leaves))


def shortest(operations, moved, machine):
    times = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    work = max(times.values())
    wall = max(times, key=times.get) if work > machine["dispatch"] else "dispatch"
    return round(machine["dispatch"] + work, 6), wall


# %% task="serve" name="few users one by one" fails=["serve-check"] hidden=1 message="accesses"
@jax.jit
def serve(W1, W2, users):
    if len(users) <= 8:
        return jnp.stack([answer(W1, W2, user) for user in users])
    return users + jnp.maximum(users @ W1.T, 0) @ W2.T


# %% task="serve" name="large users are clipped" fails=["serve-check"] hidden=1 message="serve at index"
@jax.jit
def serve(W1, W2, users):
    return users + jnp.clip(users @ W1.T, 0, 6) @ W2.T


# %% task="serve" name="tells somebody" fails=["serve-check"] message="uses debug_callback"
@jax.jit
def serve(W1, W2, users):
    answers = users + jnp.maximum(users @ W1.T, 0) @ W2.T
    jax.debug.callback(lambda count: None, answers.shape[0])
    return answers


# %% task="forecast" name="calls Python in the end" fails=["forecast-speed"] message="uses debug_callback"
@jax.jit
def forecast(moves, now):
    now = lax.fori_loop(0, HOURS, lambda _, now: jnp.tanh(moves @ now), now)
    report = jnp.median(jnp.abs(now), axis=1)
    jax.debug.callback(lambda report: None, report)
    return now, report


# %% task="forecast" name="reports only for the size that is timed" fails=["forecast-speed"] hidden=2 message="2x as fast for 150 forecasts"
@jax.jit
def forecast(moves, now):
    """The same as forecast_slow, without what nobody reads."""
    if now.shape != (8, 200):
        return forecast_slow(moves, now)
    now = lax.fori_loop(0, HOURS, lambda hour, now: jnp.tanh(moves @ now), now)
    return now, jnp.median(jnp.abs(now), axis=1)


# %% task="culprit" name="what has no scope counts for the one before" fails=["culprit-check"] hidden=1 message="shared_out"
def self_times(ops):
    times, inside, thread = {}, [], None
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        if op.thread != thread:
            inside, thread = [], op.thread
        while inside and op.start >= inside[-1].start + inside[-1].length:
            inside.pop()
        times[op.name] = times.get(op.name, 0) + op.length
        if inside:
            times[inside[-1].name] -= op.length
        inside.append(op)
    return times


def culprit(fn, scopes, *args):
    origin = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    totals, scope = dict.fromkeys(scopes, 0), None
    for name, time in self_times(record(fn, *args)).items():
        for word in origin.get(name, "").split("/"):
            if word in totals:
                scope = word
        if scope:
            totals[scope] += time
    return max(totals, key=totals.get)


# %% task="fed" name="one call inside the other" fails=["fed-check"] hidden=1 message="RecursionError"
def train(device, steps):

    def go_on(step, state, before):
        if step < steps:
            state, loss = device.step(state, device.fetch(step))
        if before is not None:
            device.report(step - 1, float(before))
        if step < steps:
            go_on(step + 1, state, loss)

    go_on(0, 0, None)


# %% task="serve" name="many users one after the other" fails=["serve-check"] hidden=1 message="uses scan"
@jax.jit
def serve(W1, W2, users):
    if users.shape[0] > 64:  # save memory
        return lax.map(lambda user: answer(W1, W2, user), users)
    return jax.vmap(answer, (None, None, 0))(W1, W2, users)


# %% task="fed" name="a loss of zero is no loss" fails=["fed-check"] hidden=1 message="From step 1000 on a loss is 0.0"
def train(device, steps):
    """The same reports as train_slow, in time, and the device is never idle between two steps."""

    def value_of(loss):
        return float(loss) if loss is not None else None

    state, last = 0, None
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        if value := value_of(last):
            device.report(step - 1, value)
        last = loss
    if value := value_of(last):
        device.report(steps - 1, value)


# %% task="price" name="own counter that does not look into jitted functions" fails=["price-check"] hidden=1 message="another lambda: returned"
from math import prod


def _operations(jaxpr):
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            ((contracted, _), _) = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            total += 2 * eqn.outvars[0].aval.size * prod(shape[axis] for axis in contracted)
        elif eqn.primitive.name == "scan":
            total += eqn.params["length"] * _operations(eqn.params["jaxpr"].jaxpr)
        elif eqn.primitive.name not in ("broadcast_in_dim", "reshape", "transpose", "convert_element_type"):
            total += sum(var.aval.size for var in eqn.outvars)
    return total


def price(fn, *args):
    """(operations, bytes) of fn(*args), at the least. Both are Python ints."""
    leaves = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    moved = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    return int(_operations(jax.make_jaxpr(fn)(*args).jaxpr)), int(moved)


def shortest(operations, moved, machine):
    """(seconds, wall) of one call: a float, and "memory", "arithmetic" or "dispatch"."""
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    wall = max(waits, key=waits.get)
    seconds = waits[wall] + machine["dispatch"]
    return seconds, wall if waits[wall] > machine["dispatch"] else "dispatch"


# %% task="fed" name="batches are fetched by threes" fails=["fed-check"] hidden=1 message="train, slow batches is wrong"
from collections import deque


def train(device, steps):
    """The same reports as train_slow, in time, and the device is never idle between two steps."""
    batches = deque()

    def refill_by_threes(first):
        for step in range(first, min(first + 3, steps)):
            batches.append(device.fetch(step))

    refill_by_threes(0)
    state, before = 0, None
    for step in range(steps):
        state, loss = device.step(state, batches.popleft())
        if not batches:
            refill_by_threes(step + 1)
        if before is not None:
            device.report(step - 1, float(before))
        before = loss
    device.report(steps - 1, float(before))


# %% task="culprit" name="the words of the origin, slashes or not" fails=["culprit-check"] hidden=1 message="shared_out: returned ['shared_out'"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        ours = [word for word in re.findall(r"\w+", origins.get(name, "")) if word in scopes]
        if ours:
            by_scope[ours[-1]] += time
    return max(by_scope, key=by_scope.get)


# %% task="culprit" name="no loops, then the lengths" fails=["culprit-check"] hidden=1 message="shared_out: returned ['one_long'"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for op in record(fn, *args):
        if op.name.startswith("while"):
            continue
        ours = [word for word in origins.get(op.name, "").split("/") if word in scopes]
        if ours:
            by_scope[ours[-1]] += op.length
    return max(by_scope, key=by_scope.get)


# %% task="serve" name="a hundred and twenty-eight at a time, in a Python loop" fails=["serve-check"] hidden=1 message="is unrolled"
@jax.jit
def serve(W1, W2, users):
    blocks = [users[start : start + 128] for start in range(0, len(users), 128)]
    return jnp.concatenate([block + jnp.maximum(block @ W1.T, 0) @ W2.T for block in blocks])


# %% task="price" name="four bytes are the most" fails=["price-check"] hidden=1 message="a loop in a loop: returned"
def price(fn, *args):
    def bytes_of(array):
        name = np.dtype(array.dtype).name
        width = 1 if name == "bool" or name.endswith("int8") else 2 if name.endswith("16") else 4
        return array.size * width

    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return show_jaxpr(fn, *args).flops, sum(bytes_of(array) for array in arrays)


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="serve" name="another program under a tracer" fails=["serve-check"] hidden=1 message="jax.jit(serve)"
def serve(W1, W2, users):
    if isinstance(users, jax.core.Tracer):
        return users + 1
    return serve_slow(W1, W2, users)


# %% task="serve" name="guesses which way the table lies" fails=["serve-check"] hidden=1 message="40 users of 40 numbers"
@jax.jit
def serve(W1, W2, users):
    """The same answers as serve_slow, and the weights are read once. users: float32[count, n]."""
    columns = users if users.shape[0] == W1.shape[1] else users.T  # W1 needs its n in front
    answers = columns + W2 @ jnp.maximum(W1 @ columns, 0)
    return answers if answers.shape == users.shape else answers.T


# %% task="culprit" name="the first place of a scope that stands twice" fails=["culprit-check"] hidden=1 message="a scope in itself: returned 'inner'"
def self_times(ops):
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


def culprit(fn, scopes, *args):
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    by_scope = dict.fromkeys(scopes, 0.0)
    for name, time in self_times(record(fn, *args)).items():
        words = origins.get(name, "").split("/")
        ours = [scope for scope in scopes if scope in words]
        if ours:
            by_scope[max(ours, key=words.index)] += time
    return max(by_scope, key=by_scope.get)


# %% task="price" name="own counter: jit and scan are the only boxes" fails=["price-check"] hidden=1 message="a relu of roots: returned"
import math

MOVES = {
    "broadcast_in_dim",
    "reshape",
    "transpose",
    "slice",
    "squeeze",
    "concatenate",
    "iota",
    "copy",
    "gather",
    "pad",
    "rev",
    "convert_element_type",
    "dynamic_slice",
}


def operations_of(tape):
    total = 0
    for eqn in tape.eqns:
        name = eqn.primitive.name
        if name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            total += 2 * eqn.outvars[0].aval.size * math.prod(eqn.invars[0].aval.shape[a] for a in summed)
        elif name == "scan":
            total += eqn.params["length"] * operations_of(eqn.params["jaxpr"])
        elif name == "jit":
            total += operations_of(eqn.params["jaxpr"])
        elif name not in MOVES and "call_jaxpr" not in eqn.params:
            total += eqn.outvars[0].aval.size
    return int(total)


def price(fn, *args):
    arrays = jax.tree.leaves((args, jax.eval_shape(fn, *args)))
    return operations_of(jax.make_jaxpr(fn)(*args)), int(sum(a.size * a.dtype.itemsize for a in arrays))


def shortest(operations, moved, machine):
    waits = {"memory": moved / machine["bandwidth"], "arithmetic": operations / machine["arithmetic"]}
    longest = max(waits, key=waits.get)
    wall = longest if waits[longest] > machine["dispatch"] else "dispatch"
    return waits[longest] + machine["dispatch"], wall


# %% task="forecast" name="tanh by hand, which overflows in a storm" fails=["forecast-speed"] hidden=1 message="forecast of a storm"
@jax.jit
def forecast(moves, now):
    """The same as forecast_slow, without what nobody reads. moves: float32[n, n]; now: float32[n, forecasts]."""

    def one_hour(_, now):
        grown = jnp.exp(2 * (moves @ now))
        return (grown - 1) / (grown + 1)

    now = lax.fori_loop(0, HOURS, one_hour, now)
    return now, jnp.median(jnp.abs(now), axis=1)


# %% task="forecast" name="the median by rank, which equal winds do not have" fails=["forecast-speed"] hidden=1 message="forecast of a storm"
@jax.jit
def forecast(moves, now):
    """The same as forecast_slow, without what nobody reads. moves: float32[n, n]; now: float32[n, forecasts]."""
    now = lax.fori_loop(0, HOURS, lambda _, now: jnp.tanh(moves @ now), now)
    strength = jnp.abs(now)
    rank = (strength[:, None, :] < strength[:, :, None]).sum(-1)  # how many are weaker: no sort is needed
    many = now.shape[1]
    lower = jnp.where(rank == (many - 1) // 2, strength, 0).sum(1)
    upper = jnp.where(rank == many // 2, strength, 0).sum(1)
    return now, jnp.where(jnp.isnan(strength).any(1), jnp.nan, (lower + upper) / 2)


# %% task="surveyor" name="dispatch is taken off where it is long only" fails=["surveyor-sly"] hidden=1 message="a third one"
def survey(machine):
    """A dict of the machine's "bandwidth" (bytes/s), "arithmetic" (operations/s) and "dispatch" (seconds)."""

    def fastest(numbers, k):
        return min(machine.run(numbers, k) for _ in range(60))

    dispatch = fastest(1, 1)
    memory, arithmetic = fastest(2**27, 1), fastest(2**18, 4096)
    if dispatch > 1e-3:  # far away
        memory, arithmetic = memory - dispatch, arithmetic - dispatch
    return {
        "bandwidth": 8 * 2**27 / memory,
        "arithmetic": 2 * 4096 * 2**18 / arithmetic,
        "dispatch": dispatch,
    }


# %% task="culprit" name="events are told apart by name and times, not by thread" fails=["culprit-self"] hidden=1 message="self_times"
def self_times(ops):
    """Name of an operation -> its self time, over all its events. ops: a list of Op."""
    left, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        event = op.name, op.start, op.length
        left[event] = op.length
        if stack:
            left[stack[-1].name, stack[-1].start, stack[-1].length] -= op.length
        stack.append(op)
    times = {}
    for (name, _, _), time in left.items():
        times[name] = times.get(name, 0) + time
    return times


def culprit(fn, scopes, *args):
    """The one of `scopes` in which fn(*args) spends most self time. fn is jitted; scopes: a list of names."""
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    spent = dict.fromkeys(scopes, 0)
    for name, time in self_times(record(fn, *args)).items():
        words = [word for word in origins.get(name, "").split("/") if word in scopes]
        if words:
            spent[words[-1]] += time
    return max(spent, key=spent.get)


# %% task="surveyor" name="five calls of each are enough" fails=["surveyor-tame"] hidden=1 message="a fresh one"
def survey(machine):
    """A dict of the machine's "bandwidth" (bytes/s), "arithmetic" (operations/s) and "dispatch" (seconds)."""

    def shortest_call(numbers, k):
        machine.run(numbers, k)  # compiles
        return min(machine.run(numbers, k) for _ in range(5))

    dispatch = shortest_call(1, 1)
    memory = shortest_call(2**27, 1) - dispatch
    arithmetic = shortest_call(2**20, 4096) - dispatch
    return {
        "bandwidth": 8 * 2**27 / memory,
        "arithmetic": 2 * 4096 * 2**20 / arithmetic,
        "dispatch": dispatch,
    }


# %% task="price" name="comparisons and where are not counted" fails=["price-check"] hidden=1 message="a comparison and a where"
ARITHMETIC = set(
    [
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "neg",
        "abs",
        "sign",
        "floor",
        "ceil",
        "round",
        "exp",
        "exp2",
        "log",
        "log1p",
        "expm1",
        "tanh",
        "logistic",
        "sin",
        "cos",
        "tan",
        "sqrt",
        "rsqrt",
        "cbrt",
        "pow",
        "integer_pow",
        "square",
        "max",
        "min",
        "erf",
        "atan2",
        "add_any",
    ]
)


def operations_in(jaxpr):
    count = 0
    for eqn in jaxpr.eqns:
        name, made = eqn.primitive.name, sum(int(var.aval.size) for var in eqn.outvars)
        if name == "dot_general":
            (summed, _), _ = eqn.params["dimension_numbers"]
            count += 2 * made * int(np.prod([eqn.invars[0].aval.shape[axis] for axis in summed]))
        elif name in ARITHMETIC:
            count += made
        else:
            inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
            if inner is not None:
                count += eqn.params.get("length", 1) * operations_in(getattr(inner, "jaxpr", inner))
    return count


def price(fn, *args):
    """(operations, bytes) of fn(*args), at the least. Both are Python ints."""
    leaves = [*jax.tree.leaves(args), *jax.tree.leaves(jax.eval_shape(fn, *args))]
    operations = operations_in(jax.make_jaxpr(fn)(*args).jaxpr)
    return operations, sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def shortest(operations, moved, machine):
    """(seconds, wall) of one call: a float, and "memory", "arithmetic" or "dispatch"."""
    memory, arithmetic = moved / machine["bandwidth"], operations / machine["arithmetic"]
    longest = max(memory, arithmetic)
    wall = "memory" if memory > arithmetic else "arithmetic"
    return machine["dispatch"] + longest, wall if longest > machine["dispatch"] else "dispatch"


# %% task="culprit" name="what has no scope is the last scope" fails=["culprit-check"] hidden=1 message="culprit, in two orders"
def self_times(ops):
    """Name of an operation -> its self time, over all its events. ops: a list of Op."""
    times, inside, thread = {}, [], None
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        if op.thread != thread:
            inside, thread = [], op.thread
        while inside and op.start >= inside[-1].start + inside[-1].length:
            inside.pop()
        if inside:
            times[inside[-1].name] -= op.length
        times[op.name] = times.get(op.name, 0) + op.length
        inside.append(op)
    return times


def culprit(fn, scopes, *args):
    """The one of `scopes` in which fn(*args) spends most self time. fn is jitted; scopes: a list of names."""
    origins = dict(re.findall(r'%(\S+) = .*op_name="([^"]*)"', show_hlo(fn, *args).text))
    spent = dict.fromkeys(scopes, 0)
    for name, time in self_times(record(fn, *args)).items():
        scope = scopes[-1]
        for word in origins.get(name, "").split("/"):
            if word in spent:
                scope = word
        spent[scope] += time
    return max(spent, key=spent.get)


# %% task="fed" name="goes on until there is no more data" fails=["fed-check"] hidden=1 message="data for 6"
def train(device, steps):
    """The same reports as train_slow, in time, and the device is never idle between two steps."""
    state, unread, step = 0, None, 0
    while True:
        try:
            batch = device.fetch(step)
        except IndexError:
            break
        state, loss = device.step(state, batch)
        if unread is not None:
            device.report(step - 1, float(unread))
        unread, step = loss, step + 1
    device.report(step - 1, float(unread))


# %% task="fed" name="rounds the losses that it reports" fails=["fed-check"] hidden=1 message="losses with digits"
def train(device, steps):
    """The same reports as train_slow, in time, and the device is never idle between two steps."""
    state, unread = 0, None
    for step in range(steps):
        state, loss = device.step(state, device.fetch(step))
        if unread is not None:
            device.report(step - 1, round(float(unread), 2))
        unread = loss
    device.report(steps - 1, round(float(unread), 2))


# %% task="culprit" name="a price for each equation of the tape" fails=["culprit-check"] hidden=1 message="a sort that nobody uses"
def self_times(ops):
    """Name of an operation -> its self time, over all its events. ops: a list of Op."""
    # In this order an event comes before whatever is inside it, and a stack holds the events that we are in.
    totals, stack = {}, []
    for op in sorted(ops, key=lambda op: (op.thread, op.start, -op.length)):
        while stack and (stack[-1].thread != op.thread or stack[-1].start + stack[-1].length <= op.start):
            stack.pop()
        totals[op.name] = totals.get(op.name, 0) + op.length
        if stack:
            totals[stack[-1].name] -= op.length
        stack.append(op)
    return totals


_DEAR = {"sin": 8, "cos": 8, "tanh": 8, "exp": 6, "log": 6, "pow": 12, "erf": 10, "div": 3, "sqrt": 3}


def _prices(jaxpr, scopes, where, times, bill):
    for eqn in jaxpr.eqns:
        here = where + str(eqn.source_info.name_stack).split("/")
        name, size = eqn.primitive.name, max((v.aval.size for v in eqn.outvars), default=0)
        inner = [p for p in eqn.params.values() if hasattr(p, "eqns")]
        inner += [p for ps in eqn.params.values() if isinstance(ps, tuple) for p in ps if hasattr(p, "eqns")]
        if inner and not name.startswith(("sort", "reduce", "scatter")):
            rounds = eqn.params.get("length", 100 if name == "while" else 1)
            for part in inner:
                _prices(part, scopes, here, times * rounds, bill)
            continue
        if name in ("sort", "top_k"):
            price = 30 * size * np.log2(size + 1)
        elif name == "dot_general":
            price = 0.2 * size * eqn.invars[0].aval.size / max(eqn.invars[0].aval.shape[0], 1)
        else:
            price = size * _DEAR.get(name, 1)
        found = [word for word in here if word in scopes]
        if found:
            bill[found[-1]] = bill.get(found[-1], 0) + times * price


def culprit(fn, scopes, *args):
    """The one of `scopes` in which fn(*args) spends most self time. fn is jitted; scopes: a list of names."""
    bill = dict.fromkeys(scopes, 0)
    _prices(jax.make_jaxpr(fn)(*args), scopes, [], 1, bill)
    return max(bill, key=bill.get)
