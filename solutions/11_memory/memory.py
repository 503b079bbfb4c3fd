# %% [markdown]
# # Exercise 11 · Memory
#
# Six tasks, 22 points, about {duration}. The lesson is [11 · Memory](../../lessons/11_memory.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. One check asks the clock;
# the others read memory analyses (what `compiled.memory_analysis()` says), compare addresses, and ask what is still
# alive. Everything runs on your CPU, whatever else the machine has: the numbers to predict are those of its compiler.
# Where a check is folded, its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say how much memory fourteen programs need | 3 |
# | 2 | train in the memory of a few models | 4 |
# | 3 | remember one word after another in a memory of fixed size | 3 |
# | 4 | share one program among all tables | 3 |
# | 5 | record the last states of a loop that you cannot change, and hear an echo without moving what was heard | 5 |
# | 6 | compute a loss and its gradients in a fifth of the scratch space | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import functools
import gc
import tracemalloc
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from autograder import (
    assert_allclose,
    assert_equal,
    assert_max_traces,
    assert_prediction,
    assert_primitives,
    partial_credit,
    show_hlo,
    speedup,
    trace_log,
)

jax.config.update("jax_default_matmul_precision", "highest")  # or a GPU or TPU drops digits of products (unit 10)
jax.config.update("jax_platforms", "cpu")  # the receipts to predict are those of the CPU's compiler

# %% [markdown]
# ## Task 1 · Receipts (3 points)
#
# Each program below gets `x`, a table of floats; the `pairs_...` get one row `v` of it. How much memory must there be
# for the program to run, **in tables**? That is the sum of its memory analysis (a receipt is what we call the memory
# analysis): argument + output + temp - alias, rounded to one digit after the point.
#
# The first eight are plain. The last six donate their first argument. Write your numbers **before** you run
# anything; the check compiles the programs and says which are wrong, never the number.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Three questions. What must come in? What must come out, and can it lie where something came in? And what is needed
# whole in between, rather than element by element?
# </details>
# <details><summary>Hint 2</summary>
# <code>receipt(jax.jit(program), x)</code> shows the lines of one program. One at a time, after you have written a
# number down.
# </details>
# <details><summary>Hint 3</summary>
# An argument that nobody reads is not handed in. A constant is on no line. A result is never the argument itself,
# unless that was donated. Element by element can be done in place; a product of matrices cannot. Donation counts at
# the outermost <code>jit</code>, and only if a result fits.
# </details>


# %% nbgrader={"grade": false, "grade_id": "receipts-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
SIDE = 256
CONSTANT = jnp.asarray(np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype(np.float32))


def plus_one(x):
    return x + 1


def sum_of_squares(x):
    return jnp.sum(x * x + 1)


def handed_back(x):
    return x


def two_results(x):
    return x + 1, 2 * x


def unread(x, y):
    return x + 1


def with_constant(x):
    return x + CONSTANT


def pairs_summed(v):
    return (v[:, None] * v).sum(1)


def pairs_sorted(v):
    return jnp.sort(v[:, None] * v).sum(1)


def product(x):
    return x @ x


def first_half(x):
    return x[: SIDE // 2] + 1


def wrapped(x):
    return jax.jit(plus_one, donate_argnums=0)(x)


def receipt(jitted, *args):
    """The lines of a receipt, in bytes; their sum, `total`; and what was `donated`, whether used or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = (jitted if hasattr(jitted, "lower") else jax.jit(jitted)).lower(*args)
    stats = lowered.compile().memory_analysis()
    infos = [info for info in jax.tree.leaves(lowered.args_info) if info.donated]
    donated = sum(info.dtype.itemsize * int(np.prod(info.shape)) for info in infos)
    bill = {line: getattr(stats, f"{line}_size_in_bytes") for line in ("argument", "output", "temp", "alias")}
    total = bill["argument"] + bill["output"] + bill["temp"] - bill["alias"]
    return bill | {"total": total, "donated": donated}


PLAIN = [plus_one, sum_of_squares, handed_back, two_results, unread, with_constant]
PLAIN += [pairs_summed, pairs_sorted]
DONATED = [plus_one, sum_of_squares, two_results, product, first_half, wrapped]


def tables_needed(programs, donate):
    """Name of each program -> the sum of its receipt, in tables, rounded to one digit after the point."""
    x, found = CONSTANT + 1, {}
    for fn in programs:
        args = (x[0],) if fn.__name__.startswith("pairs") else (x, x) if fn is unread else (x,)
        jitted = jax.jit(fn) if fn is wrapped or not donate else jax.jit(fn, donate_argnums=0)
        found[fn.__name__] = round(receipt(jitted, *args)["total"] / x.nbytes, 1)
    return found


# %% nbgrader={"grade": false, "grade_id": "receipts", "locked": false, "schema_version": 3, "solution": true, "task": false}
def receipts_plain():
    """Name of each program in PLAIN -> how many tables of memory it needs."""
    ### BEGIN SOLUTION
    # What is only an element of a fused loop needs no memory. A sort needs its input whole.
    return {
        "plus_one": 2,
        "sum_of_squares": 1,
        "handed_back": 2,
        "two_results": 3,
        "unread": 2,
        "with_constant": 2,
        "pairs_summed": 0,
        "pairs_sorted": 1,
    }
    ### END SOLUTION


def receipts_donated():
    """Name of each program in DONATED, whose argument is donated -> how many tables of memory it needs."""
    ### BEGIN SOLUTION
    # At most one table is won, and only by what may overwrite its input as it goes.
    return {
        "plus_one": 1,
        "sum_of_squares": 1,
        "two_results": 2,
        "product": 2,
        "first_half": 1.5,
        "wrapped": 2,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "receipts-plain", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The receipts of the eight plain programs are predicted right."""
assert_prediction(
    receipts_plain,
    lambda: tables_needed(PLAIN, donate=False),
    hints={
        "sum_of_squares": "Must the squares ever be there all at once?",
        "handed_back": "The result is a new array, even if it is equal.",
        "two_results": "Two tables come out, and one came in.",
        "unread": "What no result depends on, JAX does not hand in.",
        "with_constant": "Look at the four lines of a receipt: on which would the constant be?",
        "pairs_summed": "Each product is added as soon as it is made.",
        "pairs_sorted": "Can a sort begin before its input is complete? And how large is a row?",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "receipts-donated", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The receipts of the six programs that donate are predicted right."""
assert_prediction(
    receipts_donated,
    lambda: tables_needed(DONATED, donate=True),
    hints={
        "plus_one": "Each element can be written where it was read.",
        "sum_of_squares": "Which result could move into the table?",
        "two_results": "There is one buffer to give away.",
        "product": "May an element be overwritten while another one still needs its row and column?",
        "first_half": "Does the result fill the donated buffer?",
        "wrapped": "Which jit owns the argument?",
    },
)

# %% [markdown]
# ## Task 2 · The hoarder (4 points)
#
# `train_slow` trains a model: each step moves its parameters against the gradient of a loss. It does so with
# *momentum*, a second tree of the same shapes, in which the gradients add up and fade. It returns three things: the
# last parameters, **the best** (those that *went into* the step with the smallest loss), and all losses. It works, and
# after twelve steps it holds some fifteen models. (A *model* is here as much memory as the parameters take; so
# parameters and momentum are two.) A model that fills a tenth of your memory cannot be trained.
#
# First write `in_place`, which gets the plain `step` and returns it jitted, such that **all of the parameters and
# all of the momentum** are updated in their own memory, and the batch is left alone.
#
# Then write `train`. There may be **at most five models and a half** alive after any step, however many steps there
# are; that counts the one that the caller passed in, which must stay usable, and copies on the host, too, in whatever
# form. It is called with your jitted step, or another one that donates the same arguments, and every donation must
# succeed: nothing else may be looking at what a step overwrites. If several steps have the smallest loss, the first of
# them has the best. All losses are finite.
#
# There is a catch. You learn that parameters were the best only from a step that has already destroyed them.
#
# <details><summary>Hint 1</summary>
# What does each variable of <code>train_slow</code> keep alive? Donation deletes an array under <em>all</em> of its
# names: whose names are they?
# </details>
# <details><summary>Hint 2</summary>
# <code>peak_models(train, in_place(step), steps=12)</code> says how many models your loop holds. A copy of a whole
# tree: <code>jax.tree.map(jnp.copy, params)</code>. (A view on the host, <code>np.asarray</code>, is no copy.)
# </details>
# <details><summary>Hint 3</summary>
# <code>jax.jit(..., donate_argnums=(0, 1))</code>. In <code>train</code>, begin with a copy of the caller's parameters.
# Before each step, copy the parameters into <code>candidate</code>; after it, if
# <code>float(value) &lt; best_value</code>, that candidate is the best. Nothing else is kept.
# </details>


# %% nbgrader={"grade": false, "grade_id": "hoarder-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
WIDTH = 128


def loss(params, batch):
    x, y = batch
    return jnp.mean((jnp.tanh(x @ params["W"] + params["b"]) - y) ** 2)


def step(params, momentum, batch):
    """params and momentum: {"W": [n, n], "b": [n]}. Returns both, and the loss that params had before."""
    value, slope = jax.value_and_grad(loss)(params, batch)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, slope)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
    return params, momentum, value


step_slow = jax.jit(step)


def train_slow(step, params, batches):
    """The last params, the best params, and the losses as a list of Python floats."""
    momentum = jax.tree.map(jnp.zeros_like, params)
    history, losses = [], []
    for batch in batches:
        history.append(params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(value)
    losses = [float(value) for value in losses]
    return params, history[int(np.argmin(losses))], losses


def start(seed=0):
    """Parameters of a model."""
    W = np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)) / np.sqrt(WIDTH)
    return {"W": jnp.asarray(W, jnp.float32), "b": jnp.zeros(WIDTH)}


def stream(steps, seed=0):
    """`steps` batches (x, y), NumPy arrays, some of them harder than others."""
    rng = np.random.default_rng(seed + 100)
    for _ in range(steps):
        x = rng.normal(size=(8, WIDTH)).astype(np.float32)
        yield x, np.float32(rng.uniform(0.2, 0.9)) * np.sign(x)


def live_bytes():
    """Bytes of all arrays of JAX, and of what else one line of a program holds, if it is as much as a W."""
    on_host = [line.size for line in tracemalloc.take_snapshot().statistics("lineno")]
    return sum(array.nbytes for array in jax.live_arrays()) + sum(n for n in on_host if n >= 4 * WIDTH**2)


def peak_models(train, step, steps, seed=0):
    """The most models alive right after a step of train(step, ...), the caller's one included."""
    train(step, start(seed), stream(2, seed))  # what is compiled on the way is not to be counted
    params = start(seed)
    model = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    gc.collect()
    tracemalloc.start()
    base, seen = live_bytes() - model, []

    def watched(*args):
        results = step(*args)
        seen.append(live_bytes() - base)
        return results

    try:
        train(watched, params, stream(steps, seed))
    finally:
        tracemalloc.stop()
    return max(seen) / model


print(f"train_slow holds up to {peak_models(train_slow, step_slow, 12):.1f} models")


# %% nbgrader={"grade": false, "grade_id": "hoarder", "locked": false, "schema_version": 3, "solution": true, "task": false}
def in_place(step):
    """`step(params, momentum, batch)`, jitted such that params and momentum are updated in place."""
    ### BEGIN SOLUTION
    # Only what comes back in the same shapes: a donated batch would fit nowhere.
    return jax.jit(step, donate_argnums=(0, 1))
    ### END SOLUTION


def train(step, params, batches):
    """As train_slow, in at most 5.5 models. `step` deletes its first two arguments."""
    ### BEGIN SOLUTION
    # A step destroys what goes into it. What must survive is copied first: the caller's, each candidate.
    params = jax.tree.map(jnp.copy, params)
    momentum = jax.tree.map(jnp.zeros_like, params)
    best, best_value, losses = None, float("inf"), []
    for batch in batches:
        candidate = jax.tree.map(jnp.copy, params)
        params, momentum, value = step(params, momentum, batch)
        losses.append(float(value))
        if losses[-1] < best_value:
            best, best_value = candidate, losses[-1]
    return params, best, losses
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "hoarder-step", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The step is right; parameters and momentum are updated in place, the batch is untouched."""


def model_and_batch(seed=None):
    rng = np.random.default_rng(seed)
    params = start(int(rng.integers(1000)))
    momentum = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32) / 100, params)
    return params, momentum, jax.tree.map(jnp.asarray, next(stream(1, int(rng.integers(1000)))))


def inspect_step(params, momentum, batch):
    """What happened to the memory of each argument."""
    params, momentum, batch = jax.tree.map(jnp.copy, (params, momentum, batch))
    bill = receipt(in_place(step), params, momentum, batch)
    leaves = jax.tree.leaves((params, momentum))
    places = [leaf.unsafe_buffer_pointer() for leaf in leaves]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = jax.tree.leaves(in_place(step)(params, momentum, batch)[:2])
    return {
        "bytes of the receipt's alias": bill["alias"],
        "donated and not usable": bill["donated"] > bill["alias"],
        "old params and momentum deleted": all(leaf.is_deleted() for leaf in leaves),
        "new ones in their places": sorted(leaf.unsafe_buffer_pointer() for leaf in result) == sorted(places),
        "batch deleted": any(leaf.is_deleted() for leaf in jax.tree.leaves(batch)),
    }


def expected_step(params, momentum, batch):
    return {
        "bytes of the receipt's alias": sum(leaf.nbytes for leaf in jax.tree.leaves((params, momentum))),
        "donated and not usable": False,
        "old params and momentum deleted": True,
        "new ones in their places": True,
        "batch deleted": False,
    }


first = model_and_batch(seed=0)
slow_values = step_slow(*first)
assert_equal(
    inspect_step(*first),
    expected_step(*model_and_batch(seed=0)),
    name="in_place",
    hints={
        "bytes of the receipt's alias": "Parameters and momentum are both state: both go in, both come out.",
        "donated and not usable": "Nothing of the batch's shape comes out: do not donate it.",
    },
)
in_place_values = in_place(step)(*model_and_batch(seed=0))
assert_allclose(in_place_values, slow_values, rtol=1e-4, atol=1e-6, name="step, in place")
### BEGIN HIDDEN TESTS
fresh = model_and_batch()
slow_values = step_slow(*fresh)
fresh_copies = jax.tree.map(jnp.copy, fresh)
assert_allclose(in_place(step)(*fresh_copies), slow_values, rtol=1e-4, atol=1e-6, name="step, in place")
assert_equal(inspect_step(*fresh), expected_step(*model_and_batch()), name="in_place")


def plain_step(params, momentum, batch):
    value, slope = jax.value_and_grad(loss)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, slope), momentum, value


other = jax.jit(plain_step)(*model_and_batch(seed=3))
assert_allclose(in_place(plain_step)(*model_and_batch(seed=3)), other, rtol=1e-4, atol=1e-6, name="another step")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "hoarder-train", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The training returns the same, spares the caller's model, and never holds six models."""


def trained(steps, seed):
    """The three results, whether the caller's parameters are gone, and how many donations did not come off."""
    params, refused, donating = start(seed), [], jax.jit(step, donate_argnums=(0, 1))

    def watched(params, momentum, batch):
        given = jax.tree.leaves((params, momentum))
        results = donating(params, momentum, batch)
        refused.extend(leaf for leaf in given if not leaf.is_deleted())
        return results

    results = train(watched, params, stream(steps, seed))
    return results, any(leaf.is_deleted() for leaf in jax.tree.leaves(params)), len(refused)


def most_alive(steps, seed):
    """The most models alive in a training whose step donates."""
    return peak_models(train, jax.jit(step, donate_argnums=(0, 1)), steps, seed)


def room(steps, seed=0):
    peak = most_alive(steps, seed)
    return {f"models alive, {steps} steps": "at most 5.5" if peak <= 5.5 else f"{peak:.1f}"}


got, lost, refused = trained(12, seed=0)
assert_allclose(got, train_slow(step_slow, start(0), stream(12, 0)), rtol=1e-3, atol=1e-5, name="train")
hoard = "A name in a loop keeps its array alive, and so does a list. What do you still need after the step?"
assert_equal(
    {"the caller's params deleted": lost, "donations refused": refused} | room(12),
    {"the caller's params deleted": False, "donations refused": 0, "models alive, 12 steps": "at most 5.5"},
    name="train",
    hints={
        "donations refused": "Memory that NumPy looks at is not given away: a view on the host is no copy.",
        "the caller's params deleted": "The first step deletes what it gets. Has the caller a name for it?",
        "models alive, 12 steps": hoard,
    },
)
### BEGIN HIDDEN TESTS
seed = int(np.random.default_rng().integers(1, 1000))
got, _, _ = trained(7, seed)
kinds = {"losses": ", ".join(sorted({type(value).__name__ for value in got[2]}))}
assert_equal(kinds, {"losses": "float"}, name="train")
assert_allclose(got, train_slow(step_slow, start(seed), stream(7, seed)), rtol=1e-3, atol=1e-5, name="train")
expected = {"models alive, 30 steps": "at most 5.5"}
assert_equal(room(30, seed), expected, name="train", hints={"models alive, 30 steps": hoard})


def scripted(params, momentum, batch):
    """A step whose loss is what the batch says."""
    return jax.tree.map(lambda leaf: leaf + 1, params), momentum, jnp.float32(batch)


def trained_by_script(values, seed):
    """The three results of a training whose losses are these."""
    return train(jax.jit(scripted, donate_argnums=(0, 1)), start(seed), values)


scripts = [300.0, 120.0, 120.0, 250.0], [-1.0, 2.0, -3.0, -3.0], [1.0, 2e-6, 1.99999e-6, 1.0]
scripts += [-2.0, 1.0, 0.0], [2e30, 1e30], [0.5]  # the first step is the best, the last, and both
for values in scripts:
    got = trained_by_script(values, seed)
    assert_allclose(got, train_slow(jax.jit(scripted), start(seed), values), name="train, equal or nearly equal losses")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · A memory that must not grow (3 points)
#
# A network that writes text remembers something of every word so far, and compares each new word with all of it:
# `recall`. The obvious way to remember is `remember_slow`: append a row. It even donates. But a longer array does
# not fit into the old one's memory, so it is copied for every word; and as every length is a new shape, **every
# word compiles a new program**.
#
# Write `remember`. Its cache has its full length from the start; `count` says how many rows are filled. Write `item`
# into the next row, and return the cache and the same answer that `recall` gives for the filled rows, the new one
# included. (What the rows behind them contain is garbage, some finite numbers: it must not matter.) One program for all
# words, the cache always in the same place, and at most half of its size as scratch space.
#
# <details><summary>Hint 1</summary>
# The shape may not depend on <code>count</code>, so <code>cache[:count]</code> is out. What could be done to the
# scores of rows that do not count, such that softmax gives them no weight?
# </details>
# <details><summary>Hint 2</summary>
# <code>receipt(remember, cache, 3, item)</code>: is <code>alias</code> the whole cache, is <code>temp</code> small?
# Scratch space of the cache's size is a copy. XLA makes one if somebody wants to read the old cache after it was
# written to, or if every row moves.
# </details>
# <details><summary>Hint 3</summary>
# <code>cache.at[count].set(item)</code>, and from then on only the new cache. The score of row i is
# <code>jnp.where(jnp.arange(len(cache)) &lt;= count, cache @ item, -jnp.inf)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "cache-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def recall(rows, item):
    """The rows: float32[t, d], averaged by how similar they are to item: float32[d]. Returns float32[d]."""
    return jax.nn.softmax(rows @ item) @ rows


@functools.partial(jax.jit, donate_argnums=0)
def remember_slow(rows, item):
    """Appends item to rows: float32[t, d]. Returns float32[t + 1, d] and the answer for all of them."""
    rows = jnp.concatenate([rows, item[None]])
    return rows, recall(rows, item)


def words(n, d, seed=None):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


# %% nbgrader={"grade": false, "grade_id": "cache", "locked": false, "schema_version": 3, "solution": true, "task": false}
@functools.partial(jax.jit, donate_argnums=0)
def remember(cache, count, item):
    """Writes item in row `count` of cache: float32[capacity, d]. Returns the cache and the answer."""
    ### BEGIN SOLUTION
    # The shape stays, a mask says what counts, and nobody reads the old cache after the write.
    cache = cache.at[count].set(item)
    scores = jnp.where(jnp.arange(len(cache)) <= count, cache @ item, -jnp.inf)
    return cache, jax.nn.softmax(scores) @ cache
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "cache-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Twenty words: the right answers, one program, one place in memory, and no copy."""


def remembered(items, capacity, garbage):
    """The answers for one item after the other, and where the cache lay."""
    cache = jnp.full((capacity, items.shape[1]), garbage, jnp.float32)
    places, answers = {cache.unsafe_buffer_pointer()}, []
    for count, item in enumerate(items):
        cache, answer = remember(cache, count, item)
        places.add(cache.unsafe_buffer_pointer())
        answers.append(answer)
    return np.stack(answers), len(places)


def right_answers(items):
    """recall, in NumPy and float64."""
    answers = []
    for t, item in enumerate(items.astype(np.float64)):
        rows = items[: t + 1].astype(np.float64)
        weights = np.exp(rows @ item - (rows @ item).max())
        answers.append(weights @ rows / weights.sum())
    return np.stack(answers).astype(np.float32)


def cache_bill(capacity, d):
    """Two lines of the receipt of `remember`, in caches."""
    cache = jnp.zeros((capacity, d))
    bill = receipt(remember, cache, 3, cache[0])
    temp = bill["temp"] / cache.nbytes
    return {
        "alias, in caches": bill["alias"] / cache.nbytes,
        "temp, in caches": "at most 0.5" if temp <= 0.5 else f"{temp:.2f}",
        "donated and not usable": bill["donated"] > bill["alias"],
    }


twenty = words(20, 16, seed=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with assert_max_traces(remember, 1):
        answers, places = remembered(twenty, 256, garbage=9.0)
alike_twice = np.allclose(answers, remembered(twenty, 256, garbage=-4.0)[0], rtol=1e-4, atol=1e-5)
assert_equal(
    {"the answers depend on what lies behind": not alike_twice},
    {"the answers depend on what lies behind": False},
    name="remember",
    hints={"the answers depend on what lies behind": "Unfilled rows have scores: softmax gives them weight."},
)
assert_allclose(answers, right_answers(twenty), rtol=1e-4, atol=1e-5, name="answers")
assert_equal(
    cache_bill(256, 16) | {"places of the cache": places},
    {
        "alias, in caches": 1,
        "temp, in caches": "at most 0.5",
        "donated and not usable": False,
        "places of the cache": 1,
    },
    name="remember",
    hints={
        "alias, in caches": "Does a result of the cache's own shape come back, and is the cache donated?",
        "temp, in caches": "A copy: every row moves, or the old cache is read after the new one is written.",
        "places of the cache": "The cache is copied in every call.",
    },
)
### BEGIN HIDDEN TESTS
more, capacity = words(12, 24), int(np.random.default_rng().integers(300, 500))
answers, places = remembered(more, capacity, garbage=np.float32(1e38) * np.sign(more[0]))  # a score of inf
assert_allclose(answers, right_answers(more), rtol=1e-4, atol=1e-5, name="answers")
for size in (0.01, 1, 20):  # from words that are nearly alike to words of which one says all
    full = words(capacity, 24) * np.float32(size)
    full[: capacity // 2] = 0  # such rows count as well
    _, answer = remember(jnp.asarray(full), capacity - 1, full[-1])
    desired = right_answers(full)[-1]
    assert_allclose(answer, desired, rtol=1e-3, atol=2e-4 * size, name="the answer of a full cache")
assert_equal({"places of the cache": places}, {"places of the cache": 1}, name="remember")
full[1], full[2] = 3 * full[-1], 2.5 * full[-1]  # longer words that point the same way: their scores are higher
_, answer = remember(jnp.asarray(full), capacity - 1, full[-1])
assert_allclose(answer, right_answers(full)[-1], rtol=1e-3, atol=2e-4 * size, name="the answer, with longer words")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · One program for every table (3 points)
#
# `make_ranker_slow(table)` returns a function that says how many entries of the table are smaller than each `x`. It
# is jitted, and closes over the table: so the table is compiled into the program, sorted by the compiler while you
# wait, and **every new table is a new program**.
#
# Write `rank` and `make_ranker`. Rankers of tables of the same shape share their programs: making and calling a second
# one compiles **nothing**. Each table is sorted **once** at most, when its ranker is made: a call neither sorts nor calls
# back to the host, and what becomes of the table afterwards does not matter to it. Nothing is NaN.
#
# <details><summary>Hint 1</summary>
# The compiler did one thing right: it sorted only once. What of the table does a call really need?
# </details>
# <details><summary>Hint 2</summary>
# Put <code>with trace_log() as log:</code> around making and calling a second ranker, and look at
# <code>log.modules</code>. What is built there was built with the table inside, or by a function that is new each
# time.
# </details>
# <details><summary>Hint 3</summary>
# <code>rank</code> is jitted once, for the module, and gets the sorted numbers as an argument. <code>make_ranker</code>
# sorts, and returns <code>functools.partial(rank, ordered)</code>, which is not jitted again.
# </details>


# %% nbgrader={"grade": false, "grade_id": "ranker-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def make_ranker_slow(table):
    """table: float32[m, n]. Returns a function of x: float32[k], the number of smaller entries: int32[k]."""

    @jax.jit
    def ranker(x):
        return jnp.searchsorted(jnp.sort(table, axis=None), x)

    return ranker


def some_tables(number, shape=(8, 16), seed=None):
    """`number` tables of one shape, NumPy float32."""
    return np.random.default_rng(seed).normal(size=(number, *shape)).astype(np.float32)


def programs_built(make, tables, x):
    """The XLA modules that it takes to make a ranker of each table and to call it twice, as text."""
    with trace_log() as log:
        for table in tables:
            ranker = make(table)
            ranker(x)
            ranker(x + 1)
    return ", ".join(log.modules) or "none"


three = some_tables(3, seed=0)
print("programs for three tables:", programs_built(make_ranker_slow, three, np.zeros(5, np.float32)))


# %% nbgrader={"grade": false, "grade_id": "ranker", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def rank(ordered, x):
    """How many of the sorted numbers ordered: float32[n] are smaller than each of x: float32[k]."""
    ### BEGIN SOLUTION
    return jnp.searchsorted(ordered, x)
    ### END SOLUTION


def make_ranker(table):
    """The same as make_ranker_slow; all rankers of one shape share their programs, and sort once."""
    ### BEGIN SOLUTION
    # Constant folding by hand: once for each table, at run time, on the real machine. Then an argument.
    return functools.partial(rank, jnp.sort(table, axis=None))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "ranker-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The same ranks, nothing compiled for a second table, and no sorting in a call."""
points = np.linspace(-2, 2, 5, dtype=np.float32)


def ranks_in(tables, x):
    """The ranks of x in each table, by rankers of yours."""
    return np.stack([make_ranker(table)(x) for table in tables])


made = ranks_in(three, points)
assert_allclose(made, np.stack([make_ranker_slow(table)(points) for table in three]), name="ranks")
built = {"for two more tables": programs_built(make_ranker, some_tables(2, seed=1), points)}
assert_equal(
    built,
    {"for two more tables": "none"},
    name="make_ranker",
    hints={
        "for two more tables": "A program with a table in it serves that table only, and a function that is "
        "jitted anew has an empty cache."
    },
)


ranker_of_three = make_ranker(three[0])


def one_call(x):
    return ranker_of_three(x)


assert_primitives(one_call, points, excludes={"sort", "top_k", "pure_callback", "io_callback"})
### BEGIN HIDDEN TESTS
fresh_tables = some_tables(3, shape=(5, 11))
fresh_tables[:, 0] = fresh_tables[:, 1]  # some numbers occur twice
points = np.random.default_rng().normal(size=7)
points = np.concatenate([fresh_tables[0, 0], points, [np.inf, -np.inf]]).astype(np.float32)


def ranks_of_lent(tables, x):
    """The tables after their rankers were made; then, with zeros in their memory, the ranks, and those of a new one."""
    lent = tables.copy()
    made = [make_ranker(table) for table in lent]
    jax.block_until_ready(jax.live_arrays())
    after = lent.copy()
    lent[:] = 0  # from here on, somebody else uses that memory
    return after, np.stack([ranker(x) for ranker in made]), make_ranker(lent[0])(x)


after, got, again = ranks_of_lent(fresh_tables, points)
assert_allclose(after, fresh_tables, name="the tables, after their rankers were made")
counted = [(table[..., None] < points).sum((0, 1)).astype(np.int32) for table in fresh_tables]
assert_allclose(got, np.stack(counted), name="ranks")
zeros = fresh_tables[0].size * (points > 0)  # in the same memory, another table
assert_allclose(again, zeros, name="ranks in a table that was overwritten")
alike = np.concatenate([fresh_tables[:1, :1], fresh_tables[1:2, 1:]], axis=1)[0]  # the first row of an earlier one
assert_allclose(make_ranker(alike)(points), (alike[..., None] < points).sum((0, 1)), name="ranks in a similar table")
large = some_tables(1, shape=(300, 401))[0]  # of a table's size nothing is said
large[0, :3] = -np.inf, np.inf, points[0]
for table, name in ((large, "ranks in a large table"), (large[:1, 3:4], "ranks in a table of one number")):
    assert_allclose(make_ranker(table)(points), (table[..., None] < points).sum((0, 1)), name=name)


def ranks_of_deleted(table, x):
    """Whether the table is deleted when a ranker was made and called, and the ranks after its owner has deleted it."""
    on_device = jnp.asarray(table)
    ranker = make_ranker(on_device)
    ranker(x)
    if on_device.is_deleted():
        return True, None
    on_device.delete()  # or its owner donates it
    return False, ranker(x)


lost, got = ranks_of_deleted(alike, points)
assert_equal({"the caller's table deleted": lost}, {"the caller's table deleted": False}, name="make_ranker")
name = "ranks in a table that was deleted"
assert_allclose(got, (alike[..., None] < points).sum((0, 1)), name=name)
built = {"for two more tables": programs_built(make_ranker, some_tables(2, shape=(5, 11)), points)}
assert_equal(built, {"for two more tables": "none"}, name="make_ranker")


def sorts_in_a_call(x):
    """How often NumPy or Python sorts while a ranker, made but not yet called, is called."""
    import sys

    heard, last_made, notebook = [], make_ranker(fresh_tables[0]), some_tables.__globals__

    def listen(frame, event, function):
        by_an_array = isinstance(getattr(function, "__self__", None), np.ndarray)
        heard_of = event == "c_call" and (by_an_array or frame.f_globals is notebook)
        if heard_of and function.__name__ in {"sort", "sorted", "argsort", "partition"}:
            heard.append(function.__name__)

    sys.setprofile(listen)
    try:
        last_made(x)
    finally:
        sys.setprofile(None)
    return len(heard)


assert_equal({"sorts in a call": sorts_in_a_call(points)}, {"sorts in a call": 0}, name="make_ranker")
assert_allclose(jax.jit(one_call)(points), make_ranker_slow(three[0])(points), name="ranks, under jit")
flat = np.sort(fresh_tables[0], axis=None)
assert_allclose(rank(flat, points), (flat[:, None] < points).sum(0).astype(np.int32), name="rank")
owned, tied = some_tables(1, shape=(5, 11))[0], some_tables(2, shape=(5, 11))
make_ranker(owned)(points)
owned[:] = 0
name = "ranks in a table with other numbers in it"
assert_allclose(make_ranker(owned)(points), owned.size * (points > 0), name=name)
tied[1, 0, :3] = tied[1, 1, :3]
built = {"for a table in which numbers occur twice": programs_built(make_ranker, tied, points)}
assert_equal(built, {"for a table in which numbers occur twice": "none"}, name="make_ranker")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · The flight recorder (5 points)
#
# `simulate` runs a loop inside a jitted program. It belongs to somebody else: you may give it a `step`, and it
# returns the last state, nothing else. When something goes wrong, you want to know **the last few states before the
# end**, and not to pay for all of them.
#
# A flight recorder is a ring. State number n (from 0, over all flights together) is written into row `n % k` of `box`,
# a ref (an array that a jitted function may write into) of k rows; `count`, a ref of one integer, says how many states
# there have been. Write `flight(x, box, count)`: 1000 steps from `x` with the recorder switched on, by `simulate` or a
# loop like it. It returns the last state, and leaves `x` as it is. Every state *after* a step is recorded. All
# flights share one program for each k, whatever box of k rows they get, and it has no room for all states: its scratch
# space is at most 5000 bytes, where 1000 states fill 8000.
#
# <details><summary>Hint 1</summary>
# You cannot change the loop. But who says that the <code>step</code> you hand in must be <code>glide</code> itself?
# </details>
# <details><summary>Hint 2</summary>
# A function inside <code>flight</code> may close over its refs: <code>box[i] = state</code> inside a loop's body is
# allowed, and goes through the loop without being in its state. <code>count[...]</code> is the value of
# <code>count</code>.
# </details>
# <details><summary>Hint 3</summary>
# <code>def recorded(state):</code> make the new state with <code>glide</code>, write it into
# <code>box[count[...] % box.shape[0]]</code>, add one to <code>count[...]</code>, return the new state. Then
# <code>return simulate(recorded, x, 1000)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "recorder-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def glide(state):
    """One step of a paper plane that finds its height. state: float32[2], height and speed."""
    height, speed = state
    return jnp.stack([height + 0.01 * speed, speed - 0.01 * (height + 0.3 * speed)])


def simulate(step, state, n):
    """Somebody else's loop: n steps from state, of which only the last comes out."""
    return lax.fori_loop(0, n, lambda _, state: step(state), state)


def ring_slow(starts, k):
    """What box and count must contain after flights from each of `starts`: float32[k, 2] and an int."""
    states = []
    for state in starts:
        for _ in range(1000):
            height, speed = state
            state = (height + 0.01 * speed, speed - 0.01 * (height + 0.3 * speed))
            states.append(state)
    ring = np.zeros((k, 2))
    for n, state in enumerate(states):
        ring[n % k] = state
    return ring.astype(np.float32), len(states)


def recorder(k):
    """An empty recorder of k rows: box and count."""
    return jax.new_ref(jnp.zeros((k, 2))), jax.new_ref(jnp.int32(0))


# %% nbgrader={"grade": false, "grade_id": "recorder", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def flight(x, box, count):
    """1000 recorded steps of glide from x: float32[2]. box: ref float32[k, 2]; count: ref int32[]."""

    ### BEGIN SOLUTION
    # The refs go into the loop by closure: neither simulate nor its state has to know of them.
    def recorded(state):
        state = glide(state)
        box[count[...] % box.shape[0]] = state
        count[...] += 1
        return state

    return simulate(recorded, x, 1000)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "recorder-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Two flights: the last states in the ring, in one place, by one program, no room for all states."""


def flown(starts, k):
    """Last state, ring and count after some flights, and whether the box is where it was."""
    box, count = recorder(k)
    place = box.unsafe_buffer_pointer()
    for state in starts:
        last = flight(np.float32(state), box, count)
    return last, box[...], int(count[...]), box.unsafe_buffer_pointer() == place


def room_of_flight(k):
    """Bytes of scratch space of a flight with a recorder of k rows."""
    return receipt(flight, np.ones(2, np.float32), *recorder(k))["temp"]


def assert_flights(starts, k):
    last, ring, count, same = flown(starts, k)
    expected_ring, expected_count = ring_slow(starts, k)
    end = expected_ring[(expected_count - 1) % k]
    assert_allclose(last, end, rtol=1e-3, atol=1e-5, name="the last state")
    agree = np.isclose(ring, expected_ring, rtol=1e-3, atol=1e-5).all(axis=1)
    wrong_rows = np.flatnonzero(~agree).tolist()
    assert_equal(
        {"wrong rows of the ring": wrong_rows, "count": count, "the box in its place": same},
        {"wrong rows of the ring": [], "count": expected_count, "the box in its place": True},
        name="flight",
        hints={
            "wrong rows of the ring": "State n goes into row n % k, with n counted over all flights; it is "
            "the state that came out of a step, not the one that went in."
        },
    )


flights = [(1.0, 0.0), (0.5, -2.0)]
with assert_max_traces(flight, 1):
    flown(flights, 7)
    flown(flights, 7)  # with another box
assert_flights(flights, 7)
room_for = room_of_flight(7)
assert_equal(
    {"scratch space": "at most 5000 bytes" if room_for <= 5000 else f"{room_for} bytes"},
    {"scratch space": "at most 5000 bytes"},
    name="flight",
    hints={"scratch space": "What comes out of each round of a loop is kept until its end, for all rounds."},
)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
for k in (int(rng.choice([6, 9, 11, 13, 30])), 1, 1203):
    assert_flights([tuple(rng.normal(size=2)) for _ in range(3)], k)


def flown_high():
    """The ring, after very many flights, of one that begins very high."""
    box, count = recorder(7)
    count[...] = jnp.int32(7 * 2**24)
    flight(np.float32([2**24, 0]), box, count)
    return np.asarray(box[...])


high_ring = flown_high() / 2**24
assert_allclose(high_ring, ring_slow([(1.0, 0.0)], 7)[0], rtol=1e-3, atol=1e-5, name="the ring, a high flight")
crashed = {"rows that are NaN": int(np.isnan(flown([(np.nan, 0.0)], 3)[1]).all(axis=1).sum())}
assert_equal(crashed, {"rows that are NaN": 3}, name="a flight from NaN")
room_for = room_of_flight(1203)
assert_equal({"at most 5000 bytes": room_for <= 5000}, {"at most 5000 bytes": True}, name="flight, 1203 rows")


def flown_under_jit():
    """The ring after a flight that is jitted once more."""
    box, count = recorder(7)
    jax.jit(flight)(np.float32([1, 0]), box, count)
    return box[...]


def start_after_flight():
    """The numbers from which a flight began, or that they are gone."""
    launch = jnp.array([1.0, 0.0])
    flight(launch, *recorder(7))
    return "deleted" if launch.is_deleted() else launch.tolist()


ring_under_jit = flown_under_jit()
assert_allclose(ring_under_jit, ring_slow([(1.0, 0.0)], 7)[0], rtol=1e-3, atol=1e-5, name="the ring, under jit")
kept = {"the start": start_after_flight()}
assert_equal(kept, {"the start": [1.0, 0.0]}, name="flight (its start after the call)")
### END HIDDEN TESTS

# %% [markdown]
# **What need not move** (2 points). In a hall you hear the sound of now and, softer, what you heard a moment ago, for the
# walls throw it back. `echo_slow` computes that for every seat. It keeps what was heard in the last `delay` moments in a
# line, the oldest first. In each moment the oldest row goes, a new one comes, and all rows in between move up by one.
#
# Write `echo`, which computes the same for any delay and for any number of moments and of seats, from one on. No
# callback. When all of this holds, speed over `echo_slow` counts: for 256 moments at 512 seats with a delay of 128, 3x as
# fast earns 1 point, 6x earns 2. (Compiling is not timed.)
#
# <details><summary>Hint 1</summary>
# How many rows are new in a moment, and how many does <code>echo_slow</code> write? A row that was written once need
# not be written again, if you know where to find it.
# </details>
# <details><summary>Hint 2</summary>
# A ring, as in your recorder? Try it, and look at its receipt: <code>receipt(echo, *hall(256, 128, 512))["temp"]</code>.
# A ring has 262,144 bytes, and there is room for two. The row that you read is wanted twice, for the ring and for the
# result. XLA may read it at each of these places, and then the second comes after the ring was written to: so it copies
# the whole ring first, in each moment. But what is the result, if not all that was heard, in order?
# </details>
# <details><summary>Hint 3</summary>
# Begin with <code>heard = jnp.concatenate([tail, sound])</code>, and no line and no ring. In moment <code>n</code> row
# <code>n + delay</code> is the sound of now, and row <code>n</code> was heard a delay ago: add 0.6 of it, with
# <code>heard.at[...].add(...)</code>, in a <code>lax.fori_loop</code> that hands on <code>heard</code> alone.
# </details>


# %% nbgrader={"grade": false, "grade_id": "echo-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
@jax.jit
def echo_slow(sound, tail):
    """What is heard: the sound and 0.6 of what was heard a delay ago. Returns float32[moments, seats].

    sound: float32[moments, seats]. tail: float32[delay, seats], what was heard before, the oldest first.
    """

    def moment(line, now):
        now = now + 0.6 * line[0]
        return jnp.concatenate([line[1:], now[None]]), now

    return lax.scan(moment, tail, sound)[1]


def hall(moments, delay, seats, seed=None):
    """The sound in a hall, and the tail of what was heard before, NumPy float32."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(rows, seats)).astype(np.float32) for rows in (moments, delay))


# %% nbgrader={"grade": false, "grade_id": "echo", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def echo(sound, tail):
    """The same as echo_slow, and no row moves. sound: float32[moments, seats]; tail: float32[delay, seats]."""
    ### BEGIN SOLUTION
    # All that was heard stands in the result, each row in its place: it is written once, and nothing moves.
    delay = len(tail)
    heard = jnp.concatenate([tail, sound])
    heard = lax.fori_loop(0, len(sound), lambda n, heard: heard.at[n + delay].add(0.6 * heard[n]), heard)
    return heard[delay:]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "echo-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The same echo; then speed over a line that moves: 3x earns 1 point, 6x earns 2."""
small = hall(24, 8, 5, seed=4)
assert_allclose(echo(*small), echo_slow(*small), rtol=1e-4, atol=1e-5, name="echo")
assert_primitives(echo, *small, excludes={"pure_callback", "io_callback"})
### BEGIN HIDDEN TESTS
for sizes in ((50, 7, 3), (9, 20, 4), (1, 1, 1), (30, 1, 2)):
    heard, name = hall(*sizes), "echo of {} moments, delay {}, {} seats".format(*sizes)
    assert_allclose(jax.jit(echo)(*heard), echo_slow(*heard), rtol=1e-4, atol=1e-5, name=name)
sound, tail = hall(20, 6, 4)
sound[3, 1], tail[4, 2] = np.nan, np.inf
assert_allclose(echo(sound, tail), echo_slow(sound, tail), rtol=1e-4, atol=1e-5, name="echo of NaN and inf")
sound, tail = (np.float32(1e30) * rows for rows in hall(48, 1, 2))  # no power of 1 / 0.6 may come in
assert_allclose(echo(sound, tail), echo_slow(sound, tail), rtol=1e-4, name="echo of loud sounds, 48 moments, delay 1")
clap, silence = np.zeros((160, 2), np.float32), np.zeros((1, 2), np.float32)
clap[0] = 1
name = "echo of a clap, 160 moments, delay 1"
assert_allclose(echo(clap, silence), echo_slow(clap, silence), rtol=1e-4, atol=0, name=name)
### END HIDDEN TESTS
race = speedup(echo, echo_slow, *hall(256, 128, 512, seed=5), at_least=6)
slow, fast = (1e6 * race.seconds[side] / 256 for side in ("baseline", "candidate"))
print(f"a moment takes {slow:.2f} us where all rows move, and {fast:.2f} us in yours")
### BEGIN HIDDEN TESTS
if race.at_least(3) == "pass":  # else the last line says why
    other = speedup(echo, echo_slow, *hall(300, 100, 400), at_least=2)
    assert_equal({"2x as fast in another hall": other.verdict}, {"2x as fast in another hall": "pass"}, name="echo")
### END HIDDEN TESTS
partial_credit(race, {3: 1, 6: 2})

# %% [markdown]
# ## Task 6 · A loss on a diet (4 points)
#
# A language model scores every word of its vocabulary at every place of a text. The scores are by far the largest
# array in its training, and all that is wanted of them is one number: `loss_slow`.
#
# Write `loss_lean` with the same value and the same gradients, such that
#
# - the loss needs **at most a fifth** of the scratch space of `loss_slow` (2 points);
# - its **gradient** by `X` and `E` needs at most a fifth of the scratch space of `loss_slow`'s gradient (2 points).
#
# The number of places is a multiple of 32, and 512 or more. No callbacks: their memory is in no memory analysis. What
# is enough for the loss will probably not be enough for the gradient.
#
# <details><summary>Hint 1</summary>
# The loss is a mean over places. Which of them must be looked at together?
# </details>
# <details><summary>Hint 2</summary>
# <code>lax.map</code> goes through pieces one at a time. <code>show_hlo(loss_lean, X, E, y).temp_bytes</code> is the
# scratch space; for the gradient, <code>show_hlo(jax.grad(loss_lean, (0, 1)), X, E, y).temp_bytes</code>. What does a
# loop keep for the backward pass?
# </details>
# <details><summary>Hint 3</summary>
# Reshape <code>X</code> to [pieces, 32, d] and <code>y</code> to [pieces, 32]; <code>lax.map</code> a function of one
# piece, its <code>loss_slow</code>, over both, and take the mean. Then put <code>jax.checkpoint</code> around that
# function: the scores of a piece are computed again when it is its turn.
# </details>


# %% nbgrader={"grade": false, "grade_id": "diet-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def loss_slow(X, E, y):
    """How badly E: float32[words, d] predicts y: int32[places] from X: float32[places, d]."""
    scores = X @ E.T
    return (jax.nn.logsumexp(scores, axis=1) - scores[jnp.arange(len(y)), y]).mean()


def text(places, words=2048, d=16, seed=None):
    """X, E and y for a text of so many places."""
    rng = np.random.default_rng(seed)
    X, E = (rng.normal(size=shape).astype(np.float32) for shape in ((places, d), (words, d)))
    return X, E, rng.integers(0, words, places).astype(np.int32)


def slopes(fn):
    """The gradient of a loss by X and E."""
    return jax.grad(fn, argnums=(0, 1))


def scratch(fn, reference, *args):
    """Whether fn needs at most a fifth of the reference's scratch space; if not, what part of it."""
    part = show_hlo(fn, *args).temp_bytes / show_hlo(reference, *args).temp_bytes
    return "at most a fifth" if part <= 0.2 else f"{part:.2f} of it"


# %% nbgrader={"grade": false, "grade_id": "diet", "locked": false, "schema_version": 3, "solution": true, "task": false}
def loss_lean(X, E, y):
    """The same as loss_slow, in at most a fifth of its scratch space, forwards and backwards."""

    ### BEGIN SOLUTION
    # A piece at a time, and a checkpoint around it, or the loop would keep all scores for the way back.
    @jax.checkpoint
    def piece(part):
        return loss_slow(part[0], E, part[1])

    return lax.map(piece, (X.reshape(-1, 32, X.shape[1]), y.reshape(-1, 32))).mean()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "diet-loss", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The same loss, in at most a fifth of the scratch space."""
page = text(512, seed=0)
assert_allclose(jax.jit(loss_lean)(*page), jax.jit(loss_slow)(*page), rtol=1e-4, name="loss_lean")
assert_equal(
    {"scratch space of the loss": scratch(loss_lean, loss_slow, *page)},
    {"scratch space of the loss": "at most a fifth"},
    name="loss_lean",
    hints={"scratch space of the loss": "Is there an array with a number for every place and every word?"},
)
assert_primitives(loss_lean, *page, excludes={"pure_callback", "io_callback"})
### BEGIN HIDDEN TESTS
page = text(32 * int(np.random.default_rng().choice([17, 19, 23])), words=1500, d=12)
assert_allclose(jax.jit(loss_lean)(*page), jax.jit(loss_slow)(*page), rtol=1e-4, name="loss_lean")
spent = {"scratch space, other sizes": scratch(loss_lean, loss_slow, *page)}
assert_equal(spent, {"scratch space, other sizes": "at most a fifth"}, name="loss_lean")
X, E, y = page
for loud in ((50 * X, E, y), (50 * np.abs(X), -np.abs(E), y)):  # scores in the hundreds; all below zero
    assert_allclose(jax.jit(loss_lean)(*loud), jax.jit(loss_slow)(*loud), rtol=1e-4, name="loss_lean of large scores")
X, E, y = text(512, words=1499, d=12)
E[-1] *= 10  # the last word matters, and the number of words is a prime
odd = jax.jit(loss_lean)(X, E, y)
assert_allclose(odd, jax.jit(loss_slow)(X, E, y), rtol=1e-4, name="loss_lean of an odd number of words")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "diet-gradient", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The same gradients, in at most a fifth of the scratch space."""
page = text(512, seed=1)
assert_equal(
    {"scratch space of the gradient": scratch(slopes(loss_lean), slopes(loss_slow), *page)},
    {"scratch space of the gradient": "at most a fifth"},
    name="loss_lean",
    hints={
        "scratch space of the gradient": "On the way out each round of a loop leaves what the way back will "
        "read. Make it leave less, and compute it again."
    },
)
slopes_lean, slopes_slow = jax.jit(slopes(loss_lean)), jax.jit(slopes(loss_slow))
assert_allclose(slopes_lean(*page), slopes_slow(*page), rtol=1e-3, atol=1e-6, name="loss_lean's gradient")
assert_primitives(slopes(loss_lean), *page, excludes={"pure_callback", "io_callback"})
### BEGIN HIDDEN TESTS
page = text(32 * int(np.random.default_rng().choice([17, 19, 23])), words=1500, d=12)
spent = {"scratch space, other sizes": scratch(slopes(loss_lean), slopes(loss_slow), *page)}
assert_equal(spent, {"scratch space, other sizes": "at most a fifth"}, name="loss_lean")
assert_allclose(slopes_lean(*page), slopes_slow(*page), rtol=1e-3, atol=1e-6, name="loss_lean's gradient")
thrice = jax.jit(slopes(lambda X, E, y: 3 * loss_lean(X, E, y)))(*page)
desired = jax.tree.map(lambda leaf: 3 * leaf, slopes_slow(*page))
assert_allclose(thrice, desired, rtol=1e-3, atol=1e-6, name="the gradient of 3 * loss_lean")
loud = 50 * page[0], *page[1:]  # scores in the hundreds
assert_allclose(slopes_lean(*loud), slopes_slow(*loud), rtol=1e-3, atol=1e-4, name="the gradient of large scores")
low = 50 * np.abs(page[0]), -np.abs(page[1]), page[2]  # all of them below zero
assert_allclose(slopes_lean(*low), slopes_slow(*low), rtol=1e-3, atol=1e-4, name="the gradient of low scores")
### END HIDDEN TESTS
