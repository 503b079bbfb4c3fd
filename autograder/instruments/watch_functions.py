"""Observe when a Python function's body starts to run.

JAX runs the body of a jitted function only to trace it, unless `jax_disable_jit` is on. So counting starts of the body
counts traces exactly, where counting JAX's events by name cannot tell two functions of one name apart. What is watched
is the code object: closures and lambdas that a loop makes anew are different functions, but they share it. Or it is
all code of a namespace, a notebook's or a module's: then it does not matter what keeps the function.
"""

import functools
import gc
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autograder.jax_internals import JITTED, in_flax, in_jax

# A function that runs in another process is observed there: by what stands for it here, what makes an instrument for it
# of a public name and its arguments. See doors/judge.
observed_elsewhere: list[Callable[..., Callable[..., Any] | None]] = []


def observer_of(*fn: Any) -> Callable[..., Any] | None:
    """What makes an instrument for a function that runs in another process, without one for all that runs there; None
    for any other function, and if there is no such process."""
    return next((found for ask in observed_elsewhere if (found := ask(*fn)) is not None), None)


OnEntry = Callable[[types.FrameType], None]
Entered = Callable[[types.FrameType], bool]  # whether anybody wants to know


def python_function(fn: Any) -> types.FunctionType | None:
    """The function whose body runs in the end when `fn` is called, or None if that is not in Python."""
    end = layers(fn)[-1]
    return end if isinstance(end, types.FunctionType) else None


def traced_function(fn: Any) -> types.FunctionType | None:
    """The function whose body JAX runs to trace a jitted `fn`: the outermost one below JAX's own, which may itself wrap
    another, or say so. None if that is not in Python."""
    return next((layer for layer in layers(fn) if type(layer) is types.FunctionType and not _of_jax(layer)), None)


def _of_jax(function: types.FunctionType) -> bool:
    return function.__globals__.get("__name__", "").startswith("jax.")


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
        kind = type(fn)  # what an object says of its class may be anything
        method = inspect.getattr_static(kind, "__call__", None)  # what is called, whatever else the object holds
        if method is functools.partial.__call__:
            found.append(fn.func)
        elif kind is types.MethodType:
            found.append(fn.__func__)
        elif isinstance(method, types.FunctionType) and not (in_jax(fn) or in_flax(fn)):
            found.append(method)
        elif getattr(fn, "__wrapped__", None) is not None and not _claims_to_wrap(fn):
            found.append(fn.__wrapped__)
        elif isinstance(method, types.FunctionType) and not in_jax(fn):
            found.append(method)
        else:
            break
    return found


def _claims_to_wrap(fn: Any) -> bool:
    """Whether the class of an object has `__wrapped__`, which any class may say; what wraps notes it on the object."""
    own = inspect.getattr_static(type(fn), "__wrapped__", None) is not None
    return own and not isinstance(fn, type) and not in_jax(fn)


def home(fn: Any) -> list[dict[str, Any]]:
    """The namespaces of the notebooks or modules that define `fn` and what it wraps; JAX's own are left out."""
    found: dict[int, dict[str, Any]] = {}
    for layer in layers(fn):
        if isinstance(layer, types.FunctionType) and not _of_jax(layer):
            found[id(layer.__globals__)] = layer.__globals__
    return list(found.values())


def functions_of(namespaces: list[dict[str, Any]]) -> list[Any]:
    """Every function of these namespaces that exists now, whoever keeps it, and everything jitted from one."""
    wanted = set(map(id, namespaces))
    found: list[Any] = []
    # By exact type, as of some objects even the class, asked for by isinstance, runs somebody's code.
    for value in gc.get_objects():
        kind = type(value)
        if kind is types.FunctionType:
            if id(value.__globals__) in wanted:
                found.append(value)
        elif kind is JITTED:
            end = python_function(value)
            if end is not None and id(end.__globals__) in wanted:
                found.append(value)
    return found


def reachable(fn: Any) -> Iterator[Any]:
    """What `fn` can come by: through the names it uses, its closure, defaults, attributes, instances and containers.

    Goes into the functions and classes of the same notebook or module, and not into modules or things of JAX's.
    """
    namespaces = home(fn)
    names_of_modules = {namespace.get("__name__") for namespace in namespaces}
    ahead, seen = [fn], {id(namespace) for namespace in namespaces}
    while ahead and len(seen) < _MOST_OBJECTS:
        value = ahead.pop()
        if id(value) in seen or isinstance(value, (types.ModuleType, str, bytes, np.ndarray)):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, types.FunctionType):
            ahead += [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
            if any(value.__globals__ is namespace for namespace in namespaces):
                names = {name for code in codes(value) for name in code.co_names}
                ahead += [value.__globals__[name] for name in names if name in value.__globals__]
        elif isinstance(value, type):
            if value.__module__ in names_of_modules:
                ahead += [*value.__bases__, *vars(value).values()]
        elif not in_jax(value) or isinstance(value, functools.partial):
            ahead += gc.get_referents(value)


def is_function(code: types.CodeType) -> bool:
    """Whether code is the body of a function or lambda, and not of a module, a class or a comprehension."""
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and code.co_name not in _NO_FUNCTIONS


def codes(fn: types.FunctionType) -> list[types.CodeType]:
    """The code object of a function and all that are defined inside it."""
    found = [fn.__code__]
    for outer in found:  # grows while it is read
        found += [inner for inner in outer.co_consts if isinstance(inner, types.CodeType)]
    return found


_NO_FUNCTIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_MOST_OBJECTS = 10_000  # a function that names the notebook's shell could come by everything


class Watch:
    """Calls `on_entry` with the frame each time that something starts to run: one of the added code objects, or any
    code whose globals are an added namespace."""

    def __init__(self, on_entry: OnEntry):
        self._on_entry = on_entry
        self._added: list[types.CodeType | dict[str, Any]] = []

    def add(self, what: types.CodeType | dict[str, Any]) -> None:
        if not any(what is known for known in self._added):
            self._added.append(what)
            _hub.add(what, self._on_entry)

    def sees(self, frame: types.FrameType) -> bool:
        """Whether the start of a frame is told."""
        return any(frame.f_code is what or frame.f_globals is what for what in self._added)

    def close(self) -> None:
        while self._added:
            _hub.remove(self._added.pop(), self._on_entry)


class _Hub:
    """All watches of the process, so that they can be nested or overlap.

    Code objects are told apart by identity: two that were compiled from the same source compare equal.
    """

    def __init__(self) -> None:
        self._watched: dict[int, tuple[types.CodeType | dict[str, Any], list[OnEntry]]] = {}
        self._lock = threading.RLock()
        self._source: _Monitoring | _Profiling | None = None

    def add(self, what: types.CodeType | dict[str, Any], on_entry: OnEntry) -> None:
        with self._lock:
            if self._source is None:
                self._source = _Monitoring.claim(self.entered) or _Profiling(self.entered)
            _, callbacks = self._watched.setdefault(id(what), (what, []))
            callbacks.append(on_entry)
            self._source.observe(what, True)

    def remove(self, what: types.CodeType | dict[str, Any], on_entry: OnEntry) -> None:
        with self._lock:
            assert self._source is not None  # it comes with the first watch, and goes with the last
            _, callbacks = self._watched[id(what)]
            callbacks.remove(on_entry)
            if not callbacks:
                del self._watched[id(what)]
                self._source.observe(what, False)
            if not self._watched:
                self._source.release()
                self._source = None

    def entered(self, frame: types.FrameType) -> bool:
        """Tell every watch that a frame has started; False if none of them wants to know."""
        told = [self._watched[key][1] for key in (id(frame.f_code), id(frame.f_globals)) if key in self._watched]
        for on_entry in dict.fromkeys(one for callbacks in told for one in callbacks):
            on_entry(frame)
        return bool(told)


class _Monitoring:
    """Python 3.12 and later report the starts of just the code objects asked for, at no other cost.

    For a namespace every start is reported once, and a code object of another namespace is then left alone. A generator
    that is resumed starts to run as well, as a profiler has it.
    """

    def __init__(self, tool: int, entered: Entered):
        self._tool = tool
        self._namespaces = 0

        def started(code: types.CodeType, offset: int) -> Any:
            return None if entered(sys._getframe(1)) else sys.monitoring.DISABLE

        def thrown_into(code: types.CodeType, offset: int, error: BaseException) -> None:
            entered(sys._getframe(1))

        events = sys.monitoring.events
        self._callbacks: dict[int, Any] = {
            events.PY_START: started,
            events.PY_RESUME: started,
            events.PY_THROW: thrown_into,
        }
        for event, callback in self._callbacks.items():
            sys.monitoring.register_callback(tool, event, callback)

    @classmethod
    def claim(cls, entered: Entered) -> "_Monitoring | None":
        if not hasattr(sys, "monitoring"):
            return None
        # 0, 1, 2 and 5 are meant for debuggers, coverage, profilers and optimisers.
        for tool in (4, 3):
            if sys.monitoring.get_tool(tool) is None:
                sys.monitoring.use_tool_id(tool, "autograder")
                return cls(tool, entered)
        return None

    def observe(self, what: types.CodeType | dict[str, Any], on: bool) -> None:
        events = sys.monitoring.events
        if isinstance(what, types.CodeType):
            wanted = events.PY_START | events.PY_RESUME if on else events.NO_EVENTS
            sys.monitoring.set_local_events(self._tool, what, wanted)
        else:
            self._namespaces += 1 if on else -1
            wanted = events.PY_START | events.PY_RESUME | events.PY_THROW if self._namespaces else events.NO_EVENTS
            sys.monitoring.set_events(self._tool, wanted)
        if on:
            sys.monitoring.restart_events()  # what was left alone may be wanted now

    def release(self) -> None:
        for event in self._callbacks:
            sys.monitoring.register_callback(self._tool, event, None)
        sys.monitoring.free_tool_id(self._tool)


class _Profiling:
    """Python 3.11, or a later one without a free tool: every call in this thread, and in those that it starts, is
    reported to one profiler.

    An earlier profiler hears them too, and is put back.
    """

    def __init__(self, entered: Entered):
        earlier: Any = sys.getprofile()  # a function, or an object of cProfile's that cannot be called
        self._earlier = earlier

        def profile(frame: types.FrameType, event: str, argument: Any) -> None:
            if event == "call":
                entered(frame)
            if callable(earlier):
                earlier(frame, event, argument)

        sys.setprofile(profile)
        self._earlier_in_threads = threading.getprofile()
        threading.setprofile(profile)  # in those that are started from now on

    def observe(self, what: types.CodeType | dict[str, Any], on: bool) -> None:
        pass  # `entered` looks it up

    def release(self) -> None:
        threading.setprofile(self._earlier_in_threads)
        if self._earlier is None or callable(self._earlier):
            sys.setprofile(self._earlier)
        else:
            self._earlier.enable()  # cProfile is written in C and can only start itself


_hub = _Hub()
