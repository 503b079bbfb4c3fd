"""Observe when a Python function's body starts to run.

JAX runs the body of a jitted function only to trace it, unless `jax_disable_jit` is on. So counting starts of the body
counts traces exactly, where counting JAX's events by name cannot tell two functions of one name apart. What is watched
is the code object: closures and lambdas that a loop makes anew are different functions, but they share it.
"""

import contextlib
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from autograder.jax_internals import in_jax

OnEntry = Callable[[types.FrameType], None]


def python_function(fn: Any) -> types.FunctionType | None:
    """The function whose body runs in the end when `fn` is called, or None if that is not in Python."""
    end = layers(fn)[-1]
    return end if isinstance(end, types.FunctionType) else None


def function_name(fn: Any) -> str:
    """The name a learner knows a function by."""
    for candidate in (fn, python_function(fn)):
        if name := getattr(candidate, "__name__", None):
            return name
    return type(fn).__name__


def layers(fn: Any) -> list[Any]:
    """`fn` and what it wraps, from the outside to the inside.

    Follows jit, grad, vmap and decorators (all leave `__wrapped__`), partials, bound methods, and objects
    with a `__call__`. The last one is a function, or something into whose body one cannot look: a class, a ufunc.
    """
    found = [fn]
    while len(found) < 100:  # a decorator could wrap itself
        fn = found[-1]
        if isinstance(fn, functools.partial):
            found.append(fn.func)
        elif isinstance(fn, types.MethodType):
            found.append(fn.__func__)
        elif getattr(fn, "__wrapped__", None) is not None:
            found.append(fn.__wrapped__)
        elif isinstance(fn, (types.FunctionType, type)) or in_jax(fn):
            break
        else:
            method = inspect.getattr_static(type(fn), "__call__", None)
            if not isinstance(method, types.FunctionType):
                break
            found.append(method)
    return found


def used_functions(fn: types.FunctionType) -> list[Any]:
    """What a plain function may run: the functions it names, and the code objects of those it defines inside.

    Only what the same notebook or module defines. Goes on into plain functions, but not into wrapped ones:
    what a jitted function uses belongs to its trace.
    """
    found: list[Any] = []
    seen = {id(fn)}
    ahead = [fn]
    while ahead:
        function = ahead.pop()
        codes = [function.__code__]
        for code in codes:  # grows while it is read
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        # Comprehensions and class bodies have code objects too, and those of the former look like functions.
        inside = [code for code in codes[1:] if code.co_flags & inspect.CO_NEWLOCALS]
        found += [code for code in inside if code.co_name not in _NO_FUNCTIONS]
        names = {name for code in codes for name in code.co_names}
        values = [function.__globals__[name] for name in names if name in function.__globals__]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # still empty
                values.append(cell.cell_contents)
        for value in values:
            end = python_function(value)
            if end is None or end.__globals__ is not fn.__globals__ or id(value) in seen:
                continue
            seen.add(id(value))
            found.append(value)
            if end is value:
                ahead.append(value)
    return found


_NO_FUNCTIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


class Watch:
    """Calls `on_entry` with the frame each time that one of the added code objects starts to run."""

    def __init__(self, on_entry: OnEntry):
        self._on_entry = on_entry
        self.codes: list[types.CodeType] = []

    def add(self, code: types.CodeType) -> None:
        if not any(code is known for known in self.codes):
            self.codes.append(code)
            _hub.add(code, self._on_entry)

    def close(self) -> None:
        while self.codes:
            _hub.remove(self.codes.pop(), self._on_entry)


class _Hub:
    """All watches of the process, so that they can be nested or overlap.

    Code objects are told apart by identity: two that were compiled from the same source compare equal.
    """

    def __init__(self) -> None:
        self._watched: dict[int, tuple[types.CodeType, list[OnEntry]]] = {}
        self._lock = threading.RLock()
        self._source: _Monitoring | _Profiling | None = None

    def add(self, code: types.CodeType, on_entry: OnEntry) -> None:
        with self._lock:
            if self._source is None:
                self._source = _Monitoring.claim(self.entered) or _Profiling(self.entered)
            _, callbacks = self._watched.setdefault(id(code), (code, []))
            callbacks.append(on_entry)
            self._source.observe(code, True)

    def remove(self, code: types.CodeType, on_entry: OnEntry) -> None:
        with self._lock:
            assert self._source is not None  # it comes with the first code, and goes with the last
            _, callbacks = self._watched[id(code)]
            callbacks.remove(on_entry)
            if not callbacks:
                del self._watched[id(code)]
                self._source.observe(code, False)
            if not self._watched:
                self._source.release()
                self._source = None

    def entered(self, frame: types.FrameType) -> None:
        watched = self._watched.get(id(frame.f_code))
        if watched:
            for on_entry in tuple(watched[1]):
                on_entry(frame)


class _Monitoring:
    """Python 3.12 and later report the start of just the code objects asked for, at no other cost."""

    def __init__(self, tool: int, entered: OnEntry):
        self._tool = tool
        event = sys.monitoring.events.PY_START
        sys.monitoring.register_callback(tool, event, lambda code, offset: entered(sys._getframe(1)))

    @classmethod
    def claim(cls, entered: OnEntry) -> "_Monitoring | None":
        if not hasattr(sys, "monitoring"):
            return None
        # 0, 1, 2 and 5 are meant for debuggers, coverage, profilers and optimisers.
        for tool in (4, 3):
            if sys.monitoring.get_tool(tool) is None:
                sys.monitoring.use_tool_id(tool, "autograder")
                return cls(tool, entered)
        return None

    def observe(self, code: types.CodeType, on: bool) -> None:
        events = sys.monitoring.events
        sys.monitoring.set_local_events(self._tool, code, events.PY_START if on else events.NO_EVENTS)

    def release(self) -> None:
        sys.monitoring.register_callback(self._tool, sys.monitoring.events.PY_START, None)
        sys.monitoring.free_tool_id(self._tool)


class _Profiling:
    """Python 3.11, or a later one without a free tool: every call in this thread is reported, to one profiler.

    An earlier profiler hears them too, and is put back.
    """

    def __init__(self, entered: OnEntry):
        earlier: Any = sys.getprofile()  # a function, or an object of cProfile's that cannot be called
        self._earlier = earlier

        def profile(frame: types.FrameType, event: str, argument: Any) -> None:
            if event == "call":
                entered(frame)
            if callable(earlier):
                earlier(frame, event, argument)

        sys.setprofile(profile)

    def observe(self, code: types.CodeType, on: bool) -> None:
        pass  # `entered` looks the code up

    def release(self) -> None:
        if self._earlier is None or callable(self._earlier):
            sys.setprofile(self._earlier)
        else:
            self._earlier.enable()  # cProfile is written in C and can only start itself


_hub = _Hub()
