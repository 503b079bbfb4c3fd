"""Statistics of a jaxpr: what a function asks for, before any compiler has seen it.

Every number here is counted over the whole program, into every sub-jaxpr, under these conventions:

equations    An equation whose only job is to hold another jaxpr (`jit`, `custom_jvp_call`, `remat2`, ...) is
             transparent: its contents count, it does not, because wrapping a function in `jit` is no work.
             The scalar function inside a `reduce` or a `scatter-add` is part of that equation, not a program
             of its own, and is not walked.
flops        The conventions of XLA's HloCostAnalysis, so that for straight-line code the figure equals XLA's
             flops + transcendentals before optimisation: one for each element of an elementwise result (a
             `select_n`, a comparison and an `exp` too), 2·M·N·K·batch for a `dot_general`, inputs minus
             outputs for a reduction, nothing for moving data. Unlike XLA, which counts the body of a loop
             once, a `scan` counts its body `length` times and a `while` as often as can be read off the
             jaxpr. Where it cannot be read off, the body counts once and the figure is marked a lower bound.
             A `cond` counts its dearest branch. A cumulative sum counts n and an FFT 5·n·log2(n), which XLA sees
             otherwise; results that nothing uses count here, while XLA drops them first.
largest      The largest value that an equation produces, in elements. Inputs and constants do not count.
"""

import inspect
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal

from ._fresh import fresh_caches

WRAPPERS = frozenset(
    {
        "call",
        "checkpoint",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "eval_jaxpr",
        "jit",
        "pjit",
        "remat",
        "remat2",
    }
)


def trace(fn: Callable, *args: Any) -> ClosedJaxpr:
    """The jaxpr of `fn(*args)`. Static arguments of a jitted `fn` stay static.

    `make_jaxpr` and `jit` share one tracing cache, so that looking at a jaxpr would make a later first call of the
    function a cache hit. This one does not: it traces in `fresh_caches()`.
    Errors of the function under a tracer (`TracerBoolConversionError`, `NotImplementedError`, ...) pass through.
    """
    with fresh_caches():
        return fn.trace(*args).jaxpr if is_jitted(fn) else jax.make_jaxpr(fn)(*args)


def is_jitted(fn: Callable) -> bool:
    """Whether `fn` can trace, lower and compile itself. A bound method cannot: it would forget its object."""
    return isinstance(fn, jax.stages.Wrapped) and not inspect.ismethod(fn)


@dataclass(frozen=True)
class JaxprStatistics:
    """Counts over a whole jaxpr. `largest_size` is in elements, `flops_lower_bound` says that some part is unknown."""

    primitives: Counter[str]
    flops: int
    flops_lower_bound: bool
    largest: str
    largest_size: int

    @property
    def equations(self) -> int:
        return self.primitives.total()


def statistics(jaxpr: Jaxpr | ClosedJaxpr) -> JaxprStatistics:
    """Count a jaxpr, under the conventions at the head of this module."""
    found = list(equations(jaxpr))
    produced = [variable.aval for eqn in found for variable in eqn.outvars if not isinstance(variable, DropVar)]
    # Of equally many elements the widest dtype: bool[1000] is not what fills the memory.
    largest = max(produced, key=lambda aval: (size(aval), _item_bytes(aval)), default=None)
    flops, exact = _flops(jaxpr)
    return JaxprStatistics(
        primitives=Counter(eqn.primitive.name for eqn in found),
        flops=flops,
        flops_lower_bound=not exact,
        largest="nothing" if largest is None else type_name(largest),
        largest_size=0 if largest is None else size(largest),
    )


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
        return []
    if name == "custom_linear_solve":  # the other three are for its derivatives
        params = {"solve": params["jaxprs"].solve}
    return [leaf for leaf in jax.tree.leaves(params, is_leaf=is_jaxpr) if is_jaxpr(leaf)]


def is_jaxpr(value: Any) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


def size(aval: Any) -> int:
    """Elements of an abstract value; 0 for a token or a reference to memory."""
    return math.prod(getattr(aval, "shape", (0,)))


def _item_bytes(aval: Any) -> int:
    return getattr(getattr(aval, "dtype", None), "itemsize", 0)


def type_name(aval: Any) -> str:
    """`float32[3,4]`, as JAX prints a type in full. Works for arrays, scalars and abstract values."""
    if not hasattr(aval, "dtype"):
        return str(aval)
    return f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"


def describe(eqn: JaxprEqn) -> str:
    """One line for one equation: `mul: float32[8], float32[] -> float32[8]   lesson.py line 12, in f`."""
    ins, outs = (", ".join(type_name(v.aval) for v in side) for side in (eqn.invars, eqn.outvars))
    return f"{eqn.primitive.name}: {ins} -> {outs}{source_line(eqn)}"


def source_line(eqn: JaxprEqn) -> str:
    """Where the user wrote it; empty for a function of a library. A notebook's cell has no file name to show."""
    found = re.fullmatch(r"(.*?):(\d+)(?::\d+)? \((.*)\)", source_info_util.summarize(eqn.source_info))
    if not found:
        return ""
    path, line, function = found.groups()
    file = "" if "ipykernel_" in path or path.startswith("<") else os.path.basename(path) + " "
    return f"   {file}line {line}, in {function}"


def flops(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """FLOPs of a jaxpr, loops multiplied out."""
    return _flops(jaxpr)[0]


def costs(jaxpr: Jaxpr | ClosedJaxpr, times: int = 1) -> Iterator[tuple[JaxprEqn, int]]:
    """Every equation that holds no other, with its FLOPs, as often as the loops around it run."""
    for eqn in jaxpr.eqns:
        inner = subjaxprs(eqn)
        if not inner:
            yield eqn, times * _equation_flops(eqn)[0]
        repeats = trip_count(eqn) if eqn.primitive.name in ("scan", "while") else 1
        for part in inner:
            yield from costs(part, times * (1 if repeats is None else repeats))


# --- FLOPs: each rule maps an equation to (flops, whether that is exact) ---

Cost = tuple[int, bool]


def _flops(jaxpr: Jaxpr | ClosedJaxpr) -> Cost:
    return _total(_equation_flops(eqn) for eqn in jaxpr.eqns)


def _total(costs: Iterator[Cost]) -> Cost:
    counts, exact = 0, True
    for count, known in costs:
        counts, exact = counts + count, exact and known
    return counts, exact


def _equation_flops(eqn: JaxprEqn) -> Cost:
    name = eqn.primitive.name
    if name in MOVES_DATA:
        return 0, True
    if name in FORMULAS:
        return FORMULAS[name](eqn), True
    if name in LOOPS:
        return LOOPS[name](eqn)
    if inner := subjaxprs(eqn):
        cost, exact = _total(map(_flops, inner))
        return cost, exact and name in WRAPPERS | {"custom_linear_solve"}
    if name.startswith(("reduce_", "arg")) and name != "reduce_precision":
        return _in(eqn) - _out(eqn), True
    return _out(eqn), name not in UNKNOWN


def _in(eqn: JaxprEqn) -> int:
    return size(eqn.invars[0].aval)


def _out(eqn: JaxprEqn) -> int:
    return size(eqn.outvars[0].aval)


def _dot_general(eqn: JaxprEqn) -> int:
    (contracting, _), _ = eqn.params["dimension_numbers"]
    return 2 * _out(eqn) * math.prod(eqn.invars[0].aval.shape[axis] for axis in contracting)


def _convolution(eqn: JaxprEqn) -> int:
    """Two for each pair of a kernel element and an input element that it meets; padding and holes are not met."""
    params, kernel = eqn.params, eqn.invars[1].aval.shape
    lhs, rhs, out = params["dimension_numbers"]
    meetings = 1
    for axis, (low, _) in enumerate(params["padding"]):
        length = eqn.invars[0].aval.shape[lhs[2 + axis]]
        hole = params["lhs_dilation"][axis]
        meetings *= sum(
            0 <= place < length * hole and place % hole == 0
            for start in range(eqn.outvars[0].aval.shape[out[2 + axis]])
            for step in range(kernel[rhs[2 + axis]])
            for place in [start * params["window_strides"][axis] + step * params["rhs_dilation"][axis] - low]
        )
    batch, features = (eqn.outvars[0].aval.shape[axis] for axis in out[:2])
    return 2 * meetings * batch * features * kernel[rhs[1]]


def _convert(eqn: JaxprEqn) -> int:
    return _out(eqn) if eqn.invars[0].aval.dtype != eqn.outvars[0].aval.dtype else 0


def _integer_power(eqn: JaxprEqn) -> int:
    power = abs(eqn.params["y"])
    multiplications = power.bit_length() - 1 + power.bit_count() - 1 if power else 0
    return _out(eqn) * (multiplications + (eqn.params["y"] < 0))


def _sort(eqn: JaxprEqn) -> int:
    length = eqn.invars[0].aval.shape[eqn.params["dimension"]]
    return _in(eqn) * math.ceil(math.log2(max(length, 1)))


def _fft(eqn: JaxprEqn) -> int:
    return round(5 * max(_in(eqn), _out(eqn)) * math.log2(max(math.prod(eqn.params["fft_lengths"]), 1)))


def _cholesky(eqn: JaxprEqn) -> int:
    return _in(eqn) * eqn.invars[0].aval.shape[-1] // 3


def _triangular_solve(eqn: JaxprEqn) -> int:
    return _out(eqn) * eqn.invars[0].aval.shape[-1]


def _reduce(eqn: JaxprEqn) -> int:
    return (_in(eqn) - _out(eqn)) * flops(eqn.params["jaxpr"])


def _reduce_window(eqn: JaxprEqn) -> int:
    return _out(eqn) * (math.prod(eqn.params["window_dimensions"]) - 1)


def _scatter(eqn: JaxprEqn) -> int:
    return size(eqn.invars[2].aval)


FORMULAS: dict[str, Callable[[JaxprEqn], int]] = {
    "cholesky": _cholesky,
    "conv_general_dilated": _convolution,
    "convert_element_type": _convert,
    "dot_general": _dot_general,
    "fft": _fft,
    "integer_pow": _integer_power,
    "one_minus_square": lambda eqn: 3 * _out(eqn),  # (1 - x) * (1 + x)
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "reduce_window_max": _reduce_window,
    "reduce_window_min": _reduce_window,
    "reduce_window_sum": _reduce_window,
    "scatter-add": _scatter,
    "scatter-max": _scatter,
    "scatter-min": _scatter,
    "scatter-mul": _scatter,
    "sort": _sort,
    "triangular_solve": _triangular_solve,
}

# Their jaxpr says how two scalars are combined.
COMBINERS = frozenset(
    {"reduce", "reduce_window", "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub"}
)

MOVES_DATA = frozenset(
    {
        "after_all",
        "all_gather",
        "all_to_all",
        "axis_index",
        "bitcast_convert_type",
        "broadcast_in_dim",
        "concatenate",
        "copy",
        "copy_p",
        "create_token",
        "debug_callback",
        "debug_print",
        "device_put",
        "dynamic_slice",
        "dynamic_update_slice",
        "empty",
        "empty2",
        "gather",
        "get",
        "imag",
        "iota",
        "name",
        "new_ref",
        "optimization_barrier",
        "pad",
        "pcast",
        "ppermute",
        "pvary",
        "random_unwrap",
        "random_wrap",
        "real",
        "reshape",
        "rev",
        "scatter",
        "sharding_constraint",
        "slice",
        "split",
        "squeeze",
        "stop_gradient",
        "swap",
        "transpose",
    }
)

# One for each element is too little for these; nothing in the jaxpr says how much they do.
UNKNOWN = frozenset(
    {
        "approx_top_k",
        "eig",
        "eigh",
        "ffi_call",
        "hessenberg",
        "householder_product",
        "io_callback",
        "lu",
        "pure_callback",
        "qr",
        "ragged_dot_general",
        "random_bits",
        "random_fold_in",
        "random_gamma",
        "random_seed",
        "random_split",
        "rng_bit_generator",
        "schur",
        "svd",
        "threefry2x32",
        "top_k",
        "tridiagonal",
        "tridiagonal_solve",
    }
)


def _scan(eqn: JaxprEqn) -> Cost:
    body, exact = _flops(eqn.params["jaxpr"])
    return body * eqn.params["length"], exact


def _while(eqn: JaxprEqn) -> Cost:
    body, body_exact = _flops(eqn.params["body_jaxpr"])
    condition, condition_exact = _flops(eqn.params["cond_jaxpr"])
    trips = trip_count(eqn)
    if trips is None:
        return body + condition, False
    return trips * body + (trips + 1) * condition, body_exact and condition_exact


def _cond(eqn: JaxprEqn) -> Cost:
    branches = [_flops(branch) for branch in eqn.params["branches"]]
    return max(cost for cost, _ in branches), all(exact for _, exact in branches)


def _shard_map(eqn: JaxprEqn) -> Cost:
    cost, exact = _flops(eqn.params["jaxpr"])
    return cost * eqn.params["mesh"].size, exact


LOOPS: dict[str, Callable[[JaxprEqn], Cost]] = {
    "cond": _cond,
    "scan": _scan,
    "shard_map": _shard_map,
    "while": _while,
}


def trip_count(eqn: JaxprEqn) -> int | None:
    """How often the body of a `scan` or `while` runs; None when the jaxpr does not say.

    A `while` says so when its condition is `counter < limit` and no more, counter and limit start as literals, and
    the body adds a literal to the counter and leaves the limit alone.
    """
    if eqn.primitive.name == "scan":
        return eqn.params["length"]
    condition, body = open_jaxpr(eqn.params["cond_jaxpr"]), open_jaxpr(eqn.params["body_jaxpr"])
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
    return max(0, math.ceil((limit - start) / steps[0]))


def _integer(atom: Any) -> int | None:
    if isinstance(atom, Literal) and not atom.aval.shape and atom.aval.dtype.kind in "iu":
        return int(atom.val)
    return None


def open_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """The jaxpr without its constants. One class is both from JAX 0.11 on."""
    return getattr(jaxpr, "jaxpr", jaxpr)
