"""How often may JAX trace a function?"""

import types
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

import jax

from autograder.failure import fail, passed
from autograder.instruments.trace_log import TraceLog
from autograder.instruments.watch_functions import (
    Watch,
    codes,
    function_name,
    functions_of,
    home,
    layers,
    observer_of,
    python_function,
    reachable,
)
from autograder.jax_internals import COMPILED_CALL, clear_cache, in_jax, is_jitted
from autograder.wording import count

from .exhibits import retraces


class assert_max_traces:
    """A context manager that allows `n` traces of `fn` inside the block.

    fn  the function, jitted or plain. What counts is how often JAX runs its Python body to trace it. Where a
        plain function runs by itself, every trace below it of a function of the same notebook or module counts
        instead, whatever keeps that function: a name, a dict, a cache, a closure, an instance. What is traced inside
        such a trace belongs to it; what JAX traces of its own does not count.
    n   the most traces: a whole number. For 1 or more the block starts with an empty cache, for a plain function those
        of all functions of its notebook or module, so it finds the same every time it is run. For 0 the caches are
        left alone: the block may only repeat what was traced before.

        with assert_max_traces(step, 1) as log:
            step(x)
            step(x + 1)

    `as` gives the `TraceLog` of the block (see `trace_log`). Prints one line when the traces are few enough.
    Raises `CheckFailed` when there are more, with the reason for each; when `fn` ran with real arrays and neither it
    nor anything below it was traced, because nothing is jitted; when it was not called, for `n` of 1 or more; and when
    it has no Python body. Raises ValueError for an `n` that is no whole number from 0 up. An exception from the block
    passes through.

    Source: what makes JAX trace again is told in https://docs.jax.dev/en/latest/201/jit.html.
    """

    def __new__(cls, fn: Callable, n: int) -> Any:
        """The same where the function is: what runs in another process is observed there."""
        elsewhere = observer_of(fn)
        return super().__new__(cls) if elsewhere is None else elsewhere("assert_max_traces", fn, n)

    def __init__(self, fn: Callable, n: int):
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ValueError(f"assert_max_traces: n must be a whole number from 0 up, got {n!r}")
        self._fn, self._n = fn, n

    def __enter__(self) -> TraceLog:
        self._name = function_name(self._fn)
        if python_function(self._fn) is None:
            fail(
                f"{self._name} is no Python function: expected one that can be traced.",
                why="it is a compiled object, a function written in C, or not a function at all.",
                attempt="pass the function itself, decorated with @jax.jit, without calling it.",
            )
        if self._n:
            below = [] if is_jitted(self._fn) else functions_of(home(self._fn))
            for fn in [*layers(self._fn), *below]:
                clear_cache(fn)
        self._programs: dict[int, Any] = {}  # compiled ahead, and called in the block
        self._watch = Watch(self._program_called)
        self._log = TraceLog(self._fn)
        log = self._log.__enter__()
        self._watch.add(COMPILED_CALL)
        return log

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._watch.close()
        self._log.__exit__(kind, error, trace)
        if error is not None:
            return
        log = self._log
        if log.traces > self._n:
            self._too_many()
        if not log.traces and log.eager and not self._is_compiled():
            self._not_jitted()
        if not log.called and self._n:
            fail(
                f"{self._name} was not called: expected calls inside the block.",
                why="another function was called in its place, or the loop around the call ran zero times.",
                attempt=f"call {self._name} itself in the block.",
            )
        traces = count(log.traces, "trace") if log.traces else "no trace"
        passed(f"{self._name}: {traces} in this block, {_allowed(self._n)}")

    def _too_many(self) -> NoReturn:
        log = self._log
        causes = [reason for reason in log.causes if reason.kind != "first"] or log.causes
        [(commonest, _)] = Counter(cause.kind for cause in causes).most_common(1)
        why, attempt = _REMEDIES[commonest]
        reasons = log.reasons
        lines = [f"trace {i}: {reason}" for i, reason in enumerate(reasons, 1)]
        if len(lines) > 8:
            lines = [*lines[:5], f"... {len(lines) - 6} more ...", lines[-1]]
        if log.own_traces:
            happened = f"{self._name} was traced {_times(len(reasons))}, {_allowed(self._n)}."
        else:
            happened = f"{self._name} uses functions that were traced {_times(len(reasons))}, {_allowed(self._n)}."
        fail(
            happened,
            evidence="\n".join(lines),
            why=why,
            attempt=attempt,
            exhibit=retraces([(r.removesuffix(c.text)[:-2], c.text) for r, c in zip(reasons, log.causes, strict=True)]),
        )

    def _program_called(self, frame: types.FrameType) -> None:
        program = frame.f_locals.get("self")
        self._programs[id(program)] = program

    def _is_compiled(self) -> bool:
        """Whether `fn` calls what need not be traced: a program compiled ahead, which was called in the block, or may
        call a jitted function, where the caches were left alone."""
        mine = home(self._fn)
        for value in reachable(self._fn):
            if id(value) in self._programs:
                return True
            if self._n == 0:
                end = python_function(value) if in_jax(value) and is_jitted(value) else None
                if end is not None and any(end.__globals__ is namespace for namespace in mine):
                    return True
                if isinstance(value, types.FunctionType) and any("jit" in code.co_names for code in codes(value)):
                    return True
        return False

    def _not_jitted(self) -> NoReturn:
        settings: Any = jax.config  # JAX 0.10 does not type what it holds
        function = python_function(self._fn)
        if settings.jax_disable_jit:
            why, attempt = "jax_disable_jit is on, which turns jit off.", "switch jax_disable_jit off."
        elif function is None or "<" in function.__qualname__:  # a lambda, or made by another function
            why = "it was made by a lambda or inside another function, and was not given to jax.jit there."
            attempt = "give it to jax.jit where it is made, and keep and call what jax.jit returns."
        else:
            why = "the @jax.jit line is missing, or the jitted function got another name."
            attempt = f"put @jax.jit on the line above def {self._name}."
        fail(
            f"{self._name} is not jitted: its Python body ran {_times(self._log.eager)} with real arrays, "
            "expected a trace.",
            why=why,
            attempt=attempt,
        )


def _allowed(n: int) -> str:
    return f"at most {n} allowed" if n else "none allowed"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


# For the commonest kind of reason: why it usually happens, and one thing to try.
_REMEDIES = {
    "first": (
        "JAX traces at the first call, and again for arguments of another kind.",
        "call the function once before the block, with such arguments.",
    ),
    "shape": (
        "the shape belongs to the cache key: JAX compiles one program for each shape.",
        "bring the inputs to one shape before the call, for example by padding.",
    ),
    "dtype": (
        "the dtype belongs to the cache key, and a Python int and a Python float differ in it.",
        "convert the argument to one dtype before the call, for example with jnp.float32(...).",
    ),
    "weak": (
        "a Python number is a weakly typed array for JAX, which is another type than jnp.float32(...).",
        "pass the same kind every time: always a Python number, or always an array.",
    ),
    "type": (
        "the type belongs to the cache key, and with it how the array is laid out over devices.",
        "place every input alike with jax.device_put before the call.",
    ),
    "static": (
        "a static argument is part of the program, so each new value is traced and compiled.",
        "make it an ordinary argument, unless it decides a shape or a Python branch.",
    ),
    "structure": (
        "containers belong to the cache key: a list is not a tuple, and a new dict key is a new tree.",
        "pass the same container with the same keys every time.",
    ),
    "keyword": (
        "how arguments are passed belongs to the cache key: f(x, y) and f(x, y=y) differ.",
        "write every call in the same way.",
    ),
    "function": (
        "the cache belongs to the function object. A lambda, a partial, a bound method or a def "
        "inside the loop makes a new one each time.",
        "make the function and its jax.jit once, outside the loop or at the top of the notebook.",
    ),
    "caller": (
        "it is called from a function that is itself being traced, so its body runs at each such call.",
        "follow the function that calls it: trace_log(outer) says why that one is traced.",
    ),
    "transform": (
        "jax.grad and jax.vmap have no cache of their own. They run the Python body in every call.",
        "put jax.jit around the outside: jax.jit(jax.grad(f)), made once.",
    ),
    "cleared": (
        "the cache was emptied in between, or the function was jitted again with other options.",
        "jit once, and leave clear_cache and jax.clear_caches out of the loop.",
    ),
}
