# %% [markdown]
# # 14 · Train
#
# **A network, a thousand steps, eight devices. How many programs is that?**
#
# You will
#
# - write a training step in Flax as older posts do (linen) and as it is done today (NNX), and see where each forgets;
# - turn a whole run into one trace of one program that owns its memory and waits for nobody;
# - spread it over eight devices without changing a line, and know what "the same result" means then;
# - make a model in pieces, stop a run and go on as if nothing had happened, and compute with half of the bits.
#
# About {duration}, in four stages (about {stage} for the first). You need the cache (unit 05), loops (06), `grad` (08),
# donation (11) and shardings (13). Everything runs on eight virtual devices of your CPU, whatever else the machine has.

# %%
import jax

try:
    jax.config.update("jax_platforms", "cpu")  # the run on eight devices below needs eight, and a CPU can have them
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:
    late = "JAX has already started, with other devices: restart the kernel, then run this cell first"
    raise RuntimeError(late) from None

import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import linen, nnx
from flax.jax_utils import replicate, unreplicate
from flax.training.train_state import TrainState

from autograder import benchmark, show_guess, show_jaxpr, trace_log

print(f"JAX {jax.__version__}, {jax.device_count()} devices")

# %% jupyter={"source_hidden": true}
# Helper: modules for files, times and pictures, and a setting for exact products
import re
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

plt.style.use("autograder.course")
jax.config.update("jax_default_matmul_precision", "highest")  # or an accelerator drops digits of products (unit 10)
assert jax.device_count() == 8

# %% [markdown]
# ## 1. A picture is a function
#
# A picture says for each point `(x, y)` what colour it has: three numbers from 0 to 1, for red, green and blue. So a
# function with two inputs and three outputs can *be* a picture. We will build such a function from many numbers, its
# **parameters**, and change them until it gives the right colour at each pixel of a picture. That is **training**. The
# picture is drawn in place: nothing is downloaded.


# %%
SIDE, BATCH = 64, 512


def pixels(side, reach=1.0):
    """The centres of side x side pixels, in rows from the top. float32[side * side, 2]"""
    t = reach * ((np.arange(side) + 0.5) / side * 2 - 1)
    return np.stack(np.meshgrid(t, -t), axis=-1).reshape(-1, 2).astype(np.float32)


# %% jupyter={"source_hidden": true}
# Helper: the colours of the picture, and how to draw it
def sunset(xy):
    """The colours of the points. float32[n, 3], red, green and blue from 0 to 1"""
    x, y = xy.T
    radius, angle = np.hypot(x - 0.25, y - 0.1), np.arctan2(y - 0.1, x - 0.25)
    colour = np.outer(0.5 - 0.5 * y, [0.95, 0.45, 0.25]) + np.outer(0.5 + 0.5 * y, [0.1, 0.15, 0.45])
    colour[(np.cos(14 * angle) > 0.3) & (radius > 0.46) & (radius < 0.72)] = [0.99, 0.72, 0.3]
    colour[radius < 0.38] = [1.0, 0.9, 0.55]
    colour[y < -0.25 + 0.18 * np.sin(4.1 * x + 1) + 0.05 * np.sin(13 * x)] = [0.35, 0.2, 0.42]
    colour[y < -0.55 + 0.12 * np.sin(3 * x - 0.7) + 0.04 * np.sin(17 * x)] = [0.1, 0.1, 0.2]
    return colour.astype(np.float32)


def frame(ax, colours, title=""):
    """Colours of a square picture, drawn."""
    side = int(len(colours) ** 0.5)
    ax.imshow(np.asarray(colours).reshape(side, side, 3))
    ax.set_title(title, size=10, weight="normal", loc="center", pad=5)
    ax.axis("off")


# %%
xy = pixels(SIDE)
colours = sunset(xy)
print("points:", xy.shape, "  colours:", colours.shape)

# %% jupyter={"source_hidden": true}
# Picture: what is to be learned
fig, ax = plt.subplots(figsize=(2.6, 2.6))
frame(ax, colours, f"{len(xy):,} pixels, {len(xy) // BATCH} batches of {BATCH}")
plt.show()

# %% [markdown]
# A **batch** is the few pixels that one step of training looks at. An **epoch** is one round through all pixels, here
# eight batches. The **loss** is one number that says how wrong the colours are: the mean of the squared errors. A step
# computes the gradient of the loss (unit 08) for one batch, and moves the parameters a little against it. How far is up
# to the **optimiser**: plain gradient descent, called SGD, moves each by the same multiple of its gradient. Adam divides
# by the gradient's usual size, for each parameter apart. The library [Optax](https://optax.readthedocs.io) has both.
#
# ## 2. The network in linen
#
# An old introduction to JAX ends like this: *with `jax.numpy`, `grad`, `pmap` and `jit` we can now write networks
# and train them. But imagine a ResNet or a Transformer in NumPy: possible, and far too complex. With Flax, a library
# of neural networks on JAX, it is easy.* Then come two headings and a link below each: *Flax + JAX*, and *data parallel
# with `pmap`*.
#
# Flax then meant **linen**, and this is how it is written to this day in most posts. A linen module is a description.
# It holds no numbers: `init` makes them, `apply` is given them. `compact` lets a layer be made in the line that uses it.
# `Dense(64)` is `x @ kernel + bias` with 64 columns;
# `relu` puts 0 in place of negative numbers; `sigmoid` squeezes any number into 0 to 1. The network does not see `x` and
# `y` themselves, but **waves** of them (why, you will see in section 5).


# %%
def waves(xy, octaves):
    """Sines and cosines of the coordinates, each octave twice as fast. [n, 2] -> [n, 4 * octaves]; 0: xy itself"""
    if octaves == 0:
        return xy
    angles = (xy[:, :, None] * np.pi * 2.0 ** np.arange(-1, octaves - 1, dtype=np.float32)).reshape(len(xy), -1)
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


class LinenPainter(linen.Module):
    octaves: int = 5

    @linen.compact
    def __call__(self, xy):
        x = linen.relu(linen.Dense(64)(waves(xy, self.octaves)))
        x = linen.relu(linen.Dense(64)(x))
        return linen.sigmoid(linen.Dense(3)(x))


# %%
sgd, adam = optax.sgd(0.5), optax.adam(5e-3)
description = LinenPainter()
variables = description.init(jax.random.key(0), xy[:1])
for path, leaf in jax.tree.leaves_with_path(variables):
    print(f"{jax.tree_util.keystr(path):38} {jax.typeof(leaf)}")

# %% [markdown]
# A plain nested dict of arrays: a pytree, and so everything from the units before applies. The step is a pure function
# from the old state to the new one. `TrainState` is little more than a tuple with names: parameters, Optax's state, a
# counter, and beside them two static things, `apply_fn` and the optimiser `tx`.
# The first runs are with plain SGD; Adam comes soon, and section 10 will say why not yet.


# %%
def linen_loss(params, xy, colours):
    return jnp.mean((description.apply({"params": params}, xy) - colours) ** 2)


@jax.jit
def linen_step(state, xy, colours):
    loss, gradients = jax.value_and_grad(linen_loss)(state.params, xy, colours)
    return state.apply_gradients(grads=gradients), loss


def epoch_of_batches(seed):
    """Every pixel once, in a random order. float32[8, 512, 2], float32[8, 512, 3], on the device"""
    order = np.random.default_rng(seed).permutation(len(xy)).reshape(-1, BATCH)
    return jax.device_put((xy[order], colours[order]))


# %%
batches = epoch_of_batches(0)
state = TrainState.create(apply_fn=description.apply, params=variables["params"], tx=sgd)
linen_losses = []
with trace_log(linen_step) as log:
    for batch in zip(*batches, strict=True):
        state, loss = log.call(linen_step, state, *batch)
        linen_losses.append(loss)
print(f"{len(log.rows)} steps, {log.traces} trace.  Loss {linen_losses[0]:.4f} -> {linen_losses[-1]:.4f}")

# %% jupyter={"source_hidden": true}
# Proof
# One trace for the epoch, and the loss falls.
assert log.traces == 1 and linen_losses[-1] < linen_losses[0]

# %% [markdown]
# ## 3. The same network in NNX
#
# [NNX](https://flax.readthedocs.io/en/latest/nnx_basics.html) is the Flax of today. A module is an ordinary Python object
# that *holds* its numbers: made when it is made, read and written like attributes. No `init`, no `apply`, no dict to
# hand around. Each array sits in an `nnx.Variable`, which `[...]` reads and writes, as a ref of unit 11. Those of a layer
# are of the type `nnx.Param`: an `nnx.Optimizer(..., wrt=nnx.Param)` (*with respect to*) trains these and no others.
# (`nnx.Linear` is linen's `Dense`, and `nnx.Rngs(0)` deals out random keys. `dtypes` is for section 13.)


# %%
class Painter(nnx.Module):
    def __init__(self, rngs, octaves=5, **dtypes):
        self.octaves = octaves
        self.first = nnx.Linear(4 * octaves or 2, 64, rngs=rngs, **dtypes)
        self.second = nnx.Linear(64, 64, rngs=rngs, **dtypes)
        self.last = nnx.Linear(64, 3, rngs=rngs, **dtypes)

    def __call__(self, xy):
        x = nnx.relu(self.first(waves(xy, self.octaves)))
        x = nnx.relu(self.second(x))
        return nnx.sigmoid(self.last(x))


# %%
def loss_fn(model, xy, colours):
    return jnp.mean((model(xy) - colours) ** 2)


def step_in_place(model, optimizer, xy, colours):
    loss, gradients = nnx.value_and_grad(loss_fn)(model, xy, colours)
    optimizer.update(model, gradients)
    return loss


train_in_place = nnx.jit(step_in_place)


# %% [markdown]
# It reads as if it changed `model`, and it does. But nothing new was invented below: `nnx.split` takes any module apart
# into what you know. A **graphdef** (which classes, which names, which settings: hashable, part of the cache key) and a
# **state** (a pytree of arrays: traced). `nnx.merge` puts them together again. Do two models from different seeds have
# the same graphdef?

# %%
guess = None  # True or False

# %%
model = Painter(nnx.Rngs(0))
graphdef, arrays = nnx.split(model)
another, _ = nnx.split(Painter(nnx.Rngs(1)))
for path, leaf in nnx.to_flat_state(arrays):
    print(f"{'.'.join(path):14} {type(leaf).__name__}  {jax.typeof(leaf[...])}")
show_guess(guess, graphdef == another and hash(graphdef) == hash(another))

# %% [markdown]
# What a seed decides stands in the state; the description is made of classes, names and settings. (What is equal there
# shares its traces, unit 05.) Porting from linen is then a matter of names. Copy linen's numbers, train on the same
# batches, and the two must agree.


# %%
def port(params):
    """An NNX Painter with the numbers of a LinenPainter."""
    model = Painter(nnx.Rngs(0))
    for layer, name in ((model.first, "Dense_0"), (model.second, "Dense_1"), (model.last, "Dense_2")):
        layer.kernel[...] = params[name]["kernel"]
        layer.bias[...] = params[name]["bias"]
    return model


model = port(variables["params"])
optimizer = nnx.Optimizer(model, sgd, wrt=nnx.Param)
nnx_losses = [train_in_place(model, optimizer, *batch) for batch in zip(*batches, strict=True)]
apart = max(abs(float(a - b)) for a, b in zip(linen_losses, nnx_losses, strict=True))
print(f"after 8 steps: linen {linen_losses[-1]:.6f}, NNX {nnx_losses[-1]:.6f}; at most {apart:.0e} apart on the way")

# %% jupyter={"source_hidden": true}
# Proof
# Before the first step the outputs agree, and on the way the losses do.
outputs = jax.jit(lambda model: (model(xy), description.apply(variables, xy)))(port(variables["params"]))
np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)
assert apart < 1e-5

# %% [markdown]
# ## 4. nnx.jit or jax.jit?
#
# `nnx.jit` and `jax.jit` are easily exchanged: modules are pytrees, so `jax.jit` takes them, too. The same function
# under both, from the same start, ten steps on the same batch. Under `nnx.jit` the loss falls. And under `jax.jit`?

# %%
guess = None  # your number: the tenth loss over the first, under jax.jit

# %%
ten_losses = {}
for name, step in (("nnx.jit", train_in_place), ("jax.jit", jax.jit(step_in_place))):
    model = Painter(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, sgd, wrt=nnx.Param)
    ten_losses[name] = [float(step(model, optimizer, batches[0][0], batches[1][0])) for _ in range(10)]
    print(name, *(f"{loss:.4f}" for loss in ten_losses[name]))
show_guess(guess, ten_losses["jax.jit"][-1] / ten_losses["jax.jit"][0])

# %% jupyter={"source_hidden": true}
# Proof
# Under jax.jit all ten losses are one number.
assert len(set(ten_losses["jax.jit"])) == 1 and ten_losses["nnx.jit"][-1] < ten_losses["nnx.jit"][0]

# %% [markdown]
# Under `jax.jit` the function works on a copy made of tracers; the copy is changed, and thrown away: no error, no warning,
# no learning. Unit 03 has the rule: **what has changed goes out as a result**. `nnx.jit` carries the changes out and
# writes them back into your object. With `jax.jit`, what has changed must be *returned*:


# %%
@jax.jit
def train_step(model, optimizer, xy, colours):
    loss, gradients = nnx.value_and_grad(loss_fn)(model, xy, colours)
    optimizer.update(model, gradients)
    return model, optimizer, loss


def fresh(optimiser=adam, seed=0, octaves=5, **dtypes):
    """A new model and its optimizer."""
    model = Painter(nnx.Rngs(seed), octaves, **dtypes)
    return model, nnx.Optimizer(model, optimiser, wrt=nnx.Param)


# %%
model, optimizer = fresh(sgd)
few = batches[0][0][:8], batches[1][0][:8]  # so little work that you see the price of a call
calls = {
    "nnx.jit, in place": benchmark(train_in_place, model, optimizer, *few),
    "jax.jit, modules in and out": benchmark(train_step, model, optimizer, *few),
}
price = {name: min(timing.rounds) for name, timing in calls.items()}
for name, seconds in price.items():
    print(f"{name:28} {1e6 * seconds:5.0f} us a call")
print(f"ratio: {price['nnx.jit, in place'] / price['jax.jit, modules in and out']:.1f}x")

# %% [markdown]
# Both are right. `nnx.jit` walks through your objects in Python, at every call, to find what may have changed. That
# takes time, which matters when a step is short. From here on we return what we change: it is also what `scan` and
# donation want.

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 4, about {stage}: a thousand steps as one program.*

# %% [markdown]
# ## 5. One trace for the whole run
#
# What makes a training step trace again? By now you can say it before you run it. Three epochs, in four ways. (An Optax
# optimiser is a pair of Python functions, and the `nnx.Optimizer` holds them. A *schedule* computes the step size from the
# step counter. A trace needs types, and no numbers: `eval_shape` goes through the same cache and computes nothing.)


# %%
def three_epochs(cut, optimiser_for):
    """Traces of a step in three epochs; `cut` is the number of pixels in a batch."""
    model, optimizer = fresh()
    train_step.clear_cache()
    with trace_log(train_step) as log:
        for epoch in range(3):
            optimizer = nnx.Optimizer(model, optimiser_for(epoch), wrt=nnx.Param)
            for start in range(0, 1024, cut):
                batch = xy[start:1024][:cut], colours[start:1024][:cut]
                model, optimizer, _ = jax.eval_shape(train_step, model, optimizer, *batch)
    return log.traces


schedule = optax.adam(optax.exponential_decay(5e-3, 8, 0.5))
WAYS = {
    "1,024 pixels, 512 at a time": (512, lambda epoch: adam),
    "1,024 pixels, 600 at a time": (600, lambda epoch: adam),
    "`optax.adam(5e-3 / 2**epoch)` in each epoch": (512, lambda epoch: optax.adam(5e-3 / 2**epoch)),
    "`optax.adam(schedule)`, made once": (512, lambda epoch: schedule),
}

# %%
guess = None  # your number: how many traces do the four ways need together?

# %%
ways = {name: three_epochs(*how) for name, how in WAYS.items()}
show_guess(guess, sum(ways.values()), "traces")

# %% jupyter={"source_hidden": true}
# Table: traces of each way
display(Markdown("\n".join(["| | traces |", "|---|---|", *(f"| {name} | {n} |" for name, n in ways.items())])))

# %% jupyter={"source_hidden": true}
# Proof
# A smaller last batch costs one trace, a new optimiser one each.
assert list(ways.values()) == [1, 2, 3, 1]

# %% [markdown]
# - The last batch is smaller, and a shape is part of the key. Drop it, or pad it (how, without cheating the mean, is a
#   task in the exercise).
# - The optimiser's functions belong to the description, as a static value does, and a new `optax.adam` makes new ones.
#   Make it once. A step size that changes goes into a schedule, which runs inside the program.
#
# One trace is good. But Python still calls the step a thousand times. A whole epoch is a `scan` of the step, and the
# state that comes out can live in the memory of the one that went in (`donate_argnums`):


# %%
def epoch(model, optimizer, xy, colours):
    """A step for each batch. xy: float32[batches, n, 2]; colours: float32[batches, n, 3]. Returns the losses too."""

    def body(carry, batch):
        *carry, loss = train_step.__wrapped__(*carry, *batch)
        return tuple(carry), loss

    (model, optimizer), losses = jax.lax.scan(body, (model, optimizer), (xy, colours))
    return model, optimizer, losses


train_epoch = jax.jit(epoch, donate_argnums=(0, 1))
paint = jax.jit(lambda model, xy: model(xy))

# %% [markdown]
# (`train_step.__wrapped__` is the function under the `jit`.) Now a thousand steps, 125 epochs, once from the bare `x`
# and `y` and once from five octaves of waves. Count what is compiled for the training itself: forward pass, backward
# pass, Adam and the loop.

# %%
guess = None  # your number: how many programs does XLA build for the two runs together?

# %%
EPOCHS, SHOWN = 125, (0, 1, 6, 25, 125)
film, programs, traces = {}, {}, {}
for octaves in (0, 5):
    model, optimizer = fresh(octaves=octaves)
    with trace_log(train_epoch) as log:
        for number in range(EPOCHS + 1):
            if number in SHOWN:
                film[octaves, 8 * number] = np.asarray(paint(model, xy))
            if number < EPOCHS:
                model, optimizer, losses = train_epoch(model, optimizer, *epoch_of_batches(number))
    programs[octaves], traces[octaves] = [name for name in log.modules if "epoch" in name], log.traces
learned, its_optimizer = model, optimizer
print("programs for the training:", programs, " traces:", traces)
show_guess(guess, sum(map(len, programs.values())), "programs")


# %% jupyter={"source_hidden": true}
# Picture: what the two networks paint, after 0 to 1,000 steps
def decibel(guessed):
    """Peak signal to noise: 10 more is a tenth of the squared error."""
    return -10 * np.log10(np.mean((guessed - colours) ** 2))


fig, axes = plt.subplots(2, 5, figsize=(9, 4.1))
for row, octaves in zip(axes, (0, 5), strict=True):
    for ax, number in zip(row, SHOWN, strict=True):
        image = film[octaves, 8 * number]
        frame(ax, image, f"step {8 * number:,}: {decibel(image):.1f} dB")
axes[0, 0].text(-8, 32, "x and y", rotation=90, va="center", ha="right")
axes[1, 0].text(-8, 32, "5 octaves of waves", rotation=90, va="center", ha="right")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# One program and one trace for each network; with waves the picture is better by more than 5 dB.
assert list(programs.values()) == [["jit(epoch)"]] * 2 and list(traces.values()) == [1, 1]
final = {octaves: decibel(film[octaves, 1000]) for octaves in (0, 5)}
assert final[5] > final[0] + 5

# %% [markdown]
# Each network has its own, so for one run it is **one program**. That answers our question, but for the eight devices.
# (dB, decibel, measure the error: 10 dB more is a tenth of the squared error.)
#
# The two networks have the same layers. The lower one is only told the coordinates differently: as sines and cosines of
# five frequencies. A network of `relu`s learns slow changes first and sharp edges very late; from waves it can build
# edges at once.
#
# ## 6. Who owns the memory
#
# Adam keeps two numbers beside each parameter. An epoch takes model and optimiser in, and gives new ones out. Unless the
# old ones were donated, both are there when it has finished.

# %%
guess = None  # your number: without donation, how many times the size of the model is that together?

# %%
model, optimizer = fresh()
state_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves((model, optimizer)))
model_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(model))
one_epoch = {
    name: jax.jit(epoch, donate_argnums=donated).lower(model, optimizer, *batches).compile()
    for name, donated in (("kept", ()), ("donated", (0, 1)))
}
memory = {name: program.memory_analysis() for name, program in one_epoch.items()}
new = {name: m.output_size_in_bytes - m.alias_size_in_bytes for name, m in memory.items()}  # unit 11
show_guess(guess, round((state_bytes + new["kept"]) / model_bytes, 1), "x")

# %% jupyter={"source_hidden": true}
# Picture: the state that comes in, and new memory for what goes out
fig, ax = plt.subplots(figsize=(7.5, 1.9))
for y, name in enumerate(memory):
    parts = (("state that came in", state_bytes, "C0"), ("new memory for what goes out", new[name], "C1"))
    left = 0
    for label, size, colour in parts:
        ax.barh(y, size / model_bytes, left=left, color=colour, label=label if y == 0 else None)
        left += size / model_bytes
ax.set(yticks=range(2), yticklabels=memory, xlabel="times the size of the model", xlim=(0, 6.6))
ax.invert_yaxis()
ax.grid(axis="y", visible=False)
ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.32), ncols=2)
plt.show()

# %%
addresses = {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((model, optimizer))}
trained, optimizer, _ = train_epoch(model, optimizer, *batches)
stayed = sum(leaf.unsafe_buffer_pointer() in addresses for leaf in jax.tree.leaves((trained, optimizer)))
print(f"{stayed} of {len(addresses)} arrays stayed where they were")
try:
    jax.device_get(model)
except RuntimeError as error:
    print(f"the old model: {str(error).split('.')[0]}")

# %% jupyter={"source_hidden": true}
# Proof
# Nothing is shared without donation, everything with it.
assert memory["kept"].alias_size_in_bytes == 0 and memory["donated"].alias_size_in_bytes == state_bytes
assert stayed == len(addresses)

# %% [markdown]
# The price: the old model is gone. Want a picture of it, a copy for later, a moving average? Take it *before* the call,
# and take a real copy. `nnx.clone` is none: it makes a new object around the same arrays, and they are given away.

# %%
model, optimizer = fresh()
clone, copied = nnx.clone(model), jax.tree.map(jnp.copy, model)
train_epoch(model, optimizer, *batches)
deleted = [any(leaf.is_deleted() for leaf in jax.tree.leaves(kept)) for kept in (clone, copied)]
print("deleted with the donated model: the clone {}, the copy {}".format(*deleted))

# %% jupyter={"source_hidden": true}
# Proof
# The clone is lost, the copy is not.
assert deleted == [True, False]

# %% [markdown]
# ## 7. Who waits for whom
#
# JAX returns before the work is done (unit 01), so Python can be many steps ahead. Unless it asks. Fifteen larger steps,
# twice: once with `float(loss)` after each, as for a print; once the losses are kept, and read at the end.


# %%
def fifteen_steps(ask):
    """(seconds after each call, seconds until all is ready, seconds spent in `ask`)"""
    model, optimizer, loss = train_step(*fresh(), *large)
    jax.block_until_ready(loss)
    kept, moments, blocked, start = [], [0.0], 0.0, time.perf_counter()
    for _ in range(15):
        model, optimizer, loss = train_step(model, optimizer, *large)
        kept.append(loss)
        asked = time.perf_counter()
        ask(loss)
        blocked += time.perf_counter() - asked
        moments.append(time.perf_counter() - start)
    jax.block_until_ready(kept)
    return moments, time.perf_counter() - start, blocked


# %%
guess = None  # your number: percent of its time that Python spends waiting, if it reads the loss after each step

# %%
many = np.tile(np.arange(len(xy)), 2)
large = jax.device_put((xy[many], colours[many]))  # steps long enough to be seen
asking = {"float(loss) after each step": float, "the losses are kept, and read at the end": lambda loss: None}
runs = {name: fifteen_steps(ask) for name, ask in asking.items()}
waited = {name: 100 * blocked / moments[-1] for name, (moments, _, blocked) in runs.items()}
show_guess(guess, round(max(waited.values())), "%")

# %% jupyter={"source_hidden": true}
# Picture: how far Python is, and when the results are there
fig, ax = plt.subplots(figsize=(8, 3))
for y, (name, (moments, ready, _)) in enumerate(runs.items()):
    ax.plot(1e3 * np.array(moments), range(16), color=f"C{1 - y}", label=name)
    ax.plot(1e3 * ready, 15, "o", color=f"C{1 - y}")
ax.set(xlabel="milliseconds (the dot: all 15 results are there)", ylabel="steps that Python has called", ylim=(0, 16))
ax.legend(loc="lower right")
plt.show()

# %% [markdown]
# The dots are not so far apart: on a CPU the cores do the work either way. What is lost is Python. Waiting, it cannot
# cut the next batch, and an accelerator then idles until Python comes back with another step.
#
# `float(loss)`, `if loss < best`, `print(loss)`, `np.asarray(loss)`, `loss.item()`: each is a **hidden sync** (for
# *synchronisation*: Python stands still until the device has finished). On an accelerator it also copies the number from
# the device's memory to the host's, a *transfer*. Against transfers that nobody asked for there is the
# [transfer guard](https://docs.jax.dev/en/latest/transfer_guard.html). Ask it about some, in both directions:

# %%
waves_of = jax.jit(lambda xy: waves(xy, 5))
on_device, on_host = batches[0][0], np.asarray(batches[0][0])
waves_of(on_device)
TO_DEVICE, TO_HOST = jax.transfer_guard_host_to_device, jax.transfer_guard_device_to_host
GUARDED = {
    "a NumPy batch into a jitted step": (TO_DEVICE, lambda: waves_of(on_host)),
    "a batch on the device": (TO_DEVICE, lambda: waves_of(on_device)),
    "`jax.device_put(batch)`": (TO_DEVICE, lambda: waves_of(jax.device_put(on_host))),
    "`float(loss)`": (TO_HOST, lambda: float(loss)),
}

# %%
guess = None  # your number: how many of the four does the guard stop?


# %%
def guarded(guard, action):
    """What `action` does when transfers that nobody asked for are forbidden."""
    with guard("disallow"):
        try:
            action()
        except Exception as error:
            return f"**stopped**: {str(error).split(': ')[1]}"
    return "passes"


verdicts = {name: guarded(*case) for name, case in GUARDED.items()}
show_guess(guess, sum(verdict != "passes" for verdict in verdicts.values()), "stopped")

# %% jupyter={"source_hidden": true}
# Table: what the guard says
rows = [f"| {name} | {verdict} |" for name, verdict in verdicts.items()]
display(Markdown("\n".join(["| | with the guard on |", "|---|---|", *rows])))

# %% jupyter={"source_hidden": true}
# Proof
# Only the hidden upload is stopped.
assert [verdict == "passes" for verdict in verdicts.values()] == [False, True, True, True]

# %% [markdown]
# It finds the upload, and `device_put` says "I mean it". **It does not find `float(loss)`**, not here: the memory of a
# CPU device *is* the host's memory, so nothing is transferred. The waiting is real all the same. On a GPU the last line
# is stopped as well. Do not trust a guard that was silent on a laptop.
#
# A trace is the better guard, and it works everywhere. Inside `scan` there is no loss to wait for:


# %%
def chatty(carry, batch):
    model, optimizer, loss = train_step.__wrapped__(*carry, *batch)
    print(f"loss {float(loss)}")
    return (model, optimizer), loss


try:
    jax.eval_shape(lambda *carry: jax.lax.scan(chatty, carry, batches), *fresh())
except jax.errors.ConcretizationTypeError as error:
    refused = type(error).__name__
print("a sync inside the epoch:", refused)

# %% [markdown]
# If the epoch traces, it is free of hidden syncs. The losses come out as one array; read it an epoch later.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 4, about {stage}: eight devices, and what "the same result" means.*

# %% [markdown]
# ## 8. Eight devices: as posts write it
#
# *Data parallel*: every device holds the whole state and gets an eighth of each batch. Each computes a gradient, they
# take the mean, and all make the same step. With `pmap`, three things are added to the step: a name for the axis of
# devices, `pmean`, and a leading axis of eight on everything, state included.


# %%
def parallel_step(state, xy, colours):
    loss, gradients = jax.value_and_grad(linen_loss)(state.params, xy, colours)
    gradients, loss = jax.lax.pmean((gradients, loss), axis_name="devices")
    return state.apply_gradients(grads=gradients), loss


pmapped = jax.pmap(parallel_step, axis_name="devices")
state = TrainState.create(apply_fn=description.apply, params=jax.device_get(variables["params"]), tx=sgd)
state = replicate(state)
before, pmap_losses = state.params["Dense_0"]["kernel"], []

# %%
guess = None  # your number: how many traces in eight steps of the same shapes?

# %%
with trace_log(parallel_step) as log:
    for batch in zip(*jax.device_get(batches), strict=True):
        batch = [array.reshape(8, -1, array.shape[-1]) for array in batch]
        state, loss = pmapped(state, *batch)
        pmap_losses.append(float(loss[0]))  # waits, on purpose: see the box below
apart = max(abs(float(a) - b) for a, b in zip(linen_losses, pmap_losses, strict=True))
kernel, one = (s.params["Dense_0"]["kernel"] for s in (state, unreplicate(state)))
print(f"losses at most {apart:.0e} from those on one device")
print(f"Dense_0 kernel: {jax.typeof(kernel)}, {kernel.nbytes // one.nbytes} copies; unreplicate takes one: {one.shape}")
print(f"the axis of the state: {before.sharding.spec} at first, then {kernel.sharding.spec}")
show_guess(guess, log.traces, "traces")

# %% jupyter={"source_hidden": true}
# Proof
# The losses are those of one device; two traces.
assert apart < 1e-5 and kernel.shape == (8, *one.shape) and log.traces == 2

# %% [markdown]
# The recipe works today, on both versions that the course is tested with. (On a real TPU, as in the post, you would not
# wait in each step.) But it traces **twice**: today `pmap` is built on shardings, and how an argument lies on the
# devices belongs to its type. Flax's `replicate` puts the copies along an axis with a name of its own; what comes back
# from `pmap` lies along `pmap`'s.
#
# > **Why the loop waits.** On the virtual devices of a CPU, JAX 0.10 can lock up if a hundred steps with a collective
# > are under way at once: each waits for partners that have no thread to run on, until the process is aborted. So a
# > loop over devices waits now and then, or the loop is a `scan`: one program cannot overtake itself. JAX 0.12 did not
# > show it.
#
# ## 9. Eight devices, today
#
# Unit 13: a [sharding](https://docs.jax.dev/en/latest/201/sharding.html) says who holds what, and `jit` does the rest.
# The state goes to everybody, of each batch an eighth to each. `train_epoch` is the function from section 5. Not a letter
# is changed.

# %%
mesh = jax.make_mesh((8,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
everywhere = jax.NamedSharding(mesh, jax.P())
split = jax.NamedSharding(mesh, jax.P(None, "batch"))  # [batches, pixels, 2 or 3]: the pixels are split

model, optimizer = jax.device_put(fresh(), everywhere)
spread = jax.device_put(jax.device_get(batches), split)

# %% jupyter={"source_hidden": true}
# Picture: what each device sees of an epoch
fig, axes = plt.subplots(1, 8, figsize=(9, 1.5))
for ax, points, shades in zip(axes, spread[0].addressable_shards, spread[1].addressable_shards, strict=True):
    column, row = ((np.asarray(points.data).reshape(-1, 2).T * [[1], [-1]] + 1) * SIDE / 2).astype(int)
    seen = np.full((SIDE, SIDE, 3), 0.65)
    seen[row, column] = np.asarray(shades.data).reshape(-1, 3)
    frame(ax, seen.reshape(-1, 3), f"device {points.device.id}")
fig.suptitle("What each device sees of an epoch", x=0.5, y=1.12, size=12, weight="bold")
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# Each device holds an eighth of the batch and all of the state.
assert spread[0].sharding.shard_shape(spread[0].shape) == (8, 64, 2)
assert all(leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves((model, optimizer)))

# %% [markdown]
# XLA sees that each device has other pixels, and that the state must be the same everywhere afterwards. So it puts the
# communication in by itself. There are six arrays of gradients (a kernel and a bias in each of three layers) and the
# loss, and each is a mean over pixels that lie on eight devices.

# %%
guess = None  # your number: how many collectives (unit 13) does a step have?

# %%
with trace_log(train_epoch) as log:
    program = train_epoch.lower(model, optimizer, *spread).compile().as_text()  # a step stands in it once, in a loop
    for _ in range(3):
        model, optimizer, losses = train_epoch(model, optimizer, *spread)
        jax.block_until_ready(losses)
collectives = Counter(re.findall(r" (all-\w+|reduce-scatter|collective-permute)(?:-start)?\(", program))
print("collectives in a step:", dict(collectives))
print(f"{len(losses)} steps in an epoch, traces in three epochs: {log.traces}")
show_guess(guess, collectives.total(), "in a step")

# %% jupyter={"source_hidden": true}
# Proof
# They are all sums, and there is one trace.
assert collectives.total() == collectives["all-reduce"] >= 1 and log.traces == 1

# %% [markdown]
# XLA has put all of them into one sum over the devices, as in the `pmap` recipe. And one trace, because the state was
# placed *before* the first call. Left on one device it would come back as a copy on each of the eight: another type, and one more
# trace in the second epoch.
#
# ## 10. Eight devices, one answer?
#
# Is the result the same? Not to the bit: a mean over 512 pixels has become a mean of eight means. The measure for that
# is a control: one device, with the pixels *within* each batch in another order. As a warning, the bug from unit 13:
# the `pmap` recipe, `pmean` of the gradients, carried over into `shard_map`. There the gradient of replicated
# parameters is summed already, so it comes out exactly eight times too large. One run proves little, so each is made
# three times, with the pixels dealt into other batches.


# %%
def carried_over(model, xy, colours):
    loss, gradients = nnx.value_and_grad(loss_fn)(model, xy, colours)
    return jax.lax.pmean(loss, "batch"), jax.lax.pmean(gradients, "batch")


per_device = (jax.P(), jax.P("batch"), jax.P("batch"))
recipe = jax.shard_map(carried_over, mesh=mesh, in_specs=per_device, out_specs=(jax.P(), jax.P()))


def recipe_epoch(model, optimizer, xy, colours):
    def body(carry, batch):
        model, optimizer = carry
        loss, gradients = recipe(model, *batch)
        optimizer.update(model, gradients)
        return (model, optimizer), loss

    (model, optimizer), losses = jax.lax.scan(body, (model, optimizer), (xy, colours))
    return model, optimizer, losses


# %% jupyter={"source_hidden": true}
# Helper: the weights and losses of a run, from the same start
AGAIN = 6


def course_of(run, batches, place=None, order=slice(None)):
    """(weights after each epoch, losses of each epoch) of Adam, from the same start on these batches."""
    (model, optimizer), data = fresh(), [np.asarray(array)[:, order] for array in batches]
    if place is None:
        data = jax.device_put(data)
    else:
        model, optimizer, data = *jax.device_put((model, optimizer), place), jax.device_put(data, split)
    weights, course = [], []
    for _ in range(AGAIN):
        model, optimizer, losses = run(model, optimizer, *data)
        course.append(np.asarray(losses))
        weights.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model)]))
    return np.array(weights), np.array(course)


# %%
guess = None  # your number: with Adam and gradients 8 times too large, the last loss over the right one

# %%
broken_epoch, shuffled = jax.jit(recipe_epoch), np.random.default_rng(1).permutation(BATCH)
differences = {"8x gradient": [], "eight devices": [], "one device, other order": []}
for seed in (2, 1, 0):
    dealt = epoch_of_batches(seed)
    one, loss_one = course_of(train_epoch, dealt)
    eight, _ = course_of(train_epoch, dealt, everywhere)
    control, _ = course_of(train_epoch, dealt, order=shuffled)
    broken, loss_broken = course_of(broken_epoch, dealt, everywhere)
    for runs, weights in zip(differences.values(), (broken, eight, control), strict=True):
        runs.append(np.abs(weights - one).max(axis=1))
forgiven = loss_broken[-1].mean() / loss_one[-1].mean()
show_guess(guess, float(forgiven), "x")

# %% jupyter={"source_hidden": true}
# Picture: the largest difference of a weight, and the loss
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
numbers = np.arange(1, AGAIN + 1)
for (name, runs), colour in zip(differences.items(), ("C1", "C0", "#888888"), strict=True):
    for course in runs:
        axes[0].semilogy(numbers, course, color=colour, label=name if course is runs[0] else None, lw=1.2)
axes[0].set(title="Largest difference of a weight", ylim=(1e-8, 100))
axes[0].legend(loc="upper left")
axes[1].plot(numbers, loss_one.mean(axis=1), "C0", label="one device")
axes[1].plot(numbers, loss_broken.mean(axis=1), "C1--", label="8x gradient")
axes[1].set(title="Loss, with Adam", ylim=0)
axes[1].legend()
for ax in axes:
    ax.set(xticks=range(0, AGAIN + 1, 2), xlabel="epoch")
plt.show()

# %% jupyter={"source_hidden": true}
# Table: the same differences, from the smallest to the largest of three runs
rows = [f"| {name} |" for name in differences]
for when in (0, -1):
    ends = ((min(run[when] for run in runs), max(run[when] for run in runs)) for runs in differences.values())
    rows = [f"{row} {low:.0e} to {high:.0e} |" for row, (low, high) in zip(rows, ends, strict=True)]
grown = [run[-1] > 10 * run[0] for name in ("eight devices", "one device, other order") for run in differences[name]]
here = f"\nOn this machine the roundings of {sum(grown)} of the {len(grown)} right runs grew more than tenfold."
display(Markdown("\n".join([f"| | after 1 epoch | after {AGAIN} |", "|---|---|---|", *rows, here])))

# %% jupyter={"source_hidden": true}
# Proof
# After one epoch the bug is 30 times as far off as devices and order, in each of the three runs; its loss is right.
bug, devices, order = differences.values()
assert all(30 * max(d[0], o[0]) < b[0] for b, d, o in zip(bug, devices, order, strict=True)) and 0.7 < forgiven < 1.4

# %% [markdown]
# Left: **after one epoch**, in each of the three, both the eight devices and the other order are off by roundings alone,
# less than a thirtieth of the bug. *That* is what "the same" can mean, and when to ask. Later it can be too late: training
# can make the roundings grow, until two right runs are as far apart as a right and a wrong one. Whether it does hangs on
# the processor and on how the pixels were dealt; the line below the table says what happened here.
#
# Right: Adam divides each gradient by its own usual size, so a factor of eight cancels, and **the loss curve of the
# broken run looks perfect**. SGD forgives nothing: there the bug is a step eight times as long, and one is enough to see
# it.

# %%
step_with = {"jit": jax.jit(nnx.grad(loss_fn)), "the recipe": jax.jit(lambda *arguments: recipe(*arguments)[1])}
model, first_batch = fresh(sgd)[0], [np.asarray(array)[0] for array in batches]
moved = {
    name: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient(model, *first_batch))])
    for name, gradient in step_with.items()
}
ratio = np.linalg.norm(moved["the recipe"]) / np.linalg.norm(moved["jit"])
print(f"how far a step of SGD goes, the recipe's over the right one: {ratio:.4f}x")

# %% jupyter={"source_hidden": true}
# Proof
# Eight times as far.
assert abs(ratio - 8) < 1e-3

# %% [markdown]
# Never test a parallel step by its loss under Adam. Compare gradients, or one step of SGD, with a single device.
#
# ## 11. Born in pieces
#
# A state on every device is fine while it fits. When it does not, each device must hold a piece of it. Here is a large
# layer, and its Adam state. Each array is cut along its last axis, if that can be cut in eight:


# %%
def make():
    model = nnx.Linear(1024, 2048, rngs=nnx.Rngs(0))
    return model, nnx.Optimizer(model, adam, wrt=nnx.Param)


def in_pieces(leaf):
    """Where an array of these dimensions goes: its last axis cut in eight, or the whole array to everybody."""
    fits = leaf.ndim and leaf.shape[-1] % 8 == 0
    return jax.NamedSharding(mesh, jax.P(*[None] * (leaf.ndim - 1), "batch") if fits else jax.P())


places = jax.tree.map(in_pieces, jax.eval_shape(make))  # a sharding for each array; nothing is computed

# %% [markdown]
# `jax.eval_shape` (unit 12) says which arrays there will be. The obvious next line makes them, and `device_put` cuts them
# up. The other way: `jit` the function that makes them, and say in `out_shardings` where its results belong. How much
# does the *first* device hold in the first way, when the pieces have just been cut?


# %%
def held_by(device, *trees):
    """Bytes of these arrays that lie on one device."""
    shards = [shard for leaf in jax.tree.leaves(trees) for shard in leaf.addressable_shards]
    return sum(shard.data.nbytes for shard in shards if shard.device == device)


first = jax.devices()[0]
makers = {"whole, then cut": jax.jit(make), "in pieces": jax.jit(make, out_shardings=places)}
compiled = {name: maker.lower().compile() for name, maker in makers.items()}

# %%
guess = None  # your number: how many times more than in the second way does the first device hold?

# %%
whole, born = (program() for program in compiled.values())
cut = jax.device_put(whole, places)
holds = {"whole, then cut": held_by(first, whole, cut), "in pieces": held_by(first, born)}
show_guess(guess, round(holds["whole, then cut"] / holds["in pieces"], 1), "x")

# %% jupyter={"source_hidden": true}
# Table: megabytes on the first device, of the arrays, and of the program while it makes them
rows = ["| MB on the first device | held | the program's output | its scratch space |", "|---|--:|--:|--:|"]
for name, program in compiled.items():
    analysis = program.memory_analysis()
    sizes = holds[name], analysis.output_size_in_bytes, analysis.temp_size_in_bytes
    rows.append(f"| {name} | " + " | ".join(f"{size / 1e6:.1f}" for size in sizes) + " |")
display(Markdown("\n".join(rows)))

# %% jupyter={"source_hidden": true}
# Proof
# The pieces are an eighth, the same on all devices; and both ways make the same numbers, to the bit.
everybody = [held_by(device, born) for device in jax.devices()]
assert len(set(everybody)) == 1 and 7.9 < held_by(first, whole) / everybody[0] <= 8
assert 8.8 < holds["whole, then cut"] / holds["in pieces"] <= 9
sizes = [program.memory_analysis() for program in compiled.values()]
assert 7.9 < sizes[0].output_size_in_bytes / sizes[1].output_size_in_bytes < 8.1
assert sizes[0].temp_size_in_bytes > 7 * sizes[1].temp_size_in_bytes
for one, other, third in zip(*map(jax.tree.leaves, (whole, cut, born)), strict=True):
    np.testing.assert_array_equal(one, third)
    assert other.sharding.is_equivalent_to(third.sharding, third.ndim)
del whole, cut, born

# %% [markdown]
# In the first way it holds the whole state, and an eighth of it again: nine times as much. While the programs run they need scratch space as well; the memory
# analysis (unit 11) is of one device's share, and there the ratio is about eight. In the second way a model never exists
# whole, not even for a moment. The numbers are the same to the bit, although each device drew only its own: a random
# number of JAX is a function of the key and of its place in the array, not of what was drawn before.
#
# Flax can also write the place beside each parameter. Then there is no table of shardings: a module that is made under a
# mesh comes in pieces ([Flax on sharding](https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html)).

# %%
by_columns = nnx.with_partitioning(nnx.initializers.lecun_normal(), (None, "batch"))
with jax.set_mesh(mesh):
    annotated = jax.jit(lambda: nnx.Linear(1024, 1024, kernel_init=by_columns, rngs=nnx.Rngs(0)))()
kernel = annotated.kernel[...]
print(f"{jax.typeof(kernel)}: {kernel.nbytes:,} bytes, {held_by(first, kernel):,} of them on the first device")

# %% jupyter={"source_hidden": true}
# Proof
# An eighth.
assert 8 * held_by(first, kernel) == kernel.nbytes

# %% [markdown]
# ---
# *A good place to stop. Stage 4 of 4, about {stage}: runs that are interrupted, and half of the bits.*

# %% [markdown]
# ## 12. Stop, and go on
#
# Runs of days are interrupted. What must be written down so that a run can go on *as if nothing had happened*? Everything
# that one step hands to the next: the parameters, Adam's numbers, its step counter, and where the random numbers are.
# In our runs the pixels are dealt anew for each epoch, so the random key is part of the state.


# %%
def deal(key):
    """Every pixel once, in an order that depends on the key; the pixels of a batch split over the devices."""
    order = np.asarray(jax.random.permutation(key, len(xy))).reshape(-1, BATCH)
    return jax.device_put((xy[order], colours[order]), split)


def go_on(run, state, epochs):
    """(the state after so many more epochs, the losses of their steps)"""
    (model, optimizer), key, course = nnx.merge(structure, state["arrays"]), state["key"], []
    for _ in range(epochs):
        key, now = jax.random.split(key)
        model, optimizer, losses = run(model, optimizer, *deal(now))
        course.append(np.asarray(losses))
    return {"arrays": nnx.state((model, optimizer)), "key": key}, np.concatenate(course)


# %% [markdown]
# We take the network of section 5, after its thousand steps, and cut model and optimiser in pieces, as in section 11. With
# `out_shardings` they also come back in these pieces, or XLA would choose. Four more epochs, save, and four more: that
# is the uninterrupted run.

# %%
places = jax.tree.map(in_pieces, jax.eval_shape(fresh))
piecewise = jax.jit(epoch, out_shardings=(*places, everywhere))  # not donated: we want to look at the old states
structure, arrays = nnx.split(jax.device_put(jax.device_get((learned, its_optimizer)), places))
start = {"arrays": arrays, "key": jax.device_put(jax.random.key(0), first)}

middle, losses_before = go_on(piecewise, start, 4)
end, losses_after = go_on(piecewise, middle, 4)
print(f"{len(losses_before)} steps: loss {losses_before[-1]:.4f}; {len(losses_after)} more: {losses_after[-1]:.4f}")

# %% [markdown]
# [Orbax](https://orbax.readthedocs.io/en/latest/guides/checkpoint/orbax_checkpoint_101.html) writes a pytree of arrays
# into a folder, each device its own pieces. To read it, hand over a pytree of types: shape, dtype, and the sharding that
# you want *now*.

# %%
folder = tempfile.TemporaryDirectory()
saved = Path(folder.name, "checkpoint")
with ocp.StandardCheckpointer() as checkpointer:  # it writes in the background; leaving the block waits for it
    checkpointer.save(saved, middle)


def restore(place):
    """What was saved; `place` says, for the type of each array, where it goes."""
    types = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place(leaf)), middle)
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(saved, types)


# %%
guess = None  # your number: of the 32 losses after the restart, how many equal the uninterrupted run's to the bit?

# %%
restored = restore(lambda leaf: leaf.sharding)
_, losses_again = go_on(piecewise, restored, 4)
show_guess(guess, int((losses_again == losses_after).sum()), "losses")

# %% [markdown]
# Now three restarts with something amiss. One forgets Adam's numbers and starts with a new optimiser. One forgets the key
# and begins with `jax.random.key(0)` again. One forgets nothing, but has only one device left, so it restores
# everything there.

# %%
model, optimizer = nnx.merge(structure, restored["arrays"])
new_optimizer = jax.device_put(nnx.Optimizer(model, adam, wrt=nnx.Param), places[1])
without_adam = restored | {"arrays": nnx.state((model, new_optimizer))}
on_one = restore(lambda leaf: jax.sharding.SingleDeviceSharding(first))


def alone(model, optimizer, *batches):
    return one_epoch["kept"](model, optimizer, *jax.device_put(batches, first))  # of section 6


restarts = {
    "without Adam's state": go_on(piecewise, without_adam, 4)[1],
    "without the key": go_on(piecewise, restored | {"key": start["key"]}, 4)[1],
    "on one device": go_on(alone, on_one, 4)[1],
}

# %%
guess = None  # your number: without Adam's state, the largest loss of the first 8 steps over that of the right run

# %%
jump = restarts["without Adam's state"][:8].max() / losses_after[:8].max()
show_guess(guess, round(float(jump), 1), "x")

# %% jupyter={"source_hidden": true}
# Picture: the losses before and after the restart
fig, ax = plt.subplots(figsize=(8, 3.4))
ax.semilogy(np.arange(1, 33), losses_before, "#888888")
for (name, course), colour in zip(restarts.items(), ("C1", "C3", "C2"), strict=True):
    ax.semilogy(np.arange(33, 65), course, colour, label=name, lw=1.2)
ax.semilogy(np.arange(33, 65), losses_again, "C0", label="everything restored", lw=1.2)
ax.axvline(32.5, color="#888888", lw=1)
ax.set(xlabel="step (the line: saved and restored)", ylabel="loss", title="Four restarts")
ax.legend(loc="upper right")
plt.show()

# %% jupyter={"source_hidden": true}
# Table: how far each restart is from the uninterrupted run
rows = ["| restart | first loss | largest difference in 8 steps | losses equal to the bit |", "|---|--:|--:|--:|"]
for name, course in {"everything restored": losses_again, **restarts}.items():
    far = np.abs(course - losses_after)[:8].max()
    rows.append(f"| {name} | {course[0]:.6f} | {far:.0e} | {(course == losses_after).sum()} of 32 |")
display(Markdown("\n".join(rows)))

# %% jupyter={"source_hidden": true}
# Proof
# The numbers come back to the bit, wherever they go; the curve too, if program and shardings are the same.
for here, there, elsewhere in zip(*map(jax.tree.leaves, (middle, restored, on_one)), strict=True):
    if jnp.issubdtype(here.dtype, jax.dtypes.prng_key):
        here, there, elsewhere = map(jax.random.key_data, (here, there, elsewhere))
    np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(here, elsewhere)
    assert here.sharding.is_equivalent_to(there.sharding, here.ndim) and elsewhere.sharding.device_set == {first}
assert (losses_again == losses_after).all()
assert restarts["without Adam's state"][0] == losses_after[0] and jump > 1.3
assert restarts["without the key"][0] != losses_after[0]
np.testing.assert_allclose(restarts["on one device"][:8], losses_after[:8], rtol=1e-3)
folder.cleanup()

# %% [markdown]
# - **Everything restored.** The same curve, to the bit: nobody can tell that the run was interrupted.
# - **Without Adam's state.** The first loss is right, because the parameters are. Then it jumps: Adam has forgotten how
#   large each gradient usually is and takes its first steps as boldly as at the very beginning. It recovers, so the end of
#   the curve hides it.
# - **Without the key.** The curve alone gives nothing away. The pixels are dealt as in the first epochs: harmless here,
#   but of a large data set some examples come twice and others never.
# - **On one device.** (This curve lies under the blue one.) The *state* is the same to the bit; the sums are taken in
#   another order, as in section 10.
#
# So compare a restart with an uninterrupted run, once, before you need it. (Flax's own page is
# [on checkpoints](https://flax.readthedocs.io/en/latest/guides/checkpointing.html).)
#
# ## 13. Half of the bits
#
# `bfloat16` has the exponents of `float32` and 8 bits of precision instead of 24; `float16` has 11, and far fewer
# exponents. Both take half of the memory, and many accelerators multiply them much faster. **Mixed precision** keeps the
# parameters in `float32` and *computes* in 16 bits. In Flax a layer has a dtype for each: `param_dtype`, and `dtype`.

# %%
KINDS = {
    "float32": {},
    "mixed": {"dtype": jnp.bfloat16},
    "all bfloat16": {"dtype": jnp.bfloat16, "param_dtype": jnp.bfloat16},
}


def dots(model):
    """The products of matrices in the loss and its gradient: dtypes in and out, from the jaxpr."""
    jaxpr = jax.make_jaxpr(nnx.value_and_grad(loss_fn))(model, *few)
    found = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "dot_general"]
    return Counter(
        " x ".join(str(v.aval.dtype) for v in eqn.invars) + f" -> {eqn.outvars[0].aval.dtype}" for eqn in found
    )


# %%
mixed, _ = fresh(**KINDS["mixed"])
gradients = jax.eval_shape(nnx.grad(loss_fn), mixed, *few)
print("parameters:", {str(leaf.dtype) for leaf in jax.tree.leaves(mixed)})
print("products:  ", dict(dots(mixed)))
print("gradients: ", {str(leaf.dtype) for leaf in jax.tree.leaves(gradients)})

# %% jupyter={"source_hidden": true}
# Proof
# float32 outside, bfloat16 in every product.
assert {leaf.dtype for leaf in jax.tree.leaves((mixed, gradients))} == {jnp.dtype("float32")}
assert set(dots(mixed)) == {"bfloat16 x bfloat16 -> bfloat16"}
assert set(dots(fresh()[0])) == {"float32 x float32 -> float32"}

# %% [markdown]
# The parameters are rounded on their way into each product, and their gradients are widened on the way out. That is what
# we *asked for*. Where 16 bits are no faster, the compiler may widen the numbers again. XLA's products here:

# %% jupyter={"source_hidden": true}
# Helper: the trained network in other dtypes, steps a tenth as long; what its forward pass keeps
small_steps = optax.adam(5e-4)


def trained_as(kind):
    """The trained network and its optimizer, in the dtypes of this kind."""
    types, structure = jax.tree.flatten(jax.eval_shape(lambda: fresh(small_steps, **kind)))
    values = jax.device_get(jax.tree.leaves((learned, its_optimizer)))
    return structure.unflatten([jnp.array(value.astype(t.dtype)) for t, value in zip(types, values, strict=True)])


def kept_bytes(model):
    """What the forward pass keeps for the backward pass (unit 12), for one batch."""
    batch = batches[0][0], batches[1][0]
    backward = jax.eval_shape(lambda m: jax.vjp(lambda m: loss_fn(m, *batch), m)[1], model)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(backward))


def in_a_row(model):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model)])


# %%
program = train_epoch.lower(*trained_as(KINDS["mixed"]), *batches).compile().as_text()
products = [line.split(" = ")[1] for line in program.splitlines() if " dot(" in line]
print("results of the products in XLA's HLO:", dict(Counter(product.split("[")[0] for product in products)))

# %% [markdown]
# We train the network of section 5 on for 4 epochs in each of the other two kinds, on the same batches, with steps a
# tenth as long. The third kind keeps the parameters and Adam's numbers in `bfloat16` as well.


# %%
guess = None  # your number: percent of the bfloat16 parameters that are the same after 4 epochs as before

# %%
reached, kept, stuck = {"float32": decibel(paint(learned, xy))}, {"float32": kept_bytes(learned)}, {}
for name in ("mixed", "all bfloat16"):
    model, optimizer = trained_as(KINDS[name])
    kept[name], before = kept_bytes(model), in_a_row(model)
    for number in range(4):
        model, optimizer, losses = train_epoch(model, optimizer, *epoch_of_batches(EPOCHS + number))
    reached[name] = decibel(np.asarray(paint(model, xy), np.float32))
    stuck[name] = 100 * float(np.mean(in_a_row(model) == before))
show_guess(guess, round(stuck["all bfloat16"]), "%")

# %% jupyter={"source_hidden": true}
# Table: bytes, and what was reached
head = "| | bytes of the parameters | kept for the backward pass | parameters as before | reached |"
rows = [head, "|---|--:|--:|--:|--:|"]
for name in KINDS:
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(learned)) // (2 if name == "all bfloat16" else 1)
    still = f"{stuck[name]:.0f} %" if name in stuck else "(not trained on)"
    rows.append(f"| {name} | {size:,} | {kept[name]:,} | {still} | {reached[name]:.1f} dB |")
display(Markdown("\n".join(rows)))

# %% jupyter={"source_hidden": true}
# Proof
# Mixed keeps fewer bytes; both reach about what float32 had; most of the bfloat16 parameters do not move.
assert kept["mixed"] < 0.6 * kept["float32"]
assert all(abs(decibels - reached["float32"]) < 1 for decibels in reached.values())
assert stuck["all bfloat16"] > 50 > 3 * stuck["mixed"]
assert {leaf.dtype for leaf in jax.tree.leaves(model)} == {jnp.dtype("bfloat16")}

# %% [markdown]
# Mixed precision keeps about half of the bytes for the backward pass. The last column is no race, as `float32` was not
# trained on: neither kind has spoiled what was learned. Of the `bfloat16` parameters most have not moved in 32 steps:
# where a step is shorter than half of the way to the next number, **the parameter stays where it is**, however often
# one tries. The same happens to a sum. Here are 4,096 ones, added one after another:

# %%
guess = None  # your number: what is the sum of 4,096 ones, added one by one in bfloat16?

# %%
ones = jnp.ones(4096, jnp.bfloat16)


def one_by_one(zero):
    return jax.lax.scan(lambda total, one: (total + one, None), zero, ones)[0]


print("1 + 0.001 in bfloat16:", jnp.bfloat16(1) + jnp.bfloat16(0.001))
in_32, in_16 = one_by_one(jnp.float32(0)), one_by_one(jnp.bfloat16(0))
print("one by one, with a float32 carry:", in_32, "  jnp.sum:", jnp.sum(ones))
show_guess(guess, float(in_16))

# %% [markdown]
# In `bfloat16` the numbers soon stand further apart than 1: above 256 the next one is 258, and 257 is rounded back.
# `jnp.sum` knows, and adds in `float32`:

# %%
show_jaxpr(jnp.sum, ones)

# %% jupyter={"source_hidden": true}
# Proof
# The carry in bfloat16 is stuck at 256; a float32 carry and jnp.sum are right; the loss is a float32 sum.
assert in_16 == 256 and in_32 == jnp.sum(ones) == 4096
assert jnp.bfloat16(1) + jnp.bfloat16(0.001) == 1
assert jax.make_jaxpr(jnp.sum)(ones).eqns[0].outvars[0].aval.dtype == jnp.float32
assert jax.eval_shape(loss_fn, mixed, *few).dtype == jnp.float32

# %% [markdown]
# So whatever collects many small things stays in `float32`: parameters, Adam's numbers, sums and means, the loss.
#
# `float16` has more precision than `bfloat16`, and another trap. Its smallest number is about 6e-8, and a gradient is
# often a product of small numbers:


# %%
def tiny(w, scale=1.0):
    return scale * 1e-4 * (w * w.dtype.type(1e-4)).astype(jnp.float32)


slope = jax.jit(jax.grad(tiny))

# %% jupyter={"source_hidden": true}
# Helper: the dtypes to try; there are old processors for which XLA cannot compile float16
DTYPES = [jnp.float32, jnp.bfloat16, jnp.float16]
try:
    slope(np.ones((), jnp.float16), 4096.0)  # times 1.0 would be simplified away
except jax.errors.JaxRuntimeError:
    DTYPES.pop()
    print("float16: not here, for XLA cannot compile it for this processor")

# %%
for dtype in DTYPES:
    one = np.ones((), dtype)
    helped = np.float32(slope(one, 4096.0)) / 4096
    print(f"{jnp.dtype(dtype)!s:9} the gradient is {slope(one):.1e}; of 4,096 times the loss, over 4,096: {helped:.1e}")

# %% [markdown]
# The zero is an **underflow**. The cure is **loss scaling**: multiply the loss by a power of two, which shifts all
# cotangents (unit 08) into the range of the dtype, and divide the gradients by it, in `float32`. Is it needed? We ask the
# network of section 5, whose errors are small by now. Its gradient has 5,699 numbers. How many are lost, that is zero in
# 16 bits and not in 32?


# %%
@jax.jit
def scaled_gradient(model, scale):
    return nnx.grad(lambda model: scale * loss_fn(model, xy, colours))(model)


def gradient_in(dtype, scale=1.0):
    """The gradient of the trained network's loss over all pixels, computed in this dtype, as one row of float32."""
    model = Painter(nnx.Rngs(0), dtype=dtype)
    nnx.update(model, nnx.state(learned))
    gradient = jax.tree.leaves(scaled_gradient(model, scale))
    return np.concatenate([np.ravel(leaf) for leaf in gradient]) / np.float32(scale)


exact = gradient_in(jnp.float32)
HALVES = {"bfloat16": (jnp.bfloat16, 1.0), "float16": (jnp.float16, 1.0)}
# 2**-5: as one term of several, with a small weight
HALVES |= {f"float16, loss times 2**{power}": (jnp.float16, 2.0**power) for power in (-5, 10, 40)}
HALVES = {name: how for name, how in HALVES.items() if how[0] in DTYPES}

# %%
guess = None  # your number: how many of the 5,699 are lost in float16? 10, 500 or 5,000?

# %%
found = {name: gradient_in(*how) for name, how in HALVES.items()}
lost = {name: int(((slopes == 0) & (exact != 0)).sum()) for name, slopes in found.items()}
print(f"not zero in float32: {(exact != 0).sum():,}")
show_guess(guess, lost.get("float16", "not here"), "lost")

# %% jupyter={"source_hidden": true}
# Table: what is lost, and how far off the rest is
rows = [
    "| computed in | lost | infinite or not a number | length of the error over that of the gradient |",
    "|---|--:|--:|--:|",
]
for name, slopes in found.items():
    off = np.linalg.norm(slopes - exact) / np.linalg.norm(exact)
    rows.append(f"| {name} | {lost[name]} | {(~np.isfinite(slopes)).sum():,} | {f'{off:.1%}' if off >= 0 else '–'} |")
display(Markdown("\n".join(rows)))

# %% jupyter={"source_hidden": true}
# Proof
# Float16 loses more than bfloat16, and far more of a weighted loss; scaling saves it; too much scaling overflows.
assert exact.size == 5_699 and slope(jnp.bfloat16(1)) > 0
if jnp.float16 in DTYPES:
    plain, weighted, scaled, overflown = list(lost)[1:]
    assert lost[plain] < 100 and lost[weighted] > 5 * lost[plain]
    assert lost[plain] > max(lost[scaled], lost["bfloat16"])
    assert np.isfinite(found[plain]).all() and np.isfinite(found[scaled]).all()
    assert not np.isfinite(found[overflown]).all()
    assert slope(np.float16(1)) == 0 and abs(np.float32(slope(np.float16(1), 4096.0)) / 4096 - 1e-8) < 1e-9

# %% [markdown]
# Few are lost of this loss as it is, and times `2**10` fewer still. But with the small weight `float16` loses many: such a
# loss has to be scaled up. The last row is the other end: scaled too far, the numbers overflow. A training loop with
# `float16` therefore looks for infinities, skips such a step, and halves the scale. `bfloat16` needs none of this, for
# it has the exponents of `float32`. Its error is larger, for it has fewer digits.
#
# ## 14. What it has learned
#
# A picture that is a function has no pixels. You can ask it for more than it ever saw, and for points outside the frame.

# %%
larger = paint(learned, pixels(256))
seen, unseen = np.mean((paint(learned, xy) - colours) ** 2), np.mean((larger - sunset(pixels(256))) ** 2)
print(f"squared error on the pixels it saw {seen:.5f}, on 16 times as many {unseen:.5f}")

# %% jupyter={"source_hidden": true}
# Picture: trained, larger, and twice the frame
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2))
frame(axes[0], colours, "trained on these 64 x 64")
frame(axes[1], larger, "asked for 256 x 256")
frame(axes[2], paint(learned, pixels(256, reach=2.0)), "asked for twice the frame")
axes[2].plot([64, 192, 192, 64, 64], [64, 64, 192, 192, 64], "w", lw=1)
plt.show()

# %% jupyter={"source_hidden": true}
# Proof
# The pixels that it never saw are nearly right, too.
assert unseen < 0.01

# %% [markdown]
# ## What older posts say
#
# The first three are from that old introduction's time, the others from NNX's own first years: it is young enough that
# a post of last year may not run.

# %% jupyter={"source_hidden": true}
# Table: claims, and what was measured above and here


def told(action):
    """What Flax answers to an older way of writing, in a few words."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            action()
        except Exception as error:
            return f"`{type(error).__name__}`: {' '.join(str(error).split()[:9])} ..."
    return "works"


class ListOfLayers(nnx.Module):
    def __init__(self, rngs):
        self.layers = [nnx.Linear(64, 64, rngs=rngs)]


class ListOfLayersToday(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(64, 64, rngs=rngs)])


model, optimizer = fresh()
gradients = nnx.state(model, nnx.Param)  # a stand-in of the right shapes
claims = [
    ("Flax on JAX: a network and its training (linen)", True, "works, 1 trace for an epoch"),
    ("`pmap` for data parallel training", True, f"works; losses at most {apart:.0e} from one device's, 2 traces"),
    ("`pmap` contains `jit`", True, "two traces in eight calls, no line of `jit`"),
    ("`nnx.Optimizer(model, adam)`", False, told(lambda: nnx.Optimizer(model, adam))),
    ("`optimizer.update(gradients)`", False, told(lambda: optimizer.update(gradients))),
    ("`self.layers = [nnx.Linear(...)]`", False, told(lambda: ListOfLayers(nnx.Rngs(0)))),
    ("`self.layers = nnx.List([...])`", True, told(lambda: ListOfLayersToday(nnx.Rngs(0)))),
    ("`layer.kernel.value`", False, told(lambda: model.first.kernel.value) + " Write `layer.kernel[...]`"),
]
marks = ["✓" if works else "✗" for _, works, _ in claims[:7]] + ["works, and warns"]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for mark, (claim, _, today) in zip(marks, claims, strict=True))
display(Markdown(f"| written in posts | today | measured |\n|---|:-:|---|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# Which of the eight fail, and that the last one warns.
warns = ["`DeprecationWarning`" in today for *_, today in claims]
assert all(works != today.startswith("`") for _, works, today in claims) and warns == [False] * 7 + [True]

# %% [markdown]
# ## Keypoints
#
# - linen describes, `init` and `apply` do; NNX holds its numbers. Underneath both: a hashable description and a pytree.
# - `jax.jit` forgets what it is not told to return. `nnx.jit` writes it back, and takes its time at each call.
# - Make the optimiser once, keep the batches of one size, place the state before the first step: one trace.
# - An epoch is a `scan` of the step: one program, no hidden sync, and safe on many devices.
# - Donate the state; copy first what you still want.
# - Data parallel is placement: the state everywhere, the batch split. One all-reduce comes by itself.
# - Equal means: after few steps, as equal as one device is to itself in another order. Adam forgives a gradient of the
#   wrong size, so test with SGD.
# - `jax.jit(make, out_shardings=...)` makes a model in pieces. It never exists whole, and has the same numbers.
# - A checkpoint holds all that a step hands to the next, key and optimiser included. Compare a restart to the bit.
# - Parameters, sums and losses in `float32`, products in `bfloat16`. `float16` needs loss scaling.
#
# ## Your turn
#
# [Exercise 14](../exercises/14_train/train.ipynb): predict the traces of eight training loops, port a network, pad a
# batch without bending its mean, put an epoch into one call, spare a run of small steps the price of a hundred
# calls, keep a log that never waits, and convict the parallel steps that Adam acquitted. 22 points.
