"""Call a function where neither JAX nor this notebook exists: it has its arguments, its own cell, and plain Python."""

import ast
import contextlib
import inspect
import io
import json
import linecache
import os
import pickle
import subprocess
import symtable
import sys
import threading
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from autograder.failure import fail
from autograder.not_begun import STUB, NotBegun

from . import alone_child
from .plain_values import a

SECONDS = 5  # for what the function calculates; starting Python and loading NumPy come on top
_START = 60  # seconds until a slow machine has started Python
_PRINTED = 10_000  # characters of what it prints
_PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range, slice)
# What a system may need to start Python.
_VARIABLES = (
    "PATH",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "SYSTEMROOT",
    "TMPDIR",
    "TEMP",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
)
# As they were when this module was read: an answer may change its own, and what it has measured could travel in one.
_ENVIRONMENT = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
_STANDARD, _NUMPY = os.path.dirname(os.__file__), os.path.dirname(np.__file__)


class Written(NamedTuple):
    """Where a function of another process comes from: its cell and its name there, and the names that it finds here."""

    source: str
    file: str
    name: str
    names: Mapping[str, Any]


# Where a notebook is graded: what becomes of a cell, and what is called first where it is run again ("module:function",
# or empty), given its text and whether NumPy is there. See `doors.guard.closing`.
as_graded: Callable[[str, bool], tuple[ast.Module, str]] | None = None
written_elsewhere: WeakKeyDictionary[Any, Written] = WeakKeyDictionary()  # by what stands here for such a function


def run_alone(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)`, calculated in a Python of its own, where neither JAX nor this notebook exists.

    fn    a function of the notebook. With it come the other functions, classes and values of its cell (the cell is run
          again there), numbers, text, lists and arrays of the notebook that the cell names, the standard library, and
          NumPy. Everything else has a name there, and no use.
    args  what it is called with: plain values. A function or an object is lent: it can be called there, and its
          methods can, but what is done is done here, and nothing else of it can be read.

    Returns what `fn` returns: numbers, strings, booleans, None, and lists, tuples and dicts of these; an array comes
    back as a list. Raises `CheckFailed` when `fn` uses what is not there, fails, or does not end within 5 seconds,
    `NotBegun` when it is still a stub, and NameError when a name exists nowhere. Nothing of this can be measured: that
    is what it is for.
    """
    why = "it finds its answer by itself: it is run in plain Python, where neither JAX nor this notebook exists."
    return call_alone(fn, args, {}, why=why, attempt="use its arguments and plain Python alone.")


def call_alone(fn: Callable[..., Any], args: tuple, keywords: Mapping[str, Any], *, why: str, attempt: str) -> Any:
    """As `run_alone`; `why` and `attempt` are said when `fn` uses what is not there."""
    inner: Any = fn if _is_elsewhere(fn) else _python(fn)
    if inner is None:
        fail(
            f"There is {a(fn)} where a function is asked for.",
            why="the name of the function was given to something else.",
            attempt="write it with def, under the name that it had.",
        )
    source, file, name, names = written_elsewhere[fn] if _is_elsewhere(fn) else _written(fn, inner)
    if not name:
        fail(
            f"{inner.__qualname__} does not stand by itself in a cell.",
            why="it was made by a function of another cell, or inside another function.",
            attempt="write it with def at the left edge of its cell.",
        )
    packer = _Packer(names)
    packed = packer.pack({n: names[n] for n in _taken(source) if n in names}, args, dict(keywords))
    numpy = os.path.dirname(_NUMPY) if packer.numpy or "numpy" in source else ""
    task = {"source": source, "file": file, "name": name, "numpy": numpy, "libraries": [_STANDARD, _NUMPY]}
    if as_graded is not None:
        tree, first = as_graded(source, bool(numpy))
        task |= {"tree": pickle.dumps(tree).hex(), "first": first}
    reply = _run(task, packed, packer.lent)
    print(reply.get("printed", "")[:_PRINTED], end="")
    if "value" in reply:
        return alone_child.decode(reply["value"])
    if (reply.get("error"), reply.get("text")) == ("NotImplementedError", STUB):
        raise NotBegun(name)
    if reply.get("error") == "NameError" and reply["name"] not in names:  # of a cell that has not been run, or of none
        raise NameError(reply["text"], name=reply["name"])
    evidence = []
    if reply.get("line"):
        evidence.append(f"line {reply['line']} of its cell: {linecache.getline(file, reply['line']).strip()}")
    if reply.get("error") in ("ModuleNotFoundError", "NameError"):  # the other names are the notebook's
        reply |= {"missing": reply["name"], "own": False, "made_with": ""}
    if "missing" in reply:
        missing = reply["missing"]
        if reply["made_with"]:
            evidence.append(f"{missing} cannot be made there: its line of the cell {reply['made_with']}")
        if reply["own"]:
            attempt += f" If {missing} is a helper of your own, put it into the same cell."
        happened = f"{name} uses {missing}, which does not exist where it is run."
        if missing == name:
            happened = f"{name} cannot be made where it is run."
        fail(happened, evidence="\n".join(evidence), why=why, attempt=attempt)
    if "error" in reply:
        fail(
            f"{name} stopped with {reply['error']}: {reply['text']}",
            evidence="\n".join(evidence),
            why="it fails for the arguments of this check, whatever it does for others.",
            attempt=f"call {name} in a cell of your own, and read the last line of what Python says.",
        )
    if reply["late"]:
        fail(
            f"{name} did not end within {SECONDS} seconds.",
            why="a loop or a recursion does not come to its end, or takes many more rounds than the answer needs.",
            attempt=f"call {name} in a cell of your own, and print what changes from round to round.",
        )
    fail(
        f"{name} ended the Python that it was run in, and returned nothing.",
        why="it exits, or it needs more memory than there is.",
        attempt="let it return its answer.",
    )


def _run(task: dict[str, Any], packed: bytes, lent: list[Any]) -> dict[str, Any]:
    """What the child answers; while it calculates, what was lent is called for it."""
    environment = _ENVIRONMENT | {"OPENBLAS_NUM_THREADS": "1"}  # or it asks for memory for every core
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", alone_child.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    assert child.stdin and child.stdout
    late = False

    def stop() -> None:
        nonlocal late
        late = True
        child.kill()

    timer = threading.Timer(_START, stop)
    try:
        timer.start()
        child.stdin.write(json.dumps(task | {"size": len(packed)}).encode() + b"\n" + packed)
        child.stdin.flush()
        for line in child.stdout:
            message = json.loads(line)
            if "ready" in message:
                timer.cancel()
                timer = threading.Timer(SECONDS, stop)
                timer.start()
            elif "call" in message:
                child.stdin.write(json.dumps(_call(lent, **message)).encode() + b"\n")
                child.stdin.flush()
            else:
                return message
    except (BrokenPipeError, ValueError):  # it has ended, in the middle of a line or of ours
        pass
    finally:
        timer.cancel()
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
    return {"late": late}


def _call(lent: list[Any], call: int, method: str | None, args: Any) -> dict[str, Any]:
    """Call what was lent, or a method of it. What comes back and is not plain is lent too."""

    def lend(value: Any) -> dict[str, int]:
        lent.append(value)
        return {"lent": len(lent) - 1}

    target = lent[call]
    if method:
        if method.startswith("_") or not callable(getattr(type(target), method, None)):
            return {"error": "AttributeError", "text": f"{method} cannot be asked for"}
        target = getattr(target, method)
    try:
        return {"value": alone_child.encode(target(*alone_child.decode(args)), lend)}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}


def _is_elsewhere(fn: Any) -> bool:
    try:
        return fn in written_elsewhere
    except TypeError:  # it cannot be hashed, or nothing can refer to it weakly
        return False


def _written(fn: Any, inner: FunctionType) -> Written:
    """The cell of a function that is here; without a name if it is no function of its cell."""
    file, names = inner.__code__.co_filename, inner.__globals__
    source = "".join(linecache.getlines(file))
    return Written(source, file, _name(fn, names, source) or "", names)


def _python(fn: Any) -> FunctionType | None:
    """The Python function behind a callable: a function, a cached or partial one, an object with `__call__`."""
    fn = inspect.unwrap(getattr(fn, "func", fn))
    if not isinstance(fn, FunctionType):
        fn = vars(type(fn)).get("__call__")
    return fn if isinstance(fn, FunctionType) else None


def _name(fn: Any, names: Mapping[str, Any], source: str) -> str | None:
    """The name under which a cell with this source binds `fn`."""
    bound = _top(source)[0]
    return next((name for name, value in names.items() if value is fn and name in bound), None)


def _top(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds, in its functions by `global` too, and those that it looks up in the notebook."""
    top = symtable.symtable(source, "cell", "exec")
    bound = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    used = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    ahead = top.get_children()
    while ahead:
        table = ahead.pop()
        for symbol in table.get_symbols():
            if symbol.is_global():
                (bound if symbol.is_assigned() or symbol.is_imported() else used).add(symbol.get_name())
        ahead += table.get_children()
    return bound, used


def _taken(source: str) -> set[str]:
    """The names that a cell takes from the rest of the notebook. What it binds, it makes anew."""
    bound, used = _top(source)
    return used - bound


class _Packer(pickle.Pickler):
    """Writes down values of the notebook: what is not plain, and of no library that is there, as missing."""

    def __init__(self, names: Mapping[str, Any]):
        self.stream = io.BytesIO()
        super().__init__(self.stream, protocol=4)
        self.names = {id(value): name for name, value in names.items() if not name.startswith("_")}
        self.lent: list[Any] = []
        self.numpy = False  # whether NumPy is asked for

    def pack(self, known: dict[str, Any], args: tuple, keywords: dict[str, Any]) -> bytes:
        self.lent = [arg for arg in (*args, *keywords.values()) if callable(arg)]
        self.dump((known, args, keywords))
        return self.stream.getvalue()

    def persistent_id(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return None
        for number, lent in enumerate(self.lent):
            if lent is value:
                return "lent", number
        if isinstance(value, ModuleType):
            return ("module", value.__name__) if self._there(value.__name__) else self._missing(value)
        if isinstance(value, jax.Array | jax.sharding.PartitionSpec):
            return None if self.reducer_override(value) is not NotImplemented else self._missing(value)
        named = isinstance(value, FunctionType | BuiltinFunctionType | type | np.ufunc)
        home = "numpy" if isinstance(value, np.ufunc) else (value if named else type(value)).__module__
        return None if self._there(home) and _can_be_pickled(value) else self._missing(value)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, jax.sharding.PartitionSpec):  # a layout is names and None
            return tuple, (list(value),)
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            with contextlib.suppress(TypeError):  # of random keys
                self.numpy = True
                return np.asarray(value).__reduce_ex__(4)
        return NotImplemented

    def _there(self, module: str | None) -> bool:
        root = (module or "").partition(".")[0]
        self.numpy |= root == "numpy"
        return root == "numpy" or (root in sys.stdlib_module_names and root != "__main__")

    def _missing(self, value: Any) -> tuple[str, dict[str, Any]]:
        called = getattr(value, "__name__", "")
        own = isinstance(value, FunctionType | type) and value.__module__ == "__main__"
        name = self.names.get(id(value)) or called or type(value).__name__
        return "missing", {"name": name, "called": called} | ({"own": True} if own else {})


def _can_be_pickled(value: Any) -> bool:
    """Whether a value of a library can travel by itself, whatever it holds."""
    if isinstance(value, FunctionType | type | BuiltinFunctionType | np.ufunc):
        home = sys.modules.get(value.__module__ or "") if not isinstance(value, np.ufunc) else np
        return getattr(home, getattr(value, "__qualname__", value.__name__), None) is value
    try:
        value.__reduce_ex__(4)
    except Exception:
        return False
    return True
