# %% [markdown]
# # 00 · Before you start
#
# **You know NumPy, and nothing of JAX. What do you need for lesson 01?** This page, and no more. About {duration}.
#
# ## How to take the course
#
# - **Your room.** `course start` has opened a folder of your own, with copies of all lessons and exercises: change what
#   you like. [All units](../README.md#the-units) are on one page, with your points. Typed in a terminal, `course` says
#   the same and what is next, and `course --help` what else it does.
# - **Guess, run, read.** Where a cell says `guess = None`, put what you think in the place of `None`, a number or a word
#   in quotes, and run on with Shift+Enter. The next result stands beside your guess. A wrong guess costs nothing.
# - **Lesson, then exercise.** Each lesson ends with a link to its exercise, where you write the functions yourself. In a
#   lesson you only guess and run. Every task has three hints; *Validate* above an exercise runs all of its checks.
# - **Stages.** A lesson has two to four. A line between them says that this is a good place to stop.
# - **Folded cells.** A grey line that begins with `# Picture`, `# Table`, `# Helper`, `# Data` or `# Proof` is code that
#   nobody needs for the idea; click on it to unfold it. A *proof* is a list of `assert`s: it stops the notebook if the
#   text beside it is not true on your machine.
# - **Width.** Ctrl+B (⌘B on a Mac) hides the list of files, so that long lines of code and wide tables fit.
# - **Restart.** After a break, or when something is odd: *Kernel → Restart Kernel and Run up to Selected Cell…*. A cell of
#   an exercise that still lacks something names the cells to run first. `course reset 5` brings exercise 05 back as it
#   came, and keeps a copy of yours.
#
# Run this cell first. It is the kind with which every lesson begins.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from autograder import assert_allclose, benchmark, show_guess, show_hlo, show_jaxpr, trace_log

# %% [markdown]
# In an exercise, a **check** compares your work with a specification. When it holds, it prints one line with a ✓. When
# it does not, it says four things: what happened, the evidence, why that usually happens, and one thing to try. Here is
# one that does not hold:

# %%
try:
    assert_allclose(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 2.0, 4.0]))
except AssertionError as message:
    print(message)

# %% [markdown]
# ## Arrays that do not change
#
# `jax.numpy` looks like NumPy, and most of what you know holds. One thing does not: nothing can be written into a JAX
# array. `x.at[i].set(v)` makes a new array that differs in one place, and `.at[i].add(v)` adds there.

# %%
x = jnp.array([1.0, 2.0, 3.0])
try:
    x[0] = 9.0
except TypeError as error:
    print("TypeError:", str(error).split(". ")[0])
y = x.at[0].set(9.0)
print("x:", x, "  y:", y)

# %% jupyter={"source_hidden": true}
# Proof
# x is as it was, y is another array.
assert x.tolist() == [1, 2, 3] and y.tolist() == [9, 2, 3] and x.at[0].add(9.0).tolist() == [10, 2, 3]

# %% [markdown]
# One more surprise, for lesson 01: an array may be in your hands before its numbers have been computed. Whoever looks at
# them (`print`, `float`, `np.asarray`) waits, and `y.block_until_ready()` waits without looking.
#
# ## Five functions you will meet
#
# Each takes a function. **`grad`** returns its derivative, which is a function again:


# %%
def curve(x):
    return x**3 + 1


print("curve(2) is", curve(2.0), "and its slope there is", jax.grad(curve)(2.0))

# %% [markdown]
# **`vmap`** makes, of a function of one thing, a function of a whole batch of them. `jnp.dot` of two vectors is one
# number. `A` and `B` hold three rows of two numbers each. How many numbers does `jax.vmap(jnp.dot)(A, B)` return?

# %%
guess = None  # your number

# %%
A = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
B = jnp.ones((3, 2))
products = jax.vmap(jnp.dot)(A, B)
print(products)
show_guess(guess, products.size, "numbers")

# %% [markdown]
# `A` and `B` go in row by row, and `jnp.dot` does its work on each pair. Next, **`lax.scan`** is a loop. (`lax` is the
# part of JAX below `jax.numpy`: its own operations, loops and branches.) Its function takes what the loop carries from
# round to round (the *carry*) and one element; it returns the new carry and one output.


# %%
def add_up(total, element):
    total = total + element
    return total, total  # the new carry, and this round's output


last_carry, outputs = lax.scan(add_up, 0.0, jnp.array([1.0, 2.0, 3.0]))
print("the last carry:", last_carry, "  the outputs:", outputs)

# %% [markdown]
# **`lax.cond`** is an `if`: a condition, what to call if it is true, what to call if it is false, and the argument.

# %%
print(lax.cond(True, jnp.sin, jnp.cos, 0.0), lax.cond(False, jnp.sin, jnp.cos, 0.0))

# %% [markdown]
# And **`jax.jit`**, which this course is about, makes a function that computes the same, compiled.

# %%
jitted = jax.jit(curve)
print("curve(2) is", curve(2.0), "and jitted", jitted(2.0))

# %% jupyter={"source_hidden": true}
# Proof
# What the five functions returned.
assert jax.grad(curve)(2.0) == 12 and jitted(2.0) == curve(2.0) == 9
assert products.tolist() == [3, 7, 11]
assert last_carry == 6 and outputs.tolist() == [1, 3, 6]
assert lax.cond(True, jnp.sin, jnp.cos, 0.0) == 0 and lax.cond(False, jnp.sin, jnp.cos, 0.0) == 1

# %% [markdown]
# ## The types you will read
#
# Before you read on: the dtype of `np.ones(4)` is `"float64"`. What is that of `jnp.ones(4)`?

# %%
guess = None  # a word in quotes

# %%
ones = jnp.ones(4)
show_guess(guess, str(ones.dtype))

# %% [markdown]
# JAX writes the **type** of a value as its dtype and its shape:

# %%
for value in (ones, jnp.ones((2, 3)), ones[0], 2.0, 2):
    print(f"{jax.typeof(value)!s:14} is the type of", str(value).replace("\n", ""))

# %% [markdown]
# So `float32[4]` is four numbers in a row, `float32[]` a single one; you will also see the short form `f32[4]`. (JAX
# computes with 32 bits unless you ask for more.) The `~` marks a **weak** type, that of a plain Python number. It gives way: floats that meet it keep their dtype. (Integers
# that meet `2.0` become floats, as in NumPy.) Every other type is called **strong**. `bfloat16` is a dtype of 16 bits.

# %%
half = jnp.ones(4, jnp.bfloat16)
print("times 2.0:       ", jax.typeof(half * 2.0))
print("times a float32[]:", jax.typeof(half * ones[0]))

# %% jupyter={"source_hidden": true}
# Proof
# Dtypes, weak types and what they become.
assert np.ones(4).dtype == np.float64 and ones.dtype == np.float32
assert [str(jax.typeof(v)) for v in (ones, ones[0], 2.0, 2)] == ["float32[4]", "float32[]", "~float32[]", "~int32[]"]
assert str(jax.typeof(half * 2.0)) == "bfloat16[4]" and str(jax.typeof(half * ones[0])) == "float32[4]"
assert (jnp.ones(4, int) * 2).dtype == np.int32 and (jnp.ones(4, int) * 2.0).dtype == np.float32

# %% [markdown]
# ## The instruments
#
# The course brings five of its own. You have met **`show_guess(guess, measured, unit)`**. **`benchmark(f, x)`** calls a
# function many times and notes seconds:

# %%
timing = benchmark(jitted, ones)
print(timing)
print(timing.first, timing.median, timing.compiles)

# %% [markdown]
# | field | holds |
# |---|---|
# | `first` | the seconds of the first call, with all the compiling that it caused |
# | `rounds` | a list, one entry a round: the seconds of a later call (the mean of the `calls` calls of that round) |
# | `median`, `low`, `high` | the median of the rounds, and their lower and upper quartile |
# | `compiles` | how many programs the first call had to compile |
#
# **`trace_log()`** watches what JAX builds while a block runs (the table below has the words): `log.traces` and
# `log.compiles` count, `log.modules` names the compiled programs, `log.seconds` has the time of each step of building.
# `trace_log(f)` counts the traces of `f` alone, and `log.reasons` says why each was needed: it compares with the traces
# before it in the block, so the first one there is a `first call`, though `jitted` has met other types above.

# %%
five, pairs = jnp.ones(5), jnp.ones((5, 2))
with trace_log(jitted) as log:
    jitted(ones)  # four numbers, as above: nothing is built
    jitted(five)  # five numbers: a new type, so a new program
    jitted(five)
    jitted(pairs)  # one more
log

# %% jupyter={"source_hidden": true}
# Proof
# Each type is traced and compiled once.
assert timing.compiles == 1 and log.traces == log.compiles == 2

# %% [markdown]
# **`show_jaxpr(f, x)`** draws what JAX recorded of a function, and **`show_hlo(f, x)`** what the compiler made of it.
# Both count as well (`.equations`, `.primitives`, `.flops`; `.ops`, `.fusions`, `.bytes`). Lessons 02 and 09 teach you to
# read them.

# %%
show_jaxpr(curve, ones)

# %%
show_hlo(curve, ones)

# %% [markdown]
# ## The words
#
# Nothing to learn by heart: the lessons link here. The last column says where a word is taught.
#
# | word | in one sentence | more |
# |---|---|---|
# | trace, tracer | To trace is to run your Python function once with stand-ins (*tracers*) for its arguments, and to record what it does with them. | [02](02_jaxprs.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/101/transformations.html) |
# | jaxpr | That record: a list of operations with the types of all values. | [02](02_jaxprs.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/601/jaxpr.html) |
# | equation | One line of a jaxpr: an operation, what goes in, what comes out. | [02](02_jaxprs.ipynb) |
# | primitive | One of JAX's own operations, such as `add` or `sin`, of which everything else is made. | [02](02_jaxprs.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/glossary.html) |
# | lower | To translate a jaxpr into the language that the compiler reads. | [01](01_three_clocks.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/aot.html) |
# | compile | To make machine code of a lowered program; JAX's compiler is called XLA. | [01](01_three_clocks.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/aot.html) |
# | StableHLO | The language that XLA reads. | [09](09_what_xla_made.ipynb) |
# | HLO | The language in which XLA works, and in which it shows what it made. | [09](09_what_xla_made.ipynb) |
# | module | One program for XLA: what is compiled as a whole. | [09](09_what_xla_made.ipynb) |
# | fusion | Several operations that XLA merged into one, so that what lies between them is not written to memory. | [09](09_what_xla_made.ipynb) |
# | kernel | A piece of machine code that the device runs in one go, often one fusion. (In a neural network: a layer's weights.) | [15](15_profile_and_roofline.ipynb) |
# | pure | Of a function: it has no side effects, and its result depends on its arguments alone. | [03](03_ghost_effects.ipynb) |
# | static and traced argument | A static one is known while JAX traces, and each value has its own program; of a traced one only the type is known. | [04](04_static_or_traced.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/jit.html) |
# | weak type | The type of a plain Python number: among floats it takes the dtype of what it meets. Other types are *strong*. | [05](05_the_cache.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/type_promotion.html) |
# | pytree and leaf | A pytree is a container of arrays, such as a dict of lists, however nested; its leaves are the arrays. | [07](07_batch_everything.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/101/pytrees.html) |
# | carry | What a loop hands from one round to the next. | [06](06_loops_that_compile.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/control-flow.html) |
# | batch axis | The axis of an array along which `vmap` applies a function. | [07](07_batch_everything.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/101/transformations.html) |
# | forward pass, backward pass | The forward pass computes a value from the inputs; the backward pass goes back through the same steps and computes derivatives. | [08](08_composition.ipynb) |
# | backpropagation | The backward pass, by its older name: all derivatives of one number at once. It is what `grad` does. | [08](08_composition.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/301/cookbook.html) |
# | primal | The value itself, where derivatives travel with it. | [08](08_composition.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/301/cookbook.html) |
# | tangent | How a value changes when the inputs move in one direction: a derivative that is carried forward. | [08](08_composition.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/301/cookbook.html) |
# | cotangent | How the final result changes when a value moves: a derivative that is carried backward. | [08](08_composition.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/301/cookbook.html) |
# | Jacobian | The matrix of all derivatives: each output by each input. | [08](08_composition.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/301/cookbook.html) |
# | training, loss | To train is to change numbers (*weights*) in small steps until a *loss*, the mean error over examples, is small; the *learning rate* scales the steps. | [14](14_train.ipynb) |
# | batch, epoch | A batch is the examples of one step, an epoch one pass over all examples. | [14](14_train.ipynb) |
# | ulp | The distance from one floating-point number to the next: a *unit in the last place*. | [10](10_when_jit_changes.ipynb) |
# | FLOP | One operation on floating-point numbers, such as an addition. | [02](02_jaxprs.ipynb) |
# | memory analysis | XLA's own account of the bytes that a program needs: `compiled.memory_analysis()`. | [11](11_memory.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/jax.stages.html) |
# | donation | Giving the memory of an argument away, so that the result may use it. | [11](11_memory.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/jit.html) |
# | device | What computes: a CPU, or an *accelerator* (a GPU or a TPU). | [13](13_many_devices.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/glossary.html) |
# | sharding | Which device holds which part of an array. | [13](13_many_devices.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/sharding.html) |
# | mesh | Devices in a grid whose axes have names. | [13](13_many_devices.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/sharding.html) |
# | collective | An operation in which devices communicate, such as a sum over all of them. | [13](13_many_devices.ipynb),&nbsp;[JAX](https://docs.jax.dev/en/latest/201/shard-map.html) |
# | roofline | The speed that a device cannot exceed, because of its arithmetic or because of its memory. | [15](15_profile_and_roofline.ipynb) |
