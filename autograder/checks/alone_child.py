"""The process that `run_alone` starts: it runs one cell of the notebook again, and calls one function of it.

Run as a script, with the standard library alone. The cell finds NumPy if it asks for it; all else of the notebook that
is no plain value is `Missing`. What is not calculating, such as files and other programs, is refused. The notebook's
side reads this module for `encode` and `decode`.
"""

import __future__

import ast
import builtins
import errno
import io
import json
import numbers
import os
import pickle
import sys
import types
from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

MEMORY = 4 << 30  # bytes that may be asked for; a list that grows for ever ends here
PROCESSOR = 60  # seconds; should the notebook have gone, nobody else ends it
_OPERATORS = {name for name in {*dir(int), *dir(list), *dir(dict)} - {*dir(object)} if name.startswith("__")} | {
    *("__lt__", "__le__", "__gt__", "__ge__"),
    *("__call__", "__next__", "__enter__", "__matmul__", "__array__", "__instancecheck__", "__mro_entries__"),
}


class Refused(BaseException):
    """The function used `name`, which is not here; no `except Exception` hides that."""

    def __init__(self, name: str, *, own: bool = False, made_with: str = ""):
        self.name = name
        self.own = own  # whether it is a function or a class of the notebook
        self.made_with = made_with  # why its line of the cell could not be run here


class Missing:
    """Something of the notebook that is not here. Its name may be read; whoever uses it is refused."""

    def __init__(self, name: str, *, called: str = "", **known: Any):
        self._refused = lambda name=name: Refused(name, **known)
        self._chained = not known  # `jnp.sin` says more than `jnp`
        if called:
            self.__name__ = self.__qualname__ = called

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        if attribute == "block_until_ready":  # waiting measures nothing: what is lent is awaited like JAX's arrays
            return wait
        raise self._refused(f"{self!r}.{attribute}") if self._chained else self._refused()

    def __repr__(self) -> str:
        return self._refused().name


def _refuse(self: Missing, *args: object, **keywords: object) -> Any:
    raise self._refused()


for _operator in _OPERATORS:
    setattr(Missing, _operator, _refuse)


class Lent:
    """A function or an object of the notebook that was handed in: it is called there, and nothing of it is here."""

    def __init__(self, call: Callable[..., Any]):
        self._call = call

    def __call__(self, *args: Any) -> Any:
        return self._call(None, args)

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(f"{method} of what was lent cannot be read")
        return lambda *args: self._call(method, args)


def wait(tree: Any) -> Any:
    """As `jax.block_until_ready`: wait for all that can be waited for in lists, tuples and dicts."""
    if isinstance(tree, Lent):
        tree.block_until_ready()
    elif isinstance(tree, (list, tuple, Mapping)):
        for branch in tree.values() if isinstance(tree, Mapping) else tree:
            wait(branch)
    return tree


def described(value: Any) -> Any:
    return {"other": [type(value).__name__, repr(value)]}


def encode(value: Any, other: Callable[[Any], Any] = described) -> Any:
    """A value as JSON; `other` writes down what is no number, text, list, tuple, dict or array."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if hasattr(value, "tolist"):  # NumPy's
        return encode(value.tolist(), other)
    if isinstance(value, Enum):
        return encode(value.value, other)
    if isinstance(value, Mapping):
        return {"dict": [[encode(key, other), encode(item, other)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [encode(item, other) for item in value]}
    if isinstance(value, list | range):
        return [encode(item, other) for item in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, numbers.Number):  # of fractions, decimal, or a class of one's own
        return int(value) if value == int(value) else float(value)  # type: ignore[call-overload, arg-type]
    return other(value)


def decode(value: Any, lent: Callable[[int], Any] | None = None) -> Any:
    """The inverse of `encode`. What has no other form than a description gets a class of that name."""
    if isinstance(value, list):
        return [decode(item, lent) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "dict":
        return {decode(key, lent): decode(item, lent) for key, item in content}
    if kind == "tuple":
        return tuple(decode(item, lent) for item in content)
    if kind == "complex":
        return complex(*content)
    if kind == "lent" and lent:
        return lent(content)
    return type(content[0], (), {"__repr__": lambda self: content[1]})()


def main() -> None:
    """Read what to run from standard input, answer on standard output; between the two, call what was lent."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
    sys.stdin, sys.stdout, printed = io.StringIO(), io.StringIO(), io.StringIO()
    task = json.loads(requests.readline())
    prepare(task["numpy"])

    def say(**message: Any) -> None:
        print(json.dumps(message), file=replies, flush=True)

    def lent(number: int) -> Lent:
        def call(method: str | None, args: tuple) -> Any:
            say(call=number, method=method, args=encode(args))
            reply = json.loads(requests.readline())
            if "error" in reply:
                raise getattr(builtins, reply["error"], RuntimeError)(reply["text"])
            return decode(reply["value"], lent)

        return Lent(call)

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, found: Any) -> Any:
            kind, what = found
            if kind == "module":
                return import_module(what)
            return lent(what) if kind == "lent" else Missing(**what)

    try:
        known, args, keywords = Unpickler(io.BytesIO(requests.read(task["size"]))).load()
        tree = pickle.loads(bytes.fromhex(task["tree"])) if "tree" in task else ast.parse(task["source"])
        if first := task.get("first"):
            call_first(first, task["file"], bool(task["numpy"]))
        say(ready=True)
        confine(*task["libraries"])
        names = run_cell(tree, task["file"], known)
        sys.stdout = printed  # what the cell prints has been printed
        say(value=encode(names[task["name"]](*args, **keywords)), printed=printed.getvalue())
    except Refused as refused:
        line = line_of(refused, task["file"])
        say(missing=refused.name, own=refused.own, made_with=refused.made_with, line=line)
    except BaseException as error:
        line, name = line_of(error, task["file"]), getattr(error, "name", None)
        say(error=type(error).__name__, text=str(error), name=name, line=line, printed=printed.getvalue())


def call_first(what: str, *args: Any) -> None:
    """Call a function of this package, "module:function", which needs the standard library alone."""
    package = types.ModuleType("autograder")  # without the names that it has for notebooks
    package.__path__ = [str(Path(__file__).resolve().parents[1])]
    sys.modules["autograder"] = package
    resolve_name(what)(*args)


def run_cell(tree: ast.Module, file: str, known: dict[str, Any]) -> dict[str, Any]:
    """Run the statements of a cell. What one of them binds is `Missing` if it cannot be run here."""
    names: dict[str, Any] = {"__name__": "__main__", **known}
    unevaluated = __future__.annotations.compiler_flag  # a type like jax.Array asks for nothing
    for statement in tree.body:
        try:
            exec(compile(ast.Module([statement], []), file, "exec", unevaluated, dont_inherit=True), names)
        except BaseException as error:
            why = f"uses {error.name}" if isinstance(error, Refused) else f"stops with {type(error).__name__}: {error}"
            made = {} if isinstance(statement, ast.Import | ast.ImportFrom) else {"made_with": why}
            names |= {name: Missing(name, **made) for name in bound_by(statement)}
    return names


def bound_by(statement: ast.stmt) -> set[str]:
    """The names that a statement may bind, those inside it included."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            if node is statement:
                break  # what stands inside is its own; breadth first, so nothing of it has come
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
    return found


def line_of(error: BaseException, file: str) -> int | None:
    """The innermost line of the cell in which `error` arose."""
    line, frame = None, error.__traceback__
    while frame:
        line = frame.tb_lineno if frame.tb_frame.f_code.co_filename == file else line
        frame = frame.tb_next
    return line


def prepare(numpy: str) -> None:
    """Load NumPy from this folder, if one is named, and set the limits."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR, PROCESSOR))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):  # not on Windows, and not on every macOS
        pass
    if numpy:

        class Finder:
            @staticmethod
            def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
                return PathFinder.find_spec(name, [numpy]) if name == "numpy" else None

        sys.meta_path.append(Finder)
        __import__("numpy")


def confine(standard: str, numpy: str) -> None:
    """From now on, refuse all but calculating: files outside the two libraries, other programs, networks."""
    # Not a wall against an attack: it keeps what is not calculating out of a prediction, and says so.
    standard, numpy = (os.path.realpath(place) + os.sep for place in (standard, numpy))
    resolving = False

    def readable(path: Any) -> bool:
        nonlocal resolving
        resolving, before = True, resolving
        try:
            found = os.sep if isinstance(path, int | None) else os.path.realpath(os.fsdecode(path)) + os.sep
        finally:
            resolving = before
        return found.startswith(numpy) or (found.startswith(standard) and f"{os.sep}site-packages" not in found)

    def here_alone(look: Callable[..., Any]) -> Callable[..., Any]:
        """Nothing else is there: not a name either, for a name can hold what was measured."""

        def seen(path: Any, *args: Any, **keywords: Any) -> Any:
            if not resolving and not readable(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return look(path, *args, **keywords)

        return seen

    for name in ("stat", "lstat", "access"):  # of which no hook is told
        setattr(os, name, here_alone(getattr(os, name)))

    def hook(event: str, args: tuple) -> None:
        wing = event.partition(".")[0]
        if event == "open":
            if args[2] & (os.O_WRONLY | os.O_RDWR) or not readable(args[0]):
                raise Refused("open")
        elif wing in ("subprocess", "socket", "ctypes", "pty", "shutil", "webbrowser", "winreg"):
            raise Refused(wing)
        elif wing == "os" and not (event in ("os.listdir", "os.scandir") and readable(args[0])):
            raise Refused(event)  # an import looks into folders

    sys.addaudithook(hook)


if __name__ == "__main__":
    main()
