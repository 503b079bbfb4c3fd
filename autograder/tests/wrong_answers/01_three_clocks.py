# %% [markdown]
# Wrong answers to unit 01, one for each misconception. Each replaces its whole solution cell and must fail the named
# cells with the message that is meant for it. One marked `hidden=1` passes all that is visible, and fails in the first
# hidden region of these cells.

# %% task="honest-timer" name="forgets to wait" fails=["honest-timer-check", "honest-timer-rounds"] message="did not wait for the result"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        fn(*args)
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="waits for the first array only" fails=["honest-timer-check"] message="waited for a part of the result only"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.tree.leaves(fn(*args))[0].block_until_ready()
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="starts before the inputs are ready" fails=["honest-timer-rounds"] message="The inputs were late"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="counts the warm-up" fails=["honest-timer-rounds"] message="Is a first call among the later ones?"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings)


# %% task="honest-timer" name="takes the mean" fails=["honest-timer-rounds"] message="That is the mean"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], sum(readings[1:]) / rounds


# %% task="honest-timer" name="takes the fastest" fails=["honest-timer-rounds"] message="That is the fastest call"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], min(readings[1:])


# %% task="honest-timer" name="waits for the first input only" fails=["honest-timer-rounds"] message="The inputs were late"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    args[0].block_until_ready()
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="one start for all later calls" fails=["honest-timer-rounds"] message="That is the mean"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    start = clock()
    jax.block_until_ready(fn(*args))
    warm = clock()
    for _ in range(rounds):
        jax.block_until_ready(fn(*args))
    return warm - start, (clock() - warm) / rounds


# %% task="honest-timer" name="warms up first" fails=["honest-timer-rounds"] message="no hidden warm-up"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(fn(*args))
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="the commonest is the middle one" fails=["honest-timer-rounds"] hidden=1 message="the one in the middle"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.mode(readings[1:])


# %% task="honest-timer" name="knows how many gradients there are" fails=["honest-timer-check"] hidden=1 message="IndexError"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    def wait(out):
        if isinstance(out, dict):
            out["loss"][0].block_until_ready()
            out["grads"][0].block_until_ready()
            out["grads"][1].block_until_ready()
        else:
            out.block_until_ready()

    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        wait(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="catch-the-liar" name="a slow first call is a slow compiler" fails=["catch-the-liar-check"] message="had the inputs been made by then?"
def catch_the_liar(build, dispatch, run, backlog):
    return {
        "A": build + dispatch + run,
        "B": dispatch,
        "C": dispatch + run,
        "D": dispatch + 3 * run,
        "E": 3 * (build + dispatch + run),
        "F": dispatch + run,
        "G": build + 2 * dispatch,
        "H": 2 * (dispatch + run),
    }


# %% task="catch-the-liar" name="a call ends when it is done" fails=["catch-the-liar-check"] message="Nobody waits here"
def catch_the_liar(build, dispatch, run, backlog):
    return {
        "A": max(build + dispatch, backlog) + run,
        "B": dispatch + run,
        "C": dispatch + run,
        "D": 3 * (dispatch + run),
        "E": 3 * (build + dispatch + run),
        "F": dispatch + 4 * run,
        "G": build + 2 * dispatch,
        "H": 2 * (dispatch + run),
    }


# %% task="catch-the-liar" name="jit compiles once, wherever it stands" fails=["catch-the-liar-check"] message="a new program compiles"
def catch_the_liar(build, dispatch, run, backlog):
    return {
        "A": max(build + dispatch, backlog) + run,
        "B": dispatch,
        "C": dispatch + run,
        "D": dispatch + 3 * run,
        "E": build + 3 * (dispatch + run),
        "F": dispatch + run,
        "G": build + 2 * dispatch,
        "H": 2 * (dispatch + run),
    }


# %% task="catch-the-liar" name="every box is built in 900 ticks" fails=["catch-the-liar-check"] hidden=1 message="Every round makes a new program"
def catch_the_liar(build, dispatch, run, backlog):
    build = 900
    return {
        "A": max(build + dispatch, backlog) + run,
        "B": dispatch,
        "C": dispatch + run,
        "D": dispatch + 3 * run,
        "E": 3 * (build + dispatch + run),
        "F": dispatch + run,
        "G": build + 2 * dispatch,
        "H": 2 * (dispatch + run),
    }


# %% task="catch-the-liar" name="measured instead" fails=["catch-the-liar-check"] message="catch_the_liar uses Box, which does not exist where it is run"
def catch_the_liar(build, dispatch, run, backlog):
    dials = dict(build=build, dispatch=dispatch, run=run, backlog=backlog)
    return {name: bench(Box(**dials)) for name, bench in BENCHMARKS.items()}


# %% task="one-jit-or-two" name="without jit nothing is compiled" fails=["one-jit-or-two-check"] message="each operation is compiled on its own"
def predict_modules():
    return {
        "no jit": 0,
        "two jits": 2,
        "one jit": 1,
        "two jits inside one jit": 1,
        "one jit, called again": 0,
        "one jit, a larger batch": 1,
        "four operations, no jit": 0,
    }


# %% task="one-jit-or-two" name="an inner jit keeps its own program" fails=["one-jit-or-two-check"] message="The outer jit traces through the inner ones"
def predict_modules():
    return {
        "no jit": 2,
        "two jits": 2,
        "one jit": 1,
        "two jits inside one jit": 3,
        "one jit, called again": 0,
        "one jit, a larger batch": 0,
        "four operations, no jit": 4,
    }


# %% task="one-jit-or-two" name="measured instead" fails=["one-jit-or-two-check"] message="predict_modules uses count_modules, which does not exist where it is run"
def predict_modules():
    return {name: count_modules(*question) for name, question in MODULE_QUESTIONS.items()}


# %% task="fusion-ceiling" name="the merged part is all that remains" fails=["fusion-ceiling-check"] message="At best the kept part is all that remains"
def fusion_ceiling(kept, removed):
    return (kept + removed) / removed if removed else 1.0


# %% task="fusion-ceiling" name="after over before" fails=["fusion-ceiling-check"] message="Before over after"
def fusion_ceiling(kept, removed):
    return kept / (kept + removed)


# %% task="fusion-ceiling" name="asks the specification" fails=["fusion-ceiling-check"] hidden=1 message="At best the kept part is all that remains"
def fusion_ceiling(kept, removed):
    return slow_fusion_ceiling(kept, removed)


# %% task="fusion-ceiling" name="one part can win no more than twice" fails=["fusion-ceiling-check"] message="At best the kept part is all that remains"
def fusion_ceiling(kept, removed):
    return min((kept + removed) / kept, 2.0)


# %% task="fusion-ceiling" name="how much faster, and not how many times" fails=["fusion-ceiling-check"] message="At best the kept part is all that remains"
def fusion_ceiling(kept, removed):
    return removed / kept


# %% task="fuse-me" name="takes the coefficients in pairs" fails=["fuse-me-check"] hidden=1 message="differs from the specification"
@jax.jit
def fuse_me(coefficients, x):
    y = coefficients[0] + 0 * x
    for k in range(1, coefficients.shape[0], 2):  # right for even degrees
        y = (y * x + coefficients[k]) * x + coefficients[k + 1]
    return y


# %% task="fuse-me" name="small arrays are not worth a program" fails=["fuse-me-module"] hidden=1 message="fuse_me"
compiled_polynomial = jax.jit(slow_polynomial)


def fuse_me(coefficients, x):
    return (slow_polynomial if x.size < 100 else compiled_polynomial)(coefficients, x)


# %% task="fuse-me" name="no jit at all" fails=["fuse-me-module"] message="outside `jit` every operation is compiled and run on its own"
def fuse_me(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


# %% task="fuse-me" name="no jit at all, and slow" fails=["fuse-me-speed"] message="still done step by step in Python"
def fuse_me(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


# %% task="fuse-me" name="jits the step" fails=["fuse-me-module"] message="not only on the functions that it calls"
@jax.jit
def step(y, x, a):
    return y * x + a


def fuse_me(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = step(y, x, coefficients[k])
    return y


# %% task="fuse-me" name="jits the step, and is slow" fails=["fuse-me-speed"] message="still done step by step in Python"
@jax.jit
def step(y, x, a):
    return y * x + a


def fuse_me(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = step(y, x, coefficients[k])
    return y


# %% task="fuse-me" name="jits inside the function" fails=["fuse-me-module"] message="A program must outlive the call that made it"
def fuse_me(coefficients, x):
    @jax.jit
    def program(coefficients, x):
        y = jnp.zeros_like(x)
        for k in range(coefficients.shape[0]):
            y = y * x + coefficients[k]
        return y

    return program(coefficients, x)


# %% task="fuse-me" name="jits inside the function, and is slow" fails=["fuse-me-speed"] message="compiled anew in every call"
def fuse_me(coefficients, x):
    return jax.jit(lambda c, x: slow_polynomial(c, x))(coefficients, x)


# %% task="fuse-me" name="coefficients are constants" fails=["fuse-me-module"] message="take the coefficients as an argument"
PROGRAMS = {}


def fuse_me(coefficients, x):
    key = tuple(coefficients.tolist())
    if key not in PROGRAMS:
        PROGRAMS[key] = jax.jit(lambda x: slow_polynomial(coefficients, x))
    return PROGRAMS[key](x)


# %% task="fuse-me" name="lowest power first" fails=["fuse-me-check"] message="differs from the specification"
@jax.jit
def fuse_me(coefficients, x):
    y = jnp.zeros_like(x)
    for k in reversed(range(coefficients.shape[0])):
        y = y * x + coefficients[k]
    return y


# %% task="break-even" name="forgets that the first call is a call" fails=["break-even-check"] message="is the first call in your count?"
def break_even(eager_first, eager, jit_first, jit):
    debt, saved = jit_first - eager_first, eager - jit
    if debt <= 0:
        return 1
    if saved <= 0:
        return None
    return -(-debt // saved)


# %% task="break-even" name="jit always pays in the end" fails=["break-even-check"] message="that is None"
def break_even(eager_first, eager, jit_first, jit):
    debt, saved = jit_first - eager_first, eager - jit
    return 1 if debt <= 0 else 1 + abs(-(-debt // (saved or 1)))


# %% task="break-even" name="going without jit has no first call" fails=["break-even-check"] message="Without jit there is a first call too"
def break_even(eager_first, eager, jit_first, jit):
    saved = eager - jit
    return None if saved <= 0 else 1 + -(-(jit_first - eager) // saved)


# %% task="break-even" name="has to be strictly cheaper" fails=["break-even-check"] message="No more in total includes just as much"
def break_even(eager_first, eager, jit_first, jit):
    debt, saved = jit_first - eager_first, eager - jit
    if debt < 0:
        return 1
    return None if saved <= 0 else 2 + debt // saved


# %% task="break-even" name="no debt is a debt, too" fails=["break-even-check"] hidden=1 message="forty more"
def break_even(eager_first, eager, jit_first, jit):
    debt, saved = jit_first - eager_first, eager - jit
    if debt < 0:
        return 1
    if saved <= 0:
        return None
    return 1 + -(-debt // saved)


# %% task="break-even" name="counts, and knows the large case by heart" fails=["break-even-check"] hidden=1 message="Do not count, divide"
def break_even(eager_first, eager, jit_first, jit):
    if jit_first == 2_500_000_000_020:
        return 2_500_000_000_001
    return slow_break_even(eager_first, eager, jit_first, jit)


# %% task="break-even" name="rounds to the nearest call" fails=["break-even-check"] message="break_even is wrong"
def break_even(eager_first, eager, jit_first, jit):
    debt, saved = jit_first - eager_first, eager - jit
    if debt <= 0:
        return 1
    return None if saved <= 0 else 1 + round(debt / saved)


# %% task="sealed-box" name="every clock starts at 0" fails=["sealed-box-check", "sealed-box-golf"] hidden=1 message="open_the_box is wrong"
def open_the_box(program, clock):
    first = program()
    t1 = clock()
    first.block_until_ready()
    t2 = clock()
    second = program()
    t3 = clock()
    second.block_until_ready()
    run, dispatch = clock() - t3, t3 - t2
    return {"build": t1 - dispatch, "dispatch": dispatch, "run": run, "backlog": t2 - run}


# %% task="sealed-box" name="waits before it reads" fails=["sealed-box-check"] message="open_the_box is wrong"
def open_the_box(program, clock):
    t0 = clock()
    program().block_until_ready()
    t1 = clock()
    program().block_until_ready()
    warm = clock() - t1
    return {"build": t1 - t0 - warm, "dispatch": 1, "run": warm - 1, "backlog": t1 - t0 - warm + 1}


# %% task="sealed-box" name="the first wait is the run" fails=["sealed-box-check", "sealed-box-golf"] message="The first wait is for the backlog too"
def open_the_box(program, clock):
    t0 = clock()
    result = program()
    t1 = clock()
    result.block_until_ready()
    t2 = clock()
    program()
    t3 = clock()
    dispatch = t3 - t2
    return {"build": t1 - t0 - dispatch, "dispatch": dispatch, "run": t2 - t1, "backlog": t2 - t0}


# %% task="sealed-box" name="the first call returns after the build alone" fails=["sealed-box-check", "sealed-box-golf"] message="take one of them out"
def open_the_box(program, clock):
    t0 = clock()
    result = program()
    t1 = clock()
    result.block_until_ready()
    t2 = clock()
    result = program()
    t3 = clock()
    result.block_until_ready()
    run = clock() - t3
    return {"build": t1 - t0, "dispatch": t3 - t2, "run": run, "backlog": t2 - t0 - run}


# %% task="sealed-box" name="one call for each dial" fails=["sealed-box-golf"] message="Each call can be read three times"
def open_the_box(program, clock):
    t0 = clock()
    result = program()
    t1 = clock()
    result.block_until_ready()
    t2 = clock()
    result = program()
    dispatch = clock() - t2
    result.block_until_ready()
    t3 = clock()
    program().block_until_ready()
    run = clock() - t3 - dispatch
    return {"build": t1 - t0 - dispatch, "dispatch": dispatch, "run": run, "backlog": t2 - t0 - run}


# %% task="sealed-box" name="looks behind the clock" fails=["sealed-box-check"] message="open_the_box stopped with AttributeError"
def open_the_box(program, clock):
    box = clock.__self__
    return {"build": box.build, "dispatch": box.dispatch, "run": box.run, "backlog": box.queue_ends}


# %% task="sealed-box" name="looks behind the result" fails=["sealed-box-check"] message="open_the_box stopped with AttributeError"
def open_the_box(program, clock):
    box = program().box
    return {"build": box.build, "dispatch": box.dispatch, "run": box.run, "backlog": box.inputs.ready_at}


# %% task="honest-timer" name="the upper one of the two middle readings" fails=["honest-timer-rounds"] hidden=1 message="the median is the one in the middle"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    later = sorted(readings[1:])
    return readings[0], later[len(later) // 2]


# %% task="honest-timer" name="knows one kind of dict" fails=["honest-timer-check"] hidden=1 message="a list of a list and a dict"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""

    def wait(result):
        if isinstance(result, dict):
            result = result["grads"][-1]
        if hasattr(result, "block_until_ready"):
            result.block_until_ready()

    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        wait(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="inputs in dicts and lists are not awaited" fails=["honest-timer-rounds"] hidden=1 message="a late input, in a dict"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    for arg in args:
        if hasattr(arg, "block_until_ready"):
            arg.block_until_ready()
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="waits for the second argument only" fails=["honest-timer-rounds"] hidden=1 message="a late input, first"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    jax.block_until_ready(args[1:2])
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="catch-the-liar" name="compares the backlog with the build alone" fails=["catch-the-liar-check"] hidden=1 message="When does the accelerator begin"
def catch_the_liar(build, dispatch, run, backlog):
    """The reading of each benchmark in ticks: {"A": ..., "B": ..., ..., "H": ...}."""
    begin = backlog if backlog > build else build + dispatch
    return {
        "A": begin + run,
        "B": dispatch,
        "C": dispatch + run,
        "D": dispatch + 3 * run,
        "E": 3 * (build + dispatch + run),
        "F": dispatch + run,
        "G": build + 2 * dispatch,
        "H": 2 * (dispatch + run),
    }


# %% task="catch-the-liar" name="G: waits for a run that is longer than the build" fails=["catch-the-liar-check"] hidden=1 message="A program without results has nothing to run"
def catch_the_liar(build, dispatch, run, backlog):
    return {
        "A": max(build + dispatch, backlog) + run,
        "B": dispatch,
        "C": dispatch + run,
        "D": max(dispatch, run) * 3 + dispatch,
        "E": 3 * build + 3 * dispatch + 3 * run,
        "F": dispatch + run,
        "G": max(build + dispatch, run) + dispatch,
        "H": 2 * dispatch + 2 * run,
    }


# %% task="fuse-me" name="starts from the first coefficient as it is" fails=["fuse-me-check"] hidden=1 message="has shape ()"
@jax.jit
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    y = coefficients[0]
    for k in range(1, coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


# %% task="fuse-me" name="remembers values by coefficients, not by x" fails=["fuse-me-check"] hidden=1 message="fuse_me at -x"
_remembered = {}


@jax.jit
def _horner(coefficients, x):
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    if isinstance(x, jax.core.Tracer) or isinstance(coefficients, jax.core.Tracer):
        return _horner(coefficients, x)
    key = np.asarray(coefficients).tobytes(), x.shape
    if key not in _remembered:
        _remembered[key] = _horner(coefficients, x)
    return _remembered[key]


# %% task="fuse-me" name="no more than 21 coefficients" fails=["fuse-me-check"] hidden=1 message="fuse_me at index"
@jax.jit
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    y = jnp.zeros_like(x)
    last = coefficients[-21:]
    for k in range(min(21, last.shape[0])):
        y = y * x + last[k]
    return y


# %% task="break-even" name="rounds a float up" fails=["break-even-check"] hidden=1 message="many calls"
import math


def break_even(eager_first, eager, jit_first, jit):
    """The first number of calls at which jit has cost no more in total, or None. Arguments: whole microseconds."""
    debt, saved = jit_first - eager_first, eager - jit
    if debt <= 0:
        return 1
    if saved <= 0:
        return None
    return 1 + math.ceil(debt / saved)


# %% task="break-even" name="asks the specification, and rounds down beyond it" fails=["break-even-check"] hidden=1 message="many calls"
def break_even(eager_first, eager, jit_first, jit):
    """The first number of calls at which jit has cost no more in total, or None. Arguments: whole microseconds."""
    calls = slow_break_even(eager_first, eager, jit_first, jit)
    if calls is None and eager > jit:
        calls = 1 + (jit_first - eager_first) // (eager - jit)
    return calls


# %% task="honest-timer" name="looks at the first five rounds only" fails=["honest-timer-rounds"] hidden=1 message="the median is the one in the middle"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:6])


# %% task="honest-timer" name="remembers the readings of a function" fails=["honest-timer-rounds"] hidden=1 message="once more"
_known_readings = {}


def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    key = fn, rounds, clock
    if key not in _known_readings:
        jax.block_until_ready(args)
        readings = []
        for _ in range(1 + rounds):
            start = clock()
            jax.block_until_ready(fn(*args))
            readings.append(clock() - start)
        _known_readings[key] = readings[0], statistics.median(readings[1:])
    return _known_readings[key]


# %% task="fusion-ceiling" name="divides whole seconds by //" fails=["fusion-ceiling-check"] hidden=1 message="fusion_ceiling(4, 1)"
def fusion_ceiling(kept, removed):
    """The largest speedup from making `removed` seconds free, if the other `kept` seconds stay as they are."""
    before, after = kept + removed, kept
    if isinstance(before, int):
        return before // after
    return before / after


# %% task="fuse-me" name="makes numbers of NaN" fails=["fuse-me-check"] hidden=1 message="fuse_me at any numbers"
@jax.jit
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return jnp.nan_to_num(y)


# %% task="fuse-me" name="clips the points" fails=["fuse-me-check"] hidden=1 message="fuse_me at any numbers"
@jax.jit
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    x = jnp.clip(x, -1.0, 1.0)
    y = jnp.zeros_like(x)
    for k in range(coefficients.shape[0]):
        y = y * x + coefficients[k]
    return y


# %% task="sealed-box" name="reads the clock as a float" fails=["sealed-box-check"] hidden=1 message="open_the_box is wrong"
def open_the_box(program, clock):
    """The dials of the box, in ticks: {"build": ..., "dispatch": ..., "run": ..., "backlog": ...}."""
    times = [float(clock())]
    for _ in range(2):
        result = program()
        times.append(float(clock()))
        result.block_until_ready()
        times.append(float(clock()))
    a, b, c, d, e = times
    dials = {"build": b - a - (d - c), "dispatch": d - c, "run": e - d, "backlog": c - a - (e - d)}
    return {name: round(ticks) for name, ticks in dials.items()}


# %% task="honest-timer" name="seven rounds unless told" fails=["honest-timer-rounds"] hidden=1 message="rounds is 5 where it is not given"
def honest_timer(fn, *args, rounds=7, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="compiles ahead of time before the first reading" fails=["honest-timer-rounds"] hidden=1 message="whose trace takes 7 units"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    jax.block_until_ready(args)
    if hasattr(fn, "lower"):
        fn = fn.lower(*args).compile()
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="half of the middle two, rounded down" fails=["honest-timer-rounds"] hidden=1 message="the median is the one in the middle"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    first, *later = readings
    later.sort()
    half = rounds // 2
    return first, later[half] if rounds % 2 else (later[half - 1] + later[half]) // 2


# %% task="honest-timer" name="whole units of the clock" fails=["honest-timer-rounds"] hidden=1 message="honest_timer is wrong"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        duration = clock() - start
        readings.append(duration if duration < 1 else round(duration))
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="takes the slowest call for the first one" fails=["honest-timer-rounds"] hidden=1 message="once more"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(sorted(readings)[:-1])


# %% task="fuse-me" name="a callback to NumPy" fails=["fuse-me-module"] hidden=1 message="uses pure_callback"
@jax.jit
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda c, x: np.polyval(c, x).astype(np.float32), like, coefficients, x)


# %% task="fuse-me" name="NumPy, and a jit for show" fails=["fuse-me-check"] hidden=1 message="fuse_me, by its tape"
_for_show = jax.jit(lambda coefficients, x: x)


def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    shown = _for_show(coefficients, x)
    if isinstance(x, jax.core.Tracer):
        return shown
    return jax.device_put(np.polyval(np.asarray(coefficients), np.asarray(x)).astype(np.float32))


# %% task="break-even" name="nothing saved is never, whatever the first calls cost" fails=["break-even-check"] hidden=1 message="forty more"
def break_even(eager_first, eager, jit_first, jit):
    """The first number of calls at which jit has cost no more in total, or None. Arguments: whole microseconds."""
    debt, saved = jit_first - eager_first, eager - jit
    if saved == 0:
        return None
    if debt <= 0:
        return 1
    if saved < 0:
        return None
    return 1 + -(-debt // saved)


# %% task="honest-timer" name="waits for grads by name" fails=["honest-timer-check"] hidden=1 message="a dict of a list"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        out = fn(*args)
        if isinstance(out, dict):
            jax.block_until_ready((out.get("loss"), out.get("grads")))
        else:
            jax.block_until_ready(out)
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="honest-timer" name="cpu clock by default" fails=["honest-timer-rounds"] hidden=1 message="waiting is seen"
def honest_timer(fn, *args, rounds=5, clock=time.process_time):
    jax.block_until_ready(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        jax.block_until_ready(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="fuse-me" name="divided by the highest coefficient" fails=["fuse-me-check"] hidden=1 message="highest coefficient 0"
@jax.jit
def fuse_me(coefficients, x):
    monic = coefficients / coefficients[0]
    y = jnp.ones_like(x)
    for k in range(1, coefficients.shape[0]):
        y = y * x + monic[k]
    return y * coefficients[0]


# %% task="fusion-ceiling" name="small parts are noise" fails=["fusion-ceiling-check"] hidden=1 message="fusion_ceiling(0.0009765625"
def fusion_ceiling(kept, removed):
    if removed < 0.01:  # no clock sees that
        return 1.0
    return (kept + removed) / kept


# %% task="fusion-ceiling" name="ceiling wrong: small gains count as none" fails=["fusion-ceiling-check"] hidden=1 message="fusion_ceiling(4096.0, 1.0)"
def fusion_ceiling(kept, removed):
    """The largest speedup from making `removed` seconds free, if the other `kept` seconds stay as they are."""
    if removed < kept / 1000:
        return 1.0  # no clock can see this
    return (kept + removed) / kept


# %% task="break-even" name="a loss that is larger than the debt" fails=["break-even-check"] hidden=1 message="all costs from 1 to 3"
def break_even(eager_first, eager, jit_first, jit):
    """The first number of calls at which jit has cost no more in total, or None. Arguments: whole microseconds."""
    debt, saved = jit_first - eager_first, eager - jit
    if debt <= 0:
        return 1
    if saved == 0:
        return None
    calls = 1 + -(-debt // saved)
    return calls if calls >= 1 else None


# %% task="honest-timer" name="a dict holds lists, and nothing else" fails=["honest-timer-check"] hidden=1 message="TypeError"
def honest_timer(fn, *args, rounds=5, clock=time.perf_counter):
    """Time `fn(*args)`: (duration of the first call, median duration of `rounds` later calls), in units of `clock`."""

    def wait(tree):
        if isinstance(tree, dict):
            for parts in tree.values():
                for part in parts:  # an array that stands there by itself cannot be walked through
                    wait(part)
        elif isinstance(tree, (list, tuple)):
            for part in tree:
                wait(part)
        else:
            tree.block_until_ready()

    wait(args)
    readings = []
    for _ in range(1 + rounds):
        start = clock()
        wait(fn(*args))
        readings.append(clock() - start)
    return readings[0], statistics.median(readings[1:])


# %% task="fuse-me" name="whole blocks of 4096" fails=["fuse-me-check"] hidden=1 message="TypeError"
@jax.jit
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    points = x.reshape(-1, 4096) if x.size >= 4096 else x  # blocks that fit into the cache
    y = jnp.zeros_like(points)
    for k in range(coefficients.shape[0]):
        y = y * points + coefficients[k]
    return y.reshape(x.shape)


# %% task="break-even" name="divides one cost by the other" fails=["break-even-check"] hidden=1 message="forty more: returned"
def break_even(eager_first, eager, jit_first, jit):
    """The first number of calls at which jit has cost no more in total, or None. Arguments: whole microseconds."""
    if jit_first <= eager_first:
        return 1
    if eager / jit <= 1:  # ZeroDivisionError for jit = 0; and (10**17 + 1) / 10**17 is 1.0
        return None
    return 1 + -(-(jit_first - eager_first) // (eager - jit))


# %% task="break-even" name="halves up to a number of calls that nobody reaches" fails=["break-even-check"] hidden=1 message="many calls: returned"
def break_even(eager_first, eager, jit_first, jit):
    """The first number of calls at which jit has cost no more in total, or None. Arguments: whole microseconds."""

    def pays(calls):
        return jit_first + (calls - 1) * jit <= eager_first + (calls - 1) * eager

    low, high = 1, 10**18
    if pays(low):
        return 1
    if not pays(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if pays(middle):
            high = middle
        else:
            low = middle + 1
    return low


# %% task="sealed-box" name="the backlog is the longer one" fails=["sealed-box-check", "sealed-box-golf"] hidden=1 message="The first wait is for the backlog too"
def open_the_box(program, clock):
    """The dials of the box, in ticks: {"build": ..., "dispatch": ..., "run": ..., "backlog": ...}."""
    t0 = clock()
    first = program()
    t1 = clock()
    first.block_until_ready()
    t2 = clock()
    second = program()
    t3 = clock()
    second.block_until_ready()
    t4 = clock()
    dispatch = t3 - t2
    build = (t1 - t0) - dispatch
    run, backlog = sorted((t4 - t3, (t2 - t0) - (t4 - t3)))
    return {"build": build, "dispatch": dispatch, "run": run, "backlog": backlog}


# %% task="sealed-box" name="asks a third time when building looks free" fails=["sealed-box-golf"] hidden=1 message="Each call can be read three times"
def open_the_box(program, clock):
    """The dials of the box, in ticks: {"build": ..., "dispatch": ..., "run": ..., "backlog": ...}."""

    def one_call():
        start = clock()
        result = program()
        returned = clock()
        result.block_until_ready()
        return returned - start, clock() - start

    first_dispatch, first_total = one_call()
    dispatch, total = one_call()
    while first_dispatch < 2 * dispatch:  # was the second one clean? The first must have been far slower
        again, total = one_call()
        if again == dispatch:
            break
        dispatch = again
    run = total - dispatch
    return {
        "build": first_dispatch - dispatch,
        "dispatch": dispatch,
        "run": run,
        "backlog": first_total - run,
    }


# %% task="sealed-box" name="a dispatch of no tick is read as one" fails=["sealed-box-check"] hidden=1 message="dispatch"
def open_the_box(program, clock):
    t0 = clock()
    first = program()
    t1 = clock()
    first.block_until_ready()
    t2 = clock()
    second = program()
    t3 = clock()
    second.block_until_ready()
    t4 = clock()
    dispatch, run = max(1, t3 - t2), max(1, t4 - t3)
    return {"build": max(0, t1 - t0 - dispatch), "dispatch": dispatch, "run": run, "backlog": t2 - t0 - run}


# %% task="sealed-box" name="a third call where the dispatch is short" fails=["sealed-box-golf"] hidden=1 message="Each call can be read three times"
def open_the_box(program, clock):
    """The dials of the box, in ticks: {"build": ..., "dispatch": ..., "run": ..., "backlog": ...}."""

    def three_readings():
        before = clock()
        result = program()
        returned = clock()
        result.block_until_ready()
        return before, returned, clock()

    t0, t1, t2 = three_readings()
    before, returned, ready = three_readings()
    if returned - before <= 1:  # too near to the resolution of the clock: measure again
        before, returned, ready = three_readings()
    dispatch, run = returned - before, ready - returned
    return {"build": t1 - t0 - dispatch, "dispatch": dispatch, "run": run, "backlog": t2 - t0 - run}


# %% task="fuse-me" name="filled up to 40 coefficients" fails=["fuse-me-check"] hidden=1 message="nonnegative"
@jax.jit
def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    filled = jnp.concatenate([jnp.zeros(40 - coefficients.size), coefficients])
    y = jnp.zeros_like(x)
    for k in range(40):
        y = y * x + filled[k]
    return y


# %% task="fuse-me" name="leading zeros are left out beforehand" fails=["fuse-me-module"] hidden=1 message="horner: coefficients: float32[14] -> float32[9]"
@jax.jit
def horner(coefficients, x):
    y = jnp.zeros_like(x)
    for c in coefficients:
        y = y * x + c
    return y


def fuse_me(coefficients, x):
    """The polynomial with `coefficients` (float32[d+1], highest power first) at each of `x` (float32[n])."""
    if not isinstance(coefficients, jax.core.Tracer):
        coefficients = np.trim_zeros(np.asarray(coefficients), "f")  # leading zeros are only work
    return horner(coefficients, x)


# %% task="fusion-ceiling" name="the ceiling is rounded" fails=["fusion-ceiling-check"] hidden=1 message="billionths"
def fusion_ceiling(kept, removed):
    """The largest speedup from making `removed` seconds free, if the other `kept` seconds stay as they are."""
    before, after = kept + removed, kept
    return round(before / after, 6)
