# %% [markdown]
# # Exercise 16 · The Slow Lab
#
# Six tasks, 20 points, about {duration}. The lesson, with the case file, is
# [16 · The Slow Lab](../../lessons/16_slow_lab.ipynb).
#
# Below stands a laboratory of some 150 lines. It works. It contains **thirteen crimes**: one from each of the units 01
# to 12, and one from unit 13 that came with the new machine. You rewrite its thirteen functions, in six cells. Every
# crime has its own line on the score card, and **each line looks at one function only**: you can take them in any
# order, and a crime that you miss costs its line and nothing else. Only the day, the last task, asks for more: it is
# won with repaired functions, and of those that it is made of at most one may be left as it was.
#
# The lab's own functions are called `lab_...` and stay as they are, to compare with. Yours have the same names without
# `lab_`, take the same arguments, which can be used again afterwards as they were, and return the same things. No
# callbacks, nor `jax.debug.print`, in any of them: what Python does on the side is on no tape and in no memory that is
# counted.
#
# | task | you will | points |
# |---|---|---|
# | 1 | rewrite the dish: one step, many steps, and a watch over them | 4 |
# | 2 | rewrite three formulas that are right on paper | 3 |
# | 3 | rewrite how a dish is sown and shown | 3 |
# | 4 | rewrite the model: how it predicts and how it is fitted | 3 |
# | 5 | rewrite the house: a service for customers, a batch for eight devices | 3 |
# | 6 | put a whole day of the lab together, and make it fast | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import functools
import tempfile
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import P, lax
from jax.sharding import AxisType

from autograder import (
    assert_allclose,
    assert_equal,
    assert_hlo,
    assert_max_traces,
    assert_primitives,
    partial_credit,
    show_hlo,
    show_jaxpr,
    speedup,
    trace_log,
)

plt.style.use("autograder.course")
try:
    jax.config.update("jax_num_cpu_devices", 8)  # for one line of the card; nothing is timed on them
except RuntimeError:
    late = "JAX has already started, with other devices: restart the kernel, then run this cell first"
    raise RuntimeError(late) from None

# %% [markdown]
# ## The lab
#
# Two substances in a dish: `u` is food, `v` eats it and multiplies. Both spread, food is fed in, `v` dies. From these
# four sentences grow spots, stripes, and something like corals (the Gray-Scott model). First, the dish itself.


# %% nbgrader={"grade": false, "grade_id": "lab-dish", "locked": true, "schema_version": 3, "solution": false, "task": false}
DU, DV = 0.16, 0.08  # how fast food and eaters spread
FEED, KILL = 0.0545, 0.062  # how fast food comes in, and how fast eaters die beyond that
GRAIN = 0.02  # how uneven a fresh dish is
VERBOSE = False


def lab_laplacian(z):
    """How much more the four neighbours have than the cell. The edges of the dish meet. z: float32[n, n]."""
    above, below, left, right = jnp.roll(z, 1, 0), jnp.roll(z, -1, 0), jnp.roll(z, 1, 1), jnp.roll(z, -1, 1)
    return above + below + left + right - 4 * z


def lab_step(u, v, feed, kill):
    """One tick. u, v: float32[n, n]; feed, kill: numbers. Returns the new u and v."""
    u_next = u + DU * lab_laplacian(u) - u * v * v + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + u * v * v - (feed + kill) * v
    report = {"in u": jnp.abs(DU * lab_laplacian(u)).max(), "in v": jnp.abs(DV * lab_laplacian(v)).max()}
    if VERBOSE:
        print("largest flows", report)
    return u_next, v_next


def lab_simulate(u, v, feed, kill, steps):
    """u and v after so many ticks. steps: a Python int."""
    for _ in range(steps):
        u, v = lab_step(u, v, feed, kill)
    return u, v


@functools.partial(jax.jit, static_argnames="steps")
def lab_watch(u, v, feed, kill, steps):
    """The growth curve: the mean of v after each tick. Returns float32[steps]."""

    def tick(dish, _):
        dish = lab_step(*dish, feed, kill)
        return dish, dish

    _, (all_u, all_v) = lax.scan(tick, (u, v), length=steps)
    return all_v.mean((1, 2))


@functools.partial(jax.jit, static_argnames="size")
def lab_sow(key, size):
    """A fresh dish: full of food, three squares of eaters, and a fine grain of eaters everywhere.

    key: a random key, which decides all that is random. size: a Python int. Returns u, v: float32[size, size]
    """
    i, j = jax.random.randint(key, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * np.random.uniform(size=(size, size)).astype(np.float32)
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain


# %% [markdown]
# What is done with a dish: look at it, measure it, and learn its law. The model is linear: from seven numbers about a
# cell (the `terms`), foretell how its `u` and its `v` will change. If it finds the right weights, it has found the
# equation.


# %% nbgrader={"grade": false, "grade_id": "lab-model", "locked": true, "schema_version": 3, "solution": false, "task": false}
@functools.partial(jax.jit, static_argnames="gain")
def lab_render(v, gain):
    """A picture. v: float32[n, n]; gain: the brightness, a number. Returns float32[n, n, 3], from 0 to 1."""
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)


def lab_low_pass(z, waves):
    """The dish without its fine detail. z: float32[n, n]; waves: float32[n, k], few orthonormal columns."""
    return (waves @ waves.T) @ z @ (waves @ waves.T)


def lab_contrast(v):
    """The standard deviation of all cells, a float32[]."""
    return jnp.sqrt((v * v).mean() - v.mean() ** 2)


def lab_disorder(v):
    """The entropy -sum(v log v), in which a bare cell counts 0. The lab wants its gradient, too, as a map."""
    return -jnp.where(v > 0, v * jnp.log(v), 0.0).sum()


TERMS = ["1", "u", "v", "u v²", "u² v", "∇²u", "∇²v"]


@jax.jit
def lab_terms(u, v):
    """For each cell the seven TERMS. Returns float32[n * n, 7]."""
    terms = [jnp.ones_like(u), u, v, u * v * v, u * u * v, lab_laplacian(u), lab_laplacian(v)]
    return jnp.stack(terms, -1).reshape(-1, len(terms))


def lab_predict(W, A):
    """How each cell's u and v will change. W: float32[7, 2]; A: float32[cells, 7]. Returns float32[cells, 2]."""
    return jnp.stack([cell @ W for cell in A])


def lab_loss(W, A, Y):
    """The mean squared error of the model. Y: float32[cells, 2]."""
    return ((A @ W - Y) ** 2).mean()


def lab_fit(W, A, Y, rates):
    """A step of gradient descent for each of the rates, in their order. rates: NumPy float32[any]."""
    for rate in rates:
        W = jax.jit(lambda W: W - rate * jax.grad(lab_loss)(W, A, Y))(W)
    return W


# %% [markdown]
# The lab has customers, who send cells and want forecasts; a machine with eight devices; and a routine that it goes
# through every day.


# %% nbgrader={"grade": false, "grade_id": "lab-house", "locked": true, "schema_version": 3, "solution": false, "task": false}
def lab_open_service(W, most):
    """Opens the service. Returns serve(A): A is NumPy float32[cells, 7], 1 to `most` cells, another number every
    time; the forecast is NumPy float32[cells, 2]."""
    answer = jax.jit(lambda A: A @ W)

    def serve(A):
        return np.asarray(answer(A))

    return serve


def lab_spread(dishes, mesh):
    """Puts an equal share of a batch on each device. dishes: float32[8, 2, n, n]; mesh: 8 devices, axis "x"."""
    return jax.device_put(dishes, jax.NamedSharding(mesh, P(None, None, "x")))


def lab_tick(dishes):
    """One tick of every dish in the batch: what the lab does with it, on all devices at once."""
    return jnp.stack(jax.vmap(lab_step, (0, 0, None, None))(dishes[:, 0], dishes[:, 1], FEED, KILL), 1)


def lab_day(u, v, W, waves):
    """A day: four ticks, a forecast for the first 48 cells, a picture. Returns the picture and the forecast."""
    u, v = lab_simulate(u, v, FEED, KILL, 4)
    forecast = lab_predict(W, lab_terms(u, v)[:48])
    return lab_render(lab_low_pass(v, waves), 2.0), forecast


# %% [markdown]
# ## Material
#
# Dishes to test with, the batch on its mesh, and the **card**: a figure for each line, for any laboratory. The last
# cell of the notebook prints it, yours beside the lab's. Run it as often as you like; it says `–` for what is not yet
# written.


# %% nbgrader={"grade": false, "grade_id": "lab-card", "locked": true, "schema_version": 3, "solution": false, "task": false}
def dish(size, seed=None):
    """u, v, NumPy float32[size, size]: smooth hills, and a corner where v is exactly 0."""
    rng = np.random.default_rng(seed)
    waves = sine_waves(size, 4)
    hills = waves @ rng.normal(size=(2, 4, 4)) @ waves.T * size / 8
    u, v = np.clip([0.6, 0.2], 0, 1)[:, None, None] + 0.1 * np.tanh(hills)
    v[: size // 4, : size // 4] = 0
    return u.astype(np.float32), v.astype(np.float32)


def sine_waves(size, few):
    """The longest `few` waves that fit into a dish, NumPy float32[size, few], orthonormal columns."""
    place = (np.arange(size)[:, None] + 0.5) * np.arange(few) * np.pi / size
    return np.linalg.qr(np.cos(place))[0].astype(np.float32)


def cells(number, seed=None):
    """Terms and changes of so many cells: NumPy float32[number, 7] and float32[number, 2]."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(number, 7)).astype(np.float32), rng.normal(size=(number, 2)).astype(np.float32)


CALLBACKS = "pure_callback|io_callback|debug_callback|debug_print"


def used_up(fn, *args):
    """Which arguments cannot be used again after fn(*args), as a dict for `assert_equal`."""
    found = {"changed": [], "deleted": []}
    for convert in (np.array, jnp.array):
        given = [convert(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        jax.block_until_ready(fn(*given))
        for number, (arg, after) in enumerate(zip(args, given, strict=True), 1):
            if isinstance(after, jax.Array) and after.is_deleted():
                found["deleted"].append(number)
            elif isinstance(after, np.ndarray) and not np.array_equal(arg, after):
                found["changed"].append(number)
    return {f"arguments {what} by the call": numbers for what, numbers in found.items()}


NOTHING_USED_UP = {"arguments changed by the call": [], "arguments deleted by the call": []}
OF_USED_UP = {
    "arguments changed by the call": "An assignment such as `a -= b` changes a NumPy array for everybody who has it.",
    "arguments deleted by the call": "What is donated can never be read again: here, the arguments are still wanted.",
}


def calls_back(fn, *args):
    """How many of the programs that fn(*args) compiles call Python back."""
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        return sum("_callback(" in path.read_text() for path in Path(folder).iterdir())


def eight_devices():
    """A mesh of eight CPU devices, axis "x"."""
    return jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices("cpu")[:8])


def a_day(size=32, seed=0):
    """What a day begins with: u, v, W, waves."""
    return *dish(size, seed), 0.1 * cells(7, seed)[1], sine_waves(size, 6)


def ticks(simulate, steps):
    """simulate for so many steps, as a function of u and v."""

    def run(u, v):
        return simulate(u, v, FEED, KILL, steps)

    run.__name__ = f"simulate_{steps}"
    return run


def compiles(fn, *calls):
    """How many programs are compiled, from now on, by fn(*call) for each call."""
    with trace_log() as log:
        for call in calls:
            jax.block_until_ready(fn(*call))
    return log.compiles


def modules_of_a_day(day):
    jax.clear_caches()  # what was compiled before would not be counted
    return compiles(day, a_day())


def equations_of_a_tick(step):
    return show_jaxpr(step, *dish(32, 0), FEED, KILL).equations


def grain_in_common(sow):
    """Per cent of the cells that are equal, to the last digit, in two dishes with different keys."""
    (_, one), (_, two) = (sow(jax.random.key(seed), 64) for seed in (1, 2))
    return round(100 * float((one == two).mean()))


def traces_of_a_slider(render):
    getattr(render, "clear_cache", lambda: None)()
    with trace_log(render) as log:
        for gain in (1.1, 1.3, 1.7, 1.9, 2.3, 2.9):
            render(dish(32, 0)[1], gain)
    return log.traces + log.eager


def compiles_of_a_second_fit(fit):
    A, Y = cells(50, 0)
    W = np.zeros((7, 2), np.float32)
    fit(W, A, Y, np.float32([0.1, 0.2, 0.3, 0.4]))
    return compiles(fit, (W, A, Y, np.float32([0.15, 0.25, 0.35, 0.45])))


def equations_of_ticks(simulate, steps=24):
    return show_jaxpr(ticks(simulate, steps), *dish(32, 0)).equations


def products_of_a_forecast(predict):
    return show_jaxpr(predict, cells(7, 0)[1], cells(24, 0)[0]).primitives["dot_general"]


def nan_on_the_map(disorder):
    return int(np.isnan(jax.jit(jax.grad(disorder))(dish(32, 0)[1])).sum())


def kiloflops_of_low_pass(low_pass):
    return round(show_hlo(low_pass, dish(128, 0)[1], sine_waves(128, 6)).flops / 1000)


def film(seed=None):
    """An almost even dish: v is 0.7, give or take a thousandth. NumPy float32[64, 64]."""
    return (0.7 + 1e-3 * np.random.default_rng(seed).normal(size=(64, 64))).astype(np.float32)


def error_of_contrast(contrast):
    """Per cent, of the contrast of an almost even dish; NaN counts as 100."""
    error = abs(float(contrast(film(0))) / film(0).astype(np.float64).std() - 1)
    return round(100 * min(float(np.nan_to_num(error, nan=1)), 1), 1)


def scratch_of_watch(watch, steps=100, size=32):
    """Memory that the growth curve needs besides arguments and result, in dishes of this size (u and v)."""

    def curve(u, v):
        return watch(u, v, FEED, KILL, steps)

    return round(show_hlo(curve, *dish(size, 0)).temp_bytes / (2 * 4 * size * size), 1)


def compiles_of_customers(open_service):
    serve = open_service(jnp.asarray(cells(7, 0)[1]), 64)
    return compiles(serve, *[(cells(number, 0)[0],) for number in (3, 17, 1, 64, 40)])


def collectives_of_a_batch(spread):
    dishes = spread(np.stack([dish(32, seed) for seed in range(8)]), eight_devices())
    return show_hlo(jax.jit(lab_tick), dishes).collectives.total()


def most_equations():
    return 7 * equations_of_a_tick(lab_step) // 10


# line: (unit, the function it looks at, figure of that function, budget, what is counted)
CARD = {
    "modules": (1, "day", modules_of_a_day, 1, "XLA modules for a day"),
    "equations": (2, "step", equations_of_a_tick, most_equations(), "equations of a tick"),
    "ghosts": (3, "sow", grain_in_common, 0, "% of cells equal in two dishes"),
    "traces": (4, "render", traces_of_a_slider, 1, "traces for 6 notches of the slider"),
    "recompiles": (5, "fit", compiles_of_a_second_fit, 0, "programs compiled by a second fit"),
    "unrolling": (6, "simulate", equations_of_ticks, 100, "equations of 24 ticks"),
    "products": (7, "predict", products_of_a_forecast, 1, "products for 24 cells"),
    "NaN": (8, "disorder", nan_on_the_map, 0, "NaN on the map of the gradient"),
    "FLOPs": (9, "low_pass", kiloflops_of_low_pass, 1000, "kFLOPs of a low pass, 128 x 128"),
    "digits": (10, "contrast", error_of_contrast, 0.1, "% error in the contrast of a film"),
    "memory": (11, "watch", scratch_of_watch, 10, "dishes of scratch memory, 100 ticks"),
    "late compiles": (12, "open_service", compiles_of_customers, 0, "compiles for 5 customers"),
    "collectives": (13, "spread", collectives_of_a_batch, 0, "collectives in a tick of the batch"),
}


def laboratory(names, prefix=""):
    """The thirteen functions from a dict of names, such as globals(), as one object."""
    functions = {function: names.get(prefix + function) for _, function, *_ in CARD.values()}
    return SimpleNamespace(**functions)


def score_card(lab):
    """line -> figure, for a laboratory; None where a function is not yet written, or fails."""
    figures = {}
    for line, (_, function, figure, _, _) in CARD.items():
        try:
            figures[line] = figure(getattr(lab, function))
        except Exception:
            figures[line] = None
    return figures


def of_a_day(day, simulate, low_pass, predict, render, step):
    """Which of the four functions a day runs, and line -> figure for theirs and for step's."""
    parts = {"simulate": simulate, "low_pass": low_pass, "predict": predict, "render": render}
    with contextlib.ExitStack() as stack:
        logs = {name: stack.enter_context(trace_log(part)) for name, part in parts.items()}
        show_jaxpr(day, *a_day())
    run = [name for name, log in logs.items() if log.own_traces + log.eager]
    of_lines = parts | {"step": step}
    lines = [
        (line, of_lines[function], figure) for line, (_, function, figure, *_) in CARD.items() if function in of_lines
    ]
    return run, {line: figure(function) for line, function, figure in lines}


def assert_repaired(day, simulate, low_pass, predict, render, step):
    """A day runs these four functions, and at most one of their lines, or of step's, is over its budget."""
    run, figures = of_a_day(day, simulate, low_pass, predict, render, step)
    over = [line for line, (*_, budget, _) in CARD.items() if figures.get(line, 0) > budget]
    assert_equal(
        {"your functions that a day runs": run, "lines over their budget": over if len(over) > 1 else []},
        {
            "your functions that a day runs": ["simulate", "low_pass", "predict", "render"],
            "lines over their budget": [],
        },
        name="day",
        hints={
            "your functions that a day runs": "A day is made of your functions, not of the lab's, nor of copies.",
            "lines over their budget": "Repair the functions first that a day is made of.",
        },
    )


def golf(lab, figures):
    """Strokes, the fewer the better: equations of every tape, 10 for each module of a day, 1 for each dish of
    scratch memory. `figures` are those of the laboratory's score card."""
    (u, v), (A, Y), W = dish(32, 0), cells(24, 0), cells(7, 0)[1]
    tapes = [
        show_jaxpr(lambda u, v: lab.watch(u, v, FEED, KILL, 24), u, v),
        show_jaxpr(lambda key: lab.sow(key, 32), jax.random.key(0)),
        show_jaxpr(lambda v: lab.render(v, 2.0), v),
        show_jaxpr(lab.low_pass, v, sine_waves(32, 6)),
        show_jaxpr(lab.contrast, v),
        show_jaxpr(jax.grad(lab.disorder), v),
        show_jaxpr(lab.predict, W, A),
        show_jaxpr(lambda W, A, Y: lab.fit(W, A, Y, np.float32([0.1, 0.2])), W, A, Y),
    ]
    strokes = sum(tape.equations for tape in tapes) + figures["equations"] + figures["unrolling"]
    return round(strokes + 10 * figures["modules"] + figures["memory"])


# %% [markdown]
# ## Task 1 · The dish (4 points)
#
# `step`, `simulate` and `watch`. Three lines of the card, three units:
#
# | line | points | measured on | budget |
# |---|---|---|---|
# | equations | 1 | `step` | 0.7 of the lab's |
# | unrolling | 1 | `simulate` | the tape (the jaxpr) of 64 ticks is no longer than that of 8, and holds a loop |
# | memory | 2 | `watch`, 100 ticks | scratch memory for 10 dishes |
#
# `steps` is a Python number, and may stay one; `simulate` may be asked for 0. `feed` and `kill` may be any numbers, of
# Python, NumPy or JAX, traced ones, too.
#
# <details><summary>Hint 1</summary>
# Ask three questions. What is computed twice, or for nobody? What does a Python <code>for</code> leave on a tape? What
# is kept until the end although only one number of it is wanted?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(lab_step, *dish(32), FEED, KILL)</code>: how often is each neighbour fetched? And
# <code>show_jaxpr(lambda u, v: lab_watch(u, v, FEED, KILL, 100), *dish(32))</code>: which is the largest intermediate?
# </details>
# <details><summary>Hint 3</summary>
# <code>step</code>: one Laplacian of each, one <code>reaction = u * v * v</code>. <code>simulate</code>:
# <code>lax.fori_loop(0, steps, tick, (u, v))</code>. <code>watch</code>: a <code>scan</code> stacks what its body
# returns second. Return the number, not the dish.
# </details>


# %% nbgrader={"grade": false, "grade_id": "dish", "locked": false, "schema_version": 3, "solution": true, "task": false}
def step(u, v, feed, kill):
    """One tick, as lab_step."""
    ### BEGIN SOLUTION
    # 02: every line is on the tape, wanted or not, and as often as it is written.
    reaction = u * v * v
    u_next = u + DU * lab_laplacian(u) - reaction + feed * (1 - u)
    v_next = v + DV * lab_laplacian(v) + reaction - (feed + kill) * v
    return u_next, v_next
    ### END SOLUTION


@functools.partial(jax.jit, static_argnames="steps")
def simulate(u, v, feed, kill, steps):
    """u and v after so many ticks, as lab_simulate."""
    ### BEGIN SOLUTION
    # 06: a loop that stays a loop.
    return lax.fori_loop(0, steps, lambda _, dish: step(*dish, feed, kill), (u, v))
    ### END SOLUTION


@functools.partial(jax.jit, static_argnames="steps")
def watch(u, v, feed, kill, steps):
    """The mean of v after each tick, as lab_watch."""
    ### BEGIN SOLUTION
    # 11: what the body returns second is kept for every tick. One number is enough.

    def tick(dish, _):
        u, v = step(*dish, feed, kill)
        return (u, v), v.mean()

    return lax.scan(tick, (u, v), length=steps)[1]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "dish-equations", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Equations: a tick says everything once, and nothing for nobody."""
one_tick, lab_tick_once = jax.jit(step), jax.jit(lab_step)
given = *dish(32, 0), FEED, KILL
assert_allclose(one_tick(*given), lab_tick_once(*given), rtol=1e-4, atol=1e-5, name="step")
assert_primitives(step, *given, excludes=CALLBACKS, max_equations=most_equations())
### BEGIN HIDDEN TESTS
wild = np.random.default_rng().normal(0.3, 0.5, size=(2, 24, 24)).astype(np.float32)  # below 0, and above 1
for some in (dish(24), wild):
    fresh = *some, jnp.float32(0.03), jnp.float32(0.06)
    assert_allclose(one_tick(*fresh), lab_tick_once(*fresh), rtol=1e-4, atol=1e-5, name="step")
assert_equal(used_up(step, *given), NOTHING_USED_UP, name="step", hints=OF_USED_UP)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "dish-unrolling", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Unrolling: the tape of 64 ticks is no longer than that of 8."""
ticks_in_a_row, given = jax.jit(lab_simulate, static_argnums=4), (*dish(16, 0), FEED, KILL, 3)
assert_allclose(simulate(*given), ticks_in_a_row(*given), rtol=1e-4, atol=1e-5, name="simulate")
simulation = jax.jit(lambda u, v, steps: simulate(u, v, FEED, KILL, steps), static_argnums=2)
assert_primitives(simulation, *dish(16, 0), 64, includes=["scan|while"], excludes=CALLBACKS, smaller=(*dish(16, 0), 8))
### BEGIN HIDDEN TESTS
for some, steps in ((dish(20), 5), (dish(20), 0), ([array - 0.5 for array in dish(20)], 4)):  # the last one below 0
    fresh = *some, jnp.float32(0.03), jnp.float32(0.06), steps
    assert_allclose(simulate(*fresh), ticks_in_a_row(*fresh), rtol=1e-4, atol=1e-5, name="simulate")
climates, start = jnp.float32([0.02, 0.05]), dish(20)  # as in the atlas at the end
found, wanted = (jax.vmap(lambda feed: f(*start, feed, 2 * feed, 3))(climates) for f in (simulate, lab_simulate))
assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, name="simulate, two climates at once")
assert_equal(used_up(simulate, *given), NOTHING_USED_UP, name="simulate", hints=OF_USED_UP)
wanted = start
for _ in range(16):
    wanted = ticks_in_a_row(*wanted, jnp.float32(FEED), jnp.float32(KILL), 4)
assert_allclose(simulation(*start, 64), wanted, rtol=1e-4, atol=1e-5, name="simulate, by its tape")
assert_primitives(simulation, *start, 64, includes=["scan|while"], smaller=(*start, 8))
quiet = (np.full((8, 8), 0.995, np.float32), np.zeros((8, 8), np.float32), jnp.float32(0.001), jnp.float32(0.06))
grown = jax.jit(lambda u, v: lax.fori_loop(0, 900, lambda _, dish: lab_step(*dish, *quiet[2:]), (u, v)))(*quiet[:2])
assert_allclose(simulate(*quiet, 900), grown, rtol=1e-4, atol=1e-5, name="simulate, 900 ticks of a quiet dish")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "dish-memory", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Memory: a growth curve does not need the film."""
given = dish(32, 0)
wanted = lab_watch(*given, FEED, KILL, 12)
assert_allclose(watch(*given, FEED, KILL, 12), wanted, rtol=1e-4, atol=1e-5, name="watch")
watch_dish = jax.jit(lambda u, v: watch(u, v, FEED, KILL, 12))
assert_primitives(watch_dish, *given, excludes=CALLBACKS)
scratch = scratch_of_watch(watch)
assert_equal(
    {"dishes of scratch memory": "at most 10" if scratch <= 10 else scratch},
    {"dishes of scratch memory": "at most 10"},
    name="watch",
    hints={"dishes of scratch memory": "Every tick's dish is kept until the end. What is wanted of it?"},
)
### BEGIN HIDDEN TESTS
for some, steps in ((dish(24), 9), (dish(24), 1), ([array - 0.5 for array in dish(24)], 4)):
    fresh = *some, jnp.float32(0.03), jnp.float32(0.06), steps
    assert_allclose(watch(*fresh), lab_watch(*fresh), rtol=1e-4, atol=1e-5, name="watch")
scratch = scratch_of_watch(watch, 300)
assert_equal(
    {"dishes of scratch memory, 300 ticks": "at most 10" if scratch <= 10 else scratch},
    {"dishes of scratch memory, 300 ticks": "at most 10"},
    name="watch",
)
tape = jax.make_jaxpr(lambda u, v: watch(u, v, FEED, KILL, 12))(*given)
found = jax.extend.core.jaxpr_as_fun(tape)(*given)
assert_allclose(found, [wanted], rtol=1e-4, atol=1e-5, name="watch, by its tape")
climates, start = jnp.float32([0.02, 0.05]), dish(24)
found, wanted = (jax.vmap(lambda feed: f(*start, feed, 2 * feed, 3))(climates) for f in (watch, lab_watch))
assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, name="watch, two climates at once")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 2 · The microscope (3 points)
#
# `low_pass`, `contrast` and `disorder`, a point each. They are formulas out of books, and each is right on paper.
#
# | line | measured on | budget |
# |---|---|---|
# | FLOPs | `low_pass` | a quarter of the lab's |
# | digits | `contrast` of a dish that is almost even, eager and jitted | a thousandth of error |
# | NaN | the gradient of `disorder`, with bare cells | none; a bare cell (0 or less) has the gradient 0 |
#
# <details><summary>Hint 1</summary>
# Paper has no brackets that cost something, no digits that run out, and no derivative where you did not ask for one.
# </details>
# <details><summary>Hint 2</summary>
# <code>show_hlo(lab_low_pass, dish(128)[1], sine_waves(128, 6))</code>: which products are large? What are the two
# numbers that <code>lab_contrast(film(0))</code> subtracts, and how many of their digits agree? What is the derivative
# of <code>v log v</code> at 0, times 0?
# </details>
# <details><summary>Hint 3</summary>
# Begin in the middle: <code>waves.T @ z @ waves</code> is tiny. Subtract the mean <em>before</em> you square. And feed
# the logarithm a <code>safe = jnp.where(v &gt; 0, v, 1.0)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "microscope", "locked": false, "schema_version": 3, "solution": true, "task": false}
def low_pass(z, waves):
    """The dish without its fine detail, as lab_low_pass."""
    ### BEGIN SOLUTION
    # 09: XLA keeps your brackets. From z to a few numbers, and back.
    return waves @ (waves.T @ z @ waves) @ waves.T
    ### END SOLUTION


def contrast(v):
    """The standard deviation of all cells, as lab_contrast."""
    ### BEGIN SOLUTION
    # 10: subtract while the numbers still have their digits.
    return jnp.sqrt(((v - v.mean()) ** 2).mean())
    ### END SOLUTION


def disorder(v):
    """The entropy, as lab_disorder, with a gradient everywhere."""
    ### BEGIN SOLUTION
    # 08: `where` drops a value, not the NaN of its derivative. 1 log 1 is 0, and nothing comes back through it.
    safe = jnp.where(v > 0, v, 1.0)
    return -(safe * jnp.log(safe)).sum()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "microscope-flops", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. FLOPs: the brackets are where they should be."""
given = dish(128, 0)[1], sine_waves(128, 6)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(low_pass(*given), lab_low_pass(*given), rtol=1e-3, atol=1e-4, name="low_pass")
    assert_hlo(low_pass, *given, reference=lab_low_pass, max_flops=0.25)
assert_primitives(low_pass, *given, excludes=CALLBACKS)
### BEGIN HIDDEN TESTS
fresh = dish(48)[1], np.linalg.qr(np.random.default_rng().normal(size=(48, 3)))[0].astype(np.float32)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(low_pass(*fresh), lab_low_pass(*fresh), rtol=1e-3, atol=1e-4, name="low_pass")
assert_equal(used_up(low_pass, *given), NOTHING_USED_UP, name="low_pass", hints=OF_USED_UP)
with jax.default_matmul_precision("highest"):
    for some in (fresh, given):
        assert_allclose(jax.jit(low_pass)(*some), lab_low_pass(*some), rtol=1e-3, atol=1e-4, name="jax.jit(low_pass)")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "microscope-digits", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Digits: the contrast of a film is right, eager and compiled."""
even = film(0)
truth = np.float32(even.astype(np.float64).std())
assert_allclose(contrast(even), truth, rtol=1e-3, name="contrast")
assert_allclose(jax.jit(contrast)(even), truth, rtol=1e-3, name="jit(contrast)")
assert_primitives(contrast, even, excludes=CALLBACKS)
### BEGIN HIDDEN TESTS
few_cells, more_even = film()[:8, :8], 0.7 + 0.3 * (film()[:24, :24] - 0.7)
quite_even = np.full((8, 8), 0.5, np.float32)
several = (1000 * film() for _ in range(4))  # one may be luck
for array in (film(), dish(40)[1], few_cells, more_even, quite_even, *several):
    truth = np.float32(array.astype(np.float64).std())
    assert_allclose(jax.jit(contrast)(array), truth, rtol=1e-3, name="jit(contrast)")
assert_equal(used_up(contrast, even), NOTHING_USED_UP, name="contrast", hints=OF_USED_UP)
large = (0.7 + 1e-3 * np.random.default_rng().normal(size=(1000, 1000))).astype(np.float32)
for cell in ((500, 500), (0, 0), (-1, -1)):  # bare, far from all others
    large[cell] = 0.0
    truth = np.float32(large.astype(np.float64).std())
    assert_allclose(jax.jit(contrast)(large), truth, rtol=1e-3, name="jit(contrast), a bare cell")
truth = np.float32((-more_even).astype(np.float64).std())
assert_allclose(jax.jit(contrast)(-more_even), truth, rtol=1e-3, name="jit(contrast), below 0")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "microscope-nan", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. NaN: there is none on the map, and it is right where the dish is not bare."""
given = dish(32, 0)[1]
assert_allclose(disorder(given), lab_disorder(given), rtol=1e-4, name="disorder")
assert_equal(
    {"NaN on the map": nan_on_the_map(disorder)},
    {"NaN on the map": 0},
    name="grad(disorder)",
    hints={"NaN on the map": "The branch that is not taken has a derivative, too, and 0 times infinity is NaN."},
)
assert_primitives(jax.grad(disorder), given, excludes=CALLBACKS)
### BEGIN HIDDEN TESTS
fresh = dish(20)[1]
fresh[-1] = np.geomspace(1e-30, 1e-2, 20)  # almost bare
fresh[-2, :3] = -0.3, 2.5, 1.0
slope = np.where(fresh > 0, -np.log(np.where(fresh > 0, fresh, 1)) - 1, 0).astype(np.float32)
assert_allclose(jax.grad(disorder)(fresh), slope, rtol=1e-4, atol=1e-4, name="grad(disorder)")
assert_allclose(disorder(fresh), lab_disorder(fresh), rtol=1e-4, name="disorder")
found = jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(jax.grad(disorder))(fresh))(fresh)
assert_allclose(found, [slope], rtol=1e-4, atol=1e-4, name="grad(disorder), by its tape")
assert_equal(used_up(disorder, dish(20)[1] - 0.3), NOTHING_USED_UP, name="disorder", hints=OF_USED_UP)
found = jax.grad(lambda v: 2 - 3 * disorder(v))(fresh)
assert_allclose(found, -3 * slope, rtol=1e-4, atol=1e-4, name="grad of 2 - 3 * disorder(v)")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · Sowing and showing (3 points)
#
# `sow` and `render`.
#
# | line | points | measured on | budget |
# |---|---|---|---|
# | ghosts | 2 | `sow`, two keys, and the same key after a restart | the key decides all that is random; one trace for all keys |
# | traces | 1 | `render`, six notches of the slider | one trace |
#
# For `sow`, the numbers need not be the lab's. There must still be three squares at random places, each row and each
# column drawn on its own and any as likely as the others: so squares may overlap, and reach over an edge, as in
# `lab_sow`. And the grain of `GRAIN` times uniform numbers from 0 to 1 must still be subtracted from `u` and added to
# `v`.
#
# <details><summary>Hint 1</summary>
# Which lines happen once for each trace, and which once for each call? What is a slider to the cache?
# </details>
# <details><summary>Hint 2</summary>
# Call <code>lab_sow</code> with two keys and subtract. Then run <code>trace_log(lab_render)</code> around two
# brightnesses, and read <code>log.reasons</code>.
# </details>
# <details><summary>Hint 3</summary>
# <code>places, grit = jax.random.split(key)</code>, one for <code>randint</code>, one for
# <code>jax.random.uniform(grit, (size, size))</code>. And <code>gain</code> decides no shape and no branch: let it be
# an ordinary argument.
# </details>


# %% nbgrader={"grade": false, "grade_id": "pictures", "locked": false, "schema_version": 3, "solution": true, "task": false}
@functools.partial(jax.jit, static_argnames="size")
def sow(key, size):
    """A fresh dish, as lab_sow, in which the key decides all that is random."""
    ### BEGIN SOLUTION
    # 03: NumPy's random numbers are drawn while tracing and are constants from then on. A key is used once.
    places, grit = jax.random.split(key)
    i, j = jax.random.randint(places, (2, 3), 0, size)
    rows = (jnp.arange(size)[:, None, None] - i) % size < size // 8
    columns = (jnp.arange(size)[None, :, None] - j) % size < size // 8
    seeds = (rows & columns).any(-1)
    grain = GRAIN * jax.random.uniform(grit, (size, size))
    return jnp.where(seeds, 0.5, 1.0) - grain, jnp.where(seeds, 0.25, 0.0) + grain
    ### END SOLUTION


@jax.jit
def render(v, gain):
    """A picture, as lab_render."""
    ### BEGIN SOLUTION
    # 04: a number that only multiplies need not be known while tracing.
    glow = jnp.clip(gain * v, 0.0, 1.0)
    return jnp.stack([glow**3, glow**1.5, glow * (2 - glow)], -1)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "pictures-ghosts", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Ghosts: another key is another dish, the same key the same dish, and one trace serves all."""


def sown_by(sow, first, second, size):
    """What is wrong with dishes of these two keys, or right: case -> plain value."""
    _, before = sow(jax.random.key(first), size)
    with assert_max_traces(sow, 1):  # it begins with an empty cache, as after a restart
        (u, v), (_, other), (_, again) = (sow(jax.random.key(seed), size) for seed in (first, second, first))
    u, v, other, again, before = (np.asarray(array) for array in (u, v, other, again, before))
    grains, width = np.sort(v[v < GRAIN]) / GRAIN, size // 8

    def joined(join, cells, shift):
        width = cells.shape[-1] // 8
        for axis in (1, 2):
            cells = join([np.roll(cells, shift * k, axis) for k in range(width)], axis=0)
        return cells

    def sown(number, size):
        eaters = np.stack([np.asarray(sow(jax.random.key(seed), size)[1]) for seed in range(first, first + number)])
        return eaters, eaters >= 0.25, joined(np.all, eaters >= 0.25, -1)

    eaters, dishes, begins = sown(128, size)  # begins: from here on, a whole square
    _, *places = np.nonzero(begins)
    # In a small dish two of three squares often begin in one row.
    small = [np.nonzero(begin) for begin in sown(700, 16)[2]]
    shared = [sum(len(set(found[axis])) < len(found[axis]) for found in small) for axis in (0, 1)]
    at_edge = [np.concatenate([found[axis] for found in small]) % 15 == 0 for axis in (0, 1)]  # in the first or last
    ordered = [bool(np.all(np.diff(columns) > 0)) for _, columns in small if len(columns) == 3]  # by rows they are

    return {
        "% of cells alike, other key": round(100 * float((v == other).mean())),
        "% of cells alike, same key": round(100 * float((v == again).mean())),
        "% of cells alike, same key after a restart": round(100 * float((v == before).mean())),
        "squares": bool(np.sum(v >= 0.25) >= width**2 and np.allclose(u + v, np.where(v >= 0.25, 0.75, 1))),
        "rows and columns of the squares alike, other key": [
            bool(np.array_equal(dishes[0].any(axis), dishes[1].any(axis))) for axis in (1, 0)
        ],
        "a cell of two squares is like one of a single square": bool(eaters.max() < 0.25 + GRAIN),
        "squares, where none overlap": int(dishes.sum((1, 2)).max()) / width**2,
        "dishes with a part of a square": int((joined(np.any, begins, 1) != dishes).any((1, 2)).sum()),
        "sixteenths of rows, and of columns, where no square begins": [
            16 - len(np.unique(16 * place // size)) for place in places
        ],
        "rows, and columns, of a dish of 16 x 16 where no square begins": [
            16 - len({place for found in small for place in found[axis].tolist()}) for axis in (0, 1)
        ],
        "as many squares begin in the first and last row, and column, as in others": [
            bool(0.75 < 8 * edge.mean() < 1.25) for edge in at_edge
        ],
        "some squares begin in one row, and some in one column": [number > 1 for number in shared],
        "the lower of two squares is the one farther right": float(np.mean(ordered)) > 0.5,
        "all squares on the diagonal": all(np.array_equal(d.any(0), d.any(1)) for d in dishes),
        "grain": bool(np.abs(grains - (np.arange(grains.size) + 0.5) / grains.size).max() < 0.045),
        "grain in the squares, too": bool(np.ptp(v[v >= 0.25]) > 0.8 * GRAIN),
        "% of grains that are like no other": 10 * round(10 * len(np.unique(grains)) / grains.size),
    }


SOWN = {
    "% of cells alike, other key": 0,
    "% of cells alike, same key": 100,
    "% of cells alike, same key after a restart": 100,
    "squares": True,
    "rows and columns of the squares alike, other key": [False, False],
    "a cell of two squares is like one of a single square": True,
    "squares, where none overlap": 3,
    "dishes with a part of a square": 0,
    "sixteenths of rows, and of columns, where no square begins": [0, 0],
    "rows, and columns, of a dish of 16 x 16 where no square begins": [0, 0],
    "as many squares begin in the first and last row, and column, as in others": [True, True],
    "some squares begin in one row, and some in one column": [True, True],
    "the lower of two squares is the one farther right": False,
    "all squares on the diagonal": False,
    "grain": True,
    "grain in the squares, too": True,
    "% of grains that are like no other": 100,
}
SOWN_HINTS = {
    "% of cells alike, other key": "What is not drawn from the key is drawn once, while JAX traces.",
    "% of cells alike, same key after a restart": "After a restart it is traced again, and other numbers are frozen.",
    "squares": "Where v has a square, u is 0.5 less the grain; everywhere else it is 1 less the grain.",
    "rows and columns of the squares alike, other key": "The places are random, too: do they come from the key?",
    "squares, where none overlap": "Three squares, as wide as an eighth of the dish.",
    "dishes with a part of a square": "The edges of the dish meet: what reaches over one goes on at the opposite one.",
    "sixteenths of rows, and of columns, where no square begins": "Any row is as likely as the others, also one from "
    "which a square reaches over the edge.",
    "rows, and columns, of a dish of 16 x 16 where no square begins": "The last row is a row, too.",
    "as many squares begin in the first and last row, and column, as in others": "Any row is as likely as the others. "
    "What is rounded to the first one?",
    "some squares begin in one row, and some in one column": "Each row is drawn on its own, whatever the others are.",
    "the lower of two squares is the one farther right": "Each column is drawn on its own, whatever the rows are.",
    "all squares on the diagonal": "Are the rows drawn on their own, and the columns?",
    "grain": "GRAIN times uniform numbers from 0 to 1: as many from 0 to 0.1 as from 0.4 to 0.5.",
    "grain in the squares, too": "The grain is subtracted from u and added to v everywhere.",
    "% of grains that are like no other": "Each cell has a grain of its own.",
}
assert_equal(sown_by(sow, 1, 2, 64), SOWN, name="sow", hints=SOWN_HINTS)
assert_primitives(lambda key: sow(key, 64), jax.random.key(1), excludes=CALLBACKS)
### BEGIN HIDDEN TESTS
first, second = (int(seed) for seed in np.random.default_rng().choice(10_000, 2, replace=False))
assert_equal(sown_by(sow, first, second, 103), SOWN, name="sow", hints=SOWN_HINTS)
large = [np.asarray(sow(jax.random.key(seed), 320)[1] >= 0.25) for seed in range(first, first + 50)]
empty = [int(np.sum(~np.any(large, axis=(0, axis)))) for axis in (2, 1)]
of_large = "rows, and columns, of 50 dishes of 320 x 320 where no square is"
assert_equal({of_large: empty}, {of_large: [0, 0]}, name="sow", hints={of_large: "Any row is as likely as the others."})
two_dishes = (np.asarray(sow(jax.random.key(seed), 64)[1]) for seed in (first, second))
moved = {"another dish has the same grains, moved": bool(np.isin(*(v[v < GRAIN] for v in two_dishes)).mean() > 0.1)}
of_grains = dict.fromkeys(moved, "The key decides each grain, and not only where it lies.")
assert_equal(moved, dict.fromkeys(moved, False), name="sow", hints=of_grains)
key_words = jax.random.key_data(jax.random.key(first))
sown_alike = [sow(jax.random.wrap_key_data(key_words.at[0].set(word)), 64) for word in (1, 2)]
one_dish = {"keys that end alike sow the same dish": bool(np.array_equal(*(v for _, v in sown_alike)))}
assert_equal(one_dish, dict.fromkeys(one_dish, False), name="sow", hints=dict.fromkeys(one_dish, "Use the whole key."))
one_key = jax.random.key(first)
sown_once = jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(lambda key: sow(key, 64))(one_key))(one_key)
assert_allclose(sown_once, list(sow(one_key, 64)), rtol=1e-4, atol=1e-5, name="sow, by its tape")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "pictures-traces", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Traces: the slider moves, and nothing is traced again."""
given = dish(32, 0)[1]
assert_allclose(render(given, 2.0), lab_render(given, 2.0), rtol=1e-4, atol=1e-5, name="render")
with assert_max_traces(render, 1):
    for gain in (1.1, 1.3, 1.7, 1.9, 2.3, 2.9):
        render(given, gain)
assert_primitives(lambda v: render(v, 2.0), given, excludes=CALLBACKS)
### BEGIN HIDDEN TESTS
fresh, gain = dish(20)[1] - 0.1, float(np.random.default_rng().uniform(6, 9))
assert_allclose(render(fresh, gain), lab_render(fresh, gain), rtol=1e-4, atol=1e-5, name="render")
found = jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(lambda v: render(v, gain))(fresh))(fresh)
assert_allclose(found, [lab_render(fresh, gain)], rtol=1e-4, atol=1e-5, name="render, by its tape")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · The model (3 points)
#
# `predict` and `fit`.
#
# | line | points | measured on | budget |
# |---|---|---|---|
# | products | 1 | `predict`, any number of cells | one `dot_general`, no loop |
# | recompiles | 2 | `fit`, called again with other rates | nothing is compiled, nothing at all |
#
# There is at least one rate, and as many in both calls. How you write the descent is up to you.
#
# <details><summary>Hint 1</summary>
# Who is the loop over? And what is it that <code>jax.jit</code> gets in every round?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(lab_predict, cells(7)[1], cells(24)[0]).primitives</code>. Then call <code>lab_fit</code> twice
# inside <code>trace_log(lab_loss)</code>, and read <code>log.reasons</code>.
# </details>
# <details><summary>Hint 3</summary>
# A matrix product already has rows. For <code>fit</code>, one jitted function at the top of the cell that takes the
# rate as an argument; or jit <code>fit</code> as a whole, with <code>lax.scan</code> over the rates inside.
# </details>


# %% nbgrader={"grade": false, "grade_id": "model", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def predict(W, A):
    """How u and v will change in each cell, as lab_predict."""
    ### BEGIN SOLUTION
    # 07: all cells at once.
    return A @ W
    ### END SOLUTION


def fit(W, A, Y, rates):
    """A step of gradient descent for each of the rates, as lab_fit."""
    ### BEGIN SOLUTION
    # 05: a lambda is a new function each time it is written. This one was written once.
    return descend(W, A, Y, rates)


@jax.jit
def descend(W, A, Y, rates):
    """All the steps, as one program."""

    def update(W, rate):
        return W - rate * jax.grad(lab_loss)(W, A, Y), None

    return lax.scan(update, jnp.asarray(W), rates)[0]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "model-products", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Products: one for all cells."""
W_given, (A_given, _) = cells(7, 0)[1], cells(24, 0)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(predict(W_given, A_given), A_given @ W_given, rtol=1e-4, atol=1e-4, name="predict")
assert_primitives(predict, W_given, A_given, excludes=["scan", "while", CALLBACKS], counts={"dot_general": 1})
### BEGIN HIDDEN TESTS
for number in (1, int(np.random.default_rng().integers(30, 90)), 5000):
    (A_fresh, _), (_, W_fresh) = cells(number), cells(7)
    with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
        assert_allclose(predict(W_fresh, A_fresh), A_fresh @ W_fresh, rtol=1e-4, atol=1e-4, name="predict")
    assert_primitives(predict, W_fresh, A_fresh, excludes=["scan", "while", CALLBACKS], counts={"dot_general": 1})
with jax.default_matmul_precision("highest"):
    assert_allclose(
        jax.jit(predict)(W_fresh, A_fresh), A_fresh @ W_fresh, rtol=1e-4, atol=1e-4, name="predict, by its tape"
    )
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "model-recompiles", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Recompiles: a second fit, with other rates, compiles nothing."""
(A_given, Y_given), W_given = cells(50, 0), np.zeros((7, 2), np.float32)
four_rates = np.float32([0.1, 0.2, 0.3, 0.4])
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    wanted = lab_fit(W_given, A_given, Y_given, four_rates)
    assert_allclose(fit(W_given, A_given, Y_given, four_rates), wanted, rtol=1e-4, atol=1e-5, name="fit")
assert_equal(
    {"programs compiled by the second fit": compiles_of_a_second_fit(fit)},
    {"programs compiled by the second fit": 0},
    name="fit",
    hints={"programs compiled by the second fit": "Is it always the same function object, and the rate an argument?"},
)
with contextlib.suppress(TypeError):  # a program that is compiled already cannot be looked into
    assert_primitives(lambda W, A, Y: fit(W, A, Y, four_rates), W_given, A_given, Y_given, excludes=CALLBACKS)
### BEGIN HIDDEN TESTS
fresh_rates = np.random.default_rng().uniform(0.05, 0.3, 6).astype(np.float32)
fresh_rates[3] = 10  # too far: the loss becomes larger
fresh_rates[5] = fresh_rates[0]
for number in (30, 30, 41):  # other cells, as many as before, and more
    (A_fresh, Y_fresh), (_, W_fresh) = cells(number), cells(7)
    W_start = W_fresh
    for rate in fresh_rates:
        W_fresh = W_fresh - rate * A_fresh.T @ (A_fresh @ W_fresh - Y_fresh) / len(A_fresh)
    with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
        assert_allclose(fit(W_start, A_fresh, Y_fresh, fresh_rates), W_fresh, rtol=1e-3, atol=1e-4, name="fit")
    fresh_rates = fresh_rates / 2  # others, and as many
for rates in (np.float32([0.2]), np.full(70, 0.01, np.float32)):
    W_fresh = W_start
    for rate in rates:
        W_fresh = W_fresh - rate * A_fresh.T @ (A_fresh @ W_fresh - Y_fresh) / len(A_fresh)
    with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
        name = f"fit by {len(rates)} rates"
        assert_allclose(fit(W_start, A_fresh, Y_fresh, rates), W_fresh, rtol=1e-3, atol=1e-4, name=name)
W_fresh, Y_small = np.zeros_like(W_start), Y_fresh / 1000
for rate in four_rates:
    W_fresh = W_fresh - rate * A_fresh.T @ (A_fresh @ W_fresh - Y_small) / len(A_fresh)
with jax.default_matmul_precision("highest"):
    found = fit(np.zeros_like(W_start), A_fresh, Y_small, four_rates)
assert_allclose(found, W_fresh, rtol=1e-3, atol=1e-6, name="fit to small changes")
reused = used_up(lambda W, A, Y: fit(W, A, Y, four_rates), W_given, A_given, Y_given)
assert_equal(reused, NOTHING_USED_UP, name="fit", hints=OF_USED_UP)
four_rates = np.float32([0.1, 0.2, 0.3, 0.4])
fit(W_given, A_given, Y_given, four_rates)
assert_allclose(four_rates, np.float32([0.1, 0.2, 0.3, 0.4]), name="the rates, after a fit,")
again = {"other rates": (W_start, Y_small, four_rates[::-1] / 2), "other weights": (W_start - 0.1, Y_small, four_rates)}
again |= {"another outcome": (W_start, 2 * Y_small, four_rates)}
for what, (W_fresh, Y_again, rates) in again.items():  # of the same cells
    with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
        found = fit(W_fresh, A_fresh, Y_again, rates)
    for rate in rates:
        W_fresh = W_fresh - rate * A_fresh.T @ (A_fresh @ W_fresh - Y_again) / len(A_fresh)
    assert_allclose(found, W_fresh, rtol=1e-2, atol=1e-4, name=f"fit, called again with {what},")
assert_equal(
    {"programs that call Python back": calls_back(fit, W_given, A_given, Y_given, four_rates[:1])},
    {"programs that call Python back": 0},
    name="fit",
)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · The house (3 points)
#
# `open_service` and `spread`.
#
# | line | points | measured on | budget |
# |---|---|---|---|
# | late compiles | 2 | the first five customers, who bring 3, 17, 1, 64 and 40 cells | once the service is open, nothing is compiled |
# | collectives | 1 | `lab_tick` of a batch that you have spread | none, and each device holds an eighth |
#
# Opening may take some seconds: it is then that the program is compiled, and it must stay a program of JAX's
# (NumPy would need no compiler, but it does not run on an accelerator). No customer brings more than `most` cells.
#
# <details><summary>Hint 1</summary>
# What can you know, and do, before the first customer comes? And which axis of the batch does a tick never look along?
# </details>
# <details><summary>Hint 2</summary>
# <code>with trace_log() as log:</code> around a request, and <code>log.modules</code>: is it the forecast that is
# compiled, or what you do around it? For the batch:
# <code>show_hlo(jax.jit(lab_tick), lab_spread(...)).collectives</code>.
# </details>
# <details><summary>Hint 3</summary>
# <code>jax.jit(...).lower(jax.ShapeDtypeStruct((most, 7), jnp.float32)).compile()</code> when opening; in
# <code>serve</code>, fill up an array of NumPy zeros, and cut the NumPy result. An axis of the batch that survives can
# be cut for nothing: <code>P("x")</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "house", "locked": false, "schema_version": 3, "solution": true, "task": false}
def open_service(W, most):
    """Opens the service, as lab_open_service; afterwards, nothing is compiled."""
    ### BEGIN SOLUTION
    # 12: one shape for all, compiled before the doors open. NumPy pads and cuts, because jnp would compile that, too.
    cells_at_most = jax.ShapeDtypeStruct((most, W.shape[0]), jnp.float32)
    answer = jax.jit(lambda A: A @ W).lower(cells_at_most).compile()

    def serve(A):
        padded = np.zeros(cells_at_most.shape, np.float32)
        padded[: len(A)] = A
        return np.asarray(answer(padded))[: len(A)]

    return serve
    ### END SOLUTION


def spread(dishes, mesh):
    """A batch of dishes, an equal share on each device, as lab_spread."""
    ### BEGIN SOLUTION
    # 13: neighbours stay together. Dishes have nothing to say to one another.
    return jax.device_put(dishes, jax.NamedSharding(mesh, P("x")))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "house-compiles", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Late compiles: five customers, and not one waits for a compiler."""
W_given = jnp.asarray(cells(7, 0)[1])
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    serve_given = open_service(W_given, 64)
    forecasts = {number: serve_given(cells(number, 1)[0]) for number in (5, 64)}
for number, forecast in forecasts.items():
    assert_allclose(forecast, cells(number, 1)[0] @ np.asarray(W_given), rtol=1e-4, atol=1e-4, name="forecast")
assert_equal(
    {"compiled for five customers": compiles_of_customers(open_service)},
    {"compiled for five customers": 0},
    name="serve",
    hints={"compiled for five customers": "A new number of cells is a new shape, for jnp.pad and for a slice as well."},
)
### BEGIN HIDDEN TESTS


def served(serve, requests):
    """All forecasts, as they are when the last one is made."""
    return [serve(*request) for request in requests]


most = int(np.random.default_rng().integers(66, 70))
W_fresh = jnp.asarray(cells(7, 2)[1])
jax.clear_caches()  # so that this cell finds the same whenever it is run
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    with trace_log() as log:
        serve_fresh = open_service(W_fresh, most)
    assert_equal({"compiled when opening": log.compiles > 0}, {"compiled when opening": True}, name="open_service")
    W_other = cells(7)[1]
    serve_other = open_service(jnp.asarray(W_other), most)
    numbers = most, 1, *np.random.default_rng().integers(1, most, 4).tolist()
    requests = [(cells(number)[0],) for number in numbers]
    brought = [A.copy() for (A,) in requests]
    assert_equal({"compiled": compiles(serve_fresh, *requests)}, {"compiled": 0}, name="serve")
    forecasts, wanted = served(serve_fresh, requests), [A @ cells(7, 2)[1] for A in brought]
    others, wanted_of_other = served(serve_other, requests), [A @ W_other for A in brought]
    same = [np.array_equal(before, *after) for before, after in zip(brought, requests, strict=True)]
    changed = {"customers whose cells changed": same.count(False)}
    assert_equal(changed, dict.fromkeys(changed, 0), name="serve")
    kinds = {f"{type(forecast).__name__} of {forecast.dtype}" for forecast in forecasts}
    assert_equal({"a forecast is": kinds}, {"a forecast is": {"ndarray of float32"}}, name="serve")
assert_allclose(forecasts, wanted, rtol=1e-4, atol=1e-4, name="forecasts of one of two services")
assert_allclose(others, wanted_of_other, rtol=1e-4, atol=1e-4, name="forecasts of the other one")


def reaches_a_device(serve, request):
    """Whether the service hands this request to a device. Here that is forbidden, so that it shows."""
    try:
        with jax.transfer_guard_host_to_device("disallow_explicit"):
            serve(request)
    except Exception:
        return True
    return False


idle = [len(A) for (A,) in requests if not reaches_a_device(serve_fresh, A)]
assert_equal(
    {"numbers of cells that no program of JAX's gets to see": idle},
    {"numbers of cells that no program of JAX's gets to see": []},
    name="serve",
)
assert_equal(
    {"programs that call Python back": calls_back(open_service, W_fresh, 4)},
    {"programs that call Python back": 0},
    name="open_service",
)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "house-collectives", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Collectives: eight devices work side by side, and none has to call another."""
batch = np.stack([dish(32, seed) for seed in range(8)])
placed = spread(batch, eight_devices())
shares = sorted({shard.data.size / batch.size for shard in placed.addressable_shards})
assert_equal(
    {"what each device holds": shares, "devices": len(placed.sharding.device_set)},
    {"what each device holds": [0.125], "devices": 8},
    name="spread",
    hints={"what each device holds": "A copy for everybody needs no calls, and no eight devices."},
)
assert_allclose(placed, batch, name="spread")
assert_hlo(jax.jit(lab_tick), placed, collectives=0)
### BEGIN HIDDEN TESTS
turned = jax.sharding.Mesh(eight_devices().devices[::-1], ("x",))
shards = sorted(spread(batch, turned).addressable_shards, key=lambda shard: shard.index[0].indices(8))
in_order = {"devices": [shard.device.id for shard in shards]}
assert_equal(in_order, {"devices": [device.id for device in turned.devices]}, name="spread on another mesh")
reused = used_up(lambda dishes: spread(dishes, eight_devices()), batch)
assert_equal(reused, NOTHING_USED_UP, name="spread", hints=OF_USED_UP)
small = batch[..., :16, :16].copy()
assert_allclose(spread(small, turned), small, name="spread, dishes of 16 x 16")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · The day (4 points)
#
# `day` is the whole routine, made of your functions: it calls `simulate`, `predict`, `low_pass` and `render`, uses what
# they return, and computes nothing twice. Of their four lines on the card, and that of `step`, at least four must be in
# their budgets. A dish has at least 48 cells.
#
# | line | points | measured on | budget |
# |---|---|---|---|
# | modules | 1 | `day` | one |
# | speed | 3 | `day` against `lab_day` | 3x earns 1 point, 6x earns 2, 10x earns 3 |
#
# The speed is the whole lab's, and no single crime decides it. Before you measure, say to yourself which of the
# thirteen cures change what the stopwatch reads.
#
# <details><summary>Hint 1</summary>
# This is the crime of unit 01, and you have known the cure for fifteen units.
# </details>
# <details><summary>Hint 2</summary>
# <code>with trace_log() as log: day(*a_day())</code>, and <code>log.modules</code>.
# </details>
# <details><summary>Hint 3</summary>
# The lab's three lines, with your functions, and one <code>@jax.jit</code> above them. The four ticks are a number in
# the program.
# </details>


# %% nbgrader={"grade": false, "grade_id": "day", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def day(u, v, W, waves):
    """A day, as lab_day: four ticks, a forecast for 48 cells, a picture. Returns the picture and the forecast."""
    ### BEGIN SOLUTION
    # 01: one program, one dispatch.
    u, v = simulate(u, v, FEED, KILL, 4)
    forecast = predict(W, lab_terms(u, v)[:48])
    return render(low_pass(v, waves), 2.0), forecast
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "day-modules", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Modules: a day is one program."""
jax.clear_caches()  # a day may have been traced with what your functions were before
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(day(*a_day()), lab_day(*a_day()), rtol=1e-3, atol=1e-4, name="day")
assert_hlo(day, *a_day(), modules=1)
assert_repaired(day, simulate, low_pass, predict, render, step)
assert_primitives(day, *a_day(), excludes=CALLBACKS)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
size = int(rng.integers(8, 20))
fresh = [np.empty_like(array) for array in a_day(size)]
for seed in rng.integers(1, 1000, 2).tolist():  # other numbers, in the same arrays
    waves = np.linalg.qr(rng.normal(size=(size, 6)))[0]
    for place, array in zip(fresh, (*a_day(size, seed)[:3], waves), strict=True):
        place[:] = array
    with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
        assert_allclose(day(*fresh), lab_day(*fresh), rtol=1e-3, atol=1e-4, name="day")


def flops(function, *args):
    return show_jaxpr(function, *args).flops


u, v, W, waves = a_day()
seen = lab_terms(u, v)
once = flops(ticks(simulate, 4), u, v) + flops(lab_terms, u, v) + flops(predict, W, seen)
once += flops(low_pass, v, waves) + flops(lambda v: render(v, 2.0), v)
twice = flops(day, u, v, W, waves) > 1.25 * once
assert_equal({"something is computed twice": twice}, {"something is computed twice": False}, name="day")


def dots_on_tape(function, *args):
    return show_jaxpr(function, *args).primitives["dot_general"]


dots_of_parts = dots_on_tape(predict, W, seen) + dots_on_tape(low_pass, v, waves) + dots_on_tape(lab_terms, u, v)
dots_of_parts += dots_on_tape(ticks(simulate, 4), u, v) + dots_on_tape(lambda v: render(v, 2.0), v)
dots_beside = max(0, dots_on_tape(day, u, v, W, waves) - dots_of_parts)
assert_equal(
    {"products beside those of your functions": dots_beside}, {"products beside those of your functions": 0}, name="day"
)


def run_for_a_dish(size):
    """Of your functions, in order, whether each is run for a dish of this size."""
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(trace_log(part)) for part in (simulate, low_pass, predict, render)]
        show_jaxpr(day, *a_day(size))
    return [log.own_traces + log.eager > 0 for log in logs]


run = run_for_a_dish(size)
assert_equal(
    {"your functions are run for every dish": all(run)}, {"your functions are run for every dish": True}, name="day"
)


@jax.jit
def forecasts(u, v, W, waves):
    return day(u, v, W, waves)[1], predict(W, lab_terms(*simulate(u, v, FEED, KILL, 4))[:48])


found, wanted = forecasts(*a_day(7))  # 49 cells
assert_allclose(found, wanted, rtol=1e-3, atol=1e-4, name="the forecast for a dish of 7 x 7")
u, v, W, waves = a_day(size)
wild = u + 0.4, v - 0.2, W, waves  # more than 1 of one, less than 0 of the other
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(day(*wild), lab_day(*wild), rtol=1e-3, atol=1e-4, name="day, of a dish beyond 0 and 1")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "day-speed", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Speed of a day over the lab's: 3x earns 1 point, 6x earns 2, 10x earns 3."""
assert_repaired(day, simulate, low_pass, predict, render, step)
partial_credit(speedup(day, lab_day, *a_day(), at_least=10), {3: 1, 6: 2, 10: 3})

# %% [markdown]
# ## The card
#
# You have your points already; this card is for the wall. **Golf** goes on where the budgets stop: `golf` adds up the
# equations of the tapes, 10 for each module of a day and 1 for each dish of scratch memory. It is deterministic, so you
# can compare it with anybody who has the same version of JAX. Par is what the course's own solution needs.

# %%
PAR = 320 if jax.__version_info__ >= (0, 11) else 327

lab, mine = laboratory(globals(), "lab_"), laboratory(globals())
figures, my_figures = score_card(lab), score_card(mine)
print(f"{'line':14} {'what is counted':38} {'lab':>6} {'yours':>6} {'budget':>6}    unit")
for line, (unit, _, _, budget, what) in CARD.items():
    mark = "–" if my_figures[line] is None else "✓" if my_figures[line] <= budget else "✗"
    shown = "–" if my_figures[line] is None else f"{my_figures[line]:g}"
    print(f"{line:14} {what:38} {figures[line]:6g} {shown:>6} {budget:6g}  {mark}  {unit:02d}")
done = None not in my_figures.values()
print(f"\ngolf: the lab {golf(lab, figures)}, you {golf(mine, my_figures) if done else '–'}, par {PAR}")

# %% [markdown]
# ## What the lab can do now
#
# When all thirteen functions are written, run the cells below: a dish that grows for eight thousand ticks, an atlas of
# what becomes of the same seeds under other conditions, and the law of the dish, read off from pictures.

# %%
if done:
    fresh_dish = sow(jax.random.key(7), 128)
    stages, ticks_between = [fresh_dish], 2000
    for _ in range(4):
        stages.append(simulate(*stages[-1], FEED, KILL, ticks_between))
    fig, axes = plt.subplots(1, 5, figsize=(9, 2.1))
    for number, (ax, (_, grown)) in enumerate(zip(axes, stages, strict=True)):
        ax.imshow(render(grown, 2.6))
        ax.set_title(f"{number * ticks_between} ticks", size=10, loc="center")
        ax.axis("off")
    plt.show()

# %%
if done:
    feeds, kills = jnp.linspace(0.026, 0.058, 5), jnp.linspace(0.0570, 0.0654, 7)
    seeds = sow(jax.random.key(3), 64)

    def grown(feed, kill):
        return simulate(*seeds, feed, kill, 3000)[1]

    atlas = jax.vmap(jax.vmap(grown, (None, 0)), (0, None))(feeds, kills)
    fig, ax = plt.subplots(figsize=(8, 5.9))
    ax.imshow(render(jnp.block([list(row) for row in atlas[::-1]]), 2.6))
    ax.set_xticks(32 + 64 * np.arange(7), [f"{kill:.4f}" for kill in kills])
    ax.set_yticks(32 + 64 * np.arange(5), [f"{feed:.3f}" for feed in feeds[::-1]])
    ax.set(xlabel="kill", ylabel="feed", title="The same seeds, 35 climates, 3000 ticks")
    ax.grid(False)
    plt.show()

# %%
if done:
    before = simulate(*fresh_dish, FEED, KILL, 3000)
    after = simulate(*before, FEED, KILL, 1)
    seen = lab_terms(*before)
    changes = jnp.stack([late - early for early, late in zip(before, after, strict=True)], -1).reshape(-1, 2)
    # Equal scales and no two terms alike, or descent would take for ever: an orthogonal basis of the terms.
    basis, mixing = np.linalg.qr(np.asarray(seen, np.float64))
    basis = (basis * len(basis) ** 0.5).astype(np.float32)
    W_basis = fit(np.zeros((7, 2), np.float32), basis, changes, np.full(60, 0.8, np.float32))
    law = np.linalg.solve(mixing / len(basis) ** 0.5, np.asarray(W_basis, np.float64))
    truth = [[FEED, -FEED, 0, -1, 0, DU, 0], [0, 0, -FEED - KILL, 1, 0, 0, DV]]

    fig, axes = plt.subplots(1, 2, figsize=(8.5, 2.8), sharey=True)
    for ax, name, learned, true in zip(axes, "uv", law.T, truth, strict=True):
        ax.bar(TERMS, learned, width=0.6, label="learned from two pictures")
        ax.plot(TERMS, true, "o", color="C1", label="the lab's equation")
        ax.set_title(f"change of {name}")
        ax.tick_params(axis="x", length=0)
    axes[0].legend(loc="upper right")
    plt.show()
