"""Check what XLA makes of a function: modules, operations, and costs against a reference."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NoReturn

from autograder.failure import fail, passed
from autograder.instruments import flops, read_hlo, read_jaxpr
from autograder.instruments.watch_functions import function_name, observer_of
from autograder.jax_internals import is_jitted
from autograder.wording import count, repeated, tally

from .exhibits import before_and_after

Exhibit = Callable[..., Callable[[], str]]  # from the operations to be marked to what draws them


def assert_hlo(
    fn: Callable,
    *args: Any,
    modules: int | None = None,
    includes: Collection[str] = (),
    excludes: Collection[str] = (),
    collectives: int | Mapping[str, int] | None = None,
    reference: Callable | None = None,
    max_bytes: float | None = None,
    max_flops: float | None = None,
    max_fusions: float | None = None,
    hint: str | None = None,
) -> None:
    """Check the optimised HLO of `fn(*args)`. A plain function is jitted for it, except to count its modules.

    fn            jitted, with static arguments too, or plain.
    args          its arguments, as for a call.
    modules       most XLA modules that may be built when `fn(*args)` is called as if nothing had been compiled before.
                  Every eager operation is one. A jitted `fn` is compiled for it and not run; a plain one is run once,
                  and what it calls is compiled (some 20 ms a module).
    includes      HLO operations that must occur, as in `show_hlo(...).ops`, or "fusion". "dot|custom-call" is satisfied
                  by either.
    excludes      HLO operations that must not occur.
    collectives   a number: at most so many in all. A dict such as {"all-reduce": 1}: exactly these and no others.
    reference     a slow function of the same arguments, compiled now in this process. The three below are factors of
                  its figures; one is left out, with a word, where this backend gives no estimate.
    max_bytes     most bytes read and written, as XLA estimates: 0.5 allows half of the reference's.
    max_flops     most floating-point operations, likewise; transcendental functions are left out.
    max_fusions   most `fusion` instructions, likewise.
    hint          one thing to try, in place of the general one, where one of the three factors does not hold.

    XLA counts a loop once in its estimates, and a call of a library (`custom-call`) not at all. So FLOPs are taken from
    the jaxpr when there is one of them on either side, and must be exact there; and bytes of a function with a loop
    cannot be checked.

    Prints one line with what was found, and returns nothing. Raises `CheckFailed` for the first that does not hold,
    ValueError for a factor without a usable reference. An error of `fn` under a tracer stays JAX's own.

    Source: the estimates are those of XLA's HloCostAnalysis, by `cost_analysis()` of a compiled function.
    """
    name = function_name(fn)
    evidence = []
    if modules is not None:
        evidence.append(_check_modules(name, fn, args, modules))
    limits = {"bytes": max_bytes, "flops": max_flops, "fusions": max_fusions}
    factors = {figure: factor for figure, factor in limits.items() if factor is not None}
    if factors and reference is None:
        raise ValueError(f"max_{min(factors)} is a factor of the reference's figure: pass reference=")
    if includes or excludes or collectives is not None or factors:
        compiled = read_hlo.hlo(fn, *args)
        exhibit = partial(before_and_after, name, fn, args, compiled.module)
        evidence += _check_ops(name, compiled.module, _names(includes), _names(excludes), exhibit)
        if collectives is not None:
            evidence.append(_check_collectives(name, compiled.module, collectives, exhibit))
        if factors and reference is not None:
            compiled_reference = read_hlo.hlo(reference, *args)
            for figure, factor in factors.items():
                mine = _figure(figure, fn, args, compiled, compiled_reference)
                theirs = _figure(figure, reference, args, compiled_reference, compiled)
                if figure == "bytes":
                    _refuse_loops(name, compiled, function_name(reference), compiled_reference)
                evidence.append(_check_factor(name, figure, mine, theirs, factor, compiled, hint, exhibit))
    passed(f"{name}: " + ", ".join(evidence or ["compiles"]))


def _names(names: Collection[str]) -> list[str]:
    return [names] if isinstance(names, str) else sorted(names)


def _check_modules(name: str, fn: Callable, args: tuple, most: int) -> str:
    elsewhere = observer_of(fn)
    built = elsewhere("modules_built", fn, *args) if elsewhere else read_hlo.modules_built(fn, *args)
    if len(built) > most:
        shown = ", ".join(built[:12]) + (f", ... {len(built) - 12} more" if len(built) > 12 else "")
        fail(
            f"`{name}` builds {count(len(built), 'XLA module')}: expected at most {most}",
            evidence=shown,
            why="outside `jit` every operation is compiled and run on its own, and each result goes through memory. "
            "XLA can only fuse what is in one module.",
            attempt=f"find the call in `{name}` that has a `jit` of its own, and call it under this one."
            if is_jitted(fn)
            else f"put `@jax.jit` on `{name}` itself, not only on the functions that it calls.",
        )
    return f"{count(len(built), 'XLA module')} built ({', '.join(built[:4])}{', ...' * (len(built) > 4)})"


def _check_ops(
    name: str, module: read_hlo.Module, includes: list[str], excludes: list[str], exhibit: Exhibit
) -> list[str]:
    found = module.ops
    if module.fusions:
        found["fusion"] = module.fusions
    for wanted in includes:
        if not any(option in found for option in wanted.split("|")):
            fail(
                f"the optimised HLO of `{name}` has no {wanted.replace('|', ' or ')}",
                evidence=f"its operations: {tally(found)}",
                why="XLA drops what does not reach the result, computes constants while compiling, and rewrites "
                "operations into cheaper ones.",
                attempt=f'compare `show_hlo({name}, ..., stage="lowered")` with `show_hlo({name}, ...)`: is it lost in '
                "between, or was it never there?",
                exhibit=exhibit(),
            )
    for unwanted in excludes:
        if unwanted in found:
            fail(
                f"the optimised HLO of `{name}` has {unwanted} ({found[unwanted]} in all), which this task leaves out",
                evidence=_instructions(module, unwanted),
                why="XLA removes only what it can prove to be without effect on the result.",
                attempt=f'look for it in `show_hlo({name}, ..., stage="lowered")` and see which of your lines it '
                "comes from.",
                exhibit=exhibit([unwanted]),
            )
    return [f"{wanted} found" for wanted in includes] + [f"no {unwanted}" for unwanted in excludes]


def _instructions(module: read_hlo.Module, operation: str) -> str:
    """What the operations are and which call in the source they come from."""
    found = [i for i in module.walk() if operation in (i.opcode, read_hlo.operation(i))]
    return repeated(f"{i.opcode}: {read_hlo.type_name(i.type)}   {i.origin}".rstrip() for i in found)


def _check_collectives(name: str, module: read_hlo.Module, expected: int | Mapping[str, int], exhibit: Exhibit) -> str:
    found = module.collectives
    if isinstance(expected, Mapping):
        holds = {k: v for k, v in expected.items() if v} == dict(found)
        words = tally(Counter(expected))
    else:
        holds = found.total() <= expected
        words = f"at most {expected}"
    if not holds:
        fail(
            f"`{name}` needs other collectives than expected: {tally(found)}, expected {words}",
            evidence="\n".join(_instructions(module, operation) for operation in found),
            why="when operands are not laid out alike, XLA adds communication between the devices to bring them "
            "together.",
            attempt="compare the sharding of the operands with the one that the operation needs: the axis that is "
            "summed over, and the layout of the result.",
            exhibit=exhibit(found),
        )
    return f"collectives: {tally(found)}"


def _figure(figure: str, fn: Callable, args: tuple, mine: read_hlo.Hlo, other: read_hlo.Hlo) -> int | None:
    if figure == "fusions":
        return mine.module.fusions
    if figure == "flops" and any(hlo.module.loops or "custom-call" in hlo.module.ops for hlo in (mine, other)):
        jaxpr = read_jaxpr.trace(fn, *args)
        number, exact = flops.cost_of(jaxpr)
        return number if exact else _refuse_unknown(function_name(fn), jaxpr)
    return getattr(mine, figure)


def _refuse_unknown(name: str, jaxpr: read_jaxpr.ClosedJaxpr) -> NoReturn:
    unknown = [eqn for eqn in read_jaxpr.equations(jaxpr) if not flops.equation_cost(eqn)[1]]
    fail(
        f"the FLOPs of `{name}` cannot be counted",
        evidence=repeated(map(read_jaxpr.equation_line, unknown), 4),
        why=flops.WHY_UNKNOWN,
        attempt="give the loop a fixed number of rounds (`fori_loop` with Python integers, or `scan`), or do without.",
    )


def _refuse_loops(name: str, compiled: read_hlo.Hlo, reference: str, compiled_reference: read_hlo.Hlo) -> None:
    if compiled_reference.module.loops:
        raise ValueError(f"the reference `{reference}` has a loop, whose bytes XLA counts once: it cannot be a measure")
    if compiled.module.loops:
        fail(
            f"the bytes of `{name}` cannot be counted: it has a loop",
            evidence=f"its operations: {tally(compiled.module.ops)}",
            why="XLA's estimate counts the body of a loop once, however often it runs.",
            attempt="write this task without a loop: in operations on whole arrays, or with `jax.vmap`.",
        )


_WORDS = {
    "bytes": (
        "accesses {mine}",
        "every intermediate array between two fusions is written to memory once and read back.",
        "see in `show_hlo({name}, ...)` which arrays pass between two boxes: is each of them needed, in that size?",
    ),
    "flops": (
        "needs {mine}",
        "XLA keeps the order of your operations: it does not know that (A @ B) @ v costs more than A @ (B @ v).",
        "look for the largest `dot` in `show_hlo({name}, ...)`, and bracket or factor the expression differently.",
    ),
    "fusions": (
        "is compiled to {mine}",
        "XLA ends a fusion at an operation that needs all of its input first, such as a reduction or a `dot`.",
        "see in `show_hlo({name}, ...)` where one box ends, and whether two passes over the data can become one.",
    ),
}


def _check_factor(
    name: str,
    figure: str,
    mine: int | None,
    theirs: int | None,
    factor: float,
    compiled: read_hlo.Hlo,
    hint: str | None,
    exhibit: Exhibit,
) -> str:
    if mine is None or theirs is None:
        return f"{figure} not compared (no estimate on this backend)"
    number = count(mine, {"bytes": "byte", "flops": "FLOP", "fusions": "fusion"}[figure])
    happened, why, attempt = (text.format(name=name, mine=number) for text in _WORDS[figure])
    limit = factor * theirs
    if mine > limit:
        fail(
            f"`{name}` {happened}: expected at most {limit:,.0f}, {factor:g} of the reference's {theirs:,}",
            evidence=f"its operations: {tally(compiled.module.ops)}",
            why=why,
            attempt=hint or attempt,
            exhibit=exhibit(),
        )
    return f"{number} (reference {theirs:,})"
