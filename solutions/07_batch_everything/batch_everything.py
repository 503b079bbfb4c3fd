# %% [markdown]
# # Exercise 07 · Batch everything
#
# Seven tasks, 24 points, about {duration}, and in them ten shape puzzles. The lesson is
# [07 · Batch everything](../../lessons/07_batch_everything.ipynb).
#
# Shapes are written as in the lesson: `([n], [m]) -> [n,m]` takes two vectors and returns a matrix, `[]` is a single
# number. Every puzzle has a specification in Python loops. Your functions have none.
#
# Fill in each function whose body raises `NotImplementedError`, then run the checks below it. Three hints wait under
# each task. Where a check is folded, its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say what shapes come out of ten programs | 2 |
# | 2 | lift functions for one of everything to whole arrays: puzzles 1 to 5 | 5 |
# | 3 | write the function for one element: puzzles 6 to 9 | 4 |
# | 4 | make the scores of attention out of one dot product: puzzle 10 | 2 |
# | 5 | say what a batch makes loops and branches cost, and cut the bill down | 3 |
# | 6 | clip the gradient of every single example | 4 |
# | 7 | teach `minijit` to batch | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import functools
import gc
import inspect
import string
import weakref
from collections import Counter
from typing import NamedTuple

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
    show_jaxpr,
    speedup,
)

# %% [markdown]
# ## Task 1 · What comes out? (2 points)
#
# Ten programs. Say the shape of each result as a list: `[2, 3]`, or `[]` for a number. Decide first, run afterwards:
# the check tells you which are wrong, never what is right.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Three steps for each <code>vmap</code>: take the axis in <code>in_axes</code> away from each argument, say what the
# function returns for what is left, put the axis back in at <code>out_axes</code> (0 if nothing is said).
# </details>
# <details><summary>Hint 2</summary>
# Put <code>print(m.shape)</code> into a function and <code>vmap</code> it: you see what one call sees.
# <code>jax.eval_shape(program)</code> tells the shape of a result without computing anything.
# </details>
# <details><summary>Hint 3</summary>
# "turned": <code>box</code> is [2,3,4]. <code>in_axes=1</code> takes the 3 away, so one call sees [2,4] and returns
# [4,2]. <code>out_axes=1</code> puts the 3 between them. For "twice", do the outer <code>vmap</code> first: its axis is
# counted in [2,3,4], the axis of the inner one in what is left.
# </details>

# %% nbgrader={"grade": false, "grade_id": "predict-shapes-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
box, three, four, five = jnp.zeros((2, 3, 4)), jnp.zeros(3), jnp.zeros(4), jnp.zeros(5)
vmap = jax.vmap

SHAPE_PROGRAMS = {
    "front": lambda: vmap(jnp.sum)(box),
    "back": lambda: vmap(jnp.sum, in_axes=-1)(box),
    "moved": lambda: vmap(lambda m: m, in_axes=1)(box),
    "turned": lambda: vmap(jnp.transpose, in_axes=1, out_axes=1)(box),
    "shared": lambda: vmap(jnp.dot, in_axes=(0, None))(box, four),
    "table": lambda: vmap(vmap(jnp.multiply, in_axes=(None, 0)), in_axes=(0, None))(four, five),
    "other table": lambda: vmap(vmap(jnp.multiply, in_axes=(0, None)), in_axes=(None, 0))(four, five),
    "refused by NumPy": lambda: vmap(jnp.add)(box[0], three),
    "does not look": lambda: vmap(lambda m: jnp.zeros(7))(box),
    "twice": lambda: vmap(vmap(jnp.sum, in_axes=1), in_axes=1)(box),
}


# %% nbgrader={"grade": false, "grade_id": "predict-shapes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predict_shapes():
    """Name of each of SHAPE_PROGRAMS -> shape of its result, as a list."""
    ### BEGIN SOLUTION
    # Take the mapped axis away, apply the function, put the axis in at out_axes.
    return {
        "front": [2],
        "back": [4],
        "moved": [3, 2, 4],
        "turned": [4, 3, 2],
        "shared": [2, 3],
        "table": [4, 5],
        "other table": [5, 4],
        "refused by NumPy": [3, 4],
        "does not look": [2, 7],
        "twice": [3, 4],
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "predict-shapes-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. All ten shapes."""
assert_prediction(
    predict_shapes,
    lambda: {name: list(jax.eval_shape(program).shape) for name, program in SHAPE_PROGRAMS.items()},
    hints={
        "front": "Axis 0 is the batch; what one call sees is summed to a number.",
        "back": "-1 is the last axis. It is the one that stays, not the one that is summed.",
        "moved": "The axis is taken from place 1 and put in at place 0, the default of out_axes.",
        "turned": "One call sees two axes and turns those two. Then the mapped axis goes in at place 1.",
        "shared": "One call sees a matrix and the whole of four.",
        "table": "The outer vmap makes the first axis: which argument does it map?",
        "other table": "The outer vmap makes the first axis: which argument does it map?",
        "refused by NumPy": "One call sees a row and one number.",
        "does not look": "The result of each call is stacked, even when all calls return the same.",
        "twice": "The outer vmap counts its axis in box, the inner one in what is left of it. The sum takes the rest.",
    },
)

# %% [markdown]
# ## Task 2 · Lift it: puzzles 1 to 5 (5 points)
#
# You get building blocks (we call each of them a *brick*): a brick is a function for one of everything. It is strict:
# it refuses a whole array where it takes a number, so broadcasting by hand does not help. Lift the bricks with `vmap`.
#
# **Rules**: call the brick and do not copy it (if another function is put inside the brick, your function must change
# with it), no Python loop, no `lax` loop. The check reads the tape (the jaxpr): the brick stands on it once, and larger
# arrays add no equation.
#
#     1 columns   rescale: [n] -> [n]         2 table   pull: ([], []) -> []
#
#       [n,m] -> [n,m], each column               ([n], [m]) -> [n,m], all pairs
#       by itself
#           │ │ │      │ │ │                           y y y y
#           ▼ ▼ ▼  ->  ▼ ▼ ▼                         x ■ ■ ■ ■
#                                                    x ■ ■ ■ ■
#
#     3 blocks    pull again: ([n,b], [b,m]) -> [n,m,b]
#
#       b tables side by side: x's column k with y's row k, and the table number comes last
#
# <details><summary>Hint 1</summary>
# One <code>vmap</code> for each axis of the result that the brick does not know. How many is that for each puzzle?
# </details>
# <details><summary>Hint 2</summary>
# Build from the inside and print a shape after each layer:
# <code>jax.eval_shape(jax.vmap(pull, (None, 0)), jnp.zeros(()), y)</code>.
# </details>
# <details><summary>Hint 3</summary>
# 1: the axis goes in at 1 and has to come out at 1. 2: the inner <code>vmap</code> walks along y and keeps x
# (<code>(None, 0)</code>), the outer one walks along x. 3: <code>table</code> is a brick too; the third
# <code>vmap</code> takes axis 1 of x, axis 0 of y, and puts its own at 2.
# </details>


# %% nbgrader={"grade": false, "grade_id": "lift-pairs-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def takes(*axes):
    """Make a brick: a function that refuses arguments with any other number of axes."""

    def strict(fn):
        @functools.wraps(fn)
        def brick(*args):
            if jax.tree.map(jnp.ndim, args) != axes:
                got = " and ".join(str(jax.tree.map(lambda leaf: list(jnp.shape(leaf)), arg)) for arg in args)
                message = f"{fn.__name__} takes one of everything, {fn.__doc__}, and got {got}."
                raise TypeError(f"{message} Let vmap hand them over one by one.")
            return brick.inside(*args)

        brick.inside = fn
        return brick

    return strict


@contextlib.contextmanager
def another_inside(brick, fn):
    """With fn inside the brick, for a while; nothing that was compiled before is used."""
    own, brick.inside = brick.inside, fn
    jax.clear_caches()
    try:
        yield
    finally:
        brick.inside = own
        jax.clear_caches()


@takes(1)
@jax.jit
def rescale(v):
    """[n] -> [n]"""
    return (v - jnp.min(v)) / (jnp.max(v) - jnp.min(v))


@takes(0, 0)
@jax.jit
def pull(a, b):
    """([], []) -> []"""
    return a * jnp.exp(-b)


def columns_spec(x):
    out = np.zeros(x.shape, np.float32)
    for j in range(x.shape[1]):
        out[:, j] = rescale(x[:, j])
    return out


def table_spec(x, y):
    out = np.zeros((len(x), len(y)), np.float32)
    for i in range(len(x)):
        for j in range(len(y)):
            out[i, j] = pull(x[i], y[j])
    return out


def blocks_spec(x, y):
    out = np.zeros((x.shape[0], y.shape[1], x.shape[1]), np.float32)
    for k in range(x.shape[1]):
        out[:, :, k] = table_spec(x[:, k], y[k])
    return out


LOOPS = {"scan", "while"}


def draws(seed, *shapes):
    """Random float32 arrays of these shapes."""
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]


# %% nbgrader={"grade": false, "grade_id": "lift-pairs", "locked": false, "schema_version": 3, "solution": true, "task": false}
def columns(x):
    """[n,m] -> [n,m]: rescale, applied to each column."""
    ### BEGIN SOLUTION
    return jax.vmap(rescale, in_axes=1, out_axes=1)(x)
    ### END SOLUTION


def table(x, y):
    """([n], [m]) -> [n,m]: pull, of each x with each y."""
    ### BEGIN SOLUTION
    # The outer vmap makes the first axis, so it is the one that walks along x.
    return jax.vmap(jax.vmap(pull, in_axes=(None, 0)), in_axes=(0, None))(x, y)
    ### END SOLUTION


def blocks(x, y):
    """([n,b], [b,m]) -> [n,m,b]: a table for each k, of x[:, k] with y[k]."""
    ### BEGIN SOLUTION
    return jax.vmap(table, in_axes=(1, 0), out_axes=2)(x, y)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "lift-pairs-columns", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 1: each column by itself."""
(x,) = draws(1, (4, 3))
assert_allclose(columns(x), columns_spec(x), name="columns(x)")
assert_primitives(columns, x, counts={"reduce_max": 1}, excludes=LOOPS)
### BEGIN HIDDEN TESTS
(x,) = draws(2, (5, 5))
with another_inside(rescale, lambda v: v[::-1] * v[0]):
    assert_allclose(columns(x), columns_spec(x), name="columns, with another function inside rescale,")
assert_primitives(columns, *draws(2, (3, 5000)), excludes=LOOPS, smaller=draws(2, (3, 2)))
x = jnp.array([[1, 4, 2], [7, 4, 3]])  # whole numbers, and a column without a range
assert_allclose(columns(x), columns_spec(x), name="columns of whole numbers")
(x,) = draws(13, (3, 6))
assert_allclose(jax.jit(columns)(x), columns_spec(x), name="jax.jit(columns)")
assert_primitives(columns, x, excludes={"pure_callback"})
assert_allclose(columns(x[:, :1]), columns_spec(x[:, :1]), name="columns of one column")
assert_primitives(columns, np.ones((2, 6000), np.float32), counts={"reduce_max": 1}, smaller=(np.ones((2, 3)),))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "lift-pairs-table", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 2: every x with every y."""
x, y = draws(3, (2,), (4,))
assert_allclose(table(x, y), table_spec(x, y), name="table(x, y)")
assert_primitives(table, x, y, counts={"exp": 1}, excludes=LOOPS)
### BEGIN HIDDEN TESTS
x, y = draws(4, (3,), (3,))
with another_inside(pull, lambda a, b: (1 + a.ndim) * a - (1 + b.ndim) * b * b):
    assert_allclose(table(x, y), table_spec(x, y), name="table, with another function inside pull,")
assert_primitives(table, *draws(4, (900,), (800,)), excludes=LOOPS, smaller=draws(4, (2,), (3,)))
x, y = jnp.array([3]), jnp.array([1, 2])
assert_allclose(table(x, y), table_spec(x, y), name="table of whole numbers")
x, y = draws(14, (3,), (5,))
assert_allclose(jax.jit(table)(x, y), table_spec(x, y), name="jax.jit(table)")
assert_primitives(table, x, y, excludes={"pure_callback"})
long = np.ones(6000, np.float32)
assert_primitives(table, long, y, counts={"exp": 1}, smaller=(x, y))
assert_primitives(table, x, long, counts={"exp": 1}, smaller=(x, y))
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "lift-pairs-blocks", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 3: a table for each k, stacked at the end."""
x, y = draws(5, (3, 2), (2, 4))
assert_allclose(blocks(x, y), blocks_spec(x, y), name="blocks(x, y)")
assert_primitives(blocks, x, y, counts={"exp": 1}, excludes=LOOPS)
### BEGIN HIDDEN TESTS
x, y = draws(6, (3, 3), (3, 3))
with another_inside(pull, lambda a, b: (1 + a.ndim) * a - (1 + b.ndim) * b * b):
    assert_allclose(blocks(x, y), blocks_spec(x, y), name="blocks, with another function inside pull,")
assert_primitives(blocks, *draws(6, (90, 300), (300, 80)), excludes=LOOPS, smaller=draws(6, (3, 2), (2, 3)))
x, y = jnp.array([[3]]), jnp.array([[1, 2]])
assert_allclose(blocks(x, y), blocks_spec(x, y), name="blocks of whole numbers")
x, y = draws(14, (3, 2), (2, 5))
assert_allclose(jax.jit(blocks)(x, y), blocks_spec(x, y), name="jax.jit(blocks)")
assert_primitives(blocks, x, y, excludes={"pure_callback"})
assert_primitives(blocks, np.ones((6000, 2), np.float32), y, counts={"exp": 1}, smaller=(x, y))
### END HIDDEN TESTS

# %% [markdown]
# Two more, where the arguments do not all behave alike.
#
#     4 frames    blend: ([], [], []) -> []      ([n], [n], [m]) -> [m,n]
#
#       two curves a and b of n points walk together; there are m moments t:
#
#              a0 a1 a2 a3
#              b0 b1 b2 b3
#         t0 [ ■  ■  ■  ■ ]   one frame of the film for each moment
#         t1 [ ■  ■  ■  ■ ]
#
#     5 ensemble  respond: ({"w": [d], "b": [], "scale": []}, [d]) -> []
#
#       members {"w": [d,m], "b": [m], "scale": []}, points [n,d] -> [m,n]
#
#       m members, who share one scale (and whose weights lie side by side, as columns);
#       every member answers to every point
#
# <details><summary>Hint 1</summary>
# Walking together is one <code>vmap</code> with two axes in <code>in_axes</code>. Crossing is two <code>vmap</code>s.
# </details>
# <details><summary>Hint 2</summary>
# For the tree: <code>jax.tree.map(jnp.shape, members)</code>. For each leaf, which axis counts the members? The answer
# is a tree of the same form, and it goes into <code>in_axes</code>.
# </details>
# <details><summary>Hint 3</summary>
# 4: the inner <code>vmap</code> has <code>in_axes=(0, 0, None)</code>. 5: one of the two has
# <code>in_axes=({"w": ..., "b": ..., "scale": ...}, None)</code> and the other <code>(None, 0)</code>. Which is the
# outer one?
# </details>


# %% nbgrader={"grade": false, "grade_id": "lift-trees-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
@takes(0, 0, 0)
@jax.jit
def blend(a, b, t):
    """([], [], []) -> []"""
    return a + (b - a) * jnp.sin(t)


@takes({"w": 1, "b": 0, "scale": 0}, 1)
@jax.jit
def respond(member, point):
    """({w: [d], b: [], scale: []}, [d]) -> []"""
    return member["scale"] * jnp.tanh(jnp.dot(member["w"], point) + member["b"])


def frames_spec(a, b, t):
    out = np.zeros((len(t), len(a)), np.float32)
    for k in range(len(t)):
        for i in range(len(a)):
            out[k, i] = blend(a[i], b[i], t[k])
    return out


def ensemble_spec(members, points):
    out = np.zeros((len(members["b"]), len(points)), np.float32)
    for k in range(len(members["b"])):
        one = {"w": members["w"][:, k], "b": members["b"][k], "scale": members["scale"]}
        for i in range(len(points)):
            out[k, i] = respond(one, points[i])
    return out


def draw_members(seed, d, m):
    w, b, scale = draws(seed, (d, m), (m,), ())
    return {"w": w, "b": b, "scale": scale}


# %% nbgrader={"grade": false, "grade_id": "lift-trees", "locked": false, "schema_version": 3, "solution": true, "task": false}
def frames(a, b, t):
    """([n], [n], [m]) -> [m,n]: blend, with a and b walking together, for each moment t."""
    ### BEGIN SOLUTION
    # a and b share an axis, so they share a vmap. The moments are the outer one.
    return jax.vmap(jax.vmap(blend, in_axes=(0, 0, None)), in_axes=(None, None, 0))(a, b, t)
    ### END SOLUTION


def ensemble(members, points):
    """({w: [d,m], b: [m], scale: []}, [n,d]) -> [m,n]: each member's response to each point."""
    ### BEGIN SOLUTION
    # in_axes is a tree like the argument: the axis that counts the members, None for what they share.
    of_member = {"w": 1, "b": 0, "scale": None}
    return jax.vmap(jax.vmap(respond, in_axes=(None, 0)), in_axes=(of_member, None))(members, points)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "lift-trees-frames", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 4: together along the curves, crossed with the moments."""
a, b, t = draws(7, (4,), (4,), (3,))
assert_allclose(frames(a, b, t), frames_spec(a, b, t), name="frames(a, b, t)")
assert_primitives(frames, a, b, t, counts={"sin": 1}, excludes=LOOPS)
### BEGIN HIDDEN TESTS
a, b, t = draws(8, (3,), (3,), (3,))
with another_inside(blend, lambda a, b, t: (1 + a.ndim) * a * t - (1 + t.ndim) * b):
    assert_allclose(frames(a, b, t), frames_spec(a, b, t), name="frames, with another function inside blend,")
assert_primitives(frames, *draws(8, (900,), (900,), (800,)), excludes=LOOPS, smaller=(a, b, t))
assert_allclose(jax.jit(frames)(a, b, t), frames_spec(a, b, t), name="jax.jit(frames)")
assert_primitives(frames, a, b, t, excludes={"pure_callback"})
short = a[:1], b[:1], t[:1]
assert_allclose(frames(*short), frames_spec(*short), name="frames of one point, at one moment")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "lift-trees-ensemble", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 5: every member, every point, one tree."""
members, (points,) = draw_members(9, 2, 3), draws(10, (4, 2))
assert_allclose(ensemble(members, points), ensemble_spec(members, points), name="ensemble(members, points)")
assert_primitives(ensemble, members, points, counts={"tanh": 1, "dot_general": 1}, excludes=LOOPS)
### BEGIN HIDDEN TESTS
members, (points,) = draw_members(11, 3, 3), draws(12, (3, 3))
with another_inside(respond, lambda one, point: one["scale"] - one["b"] * (point * point * one["w"]).sum()):
    desired = ensemble_spec(members, points)
    assert_allclose(ensemble(members, points), desired, name="ensemble, with another function inside respond,")
many = draw_members(11, 3, 900), *draws(12, (800, 3))
assert_primitives(ensemble, *many, excludes=LOOPS, smaller=(members, points))
assert_allclose(jax.jit(ensemble)(members, points), ensemble_spec(members, points), name="jax.jit(ensemble)")
assert_primitives(ensemble, members, points, excludes={"pure_callback"})
alone = draw_members(11, 3, 1), *draws(12, (1, 3))
assert_allclose(ensemble(*alone), ensemble_spec(*alone), name="ensemble of one member, for one point")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · One element: puzzles 6 to 9 (4 points)
#
# Now the lifting is given, and you write the brick: a function that computes **one element** of the result, from its
# index. `fill` calls it for all of them at once.
#
# **Rules**: no loop, and nothing ready-made that does the puzzle for you: no cumulative sum, no sort, no scatter, no
# matrix product, no callback into Python. An index that comes from `vmap` is a tracer, so `x[:i]` has no length that
# JAX could know.
#
#     6 running_sum  [n] -> [n]          3 1 4 1  ->  3 4 8 9
#
#     7 life         [h,w] -> [h,w]      the game of life on a torus: row -1 is the last row,
#                                        row h the first. A cell is alive in the next
#                                        generation if 3 of its 8 neighbours are alive now, or
#                                        if 2 are and it is alive itself (h, w are 3 or more)
#
#     8 arranged     [n] -> [n]          3 1 4 1  ->  1 1 3 4, a sort without a sort. Place i
#                                        belongs to the number that has i numbers before it.
#                                        Mind the twins
#
#     9 unpack       ([n], [n]) -> [12]  values 7 5 9, counts 2 0 3 -> 7 7 9 9 9 0 0 0 0 0 0 0:
#                                        each value as often as its count says, zeros in the
#                                        places left over
#
# <details><summary>Hint 1</summary>
# Look at all of <code>x</code> from place <code>i</code> and ask each element a yes-or-no question:
# <code>jnp.where(question, x, 0).sum()</code>. 6: which elements take part? 8: which elements come before mine? 9: how
# many runs are over at place i?
# </details>
# <details><summary>Hint 2</summary>
# Call your function on one index before you lift it: <code>running_sum_at(2, x)</code>. Then
# <code>show_jaxpr(running_sum, x)</code>: what is on the tape that is forbidden? In 7, <code>%</code> brings an index
# back onto the torus; without it, JAX clamps an index that is too large to the last row, and says nothing.
# </details>
# <details><summary>Hint 3</summary>
# <pre>6: (jnp.arange(x.size) &lt;= i) chooses the elements
# 8: before = lambda j: jnp.sum((x &lt; x[j]) | ...)  # of twins, the smaller index is first
#    rank = jax.vmap(before)(jnp.arange(x.size))    # then: the element whose rank is i
# 9: ends = running_sum(counts)                     # the place where each run is over
#    run = jnp.sum(ends &lt;= i)                       # the number of the run that i is in</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "one-element-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def fill(element, *shape):
    """The vector or matrix whose element at i, or at (i, j), is element(i), or element(i, j)."""
    if len(shape) == 1:
        return jax.vmap(element)(jnp.arange(shape[0]))
    rows = jax.vmap(jax.vmap(element, in_axes=(None, 0)), in_axes=(0, None))
    return rows(jnp.arange(shape[0]), jnp.arange(shape[1]))


READY_MADE = {"scan", "while", "sort", "top_k", "approx_top_k", "dot_general", "conv_general_dilated"}
READY_MADE |= {"scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"}
READY_MADE |= {"cumsum", "cumprod", "cummin", "cummax", "cumlogsumexp", "select_and_scatter", "select_and_scatter_add"}
READY_MADE |= {"reduce_window", "reduce_window_sum", "reduce_window_min", "reduce_window_max"}
READY_MADE |= {"pure_callback", "io_callback"}
ROOM = 12


def running_sum_spec(x):
    out, total = np.zeros(x.shape, x.dtype), 0
    for i in range(len(x)):
        total = total + x[i]
        out[i] = total
    return out


def life_spec(world):
    height, width = world.shape
    out = np.zeros_like(world)
    for i in range(height):
        for j in range(width):
            neighbours = -world[i, j]
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    neighbours += world[(i + di) % height, (j + dj) % width]
            out[i, j] = neighbours == 3 or (neighbours == 2 and world[i, j] == 1)
    return out


def arranged_spec(x):
    out = np.array(x)
    for i in range(len(out)):
        for j in range(i + 1, len(out)):
            if out[j] < out[i]:
                out[i], out[j] = out[j], out[i]
    return out


def unpack_spec(values, counts):
    out, place = np.zeros(ROOM, values.dtype), 0
    for value, count in zip(values, counts, strict=True):
        for _ in range(count):
            out[place] = value
            place += 1
    return out


def draw_world(world):
    print("\n".join(" ".join("■" if cell else "·" for cell in row) for row in np.asarray(world)), "\n")


GLIDER = np.zeros((5, 6), np.int32)
GLIDER[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
CORNER = np.roll(GLIDER, (3, 4), axis=(0, 1))  # the same, across all four edges
draw_world(GLIDER)
draw_world(life_spec(GLIDER))


# %% nbgrader={"grade": false, "grade_id": "one-element", "locked": false, "schema_version": 3, "solution": true, "task": false}
def running_sum_at(i, x):
    """Element i, int32[], of the running sum of x."""
    ### BEGIN SOLUTION
    return jnp.where(jnp.arange(x.size) <= i, x, 0).sum()
    ### END SOLUTION


def life_at(i, j, world):
    """Cell (i, j), 0 or 1 as int32[], in the generation after `world`, int32[h,w]."""
    ### BEGIN SOLUTION
    rows = (i + jnp.array([-1, 0, 1])) % world.shape[0]
    columns = (j + jnp.array([-1, 0, 1])) % world.shape[1]
    alive = world[i, j]
    neighbours = world[rows][:, columns].sum() - alive
    return ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(world.dtype)
    ### END SOLUTION


def arranged_at(i, x):
    """Element i, int32[], of x in rising order."""
    ### BEGIN SOLUTION
    # rank does not depend on i: vmap leaves what has no batch alone, so it is computed once.
    places = jnp.arange(x.size)
    rank = jax.vmap(lambda j: jnp.sum((x < x[j]) | ((x == x[j]) & (places < j))))(places)
    return jnp.where(rank == i, x, 0).sum()
    ### END SOLUTION


def unpack_at(i, values, counts):
    """Element i of the values, each as often as its count says; 0 after the last."""
    ### BEGIN SOLUTION
    run = jnp.sum(running_sum(counts) <= i)
    return jnp.where(jnp.arange(values.size) == run, values, 0).sum()
    ### END SOLUTION


@jax.jit
def running_sum(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: running_sum_at(i, x), x.size)


@jax.jit
def life(world):
    """[h,w] -> [h,w]. Given: all cells at once."""
    return fill(lambda i, j: life_at(i, j, world), *world.shape)


@jax.jit
def arranged(x):
    """[n] -> [n]. Given: all elements at once."""
    return fill(lambda i: arranged_at(i, x), x.size)


@jax.jit
def unpack(values, counts):
    """([n], [n]) -> [ROOM]. Given: all elements at once."""
    return fill(lambda i: unpack_at(i, values, counts), ROOM)


# %% nbgrader={"grade": true, "grade_id": "one-element-running-sum", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 6: a running sum that does not run."""
x = jnp.array([3, 1, 4, 1, 5, 9], jnp.int32)
assert_allclose(running_sum(x), running_sum_spec(x), name="running_sum(x)")
assert_primitives(running_sum, x, excludes=READY_MADE)
### BEGIN HIDDEN TESTS
x = jnp.asarray(np.random.default_rng().integers(-3e7, 3e7, 40), jnp.int32)
assert_allclose(running_sum(x), running_sum_spec(x), name="running_sum of fresh numbers")
assert_primitives(running_sum, np.arange(1000, dtype=np.int32), excludes=READY_MADE, smaller=[x[:6]])
assert_allclose(jax.jit(running_sum)(x), running_sum_spec(x), name="jax.jit(running_sum)")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "one-element-life", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 7: the next generation, edges included."""
world = jnp.asarray(GLIDER)
assert_allclose(life(world), life_spec(GLIDER), name="the glider's next generation")
assert_allclose(life(jnp.asarray(CORNER)), life_spec(CORNER), name="a glider across the edges")
assert_primitives(life, world, excludes=READY_MADE)
### BEGIN HIDDEN TESTS
world = np.random.default_rng().integers(0, 2, (9, 7)).astype(np.int32)
assert_allclose(life(jnp.asarray(world)), life_spec(world), name="life of a fresh world")
assert_primitives(life, np.zeros((200, 300), np.int32), excludes=READY_MADE, smaller=[world[:4, :3]])
assert_allclose(jax.jit(life)(world), life_spec(world), name="jax.jit(life)")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "one-element-arranged", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 8: a sort without a sort, twins included."""
x = jnp.array([3, 9, 4, 7, -5, 1], jnp.int32)
assert_allclose(arranged(x), arranged_spec(x), name="arranged(x)")
x = jnp.array([3, 1, 4, 1, 5, 1, 4], jnp.int32)
assert_allclose(arranged(x), arranged_spec(x), name="arranged of x with twins")
assert_primitives(arranged, x, excludes=READY_MADE)
### BEGIN HIDDEN TESTS
for least, most in ((-4, 4), (1 - 2**31, 2**31 - 1), (2**30, 2**30 + 8)):  # the last are large twins
    x = jnp.asarray(np.random.default_rng().integers(least, most, 30), jnp.int32)
    assert_allclose(arranged(x), arranged_spec(x), name="arranged fresh numbers")
assert_primitives(arranged, np.arange(1000, dtype=np.int32), excludes=READY_MADE, smaller=[x[:6]])
assert_allclose(jax.jit(arranged)(x), arranged_spec(x), name="jax.jit(arranged)")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "one-element-unpack", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. Puzzle 9: each value as often as its count, then zeros."""
values, counts = jnp.array([7, 5, 9], jnp.int32), jnp.array([2, 0, 3], jnp.int32)
assert_allclose(unpack(values, counts), unpack_spec(values, counts), name="unpack(values, counts)")
assert_primitives(unpack, values, counts, excludes=READY_MADE)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
for nobody in (0, 3):
    values, counts = rng.integers(-9, 9, 6).astype(np.int32), rng.integers(1, 3, 6).astype(np.int32)
    counts[nobody] = 0
    desired = unpack_spec(values, counts)
    assert_allclose(unpack(jnp.asarray(values), jnp.asarray(counts)), desired, name="unpack fresh values")
once, eleven_times = np.int32([5, -3]), np.int32([1, 11])
found = unpack(jnp.asarray(once), jnp.asarray(eleven_times))
assert_allclose(found, unpack_spec(once, eleven_times), name="unpack a value eleven times")
halves, twice = np.float32([0.5, -2.5, 1e9]), np.int32([2, 1, 2])
found = unpack(jnp.asarray(halves), jnp.asarray(twice))
assert_allclose(found, unpack_spec(halves, twice), name="unpack of float32")
assert_primitives(unpack, values, counts, excludes=READY_MADE, smaller=[values[:2], counts[:2]])
assert_allclose(jax.jit(unpack)(values, counts), unpack_spec(values, counts), name="jax.jit(unpack)")
values, counts = np.int32([3, 7, 1, 5, 9, 4, 8, 6]), np.int32([0, 0, 2, 0, 0, 1, 0, 0])
found = unpack(jnp.asarray(values), jnp.asarray(counts))
assert_allclose(found, unpack_spec(values, counts), name="unpack, with counts of 0 side by side")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · One product: puzzle 10 (2 points)
#
# The scores of multi-head attention: in each example and each head, the dot product of every query with every key.
#
#     10 scores   dot: ([d], [d]) -> []
#
#       queries [batch,q,head,d], keys [batch,k,head,d]  ->  [batch,head,q,k]
#
# The brick is `dot`, of two vectors. Four `vmap`s make of it what the libraries write as
# `einsum("bqhd,bkhd->bhqk", ...)`.
#
# **Rule**: call the brick, and the tape has one equation. One `dot_general`, no `transpose`, nothing else. No `einsum`,
# of course.
#
# <details><summary>Hint 1</summary>
# The result reads [batch,head,q,k], and the outer <code>vmap</code> makes the first axis. So which layer is the
# outermost, which the innermost?
# </details>
# <details><summary>Hint 2</summary>
# <code>print(jax.make_jaxpr(scores)(queries, keys))</code>. A <code>transpose</code> means that two axes come out in
# the wrong order. Swap two layers; do not apply <code>moveaxis</code> to the result.
# </details>
# <details><summary>Hint 3</summary>
# <pre>over_k     = jax.vmap(dot, in_axes=(None, 0))
# over_q     = jax.vmap(over_k, in_axes=(0, None))
# # what is left: queries [q,head,d], keys [k,head,d]
# over_heads = jax.vmap(over_q, in_axes=(..., ...))
# over_batch = ...</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "scores-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
@takes(1, 1)
def dot(a, b):
    """([d], [d]) -> []"""
    return jnp.dot(a, b)


def scores_spec(queries, keys):
    queries, keys = np.asarray(queries), np.asarray(keys)
    (batch, length, heads, _), other = queries.shape, keys.shape[1]
    out = np.zeros((batch, heads, length, other), np.float32)
    for b in range(batch):
        for h in range(heads):
            for q in range(length):
                for k in range(other):
                    out[b, h, q, k] = queries[b, q, h] @ keys[b, k, h]
    return out


# %% nbgrader={"grade": false, "grade_id": "scores", "locked": false, "schema_version": 3, "solution": true, "task": false}
def scores(queries, keys):
    """([batch,q,head,d], [batch,k,head,d]) -> [batch,head,q,k]: dot, of each query with each key."""
    ### BEGIN SOLUTION
    # From the inside out: keys, queries, heads, batch. Both arguments share the last two.
    over_queries = jax.vmap(jax.vmap(dot, in_axes=(None, 0)), in_axes=(0, None))
    over_heads = jax.vmap(over_queries, in_axes=(1, 1))
    return jax.vmap(over_heads)(queries, keys)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "scores-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Puzzle 10: the right scores from a tape of one equation."""
queries, keys = draws(18, (2, 4, 3, 5), (2, 6, 3, 5))
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    desired = scores_spec(queries, keys)
    assert_allclose(scores(queries, keys), desired, rtol=1e-4, atol=1e-5, name="scores(queries, keys)")
assert_primitives(scores, queries, keys, counts={"dot_general": 1})
assert_primitives(scores, queries, keys, excludes={"scan", "while", "transpose"}, max_equations=1)
### BEGIN HIDDEN TESTS
queries, keys = draws(19, (3, 3, 3, 3), (3, 3, 3, 3))
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    desired = scores_spec(queries, keys)
    assert_allclose(scores(queries, keys), desired, rtol=1e-4, atol=1e-5, name="scores, all axes equally long")
with another_inside(dot, lambda a, b: a[0] - b[1]):
    desired = queries[..., 0].transpose(0, 2, 1)[..., None] - keys[..., 1].transpose(0, 2, 1)[:, :, None]
    assert_allclose(scores(queries, keys), desired, name="scores, with another function inside dot,")
    whole = jnp.asarray(queries[:, :1], jnp.int32), jnp.asarray(keys, jnp.int32)
    desired = whole[0][..., 0].transpose(0, 2, 1)[..., None] - whole[1][..., 1].transpose(0, 2, 1)[:, :, None]
    assert_allclose(scores(*whole), desired, name="scores of one query, whole numbers")
assert_primitives(scores, *whole, max_equations=1)
long = np.zeros((300, 400, 2, 3), np.float32)
assert_primitives(scores, long, long, counts={"dot_general": 1}, max_equations=1)
assert_primitives(scores, queries[:, :, :1], keys[:, :, :1], max_equations=1)
with another_inside(dot, lambda a, b: jnp.inner(a, b)):
    assert_primitives(scores, queries, keys, max_equations=1)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · The bill (3 points)
#
# **Predict it** (1 point). A callback writes into a ledger each time a body or a branch runs, once for each example
# that it runs for. Say how many lines each of these programs leaves in the ledger, before you run any of them.
#
# `countdown(n)` goes from n to 0 in n steps. `choose(x)` takes the branch `dear` (the expensive one) if x > 5, and only
# `dear` writes into the ledger.
#
# <details><summary>Hint 1</summary>
# Who must wait for whom? A <code>vmap</code>ped <code>while</code> ends for all when it ends for the last one, and an
# example that is done still goes round.
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(jax.vmap(choose), jnp.arange(7.0))</code>: is there still a <code>cond</code>? And
# <code>show_jaxpr(lambda x: lax.map(choose, x), jnp.arange(7.0))</code>?
# </details>
# <details><summary>Hint 3</summary>
# vmap over 1, 3, 100: rounds of the slowest, times three. Two vmaps: add the bills of both. <code>lax.map</code> is a
# loop: each example pays for itself. A predicate that everybody shares leaves the <code>cond</code> in place.
# </details>

# %% nbgrader={"grade": false, "grade_id": "predict-bill-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
ledger = Counter()


def note(x):
    """Write a line into the ledger whenever this point is reached, for each example."""
    jax.debug.callback(lambda _: ledger.update(["lines"]), x)


def countdown(n):
    def step(n):
        note(n)
        return n - 1

    return lax.while_loop(lambda n: n > 0, step, n)


def dear(x):
    note(x)
    return jnp.exp(x)


def choose(x):
    return lax.cond(x > 5, dear, lambda x: x, x)


def choose_by(flag, x):
    return lax.cond(flag, dear, lambda x: x, x)


choose_all = jax.jit(jax.vmap(choose))


BILLS = {
    "vmap over 1, 3, 100": lambda: jax.vmap(countdown)(jnp.array([1, 3, 100])),
    "vmap over 1, 3, then 100 alone": lambda: (jax.vmap(countdown)(jnp.array([1, 3])), countdown(100)),
    "lax.map over 1, 3, 100": lambda: lax.map(countdown, jnp.array([1, 3, 100])),
    "dear, vmap over 0 to 6": lambda: choose_all(jnp.arange(7.0)),
    "dear, vmap over -1 to 5": lambda: choose_all(jnp.arange(-1.0, 6.0)),
    "dear, lax.map over 0 to 6": lambda: lax.map(choose, jnp.arange(7.0)),
    "dear, one flag for all, False": lambda: jax.vmap(choose_by, (None, 0))(False, jnp.arange(7.0)),
}


def lines(program):
    """How many lines a program leaves in the ledger."""
    jax.effects_barrier()
    ledger.clear()
    jax.block_until_ready(program())
    jax.effects_barrier()
    return ledger["lines"]


# %% nbgrader={"grade": false, "grade_id": "predict-bill", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predict_bill():
    """Name of each of BILLS -> number of lines in the ledger."""
    ### BEGIN SOLUTION
    # vmap: the slowest times everybody, and both branches for all. lax.map: each for itself.
    return {
        "vmap over 1, 3, 100": 300,
        "vmap over 1, 3, then 100 alone": 106,
        "lax.map over 1, 3, 100": 104,
        "dear, vmap over 0 to 6": 7,
        "dear, vmap over -1 to 5": 7,
        "dear, lax.map over 0 to 6": 1,
        "dear, one flag for all, False": 0,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "predict-bill-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. All seven bills."""
assert_prediction(
    predict_bill,
    lambda: {name: lines(program) for name, program in BILLS.items()},
    hints={
        "vmap over 1, 3, 100": "The loop goes round until the last example is done, and everybody goes with it.",
        "vmap over 1, 3, then 100 alone": "Two programs, two bills: in the first, 1 waits for 3.",
        "lax.map over 1, 3, 100": "A loop over the examples: each takes its own number of steps.",
        "dear, vmap over 0 to 6": "The cond became a select: both branches run, for every example.",
        "dear, vmap over -1 to 5": "Nobody takes the branch. Does the program know that when it is built?",
        "dear, lax.map over 0 to 6": "One example at a time, so the cond stays, and one of 0 to 6 is larger than 5.",
        "dear, one flag for all, False": "The predicate is not batched: there is one way for all, and the cond stays.",
    },
)

# %% [markdown]
# **Cut it down** (2 points). A picture of the night sky: 4096 pixels, almost all of them dark, at most `STARS` = 16 of
# them positive. A dark pixel is halved. A star needs `fit`, 200 steps of Newton's method.
#
#     x       -0.3  -1.2  64.0  -0.8  -0.1  27.0  -2.0  ...        4096 pixels
#                          fit               fit                   at most 16 fits
#     result -0.15  -0.6   4.0  -0.4 -0.05   3.0  -1.0  ...
#
# `jax.vmap(one_pixel)` is right and fits every pixel. Write `whole_sky`, with the same results for a tenth of its FLOPs
# or less. They are counted in a run: where a `cond` is left, only the branch that is taken counts. Shapes are static,
# so you cannot have a batch of just the stars. You can have a batch of 16. Call `fit`, do not copy it.
#
# Do not use `top_k`: the meter cannot see into it.
#
# <details><summary>Hint 1</summary>
# Gather the stars into a short array, fit that, and put the results back where they came from.
# </details>
# <details><summary>Hint 2</summary>
# <code>jnp.nonzero(x &gt; 0, size=STARS, fill_value=...)</code> always returns 16 indices. Print them for a sky with 3
# stars. Which index stands in the 13 places left over, and what happens to that pixel when you write the results back?
# (<code>y.at[i].set(v)</code> is <code>y</code> with <code>v</code> written at place <code>i</code>.)
# </details>
# <details><summary>Hint 3</summary>
# <pre># x.size is outside: nobody's place
# where = jnp.nonzero(x &gt; 0, size=STARS, fill_value=x.size)[0]
# stars = x.at[where].get(mode="fill", fill_value=1.0)
# return (x / 2).at[where].set(..., mode="drop")  # drop what has no place</pre>
# </details>

# %% nbgrader={"grade": false, "grade_id": "whole-sky-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
STARS = 16


@jax.jit
def cube_root(x):
    return lax.fori_loop(0, 200, lambda _, v: v - (v - x / v**2) / 3, jnp.maximum(x, 1.0))


def fit(x):
    """The cube root of a positive number, by 200 steps: [] -> []"""
    return fit.inside(x)


fit.inside = cube_root


def one_pixel(x):
    return lax.cond(x > 0, fit, lambda x: x / 2, x)


def whole_sky_spec(x):
    out = np.zeros(x.shape, np.float32)
    for i, pixel in enumerate(np.asarray(x)):
        out[i] = fit(pixel) if pixel > 0 else pixel / 2
    return out


def night(seed, stars):
    """4096 pixels, this many of them stars."""
    rng = np.random.default_rng(seed)
    sky = -rng.uniform(0.1, 2, 4096)
    sky[rng.permutation(4096)[:stars]] = rng.uniform(1, 99, stars)
    return jnp.asarray(sky, jnp.float32)


# %% nbgrader={"grade": false, "grade_id": "whole-sky", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def whole_sky(x):
    """[4096] -> [4096]: one_pixel of each, when at most STARS of them are positive."""
    ### BEGIN SOLUTION
    # A batch of fixed size: gather the few, fit them, scatter them back. Empty places point outside and are dropped.
    where = jnp.nonzero(x > 0, size=STARS, fill_value=x.size)[0]
    stars = x.at[where].get(mode="fill", fill_value=1.0)
    return (x / 2).at[where].set(jax.vmap(fit)(stars), mode="drop")
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "whole-sky-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The right sky, for a tenth of the FLOPs."""
for number in (16, 3):
    sky = night(number, number)
    assert_allclose(whole_sky(sky), whole_sky_spec(sky), rtol=1e-4, name=f"whole_sky with {number} stars")
assert_primitives(whole_sky, sky, max_run_flops=show_jaxpr(jax.vmap(one_pixel), sky).flops // 10)
### BEGIN HIDDEN TESTS
for seed, number in ((20, 0), (21, 9)):
    sky = night(seed, number)
    assert_allclose(whole_sky(sky), whole_sky_spec(sky), rtol=1e-4, name=f"a fresh sky with {number} stars")
sky = np.array(night(22, 2))
sky[[0, 9, 99, 100, 200, 300, -1]] = 27.0, 0.0, 0.3, 0.3, 1e-6, 1e-9, 8.0
assert_allclose(whole_sky(sky), whole_sky_spec(sky), rtol=1e-4, name="a star in the first and the last pixel")
assert_primitives(whole_sky, sky, max_run_flops=show_jaxpr(jax.vmap(one_pixel), sky).flops // 10)
even_sky = np.full(4096, -1.0, np.float32)  # equally dark, and all stars close together
even_sky[-40:-24] = np.arange(1.0, 17)
assert_allclose(
    whole_sky(even_sky), whole_sky_spec(even_sky), rtol=1e-4, name="a sky that is equally dark between the stars"
)
assert_primitives(whole_sky, even_sky, max_run_flops=show_jaxpr(jax.vmap(one_pixel), even_sky).flops // 10)
each_apart = np.full(4096, -1.0, np.float32)
each_apart[np.random.default_rng().integers(0, 256, 16) + np.arange(0, 4096, 256)] = np.arange(1.0, 17)
assert_allclose(whole_sky(each_apart), whole_sky_spec(each_apart), rtol=1e-4, name="a sky of stars far apart")
assert_primitives(whole_sky, each_apart, max_run_flops=show_jaxpr(jax.vmap(one_pixel), each_apart).flops // 10)
black_sky = np.where(even_sky > 0, even_sky, np.float32(0))  # no light at all between them
assert_allclose(whole_sky(black_sky), whole_sky_spec(black_sky), rtol=1e-4, name="a sky that is 0 between the stars")
with another_inside(fit, lambda x: x + 1):
    assert_allclose(whole_sky(sky), whole_sky_spec(sky), rtol=1e-4, name="whole_sky, with another function inside fit,")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · Every example its own gradient (4 points)
#
# One wrong label can pull a model far away. *Clipping* limits the pull: the gradient of **each example** is scaled down
# until its length is at most `limit` (shorter ones stay as they are), and then they are averaged. The length is that of
# all leaves together, as if they were one long vector. Private learning does just this, and then adds noise.
#
#     example 0   ──►              ──►
#     example 1   ───────────►     ───►|       limit
#     example 2   ─►               ─►
#                                  ──►         their mean
#
# Write `clipped_mean`: the same tree as the specification, without its loop. 2 points for the values and the tape, and
# up to 2 for speed over the specification with 256 examples: 20x earns 1, 60x earns 2.
#
# **Rules**: no callback, and no loop, neither Python's nor `lax.map`: as many equations for six examples, or for
# thousands, as for two. `@jax.jit` stays where it is: one trace serves every limit.
#
# <details><summary>Hint 1</summary>
# Write the function for one example first: its gradient, its length, its scaled gradient. Then one <code>vmap</code>,
# then one mean for each leaf.
# </details>
# <details><summary>Hint 2</summary>
# <code>jax.tree.map(jnp.shape, jax.vmap(jax.grad(loss), (None, 0, 0))(params, xs, ys))</code>: which axis counts the
# examples? <code>show_jaxpr(clipped_mean, ...).equations</code> for 4 and for 8 examples must be the same number.
# </details>
# <details><summary>Hint 3</summary>
# <pre>def clipped(x, y):
#     gradient = jax.grad(loss)(params, x, y)
#     length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
#     return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, ...), gradient)</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "clipped-mean-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def loss(params, x, y):
    """Squared error of a small network for one example: ({v: [h], w: [d,h], b: [h]}, [d], []) -> []"""
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return (hidden @ params["v"] - y) ** 2


gradient_of_one = jax.jit(jax.grad(loss))


def clipped_mean_spec(params, xs, ys, limit):
    """One example at a time."""
    total = {name: np.zeros(leaf.shape) for name, leaf in params.items()}
    for x, y in zip(np.asarray(xs), np.asarray(ys), strict=True):
        gradient = gradient_of_one(params, x, y)
        length = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in gradient.values()))
        scale = min(1.0, limit / length)
        total = {name: total[name] + scale * np.asarray(gradient[name]) for name in params}
    return {name: (total[name] / len(xs)).astype(np.float32) for name in params}


def examples(seed, n, d=8, h=16):
    """Parameters of the network, n points and n targets, some of them far off."""
    w, v, b, xs, ys = draws(seed, (d, h), (h,), (h,), (n, d), (n,))
    return {"w": w / 3, "v": v / 4, "b": b / 10}, xs, ys * jnp.asarray(np.where(np.arange(n) % 5, 1, 10), jnp.float32)


# %% nbgrader={"grade": false, "grade_id": "clipped-mean", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def clipped_mean(params, xs, ys, limit):
    """The mean of the gradients of all examples, each clipped to `limit`: a tree like params."""

    ### BEGIN SOLUTION
    # The function for one example, then vmap. Clipping the mean instead would let one example set its direction.
    def clipped(x, y):
        gradient = jax.grad(loss)(params, x, y)
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, limit / length), gradient)

    return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(clipped)(xs, ys))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "clipped-mean-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The clipped mean, from a tape that does not grow with the batch."""
params, xs, ys = examples(23, 6)
for limit in (1e6, 0.5):
    desired = clipped_mean_spec(params, xs, ys, limit)
    actual = clipped_mean(params, xs, ys, limit)
    assert_allclose(actual, desired, rtol=1e-4, atol=1e-5, name=f"clipped_mean with limit {limit:g}")
few = params, xs[:2], ys[:2], 0.5
assert_primitives(clipped_mean, params, xs, ys, 0.5, excludes={"scan", "while"}, smaller=few)
### BEGIN HIDDEN TESTS
params, xs, ys = examples(24, 9, d=3, h=5)
for limit in (2.0, 0.1):
    desired = clipped_mean_spec(params, xs, ys, limit)
    actual = clipped_mean(params, xs, ys, limit)
    assert_allclose(actual, desired, rtol=1e-4, atol=1e-5, name=f"clipped_mean of fresh examples, limit {limit:g}")
with assert_max_traces(clipped_mean, 1):
    for limit in [*np.random.default_rng().uniform(0.1, 1, 3).tolist(), 1e9, 1e-9]:
        clipped_mean(params, xs[:5], ys[:5], limit)
params, many, answers = examples(26, 5000)
no_loop = {"scan", "while", "pure_callback"}
assert_primitives(clipped_mean, params, many, answers, 0.5, excludes=no_loop, smaller=few)
params, xs, ys = examples(24, 9)
no_number = params, xs.at[1].set(jnp.nan), ys, 0.5
assert_allclose(clipped_mean(*no_number), clipped_mean_spec(*no_number), name="clipped_mean, with an example of NaN")
no_pull = params | {"v": jnp.zeros_like(params["v"])}, xs, ys.at[0].set(0.0), 0.5  # the first example is met exactly
with np.errstate(divide="ignore"):
    desired = clipped_mean_spec(*no_pull)
assert_allclose(clipped_mean(*no_pull), desired, rtol=1e-4, atol=1e-5, name="clipped_mean, with a gradient of 0")
short = params, xs, ys, 1e-5
assert_allclose(clipped_mean(*short), clipped_mean_spec(*short), rtol=1e-3, atol=1e-9, name="clipped_mean, limit 1e-5")
tiny = no_pull[0], xs, 1e-7 * ys, 1e-6  # most gradients are shorter than the limit, and stay as they are
name = "clipped_mean, with tiny gradients and a tiny limit"
assert_allclose(clipped_mean(*tiny), clipped_mean_spec(*tiny), rtol=1e-2, atol=1e-9, name=name)
desired = clipped_mean_spec(params, xs, ys, 0.5)
assert_allclose(jax.jit(clipped_mean)(params, xs, ys, 0.5), desired, rtol=1e-4, atol=1e-5, name="jax.jit(clipped_mean)")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "clipped-mean-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Speed over the loop of jitted gradients, 256 examples: 20x earns 1 point, 60x earns 2."""
params, xs, ys = examples(25, 256)
few = params, xs[:2], ys[:2], 0.5
assert_primitives(clipped_mean, params, xs, ys, 0.5, excludes={"scan", "while"}, smaller=few)
partial_credit(speedup(clipped_mean, clipped_mean_spec, params, xs, ys, 0.5, at_least=60), {20: 1, 60: 2})

# %% [markdown]
# ## Task 7 · minijit: batch (4 points)
#
# The jit of units 02, 03 and 05 stands below; if you did not build it, read it there. Now it learns `vmap`. That costs
# little: a tape is read once more, with other rules.
#
# `minivmap(fn, in_axes)` is given. It takes the batch axis off the types, traces `fn` for **one** example, and hands
# the tape to a function that you write:
#
# - `replay_rows(tape, args, mapped, size)` runs the tape on all `size` examples at once. `mapped` is the set of the
#   input names whose value has a batch axis in front, and stays as it is; the others are shared by all examples. What
#   depends on a mapped name has a batch axis in front as well. The result has a batch axis in any case.
#
# Only two primitives need a rule of their own, those with an `axis`: `sum` takes it away, `spread` brings one in. For
# all others nothing is to be done. On the tape of one example their operands have one shape already, or are plain
# numbers (`match` in the cell below has seen to it). So what a shared operand lacks beside a mapped one is the batch
# axis in front, and an axis that is missing in front is brought in by NumPy, or by `match`.
#
# <details><summary>Hint 1</summary>
# It is <code>replay</code>, with a set of names on the side. When does the result of an equation belong to this set?
# And what was axis 0 of one example is which axis of the batch?
# </details>
# <details><summary>Hint 2</summary>
# <code>print(trace(minivmap(lambda x: x.sum()), Type((5, 3), "float32")))</code> shows what you asked NumPy to do.
# Compare with <code>jax.make_jaxpr(jax.vmap(lambda x: x.sum()))(jnp.ones((5, 3)))</code>.
# </details>
# <details><summary>Hint 3</summary>
# <pre>values, mapped = dict(zip(tape.inputs, args)), set(mapped)
# for name, primitive, operands, params in tape.equations:
#     if any(isinstance(x, str) and x in mapped for x in operands):
#         mapped.add(...)
#         if "axis" in params:
#             params = {**params, "axis": ...}
#     values[name] = bind(primitive, *[read(values, x) for x in operands], **params)
# ...the result: as it is if it is mapped, else spread along a new axis 0 with bind...</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "minijit-07-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Type(NamedTuple):
    """All that is known of a value while a tape is written."""

    shape: tuple
    dtype: str  # "float32", "int32" or "bool"

    def __str__(self):
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def type_of(x):
    if isinstance(x, Tracer):
        return x.type
    x = np.asarray(x)
    return Type(x.shape, {"f": "float32", "i": "int32", "b": "bool"}[x.dtype.kind])


def is_number(x):
    return type(x) in (int, float)


def lift(x):
    """x as an array of its type; a tracer as it is."""
    return x if isinstance(x, Tracer) else np.asarray(x, type_of(x).dtype)


class Tape:
    """Equations are tuples (name, primitive, operands, params). A str is a name, the rest is itself."""

    def __init__(self):
        self.types, self.inputs, self.equations, self.output = {}, [], [], None
        self.made = []  # weak references: they do not keep a tracer alive

    def new(self, type):
        """A tracer with the next free name: a, b, ..., z, a1, b1, ..."""
        letter, round = string.ascii_lowercase[len(self.types) % 26], len(self.types) // 26
        tracer = Tracer(self, f"{letter}{round or ''}", type)
        self.types[tracer.name] = type
        self.made.append(weakref.ref(tracer))
        return tracer

    def refer(self, x):
        """What stands on this tape for x: the name of a tracer of its own; anything else as it is."""
        return x.name if isinstance(x, Tracer) and x.tape is self else x

    def play(self, *args):
        """Run the tape and return its result."""
        return read(replay(self, *args), self.output)

    def __str__(self):
        def typed(name):
            return f"{name}:{self.types[name]}".replace("float", "f").replace("int", "i")

        def shown(x):
            return x if isinstance(x, str) else str(x) if is_number(x) else f"<{type_of(x)}>"

        lines = [f"{{ lambda ; {' '.join(map(typed, self.inputs))}. let"]
        for output, primitive, operands, params in self.equations:
            options = " ".join(f"{key}={value}" for key, value in params.items())
            primitive += f"[{options}]" if options else ""
            lines.append(f"    {typed(output)} = {primitive} {' '.join(map(shown, operands))}")
        return "\n".join([*lines, f"  in ({shown(self.output)},) }}"])


class Refused(Exception):
    """minijit would break its promise for this function, and says why it will not."""


class NoValue(Refused):
    """Somebody asked a tracer for its value."""


class Leak(Refused):
    """A tracer outlived the tape it belongs to."""


class Effect(Refused):
    """Something outside the function changed while its tape was written."""


class Tracer(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands for a value that is not there yet. Whatever NumPy is asked to do with it goes on its tape."""

    def __init__(self, tape, name, type):
        self.tape, self.name, self.type = tape, name, type
        self.shape, self.dtype, self.ndim = type.shape, type.dtype, len(type.shape)

    def __array_ufunc__(self, ufunc, method, *operands, out=()):  # np.sin(tracer) comes here, 2 * tracer too
        if method != "__call__" or ufunc not in NAMES or not all(isinstance(x, Tracer) for x in out):
            raise TypeError(f"minijit has no primitive for this use of np.{ufunc.__name__}")
        return bind(NAMES[ufunc], *operands)

    def sum(self, axis=None, out=None):  # np.sum(tracer) comes here
        if axis is not None:
            return bind("sum", self, axis=axis % self.ndim)
        return bind("sum", self, axis=0).sum() if self.ndim else self

    def no_value(self, *_, **__):
        raise NoValue(f"the value of {self.name}:{self.type} was asked for; a tracer has only a type")

    __bool__ = __int__ = __float__ = __array__ = no_value


def spread(x, axis, size):
    """`size` copies of x along a new axis. sum takes an axis away, spread brings one in."""
    return np.repeat(np.expand_dims(x, axis), size, axis)


NAMES = {np.add: "add", np.subtract: "sub", np.multiply: "mul", np.negative: "neg"}
NAMES |= {np.sin: "sin", np.cos: "cos", np.exp: "exp", np.greater: "gt", np.less: "lt"}
RUN = {name: function for function, name in NAMES.items()} | {"spread": spread}
RUN["sum"] = lambda x, axis: np.sum(x, axis, dtype=x.dtype)


def bind(primitive, *operands, **params):
    """Apply a primitive: at once, with NumPy; or, if a tracer takes part, on the tape."""
    if not any(isinstance(x, Tracer) for x in operands):
        return RUN[primitive](*operands, **params)
    return record(primitive, operands if "axis" in params else match(operands), params)


def match(operands):
    """Give all operands one shape. As in NumPy, missing axes go in front; a plain number fits as it is."""
    operands = [x if is_number(x) else lift(x) for x in operands]
    longest = max((type_of(x).shape for x in operands), key=len)
    for i, x in enumerate(operands):
        while not is_number(x) and x.ndim < len(longest):
            x = operands[i] = bind("spread", x, axis=0, size=longest[-1 - x.ndim])
    return operands


def result_type(primitive, operands, params):
    """The type of a result, from the types of its operands."""
    shape, dtype = type_of(operands[0])
    if "axis" in params:
        before, after = shape[: params["axis"]], shape[params["axis"] :]
        return Type(before + ((params["size"], *after) if primitive == "spread" else after[1:]), dtype)
    types = [type_of(x) for x in operands if not is_number(x)]
    dtypes = {t.dtype for t in types} - {"bool"}
    dtypes |= {"float32" for x in operands if type(x) is float or primitive in ("sin", "cos", "exp")}
    if len(dtypes) != 1 or len({t.shape for t in types}) != 1:
        raise TypeError(f"minijit cannot {primitive} " + " and ".join(str(type_of(x)) for x in operands))
    return Type(types[0].shape, "bool" if primitive in ("gt", "lt") else dtypes.pop())


OPEN = []  # the tapes that are being written, the innermost last


@contextlib.contextmanager
def writing(tape):
    OPEN.append(tape)
    try:
        yield
    finally:
        OPEN.pop()


def tape_for(operands):
    """The innermost open tape among those of the operands."""
    tracers = [x for x in operands if isinstance(x, Tracer)]
    for x in tracers:
        if x.tape not in OPEN:
            raise Leak(f"{x.name}:{x.type} is used after its tape was closed: somebody kept it")
    return max((x.tape for x in tracers), key=OPEN.index)


def record(primitive, operands, params):
    """Write one equation; return the tracer of its result."""
    tape = tape_for(operands)
    result = tape.new(result_type(primitive, operands, params))
    tape.equations.append((result.name, primitive, tuple(map(tape.refer, operands)), params))
    return result


def write(tape, fn, types):
    """Run fn once, on tracers of these types."""
    result = fn(*map(tape.new, types))
    tape.inputs, tape.output = list(tape.types)[: len(types)], tape.refer(result)


def visible(fn):
    """The plain data outside itself that a Python function names, in a form to compare: name -> text."""
    if not inspect.isfunction(fn):
        return {}
    outside = inspect.getclosurevars(fn)
    plain = {**outside.globals, **outside.nonlocals}.items()
    return {name: repr(x) for name, x in plain if isinstance(x, (int, float, str, list, dict, set))}


def survivors(tape):
    """The tracers of a tape that somebody still holds."""
    if any(reference() is not None for reference in tape.made):
        gc.collect()  # what lives only in a reference cycle is held by nobody
    return [tracer for reference in tape.made if (tracer := reference()) is not None]


def trace(fn, *types):
    """The tape of fn for arguments of these types. Refuses a function whose tape is not the whole story."""
    tape, before = Tape(), visible(fn)
    with writing(tape):
        write(tape, fn, types)
    changed = [name for name, text in visible(fn).items() if text != before.get(name)]
    if changed:
        raise Effect(f"{', '.join(changed)} changed while the tape was written; no replay will do that again")
    for kept in survivors(tape):
        raise Leak(f"{kept.name}:{kept.type} is held by somebody, and its tape is closed")
    return tape


def read(values, operand):
    """A name is looked up; anything else stands for itself."""
    return values[operand] if isinstance(operand, str) else operand


def replay(tape, *args):
    """Run a tape; return the value of every name on it."""
    values = dict(zip(tape.inputs, map(lift, args), strict=True))
    for output, primitive, operands, params in tape.equations:
        values[output] = bind(primitive, *[read(values, x) for x in operands], **params)
    return values


CACHE = weakref.WeakKeyDictionary()  # function -> {signature: tape}


def told(entry):
    """One entry of a signature, in words."""
    type, weak = entry
    return f"weak {type}" if weak else str(type)


def signature(args):
    """What a trace depends on: for each argument its Type, and whether it is weak (a plain number)."""
    return tuple((type_of(x), is_number(x)) for x in args)


def reason_for(known, new):
    """How a signature differs from the closest known one; from the latest of them, if several are."""
    if not known:
        return "first call"
    alike = [old for old in reversed(known) if len(old) == len(new)]
    if not alike:
        return f"{len(new)} argument{'s' * (len(new) != 1)}"
    closest = min(alike, key=lambda old: sum(a != b for a, b in zip(old, new, strict=True)))
    pairs = enumerate(zip(closest, new, strict=True))
    return ", ".join(f"argument {i}: {told(old)} -> {told(now)}" for i, (old, now) in pairs if old != now)


def minijit(fn):
    """fn, traced once for each signature, replayed ever after."""

    def jitted(*args):
        tapes, key = CACHE.setdefault(fn, {}), signature(args)
        if key not in tapes:
            tapes[key] = trace(fn, *[type for type, _ in key])
        return tapes[key].play(*args)

    return jitted


def reasons(fn):
    """Why fn was traced, one reason for each trace."""
    known = list(CACHE.get(fn, {}))
    return [reason_for(known[:i], new) for i, new in enumerate(known)]


# %% [markdown]
# That was units 02, 03 and 05. From here it is unit 07.


# %% nbgrader={"grade": false, "grade_id": "minijit-vmap-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def minivmap(fn, in_axes=0):
    """fn for a whole batch. in_axes: 0 for an argument with a batch axis in front, None for a shared one."""

    def batched(*args):
        args = [lift(x) for x in args]
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        (size,) = {x.shape[0] for x, axis in zip(args, axes, strict=True) if axis == 0}
        types = [Type(x.shape[axis == 0 :], type_of(x).dtype) for x, axis in zip(args, axes, strict=True)]
        tape = trace(fn, *types)
        mapped = {name for name, axis in zip(tape.inputs, axes, strict=True) if axis == 0}
        return replay_rows(tape, args, mapped, size)

    return batched


# %% nbgrader={"grade": false, "grade_id": "minijit-rows-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Functions of one example, for the checks: in NumPy, or with xp=jnp in JAX.


def rows_wave(x, xp=np):
    return xp.sin(x) * x - 0.5


def rows_norm(x, xp=np):
    return xp.sum(x * x)


def rows_columns(x, xp=np):
    return xp.sum(xp.exp(x), 0) - xp.sum(x, 1).sum()


def rows_predict(w, x, xp=np):
    return xp.sum(w * x) + xp.sum(w)


def rows_scale(x, w, xp=np):
    return x * w + xp.sum(w, 0)


def rows_shared(x, w, xp=np):
    return xp.cos(w) * 2


def rows_number(x, xp=np):
    return 7.5


rows_offset = np.array([1.0, -1.0, 2.0], np.float32)


def rows_mask(x, xp=np):
    return (x > 0) * x * rows_offset


# %% nbgrader={"grade": false, "grade_id": "minijit-vmap", "locked": false, "schema_version": 3, "solution": true, "task": false}
def replay_rows(tape, args, mapped, size):
    """Run a tape on `size` examples at once, without a loop over them.

    args: arrays or tracers, one for each of tape.inputs. mapped: the set of those input names whose value has
    a batch axis of length size in front. Returns the result, always with a batch axis in front.
    """
    ### BEGIN SOLUTION
    # Axis 0 is the batch, so each axis of an example is one further back. Shared values are computed once.
    values, mapped = dict(zip(tape.inputs, args, strict=True)), set(mapped)
    for output, primitive, operands, params in tape.equations:
        if any(isinstance(x, str) and x in mapped for x in operands):
            mapped.add(output)
            if "axis" in params:
                params = {**params, "axis": params["axis"] + 1}
        values[output] = bind(primitive, *[read(values, x) for x in operands], **params)
    if isinstance(tape.output, str) and tape.output in mapped:
        return values[tape.output]
    return bind("spread", lift(read(values, tape.output)), axis=0, size=size)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minijit-vmap-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The values of a loop: mapped and shared arguments, sums along every axis, constants."""


def assert_rows_agree(fn, in_axes, *args, name):
    """Your minivmap against a Python loop over the examples."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    size = max(len(x) for x, axis in zip(args, axes, strict=True) if axis == 0)
    rows = [[x if axis is None else x[i] for x, axis in zip(args, axes, strict=True)] for i in range(size)]
    expected = np.stack([np.asarray(fn(*row), np.float32) for row in rows])
    name, error = f"{fn.__name__} ({name})", "none"
    try:
        batched = minivmap(fn, in_axes)(*args)
    except NotImplementedError:
        raise
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    if error != "none":
        assert_equal({"error": error}, {"error": "none"}, name=name)
    assert_allclose(batched, expected, rtol=1e-5, atol=1e-5, name=name)


mini_rng = np.random.default_rng(7)
square, cube = (mini_rng.normal(size=shape).astype(np.float32) for shape in ((3, 3), (3, 2, 3)))
assert_rows_agree(rows_wave, 0, square, name="operations element by element stay as they are")
assert_rows_agree(rows_norm, 0, square, name="axis 0 of an example is axis 1 of the batch")
assert_rows_agree(rows_columns, 0, cube, name="every axis of an example is one further back")
assert_rows_agree(rows_predict, (None, 0), square[0], square, name="the axes of a shared w have not moved")
assert_rows_agree(rows_scale, (0, None), square[0], square[1], name="a mapped number meets a shared vector")
assert_rows_agree(rows_shared, (0, None), square, square[0], name="a shared result, once for each example")
assert_rows_agree(rows_number, 0, square, name="a number as result, once for each example")
assert_rows_agree(rows_mask, 0, square, name="a captured array is shared")


def rows_mixed(w, x, y, xp=np):
    error = xp.sum(xp.sum(w * x, 1) - y, 0)
    return error * error - xp.sum(w * w)


weights, batch, targets = (mini_rng.normal(size=shape).astype(np.float32) for shape in ((2, 4), (4, 2, 4), (4, 2)))
assert_rows_agree(rows_mixed, (None, 0, 0), weights, batch, targets, name="fresh numbers")
assert_rows_agree(rows_mixed, (0, None, 0), batch, weights, targets, name="fresh numbers, w mapped")
assert_rows_agree(rows_mixed, (None, None, 0), weights, batch[0], targets, name="fresh numbers, two shared")
### BEGIN HIDDEN TESTS


def rows_of_shared(w, x, xp=np):
    return xp.cos(w) * 2


assert_rows_agree(rows_of_shared, (None, 0), square[0], targets, name="a shared result, of the first argument")


def binds_of(rows, really=bind):
    """How often your replay_rows calls bind for so many rows, whether a tape can be read twice, and its set then."""
    global bind
    tape, x, calls, names = trace(rows_columns, Type((2, 3), "float32")), cube[rows], [], {"a"}
    bind = lambda *args, **params: (calls.append(args), really(*args, **params))[1]  # noqa: E731
    try:
        first, again = (np.asarray(replay_rows(tape, [x], names, len(x))) for _ in range(2))
    finally:
        bind = really
    return len(calls), bool(np.array_equal(first, again)), sorted(names)


few, same, names = binds_of([0, 1])
assert_equal(
    {"calls of bind for more rows": binds_of([0, 1, 2, 0, 1])[0], "a tape read twice gives the same": same}
    | {"the set of mapped names after it": names},
    {"calls of bind for more rows": few, "a tape read twice gives the same": True}
    | {"the set of mapped names after it": ["a"]},
    name="replay_rows",
)


def rows_captured(x, xp=np):
    return rows_offset


assert_rows_agree(rows_captured, 0, square, name="a captured array as result")


def rows_from(x, w, xp=np):
    return rows_offset - x + rows_offset * w


assert_rows_agree(rows_from, (0, None), square, square[0], name="a captured array in front, of what is mapped and not")


def rows_same(x, xp=np):
    return x


def rows_early(x, w, xp=np):
    result = 2 - x
    xp.sin(w)  # the last line, and not the result
    return result


assert_rows_agree(rows_same, 0, square, name="an argument as result")
assert_rows_agree(rows_early, (0, None), square, square[0], name="a result that is not made by the last equation")


def rows_outer(x, xp=np):
    return np.sum(minivmap(lambda _: x, 0)(square[0]), 0)


assert_rows_agree(rows_outer, 0, square, name="minivmap inside, whose result is a row of the outer one")
counted = minivmap(lambda x, n: n, (0, None))(square, np.arange(3, dtype=np.int32))
assert_equal({"dtype": str(np.asarray(counted).dtype)}, {"dtype": "int32"}, name="a shared result of whole numbers")


def rows_product(x, xp=np):
    return np.sum(minivmap(lambda y: x * y, 0)(square), 0)


assert_rows_agree(rows_product, 0, square, name="minivmap inside, which multiplies by a row of the outer one")
counted = minivmap(lambda n: n + 1)(np.arange(3, dtype=np.int32))
assert_equal({"dtype": str(np.asarray(counted).dtype)}, {"dtype": "int32"}, name="whole numbers, and 1 more of each")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "minijit-vmap-tape", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. No loop: the primitives of JAX's tape, for any size; and vmap in vmap, jit around it."""


def mini_primitives(fn, in_axes, *args):
    """Name of each primitive on the tape of the batched fn -> how often; or the error, as text."""
    try:
        tape = trace(minivmap(fn, in_axes), *map(type_of, args))
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    counts = Counter(primitive for _, primitive, _, _ in tape.equations if primitive != "spread")
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))


def jax_primitives(fn, in_axes, *args):
    """The same of JAX's tape. How each of the two copies along an axis is its own affair."""
    counts = show_jaxpr(jax.vmap(lambda *a: fn(*a, xp=jnp), in_axes), *args).primitives
    names = {"reduce_sum": "sum"}
    own_affair = {"broadcast_in_dim", "reshape", "squeeze", "expand_dims", "jit"}
    counts = {names.get(name, name): number for name, number in counts.items() if name not in own_affair}
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))


def tape_cases(*sizes):
    """Case -> (function, in_axes, its arguments)."""
    x, w = (lambda size: np.ones((size, 3), np.float32)), np.ones(3, np.float32)
    cases = {"rows_shared, 2 rows": (rows_shared, (0, None), x(2), w)}
    for size in sizes:
        cases[f"rows_wave, {size} rows"] = rows_wave, 0, x(size)
        cases[f"rows_norm, {size} rows"] = rows_norm, 0, x(size)
        cases[f"rows_predict, {size} rows"] = rows_predict, (None, 0), w, x(size)
    return cases


def assert_same_primitives(*sizes):
    hint = "One walk along the tape serves the whole batch. A tracer has no rows to take."
    cases = tape_cases(*sizes)
    assert_equal(
        {case: mini_primitives(*what) for case, what in cases.items()},
        {case: jax_primitives(*what) for case, what in cases.items()},
        name="the tape of minivmap",
        hints=dict.fromkeys(cases, hint),
    )


assert_same_primitives(2, 50)


def rows_pair(x, y, xp=np):
    return xp.sum(xp.sin(x) * y)


def pair_table(vmap_fn, xp):
    """The function of all pairs: a row of the table for each x, a column for each y."""

    def pair(x, y):
        return rows_pair(x, y, xp)

    return vmap_fn(vmap_fn(pair, (None, 0)), (0, None))


pair_rng = np.random.default_rng(70)
all_x, all_y = (pair_rng.normal(size=(n, 3)).astype(np.float32) for n in (4, 2))
pairs, jax_pairs = pair_table(minivmap, np), jax.jit(pair_table(jax.vmap, jnp))
for factor in (1, 2):
    scaled = all_x * factor
    expected = jax_pairs(scaled, all_y)
    assert_allclose(pairs(scaled, all_y), expected, rtol=1e-5, atol=1e-5, name="minivmap in minivmap")
    assert_allclose(minijit(pairs)(scaled, all_y), expected, rtol=1e-5, atol=1e-5, name="minijit of it")
assert_equal({"traces": reasons(pairs)}, {"traces": ["first call"]}, name="minijit of it")
inside = minivmap(minijit(rows_norm))(all_x)
assert_allclose(inside, (all_x * all_x).sum(1), rtol=1e-5, name="minivmap of minijit")

# %% [markdown]
# ## What you have now
#
# Ten functions without a loop, a way to pay for the few, and a gradient for everybody. `vmap` and `grad` have met in
# one line here. Unit 08 puts all transformations together, in every order, and finds out which orders are wrong.
