# %% [markdown]
# # Exercise 08 · Composition
#
# Seven tasks, 26 points, about {duration}. The lesson is [08 · Composition](../../lessons/08_composition.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. The checks look at values,
# and at what your functions ask for: traces, FLOPs, the largest value, what is kept for the backward pass. One, in task
# 4, asks the clock. Where a check is folded, its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say what `jit`, `vmap` and the derivatives give, in one order and another | 3 |
# | 2 | compute all derivatives up to an order, for a whole batch | 2 |
# | 3 | differentiate along the tape (the jaxpr), forwards and backwards | 4 |
# | 4 | take Newton's steps on a rope of many nodes | 6 |
# | 5 | cure a gradient that is `nan`, and one that JAX refuses | 4 |
# | 6 | take the gradient of a long simulation with little memory | 3 |
# | 7 | teach `minijit` to differentiate | 4 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import gc
import inspect
import math
import string
import weakref
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax import grad, hessian, jacfwd, jacrev, jit, vmap
from jax.extend.core import Literal

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

jax.config.update("jax_default_matmul_precision", "highest")  # or a GPU or TPU drops digits of products (unit 10)

# %% [markdown]
# ## Task 1 · Which sentences mean something? (3 points)
#
# Three times eight predictions, each about a *sentence*: a line such as `jit(grad(f))`. Type them **before** you run
# anything; the check runs every sentence now and names those that you have wrong, never the right answer.
#
# - `oracle_sizes`: how many numbers come back? `f` takes a number to a number, `g` takes a vector to a number, `xs`
#   holds 3 numbers, `table` holds 5 rows of 3. If JAX refuses the sentence, say 0.
# - `oracle_if`: `branch` has a Python `if` on its argument. Does the sentence run? `True` or `False`.
# - `oracle_runs`: the sentence makes a function, which is called five times with the same argument. How often does the
#   Python body of `f` run?
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Read from the inside out, and write the type of each step on paper: number to number, vector to vector, ... What does
# each transformation want, and what does it make?
# </details>
# <details><summary>Hint 2</summary>
# For <code>if</code> and for runs, one question decides: does the body of the function see the value, or only a type?
# Section 3 of the lesson has a table with six of the sentences.
# </details>
# <details><summary>Hint 3</summary>
# <code>grad</code> wants one number out. <code>jacfwd</code> and <code>jacrev</code> append the input's shape to the
# output's. <code>jit</code> and <code>vmap</code> hide the value from all that stands inside them; <code>grad</code>,
# <code>jacfwd</code>, <code>jacrev</code> do not. Only <code>jit</code> remembers, and it remembers a function object.
# </details>


# %% nbgrader={"grade": false, "grade_id": "order-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def f(x):
    return x**3 + 2 * x


def g(x):
    return jnp.sum(x * x * x)


def branch(x):
    return x**3 if x > 0 else -x


xs, table = np.array([1.0, 2.0, 3.0], np.float32), np.ones((5, 3), np.float32)

SIZES = {
    "jit(grad(grad(vmap(f))))(xs)": lambda: jit(grad(grad(vmap(f))))(xs),
    "jit(vmap(grad(grad(f))))(xs)": lambda: jit(vmap(grad(grad(f))))(xs),
    "vmap(grad(f))(2.0)": lambda: vmap(grad(f))(2.0),
    "jacrev(vmap(f))(xs)": lambda: jacrev(vmap(f))(xs),
    "grad(grad(g))(xs)": lambda: grad(grad(g))(xs),
    "jacfwd(grad(g))(xs)": lambda: jacfwd(grad(g))(xs),
    "vmap(hessian(g))(table)": lambda: vmap(hessian(g))(table),
    "grad(lambda v: vmap(f)(v).sum())(xs)": lambda: grad(lambda v: vmap(f)(v).sum())(xs),
}

WITH_IF = {
    "grad(branch)(2.0)": lambda: grad(branch)(2.0),
    "jit(grad(branch))(2.0)": lambda: jit(grad(branch))(2.0),
    "grad(jit(branch))(2.0)": lambda: grad(jit(branch))(2.0),
    "grad(grad(branch))(2.0)": lambda: grad(grad(branch))(2.0),
    "vmap(branch)(xs)": lambda: vmap(branch)(xs),
    "vmap(grad(branch))(xs)": lambda: vmap(grad(branch))(xs),
    "hessian(branch)(2.0)": lambda: hessian(branch)(2.0),
    "grad(jax.checkpoint(branch))(2.0)": lambda: grad(jax.checkpoint(branch))(2.0),
}

RUNS = {
    "grad(f)": lambda f: grad(f),
    "jit(grad(f))": lambda f: jit(grad(f)),
    "grad(jit(f))": lambda f: grad(jit(f)),
    "grad(grad(f))": lambda f: grad(grad(f)),
    "grad(grad(jit(f)))": lambda f: grad(grad(jit(f))),
    "hessian(f)": lambda f: hessian(f),
    "lambda x: jit(f)(x)": lambda f: lambda x: jit(f)(x),
    "lambda x: jit(grad(f))(x)": lambda f: lambda x: jit(grad(f))(x),
}


def numbers_back(sentence):
    """How many numbers a sentence returns, 0 if JAX refuses it."""
    try:
        return jax.eval_shape(sentence).size
    except (TypeError, ValueError):
        return 0


def accepted(sentence):
    """Whether a sentence runs, or stumbles over the Python `if`."""
    try:
        sentence()
    except jax.errors.TracerBoolConversionError:
        return False
    return True


def body_runs(make):
    """How often the body of a fresh f runs in five calls of make(f)."""
    runs = []

    def fresh(x):
        runs.append(1)
        return x**3 + 2 * x

    function = make(fresh)
    for _ in range(5):
        function(2.0)
    return len(runs)


# %% nbgrader={"grade": false, "grade_id": "order", "locked": false, "schema_version": 3, "solution": true, "task": false}
def oracle_sizes():
    """Each sentence of SIZES -> how many numbers come back (an int), 0 if JAX refuses."""
    ### BEGIN SOLUTION
    # grad wants one number out; jacobians append the input's shape; vmap needs an axis to walk along.
    return {
        "jit(grad(grad(vmap(f))))(xs)": 0,
        "jit(vmap(grad(grad(f))))(xs)": 3,
        "vmap(grad(f))(2.0)": 0,
        "jacrev(vmap(f))(xs)": 9,
        "grad(grad(g))(xs)": 0,
        "jacfwd(grad(g))(xs)": 9,
        "vmap(hessian(g))(table)": 45,
        "grad(lambda v: vmap(f)(v).sum())(xs)": 3,
    }
    ### END SOLUTION


def oracle_if():
    """Each sentence of WITH_IF -> True if it runs, False if it stumbles over the `if`."""
    ### BEGIN SOLUTION
    # The tracers of grad carry the value. Those of jit, vmap and checkpoint do not, wherever they stand.
    return {
        "grad(branch)(2.0)": True,
        "jit(grad(branch))(2.0)": False,
        "grad(jit(branch))(2.0)": False,
        "grad(grad(branch))(2.0)": True,
        "vmap(branch)(xs)": False,
        "vmap(grad(branch))(xs)": False,
        "hessian(branch)(2.0)": True,
        "grad(jax.checkpoint(branch))(2.0)": False,
    }
    ### END SOLUTION


def oracle_runs():
    """Each sentence of RUNS -> how often the body of f runs in five calls (an int)."""
    ### BEGIN SOLUTION
    # jit remembers, at whatever place, by function object; each grad(f) is a new one.
    return {
        "grad(f)": 5,
        "jit(grad(f))": 1,
        "grad(jit(f))": 1,
        "grad(grad(f))": 5,
        "grad(grad(jit(f)))": 1,
        "hessian(f)": 5,
        "lambda x: jit(f)(x)": 1,
        "lambda x: jit(grad(f))(x)": 5,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "order-sizes", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The size of what comes back is predicted right for all eight sentences."""
assert_prediction(
    oracle_sizes,
    lambda: {sentence: numbers_back(run) for sentence, run in SIZES.items()},
    hints={
        "jit(grad(grad(vmap(f))))(xs)": "How many numbers does vmap(f)(xs) return, and how many does grad want?",
        "jit(vmap(grad(grad(f))))(xs)": "grad(grad(f)) takes a number to a number, and vmap does that for each of xs.",
        "vmap(grad(f))(2.0)": "Which axis of 2.0 would vmap walk along?",
        "jacrev(vmap(f))(xs)": "A Jacobian has a number for each pair of an output and an input, zeros included.",
        "grad(grad(g))(xs)": "grad(g) is a function from vectors to vectors.",
        "jacfwd(grad(g))(xs)": "The Jacobian of a gradient: one row for each output, one column for each input.",
        "vmap(hessian(g))(table)": "One Hessian for each row of the table.",
        "grad(lambda v: vmap(f)(v).sum())(xs)": "The sum makes one number of the batch, so grad is content.",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "order-if", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. You know under which transformations a Python `if` may look at its argument."""
assert_prediction(
    oracle_if,
    lambda: {sentence: accepted(run) for sentence, run in WITH_IF.items()},
    hints={
        "grad(branch)(2.0)": "grad traces with the value at hand: its tracer is a number with a derivative beside it.",
        "jit(grad(branch))(2.0)": "Under jit, the number that grad carries along is itself a tracer without a value.",
        "grad(jit(branch))(2.0)": "jit traces its function for a type, whoever stands around it.",
        "grad(grad(branch))(2.0)": "Two layers of tracers, and in the innermost there is the number 2.0.",
        "vmap(branch)(xs)": "One `if`, three values: which of them should it ask?",
        "vmap(grad(branch))(xs)": "One `if`, three values: which of them should it ask?",
        "hessian(branch)(2.0)": "jacfwd and jacrev batch the directions, not the point at which they stand.",
        "grad(jax.checkpoint(branch))(2.0)": "What is to be run again later must be on a tape first.",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "order-runs", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. You know who remembers a trace and who does not."""
assert_prediction(
    oracle_runs,
    lambda: {sentence: body_runs(make) for sentence, make in RUNS.items()},
    hints={
        "grad(f)": "grad keeps nothing from one call to the next.",
        "jit(grad(f))": "jit stands around everything, and was made once.",
        "grad(jit(f))": "What grad asks for in each call is on the tape that jit(f) keeps.",
        "grad(grad(f))": "Both layers of tracers pass through one run of the body, in each call.",
        "grad(grad(jit(f)))": "What both grads ask for in each call is on the tape that jit(f) keeps.",
        "hessian(f)": "It is jacfwd(jacrev(f)), and none of the two keeps anything.",
        "lambda x: jit(f)(x)": "The cache of jit belongs to the function object f (unit 05).",
        "lambda x: jit(grad(f))(x)": "How many function objects does grad(f) make in five calls?",
    },
)

# %% [markdown]
# ## Task 2 · The derivative tower (2 points)
#
# An older post shows three derivatives of $x^3 + 2x$ at 2: `14.0 12.0 6.0`. Build the whole tower for a batch: row $k$
# of `tower(f, xs, order)` holds the $k$-th derivative of `f` at each of `xs`, row 0 the values.
#
# `f` takes a number to a number. Jit `tower`. A new batch of the same length must not trace it again. No loop over the
# batch may be on the tape, and none may run while the tape is written: a longer batch adds no equation.
#
# <details><summary>Hint 1</summary>
# Which of the four words of <code>jit(grad(grad(vmap(f))))</code> stands in the wrong place?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(lambda xs: tower(f, xs, 3), xs)</code> shows your rows. What must the trace of <code>tower</code>
# know by value, and not only by type?
# </details>
# <details><summary>Hint 3</summary>
# <code>@jax.jit(static_argnames=("f", "order"))</code>. In the body: append <code>jax.vmap(f)(xs)</code>, then
# <code>f = jax.grad(f)</code>, and again; <code>jnp.stack</code> at the end.
# </details>


# %% nbgrader={"grade": false, "grade_id": "tower-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def tower_by_hand(xs):
    """The tower of x³ + 2x up to order 4. xs: float32[n]. Returns float32[5, n]."""
    rows = [[x**3 + 2 * x, 3 * x**2 + 2, 6 * x, 6.0, 0.0] for x in np.asarray(xs, np.float64)]
    return np.array(rows, np.float32).T


def cubic(x):
    return x**3 + 2 * x


def wave(x):
    return jnp.sin(2 * x)


def growth(x):
    return jnp.exp(-x) * x


# %% nbgrader={"grade": false, "grade_id": "tower", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit(static_argnames=("f", "order"))
def tower(f, xs, order):
    """Derivatives 0 to `order` of f, a function of one number, at xs: float32[n]. Returns float32[order + 1, n]."""
    ### BEGIN SOLUTION
    # grad wants a number from a number, so vmap comes last: outside of all the grads.
    rows = []
    for _ in range(order + 1):
        rows.append(jax.vmap(f)(xs))
        f = jax.grad(f)
    return jnp.stack(rows)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "tower-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. 14, 12, 6, for a whole batch, in one trace and without a loop over the batch."""
assert_allclose(tower(cubic, np.float32([2.0]), 3)[1:, 0], np.float32([14, 12, 6]), name="the three derivatives at 2")
batch = np.linspace(-2, 2, 9, dtype=np.float32)
assert_allclose(tower(cubic, batch, 4), tower_by_hand(batch), rtol=1e-5, name="tower")
with assert_max_traces(tower, 1):
    tower(cubic, batch, 4)
    tower(cubic, batch + 1, 4)
assert_primitives(tower, cubic, batch, 4, excludes={"scan", "while"}, smaller=(cubic, batch[:3], 4))
### BEGIN HIDDEN TESTS
angles = np.linspace(0, 3, 7, dtype=np.float32)
expected = [np.sin(2 * angles), 2 * np.cos(2 * angles), -4 * np.sin(2 * angles), -8 * np.cos(2 * angles)]
assert_allclose(tower(wave, angles, 3), np.stack(expected), rtol=1e-4, atol=1e-4, name="the tower of sin(2x)")
decay = np.exp(-angles)
expected = [decay * angles, decay * (1 - angles), decay * (angles - 2)]
assert_allclose(tower(growth, angles, 2), np.stack(expected), rtol=1e-4, atol=1e-5, name="the tower of x exp(-x)")
assert_allclose(tower(wave, angles, 0), np.sin(2 * angles)[None], rtol=1e-4, atol=1e-5, name="a tower of one row")
sixth = tower(wave, angles, 6)[6]
assert_allclose(sixth, -64 * np.sin(2 * angles), rtol=1e-3, atol=1e-3, name="the sixth derivative of sin(2x)")
whole = tower(lambda x: jnp.dot(jnp.stack([x, 1.0]), jnp.stack([x, x])), angles, 2)
expected = [angles**2 + angles, 2 * angles + 1, 0 * angles + 2]
assert_allclose(whole, np.stack(expected), rtol=1e-4, atol=1e-5, name="the tower of a dot product")
edge = tower(jnp.log, np.float32([-1, 0, 1]), 1)
expected = np.float32([[np.nan, -np.inf, 0], [-1, np.inf, 1]])
assert_allclose(edge, expected, rtol=1e-4, atol=1e-5, name="the tower of log, at 0 and below as well")
other = tower(lambda x: 3 * x, angles, 2)  # another function of that name
assert_allclose(other, np.stack([3 * angles, 0 * angles + 3, 0 * angles]), rtol=1e-4, name="the tower of 3x")
long = np.linspace(0, 3, 300, dtype=np.float32)
assert_primitives(tower, cubic, long, 4, excludes={"scan", "while"}, smaller=(cubic, long[:3], 4))
bent = tower(lambda x: jax.lax.cond(x > 1, jnp.sin, lambda x: x**3, x), angles, 2)
above = [np.sin(angles), np.cos(angles), -np.sin(angles)]
expected = np.where(angles > 1, above, [angles**3, 3 * angles**2, 6 * angles])
assert_allclose(bent, expected, rtol=1e-4, atol=1e-4, name="the tower of a function with a cond in it")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · Read the tape backwards (4 points)
#
# In unit 02 you ran a tape. Now differentiate one, in both directions. `PARTIALS` has one rule for each primitive: the
# operands' values come in, one partial derivative for each operand comes out. That is all the calculus there is. The
# rest is bookkeeping, and the bookkeeping is what `jax.jvp` and `jax.grad` are.
#
# - `tape_jvp(tape, primals, tangents)` reads forward, from the inputs' values `primals`. Beside the value of each name
#   it keeps its tangent: how fast the value changes when the inputs move in the direction `tangents` (see
#   [the words](../../lessons/00_before_you_start.ipynb#The-words)). Returns the pair (value, tangent) of the result.
# - `tape_grad(tape, args)` reads forward to get the values, then **backward**. It keeps for each name a cotangent: how
#   fast the *result* changes with it. Returns the list of the inputs' cotangents: the gradient, all of it from one
#   walk. When `tape_grad` is traced itself, the tape of the gradient of a product of forty sines may have at most 8
#   times the equations of the product, and each of its values is one number.
#
# Take every partial derivative from `PARTIALS`: a check puts in a rule of its own. The tapes are flat (no `jit` inside),
# everything on them and every partial derivative is a finite number, and there is one result. A tape may be thousands
# of equations long. Your functions must also run under `jit`, and on tapes that were made by tracing them: the check
# ends with three derivatives of $x^3 + 2x$, none of them by `jax.grad`.
#
# <details><summary>Hint 1</summary>
# Do <code>x * x</code> on paper, both ways, before you write code: one equation, one name, two operands.
# </details>
# <details><summary>Hint 2</summary>
# <code>print(jax.make_jaxpr(fn)(2.0))</code>. In the backward pass an equation takes the cotangent of its result and
# passes on to each operand that cotangent times the partial derivative. What if a name is sent a cotangent by two
# equations, or by none?
# </details>
# <details><summary>Hint 3</summary>
# <pre>cotangent = {tape.jaxpr.outvars[0]: 1.0}
# for eqn in reversed(tape.jaxpr.eqns):
#     arriving = cotangent.get(eqn.outvars[0], 0.0)
#     partials = PARTIALS[eqn.primitive.name](eqn.params, *[read(v) for v in eqn.invars])
#     for operand, partial in zip(eqn.invars, partials):
#         if not isinstance(operand, Literal): ...   # add, do not replace
# return [cotangent.get(v, 0.0) for v in tape.jaxpr.invars]</pre>
# The result itself may be a Literal, which has no cotangent.
# </details>

# %% nbgrader={"grade": false, "grade_id": "tape-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
PARTIALS = {  # primitive -> (its parameters, its operands) -> one partial derivative for each operand
    "add": lambda params, x, y: (1.0, 1.0),
    "sub": lambda params, x, y: (1.0, -1.0),
    "mul": lambda params, x, y: (y, x),
    "div": lambda params, x, y: (1.0 / y, -x / (y * y)),
    "neg": lambda params, x: (-1.0,),
    "sin": lambda params, x: (jnp.cos(x),),
    "cos": lambda params, x: (-jnp.sin(x),),
    "exp": lambda params, x: (jnp.exp(x),),
    "log": lambda params, x: (1.0 / x,),
    "square": lambda params, x: (2.0 * x,),
    "convert_element_type": lambda params, x: (1.0,),  # from a weak float32 to a plain one
    "integer_pow": lambda params, x: (1.0 if params["y"] == 1 else params["y"] * x ** (params["y"] - 1),),
    "floor": lambda params, x: (1.0,),  # our own choice, as quantised networks make it: JAX's rule says 0
}


def run_tape(tape, args):
    """Run a flat tape of numbers forward: the interpreter of unit 02, for one result."""
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    return read(tape.jaxpr.outvars[0])


def jvp_by_hand(x, y, dx, dy):
    """What tape_jvp does with the tape of sin(x * y) + x."""
    a, da = x * y, dx * y + dy * x  # mul
    b, db = jnp.sin(a), da * jnp.cos(a)  # sin
    return b + x, db + dx  # add


def grad_by_hand(x, y):
    """What tape_grad does with the tape of sin(x * y) + x."""
    a = x * y
    ct_result = 1.0
    ct_b, ct_x = ct_result * 1.0, ct_result * 1.0  # add
    ct_a = ct_b * jnp.cos(a)  # sin
    ct_x, ct_y = ct_x + ct_a * y, ct_a * x  # mul: x has got a cotangent before
    return [ct_x, ct_y]


def own_grad(fn):
    """The derivative of a function of one number, by tape_grad."""
    return lambda x: tape_grad(jax.make_jaxpr(fn)(x), [x])[0]


def reuse(x, y):
    z = x * y
    return z * z + jnp.sin(z) * x


CASES = {  # what is special about it: (function, its arguments)
    "a chain": (lambda x: jnp.exp(jnp.sin(jnp.cos(x))), (0.7,)),
    "one name, both operands": (lambda x: x * x, (3.0,)),
    "names that are used twice": (reuse, (1.5, 0.8)),
    "a literal operand": (lambda x: 3.0 / x - 2.0, (4.0,)),
    "a power": (lambda x: x**3 + x**-2, (1.2,)),
    "an input nobody uses": (lambda x, y: jnp.log(x), (2.0, 5.0)),
    "an equation nobody uses": (lambda x, y: (x * y, jnp.sin(y))[1], (2.0, 5.0)),
    "the result is an input": (lambda x, y: y, (2.0, 5.0)),
    "the result is a literal": (lambda x: 7.0, (2.0,)),
}


def staircase(x):
    return 3.0 * jnp.floor(x * x)


# %% nbgrader={"grade": false, "grade_id": "tape", "locked": false, "schema_version": 3, "solution": true, "task": false}
def tape_jvp(tape, primals, tangents):
    """Forward mode. primals, tangents: a number for each input. Returns (value, tangent) of the tape's result."""
    ### BEGIN SOLUTION
    # Each name becomes a pair; an equation's tangent is the sum over its operands.
    pairs = dict(zip(tape.jaxpr.invars, zip(primals, tangents, strict=True), strict=True))

    def read(operand):
        return (operand.val, 0.0) if isinstance(operand, Literal) else pairs[operand]

    for eqn in tape.jaxpr.eqns:
        values, rates = zip(*map(read, eqn.invars), strict=True)
        partials = PARTIALS[eqn.primitive.name](eqn.params, *values)
        rate = sum(partial * rate for partial, rate in zip(partials, rates, strict=True))
        pairs[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params), rate
    return read(tape.jaxpr.outvars[0])
    ### END SOLUTION


def tape_grad(tape, args):
    """Reverse mode. args: a number for each input. Returns the list of the result's derivatives by each input."""
    ### BEGIN SOLUTION
    # Forward for the values, backward for the cotangents. What arrives from several readers adds up.
    values = dict(zip(tape.jaxpr.invars, args, strict=True))

    def read(operand):
        return operand.val if isinstance(operand, Literal) else values[operand]

    for eqn in tape.jaxpr.eqns:
        values[eqn.outvars[0]] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)

    (result,) = tape.jaxpr.outvars
    cotangent = {} if isinstance(result, Literal) else {result: 1.0}
    for eqn in reversed(tape.jaxpr.eqns):
        if eqn.outvars[0] not in cotangent:
            continue  # the result does not depend on it
        arriving = cotangent[eqn.outvars[0]]
        partials = PARTIALS[eqn.primitive.name](eqn.params, *map(read, eqn.invars))
        for operand, partial in zip(eqn.invars, partials, strict=True):
            if not isinstance(operand, Literal):
                cotangent[operand] = cotangent.get(operand, 0.0) + arriving * partial
    return [cotangent.get(name, 0.0) for name in tape.jaxpr.invars]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "tape-forward", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Forward mode agrees with jax.jvp, in every direction."""


def both_jvps(fn, args, tangents):
    """(value, tangent) by tape_jvp and by jax.jvp."""
    mine = tape_jvp(jax.make_jaxpr(fn)(*args), list(args), list(tangents))
    return jnp.float32(jnp.stack(mine)), jnp.float32(jnp.stack(jax.jvp(fn, args, tangents)))


for case, (fn, args) in CASES.items():
    mine, jaxs = both_jvps(fn, args, (1.0, -0.5)[: len(args)])
    assert_allclose(mine, jaxs, rtol=1e-4, atol=1e-5, name=f"tape_jvp, case '{case}', (value, tangent)")
_, mine = tape_jvp(jax.make_jaxpr(staircase)(1.5), [1.5], [1.0])
assert_allclose(float(mine), 9.0, rtol=1e-5, name="tape_jvp by the rule for floor in PARTIALS")
### BEGIN HIDDEN TESTS
rng = np.random.default_rng()
hidden_cases = {case: CASES[case] for case in ("names that are used twice", "a chain", "an input nobody uses")}
hidden_cases["the last equation is not the result"] = lambda x, y: (x * y, jnp.sin(y))[0], (2.0, 5.0)
for case, (fn, args) in hidden_cases.items():
    fresh = tuple(float(a) for a in rng.uniform(0.5, 2, len(args)))
    mine, jaxs = both_jvps(fn, fresh, tuple(float(a) for a in rng.normal(size=len(args))))
    assert_allclose(mine, jaxs, rtol=1e-4, atol=1e-5, name=f"tape_jvp, case '{case}', (value, tangent)")
wave_tape = jax.make_jaxpr(wave)(1.0)
with mock.patch.dict(PARTIALS, {"mul": lambda params, x, y: (2 * y, x)}):
    (mine,) = tape_jvp(jax.make_jaxpr(lambda x: x * x)(3.0), [3.0], [1.0])[1:]
assert_allclose(float(mine), 9.0, rtol=1e-5, name="tape_jvp by another rule for mul in PARTIALS")
plain_rules = {"add": lambda params, x, y: (2.0, 3.0), "sub": lambda params, x, y: (5.0, 7.0)}
plain_rules["neg"] = lambda params, x: (11.0,)
plain = jax.make_jaxpr(lambda x, y: (x + y) - (-x))(3.0, 9.0)
with mock.patch.dict(PARTIALS, plain_rules):
    (mine,) = tape_jvp(plain, [3.0, 9.0], [1.0, 1.0])[1:]
name = "tape_jvp by other rules for add, sub and neg in PARTIALS"
assert_allclose(float(mine), 5.0 * (2 + 3) + 7 * 11, rtol=1e-5, name=name)
between = jax.make_jaxpr(lambda x, y: jax.lax.clamp(0.0, x, y))(3.0, 9.0)
with mock.patch.dict(PARTIALS, {"clamp": lambda params, *operands: (0.0, 1.0, 2.0)}):
    (mine,) = tape_jvp(between, [3.0, 9.0], [1.0, 1.0])[1:]
assert_allclose(float(mine), 3.0, rtol=1e-5, name="tape_jvp by a rule for three operands")
rules_asked = []
noting_rules = {name: lambda _, x, name=name: (rules_asked.append(name), (1.0,))[1] for name in ("exp", "sin", "cos")}
with mock.patch.dict(PARTIALS, noting_rules):
    tape_jvp(jax.make_jaxpr(CASES["a chain"][0])(0.7), [0.7], [1.0])
rules_in_turn = {"which rule it asks, in order": list(dict.fromkeys(rules_asked))}
assert_equal(rules_in_turn, {"which rule it asks, in order": ["cos", "sin", "exp"]}, name="tape_jvp (it reads forward)")
mine = jax.jit(lambda x, dx: tape_jvp(wave_tape, [x], [dx]))(0.3, 0.5)
assert_allclose(jnp.stack(mine), np.float32([np.sin(0.6), np.cos(0.6)]), rtol=1e-4, name="tape_jvp under jit")


def own_slope(fn):
    return lambda x: tape_jvp(jax.make_jaxpr(fn)(x), [x], [1.0])[1]


mine = [float(own_slope(own_slope(fn))(2.0)) for fn in (cubic, own_slope(cubic))]
assert_allclose(mine, [12.0, 6.0], rtol=1e-5, name="tape_jvp of its own tape, twice and three times")


def mirrors(x):
    for _ in range(4000):
        x = -x
    return x


case = "value and tangent on a tape of 4000 equations"
try:
    mine = [float(number) for number in tape_jvp(jax.make_jaxpr(mirrors)(1.5), [1.5], [0.5])]
except RecursionError as error:
    mine = f"RecursionError: {error}"
assert_equal({case: mine}, {case: [1.5, 0.5]}, name="tape_jvp")
twice = dict(PARTIALS)
for rule in PARTIALS:
    twice[rule] = lambda params, *xs, given=PARTIALS[rule]: tuple(2.0 * p for p in given(params, *xs))


def long_chain(x):
    return jax.lax.convert_element_type(jnp.sin(1.0 / jnp.log(x) ** 3), jnp.float32)


chain_tape = jax.make_jaxpr(long_chain)(2.0)
with mock.patch.dict(PARTIALS, twice):
    (mine,) = tape_jvp(chain_tape, [2.0], [1.0])[1:]
desired = 2 ** len(chain_tape.jaxpr.eqns) * float(jax.grad(long_chain)(2.0))
assert_allclose(float(mine), desired, rtol=1e-4, name="tape_jvp by rules that all give twice as much")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "tape-backward", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Reverse mode agrees with jax.grad, costs one walk for any number of inputs, and composes: 14, 12, 6."""


def both_grads(fn, args):
    """The gradient by tape_grad and by jax.grad."""
    mine = tape_grad(jax.make_jaxpr(fn)(*args), list(args))
    return jnp.float32(jnp.stack(mine)), jnp.float32(jnp.stack(jax.grad(fn, tuple(range(len(args))))(*args)))


for case, (fn, args) in CASES.items():
    mine, jaxs = both_grads(fn, args)
    assert_allclose(mine, jaxs, rtol=1e-4, atol=1e-5, name=f"tape_grad, case '{case}'")
(mine,) = tape_grad(jax.make_jaxpr(staircase)(1.5), [1.5])
assert_allclose(float(mine), 9.0, rtol=1e-5, name="tape_grad by the rule for floor in PARTIALS")


def long_product(*xs):
    total = 1.0
    for x in xs:
        total = total * jnp.sin(x)
    return total


def my_gradient(*xs):
    return tape_grad(jax.make_jaxpr(long_product)(*xs), list(xs))


forty = tuple(np.linspace(1.2, 1.8, 40, dtype=np.float32))
most = 8 * show_jaxpr(long_product, *forty).equations
assert_primitives(my_gradient, *forty, max_equations=most, max_intermediate=1)

first = own_grad(cubic)
second = own_grad(first)
own_third = own_grad(second)
mine = [float(first(2.0)), float(second(2.0)), float(own_third(2.0))]
assert_allclose(mine, [14.0, 12.0, 6.0], rtol=1e-5, name="own_grad, own_grad twice and three times")
### BEGIN HIDDEN TESTS
last_unused = lambda x, y: (x * y, jnp.sin(y))[0], (2.0, 5.0)
sums = lambda x, y: jnp.sin(x) + ((x + x) - (y - x)) * y, (2.0, 5.0)
more = {"the last equation is not the result": last_unused, "sums of one name": sums}
for case, (fn, args) in (CASES | more).items():
    mine, jaxs = both_grads(fn, tuple(float(a) for a in np.random.default_rng().uniform(0.5, 2, len(args))))
    assert_allclose(mine, jaxs, rtol=1e-4, atol=1e-5, name=f"tape_grad, case '{case}'")


def power_tower(x):
    for _ in range(9):
        x = x * x
    return x


def my_slope(x):
    return tape_grad(jax.make_jaxpr(power_tower)(x), [x])[0]


most = 8 * show_jaxpr(power_tower, 1.01).equations
assert_primitives(my_slope, 1.01, max_equations=most, max_intermediate=1)
with mock.patch.dict(PARTIALS, {"mul": lambda params, x, y: (2 * y, x)}):
    (mine,) = tape_grad(jax.make_jaxpr(lambda x: x * x)(3.0), [3.0])
assert_allclose(float(mine), 9.0, rtol=1e-5, name="tape_grad by another rule for mul in PARTIALS")
between = jax.make_jaxpr(lambda x, y: jax.lax.clamp(0.0, x, y))(3.0, 9.0)
with mock.patch.dict(PARTIALS, {"clamp": lambda params, *operands: (0.0, 1.0, 2.0)}):
    all_three = [float(slope) for slope in tape_grad(between, [3.0, 9.0])]
assert_allclose(all_three, [1.0, 2.0], rtol=1e-5, name="tape_grad by a rule for three operands")
angles = np.linspace(0.1, 1, 4, dtype=np.float32)
mine = jax.jit(jax.vmap(own_grad(own_grad(wave))))(angles)
assert_allclose(mine, -4 * np.sin(2 * angles), rtol=1e-4, atol=1e-5, name="jit(vmap(own_grad(own_grad(wave))))")


def turned_round(x):
    for _ in range(4000):
        x = -x
    return x


try:
    (mine,) = map(float, tape_grad(jax.make_jaxpr(turned_round)(1.5), [1.5]))
except RecursionError as error:
    mine = f"RecursionError: {error}"
assert_equal({"on a tape of 4000 equations": mine}, {"on a tape of 4000 equations": 1.0}, name="tape_grad")
kind = {"what it returns": type(tape_grad(jax.make_jaxpr(jnp.sin)(1.0), [1.0])).__name__}
assert_equal(kind, {"what it returns": "list"}, name="tape_grad")
plain_rules = {"add": lambda params, x, y: (2.0, 3.0), "sub": lambda params, x, y: (5.0, 7.0)}
plain_rules["neg"] = lambda params, x: (11.0,)
with mock.patch.dict(PARTIALS, plain_rules):
    mine = tape_grad(jax.make_jaxpr(lambda x, y: (x + y) - (-x))(3.0, 9.0), [3.0, 9.0])
name = "tape_grad by other rules for add, sub and neg in PARTIALS"
assert_allclose(jnp.stack(mine), jnp.float32([5 * 2 + 7 * 11, 5 * 3]), rtol=1e-5, name=name)
twice = dict(PARTIALS)
for rule in PARTIALS:
    twice[rule] = lambda params, *xs, given=PARTIALS[rule]: tuple(2.0 * p for p in given(params, *xs))


def long_chain(x):
    return jax.lax.convert_element_type(jnp.sin(1.0 / jnp.log(x) ** 3), jnp.float32)


chain_tape = jax.make_jaxpr(long_chain)(2.0)
with mock.patch.dict(PARTIALS, twice):
    (mine,) = tape_grad(chain_tape, [2.0])
desired = 2 ** len(chain_tape.jaxpr.eqns) * float(jax.grad(long_chain)(2.0))
assert_allclose(float(mine), desired, rtol=1e-4, name="tape_grad by rules that all give twice as much")
numbers = [2.0, 5.0]
tape_grad(jax.make_jaxpr(lambda x, y: x * y)(*numbers), numbers)
assert_equal({"its arguments, afterwards": numbers}, {"its arguments, afterwards": [2.0, 5.0]}, name="tape_grad")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · Newton without a matrix (6 points)
#
# A rope of $n$ nodes lies in a soft, winding channel. Its shape minimises `rope_energy`. Small steps against the
# gradient would get there slowly. Newton's method uses the second derivatives as well, and needs a handful of steps:
#
# $$x \leftarrow x - H^{-1} g$$
#
# with the gradient $g$ and the Hessian $H$. But $H$ has $n^2$ numbers, and your largest value may have $n$.
#
# - `hvp(loss, x, v)`: the product $Hv$, exact but for rounding, under `jit` and `vmap` as well. At most 10 times the
#   FLOPs of `loss`, for any $n$.
#   Does the clock notice? `product_by_rows` holds no matrix either: it makes one row of $H$ after the other. For a rope
#   of 1500 nodes, `hvp` in a `jit`, without a callback, is timed against it: 20x as fast earns 1 point, 40x earns 2.
# - `newton(loss, x, steps)`: `steps` steps of Newton, each as it stands above, even where it leads uphill; in one jit,
#   the loop rolled: neither more steps nor a longer x add an equation, and there is no callback.
#   `jax.scipy.sparse.linalg.cg(A, b)` solves $A p = b$ (returning the pair `(p, None)`), exactly enough without a `tol`,
#   and does not want a matrix: `A` may be a function that multiplies.
#
# <details><summary>Hint 1</summary>
# $Hv$ is a derivative: how does the gradient change when x moves in the direction v?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_jaxpr(lambda x, v: hvp(loss, x, v), x, v)</code> has <code>.largest</code> and <code>.flops</code>. For the
# second part: what does <code>cg</code> need to know of H, if H is never there?
# </details>
# <details><summary>Hint 3</summary>
# <code>jax.jvp(jax.grad(loss), (x,), (v,))[1]</code>. A step:
# <code>p, _ = cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))</code>, then <code>x - p</code>; the loop is
# <code>jax.lax.fori_loop</code>, and <code>loss</code> and <code>steps</code> are static.
# </details>


# %% nbgrader={"grade": false, "grade_id": "newton-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def rope_energy(x):
    """Energy of a rope with heights x: float32[n], in a soft channel. Returns float32[]."""
    middle = 2 * jnp.sin(jnp.linspace(0, 9, x.size))
    walls = jnp.cosh(x - middle).sum()  # push back from both sides
    stretch = 10 * ((x[1:] - x[:-1]) ** 2).sum()
    return walls + stretch


def quartic(x):
    return (x**4).sum() + (x[1:] * x[:-1]).sum() ** 2


@jax.jit
def product_by_rows(x, v):
    """The Hessian of rope_energy at x, one row after the other, times v. x, v: float32[n]. Returns float32[n]."""

    def row_times_v(i):
        unit = jnp.zeros_like(x).at[i].set(1.0)
        return jax.jvp(jax.grad(rope_energy), (x,), (unit,))[1] @ v

    return jax.lax.map(row_times_v, jnp.arange(x.size))


def rope_newton_slow(x, steps):
    """Newton's method for rope_energy with the full matrix, in NumPy and float64. x: [n]. Returns float32[n]."""
    x = np.asarray(x, np.float64)
    middle = 2 * np.sin(np.linspace(0, 9, x.size))
    differences = np.diff(np.eye(x.size), axis=0)
    laplacian = differences.T @ differences
    for _ in range(steps):
        gradient = np.sinh(x - middle) + 20 * laplacian @ x
        hessian = np.diag(np.cosh(x - middle)) + 20 * laplacian
        x = x - np.linalg.solve(hessian, gradient)
    return x.astype(np.float32)


# %% nbgrader={"grade": false, "grade_id": "newton", "locked": false, "schema_version": 3, "solution": true, "task": false}
def hvp(loss, x, v):
    """The Hessian of `loss` at x, times v, without the Hessian. x, v: float32[n]. Returns float32[n]."""
    ### BEGIN SOLUTION
    # Forward over reverse: the rate of change of the gradient along v.
    return jax.jvp(jax.grad(loss), (x,), (v,))[1]
    ### END SOLUTION


@jax.jit(static_argnames=("loss", "steps"))
def newton(loss, x, steps):
    """`steps` steps of Newton's method for `loss`, from x: float32[n]. Returns float32[n]."""

    ### BEGIN SOLUTION
    # Conjugate gradients only ever multiply by H, so H stays a function.
    def step(_, x):
        towards, _ = jax.scipy.sparse.linalg.cg(lambda v: hvp(loss, x, v), jax.grad(loss)(x))
        return x - towards

    return jax.lax.fori_loop(0, steps, step, x)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "newton-hvp", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The product is right, nothing is larger than x, and it costs a few evaluations of the loss."""
x, v = np.linspace(-1, 2, 12, dtype=np.float32), np.cos(np.arange(12, dtype=np.float32))


def rope_product(x, v):
    return hvp(rope_energy, x, v)


def quartic_product(x, v):
    return hvp(quartic, x, v)


by_matrix = jax.jit(jax.hessian(rope_energy))(x) @ v
assert_allclose(jax.jit(rope_product)(x, v), by_matrix, rtol=1e-4, atol=1e-3, name="hvp")
x, v = np.linspace(-1, 2, 2000, dtype=np.float32), np.ones(2000, np.float32)
assert_primitives(rope_product, x, v, max_intermediate=2000)
assert_primitives(rope_product, x, v, max_flops=10 * show_jaxpr(rope_energy, x).flops)
### BEGIN HIDDEN TESTS
rng = np.random.default_rng(8)
x, v = rng.normal(size=(2, 9)).astype(np.float32)
by_matrix = np.asarray(jax.jit(jax.hessian(quartic))(x)) @ v
assert_allclose(jax.jit(quartic_product)(x, v), by_matrix, rtol=1e-5, atol=1e-4, name="hvp of a quartic")
assert_primitives(quartic_product, x, v, max_intermediate=9, max_flops=10 * show_jaxpr(quartic, x).flops)
directions = np.diag(np.float32([0, 1, 1, 1, 1, 1, 1, 1, 1]))  # the first of them has no length
rows = jax.jit(jax.vmap(quartic_product, (None, 0)))(x, directions)
by_matrix = jax.jit(jax.hessian(quartic))(x) @ directions
assert_allclose(rows.T, by_matrix, rtol=1e-4, atol=1e-3, name="vmap of hvp, in nine directions")
heights = rng.uniform(1, 2, 2).astype(np.float32)


def hilly(x):
    return (heights[0] * jnp.sin(x) * jnp.roll(x, 1) + heights[1] * x**3).sum()


def hilly_product(x, v):
    return hvp(hilly, x, v)


by_matrix = np.asarray(jax.jit(jax.hessian(hilly))(x)) @ v
assert_allclose(jax.jit(hilly_product)(x, v), by_matrix, rtol=1e-4, atol=1e-4, name="hvp of a loss that is new")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "newton-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. A rope of 1500 nodes, against one row of H after the other: 20x as fast earns 1 point, 40x earns 2."""


@jax.jit
def product_at_once(x, v):
    return hvp(rope_energy, x, v)


x, v = np.linspace(-1, 2, 1500, dtype=np.float32), np.cos(np.arange(1500, dtype=np.float32))
assert_primitives(product_at_once, x, v, max_intermediate=1500, excludes={"pure_callback", "io_callback"})
partial_credit(speedup(product_at_once, product_by_rows, x, v, at_least=40), {20: 1, 40: 2})

# %% nbgrader={"grade": true, "grade_id": "newton-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Newton finds the rope, in one trace, with a rolled loop and no value larger than x."""
start = np.full(60, 2.0, np.float32)
with assert_max_traces(newton, 1):
    found = [newton(rope_energy, start, 8), newton(rope_energy, start + 0.1, 8)]
expected = [rope_newton_slow(start, 8), rope_newton_slow(start + 0.1, 8)]
assert_allclose(found, expected, rtol=1e-3, atol=1e-3, name="the rope, from two starts,")
found, expected = newton(rope_energy, start, 1), rope_newton_slow(start, 1)
assert_allclose(found, expected, rtol=1e-2, atol=1e-2, name="a single step of Newton")
long = np.full(2000, 2.0, np.float32)
few = rope_energy, long[:50], 2
assert_primitives(newton, rope_energy, long, 8, includes={"scan|while"}, max_intermediate=2000, smaller=few)
### BEGIN HIDDEN TESTS
fresh = np.random.default_rng(1).uniform(-2, 2, 60).astype(np.float32)
for steps, name in ((8, "the rope from a third start"), (1, "another single step of Newton"), (2, "two steps")):
    found = newton(rope_energy, fresh, steps)
    assert_allclose(found, rope_newton_slow(fresh, steps), rtol=1e-2, atol=1e-2, name=name)


def bowl(x):
    return ((x - 1) ** 2).sum()


found = newton(bowl, fresh, 1)
assert_allclose(found, np.ones_like(fresh), rtol=1e-3, name="one step to the bottom of a bowl")
found = newton(bowl, 1000 * fresh, 1)
assert_allclose(found, np.ones_like(fresh), atol=0.1, name="one step to the bottom of a bowl, from far away")
assert_allclose(newton(bowl, fresh, 0), fresh, rtol=1e-6, name="no step at all")
callbacks = {"pure_callback"}
assert_primitives(newton, rope_energy, fresh, 100, smaller=(rope_energy, fresh, 3), excludes=callbacks)
found = newton(lambda x: 1e-6 * ((x - 1) ** 2).sum(), fresh, 1)
assert_allclose(found, np.ones_like(fresh), rtol=1e-3, name="one step to the bottom of a flat bowl")
found = newton(lambda x: ((x - 1) ** 2).sum() + x.sum() ** 2 / 60, fresh, 1)
assert_allclose(found, np.full_like(fresh, 0.5), rtol=1e-3, name="one step to the bottom of a slanted bowl")
stiff = np.linspace(1, 14, 60, dtype=np.float32) ** 2
found = newton(lambda x: (stiff * (x - 1) ** 2).sum(), fresh, 1)
assert_allclose(found, np.ones_like(fresh), atol=0.02, name="one step to the bottom of a long valley")
found = newton(lambda x: jnp.sqrt(1 + x**2).sum(), np.float32([2, -1.5]), 1)  # x - x(1 + x^2): it goes uphill
assert_allclose(found, np.float32([-8, 3.375]), rtol=1e-3, name="one step where the step of Newton leads uphill")
slow = np.float32([1e-4, -2e-4])  # where each step takes a third off
found = newton(lambda x: 1e12 * (x**4).sum(), slow, 16)
assert_allclose(found, slow * np.float32((2 / 3) ** 16), rtol=1e-2, name="sixteen steps, each a third of the way")
assert_primitives(newton, quartic, fresh[:6], 2, max_intermediate=6)
stiff, far = np.linspace(1, 14, 200, dtype=np.float32) ** 2, np.linspace(-2, 2, 200, dtype=np.float32)
found = newton(lambda x: (stiff * (x - 1) ** 2).sum(), far, 1)
assert_allclose(found, np.ones_like(far), atol=0.02, name="one step to the bottom of a longer valley")
bottom = np.ones_like(fresh)  # where the gradient is 0
assert_allclose(newton(bowl, bottom, 1), bottom, rtol=1e-3, name="one step from the bottom of a bowl")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · Two cures (4 points)
#
# **A cloud of NaNs.** Every two of $n$ points are joined by a spring of length 1, so the energy is the sum of
# $(|p_i - p_j| - 1)^2$ over all pairs $i < j$. In NumPy one loops over pairs. On arrays it is natural to compute all
# $n \times n$ distances at once and to leave out the diagonal with a `where`; the energy is right, and every single
# force is `nan`. Write `spring_energy` without a Python loop (more points add no equation, a `scan` is allowed, and a
# callback to the host is not, nor in its gradient), and with forces, wherever the cloud lies. (Two points at exactly
# the same place exert no force on each other; any others are at least 1e-12 apart.)
#
# **Kepler's equation.** The planet with mean anomaly $M$ and eccentricity $e$ is found at the $E$ with
#
# $$E - e \sin E = M.$$
#
# `solve_kepler` finds it for any $M$, with a `while_loop`, and `jax.grad` refuses: a `while_loop` may run any number of
# rounds, so there is no backward pass through it. But the search itself need not be differentiated. Differentiate the
# *equation*, solve it for $dE$, and teach it to JAX: the tape of `grad(kepler)` has one search on it, one `while`, no
# callback, and at most 100 equations.
# Derivatives of any order, `vmap`, `jit` and both modes then come for free, if the rule is written well.
#
# <details><summary>Hint 1</summary>
# Springs: what is the derivative of <code>sqrt</code> at 0, and what is 0 times that? Kepler: take d of both sides of
# the equation; all three letters may change.
# </details>
# <details><summary>Hint 2</summary>
# Springs: <code>show_jaxpr(jax.grad(...), ...)</code> of the function in section 6 of the lesson shows where the branch
# that was not taken comes back in. Kepler: <code>jax.jvp(kepler, (M, e), (1.0, 0.0))</code> calls your rule once. Which
# function does the rule call to get E, and is <em>that</em> one differentiable?
# </details>
# <details><summary>Hint 3</summary>
# Springs: <code>away = squared > 0</code>, <code>distance = jnp.sqrt(jnp.where(away, squared, 1.0))</code>, and one
# more <code>where</code> at the end. Kepler: dE - de sin E - e cos E dE = dM. In the rule:
# <code>E = kepler(M, e)</code>, and return <code>E, (dM + ...) / (1 - ...)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "cures-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def spring_energy_slow(points):
    """Sum of (distance - 1)² over all pairs, in float64. points: [n, 2]. Returns (energy, its gradient [n, 2])."""
    points = np.asarray(points, np.float64)
    energy, gradient = 0.0, np.zeros_like(points)
    for i in range(len(points)):
        for j in range(i):
            away = points[i] - points[j]
            distance = np.sqrt((away**2).sum())
            energy += (distance - 1) ** 2
            if distance > 0:
                gradient[i] += 2 * (distance - 1) * away / distance
                gradient[j] -= 2 * (distance - 1) * away / distance
    return np.float32(energy), gradient.astype(np.float32)


def kepler_slow(M, e):
    """Solve E - e sin E = M by bisection, in float64. M, e: numbers, 0 <= e < 1. Returns E."""
    low, high = M - 1.0, M + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle - e * math.sin(middle) < M else (low, middle)
    return low


def slope_slow(fn, x, h=1e-3):
    """The derivative of a float64 function, by differences."""
    return (8 * fn(x + h) - 8 * fn(x - h) + fn(x - 2 * h) - fn(x + 2 * h)) / (12 * h)


def solve_kepler(M, e):
    """Kepler's equation by Newton's method in JAX. M, e: float32[]. Returns E: float32[]. No way back through it."""

    def unfinished(state):
        rounds, _, change = state
        return (rounds < 50) & (jnp.abs(change) > 1e-6)

    def improve(state):
        rounds, E, _ = state
        change = (E - e * jnp.sin(E) - M) / (1 - e * jnp.cos(E))
        return rounds + 1, E - change, change

    start = M + e * jnp.sign(jnp.sin(M))
    return jax.lax.while_loop(unfinished, improve, (0, start, jnp.ones_like(start)))[1]


ORBITS = np.array([[0.3, 0.0], [1.0, 0.5], [-2.0, 0.3], [0.2, 0.9], [3.1, 0.8]], np.float32)


# %% nbgrader={"grade": false, "grade_id": "cures", "locked": false, "schema_version": 3, "solution": true, "task": false}
def spring_energy(points):
    """The energy of spring_energy_slow, on arrays. points: float32[n, 2]. Returns float32[]."""
    ### BEGIN SOLUTION
    # where twice: the inner one keeps the dangerous value from sqrt, the outer one drops what came of it.
    squared = ((points[:, None] - points) ** 2).sum(-1)
    away = squared > 0
    distance = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
    return jnp.sum(jnp.tril((distance - 1) ** 2, -1))
    ### END SOLUTION


@jax.custom_jvp
def kepler(M, e):
    """E with E - e sin E = M. M, e: float32[]. Returns float32[], differentiable as often as you like."""
    ### BEGIN SOLUTION
    return solve_kepler(M, e)
    ### END SOLUTION


@kepler.defjvp
def kepler_rule(primals, tangents):
    """The rule for kepler. primals: (M, e); tangents: (dM, de). Returns (E, dE)."""
    ### BEGIN SOLUTION
    # Implicit differentiation. The rule calls kepler, not the solver, so that it can be differentiated itself.
    (M, e), (dM, de) = primals, tangents
    E = kepler(M, e)
    return E, (dM + jnp.sin(E) * de) / (1 - e * jnp.cos(E))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "cures-springs", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The energy is right, and so is every force; no NaN comes from the diagonal."""
value_and_gradient = jax.jit(jax.value_and_grad(spring_energy))
cloud = np.random.default_rng(6).normal(size=(6, 2)).astype(np.float32)
mine = value_and_gradient(cloud)
assert_allclose(mine[0], spring_energy_slow(cloud)[0], rtol=1e-4, name="spring_energy")
assert_allclose(mine[1], spring_energy_slow(cloud)[1], rtol=1e-3, atol=1e-4, name="the gradient of spring_energy")
cloud[1] = cloud[0]  # two points at one place
mine = value_and_gradient(cloud)
assert_allclose(mine[0], spring_energy_slow(cloud)[0], rtol=1e-4, name="spring_energy with twins")
assert_allclose(mine[1], spring_energy_slow(cloud)[1], rtol=1e-3, atol=1e-4, name="the gradient with twins")
### BEGIN HIDDEN TESTS
callbacks = {"pure_callback", "io_callback"}
few = [np.zeros((5, 2), np.float32)]
for way in (spring_energy, jax.grad(spring_energy)):
    assert_primitives(way, np.zeros((12, 2), np.float32), smaller=few, excludes=callbacks)
clouds = np.random.default_rng().normal(size=(3, 5, 2)).astype(np.float32)
clouds[0] += 1000  # far from the origin
clouds[1, 1] = clouds[1, 0] + np.float32(1e-4)  # near to one another
clouds[2, :, 0] = clouds[2, 0, 0]  # one above the other
energies, gradients = zip(*map(spring_energy_slow, clouds), strict=True)
found = jax.vmap(spring_energy)(clouds)
assert_allclose(found, np.float32(energies), rtol=1e-3, atol=1e-2, name="spring_energy of five points")
mine = jax.jit(jax.vmap(jax.grad(spring_energy)))(clouds)
assert_allclose(mine, np.stack(gradients), rtol=1e-3, atol=1e-4, name="jit(vmap(grad(spring_energy)))")
for near in (1e-6, 1e-12):
    nearest = np.float32([[0, 0], [near, 0], [1, 2], [2, -1]])
    forces = np.float32(spring_energy_slow(nearest)[1])
    name = f"the gradient with near ones, {near} apart"
    assert_allclose(jax.grad(spring_energy)(nearest), forces, rtol=1e-3, atol=1e-3, name=name)
assert_primitives(spring_energy, np.zeros((500, 2), np.float32), smaller=few)
for number in (12, 500):
    many = np.random.default_rng().normal(size=(number, 2)).astype(np.float32)
    apart = np.linalg.norm(many[:, None] - many.astype(np.float64), axis=-1)
    energy = np.float32(np.tril((apart - 1) ** 2, -1).sum())
    assert_allclose(jax.jit(spring_energy)(many), energy, rtol=1e-3, name=f"spring_energy of {number} points")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "cures-kepler", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Through a while_loop that has no way back: both derivatives, both modes, and the second derivative."""


def expected(derivative):
    """derivative(M, e) in float64 for each orbit, as float32[5]."""
    return np.float32([derivative(float(M), float(e)) for M, e in ORBITS])


def by_M(M, e):
    return slope_slow(lambda M: kepler_slow(M, e), M)


def by_e(M, e):
    return slope_slow(lambda e: kepler_slow(M, e), e)


def by_M_twice(M, e):
    return slope_slow(lambda M: by_M(M, e), M)


def each(fn):
    return jax.jit(jax.vmap(fn))(*ORBITS.T)


assert_allclose(each(kepler), expected(kepler_slow), rtol=1e-5, atol=1e-5, name="kepler")
assert_allclose(each(jax.grad(kepler)), expected(by_M), rtol=1e-3, name="dE/dM")
assert_allclose(each(jax.grad(kepler, 1)), expected(by_e), rtol=1e-3, atol=1e-3, name="dE/de")
assert_allclose(each(jax.jacfwd(kepler)), expected(by_M), rtol=1e-3, name="dE/dM in forward mode")
assert_allclose(
    each(jax.grad(jax.grad(kepler))), expected(by_M_twice), rtol=1e-2, atol=1e-3, name="the second derivative by M"
)
assert_primitives(jax.grad(kepler), *ORBITS[1], counts={"while": 1}, max_equations=100)
### BEGIN HIDDEN TESTS
M, e = 0.8, 0.6
mixed = slope_slow(lambda e: by_M(M, e), e)
mine = jax.grad(jax.grad(kepler), 1)(jnp.float32(M), jnp.float32(e))
assert_allclose(mine, np.float32(mixed), rtol=1e-2, name="the mixed second derivative")
E = kepler_slow(M, e)
once = 1 / (1 - e * math.cos(E))
thrice = 3 * e**2 * math.sin(E) ** 2 * once**5 - e * math.cos(E) * once**4
mine = jax.grad(jax.grad(jax.grad(kepler)))(jnp.float32(M), jnp.float32(e))
assert_allclose(mine, np.float32(thrice), rtol=1e-2, name="the third derivative by M")
by_e_twice = jax.grad(jax.grad(kepler, 1), 1)(jnp.float32(M), jnp.float32(e))
desired = np.float32(slope_slow(lambda e: by_e(M, e), e))
assert_allclose(by_e_twice, desired, rtol=1e-2, name="the second derivative by e")
fifth = kepler
for _ in range(5):
    fifth = jax.grad(fifth)
assert_primitives(fifth, jnp.float32(M), jnp.float32(e), includes={"while"}, excludes={"pure_callback"})
steep = jax.grad(kepler, (0, 1))(jnp.float32(0.01), jnp.float32(0.98))
desired = np.float32([by_M(0.01, 0.98), by_e(0.01, 0.98)])
assert_allclose(jnp.stack(steep), desired, rtol=1e-2, name="the slopes of kepler(0.01, 0.98)")
late = kepler(jnp.float32(M + 4 * math.pi), jnp.float32(e))
assert_allclose(late, np.float32(E + 4 * math.pi), rtol=1e-4, name="two revolutions later")
assert_allclose(
    jax.jvp(kepler, (jnp.float32(M), jnp.float32(e)), (jnp.float32(2), jnp.float32(-1)))[1],
    np.float32(2 * by_M(M, e) - by_e(M, e)),
    rtol=1e-3,
    name="dE in the direction (2, -1)",
)
almost = jnp.float32(0.9999)
slope = jax.grad(kepler)(jnp.float32(0), almost)
assert_allclose(slope, 1 / (1 - almost), rtol=1e-3, name="the slope of kepler(0, 0.9999)")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · The way back on a diet (3 points)
#
# A simulation makes `length` steps, and you want the gradient of its end by its start. The backward pass (the way back)
# needs values of the forward pass, in opposite order, so something must be kept, or computed again. `simulate` keeps
# all it needs. The next cell prints its cost at 64 steps:
#
# - **peak**: the most values alive at one moment of the gradient's tape, in states. `peak_states` goes through the
#   tape, notes when each value is made and when it is read for the last time, and looks into every loop and every
#   `jax.checkpoint`.
# - **work**: the FLOPs of the gradient, where the gradient of `simulate` counts as 1.
#
# Write `simulate_lean`, with the same result and the same gradient (forward mode is not asked for). For a `length` of
# $k^2$ steps (16, 64, 100, 10000): a peak of at most $8k$ states, work of at most 1.4, no callback, and the loop
# rolled: a `scan`, and more steps add no equation to the gradient's tape.
# Neither one `jax.checkpoint` around everything nor one around each step is in that budget.
#
# <details><summary>Hint 1</summary>
# Everything under one <code>jax.checkpoint</code>: what must be alive during the backward pass through its second run?
# Each step under its own: what is kept? Is there something in between?
# </details>
# <details><summary>Hint 2</summary>
# <code>diet(simulate_lean, wind, 64)</code> prints peak and work for any try. With blocks of b steps, length / b states
# are kept, and some multiple of b is alive during the backward pass through one block. Which b makes the sum small?
# </details>
# <details><summary>Hint 3</summary>
# A scan over k blocks, whose body is <code>jax.checkpoint</code> of a function that makes k steps by a scan of its own.
# You have the inner one already: <code>simulate(step, u, k)</code>. And <code>math.isqrt(length)</code> is k.
# </details>


# %% nbgrader={"grade": false, "grade_id": "diet-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def wind(u):
    """One step on a ring of places: every place drifts towards its neighbour. u: float32[n]. Returns float32[n]."""
    return u + 0.1 * (jnp.roll(u, 1) - u) * jnp.sin(u)


def swing(u):
    return u - 0.05 * jnp.sin(u) * jnp.cos(2 * u)


def simulate(step, u, length):
    """`length` steps from u: float32[n]. Returns float32[n]."""
    return jax.lax.scan(lambda u, _: (step(u), None), u, length=length)[0]


def gradient_of(run, step, length):
    """The gradient of sum(end²) by the start."""
    return jax.grad(lambda u: (run(step, u, length) ** 2).sum())


def peak_elements(tape):
    """The most elements that are alive at one moment of a tape, its arguments not counted."""
    tape = getattr(tape, "jaxpr", tape)
    last_read = {}
    for index, eqn in enumerate(tape.eqns):
        last_read.update({v: index for v in eqn.invars if not isinstance(v, Literal)})
    last_read.update({v: len(tape.eqns) for v in tape.outvars if not isinstance(v, Literal)})
    alive, peak = {}, 0
    for index, eqn in enumerate(tape.eqns):
        inner = [p for p in jax.tree.leaves(eqn.params, is_leaf=lambda p: hasattr(p, "eqns")) if hasattr(p, "eqns")]
        alive.update({v: math.prod(v.aval.shape) for v in eqn.outvars if v in last_read})
        peak = max(peak, sum(alive.values()) + max(map(peak_elements, inner), default=0))
        alive = {v: size for v, size in alive.items() if last_read[v] > index}
    return peak


def peak_states(run, step, length, n=100):
    """The peak of the gradient's tape, in states of n numbers."""
    start = np.linspace(0, 1, n, dtype=np.float32)
    return peak_elements(show_jaxpr(gradient_of(run, step, length), start).jaxpr) / n


def work(run, step, length, n=100):
    """FLOPs of the gradient, with simulate's as 1."""
    start = np.linspace(0, 1, n, dtype=np.float32)
    flops = [show_jaxpr(gradient_of(way, step, length), start).flops for way in (run, simulate)]
    return flops[0] / flops[1]


def diet(run, step, length):
    """Print what a way of running the simulation costs."""
    print(f"{length} steps: peak {peak_states(run, step, length):.0f} states, work {work(run, step, length):.2f}")


diet(simulate, wind, 64)


# %% nbgrader={"grade": false, "grade_id": "diet", "locked": false, "schema_version": 3, "solution": true, "task": false}
def simulate_lean(step, u, length):
    """The same as simulate, on a diet. length: a square number, k². u: float32[n]. Returns float32[n]."""
    ### BEGIN SOLUTION
    # k blocks of k steps: k states are kept, and one block at a time is run again.
    k = math.isqrt(length)

    @jax.checkpoint
    def block(u):
        return simulate(step, u, k)

    return simulate(block, u, k)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "diet-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The same end, the same gradient, a peak of 8k states, and at most 1.4 times the work."""
start = np.linspace(0, 3, 100, dtype=np.float32)
# The tape first: to compile an unrolled gradient can take a minute.
lean_gradient = jax.jit(lambda u, length: gradient_of(simulate_lean, wind, length)(u), static_argnums=1)
assert_primitives(lean_gradient, start, 64, includes={"scan"}, excludes={"pure_callback"}, smaller=(start, 16))
assert_allclose(simulate_lean(wind, start, 64), simulate(wind, start, 64), rtol=1e-5, name="the end")
mine, full = (jax.jit(gradient_of(run, wind, 64))(start) for run in (simulate_lean, simulate))
assert_allclose(mine, full, rtol=1e-4, atol=1e-5, name="the gradient")


def costs(step, length):
    """Whether the two budgets hold, with the figures as text."""
    k = math.isqrt(length)
    peak, extra = peak_states(simulate_lean, step, length), work(simulate_lean, step, length)
    return {
        f"peak at {length} steps, in states": f"at most {8 * k}" if peak <= 8 * k else f"{peak:.0f}",
        f"work at {length} steps": "at most 1.4" if extra <= 1.4 else f"{extra:.2f}",
    }


def budgets(length):
    k = math.isqrt(length)
    return {f"peak at {length} steps, in states": f"at most {8 * k}", f"work at {length} steps": "at most 1.4"}


def advice(length):
    return {
        f"peak at {length} steps, in states": "Two things count: what is kept all the way, and what is alive while one "
        "piece is run again. A piece that is too long or too short spoils one of them.",
        f"work at {length} steps": "Some steps run three times or more: a checkpoint inside a checkpoint does that.",
    }


for length in (16, 64):
    assert_equal(costs(wind, length), budgets(length), hints=advice(length), name="simulate_lean")
### BEGIN HIDDEN TESTS
assert_equal(costs(swing, 100), budgets(100), hints=advice(100), name="simulate_lean")
mine, full = (jax.jit(gradient_of(run, swing, 100))(start) for run in (simulate_lean, simulate))
assert_allclose(mine, full, rtol=1e-4, atol=1e-5, name="the gradient of another simulation")
ends = simulate_lean(swing, start, 64), simulate(swing, start, 64)
assert_allclose(*ends, rtol=1e-4, atol=1e-5, name="the end of another simulation")
for step in (lambda u: u - 0.05 * u, lambda u: u + 0.1 * jnp.sin(u)):  # both have one name
    ends = simulate_lean(step, start, 16), simulate(step, start, 16)
    assert_allclose(*ends, rtol=1e-4, atol=1e-5, name="the end of one lambda and of another")
for length in (1, 9, 25):  # of an odd number, squared
    ends = simulate_lean(swing, start, length), simulate(swing, start, length)
    assert_allclose(*ends, rtol=1e-4, atol=1e-5, name=f"the end after {length} steps")
assert_equal(costs(swing, 10_000), budgets(10_000), hints=advice(10_000), name="simulate_lean")


def mixed(u):
    return jnp.sin(u.reshape(10, 10) @ jnp.cos(u.reshape(10, 10))).ravel()


assert_equal(costs(mixed, 400), budgets(400), hints=advice(400), name="simulate_lean, of a step with a product")
for length in (100, 10_000):
    assert_primitives(lean_gradient, start, length, smaller=(start, 16))


def lines(length):
    """How long the program is that XLA is given."""
    return len(jax.jit(gradient_of(simulate_lean, swing, length)).lower(start).as_text().splitlines())


longer = {"lines more than for 100 steps": max(0, lines(10_000) - lines(100) - 20)}
assert_equal(longer, {"lines more than for 100 steps": 0}, name="the lowered program for 10000 steps")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 7 · minijit: differentiate (4 points)
#
# The last piece. Below stands all of minijit so far: tracing, refusing, caching, batching. In task 3 you read JAX's
# tape backwards, with numbers. Now it is your own tape, with arrays, and by the end `minijit`, `minivmap` and
# `minigrad` go into one another in any order. That needs no code of its own: each of them reads a tape and applies
# primitives with `bind`, and `bind` writes a new tape where there are tracers.
#
# The rules of the elementwise primitives are given in `PULL`. A rule takes the slope by an equation's result (its
# cotangent: how fast the final number changes with this result) and the equation's operands, and returns the slope by
# each operand. What is missing:
#
# - `pull_sum(slope, x, axis)`: the slope by `x` of `sum[axis] x`;
# - `pull_spread(slope, axis)`: the slope by `x` of `spread[axis size] x`. The two are a pair;
# - `replay_backwards(tape, *args)`: forwards with `replay`, then backwards, each equation pulled once: the tape of a
#   gradient has at most 5 times the equations of the function. Returns the slopes: a dict from name to slope, for the
#   names on which the result depends. (Where the result is a plain number, no name has a slope.) A slope
#   has the shape of what it belongs to, and is float32.
#
# <details><summary>Hint 1</summary>
# Wiggle one element of <code>x</code>: which elements of <code>sum</code> feel it, and how strongly? And of
# <code>spread</code>? For the backward walk: a name that is used twice acts on the result in two ways.
# </details>
# <details><summary>Hint 2</summary>
# A slope always has the shape of what it belongs to. Check that after every step:
# <code>{name: (np.shape(slope), tape.types[name]) for name, slope in replay_backwards(tape, ...).items()}</code>.
# </details>
# <details><summary>Hint 3</summary>
#
# ```python
# def pull_sum(slope, x, axis):
#     return bind("spread", slope, axis=..., size=...)
#
# def replay_backwards(tape, *args):
#     values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
#     for name, primitive, operands, params in reversed(tape.equations):
#         if name in slopes:
#             given = [read(values, x) for x in operands]
#             pulled = PULL[primitive](slopes[name], *given, **params)
#             for x, slope in zip(operands, pulled):
#                 if isinstance(x, str) and slope is not None:
#                     ...add slope to slopes[x], or start it...
#     return slopes
# ```
# </details>


# %% nbgrader={"grade": false, "grade_id": "minijit-08-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
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


def replay_rows(tape, args, mapped, size):
    """Run a tape on `size` examples at once. The names in `mapped` have a batch axis 0; so has the result."""
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


# %% [markdown]
# That was units 02, 03, 05 and 07. From here it is unit 08.

# %% nbgrader={"grade": false, "grade_id": "minijit-grad-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
PULL = {  # primitive -> (slope of the result, operands) -> slopes of the operands; None: there is none
    "add": lambda slope, x, y: (slope, slope),
    "sub": lambda slope, x, y: (slope, -slope),
    "mul": lambda slope, x, y: (slope * y, slope * x),
    "neg": lambda slope, x: (-slope,),
    "sin": lambda slope, x: (slope * np.cos(x),),
    "cos": lambda slope, x: (-slope * np.sin(x),),
    "exp": lambda slope, x: (slope * np.exp(x),),
    "gt": lambda slope, x, y: (None, None),
    "lt": lambda slope, x, y: (None, None),
    "sum": lambda slope, x, axis: (pull_sum(slope, x, axis),),
    "spread": lambda slope, x, axis, size: (pull_spread(slope, axis),),
}


def minigrad(fn):
    """The gradient of fn by its first argument. fn returns a number."""

    def gradient(*args):
        tape = trace(fn, *map(type_of, args))
        first = tape.inputs[0]
        return replay_backwards(tape, *args).get(first, np.zeros(tape.types[first].shape, np.float32))

    return gradient


# %% nbgrader={"grade": false, "grade_id": "minijit-grad", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pull_sum(slope, x, axis):
    """The slope by x of sum[axis] x, from the slope of the sum. x has one axis more than slope."""
    ### BEGIN SOLUTION
    # Each element takes part in one sum, with weight 1: it gets that sum's slope.
    return bind("spread", slope, axis=axis, size=x.shape[axis])
    ### END SOLUTION


def pull_spread(slope, axis):
    """The slope by x of spread[axis] x, from the slope of all the copies."""
    ### BEGIN SOLUTION
    # An element moves all its copies: their slopes add up.
    return bind("sum", slope, axis=axis)
    ### END SOLUTION


def replay_backwards(tape, *args):
    """Run a tape forwards, then backwards. args: as for replay; the result of the tape is a number.

    Returns a dict: name -> slope of the result by this name, for every name that it depends on.
    """
    ### BEGIN SOLUTION
    # Backwards, a name is reached only when all that use it have sent their share.
    values, slopes = replay(tape, *args), {tape.output: np.ones((), np.float32)}
    for output, primitive, operands, params in reversed(tape.equations):
        if output in slopes:
            pulled = PULL[primitive](slopes[output], *[read(values, x) for x in operands], **params)
            for x, slope in zip(operands, pulled, strict=True):
                if isinstance(x, str) and slope is not None:
                    slopes[x] = slopes[x] + slope if x in slopes else slope
    return slopes
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minijit-grad-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The gradients of jax.grad: numbers, vectors, matrices, whatever is used twice or not at all."""


def slope_wave(x, xp=np):
    return xp.sin(x * 2) - xp.cos(x) * xp.exp(-x)


def slope_twice(x, xp=np):
    y = x * x
    return y * x + y - x


def slope_norm(x, xp=np):
    return xp.sum(x * x)


def slope_rows(x, xp=np):
    rows = xp.sum(xp.sin(x), 1)
    return xp.sum(rows * rows)


def slope_columns(x, xp=np):
    columns = xp.sum(x, 0)
    return xp.sum(columns * columns * 0.5)


def slope_shared(w, x, xp=np):
    error = xp.sum(x * w, 1) - 1.0
    return xp.sum(error * error)


def slope_mask(x, xp=np):
    return xp.sum((x > 0) * x * 3 - (x < 0) * x)


def slope_wasteful(x, xp=np):
    xp.exp(x)  # nobody uses it
    return xp.sum(2 - x)


def slope_other(w, x, xp=np):
    return xp.sum(x * x)


def assert_slopes_agree(cases):
    """cases: function -> (its arguments, a word on it). JAX computes all gradients in one program."""
    inputs = [args for args, _ in cases.values()]

    @jax.jit
    def jax_gradients(inputs):
        grads = [jax.grad(lambda *a, fn=fn: fn(*a, xp=jnp)) for fn in cases]
        return [gradient(*args) for gradient, args in zip(grads, inputs, strict=True)]

    for fn, expected in zip(cases, jax_gradients(inputs), strict=True):
        args, word = cases[fn]
        name, error = f"minigrad({fn.__name__}) ({word})", "none"
        try:
            mine = minigrad(fn)(*args)
        except NotImplementedError:
            raise
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        if error != "none":
            assert_equal({"error": error}, {"error": "none"}, name=name)
        assert_allclose(mine, expected, rtol=1e-4, atol=1e-5, name=name)


slope_rng = np.random.default_rng(8)
slope_w, slope_x = (slope_rng.normal(size=shape).astype(np.float32) for shape in ((3,), (4, 3)))
assert_slopes_agree(
    {
        slope_twice: ((np.float32(1.5),), "what is used twice gets both slopes, added up"),
        slope_wave: ((np.float32(0.7),), "the given rules, in a chain"),
        slope_norm: ((slope_w,), "one sum: every element gets its slope"),
        slope_rows: ((slope_x,), "a sum along axis 1, then one along axis 0"),
        slope_columns: ((slope_x,), "a sum along axis 0 of a matrix"),
        slope_shared: ((slope_w, slope_x), "a vector that is spread: the slopes of its copies add up"),
        slope_mask: ((slope_w,), "a comparison has no slope"),
        slope_wasteful: ((slope_w,), "dead code sends nothing back"),
        slope_other: ((slope_w, slope_x), "an argument that takes no part: zeros"),
    }
)
slope_tape = trace(slope_shared, type_of(slope_w), type_of(slope_x))
slopes_by_name = replay_backwards(slope_tape, slope_w, slope_x)
assert_equal(
    {name: str(type_of(slope)) for name, slope in sorted(slopes_by_name.items())},
    {name: str(type) for name, type in slope_tape.types.items()},
    name="replay_backwards (the types of the slopes)",
)


def slope_tower(x, xp=np):
    for _ in range(12):
        x = x + xp.sin(x)
    return xp.sum(x)


def slope_net(w, x, xp=np):
    hidden = xp.exp(-xp.sum(x * w, 1))
    return xp.sum(hidden * xp.sum(xp.cos(w), 0)) - xp.sum(xp.sum(x, 0) * w)


both_towers = slope_tower, minigrad(slope_tower)
there, and_back = (len(trace(fn, type_of(slope_w)).equations) for fn in both_towers)
assert_equal(
    {"each equation is pulled once": and_back <= 5 * there},
    {"each equation is pulled once": True},
    name="replay_backwards",
    hints={"each equation is pulled once": "One walk, from the last equation to the first, is enough."},
)
assert_slopes_agree(
    {
        slope_tower: ((slope_w,), "twelve storeys"),
        slope_net: ((slope_w * 0.5, slope_x), "spread and sum in every direction"),
    }
)
### BEGIN HIDDEN TESTS
slopes_by_name = replay_backwards(slope_tape, slope_w.tolist(), slope_x.astype(np.float64))
assert_equal(
    {name: str(np.asarray(slope).dtype) for name, slope in sorted(slopes_by_name.items())},
    {name: type.dtype for name, type in slope_tape.types.items()},
    name="replay_backwards once more, of a list and a float64 array (the dtypes of the slopes)",
)


def slope_deep(x, xp=np):
    deep = xp.sum(xp.sin(x), 2)
    return xp.sum(xp.sum(deep * deep, 1))


def slope_middle(x, xp=np):
    across = xp.sum(x * x, 1)
    return xp.sum(xp.sum(across * across, 1))


def slope_alias(x, xp=np):
    a, b = xp.sin(x), xp.exp(x)
    return xp.sum(a * a + b + a)


def slope_early(x, xp=np):
    result = xp.sum(x * x)
    xp.cos(result)  # nobody uses it
    return result


def slope_constant(x, xp=np):
    return 7.5


cube = slope_rng.normal(size=(2, 4, 3)).astype(np.float32)
assert_slopes_agree(
    {
        slope_deep: ((cube,), "a sum along axis 2"),
        slope_middle: ((cube,), "a sum along axis 1 of three"),
        slope_wasteful: ((slope_w + 100,), "dead code, whose value is infinite, sends nothing back"),
        slope_alias: ((slope_w,), "several sums of the same names"),
        slope_early: ((slope_w,), "the result is not the last line"),
        slope_constant: ((slope_w,), "a constant: zeros"),
    }
)
flat_tape = trace(lambda x: x * 0.0, Type((), "float32"))
assert_equal(
    {"names with a slope, be it zero": sorted(replay_backwards(flat_tape, np.float32(2)))},
    {"names with a slope, be it zero": sorted([*flat_tape.inputs, flat_tape.output])},
    name="replay_backwards",
)
dead_tape = trace(slope_wasteful, type_of(slope_w))
dead = dead_tape.equations[0][0]
assert_equal(
    {"names with a slope": sorted(replay_backwards(dead_tape, slope_w))},
    {"names with a slope": sorted(set(dead_tape.types) - {dead})},
    name="replay_backwards",
)


def slope_squares(x, xp=np):
    for _ in range(12):
        x = x * x
    return xp.sum(x)


there, and_back = (len(trace(fn, type_of(slope_w)).equations) for fn in (slope_squares, minigrad(slope_squares)))
once = {"each product is pulled once": and_back <= 5 * there}
assert_equal(once, {"each product is pulled once": True}, name="replay_backwards")
again = replay_backwards(slope_tape, slope_w * 2, slope_x + 1)[slope_tape.inputs[0]]
wanted = jax.grad(lambda w: slope_shared(w, slope_x + 1, xp=jnp))(slope_w * 2)
assert_allclose(again, wanted, rtol=1e-4, atol=1e-4, name="replay_backwards of a tape that has run, with other args")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "minijit-grad-compose", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. grad, vmap and jit in one another, as in JAX; and a model that learns on one trace."""


def one_error(w, x, y):
    error = (x * w).sum() - y
    return error * error


def batch_error(vmap_fn):
    return lambda w, x, y: vmap_fn(one_error, (None, 0, 0))(w, x, y).sum()


def confusing(grad_fn):
    """The inner slope by y is 1, whatever x is; so the outer function is x, and its slope 1."""
    return grad_fn(lambda x: x * grad_fn(lambda y: x + y)(2.0))


def cube_and_wave(xp):
    return lambda x: x * x * x + xp.sin(x)


def sentences(jit, vmap_fn, grad_fn, xp):
    """Name -> a function of (w, x, y)."""
    second = grad_fn(grad_fn(cube_and_wave(xp)))
    gradient = grad_fn(batch_error(vmap_fn))
    return {
        "grad of grad": lambda w, x, y: second(y[0]),
        "grad of grad of grad": lambda w, x, y: grad_fn(second)(y[0]),
        "vmap of grad": lambda w, x, y: vmap_fn(grad_fn(one_error), (None, 0, 0))(w, x, y),
        "grad of vmap": gradient,
        "vmap of grad of grad": lambda w, x, y: vmap_fn(second)(y),
        "grad of a grad's sum": lambda w, x, y: grad_fn(lambda v: gradient(v, x, y).sum())(w),
        "a grad inside a grad": lambda w, x, y: confusing(grad_fn)(y[0]),
        "jit of vmap of grad": lambda w, x, y: jit(vmap_fn(grad_fn(one_error), (None, 0, 0)))(w, x, y),
        "grad of jit": lambda w, x, y: grad_fn(jit(batch_error(vmap_fn)))(w, x, y),
    }


def sentence_value(sentence, args):
    try:
        return sentence(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


mini_sentences = sentences(minijit, minivmap, minigrad, np)
jax_sentences = sentences(jax.jit, jax.vmap, jax.grad, jnp)
compose_rng = np.random.default_rng(80)
compose_args = [compose_rng.normal(size=shape).astype(np.float32) for shape in ((3,), (5, 3), (5,))]
all_of_jax = jax.jit(lambda *args: {name: sentence(*args) for name, sentence in jax_sentences.items()})
for name, expected in all_of_jax(*compose_args).items():
    mine = sentence_value(mini_sentences[name], compose_args)
    if isinstance(mine, str):
        said = "Values may be tracers on the way back as well: let bind apply sum and spread."
        assert_equal({name: mine}, {name: "no error"}, name="minigrad", hints={name: said})
    assert_allclose(mine, expected, rtol=1e-4, atol=1e-4, name=name)


def mini_step(w, x, y):
    return w - 0.02 * minigrad(batch_error(minivmap))(w, x, y)


def jax_step(w, x, y):
    return w - 0.02 * jax.grad(batch_error(jax.vmap))(w, x, y)


def learn(step, w, x, y):
    for _ in range(25):
        w = step(w, x, y)
    return w


mini_learned = learn(minijit(mini_step), *compose_args)
assert_allclose(mini_learned, learn(jax.jit(jax_step), *compose_args), rtol=1e-3, atol=1e-4, name="25 steps")
assert_equal({"traces": reasons(mini_step)}, {"traces": ["first call"]}, name="minijit of a step")

# %% [markdown]
# `print(trace(mini_step, *map(type_of, compose_args)))` shows what you have made: your step, your `grad` and your
# `vmap`, melted into one flat tape that knows eleven primitives. JAX does the same, with many more primitives and a
# compiler behind them.
