"""Reading a jaxpr: what a function asks for, before any compiler has seen it.

An equation whose only job is to hold another jaxpr (`jit`, `custom_jvp_call`, `remat2`, ...) is transparent: its
contents count, it does not, because wrapping a function in `jit` is no work. So is the call of a hijax primitive
(`custom_root`, `searchsorted`), which holds no jaxpr and is traced to get one. The scalar function inside a `reduce` or
a `scatter-add` is part of that equation, not a program of its own, and is not walked, if it is one operation.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from autograder.jax_internals import expansion, is_jitted, source_of, trace_jitted
from autograder.wording import array_type

from .fresh_caches import fresh_caches
from .watch_functions import observer_of

Aval = Any  # JAX types the abstract value of a variable as AbstractValue, which has neither shape nor dtype

WRAPPERS = frozenset(
    {
        "call",
        "call_hi_primitive",
        "checkpoint",
        "closed_call",
        "composite",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vmap_call",
        "custom_vjp_call_jaxpr",
        "eval_jaxpr",
        "jit",
        "linear_call",
        "pjit",
        "remat",
        "remat2",
    }
)

# Their jaxpr says how two scalars are combined.
COMBINERS = frozenset(
    {"reduce", "reduce_window", "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub"}
)


def trace(fn: Callable, *args: Any) -> ClosedJaxpr:
    """The jaxpr of `fn(*args)`. Static arguments of a jitted `fn` stay static.

    `make_jaxpr` and `jit` share one tracing cache, so that looking at a jaxpr would make a later first call of the
    function a cache hit. This one does not: it traces in `fresh_caches()`.
    Errors of the function under a tracer (`TracerBoolConversionError`, `NotImplementedError`, ...) pass through.
    What of the arguments of a function of another process is static is known there, and there it is traced.
    """
    elsewhere = None if all_arrays(args) else observer_of(fn)
    if elsewhere is not None:
        return elsewhere("trace", fn, *args)
    with fresh_caches():
        return trace_jitted(fn, *args).jaxpr if is_jitted(fn) else jax.make_jaxpr(fn)(*args)


def all_arrays(args: Any) -> bool:
    """Whether no argument is, or holds, anything but arrays."""
    return all(isinstance(leaf, jax.Array | np.ndarray) for leaf in jax.tree.leaves(args))


def equations(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[JaxprEqn]:
    """Every equation that counts, in program order; an equation comes before those inside it."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name not in WRAPPERS:
            yield eqn
        for inner in subjaxprs(eqn):
            yield from equations(inner)


def subjaxprs(eqn: JaxprEqn) -> list[Jaxpr | ClosedJaxpr]:
    """The programs that an equation runs, wherever they sit in its parameters."""
    name, params = eqn.primitive.name, eqn.params
    if name in COMBINERS:
        combiners = [value for value in params.values() if is_jaxpr(value)]
        return [part for part in combiners if sum(1 for _ in equations(part)) > 1]
    if name == "call_hi_primitive":
        return [expansion(eqn)]
    if name == "custom_linear_solve":  # the other three are for its derivatives
        params = {"solve": params["jaxprs"].solve}
    return [leaf for leaf in jax.tree.leaves(params, is_leaf=is_jaxpr) if is_jaxpr(leaf)]


def live_equations(jaxpr: Jaxpr | ClosedJaxpr, wanted: Sequence[bool] | None = None) -> int:
    """How many of the equations that count lead to a result, or have an effect.

    wanted: for each output, whether anybody uses it; all of them are used without.
    """
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    outputs = [out for out, used in zip(inner.outvars, wanted or [True] * len(inner.outvars), strict=True) if used]
    needed, number = {out for out in outputs if isinstance(out, Var)}, 0
    for eqn in reversed(inner.eqns):
        used = [out in needed for out in eqn.outvars]
        if not (any(used) or eqn.effects):
            continue
        needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
        wraps = eqn.primitive.name in WRAPPERS
        number += not wraps
        for part in subjaxprs(eqn):
            outs = len(getattr(part, "jaxpr", part).outvars)
            number += live_equations(part, used if wraps and outs == len(used) else None)
    return number


def is_jaxpr(value: Any) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


def aval_of(atom: Literal | Var) -> Aval:
    """What is known of a value of a jaxpr before it runs."""
    return atom.aval


def shape_of(atom: Literal | Var) -> tuple[int, ...]:
    """Of something that is known to be an array."""
    return aval_of(atom).shape


def elements(aval: Aval) -> int:
    """How many elements an abstract value has; 0 for one without a shape, such as a token."""
    return math.prod(getattr(aval, "shape", (0,)))


def type_name(aval: Aval) -> str:
    """`float32[3,4]` of an array or an abstract value; what has no dtype, such as a token, as JAX prints it."""
    return array_type(aval.dtype, aval.shape) if hasattr(aval, "dtype") else str(aval)


def equation_line(eqn: JaxprEqn) -> str:
    """One line for one equation: `mul: float32[8], float32[] -> float32[8]   lesson.py line 12, in f`."""
    ins, outs = (", ".join(type_name(v.aval) for v in side) for side in (eqn.invars, eqn.outvars))
    return f"{eqn.primitive.name}: {ins} -> {outs}{source_line(eqn)}"


def source_line(eqn: JaxprEqn) -> str:
    """Where the user wrote it; empty if no line is the user's. A notebook's cell has no file name to show."""
    source = source_of(eqn)
    if source is None:
        return ""
    cell = "ipykernel_" in source.file or source.file.startswith("<")
    return f"   {'' if cell else os.path.basename(source.file) + ' '}line {source.line}, in {source.function}"


def scan_parts(eqn: JaxprEqn) -> tuple[int, int]:
    """How many constants a `scan` has and how many carries; the rest of its inputs are cut into slices.

    The carries come first among the outputs. A slice has one axis less inside than outside, and that is how they are
    told apart on every version of JAX.
    """
    body = eqn.params["jaxpr"]
    outside = zip(eqn.outvars, body.out_avals, strict=True)
    carries = sum(len(shape_of(v)) == len(inner.shape) for v, inner in outside)
    slices = sum(len(shape_of(v)) > len(inner.shape) for v, inner in zip(eqn.invars, body.in_avals, strict=True))
    return len(eqn.invars) - carries - slices, carries


def trip_count(eqn: JaxprEqn) -> int | None:
    """How often the body of a `scan` or `while` runs; None when the jaxpr does not say.

    A `while` says so when its condition is `counter < limit` and no more, counter and limit start as literals, and
    the body adds a literal to the counter and leaves the limit alone.
    """
    if eqn.primitive.name == "scan":
        return eqn.params["length"]
    condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    carried = eqn.invars[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] :]
    tested = condition.invars[eqn.params["cond_nconsts"] :]
    entering = body.invars[eqn.params["body_nconsts"] :]
    if [inner.primitive.name for inner in condition.eqns] != ["lt"]:
        return None

    def constant(atom: Any) -> int | None:
        """The literal that `atom` of the condition is in every round."""
        if atom in tested and body.outvars[tested.index(atom)] is entering[tested.index(atom)]:
            atom = carried[tested.index(atom)]
        return _integer(atom)

    counter, bound = condition.eqns[0].invars
    if isinstance(counter, Literal) or counter not in tested:
        return None
    index = tested.index(counter)
    steps = [
        _integer(inner.invars[1])
        for inner in body.eqns
        if inner.primitive.name == "add"
        and inner.invars[0] is entering[index]
        and inner.outvars[0] is body.outvars[index]
    ]
    start, limit = _integer(carried[index]), constant(bound)
    if start is None or limit is None or len(steps) != 1 or steps[0] is None or steps[0] <= 0:
        return None
    trips = max(0, math.ceil((limit - start) / steps[0]))
    wraps = start + trips * steps[0] > np.iinfo(aval_of(counter).dtype).max  # then it begins anew, below the limit
    return None if wraps else trips


def _integer(atom: Any) -> int | None:
    if isinstance(atom, Literal) and not shape_of(atom) and aval_of(atom).dtype.kind in "iu":
        return int(atom.val)
    return None
