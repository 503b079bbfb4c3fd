# %% [markdown]
# # 02 · Reading the tape: jaxprs
#
# **JAX never reads your source code. It runs your function once and writes a list. What is on the list, and what
# is missing from it?**
#
# You will
#
# - read a jaxpr: typed inputs, one equation a line, typed results;
# - say which parts of a Python function reach the jaxpr and which never do;
# - count the work in a jaxpr, loops included, where XLA's own meter goes wrong.
#
# About {duration}, in three stages (about {stage} for the first). You need Python and NumPy, and one idea from unit 01:
# *tracing* is what JAX does before it compiles.

# %%
import html
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from IPython.display import HTML, Markdown, display
from jax import lax
from jax.extend.core import Literal

from autograder import show_guess, show_hlo, show_jaxpr

plt.style.use("autograder.course")


# %% jupyter={"source_hidden": true}
# Helper: the text of a jaxpr
def text_of(jaxpr):
    """A jaxpr as plain text. In a notebook, `print` adds colour, which would get in the way of comparing."""
    return jaxpr.pretty_print(use_color=False)


# %% [markdown]
# ## 1. A guess before anything else
#
# Here is a function that does a bit of everything: it prints, it grows a list, it computes something and forgets it,
# it branches, it loops.

# %%
history = []


def busy(x):
    print("Python is running busy")
    history.append(x)
    jnp.sin(x)  # computed, then forgotten
    if x.ndim == 1:
        for _ in range(3):
            x = x * 2
    return x + 1


# %% [markdown]
# `jax.make_jaxpr(busy)(x)` runs it with a stand-in for `x` and returns what JAX wrote down: a **jaxpr**. (It reads like a
# tape, from the first operation to the last, and so the headings of this course call it the *tape*.) How many lines will
# it have, one for each operation that was recorded? Type your number, then run on.

# %%
guess = None  # your number of lines

# %%
jaxpr = jax.make_jaxpr(busy)(jnp.ones(4))
print(jaxpr)
show_guess(guess, len(jaxpr.eqns), "lines")

# %% [markdown]
# The lines between `let` and `in` count. Go through the body line by line and look for each in the jaxpr.

# %% jupyter={"source_hidden": true}
# Table: which lines of the body are in the jaxpr
primitives = [eqn.primitive.name for eqn in jaxpr.eqns]
in_the_jaxpr = {
    "`print(...)`": "print" in primitives,
    "`history.append(x)`": "append" in primitives,
    "`jnp.sin(x)`, the result nobody uses": "sin" in primitives,
    "`if x.ndim == 1`": "cond" in primitives,
    "`for _ in range(3)`": "scan" in primitives or "while" in primitives,
    "`x * 2`, three times": primitives.count("mul") == 3,
    "`x + 1`": "add" in primitives,
}
rows = "\n".join(f"| {line} | {'✓' if found else '✗'} |" for line, found in in_the_jaxpr.items())
display(Markdown(f"| line of Python | in the jaxpr |\n|---|:-:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# The operations that were recorded, in order.
assert primitives == ["sin", "mul", "mul", "mul", "add"]

# %% [markdown]
# Python *did* print, append, branch and loop. But it did so while the jaxpr was being written, and only operations
# on arrays were written down. The branch was decided and the loop was walked before the jaxpr was finished; what is
# left is a straight line. The forgotten sine is there all the same: a jaxpr is a **record**, not a plan.
#
# ## 2. How to read one
#
# The example that every old post uses, $2x^2 + 3x + 3$:


# %%
def poly(x):
    return 2 * x * x + 3 * x + 3


jaxpr = jax.make_jaxpr(poly)(3)
print(jaxpr)

# %% [markdown]
# | part | here | says |
# |---|---|---|
# | `{ lambda ; a:i32[].` | one input | each input is `name:type`; `i32[]` is one 32-bit integer, `f32[2,5]` a 2×5 array of floats. Arrays captured from outside would stand before the `;` |
# | `let b:i32[] = mul 2:i32[] a` | an equation | `result:type = primitive[parameters] operands`; *parameters* are fixed settings, such as an axis (here there are none). A **primitive** is one of JAX's building blocks, an operation that it has rules for. `2:i32[]` is a *literal*: a number written into the jaxpr, with its type |
# | `in (f,) }` | the results | always a tuple |
#
# Every name is written once and never changed. So a jaxpr reads back into Python without thinking:


# %%
def poly_read_back(a):
    b = 2 * a
    c = b * a
    d = 3 * a
    e = c + d
    f = e + 3
    for name, value in zip("abcdef", (a, b, c, d, e, f), strict=True):
        print(f"{name} = {value}")
    return f


result = poly_read_back(3)

# %% jupyter={"source_hidden": true}
# Proof
# Read back, it computes the same.
assert result == poly(3) == 30

# %% [markdown]
# `2 * x * x` became two equations, left to right, exactly as Python evaluates it. Nobody looked for a shorter way.
# The same jaxpr as a graph: who feeds whom.

# %%
show_jaxpr(poly, 3)

# %% jupyter={"source_hidden": true}
# Proof
# The graph has the five equations of the text.
assert show_jaxpr(poly, 3).equations == len(jaxpr.eqns) == 5

# %% [markdown]
# ## 3. Types, not values
#
# Put a `print` inside and you meet the stand-in.

# %%
stand_ins = []


def square(x):
    stand_ins.append((x.shape, str(x.dtype)))
    print("    inside, x is", x)
    return x * x


for x in (3, 3.0, jnp.float32(3), np.ones((2, 5), np.float32)):
    print("argument of type", type(x).__name__)
    print("   ", jax.make_jaxpr(square)(x))

# %% jupyter={"source_hidden": true}
# Proof
# What the stand-ins know, shape and dtype.
assert stand_ins == [((), "int32"), ((), "float32"), ((), "float32"), ((2, 5), "float32")]

# %% [markdown]
# The stand-in is a **tracer**. It knows its shape and dtype (its *abstract value*, `float32[2,5]`) and no number. That
# is why one jaxpr serves every array of that type, and why a new type needs a new jaxpr. The `~` marks a *weak* type: the
# value came from a plain Python number, and unit 05 shows what that can cost. Older posts print the first of these as
# `Traced<ShapedArray(int32[], weak_type=True)>with<DynamicJaxprTrace(level=1/1)>`. The name has become shorter; the
# thing is the same.
#
# Literals take the type of the thing they meet. The same `2 *` in the source:

# %%
for x in (3, 3.0):
    first_equation = text_of(jax.make_jaxpr(poly)(x)).splitlines()[1].strip()
    print(f"poly({x!r}):  {first_equation}")

# %% jupyter={"source_hidden": true}
# Proof
# The literal 2 takes the type of x.
assert "2:i32[]" in text_of(jax.make_jaxpr(poly)(3))
assert "2.0:f32[]" in text_of(jax.make_jaxpr(poly)(3.0))

# %% [markdown]
# The jaxpr also tells apart four ways to square a number that give the same answer.

# %%
squares = {
    "x * x": lambda x: x * x,
    "x ** 2": lambda x: x**2,
    "x ** 2.0": lambda x: x**2.0,
    "jnp.square(x)": lambda x: jnp.square(x),
}
found = {}
for source, fn in squares.items():
    jaxpr = jax.make_jaxpr(fn)(3.0)
    found[source] = jaxpr.eqns[0].primitive.name
    print(f"{source:14} {jaxpr}")

# %% jupyter={"source_hidden": true}
# Proof
# Four squares, four primitives.
assert len(set(found.values())) == 4 and found["x ** 2"] == "integer_pow"

# %% [markdown]
# ---
# *A good place to stop. Stage 2 of 3, about {stage}: old prints, and what a jaxpr leaves out.*

# %% [markdown]
# ## 4. One tape through the ages
#
# Most jaxprs that you find in posts and answers do not look like these. Here is the relu of a widely copied tutorial,
# as it was printed then, and a square from a later edit of the same page:

# %% jupyter={"source_hidden": true}
# Data: two old prints
relu_then = """{ lambda  ; 
a.let b = xla_call[ backend=None
call_jaxpr={ lambda ; a.let b = max 0.0 a in (b,) }
device=None
donated_invars=(False,)
name=apply_activation ] a in (b,) }"""

square_later = """{ lambda ; a:i32[]. let
b:i32[] = pjit[
name=number_squared
jaxpr={ lambda ; c:i32[]. let d:i32[] = integer_pow[y=2] c in (d,) }
] a
in (b,) }"""
print(f"THEN\n{relu_then}\n\nLATER\n{square_later}")

# %% [markdown]
# And the relu today. It is jitted, and the call of a jitted function is one equation, with a jaxpr of its own inside:


# %%
def apply_activation(x):
    return jnp.maximum(0.0, x)


X = jnp.ones((4, 5))
relu_jaxpr = jax.make_jaxpr(jax.jit(apply_activation))(X)
print("JAX", jax.__version__)
print(relu_jaxpr)

# %% jupyter={"source_hidden": true}
# Table: then, later, today
relu_today = text_of(relu_jaxpr)


def row(what, test):
    marks = ["✓" if test(text) else "✗" for text in (relu_then, square_later, relu_today)]
    return f"| {what} | " + " | ".join(marks) + " |"


table = [
    "| the print shows | then | later | today |",
    "|---|:-:|:-:|:-:|",
    row("`xla_call[...]` around a jitted function", lambda text: "xla_call[" in text),
    row("`pjit[...]`", lambda text: "pjit[" in text),
    row("`jit[...]`", lambda text: " jit[" in text),
    row("types of variables", lambda text: "32[" in text),
    row("`device=`, `donated_invars=` and other defaults", lambda text: "device=" in text),
    row("a jaxpr inside the jaxpr", lambda text: text.count("lambda") == 2),
]
display(Markdown("\n".join(table)))

# %% jupyter={"source_hidden": true}
# Proof
# Today's print.
assert " jit[" in relu_today and "0.0:f32[]" in relu_today and "device=" not in relu_today

# %% [markdown]
# Three names for one thing: *call this inner jaxpr, compiled*. The grammar (lambda, let, in) never changed. What did:
# every variable and literal now carries its type, and parameters that hold their default are left out. The matrix
# product:


# %%
def get_dot_product(W, X):
    return jnp.dot(W, X)


W = jnp.ones((3, 4))
dot_today = jax.make_jaxpr(jax.jit(get_dot_product))(W, X)
print(dot_today)

# %% [markdown]
# `dot_general` is the primitive of the matrix product, and `dimension_numbers=(([1], [0]), ([], []))` reads: multiply
# and add up along axis 1 of the left operand and axis 0 of the right one; no axes that are treated separately. The old
# post's print has `precision=None` beside it. That parameter still exists; it is only no longer printed.
#
# **A jaxpr says what to compute, not where.** (`device=None` in the oldest print was an option of `jit`, and nobody had
# set it.) A NumPy array and an array on a device give the same text:

# %%
device = jax.devices()[0]
on_device = jax.device_put(X, device)
text_numpy = text_of(jax.make_jaxpr(apply_activation)(np.ones((4, 5), np.float32)))
text_device = text_of(jax.make_jaxpr(apply_activation)(on_device))
print(text_numpy)
print(text_device)
print("where the result lives:", jax.jit(apply_activation)(on_device).devices())

# %% jupyter={"source_hidden": true}
# Proof
# The same text, no device in it, and a parameter that is there but not printed.
assert text_numpy == text_device and device.platform not in text_device
(eqn,) = dot_today.eqns
(inner,) = eqn.params["jaxpr"].eqns
assert "precision" in inner.params and "precision=" not in text_of(dot_today)

# %% [markdown]
# Old posts choose the device with `jit(f, device=...)`. What does JAX say to that today?

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    jax.jit(apply_activation, device=device)
print(*str(caught[0].message).split(". "), sep=".\n")

# %% jupyter={"source_hidden": true}
# Proof
# It is one warning, that this way is deprecated.
assert [warning.category for warning in caught] == [DeprecationWarning]

# %% [markdown]
# Put the *data* where you want the work, and the compiled function follows.
#
# ## 5. What the tape never hears of
#
# The same tutorial appends to a global list inside a jitted function, makes the jaxpr, calls the function three
# times, and finds **two** tracers in the list. It calls that "unpredictable". Here is that experiment, with one
# `make_jaxpr` more.

# %%
squared_numbers = []


def number_squared(num):
    print("Received:", num)
    squared = num**2
    squared_numbers.append(squared)
    return squared


number_squared_jit = jax.jit(number_squared)

# %% [markdown]
# `make_jaxpr` twice, each with 2, then three calls, with 4, 8 and 16. How many tracers will be in the list today?

# %%
guess = None  # your number of tracers in the list

# %%
first = jax.make_jaxpr(number_squared_jit)(2)
second = jax.make_jaxpr(number_squared_jit)(2)
print(second)
results = [int(number_squared_jit(num)) for num in (4, 8, 16)]
print("results:", results, "  list:", squared_numbers)
tracers = len(squared_numbers)
show_guess(guess, tracers, "on the list")

# %% jupyter={"source_hidden": true}
# Proof
# The results of the calls, and the length of the list.
assert results == [16, 64, 256] and tracers == 1

# %% [markdown]
# The post's output shows `Received:` twice, in `make_jaxpr` and in the first call: each traced for itself then, hence
# two. Today they share what was traced: after the first `make_jaxpr`, everybody found the jaxpr already written. It is
# not unpredictable: the body runs **once for each jaxpr that has to be written**. Ask for another type and it runs again:

# %%
print("result:", number_squared_jit(2.5))  # float32: there is no jaxpr for it yet
print("result:", number_squared_jit(3.5))  # the same type again

# %% jupyter={"source_hidden": true}
# Proof
# Two calls with a new type, one more tracer.
assert len(squared_numbers) == tracers + 1

# %% [markdown]
# Neither `print` nor `append` is in the jaxpr, so neither can happen again when the compiled program runs. Unit 03 hunts
# the bugs that come of this.
#
# ## 6. Dead code: still recorded, never run
#
# Back to the sine that nobody wanted. Follow it down: the jaxpr, the StableHLO that JAX hands to the compiler XLA, the
# optimised program that runs. For control, the same function with the sine put to use.


# %%
def wasteful(x):
    jnp.sin(x)
    return x * 2


def useful(x):
    return jnp.sin(x) * 2


def where_is_sine(fn, x):
    before, after = show_hlo(fn, x, stage="lowered"), show_hlo(fn, x, stage="optimized")
    return ["sin" in show_jaxpr(fn, x).primitives, "sine" in before.ops, "sine" in after.ops]


fates = {fn.__name__: where_is_sine(fn, jnp.ones(4)) for fn in (wasteful, useful)}

# %% jupyter={"source_hidden": true}
# Table: how far the sine gets
rows = ""
for name, fate in fates.items():
    rows += f"| `{name}` | " + " | ".join("✓" if found else "✗" for found in fate) + " |\n"
display(Markdown(f"| sine in | jaxpr | StableHLO | optimised HLO |\n|---|:-:|:-:|:-:|\n{rows}"))

# %% jupyter={"source_hidden": true}
# Proof
# How far the sine gets.
assert fates == {"wasteful": [True, False, False], "useful": [True, True, True]}

# %% [markdown]
# The jaxpr keeps it; lowering drops it. So an equation is not yet work done, and a dead line costs nothing
# once the function is jitted. *Without* `jit` nothing stands between Python and the operations: each line runs as it
# comes, the sine too.

# %% [markdown]
# ---
# *A good place to stop. Stage 3 of 3, about {stage}: jaxprs inside jaxprs, and what JAX does with them.*

# %% [markdown]
# ## 7. Tapes inside tapes, and a meter that forgets
#
# A Python loop is unrolled into the jaxpr. `lax.scan` writes its body **once**, as a jaxpr of its own, with the number
# of rounds beside it. (The body takes the *carry*, what one round hands to the next, and returns the new one. The `None`s
# say that there is nothing else, neither in nor out.)


# %%
def step(c):
    return c * 0.5 + 1.0


def python_loop(x, rounds):
    for _ in range(rounds):
        x = step(x)
    return x


def scan_loop(x, rounds):
    return lax.scan(lambda c, _: (step(c), None), x, None, length=rounds)[0]


x = jnp.ones(1000)
print(jax.make_jaxpr(scan_loop, static_argnums=1)(x, 10))

# %% jupyter={"source_hidden": true}
# Proof
# Both loops compute the same.
assert np.array_equal(python_loop(x, 10), scan_loop(x, 10))

# %% [markdown]
# (`static_argnums=1` says that `rounds` is a plain number and no tracer; unit 04.) Both do the same 10 rounds on the same
# 1000 numbers: 20,000 floating-point operations (**FLOPs**). XLA has a meter for that, `cost_analysis()`. By what
# factor will its readings for the two differ?

# %%
guess = None  # your factor: python_loop's reading over scan_loop's


# %%
def xla_flops(fn, x, rounds):
    return jax.jit(fn, static_argnums=1).lower(x, rounds).cost_analysis()["flops"]


def jaxpr_flops(fn, x, rounds):
    return show_jaxpr(lambda x: fn(x, rounds), x).flops


readings = {}
for fn in (python_loop, scan_loop):
    xla, walked = readings[fn.__name__] = xla_flops(fn, x, 10), jaxpr_flops(fn, x, 10)
    print(f"{fn.__name__:12} XLA's meter {xla:8,.0f}    counted in the jaxpr {walked:8,.0f}")

factor = readings["python_loop"][0] / readings["scan_loop"][0]
show_guess(guess, factor, "x")

# %% jupyter={"source_hidden": true}
# Proof
# Which of the four readings are right.
assert readings["python_loop"] == (20_000, 20_000) and readings["scan_loop"][1] == 20_000
assert factor > 9

# %% [markdown]
# XLA's meter reads the loop's body once, adds a little for the loop's own counter, and never multiplies. The jaxpr
# knows better: `length=10` stands there in plain sight. A walk over the jaxpr that opens every inner one and
# multiplies by `length` gets it right, and you will write one.

# %% jupyter={"source_hidden": true}
# Picture: equations and FLOPs, by the number of rounds
rounds = np.array([1, 2, 5, 10, 20, 40])
lines = {
    fn: [show_jaxpr(lambda x, fn=fn, n=n: fn(x, n), x).equations for n in rounds] for fn in (python_loop, scan_loop)
}
meter = [xla_flops(scan_loop, x, int(n)) for n in rounds]
walked = [jaxpr_flops(scan_loop, x, int(n)) for n in rounds]

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(rounds, lines[python_loop], "o-", label="Python loop")
left.plot(rounds, lines[scan_loop], "o-", label="lax.scan")
left.set(title="Equations in the jaxpr", xlabel="rounds")
right.plot(rounds, walked, "o-", label="jaxpr, times length")
right.plot(rounds, meter, "o-", label="XLA's cost_analysis")
right.set(title="FLOPs of the scan", xlabel="rounds")
for axes in (left, right):
    axes.set_ylim(bottom=0)
    axes.legend()
plt.show()

# %% [markdown]
# Left: a loop in Python makes the jaxpr grow, and unit 06 shows what that does to compile time. Right: the flat line is
# the number many a "FLOPs of my model" report is made of.
#
# ## 8. A transformation is a way of reading the tape
#
# Why keep a jaxpr at all? Because it is far easier to process than Python. Each of JAX's transformations does two
# things: it traces the function down to primitives, and it applies **one rule for each primitive** (along the finished
# jaxpr, as the one below does, or while the body runs, as `grad` does). Here is a complete transformation. Its rules
# use strings instead of numbers. (As printed: a jaxpr has `invars`, `eqns` and `outvars`, and so has each equation its
# `invars`, a `primitive` and `outvars`. `make_jaxpr` returns a jaxpr together with the arrays that it captured,
# `.consts`; the jaxpr itself is its `.jaxpr`.)

# %%
RULES = {"add": "({} + {})", "sub": "({} - {})", "mul": "{}·{}"}


def formula(fn, *args):
    """The formula that `fn` computes, for a flat jaxpr of the primitives in RULES."""
    jaxpr = jax.make_jaxpr(fn)(*args).jaxpr
    value_of = dict(zip(jaxpr.invars, "xyz", strict=False))

    def read(operand):
        return str(np.asarray(operand.val)) if isinstance(operand, Literal) else value_of[operand]

    for eqn in jaxpr.eqns:
        (result,) = eqn.outvars
        operands = [read(operand) for operand in eqn.invars]
        value_of[result] = RULES[eqn.primitive.name].format(*operands)
    return value_of[jaxpr.outvars[0]]


print(formula(poly, 3))
print(formula(lambda x, y: (x - y) * (x + y), 1.0, 2.0))

# %% jupyter={"source_hidden": true}
# Proof
# The formula of poly.
assert formula(poly, 3) == "((2·x·x + 3·x) + 3)"

# %% [markdown]
# Change the rules and you have another transformation. `vmap`'s rules say what each primitive does to a batch, `grad`'s
# what its derivative is, and what these two write is again a list of primitives. `jit`'s rules say which StableHLO to
# write; in a jaxpr, a jitted function is one equation:

# %%
jaxprs = {
    "poly": jax.make_jaxpr(poly)(3.0),
    "vmap(poly)": jax.make_jaxpr(jax.vmap(poly))(jnp.ones(8)),
    "grad(poly)": jax.make_jaxpr(jax.grad(poly))(3.0),
    "jit(poly)": jax.make_jaxpr(jax.jit(poly))(3.0),
}

# %% jupyter={"source_hidden": true}
# Picture: three of the four, side by side
columns = "".join(
    f"<td style='vertical-align:top;text-align:left'><b>{name}</b><pre>{html.escape(text_of(jaxprs[name]))}</pre></td>"
    for name in ("poly", "vmap(poly)", "grad(poly)")
)
display(HTML(f"<table><tr>{columns}</tr></table>"))

# %% [markdown]
# The four jaxprs as strips, one cell an equation, with the type of its result. A pale result is one that nobody reads.

# %% jupyter={"source_hidden": true}
# Picture: the four jaxprs as strips
COLOURS = {"mul": "#56b4e9", "add": "#e69f00", "add_any": "#cc79a7"}


def strip(axes, jaxpr, y, start=0.0):
    """Draw one cell an equation, pale if nobody reads its result; a jit is a frame around its own cells."""
    read = {id(v) for eqn in jaxpr.eqns for v in eqn.invars} | {id(v) for v in jaxpr.jaxpr.outvars}
    for index, eqn in enumerate(jaxpr.eqns):
        at, name, (result,) = start + index, eqn.primitive.name, eqn.outvars
        if "jaxpr" in eqn.params:
            inner = eqn.params["jaxpr"]
            strip(axes, inner, y, at + 0.12)
            axes.add_patch(plt.Rectangle((at, y - 0.44), len(inner.eqns) + 0.16, 0.88, fill=False, lw=2))
            axes.text(at + len(inner.eqns) + 0.3, y, name, va="center", family="monospace", size=10)
        else:
            alpha = 1 if id(result) in read else 0.3
            axes.add_patch(plt.Rectangle((at, y - 0.34), 0.92, 0.68, color=COLOURS[name], alpha=alpha))
            label = f"{name}\n{result.aval.str_short(short_dtypes=True)}"
            axes.text(at + 0.46, y, label, ha="center", va="center", family="monospace", size=8)


fig, axes = plt.subplots(figsize=(10, 3), layout="constrained")
for y, (_, jaxpr) in enumerate(jaxprs.items()):
    strip(axes, jaxpr, y)
axes.set(xlim=(-0.05, 11.1), ylim=(3.6, -0.6), xticks=[], yticks=range(4), yticklabels=list(jaxprs))
axes.set_title("One function, four jaxprs")
axes.grid(False)
axes.spines[:].set_visible(False)
axes.tick_params(length=0)
plt.show()

# %%
names = {key: [eqn.primitive.name for eqn in jaxpr.eqns] for key, jaxpr in jaxprs.items()}
print({key: len(value) for key, value in names.items()})

# %% jupyter={"source_hidden": true}
# Proof
# What each transformation did to the primitives.
assert names["vmap(poly)"] == names["poly"]  # same primitives, larger types
assert names["jit(poly)"] == ["jit"]  # one equation that holds a jaxpr
assert names["grad(poly)"][:5] == names["poly"]  # forward first, then backward

# %% [markdown]
# `vmap` changed no primitive here, only types: it costs not one line. `grad` keeps all equations of `poly` (the *forward
# pass*), then goes through them from the last to the first and adds what computes the derivative (the *backward pass*).
# The pale cell computes the value of `poly`, which `grad` does not return. It is dead code, and you know what becomes of
# that. `jit` made one equation that holds the whole jaxpr.
#
# One old claim is left: *"jax.grad does no such tracing."* Ask the function itself.

# %%
runs = []


def noisy(x):
    runs.append(str(x))
    return 2 * x * x + 3 * x + 3


def runs_during(action):
    before = len(runs)
    action()
    return runs[before:]


eager = [runs_during(lambda: jax.grad(noisy)(3.0)) for _ in range(2)]
compiled_grad = jax.jit(jax.grad(noisy))
compiled = [runs_during(lambda: compiled_grad(3.0)) for _ in range(2)]
labels = ("grad", "grad again", "jit(grad)", "jit(grad) again")
for label, seen in zip(labels, eager + compiled, strict=True):
    print(f"{label:16} runs of the body: {len(seen)} ", *seen)

# %% jupyter={"source_hidden": true}
# Proof
# How often the body ran, and that it always got a tracer.
assert [len(seen) for seen in eager] == [1, 1] and [len(seen) for seen in compiled] == [1, 0]
assert all("Tracer" in text for text in runs)

# %% [markdown]
# `grad` traces on **every** call. Its tracer carries the number along (`primal=3.0`: the *primal* is the value itself),
# which is why a Python `if` on the value works under `grad` and not under `jit`. (No finished jaxpr is kept either: the
# derivative's rules are applied while the body runs, one primitive after the other.) Wrapped in `jit`, there is one
# trace, and then none.
#
# ## What older posts say

# %% jupyter={"source_hidden": true}
# Table: claims of older posts, and what was measured above
claims = [
    ("a jitted function shows as `xla_call` or `pjit`", "✗", f"`{names['jit(poly)'][0]}`"),
    ("`make_jaxpr` traces, and the first call traces again", "✗", f"together {tracers} trace: they share it"),
    ("what a global list collects is unpredictable", "✗", "one entry a jaxpr: new type, new entry"),
    ("`grad` does no tracing", "✗", f"{sum(map(len, eager))} calls, {sum(map(len, eager))} traces"),
    ("the jaxpr lists the device", "✗", "it says what, not where"),
    ("`print` and `append` are not in the jaxpr", "✓", "they run while the jaxpr is written"),
    ("every transformation traces, and has a rule for each primitive", "✓", f"`formula`: {len(RULES)} rules"),
]
rows = "\n".join(f"| {claim} | {mark} | {today} |" for claim, mark, today in claims)
display(Markdown(f"| claim | today | measured above |\n|---|:-:|---|\n{rows}"))

# %% [markdown]
# ## Keypoints
#
# - A **jaxpr** is what is left when your function has run once with tracers: typed inputs, one primitive a line,
#   results.
# - Python's part (prints, lists, `if` on shapes, `for`) happens while the jaxpr is written, once for each jaxpr.
# - A jaxpr holds types and literals. It holds no values of arguments, no device, no side effect.
# - Dead lines stay in the jaxpr and are dropped on the way to XLA.
# - `jit`, `scan`, `cond` and `while` hold jaxprs of their own. Whoever counts must open them, and multiply.
# - A transformation is one rule a primitive, applied along the jaxpr or while it would be written.
#
# ## Your turn
#
# [Exercise 02](../exercises/02_jaxprs/jaxprs.ipynb): predict jaxprs, play jaxpr golf, turn a jaxpr back into Python,
# write the meter that XLA lacks, and an interpreter for jaxprs that finds where a NaN is born. At the end you begin
# `minijit`, a `jit` of your own in NumPy: it writes down what a function does, and runs that. 26 points.
