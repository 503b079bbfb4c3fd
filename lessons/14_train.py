# %% [markdown]
# # 14 · Train
#
# **A network, a thousand steps, eight devices. How many programs is that?**
#
# You will
#
# - write a training step in Flax as older posts do (linen) and as it is done today (NNX), and see where each forgets;
# - turn a whole run into one trace of one program that owns its memory and waits for nobody;
# - spread it over eight devices without changing a line, and know what "the same result" means then.
#
# About 20 minutes. You need the cache (unit 05), loops (06), `grad` (08), donation (11) and shardings (13). Everything runs
# on eight virtual devices of your CPU, whatever else the machine has.

# %%
import jax

try:
    jax.config.update("jax_platforms", "cpu")  # the run on eight devices below needs eight, and a CPU can have them
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:
    late = "JAX has already started, with other devices: restart the kernel, then run this cell first"
    raise RuntimeError(late) from None

import time
import warnings

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from flax import linen, nnx
from flax.jax_utils import replicate, unreplicate
from flax.training.train_state import TrainState
from IPython.display import Markdown, display

from autograder import benchmark, show_guess, show_hlo, trace_log

plt.style.use("autograder.course")
jax.config.update("jax_default_matmul_precision", "highest")  # or an accelerator drops digits of products (unit 10)
print(f"JAX {jax.__version__}, {jax.device_count()} devices")
assert jax.device_count() == 8

# %% [markdown]
# ## 1. A picture is a function
#
# A picture says for each point `(x, y)` what colour it has. So a network with two inputs and three outputs can *be* a
# picture, once it is trained on the pixels. Here is one to learn. It is drawn in place: nothing is downloaded.

# %%
SIDE, BATCH = 64, 512


def pixels(side, reach=1.0):
    """The centres of side x side pixels, in rows from the top. float32[side * side, 2]"""
    t = reach * ((np.arange(side) + 0.5) / side * 2 - 1)
    return np.stack(np.meshgrid(t, -t), axis=-1).reshape(-1, 2).astype(np.float32)


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


xy = pixels(SIDE)
colours = sunset(xy)
fig, ax = plt.subplots(figsize=(2.6, 2.6))
frame(ax, colours, f"{len(xy):,} pixels, {len(xy) // BATCH} batches of {BATCH}")
plt.show()

# %%
guess = None  # your number: how many programs does XLA build for 1,000 steps of training (forward, backward, Adam)?

# %% [markdown]
# ## 2. The network in linen
#
# An old introduction to JAX ends like this: *with `jax.numpy`, `grad`, `pmap` and `jit` we can now write networks
# and train them. But imagine a ResNet or a Transformer in NumPy: possible, and far too complex. With Flax, a library
# of neural networks on JAX, it is easy.* Then come two headings and a link below each: *Flax + JAX*, and *data parallel
# with `pmap`*.
#
# Flax then meant **linen**, and this is how it is written to this day in most posts. A linen module is a description.
# It holds no numbers: `init` makes them, `apply` is given them.


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


sgd, adam = optax.sgd(0.5), optax.adam(5e-3)
description = LinenPainter()
variables = jax.jit(description.init)(jax.random.key(0), xy[:1])
for path, leaf in jax.tree.leaves_with_path(variables):
    print(f"{jax.tree_util.keystr(path):38} {jax.typeof(leaf)}")

# %% [markdown]
# A plain nested dict of arrays: a pytree, and so everything from the units before applies. The step is a pure function
# from the old state to the new one. `TrainState` is only a tuple with names: parameters, Optax's state, a counter.
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


batches = epoch_of_batches(0)
state = TrainState.create(apply_fn=description.apply, params=variables["params"], tx=sgd)
linen_losses = []
with trace_log(linen_step) as log:
    for batch in zip(*batches, strict=True):
        state, loss = log.call(linen_step, state, *batch)
        linen_losses.append(loss)
print(f"{len(log.rows)} steps, {log.traces} trace.  Loss {linen_losses[0]:.4f} -> {linen_losses[-1]:.4f}")
assert log.traces == 1 and linen_losses[-1] < linen_losses[0]

# %% [markdown]
# ## 3. The same network in NNX
#
# **NNX** is the Flax of today. A module is an ordinary Python object that *holds* its numbers: made when it is made,
# read and written like attributes. No `init`, no `apply`, no dict to hand around.


# %%
class Painter(nnx.Module):
    def __init__(self, rngs, octaves=5):
        self.octaves = octaves
        self.first = nnx.Linear(4 * octaves or 2, 64, rngs=rngs)
        self.second = nnx.Linear(64, 64, rngs=rngs)
        self.last = nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, xy):
        x = nnx.relu(self.first(waves(xy, self.octaves)))
        x = nnx.relu(self.second(x))
        return nnx.sigmoid(self.last(x))


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
# **state** (a pytree of arrays: traced). `nnx.merge` puts them together again.

# %%
model = Painter(nnx.Rngs(0))
graphdef, arrays = nnx.split(model)
another, _ = nnx.split(Painter(nnx.Rngs(1)))
print("graphdef: equal for another seed:", graphdef == another and hash(graphdef) == hash(another))
for path, leaf in nnx.to_flat_state(arrays):
    print(f"{'.'.join(path):14} {type(leaf).__name__}  {jax.typeof(leaf[...])}")

# %% [markdown]
# Porting is then a matter of names. Copy linen's numbers, train on the same batches, and the two must agree.


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
np.testing.assert_allclose(model(xy), description.apply(variables, xy), rtol=1e-5, atol=1e-6)
nnx_losses = [train_in_place(model, optimizer, *batch) for batch in zip(*batches, strict=True)]
apart = max(abs(float(a - b)) for a, b in zip(linen_losses, nnx_losses, strict=True))
print(f"after 8 steps: linen {linen_losses[-1]:.6f}, NNX {nnx_losses[-1]:.6f}; at most {apart:.0e} apart on the way")
assert apart < 1e-5

# %% [markdown]
# ## 4. The model that did not learn
#
# `nnx.jit` and `jax.jit` are easily exchanged: modules are pytrees, so `jax.jit` takes them, too. The same function
# under both, from the same start:

# %%
rows = []
for name, step in (("nnx.jit", train_in_place), ("jax.jit", jax.jit(step_in_place))):
    model = Painter(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, sgd, wrt=nnx.Param)
    losses = [float(step(model, optimizer, batches[0][0], batches[1][0])) for _ in range(10)]
    rows.append(f"| `{name}` | {losses[0]:.4f} | {losses[1]:.4f} | {losses[-1]:.4f} |")
display(Markdown("\n".join(["| | step 1 | step 2 | step 10 |", "|---|---|---|---|", *rows])))
assert len(set(losses)) == 1

# %% [markdown]
# No error, no warning, no learning. Under `jax.jit` the function works on a copy made of tracers; the copy is changed,
# and thrown away. That is unit 03's ghost in a new coat: **a side effect does not leave a trace**. `nnx.jit` carries
# the changes out and writes them back into your object. With `jax.jit`, what has changed must be *returned*:


# %%
@jax.jit
def train_step(model, optimizer, xy, colours):
    loss, gradients = nnx.value_and_grad(loss_fn)(model, xy, colours)
    optimizer.update(model, gradients)
    return model, optimizer, loss


def fresh(optimiser=adam, seed=0, octaves=5):
    """A new model and its optimizer."""
    model = Painter(nnx.Rngs(seed), octaves)
    return model, nnx.Optimizer(model, optimiser, wrt=nnx.Param)


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
# costs a fraction of a millisecond, which matters when a step is short. From here on we return what we change: it is
# also what `scan` and donation want.
#
# ## 5. One trace for the whole run
#
# What makes a training step trace again? By now you can say it before you run it. Three epochs, in four ways. (A trace
# needs types, and no numbers: `eval_shape` goes through the same cache and computes nothing.)


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
ways = {
    "1,024 pixels, 512 at a time": three_epochs(512, lambda epoch: adam),
    "1,024 pixels, 600 at a time": three_epochs(600, lambda epoch: adam),
    "`optax.adam(5e-3 / 2**epoch)` in each epoch": three_epochs(512, lambda epoch: optax.adam(5e-3 / 2**epoch)),
    "`optax.adam(schedule)`, made once": three_epochs(512, lambda epoch: schedule),
}
display(Markdown("\n".join(["| | traces |", "|---|---|", *(f"| {name} | {n} |" for name, n in ways.items())])))
assert list(ways.values()) == [1, 2, 3, 1]

# %% [markdown]
# - The last batch is smaller, and a shape is part of the key. Drop it, or pad it (how, without cheating the mean, is a
#   task in the exercise).
# - An Optax optimiser is a pair of *functions*. They belong to the description, as a static value does, and a new
#   `optax.adam` makes new functions. Make it once; a rate that changes goes into a schedule, where it is computed from
#   the step counter, inside the program.
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

EPOCHS, SHOWN = 125, (0, 1, 6, 25, 125)
film, programs = {}, {}
for octaves in (0, 5):
    model, optimizer = fresh(octaves=octaves)
    with trace_log(train_epoch) as log:
        for number in range(EPOCHS + 1):
            if number in SHOWN:
                film[octaves, 8 * number] = np.asarray(paint(model, xy))
            if number < EPOCHS:
                model, optimizer, losses = train_epoch(model, optimizer, *epoch_of_batches(number))
    programs[octaves] = [name for name in log.modules if "epoch" in name]
    assert log.traces == 1
learned = model
print("programs for the training:", programs[5], "and their traces:", log.traces)
assert programs[5] == ["jit(epoch)"]
show_guess(guess, len(programs[5]), "program")


# %%
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
final = {octaves: decibel(film[octaves, 1000]) for octaves in (0, 5)}
assert final[5] > final[0] + 5

# %% [markdown]
# The lower network has the same layers. It is only told the coordinates differently: as sines and cosines of five
# frequencies. A network of `relu`s learns slow changes first and sharp edges very late; from waves it can build edges
# at once. Same program, same thousand steps.
#
# ## 6. Who owns the memory
#
# Adam keeps two numbers beside each parameter, so the state is three times the model. When a step has finished, and was
# not given the old state for keeps, both are there:

# %%
model, optimizer = fresh()
state_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves((model, optimizer)))
model_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(model))
memory = {
    name: jax.jit(epoch, donate_argnums=donated).lower(model, optimizer, *batches).compile().memory_analysis()
    for name, donated in (("kept", ()), ("donated", (0, 1)))
}
fig, ax = plt.subplots(figsize=(7.5, 1.9))
for y, (name, analysis) in enumerate(memory.items()):
    new = analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    parts = (("state that came in", state_bytes, "C0"), ("new memory for what goes out", new, "C1"))
    left = 0
    for label, size, colour in parts:
        ax.barh(y, size / model_bytes, left=left, color=colour, label=label if y == 0 else None)
        left += size / model_bytes
ax.set(yticks=range(2), yticklabels=memory, xlabel="times the size of the model", xlim=(0, 6.6))
ax.invert_yaxis()
ax.grid(axis="y", visible=False)
ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.32), ncols=2)
plt.show()
assert memory["kept"].alias_size_in_bytes == 0 and memory["donated"].alias_size_in_bytes == state_bytes
addresses = {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((model, optimizer))}
trained, optimizer, _ = train_epoch(model, optimizer, *batches)
stayed = sum(leaf.unsafe_buffer_pointer() in addresses for leaf in jax.tree.leaves((trained, optimizer)))
try:
    jax.device_get(model)
except RuntimeError as error:
    print(f"{stayed} of {len(addresses)} arrays stayed where they were.  The old model: {str(error).split('.')[0]}.")
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
assert deleted == [True, False]

# %% [markdown]
#
# ## 7. Who waits for whom
#
# JAX returns before the work is done (unit 01), so Python can be many steps ahead. Unless it asks:

# %%
guess = None  # your number: percent of its time that Python spends waiting, if it prints the loss after each step

# %%
many = np.tile(np.arange(len(xy)), 3)
large = jax.device_put((xy[many], colours[many]))  # steps long enough to be seen
moments, waited = {}, {}
for name in ("float(loss) after each step", "the losses are kept, and read at the end"):
    model, optimizer = fresh()
    model, optimizer, loss = train_step(model, optimizer, *large)
    jax.block_until_ready(loss)
    kept, moments[name], blocked, start = [], [0.0], 0.0, time.perf_counter()
    for _ in range(15):
        model, optimizer, loss = train_step(model, optimizer, *large)
        kept.append(loss)
        asked = time.perf_counter()
        if name.startswith("float"):
            float(loss)
        blocked += time.perf_counter() - asked
        moments[name].append(time.perf_counter() - start)
    jax.block_until_ready(kept)
    moments[name, "ready"] = time.perf_counter() - start
    waited[name] = 100 * blocked / moments[name][-1]

fig, ax = plt.subplots(figsize=(8, 3))
for y, (name, percent) in enumerate(waited.items()):
    ax.plot(1e3 * np.array(moments[name]), range(16), color=f"C{1 - y}", label=name)
    ax.plot(1e3 * moments[name, "ready"], 15, "o", color=f"C{1 - y}")
ax.set(xlabel="milliseconds (the dot: all 15 results are there)", ylabel="steps that Python has called", ylim=(0, 16))
ax.legend(loc="lower right")
plt.show()
show_guess(guess, round(max(waited.values())), "%")

# %% [markdown]
# The dots are not so far apart: on a CPU the cores do the work either way. What is lost is Python. Waiting, it cannot
# cut the next batch, and an accelerator then idles until Python comes back with another step.
#
# `float(loss)`, `if loss < best`, `print(loss)`, `np.asarray(loss)`, `loss.item()`: each is a **hidden sync**. There is
# a guard against hidden transfers. Ask it about one in each direction:


# %%
def guarded(guard, action):
    """What `action` does when transfers that nobody asked for are forbidden."""
    with guard("disallow"):
        try:
            action()
        except Exception as error:
            return f"**stopped**: {str(error).split(': ')[1]}"
    return "passes"


on_device, on_host = batches[0][0], np.asarray(batches[0][0])
cases = [
    ("a NumPy batch into a jitted step", jax.transfer_guard_host_to_device, lambda: waves_of(on_host)),
    ("a batch on the device", jax.transfer_guard_host_to_device, lambda: waves_of(on_device)),
    ("`jax.device_put(batch)`", jax.transfer_guard_host_to_device, lambda: waves_of(jax.device_put(on_host))),
    ("`float(loss)`", jax.transfer_guard_device_to_host, lambda: float(loss)),
]
waves_of = jax.jit(lambda xy: waves(xy, 5))
waves_of(on_device)
verdicts = {name: guarded(guard, action) for name, guard, action in cases}
rows = [f"| {name} | {verdict} |" for name, verdict in verdicts.items()]
display(Markdown("\n".join(["| | with the guard on |", "|---|---|", *rows])))
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
#
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
state = replicate(TrainState.create(apply_fn=description.apply, params=variables["params"], tx=sgd))
before, pmap_losses = state.params["Dense_0"]["kernel"], []
with trace_log(parallel_step) as log:
    for batch in zip(*batches, strict=True):
        batch = [array.reshape(8, -1, array.shape[-1]) for array in batch]
        state, loss = pmapped(state, *batch)
        pmap_losses.append(float(loss[0]))  # waits, on purpose: see the box below
apart = max(abs(float(a) - b) for a, b in zip(linen_losses, pmap_losses, strict=True))
kernel, one = (s.params["Dense_0"]["kernel"] for s in (state, unreplicate(state)))
print(f"losses at most {apart:.0e} from those on one device")
print(f"Dense_0 kernel: {jax.typeof(kernel)}, {kernel.nbytes // one.nbytes} copies; unreplicate takes one: {one.shape}")
print(f"traces: {log.traces}.  The axis of the state: {before.sharding.spec} at first, then {kernel.sharding.spec}")
assert apart < 1e-5 and kernel.shape == (8, *one.shape) and log.traces == 2

# %% [markdown]
# The recipe works today, on both versions. (On a real TPU, as in the post, you would not wait in each step.) But it
# traces **twice**: today `pmap` is built on shardings, and how an argument lies on the devices belongs to its type.
# Flax's `replicate` puts the copies along an axis with a name of its own; what comes back from `pmap` lies along
# `pmap`'s.
#
# > **Why the loop waits.** On the virtual devices of a CPU, JAX 0.10 can lock up if a hundred steps with a collective
# > are under way at once: each waits for partners that have no thread to run on, until the process is aborted. So a
# > loop over devices waits now and then, or the loop is a `scan`: one program cannot overtake itself. JAX 0.12 did not
# > show it.
#
# ## 9. Eight devices, today
#
# Unit 13: a sharding says who holds what, and `jit` does the rest. The state goes to everybody, of each batch an eighth
# to each. `train_epoch` is the function from section 5. Not a letter is changed.

# %%
mesh = jax.make_mesh((8,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))
everywhere = jax.NamedSharding(mesh, jax.P())
split = jax.NamedSharding(mesh, jax.P(None, "batch"))  # [batches, pixels, 2 or 3]: the pixels are split

model, optimizer = jax.device_put(fresh(), everywhere)
spread = jax.device_put(batches, split)
fig, axes = plt.subplots(1, 8, figsize=(9, 1.5))
for ax, points, shades in zip(axes, spread[0].addressable_shards, spread[1].addressable_shards, strict=True):
    column, row = ((np.asarray(points.data).reshape(-1, 2).T * [[1], [-1]] + 1) * SIDE / 2).astype(int)
    seen = np.full((SIDE, SIDE, 3), 0.65)
    seen[row, column] = np.asarray(shades.data).reshape(-1, 3)
    frame(ax, seen.reshape(-1, 3), f"device {points.device.id}")
fig.suptitle("What each device sees of an epoch", x=0.5, y=1.12, size=12, weight="bold")
plt.show()
assert spread[0].sharding.shard_shape(spread[0].shape) == (8, 64, 2)
assert all(leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves((model, optimizer)))

# %% [markdown]
# XLA sees that each device has other pixels, and that the state must be the same everywhere afterwards. So it puts the
# communication in by itself. How much?

# %%
step_view = show_hlo(train_step, model, optimizer, spread[0][0], spread[1][0])
print("collectives in a step:", dict(step_view.collectives))
assert step_view.collectives.total() == step_view.collectives["all-reduce"] >= 1

with trace_log(train_epoch) as log:
    for _ in range(3):
        model, optimizer, losses = train_epoch(model, optimizer, *spread)
        jax.block_until_ready(losses)
print(f"{len(losses)} steps in an epoch, traces in three epochs: {log.traces}")
assert log.traces == 1

# %% [markdown]
# One sum over the devices, for all gradients and the loss together, as in the `pmap` recipe. And one trace, because the
# state was placed *before* the first call. Left on one device it would come back spread over eight: another type, and
# one more trace in the second epoch.
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


def course_of(run, optimiser, batches, place=None, order=slice(None), epochs=20):
    """(weights after each epoch, losses of each epoch), from the same start on these batches."""
    start, data = fresh(optimiser), [array[:, order] for array in map(np.asarray, batches)]
    (model, optimizer), data = start if place is None else jax.device_put(start, place), jax.device_put(data, split)
    if place is None:
        data = jax.device_put(data, jax.devices()[0])
    weights, course = [], []
    for _ in range(epochs):
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
    one, loss_one = course_of(train_epoch, adam, dealt)
    eight, _ = course_of(train_epoch, adam, dealt, everywhere)
    control, _ = course_of(train_epoch, adam, dealt, order=shuffled)
    broken, loss_broken = course_of(broken_epoch, adam, dealt, everywhere)
    for runs, weights in zip(differences.values(), (broken, eight, control), strict=True):
        runs.append(np.abs(weights - one).max(axis=1))

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
numbers = np.arange(1, len(one) + 1)
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
    ax.set(xticks=range(0, 21, 5), xlabel="epoch")
plt.show()
forgiven = loss_broken[-1].mean() / loss_one[-1].mean()
rows = [f"| {name} |" for name in differences]
for when in (0, -1):
    ends = ((min(run[when] for run in runs), max(run[when] for run in runs)) for runs in differences.values())
    rows = [f"{row} {low:.0e} to {high:.0e} |" for row, (low, high) in zip(rows, ends, strict=True)]
display(Markdown("\n".join([f"| | after 1 epoch | after {len(one)} |", "|---|---|---|", *rows])))
bug, devices, order = differences.values()
assert all(30 * max(d[0], o[0]) < b[0] for b, d, o in zip(bug, devices, order, strict=True)) and 0.7 < forgiven < 1.4
show_guess(guess, float(forgiven), "x")

# %% [markdown]
# Left: **after one epoch**, in each of the three, both the eight devices and the other order are off by roundings alone,
# less than a thirtieth of the bug. *That* is what "the same" can mean, and when to ask. Later it can be too late: in some
# runs training has made so much of the roundings that two right ones are as far apart as a right and a wrong one.
#
# Right: Adam divides each gradient by its own usual size, so a factor of eight cancels, and **the loss curve of the
# broken run looks perfect**. SGD forgives nothing: there the bug is a learning rate eight times as large, and one step
# is enough to see it.

# %%
step_with = {"jit": jax.jit(nnx.grad(loss_fn)), "the recipe": jax.jit(lambda *arguments: recipe(*arguments)[1])}
model, _ = fresh(sgd)
moved = {
    name: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient(model, *(b[0] for b in batches)))])
    for name, gradient in step_with.items()
}
ratio = np.linalg.norm(moved["the recipe"]) / np.linalg.norm(moved["jit"])
print(f"how far a step of SGD goes, the recipe's over the right one: {ratio:.4f}x")
assert abs(ratio - 8) < 1e-3

# %% [markdown]
# Never test a parallel step by its loss under Adam. Compare gradients, or one step of SGD, with a single device.
#
# ## 11. What it has learned
#
# A picture that is a function has no pixels. You can ask it for more of them than it ever saw, and for points outside
# the frame, where nobody told it anything.

# %%
larger = paint(learned, pixels(256))
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2))
frame(axes[0], colours, "trained on these 64 x 64")
frame(axes[1], larger, "asked for 256 x 256")
frame(axes[2], paint(learned, pixels(256, reach=2.0)), "asked for twice the frame")
axes[2].plot([64, 192, 192, 64, 64], [64, 64, 192, 192, 64], "w", lw=1)
plt.show()
seen, unseen = np.mean((paint(learned, xy) - colours) ** 2), np.mean((larger - sunset(pixels(256))) ** 2)
print(f"squared error on the pixels it saw {seen:.5f}, on 16 times as many {unseen:.5f}")
assert unseen < 0.01

# %% [markdown]
# ## What older posts say


# %%
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
        self.layers = [nnx.Linear(2, 2, rngs=rngs)]


class ListOfLayersToday(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(2, 2, rngs=rngs)])


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
warns = ["`DeprecationWarning`" in today for *_, today in claims]
assert all(works != today.startswith("`") for _, works, today in claims) and warns == [False] * 7 + [True]
marks = ["✓" if works else "✗" for _, works, _ in claims[:7]] + ["works, and warns"]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for mark, (claim, _, today) in zip(marks, claims, strict=True))
display(Markdown(f"| written in posts | today | measured |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# The first three are from that old introduction's time, the others from NNX's own first years: it is young enough that
# a post of last year may not run.
#
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
#
# ## Your turn
#
# [Exercise 14](../exercises/14_train/train.ipynb): predict the traces of eight training loops, port a network, pad a
# batch without bending its mean, put an epoch into one call, keep a log that never waits, and convict the parallel
# steps that Adam acquitted. 20 points.
