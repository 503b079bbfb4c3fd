# %% [markdown]
# # Exercise 14 · Train
#
# Six tasks, 22 points, about {duration}. The lesson is [14 · Train](../../lessons/14_train.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. Everything runs on eight
# virtual devices of your CPU, whatever else the machine has, because the last task is about eight and few have them.
# One check asks the clock; the others count traces, reads, copies and collectives, and compare numbers. Where a check
# is folded, its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say how often the step of eight training loops is traced | 3 |
# | 2 | port a model from Linen to NNX, with its weights | 3 |
# | 3 | pad the last batch without changing the loss or its gradients | 3 |
# | 4 | turn a loop over batches into one call, and a slow run into a fast one | 6 |
# | 5 | read losses late, so that no step has to wait | 3 |
# | 6 | place a step on eight devices, and judge the steps of others | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import jax

try:
    jax.config.update("jax_platforms", "cpu")  # the last task needs eight devices, and a CPU can have them
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:
    late = "JAX has already started, with other devices: restart the kernel, then run this cell first"
    raise RuntimeError(late) from None

import functools
import math

import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx
from jax import P, lax

from autograder import (
    assert_allclose,
    assert_equal,
    assert_hlo,
    assert_max_traces,
    assert_prediction,
    assert_primitives,
    partial_credit,
    show_jaxpr,
    speedup,
    trace_log,
)

# %% [markdown]
# ## Task 1 · How many traces? (3 points)
#
# Eight small training loops, and one step. In each of them, how often does JAX run the Python body of `train_step`?
# Write your eight numbers **before** you run anything. The check runs the loops and says which numbers are wrong, never
# the number.
#
# The loops only trace. `jax.eval_shape` goes through the same cache as a call, and computes nothing; so does `step` in
# all of them but the last. (`nnx.Dropout(0.5)` sets half of the numbers to 0, at random, while a model is trained;
# `model.train()` and `model.eval()` switch it on and off.)
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# The key holds the types of all arrays, and everything in the arguments that is no array. What of that changes from
# call to call?
# </details>
# <details><summary>Hint 2</summary>
# An Optax optimiser is a pair of functions, which are no arrays. A schedule is called inside the step.
# <code>train()</code> and <code>eval()</code> set a Python bool. <code>trace_log(train_step)</code> says why it traced,
# after you have guessed.
# </details>
# <details><summary>Hint 3</summary>
# Shapes: as many traces as there are different ones. Seeds change numbers only. A cache belongs to the Python function,
# not to the <code>jax.jit</code> around it. And where do the arrays lie that come back from a step on eight devices?
# </details>


# %% nbgrader={"grade": false, "grade_id": "traces-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Small(nnx.Module):
    def __init__(self, seed, noisy=False):
        self.layer = nnx.Linear(2, 3, rngs=nnx.Rngs(seed))
        self.noise = nnx.Dropout(0.5, rngs=nnx.Rngs(seed)) if noisy else None

    def __call__(self, x):
        return self.layer(x) if self.noise is None else self.noise(self.layer(x))


def train_step(model, optimizer, x, y):
    loss, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
    optimizer.update(model, gradients)
    return model, optimizer, loss


X, Y = np.ones((96, 2), np.float32), np.zeros((96, 3), np.float32)
SGD = optax.sgd(0.1)


def small(seed=0, optimiser=SGD, noisy=False):
    model = Small(seed, noisy)
    return [model, nnx.Optimizer(model, optimiser, wrt=nnx.Param)]


def batches_of_40(step):
    state = small()
    for _ in range(3):
        for start in range(0, 96, 40):
            *state, loss = step(*state, X[start : start + 40], Y[start : start + 40])


def float64_then_numpy_then_jax(step):
    state = small()
    for x in (X.astype(np.float64), X, jnp.asarray(X)):
        *state, loss = step(*state, x, Y)


def three_seeds(step):
    for seed in range(3):
        step(*small(seed), X, Y)


def three_optimisers(step):
    for _ in range(3):
        step(*small(optimiser=optax.sgd(0.1)), X, Y)


def a_schedule(step):
    state = small(optimiser=optax.sgd(optax.linear_schedule(0.1, 0.0, 5)))
    for _ in range(5):
        *state, loss = step(*state, X, Y)


def train_and_eval(step):
    model, optimizer = small(noisy=True)
    for _ in range(3):
        model.train()
        model, optimizer, loss = step(model, optimizer, X, Y)
        model.eval()
        step(model, optimizer, X, Y)


def jitted_in_each_epoch(step):
    state = small()
    for _ in range(3):
        *state, loss = jax.eval_shape(jax.jit(step.body), *state, X, Y)


def only_the_batch_is_split(step):
    mesh = jax.make_mesh((8,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
    state, batch = small(), jax.device_put((X, Y), jax.NamedSharding(mesh, P("batch")))
    for _ in range(3):
        *state, loss = jax.block_until_ready(step.jitted(*state, *batch))


LOOPS = [
    batches_of_40,
    float64_then_numpy_then_jax,
    three_seeds,
    three_optimisers,
    a_schedule,
    train_and_eval,
    jitted_in_each_epoch,
    only_the_batch_is_split,
]


def count_traces(loop):
    """How often `loop` has the Python body of train_step traced, starting from an empty cache."""

    def body(*arguments):
        return train_step(*arguments)

    def step(*arguments):
        return jax.eval_shape(step.jitted, *arguments)

    step.body, step.jitted = body, jax.jit(body)
    with trace_log(body) as log:
        loop(step)
    return log.traces


# %% nbgrader={"grade": false, "grade_id": "traces", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predicted_traces():
    """Name of each function in LOOPS -> how often the body of train_step is traced."""
    ### BEGIN SOLUTION
    # Shapes, functions, bools and places are in the key; seeds and rates in a schedule are not. float64 becomes 32.
    return {
        "batches_of_40": 2,
        "float64_then_numpy_then_jax": 1,
        "three_seeds": 1,
        "three_optimisers": 3,
        "a_schedule": 1,
        "train_and_eval": 2,
        "jitted_in_each_epoch": 1,
        "only_the_batch_is_split": 2,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "traces-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The traces of all eight loops are predicted right."""
assert_prediction(
    predicted_traces,
    lambda: {loop.__name__: count_traces(loop) for loop in LOOPS},
    hints={
        "batches_of_40": "96 rows are 40, 40 and how many? And are those of the second epoch new?",
        "float64_then_numpy_then_jax": "What does JAX make of a float64 that comes in, unless told otherwise?",
        "three_seeds": "Another seed is other numbers in arrays of the same types.",
        "three_optimisers": "Each optax.sgd(...) makes new functions, and functions are compared by identity.",
        "a_schedule": "The rate is computed from the step counter, which is an array in the optimizer.",
        "train_and_eval": "A Python bool in the model belongs to its description. How many values has it?",
        "jitted_in_each_epoch": "What is traced is kept with the Python function that was jitted.",
        "only_the_batch_is_split": "The state goes in from one device. Where does it lie when it comes back?",
    },
)

# %% [markdown]
# ## Task 2 · Port a painter (3 points)
#
# `LinenPainter` comes from an older post. It has any number of layers, and its `frequencies` are *not* trained: linen
# keeps them in a collection of their own, `"constants"`.
#
# Write it as an NNX module that is made from the old one's variables and never calls the old one (nor wraps it), so that
# `port(variables)(xy)` paints the same picture, and so that an `nnx.Optimizer(..., wrt=nnx.Param)` trains the layers and
# nothing else.
#
# <details><summary>Hint 1</summary>
# Each <code>nnx.Linear(inputs, outputs, rngs=...)</code> makes random numbers, which you overwrite. The sizes stand in
# the shapes of the kernels. Which type of variable is trained, and which other types are there?
# </details>
# <details><summary>Hint 2</summary>
# Print <code>jax.tree.map(jnp.shape, variables)</code> for two widths, and for eleven: in which order do the names
# come? <code>nnx.state(model, nnx.Param)</code> shows what would be trained.
# </details>
# <details><summary>Hint 3</summary>
# <code>self.frequencies = nnx.Variable(...)</code>; <code>self.layers = nnx.List([])</code>; for
# <code>i in range(len(params))</code> take <code>params[f"Dense_{i}"]</code>, append an
# <code>nnx.Linear(*kernel.shape, rngs=nnx.Rngs(0))</code>, and assign to <code>layer.kernel[...]</code> and
# <code>layer.bias[...]</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "port-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def waves(xy, frequencies):
    """Sines and cosines of the coordinates at each frequency. float32[n, 2] -> float32[n, 4 * frequencies]"""
    angles = (xy[:, :, None] * frequencies).reshape(len(xy), -1)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


class LinenPainter(linen.Module):
    widths: tuple[int, ...]

    @linen.compact
    def __call__(self, xy):
        frequencies = self.variable("constants", "frequencies", lambda: jnp.array([1.0, 2.0, 4.0]))
        x = waves(xy, frequencies.value)
        for width in self.widths:
            x = linen.relu(linen.Dense(width)(x))
        return linen.sigmoid(linen.Dense(3)(x))


def old_variables(widths, seed=None):
    """Variables of LinenPainter(widths), as from an old checkpoint: nested dicts of NumPy arrays, keys sorted."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(LinenPainter(widths).init, jax.random.key(0), jnp.ones((1, 2)))
    variables = jax.tree.map(lambda leaf: rng.normal(0, 0.5, leaf.shape).astype(np.float32), shapes)
    variables["constants"]["frequencies"] = np.sort(rng.uniform(1, 9, 3)).astype(np.float32)
    return variables


def points(number, seed=None):
    """Random points of the picture. float32[number, 2]"""
    return np.random.default_rng(seed).uniform(-1, 1, (number, 2)).astype(np.float32)


def trained_numbers(model):
    """How many numbers an Optimizer with wrt=nnx.Param would train."""
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))


def painted_after_a_step(model, xy):
    """What an NNX painter paints after a step towards black, as an Optimizer with wrt=nnx.Param makes it."""
    optimizer = nnx.Optimizer(model, optax.sgd(3.0), wrt=nnx.Param)
    optimizer.update(model, nnx.grad(lambda model: jnp.mean(model(xy) ** 2))(model))
    return model(xy)


@functools.partial(jax.jit, static_argnames="widths")
def painted_by_linen(widths, variables, xy):
    """What LinenPainter(widths) paints: (now, after the same step)."""

    def paint(params):
        return LinenPainter(widths).apply(variables | {"params": params}, xy)

    params = variables["params"]
    slopes = jax.grad(lambda params: jnp.mean(paint(params) ** 2))(params)
    return paint(params), paint(jax.tree.map(lambda number, slope: number - 3.0 * slope, params, slopes))


# %% nbgrader={"grade": false, "grade_id": "port", "locked": false, "schema_version": 3, "solution": true, "task": false}
class NnxPainter(nnx.Module):
    """LinenPainter, as a module that holds its numbers."""

    def __init__(self, variables):
        """variables: what LinenPainter(...).init returns, as in old_variables."""
        ### BEGIN SOLUTION
        # A Variable that is no Param is carried along, and not trained. By number: Dense_10 sorts before Dense_2.
        params = variables["params"]
        self.frequencies = nnx.Variable(jnp.asarray(variables["constants"]["frequencies"]))
        self.layers = nnx.List([])
        for number in range(len(params)):
            kernel, bias = (params[f"Dense_{number}"][name] for name in ("kernel", "bias"))
            layer = nnx.Linear(*kernel.shape, kernel_init=nnx.initializers.zeros, rngs=nnx.Rngs(0))
            layer.kernel[...], layer.bias[...] = kernel, bias
            self.layers.append(layer)
        ### END SOLUTION

    def __call__(self, xy):
        """The colours of the points. float32[n, 2] -> float32[n, 3]"""
        ### BEGIN SOLUTION
        x = waves(xy, self.frequencies[...])
        for layer in self.layers[:-1]:
            x = nnx.relu(layer(x))
        return nnx.sigmoid(self.layers[-1](x))
        ### END SOLUTION


def port(variables):
    """An NnxPainter that paints what LinenPainter paints with these variables."""
    return NnxPainter(variables)


# %% nbgrader={"grade": true, "grade_id": "port-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The port paints the same picture, at any depth, and trains what linen trained."""

variables = old_variables((5, 5), seed=0)
xy = points(20, seed=1)
now, later = painted_by_linen((5, 5), variables, xy)
ported = port(variables)
assert_allclose(ported(xy), now, rtol=1e-4, atol=1e-5, name="port(...)(xy) with 2 hidden layers")
assert_equal(
    {"numbers that would be trained": trained_numbers(ported)},
    {"numbers that would be trained": sum(leaf.size for leaf in jax.tree.leaves(variables["params"]))},
    name="port",
    hints={"numbers that would be trained": "The frequencies are constants: make them no nnx.Param."},
)
name = "port(...)(xy), trained for a step,"
assert_allclose(painted_after_a_step(ported, xy), later, rtol=1e-3, atol=1e-4, name=name)
### BEGIN HIDDEN TESTS
from unittest import mock

xy, old = points(30), [(widths, old_variables(widths)) for widths in ((5,) * 10, (7, 4), (7, 4), (3, 6), ())]


def painted_without_linen(old, xy):
    """What the ports of old variables paint while nobody can call LinenPainter."""
    called = NotImplementedError("the port calls LinenPainter")
    jax.clear_caches()  # of painted_by_linen, too, which is ours
    with mock.patch.object(LinenPainter, "__call__", side_effect=called):
        painters = [port(variables) for variables in old]  # made before the first of them paints
        return [painter(xy) for painter in painters]


def two_ports(variables):
    """Both of the very same variables."""
    return [port(variables) for _ in range(2)]


pictures = painted_without_linen([variables for _, variables in old], xy)
expected = [painted_by_linen(widths, variables, xy)[0] for widths, variables in old]  # after: JAX keeps its program
for (widths, _), picture, now in zip(old, pictures, expected, strict=True):
    assert_allclose(picture, now, rtol=1e-4, atol=1e-5, name=f"port(...)(xy) with {len(widths)} hidden layers")
xy, variables = points(20), old_variables((5, 5))
now, later = painted_by_linen((5, 5), variables, xy)
twice = two_ports(variables)
alone = {"two ports of the same variables are one model": twice[0] is twice[1]}
assert_equal(
    alone, dict.fromkeys(alone, False), name="port", hints=dict.fromkeys(alone, "One is trained, and so is the other.")
)
for _ in range(2):  # the other one begins where the first began
    name = "port(...)(xy), trained for a step beside another port,"
    assert_allclose(painted_after_a_step(twice.pop(), xy), later, rtol=1e-3, atol=1e-4, name=name)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · The last batch (3 points)
#
# 100 pixels in batches of 64: the second has 36. It is another shape and costs a trace, and 36 rows cannot be split
# over eight devices. So the batch is **padded**, and each row gets a weight.
#
# Write `padded`, which makes a batch of `size` rows out of 1 to `size`, and `weighted_loss`, so that the loss and its
# gradients are those of `mean_loss` on the true rows alone. What you pad with, and what the weights are, is up to you:
# `weighted_loss` gets what your `padded` made. One trace serves every batch.
#
# <details><summary>Hint 1</summary>
# A mean is a sum, divided by a number. Which sum, and which number, must not see the padding?
# </details>
# <details><summary>Hint 2</summary>
# Take a batch of 1 row, padded to 64. Print your loss and <code>mean_loss</code>: is their ratio familiar?
# </details>
# <details><summary>Hint 3</summary>
# Weights of 1 for true rows, 0 for the others. <code>errors = jnp.mean((model(xy) - colours) ** 2, axis=1)</code> has
# one number a row; return <code>jnp.sum(weights * errors) / jnp.sum(weights)</code>. In <code>padded</code>,
# <code>np.pad(array, ((0, missing), (0, 0)))</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "padded-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Painter(nnx.Module):
    """Three layers over waves of four frequencies."""

    def __init__(self, seed=0, width=32):
        rngs = nnx.Rngs(seed)
        self.first = nnx.Linear(16, width, rngs=rngs)
        self.second = nnx.Linear(width, width, rngs=rngs)
        self.last = nnx.Linear(width, 3, rngs=rngs)

    def __call__(self, xy):
        x = nnx.relu(self.first(waves(xy, np.pi * np.array([0.5, 1.0, 2.0, 4.0], np.float32))))
        x = nnx.relu(self.second(x))
        return nnx.sigmoid(self.last(x))


def rising_sun(xy):
    """The colours of a small picture. float32[n, 2] -> float32[n, 3]"""
    x, y = xy.T
    colour = np.outer(0.5 - 0.4 * y, [0.9, 0.4, 0.3]) + np.outer(0.5 + 0.4 * y, [0.1, 0.2, 0.5])
    colour[np.hypot(x, y) < 0.5] = [1.0, 0.9, 0.5]
    colour[y < 0.2 * np.sin(5 * x) - 0.3] = [0.1, 0.1, 0.2]
    return colour.astype(np.float32)


def mean_loss(model, xy, colours):
    """The mean of the squared errors over rows and colours."""
    return jnp.mean((model(xy) - colours) ** 2)


def rows_of(number, seed=None):
    """A batch of `number` pixels: (float32[number, 2], float32[number, 3])"""
    xy = points(number, seed)
    return xy, rising_sun(xy)


# %% nbgrader={"grade": false, "grade_id": "padded", "locked": false, "schema_version": 3, "solution": true, "task": false}
def padded(xy, colours, size):
    """(xy, colours, weights) of `size` rows each. xy: float32[n, 2]; colours: float32[n, 3]; n <= size."""
    ### BEGIN SOLUTION
    missing = size - len(xy)
    weights = np.arange(size) < len(xy)
    xy, colours = (np.pad(array, ((0, missing), (0, 0))) for array in (xy, colours))
    return xy, colours, weights.astype(np.float32)
    ### END SOLUTION


def weighted_loss(model, xy, colours, weights):
    """mean_loss of the true rows of a padded batch. weights: as made by `padded`."""
    ### BEGIN SOLUTION
    # The divisor is the number of true rows: it is in the weights, so it is no part of any shape.
    errors = jnp.mean((model(xy) - colours) ** 2, axis=1)
    return jnp.sum(weights * errors) / jnp.sum(weights)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "padded-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. One shape serves every batch, and the mean does not notice."""


def by_numbers(loss):
    """loss(model, ...) as a function of the numbers of a Painter, in dicts, in the place of the model."""
    description, _ = nnx.split(Painter())
    return lambda numbers, *batch: loss(nnx.merge(description, numbers), *batch)


def numbers_of(model):
    return nnx.to_pure_dict(nnx.state(model))


@jax.jit
def padded_gradients(model, xy, colours, weights):
    loss, gradients = jax.value_and_grad(loss_of_numbers)(numbers_of(model), xy, colours, weights)
    return {"loss": loss, "gradients": gradients}


@jax.jit
def true_gradients(model, xy, colours):
    loss, gradients = nnx.value_and_grad(mean_loss)(model, xy, colours)
    return {"loss": loss, "gradients": nnx.to_pure_dict(gradients)}


model, loss_of_numbers = Painter(), by_numbers(weighted_loss)
last = rows_of(36, seed=1)
shapes = [np.shape(array)[0] for array in padded(*last, 64)]
assert_equal({"rows": shapes}, {"rows": [64, 64, 64]}, name="padded")
assert_allclose(
    padded_gradients(model, *padded(*last, 64)),
    true_gradients(model, *last),
    rtol=1e-3,
    atol=1e-5,
    name="weighted_loss of 36 rows, padded to 64,",
)
with assert_max_traces(padded_gradients, 1):
    for number in (64, 36, 1):
        padded_gradients(model, *padded(*rows_of(number, seed=number), 64))
### BEGIN HIDDEN TESTS
few = int(np.random.default_rng().integers(11, 20))
sizes, batches = ((few, 40), (40, 40), (1, 64), (257, 257)), []
for number, size in sizes:
    fresh = rows_of(number)
    for array in fresh:
        array[0] = 0  # a black pixel in the middle is a true row
        array[1:2] = -1  # whatever the padding is made of, a true row may look like it
    fresh[1][-1] += 5  # and so is one that no model paints
    batch = padded(*(array.copy() for array in fresh), size)
    assert_equal({"rows": [np.shape(array)[0] for array in batch]}, {"rows": [size] * 3}, name="padded")
    batches.append((fresh, size))


def padded_in_turn(batches):
    """Every batch is padded before the first of them is looked at."""
    return [padded(*(array.copy() for array in fresh), size) for fresh, size in batches]


for (number, size), (fresh, _), batch in zip(sizes, batches, padded_in_turn(batches), strict=True):
    found, expected = padded_gradients(model, *batch), true_gradients(model, *fresh)
    rows = f"weighted_loss of {number} rows, padded to {size},"
    assert_allclose(found, expected, rtol=1e-3, atol=1e-5, name=rows)
fresh[1][0] = np.nan  # a colour that is no number
broken = loss_of_numbers(numbers_of(model), *padded(*fresh, 300))
assert_equal({"the loss is NaN": bool(np.isnan(broken))}, {"the loss is NaN": True}, name="weighted_loss, a true NaN")
fresh = rows_of(70_001)
found, expected = padded_gradients(model, *padded(*fresh, 70_400)), true_gradients(model, *fresh)
assert_allclose(found, expected, rtol=1e-3, atol=1e-5, name="weighted_loss of 70001 rows, padded to 70400,")
fresh = rows_of(2051)
found, expected = loss_of_numbers(numbers_of(model), *padded(*fresh, 2100)), mean_loss(model, *fresh)
assert_allclose(found, expected, rtol=1e-4, name="weighted_loss of 2051 rows, padded to 2100,")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · An epoch is one call (6 points)
#
# `epoch_slow` calls a step for each batch and asks for each loss at once. Write `epoch`: the same as **one** function,
# whose jaxpr holds the step once, however many batches there are, and no callback. What changes is returned; what goes in
# stays as it is. It may be called with any optimizer, in the middle of its training too.
#
# Then `compiled_epoch()` returns it jitted (by `jax.jit`). Mind the memory: the state that goes in is not needed again,
# so what comes out must lie in its memory. (The batches are needed again, and nothing that comes out would fit there.)
#
# <details><summary>Hint 1</summary>
# A loop in Python, inside <code>jit</code>, is unrolled: as many copies of the step as there are batches. Which loop is
# not?
# </details>
# <details><summary>Hint 2</summary>
# Modules are pytrees, so they can be the carry of a <code>scan</code>. The batches are what is scanned over: their
# leading axis goes away. <code>leaf.is_deleted()</code> tells whether an array has been given away.
# </details>
# <details><summary>Hint 3</summary>
# In <code>epoch</code>, a <code>body(carry, batch)</code> that unpacks <code>model, optimizer = carry</code>, takes the
# loss and gradients at <code>*batch</code>, updates, and returns <code>(model, optimizer), loss</code>; then
# <code>lax.scan(body, (model, optimizer), (xy, colours))</code>. And
# <code>jax.jit(epoch, donate_argnums=(0, 1))</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "epoch-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
ADAM = optax.adam(1e-2)


def begin(seed=0, optimiser=ADAM):
    """A new painter and its optimizer."""
    model = Painter(seed)
    return model, nnx.Optimizer(model, optimiser, wrt=nnx.Param)


@jax.jit
def one_step(model, optimizer, xy, colours):
    loss, gradients = nnx.value_and_grad(mean_loss)(model, xy, colours)
    optimizer.update(model, gradients)
    return model, optimizer, loss


def epoch_slow(model, optimizer, xy, colours):
    """A step for each batch, each with its loss. xy: float32[batches, n, 2]; colours: float32[batches, n, 3]."""
    losses = []
    for batch in zip(xy, colours, strict=True):
        model, optimizer, loss = one_step(model, optimizer, *batch)
        losses.append(float(loss))
    return model, optimizer, np.array(losses, np.float32)


def batches_of(number, batches, seed=None):
    """`batches` batches of `number` pixels each, on the device."""
    xy, colours = rows_of(number * batches, seed)
    return jax.device_put((xy.reshape(batches, number, 2), colours.reshape(batches, number, 3)))


# %% nbgrader={"grade": false, "grade_id": "epoch", "locked": false, "schema_version": 3, "solution": true, "task": false}
def epoch(model, optimizer, xy, colours):
    """The same as epoch_slow, with the step in it once; returns model, optimizer and losses."""
    ### BEGIN SOLUTION

    # The state is the carry of the loop, as it is that of the epochs.
    def body(carry, batch):
        model, optimizer = carry
        loss, gradients = nnx.value_and_grad(mean_loss)(model, *batch)
        optimizer.update(model, gradients)
        return (model, optimizer), loss

    (model, optimizer), losses = lax.scan(body, (model, optimizer), (xy, colours))
    return model, optimizer, losses
    ### END SOLUTION


def compiled_epoch():
    """`epoch`, jitted, so that the new model and optimizer lie in the memory of the old ones."""
    ### BEGIN SOLUTION
    return jax.jit(epoch, donate_argnums=(0, 1))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "epoch-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. One trace for all epochs, with a loop in it, and the picture is learned."""


def ready():
    """The compiled epoch, and the state that goes into it first."""
    return compiled_epoch(), begin()


(run_epoch, state), batches = ready(), batches_of(64, 8, seed=0)
fewer = [batch[:2] for batch in batches]
one_loop = dict(includes={"scan|while"}, excludes={"pure_callback"})
assert_primitives(epoch, *state, *batches, **one_loop, smaller=(*state, *fewer))
with assert_max_traces(run_epoch, 1):
    *state, losses = run_epoch(*state, *batches)
    *state, _ = run_epoch(*state, *batches)
*_, expected = epoch_slow(*begin(), *batches)
assert_allclose(losses, expected, rtol=1e-2, atol=1e-4, name="the losses of the first epoch")
for _ in range(28):
    *state, losses = run_epoch(*state, *batches)
assert_equal(
    {"mean loss of epoch 30 is below 0.02": bool(np.mean(losses) < 0.02)},
    {"mean loss of epoch 30 is below 0.02": True},
    name="epoch",
)
### BEGIN HIDDEN TESTS


def decaying():
    decay = optax.add_decayed_weights(1e-2)  # it looks at the weights, too
    return optax.chain(decay, optax.sgd(3e-2, momentum=0.8))


def begun(number):
    """So many states of one optimiser, all of them new."""
    other = decaying()
    return [begin(5, other) for _ in range(number)]


def trained_slowly(state, xy, colours):
    *state, _ = epoch_slow(*state, xy, colours)
    return state


def replaced_in(state, xy, colours):
    """How many arrays of a state are others when an epoch has returned, and its losses."""
    before = jax.tree.leaves(state)
    *_, losses = epoch(*state, xy, colours)
    return sum(new is not old for new, old in zip(jax.tree.leaves(state), before, strict=True)), losses


def numbers_in(state):
    return jax.tree.leaves(state)


batches, other = batches_of(32, 7), decaying()
(state, spoiling, growing, single, middle), slow = begun(5), begin(5, other)
for count in ("an", "another"):
    *slow, expected = epoch_slow(*slow, *batches)
    *state, losses = run_epoch(*state, *batches)
    name = f"the state after {count} epoch"
    assert_allclose(losses, expected, rtol=1e-2, atol=1e-4, name=f"the losses of {count} epoch")
    assert_allclose(numbers_in(state), jax.tree.leaves(slow), rtol=2e-2, atol=2e-3, name=name)
xy, colours = batches
spoilt = xy, colours.at[3].set(jnp.nan)
runs = {"a NaN in batch 3": (spoiling, spoilt), "large errors": (growing, (xy, 20 * colours))}
for name, (state, data) in runs.items():
    *_, losses = run_epoch(*state, *data)
    *_, expected = epoch_slow(*begin(5, other), *data)
    assert_allclose(losses, expected, rtol=1e-2, atol=1e-4, name=f"the losses of an epoch with {name}")
alone = xy[:1], colours[:1]
replaced, losses = replaced_in(single, *alone)
assert_equal({"arrays replaced": replaced}, {"arrays replaced": 0}, name="the state that went into epoch")
*_, expected = epoch_slow(*begin(5, other), *alone)
assert_allclose(losses, expected, rtol=1e-2, atol=1e-4, name="the losses of an epoch of one batch")
in_step = show_jaxpr(one_step, *begin(5), xy[0], colours[0]).primitives["dot_general"]
in_epoch = show_jaxpr(epoch, *ready()[1], *batches).primitives["dot_general"]
assert_equal({"how often the step is in it": in_epoch // in_step}, {"how often the step is in it": 1}, name="epoch")
first, rest = ([part[rows] for part in batches] for rows in (slice(3), slice(3, None)))
state, (*slow, _) = trained_slowly(middle, *first), epoch_slow(*begin(5, other), *first)
*slow, expected = epoch_slow(*slow, *rest)
*state, losses = run_epoch(*state, *rest)
assert_allclose(losses, expected, rtol=1e-2, atol=1e-4, name="the losses of an epoch in the middle of a training")
name = "the state after an epoch in the middle of a training"
assert_allclose(numbers_in(state), jax.tree.leaves(slow), rtol=2e-2, atol=2e-3, name=name)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "epoch-memory", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The new state lies where the old one was."""


def after_an_epoch(batches):
    """How many arrays of the old state are still kept after an epoch, and how many of the new one lie elsewhere."""
    run_epoch, state = compiled_epoch(), begin(1)
    old = jax.tree.leaves(state)
    addresses = {leaf.unsafe_buffer_pointer() for leaf in old}
    *state, losses = run_epoch(*state, *batches)
    kept = sum(not leaf.is_deleted() for leaf in old)
    return kept, sum(a.unsafe_buffer_pointer() not in addresses for a in jax.tree.leaves(state))


def batches_given_away(batches):
    """How many arrays of the batches an epoch may write its results into."""
    offered = jax.tree.leaves(compiled_epoch().lower(*begin(1), *batches).args_info[0][2:])
    return sum(array.donated for array in offered)


batches = batches_of(64, 8, seed=1)
kept, elsewhere = after_an_epoch(batches)
assert_equal(
    {
        "arrays of the old state that are still kept": kept,
        "arrays of the new state in other memory": elsewhere,
    },
    {
        "arrays of the old state that are still kept": 0,
        "arrays of the new state in other memory": 0,
    },
    name="compiled_epoch()",
    hints={
        "arrays of the old state that are still kept": "Give them away: the argument of jax.jit is donate_argnums.",
    },
)
given = {"batches given away": batches_given_away(batches)}
assert_equal(given, {"batches given away": 0}, name="compiled_epoch()")

# %% [markdown]
# **And the clock?** How much of a small step is Python? `fit_slow` trains a small network, this time of plain arrays in
# dicts. For each batch it calls a jitted step, which picks its rows out of data that stay on the device, and then it
# asks for the loss.
#
# Write `fit`: the same weights and the same losses, for any number of steps and of rows, from one on. 1 point for the
# values, by a jaxpr with a loop in it that is no longer for 12 steps than for 6, and no callback; up to 2 for speed over
# `fit_slow` in 100 steps of 8 rows: 4x earns 1, 8x earns 2. (Compiling is not timed: each function has been called before.)
#
# <details><summary>Hint 1</summary>
# The step may stay as it is. Who calls it 100 times, and who waits for 100 losses?
# </details>
# <details><summary>Hint 2</summary>
# It is the loop that has to be compiled, once for all calls. What is scanned over is <code>order</code>: one row of it
# for each step. The data are the same in all of them. Which two trees does a step hand on to the next?
# </details>
# <details><summary>Hint 3</summary>
# <code>small_step(*carry, xs, ys, rows)</code> in a <code>body(carry, rows)</code> returns weights, velocity and loss: the
# first two are the next carry. It begins as <code>(weights, at_rest(weights))</code>, and <code>lax.scan</code> stacks
# the losses.
# </details>


# %% nbgrader={"grade": false, "grade_id": "fit-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def small_loss(weights, xs, ys):
    """The mean squared error of {w: [d, h], b: [h], v: [h]}. xs: float32[n, d]; ys: float32[n]. Returns float32[]."""
    hidden = jnp.tanh(xs @ weights["w"] + weights["b"])
    return jnp.mean((hidden @ weights["v"] - ys) ** 2)


def at_rest(weights):
    """The velocity before the first step: a tree of zeros like `weights`."""
    return jax.tree.map(jnp.zeros_like, weights)


@jax.jit
def small_step(weights, velocity, xs, ys, rows):
    """A step with momentum, on some rows of the data. rows: int32[batch]. Returns weights, velocity, loss."""
    loss, slopes = jax.value_and_grad(small_loss)(weights, xs[rows], ys[rows])
    velocity = jax.tree.map(lambda speed, slope: 0.9 * speed - 0.05 * slope, velocity, slopes)
    return jax.tree.map(jnp.add, weights, velocity), velocity, loss


def fit_slow(weights, xs, ys, order):
    """The weights after a step for each row of `order`, int32[steps, batch], and the losses, float32[steps]."""
    velocity, losses = at_rest(weights), []
    for rows in order:
        weights, velocity, loss = small_step(weights, velocity, xs, ys, rows)
        losses.append(float(loss))
    return weights, np.array(losses, np.float32)


def small_run(steps, batch, seed=None, data=256, hidden=16):
    """weights, xs, ys and order of a run: the first three on the device."""
    rng = np.random.default_rng(seed)
    w, b, v, xs = (rng.normal(size=size).astype(np.float32) for size in ((4, hidden), hidden, hidden, (data, 4)))
    weights = {"w": w / 2, "b": b / 10, "v": v / 4}
    return *jax.device_put((weights, xs, np.sin(xs.sum(1)))), rng.integers(0, data, (steps, batch)).astype(np.int32)


# %% nbgrader={"grade": false, "grade_id": "fit", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def fit(weights, xs, ys, order):
    """The same as fit_slow, without Python between the steps."""

    ### BEGIN SOLUTION
    # The row numbers are scanned over; the data go in once. The velocity is part of what a step hands on.
    def body(carry, rows):
        weights, velocity, loss = small_step(*carry, xs, ys, rows)
        return (weights, velocity), loss

    (weights, _), losses = lax.scan(body, (weights, at_rest(weights)), order)
    return weights, losses
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "fit-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The weights and the losses of the slow run, and one loop in the program."""
given = small_run(12, 8, seed=2)
one_loop = dict(includes={"scan|while"}, excludes={"pure_callback"})
assert_primitives(fit, *given, **one_loop, smaller=small_run(6, 8, seed=2))
expected_weights, expected_losses = fit_slow(*given)
weights, losses = fit(*given)
assert_allclose(losses, expected_losses, rtol=1e-3, atol=1e-5, name="the losses of 12 steps of fit")
assert_allclose(weights, expected_weights, rtol=1e-3, atol=1e-5, name="the weights after 12 steps of fit")
### BEGIN HIDDEN TESTS
for steps, batch, data, hidden in ((1, 8, 256, 16), (30, 1, 9, 3), (13, 60, 40, 1), (130, 64, 64, 2)):
    given = small_run(steps, batch, data=data, hidden=hidden)
    (expected_weights, expected_losses), (weights, losses) = fit_slow(*given), fit(*given)
    name = f"fit, {steps} steps of {batch} out of {data} rows,"
    assert_allclose(losses, expected_losses, rtol=1e-3, atol=1e-5, name=f"the losses of {name}")
    assert_allclose(weights, expected_weights, rtol=1e-3, atol=1e-5, name=f"the weights of {name}")
weights, xs, ys, order = small_run(6, 8, data=70_000)
runs = {"rows from 69,000 on": (weights, xs, ys, 69_000 + order % 1000)}
weights, xs, ys, order = small_run(12, 8)
runs |= {"a NaN in step 5": (weights, xs, ys.at[order[5, 3]].set(jnp.nan), order)}
weights, xs, ys, order = small_run(3, 8)
wide = {**weights, "w": jnp.tile(weights["w"], (2, 1))}
runs["8 columns and large slopes"] = wide, jnp.tile(xs, 2), 100 * ys, order
changes = {"the targets": lambda w, xs, ys: (w, xs, 1 - ys), "the rows": lambda w, xs, ys: (w, -xs, ys)}
changes |= {"the weights": lambda w, xs, ys: (jax.tree.map(lambda each: 0.9 * each, w), xs, ys)}
for what, changed in {"nothing": lambda *given: given, **changes}.items():  # once more, in the same order
    *given, order = small_run(9, 8, seed=4)
    runs[f"{what} changed since the last call"] = *changed(*given), order
for name, given in runs.items():
    for what, expected, found in zip(("weights", "losses"), fit_slow(*given), fit(*given), strict=True):
        assert_allclose(found, expected, rtol=1e-3, atol=1e-5, name=f"the {what} of fit with {name}")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "fit-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Speed over a call for each step: 4x earns 1 point, 8x earns 2."""
race = speedup(fit, fit_slow, *small_run(100, 8, seed=3), at_least=8)
slow, fast = (1e6 * race.seconds[side] / 100 for side in ("baseline", "candidate"))
print(f"a step of fit_slow takes {slow:.1f} us, one of yours {fast:.1f} us")
partial_credit(race, {4: 1, 8: 2})

# %% [markdown]
# ## Task 5 · The log that does not wait (3 points)
#
# Not every loop fits into a `scan`: data may come from outside, and one wants to see the loss while the loop runs, and
# to stop when it is no longer a number. `train_slow` asks for each loss at once, so it stands still in every step.
#
# Write `train`, which stays `lag` steps ahead: it reads the loss of step `k` **as soon as step `k + lag` has been
# started**, not before, and not later. What is left is read at the end. When a loss that it reads is not finite, it
# stops at once: no further step, no further read. It returns the state after the last step that was started, and the list
# of the losses read, as Python floats. The batches may be any iterable, and a batch that no step needs is not taken from it.
#
# The check gives it a step whose losses keep a diary of who asked for them. (On eight virtual devices this is also the
# cure for the loop that nobody waits for: never more than `lag + 1` steps are under way.)
#
# <details><summary>Hint 1</summary>
# A queue of losses that have not been read. When is it too long?
# </details>
# <details><summary>Hint 2</summary>
# The diary for three steps and a lag of 1: <code>start 0, start 1, read 0, start 2, read 1, read 2</code>. Play it with
# <code>step, diary = a_step_with_a_diary([3.0, 2.0, 1.0])</code>.
# </details>
# <details><summary>Hint 3</summary>
# Append each loss to a list <code>waiting</code>. If it is longer than <code>lag</code>,
# <code>float(waiting.pop(0))</code> goes to the log, and <code>math.isfinite</code> decides. After the loop do the same
# for the rest.
# </details>


# %% nbgrader={"grade": false, "grade_id": "log-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def train_slow(step, state, batches, lag):
    """step(state, batch) -> state, loss. Returns the last state and the losses, up to one that is not finite."""
    log = []
    for batch in batches:
        state, loss = step(state, batch)
        log.append(float(loss))
        if not math.isfinite(log[-1]):
            break
    return state, log


class Pending:
    """A loss that a device still works on. Whoever asks for its value waits, and that goes into the diary."""

    def __init__(self, number, value, diary):
        self._entry, self._value, self._diary = f"read {number}", value, diary

    def __float__(self):
        if self._entry not in self._diary:
            self._diary.append(self._entry)
        return self._value

    def __array__(self, dtype=None, copy=None):
        return np.asarray(float(self), dtype or np.float32)

    def __jax_array__(self):
        return jnp.float32(float(self))

    def __repr__(self):
        return str(float(self))

    def __format__(self, how):
        return format(float(self), how)

    def block_until_ready(self):
        float(self)
        return self

    def item(self):
        return float(self)


def a_step_with_a_diary(losses):
    """(step, diary). The state is the number of steps; step k returns the pending loss losses[k]."""
    diary = []

    def step(state, batch):
        diary.append(f"start {state}")
        return state + 1, Pending(state, losses[state], diary)

    return step, diary


# %% nbgrader={"grade": false, "grade_id": "log", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train(step, state, batches, lag):
    """As train_slow, but each loss is read when `lag` more steps have been started. lag: int, 0 or more."""
    ### BEGIN SOLUTION
    # A queue of `lag` unread losses keeps the device busy while Python reads an old one.
    waiting, log = [], []

    def read():
        log.append(float(waiting.pop(0)))
        return math.isfinite(log[-1])

    for batch in batches:
        state, loss = step(state, batch)
        waiting.append(loss)
        if len(waiting) > lag and not read():
            return state, log
    while waiting and read():
        pass
    return state, log
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "log-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Every loss is read in time: not too early, not too late, and not after the end."""


def diary_of(losses, lag):
    """What train does with these losses: (state, log, diary), NaN as text."""
    step, diary = a_step_with_a_diary(losses)
    state, log = train(step, 0, range(len(losses)), lag)
    read = [str(loss) if type(loss) is float else f"a {type(loss).__name__}" for loss in log]
    return {"steps": state, "log": read, "diary": list(diary)}


in_time = "Read too early, a loss makes Python wait for the device; read too late, it comes late to whoever watches."
assert_equal(
    diary_of([4.0, 3.0, 2.0, 1.0], 2),
    {
        "steps": 4,
        "log": ["4.0", "3.0", "2.0", "1.0"],
        "diary": ["start 0", "start 1", "start 2", "read 0", "start 3", "read 1", "read 2", "read 3"],
    },
    name="train with a lag of 2",
    hints={"diary": in_time},
)
assert_equal(
    diary_of([4.0, math.nan, 2.0, 1.0, 0.5], 1),
    {"steps": 3, "log": ["4.0", "nan"], "diary": ["start 0", "start 1", "read 0", "start 2", "read 1"]},
    name="train with a lag of 1 and a NaN in step 1",
    hints={"diary": "Stop at the first loss read that is not finite: start nothing, read nothing."},
)
### BEGIN HIDDEN TESTS
nothing = {"steps": 0, "log": [], "diary": []}
assert_equal(diary_of([], 1), nothing, name="train without a batch")
steps, some = (int(number) for number in np.random.default_rng().integers((6, 2), (10, 5)))
losses = [float(number) for number in range(steps, 0, -1)]
for lag in (0, some):
    right = [f"start {k}" for k in range(lag)]
    right += [entry for k in range(lag, steps) for entry in (f"start {k}", f"read {k - lag}")]
    right += [f"read {k}" for k in range(steps - lag, steps)]
    expected = {"steps": steps, "log": [str(loss) for loss in losses], "diary": right}
    assert_equal(diary_of(losses, lag), expected, name=f"train with a lag of {lag}", hints={"diary": in_time})
expected = {"steps": 2, "log": ["1.0", "-inf"], "diary": ["start 0", "read 0", "start 1", "read 1"]}
assert_equal(diary_of([1.0, -math.inf, 2.0], 0), expected, name="train with a lag of 0")
expected = {"steps": 2, "log": ["1.0", "inf"], "diary": ["start 0", "start 1", "read 0", "read 1"]}
assert_equal(diary_of([1.0, math.inf], 9), expected, name="train with a lag longer than the run")
expected = {"steps": 3, "log": ["inf"], "diary": ["start 0", "start 1", "start 2", "read 0"]}
assert_equal(diary_of([math.inf, 2.0, 1.0], 5), expected, name="train with an infinite first loss")
stream = iter([1.0, 1.0, 1e7, math.nan, 7.0])
halves, log = train(lambda state, batch: (state / 2, state * batch), jnp.float32(8), stream, 0)
assert_allclose(log, [8.0, 4.0, 2e7, math.nan], name="the log of train with JAX arrays")
assert_allclose(halves, 0.5, name="the state of train with JAX arrays")
assert_equal({"batches left": list(stream)}, {"batches left": [7.0]}, name="train with an iterator")
by_itself = train(lambda state, batch: (state + 1, 0.0), 0, [None, None, 0], 2)  # needs no batch, and nothing is lost
assert_equal(
    {"steps, and losses": by_itself}, {"steps, and losses": (3, [0.0] * 3)}, name="train, with batches of None"
)
waits = []


class AwaitedState:
    def block_until_ready(self):
        waits.append("for a state")
        return self


train(lambda state, batch: (AwaitedState(), batch), AwaitedState(), [3.0, 2.0, 1.0], 1)
assert_equal({"waits": waits}, {"waits": []}, name="train", hints={"waits": in_time})
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · Eight devices, one answer (4 points)
#
# First, place things. `spread(state, batch)` returns both, laid out over `MESH` for data parallel training: the whole
# state on every device, an eighth of the rows of the batch on each. The step stays as it is.
#
# Then, be the judge. A colleague has written parallel steps by hand, with `shard_map`. Each trains, each looks fine
# under Adam, and some are wrong. `faithful(step)` returns whether a parallel step does to the model **what `wash_step`
# does on one device**, up to rounding. You choose the optimiser (`PLAIN` or `ADAPTIVE`), the batch and what to compare:
# `wash(optimiser)` makes a model and its optimizer, `rows_of(64)` a batch. In the hidden tests are gradients that are
# too large (all of them, or those of one array) or of the wrong sign, gradients of one device only, rows that nobody
# looks at, be it one among many, and weights that are NaN or in another order. (None returns a wrong loss after a right
# step.)
#
# <details><summary>Hint 1</summary>
# <code>jax.device_put</code> takes pytrees, and one sharding for all of their leaves. For the judge: which optimiser
# forgives everything, and which nothing? A loss alone tells you about the forward pass.
# </details>
# <details><summary>Hint 2</summary>
# A batch whose rows are all alike cannot show that a device's rows are missing. And is a sum in another order a bug?
# Print the largest difference of a weight for <code>by_the_recipe</code> and for <code>in_the_loss</code>, with both
# optimisers.
# </details>
# <details><summary>Hint 3</summary>
# One step of <code>wash_step</code> and one of <code>step</code>, each from a new <code>wash(PLAIN)</code>; then
# <code>np.allclose</code> over the leaves of the two models, with an absolute tolerance of some 1e-5.
# </details>


# %% nbgrader={"grade": false, "grade_id": "devices-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
MESH = jax.make_mesh((8,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
PARTS = (P(), P("batch"), P("batch"))  # the model, xy and colours


class Wash(nnx.Module):
    """One layer: a wash of colour."""

    def __init__(self):
        self.layer = nnx.Linear(2, 8, rngs=nnx.Rngs(0))
        self.mix = nnx.Linear(8, 3, rngs=nnx.Rngs(1))

    def __call__(self, xy):
        return self.mix(self.layer(xy))


PLAIN, ADAPTIVE = optax.sgd(1.0), optax.adam(1e-2)  # made once: each new one would cost a trace


def wash(optimiser):
    """A new model and its optimizer."""
    model = Wash()
    return model, nnx.Optimizer(model, optimiser, wrt=nnx.Param)


@jax.jit
def wash_step(model, optimizer, xy, colours):
    """One step, on whatever devices its arguments lie."""
    loss, gradients = nnx.value_and_grad(mean_loss)(model, xy, colours)
    optimizer.update(model, gradients)
    return model, optimizer, loss


def parallel(each_device, parts=PARTS, check_vma=True):
    """A parallel step from what each device does with its rows: (model, xy, colours) -> (loss, gradients)."""

    def step(model, optimizer, xy, colours):
        spread_out = jax.shard_map(each_device, mesh=MESH, in_specs=parts, out_specs=(P(), P()), check_vma=check_vma)
        loss, gradients = spread_out(model, xy, colours)
        optimizer.update(model, gradients)
        return model, optimizer, loss

    return jax.jit(step)


def mean_of_gradients(model, xy, colours):
    return lax.pmean(nnx.value_and_grad(mean_loss)(model, xy, colours), "batch")


def gradient_of_mean(model, xy, colours):
    return nnx.value_and_grad(lambda model: lax.pmean(mean_loss(model, xy, colours), "batch"))(model)


by_the_recipe = parallel(mean_of_gradients)  # what was right under pmap
in_the_loss = parallel(gradient_of_mean)


# %% nbgrader={"grade": false, "grade_id": "devices", "locked": false, "schema_version": 3, "solution": true, "task": false}
def spread(state, batch):
    """(state, batch), two pytrees, placed on MESH: the state on every device, the rows of the batch split."""
    ### BEGIN SOLUTION
    # Placement is all there is to it: XLA puts the one all-reduce in.
    everywhere, split = jax.NamedSharding(MESH, P()), jax.NamedSharding(MESH, P("batch"))
    return jax.device_put(state, everywhere), jax.device_put(batch, split)
    ### END SOLUTION


def faithful(step):
    """Whether step(model, optimizer, xy, colours) on eight devices does what wash_step does on one: a bool."""
    ### BEGIN SOLUTION
    # One step of SGD shows the gradients as they are; Adam would divide their size away.
    batch, results = rows_of(64, seed=0), []
    for candidate in (wash_step, step):
        model, _, loss = candidate(*wash(PLAIN), *batch)
        results.append([*jax.tree.leaves(jax.device_get(model)), jax.device_get(loss)])
    return all(np.allclose(ours, theirs, rtol=1e-4, atol=1e-5) for ours, theirs in zip(*results, strict=True))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "devices-spread", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Everybody has the state, each an eighth of the rows; one trace, one all-reduce, one answer."""


def spread_out(batch):
    """What spread makes of a new state, array by array, and of this batch."""
    state, batch = spread(wash(PLAIN), batch)
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree.leaves_with_path(tuple(state))}, batch


arrays, batch = spread_out(rows_of(64, seed=3))
state = jax.tree.map_with_path(lambda path, _: arrays[jax.tree_util.keystr(path)], wash(PLAIN))
places = [leaf.sharding for leaf in jax.tree.leaves(state)]
copies = [place.is_fully_replicated * len(place.device_set) for place in places]
rows = [leaf.sharding.shard_shape(leaf.shape)[0] for leaf in jax.tree.leaves(batch)]
assert_equal(
    {"devices that hold a whole copy of the state": min(copies), "rows on each device": rows},
    {"devices that hold a whole copy of the state": 8, "rows on each device": [8, 8]},
    name="spread",
    hints={
        "devices that hold a whole copy of the state": "A PartitionSpec without names splits nothing: P().",
        "rows on each device": "The first axis of xy and of colours goes along the axis 'batch' of MESH.",
    },
)
assert_hlo(wash_step, *state, *batch, collectives={"all-reduce": 1})
alone = wash(PLAIN)
with assert_max_traces(wash_step, 1):
    for _ in range(3):
        *state, loss = jax.block_until_ready(wash_step(*state, *batch))
for _ in range(3):
    *alone, loss_alone = wash_step(*alone, *rows_of(64, seed=3))
assert_allclose(loss, loss_alone, rtol=1e-4, name="the loss on eight devices")
weights, expected = (jax.tree.leaves(jax.device_get(model)) for model in (state[0], alone[0]))
assert_allclose(weights, expected, rtol=1e-3, atol=1e-5, name="the weights on eight devices")
### BEGIN HIDDEN TESTS
rows = {"rows": np.arange(48).reshape(24, 2), "labels": np.arange(24)}
state, batch = spread({"weights": np.ones((3, 8)), "bias": np.ones(5)}, rows)
shapes = jax.tree.map(lambda leaf: list(leaf.sharding.shard_shape(leaf.shape)), {"state": state, "batch": batch})
right = {"state": {"bias": [5], "weights": [3, 8]}, "batch": {"labels": [3], "rows": [3, 2]}}
assert_equal(shapes, right, name="what each device holds, of a state and a batch that are dicts")
given = {"weights": np.arange(24, dtype=np.float32).reshape(3, 8), "steps": np.int32(3)}, rows
assert_allclose(tuple(spread(*given)), given, name="what spread has placed")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "devices-judge", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The innocent go free, and the guilty are found."""
MEANT = {
    "the step itself": "This is the step of one device, unchanged: rounding aside, it agrees with itself.",
    "the gradient of the mean loss": "This one is right. Sums in another order differ in their last digits.",
    "the recipe of pmap": "Its gradients are 8 times too large. Adam divides the size away: compare steps of SGD.",
}
assert_equal(
    {
        "the step itself": faithful(wash_step),
        "the gradient of the mean loss": faithful(in_the_loss),
        "the recipe of pmap": faithful(by_the_recipe),
    },
    {"the step itself": True, "the gradient of the mean loss": True, "the recipe of pmap": False},
    name="faithful",
    hints=MEANT,
)
### BEGIN HIDDEN TESTS


def sum_of_gradients(model, xy, colours):
    loss, gradients = nnx.value_and_grad(mean_loss)(model, xy, colours)
    return lax.pmean(loss, "batch"), lax.psum(gradients, "batch")


def own_gradients(model, xy, colours):
    loss, gradients = nnx.value_and_grad(mean_loss)(model, xy, colours)
    return lax.pmean(loss, "batch"), gradients


def the_first_rows(model, xy, colours):
    return nnx.value_and_grad(mean_loss)(model, xy[: len(xy) // 8], colours[: len(xy) // 8])


def all_rows_but_the_last(model, xy, colours):
    some = slice(max(1, len(xy) - 1))  # a device that has one row looks at it
    return lax.pmean(nnx.value_and_grad(mean_loss)(model, xy[some], colours[some]), "batch")


def uphill(model, xy, colours):
    loss, gradients = mean_of_gradients(model, xy, colours)
    return loss, jax.tree.map(jnp.negative, gradients)


def lopsided(number):
    def each_device(model, xy, colours):
        loss, gradients = mean_of_gradients(model, xy, colours)
        leaves, tree = jax.tree.flatten(gradients)
        leaves[number] = 8 * leaves[number]
        return loss, jax.tree.unflatten(tree, leaves)

    return parallel(each_device, check_vma=False)


def a_little_more(model, xy, colours):
    loss, gradients = mean_of_gradients(model, xy, colours)
    return loss, jax.tree.map(lambda g: 1.02 * g, gradients)


def spoilt(spoil):
    def step(model, optimizer, xy, colours):
        model, optimizer, loss = in_the_loss(model, optimizer, xy, colours)
        return jax.tree.map(spoil, model), optimizer, loss

    return step


def units_swapped(model, optimizer, xy, colours):
    """The same function of xy as after the right step, by other weights."""
    model, optimizer, loss = in_the_loss(model, optimizer, xy, colours)
    for part, axis in ((model.layer.kernel, 1), (model.layer.bias, 0), (model.mix.kernel, 0)):
        part[...] = jnp.flip(part[...], axis)
    return model, optimizer, loss


def verdict_on(make):
    """What faithful says of the step that this makes."""
    return faithful(make())


hidden = {
    "gradients that are two percent too large": (lambda: parallel(a_little_more, check_vma=False), False),
    "pmean of the gradients, varying types off": (lambda: parallel(mean_of_gradients, check_vma=False), True),
    "a sum of gradients": (lambda: parallel(sum_of_gradients, check_vma=False), False),
    "each device keeps its own gradients": (lambda: parallel(own_gradients, check_vma=False), False),
    "gradients of the wrong sign": (lambda: parallel(uphill, check_vma=False), False),
    "the first array alone": (lambda: lopsided(0), False),
    "the second array alone": (lambda: lopsided(1), False),
    "the third array alone": (lambda: lopsided(2), False),
    "the last array alone": (lambda: lopsided(-1), False),
    "every device sees the same rows": (lambda: parallel(the_first_rows, parts=(P(), P(), P())), False),
    "each device forgets a row": (lambda: parallel(all_rows_but_the_last, check_vma=False), False),
    "weights in another order": (lambda: spoilt(lambda weights: jnp.flip(weights, -1)), False),
    "hidden units in another order": (lambda: units_swapped, False),
    "weights that are NaN": (lambda: spoilt(lambda weights: weights * jnp.nan), False),
}
assert_equal(
    {name: verdict_on(make) for name, (make, _) in hidden.items()},
    {name: verdict for name, (_, verdict) in hidden.items()},
    name="faithful",
    hints={
        "a sum of gradients": "Only the size of the gradients is wrong: Adam does not show it.",
        "each device keeps its own gradients": "Its loss is right. Compare what the step does to the weights.",
    },
)
### END HIDDEN TESTS
