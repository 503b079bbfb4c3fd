"""Check which operations a function asks for."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from jax.extend.core import JaxprEqn

from autograder.failure import fail, passed
from autograder.instruments import flops, jaxpr_statistics, read_jaxpr, run_flops
from autograder.instruments.watch_functions import function_name
from autograder.wording import count, repeated, tally

from .exhibits import marked_jaxpr

LOOPS = frozenset({"scan", "while"})
CALLBACKS = frozenset({"buffer_callback", "debug_callback", "debug_print", "io_callback", "pure_callback"})
SEALED = frozenset({"call_exported", "ffi_call"})  # equations that hide a whole program
MAX_LINES = 4


def assert_primitives(
    fn: Callable,
    *args: Any,
    includes: Collection[str] = (),
    excludes: Collection[str] = (),
    counts: Mapping[str, int] | None = None,
    smaller: Sequence[Any] | None = None,
    max_equations: int | None = None,
    max_flops: int | None = None,
    max_run_flops: int | None = None,
    max_intermediate: int | None = None,
    hint: str | None = None,
) -> None:
    """Check the jaxpr of `fn(*args)`, every sub-jaxpr included.

    fn                jitted, with static arguments too, or plain.
    args              its arguments, as for a call. Of an array only the type counts: float32[8,4].
    includes          primitives that must occur. "scan|while" is satisfied by either: `fori_loop` becomes a `scan`
                      when its bounds are static and a `while` when they are not.
    excludes          primitives that must not occur. One callback stands for all of them, `jax.debug.print` too.
    counts            primitive -> how many equations exactly; an equation in a loop's body is one equation.
    smaller           arguments like `args`, but of a smaller size: `fn` may have no more equations for `args` than for
                      these, and no more that lead to a result. What grows with the size was unrolled.
    max_equations     most equations in all, for a game of few equations; where size matters, ask for `smaller`.
                      Wrappers such as `jit` are not equations here (see `read_jaxpr`).
    max_flops         most floating-point operations, loop lengths multiplied, counted as XLA's HloCostAnalysis does
                      (see `flops`); fails when they cannot be read off the jaxpr. A `cond` counts its most expensive
                      branch, in each round of a loop around it.
    max_run_flops     most floating-point operations in the run with these values: a `cond` counts the branch that is
                      taken, a `while` the rounds that it makes. Not for static arguments.
    max_intermediate  most elements in any one value that an equation produces; inputs do not count.
    hint              one thing to try, in place of the general one, whatever does not hold.

    Prints one line with what was found, and returns nothing. Raises `CheckFailed` for the first that does not hold, and
    for an equation that hides a program (`call_exported`, `ffi_call`) unless it is asked for by name; ValueError for a
    name that never counts ("jit"). An error of `fn` under a tracer stays JAX's own. Nothing the check does is seen by a
    later count of traces.
    """
    includes, excludes = _names(includes), _names(excludes)
    counts = dict(counts or {})
    jaxpr = read_jaxpr.trace(fn, *args)
    found = _Found(function_name(fn), jaxpr, hint)
    _check_open(found, {*includes, *counts})
    if smaller is not None:
        _check_growth(found, jaxpr_statistics.statistics(read_jaxpr.trace(fn, *smaller)))
    for wanted in includes:
        _check_included(found, wanted)
    for unwanted in excludes:
        _check_excluded(found, unwanted)
    for primitive, number in counts.items():
        _check_count(found, _name(primitive), number)
    if max_equations is not None:
        _check_equations(found, max_equations)
    if max_flops is not None:
        _check_flops(found, max_flops, found.counts.flops, not found.counts.flops_lower_bound)
    if max_run_flops is not None:
        run = run_flops.run_flops(fn, *args)
        _check_flops(found, max_run_flops, *run, " in this run")
    if max_intermediate is not None:
        _check_intermediate(found, max_intermediate)

    evidence = [
        count(found.counts.equations, "equation")
        + (", no more than for smaller arguments" if smaller is not None else "")
    ]
    evidence += [f"{wanted.replace('|', ' or ')} is there" for wanted in includes]
    evidence += [f"no {unwanted}" for unwanted in excludes]
    evidence += [f"{primitive} {number}" for primitive, number in counts.items()]
    if max_flops is not None:
        evidence.append(f"{found.counts.flops:,} of {max_flops:,} FLOPs")
    if max_run_flops is not None:
        evidence.append(f"{run[0]:,} of {max_run_flops:,} FLOPs in this run")
    if max_intermediate is not None:
        evidence.append(f"largest intermediate {found.counts.largest}")
    passed(f"{found.name}: " + "; ".join(evidence))


class _Found:
    """A function's name, its equations and their counts; how its check fails."""

    def __init__(self, name: str, jaxpr: Any, hint: str | None):
        self.name, self.hint, self.jaxpr = name, hint, jaxpr
        self.counts = jaxpr_statistics.statistics(jaxpr)
        self.equations = list(read_jaxpr.equations(jaxpr))
        self.costs = list(flops.costs(jaxpr))

    def called(self, primitives: Collection[str]) -> list[JaxprEqn]:
        return [eqn for eqn in self.equations if eqn.primitive.name in primitives]

    @property
    def primitives(self) -> str:
        return f"its primitives: {tally(self.counts.primitives)}"

    def fail(
        self, happened: str, *, evidence: str, why: str, attempt: str, guilty: Collection[JaxprEqn] = ()
    ) -> NoReturn:
        exhibit = marked_jaxpr(self.name, self.jaxpr, guilty)
        fail(happened, evidence=evidence, why=why, attempt=self.hint or attempt, exhibit=exhibit)


def _names(names: Collection[str]) -> list[str]:
    return [_name(name) for name in ([names] if isinstance(names, str) else sorted(names))]


def _name(name: str) -> str:
    """`name` as it is, if equations of that name count."""
    if wrappers := read_jaxpr.WRAPPERS.intersection(name.split("|")):
        raise ValueError(f"{min(wrappers)!r} only wraps other equations: it is never counted, so do not ask for it")
    return name


def _lines(equations: list[JaxprEqn]) -> str:
    """The equations, equal ones on one line."""
    return repeated(map(read_jaxpr.equation_line, equations), MAX_LINES)


def _check_included(found: _Found, wanted: str) -> None:
    options = wanted.split("|")
    if found.called(options):
        return
    missing = " or ".join(options)
    if LOOPS.issuperset(options):
        _no_loop(found, missing)
    found.fail(
        f"`{found.name}` has no {missing}: expected at least one",
        evidence=found.primitives,
        why="a jaxpr records the operations that ran under the tracer. A result that was computed in another way, in "
        "NumPy, or not at all leaves other equations.",
        attempt=f"look at `show_jaxpr({found.name}, ...)` and find the equation that does this work now.",
    )


def _no_loop(found: _Found, missing: str) -> NoReturn:
    if other := found.called(LOOPS):
        kinds = {eqn.primitive.name for eqn in other}
        found.fail(
            f"`{found.name}` has a {min(kinds)}: expected a {missing}",
            evidence=_lines(other),
            why="`fori_loop` becomes a scan when its bounds are known while JAX traces, and a while when they are "
            "arguments. A known number of rounds is part of the program: another number is another program.",
            attempt="make the number of rounds an ordinary argument for a while, or a static one for a scan.",
            guilty=other,
        )
    found.fail(
        f"`{found.name}` has no loop in {count(found.counts.equations, 'equation')}: expected a {missing}",
        evidence=found.primitives,
        why="only JAX's own loops leave one on the jaxpr. A Python `for` or `while` runs while JAX traces: the jaxpr "
        "gets a copy of its body for every round.",
        attempt="write the loop with `jax.lax.fori_loop`, `jax.lax.scan` or `jax.lax.while_loop`: the value that "
        "changes from round to round is the carry.",
    )


def _check_growth(found: _Found, smaller: jaxpr_statistics.JaxprStatistics) -> None:
    if found.counts.equations <= smaller.equations:
        if found.counts.live > smaller.live:
            found.fail(
                f"`{found.name}` is unrolled: {count(found.counts.live, 'equation')} lead to its result, and "
                f"{smaller.live:,} for smaller arguments; the number must not grow with the size",
                evidence=f"in all it has {found.counts.equations:,} equations, and {smaller.equations:,} for smaller "
                "arguments: the others are used by nobody",
                why="a Python loop runs while JAX traces, and every round adds its equations.",
                attempt="roll the loop with `jax.lax.fori_loop` or `jax.lax.scan`.",
            )
        return
    before, now = smaller.primitives, found.counts.primitives
    grown = {name: number for name, number in now.most_common() if number > before[name]}
    lines = [f"{name}: {before[name]:,} -> {number:,}" for name, number in grown.items()]
    found.fail(
        f"`{found.name}` is unrolled: {count(found.counts.equations, 'equation')}, and "
        f"{smaller.equations:,} for smaller arguments; the number must not grow with the size",
        evidence="\n".join(lines[:MAX_LINES] + ["..."] * (len(lines) > MAX_LINES)),
        why="a Python loop runs while JAX traces, and every round adds its equations. Compile time grows with them.",
        attempt="roll the loop with `jax.lax.fori_loop` or `jax.lax.scan`, or do it in one operation on whole arrays.",
    )


def _check_open(found: _Found, asked_for: Collection[str]) -> None:
    guilty = found.called(SEALED - {name for names in asked_for for name in names.split("|")})
    if not guilty:
        return
    name = guilty[0].primitive.name
    found.fail(
        f"`{found.name}` calls a finished program ({name}), in which no equation can be seen",
        evidence=_lines(guilty),
        why="an exported or foreign program is one equation of the jaxpr, whatever it does.",
        attempt="call the function itself, so that its equations stand in the jaxpr.",
        guilty=guilty,
    )


def _check_excluded(found: _Found, unwanted: str) -> None:
    names = set(unwanted.split("|"))
    guilty = found.called(names | CALLBACKS if names & CALLBACKS else names)
    if not guilty:
        return
    name = guilty[0].primitive.name
    if name in LOOPS:
        why = "a loop takes one element after the other. `fori_loop`, `scan`, `while_loop` and `lax.map` all leave one."
        attempt = (
            "ask what each round needs of the one before. If it is nothing, write the function for a single element, "
            "and let `jax.vmap` or broadcasting do them all at once."
        )
    elif name in CALLBACKS:
        why = "a callback leaves the compiled program in the middle of a run, to call Python on the host."
        attempt = "compute this with `jax.numpy`; for looking at values, print outside the function."
    else:
        why = "a function of `jax.numpy` may be made of several primitives, and this is one of them."
        attempt = f"look at `show_jaxpr({found.name}, ...)`, find what brings in {name}, and write it differently."
    happened = f"`{found.name}` uses {name} ({count(len(guilty), 'equation')}), which this task leaves out"
    found.fail(happened, evidence=_lines(guilty), why=why, attempt=attempt, guilty=guilty)


def _check_count(found: _Found, primitive: str, expected: int) -> None:
    guilty = found.called(primitive.split("|"))
    if len(guilty) == expected:
        return
    if len(guilty) > expected:
        why = "the same work is written twice, or a Python loop repeats it while JAX traces."
        attempt = "compute it once and reuse the result, or put the repeated cases on a new axis and do them together."
    else:
        why = "a jaxpr records the operations that ran under the tracer; the work is done by other primitives here."
        attempt = f"look at `show_jaxpr({found.name}, ...)` and find the equations that do this work now."
    found.fail(
        f"`{found.name}` has {primitive} {len(guilty)} times: expected {expected}",
        evidence=_lines(guilty) or found.primitives,
        why=why,
        attempt=attempt,
        guilty=guilty,
    )


def _check_equations(found: _Found, most: int) -> None:
    if found.counts.equations <= most:
        return
    found.fail(
        f"`{found.name}` has {count(found.counts.equations, 'equation')}: expected at most {most:,}",
        evidence=found.primitives,
        why="every operation on arrays adds an equation, used or not, and a function of `jax.numpy` may add several.",
        attempt=f"look at `show_jaxpr({found.name}, ...)`: which equations say something twice, or could be joined? If "
        "there are more of them for a longer input, a Python loop is unrolled.",
    )


def _check_flops(found: _Found, most: int, flops_needed: int, exact: bool, when: str = "") -> None:
    if flops_needed > most:
        least = "" if exact else "at least "
        found.fail(
            f"`{found.name}` needs {least}{flops_needed:,} FLOPs{when}: expected at most {most:,}",
            evidence="the most expensive equations:\n" + _most_expensive(found),
            why="the order of operations decides how large the intermediate results are: (A @ B) @ v multiplies two "
            "matrices, A @ (B @ v) never does.",
            attempt="start with the first of these equations: make its operands smaller, or move it out of a loop.",
            guilty=[eqn for eqn, cost in found.costs if cost == max(cost for _, cost in found.costs)],
        )
    if not exact:
        found.fail(
            f"the FLOPs of `{found.name}` cannot be counted: expected at most {most:,}",
            evidence=_lines(list(filter(flops.hides_work, found.equations))) or found.primitives,
            why=flops.WHY_UNKNOWN,
            attempt="give the loop a fixed number of rounds (`fori_loop` with Python integers, or `scan`).",
        )


def _most_expensive(found: _Found) -> str:
    totals: Counter[str] = Counter()
    for eqn, cost in found.costs:
        totals[read_jaxpr.equation_line(eqn)] += cost
    return "\n".join(f"{cost:>13,}  {text}" for text, cost in totals.most_common(MAX_LINES))


def _check_intermediate(found: _Found, most: int) -> None:
    if found.counts.largest_size <= most:
        return
    guilty = [eqn for eqn in found.equations if any(read_jaxpr.elements(v.aval) > most for v in eqn.outvars)]
    found.fail(
        f"`{found.name}` makes an intermediate {found.counts.largest}, {found.counts.largest_size:,} elements: "
        f"expected at most {most:,}",
        evidence=_lines(guilty),
        why="broadcasting two arrays against each other, or stacking all steps of a loop, makes a value larger than "
        "both the input and the result.",
        attempt="contract while you compute (`jnp.einsum`, `@`), or keep a running result in a loop's carry.",
        guilty=guilty,
    )
