"""Floating-point operations of a jaxpr, into every sub-jaxpr and with the lengths of loops.

The conventions are those of XLA's HloCostAnalysis: one for each element of an elementwise result (a `select_n`, a
comparison and an `exp` too), 2·M·N·K·batch for a `dot_general`, inputs minus outputs for a reduction, nothing for
moving data. So for straight-line code of these the figure equals XLA's flops + transcendentals before optimisation.

Unlike XLA, which counts the body of a loop once, a `scan` counts its body `length` times and a `while` as often as can
be read off the jaxpr. Where it cannot be read off, the body counts once and the figure is a lower bound. A `cond`
counts its most expensive branch, in every round of a loop around it: what data decides, `run_flops` counts. (Under
`vmap` a `cond` is a `select_n` behind both branches, and both count.) Results that nothing uses count here, while XLA
drops them first.

Some operations XLA sees otherwise, or as several. Here a cumulative sum counts n, an `argmax` n - 1, a `logistic` one
an element, an FFT 5·n·log2(n), a sort n·log2(length of its axis), a Cholesky factor n³/3, a triangular solve n² a
column.
"""

import math
from collections.abc import Callable, Iterator

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from .read_jaxpr import COMBINERS, WRAPPERS, aval_of, elements, shape_of, subjaxprs, trip_count

WHY_UNKNOWN = "how often a `while` runs may depend on values, and a callback or a library call hides its work."

Cost = tuple[int, bool]  # FLOPs, and whether that is exact


def cost_of(jaxpr: Jaxpr | ClosedJaxpr) -> Cost:
    """FLOPs of a jaxpr, and whether that is exact: False says that it is a lower bound."""
    return _total(equation_cost(eqn) for eqn in jaxpr.eqns)


def flops(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """FLOPs of a jaxpr, loops multiplied out."""
    return cost_of(jaxpr)[0]


def costs(jaxpr: Jaxpr | ClosedJaxpr, times: int = 1) -> Iterator[tuple[JaxprEqn, int]]:
    """Every equation that holds no other, with its FLOPs, as often as the loops around it run."""
    for eqn in jaxpr.eqns:
        inner = [] if eqn.primitive.name in COMBINERS else subjaxprs(eqn)
        if not inner:
            yield eqn, times * equation_cost(eqn)[0]
        repeats = trip_count(eqn) if eqn.primitive.name in ("scan", "while") else 1
        for part in inner:
            yield from costs(part, times * (1 if repeats is None else repeats))


def _total(costs: Iterator[Cost]) -> Cost:
    counts, exact = 0, True
    for count, known in costs:
        counts, exact = counts + count, exact and known
    return counts, exact


def equation_cost(eqn: JaxprEqn) -> Cost:
    """FLOPs of one equation, with all that is inside it."""
    name = eqn.primitive.name
    if name in MOVES_DATA:
        return 0, True
    if name in FORMULAS:
        return FORMULAS[name](eqn), True
    if name in LOOPS:
        return LOOPS[name](eqn)
    if inner := subjaxprs(eqn):
        cost, exact = _total(map(cost_of, inner))
        return cost, exact and name in WRAPPERS | {"custom_linear_solve"}
    if name.startswith(("reduce_", "arg")) and name != "reduce_precision":
        return _in(eqn) - _out(eqn), True
    return _out(eqn), name in ELEMENTWISE and _is_elementwise(eqn)


def hides_work(eqn: JaxprEqn) -> bool:
    """Whether a jaxpr may not say how much an equation does: a loop without a length, or one that holds no other."""
    return eqn.primitive.name == "while" or not (subjaxprs(eqn) or equation_cost(eqn)[1])


def _is_elementwise(eqn: JaxprEqn) -> bool:
    """Whether each operand is a number, or has the shape of the result but for axes of length 1."""
    out, *shapes = (getattr(atom.aval, "shape", ()) for atom in (*eqn.outvars[:1], *eqn.invars))
    return all(
        not shape or (len(shape) == len(out) and all(n in (1, m) for n, m in zip(shape, out, strict=True)))
        for shape in shapes
    )


def _in(eqn: JaxprEqn) -> int:
    return elements(eqn.invars[0].aval)


def _out(eqn: JaxprEqn) -> int:
    return elements(eqn.outvars[0].aval)


def _dot_general(eqn: JaxprEqn) -> int:
    (contracting, _), _ = eqn.params["dimension_numbers"]
    return 2 * _out(eqn) * math.prod(shape_of(eqn.invars[0])[axis] for axis in contracting)


def _convolution(eqn: JaxprEqn) -> int:
    """Two for each pair of a kernel element and an input element that it meets; padding and holes are not met."""
    params, kernel = eqn.params, shape_of(eqn.invars[1])
    lhs, rhs, out = params["dimension_numbers"]
    meetings = 1
    for axis, (low, _) in enumerate(params["padding"]):
        length, hole = shape_of(eqn.invars[0])[lhs[2 + axis]], params["lhs_dilation"][axis]
        starts = shape_of(eqn.outvars[0])[out[2 + axis]], params["window_strides"][axis]
        steps = kernel[rhs[2 + axis]], params["rhs_dilation"][axis]
        (few, apart), (many, stride) = sorted([starts, steps])
        meetings *= sum(_met(length, hole, many, stride, k * apart - low) for k in range(few))
    batch, features = (shape_of(eqn.outvars[0])[axis] for axis in out[:2])
    return 2 * meetings * batch * features * kernel[rhs[1]]


def _met(length: int, hole: int, many: int, stride: int, first: int) -> int:
    """How many of the places `first + k * stride`, k in range(many), are elements: every hole-th in length * hole."""
    common = math.gcd(stride, hole)
    if first % common:
        return 0
    period = hole // common  # of the k that meet one: those that are equal to this one, modulo the period
    one = -first // common * pow(stride // common, -1, period) % period
    low, high = max(0, -(first // stride)), min(many - 1, (length * hole - 1 - first) // stride)
    return max(0, (high - one) // period - (low - 1 - one) // period)


def _convert(eqn: JaxprEqn) -> int:
    return _out(eqn) if aval_of(eqn.invars[0]).dtype != aval_of(eqn.outvars[0]).dtype else 0


def _integer_power(eqn: JaxprEqn) -> int:
    power = abs(eqn.params["y"])
    multiplications = power.bit_length() - 1 + power.bit_count() - 1 if power else 0
    return _out(eqn) * (multiplications + (eqn.params["y"] < 0))


def _sort(eqn: JaxprEqn) -> int:
    length = shape_of(eqn.invars[0])[eqn.params["dimension"]]
    return _in(eqn) * math.ceil(math.log2(max(length, 1)))


def _fft(eqn: JaxprEqn) -> int:
    return round(5 * max(_in(eqn), _out(eqn)) * math.log2(max(math.prod(eqn.params["fft_lengths"]), 1)))


def _cholesky(eqn: JaxprEqn) -> int:
    return _in(eqn) * shape_of(eqn.invars[0])[-1] // 3


def _triangular_solve(eqn: JaxprEqn) -> int:
    return _out(eqn) * shape_of(eqn.invars[0])[-1]


def _symmetric_product(eqn: JaxprEqn) -> int:
    return 2 * _out(eqn) * shape_of(eqn.invars[0])[-1]


def _reduce_window(eqn: JaxprEqn) -> int:
    return _out(eqn) * (math.prod(eqn.params["window_dimensions"]) - 1)


def _scatter(eqn: JaxprEqn) -> int:
    return elements(eqn.invars[2].aval)


FORMULAS: dict[str, Callable[[JaxprEqn], int]] = {
    "cholesky": _cholesky,
    "conv_general_dilated": _convolution,
    "convert_element_type": _convert,
    "dot_general": _dot_general,
    "fft": _fft,
    "integer_pow": _integer_power,
    "one_minus_square": lambda eqn: 3 * _out(eqn),  # (1 - x) * (1 + x)
    "reduce_window_max": _reduce_window,
    "reduce_window_min": _reduce_window,
    "reduce_window_sum": _reduce_window,
    "scatter-add": _scatter,
    "scatter-max": _scatter,
    "scatter-min": _scatter,
    "scatter-mul": _scatter,
    "sort": _sort,
    "symmetric_product": _symmetric_product,
    "triangular_solve": _triangular_solve,
}

MOVES_DATA = frozenset(
    {
        "after_all",
        "all_gather",
        "all_gather_invariant",
        "all_gather_reduced",
        "all_to_all",
        "axis_index",
        "bitcast_convert_type",
        "broadcast_in_dim",
        "broadcast_to",
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
        "freeze",
        "from_edtype",
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
        "random_clone",
        "random_unwrap",
        "random_wrap",
        "real",
        "reshape",
        "reshard",
        "rev",
        "sharding_constraint",
        "slice",
        "split",
        "squeeze",
        "stack",
        "stop_gradient",
        "swap",
        "tile",
        "to_edtype",
        "transpose",
        "unstack",
        "zeros_like",
    }
)

# One for each element of the result, where the operands have its shape. Of what is in none of these lists nobody knows
# how much it does: a callback, a library call, a random number, a factorisation.
ELEMENTWISE = frozenset(
    {
        "abs",
        "acos",
        "acosh",
        "add",
        "add_any",
        "addupdate",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "bessel_i0e",
        "bessel_i1e",
        "cbrt",
        "ceil",
        "clamp",
        "clz",
        "complex",
        "conj",
        "cos",
        "cosh",
        "cumlogsumexp",
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "digamma",
        "div",
        "eq",
        "eq_to",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "ge",
        "gt",
        "igamma",
        "igamma_grad_a",
        "igammac",
        "is_finite",
        "le",
        "le_to",
        "lgamma",
        "log",
        "log1p",
        "log2",
        "logistic",
        "lt",
        "lt_to",
        "max",
        "min",
        "mul",
        "mulhi",
        "ne",
        "neg",
        "nextafter",
        "not",
        "or",
        "pmax",
        "pmin",
        "polygamma",
        "population_count",
        "pow",
        "psum",
        "psum_invariant",
        "reduce_precision",
        "regularized_incomplete_beta",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "sub",
        "tan",
        "tanh",
        "xor",
        "zeta",
    }
)


def _scan(eqn: JaxprEqn) -> Cost:
    body, exact = cost_of(eqn.params["jaxpr"])
    return body * eqn.params["length"], exact


def _while(eqn: JaxprEqn) -> Cost:
    body, body_exact = cost_of(eqn.params["body_jaxpr"])
    condition, condition_exact = cost_of(eqn.params["cond_jaxpr"])
    trips = trip_count(eqn)
    if trips is None:
        return body + condition, False
    return trips * body + (trips + 1) * condition, body_exact and condition_exact


def _cond(eqn: JaxprEqn) -> Cost:
    branches = [cost_of(branch) for branch in eqn.params["branches"]]
    return max(cost for cost, _ in branches), all(exact for _, exact in branches)


def _shard_map(eqn: JaxprEqn) -> Cost:
    cost, exact = cost_of(eqn.params["jaxpr"])
    return cost * eqn.params["mesh"].size, exact


def _combined(pairs: int, combiner: Jaxpr | ClosedJaxpr | None) -> Cost:
    """A function of two scalars that is called so often; without one, data is moved and no more."""
    cost, exact = cost_of(combiner) if combiner is not None else (0, True)
    return pairs * cost, exact


def _reduce(eqn: JaxprEqn) -> Cost:
    return _combined(_in(eqn) - _out(eqn), eqn.params["jaxpr"])


def _reduce_by_window(eqn: JaxprEqn) -> Cost:
    return _combined(_reduce_window(eqn), eqn.params["jaxpr"])


def _set(eqn: JaxprEqn) -> Cost:
    return _combined(_scatter(eqn), eqn.params["update_jaxpr"])


LOOPS: dict[str, Callable[[JaxprEqn], Cost]] = {
    "cond": _cond,
    "reduce": _reduce,
    "reduce_window": _reduce_by_window,
    "scan": _scan,
    "scatter": _set,
    "shard_map": _shard_map,
    "while": _while,
}
