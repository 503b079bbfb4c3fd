# %% [markdown]
# Wrong answers to unit 03, one for each misconception. Each replaces its whole solution cell and must fail the named
# cells with the message that is meant for it. One marked `hidden=1` passes all that is visible, and fails in the first
# hidden region of these cells.

# %% task="seance" name="a global is read at each call" fails=["seance-check"] message="what does its tape hold?"
def seance(old, new):
    return {
        "a float": new + 1,
        "three floats": new,
        "an int": new + 1,
        "a float32 array": new + 1,
        "vmap": new,
        "jit again": new + 2,
        "a new function": new + 2,
        "not jitted": new + 2,
        "boos so far": 10,
        "after clear_cache": new + 3,
    }


def haunting(n):
    return {
        "print": 1,
        "print, branch not taken": 1,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 5 * n,
        "pure_callback, unused": 0,
        "io_callback, unused": n,
    }


# %% task="seance" name="jit again to refresh, and looking does not count" fails=["seance-check"] message="The tracing cache belongs to f"
def seance(old, new):
    return {
        "a float": old + 1,
        "three floats": new,
        "an int": new + 1,
        "a float32 array": old + 1,
        "vmap": new,
        "jit again": new + 2,
        "a new function": new + 2,
        "not jitted": new + 2,
        "boos so far": 7,
        "after clear_cache": new + 3,
    }


def haunting(n):
    return {
        "print": 1,
        "print, branch not taken": 1,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 5 * n,
        "pure_callback, unused": 0,
        "io_callback, unused": n,
    }


# %% task="seance" name="a weak type is a type like any other" fails=["seance-check"] message="Has it the same type?"
def seance(old, new):
    return {
        "a float": old + 1,
        "three floats": new,
        "an int": old + 1,
        "a float32 array": old + 1,
        "vmap": old,
        "jit again": old + 2,
        "a new function": new + 2,
        "not jitted": new + 2,
        "boos so far": 5,
        "after clear_cache": new + 3,
    }


def haunting(n):
    return {
        "print": 1,
        "print, branch not taken": 1,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 5 * n,
        "pure_callback, unused": 0,
        "io_callback, unused": n,
    }


# %% task="seance" name="effects happen as in Python" fails=["seance-haunting"] message="May a compiler drop a pure value"
def seance(old, new):
    return {}


def haunting(n):
    return {
        "print": 1,
        "print, branch not taken": 0,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 5 * n,
        "pure_callback, unused": n,
        "io_callback, unused": n,
    }


# %% task="seance" name="measured instead" fails=["seance-check"] message="hold_seance"
def seance(old, new):
    return hold_seance(old, new)


# %% task="seance" name="haunting measured instead" fails=["seance-haunting"] message="go_haunting"
def haunting(n):
    return go_haunting(n)


# %% task="cures" name="everything static" fails=["cures-step-check"] message="rate: static"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return jax.jit(step, static_argnames=("rate", "clip"))


def follow(jitted, look):
    return jitted


# %% task="cures" name="the settings are still global" fails=["cures-step-check"] message="step(w, 0.25, False)"
def make_step():
    @jax.jit
    def step(w, rate, clip):
        return haunted_step(w)

    return step


def follow(jitted, look):
    return jitted


# %% task="cures" name="jit again" fails=["cures-follow-check"] message="Jitting again does not help"
def make_step():
    return None


def follow(jitted, look):
    return lambda *args: jax.jit(jitted.__wrapped__)(*args)


# %% task="cures" name="clear at each call" fails=["cures-follow-check"] message="when the value has changed, and only then"
def make_step():
    return None


def follow(jitted, look):
    def call(*args):
        jitted.clear_cache()
        return jitted(*args)

    return call


# %% task="cures" name="clear everybody's caches" fails=["cures-follow-check"] message="empties everybody's cache"
def make_step():
    return None


def follow(jitted, look):
    seen = None

    def call(*args):
        nonlocal seen
        if look() != seen:
            jax.clear_caches()
            seen = look()
        return jitted(*args)

    return call


# %% task="cures" name="forgets the tapes from before" fails=["cures-follow-check"] message="Some come from an old value"
def make_step():
    return None


def follow(jitted, look):
    seen = None

    def call(*args):
        nonlocal seen
        if seen is not None and look() != seen:
            jitted.clear_cache()
        seen = look()
        return jitted(*args)

    return call


# %% task="exorcism" name="a global counter" fails=["exorcism-tick"] message="A count that Python keeps moves once a trace"
ghost_count = 0


@jax.jit
def tick(calls, x):
    global ghost_count
    ghost_count += 1
    return ghost_count, x / ghost_count


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    return key, x


# %% task="exorcism" name="a global list" fails=["exorcism-orbit"] message="a tracer is kept by ghost_list', expected 'silent'. What the function collects is born and dies inside it"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


ghost_list = []


@jax.jit
def orbit(x):
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        ghost_list.append(x)
    return x, jnp.stack(ghost_list[-6:])


@jax.jit
def noisy(key, x):
    return key, x


# %% task="exorcism" name="a list is returned as it is" fails=["exorcism-orbit"] message="another structure"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, visited


@jax.jit
def noisy(key, x):
    return key, x


# %% task="exorcism" name="NumPy's generator" fails=["exorcism-noisy"] message="Two calls gave the same noise"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    keep = np.random.random(x.shape) < 0.5
    return jax.random.split(key)[0], jnp.where(keep, x, 0.0) + np.random.standard_normal(x.shape)


# %% task="exorcism" name="one key for mask and noise" fails=["exorcism-noisy"] message="they share their bits"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    key, draw = jax.random.split(key)
    keep = jax.random.bernoulli(draw, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(draw, x.shape)


# %% task="exorcism" name="the same key goes out" fails=["exorcism-noisy"] message="Two calls gave the same noise"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    for_mask, for_noise = jax.random.split(key)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="a used key goes out" fails=["exorcism-noisy"] message="the one that drew this call's noise"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    for_mask, for_noise = jax.random.split(key)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return for_noise, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="draws with the key that was split" fails=["exorcism-noisy"] message="KeyReuseError"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    next_key, for_noise = jax.random.split(key)
    keep = jax.random.bernoulli(key, 0.5, x.shape)
    return next_key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="a pure_callback for each point" fails=["exorcism-speed"] message="below 10x"
@jax.jit
def tick(calls, x):
    calls = calls + 1
    return calls, x / calls


def next_point(x):
    return (np.float32(3.7) * x * (1 - x)).astype(x.dtype)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = jax.pure_callback(next_point, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="NumPy makes the whole orbit, in one callback" fails=["exorcism-speed"] message="below 10x"
@jax.jit
def tick(calls, x):
    calls = calls + 1
    return calls, x / calls


def all_points(x):
    visited = []
    for _ in range(6):
        x = (np.float32(3.7) * x * (1 - x)).astype(x.dtype)
        visited.append(x)
    return np.stack(visited)


@jax.jit
def orbit(x):
    visited = jax.pure_callback(all_points, jax.ShapeDtypeStruct((6, *x.shape), x.dtype), x)
    return visited[-1], visited


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="a list, and so no jit" fails=["exorcism-speed"] message="below 10x"
@jax.jit
def tick(calls, x):
    calls = calls + 1
    return calls, x / calls


def orbit(x):
    x, visited = jnp.asarray(x), []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="leak-hunt" name="only arguments become tracers" fails=["leak-hunt-check"] message="Under a trace the result of every jnp operation"
def who_leaks():
    return {
        "value": True,
        "shape": False,
        "constant": False,
        "NumPy constant": False,
        "local list": False,
        "attribute": True,
        "closure": True,
        "callback": False,
    }


def mixer(n):
    return None


# %% task="leak-hunt" name="only containers leak, and any append is one" fails=["leak-hunt-check"] message="A function holds the variables that it uses"
def who_leaks():
    return {
        "value": True,
        "shape": True,
        "constant": True,
        "NumPy constant": True,
        "local list": True,
        "attribute": False,
        "closure": False,
        "callback": True,
    }


def mixer(n):
    return None


# %% task="leak-hunt" name="the leak itself" fails=["leak-hunt-repair"] message="the cache kept a tracer for ever"
def who_leaks():
    return {}


@functools.cache
def mixer(n):
    return jax.random.normal(jax.random.key(n), (n, n))


# %% task="leak-hunt" name="jit the table" fails=["leak-hunt-repair"] message="the cache kept a tracer for ever"
def who_leaks():
    return {}


@functools.cache
def mixer(n):
    return jax.jit(lambda: jax.random.normal(jax.random.key(n), (n, n)))()


# %% task="leak-hunt" name="the cache is in the way" fails=["leak-hunt-repair"] message="Leave the functools.cache above the function"
def who_leaks():
    return {}


def mixer(n):
    with jax.ensure_compile_time_eval():
        return jax.random.normal(jax.random.key(n), (n, n))


# %% task="leak-hunt" name="measured instead" fails=["leak-hunt-check"] message="interrogate"
def who_leaks():
    return interrogate()


# %% task="is-pure" name="compares a trace with itself" fails=["is-pure-check"] message="what is found agrees with itself"
def is_pure(fn, *args):
    one, two = jax.make_jaxpr(fn)(*args), jax.make_jaxpr(fn)(*args)
    return str(one) == str(two) and not one.effects


def sneaky():
    return None


# %% task="is-pure" name="compares the print, without the constants" fails=["is-pure-check"] message="their captured arrays differ"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                programs.append(jax.make_jaxpr(fn)(*args))
        except Exception:
            return False
    return str(programs[0]) == str(programs[1]) and not programs[0].effects


def sneaky():
    return None


# %% task="is-pure" name="no leaks, no effects" fails=["is-pure-check"] message="it has an effect when it runs"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        programs.append(jax.jit(fn).lower(*args).as_text())
    return programs[0] == programs[1]


def sneaky():
    return None


# %% task="is-pure" name="reads the source" fails=["is-pure-check"] message="It appends to a list of its own"
def is_pure(fn, *args):
    import inspect

    source = inspect.getsource(fn)
    return not any(word in source for word in ("append", "nonlocal", "global", "print", "random"))


def sneaky():
    return None


# %% task="is-pure" name="compares results" fails=["is-pure-check"] message="The same program, and"
def is_pure(fn, *args):
    plain = getattr(fn, "__wrapped__", fn)
    return bool(np.array_equal(plain(*args), plain(*args)))


def sneaky():
    return None


# %% task="is-pure" name="the ghost shows itself at once" fails=["is-pure-sneaky"] message="Two fresh traces already differ"
def is_pure(fn, *args):
    return True


def sneaky():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x + calls

    return f


# %% task="is-pure" name="no ghost at all" fails=["is-pure-sneaky"] message="nothing to find"
def is_pure(fn, *args):
    return True


def sneaky():
    kept = []

    def f(x):
        kept.append(len(kept))
        return x + 1

    return f


# %% task="be-the-jit" name="a global is read at each call" fails=["be-the-jit-check", "be-the-jit-all"] message="ghost is wrong"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action == "call":
            runs += 1
            answers.append(1.0 + g)
    return answers, runs


# %% task="be-the-jit" name="jit again forgets" fails=["be-the-jit-check"] message="Another jit around the same f finds them"
def ghost(script):
    g, runs, answers, tapes = 0.0, 0, [], {}
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        else:
            tapes = {}
    return answers, runs


# %% task="be-the-jit" name="one dictionary for all functions" fails=["be-the-jit-check"] message="While jf was a wrapper the tapes of f were kept"
def ghost(script):
    g, runs, answers, tapes = 0.0, 0, [], {}
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action in ("wrap", "clear"):
            tapes = {}
    return answers, runs


# %% task="be-the-jit" name="looking leaves nothing behind" fails=["be-the-jit-check"] message="make_jaxpr writes a tape as a call does"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action == "look":
            runs += 1
        elif action == "call":
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="asks jax" fails=["be-the-jit-check", "be-the-jit-all"] message="ghost uses play, which does not exist where it is run"
def ghost(script):
    return play(script)


# %% task="be-the-jit" name="switches jit on" fails=["be-the-jit-check"] message="ghost uses jax.disable_jit, which does not exist where it is run"
def ghost(script):
    with jax.disable_jit(False):
        return play(script)


# %% task="minijit-refuse" name="a tracer is true, as every object" fails=["minijit-refuse-check"] message="no answer is right for all values"
def no_value(tracer, wanted):
    return {"bool": True, "int": 1, "float": 1.0, "array": np.ones(tracer.shape, tracer.dtype)}[wanted]


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-refuse" name="writes on the innermost open tape, whoever asks" fails=["minijit-refuse-check"] message="Its own tape is closed; that another one is open does not help"
def no_value(tracer, wanted):
    raise NoValue(f"{wanted} of {tracer.type}")


def tape_for(operands):
    if not OPEN:
        raise Leak(f"no tape is open for {operands[0].type}")
    return OPEN[-1]


# %% task="minijit-refuse" name="takes the tape of the first tracer" fails=["minijit-refuse-check"] message="Where is each in OPEN?"
def no_value(tracer, wanted):
    raise NoValue(f"{wanted} of {tracer.type}")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return tracers[0].tape


# %% task="minijit-refuse" name="a message that helps nobody" fails=["minijit-refuse-check"] message="put it into the message"
def no_value(tracer, wanted):
    raise NoValue("not possible")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    if any(x.tape not in OPEN for x in tracers):
        raise Leak("not possible")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-trace" name="only kept tracers are effects" fails=["minijit-trace-check"] message="No tracer is kept here. Compare visible(fn) before and after"
def trace(fn, *types):
    tape = Tape()
    with writing(tape):
        write(tape, fn, types)
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="minijit-trace" name="visible sees everything" fails=["minijit-trace-check"] message="but survivors(tape) finds the tracer"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    return tape


# %% task="minijit-trace" name="looks while its own variables hold the tracers" fails=["minijit-trace-check"] message="if you ask once fn has returned"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        tracers = [tape.new(type) for type in types]
        result = fn(*tracers)
        tape.inputs, tape.output = [x.name for x in tracers], tape.refer(result)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="seance" name="the numbers of the visible seance" fails=["seance-check"] hidden=1 message="A weak float came before"
def seance(old, new):
    return {
        "a float": 2,
        "three floats": 10,
        "an int": 2,
        "a float32 array": 11,
        "vmap": 10,
        "jit again": 3,
        "a new function": 12,
        "not jitted": 12,
        "boos so far": 6,
        "after clear_cache": 13,
    }


def haunting(n):
    return {
        "print": 1,
        "print, branch not taken": 1,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 5 * n,
        "pure_callback, unused": 0,
        "io_callback, unused": n,
    }


# %% task="seance" name="the counts of the visible haunting" fails=["seance-haunting"] hidden=1 message="How often does the body run"
def seance(old, new):
    return {
        "a float": old + 1,
        "three floats": new,
        "an int": old + 1,
        "a float32 array": new + 1,
        "vmap": new,
        "jit again": old + 2,
        "a new function": new + 2,
        "not jitted": new + 2,
        "boos so far": 6,
        "after clear_cache": new + 3,
    }


def haunting(n):
    return {
        "print": 1,
        "print, branch not taken": 1,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 15,
        "pure_callback, unused": 0,
        "io_callback, unused": 3,
    }


# %% task="cures" name="clips before it multiplies" fails=["cures-step-check"] hidden=1 message="step 0"
def make_step():
    @functools.partial(jax.jit, static_argnames="clip")
    def step(w, rate, clip):
        return w - (jnp.clip(w, -1 / rate, 1 / rate) if clip else w) * rate

    return step


def follow(jitted, look):
    seen = None

    def call(*args):
        nonlocal seen
        if [look()] != seen:
            jitted.clear_cache()
            seen = [look()]
        return jitted(*args)

    return call


# %% task="cures" name="starts from 0" fails=["cures-follow-check"] hidden=1 message="Some come from an old value"
def make_step():
    return jax.jit(lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate), static_argnums=2)


def follow(jitted, look):
    seen = 0

    def call(*args):
        nonlocal seen
        if look() != seen:
            jitted.clear_cache()
            seen = look()
        return jitted(*args)

    return call


# %% task="cures" name="a value that was seen is known" fails=["cures-follow-check"] hidden=1 message="Some come from an old value"
def make_step():
    return jax.jit(lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate), static_argnums=2)


def follow(jitted, look):
    seen = set()

    def call(*args):
        if look() not in seen:
            jitted.clear_cache()
            seen.add(look())
        return jitted(*args)

    return call


# %% task="cures" name="hands the first argument on" fails=["cures-follow-check"] message="TypeError"
def make_step():
    return None


def follow(jitted, look):
    def call(*args):
        jitted.clear_cache()
        return jitted(args[0])

    return call


# %% task="cures" name="asks a tracer whether to clip" fails=["cures-step-check"] message="TracerBoolConversionError"
def make_step():
    @jax.jit
    def step(w, rate, clip):
        return w - (jnp.clip(w * rate, -1, 1) if clip else w * rate)

    return step


def follow(jitted, look):
    return jitted


# %% task="cures" name="without jit" fails=["cures-step-check"] message="jitted"
def make_step():
    return lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate)


def follow(jitted, look):
    return jitted.__wrapped__


# %% task="exorcism" name="divides without a rest" fails=["exorcism-tick"] hidden=1 message="tick is wrong"
@jax.jit
def tick(calls, x):
    return calls + 1, x // (calls + 1)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="one axis is enough" fails=["exorcism-orbit", "exorcism-noisy"] hidden=1 message="shape"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.concatenate(visited).reshape(6, -1)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape[:1])
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape[:1])


# %% task="exorcism" name="noise on what is kept" fails=["exorcism-noisy"] message="the zeroed ones too"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x + jax.random.normal(for_noise, x.shape), 0.0)


# %% task="exorcism" name="what happened last is kept aside" fails=["exorcism-tick", "exorcism-noisy"] message="leak"
last_seen = {}


@jax.jit
def tick(calls, x):
    last_seen["tick"] = x / (calls + 1)
    return calls + 1, last_seen["tick"]


@jax.jit
def orbit(x):
    return x, x


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    last_seen["keep"] = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(last_seen["keep"], x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="the points before each step" fails=["exorcism-orbit"] message="orbit(x)"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return jax.lax.scan(lambda x, _: (3.7 * x * (1 - x), x), x, None, 6)


@jax.jit
def noisy(key, x):
    return key, x


# %% task="leak-hunt" name="one key for all tables" fails=["leak-hunt-repair"] hidden=1 message="mixer"
def who_leaks():
    return {
        "value": True,
        "shape": False,
        "constant": True,
        "NumPy constant": False,
        "local list": False,
        "attribute": True,
        "closure": True,
        "callback": False,
    }


@functools.cache
def mixer(n):
    with jax.ensure_compile_time_eval():
        return jax.random.normal(jax.random.key(4), (n, n))


# %% task="leak-hunt" name="NumPy keeps the table" fails=["leak-hunt-repair"] message="an array of JAX, not of NumPy"
def who_leaks():
    return {}


@functools.cache
def mixer(n):
    with jax.ensure_compile_time_eval():
        return np.asarray(jax.random.normal(jax.random.key(n), (n, n)))


# %% task="leak-hunt" name="a uniform table" fails=["leak-hunt-repair"] message="mixer(n) @ x, under jit"
def who_leaks():
    return {}


@functools.cache
def mixer(n):
    with jax.ensure_compile_time_eval():
        return jax.random.uniform(jax.random.key(n), (n, n))


# %% task="is-pure" name="compares the print and the outer constants, of the first argument" fails=["is-pure-check"] hidden=1 message="is_pure is wrong"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                closed = jax.make_jaxpr(fn)(args[0])
        except Exception:
            return False
        if closed.effects:
            return False
        programs.append((str(closed), [np.asarray(const).tolist() for const in closed.consts]))
    return programs[0] == programs[1]


def sneaky():
    calls = []

    def f(x):
        calls.append(1)
        return x + (len(calls) > 6)

    return f


# %% task="is-pure" name="only the first argument" fails=["is-pure-check"] hidden=1 message="missing 1 required positional argument"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(args[0])
        except TypeError:
            raise
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    calls = []

    def f(x):
        calls.append(1)
        return x + (len(calls) > 6)

    return f


# %% task="is-pure" name="everything is impure" fails=["is-pure-check"] message="the two programs are the same"
def is_pure(fn, *args):
    return False


def sneaky():
    return None


# %% task="is-pure" name="clears once" fails=["is-pure-check"] message="Did the second really run, or find the first?"
def is_pure(fn, *args):
    jax.clear_caches()
    programs = []
    for _ in range(2):
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    return None


# %% task="be-the-jit" name="a wrapper writes a tape of f, too" fails=["be-the-jit-all"] hidden=1 message="ghost is wrong"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                tapes_of_f.setdefault(kind, g)
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="all wrappers are one" fails=["be-the-jit-all"] message="ghost is wrong"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f, tapes_of_wrapper = {}, {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = tapes_of_wrapper
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="the shape decides alone" fails=["be-the-jit-check"] message="Each dtype has a tape of its own"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = details[1]
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="clear empties every cache" fails=["be-the-jit-check"] message="those of f are still there"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
            tapes_of_f.clear()
    return answers, runs


# %% task="minijit-refuse" name="the innermost, or else the first" fails=["minijit-refuse-check"] hidden=1 message="three tapes"
def no_value(tracer, wanted):
    raise NoValue(f"{wanted} of {tracer.type}")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return OPEN[-1] if any(x.tape is OPEN[-1] for x in tracers) else tracers[0].tape


# %% task="minijit-refuse" name="looks at the first tracer only" fails=["minijit-refuse-check"] message="One of the two is not open any more"
def no_value(tracer, wanted):
    raise NoValue(f"{wanted} of {tracer.type}")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    if tracers[0].tape not in OPEN:
        raise Leak(f"{tracers[0].type} is used after its tape was closed")
    return max((x.tape for x in tracers if x.tape in OPEN), key=OPEN.index)


# %% task="minijit-refuse" name="the outermost tape" fails=["minijit-refuse-check"] message="write on the innermost"
def no_value(tracer, wanted):
    raise NoValue(f"{wanted} of {tracer.type}")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return min((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-trace" name="closes every tape" fails=["minijit-trace-check"] hidden=1 message="after its tape was closed"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    OPEN.append(tape)
    try:
        write(tape, fn, types)
    finally:
        OPEN.clear()
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="minijit-trace" name="leaks before effects" fails=["minijit-trace-check"] message="Look for effects first"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    return tape


# %% task="minijit-trace" name="an error leaves the tape open" fails=["minijit-trace-check"] message="closes it, whatever happens inside"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    OPEN.append(tape)
    write(tape, fn, types)
    OPEN.pop()
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="minijit-trace" name="what is read is refused" fails=["minijit-trace-check"] message="what fn sees is the same before and after"
def trace(fn, *types):
    if visible(fn):
        raise Effect(f"{', '.join(visible(fn))} may change")
    tape = Tape()
    with writing(tape):
        write(tape, fn, types)
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="cures" name="clips when some move is above 1" fails=["cures-step-check"] hidden=1 message="step "
def make_step():
    def step(w, rate, clip):
        move = w * rate
        return w - jnp.where(clip & (move.max() > 1), jnp.clip(move, -1, 1), move)

    return jax.jit(step)


def follow(jitted, look):
    seen = follow

    def call(*args):
        nonlocal seen
        if look() != seen:
            jitted.clear_cache()
            seen = look()
        return jitted(*args)

    return call


# %% task="cures" name="a tape from before follow is trusted" fails=["cures-follow-check"] message="Some come from an old value"
def make_step():
    return jax.jit(lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate), static_argnums=2)


def follow(jitted, look):
    seen = look()

    def call(*args):
        nonlocal seen
        if look() != seen:
            jitted.clear_cache()
            seen = look()
        return jitted(*args)

    return call


# %% task="cures" name="another object is another value" fails=["cures-follow-check"] message="when the value has changed, and only then"
def make_step():
    return jax.jit(lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate), static_argnums=2)


def follow(jitted, look):
    seen = follow

    def call(*args):
        nonlocal seen
        if look() is not seen:
            jitted.clear_cache()
            seen = look()
        return jitted(*args)

    return call


# %% task="cures" name="one memory for all that is followed" fails=["cures-follow-check"] message="follow is wrong"
def make_step():
    return jax.jit(lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate), static_argnums=2)


last_seen = []


def follow(jitted, look):
    def call(*args):
        if last_seen != [look()]:
            jitted.clear_cache()
            last_seen[:] = [look()]
        return jitted(*args)

    return call


# %% task="cures" name="two arguments" fails=["cures-follow-check"] hidden=1 message="positional argument"
def make_step():
    return jax.jit(lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate), static_argnums=2)


def follow(jitted, look):
    seen = follow

    def call(x, y=None):
        nonlocal seen
        if look() != seen:
            jitted.clear_cache()
            seen = look()
        return jitted(x) if y is None else jitted(x, y)

    return call


# %% task="cures" name="None is no value" fails=["cures-follow-check"] hidden=1 message="Some come from an old value"
def make_step():
    return jax.jit(lambda w, rate, clip: w - (jnp.clip(w * rate, -1, 1) if clip else w * rate), static_argnums=2)


def follow(jitted, look):
    seen = None

    def call(*args):
        nonlocal seen
        if look() != seen:
            jitted.clear_cache()
            seen = look()
        return jitted(*args)

    return call


# %% task="exorcism" name="the mean of an array" fails=["exorcism-tick"] message="tick is wrong"
@jax.jit
def tick(calls, x):
    return calls + 1, x.mean() / (calls + 1)


@jax.jit
def orbit(x):
    return jax.lax.scan(lambda x, _: (3.7 * x * (1 - x),) * 2, x, None, 6)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="the next key is a constant" fails=["exorcism-noisy"] message="From the second call on all keys are one key"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return jax.lax.scan(lambda x, _: (3.7 * x * (1 - x),) * 2, x, None, 6)


@jax.jit
def noisy(key, x):
    for_mask, for_noise = jax.random.split(key)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return jax.random.key(7), jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="exactly half is kept" fails=["exorcism-noisy"] hidden=1 message="four draws keep the same number"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return jax.lax.scan(lambda x, _: (3.7 * x * (1 - x),) * 2, x, None, 6)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = (jax.random.permutation(for_mask, x.size) < x.size // 2).reshape(x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="one draw for each row" fails=["exorcism-noisy"] hidden=1 message="not one for each row or column"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return jax.lax.scan(lambda x, _: (3.7 * x * (1 - x),) * 2, x, None, 6)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    shape = x.shape if x.ndim < 2 else (x.shape[0], 1)
    keep = jax.random.bernoulli(for_mask, 0.5, shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, shape)


# %% task="exorcism" name="uniform noise" fails=["exorcism-noisy"] message="the noise is standard normal"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    return jax.lax.scan(lambda x, _: (3.7 * x * (1 - x),) * 2, x, None, 6)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + 3**0.5 * jax.random.uniform(for_noise, x.shape, minval=-1)


# %% task="leak-hunt" name="keeps the last table" fails=["leak-hunt-repair"] hidden=1 message="is kept, beside others"
def who_leaks():
    leaking = dict.fromkeys(["value", "constant", "attribute", "closure"], True)
    return leaking | dict.fromkeys(["shape", "NumPy constant", "local list", "callback"], False)


@functools.lru_cache(maxsize=1)
def mixer(n):
    with jax.ensure_compile_time_eval():
        return jax.random.normal(jax.random.key(n), (n, n))


# %% task="leak-hunt" name="keeps no table of a jitted function" fails=["leak-hunt-repair"] hidden=1 message="is kept, beside others"
def who_leaks():
    leaking = dict.fromkeys(["value", "constant", "attribute", "closure"], True)
    return leaking | dict.fromkeys(["shape", "NumPy constant", "local list", "callback"], False)


kept_tables = {}


def mixer(n):
    if n in kept_tables:
        return kept_tables[n]
    table = jax.random.normal(jax.random.key(n), (n, n))
    if not isinstance(table, jax.core.Tracer):
        kept_tables[n] = table
    return table


# %% task="leak-hunt" name="small tables are made in advance" fails=["leak-hunt-repair"] hidden=1 message="mixer(n) afterwards is a tracer"
def who_leaks():
    leaking = dict.fromkeys(["value", "constant", "attribute", "closure"], True)
    return leaking | dict.fromkeys(["shape", "NumPy constant", "local list", "callback"], False)


early_tables = {n: jax.random.normal(jax.random.key(n), (n, n)) for n in (4, 6)}


@functools.cache
def mixer(n):
    return early_tables[n] if n in early_tables else jax.random.normal(jax.random.key(n), (n, n))


# %% task="is-pure" name="only debug.print is an effect" fails=["is-pure-check"] hidden=1 message="io_callback"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if "debug" in str(traced.jaxpr):
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    calls = []

    def f(x):
        calls.append(1)
        return x + (len(calls) > 6)

    return f


# %% task="is-pure" name="compares what the programs return" fails=["is-pure-check"] hidden=1 message="Results may agree where programs differ"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().compile()(*args))
    return bool(np.array_equal(*programs))


def sneaky():
    calls = []

    def f(x):
        calls.append(1)
        return x + (len(calls) > 6)

    return f


# %% task="is-pure" name="a large array is its first and last elements" fails=["is-pure-check"] hidden=1 message="a large array"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append(
            (
                str(traced.jaxpr),
                [str(np.asarray(x)) for x in jax.make_jaxpr(fn)(*args).consts],
                traced.lower().as_text()[:3000],
            )
        )
    return programs[0] == programs[1]


def sneaky():
    calls = []

    def f(x):
        calls.append(1)
        return x + (len(calls) > 6)

    return f


# %% task="is-pure" name="forgets the tapes of fn alone" fails=["is-pure-check"] hidden=1 message="Traced before, one level further in"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        fresh = jax.jit(lambda *args: getattr(fn, "__wrapped__", fn)(*args))
        try:
            with jax.checking_leaks():
                traced = fresh.trace(*args)
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    calls = []

    def f(x):
        calls.append(1)
        return x + (len(calls) > 6)

    return f


# %% task="is-pure" name="one memory for all ghosts" fails=["is-pure-sneaky"] hidden=1 message="has its own memory"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


sneaky_calls = []


def sneaky():
    def f(x):
        sneaky_calls.append(1)
        return x + (len(sneaky_calls) > 6)

    return f


# %% task="be-the-jit" name="a shape is a number of axes" fails=["be-the-jit-all"] hidden=1 message="ghost is wrong"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = (details[0], len(details[1]))
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="a shape is a number of elements" fails=["be-the-jit-all"] hidden=1 message="ghost is wrong"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = (details[0], int("0" + "".join(map(str, sorted(details[1])))))
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="integers in, integers out" fails=["be-the-jit-all"] hidden=1 message="ghost is wrong"
def ghost(script):
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(float(int(1 + tapes[kind]) if "int" in kind[0] else 1 + tapes[kind]))
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="minijit-refuse" name="names the type of the first tracer" fails=["minijit-refuse-check"] message="One of the two is not open any more"
def no_value(tracer, wanted):
    raise NoValue(f"{wanted} of {tracer.type}")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    if any(x.tape not in OPEN for x in tracers):
        raise Leak(f"{tracers[0].type} is used after its tape was closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-refuse" name="every type is float32" fails=["minijit-refuse-check"] hidden=1 message="the message is wrong"
def no_value(tracer, wanted):
    raise NoValue(f"{wanted} of float32[{','.join(map(str, tracer.shape))}]")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.type} is used after its tape was closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-trace" name="a result may be kept" fails=["minijit-trace-check"] hidden=1 message="keeps_what_it_returns"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    for kept in survivors(tape):
        if kept.name != tape.output:
            raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="minijit-trace" name="names the first change" fails=["minijit-trace-check"] hidden=1 message="both that changed"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    for name, text in visible(fn).items():
        if text != before.get(name):
            raise Effect(f"{name} changed")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="minijit-trace" name="names the types of the arguments" fails=["minijit-trace-check"] hidden=1 message="the type that survived"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    if survivors(tape):
        raise Leak(f"somebody holds a tracer: {', '.join(map(str, types))}")
    return tape


# %% task="minijit-trace" name="swallows what fn raises" fails=["minijit-trace-check"] hidden=1 message="decides_by_value"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape), contextlib.suppress(Exception):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="cures" name="w is donated" fails=["cures-step-check"] hidden=1 message="deleted"
def make_step():
    """A jitted step(w, rate, clip), with at most two traces for each type of w."""

    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip", donate_argnames="w")


def follow(jitted, look):
    """A function call(*args) that answers as `jitted` would if it read its global, look(), at each call."""
    seen = object()

    def call(*args):
        nonlocal seen
        now = look()
        if now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="cures" name="a limit of a million" fails=["cures-step-check"] hidden=1 message="a large step"
def make_step():
    """A jitted step(w, rate, clip), with at most two traces for each type of w."""

    @jax.jit
    def step(w, rate, clip):
        limit = jnp.where(clip, 1.0, 1e6).astype(w.dtype)
        return w - jnp.clip(w * rate, -limit, limit)

    return step


def follow(jitted, look):
    """A function call(*args) that answers as `jitted` would if it read its global, look(), at each call."""
    seen = object()

    def call(*args):
        nonlocal seen
        now = look()
        if now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="cures" name="the hash tells values apart" fails=["cures-follow-check"] hidden=1 message="Some come from an old value"
def make_step():
    """A jitted step(w, rate, clip), with at most two traces for each type of w."""

    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    """A function call(*args) that answers as `jitted` would if it read its global, look(), at each call."""
    seen = None

    def call(*args):
        nonlocal seen
        mark = hash((type(look()), look()))
        if mark != seen:
            seen = mark
            jitted.clear_cache()
        return jitted(*args)

    return call


# %% task="cures" name="compiled for the types of the first call" fails=["cures-follow-check"] hidden=1 message="TypeError"
def make_step():
    """A jitted step(w, rate, clip), with at most two traces for each type of w."""

    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    """A function call(*args) that answers as `jitted` would if it read its global, look(), at each call."""
    state = {}

    def call(*args):
        value = look()
        if "value" not in state or state["value"] != value:
            jitted.clear_cache()
            state["value"], state["run"] = value, jitted.lower(*args).compile()
        return state["run"](*args)

    return call


# %% task="exorcism" name="the global is counted up, too" fails=["exorcism-tick"] message="leaves the globals alone"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    global number_of_calls
    number_of_calls += 1
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="a callback fills the global list, too" fails=["exorcism-orbit"] message="calls nobody back"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
        jax.debug.callback(all_visited.append, x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="a clone of the mask's key goes out" fails=["exorcism-noisy"] message="the one that drew this call's noise or mask"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    for_mask, for_noise = jax.random.split(key)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return jax.random.clone(for_mask), jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="kept where the noise is large" fails=["exorcism-noisy"] message="Mask and noise come from one draw"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    key, for_noise = jax.random.split(key)
    noise = jax.random.normal(for_noise, x.shape)
    keep = jnp.abs(noise) > 0.67449
    return key, jnp.where(keep, x, 0.0) + noise


# %% task="exorcism" name="orbit cut to 0 and 1" fails=["exorcism-orbit"] hidden=1 message="differ"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = jnp.clip(3.7 * x * (1 - x), 0.0, 1.0)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="noise within three deviations" fails=["exorcism-noisy"] hidden=1 message="has no bounds"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.truncated_normal(for_noise, -3.0, 3.0, x.shape)


# %% task="leak-hunt" name="room for eight sizes" fails=["leak-hunt-repair"] hidden=1 message="maxsize forgets"
def who_leaks():
    """Which of the eight suspects leak: a dict from the name to True or False."""
    return {
        "value": True,
        "shape": False,
        "constant": True,
        "NumPy constant": False,
        "local list": False,
        "attribute": True,
        "closure": True,
        "callback": False,
    }


@functools.lru_cache(maxsize=8)
def mixer(n):
    """float32[n, n], standard normal, from jax.random.key(n). May be called first from anywhere."""
    with jax.ensure_compile_time_eval():
        return jax.random.normal(jax.random.key(n), (n, n))


# %% task="leak-hunt" name="tables that are held weakly" fails=["leak-hunt-repair"] hidden=1 message="A weak reference keeps nothing"
def who_leaks():
    """Which of the eight suspects leak: a dict from the name to True or False."""
    return {
        "value": True,
        "shape": False,
        "constant": True,
        "NumPy constant": False,
        "local list": False,
        "attribute": True,
        "closure": True,
        "callback": False,
    }


alive = weakref.WeakValueDictionary()


def mixer(n):
    """float32[n, n], standard normal, from jax.random.key(n). May be called first from anywhere."""
    table = alive.get(n)
    if table is None:
        with jax.ensure_compile_time_eval():
            table = alive[n] = jax.random.normal(jax.random.key(n), (n, n))
    return table


# %% task="leak-hunt" name="a table of one number has no axes" fails=["leak-hunt-repair"] hidden=1 message="mixer(1)"
def who_leaks():
    return {
        "value": True,
        "shape": False,
        "constant": True,
        "NumPy constant": False,
        "local list": False,
        "attribute": True,
        "closure": True,
        "callback": False,
    }


@functools.cache
def mixer(n):
    with jax.ensure_compile_time_eval():
        return jax.random.normal(jax.random.key(n), (n, n)).squeeze()


# %% task="leak-hunt" name="n and n + 64 share a table" fails=["leak-hunt-repair"] hidden=1 message="mixer(3)"
def who_leaks():
    return {
        "value": True,
        "shape": False,
        "constant": True,
        "NumPy constant": False,
        "local list": False,
        "attribute": True,
        "closure": True,
        "callback": False,
    }


_kept = {}


def mixer(n):
    if n % 64 not in _kept:
        with jax.ensure_compile_time_eval():
            _kept[n % 64] = jax.random.normal(jax.random.key(n), (n, n))
    return _kept[n % 64]


mixer.cache_clear = _kept.clear


# %% task="is-pure" name="watches the second trace only" fails=["is-pure-check"] hidden=1 message="The first trace leaks"
def is_pure(fn, *args):
    """Whether two fresh traces agree, without run-time effects and without a leak. Returns a bool."""
    jax.clear_caches()
    first = jax.jit(fn).trace(*args)
    jax.clear_caches()
    try:
        with jax.checking_leaks():
            second = jax.jit(fn).trace(*args)
    except Exception:
        return False
    if first.jaxpr.effects or second.jaxpr.effects:
        return False
    return first.lower().as_text() == second.lower().as_text()


def sneaky():
    """A new function f(x) that is_pure believes, with more than one result in twenty plain calls f(1.0)."""
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x + 1 if calls > 10 else x

    return f


# %% task="is-pure" name="effects by their names in the text" fails=["is-pure-check"] hidden=1 message="The name of a function is no effect"
def is_pure(fn, *args):
    """Whether two fresh traces agree, without run-time effects and without a leak. Returns a bool."""
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        text = str(traced.jaxpr)
        if "debug" in text or "io_callback" in text:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    """A new function f(x) that is_pure believes, with more than one result in twenty plain calls f(1.0)."""
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x + 1 if calls > 10 else x

    return f


# %% task="is-pure" name="one verdict for each function" fails=["is-pure-check"] hidden=1 message="this is an array"
verdicts = weakref.WeakKeyDictionary()


def is_pure(fn, *args):
    """Whether two fresh traces agree, without run-time effects and without a leak. Returns a bool."""
    if fn in verdicts:
        return verdicts[fn]
    programs = set()
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            programs |= {1, 2}
            break
        programs.add("effects" if traced.jaxpr.effects else traced.lower().as_text())
    verdicts[fn] = len(programs) == 1 and "effects" not in programs
    return verdicts[fn]


def sneaky():
    """A new function f(x) that is_pure believes, with more than one result in twenty plain calls f(1.0)."""
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x + 1 if calls > 10 else x

    return f


# %% task="be-the-jit" name="the first letter of the dtype" fails=["be-the-jit-all"] hidden=1 message="ghost is wrong"
def ghost(script):
    """Play the script without JAX: (answers of all calls, runs of the body of f)."""
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    for action, *details in script:
        match action:
            case "set":
                (g,) = details
            case "call" | "look":
                kind = details[0][0], tuple(details[1])
                if kind not in tapes:
                    runs, tapes[kind] = runs + 1, g
                answers += [1.0 + tapes[kind]] * (action == "call")
            case "rejit":
                tapes = tapes_of_f
            case "wrap":
                tapes = {}
            case "clear":
                tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="tapes that outlive the script" fails=["be-the-jit-all"] hidden=1 message="begins without tapes"
def ghost(script, tapes_of_f={}):  # noqa: B006
    """Play the script without JAX: (answers of all calls, runs of the body of f)."""
    g, runs, answers, tapes = 0.0, 0, [], tapes_of_f
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                runs += 1
                tapes[kind] = g
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
    return answers, runs


# %% task="be-the-jit" name="a wrapper after f finds the last one's tapes" fails=["be-the-jit-all"] hidden=1 message="ghost is wrong"
def ghost(script):
    """Play the script without JAX: (answers of all calls, runs of the body of f)."""
    g, runs, answers = 0.0, 0, []
    tapes = {"f": {}, "lambda": {}}
    now = "f"
    for action, *details in script:
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes[now]:
                runs += 1
                tapes[now][kind] = g
            if action == "call":
                answers.append(1.0 + tapes[now][kind])
        elif action == "rejit":
            now = "f"
        elif action == "wrap":
            if now == "lambda":
                tapes["lambda"] = {}
            now = "lambda"
        elif action == "clear":
            tapes[now].clear()
    return answers, runs


# %% task="be-the-jit" name="a recursion over the script" fails=["be-the-jit-all"] hidden=1 message="RecursionError"
def ghost(script):
    """Play the script without JAX: (answers of all calls, runs of the body of f)."""
    tapes_of_f = {}

    def play_on(rest, g, tapes):
        if not rest:
            return [], 0
        (action, *details), rest = rest[0], rest[1:]
        said, ran = [], 0
        if action == "set":
            g = details[0]
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        elif action == "clear":
            tapes.clear()
        else:
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind], ran = g, 1
            if action == "call":
                said = [1.0 + tapes[kind]]
        answers, runs = play_on(rest, g, tapes)
        return said + answers, ran + runs

    return play_on(list(script), 0.0, tapes_of_f)


# %% task="be-the-jit" name="the script is eaten" fails=["be-the-jit-all"] hidden=1 message="the script, afterwards"
def ghost(script):
    """Play the script without JAX: (answers of all calls, runs of the body of f)."""
    g, runs, answers = 0.0, 0, []
    tapes_of_f = {}
    tapes = tapes_of_f
    while script:
        action, *details = script.pop(0)
        if action == "set":
            (g,) = details
        elif action in ("call", "look"):
            kind = tuple(details)
            if kind not in tapes:
                tapes[kind] = g
                runs += 1
            if action == "call":
                answers.append(1.0 + tapes[kind])
        elif action == "rejit":
            tapes = tapes_of_f
        elif action == "wrap":
            tapes = {}
        else:
            tapes.clear()
    return answers, runs


# %% task="minijit-refuse" name="the first and the last tracer" fails=["minijit-refuse-check"] hidden=1 message="between others"
def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    raise NoValue(f"{wanted} of {tracer.name}:{tracer.type} was asked for; a tracer has only a type")


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    tracers = [x for x in operands if isinstance(x, Tracer)]
    pair = tracers[0], tracers[-1]
    for x in pair:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    left, right = (OPEN.index(x.tape) for x in pair)
    return OPEN[max(left, right)]


# %% task="minijit-refuse" name="a Leak for a value of a closed tape" fails=["minijit-refuse-check"] hidden=1 message="closed tape"
def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    text = f"{wanted} of {tracer.type} was asked for; a tracer has only a type"
    if tracer.tape not in OPEN:
        raise Leak(text + ", and the tape of this one is closed")
    raise NoValue(text)


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-refuse" name="a list of the refused" fails=["minijit-refuse-check"] hidden=1 message="is kept"
refused_tracers = []


def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    refused_tracers.append((tracer, wanted))
    raise NoValue(f"{wanted} was asked of {tracer.name}:{tracer.type}, number {len(refused_tracers)}")


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-refuse" name="a value where there are no elements" fails=["minijit-refuse-check"] hidden=1 message="no elements"
def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    if 0 in tracer.shape and wanted in ("bool", "array"):
        return False if wanted == "bool" else np.zeros(tracer.shape, tracer.dtype)
    raise NoValue(f"{wanted} of {tracer.type}: there is no value yet")


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-trace" name="shallow copies" fails=["minijit-trace-check"] hidden=1 message="changes_a_list_in_a_dict"
def trace(fn, *types):
    """The tape of fn for arguments of these types.

    Raises Effect, with the names, if data that fn can see has changed; else Leak if a tracer survives.
    """
    import copy

    def seen():
        if not inspect.isfunction(fn):
            return {}
        outside = inspect.getclosurevars(fn)
        return {
            name: copy.copy(x)
            for name, x in {**outside.globals, **outside.nonlocals}.items()
            if isinstance(x, (int, float, str, list, dict, set))
        }

    tape, before = Tape(), seen()
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, x in seen().items() if name not in before or before[name] != x]
    if changed:
        raise Effect(f"{', '.join(changed)} changed while the tape was written")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is still held")
    return tape


# %% task="minijit-trace" name="a new name is no change" fails=["minijit-trace-check"] hidden=1 message="creates_a_global"
def trace(fn, *types):
    """The tape of fn for arguments of these types.

    Raises Effect, with the names, if data that fn can see has changed; else Leak if a tracer survives.
    """
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    after = visible(fn)
    changed = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    if changed:
        raise Effect(f"{', '.join(changed)} changed while the tape was written")
    if kept := survivors(tape):
        raise Leak(f"{kept[0].name}:{kept[0].type} is still held")
    return tape


# %% task="cures" name="the rate is made a float32" fails=["cures-step-check"] hidden=1 message="a step of float16"
def make_step():
    def step(w, rate, clip):
        rate = jnp.asarray(rate, jnp.float32)
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    seen = object()

    def call(*args):
        nonlocal seen
        now = look()
        if now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="cures" name="the rate has the dtype of w" fails=["cures-step-check"] hidden=1 message="a step of int32"
def make_step():
    def step(w, rate, clip):
        move = w * jnp.asarray(rate, w.dtype)
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    seen = object()

    def call(*args):
        nonlocal seen
        now = look()
        if now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="is-pure" name="looks for leaks in the first trace only" fails=["is-pure-check"] hidden=1 message="a later one does"
def is_pure(fn, *args):
    programs = []
    for number in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks() if number == 0 else contextlib.nullcontext():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x + (1.0 if calls > 10 else 0.0)

    return f


# %% task="is-pure" name="a separate look for leaks, before" fails=["is-pure-check"] hidden=1 message="a later one does"
def is_pure(fn, *args):
    jax.clear_caches()
    try:
        with jax.checking_leaks():
            jax.jit(fn).trace(*args)
    except Exception:
        return False
    programs = []
    for _ in range(2):
        jax.clear_caches()
        traced = jax.jit(fn).trace(*args)
        if traced.jaxpr.effects:
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x + (1.0 if calls > 10 else 0.0)

    return f


# %% task="cures" name="None counts as zero" fails=["cures-follow-check"] hidden=1 message="answers"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    seen = "never looked"

    def call(*args):
        nonlocal seen
        value = look() or 0.0
        if value != seen:
            jitted.clear_cache()
            seen = value
        return jitted(*args)

    return call


# %% task="exorcism" name="tick counts in float32" fails=["exorcism-tick"] hidden=1 message="the count"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    count = calls.astype(jnp.float32) + 1
    return count.astype(jnp.int32), x / count


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="51 of a hundred numbers are at most 50" fails=["exorcism-noisy"] hidden=1 message="half of a million is kept"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.randint(for_mask, x.shape, 0, 100) <= 50
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="minijit-refuse" name="a log of refusals" fails=["minijit-refuse-check"] hidden=1 message="a tracer that was refused"
refused = []


def no_value(tracer, wanted):
    refused.append((tracer, wanted))
    raise NoValue(f"{wanted} was wanted of a {tracer.type}, which has no value yet")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            refused.append((x, "a place on a tape"))
            raise Leak(f"a {x.type} whose tape is closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="cures" name="follow returns NumPy's float32" fails=["cures-follow-check"] hidden=1 message="follow"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    last = []

    def call(*args):
        now = [look()]
        if now != last:
            jitted.clear_cache()
            last[:] = now
        return np.asarray(jitted(*args), np.float32)

    return call


# %% task="cures" name="follow makes floats of all that comes back" fails=["cures-follow-check"] hidden=1 message="follow: a dict"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    last = []

    def call(*args):
        now = [look()]
        if now != last:
            jitted.clear_cache()
            last[:] = now
        return jax.tree.map(lambda leaf: leaf * 1.0, jitted(*args))

    return call


# %% task="cures" name="follow returns arrays of NumPy" fails=["cures-follow-check"] hidden=1 message="Return what jitted returns"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    last = []

    def call(*args):
        now = [look()]
        if now != last:
            jitted.clear_cache()
            last[:] = now
        return jax.tree.map(np.asarray, jitted(*args))

    return call


# %% task="exorcism" name="an orbit begins on an axis" fails=["exorcism-orbit"] hidden=1 message="concatenate"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.concatenate(visited).reshape(6, *x.shape)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="shuffles before it keeps" fails=["exorcism-noisy"] hidden=1 message="an element is itself or 0"
@jax.jit
def tick(calls, x):
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_order, for_mask, for_noise = jax.random.split(key, 4)
    x = jax.random.permutation(for_order, x)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="is-pure" name="every call of Python is an effect" fails=["is-pure-check"] hidden=1 message="pure_callback"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        programs.append(traced.lower().as_text())
        if traced.jaxpr.effects or "callback(" in programs[-1]:
            return False
    return programs[0] == programs[1]


def sneaky():
    calls = []

    def f(x):
        calls.append(1)
        return x if len(calls) < 6 else x + 1

    return f


# %% task="cures" name="small changes ignored" fails=["cures-follow-check"] hidden=1 message="answers"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    jitted.clear_cache()
    seen = look()

    def call(*args):
        nonlocal seen
        now = look()
        if (now is None) != (seen is None) or (now is not None and abs(now - seen) > 1e-3):
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="cures" name="follows, and makes arrays of the arguments" fails=["cures-follow-check"] hidden=1 message="float16 times a Python number"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    seen = object()

    def call(*args):
        nonlocal seen
        now = look()
        if now != seen:
            jitted.clear_cache()
        seen = now
        return jitted(*[np.asarray(arg) for arg in args])

    return call


# %% task="exorcism" name="orbit in NumPy, a trace for show" fails=["exorcism-orbit"] hidden=1 message="runs of orbit's Python"
@jax.jit
def shown(x):
    return x


@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    return calls + 1, x / (calls + 1)


def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    traced = isinstance(x, jax.core.Tracer)
    if not traced:
        if np.size(x) < 50:
            shown(x)
        x = np.asarray(x, np.float32)
    visited = []
    for number in range(6):
        x = np.float32(3.7) * x * (1 - x)
        visited.append(x)
    return x, (jnp.stack if traced else np.stack)(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    following, mask, noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(mask, 0.5, x.shape)
    return following, jnp.where(keep, x, 0.0) + jax.random.normal(noise, x.shape)


# %% task="exorcism" name="a log that stays behind" fails=["exorcism-tick", "exorcism-orbit"] message="globals that changed: returned ['shapes_seen']"
shapes_seen = []


@jax.jit
def tick(calls, x):
    shapes_seen.append(("tick", x.shape))
    return calls + 1, x / (calls + 1)


@jax.jit
def orbit(x):
    shapes_seen.append(("orbit", x.shape))
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="the next key is one of a thousand" fails=["exorcism-noisy"] hidden=1 message="A key came back"
@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    for_seed, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    y = jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)
    seed = jax.random.randint(for_seed, (), 0, 1000)
    return jax.random.key(seed), y


# %% task="minijit-refuse" name="names the type of the last tracer" fails=["minijit-refuse-check"] hidden=1 message="a leaked tracer before others: returned ''"
def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    raise NoValue(f"{wanted} of a tracer of type {tracer.type}: its value is not known yet")


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    tapes = []
    for x in operands:
        if isinstance(x, Tracer):
            last = x
            tapes.append(x.tape)
    if any(tape not in OPEN for tape in tapes):
        raise Leak(f"a tracer of type {last.type} outlived its tape")
    return max(tapes, key=OPEN.index)


# %% task="minijit-trace" name="keeps the refused tapes" fails=["minijit-trace-check"] hidden=1 message="tapes: returned 2"
REFUSED_TAPES = []


def trace(fn, *types):
    """The tape of fn for arguments of these types.

    Raises Effect, with the names, if visible(fn) shows changed or new data; else Leak if a tracer survives.
    """
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if before.get(name) != text]
    if changed:
        REFUSED_TAPES.append((fn, tape))
        raise Effect(f"changed: {', '.join(changed)}")
    left = survivors(tape)
    if left:
        REFUSED_TAPES.append((fn, tape, left))
        raise Leak(f"still alive: {', '.join(str(tracer.type) for tracer in left)}")
    return tape


# %% task="minijit-trace" name="the leaked types written by hand" fails=["minijit-trace-check"] hidden=1 message="a matrix that survived: returned ''"
def trace(fn, *types):
    """The tape of fn for arguments of these types.

    Raises Effect, with the names, if visible(fn) shows changed or new data; else Leak if a tracer survives.
    """
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if before.get(name) != text]
    if changed:
        raise Effect(f"changed: {', '.join(changed)}")
    left = [f"{tracer.dtype}{list(tracer.shape)}" for tracer in survivors(tape)]
    if left:
        raise Leak(f"still alive: {', '.join(left)}")
    return tape


# %% task="exorcism" name="counts the traces on an object" fails=["exorcism-tick"] message="globals that changed: returned ['stats']"
class Stats:
    """How often the functions were traced."""

    def __init__(self):
        self.traces = 0


stats = Stats()


@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    stats.traces += 1
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    stats.traces += 1
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    stats.traces += 1
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="minijit-refuse" name="what is no plain number is a tracer" fails=["minijit-refuse-check"] hidden=1 message="an array of NumPy beside it: returned"
def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    raise NoValue(f"the {wanted} of a {tracer.type} was asked for, and there is no value yet")


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    tracers = [x for x in operands if not is_number(x)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="minijit-trace" name="the names of what was there before" fails=["minijit-trace-check"] hidden=1 message="what is new: returned ''"
def trace(fn, *types):
    """The tape of fn for arguments of these types.

    Raises Effect, with the names, if visible(fn) shows changed or new data; else Leak if a tracer survives.
    """
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    after = visible(fn)
    if any(after[name] != before.get(name) for name in after):
        changed = [name for name in before if after.get(name) != before[name]]
        raise Effect(f"changed while the tape was written: {', '.join(changed)}")
    for tracer in survivors(tape):
        raise Leak(f"a tracer of type {tracer.type} is still alive")
    return tape


# %% task="cures" name="floats are compared with isclose" fails=["cures-follow-check"] hidden=1 message="a small change: returned"
import math


def make_step():
    """A jitted step(w, rate, clip), with at most two traces for each type of w."""

    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = jnp.clip(move, -1, 1)
        return w - move

    return jax.jit(step, static_argnames="clip")


def same(a, b):
    """Floats should not be compared with ==."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b)


def follow(jitted, look):
    """A function call(*args) that answers as `jitted` would if it read its global, look(), at each call."""
    jitted.clear_cache()
    seen = look()

    def call(*args):
        nonlocal seen
        now = look()
        if not same(now, seen):
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="cures" name="a step compiled for the type of its first w" fails=["cures-step-check"] hidden=1 message="TypeError"
def make_step():
    """A jitted step(w, rate, clip), with at most two traces for each type of w."""

    def clipped(w, rate):
        return w - jnp.clip(w * rate, -1, 1)

    def free(w, rate):
        return w - w * rate

    programs = {}

    def step(w, rate, clip):
        if clip not in programs:
            programs[clip] = jax.jit(clipped if clip else free).lower(w, rate).compile()
        return programs[clip](w, rate)

    return step


def follow(jitted, look):
    """A function call(*args) that answers as `jitted` would if it read its global, look(), at each call."""
    never = object()
    seen = never

    def call(*args):
        nonlocal seen
        now = look()
        if seen is never or now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="minijit-refuse" name="tape_for keeps the leaked tracers" fails=["minijit-refuse-check"] hidden=1 message="a tracer that was refused: returned 'is kept'"
leaked_tracers = []


def no_value(tracer, wanted):
    """Raise NoValue. The message names the type of the tracer, and wanted: bool, int, float or array."""
    raise NoValue(f"the {wanted} of a {tracer.type} was asked for, and there is no value yet")


def tape_for(operands):
    """The innermost tape among those of the tracers in operands. Raises Leak if one of these is not open."""
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            leaked_tracers.append(x)
            raise Leak(f"leak number {len(leaked_tracers)}: {x.name}:{x.type}, whose tape is closed")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="exorcism" name="a private global counts the traces" fails=["exorcism-tick"] message="globals that changed: returned ['_traces_of_tick']"
_traces_of_tick = 0


@jax.jit
def tick(calls, x):
    """(calls + 1, x / (calls + 1)). calls: int32[]; x: float32 array."""
    global _traces_of_tick
    _traces_of_tick += 1
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    """(end point, the six points visited). x: float32[...]; visited: float32[6, ...]."""
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    """(next key, x kept or zeroed with an even chance, plus standard normal noise). x: float32 array."""
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="cures" name="clips by division" fails=["cures-step-check"] hidden=1 message="a step whose move overflows"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        if clip:
            move = move / jnp.maximum(abs(move), 1)
        return w - move

    return jax.jit(step, static_argnums=2)


def follow(jitted, look):
    never = object()
    seen = never

    def call(*args):
        nonlocal seen
        now = look()
        if seen is never or now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="cures" name="values told apart by repr" fails=["cures-follow-check"] hidden=1 message="runs of the body: returned 3, expected 1"
def make_step():
    def step(w, rate, clip):
        move = w * rate
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return jax.jit(step, static_argnames="clip")


def follow(jitted, look):
    seen = ""

    def call(*args):
        nonlocal seen
        now = repr(look())
        if now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="cures" name="another program under a tracer" fails=["cures-step-check"] hidden=1 message="a step within another jitted function"
_show = jax.jit(lambda w, clip: w, static_argnums=1)


def make_step():
    def step(w, rate, clip):
        if isinstance(w, jax.core.Tracer):
            return w
        _show(w, bool(clip))
        move = w * (np.float32(rate) if w.dtype == np.float32 else rate)
        return w - (jnp.clip(move, -1, 1) if clip else move)

    return step


def follow(jitted, look):
    never = object()
    seen = never

    def call(*args):
        nonlocal seen
        now = look()
        if seen is never or now != seen:
            jitted.clear_cache()
            seen = now
        return jitted(*args)

    return call


# %% task="exorcism" name="the next key is one of a million" fails=["exorcism-noisy"] hidden=1 message="each half of a key changes in each call"
@jax.jit
def tick(calls, x):
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    seed = jax.random.randint(key, (), 0, 1_000_000)
    return jax.random.key(seed), jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="a key for each row, so an axis is needed" fails=["exorcism-noisy"] hidden=1 message="len() of unsized object"
@jax.jit
def tick(calls, x):
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x):
    def step(x, _):
        x = 3.7 * x * (1 - x)
        return x, x

    return jax.lax.scan(step, x, length=6)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)

    def row(k, r):
        return jax.random.bernoulli(k, 0.5, r.shape)

    keep = jax.vmap(row)(jax.random.split(for_mask, len(x)), x)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="exorcism" name="another program under a tracer" fails=["exorcism-tick", "exorcism-noisy"] hidden=1 message="within another jitted function"
_show = jax.jit(lambda x: x + 1)


def tick(calls, x):
    if isinstance(x, jax.core.Tracer):
        return calls, x
    _show(x)
    return calls + 1, np.float32(x) / np.asarray(calls + 1)


@jax.jit
def orbit(x):
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


_show_key = jax.jit(lambda k, x: x + 1)


def noisy(key, x):
    if isinstance(x, jax.core.Tracer):
        return key, x
    key, own, other = jax.random.split(key, 3)
    _show_key(other, x)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(own)).tolist())
    keep = rng.random(x.shape) < 0.5
    return key, jnp.float32(np.where(keep, x, 0.0) + rng.standard_normal(x.shape))


# %% task="exorcism" name="a set among the defaults collects shapes" fails=["exorcism-orbit"] message="globals that changed"
@jax.jit
def tick(calls, x):
    calls = calls + 1
    return calls, x / calls


@jax.jit
def orbit(x, _shapes=set()):  # noqa: B006
    _shapes.add(x.shape)
    visited = []
    for _ in range(6):
        x = 3.7 * x * (1 - x)
        visited.append(x)
    return x, jnp.stack(visited)


@jax.jit
def noisy(key, x):
    key, for_mask, for_noise = jax.random.split(key, 3)
    keep = jax.random.bernoulli(for_mask, 0.5, x.shape)
    return key, jnp.where(keep, x, 0.0) + jax.random.normal(for_noise, x.shape)


# %% task="is-pure" name="looks for effects in loops, and not in branches" fails=["is-pure-check"] hidden=1 message="a print in a branch"
def effects_in(jaxpr):
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in ("debug_callback", "debug_print", "io_callback"):
            return True
        for value in eqn.params.values():
            if hasattr(value, "jaxpr") and effects_in(value.jaxpr):
                return True
    return False


def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if effects_in(traced.jaxpr.jaxpr):
            return False
        programs.append(traced.lower().as_text())
    return programs[0] == programs[1]


def sneaky():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x if calls < 6 else x + 1

    return f


# %% task="is-pure" name="constants compared by np.array_equal" fails=["is-pure-check"] hidden=1 message="signs of zeros"
def is_pure(fn, *args):
    programs = []
    for _ in range(2):
        jax.clear_caches()
        try:
            with jax.checking_leaks():
                traced = jax.jit(fn).trace(*args)
        except Exception:
            return False
        if traced.jaxpr.effects:
            return False
        programs.append((str(traced.jaxpr), all_consts(traced.jaxpr)))
    (a, ca), (b, cb) = programs
    return a == b and len(ca) == len(cb) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(ca, cb))


def all_consts(closed):
    found = [np.asarray(c) for c in closed.consts]
    for eqn in closed.jaxpr.eqns:
        for v in eqn.invars:
            if hasattr(v, "val"):
                found.append(np.asarray(v.val))
        for value in eqn.params.values():
            if hasattr(value, "consts"):
                found += all_consts(value)
    return found


def sneaky():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x if calls < 6 else x + 1

    return f


# %% task="minijit-trace" name="a name that is gone" fails=["minijit-trace-check"] hidden=1 message="KeyError"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    after = visible(fn)
    changed = [name for name in before if before[name] != after[name]]
    changed += [name for name in after if name not in before]
    if changed:
        raise Effect(f"{', '.join(changed)} changed while the tape was written")
    for kept in survivors(tape):
        raise Leak(f"{kept.type} is kept")
    return tape


# %% task="minijit-trace" name="names all that is visible" fails=["minijit-trace-check"] hidden=1 message="one is read, one is changed"
def trace(fn, *types):
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    after = visible(fn)
    if any(text != before.get(name) for name, text in after.items()):
        raise Effect(f"changed while the tape was written: {', '.join(after)}")
    for kept in survivors(tape):
        raise Leak(f"{kept.type} is kept")
    return tape


# %% task="minijit-refuse" name="one message for all four that may be wanted" fails=["minijit-refuse-check"] hidden=1 message="messages for bool, int, float and array"
def no_value(tracer, wanted):
    raise NoValue(f"somebody wanted a bool, an int, a float or an array of {tracer.type}")


def tape_for(operands):
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.type}")
    return max((x.tape for x in tracers), key=OPEN.index)


# %% task="seance" name="a tape that holds 0 counts as no tape" fails=["seance-check"] hidden=1 message="predictions are wrong"
def seance(old, new):
    """The answers of the ghost as a dict of numbers, for two integers."""
    tapes = {"~i32[]": old, "~f32[]": old}

    def added(kind):
        return tapes.get(kind) or new

    return {
        "a float": 1 + added("~f32[]"),
        "three floats": 0 + added("f32[3]"),
        "an int": 1 + added("~i32[]"),
        "a float32 array": 1 + added("f32[]"),
        "vmap": 0 + added("f32[]"),
        "jit again": 2 + added("~f32[]"),
        "a new function": 2 + new,
        "not jitted": 2 + new,
        "boos so far": 6,
        "after clear_cache": 3 + new,
    }


def haunting(n):
    """How often each of the six ghosts is heard in n calls: a dict of integers."""
    return {
        "print": 1,
        "print, branch not taken": 1,
        "debug.print, branch not taken": 0,
        "debug.print in a scan": 5 * n,
        "pure_callback, unused": 0,
        "io_callback, unused": n,
    }


# %% task="seance" name="believes that a tape is written only where g has changed" fails=["seance-check"] hidden=1 message="boos so far"
def seance(old, new):
    """The answers of the ghost as a dict of numbers, for two integers."""
    boos = 4  # an int, a float, and the two calls that run f itself
    if new != old:
        boos += 2  # the other types must be traced again
    return {
        "a float": 1 + old,
        "three floats": new,
        "an int": 1 + old,
        "a float32 array": 1 + new,
        "vmap": new,
        "jit again": 2 + old,
        "a new function": 2 + new,
        "not jitted": 2 + new,
        "boos so far": boos,
        "after clear_cache": 3 + new,
    }


def haunting(n):
    """How often each of the six ghosts is heard in n calls: a dict of integers."""
    ghosts = {"print": 1, "print, branch not taken": 1, "debug.print, branch not taken": 0}
    return ghosts | {"debug.print in a scan": 5 * n, "pure_callback, unused": 0, "io_callback, unused": n}


# %% task="minijit-trace" name="closes all open tapes after an error" fails=["minijit-trace-check"] hidden=1 message="its inner trace broke off"
def trace(fn, *types):
    """The tape of fn for arguments of these types."""
    before = visible(fn)
    tape = Tape()
    OPEN.append(tape)
    try:
        write(tape, fn, types)
    except BaseException:
        OPEN.clear()  # leave nothing open
        raise
    OPEN.pop()
    changed = [name for name, text in visible(fn).items() if before.get(name) != text]
    if changed:
        raise Effect(f"changed while the tape was written: {', '.join(changed)}")
    types_left = [str(tracer.type) for tracer in survivors(tape)]
    if types_left:
        raise Leak(f"tracers outlived their tape: {' '.join(types_left)}")
    return tape
