# %% [markdown]
# # Exercise 04 · Static or traced
#
# Six tasks, 22 points, about {duration}. The lesson is
# [04 · Static or traced](../../lessons/04_static_or_traced.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. A check that fails
# says what happened and what to try. Three hints wait under each task, from a nudge to a skeleton. Where a check is
# folded, its code holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | sort twelve values into static and traced | 3 |
# | 2 | collect eight errors, one of each kind | 4 |
# | 3 | write a tax that needs one trace for everybody; say what the other kind costs, and what it saves | 5 |
# | 4 | keep shapes static: blocks of an image, and the negatives without a mask | 4 |
# | 5 | repair an amplifier that does not listen | 3 |
# | 6 | find out what a sealed function keeps static | 3 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import dataclasses
import dis
import enum
import inspect
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from autograder import (
    assert_allclose,
    assert_equal,
    assert_max_traces,
    assert_prediction,
    assert_primitives,
    partial_credit,
    run_alone,
    speedup,
    trace_log,
)

# %% [markdown]
# ## Task 1 · Static or traced? (3 points)
#
# Inside a trace, `x` is a traced `float32[4,3]` and `n` is a static 2. `table` is a JAX array from outside. For
# each of the twelve values in `VALUES`, say whether it is `"static"` or `"traced"`, without running anything.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Who computes it, and when? Python and NumPy compute on the spot. An operation of JAX writes a line on the tape (the
# jaxpr).
# </details>
# <details><summary>Hint 2</summary>
# After you have decided, look at one: <code>jax.make_jaxpr(lambda x: print(jnp.size(x)))(jnp.ones((4, 3)))</code>.
# A tracer prints as <code>JitTracer(...)</code>.
# </details>
# <details><summary>Hint 3</summary>
# A tracer's shape is static, even if the tracer is a result. A captured array has its numbers until you operate on it.
# A few functions of <code>jnp</code> only ask for the type. And JAX does not simplify <code>0 * ...</code>.
# </details>

# %% nbgrader={"grade": false, "grade_id": "static-or-traced-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
table = jnp.array([10.0, 20.0, 30.0])

VALUES = {
    "x.shape[1] + n": lambda x, n: x.shape[1] + n,
    "x.T.shape": lambda x, n: x.T.shape,
    "x[:n].shape[0]": lambda x, n: x[:n].shape[0],
    "(x == x).all()": lambda x, n: (x == x).all(),
    "0 * x.sum()": lambda x, n: 0 * x.sum(),
    "math.prod(x.shape)": lambda x, n: math.prod(x.shape),
    "jnp.size(x)": lambda x, n: jnp.size(x),
    "jnp.zeros(n)": lambda x, n: jnp.zeros(n),
    "np.zeros(n) + jnp.pi": lambda x, n: np.zeros(n) + jnp.pi,
    "np.float32(2) * x[0, 0]": lambda x, n: np.float32(2) * x[0, 0],
    "table": lambda x, n: table,
    "table + 1": lambda x, n: table + 1,
}


# %% nbgrader={"grade": false, "grade_id": "static-or-traced", "locked": false, "schema_version": 3, "solution": true, "task": false}
def static_or_traced():
    """Name of each entry of VALUES -> "static" or "traced"."""
    ### BEGIN SOLUTION
    # Types are static, Python and NumPy on static values stay static, whatever JAX computes is traced.
    return {
        "x.shape[1] + n": "static",
        "x.T.shape": "static",
        "x[:n].shape[0]": "static",
        "(x == x).all()": "traced",
        "0 * x.sum()": "traced",
        "math.prod(x.shape)": "static",
        "jnp.size(x)": "static",
        "jnp.zeros(n)": "traced",
        "np.zeros(n) + jnp.pi": "static",
        "np.float32(2) * x[0, 0]": "traced",
        "table": "static",
        "table + 1": "traced",
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "static-or-traced-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. All twelve values are sorted right."""


def look():
    kinds = {}

    def traced(x, n):
        for name, value_of in VALUES.items():
            kinds[name] = "traced" if isinstance(value_of(x, n), jax.core.Tracer) else "static"

    jax.make_jaxpr(traced, static_argnums=1)(jnp.ones((4, 3)), 2)
    return kinds


assert_prediction(
    static_or_traced,
    look,
    hints={
        "x.shape[1] + n": "Two Python integers.",
        "x.T.shape": "x.T is a tracer, but every tracer knows its shape.",
        "x[:n].shape[0]": "n is static, so the slice has a shape, and a tracer knows its shape.",
        "(x == x).all()": "It looks like True, but nothing is computed while tracing. (With a NaN it is False.)",
        "0 * x.sum()": "The tape is not simplified, and 0 times infinity is not 0.",
        "math.prod(x.shape)": "Python multiplies integers that it knows.",
        "jnp.size(x)": "It only asks for the type; no operation is written down.",
        "jnp.zeros(n)": "An operation of jnp inside a trace goes on the tape, even if everything in it is known.",
        "np.zeros(n) + jnp.pi": "NumPy computes now, and jnp.pi is a Python float.",
        "np.float32(2) * x[0, 0]": "One operand is a tracer, so the tracer's own multiplication runs.",
        "table": "Nothing was computed with it yet: it is the array from outside, numbers and all.",
        "table + 1": "An operation on a JAX array inside a trace goes on the tape.",
    },
)

# %% [markdown]
# ## Task 2 · Collect them all (4 points)
#
# Eight errors, one exhibit for each. An exhibit is a function of one array `x`, `float32` with one axis and at
# least two numbers. The rules of the collection:
#
# - **without `jit` it runs**, whatever the numbers in `x` are, infinities and NaN too; what it returns does not matter;
# - **under `jit` it raises the wanted class**, exactly that one: a child or a parent does not count. JAX raises it: there
#   is no `raise` in an exhibit.
#
# | exhibit | raises | |
# |---|---|---|
# | `exhibit_if` | `TracerBoolConversionError` | common |
# | `exhibit_mask` | `NonConcreteBooleanIndexError` | common |
# | `exhibit_shape` | `TypeError` | common |
# | `unhashable` | `ValueError` | common |
# | `exhibit_number` | `ConcretizationTypeError` | rare |
# | `exhibit_place` | `TracerIntegerConversionError` | rare |
# | `exhibit_array` | `TracerArrayConversionError` | rare |
# | `exhibit_slice` | `IndexError` | rare |
#
# `unhashable` is no exhibit but a supplier: it returns a value that `jit` refuses as a static argument.
#
# `raised_by(exhibit, X)` shows what an exhibit raises.
#
# <details><summary>Hint 1</summary>
# What did Python ask? True or false? Which number? Which place in a list? Which numbers, for NumPy? How many? How long?
# For some of them you need an integer that depends on the values in <code>x</code>: <code>jnp.argmin(x)</code> is one.
# </details>
# <details><summary>Hint 2</summary>
# <code>print(raised_by(exhibit_number, X))</code> after each attempt. The museum's family tree in the lesson has an
# example for every class.
# </details>
# <details><summary>Hint 3</summary>
# <pre>if ...: return x                  # true or false?
# return x[...]                     # a mask
# return jnp.ones(jnp.argmin(x))    # how long?
# return float(...)                 # which number?
# return "somewhere"[... % 9]       # which place?
# return np....(x)                  # which numbers?
# return x[:...]                    # a plain IndexError</pre>
# </details>

# %% nbgrader={"grade": false, "grade_id": "collect-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
X = jnp.array([3.0, -1.0, 2.0, -5.0])


def class_of(error):
    """Name of the class of an error, unless a `raise` of this notebook has made it."""
    step = error.__traceback__
    while step := step.tb_next:
        code = step.tb_frame.f_code
        if step.tb_frame.f_globals is globals() and dis.opname[code.co_code[step.tb_lasti]] == "RAISE_VARARGS":
            return f"{type(error).__name__}, by a raise of its own: let JAX raise it"
    return type(error).__name__


def raised_by(exhibit, x):
    """Name of the class that exhibit(x) raises under jit. Without jit it must run."""
    try:
        exhibit(x)
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__} without jit already, where it must run"
    filtering = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")  # otherwise frames of JAX's may be hidden
    try:
        jax.jit(lambda v: (exhibit(v), v)[1])(x)
    except Exception as error:
        last = error.__traceback__
        while last.tb_next:
            last = last.tb_next
        by_jax = last.tb_frame.f_globals.get("__name__", "").startswith("jax")
        return class_of(error) + ("" if by_jax else ", of Python's own: let JAX raise it")
    finally:
        jax.config.update("jax_traceback_filtering", filtering)
    return "no error"


def refused_as_static(value):
    """Name of the class that jit raises when `value` is a static argument."""
    try:
        jax.jit(lambda v: 0.0, static_argnums=0)(value)
    except Exception as error:
        return class_of(error)
    return "no error"


# %% nbgrader={"grade": false, "grade_id": "collect", "locked": false, "schema_version": 3, "solution": true, "task": false}
def exhibit_if(x):
    """Raises TracerBoolConversionError under jit."""
    ### BEGIN SOLUTION
    # Python needs True or False, and there is only a bool[].
    return x if x[0] > 0 else -x
    ### END SOLUTION


def exhibit_mask(x):
    """Raises NonConcreteBooleanIndexError under jit."""
    ### BEGIN SOLUTION
    return x[x < 0]
    ### END SOLUTION


def exhibit_shape(x):
    """Raises TypeError under jit, and no child of it."""
    ### BEGIN SOLUTION
    return jnp.ones((jnp.argmin(x),))
    ### END SOLUTION


def unhashable():
    """Returns a value for which static_argnums raises ValueError."""
    ### BEGIN SOLUTION
    # A frozen container is not enough: what it holds is hashed too.
    return (1, [2, 3])
    ### END SOLUTION


def exhibit_number(x):
    """Raises ConcretizationTypeError under jit, and no child of it."""
    ### BEGIN SOLUTION
    return float(x.sum())
    ### END SOLUTION


def exhibit_place(x):
    """Raises TracerIntegerConversionError under jit."""
    ### BEGIN SOLUTION
    # Lists, tuples, strings and range ask for an index by __index__.
    return list(range(jnp.argmin(x)))
    ### END SOLUTION


def exhibit_array(x):
    """Raises TracerArrayConversionError under jit."""
    ### BEGIN SOLUTION
    return np.asarray(x)
    ### END SOLUTION


def exhibit_slice(x):
    """Raises IndexError under jit, and no child of it."""
    ### BEGIN SOLUTION
    return x[: jnp.argmin(x)]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "collect-common", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The four common ones."""
assert_equal(
    {
        "exhibit_if raises": raised_by(exhibit_if, X),
        "exhibit_mask raises": raised_by(exhibit_mask, X),
        "exhibit_shape raises": raised_by(exhibit_shape, X),
        "unhashable is refused with": refused_as_static(unhashable()),
    },
    {
        "exhibit_if raises": "TracerBoolConversionError",
        "exhibit_mask raises": "NonConcreteBooleanIndexError",
        "exhibit_shape raises": "TypeError",
        "unhashable is refused with": "ValueError",
    },
    hints={
        "exhibit_if raises": "Python must ask a traced value for True or False. A shape is static: it can be asked.",
        "exhibit_mask raises": "An array of booleans as an index. jnp.where with three arguments is no error.",
        "exhibit_shape raises": "A traced number as a length. Not in jnp.arange, which raises the error for numbers.",
        "unhashable is refused with": "A static value is looked up in a dictionary. What cannot be a dictionary's key?",
    },
    name="the collection",
)
### BEGIN HIDDEN TESTS
wanted = {
    "exhibit_if raises": (exhibit_if, "TracerBoolConversionError"),
    "exhibit_mask raises": (exhibit_mask, "NonConcreteBooleanIndexError"),
    "exhibit_shape raises": (exhibit_shape, "TypeError"),
}
for numbers in (
    [3, 1],
    [3, 1, 2],
    [-1, -2],
    [np.nan, np.inf],
    [np.nan, np.nan],
    [-np.inf, 0.5],
    [0, 0, 0],
    [*range(300)],
    [*range(2000, 0, -1)],
    [-2, 1e30, *range(9), -1e30],
    [1e30, np.inf],
):
    fresh = jnp.array(numbers, jnp.float32)
    said = {name: raised_by(exhibit, fresh) for name, (exhibit, _) in wanted.items()}
    assert_equal(said, {name: error for name, (_, error) in wanted.items()}, name="the collection")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "collect-rare", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The four rare ones."""
assert_equal(
    {
        "exhibit_number raises": raised_by(exhibit_number, X),
        "exhibit_place raises": raised_by(exhibit_place, X),
        "exhibit_array raises": raised_by(exhibit_array, X),
        "exhibit_slice raises": raised_by(exhibit_slice, X),
    },
    {
        "exhibit_number raises": "ConcretizationTypeError",
        "exhibit_place raises": "TracerIntegerConversionError",
        "exhibit_array raises": "TracerArrayConversionError",
        "exhibit_slice raises": "IndexError",
    },
    hints={
        "exhibit_number raises": "The parent is wanted, not its child: ask for the number, not for true or false.",
        "exhibit_place raises": "Which place in a Python list? int() asks for a number; NumPy asks for an array.",
        "exhibit_array raises": "NumPy must want the numbers. np.sum asks x for a method of its own, and gets it.",
        "exhibit_slice raises": "A slice with a traced end. A traced index in place of the slice is no error.",
    },
    name="the collection",
)
### BEGIN HIDDEN TESTS
wanted = {
    "exhibit_number raises": (exhibit_number, "ConcretizationTypeError"),
    "exhibit_place raises": (exhibit_place, "TracerIntegerConversionError"),
    "exhibit_array raises": (exhibit_array, "TracerArrayConversionError"),
    "exhibit_slice raises": (exhibit_slice, "IndexError"),
}
for numbers in (
    [3, 1],
    [-1, -2],
    [np.nan, np.inf],
    [np.nan, np.nan],
    [-np.inf, 0.5],
    [0, 0, 0],
    [*range(300)],
    [*range(2000, 0, -1)],
    [-2, 1e30, *range(9), -1e30],
    [1e30, np.inf],
    [0, 1000],
):
    fresh = jnp.array(numbers, jnp.float32)
    said = {name: raised_by(exhibit, fresh) for name, (exhibit, _) in wanted.items()}
    assert_equal(said, {name: error for name, (_, error) in wanted.items()}, name="the collection")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · One trace for every income (5 points)
#
# The tax of a small country comes in three pieces; `tax_spec` has them as a Python `if`.
#
# **`tax(income)`** (2 points): the same under `jit`, in `float32`, for every finite income, however large, and without
# a callback into Python. One trace must serve every single `float` (an `int` is another type, and has another one). An
# array of incomes must work as well, and so must `jax.grad`: the slope of the tax is the rate for the next unit of
# income, at 10 and 40 too.
#
# **`static_traces(values)`** (1 point): a colleague would rather write `jax.jit(tax_spec, static_argnums=0)` and
# calls it with each of `values` in turn. How often does that trace? Return the number, for any list of hashable
# values without a NaN. Your function is run in plain Python, where neither JAX nor this notebook exists.
#
# <details><summary>Hint 1</summary>
# A tracer cannot choose between pieces of Python, but a program can choose between two results, for each number of
# an array. And a static value is found again in a dictionary; what must agree?
# </details>
# <details><summary>Hint 2</summary>
# <code>with trace_log(tax) as log:</code> around your calls, then <code>print(log.reasons)</code>. For the second part,
# try <code>1, 1.0, True</code> with <code>jax.jit(lambda v: 0.0, static_argnums=0)</code>, and count with
# <code>trace_log()</code>.
# </details>
# <details><summary>Hint 3</summary>
# <pre>@jax.jit
# def tax(income):
#     return jnp.where(income < 10, 0.0, jnp.where(..., ..., ...))
# def static_traces(values):
#     return len({(...) for value in values})</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "tax-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def tax_spec(income):
    """The tax on one income: nothing up to 10, 20 % of what is above 10, 50 % of what is above 40."""
    if income < 10:
        return 0.0
    if income < 40:
        return 0.2 * (income - 10)
    return 6.0 + 0.5 * (income - 40)


def rate_spec(income):
    """The tax on the next unit of income, measured with a small step."""
    return (tax_spec(income + 1e-4) - tax_spec(income)) / 1e-4


# %% nbgrader={"grade": false, "grade_id": "tax", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def tax(income):
    """The tax on an income, or on each income in an array. float32."""
    ### BEGIN SOLUTION
    # All three pieces are computed, and the program picks: there is nothing left for Python to decide.
    middle = 0.2 * (income - 10)
    upper = 6.0 + 0.5 * (income - 40)
    return jnp.where(income < 10, 0.0, jnp.where(income < 40, middle, upper))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "tax-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. One trace for every income; arrays and slopes work."""
incomes = [0.0, 9.5, 10.0, 25.0, 39.5, 40.0, 100.0]
with assert_max_traces(tax, 1):
    taxes = [tax(income) for income in incomes]
for income, paid in zip(incomes, taxes, strict=True):
    assert_allclose(paid, jnp.float32(tax_spec(income)), atol=1e-5, name=f"tax({income})")
expected = np.array([tax_spec(income) for income in incomes], np.float32)
assert_allclose(tax(jnp.array(incomes)), expected, atol=1e-5, name="tax of an array")
assert_allclose(tax(100), jnp.float32(tax_spec(100)), name="tax(100), an integer")
for income in (5.0, 25.0, 100.0):
    rate = jnp.float32(rate_spec(income))
    assert_allclose(jax.grad(tax)(income), rate, rtol=1e-3, atol=1e-3, name=f"slope of the tax at {income}")
### BEGIN HIDDEN TESTS
fresh = np.random.default_rng(4).uniform(-5, 90, size=(2, 7)).astype(np.float32)
for incomes in (fresh, np.array([5, 25, 100, 70_000, 2_000_000_000])):
    expected = np.vectorize(tax_spec, otypes=[np.float32])(incomes)
    assert_allclose(tax(incomes), expected, rtol=1e-4, atol=1e-4, name="tax of fresh incomes")
for income in (10.5, 40.5, 1e5, 1e30, 3e38, -3e38):  # float32 ends at 3.4e38
    assert_allclose(tax(income), jnp.float32(tax_spec(income)), rtol=1e-4, name=f"tax({income})")
for income, rate in ((-3.0, 0), (10.0, 0.2), (11.0, 0.2), (40.0, 0.5), (41.0, 0.5), (1e5, 0.5), (3e38, 0.5)):
    assert_allclose(jax.grad(tax)(income), jnp.float32(rate), rtol=1e-4, name=f"slope of the tax at {income}")
rates = jax.jit(jax.vmap(jax.grad(tax)))(jnp.float32([5, 25, 100]))
assert_allclose(rates, np.float32([0, 0.2, 0.5]), rtol=1e-4, name="slopes of the tax, under jit")
for way in (tax, jax.grad(tax)):
    assert_primitives(way, 25.0, excludes={"pure_callback"})
### END HIDDEN TESTS


# %% nbgrader={"grade": false, "grade_id": "price", "locked": false, "schema_version": 3, "solution": true, "task": false}
def static_traces(values):
    """Traces of a function with one static argument that is called with each of `values` in turn. An int."""
    ### BEGIN SOLUTION
    # JAX compares the type of the value, and the value by ==: a Python set of pairs does the same.
    return len({(type(value), value) for value in values})
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "price-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. static_traces agrees with JAX."""


def counted(values):
    jitted = jax.jit(lambda v: 0.0, static_argnums=0)
    with trace_log() as log:
        for value in values:
            jitted.eval_shape(value)
    return log.traces


cases = {
    "three incomes, twice": [5.0, 25.0, 100.0] * 2,
    "1, 1.0 and True": [1, 1.0, True],
    "zero with and without a sign": [0.0, -0.0],
    "tuples, equal though their types differ inside": [(2, 1), (2.0, 1), (2, True)],
    "names": ["relu", "tanh", "relu", ""],
    "None, 0 and False": [None, 0, False],
}
assert_equal(
    {case: run_alone(static_traces, values) for case, values in cases.items()},
    {case: counted(values) for case, values in cases.items()},
    hints={
        "three incomes, twice": "A value that it has seen before is found again.",
        "1, 1.0 and True": "They are equal, but something else is compared too.",
        "zero with and without a sign": "Python says that the two are equal.",
        "tuples, equal though their types differ inside": "The type that counts is the type of the whole value.",
        "names": "Equal strings are one value, however often they are written.",
        "None, 0 and False": "0 and False are equal, but something else is compared too.",
    },
    name="static_traces",
)
### BEGIN HIDDEN TESTS
fresh_cases = {
    "NumPy's numbers": [np.float32(0.5), 0.5, np.float64(0.5), np.int64(3), 3],
    "frozen sets": [frozenset({1, 2}), frozenset({2.0, 1})],
    "many incomes, twice": [float(k % 150) for k in range(300)],
    "ranges and tuples": [range(3), range(3), (0, 1, 2)],
    "numbers that share a hash": [-1, -2, 0, 2**61 - 1, -1],
    "equal numbers of four types": [1 + 0j, 1, True, 1.0, 1 + 0j],
    "long tuples, equal though their types differ inside": [(1, 2, 3, 4), (1.0, 2, 3, 4), (True, 2, 3, 4)],
    "two types that are called bool": [np.True_, True, False, np.True_],
    "two types of text": [np.str_("relu"), "relu", np.str_("relu")],
    "two types, each twice": [1, 1.0, 1, 1.0],
    "nearly the same": [1.0, 1.0000001, -1.0, 2**53, 2**53 + 1, "a", "A", " a"],
    "nothing": [],
}
assert_equal(
    {case: run_alone(static_traces, values) for case, values in fresh_cases.items()},
    {case: counted(values) for case, values in fresh_cases.items()},
    name="static_traces",
)
assert_equal(
    {"two lists, each by itself": [static_traces([2.0, 3.0]) for _ in range(2)]},
    {"two lists, each by itself": [2, 2]},
    hints={"two lists, each by itself": "Each list has a jitted function of its own, which has met no value yet."},
    name="static_traces",
)


def tuples_of_two_types():
    class TupleOfMyOwn(tuple):
        pass

    return [(1, 2), TupleOfMyOwn((1, 2)), (1, 2), TupleOfMyOwn((1.0, 2))]


def said_of_two_types():
    return static_traces(tuples_of_two_types())


assert_equal(
    {"two types of tuples": said_of_two_types()},
    {"two types of tuples": counted(tuples_of_two_types())},
    name="static_traces",
)
### END HIDDEN TESTS

# %% [markdown]
# **What one trace for everybody can cost** (2 points). A city has bikes to share. `bikes_slow` says how many will stand
# at each station, a few hours from now. Its author knew that `range(hours)` is an error under `jit`, and wanted one
# trace for everybody. So its loop makes 48 rounds, the most that anybody asks for, and `where` keeps those that count.
#
# Write `bikes_after`, jitted, which computes the same for every number of hours from 0 to 48. The city asks for 1, 2, 6
# or 24 `hours`; `share`, the part of the bikes that is taken in an hour, is another number in each call. So there is
# at most one trace for each number of hours, whatever the numbers in the other arguments are. And no callback.
#
# When all of this holds, speed over `bikes_slow` counts. For two hours and 600 stations, 3x as fast earns 1 point, 6x
# earns 2.
#
# <details><summary>Hint 1</summary>
# A mask chooses between results that are all there already. What must be known so that the others are not computed?
# And which of the four arguments takes few values?
# </details>
# <details><summary>Hint 2</summary>
# <code>with trace_log(bikes_after) as log:</code> around a few calls, then <code>print(log.reasons)</code>: it names the
# argument that was traced for. <code>print(jax.make_jaxpr(lambda *city: bikes_after(*city, 0.2, 2))(*city_of(5)))</code>
# shows the work of a call: each hour has a product, <code>dot_general</code>.
# </details>
# <details><summary>Hint 3</summary>
# <pre>def bikes_after(bikes, moves, share, hours):
#     for _ in range(...):
#         bikes = ...
#     return bikes
# bikes_after = jax.jit(bikes_after, static_argnames=...)</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "bikes-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
@jax.jit
def bikes_slow(bikes, moves, share, hours):
    """Bikes at each station after so many hours: float32[n].

    bikes: float32[n], those of now. moves: float32[n,n]; of the bikes that are taken at j in an hour, the part
    moves[i, j] ends at i. share: the part of all bikes that is taken in an hour, a float. hours: an int, 0 to 48.
    """

    def one_hour(hour, bikes):
        moved = (1 - share) * bikes + share * (moves @ bikes)
        return jnp.where(hour < hours, moved, bikes)

    return jax.lax.fori_loop(0, 48, one_hour, bikes)


def city_of(n, seed=None):
    """Bikes and moves of a city with n stations."""
    rng = np.random.default_rng(seed)
    moves = rng.uniform(size=(n, n)) ** 3
    return jnp.array(rng.uniform(0, 40, n), jnp.float32), jnp.array(moves / moves.sum(0), jnp.float32)


# %% nbgrader={"grade": false, "grade_id": "bikes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bikes_after(bikes, moves, share, hours):
    """The same as bikes_slow, without the hours that nobody asked for. Below it, jit it, with what must be static."""
    ### BEGIN SOLUTION
    for _ in range(hours):
        bikes = (1 - share) * bikes + share * (moves @ bikes)
    return bikes
    ### END SOLUTION


### BEGIN SOLUTION
# range asks how often, so hours is static: few values, a program for each. The share has many: it stays traced.
bikes_after = jax.jit(bikes_after, static_argnames="hours")
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "bikes-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The same bikes, a trace at most for a number of hours; then speed: 3x earns 1 point, 6x earns 2."""
city = city_of(40, seed=5)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    for hours in (1, 2):
        name = f"bikes_after, hours={hours}"
        assert_allclose(bikes_after(*city, 0.25, hours), bikes_slow(*city, 0.25, hours), rtol=1e-4, name=name)
with assert_max_traces(bikes_after, 2):
    for share in (0.1, 0.25, 0.4):
        for hours in (1, 2):
            bikes_after(*city, share, hours)
city = city_of(600, seed=6)
assert_primitives(lambda *city: bikes_after(*city, 0.2, 2), *city, excludes={"pure_callback", "io_callback"})
### BEGIN HIDDEN TESTS
with jax.default_matmul_precision("highest"):
    for hours, share in ((0, 0.3), (1, 1.0), (1, 0.0), (7, 0.2), (48, 1e-4), (48, 1e-5), (48, np.float32(0.05))):
        fresh, name = city_of(17), f"bikes_after, share={share}, hours={hours}"
        assert_allclose(bikes_after(*fresh, share, hours), bikes_slow(*fresh, share, hours), rtol=1e-4, name=name)
    traced = jax.jit(lambda *city: bikes_after(*city, 0.2, 2))(*city)  # the tape that was looked at gives the bikes
    assert_allclose(traced, bikes_slow(*city, 0.2, 2), rtol=1e-4, name="bikes_after, under jit")
### END HIDDEN TESTS
race = speedup(bikes_after, bikes_slow, *city, 0.2, 2, at_least=6)
### BEGIN HIDDEN TESTS
if race.at_least(3) == "pass":  # else the last line says why
    other = speedup(bikes_after, bikes_slow, *city, 0.2, 6, at_least=2)
    assert_equal({"2x as fast for 6 hours": other.verdict}, {"2x as fast for 6 hours": "pass"}, name="bikes_after")
### END HIDDEN TESTS
partial_credit(race, {3: 1, 6: 2})

# %% [markdown]
# ## Task 4 · Shapes are static (4 points)
#
# **`pool(x, k)`** (1 point): the mean of each `k` × `k` block of an image; rows and columns that do not fill a block
# are dropped, all of them if the image is smaller than a block. Jitted, `k` static, no loop and no callback. Neither a
# larger image nor larger blocks add an equation, and every equation works on pixels: all that the sizes of the image
# and `k` decide by themselves is Python's.
#
# **`get_negatives(x, size)`** (3 points): the negatives of `x` in their order and dtype (a NaN is none), under `jit`.
# As a shape cannot depend on values, the caller gives a budget, `size`, from 0 up to the length of `x`. Return two
# things: the first `size` negatives, filled up with zeros where there are fewer, and how many negatives there are in
# all (an `int32`, which may be more than `size`). One trace for each budget, whatever is in `x`, and no callback.
#
# <details><summary>Hint 1</summary>
# <code>x.shape</code> holds Python integers, as long as no <code>jnp</code> touches them; a block is an axis that
# reshape can make. For the negatives: their number is a traced value, and that is fine, as long as it is no shape.
# </details>
# <details><summary>Hint 2</summary>
# <code>help(jnp.nonzero)</code>: see <code>size</code> and <code>fill_value</code>. What is filled up, values or
# indices? Print the answer for an <code>x</code> whose first number is positive.
# </details>
# <details><summary>Hint 3</summary>
# <code>x.at[index].get(...)</code> reads <code>x[index]</code>, and lets you say what stands for a place that x does
# not have.
# <pre>rows, columns = x.shape[0] // k, x.shape[1] // k
# return x[: rows * k, : columns * k].reshape(rows, k, ..., ...).mean((..., ...))
# (index,) = jnp.nonzero(x < 0, size=size, fill_value=...)  # a place that x does not have
# values = x.at[index].get(mode="fill", fill_value=...)
# return values, ...</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "shapes-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def pool_spec(x, k):
    """Mean of each k by k block, block by block, in NumPy."""
    rows, columns = x.shape[0] // k, x.shape[1] // k
    pooled = np.zeros((rows, columns), x.dtype)
    for row in range(rows):
        for column in range(columns):
            pooled[row, column] = np.mean(x[row * k : (row + 1) * k, column * k : (column + 1) * k])
    return pooled


def get_negatives_spec(x, size):
    """The first `size` negatives of x, filled up with zeros, and the number of all negatives; in NumPy."""
    found = x[x < 0]
    values = np.zeros(size, x.dtype)
    values[: len(found)] = found[:size]
    return values, np.int32(len(found))


def negatives(numbers, size):
    """What get_negatives makes of a list of numbers, as a list; the count comes last."""
    values, number = get_negatives(np.array(numbers, np.float32), size=size)
    return [*np.asarray(values).tolist(), int(number)]


def by_hand(numbers, size):
    """The same from the specification."""
    values, number = get_negatives_spec(np.array(numbers, np.float32), size)
    return [*values.tolist(), int(number)]


# %% nbgrader={"grade": false, "grade_id": "pool", "locked": false, "schema_version": 3, "solution": true, "task": false}
@partial(jax.jit, static_argnames="k")
def pool(x, k):
    """Mean of each k by k block of x: float32[h,w] -> float32[h//k,w//k]."""
    ### BEGIN SOLUTION
    # Shapes are Python integers: all of this arithmetic is over before the first equation is written.
    rows, columns = x.shape[0] // k, x.shape[1] // k
    return x[: rows * k, : columns * k].reshape(rows, k, columns, k).mean((1, 3))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "pool-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The blocks are right, and the tape holds no loop and no arithmetic about shapes."""
image = np.arange(35, dtype=np.float32).reshape(5, 7) ** 2
assert_allclose(pool(image, k=2), pool_spec(image, 2), name="pool(image, k=2)")
assert_allclose(pool(image, k=3), pool_spec(image, 3), name="pool(image, k=3)")
with assert_max_traces(pool, 1):
    pool(image, k=2)
    pool(image + 1, k=2)
excluded = {"reduce_prod", "scan", "while", "pure_callback", "io_callback"}
assert_primitives(lambda x: pool(x, k=2), jnp.ones((9, 11)), smaller=(jnp.ones((5, 3)),), excludes=excluded)
assert_primitives(lambda x: pool(x, k=len(x) // 2), jnp.ones((11, 11)), smaller=(jnp.ones((5, 5)),), excludes=excluded)
### BEGIN HIDDEN TESTS
fresh = np.random.default_rng(7).normal(size=(23, 16)).astype(np.float32)
for k in (1, 4, 11):
    assert_allclose(pool(fresh, k), pool_spec(fresh, k), rtol=1e-4, atol=1e-5, name=f"pool of a fresh image, k={k}")
fresh[2, 3], fresh[9, 9] = np.inf, np.nan
assert_allclose(pool(fresh, k=4), pool_spec(fresh, 4), rtol=1e-4, atol=1e-5, name="pool of an image with inf and NaN")
for narrow in (fresh[:, :3], fresh[:3], fresh[:3, :3]):
    assert_allclose(pool(narrow, k=4), pool_spec(narrow, 4), name="pool of an image without one whole block")


def without_pixels(jaxpr, pixels):
    """The primitives of the equations that read no pixel. pixels: the ids of the names that stand for some."""
    found = []
    for eqn in jaxpr.eqns:
        reads = [id(operand) in pixels for operand in eqn.invars]
        for inner in [value.jaxpr for value in eqn.params.values() if hasattr(value, "jaxpr")]:
            if len(inner.invars) == len(reads):
                found += without_pixels(inner, {id(v) for v, read in zip(inner.invars, reads, strict=True) if read})
        if any(reads):
            pixels |= set(map(id, eqn.outvars))
        else:
            found.append(eqn.primitive.name)
    return found


tape = jax.make_jaxpr(lambda x: pool(x, k=4))(fresh).jaxpr
assert_equal(
    {"equations without pixels": without_pixels(tape, set(map(id, tape.invars)))},
    {"equations without pixels": []},
    hints={"equations without pixels": "What follows from h, w and k alone is a number that Python can have before."},
    name="the tape of pool",
)
traced = jax.jit(lambda x: pool(x, k=4))(fresh)
assert_allclose(traced, pool_spec(fresh, 4), rtol=1e-4, atol=1e-5, name="pool, under jit")
### END HIDDEN TESTS


# %% nbgrader={"grade": false, "grade_id": "negatives", "locked": false, "schema_version": 3, "solution": true, "task": false}
@partial(jax.jit, static_argnames="size")
def get_negatives(x, size):
    """The first `size` negatives of x in their order, filled up with zeros; and the number of all negatives, int32."""
    ### BEGIN SOLUTION
    # nonzero fills up its indices. x.size is a place that x does not have, so that get can tell padding from data.
    (index,) = jnp.nonzero(x < 0, size=size, fill_value=x.size)
    return x.at[index].get(mode="fill", fill_value=0), jnp.sum(x < 0)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "negatives-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The negatives in their order, zeros after them, and one trace for a budget."""
cases = {
    "as many as the budget": [1.5, -2.0, -4.0, -0.5, 3.0, -1.0],
    "fewer than the budget": [1.5, -2.0, 0.5, -0.5, 3.0, 1.0],
    "more than the budget": [-1.0, -2.0, 0.5, -3.0, -4.0, -5.0],
    "none at all": [1.5, 2.0, 0.5, 0.0, 3.0, 1.0],
}
with assert_max_traces(get_negatives, 1):
    found = {case: negatives(numbers, 4) for case, numbers in cases.items()}
assert_equal(
    found,
    {case: by_hand(numbers, 4) for case, numbers in cases.items()},
    hints={
        "as many as the budget": "In their order in x, and then how many there are.",
        "fewer than the budget": "Padding must be 0. nonzero pads its indices with 0, and place 0 has a number in it.",
        "more than the budget": "The first ones in their order, cut at the budget; but the count is of all of them.",
        "none at all": "All padding, and padding is 0. Zero itself is not negative.",
    },
    name="get_negatives",
)
assert_primitives(lambda x: get_negatives(x, size=4), jnp.ones(6), excludes={"pure_callback", "io_callback"})
### BEGIN HIDDEN TESTS
fresh = [*np.random.default_rng(5).normal(size=(4, 12)).astype(np.float32), np.linspace(-3, 5, 12, dtype=np.float32)]
budgets = 0, 1, 9, 12
with assert_max_traces(get_negatives, len(budgets)):
    for row in fresh:
        for size in budgets:
            desired = get_negatives_spec(row, size)
            assert_allclose(get_negatives(row, size=size), desired, name=f"get_negatives of fresh numbers, size={size}")
long = np.arange(-9, 1_100_000, dtype=np.float32)  # there is a number in every place that padding may read
assert_allclose(get_negatives(long, size=20), get_negatives_spec(long, 20), name="get_negatives of a million numbers")
zeros = np.array([0.0, -2.0, -0.0], np.float32)
assert_allclose(get_negatives(zeros, size=2), get_negatives_spec(zeros, 2), name="get_negatives with zeros in front")
odd = np.array([np.inf, -np.inf, 2.0, -1.0, 0.0], np.float32)
assert_allclose(get_negatives(odd, size=4), get_negatives_spec(odd, 4), name="get_negatives of infinities")
odd = np.array([np.nan, -2.0, np.nan, 3.0, -1.0, np.nan], np.float32)
assert_allclose(get_negatives(odd, size=4), get_negatives_spec(odd, 4), name="get_negatives of numbers and NaN")
whole = np.array([5, -16_777_217, 0, -3], np.int32)  # float32 has no -16777217
found, number = get_negatives(whole, size=3)
assert_equal(
    {"the numbers": [str(found.dtype), *found.tolist()], "how many": int(number)},
    {"the numbers": ["int32", -16_777_217, -3, 0], "how many": 2},
    hints={"the numbers": "What is read from x has the dtype of x."},
    name="get_negatives of integers",
)
short = np.int8(np.arange(240) % 100 - 90)  # more places than int8 has numbers
assert_allclose(get_negatives(short, size=100), get_negatives_spec(short, 100), name="get_negatives of 240 int8")
wide = jnp.array([np.inf, -2.0, np.nan, -np.inf, 3.0], jnp.bfloat16)
found, number = get_negatives(wide, size=4)
assert_equal(
    {"the numbers": [str(found.dtype), *found.tolist()], "how many": int(number)},
    {"the numbers": ["bfloat16", -2.0, -np.inf, 0.0, 0.0], "how many": 2},
    hints={"the numbers": "0 times an infinity or a NaN is NaN: leave the others out, do not multiply them by 0."},
    name="get_negatives of infinities and NaN in bfloat16",
)
many = jnp.full(301, -1.0, jnp.bfloat16)  # bfloat16 has no 301
counted_all = {"how many": int(get_negatives(many, size=2)[1])}
assert_equal(counted_all, {"how many": 301}, name="get_negatives of 301 negatives in bfloat16")
odd, nothing = np.array([-np.nan, -2.0, np.nan, 3.0], np.float32), np.zeros(0, np.float32)  # -NaN has a sign bit
assert_allclose(get_negatives(odd, size=3), get_negatives_spec(odd, 3), name="get_negatives of numbers and -NaN")
assert_allclose(get_negatives(nothing, size=0), get_negatives_spec(nothing, 0), name="get_negatives of nothing")
traced = jax.jit(lambda x: get_negatives(x, size=4))(odd)
assert_allclose(traced, get_negatives_spec(odd, 4), name="get_negatives, under jit")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · The amplifier that does not listen (3 points)
#
# Somebody has jitted a method with a static `self`. Then somebody turned the knob (changed `gain`).
#
# **Predict** (1 point): what does `StubbornAmplifier` return in the four plays of `stubborn_session`, and how many
# traces are there in all? Each play is one number: for the array, say its first element.
#
# **Repair** (2 points): write `Settings` and `Amplifier` so that `make_amplifier` returns an amplifier which
# computes what `amplify_spec` says, and
#
# - turning the knob (`amplifier.gain = 10.0`, to another `float`) takes effect and never traces again;
# - new settings (`amplifier.settings = ...`) take effect, with one trace for settings that there have not been yet
#   (two modes of one ceiling: two traces), which equal settings share;
# - settings cannot be changed in place, nor what is in them;
# - the gain is the amplifier's only leaf (`jax.tree.leaves`), so that `jax.grad` can differentiate with respect to an
#   amplifier: the result is an amplifier whose `gain` is the slope. (The *leaves* are the arrays and numbers into which
#   JAX takes a *pytree* apart: see [the words](../../lessons/00_before_you_start.ipynb#The-words).)
#
# Put the `@jax.jit` on `__call__`, or on a function to which it hands all of its work.
#
# <details><summary>Hint 1</summary>
# One of the two fields is a number that flows through the program, the other decides which program it is.
# </details>
# <details><summary>Hint 2</summary>
# The last section of the lesson has a <code>Filter</code> with a <code>Config</code>.
# <code>jax.tree.leaves(amplifier)</code> shows what JAX regards as data.
# </details>
# <details><summary>Hint 3</summary>
# <pre>@dataclasses.dataclass(frozen=True)
# class Settings:
#     mode: str
#     ceiling: float
# @jax.tree_util.register_dataclass
# @dataclasses.dataclass
# class Amplifier:
#     gain: float
#     settings: Settings = dataclasses.field(metadata=...)
#     @jax.jit
#     def __call__(self, x): ...</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "amplifier-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
class StubbornAmplifier:
    def __init__(self, gain):
        self.gain = gain

    @partial(jax.jit, static_argnums=0)
    def __call__(self, x):
        return self.gain * x


def stubborn_session():
    """Four plays; see the names."""
    amplifier = StubbornAmplifier(2.0)
    plays = {"first play": amplifier(3.0)}
    amplifier.gain = 10.0
    plays["gain turned to 10"] = amplifier(3.0)
    plays["gain still at 10, an array of threes"] = amplifier(jnp.full(4, 3.0))
    plays["another amplifier with gain 10"] = StubbornAmplifier(10.0)(3.0)
    return {play: float(jnp.ravel(result)[0]) for play, result in plays.items()}


def amplify_spec(gain, mode, ceiling, x):
    """gain * x, limited to the ceiling: "clip" cuts it off, "fold" bends it."""
    loud = gain * np.float32(x)
    if mode == "clip":
        return np.clip(loud, -ceiling, ceiling)
    return ceiling * np.sin(loud / ceiling)


def session(steps):
    """Plays an amplifier and returns the numbers that come out. Steps: ("make", gain, mode, ceiling), ("gain", value),
    ("mode", name), ("play", number)."""
    results = []
    for action, *values in steps:
        if action == "make":
            amplifier, ceiling = make_amplifier(*values), values[-1]
        elif action == "gain":
            (amplifier.gain,) = values
        elif action == "mode":
            amplifier.settings = make_amplifier(1.0, *values, ceiling).settings
        else:
            results.append(float(amplifier(*values)))
    return results


def number_of_leaves():
    """How many leaves JAX finds in an amplifier."""
    return len(jax.tree.leaves(make_amplifier(2.0, "clip", 25.0)))


def settings_can_change():
    """Whether the settings of an amplifier, or what is in them, can be changed in place."""
    settings = make_amplifier(1.0, "clip", 1.0).settings
    for name, value in (("mode", "fold"), ("ceiling", 2.0)):
        try:
            setattr(settings, name, value)
        except (AttributeError, TypeError):
            continue
        return True
    return holds_container(settings)


def holds_container(value):
    """Whether a value is something that can be changed in place, or has such a thing inside."""
    if isinstance(value, (list, dict, set, np.ndarray)):
        return True
    parts = list(value) if isinstance(value, (tuple, frozenset)) else []
    if type(value).__module__ == "__main__" and not isinstance(value, enum.Enum):  # a kind that you have written
        kinds = type(value).__mro__
        slots = [name for kind in kinds for name, x in vars(kind).items() if inspect.ismemberdescriptor(x)]
        for name in (*(vars(value) if hasattr(value, "__dict__") else ()), *slots):
            parts.append(getattr(value, name, None))
            if name.startswith("_"):  # nobody's business
                continue
            with contextlib.suppress(AttributeError, TypeError):
                setattr(value, name, parts[-1])
                return True
    return any(map(holds_container, parts))


def call_of(kind):
    """The function that runs when an object of this kind is called."""
    return kind.__call__


def slope(gain, mode, ceiling, x):
    """Derivative of the output with respect to the amplifier's gain."""
    return jax.grad(lambda amplifier: amplifier(x))(make_amplifier(gain, mode, ceiling)).gain


# %% nbgrader={"grade": false, "grade_id": "stubborn", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predict_stubborn():
    """Name of each play in stubborn_session -> its number; and "traces in all"."""
    ### BEGIN SOLUTION
    # The key is the object's identity and the type of x; the gain is in neither. A new type is traced anew.
    return {
        "first play": 6.0,
        "gain turned to 10": 6.0,
        "gain still at 10, an array of threes": 30.0,
        "another amplifier with gain 10": 30.0,
        "traces in all": 3,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "stubborn-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
"""1 point. The stubborn amplifier is predicted."""


def listen():
    with trace_log(StubbornAmplifier.__call__) as log:
        heard = stubborn_session()
    return {**heard, "traces in all": log.traces}


assert_prediction(
    predict_stubborn,
    listen,
    hints={
        "gain turned to 10": "The same object, so its program is found again. Which gain is in that program?",
        "gain still at 10, an array of threes": "A new shape, a new trace. Each trace reads the gain of that moment.",
        "another amplifier with gain 10": "Another object, another identity.",
        "traces in all": "One for each pair of an object and a type of x.",
    },
)


# %% nbgrader={"grade": false, "grade_id": "amplifier", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_amplifier(gain, mode, ceiling):
    """An amplifier: amplifier(x) is amplify_spec(gain, mode, ceiling, x). Write the two classes below it."""
    ### BEGIN SOLUTION
    return Amplifier(gain, Settings(mode, ceiling))
    ### END SOLUTION


### BEGIN SOLUTION
# The gain is data: a leaf of the tree, traced. The settings decide the program: part of the tree's type, static.
@dataclasses.dataclass(frozen=True)
class Settings:
    mode: str
    ceiling: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Amplifier:
    gain: float
    settings: Settings = dataclasses.field(metadata={"static": True})

    @jax.jit
    def __call__(self, x):
        loud, ceiling = self.gain * x, self.settings.ceiling
        if self.settings.mode == "clip":
            return jnp.clip(loud, -ceiling, ceiling)
        return ceiling * jnp.sin(loud / ceiling)


### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "amplifier-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The amplifier listens, traces once for each mode, and its gain can be differentiated."""
steps = [("make", 2.0, "clip", 25.0), ("play", 3.0), ("gain", 10.0), ("play", 3.0), ("gain", 5.0), ("play", 3.0)]
steps += [("mode", "fold"), ("play", 3.0), ("mode", "clip"), ("play", 3.0), ("make", 7.0, "clip", 25.0), ("play", 3.0)]
names = ["first play", "gain turned to 10", "gain turned to 5", "mode fold", "mode clip again", "another amplifier"]
settings = [(2.0, "clip"), (10.0, "clip"), (5.0, "clip"), (5.0, "fold"), (5.0, "clip"), (7.0, "clip")]
heard = [round(number, 3) for number in session(steps)]
stale = "This came out of an earlier program: is self static, or is something in it compared by identity?"
expected = [round(float(amplify_spec(gain, mode, 25.0, 3.0)), 3) for gain, mode in settings]
assert_equal(
    dict(zip(names, heard, strict=True)),
    dict(zip(names, expected, strict=True)),
    hints=dict.fromkeys(["gain turned to 10", "gain turned to 5", "mode fold", "mode clip again"], stale),
    name="the amplifier",
)
assert_equal(
    {
        "number of leaves": number_of_leaves(),
        "settings can be changed in place": settings_can_change(),
    },
    {"number of leaves": 1, "settings can be changed in place": False},
    hints={
        "number of leaves": "The gain flows through the program: it is data, a leaf. The settings are not.",
        "settings can be changed in place": "What the cache holds on to must never change: a new mode, new settings.",
    },
    name="the amplifier",
)
with assert_max_traces(call_of(Amplifier), 2):
    session(steps)
assert_allclose(slope(2.0, "clip", 25.0, 3.0), jnp.float32(3.0), name="slope while nothing is clipped")
assert_allclose(slope(20.0, "clip", 25.0, 3.0), jnp.float32(0.0), name="slope while all is clipped")
### BEGIN HIDDEN TESTS


def turn(amplifier, gain):
    amplifier.gain = gain


def take_settings(amplifier, other):
    amplifier.settings = other.settings


def slope_is_a(kind, amplifier):
    """Whether JAX puts the leaves of a slope back together into an object of this kind."""
    return isinstance(jax.grad(lambda amplifier: amplifier(4.0))(amplifier), kind)


def handed_to_jit():
    return jax.jit(lambda amplifier, x: amplifier(x))


fresh_steps = [("make", 1.5, "fold", 2.0), ("play", 0.5), ("gain", -3.0), ("play", 0.5), ("mode", "clip")]
fresh_steps += [
    ("play", 4.0),
    ("make", -1.0, "clip", 3.0),
    ("play", 2.0),
    ("play", 5.0),
    ("mode", "fold"),
    ("play", 0.0),
]
fresh = [(1.5, "fold", 2.0, 0.5), (-3.0, "fold", 2.0, 0.5), (-3.0, "clip", 2.0, 4.0)]
fresh += [(-1.0, "clip", 3.0, 2.0), (-1.0, "clip", 3.0, 5.0), (-1.0, "fold", 3.0, 0.0)]
expected = np.array([amplify_spec(*case) for case in fresh])
assert_allclose(np.array(session(fresh_steps)), expected, rtol=1e-4, name="a fresh session")
with assert_max_traces(call_of(Amplifier), 1):
    session([("make", 2.0, "fold", 4.0), ("play", 0.5), ("gain", 3.0), ("play", -1.5), ("play", 8.0)])
loud, quiet, sound = make_amplifier(5.0, "clip", 7.0), make_amplifier(-0.5, "clip", 0.2), jnp.linspace(-2.0, 3.0, 5)
assert_allclose(loud(sound), jnp.float32(amplify_spec(5.0, "clip", 7.0, sound)), name="the first of two amplifiers")
assert_allclose(quiet(sound), jnp.float32(amplify_spec(-0.5, "clip", 0.2, sound)), name="the second of two amplifiers")
near = make_amplifier(-0.5, "clip", 0.2001)  # nearly the ceiling of the second
assert_allclose(
    near(sound), jnp.float32(amplify_spec(-0.5, "clip", 0.2001, sound)), name="the third of three amplifiers"
)
bent = make_amplifier(4.0, "fold", 1.5)  # beyond a quarter of a wave the sine comes back
assert_allclose(
    bent(sound), jnp.float32(amplify_spec(4.0, "fold", 1.5, sound)), rtol=1e-4, name="a fold of loud sounds"
)
take_settings(loud, quiet)
assert_allclose(loud(sound), jnp.float32(amplify_spec(5.0, "clip", 0.2, sound)), name="the ceiling of the new settings")
turned, alike = (make_amplifier(2.0, "clip", 9.0) for _ in range(2))
turn(turned, 3.0)
assert_equal(
    {
        "what the second of two alike plays": float(alike(4.0)),
        "its slope is an Amplifier": slope_is_a(Amplifier, alike),
    },
    {"what the second of two alike plays": 8.0, "its slope is an Amplifier": True},
    hints={
        "what the second of two alike plays": "Somebody has turned the knob of the first: each has its own.",
        "its slope is an Amplifier": "JAX puts the leaves back together: into what?",
    },
    name="the amplifier",
)
assert_allclose(slope(2.0, "fold", 5.0, 3.0), jnp.float32(3.0 * math.cos(6.0 / 5.0)), rtol=1e-4, name="slope of a fold")
play = handed_to_jit()
for one, desired in ((bent, amplify_spec(4.0, "fold", 1.5, sound)), (quiet, amplify_spec(-0.5, "clip", 0.2, sound))):
    assert_allclose(play(one, sound), jnp.float32(desired), rtol=1e-4, name="an amplifier that is handed to jit")
whole = make_amplifier(0.5, "clip", 1.75)
for x, desired in ((3, 1.5), (8, 1.75)):
    assert_allclose(whole(x), jnp.float32(desired), name="an amplifier that plays a whole number")
seven_sounds = jnp.linspace(-2.0, 3.0, 7)
with trace_log() as heard_inside:
    bent(seven_sounds)
assert_equal(
    {"programs that a call compiles": heard_inside.compiles},
    {"programs that a call compiles": 1},
    hints={"programs that a call compiles": "The @jax.jit stands on __call__, with all that it does inside."},
    name="the amplifier",
)
### END HIDDEN TESTS

# %% [markdown]
# ## Task 6 · The sealed box (3 points)
#
# Somebody hands you a jitted function, sealed: you may call it, and count its traces in any way, but what it was made
# with cannot be read, and its own `trace`, `lower` and `eval_shape` are gone with that. Some of its arguments are
# static. Which?
#
# `find_static(box, args)` gets the box and one call that works, `box(*args)`, all numbers between 0 and 1000. It
# returns the positions of the static arguments, as a list in ascending order. The box has been used before: it knows
# some values already, you are not told which, and it remembers yours as well. Its results tell you nothing; a static
# argument computes the same as a traced one.
#
# You may call the box as often as you like. (There is a solution that calls it once for each argument, and counts
# nothing at all.)
#
# `open_box` is there to practise on. The specification knows its answer because its maker told us.
#
# <details><summary>Hint 1</summary>
# What can be done with a traced argument that cannot be done with a static one? Or: what costs a trace with the
# one, and none with the other?
# </details>
# <details><summary>Hint 2</summary>
# <code>with trace_log(box) as log: box(...)</code> and <code>log.traces</code> tell whether a call was traced. Beware
# of values that the box has seen, and of a value of another type: that is traced anew in any case. Or read the error
# museum again, last line.
# </details>
# <details><summary>Hint 3</summary>
# <pre>for position, arg in enumerate(args):
#     # the same number, as something that no dictionary takes for a key:
#     probe = ...
#     try:
#         box(*args[:position], probe, *args[position + 1 :])
#     except ...:
#         static.append(position)</pre>
# </details>


# %% nbgrader={"grade": false, "grade_id": "sealed-box-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def seal(fn, static, known=range(-1, 9)):
    """A box: fn jitted with these static positions, used before with the known values in every position."""
    box = jax.jit(fn, static_argnums=tuple(static))
    ones = [1] * fn.__code__.co_argcount
    for position in range(len(ones)):
        for value in known:
            box.eval_shape(*ones[:position], value, *ones[position + 1 :])
    vars(box).pop("_jit_info", None)  # the seal: it can be called, and cannot be asked
    return box


OPEN_BOX_STATIC = [0, 2]
open_box = seal(lambda a, b, c: a * b + c, OPEN_BOX_STATIC)


def find_static_spec(box):
    """The answer for open_box: its maker told us."""
    return OPEN_BOX_STATIC if box is open_box else None


# %% nbgrader={"grade": false, "grade_id": "sealed-box", "locked": false, "schema_version": 3, "solution": true, "task": false}
def find_static(box, args):
    """Positions of the static arguments of box, a jitted function for which box(*args) works. A list, ascending."""
    ### BEGIN SOLUTION
    # A static value must have a hash, and an array has none. A traced argument takes the array as it takes the number.
    static = []
    for position, arg in enumerate(args):
        try:
            box(*args[:position], np.asarray(arg), *args[position + 1 :])
        except ValueError:
            static.append(position)
    return static
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "sealed-box-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. The seal is broken for every box."""
boxes = {
    "a box like the open one": (seal(lambda a, b, c: a * b + c, OPEN_BOX_STATIC), (1, 1, 1), OPEN_BOX_STATIC),
    "first of two": (seal(lambda a, b: a - b, [0]), (1, 1), [0]),
    "nothing static": (seal(lambda a, b, c: a * (b + c), []), (1, 1, 1), []),
    "everything static": (seal(lambda a, b: a + b, [0, 1]), (1, 1), [0, 1]),
    "an argument nobody uses": (seal(lambda a, unused, c: a + c, [2]), (1, 1, 1), [2]),
    "numbers it never had": (seal(lambda a, b: a * b, [1]), (0.5, 2.5), [1]),
}
old_value = "The box was used before. A static value that it has seen costs no trace: was yours new to it?"
assert_equal(
    {name: find_static(box, args) for name, (box, args, _) in boxes.items()},
    {name: static for name, (_, _, static) in boxes.items()},
    hints={
        "a box like the open one": old_value,
        "first of two": old_value,
        "nothing static": "A new type is traced anew, static or not: change the value, and nothing else.",
        "everything static": old_value,
        "an argument nobody uses": "Static or traced has nothing to do with the result.",
        "numbers it never had": "Did it trace because of your change, or because even box(*args) was new to it?",
    },
    name="find_static",
)
### BEGIN HIDDEN TESTS
fresh_boxes = {
    "one argument": (seal(lambda a: -a, [0]), (1,), [0]),
    "eight arguments": (seal(lambda a, b, c, d, e, f, g, h: a + b * h, [1, 5, 7]), (1,) * 8, [1, 5, 7]),
    "five arguments": (seal(lambda a, b, c, d, e: a * b + c * d + e, [1, 3, 4]), (1, 1, 1, 1, 1), [1, 3, 4]),
    "a well-known one": (seal(lambda a, b: a * b, [1], range(-60, 60)), (1, 1), [1]),
    "floats": (seal(lambda a, b, c: a * b - c, [2]), (0.5, 1.5, 2.5), [2]),
    "other numbers": (seal(lambda a, b, c: a + b - c, [0, 1]), (7, 3, 5), [0, 1]),
    "zeros": (seal(lambda a, b, c, d: a * b - c * d, [0, 2]), (0, 0, 0.0, 0.0), [0, 2]),
    "whole scalars only": (seal(lambda a, b, c: jax.lax.switch(a, [jnp.sin, jnp.cos], b + c), [2]), (1, 0.5, 1), [2]),
}
assert_equal(
    {name: [find_static(box, args) for _ in range(2)] for name, (box, args, _) in fresh_boxes.items()},
    {name: [static, static] for name, (_, _, static) in fresh_boxes.items()},
    name="find_static, asked twice",
)


def new_numbers_tried():
    """The numbers that a box of one static argument is asked for, and that nobody had asked for."""
    tried = []
    find_static(seal(lambda a: tried.append(a) or -a, [0]), (1,))  # what is static arrives as it is
    return {value for value in tried if isinstance(value, int | float) and 9 < abs(value) < 2**30}


new_numbers = new_numbers_tried()
known = [value + more for value in sorted(new_numbers)[-9:] for more in range(-2, 20)]
assert_equal(
    {"one that knows what others were asked": find_static(seal(lambda a: -a, [0], known), (1,))},
    {"one that knows what others were asked": [0]},
    name="find_static",
    hints={"one that knows what others were asked": old_value},
)
### END HIDDEN TESTS

# %% [markdown]
# ## What you have now
#
# You know which questions a trace can answer, what the others raise, and what it costs to have an answer: `where`
# for a result (and all the work that it hides), a static argument for a program, a budget for a shape, a tree for an
# object. Unit 05 is about the dictionary behind it all.
