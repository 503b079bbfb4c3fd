# %% [markdown]
# # Exercise 13 · Many devices
#
# Six tasks, 20 points, about {duration}. The lesson is
# [13 · Many devices: from pmap to shardings](../../lessons/13_many_devices.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. Everything runs on eight
# virtual devices of your CPU, whatever else the machine has: layouts, values and collectives are the same as on real devices.
# Nothing is timed. If the first cell complains that JAX has started already, restart the kernel. Where a check is
# folded, its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say which device holds which piece, and find the specs of six maps | 4 |
# | 2 | let heat flow round a ring of devices, in two ways | 3 |
# | 3 | compute mean and variance with few collectives and good digits | 4 |
# | 4 | compute a true gradient of a padded batch on any number of devices | 3 |
# | 5 | say what types results have on an explicit mesh | 2 |
# | 6 | choose layouts with which devices communicate as little as possible | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax
from jax.sharding import AxisType

from autograder import (
    assert_allclose,
    assert_equal,
    assert_hlo,
    assert_prediction,
    assert_primitives,
    trace_log,
)

jax.config.update("jax_default_matmul_precision", "highest")  # or a GPU or TPU drops digits of products (unit 10)

try:
    jax.config.update("jax_platforms", "cpu")  # eight devices, and the same layouts for everybody
    jax.config.update("jax_num_cpu_devices", 8)
except RuntimeError:
    late = "JAX has already started, with other devices: restart the kernel, then run this cell first"
    raise RuntimeError(late) from None


def mesh_of(shape, names):
    """The first devices as a mesh on which the compiler chooses layouts: mesh_of((4, 2), ("x", "y"))."""
    devices = jax.devices()[: int(np.prod(shape))]
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names), devices=devices)


RING = mesh_of((8,), ("i",))
GRID = mesh_of((4, 2), ("x", "y"))
CUBE = mesh_of((2, 2, 2), ("a", "b", "c"))


def place(array, mesh, spec):
    """The array, laid out."""
    return jax.device_put(array, jax.NamedSharding(mesh, spec))


# %% [markdown]
# ## Task 1 · Maps (4 points)
#
# **Reading.** On `GRID`, device `2 * x + y` stands in row `x` (0 to 3) and column `y` (0, 1). For a matrix of 16 x 24
# and each layout below: what is the shape of the piece that a device holds, and which devices hold the element
# `[5, 13]`? Write your answers before you run anything.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# | layout | spec |
# |---|---|
# | `both` | `P("x", "y")` |
# | `turned` | `P("y", "x")` |
# | `halves` | `P("y")` |
# | `columns` | `P(None, "x")` |
# | `stripes` | `P(("x", "y"))` |
# | `other_stripes` | `P(("y", "x"))` |
#
# **Drawing.** On `CUBE`, device `4 * a + 2 * b + c` stands at `(a, b, c)`, each 0 or 1. Here are six maps of a
# square matrix: the blocks of a row of blocks are separated by blanks, the rows by `/`, and a block says which devices
# hold it. Which spec draws each map? (Find `D` and you have understood it all.)
#
# | map | |
# |---|---|
# | `A` | `01 23 / 45 67` |
# | `B` | `0145 2367` |
# | `C` | `0 4 / 1 5 / 2 6 / 3 7` |
# | `D` | `0 / 4 / 2 / 6 / 1 / 5 / 3 / 7` |
# | `E` | `0 2 4 6 / 1 3 5 7` |
# | `F` | `04 26 / 15 37` |
#
# <details><summary>Hint 1</summary>
# Take one axis of the array at a time. Into how many parts is it cut, and which coordinate of a device says which part
# it gets? A coordinate that is named nowhere does not matter: devices that differ in it alone hold the same.
# </details>
# <details><summary>Hint 2</summary>
# In a tuple, the first name moves slowest: <code>P(("x", "y"))</code> goes through the devices as one counts,
# <code>(0,0), (0,1), (1,0), ...</code>. For a map, write each device number as three bits <code>a b c</code>, and see
# which bits change from row to row.
# </details>
# <details><summary>Hint 3</summary>
# <code>place(np.zeros((16, 24)), GRID, spec).addressable_shards</code> lists the pieces: each has <code>.device</code>,
# <code>.index</code> and <code>.data</code>. <code>drawn(spec)</code>, below, draws the map of any spec on
# <code>CUBE</code>.
# </details>

# %% nbgrader={"grade": false, "grade_id": "maps-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
LAYOUTS = {
    "both": P("x", "y"),
    "turned": P("y", "x"),
    "halves": P("y"),
    "columns": P(None, "x"),
    "stripes": P(("x", "y")),
    "other_stripes": P(("y", "x")),
}
MAPS = {
    "A": "01 23 / 45 67",
    "B": "0145 2367",
    "C": "0 4 / 1 5 / 2 6 / 3 7",
    "D": "0 / 4 / 2 / 6 / 1 / 5 / 3 / 7",
    "E": "0 2 4 6 / 1 3 5 7",
    "F": "04 26 / 15 37",
}


def boxes(array):
    """{(row, column) where a block begins: "the devices that hold it"}, in reading order."""
    held = {}
    for piece in sorted(array.addressable_shards, key=lambda piece: piece.device.id):
        corner = tuple(part.indices(8)[0] for part in piece.index)
        held[corner] = held.get(corner, "") + str(piece.device.id)
    return dict(sorted(held.items()))


def drawn(spec):
    """The map of an 8 x 8 matrix on CUBE, as in MAPS."""
    if not isinstance(spec, P):
        return f"no spec: {spec!r}"
    rows = {}
    for (row, _), devices in boxes(place(np.zeros((8, 8)), CUBE, spec)).items():
        rows.setdefault(row, []).append(devices)
    return " / ".join(" ".join(blocks) for blocks in rows.values())


print("P() draws", drawn(P()), "  and P(None, 'c') draws", drawn(P(None, "c")))


# %% nbgrader={"grade": false, "grade_id": "maps", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pieces():
    """Name of each layout -> [rows, columns] of one device's piece, of 16 x 24."""
    ### BEGIN SOLUTION
    # Each axis is divided by the sizes of the mesh axes that are named for it.
    return {
        "both": [4, 12],
        "turned": [8, 6],
        "halves": [8, 24],
        "columns": [16, 6],
        "stripes": [2, 24],
        "other_stripes": [2, 24],
    }
    ### END SOLUTION


def holders():
    """Name of each layout -> the numbers of the devices that hold the element [5, 13], in ascending order."""
    ### BEGIN SOLUTION
    # Which part is it along each axis? That fixes the named coordinates; the others are free.
    return {
        "both": [3],
        "turned": [4],
        "halves": [0, 2, 4, 6],
        "columns": [4, 5],
        "stripes": [2],
        "other_stripes": [4],
    }
    ### END SOLUTION


def specs_of_maps():
    """Name of each map in MAPS -> the spec P(...) that draws it on CUBE."""
    ### BEGIN SOLUTION
    # Device numbers in bits are a b c. D counts with the bits reversed.
    return {
        "A": P("a", "b"),
        "B": P(None, "b"),
        "C": P(("b", "c"), "a"),
        "D": P(("c", "b", "a")),
        "E": P("c", ("a", "b")),
        "F": P("c", "b"),
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "maps-pieces", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The shapes of the pieces are predicted right."""


def piece(spec):
    return list(place(np.zeros((16, 24)), GRID, spec).addressable_shards[0].data.shape)


assert_prediction(
    pieces,
    lambda: {name: piece(spec) for name, spec in LAYOUTS.items()},
    hints={
        "both": "Rows are cut along x, which is 4 long, columns along y, which is 2 long.",
        "turned": "The first entry of a spec is for the rows.",
        "halves": "An axis of the array that is not named is not cut.",
        "columns": "None leaves the rows whole.",
        "stripes": "Both axes of the mesh cut the rows, so into 4 x 2 parts.",
        "other_stripes": "The order in the tuple does not change how many parts there are.",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "maps-holders", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The devices that hold the element [5, 13] are predicted right."""


def holding(spec):
    table = np.zeros((16, 24))
    table[5, 13] = 1
    shards = place(table, GRID, spec).addressable_shards
    return sorted(piece.device.id for piece in shards if np.asarray(piece.data).any())


assert_prediction(
    holders,
    lambda: {name: holding(spec) for name, spec in LAYOUTS.items()},
    hints={
        "both": "Row 5 is in the part 5 // 4 of the rows, column 13 in the part 13 // 12 of the columns.",
        "turned": "Here y says which half of the rows a device gets, and x which quarter of the columns.",
        "halves": "x is not named: all devices with the right y hold the element.",
        "columns": "y is not named: all devices with the right x hold the element.",
        "stripes": "The first name in the tuple moves slowest.",
        "other_stripes": "y is first now, so it moves slowest: go through all x before y changes.",
    },
)

# %% nbgrader={"grade": true, "grade_id": "maps-drawn", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Each spec draws its map."""
assert_equal(
    {name: drawn(spec) for name, spec in specs_of_maps().items()},
    MAPS,
    name="the map of specs_of_maps()",
    hints={
        "C": "Going down, the last two bits count: 0, 1, 2, 3. Going right, the first bit changes.",
        "D": "Write 0 4 2 6 1 5 3 7 in bits. Which bit is the slowest, going down?",
        "E": "Going right, the first two bits count.",
        "F": "0 and 4 hold the same block, so the bit in which they differ is not named.",
    },
)
### BEGIN HIDDEN TESTS
as_given = (
    "01 23 / 45 67, 0145 2367, 0 4 / 1 5 / 2 6 / 3 7, 0 / 4 / 2 / 6 / 1 / 5 / 3 / 7, 0 2 4 6 / 1 3 5 7, 04 26 / 15 37"
)
assert_equal(dict(MAPS), dict(zip("ABCDEF", as_given.split(", "), strict=True)), name="MAPS, which are given,")
again = {name: drawn(spec) for name, spec in specs_of_maps().items()}
assert_equal(again, MAPS, name="the map of specs_of_maps(), called once more,")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 2 · The ring (3 points)
#
# A ring of metal, cut open into a vector `u` of temperatures. In each step every point moves towards its two
# neighbours, and the last point is a neighbour of the first. An older post does it with `pmap`, and its users must
# bring a table of eight rows. You get the plain vector, cut over `RING` along `"i"`; its length is a multiple of 8.
#
# Write it twice, jitted, with one trace for all rings of one length:
#
# - `diffuse_shards(u)`: with `jax.shard_map`. You are one device, and you send your neighbours what they need.
# - `diffuse(u)`: as if there were one device, without `shard_map`.
#
# Each is one module and may use **two `collective-permute`s and no other collective**, and each message is **one
# number**: no more has to cross a border. The result must be cut like `u`. No callbacks, here and in tasks 3 and 4.
#
# <details><summary>Hint 1</summary>
# Which numbers does a device lack to compute all of its points? Who has them? For the second function: which NumPy
# function moves a vector round by one?
# </details>
# <details><summary>Hint 2</summary>
# <code>lax.ppermute(v, "i", pairs)</code> sends <code>v</code> from the first to the second of each pair. Send slices
# of length 1, so that you can concatenate. If a collective is too many, <code>show_hlo(diffuse, u).collectives</code>
# (from <code>autograder</code>) counts them.
# </details>
# <details><summary>Hint 3</summary>
# In the body: <code>onwards = [(d, (d + 1) % 8) for d in range(8)]</code>, the left neighbour's last point is
# <code>lax.ppermute(part[-1:], "i", onwards)</code>, and the pairs for the other direction are these turned round. Then
# <code>around = jnp.concatenate([left, part, right])</code>. Without <code>shard_map</code>:
# <code>jnp.roll(u, 1)</code> is every point's left neighbour.
# </details>


# %% nbgrader={"grade": false, "grade_id": "ring-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def diffuse_slow(u):
    """One step, in NumPy. u: float32[n]."""
    return u + np.float32(0.1) * (np.roll(u, 1) - 2 * u + np.roll(u, -1))


def diffuse_post(u):
    """The same with pmap, as in an older post. u: float32[8, n]: a row for each device."""

    def one_row(part):
        left = lax.ppermute(part[-1], "i", [(d, (d + 1) % 8) for d in range(8)])
        right = lax.ppermute(part[0], "i", [((d + 1) % 8, d) for d in range(8)])
        around = jnp.concatenate([left[None], part, right[None]])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.pmap(one_row, axis_name="i")(u)


def temperatures(length, seed=None, middle=20):
    """A ring, cut over RING: float32[length]."""
    return place(np.random.default_rng(seed).normal(middle, 5, size=length).astype(np.float32), RING, P("i"))


def wrong_points(stepped, u):
    """How many points of a step are wrong: the first and last of each of eight pieces, and those inside."""
    wrong = ~np.isclose(np.asarray(stepped), diffuse_slow(np.asarray(u)), rtol=1e-5).reshape(8, -1)
    at_ends = wrong[:, 0].sum() + wrong[:, -1].sum()
    return {"at the ends of the pieces": int(at_ends), "inside them": int(wrong[:, 1:-1].sum())}


def cut_into(array):
    """How many points each device holds."""
    return [piece.data.size for piece in array.addressable_shards]


def message_sizes(fn, u):
    """How many numbers each collective-permute of the compiled program carries."""
    text = jax.jit(fn).lower(u).compile().as_text()
    shapes = re.findall(r"= \w+\[([\d,]*)\]\S* collective-permute\(", text)
    return [int(np.prod([int(size) for size in shape.split(",") if size])) for shape in shapes]


# %% nbgrader={"grade": false, "grade_id": "ring", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def diffuse_shards(u):
    """One step, with shard_map and ppermute. u: float32[n], cut over RING."""

    ### BEGIN SOLUTION
    # A block has the rank of the whole: no device axis to strip, and all it misses is one point at each end.
    def one_device(part):
        onwards = [(d, (d + 1) % 8) for d in range(8)]
        backwards = [(there, here) for here, there in onwards]
        left = lax.ppermute(part[-1:], "i", onwards)
        right = lax.ppermute(part[:1], "i", backwards)
        around = jnp.concatenate([left, part, right])
        return part + 0.1 * (around[:-2] - 2 * part + around[2:])

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P("i"))(u)
    ### END SOLUTION


@jax.jit
def diffuse(u):
    """One step, written for one device. u: float32[n], cut over RING."""
    ### BEGIN SOLUTION
    # Whole-array operations with a meaning. XLA knows that a roll is a word to the neighbour.
    return u + 0.1 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "ring-shards", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. diffuse_shards is right at the borders, and sends two messages."""
u = temperatures(64, seed=0)
stepped = diffuse_shards(u)
of_ends = "A device needs its left neighbour's last point and its right neighbour's first. 7 and 0 are neighbours."
assert_equal(
    wrong_points(stepped, u),
    {"at the ends of the pieces": 0, "inside them": 0},
    name="the number of wrong points",
    hints={"at the ends of the pieces": of_ends},
)
assert_equal({"points on each": cut_into(stepped)}, {"points on each": [8] * 8}, name="the layout")
assert_primitives(diffuse_shards, u, includes={"shard_map", "ppermute"}, excludes={"pure_callback"})
assert_hlo(diffuse_shards, u, modules=1, collectives={"collective-permute": 2})
assert_equal(
    {"numbers in a message": message_sizes(diffuse_shards, u)},
    {"numbers in a message": [1, 1]},
    name="diffuse_shards",
)
### BEGIN HIDDEN TESTS
for length in (8, 8 * int(np.random.default_rng().choice([17, 19, 23]))):
    u = temperatures(length, middle=-30)
    stepped = np.asarray(diffuse_shards(u))
    assert_allclose(stepped, diffuse_slow(np.asarray(u)), rtol=1e-5, name="diffuse_shards")
sizes = {"numbers in a message": message_sizes(diffuse_shards, u)}
assert_equal(sizes, {"numbers in a message": [1, 1]}, name="diffuse_shards of a longer ring")


def sent_back(v):
    """The step is linear. Its transpose sends back each message that counts in the result, and no other."""
    return jax.linear_transpose(diffuse_shards, v)(v)


unused = "No point that came by ppermute counts in the result. Use your own messages, inside shard_map."
assert_primitives(sent_back, u, includes={"ppermute"}, hint=unused)
for point, rest in ((31, slice(24, 30)), (24, slice(26, 32))):  # the ends of a piece are no neighbours
    hot = np.array(temperatures(64, seed=2))
    hot[point] = 1e9
    stepped = np.asarray(diffuse_shards(place(hot, RING, P("i"))))
    assert_allclose(stepped[rest], diffuse_slow(hot)[rest], rtol=1e-5, name=f"the piece of a very hot point, {point},")
stepped = np.asarray(jax.jit(diffuse_shards)(u))  # the program that was looked at
assert_allclose(stepped, diffuse_slow(np.asarray(u)), rtol=1e-5, name="jax.jit(diffuse_shards)")
from autograder import assert_max_traces

with assert_max_traces(diffuse_shards, 1):
    for _ in range(3):
        diffuse_shards(u)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "ring-jit", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. diffuse is written for one device, and XLA sends two messages."""
u = temperatures(96, seed=1)
stepped = diffuse(u)
assert_allclose(stepped, diffuse_slow(np.asarray(u)), rtol=1e-5, name="diffuse")
assert_equal({"points on each": cut_into(stepped)}, {"points on each": [12] * 8}, name="the layout")
assert_primitives(diffuse, u, excludes={"shard_map", "ppermute", "pure_callback"})
assert_hlo(diffuse, u, modules=1, collectives={"collective-permute": 2})
assert_equal({"numbers in a message": message_sizes(diffuse, u)}, {"numbers in a message": [1, 1]}, name="diffuse")
### BEGIN HIDDEN TESTS
u = temperatures(8 * int(np.random.default_rng().choice([17, 19, 23])), middle=-30)
stepped = np.asarray(diffuse(u))
assert_allclose(stepped, diffuse_slow(np.asarray(u)), rtol=1e-5, name="diffuse")
sizes = {"numbers in a message": message_sizes(diffuse, u)}
assert_equal(sizes, {"numbers in a message": [1, 1]}, name="diffuse of a longer ring")
assert_allclose(np.asarray(jax.jit(diffuse)(u)), diffuse_slow(np.asarray(u)), rtol=1e-5, name="jax.jit(diffuse)")
from autograder import assert_max_traces

with assert_max_traces(diffuse, 1):
    for _ in range(3):
        diffuse(u)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · One phone call (4 points)
#
# Mean and variance of each column of a table whose rows are cut over `RING`. `x.mean(0), x.var(0)` needs two
# collectives (two calls): every device needs the mean before the deviations can be added up. Adding up `x` and `x * x`
# needs one collective, and loses all digits when the mean is large (unit 09).
#
# Write `moments` with `jax.shard_map`, such that its digits are good, in **at most two collectives (2 points)**; and in
# **one (2 more)**. It is jitted, with one trace for all tables of one shape. The whole table must not be sent round: no
# intermediate on a device may be larger than a quarter of the whole table, which has at least 64 rows.
#
# <details><summary>Hint 1</summary>
# Every device knows the mean and the variance of its own rows, and these have all their digits. They are few numbers.
# </details>
# <details><summary>Hint 2</summary>
# What is the variance of eight equally large groups, if you know each group's mean and variance? It has two parts:
# within the groups and between them. Try it in NumPy on <code>x.reshape(8, -1, columns)</code>.
# </details>
# <details><summary>Hint 3</summary>
# <code>mine = jnp.stack([x.mean(0), x.var(0)])</code>; then
# <code>all_of_us = lax.all_gather(mine, "i", to="invarying")</code> has the shape <code>(8, 2, columns)</code>.
# (<code>to="invarying"</code> says that the result is one thing that all hold, as <code>out_specs=P()</code> wants.)
# The variance is the mean of the variances plus the variance of the means.
# </details>


# %% nbgrader={"grade": false, "grade_id": "call-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def moments_slow(x):
    """Mean and variance of each column, in NumPy float64. x: float32[n, columns]."""
    x = np.asarray(x, np.float64)
    return x.mean(0).astype(np.float32), x.var(0).astype(np.float32)


KINDS = {"level": (0, 0), "wandering": (0, 3), "far": (3000, 3)}  # the mean, and how far it wanders


def table_of(kind, rows, columns, seed=None):
    """A table of this kind: its mean wanders slowly from top to bottom. float32[rows, columns], over RING."""
    mean, wander = KINDS[kind]
    rng = np.random.default_rng(seed)
    table = rng.normal(mean, 2, size=(rows, columns)) + np.linspace(-wander, wander, rows)[:, None]
    return place(table.astype(np.float32), RING, P("i"))


def which_agree(found, x):
    """Which of the two agree with the specification: a list, of "mean" and "variance"."""
    pairs = zip(("mean", "variance"), found, moments_slow(x), strict=True)
    return [name for name, mine, true in pairs if np.allclose(mine, true, rtol=2e-3, atol=1e-5)]


DIGITS = {
    "wandering": "The devices' means differ from each other. That is part of the variance, too.",
    "far": "With large means, a difference of sums of squares has lost its digits. Take deviations first.",
}


# %% nbgrader={"grade": false, "grade_id": "call", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def moments(x):
    """(mean, variance) of each column, float32[columns], on all devices. x: float32[n, columns], over RING."""

    ### BEGIN SOLUTION
    # Good local numbers, one exchange of a few: the variance within the groups, plus that between them.
    def one_device(x):
        mine = jnp.stack([x.mean(0), x.var(0)])
        means, variances = lax.all_gather(mine, "i", axis=1, to="invarying")
        return means.mean(0), variances.mean(0) + means.var(0)

    return jax.shard_map(one_device, mesh=RING, in_specs=P("i"), out_specs=P())(x)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "call-digits", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Mean and variance have their digits, in at most two collectives."""
tables = {kind: table_of(kind, 512, 6, seed=0) for kind in KINDS}
right = {kind: which_agree(moments(x), x) for kind, x in tables.items()}
assert_equal(right, dict.fromkeys(KINDS, ["mean", "variance"]), name="moments", hints=DIGITS)
x = tables["far"]
assert_primitives(moments, x, includes={"shard_map"}, excludes={"pure_callback"}, max_intermediate=x.size // 4)
assert_hlo(moments, x, collectives=2)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
for sign in (1, -1):
    rows = 8 * int(rng.choice([9, 11, 13]))  # rows that no one can halve again and again
    x = np.asarray(table_of("far", rows, 24)) + np.float32(sign * rng.uniform(4000, 9000))
    x[:, 0] = 3  # does not vary
    x[:, 1] += np.linspace(-2000, 2000, rows)  # each device is somewhere else
    x = place(x, RING, P("i"))
    all_means, all_variances = (np.stack([piece.data for piece in found.addressable_shards]) for found in moments(x))
    true_mean, true_variance = (np.tile(true, (8, 1)) for true in moments_slow(x))  # a line for each device
    assert_allclose(all_means, true_mean, rtol=1e-5, name="the mean")
    assert_allclose(all_variances, true_variance, rtol=2e-3, atol=1e-9, name="the variance")
for columns in (1, 3):
    x = table_of("far", 64, columns)
    limit = x.size // 4
    assert_primitives(moments, x, includes={"shard_map"}, max_intermediate=limit)
    for what, found, true in zip(("mean", "variance"), moments(x), moments_slow(x), strict=True):
        assert_allclose(found, true, rtol=2e-3, atol=1e-5, name=f"the {what} of 64 rows of length {columns}")
from autograder import show_hlo

program = show_hlo(moments, x)
loops = [step for step in program.module.walk() if step.opcode == "while" and step.trip_count not in (1, 2)]
inside = {step.opcode for loop in loops for _, part in loop.called for step in program.module.walk(part)}
again = [name for name in program.collectives if inside & {name, f"{name}-start"}]
assert_equal(
    {"collectives inside a loop": again},
    {"collectives inside a loop": []},
    name="moments",
    hints={"collectives inside a loop": "One that stands in a loop is carried out in every round of the loop."},
)
holed = np.array(x)
holed[5, 1] = np.nan
for what, found in zip(("mean", "variance"), moments(place(holed, RING, P("i"))), strict=True):
    missing = {"columns that are NaN": np.flatnonzero(np.isnan(found)).tolist()}
    assert_equal(missing, {"columns that are NaN": [1]}, name=f"the {what} of a table with one NaN in column 1")
for what, found, true in zip(("mean", "variance"), jax.jit(moments)(x), moments_slow(x), strict=True):
    assert_allclose(found, true, rtol=2e-3, atol=1e-5, name=f"the {what}, under jit")
empty = np.array(table_of("far", 64, 3))
empty[:, 1] = 0
of_empty = zip(("mean", "variance"), moments(place(empty, RING, P("i"))), moments_slow(empty), strict=True)
for what, found, true in of_empty:
    assert_allclose(found, true, rtol=2e-3, atol=1e-5, name=f"the {what}, with a column of zeros")
x = table_of("far", 64, 48)
assert_primitives(moments, x, includes={"shard_map"}, max_intermediate=x.size // 4)
for what, found, true in zip(("mean", "variance"), moments(x), moments_slow(x), strict=True):
    assert_allclose(found, true, rtol=2e-3, atol=1e-5, name=f"the {what} of 64 rows of length 48")
from autograder import assert_max_traces

with assert_max_traces(moments, 1):
    for _ in range(3):
        moments(x)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "call-one", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The same, in a single collective."""
tables = {kind: table_of(kind, 256, 5, seed=1) for kind in KINDS}
right = {kind: which_agree(moments(x), x) for kind, x in tables.items()}
assert_equal(right, dict.fromkeys(KINDS, ["mean", "variance"]), name="moments", hints=DIGITS)
x = tables["far"]
assert_primitives(moments, x, includes={"shard_map"}, excludes={"pure_callback"}, max_intermediate=x.size // 4)
assert_hlo(moments, x, collectives=1)
### BEGIN HIDDEN TESTS
from autograder import show_hlo

program = show_hlo(moments, x)
loops = [step for step in program.module.walk() if step.opcode == "while"]
inside = {step.opcode for loop in loops for _, part in loop.called for step in program.module.walk(part)}
again = [name for name in program.collectives if inside & {name, f"{name}-start"}]
assert_equal(
    {"collectives inside a loop": again},
    {"collectives inside a loop": []},
    name="moments",
    hints={"collectives inside a loop": "One that stands in a loop is carried out in every round of the loop."},
)
for what, found, true in zip(("mean", "variance"), jax.jit(moments)(x), moments_slow(x), strict=True):
    assert_allclose(found, true, rtol=2e-3, atol=1e-5, name=f"the {what}, under jit")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · Eightfold (3 points)
#
# A linear model on a padded batch: `real` is 1 for an example and 0 for padding, and the loss is the mean over the real
# ones only. An older post has `gradient_post` for `pmap`. It was written when every batch was full.
#
# Write `gradient(params, x, y, real, devices)` with `jax.shard_map` on `ring_of(devices)`, all products of `x` inside it,
# and all sums over examples, those over the devices too: the true gradient, a dict like `params`, whatever the number of
# devices, wherever the padding is, and even if some devices hold nothing but padding. What the padding holds may be
# large, up to 1e25. Of the 3 points, **1 is for a single `all-reduce`**, with no other collective.
#
# <details><summary>Hint 1</summary>
# Two traps of the lesson at once. Under <code>shard_map</code>, what has happened to a gradient with respect to shared
# weights when <code>jax.grad</code> hands it to you? And when is the mean of the devices' means the mean of all?
# </details>
# <details><summary>Hint 2</summary>
# Print <code>jax.typeof</code> of the values in the body while you trace it: what has a <code>{V:i}</code> differs from
# device to device. Sum up errors and counts separately, over all devices, and divide sums.
# </details>
# <details><summary>Hint 3</summary>
# Right: differentiate <code>lax.psum(sum_of_errors, "i") / lax.psum(count, "i")</code>. That is two collectives: the
# count has to be there first. With one: differentiate the local <em>sum</em> (what you get is the sum over all), and
# divide every leaf by <code>lax.psum(real.sum(), "i")</code> afterwards. Neither sum needs the other, and XLA puts them
# into one collective.
# </details>


# %% nbgrader={"grade": false, "grade_id": "eight-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def ring_of(devices):
    """The first so many devices in a ring along "i"."""
    return mesh_of((devices,), ("i",))


def gradient_slow(params, x, y, real):
    """The gradient of the mean squared error over the real examples, in NumPy float64, by hand."""
    error = real * (x.astype(np.float64) @ params["w"] + params["b"] - y)
    slope = 2 * error / real.sum()
    return {"b": np.float32(slope.sum()), "w": (slope @ x).astype(np.float32)}


def gradient_post(params, x, y):
    """With pmap, for full batches. x: float32[8, n, features]; y: float32[8, n]. Returns eight copies."""

    def loss(params, x, y):
        return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)

    def one_row(params, x, y):
        return lax.pmean(jax.grad(loss)(params, x, y), "i")

    return jax.pmap(one_row, axis_name="i", in_axes=(None, 0, 0))(params, x, y)


def padded_batch(examples, length, features, seed=None):
    """(params, x, y, real): so many examples, padded with rubbish to `length`. NumPy float32."""
    rng = np.random.default_rng(seed)
    params = {"b": np.float32(rng.normal()), "w": rng.normal(size=features).astype(np.float32)}
    x, y = rng.normal(size=(length, features)), rng.normal(3, 1, size=length)
    real = np.arange(length) < examples
    return params, x.astype(np.float32), y.astype(np.float32), real.astype(np.float32)


def spread(devices, params, x, y, real):
    """The same, placed: params on all devices, the examples cut along "i"."""
    mesh = ring_of(devices)
    return place(params, mesh, P()), *(place(array, mesh, P("i")) for array in (x, y, real))


def lengths(gradient, truth):
    """Length of each leaf of a gradient, as a multiple of the true one's, to three digits."""
    norms = {name: np.linalg.norm(np.asarray(gradient[name])) / np.linalg.norm(truth[name]) for name in truth}
    return {name: round(float(norm), 3) for name, norm in norms.items()}


# %% nbgrader={"grade": false, "grade_id": "eight", "locked": false, "schema_version": 3, "solution": true, "task": false}
@functools.partial(jax.jit, static_argnames="devices")
def gradient(params, x, y, real, devices):
    """The gradient over all real examples: a dict like params, {"w": float32[features], "b": float32[]}.

    x: float32[n, features]; y, real: float32[n]; n is a multiple of `devices`, a Python int.
    """

    ### BEGIN SOLUTION
    # The gradient of my sum, with respect to shared params, is already the sum over us all. Divide by our count.
    def one_device(params, x, y, real):
        def sum_of_errors(params):
            return jnp.sum(real * (x @ params["w"] + params["b"] - y) ** 2)

        total, count = jax.grad(sum_of_errors)(params), lax.psum(real.sum(), "i")
        return jax.tree.map(lambda leaf: leaf / count, total)

    rows = P("i")
    split = jax.shard_map(one_device, mesh=ring_of(devices), in_specs=(P(), rows, rows, rows), out_specs=P())
    return split(params, x, y, real)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "eight-values", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The gradient is the true one: on eight devices and on four, with padding."""
too_long = "As many times too long as there are devices? Under shard_map, grad has summed over them already."
full = padded_batch(64, 64, 5, seed=1)
found = gradient(*spread(8, *full), devices=8)
right = {"b": 1.0, "w": 1.0}
truth = gradient_slow(*full)
assert_equal(lengths(found, truth), right, name="the length, full batch", hints={"w": too_long})
assert_allclose(found, truth, rtol=1e-3, atol=1e-4, name="gradient, full batch")
empty = "A device with nothing but padding has no mean: 0 / 0. Add up sums and counts over all, then divide."
batch = padded_batch(48, 64, 5, seed=0)
truth = gradient_slow(*batch)
found = gradient(*spread(8, *batch), devices=8)
assert_equal(lengths(found, truth), right, name="the length, padded batch", hints={"w": empty})
assert_allclose(found, truth, rtol=1e-3, atol=1e-4, name="gradient, padded batch")
found = gradient(*spread(4, *batch), devices=4)
assert_equal(lengths(found, truth), right, name="the length on four devices")
on_eight = functools.partial(gradient, devices=8)
assert_primitives(on_eight, *spread(8, *batch), includes={"shard_map"}, excludes={"pure_callback"})
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
for devices, examples, large in ((1, 47, 1e4), (int(rng.choice([3, 5, 6, 7])), 1, 1e4), (8, 32, 1e25)):
    params, x, y, real = padded_batch(examples + int(rng.integers(2)), 72 + -72 % devices, 3 if devices == 8 else 1)
    real = rng.permutation(real)  # the padding may be anywhere
    real[:9], y[:9] = 0, 5e8  # of eight devices, the first has one example, which is far off
    real[rng.integers(9)] = 1
    x[real.argmax()] *= 9e4
    batch = params, np.where(real[:, None], x, large * x).astype(np.float32), y, real
    placed = spread(devices, *batch)
    found, _ = (jax.block_until_ready(gradient(*placed, devices=devices)) for _ in range(2))
    assert_allclose(found, gradient_slow(*batch), rtol=1e-3, atol=1e-3, name="gradient")
talks = "psum|psum_invariant|all_gather|all_gather_invariant|reduce_scatter|all_to_all|ppermute"
alone = "The devices never talk inside shard_map: is the gradient taken there? What is outside, XLA spreads by itself."
assert_primitives(on_eight, *placed, includes={talks}, hint=alone)


def outside_of_shard_map(jaxpr):
    """All equations that do not stand in a shard_map, each as its name and the sizes of its operands."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name != "shard_map":
            yield eqn.primitive.name, {operand.aval.size for operand in eqn.invars}
            for inner in eqn.params.values():
                yield from outside_of_shard_map(inner.jaxpr) if hasattr(inner, "jaxpr") else ()


x_times_w = "mul", {x.size, params["w"].size}  # elementwise; a mask for x has another size
beside = list(outside_of_shard_map(jax.make_jaxpr(on_eight)(*placed)))
products = [name for name, sizes in beside if name == "dot_general" or (name, sizes) == x_times_w]
outside = {"products outside of shard_map": len(products)}
belong = "The products of x belong inside. What is outside, XLA spreads by itself."
assert_equal(outside, dict.fromkeys(outside, 0), name="gradient", hints=dict.fromkeys(outside, belong))
large_y = batch[0], batch[1], np.where(real > 0, y, np.float32(1e25)), real
found = gradient(*spread(8, *large_y), devices=8)
assert_allclose(found, gradient_slow(*large_y), rtol=1e-3, atol=1e-3, name="gradient, and y of the padding large")
found = jax.jit(on_eight)(*placed)  # the program that was looked at
assert_allclose(found, gradient_slow(*batch), rtol=1e-3, atol=1e-3, name="gradient, under jit")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "eight-once", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The true gradient, with a single all-reduce."""
batch = padded_batch(30, 64, 4, seed=2)
on_eight = functools.partial(gradient, devices=8)
for name, function in (("gradient", on_eight), ("gradient, under jit", jax.jit(on_eight))):
    assert_allclose(function(*spread(8, *batch)), gradient_slow(*batch), rtol=1e-3, atol=1e-4, name=name)
assert_hlo(on_eight, *spread(8, *batch), collectives={"all-reduce": 1})

# %% [markdown]
# ## Task 5 · Types with addresses (2 points)
#
# On an `Explicit` mesh of eight, `x` is `float32[64@i,16]` and `w` is `float32[16,4]`. What are the types of these
# results, in the way that `jax.typeof` writes them? If JAX refuses to choose, the answer is `"error"`.
#
# <details><summary>Hint 1</summary>
# Follow the axis that is cut. Does it survive, does it move, is it summed over, is it walked along?
# </details>
# <details><summary>Hint 2</summary>
# A plain sum over the cut axis is done without complaint, and so is the sum that <code>grad</code> puts in. A result cut twice along the same <code>i</code> is impossible. And what
# needs the rows of others, one after the other, would have to be moved: JAX does not move anything unasked.
# </details>
# <details><summary>Hint 3</summary>
# <code>with jax.set_mesh(EXPLICIT): print(jax.typeof(jax.device_put(np.ones((64, 16), np.float32), P("i")).T))</code>.
# One at a time, after you have written your answer down.
# </details>

# %% nbgrader={"grade": false, "grade_id": "types-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
EXPLICIT = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Explicit,), devices=jax.devices()[:8])
EXPRESSIONS = {
    "turned": lambda x, w: x.T,
    "scores": lambda x, w: x @ w,
    "positive": lambda x, w: x > 0,
    "column_means": lambda x, w: x.mean(axis=0),
    "all_pairs": lambda x, w: x @ x.T,
    "own_squares": lambda x, w: jax.vmap(jnp.dot)(x, x),
    "stacked": lambda x, w: jnp.stack([x, x]),
    "outer": lambda x, w: x[:, :, None] * w,
    "running_sums": lambda x, w: jnp.cumsum(x, axis=0),
    "slopes": lambda x, w: jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w),
}


def type_of(expression):
    """The type of expression(x, w), traced on EXPLICIT; "error" if JAX wants to be told."""
    with jax.set_mesh(EXPLICIT):
        x = jax.device_put(np.ones((64, 16), np.float32), P("i"))
        w = jax.device_put(np.ones((16, 4), np.float32), P())
        try:
            return str(jax.make_jaxpr(expression)(x, w).out_avals[0])
        except Exception as error:
            return "error" if type(error).__name__ == "ShardingTypeError" else repr(error)


# %% nbgrader={"grade": false, "grade_id": "types", "locked": false, "schema_version": 3, "solution": true, "task": false}
def result_types():
    """Name of each expression in EXPRESSIONS -> its type as text, such as "float32[64@i,16]", or "error"."""
    ### BEGIN SOLUTION
    # The cut axis survives, moves, or is summed away. For all else JAX wants to be told.
    return {
        "turned": "float32[16,64@i]",
        "scores": "float32[64@i,4]",
        "positive": "bool[64@i,16]",
        "column_means": "float32[16]",
        "all_pairs": "error",
        "own_squares": "float32[64@i]",
        "stacked": "float32[2,64@i,16]",
        "outer": "float32[64@i,16,4]",
        "running_sums": "error",
        "slopes": "float32[16,4]",
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "types-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. All ten types are predicted right."""
assert_prediction(
    result_types,
    lambda: {name: type_of(expression) for name, expression in EXPRESSIONS.items()},
    hints={
        "turned": "Each device turns its own block. Where is the cut axis now?",
        "scores": "The axis that is summed over is not the one that is cut.",
        "positive": "The layout stays. What about the dtype?",
        "column_means": "The cut axis is summed over: the devices talk, and then all have the result.",
        "all_pairs": "Both axes of the result would be cut along i.",
        "own_squares": "A number for each row, and each device has its rows.",
        "stacked": "The new axis comes first, and is not cut.",
        "outer": "Broadcasting does not move what is cut.",
        "running_sums": "A device would need the sums of all rows above its own.",
        "slopes": "A gradient has the type of what it is taken with respect to.",
    },
)

# %% [markdown]
# ## Task 6 · Golf (4 points)
#
# Four programs. You choose the layouts of the operands and of the result; XLA compiles the program for the eight
# devices. There is a point for each that needs no more collectives than its *par* (in golf, the strokes that a hole may
# take), while **no device holds more** of anything than its limit says. Limits are parts of the whole array, in the order
# of the operands.
# Think, and write the layouts down: while your functions run, nothing may be compiled. The check plays with `A` of
# 64 x 32 and `B` of 32 x 16; `q`, `k` and `v` of 8 x 16 x 32; `x` of 24 x 32, `w1` of 32 x 64 and `w2` of 64 x 16.
#
# | hole | program | mesh | most of each operand; of the result | par |
# |---|---|---|---|---|
# | `product` | `A @ B` | `GRID` | 1/4, 1/2; 1/8 | 0 |
# | `heads` | attention of eight heads: `softmax(q @ k.T) @ v` for each | `RING` | 1/8, 1/8, 1/8; 1/8 | 0 |
# | `layers` | `relu(x @ w1) @ w2` | `RING` | 1, 1/8, 1/8; 1 | 1 |
# | `both` | the same | `GRID` | 1/4, 1/2, 1/2; 1/4 | 1 |
#
# <details><summary>Hint 1</summary>
# Cut axes that survive into the result: that is free. If you must cut one that is summed over, cut it on both sides in
# the same way.
# </details>
# <details><summary>Hint 2</summary>
# In <code>layers</code>, look at the axis between the two products. It survives the first, and is summed over in the
# second. And relu works on each number alone. In <code>heads</code>, do the heads ever have to communicate?
# </details>
# <details><summary>Hint 3</summary>
# <code>product</code>: rows of A along <code>"x"</code>, columns of B along <code>"y"</code>. <code>layers</code>:
# columns of <code>w1</code> and rows of <code>w2</code>. <code>both</code>: as <code>layers</code> along
# <code>"y"</code>, and the examples along <code>"x"</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "golf-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def product(A, B):
    return A @ B


def heads(q, k, v):
    """q, k, v: float32[heads, tokens, size]."""
    weights = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k))
    return jnp.einsum("hqk,hkd->hqd", weights, v)


def layers(x, w1, w2):
    return jnp.maximum(x @ w1, 0) @ w2


def both(x, w1, w2):
    return layers(x, w1, w2)


def tee(hole, mesh, layout, limits, *operands):
    """(jitted hole with its result laid out, the operands placed, what some device holds too much of).

    limits: name of each operand, and "result" -> the most of it that a device may hold.
    """
    wanted = {"specs": ["P"] * len(limits)}
    given = {"specs": ["P" if isinstance(spec, P) else repr(spec) for spec in layout]}
    one_each = f"One P(...) for each of {', '.join(limits)}, in this order."
    assert_equal(given, wanted, name=f"{hole.__name__}_layout", hints={"specs": one_each})
    specs = dict(zip(limits, layout, strict=True))
    placed = [place(operand, mesh, spec) for operand, spec in zip(operands, specs.values(), strict=False)]
    jitted = jax.jit(hole, out_shardings=jax.NamedSharding(mesh, specs["result"]))
    shapes = dict(zip(specs, [*operands, jax.eval_shape(hole, *operands)], strict=True))
    too_much = []
    for name, limit in limits.items():
        piece = jax.NamedSharding(mesh, specs[name]).shard_shape(shapes[name].shape)
        if np.prod(piece) > limit * np.prod(shapes[name].shape):
            too_much.append(name)
    return jitted, placed, too_much


def asked_twice(layout):
    """What layout() returns, when it is asked for and asked for again, and how many programs it had compiled."""
    layout = inspect.unwrap(layout)  # or functools.cache would have had it compiled before
    with trace_log() as log:
        specs, again = list(layout()), list(layout())
    return specs, again, log.compiles


def written(layout):
    """What layout() returns, if it was written down: whoever tries layouts out has them compiled."""
    specs, again, compiles = asked_twice(layout)
    assert_equal({"compiled": compiles}, {"compiled": 0}, name="while a layout was written")
    assert_equal({"specs": len(again)}, {"specs": len(specs)}, name="a layout that is asked for twice")
    return specs


def normal(*shapes):
    """Arrays of normal numbers, float32."""
    rng = np.random.default_rng()
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


# %% nbgrader={"grade": false, "grade_id": "golf", "locked": false, "schema_version": 3, "solution": true, "task": false}
def product_layout():
    """The specs of A, B and the result, on GRID."""
    ### BEGIN SOLUTION
    # Cut what survives. Each device has a strip of A and a strip of B, and makes one tile of the result.
    return P("x"), P(None, "y"), P("x", "y")
    ### END SOLUTION


def heads_layout():
    """The specs of q, k, v and the result, on RING."""
    ### BEGIN SOLUTION
    # A head for each device: heads never talk.
    return P("i"), P("i"), P("i"), P("i")
    ### END SOLUTION


def layers_layout():
    """The specs of x, w1, w2 and the result, on RING."""
    ### BEGIN SOLUTION
    # The hidden axis is cut where it is made and where it is summed over: it is never put together.
    return P(), P(None, "i"), P("i"), P()
    ### END SOLUTION


def both_layout():
    """The specs of x, w1, w2 and the result, on GRID."""
    ### BEGIN SOLUTION
    # Tensor parallel along y, data parallel along x.
    return P("x"), P(None, "y"), P("y"), P("x")
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "golf-product", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. product in par: no collective."""
layout = written(product_layout)
limits = {"A": 1 / 4, "B": 1 / 2, "result": 1 / 8}
jitted, placed, too_much = tee(product, GRID, layout, limits, *normal((64, 32), (32, 16)))
assert_equal({"held too much": too_much}, {"held too much": []}, name="product_layout")
assert_hlo(jitted, *placed, collectives=0)

# %% nbgrader={"grade": true, "grade_id": "golf-heads", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. heads in par: no collective."""
layout = written(heads_layout)
limits = {"q": 1 / 8, "k": 1 / 8, "v": 1 / 8, "result": 1 / 8}
jitted, placed, too_much = tee(heads, RING, layout, limits, *normal(*[(8, 16, 32)] * 3))
assert_equal({"held too much": too_much}, {"held too much": []}, name="heads_layout")
assert_hlo(jitted, *placed, collectives=0)

# %% nbgrader={"grade": true, "grade_id": "golf-layers", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. layers in par: one collective."""
layout = written(layers_layout)
limits = {"x": 1, "w1": 1 / 8, "w2": 1 / 8, "result": 1}
jitted, placed, too_much = tee(layers, RING, layout, limits, *normal((24, 32), (32, 64), (64, 16)))
assert_equal({"held too much": too_much}, {"held too much": []}, name="layers_layout")
assert_hlo(jitted, *placed, collectives=1)

# %% nbgrader={"grade": true, "grade_id": "golf-both", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. both in par: one collective."""
layout = written(both_layout)
limits = {"x": 1 / 4, "w1": 1 / 2, "w2": 1 / 2, "result": 1 / 4}
jitted, placed, too_much = tee(both, GRID, layout, limits, *normal((24, 32), (32, 64), (64, 16)))
assert_equal({"held too much": too_much}, {"held too much": []}, name="both_layout")
assert_hlo(jitted, *placed, collectives=1)
