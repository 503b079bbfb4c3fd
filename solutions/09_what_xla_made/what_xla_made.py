# %% [markdown]
# # Exercise 09 · What XLA made of it
#
# Six tasks, 20 points, about {duration}. The lesson is
# [09 · What XLA made of it](../../lessons/09_what_xla_made.ipynb).
#
# Fill in each function whose body raises `NotImplementedError`, then run the check below it. Points are given for what
# XLA made of your program: modules, operations, bytes, FLOPs, each counted here and now, or compared with a slow
# reference that is compiled beside it. One check, in task 5, asks the clock as well. Where a check is folded, its code
# holds hints about wrong predictions: run it as it is.
#
# | task | you will | points |
# |---|---|---|
# | 1 | say which operations of twelve wasteful programs XLA leaves in | 4 |
# | 2 | list the modules that a call hands to XLA | 3 |
# | 3 | compute the bytes that a program moves, from its text | 3 |
# | 4 | compute the same scores with half the bytes | 4 |
# | 5 | compute the same number with a hundredth of the FLOPs | 4 |
# | 6 | write a benchmark that XLA cannot shorten | 2 |

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import re
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from autograder import (
    assert_allclose,
    assert_equal,
    assert_hlo,
    assert_prediction,
    assert_primitives,
    partial_credit,
    show_hlo,
    speedup,
    trace_log,
)

# %% [markdown]
# ## Task 1 · Survivors (4 points)
#
# Twelve small programs, each wasteful in its own way. How many of the operations named beside it are left in the
# optimised program? `x` is a square matrix of floats; an operation inside a fusion counts.
#
# Write your twelve numbers **before** you run anything. The check compiles them on your machine and says which are
# wrong, never the number.
#
# A prediction is made before anything is measured: its function is run in plain Python, where neither JAX nor this
# notebook exists.
#
# <details><summary>Hint 1</summary>
# Would the result be the same for <em>every</em> <code>x</code>? With a NaN or an infinity in it, too? (In one place
# here XLA accepts other last digits: where it adds up copies that it has made itself.)
# </details>
# <details><summary>Hint 2</summary>
# <code>show_hlo(program, x).ops</code> counts the operations, and
# <code>show_hlo(program, x, stage="lowered").ops</code> those before XLA. For one program at a time, and after you have
# written a number down.
# </details>
# <details><summary>Hint 3</summary>
# XLA removes what is never read, what is there twice, what undoes itself by moving elements or signs, and what is
# decided before the program runs; a sum of equal copies is a product, and a limit that is set twice is one limit. Other
# arithmetic on values that it does not know stays, however obvious the result. It does not know what a sort is for.
# </details>

# %% nbgrader={"grade": false, "grade_id": "survivors-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Six programs about bookkeeping.


def second_output(x):
    return (jnp.sin(x), jnp.cos(x))[0]


def decided(x):
    return jnp.where(True, x, jnp.sin(x))


def there_and_back(x):
    return x[::-1][::-1]


def same_argument(x):
    return jnp.sin(x + 1) * jnp.cos(x + 1)


def clipped_twice(x):
    return jnp.maximum(jnp.maximum(x, 0), 0)


def hundred_copies(x):
    return jnp.broadcast_to(x, (100, *x.shape)).sum(0)


# Six programs about arithmetic.


def minus_itself(x):
    return jnp.sin(x) - jnp.sin(x)


def mirrored(x):
    return jnp.sin(x) + jnp.sin(-x)


def sorted_twice(x):
    return jnp.sort(jnp.sort(x))


def one_product(x):
    return (x @ x) + (x @ x)


def times_nothing(x):
    return jnp.zeros_like(x) @ x


def corner(x):
    return ((x @ x) @ x)[0, 0]


BOOKKEEPING = {
    second_output: "cosine",
    decided: "sine",
    there_and_back: "reverse",
    same_argument: "add",
    clipped_twice: "maximum",
    hundred_copies: "reduce",
}
ARITHMETIC = {
    minus_itself: "sine",
    mirrored: "sine",
    sorted_twice: "sort",
    one_product: "dot",
    times_nothing: "dot",
    corner: "dot",
}


def count_survivors(programs):
    """Name of each program -> how many of its operation are left after XLA's passes."""
    x = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    return {program.__name__: show_hlo(program, x).ops[watched] for program, watched in programs.items()}


# %% nbgrader={"grade": false, "grade_id": "survivors", "locked": false, "schema_version": 3, "solution": true, "task": false}
def survivors_bookkeeping():
    """Name of each program in BOOKKEEPING -> how many of its operation are left."""
    ### BEGIN SOLUTION
    # None of this needs to know a value of x. A sum of a hundred copies is x times 100: even that is known.
    return {
        "second_output": 0,
        "decided": 0,
        "there_and_back": 0,
        "same_argument": 1,
        "clipped_twice": 1,
        "hundred_copies": 0,
    }
    ### END SOLUTION


def survivors_arithmetic():
    """Name of each program in ARITHMETIC -> how many of its operation are left."""
    ### BEGIN SOLUTION
    # Equal expressions are computed once. What they amount to is algebra, and NaN - NaN is not 0.
    return {
        "minus_itself": 1,
        "mirrored": 2,
        "sorted_twice": 2,
        "one_product": 1,
        "times_nothing": 1,
        "corner": 2,
    }
    ### END SOLUTION


# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "survivors-bookkeeping", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The six programs about bookkeeping are predicted right."""
assert_prediction(
    survivors_bookkeeping,
    lambda: count_survivors(BOOKKEEPING),
    hints={
        "second_output": "Who reads the second output?",
        "decided": "The condition is known before x is.",
        "there_and_back": "Moving elements is no arithmetic: XLA can see where each one ends up.",
        "same_argument": "What is computed twice from the same operands?",
        "clipped_twice": "Every result of the inner maximum is already what the outer one wants.",
        "hundred_copies": "All hundred are equal, and XLA knows it: it made them.",
    },
)

# %% jupyter={"source_hidden": true} nbgrader={"grade": true, "grade_id": "survivors-arithmetic", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The six programs about arithmetic are predicted right."""
assert_prediction(
    survivors_arithmetic,
    lambda: count_survivors(ARITHMETIC),
    hints={
        "minus_itself": "Are there equal expressions? And is a difference of equal numbers always 0?",
        "mirrored": "That the sine is odd is mathematics. XLA looks for equal operands.",
        "sorted_twice": "To drop the second, XLA would have to know what the first achieves.",
        "one_product": "Are there equal expressions?",
        "times_nothing": "0 times infinity is not 0.",
        "corner": "Looking at one product alone, can you tell that only a corner of it is wanted?",
    },
)

# %% [markdown]
# ## Task 2 · The flight recorder (3 points)
#
# What did this line of code hand to XLA? Write `modules(fn, *args)`: it calls the function as if nothing had ever been
# compiled, lets JAX write its IR into a temporary folder, and returns what was in the files: **one text for each
# module, in order**, its name, a colon, and its StableHLO operations:
#
#     modules(a_plus_b_minus_c, a, b, c)            ["jit_add: add", "jit_subtract: subtract"]
#     modules(jax.jit(a_plus_b_minus_c), a, b, c)   ["jit_a_plus_b_minus_c: add subtract"]
#
# It must work in the second call as in the first, and afterwards JAX must not write any more files, **even if `fn`
# raised an error**. (The error itself may go on to the caller.)
#
# <details><summary>Hint 1</summary>
# The lesson has all the parts: an update of the configuration, a temporary folder, and one call that makes JAX forget
# what it has compiled.
# </details>
# <details><summary>Hint 2</summary>
# Print one of the files. The name follows <code>module @</code>; every operation is written <code>stablehlo.</code> and
# a word. The files' names are numbered: sort them.
# </details>
# <details><summary>Hint 3</summary>
# <code>jax.clear_caches()</code>; then <code>jax.config.update("jax_dump_ir_to", folder)</code>,
# <code>try: fn(*args)</code>, and in <code>finally</code> update it to <code>""</code>. For each text:
# <code>re.search(r"module @(\w+)", text)[1]</code> and <code>re.findall(r"stablehlo\.(\w+)", text)</code>.
# </details>


# %% nbgrader={"grade": false, "grade_id": "recorder-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def a_plus_b_minus_c(a, b, c):
    return a + b - c


def norm(X):
    """Take from each column its mean, and divide it by its standard deviation. X: float32[rows, columns]."""
    X = X - X.mean(0)
    return X / X.std(0)


def softened(x):
    return jnp.tanh(x) * x


def stumble(x):
    raise RuntimeError("I was meant to fail")


def names_built(fn, *args):
    """The names of the modules that fn(*args) builds, by JAX's own events; they say nothing of operations."""
    jax.clear_caches()
    with trace_log() as log:
        fn(*args)
    return [re.sub(r"\W", "_", name).removesuffix("_") for name in log.modules]


def still_writing():
    """Whether JAX is still told to write its IR anywhere."""
    return bool(jax.config.values["jax_dump_ir_to"])


# %% nbgrader={"grade": false, "grade_id": "recorder", "locked": false, "schema_version": 3, "solution": true, "task": false}
def modules(fn, *args):
    """What fn(*args) hands to XLA when nothing is compiled yet: a list of "name: operation operation ..."."""
    ### BEGIN SOLUTION
    # A cache hit builds nothing and writes nothing, so forget first; and clean up whatever happens.
    with tempfile.TemporaryDirectory() as folder:
        jax.clear_caches()
        jax.config.update("jax_dump_ir_to", folder)
        try:
            fn(*args)
        finally:
            jax.config.update("jax_dump_ir_to", "")
        texts = [path.read_text() for path in sorted(Path(folder).iterdir())]
    found = []
    for text in texts:
        name, operations = re.search(r"module @(\w+)", text)[1], re.findall(r"stablehlo\.(\w+)", text)
        found.append(f"{name}: {' '.join(operations)}")
    return found
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "recorder-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Every module is recorded, in every call, and nothing is left behind."""


def recorded_twice():
    """What is recorded of a function, un-jitted and jitted, in two rounds; and whether JAX still writes after them."""
    a, b, c = (jnp.array(values) for values in ([1, 2, 3, 4], [1, 3, 4, 4], [1, 2, 3, 5]))
    jitted = jax.jit(a_plus_b_minus_c)
    found = {
        "un-jitted": modules(a_plus_b_minus_c, a, b, c),
        "jitted": modules(jitted, a, b, c),
        "un-jitted, again": modules(a_plus_b_minus_c, a, b, c),
        "jitted, again": modules(jitted, a, b, c),
        "still writing": still_writing(),
    }
    jax.config.update("jax_dump_ir_to", "")
    return found


two, one = ["jit_add: add", "jit_subtract: subtract"], ["jit_a_plus_b_minus_c: add subtract"]
assert_equal(
    recorded_twice(),
    {"un-jitted": two, "jitted": one, "un-jitted, again": two, "jitted, again": one, "still writing": False},
    name="modules",
    hints={
        "un-jitted, again": "What is compiled already is not written again: make JAX forget first.",
        "jitted, again": "What is compiled already is not written again: make JAX forget first.",
        "still writing": "Set the option back to an empty text.",
    },
)
### BEGIN HIDDEN TESTS
X = jnp.asarray(np.random.default_rng().normal(size=(9, 4)).astype(np.float32))


def modules_after_a_call(fn, x):
    """What is recorded of a function that is compiled before, and to be recorded all the same."""
    fn(x)
    return modules(fn, x)


def modules_if_jitted(fn, *args):
    """What is recorded of a function that is jitted."""
    return modules(jax.jit(fn), *args)


as_recorded = [text.split(":")[0] for text in modules_after_a_call(softened, X)]
assert_equal({"softened": as_recorded}, {"softened": names_built(softened, X)}, name="modules")
in_order = {"softened, jitted": modules_if_jitted(softened, X)}
assert_equal(in_order, {"softened, jitted": ["jit_softened: tanh multiply"]}, name="modules")
waves = jnp.sin, jnp.cos, jnp.exp, jnp.tanh, jnp.log, jnp.sqrt, jnp.floor, jnp.ceil, jnp.log1p
in_turn = modules(lambda x: [wave(x) for wave in waves], X)
two_shapes = modules(lambda x: (x + x, x[0] * x[0], x[0] + x[0]), X)
twice = [text.split(":")[0] for text in two_shapes].count("jit_add")
assert_equal({"modules called jit_add": twice}, {"modules called jit_add": 2}, name="modules")
wanted = ["jit_sin: sine", "jit_cos: cosine", "jit_exp: exponential", "jit_tanh: tanh", "jit_log: log"]
wanted += ["jit_sqrt: sqrt", "jit_floor: floor", "jit_ceil: ceil", "jit_log1p: log_plus_one"]
assert_equal({"nine functions": in_turn}, {"nine functions": wanted}, name="modules")


def modules_of_each_turn(x):
    """What is recorded of one and the same function, whose next call is another program."""
    turns = iter(waves)

    def another_turn(x):
        return next(turns)(x)

    return [modules(another_turn, x) for _ in range(3)]


each_turn = modules_of_each_turn(X)
assert_equal({"one at a time": each_turn}, {"one at a time": [[text] for text in wanted[:3]]}, name="modules")
as_recorded = [text.split().count("reduce") for text in modules_if_jitted(norm, X)]
sums = jax.jit(norm).lower(X).as_text().count("stablehlo.reduce")
assert_equal({"sums in norm, jitted": as_recorded}, {"sums in norm, jitted": [sums]}, name="modules")
as_recorded = modules_if_jitted(lambda x, rows: x.at[rows].set(0)[rows], X, jnp.array([2, 0]))
moves = sorted({"gather", "scatter"} & set(" ".join(as_recorded).split()))
assert_equal({"operations that move rows": moves}, {"operations that move rows": ["gather", "scatter"]}, name="modules")


def still_writing_after_an_error(x):
    """Whether JAX still writes when what was to be recorded has raised an error."""
    with contextlib.suppress(ZeroDivisionError):
        modules(lambda x: 1 // 0, x)
    left = still_writing()
    jax.config.update("jax_dump_ir_to", "")
    return left


assert_equal(
    {"still writing after an error": still_writing_after_an_error(X)},
    {"still writing after an error": False},
    name="modules",
    hints={"still writing after an error": "Code in a `finally` runs whatever happens."},
)


def Angle(x):  # a name with a capital letter; its operation has a digit
    return jax.lax.atan2(x, x)


def as_it_is(x):  # no operation, and a module all the same
    return x


of_both = [text.rstrip(" :") for text in modules(lambda x: [jax.jit(fn)(x) for fn in (Angle, as_it_is)], X)]
assert_equal({"Angle, as_it_is": of_both}, {"Angle, as_it_is": ["jit_Angle: atan2", "jit_as_it_is"]}, name="modules")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 3 · The byte meter (3 points)
#
# XLA estimates how many bytes a program moves. Write the meter yourself: `bill(text)` takes the text of an optimised
# program and returns a dict: the name of each line of its `ENTRY` that is not free (without the `%`) -> **the bytes of
# its operands and of its result**, added up. `size_of` and `FREE` are given. For programs that return one array and cut
# nothing out of their arguments, the total must be XLA's own number, to the byte. (In front of the sixth operand of a
# line XLA writes a comment: `/*index=5*/%name`.)
#
# It is a small parser: some ten lines. The cell below prints a text to practise on.
#
# <details><summary>Hint 1</summary>
# What is inside a fusion costs nothing, so most of the text is not for you. Where does <code>ENTRY</code> begin, where
# does it end?
# </details>
# <details><summary>Hint 2</summary>
# A line is <code>%name = type operation(%operand, %operand), attributes</code>. Some attributes contain a
# <code>%</code> as well: read the operands between the operation's own brackets. An operand has no type there; it got
# one on the line that made it.
# </details>
# <details><summary>Hint 3</summary>
# <code>entry = text.split("ENTRY")[1].split("\n}")[0]</code>, and for each line of it
# <code>re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)</code> gives name, type, operation and
# operands; <code>re.findall(r"%([\w.-]+)", operands)</code> their names. Keep a dict of sizes, for <em>every</em> line.
# </details>

# %% nbgrader={"grade": false, "grade_id": "meter-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element"}
DTYPE_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4}


def size_of(hlo_type):
    """Bytes of an HLO type, such as `f32[64,32]{1,0}` (8192) or `s32[]` (4)."""
    total = 0
    for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", hlo_type):
        total += DTYPE_BYTES[dtype] * int(np.prod([int(n) for n in shape.split(",") if n]))
    return total


def dense(W, X, bias):
    """A layer of a network. W: float32[m, k]; X: float32[k, n]; bias: float32[m]."""
    return jnp.maximum(W @ X + bias[:, None], 0.0)


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


print(show_hlo(dense, np.ones((64, 32), np.float32), np.ones((32, 100), np.float32), np.ones(64, np.float32)))


# %% nbgrader={"grade": false, "grade_id": "meter", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bill(text):
    """The bytes that each line of ENTRY moves, but for FREE lines. text: optimised HLO. Returns name -> bytes."""
    ### BEGIN SOLUTION
    # Only ENTRY: what happens inside a fusion never reaches memory.
    entry = text.split("ENTRY")[1].split("\n}")[0]
    sizes, moved = {}, {}
    for line in entry.splitlines():
        found = re.match(r"\s+(?:ROOT )?%(\S+) = (.+?) ([a-z][\w-]*)\((.*?)\)", line)
        if not found:
            continue
        name, hlo_type, operation, operands = found.groups()
        sizes[name] = size_of(hlo_type)
        if operation not in FREE:
            read = sum(sizes[operand] for operand in re.findall(r"%([\w.-]+)", operands))
            moved[name] = read + sizes[name]
    return moved
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "meter-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
"""3 points. Your total is XLA's own estimate, to the byte, for programs of one box and of many."""


def two_totals(*programs):
    """(yours, XLA's): total bytes by name of the function, for programs given as (function, arguments)."""
    views = [show_hlo(fn, *args) for fn, *args in programs]
    yours = {view.name: sum(dict(bill(view.text)).values()) for view in views}
    return yours, {view.name: view.bytes for view in views}


ones = {shape: np.ones(shape, np.float32) for shape in (64, (64, 32), (32, 100), (200, 50))}
programs = [(selu, ones[200, 50]), (norm, ones[200, 50]), (dense, ones[64, 32], ones[32, 100], ones[64])]
assert_equal(
    *two_totals(*programs),
    name="bill",
    hints={
        "selu": "Pay for the lines of ENTRY: what goes in, what comes out. Free lines and insides are free.",
        "norm": "Operands were made by other lines of ENTRY. A constant is free, but reading it is not.",
        "dense": "Add the operands and the result of every line that is not free.",
    },
)
### BEGIN HIDDEN TESTS


def shifted_product(A, x, shift):
    return jnp.exp(A @ x + shift).sum() * jnp.where(x > 0, x, 0)


def mixed(n, mask, x):
    return jnp.where(mask, x * n, 0).sum(1) * (x.T + n)


def doubled(x):
    return jnp.concatenate([x, x])


def both_sorted(x):
    return jax.lax.sort((x, -x), num_keys=1)


def many(a, b, c, d, e):
    return (a * b + c * d) * e


def so_many(a, b, c, d, e, f, g):  # from the sixth on, the text of a line has a comment in front of an operand
    return (a * b + c * d) * (e - f / g)


rng = np.random.default_rng()
rows, columns = (int(number) for number in rng.integers(20, 60, 2))
A, x = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, columns), columns))
programs = [(shifted_product, A, x, np.float32(2)), (mixed, np.int32(3), A > 0, A), (jnp.sort, A)]
programs += [(doubled, A), (both_sorted, A), (many, A, A + 1, A + 2, A + 3, A + 4)]
programs += [(so_many, *(A + number for number in range(7)))]
assert_equal(*two_totals(*programs), name="bill")


def places_and_twice(x):  # `sort` makes a tuple, of which a part is read; a second result makes one more
    return jax.lax.sort((x, -x), num_keys=1)[1] + 1, 2 * x.T


def lines_xla_wrote(view):
    return {line.name: line for line in view.module.computations[view.module.entry]}


def bill_by_xla(view):
    lines = lines_xla_wrote(view)
    return {
        name: size_of(line.type) + sum(size_of(lines[operand].type) for operand in line.operands)
        for name, line in lines.items()
        if line.opcode not in FREE
    }


view, of_two = show_hlo(norm, A), show_hlo(places_and_twice, A)
assert_equal({"lines of norm": bill(view.text)}, {"lines of norm": bill_by_xla(view)}, name="bill")
assert_equal({"lines of two results": bill(of_two.text)}, {"lines of two results": bill_by_xla(of_two)}, name="bill")
paid, first = bill_by_xla(view), next(iter(lines_xla_wrote(view)))
waiting = re.sub(r"(?m)^  ROOT .*$", lambda line: f"{line[0]}, control-predecessors={{%{first}}}", view.text)
assert_equal({"waiting reads nothing": bill(waiting)}, {"waiting reads nothing": paid}, name="bill")
grown = show_hlo(jnp.exp, A)
read_anew = re.sub(r"(?m)^(  ROOT .*) fusion(\(\S+\)),.*$", r"\1 bitcast-convert\2", grown.text)
paid = {"bitcast-convert, which is not free": bill_by_xla(grown)}
assert_equal({"bitcast-convert, which is not free": bill(read_anew)}, paid, name="bill")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 4 · Half the bytes (4 points)
#
# A linear model was trained on normalised columns. To use it, the table is normalised, then multiplied by the weights:
# `score_slow`. Its result is a thin vector, and yet eight tables' worth of bytes go through memory.
#
# Compute the same scores with **at most half** of the reference's bytes. At most 0.7 of them earns 2 of the 4 points.
# The values must agree for tables whose means are far from zero, too: by 150 standard deviations, say; and for tables
# in a small unit, with numbers of 1e-10, say. No column is constant. Use neither loops nor callbacks: XLA's estimate
# counts a loop once, and does not see what a callback moves.
#
# <details><summary>Hint 1</summary>
# Must the normalised table ever exist?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_hlo(score, X, w)</code> in a cell: an arrow that leaves a frame and has the type of the table means two
# passes over it, one to write and one to read. With task 3, <code>bill(show_hlo(score, X, w).text)</code> names the
# culprit.
# </details>
# <details><summary>Hint 3</summary>
# Write one score on paper: the sum over the columns of (x - mean) / std * w. The division can be done to
# <code>w</code>, which is small. And what is left of the mean, when it is multiplied by <code>w / std</code>, is a
# single number.
# </details>


# %% nbgrader={"grade": false, "grade_id": "half-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def score_slow(X, w):
    """Scores of a linear model. X: float32[rows, columns]; w: float32[columns]. Returns float32[rows]."""
    return norm(X) @ w


CALLBACKS = {"pure_callback", "io_callback", "buffer_callback"}


def table_and_weights(rows, columns, seed=None, mean=5):
    """A table whose columns have means around `mean`, and weights; both NumPy float32."""
    rng = np.random.default_rng(seed)
    X = rng.normal(mean, 2, size=(rows, columns)) + rng.normal(size=columns)
    return X.astype(np.float32), rng.normal(size=columns).astype(np.float32)


# %% nbgrader={"grade": false, "grade_id": "half", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def score(X, w):
    """The same as score_slow, in at most half of its bytes."""
    ### BEGIN SOLUTION
    # Fold the normalisation into the weights: they are small. The table is read, and never written.
    folded = w / X.std(0)
    return X @ folded - X.mean(0) @ folded
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "half-most", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The scores match, in at most 0.7 of the reference's bytes."""
X, w = table_and_weights(2000, 100, seed=0)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(score(X, w), score_slow(X, w), rtol=1e-3, atol=1e-3, name="score")
    assert_primitives(score, X, w, excludes=CALLBACKS)
    assert_hlo(score, X, w, reference=score_slow, max_bytes=0.7)
### BEGIN HIDDEN TESTS
for rows, columns, mean in ((1500, 80, 300), (2000, 100, 5)):  # the last: the program that was looked at
    means = mean * np.resize([1, -1], columns)  # each column has its own
    X, w = table_and_weights(rows, columns, mean=means)
    with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
        desired = score_slow(X, w)  # before anybody could write into w
        assert_allclose(jax.jit(score)(X, w), desired, rtol=1e-3, atol=5e-3, name="score")
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "half-half", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The scores match, in at most half of the reference's bytes."""
X, w = table_and_weights(3000, 64, seed=1)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(score(X, w), score_slow(X, w), rtol=1e-3, atol=1e-3, name="score")
    assert_primitives(score, X, w, excludes=CALLBACKS)
    assert_hlo(score, X, w, reference=score_slow, max_bytes=0.5)
### BEGIN HIDDEN TESTS
far_apart = np.linspace(-300, 300, 48)  # the means of the columns
units = np.resize([1e-10, 1, 1000], 48)  # each column has its own
for rows, mean, unit in ((2500, -300, 1), (700, far_apart, 1), (20, 3, 1), (900, 3, 1e-10), (900, 3, units)):
    X, w = table_and_weights(rows, 48, mean=mean)
    X *= np.float32(unit)
    with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
        desired = score_slow(X, w)  # before anybody could write into w
        assert_allclose(jax.jit(score)(X, w), desired, rtol=1e-3, atol=5e-3, name="score")
assert_hlo(score, X, w, reference=score_slow, max_bytes=0.5)
assert_allclose(jax.jit(score)(X, 0 * w), score_slow(X, 0 * w), rtol=0, atol=5e-3, name="score, nothing but 0 in w,")
### END HIDDEN TESTS

# %% [markdown]
# ## Task 5 · Brackets (4 points)
#
# `overlap_slow` is written as on the blackboard: the trace of a product of three matrices, one of them an outer product
# $u v^T$. Only a single number comes out.
#
# Write `overlap` with at most **a hundredth of the FLOPs**, without callbacks: XLA does not see their FLOPs. The second
# check takes the time: 4x earns 1 point, 7x earns 2.
#
# <details><summary>Hint 1</summary>
# XLA will not move a bracket for you. Where do the most expensive products come from, and do you need a matrix at all?
# </details>
# <details><summary>Hint 2</summary>
# <code>show_hlo(overlap, A, B, u, v)</code>: is there a <code>dot</code> whose result is a whole matrix?
# </details>
# <details><summary>Hint 3</summary>
# trace(M N) = trace(N M), for any two matrices. So trace((A B) (u v^T)) = trace(v^T (A B u)), and that is the trace of
# a 1 x 1 matrix. Now set the brackets such that only vectors are ever made.
# </details>


# %% nbgrader={"grade": false, "grade_id": "brackets-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
@jax.jit
def overlap_slow(A, B, u, v):
    """trace(A B u v^T). A, B: float32[n, n]; u, v: float32[n]. Returns float32[]."""
    return jnp.trace((A @ B) @ jnp.outer(u, v))


def positive(n, seed=None):
    """A, B, u, v with entries between 0 and 1, NumPy float32."""
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform(size=shape).astype(np.float32) for shape in ((n, n), (n, n), n, n))


# %% nbgrader={"grade": false, "grade_id": "brackets", "locked": false, "schema_version": 3, "solution": true, "task": false}
@jax.jit
def overlap(A, B, u, v):
    """The same as overlap_slow, with at most a hundredth of its FLOPs."""
    ### BEGIN SOLUTION
    # The trace is cyclic: v^T A B u. From both ends towards the middle, only vectors are made.
    return (v @ A) @ (B @ u)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "brackets-flops", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The number is the same, for at most a hundredth of the FLOPs."""
small = positive(300, seed=0)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(overlap(*small), overlap_slow(*small), rtol=1e-3, name="overlap")
assert_primitives(overlap, *small, excludes=CALLBACKS)
assert_hlo(overlap, *small, reference=overlap_slow, max_flops=0.01)
### BEGIN HIDDEN TESTS
A, B, u, v = positive(310)
fresh = A - 0.5, B, u - 0.5, v  # no longer positive, and of another size
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(jax.jit(overlap)(*fresh), overlap_slow(*fresh), rtol=1e-3, atol=1, name="overlap")
    signs = np.resize(np.float32([1, -1]), 310)  # of sum zero
    for vector, fresh in (("u", (A, B, signs, v)), ("v", (A, B, u, signs))):
        name = f"overlap, the sum of {vector} is 0,"
        assert_allclose(overlap(*fresh), overlap_slow(*fresh), rtol=1e-3, atol=1, name=name)
    for what, number in (("nothing but 0", 0), ("a NaN", np.nan)):
        for vector, fresh in (("u", (A, B, u * number, v)), ("v", (A, B, u, v * number))):
            name = f"overlap, {what} in {vector},"
            assert_allclose(overlap(*fresh), overlap_slow(*fresh), name=name)
    for matrix, fresh in (("A", (0 * A, B, u, v)), ("B", (A, 0 * B, u, v))):
        assert_allclose(overlap(*fresh), overlap_slow(*fresh), name=f"overlap, nothing but 0 in {matrix},")
    fresh = A, B, u, signs
assert_hlo(overlap, *fresh, reference=overlap_slow, max_flops=0.01)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    tape = jax.extend.core.jaxpr_as_fun(jax.make_jaxpr(overlap)(*small))  # of one trace: the value, and the FLOPs
    assert_allclose(tape(*small)[0], overlap_slow(*small), rtol=1e-3, name="overlap, traced once,")
a_hundredth = 4 * 300**3 // 100  # of two products of matrices
assert_primitives(tape, *small, max_flops=a_hundredth)
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    for _ in range(4):
        of_both_signs = np.random.default_rng().normal(size=(2, 64, 64)), np.random.default_rng().normal(size=(2, 64))
        A, B, u, v = (np.float32(part) for parts in of_both_signs for part in parts)
        exactly = np.float32(v.astype(np.float64) @ A @ B @ u)
        assert_allclose(overlap(A, B, u, v), exactly, rtol=1e-4, atol=0.05, name="overlap, entries of both signs,")
assert_hlo(overlap, *positive(200), reference=overlap_slow, max_flops=0.01)
### END HIDDEN TESTS

# %% nbgrader={"grade": true, "grade_id": "brackets-speed", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. Speed over the blackboard: 4x earns 1 point, 7x earns 2."""
### BEGIN HIDDEN TESTS
A, B, u, v = positive(310)
fresh = A - 0.5, B, u - 0.5, v  # no longer positive; and the program that is timed is the one that must be right
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    assert_allclose(jax.jit(overlap)(*fresh), overlap_slow(*fresh), rtol=1e-3, atol=1, name="overlap")
### END HIDDEN TESTS
partial_credit(speedup(overlap, overlap_slow, *positive(700, seed=2), at_least=7), {4: 1, 7: 2})

# %% [markdown]
# ## Task 6 · The benchmark that XLA deleted (2 points)
#
# "The function is too short to be timed, so I call it ten times in a jitted function and divide by ten." You know what
# becomes of `repeated_slow`: nine of the ten results are never read. Adding them up does not help (they are all the
# same expression), and neither does a barrier.
#
# Write `repeated`. Its result is `fn(x)`, and the program must contain the work of `fn` **`times` times** before and
# after XLA, no more and no less; `times` is at least 1. (What is only traced, as by `jax.eval_shape`, is no work.) No
# loop (in the HLO it would be there once). And no indexing: if only one element of a result is read, XLA need not
# compute the others. `fn` may be any function from floats to floats of the same shape whose values are finite, however
# large, and so is `x`.
#
# <details><summary>Hint 1</summary>
# Each call must need the result of the one before, or it will be merged with it. And yet its input must be
# <code>x</code>.
# </details>
# <details><summary>Hint 2</summary>
# In the lesson, which wasteful line survived although its result is plain to see? Look at
# <code>show_hlo(lambda x: repeated(jnp.sin, x, 3), x).ops</code>.
# </details>
# <details><summary>Hint 3</summary>
# XLA may not assume that <code>0 * y</code> is 0: <code>y</code> could be NaN. So what is <code>x + 0 * y</code>, for
# you and for XLA?
# </details>


# %% nbgrader={"grade": false, "grade_id": "deleted-spec", "locked": true, "schema_version": 3, "solution": false, "task": false}
def repeated_slow(fn, x, times):
    """Calls fn on x `times` times, and returns the last result."""
    for _ in range(times):
        y = fn(x)
    return y


def work_left(function, operation, x, times):
    """How many of `operation` are left of `times`, when function(fn, x, times) is compiled."""
    fn = next(fn for fn, name in OPERATIONS.items() if name == operation)
    return min(times, show_hlo(lambda x: function(fn, x, times), x).ops[operation])


def square_product(x):
    return x @ x


def steep(x):
    return 3e38 * jnp.tanh(jnp.abs(x))


OPERATIONS = {jnp.sin: "sine", jnp.tanh: "tanh", square_product: "dot", steep: "tanh"}
INDEXING = {"slice", "dynamic_slice", "gather", "split", "unstack"}
ten = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
print("sines left of 10:", work_left(repeated_slow, "sine", ten, 10))


# %% nbgrader={"grade": false, "grade_id": "deleted", "locked": false, "schema_version": 3, "solution": true, "task": false}
def repeated(fn, x, times):
    """fn(x), with the work of fn done `times` times, XLA or no XLA. x: float32 array; times: a Python int."""
    ### BEGIN SOLUTION
    # 0 * y is 0 for us, and for XLA something that it has to wait for.
    y = fn(x)
    for _ in range(times - 1):
        y = fn(x + 0 * y)
    return y
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "deleted-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
"""2 points. The result is fn(x), and all of the work is still there."""
x = np.linspace(-2, 2, 144, dtype=np.float32).reshape(12, 12)
five_sines = jax.jit(lambda x: repeated(jnp.sin, x, 5))
assert_allclose(five_sines(x), jnp.sin(x), rtol=1e-4, atol=1e-5, name="repeated")
merged = "Equal expressions are merged, and what nobody reads is dropped: each call must need the one before."
assert_equal(
    {"sines": work_left(repeated, "sine", x, 5), "products": work_left(repeated, "dot", x, 3)},
    {"sines": 5, "products": 3},
    name="repeated",
    hints={"sines": merged, "products": merged},
)
assert_primitives(five_sines, x, counts={"sin": 5}, excludes=INDEXING)
### BEGIN HIDDEN TESTS
times = int(np.random.default_rng().choice([4, 6, 8]))  # what is lost in one call may come back in the next: even
x = np.random.default_rng().uniform(-1, 1, size=(6, 6)).astype(np.float32)
x[0] = 0
with jax.default_matmul_precision("highest"):  # a GPU or TPU drops digits of products (unit 10)
    for fn, operation in OPERATIONS.items():
        result = jax.jit(lambda x, fn=fn: repeated(fn, x, times))(x)
        assert_allclose(result, fn(x), rtol=1e-4, name=f"repeated, {fn.__name__}")
deep = jax.jit(lambda x: repeated(lambda x: -steep(x), x, times))(x)
assert_allclose(deep, -steep(x), rtol=1e-4, name="repeated, large numbers below zero,")
for calls in (1, 2, times):
    for array in (x, jnp.zeros((900, 900))):
        assert_primitives(lambda x, calls=calls: repeated(jnp.tanh, x, calls), array, counts={"tanh": calls})
for shape in ((), (5,), (2, 3, 4)):
    some = jnp.full(shape, 0.5)
    assert_allclose(repeated(jnp.tanh, some, 3), jnp.tanh(some), rtol=1e-4, name=f"repeated, shape {list(shape)},")
left = {"tanhs": work_left(repeated, "tanh", x, times)}
assert_equal(left, {"tanhs": times}, name="repeated", hints={"tanhs": merged})
far = jnp.array([3e38, -3e38])  # finite, and neither the sum with a result, nor the difference, nor the product is
assert_allclose(repeated(steep, far, 3), steep(far), rtol=1e-4, name="repeated, a large x,")
### END HIDDEN TESTS
