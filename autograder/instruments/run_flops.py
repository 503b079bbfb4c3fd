"""Floating-point operations of one run: what this data costs.

A jaxpr says what each branch of a `cond` and each round of a `while` costs, and not which branch is taken or how many
rounds there are. Here the program is run with a counter beside it. Where nothing depends on the data, the figure is
that of `flops`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from autograder.jax_internals import run_equation

from .flops import Cost, equation_cost
from .fresh_caches import fresh_caches
from .read_jaxpr import WRAPPERS, aval_of, equations, scan_parts, subjaxprs, trace


def run_flops(fn: Callable, *args: Any) -> Cost:
    """FLOPs of the run `fn(*args)`, and whether that is exact: False says that it is a lower bound.

    Raises ValueError for static arguments, which cannot be told from the others in a jaxpr.
    """
    closed = trace(fn, *args)
    inputs = jax.tree.leaves(args)
    if len(inputs) != len(closed.in_avals):
        raise ValueError("a run can be counted where no argument is static: wrap the function, with their values in it")
    # What holds a program is run as one equation, but for those loops and branches that are counted as they run.
    exact = all(equation_cost(eqn)[1] for eqn in equations(closed) if eqn.primitive.name not in _RUN)

    def counted(*inputs: Any) -> Any:
        typed = [jnp.asarray(value, aval.dtype) for value, aval in zip(inputs, closed.in_avals, strict=True)]
        return _number(_run(closed, typed)[1])

    # In 64 bits, to count beyond 2**31; every value of the program has its dtype already.
    with fresh_caches(), jax.enable_x64(True):
        return int(jax.jit(counted)(*inputs)), exact


def _run(jaxpr: Jaxpr | ClosedJaxpr, inputs: Sequence[Any]) -> tuple[list[Any], Any]:
    """The results, and the FLOPs: an int as long as no data decides, else an int64[]."""
    values: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    values.update(zip(inner.constvars, getattr(jaxpr, "consts", ()), strict=True))

    def read(atom: Any) -> Any:
        return jnp.asarray(atom.val, aval_of(atom).dtype) if isinstance(atom, Literal) else values[atom]

    count: Any = 0
    for eqn in inner.eqns:
        results, more = _step(eqn, [read(atom) for atom in eqn.invars])
        values.update(zip(eqn.outvars, results, strict=True))
        count = count + more
    return [read(atom) for atom in inner.outvars], count


def _step(eqn: JaxprEqn, inputs: list[Any]) -> tuple[list[Any], Any]:
    name, inside = eqn.primitive.name, subjaxprs(eqn)
    if any(_decides(part) for part in inside) or name in _BY_DATA:
        if name in _RUN:
            return _RUN[name](eqn, inputs)
        if name in WRAPPERS and len(inside) == 1 and len(inside[0].in_avals) == len(inputs):
            return _run(inside[0], inputs)
    return run_equation(eqn, inputs), equation_cost(eqn)[0]


def _decides(jaxpr: Jaxpr | ClosedJaxpr) -> bool:
    """Whether data decides what a part of the program costs."""
    return any(eqn.primitive.name in _BY_DATA for eqn in equations(jaxpr))


def _number(count: Any) -> Any:
    return jnp.asarray(count, jnp.int64)


def _cond(eqn: JaxprEqn, inputs: list[Any]) -> tuple[list[Any], Any]:
    def branch(jaxpr: Any) -> Callable:
        def taken(*operands: Any) -> tuple[list[Any], Any]:
            results, count = _run(jaxpr, operands)
            return results, _number(count)

        return taken

    which, *operands = inputs
    return lax.switch(which.astype(jnp.int32), [branch(jaxpr) for jaxpr in eqn.params["branches"]], *operands)


def _while(eqn: JaxprEqn, inputs: list[Any]) -> tuple[list[Any], Any]:
    params = eqn.params
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    for_condition, for_body, start = inputs[:first], inputs[first:second], inputs[second:]

    def test(carry: list[Any]) -> tuple[Any, Any]:
        [go_on], count = _run(params["cond_jaxpr"], [*for_condition, *carry])
        return go_on, count

    def body(state: tuple) -> tuple:
        carry, count, _ = state
        carry, of_body = _run(params["body_jaxpr"], [*for_body, *carry])
        go_on, of_test = test(carry)
        return carry, count + of_body + of_test, go_on

    go_on, count = test(start)
    results, count, _ = lax.while_loop(lambda state: state[2], body, (start, _number(count), go_on))
    return results, count


def _scan(eqn: JaxprEqn, inputs: list[Any]) -> tuple[list[Any], Any]:
    body, (consts, carries) = eqn.params["jaxpr"], scan_parts(eqn)

    def step(state: tuple, slices: list[Any]) -> tuple:
        carry, count = state
        results, more = _run(body, [*inputs[:consts], *carry, *slices])
        return (results[:carries], count + more), results[carries:]

    start, slices = inputs[consts : consts + carries], inputs[consts + carries :]
    ways = {"length": eqn.params["length"], "reverse": eqn.params["reverse"]}
    stacked: list[Any]
    (carry, count), stacked = lax.scan(step, (start, _number(0)), slices, **ways)
    return [*carry, *stacked], count


_BY_DATA = frozenset({"cond", "while"})
_RUN = {"cond": _cond, "scan": _scan, "while": _while}
