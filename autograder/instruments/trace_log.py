"""Count traces, compiles and cache hits, and say why each trace happened."""

import contextlib
import functools
import gc
import html
import inspect
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from autograder.jax_internals import (
    COMPILE_EVENT,
    LOWER_EVENT,
    TRACE_EVENT,
    event_function,
    frames_above,
    in_jax,
    is_jitted,
    trace_state,
    under_jit,
)
from autograder.wording import count

from .call_signature import Signature, call_text
from .watch_functions import (
    Watch,
    function_name,
    home,
    is_function,
    layers,
    observer_of,
    python_function,
    traced_function,
)


class Row(NamedTuple):
    """One `log.call`. `outcome` is "traced", "hit", "ran eagerly" or "raised"; `reason` says why, or what was raised.

    It is empty for a hit, and for a trace of a function that has no Python body to follow.
    """

    call: str
    outcome: str
    reason: str


class Reason(NamedTuple):
    """Why one trace happened. `kind` is "first", a kind of `Difference`, or "function", "caller",
    "transform", "cleared"."""

    kind: str
    text: str


@dataclass(frozen=True)
class _Run:
    """A followed function's body ran, with real values unless it is a `_Trace`."""

    code: types.CodeType
    inner: bool  # of another function, which ran below a followed one


@dataclass(frozen=True)
class _Trace(_Run):
    """A followed function's body ran to be traced."""

    signature: Signature
    function: Callable[[], Any] | None  # weak: a strong reference would change what JAX caches
    reason: Reason


class _Unheard(threading.local):
    deep = 0


_UNHEARD = _Unheard()


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """What JAX does in this thread until the block ends is in no log: values are on their way, and nobody calculates.
    See doors/judge."""
    _UNHEARD.deep += 1
    try:
        yield
    finally:
        _UNHEARD.deep -= 1


class TraceLog:
    """What `trace_log` returns; see there. `elsewhere` is one in another process, whose events are counted too."""

    def __init__(self, *fns: Callable, elsewhere: Any = None):
        self._elsewhere = elsewhere
        self._roots: list[types.CodeType] = []
        self._above: list[types.CodeType] = []  # of a followed function's own wrappers, if they are no library's
        self._called = False
        self._runs: list[_Run] = []
        self._traced_frames: dict[int, bool] = {}
        self._events: dict[str, list[tuple[str, float, float]]] = {
            TRACE_EVENT: [],
            LOWER_EVENT: [],
            COMPILE_EVENT: [],
        }
        self._watch = Watch(self._entered)
        self._outside: object = None
        self._thread: int | None = None
        self._pending = fns
        self.rows: list[Row] = []

    def __enter__(self) -> "TraceLog":
        self._outside = trace_state()
        self._thread = threading.get_ident()
        for fn in self._pending:
            if not self._follow(fn):
                self._watch.close()
                raise TypeError(f"trace_log cannot follow {fn!r}: it has no Python body of its own")
        jax.monitoring.register_event_duration_secs_listener(self._heard)
        if self._elsewhere is not None:
            self._elsewhere.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        jax.monitoring.unregister_event_duration_listener(self._heard)
        self._watch.close()
        self._traced_frames.clear()
        if self._elsewhere is not None:
            self._elsewhere.__exit__(None, None, None)

    def call(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Any:
        """Call `fn(*args, **kwargs)`, write a row about it, return the result, and go on following `fn`."""
        followed = self._follow(fn)
        text = call_text(function_name(fn), args, kwargs)
        runs, events = len(self._runs), len(self._events[TRACE_EVENT])
        try:
            result = fn(*args, **kwargs)
        except Exception as error:
            self.rows.append(Row(text, "raised", type(error).__name__))
            raise
        new = self._runs[runs:]
        if traces := _traces(new):
            row = Row(text, "traced", "; ".join(self._text(trace, qualified=False) for trace in traces))
        elif new:
            row = Row(text, "ran eagerly", "not jitted: the Python body ran with real values")
        elif followed or in_jax(fn):
            traced = not followed and len(self._events[TRACE_EVENT]) > events
            row = Row(text, "traced" if traced else "hit", "")
        else:
            row = Row(text, "ran eagerly", "not a JAX function")
        self.rows.append(row)
        return result

    @property
    def traces(self) -> int:
        return len(self.reasons)

    @property
    def own_traces(self) -> int:
        """Traces of the followed functions themselves, without those of functions they use."""
        return sum(not trace.inner for trace in _traces(self._runs))

    @property
    def eager(self) -> int:
        """Executions of the followed functions' own bodies with real values."""
        return sum(not isinstance(run, _Trace) for run in self._runs)

    @property
    def called(self) -> bool:
        """Whether a followed function started to run in Python: to be traced, with real values, or in a wrapper."""
        return self._called

    @property
    def compiles(self) -> int:
        return len(self.modules)

    @property
    def modules(self) -> list[str]:
        return [name for name, _, _ in self._all(COMPILE_EVENT)]

    @property
    def hits(self) -> int:
        return sum(row.outcome == "hit" for row in self.rows)

    @property
    def reasons(self) -> list[str]:
        if self._roots:
            return [self._text(trace) for trace in _traces(self._runs)]
        names = [name for name, _, _ in self._all(TRACE_EVENT)]
        again = [name in names[:i] for i, name in enumerate(names)]
        return [f"{n}: {'traced again' if a else 'first trace'}" for n, a in zip(names, again, strict=True)]

    @property
    def causes(self) -> list[Reason]:
        """As `reasons`, each with its kind. Only of followed functions."""
        return [trace.reason for trace in _traces(self._runs)]

    @property
    def seconds(self) -> dict[str, float]:
        """Time in each phase. A trace inside another trace is not counted twice."""
        phases = {"trace": TRACE_EVENT, "lower": LOWER_EVENT, "compile": COMPILE_EVENT}
        return {phase: _covered(self._all(event)) for phase, event in phases.items()}

    def heard(self, event: str) -> list[tuple[str, float, float]]:
        """JAX's events of this name: the function, the start in seconds, the duration."""
        return list(self._events[event])

    def _all(self, event: str) -> list[tuple[str, float, float]]:
        """As `heard`, with those of the other process."""
        there = [] if self._elsewhere is None else self._elsewhere.heard(event)
        return self.heard(event) + [(str(name), float(start), float(seconds)) for name, start, seconds in there]

    def __str__(self) -> str:
        lines = []
        if self.rows:
            rows = [("call", "outcome", "reason"), *self.rows]
            wide = [max(len(row[i]) for row in rows) for i in (0, 1)]
            lines += [f"{c:<{wide[0]}}  {o:<{wide[1]}}  {r}".rstrip() for c, o, r in rows]
        else:
            lines += [f"trace {i}: {reason}" for i, reason in enumerate(self.reasons, 1)]
        return "\n".join([*lines, self._summary()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head: tuple[str, ...] = ("call", "outcome", "reason")
        rows: Sequence[tuple[object, ...]] = self.rows
        if not rows:
            head, rows = ("trace", "reason"), list(enumerate(self.reasons, 1))
        cell = '<td style="text-align: left">{}</td>'.format
        body = "".join(f"<tr>{''.join(cell(html.escape(str(part))) for part in row)}</tr>" for row in rows)
        names = "".join(f'<th style="text-align: left">{name}</th>' for name in head)
        table = f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"{table}<p>{html.escape(self._summary())}</p>"

    def _summary(self) -> str:
        counts = [count(self.traces, "trace")]
        if self.rows:
            counts.append(count(self.hits, "hit"))
        counts.append(count(self.compiles, "XLA module"))
        times = ", ".join(f"{phase} {time * 1e3:.3g} ms" for phase, time in self.seconds.items())
        return f"{', '.join(counts)} built ({times})"

    # What happens while the block runs.

    def _follow(self, fn: Any) -> bool:
        function = traced_function(fn) if is_jitted(fn) else python_function(fn)
        if function is None:
            return False
        if not any(function.__code__ is root for root in self._roots):
            self._roots.append(function.__code__)
            self._watch.add(function.__code__)
            if not is_jitted(fn):  # the traces, if any, are of functions that it uses, however it comes by them
                namespaces = home(fn)
                for namespace in namespaces:
                    self._watch.add(namespace)
                for layer in layers(fn):
                    if isinstance(layer, types.FunctionType) and any(layer.__globals__ is n for n in namespaces):
                        self._above.append(layer.__code__)
        return True

    def _heard(self, event: str, duration_secs: float, **details: Any) -> None:
        if event in self._events and not _UNHEARD.deep:
            start = time.perf_counter() - duration_secs
            self._events[event].append((event_function(details), start, duration_secs))

    def _entered(self, frame: types.FrameType) -> None:
        code = frame.f_code
        inner = not any(code is root for root in self._roots)
        traced = self._trace_is_active() or (not inner and Signature.of_frame(frame).traced)
        self._traced_frames[id(frame)] = traced
        self._called = self._called or not inner or any(code is wrapper for wrapper in self._above)
        if inner and not (traced and is_function(code) and self._counts(frame)):
            return
        if traced:
            caller = _Caller.of(frame)
            if inner and not caller.traces:
                return
            signature = Signature.of_frame(frame)
            signature = Signature(signature.arguments, caller.keywords_of(signature))
            reason = self._reason(code, signature, caller)
            self._runs.append(_Trace(code, inner, signature, caller.function, reason))
        else:
            self._runs.append(_Run(code, inner))

    def _trace_is_active(self) -> bool:
        """Whether JAX is tracing in this thread. A function whose arguments are all static sees no tracer."""
        return trace_state() != (self._outside if self._in_own_thread() else _OUTSIDE)

    def _in_own_thread(self) -> bool:
        return threading.get_ident() == self._thread

    def _counts(self, frame: types.FrameType) -> bool:
        """Whether an inner function's run is below a followed function, and in no trace counted already."""
        above = frame.f_back
        while above is not None:
            if self._watch.sees(above):
                if self._traced_frames.get(id(above)):
                    return False
                if any(above.f_code is code for code in (*self._roots, *self._above)):
                    return True
            above = above.f_back
        return not self._in_own_thread()  # who started that thread cannot be seen; while the block runs, they did

    def _reason(self, code: types.CodeType, signature: Signature, caller: "_Caller") -> Reason:
        earlier = [trace for trace in _traces(self._runs) if trace.code is code]
        if not earlier:
            return Reason("first", "first call")
        if caller.python is None and not under_jit():
            return Reason("transform", "same function: outside jit, grad and vmap trace in every call")
        # The most similar earlier trace shows what was new; of equally similar ones, the latest.
        compared = [signature.differences(trace.signature) for trace in reversed(earlier)]
        differences = min(compared, key=lambda found: (sum(d.kind != "keyword" for d in found), len(found)))
        if differences:
            texts = [difference.text for difference in differences[:3]]
            if len(differences) > 3:
                texts.append(f"and {len(differences) - 3} more")
            return Reason(differences[0].kind, "; ".join(texts))
        if caller.python is not None:
            return Reason("caller", f"same arguments: called again while {caller.python} was traced")
        alike = [trace for trace in earlier if not signature.differences(trace.signature)]
        function = caller.function and caller.function()
        if function is not None and all(t.function is None or t.function() is not function for t in alike):
            return Reason("function", "same arguments, but a new function object")
        text = "same arguments, same function: its cache was cleared, or a JAX setting changed"
        return Reason("cleared", text)

    def _text(self, trace: _Trace, qualified: bool = True) -> str:
        several = trace.inner or (qualified and len(self._roots) > 1)
        return f"{trace.code.co_name}: {trace.reason.text}" if several else trace.reason.text


def _traces(runs: list[_Run]) -> list[_Trace]:
    return [run for run in runs if isinstance(run, _Trace)]


@dataclass(frozen=True)
class _Caller:
    """How a traced body was reached: by Python code, or by JAX for some function object."""

    python: str | None  # the name of the function that called it by itself, None if JAX did
    function: Callable[[], Any] | None = None  # weak reference to what was given to jit, grad, scan, ...
    keywords: frozenset[str] | None = None

    @classmethod
    def of(cls, frame: types.FrameType) -> "_Caller":
        # JAX passes the function and the keyword arguments down through its own frames. They are told by what
        # they are, not by the names of JAX's variables, and the frame nearest to the user's code wins.
        by_jax, function, keywords = False, None, None
        for variables, given in frames_above(frame):
            by_jax = True
            for value in variables.values():
                if _runs(value, frame.f_code) or (function is None and _hands_on(value, frame.f_code)):
                    function = value
            keywords = keywords if given is None else given
        if not by_jax:
            return cls(frame.f_back.f_code.co_name if frame.f_back else "?")
        return cls(None, None if function is None else weakref.ref(function), keywords)

    @property
    def traces(self) -> bool:
        """Whether the body runs because it is traced, and not by the way: JAX also calls the methods of a pytree."""
        return self.python is not None or self.function is not None

    def keywords_of(self, signature: Signature) -> frozenset[str] | None:
        return None if self.keywords is None else self.keywords & set(signature.arguments)


def _runs(value: Any, code: types.CodeType) -> bool:
    """Whether a call of `value` ends in this code. An object's own attributes are not asked: it may be anything."""
    if type(value) is types.GeneratorType:  # `generator.send`
        return value.gi_code is code
    if issubclass(type(value), (types.FunctionType, types.MethodType, functools.partial)):
        ends = layers(value)  # a function may wrap another, or say so
    else:
        ends = [inspect.getattr_static(type(value), "__call__", None)]
    return any(type(end) is types.FunctionType and end.__code__ is code for end in ends)


_DEEP = 4  # a partial of a partial


def _hands_on(value: Any, code: types.CodeType, deep: int = _DEEP) -> bool:
    """Whether a call of `value` may end in this code by way of something that is not in Python, such as `reduce`."""
    if issubclass(type(value), functools.partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif type(value) in (types.MethodWrapperType, types.BuiltinMethodType):  # `f.__call__`, `generator.send`
        inner = [value.__self__]
    elif _is_iterator(value):  # `partial(next, map(f, xs))`
        inner = gc.get_referents(value)
    elif type(value) is types.FunctionType:
        return False
    elif issubclass(type(value), type):  # what makes its objects; JAX makes those of a named tuple's by the way
        made = inspect.getattr_static(value, "__new__", None)
        inner = [] if _of_c(made) or hasattr(value, "_fields") else [getattr(made, "__func__", made)]
    else:
        call = inspect.getattr_static(type(value), "__call__", None)
        inner = [call.__func__] if isinstance(call, staticmethod | classmethod) else [] if _of_c(call) else [call]
        if _made_by_python(call):
            return True
    return bool(deep) and any(
        _runs(part, code) or ((callable(part) or _is_iterator(part)) and _hands_on(part, code, deep - 1))
        for part in inner
    )


def _of_c(call: Any) -> bool:
    """Whether what is called is a method that is not in Python, or one that is and has been looked at."""
    return call is None or isinstance(
        call, types.FunctionType | types.WrapperDescriptorType | types.MethodDescriptorType
    )


def _is_iterator(value: Any) -> bool:
    """Whether this is one of Python's own iterators, which call what they were made with."""
    return type(value).__module__ in ("builtins", "itertools") and hasattr(type(value), "__next__")


def _made_by_python(call: Any) -> bool:
    """Whether what is called is made anew by Python code, as `functools.partialmethod` does: it may be anything."""
    made = inspect.getattr_static(type(call), "__get__", None)
    return isinstance(made, types.FunctionType) or isinstance(call, property)


_OUTSIDE = trace_state()  # of every thread that traces nothing


def trace_log(*fns: Callable) -> TraceLog:
    """Count traces, compiles and cache hits inside a `with` block, and say why each trace happened.

    fns  the functions to follow, jitted or plain; without any, every trace of JAX's is counted, those of its own
         helpers included. A function that is not jitted is followed into the functions it uses: what they trace
         counts.

        with trace_log(f) as log:
            f(x)
            log.call(f, y)
        print(log)

    Returns a `TraceLog`: `.traces` (how many), `.reasons` (a text for each), `.compiles` and `.modules` (number and
    names of the XLA modules that were built), `.seconds` (by phase: "trace", "lower", "compile"). `log.call(f, *args)`
    calls `f` and writes a row about it: `.rows`, with `.hits` among them.

    Nothing is cleared: a function that was traced before the block hits its cache. Reasons compare with what was traced
    inside the block, so that a function's first trace there is its "first call".

    The block raises TypeError at its start for something in `fns` that has no Python body to follow.

    Source: traces of `fns` are counted by the starts of their Python bodies, all else by events of `jax.monitoring`.
    """
    elsewhere = observer_of(*fns[:1])
    if elsewhere is None:
        return TraceLog(*fns)
    return elsewhere("trace_log", *fns) if fns else TraceLog(elsewhere=elsewhere("trace_log"))


def _covered(spans: list[tuple[str, float, float]]) -> float:
    """Seconds covered by spans (name, start, duration), some of which lie inside others."""
    total, end = 0.0, float("-inf")
    for _, start, duration in sorted(spans, key=lambda span: span[1]):
        total += max(0.0, start + duration - max(start, end))
        end = max(end, start + duration)
    return total
